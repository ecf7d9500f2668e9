"""README's commands work as typed: one server is enough for those run here, the others name their test."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import servers
from harness.command_line import CommandLine, command_line
from pgbillion.server.postgres import Cluster

pytestmark = pytest.mark.quick

PROJECT = Path(__file__).parents[2]
BLOCKS = re.findall(r"(?ms)^```(\w*)\n(.*?)^```$", (PROJECT / "README.md").read_text(encoding="utf-8"))
SQL = [text for kind, text in BLOCKS if kind == "sql"]
# how a command begins, and the test that runs it, or the target of make
ELSEWHERE = {
    "make demo": "cli/test_tables_demo.py::test_demo_twice_then_the_default_server",
    "make test ": "Makefile::test:",
    "make setup": "docs/test_tutorial.py::test_the_tutorial_works_as_written",
    ".venv/bin/pgbillion extension install": "server/test_extension_command.py::test_installed_used_and_uninstalled",
    "make wheels": "server/test_extension_command.py::test_a_wheel_names_its_machines_and_has_libraries_and_sources",
    "pip install": "server/test_extension_command.py::test_it_works_without_what_only_the_demo_needs",
}


def lines() -> list[str]:
    return [line for kind, text in BLOCKS if kind == "sh" for line in text.splitlines()]


def is_elsewhere(line: str) -> bool:
    return any(line.startswith(start) for start in ELSEWHERE)


@pytest.fixture
def cli(cluster: Cluster) -> Iterator[CommandLine]:
    """Where mydb has both extensions and the schema model, and app is where a tenant moves."""
    with (
        servers.new_database(cluster, "mydb") as database,
        servers.new_database(cluster, "app"),
        command_line(cluster, database) as cli,
    ):
        with cli.connect() as conn:
            conn.execute(
                "CREATE EXTENSION IF NOT EXISTS pgbillion_tables; CREATE EXTENSION IF NOT EXISTS pgbillion_rows;"
                " CREATE SCHEMA model; CREATE TABLE model.orders (id bigserial PRIMARY KEY, total numeric)"
            )
        yield cli


def psql(cli: CommandLine, *arguments: str) -> str:
    done = subprocess.run(
        [cli.cluster.installation.program("psql"), "-X", "-v", "ON_ERROR_STOP=1", *arguments, cli.conninfo],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


def test_every_command_is_run_by_a_test() -> None:
    assert len(lines()) >= 10
    for start, test in ELSEWHERE.items():
        assert any(line.startswith(start) for line in lines()), start
        file, _, name = test.partition("::")
        path = PROJECT / file if file == "Makefile" else PROJECT / "tests" / file
        assert re.search(rf"(?m)^(?:def )?{re.escape(name)}", path.read_text(encoding="utf-8")), test
    assert all(line.startswith("pgbillion tenants ") for line in lines() if not is_elsewhere(line))


def test_the_tenants_example_works(cli: CommandLine, tmp_path: Path) -> None:
    script = "\n".join(line for line in lines() if not is_elsewhere(line))
    assert script.count("pgbillion tenants ") == 4
    # fewer tenants, and another database in the place of another machine's
    for typed, here in (("--count 10000", "--count 50"), ("host=db2 dbname=app", cli.cluster.conninfo("app"))):
        assert typed in script
        script = script.replace(typed, here)
    (tmp_path / "add_column.sql").write_text("ALTER TABLE orders ADD COLUMN placed timestamptz")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "pgbillion").symlink_to(PROJECT / ".venv" / "bin" / "pgbillion")
    environment = {
        **cli._env(),
        "PATH": f"{tmp_path / 'bin'}:{cli._env()['PATH']}",
        "PGHOST": str(cli.cluster.socket_dir),
        "PGPORT": str(cli.cluster.port),
        "PGUSER": "postgres",
    }
    # diff ends with 0, as the model was migrated as well
    done = subprocess.run(
        ["bash", "-euc", script], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    with cli.connect() as conn:
        assert servers.one(conn, "SELECT count(*) FROM pg_namespace WHERE nspname ~ '^tenant_'") == 49
        query = "SELECT count(*) FROM pg_attribute WHERE attname = 'placed' AND attnum > 0"
        assert servers.one(conn, query) == 50
    with cli.cluster.connect("app") as conn:
        assert servers.one(conn, "SELECT count(*) FROM tenant_00042.orders") == 0


def test_the_vectorized_example_has_that_plan(cli: CommandLine) -> None:
    with cli.connect() as conn:
        conn.execute(
            "CREATE TABLE t_demo (id integer, grp integer, data real);"
            " INSERT INTO t_demo SELECT i, i % 10, i FROM generate_series(1, 1000000) i"
        )
        conn.autocommit = True
        conn.execute("VACUUM ANALYZE t_demo")
    (plan,) = [text for kind, text in BLOCKS if kind == ""]
    printed = [line.rstrip() for line in psql(cli, "-A", "-t", "-c", SQL[0]).splitlines()]
    assert [line.strip() for line in plan.splitlines()] == [line.strip() for line in printed if line != "LOAD"]


def test_the_tables_example_works(cli: CommandLine) -> None:
    printed = psql(cli, "-A", "-t", "-c", SQL[1])
    assert printed.splitlines()[-3:] == ["tenant_000000", "tenant_000001", "tenant_000002"]

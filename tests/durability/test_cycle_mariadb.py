"""`pgbillion cycle --against mariadb`: a real MariaDB, where there is one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from cycle_support import by_contestant, left_behind, need, tool
from harness import servers
from harness.command_line import CommandLine, failed
from pgbillion.cycle import mariadb
from pgbillion.cycle.plan import Method, Phase, Request
from pgbillion.durability.profiles import Profile
from pgbillion.server.postgres import Cluster

pytestmark = pytest.mark.machine

COUNT = 12


@pytest.fixture
def cli(cluster: Cluster, database: str, cycle_state: Path) -> Iterator[CommandLine]:
    yield CommandLine(cluster, database, cycle_state)
    assert left_behind(cycle_state) == []
    assert [one for one in psutil.process_iter(["cmdline"]) if _is_of(one, cycle_state)] == []


def _is_of(process: psutil.Process, state: Path) -> bool:
    return any(str(state / "cycle-mariadb") in word for word in process.info["cmdline"] or [])


def test_beside_postgresql(cli: CommandLine) -> None:
    need("mariadbd")
    report = cli.json(
        "cycle", "-n", str(COUNT), "--method", "sql,statements,bulk", "--against", "mariadb", server=False
    )
    found = by_contestant(report)
    for profile in Profile:
        for method in ("sql", "statements"):
            phases = found["mariadb", profile, method]
            # InnoDB's .ibd and the server's .frm
            assert phases["create"]["files"] == 2 * COUNT
            assert phases["drop"]["files"] == -2 * COUNT
            assert phases["create"]["wal_bytes"] > 100 * COUNT
            assert all(phase["seconds"] > 0 for phase in phases.values())
        assert ("mariadb", profile, "bulk") not in found
    assert "MariaDB" in report["mariadb"]["version"]
    html = Path(report["report"]).read_text()
    assert "MariaDB, statements" in html
    assert "innodb_flush_log_at_trx_commit = 0" in html


@pytest.mark.parametrize("profile", list(Profile))
def test_a_profile_is_what_the_server_works_with(profile: Profile) -> None:
    need("mariadbd")
    with (
        servers.temporary_folder() as state,
        mariadb.private(state, Request(count=1)) as rival,
        rival.under(profile),
        rival._connect() as conn,
        conn.cursor() as cursor,
    ):
        for name, value in mariadb.PROFILES[profile].items():
            if name == "debug_no_sync":
                continue  # an option without a variable; see the next test
            variable = name.removeprefix("skip_")
            cursor.execute("SHOW GLOBAL VARIABLES LIKE %s", [variable])
            row = cursor.fetchone()
            assert row is not None, variable
            expected = {"log_bin": "OFF" if name.startswith("skip_") else "ON"}.get(variable, value)
            assert row[1] in (expected, {"0": "OFF", "1": "ON"}.get(expected)), variable


def test_the_least_durable_profile_syncs_but_its_log_and_only_at_ddl(cli: CommandLine) -> None:
    need("mariadbd", "strace")
    options = ("--profiles", "full,minimal", "--method", "sql", "--syscalls")
    report = cli.json("cycle", "-n", "30", *options, "--against", "mariadb", server=False)
    found = by_contestant(report)

    def syncs(profile: str, phase: str) -> int:
        calls = found["mariadb", profile, "sql"][phase]["syscalls"]
        return sum(call["calls"] for call in calls if call["name"] in ("fsync", "fdatasync", "msync"))

    for phase in ("create", "drop"):
        # files of tables, definitions, the logs; without durability, no setting keeps InnoDB from syncing its redo log
        assert syncs("full", phase) >= 5 * 30
        # the log is synced by time as well, so that a slow machine has more of both
        assert syncs("minimal", phase) <= syncs("full", phase) / 2
    assert syncs("full", "insert") >= 1
    assert syncs("minimal", "insert") == 0


@pytest.mark.parametrize("method", [Method.SQL, Method.STATEMENTS])
def test_columns_with_quotes_and_rows_by_default(method: Method) -> None:
    need("mariadbd")
    columns = "id INT, t VARCHAR(20) NOT NULL DEFAULT 'it''s \\\\ 1', n INT NOT NULL, PRIMARY KEY (id)"
    request = Request(count=3, columns=columns)
    with servers.temporary_folder() as state, mariadb.private(state, request) as rival, rival.under(Profile.MINIMAL):
        cycle = rival.cycle(method, traced=False)
    assert [one.phase for one in cycle.phases] == list(Phase)


def test_a_definition_of_another_dialect(cli: CommandLine) -> None:
    need("mariadbd")
    done = cli.run(
        "cycle", "-n", "5", "--profiles", "minimal", "--method", "sql", "--columns", "i int, t text[]",
        "--against", "mariadb", server=False,
    )  # fmt: skip
    failed(done, 3, "MariaDB: You have an error in your SQL syntax", "its dialect may not know this definition")


def test_with_a_template(cli: CommandLine) -> None:
    done = cli.run("cycle", "-n", "5", "--template", "t", "--against", "mariadb")
    failed(done, 1, "MariaDB does not have the template", "--columns")


def test_no_mariadb(cli: CommandLine) -> None:
    if tool("mariadbd") is not None and Path("/usr/sbin/mariadbd").exists():
        # looked for there whatever PATH says: then the client is what is missing
        cli.environment["PYTHONPATH"] = str(cli.state / "shadow")
        shadow = cli.state / "shadow"
        shadow.mkdir()
        (shadow / "pymysql.py").write_text("raise ImportError\n")
        done = cli.run("cycle", "-n", "5", "--against", "mariadb", server=False)
        failed(done, 1, "the Python package PyMySQL is not installed", "-m pip install 'pymysql>=")
    else:
        done = cli.run("cycle", "-n", "5", "--against", "mariadb", server=False)
        failed(done, 1, "there is no mariadbd to compare with", "mariadb-server")


def test_a_killed_run_leaves_a_server_that_the_next_one_ends(cli: CommandLine) -> None:
    need("mariadbd")

    environment = {**os.environ, "PGBILLION_STATE": str(cli.state)}
    arguments = ("cycle", "-n", "2000", "--profiles", "full", "--method", "sql", "--against", "mariadb")
    with subprocess.Popen(
        [sys.executable, "-m", "pgbillion", *arguments], env=environment, stderr=subprocess.DEVNULL
    ) as process:
        servers.until(lambda: list((cli.state / "cycle-mariadb" / "data").glob("cycle/*.frm")) or None, "a table", 120)
        process.send_signal(signal.SIGKILL)
    left = [one for one in psutil.process_iter(["cmdline"]) if _is_of(one, cli.state)]
    assert len(left) == 1
    cli.json("cycle", "-n", "3", "--profiles", "minimal", "--method", "sql", "--against", "mariadb", server=False)

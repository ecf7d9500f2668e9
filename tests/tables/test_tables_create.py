"""`pgbillion tables create`: what it makes, what it shows, what it records."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import servers
from harness.command_line import MODELS, CommandLine, command_line, count, expected, names, read_terminal
from pgbillion.server.postgres import Cluster, make_folder

METHODS = ("bulk", "sql")


@pytest.fixture
def cli(cluster: Cluster) -> Iterator[CommandLine]:
    with servers.new_database(cluster, "tables") as database, command_line(cluster, database) as cli:
        yield cli


@pytest.mark.quick
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("columns", MODELS)
def test_makes_exactly_the_tables(cli: CommandLine, method: str, columns: str) -> None:
    done = cli.json(
        "tables",
        "create",
        "--count",
        "123",
        "--jobs",
        "2",
        "--batch",
        "20",
        "--columns",
        columns,
        "--method",
        method,
    )
    assert (done["created"], done["total"]) == (123, 123)
    assert done["tables_per_second"] > 0
    with cli.connect() as conn:
        assert names(conn) == expected(0, 123)
        conn.execute("INSERT INTO _0000007a VALUES (1)")
        assert servers.one(conn, "SELECT count(*) FROM _0000007a") == 1


@pytest.mark.parametrize("method", METHODS)
def test_template_schema_format_and_first(cli: CommandLine, method: str) -> None:
    with cli.connect() as conn:
        conn.execute('CREATE SCHEMA "My Schema"')
        conn.execute('CREATE TABLE "My Template" (id int PRIMARY KEY, t text DEFAULT $$:x$$ CHECK (t <> $$;$$))')
    cli.run(
        "tables", "create", "--count", "50", "--jobs", "2", "--batch", "7", "--method", method, "--first", "95",
        "--template", '"My Template"', "--schema", "My Schema", "--name-format", 'a "%4d" :x %%', check=True,
    )  # fmt: skip
    with cli.connect() as conn:
        assert names(conn, '"My Schema"') == sorted(expected(95, 50, 'a "%4d" :x %%'))
        checks = (
            "SELECT count(*) FROM pg_constraint WHERE contype = 'c' AND connamespace = '\"My Schema\"'::regnamespace"
        )
        assert servers.one(conn, checks) == 50


def test_partitioned_template(cli: CommandLine) -> None:
    with cli.connect() as conn:
        conn.execute(
            "CREATE TABLE parted (i int PRIMARY KEY) PARTITION BY RANGE (i);"
            "CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM (1) TO (9);"
            "CREATE TABLE parted_2 PARTITION OF parted DEFAULT"
        )
    cli.run("tables", "create", "--count", "30", "--jobs", "2", "--batch", "7", "--template", "parted", check=True)
    with cli.connect() as conn:
        assert servers.one(conn, "SELECT count(*) FROM pg_class WHERE relname ~ '^_000000[01][0-9a-f](_[12])?$'") == 90
        conn.execute("INSERT INTO _0000001d VALUES (1), (10)")
        assert servers.one(conn, "SELECT count(DISTINCT tableoid) FROM _0000001d") == 2
    cli.run("tables", "verify", check=True)
    cli.run("tables", "drop", "_000000*", "--yes", check=True)
    with cli.connect() as conn:
        assert servers.one(conn, "SELECT count(*) FROM pg_class WHERE relname ~ '^_000000'") == 0


@pytest.mark.parametrize("method", METHODS)
def test_tablespaces(cli: CommandLine, method: str) -> None:
    folders = [cli.state / "one", cli.state / "two"]
    spread = [option for folder in folders for option in ("--tablespace-dir", str(folder))]
    create = ("tables", "create", "--count", "60", "--jobs", "2", "--batch", "10", "--method", method)
    try:
        cli.run(*create, "--tablespaces", "3", *spread, check=True)
        with cli.connect() as conn:
            rows = conn.execute(
                "SELECT spcname, pg_tablespace_location(s.oid), count(*) FROM pg_class c JOIN pg_tablespace s"
                " ON s.oid = reltablespace WHERE relname ~ '^_' GROUP BY 1, 2 ORDER BY 1"
            ).fetchall()
        assert [(name, folder) for name, folder, _ in rows] == [
            ("_000", str(folders[0] / "_000")),
            ("_001", str(folders[1] / "_001")),
            ("_002", str(folders[0] / "_002")),
        ]
        assert Counter({name: tables for name, _, tables in rows}) == Counter({"_000": 20, "_001": 20, "_002": 20})
        # those that exist are used again, without a folder to make them in
        cli.run(*create, "--tablespaces", "2", "--first", "1000", check=True)
    finally:
        with cli.cluster.connect() as conn:
            conn.execute(f'DROP DATABASE "{cli.database}" WITH (FORCE)')
            for name in ("_000", "_001", "_002"):
                conn.execute(f"DROP TABLESPACE IF EXISTS {name}")


@pytest.mark.quick
def test_records_of_a_run(cli: CommandLine) -> None:
    folder = cli.state / "my run"
    cli.run(
        "tables", "create", "--type", "ORMGW", "--jobs", "2", "--method", "sql", "--sample-interval", "0.2",
        "--run-dir", str(folder), check=True,
    )  # fmt: skip
    plan = json.loads((folder / "plan.json").read_text())
    assert plan["plan"]["count"] == 5000
    assert plan["server"]["settings"]["fsync"] == "off"
    assert plan["server"]["hardware"]["cores"] == os.cpu_count()
    samples = [json.loads(line) for line in (folder / "samples.jsonl").read_text().splitlines()]
    assert len(samples) >= 3
    assert samples[0]["total"] == 0
    assert samples[-1]["total"] == 5000
    assert [worker["finished"] for worker in samples[-1]["workers"]] == [True, True]
    assert sum(worker["tables"] for worker in samples[-1]["workers"]) == 5000
    assert samples[-1]["disk"]["base"] > samples[0]["disk"]["base"]
    assert samples[-1]["disk"]["wal"] > 0
    assert samples[-1]["disk"]["wal_position"] > samples[0]["disk"]["wal_position"]
    assert samples[-1]["disk"]["filesystems"]
    assert samples[-1]["load"]
    memory = [sample["memory"]["largest"] for sample in samples if sample["memory"]["largest"] is not None]
    assert 0 < max(memory) < 256 * 1024 * 1024
    assert any(worker["cpu"] for sample in samples for worker in sample["workers"])
    journal = json.loads((folder / "journal.json").read_text())
    assert [(attempt["outcome"], attempt["total"]) for attempt in journal["attempts"]] == [("done", 5000)]
    assert not list(folder.glob("worker-*.log"))


@pytest.mark.parametrize("method", METHODS)
def test_no_secret_leaves_memory(cli: CommandLine, method: str) -> None:
    secret = "correct-horse-battery-staple"
    with cli.started(
        "tables", "create", "--count", "8000", "--jobs", "2", "--method", method, "--batch", "500",
        "-d", f"{cli.conninfo} password={secret}",
    ) as process:  # fmt: skip
        cli.wait_for_table()
        # our own command line has it, because the test put it there; nobody else's may
        for arguments in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                if int(arguments.parent.name) != process.pid:
                    assert secret.encode() not in arguments.read_bytes()
            except (FileNotFoundError, ProcessLookupError):
                continue
        _, said = process.communicate()
    assert process.returncode == 0
    assert secret not in said
    for file in (cli.state / "runs").rglob("*"):
        assert not file.is_file() or secret not in file.read_text()


def test_ordinary_role(cli: CommandLine) -> None:
    with cli.connect() as conn:
        conn.execute("CREATE ROLE ordinary LOGIN")
        conn.execute("CREATE SCHEMA own AUTHORIZATION ordinary")
    try:
        done = cli.json(
            "tables",
            "create",
            "--count",
            "20",
            "--jobs",
            "2",
            "--method",
            "sql",
            "--schema",
            "own",
            "-U",
            "ordinary",
        )
        assert done["created"] == 20
        checked = cli.run("tables", "verify", done["run"], "-U", "ordinary")
        assert checked.returncode == 0, checked.stderr
        assert re.search(r"ok .* names without a gap: ", checked.stdout)
        refused = cli.run("tables", "create", "--count", "20", "--schema", "own", "--first", "100", "-U", "ordinary")
        assert refused.returncode == 3
        assert "GRANT EXECUTE" in refused.stderr or "permission denied" in refused.stderr
    finally:
        with cli.connect() as conn:
            conn.execute("DROP OWNED BY ordinary")
            conn.execute("DROP ROLE ordinary")


def test_plain_lines_without_a_terminal(cli: CommandLine) -> None:
    done = cli.run(
        "tables",
        "create",
        "--count",
        "6000",
        "--jobs",
        "2",
        "--method",
        "sql",
        "--sample-interval",
        "0.3",
        check=True,
    )
    room, *lines = done.stderr.splitlines()
    assert re.match(r"6,000 tables will take about [\d.]+ MB of disk \(", room)
    assert "\x1b" not in done.stderr + done.stdout
    assert len(lines) >= 2
    assert all(
        re.search(r"[\d,]+ of 6,000 tables \(\d+\.\d%\), [\d,]+/s now, [\d,]+/s on average, left", line)
        for line in lines
    )
    assert "6,000 of 6,000 tables (100.0%)" in lines[-1]
    assert done.stdout.startswith("6,000 tables created in ")


@pytest.mark.parametrize("color", [True, False])
def test_live_display_on_a_terminal(cli: CommandLine, color: bool) -> None:
    environment = {**cli._env(), "TERM": "xterm-256color", "COLUMNS": "100", **({} if color else {"NO_COLOR": "1"})}
    leader, follower = pty.openpty()
    command = cli._argv(("tables", "create", "--count", "4000", "--jobs", "2", "--method", "sql"), True)
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=follower) as process:
        os.close(follower)
        seen = read_terminal(leader)
        assert process.wait() == 0
    os.close(leader)
    for word in ("worker 1", "worker 2", "average", "left", "backend", "4,000", "100.0%"):
        assert word in seen
    assert ("\x1b[2K" in seen) or ("\x1b[1A" in seen)  # it repaints
    colors = re.findall(r"\x1b\[[0-9;]*3[0-7][0-9;]*m|\x1b\[[0-9;]*9[0-7]m|\x1b\[38", seen)
    assert bool(colors) is color


def test_no_more_workers_than_tables_by_default(cli: CommandLine) -> None:
    cli.run("tables", "create", "--type", "SLST", check=True)
    with cli.connect() as conn:
        assert count(conn) == 1


def test_folder_for_the_server(cli: CommandLine) -> None:
    """A tablespace folder that exists and is the server's is used as it is."""
    folder = cli.state / "given"
    make_folder(folder / "_000", private=True, for_server=True)
    try:
        cli.run("tables", "create", "--count", "5", "--tablespaces", "1", "--tablespace-dir", str(folder), check=True)
    finally:
        with cli.cluster.connect() as conn:
            conn.execute(f'DROP DATABASE "{cli.database}" WITH (FORCE)')
            conn.execute("DROP TABLESPACE IF EXISTS _000")

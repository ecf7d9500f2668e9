"""`pgbillion cycle`: real runs with few tables, on a server of its own and on the user's."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cycle_support import PHASES, by_contestant, left_behind, need
from harness import servers
from harness.command_line import CommandLine, failed
from harness.conserved import contents, difference
from pgbillion.common.errors import UserError
from pgbillion.cycle import syscalls
from pgbillion.cycle.plan import SystemCall
from pgbillion.server.postgres import Cluster

COUNT = 40


@pytest.fixture
def cli(cluster: Cluster, database: str, cycle_state: Path) -> Iterator[CommandLine]:
    cli = CommandLine(cluster, database, cycle_state)
    with cluster.connect(database) as conn:
        conn.execute("CREATE EXTENSION IF NOT EXISTS pgbillion_tables")
        before = contents(conn)
        shared = databases(cli)
        yield cli
        assert difference(before, contents(conn)) == []
        assert databases(cli) == shared
        assert left_behind(cycle_state) == []


def databases(cli: CommandLine) -> set[str]:
    with cli.connect() as conn:
        return {name for (name,) in conn.execute("SELECT datname FROM pg_database")}


def test_all_profiles_and_methods_on_a_server_of_its_own(cli: CommandLine) -> None:
    options = ("-n", str(COUNT), "--method", "sql,statements,bulk", "--rounds", "2", "--warm-up", "1")
    report = cli.json("cycle", *options, server=False)
    found = by_contestant(report)
    assert set(found) == {
        ("postgresql", profile, method)
        for profile in ("full", "async", "minimal")
        for method in ("sql", "statements", "bulk")
    }
    for phases in found.values():
        for one in phases.values():
            assert len(one["seconds_of_rounds"]) == 2
            assert one["seconds"] > 0
            assert one["tables_per_second"] == pytest.approx(COUNT / one["seconds"], rel=1e-3)
        # a table and its primary key
        assert phases["create"]["files"] >= 2 * COUNT
        assert phases["drop"]["files"] <= -2 * COUNT
        assert phases["create"]["wal_bytes"] > 1000 * COUNT
        assert phases["drop"]["wal_bytes"] > 100 * COUNT
    html = Path(report["report"]).read_text()
    assert html.count('<div class="bars">') == 4
    assert html.count('<div class="bar s') == 4 * len(found)
    for phase in PHASES:
        assert f"<figcaption><h3>{phase.capitalize()}</h3>" in html
    assert "http://" not in html.replace("http://www.w3.org/", "")
    assert "wal_level = minimal" in html


def test_the_table_for_people(cli: CommandLine, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    done = cli.run("cycle", "-n", "20", "--profiles", "full", "-o", str(page), server=False, check=True)
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["profile", "method", "phase", "time", "tables/s", "WAL", "files"]
    assert [line.split()[:3] for line in lines[1:9]] == [
        ["full", method, phase] for method in ("sql", "bulk") for phase in PHASES
    ]
    assert lines[9].startswith("bulk compared with sql, full: create ")
    assert lines[10] == "20 tables (id INT, PRIMARY KEY (id)); they are gone"
    assert lines[11] == f"report: {page}"
    assert "full, bulk, round 1: create" in done.stderr
    assert page.exists()


@pytest.mark.parametrize("method", ["sql", "statements", "bulk"])
def test_columns_get_rows_made_up_for_them(cli: CommandLine, method: str) -> None:
    columns = "id serial primary key, t text NOT NULL, data jsonb, n int GENERATED ALWAYS AS (1) STORED"
    found = by_contestant(
        cli.json("cycle", "-n", "9", "--profiles", "minimal", "--method", method, "--columns", columns, server=False)
    )
    # table, its TOAST table and that one's index, primary key, sequence
    assert found["postgresql", "minimal", method]["create"]["files"] >= 5 * 9


def test_a_template_of_the_users_server(cli: CommandLine) -> None:
    with cli.connect() as conn:
        conn.execute("CREATE SCHEMA model")
        conn.execute("CREATE TABLE model.orders (id int PRIMARY KEY, what text DEFAULT 'x')")
        try:
            for method in ("sql", "statements", "bulk"):
                report = cli.json(
                    "cycle", "-n", "30", "--profiles", "async", "--method", method, "--template", "model.orders"
                )
                assert report["definition"] == "LIKE model.orders"
                (phases,) = by_contestant(report).values()
                assert phases["create"]["files"] >= 4 * 30
            others = "SELECT count(*) FROM pg_namespace WHERE nspname ~ '^pgbillion_(?!tables|rows)'"
            assert servers.one(conn, others) == 0
        finally:
            conn.execute("DROP SCHEMA model CASCADE")


def test_the_users_server_is_put_under_profiles_by_windows(cli: CommandLine) -> None:
    """The test's server has fsync = off: under profile full it is on meanwhile, and off again afterwards."""
    with cli.connect() as conn:
        before = conn.execute("SELECT name, setting, source FROM pg_settings ORDER BY 1").fetchall()
        report = cli.json("cycle", "-n", "20", "--profiles", "full,async", "--method", "sql")
        assert {profile for _, profile, _ in by_contestant(report)} == {"full", "async"}
        after = conn.execute("SELECT name, setting, source FROM pg_settings ORDER BY 1").fetchall()
        assert after == before


def test_a_profile_that_needs_a_restart_of_the_users_server(cli: CommandLine) -> None:
    done = cli.run("cycle", "-n", "20", "--profiles", "full,minimal")
    failed(done, 1, "profile minimal needs wal_level = minimal", "pgbillion durability relax --profile minimal")
    assert "round 1" not in done.stderr


def test_too_few_locks(cli: CommandLine) -> None:
    done = cli.run("cycle", "-n", "1000000", "--profiles", "async", "--method", "sql")
    failed(done, 1, "max_locks_per_transaction = 1,000 is too small", "set max_locks_per_transaction = ")
    wanted = int(done.stderr.split("set max_locks_per_transaction = ")[1].split()[0])
    with cli.connect() as conn:
        slots = servers.one(
            conn,
            "SELECT sum(setting::bigint) FROM pg_settings WHERE name = ANY (%s)",
            ["max_connections", "max_prepared_transactions", "max_worker_processes", "max_wal_senders"],
        )
    # at least five locks a table: the table, its index, two types, a constraint
    assert wanted * (slots + 20) > 5_000_000


def test_what_the_preflight_says_is_enough_and_less_is_not(cli: CommandLine) -> None:
    """The least value is found on a server whose lock table is smaller than the run; that value then does."""
    small = ("--setting", "max_connections=10", "--setting", "max_worker_processes=1", "--setting", "max_wal_senders=1")
    run = ("cycle", "-n", "3000", "--profiles", "full", "--method", "sql,bulk", *small)
    done = cli.run(*run, "--setting", "max_locks_per_transaction=64", server=False)
    failed(done, 1, "max_locks_per_transaction = 64 is too small: method sql", "set max_locks_per_transaction = ")
    wanted = done.stderr.split("set max_locks_per_transaction = ")[1].split()[0]
    report = cli.json(*run, "--setting", f"max_locks_per_transaction={wanted}", server=False)
    assert report["locks"]["setting"] == int(wanted)
    # and without being told, the cycle's own server gets it
    assert cli.json(*run, server=False)["locks"]["wanted"] == int(wanted)


@pytest.mark.parametrize(
    ("arguments", "status", "error", "hint"),
    [
        (("--profiles", "safe"), 1, '--profiles does not know "safe"', "full,async,minimal"),
        (("--method", "sql,fast"), 1, '--method does not know "fast"', "sql,statements,bulk"),
        (("--count", "0"), 1, "at least 1", None),
        (("--count", "many"), 1, '"many" is not a number of tables', None),
        (("--setting", "shared_buffers"), 1, "--setting takes NAME=VALUE", None),
        (("--setting", "no_such_setting=1"), 2, "unrecognized configuration parameter", "choose another --setting"),
        (("--columns", "i integre"), 3, 'type "integre" does not exist', None),
        (("--columns", "i int CHECK (i = 7)"), 3, "do not satisfy the tables' constraints", "other --columns"),
        (("--columns", "i int REFERENCES table1"), 3, 'relation "table1" does not exist', None),
    ],
)
def test_arguments(cli: CommandLine, arguments: tuple[str, ...], status: int, error: str, hint: str | None) -> None:
    done = cli.run("cycle", "-n", "10", *arguments, server=False)
    assert done.returncode == status, done.stderr
    assert "Traceback" not in done.stderr
    errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1, done.stderr
    assert error in errors[0]
    assert hint is None or hint in done.stderr


@pytest.mark.parametrize(
    ("template", "status", "error"),
    [
        ("no_such_table", 3, 'template table "no_such_table" does not exist'),
        ("pg_tables", 3, "is not an ordinary table"),
        ("with_foreign_key", 3, "foreign key"),
    ],
)
def test_bad_templates(cli: CommandLine, template: str, status: int, error: str) -> None:
    with cli.connect() as conn:
        conn.execute("CREATE TABLE parent (i int PRIMARY KEY)")
        conn.execute("CREATE TABLE with_foreign_key (i int REFERENCES parent)")
        try:
            done = cli.run("cycle", "-n", "10", "--profiles", "async", "--template", template)
        finally:
            conn.execute("DROP TABLE with_foreign_key, parent")
    assert done.returncode == status, done.stderr
    assert error in done.stderr
    assert "Traceback" not in done.stderr


def test_no_privilege(cli: CommandLine) -> None:
    with cli.connect() as conn:
        conn.execute("CREATE ROLE may_not LOGIN")
        try:
            done = cli.run("cycle", "-n", "10", "--profiles", "async", "--method", "sql", "-U", "may_not")
            assert done.returncode != 0
            assert "Traceback" not in done.stderr
            assert "error: " in done.stderr
        finally:
            conn.execute("DROP ROLE may_not")


def files(data: Path) -> int:
    """How many there are in the databases of a server that makes and removes some."""
    return sum(len(names) for _, _, names in os.walk(data / "base"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted(cli: CommandLine, number: signal.Signals) -> None:
    """Whichever signal ends it: its server is gone, which the fixture checks, and no process of it is left."""
    environment = {**os.environ, "PGBILLION_STATE": str(cli.state)}
    for name in [
        name for name in environment if name.startswith("PG") and name not in ("PG_CONFIG", "PGBILLION_STATE")
    ]:
        del environment[name]
    command = [sys.executable, "-m", "pgbillion", "cycle", "-n", "30000", "--profiles", "full", "--method", "sql"]
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
        data = cli.state / "cycle-server" / "data"
        servers.until(lambda: files(data) > 2000, "some tables")
        process.send_signal(number)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert said.splitlines()[-1] == "error: interrupted"


def test_what_a_killed_run_has_left_is_removed_by_the_next(cli: CommandLine) -> None:
    environment = {**os.environ, "PGBILLION_STATE": str(cli.state)}
    command = [sys.executable, "-m", "pgbillion", "cycle", "-n", "30000", "--profiles", "full", "--method", "sql"]
    with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) as process:
        data = cli.state / "cycle-server" / "data"
        servers.until(lambda: files(data) > 2000, "some tables")
        process.kill()
    postmaster = int((data / "postmaster.pid").read_text().split()[0])
    assert Path(f"/proc/{postmaster}").exists()
    cli.json("cycle", "-n", "10", "--profiles", "minimal", "--method", "sql", server=False)
    assert not Path(f"/proc/{postmaster}").exists() or "Z" in Path(f"/proc/{postmaster}/stat").read_text()


def test_only_one_at_a_time(cli: CommandLine) -> None:
    environment = {**os.environ, "PGBILLION_STATE": str(cli.state)}
    command = [sys.executable, "-m", "pgbillion", "cycle", "-n", "30000", "--profiles", "full", "--method", "sql"]
    with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) as process:
        try:
            servers.until((cli.state / "cycle-server" / "data").exists, "its server")
            failed(cli.run("cycle", "-n", "10", server=False), 1, "another cycle is running", "wait for it")
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(60)


@pytest.mark.machine
def test_system_calls(cli: CommandLine) -> None:
    need("strace")
    report = cli.json("cycle", "-n", str(COUNT), "--profiles", "full,minimal", "--syscalls", server=False)
    for (_, profile, method), phases in by_contestant(report).items():
        calls = {phase: {call["name"]: call for call in phases[phase]["syscalls"]} for phase in PHASES}
        # each relation's file is cut at commit, and four that it does not have are looked for
        assert calls["drop"]["truncate"]["calls"] == 2 * 5 * COUNT, (profile, method)
        assert calls["drop"]["truncate"]["errors"] == 2 * 4 * COUNT
        assert calls["create"]["openat"]["calls"] >= 2 * COUNT
        syncing = {"fsync", "fdatasync", "sync_file_range"} & set().union(*calls.values())
        assert bool(syncing) == (profile == "full"), (profile, method, syncing)
        assert len(phases["drop"]["seconds_of_rounds"]) == 1
    html = Path(report["report"]).read_text()
    assert "System calls" in html
    assert "<td>truncate</td>" in html


@pytest.mark.machine
def test_no_strace(cli: CommandLine) -> None:
    with servers.temporary_folder() as folder:
        (folder / "apt-get").symlink_to("/bin/true")
        cli.environment["PATH"] = str(folder)
        done = cli.run("cycle", "-n", "10", "--syscalls", server=False)
    failed(done, 1, "there is no strace", "apt-get install --yes strace")


@pytest.mark.machine
def test_a_process_that_may_not_be_traced() -> None:
    need("strace")
    with subprocess.Popen(["sleep", "60"]) as process:
        try:
            # a process has one tracer at most
            with syscalls.Tracer(process.pid), pytest.raises(UserError) as raised:
                syscalls.check(process.pid)
        finally:
            process.kill()
    assert "strace may not look at process" in raised.value.message
    assert "ptrace_scope" in (raised.value.hint or "")


def test_what_strace_prints() -> None:
    summary = """\
% time     seconds  usecs/call     calls    errors syscall
------ ----------- ----------- --------- --------- ----------------
 69.45    0.330171           6     60000           ftruncate
 17.79    0.084591           0    300009    180000 open
------ ----------- ----------- --------- --------- ----------------
100.00    0.475379                541154    240000 total
"""
    assert syscalls.parse(summary) == (
        SystemCall("ftruncate", 60000, 0, 0.330171),
        SystemCall("open", 300009, 180000, 0.084591),
    )

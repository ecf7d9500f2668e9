"""`pgbillion tables drop`: what goes, what is refused before anything goes, and how it goes on."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from harness import conserved, invariants, servers
from harness.command_line import MODELS, CommandLine, command_line, count, expected, failed, names
from pgbillion.server.postgres import Cluster, Installation

pytestmark = pytest.mark.majors

METHODS = ("bulk", "sql")
DROP = ("tables", "drop")


@pytest.fixture
def cli(cluster: Cluster) -> Iterator[CommandLine]:
    with servers.new_database(cluster, "drops") as database, command_line(cluster, database) as cli:
        yield cli
        with cli.connect() as conn:
            assert invariants.index_errors(conn) == []
            assert invariants.reference_errors(conn) == []


def make(cli: CommandLine, number: int = 30, pattern: str = "_%08x", schema: str = "public", more: str = "") -> None:
    with cli.connect() as conn:
        conn.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")
        conn.execute("CREATE TEMPORARY TABLE template (i integer)")
        conn.execute(
            f"SELECT pgbillion_tables.create_tables('template', %s, 0, %s, schema => %s::regnamespace {more})",
            [pattern, number, schema],
        )


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("storage", ["heap", "lazy"])
def test_every_catalogue_holds_what_it_held_before(cli: CommandLine, method: str, storage: str) -> None:
    with cli.connect() as conn:
        # the mark for pg_upgrade stays
        conn.execute("CREATE TABLE marking (i integer) USING lazy_heap")
        conn.execute("DROP TABLE marking")
        before = conserved.contents(conn)
        for number, columns in enumerate(MODELS):
            options = ("--name-format", f"model{number}_%d", "--columns", columns, "--storage", storage)
            cli.run("tables", "create", "--count", "60", "--jobs", "2", *options, check=True)
        assert conserved.difference(before, conserved.contents(conn)) != []
        # some have rows: then they have files and statistics
        for number in range(3):
            conn.execute(f"INSERT INTO model{number}_7 VALUES (1)")
        done = cli.json(*DROP, "model*", "--schema", "public", "--yes", "--method", method)
        assert (done["selected"], done["dropped"]) == (180, 180)
        assert conserved.difference(before, conserved.contents(conn)) == []
        conn.execute("CHECKPOINT")
        assert invariants.orphans(cli.cluster.data, conn) == set()


@pytest.mark.parametrize("method", METHODS)
def test_what_a_pattern_a_schema_and_a_range_select(cli: CommandLine, method: str) -> None:
    for schema in ("public", "a", "b"):
        make(cli, schema=schema)
    how = ("--yes", "--method", method)
    assert cli.json(*DROP, "_0000000?", "--schema", "a", *how)["dropped"] == 16
    with cli.connect() as conn:
        assert names(conn, "a") == expected(16, 14)
        assert names(conn) == names(conn, "b") == expected(0, 30)
    # a pattern without a schema: wherever such tables are
    assert cli.json(*DROP, "_0000001*", *how)["dropped"] == 14 * 3
    # numbered names: in the current schema
    assert cli.json(*DROP, "--first", "3", "--count", "5", *how)["dropped"] == 5
    with cli.connect() as conn:
        assert names(conn) == expected(0, 3) + expected(8, 8)
        assert names(conn, "a") == []
        assert names(conn, "b") == expected(0, 16)
    assert cli.json(*DROP, "--schema", "b", *how)["dropped"] == 16
    # again: nothing is left to do, and that is no error
    again = cli.run(*DROP, "--schema", "b", *how)
    assert (again.returncode, again.stdout) == (0, "no table matches\n")
    # numbers whose order is not that of the names' bytes
    make(cli, 120, "t%d", "c")
    count_and_format = ("--first", "8", "--count", "95", "--name-format", "t%d", "--schema", "c")
    assert cli.json(*DROP, *count_and_format, *how)["dropped"] == 95
    with cli.connect() as conn:
        assert names(conn, "c") == sorted(f"t{number}" for number in (*range(8), *range(103, 120)))


@pytest.mark.parametrize("method", METHODS)
def test_batches_and_workers(cli: CommandLine, method: str) -> None:
    make(cli, 500)
    options = ("--batch", "7", "--jobs", "3", "--method", method, "--yes")
    done = cli.json(*DROP, "--schema", "public", *options)
    assert (done["dropped"], done["batch"], done["workers"]) == (500, 7, 3)
    with cli.connect() as conn:
        assert names(conn) == []


def test_dry_run(cli: CommandLine) -> None:
    make(cli)
    done = cli.run(*DROP, "--schema", "public", "--dry-run", check=True)
    assert done.stdout.splitlines()[:2] == ["30 tables of schema public would be dropped:", "  public._00000000"]
    assert done.stdout.splitlines()[-1] == "  … and 20 more"
    report = cli.json(*DROP, "--schema", "public", "--dry-run")
    assert report["selected"] == 30
    assert report["schemas"] == {"public": 30}
    assert report["first"] == [f"public.{name}" for name in expected(0, 10)]
    with cli.connect() as conn:
        assert count(conn) == 30


def test_no_terminal_and_no_yes(cli: CommandLine) -> None:
    make(cli)
    failed(cli.run(*DROP, "--schema", "public"), 1, "there is no terminal to ask at", "--yes")
    with cli.connect() as conn:
        assert count(conn) == 30


@pytest.mark.parametrize(("answer", "left"), [("n", 30), ("y", 0)])
def test_confirmation_on_a_terminal(cli: CommandLine, answer: str, left: int) -> None:
    make(cli)
    ours, theirs = pty.openpty()
    argv = [sys.executable, "-m", "pgbillion", *DROP, "--schema", "public", "-d", cli.conninfo]
    environment = {**os.environ, "PGBILLION_STATE": str(cli.state), "TERM": "xterm", "COLUMNS": "200"}
    with subprocess.Popen(argv, env=environment, stdin=theirs, stdout=subprocess.PIPE, stderr=theirs) as process:
        os.close(theirs)
        said = b""
        while b"[y/N]" not in said:
            said += os.read(ours, 1000)
        assert b"drop 30 tables of schema public (public._00000000, public._00000001," in said
        os.write(ours, f"{answer}\n".encode())
        process.communicate(timeout=60)
    os.close(ours)
    assert process.returncode == 0
    with cli.connect() as conn:
        assert count(conn) == left


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ((), "say which tables to drop"),
        (("a*", "--count", "5"), "either a pattern or numbered names"),
        (("--schema", "public", "--first", "5"), "numbered names need --count"),
        (("--schema", "public", "--name-format", "t%d"), "numbered names need --count"),
        (("--count", "0"), "at least 1"),
        (("--count", "5", "--name-format", "t"), "no number in it"),
        (("--schema", "public", "--batch", "many"), '--batch is "auto" or a number'),
        (("--schema", "public", "--batch", "0"), "at least 1"),
        (("--schema", "public", "--jobs", "0"), "number of jobs must be between"),
        (('a"b',), "unterminated quoted string in pattern"),
    ],
)
def test_arguments(cli: CommandLine, arguments: tuple[str, ...], error: str) -> None:
    done = cli.run(*DROP, *arguments, "--yes")
    assert done.returncode == 1, done.stderr
    assert done.stderr.startswith("error: ")
    assert error in done.stderr.splitlines()[0]


def test_schema_that_does_not_exist(cli: CommandLine) -> None:
    failed(cli.run(*DROP, "--schema", "nothing", "--yes"), 3, 'schema "nothing" does not exist')


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("arguments", [("pg_class",), ("*",), ("?*",), ("--schema", "pg_catalog"), ("sql*",)])
def test_system_catalogues(cli: CommandLine, arguments: tuple[str, ...], method: str) -> None:
    make(cli)
    done = cli.run(*DROP, *arguments, "--yes", "--cascade", "--method", method)
    failed(done, 3, "system catalog", "nothing was dropped")
    with cli.connect() as conn:
        assert count(conn) == 30


@pytest.mark.parametrize("method", METHODS)
def test_members_of_extensions(cli: CommandLine, method: str) -> None:
    make(cli)
    with cli.connect() as conn:
        conn.execute("CREATE TABLE _member (i int); ALTER EXTENSION pgbillion_tables ADD TABLE _member")
        done = cli.run(*DROP, "--schema", "public", "--yes", "--cascade", "--method", method)
        failed(done, 3, "table public._member belongs to the extension pgbillion_tables", "nothing was dropped")
        assert count(conn) == 30
        conn.execute("ALTER EXTENSION pgbillion_tables DROP TABLE _member")


@pytest.mark.parametrize("method", METHODS)
def test_privileges(cli: CommandLine, method: str) -> None:
    make(cli)
    with cli.connect() as conn:
        conn.execute("CREATE ROLE somebody LOGIN")
        conn.execute("GRANT CREATE ON SCHEMA public TO somebody")
        conn.execute("GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA pgbillion_tables TO somebody")
        conn.execute("ALTER TABLE _00000000 OWNER TO somebody; ALTER TABLE _00000001 OWNER TO somebody")
        conn.execute("CREATE SCHEMA theirs AUTHORIZATION somebody; CREATE TABLE theirs.t (i int)")
        try:
            how = ("--yes", "--method", method, "-U", "somebody")
            done = cli.run(*DROP, "--schema", "public", *how)
            failed(done, 3, "must be owner of table public._00000002 (and of 27 more that match)")
            assert count(conn) == 30
            cli.run(*DROP, "--count", "2", *how, check=True)
            assert count(conn) == 28
            # the owner of a schema may drop what others have made in it
            cli.run(*DROP, "--schema", "theirs", *how, check=True)
        finally:
            conn.execute("DROP OWNED BY somebody; DROP ROLE somebody")


@pytest.mark.parametrize("method", METHODS)
def test_table_in_use(cli: CommandLine, method: str) -> None:
    make(cli)
    drop = (*DROP, "--schema", "public", "--yes", "--method", method)
    with cli.connect() as other, cli.connect() as conn:
        with other.transaction():
            other.execute("SELECT FROM _00000011")
            done = cli.run(*drop)
            failed(
                done, 3, f"table public._00000011 is in use by session {other.info.backend_pid}", "pg_terminate_backend"
            )
            assert "nothing was dropped" in done.stderr
            assert count(conn) == 30
        other.execute("BEGIN; INSERT INTO _00000012 VALUES (1); PREPARE TRANSACTION 'p'")
        failed(cli.run(*drop), 3, "table public._00000012 is in use by a prepared transaction", "pg_prepared_xacts")
        assert count(conn) == 30
        other.execute("COMMIT PREPARED 'p'")
        # tables of other names are none of its business
        with other.transaction():
            other.execute("CREATE TABLE elsewhere (i int); LOCK TABLE elsewhere")
            cli.run(*DROP, "_*", "--schema", "public", "--yes", "--method", method, check=True)
        assert names(conn) == ["elsewhere"]


@pytest.mark.parametrize("method", METHODS)
def test_dependants(cli: CommandLine, method: str) -> None:
    make(cli)
    drop = (*DROP, "--schema", "public", "--yes", "--method", method, "--batch", "10", "--jobs", "1")
    with cli.connect() as conn:
        conn.execute("CREATE VIEW looks AS SELECT * FROM _0000000f")
        done = cli.run(*drop)
        failed(done, 3, "view public.looks depends on table public._0000000f", "--cascade")
        assert "10 of 30 tables were dropped" in done.stderr
        assert names(conn) == expected(10, 20)
        assert cli.json(*drop, "--cascade")["dropped"] == 20
        assert servers.one(conn, "SELECT to_regclass('looks')") is None


@pytest.mark.parametrize("method", METHODS)
def test_partitions_foreign_keys_and_odd_names(cli: CommandLine, method: str) -> None:
    with cli.connect() as conn:
        before = conserved.contents(conn)
        conn.execute('CREATE SCHEMA "Odd ""one"""')
        conn.execute('SET search_path = "Odd ""one"""')
        conn.execute('CREATE TABLE "a;b" (i int PRIMARY KEY)')
        conn.execute('CREATE TABLE "é%s" (i int REFERENCES "a;b")')
        conn.execute("CREATE TABLE parted (i int) PARTITION BY RANGE (i)")
        conn.execute("CREATE TABLE part PARTITION OF parted FOR VALUES FROM (1) TO (2)")
        conn.execute("CREATE TABLE base (i int); CREATE TABLE child () INHERITS (base)")
        done = cli.json(*DROP, "--schema", 'Odd "one"', "--yes", "--method", method)
        assert done["dropped"] == 6
        conn.execute('DROP SCHEMA "Odd ""one"""')
        assert conserved.difference(before, conserved.contents(conn)) == []


def test_temporary_tables_of_others_are_left_alone(cli: CommandLine) -> None:
    make(cli)
    with cli.connect() as other:
        other.execute("CREATE TEMPORARY TABLE _00000000 (i int)")
        assert cli.json(*DROP, "_*", "--yes", "--schema", "public")["dropped"] == 30
        make(cli)
        assert cli.json(*DROP, "_0*", "--yes")["dropped"] == 30
        assert servers.one(other, "SELECT count(*) FROM pg_temp._00000000") == 0


@contextmanager
def held_up(cli: CommandLine) -> Iterator[None]:
    """Every drop waits meanwhile: it must read a catalogue that somebody else has for himself."""
    with cli.connect() as conn, conn.transaction():
        conn.execute("LOCK TABLE pg_description IN ACCESS EXCLUSIVE MODE")
        yield


def waiting(cli: CommandLine) -> int:
    """Wait until a worker waits for a lock, and return its process."""
    query = "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND application_name ~ '^pgbillion worker'"
    with cli.connect() as conn:
        return int(servers.until(lambda: servers.one(conn, query), "a worker to wait"))


def test_ctrl_c_and_going_on(cli: CommandLine) -> None:
    make(cli, 1000)
    drop = (*DROP, "_*", "--schema", "public", "--yes", "--batch", "100")
    with held_up(cli), cli.started(*drop) as process:
        waiting(cli)
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130, stderr
    assert "error: interrupted: 0 of 1,000 tables were dropped" in stderr
    assert "hint: go on with: " in stderr
    assert "tables drop --schema public --batch 100 --yes '_*'" in stderr
    assert cli.json(*drop)["dropped"] == 1000


def test_lost_connection(cli: CommandLine) -> None:
    make(cli, 300)
    drop = (*DROP, "_*", "--schema", "public", "--yes", "--batch", "100")
    with held_up(cli), cli.started(*drop) as process, cli.connect() as conn:
        conn.execute("SELECT pg_terminate_backend(%s)", [waiting(cli)])
        _, stderr = process.communicate(timeout=60)
    assert process.returncode == 2, stderr
    assert "nothing was dropped" in stderr
    assert "go on with: " in stderr
    assert cli.json(*drop)["dropped"] == 300


def test_fewer_locks_than_tables(installation: Installation) -> None:
    """Batches are made to fit, also when the tables met first are simpler than those met later."""
    settings = {"max_locks_per_transaction": "10", "max_connections": "10", "max_prepared_transactions": "0"}
    with servers.new_cluster(installation, settings) as cluster, command_line(cluster, "template1") as cli:
        for method in METHODS:
            make(cli, 1200)
            with cli.connect() as conn:
                columns = ", ".join(f"c{number} serial" for number in range(20))
                conn.execute(f"CREATE TABLE template (t text PRIMARY KEY, {columns})")
                for number in range(2, 52):
                    conn.execute("SELECT pgbillion_tables.create_tables('template', 'z%%d', %s, 1)", [number])
                conn.execute("DROP TABLE template")
            done = cli.json(*DROP, "--schema", "public", "--yes", "--jobs", "1", "--method", method)
            assert done["dropped"] == 1250
            assert done["batch"] < 100
        make(cli, 1200)
        failed(cli.run(*DROP, "--schema", "public", "--yes", "--batch", "1200"), 3, "nothing was dropped")


def test_event_triggers(cli: CommandLine) -> None:
    make(cli)
    with cli.connect() as conn:
        conn.execute("CREATE FUNCTION seen() RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN END'")
        conn.execute("CREATE EVENT TRIGGER sees ON sql_drop EXECUTE FUNCTION seen()")
        done = cli.run(*DROP, "--schema", "public", "--yes")
        failed(done, 3, "event triggers on sql_drop would not see each table", "--allow-unobserved")
        assert count(conn) == 30
        cli.run(*DROP, "--count", "10", "--yes", "--method", "sql", check=True)
        cli.run(*DROP, "--schema", "public", "--yes", "--allow-unobserved", check=True)
        assert count(conn) == 0


def test_without_the_extension(cli: CommandLine) -> None:
    make(cli)
    with cli.connect() as conn:
        conn.execute("DROP EXTENSION pgbillion_tables")
    done = cli.run(*DROP, "_*", "--yes", "--schema", "public")
    assert done.returncode == 0, done.stderr
    assert "30 tables dropped" in done.stdout
    assert "note: without the extension" in done.stderr


def test_read_only(cli: CommandLine) -> None:
    with cli.connect() as conn:
        conn.execute(f"ALTER DATABASE {cli.database} SET default_transaction_read_only = on")
    failed(cli.run(*DROP, "--schema", "public", "--yes"), 3, "read-only", "default_transaction_read_only")


def test_create_with_storage(cli: CommandLine) -> None:
    for method in METHODS:
        pattern = f"{method}%d"
        options = ("--count", "10", "--method", method, "--name-format", pattern)
        cli.run("tables", "create", *options, "--storage", "lazy", check=True)
        cli.run("tables", "create", *options, "--first", "10", check=True)
    with cli.connect() as conn:
        found: dict[str, int] = dict(
            conn.execute(
                "SELECT amname, count(*) FROM pg_class c JOIN pg_am a ON a.oid = c.relam"
                " WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace GROUP BY 1"
            ).fetchall()
        )
        assert found == {"heap": 20, "lazy_heap": 20}
    done = cli.run("tables", "create", "--count", "10", "--storage", "lasy")
    assert done.returncode == 1
    assert "'lasy' is not one of 'heap', 'lazy'" in done.stderr
    estimate = cli.json("tables", "estimate", "--count", "1000", "--storage", "lazy", "--first", "100")
    assert estimate["per_table"]["files"] == 0
    assert [item["need"] for item in estimate["items"] if item["name"] == "files (inodes)"] == [0]
    with cli.connect() as conn:
        conn.execute("DROP TABLE " + ", ".join(names(conn)))
        conn.execute("DROP EXTENSION pgbillion_tables")
    if cli.cluster.installation.major >= 18:
        with cli.connect() as conn:
            conn.execute(f"ALTER DATABASE {cli.database} SET extension_control_path = '/nonexistent'")
        done = cli.run("tables", "create", "--count", "10", "--method", "sql", "--storage", "lazy")
        failed(done, 3, "lazy storage needs the extension", "--storage heap")

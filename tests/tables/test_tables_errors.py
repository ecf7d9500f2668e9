"""Mistakes and mishaps: one line that says what, one that says what to do, psql's exit status, nothing half-made."""

from __future__ import annotations

import os
import pwd
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import servers
from harness.command_line import CommandLine, command_line, count, failed
from harness.disk import small_disk
from harness.root import need_root
from pgbillion.server.postgres import Cluster, Installation

CREATE = ("tables", "create")


@pytest.fixture
def cli(cluster: Cluster) -> Iterator[CommandLine]:
    with servers.new_database(cluster, "mistakes") as database, command_line(cluster, database) as cli:
        yield cli
        # whatever it was, no run was begun
        assert not (cli.state / "runs").exists()


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("--count", "0"), "at least 1, not 0"),
        (("--count", "-3"), "at least 1, not -3"),
        (("--count", "lots"), "not a number of tables"),
        ((), "give either --count or --type"),
        (("--type", "XXL"), 'no database type "XXL"'),
        (("--count", "10", "--first", "9223372036854775800"), "beyond 64 bits"),
        (("--count", "10", "--first", "-1"), "must not be negative"),
        (("--count", "10", "--name-format", "t"), "no number in it: all names would be the same"),
        (("--count", "10", "--name-format", "t%s"), "cannot be used"),
        (("--count", "10", "--name-format", "%d_%d"), "more than one number"),
        (("--count", "10", "--name-format", "x" * 63 + "%d"), "64 bytes long"),
        (("--count", "10", "--jobs", "0"), "number of jobs must be between"),
        (("--count", "10", "--jobs", "11"), "11 workers for 10 tables"),
        (("--count", "10", "--batch", "0"), "at least 1, not 0"),
        (
            ("--count", "10", "--jobs", "4", "--tablespaces", "2"),
            "should be equal to or greater than the number of workers",
        ),
        (("--count", "10", "--template", "t", "--columns", "i int"), "either --template or --columns"),
        (("--count", "10", "--sample-interval", "0"), "more than 0 seconds"),
    ],
)
def test_arguments(cli: CommandLine, arguments: tuple[str, ...], error: str) -> None:
    done = cli.run(*CREATE, *arguments)
    assert "Traceback" not in done.stderr
    assert done.returncode == 1, done.stderr
    assert error in done.stderr.splitlines()[0]
    assert done.stderr.startswith("error: ")


@pytest.mark.parametrize(
    ("arguments", "error", "hint"),
    [
        (("--template", "nothing"), 'template table "nothing" does not exist', "--template"),
        (("--template", "a.b.c.d"), "", "--template"),
        (("--template", "some_view"), "not an ordinary table", "--template"),
        (("--schema", "nothing"), 'schema "nothing" does not exist', "CREATE SCHEMA"),
        (("--tablespaces", "2"), "tablespaces _000 … do not exist", "--tablespace-dir"),
        (("--tablespaces", "2", "--tablespace-dir", "here"), "not an absolute path", ""),
        (("--first", "20"), 'relation "_00000019" already exists', "--first"),
    ],
)
def test_things_that_do_not_exist_or_do(cli: CommandLine, arguments: tuple[str, ...], error: str, hint: str) -> None:
    with cli.connect() as conn:
        conn.execute("CREATE VIEW some_view AS SELECT 1")
        conn.execute("CREATE SEQUENCE _00000019")
    done = cli.run(*CREATE, "--count", "10", "--jobs", "2", *arguments)
    assert done.returncode in (1, 3)
    if hint:
        failed(done, 3 if "tablespaces" not in arguments[0] else 1, error, hint)
    with cli.connect() as conn:
        assert count(conn) == 0


@pytest.mark.parametrize("method", ["bulk", "sql"])
@pytest.mark.parametrize("columns", ["i integre", "i integer)", "i integer, i integer", "i integer); DROP TABLE x; --"])
def test_columns_that_are_no_columns(cli: CommandLine, method: str, columns: str) -> None:
    done = cli.run(*CREATE, "--count", "10", "--method", method, "--columns", columns)
    assert done.returncode == 3, done.stderr
    assert done.stderr.startswith("error: ")
    with cli.connect() as conn:
        assert count(conn) == 0


def test_template_that_a_stamp_cannot_carry(cli: CommandLine) -> None:
    with cli.connect() as conn:
        conn.execute(
            "CREATE TABLE parted (i int) PARTITION BY RANGE (i); CREATE FOREIGN DATA WRAPPER none;"
            "CREATE SERVER nowhere FOREIGN DATA WRAPPER none;"
            "CREATE FOREIGN TABLE far PARTITION OF parted FOR VALUES FROM (1) TO (2) SERVER nowhere"
        )
    failed(cli.run(*CREATE, "--count", "10", "--template", "parted"), 3, 'foreign table "far"')


def test_template_that_only_the_extension_copies(cli: CommandLine) -> None:
    with cli.connect() as conn:
        conn.execute("CREATE TABLE base (i int); CREATE TABLE derived () INHERITS (base)")
        conn.execute("CREATE TABLE ranges (i int) PARTITION BY RANGE (i)")
    sql = (*CREATE, "--count", "2", "--method", "sql")
    failed(cli.run(*sql, "--template", "derived"), 3, "inheritance", "bulk")
    failed(cli.run(*sql, "--template", "ranges"), 3, "partitions", "bulk")


def test_read_only(cli: CommandLine) -> None:
    with cli.connect() as conn:
        conn.execute(f"ALTER DATABASE {cli.database} SET default_transaction_read_only = on")
    for method in ("bulk", "sql"):
        failed(cli.run(*CREATE, "--count", "10", "--method", method), 3, "read-only", "default_transaction_read_only")
    failed(cli.run("tables", "estimate", "--count", "10"), 3, "read-only")


def test_standby(installation: Installation) -> None:
    with servers.new_cluster(installation) as cluster, command_line(cluster, "postgres") as cli:
        cluster.stop()
        signal = cluster.data / "standby.signal"
        signal.touch()
        cluster.start()
        for method in ("bulk", "sql"):
            failed(cli.run(*CREATE, "--count", "10", "--method", method), 3, "standby", "primary")
        failed(cli.run("tables", "estimate", "--count", "10"), 3, "standby")


def test_another_version(cli: CommandLine) -> None:
    with cli.connect() as conn:
        conn.execute("UPDATE pg_extension SET extversion = '0.0.1' WHERE extname = 'pgbillion_tables'")
    failed(cli.run(*CREATE, "--count", "10"), 3, "is version 0.0.1,", "pgbillion extension upgrade")
    # the other method does without
    cli.run(*CREATE, "--count", "10", "--method", "sql", "--run-dir", str(cli.state / "run"), check=True)


def test_missing_extension(cli: CommandLine) -> None:
    """Where only CREATE EXTENSION is missing it is done; where it cannot be had, that is said."""
    with cli.connect() as conn:
        conn.execute("DROP EXTENSION pgbillion_tables")
        conn.execute("CREATE ROLE nobody_much LOGIN")
        conn.execute("GRANT CREATE ON SCHEMA public TO nobody_much")
    try:
        done = cli.run(*CREATE, "--count", "10", "-U", "nobody_much")
        failed(done, 3, "no privilege to create or use the extension pgbillion_tables", "CREATE EXTENSION")
    finally:
        with cli.connect() as conn:
            conn.execute("DROP OWNED BY nobody_much")
            conn.execute("DROP ROLE nobody_much")
    if cli.cluster.installation.major >= 18:
        with cli.connect() as conn:
            conn.execute(f"ALTER DATABASE {cli.database} SET extension_control_path = '/nonexistent'")
        failed(cli.run(*CREATE, "--count", "10"), 3, "does not have the extension pgbillion_tables", "--method sql")
        with cli.connect() as conn:
            conn.execute(f"ALTER DATABASE {cli.database} RESET extension_control_path")
    cli.run(*CREATE, "--count", "10", "--run-dir", str(cli.state / "run"), check=True)


def test_no_server(cli: CommandLine) -> None:
    for command in (CREATE, ("tables", "estimate")):
        done = cli.run(*command, "--count", "10", "-h", str(cli.state))
        assert done.returncode == 2, done.stderr
        failed(done, 2, str(cli.state), "hint: check that PostgreSQL is running there")
        assert "server start" not in done.stderr
        # libpq's question would be asked twice
        assert "Is the server running" not in done.stderr
    assert cli.run("tables", "verify", "-h", str(cli.state)).returncode == 2


def test_no_run(cli: CommandLine) -> None:
    done = cli.run("tables", "report", server=False)
    failed(done, 1, "there is no run", "tables create")
    for command in ("report", "verify"):
        done = cli.run("tables", command, str(cli.state), server=command == "verify")
        assert done.returncode == 1
        assert "not the directory of a run" in done.stderr


def test_run_folder_that_cannot_be_written(cli: CommandLine) -> None:
    (cli.state / "file").touch()
    done = cli.run(*CREATE, "--count", "10", "--run-dir", str(cli.state / "file" / "run"))
    failed(done, 1, "directory cannot be written", "--run-dir")
    with cli.connect() as conn:
        assert count(conn) == 0


@pytest.mark.parametrize("method", ["bulk", "sql"])
def test_full_disk(cluster: Cluster, method: str) -> None:
    with (
        servers.new_database(cluster, "full_disk") as database,
        command_line(cluster, database) as cli,
        small_disk(cli.state / "disk", "size=64m,nr_inodes=1200") as disk,
    ):
        create = (
            *CREATE, "--count", "2000", "--jobs", "2", "--batch", "100", "--tablespaces", "2",
            "--tablespace-dir", str(disk), "--method", method, "--run-dir", str(cli.state / "run"),
        )  # fmt: skip
        try:
            failed(cli.run(*create), 1, "this cannot fit: files (inodes): 2,000 needed", "--count 1")
            with cli.connect() as conn:
                assert count(conn) == 0
                assert servers.one(conn, "SELECT count(*) FROM pg_tablespace WHERE spcname = '_000'") == 0
            failed(
                cli.run(*create, "--force"),
                3,
                "No space left on device",
                "make room on the server's disk, then resume with",
            )
            with cli.connect() as conn:
                present = count(conn)
                assert 0 < present < 1200
            subprocess.run(["mount", "-o", "remount,nr_inodes=100000", disk], check=True)
            done = cli.json(*CREATE, "--resume", str(cli.state / "run"))
            assert (done["created"], done["total"]) == (2000 - present, 2000)
            cli.run("tables", "verify", str(cli.state / "run"), "--orphans", check=True)
        finally:
            with cluster.connect() as conn:
                conn.execute(f"DROP DATABASE {database} WITH (FORCE)")
                for name in ("_000", "_001"):
                    conn.execute(f"DROP TABLESPACE IF EXISTS {name}")


def test_tablespace_folder_of_somebody_else(cli: CommandLine) -> None:
    """An ordinary user cannot make a folder for a server that runs as another."""
    need_root("takes a server of another user")
    with cli.connect() as conn:
        owner = Path(f"/proc/{conn.info.backend_pid}").stat().st_uid
    other = next(user for user in pwd.getpwall() if user.pw_uid not in (0, owner))
    folder = cli.state / "spaces"
    folder.mkdir()
    os.chown(folder, other.pw_uid, other.pw_gid)
    # the server's socket folder is closed to others; TCP is off: what remains is to ask the function itself
    from pgbillion.common.errors import UserError
    from pgbillion.common.host import Host
    from pgbillion.tables import tablespaces

    with cli.connect() as conn:
        os.seteuid(other.pw_uid)
        try:
            with pytest.raises(UserError, match="for whom this user cannot make the directory"):
                tablespaces.create(conn, ["_000"], [folder], Host(None))
        finally:
            os.seteuid(0)


def test_connection_string_that_is_none(cli: CommandLine) -> None:
    done = cli.run(*CREATE, "--count", "10", "-d", "postgresql://user:secret@:notaport/x", server=False)
    assert done.returncode in (1, 2)
    assert done.stderr.startswith("error: ")
    assert "secret" not in done.stderr

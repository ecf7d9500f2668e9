"""Lazy tables and what moves whole databases: logical replication, dumps, copies, upgrades, pg_amcheck."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from psycopg import errors, sql

from harness import lazy, servers
from harness.lazy import run
from harness.servers import one, until
from pgbillion.common.connection import Connection
from pgbillion.common.errors import UserError
from pgbillion.server.postgres import Cluster, Installation, make_folder, run_as_server

pytestmark = pytest.mark.majors


@pytest.fixture(scope="module")
def server(installation: Installation) -> Iterator[Cluster]:
    with servers.new_cluster(installation, {**lazy.LAZY, "wal_level": "logical"}) as cluster:
        yield cluster


@pytest.fixture
def database(server: Cluster) -> Iterator[str]:
    with servers.new_database(server, "source") as name:
        yield name


@pytest.fixture
def conn(server: Cluster, database: str) -> Iterator[Connection]:
    with server.connect(database) as conn:
        yield conn


def _program(cluster: Cluster, name: str, *arguments: str | Path) -> str:
    """Run one of the installation's programs as the caller and return its output."""
    try:
        program = cluster.installation.program(name)
    except UserError:
        pytest.skip(f"there is no {name}")
    where = {"PGHOST": str(cluster.socket_dir), "PGPORT": str(cluster.port), "PGUSER": "postgres"}
    done = subprocess.run([program, *arguments], env=os.environ | where, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


# ---- logical replication


def test_logical_replication(server: Cluster, conn: Connection) -> None:
    """Publisher and subscriber are lazy: initial copies of empty tables and of full ones, first rows of each kind."""
    tables = ("CREATE TABLE a (i int PRIMARY KEY, b text); CREATE TABLE f (i int PRIMARY KEY, b text)"
              "; CREATE TABLE c (i int, b text); ALTER TABLE c REPLICA IDENTITY FULL")  # fmt: skip
    with servers.new_database(server, "target") as target, server.connect(target) as subscriber:
        run(conn, tables)
        run(subscriber, tables)
        run(conn, "INSERT INTO f VALUES (1, repeat('x', 100000)); CREATE PUBLICATION p FOR ALL TABLES")
        # the slot is made apart, because both databases are in one cluster
        conn.execute("SELECT pg_create_logical_replication_slot('s', 'pgoutput')")
        where = sql.Literal(server.conninfo("source"))
        query = sql.SQL("CREATE SUBSCRIPTION s CONNECTION {} PUBLICATION p WITH (create_slot = false)").format(where)
        subscriber.execute(query)
        try:

            def caught_up() -> bool:
                ready = one(subscriber, "SELECT bool_and(srsubstate = 'r') FROM pg_subscription_rel")
                position = one(conn, "SELECT pg_current_wal_lsn()::text")
                return bool(ready) and bool(
                    one(conn, "SELECT coalesce(confirmed_flush_lsn >= %s, false) FROM pg_replication_slots", position)
                )

            until(caught_up, "the initial copy")
            assert lazy.state(subscriber, "a") == "lazy"
            assert subscriber.execute("SELECT i, length(b) FROM f").fetchall() == [(1, 100000)]
            run(conn, "BEGIN; INSERT INTO a VALUES (7, repeat('y', 100000)); ROLLBACK")
            run(conn, "BEGIN; SAVEPOINT s; INSERT INTO a VALUES (8, repeat('y', 100000)); ROLLBACK TO s")
            run(
                conn,
                "INSERT INTO a VALUES (1, repeat('x', 100000)), (2, 'b'); UPDATE a SET b = 'c' WHERE i = 2; COMMIT",
            )
            run(
                conn,
                "INSERT INTO c VALUES (1, 'x'); UPDATE c SET b = 'y'; DELETE FROM c; INSERT INTO c VALUES (2, 'z')",
            )
            run(conn, "TRUNCATE f; INSERT INTO f VALUES (3, 'd')")
            until(caught_up, "the changes")
            for table in ("a", "c", "f"):
                query = sql.SQL("SELECT * FROM {} ORDER BY i").format(sql.Identifier(table))
                assert subscriber.execute(query).fetchall() == conn.execute(query).fetchall() != []
                assert lazy.state(subscriber, table) == "heap"
        finally:
            run(
                subscriber,
                "ALTER SUBSCRIPTION s DISABLE; ALTER SUBSCRIPTION s SET (slot_name = NONE); DROP SUBSCRIPTION s",
            )
            until(lambda: not one(conn, "SELECT active FROM pg_replication_slots WHERE slot_name = 's'"), "the slot")
            conn.execute("SELECT pg_drop_replication_slot('s')")


# ---- dumps and copies


def _populate(conn: Connection) -> None:
    run(conn, "CREATE TABLE empty (i int PRIMARY KEY, b text); CREATE TABLE had (i int PRIMARY KEY, b text)")
    run(conn, "INSERT INTO had VALUES (1, repeat('x', 100000)); CREATE TABLE p (i int) PARTITION BY RANGE (i)")
    run(conn, "CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (9); INSERT INTO p VALUES (1)")
    run(conn, "CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (9) TO (19)")
    run(conn, "CREATE TABLE truncated (i int); TRUNCATE truncated")
    run(conn, "CREATE UNLOGGED TABLE u (i int); CREATE MATERIALIZED VIEW mv AS SELECT 1 AS i")
    run(conn, "CREATE TABLE h (i int) USING heap")


def _check(conn: Connection) -> None:
    tables = ("empty", "had", "p", "truncated", "u", "mv", "h")
    assert [one(conn, f"SELECT count(*) FROM {name}") for name in tables] == [
        0, 1, 1, 0, 0, 1, 0,
    ]  # fmt: skip
    for name in ("empty", "had", "p", "truncated", "u", "h"):
        conn.execute(f"INSERT INTO {name} (i) VALUES (5)")
    assert one(conn, "SELECT length(b) FROM had WHERE i = 1") == 100000
    assert lazy.unsound(conn) == []


@pytest.mark.parametrize("form", ["plain", "custom", "directory"])
def test_dump_and_restore(server: Cluster, conn: Connection, form: str, tmp_path: Path) -> None:
    """Tables without a row are lazy again, and those with rows are heap."""
    _populate(conn)
    _program(server, "pg_dump", f"--format={form}", f"--file={tmp_path / 'dump'}", "source")
    with server.connect() as admin:
        admin.execute("CREATE DATABASE restored TEMPLATE template0")
    try:
        if form == "plain":
            _program(server, "psql", "--set=ON_ERROR_STOP=1", "--quiet", f"--file={tmp_path / 'dump'}", "restored")
        else:
            _program(server, "pg_restore", "--exit-on-error", "--dbname=restored", tmp_path / "dump")
        with server.connect("restored") as restored:
            states = [lazy.state(restored, name) for name in ("empty", "had", "p1", "p2", "truncated", "h")]
            assert states == ["lazy", "heap", "heap", "lazy", "lazy", "heap"]
            _check(restored)
    finally:
        with server.connect() as admin:
            admin.execute("DROP DATABASE restored WITH (FORCE)")


def test_create_database_from_one_with_lazy_tables(server: Cluster, conn: Connection) -> None:
    """FILE_COPY works; WAL_LOG, the default, copies the files that pg_class names: to_heap makes them first."""
    _populate(conn)
    conn.close()
    with server.connect() as admin:
        with pytest.raises(errors.UndefinedFile):
            admin.execute("CREATE DATABASE copy TEMPLATE source STRATEGY wal_log")
        for strategy in ("file_copy", "wal_log"):
            if strategy == "wal_log":
                with server.connect("source") as source:
                    source.execute(
                        "SELECT pgbillion_tables.to_heap(array_agg(oid)) FROM pg_class"
                        " WHERE relfilenode = 1 AND relkind <> 't'"
                    )
            admin.execute(f"CREATE DATABASE copy TEMPLATE source STRATEGY {strategy}")
            try:
                with server.connect("copy") as copy:
                    assert lazy.state(copy, "empty") == ("lazy" if strategy == "file_copy" else "heap")
                    _check(copy)
                    copy.execute("CHECKPOINT")
                    assert lazy.lost(server, copy) == set()
            finally:
                admin.execute("DROP DATABASE copy WITH (FORCE)")


def test_pg_amcheck_and_vacuumdb(server: Cluster, conn: Connection) -> None:
    _populate(conn)
    assert _program(server, "pg_amcheck", "--heapallindexed", "--parent-check", "source") == ""
    _program(server, "vacuumdb", "--quiet", "--full", "source")
    _program(server, "vacuumdb", "--quiet", "--freeze", "--analyze", "source")
    _program(server, "reindexdb", "--quiet", "source")
    _program(server, "clusterdb", "--quiet", "source")
    _check(conn)


def test_pg_upgrade(installation: Installation, tmp_path: Path) -> None:
    """To the same major, which takes the same way as to a new one. to_heap first: it links or copies existing files."""
    try:
        program = installation.program("pg_upgrade")
    except UserError:
        pytest.skip("there is no pg_upgrade")
    with servers.temporary_folder() as folder:
        old, new = (Cluster(installation, folder / name, folder / "s", 5432) for name in ("old", "new"))
        old.init({**servers.SETTINGS, **lazy.LAZY})
        old.start()
        try:
            with old.connect() as conn:
                servers.install_extensions(conn)
                _populate(conn)
                conn.execute("CALL pgbillion_tables.all_to_heap()")
            old.stop()
            new.init({**servers.SETTINGS, **lazy.LAZY})
            work = folder / "work"
            make_folder(work, for_server=True)
            arguments = [
                "-b",
                installation.bindir,
                "-B",
                installation.bindir,
                "-d",
                old.data,
                "-D",
                new.data,
                "-s",
                work,
            ]
            line = " ".join(f"'{argument}'" for argument in (program, *arguments, "-U", "postgres"))
            done = run_as_server(["/bin/sh", "-c", f"cd '{work}' && {line}"], capture_output=True)
            assert done.returncode == 0, done.stdout + done.stderr
            new.start()
            with new.connect() as conn:
                conn.execute("SET default_table_access_method = lazy_heap")
                _check(conn)
                run(conn, "CREATE TABLE after (i int, b text); INSERT INTO after VALUES (1, repeat('x', 100000))")
        finally:
            old.destroy()
            new.destroy()

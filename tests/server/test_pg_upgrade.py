"""pg_upgrade: passes with the extension installed, refuses lazy tables before anything is touched, passes after all.

The new server is the one under test (PG_CONFIG), the old one the oldest on this machine, which may be of the same
major. PGBILLION_UPGRADE=all, as `make test-all` has it, takes every older major, so that its runs have all pairs.
"""

from __future__ import annotations

import functools
import os
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness import lazy, needs, schema_rows, schemas, servers
from harness.amount import amount
from harness.catalogs import Catalogs
from harness.clones import by_commands, prepare, same, some
from harness.lazy import run
from harness.servers import one
from pgbillion.common.connection import Connection
from pgbillion.common.paths import state_dir
from pgbillion.server.postgres import SUPPORTED_MAJORS, Cluster, Installation, make_folder, run_as_server

pytestmark = pytest.mark.majors

SETTINGS = {**servers.SETTINGS, **lazy.LAZY}
MARK = "pgbillion_tables.lazy_tables_left.CALL pgbillion_tables.all_to_heap() before pg_upgrade"
MODES = ("--copy", "--link", "--swap")


def _present() -> Mapping[int, Path]:
    """pg_config of each major that is on this machine and has pg_upgrade."""
    return {major: path for major, path in servers.pg_configs().items() if path.with_name("pg_upgrade").exists()}


def _pairs() -> list[tuple[int, int]]:
    majors, new = list(_present()), servers.installation().major
    if os.environ.get("PGBILLION_UPGRADE") == "all":
        return [(old, new) for old in majors if old <= new]
    return [(majors[0], new)]


@dataclass
class Pair:
    """An old and a new cluster that are never started, from which the tests copy theirs."""

    old: Cluster
    new: Cluster
    folder: Path

    def copy(self, name: str) -> tuple[Cluster, Cluster]:
        folder = self.folder / name
        make_folder(folder)
        for cluster in (self.old, self.new):
            subprocess.run(["cp", "-a", cluster.data, folder / cluster.data.name], check=True)
        return tuple(  # type: ignore[return-value]
            Cluster(cluster.installation, folder / cluster.data.name, folder / "s", 5432)
            for cluster in (self.old, self.new)
        )


@pytest.mark.machine
def test_there_is_an_older_server() -> None:
    """Otherwise the tests below take the way from a major to the same one only."""
    if servers.installation().major > min(SUPPORTED_MAJORS) and all(old == new for old, new in _pairs()):
        needs.missing(needs.OLDER)


@pytest.fixture(scope="module", params=_pairs(), ids=lambda pair: f"{pair[0]}_to_{pair[1]}")
def pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    old, new = (Installation.prepare(state_dir(), _present()[major]) for major in request.param)
    with servers.temporary_folder() as folder:
        result = Pair(
            Cluster(old, folder / "old", folder / "s", 5432), Cluster(new, folder / "new", folder / "s", 5432), folder
        )
        result.old.init(SETTINGS)
        result.new.init(SETTINGS)
        # 18 has them by default; both must be the same
        if old.major < 18 <= new.major:
            done = run_as_server([old.program("pg_checksums"), "--enable", "-D", result.old.data], capture_output=True)
            assert done.returncode == 0, done.stderr
        result.old.start()
        with result.old.connect() as conn:
            conn.execute("CREATE EXTENSION pgbillion_tables; CREATE EXTENSION pgbillion_rows")
            conn.execute("ALTER DATABASE postgres SET session_preload_libraries = pgbillion_rows")
            if _has_postgres_fdw(old) and _has_postgres_fdw(new):
                # where the shard is does not matter: nobody asks it
                run(conn, "CREATE EXTENSION postgres_fdw; CREATE SERVER shard FOREIGN DATA WRAPPER pgbillion_fdw")
                run(conn, "CREATE FOREIGN TABLE afar (i int) SERVER shard")
            run(
                conn,
                "CREATE TABLE filled (i int PRIMARY KEY, b text); INSERT INTO filled VALUES (1, repeat('x', 100000))",
            )
            run(conn, "CREATE TABLE columned USING heap AS SELECT i % 10 AS g, i FROM generate_series(1, 50000) i")
            run(conn, "VACUUM columned; CREATE INDEX ON columned USING columns (g, i)")
            run(conn, "DROP TABLE filled; SET default_table_access_method = heap; CALL pgbillion_tables.all_to_heap()")
            run(
                conn,
                "CREATE TABLE filled (i int PRIMARY KEY, b text); INSERT INTO filled VALUES (1, repeat('x', 100000))",
            )
        result.old.stop()
        yield result


def _has_postgres_fdw(where: Installation) -> bool:
    return (where.sharedir / "extension" / "postgres_fdw.control").exists()


@pytest.fixture
def clusters(pair: Pair, request: pytest.FixtureRequest) -> Iterator[tuple[Cluster, Cluster]]:
    old, new = pair.copy(f"t{abs(hash(request.node.name)) % 10**6}")
    try:
        yield old, new
    finally:
        old.destroy()
        new.destroy()


@functools.cache
def _notes_row_versions(where: Installation) -> bool:
    """Minor releases since November 2026 give columns an option that earlier ones refuse."""
    return b"pg_attver" in where.program("postgres").read_bytes()


def _forget_row_versions(old: Cluster, new: Cluster) -> None:
    """Nobody could upgrade from the old cluster, with or without our extension: it is of a later minor release."""
    if not _notes_row_versions(old.installation) or _notes_row_versions(new.installation):
        return
    old.start()
    with old.connect() as conn:
        names = [name for (name,) in conn.execute("SELECT datname FROM pg_database WHERE datallowconn").fetchall()]
    for name in names:
        with old.connect(name) as conn:
            run(conn, "SET allow_system_table_mods = on; UPDATE pg_attribute SET attoptions = NULL")
    old.stop()


def _upgrade(old: Cluster, new: Cluster, *options: str) -> subprocess.CompletedProcess[str]:
    """Run pg_upgrade on stopped clusters. To copy is its default, and an option only since 16."""
    _forget_row_versions(old, new)
    work = new.data.parent / "work"
    make_folder(work, for_server=True)
    program = new.installation.program("pg_upgrade")
    arguments = [program, "-b", old.installation.bindir, "-B", new.installation.bindir, "-d", old.data, "-D", new.data]
    line = " ".join(
        f"'{argument}'" for argument in (*arguments, "-s", work, "-U", "postgres", *options) if argument != "--copy"
    )
    return run_as_server(["/bin/sh", "-c", f"cd '{work}' && {line}"], capture_output=True)


def _output(new: Cluster) -> str:
    """Everything that pg_upgrade has written to files."""
    files = [path for path in (new.data / "pg_upgrade_output.d").rglob("*") if path.is_file()]
    return "\n".join(path.read_text(errors="replace") for path in files)


def _modes(new: Cluster) -> list[str]:
    return [mode for mode in MODES if mode != "--swap" or new.installation.major >= 18]


def _on(cluster: Cluster, check: Callable[[Connection], None], database: str = "postgres") -> None:
    cluster.start()
    with cluster.connect(database) as conn:
        check(conn)
    cluster.stop()


def _make_lazy(conn: Connection) -> None:
    run(conn, "CREATE TABLE empty (i int PRIMARY KEY, b text); CREATE MATERIALIZED VIEW m AS SELECT 1 AS i")
    run(conn, "CREATE TABLE p (i int) PARTITION BY RANGE (i); CREATE TABLE p1 PARTITION OF p DEFAULT")
    run(conn, "CREATE UNLOGGED TABLE u (i int); CREATE TABLE truncated (i int); TRUNCATE truncated")
    run(conn, "CREATE TABLE had (i int); INSERT INTO had VALUES (1)")


def _check_rows(conn: Connection) -> None:
    """pgbillion_rows is loaded by its setting, gives vectors, and has its partial aggregates and its wrapper."""
    run(conn, "SET pgbillion_rows.vector_aggregate = force; SET max_parallel_workers_per_gather = 0")
    plan = conn.execute("EXPLAIN SELECT i, count(*), max(i) FROM filled GROUP BY i").fetchall()
    assert "VectorAggregate" in str(plan)
    assert conn.execute("SELECT i, count(*), max(i) FROM filled GROUP BY i").fetchall() == [(1, 1, 1)]
    assert one(conn, "SELECT pgbillion_rows.partial_avg(i)::text FROM filled") == "{1,1}"
    if one(conn, "SELECT to_regclass('afar')"):
        (remote,) = conn.execute("EXPLAIN (VERBOSE, COSTS OFF) SELECT count(*) FROM afar").fetchall()[-1]
        assert "count(*)" in remote
    assert conn.execute("SELECT * FROM pgbillion_rows.columns_check('columned')").fetchall() == []
    assert one(conn, "SELECT sum(readable_blocks) FROM pgbillion_rows.columns_status('columned')") > 100
    query = "SELECT g, count(*), sum(i) FROM columned GROUP BY g"
    assert "columned_g_i_idx" in str(conn.execute(f"EXPLAIN {query}").fetchall())
    from_columns = sorted(conn.execute(query).fetchall())
    run(conn, "SET pgbillion_rows.vector_aggregate = off")
    assert sorted(conn.execute(query).fetchall()) == from_columns
    run(conn, "RESET pgbillion_rows.vector_aggregate")


def _check(conn: Connection) -> None:
    _check_rows(conn)
    run(conn, "SET default_table_access_method = lazy_heap")
    assert conn.execute("SELECT i, length(b) FROM filled").fetchall() == [(1, 100000)]
    if one(conn, "SELECT to_regclass('empty')"):
        for name, rows in (("empty", 0), ("m", 1), ("p", 0), ("u", 0), ("truncated", 0), ("had", 1)):
            assert one(conn, f"SELECT count(*) FROM {name}") == rows
        for name in ("empty", "p", "u", "truncated"):
            conn.execute(f"INSERT INTO {name} (i) VALUES (5)")
            assert conn.execute(f"SELECT i FROM {name}").fetchall() == [(5,)]
    run(conn, "CREATE TABLE after (i int, b text)")
    assert lazy.state(conn, "after") == "lazy"
    run(conn, "INSERT INTO after VALUES (1, repeat('x', 100000))")
    assert lazy.state(conn, "after") == "heap"


@pytest.mark.machine
@pytest.mark.parametrize("mode", MODES)
def test_with_the_extension_alone(clusters: tuple[Cluster, Cluster], mode: str) -> None:
    old, new = clusters
    if mode not in _modes(new):
        pytest.skip("this pg_upgrade has no such mode")
    for options in (["--check", mode], [mode]):
        done = _upgrade(old, new, *options)
        assert done.returncode == 0, done.stdout + done.stderr + _output(new)
    _on(new, _check)


def test_lazy_tables_are_refused_by_check(clusters: tuple[Cluster, Cluster]) -> None:
    """In whichever database they are; the report names what to do, and the old cluster is as it was."""
    old, new = clusters

    def make(conn: Connection) -> None:
        conn.execute("CREATE DATABASE other")
        with old.connect("other") as other:
            other.execute("CREATE EXTENSION pgbillion_tables")
            _make_lazy(other)

    def intact(conn: Connection) -> None:
        assert lazy.state(conn, "empty") == lazy.state(conn, "p1") == "lazy"
        assert one(conn, "SELECT count(*) FROM had") == 1
        conn.execute("CALL pgbillion_tables.all_to_heap()")

    _on(old, make)
    for options in (["--check"], ["--link"]):
        done = _upgrade(old, new, *options)
        assert done.returncode != 0, done.stdout
        assert "reg*" in done.stdout + done.stderr
        output = _output(new)
        assert "In database: other" in output, done.stdout + output
        assert MARK in output
        assert "In database: postgres" not in output
    _on(old, intact, "other")
    done = _upgrade(old, new, "--check")
    assert done.returncode == 0, done.stdout + done.stderr + _output(new)


def test_lazy_tables_are_refused_by_the_new_server(clusters: tuple[Cluster, Cluster]) -> None:
    """Should the mark not be there: before the old cluster is disabled."""
    old, new = clusters

    def make(conn: Connection) -> None:
        conn.execute("CREATE TABLE alone (i int)")
        run(conn, "SET allow_system_table_mods = on")
        conn.execute(
            "UPDATE pg_attribute SET atttypid = 'oid'::regtype"
            " WHERE attrelid = 'pgbillion_tables.lazy_tables_left'::regclass"
            " AND attnum = 1"
        )

    def intact(conn: Connection) -> None:
        assert lazy.state(conn, "alone") == "lazy"
        conn.execute("INSERT INTO alone VALUES (1)")
        assert one(conn, "SELECT count(*) FROM alone, filled") == 1

    _on(old, make)
    done = _upgrade(old, new, "--link")
    assert done.returncode != 0, done.stdout
    output = _output(new)
    assert 'cannot upgrade lazy table "alone", which has no file' in output, done.stdout + output
    assert "CALL pgbillion_tables.all_to_heap() in each database of the old cluster first." in output
    assert (old.data / "global" / "pg_control").exists()
    _on(old, intact)


@pytest.mark.parametrize("mode", MODES)
def test_after_all_tables_are_heaps(clusters: tuple[Cluster, Cluster], mode: str) -> None:
    """Also those that are lazy but have a file stay usable."""
    old, new = clusters
    if mode not in _modes(new):
        pytest.skip("this pg_upgrade has no such mode")

    def make(conn: Connection) -> None:
        _make_lazy(conn)
        conn.execute("CALL pgbillion_tables.all_to_heap()")

    _on(old, make)
    done = _upgrade(old, new, mode)
    assert done.returncode == 0, done.stdout + done.stderr + _output(new)
    _on(new, _check)


def test_with_clones_of_schemas(clusters: tuple[Cluster, Cluster]) -> None:
    """Clones by commands and stamped ones are the same afterwards, too; a stamp of the old server is not used."""
    old, new = clusters
    count = amount("PGBILLION_CLONES", 40, 10)

    def make(conn: Connection) -> None:
        run(conn, "SET default_table_access_method = heap")
        conn.execute("CREATE ROLE maker; CREATE ROLE reader")
        schemas.make_outside(conn)
        schemas.make_schema(conn, "model", schemas.APPLICATION)
        conn.execute("INSERT INTO model.customer (name) VALUES ('in the template')")
        some(conn, "model", "tenant%d", 1, count)
        assert prepare(conn, "model")
        run(conn, "SELECT pgbillion_tables.clone_schema('model', 'filled_tenant', all_rows => true)")
        assert not by_commands(conn, "model", "prepared")

    def check(conn: Connection) -> None:
        catalogs = Catalogs.load(conn)
        made = schema_rows.rows(conn, catalogs, "tenant1")
        for name in ("tenant3", f"tenant{count}", "prepared", "filled_tenant"):
            same(schema_rows.rows(conn, catalogs, name), made)
        conn.execute("INSERT INTO prepared.customer (name) VALUES ('a')")
        assert one(conn, "SELECT array_agg(id) FROM prepared.customer") == [100]
        conn.execute("INSERT INTO filled_tenant.customer (name) VALUES ('a')")
        assert one(conn, "SELECT array_agg(id ORDER BY id) FROM filled_tenant.customer") == [100, 110]
        assert by_commands(conn, "model", "later")
        assert prepare(conn, "model")
        assert not by_commands(conn, "model", "stamped_later")
        same(schema_rows.rows(conn, catalogs, "stamped_later"), schema_rows.rows(conn, catalogs, "later"))

    _on(old, make)
    done = _upgrade(old, new)
    assert done.returncode == 0, done.stdout + done.stderr + _output(new)
    _on(new, check)

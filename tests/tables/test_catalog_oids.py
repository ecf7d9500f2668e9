"""OIDs and file numbers: distinct, never one in use, also where the counter wraps around."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import catalogs as catalog
from harness import compare, invariants, oracle, servers, subject
from harness.catalogs import Catalogs
from harness.servers import one
from pgbillion.common.connection import Connection
from pgbillion.server.postgres import Cluster, Installation, run_as_server

FIRST_NORMAL = 16384
SCRIPT = (
    "CREATE SCHEMA t; CREATE SCHEMA s; CREATE SCHEMA core;"
    "CREATE TABLE t.template (id serial PRIMARY KEY, b text DEFAULT 'x' CHECK (b <> ''), g"
    " int GENERATED ALWAYS AS IDENTITY);"
    "CREATE INDEX ON t.template (b); CREATE STATISTICS t.st ON id, b FROM t.template"
)


@pytest.fixture(scope="module")
def own(installation: Installation) -> Iterator[Cluster]:
    """A cluster whose OID counter the tests set."""
    with servers.new_cluster(installation) as cluster:
        yield cluster


@pytest.fixture
def base(own: Cluster) -> Iterator[str]:
    with servers.new_database(own, "oids") as name:
        with own.connect(name) as conn:
            conn.execute(SCRIPT)
        yield name
        with own.connect(name) as conn:
            assert invariants.index_errors(conn) == []
            assert invariants.reference_errors(conn) == []


def _set_next_oid(cluster: Cluster, oid: int) -> None:
    cluster.stop()
    resetwal: list[str | Path] = [cluster.installation.program("pg_resetwal"), "-o", str(oid), "-D", cluster.data]
    run_as_server(resetwal, check=True, capture_output=True)
    cluster.start()


def _oids(conn: Connection, catalogs: Catalogs) -> dict[str, list[int]]:
    """All normal OIDs, by catalogue."""
    return {
        name: [int(oid) for (oid,) in conn.execute(f"SELECT oid::bigint FROM {name} WHERE oid >= {FIRST_NORMAL}")]
        for name, described in catalogs.by_name.items()
        if described.has_oid
    }


def _check(cluster: Cluster, conn: Connection, count: int, names: list[str]) -> None:
    """Every table is sound and can be written to, and looks like core's."""
    catalogs = Catalogs.load(conn)
    for name, oids in _oids(conn, catalogs).items():
        assert len(oids) == len(set(oids)), name
    assert one(conn, "SELECT count(*) FROM pg_class WHERE relnamespace = 's'::regnamespace AND relkind = 'r'") == count
    for name in names:
        conn.execute(f"INSERT INTO s.{name} VALUES (DEFAULT, '{name}')")
    for name in names:
        assert one(conn, f"SELECT b FROM s.{name}") == name
        conn.execute(f"TRUNCATE s.{name}")
    conn.execute("CHECKPOINT")
    assert invariants.missing(cluster.data, conn) == set()
    for name in (names[0], names[len(names) // 2], names[-1]):
        oracle.make(conn, "t.template", "core", name)
        family = catalog.family(conn, catalogs, f"s.{name}")
        # TRUNCATE gave it other files; the pages are compared elsewhere
        lines = catalog.difference(catalog.family(conn, catalogs, f"core.{name}"), family)
        assert [line for line in lines if "relpages" not in line] == []


@pytest.mark.parametrize("left", [0, 1, 7, 100, 1000])
def test_counter_wraps_around(own: Cluster, base: str, left: int) -> None:
    """With few OIDs left before 2^32: goes on at 16384, never below."""
    _set_next_oid(own, 2**32 - 1 - left)
    with own.connect(base) as conn:
        subject.create_tables(conn, "t.template", None, 0, 150, tablespaces=None, schema="s")
        low = one(conn, "SELECT min(oid::bigint) FROM pg_class WHERE relnamespace = 's'::regnamespace")
        high = one(conn, "SELECT max(oid::bigint) FROM pg_class WHERE relnamespace = 's'::regnamespace")
        assert low >= FIRST_NORMAL
        assert low < 2**31 or left == 1000
        assert high > 2**31 or left == 0
        _check(own, conn, 150, subject.names(None, 0, 150))


def test_counter_is_among_used_oids(own: Cluster, base: str) -> None:
    """The counter stands before the OIDs of tables that exist: each is passed over, in each catalogue."""
    _set_next_oid(own, 5_000_000)
    with own.connect(base) as conn:
        for number in range(30):
            conn.execute(f"CREATE TABLE core.c{number} (id serial PRIMARY KEY, b text)")
            # gaps of varying width, and objects of other catalogues in the way
            conn.execute(
                f"CREATE FUNCTION core.f{number}() RETURNS int LANGUAGE sql RETURN 1; CREATE TYPE"
                f" core.e{number} AS ENUM ('a', 'b')"
            )
        with conn.transaction(force_rollback=True):
            oracle.make(conn, "t.template", "core", "gap")
        subject.create_tables(conn, "t.template", "first%d", 0, 40, schema="s")
        used = _oids(conn, Catalogs.load(conn))
    _set_next_oid(own, 4_999_990)
    with own.connect(base) as conn:
        subject.create_tables(conn, "t.template", "second%d", 0, 200, schema="s")
        after = _oids(conn, Catalogs.load(conn))
        for name, oids in used.items():
            assert set(oids) <= set(after[name]), name
        names = subject.names("first%d", 0, 40) + subject.names("second%d", 0, 200)
        _check(own, conn, 240, names)


def test_a_file_that_nobody_knows_is_left_alone(own: Cluster, base: str) -> None:
    """A number whose file exists (an orphan of a crash, a relation dropped but not yet unlinked) is not used."""
    _set_next_oid(own, 6_000_000)
    with own.connect(base) as conn:
        folder = (
            own.data / "base" / str(one(conn, "SELECT oid::bigint FROM pg_database WHERE datname = current_database()"))
        )
        strangers = [folder / str(number) for number in range(6_000_000, 6_002_000, 3)]
        for stranger in strangers:
            stranger.write_bytes(b"")
        try:
            subject.create_tables(conn, "t.template", None, 0, 150, schema="s")
            _check(own, conn, 150, subject.names(None, 0, 150))
            assert all(stranger.stat().st_size == 0 for stranger in strangers)
            used = {int(number) for (number,) in conn.execute("SELECT relfilenode::bigint FROM pg_class")}
            assert used & {int(stranger.name) for stranger in strangers} == set()
        finally:
            for stranger in strangers:
                stranger.unlink(missing_ok=True)


def test_number_of_a_dropped_table_is_not_taken_before_a_checkpoint(own: Cluster, base: str) -> None:
    """Its file is there until then, and another's would be unlinked in its place."""
    _set_next_oid(own, 7_000_000)
    with own.connect(base) as conn:
        for number in range(20):
            conn.execute(f"CREATE TABLE core.d{number} (id serial PRIMARY KEY, b text)")
        conn.execute("DROP SCHEMA core CASCADE; CREATE SCHEMA core")
        conn.execute("CHECKPOINT")
    _set_next_oid(own, 7_000_000)
    with own.connect(base) as conn:
        for number in range(20):
            conn.execute(f"CREATE TABLE core.d{number} (id serial PRIMARY KEY, b text)")
        gone = {
            int(oid)
            for (oid,) in conn.execute(
                "SELECT relfilenode::bigint FROM pg_class WHERE relnamespace = 'core'::regnamespace"
            )
        }
        conn.execute("DROP SCHEMA core CASCADE; CREATE SCHEMA core")
        left = {int(path.name) for path in _numbered(own, conn)}
        subject.create_tables(conn, "t.template", None, 0, 60, schema="s")
        conn.execute("INSERT INTO s._00000001 VALUES (DEFAULT, 'x'), (DEFAULT, 'y'); CHECKPOINT; CHECKPOINT")
        assert one(conn, "SELECT count(*) FROM s._00000001") == 2
        conn.execute("TRUNCATE s._00000001")
        used = {
            int(number)
            for (number,) in conn.execute(
                "SELECT relfilenode::bigint FROM pg_class WHERE relnamespace = 's'::regnamespace"
            )
        }
        assert gone & left & used == set()
        _check(own, conn, 60, subject.names(None, 0, 60))


def test_two_callers_while_the_counter_wraps(own: Cluster, base: str) -> None:
    _set_next_oid(own, 2**32 - 400)
    with own.connect(base) as conn, own.connect(base) as other:
        conn.execute("BEGIN")
        subject.create_tables(conn, "t.template", "a%d", 0, 60, schema="s")
        subject.create_tables(other, "t.template", "b%d", 0, 60, schema="s")
        other.execute("CREATE TABLE core.c (LIKE t.template INCLUDING ALL)")
        subject.create_tables(conn, "t.template", "c%d", 0, 30, schema="s")
        conn.execute("COMMIT")
        names = subject.names("a%d", 0, 60) + subject.names("b%d", 0, 60) + subject.names("c%d", 0, 30)
        _check(own, conn, 150, names)


def test_oid_order_is_not_relied_upon(own: Cluster, base: str) -> None:
    """Pages as well: a table from beyond the wraparound has core's files."""
    _set_next_oid(own, 2**32 - 100)
    with own.connect(base) as conn:
        subject.create_tables(conn, "t.template", None, 0, 30, schema="s")
        catalogs = Catalogs.load(conn)
        for name in subject.names(None, 0, 30)[::7]:
            oracle.make(conn, "t.template", "core", name)
            assert compare.compare(conn, catalogs, ("core", name), ("s", name)) == []


def _numbered(cluster: Cluster, conn: Connection) -> list[Path]:
    return [
        cluster.data / file.folder / file.name for file in invariants.files(cluster.data, conn) if file.name.isdigit()
    ]

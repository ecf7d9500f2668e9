"""Libraries built for the lowest minor version, as those in the wheels are, in that one and in the newest one here.

They do what the server's own code does as parts of it, which minor versions change. `make test MINOR=lowest` runs every
test on the lowest one.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from harness import invariants, lazy, needs, wheel
from harness.servers import one
from harness.wheel import Program, Server
from pgbillion.common.connection import Connection
from pgbillion.common.paths import state_dir
from pgbillion.server import files
from pgbillion.server.extension import ALL, read_pg_config
from pgbillion.server.postgres import Installation

pytestmark = [pytest.mark.machine, pytest.mark.majors]

BUILD = Path(__file__).parents[2] / "build"
ON, OFF = "force", "off"
# what a library does by members of structures, by plans and by callbacks of its own
QUERIES = {
    "Custom Scan (VectorAggregate)": "SELECT grp, count(*), sum(amount), max(word), avg(id) FROM t GROUP BY grp",
    "Custom Scan (VectorScan)": "SELECT * FROM t WHERE id % 2 = 0 AND word LIKE '%7'",
    "Inner Join 1": "SELECT t.grp, count(*), sum(d.id) FROM t JOIN d ON d.id = t.grp GROUP BY t.grp",
}
SWITCHES = ("vector_aggregate", "vector_scan", "vector_join")


def lowest_pg_config(major: int) -> Path:
    found = list(BUILD.glob(f"postgresql-{major}.*-lowest/pginstall/bin/pg_config"))
    if not found:
        needs.missing(f"the lowest minor version (tools/postgres.sh lowest {major})")
    return found[0]


@pytest.fixture(scope="module")
def lowest(installation: Installation, cluster: object) -> Installation:
    """The lowest of the major under test; the newest has its files already, and does not change meanwhile."""
    newest = read_pg_config(installation.source).version_num
    if newest % 10000 == 0 or read_pg_config(pg_config := lowest_pg_config(installation.major)).version_num >= newest:
        pytest.skip("the server under test is the lowest minor version")
    return Installation.prepare(state_dir(), pg_config)


@pytest.fixture(scope="module")
def program(lowest: Installation) -> Iterator[Program]:
    """A wheel with libraries for the lowest one."""
    with wheel.installed(lowest) as program:
        yield program


@pytest.fixture(scope="module", params=["lowest", "newest"])
def server(request: pytest.FixtureRequest, installation: Installation, lowest: Installation) -> Iterator[Server]:
    with wheel.copied_server(lowest if request.param == "lowest" else installation) as server:
        yield server


def test_one_wheel_is_for_both(program: Program, server: Server, lowest: Installation) -> None:
    said = program.ok("extension", "install", "--preload", *server.options)
    assert "(prebuilt) put into" in said
    built = files.build_of(server.folders.library(ALL[0]))
    assert built is not None
    with server.cluster.connect() as conn:
        assert built.server_num == read_pg_config(lowest.source).version_num <= conn.info.server_version
        fill(conn)
        compare(conn)
        conn.execute("CREATE INDEX t_columns ON t USING columns (id, grp, word, amount)")
        compare(conn)
        assert conn.execute("SELECT * FROM pgbillion_rows.columns_check('t_columns')").fetchall() == []
        conn.execute("UPDATE t SET amount = amount + 1 WHERE id % 100 = 0; DELETE FROM t WHERE id % 77 = 0")
        conn.execute("VACUUM t")
        compare(conn)
        assert conn.execute("SELECT * FROM pgbillion_rows.columns_check('t_columns')").fetchall() == []
        make_tables(conn)
        if one(conn, "SELECT EXISTS (SELECT FROM pg_available_extensions WHERE name = 'amcheck')"):
            conn.execute("CREATE EXTENSION amcheck")
        assert invariants.index_errors(conn) == []
        assert invariants.reference_errors(conn) == []
        assert invariants.heap_errors(conn) == []


def fill(conn: Connection) -> None:
    conn.execute("CREATE TABLE t (id int, grp int, word text, amount numeric(12,2)) WITH (autovacuum_enabled = off)")
    conn.execute("INSERT INTO t SELECT i, i % 10, 'word ' || i % 100, i / 100.0 FROM generate_series(1, 60000) i")
    conn.execute("CREATE TABLE d AS SELECT i AS id FROM generate_series(0, 7) i")
    conn.execute("VACUUM ANALYZE t")
    conn.execute("ANALYZE d")


def compare(conn: Connection) -> None:
    for node, query in QUERIES.items():
        for switch in SWITCHES:
            conn.execute(f"SET pgbillion_rows.{switch} = {OFF}")
        wanted = sorted(conn.execute(query).fetchall())
        for switch in SWITCHES:
            conn.execute(f"SET pgbillion_rows.{switch} = {ON}")
        plan = "\n".join(str(line) for (line,) in conn.execute(f"EXPLAIN {query}"))
        assert node in plan, plan
        assert sorted(conn.execute(query).fetchall()) == wanted


def make_tables(conn: Connection) -> None:
    """By catalog rows, by stamps of schemas, and lazily."""
    conn.execute("CREATE TABLE template (i int PRIMARY KEY, word text NOT NULL DEFAULT 'x')")
    assert one(conn, "SELECT pgbillion_tables.create_tables('template', 'made_%d', 1, 50)") == 50
    conn.execute("INSERT INTO made_50 (i) VALUES (1)")
    conn.execute(
        "CREATE SCHEMA tenant; CREATE TABLE tenant.t (i int PRIMARY KEY); CREATE VIEW tenant.v AS TABLE tenant.t"
    )
    conn.execute("SELECT pgbillion_tables.clone_schemas('tenant', 'tenant_%d', 1, 5)")
    conn.execute("INSERT INTO tenant_5.t VALUES (1)")
    assert one(conn, "SELECT count(*) FROM tenant_5.v") == 1
    conn.execute("CREATE TABLE later (i int, word text) USING lazy_heap")
    assert lazy.state(conn, "later") == "lazy"
    conn.execute("INSERT INTO later VALUES (1, repeat('x', 100000))")
    assert lazy.state(conn, "later") == "heap"
    assert one(conn, "SELECT pgbillion_tables.drop_tables(ARRAY ['made_1', 'made_50'])") == 2


def number(where: Installation) -> str:
    return files.dotted(read_pg_config(where.source).version_num)


def test_an_earlier_server_refuses_a_library(lowest: Installation, installation: Installation) -> None:
    """Built for a later one: by the command, and by the library itself if somebody puts it there."""
    with wheel.installed(installation) as program, wheel.copied_server(lowest) as server:
        later, earlier = (number(where).replace(".", r"\.") for where in (installation, lowest))
        said = rf"for PostgreSQL {later} or later, and this is {earlier}, and compiling fails: .*no make"
        program.fails(1, said, "", "extension", "install", "--pg-config", server.pg_config)
        for name in ALL:
            shutil.copyfile(installation.pkglibdir / f"{name}.so", server.folders.library(name))
            with server.cluster.connect() as conn:
                said = rf"library \"{name}\" was built for PostgreSQL {later} or later, and this is {earlier}"
                # the linker is first where the later one's headers call what the earlier one has not
                errors = (psycopg.errors.FeatureNotSupported, psycopg.errors.UndefinedFile)
                with pytest.raises(errors, match=f"{said}|undefined symbol"):
                    conn.execute(f"LOAD '{name}'")

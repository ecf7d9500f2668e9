"""Beside another extension that offers custom paths of its own: nothing of them is taken for ours."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import neighbour, servers
from harness.servers import one
from pgbillion.common.connection import Connection
from pgbillion.rows import plans
from pgbillion.server.postgres import Cluster, Installation
from test_vector_join import both, kinds

pytestmark = pytest.mark.majors

THEIRS = "Neighbour"
TABLES = """
CREATE TABLE big AS SELECT i AS id, i % 500 AS a, i % 90 AS b, i % 7 AS g FROM generate_series(1, 60000) i;
CREATE TABLE mid AS SELECT i AS id, i % 90 AS b, 'name ' || i % 5 AS name FROM generate_series(0, 499) i;
CREATE TABLE small AS SELECT i AS b, i % 4 AS kind FROM generate_series(0, 89) i;
ANALYZE big, mid, small
"""
GROUPED = (
    "SELECT m.name, s.kind, count(*), sum(t.g) FROM big t JOIN mid m ON t.a = m.id JOIN small s ON s.b = t.b"
    " GROUP BY 1, 2"
)
RETURNED = "SELECT t.id, m.name, s.kind FROM big t JOIN mid m ON t.a = m.id JOIN small s ON s.b = m.b WHERE t.g < 3"
QUERIES = (GROUPED, RETURNED)


@pytest.fixture(scope="module")
def library(installation: Installation) -> Iterator[Path]:
    with neighbour.library(installation) as made:
        yield made


@pytest.fixture(scope="module")
def database(cluster: Cluster) -> Iterator[str]:
    with servers.new_database(cluster, "neighbour") as name:
        with cluster.connect(name) as conn:
            conn.execute(TABLES.encode())
        yield name


@pytest.fixture(params=["before us", "after us"])
def beside(cluster: Cluster, database: str, library: Path, request: pytest.FixtureRequest) -> Iterator[Connection]:
    """A session with both extensions, in either order."""
    libraries = [str(library), "pgbillion_rows"]
    with cluster.connect(database) as conn:
        conn.prepare_threshold = None
        for name in libraries if request.param == "before us" else reversed(libraries):
            conn.execute(f"LOAD '{name}'".encode())
        conn.execute("SET max_parallel_workers_per_gather = 0; SET pgbillion_rows.vector_join = on")
        yield conn


def offer(conn: Connection, factor: float) -> None:
    """Have it offer paths at so many times the cost of PostgreSQL's."""
    conn.execute(f"SET neighbour.scans = {factor}; SET neighbour.joins = {factor}".encode())


def theirs(conn: Connection, query: str) -> int:
    """How many nodes of the neighbour's there are in a plan."""
    return sum(node.get("Custom Plan Provider") == THEIRS for node in plans.nodes(plans.explain(conn, query)))


@pytest.mark.parametrize("factor", [0.0001, 0.3, 0.97, 1000])
def test_answers_are_the_same(beside: Connection, factor: float) -> None:
    """Whatever the other's paths are said to cost, of tables and of joins; also where ours are forced."""
    offer(beside, factor)
    for cache in ("4GB", "8kB"):
        beside.execute(f"SET effective_cache_size = '{cache}'".encode())
        for query in QUERIES:
            both(beside, query, None)


def test_its_paths_cost_what_it_says(beside: Connection) -> None:
    """Ours are chosen where they are cheaper than that, and not where it is cheap."""
    offer(beside, 1000)
    for query in QUERIES:
        assert kinds(plans.explain(beside, query)) != []
    for cache in ("4GB", "8kB"):
        beside.execute(f"SET effective_cache_size = '{cache}'".encode())
        offer(beside, 0.0001)
        assert kinds(plans.explain(beside, RETURNED)) == []
        assert theirs(beside, RETURNED) > 0
    # a scan that costs less than ours, and few rows are left to be joined
    beside.execute("SET effective_cache_size = '4GB'; SET neighbour.joins = 0; SET neighbour.scans = 0.08")
    query = "SELECT t.id, m.name FROM big t JOIN mid m ON t.a = m.id WHERE t.id % 1000 = 5"
    assert kinds(plans.explain(beside, query)) == []
    assert theirs(beside, query) > 0
    beside.execute("SET neighbour.scans = 0")
    assert kinds(plans.explain(beside, query)) == ["Inner"]


def test_its_scans_of_tables_are_not_replaced_by_chains_of_its_joins(beside: Connection) -> None:
    """Where PostgreSQL's search of joins is not followed, only its own scans stand for ours."""
    beside.execute("SET geqo_threshold = 2; SET pgbillion_rows.vector_join = force; SET enable_nestloop = off")
    assert len(kinds(plans.explain(beside, GROUPED))) == 2
    offer(beside, 0.0001)
    assert kinds(plans.explain(beside, GROUPED)) == []
    assert theirs(beside, GROUPED) > 0


def test_its_partial_paths_are_not_run_by_processes_together(beside: Connection) -> None:
    beside.execute(
        "SET max_parallel_workers_per_gather = 2; SET min_parallel_table_scan_size = 0; SET parallel_setup_cost = 1;"
        " SET parallel_tuple_cost = 1; SET pgbillion_rows.vector_join = force; SET enable_nestloop = off"
    )
    beside.execute("SET pgbillion_rows.vector_scan = off")
    offer(beside, 0.5)
    plan = plans.explain(beside, GROUPED)
    ours = [node for node in plans.nodes(plan) if node.get("Custom Plan Provider") == plans.NODE]
    assert plans.parallel(plan), plans.text(beside, GROUPED)
    for node in ours:
        for child in node.get("Plans", ()):
            assert not (child.get("Custom Plan Provider") == THEIRS and child["Parallel Aware"]), plans.text(
                beside, GROUPED
            )


def test_planning_joins_looks_few_statistics_up(cluster: Cluster, database: str, library: Path) -> None:
    """Work that is counted: what is known of unique indexes of several columns is found out once per statement."""
    tables = 6
    with cluster.connect(database) as conn:
        conn.prepare_threshold = None
        conn.execute(f"LOAD '{library}'".encode())
        conn.execute("LOAD 'pgbillion_rows'; SET max_parallel_workers_per_gather = 0; BEGIN")
        conn.execute(
            f"CREATE FUNCTION pg_temp.lookups() RETURNS bigint LANGUAGE c AS '{library}', 'neighbour_lookups'".encode()
        )
        for number in range(tables):
            conn.execute(
                f"CREATE TABLE u{number} AS SELECT i % 100 AS a, i / 100 AS b, i % 99 AS c, i / 99 AS d"
                " FROM generate_series(1, 30000) i;"
                f" CREATE UNIQUE INDEX ON u{number} (a, b); ANALYZE u{number}".encode()
            )
        query = "SELECT u0.c FROM u0" + "".join(
            f" JOIN u{number} ON u{number}.a = u{number - 1}.c AND u{number}.b = u{number - 1}.d"
            for number in range(1, tables)
        )
        used = {}
        for mode in ("off", "on"):
            conn.execute(f"SET pgbillion_rows.vector_join = {mode}".encode())
            before = one(conn, "SELECT pg_temp.lookups()")
            found = kinds(plans.explain(conn, query))
            used[mode] = one(conn, "SELECT pg_temp.lookups()") - before
            assert (found != []) is (mode == "on")
        conn.execute("ROLLBACK")
    # two columns on either side of each join
    assert used["on"] > 0, used
    assert used["on"] - used["off"] <= 8 * (tables - 1), used

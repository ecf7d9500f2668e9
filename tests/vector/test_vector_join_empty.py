"""Joins without rows: what is read before it is known that there are none, and what is not read at all."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from harness import servers
from harness.servers import one
from pgbillion.common.connection import Connection
from pgbillion.rows import plans
from pgbillion.server.postgres import Cluster
from test_vector_join import KIND, LITTLE, NODES, both, kinds, prepare

pytestmark = [pytest.mark.quick, pytest.mark.majors]

TABLES = """
CREATE TABLE facts AS SELECT i AS id, i % 1000 AS a, i % 100 AS b, i % 10 AS c, i % 7 AS x, i % 100 * 2 AS d
    FROM generate_series(1, 20000) i;
CREATE TABLE large AS SELECT i AS a, i % 3 AS kind, repeat('x', 20) AS t FROM generate_series(0, 999) i,
    generate_series(1, 5);
CREATE TABLE middle AS SELECT i AS b, i % 5 AS kind FROM generate_series(0, 99) i;
CREATE TABLE small AS SELECT i AS c, i % 2 AS kind FROM generate_series(0, 9) i;
CREATE TABLE few AS SELECT i AS a, i % 2 AS kind FROM generate_series(0, 9) i;
CREATE TABLE halves AS SELECT i AS d, i::text AS word, i % 2 AS kind FROM generate_series(0, 199) i;
CREATE FUNCTION dear(integer) RETURNS integer LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE COST 10000
    AS 'BEGIN RETURN $1; END';
"""


@pytest.fixture(scope="module")
def database(cluster: Cluster) -> Iterator[str]:
    with servers.new_database(cluster, "empty_joins") as name:
        with cluster.connect(name) as conn:
            conn.execute(TABLES.encode())
            conn.execute("VACUUM ANALYZE facts, large, middle, small, few, halves")
        yield name


@pytest.fixture
def conn(cluster: Cluster, database: str) -> Iterator[Connection]:
    with cluster.connect(database) as conn:
        prepare(conn)
        # joins in the order of the text
        conn.execute("SET join_collapse_limit = 1; SET from_collapse_limit = 1")
        yield conn


def read(conn: Connection, query: str, expected: list[str]) -> set[str]:
    """The inner sides of vectorized joins that are read; the answer is checked, and which joins there are."""
    both(conn, query, expected)
    (joined,) = (
        node
        for node in plans.nodes(plans.explain(conn, query, run=True))
        if node.get("Custom Plan Provider") in NODES and any(re.fullmatch(KIND, key) for key in node)
    )
    return {
        node["Relation Name"]
        for side in joined["Plans"]
        for node in plans.nodes(side)
        if "Relation Name" in node and node["Actual Loops"] > 0
    }


def test_which_side_is_read_first(conn: Connection) -> None:
    query = (
        "SELECT count(*), sum(x), max(l.t) FROM facts f JOIN large l USING (a) JOIN middle m USING (b)"
        " JOIN small s USING (c) WHERE {}"
    )
    inner = ["Inner"] * 3
    # if one of them is empty, those that cost more are not read
    assert read(conn, query.format("s.kind = 2"), inner) == {"small"}
    assert read(conn, query.format("m.kind = 5"), inner) == {"small", "middle"}
    # nor is one that cannot be expected to be empty, if another can, although that costs more
    assert read(conn, query.format("l.kind = 3"), inner) == {"small", "large"}
    assert read(conn, query.format("true"), inner) == {"small", "middle", "large"}
    # and not the table either
    found = [
        node["Heap Pages All-Visible"]
        for node in plans.nodes(plans.explain(conn, query.format("l.kind = 3"), run=True))
        if "Inner Join 1" in node
    ]
    assert found == [0]


def test_sides_that_cannot_leave_nothing_are_read_last(conn: Connection) -> None:
    empty = "(SELECT * FROM middle WHERE kind = 5) m"
    outer = f"SELECT count(*), count(kind) FROM facts f LEFT JOIN {empty} USING (b)"
    assert read(conn, outer, ["Left"]) == {"middle"}
    assert one(conn, outer) == 20000
    inner = "SELECT count(*) FROM facts f LEFT JOIN small s USING (c) JOIN large l USING (a) WHERE l.kind = 3"
    assert read(conn, inner, ["Left", "Inner"]) == {"large"}
    anti = (
        "SELECT count(*) FROM facts f JOIN large l USING (a)"
        " WHERE NOT EXISTS (SELECT FROM small s WHERE s.c = f.c AND s.kind = 1) AND l.kind = {}"
    )
    assert read(conn, anti.format(3), ["Inner", "Anti"]) == {"large"}
    assert read(conn, anti.format(1), ["Inner", "Anti"]) == {"large", "small"}


def test_a_small_table_is_read_before_all_sides(conn: Connection) -> None:
    outer = (
        "SELECT count(*), count(l.t), min(m.kind) FROM few f LEFT JOIN large l USING (a)"
        " LEFT JOIN middle m ON m.b = f.a WHERE f.kind = {}"
    )
    semi = (
        "SELECT count(*) FROM few f WHERE EXISTS (SELECT FROM large l WHERE l.a = f.a AND l.a + f.a >= 0)"
        " AND NOT EXISTS (SELECT FROM middle m WHERE m.b = f.a + 90 AND m.kind = 1) AND f.kind = {}"
    )
    for query, expected in ((outer, ["Left", "Left"]), (semi, ["Semi", "Anti"])):
        assert read(conn, query.format(2), expected) == set()
        # rows that have been read ahead are joined like others
        assert read(conn, query.format(1), expected) == {"large", "middle"}
    assert one(conn, outer.format(1)) == 25
    assert one(conn, semi.format(1)) == 4


DEAR = "(SELECT * FROM large WHERE dear(kind) < 2) l"


def test_the_table_is_read_before_a_dear_side(conn: Connection) -> None:
    """No side is empty, and yet no row is left of the sides that take less."""
    query = (
        f"SELECT count(*), sum(x), max(l.t) FROM facts f JOIN halves h USING (d) JOIN {DEAR} USING (a)"
        " WHERE h.kind = {}"
    )
    assert read(conn, query.format(1), ["Inner"] * 2) == {"halves"}
    assert read(conn, query.format(0), ["Inner"] * 2) == {"halves", "large"}
    assert one(conn, query.format(0)) == 66700
    # whichever is joined first
    query = f"SELECT count(*), max(l.t) FROM facts f JOIN {DEAR} USING (a) JOIN halves h USING (d) WHERE h.kind = {{}}"
    assert read(conn, query.format(1), ["Inner"] * 2) == {"halves"}
    assert read(conn, query.format(0), ["Inner"] * 2) == {"halves", "large"}
    # and if no rows are removed by keys before they are joined
    query = (
        f"SELECT count(*), max(l.t) FROM facts f JOIN halves h ON h.word = f.d::text JOIN {DEAR} USING (a)"
        " JOIN middle m USING (b) WHERE h.kind = {}"
    )
    assert read(conn, query.format(1), ["Inner"] * 3) == {"halves", "middle"}
    assert read(conn, query.format(0), ["Inner"] * 3) == {"halves", "middle", "large"}
    # but a side whose rows are returned without a match is read
    query = (
        f"SELECT count(*), max(l.t) FROM {DEAR} WHERE NOT EXISTS"
        " (SELECT FROM facts f JOIN halves h USING (d) WHERE f.a = l.a AND h.kind = 1)"
    )
    assert read(conn, query, ["Inner", "Right Anti"]) == {"halves", "large"}
    assert one(conn, query) == 3335


def test_a_dear_side_that_is_not_read_now_and_then(conn: Connection) -> None:
    query = (
        f"SELECT n, (SELECT count(*) FROM facts f JOIN halves h USING (d) JOIN {DEAR} USING (a)"
        " WHERE h.kind = n % 2) FROM (VALUES (0), (1), (2), (3), (4), (1)) v(n)"
    )
    both(conn, query, ["Inner", "Inner"])
    assert [count for _, count in conn.execute(query.encode())] == [66700, 0, 66700, 0, 66700, 0]


def test_sides_in_files_before_a_dear_one(conn: Connection) -> None:
    """Nothing is read ahead of the table: all of it would have to be written first."""
    conn.execute(LITTLE.encode())
    query = (
        "SELECT count(*), max(l.t) FROM facts f JOIN (SELECT id, x FROM facts) o ON o.id = f.id"
        f" JOIN {DEAR} ON l.a = f.a WHERE o.x = {{}}"
    )
    for x in (1, 8):
        both(conn, query.format(x), ["Inner", "Inner"])
        assert one(conn, query.format(x)) == (9530 if x == 1 else 0)


def test_processes_before_a_dear_side(conn: Connection) -> None:
    conn.execute(
        "SET max_parallel_workers_per_gather = 2; SET pgbillion_rows.vector_exchange = force;"
        " SET min_parallel_index_scan_size = 0"
    )
    query = f"SELECT count(*), max(l.t) FROM facts f JOIN halves h USING (d) JOIN {DEAR} USING (a) WHERE {{}}"
    # of the last ones, few processes have any row
    for condition in ("h.kind = 1", "h.kind = 0", "f.id > 19900", "f.id < 100 AND h.kind = 0"):
        both(conn, query.format(condition), None)
        plan = plans.explain(conn, query.format(condition))
        assert plans.parallel(plan)
        assert kinds(plan) == ["Inner"] * 2


def test_sides_in_files_beside_an_empty_one(conn: Connection) -> None:
    """What was written is forgotten, and read again if there are rows the next time."""
    conn.execute(LITTLE.encode())
    # nothing is known of the function, which costs more than the side that is written to files
    conn.execute(
        "CREATE OR REPLACE FUNCTION pg_temp.sides(integer) RETURNS SETOF integer LANGUAGE sql STABLE COST 1000000"
        " ROWS 20000 AS 'SELECT i FROM generate_series(0, 9) i WHERE i < $1'"
    )
    query = (
        "SELECT n, (SELECT count(*) + max(length(l.t)) FROM facts f JOIN (SELECT * FROM large) l USING (a)"
        " JOIN pg_temp.sides(n * 5) s(c) ON s.c = f.c) FROM (VALUES (0), (1), (0), (2)) v(n)"
    )
    both(conn, query, ["Inner", "Inner"])
    assert conn.execute(query.encode()).fetchall() == [(0, None), (1, 50020), (0, None), (2, 100020)]
    tables = [
        str(value)
        for node in plans.nodes(plans.explain(conn, query, run=True))
        for key, value in node.items()
        if key.startswith("Hash Table")
    ]
    assert any(" partitions=" in table for table in tables), tables
    assert one(conn, "SELECT count(*) FROM pg_ls_tmpdir()") == 0


def test_a_side_that_is_empty_now_and_then(conn: Connection) -> None:
    query = (
        "SELECT n, (SELECT count(*) FROM few f JOIN large l USING (a) JOIN small s ON s.c = f.a"
        " WHERE s.kind = n AND f.kind < 2 - n / 2) FROM (VALUES (3), (1), (0), (4), (1), (2)) v(n)"
    )
    both(conn, query, ["Inner", "Inner"])
    assert [count for _, count in conn.execute(query.encode())] == [0, 25, 25, 0, 25, 0]
    # the keys of one time do not remove rows of a small table the next time
    query = (
        "SELECT n, (SELECT sum(f.a) FROM few f WHERE EXISTS (SELECT FROM large l WHERE l.a = f.a AND l.a % 5 = n))"
        " FROM (VALUES (0), (1), (5), (2)) v(n)"
    )
    both(conn, query, ["Right Semi"])
    both(conn, query.replace("l.a % 5 = n", "l.a % 5 = n AND l.a + f.a >= 0"), ["Semi"])
    assert [total for _, total in conn.execute(query.encode())] == [5, 7, None, 9]


def test_processes_that_run_sides_together(conn: Connection) -> None:
    conn.execute(
        "SET max_parallel_workers_per_gather = 2; SET pgbillion_rows.vector_exchange = force;"
        " SET min_parallel_index_scan_size = 0"
    )
    query = (
        "SELECT count(*), max(l.t) FROM facts f JOIN large l USING (a) JOIN middle m USING (b)"
        " JOIN small s USING (c) WHERE {}"
    )
    for condition in ("s.kind = 2", "m.kind = 5", "l.kind = 3", "true"):
        both(conn, query.format(condition), None)
        plan = plans.explain(conn, query.format(condition))
        assert plans.parallel(plan)
        assert kinds(plan) == ["Inner"] * 3

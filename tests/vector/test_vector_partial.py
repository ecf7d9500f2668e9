"""Groups that are merged above anyway: grouping stops for a while where it does not pay, and only there."""

from __future__ import annotations

from pgbillion.common.connection import Connection
from pgbillion.rows import answers, plans
from test_vector_answers import in_parallel, vectors

__all__ = ["vectors"]

MANY = 400_000


def fill(conn: Connection, *, known: str, rest: str, count: int = MANY) -> None:
    """A table whose statistics are of the first 2,000 rows."""
    conn.execute("CREATE TABLE data (k integer, t text, x integer, f double precision)")
    conn.execute("ALTER TABLE data SET (autovacuum_enabled = off)")
    for rows, key in ((2000, known), (count, rest)):
        columns = f"{key}, 't' || {key} % 50, i % 10, sqrt(i)"
        conn.execute(f"INSERT INTO data SELECT {columns} FROM generate_series(1, {rows}) i".encode())
        if rows == 2000:
            conn.execute("ANALYZE data")
    in_parallel(conn)
    # groups are merged by PostgreSQL, row by row
    conn.execute("SET pgbillion_rows.vector_exchange = off; SET work_mem = '256MB'")


def alone(conn: Connection, query: str) -> int:
    """How many rows the leader has not grouped."""
    plan = plans.explain(conn, query, run=True)
    return sum(int(node.get("Rows Not Grouped", 0)) for node in plans.nodes(plan))


def same(conn: Connection, query: str) -> None:
    # the average of floats that are added in another order
    tolerance = answers.Tolerance(float4=1e-3, float8=1e-9)
    found = []
    for on in (True, False):
        plans.switch(conn, on)
        found.append(answers.answer(conn.execute(query.encode())))
    plans.switch(conn, True)
    assert answers.difference(found[0], found[1], tolerance) is None


def test_more_groups_than_estimated(vectors: Connection) -> None:
    fill(vectors, known="i % 10", rest="i")
    vectors.execute("SET parallel_leader_participation = on; SET max_parallel_workers = 0")
    for query in (
        "SELECT k, count(*), sum(x), min(t) FROM data GROUP BY k",
        "SELECT t, k, max(x), sum(f), avg(f) FROM data GROUP BY t, k",
        "SELECT k + 1, sum(x) FILTER (WHERE x > 3) FROM data WHERE x <> 7 GROUP BY 1",
    ):
        same(vectors, query)
        assert alone(vectors, query) > MANY / 2, plans.text(vectors, query)
    # whole groups are wanted, or there is one process
    vectors.execute("SET max_parallel_workers_per_gather = 0")
    assert alone(vectors, "SELECT k, count(*), sum(x) FROM data GROUP BY k") == 0


def test_as_many_groups_as_rows_are_estimated(vectors: Connection) -> None:
    fill(vectors, known="-i", rest="i")
    vectors.execute("ANALYZE data; SET max_parallel_workers = 0")
    query = "SELECT k, count(*), sum(x) FROM data GROUP BY k"
    same(vectors, query)
    # it is known after the first ten pages
    assert alone(vectors, query) > MANY - 50_000


def test_groups_that_pay(vectors: Connection) -> None:
    """Many, but as many as was estimated: the first rows of a million are nearly all of new groups."""
    fill(vectors, known="-i", rest="i % 100000")
    vectors.execute("ANALYZE data; SET max_parallel_workers = 0")
    query = "SELECT k, count(*), sum(x) FROM data GROUP BY k"
    same(vectors, query)
    assert alone(vectors, query) == 0


def test_grouping_begins_again(vectors: Connection) -> None:
    """After a while of other rows it is tried anew."""
    fill(vectors, known="i % 10", rest="CASE WHEN i < 50000 THEN i ELSE i % 10 END", count=2_000_000)
    vectors.execute("SET max_parallel_workers = 0")
    query = "SELECT k, count(*), sum(x) FROM data GROUP BY k"
    same(vectors, query)
    assert 400_000 < alone(vectors, query) < 600_000


def test_it_is_forgotten_with_a_rescan(vectors: Connection) -> None:
    fill(vectors, known="i % 10", rest="i", count=100_000)
    vectors.execute("SET max_parallel_workers_per_gather = 0; SET pgbillion_rows.vector_aggregate = force")
    vectors.execute("CREATE TABLE more (LIKE data); INSERT INTO more SELECT * FROM data LIMIT 10; ANALYZE more")
    # partial states of one process: several tables are merged
    query = (
        "SELECT o, (SELECT sum(c) + count(*) FROM (SELECT k, count(*) AS c, max(x) AS m FROM"
        " (TABLE data UNION ALL TABLE more) u WHERE x >= o GROUP BY k) s) FROM generate_series(1, 3) o"
    )
    same(vectors, query)


def test_one_process_keeps_the_order(vectors: Connection) -> None:
    """It adds floats in the order of pages, and shows the first of values that are equal but not identical."""
    fill(vectors, known="-i", rest="CASE WHEN i % 100 = 0 THEN i % 7 ELSE i END", count=1_000_000)
    vectors.execute("ANALYZE data; SET max_parallel_workers_per_gather = 0; SET enable_sort = off")
    number = "CASE WHEN f > 500 THEN k::numeric(12, 1) ELSE k::numeric(12, 2) END"
    # from 18 on a constant key is none, but the column that it is made of is one: PostgreSQL merges what a process has
    # grouped, so that it may stop grouping
    for output, grouped, stops in (
        ("sum(f)", "k", False),
        ("avg(f)", "k", False),
        (f"min({number})", "k", False),
        (f"{number}, count(*)", number, False),
        ("k, count(f), max(x)", "k", vectors.info.server_version >= 180000),
    ):
        query = f"SELECT x + 0, {output} FROM data WHERE x + 0 = 0 GROUP BY x + 0, {grouped}"
        plans.switch(vectors, True)
        assert plans.vectorized(plans.explain(vectors, query))
        ours = answers.answer(vectors.execute(query.encode()))
        assert (alone(vectors, query) > 0) is stops, query
        plans.switch(vectors, False)
        assert answers.difference(answers.answer(vectors.execute(query.encode())), ours) is None


def test_before_a_join(vectors: Connection) -> None:
    """Partial states go on to the join as groups of one row."""
    fill(vectors, known="i % 10", rest="i")
    vectors.execute(
        "CREATE TABLE names AS SELECT i AS k, 'n' || i % 20 AS name FROM generate_series(1, 300000) i; ANALYZE names;"
        " SET max_parallel_workers_per_gather = 0; SET pgbillion_rows.eager_aggregate = force"
    )
    query = "SELECT n.name, count(*), sum(d.x) FROM data d JOIN names n USING (k) GROUP BY 1"
    same(vectors, query)
    assert alone(vectors, query) > MANY / 2, plans.text(vectors, query)

"""The first rows of an order are PostgreSQL's, though the scan leaves out rows that cannot be among them."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from harness.amount import amount
from harness.servers import one
from pgbillion.common.connection import Connection
from pgbillion.rows import plans
from pgbillion.server.postgres import Cluster

pytestmark = pytest.mark.majors

NODE = "VectorScan"
QUERIES = amount("PGBILLION_TEST_TOPS", 200, 60)

# columns with ties and NULLs
COLUMNS = {
    "s": "(h % 7 - 3)::smallint",
    "i": "h % 1000 - 500",
    "b": "(h::bigint << 33) % 99999999999",
    "d": "date '2020-01-01' + h % 30",
    "ts": "timestamp '2020-01-01' + make_interval(secs => h % 5000)",
    "tz": "timestamptz '2020-01-01 00:00+00' + make_interval(secs => h % 50)",
    "f": "CASE h % 9 WHEN 0 THEN 'NaN' WHEN 1 THEN '-0' WHEN 2 THEN 'Infinity' ELSE h % 100 / 8.0 END::float8",
    "n": "CASE h % 9 WHEN 0 THEN 'NaN' ELSE (h % 100 / 10.0)::numeric(9, 1) END::numeric",
    "t": "repeat(chr(97 + h % 26), h % 40) || h % 3",
    "u": "(CASE WHEN h % 2 = 0 THEN 'ä' ELSE 'B' END || h % 11)",
    "c": "('x' || h % 5)::char(6)",
    "o": "h % 2 = 0",
    "id8": "md5((h % 900)::text)::uuid",
    "l": "repeat('long ' || h % 50, 1000)",
}

WHERE = (
    "",
    "",
    " WHERE i < 100",
    " WHERE id % 3 = 1",
    " WHERE t <> ''",
    " WHERE d > '2020-01-05' AND s < 3",
    " WHERE id < 4",
    " WHERE i IS NULL",
)


@pytest.fixture
def top(conn: Connection) -> Iterator[Connection]:
    """A session with the feature forced, and a table."""
    conn.prepare_threshold = None
    conn.execute("CREATE SCHEMA o; SET search_path = o, public; LOAD 'pgbillion_rows'; SET timezone = 'UTC'")
    conn.execute(
        "SET pgbillion_rows.vector_scan = force; SET max_parallel_workers_per_gather = 0; SET parallel_setup_cost = 0;"
        " SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0"
    )
    # another than the database's, if there is one
    collation = one(
        conn,
        "SELECT quote_ident(collname) FROM pg_collation WHERE collprovider IN ('c', 'b') AND collencoding IN (-1, 6)"
        " ORDER BY collname IN ('C', 'POSIX', 'default'), collname DESC LIMIT 1",
    )
    values = {**COLUMNS, "u": f"{COLUMNS['u']} COLLATE {collation}"}
    columns = ", ".join(
        f"CASE WHEN hashint4extended(g, {n}) % 8 <> 0 THEN {text} END AS {name}"
        for n, (name, text) in enumerate(values.items())
    )
    conn.execute(
        f"CREATE TABLE t AS SELECT g AS id, {columns} FROM (SELECT g, abs(hashint4(g) % 100000) AS h"
        " FROM generate_series(1, 3000) g) s".encode()
    )
    conn.execute("ANALYZE t; BEGIN")
    yield conn
    conn.execute("ROLLBACK")


def wanted(conn: Connection, query: str) -> int | None:
    """How many rows the scan is told that are wanted."""
    for node in plans.nodes(plans.explain(conn, query)):
        if node.get("Custom Plan Provider") == NODE:
            found = node.get("Top Rows")
            return None if found is None else int(found)
    return None


def answer(conn: Connection, statements: list[str], ours: bool) -> list[tuple[Any, ...]]:
    plans.switch(conn, ours)
    rows = []
    for statement in statements:
        cursor = conn.execute(statement.encode())
        if cursor.description is not None:
            rows += cursor.fetchall()
    plans.switch(conn, True)
    return rows


def both(conn: Connection, *statements: str) -> list[tuple[Any, ...]]:
    """The rows by their text, the same by PostgreSQL's plan."""
    ours, core = (answer(conn, list(statements), side) for side in (True, False))
    assert repr(ours) == repr(core), statements
    return ours


def generated(chance: random.Random) -> tuple[str, bool]:
    """A query whose answer is one and the same whatever order ties are in, and whether the scan may leave rows out."""
    names = chance.sample(list(COLUMNS), chance.randint(1, 3))
    order = [
        f"{name} {chance.choice(('', 'ASC', 'DESC'))} {chance.choice(('', 'NULLS FIRST', 'NULLS LAST'))}"
        for name in names
    ]
    shown = ", ".join(names)
    if chance.random() < 0.5:
        order.append(f"id {chance.choice(('', 'DESC'))}")
        shown = chance.choice(("*", f"id, {shown}"))
    where = chance.choice(WHERE)
    limit = f"LIMIT {chance.choice((1, 2, 5, 10, 100, 700, 5000))}"
    if chance.random() < 0.3:
        limit += f" OFFSET {chance.choice((0, 1, 7, 300))}"
    # which of several tied rows are shown is the same if what is shown is tied, too
    elif chance.random() < 0.2:
        limit = f"FETCH FIRST {chance.choice((1, 3, 20))} ROWS WITH TIES"
        order = [key for key in order if not key.startswith("id ")]
        shown = ", ".join(names)
    return f"SELECT {shown} FROM t{where} ORDER BY {', '.join(order)} {limit}", "%" not in where


def test_generated(top: Connection) -> None:
    chance = random.Random(chance_seed := random.SystemRandom().randrange(2**31))
    used = 0
    for number in range(QUERIES):
        query, certain = generated(chance)
        top.execute(f"SET max_parallel_workers_per_gather = {2 if number % 4 == 0 else 0}".encode())
        assert wanted(top, query) is not None or not certain, f"seed {chance_seed}: {query}"
        used += wanted(top, query) is not None
        match number % 5:
            case 0:
                statements = ["DEALLOCATE ALL", f"PREPARE q AS {query}", "EXECUTE q", "EXECUTE q"]
            case 1:
                statements = [
                    f"SELECT k, s.*::text FROM generate_series(1, 3) k, LATERAL (SELECT * FROM ({query}) q OFFSET k) s"
                ]
            case 2:
                statements = [
                    f"DECLARE k NO SCROLL CURSOR FOR {query}",
                    "FETCH 2 FROM k",
                    "FETCH ALL FROM k",
                    "CLOSE k",
                ]
            case _:
                statements = [query]
        try:
            both(top, *statements)
        except AssertionError as error:
            raise AssertionError(f"seed {chance_seed}") from error
    assert used > QUERIES / 2


def test_rescans_with_parameters(top: Connection) -> None:
    """Each scan begins with no rows of the one before."""
    query = (
        "SELECT s.* FROM generate_series(1, 40) k,"
        " LATERAL (SELECT k, id, i FROM t WHERE id > 7 ORDER BY i DESC NULLS LAST, id LIMIT 5) s"
    )
    assert len(both(top, query)) == 200
    assert wanted(top, query) == 5


REFUSED = {
    "rows that are locked": "SELECT id FROM t ORDER BY i LIMIT 5 FOR UPDATE",
    "groups": "SELECT i, count(*) FROM t WHERE i < 9 GROUP BY i ORDER BY i LIMIT 5",
    "DISTINCT": "SELECT DISTINCT i FROM t WHERE i < 9 ORDER BY i LIMIT 5",
    "DISTINCT ON": "SELECT DISTINCT ON (i) i, id FROM t WHERE i < 9 ORDER BY i, id LIMIT 5",
    "windows": "SELECT id, row_number() OVER (ORDER BY i, id) FROM t WHERE i < 9 ORDER BY i, id LIMIT 5",
    "sets": "SELECT generate_series(1, s), id FROM t WHERE s > 0 ORDER BY i, id LIMIT 5",
    "what may fail": "SELECT 1 / (i + 1000), id FROM t WHERE i < 9 ORDER BY i, id LIMIT 5",
    "a sort key that may fail": "SELECT id FROM t WHERE i < 9 ORDER BY i, 1 / (i + 1000), id LIMIT 5",
    "expressions": "SELECT id FROM t WHERE i < 9 ORDER BY i + 0, id LIMIT 5",
    "joins": "SELECT a.id FROM t a JOIN t b USING (id) WHERE a.i < 9 ORDER BY a.i, a.id LIMIT 5",
    "no LIMIT": "SELECT id FROM t WHERE i < 9 ORDER BY i, id",
    "an OFFSET alone": "SELECT id FROM t WHERE i < 9 ORDER BY i, id OFFSET 5",
    "a number that is computed": "SELECT id FROM t WHERE i < 9 ORDER BY i, id LIMIT (SELECT 5)",
    "no order": "SELECT s FROM t WHERE s = 1 LIMIT 5",
    "another table's rows": "SELECT id FROM (TABLE t UNION ALL TABLE t) u ORDER BY i, id LIMIT 5",
    "conditions that may fail": "SELECT id FROM t WHERE 10 / (id + 1) < 9 AND i < 9 ORDER BY i, id LIMIT 5",
    "conditions above": "SELECT * FROM (SELECT id, i FROM t WHERE i < 9 OFFSET 0) s WHERE i > 3 ORDER BY i, id LIMIT 5",
}


@pytest.mark.parametrize("reason", REFUSED)
def test_refused(top: Connection, reason: str) -> None:
    assert wanted(top, REFUSED[reason]) is None
    both(top, REFUSED[reason])


def test_more_rows_than_are_worth_it(top: Connection) -> None:
    """Neither so many that hardly any is left out, nor more than a part of work_mem has room for."""
    query = "SELECT id FROM t WHERE i < 9 ORDER BY i, id LIMIT {}"
    top.execute("SET work_mem = '64MB'")
    for number, known in ((100_000, 100_000), (100_001, None)):
        assert wanted(top, query.format(number)) == known
        both(top, query.format(number))
    top.execute("SET work_mem = '64kB'")
    for number, known in ((400, 400), (500, None)):
        assert wanted(top, query.format(number)) == known
        both(top, query.format(number))


def test_limits_that_are_parameters(top: Connection) -> None:
    """A custom plan knows the number, and a generic one does not."""
    top.execute("PREPARE p(int) AS SELECT id FROM t WHERE i < 9 ORDER BY i, id LIMIT $1")
    for mode, known in (("force_custom_plan", 6), ("force_generic_plan", None)):
        top.execute(f"SET plan_cache_mode = {mode}".encode())
        assert wanted(top, "EXECUTE p(6)") == known
        assert len(both(top, "EXECUTE p(6)", "EXECUTE p(2)", "EXECUTE p(NULL)")) > 1000


def test_limits_that_the_planner_only_estimates(top: Connection) -> None:
    """A stable function may return another number when the query runs."""
    top.execute("SET v.number = 6; SET plan_cache_mode = force_generic_plan")
    number = "current_setting('v.number')::int"
    for end in (f"LIMIT {number}", f"LIMIT 3 OFFSET {number}"):
        top.execute(f"PREPARE p AS SELECT id FROM t WHERE i < 9 ORDER BY i, id {end}".encode())
        assert wanted(top, "EXECUTE p") is None
        both(top, "EXECUTE p", "SET v.number = 900", "EXECUTE p", "SET v.number = 6")
        top.execute("DEALLOCATE p")


def test_cursors_that_may_scroll(top: Connection) -> None:
    query = "SELECT id, i FROM t WHERE i < 9 ORDER BY i, id LIMIT 50"
    for kind in ("", "SCROLL"):
        both(
            top, f"DECLARE k {kind} CURSOR FOR {query}", "FETCH 7 FROM k", "FETCH BACKWARD 3 FROM k",
            "FETCH ABSOLUTE 40 FROM k", "FETCH ALL FROM k", "FETCH BACKWARD ALL FROM k", "CLOSE k",
        )  # fmt: skip


def test_few_rows_of_a_batch_where_every_row_is_better(top: Connection) -> None:
    top.execute("CREATE TABLE up AS SELECT g AS id, g AS k FROM generate_series(1, 60000) g")
    query = "SELECT id, k FROM up ORDER BY k DESC LIMIT 3"
    assert both(top, query) == [(60000, 60000), (59999, 59999), (59998, 59998)]
    assert 3 <= rows_of_scan(top, query) < 2000
    assert rows_of_scan(top, "SELECT id, k FROM up ORDER BY k LIMIT 3") == 3


def test_given_up_where_all_rows_are_equal(top: Connection) -> None:
    """All rows are returned then, as far as the scan is concerned."""
    top.execute("CREATE TABLE even AS SELECT g AS id, 7 AS same FROM generate_series(1, 60000) g")
    query = "SELECT id FROM even ORDER BY same, id DESC LIMIT 3"
    assert both(top, query) == [(60000,), (59999,), (59998,)]
    assert rows_of_scan(top, query) == 60000


def rows_of_scan(conn: Connection, query: str) -> int:
    return int(next(n for n in plans.nodes(plans.explain(conn, query, run=True)) if "Top Rows" in n)["Actual Rows"])


def test_long_values_end_it(top: Connection) -> None:
    """Values that are longer than types say take no more memory than work_mem."""
    top.execute("CREATE TABLE long AS SELECT g AS id, repeat('x', 20000) || g AS t FROM generate_series(1, 3000) g")
    top.execute("CREATE FUNCTION used() RETURNS bigint VOLATILE LANGUAGE sql AS 'SELECT sum(total_bytes)::bigint"
                " FROM pg_backend_memory_contexts'")  # fmt: skip
    # the subquery is run above the scan, while that has all values that it keeps
    query = "SELECT used() AS used FROM (SELECT id FROM long ORDER BY t DESC, id LIMIT 2000) s LIMIT 1"
    assert wanted(top, query) == 2000
    assert one(top, query) < 30 << 20
    both(top, "SELECT id FROM long ORDER BY t DESC, id LIMIT 2000")


def test_an_index_in_order_wins(top: Connection) -> None:
    top.execute(
        "CREATE TABLE big AS SELECT g AS id, g * 7919 % 100003 AS k, 'x' || g AS t FROM generate_series(1, 100000) g"
    )
    top.execute("ANALYZE big; SET pgbillion_rows.vector_scan = on")
    query = "SELECT * FROM big ORDER BY k LIMIT 10"
    assert wanted(top, query) == 10
    both(top, query)
    top.execute("CREATE INDEX ON big (k)")
    assert wanted(top, query) is None
    assert "Index Scan" in [node["Node Type"] for node in plans.nodes(plans.explain(top, query))]


def test_row_security_and_views(top: Connection) -> None:
    """Rows that a policy hides do not take the place of others."""
    top.execute("CREATE TABLE mine AS SELECT g AS id, g % 100 AS k, g % 3 AS owner FROM generate_series(1, 3000) g")
    top.execute("ALTER TABLE mine ENABLE ROW LEVEL SECURITY; CREATE POLICY p ON mine USING (owner = 1)")
    top.execute("GRANT USAGE ON SCHEMA o TO pg_monitor; GRANT SELECT ON mine TO pg_monitor; SET ROLE pg_monitor")
    rows = both(top, "SELECT id, k, owner FROM mine WHERE k > 10 ORDER BY k, id LIMIT 50")
    assert len(rows) == 50
    assert {owner for *_, owner in rows} == {1}
    top.execute("RESET ROLE")


def test_cancellation_and_memory(top: Connection, cluster: Cluster) -> None:
    top.execute("CREATE TABLE texts AS SELECT g AS id, repeat(md5(g::text), 60) AS t FROM generate_series(1, 20000) g")
    query = "SELECT id FROM texts ORDER BY t, id LIMIT 900"
    assert wanted(top, query) == 900
    both(top, query)
    before = one(top, "SELECT sum(used_bytes)::bigint FROM pg_backend_memory_contexts")
    for _ in range(30):
        top.execute(query.encode())
        top.execute("SAVEPOINT s; SET LOCAL statement_timeout = 5")
        with contextlib.suppress(psycopg.errors.QueryCanceled):
            top.execute(query.encode())
        top.execute("ROLLBACK TO s")
    after = one(top, "SELECT sum(used_bytes)::bigint FROM pg_backend_memory_contexts")
    assert after - before < 1 << 20

"""Rows that PostgreSQL groups by their order are sorted by VectorSort: core's groups.

PGBILLION_TEST_SORTED_GROUPS is how many queries are generated (default 120), PGBILLION_TEST_SEED repeats them.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable

import pytest

from harness.amount import Count, amount
from pgbillion.common.connection import Connection
from pgbillion.rows import answers, plans

pytestmark = pytest.mark.majors

QUERIES = amount("PGBILLION_TEST_SORTED_GROUPS", 120, 40)
SEED = int(os.environ.get("PGBILLION_TEST_SEED") or random.SystemRandom().randrange(2**31))
KEYS = ("few", "word", "day", "big", "id8", "flag", "one", "f", "few % 3", "lower(word)")
# none of their answers depends on the order of rows in a group, which we know of some only
AGGREGATES = (
    "count(*)", "sum(big)", "min(word)", "max(day)", "array_agg(id ORDER BY id DESC)", "count(DISTINCT few)",
    "string_agg(DISTINCT word, ',')", "string_agg(word, ',' ORDER BY day, id)", "percentile_disc(0.5) WITHIN GROUP"
    " (ORDER BY big)", "sum(id) FILTER (WHERE flag)", "grouping({0})",
)  # fmt: skip


@pytest.fixture
def sorts(conn: Connection) -> Connection:
    """A session with a table, whose groups are sorted by us where that is possible."""
    conn.prepare_threshold = None
    conn.execute(
        "CREATE SCHEMA g; SET search_path = g, public; CREATE TABLE r AS SELECT i AS id, NULLIF(h % 50, 7) AS few,"
        " CASE WHEN h % 9 > 0 THEN 'word ' || h % 300 END AS word, date '2020-01-01' + h % 90 AS day,"
        " CASE h % 11 WHEN 0 THEN -9223372036854775808 WHEN 1 THEN NULL ELSE h END::bigint AS big,"
        " md5((h % 1000)::text)::uuid AS id8, h % 2 = 0 AS flag, 7 AS one,"
        " CASE h % 40 WHEN 0 THEN 'NaN' WHEN 1 THEN '-0' WHEN 2 THEN '0' ELSE (h % 70)::text END::float8 AS f"
        " FROM (SELECT i, hashint4(i) & 2147483647 AS h FROM generate_series(1, 12000) i) s; ANALYZE r"
    )
    conn.execute(
        "LOAD 'pgbillion_rows'; SET jit = off; SET enable_hashagg = off; SET pgbillion_rows.vector_sort = force"
    )
    # groups are made by PostgreSQL
    conn.execute(
        "SET pgbillion_rows.vector_aggregate = off; SET enable_hashagg = off; SET max_parallel_workers_per_gather = 0"
    )
    return conn


def is_sorted(conn: Connection, query: str) -> bool:
    """Is our sort below a node that groups?"""
    return any(
        below.get("Custom Plan Provider") == "VectorSort"
        for node in plans.nodes(plans.explain(conn, query))
        if node["Node Type"] in ("Aggregate", "Group")
        for below in node.get("Plans", [])
    )


def check(conn: Connection, query: str) -> None:
    found = answers.answer(conn.execute(query.encode()))
    plans.switch(conn, False)
    right = answers.answer(conn.execute(query.encode()))
    plans.switch(conn, True)
    assert answers.difference(right, found) is None, query


def grouping(chance: random.Random) -> tuple[list[str], str]:
    """Keys and the clause that groups by them."""
    keys = chance.sample(KEYS, chance.randint(1, 4))
    text = ", ".join(keys)
    if chance.random() < 0.5:
        return keys, text
    sets = f"{text}), ({keys[0]}), ("
    return keys, chance.choice((f"ROLLUP ({text})", f"CUBE ({text})", f"GROUPING SETS (({sets}))"))


def test_generated(sorts: Connection, tell: Callable[[str], None], counted: Count) -> None:
    chance = random.Random(SEED)
    ours = 0
    for number in range(QUERIES):
        keys, clause = grouping(chance)
        # -0 and 0 are one group, which either of them may show
        shown = ["f + 0" if key == "f" and clause == "f" else "abs(f)" if key == "f" else key for key in keys]
        aggregates = [text.format(keys[0]) for text in chance.sample(AGGREGATES, chance.randint(0, 3))]
        where = chance.choice(("", "", " WHERE few < 20", " WHERE id < 0", " WHERE id % 3 = 0"))
        having = chance.choice(("", "", " HAVING count(*) > 2"))
        query = f"SELECT {', '.join([*shown, *aggregates])} FROM r{where} GROUP BY {clause}{having}"
        hashes = chance.choice(("on", "off", "off"))
        memory = chance.choice(("64kB", "1MB", "64MB", "64MB"))
        sorts.execute(f"SET work_mem = '{memory}'; SET enable_hashagg = {hashes}".encode())
        ours += is_sorted(sorts, query)
        try:
            check(sorts, query)
        except AssertionError as error:
            raise AssertionError(f"seed {SEED}, query {number}: {error}") from error
    tell(f"seed {SEED}: {QUERIES} queries, {ours} sorted by us")
    counted({"queries": QUERIES, "sorted": ours})
    assert ours > QUERIES / 2


def test_in_order(sorts: Connection) -> None:
    """Groups come in the order of their keys, which ORDER BY relies on."""
    query = "SELECT word, day, count(*) FROM r GROUP BY word, day ORDER BY word, day"
    assert is_sorted(sorts, query)
    assert "Sort" not in {node["Node Type"] for node in plans.nodes(plans.explain(sorts, query))}
    found = sorts.execute(query.encode()).fetchall()
    plans.switch(sorts, False)
    assert found == sorts.execute(query.encode()).fetchall()


def test_rescanned(sorts: Connection) -> None:
    query = (
        "SELECT o.v, s.* FROM (VALUES (3), (40), (3), (-1)) o(v), LATERAL (SELECT count(*), min(c), max(word) FROM"
        " (SELECT word, day, count(*) AS c FROM r WHERE few >= o.v GROUP BY ROLLUP (word, day) OFFSET 0) q) s"
    )
    assert is_sorted(sorts, query)
    check(sorts, query)


def test_left_early(sorts: Connection) -> None:
    """A cursor reads some groups, goes back, and is closed in the middle."""
    query = "SELECT word, day, count(*) FROM r GROUP BY word, day ORDER BY word, day"
    rows = sorts.execute(query.encode()).fetchall()
    with sorts.transaction():
        sorts.execute(f"DECLARE c SCROLL CURSOR FOR {query}".encode())
        assert sorts.execute("FETCH 10 FROM c").fetchall() == rows[:10]
        assert sorts.execute("FETCH BACKWARD 3 FROM c").fetchall() == rows[6:9][::-1]
        assert sorts.execute("FETCH 5 FROM c").fetchall() == rows[7:12]
        sorts.execute("CLOSE c")


def test_the_order_in_a_group(sorts: Connection) -> None:
    """Rows that come in order are given to aggregates in that order, as PostgreSQL's sort would."""
    sorts.execute(
        "CREATE AGGREGATE listed (int) (SFUNC = array_append, STYPE = int[], INITCOND = '{}');"
        " CREATE AGGREGATE counted (int) (SFUNC = int4_sum, STYPE = bigint)"
    )
    for aggregate, ours in (
        ("array_agg(id)", False), ("listed(id)", False), ("string_agg(word, ',')", False), ("sum(f)", False),
        ("avg(f) FILTER (WHERE id > 0)", False), ("sum(id)", True), ("counted(id)", True), ("max(f)", True),
        ("mode() WITHIN GROUP (ORDER BY id)", True),
    ):  # fmt: skip
        query = f"SELECT few, {aggregate} FROM (SELECT * FROM r ORDER BY id OFFSET 0) r GROUP BY few, one"
        assert is_sorted(sorts, query) is ours, query
        check(sorts, query)
        having = f"SELECT few FROM r GROUP BY few, day HAVING ({aggregate})::text > ''"
        assert is_sorted(sorts, having) is ours, having
        check(sorts, having)


def test_chosen_by_cost(sorts: Connection) -> None:
    """A sort that gains nothing stays PostgreSQL's, and so do rows of very many columns."""
    sorts.execute("SET pgbillion_rows.vector_sort = on; SET work_mem = '64MB'")
    assert is_sorted(sorts, "SELECT few, day, big, count(*) FROM r GROUP BY few, day, big")
    sorts.execute("SET pgbillion_rows.vector_sort = off")
    assert not is_sorted(sorts, "SELECT few, day, big, count(*) FROM r GROUP BY few, day, big")


def test_in_place_of_a_hash_table(sorts: Connection) -> None:
    """Where that has many groups, which numbers tell apart, and no row of an answer depends on the order of rows."""
    sorts.execute(
        "CREATE TABLE m AS SELECT hashint4(i % 30000) AS k, hashint8(i)::bigint % 1000 AS v, i % 7 AS few,"
        " (i % 30000)::numeric AS n, 'word ' || i % 30000 AS word FROM generate_series(1, 60000) i; ANALYZE m"
    )
    sorts.execute("SET pgbillion_rows.vector_sort = on; SET enable_hashagg = on; SET work_mem = '64MB'")
    for query, ours in (
        ("SELECT k, count(*), sum(v), max(word) FROM m GROUP BY k", True),
        ("SELECT k, few, sum(v) FROM m GROUP BY k, few HAVING count(*) > 0", True),
        ("SELECT k FROM m GROUP BY k", True),
        (
            "SELECT o.x, (SELECT count(*) FROM (SELECT k FROM m WHERE v <> o.x GROUP BY k) g)"
            " FROM (VALUES (1), (2)) o(x)",
            True,
        ),
        ("SELECT few, count(*) FROM m GROUP BY few", False),
        # the first key leaves too many rows to be compared
        ("SELECT few, k, sum(v) FROM m GROUP BY few, k", False),
        ("SELECT word, count(*) FROM m GROUP BY word", False),
        # 1.0 and 1 are one group, which shows the first of them
        ("SELECT n, count(*) FROM m GROUP BY n", False),
        ("SELECT k, n, count(*) FROM m GROUP BY k, n", False),
        ("SELECT k, array_agg(v) FROM m GROUP BY k", False),
        ("SELECT k, sum(v::float8) FROM m GROUP BY k", False),
        ("SELECT k, random() < 2, count(*) FROM m GROUP BY k, random() < 2", True),
    ):
        assert is_sorted(sorts, query) is ours, plans.text(sorts, query)
        check(sorts, query)
    many = "SELECT k, count(*), sum(v) FROM m GROUP BY k"
    # rows that do not fit into memory are sorted in files
    sorts.execute("SET work_mem = '64kB'; SET hash_mem_multiplier = 1000")
    check(sorts, many)
    sorts.execute("RESET hash_mem_multiplier; SET work_mem = '64MB'; SET pgbillion_rows.vector_sort = off")
    assert not is_sorted(sorts, many)
    # vectors find groups faster than either
    sorts.execute("SET pgbillion_rows.vector_sort = on; SET pgbillion_rows.vector_aggregate = on")
    assert not is_sorted(sorts, many)

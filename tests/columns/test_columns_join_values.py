"""Numerics above joins stay arrays of columnar indexes: core's answers for every kind of join, width and NULL."""

from __future__ import annotations

import pytest

from pgbillion.common.connection import Connection
from pgbillion.rows import plans

pytestmark = pytest.mark.majors

# of row i: decimals of 1, 2, 4 and 8 bytes above the least of a segment, some too long, some of several scales, and
# codes of a dictionary
VALUES = {
    "one": "((i % 200 - 100) / 10.0)::numeric(8,1)",
    "two": "((i * 37) % 32000 / 100.0)::numeric(9,2)",
    "four": "((i * 7919::bigint) % 4000000 / 1000.0 - 2000)::numeric(12,3)",
    "eight": "((i * 1000000007::bigint) % 5000000000000 - 7)::numeric(18,2)",
    "long": "(i * 1e19 + 0.5)::numeric",
    "mixed": "CASE WHEN i % 3 = 0 THEN i * 1.5 WHEN i % 3 = 1 THEN i * 1.25 ELSE 'NaN' END::numeric",
    "few": "((i % 7) * 0.25)::numeric(6,2)",
}
AGGREGATES = "count(*), count({0}), sum({0}), min({0}), max({0}), avg({0}), sum({0} * (i % 5))"
JOINS = {
    "one": "facts JOIN dims ON d = k",
    "twins": "facts JOIN (TABLE dims UNION ALL TABLE dims) t ON d = k",
    "two": "facts JOIN dims ON d = k JOIN others ON o = i % 11",
    "left": "facts LEFT JOIN dims ON d = k AND g < 3",
    "quals": "facts JOIN dims ON d = k AND i % 4 > g - 3",
    "others": "facts LEFT JOIN dims ON d = k WHERE (g IS NULL OR {0} > 1) AND {0} IS NOT NULL",
    "null": "facts LEFT JOIN dims ON d = k WHERE g IS NULL OR {0} IS NULL",
    "semi": "facts WHERE k IN (SELECT d FROM dims WHERE g < 5)",
    "anti": "facts WHERE NOT EXISTS (SELECT FROM dims WHERE d = k AND g < 5)",
}


@pytest.fixture
def facts(conn: Connection) -> Connection:
    """A session with a table of 20,000 rows that a columnar index has, with and without NULLs, and two to join with."""
    columns = ", ".join(
        f"CASE WHEN i % {n + 11} > 0 OR i < 9000 THEN {value} END AS {name}"
        for n, (name, value) in enumerate(VALUES.items())
    )
    conn.execute("CREATE SCHEMA v; SET search_path = v, public")
    conn.execute(f"CREATE TABLE facts AS SELECT i, i % 301 AS k, {columns} FROM generate_series(1, 20000) i".encode())
    conn.execute("CREATE TABLE dims AS SELECT d, d % 8 AS g FROM generate_series(0, 250) d WHERE d % 5 <> 0")
    conn.execute("CREATE TABLE others AS SELECT o FROM generate_series(0, 8) o")
    conn.execute("VACUUM (FREEZE, ANALYZE)")
    conn.execute(f"CREATE INDEX ON facts USING columns (i, k, {', '.join(VALUES)})".encode())
    conn.execute("LOAD 'pgbillion_rows'; SET jit = off; SET max_parallel_workers_per_gather = 0")
    conn.execute("SET pgbillion_rows.vector_join = force; SET pgbillion_rows.columns = force")
    conn.execute("SET pgbillion_rows.vector_aggregate = force; SET pgbillion_rows.eager_aggregate = off")
    return conn


@pytest.mark.parametrize("join", JOINS)
@pytest.mark.parametrize("value", VALUES)
def test_aggregates(facts: Connection, value: str, join: str) -> None:
    # the second is of many groups, the third of few; the filter removes rows of each batch
    source = JOINS[join].format(value)
    also = "AND" if "WHERE" in source else "WHERE"
    group = "g" if "JOIN dims" in source else "i % 3"
    for keys, where in (
        ("", ""),
        ("i % 4001", ""),
        (group, f" {also} i % 3 <> 1"),
        ("i % 4001", f" {also} {value} > 2"),
    ):
        query = f"SELECT {keys or 0} AS key, {AGGREGATES.format(value)} FROM {source}{where}"
        query += f" GROUP BY {keys}" if keys else ""
        assert any("Columns" in node for node in plans.nodes(plans.explain(facts, query))), query
        same(facts, query)


def same(facts: Connection, query: str) -> None:
    """Check that a query's rows are core's."""
    found = sorted(facts.execute(query.encode()).fetchall(), key=str)
    plans.switch(facts, False)
    right = sorted(facts.execute(query.encode()).fetchall(), key=str)
    plans.switch(facts, True)
    assert [tuple(map(str, row)) for row in found] == [tuple(map(str, row)) for row in right], query

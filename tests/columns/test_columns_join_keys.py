"""Keys of joins are tested on arrays of columnar indexes: core's rows for every width, with NULLs, at the limits."""

from __future__ import annotations

import pytest

from pgbillion.common.connection import Connection
from pgbillion.rows import plans

pytestmark = pytest.mark.majors

# of row i: 1, 2, 4 and 8 bytes above the least value of a segment, and values that hardly differ from row to row
FACTS = {
    "byte": ("int", "i % 200 - 100"),
    "small": ("smallint", "(i * 37) % 32000 - 16000"),
    "four": ("int", "((i * 7919::bigint) % 4000000 - 2000000)::int"),
    "eight": ("bigint", "(i % 5000) * 1000000000000"),
    "least": ("bigint", "-9223372036854775808 + i % 3000"),
    "greatest": ("bigint", "9223372036854775807 - i % 3000"),
    "day": ("date", "date '2000-01-01' + i % 5000"),
    "in_order": ("int", "i / 7"),
}
# keys near each other, far from each other, one only, more than there are values, and none that occurs
KEYS = {
    "dense": "SELECT DISTINCT {0} AS k FROM facts WHERE i % 997 < 40 AND i < 9000",
    "sparse": "SELECT DISTINCT {0} AS k FROM facts WHERE i % 1001 = 5",
    "one": "SELECT {0} AS k FROM facts WHERE i = 4321",
    "all": "SELECT DISTINCT {0} AS k FROM facts",
    "null": "SELECT NULL::{1} AS k",
}


@pytest.fixture
def facts(conn: Connection) -> Connection:
    """A session with a table of 40,000 rows, of which every column is in a columnar index."""
    columns = ", ".join(
        f"CASE WHEN i % {n + 11} > 0 OR i < 15000 THEN ({value})::{kind} END AS {name}"
        for n, (name, (kind, value)) in enumerate(FACTS.items())
    )
    conn.execute("CREATE SCHEMA k; SET search_path = k, public")
    conn.execute(f"CREATE TABLE facts AS SELECT i, {columns} FROM generate_series(1, 40000) i".encode())
    conn.execute("VACUUM (FREEZE, ANALYZE) facts")
    conn.execute(f"CREATE INDEX ON facts USING columns (i, {', '.join(FACTS)})".encode())
    conn.execute("LOAD 'pgbillion_rows'; SET jit = off; SET max_parallel_workers_per_gather = 0")
    conn.execute("SET pgbillion_rows.vector_join = force; SET pgbillion_rows.columns = force")
    return conn


@pytest.mark.parametrize("name", FACTS)
def test_keys(facts: Connection, name: str) -> None:
    kind = FACTS[name][0]
    for keys in KEYS.values():
        facts.execute("DROP TABLE IF EXISTS keys")
        facts.execute(f"CREATE TABLE keys AS {keys.format(name, kind)}; ANALYZE keys".encode())
        # the filter leaves some rows of each batch, others none
        for where in ("", " AND i % 3 = 0", " AND i > 39000"):
            query = f"SELECT count(*), sum(i), min(k::text), max(byte) FROM facts JOIN keys ON {name} = k{where}"
            assert any("Columns" in node for node in plans.nodes(plans.explain(facts, query))), query
            found = facts.execute(query.encode()).fetchone()
            plans.switch(facts, False)
            right = facts.execute(query.encode()).fetchone()
            plans.switch(facts, True)
            assert found == right, query

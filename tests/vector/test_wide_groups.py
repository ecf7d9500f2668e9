"""Many groups of keys that are close to each other, which are found where their keys say: core's answers.

PGBILLION_TEST_WIDE_GROUPS is how many queries are generated (default 60), PGBILLION_TEST_SEED repeats them.
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

QUERIES = amount("PGBILLION_TEST_WIDE_GROUPS", 60, 24)
SEED = int(os.environ.get("PGBILLION_TEST_SEED") or random.SystemRandom().randrange(2**31))
ROWS = 160_000
GROUPS = 40_000
# a number in no order, of a row
SCATTERED = f"(hashint4(i)::bigint + 2147483648) % {GROUPS}"
KEYS = {
    "plain": ("int", SCATTERED),
    "negative": ("int", f"{SCATTERED} - {GROUPS // 2}"),
    "least": ("bigint", f"-9223372036854775808 + {SCATTERED}"),
    "greatest": ("bigint", f"9223372036854775807 - {SCATTERED}"),
    "small": ("smallint", f"{SCATTERED} - 20000"),
    "day": ("date", f"date '2000-01-01' + ({SCATTERED})::int"),
    "nullable": ("int", f"CASE WHEN i % 50 > 0 THEN {SCATTERED} END"),
    "gaps": ("bigint", f"2 * ({SCATTERED})"),
    "sparse": ("bigint", f"1000 * ({SCATTERED})"),
    # the first half of the rows says nothing of the second
    "moving": ("bigint", f"CASE WHEN i < {ROWS // 2} THEN {SCATTERED} ELSE 5000000000 + {SCATTERED} END"),
    "growing": ("int", "i / 3"),
    "falling": ("bigint", f"9223372036854775807 - {ROWS} + ({ROWS} - i) / 3"),
    # each row has another one
    "unique_key": ("int", f"(i * 7919::bigint) % {ROWS}"),
}
AGGREGATES = (
    "count(*)", "sum(x)", "min(t)", "max(f)", "avg(n)", "count(DISTINCT x % 3)", "bool_and(x > 5)",
    "max(n)",
)  # fmt: skip


def make(conn: Connection) -> None:
    columns = ", ".join(f"{name} {kind}" for name, (kind, _) in KEYS.items())
    values = ", ".join(f"({value})::{kind}" for kind, value in KEYS.values())
    conn.execute("DROP TABLE IF EXISTS w")
    conn.execute(f"CREATE TABLE w ({columns}, x int, f double precision, n numeric, t text)".encode())
    conn.execute(
        f"INSERT INTO w SELECT {values}, i % 1000, i / 8.0, i / 100.0, 'text ' || i % 77"
        f" FROM generate_series(1, {ROWS}) i"
    )
    conn.execute("ANALYZE w")


def test_generated(conn: Connection, tell: Callable[[str], None], counted: Count) -> None:
    make(conn)
    conn.execute("LOAD 'pgbillion_rows'; SET jit = off; SET pgbillion_rows.vector_aggregate = force")
    conn.execute("SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0")
    chance = random.Random(SEED)
    forced = 0
    names = list(KEYS)
    for number in range(QUERIES):
        name = names[number % len(names)]
        chosen = ", ".join(f"{one} AS a{k}" for k, one in enumerate(chance.sample(AGGREGATES, chance.randint(0, 3))))
        where = chance.choice(("", "", " WHERE x < 900", f" WHERE {name} IS NOT NULL"))
        if chosen and name in ("plain", "growing") and chance.random() < 0.3:
            # a further key that follows from the first
            text = f"SELECT {name} AS key, {name} + 1 AS next, {chosen} FROM w{where} GROUP BY {name}, {name} + 1"
        elif chosen:
            text = f"SELECT {name} AS key, {chosen} FROM w{where} GROUP BY {name}"
        else:
            text = f"SELECT DISTINCT {name} AS key FROM w{where}"
        query = chance.choice(
            (
                f"SELECT md5(string_agg(q::text, ';' ORDER BY key)), count(*) FROM ({text}) q",
                f"SELECT * FROM ({text}) q ORDER BY key DESC LIMIT 50",
                f"SELECT count(DISTINCT {name}), count(*) FROM w{where}",
            )
        )
        for workers, memory in ((0, "64MB"), (chance.choice((0, 2)), chance.choice(("64kB", "1MB", "4MB")))):
            conn.execute(f"SET work_mem = '{memory}'; SET max_parallel_workers_per_gather = {workers}".encode())
            found = answers.answer(conn.execute(query.encode())).rows
            forced += plans.vectorized(plans.explain(conn, query))
            plans.switch(conn, False)
            right = answers.answer(conn.execute(query.encode())).rows
            plans.switch(conn, True)
            assert found == right, f"seed {SEED}, query {number}, {workers} workers, {memory}: {query}"
    tell(f"seed {SEED}: {QUERIES} queries, {forced} of {2 * QUERIES} plans by vectors")
    counted({"queries": 2 * QUERIES, "by vectors": forced})
    assert forced > QUERIES


def test_rescanned(conn: Connection) -> None:
    """What was made for another outer row is forgotten."""
    make(conn)
    conn.execute("LOAD 'pgbillion_rows'; SET jit = off; SET pgbillion_rows.vector_aggregate = force")
    conn.execute("SET max_parallel_workers_per_gather = 0; SET work_mem = '64MB'")
    query = (
        "SELECT o.x, s.* FROM (VALUES (0), (500), (0), (2000)) o(x), LATERAL (SELECT count(*), sum(c), sum(plain * c)"
        " FROM (SELECT plain, count(*) AS c FROM w WHERE x >= o.x GROUP BY plain OFFSET 0) q) s"
    )
    assert plans.vectorized(plans.explain(conn, query))
    found = conn.execute(query.encode()).fetchall()
    plans.switch(conn, False)
    assert found == conn.execute(query.encode()).fetchall()


@pytest.mark.parametrize(
    ("kind", "stored", "computed"),
    [
        ("oid", "(3000000000 + i)::oid", "(3000000000 + i)::oid"),
        ("oid", "(3000000000 + i)::oid", "'3000017500'::oid"),
        ("int", "hashint4(1) - 17500 + i", "hashint4(1 + 0 * i)"),
    ],
)
def test_other_bits(conn: Connection, kind: str, stored: str, computed: str) -> None:
    """Functions fill the bits of a Datum above a value's own in different ways: equal keys are one group."""
    conn.execute(f"DROP TABLE IF EXISTS b; CREATE TABLE b (k {kind}, i int)".encode())
    conn.execute(f"INSERT INTO b SELECT {stored}, i FROM generate_series(1, 18100) i".encode())
    conn.execute("INSERT INTO b SELECT NULL, i FROM generate_series(17000, 18000) i; ANALYZE b")
    conn.execute("LOAD 'pgbillion_rows'; SET jit = off; SET pgbillion_rows.vector_aggregate = force")
    conn.execute("SET max_parallel_workers_per_gather = 0; SET work_mem = '64MB'")
    query = (
        "SELECT count(*), sum(c) FROM"
        f" (SELECT k, count(*) AS c FROM (SELECT coalesce(k, {computed}) AS k FROM b) s GROUP BY k) g"
    )
    assert plans.vectorized(plans.explain(conn, query))
    assert conn.execute(query.encode()).fetchall() == [(18100, 19101)]

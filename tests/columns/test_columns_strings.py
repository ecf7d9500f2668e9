"""Strings that an index encodes by tokens: generated queries give core's answers.

PGBILLION_TEST_STRINGS is how many queries there are (default 400), PGBILLION_TEST_SEED repeats a run.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable

import pytest

from harness.amount import Count, amount
from harness.servers import one
from pgbillion.common.connection import Connection
from pgbillion.rows import answers, plans

pytestmark = pytest.mark.majors

QUERIES = amount("PGBILLION_TEST_STRINGS", 400, 60)
SEED = int(os.environ.get("PGBILLION_TEST_SEED") or random.SystemRandom().randrange(2**31))
ROWS = 12_000
WORDS = ["the", "quick", "brown", "fox", "jumps", "over", "a", "lazy", "dog;", "Ünïcode", "größer,", "100", "%", "a_b"]
# a dictionary, and rows one after the other: all short, short and long, with NULLs and empty strings, of other types
STRINGS = {
    "few": "w(g % 900, 3)",
    "many": "w(g, 4)",
    "long": "w(g, CASE WHEN g % 7 = 0 THEN 60 ELSE 5 END)",
    "gaps": "CASE g % 5 WHEN 0 THEN NULL WHEN 1 THEN '' ELSE w(g, g % 6) END",
    "padded": "w(g % 700, 2)::char(60)",
    "raw": "convert_to(w(g, 6), 'UTF8')",
    "label": "w(g, 2)::name",
}
CONDITIONS = (
    "{c} LIKE '%{w}%'",
    "{c} NOT LIKE '{w}%'",
    "{c} LIKE '%_{w} %'",
    "{c} = (SELECT {c} FROM s WHERE id = {id})",
    "{c} > '{w}'",
    "{c} IN ('{w}', '{w} {w}', 'none')",
    "length({c}) > {n}",
    "{c} IS NULL",
    "{c} <> ''",
)
ANSWERS = (
    "count(*), count({c}), min({c}), max({c})",
    "count(DISTINCT {c}), sum(length({c}))",
    "string_agg({c}, '|' ORDER BY id, {c})",
    "md5(string_agg(right({c}, 9) || left({c}, 5), '' ORDER BY id))",
)


def make(conn: Connection) -> None:
    """Make a table of strings of words, some of whose blocks are stale, and an index of all of it."""
    words = "ARRAY[" + ", ".join(f"'{word}'" for word in WORDS) + "]"
    conn.execute(
        "CREATE FUNCTION w(seed int, n int) RETURNS text IMMUTABLE LANGUAGE sql AS $$SELECT"
        f" coalesce(string_agg(({words})[1 + abs(hashint4(seed * 100 + i)) % {len(WORDS)}], ' ') || ' ' || seed, '')"
        " FROM generate_series(1, n) i$$"
    )
    kinds = {"padded": "char(60)", "raw": "bytea", "label": "name"}
    columns = ", ".join(f"{name} {kinds.get(name, 'text')}" for name in STRINGS)
    conn.execute(f"CREATE TABLE s (id int, part int, {columns}) WITH (autovacuum_enabled = off)")
    values = ", ".join(STRINGS.values())
    conn.execute(f"INSERT INTO s SELECT g, g % 400, {values} FROM generate_series(1, {ROWS}) g".encode())
    conn.execute("VACUUM ANALYZE s")
    conn.execute(
        f"CREATE INDEX s_columns ON s USING columns (id, part, {', '.join(STRINGS)}) WITH (segment_blocks = 128)"
    )
    conn.execute("UPDATE s SET many = 'changed ' || id WHERE id % 1000 = 7")
    conn.execute("DELETE FROM s WHERE id % 1000 = 8")
    conn.execute("VACUUM (INDEX_CLEANUP ON) s")


def query(chance: random.Random) -> str:
    """A query over strings, of all rows or of those that a condition on numbers leaves."""
    column = chance.choice([name for name in STRINGS if name != "raw"])
    values = {"c": column, "w": chance.choice(WORDS[:9]), "id": chance.randrange(ROWS), "n": chance.randrange(60)}
    conditions = [chance.choice(CONDITIONS).format(**values)] if chance.random() < 0.7 else []
    if chance.random() < 0.5:
        conditions.append(
            chance.choice(("part = {n}", "id BETWEEN {id} AND {id} + 300", "id % 97 = {n}")).format(**values)
        )
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    match chance.randrange(4):
        case 0:
            return f"SELECT {column}, count(*), min(id) FROM s{where} GROUP BY 1"
        case 1:
            return f"SELECT * FROM s{where or ' WHERE part < 20'}"
        case 2:
            return f"SELECT part % 5, min(many), max(long), count(raw) FROM s{where} GROUP BY 1"
        case _:
            other = chance.choice([name for name in STRINGS if name not in ("raw", "label")])
            return f"SELECT {chance.choice(ANSWERS).format(c=other)} FROM s{where}"


def test_generated_queries(conn: Connection, tell: Callable[[str], None], counted: Count) -> None:
    make(conn)
    assert one(conn, "SELECT pg_relation_size('s_columns') * 2 < pg_relation_size('s')")
    assert conn.execute("SELECT * FROM pgbillion_rows.columns_check('s')").fetchall() == []
    chance = random.Random(SEED)
    conn.execute(
        "SET extra_float_digits = 1; SET pgbillion_rows.columns = force; SET max_parallel_workers_per_gather = 0"
    )
    seen: Counter[str] = Counter()
    for number in range(QUERIES):
        sql = query(chance)
        conn.execute("SET pgbillion_rows.enable = off")
        right = sorted(answers.answer(conn.execute(sql.encode())).rows, key=repr)
        conn.execute(
            "SET pgbillion_rows.enable = on; SET pgbillion_rows.vector_aggregate = force;"
            " SET pgbillion_rows.vector_scan = force"
        )
        assert sorted(answers.answer(conn.execute(sql.encode())).rows, key=repr) == right, (
            f"seed {SEED}: {number} {sql}"
        )
        if number % 5 == 0:
            nodes = list(plans.nodes(plans.explain(conn, sql, run=True)))
            seen["from the index"] += any(
                node.get("Column Blocks Read", 0) + node.get("Column Blocks Skipped", 0) > 0 for node in nodes
            )
            seen["looked at"] += 1
    tell(f"seed {SEED}: {dict(seen)}")
    counted({"queries": QUERIES, "that read an index, of those explained": seen["from the index"]})
    assert seen["from the index"] > seen["looked at"] / 3

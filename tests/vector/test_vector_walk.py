"""Columns are read from rows of any layout: NULLs, alignment, long values, and columns that rows do not have."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from harness.amount import amount
from pgbillion.common.connection import Connection
from pgbillion.rows import answers, plans

pytestmark = pytest.mark.majors


# of every length and alignment, and how to make a value of a number
TYPES = {
    "boolean": "{} % 2 = 0",
    '"char"': 'chr(65 + {} % 26)::"char"',
    "smallint": "({} % 30000)::smallint",
    "integer": "{}",
    "bigint": "{}::bigint << 20",
    "real": "{}::real / 4",
    "double precision": "{} / 8.0",
    "date": "date '2000-01-01' + {} % 10000",
    "uuid": "md5({}::text)::uuid",
    "name": "('n' || {})::name",
    "interval": "make_interval(secs => {})",
    "text": "'t' || {}",
    "numeric": "{} / 10.0",
    # a header of four bytes now and then
    "varchar": "repeat('v', {} % 211)",
}
ROWS = 200


@pytest.fixture
def walks(conn: Connection) -> Iterator[Connection]:
    """A session with the feature forced and a schema of its own."""
    conn.prepare_threshold = None
    conn.execute("CREATE SCHEMA w; SET search_path = w, public; LOAD 'pgbillion_rows'")
    conn.execute("SET pgbillion_rows.vector_aggregate = force; SET max_parallel_workers_per_gather = 0")
    yield conn
    conn.execute("ROLLBACK")


def make(conn: Connection, chance: random.Random) -> list[str]:
    """Make a table of many columns, some of them added when there are rows, and some dropped; return their names."""
    columns: list[tuple[str, str, float]] = []
    kind = "integer"
    made = 0
    conn.execute("CREATE TABLE t (id integer)")
    for part in range(chance.randint(1, 4)):
        for _ in range(chance.choice((2, 10, 40, 80))):
            # neighbors of one type are read together
            if chance.random() < 0.5:
                kind = chance.choice(list(TYPES))
            made += 1
            name = f"c{made}"
            default = f" DEFAULT {TYPES[kind].format(7)}" if chance.random() < 0.3 else ""
            conn.execute(f"ALTER TABLE t ADD COLUMN {name} {kind}{default}".encode())
            columns.append((name, kind, chance.choice((0, 0, 0, 0.02, 0.5, 1))))
        if chance.random() < 0.5 and len(columns) > 3:
            name, *_ = columns.pop(chance.randrange(len(columns)))
            conn.execute(f"ALTER TABLE t DROP COLUMN {name}".encode())
        values = [
            f"CASE WHEN hashint8extended(g, {number}) & 1023 >= {round(nulls * 1024)} THEN"
            f" {TYPES[kind].format(f'(g * {number + 1} % 1000)')} END"
            for number, (_, kind, nulls) in enumerate(columns)
        ]
        filled = ", ".join(name for name, *_ in columns)
        rows = f"generate_series({part * ROWS}, {part * ROWS + ROWS - 1}) AS g"
        conn.execute(f"INSERT INTO t (id, {filled}) SELECT g, {', '.join(values)} FROM {rows}".encode())
        # a value that is not in the row itself
        if chance.random() < 0.3:
            long = [name for name, kind, _ in columns if kind in ("text", "varchar")][:1]
            for name in long:
                conn.execute(f"UPDATE t SET {name} = repeat(md5(id::text), 400) WHERE id % 97 = 5".encode())
    if chance.random() < 0.5:
        conn.execute("ANALYZE t")
    return [name for name, *_ in columns]


def queries(names: list[str], chance: random.Random) -> Iterator[str]:
    """Queries whose group keys are what was read of some columns, for all rows and for what a filter leaves."""
    for _ in range(8):
        keys = ", ".join(chance.sample(names, min(len(names), chance.randint(1, 9))))
        counted = ", ".join(f"count({name})" for name in chance.sample(names, min(len(names), 4)))
        terms = [f"{chance.choice(names)} IS {chance.choice(('', 'NOT '))}NULL" for _ in range(chance.randint(0, 2))]
        if chance.random() < 0.4:
            terms.append(f"id < {chance.randint(1, 4 * ROWS)}")
        where = f" WHERE {' AND '.join(terms)}" if terms else ""
        yield f"SELECT id, {keys}, {counted} FROM t{where} GROUP BY id, {keys}"


@pytest.mark.parametrize("seed", range(amount("PGBILLION_TEST_WALKS", 10, 3)))
def test_rows_of_any_layout(walks: Connection, seed: int) -> None:
    chance = random.Random(seed)
    names = make(walks, chance)
    for query in queries(names, chance):
        found = []
        for ours in (True, False):
            plans.switch(walks, ours)
            assert plans.vectorized(plans.explain(walks, query)) is ours, query
            found.append(answers.answer(walks.execute(query.encode())))
        assert answers.difference(found[1], found[0]) is None, query

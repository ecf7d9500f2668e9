"""Sums of linear expressions of one column by one sum of it: the same results, and PostgreSQL's errors for overflow."""

from __future__ import annotations

import psycopg
import pytest
from psycopg import errors

from pgbillion.common.connection import Connection
from pgbillion.rows import answers, plans
from test_vector_answers import both, in_parallel, vectors
from test_vector_kernels import agree

__all__ = ["vectors"]

pytestmark = pytest.mark.majors

COLUMNS = "CREATE INDEX ON data USING columns (g, s, i, b) WITH (segment_blocks = 16)"
# over smallint, integer and bigint
SUMS = (
    "sum(s), avg(s), sum(s + 1), avg(s - 3), sum(s + 100000), sum(2 - s), sum(-3 * (s + 1)), sum(s::bigint * 5)",
    "sum(i), avg(i), sum(i + 1), sum(i - 7), sum(10 - i * 2), avg(i + 5::bigint), sum(i::bigint), sum(i * 0 + 4)",
    "sum(b), avg(b), sum(b + 1), sum(b * -4 + 2), avg(b - b), sum((b + 3) - 2 * b), sum(b::integer + 1)",
    "sum(i + 1)",
    "sum(i), count(i), count(*), min(i), sum(i + i), stddev(i), sum(i::bigint * i), sum(i % 7), sum(i + s)",
    "sum(i + 1) FILTER (WHERE s > 0), sum(i + 1), sum(i + 2), count(DISTINCT i), sum(DISTINCT i + 1)",
)
KEYS = ("", "g", "g % 3", "s % 50", "id")


def fill(conn: Connection) -> None:
    conn.execute(
        "CREATE TABLE data AS SELECT g AS id, CASE WHEN g % 9 > 0 THEN g % 5 END AS g,"
        " CASE WHEN g % 7 > 0 THEN (g * 31 % 65000 - 32500)::smallint END AS s,"
        " CASE WHEN g % 11 > 0 THEN g * 7919 % 2000000 - 1000000 END AS i,"
        " CASE WHEN g % 13 > 0 THEN g::bigint * 104729 % 1000000007 END AS b FROM generate_series(1, 9000) g"
    )


@pytest.mark.parametrize("place", ["heap", "columns"])
def test_the_same_sums(vectors: Connection, place: str) -> None:
    fill(vectors)
    if place == "columns":
        vectors.execute(COLUMNS)
    vectors.execute("VACUUM (FREEZE, ANALYZE) data")
    vectors.execute("SET pgbillion_rows.columns = force")
    for sums in SUMS:
        for key in KEYS:
            grouping = f" GROUP BY {key}" if key else ""
            both(vectors, f"SELECT {key or 0}, {sums} FROM data{grouping}")
            both(vectors, f"SELECT {sums} FROM data WHERE i > 3 AND s < 30000{grouping} HAVING sum(i - 1) <> 3")
    both(vectors, f"SELECT {SUMS[0]} FROM data WHERE id < 0")
    both(vectors, f"SELECT g, {SUMS[1]} FROM data WHERE i IS NULL GROUP BY g")
    in_parallel(vectors)
    for sums in SUMS:
        for key in KEYS:
            both(vectors, f"SELECT {sums} FROM data" + (f" GROUP BY {key}" if key else ""))
    vectors.execute("SET work_mem = '64kB'; SET hash_mem_multiplier = 1")
    both(vectors, f"SELECT id, {SUMS[1]} FROM data GROUP BY id")


@pytest.mark.parametrize("place", ["heap", "columns"])
@pytest.mark.parametrize(
    ("column", "edge", "expressions"),
    [
        ("s smallint", "32767", ("s + 1::smallint", "s - 1::smallint", "s + 1", "s * 2::smallint - 5::smallint")),
        ("s smallint", "-32768", ("s + 1::smallint", "s - 1::smallint", "0::smallint - s", "(s - 1)::smallint")),
        ("i integer", "2147483647", ("i + 1", "i - 1", "(i - 1) + 1", "(i + 1) - 1", "i + 1::bigint", "i * 2 - i")),
        ("i integer", "-2147483648", ("i - 1", "i + 1", "0 - i", "-1 - i", "i * -1", "(i::bigint - 1)::integer")),
        ("b bigint", "9223372036854775807", ("b + 1", "b - 1", "b - b", "b * 0 + 1", "(b - 5) + 5", "b + 1 - 1")),
        ("b bigint", "-9223372036854775808", ("b - 1", "b + 1", "-1 - b", "b::integer", "b * 1", "0 - b")),
    ],
)
def test_overflow(vectors: Connection, place: str, column: str, edge: str, expressions: tuple[str, ...]) -> None:
    """The one value at the edge of a type raises PostgreSQL's error, or none, whether rows with it are kept or not."""
    name = column.split()[0]
    vectors.execute(f"CREATE TABLE data (id integer, {column})".encode())
    vectors.execute(f"INSERT INTO data SELECT g, CASE WHEN g <> 1500 THEN g END FROM generate_series(1, 3000) g; UPDATE data SET {name} = {edge} WHERE id = 2000".encode())  # fmt: skip  # noqa: E501
    if place == "columns":
        vectors.execute(f"CREATE INDEX ON data USING columns (id, {name}) WITH (segment_blocks = 16)".encode())
    vectors.execute("VACUUM (FREEZE, ANALYZE) data")
    vectors.execute("SET pgbillion_rows.columns = force")
    for expression in expressions:
        for query in (
            f"SELECT sum({expression}) FROM data",
            f"SELECT sum({name}), avg({expression}), count(*) FROM data",
            f"SELECT id % 4, sum({expression}), avg({name}) FROM data GROUP BY 1",
            f"SELECT id, sum({expression}) FROM data GROUP BY id",
            f"SELECT sum({expression}), sum({name}) FROM data WHERE id < 2000",
            f"SELECT sum({expression}), sum({name}) FROM data WHERE {name} <> {edge}",
            f"SELECT sum({expression}) FILTER (WHERE id < 2000), sum({name}) FROM data",
            f"SELECT sum(CASE WHEN id < 2000 THEN {expression} END), sum({name}) FROM data",
        ):
            agree(vectors, query)


def test_a_sum_that_overflows_is_reported(vectors: Connection) -> None:
    vectors.execute("CREATE TABLE data AS SELECT g AS i FROM generate_series(1, 100) g UNION ALL SELECT 2147483646")
    both(vectors, "SELECT sum(i), sum(i + 1) FROM data")
    with pytest.raises(errors.NumericValueOutOfRange, match="integer out of range"):
        vectors.execute("SELECT sum(i), sum(i + 2) FROM data")


def test_sums_beyond_64_bits(vectors: Connection) -> None:
    vectors.execute(
        "CREATE TABLE data AS SELECT CASE WHEN g % 2 = 0 THEN 9223372036854775000 ELSE 9000000000000000000 END AS b,"
        " 2147483000 AS i FROM generate_series(1, 4000) g"
    )
    both(
        vectors,
        "SELECT sum(b), sum(b + 1), sum(b - 9000000000000000000), avg(b + 7), sum(b * -1), sum(5 - b) FROM data",
    )
    both(vectors, "SELECT sum(i), sum(i::bigint * 4000000000), avg(i::bigint * -4000000000 + 1), sum(1 - i) FROM data")


def test_joins_partitions_and_prepared_statements(vectors: Connection) -> None:
    fill(vectors)
    vectors.execute(
        "CREATE TABLE parts (LIKE data) PARTITION BY RANGE (id); CREATE TABLE parts_1 PARTITION OF parts FOR VALUES"
        " FROM (0) TO (4000); CREATE TABLE parts_2 PARTITION OF parts DEFAULT; INSERT INTO parts SELECT * FROM data;"
        " CREATE DOMAIN whole AS integer; CREATE TABLE domains AS SELECT i::whole AS i, g FROM data"
    )
    vectors.execute("SET pgbillion_rows.vector_join = force; ANALYZE data; ANALYZE parts; ANALYZE domains")
    both(vectors, "SELECT g, sum(i), sum(i + 1), avg(2 * i) FROM parts GROUP BY g")
    both(vectors, "SELECT sum(i), sum(i + 1), avg(2 * i) FROM domains")
    both(vectors, "SELECT d.g, sum(d.i), sum(d.i + 1), sum(p.i - 2), avg(p.i) FROM data d JOIN parts_1 p USING (id)"
         " GROUP BY d.g", node=None)  # fmt: skip
    vectors.execute(
        "SET plan_cache_mode = force_generic_plan; PREPARE q AS SELECT sum(i + $1), sum(i), avg(i + 1) FROM data"
    )
    for number in (1, -5):
        ours = answers.answer(vectors.execute(f"EXECUTE q ({number})".encode()))
        plans.switch(vectors, False)
        core = answers.answer(vectors.execute(f"SELECT sum(i + {number}), sum(i), avg(i + 1) FROM data".encode()))
        plans.switch(vectors, True)
        assert answers.difference(core, ours) is None
    with pytest.raises(psycopg.errors.NumericValueOutOfRange):
        vectors.execute("EXECUTE q (2147483647)")

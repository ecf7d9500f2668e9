"""Sorts of many rows, which are split by their numbers, give PostgreSQL's order."""

from __future__ import annotations

import os
import random
from collections.abc import Callable

import pytest

from harness.amount import Count, amount
from harness.outcomes import WAYS, WHOLE, both, explained_each, leaving_nothing
from pgbillion.common.connection import Connection
from pgbillion.rows import plans
from pgbillion.server.postgres import Cluster

pytestmark = pytest.mark.majors

QUERIES = amount("PGBILLION_TEST_SORTS", 200, 50)
SEED = int(os.environ.get("PGBILLION_TEST_SEED") or random.SystemRandom().randrange(2**31))
# g is a row's number, h one by chance of 31 bits
COLUMNS = {
    "few": "h % 5",
    "short": "(h % 30000)::smallint",
    "int": "h - 1000000000",
    "large": "hashint8extended(g, 1)",
    "skewed": "CASE WHEN h % 1000 = 0 THEN h::bigint << 30 ELSE h % 100 END",
    "edges": "CASE h % 9 WHEN 0 THEN -9223372036854775808 WHEN 1 THEN 9223372036854775807 ELSE h END::bigint",
    "up": "g",
    "down": "-g",
    "one": "7",
    "float": "CASE h % 50 WHEN 0 THEN 'NaN' WHEN 1 THEN '-Infinity' WHEN 2 THEN '-0' ELSE h / 7.0 - 1e8 END::float8",
    "real": "(h % 100000 / 3.0)::float4",
    "flag": "h % 2 = 0",
    "day": "date '2020-01-01' + h % 2000",
    "ts": "timestamp '2020-01-01' + make_interval(secs => h)",
    "num": "(h % 1000000 / 100.0)::numeric(12, 2)",
    "word": "('word ' || h % 300)",
    "code": "md5(h::text) COLLATE \"C\"",
    "id8": "md5(h::text)::uuid",
    "named": "('n' || h % 2000)::name",
    "iv": "make_interval(days => h % 40)",
}  # fmt: skip
FIXED = [name for name in COLUMNS if name not in ("num", "word", "code")]
NARROW = ["few", "short", "int", "up", "flag", "real", "day", "skewed", "large", "one"]


def make(conn: Connection, name: str, rows: int) -> None:
    """Make a table, some of whose rows are NULL in a column, lack the last columns, or have been deleted."""
    values = ", ".join(
        f"CASE WHEN hashint4extended(g, {n}) % 20 <> 0 THEN {text} END AS {column}"
        for n, (column, text) in enumerate(COLUMNS.items())
    )
    conn.execute(
        f"CREATE TABLE {name} AS SELECT g AS id, {values} FROM (SELECT g, hashint4(g) & 2147483647 AS h"
        f" FROM generate_series(1, {rows}) g) s;"
        f" ALTER TABLE {name} ADD late int DEFAULT 42, ADD later text;"
        f" UPDATE {name} SET late = id % 3, later = 'x' || id % 4 WHERE id % 10 = 3;"
        f" DELETE FROM {name} WHERE id % 100 = 7; ANALYZE {name}".encode()
    )


@pytest.fixture
def sorts(conn: Connection) -> Connection:
    """A session with VectorSort forced."""
    conn.prepare_threshold = None
    conn.execute("CREATE SCHEMA s; SET search_path = s, public; LOAD 'pgbillion_rows'")
    conn.execute(
        "SET pgbillion_rows.vector_sort = force; SET max_parallel_workers_per_gather = 0; SET timezone = 'UTC'"
    )
    return conn


def nodes(conn: Connection, query: str) -> list[str]:
    """Our nodes in a plan, from the top."""
    found = (node.get("Custom Plan Provider") for node in plans.nodes(plans.explain(conn, query)))
    return [name for name in found if name is not None]


def summary(query: str, row: str = "x") -> str:
    """A query of the rows in their order, as one value."""
    return f"SELECT count(*), md5(string_agg({row}::text, ',')) FROM ({query}) x"


def check(conn: Connection, query: str, row: str = "x") -> None:
    found = []
    for ours in (False, True):
        plans.switch(conn, ours)
        found.append(conn.execute(summary(query, row).encode()).fetchone())
    assert found[0] == found[1], query


def key(chance: random.Random, columns: list[str]) -> str:
    return f"{chance.choice(columns)} {chance.choice(('', 'DESC'))} {chance.choice(('', 'NULLS FIRST', 'NULLS LAST'))}"


def generated(chance: random.Random, table: str) -> str:
    columns = chance.choice((NARROW, FIXED, [*COLUMNS]))
    kept = chance.sample(columns, chance.randint(0, min(len(columns), 12)))
    if chance.random() < 0.3:
        kept += chance.choice((["late"], ["42 AS c"], ["NULL::int AS c", "late"], ["later"], ["'text' AS c"]))
    keys = ", ".join([*(key(chance, columns) for _ in range(chance.randint(1, 3))), "id"])
    where = chance.choice(("", "", " WHERE short < 20000", " WHERE few = 3 AND id > 100", " WHERE id < 0"))
    return f"SELECT {', '.join(['id', *kept])} FROM {table}{where} ORDER BY {keys}"


def test_generated(
    sorts: Connection, cluster: Cluster, database: str, tell: Callable[[str], None], counted: Count
) -> None:
    chance = random.Random(SEED)
    make(sorts, "many", 40000)
    make(sorts, "fewer", 3000)
    batches = explained = 0
    sorts.execute("BEGIN")
    with leaving_nothing(cluster, database):
        for number in range(QUERIES):
            way = chance.choice(WAYS)
            # of many rows, only a summary is sent
            large = way == WHOLE and chance.random() < 0.4
            query = generated(chance, "many" if large else "fewer")
            settings = (
                f"SET work_mem = '{chance.choice(('64kB', '1MB', '64MB', '64MB'))}';"
                f" SET pgbillion_rows.vector_scan = {chance.choice(('on', 'force', 'off'))};"
            )
            off, where = f"{settings} SET pgbillion_rows.enable = off;", f"seed {SEED}, query {number}"
            core = both(sorts, summary(query) if large else query, off, settings, way, where, ordered=True)
            assert not isinstance(core, str), f"{core}: {where}: {query}"
            if number % explained_each(QUERIES) == 0:
                sorts.execute(f"SAVEPOINT explained; {settings}".encode())
                found = nodes(sorts, query)
                sorts.execute("ROLLBACK TO explained")
                assert found[0] == "VectorSort", f"{where}: {query}"
                batches += "VectorScan" in found
                explained += 1
    sorts.execute("ROLLBACK")
    tell(f"seed {SEED}: {QUERIES} queries, {batches} of {explained} by batches")
    counted({"queries": QUERIES})
    assert batches > explained / 4


@pytest.mark.quick
def test_a_table_is_read_by_batches(sorts: Connection) -> None:
    """A sort takes the values of a table's columns; what is computed, locked or counted in between comes by rows."""
    make(sorts, "many", 20000)
    for query, expected in (
        ("SELECT id, int FROM many ORDER BY int, id", True),
        ("SELECT id, int, 1 AS c, NULL AS d FROM many WHERE few = 2 ORDER BY int DESC, id", True),
        ("SELECT id, word FROM many ORDER BY word, id", True),
        ("SELECT id, int FROM many ORDER BY int / 2, id", False),
        ("SELECT id, int FROM many WHERE 100 / id < 50 ORDER BY int, id", False),
        ("SELECT id, ctid FROM many ORDER BY int, id", False),
        ("SELECT many FROM many ORDER BY int, id", False),
        ("SELECT id, pg_column_size(word) FROM many ORDER BY int, id", False),
    ):
        assert ("VectorScan" in nodes(sorts, query)) == expected, query
        if "pg_column_size" not in query:
            check(sorts, query)
    assert "VectorScan" not in nodes(sorts, "SELECT id FROM many ORDER BY int, id FOR UPDATE")
    small = "SELECT 1 FROM (VALUES (1)) v(i), LATERAL (SELECT * FROM one ORDER BY int, id OFFSET 0) x"
    make(sorts, "one", 5)
    assert "VectorScan" not in nodes(sorts, small)


def test_what_explain_counts(sorts: Connection) -> None:
    make(sorts, "many", 20000)
    query = "SELECT id, int FROM many WHERE few = 2 ORDER BY int, id"
    rows = len(sorts.execute(query.encode()).fetchall())
    found = {
        node["Custom Plan Provider"]: node
        for node in plans.nodes(plans.explain(sorts, query, run=True))
        if "Custom Plan Provider" in node
    }
    assert found["VectorScan"]["Actual Rows"] == found["VectorSort"]["Actual Rows"] == rows
    assert found["VectorScan"]["Actual Loops"] == 1


def test_parameters_of_an_outer_query(sorts: Connection) -> None:
    """The scan below begins anew with each value, also where not all rows were taken."""
    make(sorts, "many", 20000)
    sorts.execute("SET enable_material = off")
    for inner in (
        "SELECT id, int FROM many WHERE few = g ORDER BY int, id OFFSET 0",
        "SELECT id, int FROM many ORDER BY int, id OFFSET 0",
    ):
        check(sorts, f"SELECT g, x.* FROM generate_series(1, 4) g, LATERAL ({inner}) x WHERE x.id % 500 = 3")
        check(sorts, f"SELECT g, (SELECT sum(id) FROM ({inner}) x WHERE x.id % 7 = g) FROM generate_series(1, 4) g")
        check(sorts, f"SELECT * FROM (SELECT * FROM ({inner.replace('g', '2')}) x LIMIT 30) y")


def test_parts(sorts: Connection) -> None:
    """Many short rows are split by the first key, and each part is sorted when its first row is wanted."""
    columns = ("int", "large", "skewed", "edges", "up", "down", "few", "float", "real", "ts", "id8")
    values = ", ".join(
        f"CASE WHEN hashint4extended(g, {n}) % 20 <> 0 THEN {COLUMNS[column]} END AS {column}"
        for n, column in enumerate(columns)
    )
    sorts.execute(
        f"CREATE TABLE many AS SELECT g AS id, {values} FROM (SELECT g, hashint4(g) & 2147483647 AS h"
        f" FROM generate_series(1, 150000) g) s; ANALYZE many; SET work_mem = '256MB'".encode()
    )
    chance = random.Random(SEED)
    by_value = list(columns[:-1])
    for number, first in enumerate(by_value):
        direction = ("", "DESC", "DESC NULLS LAST", "NULLS FIRST")[(number + SEED) % 4]
        second = chance.choice(columns)
        query = (
            f"SELECT id, large, float, ts, {first} AS x, {second} AS y FROM many ORDER BY {first} {direction}, y, id"
        )
        check(sorts, query)
    # begun anew where a part of them had been returned, and in part
    sorts.execute("SET enable_material = off")
    inner = (
        "SELECT id, int, large, float, ts, few, edges, skewed FROM many WHERE few <> {} ORDER BY int DESC, id OFFSET 0"
    )
    check(sorts, f"SELECT g, x.* FROM generate_series(1, 3) g, LATERAL ({inner.format('g')}) x WHERE x.id % 5000 = 3")
    check(
        sorts, f"SELECT g, (SELECT max(id) FROM ({inner.format('g')}) x WHERE id % 9 = g) FROM generate_series(1, 2) g"
    )
    first = f"SELECT * FROM ({inner.format(1)}) y LIMIT 300"
    check(sorts, f"SELECT g, x.* FROM generate_series(1, 3) g, LATERAL ({first}) x")
    # none but NULLs, and one value
    rest = "id, large, float, ts, edges, skewed"
    for key in ("nullif(id, id)", "id * 0"):
        sorts.execute(f"CREATE TABLE equal AS SELECT {key} AS k, {rest} FROM many; ANALYZE equal".encode())
        check(sorts, "SELECT * FROM equal ORDER BY k DESC, id", "hash_record(x)")
        sorts.execute("DROP TABLE equal")

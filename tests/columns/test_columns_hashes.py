"""Equality on values that are nearly all different: blocks are found by tables of hashes, and no row is left out.

PGBILLION_TEST_QUERIES is how many queries are generated (default 300), PGBILLION_TEST_SEED repeats them.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from harness.amount import Count, amount
from harness.servers import one
from pgbillion.common.connection import Connection
from pgbillion.rows import plans

pytestmark = pytest.mark.majors

QUERIES = amount("PGBILLION_TEST_QUERIES", 300, 100)
SEED = int(os.environ.get("PGBILLION_TEST_SEED") or random.SystemRandom().randrange(2**31))
ROWS = 14000
# numbers in no order, the same for the same i
RANDOM = "('x' || substr(md5({}::text), 1, 16))::bit(64)::bigint"
COLUMNS = {
    "big": ("bigint", RANDOM.format("i")),
    "string": ("text", "md5(i::text) || repeat(' ', i % 3)"),
    "short": ("varchar(40)", "substr(md5(i::text), 1, 10)"),
    "padded": ("char(20)", "substr(md5(i::text), 1, 4 + i % 10)"),
    "key": ("uuid", "md5(i::text)::uuid"),
    "holes": ("uuid", "CASE WHEN i % 3 > 0 THEN md5(i::text)::uuid END"),
    "gaps": ("text", "CASE WHEN i % 3 > 0 THEN md5(i::text) END"),
    "twice": ("text", "md5((i % 4000)::text)"),
    "phrase": ("text", "'the quick brown fox ' || md5(i::text) || ' jumps over the lazy dog'"),
}
FORCED = """LOAD 'pgbillion_rows'; SET pgbillion_rows.vector_aggregate = force; SET pgbillion_rows.columns = force;
    SET pgbillion_rows.vector_join = force; SET pgbillion_rows.vector_scan = force;
    SET max_parallel_workers_per_gather = 0"""


@pytest.fixture
def conn(conn: Connection) -> Connection:
    conn.execute(FORCED.encode())
    conn.prepare_threshold = None
    make(conn)
    return conn


def make(conn: Connection) -> None:
    columns = ", ".join(f"{name} {kind}" for name, (kind, _) in COLUMNS.items())
    values = ", ".join(value for _, value in COLUMNS.values())
    conn.execute("DROP TABLE IF EXISTS h CASCADE")
    conn.execute(f"CREATE TABLE h (id int, {columns}) WITH (autovacuum_enabled = off)".encode())
    conn.execute(f"INSERT INTO h SELECT i, {values} FROM generate_series(1, {ROWS}) i".encode())
    # changed rows come to the last segment, which must be long enough
    assert one(conn, "SELECT pg_relation_size('h') / 8192 % 128") > 64
    conn.execute("VACUUM ANALYZE h")
    conn.execute(
        f"CREATE INDEX h_columns ON h USING columns (id, {', '.join(COLUMNS)}, (upper(short))) "
        "WITH (segment_blocks = 128, refresh_share = 0)".encode()
    )


def rows_of(conn: Connection, query: str) -> list[str]:
    return sorted(map(repr, conn.execute(query.encode()).fetchall()))


def same(conn: Connection, query: str) -> list[str]:
    """Return the rows that a query returns, if PostgreSQL returns the same by itself."""
    found = rows_of(conn, query)
    plans.switch(conn, False)
    expected = rows_of(conn, query)
    plans.switch(conn, True)
    assert found == expected, f"seed {SEED}: {query}"
    return found


def scan(conn: Connection, query: str) -> dict[str, Any]:
    """Return what EXPLAIN ANALYZE says of the node that reads the index."""
    (node,) = (node for node in plans.nodes(plans.explain(conn, query, run=True)) if "Column Blocks Read" in node)
    return dict(node)


def gathered(conn: Connection, query: str) -> list[dict[str, Any]]:
    return [dict(node) for node in plans.nodes(plans.explain(conn, query, run=True)) if "Workers Launched" in node]


def value(conn: Connection, name: str, number: int) -> str:
    """Return a row's value as a literal of its type."""
    found = one(conn, f"SELECT quote_nullable({name}::text) FROM h WHERE id = {number}")
    return f"{found}::{COLUMNS[name][0]}"


def test_few_blocks_are_read(conn: Connection) -> None:
    """Of a value that exists, its blocks; of others none, or a few by mistake."""
    assert one(conn, "SELECT count(*) FROM pgbillion_rows.columns_check('h')") == 0
    for name in COLUMNS:
        check_few(conn, name)


def check_few(conn: Connection, name: str) -> None:
    literal = value(conn, name, 5003)
    for condition in (f"{name} = {literal}", f"{literal} = {name}", f"{name} IN ({literal}, {value(conn, name, 7)})"):
        query = f"SELECT id FROM h WHERE {condition}"
        node = scan(conn, query)
        assert same(conn, query)
        assert 0 < node["Column Blocks Read"] < node["Column Blocks Skipped"] / 8, node
    nobody = "'00000000-0000-0000-0000-000000000000'::uuid"
    other = {"big": "17::bigint", "key": nobody, "holes": nobody}.get(name, "'nothing'::text")
    if name == "padded":
        other = "'nothing'::char(20)"
    query = f"SELECT id FROM h WHERE {name} = {other}"
    node = scan(conn, query)
    assert same(conn, query) == []
    segments = one(conn, "SELECT ceil(pg_relation_size('h') / 8192 / 128.0)::int")
    assert node["Column Segments Read"] + node["Column Segments Skipped"] == segments > 1, node
    assert node["Column Blocks Read"] < node["Column Blocks Skipped"] / 8, node


def test_equality_is_that_of_the_type(conn: Connection) -> None:
    """Integers of all lengths, blanks at the end, strings taken for char(n), an expression."""
    conn.execute("UPDATE h SET big = 7 WHERE id = 100; UPDATE h SET big = -5 WHERE id = 200")
    conn.execute("UPDATE h SET string = 'ab  ', short = 'ab  ', padded = 'ab', gaps = 'ab' WHERE id IN (100, 9000)")
    conn.execute("VACUUM (INDEX_CLEANUP ON) h")
    conn.execute("CALL pgbillion_rows.columns_refresh('h')")
    assert one(conn, "SELECT readable_blocks = table_blocks FROM pgbillion_rows.columns_status('h')")
    wrong = []
    for condition, expected in {
        "big = 7": 1,
        "big = 7::smallint": 1,
        "-5 = big": 1,
        "big IN (7, -5, 8, NULL)": 2,
        "big = 7.0": 1,
        "big >= 7 AND big <= 7": 1,
        "big >= -5 AND big <= 7": 2,
        "big NOT IN (7, -5)": ROWS - 2,
        "big <> 7": ROWS - 1,
        "key <> '00000000-0000-0000-0000-000000000000'": ROWS,
        "key NOT IN ('00000000-0000-0000-0000-000000000000')": ROWS,
        "key NOT IN ('00000000-0000-0000-0000-000000000000', '00000000-0000-0000-0000-000000000001')": ROWS,
        "key NOT IN ('00000000-0000-0000-0000-000000000000', NULL)": 0,
        "string = 'ab  '": 2,
        "string = 'ab'": 0,
        "string::bpchar = 'ab'::bpchar": 2,
        "short = 'ab  '": 2,
        "short::bpchar = 'ab'": 2,
        "short = 'ab'": 0,
        "padded = 'ab'": 2,
        "padded = 'ab   '::char(5)": 2,
        "padded = 'ab'::text": 2,
        "padded = 'ab  '::text": 0,
        "padded IN ('ab  ', 'cd')": 2,
        "string IN ('ab', 'ab  ')": 2,
        "string::bpchar IN ('ab', 'cd')": 2,
        "upper(short) = 'AB  '": 2,
        "string = ANY ('{}')": 0,
        "string = ANY ('{NULL}')": 0,
        "string = NULL": 0,
        "big = ANY (NULL::bigint[])": 0,
        "string COLLATE \"C\" = 'ab  '": 2,
        "string = 'ab  ' OR big = -5": 3,
        "NOT (string <> 'ab  ')": 2,
        "string NOT IN ('ab  ')": ROWS - 2,
        "string NOT IN ('ab', 'cd')": ROWS,
        "gaps = 'ab' AND big = 7": 1,
        "gaps = 'ab' AND key = '00000000-0000-0000-0000-000000000000'": 0,
    }.items():
        query = f"SELECT id FROM h WHERE {condition}"
        found = rows_of(conn, query)
        plans.switch(conn, False)
        right = rows_of(conn, query)
        plans.switch(conn, True)
        assert len(right) == expected, condition
        if found != right:
            wrong.append((condition, len(found)))
    assert wrong == []
    # ranges of more than one value
    for term in (
        "big > 7",
        "big < -5",
        "big >= -5 AND big < 9000000000000000000",
        "big BETWEEN -5 AND 10::bigint ^ 17",
    ):
        assert len(same(conn, f"SELECT id FROM h WHERE {term}")) > 10


def test_collations_with_equal_strings_of_other_bytes(conn: Connection) -> None:
    if not one(conn, "SELECT count(*) FROM pg_collation WHERE collname = 'und-x-icu'"):
        pytest.skip("this installation is without ICU")
    conn.execute(
        "CREATE COLLATION IF NOT EXISTS caseless (provider = icu, locale = 'und-u-ks-level2', deterministic = false)"
    )
    literal = value(conn, "string", 42)
    for condition in (
        f"string COLLATE caseless = upper({literal})",
        f"string COLLATE caseless IN (upper({literal}), 'x')",
    ):
        assert len(same(conn, f"SELECT id FROM h WHERE {condition}")) == 1
    conn.execute("ALTER TABLE h ALTER string TYPE text COLLATE caseless")
    assert len(same(conn, f"SELECT id FROM h WHERE string = upper({literal})")) == 1
    assert len(same(conn, f'SELECT id FROM h WHERE string = upper({literal}) COLLATE "C"')) == 0


def test_parameters(conn: Connection) -> None:
    conn.execute("SET plan_cache_mode = force_generic_plan")
    for name, kind in (("big", "bigint"), ("string", "text"), ("key", "uuid"), ("padded", "char(20)")):
        conn.execute(f"PREPARE by_{name} ({kind}) AS SELECT id FROM h WHERE {name} = $1".encode())
        for number in (1, 6000, ROWS):
            assert same(conn, f"EXECUTE by_{name} ({value(conn, name, number)})") == [f"({number},)"]
        assert same(conn, f"EXECUTE by_{name} (NULL)") == []
    # long enough to be compressed as a value of a row
    conn.execute("UPDATE h SET string = repeat('abc', 2000) WHERE id = 77")
    conn.execute("VACUUM (INDEX_CLEANUP ON) h")
    conn.execute("CALL pgbillion_rows.columns_refresh('h')")
    assert same(conn, "EXECUTE by_string (repeat('abc', 2000))") == ["(77,)"]
    # and that is compressed as a parameter, too
    conn.execute("DROP TABLE IF EXISTS long; CREATE TABLE long AS SELECT repeat('abc', 2000) AS string")
    conn.execute(
        """CREATE OR REPLACE FUNCTION find() RETURNS SETOF int LANGUAGE plpgsql AS $$
        DECLARE sought text := string FROM long;
        BEGIN RETURN QUERY SELECT id FROM h WHERE string = sought; END $$"""
    )
    assert one(conn, "SELECT pg_column_size(string) < 1000 FROM long")
    assert same(conn, "SELECT find()") == ["(77,)"]


def test_changed_blocks_are_read(conn: Connection) -> None:
    """They have values that no table of hashes knows."""
    for name in COLUMNS:
        conn.execute(f"UPDATE h SET {name} = (SELECT {name} FROM h WHERE id = 5003) WHERE id IN (1, 11000)".encode())
    for _ in range(2):
        for name in COLUMNS:
            query = f"SELECT id FROM h WHERE {name} = {value(conn, name, 5003)}"
            assert {"(1,)", "(5003,)", "(11000,)"} <= set(same(conn, query))
            node = scan(conn, query)
            assert node["Heap Blocks Read"] > 0
            assert node["Column Blocks Skipped"] > 0
        conn.execute("VACUUM (INDEX_CLEANUP OFF) h")


def test_values_of_subqueries(conn: Connection) -> None:
    """They are not looked up, as PostgreSQL might not run the subquery; and are others with each scan."""
    nothing = "SELECT (1 / count(*))::text FROM pg_class WHERE oid = 0"
    for conditions, expected in (
        (f"id <> id AND string = ({nothing})", []),
        (f"id <> id AND padded = ({nothing})::bpchar", []),
        ("string = (SELECT string FROM h i WHERE id = 5003)", ["(5003,)"]),
    ):
        assert same(conn, f"SELECT id FROM h WHERE {conditions}") == expected
        assert same(conn, f"SELECT count(*) FROM h WHERE {conditions}") == [f"({len(expected)},)"]
    for name in COLUMNS:
        found = same(
            conn,
            f"SELECT o.id, (SELECT count(*) FROM h WHERE h.{name} = o.{name}) FROM h o WHERE id IN (1, 5003, 9000, 77)",
        )
        assert len(found) == 4


def test_processes_look_values_up(conn: Connection) -> None:
    """Each of the segments that it reads."""
    conn.execute("SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0")
    conn.execute("SET max_parallel_workers_per_gather = 2; ALTER TABLE h SET (parallel_workers = 2)")
    # so that workers seem to pay
    conn.execute("DELETE FROM pg_statistic WHERE starelid = 'h'::regclass")
    for name in COLUMNS:
        literal = value(conn, name, 5003)
        query = f"SELECT count(*), sum(id) FROM h WHERE {name} = {literal}"
        assert same(conn, query)
        assert [node["Workers Launched"] for node in gathered(conn, query)] == [2]
        node = scan(conn, query)
        assert 0 < node["Column Blocks Read"] < node["Column Blocks Skipped"] / 8, node


def test_values_in_some_order_have_none(conn: Connection) -> None:
    """Least and greatest do without; nor have columns of few values."""
    size = "SELECT pg_relation_size('o_columns')"
    conn.execute("DROP TABLE IF EXISTS o; CREATE TABLE o (random bigint, ascending bigint, near bigint, few bigint)")
    values = (RANDOM.format("i"), "i * 1000000000", f"i * 1000000000 + {RANDOM.format('i')} % 10000000000")
    conn.execute(
        f"INSERT INTO o SELECT {', '.join(values)}, {RANDOM.format('(i % 300)')}"
        " FROM generate_series(1::bigint, 50000) i".encode()
    )
    conn.execute("VACUUM ANALYZE o")
    sizes = {}
    for name in ("random", "ascending", "near", "few"):
        conn.execute(f"DROP INDEX IF EXISTS o_columns; CREATE INDEX o_columns ON o USING columns ({name})".encode())
        sizes[name] = one(conn, size)
        node = scan(conn, f"SELECT count(*) FROM o WHERE {name} = (SELECT 1)::int + 16")
        assert node["Column Blocks Read"] + node["Column Blocks Skipped"] > 0
    assert sizes["random"] > 1.2 * sizes["ascending"], sizes
    assert max(sizes["near"], sizes["few"]) <= sizes["ascending"], sizes


def with_hash(number: int) -> int:
    """Return the bigint that has a hash, as the library computes it."""
    mask = 2**64 - 1
    number ^= number >> 32
    number = number * pow(0xBF58476D1CE4E5B9, -1, 2**64) & mask
    number ^= number >> 29 ^ number >> 58
    number = number * pow(0x9E3779B97F4A7C15, -1, 2**64) & mask
    number ^= number >> 32
    return number - 2**64 if number >= 2**63 else number


@pytest.mark.parametrize("crowd", [1023, 1024, 5000])
def test_values_of_one_bucket(conn: Connection, crowd: int) -> None:
    """A bucket of too many entries: nothing is looked up. One entry fewer, and all are found."""
    conn.execute("DROP TABLE IF EXISTS c; CREATE TABLE c (v bigint) WITH (autovacuum_enabled = off)")
    # the upper half of the hash chooses the first bucket, or any but the first; entries are different
    values = [with_hash(i % 1024 + (i // 1024 << 10)) for i in range(crowd)]
    values += [with_hash((2**29 + i * 37117) << 32 | i * 7919 % 2**32) for i in range(60000)]
    assert len(set(values)) == len(values)
    with conn.cursor().copy("COPY c FROM STDIN") as copy:
        for written in values:
            copy.write_row((written,))
    conn.execute("VACUUM ANALYZE c")
    conn.execute("CREATE INDEX c_columns ON c USING columns (v) WITH (segment_blocks = 1024, refresh_share = 0)")
    assert one(conn, "SELECT count(*) FROM pgbillion_rows.columns_check('c')") == 0
    for sought in (values[0], values[crowd - 1], values[crowd // 2], values[-1]):
        query = f"SELECT count(*) FROM c WHERE v = {sought}"
        assert same(conn, query) == ["(1,)"]
        assert (scan(conn, query)["Column Blocks Skipped"] > 0) == (crowd <= 1023)


def condition(chance: random.Random, conn: Connection) -> str:
    """Generate an equality, mostly with a value that is there."""
    name = chance.choice(list(COLUMNS))
    kind = COLUMNS[name][0]
    literals = []
    for _ in range(chance.choice((1, 1, 1, 2, 5, 40))):
        number = chance.randrange(1, ROWS + 500)
        source = COLUMNS[name][1] if chance.random() < 0.8 else COLUMNS[chance.choice(("string", "gaps"))][1]
        if kind in ("bigint", "uuid"):
            source = COLUMNS[name][1]
        elif chance.random() < 0.1:
            source = f"({source})::text || ' '"
        if chance.random() < 0.05:
            source = "NULL::text"
        literal = one(conn, f"SELECT quote_nullable(({source})::text) FROM (VALUES ({number})) v(i)")
        as_type = kind if kind in ("bigint", "uuid") else chance.choice((kind, "text", "varchar", "bpchar", "char(20)"))
        literals.append(f"{literal}::{as_type}")
    column = name
    if kind not in ("bigint", "uuid") and chance.random() < 0.15:
        column = f"{name}::{chance.choice(('text', 'bpchar', 'varchar'))}"
    if len(literals) == 1:
        left, right = (column, literals[0]) if chance.random() < 0.7 else (literals[0], column)
        return f"{left} {'<>' if chance.random() < 0.1 else '='} {right}"
    if chance.random() < 0.3:
        return f"{column} = ANY (ARRAY[{', '.join(literals)}])"
    return f"{column} {'NOT ' if chance.random() < 0.1 else ''}IN ({', '.join(literals)})"


CHANGES = (
    "INSERT INTO h SELECT * FROM h WHERE id % 100 = {}",
    "UPDATE h SET string = gaps, big = -big, short = 'changed', twice = phrase WHERE id % 60 = {}",
    "UPDATE h SET id = id WHERE id % 50 = {}",
    "DELETE FROM h WHERE id % 90 = {}",
    "VACUUM (INDEX_CLEANUP ON) h",
    "VACUUM h",
    "CALL pgbillion_rows.columns_refresh('h')",
    "REINDEX INDEX h_columns",
)


def test_generated(conn: Connection, tell: Callable[[str], None], counted: Count) -> None:
    """Conditions over rows that are changed meanwhile."""
    chance = random.Random(SEED)
    seen: Counter[str] = Counter()
    for number in range(QUERIES):
        terms = [condition(chance, conn) for _ in range(chance.choice((1, 1, 2, 3)))]
        query = f"SELECT id, big, twice FROM h WHERE {chance.choice((' AND ', ' AND ', ' OR ')).join(terms)}"
        if chance.random() < 0.3:
            query = query.replace("id, big, twice", "count(*), sum(id)")
        seen["rows"] += len(same(conn, query))
        seen["queries"] += 1
        if number % 10 == 9:
            conn.execute(chance.choice(CHANGES).format(chance.randrange(50)).encode())
        if number % 25 == 24:
            assert conn.execute("SELECT * FROM pgbillion_rows.columns_check('h')").fetchall() == []
    conn.execute("SET pgbillion_rows.columns = force")
    tell(f"seed {SEED}: {dict(seen)}")
    counted({"queries": seen["queries"]})
    assert seen["rows"] > seen["queries"] / 2

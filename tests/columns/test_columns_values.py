"""Values of every kind come back from a columnar index as they are in the table, whatever form it gives them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg
import pytest

from harness.servers import one
from pgbillion.common.connection import Connection
from pgbillion.rows import plans

pytestmark = pytest.mark.majors


# type, and an expression of i that gives values of it; each takes one of the forms that a column has
COLUMNS: Sequence[tuple[str, str]] = (
    ("int", "i"),
    ("int", "7"),
    ("int", "i % 10"),
    ("int", "i % 10 * 1000000 - 5000000"),
    ("int", "CASE i % 3 WHEN 0 THEN -2147483648 WHEN 1 THEN 2147483647 ELSE i END"),
    ("smallint", "(i % 65536 - 32768)::smallint"),
    ("bigint", "CASE i % 3 WHEN 0 THEN -9223372036854775808 WHEN 1 THEN 9223372036854775807 ELSE i END"),
    ("bigint", "(i::bigint << 40)"),
    ("bool", "i % 3 = 0"),
    ('"char"', 'chr(1 + i % 127)::"char"'),
    ("oid", "(4294967295 - i)::oid"),
    ("real", "i / 7.0"),
    ("real", "(ARRAY['-0', '0', 'NaN', 'inf', '-inf'])[1 + i % 5]::real"),
    ("float8", "CASE WHEN i % 50 = 0 THEN 'NaN' ELSE i / 7.0 END"),
    ("float8", "CASE i % 2 WHEN 0 THEN '-0'::float8 ELSE '0'::float8 END"),
    ("numeric", "i"),
    ("numeric", "i / 100.0"),
    ("numeric(12,2)", "i / 100.0 - 50"),
    ("numeric(12,4)", "CASE i % 4 WHEN 0 THEN 0 WHEN 1 THEN -0.0001 WHEN 2 THEN 12345678.9 ELSE i END"),
    ("numeric", "CASE i % 2 WHEN 0 THEN 1.0 ELSE 1.00 END"),
    ("numeric", "(ARRAY['NaN', 'inf', '-inf', '0', '1e30', '1e-30'])[1 + i % 6]::numeric"),
    ("numeric", "i::numeric * 1e15"),
    ("numeric", "999999999999999999 - i"),
    ("numeric", "(i % 1000)::numeric / 1000000000000000000"),
    ("date", "'2020-01-01'::date + i"),
    ("date", "CASE i % 3 WHEN 0 THEN 'infinity'::date WHEN 1 THEN '-infinity' ELSE '2020-01-01' END"),
    ("timestamp", "'2020-01-01'::timestamp + i * interval '1 second'"),
    ("timestamptz", "'2020-01-01'::timestamptz + i * interval '1 day'"),
    ("time", "'00:00'::time + i * interval '1 second'"),
    ("timetz", "'00:00+01'::timetz + i * interval '1 second'"),
    ("interval", "i * interval '1 minute'"),
    ("money", "i::money"),
    ("uuid", "md5(i::text)::uuid"),
    ("name", "('n' || i % 300)::name"),
    ("text", "'word ' || i % 100"),
    ("text", "'row ' || i"),
    ("text", "repeat(chr(97 + i % 26), i % 300)"),
    ("text", "CASE WHEN i % 100 = 0 THEN repeat('compressed ', 300) ELSE '' END"),
    ("text", "''"),
    ("varchar(20)", "'v' || i % 3000"),
    ("char(10)", "'c' || i % 5"),
    ("bytea", "decode(md5(i::text), 'hex')"),
    ("jsonb", "jsonb_build_object('a', i % 7, 'b', i)"),
    ("int[]", "ARRAY[i, NULL, i % 3]"),
    ("text[]", "ARRAY['x', i::text]"),
    ("point", "point(i, -i)"),
    ("inet", "'10.0.0.0'::inet + i"),
    ("bit varying", "i::bit(32)::bit varying"),
    ("tsvector", "to_tsvector('simple', 'a b ' || i % 9)"),
    ("tid", "format('(%s,1)', i)::tid"),
    ("mood", "(ARRAY['sad', 'ok', 'happy'])[1 + i % 3]::mood"),
    ("whole", "(i % 9)::whole"),
    ("pair", "ROW(i % 9, 'p')::pair"),
    ("int4range", "int4range(i, i + 5)"),
    ("text", "NULL"),
    ("int", "NULL"),
    ("numeric", "CASE WHEN i % 7 > 0 THEN i / 10.0 END"),
    ("int", "CASE WHEN i % 5 > 0 THEN i END"),
    ("text", "CASE WHEN i % 5 > 0 THEN 'w' || i % 40 END"),
    ("text", "CASE WHEN i % 5 > 0 THEN md5(i::text) END"),
    ("real", "CASE WHEN i > 5000 THEN i END"),
    # of tokens: words one after the other, and in a dictionary; values with headers of one byte, of four, and of both
    ("text", "'the quick brown fox ' || i || ' jumps over the lazy dog'"),
    ("text", "'the quick brown fox ' || i % 2000 || ' jumps over the lazy dog'"),
    ("text", "repeat('the quick brown fox ' || i, 20)"),
    ("text", "repeat('the quick brown fox ' || i % 500, 1 + i % 20)"),
    ("text", "repeat('the lazy dog ' || i, 1 + i % 9)"),
    ("text", "CASE WHEN i % 3 > 0 THEN 'the quick brown fox ' || i END"),
    ("text", "CASE WHEN i % 3 > 0 THEN repeat('the quick brown fox ' || i, i % 20) END"),
    ("bytea", "decode(repeat(to_hex(i % 7000 + 16), 12), 'escape')"),
    ("jsonb", "jsonb_build_object('the quick brown fox', i, 'the lazy dog', i % 7)"),
    ("name", "('a name of many ' || i)::name"),
    ("interval", "i * interval '1 second'"),
    ("text", "'the quick brown ' || i || repeat('fox', CASE WHEN i % 500 = 0 THEN 600 ELSE 0 END)"),
)
ROWS = 6000


@pytest.fixture(scope="module", autouse=True)
def types(cluster: Any, database: str) -> None:
    with cluster.connect(database) as conn:
        conn.execute("CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy')")
        conn.execute("CREATE DOMAIN whole AS int CHECK (VALUE >= 0)")
        conn.execute("CREATE TYPE pair AS (a int, b text)")


def problems(conn: Connection) -> list[Any]:
    return conn.execute("SELECT * FROM pgbillion_rows.columns_check('t')").fetchall()


def readable(conn: Connection) -> bool:
    return bool(one(conn, "SELECT sum(readable_blocks) = sum(table_blocks) FROM pgbillion_rows.columns_status('t')"))


@pytest.mark.parametrize("first", range(0, len(COLUMNS), 16))
def test_values(conn: Connection, first: int) -> None:
    some = COLUMNS[first : first + 16]
    conn.execute("DROP TABLE IF EXISTS t")
    conn.execute(f"CREATE TABLE t ({', '.join(f'c{n} {kind}' for n, (kind, _) in enumerate(some))})")
    conn.execute(f"INSERT INTO t SELECT {', '.join(value for _, value in some)} FROM generate_series(1, {ROWS}) i")
    conn.execute("VACUUM t")
    conn.execute(f"CREATE INDEX ON t USING columns ({', '.join(f'c{n}' for n in range(len(some)))})")
    assert readable(conn)
    assert problems(conn) == []


def test_values_out_of_line_are_left_in_the_table(conn: Connection) -> None:
    conn.execute("DROP TABLE IF EXISTS t")
    conn.execute("CREATE TABLE t (id int, word text)")
    conn.execute("ALTER TABLE t ALTER word SET STORAGE external")
    conn.execute(
        "INSERT INTO t SELECT i, repeat('x', CASE i WHEN 500 THEN 100000 ELSE 5 END) FROM generate_series(1, 5000) i"
    )
    conn.execute("VACUUM t")
    conn.execute("CREATE INDEX ON t USING columns (id, word)")
    assert readable(conn)
    # its pointers would be of no use once the row is gone
    conn.execute("DELETE FROM t WHERE id = 500")
    conn.execute("VACUUM (INDEX_CLEANUP ON) t")
    assert problems(conn) == []


def test_columns_added_and_dropped(conn: Connection) -> None:
    conn.execute("DROP TABLE IF EXISTS t")
    conn.execute("CREATE TABLE t (gone text, id int, word text)")
    conn.execute("INSERT INTO t SELECT 'gone', i, 'w' || i FROM generate_series(1, 1000) i")
    conn.execute("ALTER TABLE t DROP gone")
    conn.execute("ALTER TABLE t ADD number int DEFAULT 42, ADD long text DEFAULT 'a default', ADD none text")
    conn.execute("INSERT INTO t SELECT i, 'w' || i, i, 'other', 'some' FROM generate_series(1, 1000) i")
    conn.execute("VACUUM t")
    conn.execute("CREATE INDEX ON t USING columns (long, word, number, none, id)")
    assert readable(conn)
    assert problems(conn) == []


def test_as_many_columns_as_an_index_has(conn: Connection) -> None:
    names = [f"c{n}" for n in range(33)]
    conn.execute("DROP TABLE IF EXISTS t")
    conn.execute(f"CREATE TABLE t ({', '.join(f'{name} int' for name in names)})")
    values = ", ".join(f"i * {n}" for n in range(33))
    conn.execute(f"INSERT INTO t SELECT {values} FROM generate_series(1, 3000) i")
    conn.execute("VACUUM t")
    conn.execute(f"CREATE INDEX ON t USING columns ({', '.join(names[:32])})")
    assert readable(conn)
    assert problems(conn) == []
    with pytest.raises(psycopg.errors.TooManyColumns):
        conn.execute(f"CREATE INDEX ON t USING columns ({', '.join(names)})")


@pytest.mark.parametrize("segment_blocks", [32, 100, 1024])
def test_sizes_of_segments(conn: Connection, segment_blocks: int) -> None:
    conn.execute("DROP TABLE IF EXISTS t")
    conn.execute("CREATE TABLE t (id int, word text)")
    conn.execute("INSERT INTO t SELECT i, md5(i::text) FROM generate_series(1, 100000) i")
    conn.execute("VACUUM t")
    conn.execute(f"CREATE INDEX ON t USING columns (id, word) WITH (segment_blocks = {segment_blocks})")
    assert readable(conn)
    assert problems(conn) == []


@pytest.mark.parametrize(
    ("distinct", "absent"),
    [
        (5000, False),  # a dictionary, with the long value once
        (70_000, True),  # more different values than codes
    ],
)
def test_the_bytes_of_a_column_are_counted_beyond_4_gb(conn: Connection, distinct: int, absent: bool) -> None:
    """Rows from before ADD COLUMN share one long value: 8,192 of 512 kB are 2^32 bytes, which 32 bits count as 0."""
    conn.execute(
        "DROP TABLE IF EXISTS t; CREATE TABLE t (i int) WITH (autovacuum_enabled = off);"
        " INSERT INTO t SELECT i FROM generate_series(1, 8192) i;"
        " ALTER TABLE t ADD COLUMN v text DEFAULT repeat('x', 512 * 1024 - 4)"
    )
    conn.execute(f"INSERT INTO t SELECT i, 'v' || i FROM generate_series(1, {distinct}) i".encode())
    conn.execute("VACUUM t")
    conn.execute("CREATE INDEX ON t USING columns (i, v) WITH (segment_blocks = 1024)")
    assert readable(conn)
    assert problems(conn) == []
    conn.execute("SET pgbillion_rows.columns = force; SET pgbillion_rows.vector_aggregate = force")
    query = "SELECT count(*), count(v), sum(octet_length(v)) FROM t"
    ours = conn.execute(query.encode()).fetchall()
    conn.execute("SET pgbillion_rows.enable = off")
    assert conn.execute(query.encode()).fetchall() == ours
    conn.execute("SET pgbillion_rows.enable = on")
    (scan,) = (node for node in plans.nodes(plans.explain(conn, query, run=True)) if "Columns" in node)
    assert (scan["Column Blocks Read"] == 0) is absent
    assert one(conn, "SELECT pg_relation_size('t_i_v_idx')") < 512 * 1024

"""Strings compared by their order: by vectors where their collation compares bytes, by PostgreSQL where it does not."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness import servers
from harness.servers import one
from pgbillion.common.connection import Connection
from pgbillion.rows import plans
from pgbillion.server.postgres import Cluster

pytestmark = [pytest.mark.quick, pytest.mark.majors]

# prefixes of each other, blanks at the end, bytes above 127, strings that are compressed and out of line
VALUES = ("", " ", "a", "a ", "a  ", "ab", "A", "b", "B", "ä", "é", "z", "zz", "\x01", "a\x01", "日本", "\U0001f600",
          "x" * 300, "x" * 3000, "x" * 2999 + "y", "x" * 20000 + "a", "x" * 20000)  # fmt: skip
OPERATORS = ("<", "<=", "=", ">=", ">", "<>")
# none of the types' own collations may come from the database
COLUMNS = ("t", "v", "c", "d")


@pytest.fixture(scope="module")
def database(cluster: Cluster) -> Iterator[str]:
    with servers.new_database(cluster, "text_order") as name:
        with cluster.connect(name) as conn:
            conn.execute(
                'CREATE TABLE words (id integer, t text COLLATE "C", v varchar COLLATE "POSIX", c char(40) COLLATE "C",'
                ' d text, u text COLLATE "C", b char(40) COLLATE "C")'
            )
            with conn.cursor() as cursor:
                rows = [(i, value, value, value and value[:40], value) for i, value in enumerate([*VALUES, None] * 40)]
                cursor.executemany("INSERT INTO words VALUES (%s, %s, %s, %s, %s)", rows)
            conn.execute("UPDATE words w SET u = o.t, b = o.c FROM words o WHERE o.id = (w.id * 7 + 3) % 900")
            conn.execute("VACUUM (ANALYZE, FREEZE) words")
            conn.execute("CREATE INDEX words_columns ON words USING columns (id, t, v, c, d)")
            conn.execute("CALL pgbillion_rows.columns_refresh('words')")
        yield name


@pytest.fixture
def conn(cluster: Cluster, database: str) -> Iterator[Connection]:
    with cluster.connect(database) as conn:
        conn.prepare_threshold = None
        conn.execute("LOAD 'pgbillion_rows'; SET max_parallel_workers_per_gather = 0")
        yield conn


def kernels(conn: Connection, condition: str) -> bool:
    """Is all of it done by vectors? Its rows are PostgreSQL's, from the heap and from a columnar index."""
    query = f"SELECT count(*), sum(id), min(id) FROM words WHERE {condition}"
    conn.execute("SET pgbillion_rows.vector_aggregate = off; SET pgbillion_rows.vector_scan = off")
    core = conn.execute(query.encode()).fetchall()
    conn.execute("SET pgbillion_rows.vector_aggregate = force; SET pgbillion_rows.vector_scan = off")
    for columns in ("off", "force"):
        conn.execute(f"SET pgbillion_rows.columns = {columns}".encode())
        assert conn.execute(query.encode()).fetchall() == core, condition
    (found,) = (n["Vectorized"] for n in plans.nodes(plans.explain(conn, query, verbose=True)) if "Vectorized" in n)
    assert "1 filter terms" in found
    return "1 of 1 filter terms" in found


@pytest.mark.parametrize("column", COLUMNS)
def test_order_of_strings(conn: Connection, column: str) -> None:
    bytewise = column != "d" or one(
        conn, "SELECT datcollate IN ('C', 'POSIX') FROM pg_database WHERE datname = current_database()"
    )
    kind = "char(40)" if column == "c" else "text"
    for value in (*VALUES[:16], VALUES[19][:40] if column == "c" else VALUES[19]):
        for operator in OPERATORS:
            literal = f"'{value}'::{kind}"
            expected = bytewise or operator in ("=", "<>")
            assert kernels(conn, f"{column} {operator} {literal}") == expected
            assert kernels(conn, f"{literal} {operator} {column}") == expected
    for operator in OPERATORS:
        if column != "d":
            other = "b" if column == "c" else "u"
            assert kernels(conn, f'{column} {operator} {other} COLLATE "C"')
        assert kernels(conn, f"NOT ({column} {operator} 'ab' OR {column} {operator} 'B') OR id < 20") or not bytewise


def test_other_collations_are_postgresqls(conn: Connection) -> None:
    names = one(
        conn, "SELECT array_agg(collname::text) FROM pg_collation WHERE collname IN ('en_US.utf8', 'und-x-icu')"
    )
    for name in names or []:
        assert not kernels(conn, f"t < 'b' COLLATE \"{name}\"")
    # operators that compare bytes whatever the collation is are others
    assert not kernels(conn, "t ~<~ 'b'")

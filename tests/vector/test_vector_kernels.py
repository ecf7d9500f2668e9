"""Kernels of expressions where they end: calendars, encodings, short circuits, lists, and what PostgreSQL has to do."""

from __future__ import annotations

import psycopg
import pytest

from harness import servers
from pgbillion.common.connection import Connection
from pgbillion.rows import answers, plans
from pgbillion.server.postgres import Cluster
from test_vector_answers import both, make, vectors
from test_vector_like import LETTERS, prepare

__all__ = ["vectors"]

UNITS = ("microsecond", "second", "minute", "hour", "day", "week", "month", "quarter", "year", "decade", "century",
         "millennium", "dow", "isodow", "doy", "isoyear", "epoch", "julian", "Hour", "YEARS", "mon")  # fmt: skip


def kernels(conn: Connection, query: str) -> str:
    """What EXPLAIN says of kernels."""
    nodes = plans.nodes(plans.explain(conn, query))
    return str(next(node["Vectorized"] for node in nodes if node.get("Custom Plan Provider") == plans.NODE))


def outcome(conn: Connection, query: str, mode: str) -> answers.Answer | str:
    conn.execute(f"SET pgbillion_rows.vector_aggregate = {mode}".encode())
    try:
        return answers.answer(conn.execute(query.encode()))
    except psycopg.Error as error:
        return f"{error.sqlstate} {error.diag.message_primary}"
    finally:
        conn.execute("SET pgbillion_rows.vector_aggregate = force")


def agree(conn: Connection, query: str) -> None:
    """The same answer or error."""
    core, ours = outcome(conn, query, "off"), outcome(conn, query, "force")
    if isinstance(core, str) or isinstance(ours, str):
        assert core == ours, query
    else:
        assert answers.difference(core, ours) is None, query


@pytest.mark.parametrize("kind", ["ordinary", "edges", "everything"])
def test_calendars(vectors: Connection, kind: str) -> None:
    """Every day around the ends of months, years, weeks and leap years; the ends of what kernels do; infinity."""
    vectors.execute("CREATE TABLE data (d date, ts timestamp)")
    days = {
        "ordinary": "SELECT date '1995-12-20' + g FROM generate_series(0, 1600) g",
        "edges": "SELECT make_date(y, m, 1) + g FROM unnest('{1,2,4,99,100,101,400,999,1000,1582,1600,1700,1900,1999,"
        "2000,2100,9999}'::integer[]) y, unnest('{1,3,12}'::integer[]) m, generate_series(CASE WHEN y = 1 AND m = 1"
        " THEN 0 ELSE -3 END, 3) g",
        "everything": "SELECT unnest('{infinity,-infinity,4713-01-01 BC,0001-12-31 BC,0001-01-01,9999-12-31,"
        "10000-01-01,2020-02-29,294276-12-31}'::date[])",
    }
    vectors.execute(
        f"INSERT INTO data SELECT d, d + make_interval(secs => t) FROM ({days[kind]}) s(d),"
        " unnest('{0,0.000001,59.999999,3599.5,43200,86399.999999}'::float8[]) t".encode()
    )
    vectors.execute("INSERT INTO data VALUES (NULL, NULL)")
    for unit in UNITS:
        for value in (
            f"date_trunc('{unit}', ts)",
            f"extract({unit} FROM ts)",
            f"extract({unit} FROM d)",
            f"date_part('{unit}', ts)",
            f"date_part('{unit}', d)",
        ):
            agree(vectors, f"SELECT {value}, count(*) FROM data GROUP BY 1")
    for value in ("ts::date", "d::timestamp", "date_trunc('month', d::timestamp)", "extract(dow FROM ts::date)"):
        agree(vectors, f"SELECT {value}, count(*), min(d) FROM data GROUP BY 1")
    if kind != "everything":
        assert kernels(vectors, "SELECT date_trunc('week', ts), count(*) FROM data GROUP BY 1").endswith(
            "1 of 1 group keys"
        )
    assert kernels(vectors, "SELECT extract(julian FROM ts), count(*) FROM data GROUP BY 1").endswith(
        "0 of 1 group keys"
    )


@pytest.mark.parametrize("encoding", LETTERS)
def test_strings(cluster: Cluster, encoding: str) -> None:
    """Lengths and parts of strings in encodings, inline, compressed and out of line."""
    letters = LETTERS[encoding]
    with servers.new_database(cluster, "strings", encoding) as name, cluster.connect(name) as conn:
        conn.autocommit = True
        prepare(conn)
        if encoding == "SQL_ASCII":
            conn.execute("SET client_encoding = 'SQL_ASCII'")
            letters = "xyz"
        conn.execute(
            "CREATE TABLE data (id integer, t text, v varchar(300), c char(90));"
            " ALTER TABLE data ALTER v SET STORAGE external"
        )
        for number in range(60):
            text = (letters + "ab")[number % 3 :] * (number % 7)
            conn.execute("INSERT INTO data VALUES (%s, %s, %s, %s)", [number, text, text[::-1], text])
        conn.execute("INSERT INTO data SELECT 100 + id, repeat(t, 5000), v, v FROM data WHERE id < 10")
        conn.execute("INSERT INTO data VALUES (1000, NULL, NULL, NULL), (1001, '', '', ''), (1002, ' ', ' b ', '  a ')")
        for value in (
            "length(t)", "char_length(v)", "character_length(t)", "octet_length(t)", "octet_length(v)",
            "length(left(t, 3))", "md5(left(t, 200))", "left(t, 0)", "left(t, -2)", "substring(v, 2)",
            "substr(v, 2, 3)",
            "substring(t FROM 3 FOR 2)", "substring(t, 1, 0)", "substring(v, 0, 4)", "substring(t, -1, 5)",
            "substring(v, 2147483647)", "substring(v, 2, 2147483647)", "left(substring(v, 3), 2)",
            "substring(t, 2, -1)", "c::text", "length(c::text)", "octet_length(c::text)", "substring(c FROM 2 FOR 3)",
            "left(c, 5)", "octet_length(substring(c, 2))",
        ):  # fmt: skip
            agree(conn, f"SELECT {value} AS k, count(*), min({value}) FROM data GROUP BY 1")
        assert "1 of 1 aggregates" in kernels(conn, "SELECT sum(length(t)) FROM data")
        for condition in (
            "left(t, 2) IN ('ab', 'ba', '')", "substring(c FROM 1 FOR 2) NOT IN ('ab', 'b')", "left(c, 1) = 'a'",
            "length(v) > 3", "octet_length(c::text) < length(t)", "substring(t, 2) LIKE 'b%'",
            "(length(t) = 2 OR left(c, 1) = 'b')", "left(t, -2) = 'a'",
        ):  # fmt: skip
            agree(conn, f"SELECT {condition}, count(*), count(*) FILTER (WHERE {condition}) FROM data GROUP BY 1")
            agree(conn, f"SELECT count(*), max(id) FROM data WHERE {condition}")


def test_short_circuit(vectors: Connection) -> None:
    """Rows that PostgreSQL would not have come to raise nothing, and those that it comes to do."""
    make(vectors)
    vectors.execute("INSERT INTO data VALUES (0, 0, 0, 0, '')")
    for value in (
        "CASE WHEN x <> 0 THEN id / x ELSE -1 END",
        "CASE WHEN x = 0 THEN 7 ELSE id / x END",
        "CASE grp WHEN 0 THEN 1 WHEN 3 THEN x * 2 ELSE id END",
        "CASE grp WHEN 0 THEN CASE id WHEN 7 THEN 70 ELSE 71 END END",
        "coalesce(id, 100 / x)",
        "coalesce(NULLIF(x, 0), id)",
        "coalesce(NULL::integer, grp)",
        "CASE WHEN f > 100 AND t LIKE 'text 1%' THEN x WHEN grp IN (1, 2) THEN grp END",
        "CASE WHEN grp = 1 THEN (SELECT 1 / 0) ELSE 2 END",
        "CASE WHEN grp = 99 THEN (SELECT id FROM data ORDER BY id LIMIT 1) ELSE 2 END",
        "CASE WHEN grp >= 0 THEN id / x END",
        "CASE WHEN t IS NULL THEN 1 ELSE x * 1000000 END",
        "coalesce(x * 1000000, 1)",
    ):
        agree(vectors, f"SELECT count({value}), sum({value}) FROM data")
        agree(vectors, f"SELECT {value}, count(*) FROM data GROUP BY 1")
    assert kernels(vectors, "SELECT sum(CASE WHEN x <> 0 THEN id / x END) FROM data").startswith("1 of 1")


def test_conditions_as_values(vectors: Connection) -> None:
    make(vectors)
    vectors.execute("INSERT INTO data VALUES (NULL, NULL, NULL, NULL, NULL)")
    for value in (
        "x > 300", "x > 300 OR grp IS NULL", "t = 'text 3'", "t <> 'text 3'", "NOT (f < 10 AND x > 3)", "grp IS NULL",
        "t LIKE '%1%'", "grp IN (1, NULL)", "grp NOT IN (1, 2)", "t IN ('text 1', 'text 10')",
        "t NOT IN ('text 1', NULL)", "x IS NOT NULL AND grp = ANY ('{}')", "t <> ALL ('{}')",
    ):  # fmt: skip
        both(vectors, f"SELECT {value}, count(*), bool_or({value}), every({value}) FROM data GROUP BY 1")
        both(vectors, f"SELECT count({value}), count(*) FILTER (WHERE {value}), count(DISTINCT {value}) FROM data")


def test_lists(vectors: Connection) -> None:
    """IN of strings and times: NULL in the list, none at all, long lists, and other collations."""
    vectors.execute(
        "CREATE TABLE data AS SELECT g AS id, CASE WHEN g % 9 > 0 THEN repeat('x', g % 90) || g % 5 END AS t,"
        " ('v' || g % 4)::varchar AS v, ('v' || g % 4)::char(4) AS c, date '2020-01-01' + g % 40 AS d,"
        " timestamp '2020-01-01' + g % 40 * interval '1 hour' AS ts,"
        " timestamptz '2020-01-01' + g % 40 * interval '1 hour' AS tz FROM generate_series(1, 2000) g"
    )
    many = ", ".join(f"'{'x' * number}{number % 5}'" for number in range(63))
    for condition in (
        "t IN ('x1', 'xx2', '0')", "t NOT IN ('x1', 'xx2', '0')", "t IN ('x1', NULL)", "t NOT IN ('x1', NULL)",
        "t = ANY ('{}')", "t <> ALL ('{}')", "t = ALL ('{x1}')", "t <> ANY ('{x1,x2}')", f"t IN ({many})",
        f"t NOT IN ({many}, 'a', 'b', 'c', 'd')", "v IN ('v1', 'v2')", "c IN ('v1', 'v2  ')",
        "c NOT IN ('v1', 'v2  ')", "c IN ('v1', NULL)", "c NOT IN ('v1', 'v2  ', NULL)",
        "c = ANY ('{}'::bpchar[])", "c IN ('  v1', '')",
        "c::text IN ('v1', 'v2  ')", "t COLLATE \"C\" IN ('x1')",
        "d IN ('2020-01-05', '2020-01-09', NULL)", "d NOT IN ('2020-01-05', '2020-01-09')",
        "ts IN ('2020-01-01 05:00', '2020-01-02')", "tz NOT IN ('2020-01-01 05:00', '2020-01-02')",
        "d = ANY ('{2020-01-05 00:00,2020-01-06 01:00}'::timestamp[])", "NOT (t IN ('x1', NULL))",
    ):  # fmt: skip
        both(vectors, f"SELECT count(*), sum(id) FROM data WHERE {condition}")
        both(
            vectors, f"SELECT count(*) FILTER (WHERE {condition}), count(*) FILTER (WHERE NOT ({condition})) FROM data"
        )
    for column in ("t", "v", "c"):
        query = f"SELECT count(*) FROM data WHERE {column} IN ('x1', 'v2')"
        assert "1 of 1 filter terms" in kernels(vectors, query)


def test_extremes(vectors: Connection) -> None:
    """Of strings and numerics: growing and shrinking, of other display scales, NaN, in groups without room."""
    vectors.execute(
        "CREATE TABLE data AS SELECT g AS id, g % 300 AS k, repeat(chr(65 + g * 7 % 50), g % 700) AS t,"
        " (ARRAY[g, -g, g / 7.0, 1, 1.0, 1.00, 'NaN', 'Infinity', '-Infinity', 1e40, 1e-40, g * 1e15])[1 + g * 5 % 12]"
        "::numeric AS n, (g * 37 % 1000 / 4.0)::numeric(9,2) AS n2 FROM generate_series(1, 9000) g"
    )
    vectors.execute("INSERT INTO data VALUES (0, 1, NULL, NULL, NULL), (0, 0, repeat('ab', 900000), 0, 0)")
    query = 'SELECT {}min(t), max(t), min(n), max(n), min(n2), max(n2), min(t COLLATE "C"), max(n * 2) FROM data {}'
    both(vectors, query.format("", ""))
    both(vectors, query.format("", "WHERE id < 0"))
    both(vectors, query.format("k, ", "GROUP BY k"))
    vectors.execute("SET work_mem = '64kB'; SET hash_mem_multiplier = 1")
    both(vectors, query.format("id % 4000, ", "GROUP BY 1"))
    vectors.execute(
        "CREATE TABLE less AS SELECT id, repeat(chr(123 - id % 26), id) AS t FROM data WHERE id BETWEEN 1 AND 26"
    )
    both(vectors, "SELECT min(t), max(t) FROM less")


def test_casts_of_integers(vectors: Connection) -> None:
    """Booleans as numbers, and integers as narrower ones, whose errors are PostgreSQL's."""
    vectors.execute("CREATE TABLE data (id integer, flag boolean, big bigint, four integer, two smallint)")
    vectors.execute(
        "INSERT INTO data SELECT g, nullif(g % 3, 2) = 0, g::bigint * 1000, g * 7, g % 100"
        " FROM generate_series(-300, 300) g"
    )
    vectors.execute("INSERT INTO data VALUES (1000, NULL, NULL, NULL, NULL), (1001, true, 2147483647, 32767, 5)")
    casts = ("flag::integer", "big::integer", "(big / 1000)::smallint", "four::smallint", "(two + four)::smallint",
             "flag::integer * four", "(CASE WHEN flag THEN big ELSE 0 END)::integer")  # fmt: skip
    for value in casts:
        query = f"SELECT {value}, count(*), sum({value}), max({value}) FROM data GROUP BY 1"
        agree(vectors, query)
        assert "1 of 1 group keys" in kernels(vectors, query)
    vectors.execute("INSERT INTO data VALUES (1002, false, 2147483648, 32768, 32767)")
    for value in casts:
        agree(vectors, f"SELECT sum({value}) FROM data")
        agree(vectors, f"SELECT sum({value}) FROM data WHERE id < 1002")
    vectors.execute("INSERT INTO data VALUES (1003, false, -2147483649, -32769, -32768)")
    for value in casts:
        agree(vectors, f"SELECT sum({value}) FROM data WHERE id <> 1002")

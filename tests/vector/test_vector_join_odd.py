"""Joins by vectors where something else of PostgreSQL's is at work, too: what may go wrong between the two."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from harness.servers import one
from harness.sessions import Running, until_blocked
from pgbillion.common.connection import Connection
from pgbillion.rows import answers, plans
from pgbillion.server.postgres import Cluster
from test_vector_join import LITTLE, both, joins, kinds, prepare, switch, tables

pytestmark = pytest.mark.majors

__all__ = ["joins", "tables"]


# values


def test_keys_that_are_being_built(joins: Connection) -> None:
    """What functions of arrays return is not in one piece; a hash table keeps it beyond the row."""
    joins.execute(
        "CREATE TEMP TABLE arrays AS SELECT i AS id, ARRAY[i % 7, i % 5, 9] AS a FROM generate_series(1, 3000) i;"
        " CREATE TEMP TABLE few AS SELECT i AS k, ARRAY[i % 7, i % 5] AS a FROM generate_series(0, 34) i;"
        " ANALYZE arrays, few"
    )
    for on in ("arrays.a = array_append(few.a, 9)", "array_append(arrays.a, 3) = few.a || 9 || 3"):
        ours = both(joins, f"SELECT count(*), sum(few.k) FROM arrays JOIN few ON {on}", ["Inner"])
        assert ours.rows[0][0] == b"3000"
        both(joins, f"SELECT arrays.id, few.k FROM arrays JOIN few ON {on}", ["Inner"])
    joins.execute(LITTLE.encode())
    joins.execute("CREATE TEMP TABLE more AS SELECT id, array_remove(a, 9) || id AS a FROM arrays; ANALYZE more")
    both(
        joins,
        "SELECT count(*), sum(m.id) FROM arrays a JOIN more m ON array_append(array_remove(a.a, 9), a.id) = m.a",
        ["Inner"],
    )


VALUES = """
CREATE TEMP TABLE odd AS SELECT i AS id, (i % 40)::smallint AS s, (i % 40) AS i, (i % 40)::bigint AS l,
    (i % 40)::numeric / 10 AS n, ((i % 40)::numeric / 10)::numeric(10, 3) AS n3,
    CASE i % 5 WHEN 0 THEN 'NaN' WHEN 1 THEN -0.0 WHEN 2 THEN 0.0 WHEN 3 THEN NULL ELSE i % 40 END::float8 AS f,
    CASE i % 5 WHEN 0 THEN 'NaN' WHEN 1 THEN -0.0 WHEN 2 THEN 0.0 WHEN 3 THEN NULL ELSE i % 40 END::float4 AS r,
    repeat(' ', 0) || (i % 40) || repeat(' ', i % 4) AS t, ((i % 40) || repeat(' ', i % 4))::char(8) AS c,
    (i % 40)::text COLLATE "C" AS tc, ('k' || i % 40)::name AS nm, 'k' || i % 40 AS nt,
    nullif(i % 3, 1) = 0 AS b, timestamptz '2020-01-01 00:00+00' + make_interval(hours => i % 40) AS z,
    timestamp '2020-01-01' + make_interval(hours => i % 40) AS ts, time '00:00' + make_interval(mins => i % 40) AS tm,
    make_interval(hours => i % 40) AS iv, (md5((i % 40)::text))::uuid AS u, ('10.0.0.' || i % 40)::inet AS ip,
    jsonb_build_object('k', (i % 40)::numeric / 10) AS j, int4range(i % 40, i % 40 + 5) AS rg, ARRAY[i % 40, NULL] AS a,
    ROW(i % 40, 'x')::pair AS p, (i % 40)::text::bytea AS by, ('m' || i % 3)::mood AS m, (i % 40)::small AS d,
    (i % 40)::oid AS o, (i % 100 / 10)::bit(4) AS bt
    FROM generate_series(1, 2000) i;
INSERT INTO odd (id) SELECT i FROM generate_series(2001, 2010) i;
CREATE TEMP TABLE few AS SELECT * FROM odd WHERE id % 7 = 0 OR id > 2005; ANALYZE odd, few
"""
COLUMNS = (
    *("s", "i", "l", "n", "n3", "f", "r", "t", "c", "tc", "nm", "nt", "b", "z", "ts", "tm", "iv", "u", "ip", "j", "rg"),
    *("a", "p", "by", "m", "d", "o", "bt"),
)
CROSS = (
    *(("s", "i"), ("i", "s"), ("s", "l"), ("l", "s"), ("i", "l"), ("l", "i"), ("n", "n3"), ("n3", "n"), ("f", "r")),
    *(("r", "f"), ("nm", "nt"), ("nt", "nm"), ("d", "l"), ("l", "d"), ("c", "t::bpchar"), ("i", "n"), ("l", "f")),
)


@pytest.fixture
def odd(joins: Connection) -> Connection:
    joins.execute(
        "CREATE TYPE pair AS (x int, y text); CREATE TYPE mood AS ENUM ('m0', 'm1', 'm2');"
        " CREATE DOMAIN small AS integer CHECK (VALUE < 1000)"
    )
    joins.execute(VALUES.encode())
    return joins


@pytest.mark.parametrize("memory", ["much", "little"])
def test_keys_of_all_types(odd: Connection, memory: str) -> None:
    """Of one type, of two, with values that are equal and look different, and NULL, which equals nothing."""
    if memory == "little":
        odd.execute(LITTLE.encode())
    for left, right in (*((column, column) for column in COLUMNS), *CROSS):
        on = f"o.{left} = f.{right}" if "::" not in right else f"o.{left} = f.{right.split('::')[0]}::bpchar"
        for query in (
            f"SELECT count(*), sum(f.id), min(f.{left}::text), max(o.{left}::text) FROM odd o JOIN few f ON {on}",
            f"SELECT count(*), count(f.id), sum(f.id) FROM odd o LEFT JOIN few f ON {on} AND f.id % 3 <> o.id % 2",
            f"SELECT count(*), sum(o.id) FROM odd o WHERE EXISTS (SELECT FROM few f WHERE {on})",
            f"SELECT count(*), sum(o.id) FROM odd o WHERE NOT EXISTS (SELECT FROM few f WHERE {on})",
            f"SELECT o.id, f.id, f.{left} FROM odd o JOIN few f ON {on} WHERE o.id % 50 = 3",
        ):
            both(odd, query, None)


def test_null_is_in_no_list(odd: Connection) -> None:
    for query in (
        "SELECT count(*) FROM odd o WHERE o.i NOT IN (SELECT i FROM few)",
        "SELECT count(*) FROM odd o WHERE o.i NOT IN (SELECT i FROM few WHERE i IS NOT NULL)",
        "SELECT count(*) FROM odd o WHERE (o.i IN (SELECT i FROM few)) IS NULL",
        "SELECT count(*) FROM odd o WHERE o.i IN (SELECT i FROM few WHERE false)",
        "SELECT count(*) FROM odd o WHERE o.i NOT IN (SELECT i FROM few WHERE false)",
        "SELECT count(*) FROM odd o JOIN few f ON o.i IS NOT DISTINCT FROM f.i",
        "SELECT count(*) FROM odd o JOIN few f ON o.i = f.i OR (o.i IS NULL AND f.i IS NULL)",
    ):
        both(odd, query, None)


# memory


def test_what_is_computed_of_a_row_is_let_go(joins: Connection) -> None:
    """Of hundreds of rows at once, each of which makes a large value: in what is returned, in conditions, in keys."""
    joins.execute("CREATE TEMP TABLE ones AS SELECT i AS k, 'x' AS t FROM generate_series(1, 200) i; ANALYZE ones")
    big = "length(repeat({0}, 1000000))"
    for query in (
        f"SELECT f.id, {big.format('f.s')} FROM fact f JOIN ones o ON f.id = o.k",
        f"SELECT count(*) FROM fact f JOIN ones o ON f.id = o.k AND {big.format('f.s || o.t')} > 5",
        f"SELECT sum({big.format('f.s || o.t')}) FROM fact f JOIN ones o ON f.id = o.k",
        f"SELECT count(*) FROM fact f JOIN ones o ON {big.format('f.s')} + f.id = {big.format('o.t')} + o.k",
        "SELECT md5(repeat(f.s, 1000000)), count(*) FROM fact f JOIN ones o ON f.id = o.k GROUP BY 1",
    ):
        assert kinds(plans.explain(joins, query)) == ["Inner"], query
        before = most_memory(joins)
        joins.execute(query.encode())
        assert most_memory(joins) < before + 100_000_000, query


def most_memory(conn: Connection) -> int:
    """The most memory that the session's backend has had, in bytes."""
    status = Path(f"/proc/{conn.info.backend_pid}/status").read_text(encoding="ascii")
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:")) * 1024


# plans above and below


def test_recursive_queries(joins: Connection) -> None:
    """The build side is what the step before has found, and read anew for each."""
    both(
        joins,
        "WITH RECURSIVE r (id, depth) AS (SELECT 1, 0 UNION SELECT f.b, r.depth + 1 FROM r JOIN fact f ON f.a = r.id"
        " WHERE r.depth < 4) SELECT * FROM r",
        None,
    )


def test_lateral_and_correlated(joins: Connection) -> None:
    for query in (
        "SELECT o.k, q.* FROM longs o CROSS JOIN LATERAL (SELECT count(*), sum(i.w) FROM fact f JOIN ints i"
        " ON f.b = i.k + o.k % 3 AND f.x > i.w - o.k) q",
        "SELECT o.k, q.* FROM longs o LEFT JOIN LATERAL (SELECT f.id, i.w, o.g FROM fact f JOIN ints i ON f.b = i.k"
        " AND i.w % 5 = o.k % 5 ORDER BY 1, 2 LIMIT 3) q ON true",
        "SELECT o.k, EXISTS (SELECT FROM fact f JOIN ints i ON f.b = i.k AND i.w = o.k) FROM longs o",
        "SELECT o.k, ARRAY(SELECT f.id FROM fact f JOIN ints i ON f.b = i.k AND i.w = o.k ORDER BY 1) FROM longs o",
        "SELECT o.k, (SELECT max(f.x) FROM fact f WHERE EXISTS (SELECT FROM many m WHERE m.k = f.a AND m.y > o.k * 9))"
        " FROM longs o",
        "SELECT o.k, (SELECT count(*) FROM fact f WHERE NOT EXISTS (SELECT FROM many m WHERE m.k = f.a"
        " AND m.y > o.k * 9)) FROM longs o",
        "SELECT o.k, (SELECT count(i.k) FROM fact f LEFT JOIN ints i ON f.b = i.k AND i.w > o.k WHERE f.id < o.k * 50)"
        " FROM longs o",
    ):
        both(joins, query, None)
        joins.execute("SAVEPOINT little")
        joins.execute(LITTLE.encode())
        both(joins, query, None)
        joins.execute("ROLLBACK TO little")


def test_partitions_and_inheritance(joins: Connection) -> None:
    joins.execute(
        "CREATE TABLE parted (k int, v int, t text) PARTITION BY HASH (k);"
        " CREATE TABLE parted_0 PARTITION OF parted FOR VALUES WITH (MODULUS 2, REMAINDER 0);"
        " CREATE TABLE parted_1 PARTITION OF parted FOR VALUES WITH (MODULUS 2, REMAINDER 1);"
        " INSERT INTO parted SELECT i % 90, i, 'v' || i FROM generate_series(1, 3000) i;"
        " CREATE TABLE child (extra int) INHERITS (ints); INSERT INTO child SELECT k, k2, name, w, 1 FROM ints;"
        " ANALYZE parted, child"
    )
    for settings in ("", "SET enable_partitionwise_join = on; SET enable_partitionwise_aggregate = on"):
        joins.execute(settings.encode())
        for query in (
            "SELECT count(*), sum(p.v) FROM fact f JOIN parted p ON f.b = p.k",
            "SELECT count(*), sum(p.v), sum(q.v) FROM parted p JOIN parted q ON p.k = q.k",
            "SELECT p.v, q.t FROM parted_0 p JOIN parted q ON p.k = q.k WHERE q.v < 50",
            "SELECT count(*), sum(i.w) FROM fact f JOIN ints i ON f.b = i.k",
            "SELECT f.id, i.tableoid::regclass::text FROM fact f JOIN ints i ON f.b = i.k WHERE f.id < 200",
            "SELECT count(*), sum(i.w) FROM fact f JOIN ONLY ints i ON f.b = i.k",
        ):
            both(joins, query, None)


LOOKED_FOR = """
CREATE TABLE head AS SELECT i AS id, i % 40 AS x, i % 3 AS k, repeat('h', 20) AS t FROM generate_series(1, 60) i;
CREATE TABLE tail AS SELECT i AS k, i AS w FROM generate_series(0, 2) i;
CREATE TABLE rows_of AS SELECT i % 4000 AS x, i % 3 AS w, i AS y, repeat('r', 50) AS t FROM generate_series(1, 40000) i;
CREATE TABLE more_of AS SELECT i AS y, i % 7 AS z, repeat('m', 50) AS t FROM generate_series(1, 40000) i;
CREATE TABLE parts_of (LIKE rows_of) PARTITION BY HASH (y);
CREATE TABLE parts_of_0 PARTITION OF parts_of FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE parts_of_1 PARTITION OF parts_of FOR VALUES WITH (MODULUS 2, REMAINDER 1);
INSERT INTO parts_of SELECT * FROM rows_of;
CREATE INDEX ON rows_of (x); CREATE INDEX ON more_of (y); CREATE INDEX ON parts_of (x);
ANALYZE head, tail, rows_of, more_of, parts_of;
SET enable_nestloop = on; SET max_parallel_workers_per_gather = 2; SET enable_memoize = off;
SET random_page_cost = 0.01; SET enable_parallel_hash = off
"""


@pytest.mark.parametrize(
    "joined",
    [
        "LEFT JOIN (rows_of r JOIN more_of m ON r.y = m.y) ON r.x = h.x AND r.w = t.w",
        "LEFT JOIN parts_of r ON r.x = h.x AND r.w = t.w",
        "JOIN parts_of r ON r.x = h.x AND r.w = t.w",
        "LEFT JOIN rows_of r ON r.x = h.x AND r.w = t.w",
    ],
)
def test_conditions_by_which_postgresql_looks_for_rows(joins: Connection, joined: str) -> None:
    """Of partitions and of joins it keeps them where they are used, and not with the path."""
    joins.execute(LOOKED_FOR.encode())
    for query in (
        f"SELECT count(*), count(r.y), sum(r.y) FROM head h JOIN tail t ON t.k = h.k {joined}",
        f"SELECT h.t, count(*), sum(r.y) FROM head h CROSS JOIN tail t {joined} GROUP BY 1",
        f"SELECT h.id, t.w, r.y FROM head h JOIN tail t ON t.k = h.k {joined}",
    ):
        for settings in ("SET enable_mergejoin = off", "SET effective_cache_size = '1MB'", "SET enable_mergejoin = on"):
            joins.execute(settings.encode())
            both(joins, query, None)
        # the genetic search has no other orders of joins for us than PostgreSQL's own paths
        joins.execute("SET geqo_threshold = 2")
        both(joins, query, None)
        joins.execute("RESET geqo_threshold")


@pytest.mark.parametrize("kind", ["LEFT JOIN", "JOIN"])
def test_conditions_of_outer_joins_in_another_order(joins: Connection, kind: str) -> None:
    """From 16 on they have several forms, by one of which PostgreSQL looks for rows."""
    joins.execute(LOOKED_FOR.encode())
    joined = f"head h LEFT JOIN rows_of r ON r.x = h.x {kind} more_of m ON m.y = r.y AND m.z > 2"
    for query in (
        f"SELECT count(*), count(r.y), count(m.y), sum(r.y), sum(m.z) FROM {joined}",
        f"SELECT count(*), count(m.y), sum(m.z) FROM {joined} LEFT JOIN tail t ON t.k = m.z AND t.w = r.w",
        f"SELECT h.id, r.y, m.z FROM {joined} WHERE h.id < 40",
        f"SELECT h.id, r.y, m.z FROM {joined} WHERE coalesce(m.z, 4) = 4",
    ):
        for threshold in (12, 2):
            joins.execute(f"SET geqo_threshold = {threshold}".encode())
            both(joins, query, None)


def test_plans_with_parameters(joins: Connection) -> None:
    joins.execute("SET plan_cache_mode = force_generic_plan")
    query = (
        "SELECT f.id, i.name, $1 + f.x FROM fact f JOIN ints i ON f.b = i.k + $1 AND f.s <> $2 AND i.w = ANY ($3)"
        " WHERE f.x > $1"
    )
    for mode in ("force", "off"):
        joins.execute(f"PREPARE {mode}_plan (int, text, int[]) AS {query}".encode())
    for arguments in (
        *("1, 'a', '{1,2,3,4,5,60}'", "0, 'b', NULL", "NULL, NULL, '{}'", "2, '', '{7,8,9,NULL}'", "1, 'a', '{1}'"),
    ):
        found = []
        for mode in ("force", "off"):
            switch(joins, mode)
            assert (kinds(plans.explain(joins, f"EXECUTE {mode}_plan ({arguments})")) != []) is (mode == "force")
            found.append(answers.answer(joins.execute(f"EXECUTE {mode}_plan ({arguments})".encode())))
        assert answers.difference(found[1], found[0]) is None, arguments


# errors, and when


@pytest.mark.parametrize(
    "where", ["f.id <> 1500 AND 100 / (f.id - 1500) < 5", "CASE WHEN f.id <> 1500 THEN 100 / (f.id - 1500) < 5 END"]
)
def test_conditions_that_guard_others(joins: Connection, where: str) -> None:
    for query in (
        f"SELECT count(*) FROM fact f JOIN ints i ON f.b = i.k WHERE {where}",
        f"SELECT f.id FROM fact f JOIN ints i ON f.b = i.k AND {where}",
        f"SELECT count(i.k) FROM fact f LEFT JOIN ints i ON f.b = i.k AND {where}",
        f"SELECT count(*) FROM fact f WHERE EXISTS (SELECT FROM ints i WHERE f.b = i.k AND i.w > 0 AND {where})",
        f"SELECT count(*) FROM fact f WHERE NOT EXISTS (SELECT FROM ints i WHERE f.b = i.k AND i.w > 0 AND {where})",
        f"SELECT count(*) FROM fact f LEFT JOIN ints i ON f.b = i.k WHERE coalesce(i.w, 1) > 0 AND {where}",
    ):
        both(joins, query, None)


def test_rows_that_a_join_removes_are_not_computed_above(joins: Connection) -> None:
    """What is selected, and later conditions, see rows that all joins have left."""
    joins.execute("CREATE TEMP TABLE good AS SELECT id FROM fact WHERE id % 100 <> 0; ANALYZE good")
    for query in (
        "SELECT sum(100 / (f.id % 100)) FROM fact f JOIN good g USING (id)",
        "SELECT 100 / (f.id % 100) FROM fact f JOIN good g USING (id)",
        "SELECT 100 / (f.id % 100), count(*) FROM fact f JOIN good g USING (id) GROUP BY 1",
        "SELECT count(*) FROM fact f JOIN good g USING (id) GROUP BY f.id % 100 HAVING sum(1 / (f.id % 100)) >= 0",
    ):
        both(joins, query, ["Inner"])


def test_a_statement_that_takes_too_long(joins: Connection) -> None:
    joins.execute("CREATE TEMP TABLE same AS SELECT 3 AS k, i FROM generate_series(1, 60000) i; ANALYZE same")
    for query in (
        "SELECT count(*) FROM same a JOIN same b ON a.k = b.k AND a.i + b.i < 0",
        "SELECT a.i FROM same a JOIN same b ON a.k = b.k AND a.i + b.i < 0",
        "SELECT count(*) FROM same a WHERE NOT EXISTS (SELECT FROM same b WHERE a.k = b.k AND a.i + b.i < 0)",
    ):
        assert kinds(plans.explain(joins, query)) != []
        joins.execute("SAVEPOINT s; SET LOCAL statement_timeout = '200ms'")
        with pytest.raises(psycopg.errors.QueryCanceled):
            joins.execute(query.encode())
        joins.execute("ROLLBACK TO s")
    both(joins, "SELECT count(*) FROM fact f JOIN ints i ON f.b = i.k", ["Inner"])


def test_an_error_that_a_function_catches(joins: Connection) -> None:
    """The rows of a join are left in the middle, again and again, and nothing stays pinned."""
    joins.execute(
        "CREATE FUNCTION tries() RETURNS bigint LANGUAGE plpgsql AS $$DECLARE n bigint := 0; r record; BEGIN"
        " FOR turn IN 1..40 LOOP BEGIN FOR r IN SELECT 1 / (f.id - 1000 - turn) AS x, i.w FROM fact f JOIN ints i"
        " ON f.b = i.k LOOP n := n + 1; END LOOP;"
        " EXCEPTION WHEN division_by_zero THEN n := n + 1; END; END LOOP; RETURN n; END$$"
    )
    assert int(one(joins, "SELECT tries()")) > 40
    both(joins, "SELECT count(*) FROM fact f JOIN ints i ON f.b = i.k", ["Inner"])


# cursors, transactions, other sessions


def test_cursors(joins: Connection) -> None:
    query = "SELECT f.id, i.w, l.label FROM fact f JOIN ints i ON f.b = i.k LEFT JOIN longs l ON l.k = f.c"
    assert kinds(plans.explain(joins, query)) != []
    rows = joins.execute(query.encode()).fetchall()
    for kind in ("SCROLL CURSOR", "SCROLL CURSOR WITH HOLD", "NO SCROLL CURSOR WITH HOLD"):
        joins.execute(f"DECLARE c {kind} FOR {query}".encode())
        assert joins.execute("FETCH 700 FROM c").fetchall() == rows[:700]
        if not kind.startswith("NO"):
            assert joins.execute("FETCH BACKWARD 300 FROM c").fetchall() == rows[399:699][::-1]
            assert joins.execute("FETCH ABSOLUTE 5 FROM c").fetchall() == rows[4:5]
            assert joins.execute("FETCH LAST FROM c").fetchall() == rows[-1:]
        joins.execute("CLOSE c")
    # a cursor that is open while its table changes sees what was there
    joins.execute(f"DECLARE c NO SCROLL CURSOR FOR {query}".encode())
    assert joins.execute("FETCH 10 FROM c").fetchall() == rows[:10]
    joins.execute("UPDATE fact SET b = NULL; DELETE FROM ints")
    assert joins.execute("FETCH ALL FROM c").fetchall() == rows[10:]


def test_rows_that_the_statement_itself_changes(joins: Connection) -> None:
    for query in (
        "WITH gone AS (DELETE FROM ints WHERE w > 3 RETURNING k) SELECT (SELECT count(*) FROM gone), count(*), sum(i.w)"
        " FROM fact f JOIN ints i ON f.b = i.k",
        "WITH moved AS (UPDATE fact SET b = 0 RETURNING id) SELECT f.id, i.w FROM fact f JOIN ints i ON f.b = i.k",
        "WITH made AS (INSERT INTO ints SELECT * FROM ints RETURNING k, w) SELECT count(*), sum(m.w) FROM fact f"
        " JOIN made m ON f.b = m.k",
    ):
        found = []
        for mode in ("force", "off"):
            switch(joins, mode)
            joins.execute("SAVEPOINT s")
            found.append(answers.answer(joins.execute(query.encode())))
            joins.execute("ROLLBACK TO s")
        assert answers.difference(found[1], found[0]) is None, query
        switch(joins, "force")


CHANGES = (
    "UPDATE target t SET x = t.x + q.w FROM (SELECT f.id, max(i.w) AS w FROM fact f JOIN ints i ON f.b = i.k"
    " GROUP BY 1) q WHERE q.id = t.id",
    "UPDATE target t SET x = t.x + q.w FROM (SELECT DISTINCT ON (f.id) f.id, i.w FROM fact f JOIN ints i ON f.b = i.k"
    " ORDER BY 1, 2 DESC OFFSET 0) q WHERE q.id = t.id",
    "UPDATE target t SET x = t.x + (SELECT coalesce(max(i.w), 0) FROM fact f JOIN ints i ON f.b = i.k"
    " WHERE f.id = t.id)",
    "DELETE FROM target t WHERE t.x > (SELECT coalesce(min(i.w), 0) FROM fact f JOIN ints i ON f.b = i.k"
    " WHERE f.id = t.id)",
    "UPDATE target t SET x = t.x + 1 WHERE EXISTS (SELECT FROM fact f JOIN ints i ON f.b = i.k WHERE f.id = t.id"
    " AND i.w < t.x)",
)


@pytest.mark.parametrize("change", range(len(CHANGES)))
def test_rows_changed_meanwhile(cluster: Cluster, tables: str, change: int) -> None:
    """READ COMMITTED looks again at a row that another transaction has changed, joins and all."""
    found = []
    with cluster.connect(tables) as conn, cluster.connect(tables) as other, cluster.connect(tables) as monitor:
        prepare(conn)
        for mode in ("force", "off"):
            switch(conn, mode)
            conn.execute("DROP TABLE IF EXISTS target")
            conn.execute("CREATE TABLE target AS SELECT id, id AS x FROM fact WHERE id < 300")
            other.execute("BEGIN")
            other.execute("UPDATE target SET x = 1000 WHERE id % 3 = 0")
            running = Running(lambda: conn.execute(CHANGES[change].encode()).rowcount)
            until_blocked(monitor, conn, running)
            other.execute("COMMIT")
            found.append((running.result(), conn.execute("SELECT * FROM target ORDER BY id").fetchall()))
        conn.execute("DROP TABLE target")
    assert found[0] == found[1]


def test_rows_locked_above_a_join(joins: Connection) -> None:
    for query in (
        "SELECT m.y, q.id FROM many m JOIN (SELECT f.id, f.a FROM fact f JOIN ints i ON f.b = i.k OFFSET 0) q"
        " ON q.a = m.k FOR UPDATE OF m",
        "SELECT count(*) FROM (SELECT f.id FROM fact f JOIN ints i ON f.b = i.k FOR UPDATE) q",
    ):
        both(joins, query, None)


def test_dangerous_structures_are_found(cluster: Cluster, tables: str) -> None:
    """Two serializable transactions that each read what the other writes, by joins."""
    query = "SELECT count(*) FROM fact f JOIN skew s ON f.id = s.id AND s.x = 1"
    with cluster.connect(tables) as conn, cluster.connect(tables) as other:
        conn.execute("DROP TABLE IF EXISTS skew; CREATE TABLE skew AS SELECT id, 0 AS x FROM fact; ANALYZE skew")
        for one_of in (conn, other):
            prepare(one_of)
            one_of.execute("BEGIN ISOLATION LEVEL SERIALIZABLE")
            assert kinds(plans.explain(one_of, query)) == ["Inner"]
            one_of.execute(query.encode())
        conn.execute("UPDATE skew SET x = 1 WHERE id = 5")
        other.execute("UPDATE skew SET x = 1 WHERE id = 700")
        conn.execute("COMMIT")
        with pytest.raises(psycopg.errors.SerializationFailure):
            other.execute("COMMIT")
        conn.execute("DROP TABLE skew")


# who may see what


def test_functions_that_tell(joins: Connection) -> None:
    """A condition of the user's is not evaluated for rows that a view, or row security, hides."""
    joins.execute(
        "CREATE FUNCTION tells(integer) RETURNS boolean LANGUAGE plpgsql COST 0.0001 AS"
        " $$BEGIN RAISE NOTICE 'saw %', $1; RETURN true; END$$;"
        " CREATE TABLE secret AS SELECT i AS k, i % 10 AS level, i AS v FROM generate_series(1, 60) i;"
        " ANALYZE secret; CREATE POLICY p ON secret USING (level = 3);"
        " CREATE VIEW visible WITH (security_barrier) AS SELECT * FROM secret WHERE level = 3;"
        " GRANT SELECT ON fact, ints, visible, secret TO reader"
    )
    said: list[str] = []
    joins.add_notice_handler(lambda notice: said.append(notice.message_primary or ""))
    joins.execute("ALTER TABLE secret ENABLE ROW LEVEL SECURITY")
    for table in ("secret", "visible"):
        for query in (
            f"SELECT count(*) FROM fact f JOIN {table} s ON f.b = s.k WHERE tells(s.v)",
            f"SELECT f.id FROM fact f JOIN {table} s ON f.b = s.k AND tells(s.v + f.id - f.id)",
            f"SELECT count(*) FROM fact f WHERE EXISTS (SELECT FROM {table} s WHERE f.b = s.k AND tells(s.v))",
            f"SELECT count(*) FROM fact f LEFT JOIN {table} s ON f.b = s.k AND tells(s.v + f.id - f.id)",
            f"SELECT count(*) FROM {table} s JOIN ints i ON s.k = i.k AND tells(s.v + i.w - i.w)",
        ):
            joins.execute("SET LOCAL ROLE reader" if table == "secret" else "RESET ROLE")
            said.clear()
            joins.execute(query.encode())
            assert {int(text.split()[1]) % 10 for text in said if text.startswith("saw")} <= {3}, query
    joins.execute("RESET ROLE")


def test_volatile_functions(joins: Connection) -> None:
    """They are called for each row that the join returns, and not more often."""
    joins.execute("CREATE SEQUENCE calls")
    query = "SELECT f.id, nextval('calls') FROM fact f JOIN ints i ON f.b = i.k"
    assert kinds(plans.explain(joins, query)) == ["Inner"]
    rows = joins.execute(query.encode()).fetchall()
    assert [number for _, number in rows] == list(range(1, len(rows) + 1))
    for where in ("nextval('calls') > 0", "f.x + i.w < nextval('calls')"):
        assert kinds(plans.explain(joins, f"SELECT f.id FROM fact f JOIN ints i ON f.b = i.k AND {where}")) == [], where


@pytest.mark.parametrize("indexed", [False, True])
def test_columns_that_no_index_has(conn: Connection, indexed: bool) -> None:
    """System columns, whole rows, and what an outer join makes NULL: planned, with every setting as it comes."""
    conn.execute("LOAD 'pgbillion_rows'; BEGIN; SET LOCAL max_parallel_workers_per_gather = 0")
    conn.execute(
        "CREATE TABLE facts AS SELECT i AS id, i % 1000 AS k, i % 7 AS v FROM generate_series(1, 100000) i;"
        " CREATE TABLE names AS SELECT i AS id, i % 5 AS c FROM generate_series(0, 999) i; ANALYZE facts, names"
    )
    if indexed:
        conn.execute("CREATE EXTENSION IF NOT EXISTS pgbillion_rows; CREATE INDEX ON facts USING columns (id, k, v)")
    for query in (
        "SELECT count(*) FROM facts f JOIN names n ON f.k = n.id WHERE f.tableoid = 'facts'::regclass",
        "SELECT n.c, count(*) FROM facts f JOIN names n ON f.k = n.id WHERE f IS NOT NULL GROUP BY 1",
        "SELECT n.c, count(*) FROM facts f JOIN names n ON f.k = n.id WHERE f.xmin::text <> '3' GROUP BY 1",
        "SELECT n.c, max(f.ctid) FROM facts f JOIN names n ON f.k = n.id GROUP BY 1",
        "SELECT n.c, count(*) FROM facts f JOIN names n ON f.k = n.id WHERE n.tableoid = 'names'::regclass GROUP BY 1",
        "SELECT n.c, count(*) FROM facts f JOIN names n ON f.k = n.id WHERE n IS NOT NULL GROUP BY 1",
        "SELECT f.tableoid::regclass::text, f.v, n.c FROM facts f JOIN names n ON f.k = n.id WHERE n.c = 1",
        "SELECT f.ctid FROM facts f WHERE EXISTS (SELECT FROM names n WHERE n.id = f.k)",
        "SELECT f FROM facts f JOIN names n ON f.k = n.id WHERE n.c = 1",
        "SELECT s.c, count(*) FROM (SELECT n.c, f.d FROM names n LEFT JOIN (SELECT k, coalesce(v, 0) AS d FROM facts) f"
        " ON f.k = n.id) s WHERE s.d > 3 GROUP BY s.c",
    ):
        found = []
        for enabled in ("off", "on"):
            conn.execute(f"SET pgbillion_rows.enable = {enabled}".encode())
            found.append(sorted(map(str, conn.execute(query.encode()).fetchall())))
        assert found[0] == found[1], query
    conn.execute("ROLLBACK")


def test_records_of_no_named_type(joins: Connection) -> None:
    """EXPLAIN names their fields only as core's plans have them."""
    inner = "(SELECT i AS k, ROW(i, 'x'::text) AS r FROM generate_series(1, 50) i OFFSET 0) s"
    query = f"SELECT (s.r).f1, count(*) FROM {inner} JOIN t ON t.id = s.k GROUP BY 1"
    joins.execute("CREATE TEMP TABLE t AS SELECT i % 100 AS id FROM generate_series(1, 5000) i; ANALYZE t")
    plan = joins.execute(f"EXPLAIN (VERBOSE) {query}".encode()).fetchall()
    assert "Inner Join" not in str(plan)
    assert "a join with a record of no named type" in str(one(joins, "SELECT pgbillion_rows.explain_vector(%s)", query))
    joins.execute("EXPLAIN (VERBOSE) SELECT * FROM information_schema.parameters")

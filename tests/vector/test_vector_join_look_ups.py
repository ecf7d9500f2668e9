"""Joins whose few keys are looked up in an index, to leave out pages of the big table: the same rows of fewer pages."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from harness import servers
from harness.servers import one
from pgbillion.common.connection import Connection
from pgbillion.rows import plans
from pgbillion.server.postgres import Cluster
from test_vector_join import both, prepare

pytestmark = [pytest.mark.quick, pytest.mark.majors]

TABLES = """
CREATE TABLE facts (id integer, k2 smallint, k4 integer, k8 bigint, part integer, x integer, t text)
    WITH (fillfactor = 80);
INSERT INTO facts SELECT i, i % 30000, i % 40000, (i % 40000)::bigint * 100000, i % 40000, i % 7, 'row ' || i
    FROM generate_series(1, 200000) i;
CREATE INDEX facts_k2 ON facts (k2);
CREATE INDEX facts_k4 ON facts (k4, x);
CREATE INDEX facts_k8 ON facts (k8);
CREATE INDEX facts_part ON facts (part) WHERE x > 2;
CREATE INDEX facts_part_hash ON facts USING hash (part);
CREATE INDEX facts_part_expression ON facts ((part + 0));
CREATE TABLE few (k bigint, n integer);
INSERT INTO few SELECT i * 1000, i FROM generate_series(1, 20) i;
-- no column has these
INSERT INTO few VALUES (-5, 0), (5000000000, 0), (9000000000000000000, 0), (-9000000000000000000, 0), (NULL, 0);
CREATE TABLE many AS SELECT i AS k, i % 3 AS n FROM generate_series(0, 4999) i;
CREATE TABLE minus AS SELECT CASE i % 400 WHEN 0 THEN -5 ELSE i END AS k FROM generate_series(1, 40000) i;
CREATE INDEX ON minus (k);
CREATE INDEX ON minus USING columns (k);
CREATE TABLE oids AS SELECT (k * 1000)::oid AS o FROM generate_series(1, 5) k;
INSERT INTO oids VALUES (4294967291);
"""
PAGES = "Pages by Index"


@pytest.fixture(scope="module")
def database(cluster: Cluster) -> Iterator[str]:
    with servers.new_database(cluster, "look_ups") as name:
        with cluster.connect(name) as conn:
            conn.execute(TABLES.encode())
            # some rows without an entry of their own, and some that are gone
            conn.execute("UPDATE facts SET t = 'changed' WHERE k4 % 1000 = 0 AND x = 3")
            conn.execute("DELETE FROM facts WHERE k4 = 3000 AND x < 3")
            conn.execute("UPDATE facts SET k4 = 39999, k2 = 29999, k8 = 7 WHERE k4 = 5000 AND x = 1")
            conn.execute("VACUUM ANALYZE facts, few, many, minus, oids")
            conn.execute("CALL pgbillion_rows.columns_refresh('minus')")
        yield name


@pytest.fixture
def conn(cluster: Cluster, database: str) -> Iterator[Connection]:
    with cluster.connect(database) as conn:
        prepare(conn)
        conn.execute("BEGIN")
        yield conn
        conn.execute("ROLLBACK")


def used(conn: Connection, query: str) -> dict[str, int]:
    """By which indexes pages were found, and how many; the answer is PostgreSQL's."""
    both(conn, query, None)
    return {
        node[PAGES]: node["Pages Found"] for node in plans.nodes(plans.explain(conn, query, run=True)) if PAGES in node
    }


@pytest.mark.parametrize(("column", "factor"), [("k2", 1), ("k4", 1), ("k8", 100000)])
def test_pages_are_found_by_keys(conn: Connection, column: str, factor: int) -> None:
    pages = one(conn, "SELECT pg_relation_size('facts') / 8192")
    for kind in (
        "count(*), sum(x), max(t) FROM facts f JOIN few ON f.{0} = few.k * {1}",
        "count(*), sum(x), max(t) FROM facts f WHERE f.{0} IN (SELECT k * {1} FROM few)",
    ):
        # products beyond bigint are no keys
        kind += " WHERE" if " WHERE" not in kind else " AND"
        query = f"SELECT {kind.format(column, factor)} abs(x) >= 0"
        if factor > 1:
            query = query.replace("few", "(SELECT k, n FROM few WHERE abs(k) < 6000000000) few", 1)
            query = query.replace("FROM few)", "FROM few WHERE abs(k) < 6000000000)")
        found = used(conn, query)
        assert list(found) == [f"facts_{column}"], plans.text(conn, query)
        assert 0 < found[f"facts_{column}"] < pages / 5
    query = f"SELECT f.*, few.n FROM facts f JOIN (SELECT * FROM few WHERE n > 0) few ON f.{column} = few.k * {factor}"
    assert list(used(conn, query + " ORDER BY id")) == [f"facts_{column}"]


def test_rows_of_the_other_side_are_marked(conn: Connection) -> None:
    for kind, counted in (("EXISTS", 20), ("NOT EXISTS", 5)):
        query = f"SELECT count(*) FROM few WHERE {kind} (SELECT FROM facts f WHERE f.k4 = few.k)"
        assert used(conn, query).keys() <= {"facts_k4"}
        assert one(conn, query) == counted


@pytest.mark.parametrize(
    "query",
    [
        # no index of all rows that begins with the column, and of integers
        "SELECT count(*) FROM facts f JOIN few ON f.part = few.k",
        "SELECT count(*) FROM facts f JOIN few ON f.x = few.k",
        "SELECT count(*) FROM facts f JOIN few ON f.part + 0 = few.k",
        # keys of two columns
        "SELECT count(*) FROM facts f JOIN few ON f.k4 = few.k AND f.x = few.n",
        # rows without a match are returned
        "SELECT count(*), count(few.k) FROM facts f LEFT JOIN few ON f.k4 = few.k",
        "SELECT count(*) FROM facts f WHERE NOT EXISTS (SELECT FROM few WHERE f.k4 = few.k)",
        # too many
        "SELECT count(*) FROM facts f JOIN many ON f.k4 = many.k",
    ],
)
def test_what_is_read_as_a_whole(conn: Connection, query: str) -> None:
    assert used(conn, query) == {}


def test_keys_that_are_expected_to_have_many_rows(conn: Connection) -> None:
    """Of each kind there are 60,000 rows: it takes little to find out that there are none of another kind."""
    conn.execute(
        "CREATE TEMP TABLE kinds AS SELECT i % 3 AS kind, i AS x FROM generate_series(1, 180000) i; CREATE INDEX"
        " kinds_kind ON kinds (kind); CREATE TEMP TABLE named AS SELECT i AS kind, 'kind ' || i AS name FROM"
        " generate_series(0, 99) i; ANALYZE kinds, named"
    )
    query = "SELECT count(*), sum(x) FROM kinds JOIN named USING (kind) WHERE name LIKE 'kind {}'"
    assert used(conn, query.format("7_")) == {"kinds_kind": 0}
    # all of one kind, which is found out before long
    assert used(conn, query.format("1%")) == {}
    conn.execute("INSERT INTO kinds SELECT 70, i FROM generate_series(1, 5) i")
    assert used(conn, query.format("7_")) == {"kinds_kind": 1}


def test_settings_and_indexes_that_are_not_for_it(conn: Connection) -> None:
    query = "SELECT count(*) FROM facts f JOIN few ON f.k4 = few.k"
    assert used(conn, query) != {}
    conn.execute("SET LOCAL enable_bitmapscan = off")
    assert used(conn, query) == {}
    conn.execute("SET LOCAL enable_bitmapscan = on")
    conn.execute("UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'facts_k4'::regclass")
    assert used(conn, query) == {}
    # nor is one that is gone since the query was planned
    conn.execute("UPDATE pg_index SET indisvalid = true WHERE indexrelid = 'facts_k4'::regclass")
    conn.execute("SET LOCAL plan_cache_mode = force_generic_plan")
    conn.execute(f"PREPARE kept AS {query}".encode())
    before = one(conn, "EXECUTE kept")
    conn.execute("DROP INDEX facts_k4")
    assert one(conn, "EXECUTE kept") == before
    conn.execute("DEALLOCATE kept")


def test_the_join_with_fewest_keys(conn: Connection) -> None:
    query = (
        "SELECT count(*) FROM facts f JOIN few ON f.k4 = few.k JOIN (SELECT k FROM many WHERE k IN (1000, 3000)) m"
        " ON f.k2 = m.k"
    )
    assert list(used(conn, query)) == ["facts_k2"]


def test_keys_that_have_more_rows_than_statistics_tell(conn: Connection) -> None:
    conn.execute(
        "CREATE TEMPORARY TABLE other WITH (autovacuum_enabled = off) AS SELECT * FROM facts;"
        " CREATE INDEX ON other (k4); ANALYZE other"
    )
    query = "SELECT count(*), sum(f.x) FROM other f JOIN few ON f.k4 = few.k"
    assert used(conn, query) != {}
    conn.execute("UPDATE other SET k4 = 1000 WHERE id % 2 = 0")
    assert used(conn, query) == {}


def test_rows_that_only_some_snapshots_see(cluster: Cluster, database: str) -> None:
    query = "SELECT count(*), sum(id), min(f.t) FROM facts f JOIN few ON f.k4 = few.k"
    with cluster.connect(database) as old, cluster.connect(database) as writer, cluster.connect(database) as beside:
        prepare(old)
        prepare(beside)
        old.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        before = used(old, query)
        first = old.execute(query.encode()).fetchall()
        assert before != {}
        writer.execute("BEGIN")
        writer.execute("INSERT INTO facts SELECT id, k2, k4, k8, part, x, 'new' FROM facts WHERE k4 = 2000")
        writer.execute("UPDATE facts SET t = 'a' WHERE k4 = 4000")
        writer.execute("UPDATE facts SET k4 = 6000 WHERE k4 = 6001")
        writer.execute("DELETE FROM facts WHERE k4 = 7000")
        assert used(beside, query) != {}
        assert beside.execute(query.encode()).fetchall() == first
        writer.execute("COMMIT")
        assert used(beside, query) != {}
        assert beside.execute(query.encode()).fetchall() != first
        assert used(old, query).keys() == before.keys()
        assert old.execute(query.encode()).fetchall() == first
        # an index that was made since lacks rows that the old snapshot sees
        writer.execute("UPDATE facts SET part = part + 100000 WHERE k4 % 1000 = 0")
        writer.execute("CREATE INDEX facts_late ON facts (part)")
        query = query.replace("f.k4", "f.part")
        assert used(old, query) == {}
        assert used(beside, query.replace("few.k", "few.k + 100000")) != {}
        old.execute("ROLLBACK")
        writer.execute("DROP INDEX facts_late")


def test_again_with_other_keys(conn: Connection) -> None:
    query = (
        "SELECT n, (SELECT count(*) + sum(f.id) FROM facts f JOIN (SELECT * FROM few WHERE few.n % 3 = v.n) few"
        " ON f.k4 = few.k) FROM (VALUES (0), (1), (4), (2), (0)) v(n)"
    )
    assert used(conn, query) != {}
    assert one(conn, f"SELECT count(DISTINCT q::text) FROM ({query}) q") == 4


def test_beside_a_dear_side(conn: Connection) -> None:
    """The table has been read up to its first row when the last of the tables of joins is built."""
    conn.execute(
        "CREATE FUNCTION pg_temp.dear(integer) RETURNS integer LANGUAGE plpgsql IMMUTABLE COST 10000"
        " AS 'BEGIN RETURN $1; END'"
    )
    query = (
        "SELECT count(*), sum(f.id) FROM facts f JOIN few ON f.k4 = few.k"
        " JOIN (SELECT * FROM many WHERE pg_temp.dear(n) < 2) m ON f.k2 = m.k WHERE few.n {} 0"
    )
    assert list(used(conn, query.format(">="))) == ["facts_k4"]
    assert list(used(conn, query.format("="))) == ["facts_k4"]


def test_workers_share_pages(conn: Connection) -> None:
    conn.execute("SET LOCAL max_parallel_workers_per_gather = 2; SET LOCAL pgbillion_rows.vector_exchange = force")
    query = "SELECT count(*), sum(f.x) FROM facts f JOIN few ON f.k4 = few.k"
    assert used(conn, query).keys() == {"facts_k4"}
    plan = plans.explain(conn, query, run=True)
    assert plans.parallel(plan)
    checked = sum(node[name] for node in plans.nodes(plan) for name in node if name.startswith("Heap Pages "))
    assert 0 < checked < one(conn, "SELECT pg_relation_size('facts') / 8192") / 5
    # again by the same processes, and with no page at all
    again = f"SELECT v.n, s.* FROM (VALUES (1), (2)) v(n), LATERAL ({query} WHERE few.n % 2 = v.n - 1) s"
    assert one(conn, f"SELECT count(*) FROM ({again}) s") == 2
    both(conn, again, None)
    both(conn, query + " WHERE few.n = 0", None)


def test_a_cursor_and_a_cancelled_query(conn: Connection) -> None:
    query = "SELECT f.id FROM facts f JOIN few ON f.k4 = few.k"
    every = sorted(conn.execute(query.encode()).fetchall())
    conn.execute(f"DECLARE c CURSOR FOR {query}".encode())
    part = conn.execute("FETCH 10 FROM c").fetchall()
    assert sorted(part + conn.execute("FETCH ALL FROM c").fetchall()) == every
    conn.execute("CLOSE c; SAVEPOINT s")
    with pytest.raises(psycopg.errors.DivisionByZero):
        conn.execute("SELECT count(*) FROM facts f JOIN few ON f.k4 = few.k WHERE 1 / (f.k4 - 9000) < 5")
    conn.execute("ROLLBACK TO s")
    assert sorted(conn.execute(query.encode()).fetchall()) == every


def test_integers_that_are_compared_as_oids(conn: Connection) -> None:
    """An index of integers does not order them as OIDs, nor are they within the bounds of these."""
    query = "SELECT count(*), min(f.k) FROM minus f JOIN oids ON f.k = oids.o"
    for columns in ("off", "force"):
        conn.execute(f"SET pgbillion_rows.columns = {columns}".encode())
        assert used(conn, query) == {}
        assert one(conn, query) == 103


def test_an_index_that_is_dropped_below_a_cursor(conn: Connection) -> None:
    conn.execute(
        "CREATE TEMPORARY TABLE other AS SELECT * FROM facts; CREATE INDEX other_k4 ON other (k4); ANALYZE other;"
        " SET LOCAL client_min_messages = log; LOAD 'auto_explain'; SET LOCAL auto_explain.log_min_duration = 0;"
        " SET LOCAL auto_explain.log_analyze = on"
    )
    query = "SELECT f.id FROM other f JOIN few ON f.k4 = few.k"
    said: list[str] = []
    conn.add_notice_handler(lambda diag: said.append(diag.message_primary or ""))
    conn.execute(f"DECLARE before CURSOR FOR {query}; DECLARE begun CURSOR FOR {query}".encode())
    begun = conn.execute("FETCH 1 FROM begun").fetchall()
    conn.execute("DROP INDEX other_k4")
    every = sorted(begun + conn.execute("FETCH ALL FROM begun").fetchall())
    assert sorted(conn.execute("FETCH ALL FROM before").fetchall()) == every
    conn.execute("CLOSE begun; CLOSE before")
    assert any("Pages by Index: other_k4" in text for text in said)

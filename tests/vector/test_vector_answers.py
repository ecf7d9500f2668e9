"""Vectorised aggregation is PostgreSQL's in everything but the time it takes: one test for each promise."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest
from psycopg import errors, sql

from harness import servers, standby
from harness.servers import one
from harness.sessions import Running, pid, until_blocked
from pgbillion.common.connection import Connection
from pgbillion.rows import answers, plans
from pgbillion.server.postgres import Cluster, Installation, run_as_server

pytestmark = pytest.mark.majors

CREATE = "CREATE TABLE {} (id integer, grp integer, x integer, f double precision, t text)"
FILL = "INSERT INTO {} SELECT g, g % 7, g * 3, g / 8.0, 'text ' || g % 11 FROM generate_series({}, {}) g"
QUERY = "SELECT grp, count(*), sum(x), avg(f), min(t) FROM {} GROUP BY grp"


@pytest.fixture
def vectors(conn: Connection) -> Iterator[Connection]:
    """A session with the feature forced and a schema of its own, `v`."""
    conn.execute("CREATE SCHEMA v")
    prepare(conn)
    yield conn
    conn.execute("ROLLBACK")


def prepare(conn: Connection) -> None:
    conn.prepare_threshold = None  # psycopg would DEALLOCATE ALL when a table is altered
    conn.execute("LOAD 'pgbillion_rows'; SET search_path = v, public; SET pgbillion_rows.vector_aggregate = force")
    conn.execute("SET max_parallel_workers_per_gather = 0")


def in_parallel(conn: Connection, workers: int = 2) -> None:
    conn.execute(
        f"SET max_parallel_workers_per_gather = {workers}; SET min_parallel_table_scan_size = 0;"
        " SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0"
    )


def make(conn: Connection, name: str = "data", first: int = 1, last: int = 5000, how: str = "") -> None:
    conn.execute((CREATE.format(name) + how).encode())
    conn.execute(FILL.format(name, first, last).encode())


def both(conn: Connection, query: str, *, node: bool | None = True) -> list[answers.Row]:
    """The answer, which is the same with the feature off; ``node`` tells whether it must (not) be in the plan."""
    if node is not None:
        assert plans.vectorized(plans.explain(conn, query)) is node, plans.reason(conn, query)
    ours = answers.answer(conn.execute(query.encode()))
    plans.switch(conn, False)
    core = answers.answer(conn.execute(query.encode()))
    plans.switch(conn, True)
    assert answers.difference(core, ours) is None
    return ours.rows


# how it is switched


def test_the_switch(conn: Connection) -> None:
    conn.execute("LOAD 'pgbillion_rows'; SET max_parallel_workers_per_gather = 0; CREATE SCHEMA v; SET search_path = v")
    assert one(conn, "SHOW pgbillion_rows.vector_aggregate") == "on"
    make(conn, "big", last=200_000)
    conn.execute("ANALYZE big")
    query = QUERY.format("big")
    assert plans.vectorized(plans.explain(conn, query))
    conn.execute("SET pgbillion_rows.vector_aggregate = off")
    assert not plans.vectorized(plans.explain(conn, query))
    conn.execute("RESET pgbillion_rows.vector_aggregate")
    assert plans.vectorized(plans.explain(conn, query))
    with pytest.raises(errors.InvalidParameterValue):
        conn.execute("SET pgbillion_rows.vector_aggregate = perhaps")


def test_what_wins_is_chosen(vectors: Connection) -> None:
    """A scan of one row through an index, and one of an index only, stay core's."""
    make(vectors, last=100_000)
    vectors.execute("CREATE INDEX ON data (id)")
    vectors.execute("VACUUM (FREEZE, ANALYZE) data")
    vectors.execute("SET pgbillion_rows.vector_aggregate = on")
    assert plans.vectorized(plans.explain(vectors, QUERY.format("data")))
    for query in ("SELECT sum(x) FROM data WHERE id = 77", "SELECT count(*) FROM data WHERE id < 20",
                  "SELECT max(id) FROM data"):  # fmt: skip
        vectors.execute("SET pgbillion_rows.vector_aggregate = on")
        assert not plans.vectorized(plans.explain(vectors, query)), query
        both(vectors, query, node=None)


def test_session_preload(cluster: Cluster, database: str) -> None:
    """It needs no LOAD, and no superuser, where the library is preloaded."""
    with cluster.connect(database) as conn:
        conn.execute("CREATE ROLE analyst LOGIN; CREATE SCHEMA v; GRANT ALL ON SCHEMA v TO analyst")
        try:
            conn.execute("ALTER ROLE analyst SET session_preload_libraries = 'pgbillion_rows'")
            with psycopg.connect(cluster.conninfo(database), user="analyst", autocommit=True) as there:
                there.execute("SET search_path = v; SET pgbillion_rows.vector_aggregate = force")
                make(there)
                assert len(both(there, QUERY.format("data"))) == 7
        finally:
            conn.execute("DROP SCHEMA v CASCADE; DROP OWNED BY analyst; DROP ROLE analyst")


# who may see what


def test_row_security(vectors: Connection) -> None:
    make(vectors)
    vectors.execute("CREATE ROLE reads; GRANT USAGE ON SCHEMA v TO reads; GRANT SELECT ON data TO reads")
    try:
        vectors.execute("ALTER TABLE data ENABLE ROW LEVEL SECURITY")
        vectors.execute("CREATE POLICY mine ON data TO reads USING (grp = 3)")
        assert len(both(vectors, QUERY.format("data"))) == 7
        vectors.execute("SET ROLE reads")
        assert [row[0] for row in both(vectors, QUERY.format("data"), node=None)] == [b"3"]
        # what leaks is told apart by core: a user's function must not see rows of others
        vectors.execute("RESET ROLE; DROP POLICY mine ON data; SET ROLE reads")
        assert both(vectors, "SELECT count(*) FROM data", node=None) == [(b"0",)]
        vectors.execute("RESET ROLE; ALTER TABLE data FORCE ROW LEVEL SECURITY; SET row_security = off")
        assert len(both(vectors, QUERY.format("data"))) == 7
    finally:
        vectors.execute("RESET ROLE; RESET row_security; DROP OWNED BY reads; DROP ROLE reads")


def test_privileges(vectors: Connection) -> None:
    make(vectors)
    vectors.execute("CREATE ROLE reads; GRANT USAGE ON SCHEMA v TO reads; GRANT SELECT (grp, x) ON data TO reads")
    try:
        vectors.execute("CREATE VIEW allowed AS SELECT * FROM data; GRANT SELECT ON allowed TO reads; SET ROLE reads")
        assert len(both(vectors, "SELECT grp, sum(x) FROM data GROUP BY 1")) == 7
        both(vectors, "SELECT count(*) FROM data")
        for query in ("SELECT sum(f) FROM data", "SELECT sum(x) FROM data WHERE id > 3", "SELECT min(t) FROM data"):
            with pytest.raises(errors.InsufficientPrivilege):
                vectors.execute(query.encode())
        assert len(both(vectors, QUERY.format("allowed"))) == 7
        # what was planned for one role is not for another
        vectors.execute("PREPARE q AS SELECT sum(x) FROM data; EXECUTE q; RESET ROLE")
        vectors.execute("REVOKE SELECT (x) ON data FROM reads; SET ROLE reads")
        with pytest.raises(errors.InsufficientPrivilege):
            vectors.execute("EXECUTE q")
    finally:
        vectors.execute("RESET ROLE; DROP OWNED BY reads; DROP ROLE reads")


def explained(conn: Connection, query: str) -> str:
    return str(one(conn, "SELECT pgbillion_rows.explain_vector(%s)", query))


def said_at_debug1(conn: Connection, statement: str) -> list[str]:
    """What we say while a statement is planned, whether it then runs or not."""
    said: list[str] = []

    def listen(notice: errors.Diagnostic) -> None:
        said.append(notice.message_primary or "")

    conn.add_notice_handler(listen)
    conn.execute("SET client_min_messages = debug1")
    try:
        conn.execute(statement.encode())
    except errors.InsufficientPrivilege:
        pass
    finally:
        conn.execute("RESET client_min_messages")
        conn.remove_notice_handler(listen)
    return [text for text in said if text.startswith("pgbillion: ")]


FORBIDDEN = (
    "SELECT count(*) FROM data WHERE x > 300",
    "SELECT sum(id) FROM data",
    "SELECT x, count(*) FROM data GROUP BY 1",
    "SELECT grp, count(*) FROM data WHERE t > 'a' GROUP BY 1",
    "SELECT count(*) FROM (SELECT grp, x FROM data OFFSET 0) s WHERE x > 7",
    "WITH s AS MATERIALIZED (SELECT x FROM data WHERE x > 7) SELECT count(*) FROM s",
    "SELECT grp, (SELECT count(*) FROM data WHERE x > o.grp) FROM data o",
    "SELECT count(*) FROM data WHERE grp < (SELECT count(*) FROM data WHERE x > 9)",
    "SELECT count(*) FROM open WHERE id IN (SELECT grp FROM data WHERE x < 9)",
    "SELECT count(*) FROM open o JOIN data d ON o.id = d.x",
    "SELECT id FROM open GROUP BY id HAVING count(*) > (SELECT count(*) FROM data WHERE x > 9)",
    "SELECT count(*) FROM open UNION ALL SELECT count(*) FROM data WHERE x > 9",
    "SELECT count(*) FROM (SELECT id FROM open UNION ALL SELECT x FROM data WHERE x > 9) u",
    "SELECT count(*) FROM parts WHERE x > 9",
    "SELECT count(*) FROM closed",
    "SELECT count(*) FROM closed WHERE x > 9",
    "SELECT sum(secret(id)) FROM open",
    "SELECT count(*) FROM open HAVING secret(count(*)::integer) > 1",
    "INSERT INTO open SELECT count(*) FROM data WHERE grp > 3",
    "WITH d AS (DELETE FROM open WHERE id > 3 RETURNING id) SELECT count(*) FROM d",
)
ALLOWED = (
    "SELECT grp, count(*) FROM data GROUP BY 1",
    "SELECT count(*) FROM open",
    "SELECT count(*) FROM allowed WHERE x > 9",
    "SELECT count(*) FROM closed_to_others",
    "SELECT count(*) FROM (SELECT id AS i FROM open OFFSET 0) s JOIN data ON i = grp",
)


def test_explain_vector_checks_privileges(vectors: Connection) -> None:
    """Estimates tell of values: it refuses what EXPLAIN does, and so do messages of the planner."""
    make(vectors, last=900)
    in_parallel(vectors, 0)
    vectors.execute("CREATE TABLE open AS SELECT id FROM data; CREATE TABLE parts (x integer) PARTITION BY LIST (x)")
    vectors.execute("CREATE TABLE part PARTITION OF parts DEFAULT; INSERT INTO parts SELECT id FROM data")
    vectors.execute("ANALYZE data, open, parts; CREATE ROLE reads; CREATE ROLE other")
    vectors.execute(
        "CREATE FUNCTION secret(integer) RETURNS integer LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN $1; END'"
    )
    counting = "AS 'BEGIN RETURN (SELECT count(*) FROM v.data WHERE x > $1 * 3); END'"
    vectors.execute(
        f"CREATE FUNCTION counted(integer) RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER {counting};"
        f" CREATE FUNCTION not_as_owner(integer) RETURNS bigint LANGUAGE plpgsql {counting}".encode()
    )
    vectors.execute("REVOKE EXECUTE ON FUNCTION secret(integer) FROM PUBLIC")
    vectors.execute("GRANT USAGE ON SCHEMA v, pgbillion_rows TO reads; GRANT USAGE ON SCHEMA v TO other")
    vectors.execute("GRANT SELECT (grp) ON data TO reads; GRANT SELECT ON open, part TO reads")
    vectors.execute("CREATE VIEW closed AS SELECT * FROM data; CREATE VIEW allowed AS SELECT * FROM data")
    vectors.execute("CREATE VIEW closed_to_others AS SELECT grp FROM data; ALTER VIEW closed_to_others OWNER TO other")
    vectors.execute("GRANT SELECT ON allowed, closed_to_others TO reads")
    try:
        vectors.execute("SET ROLE reads")
        for query in FORBIDDEN:
            with pytest.raises(errors.InsufficientPrivilege) as core:
                vectors.execute(f"EXPLAIN {query}".encode())
            with pytest.raises(errors.InsufficientPrivilege) as ours:
                explained(vectors, query)
            assert ours.value.diag.message_primary == core.value.diag.message_primary
            # of a function core learns only then, but it has no values
            if "secret" not in query:
                assert said_at_debug1(vectors, f"EXPLAIN {query}") == [], query
                assert said_at_debug1(vectors, f"PREPARE q AS {query}; EXPLAIN EXECUTE q") == [], query
                vectors.execute("DEALLOCATE ALL")
        with pytest.raises(errors.InsufficientPrivilege):
            explained(vectors, "SELECT count(*) FROM closed_to_others")
        # what a function reads as its owner is not for its caller
        for mode in ("custom", "generic"):
            vectors.execute(f"SET plan_cache_mode = force_{mode}_plan".encode())
            assert one(vectors, "SELECT counted(300)") == 600
            assert said_at_debug1(vectors, "SELECT counted(300)") == []
            vectors.execute("DISCARD PLANS")
            assert said_at_debug1(vectors, "SELECT counted(300)") == []
        vectors.execute("RESET plan_cache_mode; RESET ROLE; GRANT SELECT ON data TO other")
        assert any("vectors are possible" in text for text in said_at_debug1(vectors, "SELECT not_as_owner(300)"))
        vectors.execute("SET ROLE reads")
        for query in ALLOWED:
            told = explained(vectors, query)
            assert "vectorized" in told or "not chosen" in told, query
            assert said_at_debug1(vectors, f"EXPLAIN {query}") != [], query
        vectors.execute("RESET ROLE; ALTER VIEW allowed SET (security_invoker); SET ROLE reads")
        with pytest.raises(errors.InsufficientPrivilege):
            explained(vectors, ALLOWED[2])
        assert said_at_debug1(vectors, ALLOWED[2]) == []
        # rows of others are not counted either, or EXPLAIN would show it
        vectors.execute("RESET ROLE; ALTER TABLE open ENABLE ROW LEVEL SECURITY")
        vectors.execute("CREATE POLICY mine ON open TO reads USING (id < 5)")
        vectors.execute("SET ROLE reads")
        assert "row security" in explained(vectors, "SELECT count(*) FROM open WHERE id > 3")
        vectors.execute("SET row_security = off")
        with pytest.raises(errors.InsufficientPrivilege):
            explained(vectors, "SELECT count(*) FROM open")
    finally:
        vectors.execute("RESET ROLE; RESET row_security; DROP OWNED BY reads, other CASCADE; DROP ROLE reads, other")


def test_explain_vector_runs_nothing(vectors: Connection) -> None:
    make(vectors, last=9)
    assert "vectorized" in explained(vectors, "WITH d AS (DELETE FROM data RETURNING x) SELECT sum(x) FROM d")
    vectors.execute("BEGIN READ ONLY")
    assert "vectorized" in explained(vectors, "INSERT INTO data SELECT count(*) FROM data")
    vectors.execute("ROLLBACK")
    assert one(vectors, "SELECT count(*) FROM data") == 9


def test_explain_vector_tells_what_has_loaded_the_library(vectors: Connection, cluster: Cluster) -> None:
    """A call of it does, in its session alone: that says nothing about other sessions."""
    make(vectors, last=200_000)
    vectors.execute("ANALYZE data")
    query = QUERY.format("v.data")
    only = "\nvectorized in this session only, where a call of a function has loaded the library"
    for options, load, told in (
        ("", "SELECT 1", only),
        ("", "SELECT pgbillion_rows.version()", only),
        ("", "SET jit = off; LOAD 'pgbillion_rows'; SELECT 1", "\nvectorized"),
        ("-c session_preload_libraries=pgbillion_rows", "SELECT 1", "\nvectorized"),
    ):
        with psycopg.connect(cluster.conninfo(vectors.info.dbname), options=options, autocommit=True) as conn:
            conn.execute("SET max_parallel_workers_per_gather = 0")
            conn.execute(load.encode())
            for _ in range(2):
                answer = explained(conn, query)
                assert told in answer
                assert (only in answer) is (told == only)


def test_distinct_within_an_aggregate_is_named(vectors: Connection) -> None:
    """Where it is not for us, as over several tables, what does the same faster is told."""
    make(vectors)
    vectors.execute("INSERT INTO data (grp) VALUES (1), (NULL); CREATE TABLE whole (LIKE data)")
    vectors.execute("CREATE TABLE part () INHERITS (whole)")
    told = explained(vectors, "SELECT sum(x), count(DISTINCT t) FROM whole")
    assert (
        "not vectorized: count(DISTINCT t) has no partial form; faster is count(t) over a subquery with SELECT"
        " DISTINCT t\n"
    ) in told
    told = explained(vectors, "SELECT grp FROM whole GROUP BY 1 HAVING avg(DISTINCT x + 1) > 3")
    assert "avg(DISTINCT ...) has no partial form; faster is avg(...) over a subquery" in told
    assert any(line.endswith("SELECT DISTINCT ... and what is grouped by") for line in told.splitlines())
    # over one table it is for us, and so is what is recommended elsewhere
    remedy = both(vectors, "SELECT count(grp) FROM (SELECT DISTINCT grp FROM data) d", node=True)
    assert remedy == both(vectors, "SELECT count(DISTINCT grp) FROM data", node=True)
    remedy = both(vectors, "SELECT grp, sum(x) FROM (SELECT DISTINCT grp, x FROM data) d GROUP BY 1", node=True)
    assert set(remedy) == set(both(vectors, "SELECT grp, sum(DISTINCT x) FROM data GROUP BY 1", node=True))


@pytest.mark.parametrize("order", ["+ + -", "- - + +", "+ 1 -", "1.5 + + - -", "+ -", "i + + -", "0 + + - 0.001"])
def test_sums_of_numerics_that_come_back_into_range(vectors: Connection, order: str) -> None:
    """Core's sum has room for what a numeric has none, and tells only of a result that is too large."""
    values = {"+": "9" + "e131071", "-": "-9" + "e131071", "i": "1e-16383"}
    vectors.execute("CREATE TABLE wide (id serial, grp integer, x numeric)")
    for value in order.split():
        vectors.execute("INSERT INTO wide (grp, x) VALUES (1, %s)", [values.get(value, value)])
    vectors.execute("INSERT INTO wide (grp, x) SELECT 2, i / 3.0 FROM generate_series(1, 300) i")
    query = "SELECT grp, sum(x)::text, avg(x)::text FROM wide WHERE {} GROUP BY 1"
    assert len(both(vectors, query.format("true"))) == 2
    vectors.execute("INSERT INTO wide (grp, x) SELECT 3, 9e131071 FROM generate_series(1, 5)")
    assert len(both(vectors, query.format("grp < 3"))) == 2
    for mode in ("force", "off"):
        vectors.execute(f"SET pgbillion_rows.vector_aggregate = {mode}".encode())
        with pytest.raises(errors.NumericValueOutOfRange):
            vectors.execute(query.format("true").encode())


# which rows are there


def test_own_changes_and_the_snapshot(vectors: Connection) -> None:
    make(vectors)
    query = "SELECT count(*), sum(x) FROM data"
    vectors.execute("BEGIN")
    vectors.execute("DELETE FROM data WHERE id <= 1000")
    assert both(vectors, query)[0][0] == b"4000"
    vectors.execute(f"DECLARE old CURSOR FOR {query}".encode())
    vectors.execute("SAVEPOINT s")
    vectors.execute("DELETE FROM data")
    assert both(vectors, query) == [(b"0", None)]
    # as it was when the cursor was opened
    assert vectors.execute("FETCH old").fetchone() == (
        4000,
        one(vectors, "SELECT sum(g * 3) FROM generate_series(1001, 5000) g"),
    )
    vectors.execute("ROLLBACK TO s")
    assert both(vectors, query)[0][0] == b"4000"
    vectors.execute("ROLLBACK")
    assert both(vectors, query)[0][0] == b"5000"


def test_rows_of_others(cluster: Cluster, vectors: Connection, database: str) -> None:
    """In progress, prepared, aborted, committed since: on all-visible pages and others."""
    make(vectors)
    vectors.execute("VACUUM (FREEZE) data")
    query = QUERY.format("data")
    before = both(vectors, query)
    with cluster.connect(database) as other:
        other.execute("SET search_path = v; BEGIN")
        other.execute("DELETE FROM data WHERE id % 3 = 0")
        other.execute(FILL.format("data", 5001, 6000).encode())
        assert sorted(both(vectors, query)) == sorted(before)
        vectors.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        assert sorted(both(vectors, query)) == sorted(before)
        other.execute("COMMIT")
        assert sorted(both(vectors, query)) == sorted(before)
        vectors.execute("COMMIT")
        after = both(vectors, query)
        assert sorted(after) != sorted(before)
        other.execute("BEGIN; UPDATE data SET x = 0; PREPARE TRANSACTION 'waits'")
        assert sorted(both(vectors, query)) == sorted(after)
        other.execute("ROLLBACK PREPARED 'waits'")
        assert sorted(both(vectors, query)) == sorted(after)


def test_serializable(cluster: Cluster, vectors: Connection, database: str) -> None:
    """Each of two transactions reads what the other writes: one of them must fail."""
    make(vectors)
    with cluster.connect(database) as other:
        prepare(other)
        for conn in (vectors, other):
            conn.execute("BEGIN ISOLATION LEVEL SERIALIZABLE")
            assert one(conn, "SELECT sum(x) FROM data WHERE grp = 1") > 0
        vectors.execute("INSERT INTO data VALUES (0, 1, 1)")
        other.execute("INSERT INTO data VALUES (0, 1, 2)")
        vectors.execute("COMMIT")
        with pytest.raises(errors.SerializationFailure):
            other.execute("COMMIT")
    vectors.execute("BEGIN ISOLATION LEVEL SERIALIZABLE")
    both(vectors, QUERY.format("data"), node=None)
    vectors.execute("COMMIT")


def test_hot_standby(installation: Installation) -> None:
    with servers.new_cluster(installation) as primary, standby.standby(primary) as there:
        with primary.connect() as conn:
            conn.execute("CREATE DATABASE work")
        with primary.connect("work") as conn:
            conn.execute("CREATE SCHEMA v; SET search_path = v, public")
            make(conn)
            conn.execute("VACUUM (FREEZE) data")
            conn.execute("DELETE FROM data WHERE id % 5 = 0 AND id > 2000")
            conn.execute("BEGIN; UPDATE data SET x = 1 WHERE id % 4 = 0")
            with there.connect() as first:
                standby.replayed(conn, first)
            with there.connect("work") as reader:
                prepare(reader)
                for _ in range(2):
                    assert one(reader, "SELECT pg_is_in_recovery()")
                    both(reader, QUERY.format("data"))
                    in_parallel(reader)
                    assert both(reader, "SELECT count(*), sum(x), min(t) FROM data")[0][0] == b"4400"
                    reader.execute("SET max_parallel_workers_per_gather = 0")
                    # once more when it is committed, and its pages are pruned and all-visible
                    conn.execute("COMMIT")
                    conn.execute("VACUUM data")
                    standby.replayed(conn, reader)


# how it is run


def test_prepared_statements(vectors: Connection) -> None:
    make(vectors)
    vectors.execute(
        "PREPARE q (integer, text) AS SELECT grp, sum(x + $1) FROM data WHERE t <> $2 AND id > $1 GROUP BY 1"
    )
    for mode in ("force_custom_plan", "force_generic_plan", "auto"):
        vectors.execute(f"SET plan_cache_mode = {mode}".encode())
        for values in ("(0, 'text 1')", "(4000, 'none')", "(NULL, 'text 1')", "(2147483000, NULL)"):
            both(vectors, f"EXECUTE q {values}", node=None)
        assert plans.vectorized(plans.explain(vectors, "EXECUTE q (1, 'x')"))
    # a change of the table makes a new plan
    vectors.execute("ALTER TABLE data ALTER id TYPE bigint")
    both(vectors, "EXECUTE q (0, 'none')")
    vectors.execute("DROP TABLE data")
    with pytest.raises(errors.UndefinedTable):
        vectors.execute("EXECUTE q (0, '')")


def test_protocol_parameters(vectors: Connection) -> None:
    make(vectors)
    query = "SELECT grp, sum(x) FROM data WHERE id BETWEEN %s AND %s AND t = ANY (%s) GROUP BY 1"
    for values in ([1, 100, ["text 1", "text 2"]], [50, 4000, []], [1, 5000, [None, "text 3"]], [1, 9, None]):
        found = {}
        for on in ("off", "force"):
            vectors.execute(f"SET pgbillion_rows.vector_aggregate = {on}".encode())
            found[on] = [sorted(vectors.execute(query, values, prepare=True).fetchall()) for _ in range(7)]
        assert found["off"] == found["force"]


def test_cursors(vectors: Connection) -> None:
    make(vectors)
    found = {}
    for on in ("off", "force"):
        vectors.execute(f"SET pgbillion_rows.vector_aggregate = {on}; BEGIN".encode())
        vectors.execute(f"DECLARE k SCROLL CURSOR WITH HOLD FOR {QUERY.format('data')} ORDER BY 1".encode())
        found[on] = vectors.execute("FETCH 3 FROM k").fetchall()
        vectors.execute("COMMIT")
        for fetch in ("FETCH BACKWARD 2 FROM k", "FETCH ABSOLUTE 5 FROM k", "FETCH ALL FROM k", "FETCH FIRST FROM k"):
            found[on] += vectors.execute(fetch.encode()).fetchall()
        vectors.execute("CLOSE k")
    assert found["off"] == found["force"]


def test_rescans(vectors: Connection) -> None:
    make(vectors)
    vectors.execute("SET enable_material = off; SET enable_memoize = off; SET work_mem = '64kB'")
    for inner in ("grp = o.k", "x > o.k * 100", "id % 7 = o.k OR o.k IS NULL"):
        both(
            vectors,
            "SELECT o.k, s.* FROM (VALUES (1), (6), (NULL), (99), (1)) o (k) LEFT JOIN LATERAL"
            f" (SELECT t, count(*), sum(f) FROM data WHERE {inner} GROUP BY t) s ON true",
        )
    both(vectors, "SELECT g, (SELECT sum(x) FROM data WHERE id < g * 100) FROM generate_series(1, 9) g")
    # an aggregate of the outer query in the inner one, and a parameter from an initplan
    both(vectors, "SELECT count(*) FROM data WHERE x > (SELECT avg(x) FROM data WHERE grp = 2)")


def test_inside_functions(vectors: Connection) -> None:
    make(vectors)
    vectors.execute(
        "CREATE FUNCTION total(above integer) RETURNS bigint LANGUAGE plpgsql AS"
        " 'DECLARE found bigint; BEGIN SELECT sum(x) INTO found FROM v.data WHERE id > above; RETURN found; END'"
    )
    both(vectors, "SELECT total(g) FROM generate_series(1, 5000, 500) g", node=None)
    # a function that is called for each row of the scan, and scans itself
    both(vectors, "SELECT grp, count(*) FROM data WHERE id < 30 AND total(id) > 0 GROUP BY 1", node=None)


def test_parallel_plans(vectors: Connection) -> None:
    make(vectors, last=50_000)
    query = "SELECT grp, count(*), sum(x), min(t), bool_and(x > 0) FROM data WHERE id % 3 = 0 GROUP BY 1"
    in_parallel(vectors)
    assert plans.parallel(plans.explain(vectors, query))
    both(vectors, query)
    assert plans.processes(plans.explain(vectors, query, run=True)) == 3
    vectors.execute("SET parallel_leader_participation = off")
    both(vectors, query)
    # none are to be had when it begins
    vectors.execute("RESET parallel_leader_participation; SET max_parallel_workers = 0")
    both(vectors, query)
    assert plans.processes(plans.explain(vectors, query, run=True)) == 1


def test_synchronised_scans(cluster: Cluster, vectors: Connection, database: str) -> None:
    """A scan of a large table begins where another one is; no row is lost or counted twice."""
    # more than a quarter of shared_buffers, which has 64 MB
    make(vectors, "large", last=400_000)
    vectors.execute("SET synchronize_seqscans = on")
    assert one(vectors, "SELECT pg_relation_size('large') > 17 * 1024 * 1024")
    query = "SELECT count(*), sum(x), count(DISTINCT id) = 400000 FROM (SELECT id, x FROM large OFFSET 0) s"
    expected = one(vectors, "SELECT sum(x) FROM large")
    with cluster.connect(database) as other:
        other.execute("SET search_path = v; BEGIN")
        other.execute("DECLARE k CURSOR FOR SELECT * FROM large")
        other.execute("FETCH 150000 FROM k")
        assert both(vectors, "SELECT count(*), sum(x) FROM large") == [(b"400000", str(expected).encode())]
        other.execute("FETCH 100000 FROM k")
        in_parallel(vectors)
        assert both(vectors, "SELECT count(*), sum(x) FROM large") == [(b"400000", str(expected).encode())]
        assert vectors.execute(query.encode()).fetchone() == (400_000, expected, True)
        other.execute("ROLLBACK")


# what it leaves, and what it tells


def _pages(conn: Connection, table: str) -> list[tuple[Any, ...]]:
    """Line pointers and hint bits of all pages (the extension pageinspect)."""
    return conn.execute(
        "SELECT block, lp, lp_flags, lp_off, t_infomask, t_infomask2 FROM generate_series(0,"
        " pg_relation_size(%(t)s::regclass) / current_setting('block_size')::bigint - 1) AS block,"
        " public.heap_page_items(public.get_raw_page(%(t)s::text, block::integer)) ORDER BY 1, 2",
        {"t": table},
    ).fetchall()


def test_pages_are_pruned_and_hinted_as_by_core(vectors: Connection) -> None:
    if not servers.has_extension(vectors, "pageinspect"):
        pytest.skip("this installation is without contrib (pageinspect)")
    found = {}
    for on in ("off", "force"):
        make(vectors, on.replace("off", "core").replace("force", "ours"))
        table = "core" if on == "off" else "ours"
        vectors.execute(f"UPDATE {table} SET x = x + 1 WHERE id % 4 = 0".encode())
        vectors.execute(f"BEGIN; DELETE FROM {table} WHERE id % 9 = 0; ROLLBACK".encode())
        vectors.execute(f"DELETE FROM {table} WHERE id % 10 = 0".encode())
        before = _pages(vectors, table)
        vectors.execute(f"SET pgbillion_rows.vector_aggregate = {on}".encode())
        vectors.execute(QUERY.format(table).encode())
        found[on] = _pages(vectors, table)
        assert found[on] != before
    assert found["off"] == found["force"]


def test_statistics(vectors: Connection) -> None:
    """EXPLAIN's buffers and pg_stat_user_tables count what core's scan would."""
    make(vectors, last=20_000)
    vectors.execute("VACUUM (FREEZE, ANALYZE) data")
    pages = one(vectors, "SELECT relpages FROM pg_class WHERE oid = 'data'::regclass")
    counted = {}
    for on in ("off", "force"):
        vectors.execute(f"SET pgbillion_rows.vector_aggregate = {on}".encode())
        query = "SELECT seq_scan, seq_tup_read FROM pg_stat_user_tables WHERE relid = 'v.data'::regclass"
        vectors.execute("SELECT pg_stat_force_next_flush(), pg_stat_clear_snapshot()")
        before = vectors.execute(query.encode()).fetchone()
        row = vectors.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {QUERY.format('data')}".encode()).fetchone()
        assert row
        plan = row[0][0]["Plan"]
        assert plans.vectorized(plan) is (on == "force")
        assert pages <= plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] <= pages + 5
        vectors.execute("SELECT pg_stat_force_next_flush(), pg_stat_clear_snapshot()")
        after = vectors.execute(query.encode()).fetchone()
        assert before
        assert after
        counted[on] = [now - then for now, then in zip(after, before, strict=True)]
    assert counted["off"] == [1, 20_000]
    assert counted["force"] == counted["off"]


def test_explain(vectors: Connection) -> None:
    make(vectors)
    query = "SELECT grp, sum(x) FROM data WHERE id > 100 GROUP BY 1"
    lines = "\n".join(line for (line,) in vectors.execute(f"EXPLAIN (ANALYZE, VERBOSE) {query}".encode()))
    assert "Custom Scan (VectorAggregate) on v.data" in lines
    assert "Rows Removed by Filter: 100" in lines
    assert plans.reason(vectors, query).splitlines()[-1] == "vectorized"
    refused = plans.reason(vectors, "SELECT bit_and(grp) FROM data")
    assert refused.startswith("not vectorized: aggregate bit_and")


# when things go wrong


def test_statement_timeout_and_cancellation(cluster: Cluster, vectors: Connection, database: str) -> None:
    make(vectors, last=100_000)
    endless = (
        "SELECT count(*) FROM generate_series(1, 10000000) g,"
        " LATERAL (SELECT sum(x) FROM data WHERE id > g OR t LIKE '%9%') s"
    )
    assert plans.vectorized(plans.explain(vectors, endless.replace("LATERAL", "LATERAL /* planned */")))
    vectors.execute("SET statement_timeout = '50ms'")
    with pytest.raises(errors.QueryCanceled, match="statement timeout"):
        vectors.execute(endless.encode())
    vectors.execute("SET statement_timeout = 0")
    both(vectors, QUERY.format("data"))
    with cluster.connect(database) as other:
        running = Running(lambda: vectors.execute(endless.encode()))
        active = "SELECT state = 'active' AND query LIKE '%%LATERAL%%' FROM pg_stat_activity WHERE pid = %s"
        servers.until(lambda: one(other, active, pid(vectors)), "the query to run")
        assert one(other, "SELECT pg_cancel_backend(%s)", pid(vectors))
        with pytest.raises(errors.QueryCanceled, match="user request"):
            running.result()
    both(vectors, QUERY.format("data"))


def test_locks(cluster: Cluster, vectors: Connection, database: str) -> None:
    """It waits for who alters the table, and keeps others from doing so."""
    make(vectors)
    with cluster.connect(database) as other, cluster.connect(database) as monitor:
        other.execute("SET search_path = v; BEGIN; LOCK TABLE data")
        running = Running(lambda: vectors.execute(QUERY.format("data").encode()).fetchall())
        until_blocked(monitor, vectors, running)
        other.execute("COMMIT")
        assert len(running.result()) == 7
        vectors.execute("BEGIN")
        vectors.execute(QUERY.format("data").encode())
        with pytest.raises(errors.LockNotAvailable):
            other.execute("BEGIN; LOCK TABLE data NOWAIT")
        vectors.execute("ROLLBACK")


@pytest.mark.parametrize("workers", [0, 2])
def test_little_memory(vectors: Connection, workers: int) -> None:
    """As many groups as rows with hash_mem for a few: partial states are handed up, and all is there in the end."""
    make(vectors, last=60_000)
    if workers:
        in_parallel(vectors, workers)
    vectors.execute("SET work_mem = '64kB'; SET hash_mem_multiplier = 1")
    assert len(both(vectors, "SELECT id, count(*), sum(x), min(t) FROM data GROUP BY id")) == 60_000
    both(vectors, "SELECT t, id % 5000, sum(x), max(t) FROM data GROUP BY 1, 2")
    both(vectors, "SELECT count(*), max(n) FROM (SELECT id / 2, count(*) AS n FROM data GROUP BY 1) s")


def test_out_of_memory(vectors: Connection) -> None:
    """The error is core's, and the session goes on."""
    make(vectors, last=400_000)
    vectors.execute("SET work_mem = '1GB'; SET enable_sort = off")
    query = "SELECT count(*) FROM (SELECT id, t, sum(f) FROM data GROUP BY 1, 2 OFFSET 0) s"
    backend = psutil.Process(pid(vectors))
    for on in ("off", "force"):
        vectors.execute(f"SET pgbillion_rows.vector_aggregate = {on}".encode())
        vectors.execute("SELECT count(*) FROM data")
        _limit(backend, str(backend.memory_info().vms + 16 * 1024 * 1024))
        try:
            with pytest.raises(errors.OutOfMemory):
                vectors.execute(query.encode())
        finally:
            _limit(backend, "unlimited")
        vectors.execute("SET pgbillion_rows.vector_aggregate = force")
        both(vectors, QUERY.format("data"))


def _limit(backend: psutil.Process, size: str) -> None:
    """Set the soft limit of a backend's address space; its own user may."""
    run_as_server(["prlimit", f"--pid={backend.pid}", f"--as={size}:unlimited"], check=True)


@pytest.mark.parametrize("workers", [0, 2])
def test_corrupted_page(installation: Installation, workers: int) -> None:
    """Core's error, and core's answer where the owner has such pages ignored."""
    with servers.new_cluster(installation) as cluster:
        with cluster.connect() as conn:
            conn.execute("CREATE SCHEMA v; SET search_path = v")
            make(conn, last=20_000)
            conn.execute("CHECKPOINT")
            file = cluster.data / one(conn, "SELECT pg_relation_filepath('data')")
        cluster.stop()
        _overwrite(file, 3 * 8192 + 10)
        cluster.start()
        with cluster.connect() as conn:
            prepare(conn)
            if workers:
                in_parallel(conn, workers)
            messages = []
            for on in ("off", "force"):
                conn.execute(f"SET pgbillion_rows.vector_aggregate = {on}".encode())
                with pytest.raises(psycopg.Error) as caught:
                    conn.execute(QUERY.format("data").encode())
                messages.append((caught.value.sqlstate, caught.value.diag.message_primary))
            assert messages[0] == messages[1]
            assert messages[0][0] == "XX001"
            assert "invalid page in block 3" in str(messages[0][1])
            conn.execute("SET zero_damaged_pages = on; SET client_min_messages = error")
            both(conn, "SELECT count(*), sum(x), min(t) FROM data")


def _overwrite(file: Path, offset: int) -> None:
    with file.open("r+b") as data:
        data.seek(offset)
        data.write(b"\xde\xad\xbe\xef" * 8)


def test_errors_of_arithmetic(vectors: Connection) -> None:
    """Only rows that are left by the terms before raise one, and it is core's."""
    make(vectors)
    vectors.execute("INSERT INTO data VALUES (0, NULL, 2147483647, 'NaN', 'odd'), (-1, 0, 0, 'Infinity', '')")
    both(vectors, "SELECT sum(100 / x) FROM data WHERE x > 0 AND x < 1000")
    both(vectors, "SELECT sum(x + 1) FROM data WHERE id > 0")
    both(vectors, "SELECT grp, sum(x + 1) FILTER (WHERE id > 0) FROM data GROUP BY 1")
    both(vectors, "SELECT sum(f), avg(f), max(f), variance(f) FROM data")
    for query, state in {
        "SELECT sum(100 / x) FROM data": "22012",
        "SELECT sum(x + 1) FROM data": "22003",
        "SELECT count(*) FROM data WHERE x * 2 > 5": "22003",
        "SELECT id % (x / 2000), count(*) FROM data GROUP BY 1": "22012",
        "SELECT count(*) FROM data WHERE grp::smallint >= 0 AND 1 / x > 0": "22012",
        "SELECT sum(- x - 2) FROM data": "22003",
        "SELECT sum(f::integer) FROM data": "22003",
    }.items():
        found = set()
        for on in ("off", "force"):
            vectors.execute(f"SET pgbillion_rows.vector_aggregate = {on}".encode())
            with pytest.raises(psycopg.Error) as caught:
                vectors.execute(query.encode())
            found.add((caught.value.sqlstate, caught.value.diag.message_primary))
        assert {code for code, _ in found} == {state}, (query, found)
        assert len(found) == 1, (query, found)


# kinds of tables


def test_kinds_of_tables(vectors: Connection) -> None:
    for kind, how in {"unlogged_one": "", "lazy_one": " USING lazy_heap"}.items():
        make(vectors, kind, how=how)
        both(vectors, QUERY.format(kind))
    vectors.execute("CREATE TABLE still_lazy (LIKE lazy_one) USING lazy_heap")
    assert both(vectors, "SELECT count(*), sum(x) FROM still_lazy", node=None) == [(b"0", None)]
    vectors.execute("DROP TABLE still_lazy")
    vectors.execute("CREATE TEMP TABLE mine AS SELECT * FROM lazy_one")
    both(vectors, QUERY.format("mine"), node=None)
    vectors.execute("CREATE MATERIALIZED VIEW seen AS SELECT * FROM lazy_one")
    both(vectors, QUERY.format("seen"))
    both(vectors, "SELECT relkind, count(*) FROM pg_class GROUP BY 1", node=None)
    both(vectors, "SELECT count(*) FROM pg_stat_activity WHERE pid = -1", node=None)
    both(vectors, "SELECT count(*), min(x) FROM lazy_one TABLESAMPLE BERNOULLI (100)", node=None)


def test_partitions(vectors: Connection) -> None:
    vectors.execute((CREATE.format("parts") + " PARTITION BY LIST (grp)").encode())
    for number in range(6):
        vectors.execute(f"CREATE TABLE part{number} PARTITION OF parts FOR VALUES IN ({number})".encode())
    vectors.execute("CREATE TABLE rest PARTITION OF parts DEFAULT USING lazy_heap")
    vectors.execute(FILL.format("parts", 1, 6000).encode())
    for workers in (0, 2):
        in_parallel(vectors, workers)
        for wise in ("off", "on"):
            vectors.execute(f"SET enable_partitionwise_aggregate = {wise}".encode())
            for query in (
                "SELECT grp, count(*), sum(x), min(t) FROM parts GROUP BY 1",
                "SELECT t, count(*), sum(x) FROM parts GROUP BY 1",
                "SELECT count(*), max(t) FROM parts WHERE grp IN (2, 6)",
                "SELECT count(*) FROM parts WHERE grp = 99",
            ):
                both(vectors, query, node=None)
            assert plans.vectorized(plans.explain(vectors, "SELECT grp, count(*), sum(x) FROM parts GROUP BY 1"))
    # the sum of floats depends on the order of the rows of all partitions
    in_parallel(vectors, 0)
    vectors.execute("SET enable_partitionwise_aggregate = off")
    vectors.execute("UPDATE parts SET f = 1e17 / (id % 13 + 1)")
    query = "SELECT sum(f), avg(f) FROM parts"
    both(vectors, query, node=False)
    assert "sums of floats over several tables" in str(plans.reason(vectors, query))


def test_other_access_methods(vectors: Connection) -> None:
    """Whoever has one may keep rows in another way, whatever functions it has in common with heap."""
    vectors.execute("BEGIN; CREATE ACCESS METHOD other_heap TYPE TABLE HANDLER heap_tableam_handler")
    make(vectors, how=" USING other_heap")
    make(vectors, "plain", 1, 10)
    vectors.execute("SET pgbillion_rows.vector_scan = force; SET pgbillion_rows.vector_join = force")
    for query in (
        QUERY.format("data"),
        "SELECT id, t FROM data WHERE x < 60",
        "SELECT d.id, p.t FROM data d JOIN plain p ON p.id = d.id",
    ):
        nodes = plans.nodes(plans.explain(vectors, query))
        assert [node["Node Type"] for node in nodes if node.get("Relation Name") == "data"] == ["Seq Scan"]
        both(vectors, query, node=None)
    assert 'the access method of "data"' in str(plans.reason(vectors, QUERY.format("data")))


def test_conditions_that_no_row_satisfies(vectors: Connection) -> None:
    make(vectors)
    query = "SELECT count(*), sum(x) FROM data WHERE x > 5 AND false"
    assert both(vectors, query, node=False) == [(b"0", None)]
    assert "no row can satisfy the conditions" in str(plans.reason(vectors, query))


@pytest.mark.parametrize("least", [1, 10_000])
def test_conditions_without_columns(vectors: Connection, least: int) -> None:
    """They decide once, before the table is read, whether there is any row."""
    make(vectors)
    query = f"SELECT count(*), sum(x) FROM data WHERE x > 5 AND (SELECT count(*) FROM data) > {least}"
    assert (both(vectors, query, node=None)[0][1] is None) == (least > 5000)
    assert "a condition that refers to no column" in str(plans.reason(vectors, query))
    both(vectors, query.replace("count(*), sum(x)", "t, max(x)", 1) + " GROUP BY 1", node=None)


def test_grouping_sets(vectors: Connection) -> None:
    """One row belongs to several groups; also where there is but one set."""
    make(vectors)
    for sets in ("ROLLUP (grp)", "CUBE (grp, t)", "GROUPING SETS ((grp))", "t, ROLLUP (grp)"):
        rows = both(vectors, f"SELECT count(*), sum(x), max(t) FROM data GROUP BY {sets}")
        assert len(rows) > 7 or "((grp))" in sets


def test_parameters_that_prune_partitions(vectors: Connection) -> None:
    """PostgreSQL reads the partition that the query's run asks for, and no other."""
    vectors.execute((CREATE.format("parts") + " PARTITION BY LIST (grp)").encode())
    for number in range(3):
        vectors.execute(f"CREATE TABLE part{number} PARTITION OF parts FOR VALUES IN ({number})".encode())
    vectors.execute("CREATE TABLE rest PARTITION OF parts DEFAULT")
    vectors.execute(FILL.format("parts", 1, 600).encode())
    for where, refused in (("grp = (SELECT 1)", True), ("x > (SELECT 1)", False)):
        query = f"SELECT count(*), sum(x) FROM parts WHERE {where}"
        both(vectors, query, node=not refused)
        said = one(vectors, "SELECT pgbillion_rows.explain_vector(%s)", query)
        assert ("parameters that prune partitions when the query runs" in said) == refused


def test_collations(vectors: Connection) -> None:
    """What sorts or compares otherwise than by bytes is done by core's rules, or by core."""
    if not one(vectors, "SELECT count(*) FROM pg_collation WHERE collname = 'und-x-icu'"):
        pytest.skip("this installation is without ICU")
    vectors.execute("CREATE COLLATION v.blind (provider = icu, locale = 'und-u-ks-level2', deterministic = false)")
    vectors.execute('CREATE TABLE words (w text COLLATE "und-x-icu", c text COLLATE "C", b text COLLATE v.blind)')
    vectors.execute(
        "INSERT INTO words SELECT w, w, w FROM unnest('{a,A,b,B,ä,Z,z,_,é,É,e}'::text[]) w, generate_series(1, 50)"
    )
    for column in "wcb":
        both(vectors, f"SELECT min({column}), max({column}), count({column}) FROM words", node=None)
        both(vectors, f"SELECT upper({column}) AS u, count(*) FROM words GROUP BY 1", node=None)
        both(vectors, f"SELECT count(*) FROM words WHERE {column} > 'b' AND {column} <> 'Z'", node=None)
    assert len(both(vectors, "SELECT w, count(*) FROM words GROUP BY 1")) == 11
    # equal to one another, though not by their bytes: which one is shown is open
    both(vectors, 'SELECT lower(b) COLLATE "C", n FROM (SELECT b, count(*) AS n FROM words GROUP BY b) s', node=None)
    assert one(vectors, "SELECT count(*) FROM (SELECT b FROM words GROUP BY b) s") == 7


def test_columns_that_rows_lack(vectors: Connection) -> None:
    make(vectors)
    vectors.execute("ALTER TABLE data DROP t, ADD added integer DEFAULT 9, ADD word text DEFAULT 'word', ADD none real")
    vectors.execute(sql.SQL("INSERT INTO data SELECT g, 8, g, g, NULL, NULL, g FROM generate_series(1, 50) g"))
    vectors.execute("ALTER TABLE data ADD later numeric(10,2) DEFAULT 1.50, DROP f")
    query = "SELECT grp, sum(added), count(word), max(word), avg(none), sum(later), min(later) FROM data GROUP BY 1"
    assert len(both(vectors, query)) == 8
    both(vectors, "SELECT word, added, count(*) FROM data WHERE later > 1 AND added IS NOT NULL GROUP BY 1, 2")


# found by review


def test_memory_of_a_scan_is_let_go(vectors: Connection) -> None:
    """What comparing unpacked values and hashing numerics leaves behind goes with its page."""
    vectors.execute("CREATE TABLE long (n numeric, t text)")
    vectors.execute("INSERT INTO long SELECT g % 7 + 0.5, repeat('abc', 20000) FROM generate_series(1, 20000) g")
    backend = psutil.Process(pid(vectors))
    before = backend.memory_info().rss
    both(vectors, "SELECT count(*) FROM long WHERE t = repeat('xyz', 20000)")  # 1.2 GB unpacked
    both(vectors, "SELECT n, count(*) FROM long GROUP BY n")
    assert backend.memory_info().rss - before < 200 << 20


def test_subqueries_that_are_not_reached(vectors: Connection) -> None:
    make(vectors)
    for query in (
        "SELECT count(*) FROM data WHERE id > 0 OR x = (SELECT 1 / (max(id) - 5000) FROM data)",
        "SELECT count(*) FILTER (WHERE id > 0 OR x = (SELECT 1 / (max(id) - 5000) FROM data)) FROM data",
    ):
        assert both(vectors, query) == [(b"5000",)]


def test_what_is_computed_from_a_key(vectors: Connection) -> None:
    """The columns of a key's expression are no keys themselves."""
    make(vectors)
    query = "SELECT (id % 10) * 2, count(*) FROM data GROUP BY id % 10 HAVING id % 10 > 3"
    assert len(both(vectors, query)) == 6
    plan = "\n".join(line for (line,) in vectors.execute(f"EXPLAIN (COSTS off) {query}".encode()))
    assert "VectorAggregate" in plan
    assert ", data.id" not in plan

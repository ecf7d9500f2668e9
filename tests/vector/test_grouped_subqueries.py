"""Correlated subqueries whose results are computed for all values at once: when, when not, and that answers stay."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness import servers
from harness.outcomes import agreed, outcome
from harness.servers import one
from pgbillion.common.connection import Connection
from pgbillion.rows import answers, plans
from pgbillion.server.postgres import Cluster

pytestmark = pytest.mark.majors

GROUPS = "Groups Computed at Once"
# inner has 800 values of k, of which outer has half, and values that inner lacks
TABLES = """
CREATE TABLE inner_ (id integer, k integer, l bigint, v integer, n numeric, t text, c char(6), o oid,
    f double precision, d date, y "char");
INSERT INTO inner_ SELECT i, nullif(i % 801, 800), i % 7, i % 1000, (i % 801)::numeric(8, 1), 't' || i % 801,
    'c' || i % 801, (4294967295 - i % 801)::oid, i % 801, date '2020-01-01' + i % 801, chr(i % 120 + 1)::"char"
    FROM generate_series(1, 4000) i;
CREATE TABLE outer_ (id integer, k integer, l bigint, v integer, n numeric, t text, c char(6), w char(8), i integer,
    f double precision, d date, y "char");
INSERT INTO outer_ SELECT i, nullif(i * 2 - 400, 0), i % 9, i % 500, i * 2, 't' || i * 2, 'c' || i * 2, 'c' || i * 2,
    -1 - i % 1000, CASE WHEN i % 50 = 0 THEN -0.0 ELSE i END, date '2020-01-01' + i * 2, chr(i % 127 + 1)::"char"
    FROM generate_series(1, 800) i;
CREATE TABLE labels (k integer PRIMARY KEY, label text);
INSERT INTO labels SELECT i, 'l' || i % 3 FROM generate_series(0, 800) i;
ANALYZE inner_, outer_, labels;
"""


@pytest.fixture(scope="module")
def tables(cluster: Cluster) -> Iterator[str]:
    with servers.new_database(cluster, "grouped_subqueries") as name:
        with cluster.connect(name) as conn:
            conn.execute(TABLES.encode())
        yield name


@pytest.fixture
def grouping(cluster: Cluster, tables: str) -> Iterator[Connection]:
    """A session in a transaction that leaves nothing."""
    with cluster.connect(tables) as conn:
        conn.prepare_threshold = None
        conn.execute("LOAD 'pgbillion_rows'; SET statement_timeout = '300s'; BEGIN")
        yield conn
        conn.execute("ROLLBACK")


def switch(conn: Connection, mode: str) -> None:
    conn.execute(f"SET LOCAL pgbillion_rows.memoize_subqueries = {mode}".encode())


def same(conn: Connection, query: str) -> answers.Answer | str:
    """What a query gives, which is the same with and without."""
    switch(conn, "off")
    core = outcome(conn, query)
    for mode in ("on", "force"):
        switch(conn, mode)
        agreed(core, outcome(conn, query), query)
    return core


def node_of(conn: Connection, query: str, mode: str = "force") -> plans.Plan:
    """The node above the subquery after the query was run."""
    switch(conn, mode)
    plan = plans.explain(conn, query, run=True)
    (node,) = [node for node in plans.nodes(plan) if node.get("Custom Plan Provider") == "MemoizeSubPlan"]
    return node


def test_many_values_are_computed_at_once(grouping: Connection) -> None:
    query = "SELECT count(*) FROM outer_ o WHERE o.v > (SELECT avg(i.v) FROM inner_ i WHERE i.k = o.k)"
    same(grouping, query)
    # without an index each call reads the whole table, which takes long on any machine
    grouping.execute("CREATE TABLE large AS SELECT i % 801 AS k, i % 1000 AS v FROM generate_series(1, 200000) i")
    grouping.execute("ANALYZE large")
    slow = query.replace("inner_ i", "large i").replace("WHERE o.v", "WHERE o.id BETWEEN 300 AND 399 AND o.v")
    same(grouping, slow)
    node = node_of(grouping, slow, "on")
    assert node["Cache Misses"] + node["Passed Through"] < 80
    assert node["Cache Hits"] > 20
    assert node[GROUPS] > 700
    grouping.execute("DROP TABLE large")
    # from the first call on: one of a value that there is not
    node = node_of(grouping, query)
    assert (node["Cache Hits"], node["Cache Misses"], node[GROUPS]) == (799, 1, 800)


def test_few_calls_are_left_as_they_are(grouping: Connection) -> None:
    query = "SELECT (SELECT avg(i.v) FROM inner_ i WHERE i.k = o.k) FROM outer_ o WHERE o.id < 20"
    node = node_of(grouping, query, "on")
    assert node[GROUPS] == 0
    assert node["Cache Misses"] == 19
    # nor is it done where calls find what they look for
    query = (
        "SELECT sum((SELECT avg(i.v) FROM inner_ i WHERE i.k = o.l)) FROM (SELECT (id % 9) AS l FROM outer_ OFFSET 0) o"
    )
    node = node_of(grouping, query, "on")
    assert node[GROUPS] == 0
    assert node["Cache Hits"] > 780


@pytest.mark.parametrize(
    "subquery",
    [
        "(SELECT count(*) FROM inner_ i WHERE i.k = o.k)",
        "(SELECT sum(i.v) FROM inner_ i WHERE o.k = i.k AND i.v > 300)",
        "(SELECT coalesce(max(i.d), date '1999-01-01') FROM inner_ i WHERE i.d = o.d)",
        "(SELECT max(i.t) FROM inner_ i WHERE i.t = o.t)",
        "(SELECT 1.3 * avg(i.n) + count(DISTINCT i.v) FROM inner_ i WHERE i.k = o.k)",
        "(SELECT count(i.t) FROM inner_ i WHERE i.k = o.k AND i.l = o.l)",
        "(SELECT count(i.t) FROM inner_ i WHERE i.k + 1 = o.k AND abs(i.v) <> 7)",
        "(SELECT count(*) FROM inner_ i WHERE i.y = o.y)",
        "(SELECT count(*) FROM inner_ i WHERE i.o = o.i::oid)",
        "(SELECT max(b.label) FROM inner_ i, labels b WHERE b.k = i.k AND i.k = o.k AND b.label <> 'l1')",
        "(SELECT max(b.label) FROM inner_ i JOIN labels b ON b.k = i.k WHERE b.k = o.k)",
        "(SELECT array_agg(i.v ORDER BY i.v, i.id) FROM labels i WHERE i.k = o.k)",
        # planned with what it returns for no row at all
        "(SELECT count(*) FROM inner_ i WHERE i.k = o.k AND false)",
        "(SELECT bool_or(i.v > 990) FROM (SELECT * FROM inner_ WHERE l < 5) i WHERE i.k = o.k)",
    ],
)
def test_every_form(grouping: Connection, subquery: str) -> None:
    query = f"SELECT o.id, {subquery} FROM outer_ o"
    if "array_agg" in subquery:
        grouping.execute("ALTER TABLE labels ADD v integer, ADD id integer; UPDATE labels SET v = k, id = k")
    answer = same(grouping, query)
    assert isinstance(answer, answers.Answer), answer
    if not any(left in subquery for left in ("array_agg", "FROM (SELECT", "false")):
        node = node_of(grouping, query)
        assert node[GROUPS] > 100
        assert node["Cache Misses"] <= 1


def test_functions_differ_in_how_they_fill_a_datum(grouping: Connection) -> None:
    """The largest of OIDs from 2^31 on is another Datum than what is read of a table."""
    grouping.execute("SET LOCAL pgbillion_rows.vector_aggregate = off")
    query = "SELECT o.id / 2, (SELECT count(*) FROM inner_ i WHERE i.o = max(o.i::oid)) FROM outer_ o GROUP BY 1"
    same(grouping, query)
    assert node_of(grouping, query)[GROUPS] == 801


@pytest.mark.parametrize(
    "subquery",
    [
        # the sum of floats, and what is aggregated in the order of rows
        "(SELECT sum(i.f) FROM inner_ i WHERE i.k = o.k)",
        "(SELECT string_agg(i.t, ',') FROM labels x, inner_ i WHERE x.k = i.id AND i.k = o.k)",
        # values that are equal and differ
        "(SELECT count(*) FROM inner_ i WHERE i.n = o.n)",
        "(SELECT count(*) FROM inner_ i WHERE i.f = o.f)",
        "(SELECT count(*) FROM inner_ i WHERE i.c = o.c)",
        "(SELECT count(*) FROM inner_ i WHERE i.c = o.w)",
        "(SELECT count(*) FROM inner_ i WHERE i.t COLLATE caseless = o.t)",
        # other types and operators, and values that are not only compared
        "(SELECT count(*) FROM inner_ i WHERE i.k = o.l)",
        "(SELECT count(*) FROM inner_ i WHERE i.k <= o.k AND i.l = o.l)",
        "(SELECT count(*) FROM inner_ i WHERE i.k = o.k AND i.v < o.v)",
        "(SELECT count(*) FROM inner_ i WHERE i.k = o.k + 1)",
        "(SELECT count(*) + o.v FROM inner_ i WHERE i.k = o.k)",
        "(SELECT max(i.v + o.v) FROM inner_ i WHERE i.k = o.k)",
        "(SELECT count(*) FROM inner_ i WHERE i.k = o.k AND i.id = o.k)",
        # more or less than aggregates of rows of tables
        "(SELECT max(i.v) FROM inner_ i WHERE i.k = o.k HAVING count(*) > 5)",
        "(SELECT max(i.v) FROM inner_ i WHERE i.k = o.k GROUP BY i.k)",
        "(SELECT max(i.v) FROM inner_ i WHERE i.k = o.k LIMIT 0)",
        "(SELECT i.v FROM inner_ i WHERE i.k = o.k ORDER BY i.v LIMIT 1)",
        "(SELECT count(x.k) FROM inner_ i LEFT JOIN labels x ON x.k = i.id WHERE i.k = o.k)",
        "(SELECT count(*) FROM inner_ i, inner_ x WHERE i.k = o.k AND x.id = i.id)",
        "(SELECT count(*) FROM inner_ i WHERE i.k = o.k AND i.v < (SELECT max(k) FROM labels))",
        "(SELECT count(*) FROM inner_ i WHERE i.k = o.k AND EXISTS (SELECT FROM labels x WHERE x.k = i.v))",
        "(SELECT count(*) FROM inner_ i, generate_series(1, 2) WHERE i.k = o.k)",
        # functions of users could do more than to fail, and results of others may change
        "(SELECT sum(i.v::few) FROM inner_ i WHERE i.k = o.k)",
        "(SELECT count(*) FROM inner_ i WHERE i.k = o.k AND i.t <> current_setting('work_mem'))",
        "(SELECT count(*) FROM inner_ i WHERE i.k = o.k AND i.d < current_date)",
        # tables that may get children meanwhile
        "(SELECT count(*) FROM parts i WHERE i.k = o.k AND i.v < 390)",
        "(SELECT count(*) FROM parent i WHERE i.k = o.k AND i.v < 390)",
        "(SELECT count(*) FROM inner_ i WHERE i.k = o.k AND mine(i.v) > 3)",
        "(SELECT max(mine(i.v)) FROM inner_ i WHERE i.k = o.k)",
    ],
)
def test_what_is_not_computed_at_once(grouping: Connection, subquery: str) -> None:
    grouping.execute(
        "CREATE FUNCTION mine(integer) RETURNS integer IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN $1; END';"
        " CREATE DOMAIN few AS integer CHECK (mine(VALUE) < 5000); CREATE TABLE parts (k integer, v integer)"
        " PARTITION BY RANGE (v); CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (1000);"
        " CREATE TABLE parent (k integer, v integer); CREATE TABLE child () INHERITS (parent);"
        " INSERT INTO parts SELECT k, v FROM inner_; INSERT INTO child SELECT * FROM parts"
    )
    if "caseless" in subquery:
        if not one(
            grouping, "SELECT EXISTS (SELECT FROM pg_collation WHERE collprovider = 'i' AND collname <> 'unicode')"
        ):
            pytest.skip("this installation is without ICU")
        grouping.execute("CREATE COLLATION caseless (provider = icu, locale = 'und', deterministic = false)")
    query = f"SELECT o.id, {subquery} FROM outer_ o WHERE o.id > 100 AND o.id < 140"
    same(grouping, query)
    assert GROUPS not in node_of(grouping, query)


def test_row_security_is_left_to_calls(grouping: Connection) -> None:
    grouping.execute(
        "CREATE ROLE sees_some; ALTER TABLE inner_ ENABLE ROW LEVEL SECURITY;"
        " CREATE POLICY p ON inner_ USING (l < 4); GRANT SELECT ON inner_, outer_ TO sees_some;"
        " SET LOCAL ROLE sees_some"
    )
    query = "SELECT o.id, (SELECT count(*) FROM inner_ i WHERE i.k = o.k) FROM outer_ o WHERE o.id > 700"
    same(grouping, query)
    assert GROUPS not in node_of(grouping, query)


def test_privileges_are_those_of_the_query(grouping: Connection) -> None:
    grouping.execute("CREATE ROLE reads; GRANT SELECT (k) ON inner_ TO reads; GRANT SELECT ON outer_ TO reads")
    grouping.execute(
        "CREATE VIEW counts AS SELECT o.id, (SELECT sum(i.v) FROM inner_ i WHERE i.k = o.k) s FROM outer_ o"
    )
    grouping.execute("GRANT SELECT ON counts TO reads; SET LOCAL ROLE reads")
    assert same(grouping, "SELECT (SELECT sum(i.v) FROM inner_ i WHERE i.k = o.k) FROM outer_ o") == (
        "42501 permission denied for table inner_"
    )
    for query in ("SELECT (SELECT count(*) FROM inner_ i WHERE i.k = o.k) FROM outer_ o", "SELECT * FROM counts"):
        assert isinstance(same(grouping, query), answers.Answer)
        assert node_of(grouping, query)[GROUPS] == 800


def test_a_cursor_keeps_its_privileges(grouping: Connection) -> None:
    """They were checked when it was opened; its rows are read as another role."""
    grouping.execute("CREATE ROLE reads_nothing")
    query = "SELECT o.id, (SELECT count(*) FROM inner_ i WHERE i.k = o.k) FROM outer_ o"
    switch(grouping, "off")
    expected = grouping.execute(query.encode()).fetchall()
    switch(grouping, "force")
    grouping.execute(f"DECLARE c CURSOR FOR {query}".encode())
    grouping.execute("SET LOCAL ROLE reads_nothing")
    assert grouping.execute("FETCH ALL FROM c").fetchall() == expected


def test_errors_of_rows_that_no_call_reads(grouping: Connection) -> None:
    """Some row of no outer value fails: calls go on. One that a call reads ends the query."""
    grouping.execute("INSERT INTO inner_ (k, v, n) VALUES (-77, 0, 3)")
    query = "SELECT o.id, (SELECT sum(10 / i.v) FROM inner_ i WHERE i.k = o.k AND (i.v > 0 OR i.n = 3)) FROM outer_ o"
    assert isinstance(same(grouping, query), answers.Answer)
    node = node_of(grouping, query)
    assert node["Cache Misses"] + node["Passed Through"] == 800
    assert node[GROUPS] == 0
    grouping.execute("UPDATE inner_ SET k = 100 WHERE k = -77")
    assert same(grouping, query) == "22012 division by zero"
    # and the session goes on, in the transaction's own state
    assert one(grouping, "SELECT count(*) FROM inner_") == 4001


def test_it_can_be_canceled(grouping: Connection) -> None:
    """In a block that goes on, the subtransaction of the groups has ended, too."""
    switch(grouping, "force")
    grouping.execute("CREATE TABLE large AS SELECT i % 800 AS k, i AS v FROM generate_series(1, 300000) i")
    grouping.execute("CREATE TABLE noted (what text)")
    block = """
        DO $$
        BEGIN
            BEGIN
                INSERT INTO noted VALUES ('before');
                PERFORM (SELECT count(DISTINCT i.v + x.k) FROM large i, labels x WHERE i.k = o.k) FROM outer_ o;
            EXCEPTION WHEN query_canceled THEN
                INSERT INTO noted VALUES ('canceled');
            END;
            INSERT INTO noted VALUES ('after');
        END $$
    """
    grouping.execute("SET LOCAL statement_timeout = '700ms'")
    grouping.execute(block.encode())
    grouping.execute("SET LOCAL statement_timeout = 0")
    assert grouping.execute("SELECT what FROM noted").fetchall() == [("canceled",), ("after",)]


def test_little_memory(grouping: Connection) -> None:
    query = "SELECT o.id, (SELECT count(*) FROM inner_ i WHERE i.k = o.k) FROM outer_ o"
    grouping.execute("SET LOCAL work_mem = '64kB'; SET LOCAL hash_mem_multiplier = 1")
    same(grouping, query)
    # known before
    assert node_of(grouping, query)[GROUPS] == 0
    # or not
    grouping.execute("ALTER TABLE inner_ ALTER k SET (n_distinct = 20); ANALYZE inner_")
    same(grouping, query)
    node = node_of(grouping, query)
    assert 100 < node[GROUPS] < 700
    assert node["Cache Memory Usage"] <= 64
    assert node["Cache Misses"] > 50


def test_what_makes_room_is_no_longer_known(grouping: Connection) -> None:
    """The entry for all values without rows is made last: it may take the place of one that has some."""
    grouping.execute(
        "ALTER TABLE labels ADD v integer; UPDATE labels SET v = 1; DELETE FROM labels WHERE k > 20;"
        " SET LOCAL work_mem = '64kB'; SET LOCAL hash_mem_multiplier = 1"
    )
    grouping.execute("ANALYZE labels")
    seen = set()
    for length in (*range(3000, 3120, 5), 3300):
        subquery = f"(SELECT repeat('x', {length} + max(i.v)) FROM labels i WHERE i.k = o.k)"
        query = f"SELECT o.id, {subquery} FROM outer_ o ORDER BY o.id DESC"
        same(grouping, query)
        node = node_of(grouping, query)
        seen.add((node[GROUPS] == 21, node["Cache Evictions"] > 0))
    assert seen == {(True, False), (True, True), (False, True)}


def test_with_workers_calls_go_on(grouping: Connection) -> None:
    grouping.execute(
        "SET LOCAL parallel_setup_cost = 0; SET LOCAL parallel_tuple_cost = 0;"
        " SET LOCAL min_parallel_table_scan_size = 0; SET LOCAL max_parallel_workers_per_gather = 2;"
        " SET LOCAL pgbillion_rows.vector_aggregate = off; ALTER TABLE outer_ SET (parallel_workers = 2)"
    )
    query = "SELECT sum((SELECT sum(i.v) FROM inner_ i WHERE i.k = o.k)) FROM outer_ o WHERE o.id < 300"
    same(grouping, query)
    assert plans.processes(plans.explain(grouping, query, run=True)) > 1
    assert node_of(grouping, query)[GROUPS] == 0


def test_statements_that_change_what_they_read(grouping: Connection) -> None:
    for change in (
        "UPDATE inner_ SET v = (SELECT sum(i.v) FROM inner_ i WHERE i.k = inner_.k) WHERE id % 3 = 0 RETURNING id, v",
        "DELETE FROM inner_ WHERE v > (SELECT avg(i.v) FROM inner_ i WHERE i.k = inner_.k) RETURNING id",
    ):
        same(grouping, f"WITH c AS ({change}) SELECT count(*), sum(hashtext(c::text)) FROM c")


def test_parameters_of_statements(grouping: Connection) -> None:
    query = "SELECT o.id, (SELECT count(*) FROM inner_ i WHERE i.k = o.k AND i.v < 390) FROM outer_ o"
    for mode in ("force_custom_plan", "force_generic_plan"):
        grouping.execute(f"SET LOCAL plan_cache_mode = {mode}".encode())
        switch(grouping, "force")
        grouping.execute(f"PREPARE {mode}(integer) AS {query.replace('390', '$1')}".encode())
        for value in (390, 700, 390):
            switch(grouping, "off")
            expected = grouping.execute(query.replace("390", str(value)).encode()).fetchall()
            switch(grouping, "force")
            assert grouping.execute(f"EXECUTE {mode}({value})".encode()).fetchall() == expected
    # the quotient is computed for no row
    grouping.execute(
        "PREPARE quotient(integer) AS SELECT (SELECT sum(i.v + 10 / $1) FROM inner_ i WHERE i.k = o.k) FROM outer_ o"
        " WHERE o.k < 0"
    )
    assert set(grouping.execute("EXECUTE quotient(0)").fetchall()) == {(None,)}


def test_rows_are_sorted_for_distinct_whatever_was_planned_first(grouping: Connection) -> None:
    query = "SELECT o.id, (SELECT count(DISTINCT i.l % 2) FROM inner_ i WHERE i.k = o.k) FROM outer_ o"
    grouping.execute("SET LOCAL pgbillion_rows.vector_aggregate = off; SET LOCAL plan_cache_mode = force_generic_plan")
    switch(grouping, "off")
    expected = grouping.execute(query.encode()).fetchall()
    switch(grouping, "force")
    grouping.execute(f"PREPARE presorted AS {query}".encode())
    assert grouping.execute("EXECUTE presorted").fetchall() == expected
    if one(grouping, "SELECT EXISTS (SELECT FROM pg_settings WHERE name = 'enable_presorted_aggregate')"):
        grouping.execute("SET LOCAL enable_presorted_aggregate = off")
    assert grouping.execute("EXECUTE presorted").fetchall() == expected


def test_collations_in_conflict_are_no_error_of_planning(grouping: Connection) -> None:
    grouping.execute('CREATE TABLE mixed (a text COLLATE "C", b text COLLATE "POSIX")')
    query = "SELECT (SELECT count(*) FROM mixed m WHERE m.a || m.b = o.t) FROM outer_ o"
    assert isinstance(same(grouping, query), answers.Answer)


def test_serializable_transactions_take_no_more_locks(cluster: Cluster, tables: str) -> None:
    with cluster.connect(tables) as conn:
        conn.prepare_threshold = None
        conn.execute("LOAD 'pgbillion_rows'")
        conn.execute("BEGIN ISOLATION LEVEL SERIALIZABLE")
        node = node_of(conn, "SELECT (SELECT count(*) FROM inner_ i WHERE i.k = o.k) FROM outer_ o WHERE o.id < 50")
        assert node[GROUPS] == 0
        conn.execute("ROLLBACK")

"""What the planner decides: one setting for everything, what it tells, and which plans it leaves alone."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

import pytest

from harness import servers
from harness.plan_reports import milliseconds
from harness.servers import one
from pgbillion.common.connection import Connection
from pgbillion.rows import plans
from pgbillion.server.postgres import Cluster

OFF = "pgbillion_rows.enable is off"


@pytest.fixture(scope="module")
def database(cluster: Cluster) -> Iterator[str]:
    with servers.new_database(cluster, "choices") as name:
        with cluster.connect(name) as conn:
            conn.execute(
                "CREATE TABLE big AS SELECT i AS id, i % 100 AS k, i % 7 AS g, 'text ' || i AS v, repeat('z', 40) AS w"
                " FROM generate_series(1, 60000) i; CREATE TABLE small AS SELECT i AS id, 'name ' || i % 9 AS name"
                " FROM generate_series(0, 99) i; CREATE TABLE none (i int)"
            )
            conn.execute("ALTER TABLE small ADD PRIMARY KEY (id)")
            conn.execute("CREATE TABLE indexed AS SELECT * FROM big; CREATE INDEX ON indexed (id)")
            conn.execute("VACUUM ANALYZE big, small, none, indexed")
        yield name


@pytest.fixture
def conn(cluster: Cluster, database: str) -> Iterator[Connection]:
    with cluster.connect(database) as conn:
        conn.execute("LOAD 'pgbillion_rows'; SET max_parallel_workers_per_gather = 0; SET jit = off")
        # joins by vectors have tests of their own
        conn.execute("SET pgbillion_rows.vector_join = off")
        if conn.info.server_version >= 190000:
            # PostgreSQL's own way to aggregate before a join
            conn.execute("SET enable_eager_aggregate = off")
        conn.execute("BEGIN")
        yield conn
        conn.execute("ROLLBACK")


def providers(conn: Connection, query: str) -> set[str]:
    """The nodes of ours in a plan."""
    found = (node.get("Custom Plan Provider") for node in plans.nodes(plans.explain(conn, query)))
    return {name for name in found if name is not None}


def told(conn: Connection, query: str) -> list[str]:
    """What explain_vector() says, line by line, except for how long the plan takes."""
    lines = str(one(conn, "SELECT pgbillion_rows.explain_vector(%s)", query)).splitlines()
    return [line for line in lines if not line.startswith("estimated to take ")]


# one setting for everything

AGGREGATE = "SELECT g, count(*) FROM big GROUP BY g"
FILTER = "SELECT * FROM big WHERE k = 3 AND id > 5"
JOIN = "SELECT s.name, count(*), sum(b.g) FROM big b JOIN small s ON b.k = s.id GROUP BY 1"


def test_one_setting_switches_everything_off(conn: Connection) -> None:
    assert one(conn, "SHOW pgbillion_rows.enable") == "on"
    assert providers(conn, AGGREGATE) == {"VectorAggregate", "VectorFinalize"}
    assert providers(conn, FILTER) == {"VectorScan"}
    assert providers(conn, JOIN) == {"VectorAggregate"}
    # whatever the others say
    conn.execute("SET pgbillion_rows.enable = off; SET pgbillion_rows.vector_aggregate = force")
    conn.execute("SET pgbillion_rows.vector_scan = force; SET pgbillion_rows.eager_aggregate = force")
    for query in (AGGREGATE, FILTER, JOIN):
        assert providers(conn, query) == set()
        assert "Finalize" not in {node.get("Partial Mode") for node in plans.nodes(plans.explain(conn, query))}
        assert told(conn, query) == [f"not vectorized: {OFF}"]
    conn.execute("SET pgbillion_rows.enable = on")
    assert providers(conn, FILTER) == {"VectorScan"}


def test_the_setting_is_shown_by_explain(conn: Connection) -> None:
    conn.execute("SET pgbillion_rows.enable = off")
    (found,) = conn.execute("EXPLAIN (SETTINGS, FORMAT JSON) SELECT 1").fetchone() or ()
    assert found[0]["Settings"]["pgbillion_rows.enable"] == "off"


def test_shards_are_read_as_by_postgres_fdw(conn: Connection, database: str) -> None:
    port, host = conn.info.port, conn.info.host
    conn.execute(
        "CREATE EXTENSION postgres_fdw; CREATE SERVER here FOREIGN DATA WRAPPER pgbillion_fdw OPTIONS"
        f" (host '{host}', port '{port}', dbname '{database}'); CREATE USER MAPPING FOR PUBLIC SERVER here"
        f" OPTIONS (user '{conn.info.user}', password_required 'false')".encode()
    )
    conn.execute("CREATE TABLE far (id int, k int, g int) PARTITION BY LIST (id)")
    conn.execute("CREATE FOREIGN TABLE far_1 PARTITION OF far DEFAULT SERVER here OPTIONS (table_name 'big')")
    conn.execute("SET enable_partitionwise_aggregate = on; SET pgbillion_rows.vector_aggregate = force")
    query = "EXPLAIN (VERBOSE, COSTS OFF) SELECT g, avg(k) FROM far GROUP BY 1"
    for setting, expected in (("on", True), ("off", False)):
        conn.execute(f"SET pgbillion_rows.enable = {setting}".encode())
        plan = "\n".join(line for (line,) in conn.execute(query.encode()).fetchall())
        assert ("partial_avg" in plan) is expected, plan


# what is told


def test_explain_vector_tells_of_filters(conn: Connection) -> None:
    first, last = told(conn, FILTER)
    assert first.startswith('a vectorized scan of "big" is possible, and estimated to cost ')
    assert re.search(r": 2 of 2 conditions, \d+ of 60000 rows$", first), first
    assert last == "vectorized filter"
    assert told(conn, "SELECT * FROM big b WHERE 1 / k = 1") == [
        'no vectorized scan of "b": a condition that might raise an error comes first',
        'the number of rows of "b" is a guess: there are no statistics of an expression (ANALYZE)',
        "not chosen",
    ]
    (first, last) = told(conn, "SELECT * FROM small WHERE id = 3")
    assert first.startswith('no vectorized scan of "small": reading all of it would cost ')
    assert last == "not chosen"
    (first, last) = told(conn, "SELECT * FROM big TABLESAMPLE system (50) WHERE k = 3")
    assert first == 'no vectorized scan of "big": TABLESAMPLE'


def test_explain_vector_tells_what_was_estimated(conn: Connection) -> None:
    first, last = told(conn, AGGREGATE)
    assert first.startswith("vectors are possible, and estimated to cost ")
    assert first.endswith(": 7 groups of 60000 rows")
    assert last == "vectorized"
    lines = told(conn, JOIN)
    (found,) = [line for line in lines if "eager aggregation" in line]
    assert found.startswith("eager aggregation is possible, and estimated to cost ")
    assert found.endswith(": 100 groups of 60000 rows, of which the join leaves 60000"), found


def test_explain_vector_tells_how_long(conn: Connection) -> None:
    queries = {
        "SELECT count(*) FROM small",
        "SELECT s.name, count(*) FROM big b JOIN small s ON s.id = b.g GROUP BY 1 ORDER BY 2 LIMIT 3",
        "WITH c AS MATERIALIZED (SELECT g, count(*) FROM big GROUP BY g) SELECT * FROM c WHERE g > 1",
        "SELECT g, rank() OVER (ORDER BY k) FROM big ORDER BY 2, 1",
        "SELECT * FROM (SELECT g FROM big UNION ALL SELECT id FROM small) u ORDER BY 1 OFFSET 0",
        "SELECT g, k, count(DISTINCT id) FROM big GROUP BY GROUPING SETS ((g), (k))",
        "SELECT * FROM big b WHERE id = (SELECT max(id) FROM small s WHERE s.id = b.g)",
        "SELECT * FROM generate_series(1, 10), (SELECT 1 LIMIT 1) x",
    }
    for enabled in ("on", "off"):
        for feature in ("vector_aggregate", "vector_join", "vector_scan", "vector_sort", "vector_window"):
            conn.execute(f"SET pgbillion_rows.{feature} = {enabled}".encode())
        for query in queries:
            found = milliseconds(conn, query)
            assert 0 < found < 10_000, (enabled, query)
    whole = milliseconds(conn, "SELECT * FROM big")
    # a CTE is computed once, whatever is wanted of it; LIMIT ends what can end
    cte = milliseconds(conn, "WITH c AS MATERIALIZED (SELECT * FROM big) SELECT max(k) FROM c WHERE g = 1")
    assert cte > whole
    few = milliseconds(conn, "SELECT * FROM big LIMIT 60")
    assert few < whole / 100
    sorted_few = milliseconds(conn, "SELECT * FROM big ORDER BY g, k, id LIMIT 60")
    assert sorted_few > whole
    conn.execute("SET effective_cache_size = '8kB'")
    assert math.isnan(milliseconds(conn, "SELECT * FROM big"))


def test_explain_vector_tells_what_is_off(conn: Connection) -> None:
    conn.execute("SET pgbillion_rows.vector_aggregate = off")
    assert told(conn, AGGREGATE)[0] == "not vectorized: pgbillion_rows.vector_aggregate is off"
    assert told(conn, FILTER)[-1] == "vectorized filter"
    conn.execute("SET pgbillion_rows.vector_scan = off")
    assert told(conn, FILTER) == [
        "not vectorized: pgbillion_rows.vector_aggregate is off",
        "no vectorized scan: pgbillion_rows.vector_scan is off",
    ]


# estimates that are guesses

GUESS = "is a guess: "
LIMIT = (
    "6000 is PostgreSQL's limit for several columns of a table; there may be 60000"
    " (CREATE STATISTICS (ndistinct) tells)"
)


def guesses(conn: Connection, query: str) -> list[str]:
    return [line for line in told(conn, query) if GUESS in line]


@pytest.fixture
def pairs(conn: Connection) -> Connection:
    """Two columns of a thousand values each, which make as many pairs as there are rows."""
    conn.execute(
        "CREATE TABLE pairs AS SELECT i % 1000 AS a, (i * 7 + i / 1000) % 1000 AS b, i % 5 AS c, repeat('z', 40) AS w"
        " FROM generate_series(1, 60000) i; ANALYZE pairs"
    )
    return conn


def test_a_limit_of_groups_is_a_guess(pairs: Connection) -> None:
    query = "SELECT a, b, count(*) FROM pairs GROUP BY 1, 2"
    assert guesses(pairs, query) == [f"the number of groups {GUESS}{LIMIT}"]
    assert guesses(pairs, "SELECT DISTINCT a, b FROM pairs") == [f"the number of groups {GUESS}{LIMIT}"]
    # of few rows
    (found,) = guesses(pairs, query.replace("GROUP", "WHERE c = 3 GROUP"))
    assert re.search(r"; there may be 1\d{4} ", found), found
    # what lies below the limit is an estimate, and so is what one column makes
    for keys in ("a, c", "a", "a % 2, b % 3"):
        assert guesses(pairs, f"SELECT count(*) FROM pairs GROUP BY {keys}") == [], keys
    pairs.execute("CREATE STATISTICS together (ndistinct) ON a, b FROM pairs; ANALYZE pairs")
    assert guesses(pairs, query) == []
    assert ": 60000 groups of 60000 rows" in told(pairs, query)[0]


def test_who_merges_groups_is_careful_where_their_number_is_a_limit(pairs: Connection) -> None:
    """Neither are as many as there may be to be held in memory, nor merged one by one for nothing."""
    pairs.execute(
        "CREATE TABLE parts (a int, b int, c int, w text) PARTITION BY LIST (c);"
        " CREATE TABLE few PARTITION OF parts FOR VALUES IN (0, 1); CREATE TABLE more PARTITION OF parts DEFAULT;"
        " INSERT INTO parts SELECT * FROM pairs; ANALYZE parts; SET work_mem = '2MB'; SET hash_mem_multiplier = 1"
    )
    query = "SELECT a, b, count(*) FROM parts GROUP BY 1, 2"
    assert told(pairs, query)[0] == (
        "not vectorized: the 60000 groups estimated need more memory than work_mem and hash_mem_multiplier allow"
    )
    assert providers(pairs, "SELECT a, c, count(*) FROM parts GROUP BY 1, 2") == {"VectorAggregate"}
    # processes that return what they have grouped, for PostgreSQL to merge
    pairs.execute(
        "SET work_mem = '64MB'; SET max_parallel_workers_per_gather = 1; SET min_parallel_table_scan_size = 0;"
        " SET parallel_setup_cost = 0; SET pgbillion_rows.vector_exchange = off;"
        " SET pgbillion_rows.vector_aggregate = force"
    )
    plan = plans.explain(pairs, query.replace("parts", "pairs"))
    partial = [node for node in plans.nodes(plan) if node.get("Parallel Aware")]
    assert [node["Plan Rows"] for node in partial] in ([], [35294]), plans.text(pairs, query)


@pytest.mark.parametrize(
    ("where", "guess"),
    [
        ("k = 3 AND id < 100", None),
        ("fresh = 3", 'there are no statistics of column "fresh" of "b" (ANALYZE)'),
        ("fresh IS NULL OR k IN (1, 2)", 'there are no statistics of column "fresh" of "b" (ANALYZE)'),
        ("k = ANY ('{1,2}') AND v LIKE 'text 1%'", None),
        ("k % 2 = 1", "there are no statistics of an expression (ANALYZE)"),
        (
            "isfinite(k::float8::text::date)",
            "PostgreSQL takes a default for a condition that statistics do not tell of",
        ),
        ("id = (SELECT max(i) FROM none)", None),
        ("id < k", "PostgreSQL takes a default for a condition that statistics do not tell of"),
        ("id > (SELECT max(i) FROM none)", "a value is not known when the query is planned"),
        (
            "id = 3 AND k = 3 AND g = 3",
            "one is PostgreSQL's least, for conditions that it takes to have nothing to do with each other",
        ),
    ],
)
def test_guesses_of_rows_are_told(conn: Connection, where: str, guess: str | None) -> None:
    conn.execute("ALTER TABLE big ADD fresh int")
    expected = [] if guess is None else [f'the number of rows of "b" {GUESS}{guess}']
    assert guesses(conn, f"SELECT * FROM big b WHERE {where}") == expected


def test_groups_without_statistics_are_told(conn: Connection) -> None:
    conn.execute("ALTER TABLE big ADD fresh int")
    assert guesses(conn, "SELECT fresh, count(*) FROM big GROUP BY 1") == [
        f'the number of groups {GUESS}there are no statistics of column "fresh" of "big" (ANALYZE)'
    ]


# joins, and why they are taken

JOINED = "SELECT b.w, s.name FROM big b JOIN small s ON b.k = s.id AND b.g < 3"


def test_joins_are_told(conn: Connection) -> None:
    conn.execute("SET pgbillion_rows.vector_join = on")
    lines = told(conn, JOINED)
    (found,) = [line for line in lines if "vectorized join" in line and line != "vectorized join"]
    assert re.fullmatch(
        r'a vectorized join of "b" with "s" is possible, and estimated to take \d+\.\d\d compared with PostgreSQL\'s'
        r" \d+\.\d\d in memory: \d+ rows",
        found,
    )
    assert lines[-1] == "vectorized join"
    conn.execute("SET effective_cache_size = '1MB'")
    (found,) = [line for line in told(conn, JOINED) if "vectorized join of" in line]
    assert "in memory" not in found
    # where it is not possible
    for query, reason in (
        (f"{JOINED} FOR UPDATE OF s", "rows are changed or locked"),
        (JOINED.replace("b.k = s.id", "b.k < s.id"), "a join by other conditions than equality"),
        (JOINED.replace("s ON", "s ON random() < 0.5 AND"), "a volatile function"),
    ):
        assert f"no vectorized join: {reason}" in told(conn, query), told(conn, query)
    conn.execute("SET pgbillion_rows.vector_join = off")
    assert "no vectorized join: pgbillion_rows.vector_join is off" in told(conn, JOINED)
    # of one table there is nothing to say
    assert not [line for line in told(conn, FILTER) if "join" in line]


def test_guesses_of_matches_are_told(conn: Connection) -> None:
    conn.execute("SET pgbillion_rows.vector_join = on; ALTER TABLE small ADD fresh int")
    assert guesses(conn, JOINED) == []
    assert guesses(conn, JOINED.replace("s.id", "s.fresh")) == [
        f'the number of matches of "s" {GUESS}there are no statistics of column "fresh" of "s" (ANALYZE)'
    ]


def test_small_statements_are_left_alone(conn: Connection) -> None:
    """Joins of small tables take no time, and of very many tables looking for the best takes more than it gains."""
    conn.execute("SET pgbillion_rows.vector_join = on; CREATE TABLE tiny AS SELECT * FROM big LIMIT 2000; ANALYZE tiny")
    tiny = "SELECT a.w, b.v FROM tiny a JOIN tiny b USING (id)"
    assert "no vectorized join: the tables are small" in told(conn, tiny)
    many = " ".join(f"JOIN tiny t{i} USING (id)" for i in range(7))
    assert "no vectorized join: reading the tables takes little, compared with looking at all their joins" in told(
        conn, f"SELECT t0.w FROM tiny a {many}"
    )
    assert "no vectorized join: an index gives the few rows that are read of a table" in told(
        conn, "SELECT b.w FROM big b JOIN small s ON b.k = s.id JOIN indexed i ON i.id = b.id WHERE i.id = 7"
    )


def test_a_chain_of_few_look_ups_is_left_alone(conn: Connection) -> None:
    """However large the tables are in which rows are looked up."""
    conn.execute("SET pgbillion_rows.vector_join = on")
    tables = " ".join(f"JOIN indexed t{i} USING (id)" for i in range(7))
    query = f"SELECT count(*) FROM big b {tables} WHERE b.v {{}}"
    reason = "no vectorized join: reading the tables takes little, compared with looking at all their joins"
    assert reason in told(conn, query.format("= 'text 7'"))
    assert reason not in told(conn, query.format("<> 'text 7'"))
    conn.execute("SET LOCAL enable_nestloop = off")
    assert reason not in told(conn, query.format("= 'text 7'"))


# before the join, or not


@pytest.fixture
def sold(conn: Connection) -> Connection:
    conn.execute(
        "CREATE TABLE sold AS SELECT i % 100 AS shop, (i / 100) % 120 AS day, i::numeric(12, 2) AS price,"
        " repeat('z', 40) AS pad FROM generate_series(1, 60000) i;"
        " CREATE TABLE shop AS SELECT i AS id, i % 5 AS region FROM generate_series(0, 99) i; ANALYZE sold, shop"
    )
    return conn


CALLS = "avg(price), sum(price), max(price), count(*)"


@pytest.mark.parametrize(
    ("keys", "calls", "where", "expected"),
    [
        ("region", CALLS, "true", True),
        ("region", "count(*)", "id = 3", True),
        # five rows make a group here: all of them are aggregated for the few that the join leaves
        ("region, day", CALLS, "id = 3", False),
        ("region, day", CALLS, "id = 3 AND price > 0", False),
        ("region, day", CALLS, "true", True),
    ],
)
def test_what_the_join_leaves_counts(sold: Connection, keys: str, calls: str, where: str, expected: bool) -> None:
    query = f"SELECT {keys}, {calls} FROM sold JOIN shop ON shop = id WHERE {where} GROUP BY {keys}"
    modes = {node.get("Partial Mode") for node in plans.nodes(plans.explain(sold, query))}
    assert ("Finalize" in modes) is expected, told(sold, query)


def test_what_the_join_leaves_does_not_count_where_it_is_forced(sold: Connection) -> None:
    sold.execute("SET pgbillion_rows.eager_aggregate = force")
    query = f"SELECT region, day, {CALLS} FROM sold JOIN shop ON shop = id WHERE id = 3 GROUP BY 1, 2"
    assert "Finalize" in {node.get("Partial Mode") for node in plans.nodes(plans.explain(sold, query))}


def test_few_look_ups_take_little_in_memory(conn: Connection) -> None:
    """To PostgreSQL each page that an index scan reads costs as if it came from disk."""
    conn.execute(
        "CREATE TABLE stock AS SELECT i % 5000 AS item, i AS quantity FROM generate_series(1, 400000) i;"
        " CREATE INDEX ON stock (item); CREATE TABLE goods AS SELECT i AS id, i % 500 AS kind"
        " FROM generate_series(0, 4999) i; ALTER TABLE goods ADD PRIMARY KEY (id); ANALYZE stock, goods;"
        " SET random_page_cost = 8"
    )
    query = "SELECT count(*), sum(quantity) FROM stock JOIN goods ON item = id WHERE kind "
    few = {node["Node Type"] for node in plans.nodes(plans.explain(conn, query + "= 3"))}
    assert "Nested Loop" in few, told(conn, query + "= 3")
    many = list(plans.nodes(plans.explain(conn, query + "< 400")))
    assert "Nested Loop" not in {node["Node Type"] for node in many}
    assert any(node.get("Custom Plan Provider") == "VectorAggregate" for node in many)


def start_of_scan(conn: Connection, query: str) -> float:
    """What it costs until the scan of the large table, which is ours, starts."""
    (scan,) = (node for node in plans.nodes(plans.explain(conn, query)) if node.get("Relation Name") == "big")
    assert scan["Custom Plan Provider"] == "VectorScan"
    return float(scan["Startup Cost"])


def test_scans_start_as_soon_as_those_of_postgresql(conn: Connection) -> None:
    """Of joins that cost about the same, PostgreSQL keeps the one that starts first."""
    query = "SELECT b.v FROM big b JOIN small s ON b.k = s.id WHERE b.g = 3"
    # a sort waits for all rows, whatever LIMIT wants of them
    for all_rows in (query, f"{query} ORDER BY 1 LIMIT 5"):
        assert start_of_scan(conn, all_rows) == 0
    # where there is but one value, nothing is sorted, and DISTINCT reads one row, from 16 on
    where = "FROM big WHERE g = 3 AND k < 90"
    for first in (f"SELECT v {where} LIMIT", f"SELECT v {where} ORDER BY g LIMIT"):
        assert providers(conn, f"{first} 1") == set()
        assert start_of_scan(conn, f"{first} 5000") > 0
    if conn.info.server_version >= 160000:
        assert start_of_scan(conn, f"SELECT DISTINCT g {where}") > 0


# what considering it takes


@pytest.mark.parametrize("column", ["k", "price"])
def test_thousands_of_conditions_take_little_memory_to_plan(conn: Connection, column: str) -> None:
    if conn.info.server_version < 170000:
        pytest.skip("EXPLAIN tells of memory from PostgreSQL 17 on")
    conn.execute("CREATE TABLE priced AS SELECT id, k, id::numeric(10, 2) AS price FROM big; ANALYZE priced")
    where = " OR ".join(f"{column} = {number}" for number in range(2000))
    query = f"SELECT * FROM priced WHERE {where}"
    assert providers(conn, query) == {"VectorScan"}
    used = {}
    for setting in ("off", "on"):
        conn.execute(f"SET pgbillion_rows.enable = {setting}".encode())
        (found,) = conn.execute(f"EXPLAIN (MEMORY, FORMAT JSON) {query}".encode()).fetchone() or ()
        used[setting] = found[0]["Planning"]["Memory Used"]
    assert used["on"] < 1.5 * used["off"]
    assert (
        conn.execute(query.encode()).fetchall()
        == conn.execute(
            query.replace(where, f"{column} BETWEEN 0 AND 1999 AND {column} = trunc({column})").encode()
        ).fetchall()
    )


# scans that stand in for others


def test_a_scan_that_returns_most_rows_does_not_change_the_plan_above(conn: Connection) -> None:
    """It is taken wherever a sequential scan would be, and not in place of other ways to many rows."""
    conn.execute("CREATE TABLE lines AS SELECT i AS id, i / 4 AS ref, i % 100 AS k, repeat('y', 80) AS v"
                 " FROM generate_series(1, 200000) i; CREATE INDEX ON lines (ref)")  # fmt: skip
    conn.execute("CREATE TABLE heads AS SELECT i AS id, i % 100 AS g FROM generate_series(1, 50000) i")
    conn.execute("ANALYZE lines, heads; SET pgbillion_rows.vector_aggregate = off")
    for limit, share in ((2, 50), (2, 70), (2, 90), (5, 50)):
        query = (
            f"SELECT h.g, count(*) FROM heads h JOIN lines l ON l.ref = h.id WHERE h.g < {limit} AND l.k < {share}"
            " GROUP BY 1"
        )
        shapes = {}
        for setting in ("off", "on"):
            conn.execute(f"SET pgbillion_rows.enable = {setting}".encode())
            found = plans.nodes(plans.explain(conn, query))
            # a filter's scan is a sequential one, to what is above
            shapes[setting] = [node["Node Type"].replace("Custom", "Seq") for node in found]
        assert shapes["on"] == shapes["off"], query


def test_aggregates_over_joins_are_measured_by_postgresql_s_own_path(conn: Connection) -> None:
    """Not by ours of the same joins' rows, which is offered for a little less than that."""
    # two keys, for which PostgreSQL also looks at sorted rows, of ours too
    query = "SELECT b.k, s.name, sum(b.id) FROM big b JOIN small s ON b.k = s.id GROUP BY 1, 2"

    def cost(kind: str) -> float:
        found = [node for node in plans.nodes(plans.explain(conn, query)) if kind in node.values()]
        return float(found[0]["Total Cost"])

    conn.execute("SET pgbillion_rows.vector_join = on; SET pgbillion_rows.eager_aggregate = off")
    ours = cost("VectorAggregate")
    conn.execute("SET pgbillion_rows.enable = off")
    assert ours < 0.25 * cost("Hash Join")


def test_subqueries_are_estimated_by_what_their_plans_take(conn: Connection) -> None:
    conn.execute(
        "CREATE TABLE facts AS SELECT i % 2000 AS k, i % 3000 AS day FROM generate_series(1, 60000) i;"
        " CREATE INDEX ON facts (k); CREATE TABLE days AS SELECT i AS day, i % 7 AS w FROM generate_series(0, 2999) i;"
        " ALTER TABLE days ADD PRIMARY KEY (day);"
        " CREATE TABLE asked AS SELECT i AS id, i % 2000 AS found, i AS missing, 1 AS same"
        " FROM generate_series(1, 20000) i;"
        " ALTER TABLE asked ADD PRIMARY KEY (id); ANALYZE facts, days, asked"
    )
    # the second condition forbids to hash it
    exists = "EXISTS (SELECT FROM facts f JOIN days d USING (day) WHERE f.k = a.{} AND f.day > a.same - 9 AND d.w = 3)"

    def takes(key: str, rows: int) -> float:
        return milliseconds(conn, f"SELECT * FROM asked a WHERE id <= {rows} AND ({exists.format(key)} OR id < 0)")

    conn.execute("SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_bitmapscan = off")
    # PostgreSQL's cost of a call, which counts pages, would be several times as much
    assert takes("found", 100) < 8
    # most keys have no row
    assert takes("missing", 100) < takes("found", 100) / 2
    # what is remembered is not executed again
    assert takes("same", 300) < takes("found", 300) / 2
    # all rows wait for a hash table
    conn.execute("RESET enable_hashjoin")
    plain = "SELECT * FROM asked WHERE {} OR id < 0"
    hashed = milliseconds(conn, "SELECT f.k FROM facts f JOIN days d USING (day) WHERE d.w = 9")
    assert (
        milliseconds(conn, plain.format("found IN (SELECT f.k FROM facts f JOIN days d USING (day) WHERE d.w = 9)"))
        > hashed
    )
    assert milliseconds(conn, plain.format("found IN (5)")) < hashed


def test_exists_ends_with_the_first_of_joined_rows(conn: Connection) -> None:
    """PostgreSQL's loop then looks up one row of each table, not all that belong together."""
    conn.execute(
        "CREATE TABLE calls AS SELECT i AS id, i % 20000 AS caller, i % 1000 AS day, repeat('y', 60) AS v"
        " FROM generate_series(1, 200000) i; CREATE INDEX ON calls (caller);"
        " CREATE TABLE days AS SELECT i AS day FROM generate_series(0, 999) i; ALTER TABLE days ADD PRIMARY KEY (day);"
        " CREATE TABLE callers AS SELECT i AS id, i % 100 AS town FROM generate_series(0, 19999) i"
    )
    conn.execute("ANALYZE calls, days, callers; SET pgbillion_rows.vector_join = on")
    query = (
        "SELECT count(*) FROM callers c WHERE town < {} AND EXISTS"
        " (SELECT FROM calls l, days d WHERE l.caller = c.id AND l.day = d.day)"
    )
    assert "VectorAggregate" in providers(conn, query.format(30))
    assert "VectorAggregate" not in providers(conn, query.format(3))


# workers


@pytest.fixture
def crew(conn: Connection) -> Connection:
    """One worker for what he is worth, tables of some megabytes, and PostgreSQL's sorts, which workers share."""
    conn.execute("SET max_parallel_workers_per_gather = 1; SET min_parallel_table_scan_size = '1MB'")
    conn.execute("LOAD 'pgbillion_rows'; SET pgbillion_rows.vector_sort = off")
    conn.execute(
        "SET min_parallel_index_scan_size = 0; CREATE TABLE none_of (id int);"
        " CREATE TABLE lines AS SELECT i AS id, i / 4 AS ref, i % 100 AS k, repeat('y', 80) AS v"
        " FROM generate_series(1, 200000) i; CREATE INDEX by_ref ON lines (ref, k);"
        " CREATE TABLE heads AS SELECT i AS id, i % 100 AS g, repeat('z', 60) AS w FROM generate_series(1, 50000) i"
    )
    conn.execute("INSERT INTO none_of VALUES (7); ANALYZE none_of, lines, heads")
    return conn


def workers_from(crew: Connection, query: str, enabled: str) -> list[bool]:
    """Whether there are workers while they cost more and more to start."""
    crew.execute(f"SET pgbillion_rows.enable = {enabled}".encode())
    found = []
    for cost in range(0, 4000, 50):
        crew.execute(f"SET parallel_setup_cost = {cost}".encode())
        found.append(any(node["Node Type"].startswith("Gather") for node in plans.nodes(plans.explain(crew, query))))
    assert found[0]
    assert not found[-1]
    return found


def test_a_cheaper_scan_does_not_speak_against_workers(crew: Connection) -> None:
    """Who save time in the rest of the plan: there are as many as in PostgreSQL's own."""
    crew.execute("SET pgbillion_rows.vector_aggregate = off")
    query = (
        "SELECT h.g, l.id FROM heads h JOIN lines l ON l.ref = h.id WHERE h.w <> 'a' AND h.w NOT LIKE 'x%'"
        " AND h.g IN (1, 2, 3) AND l.k <> 5 ORDER BY 1, 2"
    )
    crew.execute("SET parallel_setup_cost = 0")
    assert providers(crew, query) == {"VectorScan"}
    # a step apart, when the sample that ANALYZE took puts the prices on both sides of it
    assert abs(sum(workers_from(crew, query, "on")) - sum(workers_from(crew, query, "off"))) <= 1


def test_what_is_evaluated_row_by_row_does_not_lose_its_workers(crew: Connection) -> None:
    """How long it takes nobody knows; so one process is not to be faster than two of PostgreSQL's."""
    query = "SELECT count(*), sum(id) FROM lines WHERE upper(v) <> 'A'"
    ours, core = workers_from(crew, query, "on"), workers_from(crew, query, "off")
    assert all(ours[i] for i in range(len(ours)) if core[i])
    # what has a kernel takes less
    crew.execute("SET parallel_setup_cost = 1000; SET pgbillion_rows.enable = on")
    for condition, expected in (("upper(v)", False), ("left(v, 3)", True)):
        plan = plans.explain(crew, query.replace("upper(v)", condition))
        assert ("VectorAggregate" in {node.get("Custom Plan Provider") for node in plans.nodes(plan)}) is expected


def test_rows_of_joins_are_for_workers_too(crew: Connection) -> None:
    """Each process joins its share, and workers are as welcome as in PostgreSQL's plan."""
    crew.execute("SET pgbillion_rows.vector_join = on; SET pgbillion_rows.vector_aggregate = off; DROP INDEX by_ref")
    query = (
        "SELECT h.g, l.id FROM lines l JOIN heads h ON l.ref = h.id WHERE h.g < 5 AND l.k <> 7"
        " AND l.v <> 'a' ORDER BY 1, 2"
    )
    crew.execute("SET parallel_setup_cost = 100")
    found = [node for node in plans.nodes(plans.explain(crew, query)) if "Custom Plan Provider" in node]
    assert ("VectorJoin", True) in {(node["Custom Plan Provider"], node["Parallel Aware"]) for node in found}
    ours, core = workers_from(crew, query, "on"), workers_from(crew, query, "off")
    # ours costs a bit less, with and without
    assert abs(sum(core) - sum(ours)) <= 2


def test_workers_who_aggregate_joins_must_save_what_they_take_to_start(crew: Connection) -> None:
    """What PostgreSQL's plan takes says less of what ours saves, except where each row takes long."""
    crew.execute("SET pgbillion_rows.vector_join = on; DROP INDEX by_ref")
    query = "SELECT h.g, {} FROM lines l JOIN heads h ON l.ref = h.id WHERE h.g {} GROUP BY 1"

    def welcome(aggregates: str, where: str, enabled: str = "on") -> int:
        return sum(workers_from(crew, query.format(aggregates, where), enabled))

    few, many = welcome("count(*)", "< 5"), welcome("count(*)", ">= 5")
    assert 0 < few < welcome("count(*)", "< 5", "off") / 2
    # they share looking rows up, and then what is done with the rows that are found
    assert few <= many < welcome("min(l.v), max(l.v), min(h.w), max(h.w)", ">= 5")
    assert many < welcome("count(*)", ">= 5", "off") / 2


def test_workers_share_all_of_their_joins(crew: Connection) -> None:
    """Two processes take no less than half of what one does."""
    crew.execute("SET pgbillion_rows.vector_join = on; SET parallel_setup_cost = 0")
    crew.execute("CREATE TABLE kinds AS SELECT i AS g FROM generate_series(0, 99) i; ANALYZE kinds")
    query = (
        "SELECT count(*) FROM lines l JOIN kinds a ON l.k = a.g JOIN kinds b ON l.k = b.g + 0"
        " JOIN kinds c ON l.k = 99 - c.g"
    )
    takes = []
    for workers in (0, 1):
        crew.execute(f"SET max_parallel_workers_per_gather = {workers}".encode())
        found = plans.nodes(plans.explain(crew, query))
        (scan,) = [node for node in found if node.get("Custom Plan Provider") == "VectorAggregate"]
        assert scan["Parallel Aware"] == (workers > 0)
        takes.append(milliseconds(crew, query))
    assert takes[0] / 2 < takes[1] < takes[0] / 1.2


@pytest.fixture
def offered(crew: Connection) -> Connection:
    """Goods, of which a few are asked for, and offers, of which a subquery removes none."""
    crew.execute(
        "CREATE TABLE goods AS SELECT i AS id, 'Brand#' || i % 25 AS brand, 'type ' || i % 150 AS type, i % 50 AS size,"
        " repeat('z', 90) AS w FROM generate_series(1, 60000) i; CREATE TABLE bad (id int, t text)"
    )
    crew.execute(
        "CREATE TABLE offers AS SELECT id AS good, x * 100 + id % 100 AS supp FROM goods, generate_series(1, 4) x;"
        " INSERT INTO bad SELECT i, 'x' FROM generate_series(1, 1000) i; SET pgbillion_rows.vector_join = on"
    )
    crew.execute("ANALYZE goods, offers, bad")
    return crew


def test_a_guess_makes_no_side_of_a_join_small(offered: Connection) -> None:
    """PostgreSQL takes half of the rows for NOT IN of a subquery, which leaves nearly all."""
    offered.execute("SET max_parallel_workers_per_gather = 0")
    query = "SELECT count(*) FROM offers, goods WHERE id = good AND size < 3"
    for condition in ("supp <> 0", "supp NOT IN (SELECT id FROM bad WHERE t <> 'x')"):
        found = plans.nodes(plans.explain(offered, f"{query} AND {condition}"))
        (scan,) = [node for node in found if node.get("Custom Plan Provider") == "VectorAggregate"]
        # goods would be by what PostgreSQL estimates
        assert scan["Relation Name"] == "offers"


def test_a_guess_of_different_values_makes_no_join_small(conn: Connection) -> None:
    """PostgreSQL takes a column of a UNION ALL to have 200 values, of which it expects the few shops to have a few."""
    conn.execute(
        "CREATE TABLE sold AS SELECT i % 6 AS shop, i AS amount FROM generate_series(1, 100000) i;"
        " CREATE TABLE shops AS SELECT i AS shop, 'shop ' || i AS name FROM generate_series(0, 5) i;"
        " ANALYZE sold, shops"
    )
    query = "SELECT amount + length(name) FROM ({}) sold JOIN shops USING (shop)"
    one = "SELECT shop, amount FROM sold WHERE amount > 0"
    both = f"{one} UNION ALL SELECT shop, -amount FROM sold WHERE amount > 0"
    for join in ("off", "on"):
        conn.execute(f"SET pgbillion_rows.vector_join = {join}".encode())
        alone = milliseconds(conn, query.format(one))
        assert alone < milliseconds(conn, query.format(both)) < 3 * alone


@pytest.mark.parametrize(
    ("values", "keys", "analyzed", "vectors"),
    [(10, 5000, True, False), (10, 5000, False, False), (5000, 5000, True, False), (2, 2, True, True)],
)
def test_rows_of_outer_keys_are_looked_up(
    conn: Connection, values: int, keys: int, analyzed: bool, vectors: bool
) -> None:
    """Of many keys there may be none, which an index tells at once, and a columnar index by reading its column."""
    conn.execute("SET pgbillion_rows.vector_aggregate = on")
    conn.execute(
        f"CREATE TABLE sold AS SELECT 1 + i % {values} AS shop, i AS price FROM generate_series(1, 20000) i;"
        " CREATE INDEX ON sold (shop); CREATE INDEX sold_columns ON sold USING columns (shop, price); ANALYZE sold;"
        f" CREATE TABLE asked WITH (autovacuum_enabled = off) AS SELECT 1 + i * 7 % {keys} AS shop"
        " FROM generate_series(1, 20000) i".encode()
    )
    conn.execute("SET pgbillion_rows.memoize_subqueries = off")
    if analyzed:
        conn.execute("ANALYZE asked")
    query = (
        "SELECT count(*) FROM asked a, LATERAL (SELECT count(*) AS n, min(price) AS m FROM sold s"
        " WHERE s.shop = a.shop) l WHERE l.n > 10"
    )
    text = one(conn, "SELECT pgbillion_rows.explain_vector(%s)", query)
    index = "an index finds the rows of each key of the outer query"
    assert any(f"not vectorized: {reason}" in text for reason in (index, "setting it up")) != vectors, text
    scans = {node["Node Type"] for node in plans.nodes(plans.explain(conn, query)) if node.get("Alias") == "s"}
    assert ("Custom Scan" in scans) == vectors
    # the result of a subquery that is evaluated once is no such key
    once = one(
        conn,
        "SELECT pgbillion_rows.explain_vector(%s)",
        "SELECT min(price) FROM sold WHERE shop = (SELECT max(shop) FROM asked)",
    )
    assert "each key of the outer query" not in once
    # as often as it can be, if that is forced
    conn.execute("SET pgbillion_rows.vector_aggregate = force")
    scans = {node["Node Type"] for node in plans.nodes(plans.explain(conn, query)) if node.get("Alias") == "s"}
    assert "Custom Scan" in scans

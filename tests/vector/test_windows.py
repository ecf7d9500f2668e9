"""Our sorts and window functions give PostgreSQL's answers, and its errors."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from harness import window_queries
from harness.amount import Count, amount
from harness.outcomes import WAYS, both, explained_each, leaving_nothing
from harness.servers import one
from harness.sessions import Running, until_blocked
from harness.window_queries import Generator, WindowQuery
from pgbillion.common.connection import Connection
from pgbillion.rows import plans
from pgbillion.server.postgres import Cluster

pytestmark = pytest.mark.majors

QUERIES = amount("PGBILLION_TEST_WINDOWS", 600, 150)
SEED = int(os.environ.get("PGBILLION_TEST_SEED") or random.SystemRandom().randrange(2**31))
NODES = ("VectorSort", "VectorWindow")
FORCED = (
    "SET pgbillion_rows.vector_sort = force; SET pgbillion_rows.vector_window = force; SET timezone = 'UTC';"
    " SET max_parallel_workers_per_gather = 0; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0;"
    " SET min_parallel_table_scan_size = 0; SET extra_float_digits = 1"
)


def session(conn: Connection) -> None:
    conn.prepare_threshold = None
    conn.execute("SET search_path = o, public; LOAD 'pgbillion_rows'")
    conn.execute(FORCED.encode())


def other_collation(conn: Connection) -> str:
    """Return a collation other than the database's, of ICU if the server has it."""
    candidates = conn.execute(
        "SELECT quote_ident(collname) FROM pg_collation"
        " WHERE collprovider IN ('c', 'b', 'i') AND collencoding IN (-1, 6)"
        " ORDER BY collname = 'en-x-icu' DESC, collname IN ('C', 'POSIX', 'default'), collname DESC"
    ).fetchall()
    for (name,) in candidates:
        try:
            conn.execute(f"SELECT 'a' < 'B' COLLATE {name}".encode())
        except psycopg.errors.FeatureNotSupported:
            continue
        return str(name)
    raise AssertionError("no collation works")


@pytest.fixture
def windows(conn: Connection) -> Connection:
    """A session with our nodes forced, and a table."""
    conn.execute("CREATE SCHEMA o")
    session(conn)
    conn.execute(window_queries.make(other_collation(conn)).encode())
    return conn


def providers(plan: plans.Plan) -> list[str]:
    """Our nodes in a plan, from the top."""
    found = (node.get("Custom Plan Provider") for node in plans.nodes(plan))
    return [name for name in found if name in NODES]


def used(conn: Connection, query: str) -> list[str]:
    return providers(plans.explain(conn, query, verbose=True))


Answer = tuple[str, Any]


def answer(conn: Connection, query: str, ours: bool) -> Answer:
    """The rows, or the error."""
    plans.switch(conn, ours)
    try:
        return "rows", repr(conn.execute(query.encode()).fetchall())
    except psycopg.Error as error:
        return "error", (error.sqlstate, str(error))
    finally:
        plans.switch(conn, True)


def check(conn: Connection, query: str) -> Answer:
    ours, core = (answer(conn, query, side) for side in (True, False))
    assert ours == core, query
    return ours


def test_generated(
    windows: Connection, cluster: Cluster, database: str, tell: Callable[[str], None], counted: Count
) -> None:
    chance = random.Random(SEED)
    generator = Generator(chance)
    errors = nodes = explained = 0
    windows.execute("BEGIN")
    with leaving_nothing(cluster, database):
        for number in range(QUERIES):
            query: WindowQuery = generator.query()
            parallel, way = number % 7 == 1, chance.choice(WAYS)
            settings = (
                f"SET max_parallel_workers_per_gather = {2 if parallel else 0};"
                f" SET work_mem = '{'64kB' if number % 3 == 0 else '16MB'}';"
            )
            off, where = f"{settings} SET pgbillion_rows.enable = off;", f"seed {SEED}, query {number}"
            core = both(windows, query.text, off, settings, way, where, ordered=True)
            errors += isinstance(core, str)
            # workers may have sorted the rows
            if number % explained_each(QUERIES) == 0 and not isinstance(core, str) and not parallel:
                found = used(windows, query.text)
                assert found or not query.certain, f"{where} has none of our nodes: {query.text}"
                nodes += len(found)
                explained += 1
    windows.execute("ROLLBACK")
    tell(f"seed {SEED}: {QUERIES} queries, {nodes} of our nodes in {explained}, {errors} errors")
    counted({"queries": QUERIES, "errors": errors})
    assert nodes > explained / 2


def explained(conn: Connection, query: str, *, run: bool = False) -> plans.Plan:
    """Return our topmost node."""
    for node in plans.nodes(plans.explain(conn, query, run=run)):
        if node.get("Custom Plan Provider") in NODES:
            return node
    raise AssertionError(f"none in the plan of {query}")


@pytest.mark.quick
def test_what_explain_shows(windows: Connection) -> None:
    query = (
        "SELECT * FROM (SELECT i, o, rank() OVER w AS r, count(*) OVER (PARTITION BY o) FROM t"
        " WINDOW w AS (PARTITION BY o ORDER BY i DESC NULLS LAST)) x WHERE r <= 3"
    )
    check(windows, query)
    node = explained(windows, query, run=True)
    assert node["Custom Plan Provider"] == "VectorWindow"
    assert node["Windows"] == ["(PARTITION BY t.o ORDER BY t.i)", "(PARTITION BY t.o)"]
    assert node["Sort Key"] == ["t.o", "t.i DESC NULLS LAST"]
    assert (node["Sort Method"], node["Sort Space Type"]) == ("radix sort", "Memory")
    assert "Rows of Large Partitions" not in node
    # both nodes of PostgreSQL's are in its place
    assert [child["Node Type"] for child in node["Plans"]] == ["Seq Scan"]
    assert len(node["Run Conditions"]) == 1
    sort = explained(windows, "SELECT l, t FROM t ORDER BY l, t DESC", run=True)
    assert sort["Sort Key"] == ["l", "t DESC"]
    text = "\n".join(row[0] for row in windows.execute(b"EXPLAIN (ANALYZE, VERBOSE) " + query.encode()).fetchall())
    assert "Sort Method: radix sort  Memory: " in text


def test_a_setting_turns_each_off(windows: Connection) -> None:
    query = "SELECT rank() OVER (ORDER BY i) AS r FROM t ORDER BY r DESC"
    assert used(windows, query) == ["VectorSort", "VectorWindow"]
    windows.execute("SET pgbillion_rows.vector_sort = off")
    assert used(windows, query) == ["VectorWindow"]
    windows.execute("SET pgbillion_rows.vector_window = off")
    assert used(windows, query) == []


@pytest.mark.parametrize(
    "query",
    [
        "SELECT sum(i) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING EXCLUDE CURRENT ROW) FROM t",
        "SELECT sum(random()) OVER (ORDER BY id) > 0 FROM t",
        "SELECT lag(i, (SELECT 1 + count(*)::int FROM t u WHERE u.id < t.id AND u.id < 3)) OVER (ORDER BY id) FROM t",
        "SELECT own(i) OVER (ORDER BY id) FROM t",
        "SELECT pg_column_size(l) FROM (SELECT l, rank() OVER (ORDER BY id) FROM t OFFSET 0) x",
        "SELECT pg_column_size(l), id FROM t ORDER BY l",
        "SELECT i FROM t UNION SELECT i FROM t ORDER BY 1",
        "SELECT i FROM t ORDER BY 1 LIMIT 3",
        "SELECT i FROM t ORDER BY 1 LIMIT (SELECT 3)",
        "SELECT i FROM (SELECT i FROM t ORDER BY 1) x LIMIT 3",
        "EXECUTE first(3)",
    ],
)
def test_what_is_left_to_postgresql(windows: Connection, query: str) -> None:
    windows.execute("CREATE AGGREGATE own(int) (SFUNC = int4pl, STYPE = int)")
    windows.execute(
        "SET plan_cache_mode = force_generic_plan; PREPARE first(int) AS SELECT i FROM t ORDER BY 1 LIMIT $1"
    )
    assert used(windows, query) == []


def test_nulls_that_are_ignored_are_left_to_postgresql(windows: Connection) -> None:
    """As 19 can."""
    query = "SELECT id, lag(i) {} OVER (ORDER BY id), first_value(t) {} OVER (ORDER BY id) FROM t ORDER BY id"
    if windows.info.server_version < 190000:
        with pytest.raises(psycopg.errors.SyntaxError):
            windows.execute(query.format("IGNORE NULLS", "").encode())
        return
    for words in (("IGNORE NULLS", ""), ("", "IGNORE NULLS")):
        check(windows, query.format(*words))
        assert "VectorWindow" not in used(windows, query.format(*words))
    check(windows, query.format("RESPECT NULLS", "RESPECT NULLS"))
    assert "VectorWindow" in used(windows, query.format("RESPECT NULLS", "RESPECT NULLS"))


def test_parameters_of_an_outer_query(windows: Connection) -> None:
    """In arguments and offsets: the rows stay where they are, and functions are computed anew."""
    windows.execute("SET enable_material = off")
    for inner in (
        "SELECT sum(i * g) OVER (ORDER BY id ROWS g PRECEDING) AS r FROM t",
        "SELECT ntile(g) OVER (ORDER BY id) * lag(i, g, -g) OVER (ORDER BY id) AS r FROM t",
        "SELECT sum(i) FILTER (WHERE i % g = 0) OVER (PARTITION BY o ORDER BY id) AS r FROM t WHERE id % 10 <> g",
    ):
        for memory in ("64kB", "4MB"):
            windows.execute(f"SET work_mem = '{memory}'".encode())
            check(windows, f"SELECT g, (SELECT sum(r) FROM ({inner}) x) FROM generate_series(1, 5) g")
            check(windows, f"SELECT g, sum(r) FROM generate_series(1, 5) g, LATERAL ({inner}) x GROUP BY 1 ORDER BY 1")


def test_two_volatile_columns_stay_two(windows: Connection) -> None:
    query = "SELECT count(*) FROM (SELECT random() AS a, random() AS b, rank() OVER (ORDER BY i) FROM t) x WHERE a <> b"
    assert windows.execute(query.encode()).fetchall() == windows.execute("SELECT count(*) FROM t").fetchall()
    check(windows, "SELECT bool_and(a = b) FROM (SELECT random() AS a, random() AS b FROM t ORDER BY 1 OFFSET 0) x")


def test_partitions_beyond_memory(windows: Connection) -> None:
    """They are PostgreSQL's, as are all that follow; those before are ours."""
    windows.execute(
        "CREATE TABLE parts AS SELECT g % 3 + (g > 20000)::int * 10 AS p, g AS id, repeat('x', g % 60) AS t"
        " FROM generate_series(1, 30000) g WHERE g <= 600 OR g > 20000; ANALYZE parts; SET work_mem = '64kB'"
    )
    for functions in (
        "row_number() OVER (PARTITION BY p ORDER BY id), sum(id) OVER (PARTITION BY p), lag(t, 3) OVER (PARTITION BY p"
        " ORDER BY id)",
        "count(*) OVER (), sum(id) OVER (ORDER BY id ROWS 5 PRECEDING)",
        "count(*) OVER ()",
    ):
        query = f"SELECT id, {functions} FROM parts"
        check(windows, f"SELECT * FROM ({query}) x ORDER BY id")
        node = explained(windows, query, run=True)
        given = node["Rows of Large Partitions"]
        assert (0 < given < 10600) if "PARTITION" in functions else given == 10600
        # and once more, and in part
        check(
            windows,
            f"SELECT g, x.* FROM generate_series(1, 3) g, LATERAL (SELECT * FROM ({query}) y"
            " WHERE id % 2 = g % 2 OFFSET 0) x ORDER BY g, id",
        )
        check(windows, f"SELECT count(*) FROM (SELECT * FROM ({query} OFFSET 0) x LIMIT 700) y")


def test_rescans(windows: Connection) -> None:
    """Rows are kept where the input is the same, and read anew where it is not."""
    windows.execute("SET enable_material = off; SET enable_hashjoin = off; SET enable_mergejoin = off")
    for memory in ("64kB", "4MB"):
        windows.execute(f"SET work_mem = '{memory}'".encode())
        for inner in (
            "SELECT id, l, rank() OVER (ORDER BY i) AS r FROM t",
            "SELECT id, l, i AS r FROM t ORDER BY i, id OFFSET 0",
            "SELECT id, l, count(*) OVER () AS r FROM t",
        ):
            query = (
                f"SELECT count(*), sum(x.r), sum(length(x.l)) FROM generate_series(1, 4) g JOIN ({inner}) x ON x.id > g"
            )
            assert used(windows, query) != []
            check(windows, query)
            check(
                windows, f"SELECT g, (SELECT sum(r) FROM ({inner}) x WHERE x.id % 5 = g) FROM generate_series(0, 4) g"
            )


def test_frames_of_parameters(windows: Connection) -> None:
    windows.execute("SET plan_cache_mode = force_generic_plan")
    windows.execute(
        "PREPARE frames(bigint, int) AS SELECT id, sum(i) OVER (ORDER BY id ROWS $1 PRECEDING), ntile($2) OVER w"
        " FROM t WINDOW w AS (ORDER BY id) ORDER BY id"
    )
    for values in ("1, 2", "700, 5", "0, 1", "NULL, 3", "-1, 3", "2, 0", "2, NULL"):
        check(windows, f"EXECUTE frames({values})")
    # an error even without a row
    windows.execute("PREPARE none(bigint) AS SELECT sum(i) OVER (ORDER BY id ROWS $1 PRECEDING) FROM t WHERE id < 0")
    assert check(windows, "EXECUTE none(-1)")[0] == "error"
    assert check(windows, "EXECUTE none(1)") == ("rows", "[]")


def test_cursors(windows: Connection) -> None:
    """One that may go backward is PostgreSQL's, or is kept by it."""
    sort = "SELECT id FROM t ORDER BY i, id"
    window = "SELECT id, rank() OVER (ORDER BY i, id) AS r FROM t"
    expected = windows.execute(sort.encode()).fetchall()
    windows.execute("BEGIN")
    for kind, query in (("", sort), ("SCROLL", sort), ("SCROLL", window)):
        windows.execute(f"DECLARE c {kind} CURSOR FOR {query}".encode())
        assert windows.execute("FETCH FORWARD 5 FROM c").fetchall() != []
        windows.execute("MOVE BACKWARD 3 IN c")
        assert [row[0] for row in windows.execute("FETCH 1 FROM c").fetchall()] == [expected[2][0]]
        windows.execute("CLOSE c")
    windows.execute(f"DECLARE c NO SCROLL CURSOR FOR {sort}".encode())
    assert windows.execute("FETCH ALL FROM c").fetchall() == expected
    windows.execute("CLOSE c")
    windows.execute(f"DECLARE c NO SCROLL CURSOR FOR {sort}".encode())
    windows.execute("FETCH 3 FROM c")
    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState):
        windows.execute("FETCH BACKWARD 1 FROM c")
    windows.execute("ROLLBACK")


def test_locked_rows_are_sorted_and_checked_again(windows: Connection, cluster: Cluster) -> None:
    windows.execute("CREATE TABLE stock AS SELECT g AS id, g % 7 AS n FROM generate_series(1, 500) g; ANALYZE stock")
    query = "SELECT id, n FROM stock WHERE n < 3 ORDER BY n, id FOR UPDATE"
    assert used(windows, query) == ["VectorSort"]
    with cluster.connect(str(windows.info.dbname)) as other:
        session(other)
        windows.execute("BEGIN; UPDATE o.stock SET n = 100 WHERE id = 8; UPDATE o.stock SET n = 0 WHERE id = 15")
        running = Running(lambda: other.execute(query.encode()).fetchall())
        until_blocked(windows, other, running)
        windows.execute("COMMIT")
        found = running.result()
    assert 8 not in {row[0] for row in found}
    # PostgreSQL sorts before it waits for the row
    assert (15, 0) in found
    assert len(found) == 214


def test_no_file_is_left(windows: Connection) -> None:
    """Of a sort that is canceled, fails, or comes to its end."""
    windows.execute("SET work_mem = '64kB'")
    files = "SELECT count(*) FROM pg_ls_tmpdir()"
    query = "SELECT id, rank() OVER (ORDER BY t, id) FROM t ORDER BY t, id"
    assert len(windows.execute(query.encode()).fetchall()) == 1500
    assert one(windows, files) == 0
    windows.execute("SET temp_file_limit = '20kB'")
    assert check(windows, query)[0] == "error"
    windows.execute("RESET temp_file_limit; SET statement_timeout = '300ms'")
    with pytest.raises(psycopg.errors.QueryCanceled):
        windows.execute(
            "SELECT sum(r) OVER (ORDER BY h) FROM (SELECT g % 9973 AS h, g AS r FROM generate_series(1, 30000000) g) s"
        )
    windows.execute("RESET statement_timeout")
    assert one(windows, files) == 0


def test_hashed_subplans_of_partitions_beyond_memory(windows: Connection) -> None:
    """PostgreSQL's nodes have their own table of a subplan, which changes with the outer query's parameters."""
    windows.execute(
        "CREATE TABLE parts AS SELECT g AS id, repeat('x', g % 60) AS t FROM generate_series(1, 5000) g;"
        " CREATE TABLE listed AS SELECT g AS id, g % 10 AS n FROM generate_series(1, 1000) g;"
        " ANALYZE parts, listed; SET enable_material = off; SET pgbillion_rows.vector_sort = off; SET work_mem = '64kB'"
    )
    for partition in ("id > 20", "id > 20 * g", "id > 20 OR g = 2", "1"):
        inner = (
            f"SELECT id, row_number() OVER (PARTITION BY {partition} ORDER BY id) AS r,"
            " id IN (SELECT l.id FROM listed l WHERE n = g) AS is_listed FROM parts OFFSET 0"
        )
        query = f"SELECT g, sum(r), sum(id) FILTER (WHERE is_listed) FROM generate_series(1, 4) g, LATERAL ({inner}) x"
        node = explained(windows, f"{query} GROUP BY 1", run=True)
        assert (node["Custom Plan Provider"], node["Rows of Large Partitions"] > 0) == ("VectorWindow", True)
        assert check(windows, f"{query} GROUP BY 1 ORDER BY 1")[0] == "rows"


@pytest.mark.parametrize(
    ("columns", "window", "where", "message"),
    [
        ("ntile(0) OVER w", "ORDER BY id RANGE -1 PRECEDING", "", "argument of ntile"),
        ("sum(id) OVER w, ntile(0) OVER w", "ORDER BY id RANGE -1 PRECEDING", "", "argument of ntile"),
        ("sum(1 / (id - 1)) OVER w, ntile(0) OVER w", "ORDER BY id", "", "argument of ntile"),
        ("count(*) OVER w", "ORDER BY id RANGE -1 PRECEDING", "", "invalid preceding or following size"),
        # the first row that a condition leaves out has been computed
        ("1 / (id - 5), row_number() OVER w AS r", "ORDER BY id", " WHERE r < 5", "division by zero"),
        ("1 / (id - 5), row_number() OVER w AS r", "PARTITION BY id > 9 ORDER BY id", " WHERE r < 5", "division"),
        ("1 / (id - 5), row_number() OVER w AS r", "ORDER BY id", " WHERE r < 4", ""),
    ],
)
def test_which_error_comes_first(windows: Connection, columns: str, window: str, where: str, message: str) -> None:
    query = f"SELECT * FROM (SELECT {columns} FROM t WINDOW w AS ({window})) x{where}"
    assert used(windows, query) == ["VectorWindow"]
    kind, found = check(windows, query)
    assert (kind == "error") == (message != "")
    assert message == "" or message in found[1]


def test_volatile_columns_are_computed_as_often(windows: Connection) -> None:
    windows.execute("CREATE SEQUENCE calls")
    for window in ("ORDER BY id", "PARTITION BY o ORDER BY id"):
        query = (
            f"SELECT count(*) FROM (SELECT *, nextval('calls') FROM (SELECT id, nextval('calls'), row_number() OVER"
            f" ({window}) AS r FROM t) x WHERE r < 5 OFFSET 0) y"
        )
        assert "VectorWindow" in used(windows, query)
        calls = []
        for ours in (True, False):
            windows.execute("SELECT setval('calls', 1)")
            assert answer(windows, query, ours)[0] == "rows"
            calls.append(one(windows, "SELECT last_value FROM calls"))
        # before 16, PostgreSQL computes them of one more row of each partition, and drops that
        assert 1 < calls[0] <= calls[1]
        assert calls[0] == calls[1] or windows.info.server_version < 160000


def test_first_rows_in_order_are_read_by_postgresql(windows: Connection) -> None:
    """A run condition ends the query after them."""
    windows.execute(
        "CREATE TABLE ordered AS SELECT g AS id, hashint4(g) AS h, repeat('x', 300) AS t"
        " FROM generate_series(1, 60000) g;"
        " CREATE INDEX ON ordered (id); ANALYZE ordered; SET pgbillion_rows.vector_window = on"
    )
    query = "SELECT * FROM (SELECT id, row_number() OVER ({}) AS r FROM ordered) x{}"
    # reading all by the index costs a little more than sorting by us
    windows.execute("SET random_page_cost = 1.2; SET cpu_index_tuple_cost = 0.06")
    assert used(windows, query.format("ORDER BY id", "")) == ["VectorWindow"]
    assert used(windows, query.format("ORDER BY id", " WHERE r <= 10")) == []
    # all rows are read
    assert used(windows, query.format("ORDER BY h", " WHERE r <= 10")) == ["VectorWindow"]
    assert used(windows, query.format("PARTITION BY id ORDER BY h", " WHERE r <= 10")) == ["VectorWindow"]


def test_long_strings_are_fetched_as_often_as_by_postgresql(windows: Connection) -> None:
    windows.execute(
        'CREATE TABLE long (id int, c text COLLATE "C", b bytea, p char(6000) COLLATE "C", e text COLLATE "C");'
        " ALTER TABLE long ALTER c SET STORAGE external, ALTER b SET STORAGE external, ALTER p SET STORAGE external;"
        " INSERT INTO long SELECT g, h || repeat('x', 3000 + g % 7), convert_to(h || repeat('y', 4000), 'UTF8'),"
        " h || repeat('z', 2500 + g % 5), repeat(h, 200) FROM generate_series(1, 600) g, left(md5(g::text), 7) h;"
        " INSERT INTO long SELECT g, x, convert_to(x, 'UTF8'), left(x, 6000), x FROM generate_series(601, 700) g,"
        " repeat('same', (g - 601) * 40) x;"
        " INSERT INTO long SELECT g FROM generate_series(701, 720) g; ANALYZE long"
    )
    scans = (
        "SELECT pg_stat_get_xact_numscans(indexrelid) FROM pg_index WHERE indrelid ="
        " (SELECT reltoastrelid FROM pg_class WHERE oid = 'long'::regclass)"
    )
    for memory in ("64kB", "16MB"):
        windows.execute(f"SET work_mem = '{memory}'".encode())
        for key in ("c", "b DESC", "p", "e DESC", "c DESC NULLS FIRST", "id % 3, c", "p DESC, c"):
            query = f"SELECT id FROM long ORDER BY {key}, id"
            assert used(windows, query) == ["VectorSort"]
            check(windows, query)
    counts = []
    for ours in (True, False):
        plans.switch(windows, ours)
        with windows.transaction():
            before = one(windows, scans)
            windows.execute("SELECT id FROM long WHERE id <= 600 ORDER BY c")
            counts.append(one(windows, scans) - before)
    assert 0 < counts[0] <= counts[1]


def test_rows_are_written_once_if_their_runs_are_few(windows: Connection) -> None:
    windows.execute(
        "CREATE TABLE wide AS SELECT hashint4(g) AS h, repeat('x', 400) AS t FROM generate_series(1, 25000) g;"
        " ANALYZE wide; SET work_mem = '1MB'"
    )
    node = explained(windows, "SELECT h, t FROM wide ORDER BY h", run=True)
    assert node["Sort Space Type"] == "Disk"
    assert 25000 * 400 < node["Sort Space Used"] * 1024 < 25000 * 500


def test_explain_shows_the_last_of_several_sorts(windows: Connection) -> None:
    windows.execute("SET work_mem = '64kB'; SET enable_material = off")
    inner = "SELECT t, id FROM t WHERE id > g ORDER BY t, id OFFSET 0"
    for last, method in ((1490, "radix sort"), (0, "external merge")):
        query = f"SELECT count(x.t) FROM (VALUES (5), ({last})) v(g), LATERAL ({inner}) x"
        assert explained(windows, query, run=True)["Sort Method"] == method


@pytest.mark.parametrize("column", ["(x).n", "rank() OVER (ORDER BY (x).n)"])
def test_fields_of_records_are_named(windows: Connection, column: str) -> None:
    """EXPLAIN finds a field's name below PostgreSQL's own nodes only; on a server with assertions it ends otherwise."""
    records = "SELECT information_schema._pg_expandarray(ARRAY[3, 1]) AS x"
    query = f"SELECT {column} FROM ({records}) s ORDER BY 1"
    rows = windows.execute(f"EXPLAIN (VERBOSE, COSTS OFF) {query}".encode()).fetchall()
    described = "\n".join(line for (line,) in rows)
    assert "(s.x).n" in described
    assert not any(node in described for node in NODES)


def test_keys_that_postgresql_sorts_by_numbers_of_its_own(windows: Connection) -> None:
    """PostgreSQL sorts inet faster, because it has abbreviated keys for it, and VectorSort compares whole values."""
    windows.execute(
        "CREATE TABLE hosts AS SELECT g AS id, '10.0.0.0'::inet + (hashint4(g) & 16777215) AS address,"
        " make_interval(secs => hashint4(g)) AS i, g % 9 AS n FROM generate_series(1, 20000) g;"
        " ANALYZE hosts; SET pgbillion_rows.vector_window = on"
    )
    query = "SELECT id, rank() OVER (ORDER BY {}) FROM hosts"
    for memory, key, expected in (
        ("16MB", "address", []),
        ("16MB", "n, address", ["VectorWindow"]),
        ("16MB", "i", ["VectorWindow"]),
        # sorted in files, and returned by PostgreSQL's nodes
        ("64kB", "i", []),
        ("64kB", "id", ["VectorWindow"]),
    ):
        windows.execute(f"SET work_mem = '{memory}'".encode())
        assert used(windows, query.format(key)) == expected, (memory, key)
    windows.execute("SET pgbillion_rows.vector_window = force")
    check(windows, f"SELECT * FROM ({query.format('address')}) x ORDER BY id")

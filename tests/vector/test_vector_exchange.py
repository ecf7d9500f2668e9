"""Groups exchanged between the processes of a parallel plan: each finishes some of them, whoever comes when."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from psycopg import errors

from harness import vector_compare
from harness.amount import amount
from harness.portal import executed_later
from harness.servers import one
from harness.sessions import canceled_at_random, worker_terminated
from harness.vector_compare import Tally
from harness.vector_queries import Generator
from pgbillion.common.connection import Connection
from pgbillion.rows import answers, plans
from pgbillion.server.postgres import Cluster
from test_vector_answers import in_parallel, make, vectors
from test_vector_differential import SEED, session
from test_vector_differential import vectors as tables

__all__ = ["tables", "vectors"]

# a plan of each kind of aggregate whose states can be combined, over keys that are words, texts, and several
QUERIES = (
    "SELECT id, count(*), sum(x), max(f) FROM data GROUP BY id",
    "SELECT t, grp, avg(x), min(id), bool_or(x % 7 = 0) FROM data GROUP BY 1, 2",
    "SELECT x % 1000, count(t) FILTER (WHERE grp > 2), variance(x) FROM data GROUP BY 1 HAVING count(*) > 3",
)


@pytest.fixture
def shared(vectors: Connection) -> Connection:
    """Two workers, who are welcome at any table."""
    make(vectors, last=20_000)
    vectors.execute("INSERT INTO data SELECT NULL, NULL, NULL, NULL, NULL FROM generate_series(1, 5)")
    in_parallel(vectors)
    return vectors


def exchange(plan: plans.Plan) -> plans.Plan | None:
    """The node that exchanges groups, or None."""
    return next((node for node in plans.nodes(plan) if "Exchange" in node), None)


def same(conn: Connection, query: str, *, exchanged: bool | None = True) -> list[answers.Row]:
    """The answer, which is the same with all of it off, floats apart, whose order of addition is open."""
    if exchanged is not None:
        assert (exchange(plans.explain(conn, query)) is not None) is exchanged, plans.text(conn, query)
    ours = answers.answer(conn.execute(query.encode()))
    plans.switch(conn, False)
    core = answers.answer(conn.execute(query.encode()))
    plans.switch(conn, True)
    assert answers.difference(core, ours, vector_compare.TOLERANCE) is None, query
    return ours.rows


def little_memory(conn: Connection) -> None:
    conn.execute("SET work_mem = '64kB'; SET hash_mem_multiplier = 1")


def files(conn: Connection) -> int:
    return int(one(conn, "SELECT count(*) FROM pg_ls_tmpdir()"))


# who takes part


@pytest.mark.parametrize("leader", ["on", "off"])
@pytest.mark.parametrize("workers", [0, 1, 8])
def test_any_number_of_processes(shared: Connection, leader: str, workers: int) -> None:
    """Also those that are planned and do not come."""
    shared.execute(f"SET parallel_leader_participation = {leader}; SET max_parallel_workers = {workers}".encode())
    for query in QUERIES:
        same(shared, query)
    little_memory(shared)
    for query in QUERIES:
        same(shared, query)


def test_what_explain_tells(shared: Connection) -> None:
    plan = plans.explain(shared, QUERIES[0], run=True)
    node = exchange(plan)
    assert node is not None
    assert [found["Node Type"] for found in plans.nodes(plan)] == ["Gather", "Custom Scan", "Aggregate", "Custom Scan"]
    assert [found["Actual Loops"] == 0 for found in plans.nodes(plan)] == [False, False, True, False]
    assert plan["Actual Rows"] == 20_001
    assert node["Exchange"] == "by group key"
    assert node["Exchanged Groups"] >= 20_001
    # nothing, if the workers came too late to read rows
    assert node["Exchanged Disk"] >= 0
    assert node["Heap Pages All-Visible"] + node["Heap Pages Checked"] == one(
        shared, "SELECT pg_relation_size('data') / 8192"
    )
    text = plans.text(shared, QUERIES[0])
    assert "Exchange: by group key" in text
    assert "Exchanged: groups=" in text
    # alone, a process has nobody to exchange anything with; the plan is as before
    shared.execute("SET max_parallel_workers = 0")
    assert plans.explain(shared, QUERIES[0], run=True)["Actual Rows"] == 20_001


def test_what_can_be_exchanged(shared: Connection) -> None:
    shared.execute("CREATE TABLE more () INHERITS (data)")
    shared.execute("INSERT INTO more SELECT * FROM ONLY data")
    for query, expected in (
        ("SELECT DISTINCT id, t FROM ONLY data", True),
        ("SELECT id FROM ONLY data GROUP BY id", True),
        ("SELECT sum(x) FROM ONLY data", False),
        # states that point to something
        ("SELECT grp, sum(x::numeric) FROM ONLY data GROUP BY 1", True),
        ("SELECT grp, min(t) FROM ONLY data GROUP BY 1", True),
        # states that only PostgreSQL's functions know
        ("SELECT grp, variance(x::numeric) FROM ONLY data GROUP BY 1", False),
        ("SELECT grp, max(t::char(7)) FROM ONLY data GROUP BY 1", False),
        # several tables
        ("SELECT grp, count(*) FROM data GROUP BY 1", False),
    ):
        same(shared, query, exchanged=expected)
    shared.execute("SET pgbillion_rows.vector_exchange = off")
    same(shared, "SELECT id, count(*) FROM ONLY data GROUP BY id", exchanged=False)


def test_it_is_chosen_for_many_groups(vectors: Connection) -> None:
    """By what it is estimated to cost: not for a few groups, nor where most rows would have to go to the leader."""
    vectors.execute("CREATE TABLE data AS SELECT g % 100000 AS k, g % 10 AS few FROM generate_series(1, 1000000) g")
    vectors.execute("VACUUM (FREEZE, ANALYZE) data")
    vectors.execute("SET pgbillion_rows.vector_aggregate = on; SET max_parallel_workers_per_gather = 1")
    many = "SELECT count(*), max(n) FROM (SELECT k, count(*) AS n FROM data GROUP BY k) s"
    # so few rows are read before a worker has started
    assert exchange(plans.explain(vectors, many)) is None
    vectors.execute("SET parallel_setup_cost = 100; SET work_mem = '64MB'")
    for query, expected in (
        (many, True),
        ("SELECT few, count(*) FROM data GROUP BY few", False),
        ("SELECT k, count(*) FROM data GROUP BY k", False),
    ):
        assert (exchange(plans.explain(vectors, query)) is not None) is expected, plans.text(vectors, query)


# what is exchanged


TYPES = {
    "smallint": "g % 30000",
    "bigint": "g * 10000000000",
    "boolean": "g % 3 = 0",
    '"char"': "chr(65 + g % 26)",
    "real": "coalesce((ARRAY['-0', 'NaN', '0', '-NaN'])[1 + g % 5], (g / 3.0)::text)",
    "double precision": "coalesce((ARRAY['-0', 'NaN', '0', '-NaN'])[1 + g % 5], (g / 3.0)::text)",
    "numeric": "g / 7.0",
    "date": "date '2000-01-01' + g",
    "interval": "make_interval(secs => g)",
    "uuid": "md5(g::text)::uuid",
    "name": "'n' || g",
    "text": "repeat(chr(97 + g % 26), g % 200) || g % 900",
    "char(7)": "g % 500",
    "jsonb": "jsonb_build_object('k', g)",
    "integer[]": "ARRAY[g, NULL, g]",
    "inet": "'10.0.0.0'::inet + g",
}


def test_keys_of_all_types(vectors: Connection) -> None:
    """By value and by reference, equal and not identical, NULL, one and many."""
    columns = [f"c{number}" for number in range(len(TYPES))]
    definitions = ", ".join(f"{column} {type_}" for column, type_ in zip(columns, TYPES, strict=True))
    values = ", ".join(
        f"CASE WHEN g % {7 + number} <> 3 THEN ({value})::{type_} END"
        for number, (type_, value) in enumerate(TYPES.items())
    )
    vectors.execute(f"CREATE TABLE data (id integer, {definitions})".encode())
    vectors.execute(f"INSERT INTO data SELECT g, {values} FROM generate_series(1, 3000) g".encode())
    vectors.execute("INSERT INTO data SELECT * FROM data")
    in_parallel(vectors)
    for memory in ("4MB", "64kB"):
        vectors.execute(f"SET work_mem = '{memory}'; SET hash_mem_multiplier = 1".encode())
        for column in columns:
            for keys in (column, f"c1, {column}", f"{column}, id % 5, c11"):
                # which of equal values is shown is open
                shown = f"count(*) AS n, sum(id), max(id), count({column}) AS m"
                same(vectors, f"SELECT {shown} FROM data GROUP BY {keys}")
        same(vectors, f"SELECT {', '.join(columns[6:])}, count(*) FROM data GROUP BY {', '.join(columns)}")


def test_long_keys(vectors: Connection) -> None:
    """Compressed, out of line, and longer than what is written at a time."""
    vectors.execute("CREATE TABLE data (id integer, a text, b text)")
    vectors.execute("ALTER TABLE data ALTER b SET STORAGE EXTERNAL")
    vectors.execute(
        "INSERT INTO data SELECT g, repeat('abc', g * 40) || g, repeat(md5((g % 100)::text), g % 100 * 20)"
        " FROM generate_series(1, 900) g, generate_series(1, 2)"
    )
    in_parallel(vectors)
    for _ in range(2):
        same(vectors, "SELECT a, count(*) FROM data GROUP BY a")
        same(vectors, "SELECT b, id % 2, a, max(id) FROM data GROUP BY b, id % 2, a")
        little_memory(vectors)


def test_more_groups_than_memory(shared: Connection) -> None:
    """Tables are put there whenever they are full, and partitions are taken in ranges."""
    little_memory(shared)
    make(shared, "many", last=150_000)
    for query in (
        "SELECT id, count(*), sum(x) FROM many GROUP BY id",
        "SELECT id % 50000, t, sum(x), max(f) FROM many GROUP BY 1, 2",
    ):
        same(shared, query)
    assert files(shared) == 0


def test_the_same_hash(vectors: Connection) -> None:
    """Groups that no range of hashes can tell apart are taken together, whether they fit or not."""
    vectors.execute(
        "CREATE TYPE odd;"
        " CREATE FUNCTION odd_in(cstring) RETURNS odd LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE AS 'int4in';"
        " CREATE FUNCTION odd_out(odd) RETURNS cstring LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE AS 'int4out';"
        " CREATE TYPE odd (INPUT = odd_in, OUTPUT = odd_out, LIKE = integer);"
        " CREATE CAST (integer AS odd) WITHOUT FUNCTION"
    )
    vectors.execute(
        "CREATE FUNCTION odd_eq(odd, odd) RETURNS boolean LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE AS 'int4eq';"
        " CREATE OPERATOR = (FUNCTION = odd_eq, LEFTARG = odd, RIGHTARG = odd, HASHES);"
        " CREATE FUNCTION odd_hash(odd) RETURNS integer LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS 'SELECT 7'"
    )
    vectors.execute(
        "CREATE OPERATOR CLASS odd_ops DEFAULT FOR TYPE odd USING hash AS OPERATOR 1 =, FUNCTION 1 odd_hash(odd)"
    )
    vectors.execute(
        "CREATE TABLE data AS SELECT (g % 2000)::integer::odd AS k, g AS id FROM generate_series(1, 6000) g"
    )
    in_parallel(vectors)
    little_memory(vectors)
    query = "SELECT k::text, count(*), max(id) FROM data GROUP BY k"
    assert exchange(plans.explain(vectors, query)) is not None
    found = sorted(vectors.execute(query.encode()).fetchall())
    assert found == sorted((str(k), 3, 4000 + k if k else 6000) for k in range(2000))


def test_states_of_every_kind(shared: Connection) -> None:
    """With NULLs, infinities and FILTER; sums of integers are exact, whoever added what."""
    shared.execute("ALTER TABLE data ADD b bigint, ADD s smallint, ADD r real, ADD d date, ADD z timestamptz")
    shared.execute(
        "UPDATE data SET b = id * 1000000007::bigint * 100000, s = id % 300, r = id / 3.0, d = date '2000-01-01' + id,"
        " z = timestamptz '2000-01-01' + make_interval(secs => id)"
    )
    calls = [f"{name}({column})" for column in ("x", "f", "r", "s") for name in ("sum", "avg", "min", "max", "count")]
    calls += [f"{name}({column})" for column in ("x", "f", "r", "s") for name in ("variance", "stddev_pop")]
    calls += [f"{name}(b)" for name in ("sum", "avg", "min", "max")]
    calls += [f"{name}({column}) FILTER (WHERE id % 5 = 1)" for column in ("d", "z", "b") for name in ("min", "max")]
    calls += [f"{name}(id % 20000 > 7)" for name in ("bool_and", "bool_or", "every")]
    for keys in ("grp", "id % 999", "t, grp"):
        same(shared, f"SELECT {keys}, {', '.join(calls)} FROM data GROUP BY {keys}")
    for value in ("NaN", "Infinity", "-Infinity"):
        shared.execute("UPDATE data SET f = %s, r = %s WHERE id IN (70, 700, 7000)", [value] * 2)
        same(shared, "SELECT grp, sum(f), avg(f), variance(f), sum(r), avg(r), max(f), min(r) FROM data GROUP BY grp")


def test_states_that_point_to_something(shared: Connection) -> None:
    """Numerics of any size and scale, and texts that are compressed and out of line, in memory and without it."""
    shared.execute(DELAYED.encode())
    shared.execute("ALTER TABLE data ADD n numeric, ADD s text")
    shared.execute(
        "UPDATE data SET s = repeat(md5((id % 77)::text), id % 100), n = CASE id % 11"
        " WHEN 0 THEN 10::numeric ^ (id % 400) WHEN 1 THEN -(10::numeric ^ (id % 400)) + id / 7.0"
        " WHEN 2 THEN id / 10::numeric ^ (id % 30) WHEN 3 THEN 99999999999999999::numeric * id WHEN 4 THEN NULL"
        " WHEN 5 THEN (id % 9)::numeric(12, 5) ELSE id / 100.0 END"
    )
    calls = "sum(n), avg(n), min(n)::text, max(n)::text, min(s), max(s), count(*)"
    for which in ("leader", "all"):
        for memory in ("4MB", "64kB"):
            shared.execute(f"SET work_mem = '{memory}'; SET hash_mem_multiplier = 1".encode())
            for keys in ("grp", "id % 999", "s", "id"):
                # the display scale of equal values is open
                same(
                    shared,
                    f"SELECT {keys}, {calls.replace('::text', '')} FROM data WHERE slow(id, '{which}') > 0"
                    f" GROUP BY {keys}",
                )
    for value in ("NaN", "Infinity", "-Infinity"):
        shared.execute("UPDATE data SET n = %s WHERE id IN (70, 700, 7000)", [value])
        same(shared, "SELECT grp, sum(n), avg(n), max(n), min(n) FROM data GROUP BY grp")


def test_processes_have_groups_in_common(shared: Connection) -> None:
    """Each of them reads rows, keeps some of its groups, and gives the others to their processes."""
    shared.execute(DELAYED.encode())
    shared.execute("SET jit = off")
    for memory, leader in (("4MB", "on"), ("4MB", "off"), ("64kB", "on"), ("64kB", "off")):
        shared.execute(f"SET work_mem = '{memory}'; SET hash_mem_multiplier = 1".encode())
        shared.execute(f"SET parallel_leader_participation = {leader}".encode())
        calls = "count(*), sum(id), sum(x::numeric), min(t)"
        query = f"SELECT x % 5000, {calls} FROM data WHERE slow(id, 'all') > 0 GROUP BY 1"
        node = exchange(plans.explain(shared, query, run=True))
        assert node is not None
        # more groups than there are, of which some went to others
        assert node["Exchanged Groups"] > 5000, plans.text(shared, query)
        assert node["Exchanged Disk"] > 0
        same(shared, query)


def as_here(conn: Connection) -> list[str]:
    """The commands that make another session have what was set in this one."""
    settings = (
        "SELECT format('SELECT set_config(%L, %L, false)', name, setting) FROM pg_settings WHERE source = 'session'"
    )
    return ["LOAD 'pgbillion_rows'", *(str(command) for (command,) in conn.execute(settings).fetchall())]


def test_memory_that_changes_before_workers_start(shared: Connection) -> None:
    """All processes have as many partitions as the leader decided, when the plan began."""
    shared.execute(DELAYED.encode())
    shared.execute("SET jit = off; SET hash_mem_multiplier = 1")
    # groups that processes have in common, and a guess of their number that memory decides by
    shared.execute("INSERT INTO data SELECT * FROM data")
    shared.execute("ANALYZE data")
    query = "SELECT id, count(*), sum(x) FROM data WHERE slow(id, 'all') > 0 GROUP BY id"
    same(shared, query)
    expected = Counter(tuple(map(str, row)) for row in shared.execute(query.encode()).fetchall())
    before = as_here(shared)
    for memory, then in (("64kB", "64MB"), ("64MB", "64kB")):
        before.append(f"SET work_mem = '{memory}'")
        between = [f"SET work_mem = '{then}'"]
        explained = executed_later(shared, before, f"EXPLAIN {query}", between)
        assert any("Exchange" in str(line) for (line,) in explained), explained
        for _ in range(2):
            assert Counter(executed_later(shared, before, query, between)) == expected


def test_a_portal_in_portions(shared: Connection) -> None:
    """PostgreSQL runs a parallel plan alone, without memory to share, where rows are asked for in portions."""
    query = "SELECT id, count(*), sum(x) FROM data GROUP BY id"
    same(shared, query)
    expected = Counter(
        tuple(None if value is None else str(value) for value in row)
        for row in shared.execute(query.encode()).fetchall()
    )
    for memory in ("4MB", "64kB"):
        before = [*as_here(shared), f"SET work_mem = '{memory}'"]
        assert any("Exchange" in str(line) for (line,) in executed_later(shared, before, f"EXPLAIN {query}"))
        assert Counter(executed_later(shared, before, query, portion=3000)) == expected
    assert files(shared) == 0


# what is above


def test_what_is_above(shared: Connection) -> None:
    """PostgreSQL may aggregate, sort, join or append what each process has, before it gathers."""
    shared.execute("CREATE TABLE names AS SELECT g AS id, 'name ' || g AS name FROM generate_series(0, 999) g; ANALYZE")
    groups = "SELECT id, count(*) AS n, sum(x) AS s FROM data GROUP BY id"
    for query in (
        f"SELECT count(*), max(n), sum(s) FROM ({groups}) g",
        f"SELECT n, count(*) FROM ({groups}) g GROUP BY n",
        f"SELECT g.*, rank() OVER (ORDER BY id) FROM ({groups}) g",
        f"SELECT DISTINCT n, s % 5 FROM ({groups}) g",
        f"{groups} ORDER BY id",
        f"{groups} ORDER BY s, id LIMIT 10",
        f"SELECT * FROM names JOIN ({groups}) g USING (id)",
        f"SELECT * FROM ({groups}) a JOIN (SELECT x / 3 AS id, max(x) FROM data GROUP BY 1) b USING (id)",
        f"{groups} UNION ALL SELECT x % 777, count(*), sum(id) FROM data GROUP BY 1",
        f"SELECT sum(n) FROM ({groups} UNION ALL SELECT x % 777, count(*), sum(id) FROM data GROUP BY 1) g",
        f"SELECT n + 1, upper(s::text) FROM ({groups} HAVING sum(x) > 9) g",
        "SELECT id, generate_series(1, count(*)) FROM data GROUP BY id",
        f"WITH g AS MATERIALIZED ({groups}) SELECT sum(n) FROM g",
    ):
        same(shared, query)


def test_one_barrier_after_the_other(shared: Connection) -> None:
    """A process may come to an exchange when others have gone on to the next: PostgreSQL appends in any order."""
    shared.execute("SET parallel_leader_participation = off")
    branches = " UNION ALL ".join(
        f"SELECT id % {n}, count(*), sum(x) FROM data GROUP BY 1" for n in (3, 900, 7000, 20_000)
    )
    query = f"SELECT count(*), sum(n), sum(s) FROM ({branches}) g (k, n, s)"
    plan = plans.explain(shared, query)
    assert [node["Node Type"] for node in plans.nodes(plan)].count("Gather") == 1
    append = next(node for node in plans.nodes(plan) if node["Node Type"] == "Append")
    assert append["Parallel Aware"]
    for _ in range(10):
        same(shared, query)


def test_rescans(shared: Connection) -> None:
    """Shared memory is used again, with files and barrier as new."""
    shared.execute(
        "SET enable_material = off; SET enable_memoize = off; SET enable_hashjoin = off; SET enable_mergejoin = off"
    )
    shared.execute("CREATE TABLE three AS SELECT g AS k FROM generate_series(1, 3) g; ANALYZE three")
    for query in (
        "SELECT k, id, n FROM three LEFT JOIN (SELECT id, count(*) AS n FROM data GROUP BY id OFFSET 0) g"
        " ON id > k * 5000",
        "SELECT k, (SELECT max(n + k) FROM (SELECT id, count(*) AS n FROM data GROUP BY id OFFSET 0) g WHERE n < k + 5)"
        " FROM three",
        "SELECT k, s.* FROM three, LATERAL (SELECT id, n FROM (SELECT id, count(*) AS n FROM data GROUP BY id"
        " OFFSET 0) g WHERE id > k LIMIT 1 + k * 0) s",
    ):
        plan = plans.explain(shared, query, run=True)
        node = exchange(plan)
        assert node is not None
        gather = [found for found in plans.nodes(plan) if found["Node Type"] == "Gather"][-1]
        if "LIMIT" not in query:
            assert gather["Actual Loops"] == 3, plans.text(shared, query)
            # what EXPLAIN shows is of all of them
            assert node["Exchanged Groups"] >= 3 * 20_001
            same(shared, query)
        else:
            assert len(shared.execute(query.encode()).fetchall()) == 3
    assert files(shared) == 0


def test_a_few_of_the_groups(shared: Connection) -> None:
    """LIMIT, and cursors that are closed early."""
    query = "SELECT id, count(*), sum(x) FROM data GROUP BY id"
    expected = {(number, 1, number * 3) for number in range(1, 20_001)} | {(None, 5, None)}
    for limit in (1, 100, 15_000):
        found = shared.execute(f"{query} LIMIT {limit}".encode()).fetchall()
        assert len(found) == limit
        assert set(found) <= expected
    assert files(shared) == 0
    for memory in ("4MB", "64kB"):
        shared.execute(f"SET work_mem = '{memory}'".encode())
        shared.execute(f"BEGIN; DECLARE k NO SCROLL CURSOR FOR {query}".encode())
        some = shared.execute("FETCH 100 FROM k").fetchall()
        some += shared.execute("FETCH 10000 FROM k").fetchall()
        assert len(set(some)) == 10_100
        shared.execute("CLOSE k")
        shared.execute(f"DECLARE k NO SCROLL CURSOR FOR {query}".encode())
        assert set(shared.execute("FETCH ALL FROM k").fetchall()) == expected
        shared.execute("ROLLBACK")
        assert files(shared) == 0
    # a function's loop that is left early reads a parallel plan's rows in portions
    shared.execute(
        "CREATE FUNCTION first_of(wanted integer) RETURNS bigint LANGUAGE plpgsql AS"
        " $$DECLARE r record; n bigint := 0; BEGIN"
        f" FOR r IN {query} LOOP n := n + 1; EXIT WHEN n = wanted; END LOOP; RETURN n; END$$".encode()
    )
    assert [one(shared, "SELECT first_of(%s)", wanted) for wanted in (1, 60, 19_000, 0)] == [1, 60, 19_000, 20_001]
    assert files(shared) == 0


# what goes wrong


def test_errors(shared: Connection) -> None:
    """In one process, while others wait for it or have gone on."""
    for query, error in (
        ("SELECT id, sum(1 / (x - 30000)) FROM data GROUP BY id", errors.DivisionByZero),
        ("SELECT 1 / (x - 30000), count(*) FROM data GROUP BY 1", errors.DivisionByZero),
        ("SELECT id, count(*) FROM data WHERE 1 / (x - 59997) >= 0 GROUP BY 1", errors.DivisionByZero),
        # while groups are finished
        ("SELECT id, 1 / (sum(x) - 30) FROM data GROUP BY id", errors.DivisionByZero),
        ("SELECT id FROM data GROUP BY id HAVING 1 / (sum(x) - 30) > 7", errors.DivisionByZero),
    ):
        assert exchange(plans.explain(shared, query)) is not None
        for leader in ("on", "off"):
            shared.execute(f"SET parallel_leader_participation = {leader}".encode())
            with pytest.raises(error):
                shared.execute(query.encode())
            assert files(shared) == 0
    little_memory(shared)
    shared.execute("SET temp_file_limit = '100kB'")
    with pytest.raises(errors.ConfigurationLimitExceeded):
        shared.execute(QUERIES[0].encode())
    shared.execute("RESET temp_file_limit; RESET parallel_leader_participation")
    assert files(shared) == 0
    same(shared, QUERIES[0])


DELAYED = """
CREATE FUNCTION leader() RETURNS boolean LANGUAGE sql STABLE PARALLEL SAFE AS
    $$SELECT backend_type = 'client backend' FROM pg_catalog.pg_stat_activity WHERE pid = pg_backend_pid()$$;
CREATE FUNCTION slow(value integer, which text) RETURNS integer LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    IF value % 400 = 0 AND (which = 'all' OR (which = 'leader') = leader()) THEN PERFORM pg_sleep(0.002); END IF;
    RETURN value;
END$$;
"""


@pytest.mark.parametrize("which", ["leader", "worker", "all"])
def test_some_are_slow(shared: Connection, which: str) -> None:
    """Reading rows, or finishing groups: others come to the barrier, or to the end, long before."""
    shared.execute(DELAYED.encode())
    shared.execute("SET jit = off")
    for query in (
        f"SELECT slow(id, '{which}'), count(*) FROM data GROUP BY 1",
        f"SELECT id, slow(id, '{which}'), count(*) FROM data GROUP BY id",
        f"SELECT count(*), sum(n) FROM (SELECT id, slow(max(id), '{which}'), count(*) AS n FROM data GROUP BY id"
        f" HAVING slow(min(id), '{which}') > 7) g",
    ):
        same(shared, query)


def test_cancelled_anywhere(cluster: Cluster, shared: Connection, database: str, tell: Callable[[str], None]) -> None:
    """At random moments, which cover all phases; nothing is left, and the next query is right."""
    little_memory(shared)
    query = "SELECT id, count(*), sum(x) FROM data GROUP BY id"
    chance = random.Random(SEED)
    states: Counter[str] = Counter()
    with cluster.connect(database) as other:
        for ended in canceled_at_random(shared, other, query, 20_001, chance, amount("PGBILLION_TEST_CANCELS", 30, 5)):
            states[ended] += 1
            assert files(other) == 0
    tell(str(dict(states)))
    same(shared, query)


def test_a_worker_is_terminated(cluster: Cluster, shared: Connection, database: str) -> None:
    """The others do not wait for it for ever, wherever it was."""
    shared.execute(DELAYED.replace("0.002", "0.05").encode())
    query = "SELECT slow(id, 'all'), count(*) FROM data GROUP BY 1"
    assert exchange(plans.explain(shared, query)) is not None
    with cluster.connect(database) as other:
        assert worker_terminated(shared, other, query) is not None
    assert files(shared) == 0
    same(shared, QUERIES[0])


# generated queries


def parallel(generator: Generator, number: int) -> Any:
    """A generated query with two workers, and now and then without some of what it counts on."""
    query = generator.query(number)
    chance = random.Random(number)
    kept = [one for one in query.settings if "parallel" not in one[0]]
    kept.append(("max_parallel_workers_per_gather", "2"))
    if chance.random() < 0.25:
        kept.append(("parallel_leader_participation", "off"))
    if chance.random() < 0.15:
        kept.append(("max_parallel_workers", str(number % 2)))
    return replace(query, settings=tuple(kept))


def test_generated_queries(cluster: Cluster, tables: str, tell: Callable[[str], None]) -> None:
    """Those of the generator's whose groups are exchanged, until there are enough of them."""
    wanted = amount("PGBILLION_TEST_EXCHANGES", 150, 30)
    tally, failures, exchanged, generator = Tally(), [], 0, Generator(SEED + 2)
    with session(cluster, tables) as conn:
        conn.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        for number in range(wanted * 40):
            query = parallel(generator, number)
            plan = vector_compare.planned(conn, query)
            if plan is None or exchange(plan) is None:
                continue
            exchanged += 1
            core, ours = vector_compare.execute(conn, query, "off"), vector_compare.execute(conn, query, "force")
            differs = vector_compare.compared(conn, query, core, ours)
            tally.rows += sum(len(answer.rows) for answer in core.answers)
            tally.shapes[query.shape.value] += 1
            if differs is not None:
                failures.append(f"{differs}\n    {vector_compare.minimise(conn, query)}\n    number {number}: {query}")
            if exchanged == wanted or len(failures) > 5:
                break
    tell(f"seed {SEED + 2}: {exchanged} of {number} exchanged, {tally.rows} rows compared; {dict(tally.shapes)}")
    assert failures == [], f"seed {SEED}: " + "\n".join(failures)
    assert exchanged == wanted

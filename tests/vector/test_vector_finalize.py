"""Groups that are finished where they are: core's Finalize HashAggregate is in the plan, and never executed."""

from __future__ import annotations

import pytest
from psycopg import errors

from harness import servers
from harness.servers import one
from harness.sessions import Running, pid
from pgbillion.common.connection import Connection
from pgbillion.rows import plans
from pgbillion.server.postgres import Cluster
from test_vector_answers import CREATE, FILL, both, in_parallel, make, vectors

pytestmark = pytest.mark.majors

__all__ = ["vectors"]

FINALIZE = "VectorFinalize"


def has_node(plan: plans.Plan) -> bool:
    return any(node.get("Custom Plan Provider") == FINALIZE for node in plans.nodes(plan))


def loops(conn: Connection, query: str) -> dict[str, int]:
    """How often nodes were executed, by name."""
    plan = plans.explain(conn, query, run=True)
    assert has_node(plan), query
    return {
        node.get("Custom Plan Provider", node["Node Type"]): int(node["Actual Loops"]) for node in plans.nodes(plan)
    }


def test_core_is_not_executed(vectors: Connection) -> None:
    make(vectors, last=20_000)
    for query in (
        "SELECT id, count(*) FROM data GROUP BY id",
        "SELECT grp, x % 100, sum(x), avg(f) FROM data WHERE id > 10 GROUP BY 1, 2 HAVING count(*) > 2 AND min(t) > ''",
    ):
        done = loops(vectors, query)
        assert (done[FINALIZE], done["Aggregate"], done[plans.NODE]) == (1, 0, 1), query
        both(vectors, query)
    plan = plans.explain(vectors, "SELECT id, count(*) FROM data GROUP BY id HAVING max(x) > 300", run=True)
    assert (plan["Custom Plan Provider"], plan["Rows Removed by Filter"]) == (FINALIZE, 100)
    vectors.execute("SET enable_hashagg = off")
    assert not has_node(plans.explain(vectors, "SELECT id, count(*) FROM data GROUP BY id"))
    vectors.execute("RESET enable_hashagg")
    # what EXPLAIN shows of the scan is there although its parent did not ask for a row
    plan = plans.explain(vectors, "SELECT grp, sum(x) FROM data WHERE id > 100 GROUP BY 1", run=True)
    scan = next(node for node in plans.nodes(plan) if node.get("Custom Plan Provider") == plans.NODE)
    assert scan["Actual Rows"] == 7
    assert scan["Rows Removed by Filter"] == 100
    assert scan["Heap Pages All-Visible"] + scan["Heap Pages Checked"] == one(
        vectors, "SELECT pg_relation_size('data') / 8192"
    )


def test_volatile_outputs_that_are_equal(vectors: Connection) -> None:
    """Each call is a call of its own, also where PostgreSQL's planner would take one result for both."""
    make(vectors, last=20_000)
    vectors.execute("CREATE SEQUENCE calls")
    query = "SELECT grp, nextval('calls') AS one, {} AS other, count(*) FROM data GROUP BY grp"
    twice = query.format("nextval('calls')")
    assert not has_node(plans.explain(vectors, twice))
    assert [one for _, one, other, _ in vectors.execute(twice.encode()) if one == other] == []
    # one call, or two that are written differently, are told apart
    for other in ("2", "nextval('calls') + 0"):
        assert has_node(plans.explain(vectors, query.format(other)))
    rows = vectors.execute(query.format("nextval('calls') + 0").encode()).fetchall()
    assert len({number for _, one, other, _ in rows for number in (one, other)}) == 2 * len(rows)


FOLLOWING = (
    "SELECT x, x + 1, x % 7, count(*) FROM data GROUP BY 1, 2, 3",
    "SELECT x + 1, grp, x, sum(id), x IS NULL FROM data GROUP BY 1, 2, 3, 5",
    "SELECT length(t), t, upper(t), count(*), max(x) FROM data GROUP BY 1, 2, 3",
    "SELECT t || x, t, x, -x, avg(x) FROM data GROUP BY 1, 2, 3, 4 ORDER BY 5 DESC, 1 LIMIT 7",
    "SELECT grp, grp * 2, count(DISTINCT x % 50) FROM data GROUP BY 1, 2",
    "SELECT grp::text, grp, count(DISTINCT t), count(DISTINCT x % 3) FROM data GROUP BY 1, 2",
    "SELECT -grp, grp, percentile_disc(grp / 10.0) WITHIN GROUP (ORDER BY id) FROM data GROUP BY 1, 2",
    "SELECT f, f::text, -f, count(*) FROM data GROUP BY 1, 2, 3",
)


@pytest.mark.parametrize("query", FOLLOWING)
def test_keys_that_follow_from_others(vectors: Connection, query: str) -> None:
    make(vectors, last=20_000)
    vectors.execute("INSERT INTO data SELECT NULL, NULL, NULL, NULL, NULL FROM generate_series(1, 5)")
    vectors.execute("INSERT INTO data VALUES (1, 2, 3, 0, 'a'), (1, 2, 3, '-0', 'a')")
    both(vectors, query)
    vectors.execute("CREATE INDEX ON data USING columns (grp, x, t)")
    vectors.execute("VACUUM data")
    both(vectors, query)
    in_parallel(vectors)
    vectors.execute("SET pgbillion_rows.vector_exchange = force")
    both(vectors, query)
    little_memory(vectors)
    both(vectors, query)
    vectors.execute("SET max_parallel_workers_per_gather = 0")
    both(vectors, query)


def test_errors_of_keys_that_follow(vectors: Connection) -> None:
    make(vectors, last=2_000)
    vectors.execute("INSERT INTO data VALUES (1, 1, 2147483647, 1, 'a')")
    query = "SELECT x, x + 1, count(*) FROM data GROUP BY 1, 2 ORDER BY 3 LIMIT 1"
    assert plans.vectorized(plans.explain(vectors, query))
    with pytest.raises(errors.NumericValueOutOfRange):
        vectors.execute(query.encode())


def little_memory(conn: Connection) -> None:
    conn.execute("SET work_mem = '64kB'; SET hash_mem_multiplier = 1")


def spilled(conn: Connection, query: str) -> tuple[int, int]:
    """Partitions written, and kilobytes."""
    found = [node for node in plans.nodes(plans.explain(conn, query, run=True)) if "Spilled Partitions" in node]
    return int(found[0]["Spilled Partitions"]), int(found[0]["Spilled Disk"])


def files(conn: Connection) -> int:
    return int(one(conn, "SELECT count(*) FROM pg_ls_tmpdir()"))


def test_rows_without_room_are_spilled(vectors: Connection) -> None:
    """More groups than memory: rows of some are kept in files, and partitioned again where they are still too many."""
    make(vectors, last=60_000)
    little_memory(vectors)
    query = "SELECT id % 30000 AS k, count(*), sum(x), avg(f), min(t) FROM data GROUP BY 1 HAVING sum(x) % 2 = 0"
    done = loops(vectors, query)
    assert (done[FINALIZE], done["Aggregate"], done[plans.NODE]) == (1, 0, 1)
    partitions, kilobytes = spilled(vectors, query)
    # at first 8 are made, each for more groups than there is room for
    assert partitions > 16
    assert kilobytes > 60_000 * 20 // 1024
    both(vectors, query)
    text = "\n".join(line for (line,) in vectors.execute(f"EXPLAIN ANALYZE {query}".encode()))
    assert "Spilled: partitions=" in text
    assert files(vectors) == 0
    # all of that through core's code for the argument, and a filter of rows
    both(vectors, "SELECT id, avg(f::numeric) FILTER (WHERE x > 90000) FROM data WHERE id % 3 > 0 GROUP BY 1")


def test_sums_of_floats_that_are_spilled(vectors: Connection) -> None:
    """Bit by bit core's, because a group's rows stay in order: these sums depend on it."""
    vectors.execute(
        "CREATE TABLE data AS SELECT g % 9000 AS k, (CASE g % 5 WHEN 0 THEN 1e16 WHEN 1 THEN -1e16 ELSE g / 7.0 END)"
        "::float8 AS f FROM generate_series(1, 90000) g"
    )
    little_memory(vectors)
    query = "SELECT k, sum(f), avg(f), stddev(f), sum(f::real), max(f) FROM data GROUP BY k"
    assert spilled(vectors, query)[0] > 0
    both(vectors, query)


TYPES = {
    "smallint": "g % 30000",
    "integer": "g",
    "bigint": "g * 10000000000",
    "boolean": "g % 3 = 0",
    '"char"': "chr(65 + g % 26)",
    "real": "g / 3.0",
    "double precision": "g / 3.0",
    "numeric": "g / 7.0",
    "date": "date '2000-01-01' + g",
    "interval": "make_interval(secs => g)",
    "uuid": "md5(g::text)::uuid",
    "name": "'n' || g",
    "text": "repeat(chr(97 + g % 26), g % 200) || g",
    "char(7)": "g",
    "jsonb": "jsonb_build_object('k', g)",
    "integer[]": "ARRAY[g, NULL, g]",
    "inet": "'10.0.0.0'::inet + g",
}


@pytest.mark.parametrize("nulls", [False, True])
def test_types_that_are_spilled(vectors: Connection, *, nulls: bool) -> None:
    columns = [f"c{number}" for number in range(len(TYPES))]
    definitions = ", ".join(f"{column} {type_}" for column, type_ in zip(columns, TYPES, strict=True))
    values = ", ".join(
        f"CASE WHEN g % {7 + number} = 3 AND {nulls} THEN NULL ELSE ({value})::{type_} END"
        for number, (type_, value) in enumerate(TYPES.items())
    )
    vectors.execute(f"CREATE TABLE data (id integer, {definitions})".encode())
    vectors.execute(f"INSERT INTO data SELECT g, {values} FROM generate_series(1, 8000) g".encode())
    vectors.execute("ALTER TABLE data ADD late text DEFAULT 'was not there'")
    little_memory(vectors)
    counts = ", ".join(f"count({column})" for column in columns)
    texts = ", ".join(f"max({column}::text)" for column in columns)
    for query in (
        f"SELECT id / 2 AS k, {counts}, {texts}, min(late) FROM data GROUP BY 1",
        # of every one by itself, with others that are passed in another way
        *(f"SELECT {column}, c1, count(*), max(late), min(c12) FROM data GROUP BY 1, 2" for column in columns),
    ):
        assert spilled(vectors, query)[0] > 0, query
        both(vectors, query)


def test_long_values_that_are_spilled(vectors: Connection) -> None:
    """Compressed, out of line, and rows that fill a page."""
    vectors.execute("CREATE TABLE data (id integer, a text, b text, c text, d text)")
    vectors.execute("ALTER TABLE data ALTER b SET STORAGE EXTERNAL, ALTER d SET STORAGE PLAIN")
    vectors.execute(
        "INSERT INTO data SELECT g, repeat('abc', 2000) || g, repeat(md5(g::text), 100), md5(g::text),"
        " repeat('x', 7000) || g FROM generate_series(1, 3000) g"
    )
    little_memory(vectors)
    for query in (
        "SELECT id, max(a), max(b), max(c), max(d) FROM data GROUP BY id",
        "SELECT a, count(*), min(d) FROM data GROUP BY a",
        "SELECT b, d, count(*), max(id) FROM data GROUP BY b, d",
    ):
        assert spilled(vectors, query)[0] > 0, query
        both(vectors, query)


def test_files_are_removed(cluster: Cluster, vectors: Connection, database: str) -> None:
    """Whatever way the query ends."""
    make(vectors, last=100_000)
    little_memory(vectors)
    query = "SELECT id, count(*), min(t) FROM data GROUP BY id"
    assert len(vectors.execute(f"{query} LIMIT 5".encode()).fetchall()) == 5
    assert files(vectors) == 0
    # in the middle of what was read and of what was not
    vectors.execute("BEGIN")
    vectors.execute(f"DECLARE k CURSOR FOR {query}".encode())
    assert len(vectors.execute("FETCH 20000 FROM k").fetchall()) == 20_000
    assert files(vectors) > 0
    vectors.execute("SAVEPOINT s")
    with pytest.raises(errors.DivisionByZero):
        vectors.execute("SELECT 1 / 0")
    vectors.execute("ROLLBACK TO s")
    assert len(vectors.execute("FETCH ALL FROM k").fetchall()) == 80_000
    vectors.execute("CLOSE k; COMMIT")
    assert files(vectors) == 0
    vectors.execute("SET temp_file_limit = '500kB'")
    with pytest.raises(errors.ConfigurationLimitExceeded, match="temp_file_limit"):
        vectors.execute(query.encode())
    assert files(vectors) == 0
    vectors.execute("RESET temp_file_limit")
    with pytest.raises(errors.DivisionByZero):
        vectors.execute("SELECT id, 1 / (max(x) - 299997) FROM data GROUP BY id").fetchall()
    assert files(vectors) == 0
    with cluster.connect(database) as other:
        endless = f"SELECT count(*) FROM generate_series(1, 1000000) g, LATERAL ({query} HAVING max(x) > g) s"
        running = Running(lambda: vectors.execute(endless.encode()))
        servers.until(lambda: files(other) > 0, "files to be written")
        assert one(other, "SELECT pg_cancel_backend(%s)", pid(vectors))
        with pytest.raises(errors.QueryCanceled):
            running.result()
    assert files(vectors) == 0
    both(vectors, query)


def test_spilling_begins_again(vectors: Connection) -> None:
    make(vectors, last=30_000)
    little_memory(vectors)
    vectors.execute("SET enable_material = off; SET enable_memoize = off; SET enable_hashjoin = off")
    outer = "SELECT o.k, count(*), sum(s.total) FROM (VALUES (3), (29000), (10), (3)) o (k), LATERAL ({}) s GROUP BY 1"
    both(vectors, outer.format("SELECT id, sum(x) AS total FROM data WHERE id > o.k GROUP BY id"))
    both(vectors, outer.format("SELECT id, sum(x) AS total FROM data GROUP BY id HAVING count(*) < o.k"))
    # some of the groups have been asked for, then it begins again
    both(
        vectors,
        "SELECT k, (SELECT sum(n) FROM (SELECT id, count(*) AS n FROM data WHERE x > k GROUP BY id LIMIT 9000) s)"
        " FROM generate_series(1, 4) k",
    )


def test_it_is_chosen_although_it_spills(vectors: Connection) -> None:
    make(vectors, last=200_000)
    vectors.execute("VACUUM (FREEZE, ANALYZE) data")
    vectors.execute(
        "SET pgbillion_rows.vector_aggregate = on; SET work_mem = '1MB'; SET max_parallel_workers_per_gather = 2"
    )
    assert has_node(plans.explain(vectors, "SELECT id, count(*) FROM data GROUP BY id"))
    # small tables are core's
    make(vectors, "few", last=100)
    vectors.execute("VACUUM (ANALYZE) few")
    for query in ("SELECT id, count(*) FROM few GROUP BY id", "SELECT DISTINCT grp FROM few"):
        assert not plans.vectorized(plans.explain(vectors, query)), query
    # no partial states of so many groups from several tables
    vectors.execute("CREATE TABLE more () INHERITS (data)")
    vectors.execute("INSERT INTO more SELECT * FROM ONLY data")
    vectors.execute("VACUUM (ANALYZE) data, more")
    assert "need more memory" in plans.reason(vectors, "SELECT id, count(*) FROM data GROUP BY id")


def test_every_aggregate(vectors: Connection) -> None:
    """States that are bytes, arrays, values or nothing, shared by several aggregates or not, with FILTER or not."""
    vectors.execute("SET work_mem = '64MB'")
    make(vectors)
    vectors.execute("INSERT INTO data SELECT NULL, g, NULL, NULL, NULL FROM generate_series(1, 9) g")
    vectors.execute("ALTER TABLE data ADD n numeric, ADD b bigint, ADD r real, ADD s smallint, ADD d date")
    vectors.execute(
        "UPDATE data SET n = id / 7.0, b = id * 1000000007::bigint, r = id / 3.0, s = id % 300,"
        " d = date '2000-01-01' + id"
    )
    names = ["count", "sum", "avg", "variance", "stddev_pop", "min", "max"]
    calls = [f"{name}({column})" for column in ("x", "f", "n", "b", "r", "s") for name in names]
    calls += [
        f"{name}({column}) FILTER (WHERE id % 5 = 1)" for column in ("d", "t") for name in ("count", "min", "max")
    ]
    calls += [f"{name}(id > 7)" for name in ("bool_and", "bool_or", "every")]
    for keys in ("grp", "id", "t, grp", "x % 10, t"):
        query = f"SELECT {keys}, {', '.join(calls)} FROM data GROUP BY {keys}"
        assert loops(vectors, query)["Aggregate"] == 0
        both(vectors, query)
    for value in ("NaN", "Infinity", "-Infinity"):
        vectors.execute("UPDATE data SET n = %s, f = %s, r = %s WHERE id = 70", [value] * 3)
        both(vectors, "SELECT grp, sum(n), avg(n), variance(n), sum(f), avg(f), sum(r) FROM data GROUP BY grp")
        both(vectors, "SELECT id, sum(n), avg(n), variance(n), sum(f), avg(f), sum(r) FROM data GROUP BY id")


def test_output_and_having(vectors: Connection) -> None:
    """What stands around aggregates is computed as above core's node."""
    make(vectors)
    vectors.execute("CREATE TABLE names AS SELECT g AS grp, 'name ' || g AS name FROM generate_series(0, 6) g")
    for query in (
        "SELECT 1 FROM data GROUP BY grp",
        "SELECT grp + 1, grp, -sum(x) / count(*), grp, sum(x) FROM data GROUP BY grp",
        "SELECT grp FROM data GROUP BY grp HAVING sum(x) > (SELECT avg(x) * 700 FROM data)",
        "SELECT grp, (SELECT name FROM names n WHERE n.grp = data.grp), max(t) FROM data GROUP BY grp",
        "SELECT grp FROM data GROUP BY grp HAVING EXISTS (SELECT FROM names WHERE name = 'name ' || max(x) % 7)",
        "SELECT upper(t) || count(*), coalesce(sum(x), 0) FROM data GROUP BY t",
        "SELECT grp, rank() OVER (ORDER BY sum(x)) FROM data GROUP BY grp",
        "SELECT grp, generate_series(1, count(*) / 300) FROM data GROUP BY grp",
        "SELECT DISTINCT count(*) FROM data GROUP BY id",
        "SELECT * FROM names JOIN (SELECT grp, sum(x) FROM data GROUP BY grp) s USING (grp)",
    ):
        assert has_node(plans.explain(vectors, query)), query
        both(vectors, query)
    assert len(both(vectors, "SELECT grp FROM data GROUP BY grp HAVING count(*) > 10000")) == 0
    vectors.execute("CREATE TABLE empty (LIKE data)")
    assert both(vectors, "SELECT grp, sum(x) FROM empty GROUP BY grp") == []


def test_it_begins_again(vectors: Connection) -> None:
    """Groups are kept where no parameter of the scan has changed, and made again where one has."""
    make(vectors)
    vectors.execute("SET enable_material = off; SET enable_memoize = off; SET enable_hashjoin = off")
    outer = "SELECT o.k, s.* FROM (VALUES (1), (3), (NULL), (1)) o (k) {} LATERAL ({}) s ON {}"
    for inner, condition in (
        ("SELECT grp, sum(x) FROM data GROUP BY grp", "s.grp > o.k"),
        ("SELECT grp, sum(x) FROM data WHERE id > o.k * 100 GROUP BY grp", "true"),
        # the parameter is in HAVING, or in the output alone
        ("SELECT grp, sum(x) FROM data GROUP BY grp HAVING count(*) > 710 + o.k", "true"),
        ("SELECT grp, sum(x) + o.k FROM data GROUP BY grp", "true"),
    ):
        for join in ("JOIN", "LEFT JOIN"):
            both(vectors, outer.format(join, inner, condition))
    query = outer.format("JOIN", "SELECT grp, sum(x) FROM data GROUP BY grp HAVING count(*) > 710 + o.k", "true")
    done = loops(vectors, query)
    assert (done[FINALIZE], done["Aggregate"], done[plans.NODE]) == (4, 0, 1)
    both(
        vectors, "SELECT k FROM generate_series(1, 9) k WHERE k NOT IN (SELECT grp FROM data WHERE id > k GROUP BY grp)"
    )


def test_a_few_of_the_groups(vectors: Connection) -> None:
    make(vectors)
    assert len(vectors.execute("SELECT id, count(*) FROM data GROUP BY id LIMIT 3").fetchall()) == 3
    vectors.execute("BEGIN; DECLARE k CURSOR FOR SELECT id, sum(x) FROM data GROUP BY id")
    some = vectors.execute("FETCH 100 FROM k").fetchall()
    vectors.execute("UPDATE data SET x = 0")
    some += vectors.execute("FETCH ALL FROM k").fetchall()
    assert sorted(some) == [(number, number * 3) for number in range(1, 5001)]
    vectors.execute("DECLARE j CURSOR FOR SELECT id, 1 / (sum(x) - 30) FROM data GROUP BY id")
    vectors.execute("ROLLBACK")
    # an error in the output of one group
    with pytest.raises(errors.DivisionByZero):
        vectors.execute("SELECT id, 1 / (sum(x) - 30) FROM data GROUP BY id")
    both(vectors, "SELECT id, sum(x) FROM data GROUP BY id")


def test_where_it_does_not_apply(vectors: Connection) -> None:
    make(vectors, last=20_000)
    vectors.execute(
        "CREATE FUNCTION add_more(bigint, bigint) RETURNS bigint LANGUAGE sql STRICT IMMUTABLE PARALLEL SAFE"
        " AS 'SELECT $1 + $2 + 5'"
    )
    sum_int = "SFUNC = int4_sum, STYPE = bigint, PARALLEL = safe"
    vectors.execute(f"CREATE AGGREGATE odd_sum (integer) ({sum_int}, COMBINEFUNC = add_more)".encode())
    vectors.execute(f"CREATE AGGREGATE even_sum (integer) ({sum_int}, COMBINEFUNC = int8pl)".encode())
    for query, expected in (
        ("SELECT grp, even_sum(x) FROM data GROUP BY grp", True),
        # what combining makes of a state is not known
        ("SELECT grp, odd_sum(x) FROM data GROUP BY grp", False),
        ("SELECT sum(x) FROM data", False),
        # keys that PostgreSQL leaves out
        ("SELECT grp, x, sum(id) FROM data WHERE x = 5 GROUP BY grp, x", True),
        ("SELECT grp, x, id, count(*) FROM data WHERE x = id GROUP BY grp, x, id HAVING max(x) > 3", True),
        ("SELECT grp, t, max(x) FROM data WHERE t = 'text 3' GROUP BY grp, t", True),
        # a key that is constant is none, and the column it is made of is not
        ("SELECT id % 7, x % 10, sum(x) FROM data WHERE id % 7 = 3 GROUP BY 1, 2", None),
        ("SELECT id % 7, id, x % 10, sum(x) FROM data WHERE id % 7 = 3 GROUP BY 1, 2, 3", None),
    ):
        assert plans.vectorized(plans.explain(vectors, query))
        assert expected is None or has_node(plans.explain(vectors, query)) is expected, query
        both(vectors, query)
    vectors.execute("CREATE TABLE named (id integer PRIMARY KEY, name text, x integer)")
    vectors.execute("INSERT INTO named SELECT g, 'name ' || g, g FROM generate_series(1, 999) g")
    both(vectors, "SELECT id, name, sum(x) FROM named GROUP BY id")
    in_parallel(vectors)
    query = "SELECT grp, sum(x) FROM data GROUP BY grp"
    vectors.execute("SET pgbillion_rows.vector_aggregate = force")
    assert has_node(plans.explain(vectors, query))
    vectors.execute("SET pgbillion_rows.vector_exchange = off")
    assert plans.parallel(plans.explain(vectors, query))
    assert not has_node(plans.explain(vectors, query))
    both(vectors, query)


def test_more_keys_than_there_is_room_for(vectors: Connection) -> None:
    make(vectors)
    for number, vectorized in ((32, True), (33, False)):
        keys = ", ".join(f"(x + {n}) % {n + 2}" for n in range(number))
        both(vectors, f"SELECT {keys}, count(*) FROM data GROUP BY {keys}", node=vectorized)
    assert "more than 32 group keys" in str(plans.reason(vectors, f"SELECT {keys}, count(*) FROM data GROUP BY {keys}"))


def test_equality_that_is_not_the_types_own(vectors: Connection) -> None:
    """ORDER BY … USING has groups told apart by the equality of that operator: left to core."""
    vectors.execute("CREATE TABLE data AS SELECT g % 7 - 3 AS k, g % 2 AS s FROM generate_series(1, 7000) g")
    for name, operator in (("lt", "<"), ("le", "<="), ("eq", "="), ("ge", ">="), ("gt", ">")):
        vectors.execute(
            f"CREATE FUNCTION a{name}(integer, integer) RETURNS boolean LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE"
            f" AS 'BEGIN RETURN abs($1) {operator} abs($2); END'".encode()
        )
    for name, result in (("acmp(integer, integer)", "abs($1) - abs($2)"), ("ahash(integer)", "hashint4(abs($1))")):
        vectors.execute(
            f"CREATE FUNCTION {name} RETURNS integer LANGUAGE sql IMMUTABLE STRICT AS 'SELECT {result}'".encode()
        )
    operators = (
        ("|<|", "alt", "COMMUTATOR = |>|"),
        ("|<=|", "ale", "COMMUTATOR = |>=|"),
        ("|=|", "aeq", "COMMUTATOR = |=|, HASHES, MERGES"),
        ("|>=|", "age", "COMMUTATOR = |<=|"),
        ("|>|", "agt", "COMMUTATOR = |<|"),
    )
    for name, function, more in operators:
        vectors.execute(
            f"CREATE OPERATOR {name} (FUNCTION = {function}, LEFTARG = integer, RIGHTARG = integer, {more})".encode()
        )
    strategies = ", ".join(f"OPERATOR {number} {name}" for number, (name, _, _) in enumerate(operators, 1))
    for method, members in (
        ("btree", f"{strategies}, FUNCTION 1 acmp(integer, integer)"),
        ("hash", "OPERATOR 1 |=|, FUNCTION 1 ahash(integer)"),
    ):
        vectors.execute(f"CREATE OPERATOR CLASS absolute FOR TYPE integer USING {method} AS {members}".encode())
    for query, rows in (
        ("SELECT abs(k), count(*) FROM (SELECT k FROM data OFFSET 0) d GROUP BY k ORDER BY k USING |<|", 4),
        ("SELECT count(*), sum(s) FROM data GROUP BY k ORDER BY k USING |<|", 4),
        ("SELECT count(*) FROM (SELECT DISTINCT k FROM data ORDER BY k USING |<|) d", 1),
        ("SELECT count(*) FROM (SELECT DISTINCT k, s FROM data WHERE k |=| 3 ORDER BY k USING |<|, s) d", 1),
        ("SELECT k, count(*) FROM data GROUP BY k ORDER BY k USING <", 7),
    ):
        assert len(both(vectors, query, node=None)) == rows, query


def test_it_pays(vectors: Connection) -> None:
    """Many groups are finished here by the planner's own choice."""
    make(vectors, last=100_000)
    vectors.execute("VACUUM (FREEZE, ANALYZE) data")
    vectors.execute("SET pgbillion_rows.vector_aggregate = on; SET work_mem = '64MB'")
    assert has_node(plans.explain(vectors, "SELECT id, count(*) FROM data GROUP BY id"))


# DISTINCT is GROUP BY without aggregates


def test_distinct(vectors: Connection) -> None:
    make(vectors)
    vectors.execute("INSERT INTO data SELECT NULL, g % 3, NULL, NULL, NULL FROM generate_series(1, 9) g")
    vectors.execute("ALTER TABLE data ADD n numeric")
    vectors.execute("UPDATE data SET n = CASE WHEN id % 2 = 0 THEN 1.0 ELSE 1.00 END WHERE id < 20")
    for query in (
        "SELECT DISTINCT grp FROM data",
        "SELECT DISTINCT t, grp FROM data WHERE id % 5 < 3",
        "SELECT DISTINCT grp + 1, x % 10, upper(t) FROM data ORDER BY 3, 1, 2",
        "SELECT DISTINCT grp, 'a constant', x % 3 FROM data",
        "SELECT DISTINCT grp, x % 3 FROM data WHERE grp = 3",
        "SELECT DISTINCT grp, id % 7, x % 3 FROM data WHERE id % 7 = 3",
        "SELECT count(*) FROM (SELECT DISTINCT id, f FROM data) s",
        "SELECT DISTINCT id FROM data ORDER BY id DESC LIMIT 5",
        "SELECT DISTINCT n FROM data",
        "SELECT grp FROM data GROUP BY grp, t HAVING count(*) > 1",
        "SELECT x FROM (VALUES (1), (NULL), (7)) v (x) WHERE x NOT IN (SELECT DISTINCT grp FROM data WHERE grp >= 0)",
        "SELECT DISTINCT grp FROM data UNION ALL SELECT DISTINCT x FROM data WHERE x < 30",
        "WITH k AS MATERIALIZED (SELECT DISTINCT t FROM data) SELECT * FROM k",
    ):
        both(vectors, query)
    assert has_node(plans.explain(vectors, "SELECT DISTINCT grp, x % 3 FROM data"))
    in_parallel(vectors)
    vectors.execute(CREATE.format("more").encode())
    vectors.execute(FILL.format("more", 1, 50_000).encode())
    assert plans.parallel(plans.explain(vectors, "SELECT DISTINCT grp FROM more"))
    both(vectors, "SELECT DISTINCT grp FROM more")


def test_distinct_over_partitions_and_with_little_memory(vectors: Connection) -> None:
    vectors.execute((CREATE.format("data") + " PARTITION BY HASH (id)").encode())
    for number in range(3):
        vectors.execute(
            f"CREATE TABLE part{number} PARTITION OF data FOR VALUES WITH (MODULUS 3, REMAINDER {number})".encode()
        )
    vectors.execute(FILL.format("data", 1, 30_000).encode())
    both(vectors, "SELECT DISTINCT grp, t FROM data")
    little_memory(vectors)
    both(vectors, "SELECT DISTINCT id, t FROM data")
    assert spilled(vectors, "SELECT DISTINCT id, t FROM part0")[0] > 0
    both(vectors, "SELECT DISTINCT id, t FROM part0")


def test_distinct_that_is_left_to_core(vectors: Connection) -> None:
    make(vectors)
    for query, reason in (
        ("SELECT DISTINCT ON (grp) grp, x FROM data ORDER BY 1, 2", "DISTINCT ON"),
        ("SELECT DISTINCT random() FROM data", "a volatile function"),
        ("SELECT DISTINCT grp, generate_series(1, 2) FROM data", "set-returning"),
        ("SELECT DISTINCT ctid FROM data", "a system column"),
        ("SELECT DISTINCT a.grp FROM data a, data b WHERE a.id < b.x", "a join by other conditions"),
        ("SELECT DISTINCT g FROM generate_series(1, 9) g", "no table"),
    ):
        assert not plans.vectorized(plans.explain(vectors, query))
        assert reason in plans.reason(vectors, query), plans.reason(vectors, query)
    # of groups, or beside windows: what is below may be ours
    both(vectors, "SELECT DISTINCT count(*) FROM data GROUP BY grp")
    both(vectors, "SELECT DISTINCT rank() OVER (ORDER BY grp) FROM data", node=None)
    vectors.execute("SET enable_hashagg = off")
    assert not plans.vectorized(plans.explain(vectors, "SELECT DISTINCT grp FROM data"))
    assert "enable_hashagg is off" in plans.reason(vectors, "SELECT DISTINCT grp FROM data")

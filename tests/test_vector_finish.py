"""Groups that are finished where they are: core's Finalize HashAggregate is there, and executed only if it must be."""

from __future__ import annotations

import pytest
from psycopg import errors

from harness.servers import one
from pgbillion.rows import plans
from test_vector_answers import Connection, both, in_parallel, make, vectors

__all__ = ["vectors"]

FINISH = "VectorFinish"


def has_node(plan: plans.Plan) -> bool:
    return any(node.get("Custom Plan Provider") == FINISH for node in plans.nodes(plan))


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
        assert (done[FINISH], done["Aggregate"], done[plans.NODE]) == (1, 0, 1), query
        both(vectors, query)
    # what EXPLAIN shows of the scan is there although its parent did not ask for a row
    plan = plans.explain(vectors, "SELECT grp, sum(x) FROM data WHERE id > 100 GROUP BY 1", run=True)
    scan = next(node for node in plans.nodes(plan) if node.get("Custom Plan Provider") == plans.NODE)
    assert scan["Actual Rows"] == 7
    assert scan["Rows Removed by Filter"] == 100
    assert scan["Heap Pages All-Visible"] + scan["Heap Pages Checked"] == one(
        vectors, "SELECT pg_relation_size('data') / 8192"
    )


def test_core_finishes_what_found_no_room(vectors: Connection) -> None:
    make(vectors, last=60_000)
    vectors.execute("SET work_mem = '64kB'; SET hash_mem_multiplier = 1")
    query = (
        "SELECT id % 30000 AS k, count(*), sum(x), avg(f::numeric), min(t) FROM data GROUP BY 1 HAVING sum(x) % 2 = 0"
    )
    done = loops(vectors, query)
    assert (done["Aggregate"], done[plans.NODE]) == (1, 1)
    both(vectors, query)
    # first one, then the other, in one execution
    both(
        vectors,
        "SELECT o.k, s.* FROM (VALUES (3), (59000), (59990), (10)) o (k), LATERAL"
        " (SELECT id, count(*), sum(x) FROM data WHERE id > o.k GROUP BY id) s",
    )


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
    assert (done[FINISH], done["Aggregate"], done[plans.NODE]) == (4, 0, 1)
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
    ):
        assert plans.vectorised(plans.explain(vectors, query))
        assert has_node(plans.explain(vectors, query)) is expected, query
        both(vectors, query)
    in_parallel(vectors)
    query = "SELECT grp, sum(x) FROM data GROUP BY grp"
    vectors.execute("SET billion.vector_aggregate = force")
    assert plans.parallel(plans.explain(vectors, query))
    assert not has_node(plans.explain(vectors, query))
    both(vectors, query)


def test_it_pays(vectors: Connection) -> None:
    """Many groups are finished here by the planner's own choice."""
    make(vectors, last=100_000)
    vectors.execute("VACUUM (FREEZE, ANALYZE) data")
    vectors.execute("SET billion.vector_aggregate = on; SET work_mem = '64MB'")
    assert has_node(plans.explain(vectors, "SELECT id, count(*) FROM data GROUP BY id"))

"""Every aggregate that can be partial, of every type: the answer is one server's, and the plan is the shards'."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import psycopg
import pytest

from harness import servers
from harness.shards import Shard, make_coordinator, plan, shard_table, shards
from pgbillion.common.connection import Connection
from pgbillion.server.postgres import Cluster

pytestmark = pytest.mark.majors

# A column for each type of argument. Every fifth value is null; group 3 has nothing but nulls.
COLUMNS: dict[str, str] = {
    "smallint": "(i % 1000 - 500)::smallint",
    "integer": "i * 7919 % 100003 - 50000",
    "bigint": "(i - 500) * 90071992547409::bigint",
    "real": "(i % 97 / 8.0)::real",
    "double precision": (
        "CASE WHEN g = 5 AND i % 50 = 0 THEN 'NaN' WHEN g = 6 AND i % 50 = 0 THEN '-Infinity' ELSE i * 1.5 END"
    ),
    "numeric": "CASE WHEN g = 5 AND i % 50 = 0 THEN 'NaN'::numeric ELSE i / 7.0 END",
    "money": "(i % 1000)::money",
    "text": "chr(97 + i % 26) || i % 13",
    "character": "(chr(97 + i % 26) || i % 13)::char(5)",
    "bytea": r"decode(lpad(to_hex(i % 300), 4, '0'), 'hex')",
    "boolean": "i % 3 = 0",
    "bit": "(i % 8)::bit(3)",
    "date": "date '2001-01-01' + i % 1000",
    "time without time zone": "time '00:00' + i * interval '1 second'",
    "time with time zone": "time with time zone '00:00+01' + i * interval '1 second'",
    "timestamp without time zone": "timestamp '2001-01-01' + i * interval '1 hour'",
    "timestamp with time zone": "timestamptz '2001-01-01 UTC' + i * interval '1 hour'",
    "interval": "i % 100 * interval '1 hour 1 day'",
    "inet": "inet '10.0.0.0' + i",
    "oid": "(i % 100000)::oid",
    "xid8": "(i % 100000)::text::xid8",
    "tid": "format('(%s,1)', i % 100)::tid",
    "pg_lsn": "pg_lsn '0/0' + i",
    "mood": "(ARRAY['low', 'fair', 'high']::mood[])[1 + i % 3]",
    "integer[]": "ARRAY[i % 10, i % 7]",
    "int4range": "int4range(i % 5, 1000 - i % 50)",
    "int4multirange": "int4multirange(int4range(i % 5, 1000 - i % 50))",
    "jsonb": "jsonb_build_object('i', i % 10)",
}
# what a polymorphic argument stands for
ARRAYS = ["integer[]"]
POLYMORPHIC = {
    "anyelement": list(COLUMNS),
    "anynonarray": [name for name in COLUMNS if name not in ARRAYS],
    "anyarray": ARRAYS,
    "anyenum": ["mood"],
    "anyrange": ["int4range"],
    "anymultirange": ["int4multirange"],
    '"any"': list(COLUMNS),
}
# Types whose values name objects of a database, or that have no column: their aggregates stay on the coordinator.
# Only PostgreSQL 19 has oid8.
NO_COLUMN = {"record", "oid8"}
# calls in one query
TOGETHER = 12
AGGREGATES = """
SELECT p.oid::regprocedure::text, p.proname::text, ARRAY(
    SELECT CASE WHEN t IN ('bpchar'::regtype) THEN 'character' ELSE format_type(t, NULL) END
    FROM unnest(p.proargtypes) WITH ORDINALITY AS a (t, n) ORDER BY n)
FROM pg_aggregate a JOIN pg_proc p ON p.oid = a.aggfnoid
WHERE p.pronamespace = 'pg_catalog'::regnamespace AND a.aggkind = 'n' AND a.aggcombinefn <> 0
  AND (a.aggtranstype <> 'internal'::regtype OR a.aggserialfn <> 0)
ORDER BY 1
"""


def column(type_name: str) -> str:
    return "c_" + re.sub(r"\W+", "_", type_name)


@pytest.fixture(scope="module")
def members(cluster: Cluster, database: str) -> Iterator[list[Shard]]:
    with shards([cluster] * 3, database) as made:
        yield made


@pytest.fixture(scope="module")
def coordinator(cluster: Cluster, database: str, members: list[Shard]) -> Iterator[Connection]:
    """Tables `one` (on this server) and `many` (on three shards and here) with the same rows."""
    with cluster.connect(database) as conn:
        make_coordinator(conn, members)
        for each in [conn, *(shard.connect() for shard in members)]:
            each.execute("CREATE TYPE mood AS ENUM ('low', 'fair', 'high')")
            if each is not conn:
                each.close()
        types = list(COLUMNS)
        declared = {"character": "char(5)", "bit": "bit(3)", "mood": "public.mood"}
        columns = ", ".join(f"{column(name)} {declared.get(name, name)}" for name in types)
        conn.execute(f"CREATE TABLE one (i integer, g integer, {columns})")
        # array_agg() refuses null arrays
        values = ", ".join(
            COLUMNS[name] if name == "integer[]" else f"CASE WHEN i % 5 > 0 AND g <> 3 THEN {COLUMNS[name]} END"
            for name in types
        )
        conn.execute(
            f"INSERT INTO one SELECT i, g, {values} FROM (SELECT i, i % 8 AS g FROM generate_series(1, 3000) i) s"
        )
        shard_table(conn, members, "many", f"i integer, g integer, {columns}", local=1)
        conn.execute("INSERT INTO many SELECT * FROM one")
        yield conn


def calls(conn: Connection) -> Iterator[tuple[str, str]]:
    """Every call to test: the aggregate's signature and the SQL."""
    for signature, name, arguments in conn.execute(AGGREGATES).fetchall():
        if not arguments:
            yield signature, f"{name}(*)"
            continue
        choices = [POLYMORPHIC.get(argument, [argument]) for argument in arguments]
        for variant in range(max(map(len, choices))):
            types = [choice[variant % len(choice)] for choice in choices]
            if NO_COLUMN.isdisjoint(types):
                # the second argument of string_agg() is its delimiter
                columns = [column(each) for each in types]
                if name == "string_agg":
                    columns[1] = "','::text" if types[1] == "text" else "'\\x2c'::bytea"
                yield signature, f"{name}({', '.join(columns)})"


def same(one: Any, many: Any) -> bool:
    """Equal, but for the last digits of a float, which depend on the order of additions, and the order of a list."""
    if isinstance(one, float) and isinstance(many, float):
        return (math.isnan(one) and math.isnan(many)) or math.isclose(one, many, rel_tol=1e-9, abs_tol=1e-9)
    if isinstance(one, Decimal) and isinstance(many, Decimal):
        return (one.is_nan() and many.is_nan()) or one == many
    if isinstance(one, list) and isinstance(many, list):
        return sorted(map(repr, one)) == sorted(map(repr, many))
    return bool(one == many)


def matrix(counted: dict[tuple[str, str], int]) -> str:
    """Aggregates × types of their first argument: how many calls were pushed down to every shard."""
    names = sorted({name for name, _ in counted})
    types = [type_ for type_ in ("*", *COLUMNS) if any((name, type_) in counted for name in names)]
    lines = [f"{number:>2} {type_}" for number, type_ in enumerate(types, 1)]
    lines.append(" " * 20 + "".join(f"{number:>3}" for number in range(1, len(types) + 1)))
    for name in names:
        cells = [counted.get((name, type_)) for type_ in types]
        lines.append(f"{name:20}" + "".join("  ." if cell is None else f"{cell:>3}" for cell in cells))
    return "\n".join(lines)


def check_calls(conn: Connection, together: list[tuple[str, str]], shards_with_plan: int) -> None:
    """Compare calls of aggregates, and see that so many shards computed them."""
    items = ", ".join(f"{call}, {call} FILTER (WHERE c_integer > 0)" for _, call in together)
    query = f"SELECT g, {items} FROM {{}} WHERE i < 2900 GROUP BY g ORDER BY g"
    try:
        one = conn.execute(query.format("one")).fetchall()
    except psycopg.errors.UndefinedFunction as error:
        raise AssertionError(f"no column for an argument of one of {together}") from error
    text = plan(conn, query.format("many"))
    assert text.count("Relations: Partial Aggregate on") == shards_with_plan, text
    assert text.count("Async Foreign Scan") == shards_with_plan, text
    many = conn.execute(query.format("many")).fetchall()
    assert len(one) == len(many) == 8
    for row, other in zip(one, many, strict=True):
        for number, (value, others) in enumerate(zip(row, other, strict=True)):
            call = "g" if number == 0 else together[(number - 1) // 2][1]
            if call.startswith("any_value"):
                assert (value is None) == (others is None), call
            elif call.startswith(("string_agg", "array_agg")) and isinstance(value, str) and others is not None:
                # an array of a type that the driver does not know is text as well
                assert sorted(value.strip("{}").split(",")) == sorted(others.strip("{}").split(",")), call
            elif call.startswith("string_agg") and isinstance(value, bytes) and others is not None:
                assert sorted(value.split(b",")) == sorted(others.split(b",")), call
            else:
                assert same(value, others), (call, row[number], other[number])


def test_every_aggregate_of_every_type(coordinator: Connection, tell: Callable[[str], None]) -> None:
    tested = set()
    counted: dict[tuple[str, str], int] = {}
    # types of one's own stay here, as with postgres_fdw
    own: dict[bool, list[tuple[str, str]]] = {False: [], True: []}
    for signature, call in calls(coordinator):
        own["c_mood" in call].append((signature, call))
        tested.add(signature)
        first = next((name for name in COLUMNS if column(name) in re.findall(r"\w+", call)), "*")
        cell = signature.split("(")[0], first
        counted[cell] = counted.get(cell, 0) + ("c_mood" not in call)
    for stays, listed in own.items():
        for start in range(0, len(listed), TOGETHER):
            check_calls(coordinator, listed[start : start + TOGETHER], 0 if stays else 3)
    tell(matrix(counted))
    untested = {signature for signature, _, _ in coordinator.execute(AGGREGATES).fetchall()} - tested
    # of these no shard could make a state that another database understands, or the test has no value
    assert untested <= {f"{extreme}({name})" for extreme in ("min", "max") for name in NO_COLUMN}, untested


def test_no_rows_make_no_groups_but_one_without_group_by(coordinator: Connection) -> None:
    for query in (
        "SELECT count(*), sum(c_integer), avg(c_bigint), array_agg(c_integer) IS NULL FROM {} WHERE i < 0",
        "SELECT g, count(*), sum(c_integer) FROM {} WHERE i < 0 GROUP BY g",
        "SELECT g, count(*) FROM {} WHERE g = 77 GROUP BY g",
        "SELECT count(*) FROM {} WHERE g = 77 GROUP BY g",
        "SELECT g, count(*) FROM {} WHERE g = 3 GROUP BY g",
        "SELECT count(*) FROM {} WHERE g = 3 GROUP BY g",
        "SELECT count(*) FROM {} WHERE i < 0 GROUP BY 'constant'::text",
    ):
        text = plan(coordinator, query.format("many"))
        if "array_agg" not in query or servers.one(coordinator, "SHOW server_version_num") >= "160000":
            assert text.count("Partial Aggregate on") == 3, text
        assert (
            coordinator.execute(query.format("one")).fetchall() == coordinator.execute(query.format("many")).fetchall()
        )


@pytest.mark.parametrize(
    "query",
    [
        "SELECT g, count(*) FROM {} GROUP BY g",
        "SELECT g, c_text, count(*), max(c_date) FROM {} GROUP BY g, c_text",
        "SELECT g % 3, c_integer > 0, sum(c_bigint) FROM {} GROUP BY 1, 2",
        (
            "SELECT c_text, count(*) FROM {} WHERE c_text IN ('a0', 'b1', E'it''s \\\\ one') OR c_text LIKE 'c%'"
            " GROUP BY 1"
        ),
        "SELECT g, count(*) FROM {} WHERE c_boolean IS NOT TRUE AND NOT (c_date IS NULL) GROUP BY g",
        "SELECT g, sum(CASE WHEN c_integer < 0 THEN -1 ELSE 1 END) FROM {} GROUP BY g",
        "SELECT g, sum(coalesce(c_integer, 0) * 2::bigint), avg(c_real::float8 / 3) FROM {} GROUP BY g",
        (
            "SELECT g, count(*) FROM {} WHERE c_timestamp_without_time_zone > '2001-01-10' AND c_interval > '1 day"
            " 03:00' GROUP BY g"
        ),
        (
            "SELECT g, count(*) FROM {} WHERE c_double_precision > -1e-7 AND c_numeric < 1e20 AND c_bigint <> -5"
            " GROUP BY g"
        ),
        "SELECT g, count(*) FROM {} WHERE c_integer = ANY (ARRAY[1, 2, c_integer]) GROUP BY g",
        "SELECT date_trunc('week', c_timestamp_without_time_zone), count(*), sum(c_integer) FROM {} GROUP BY 1",
        "SELECT extract(isodow FROM c_date), date_part('hour', c_time_with_time_zone), count(*) FROM {} GROUP BY 1, 2",
        "SELECT date_trunc('day', c_interval), sum(extract(epoch FROM c_time_without_time_zone)) FROM {} GROUP BY 1",
        (
            "SELECT g, sum(c_integer) AS s FROM {} GROUP BY g HAVING sum(c_integer) > 0 AND count(*) > 1 ORDER BY s"
            " DESC LIMIT 3"
        ),
        "SELECT count(DISTINCT g) FROM (SELECT g FROM {} GROUP BY g) s",
        "SELECT g, max(c_text), min(c_character), min(c_text) FILTER (WHERE c_text > 'm') FROM {} GROUP BY g",
        (
            "SELECT a.g, a.n, b.s FROM (SELECT g, count(*) n FROM {} GROUP BY g) a JOIN (SELECT g, sum(c_integer) s"
            " FROM {} GROUP BY g) b USING (g)"
        ),
        (
            "SELECT g, (SELECT count(*) FROM {} o WHERE o.g = v.g AND o.i < v.n) FROM (VALUES (1, 100), (2, 2000),"
            " (1, NULL)) v (g, n)"
        ),
        (
            "SELECT v.g, n FROM (VALUES (1), (2), (1)) v (g), LATERAL (SELECT count(*) AS n FROM {} o WHERE o.g = v.g"
            " OFFSET 0) s"
        ),
        "SELECT grouping(g), g, count(*) FROM {} GROUP BY ROLLUP (g)",
        "SELECT rank() OVER (ORDER BY count(*) DESC, g), g FROM {} GROUP BY g",
        (
            "WITH s AS MATERIALIZED (SELECT g, count(*) n FROM {} GROUP BY g) SELECT x.g, y.n FROM s x JOIN s y ON"
            " x.g = y.g + 1"
        ),
        (
            "SELECT g, sum(i) FROM {} WHERE i <> ALL (ARRAY[5, 6]) GROUP BY g UNION ALL SELECT g, count(*) FROM {}"
            " GROUP BY g"
        ),
    ],
)
def test_queries_are_answered_as_by_one_server(coordinator: Connection, query: str) -> None:
    one, many = query.replace("{}", "one"), query.replace("{}", "many")
    if "ROLLUP" not in query:
        assert "Partial Aggregate on" in plan(coordinator, many)
    results = [sorted(coordinator.execute(each).fetchall(), key=repr) for each in (one, many)]
    assert len(results[0]) == len(results[1])
    for row, other in zip(*results, strict=True):
        assert all(same(value, others) for value, others in zip(row, other, strict=True)), (row, other)


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("SELECT g, count(*) FROM {} WHERE c_timestamp_with_time_zone < now() GROUP BY g", "conditions"),
        ("SELECT to_char(c_timestamp_with_time_zone, 'Day'), count(*) FROM {} GROUP BY 1", "groups by"),
        ("SELECT g, sum(home_made(i)) FROM {} GROUP BY g", "aggregates"),
        ("SELECT g, count(*) FROM {} WHERE c_text COLLATE \"POSIX\" > 'm' GROUP BY g", "conditions"),
        ("SELECT tableoid::regclass <> 'one'::regclass, count(*) > 0 FROM {} GROUP BY 1", "groups by"),
    ],
)
def test_what_a_shard_cannot_compute_as_we_do_stays_here(coordinator: Connection, query: str, reason: str) -> None:
    coordinator.execute(
        "CREATE OR REPLACE FUNCTION home_made(integer) RETURNS integer IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN"
        " $1; END'"
    )
    notices: list[str] = []
    handler = lambda diagnostic: notices.append(diagnostic.message_primary)  # noqa: E731
    coordinator.add_notice_handler(handler)
    coordinator.execute("SET client_min_messages = debug1")
    try:
        text = plan(coordinator, query.format("many"))
    finally:
        coordinator.execute("RESET client_min_messages")
        coordinator.remove_notice_handler(handler)
    assert "Partial Aggregate on" not in text
    assert any("not pushed down" in notice and reason in notice for notice in notices), notices
    if "tableoid" not in query:
        one, many = (sorted(coordinator.execute(query.format(name)).fetchall(), key=repr) for name in ("one", "many"))
        assert one == many


def test_shards_group_by_no_more_than_is_asked_for(coordinator: Connection, members: list[Shard]) -> None:
    """Core has columns handed up of which keys are made, where something else is computed from these keys."""
    coordinator.execute("LOAD 'pgbillion_rows'")
    shard_table(coordinator, members, "series", "i integer, d timestamp")
    coordinator.execute(
        "INSERT INTO series SELECT i, timestamp '2001-01-01' + i * interval '1 minute' FROM"
        " generate_series(1, 20000) i; ANALYZE series; CREATE TEMP TABLE alone AS TABLE series"
    )
    query = (
        "SELECT date_trunc('day', d)::date, i % 5 * 2, count(*), sum(i) FROM {} GROUP BY date_trunc('day', d), i % 5"
    )
    text = plan(coordinator, query.format("series"))
    assert text.count("Relations: Partial Aggregate on") == 3, text
    remote = [line for line in text.splitlines() if "Remote SQL" in line]
    assert all("SELECT date_trunc('day'::text, d), (i % 5), count(*), sum(i) FROM" in line for line in remote), text
    one, many = (sorted(coordinator.execute(query.format(name)).fetchall()) for name in ("alone", "series"))
    assert one == many


def test_aggregates_of_ones_own_are_pushed_down_when_declared(coordinator: Connection, members: list[Shard]) -> None:
    own = """
        CREATE SCHEMA app;
        CREATE FUNCTION app.add(numeric, integer) RETURNS numeric IMMUTABLE PARALLEL SAFE LANGUAGE sql AS
            'SELECT $1 + coalesce($2, 0) * 2';
        CREATE FUNCTION app.show(numeric) RETURNS text IMMUTABLE PARALLEL SAFE LANGUAGE sql AS
            'SELECT ''<'' || $1 || ''>''';
        CREATE AGGREGATE app.twice(integer) (SFUNC = app.add, STYPE = numeric, FINALFUNC = app.show,
            COMBINEFUNC = numeric_add, INITCOND = '0', PARALLEL = SAFE);
        CREATE AGGREGATE app.mean(bigint) (SFUNC = int8_avg_accum, STYPE = internal, FINALFUNC = numeric_poly_avg,
            COMBINEFUNC = int8_avg_combine,
            SERIALFUNC = int8_avg_serialize, DESERIALFUNC = int8_avg_deserialize, PARALLEL = SAFE);
    """
    query = "SELECT g, app.twice(c_integer), app.mean(c_bigint) FROM {} GROUP BY g ORDER BY g"
    for each in [coordinator, *(shard.connect() for shard in members)]:
        each.execute(own)
        if each is not coordinator:
            each.close()
    one = coordinator.execute(query.format("one")).fetchall()
    assert "Partial Aggregate on" not in plan(coordinator, query.format("many"))
    assert coordinator.execute(query.format("many")).fetchall() == one

    declare = (
        "SELECT pgbillion_rows.create_partial_aggregate('app.twice(integer)')::text,"
        " pgbillion_rows.create_partial_aggregate('app.mean(bigint)')::text"
    )
    assert coordinator.execute(declare).fetchone() == ("app.partial_twice(integer)", "app.partial_mean(bigint)")
    # whoever may create a schema on a shard can make a function of that name: the owner of the server has to say so
    assert "Partial Aggregate on" not in plan(coordinator, query.format("many"))
    for signature in ("app.partial_twice(integer)", "app.partial_mean(bigint)"):
        coordinator.execute(f"ALTER EXTENSION postgres_fdw ADD AGGREGATE {signature}")
    assert "Partial Aggregate on" not in plan(coordinator, query.format("many"))
    for shard in members:
        coordinator.execute(f"ALTER SERVER {shard.name} OPTIONS (ADD extensions 'postgres_fdw')")
    assert plan(coordinator, query.format("many")).count("Partial Aggregate on") == 3
    with pytest.raises(
        psycopg.errors.UndefinedFunction, match=r'server "s\d": function app\.partial_\w+\(\w+\) does not exist'
    ) as caught:
        coordinator.execute(query.format("many"))
    assert "create_partial_aggregate" in (caught.value.diag.message_hint or "")
    for shard in members:
        with shard.connect() as conn:
            conn.execute(declare)
    assert coordinator.execute(query.format("many")).fetchall() == one


def test_only_what_can_be_combined_can_be_declared(coordinator: Connection) -> None:
    for signature in ("percentile_cont(double precision, double precision)", "json_agg(anyelement)", 'rank("any")'):
        with pytest.raises(psycopg.errors.WrongObjectType):
            coordinator.execute("SELECT pgbillion_rows.create_partial_aggregate(%s::regprocedure)", [signature])
    with pytest.raises(psycopg.errors.WrongObjectType, match="not an aggregate"):
        coordinator.execute("SELECT pgbillion_rows.create_partial_aggregate('lower(text)')")


def test_a_name_alone_makes_no_partial_aggregate(coordinator: Connection) -> None:
    """One of that name beside no other is not called on a shard; and for built-in ones there is nothing to declare."""
    coordinator.execute(
        "CREATE SCHEMA named; CREATE AGGREGATE named.partial_total(integer) (SFUNC = int4_sum, STYPE = bigint,"
        " COMBINEFUNC = int8pl)"
    )
    query = "SELECT named.partial_total(c_integer) FROM many_0"
    assert "Aggregate on" not in plan(coordinator, query)
    coordinator.execute("DROP SCHEMA named CASCADE")
    for builtin in ("sum(bigint)", "max(integer)", "string_agg(text, text)"):
        if builtin.startswith("string") and coordinator.info.server_version < 160000:
            continue
        with pytest.raises(psycopg.errors.WrongObjectType, match="is built in"):
            coordinator.execute("SELECT pgbillion_rows.create_partial_aggregate(%s::regprocedure)", [builtin])


def test_the_least_and_the_largest_are_the_shards_to_find(coordinator: Connection, members: list[Shard]) -> None:
    """Core would fetch the first row in order, for which a shard without an index sorts them all."""
    for query in ("SELECT max(c_integer) FROM {}", "SELECT min(c_date), max(c_text) FROM {} WHERE g <> 2"):
        text = plan(coordinator, query.format("many"))
        assert text.count("Partial Aggregate on") == 3, text
        assert "ORDER BY" not in text
        one, many = (coordinator.execute(query.format(name)).fetchall() for name in ("one", "many"))
        assert one == many


def test_prepared_statements_with_parameters(coordinator: Connection) -> None:
    for mode in ("force_generic_plan", "force_custom_plan"):
        coordinator.execute(f"SET plan_cache_mode = {mode}")
        for name in ("one", "many"):
            coordinator.execute(
                f"PREPARE {name}_p (integer, timestamptz, text) AS SELECT g, count(*), sum(i + $1) FROM {name} "
                "WHERE i > $1 AND c_timestamp_with_time_zone > $2 AND c_text <> $3 GROUP BY g ORDER BY g"
            )
        for arguments in ("10, '2001-01-03 04:05+02', 'a1'", "2990, '2001-01-01', 'x'", "NULL, NULL, NULL"):
            one = coordinator.execute(f"EXECUTE one_p ({arguments})").fetchall()
            assert coordinator.execute(f"EXECUTE many_p ({arguments})").fetchall() == one
            if "NULL" not in arguments:
                assert "Partial Aggregate on" in plan(coordinator, f"EXECUTE many_p ({arguments})")
        coordinator.execute("DEALLOCATE ALL")
    coordinator.execute("RESET plan_cache_mode")


def test_whole_aggregates_run_without_a_cursor_too(coordinator: Connection, members: list[Shard]) -> None:
    """One foreign table, or groups by the partition key, need no second stage."""
    for query in (
        "SELECT g, count(*), avg(c_bigint) FROM many_0 GROUP BY g",
        "SELECT i, count(*), avg(c_bigint) + 1 FROM many GROUP BY i",
        "SELECT count(*), sum(c_integer) / 2 FROM many_0 WHERE i % 2 = 0",
    ):
        text = plan(coordinator, query)
        assert "Relations: Aggregate on" in text
        assert "DECLARE" not in text
        local = query.replace("many_0", "here").replace("FROM many ", "FROM one ")
        with members[0].connect() as conn:
            here = coordinator if "one" in local else conn
            assert sorted(coordinator.execute(query).fetchall()) == sorted(
                here.execute(local.replace("here", "many_0")).fetchall()
            )
    # what comes through postgres_fdw's cursor says so in the shard's activity
    with members[0].connect() as conn:
        coordinator.execute("SELECT count(*) FROM many_0")
        seen = conn.execute(
            "SELECT query FROM pg_stat_activity WHERE datname = current_database() AND application_name ="
            " 'pgbillion_fdw'"
        )
        # the transaction may still be about to end
        assert {query for (query,) in seen} < {"COMMIT", "SELECT count(*) FROM public.many_0"}

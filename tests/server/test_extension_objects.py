"""The SQL objects of the extensions: beyond the reach of hostile names, and refused where they do not fit."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import psycopg
import pytest

from harness import servers
from harness.servers import one
from harness.shards import make_coordinator, plan, shard_table, shards
from pgbillion.common.connection import Connection
from pgbillion.server import extension
from pgbillion.server.postgres import Cluster

pytestmark = pytest.mark.majors

# What whoever may create objects can put in the way of a careless name. Whatever is used of it raises an error, which
# stands for anything the user of it may do. Operators first: CVE-2018-1058 and its like.
HOSTILE_FUNCTIONS = (
    "format_type(oid, integer)",
    "pg_get_function_identity_arguments(oid)",
    "quote_ident(text)",
    "version()",
    "state(internal)",
    "int8_avg_accum(numeric, bigint)",
    "set_config(text, text, boolean)",
)
HOSTILE_OPERATORS = [
    *(("=", kind, kind) for kind in ("oid", "name", "text", "regproc", "regclass", "bigint", "integer", '"char"')),
    *(("<>", kind, other) for kind in ("regproc", "oid", "regtype") for other in ("integer", kind, "oid")),
]
HOSTILE_TYPES = (
    "text",
    "regclass",
    "name",
    "regnamespace",
    "oid",
    "record",
    "bytea",
    "internal",
    "regprocedure",
    "interval",
)


def make_hostile(conn: Connection, schema: str) -> None:
    """Fill a schema with objects that raise an error as soon as anybody uses them."""
    conn.execute(f"SET search_path = pg_catalog; CREATE SCHEMA IF NOT EXISTS {schema}")
    done = set()
    for number, (name, left, right) in enumerate(HOSTILE_OPERATORS):
        if (name, left, right) in done:
            continue
        done.add((name, left, right))
        conn.execute(
            f"CREATE FUNCTION {schema}.trap_{number}({left}, {right}) RETURNS boolean LANGUAGE plpgsql AS"
            f" $$BEGIN RAISE 'trapped by {name}'; END$$;"
            f" CREATE OPERATOR {schema}.{name} (FUNCTION = {schema}.trap_{number}, LEFTARG = {left},"
            f" RIGHTARG = {right})"
        )
    for signature in HOSTILE_FUNCTIONS:
        if "internal" not in signature:
            conn.execute(
                f"CREATE FUNCTION {schema}.{signature} RETURNS text LANGUAGE plpgsql AS"
                " $$BEGIN RAISE 'trapped by a function'; END$$"
            )
    for name in HOSTILE_TYPES:
        conn.execute(f"CREATE DOMAIN {schema}.{name} AS pg_catalog.int2 CHECK (VALUE > 9)")
    # a table is a type, too, and what a view reads from
    for name in ("pg_proc", "pg_aggregate", "pg_database", "pg_extension", "pg_depend"):
        conn.execute(f"CREATE TABLE {schema}.{name} (oid pg_catalog.oid)")


@pytest.fixture
def bare(cluster: Cluster) -> Iterator[Connection]:
    """A database without the extension, in which the role `intruder` may create schemas."""
    with servers.new_database(cluster, "bare", "UTF8") as name, cluster.connect(name) as conn:
        conn.execute("CREATE ROLE intruder; GRANT CREATE ON DATABASE bare TO intruder")
        conn.execute("GRANT CREATE ON SCHEMA public TO intruder")
        try:
            yield conn
        finally:
            conn.execute("RESET ALL; RESET ROLE; DROP OWNED BY intruder CASCADE; DROP ROLE intruder")


def superusers(conn: Connection) -> list[str]:
    query = "SELECT rolname FROM pg_catalog.pg_roles WHERE rolsuper ORDER BY 1"
    return [name for (name,) in conn.execute(query).fetchall()]


@pytest.mark.parametrize("name", extension.ALL)
def test_only_superusers_can_create_them(bare: Connection, name: str) -> None:
    """What writes catalogs, or talks to other servers, is not trusted, in no version."""
    found = bare.execute("SELECT superuser, trusted FROM pg_available_extension_versions WHERE name = %s", [name])
    assert set(found.fetchall()) == {(True, False)}
    bare.execute("SET ROLE intruder")
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="superuser"):
        bare.execute(f"CREATE EXTENSION {name}")


@pytest.mark.parametrize("name", extension.ALL)
def test_a_schema_that_is_there_already_is_an_error(bare: Connection, name: str) -> None:
    """Its owner had a function of (regproc, integer) called by the superuser who created the extension."""
    bare.execute(
        f"SET ROLE intruder; CREATE SCHEMA {name};"
        f" CREATE FUNCTION {name}.ne(regproc, integer) RETURNS boolean LANGUAGE plpgsql AS"
        " $$BEGIN ALTER ROLE intruder SUPERUSER; RETURN $1::oid <> $2::oid; END$$;"
        f" CREATE OPERATOR {name}.<> (FUNCTION = {name}.ne, LEFTARG = regproc, RIGHTARG = integer); RESET ROLE"
    )
    before = superusers(bare)
    with pytest.raises(psycopg.errors.DuplicateSchema, match=f'schema "{name}" already exists'):
        bare.execute(f"CREATE EXTENSION {name}")
    assert "intruder" not in before
    assert superusers(bare) == before
    assert one(bare, f"SELECT count(*) FROM pg_extension WHERE extname = '{name}'") == 0
    bare.execute(f"DROP SCHEMA {name} CASCADE; CREATE EXTENSION {name}")
    assert one(bare, f"SELECT nspowner::regrole::text FROM pg_namespace WHERE nspname = '{name}'") == "postgres"
    assert not one(bare, f"SELECT has_schema_privilege('intruder', '{name}', 'CREATE')")


@pytest.mark.parametrize("name", extension.ALL)
def test_the_schema_goes_with_the_extension(bare: Connection, name: str) -> None:
    for _ in range(2):
        bare.execute(f"CREATE EXTENSION {name}")
        assert one(bare, f"SELECT count(*) FROM pg_namespace WHERE nspname = '{name}'") == 1
        bare.execute(f"DROP EXTENSION {name}")
        assert one(bare, f"SELECT count(*) FROM pg_namespace WHERE nspname = '{name}'") == 0
    bare.execute(f"CREATE EXTENSION {name}; CREATE TABLE {name}.kept AS SELECT 1")
    with pytest.raises(psycopg.errors.DependentObjectsStillExist, match=r"drop extension|drop schema"):
        bare.execute(f"DROP EXTENSION {name}")
    assert one(bare, f"SELECT count(*) FROM {name}.kept") == 1
    bare.execute(f"DROP TABLE {name}.kept")
    for schema, error in (
        ("public", psycopg.errors.FeatureNotSupported),
        (name, psycopg.errors.ObjectNotInPrerequisiteState),
    ):
        with pytest.raises(error):
            bare.execute(f"ALTER EXTENSION {name} SET SCHEMA {schema}")


@pytest.mark.parametrize("path", ["hostile, pg_catalog", "public, pg_catalog, hostile", "hostile", '"$user", public'])
def test_names_in_the_script_and_in_functions_lead_to_nobody_elses(
    cluster: Cluster, bare: Connection, path: str
) -> None:
    """Every SQL function of the extension, called with hostile objects before those of pg_catalog."""
    bare.execute("CREATE TABLE public.t (i integer, v varchar, b bigint, n numeric) USING heap")
    bare.execute("INSERT INTO public.t SELECT i, i, i, i FROM generate_series(1, 1000) i")
    bare.execute("CREATE EXTENSION postgres_fdw; CREATE SERVER s FOREIGN DATA WRAPPER postgres_fdw")
    bare.execute(
        "CREATE SCHEMA app; CREATE FUNCTION app.longer(varchar, varchar) RETURNS varchar IMMUTABLE LANGUAGE sql AS"
        " 'SELECT CASE WHEN pg_catalog.length($1) > pg_catalog.length($2) THEN $1 ELSE $2 END';"
        " CREATE FUNCTION app.show(varchar) RETURNS text IMMUTABLE LANGUAGE sql AS 'SELECT $1';"
        " CREATE AGGREGATE app.longest(varchar) (SFUNC = app.longer, STYPE = varchar, FINALFUNC = app.show,"
        " COMBINEFUNC = app.longer);"
        " CREATE AGGREGATE app.mean(bigint) (SFUNC = int8_avg_accum, STYPE = internal, FINALFUNC = numeric_poly_avg,"
        " COMBINEFUNC = int8_avg_combine, SERIALFUNC = int8_avg_serialize, DESERIALFUNC = int8_avg_deserialize)"
    )
    for schema in ("hostile", "public", '"pgbillion_rows "'):
        make_hostile(bare, schema)
    before = superusers(bare)
    bare.execute(f"SET search_path = {path}")
    if not path.startswith(("hostile, pg", "public")):
        bare.execute("SELECT FROM pg_catalog.pg_class WHERE oid = 1::pg_catalog.oid")
    else:
        with pytest.raises(psycopg.errors.RaiseException, match="trapped by ="):
            bare.execute("SELECT FROM pg_catalog.pg_class WHERE oid = 1::pg_catalog.oid")
    bare.execute("CREATE EXTENSION pgbillion_tables; CREATE EXTENSION pgbillion_rows")
    for call in (
        "tables.version()",
        "rows.version()",
        "tables.create_tables('public.t', 'x%d', 1, 3, NULL, 'app')",
        "tables.create_tables('public.t', 'lazy%d', 1, 3, NULL, 'app', 'lazy_heap', false)",
        "tables.to_heap('{app.lazy1}')",
        "tables.drop_tables('{app.x1, app.lazy2}')",
        "tables.drop_tables('{app.x2}', true, false)",
        "tables.tables()",
        "tables.tables('x%', 'app')",
        "tables.create_progress()",
        "rows.explain_vector('SELECT pg_catalog.count(*), pg_catalog.sum(b) FROM public.t GROUP BY i')",
        "rows.create_partial_aggregate('app.longest(pg_catalog.varchar)')",
        "rows.create_partial_aggregate('app.mean(pg_catalog.int8)')",
    ):
        assert bare.execute(f"SELECT * FROM pgbillion_{call}").fetchall() is not None
    bare.execute("SELECT * FROM pgbillion_tables.create_progress")
    aggregates = (
        "SELECT DISTINCT p.proname FROM pg_catalog.pg_proc p WHERE p.prokind OPERATOR(pg_catalog.=) 'a' AND"
        " p.pronamespace OPERATOR(pg_catalog.=) 'pgbillion_rows'::pg_catalog.regnamespace AND p.proname"
        " OPERATOR(pg_catalog.~) '^partial_(avg|sum|std|var)' AND p.proname OPERATOR(pg_catalog.!~) 'array'"
    )
    for (name,) in bare.execute(aggregates).fetchall():
        for mode in ("off", "force"):
            bare.execute(f"SET pgbillion_rows.vector_aggregate = {mode}")
            assert one(bare, f"SELECT pgbillion_rows.{name}(n) FROM public.t") is not None
    assert one(bare, "SELECT app.partial_longest(v) FROM public.t") == "1000"
    found = bare.execute(
        "SELECT a.aggfnoid::pg_catalog.regprocedure::pg_catalog.text FROM pg_catalog.pg_aggregate a JOIN"
        " pg_catalog.pg_proc p ON p.oid OPERATOR(pg_catalog.=) a.aggfnoid WHERE p.pronamespace"
        " OPERATOR(pg_catalog.=) 'app'::pg_catalog.regnamespace AND p.proname OPERATOR(pg_catalog.~) '^partial'"
    ).fetchall()
    assert len(found) == 2
    assert superusers(bare) == before
    bare.execute("SET search_path = pg_catalog; DROP TABLE app.lazy1, app.lazy3, app.x3")


def test_an_overloaded_transition_function_is_not_taken_for_the_other(bare: Connection) -> None:
    """CREATE AGGREGATE looks for the function whose arguments fit best, which may have come later."""
    bare.execute("CREATE EXTENSION pgbillion_tables; CREATE EXTENSION pgbillion_rows; CREATE SCHEMA app")
    bare.execute(
        "CREATE FUNCTION app.f(text, text) RETURNS text IMMUTABLE LANGUAGE sql AS 'SELECT $2';"
        " CREATE AGGREGATE app.a(varchar) (SFUNC = app.f, STYPE = text, COMBINEFUNC = app.f, FINALFUNC = lower);"
        " CREATE FUNCTION app.f(text, varchar) RETURNS text IMMUTABLE LANGUAGE plpgsql AS $$BEGIN RAISE 'x'; END$$"
    )
    with pytest.raises(psycopg.errors.AmbiguousFunction, match=r"could not create a partial aggregate of app\.a"):
        bare.execute("SELECT pgbillion_rows.create_partial_aggregate('app.a(varchar)')")
    assert one(bare, "SELECT count(*) FROM pg_proc WHERE proname = 'partial_a'") == 0
    bare.execute("DROP FUNCTION app.f(text, varchar)")
    assert one(bare, "SELECT pgbillion_rows.create_partial_aggregate('app.a(varchar)')::text") == (
        "app.partial_a(character varying)"
    )
    bare.execute(f"CREATE AGGREGATE app.{'a' * 60}(text) (SFUNC = app.f, STYPE = text, COMBINEFUNC = app.f)")
    with pytest.raises(psycopg.errors.NameTooLong):
        bare.execute(f"SELECT pgbillion_rows.create_partial_aggregate('app.{'a' * 60}(text)')")


def test_nobody_but_its_owner_may_use_the_table_of_the_extension(bare: Connection) -> None:
    bare.execute("CREATE EXTENSION pgbillion_tables; CREATE EXTENSION pgbillion_rows; SET ROLE intruder")
    for command in (
        "INSERT INTO pgbillion_tables.nothing DEFAULT VALUES",
        "SELECT FROM pgbillion_tables.nothing",
        "BEGIN; LOCK TABLE pgbillion_tables.nothing IN ACCESS SHARE MODE",
        "TRUNCATE pgbillion_tables.nothing",
        "CREATE FUNCTION pgbillion_rows.partial_array_agg(text) RETURNS text LANGUAGE sql AS 'SELECT $1'",
        "CREATE TABLE pgbillion_tables.mine ()",
    ):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            bare.execute(command.encode())
        bare.execute("ROLLBACK")
    bare.execute("RESET ROLE")
    with pytest.raises(psycopg.errors.CheckViolation):
        bare.execute("INSERT INTO pgbillion_tables.nothing DEFAULT VALUES")


def test_explaining_a_query_needs_the_privileges_to_run_it(bare: Connection) -> None:
    """As EXPLAIN: what it tells is estimated from the table's statistics."""
    bare.execute("CREATE EXTENSION pgbillion_rows; CREATE TABLE secret (i integer); CREATE VIEW seen AS TABLE secret")
    bare.execute("GRANT SELECT ON seen TO intruder; SET ROLE intruder")
    for table in ("secret", "(SELECT i FROM secret UNION ALL SELECT 1)"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="permission denied for table secret"):
            bare.execute(f"SELECT pgbillion_rows.explain_vector('SELECT count(*) FROM {table} x GROUP BY i')")
    assert one(bare, "SELECT pgbillion_rows.explain_vector('SELECT count(*) FROM seen GROUP BY i')")


def test_fingerprints_need_the_privileges_to_read_their_catalogs(bare: Connection) -> None:
    bare.execute("CREATE EXTENSION pgbillion_tables; CREATE SCHEMA s; CREATE TABLE s.t (i integer CHECK (i > 5))")
    fingerprints = "SELECT tables FROM pgbillion_tables.schema_fingerprints(ARRAY['s'::regnamespace::oid])"
    bare.execute("SET ROLE intruder")
    # definitions are what everybody may read in the catalogs
    assert one(bare, fingerprints) == 1
    for catalog in ("pg_constraint", "pg_proc"):
        bare.execute(f"RESET ROLE; BEGIN; REVOKE SELECT ON {catalog} FROM PUBLIC; SET LOCAL ROLE intruder".encode())
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match=f"permission denied for table {catalog}"):
            bare.execute(fingerprints.encode())
        bare.execute("ROLLBACK; SET ROLE intruder")
    bare.execute("RESET ROLE")


# ---- the same on every major ----


def test_what_a_major_version_lacks_is_refused(conn: Connection) -> None:
    version = conn.info.server_version // 10000
    calls = {
        "partial_string_agg('a'::text, ',')": version >= 16,
        "partial_string_agg('a'::bytea, ',')": version >= 16,
        "partial_array_agg(1)": version >= 16,
        "partial_array_agg(ARRAY[1])": version >= 16,
        "partial_avg(interval '1 day')": version >= 17,
        "partial_sum(interval '1 day')": version >= 17,
        "partial_avg_array(interval '1 day')": version < 17,
    }
    for call, there in calls.items():
        if there:
            assert one(conn, f"SELECT pgbillion_rows.{call}") is not None
        else:
            with pytest.raises(
                psycopg.errors.FeatureNotSupported, match=f"PostgreSQL {version} has no such partial aggregate"
            ):
                conn.execute(f"SELECT pgbillion_rows.{call}")


# ---- states ----


def test_states_tell_their_format(conn: Connection) -> None:
    version = conn.info.server_version // 10000
    kinds = {"sum(1::bigint)": 2786, "avg(1.5)": 2740, "stddev(1)": 3339, "stddev(1::bigint)": 3335}
    for call, kind in kinds.items():
        header = one(conn, f"SELECT pgbillion_rows.partial_{call}")[:8]
        assert header == b"PGB\x01" + version.to_bytes(2, "big") + kind.to_bytes(2, "big")
    assert one(conn, "SELECT pgbillion_rows.partial_avg(1)") == [1, 1]
    with pytest.raises(psycopg.errors.FeatureNotSupported, match="only be had by aggregation"):
        conn.execute("SELECT pgbillion_rows.partial_sum(1::bigint) OVER ()")


@pytest.mark.parametrize("length", [1, 700])
def test_states_show_nothing_of_other_memory(conn: Connection, length: int) -> None:
    """The space for nulls is sent as long as it is, also what of it has never been used."""
    if conn.info.server_version < 160000:
        pytest.skip("this major version has no such state")
    lengths = (length, 100 * length)
    for elements in lengths:
        # what this session has in its memory, and gives back
        conn.execute("SELECT count(*) FROM (SELECT repeat('x', 8000) AS x FROM generate_series(1, 3000) ORDER BY 1) s")
        call = "pgbillion_rows.partial_array_agg(ARRAY[NULL, i]) FROM generate_series(1, %s) i"
        state: bytes = one(conn, f"SELECT {call}", elements)[8:]
        (size,) = struct.unpack_from("!8xi", state)
        (space,) = struct.unpack_from("!i", state, 12 + size + 4)
        nulls = state[12 + size + 8 :][: (space + 7) // 8]
        (items,) = struct.unpack_from("!i", state, 12 + size + 8 + len(nulls))
        assert items == 2 * elements
        bits = [byte >> bit & 1 for byte in nulls for bit in range(8)]
        assert bits[:items] == [0, 1] * elements
        assert not any(bits[items:]), bytes(nulls)


def test_partial_aggregates_are_vectorized(conn: Connection) -> None:
    """Their functions are ours, and recognised as core's."""
    conn.execute(
        "LOAD 'pgbillion_rows'; CREATE SCHEMA v; CREATE TABLE v.t (g integer, b bigint, n numeric, i integer, f float8)"
    )
    conn.execute("INSERT INTO v.t SELECT i % 7, i, i / 3.0, i, i FROM generate_series(1, 3000) i; ANALYZE v.t")
    # of numerics the same sum can be written in several ways
    exact = ", ".join(f"pgbillion_rows.partial_{a}" for a in ("sum(b)", "stddev(i)", "avg(i)", "var_pop(f)"))
    others = ", ".join(f"pgbillion_rows.partial_{a}" for a in ("avg(n)", "sum(n)", "variance(n)", "stddev(b)"))
    grouped = "SELECT g, {} FROM v.t GROUP BY g ORDER BY g"
    conn.execute("SET pgbillion_rows.vector_aggregate = force; SET max_parallel_workers_per_gather = 0")
    for columns in (exact, others):
        assert "VectorAggregate" in plan(conn, grouped.format(columns))
        assert "\nvectorized" in one(conn, "SELECT pgbillion_rows.explain_vector(%s)", grouped.format(columns))
    assert "VectorFinalize" in plan(conn, grouped.format(others))
    vectors = conn.execute(grouped.format(exact)).fetchall()
    assert len(conn.execute(grouped.format(others)).fetchall()) == 7
    conn.execute("SET pgbillion_rows.vector_aggregate = off")
    assert conn.execute(grouped.format(exact)).fetchall() == vectors


@pytest.mark.parametrize("isolation", ["READ COMMITTED", "REPEATABLE READ"])
def test_states_of_another_format_are_refused(cluster: Cluster, isolation: str) -> None:
    """By our own connections, and by postgres_fdw's, which a transaction with a snapshot of its own uses."""
    with servers.new_database(cluster, "top") as name, shards([cluster], name) as members, cluster.connect(name) as top:
        make_coordinator(top, members)
        shard_table(top, members, "t", "i integer, b bigint")
        top.execute("INSERT INTO t SELECT i, i FROM generate_series(1, 10) i")
        query = "SELECT sum(b) FROM t GROUP BY i % 2 ORDER BY 1"
        good = one(top, "SELECT pgbillion_rows.partial_sum(b) FROM t")[:8]
        version = top.info.server_version // 10000

        def ask() -> list[tuple[object, ...]]:
            with top.transaction():
                top.execute(f"SET TRANSACTION ISOLATION LEVEL {isolation}")
                return top.execute(query).fetchall()

        assert "pgbillion_rows.partial_sum" in plan(top, query)
        assert ask() == [(25,), (30,)]
        headers = {
            b"PGA" + good[3:]: "It is not the result of a partial aggregate",
            good[:3] + b"\x02" + good[4:]: "Its format is 2, instead of 1",
            good[:4] + b"\x00\x63" + good[6:]: f"It was made by PostgreSQL 99, this is {version}",
            good[:6] + b"\x00\x01": "Its kind is 1, instead of 2786",
        }
        # a number larger than all in the table, written in 8 bytes
        fakes = {
            f"SFUNC = int8larger, STYPE = bigint, FINALFUNC = int8send, INITCOND = '{int.from_bytes(header, 'big')}'": d
            for header, d in headers.items()
        }
        state = "SFUNC = pgbillion_rows.{0}_accum, STYPE = internal, SERIALFUNC = pgbillion_rows.{1}_serialize,"
        state += " COMBINEFUNC ="
        state += (
            " pgbillion_rows.{1}_combine, DESERIALFUNC = pgbillion_rows.{1}_deserialize, FINALFUNC = pgbillion_rows."
        )
        fakes[state.format("int8_avg", "int8_avg") + "int8_avg_serialize"] = "It is not the result of a partial"
        fakes[state.format("int8", "numeric") + "state"] = "Its kind is 3335, instead of 2786"
        for definition, detail in fakes.items():
            with members[0].connect() as there:
                there.execute("ALTER EXTENSION pgbillion_rows DROP AGGREGATE pgbillion_rows.partial_sum(bigint)")
                there.execute("DROP AGGREGATE pgbillion_rows.partial_sum(bigint)")
                there.execute(f"CREATE AGGREGATE pgbillion_rows.partial_sum(bigint) ({definition})")
                there.execute("ALTER EXTENSION pgbillion_rows ADD AGGREGATE pgbillion_rows.partial_sum(bigint)")
            with pytest.raises(psycopg.errors.FdwInconsistentDescriptorInformation) as caught:
                ask()
            assert caught.value.diag.message_primary == 'server "s1" returned a state that cannot be read here'
            assert (caught.value.diag.message_detail or "").startswith(detail)

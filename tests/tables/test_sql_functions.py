"""Every function of the extensions with odd arguments: an answer or an error that says why, and the server goes on.

Arguments, who calls, and where (in a read-only transaction, after the same call has failed in a subtransaction, in a
parallel worker, on a standby) are chosen by chance. Who has no privilege but EXECUTE must not have written anything.
PGBILLION_TEST_CALLS is how many calls there are (default 2,000, a third of them on the standby), PGBILLION_TEST_SEED
repeats a run.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass

import psycopg
import pytest

from harness import invariants, servers, standby
from harness.amount import Count, amount
from harness.servers import one
from pgbillion.common.connection import Connection
from pgbillion.server.postgres import Cluster, Installation

pytestmark = [pytest.mark.quick, pytest.mark.majors]

CALLS = amount("PGBILLION_TEST_CALLS", 2000, 400)
SEED = int(os.environ.get("PGBILLION_TEST_SEED") or random.SystemRandom().randrange(2**31))
DATABASE = "calls"

# the relations of own belong to the superuser, and stranger may not even look at them
RELATIONS = """
    CREATE SCHEMA own;
    CREATE TABLE own.plain (id serial PRIMARY KEY, t text UNIQUE, at date);
    INSERT INTO own.plain (t) SELECT 'row ' || i FROM generate_series(1, 2000) i;
    VACUUM own.plain;
    CREATE INDEX columns_of_plain ON own.plain USING columns (id, t, at);
    CREATE TABLE own.refers (p integer REFERENCES own.plain);
    CREATE TABLE own.lazy (i integer PRIMARY KEY, t text) USING lazy_heap;
    CREATE UNLOGGED TABLE own.unlogged (i integer);
    CREATE TABLE own.parted (i integer PRIMARY KEY) PARTITION BY RANGE (i);
    CREATE TABLE own.part PARTITION OF own.parted FOR VALUES FROM (0) TO (9);
    CREATE TABLE own.child () INHERITS (own.unlogged);
    CREATE VIEW own.seen AS SELECT * FROM own.plain;
    CREATE MATERIALIZED VIEW own.kept AS SELECT 1 AS one;
    CREATE SEQUENCE own.numbers;
    CREATE TYPE own.composite AS (a integer, b text);
    CREATE TYPE own.mood AS ENUM ('sad', 'happy');
    CREATE DOMAIN own.positive AS integer CHECK (VALUE > 0);
    CREATE TABLE own.odd (a own.composite[], m own.mood, p own.positive, r int4range, x xid);
    CREATE TABLE own.nothing ();
    CREATE FUNCTION own.longer(text, text) RETURNS text IMMUTABLE LANGUAGE sql AS 'SELECT greatest($1, $2)';
    CREATE AGGREGATE own.longest(text) (SFUNC = own.longer, STYPE = text, COMBINEFUNC = own.longer);
    CREATE PROCEDURE own.nop() LANGUAGE sql AS 'SELECT 1';
    CREATE SCHEMA empty;
    CREATE SCHEMA theirs AUTHORIZATION stranger;
    CREATE FOREIGN TABLE own.far (i integer) SERVER nowhere;
    SELECT pgbillion_tables.prepare_clone('theirs')
"""
RELATION = (
    "'own.plain'", "NULL", "0", "1", "4294967295", "'own.columns_of_plain'", "'own.plain_pkey'", "'own.refers'",
    "'own.lazy'", "'own.lazy_pkey'", "'own.unlogged'", "'own.parted'", "'own.parted_pkey'", "'own.part'", "'own.child'",
    "'own.seen'", "'own.kept'", "'own.numbers'", "'own.composite'", "'own.odd'", "'own.nothing'", "'own.far'",
    "'pg_class'", "'pg_authid'", "'pg_class_oid_index'", "'pg_locks'", "'information_schema.tables'",
    "'pgbillion_tables.nothing'", "'pgbillion_tables.prepared_clones'", "'pg_temp.passing'", "'pg_statistic'",
    "(SELECT reltoastrelid FROM pg_catalog.pg_class WHERE relname = 'pg_statistic')",
    "(SELECT reltoastrelid FROM pg_catalog.pg_class WHERE relname = 'plain')",
)  # fmt: skip
SCHEMA = (
    "'own'", "NULL", "0", "4294967295", "'empty'", "'theirs'", "'pg_catalog'", "'pg_toast'", "'public'", "'pg_temp'",
    "'information_schema'", "'pgbillion_tables'", "'pgbillion_rows'",
)  # fmt: skip
FUNCTION = (
    "'pg_catalog.sum(bigint)'", "NULL", "0", "4294967295", "'pg_catalog.count()'", "'pg_catalog.now()'",
    "'pg_catalog.rank()'", "'pg_catalog.rank(\"any\")'", "'pg_catalog.percentile_disc(float8, anyelement)'",
    "'pg_catalog.array_agg(anyarray)'", "'pg_catalog.int4pl(int4, int4)'", "'own.longest(text)'", "'own.nop()'",
    "'pgbillion_rows.partial_sum(bigint)'", "'pg_catalog.json_agg(anyelement)'", "'pg_catalog.max(anyarray)'",
)  # fmt: skip
ROWS = ("SELECT id, count(*) FROM own.plain GROUP BY 1", "SELECT count(*) FROM pg_class GROUP BY relkind")
TEXT = (
    "'clone%d'", "NULL", "''", "'x'", "'%'", "'%d%d'", "'%%%d'", "'%08x'", "'%s'", "'%n%n%n%n'",
    "repeat('x', 62) || '%d'", "repeat('%', 100000)", "repeat('é', 40)", "E'a\\nb'", "'a\"b'", "'pg_x%d'", "'empty'",
    "'%999999999d'", "';'",
    "'SELECT 1; SELECT 2'", "'SELECT $1'", "'DROP TABLE own.plain'", "'DECLARE c CURSOR FOR SELECT 1'", "'COMMIT'",
    "'SELECT count(*) FROM generate_series(1, 3) GROUP BY ()'", "'EXPLAIN SELECT 1'", "'VALUES (1)'",
    "repeat('(', 100000)", "'SELECT ' || repeat('1+', 20000) || '1'",
    "'SELECT pgbillion_rows.explain_vector(''SELECT pgbillion_rows.explain_vector(NULL)'')'",
    *(f"'{query}'" for query in ROWS),
)  # fmt: skip
ARRAYS = (
    "'{{}}'", "'{{NULL}}'", "'{{{0},{1}}}'", "'{{{{{0},{1}}},{{{1},{0}}}}}'", "'[-5:-4]={{{0},{1}}}'",
    "'{{{0},NULL,{0}}}'",
)  # fmt: skip
NUMBER = ("2", "NULL", "0", "1", "-1", "3", "32767", "-32768")
ODD_FLOATS = ("'NaN'", "'inf'", "'-inf'", "'1e300'")


def array(first: str, second: str) -> tuple[str, ...]:
    """NULL and arrays of all forms."""
    return "NULL", *(form.format(first, second) for form in ARRAYS)


# by type; the first one is what the function is for
VALUES: dict[str, tuple[str, ...]] = {
    "text": TEXT,
    "name": ("'heap'", "NULL", "''", "'lazy_heap'", "'columns'", "'btree'", "'nonesuch'", "'t'"),
    "smallint": NUMBER,
    "integer": (*NUMBER, "2147483647", "-2147483648"),
    # what can be made takes too long
    "bigint": (*NUMBER[:6], "4294967296", "9223372036854775807", "-9223372036854775808"),
    "numeric": (*NUMBER, *ODD_FLOATS[:3], "1e130000", "1e-16000"),
    "real": (*NUMBER, *ODD_FLOATS[:3]),
    "double precision": (*NUMBER, *ODD_FLOATS),
    "boolean": ("false", "NULL", "true"),
    "oid": ("'own'::regnamespace", "NULL", "0", "1247", "1259", "1417", "1418", "2328", "3118", "4294967295"),
    "regclass": RELATION,
    "regrole": ("'postgres'", "NULL", "0", "1", "4294967295", "'stranger'", "'pg_monitor'", "'nobody'", "'-'"),
    "regnamespace": SCHEMA,
    "regprocedure": FUNCTION,
    "bytea": ("''", "NULL", r"'\x00'", "'PGB'", r"'\x5047420100120000'", "convert_to(repeat('x', 1000), 'UTF8')"),
    "interval": ("'1 day'", "NULL", "'-178000000 years'", "'178000000 years'"),
    # NULL is all that can be written of these
    "internal": ("NULL",),
    "anynonarray": ("1", "NULL::text", "'x'::text", "1.5"),
    "anyelement": ("1", "NULL::text"),
    "anyarray": ("'{1,2}'::integer[]", "NULL::integer[]", "'{}'::text[]"),
    "name[]": ("NULL", *array("pg_default", "space1"), "'{pg_global}'", "'{nonesuch}'"),
    "text[]": (*array("host=x", "fetch_size=0"), "'{=}'", "'{\"\"}'", "'{fetch_size=-1}'", "'{extensions=nonesuch}'"),
    "oid[]": ("ARRAY['own'::regnamespace::oid]", *array("0", "4294967295"), "'{11,11,99,2200}'"),
    "bigint[]": ("'{1,2}'", *array("1", "9223372036854775807"), "'{1}'", "'{1,2,3}'", "'{-9223372036854775808,-1}'"),
    "double precision[]": ("'{3,2,1}'", *array("1", "NaN"), "'{1,2,3,4,5,6}'", "'{1,NULL,3}'", "'{0,0,0,0,0,0}'"),
    "real[]": ("'{3,2,1}'", *array("1", "NaN")),
    "interval[]": ("'{1 day,2 days}'", *array("1 day", "1 year"), "'{178000000 years,0}'"),
    "regclass[]": (
        "'{own.plain}'", *array("own.plain", "own.lazy"), "'{0}'", "'{4294967295}'", "'{own.refers,own.plain}'",
        *(f"ARRAY[{relation}]" for relation in RELATION),
    ),
}  # fmt: skip
# PostgreSQL's own internal errors: of functions that only aggregates may call, and of arrays that are no state of any
INTERNAL = (
    "called in non-aggregate context",
    "array_agg_",
    "-element int8 array",
    "-element float8 array",
    "-element interval array",
    "transition array",
)
# where a call is made
PLACES = ("plain", "read only", "subtransaction", "worker", "alone")


@dataclass(frozen=True)
class Function:
    """One of the extensions' functions or procedures."""

    name: str
    types: tuple[str, ...]
    procedure: bool
    rows: bool

    def call(self, chance: random.Random) -> str:
        """A statement that calls it: half of the arguments are what it is for."""
        usual = chance.choice((0.0, 0.5, 0.8, 0.95))
        values = [VALUES[one_][0] if chance.random() < usual else chance.choice(VALUES[one_]) for one_ in self.types]
        cast = [
            value if kind.startswith("any") else f"({value})::{kind}" if kind != "internal" else value
            for value, kind in zip(values, self.types, strict=True)
        ]
        call = f"{self.name}({', '.join(cast)})"
        if self.procedure:
            return f"CALL {call}"
        forms = ("SELECT {}", "SELECT * FROM {} f", "SELECT {} LIMIT 1", "SELECT count(*) FROM {} f")
        return chance.choice(forms if self.rows else forms[:1]).format(call)


@pytest.fixture(scope="module")
def pair(installation: Installation) -> Iterator[tuple[Cluster, Cluster]]:
    """A server with the relations, and its standby."""
    with servers.new_cluster(installation, {"allow_in_place_tablespaces": "on"}) as primary:
        with primary.connect() as conn:
            servers.make_shared_objects(conn)
            conn.execute("CREATE ROLE stranger LOGIN")
            conn.execute(f"CREATE DATABASE {DATABASE}")
        with primary.connect(DATABASE) as conn:
            conn.execute("CREATE EXTENSION postgres_fdw; CREATE SERVER nowhere FOREIGN DATA WRAPPER pgbillion_fdw")
            for statement in RELATIONS.split(";\n"):
                conn.execute(statement.encode())
            for schema in ("pgbillion_tables", "pgbillion_rows"):
                conn.execute(f"GRANT EXECUTE ON ALL ROUTINES IN SCHEMA {schema} TO stranger")
            with standby.standby(primary) as there:
                with there.connect() as recovering:
                    standby.replayed(conn, recovering)
                yield primary, there
        with primary.connect(DATABASE) as conn:
            assert invariants.index_errors(conn) == []
            assert invariants.reference_errors(conn) == []


def functions(conn: Connection) -> list[Function]:
    """All of both extensions that SQL can name, aggregates aside: those cannot be called with states of one's own."""
    query = (
        "SELECT p.oid::regproc::text, ARRAY(SELECT format_type(t, NULL) FROM unnest(proargtypes) t), prokind = 'p',"
        " proretset FROM pg_proc p JOIN pg_namespace n ON n.oid = pronamespace"
        " WHERE nspname IN ('pgbillion_tables', 'pgbillion_rows') AND prokind IN ('f', 'p') ORDER BY 1, 2"
    )
    return [Function(name, tuple(types), procedure, rows) for name, types, procedure, rows in conn.execute(query)]


def session(cluster: Cluster, role: str, recovers: bool) -> Connection:
    conn = cluster.connect(DATABASE)
    conn.prepare_threshold = None
    if not recovers:
        conn.execute("CREATE TEMPORARY TABLE passing (i integer)")
    # a call that ends in a minute is not in an endless loop
    conn.execute("SET statement_timeout = '60s'; SET client_min_messages = error; SET max_parallel_workers = 4")
    conn.execute("SET work_mem = '64kB'; SET pgbillion_rows.columns = force")
    if role != "postgres":
        conn.execute(f"SET SESSION AUTHORIZATION {role}")
    return conn


def forced_worker(conn: Connection) -> str:
    return "debug_parallel_query" if conn.info.server_version >= 160000 else "force_parallel_mode"


def attempt(conn: Connection, statement: str) -> str:
    """Run it and return the error's state, '' without one. A lost connection is an error of the test."""
    failure: psycopg.Error | None = None
    try:
        conn.execute(statement.encode())
    except psycopg.Error as error:
        failure = error
    state = failure.sqlstate or "lost" if failure is not None else ""
    assert not conn.broken, f"{statement}: {failure}"
    assert state not in ("57014", "57P01", "57P02", "lost"), f"{statement}: {failure}"
    assert state != "XX000" or any(known in str(failure) for known in INTERNAL), f"{statement}: {failure}"
    return state


def tried(conn: Connection, statement: str, place: str, stranger: bool) -> str:
    """Call it in that place, and undo it."""
    if place == "alone":
        # procedures that commit, and what only an uncommitted transaction would have shown; who may everything would
        # change what later calls find
        return attempt(conn, statement) if stranger else ""
    conn.execute(f"BEGIN {'READ ONLY' if place == 'read only' else ''}")
    if place == "worker":
        conn.execute(f"SET LOCAL {forced_worker(conn)} = on")
    if place == "subtransaction":
        conn.execute("SAVEPOINT s")
        attempt(conn, statement)
        conn.execute("ROLLBACK TO s")
    state = attempt(conn, statement)
    if state == "" and (stranger or place == "read only"):
        written = one(conn, "SELECT pg_catalog.pg_current_xact_id_if_assigned()::pg_catalog.text")
        assert written is None, f"{statement}: it has written"
    with suppress(psycopg.errors.NoActiveSqlTransaction):
        conn.execute("ROLLBACK")
    return state


def call_again_and_again(cluster: Cluster, wanted: int, recovers: bool) -> Counter[str]:
    chance = random.Random(f"{SEED} {recovers}")
    outcomes: Counter[str] = Counter()
    failures: list[str] = []
    conns = {role: session(cluster, role, recovers) for role in ("postgres", "stranger")}
    all_ = functions(conns["postgres"])
    assert len(all_) > 60
    started = one(conns["postgres"], "SELECT pg_postmaster_start_time()")
    # those that have most arguments have most to be tried
    weights = [1 + 4 * len([kind for kind in function.types if len(VALUES[kind]) > 6]) for function in all_]
    turns = [*all_, *chance.choices(all_, weights, k=max(0, wanted - len(all_)))]
    for number, function in enumerate(turns):
        role = chance.choice(("postgres", "stranger"))
        place = chance.choice(PLACES[:4] if recovers else PLACES)
        statement = function.call(chance)
        try:
            state = tried(conns[role], statement, place, role == "stranger")
        except AssertionError as error:
            failures.append(f"call {number} by {role}, {place}: {str(error)[:2000]}")
            # one may have been left in a transaction, or ended
            conns[role].close()
            servers.until(cluster.running, "the server to recover")
            conns[role] = session(cluster, role, recovers)
            continue
        outcomes["calls"] += 1
        outcomes["that were refused"] += state != ""
    assert one(conns["postgres"], "SELECT pg_postmaster_start_time()") == started, "the server was restarted"
    for conn in conns.values():
        conn.close()
    assert failures == [], f"seed {SEED}"
    return outcomes


def test_odd_arguments(pair: tuple[Cluster, Cluster], tell: Callable[[str], None], counted: Count) -> None:
    primary, there = pair
    for cluster, wanted, recovers in ((primary, CALLS - CALLS // 3, False), (there, CALLS // 3, True)):
        outcomes = call_again_and_again(cluster, wanted, recovers)
        counted({"calls of functions": outcomes["calls"], "that were refused": outcomes["that were refused"]})
        tell(f"{'standby' if recovers else 'primary'}, seed {SEED}: {dict(outcomes)}")

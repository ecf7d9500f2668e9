"""Every allocation, write and read of a command fails once: the command fails in one piece, and the server goes on.

How many there are is counted first; each number is then failed in a session of its own, so that what fails is the same
step again. PGBILLION_TEST_FAULTS is how many numbers of each command and kind are tried at most (default 12): the first
ones and evenly spread ones of the others. With PGBILLION_TEST_FAULTS_STRIDE=40, each fortieth number is tried, from
that of PGBILLION_TEST_SEED on: forty seeds try them all.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest

from harness import invariants, servers
from harness.amount import Count, amount, share
from harness.faults import Faults, Kind, faulty_cluster
from pgbillion.common.connection import Connection
from pgbillion.server.postgres import Cluster, Installation

MOST = amount("PGBILLION_TEST_FAULTS", 12, 6)
STRIDE = int(os.environ.get("PGBILLION_TEST_FAULTS_STRIDE") or 0)
SEED = int(os.environ.get("PGBILLION_TEST_SEED") or 1)
DATABASE = "faults"
# out of memory; no space, too many files, errors of the system; a library that could not be read
EXPECTED = {
    Kind.MEMORY: {"53200"},
    Kind.SPACE: {"53100", "58030"},
    Kind.FILES: {"58030", "58P01", "XX001"},
}
# what the session says of a worker that could not even begin, or tell why it ended
WITHOUT_WORKER = ("parallel worker failed to initialize", "lost connection to parallel worker")
# how PostgreSQL tells that memory lacks for the first buckets of a hash table, as an internal error, for a pattern, and
# for what it keeps of a setting
WITHOUT_MEMORY = (
    "failed to initialize hash table",
    "invalid regular expression: out of memory",
    "regular expression failed: out of memory",
    'invalid value for parameter "DateStyle"',
    'could not read time zone file "Default": Cannot allocate memory',
)
# OpenSSL has no HMAC for the rest of a session if memory lacks as it is used for the first time
WITHOUT_HMAC = "could not sign what is to be kept"
# what the log has of a clone that goes on nevertheless, and keeps no stamp
UNSIGNED = b"a kept stamp could not be signed"
# what is allocated as a subtransaction begins, where statistics are attached
SUBTRANSACTION = 'Failed while creating memory context "CurTransactionContext"'


@dataclass(frozen=True)
class Command:
    """SQL that is to happen as a whole or not at all."""

    run: str
    # before each time, without faults
    prepare: str = ""
    # what it leaves: the same before, if it failed, and as after a run without faults, if it did not
    state: str = "SELECT 1"
    # of the session that runs it
    settings: str = ""
    # part of the plan, where there is one
    node: str = ""
    # calls of parallel workers fail, not the session's
    workers: bool = False
    # errors of its own: what lacks memory is not only PostgreSQL
    errors: frozenset[str] = frozenset()


TABLES = (
    "SELECT count(*), count(*) FILTER (WHERE relkind = 'i') FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace"
    " WHERE nspname = 'f'"
)
ROWS = "SELECT count(*), sum(i) FROM f.lazy"
# one segment, so that what is encoded is all or nothing; VACUUM leaves it alone
COLUMNS = (
    "DROP SCHEMA IF EXISTS f CASCADE; CREATE SCHEMA f; CREATE TABLE f.t AS SELECT i, i % 10 AS g, i / 7.0 AS n,"
    " 'text ' || i AS t FROM generate_series(1, 3000) i; VACUUM f.t"
)
INDEX = "CREATE INDEX c ON f.t USING columns (i, g, n, t) WITH (refresh_share = 1)"
CHECKED = "SELECT (SELECT array_agg(c) FROM pgbillion_rows.columns_check('f.t') c), (SELECT count(*) FROM f.t)"
COVERED = f"{CHECKED}, encoded_blocks, stale_blocks, readable_blocks FROM pgbillion_rows.columns_status('f.t')"
JOINED = "SET pgbillion_rows.vector_join = force; SET enable_nestloop = off; SET enable_mergejoin = off"
ROOM = "SET work_mem = '4MB'"
TOGETHER = (
    "SET max_parallel_workers_per_gather = 1; SET min_parallel_table_scan_size = 0; SET parallel_setup_cost = 0;"
    " SET parallel_tuple_cost = 0; SET pgbillion_rows.vector_exchange = force; SET client_min_messages = error"
)
JOIN = "SELECT s.t, count(*), sum(r.v), min(r.n) FROM g.rows r JOIN g.side s ON s.v = r.v GROUP BY 1 ORDER BY 1"
EXCHANGE = "SELECT count(*), sum(c) FROM (SELECT v, count(*) AS c FROM g.rows GROUP BY v) q"
TEMPLATE = (
    "DROP SCHEMA IF EXISTS f CASCADE; DROP SCHEMA IF EXISTS f1 CASCADE; DROP SCHEMA IF EXISTS f2 CASCADE;"
    " DROP SCHEMA IF EXISTS f3 CASCADE; DROP SCHEMA IF EXISTS f4 CASCADE; CREATE SCHEMA f;"
    " DELETE FROM pgbillion_tables.prepared_clones;"
    " CREATE TABLE f.a (id serial PRIMARY KEY, t text UNIQUE, CHECK (t <> ''));"
    " CREATE TABLE f.b (a integer REFERENCES f.a, at date DEFAULT current_date); CREATE INDEX ON f.b (at);"
    " CREATE VIEW f.both AS SELECT * FROM f.a JOIN f.b ON a = id;"
    " INSERT INTO f.a (t) SELECT repeat('x', i) FROM generate_series(1, 400) i; INSERT INTO f.b SELECT id FROM f.a"
)
CLONES = (
    "SELECT (SELECT count(*) FROM pg_namespace WHERE nspname ~ '^f[0-9]?$'), (SELECT count(*) FROM pg_class c"
    " JOIN pg_namespace n ON n.oid = relnamespace WHERE nspname ~ '^f[0-9]$'),"
    " (SELECT count(*) FROM pgbillion_tables.prepared_clones)"
)
# clones say nothing to the client meanwhile
LOGGED = "SET log_min_messages = debug1"
COMMANDS = {
    "create": Command(
        "SELECT pgbillion_tables.create_tables('f.template', 'made%d', 1, 60, schema => 'f')",
        "DROP SCHEMA IF EXISTS f CASCADE; CREATE SCHEMA f; CREATE TABLE f.template (id serial PRIMARY KEY, t text)",
        TABLES,
    ),
    "create lazy": Command(
        "SELECT pgbillion_tables.create_tables('f.template', 'made%d', 1, 60, schema => 'f', access_method =>"
        " 'lazy_heap')",
        "DROP SCHEMA IF EXISTS f CASCADE; CREATE SCHEMA f; CREATE TABLE f.template (id integer PRIMARY KEY, t text)",
        TABLES,
    ),
    "drop": Command(
        "SELECT pgbillion_tables.drop_tables(array_agg(c.oid::regclass)) FROM pg_class c"
        " WHERE relnamespace = 'f'::regnamespace AND relkind = 'r'",
        "DROP SCHEMA IF EXISTS f CASCADE; CREATE SCHEMA f; CREATE TABLE f.template (id serial PRIMARY KEY, t text);"
        " SELECT pgbillion_tables.create_tables('f.template', 'made%d', 1, 30, schema => 'f')",
        TABLES,
    ),
    "first row": Command(
        "INSERT INTO f.lazy VALUES (1, repeat('x', 10000))",
        "DROP SCHEMA IF EXISTS f CASCADE; CREATE SCHEMA f;"
        " CREATE TABLE f.lazy (i integer PRIMARY KEY, t text) USING lazy_heap; CREATE INDEX ON f.lazy (t)",
        ROWS,
    ),
    "to heap": Command(
        "SELECT pgbillion_tables.to_heap(ARRAY['f.lazy'::regclass])",
        "DROP SCHEMA IF EXISTS f CASCADE; CREATE SCHEMA f;"
        " CREATE TABLE f.lazy (i integer PRIMARY KEY, t text) USING lazy_heap",
        "SELECT amname FROM pg_class c JOIN pg_am a ON a.oid = relam WHERE c.oid = 'f.lazy'::regclass",
    ),
    "aggregate": Command(
        "SELECT g, count(*), sum(v), avg(n), min(t) FROM f.rows WHERE v < 30000 GROUP BY g ORDER BY g",
    ),
    "aggregate and spill": Command(
        "SELECT v, count(*), sum(n), min(t) FROM f.rows GROUP BY v ORDER BY v",
    ),
    "columns: build": Command(INDEX, COLUMNS, "SELECT count(*) FROM pg_index WHERE indrelid = 'f.t'::regclass"),
    "columns: insert": Command(
        "INSERT INTO f.t SELECT * FROM f.t WHERE i % 30 = 0",
        f"{COLUMNS}; {INDEX}; DELETE FROM f.t WHERE i = 5",
        CHECKED,
    ),
    "columns: refresh": Command(
        "CALL pgbillion_rows.columns_refresh('f.t')",
        f"{COLUMNS}; {INDEX}; UPDATE f.t SET t = md5(t) WHERE i % 300 = 0; VACUUM (INDEX_CLEANUP ON) f.t",
        COVERED,
    ),
    # dead rows may be gone before what fails
    "columns: vacuum": Command(
        "VACUUM (INDEX_CLEANUP ON) f.t",
        f"{COLUMNS}; {INDEX.replace('refresh_share = 1', 'refresh_share = 0')}; DELETE FROM f.t WHERE i % 300 = 0",
        "SELECT array_agg(c) FROM pgbillion_rows.columns_check('f.t') c",
    ),
    "columns: aggregate": Command("SELECT g, count(*), sum(v), avg(n), min(t) FROM f.rows GROUP BY g ORDER BY g"),
    "columns: aggregate and spill": Command(
        "SELECT t, sum(v), avg(n) FROM f.rows WHERE v < 30000 GROUP BY t ORDER BY t"
    ),
    "filter": Command(
        "SELECT v, t FROM f.rows WHERE t LIKE '%9%' AND n > 100 ORDER BY v",
    ),
}
COMMANDS |= {
    "join": Command(JOIN, settings=f"{JOINED}; {ROOM}", node="Inner Join 1"),
    "join and spill": Command(JOIN, settings=JOINED, node="Inner Join 1"),
    "join that returns rows": Command(
        "SELECT r.v, s.t FROM g.rows r LEFT JOIN g.side s ON s.v = r.v AND s.t <> 'side 7' ORDER BY 1, 2",
        settings=JOINED,
        node="VectorJoin",
    ),
    "distinct": Command("SELECT g, count(DISTINCT v), count(DISTINCT t) FROM g.rows GROUP BY g ORDER BY g"),
    "first rows": Command("SELECT v, t, n FROM g.rows ORDER BY n DESC, t LIMIT 30", settings=ROOM, node="Top"),
    "shared build side: session": Command(JOIN, settings=f"{JOINED}; {TOGETHER}", node="Parallel Seq Scan on side"),
    "shared build side: worker": Command(
        JOIN, settings=f"{JOINED}; {TOGETHER}", node="Parallel Seq Scan on side", workers=True
    ),
    "exchange: session": Command(EXCHANGE, settings=TOGETHER, node="Exchange"),
    "exchange: worker": Command(EXCHANGE, settings=TOGETHER, node="Exchange", workers=True),
    # the session's connection, too
    "shards": Command(
        "SELECT g, count(*), sum(v::bigint), avg(n), min(t) FROM g.far GROUP BY g ORDER BY g",
        node="Foreign Scan",
        # where libpq lacks the memory
        errors=frozenset({"08001", "08006", "HV001"}),
    ),
    "clone": Command("SELECT pgbillion_tables.clone_schema('f', 'f1')", TEMPLATE, CLONES),
    "clone with rows": Command(
        "SELECT pgbillion_tables.clone_schema('f', 'f1', all_rows => true)",
        TEMPLATE,
        f"{CLONES}, (SELECT sum(pg_relation_size(c.oid)) FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace"
        " WHERE nspname = 'f1')",
    ),
    "clones": Command("SELECT pgbillion_tables.clone_schemas('f', 'f%d', 1, 4)", TEMPLATE, CLONES, LOGGED),
    "clones with their own names": Command(
        "SELECT pgbillion_tables.clone_schemas('f', 'f%d', 1, 3, rewrite_bodies => true, join_publications => true)",
        f"{TEMPLATE}; CREATE FUNCTION f.n() RETURNS bigint LANGUAGE sql SET search_path = f"
        " AS 'SELECT count(*) FROM f.a -- f.b'; DROP PUBLICATION IF EXISTS p; CREATE PUBLICATION p FOR TABLE f.a",
        f"{CLONES}, (SELECT count(*) FROM pg_publication_rel), (SELECT count(*) FROM pg_proc p JOIN pg_namespace n"
        " ON n.oid = p.pronamespace WHERE prosrc = format('SELECT count(*) FROM %s.a -- %s.b', nspname, nspname))",
        LOGGED,
    ),
    "prepare a clone": Command("SELECT pgbillion_tables.prepare_clone('f')", TEMPLATE, CLONES),
    "prepared clone": Command(
        "SELECT pgbillion_tables.clone_schema('f', 'f1')",
        f"{TEMPLATE}; SELECT pgbillion_tables.prepare_clone('f')",
        CLONES,
    ),
    "fingerprints": Command(
        "SELECT fingerprint, tables FROM pgbillion_tables.schema_fingerprints(ARRAY['f'::regnamespace::oid])",
        TEMPLATE,
    ),
}
READING = ("aggregate", "aggregate and spill", "columns: aggregate", "columns: aggregate and spill", "filter")
FORCED = (
    "SET pgbillion_rows.vector_aggregate = force; SET pgbillion_rows.vector_scan = force; SET work_mem = '64kB';"
    " SET hash_mem_multiplier = 1; SET max_parallel_workers_per_gather = 0"
)


@pytest.fixture(scope="module")
def server(installation: Installation) -> Iterator[tuple[Cluster, Faults]]:
    # few buffers, so that commands read and write files
    settings = {"shared_buffers": "1MB", "log_min_messages": "warning"}
    with faulty_cluster(installation, settings) as (cluster, faults), servers.new_database(cluster, DATABASE):
        with cluster.connect(DATABASE) as conn:
            conn.execute(
                "CREATE SCHEMA g; CREATE TABLE g.rows AS SELECT i % 10 AS g, i AS v, i::numeric / 7 AS n,"
                " 'text ' || i AS t FROM generate_series(1, 40000) i"
            )
            conn.execute(
                "CREATE TABLE g.side AS SELECT i * 7 AS v, 'side ' || i % 20 AS t FROM generate_series(1, 5000) i"
            )
            conn.execute("VACUUM ANALYZE g.rows, g.side")
            conn.execute(
                "CREATE EXTENSION postgres_fdw; CREATE SERVER self FOREIGN DATA WRAPPER pgbillion_fdw OPTIONS (host"
                f" '{cluster.socket_dir}', port '{cluster.port}', dbname '{DATABASE}');"
                " CREATE USER MAPPING FOR PUBLIC SERVER self OPTIONS (user 'postgres');"
                " CREATE FOREIGN TABLE g.far (g integer, v integer, n numeric, t text) SERVER self OPTIONS"
                " (schema_name 'g', table_name 'rows')"
            )
            conn.execute("CREATE INDEX ON g.rows USING columns (g, v, n, t) WITH (segment_blocks = 32)")
        yield cluster, faults


def prepared(cluster: Cluster, command: Command, columns: bool) -> Connection:
    """A new session that is ready to run the command."""
    if command.prepare:
        with cluster.connect(DATABASE) as conn:
            for statement in command.prepare.split("; "):
                conn.execute(statement.encode())
    conn = cluster.connect(DATABASE)
    conn.prepare_threshold = None
    conn.execute(f"LOAD 'pgbillion_rows'; LOAD 'pgbillion_tables'; {FORCED}".encode())
    conn.execute(f"SET pgbillion_rows.columns = {'force' if columns else 'off'}")
    conn.execute(command.settings.encode())
    # where memory lacks for the second of PostgreSQL's two tables of types, it takes both for made, and crashes later
    conn.execute("SELECT n FROM (VALUES (1.5)) v (n) ORDER BY n")
    return conn


def state(cluster: Cluster, command: Command) -> Any:
    with cluster.connect(DATABASE) as conn:
        return conn.execute(command.state.encode()).fetchall()


def started(cluster: Cluster) -> Any:
    with cluster.connect() as conn:
        return servers.one(conn, "SELECT pg_postmaster_start_time()")


def some(calls: int) -> list[int]:
    """Numbers of the calls that are to fail."""
    if STRIDE:
        return list(range(1 + (SEED - 1) % STRIDE, calls + 1, STRIDE))
    if calls <= MOST:
        return list(range(1, calls + 1))
    first = MOST // 3
    return [
        *range(1, first + 1),
        *(first + 1 + round(i * (calls - first - 1) / (MOST - first - 1)) for i in range(MOST - first)),
    ]


def again(cluster: Cluster, conn: Connection, command: Command) -> Any:
    """Do in the same session what it could not; in another where this one has no HMAC any more."""
    try:
        return conn.execute(command.run.encode())
    except psycopg.errors.OutOfMemory as error:
        if not str(error).startswith(WITHOUT_HMAC):
            raise
    with cluster.connect(DATABASE) as other:
        return other.execute(command.run.encode())


def unsigned(cluster: Cluster, since: int) -> bool:
    """Whether the log, from there on, tells of a stamp that could not be signed."""
    with cluster.log.open("rb") as log:
        log.seek(since)
        return UNSIGNED in log.read()


def without_kept(before: Any, after: Any) -> Any:
    """What clones leave, of CLONES, where no stamp is kept that was not kept before."""
    ((_, _, kept, *_),), ((schemas, relations, _, *others),) = before, after
    return [(schemas, relations, kept, *others)]


@pytest.mark.parametrize("kind", Kind, ids=lambda kind: kind.name.lower())
@pytest.mark.parametrize("name", share(list(COMMANDS)))
def test_a_call_fails(
    server: tuple[Cluster, Faults], name: str, kind: Kind, tell: Callable[[str], None], counted: Count
) -> None:
    cluster, faults = server
    command = COMMANDS[name]
    if name in READING:
        command = Command(command.run.replace("f.rows", "g.rows"), command.prepare, command.state)
    before_all = started(cluster)
    columns = name.startswith("columns")
    with prepared(cluster, command, columns) as conn:
        before = state(cluster, command)
        if command.node:
            plan = conn.execute(f"EXPLAIN (COSTS OFF) {command.run}".encode()).fetchall()
            assert command.node in str(plan), plan
        with faults.counting(conn, kind, 0, workers=command.workers):
            whole = conn.execute(command.run.encode())
        calls = faults.calls
        # whoever reads one row of few looks at memory, and hardly at files
        assert calls > 0 or kind is not Kind.MEMORY
        expected = whole.fetchall() if whole.description else None
    after = state(cluster, command)
    errors = 0
    for number in some(calls):
        with prepared(cluster, command, columns) as conn:
            since = cluster.log.stat().st_size
            error: psycopg.Error | None = None
            try:
                with faults.counting(conn, kind, number, workers=command.workers):
                    cursor = conn.execute(command.run.encode())
            except psycopg.Error as raised:
                error = raised
            # the session goes on, and can do what it could not
            if error is not None:
                excused = (command.workers and str(error).startswith(WITHOUT_WORKER)) or (
                    kind is Kind.MEMORY and str(error).startswith(WITHOUT_MEMORY)
                )
                assert error.sqlstate in EXPECTED[kind] | command.errors or excused, (
                    f"call {number} of {calls}: {error}"
                )
                assert state(cluster, command) == before, f"call {number} of {calls}"
                errors += 1
                if conn.closed:
                    # whatever fails as a subtransaction begins, PostgreSQL ends the session
                    assert SUBTRANSACTION in str(error), f"call {number} of {calls} ended the session: {error!r}"
                    continue
                since = cluster.log.stat().st_size
                cursor = again(cluster, conn, command)
            if cursor.description:
                assert cursor.fetchall() == expected, f"call {number} of {calls}"
        keeps = kind is not Kind.MEMORY or not unsigned(cluster, since)
        wanted = after if keeps else without_kept(before, after)
        assert state(cluster, command) == wanted, f"call {number} of {calls}"
    assert started(cluster) == before_all, "the server was restarted"
    with cluster.connect(DATABASE) as conn:
        assert invariants.index_errors(conn) == []
        assert invariants.reference_errors(conn) == []
        assert servers.one(conn, "SELECT count(*) FROM pg_ls_tmpdir()") == 0
    tell(f"{calls} calls, {len(some(calls))} of them failed, {errors} errors")
    counted({"calls that failed": len(some(calls)), "with an error": errors})

"""Generated queries that are disturbed: what a query had taken is given back, and the next one answers as ever.

They are cancelled at random moments, run out of memory (a limit of address space put on the running backend), out of
disk (temp_file_limit), or lose a parallel worker. PGBILLION_TEST_DISTURBED is how many queries each (default 150),
PGBILLION_TEST_SEED repeats the queries; the moments are chance.
"""

from __future__ import annotations

import os
import random
import resource
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import psycopg
import pytest

from harness import servers, sessions, vector_compare, vector_tables
from harness.amount import Count, amount
from harness.join_queries import JoinQuery, MixedGenerator, schema
from harness.outcomes import leaving_nothing
from harness.vector_compare import Outcome
from harness.vector_queries import Generator, Query
from pgbillion.common.connection import Connection
from pgbillion.rows import answers
from pgbillion.server.postgres import Cluster

QUERIES = amount("PGBILLION_TEST_DISTURBED", 150, 40)
SEED = int(os.environ.get("PGBILLION_TEST_SEED") or random.SystemRandom().randrange(2**31))
CANCELED, OUT_OF_MEMORY, NO_LIBRARY, NO_MORE_FILES, STOPPED = "57014", "53200", "58P01", "53400", "57P01"
DATABASE = "vectors"
# tables in a schema of that name
JOINED = schema(SEED)
# whoever makes joins must not wait for products of large tables
PATIENCE = "3s"
# more than this would be memory that queries have left behind
KEPT_BYTES = 8 * 2**20

FORCED = (("pgbillion_rows.vector_aggregate", "force"), ("pgbillion_rows.vector_join", "force"))

Disturb = Callable[[random.Random, Connection, float], Any]


@pytest.fixture(scope="module")
def own_cluster() -> Iterator[Cluster]:
    """A server whose log is ours alone."""
    with (
        servers.new_cluster(servers.installation(), {"log_min_messages": "warning"}) as cluster,
        servers.new_database(cluster, DATABASE),
        cluster.connect(DATABASE) as conn,
    ):
        vector_tables.make(conn, random.Random(SEED).uniform(-1, 1))
        conn.execute("CREATE SCHEMA joins; SET search_path = joins")
        for statement in JOINED.statements:
            conn.execute(statement.encode())
        yield cluster


def session(cluster: Cluster) -> Connection:
    conn = cluster.connect(DATABASE)
    conn.prepare_threshold = None
    conn.execute(
        "LOAD 'pgbillion_rows'; LOAD 'pgbillion_tables'; SET search_path = v, public; SET synchronize_seqscans = off;"
        " SET extra_float_digits = 1; SET timezone = 'UTC'; SET statement_timeout = '60s'"
    )
    # PostgreSQL 18 itself crashes later where memory is lacking between its two caches of types
    conn.execute("SELECT DISTINCT 1")
    return conn


@contextmanager
def canceled(chance: random.Random, conn: Connection, seconds: float) -> Iterator[None]:
    """Cancel what runs within the time that it took before, half of which went into other statements and threads."""
    delay, backend = chance.uniform(0, seconds / 2), sessions.pid(conn)

    def cancel() -> None:
        time.sleep(delay)
        # what pg_cancel_backend() does, without the time that it takes
        os.kill(backend, signal.SIGINT)

    thread = threading.Thread(target=cancel)
    thread.start()
    try:
        yield
    finally:
        thread.join()


@contextmanager
def short_of_memory(chance: random.Random, conn: Connection, seconds: float) -> Iterator[None]:
    """Let the backend take little more memory from the system."""
    backend = sessions.pid(conn)
    pages = int(Path(f"/proc/{backend}/statm").read_text(encoding="ascii").split()[0])
    more = int(2 ** chance.uniform(13, 23))
    limit_memory(backend, str(pages * resource.getpagesize() + more))
    try:
        yield
    finally:
        limit_memory(backend, "unlimited")


def limit_memory(process: int, most: str) -> None:
    """Set how large a process may be, as its own user: root in a container may not."""
    owner = Path(f"/proc/{process}").stat()
    other = {"user": owner.st_uid, "group": owner.st_gid, "extra_groups": []} if os.geteuid() == 0 else {}
    subprocess.run(["prlimit", f"--pid={process}", f"--as={most}:"], check=True, **other)  # type: ignore[call-overload]


@contextmanager
def short_of_disk(chance: random.Random, conn: Connection, seconds: float) -> Iterator[None]:
    """Let the session spill next to nothing."""
    conn.execute(f"SET LOCAL temp_file_limit = {chance.choice((0, 8, 64))}; SET LOCAL work_mem = '64kB'")
    conn.execute("SET LOCAL hash_mem_multiplier = 1")
    yield


@contextmanager
def without_workers(chance: random.Random, conn: Connection, seconds: float) -> Iterator[None]:
    """Stop a parallel worker if one is met."""
    conn.execute(
        "SET LOCAL max_parallel_workers_per_gather = 2; SET LOCAL min_parallel_table_scan_size = 0;"
        " SET LOCAL parallel_setup_cost = 0; SET LOCAL parallel_tuple_cost = 0"
    )
    over, leader = threading.Event(), sessions.pid(conn)

    def stop() -> None:
        with psycopg.connect(conn.info.dsn, autocommit=True) as other:
            while not over.is_set():
                other.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE leader_pid = %s", (leader,))

    thread = threading.Thread(target=stop)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def run(
    conn: Connection, query: Query | JoinQuery, disturb: Disturb | None, chance: random.Random, seconds: float
) -> Outcome:
    """Run a query in a transaction of its own, the session left as it was."""
    found: list[answers.Answer] = []
    error: tuple[str, str] | None = None
    conn.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    for name, value in FORCED:
        conn.execute(f"SET LOCAL {name} = {value}".encode())
    for setting in query.settings:
        conn.execute(f"SET LOCAL {setting if isinstance(setting, str) else ' = '.join(setting)}".encode())
    try:
        if disturb is None:
            found = [answers.answer(cursor) for cursor in executed(conn, query)]
        else:
            with disturb(chance, conn, seconds):
                found = [answers.answer(cursor) for cursor in executed(conn, query)]
    except psycopg.Error as raised:
        error = (raised.sqlstate or "", raised.diag.message_primary or str(raised))
        # PostgreSQL has no code of its own for a regular expression that lacks memory
        if error[0] == "2201B" and error[1].endswith(": out of memory"):
            error = (OUT_OF_MEMORY, error[1])
    # a cancellation may come late, and nobody waits for it
    while True:
        try:
            conn.execute("ROLLBACK")
            conn.execute("DEALLOCATE ALL")
            break
        except psycopg.errors.QueryCanceled:
            continue
    return Outcome(found, error)


def executed(conn: Connection, query: Query | JoinQuery) -> Iterator[psycopg.Cursor[tuple[Any, ...]]]:
    """The statements' cursors, as they are run."""
    before, last = query.statements()
    for statement in before if isinstance(query, Query) else [*before, last]:
        cursor = conn.execute(statement.encode())
        if cursor.description is not None:
            yield cursor


def kept_bytes(conn: Connection) -> int:
    """Memory of the session that is not of caches, which grow with what is looked at."""
    return int(
        servers.one(
            conn,
            "SELECT sum(total_bytes) FROM pg_backend_memory_contexts WHERE name IN ('TopMemoryContext',"
            " 'TopTransactionContext', 'TopPortalContext', 'PortalContext', 'ExecutorState', 'MessageContext',"
            " 'ErrorContext')",
        )
    )


DISTURBED = pytest.mark.parametrize(
    ("disturb", "allowed"),
    [
        (canceled, {CANCELED}),
        # a library that is loaded only now does not fit either
        (short_of_memory, {OUT_OF_MEMORY, NO_LIBRARY}),
        (short_of_disk, {NO_MORE_FILES}),
        # a worker that is stopped before it has begun is one that did not start
        (without_workers, {STOPPED, "55000", "XX000"}),
    ],
    ids=("canceled", "short of memory", "short of disk", "without workers"),
)


@DISTURBED
def test_a_disturbed_query_leaves_nothing_behind(
    own_cluster: Cluster, disturb: Disturb, allowed: set[str], tell: Callable[[str], None], counted: Count
) -> None:
    chance, tally = random.Random(SEED), Counter[str]()
    generator = Generator(SEED)
    with leaving_nothing(own_cluster, DATABASE), session(own_cluster) as conn:
        kept = 0
        for number in range(QUERIES):
            query = generator.query(number)
            start = time.perf_counter()
            whole = run(conn, query, None, chance, 0)
            seconds = time.perf_counter() - start
            where = f"seed {SEED}, number {number}: {query}"
            # a session that is new has less memory in reserve
            with session(own_cluster) if disturb is short_of_memory else nullcontext(conn) as disturbed_session:
                disturbed = run(disturbed_session, query, disturb, chance, seconds)
                if disturbed.error is not None and disturbed.error[0] in allowed:
                    tally[disturbed.error[0]] += 1
                elif disturb is not without_workers or "_agg(" not in str(query):
                    # parallel plans add in another order, and so does who spills
                    differs = vector_compare.difference(query, whole, disturbed, reordered=True)
                    assert differs is None, f"{where}: {differs}"
                    tally["answered"] += 1
                else:
                    # equal keys of an ORDER BY within it come as they like
                    assert disturbed.error is None, where
                again = run(disturbed_session, query, None, chance, 0)
                assert vector_compare.difference(query, whole, again, reordered=True) is None, where
            if number == QUERIES // 4:
                kept = kept_bytes(conn)
        assert kept_bytes(conn) <= kept + KEPT_BYTES
    report(tally, allowed, tell, counted)


def report(tally: Counter[str], allowed: set[str], tell: Callable[[str], None], counted: Count) -> None:
    disturbed = sum(tally[state] for state in allowed)
    tell(f"seed {SEED}: {dict(tally)}")
    counted({"queries": disturbed + tally["answered"], "that were stopped by it": disturbed})
    assert disturbed >= QUERIES // 40, "hardly any query was disturbed"


@DISTURBED
def test_a_disturbed_join_leaves_nothing_behind(
    own_cluster: Cluster, disturb: Disturb, allowed: set[str], tell: Callable[[str], None], counted: Count
) -> None:
    """The same for joins: their tables, what they spill and what the processes of a plan share."""
    chance, tally = random.Random(SEED), Counter[str]()
    generator = MixedGenerator(SEED, JOINED, exact=True)
    with leaving_nothing(own_cluster, DATABASE), session(own_cluster) as conn:
        conn.execute("SET search_path = joins")
        kept = 0
        for number in range(QUERIES):
            query = generator.query()
            where = f"seed {SEED}, number {number}: {query}"
            conn.execute(f"SET statement_timeout = '{PATIENCE}'".encode())
            start = time.perf_counter()
            whole = run(conn, query, None, chance, 0)
            seconds = time.perf_counter() - start
            conn.execute("SET statement_timeout = '60s'")
            if whole.error is not None:
                # a product of large tables, or an error of the data
                assert whole.error[0][:2] in ("57", "22", "0A"), where
                continue
            with session(own_cluster) if disturb is short_of_memory else nullcontext(conn) as disturbed_session:
                disturbed_session.execute("SET search_path = joins")
                disturbed = run(disturbed_session, query, disturb, chance, seconds)
                if disturbed.error is not None and disturbed.error[0] in allowed:
                    tally[disturbed.error[0]] += 1
                else:
                    assert same(whole, disturbed), f"{disturbed.error}: {where}"
                    tally["answered"] += 1
                assert same(whole, run(disturbed_session, query, None, chance, 0)), where
            if number == QUERIES // 4:
                kept = kept_bytes(conn)
        assert kept_bytes(conn) <= kept + KEPT_BYTES
    report(tally, allowed, tell, counted)


def same(one: Outcome, two: Outcome) -> bool:
    """Their sums are exact, in whatever order they are added."""
    return one.error == two.error and all(
        answers.difference(*each) is None for each in zip(one.answers, two.answers, strict=True)
    )

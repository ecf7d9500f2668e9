"""A shard is lost, or is heard no more, after each of its messages: an error, and the session and the next query go on.

So they do if the clock is set while one waits for a shard.

How many messages there are is counted first. PGBILLION_TEST_STEPS is how many of them are tried of each kind (default
15): the first ones, the last one, and evenly spread ones of the others.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import psycopg
import pytest

from harness import servers
from harness.amount import amount
from harness.faults import Faults, faulty_cluster
from harness.relay import PORT, Relay, relay
from harness.sessions import Running, pid
from harness.shards import make_coordinator, plan, shard_table, shards
from pgbillion.common.connection import Connection
from pgbillion.server.postgres import Cluster, Installation

MOST = amount("PGBILLION_TEST_STEPS", 15, 5)
QUERY = "SELECT g, count(*), sum(i::bigint), avg(n), max(t) FROM many GROUP BY g ORDER BY g"
# as long as a shard may be silent
PATIENCE = "150ms"
# until a connection is given up, in seconds: the least that libpq obeys
TIMEOUT = 2
# what is done with the connection before the messages are counted, and how the query is asked
SESSIONS = {
    # the connection, its settings, the checks of the catalog
    "first query": ("", ""),
    "next query": (QUERY, ""),
    # postgres_fdw's connection and cursor, with our aggregates
    "snapshot": (QUERY, "BEGIN ISOLATION LEVEL REPEATABLE READ"),
}
Answer = list[tuple[Any, ...]]


@pytest.fixture(scope="module")
def between(cluster: Cluster, database: str) -> Iterator[Relay]:
    """Two shards, the second one behind a relay."""
    with (
        servers.temporary_folder() as folder,
        relay(folder, cluster.socket_dir / f".s.PGSQL.{cluster.port}") as relayed,
        shards([cluster, cluster], "step") as members,
        cluster.connect(database) as conn,
    ):
        make_coordinator(conn, members)
        conn.execute(f"ALTER SERVER {members[1].name} OPTIONS (SET host '{folder}', SET port '{PORT}')")
        shard_table(conn, members, "many", "i integer, g integer, n numeric, t text")
        conn.execute("INSERT INTO many SELECT i, i % 5, i / 7.0, 'row ' || i FROM generate_series(1, 300) i")
        yield relayed
        conn.execute("DROP TABLE many; DROP SERVER s1 CASCADE; DROP SERVER s2 CASCADE")


def coordinator(cluster: Cluster, database: str) -> Connection:
    conn = cluster.connect(database)
    conn.prepare_threshold = None
    conn.execute("SET enable_partitionwise_aggregate = on")
    return conn


def ask(conn: Connection, before: str) -> Answer | psycopg.Error:
    """The answer or the error; no transaction is left open."""
    outcome: Answer | psycopg.Error
    try:
        if before:
            conn.execute(before.encode())
        outcome = conn.execute(QUERY).fetchall()
        if before:
            conn.execute("COMMIT")
    except psycopg.Error as error:
        outcome = error
    assert not conn.broken, outcome
    if isinstance(outcome, psycopg.Error) and before:
        conn.execute("ROLLBACK")
    return outcome


def steps(messages: int) -> list[int]:
    """The numbers of the last messages that are heard."""
    if messages <= MOST:
        return list(range(1, messages + 1))
    first = MOST // 3
    spread = [first + 1 + round(i * (messages - first - 1) / (MOST - first - 1)) for i in range(MOST - first)]
    return [*range(1, first + 1), *spread]


def idle(cluster: Cluster) -> bool:
    """Has every shard ended its query?"""
    with cluster.connect() as conn:
        query = "SELECT count(*) FROM pg_stat_activity WHERE datname ~ '^step_' AND state = 'active'"
        return int(servers.one(conn, query)) == 0


# postgres_fdw itself waits for half a minute until it gives up a connection that says nothing
CASES = [(name, stalls) for name in SESSIONS for stalls in (False, True) if not stalls or name != "snapshot"]


@pytest.mark.parametrize(("name", "stalls"), CASES, ids=lambda one: {True: "stalled", False: "lost"}.get(one, one))
def test_after_each_message(
    cluster: Cluster, database: str, between: Relay, name: str, stalls: bool, tell: Callable[[str], None]
) -> None:
    first, before = SESSIONS[name]
    with coordinator(cluster, database) as conn:
        assert "partial_avg" in plan(conn, QUERY)
        if first:
            ask(conn, before)
        between.begin()
        expected = ask(conn, before)
        messages = between.passed
    assert isinstance(expected, list), expected
    assert len(expected) == 5
    assert messages > (30 if not first else 5)
    errors = 0
    for last in steps(messages):
        with coordinator(cluster, database) as conn:
            if first:
                assert ask(conn, before) == expected
            if stalls:
                conn.execute(f"SET statement_timeout = '{PATIENCE}'")
            between.begin(last, stalls=stalls)
            answer = ask(conn, before)
            if isinstance(answer, psycopg.Error):
                errors += 1
                known = ("57014",) if stalls else ("08006", "08001", "08003", "08000", "HV000")
                assert answer.sqlstate in known, f"message {last} of {messages}: {answer!r}"
            else:
                # what was not heard was of no use to the query
                assert answer == expected, f"message {last} of {messages}"
            between.end()
            conn.execute("SET statement_timeout = '60s'")
            assert ask(conn, before) == expected, f"after message {last} of {messages}"
    servers.until(partial(idle, cluster), "both shards to be told")
    assert errors > 0
    tell(f"{messages} messages, {len(steps(messages))} of them were the last one, {errors} errors")


@pytest.fixture(scope="module")
def clock(installation: Installation) -> Iterator[tuple[Cluster, Faults]]:
    """A coordinator with one shard, which lets in everybody, and never says anything."""
    with (
        servers.temporary_folder() as folder,
        socket.socket(socket.AF_UNIX) as silent,
        faulty_cluster(installation, {}) as (cluster, faults),
    ):
        silent.bind(str(folder / f".s.PGSQL.{PORT}"))
        (folder / f".s.PGSQL.{PORT}").chmod(0o777)
        silent.listen()
        with cluster.connect() as conn:
            conn.execute("CREATE EXTENSION postgres_fdw; CREATE EXTENSION pgbillion_rows")
            conn.execute(
                f"CREATE SERVER silent FOREIGN DATA WRAPPER pgbillion_fdw OPTIONS (host '{folder}', port '{PORT}',"
                f" connect_timeout '{TIMEOUT}'); CREATE USER MAPPING FOR PUBLIC SERVER silent;"
                " CREATE FOREIGN TABLE far (i integer) SERVER silent"
            )
        yield cluster, faults


@pytest.mark.parametrize("hours", [-1, 1])
def test_a_clock_that_is_set(clock: tuple[Cluster, Faults], hours: int) -> None:
    """A shard is waited for as long as it should, as time goes, not by the clock of the day."""
    cluster, faults = clock
    faults.set_clock(0)
    with cluster.connect() as conn, cluster.connect() as other:
        before = servers.one(other, "SELECT clock_timestamp()")
        start = time.monotonic()
        asking = Running(lambda: conn.execute("SELECT count(*) FROM far"))
        waits = "SELECT wait_event IS NOT NULL AND state = 'active' FROM pg_stat_activity WHERE pid = %s"
        servers.until(lambda: servers.one(other, waits, pid(conn)), "the coordinator to wait")
        faults.set_clock(hours * 3600)
        jumped = servers.one(other, "SELECT clock_timestamp()") - before
        assert abs(jumped.total_seconds() - hours * 3600) < 600
        try:
            with pytest.raises(psycopg.errors.SqlclientUnableToEstablishSqlconnection, match="could not connect"):
                asking.result(10 * TIMEOUT)
        finally:
            # nothing may wait for an hour
            other.execute("SELECT pg_terminate_backend(%s)", [pid(conn)])
            servers.until(lambda: asking.done, "the query to end")
        assert TIMEOUT * 0.9 < time.monotonic() - start < 8 * TIMEOUT
    faults.set_clock(0)

"""Shards, each a server of its own, that are lost, stopped, refused, restarted; cancelled queries; no leaks."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest

from harness import servers
from harness.disk import fill, small_disk
from harness.shards import Shard, make_coordinator, shard_table, shards
from pgbillion.common.connection import Connection
from pgbillion.server.postgres import Cluster, Installation, make_folder

QUERY = "SELECT g, count(*), sum(i::bigint), avg(i) FROM many GROUP BY g ORDER BY g"
# answered by shards after a minute, unless something happens before
SLOW = "SELECT g, count(*) FROM slow GROUP BY g"
RUNNING = (
    "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%FROM public.slow%' AND state = 'active' AND pid <>"
    " pg_backend_pid()"
)


@pytest.fixture(scope="module")
def members(installation: Installation) -> Iterator[list[Shard]]:
    with ExitStack() as stack:
        clusters = [
            stack.enter_context(servers.new_cluster(installation, {"shared_buffers": "16MB"})) for _ in range(2)
        ]
        yield stack.enter_context(shards(clusters, "far"))


@pytest.fixture(scope="module")
def prepared(cluster: Cluster, database: str, members: list[Shard]) -> Iterator[list[tuple[Any, ...]]]:
    """What the shards should answer."""
    with cluster.connect(database) as conn:
        make_coordinator(conn, members)
        shard_table(conn, members, "many", "i integer, g integer", local=1)
        conn.execute("INSERT INTO many SELECT i, i % 3 FROM generate_series(1, 3000) i")
        conn.execute("CREATE TABLE slow (i integer, g integer) PARTITION BY LIST (i)")
        for number, shard in enumerate(members):
            with shard.connect() as there:
                there.execute(f"CREATE VIEW slow_{number} AS SELECT i, g FROM many_{number}, pg_sleep(60)")
            conn.execute(
                f"CREATE FOREIGN TABLE slow_{number} PARTITION OF slow FOR VALUES IN ({number}) SERVER {shard.name}"
            )
        yield conn.execute(QUERY).fetchall()


@pytest.fixture
def coordinator(
    cluster: Cluster, database: str, members: list[Shard], prepared: list[tuple[Any, ...]]
) -> Iterator[Connection]:
    with cluster.connect(database) as conn:
        conn.execute("SET enable_partitionwise_aggregate = on")
        yield conn
    for shard in members:
        if not shard.cluster.running():
            shard.cluster.start()
    with cluster.connect(database) as conn:
        conn.execute("SET enable_partitionwise_aggregate = on; SET statement_timeout = '60s'")
        assert conn.execute(QUERY).fetchall() == prepared


def running(shard: Shard) -> int:
    with shard.connect() as conn:
        return int(servers.one(conn, RUNNING))


@contextmanager
def asked(conn: Connection, query: str) -> Iterator[Callable[[], BaseException | list[tuple[Any, ...]]]]:
    """The query runs meanwhile; what is yielded waits for its end and returns rows or error."""
    outcome: list[BaseException | list[tuple[Any, ...]]] = []
    pid = conn.info.backend_pid

    def ask() -> None:
        try:
            outcome.append(conn.execute(query).fetchall())
        except psycopg.Error as error:
            outcome.append(error)

    thread = threading.Thread(target=ask)
    thread.start()

    def wait() -> BaseException | list[tuple[Any, ...]]:
        thread.join(300)
        assert not thread.is_alive(), "the query hangs"
        return outcome[0]

    try:
        yield wait
    finally:
        # nothing may hold up the tests after this one
        for end in (conn.cancel, lambda: os.kill(pid, signal.SIGTERM), lambda: os.kill(pid, signal.SIGKILL)):
            if thread.is_alive():
                end()
                thread.join(30)


def stop(cluster: Cluster) -> bool:
    """Send SIGSTOP to every process of the server; tells whether they were all stopped before."""
    done = True
    for process in cluster._processes():
        # sessions end meanwhile
        with suppress(psutil.NoSuchProcess):
            if process.status() != psutil.STATUS_STOPPED:
                process.suspend()
                done = False
    return done


def resume(cluster: Cluster) -> None:
    """Let all that is stopped go on; fine if nothing is."""
    for process in cluster._processes():
        with suppress(psutil.NoSuchProcess):
            process.resume()


@contextmanager
def stopped(*members: Shard) -> Iterator[None]:
    """Every process of these shards' servers stopped by SIGSTOP; they go on afterwards, whatever happened."""
    try:
        for member in members:
            servers.until(partial(stop, member.cluster), "all processes to stop")
        yield
    finally:
        for member in members:
            resume(member.cluster)


def test_a_killed_shard(coordinator: Connection, members: list[Shard]) -> None:
    with asked(coordinator, SLOW) as outcome:
        servers.until(lambda: all(map(running, members)), "both shards to work")
        members[1].cluster.kill()
        error = outcome()
    assert isinstance(error, psycopg.Error), error
    assert 'server "s2": ' in str(error)
    servers.until(lambda: running(members[0]) == 0, "the other shard to be told")
    with pytest.raises(
        psycopg.errors.SqlclientUnableToEstablishSqlconnection, match='could not connect to server "s2"'
    ):
        coordinator.execute(QUERY)


def test_a_terminated_session_of_a_shard(coordinator: Connection, members: list[Shard]) -> None:
    with asked(coordinator, SLOW) as outcome:
        servers.until(lambda: all(map(running, members)), "both shards to work")
        with members[0].connect() as conn:
            conn.execute(RUNNING.replace("count(*)", "pg_terminate_backend(pid)"))
        error = outcome()
    assert isinstance(error, psycopg.errors.AdminShutdown), error
    assert 'server "s1": terminating connection' in str(error)
    assert error.diag.context is not None
    assert "remote SQL command: SELECT g, count(*) FROM public.slow_0" in error.diag.context


def test_an_error_on_a_shard(coordinator: Connection, members: list[Shard]) -> None:
    query = "SELECT g, sum(1 / (i - 5)) FROM many GROUP BY g"
    for _ in range(3):
        with pytest.raises(psycopg.errors.DivisionByZero):
            coordinator.execute(query)
    with pytest.raises(psycopg.errors.DivisionByZero, match=r'server "s1": division by zero'):
        coordinator.execute("SELECT sum(1 / (i - i)) FROM many_0")


def test_a_restarted_shard_is_connected_to_again(
    coordinator: Connection, members: list[Shard], prepared: list[tuple[Any, ...]]
) -> None:
    assert coordinator.execute(QUERY).fetchall() == prepared
    for mode in ("fast", "immediate"):
        members[0].cluster.stop(mode)
        members[0].cluster.start()
        assert coordinator.execute(QUERY).fetchall() == prepared


def test_a_refused_connection(coordinator: Connection, members: list[Shard], prepared: list[tuple[Any, ...]]) -> None:
    members[0].cluster.stop()
    with pytest.raises(
        psycopg.errors.SqlclientUnableToEstablishSqlconnection, match='could not connect to server "s1"'
    ) as caught:
        coordinator.execute(QUERY)
    assert caught.value.diag.message_detail
    members[0].cluster.start()
    assert coordinator.execute(QUERY).fetchall() == prepared


@pytest.mark.parametrize("warm", [True, False])
def test_a_stopped_shard_and_a_statement_timeout(
    coordinator: Connection, members: list[Shard], prepared: list[tuple[Any, ...]], warm: bool
) -> None:
    if warm:
        assert coordinator.execute(QUERY).fetchall() == prepared
    with stopped(members[0]):
        # the setting goes with the transaction
        with coordinator.transaction(force_rollback=True):
            coordinator.execute("SET LOCAL statement_timeout = '500ms'")
            with asked(coordinator, QUERY) as outcome:
                error = outcome()
        assert isinstance(error, psycopg.errors.QueryCanceled), error
        assert "statement timeout" in str(error)
    assert coordinator.execute(QUERY).fetchall() == prepared


def test_a_stopped_shard_and_a_connect_timeout(
    coordinator: Connection, members: list[Shard], prepared: list[tuple[Any, ...]]
) -> None:
    coordinator.execute("ALTER SERVER s1 OPTIONS (ADD connect_timeout '2')")
    try:
        with stopped(members[0]):
            for query in (QUERY, "SELECT count(*) FROM many_0"):
                with asked(coordinator, query) as outcome:
                    error = outcome()
                assert isinstance(error, psycopg.errors.SqlclientUnableToEstablishSqlconnection), error
                assert 'could not connect to server "s1"' in str(error)
                assert "timeout expired" in str(error)
    finally:
        coordinator.execute("ALTER SERVER s1 OPTIONS (DROP connect_timeout)")
    assert coordinator.execute(QUERY).fetchall() == prepared


def test_every_shard_has_its_own_connect_timeout(
    cluster: Cluster, database: str, coordinator: Connection, members: list[Shard]
) -> None:
    """Whichever is connected to first."""
    for patient, hasty in (members, reversed(members)):
        for name, seconds in ((patient.name, 1000), (hasty.name, 2)):
            coordinator.execute(f"ALTER SERVER {name} OPTIONS (ADD connect_timeout '{seconds}')")
        try:
            # of a session's first statement no timer of the server's own is left that would wake it by chance
            with (
                cluster.connect(database, options="-c enable_partitionwise_aggregate=on") as conn,
                stopped(*members),
                asked(conn, QUERY) as outcome,
            ):
                error = outcome()
            assert isinstance(error, psycopg.errors.SqlclientUnableToEstablishSqlconnection), error
            assert f'could not connect to server "{hasty.name}"' in str(error)
            assert "timeout expired" in str(error)
        finally:
            for member in members:
                coordinator.execute(f"ALTER SERVER {member.name} OPTIONS (DROP connect_timeout)")


def waits(session: Connection, cluster: Cluster) -> bool:
    """Does a session wait in the middle of a query, each of several times that it is looked at?"""
    query = "SELECT state = 'active' AND wait_event IS NOT NULL FROM pg_stat_activity WHERE pid = %s"
    with cluster.connect() as conn:
        return all(servers.one(conn, query, session.info.backend_pid) for _ in range(20))


def test_a_slow_shard_is_waited_for(
    cluster: Cluster, coordinator: Connection, members: list[Shard], prepared: list[tuple[Any, ...]]
) -> None:
    with stopped(members[0]), asked(coordinator, QUERY) as outcome:
        servers.until(partial(waits, coordinator, cluster), "the coordinator to wait")
        resume(members[0].cluster)
        assert outcome() == prepared


def test_cancel_reaches_every_shard(
    coordinator: Connection, members: list[Shard], prepared: list[tuple[Any, ...]]
) -> None:
    for _ in range(3):
        with asked(coordinator, SLOW) as outcome:
            servers.until(lambda: all(map(running, members)), "both shards to work")
            coordinator.cancel()
            assert isinstance(outcome(), psycopg.errors.QueryCanceled)
        servers.until(lambda: not any(map(running, members)), "both shards to be told")
        assert coordinator.execute(QUERY).fetchall() == prepared
    # inside a savepoint, and by a timeout
    with coordinator.transaction():
        coordinator.execute("SET LOCAL statement_timeout = '200ms'")
        with pytest.raises(psycopg.errors.QueryCanceled), coordinator.transaction():
            coordinator.execute(SLOW)
        coordinator.execute("SET LOCAL statement_timeout = 0")
        servers.until(lambda: not any(map(running, members)), "both shards to be told")
        assert coordinator.execute(QUERY).fetchall() == prepared


def test_the_end_of_the_coordinators_session_reaches_every_shard(
    cluster: Cluster, database: str, coordinator: Connection, members: list[Shard]
) -> None:
    with cluster.connect(database) as conn:
        conn.execute("SET enable_partitionwise_aggregate = on")
        with asked(conn, SLOW) as outcome:
            servers.until(lambda: all(map(running, members)), "both shards to work")
            coordinator.execute("SELECT pg_terminate_backend(%s)", [conn.info.backend_pid])
            assert isinstance(outcome(), psycopg.Error)
        servers.until(lambda: not any(map(running, members)), "both shards to be told")


def descriptors(pid: int) -> int:
    return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())


def memory(conn: Connection) -> int:
    return int(servers.one(conn, "SELECT sum(used_bytes) FROM pg_backend_memory_contexts"))


def resident(pid: int) -> int:
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Private_Dirty:"):
            return int(line.split()[1])
    raise AssertionError("no Private_Dirty")


# more than work_mem, sorted above what the shards answer, before all rows have come
SPILLING = "SELECT i, count(*) FROM many GROUP BY i % 1, i ORDER BY 2, 1"


def idle(shard: Connection) -> bool:
    query = (
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state <> 'idle'"
        " AND pid <> pg_backend_pid()"
    )
    return int(servers.one(shard, query)) == 0


def check_full_disk(conn: Connection, members: list[Shard], error: type[psycopg.Error]) -> None:
    """The query fails with this error, over and over, and leaves nothing behind."""
    pid = conn.info.backend_pid
    opened = []
    for _ in range(5):
        with pytest.raises(error):
            conn.execute(SPILLING)
        assert len(conn.execute(QUERY).fetchall()) == 3
        opened.append(descriptors(pid))
    assert opened[-1] <= opened[1]
    for shard in members:
        with shard.connect() as there:
            servers.until(partial(idle, there), "the shard to be idle")


def test_no_room_for_temporary_files_by_a_limit(coordinator: Connection, members: list[Shard]) -> None:
    expected = coordinator.execute(SPILLING).fetchall()
    coordinator.execute("SET work_mem = '64kB'; SET temp_file_limit = '64kB'")
    check_full_disk(coordinator, members, psycopg.errors.ConfigurationLimitExceeded)
    coordinator.execute("RESET temp_file_limit")
    assert coordinator.execute(SPILLING).fetchall() == expected


def test_a_full_disk_of_the_coordinator(cluster: Cluster, coordinator: Connection, members: list[Shard]) -> None:
    expected = coordinator.execute(SPILLING).fetchall()
    with servers.temporary_folder() as folder, small_disk(folder / "disk", "size=4m") as disk:
        make_folder(disk / "space", private=True, for_server=True)
        coordinator.execute(f"CREATE TABLESPACE small LOCATION '{disk / 'space'}'")
        try:
            coordinator.execute("SET temp_tablespaces = small; SET work_mem = '64kB'")
            # its folders are made by the first temporary file
            assert coordinator.execute(SPILLING).fetchall() == expected
            filler = fill(disk)
            check_full_disk(coordinator, members, psycopg.errors.DiskFull)
            assert not [path for path in disk.rglob("pgsql_tmp/*") if path.is_file()]
            filler.unlink()
            assert coordinator.execute(SPILLING).fetchall() == expected
        finally:
            coordinator.execute("RESET temp_tablespaces")
            coordinator.execute("DROP TABLESPACE small")


def test_nothing_leaks(
    coordinator: Connection, members: list[Shard], prepared: list[tuple[Any, ...]], tell: Callable[[str], None]
) -> None:
    """Good queries, errors on a shard, errors here in the middle of the rows, cursors that are not read to the end."""
    pid = coordinator.info.backend_pid
    coordinator.prepare_threshold = None
    numbers = "SELECT i, count(*) FROM many GROUP BY i % 1, i"

    def work(times: int) -> None:
        for turn in range(times):
            assert coordinator.execute(QUERY).fetchall() == prepared
            if turn % 10 == 0:
                with pytest.raises(psycopg.errors.DivisionByZero):
                    coordinator.execute("SELECT sum(1 / (i - i)) FROM many_0")
                with pytest.raises(psycopg.errors.DivisionByZero):
                    coordinator.execute("SELECT 1 / (n - 1) FROM (SELECT i, count(*) n FROM many GROUP BY i) s")
                with coordinator.transaction():
                    coordinator.execute("DECLARE c CURSOR FOR " + numbers)
                    assert len(coordinator.execute("FETCH 5 FROM c").fetchall()) == 5

    def connections(shard: Shard) -> int:
        with shard.connect() as conn:
            query = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'pgbillion_fdw'"
            return int(servers.one(conn, query))

    work(200)
    before = memory(coordinator), descriptors(pid), resident(pid)
    queries = int(os.environ.get("PGBILLION_LEAK_QUERIES", "1000"))
    work(queries)
    after = memory(coordinator), descriptors(pid), resident(pid)
    opened = max(map(connections, members))
    tell(
        f"{queries} queries: contexts {before[0]} to {after[0]} bytes, descriptors {before[1]} to {after[1]},"
        f" private memory {before[2]} to {after[2]} kB, {opened} connections to a shard"
    )
    assert opened <= 2
    assert after[1] <= before[1]
    assert after[0] <= before[0] + 100_000, (before, after)
    # in kilobytes; a result of libpq that is not freed has at least one
    assert after[2] <= before[2] + 500, (before, after)

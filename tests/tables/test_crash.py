"""kill -9 at seeded moments: after recovery each batch is there whole or not at all, and nothing else is left of it.

Whole servers are killed, postmaster and all, while two sessions make batches: at commit, at rollback, in checkpoints,
as a file appears, and again while recovering.  With wal_level logical the server is durable, has a standby, which must
end up with the same, and a slot, from which every row that was committed must be decoded once.

Of files, what core itself leaves is allowed and no more: those of transactions whose end is not on disk, that is of
those in flight and of ones rolled back since the session's last commit (an abort record is not flushed).  So an orphan
must be younger than some session's last commit, and when those in flight turn out to be committed there must be none.
"""

from __future__ import annotations

import itertools
import os
import random
import select
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import psycopg
from psycopg import sql

from harness import catalogs as catalog
from harness import compare, invariants, oracle, servers, standby, subject
from harness.amount import Count, amount
from harness.catalogs import Catalogs
from harness.sessions import Running
from pgbillion.common.connection import Connection
from pgbillion.common.errors import UserError
from pgbillion.server import postgres
from pgbillion.server.postgres import Cluster, Installation

POINTS = amount("PGBILLION_TEST_CRASHES", 60, 30)
SEED = os.environ.get("PGBILLION_TEST_SEED", "1")
SESSIONS = 2
SPACES = 8
POINTS_A_DATABASE = 5
LEVELS: Mapping[str, Mapping[str, str]] = {
    # without WAL for a table's first rows, if they are of the transaction that made it
    "minimal": {"wal_level": "minimal", "max_wal_senders": "0", "wal_skip_threshold": "0", "full_page_writes": "off"},
    "replica": {"wal_level": "replica", "wal_compression": "pglz"},
    # durable, as installed
    "logical": {
        "wal_level": "logical",
        "fsync": "on",
        "wal_retrieve_retry_interval": "200ms",
        "allow_in_place_tablespaces": "on",
    },
}
# PostgreSQL's own, where it has assertions: rows of a subtransaction that was rolled back can leave their place to
# others of the same transaction ("Bug in logical decoding with DDL and subtransactions", pgsql-hackers, 29 April 2026)
NOT_DECODED = 'failed Assert("ent->cmin == change->data.tuplecid.cmin")'
_ALL_MODES = ("delay", "delay", "commit", "committed", "rollback", "checkpoint", "file", "twice")
MODES = {
    "minimal": ("delay", "delay", "commit", "commit", "rollback", "checkpoint", "file", "twice"),
    # and with the commit record on disk, but before anybody was told
    "replica": _ALL_MODES,
    "logical": _ALL_MODES,
}
TEMPLATES = """
    CREATE SCHEMA t;
    CREATE TABLE t.plain (i integer);
    CREATE TABLE t.model (id serial PRIMARY KEY, t text);
    CREATE TABLE t.rich (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, a int[] CHECK (a <> '{}'),
        t text DEFAULT 'x');
    CREATE INDEX ON t.rich USING gin (a); CREATE INDEX ON t.rich USING hash (t); CREATE INDEX ON t.rich USING brin (id);
    CREATE STATISTICS t.st ON id, t FROM t.rich;
    COMMENT ON TABLE t.rich IS 'rich'; COMMENT ON COLUMN t.rich.a IS 'some';
    CREATE UNLOGGED TABLE t.unlogged (id serial PRIMARY KEY, t text);
"""
# kinds of templates, and how many rows a table gets of each; those of an unlogged one are gone after a crash
ROWS = {"plain": 1, "model": 20, "rich": 300, "unlogged": 0}


@dataclass
class Batch:
    """One transaction of the workload."""

    number: int
    kind: str
    count: int
    ends: str  # commit or rollback
    state: str = "begun"  # then ending, committed or gone
    dropped: set[int] = field(default_factory=set)
    rows: set[int] = field(default_factory=set)

    @property
    def schema(self) -> str:
        return "w"

    @property
    def space(self) -> str:
        return f"crash{self.number % SPACES}"

    def table(self, number: int) -> str:
        return f"b{self.number}_{number}"

    @property
    def expected(self) -> set[str]:
        """Names of the tables when it is committed."""
        return {self.table(number) for number in range(1, self.count + 1)} - {self.table(one) for one in self.dropped}


class Workload:
    """Batches one after the other until the connection is lost."""

    def __init__(self, cluster: Cluster, database: str, chance: random.Random, numbers: Iterator[int]) -> None:
        self._conn = cluster.connect(database)
        self._chance = chance
        self._numbers = numbers
        self.pid = self._conn.info.backend_pid
        self.batches: list[Batch] = []
        self._folders = invariants.folders(cluster.data, self._conn)
        #: paths of the files that were there after the last commit
        self.old: set[str] = self._files()
        self.ending = {"commit": threading.Event(), "rollback": threading.Event()}
        self.running = Running(self._run)

    def _run(self) -> None:
        with suppress(psycopg.OperationalError), self._conn as conn:
            for number in self._numbers:
                batch = Batch(
                    number,
                    self._chance.choice(tuple(ROWS)),
                    self._chance.choice((1, 2, 20, 50, 100, 200)),
                    self._chance.choice(("commit", "commit", "commit", "rollback")),
                )
                if batch.kind == "unlogged":
                    # Core itself does not recover from a crash soon after the end of a transaction that made and
                    # rolled back an unlogged table ("could not create file …: File exists").
                    batch.ends = "commit"
                self.batches.append(batch)
                self._make(conn, batch)
                batch.state = "ending"
                self._end(conn, batch.ends)
                batch.state = "committed" if batch.ends == "commit" else "gone"
                if batch.ends == "commit":
                    self.old = self._files()

    def _end(self, conn: Connection, statement: str) -> None:
        """Send COMMIT or ROLLBACK, tell so, and only then wait for the answer."""
        conn.pgconn.send_query(statement.encode())
        conn.pgconn.flush()
        self.ending[statement].set()
        while True:
            # get_result() itself would keep all other threads waiting
            while conn.pgconn.is_busy():
                select.select([conn.pgconn.socket], [], [])
                conn.pgconn.consume_input()
            result = conn.pgconn.get_result()
            if result is None:
                return
            if result.status != psycopg.pq.ExecStatus.COMMAND_OK:
                raise psycopg.OperationalError(conn.pgconn.get_error_message())

    def _files(self) -> set[str]:
        return {entry.path for folder in self._folders if folder.exists() for entry in os.scandir(folder)}

    def _make(self, conn: Connection, batch: Batch) -> None:
        conn.execute("SELECT set_config('default_tablespace', %s, false)", [batch.space])
        conn.execute("BEGIN")
        if self._chance.random() < 0.2 and batch.kind != "unlogged":
            conn.execute("SAVEPOINT a")
            subject.create_tables(conn, f"t.{batch.kind}", f"b{batch.number}_%d", 1, batch.count, schema=batch.schema)
            conn.execute("ROLLBACK TO a")
        subject.create_tables(
            conn, f"t.{batch.kind}", f"b{batch.number}_%d", 1, batch.count,
            tablespaces=[batch.space] if self._chance.random() < 0.5 else None, schema=batch.schema,
        )  # fmt: skip
        if batch.count > 2 and self._chance.random() < 0.4:
            batch.rows.add(2)
            conn.execute(f"INSERT INTO {batch.schema}.{batch.table(2)} {_row(batch.kind)}")
        if batch.count > 3 and self._chance.random() < 0.3:
            conn.execute(f"DROP TABLE {batch.schema}.{batch.table(3)}")
            batch.dropped.add(3)


def _row(kind: str) -> str:
    return {"plain": "VALUES (7)", "rich": "(a) SELECT '{7}' FROM generate_series(1, 300)"}.get(
        kind, "(t) SELECT repeat('x', 3000) FROM generate_series(1, 20)"
    )


def test_kill(installation: Installation, tell: Callable[[str], None], counted: Count) -> None:
    """A third of the points with each wal_level, on three servers at once."""
    running = {level: Running(lambda level=level: _kill_again_and_again(installation, level)) for level in LEVELS}  # type: ignore[misc]
    for level, outcomes in ((level, one.result(3600)) for level, one in running.items()):
        tell(f"wal_level {level}: {dict(outcomes)}")
        counted({"times killed": POINTS // len(LEVELS), "in flight": outcomes["lost in flight"]})
        assert sum(outcomes[mode] for mode in set(MODES[level])) == POINTS // len(LEVELS)
        assert outcomes["lost in flight"] > 0
        assert outcomes["committed in flight"] >= outcomes["committed"]


def test_first_change_of_pages_after_a_checkpoint(installation: Installation) -> None:
    """Their images are in the WAL: what is replayed after them must not be in them already."""
    with servers.new_cluster(installation, LEVELS["replica"]) as cluster:
        with cluster.connect("template1") as conn:
            conn.execute("CREATE SCHEMA w; CREATE TABLE w.a (a int, b text, c date); CREATE TABLE w.b (d int, e int)")
            # so that no command has changed the pages before
            servers.one(conn, "SELECT pgbillion_tables.prepare_clone('w')")
        for number in range(4):
            with cluster.connect("template1") as conn:
                conn.execute("CHECKPOINT")
                servers.one(conn, f"SELECT pgbillion_tables.clone_schema('w', 'w{number}')")
            cluster.kill()
            cluster.start()
            with cluster.connect("template1") as conn:
                assert invariants.index_errors(conn) == []
                assert servers.one(conn, f"SELECT count(*) FROM w{number}.a") == 0
        cluster.stop()


def _kill_again_and_again(installation: Installation, level: str) -> Counter[str]:
    chance = random.Random(f"{SEED} {level}")
    outcomes: Counter[str] = Counter()
    points = POINTS // len(LEVELS)
    # a page that is half written stays so where the WAL has no images of pages
    whole_pages = LEVELS[level].get("full_page_writes") == "off"
    with servers.new_cluster(installation, LEVELS[level]) as cluster, ExitStack() as stack:
        with cluster.connect() as conn:
            conn.execute("SET allow_in_place_tablespaces = on")
            for number in range(SPACES):
                conn.execute(f"CREATE TABLESPACE crash{number} LOCATION ''")
        replica = stack.enter_context(standby.standby(cluster)) if level == "logical" else None
        numbers = itertools.count(1)
        done = 0
        while done < points:
            with servers.new_database(cluster, "crash") as database:
                with cluster.connect(database) as conn:
                    conn.execute(TEMPLATES)
                    conn.execute("CREATE SCHEMA w; CREATE SCHEMA core")
                    if replica is not None:
                        conn.execute("SELECT pg_create_logical_replication_slot('crash', 'test_decoding')")
                history: list[Batch] = []
                for _ in range(min(POINTS_A_DATABASE, points - done)):
                    mode = chance.choice(MODES[level])
                    workloads = _crash(cluster, database, chance, numbers, mode, whole_pages)
                    try:
                        _check(cluster, database, workloads, history, chance, outcomes)
                    except BaseException as error:
                        error.add_note(f"seed {SEED}, point {done + 1} with wal_level {level}, killed by {mode}")
                        raise
                    outcomes[mode] += 1
                    done += 1
                with cluster.connect(database) as conn:
                    assert invariants.index_errors(conn) == []
                    assert invariants.heap_errors(conn) == []
                    assert invariants.reference_errors(conn) == []
                if replica is not None:
                    if not _check_decoded(cluster, database, history):
                        outcomes["not decoded by PostgreSQL"] += 1
                    with cluster.connect(database) as conn:
                        _check_replica(conn, replica, database)
        # a crashed server leaves its shared memory behind unless it is stopped in order once
        cluster.stop()
    return outcomes


def _crash(
    cluster: Cluster, database: str, chance: random.Random, numbers: Iterator[int], mode: str, whole_pages: bool
) -> list[Workload]:
    """Run batches, kill the server at a moment of the mode, which the first session decides, and start it again."""
    workloads = [Workload(cluster, database, chance, numbers) for _ in range(SESSIONS)]
    workload = workloads[0]
    checkpointer = cluster.connect(database)
    postmaster = int((cluster.data / "postmaster.pid").read_text().split("\n", 1)[0])
    # These are moments to hit, not conditions to wait for.
    if mode in ("delay", "twice"):
        time.sleep(chance.uniform(0, 0.12))
    elif mode in ("commit", "rollback"):
        time.sleep(chance.uniform(0, 0.05))
        workload.ending[mode].clear()
        assert workload.ending[mode].wait(300)
        time.sleep(chance.uniform(0, 0.003))
    elif mode == "committed":
        time.sleep(chance.uniform(0, 0.05))
        checkpointer.execute("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
        checkpointer.execute("SELECT pg_reload_conf()")
        query = "SELECT wait_event = 'SyncRep' FROM pg_stat_activity WHERE pid = %s"
        servers.until(lambda: servers.one(checkpointer, query, workload.pid), "a commit to wait for a standby")
    elif mode == "checkpoint":
        time.sleep(chance.uniform(0, 0.05))
        checkpoint = Running(lambda: _ignoring(checkpointer, "CHECKPOINT"))
        time.sleep(chance.uniform(0, 0.01))
    else:
        time.sleep(chance.uniform(0, 0.03))
        wanted = chance.randrange(1, 40)
        _until_files(cluster, wanted, workload)
    # The backends first: they would go on to roll back when they saw the postmaster gone.
    pids = [*(one.pid for one in workloads), postmaster]
    if whole_pages:
        _send(pids, signal.SIGSTOP)
        _halt(cluster)
    _send(pids, signal.SIGKILL)
    cluster.kill()
    for one in workloads:
        one.running.result()
    if mode == "committed":
        assert workload.batches[-1].ends == "commit"
        (cluster.data / "postgresql.auto.conf").write_text("")
    if mode == "checkpoint":
        checkpoint.result()
    checkpointer.close()
    if mode == "twice":
        starting = Running(lambda: _start(cluster))
        time.sleep(chance.uniform(0, 0.1))
        if whole_pages:
            _halt(cluster)
        cluster.kill()
        starting.result()
        cluster.kill()
    cluster.start()
    return workloads


def _send(pids: Sequence[int], number: int) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def _halt(cluster: Cluster) -> None:
    """Stop all processes, which end a write before they stop; who is killed leaves half of it, on tmpfs for one."""

    def halted() -> bool:
        there = postgres.processes(cluster.data)
        states = set()
        for process in there:
            with suppress(psutil.NoSuchProcess):
                states.add(process.status())
        _send([process.pid for process in there], signal.SIGSTOP)
        return states <= {psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE}

    servers.until(halted, "all processes to be stopped")


def _ignoring(conn: Connection, statement: str) -> None:
    with suppress(psycopg.OperationalError):
        conn.execute(statement)


def _start(cluster: Cluster) -> None:
    with suppress(UserError):
        cluster.start()


def _until_files(cluster: Cluster, wanted: int, workload: Workload) -> None:
    """Until the batch in flight has made so many files, or has ended."""
    deadline = time.monotonic() + 300
    number = len(workload.batches)
    while len(workload.batches) <= number and time.monotonic() < deadline:
        pass
    batch = workload.batches[-1]
    with cluster.connect() as conn:
        oid = servers.one(conn, "SELECT oid::bigint FROM pg_tablespace WHERE spcname = %s", batch.space)
    folders = list((cluster.data / "pg_tblspc" / str(oid)).glob("PG_*/*"))
    before = sum(1 for folder in folders for _ in folder.iterdir())
    while batch.state == "begun" and time.monotonic() < deadline:
        if sum(1 for folder in folders for _ in folder.iterdir()) - before >= wanted:
            return


def _check(
    cluster: Cluster,
    database: str,
    workloads: list[Workload],
    history: list[Batch],
    chance: random.Random,
    outcomes: Counter[str],
) -> None:
    """Everything that must hold after recovery; `history` has the committed batches of earlier points."""
    batches = [batch for workload in workloads for batch in workload.batches]
    with cluster.connect(database) as conn:
        there = {name for (name,) in conn.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'w'")}
        for batch in batches:
            found = {name for name in there if name.startswith(f"b{batch.number}_")}
            if batch.state == "ending" and batch.ends == "commit":
                outcomes["committed in flight" if found else "lost in flight"] += 1
                batch.state = "committed" if found else "gone"
            elif batch.state in ("begun", "ending"):
                outcomes["lost in flight"] += 1
                batch.state = "gone"
            assert found == (batch.expected if batch.state == "committed" else set()), batch
        for batch in history:
            assert batch.expected <= there, batch
        known = set().union(*(batch.expected for batch in [*history, *batches] if batch.state == "committed"))
        assert there == known

        _check_files(cluster, conn, workloads, outcomes)
        assert invariants.index_errors(conn, parents=False) == []
        survivors = [batch for batch in batches if batch.state == "committed"]
        _check_like_core(conn, survivors[-1:])
        for batch in survivors:
            for number in batch.rows - batch.dropped:
                _check_rows(conn, batch, number)
        for batch in survivors + chance.sample(history, min(2, len(history))):
            _insert_everywhere(conn, batch)
        history.extend(survivors)


def _check_decoded(cluster: Cluster, database: str, history: list[Batch]) -> bool:
    """Every row of a committed batch is in the slot once, and nothing of the others; False where NOT_DECODED."""
    expected = Counter(
        f"w.{batch.table(number)}"
        for batch in history
        if batch.kind != "unlogged"
        for number in batch.rows
        for _ in range(ROWS[batch.kind])
    )
    query = (
        "SELECT substring(data FROM '^table (w[.]b[0-9_]+): INSERT:') FROM pg_logical_slot_peek_changes('crash', NULL,"
        " NULL) WHERE data LIKE 'table w.b%'"
    )
    found = None
    logged = cluster.log.stat().st_size
    try:
        with cluster.connect(database) as conn:
            found = Counter(name for (name,) in conn.execute(query))
    except psycopg.OperationalError:
        if NOT_DECODED.encode() not in cluster.log.read_bytes()[logged:]:
            raise
        cluster.kill()
        cluster.start()
    assert found is None or found == expected
    with cluster.connect(database) as conn:
        conn.execute("SELECT pg_drop_replication_slot('crash')")
    return found is not None


def _check_replica(conn: Connection, replica: Cluster, database: str) -> None:
    """The standby, which has lost its primary each time, has the same catalogs, and all files that it needs."""
    with replica.connect() as there:
        standby.replayed(conn, there)
    with replica.connect(database) as there:
        loaded = Catalogs.load(conn)
        assert catalog.counts(conn, loaded) == catalog.counts(there, loaded)
        assert invariants.index_errors(there, parents=False) == []
        unlogged = set(there.execute("SELECT relfilenode::bigint FROM pg_class WHERE relpersistence = 'u'").fetchall())
        assert {(number,) for _, number in invariants.missing(replica.data, there)} <= unlogged


def _check_files(cluster: Cluster, conn: Connection, workloads: list[Workload], outcomes: Counter[str]) -> None:
    assert invariants.missing(cluster.data, conn) == set()
    orphans = {str(cluster.data / file.folder / file.name) for file in invariants.orphans(cluster.data, conn)}
    outcomes["points with orphan files"] += bool(orphans)
    # a checkpoint ends before the emptied files of relations dropped until then are removed: killed in between, core
    # leaves them
    seen = set[str]().union(*(workload.old for workload in workloads))
    emptied = {path for path in orphans & seen if Path(path).stat().st_size == 0}
    outcomes["points with emptied files"] += bool(emptied)
    if all(workload.batches and workload.batches[-1].state == "committed" for workload in workloads):
        assert orphans - emptied == set(), "the last transactions are committed"
    old = set.intersection(*(workload.old for workload in workloads))
    assert (orphans & old) - emptied == set(), "older than the last commit of each session"
    for path in orphans:
        Path(path).unlink()


def _check_like_core(conn: Connection, survivors: list[Batch]) -> None:
    catalogs = Catalogs.load(conn)
    for batch in survivors:
        conn.execute("SELECT set_config('default_tablespace', %s, false)", [batch.space])
        for number in {1, batch.count} - batch.rows - batch.dropped:
            name = batch.table(number)
            oracle.make(conn, f"t.{batch.kind}", "core", name)
            assert compare.compare(conn, catalogs, ("core", name), ("w", name), use=False) == []
            conn.execute(sql.SQL("DROP TABLE core.{}").format(sql.Identifier(name)))


def _check_rows(conn: Connection, batch: Batch, number: int) -> None:
    expected = ROWS[batch.kind]
    name = f"w.{batch.table(number)}"
    assert servers.one(conn, f"SELECT count(*) FROM {name}") == expected
    if batch.kind != "plain":
        if not servers.has_extension(conn, "amcheck"):
            return
        assert servers.one(conn, f"SELECT count(*) FROM {name} WHERE id > 0") == expected
        conn.execute("SELECT public.bt_index_check(%s::regclass, true)", [name + "_pkey"])


def _insert_everywhere(conn: Connection, batch: Batch) -> None:
    """A row into every table of the batch, seen through the index as well; rolled back."""
    with conn.transaction(force_rollback=True):
        conn.execute("SET LOCAL enable_seqscan = off")
        conn.execute(
            sql.SQL(
                """
                DO $$
                DECLARE name text; found bigint;
                BEGIN
                    FOREACH name IN ARRAY {}::text[] LOOP
                        EXECUTE format('INSERT INTO w.%I {}', name);
                        EXECUTE format('SELECT count(*) FROM w.%I', name) INTO found;
                        ASSERT found > 0;
                    END LOOP;
                END $$
                """
            ).format(
                sql.Literal("{" + ",".join(sorted(batch.expected)) + "}"), sql.SQL(_row(batch.kind).replace("'", "''"))
            )
        )

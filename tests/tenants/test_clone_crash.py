"""kill -9 while schemas are cloned, tables with keys are made, and both are dropped: each is whole or not there at all.

As test_crash.py does for plain tables; what is created here refers to tables that stay, which must be themselves again.
"""

from __future__ import annotations

import itertools
import os
import random
import re
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psycopg

from harness import invariants, schemas, servers, subject
from harness.amount import Count, amount
from harness.servers import one
from harness.sessions import Running
from pgbillion.common.connection import Connection
from pgbillion.server.postgres import Cluster, Installation

POINTS = amount("PGBILLION_TEST_CLONE_CRASHES", 30, 8)
POINTS_A_DATABASE = 10
SEED = os.environ.get("PGBILLION_TEST_SEED", "1")
SETTINGS = {"wal_compression": "pglz"}
TABLES = """
    CREATE SCHEMA w;
    CREATE TABLE w.stays (id int PRIMARY KEY);
    INSERT INTO w.stays SELECT generate_series(1, 9);
    CREATE TABLE w.model (id serial PRIMARY KEY, s int REFERENCES w.stays, up int REFERENCES w.model, t text);
    CREATE TRIGGER g BEFORE UPDATE ON w.model FOR EACH ROW WHEN (OLD.* IS NOT DISTINCT FROM NEW.*)
        EXECUTE FUNCTION suppress_redundant_updates_trigger();
    CREATE POLICY p ON w.model USING (EXISTS (SELECT FROM w.stays WHERE id = model.s));
"""
TEMPLATES = ("application", "partitions", "storage")


@dataclass
class Change:
    """One transaction of the workload: what is there when it is committed, and what no more."""

    appears: set[str] = field(default_factory=set)
    goes: set[str] = field(default_factory=set)
    commits: bool = True
    state: str = "begun"  # then ending, committed or gone
    # what it drops; PostgreSQL leaves some of them if it commits, there is a checkpoint, and it is killed at once
    files: set[str] = field(default_factory=set)
    in_flight: bool = False
    looked_after: bool = False  # has the workload seen which files there are since it was committed?


class Workload:
    """Changes one after the other until the connection is lost."""

    def __init__(self, cluster: Cluster, database: str, chance: random.Random, numbers: Iterator[int]) -> None:
        self._cluster = cluster
        self._conn = cluster.connect(database)
        self._chance = chance
        self._numbers = numbers
        self.pid = self._conn.info.backend_pid
        self.changes: list[Change] = []
        self.there = _there(self._conn)
        # the abort record of what _check_clones() has rolled back is on disk, and its files are gone
        self._conn.execute("CHECKPOINT")
        self.old = self._files()
        self.running = Running(self._run)

    def _run(self) -> None:
        with suppress(psycopg.OperationalError), self._conn as conn:
            for number in self._numbers:
                change = Change(commits=self._chance.random() < 0.8)
                self.changes.append(change)
                conn.execute("BEGIN")
                self._make(conn, change, number)
                change.state = "ending"
                conn.execute("COMMIT" if change.commits else "ROLLBACK")
                change.state = "committed" if change.commits else "gone"
                if change.commits:
                    self.there = (self.there | change.appears) - change.goes
                    self.old = self._files()
                    change.looked_after = True

    def _make(self, conn: Connection, change: Change, number: int) -> None:
        kind = self._chance.choice(("clone", "clone", "tables", "tables", "drop", "remove"))
        tables = sorted(name for name in self.there if name.startswith("w."))
        clones = sorted(name for name in self.there if name.startswith("c"))
        # who changes nothing does not write what was rolled back before to disk
        if (kind == "drop" and not tables) or (kind == "remove" and not clones):
            kind = "tables"
        if kind == "clone":
            count = self._chance.choice((1, 3, 5))
            template = self._chance.choice(TEMPLATES)
            storage = self._chance.choice(("heap", "lazy_heap"))
            change.appears = {f"c{number}_{n}" for n in range(1, count + 1)}
            # PostgreSQL itself may not recover after a rollback of unlogged tables: see test_crash.py
            change.commits |= template == "storage"
            one(
                conn,
                "SELECT pgbillion_tables.clone_schemas(%s::regnamespace, %s, 1, %s, %s)",
                template,
                f"c{number}_%d",
                count,
                storage,
            )
        elif kind == "tables":
            count = self._chance.choice((1, 2, 30, 100))
            change.appears = {f"w.x{number}_{n}" for n in range(1, count + 1)}
            subject.create_tables(conn, "w.model", f"x{number}_%d", 1, count, schema="w")
        elif kind == "drop":
            change.goes = set(self._chance.sample(tables, self._chance.randint(1, len(tables))))
            before = _paths(conn)
            one(conn, "SELECT pgbillion_tables.drop_tables(%s::regclass[])", sorted(change.goes))
            change.files = before - _paths(conn)
        else:
            change.goes = {self._chance.choice(clones)}
            before = _paths(conn)
            conn.execute(f"DROP SCHEMA {next(iter(change.goes))} CASCADE")
            change.files = before - _paths(conn)

    def _files(self) -> set[str]:
        folders = invariants.folders(self._cluster.data, self._conn)
        return {entry.path for folder in folders if folder.exists() for entry in os.scandir(folder)}


def _paths(conn: Connection) -> set[str]:
    rows = conn.execute("SELECT pg_relation_filepath(oid) FROM pg_class WHERE pg_relation_filenode(oid) IS NOT NULL")
    return {path for (path,) in rows}


def _there(conn: Connection) -> set[str]:
    return {
        name
        for (name,) in conn.execute(
            "SELECT nspname FROM pg_namespace WHERE nspname ~ '^c[0-9]'"
            " UNION ALL SELECT 'w.' || relname FROM pg_class WHERE relkind = 'r' AND relname ~ '^x[0-9]+_[0-9]+$'"
            " AND relnamespace = 'w'::regnamespace"
        )
    }


def test_kill(installation: Installation, tell: Callable[[str], None], counted: Count) -> None:
    chance = random.Random(SEED)
    outcomes: Counter[str] = Counter()
    done = 0
    with servers.new_cluster(installation, SETTINGS) as cluster:
        with cluster.connect() as conn:
            servers.make_shared_objects(conn)
        numbers = itertools.count(1)
        while done < POINTS:
            with servers.new_database(cluster, "crash") as database:
                with cluster.connect(database) as conn:
                    schemas.make_outside(conn)
                    for name in TEMPLATES:
                        schemas.make_schema(conn, name, schemas.KINDS[name])
                    conn.execute(TABLES)
                    # from now on by stamps kept
                    for name in TEMPLATES:
                        one(conn, "SELECT pgbillion_tables.prepare_clone(%s::regnamespace)", name)
                for _ in range(min(POINTS_A_DATABASE, POINTS - done)):
                    workload = _crash(cluster, database, chance, numbers)
                    try:
                        _check(cluster, database, workload, outcomes)
                    except BaseException as error:
                        error.add_note(f"seed {SEED}, point {done + 1}")
                        raise
                    done += 1
                with cluster.connect(database) as conn:
                    assert invariants.index_errors(conn) == []
                    assert invariants.heap_errors(conn) == []
        cluster.stop()
    tell(f"{done} points: {dict(outcomes)}")
    counted({"times killed": done, "in flight": outcomes["lost in flight"]})
    assert outcomes["lost in flight"] > 0


def _crash(cluster: Cluster, database: str, chance: random.Random, numbers: Iterator[int]) -> Workload:
    """Kill the server at some moment, sometimes in a checkpoint or when it recovers, and start it again."""
    workload = Workload(cluster, database, chance, numbers)
    postmaster = int((cluster.data / "postmaster.pid").read_text().split("\n", 1)[0])
    checkpointer = cluster.connect(database)
    time.sleep(chance.uniform(0, 1.5))
    if chance.random() < 0.3:
        checkpoint = Running(lambda: _ignoring(checkpointer, "CHECKPOINT"))
        time.sleep(chance.uniform(0, 0.02))
    # the backend first: it would go on to roll back when it saw the postmaster gone
    with suppress(ProcessLookupError):
        os.kill(workload.pid, signal.SIGKILL)
    os.kill(postmaster, signal.SIGKILL)
    cluster.kill()
    workload.running.result()
    with suppress(NameError):
        checkpoint.result()
    checkpointer.close()
    cluster.start()
    return workload


def _ignoring(conn: Connection, statement: str) -> None:
    with suppress(psycopg.OperationalError):
        conn.execute(statement)


def _check(cluster: Cluster, database: str, workload: Workload, outcomes: Counter[str]) -> None:
    expected = workload.there
    with cluster.connect(database) as conn:
        conn.execute("CHECKPOINT")
        there = _there(conn)
        last = workload.changes[-1] if workload.changes else Change(state="gone")
        if last.state == "ending" and last.commits:
            after = (expected | last.appears) - last.goes
            outcomes["committed in flight" if there == after else "lost in flight"] += 1
            last.state = "committed" if there == after else "gone"
            last.in_flight = True
            assert there in (expected, after), last
        else:
            outcomes["lost in flight"] += last.state in ("begun", "ending")
            assert there == expected, last
        outcomes["changes"] += len(workload.changes)

        # what refers to tables that stay is what there is, and nothing else
        tables = sum(name.startswith("w.") for name in there)
        triggers = "SELECT count(*) FROM pg_trigger WHERE tgrelid = 'w.stays'::regclass"
        assert one(conn, triggers) == 2 * (tables + 1)
        customers = one(conn, "SELECT count(*) FROM pg_class WHERE relname = 'customer' AND relkind = 'r'")
        assert one(conn, triggers.replace("w.stays", "outside.country")) == 2 * customers
        conn.execute("UPDATE w.stays SET id = id + 9; UPDATE w.stays SET id = id - 9; DELETE FROM outside.country")
        assert invariants.index_errors(conn, parents=False) == []
        assert invariants.reference_errors(conn) == []
        _check_clones(conn)
        _check_files(cluster, conn, workload, outcomes)


def _check_clones(conn: Connection) -> None:
    """Each has as many relations as one of the templates, and the last one takes rows."""
    counted = "SELECT count(*) FROM pg_class WHERE relnamespace = %s::regnamespace"
    sizes = {one(conn, counted, name) for name in TEMPLATES}
    clones = sorted((name for name in _there(conn) if not name.startswith("w.")), key=lambda name: (len(name), name))
    assert {one(conn, counted, name) for name in clones} <= sizes
    for name in clones[-1:]:
        if one(conn, "SELECT to_regclass(%s) IS NOT NULL", f"{name}.customer"):
            with conn.transaction(force_rollback=True):
                conn.execute(f"SET LOCAL search_path = {name}; INSERT INTO customer (name) VALUES ('x')")
                conn.execute("INSERT INTO invoice (customer, net) SELECT id, 7 FROM customer")
                assert one(conn, "SELECT count(*) FROM log") == 1


def _in_data(cluster: Cluster, path: str) -> str:
    return str(Path(path).relative_to(cluster.data))


def _check_files(cluster: Cluster, conn: Connection, workload: Workload, outcomes: Counter[str]) -> None:
    """Only the transaction in flight leaves files, and ones rolled back since the last commit, as core's do."""
    # lazy tables have number 1, and no file
    assert {number for _, number in invariants.missing(cluster.data, conn)} <= {1}
    orphans = {str(cluster.data / file.folder / file.name) for file in invariants.orphans(cluster.data, conn)}
    last = workload.changes[-1] if workload.changes else Change()
    # killed before it looked, the workload knows no files of what was rolled back before its last commit
    known = orphans & workload.old if last.looked_after else orphans
    emptied = {path for path in known if Path(path).stat().st_size == 0}
    outcomes["points with orphan files"] += bool(orphans)
    if last.in_flight and last.state == "committed":
        left = {
            path for path in orphans - emptied if re.sub(r"_[a-z]+$|\.\d+$", "", _in_data(cluster, path)) in last.files
        }
        outcomes["points with files of a drop"] += bool(left)
        emptied |= left
    assert (orphans & workload.old) - emptied == set(), "older than the last commit"
    if last.state == "committed":
        sizes = {path: Path(path).stat().st_size for path in orphans - emptied}
        assert sizes == {}, f"the last transaction is committed: {last}"
    for path in orphans:
        Path(path).unlink()

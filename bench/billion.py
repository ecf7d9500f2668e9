"""A billion rows: the source's query over more heap than there is memory, read from columnar indexes that fit in it.

1,000,000,000 rows of the source's table in 20 partitions, 44 GB, on a durable server of its own that is kept for later
runs, and with it how long loading, indexing and PostgreSQL's own plan took. What is missing is loaded and indexed by a
session per CPU core. PostgreSQL's plan is run once, by two processes, to compare the answers; then the query with the
indexes, first as it comes, then by one and by two processes in turn, with all of the indexes in memory; medians count.
QUICK=1 is 20 million rows, of which nothing is kept. KEEP=0 removes the server at the end, KEEP=1 does not; ROWS=… and
PARTITIONS=… are other numbers, SEED=… repeats the data, PG_CONFIG=… is another PostgreSQL.
"""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from psycopg import sql
from psycopg.conninfo import make_conninfo

import common
from pgbillion.common import search_path, text, together
from pgbillion.common.connection import Connection
from pgbillion.common.host import FileSystem
from pgbillion.common.meter import meter
from pgbillion.common.paths import state_dir
from pgbillion.common.target import Target
from pgbillion.rows import aggregate, answers, load, partitions, plans
from pgbillion.server import embedded
from pgbillion.server.postgres import Cluster

BILLION = 1_000_000_000
ROWS = int(os.environ.get("ROWS") or common.sized(BILLION, 20_000_000, 600_000))
PARTITIONS = int(os.environ.get("PARTITIONS") or common.sized(20, 20, 2))
KEEP = os.environ.get("KEEP", "0" if common.QUICK else "1") not in ("", "0")
ROUNDS = common.sized(15, 5, 2)
PROCESSES = (1, 2)
STEPS = ("loading", "analyzing", "indexing")
SESSIONS = os.cpu_count() or 1
QUERY = aggregate.source_query(load.TABLE)
PARENT = f"public.{load.TABLE}"
# bytes per row: an index of (grp, data), and shared buffers with room for all of it
INDEX_BYTES, BUFFER_BYTES = 6, 7
MIB = 1 << 20


@dataclass(frozen=True)
class Record:
    """What is kept of all runs with the server's data: rows and seconds of each step, and PostgreSQL's answer."""

    file: Path

    def read(self) -> dict[str, Any]:
        """Return all of it."""
        with contextlib.suppress(FileNotFoundError):
            found: dict[str, Any] = json.loads(self.file.read_text(encoding="utf-8"))
            return found
        return {}

    def write(self, **values: Any) -> None:
        """Keep values, in the place of those of the same names."""
        new = self.file.with_suffix(".new")
        new.write_text(json.dumps({**self.read(), **values}) + "\n", encoding="utf-8")
        new.replace(self.file)

    def add(self, step: str, rows: int, seconds: float) -> None:
        """Add what a run has done of a step."""
        before = self.read().get(step, {"rows": 0, "seconds": 0.0})
        self.write(**{step: {"rows": before["rows"] + rows, "seconds": round(before["seconds"] + seconds, 3)}})


@contextlib.contextmanager
def kept_server() -> Iterator[tuple[Cluster, Record]]:
    """Start the server that is kept for this number of rows, made where there is none; stop or remove it at the end."""
    state = state_dir() / embedded.KEPT / f"billion-{ROWS}-{PARTITIONS}"
    chosen = os.environ.get("PG_CONFIG")
    if not state.exists():
        disk = FileSystem.of(next(folder for folder in state.parents if folder.exists()))
        load.need_room(disk, ROWS, ROWS * (partitions.HEAP_BYTES + INDEX_BYTES))
    cluster, _ = embedded.start(state, Path(chosen) if chosen else None)
    # goes with the data, however they are removed
    record = Record(cluster.data / "bench.json")
    try:
        configure(cluster)
        yield cluster, record
    finally:
        if KEEP:
            cluster.stop()
        else:
            embedded.destroy(state)


def configure(cluster: Cluster) -> None:
    """Have what is kept survive the machine, and the indexes fit into the shared buffers.

    A partition is larger than a quarter of these, so that PostgreSQL's scans do not drive the indexes out.
    """
    buffers = max(128 * MIB, min(ROWS * BUFFER_BYTES, embedded.memory() // 2))
    settings = {
        "fsync": "on",
        "synchronous_commit": "on",
        "full_page_writes": "on",
        "shared_buffers": f"{buffers // MIB}MB",
    }
    with cluster.connect() as conn:
        for name, value in settings.items():
            conn.execute(sql.SQL("ALTER SYSTEM SET {} = {}").format(sql.Identifier(name), value))
    cluster.stop()
    cluster.start()


def one(conn: Connection, query: str) -> Any:
    """Return the only value of a query."""
    row = conn.execute(query.encode()).fetchone()
    return row[0] if row else None


def unindexed(conn: Connection) -> list[tuple[str, int]]:
    """Return the partitions without a valid columnar index, and how many rows they have by estimate."""
    return conn.execute(
        "SELECT relid::regclass::text, reltuples::bigint FROM pg_partition_tree(to_regclass(%s))"
        " JOIN pg_class c ON c.oid = relid WHERE isleaf AND NOT EXISTS (SELECT FROM pg_index"
        " JOIN pg_class i ON i.oid = indexrelid JOIN pg_am a ON a.oid = i.relam"
        " WHERE indrelid = relid AND indisvalid AND amname = 'columns') ORDER BY 1",
        [PARENT],
    ).fetchall()


def check_room(conn: Connection) -> None:
    """Raise UserError unless there is room for what is missing of tables and indexes."""
    there = one(
        conn,
        "SELECT coalesce(sum(reltuples), 0)::bigint FROM pg_partition_tree(to_regclass("
        f"'{PARENT}')) JOIN pg_class c ON c.oid = relid WHERE isleaf",
    )
    missing = max(0, ROWS - there)
    partitions.check_room(conn, missing, (missing + sum(rows for _, rows in unindexed(conn))) * INDEX_BYTES)


def fill(target: Target, record: Record) -> partitions.Outcome:
    """Load what is missing."""
    seed = os.environ.get("SEED")
    request = load.Request(ROWS, 10, load.TABLE, workers=SESSIONS, seed=int(seed) if seed else None)
    common.say(f"loading {ROWS:,} rows into {PARTITIONS} partitions, except those that are there")
    outcome = partitions.execute(
        target,
        request,
        PARTITIONS,
        observe=lambda total: meter(total, "loaded", noun="rows"),
        say=common.say,
    )
    if outcome.copied:
        record.add("loading", outcome.copied, outcome.copy_seconds)
        record.add("analyzing", outcome.copied, outcome.analyze_seconds)
    return outcome


def index(target: Target, conn: Connection, record: Record) -> None:
    """Make the indexes that are missing, a session per CPU core, and then the table's of all of them."""
    missing = unindexed(conn)
    done = [0] * len(missing)
    start = time.perf_counter()
    try:
        with (
            meter(sum(rows for _, rows in missing), "indexed", noun="rows") as update,
            together.team(SESSIONS) as team,
        ):

            def index_one(number: int) -> None:
                table, _ = missing[number]
                with target.connect() as session:
                    team.session(session)
                    session.execute(f"CREATE INDEX ON {table} USING columns (grp, data)".encode())
                    done[number] = one(session, f"SELECT rows FROM pgbillion_rows.columns_status('{table}')")

            load.watch({team.start(index_one, number) for number in range(len(missing))}, done, update)
    finally:
        if any(done):
            record.add("indexing", sum(done), time.perf_counter() - start)
    # takes the partitions' for its own
    conn.execute(f"CREATE INDEX IF NOT EXISTS {load.TABLE}_columns ON {PARENT} USING columns (grp, data)".encode())


def sizes(conn: Connection) -> dict[str, int]:
    """Return bytes of heap and indexes. Raises RuntimeError unless the indexes have all rows."""
    rows, heap, indexes, blocks, readable = conn.execute(
        "SELECT sum(s.rows)::bigint, sum(s.table_bytes)::bigint, sum(s.index_bytes)::bigint,"
        " sum(s.table_blocks)::bigint, sum(s.readable_blocks)::bigint"
        " FROM pg_partition_tree(%s::regclass), pgbillion_rows.columns_status(relid) AS s WHERE isleaf",
        [PARENT],
    ).fetchall()[0]
    if rows != ROWS:
        raise RuntimeError(f"the indexes have {rows:,} of {ROWS:,} rows")
    return {"heap_bytes": heap, "index_bytes": indexes, "heap_blocks": blocks, "readable_blocks": readable}


def run(conn: Connection) -> tuple[float, list[list[str]]]:
    """Run the query; return its seconds, and the answer in order."""
    start = time.perf_counter()
    cursor = conn.execute(QUERY.encode())
    seconds = time.perf_counter() - start
    return seconds, sorted([(value or b"").decode() for value in row] for row in answers.answer(cursor).rows)


def postgresql(conn: Connection, record: Record) -> tuple[float, list[list[str]]]:
    """Return the seconds that PostgreSQL's plan takes by two processes, and its answer, which are found out once."""
    known = record.read().get("postgresql")
    if known is None:
        common.say("PostgreSQL's plan, once")
        plans.switch(conn, False)
        aggregate.be_willing(conn, 2)
        seconds, answer = run(conn)
        plans.switch(conn, True)
        if sum(int(count) for _, count in answer) != ROWS:
            raise RuntimeError(f"PostgreSQL counts {answer}")
        known = {"seconds": round(seconds, 3), "answer": answer}
        record.write(postgresql=known)
    return known["seconds"], known["answer"]


def warm(conn: Connection, number: int) -> tuple[float, int]:
    """Run the query by a number of processes; return its seconds and the blocks that were not in shared buffers.

    Raises RuntimeError when it is not done by that number of processes, or not with the indexes.
    """
    aggregate.be_willing(conn, number)
    start = time.perf_counter()
    row = conn.execute(f"EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) {QUERY}".encode()).fetchone()
    seconds = time.perf_counter() - start
    assert row is not None
    plan = row[0][0]["Plan"]
    indexes = sum("Columns" in node for node in plans.nodes(plan))
    if (plans.processes(plan), indexes) != (number, PARTITIONS):
        raise RuntimeError(f"{plans.processes(plan)} processes read {indexes} columnar indexes")
    return seconds, plan["Shared Read Blocks"]


def measure(conn: Connection, expected: list[list[str]]) -> dict[int, list[float]]:
    """Return the seconds of each run by one and by two processes. Raises RuntimeError for another answer."""
    times: dict[int, list[float]] = defaultdict(list)
    for number in range(ROUNDS):
        for count in PROCESSES if number % 2 == 0 else reversed(PROCESSES):
            aggregate.be_willing(conn, count)
            seconds, answer = run(conn)
            if answer != expected:
                raise RuntimeError(f"by {count} processes {answer}, by PostgreSQL's plan {expected}")
            times[count].append(seconds)
    return times


def main() -> int:
    """Run the benchmark and return the exit status."""
    with kept_server() as (cluster, record):
        conninfo = make_conninfo(cluster.conninfo(embedded.DATABASE), fallback_application_name="pgbillion")
        target = Target(conninfo, embedded.DATABASE, embedded=True)
        with target.connect() as conn:
            check_room(conn)
            loaded = fill(target, record)
            index(target, conn, record)
            size = sizes(conn)
            # what is prepared keeps its plan
            conn.prepare_threshold = None
            conn.execute("SELECT set_config('jit', 'off', false)")
            conditions = common.conditions(cluster)
            with search_path.restored(conn):
                theirs, expected = postgresql(conn, record)
                first, read = warm(conn, 2)
                for number in PROCESSES:
                    _, left = warm(conn, number)
                if left:
                    common.say(f"{left:,} blocks of the indexes were not in shared buffers")
                times = measure(conn, expected)
        kept = record.read()
    report(times, loaded, size, kept, theirs, {"first_s": round(first, 3), "first_read_blocks": read}, conditions)
    return 0


def report(
    times: Mapping[int, Sequence[float]],
    loaded: partitions.Outcome,
    size: dict[str, int],
    kept: dict[str, Any],
    theirs: float,
    first: dict[str, Any],
    conditions: dict[str, Any],
) -> None:
    """Print the table and the line for programs."""
    median = {number: statistics.median(found) for number, found in times.items()}
    lines = [
        [
            step,
            text.duration(kept[step]["seconds"]),
            f"{kept[step]['rows'] / kept[step]['seconds'] / 1e6:,.1f} M",
        ]
        for step in STEPS
        if step in kept
    ]
    shown = [("PostgreSQL's plan, 2 processes, once", theirs), ("columns, first run", first["first_s"])]
    shown += [(f"columns, {number} process{'es' if number > 1 else ''}", found) for number, found in median.items()]
    lines += [[name, text.duration(seconds), f"{ROWS / seconds / 1e6:,.0f} M"] for name, seconds in shown]
    common.table(
        f"{ROWS:,} rows, {text.size(size['heap_bytes'])}, indexes {text.size(size['index_bytes'])}",
        ("", "time", "rows/s"),
        lines,
    )
    common.result(
        {
            "benchmark": "billion",
            # of another number of rows: at the same rate
            "billion_s": round(median[2] * BILLION / ROWS, 4),
            "billion_s_one_process": round(median[1] * BILLION / ROWS, 4),
            "rows_per_s": {str(number): round(ROWS / found) for number, found in median.items()},
            "milliseconds": {
                str(number): common.spread([seconds * 1000 for seconds in found]) for number, found in times.items()
            },
            "postgresql_s": theirs,
            "ratio_postgresql": round(theirs / median[2], 1),
            **first,
            **{step: kept.get(step) for step in STEPS},
            **size,
            "index_bytes_share": round(size["index_bytes"] / size["heap_bytes"], 4),
            "rows": ROWS,
            "partitions": PARTITIONS,
            "rounds": ROUNDS,
            "quick": common.QUICK,
            "seed": loaded.seed,
            **conditions,
        }
    )


if __name__ == "__main__":
    common.run(main)

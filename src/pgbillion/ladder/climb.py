"""Up the ladder: each rung is a run of its own, measured when its tables are there; the last one is verified.

A rung goes on where it was interrupted, as any run does, and one that is complete is never begun again.
"""

from __future__ import annotations

import contextlib
import itertools
import random
import shutil
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from pgbillion.common import invocation, sql, text
from pgbillion.common.connection import Connection
from pgbillion.common.errors import UserError
from pgbillion.common.host import FileSystem, Host
from pgbillion.common.target import Target
from pgbillion.ladder import needs, server
from pgbillion.ladder.record import Ladder, write
from pgbillion.ladder.server import Say
from pgbillion.tables import create, listing, resume, selection, tablespaces, verify
from pgbillion.tables.figures import figures
from pgbillion.tables.plan import LADDER, Plan
from pgbillion.tables.run import Run

_LOOKUPS = 200
_SIZE_SECONDS = 10.0
_TENTHS = 10

Observe = Callable[[Plan], contextlib.AbstractContextManager[create.Observer]]


@dataclass(frozen=True)
class Rung:
    """What was measured of a rung; ``tables`` is the number of all that there are then, bytes are those of all.

    ``used`` is what the file system has in use, WAL left out: everybody's, unless it is the ladder's own.
    """

    tables: int
    made: int
    seconds: float
    rate: float | None
    attempts: int
    catalogs: int
    used: int
    wal_kept: int
    wal_written: int | None
    peak_backend_memory: int | None
    checkpoint_seconds: float
    first_page_seconds: float
    lookup_seconds: float
    statfs: int  # bytes in use of the file system, as it says

    @property
    def catalog_bytes(self) -> float:
        """Bytes of catalogs, for each table."""
        return self.catalogs / self.tables

    @property
    def used_bytes(self) -> float:
        """Bytes on disk, for each table."""
        return self.used / self.tables


def series(to: int) -> list[int]:
    """Return rungs of 1, 2, 5, 10 …, from a hundredth of the top."""
    found = [digit * 10**power for power in range(len(str(to))) for digit in (1, 2, 5)]
    return [*(rung for rung in found if to / 100 <= rung < to), to]


def types(name: str) -> list[int]:
    """Return the source's types of databases as rungs, up to one of them. Raises UserError."""
    if name.upper() not in LADDER:
        raise UserError(f'there is no database type "{name}"', f"types: {', '.join(LADDER)}")
    return [count for count in LADDER.values() if count <= LADDER[name.upper()]]


def climb(ladder: Ladder, target: Target, observe: Observe, say: Say, interval: float) -> list[Rung]:
    """Make and measure the rungs that are not complete, and return all. Raises UserError, as `create.execute` does."""
    rungs: list[Rung] = []
    done = 0
    each = ladder.bytes_per_table
    for rung in ladder.rungs:
        known = next((values for values in ladder.results() if values["tables"] == rung), None)
        if known is None:
            needs.room(ladder, done, rung, each)
            try:
                known = asdict(_rung(ladder, target, done, rung, observe, say, interval))
            except KeyboardInterrupt:
                raise UserError("interrupted", f"resume with: {_resume()}", create.INTERRUPTED) from None
            write(ladder.folder(rung) / "rung.json", known)
        rungs.append(Rung(**known))
        # of a file system that compresses this is better than the estimate; the first tables have all fixed costs
        each = min(each, max(rungs[-1].used_bytes, each / 4)) if ladder.disk is not None else each
        done = rung
    return rungs


def _rung(ladder: Ladder, target: Target, first: int, rung: int, observe: Observe, say: Say, interval: float) -> Rung:
    folder = ladder.folder(rung)
    if (folder / "plan.json").exists():
        run = Run.open(folder)
        with target.connect() as conn:
            resume.check_same_database(conn, run)
    else:
        with target.connect() as conn:
            count = rung - first
            wanted = replace(needs.request(ladder), first=first, count=count, workers=min(ladder.workers, count))
            plan = create.make_plan(conn, wanted)
            host = Host.of(conn)
            tablespaces.create(conn, plan.tablespaces, [ladder.tablespaces_folder], host)
            create.check_server(conn, plan)
            create.check_names(conn, plan)
            facts = create.server(conn, target, plan, host)
            run = Run.create(folder, plan, facts)
            ladder.server = facts
            ladder.save()
    say(f"{text.count(rung)} tables: {text.count(run.plan.count)} to create")
    with run.locked():
        outcome = create.execute(
            target,
            run,
            interval=interval,
            psql=None,
            resume_command=_resume(),
            observe=lambda: observe(run.plan),
        )
    if outcome.interrupted:
        raise UserError(
            f"interrupted with {text.count(rung)} of {text.count(ladder.to)} tables made",
            f"resume with: {_resume()}",
            create.INTERRUPTED,
        )
    return _measure(ladder, target, Run.open(folder), rung)


def _resume() -> str:
    return invocation.command("ladder", "run")


def _measure(ladder: Ladder, target: Target, run: Run, rung: int) -> Rung:
    start = time.perf_counter()
    with target.connect() as conn:
        conn.execute("CHECKPOINT")
        # what a file system compresses, it compresses when it writes
        subprocess.run(["sync", "--file-system", ladder.cluster.data], check=True)
        checkpoint = time.perf_counter() - start
        catalogs = sum(size for _, size in conn.execute(sql.load("tables", "catalog_sizes").encode()))
        wal = _one(conn, "SELECT sum(size)::bigint FROM pg_ls_waldir()")
        lookup = _lookups(conn, run.plan, rung)
    # with nothing cached
    with target.connect() as conn:
        everything = selection.select(conn, None, run.plan.schema)
        page = listing.write(conn, everything, lambda names: None, extension=True, limit=listing.PAGE)
    used = FileSystem.of(ladder.cluster.data).used
    made = figures(run)
    return Rung(
        tables=rung,
        made=run.plan.count,
        seconds=made.seconds,
        rate=made.rate,
        attempts=made.attempts,
        catalogs=catalogs,
        used=max(0, used - ladder.baseline - wal),
        wal_kept=wal,
        wal_written=made.wal_written,
        peak_backend_memory=made.peak_backend_memory,
        checkpoint_seconds=checkpoint,
        first_page_seconds=page.seconds,
        lookup_seconds=lookup,
        statfs=used,
    )


def used_without_wal(ladder: Ladder, target: Target) -> int:
    """Return the bytes that the file system has in use, WAL left out."""
    with target.connect() as conn:
        conn.execute("CHECKPOINT")
        subprocess.run(["sync", "--file-system", ladder.cluster.data], check=True)
        wal = _one(conn, "SELECT sum(size)::bigint FROM pg_ls_waldir()")
    return max(0, FileSystem.of(ladder.cluster.data).used - wal)


def _lookups(conn: Connection, plan: Plan, rung: int) -> float:
    """Return the median time in which a table is found by its name."""
    chance = random.Random(rung)
    times: list[float] = []
    for _ in range(_LOOKUPS):
        name = plan.names(chance.randrange(rung))
        start = time.perf_counter()
        row = conn.execute(
            "SELECT c.oid FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
            " WHERE c.relname = %s::name AND n.nspname = %s",
            [name, plan.schema],
        ).fetchone()
        times.append(time.perf_counter() - start)
        if row is None:
            raise UserError(f"table {name} is missing among the others", "somebody dropped it")
    return statistics.median(times)


def _one(conn: Connection, query: str) -> int:
    row = conn.execute(query.encode()).fetchone()
    assert row is not None
    return int(row[0])


def whole(ladder: Ladder) -> Plan:
    """Return a plan that has all tables of the rungs that are complete."""
    complete = [rung for rung in ladder.rungs if (ladder.folder(rung) / "rung.json").exists()]
    plan = Run.open(ladder.folder(complete[-1])).plan
    return replace(plan, first=0, count=complete[-1])


def checks(ladder: Ladder, target: Target, amcheck_seconds: float, say: Say) -> Iterator[verify.Check]:
    """Verify all tables, and yield each check when it is done; at the end they are kept with the ladder."""
    options = verify.Options(
        dt_seconds=None,
        size_seconds=_SIZE_SECONDS,
        tables=100,
        amcheck_seconds=amcheck_seconds,
        orphans=True,
    )
    found: list[verify.Check] = []
    for check in verify.verify(target, whole(ladder), None, options, say):
        found.append(check)
        yield check
    write(
        ladder.home / "checks.json",
        {"time": time.time(), "tables": ladder.to, "checks": [check.to_json() for check in found]},
    )


def progress(found: Sequence[Run]) -> list[tuple[float, float]]:
    """Return points of a line: seconds of creation, and tables that were there then; other work is left out."""
    points = [(0.0, 0.0)]
    for run in found:
        line = figures(run).tables
        start = points[-1][0]
        points += [
            (start + at, run.plan.first + tables)
            for at, tables in zip(line.x, line.y, strict=True)
            if tables is not None
        ]
    return points


def flatness(points: Sequence[tuple[float, float]]) -> float | None:
    """Return the rate of the last tenth of all tables by that of the first one, None if it is not known."""
    end, total = points[-1]
    first = _when(points, total / _TENTHS)
    last = end - _when(points, total - total / _TENTHS)
    return first / last if first > 0 and last > 0 else None


def _when(points: Sequence[tuple[float, float]], tables: float) -> float:
    """Return the time at which there was a number of tables."""
    for (start, low), (end, high) in itertools.pairwise(points):
        if low <= tables <= high and high > low:
            return start + (end - start) * (tables - low) / (high - low)
    return points[-1][0]


def runs(ladder: Ladder) -> list[Run]:
    """Return the runs of the rungs that were begun."""
    return [Run.open(folder) for rung in ladder.rungs if (folder := ladder.folder(rung)).joinpath("plan.json").exists()]


def begin(ladder: Ladder, say: Say, show: Callable[[needs.Needs], None], *, dry_run: bool) -> None:
    """Estimate what a ladder needs, and make its file system unless there is no room for it. Raises UserError.

    With ``dry_run`` nothing is made, and nothing is left.
    """
    compressed = needs.is_compressed(ladder.place.filesystem, server.compresses(_directory(ladder)))
    assert ladder.installation is not None
    server.check(ladder.installation, compressed=compressed)
    if ladder.disk is not None:
        ladder.disk.check()
    ladder.save()
    try:
        with server.scratch(ladder) as target:
            found = needs.estimated(ladder, target, compressed=compressed)
        show(found)
        found.refuse()
        if dry_run:
            return
        ladder.bytes_per_table = found.bytes_per_table
        ladder.wal_bytes = found.wal_bytes
        if ladder.disk is not None:
            size = ladder.place.size or found.size
            ladder.place = replace(ladder.place, size=size)
            say(f"reserving {text.size(size)} for {ladder.place.filesystem} in {ladder.disk.image}")
            ladder.disk.make(size, found.inodes)
        ladder.begun = True
        ladder.save()
    finally:
        if not ladder.begun:
            server.destroy(ladder)


def _directory(ladder: Ladder) -> Path:
    return ladder.place.directory if ladder.place.directory is not None else ladder.home


def grow(ladder: Ladder, size: int, say: Say) -> None:
    """Make the ladder's file system larger; it is not mounted before, and after. Raises UserError."""
    assert ladder.disk is not None
    assert ladder.place.size is not None
    more = size - ladder.place.size
    if more <= 0:
        return
    free = shutil.disk_usage(ladder.home).free
    if more > free:
        raise UserError(
            f"{text.size(more)} more are not there: {text.size(free)} free in {ladder.home}", "make room there"
        )
    say(f"reserving {text.size(more)} more in {ladder.disk.image}")
    ladder.disk.grow(size)
    ladder.place = replace(ladder.place, size=size)
    ladder.save()


def note_baseline(ladder: Ladder, target: Target) -> None:
    """Keep what the file system has in use while there is no table yet."""
    if ladder.baseline == 0 and not runs(ladder):
        ladder.baseline = used_without_wal(ladder, target)
        ladder.save()

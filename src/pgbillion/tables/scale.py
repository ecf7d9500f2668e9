"""How fast tables are made with more workers and more tablespaces: the source's search for the sweet spot.

Each measurement has a database of its own, dropped at once: it leaves nothing behind, neither tables nor dead rows in
the catalogs, and finds none.
"""

from __future__ import annotations

import contextlib
import secrets
import statistics
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from pgbillion.common import text
from pgbillion.common.connection import Connection
from pgbillion.common.errors import UserError
from pgbillion.common.host import Host
from pgbillion.common.meter import meter
from pgbillion.common.progress import Progress
from pgbillion.common.target import Target
from pgbillion.tables import create, estimate, tablespaces
from pgbillion.tables.plan import tablespace_names
from pgbillion.tables.run import Run

_SAMPLE_INTERVAL = 10.0  # seconds; nobody looks at the samples


@dataclass(frozen=True)
class Point:
    """Tables per second of each round with a number of workers and tablespaces."""

    workers: int
    tablespaces: int
    rates: tuple[float, ...]

    @property
    def rate(self) -> float:
        """The median."""
        return statistics.median(self.rates)


@dataclass(frozen=True)
class Scale:
    """What was measured, and on what (see describe.server)."""

    points: tuple[Point, ...]
    count: int
    rounds: int
    method: str
    storage: str
    definition: str
    server: dict[str, Any]

    @property
    def best(self) -> Point:
        """The fastest."""
        return max(self.points, key=lambda point: point.rate)

    def to_json(self) -> dict[str, Any]:
        """Return the measurements as JSON's types."""
        points = [{**asdict(point), "tables_per_second": round(point.rate, 1)} for point in self.points]
        best = {"workers": self.best.workers, "tablespaces": self.best.tablespaces}
        return {**asdict(self), "points": points, "best": best}


def combinations(workers: Sequence[int], spaces: Sequence[int]) -> list[tuple[int, int]]:
    """Return workers and tablespaces to measure; a worker needs a tablespace of its own, if there are any."""
    return [(worker, space) for space in spaces for worker in workers if space == 0 or space >= worker]


def measure(
    target: Target,
    request: create.Request,
    pairs: Sequence[tuple[int, int]],
    rounds: int,
    *,
    folders: Sequence[Path],
    psql: Path | None,
    say: Callable[[str], None],
) -> Scale:
    """Make the request's tables with each pair of workers and tablespaces, ``rounds`` times, in turn.

    ``folders`` are where tablespaces that are missing are made; those are dropped again. Raises UserError as
    create.execute does, and for a role that may not create databases.
    """
    rates: dict[tuple[int, int], list[float]] = defaultdict(list)
    server: dict[str, Any] = {}
    definition = ""
    with target.connect() as conn:
        create.check_writable(conn)
        most = tablespace_names(max(space for _, space in pairs))
        tablespaces.check_folders(conn, most, folders)
        with _tablespaces(conn, most, folders):
            for number in range(rounds):
                # back and forth, so that what changes with time does not favor either end
                for workers, spaces in pairs if number % 2 == 0 else reversed(pairs):
                    wanted = replace(request, workers=workers, tablespaces=spaces)
                    with _database(conn, target) as here:
                        rate, server, definition = _rate(here, wanted, psql, check=not server)
                    rates[workers, spaces].append(rate)
                    say(f"{text.many(workers, 'worker')}, {spaces or 'no'} tablespaces: {rate:,.0f} tables/s")
    points = tuple(Point(workers, spaces, tuple(rates[workers, spaces])) for workers, spaces in pairs)
    return Scale(points, request.count, rounds, request.method.value, request.storage.value, definition, server)


def _rate(
    target: Target, request: create.Request, psql: Path | None, *, check: bool
) -> tuple[float, dict[str, Any], str]:
    """Make the tables once; return tables per second, what they were made on, and their model."""
    with target.connect() as conn:
        host = Host.of(conn)
        plan = create.make_plan(conn, request)
        create.check_server(conn, plan)
        if check:
            estimate.refuse_unfit(estimate.estimate(conn, plan, host))
        server = create.server(conn, target, plan, host)
        _checkpoint(conn)
    with tempfile.TemporaryDirectory(prefix="pgbillion-") as folder:
        run = Run.create(Path(folder), plan, server)
        try:
            outcome = create.execute(
                target,
                run,
                interval=_SAMPLE_INTERVAL,
                psql=psql,
                resume_command="",
                observe=lambda: _observer(plan.count),
            )
        except UserError as error:
            if error.status == create.INTERRUPTED:
                raise UserError("interrupted", "nothing was left behind", create.INTERRUPTED) from None
            raise UserError(error.message, f"with {text.many(request.workers, 'worker')}", error.status) from error
    return outcome.rate, server, plan.definition


class _Observer:
    def __init__(self, update: Callable[[int], None]) -> None:
        self._update = update

    def update(self, progress: Progress) -> None:
        """Pass on how many tables there are."""
        self._update(progress.total)


@contextlib.contextmanager
def _observer(count: int) -> Iterator[_Observer]:
    with meter(count, "created") as update:
        yield _Observer(update)


@contextlib.contextmanager
def _database(conn: Connection, target: Target) -> Iterator[Target]:
    """Make a database that is gone at the end."""
    name = f"pgbillion_scale_{secrets.token_hex(4)}"
    try:
        conn.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    except psycopg.errors.InsufficientPrivilege as error:
        raise UserError(
            "no privilege to create databases: each measurement has one of its own",
            "connect as a superuser, or as a role with CREATEDB",
            status=3,
        ) from error
    try:
        yield Target(make_conninfo(target.conninfo, dbname=name), target.display, target.embedded)
    finally:
        conn.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))
        # removes the files: the next measurement is not to pay for it
        _checkpoint(conn)


def _checkpoint(conn: Connection) -> None:
    with contextlib.suppress(psycopg.errors.InsufficientPrivilege):
        conn.execute("CHECKPOINT")


@contextlib.contextmanager
def _tablespaces(conn: Connection, names: Sequence[str], folders: Sequence[Path]) -> Iterator[None]:
    """Make the tablespaces that are missing; drop those at the end."""
    made = tablespaces.missing(conn, names)
    tablespaces.create(conn, names, folders, Host.of(conn))
    try:
        yield
    finally:
        for name in made:
            conn.execute(sql.SQL("DROP TABLESPACE {}").format(sql.Identifier(name)))
            for folder in folders:
                # of no use to anybody now; elsewhere, or another user's, they stay
                with contextlib.suppress(OSError):
                    (folder / name).rmdir()

"""The chapter of the demo about tables by the million: created, listed, dropped, beside PostgreSQL's own commands."""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pgbillion.common import text
from pgbillion.common.host import Host
from pgbillion.common.meter import meter
from pgbillion.common.progress import Progress
from pgbillion.common.target import Target
from pgbillion.report.chapter import Bar, Bars, Chapter, Details, Figure, Group
from pgbillion.tables import create, drop, listing, page, selection, worker
from pgbillion.tables.figures import figures
from pgbillion.tables.plan import LADDER, Batch, Method, Plan, Storage
from pgbillion.tables.run import Run
from pgbillion.tables.verify import Check

MOST, LEAST = LADDER["MMT"], 200_000
_SAMPLED = 20_000  # tables that each way makes, for comparison
# time until the tables are created, checked and listed, and how many times the creation's that is
_SECONDS, _TIMES = 60.0, 2.5
_STEP = 50_000
_SQL, _HEAP, _LAZY = "PostgreSQL", "pgbillion", "pgbillion, lazy"


@dataclass(frozen=True)
class Sample:
    """The seconds that creating and dropping a table takes: by PostgreSQL's commands, and in bulk."""

    tables: int
    create_sql: float
    create_heap: float
    create_lazy: float
    drop_sql: float
    drop_heap: float

    @property
    def affordable(self) -> int:
        """How many tables there is time for."""
        return max(LEAST, min(MOST, int(_SECONDS / _TIMES / self.create_lazy) // _STEP * _STEP))

    def within(self, seconds: float) -> int:
        """Return how many tables PostgreSQL's own commands create in some time, at least one."""
        return max(1, int(seconds / self.create_sql))


def sample(target: Target, psql: Path, workers: int, wanted: int | None, again: str) -> Sample:
    """Create some tables in each way and drop them, in a database made for that."""
    count = min(_SAMPLED, wanted or _SAMPLED)
    by_sql, by_bulk, lazily = (
        _create(
            again,
            target,
            psql,
            create.Request(count, min(workers, count), method=method, storage=storage, name_format=name),
        )
        for method, storage, name in (
            (Method.SQL, Storage.HEAP, "by_sql_%d"),
            (Method.BULK, Storage.HEAP, "by_bulk_%d"),
            (Method.BULK, Storage.LAZY, "lazy_%d"),
        )
    )
    return Sample(
        count,
        by_sql[1],
        by_bulk[1],
        lazily[1],
        _drop(target, by_sql[0], 0, count, Method.SQL, again),
        _drop(target, by_bulk[0], 0, count, Method.BULK, again),
    )


def make(
    target: Target, run: Run, taken: Sample, created: create.Outcome, checks: Sequence[Check], again: str
) -> Chapter:
    """List all tables of the run, drop a tenth of them and create that again; return the chapter."""
    plan = run.plan
    tenth = max(1, plan.count // 10)
    last = plan.first + plan.count - tenth
    with target.connect() as conn:
        everything = selection.select(conn, None, plan.schema)
        first = listing.write(conn, everything, lambda names: None, extension=True, limit=listing.PAGE)
        listed = listing.write(conn, everything, lambda names: None, extension=True, limit=None)
    dropped = _drop(target, plan, last, tenth, Method.BULK, again)
    with target.connect() as conn:
        template = worker.temporary_template(conn, plan)
        for number in range(last, last + tenth, plan.batch):
            size = min(plan.batch, last + tenth - number)
            worker.create_batch(conn, plan, template, Batch(0, number, size), None)
    each = created.seconds / max(1, created.created)
    shown = [
        Figure("create tables", taken.create_sql, taken.create_heap, "tables"),
        Figure("create tables, lazy", taken.create_sql, each, "tables"),
        Figure("drop tables", taken.drop_sql, taken.drop_heap, "tables"),
        Figure("drop tables, lazy", taken.drop_sql, dropped, "tables"),
    ]
    by_name = {check.name: check for check in checks}
    psqls = by_name["\\dt"]
    if "tables" in psqls.details:
        shown += [
            Figure(f"list {text.count(listed.count)} tables (\\dt)", psqls.seconds, listed.seconds),
            Figure(f"list the first {text.count(first.count)} (\\dt)", psqls.seconds, first.seconds),
        ]
    wrong = [check for check in checks if check.result == "failed"]
    result = f"{len(wrong)} of {len(checks)} checks failed" if wrong else f"{len(checks)} checks, none failed"
    return Chapter(
        "Tables by the million",
        f"{text.count(created.total)} tables {plan.definition}, created by {text.many(plan.workers, 'session')} in "
        f"{text.duration(created.seconds)}. PostgreSQL is psql fed with CREATE TABLE, as many sessions, and DROP TABLE "
        f"with many names, one session. It and pgbillion with ordinary heap tables were measured with "
        f"{text.count(taken.tables)} tables each.",
        figures=shown,
        chart=Bars(
            "Tables per second",
            [
                Group(
                    "create",
                    [_bar(_SQL, taken.create_sql), _bar(_HEAP, taken.create_heap), _bar(_LAZY, each)],
                ),
                Group("drop", [_bar(_SQL, taken.drop_sql), _bar(_HEAP, taken.drop_heap), _bar(_LAZY, dropped)]),
            ],
        ),
        remark="Lazy tables have no file until their first row, which turns them into ordinary heap tables. "
        "psql's \\dt prints all names or none; pgbillion lists page by page.",
        details=[
            Details(
                f"Verification: {result}",
                columns=["Check", "Result", "Time", "Found"],
                rows=page.checks(run),
            ),
            Details("The creation, second by second", drawings=page.drawings(figures(run))),
        ],
        name="tables",
    )


def _bar(name: str, seconds: float) -> Bar:
    return Bar(name, 1 / seconds, f"{text.brief(1 / seconds)}/s")


class _Quiet:
    def update(self, progress: Progress) -> None:
        pass


@contextlib.contextmanager
def _quiet() -> Iterator[_Quiet]:
    yield _Quiet()


def _create(again: str, target: Target, psql: Path, request: create.Request) -> tuple[Plan, float]:
    """Create tables; return the plan and the seconds for each."""
    with tempfile.TemporaryDirectory(prefix="pgbillion-") as folder, target.connect() as conn:
        plan = create.make_plan(conn, request)
        create.check_server(conn, plan)
        run = Run.create(Path(folder), plan, create.server(conn, target, plan, Host.of(conn)))
        made = create.execute(target, run, interval=1.0, psql=psql, resume_command=again, observe=_quiet)
    return plan, made.seconds / made.created


def _drop(target: Target, plan: Plan, first: int, count: int, method: Method, again: str) -> float:
    """Drop the tables of these numbers in one session; return the seconds for each."""
    with target.connect() as conn:
        chosen = selection.select(conn, None, plan.schema, selection.Numbered(plan.names, first, count))
        request = drop.Request(chosen, method)
        found = drop.survey(conn, request)
    start = time.perf_counter()
    gone = drop.execute(
        target, request, found.tables, command=lambda *more: again, observe=lambda total: meter(total, "dropped")
    )
    return (time.perf_counter() - start) / gone.dropped

"""One query by PostgreSQL, vectorized over the heap, and vectorized over a columnar index: answers and speed.

The third side is there where a columnar index has all that the query reads of a table.
"""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from psycopg import sql

from pgbillion.common import invocation, search_path
from pgbillion.common.connection import Connection
from pgbillion.common.errors import UserError
from pgbillion.common.target import Target
from pgbillion.rows import answers, plans
from pgbillion.rows.answers import Answer
from pgbillion.rows.load import TABLE
from pgbillion.server import extension

POSTGRESQL, OURS, COLUMNS = "PostgreSQL", "pgbillion", "columns"
# As many processes as asked for, whatever the table's size says.
_WILLING = {
    "min_parallel_table_scan_size": "0",
    "parallel_setup_cost": "0",
    "parallel_tuple_cost": "0",
    "parallel_leader_participation": "on",
}


@dataclass(frozen=True)
class Side:
    """Seconds of each round, and how many processes the plan had."""

    seconds: tuple[float, ...]
    processes: int

    @property
    def median(self) -> float:
        """The median of the seconds."""
        return statistics.median(self.seconds)


@dataclass(frozen=True)
class Comparison:
    """A query by all sides. ``rows`` were read by PostgreSQL's scans; ``exact``: floats were bit-equal.

    ``columns`` is None where no columnar index is read. ``columns_note`` tells why not, or whether it would be
    without being asked for.
    """

    query: str
    rows: int
    answer_rows: int
    vectorized: bool
    reason: str
    exact: bool
    postgresql: Side
    pgbillion: Side
    columns: Side | None
    columns_note: str
    plan: str

    def rate(self, side: Side) -> float:
        """Rows per second."""
        return self.rows / side.median

    @property
    def sides(self) -> dict[str, Side]:
        """The sides there are, PostgreSQL's first."""
        found = {POSTGRESQL: self.postgresql, OURS: self.pgbillion}
        return found if self.columns is None else {**found, COLUMNS: self.columns}

    @property
    def best(self) -> Side:
        """The extension's side that is furthest from the heap."""
        return self.columns or self.pgbillion

    @property
    def ratio(self) -> float:
        """How many times as fast as PostgreSQL alone vectors over the heap are."""
        return self.times(self.pgbillion)

    def times(self, side: Side) -> float:
        """How many times as fast as PostgreSQL alone."""
        return self.postgresql.median / side.median

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON's types."""
        sides = {
            name.lower(): {**asdict(side), "median": side.median, "rows_per_second": round(self.rate(side))}
            for name, side in self.sides.items()
        }
        ratios = {
            "ratio": round(self.ratio, 3),
            "columns_ratio": None if self.columns is None else round(self.times(self.columns), 3),
        }
        return {**asdict(self), **sides, **ratios, "agree": True}


def source_query(table: str) -> str:
    """Return the source's query over a table, named without a schema."""
    # quoted only where it might have to be: people read this
    name = table if table == TABLE else sql.Identifier(table).as_string(None)
    return f"SELECT grp, count(data) FROM {name} GROUP BY 1"


def compare(
    target: Target,
    query: str | None,
    rounds: int,
    *,
    table: str = TABLE,
    processes: int | None = None,
    say: Callable[[str], None],
) -> Comparison:
    """Run a query by all sides, once to compare the answers and warm up, then ``rounds`` times in turn.

    Without a query it is the source's over ``table``, which is what the user's search_path says.
    All see the same rows: it is one read-only transaction. ``processes`` is how many are to work on it, the leader
    among them; left to the server when None. Raises UserError when the answers differ.
    """
    with session(target) as conn:
        if processes is not None:
            be_willing(conn, processes)
        return measure(conn, query, rounds, say, table=table)


@contextlib.contextmanager
def session(target: Target) -> Iterator[Connection]:
    """Give a session whose rows stay as they are, with the extension's library loaded."""
    with target.connect() as conn:
        extension.ensure_extension(conn, extension.ROWS)
        # psycopg would prepare what is run often, and with it keep the plan of whichever side comes then
        conn.prepare_threshold = None
        conn.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        yield conn
        conn.execute("ROLLBACK")


def be_willing(conn: Connection, processes: int) -> None:
    """Let a number of processes work on each query, the leader among them, however small its tables."""
    for name, value in {**_WILLING, "max_parallel_workers_per_gather": str(processes - 1)}.items():
        conn.execute("SELECT set_config(%s, %s, false)", [name, value])
    conn.execute(
        "SELECT set_config('max_parallel_workers', %s, false) WHERE current_setting('max_parallel_workers')::int < %s",
        [str(processes - 1), processes - 1],
    )


def measure(
    conn: Connection, query: str | None, rounds: int, say: Callable[[str], None], *, table: str = TABLE
) -> Comparison:
    """Do what `compare` does, in a session made by `session`."""
    if query is not None:
        query = query.strip().rstrip(";")
        # the user's words, by the user's names
        with search_path.restored(conn):
            return _measure(conn, query, query, rounds, say)
    place = search_path.qualified(conn, table) or sql.Identifier(table)
    sent = sql.SQL("SELECT grp, count(data) FROM {} GROUP BY 1").format(place).as_string(conn)
    return _measure(conn, source_query(table), sent, rounds, say)


def _measure(conn: Connection, shown: str, query: str, rounds: int, say: Callable[[str], None]) -> Comparison:
    """Measure ``query``, which people read as ``shown``. What is sent beside it is qualified."""
    sides, note = _sides(conn, query)
    found: dict[str, Answer] = {}
    ran: dict[str, plans.Plan] = {}
    for side in sides:
        _switch(conn, side)
        # not run to be timed: counting a plan's rows takes time of its own
        ran[side] = plans.explain(conn, query, run=True)
        found[side] = answers.answer(conn.execute(query.encode()))
    plan, reason = plans.text(conn, query), plans.reason(conn, query)
    parallel = any(plans.parallel(one) for one in ran.values())
    for side in sides[1:]:
        differs = answers.difference(found[POSTGRESQL], found[side], answers.PARALLEL if parallel else None)
        if differs is not None:
            raise UserError(
                f"the answers differ, with {_DIFFERS[side]} off and on: {differs}",
                "unless the query is volatile, as random() is, this is a bug: report it",
            )

    seconds: dict[str, list[float]] = {side: [] for side in sides}
    for number in range(rounds):
        for side in sides if number % 2 == 0 else reversed(sides):
            _switch(conn, side)
            start = time.perf_counter()
            conn.execute(query.encode())
            seconds[side].append(time.perf_counter() - start)
            say(f"{side}: {seconds[side][-1] * 1000:,.1f} ms")
    measured = {side: Side(tuple(seconds[side]), plans.processes(ran[side])) for side in sides}
    return Comparison(
        query=shown,
        rows=plans.rows_read(ran[POSTGRESQL]),
        answer_rows=len(found[POSTGRESQL].rows),
        vectorized=plans.vectorized(ran[OURS]),
        reason=reason,
        exact=all(answers.difference(found[POSTGRESQL], found[side]) is None for side in sides[1:]),
        postgresql=measured[POSTGRESQL],
        pgbillion=measured[OURS],
        columns=measured.get(COLUMNS),
        columns_note=note,
        plan=plan,
    )


_DIFFERS = {OURS: plans.SETTING, COLUMNS: plans.COLUMNS}


def _switch(conn: Connection, side: str) -> None:
    plans.switch(conn, side != POSTGRESQL, columns="force" if side == COLUMNS else "off")


def _sides(conn: Connection, query: str) -> tuple[tuple[str, ...], str]:
    """Return the sides there are, and a line about that of columnar indexes."""
    _switch(conn, COLUMNS)
    forced = plans.indexes_of_columns(plans.explain(conn, query))
    if not forced:
        advice = invocation.command("rows", "columns", *invocation.argument(query))
        return (POSTGRESQL, OURS), f"no columnar index has what the query reads; for advice: {advice}"
    plans.switch(conn, True, columns="on")
    chosen = plans.indexes_of_columns(plans.explain(conn, query))
    named = ", ".join(dict.fromkeys(forced))
    if len(chosen) == len(forced):
        return (POSTGRESQL, OURS, COLUMNS), f"{named} read"
    return (POSTGRESQL, OURS, COLUMNS), f"{named} read with {plans.COLUMNS} = force; without, the heap seems cheaper"


def excerpt(plan: str, lines: int = 24) -> str:
    """Return the first lines of a plan."""
    shown: Sequence[str] = plan.splitlines()
    return "\n".join([*shown[:lines], *(["…"] if len(shown) > lines else [])])

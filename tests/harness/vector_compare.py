"""One query with vectorized aggregation off and on, in one transaction: do rows or errors agree?"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import psycopg

from pgbillion.common.connection import Connection
from pgbillion.rows import answers, plans
from pgbillion.rows.answers import FLOAT4, FLOAT8, Answer, Row, Tolerance

from .vector_queries import MATRIX, Part, Query, Shape

NUMERIC = 1700
# Values of both signs are added here, and squares of large ones: the order of additions shows more than in one's data.
TOLERANCE = Tolerance(float4=1e-2, float8=1e-6, absolute=1e-28)
# Where values are extreme, 1e38 + 1 - 1e38 is 0 or 1: all finite numbers are that close to each other.
ANY = Tolerance(float4=2, float8=2)


@dataclass(frozen=True)
class Outcome:
    """What a query's statements have answered up to the first error, and that error."""

    answers: list[Answer]
    error: tuple[str, str] | None = None


@dataclass
class Tally:
    """What has been seen."""

    queries: int = 0
    within_grammar: int = 0
    vectorized: int = 0
    vectorized_within: int = 0
    parallel: int = 0
    spilled: int = 0
    distinct: int = 0
    errors: Counter[str] = field(default_factory=Counter)
    rows: int = 0
    cells: Counter[tuple[str, str]] = field(default_factory=Counter)
    shapes: Counter[str] = field(default_factory=Counter)
    tables: Counter[str] = field(default_factory=Counter)

    def matrix(self) -> str:
        """Aggregates × types: in how many queries that ran vectorized."""
        columns = list(dict.fromkeys(column for columns in MATRIX.values() for column in columns))
        lines = [f"{'':12}" + "".join(f"{column:>6}" for column in columns)]
        for name, allowed in MATRIX.items():
            cells = [f"{self.cells[name, column] if column in allowed else '-':>6}" for column in columns]
            lines.append(f"{name:12}" + "".join(cells))
        return "\n".join(lines)

    def holes(self) -> list[tuple[str, str]]:
        """Cells that no vectorized query has touched."""
        cells = [(name, column) for name, columns in MATRIX.items() for column in columns]
        return [cell for cell in cells if not self.cells[cell]]


def execute(conn: Connection, query: Query, on: str) -> Outcome:
    """Run a query with the feature off, on or forced, leaving the transaction as it was."""
    found: list[Answer] = []
    with settings(conn, query, on) as failed:
        for statement in query.statements()[0]:
            try:
                cursor = conn.execute(statement.encode())
            except psycopg.Error as error:
                failed.append(True)
                return Outcome(found, (error.sqlstate or "", error.diag.message_primary or str(error)))
            if cursor.description is not None:
                found.append(answers.answer(cursor))
    return Outcome(found)


def planned(conn: Connection, query: Query, on: str = "force", *, run: bool = False) -> plans.Plan | None:
    """Return the query's plan, or None when planning it, or running it where that is asked for, raises an error."""
    statements, explained = query.statements()
    with settings(conn, query, on) as failed:
        try:
            for statement in statements[:3] if query.shape is Shape.PREPARED else ():
                conn.execute(statement.encode())
            return plans.explain(conn, explained, run=run)
        except psycopg.Error:
            failed.append(True)
            return None


class settings:  # noqa: N801
    """A savepoint in which the query's settings hold."""

    def __init__(self, conn: Connection, query: Query, on: str) -> None:
        self._conn, self._query, self._on = conn, query, on
        self._failed: list[bool] = []

    def __enter__(self) -> list[bool]:
        settings = [(f"pgbillion_rows.{name}", self._on) for name in ("vector_aggregate", "vector_join")]
        settings += self._query.settings
        if self._on == "off":
            settings.append(("pgbillion_rows.vector_scan", "off"))
        text = "SAVEPOINT one; " + "".join(f"SET LOCAL {name} = {value}; " for name, value in settings)
        self._conn.execute(text.encode())
        return self._failed

    def __exit__(self, *exception: object) -> None:
        if self._conn.info.transaction_status.name in ("INTRANS", "INERROR"):
            self._conn.execute("ROLLBACK TO one; RELEASE one")


def compared(conn: Connection, query: Query, core: Outcome, ours: Outcome, left: str = "off") -> str | None:
    """Tell what does not agree, or None; to the last bit where core's own plan reads rows in the order of pages."""
    differs = difference(query, core, ours)
    if differs is not None:
        plan = planned(conn, query, left)
        if plan is not None and (_reorders(plan) or joins(query)):
            differs = difference(query, core, ours, reordered=True)
    return differs


def _reorders(plan: plans.Plan, below_aggregate: bool = False) -> bool:
    """Tell whether rows come to an aggregate in another order than that of pages and line pointers."""
    kind = plan["Node Type"]
    if "Index Scan" in kind or "Index Only Scan" in kind or kind == "Bitmap Heap Scan":
        return True
    if below_aggregate and "Sort" in kind:
        return True
    below_aggregate |= kind == "Aggregate"
    return any(_reorders(child, below_aggregate) for child in plan.get("Plans", ()))


def joins(query: Query) -> bool:
    """Tell whether rows may come from a join, in the order of either side."""
    return " IN (SELECT" in str(query)


# how a float's overflow is reported
OVERFLOW = ("22003", "value out of range: overflow")


def difference(query: Query, core: Outcome, ours: Outcome, *, reordered: bool = False) -> str | None:
    """Tell what does not agree, or None.

    Where rows came in another order, sums of floats may differ a little, and another of equal values may be shown.
    """
    if core.error != ours.error:
        both = core.error is not None and ours.error is not None
        # whether a sum of huge floats overflows depends on their order, which is luck in a parallel plan, too
        if (query.parallel or reordered) and query.table == "extreme" and {core.error, ours.error} == {None, OVERFLOW}:
            return None
        # a row that finds no partner may be left out before or after a condition that fails for it
        if joins(query) and any(part.risky for part in query.where) and not both:
            return None
        # of several errors the one that is met first is reported: a matter of luck in a parallel plan, and of which
        # groups' rows wait in files where memory is little
        several = query.parallel or query.distinct or query.risks > 1 or query.little_memory or joins(query)
        # the message has the value of the row that was met first, and PostgreSQL may sort rows before
        of_value = {error[0] for error in (core.error, ours.error) if error is not None} == {"22P02"}
        if not (both and (several or of_value)):
            return f"error {core.error}, and {ours.error}"
    if core.error is not None:
        return None
    tolerance = TOLERANCE if query.parallel or query.combined or reordered else None
    if tolerance is not None and query.ordered_sums and query.table == "extreme":
        tolerance = ANY
    for one, two in zip(core.answers, ours.answers, strict=True):
        if query.parallel or reordered:
            one, two = normal(one), normal(two)
        if query.shape is Shape.CURSOR and not query.sorted:
            continue
        differs = answers.difference(one, two, tolerance)
        if differs is not None:
            return differs
        if query.sorted and not query.parallel and one.rows != two.rows:
            return "the order of the rows"
    if query.shape is Shape.CURSOR and not query.sorted:
        # which rows a FETCH gives is open; all of them together are not
        one, two = _merged(core), _merged(ours)
        if "FETCH BACKWARD" in str(query):
            return None if len(one.rows) == len(two.rows) else "the number of rows"
        if query.parallel or reordered:
            one, two = normal(one), normal(two)
        return answers.difference(one, two, tolerance)
    return None


def _merged(outcome: Outcome) -> Answer:
    return replace(outcome.answers[0], rows=[row for answer in outcome.answers for row in answer.rows])


def normal(found: Answer) -> Answer:
    """Make equal values that look different look the same: which of them is shown depends on who was first."""
    if not {NUMERIC, FLOAT4, FLOAT8} & set(found.types):
        return found
    return replace(found, rows=[_normal_row(row, found.types) for row in found.rows])


def _normal_row(row: Row, types: Sequence[int]) -> Row:
    cells: list[bytes | None] = []
    for value, type_ in zip(row, types, strict=True):
        if value == b"-0" and type_ in (FLOAT4, FLOAT8):
            cells.append(b"0")
        elif value is not None and type_ == NUMERIC and b"." in value:
            cells.append(value.rstrip(b"0").rstrip(b"."))
        else:
            cells.append(value)
    return tuple(cells)


def minimise(conn: Connection, query: Query, left: str = "off", right: str = "force") -> Query:
    """Leave out whatever the disagreement does not need."""

    def still(candidate: Query) -> bool:
        core, ours = execute(conn, candidate, left), execute(conn, candidate, right)
        return compared(conn, candidate, core, ours, left) is not None

    progress = True
    while progress:
        progress = False
        for candidate in _smaller(query):
            if still(candidate):
                query, progress = candidate, True
                break
    return query


def _smaller(query: Query) -> Iterator[Query]:
    if query.shape is not Shape.PLAIN:
        yield replace(query, shape=Shape.PLAIN)
    for index in range(len(query.settings)):
        # those that make an answer's look certain are to stay
        if query.settings[index][0] not in ("enable_sort", "enable_indexscan", "max_parallel_workers_per_gather"):
            yield replace(query, settings=query.settings[:index] + query.settings[index + 1 :])
    if query.parallel and not any(key.ambiguous for key in query.keys):
        rest = tuple(one for one in query.settings if one[0] != "parallel_leader_participation")
        yield replace(
            query,
            settings=tuple((n, "0" if n == "max_parallel_workers_per_gather" else v) for n, v in rest),
        )
    if query.limit is not None:
        yield replace(query, limit=None)
    if query.order:
        yield replace(query, order="", limit=None)
    for name in ("having", "where", "keys", "aggregates"):
        parts: tuple[Part, ...] = getattr(query, name)
        if name == "aggregates" and len(parts) == 1:
            continue
        for index in range(len(parts)):
            yield replace(query, **{name: parts[:index] + parts[index + 1 :]})  # type: ignore[arg-type]
    for index, part in enumerate(query.aggregates):
        bare = re.sub(r" FILTER \(WHERE .*\)$", "", part.sql)
        if bare != part.sql:
            changed = (*query.aggregates[:index], replace(part, sql=bare), *query.aggregates[index + 1 :])
            yield replace(query, aggregates=changed)

"""One query over all shards: its answer, whether that is the sum of theirs, and how fast it came."""

from __future__ import annotations

import contextlib
import re
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql

from pgbillion.common import search_path
from pgbillion.common.connection import Connection
from pgbillion.common.errors import UserError
from pgbillion.common.target import Target
from pgbillion.common.together import at_once
from pgbillion.rows import aggregate, answers
from pgbillion.rows.answers import Answer
from pgbillion.server import extension
from pgbillion.shards import citus, coordinator
from pgbillion.shards.record import Engine, Set


@dataclass(frozen=True)
class Result:
    """An answer and its times.

    ``first_seconds`` are of the first run, which connects to the shards, ``seconds`` of the others. ``rows`` are
    those of the partitions that the plan reads, by what was loaded. ``checked`` tells that the answer was compared
    with the sum of the shards' own.
    """

    query: str
    answer: Answer
    rows: int
    partitions: int
    first_seconds: float
    seconds: tuple[float, ...]
    checked: bool
    plan: str

    @property
    def median(self) -> float:
        """The median of the seconds."""
        return statistics.median(self.seconds)

    @property
    def rate(self) -> float:
        """Rows per second."""
        return self.rows / self.median

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON's types; values of the answer are text, as the server sent them."""
        return {
            "query": self.query,
            "columns": list(self.answer.names),
            "answer": [
                [None if value is None else value.decode(errors="replace") for value in row] for row in self.answer.rows
            ],
            "rows": self.rows,
            "partitions": self.partitions,
            "first_seconds": self.first_seconds,
            "seconds": list(self.seconds),
            "median": self.median,
            "rows_per_second": round(self.rate),
            "checked": self.checked,
            "plan": self.plan,
        }


def run(target: Target, found: Set, query: str | None, rounds: int, say: Callable[[str], None]) -> Result:
    """Run a query, by default the source's, once to connect and then ``rounds`` times, in a read-only session.

    Raises UserError when the answer to the source's query is not the sum of what the shards answer by themselves.
    """
    default = query is None
    words = default_query(found) if query is None else query.strip().rstrip(";")
    with coordinator.session(target, read_only=True) as conn, contextlib.ExitStack() as stack:
        sent = words
        if default:
            sent = sql.SQL("SELECT grp, count(data) FROM {} GROUP BY 1").format(found.relation).as_string(conn)
        else:
            # the user's words, by the user's names
            stack.enter_context(search_path.restored(conn))
        start = time.perf_counter()
        answer = answers.answer(conn.execute(sent.encode()))
        first = time.perf_counter() - start
        seconds: list[float] = []
        for _ in range(rounds):
            start = time.perf_counter()
            conn.execute(sent.encode())
            seconds.append(time.perf_counter() - start)
            say(f"{seconds[-1] * 1000:,.1f} ms")
        if default:
            check(target, found, answer)
        shown = plan(conn, sent)
    partitions = read_partitions(found, shown)
    return Result(
        query=words,
        answer=answer,
        rows=partitions * found.layout.rows,
        partitions=partitions,
        first_seconds=first,
        seconds=tuple(seconds),
        checked=default,
        plan=shown,
    )


def default_query(found: Set) -> str:
    """Return the source's query over the table, named so that search_path does not matter."""
    if found.schema == "public":
        return aggregate.source_query(found.table)
    return f"SELECT grp, count(data) FROM {found.relation.as_string(None)} GROUP BY 1"


def plan(conn: Connection, query: str) -> str:
    """Return what EXPLAIN shows, with the SQL of the shards."""
    try:
        rows = conn.execute(f"EXPLAIN (VERBOSE, COSTS OFF) {query}".encode()).fetchall()
    except psycopg.errors.SyntaxError:
        # SHOW and the like have no plan
        return ""
    return "\n".join(line for (line,) in rows)


def read_partitions(found: Set, shown: str) -> int:
    """Return how many of the table's partitions a plan reads."""
    if found.engine is Engine.CITUS:
        return len(found.members) if "Citus" in shown else 0
    names = [member.name for member in found.members] + ([found.local_name] if found.local else [])
    # after a dot or a quote: with VERBOSE, relations have their schema
    return sum(re.search(rf'[.(" ]{re.escape(name)}(?![\w])', shown) is not None for name in names)


def check(target: Target, found: Set, answer: Answer) -> None:
    """Compare an answer to the source's query with the sum of what each partition answers, asked directly."""
    if found.engine is Engine.CITUS:
        compare(answer, citus.counts(found))
        return
    places = [(member.target, sql.Identifier(member.schema, found.table)) for member in found.members]
    if found.local:
        places.append((target, coordinator.local_table(found)))
    compare(answer, counts(places))


def counts(places: Sequence[tuple[Target, sql.Identifier]]) -> list[Counter[bytes | None]]:
    """Return what each of these tables answers to the source's query by itself."""
    return at_once(_counts, places)


def compare(answer: Answer, parts: Iterable[Counter[bytes | None]]) -> None:
    """Raise UserError when an answer to the source's query is not the sum of the parts."""
    total: Counter[bytes | None] = Counter()
    for part in parts:
        total.update(part)
    got: dict[bytes | None, bytes | None] = {row[0]: row[1] for row in answer.rows}
    expected = {group: str(number).encode() for group, number in total.items()}
    wrong = [group for group in {*got, *expected} if got.get(group) != expected.get(group)]
    if wrong:
        group = min(wrong, key=lambda one: one or b"")
        raise UserError(
            f"the answer is not the sum of the shards' own in {len(wrong)} of {len(expected)} groups: group"
            f" {_shown(group)} has {_shown(got.get(group))}, the shards together {_shown(expected.get(group))}",
            "unless rows changed meanwhile this is a bug: report it",
        )


def _counts(place: tuple[Target, sql.Identifier]) -> Counter[bytes | None]:
    target, table = place
    with target.connect() as conn:
        # loads the library, as the coordinator's sessions do
        extension.versions(conn, extension.ROWS)
        found = answers.answer(conn.execute(sql.SQL("SELECT grp, count(data) FROM {} GROUP BY 1").format(table)))
    return Counter({group: int(number or b"0") for group, number in found.rows})


def _shown(value: bytes | None) -> str:
    return "NULL" if value is None else value.decode()

"""All interleavings of a few transactions: run on heap and on lazy_heap, and judged by the serial order they must have.

A transaction is a program, a string of one letter a step; OPERATIONS says what they do. A step that waits for another
session ends when that one lets it: the order in which steps ended is then what heap is given, too. (So the first
step, which takes the snapshot, must be one that never waits.)
"""

from __future__ import annotations

import itertools
import select
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from psycopg import pq

from pgbillion.common.connection import Connection

from .servers import one

Order = tuple[int, ...]

# {read} is the reader's query, {k} the transaction's number, which is what it inserts, {other} the next one's
OPERATIONS: Mapping[str, str] = {
    "r": "{read}",
    "b": "SELECT 1",
    "i": "INSERT INTO t VALUES ({k}, 'x')",
    "s": "SAVEPOINT s; INSERT INTO t VALUES ({k}, 'x'); RELEASE s",
    "u": "SAVEPOINT s; INSERT INTO t VALUES ({k} + 100, 'x'); ROLLBACK TO s",
    "R": "SAVEPOINT s; {read}; ROLLBACK TO s",
    "l": "LOCK TABLE t IN ROW SHARE MODE",
    "o": "INSERT INTO t VALUES ({k}, 'x') ON CONFLICT DO NOTHING",
    "h": "SELECT pgbillion_tables.to_heap('{{t}}')",
    "c": "COMMIT",
    "a": "ROLLBACK",
}
WRITES = "iso"
FAILED = "40001"


@dataclass(frozen=True)
class Reader:
    """A way to read: settings, the query (a count), the plan's node that shows it is that way, which rows it counts."""

    settings: str
    query: str
    node: str
    #: only the row of the next transaction, else all
    one_row: bool = False
    #: may fail where heap would not
    coarse: bool = False
    #: heap itself does not notice all that this misses
    serializable: bool = True


@dataclass
class Outcome:
    """What has become of the transactions: committed or an SQLSTATE; what committed ones have read."""

    ends: dict[int, str] = field(default_factory=dict)
    reads: dict[int, list[int]] = field(default_factory=dict)
    rows: list[int] = field(default_factory=list)
    #: the number of the transaction of each step, in the order in which they ended
    order: list[int] = field(default_factory=list)

    def visible(self) -> object:
        """What a user can rely on: ends, rows, and what committed transactions have read."""
        committed = {number: read for number, read in self.reads.items() if self.ends[number] == "COMMIT"}
        return self.ends, committed, self.rows

    def failed(self) -> set[int]:
        return {number for number, end in self.ends.items() if end not in ("COMMIT", "ROLLBACK")}


class _Session:
    """One transaction of an interleaving."""

    def __init__(self, conn: Connection, number: int, program: str, reader: Reader, count: int) -> None:
        self.conn, self.number, self.program = conn, number, program
        words = {"k": str(number), "other": str((number + 1) % count)}
        words["read"] = reader.query.format(**words)
        self._statements = [OPERATIONS[letter].format(**words) for letter in program]
        self._next = 0
        self.dead = ""
        self.waiting = False
        self.reads: list[int] = []

    def send(self) -> None:
        begin = "BEGIN ISOLATION LEVEL SERIALIZABLE; " if self._next == 0 else ""
        self.conn.pgconn.send_query((begin + self._statements[self._next]).encode())
        self.waiting = True

    def step_over(self) -> None:
        self._next += 1

    def ended(self, seconds: float) -> bool:
        """Wait a while for the step under way; take its results when they are all there."""
        pgconn = self.conn.pgconn
        if select.select([pgconn.socket], [], [], seconds)[0]:
            pgconn.consume_input()
        if pgconn.is_busy():
            return False
        letter, error = self.program[self._next], ""
        while (result := pgconn.get_result()) is not None:
            if result.status == pq.ExecStatus.FATAL_ERROR:
                error = (result.error_field(pq.DiagnosticField.SQLSTATE) or b"").decode()
            elif result.status == pq.ExecStatus.TUPLES_OK and letter in "rR":
                self.reads.append(int(result.get_value(0, 0) or b"0"))
        self.waiting = False
        self._next += 1
        if error or letter in "ca":
            self.dead = error or OPERATIONS[letter]
            if error:
                self.conn.execute("ROLLBACK")
        return True


def orders(programs: Sequence[str]) -> Iterator[Order]:
    """Every interleaving, as the transactions' numbers; of equal programs only one of those that differ in names."""

    def go(left: tuple[int, ...], order: Order) -> Iterator[Order]:
        if not any(left):
            yield order
            return
        for number, remaining in enumerate(left):
            twin_waits = any(
                programs[other] == programs[number] and left[other] == len(programs[other]) for other in range(number)
            )
            if remaining and not (remaining == len(programs[number]) and twin_waits):
                yield from go((*left[:number], remaining - 1, *left[number + 1 :]), (*order, number))

    return go(tuple(len(program) for program in programs), ())


def perform(
    sessions: Sequence[Connection], monitor: Connection, programs: Sequence[str], order: Sequence[int], reader: Reader
) -> Outcome:
    """Run one interleaving on table t. Steps of a transaction that waits are put off, those of a dead one left out."""
    running = [
        _Session(conn, number, program, reader, len(programs))
        for number, (conn, program) in enumerate(zip(sessions, programs, strict=False))
    ]
    outcome = Outcome()
    put_off: list[int] = []

    def settle(session: _Session) -> bool:
        """Wait until the session's step has ended or it waits for another one."""
        while not session.ended(0.003):
            if one(monitor, "SELECT cardinality(pg_blocking_pids(%s)) > 0", session.conn.info.backend_pid):
                return session.ended(0)
        return True

    def attempt(number: int) -> None:
        session = running[number]
        if session.waiting:
            put_off.append(number)
        elif session.dead:
            outcome.order.append(number)
            session.step_over()
        else:
            session.send()
            if settle(session):
                outcome.order.append(number)
                others_end()

    def others_end() -> None:
        for session in running:
            if session.waiting and settle(session):
                outcome.order.append(session.number)
                for number in [number for number in put_off if number == session.number]:
                    put_off.remove(number)
                    attempt(number)
                return others_end()
        return None

    for number in order:
        attempt(number)
    while any(session.waiting for session in running):
        others_end()
    while put_off:
        attempt(put_off.pop(0))
    for session in running:
        outcome.ends[session.number] = session.dead
        outcome.reads[session.number] = session.reads
    outcome.rows = [i for (i,) in monitor.execute("SELECT i FROM t ORDER BY i")]
    return outcome


def not_serializable(programs: Sequence[str], outcome: Outcome, reader: Reader) -> str | None:
    """Why no serial order of the committed transactions explains what they read and left; None when one does."""
    committed = [number for number, end in outcome.ends.items() if end == "COMMIT"]
    wrote = sorted(number for number in committed if any(letter in WRITES for letter in programs[number]))
    if outcome.rows != wrote:
        return f"rows {outcome.rows}, should be {wrote}"
    for serial in itertools.permutations(committed):
        if all(
            _reads(programs[number], number, set(serial[:place]) & set(wrote), reader, len(programs))
            == outcome.reads[number]
            for place, number in enumerate(serial)
        ):
            return None
    return f"no serial order of {committed} explains {outcome.reads}"


def _reads(program: str, number: int, rows: set[int], reader: Reader, count: int) -> list[int]:
    found, mine = [], set(rows)
    for letter in program:
        if letter in WRITES:
            mine.add(number)
        elif letter in "rR":
            found.append(int((number + 1) % count in mine) if reader.one_row else len(mine))
    return found

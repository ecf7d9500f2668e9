"""How many locks the cycle needs: measured with a few tables, before it fails on the thirty thousandth."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, NoReturn

import psycopg

from pgbillion.common import sql
from pgbillion.common.errors import UserError
from pgbillion.cycle.plan import Method, Phase
from pgbillion.cycle.session import Session

_SAMPLE = 8
# The extension refuses to fill more than four fifths of the lock table, and others need some of it, too.
_SHARE = 0.8


@dataclass(frozen=True)
class Locks:
    """What the server has and what a run needs; ``wanted`` is the least max_locks_per_transaction that will do."""

    per_table: float
    method: Method
    setting: int
    slots: int
    wanted: int

    @property
    def enough(self) -> bool:
        """Tell whether the server has this number."""
        return self.setting >= self.wanted

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON's types."""
        return asdict(self)


def measure(session: Session, methods: Iterable[Method]) -> Locks:
    """Go through the cycle with a few tables, each phase in a transaction as the methods have it, and look.

    Raises psycopg.Error for what the server refuses, before anything large has begun.
    """
    most, worst = 0.0, Method.STATEMENTS
    conn = session.conn
    for method in methods:
        try:
            for phase in (Phase.CREATE, Phase.INSERT, Phase.READ):
                session.work(method, phase, _SAMPLE)()
        except psycopg.errors.IntegrityError as error:
            raise UserError(
                f"the rows that can be made up do not satisfy the tables' constraints: {error.diag.message_primary}",
                "choose another template, or other --columns",
                status=3,
            ) from error
        # DROP needs the most: also those of types and constraints
        held = []
        for count in (_SAMPLE // 2, _SAMPLE):
            with conn.transaction(force_rollback=count < _SAMPLE):
                session.work(method, Phase.DROP, count)()
                held.append(_row(conn)[0])
        each = (held[1] - held[0]) / (_SAMPLE - _SAMPLE // 2)
        if method is not Method.STATEMENTS and each > most:
            most, worst = each, method
    _, setting, slots = _row(conn)
    wanted = math.ceil(most * session.request.count / _SHARE / slots)
    return Locks(most, worst, setting, slots, max(10, wanted))


def refuse(locks: Locks, count: int) -> NoReturn:
    """Raise UserError with the value that will do."""
    raise UserError(
        f"max_locks_per_transaction = {locks.setting:,} is too small: method {locks.method} holds"
        f" {locks.per_table:g} locks per table, {math.ceil(locks.per_table * count):,} for {count:,} tables in one"
        " transaction",
        f"set max_locks_per_transaction = {locks.wanted} and restart the server; or use --method statements,"
        " or fewer tables with --count",
    )


def _row(conn: psycopg.Connection[tuple[Any, ...]]) -> tuple[int, int, int]:
    row = conn.execute(sql.load("cycle", "locks").encode()).fetchone()
    assert row is not None
    return row[0], row[1], row[2]

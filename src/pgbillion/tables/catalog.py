"""What the server's catalog says about a plan's tables: which exist, and how many."""

from __future__ import annotations

from pgbillion.common import sql
from pgbillion.common.connection import Connection
from pgbillion.tables.names import NameFormat, Segment
from pgbillion.tables.plan import Plan


def first_existing(conn: Connection, plan: Plan) -> str | None:
    """Return the first name of the plan that a relation of any kind has already."""
    for segment in plan.names.segments(plan.first, plan.count):
        row = conn.execute(sql.load("tables", "first_name").encode(), _parameters(segment, plan.schema)).fetchone()
        if row is not None:
            return str(row[0])
    return None


def count_existing(conn: Connection, schema: str, names: NameFormat, first: int, count: int) -> int:
    """Return how many tables of the range exist; its own size means there is no gap, as names are unique."""
    total = 0
    for segment in names.segments(first, count):
        row = conn.execute(sql.load("tables", "count_names").encode(), _parameters(segment, schema)).fetchone()
        assert row is not None
        total += row[0]
    return total


def _parameters(segment: Segment, schema: str) -> dict[str, str]:
    return {"low": segment.low, "high": segment.high, "pattern": segment.pattern, "schema": schema}

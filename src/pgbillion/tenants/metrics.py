"""Metrics of tenants, in the text format of OpenMetrics: the largest each by its name, and the others as one.

Sizes are those that VACUUM and ANALYZE left in the catalogs, so that no relation is opened.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pgbillion.common.sql import load
from pgbillion.common.target import Target

# what a schema's name cannot be: only the system's begin so
OTHERS = "pg_others"
_PREFIX = "pgbillion_tenant_"
_SCHEMAS = "pgbillion_tenants"
# name of a field of Group, and of its metric behind the prefix; what is known of none is left out
_METRICS = {
    "size_bytes": "Size of the tables, indexes, TOAST tables and sequences, as of their last VACUUM or ANALYZE.",
    "tables": "Number of tables.",
    "live_rows": "Estimated number of live rows.",
    "dead_rows": "Estimated number of dead rows.",
    "vacuum_age_seconds": "Time since a table was last vacuumed by VACUUM.",
    "autovacuum_age_seconds": "Time since a table was last vacuumed by autovacuum.",
}
_UNITS = ("bytes", "seconds")
_ESCAPED = {"\\": r"\\", "\n": r"\n", '"': r"\""}


@dataclass(frozen=True)
class Group:
    """A tenant, or all those that are not among the largest. Without a table that was vacuumed, the ages are None."""

    database: str
    schema: str
    schemas: int
    size_bytes: int
    tables: int
    live_rows: int
    dead_rows: int
    vacuum_age_seconds: int | None
    autovacuum_age_seconds: int | None


def collect(target: Target, names: Sequence[str], largest: int) -> list[Group]:
    """Return the largest of some schemas, the largest first, and the others, if any, behind them."""
    with target.connect(application_name="pgbillion tenants metrics") as conn:
        # The planner knows nothing of catalogs that have just grown, and would look up one relation after the other.
        # All that is sorted and hashed is to fit in memory, and what is looked at once need not be kept.
        conn.execute(
            "SET jit = off; SET enable_nestloop = off; SET stats_fetch_consistency = none; SET work_mem = '64MB'"
        )
        rows = conn.execute(load("tenants", "metrics").encode(), [list(names), largest])
        return [Group(*row) for row in rows]


def lines(groups: Sequence[Group]) -> Iterator[str]:
    """Give the lines of the exposition."""
    for name, meaning in _METRICS.items():
        yield from _family(_PREFIX + name, meaning)
        for group in groups:
            if (value := getattr(group, name)) is not None:
                labels = f'database="{_escaped(group.database)}",schema="{_escaped(group.schema)}"'
                yield f"{_PREFIX}{name}{{{labels}}} {value}"
    yield from _family(_SCHEMAS, "Number of tenants.")
    for database in sorted({group.database for group in groups}):
        yield f'{_SCHEMAS}{{database="{_escaped(database)}"}} {sum(group.schemas for group in groups)}'
    yield "# EOF"


def _family(name: str, meaning: str) -> Iterator[str]:
    yield f"# TYPE {name} gauge"
    yield from (f"# UNIT {name} {unit}" for unit in _UNITS if name.endswith(f"_{unit}"))
    yield f"# HELP {name} {meaning}"


def _escaped(value: str) -> str:
    return re.sub(r'[\\\n"]', lambda found: _ESCAPED[found[0]], value)

"""PostgreSQL's own regression suite with lazy_heap as the default access method, beside a run with heap.

regress_lazy/MAJOR/TEST.diff holds the differences that are accepted, and regress_lazy/README.md the reason
for each. To see new ones: PGBILLION_ACCEPT=1 writes them there.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from harness import regress
from pgbillion.server.postgres import Installation

pytestmark = pytest.mark.majors

ACCEPTED = Path(__file__).with_name("regress_lazy")
# the suite leaves about as many tables behind
FEWEST_TABLES = 500
# sessions with a lazy table load the extension, whose other features would show in plans
LAZY = (
    ("default_table_access_method", "lazy_heap"),
    ("pgbillion_rows.vector_aggregate", "off"),
    ("pgbillion_rows.eager_aggregate", "off"),
)


def test_servers_own_regression_suite(installation: Installation, tell: Callable[[str], None]) -> None:
    heap = regress.outcome(installation)
    lazy_heap = regress.outcome(installation, LAZY)
    lazy, grown = lazy_heap.tables.get("lazy_heap", 0), lazy_heap.tables.get("heap", 0)
    tables = f"{lazy} lazy tables, {grown} that have become heap, {lazy_heap.tests} tests"
    tell(tables)

    wrong = regress.not_accepted(
        regress.differences(heap.results, lazy_heap.results), ACCEPTED / str(installation.major)
    )
    assert wrong == [], "\n".join(wrong)
    assert lazy_heap.alarms == heap.alarms == []
    assert lazy_heap.tests == heap.tests
    assert lazy + grown >= FEWEST_TABLES, tables
    assert lazy >= 50, tables
    assert set(lazy_heap.unsound) <= set(heap.unsound)

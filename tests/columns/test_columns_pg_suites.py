"""PostgreSQL's own regression and isolation suites with a columnar index on every table that takes one, and read.

They are compared with runs that force vectors and have no such index: what differs is what the index does. What is
accepted is in folders of regress_columns, with reasons in the README.md there; PGBILLION_ACCEPT=1 adds new ones.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from harness import columns_everywhere, isolation, regress
from pgbillion.server.postgres import Installation

ACCEPTED = Path(__file__).with_name("regress_columns")
EVERYWHERE = (*regress.FORCED, *columns_everywhere.SETTINGS)
# the suites had more of these when this was written, and must not lose many
FEWEST = {"regression": (500, 100), "isolation": (500, 0)}

# it prints plans by functions of its own
ONLY_PLANS = "explain"


def shown(lines: list[str]) -> list[str]:
    return columns_everywhere.without_indexes(regress.without_plans(lines))


@pytest.mark.column_suites
@pytest.mark.timeout(0)
def test_servers_own_regression_suite(installation: Installation, tell: Callable[[str], None]) -> None:
    without = regress.outcome(installation, regress.FORCED, before="SELECT")
    there = regress.outcome(installation, EVERYWHERE, before=columns_everywhere.TRIGGER)
    made, read = there.columns
    tell(f"{made} indexes, {read} plans that read blocks from one, {there.plans} in {there.tests} tests")

    found = regress.differences(without.results, there.results, shown)
    found.pop(ONLY_PLANS, None)
    wrong = regress.not_accepted(found, ACCEPTED / str(installation.major))
    assert wrong == [], "\n".join(wrong)
    assert there.alarms == without.alarms == []
    assert there.tests == without.tests
    assert set(there.unsound) <= set(without.unsound)
    assert (made, read) >= FEWEST["regression"]
    assert read >= FEWEST["regression"][1]


@pytest.mark.column_suites
@pytest.mark.timeout(0)
def test_servers_own_isolation_suite(installation: Installation, tell: Callable[[str], None]) -> None:
    there = isolation.outcome(installation, EVERYWHERE, before=columns_everywhere.TRIGGER)
    made, read = there.columns
    tell(
        f"{made} indexes, {read} plans that read blocks from one, {there.plans} in {there.tests} tests;"
        f" not as PostgreSQL's authors expect: {' '.join(there.unexpected) or 'none'}"
    )

    if there.unexpected:
        core = isolation.outcome(installation, regress.FORCED, only=there.unexpected)
        assert core.alarms == []
        found = regress.differences(core.results, {test: there.results[test] for test in there.unexpected}, shown)
        wrong = regress.not_accepted(found, ACCEPTED / f"isolation-{installation.major}")
        assert wrong == [], "\n".join(wrong)
    assert there.alarms == there.unsound == []
    assert made >= FEWEST["isolation"][0]

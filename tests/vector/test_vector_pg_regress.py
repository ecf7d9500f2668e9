"""PostgreSQL's own regression suite with what aggregates otherwise forced wherever it can apply, beside a run without.

Plans differ by intent, and are left out. regress_vector/MAJOR/TEST.diff holds the other differences that are
accepted, and regress_vector/README.md the reason for each. To see new ones: PGBILLION_ACCEPT=1 writes them there.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from harness import regress
from pgbillion.server.postgres import Installation

pytestmark = pytest.mark.majors

ACCEPTED = Path(__file__).with_name("regress_vector")
# the suite ran more of these when this was written, and must not lose many
FEWEST_PLANS = {"vector": 800, "eager": 25}
# in which order joins of catalogs give their rows depends on what autovacuum has counted
CATALOG_JOINS = ("partition_info", "publication", "tablespace", "type_sanity")


def only_moved(difference: str) -> bool:
    """Is it the same words in another order?"""
    removed, added = (
        sorted(
            word for line in difference.splitlines() if line.startswith(sign) for word in re.findall(r"\w+", line[1:])
        )
        for sign in "-+"
    )
    return removed == added


def test_servers_own_regression_suite(installation: Installation, tell: Callable[[str], None]) -> None:
    core = regress.outcome(installation)
    forced = regress.outcome(installation, regress.FORCED)
    tell(f"{forced.plans} in {forced.tests} tests")

    found = regress.differences(core.results, forced.results, regress.without_plans)
    found = {test: text for test, text in found.items() if test not in CATALOG_JOINS or not only_moved(text)}
    wrong = regress.not_accepted(found, ACCEPTED / str(installation.major))
    assert wrong == [], "\n".join(wrong)
    assert forced.alarms == core.alarms == []
    assert forced.tests == core.tests
    assert set(forced.unsound) <= set(core.unsound)
    assert forced.plans["vector"] >= FEWEST_PLANS["vector"]
    assert forced.plans["eager"] >= FEWEST_PLANS["eager"]

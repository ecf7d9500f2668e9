"""PostgreSQL's own isolation suite with vectors and eager aggregation forced, and lazy_heap as the default.

It shows what it shows without, plans aside: no difference is accepted. What isolation.HEAP names has heap as default.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harness import isolation, regress
from pgbillion.server.postgres import Installation

pytestmark = pytest.mark.majors

# the suite has more of these on each major, and must not lose many
FEWEST_PLANS = 150
FEWEST_GROWN = 2000


def test_servers_own_isolation_suite(installation: Installation, tell: Callable[[str], None]) -> None:
    forced = isolation.outcome(installation, regress.FORCED_ON_LAZY)
    tell(
        f"{forced.tests} tests, {forced.plans['vector']} plans with vectors,"
        f" {forced.tables['lazy_heap']} lazy tables, {forced.grown} of them became heap;"
        f" not as PostgreSQL's authors expect: {' '.join(forced.unexpected) or 'none'}"
    )

    if forced.unexpected:
        core = isolation.outcome(installation, only=forced.unexpected)
        assert core.alarms == []
        shown = {test: forced.results[test] for test in forced.unexpected}
        assert regress.differences(core.results, shown, regress.without_plans) == {}
    assert forced.alarms == forced.unsound == []
    assert forced.plans["vector"] >= FEWEST_PLANS
    assert forced.grown >= FEWEST_GROWN

"""Some of PostgreSQL's regression suite with all features, on a server that forgets its caches whenever it may.

What holds on to an entry of a cache after that may have been invalidated reads freed memory there. It takes hours, and
a server built with --enable-cassert: pytest -m discard_caches.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harness import regress
from pgbillion.server.postgres import Installation

TESTS = (
    "test_setup", "select_distinct", "select_having", "limit", "temp", "truncate", "transactions", "fast_default",
    "plancache", "create_table_like", "partition_aggregate", "aggregates",
)  # fmt: skip
FEWEST_PLANS = 50


@pytest.mark.discard_caches
@pytest.mark.timeout(0)
def test_servers_own_regression_suite(installation: Installation, tell: Callable[[str], None]) -> None:
    if "--enable-cassert" not in regress.pg_config(installation, "--configure"):
        pytest.skip("this server cannot discard its caches")
    usual = regress.outcome(installation, regress.FORCED_ON_LAZY, TESTS)
    forgetful = regress.outcome(installation, (*regress.FORCED_ON_LAZY, ("debug_discard_caches", "1")), TESTS)
    tell(f"{forgetful.plans} in {forgetful.tests} tests")

    assert regress.differences(usual.results, forgetful.results) == {}
    assert forgetful.alarms == usual.alarms == []
    assert forgetful.plans["vector"] >= FEWEST_PLANS

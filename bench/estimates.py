"""What plans are estimated to take, beside what they take: what `make bench-calibrate` and `bench-regressions` share.

An estimate is right if it is within a factor of 3, once multiplied by what makes it right for the median of all plans
on this machine. What EXPLAIN takes, which parses and plans, does not count; plans that take less than a millisecond
beyond that are left out.
"""

from __future__ import annotations

import itertools
import re
import statistics
from collections.abc import Iterable, Mapping

import contest
from contest import POSTGRESQL, Side
from pgbillion.common.connection import Connection
from pgbillion.rows import plans

FACTOR = 3
LEAST_SECONDS = 0.001

# PostgreSQL's plans, while the library is on
_NO_FEATURES = {
    contest.ENABLE: "on",
    **{
        f"pgbillion_rows.{feature}": "off"
        for feature in (
            "eager_aggregate",
            "estimate_joins",
            "memoize_subqueries",
            "replace_nested_loops",
            "vector_aggregate",
            "vector_join",
            "vector_scan",
            "vector_sort",
            "vector_window",
        )
    },
}


def milliseconds(conn: Connection, sql: str, side: Side) -> float:
    """What a side's plan is estimated to take in its session; raise RuntimeError where there is no estimate."""
    # with the library turned off nothing is estimated
    features = _NO_FEATURES if side == POSTGRESQL else {}
    with conn.transaction(force_rollback=True):
        for name, value in features.items():
            conn.execute("SELECT pg_catalog.set_config(%s, %s, true)", [name, value])
        told = plans.reason(conn, sql)
    found = re.search(r"^estimated to take ([0-9.]+) ms ", told, re.MULTILINE)
    if found is None:
        raise RuntimeError(f"no estimate of {side.name}: {sql}")
    return float(found[1])


def before(conn: Connection, sql: str) -> float:
    """The seconds that a query takes in a prepared session before its plan is executed, the less of two."""
    now = contest.clock(conn)
    found = []
    for _ in range(2):
        start = now()
        conn.execute(f"EXPLAIN (COSTS OFF) {sql}".encode())
        found.append(now() - start)
    return min(found)


def right(ratios: Mapping[str, Iterable[float]]) -> dict[str, float]:
    """Tell what part of the ratios of estimated to measured is right: of each side, and of all together."""
    by_side = {name: list(values) for name, values in ratios.items()}
    by_side["all"] = list(itertools.chain(*by_side.values()))
    return {
        name: round(sum(1 / FACTOR <= value / statistics.median(values) <= FACTOR for value in values) / len(values), 3)
        for name, values in by_side.items()
        if values
    }

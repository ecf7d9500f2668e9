"""What generated queries say twice: conditions of WHERE and ON again as outputs, in CASE, as keys and in aggregates.

Where the planner meets an expression that it knows already, it refers to the place where that was computed. A node of
ours must have computed it there.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

# values by which groups can be told apart, and what can be shown of a row
_VALUES = (
    "({0})",
    "({0})",
    "NOT ({0})",
    "coalesce({0}, false)",
    "CASE WHEN {0} THEN 'yes' ELSE 'no' END",
    "({0}) IS NULL",
)
_AGGREGATES = (
    "bool_or({0})",
    "count({0})",
    "count(*) FILTER (WHERE {0})",
    "sum(CASE WHEN {0} THEN 1 ELSE 3 END)",
    "count(DISTINCT ({0}))",
)


def terms(conditions: Sequence[str]) -> list[str]:
    """The terms of conditions, without those that have subqueries or parameters."""
    found: list[str] = []
    for condition in conditions:
        parts = [condition] if any(word in condition for word in ("(", "BETWEEN", "CASE")) else condition.split(" AND ")
        found += [part for part in parts if "SELECT" not in part and "$" not in part]
    return found


def value(chance: random.Random, conditions: Sequence[str]) -> str:
    """Give an expression with a term of these conditions in it."""
    return chance.choice(_VALUES).format(chance.choice(conditions))


def aggregate(chance: random.Random, conditions: Sequence[str]) -> str:
    """Give an aggregate with a term of these conditions in it."""
    return chance.choice(_AGGREGATES).format(chance.choice(conditions))


def grouping(chance: random.Random, keys: Sequence[str]) -> str:
    """Give what follows GROUP BY: mostly the keys, else some sets of them."""
    listed = ", ".join(keys)
    # 2 ** 3 sets at most
    if chance.random() < 0.85 or len(keys) > 3:
        return listed
    return chance.choice((f"ROLLUP ({listed})", f"CUBE ({listed})", f"GROUPING SETS (({listed}), ({keys[0]}))"))

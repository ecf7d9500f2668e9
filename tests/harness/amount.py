"""How many examples tests generate, and how many they have seen."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

# begins the name of a test's property that is a number to be added up
COUNTED = "count "
Count = Callable[[Mapping[str, int]], None]
# what part of the usual numbers, as in 0.2
SCALE = float(os.environ.get("PGBILLION_TEST_SCALE") or 1)
T = TypeVar("T")


def amount(variable: str, usual: int, least: int = 1) -> int:
    """Return the number in the environment variable, or without it the scaled usual one, but not below the least."""
    return int(os.environ.get(variable) or max(least, round(usual * SCALE)))


def every() -> int:
    """Return 1 for all of a row of steps, or 5 for each fifth of them at a scale of 0.2."""
    return max(1, round(1 / SCALE))


def some(values: Iterable[T]) -> list[T]:
    """Return all values of a test that takes long for each, or at a smaller scale every third one.

    PGBILLION_TEST_TURN, a number, says which ones: run after run, all have their turn.
    """
    return list(values)[int(os.environ.get("PGBILLION_TEST_TURN") or 0) % 3 :: 3] if every() > 1 else list(values)


def share(steps: Sequence[T]) -> Sequence[T]:
    """Return all steps, or at a smaller scale some of them, with the last one."""
    return steps[::-1][:: every()][::-1]

"""Answers of queries as the server sends them, and whether two of them agree."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import psycopg

FLOAT4, FLOAT8 = 700, 701
Row = tuple[bytes | None, ...]


@dataclass(frozen=True)
class Answer:
    """Columns, their types' OIDs, and values as text: shortest-exact for floats, so that equal text is equal bits."""

    names: tuple[str, ...]
    types: tuple[int, ...]
    rows: list[Row]


@dataclass(frozen=True)
class Tolerance:
    """How far floats may be apart, relative to the larger, where the order of additions is not the same."""

    float4: float
    float8: float
    # what is closer than this anyway: the variance of equal numbers is nothing but rounding
    absolute: float = 0.0


# Parallel workers take blocks as they come, so that PostgreSQL's own answers differ from run to run.
# sum(real) adds in single precision.
PARALLEL = Tolerance(float4=1e-3, float8=1e-9)


def answer(cursor: psycopg.Cursor[Any]) -> Answer:
    """Take the answer of the query the cursor has executed (in text format) without interpreting it."""
    result = cursor.pgresult
    assert result is not None
    columns = range(result.nfields)
    return Answer(
        tuple((result.fname(column) or b"").decode() for column in columns),
        tuple(result.ftype(column) for column in columns),
        [tuple(result.get_value(row, column) for column in columns) for row in range(result.ntuples)],
    )


def difference(one: Answer, two: Answer, tolerance: Tolerance | None = None) -> str | None:
    """Tell in a line what differs, the order of rows aside, or None when nothing does."""
    if (one.names, one.types) != (two.names, two.types):
        return f"columns {one.names} of types {one.types}, and {two.names} of types {two.types}"
    left, right = Counter(one.rows), Counter(two.rows)
    if left == right:
        return None
    only_left, only_right = list((left - right).elements()), list((right - left).elements())
    if tolerance is not None and len(only_left) == len(only_right):
        limits = [{FLOAT4: tolerance.float4, FLOAT8: tolerance.float8}.get(type_) for type_ in one.types]
        only_left.sort(key=lambda row: _order(row, limits))
        only_right.sort(key=lambda row: _order(row, limits))
        for pair in zip(only_left, only_right, strict=True):
            if not _close(*pair, limits, tolerance.absolute):
                return f"{shown(pair[0])} and {shown(pair[1])}"
        return None
    counts = f"{len(only_left)} of {len(one.rows)} rows and {len(only_right)} of {len(two.rows)}"
    first = [shown(rows[0]) if rows else "nothing" for rows in (only_left, only_right)]
    return f"{counts} have no counterpart: {first[0]} and {first[1]}"


def shown(row: Row) -> str:
    """Return a row for people."""
    cells = ["NULL" if value is None else value.decode(errors="replace") for value in row]
    return f"({', '.join(cell if len(cell) <= 60 else cell[:57] + '…' for cell in cells)})"


def _order(row: Row, limits: Sequence[float | None]) -> tuple[Any, ...]:
    """Sort by what must be equal first, then by the rest."""
    cells = list(zip(row, limits, strict=True))
    exact = [(value is not None, value or b"") for value, limit in cells if limit is None]
    loose = [
        (value is not None, math.isnan(number := float(value or b"0")), 0.0 if math.isnan(number) else number)
        for value, limit in cells
        if limit is not None
    ]
    return (exact, loose)


def _close(one: Row, two: Row, limits: Sequence[float | None], absolute: float) -> bool:
    for left, right, limit in zip(one, two, limits, strict=True):
        if left == right:
            continue
        if limit is None or left is None or right is None:
            return False
        # a NaN is close to nothing else, an infinity neither
        if not math.isclose(float(left), float(right), rel_tol=limit, abs_tol=absolute):
            return False
    return True

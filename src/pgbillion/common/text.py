"""Numbers and names as people read them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rich.filesize import decimal

# all control characters except line feeds, also those of eight bits
_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]")


def harmless(line: str) -> str:
    r"""Return text with \x1b for an escape character and the like, which a terminal would obey."""
    return _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", line)


def count(value: float) -> str:
    """Return 1,234,567."""
    return f"{value:,.0f}"


def brief(value: float) -> str:
    """Return a number with three digits, or those of its integer part: 6.49, 25,689, 52.5 M, 1.13 bn."""
    for unit, least in (("bn", 1e9), ("M", 1e6)):
        if value >= 0.9995 * least:
            return f"{value / least:.3g} {unit}" if value < 999.5 * least else f"{value / least:,.0f} {unit}"
    return count(value) if value >= 99.95 else f"{value:.3g}"


def ratio(value: float) -> str:
    """Return how many times as fast something is: 0.87, 4.3, 216."""
    return count(value) if value >= 99.5 else f"{value:.1f}" if value >= 0.95 else f"{value:.2f}"


def many(number: int, noun: str) -> str:
    """Return 1 table, 2,000 tables, 3 processes."""
    return f"{count(number)} {noun}" + ("" if number == 1 else "es" if noun.endswith("s") else "s")


def listed(words: Sequence[str]) -> str:
    """Return a, b and c."""
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


def size(value: float) -> str:
    """Return bytes in decimal units: 999 bytes, 12.3 kB, 2.6 TB."""
    return decimal(round(value))


def duration(seconds: float) -> str:
    """Return 0.35 ms, 12.3 s, 3 min 5 s, 33 h 42 min, 4 d 3 h."""
    if seconds < 0.9995:
        return f"{seconds * 1000:.3g} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    minutes = round(seconds / 60)
    if minutes < 48 * 60:
        return f"{minutes // 60} h {minutes % 60} min"
    hours = round(seconds / 3600)
    return f"{hours // 24} d {hours % 24} h"

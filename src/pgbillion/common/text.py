"""Numbers and names as people read them."""

from __future__ import annotations

import re
from collections.abc import Sequence

# all control characters except line feeds, also those of eight bits
_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]")


def harmless(line: str) -> str:
    r"""Return text with \x1b for an escape character and the like, which a terminal would obey."""
    return _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", line)


def count(value: float) -> str:
    """Return 1,234,567."""
    return f"{value:,.0f}"


def many(number: int, noun: str) -> str:
    """Return 1 table, 2,000 tables, 3 processes."""
    return f"{count(number)} {noun}" + ("" if number == 1 else "es" if noun.endswith("s") else "s")


def listed(words: Sequence[str]) -> str:
    """Return a, b and c."""
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


def size(value: float) -> str:
    """Return bytes in decimal units: 999 B, 12.3 kB, 2.6 TB."""
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if abs(value) < 999.5:
            return f"{value:.0f} {unit}" if unit == "B" or abs(value) >= 100 else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:,.1f} PB"


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

"""Table names made from a printf-like pattern and a number.

The same patterns as ``pgbillion_tables.create_tables``: literal text, ``%%`` for a percent sign, and exactly one of
``%d %o %x %X`` with an optional ``0`` and width.  A pattern of that form never gives two numbers the same name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from pgbillion.common.errors import UserError

MAX_NAME_BYTES = 63
MAX_NUMBER = 2**63 - 1

_CONVERSION = re.compile(r"%(?:(?P<percent>%)|(?P<zero>0?)(?P<width>[1-9][0-9]*)?(?P<kind>[doxX]))")
_BASE = {"d": 10, "o": 8, "x": 16, "X": 16}
_DIGITS = {"d": "[0-9]", "o": "[0-7]", "x": "[0-9a-f]", "X": "[0-9A-F]"}
_ARE_SPECIAL = re.compile(r"([\\.\[\]{}()*+?^$|])")


@dataclass(frozen=True)
class Segment:
    """Numbers ``first … last`` whose names have one length, so that byte order is number order.

    The names of the segment are exactly those between ``low`` and ``high`` (inclusive, compared as bytes) that match
    the regular expression ``pattern``: what lets the index on pg_class.relname count and search them.
    """

    first: int
    last: int
    low: str
    high: str
    pattern: str


@dataclass(frozen=True)
class NameFormat:
    """A parsed pattern; calling it with a number gives the name."""

    text: str
    prefix: str
    suffix: str
    zero: bool
    width: int
    kind: str

    @classmethod
    def parse(cls, text: str) -> NameFormat:
        """Parse a pattern.  Raises UserError when it has not exactly one number in it."""
        hint = "use exactly one of %d, %o, %x, %X, with an optional 0 and width, as in _%08x; %% is a percent sign."
        literal = [""]
        found: re.Match[str] | None = None
        position = 0
        for at in re.finditer("%", text):
            if at.start() < position:
                continue
            match = _CONVERSION.match(text, at.start())
            literal[-1] += text[position : at.start()]
            if match is None:
                rest = text[at.start() + 1 :].lstrip("-+ #0123456789.'")
                if rest and rest[0].isalpha():
                    what = f"has a conversion that cannot be used, at character {at.start() + 1}"
                else:
                    what = f"has a percent sign that begins no number, at character {at.start() + 1}"
                raise UserError(f'name format "{text}" {what}', hint)
            if match["percent"]:
                literal[-1] += "%"
            elif found is not None:
                raise UserError(f'name format "{text}" has more than one number in it', hint)
            else:
                found = match
                literal.append("")
            position = match.end()
        literal[-1] += text[position:]
        if found is None:
            raise UserError(f'name format "{text}" has no number in it: all names would be the same', hint)
        if "\0" in text:
            raise UserError("a name format cannot contain a zero byte", hint)
        width = min(int(found["width"] or 1), 1000)
        return cls(text, literal[0], literal[1], bool(found["zero"]), width, found["kind"])

    def __call__(self, number: int) -> str:
        """Return the name of one table."""
        return f"{self.prefix}{self._digits(number)}{self.suffix}"

    def check_range(self, first: int, count: int) -> None:
        """Raise UserError when the numbers cannot be had or the longest name is longer than a name may be."""
        if count < 1:
            raise UserError(f"the number of tables must be at least 1, not {count:,}")
        if first < 0:
            raise UserError(f"the first number must not be negative: {first}")
        if first + count - 1 > MAX_NUMBER:
            raise UserError(
                f"numbers {first} to {first + count - 1} go beyond 64 bits",
                f"with --first {first}, at most {MAX_NUMBER - first + 1} tables can be numbered.",
            )
        longest = self(first + count - 1)
        if (size := len(longest.encode())) > MAX_NAME_BYTES:
            raise UserError(
                f'the name "{longest}" would be {size} bytes long; PostgreSQL allows {MAX_NAME_BYTES}',
                "choose a shorter --name-format.",
            )

    def segments(self, first: int, count: int) -> Iterator[Segment]:
        """Yield the range first … first+count-1 as segments, in ascending order."""
        base = _BASE[self.kind]
        last = first + count - 1
        digits = self.width if self.zero else 1
        while first <= last:
            while base**digits <= first:
                digits += 1
            end = min(last, base**digits - 1)
            padding = "" if self.zero else " " * (self.width - digits)
            pattern = f"^{_escape(self.prefix)}{padding}{_DIGITS[self.kind]}{{{digits}}}{_escape(self.suffix)}$"
            yield Segment(first, end, self(first), self(end), pattern)
            first = end + 1

    def _digits(self, number: int) -> str:
        digits = format(number, self.kind)
        return digits.rjust(self.width, "0" if self.zero else " ")


def _escape(literal: str) -> str:
    return _ARE_SPECIAL.sub(r"\\\1", literal)

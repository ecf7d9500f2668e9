r"""Patterns for names, as psql's \d commands take them, as regular expressions for the server.

Outside double quotes, letters are folded to lower case, * stands for any characters, ? for one, a dot separates the
names of schema and object, and other characters that are special in regular expressions keep that meaning. Inside of
quotes, every character is literal. A dollar sign always is. A pattern must match the whole name.

The server must match as psql has it do so, with `COLLATE pg_catalog.default`: names themselves collate as "C", which
knows letters of ASCII alone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from pgbillion.common.errors import UserError
from pgbillion.common.quoting import quote

WILDCARDS = "* stands for any characters and ? for one, as in 'tenant_*'"
QUOTES = "double quotes make every character literal, as in '\"a+b\"'"

_ANYTHING = "^(.*)$"
_SPECIAL = frozenset("|*+?()[]{}.^$\\")
_WILDCARDS = {"*": ".*", "?": "."}
# a quoted run, which may not be closed, or an array's brackets, or a character
_PIECE = re.compile(r'"((?:[^"]|"")*)("?)|(\[\]|.)', re.DOTALL)
_FOLD = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}


@dataclass(frozen=True)
class Name:
    """A pattern for one name, in pieces: literal text, and (if ``special``) what a regular expression takes."""

    pieces: tuple[tuple[str, bool], ...]

    @property
    def regex(self) -> str:
        """The regular expression."""
        return "^(" + "".join(piece if special else _escape(piece) for piece, special in self.pieces) + ")$"

    @property
    def anything(self) -> bool:
        """Whether every name matches."""
        return self.regex == _ANYTHING

    @property
    def literal(self) -> str | None:
        """The only name that matches, None if others may."""
        return None if any(special for _, special in self.pieces) else "".join(piece for piece, _ in self.pieces)

    @property
    def prefix(self) -> str:
        """What all names that match begin with, as far as can be seen from here."""
        prefix = ""
        if any(special and piece == "|" for piece, special in self.pieces):
            return prefix
        for piece, special in self.pieces:
            if special:
                # what may come any number of times may be missing
                return prefix[:-1] if piece in ("+", "{") else prefix
            prefix += piece
        return prefix

    def around(self) -> tuple[str, str] | None:
        """Return what is before and after the only wildcard, a *; None for any other pattern."""
        before, special, after = "", [piece for piece, special in self.pieces if special], ""
        if special != [_WILDCARDS["*"]]:
            return None
        at = self.pieces.index((_WILDCARDS["*"], True))
        before = "".join(piece for piece, _ in self.pieces[:at])
        after = "".join(piece for piece, _ in self.pieces[at + 1 :])
        return before, after


def parse(pattern: str, most: int = 1) -> list[Name]:
    """Return the patterns for the names that dots separate, at most ``most`` of them. Raises UserError."""
    if "\0" in pattern:
        raise UserError("a pattern cannot contain a zero byte")
    names: list[list[tuple[str, bool]]] = [[]]
    for found in _PIECE.finditer(pattern):
        quoted, end, bare = found.groups()
        if bare == ".":
            names.append([])
        elif bare in _WILDCARDS:
            names[-1].append((_WILDCARDS[bare], True))
        elif bare is not None:
            names[-1].append((bare.translate(_FOLD), bare in _SPECIAL - {"$"}))
        elif not end:
            raise UserError(
                f"unterminated quoted string in pattern: {pattern}", 'write "" for a quote inside of quotes'
            )
        else:
            names[-1].append((quoted.replace('""', '"'), False))
    if len(names) > most:
        hint = "quote a name that contains a dot, as in '\"a.b\"'"
        raise UserError(f"improper qualified name (too many dotted names): {pattern}", hint)
    return [Name(tuple(name)) for name in names]


def exactly(name: str) -> str:
    """Return the pattern that this name alone matches."""
    return name if re.fullmatch("[a-z_][a-z0-9_]*", name) else quote(name)


def _escape(text: str) -> str:
    return "".join(f"\\{character}" if character in _SPECIAL else character for character in text)

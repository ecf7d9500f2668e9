"""Definitions that mean the same, in one wording.

What PostgreSQL shows of a stored expression is not always what it shows of the expression that it makes of that text:
what pg_restore has made, or a clone, can differ from its source in the wording alone. Each gets the second form here:

    (ARRAY[a, b])::text[]    becomes    ARRAY[a::text, b::text]
    ((a AND b) AND c)        becomes    (a AND b AND c), wherever the inner one stands, and likewise with OR
    (- 1)                    becomes    '-1'::integer
    NULL::integer AS int4    becomes    NULL::integer

The first is what IN of a varchar column is made of, the second comes from BETWEEN, the third from -1::integer, and the
fourth from NULL in the second SELECT of a UNION: a cast names its column, which had no name before. PostgreSQL shows
all names that can be referred to, so that nothing is lost. Strings stay as they are.

The result is for comparisons only; the extension's clone/wording.c does the same for clones.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeGuard

_TOKEN = re.compile(
    r"""(?P<space>\s+)
    |(?P<string>E'(?:[^'\\]|\\.|'')*'|'(?:[^']|'')*'|\$(?P<tag>[^\W\d]*)\$.*?\$(?P=tag)\$)
    |(?P<quoted>"(?:[^"]|"")*")
    |(?P<number>\d[\d.]*(?:[eE][+-]?\d+)?)
    |(?P<word>[^\W\d][\w$]*|\$\d+)
    |(?P<other>::|[~!@#^&|`?+\-*/%<>=]+|.)""",
    re.VERBOSE | re.DOTALL,
)
_PAIRS = {("character", "varying"), ("bit", "varying"), ("double", "precision")}
_FIELDS = {"year", "month", "day", "hour", "minute", "second", "to"}
_CLOSING = {"(": ")", "[": "]"}


@dataclass
class _Token:
    kind: str
    text: str


@dataclass
class _Group:
    """What is between parentheses or brackets; ``close`` if there is no white space before it."""

    open: str
    parts: list[_Token | _Group]
    close: bool = False


_Parts = list[_Token | _Group]


def same(one: str | None, other: str | None) -> bool:
    """Tell whether two definitions are the same, in whatever wording."""
    return one == other or (one is not None and other is not None and of(one) == of(other))


def of(definition: str) -> str:
    """Return a definition in the one wording."""
    found = list(_TOKEN.finditer(definition))
    return _write(_settle(_read(iter(found), "")))


def _read(found: Iterator[re.Match[str]], end: str) -> _Parts:
    parts: _Parts = []
    space = False
    for match in found:
        kind, text = str(match.lastgroup), match[0]
        if kind == "tag":
            kind = "string"
        if kind == "space":
            space = True
            continue
        if text == end:
            break
        parts.append(_Group(text, _read(found, _CLOSING[text]), not space) if text in _CLOSING else _Token(kind, text))
        space = False
    return parts


def _settle(parts: _Parts) -> _Parts:
    result: _Parts = []
    at = 0
    while at < len(parts):
        part = parts[at]
        if isinstance(part, _Group):
            number = _negative(part)
            part.parts = _settle(part.parts)
            if number:
                result += number
                at += 2 * _is_named_by(parts[at + 1 :], number[-1:])
            else:
                _flatten(part)
                result.append(part)
        elif _is_minus(parts, at) and (number := _negative(_Group("(", parts[at : at + 2]))):
            result += number
            at += 2 + 2 * _is_named_by(parts[at + 2 :], number[-1:])
            continue
        elif part.text == "::" and (end := _end_of_type(parts, at + 1)):
            last = result[-1] if result else None
            # the arguments of a function follow its name directly
            if (
                _is_group(last, "(")
                and not (last.close and _is_name(result[-2] if len(result) > 1 else None))
                and _is_primary(last.parts)
            ):
                result[-1:] = last.parts
            result = _push_down(result, parts[at + 1 : end])
            at = end + 2 * _is_named_by(parts[end:], parts[at + 1 : end])
            continue
        else:
            result.append(part)
        at += 1
    return result


# where the name in a catalog is another one
_NAMES = {
    "bigint": "int8",
    "bit varying": "varbit",
    "boolean": "bool",
    "character": "bpchar",
    "character varying": "varchar",
    "double precision": "float8",
    "integer": "int4",
    "real": "float4",
    "smallint": "int2",
    "time with": "timetz",
    "timestamp with": "timestamptz",
}


def _is_named_by(parts: _Parts, type_: _Parts) -> bool:
    """Tell whether this says that a column has the name that it gets from its type."""
    if len(parts) < 2 or not _is_text(parts[0], "AS") or not _is_name(parts[1]):
        return False
    words = [part.text for part in type_ if isinstance(part, _Token)]
    name = words[-1] if "." in words else _NAMES.get(" ".join(words[:2]), _NAMES.get(words[0], words[0]))
    # some are keywords
    return _is_text(parts[1], name) or _is_text(parts[1], f'"{name}"')


def _flatten(group: _Group) -> None:
    """Make (a AND b AND c) of ((a AND b) AND c), and of (a AND (b AND c))."""
    at = 0
    while at < len(group.parts):
        part = group.parts[at]
        before, after = group.parts[:at][-1:], group.parts[at + 1 : at + 2]
        word = _connective(part.parts) if _is_group(part, "(") and (before or after) else None
        if word is not None and all(_is_text(other, word) for other in (*before, *after)):
            group.parts[at : at + 1] = part.parts if isinstance(part, _Group) else [part]
        else:
            at += 1


def _connective(parts: _Parts) -> str | None:
    """Return what connects conditions; None if nothing does, or both words do."""
    # a query can end with such conditions
    if parts and (_is_text(parts[0], "SELECT") or _is_text(parts[0], "WITH")):
        return None
    found = [word for word in ("AND", "OR") if any(_is_text(part, word) for part in parts)]
    return found[0] if len(found) == 1 else None


def _is_minus(parts: _Parts, at: int) -> bool:
    """Tell whether a sign without parentheses, as in pretty texts, has nothing before it to subtract from."""
    before = parts[at - 1] if at > 0 else None
    # words that are no names are in upper case
    return _is_text(parts[at], "-") and (
        before is None or _is_text(before, ",") or (isinstance(before, _Token) and before.text.isupper())
    )


def _negative(group: _Group) -> _Parts:
    """Return the constant that (- 1) is; nothing for anything else."""
    if group.open != "(" or len(group.parts) != 2 or not _is_text(group.parts[0], "-"):
        return []
    number = group.parts[1]
    if isinstance(number, _Group) or number.kind != "number":
        return []
    kind = "numeric" if re.search("[.eE]", number.text) else "integer"
    return [_Token("string", f"'-{number.text}'"), _Token("other", "::"), _Token("word", kind)]


def _push_down(before: _Parts, type_: _Parts) -> _Parts:
    """Return what is cast to a type, with the cast; that of ARRAY[…] to another array goes to its elements."""
    cast: _Parts = [_Token("other", "::"), *type_]
    if len(before) < 2 or not _is_group(type_[-1], "[") or not _is_text(before[-2], "ARRAY"):
        return before + cast
    array = before[-1]
    if not _is_group(array, "[") or not array.parts:
        return before + cast
    elements: list[_Parts] = [[]]
    for part in array.parts:
        if _is_text(part, ","):
            elements.append([])
        else:
            elements[-1].append(part)
    parts: _Parts = []
    for element in elements:
        if parts:
            parts.append(_Token("other", ","))
        if len(element) == 2 and _is_text(element[0], "ARRAY") and _is_group(element[1], "["):
            parts += _push_down(element, type_)
        else:
            parts += _cast_element(element, type_[:-1])
    array.parts = parts
    return before


def _cast_element(element: _Parts, type_: _Parts) -> _Parts:
    if _is_literal_of(element, type_):
        element = element[:1]
    elif not _is_primary(element):
        element = [_Group("(", element)]
    return [*element, _Token("other", "::"), *type_]


def _is_literal_of(element: _Parts, type_: _Parts) -> bool:
    """Tell whether the type is that of a constant but for lengths: it is shown with the one type then."""
    if not element or isinstance(first := element[0], _Group) or len(type_) < 2:
        return False
    if first.kind == "number":
        return len(element) == 1 and _is_text(type_[0], "numeric") and re.search("[.eE]", first.text) is not None
    without = [part for part in type_ if not _is_group(part, "(")]
    return (
        first.kind == "string"
        and len(element) > 2
        and _is_text(element[1], "::")
        and len(without) < len(type_)
        and _write(without) == _write(element[2:])
    )


def _is_primary(parts: _Parts) -> bool:
    """Tell whether "::" binds to all of it."""
    if not parts:
        return False
    first = parts[0]
    if _is_group(first, "[") or (isinstance(first, _Token) and first.kind == "other"):
        return False
    at = 1
    while at < len(parts):
        part = parts[at]
        if isinstance(part, _Group):
            at += 1
        elif part.text == "." and at + 1 < len(parts):
            at += 2
        elif part.text == "::" and (end := _end_of_type(parts, at + 1)):
            at = end
        else:
            return False
    return True


def _end_of_type(parts: _Parts, at: int) -> int:
    """Return the place behind a type's name that begins here; 0 if it is none."""

    def text(place: int) -> str:
        part = parts[place] if place < len(parts) else None
        return part.text if isinstance(part, _Token) and part.kind != "string" else ""

    if at >= len(parts) or not _is_name(parts[at]):
        return 0
    first = text(at)
    at += 1
    while text(at) == "." and at + 1 < len(parts) and _is_name(parts[at + 1]):
        at += 2
    if (first, text(at)) in _PAIRS:
        at += 1
    while first == "interval" and text(at) in _FIELDS:
        at += 1
    if at < len(parts) and _is_group(parts[at], "("):
        at += 1
    if first in ("timestamp", "time") and text(at) in ("with", "without") and text(at + 1) == "time":
        at += 3
    if at < len(parts) and _is_group(part := parts[at], "[") and not part.parts:
        at += 1
    return at


def _is_text(part: _Token | _Group, text: str) -> bool:
    return isinstance(part, _Token) and part.kind != "string" and part.text == text


def _is_name(part: _Token | _Group | None) -> bool:
    return isinstance(part, _Token) and part.kind in ("word", "quoted")


def _is_group(part: _Token | _Group | None, opening: str) -> TypeGuard[_Group]:
    return isinstance(part, _Group) and part.open == opening


def _write(parts: _Parts) -> str:
    return " ".join(
        part.text if isinstance(part, _Token) else f"{part.open} {_write(part.parts)} {_CLOSING[part.open]}"
        for part in parts
    )

"""What a schema has, as PostgreSQL's commands, which make it again under another name.

The queries are the extension's (clone.sql), and so is the way: the commands name what is in the schema without the
schema. They are read with the schema first in the search path, and run with the other one in its place. Every name in
the schema is visible under that path, as one that pg_catalog has, too, is refused. Where a WITH query or a function
hides what is meant, PostgreSQL qualifies the name, and the other schema's takes its place there. What that gets wrong
is found when the result is compared.

Names in the queries are looked up when they are planned, which is before anything of the schema's is in the path.
"""

from __future__ import annotations

import heapq
import itertools
import re
import secrets
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from pgbillion.common import statements
from pgbillion.common.connection import Connection
from pgbillion.common.errors import UserError
from pgbillion.common.quoting import literal, quoted
from pgbillion.common.sql import load
from pgbillion.tenants import wording

_HEAD = re.compile(r"-- (\w+) (\d+)-(\d*)")
_OURS = "SET LOCAL search_path TO pg_catalog, pg_temp"


def _local(*settings: str) -> str:
    return "; ".join(f"SET LOCAL {setting}" for setting in settings)


# what is shown as text is understood as what it was, and what is not said is the database's default
_TEXTS = _local(
    "DateStyle TO 'ISO'",
    "IntervalStyle TO 'postgres'",
    "extra_float_digits TO 3",
    "standard_conforming_strings TO on",
    "array_nulls TO on",
    "transform_null_equals TO off",
    "quote_all_identifiers TO off",
    "xmloption TO content",
    "check_function_bodies TO off",
    "default_tablespace TO ''",
    "default_table_access_method TO 'heap'",
    "default_toast_compression TO 'pglz'",
    "client_min_messages TO warning",
)
# the catalogs may be large, and whole ones are never wanted
_PLANS = _local(
    "enable_hashjoin TO off",
    "enable_mergejoin TO off",
    "enable_seqscan TO off",
    "max_parallel_workers_per_gather TO 0",
    "jit TO off",
)
# takes the place of a name that is put in later, as an identifier; a string that has it stays: the name could end it
_NAME = f"pgbillion {secrets.token_hex(16)} name"
_QUOTED = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*\"""")

Key = tuple[int, int]
_Rows = list[tuple[Any, ...]]


@dataclass(frozen=True)
class Command:
    """A command in pieces between the places where it names its schema.

    Of a function that sets search_path to it, ``path`` has what that is set to, the schema as None, and ``after_path``
    what follows; ``body`` is its text, if that comes last.
    """

    pieces: tuple[str, ...]
    path: tuple[str | None, ...] = ()
    after_path: tuple[str, ...] = ()
    body: tuple[str, ...] = ()

    def for_schema(self, name: str) -> str:
        """Return the command for a schema."""
        named = quoted(name)
        text = named.join(self.pieces)
        if self.path:
            text += _path_command(self.path, name) + named.join(self.after_path)
        return text + literal(named.join(self.body)).lstrip() if self.body else text


@dataclass(frozen=True)
class Definition:
    """What makes a schema: commands for what is in it, for triggers and foreign keys, and those that come last.

    ``contents`` are those that give materialized views their contents.
    """

    objects: tuple[Command, ...]
    links: tuple[Command, ...]
    last: tuple[str, ...]
    contents: tuple[str, ...]
    publications: tuple[str, ...]

    def last_for(self, name: str) -> list[str]:
        """Return the last commands for a schema."""

        def put_in(found: re.Match[str]) -> str:
            return quoted(name) if found[0] == _NAMED else found[0]

        return [_QUOTED.sub(put_in, command) if _NAMED in command else command for command in self.last]


_NAMED = quoted(_NAME)


@dataclass
class _Object:
    """An object with commands, or a part of one, which is ``whole``."""

    rank: int = 0
    commands: list[Command] = field(default_factory=list)
    whole: Key | None = None
    internal: bool = False


@cache
def queries(major: int) -> dict[str, list[str]]:
    """Return the queries for a major version, by their names."""
    found: dict[str, list[str]] = defaultdict(list)
    lines = iter(load("tenants", "clone").splitlines())
    for line in lines:
        if head := _HEAD.fullmatch(line):
            query = next(lines)
            if int(head[2]) <= major <= int(head[3] or major):
                found[head[1]].append(query)
    return found


def settle(conn: Connection) -> None:
    """Have the transaction read and run commands in the same way, whatever its session has set."""
    conn.execute(f"{_TEXTS}; {_PLANS}; {_OURS}".encode())


def own_names(conn: Connection) -> None:
    """Have names of the transaction be pg_catalog's."""
    conn.execute(_OURS.encode())


@contextmanager
def within(conn: Connection, name: str) -> Iterator[None]:
    """Have names of the transaction be a schema's, after those of pg_catalog."""
    conn.execute(_path(name).encode())
    yield
    own_names(conn)


def _path(name: str) -> str:
    return f"SET LOCAL search_path TO {quoted(name)}, pg_temp"


def ask(conn: Connection, schema: int, name: str, asked: Sequence[tuple[str, str | None]]) -> list[_Rows]:
    """Return the rows of queries about a schema, each with its $2, in a settled transaction."""
    declared = []
    for number, (query, argument) in enumerate(asked):
        given = {"$1": f"({schema}::oid)", "$2": f"({'NULL' if argument is None else literal(argument)}::text)"}
        text = re.sub(r"\$[12](?!\d)", lambda found: given[found[0]], query)  # noqa: B023
        declared.append(f"DECLARE pgbillion_{number} NO SCROLL CURSOR FOR {text}")
    conn.execute("; ".join(declared).encode())
    result = []
    with within(conn, name):
        cursor = conn.execute("; ".join(f"FETCH ALL FROM pgbillion_{number}" for number in range(len(asked))).encode())
        for number in range(len(asked)):
            result.append(cursor.fetchall())
            if number + 1 < len(asked):
                cursor.nextset()
    conn.execute("; ".join(f"CLOSE pgbillion_{number}" for number in range(len(asked))).encode())
    return result


def refuse(conn: Connection, schema: int, name: str) -> None:
    """Raise UserError, with the name of the object, if a schema has what commands would not make."""
    refused = queries(conn.info.server_version // 10000)["refused"]
    for rows in ask(conn, schema, name, [(query, "") for query in refused]):
        for what, hint in rows:
            raise UserError(f'template "{name}" has {what}, which cannot be cloned', as_hint(hint), 3)


def as_hint(hint: str) -> str:
    """Return a hint of PostgreSQL's kind as ours are."""
    return hint[:1].lower() + hint[1:].rstrip(".") if hint[1:2].islower() else hint.rstrip(".")


def read(
    conn: Connection, schema: int, name: str, *, access_method: str | None = None, rewrite_bodies: bool = False
) -> Definition:
    """Return what makes a schema, in a settled transaction. Raises UserError if objects need each other in a circle."""
    known = queries(conn.info.server_version // 10000)
    asked = [
        *((query, None) for query in (*known["ambiguous"], *known["order"], *known["fill"], *known["publications"])),
        *((query, _NAME) for query in known["last"]),
        *((query, access_method) for query in known["object"]),
    ]
    row = conn.execute("SELECT quote_ident(%s)", [name]).fetchone()
    assert row is not None
    reader = _Reader(name, row[0], rewrite_bodies)
    ambiguous, order, fill, publications, *others = ask(conn, schema, name, asked)
    last, objects = others[: len(known["last"])], others[len(known["last"]) :]
    reader.qualified = not ambiguous
    for rank, rows in enumerate(objects):
        for found in rows:
            reader.add(rank, *found)
    made, links = reader.in_order(order, late=_catalogs(conn))
    return Definition(
        tuple(_joined(made)),
        tuple(_joined(links)),
        tuple(_texts(last)),
        tuple(_texts([fill])),
        tuple(_texts([publications])),
    )


def scripts(made: Definition, name: str) -> tuple[str, str]:
    """Return what makes a schema as SQL for a transaction: up to its tables and indexes, and what comes after rows.

    Materialized views have no contents then.
    """
    objects = [command.for_schema(name) for command in made.objects]
    links = [command.for_schema(name) for command in made.links]
    return (
        ";\n".join([_TEXTS, f"CREATE SCHEMA {quoted(name)}", _path(name), *objects]),
        ";\n".join([_TEXTS, _path(name), *links, *made.last_for(name)]),
    )


def differences(wanted: Definition, found: Definition, name: str) -> list[tuple[str | None, str | None]]:
    """Return the commands that only one of two schemas has, both with the same name put in, in whatever wording."""

    def texts(one: Definition) -> Counter[str]:
        commands = [command.for_schema(name) for command in (*one.objects, *one.links)]
        return Counter([*commands, *one.last_for(name), *one.contents])

    one, other = texts(wanted), texts(found)
    # most are the same to the letter
    left = [Counter(map(wording.of, side.elements())) for side in (one - other, other - one)]
    return list(itertools.zip_longest(sorted((left[0] - left[1]).elements()), sorted((left[1] - left[0]).elements())))


def _texts(found: Iterable[_Rows]) -> list[str]:
    return [row[0] for rows in found for row in rows]


# commands of which one can do what several do, if they are of one table and of one kind
_IDENTIFIER = r'(?:"(?:[^"]|"")+"|[^" ]+)'
_JOINED = re.compile(
    rf"(ALTER TABLE (?:ONLY )?{_IDENTIFIER} )"
    rf"(ALTER COLUMN {_IDENTIFIER} SET DEFAULT |ADD CONSTRAINT {_IDENTIFIER} (?:CHECK|FOREIGN KEY) )"
)


def _joined(commands: Iterable[Command]) -> Iterator[Command]:
    """Give the commands, in which those that come after each other and alter one table are one."""
    last: Command | None = None
    before: tuple[str, str] | None = None
    for command in commands:
        found = _JOINED.match(command.pieces[0])
        kind = None if found is None else (found[1], found[2].split()[0] + found[2].split()[-1])
        if last is not None and found is not None and kind == before:
            *pieces, end = last.pieces
            last = Command((*pieces, f"{end}, {command.pieces[0][found.end(1) :]}", *command.pieces[1:]))
        else:
            if last is not None:
                yield last
            last, before = command, kind
    if last is not None:
        yield last


def _catalogs(conn: Connection) -> tuple[int, int]:
    """Return the catalogs of triggers and of constraints."""
    row = conn.execute("SELECT 'pg_trigger'::regclass::oid::int8, 'pg_constraint'::regclass::oid::int8").fetchone()
    assert row is not None
    return row[0], row[1]


class _Reader:
    """Puts the commands of a schema's objects together, and in order."""

    def __init__(self, name: str, named: str, rewrite_bodies: bool) -> None:
        self.qualified = True
        self._name = name
        self._named = named
        self._rewrite_bodies = rewrite_bodies
        self._objects: dict[Key, _Object] = {}

    def add(
        self,
        rank: int,
        classid: int,
        objid: int,
        text: str | None,
        body: str | None = None,
        rewritable: bool = False,
        path: str | None = None,
    ) -> None:
        """Take in a row of a query for objects."""
        if text is None:
            raise AssertionError(f"no command for object {objid} of catalog {classid}")
        one = self._objects.setdefault((int(classid), int(objid)), _Object(rank))
        one.commands.append(self._command(text, body, rewritable, path))

    def _command(self, text: str, body: str | None, rewritable: bool, path: str | None) -> Command:
        # where the name means something else, too, it does so in all of the text
        qualified = self.qualified and len(self._split(text)) > 1

        def pieces(part: str) -> tuple[str, ...]:
            return tuple(self._split(part)) if qualified else (part,)

        texts = () if body is None else tuple(self._split(body)) if self._rewrite_bodies and rewritable else (body,)
        names = None if path is None else _names_of_path(path)
        if names is not None and self._name in names:
            # one that leads to the template would read the template's rows, perhaps as its owner
            wanted = _path_command(names, self._name)
            before, found, after = text.partition(wanted)
            if not found:
                raise AssertionError(f'a function\'s search_path is not "{wanted}"')
            own = tuple(None if one == self._name else one for one in names)
            return Command(pieces(before), own, pieces(after), texts)
        return Command(pieces(text), body=texts)

    def _split(self, text: str) -> list[str]:
        return statements.between_names(text, self._name, self._named)

    def in_order(self, dependencies: _Rows, *, late: tuple[int, int]) -> tuple[list[Command], list[Command]]:
        """Return the commands in an order in which they can be run, and those of triggers and foreign keys."""
        self._find_parts(dependencies)
        needed_by: dict[Key, list[Key]] = defaultdict(list)
        waits: dict[Key, int] = defaultdict(int)
        for classid, objid, refclassid, refobjid, _ in dependencies:
            later, earlier = self._whole((classid, objid)), self._whole((refclassid, refobjid))
            if later is not None and earlier is not None and later != earlier:
                needed_by[earlier].append(later)
                waits[later] += 1
        made = {key: one for key, one in self._objects.items() if one.commands}
        ready = [(one.rank, key[1], key) for key, one in made.items() if not waits[key]]
        heapq.heapify(ready)
        objects: list[Command] = []
        links: list[Command] = []
        done = set()
        while ready:
            *_, key = heapq.heappop(ready)
            done.add(key)
            commands = made[key].commands
            into = links if self._links(key, commands, *late) else objects
            into += commands
            for later in needed_by[key]:
                waits[later] -= 1
                if not waits[later]:
                    heapq.heappush(ready, (made[later].rank, later[1], later))
        for key, one in made.items():
            if key not in done:
                raise UserError(
                    "objects of the template need each other in a circle, one of which is made by: "
                    + one.commands[0].for_schema(self._name),
                    "have a function take or return other types than those of views or tables that call it",
                    3,
                )
        return objects, links

    @staticmethod
    def _links(key: Key, commands: list[Command], triggers: int, constraints: int) -> bool:
        """Tell whether it is a trigger or a foreign key, on which nothing else depends."""
        return key[0] == triggers or (
            key[0] == constraints and re.search(r" FOREIGN KEY \(", commands[0].pieces[0]) is not None
        )

    def _find_parts(self, dependencies: _Rows) -> None:
        """Enter what is part of something else: of several, an internal dependency leads to the owner."""
        for classid, objid, refclassid, refobjid, kind in dependencies:
            key, whole = (classid, objid), (refclassid, refobjid)
            if kind == "n" or key == whole:
                continue
            known = key in self._objects
            one = self._objects.setdefault(key, _Object())
            if not one.commands and (not known or kind == "i" or (kind == "P" and not one.internal)):
                one.whole = whole
                one.internal = kind == "i"

    def _whole(self, key: Key) -> Key | None:
        """Return the object with commands that one is, or is part of; None if that is not the schema's."""
        # no chain is as long: array type, row type, view
        for _ in range(10):
            one = self._objects.get(key)
            if one is None or one.commands:
                return key if one is not None else None
            if one.whole is None:
                return None
            key = one.whole
        return None


def _path_command(names: Sequence[str | None], schema: str) -> str:
    """Return a function's setting as pg_get_functiondef() has it, with the schema for None."""
    return "\n SET search_path TO " + ", ".join(_doubled(schema if name is None else name) for name in names) + "\n"


def _doubled(name: str) -> str:
    return "'" + name.replace("'", "''") + "'"


def _names_of_path(path: str) -> tuple[str, ...] | None:
    """Return the names in a value of search_path as it is kept; None if it is no list."""
    names, at = [], 0
    while found := re.compile(r'\s*(?:"((?:[^"]|"")*)"|([^\s",]+))\s*(,|\Z)').match(path, at):
        names.append(found[2] if found[1] is None else found[1].replace('""', '"'))
        at = found.end()
        if found[3] == "":
            return tuple(names)
    return None

"""Which tenants differ from a schema, and in what.

Definitions decide, as PostgreSQL writes them (objects.sql). Writing them takes time. So where the extension is there
its fingerprints of catalog rows are taken of all schemas, and the definitions of one schema of each fingerprint:
schemas of one fingerprint have the same definitions, and those of different ones may.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import psycopg

from pgbillion.common import together
from pgbillion.common.errors import UserError
from pgbillion.common.sql import load
from pgbillion.common.target import Target
from pgbillion.server import extension

Connection = psycopg.Connection[tuple[Any, ...]]
Objects = dict[tuple[str, str], str]

# tables whose definitions are read by one query
_TABLES_PER_QUERY = 2_000


@dataclass(frozen=True)
class Difference:
    """An object that differs, and the statements that make it as it should be, if there are such."""

    what: str
    statements: tuple[str, ...] = ()


@dataclass
class Group:
    """Tenants that are the same, and how they differ from the model."""

    tenants: list[str]
    differences: list[Difference]


@dataclass
class Outcome:
    """What was found; ``groups`` are those that differ, the largest first."""

    tenants: int
    tables: int
    same: int
    seconds: float
    groups: list[Group] = field(default_factory=list)


def compare(
    target: Target,
    model: str,
    tenants: Sequence[str],
    workers: int,
    *,
    observe: Callable[[int], AbstractContextManager[Callable[[int], None]]],
) -> Outcome:
    """Compare tenants with a schema that is as they should be. Raises UserError if there is no such schema."""
    start = time.monotonic()
    with target.connect() as conn:
        found = dict(
            conn.execute(
                "SELECT nspname::text, oid::int8 FROM pg_namespace WHERE nspname = ANY (%s::text[])",
                [[model, *tenants]],
            ).fetchall()
        )
        if model not in found:
            raise UserError(
                f'there is no schema "{model}" to compare with', "see what there is with: pgbillion tenants list"
            )
        _settle(conn)
        names = {oid: name for name, oid in found.items()}
        chosen = {found[name] for name in tenants if name in found}
        size = max(1, _TABLES_PER_QUERY // max(1, _tables(conn, found[model])))
        # the model is the first of the first group
        groups = [[oid] for oid in sorted({found[model], *chosen}, key=lambda oid: (oid != found[model], names[oid]))]
        rows = _Reader(target, "row_fingerprints", size, workers)
        definitions = _Reader(target, "fingerprints", size, workers)
        with observe(len(groups)) as update:
            if extension.usable(conn, extension.TABLES, "schema_fingerprints"):
                rows.read(groups, update)
                groups = rows.grouped(groups)
            if len(groups) > 1:
                definitions.read(groups, update)
                groups = definitions.grouped(groups)
        tables = definitions.tables | rows.tables
        same, *others = groups
        outcome = Outcome(len(chosen), sum(tables.get(oid, 0) for oid in chosen), len(chosen.intersection(same)), 0.0)
        wanted = _objects(conn, found[model]) if others else {}
        for alike in sorted(others, key=lambda group: (-len(group), names[group[0]])):
            differences = _differences(wanted, _objects(conn, alike[0]))
            outcome.groups.append(Group([names[oid] for oid in alike], differences))
    outcome.seconds = time.monotonic() - start
    return outcome


def _settle(conn: Connection) -> None:
    # catalogs may be large, or have grown since they were analyzed, and whole ones are never wanted
    for setting in ("seqscan", "hashjoin", "mergejoin"):
        conn.execute(f"SET enable_{setting} = off".encode())
    conn.execute("SET jit = off; SET max_parallel_workers_per_gather = 0; SET work_mem = '64MB'")


def _tables(conn: Connection, schema: int) -> int:
    query = "SELECT count(*) FROM pg_class WHERE relnamespace = %s AND relkind IN ('r', 'p')"
    return int(conn.execute(query, [schema]).fetchall()[0][0])


class _Reader:
    """Reads fingerprints by a query, so many schemas at a time, in several sessions."""

    def __init__(self, target: Target, query: str, size: int, workers: int) -> None:
        self.found: dict[int, str] = {}
        self.tables: dict[int, int] = {}
        self._target = target
        self._query = load("tenants", query).replace("{objects}", load("tenants", "objects")).encode()
        self._size = size
        self._workers = workers
        self._lock = threading.Lock()

    def read(self, groups: Sequence[Sequence[int]], update: Callable[[int], None]) -> None:
        """Read the fingerprint of one schema of each group."""
        firsts = [group[0] for group in groups]
        parts = [firsts[at : at + self._size] for at in range(0, len(firsts), self._size)]
        todo = iter(parts)
        done = 0

        def take() -> Sequence[int] | None:
            with self._lock:
                return next(todo, None)

        def work(team: together.Team) -> None:
            nonlocal done
            with self._target.connect(application_name="pgbillion tenants diff") as conn:
                team.session(conn)
                _settle(conn)
                while not team.stopped.is_set() and (part := take()) is not None:
                    rows = conn.execute(self._query, [part]).fetchall()
                    with self._lock:
                        for schema, fingerprint, tables in rows:
                            self.tables[schema] = tables
                            # without one it has what only its definitions can tell
                            if fingerprint is not None:
                                self.found[schema] = fingerprint
                        done += len(part)
                    update(done)

        with together.team(self._workers) as team:
            for future in [team.start(work, team) for _ in range(min(self._workers, len(parts)))]:
                future.result()

    def grouped(self, groups: Sequence[list[int]]) -> list[list[int]]:
        """Join the groups whose fingerprints are the same."""
        joined: dict[str, list[int]] = {}
        for group in groups:
            joined.setdefault(self.found.get(group[0], f"schema {group[0]}"), []).extend(group)
        return list(joined.values())


def _objects(conn: Connection, schema: int) -> Objects:
    rows = conn.execute(load("tenants", "objects").encode(), [[schema]]).fetchall()
    return {(kind, name): what for _, kind, name, what in rows}


# what is made by its definition, in the order in which it can be, and how it is dropped
_DROP = {
    "type": "DROP TYPE {name}",
    "sequence": "DROP SEQUENCE {name}",
    "table": "DROP TABLE {name}",
    "function": "DROP ROUTINE {name}",
    "cast": "DROP CAST {name}",
    "column": "ALTER TABLE {table} DROP COLUMN {part}",
    "constraint": "ALTER TABLE {table} DROP CONSTRAINT {part}",
    "index": "DROP INDEX {name}",
    "statistics": "DROP STATISTICS {name}",
    "view": "DROP VIEW {name}",
    "materialized view": "DROP MATERIALIZED VIEW {name}",
    "trigger": "DROP TRIGGER {part} ON {table}",
    "rule": "DROP RULE {part} ON {table}",
    "policy": "DROP POLICY {part} ON {table}",
}
_ORDER = {kind: place for place, kind in enumerate(_DROP)}


# what is said of an object by itself
_ABOUT = ("settings of ", "owner and grants of", "options of ", "columns of", "order of columns of")
_OF_COLUMNS = ("column", "settings of column", "default of")


def _differences(wanted: Objects, found: Objects) -> list[Difference]:
    """Return how one schema differs from another, in an order in which its statements can be run."""
    keys = {key for key in wanted.keys() | found.keys() if wanted.get(key) != found.get(key)}
    # the parts of what is missing, or too many, go with it
    whole = {name for kind, name in keys if kind in _DROP and ((kind, name) in wanted) != ((kind, name) in found)}
    result = []
    for kind, name in sorted(keys, key=lambda key: (_ORDER.get(key[0], len(_ORDER)), key)):
        part, table = _parts(kind, name)
        if table in whole or (kind.startswith(_ABOUT) and name in whole):
            continue
        if kind == "order of columns of" and {column for column in keys if _parts(*column)[1] == name}:
            continue
        result.append(_difference(kind, name, part, table, wanted.get((kind, name)), found.get((kind, name))))
    return result


def _parts(kind: str, name: str) -> tuple[str, str | None]:
    """Return the name of a table's part and the table's, None for what is no part."""
    if kind in _OF_COLUMNS:
        # both may be quoted, and then hold a dot
        cut = name.index('".') + 1 if name.startswith('"') else name.index(".")
        return name[cut + 1 :], name[:cut]
    if kind in ("constraint", "trigger", "rule", "policy", "disabled triggers of constraint"):
        part, _, table = name.rpartition(" on ")
        return part, table
    return name, None


# how COMMENT names what pg_identify_object() names otherwise
_COMMENTED = (
    (r"(table|foreign table|view|materialized view|composite type) column (.*)", r"COLUMN \2"),
    (r"table constraint (.*)", r"CONSTRAINT \1"),
    (r"domain constraint (.*) on (.*)", r"CONSTRAINT \1 ON DOMAIN \2"),
    (r"cast (.*)", r"CAST \1"),
    (r"statistics object (.*)", r"STATISTICS \1"),
    (r"(table|foreign table|view|materialized view|sequence|index|type|function|procedure|aggregate) (.*)", r"\1 \2"),
    (r"(trigger|policy|rule) (.*)", r"\1 \2"),
    (r"(operator|collation|conversion|text search \w+) (.*)", r"\1 \2"),
)


def _comment(name: str, text: str) -> tuple[str, ...]:
    """Return the statement for a comment on an object; none for one on the schema."""
    for pattern, words in _COMMENTED:
        if found := re.fullmatch(pattern, name, re.DOTALL):
            return (f"COMMENT ON {found.expand(words)} IS {text}",)
    return ()


def _difference(
    kind: str, name: str, part: str, table: str | None, wanted: str | None, found: str | None
) -> Difference:
    drop = _DROP.get(kind, "").format(name=name, part=part, table=table)
    comment = _comment(name, wanted or "NULL") if kind == "comment" else ()
    make = _statement(kind, wanted) if wanted is not None else ""
    if kind == "column" and wanted is not None:
        make = f"ALTER TABLE {table} ADD COLUMN {part} {wanted}"
    if wanted is None:
        return Difference(f"{kind} {name} is too many", comment or ((drop,) if drop else ()))
    if found is None:
        return Difference(f"{kind} {name} is missing", comment or ((make,) if make else ()))
    what = f"{kind} {name} is {_short(found)}, should be {_short(wanted)}"
    if kind == "column":
        return Difference(what, _column(f"ALTER TABLE {table} ALTER COLUMN {part}", wanted, found))
    if comment:
        return Difference(what, comment)
    if wanted.startswith("CREATE OR REPLACE "):
        return Difference(what, (make,))
    return Difference(what, (drop, make) if make and drop and kind not in ("table", "sequence", "type") else ())


def _statement(kind: str, what: str) -> str:
    """Return the SQL that makes an object, without what is noted behind it; empty if there is none."""
    if not what.startswith(("CREATE ", "ALTER ")) or what.endswith(" -- not valid"):
        return ""
    if kind == "function":
        return what.rpartition(" -- ")[0].rstrip()
    return re.sub(r" -- enabled: .$", "", what)


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 200 else line[:199] + "…"


def _column(alter: str, wanted: str, found: str) -> tuple[str, ...]:
    """Return the statements that change a column; none where its type of generation would change."""
    if any(" GENERATED " in text for text in (wanted, found)):
        return ()
    statements = []
    (type_, default, not_null), (old_type, old_default, old_not_null) = _column_parts(wanted), _column_parts(found)
    if type_ != old_type:
        statements.append(f"{alter} TYPE {type_}")
    if default != old_default:
        statements.append(f"{alter} SET DEFAULT {default}" if default else f"{alter} DROP DEFAULT")
    if not_null != old_not_null:
        statements.append(f"{alter} SET NOT NULL" if not_null else f"{alter} DROP NOT NULL")
    return tuple(statements)


def _column_parts(what: str) -> tuple[str, str, bool]:
    rest = what.removesuffix(" NOT NULL")
    type_, _, default = rest.partition(" DEFAULT ")
    return type_, default, rest != what

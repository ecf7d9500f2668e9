"""Which tenants differ from a schema, and in what: fingerprints of all, then the objects of one of each kind."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import psycopg

from pgbillion.common import together
from pgbillion.common.errors import UserError
from pgbillion.common.sql import load
from pgbillion.common.target import Target

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
        prints = _fingerprints(conn, [found[model]])
        fingerprint, tables = prints.get(found[model], ("", 0))
        names = {oid: name for name, oid in found.items()}
        chosen = [found[name] for name in tenants if name in found]
        size = max(1, _TABLES_PER_QUERY // max(1, tables))
        parts = [chosen[at : at + size] for at in range(0, len(chosen), size)]
        rest, all_tables = _all_fingerprints(target, parts, workers, observe)
        by_print: dict[str, list[str]] = {}
        for oid in chosen:
            by_print.setdefault(rest.get(oid, ""), []).append(names[oid])
        same = by_print.pop(fingerprint, [])
        outcome = Outcome(len(chosen), all_tables, len(same), 0.0)
        wanted = _objects(conn, found[model])
        for alike in sorted(by_print.values(), key=lambda group: (-len(group), group[0])):
            outcome.groups.append(Group(alike, _differences(wanted, _objects(conn, found[alike[0]]))))
    outcome.seconds = time.monotonic() - start
    return outcome


def _settle(conn: Connection) -> None:
    # there may be no statistics of catalogs that have just grown
    conn.execute("SET jit = off; SET max_parallel_workers_per_gather = 0; SET work_mem = '64MB'")


def _all_fingerprints(
    target: Target,
    parts: Sequence[Sequence[int]],
    workers: int,
    observe: Callable[[int], AbstractContextManager[Callable[[int], None]]],
) -> tuple[dict[int, str], int]:
    found: dict[int, str] = {}
    tables = done = 0
    todo: Iterator[Sequence[int]] = iter(parts)
    lock = threading.Lock()

    def take() -> Sequence[int] | None:
        with lock:
            return next(todo, None)

    def work(team: together.Team) -> None:
        nonlocal tables, done
        with target.connect(application_name="pgbillion tenants diff") as mine:
            team.session(mine)
            _settle(mine)
            while not team.stopped.is_set() and (part := take()) is not None:
                prints = _fingerprints(mine, part)
                with lock:
                    for oid, (fingerprint, count) in prints.items():
                        found[oid] = fingerprint
                        tables += count
                    done += len(part)
                update(done)

    with observe(sum(map(len, parts))) as update, together.team(workers) as team:
        for future in [team.start(work, team) for _ in range(min(workers, len(parts)))]:
            future.result()
    return found, tables


def _fingerprints(conn: Connection, schemas: Sequence[int]) -> dict[int, tuple[str, int]]:
    query = load("tenants", "fingerprints").replace("{objects}", load("tenants", "objects"))
    return {oid: (text, tables) for oid, text, tables in conn.execute(query.encode(), [list(schemas)]).fetchall()}


def _objects(conn: Connection, schema: int) -> Objects:
    rows = conn.execute(load("tenants", "objects").encode(), [[schema]]).fetchall()
    return {(kind, name): what for _, kind, name, what in rows}


# what is made by its definition, in the order in which it can be, and how it is dropped
_DROP = {
    "type": "DROP TYPE {name}",
    "sequence": "DROP SEQUENCE {name}",
    "table": "DROP TABLE {name}",
    "function": "DROP ROUTINE {name}",
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


def _differences(wanted: Objects, found: Objects) -> list[Difference]:
    """Return how one schema differs from another, in an order in which its statements can be run."""
    keys = {key for key in wanted.keys() | found.keys() if wanted.get(key) != found.get(key)}
    # the parts of a table that is missing, or too many, go with it
    whole = {name for kind, name in keys if kind == "table" and ((kind, name) in wanted) != ((kind, name) in found)}
    result = []
    for kind, name in sorted(keys, key=lambda key: (_ORDER.get(key[0], len(_ORDER)), key)):
        part, table = _parts(kind, name)
        if kind != "table" and (table in whole or name in whole):
            continue
        if kind == "order of columns of" and {column for column in keys if _parts(*column)[1] == name}:
            continue
        result.append(_difference(kind, name, part, table, wanted.get((kind, name)), found.get((kind, name))))
    return result


def _parts(kind: str, name: str) -> tuple[str, str | None]:
    """Return the name of a table's part and the table's, None for what is no part."""
    if kind == "column":
        # both may be quoted, and then hold a dot
        cut = name.index('".') + 1 if name.startswith('"') else name.index(".")
        return name[cut + 1 :], name[:cut]
    if kind in ("constraint", "trigger", "rule", "policy"):
        part, _, table = name.rpartition(" on ")
        return part, table
    return name, None


def _difference(
    kind: str, name: str, part: str, table: str | None, wanted: str | None, found: str | None
) -> Difference:
    drop = _DROP.get(kind, "").format(name=name, part=part, table=table)
    make = _statement(kind, wanted) if wanted is not None else ""
    if kind == "column" and wanted is not None:
        make = f"ALTER TABLE {table} ADD COLUMN {part} {wanted}"
    if wanted is None:
        return Difference(f"{kind} {name} is too many", (drop,) if drop else ())
    if found is None:
        return Difference(f"{kind} {name} is missing", (make,) if make else ())
    what = f"{kind} {name} is {_short(found)}, should be {_short(wanted)}"
    if kind == "column":
        return Difference(what, _column(f"ALTER TABLE {table} ALTER COLUMN {part}", wanted, found))
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

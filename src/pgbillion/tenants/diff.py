"""Which tenants differ from a schema, and in what.

Definitions decide, as PostgreSQL writes them (objects.sql). Writing them takes time. So where the extension is there
its fingerprints of catalog rows are taken of all schemas, and the definitions of one schema of each fingerprint:
schemas of one fingerprint have the same definitions, and those of different ones may.

Definitions that are compared lack the schema's name, and are never shown as SQL. What is, comes from definitions that
PostgreSQL has written for a search path, and has been tried (proof.py).
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from pgbillion.common import invocation, statements, text
from pgbillion.common.connection import Connection
from pgbillion.common.errors import UserError
from pgbillion.common.sql import load
from pgbillion.common.target import Target
from pgbillion.server import extension
from pgbillion.tenants import fingerprints, proof, wording

Key = tuple[str, str]
Objects = dict[Key, str]

# where in a function its body is, if that is a text in SQL or PL/pgSQL
_TEXT = "text of function"
# of definitions that are not the same
_SHOWN = 200


@dataclass(frozen=True)
class Difference:
    """An object that differs, and the statements that make it as it should be, if any were tried and did."""

    what: str
    statements: tuple[str, ...] = ()


@dataclass
class Group:
    """Tenants that are the same, and how they differ from the model; ``untried`` is why there are no statements."""

    tenants: list[str]
    differences: list[Difference]
    untried: str | None = None


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
                f'there is no schema "{model}" to compare with',
                f"see what there is with: {invocation.command('tenants', 'list')}",
            )
        fingerprints.settle(conn)
        names = {oid: name for name, oid in found.items()}
        chosen = {found[name] for name in tenants if name in found}
        size = fingerprints.per_query(conn, found[model])
        # the model is the first of the first group
        groups = [[oid] for oid in sorted({found[model], *chosen}, key=lambda oid: (oid != found[model], names[oid]))]
        rows = fingerprints.Reader(target, "row_fingerprints", size, workers)
        definitions = fingerprints.Reader(target, "fingerprints", size, workers)
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
        wanted = objects(conn, found[model], model, model) if others else {}
        for alike in sorted(others, key=lambda group: (-len(group), names[group[0]])):
            there = objects(conn, alike[0], names[alike[0]], model)
            if group := _group(target, model, [names[oid] for oid in alike], wanted, there):
                outcome.groups.append(group)
            else:
                # in other words
                outcome.same += len(alike)
    outcome.seconds = time.monotonic() - start
    return outcome


def objects(conn: Connection, schema: int, name: str, model: str) -> Objects:
    """Return what is in a schema, to be compared with another, the model."""
    rows = conn.execute(load("tenants", "objects").encode(), [[schema]]).fetchall()
    found = {(kind, of): what for _, kind, of, what in rows}
    for key in [key for key in found if key[0] == _TEXT]:
        head, length, *_ = found.pop(key).split(" ", 2)
        start, end = int(head), int(head) + int(length)
        what = found["function", key[1]]
        # comments of a clone name the model or the clone, and neither counts
        body = statements.without_schema(what[start:end], name, in_comments=(name, model))
        found["function", key[1]] = what[:start] + body + what[end:]
    return found


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


def _group(target: Target, model: str, tenants: list[str], wanted: Objects, found: Objects) -> Group | None:
    """Return how tenants that are the same differ from the model, None if they do not."""
    keys = _keys(wanted, found)
    if not keys:
        return None
    try:
        comments = [one for (kind, of), what in found.items() if kind == "comment" for one in _comment(of, what)]
        with proof.Bench(target, tenants[0], model, objects, comments) as bench:
            made = {key: _statements(key, wanted.get(key), bench.found.get(key), bench.wanted) for key in keys}
            proven = _proven(bench, made, wanted, found)
    except proof.NotTriedError as reason:
        return Group(tenants, [Difference(_what(key, wanted, found)) for key in keys], str(reason))
    # where one has to come before another, it does
    places = {key: place for place, key in enumerate(proven)}
    if [key for key in keys if key in places] != proven:
        keys.sort(key=lambda key: places.get(key, -1))
    return Group(
        tenants, [Difference(_what(key, wanted, found), tuple(made[key]) if key in places else ()) for key in keys]
    )


def _proven(bench: proof.Bench, made: Mapping[Key, Sequence[str]], wanted: Objects, found: Objects) -> list[Key]:
    """Return the objects whose statements make them as they should be, in an order in which they do, one by one."""
    tried = [key for key in made if made[key] and same(key, found, bench.before)]
    while tried:
        order, after = bench.try_all([made[key] for key in tried])
        right = [tried[place] for place in order if same(tried[place], wanted, after)]
        changed = {key for key in after.keys() | bench.before.keys() if not same(key, bench.before, after)}
        if right == tried:
            # what was not to be changed has not been, except into what it should be
            if all(same(key, wanted, after) for key in changed):
                return tried
            # what is dropped to be made anew loses what it does not say, such as a comment
            right = [key for key in tried if len(made[key]) == 1 or key[0] == "column"]
            if right == tried:
                return []
        tried = right
    return []


def same(key: Key, some: Objects, others: Objects) -> bool:
    """Tell whether an object is the same in both, in whatever words."""
    return wording.same(some.get(key), others.get(key))


def described(wanted: Objects, found: Objects, *, but_naming: Sequence[str] = ()) -> list[str]:
    """Return how what is in one schema differs from what is in another, an object in a line.

    What is in both is left out if the text of one has a name of ``but_naming``: there a name may make the difference.
    """
    keys = [
        key
        for key in _keys(wanted, found)
        if not (
            key in wanted
            and key in found
            and any(name in text for name in but_naming for text in (wanted[key], found[key]))
        )
    ]
    return [_what(key, wanted, found) for key in keys]


def _keys(wanted: Objects, found: Objects) -> list[Key]:
    """Return what differs in one schema from another, in an order in which statements can be run."""
    keys = {key for key in wanted.keys() | found.keys() if not same(key, wanted, found)}
    # the parts of what is missing, or too many, go with it
    whole = {name for kind, name in keys if kind in _DROP and ((kind, name) in wanted) != ((kind, name) in found)}
    result = []
    for kind, name in sorted(keys, key=lambda key: (_ORDER.get(key[0], len(_ORDER)), key)):
        _, table = _parts(kind, name)
        if table in whole or (kind.startswith(_ABOUT) and name in whole):
            continue
        if kind == "order of columns of" and {column for column in keys if _parts(*column)[1] == name}:
            continue
        result.append((kind, name))
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


def _comment(name: str, comment: str) -> list[str]:
    """Return the statement for a comment on an object; none for one on the schema."""
    for pattern, words in _COMMENTED:
        if found := re.fullmatch(pattern, name, re.DOTALL):
            return [f"COMMENT ON {found.expand(words)} IS {comment}"]
    return []


def _what(key: Key, wanted: Objects, found: Objects) -> str:
    """Return in a line how an object differs."""
    kind, name = map(_line, key)
    if key not in wanted:
        return f"{kind} {name} is too many"
    if key not in found:
        return f"{kind} {name} is missing"
    is_, should_be = _shortened(_line(found[key]), _line(wanted[key]))
    return f"{kind} {name} is {is_}, should be {should_be}"


def _line(what: str) -> str:
    """Return a text in one line, in which nothing is left out."""
    return text.harmless(what).replace("\n", "\\n")


def _shortened(one: str, other: str) -> tuple[str, str]:
    """Return two different texts without what is the same at their beginnings, if they are long."""
    start = 0
    if max(len(one), len(other)) > _SHOWN:
        equal = min(len(one), len(other))
        equal = next((place for place in range(equal) if one[place] != other[place]), equal)
        start = max(0, equal - _SHOWN // 4)
    return _part(one, start), _part(other, start)


def _part(whole: str, start: int) -> str:
    end = start + _SHOWN
    return ("…" if start else "") + whole[start:end] + ("…" if end < len(whole) else "")


def _statements(
    key: Key, wanted: str | None, found: proof.Definition | None, definitions: proof.Definitions
) -> list[str]:
    """Return the statements that may make an object as it should be; they are yet to be tried."""
    kind, name = key
    part, table = _parts(kind, name)
    if kind == "comment":
        return _comment(name, wanted or "NULL")
    drop = _DROP[kind].format(name=name, part=part, table=table) if kind in _DROP else None
    if wanted is None:
        return [drop] if drop else []
    definition = definitions.get(key)
    if definition is None or definition.statement is None or kind in ("table", "settings of sequence"):
        return []
    if found is None or definition.statement.startswith("CREATE OR REPLACE "):
        return [definition.statement]
    if kind == "column":
        return _column(f"ALTER TABLE {table} ALTER COLUMN {part}", definition, found)
    # others are lost with what they hold, or with their grants
    return [drop, definition.statement] if drop and kind not in ("sequence", "type", "materialized view") else []


def _column(alter: str, wanted: proof.Definition, found: proof.Definition) -> list[str]:
    """Return the statements that change a column; none for what is generated."""
    if wanted.generated or found.generated:
        return []
    made = []
    old = found.value
    if wanted.type != found.type:
        # a default need not be one of the new type
        made += [f"{alter} DROP DEFAULT"] if old is not None else []
        made.append(f"{alter} TYPE {wanted.type}")
        old = None
    if wanted.value != old:
        made.append(f"{alter} DROP DEFAULT" if wanted.value is None else f"{alter} SET DEFAULT {wanted.value}")
    if wanted.not_null != found.not_null:
        made.append(f"{alter} {'SET' if wanted.not_null else 'DROP'} NOT NULL")
    return made

"""How core makes the table that a stamp promises.

``CREATE TABLE … (LIKE template INCLUDING ALL)`` with the template's storage parameters and comment, and, for each
serial column, a sequence of its own in place of the template's.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql

Connection = psycopg.Connection[tuple[Any, ...]]
NAME_BYTES = 63


@dataclass(frozen=True)
class Serial:
    """A column's default that takes values of a sequence which a column of the table owns (identity is no default)."""

    column: str
    expression: str  # the default, as pg_get_expr shows it with an empty search_path
    sequence: int
    sequence_text: str  # the sequence in it
    owner: str  # the column that owns the sequence


def make(conn: Connection, template: str, schema: str, name: str, tablespace: str | None = None) -> None:
    """Create schema.name after the template, by SQL alone, in one transaction; names are raw, the template is SQL."""
    table = sql.Identifier(schema, name)
    with conn.transaction():
        conn.execute("SET LOCAL standard_conforming_strings = on")
        source = _one(conn, "SELECT %s::regclass::oid::bigint", template)
        options = [
            *_options(conn, "SELECT reloptions FROM pg_class WHERE oid = %s", "", source),
            *_options(
                conn,
                "SELECT t.reloptions FROM pg_class c JOIN pg_class t ON t.oid = c.reltoastrelid WHERE c.oid = %s",
                "toast.",
                source,
            ),
        ]
        unlogged = _one(conn, "SELECT relpersistence = 'u' FROM pg_class WHERE oid = %s", source)
        statement = sql.SQL("CREATE {} {} (LIKE {} INCLUDING ALL)").format(
            sql.SQL("UNLOGGED TABLE" if unlogged else "TABLE"), table, _qualified(conn, source)
        )
        if options:
            statement += sql.SQL(" WITH ({})").format(sql.SQL(", ").join(options))
        if tablespace:
            statement += sql.SQL(" TABLESPACE {}").format(sql.Identifier(tablespace))
        conn.execute(statement)
        comment = _one(conn, "SELECT obj_description(%s::oid, 'pg_class')", source)
        if comment is not None:
            conn.execute(sql.SQL("COMMENT ON TABLE {} IS {}").format(table, sql.Literal(comment)))
        made: dict[int, sql.Identifier] = {}
        for serial in serials(conn, source):
            if serial.sequence not in made:
                made[serial.sequence] = _own_sequence(conn, schema, name, serial, bool(unlogged))
            _use_own_sequence(conn, table, serial, made[serial.sequence])


def say(conn: Connection, parts: Sequence[str], table: sql.Composable) -> None:
    """Run statements about the table, which is {table} in them."""
    for statement in parts:
        conn.execute(sql.SQL(statement).format(table=table))


def parts(conn: Connection, template: str) -> tuple[str, ...]:
    """What say() is to be told of a table like the template, which is t.template: its parents and rules."""
    with conn.transaction():
        conn.execute("SET LOCAL search_path = pg_catalog")
        said = [
            f"ALTER TABLE {{table}} INHERIT {parent}"
            for (parent,) in conn.execute(
                "SELECT inhparent::regclass::text FROM pg_inherits WHERE inhrelid = %s::regclass ORDER BY inhseqno",
                [template],
            )
        ]
        for definition, name, enabled, comment in conn.execute(
            "SELECT pg_get_ruledef(oid), quote_ident(rulename), ev_enabled = 'O', obj_description(oid, 'pg_rewrite')"
            " FROM pg_rewrite WHERE ev_class = %s::regclass ORDER BY oid",
            [template],
        ):
            head, action = definition.replace("{", "{{").replace("}", "}}").split(" DO ", 1)
            said.append(
                re.sub(r" t\.template\b", " {table}", head)
                + " DO "
                + re.sub(r" t\.template\b(?! (AS )?template_)", " {table} AS template", action)
            )
            if not enabled:
                said.append(f"ALTER TABLE {{table}} DISABLE RULE {name}")
            if comment is not None:
                said.append(f"COMMENT ON RULE {name} ON {{table}} IS '{comment}'")
    return tuple(said)


def serials(conn: Connection, table: int) -> list[Serial]:
    """The table's serial columns in the order of their numbers."""
    with conn.transaction():
        conn.execute("SET LOCAL search_path = ''")
        return [
            Serial(*row)
            for row in conn.execute(
                """
                SELECT a.attname, pg_get_expr(adbin, adrelid), s.oid::bigint, s.oid::regclass::text, o.attname
                FROM pg_attrdef d
                JOIN pg_attribute a ON a.attrelid = adrelid AND a.attnum = adnum
                JOIN pg_depend uses ON uses.classid = 'pg_attrdef'::regclass AND uses.objid = d.oid
                    AND uses.refclassid = 'pg_class'::regclass AND uses.deptype = 'n'
                JOIN pg_class s ON s.oid = uses.refobjid AND s.relkind = 'S'
                JOIN pg_depend owned ON owned.classid = 'pg_class'::regclass AND owned.objid = s.oid
                    AND owned.refclassid = 'pg_class'::regclass AND owned.refobjid = adrelid AND owned.deptype = 'a'
                JOIN pg_attribute o ON o.attrelid = adrelid AND o.attnum = owned.refobjsubid
                WHERE adrelid = %s::oid ORDER BY adnum
                """,
                [table],
            )
        ]


def chosen_name(conn: Connection, schema: str, first: str, second: str | None, label: str) -> str:
    """The name core's ChooseRelationName would choose now: first_second_label, cut to 63 bytes, numbered if taken."""
    number = 0
    while True:
        name = object_name(first, second, label + (str(number) if number else ""))
        taken = _one(
            conn,
            "SELECT EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace"
            " WHERE relname = %s AND nspname = %s)",
            name,
            schema,
        )
        if not taken:
            return name
        number += 1


def object_name(first: str, second: str | None, label: str) -> str:
    """core's makeObjectName: shorten the longer of the two parts until all fits, never inside a character."""
    room = NAME_BYTES - len(label.encode()) - 1 - (1 if second else 0)
    one, two = len(first.encode()), len((second or "").encode())
    while one + two > room:
        if one > two:
            one -= 1
        else:
            two -= 1
    parts = [clipped(first, one)] + ([clipped(second, two)] if second else []) + [label]
    return "_".join(parts)


def clipped(text: str, limit: int) -> str:
    """The longest beginning of `text` that has at most `limit` bytes in UTF-8."""
    return text.encode()[:limit].decode(errors="ignore")


def _own_sequence(conn: Connection, schema: str, name: str, serial: Serial, unlogged: bool) -> sql.Identifier:
    sequence = sql.Identifier(schema, chosen_name(conn, schema, name, serial.owner, "seq"))
    row = conn.execute(
        "SELECT format_type(seqtypid, NULL), seqincrement, seqmin, seqmax, seqstart, seqcache, seqcycle"
        " FROM pg_sequence WHERE seqrelid = %s",
        [serial.sequence],
    ).fetchone()
    assert row
    type_, increment, minimum, maximum, start, cache, cycle = row
    conn.execute(
        sql.SQL("CREATE {} {} AS {} INCREMENT {} MINVALUE {} MAXVALUE {} START {} CACHE {} {}").format(
            sql.SQL("UNLOGGED SEQUENCE" if unlogged else "SEQUENCE"),
            sequence,
            sql.SQL(type_),
            *map(sql.Literal, (increment, minimum, maximum, start, cache)),
            sql.SQL("CYCLE" if cycle else "NO CYCLE"),
        )
    )
    owner = sql.Identifier(schema, name, serial.owner)
    conn.execute(sql.SQL("ALTER SEQUENCE {} OWNED BY {}").format(sequence, owner))
    return sequence


def _use_own_sequence(conn: Connection, table: sql.Identifier, serial: Serial, sequence: sql.Identifier) -> None:
    old, new = _constant(serial.sequence_text), _constant(sequence.as_string(conn))
    assert old in serial.expression
    conn.execute(
        sql.SQL("ALTER TABLE {} ALTER {} SET DEFAULT {}").format(
            table, sql.Identifier(serial.column), sql.SQL(serial.expression.replace(old, new))
        )
    )


def _constant(text: str) -> str:
    """A string constant as core shows it in an expression, with standard_conforming_strings."""
    return "'" + text.replace("'", "''") + "'"


def _options(conn: Connection, query: str, prefix: str, oid: int) -> list[sql.Composable]:
    options: list[sql.Composable] = []
    for option in _one(conn, query, oid) or []:
        key, _, value = option.partition("=")
        options.append(sql.SQL("{} = {}").format(sql.SQL(prefix + key), sql.Literal(value)))
    return options


def _qualified(conn: Connection, oid: int) -> sql.Identifier:
    row = conn.execute(
        "SELECT nspname, relname FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace WHERE c.oid = %s", [oid]
    ).fetchone()
    assert row
    return sql.Identifier(row[0], row[1])


def _one(conn: Connection, query: str, *parameters: object) -> Any:
    row = conn.execute(query, parameters).fetchone()
    return row[0] if row else None

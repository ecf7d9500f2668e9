"""How core makes the table that a stamp promises.

``CREATE TABLE … (LIKE template INCLUDING ALL)`` with the template's storage parameters and comment, and, for each
serial column, a sequence of its own in place of the template's. Of a partitioned table all partitions are made so, and
attached.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from psycopg import sql

from pgbillion.common.connection import Connection

NAME_BYTES = 63


@dataclass(frozen=True)
class Serial:
    """A column's default that takes values of a sequence which a column of the table owns (identity is no default)."""

    column: str
    expression: str  # the default, as pg_get_expr shows it with an empty search_path
    sequence: int
    sequence_text: str  # the sequence in it
    owner_table: int
    owner: str  # the column that owns the sequence


@dataclass(frozen=True)
class Member:
    """A table of the tree that a partitioned table is the root of; an ordinary table is all of its own."""

    oid: int
    parent: int | None
    ending: str  # what the name of one like it has after the root's
    partitioned: bool
    unlogged: bool
    qualified: sql.Identifier


def make(
    conn: Connection,
    template: str,
    schema: str,
    name: str,
    tablespace: str | None = None,
    said: Mapping[str, Sequence[str]] | None = None,
) -> None:
    """Create schema.name after the template, by SQL alone, in one transaction; names are raw, the template is SQL.

    `said` are statements about its tables, for say(), by the endings of their names, and "later" about all of them.
    """
    said = said or {}
    with conn.transaction():
        conn.execute("SET LOCAL standard_conforming_strings = on")
        members = tree(conn, template)
        new = {member.oid: sql.Identifier(schema, name + member.ending) for member in members}
        tables = {member.ending or "root": new[member.oid] for member in members}
        for member in members:
            _create(conn, member, new[member.oid], tablespace)
        made: dict[int, sql.Identifier] = {}
        by_oid = {member.oid: member for member in members}
        with _local(conn, "search_path", ""):
            for member in members:
                for serial in serials(conn, member.oid, list(by_oid)):
                    if serial.sequence not in made:
                        owner = by_oid[serial.owner_table]
                        made[serial.sequence] = _own_sequence(conn, schema, name + owner.ending, serial, owner.unlogged)
                    _use_own_sequence(conn, new[member.oid], serial, made[serial.sequence])
        for member in members:
            say(conn, said.get(member.ending, ()), new[member.oid], tables)
            if member.parent is not None:
                with _local(conn, "search_path", ""):
                    bound = _one(conn, "SELECT pg_get_expr(relpartbound, oid) FROM pg_class WHERE oid = %s", member.oid)
                conn.execute(
                    sql.SQL("ALTER TABLE {} ATTACH PARTITION {} {}").format(
                        new[member.parent], new[member.oid], sql.SQL(bound)
                    )
                )
        say(conn, said.get("later", ()), tables["root"], tables)


def tree(conn: Connection, template: str) -> list[Member]:
    """The template and its partitions of all levels, each before its own, and of one table by OID."""
    return [
        Member(oid, parent, ending, partitioned, unlogged, sql.Identifier(schema, name))
        for oid, parent, ending, partitioned, unlogged, schema, name in conn.execute(
            """
            WITH RECURSIVE tree AS (
                SELECT %s::regclass::oid AS root, %s::regclass::oid, NULL::oid AS parent, '{}'::oid[] AS path
                UNION ALL
                SELECT root, inhrelid, inhparent, path || inhrelid
                FROM tree JOIN pg_inherits ON inhparent = tree.oid JOIN pg_class p ON p.oid = inhparent
                WHERE p.relkind = 'p'
            )
            SELECT c.oid::bigint, parent::bigint,
                CASE WHEN c.oid = root THEN ''
                    WHEN starts_with(c.relname, r.relname || '_') THEN substr(c.relname, length(r.relname) + 1)
                    ELSE '_' || c.relname END,
                c.relkind = 'p', c.relpersistence = 'u', nspname, c.relname
            FROM tree JOIN pg_class c USING (oid) JOIN pg_namespace n ON n.oid = c.relnamespace
            JOIN pg_class r ON r.oid = root
            ORDER BY path
            """,
            [template, template],
        )
    ]


def say_of_all(conn: Connection, said: Mapping[str, Sequence[str]], template: str) -> None:
    """Say of the template and its partitions what make() is to be told of the new ones."""
    tables = {member.ending or "root": member.qualified for member in tree(conn, template)}
    for ending, statements in said.items():
        say(conn, statements, tables["root" if ending in ("", "later") else ending], tables)


def _create(conn: Connection, member: Member, table: sql.Identifier, tablespace: str | None) -> None:
    source = member.oid
    options = [
        *_options(conn, "SELECT reloptions FROM pg_class WHERE oid = %s", "", source),
        *_options(
            conn,
            "SELECT t.reloptions FROM pg_class c JOIN pg_class t ON t.oid = c.reltoastrelid WHERE c.oid = %s",
            "toast.",
            source,
        ),
    ]
    # identity columns of partitions are their parents' since 17
    excluding = " EXCLUDING IDENTITY" if member.parent is not None and conn.info.server_version >= 170000 else ""
    statement = sql.SQL("CREATE {} {} (LIKE {} INCLUDING ALL{})").format(
        sql.SQL("UNLOGGED TABLE" if member.unlogged else "TABLE"), table, member.qualified, sql.SQL(excluding)
    )
    if member.partitioned:
        with _local(conn, "search_path", ""):
            key = _one(conn, "SELECT pg_get_partkeydef(%s::oid)", source)
        statement += sql.SQL(" PARTITION BY {}").format(sql.SQL(key))
    if options:
        statement += sql.SQL(" WITH ({})").format(sql.SQL(", ").join(options))
    own = _one(
        conn,
        "SELECT spcname FROM pg_database d JOIN pg_tablespace t ON t.oid = dattablespace"
        " WHERE datname = current_database()",
    )
    default = _one(conn, "SHOW default_tablespace")
    # a partitioned table has the database's own without a name
    if tablespace and not (member.partitioned and tablespace == own):
        statement += sql.SQL(" TABLESPACE {}").format(sql.Identifier(tablespace))
    with _local(conn, "default_tablespace", "" if member.partitioned and default == own else default):
        conn.execute(statement)
    if member.partitioned and tablespace == own:
        conn.execute(sql.SQL("ALTER TABLE ONLY {} SET TABLESPACE {}").format(table, sql.Identifier(own)))
    comment = _one(conn, "SELECT obj_description(%s::oid, 'pg_class')", source)
    if comment is not None:
        conn.execute(sql.SQL("COMMENT ON TABLE {} IS {}").format(table, sql.Literal(comment)))


def say(
    conn: Connection,
    parts: Sequence[str],
    table: sql.Composable,
    tables: Mapping[str, sql.Composable] | None = None,
) -> None:
    """Run statements about the table, which is {table} in them; others are {root} and the endings of their names."""
    for statement in parts:
        conn.execute(sql.SQL(statement).format(**{**(tables or {}), "table": table}))


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


def serials(conn: Connection, table: int, owners: Sequence[int] | None = None) -> list[Serial]:
    """The table's serial columns in the order of their numbers; their sequences may be owned by one of `owners`."""
    with conn.transaction():
        conn.execute("SET LOCAL search_path = ''")
        return [
            Serial(*row)
            for row in conn.execute(
                """
                SELECT a.attname, pg_get_expr(adbin, adrelid), s.oid::bigint, s.oid::regclass::text,
                    owned.refobjid::bigint, o.attname
                FROM pg_attrdef d
                JOIN pg_attribute a ON a.attrelid = adrelid AND a.attnum = adnum
                JOIN pg_depend uses ON uses.classid = 'pg_attrdef'::regclass AND uses.objid = d.oid
                    AND uses.refclassid = 'pg_class'::regclass AND uses.deptype = 'n'
                JOIN pg_class s ON s.oid = uses.refobjid AND s.relkind = 'S'
                JOIN pg_depend owned ON owned.classid = 'pg_class'::regclass AND owned.objid = s.oid
                    AND owned.refclassid = 'pg_class'::regclass AND owned.refobjid = ANY(%s) AND owned.deptype = 'a'
                JOIN pg_attribute o ON o.attrelid = owned.refobjid AND o.attnum = owned.refobjsubid
                WHERE adrelid = %s::oid ORDER BY adnum
                """,
                [list(owners or [table]), table],
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


@contextmanager
def _local(conn: Connection, name: str, value: str) -> Iterator[None]:
    """A setting for some commands of the transaction."""
    before = _one(conn, "SELECT current_setting(%s)", name)
    conn.execute("SELECT set_config(%s, %s, true)", [name, value])
    yield
    conn.execute("SELECT set_config(%s, %s, true)", [name, before])


def _one(conn: Connection, query: str, *parameters: object) -> Any:
    row = conn.execute(query, parameters).fetchone()
    return row[0] if row else None

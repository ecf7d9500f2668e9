"""Tenants made by PostgreSQL's commands alone, for servers without the extension.

A session reads the commands once (definition.py) and runs them for one tenant after the other, each in the transaction
that it is called in. Before each transaction's tenants it asks whether anything has changed that the commands were read
from, and reads them again if so. The first tenant that is made by commands just read is compared with the template,
as `diff` compares, and must not refer to it.

Rows are copied before there are triggers and foreign keys: so no trigger runs, and PostgreSQL checks the keys. One
statement copies all of them, so that they are of one moment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import psycopg

from pgbillion.common import statements
from pgbillion.common.connection import Connection
from pgbillion.common.errors import UserError
from pgbillion.common.quoting import literal, quoted
from pgbillion.common.sql import load
from pgbillion.tenants import definition, diff

# commands that are sent at once
_SENT = 100
_SHOWN = 3


@dataclass(frozen=True)
class Wish:
    """What is made of a template; ``rows`` are the OIDs of tables whose rows are copied, None for all of them."""

    template: str
    access_method: str | None = None
    rewrite_bodies: bool = False
    join_publications: bool = False
    rows: Sequence[int] | None = ()


@dataclass
class _Known:
    """The commands, of which version of the template, and the tables and sequences to be copied."""

    version: str
    definition: definition.Definition
    tables: list[str]
    sequences: list[str]
    proven: bool = False


class Maker:
    """Makes tenants in a session."""

    def __init__(self, conn: Connection, wish: Wish) -> None:
        self._conn = conn
        self._wish = wish
        self._known: _Known | None = None

    def make(self, template: int, names: Sequence[str], *, fill: Callable[[str], None] | None = None) -> None:
        """Make tenants of a template, given by its OID, in the current transaction.

        ``fill`` is called with the name of each before there are triggers and foreign keys, to put in rows.
        Raises UserError for what cannot be cloned, and SerializationFailure if the template is changed meanwhile.
        """
        for name in names:
            if self._wish.rewrite_bodies and not statements.can_be_named(name):
                raise UserError(
                    f'the text of functions cannot have schema "{name}" in place of the template',
                    "choose a name without line breaks, /* and */ that is no keyword of PL/pgSQL",
                    3,
                )
        definition.settle(self._conn)
        version = self._version(template)
        if self._known is None or self._known.version != version:
            self._known = self._read(template, version)
        for name in names:
            self._make(self._known, name, fill)
            if not self._known.proven:
                self._prove(self._known, template, name)
                self._known.proven = True

    def _version(self, template: int) -> str:
        query = load("tenants", "clone_version").replace("{schema}", str(template))
        version, name = self._conn.execute(query.encode()).fetchall()[0]
        if name != self._wish.template:
            raise psycopg.errors.SerializationFailure("the template was renamed while it was being cloned")
        return str(version)

    def _read(self, template: int, version: str) -> _Known:
        conn, wish = self._conn, self._wish
        definition.refuse(conn, template, wish.template)
        made = definition.read(
            conn, template, wish.template, access_method=wish.access_method, rewrite_bodies=wish.rewrite_bodies
        )
        tables, sequences = self._copied(template) if wish.rows is None or wish.rows else ([], [])
        if self._version(template) != version:
            raise psycopg.errors.SerializationFailure("the template was changed while it was being read")
        return _Known(version, made, tables, sequences)

    def _copied(self, template: int) -> tuple[list[str], list[str]]:
        """Return the tables whose rows are copied, and the sequences that go on from their values."""
        conn, wish = self._conn, self._wish
        chosen = None if wish.rows is None else "{" + ",".join(map(str, wish.rows)) + "}"
        known = definition.queries(conn.info.server_version // 10000)
        asked = [*known["not_copied"], *known["copied_tables"], *known["copied_sequences"]]
        refused, tables, sequences = definition.ask(conn, template, wish.template, [(query, chosen) for query in asked])
        for table, why, hint in refused:
            raise UserError(f"rows of table {table} cannot be copied: {why}", definition.as_hint(hint), 3)
        return [name for (name,) in tables], [name for (name,) in sequences]

    def _make(self, known: _Known, name: str, fill: Callable[[str], None] | None) -> None:
        made = known.definition
        self._conn.execute(f"CREATE SCHEMA {quoted(name)}".encode())
        with definition.within(self._conn, name):
            self._run([command.for_schema(name) for command in made.objects])
        if known.tables or known.sequences:
            self._copy(known, name)
        if fill is not None:
            fill(name)
        with definition.within(self._conn, name):
            self._run([command.for_schema(name) for command in made.links])
            self._run([*made.last_for(name), *made.contents])
            if self._wish.join_publications:
                self._run(made.publications)

    def _run(self, commands: Sequence[str]) -> None:
        for at in range(0, len(commands), _SENT):
            self._conn.execute(";\n".join(commands[at : at + _SENT]).encode())

    def _copy(self, known: _Known, name: str) -> None:
        """Copy rows and the values of sequences, which, read later, have at least the rows' numbers."""
        conn, template = self._conn, self._wish.template
        inserts = [
            f"INSERT INTO {quoted(name, table)}{f' ({columns})' if columns else ''} OVERRIDING SYSTEM VALUE"
            f" SELECT {values} FROM ONLY {quoted(template, table)} t"
            for table, columns, values in self._columns(known.tables, name)
        ]
        # rows that a policy hides would not be copied: then it is an error
        conn.execute("SET LOCAL row_security TO off")
        if inserts:
            parts = (f"copied_{number} AS ({insert})" for number, insert in enumerate(inserts))
            conn.execute(f"WITH {', '.join(parts)} SELECT".encode())
        for sequence in known.sequences:
            into = literal(quoted(name, sequence))
            conn.execute(
                f"SELECT setval({into}::regclass, last_value, is_called) FROM {quoted(template, sequence)}".encode()
            )
        conn.execute("SET LOCAL row_security TO DEFAULT")

    def _columns(self, tables: Sequence[str], name: str) -> Iterator[tuple[str, str, str]]:
        """Give tables with their columns and the values for these: those of the tenant's own types by their text."""
        yield from self._conn.execute(load("tenants", "clone_columns").encode(), [name, self._wish.template, tables])

    def _prove(self, known: _Known, template: int, name: str) -> None:
        """Raise UserError unless a tenant is what its template is, and refers to nothing in it.

        It must be made by the same commands, and show what `diff` reads of both. That is of no use where texts have the
        names of the schemas, which the commands know better.
        """
        conn, model = self._conn, self._wish.template
        schema = conn.execute("SELECT oid::int8 FROM pg_namespace WHERE nspname = %s", [name]).fetchall()[0][0]
        again = definition.read(
            conn,
            schema,
            name,
            access_method=self._wish.access_method,
            rewrite_bodies=self._wish.rewrite_bodies,
        )
        differences = [
            f"the template has {wanted or 'nothing'}, the clone {found or 'nothing'}"
            for wanted, found in definition.differences(known.definition, again, name)
        ]
        strays = definition.queries(conn.info.server_version // 10000)["strays"]
        for of_tenant, of_template in definition.ask(conn, schema, name, [(query, model) for query in strays])[0]:
            raise UserError(
                f'template "{model}" cannot be cloned: the clone\'s {of_tenant} would refer to {of_template}',
                "something in the template has the template's own name: rename one of them",
                3,
            )
        wanted, found = diff.objects(conn, template, model, model), diff.objects(conn, schema, name, model)
        differences += diff.described(wanted, found, but_naming=(model, name))
        if differences:
            more = f" (and {len(differences) - _SHOWN:,} more)" if len(differences) > _SHOWN else ""
            raise UserError(
                f'template "{model}" cannot be cloned, as PostgreSQL\'s commands make something else of it: '
                + "; ".join(differences[:_SHOWN])
                + more,
                "nobody may change the template meanwhile; a new table that is made by commands may do as template",
                3,
            )

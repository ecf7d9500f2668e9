"""What a table like a template is, said in plain SQL: the same table that pgbillion_tables.create_tables makes.

That is CREATE TABLE … (LIKE template INCLUDING ALL) and what LIKE leaves out: storage parameters, being unlogged, the
table's comment, and for serial columns a sequence of the table's own.  What cannot be carried is refused by name.
"""

from __future__ import annotations

import string
from dataclasses import dataclass

import psycopg

from pgbillion.common import sql
from pgbillion.common.connection import Connection
from pgbillion.common.errors import UserError
from pgbillion.common.quoting import literal, quote
from pgbillion.tables.plan import Plan

# What tables made by LIKE would lack, and what to do about it; the extension's have them.
_BULK = "Use --method bulk, whose tables have it."
_REFUSED = {
    "partitions": _BULK,
    "foreign key": _BULK,
    "trigger": _BULK,
    "rules": _BULK,
    "row security": _BULK,
    "inheritance": _BULK,
    "a generated column that uses a sequence of its own": "Use a template without it.",
}


@dataclass(frozen=True)
class OwnSequence:
    """A sequence that a column of the template owns and that defaults use, each table's own in its place.

    ``constant`` is the template's sequence as it stands in ``defaults``, which are columns with their expressions.
    """

    column: str
    options: str
    constant: str
    defaults: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Model:
    """What tables of a plan are like: ``body`` stands between the parentheses of CREATE TABLE."""

    body: str
    unlogged: bool = False
    parameters: str = ""
    comment: str | None = None
    sequences: tuple[OwnSequence, ...] = ()

    def statements(self, schema: str, name: str, access_method: str, tablespace: str | None) -> list[str]:
        """Return what makes one table, which is to be one transaction; none ends with a semicolon."""
        table = f"{quote(schema)}.{quote(name)}"
        # a line of its own: the body may end with a comment
        made = [
            f"CREATE {'UNLOGGED ' if self.unlogged else ''}TABLE {table} ({self.body}\n) USING {access_method}"
            + (f" WITH ({self.parameters})" if self.parameters else "")
            + (f" TABLESPACE {quote(tablespace)}" if tablespace else "")
        ]
        if self.comment is not None:
            made.append(f"COMMENT ON TABLE {table} IS {literal(self.comment)}")
        for sequence in self.sequences:
            pairs = ", ".join(f"[{literal(column)}, {literal(text)}]" for column, text in sequence.defaults)
            values = {
                "schema": literal(schema),
                "table": literal(name),
                "column": literal(sequence.column),
                "kind": literal("UNLOGGED SEQUENCE" if self.unlogged else "SEQUENCE"),
                "options": literal(sequence.options),
                "sequence": literal(sequence.constant),
                "defaults": f"ARRAY[{pairs}]",
            }
            made.append(f"DO {literal(string.Template(sql.load('tables', 'own_sequence')).substitute(values))}")
        return made


def of_plan(conn: Connection, plan: Plan) -> Model:
    """Return what a plan's tables are like. Raises UserError for a template whose tables would lack something."""
    return of_template(conn, plan.template) if plan.template else Model(f"\n{plan.columns}")


def check_columns(conn: Connection, columns: str) -> None:
    """Raise UserError unless it is what may stand between the parentheses of CREATE TABLE, and nothing after them."""
    if not columns.strip():
        return
    # parsed as one statement and never run; what leaves the parentheses does not end with a constraint
    statement = f"CREATE TABLE pgbillion_columns (\n{columns}\n, CHECK (true))"
    result = conn.pgconn.prepare(b"", statement.encode())
    if result.status != psycopg.pq.ExecStatus.COMMAND_OK:
        error = psycopg.errors.error_from_result(result, encoding="utf-8")
        raise UserError(
            f"--columns is not a list of columns: {error.diag.message_primary or error}",
            'as in CREATE TABLE, without the parentheses: --columns "id bigint PRIMARY KEY, data jsonb"',
            status=3,
        )


def of_template(conn: Connection, template: str) -> Model:
    """Look a template up, given by its qualified and quoted name; not within a transaction, whose settings it changes.

    Raises UserError for what tables made by LIKE would lack.
    """
    with conn.transaction():
        # names in expressions are to be complete, and written one way
        conn.execute("SET LOCAL search_path = ''")
        conn.execute("SET LOCAL quote_all_identifiers = off")
        conn.execute("SET LOCAL standard_conforming_strings = on")
        given = {"template": template}
        row = conn.execute(sql.load("tables", "template_refused").encode(), given).fetchone()
        if row is None:
            raise UserError(f"template table {template} does not exist", "name an existing table", status=3)
        name, system, what, which = row
        if system:
            raise UserError(f'template "{name}" is a system catalog', "use a table of your own as template", status=3)
        if what is not None:
            named = f' "{which}"' if which else ""
            raise UserError(
                f'template "{name}" has {what}{named}, which CREATE TABLE … LIKE cannot carry', _REFUSED[what], status=3
            )
        facts = conn.execute(sql.load("tables", "template_facts").encode(), given).fetchone()
        assert facts is not None
        unlogged, options, toast_options, comment = facts
        sequences: dict[str, OwnSequence] = {}
        for constant, owner, sequence, column, default in conn.execute(
            sql.load("tables", "template_sequences").encode(), given
        ).fetchall():
            known = sequences.get(constant, OwnSequence(owner, sequence, constant, ()))
            sequences[constant] = OwnSequence(owner, sequence, constant, (*known.defaults, (column, default)))
    parameters = [_parameter("", option) for option in options or []]
    parameters += [_parameter("toast.", option) for option in toast_options or []]
    return Model(f"LIKE {template} INCLUDING ALL", unlogged, ", ".join(parameters), comment, tuple(sequences.values()))


def _parameter(prefix: str, option: str) -> str:
    name, _, value = option.partition("=")
    return f"{prefix}{quote(name)} = {literal(value)}"

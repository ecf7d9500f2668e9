"""Statements that make a schema like another, tried before anybody is shown them.

They are tried in a copy of the schema without its rows, in a transaction that is rolled back: a statement is proven if
the copy had the object as the schema has it, and has it as it should be afterwards, and nothing else has changed. What
PostgreSQL shows of the objects, read with their schema as search_path, makes the copy.

That runs code of the schema's owner: an index calls functions for constants, a default is computed. So nothing is tried
where roles other than the owner and superusers can have code in the schema, and what is run is run as the owner, in a
SECURITY DEFINER function, in which no role can be set.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import psycopg
from psycopg import sql

from pgbillion.common import search_path, statements
from pgbillion.common.connection import Connection
from pgbillion.common.errors import UserError
from pgbillion.common.sql import load
from pgbillion.common.target import Target

Objects = dict[tuple[str, str], str]

_SETTINGS = (
    "SET LOCAL lock_timeout TO '2s'; SET LOCAL statement_timeout TO '60s'; SET LOCAL client_min_messages TO error;"
    " SET LOCAL check_function_bodies TO off; SET LOCAL standard_conforming_strings TO on"
)
# pg_catalog's names whatever has been made meanwhile, temporary tables included
_OURS = "SET LOCAL search_path TO pg_catalog, pg_temp"
_ATTEMPT = """
CREATE FUNCTION pg_temp.attempt(statements pg_catalog.text[], path pg_catalog.text) RETURNS pg_catalog.bool[]
LANGUAGE plpgsql SECURITY DEFINER AS $attempt$
DECLARE
    done pg_catalog.bool[];
BEGIN
    PERFORM pg_catalog.set_config('search_path', path, true);
    FOR i IN 1 .. pg_catalog.cardinality(statements) LOOP
        BEGIN
            EXECUTE statements[i];
            done[i] := true;
        EXCEPTION WHEN OTHERS THEN
            done[i] := false;
        END;
    END LOOP;
    RETURN done;
END
$attempt$
"""
# a copy takes locks for all that it has
_MOST_COPIED = 2_000
# what a copy has differently
_OWN = ("owner and grants of", "default privileges of")


@dataclass(frozen=True)
class Definition:
    """What makes an object, None if nothing does; ``copied`` if a copy needs it. The others are a column's."""

    statement: str | None
    copied: bool
    type: str | None = None
    value: str | None = None
    not_null: bool = False
    generated: bool = False


Definitions = dict[tuple[str, str], Definition]


class NotTriedError(Exception):
    """Statements could not be tried; the message says why."""


def definitions(conn: Connection, name: str, schema: int) -> Definitions:
    """Return what makes the objects of a schema where it is the search path, in an order for that; in a transaction."""
    # planned with the names of pg_catalog, and run with those of the schema
    query = load("tenants", "definitions").replace("{schema}", str(schema))
    conn.execute(f"DECLARE pgbillion_definitions NO SCROLL CURSOR FOR {query}".encode())
    conn.execute(sql.SQL("SET LOCAL search_path TO {}, pg_temp").format(sql.Identifier(name)))
    rows = conn.execute("FETCH ALL FROM pgbillion_definitions").fetchall()
    conn.execute("CLOSE pgbillion_definitions; " + _OURS)
    return {(kind, of): Definition(made, copied, *rest) for _, kind, of, made, copied, *rest in rows}


class Bench:
    """A copy of a schema to try statements in; to be closed."""

    def __init__(
        self,
        target: Target,
        tenant: str,
        model: str,
        read: Callable[[Connection, int, str, str], Objects],
        comments: Sequence[str],
    ) -> None:
        """Make the copy. Raises NotTriedError where that cannot be, or is not to be."""
        self._read = read
        self._model = model
        self._comments = comments
        self._conn = target.connect(application_name="pgbillion tenants diff")
        # what is run here can replace prepared statements
        self._conn.prepare_threshold = None
        try:
            self._make(tenant, model)
        except psycopg.Error as error:
            self.close()
            if self._conn.broken:
                raise
            raise NotTriedError(" ".join((error.diag.message_primary or str(error)).split())) from error
        except BaseException:
            self.close()
            raise

    def _make(self, tenant: str, model: str) -> None:
        conn = self._conn
        conn.execute("BEGIN")
        conn.execute(_SETTINGS.encode())
        conn.execute(_OURS.encode())
        schemas = dict(
            conn.execute(
                "SELECT nspname::text, (n.oid::int8, rolname::text, rolname = current_user)"
                " FROM pg_namespace n JOIN pg_roles r ON r.oid = nspowner WHERE nspname = ANY (%s::name[])",
                [[tenant, model]],
            ).fetchall()
        )
        if schemas.keys() != {tenant, model}:
            raise NotTriedError(f"{tenant} is not there any more")
        oid, owner, mine = schemas[tenant]
        self.wanted = definitions(conn, model, schemas[model][0])
        conn.execute(sql.SQL("SET LOCAL ROLE {}").format(sql.Identifier(owner)))
        strange = {tenant, model}.difference(search_path.trusted(conn, tenant, model))
        conn.execute("RESET ROLE")
        if strange:
            raise NotTriedError(f"roles other than {owner} can have code in {' and '.join(sorted(strange))}")
        self.found = definitions(conn, tenant, oid)
        copied = [made.statement for made in self.found.values() if made.statement and made.copied]
        if len(copied) > _MOST_COPIED:
            raise NotTriedError(f"{tenant} has more than {_MOST_COPIED:,} objects")
        copied += self._comments
        self._name = f"pgbillion_diff_{secrets.token_hex(8)}"
        conn.execute(
            sql.SQL("CREATE SCHEMA {} AUTHORIZATION {}").format(sql.Identifier(self._name), sql.Identifier(owner))
        )
        conn.execute(_ATTEMPT)
        if not mine:
            function = "pg_temp.attempt(pg_catalog.text[], pg_catalog.text)"
            conn.execute(sql.SQL("ALTER FUNCTION " + function + " OWNER TO {}").format(sql.Identifier(owner)))
        row = conn.execute("SELECT oid::int8 FROM pg_namespace WHERE nspname = %s", [self._name]).fetchone()
        assert row is not None
        self._schema = int(row[0])
        # what fails needs what comes later, or cannot be copied
        while copied and (left := [one for one, done in zip(copied, self._run(copied), strict=True) if not done]):
            if len(left) == len(copied):
                break
            copied = left
        self.before = self._objects()
        conn.execute("SAVEPOINT copied")

    def __enter__(self) -> Bench:
        return self

    def __exit__(self, *args: object) -> None:
        self.close()

    def close(self) -> None:
        """Take back all of it."""
        self._conn.close()

    def try_all(self, tried: Sequence[Sequence[str]]) -> tuple[list[int], Objects]:
        """Try lists of statements, each list as a whole, again where others may have to come first.

        Returns the places of those that could be run, in the order in which they were, and what there is then. The
        copy is as before afterwards.
        """
        order: list[int] = []
        left = [place for place, one in enumerate(tried) if one]
        while left:
            done = self._run([";\n".join(tried[place]) for place in left])
            order += [place for place, ran in zip(left, done, strict=True) if ran]
            if not any(done):
                break
            left = [place for place, ran in zip(left, done, strict=True) if not ran]
        after = self._objects()
        self._conn.execute("ROLLBACK TO copied")
        return order, after

    def _run(self, made: Sequence[str]) -> list[bool]:
        row = self._conn.execute(
            "SELECT pg_temp.attempt(%s::pg_catalog.text[], %s::pg_catalog.text)",
            [[self._text(one) for one in made], sql.Identifier(self._name).as_string(self._conn) + ", pg_temp"],
        ).fetchone()
        assert row is not None
        self._conn.execute(_OURS.encode())
        return list(row[0])

    def _text(self, statement: str) -> str:
        """Return a statement as `migrate` sends it."""
        try:
            return ";\n".join(one.for_schema(self._name) for one in statements.split(statement))
        except UserError:
            # an error here, too
            return ":"

    def _objects(self) -> Objects:
        found = self._read(self._conn, self._schema, self._name, self._model)
        return {key: what for key, what in found.items() if not key[0].startswith(_OWN)}

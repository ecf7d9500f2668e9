"""All catalog rows of a schema and what is in it, with every OID replaced by what it stands for.

Independent of how clones are made: which rows there are is told by pg_depend and by PostgreSQL's list of references
between catalogs, and a number in a row that is the OID of a member of the schema is that member.
"""

from __future__ import annotations

import re
from typing import Any

import psycopg

from . import catalogs as catalog_rows
from .catalogs import ATTRIBUTE_VERSION, Catalogs, Object

Connection = psycopg.Connection[tuple[Any, ...]]

_NUMBER = re.compile(r"(?<![\d.])\d{4,10}(?!\d)")
_VALUE = re.compile(r":constvalue (\d+) \[([-\d ]+)\]")
# where in its command an expression stood
_PLACE = re.compile(r":(?:location|stmt_location|stmt_len|list_start|list_end) -?\d+")
# when it was made, how large it is, and files of those that were moved or refreshed
_VARYING = {
    "pg_class": {"relfilenode", "relfrozenxid", "relminmxid", "relpages", "reltuples", "relallvisible", "relallfrozen"}
}


def rows(conn: Connection, catalogs: Catalogs, schema: str, *, trees: bool = True) -> list[str]:
    """One line for each row, sorted. The connection is a superuser's, and nobody changes the schema meanwhile.

    Without trees, stored expressions are left out: read again from text, implicit casts in them are explicit ones.
    """
    members: set[Object] = {
        (name, int(oid))
        for name, oid in conn.execute(
            "SELECT classid::regclass::text, objid FROM pg_depend"
            " WHERE refclassid = 'pg_namespace'::regclass AND refobjid = %s::regnamespace",
            [schema],
        )
    }
    namespace = conn.execute("SELECT %s::regnamespace::oid::bigint", [schema]).fetchone()
    assert namespace
    members.add(("pg_namespace", namespace[0]))
    while True:
        raw, found = catalog_rows._collect(conn, catalogs, members)
        if found <= members:
            break
        members |= found
    symbols = _symbols(conn, catalogs, members, raw, schema)

    def canonical(name: str, column: str, text: str | None) -> str | None:
        if text is None or column in _VARYING.get(name, ()):
            return None
        if not trees and column in catalogs.by_name[name].trees:
            return "…"
        if column == "attoptions":
            text = ATTRIBUTE_VERSION.sub(r"\1<version>", text)
        # of bytes, some may look like a number
        if text.startswith("\\x"):
            return text
        # columns of type regproc name it
        text = _VALUE.sub(_numbers, _PLACE.sub("", re.sub(rf"\b{schema}\b", "SCHEMA", text)))
        return _NUMBER.sub(lambda one: symbols.get(int(one[0]), one[0]), text)

    return sorted(
        f"{name}: " + ", ".join(f"{column}={canonical(name, column, text)}" for column, text in row.items())
        for name, found_rows in raw.items()
        for row in found_rows
    )


def _numbers(value: re.Match[str]) -> str:
    """Show a constant's bytes as numbers of four, among which there may be OIDs."""
    data = bytes(int(byte) & 255 for byte in value[2].split())
    words = [int.from_bytes(data[start : start + 4], "little") for start in range(0, len(data), 4)]
    return f":constvalue {value[1]} [{' '.join(map(str, words))}]"


def _symbols(
    conn: Connection, catalogs: Catalogs, members: set[Object], raw: dict[str, list[dict[str, str | None]]], schema: str
) -> dict[int, str]:
    labels = {int(row["oid"] or 0): f"<label {row['enumlabel']}>" for row in raw.get("pg_enum", [])}
    classes = [(catalogs.oids[name], oid) for name, oid in members if name != "pg_enum"]
    described = conn.execute(
        "SELECT o.oid::bigint, pg_describe_object(o.class, o.oid, 0) FROM unnest(%s::oid[], %s::oid[]) o (class, oid)",
        [[one for one, _ in classes], [oid for _, oid in classes]],
    ).fetchall()
    # the names of TOAST tables and of internal triggers have OIDs
    return labels | {
        oid: "<" + re.sub(r"\d{4,}", "N", re.sub(rf"\b{schema}\b", "SCHEMA", text or "?")) + ">"
        for oid, text in described
    }

"""All catalog rows of a schema and what is in it, with every OID replaced by what it stands for.

Independent of how clones are made: which rows there are is told by pg_depend and by PostgreSQL's list of references
between catalogs, and a number in a row that is the OID of a member of the schema is that member.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence

from pgbillion.common.connection import Connection

from . import catalogs as catalog_rows
from .catalogs import ATTRIBUTE_VERSION, Catalogs, Object

_NUMBER = re.compile(r"(?<![\d.#])\d{4,10}(?!\d)")
_VALUE = re.compile(r"(:consttype (\d+) [^{}\[\]]*)?:constvalue (\d+) \[([-\d ]+)\]")
# bytea, name, text, json, char(n), varchar, numeric and jsonb, whose bytes are no OIDs, whatever they look like
_WITHOUT_OIDS = {"17", "19", "25", "114", "1042", "1043", "1700", "3802"}
# FirstNormalObjectId
_FIRST_NORMAL = 16384
# where in its command an expression stood
_PLACE = re.compile(r":(?:location|stmt_location|stmt_len|list_start|list_end) -?\d+")
# what the fields of stored expressions refer to, by the ends of their names, and the numbers among their values
_FIELD = re.compile(r":(\w+) (\d{4,10})(?![\d.])")
_FIELDS = {"funcid": "pg_proc", "fnoid": "pg_proc", "type": "pg_type", "typeid": "pg_type", "relid": "pg_class"}
_FIELDS |= {"collid": "pg_collation", "collOid": "pg_collation"}
_FIELDS |= {"opno": "pg_operator", "eqop": "pg_operator", "sortop": "pg_operator"}
# these are in a list
_CONSTRAINTS = re.compile(r"(?<=:constraintDeps \(o )[\d ]+(?=\))")
_LIKELY = ("pg_class", "pg_type", "pg_enum", "pg_proc", "pg_constraint", "pg_ts_config", "pg_ts_dict", "pg_collation")
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

    anywhere = (*_LIKELY, *sorted(catalogs.oids))

    def symbol(number: str, likely: Sequence[str]) -> str:
        """Of an OID that several catalogs have, the object in the first of these that has it."""
        known = symbols.get(int(number), {})
        return next((known[one] for one in likely if one in known), f"#{number}")

    def field(found: re.Match[str]) -> str:
        target = next((one for ends, one in _FIELDS.items() if found[1].endswith(ends)), None)
        return found[0] if target is None else f":{found[1]} {symbol(found[2], (target,))}"

    def constraints(found: re.Match[str]) -> str:
        return " ".join(symbol(number, ("pg_constraint",)) for number in found[0].split())

    def numbers(value: re.Match[str]) -> str:
        """Show a constant's bytes as numbers of four, among which there may be OIDs."""
        data = bytes(int(byte) & 255 for byte in value[4].split())
        # the label of an enum that is not of the schema has an OID, which may be a member's in another catalog
        foreign = value[2] and int(value[2]) >= _FIRST_NORMAL and "pg_type" not in symbols.get(int(value[2]), {})
        mark = "#" if foreign or value[2] in _WITHOUT_OIDS else ""
        words = [f"{mark}{int.from_bytes(data[start : start + 4], 'little')}" for start in range(0, len(data), 4)]
        return f"{value[1] or ''}:constvalue {value[3]} [{' '.join(words)}]"

    def canonical(name: str, row: dict[str, str | None], column: str) -> str | None:
        text = row[column]
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
        text = _VALUE.sub(numbers, _PLACE.sub("", re.sub(rf"\b{schema}\b", "SCHEMA", text)))
        likely: Sequence[str] = _LIKELY
        if column in catalogs.by_name[name].trees:
            text = _FIELD.sub(field, text)
            text = _CONSTRAINTS.sub(constraints, text)
        elif target := _target(catalogs, name, row, column):
            likely = (target,)
        else:
            likely = anywhere
        return _NUMBER.sub(lambda one: symbol(one[0], likely), text)

    return sorted(
        f"{name}: " + ", ".join(f"{column}={canonical(name, row, column)}" for column in row)
        for name, found_rows in raw.items()
        for row in found_rows
    )


def _target(catalogs: Catalogs, name: str, row: dict[str, str | None], column: str) -> str | None:
    """The catalog that a column refers to, where that is known."""
    if column == "oid":
        return name
    for reference in catalogs.by_name[name].references:
        if reference.column == column and reference.class_column is not None:
            classid = int(row[reference.class_column] or 0)
            return next((one for one, oid in catalogs.oids.items() if oid == classid), None)
        if reference.column == column:
            return reference.catalog
    return None


def _symbols(
    conn: Connection, catalogs: Catalogs, members: set[Object], raw: dict[str, list[dict[str, str | None]]], schema: str
) -> dict[int, dict[str, str]]:
    """What an OID stands for, in each of the catalogs that have it."""
    names = {oid: name for name, oid in catalogs.oids.items()}
    classes = [(catalogs.oids[name], oid) for name, oid in members if name != "pg_enum"]
    described = conn.execute(
        "SELECT o.class::bigint, o.oid::bigint, pg_describe_object(o.class, o.oid, 0)"
        " FROM unnest(%s::oid[], %s::oid[]) o (class, oid)",
        [[one for one, _ in classes], [oid for _, oid in classes]],
    ).fetchall()
    symbols: dict[int, dict[str, str]] = defaultdict(dict)
    for row in raw.get("pg_enum", []):
        symbols[int(row["oid"] or 0)]["pg_enum"] = f"<label {row['enumlabel']}>"
    for classid, oid, text in described:
        # the names of TOAST tables and of internal triggers have OIDs
        shown = re.sub(r"\d{4,}", "N", re.sub(rf"\b{schema}\b", "SCHEMA", text or "?"))
        symbols[oid][names[classid]] = f"<{shown}>"
    return symbols

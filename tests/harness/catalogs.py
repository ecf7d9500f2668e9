"""Everything the catalogues say about one table, in a form two tables can be compared in.

Almost nothing here knows what a column means.  Catalogues and columns come from pg_class and pg_attribute, references
from pg_get_catalog_foreign_keys() and from the (classid, objid) pairs of the dependency-like catalogues, so a catalogue
or a column that a new major adds is compared too; an OID column that fits neither is an error until it is classified.

A table's *family* is what DROP TABLE would take along: the table and, over pg_depend, whatever is an automatic or
internal part of it, with every object that points at a member.  A row belongs to the table when it is a member's own
row or refers to a member from either end.  In the rows, OIDs of members become symbols, the schema becomes
``<schema>``, and all else stays as it is: two tables of one name made in two schemas must give equal rows.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from psycopg import sql

from pgbillion.common.connection import Connection

Object = tuple[str, int]  # catalogue, OID
Row = Mapping[str, str | None]

# What cannot be equal; storage() checks that each is sane instead.
EXCLUDED: Mapping[str, frozenset[str]] = {
    "pg_class": frozenset({"relfilenode", "relfrozenxid", "relminmxid"}),
}
# OID columns that refer to nothing in a catalogue.
NO_REFERENCE = frozenset({("pg_class", "relfilenode"), ("pg_replication_origin", "roident")})
# Minor releases since November 2026 note in a column's options the WAL position at which its row type last changed.
ATTRIBUTE_VERSION = re.compile(r"(pg_attver=)\d+")
# Dependencies that make an object a part of what it depends on.
PART = ("a", "i", "P", "S")
# Their trees tell where in a statement something stood.
_STATEMENTS = ("pg_policy", "pg_trigger", "pg_rewrite", "pg_partitioned_table")
OID_TYPES = ("oid", "oid[]", "oidvector")
# Constants of these types hold the OID of an object of that catalogue.
CONSTANT_TYPES = {"regclass": "pg_class", "regtype": "pg_type"}


@dataclass(frozen=True)
class Reference:
    """A column that holds OIDs of `catalog`, or of the catalogue that `class_column` of the same row names."""

    column: str
    catalog: str | None
    class_column: str | None = None
    many: bool = False


@dataclass(frozen=True)
class Catalog:
    name: str
    columns: tuple[str, ...]
    trees: frozenset[str]
    references: tuple[Reference, ...]
    has_oid: bool
    database_column: str | None  # a shared catalogue's reference to the database a row is about


@dataclass(frozen=True)
class Catalogs:
    """The catalogues of one server."""

    by_name: Mapping[str, Catalog]
    oids: Mapping[str, int]
    constant_types: Mapping[int, str]
    database: int

    @classmethod
    def load(cls, conn: Connection) -> Catalogs:
        """Raises LookupError if an OID column is neither a known reference nor listed as none."""
        oids = {
            str(name): int(oid)
            for name, oid in conn.execute(
                "SELECT relname, oid FROM pg_class WHERE relnamespace = 'pg_catalog'::regnamespace AND relkind = 'r'"
            )
        }
        columns: dict[str, list[tuple[str, str]]] = defaultdict(list)
        for name, column, type_ in conn.execute(
            "SELECT c.relname, a.attname, a.atttypid::regtype::text FROM pg_attribute a JOIN pg_class c"
            " ON c.oid = a.attrelid WHERE a.attrelid = ANY(%s) AND a.attnum > 0 AND NOT a.attisdropped"
            " ORDER BY a.attrelid, a.attnum",
            [list(oids.values())],
        ):
            columns[name].append((column, type_))
        known: dict[str, dict[str, Reference]] = defaultdict(dict)
        for name, column, target, many in conn.execute(
            "SELECT f.relname, fkcols[1], p.relname, is_array FROM pg_get_catalog_foreign_keys() k"
            " JOIN pg_class f ON f.oid = fktable JOIN pg_class p ON p.oid = pktable WHERE pkcols = '{oid}'"
        ):
            known[name][column] = Reference(column, target, many=many)
        by_name = {}
        for name, described in columns.items():
            types = dict(described)
            for column, type_ in described:
                if type_.startswith("reg"):
                    known[name].pop(column, None)  # shown by name, and never a table's own
                elif type_ in OID_TYPES and column not in known[name]:
                    class_column = re.sub("obj(?=o?id$)", "class", column)
                    if column == "oid" or (name, column) in NO_REFERENCE:
                        continue
                    if class_column == column or class_column not in types:
                        raise LookupError(f"{name}.{column} ({type_}) refers to something unknown to this comparison")
                    known[name][column] = Reference(column, None, class_column=class_column)
            database = [ref.column for ref in known[name].values() if ref.catalog == "pg_database"]
            by_name[name] = Catalog(
                name=name,
                columns=tuple(types),
                trees=frozenset(column for column, type_ in described if type_ == "pg_node_tree"),
                references=tuple(known[name].values()),
                has_oid="oid" in types,
                database_column=database[0] if name == "pg_shdepend" else None,
            )
        constant_types = {
            int(oid): CONSTANT_TYPES[name]
            for oid, name in conn.execute(
                "SELECT oid, typname FROM pg_type WHERE typname = ANY(%s) AND typnamespace ="
                " 'pg_catalog'::regnamespace",
                [list(CONSTANT_TYPES)],
            )
        }
        row = conn.execute("SELECT oid FROM pg_database WHERE datname = current_database()").fetchone()
        assert row
        return cls(by_name, oids, constant_types, int(row[0]))


@dataclass
class Family:
    """One table's objects, each with its symbol, and rows."""

    table: int
    symbols: dict[Object, str]
    rows: dict[str, list[dict[str, str | None]]]  # raw, column text as the server gives it
    canonical: dict[str, list[Row]] = field(default_factory=dict)

    def oids(self, catalog: str) -> list[int]:
        """OIDs of the members that are rows of this catalogue, in the order of their symbols."""
        return [oid for (name, oid), _ in sorted(self.symbols.items(), key=lambda item: item[1]) if name == catalog]


def family(conn: Connection, catalogs: Catalogs, table: int | str) -> Family:
    """Collect and canonicalise what belongs to `table` (OID or name as regclass takes it).

    The connection must see the table and be a superuser's; nobody may change the table meanwhile.
    """
    row = conn.execute("SELECT %s::regclass::oid::bigint", [str(table)]).fetchone()
    assert row
    assert row[0], f"no table {table}"
    members: set[Object] = {("pg_class", int(row[0]))}
    while True:
        rows, found = _collect(conn, catalogs, members)
        if found <= members:
            break
        members |= found
    result = Family(int(row[0]), {}, rows)
    _name_members(result, members, catalogs)
    for name, raw in rows.items():
        catalog = catalogs.by_name[name]
        result.canonical[name] = [_canonical(catalog, one, result, catalogs) for one in raw]
    return result


def difference(expected: Family, actual: Family) -> list[str]:
    """One line for each row or column in which the two differ; empty when equal."""
    lines: list[str] = []
    for name in sorted(expected.canonical.keys() | actual.canonical.keys()):
        left = Counter(_frozen(row) for row in expected.canonical.get(name, []))
        right = Counter(_frozen(row) for row in actual.canonical.get(name, []))
        only_left = [dict(row) for row in (left - right).elements()]
        only_right = [dict(row) for row in (right - left).elements()]
        for row in only_left:
            candidates = sorted(only_right, key=lambda other: -_likeness(row, other))
            if not candidates or _likeness(row, candidates[0]) * 2 < len(row):
                lines.append(f"{name}: missing row {_show(row)}")
                continue
            other = candidates[0]
            only_right.remove(other)
            changed = [
                f"{column} is {other.get(column)!r}, should be {row.get(column)!r}"
                for column in row
                if row.get(column) != other.get(column)
            ]
            lines.append(f"{name} {_identity(row)}: {'; '.join(changed)}")
        lines.extend(f"{name}: extra row {_show(row)}" for row in only_right)
    return lines


def counts(conn: Connection, catalogs: Catalogs) -> dict[str, int]:
    """Number of live rows in every catalogue: what a rolled-back call must leave as it was."""
    result: dict[str, int] = {}
    for name in catalogs.by_name:
        row = conn.execute(sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(name))).fetchone()
        assert row
        result[name] = int(row[0])
    return result


def _collect(
    conn: Connection, catalogs: Catalogs, members: set[Object]
) -> tuple[dict[str, list[dict[str, str | None]]], set[Object]]:
    """Rows that are or refer to members, and the objects that the rows add to the family."""
    oids: dict[str, list[int]] = defaultdict(list)
    for name, oid in members:
        oids[name].append(oid)
    parts: list[sql.Composable] = []
    for catalog in catalogs.by_name.values():
        conditions: list[sql.Composable] = []
        if catalog.has_oid and catalog.name in oids:
            conditions.append(sql.SQL("oid = ANY({})").format(_array(oids[catalog.name])))
        for reference in catalog.references:
            column = sql.Identifier(reference.column)
            if reference.class_column:
                for name, values in oids.items():
                    conditions.append(
                        sql.SQL("({} = {} AND {} = ANY({}))").format(
                            sql.Identifier(reference.class_column),
                            sql.Literal(catalogs.oids[name]),
                            column,
                            _array(values),
                        )
                    )
            elif reference.catalog in oids and reference.many:
                conditions.append(sql.SQL("{}::oid[] && {}").format(column, _array(oids[reference.catalog])))
            elif reference.catalog in oids:
                conditions.append(sql.SQL("{} = ANY({})").format(column, _array(oids[reference.catalog])))
        if not conditions:
            continue
        where = sql.SQL("({})").format(sql.SQL(" OR ").join(conditions))
        if catalog.database_column:
            where += sql.SQL(" AND {} IN (0, {})").format(
                sql.Identifier(catalog.database_column), sql.Literal(catalogs.database)
            )
        texts = sql.SQL(", ").join(sql.SQL("{}::text").format(sql.Identifier(column)) for column in catalog.columns)
        parts.append(
            sql.SQL("SELECT {}, ARRAY[{}] FROM {} WHERE {}").format(
                sql.Literal(catalog.name), texts, sql.Identifier("pg_catalog", catalog.name), where
            )
        )
    rows: dict[str, list[dict[str, str | None]]] = defaultdict(list)
    found: set[Object] = set()
    for name, values in conn.execute(sql.SQL(" UNION ALL ").join(parts)):
        catalog = catalogs.by_name[name]
        row = dict(zip(catalog.columns, values, strict=True))
        rows[name].append(row)
        if catalog.has_oid:
            found.add((name, int(row["oid"] or 0)))
        if name == "pg_depend" and row["deptype"] in PART and _target(row, "ref", catalogs) in members:
            found.add(_target(row, "", catalogs))
    return rows, found


def _target(row: Row, prefix: str, catalogs: Catalogs) -> Object:
    class_oid = int(row[prefix + "classid"] or 0)
    name = next((name for name, oid in catalogs.oids.items() if oid == class_oid), "?")
    return name, int(row[prefix + "objid"] or 0)


def _name_members(result: Family, members: set[Object], catalogs: Catalogs) -> None:
    """Give each member a symbol that follows from what it is, never from its OID.

    Relations, types and constraints go by their own names, which are unique and compared like any other value; what
    has no name, or one that holds an OID, goes by the member it belongs to.
    """
    own = {(name, int(row["oid"] or 0)): row for name, rows in result.rows.items() for row in rows if "oid" in row}
    classes = {name: rows for name, rows in result.rows.items() if name == "pg_class"}.get("pg_class", [])
    toasts = {int(row["reltoastrelid"] or 0): int(row["oid"] or 0) for row in classes if row["reltoastrelid"] != "0"}
    indexed = {int(row["indexrelid"] or 0): int(row["indrelid"] or 0) for row in result.rows.get("pg_index", [])}

    def symbol(member: Object) -> str:
        name, oid = member
        row = own.get(member)
        if member == ("pg_class", result.table):
            return "<table>"
        if row is None:
            return f"<{name} without a row>"
        if name == "pg_class" and oid in toasts:
            return f"<toast of {symbol(('pg_class', toasts[oid]))}>"
        if name == "pg_class" and indexed.get(oid) in toasts:
            return f"<index of {symbol(('pg_class', indexed[oid]))}>"
        named = next((column for column in row if re.fullmatch("[a-z]{3}name|stxname|rulename|pubname", column)), None)
        owner = " ".join(
            symbol((reference.catalog, int(row[reference.column] or 0)))
            for reference in catalogs.by_name[name].references
            if reference.catalog
            and reference.catalog != name
            and not reference.many
            and (reference.catalog, int(row[reference.column] or 0)) in members
            and name not in ("pg_class", "pg_type")
        )
        number = row.get("adnum") or ""
        own_name = _without_oid(row[named] or "", oid) if named else ""
        return f"<{' '.join(filter(None, (name, owner, number, own_name)))}>"

    # Two of one symbol are only seen where rows are broken; which is which does not matter then.
    for member in sorted(members):
        one = symbol(member)
        times = sum(other == one or other.startswith(one + " again") for other in result.symbols.values())
        result.symbols[member] = one + " again" * times


def _canonical(catalog: Catalog, row: Row, family: Family, catalogs: Catalogs) -> Row:
    result = dict(row)
    for column in EXCLUDED.get(catalog.name, ()):
        result.pop(column)
    if catalog.has_oid:
        result["oid"] = family.symbols.get((catalog.name, int(row["oid"] or 0)))
    for reference in catalog.references:
        value = row[reference.column]
        if value is None:
            continue
        target = reference.catalog
        if reference.class_column:
            class_oid = int(row[reference.class_column] or 0)
            target = next((name for name, oid in catalogs.oids.items() if oid == class_oid), None)
            result[reference.class_column] = target
        if target is not None:
            result[reference.column] = _symbols(family, target, value)
    for column in catalog.trees:
        value = row[column]
        if value is not None:
            result[column] = _canonical_tree(value, family, catalogs)
            if catalog.name in _STATEMENTS or column == "relpartbound":
                # where in the statement it stood, which is another one
                result[column] = re.sub(r":location -?\d+", ":location -1", result[column] or "")
    if catalog.name == "pg_attribute" and row["attoptions"]:
        result["attoptions"] = ATTRIBUTE_VERSION.sub(r"\1<version>", row["attoptions"])
    for column, value in result.items():
        if value is not None and column.endswith("name"):
            # The names of a TOAST table and of its index hold the OID of the table, an internal trigger's its own.
            value = re.sub(r"^pg_toast_(\d+)", lambda m: "pg_toast_" + _symbol(family, "pg_class", int(m[1])), value)
            result[column] = _without_oid(value, int(row.get("oid") or 0))
    return result


def _without_oid(name: str, oid: int) -> str:
    return re.sub(rf"_{oid}$", "_<own>", name)


def _symbol(family: Family, catalog: str, oid: int) -> str:
    if catalog == "pg_namespace" and str(oid) == _schema(family):
        return "<schema>"
    return family.symbols.get((catalog, oid), str(oid))


def _symbols(family: Family, catalog: str, text: str) -> str:
    return re.sub(r"\d+", lambda found: _symbol(family, catalog, int(found[0])), text)


def _schema(family: Family) -> str | None:
    return next(row["relnamespace"] for row in family.rows["pg_class"] if row["oid"] == str(family.table))


def _canonical_tree(text: str, family: Family, catalogs: Catalogs) -> str:
    """A stored expression with the members' OIDs replaced, in type fields and in regclass and regtype constants."""

    def constant(match: re.Match[str]) -> str:
        catalog = catalogs.constant_types.get(int(match["type"]))
        if catalog is None:
            return match[0]
        # A datum of an OID is printed as eight bytes in the machine's order; the tests run where that is little.
        oid = int.from_bytes(bytes(int(byte) & 255 for byte in match["bytes"].split()[:4]), "little")
        return f"{match['head']}{_symbol(family, catalog, oid)} ]"

    text = re.sub(r"(?P<head>:consttype (?P<type>\d+)[^}]*?:constvalue 4 \[ )(?P<bytes>[-\d ]+?) \]", constant, text)
    if "<pg_class" in text and ":location" in text:
        # A serial column's default: CREATE TABLE (LIKE) forgets where in the statement an expression stood, and the
        # oracle's ALTER TABLE … SET DEFAULT does not.
        text = re.sub(r":location \d+", ":location -1", text)
    text = re.sub(r"(:aggargtypes \(o)([ \d]+)", lambda m: m[1] + _symbols(family, "pg_type", m[2]), text)
    text = re.sub(r"(:\w*type(?:id)? )(\d+)", lambda m: m[1] + _symbol(family, "pg_type", int(m[2])), text)
    return re.sub(r"(:(?:relid|seqid|resorigtbl) )(\d+)", lambda m: m[1] + _symbol(family, "pg_class", int(m[2])), text)


def _array(values: Iterable[int]) -> sql.Composable:
    return sql.SQL("{}::oid[]").format(sql.Literal("{" + ",".join(map(str, values)) + "}"))


def _frozen(row: Row) -> tuple[tuple[str, str | None], ...]:
    return tuple(row.items())


def _likeness(row: Row, other: Row) -> int:
    names = [column for column in row if column == "oid" or column.endswith(("name", "relid", "num", "objid"))]
    return sum(row[column] == other.get(column) for column in row) + 2 * sum(
        row[column] == other.get(column) for column in names
    )


def _identity(row: Row) -> str:
    return " ".join(
        str(value) for column, value in row.items() if re.search("^oid$|name$|relid$|objid$|objsubid$|attnum$", column)
    )


def _show(row: Row) -> str:
    return ", ".join(f"{column}={value}" for column, value in row.items() if value not in (None, "0", "f", ""))

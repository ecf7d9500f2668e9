"""What must hold in a whole database whatever was done to it: indexes, references, files."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psycopg
from psycopg import sql

from pgbillion.common.connection import Connection

from .servers import has_extension

RELATION_FILE = re.compile(r"(?P<number>\d+)(?:_(?P<fork>fsm|vm|init))?(?:\.\d+)?")


@dataclass(frozen=True, order=True)
class File:
    """A relation's file: its folder below the data directory, its number, its name."""

    folder: str
    number: int
    name: str

    @property
    def tablespace(self) -> int:
        """OID of the tablespace, 0 for the database's default one."""
        found = re.match(r"pg_tblspc/(\d+)/", self.folder + "/")
        return int(found[1]) if found else 0


def index_errors(conn: Connection, *, parents: bool = True) -> list[str]:
    """What amcheck says of the btree indexes of all catalogues, their TOAST tables included (extension amcheck).

    With parents, the structure between levels and from root to leaf is checked too; that needs ShareLock, which a
    standby has not.  Nothing is checked where amcheck is not installed.
    """
    if not has_extension(conn, "amcheck"):
        return []
    check = "public.bt_index_parent_check(%s::oid, true, true)" if parents else "public.bt_index_check(%s::oid, true)"
    indexes = conn.execute(
        "SELECT i.indexrelid::bigint, i.indexrelid::regclass::text FROM pg_index i JOIN pg_class t ON t.oid = indrelid"
        " WHERE indrelid < 16384 AND relnamespace::regnamespace::text IN ('pg_catalog', 'pg_toast') ORDER BY 1"
    ).fetchall()
    try:
        with conn.transaction():
            every = f"SELECT {check.replace('%s', 'one')} FROM unnest(%s::oid[]) one"
            conn.execute(every, [[oid for oid, _ in indexes]])
    except psycopg.Error:
        # it ended at the first error, and did not say which index that is of
        errors = []
    else:
        return []
    for oid, name in indexes:
        try:
            conn.execute(f"SELECT {check}", [oid])
        except psycopg.Error as error:
            errors.append(f"{name}: {error}")
    return errors


def heap_errors(conn: Connection) -> list[str]:
    """What amcheck says of the catalogues' heaps; nothing where it is not installed."""
    if not has_extension(conn, "amcheck"):
        return []
    return [
        str(row)
        for row in conn.execute(
            "SELECT c.oid::regclass::text, v.* FROM pg_class c, public.verify_heapam(c.oid) v"
            " WHERE c.relkind = 'r' AND c.relnamespace = 'pg_catalog'::regnamespace"
        )
    ]


def reference_errors(conn: Connection, *, own: bool = True) -> list[str]:
    """Catalogue rows that refer to an object that is not there: core's own oidjoins test, and dependencies.

    Without ``own``, references of PostgreSQL's own objects are not looked at.
    """
    which = (conn.info.server_version, own)
    if which not in _QUERIES:
        _QUERIES[which] = _reference_query(conn, own)
    found = conn.execute(_QUERIES[which]).fetchall()
    return [str((what, row or _row(conn, table, place))) for what, row, table, place in found]


def _row(conn: Connection, table: str, place: str) -> str | None:
    query = sql.SQL("SELECT fk::text FROM {} fk WHERE ctid = {}").format(sql.SQL(table), sql.Literal(place))
    row = conn.execute(query).fetchone()
    return row[0] if row else None


# by the server's version, on which alone they depend
_QUERIES: dict[tuple[int, bool], str] = {}


def _reference_query(conn: Connection, own: bool) -> str:
    """Return a query of what refers to nothing, its row, or the row's table and place.

    References by OID alone, which are nearly all, are looked up together in one hash table of all objects: planning a
    join for each of them would take most of the time.
    """
    targets = [
        name
        for (name,) in conn.execute(
            "SELECT attrelid::regclass::text FROM pg_attribute JOIN pg_class c ON c.oid = attrelid"
            " WHERE attname = 'oid' AND attrelid < 16384 AND relkind = 'r' AND relnamespace ="
            " 'pg_catalog'::regnamespace"
        ).fetchall()
    ]
    objects = [f"SELECT '{target}'::regclass::oid, oid FROM {target}" for target in targets]
    classes = ", ".join(f"'{target}'::regclass" for target in targets)
    wanted = (
        {} if own else dict.fromkeys(targets, "WHERE fk.oid >= 16384") | {"pg_attribute": "WHERE fk.attrelid >= 16384"}
    )
    plain: dict[str, list[str]] = {}
    references: list[str] = []
    others: list[sql.Composable] = []
    for table, columns, target, keys, many, optional in conn.execute(
        "SELECT fktable::regclass::text, fkcols, pktable::regclass::text, pkcols, is_array, is_opt"
        " FROM pg_get_catalog_foreign_keys()"
    ).fetchall():
        if keys != ["oid"]:
            others.append((_array_join if many else _plain_join)(table, columns, target, keys, many, optional))
            continue
        (column,) = columns
        value = "one::oid" if many else f"fk.{column}::oid"
        value = f"NULLIF({value}, 0)" if optional else f"COALESCE({value}, 0)"
        reference = f"'{table} ({column})', '{target}'::regclass::oid, {value}"
        if many:
            source = f"{table} fk, unnest(fk.{column}) one {wanted.get(table, '')}"
            references.append(f"SELECT '{table}'::regclass::oid, fk.ctid, {reference} FROM {source}")
        else:
            plain.setdefault(table, []).append(f"({reference})")
    references += [
        f"SELECT '{table}'::regclass::oid, fk.ctid, one.*"
        f" FROM {table} fk, LATERAL (VALUES {', '.join(rows)}) one {wanted.get(table, '')}"
        for table, rows in plain.items()
    ]
    for table, class_column, object_column in (
        ("pg_depend", "classid", "objid"),
        ("pg_depend", "refclassid", "refobjid"),
        ("pg_shdepend", "classid", "objid"),
        ("pg_description", "classoid", "objoid"),
    ):
        here = (
            "AND dbid = (SELECT oid FROM pg_database WHERE datname = current_database())"
            if table == "pg_shdepend"
            else ""
        )
        references.append(
            f"SELECT '{table}'::regclass::oid, fk.ctid, '{table} ({object_column})', {class_column},"
            f" NULLIF({object_column}, 0) FROM {table} fk WHERE {class_column} IN ({classes}) {here}"
        )
    rest = sql.SQL(" UNION ALL ").join([*others, _CONSISTENCY]).as_string(conn)
    return (
        f"WITH object (class, id) AS MATERIALIZED ({' UNION ALL '.join(objects)}),"
        f" reference (source, place, what, class, id) AS ({' UNION ALL '.join(references)})"
        " SELECT what || ' without its ' || class::regclass, NULL, source::regclass::text, place::text"
        # OFFSET keeps the condition from being planned for each part of its own
        " FROM (SELECT * FROM reference WHERE id IS NOT NULL OFFSET 0) one"
        " WHERE (class, id) NOT IN (SELECT class, id FROM object)"
        f" UNION ALL SELECT *, NULL, NULL FROM ({rest}) rest"
    )


# Facts that no foreign key expresses and that other sessions rely on.
_CONSISTENCY: sql.SQL = sql.SQL(
    """
    SELECT 'relnatts', c.oid::regclass::text FROM pg_class c WHERE relkind IN ('r', 'i', 'S', 't', 'v', 'c')
        AND relnatts <> (SELECT count(*) FROM pg_attribute WHERE attrelid = c.oid AND attnum > 0)
    UNION ALL
    SELECT 'relchecks', c.oid::regclass::text FROM pg_class c
        WHERE relchecks <> (SELECT count(*) FROM pg_constraint WHERE conrelid = c.oid AND contype = 'c')
    UNION ALL
    SELECT 'relhasindex', c.oid::regclass::text FROM pg_class c WHERE relkind IN ('r', 't')
        AND NOT relhasindex AND EXISTS (SELECT FROM pg_index WHERE indrelid = c.oid)
    UNION ALL
    SELECT 'reltype', c.oid::regclass::text FROM pg_class c WHERE relkind = 'r'
        AND NOT EXISTS (SELECT FROM pg_type WHERE oid = reltype AND typrelid = c.oid AND typname = relname)
    UNION ALL
    SELECT 'typarray', t.oid::regtype::text FROM pg_type t WHERE typarray <> 0
        AND NOT EXISTS (SELECT FROM pg_type a WHERE a.oid = t.typarray AND a.typelem = t.oid)
    UNION ALL
    SELECT 'atthasdef', attrelid::regclass || '.' || attname FROM pg_attribute
        WHERE atthasdef <> EXISTS (SELECT FROM pg_attrdef WHERE adrelid = attrelid AND adnum = attnum)
    UNION ALL
    SELECT 'no pg_index row', c.oid::regclass::text FROM pg_class c WHERE relkind = 'i'
        AND NOT EXISTS (SELECT FROM pg_index WHERE indexrelid = c.oid)
    UNION ALL
    SELECT 'no pg_sequence row', c.oid::regclass::text FROM pg_class c WHERE relkind = 'S'
        AND NOT EXISTS (SELECT FROM pg_sequence WHERE seqrelid = c.oid)
    UNION ALL
    SELECT 'relhastriggers', c.oid::regclass::text FROM pg_class c
        WHERE NOT relhastriggers AND EXISTS (SELECT FROM pg_trigger WHERE tgrelid = c.oid)
    UNION ALL
    SELECT 'role of a relation without its pg_shdepend row', format('%s %s %s', relation::regclass, part, role)
    FROM (
        SELECT oid, 0, 'o', relowner, 0 FROM pg_class WHERE relkind IN ('r', 'm', 'p', 'v', 'S', 'f')
        UNION SELECT c.oid, 0, 'a', role, relowner
        FROM pg_class c, aclexplode(relacl) a, unnest(ARRAY[a.grantee, a.grantor]) role
        UNION SELECT c.oid, attnum, 'a', role, relowner FROM pg_class c JOIN pg_attribute ON attrelid = c.oid,
            aclexplode(attacl) a, unnest(ARRAY[a.grantee, a.grantor]) role
    ) expected (relation, part, kind, role, except_for)
    WHERE relation >= 16384 AND role >= 16384 AND role <> except_for AND NOT EXISTS (
        SELECT FROM pg_shdepend JOIN pg_database d ON d.oid = dbid AND datname = current_database()
        WHERE classid = 'pg_class'::regclass AND objid = relation AND objsubid = part AND deptype = kind::"char"
            AND refclassid = 'pg_authid'::regclass AND refobjid = role)
    UNION ALL
    SELECT 'tablespace in pg_shdepend is not that of a table without a file', format('%s: %s, not %s',
        COALESCE(c.oid, recorded.objid)::regclass, recorded.refobjid, c.reltablespace)
    FROM (SELECT oid, reltablespace FROM pg_class
            WHERE relkind IN ('r', 'm', 't') AND relfilenode = 1 AND reltablespace <> 0) c
    FULL JOIN (SELECT objid, refobjid FROM pg_shdepend
            JOIN pg_database d ON d.oid = dbid AND datname = current_database()
            JOIN pg_class ON pg_class.oid = objid AND relkind IN ('r', 'm', 't')
            WHERE classid = 'pg_class'::regclass AND deptype = 't') recorded
        ON recorded.objid = c.oid AND recorded.refobjid = c.reltablespace
    WHERE c.oid IS NULL OR recorded.objid IS NULL
    UNION ALL
    SELECT 'relfilenode twice', string_agg(oid::regclass::text, ', ') FROM pg_class WHERE relfilenode > 1
        GROUP BY reltablespace, relfilenode HAVING count(*) > 1
    """
)


def files(data: Path, conn: Connection) -> set[File]:
    """Every file of a relation that is in the folders of the connection's database."""
    return {
        File(str(folder.relative_to(data)), int(found["number"]), path.name)
        for folder in folders(data, conn)
        if folder.exists()
        for path in folder.iterdir()
        if (found := RELATION_FILE.fullmatch(path.name))
    }


def folders(data: Path, conn: Connection) -> list[Path]:
    """The folders, one a tablespace, that may hold files of the connection's database; not all need exist."""
    row = conn.execute("SELECT oid FROM pg_database WHERE datname = current_database()").fetchone()
    assert row
    spaces = (data / "pg_tblspc").glob("*/PG_*")
    return [data / "base" / str(row[0]), *(space / str(row[0]) for space in spaces)]


def orphans(data: Path, conn: Connection) -> set[File]:
    """Files that belong to no relation the connection sees.  Needs a CHECKPOINT first, as core unlinks late."""
    known = _known(conn)
    return {file for file in files(data, conn) if (file.tablespace, file.number) not in known}


def missing(data: Path, conn: Connection) -> set[tuple[int, int]]:
    """(tablespace, file number) of relations without a main fork."""
    there = {(file.tablespace, file.number) for file in files(data, conn) if file.name == str(file.number)}
    return _known(conn) - there


def _known(conn: Connection) -> set[tuple[int, int]]:
    return {
        (int(space), int(number))
        for space, number in conn.execute(
            "SELECT CASE WHEN reltablespace = dattablespace THEN 0 ELSE reltablespace END, pg_relation_filenode(c.oid)"
            " FROM pg_class c, pg_database d WHERE datname = current_database() AND NOT relisshared"
            " AND pg_relation_filenode(c.oid) IS NOT NULL"
        )
    }


def _plain_join(
    table: str, columns: list[str], target: str, keys: list[str], _many: bool, optional: bool
) -> sql.Composable:
    used = [sql.SQL("fk.{} <> 0").format(sql.Identifier(column)) for column in columns] if optional else []
    equal = [
        sql.SQL("pk.{} = fk.{}").format(sql.Identifier(key), sql.Identifier(column))
        for key, column in zip(keys, columns, strict=True)
    ]
    return _unmatched(table, sql.SQL("{} fk").format(sql.SQL(table)), ", ".join(columns), used, target, equal)


def _array_join(
    table: str, columns: list[str], target: str, keys: list[str], _many: bool, optional: bool
) -> sql.Composable:
    """As in core's test: the last column is the array, any others are plain."""
    source = sql.SQL("{} fk, unnest(fk.{}) one").format(sql.SQL(table), sql.Identifier(columns[-1]))
    equal = [
        sql.SQL("pk.{} = fk.{}").format(sql.Identifier(key), sql.Identifier(column))
        for key, column in zip(keys[:-1], columns[:-1], strict=True)
    ]
    equal.append(sql.SQL("pk.{} = one").format(sql.Identifier(keys[-1])))
    return _unmatched(table, source, ", ".join(columns), [sql.SQL("one <> 0")] if optional else [], target, equal)


def _unmatched(
    table: str,
    source: sql.Composable,
    columns: str,
    used: Sequence[sql.Composable],
    target: str,
    equal: Sequence[sql.Composable],
) -> sql.Composable:
    return sql.SQL("SELECT {}, fk::text FROM {} WHERE {} AND NOT EXISTS (SELECT FROM {} pk WHERE {})").format(
        sql.Literal(f"{table} ({columns}) without its {target}"),
        source,
        sql.SQL(" AND ").join(used) if used else sql.SQL("true"),
        sql.SQL(target),
        sql.SQL(" AND ").join(equal),
    )

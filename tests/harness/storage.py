"""What the catalogue comparison leaves out: file numbers, frozen ids, and what is in the files of an empty table."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Mapping

from psycopg import sql

from pgbillion.common.connection import Connection

from .catalogs import ATTRIBUTE_VERSION, Family
from .servers import has_extension, one

# Not the free space map: it is a hint, and neither a crash nor a standby is promised one.
FORKS = ("main", "vm", "init")
# LSN and checksum at the start of each page tell when a page was written, not what is on it.
PAGE_ID_BYTES = 10


def insane(conn: Connection, family: Family, since: str = "0/0") -> list[str]:
    """One line for each value that the comparison leaves out and that core would never give.

    `since` is a WAL position from before the table was made.
    """
    versions: dict[str | None, set[int]] = defaultdict(set)
    for row in family.rows["pg_attribute"]:
        if found := ATTRIBUTE_VERSION.search(row["attoptions"] or ""):
            versions[row["attrelid"]].add(int(found[0].split("=")[1]))
    bounds = conn.execute(
        "SELECT (%s::pg_lsn - '0/0')::bigint, (pg_current_wal_insert_lsn() - '0/0')::bigint", [since]
    ).fetchone()
    assert bounds
    lines = [
        f"attribute versions {found}, should be one number of each table between {bounds[0]} and {bounds[1]}"
        for found in versions.values()
        if len(found) > 1 or not all(bounds[0] <= version <= bounds[1] for version in found)
    ]
    return lines + [
        str(line)
        for (line,) in conn.execute(
            """
            SELECT format('%%s: relfilenode %%s, relfrozenxid %%s, relminmxid %%s, xmin %%s',
                          relname, relfilenode, relfrozenxid, relminmxid, c.xmin)
            FROM pg_class c, pg_database d
            WHERE c.oid = ANY(%(oids)s) AND d.datname = current_database() AND NOT (
                CASE WHEN relkind IN ('r', 'i', 'S', 't', 'm') THEN
                    relfilenode >= 16384 AND pg_relation_filenode(c.oid) = relfilenode
                    AND NOT EXISTS (SELECT FROM pg_class other WHERE other.oid <> c.oid
                        AND other.relfilenode = c.relfilenode
                        AND coalesce(nullif(other.reltablespace, 0), dattablespace)
                            = coalesce(nullif(c.reltablespace, 0), dattablespace))
                ELSE relfilenode = 0 END
                AND CASE WHEN relkind IN ('r', 't', 'm') THEN
                    -- A normal id, not newer than the transaction that made the table, not older than what the
                    -- database promises.
                    relfrozenxid::text::bigint >= 3
                    AND age(relfrozenxid) >= age(c.xmin) AND age(relfrozenxid) <= age(datfrozenxid)
                    AND relminmxid::text::bigint >= 1 AND mxid_age(relminmxid) BETWEEN 0 AND mxid_age(datminmxid)
                ELSE relfrozenxid = '0' AND relminmxid = '0' END)
            """,
            {"oids": family.oids("pg_class")},
        )
    ]


def contents(conn: Connection, family: Family) -> Mapping[str, Mapping[str, str]]:
    """For each relation of the family with storage: each fork's pages, and for sequences the row, as text.

    Identifications of pages (LSN, checksum) are left out; without the extension pageinspect only sizes are compared.
    """
    pages_can_be_read = has_extension(conn, "pageinspect")
    result: dict[str, dict[str, str]] = {}
    for row in family.rows["pg_class"]:
        if row["relkind"] not in ("r", "i", "S", "t", "m"):
            continue
        oid = int(row["oid"] or 0)
        forks: dict[str, str] = {}
        for fork in FORKS:
            if not pages_can_be_read:
                forks[fork] = str(one(conn, "SELECT pg_relation_size(%s::oid::regclass, %s)", oid, fork))
                continue
            pages = conn.execute(
                "SELECT public.get_raw_page(%(name)s::regclass::text, %(fork)s, block::int)"
                " FROM generate_series(0, pg_relation_size(%(name)s::regclass, %(fork)s)"
                "   / current_setting('block_size')::int - 1) block ORDER BY block",
                {"name": str(oid), "fork": fork},
            ).fetchall()
            forks[fork] = f"{len(pages)} pages " + " ".join(
                hashlib.sha256(page[PAGE_ID_BYTES:]).hexdigest()[:16] for (page,) in pages
            )
        if row["relkind"] == "S":
            query = sql.SQL("SELECT * FROM {}").format(_qualified(conn, oid))
            forks["row"] = str(conn.execute(query).fetchall())
        result[family.symbols["pg_class", oid]] = forks
    return result


def difference(expected: Mapping[str, Mapping[str, str]], actual: Mapping[str, Mapping[str, str]]) -> list[str]:
    lines: list[str] = []
    for relation in sorted(expected.keys() | actual.keys()):
        left, right = expected.get(relation, {}), actual.get(relation, {})
        lines.extend(
            f"{relation} {fork}: {right.get(fork)}, should be {left.get(fork)}"
            for fork in sorted(left.keys() | right.keys())
            if left.get(fork) != right.get(fork)
        )
    return lines


def _qualified(conn: Connection, oid: int) -> sql.Identifier:
    row = conn.execute(
        "SELECT nspname, relname FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace WHERE c.oid = %s",
        [oid],
    ).fetchone()
    assert row
    return sql.Identifier(row[0], row[1])

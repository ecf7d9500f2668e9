"""Which schemas are tenants: those whose names match a pattern as of psql; never the system's.

public is one only by its own name: most databases have it, and it is hardly ever meant by a wildcard. What belongs to
an extension is none at all.
"""

from __future__ import annotations

import psycopg

from pgbillion.common import patterns
from pgbillion.common.connection import Connection
from pgbillion.common.errors import UserError


def select(conn: Connection, pattern: str, *, but: str | None = None) -> list[str]:
    """Return the names in the order of their bytes, without ``but``. Raises UserError without any."""
    (wanted,) = patterns.parse(pattern)
    try:
        rows = _matching(conn, wanted)
    except psycopg.errors.InvalidRegularExpression as error:
        raise UserError(f'pattern "{pattern}": {error.diag.message_primary}', patterns.QUOTES, 3) from None
    names = [name for name in rows if name != but]
    if not names:
        raise UserError(f'no schema matches "{pattern}"', patterns.WILDCARDS)
    return names


def _matching(conn: Connection, wanted: patterns.Name) -> list[str]:
    rows = conn.execute(
        "SELECT nspname::text FROM pg_namespace n WHERE nspname !~ '^pg_'"
        ' AND nspname ~ %s::text COLLATE pg_catalog."default"'
        " AND nspname NOT IN ('information_schema', 'pgbillion_tables', 'pgbillion_rows', %s)"
        " AND (nspname <> 'public' OR %s)"
        " AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_namespace'::regclass AND d.objid = n.oid"
        " AND d.deptype = 'e') ORDER BY nspname::text COLLATE \"C\"",
        [wanted.regex, JOURNAL, wanted.literal == "public"],
    ).fetchall()
    return [name for (name,) in rows]


# where migrate keeps what it has done
JOURNAL = "pgbillion_journal"

"""What every catalogue holds, to be compared before something was made and after it was dropped again."""

from __future__ import annotations

from collections import Counter

from psycopg import sql

from pgbillion.common.connection import Connection

# Columns that others write to at any time: relation sizes, frozen ids, and the like.
_VOLATILE = {
    "pg_class": ("relpages", "reltuples", "relallvisible", "relallfrozen", "relfrozenxid", "relminmxid"),
    "pg_database": ("datfrozenxid", "datminmxid"),
}
# Written by ANALYZE alone, or large and not ours.
_LEFT_OUT = ("pg_statistic", "pg_statistic_ext_data", "pg_largeobject")


def contents(conn: Connection) -> dict[str, Counter[str]]:
    """All rows of all catalogues, as text, by catalogue; shared ones as far as they are of this database."""
    found: dict[str, Counter[str]] = {}
    # some types write names with their schemas or without, as it lets them
    (path,) = conn.execute("SELECT current_setting('search_path')").fetchone() or ("",)
    conn.execute("SET search_path = pg_catalog")
    catalogs = conn.execute(
        "SELECT relname FROM pg_class WHERE relnamespace = 'pg_catalog'::regnamespace AND relkind = 'r' ORDER BY 1"
    ).fetchall()
    for (name,) in catalogs:
        if name in _LEFT_OUT:
            continue
        left_out = sql.Literal(list(_VOLATILE.get(name, ())))
        mine = sql.SQL("")
        if name == "pg_shdepend":
            mine = sql.SQL("WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database())")
        elif name == "pg_namespace":
            # a session's first temporary table makes a schema that stays for its successors
            mine = sql.SQL("WHERE nspname !~ '^pg_(toast_)?temp_'")
        query = sql.SQL("SELECT (to_jsonb(c) - {}::text[])::text FROM {} c {}").format(
            left_out, sql.Identifier("pg_catalog", name), mine
        )
        found[name] = Counter(row for (row,) in conn.execute(query))
    conn.execute("SELECT set_config('search_path', %s, false)", [path])
    return found


def difference(before: dict[str, Counter[str]], after: dict[str, Counter[str]]) -> list[str]:
    """What came and what went, one line each."""
    lines = []
    for name in before:
        lines += [f"{name}: new {row}" for row in (after[name] - before[name]).elements()]
        lines += [f"{name}: gone {row}" for row in (before[name] - after[name]).elements()]
    return lines

"""What is tested: pgbillion_tables.create_tables()."""

from __future__ import annotations

from collections.abc import Sequence

from pgbillion.common.connection import Connection

DEFAULT_FORMAT = "_%08x"


def create_tables(
    conn: Connection,
    template: str,
    name_format: str | None = None,
    first: int = 1,
    count: int = 1,
    *,
    tablespaces: Sequence[str] | None = None,
    schema: str | None = None,
    allow_unobserved: bool = False,
) -> int:
    """Call the function; the schema is a raw name, the template is SQL."""
    row = conn.execute(
        "SELECT pgbillion_tables.create_tables(%s::regclass, %s, %s, %s, tablespaces => %s::name[],"
        " schema => quote_ident(%s)::regnamespace, allow_unobserved => %s)",
        [
            template,
            name_format,
            first,
            count,
            None if tablespaces is None else list(tablespaces),
            schema,
            allow_unobserved,
        ],
    ).fetchone()
    assert row
    return int(row[0])


def names(name_format: str | None, first: int, count: int) -> list[str]:
    """The names of the tables of a call, in order.  Python's formatting is printf's."""
    return [(name_format or DEFAULT_FORMAT) % number for number in range(first, first + count)]

"""What generated queries give, with the fewest messages to the server."""

from __future__ import annotations

import psycopg

from pgbillion.common.connection import Connection
from pgbillion.rows import answers


def explained_each(queries: int) -> int:
    """Each which of that many queries has its plan looked at: a fifth of them, or more if there are few."""
    return max(1, min(5, queries // 60))


def outcome(conn: Connection, query: str, settings: str = "") -> answers.Answer | str:
    """A query's answer, or its error, with these SETs before it; what it changes is rolled back.

    All of it is sent at once: where the machine is busy, each message costs as much as a short query.
    """
    try:
        sent = conn.execute(f"SAVEPOINT before; {settings} {query}; ROLLBACK TO before; RELEASE before".encode())
    except psycopg.Error as error:
        conn.execute("ROLLBACK TO before; RELEASE before")
        return f"{error.sqlstate} {error.diag.message_primary}"
    while sent.description is None:
        assert sent.nextset()
    return answers.answer(sent)


def agreed(core: answers.Answer | str, ours: answers.Answer | str, query: str) -> answers.Answer | str:
    """What PostgreSQL's plan gives, with which ours agrees."""
    if isinstance(core, str) or isinstance(ours, str):
        assert core == ours, query
    else:
        assert answers.difference(core, ours) is None, query
    return core

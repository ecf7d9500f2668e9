"""What generated queries give, however they are read, with the fewest messages to the server."""

from __future__ import annotations

import itertools
import os
import random
import re
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import psycopg

from pgbillion.common.connection import Connection
from pgbillion.rows import answers
from pgbillion.server.postgres import Cluster

from . import servers, sessions

# how a query's rows may be read; most queries are run as they are
WHOLE, CURSOR, SCROLLED, HELD, CANCELED, AGAIN = "whole", "cursor", "scrolled", "held", "canceled", "again"
WAYS = (*[WHOLE] * 10, CURSOR, CURSOR, SCROLLED, HELD, CANCELED, AGAIN, AGAIN)
QUERY_CANCELED = "57014"
# what a server says of a resource that its owner has forgotten, or of its own end
BAD_LINES = re.compile(r"PANIC|TRAP:|terminated by signal|leak|still referenced|problem in alloc set|lost track")
_SCRIPTS = {
    # the second one is left before its end
    CURSOR: (
        "DECLARE c NO SCROLL CURSOR FOR {query}; DECLARE d NO SCROLL CURSOR FOR {query}; FETCH 1 FROM c;"
        " FETCH {some} FROM d; FETCH {some} FROM c; CLOSE d; FETCH ALL FROM c; CLOSE c"
    ),
    SCROLLED: (
        "DECLARE c SCROLL CURSOR FOR {query}; FETCH {some} FROM c; MOVE ABSOLUTE 0 IN c; FETCH ALL FROM c;"
        " FETCH BACKWARD ALL FROM c; CLOSE c"
    ),
    HELD: "DECLARE c CURSOR WITH HOLD FOR {query}; FETCH {some} FROM c; COMMIT; FETCH ALL FROM c; CLOSE c",
    # n changes, also where the query does not refer to it
    AGAIN: (
        "SELECT again.n, l.* FROM generate_series(1, 3) again(n), LATERAL (SELECT * FROM ({query}) q"
        " OFFSET again.n - again.n) l"
    ),
}

Outcome = answers.Answer | str


def explained_each(queries: int) -> int:
    """Each which of that many queries has its plan looked at: a fifth of them, or more if there are few."""
    return max(1, min(5, queries // 60))


def outcome(conn: Connection, query: str, settings: str = "", way: str = WHOLE) -> Outcome:
    """A query's answer, or its error, with these SETs before it, in a transaction; what it changes is rolled back.

    All of it is sent at once: where the machine is busy, each message costs as much as a short query. A held cursor
    commits what the transaction did before.
    """
    some = 1 + len(query) % 60
    text = _SCRIPTS.get(way, "{query}").replace("{some}", str(some)).replace("{query}", query)
    if way == HELD:
        before, after = f"COMMIT; BEGIN; {re.sub(r'SET (?!LOCAL)', 'SET LOCAL ', settings)}", "BEGIN"
    else:
        before, after = f"SAVEPOINT before; {settings}", "ROLLBACK TO before; RELEASE before"
    try:
        sent = conn.execute(f"{before} {text}; {after}".encode())
    except psycopg.Error as error:
        if conn.closed:
            raise AssertionError(f"{error}: {settings} {text}") from error
        conn.execute("ROLLBACK; BEGIN" if way == HELD else "ROLLBACK TO before; RELEASE before")
        return f"{error.sqlstate} {error.diag.message_primary}"
    return _whole(list(_answers(sent)), way, some, query)


def _answers(sent: psycopg.Cursor[tuple[object, ...]]) -> Iterator[answers.Answer]:
    while True:
        if sent.description is not None:
            yield answers.answer(sent)
        if not sent.nextset():
            return


def _whole(parts: list[answers.Answer], way: str, some: int, query: str) -> answers.Answer:
    """All rows of a query, of which parts have been read."""
    if way == SCROLLED:
        first, whole, backward = parts
        assert first.rows == whole.rows[:some], query
        assert backward.rows == whole.rows[::-1], query
        return whole
    left = parts.pop(1) if way == CURSOR else None
    whole = replace(parts[0], rows=[row for part in parts for row in part.rows])
    if left is not None:
        assert len(left.rows) == min(some, len(whole.rows)), query
        assert not Counter(left.rows) - Counter(whole.rows), query
    return whole


def agreed(core: Outcome, ours: Outcome, query: str, *, ordered: bool = False) -> Outcome:
    """What PostgreSQL's plan gives, with which ours agrees."""
    if ordered or isinstance(core, str) or isinstance(ours, str):
        # of long answers, the first difference says enough
        assert core == ours, f"{query}\n{_first_difference(core, ours)}"
    else:
        assert answers.difference(core, ours) is None, query
    return core


def _first_difference(core: Outcome, ours: Outcome) -> str:
    if isinstance(core, str) or isinstance(ours, str):
        return ""
    pairs = itertools.zip_longest(core.rows, ours.rows)
    return next((f"row {place}: {pair}" for place, pair in enumerate(pairs) if pair[0] != pair[1]), "columns")


def both(conn: Connection, query: str, off: str, on: str, way: str, where: str, *, ordered: bool = False) -> Outcome:
    """What a query gives with the first SETs, with which the answer with the second ones agrees."""
    where = f"{where}, {way}: {on} {query}"
    if way != CANCELED:
        return agreed(outcome(conn, query, off, way), outcome(conn, query, on, way), where, ordered=ordered)
    core = outcome(conn, query, off)
    start = time.perf_counter()
    agreed(core, outcome(conn, query, on), where, ordered=ordered)
    seconds = time.perf_counter() - start
    for _ in range(2):
        stopped = canceled(conn, query, on, random.uniform(0, seconds))
        if not (isinstance(stopped, str) and stopped.startswith(QUERY_CANCELED)):
            agreed(core, stopped, where, ordered=ordered)
    return agreed(core, outcome(conn, query, on), where, ordered=ordered)


def canceled(conn: Connection, query: str, settings: str, delay: float) -> Outcome:
    """What a query gives, which is canceled after that number of seconds unless it has ended."""
    conn.execute("SAVEPOINT undisturbed")
    # what pg_cancel_backend() does, without the time that it takes
    timer = threading.Timer(delay, os.kill, (sessions.pid(conn), signal.SIGINT))
    timer.start()
    try:
        return outcome(conn, query, settings)
    except (psycopg.errors.QueryCanceled, psycopg.errors.InvalidSavepointSpecification):
        # before the first statement, or after the last one
        return QUERY_CANCELED
    finally:
        timer.join()
        # the signal may come to any statement
        while True:
            try:
                conn.execute("ROLLBACK TO undisturbed")
                break
            except psycopg.errors.QueryCanceled:
                continue
        conn.execute("RELEASE undisturbed")


@contextmanager
def leaving_nothing(cluster: Cluster, database: str) -> Iterator[None]:
    """What is run leaves no file, and nothing in the server's log that tells of something forgotten."""
    log_before = len(cluster.log.read_text(encoding="utf-8", errors="replace"))
    yield
    with cluster.connect(database) as conn:
        assert servers.one(conn, "SELECT count(*) FROM pg_ls_tmpdir()") == 0
    log = cluster.log.read_text(encoding="utf-8", errors="replace")[log_before:]
    assert [line for line in log.splitlines() if BAD_LINES.search(line)] == []

"""COPY of many small tables by one message, which saves what psycopg and the network take for each of them.

Each command ends before the next one begins, and none is run after one that fails.
"""

from __future__ import annotations

import select
from collections.abc import Callable, Iterable, Sequence

import psycopg
from psycopg import pq

from pgbillion.common.connection import Connection

Block = bytes | bytearray | memoryview

_WRITTEN_AT = 1 << 18


def out_of(conn: Connection, commands: Sequence[str], write: Callable[[bytes], object]) -> list[tuple[int, int]]:
    """Run commands COPY … TO STDOUT, and write what they send; return the rows and bytes of each."""
    pgconn = conn.pgconn
    found = []
    sent = 0

    def take(result: pq.abc.PGresult) -> None:
        nonlocal sent
        if result.status != pq.ExecStatus.COPY_OUT:
            found.append((result.command_tuples or 0, sent))
            return
        blocks: list[Block] = []
        sent = size = got = 0
        while got >= 0:
            got, data = pgconn.get_copy_data(1)
            if got > 0:
                blocks.append(data)
                size += got
            elif got == 0:
                _wait(pgconn, select.POLLIN)
                pgconn.consume_input()
            if size > _WRITTEN_AT or (blocks and got < 0):
                write(b"".join(blocks))
                sent += size
                blocks, size = [], 0

    _run(conn, commands, take)
    return found


def into(conn: Connection, commands: Sequence[str], blocks: Iterable[Iterable[Block]]) -> list[int]:
    """Run commands COPY … FROM STDIN, each with its blocks; return how many rows each has taken."""
    pgconn = conn.pgconn
    found = []
    given = iter(blocks)

    def give(result: pq.abc.PGresult) -> None:
        if result.status != pq.ExecStatus.COPY_IN:
            found.append(result.command_tuples or 0)
            return
        for block in next(given):
            while pgconn.put_copy_data(block) == 0:
                _flush(pgconn)
        while pgconn.put_copy_end() == 0:
            _flush(pgconn)

    _run(conn, commands, give)
    return found


def _run(conn: Connection, commands: Sequence[str], each: Callable[[pq.abc.PGresult], None]) -> None:
    """Send commands, and do something with each result up to the first that fails, which is raised.

    Whatever else fails closes the connection: what is still to come is anybody's guess.
    """
    pgconn = conn.pgconn
    failed = None
    try:
        pgconn.send_query("; ".join(commands).encode(conn.info.encoding))
        while True:
            _flush(pgconn)
            while pgconn.is_busy():
                _wait(pgconn, select.POLLIN)
                pgconn.consume_input()
            result = pgconn.get_result()
            if result is None:
                break
            if result.status == pq.ExecStatus.FATAL_ERROR:
                failed = result
            else:
                each(result)
    except BaseException:
        conn.close()
        raise
    if failed is not None:
        raise psycopg.errors.error_from_result(failed, conn.info.encoding)


def _flush(pgconn: pq.abc.PGconn) -> None:
    """Send what is to be sent, and take what comes meanwhile, so that both sides cannot wait for each other."""
    while pgconn.flush() > 0:
        _wait(pgconn, select.POLLIN | select.POLLOUT)
        pgconn.consume_input()


def _wait(pgconn: pq.abc.PGconn, events: int) -> None:
    # other threads go on meanwhile
    waiting = select.poll()
    waiting.register(pgconn.socket, events)
    waiting.poll()

"""COPY of several tables by one message."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from harness import servers
from pgbillion.common import copying
from pgbillion.common.connection import Connection
from pgbillion.server.postgres import Cluster

LONG = "x" * 100_000


@pytest.fixture
def conn(cluster: Cluster) -> Iterator[Connection]:
    with servers.new_database(cluster, "copying"), cluster.connect("copying") as session:
        session.execute("CREATE TABLE a (i integer, t text); CREATE TABLE b (i integer); CREATE TABLE c (i integer)")
        yield session


def test_rows_of_several_tables(conn: Connection) -> None:
    """Some without rows, and one with more than what is written at once."""
    blocks = [[f"{n}\t{LONG}\n".encode() for n in range(40)], [], [b"7\n8", b"\n9\n"]]
    into = [f"COPY {table} FROM STDIN" for table in "abc"]
    assert copying.into(conn, into, blocks) == [40, 0, 3]
    written: list[bytes] = []
    found = copying.out_of(conn, [f"COPY {table} TO STDOUT" for table in "abc"], written.append)
    sizes = [sum(map(len, block)) for block in blocks]
    assert found == list(zip([40, 0, 3], sizes, strict=True))
    assert b"".join(written) == b"".join(b"".join(block) for block in blocks)
    assert conn.execute("SELECT count(*) FROM a").fetchall() == [(40,)]


def test_the_first_error_ends_all(conn: Connection) -> None:
    """And the session goes on, for rows that are refused as for a command that fails."""
    commands = ["COPY a FROM STDIN", "COPY b FROM STDIN", "COPY c FROM STDIN"]
    with pytest.raises(psycopg.errors.InvalidTextRepresentation, match="seven"):
        copying.into(conn, commands, [[b"1\tx\n"], [b"seven\n"], [b"1\n"]])
    assert conn.execute("SELECT count(*) FROM a").fetchall() == [(0,)]
    with pytest.raises(psycopg.errors.UndefinedTable):
        copying.out_of(conn, ["COPY a TO STDOUT", "COPY nowhere TO STDOUT", "COPY b TO STDOUT"], bytes)
    assert conn.execute("SELECT 1").fetchall() == [(1,)]


def test_what_fails_here_ends_the_session(conn: Connection) -> None:
    """The server is not left in the middle of a COPY, of which it would make what comes next a part."""
    conn.execute("INSERT INTO b SELECT generate_series(1, 100000)")

    def full(block: bytes) -> None:
        raise OSError("no space left")

    with pytest.raises(OSError, match="no space"):
        copying.out_of(conn, ["COPY b TO STDOUT"], full)
    assert conn.closed

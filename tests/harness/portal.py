"""A portal that is bound, and executed after other commands of its transaction or in portions, as some drivers do."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path

import psycopg

from .fake_shard import exactly, message

Row = tuple[str | None, ...]


def _text(value: str) -> bytes:
    return value.encode() + b"\0"


def _messages(server: socket.socket) -> Iterator[tuple[bytes, bytes]]:
    """What the server says until it waits for the next query."""
    kind = b""
    while kind != b"Z":
        head = exactly(server, 5)
        kind, body = head[:1], exactly(server, struct.unpack("!i", head[1:])[0] - 4)
        assert kind != b"E", body
        yield kind, body


def _row(body: bytes) -> Row:
    (columns,) = struct.unpack_from("!h", body)
    values: list[str | None] = []
    offset = 2
    for _ in range(columns):
        (size,) = struct.unpack_from("!i", body, offset)
        offset += 4
        values.append(None if size < 0 else body[offset : offset + size].decode())
        offset += max(size, 0)
    return tuple(values)


def executed_later(
    conn: psycopg.Connection[tuple[object, ...]],
    before: Sequence[str],
    query: str,
    between: Sequence[str] = (),
    portion: int = 0,
) -> list[Row]:
    """The query's rows as texts, so many for each Execute or all, in a session of its own on the server of this one.

    Commands go before it, and between Bind, when its plan begins, and Execute.
    """
    info = conn.info
    with socket.socket(socket.AF_UNIX) as server:
        server.connect(str(Path(info.host) / f".s.PGSQL.{info.port}"))
        parameters = "".join(f"{name}\0{value}\0" for name, value in (("user", info.user), ("database", info.dbname)))
        packet = struct.pack("!i", 3 << 16) + _text(parameters)
        server.sendall(struct.pack("!i", len(packet) + 4) + packet)
        list(_messages(server))
        parse = message(b"P", _text("") + _text(query) + struct.pack("!h", 0))
        bind = message(b"B", _text("later") + _text("") + struct.pack("!hhh", 0, 0, 0))
        sync = message(b"S")
        asked = [message(b"Q", _text(command)) for command in ("BEGIN", *before)]
        asked += [parse + bind + sync, *(message(b"Q", _text(command)) for command in between)]
        for request in asked:
            server.sendall(request)
            list(_messages(server))
        rows: list[Row] = []
        suspended = True
        while suspended:
            server.sendall(message(b"E", _text("later") + struct.pack("!i", portion)) + sync)
            answer = list(_messages(server))
            rows += [_row(body) for kind, body in answer if kind == b"D"]
            suspended = any(kind == b"s" for kind, _ in answer)
        server.sendall(message(b"X"))
    return rows

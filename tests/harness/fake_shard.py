"""A server that speaks PostgreSQL's protocol and answers with what the test says: the worst of shards."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

Answer = bytes
"""Messages that answer one Execute."""


def message(kind: bytes, body: bytes = b"") -> bytes:
    return kind + struct.pack("!i", len(body) + 4) + body


def columns(types: Sequence[int], binary: bool = True) -> bytes:
    """RowDescription of columns of these types."""
    parts = [struct.pack("!h", len(types))]
    parts += [b"c\0" + struct.pack("!ihihih", 0, 0, oid, -1, -1, int(binary)) for oid in types]
    return message(b"T", b"".join(parts))


def row(values: Sequence[bytes | None]) -> bytes:
    parts = [struct.pack("!h", len(values))]
    parts += [struct.pack("!i", -1) if value is None else struct.pack("!i", len(value)) + value for value in values]
    return message(b"D", b"".join(parts))


def complete(tag: bytes = b"SELECT 1") -> bytes:
    return message(b"C", tag + b"\0")


def rows(types: Sequence[int], *values: Sequence[bytes | None], binary: bool = True) -> Answer:
    return columns(types, binary) + b"".join(map(row, values)) + complete()


def error(**fields: bytes) -> Answer:
    """An ErrorResponse; the names of its fields are those of the protocol, as in C=b"57P01"."""
    return message(b"E", b"".join(name.encode() + text + b"\0" for name, text in fields.items()) + b"\0")


@dataclass
class FakeShard:
    """Where it listens, what it says, and what it was asked; of a cursor, the query as FETCH and its text."""

    port: int
    answers: Callable[[str], Answer | None]
    major: int
    asked: list[str] = field(default_factory=list)
    declared: str = ""
    in_transaction: bool = False

    def answer(self, query: str) -> Answer:
        """Of the test, or as an obedient shard would answer what is sent before a query."""
        if query.startswith("DECLARE"):
            self.declared = query.split("FOR\n")[1]
            return message(b"n") + complete(b"DECLARE CURSOR")
        if query.startswith("FETCH"):
            query = f"FETCH {self.declared}"
        if query.startswith(("START", "BEGIN", "COMMIT", "ABORT", "ROLLBACK")):
            self.in_transaction = query.startswith(("START", "BEGIN"))
        self.asked.append(query)
        chosen = self.answers(query)
        if chosen is not None:
            return chosen
        if query.startswith("SELECT ('pgbillion: '"):
            return rows([23], [None])
        if query.startswith("FETCH"):
            return rows([25], [None], binary=False)
        if query.startswith("SELECT"):
            return rows([25], [b"x"])
        return message(b"n") + complete(query.split()[0].encode())


def exactly(source: socket.socket, size: int) -> bytes:
    """So many bytes of what comes; EOFError where fewer do."""
    data = b""
    while len(data) < size:
        more = source.recv(size - len(data))
        if not more:
            raise EOFError
        data += more
    return data


def _begin(client: socket.socket, shard: FakeShard) -> bool:
    """Let a client in; false for one that only wants to cancel."""
    while True:
        (size,) = struct.unpack("!i", exactly(client, 4))
        (code,) = struct.unpack("!i", exactly(client, size - 4)[:4])
        if code == 80877102:  # cancel
            return False
        if code >> 16 == 3:
            break
        client.sendall(b"N")  # neither TLS nor GSS
    settings = {
        b"server_version": str(shard.major).encode() + b".0",
        b"server_encoding": b"UTF8",
        b"client_encoding": b"UTF8",
        b"standard_conforming_strings": b"on",
    }
    hello = message(b"R", struct.pack("!i", 0))
    hello += b"".join(message(b"S", name + b"\0" + value + b"\0") for name, value in settings.items())
    client.sendall(hello + message(b"K", struct.pack("!ii", 1, 1)) + message(b"Z", b"I"))
    return True


def ready(shard: FakeShard) -> bytes:
    return message(b"Z", b"T" if shard.in_transaction else b"I")


def _serve(client: socket.socket, shard: FakeShard) -> None:
    query = ""
    failed = False
    with client, suppress(EOFError, OSError):
        if not _begin(client, shard):
            return
        while True:
            kind = exactly(client, 1)
            (size,) = struct.unpack("!i", exactly(client, 4))
            body = exactly(client, size - 4)
            if kind == b"X":
                return
            if kind == b"S":
                failed = False
                client.sendall(ready(shard))
            elif kind == b"Q":
                # several commands in one are several settings
                client.sendall(shard.answer(body[:-1].decode()).removeprefix(message(b"n")) + ready(shard))
            elif failed:
                continue
            elif kind == b"P":
                query = body.split(b"\0")[1].decode()
                client.sendall(message(b"1"))
            elif kind == b"B":
                client.sendall(message(b"2"))
            elif kind == b"E":
                answer = shard.answer(query)
                failed = answer.startswith(b"E")
                client.sendall(answer)


@contextmanager
def fake_shard(major: int, answers: Callable[[str], Answer | None]) -> Iterator[FakeShard]:
    """Listens while it is needed; ``answers`` returns None to what an obedient shard may answer."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        shard = FakeShard(listener.getsockname()[1], answers, major)
        clients: list[socket.socket] = []
        threads: list[threading.Thread] = []

        def accept() -> None:
            with suppress(OSError):
                while True:
                    client, _ = listener.accept()
                    clients.append(client)
                    threads.append(threading.Thread(target=_serve, args=(client, shard)))
                    threads[-1].start()

        acceptor = threading.Thread(target=accept)
        acceptor.start()
        try:
            yield shard
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            acceptor.join()
            for client in clients:
                with suppress(OSError):
                    client.shutdown(socket.SHUT_RDWR)
            for thread in threads:
                thread.join()

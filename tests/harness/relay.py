"""Between a coordinator and a shard: passes on what they say, and ends or stops that after so many messages."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from .fake_shard import exactly

PORT = 5432


@dataclass
class Relay:
    """Messages of the shard, of all connections, are counted; those of the coordinator pass."""

    folder: Path
    target: Path
    # the last message that passes; 0 is all of them
    last: int = 0
    # what happens instead of the next one: the connection is closed, or nothing more is heard
    stalls: bool = False
    passed: int = 0
    released: threading.Event = field(default_factory=threading.Event)

    def begin(self, last: int = 0, *, stalls: bool = False) -> None:
        """Count from here."""
        self.last, self.stalls, self.passed = last, stalls, 0
        self.released = threading.Event()

    def end(self) -> None:
        """Let everything pass again, also what was held up."""
        self.last = 0
        self.released.set()

    def answers(self, client: socket.socket, shard: socket.socket) -> None:
        """Pass on the shard's messages."""
        with suppress(OSError, EOFError):
            while True:
                head = exactly(shard, 5)
                body = exactly(shard, struct.unpack("!i", head[1:])[0] - 4)
                if self.last and self.passed >= self.last:
                    if not self.stalls:
                        break
                    self.released.wait(300)
                self.passed += 1
                client.sendall(head + body)
        _close(client, shard)


def _close(*sockets: socket.socket) -> None:
    for one in sockets:
        with suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)


def _questions(client: socket.socket, shard: socket.socket) -> None:
    """Pass on whatever the coordinator says."""
    with suppress(OSError):
        while data := client.recv(65536):
            shard.sendall(data)
    _close(client, shard)


@contextmanager
def relay(folder: Path, target: Path) -> Iterator[Relay]:
    """A server's socket in a folder that leads to the socket of the target."""
    relayed = Relay(folder, target)
    path = folder / f".s.PGSQL.{PORT}"
    threads: list[threading.Thread] = []
    sockets: list[socket.socket] = []
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        path.chmod(0o777)
        listener.listen()

        def accept() -> None:
            with suppress(OSError):
                while True:
                    client, _ = listener.accept()
                    shard = socket.socket(socket.AF_UNIX)
                    shard.connect(str(target))
                    sockets.extend((client, shard))
                    for work in (relayed.answers, _questions):
                        threads.append(threading.Thread(target=work, args=(client, shard), daemon=True))
                        threads[-1].start()

        acceptor = threading.Thread(target=accept, daemon=True)
        acceptor.start()
        try:
            yield relayed
        finally:
            relayed.end()
            listener.shutdown(socket.SHUT_RDWR)
            acceptor.join()
            _close(*sockets)
            for thread in threads:
                thread.join()
            for one in sockets:
                one.close()

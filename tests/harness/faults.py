"""A server whose calls of the C library fail when a test says so: of memory, disk, files; and whose clock is set."""

from __future__ import annotations

import mmap
import os
import struct
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from unittest import mock

from pgbillion.common.connection import Connection
from pgbillion.server.postgres import Cluster, Installation

from . import servers, sessions

SOURCE = Path(__file__).parents[1] / "tables/faults" / "faults.c"
# process, kind, countdown, calls, failed, workers; behind them the clock's shift
LAYOUT = struct.Struct("6l")
PROCESS = struct.Struct("l")
SHIFT = struct.Struct("l")


class Kind(IntEnum):
    """Which calls fail."""

    MEMORY = 0
    SPACE = 1
    FILES = 2


@dataclass
class Faults:
    """What the processes of one server look at before each call."""

    memory: mmap.mmap

    @contextmanager
    def counting(self, conn: Connection, kind: Kind, countdown: int, *, workers: bool = False) -> Iterator[None]:
        """Have the call of that number fail, the session's or one of its parallel workers'; none with 0."""
        # the process last: it begins to count at once
        self.memory[PROCESS.size : LAYOUT.size] = LAYOUT.pack(0, kind, countdown, 0, 0, workers)[PROCESS.size :]
        self.memory[: PROCESS.size] = PROCESS.pack(sessions.pid(conn))
        try:
            yield
        finally:
            self.memory[: PROCESS.size] = PROCESS.pack(0)

    def set_clock(self, seconds: int) -> None:
        """Have the clock of the day be wrong by so much, for all processes of the server."""
        self.memory[LAYOUT.size : LAYOUT.size + SHIFT.size] = SHIFT.pack(seconds)

    @property
    def calls(self) -> int:
        """How many calls were counted."""
        return int(LAYOUT.unpack(self.memory[: LAYOUT.size])[3])

    @property
    def failed(self) -> bool:
        """Whether one of them was failed."""
        return bool(LAYOUT.unpack(self.memory[: LAYOUT.size])[4])


@contextmanager
def faulty_cluster(where: Installation, settings: Mapping[str, str]) -> Iterator[tuple[Cluster, Faults]]:
    """A running cluster with the extensions in template1, and what makes its calls fail."""
    with servers.temporary_folder() as folder:
        library, file = folder / "faults.so", folder / "faults"
        options = ("-O1", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror")
        subprocess.run(["cc", *options, "-o", library, SOURCE, "-ldl"], check=True)
        file.write_bytes(bytes(mmap.PAGESIZE))
        file.chmod(0o666)
        with file.open("r+b") as opened, mmap.mmap(opened.fileno(), mmap.PAGESIZE) as memory:
            preloaded = {"LD_PRELOAD": str(library), "TEST_FAULTS": str(file)}
            cluster = Cluster(where, folder / "data", folder / "s", 5432)
            cluster.init({**servers.SETTINGS, **settings})
            with mock.patch.dict(os.environ, preloaded):
                cluster.start()
            try:
                with cluster.connect("template1") as conn:
                    servers.install_extensions(conn)
                yield cluster, Faults(memory)
            finally:
                cluster.destroy()

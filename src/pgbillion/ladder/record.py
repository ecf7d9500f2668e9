"""What is known of a ladder: where its server is, which tables it gets, and how far it came.

Everything is in the directory `ladder` of the state directory:

===================  ==================================================================================
``ladder.json``      the plan, and what a later command has to know; replaced as a whole
``rungs/N``          the run that made the tables up to number N, and ``rung.json``, which is written when all is done
``operations.json``  what was measured on top of the tables
``checks.json``      what was found when the last rung was verified
``disk.img, disk``   the file system, and where it is mounted
``run``              the server's socket
===================  ==================================================================================
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pgbillion.common import invocation
from pgbillion.common.errors import UserError
from pgbillion.ladder.disk import Disk, Kind
from pgbillion.server.postgres import Cluster, Installation, make_folder
from pgbillion.tables.plan import DEFAULT_COLUMNS, Storage

FOLDER = "ladder"
# of a directory of the user's, so that nothing else in it is ever touched
_INSIDE = "pgbillion-ladder"


@dataclass(frozen=True)
class Place:
    """Where the server keeps its data: on a file system of its own, in a directory of the user's, or beside the rest.

    ``size`` is that of the file, in bytes.
    """

    filesystem: Kind | None = None
    directory: Path | None = None
    size: int | None = None


@dataclass
class Ladder:
    """A ladder on disk. ``rungs`` are numbers of tables, ascending; ``baseline`` are bytes in use without any."""

    home: Path
    place: Place
    rungs: list[int]
    columns: str = DEFAULT_COLUMNS
    storage: Storage = Storage.LAZY
    tablespaces: int = 0
    workers: int = 1
    durable: bool = False
    begun: bool = False  # the estimate was made, and what was asked for is settled
    bytes_per_table: float = 0.0  # of disk, as estimated
    wal_bytes: int = 0  # max_wal_size
    installation: Installation | None = None
    baseline: int = 0
    boot: str | None = None  # the kernel's identifier when the server was started last
    kept: bool = False  # started by the user, who wants it running
    server: dict[str, Any] = field(default_factory=dict)  # see describe.server

    @property
    def disk(self) -> Disk | None:
        """The file system of its own, if it has one."""
        if self.place.filesystem is None:
            return None
        return Disk(self.place.filesystem, self.home / "disk.img", self.home / "disk")

    @property
    def base(self) -> Path:
        """The directory that holds the data directory."""
        if self.place.directory is not None:
            return self.place.directory / _INSIDE
        return self.home / "disk"

    @property
    def cluster(self) -> Cluster:
        """The server."""
        assert self.installation is not None
        return Cluster(self.installation, data=self.base / "data", socket_dir=self.home / "run")

    @property
    def tablespaces_folder(self) -> Path:
        """The directory in which tablespaces are made: on the same file system."""
        return self.base / "tablespaces"

    @property
    def to(self) -> int:
        """The number of tables at the top."""
        return self.rungs[-1]

    def folder(self, rung: int) -> Path:
        """Return the directory of a rung's run; names sort by number."""
        return self.home / "rungs" / f"{rung:012d}"

    def save(self) -> None:
        """Write it."""
        values = {name: value for name, value in asdict(self).items() if name not in ("home", "place", "installation")}
        values |= {
            "storage": self.storage.value,
            "filesystem": self.place.filesystem.value if self.place.filesystem else None,
            "directory": str(self.place.directory) if self.place.directory else None,
            "size": self.place.size,
            "installation": self.installation.to_json() if self.installation else None,
        }
        write(self.home / "ladder.json", values)

    def results(self) -> list[dict[str, Any]]:
        """Return what was measured of each rung that is complete, in order."""
        found = (read(self.folder(rung) / "rung.json") for rung in self.rungs)
        return [values for values in found if values is not None]

    def operations(self) -> list[dict[str, Any]]:
        """Return what was measured on top of the tables."""
        return list((read(self.home / "operations.json") or {}).get("operations", []))

    def checks(self) -> list[dict[str, Any]]:
        """Return what was found when the last rung was verified."""
        return list((read(self.home / "checks.json") or {}).get("checks", []))


def home(state: Path) -> Path:
    """Return the directory of the ladder in a state directory."""
    return state / FOLDER


def find(state: Path) -> Ladder | None:
    """Return the ladder of a state directory, if there is one."""
    folder = home(state)
    values = read(folder / "ladder.json")
    if values is None:
        return None
    known = values.pop("installation")
    filesystem, directory = values.pop("filesystem"), values.pop("directory")
    place = Place(Kind(filesystem) if filesystem else None, Path(directory) if directory else None, values.pop("size"))
    storage = Storage(values.pop("storage"))
    installation = Installation.from_json(known) if known else None
    return Ladder(home=folder, place=place, storage=storage, installation=installation, **values)


def existing(state: Path) -> Ladder:
    """Return the ladder of a state directory. Raises UserError when there is none."""
    found = find(state)
    if found is None:
        raise UserError(f"there is no ladder in {home(state)}", f"begin one: {invocation.command('ladder', 'run')}")
    return found


@contextlib.contextmanager
def alone(state: Path) -> Iterator[None]:
    """See that no other command works on the ladder meanwhile; the kernel lets go when we die. Raises UserError."""
    folder = home(state)
    made = not folder.exists()
    make_folder(folder)
    with (folder / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(
                f"another command is at work on the ladder in {folder}", "wait for it to end, or end it"
            ) from None
        try:
            yield
        finally:
            if made and find(state) is None:
                with contextlib.suppress(OSError):
                    (folder / ".lock").unlink()
                    folder.rmdir()


def read(path: Path) -> dict[str, Any] | None:
    """Return what a file holds, None when there is none. Raises UserError when it cannot be read."""
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except ValueError as error:
        raise UserError(f"{path} cannot be read: {error}") from error
    return found


def write(path: Path, values: dict[str, Any]) -> None:
    """Replace a file as a whole."""
    new = path.with_name(f".{path.name}.{os.getpid()}")
    with new.open("w", encoding="utf-8") as file:
        json.dump(values, file, indent=1)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)

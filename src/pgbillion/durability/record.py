"""What a window changed and what was there before: the one thing that has to survive whatever crashes.

It is kept in the server itself, as the value of a setting of our own in postgresql.auto.conf. There it survives the
tool and the server, lives and dies with the data it is about, can be read without the server, and every session sees
it. It is written before anything is changed and removed after everything is put back. A copy in the state folder adds
how to reach and start the server, for the times it is down.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import secrets
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pgbillion.common.errors import UserError
from pgbillion.durability.profiles import Profile

# Not below `pgbillion.`: the extension may claim that prefix, and would remove a name it does not know.
MARK = "pgbillion_durability.window"
AUTO_CONF = "postgresql.auto.conf"
_VERSION = 1
_LINE = re.compile(r"^\s*([A-Za-z_][\w.]*)\s*(?:=\s*|\s)('(?:[^'\\\n]|\\.|'')*'|[^\s'#]+)\s*(?:#.*)?$")


@dataclass(frozen=True)
class Wal:
    """Where the write-ahead log went: to ``folder``, from a folder, or from where the link pg_wal pointed to.

    ``made``: the folder was made for it. ``volatile``: it does not outlive the machine.
    """

    folder: str
    link: str | None = None
    made: bool = False
    volatile: bool = False


@dataclass(frozen=True)
class Record:
    """One window.

    ``former`` are the lines of postgresql.auto.conf before (None: no line), ``values`` what the server worked with,
    ``wanted`` what it was told. ``machine`` says that a failure of the machine can damage the data, ``crash`` that one
    of the server alone can. ``boot`` and ``lives`` tell whether there was one: see witness.py. ``distrust`` is set,
    and nothing else counts any more, once a window ended with data that cannot be trusted; ``doubtful`` tells that they
    may well be sound.
    """

    id: str
    profile: Profile
    since: str
    boot: str | None
    lives: str
    machine: bool
    crash: bool
    former: dict[str, str | None] = field(default_factory=dict)
    values: dict[str, str] = field(default_factory=dict)
    wanted: dict[str, str] = field(default_factory=dict)
    wal: Wal | None = None
    restart: bool = False
    distrust: str | None = None
    doubtful: bool = False
    version: int = _VERSION

    def dumps(self) -> str:
        """Return it as one line of ASCII, as a setting's value has to be."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def loads(cls, text: str) -> Record:
        """Read what `dumps` wrote. Raises UserError for anything else."""
        try:
            values: dict[str, Any] = json.loads(text)
            if values["version"] != _VERSION:
                raise UserError(f"the window was opened by another version of pgbillion (record {values['version']})")
            wal = Wal(**values.pop("wal")) if values["wal"] else values.pop("wal")
            return cls(**{**values, "profile": Profile(values["profile"]), "wal": wal})
        except (ValueError, KeyError, TypeError) as error:
            raise UserError(
                f"the record of the durability window cannot be read: {error!r}", f"it is the setting {MARK}"
            ) from error


def new_id() -> str:
    """Return a name for a window."""
    return secrets.token_hex(4)


# ---- the copy in the state folder


@dataclass(frozen=True)
class Copy:
    """The copy of a record, with what it takes to reach a server that is down."""

    record: Record
    address: str
    data: str | None
    start: dict[str, Any] | None

    @staticmethod
    def path(state: Path, system: str) -> Path:
        """Return where the copy about a cluster is kept; ``system`` is its identifier."""
        return state / "durability" / f"{system}.json"

    def save(self, path: Path) -> None:
        """Write it so that it survives a crash of the machine."""
        path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps({**asdict(self), "record": self.record.dumps()}, indent=1)
        replace_file(path, text + "\n")

    @classmethod
    def load(cls, path: Path) -> Copy | None:
        """Read it; None when there is none, or it is not one."""
        with contextlib.suppress(FileNotFoundError, ValueError, KeyError, TypeError):
            values = json.loads(path.read_text(encoding="utf-8"))
            return cls(**{**values, "record": Record.loads(values["record"])})
        return None

    @classmethod
    def find(cls, state: Path, address: str) -> Copy | None:
        """Return the copy about the server at an address."""
        for path in sorted((state / "durability").glob("*.json")):
            copy = cls.load(path)
            if copy is not None and copy.address == address:
                return copy
        return None


@contextlib.contextmanager
def locked(state: Path) -> Iterator[None]:
    """Keep others from opening and closing windows meanwhile; the kernel lets go when we die."""
    path = state / "durability" / ".lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(
                "another pgbillion durability command is at work", "wait for it to end, or end it"
            ) from None
        yield


def remove_copies(state: Path, data: Path | None = None, system: str | None = None) -> None:
    """Forget what was kept about a cluster, given by its data directory or its identifier."""
    for path in (state / "durability").glob("*.json"):
        copy = Copy.load(path)
        if path.stem == system or (data is not None and copy is not None and copy.data == str(data)):
            path.unlink(missing_ok=True)
    if system is not None:
        _unfinished(Copy.path(state, system)).unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        if [path.name for path in (state / "durability").iterdir()] == [".lock"] and data is not None:
            shutil.rmtree(state / "durability")


# ---- postgresql.auto.conf of a server that is down


def read_auto_conf(data: Path) -> dict[str, str]:
    """Return the settings in postgresql.auto.conf."""
    values = {}
    for line in (data / AUTO_CONF).read_text(encoding="utf-8").splitlines():
        found = _LINE.match(line)
        if found:
            values[found[1].lower()] = _unquoted(found[2])
    return values


def write_auto_conf(data: Path, values: Mapping[str, str | None]) -> None:
    """Set (or remove, where None) settings of a server that is down; all other lines stay as they are."""
    path = data / AUTO_CONF
    lines = []
    for line in path.read_text(encoding="utf-8").splitlines():
        found = _LINE.match(line)
        if found is None or found[1].lower() not in values:
            lines.append(line)
    for name, value in values.items():
        if value is not None:
            quoted = value.replace("\\", "\\\\").replace("'", "''")
            lines.append(f"{name} = '{quoted}'")
    replace_file(path, "\n".join(lines) + "\n")


def read_mark(data: Path) -> Record | None:
    """Return the record of a server that may be down."""
    text = read_auto_conf(data).get(MARK)
    return Record.loads(text) if text else None


def replace_file(path: Path, text: str) -> None:
    """Replace a file as a whole, with the owner and the mode of the old one, and see it to disk."""
    new = _unfinished(path)
    with new.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        with contextlib.suppress(FileNotFoundError):
            old = path.stat()
            os.fchmod(file.fileno(), old.st_mode & 0o777)
            os.fchown(file.fileno(), old.st_uid, old.st_gid)
        os.fsync(file.fileno())
    new.replace(path)
    sync_folder(path.parent)


def _unfinished(path: Path) -> Path:
    return path.with_name(f".{path.name}.new")


def sync_folder(path: Path) -> None:
    """See a folder's entries to disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _unquoted(text: str) -> str:
    if not text.startswith("'"):
        return text
    simple = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}

    def replaced(found: re.Match[str]) -> str:
        part = found[0]
        if part == "''":
            return "'"
        if part[1].isdigit():
            return chr(int(part[1:], 8))
        return simple.get(part[1], part[1])

    return re.sub(r"''|\\[0-7]{1,3}|\\.", replaced, text[1:-1])

"""The directory of an export of many tenants: what is in it, written so that an interrupt costs little, and checked.

    manifest.json            which tenants there are, of which kind each is, and the checksums of all other files
    definitions/N.before     SQL that makes the first tenant of the kind N, up to its tables
    definitions/N.after      … and its indexes, constraints and triggers
    definitions/N.objects    what is in it, with which the restored one is compared
    rows/N                   rows of tenant N, in COPY's text format, table after table; then their places, values of
                             sequences and the like, as JSON

Files have numbers for names, and never a tenant's. A file takes its name when it is complete and on disk, and the
manifest lists it afterwards. The manifest is replaced as a whole, every now and then and at the end.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from pgbillion.common.errors import UserError
from pgbillion.tenants.arrival import Objects
from pgbillion.tenants.needs import Need

_T = TypeVar("_T")

FORMAT = 1
BEFORE, AFTER, OBJECTS = "before", "after", "objects"
_PARTS = (BEFORE, AFTER, OBJECTS)
_MANIFEST, _LOCK = "manifest.json", "lock"
_PARTIAL = ".partial"
# the manifest is written again after this many times what writing it took, and after a second at least
_WRITE_AFTER = 20


@dataclass
class Kind:
    """Tenants with the same definitions, but for the owner: the first of them, whose definition is kept.

    ``key`` is what they have in common. ``code`` is evaluated for rows: what, which function, whose. ``left_out`` are
    kinds and names of objects that pg_dump does not take. ``parts`` are the checksums of the definition's files.
    """

    number: int
    key: str
    first: str
    needs: list[Need] = field(default_factory=list)
    code: list[tuple[str, str, str]] = field(default_factory=list)
    left_out: list[tuple[str, str]] = field(default_factory=list)
    least_major: int = 0
    parts: dict[str, str] = field(default_factory=dict)

    @property
    def defined(self) -> bool:
        """Whether its definition has been written."""
        return bool(self.parts)


@dataclass(frozen=True)
class Tenant:
    """A tenant that was exported; without a ``checksum`` it has nothing but its definition, and no file."""

    number: int
    kind: int
    owner: str
    exported: str
    rows: int = 0
    data: int = 0
    checksum: str | None = None


@dataclass
class Extras:
    """What a tenant has beside its definition, at the end of its file.

    Of each table its name, columns, number of rows and bytes, in the order of the file; of each sequence its name, last
    value, and whether that was called; the materialized views that have contents, each after those that it reads.
    """

    tables: list[tuple[str, list[str], int, int]] = field(default_factory=list)
    sequences: list[tuple[str, int, bool]] = field(default_factory=list)
    views: list[str] = field(default_factory=list)
    comment: str | None = None
    journal: list[list[Any]] = field(default_factory=list)

    def to_bytes(self) -> bytes:
        """Return it as it is in the file."""
        return json.dumps(asdict(self), separators=(",", ":")).encode()


@dataclass
class Manifest:
    """What a directory has; ``source`` says of which database, and ``left_out`` what of that is not in it."""

    source: dict[str, Any]
    pattern: str
    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    started: str = ""
    finished: str | None = None
    kinds: dict[int, Kind] = field(default_factory=dict)
    tenants: dict[str, Tenant] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)

    @property
    def major(self) -> int:
        """The major version of the source."""
        return int(self.source["version"]) // 10000

    @property
    def encoding(self) -> str | None:
        """The encoding of rows; None if they are as they came, and are taken for UTF-8."""
        encoding = str(self.source["encoding"])
        return None if encoding == "SQL_ASCII" else encoding

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON's types."""
        return {"format": FORMAT, **asdict(self)}


def now() -> str:
    """Return the time as the manifest has it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def _is(value: Any, kind: type[_T]) -> _T:
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is int):
        raise TypeError(f"{value!r} is no {kind.__name__}")
    return value


def _texts(values: Any, number: int | None = None) -> tuple[str, ...]:
    found = tuple(_is(value, str) for value in _is(values, list))
    if number is not None and len(found) != number:
        raise ValueError(f"{values!r} are not {number}")
    return found


def _parsed(made: Mapping[str, Any]) -> Manifest:
    source = _is(made["source"], dict)
    for part, type_ in (("version", int), ("database", str), ("encoding", str)):
        _is(source[part], type_)
    manifest = Manifest(
        source,
        _is(made["pattern"], str),
        _is(made["id"], str),
        _is(made["started"], str),
        None if made["finished"] is None else _is(made["finished"], str),
        failed={_is(name, str): _is(why, str) for name, why in made["failed"].items()},
        left_out=list(_texts(made["left_out"])),
    )
    for one in _is(made["kinds"], dict).values():
        number = _is(one["number"], int)
        manifest.kinds[number] = Kind(
            number,
            _is(one["key"], str),
            _is(one["first"], str),
            [_need(need) for need in one["needs"]],
            [(what, function, owner) for what, function, owner in (_texts(code, 3) for code in one["code"])],
            [(kind, name) for kind, name in (_texts(left, 2) for left in one["left_out"])],
            _is(one["least_major"], int),
            {part: _is(one["parts"][part], str) for part in _PARTS} if one["parts"] else {},
        )
    for name, one in _is(made["tenants"], dict).items():
        if not name or "\0" in name or len(name.encode()) > 63:
            raise ValueError(f"{name!r} is no name of a schema")
        checksum = None if one["checksum"] is None else _is(one["checksum"], str)
        number, kind, rows, data = (_is(one[part], int) for part in ("number", "kind", "rows", "data"))
        manifest.tenants[name] = Tenant(
            number, kind, _is(one["owner"], str), _is(one["exported"], str), rows, data, checksum
        )
    _check(manifest)
    return manifest


def _need(made: Mapping[str, Any]) -> Need:
    address = None
    if made["address"] is not None:
        names, arguments = made["address"]
        address = (_texts(names), _texts(arguments))
    others = [None if made[part] is None else _is(made[part], str) for part in ("extension", "schema")]
    return Need(_is(made["kind"], str), _is(made["name"], str), address, *others)


def _check(manifest: Manifest) -> None:
    """Raise ValueError for what no export has written."""
    numbers = [tenant.number for tenant in manifest.tenants.values()]
    if len(set(numbers)) != len(numbers) or not all(0 < number < 10**9 for number in (*numbers, *manifest.kinds)):
        raise ValueError("two tenants have one number")
    for name, tenant in manifest.tenants.items():
        if tenant.kind not in manifest.kinds or not manifest.kinds[tenant.kind].defined:
            raise ValueError(f"{name} is of no kind")
    for kind in manifest.kinds.values() if manifest.finished else ():
        first = manifest.tenants.get(kind.first)
        if first is None or first.kind != kind.number:
            raise ValueError(f"{kind.first} is not the first of its kind")


def _sync(path: Path) -> None:
    """Have a file or directory be on disk."""
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


class Directory:
    """The directory, at work for one command at a time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._written = 0.0
        self._took = 0.0
        self._writing = threading.Lock()

    def rows(self, number: int) -> Path:
        """Return the file of a tenant's rows."""
        return self.path / "rows" / f"{number:07}"

    def definition(self, kind: int, part: str) -> Path:
        """Return a file of a kind's definition."""
        return self.path / "definitions" / f"{kind:07}.{part}"

    def make(self) -> None:
        """Make the directory, closed to others, unless it is an export's or empty. Raises UserError."""
        if self.path.is_dir():
            others = {file.name for file in self.path.iterdir()} - {_LOCK, "rows", "definitions"}
            if not (self.path / _MANIFEST).exists() and others:
                raise UserError(f"{self.path} is not empty, and no export", "name a new directory")
        else:
            try:
                self.path.mkdir(mode=0o700)
            except OSError as error:
                raise UserError(
                    f"the directory {self.path} cannot be made: {error.strerror}", "name one where you can write"
                ) from None
        for name in ("rows", "definitions"):
            (self.path / name).mkdir(mode=0o700, exist_ok=True)

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Keep other exports out of the directory. Raises UserError if one is at work."""
        with (self.path / _LOCK).open("a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise UserError(f"another export is at work in {self.path}", "wait for its end", 3) from None
            yield

    def read(self) -> Manifest | None:
        """Return the manifest, or None if there is none. Raise UserError if no export can have written it."""
        path = self.path / _MANIFEST
        try:
            made = json.loads(path.read_bytes())
            version = _is(_is(made, dict)["format"], int)
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError) as error:
            raise self._damaged(path, error) from None
        if version != FORMAT:
            raise UserError(
                f"{path} has format {version}, and this pgbillion knows {FORMAT}",
                "take the version of pgbillion that has written it",
            )
        try:
            return _parsed(made)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise self._damaged(path, error) from None

    @staticmethod
    def _damaged(path: Path, error: Exception | None = None) -> UserError:
        why = "" if error is None else f": {type(error).__name__}: {error}"
        return UserError(f"{path} is damaged, or not of an export{why}", "export the tenants into a new directory")

    def write(self, manifest: Manifest, *, now: bool = True) -> None:
        """Write the manifest, unless that was done a moment ago and need not be ``now``."""
        start = time.monotonic()
        if not now and start - self._written < max(1.0, _WRITE_AFTER * self._took):
            return
        with self._writing:
            # what it lists has its name on disk before
            for folder in ("rows", "definitions"):
                _sync(self.path / folder)
            with self.file(self.path / _MANIFEST) as partial:
                partial.write_text(json.dumps(manifest.to_json(), separators=(",", ":")), encoding="utf-8")
            _sync(self.path)
        self._written = time.monotonic()
        self._took = self._written - start

    @contextlib.contextmanager
    def file(self, path: Path) -> Iterator[Path]:
        """Give the name of a file to be written, which takes its own if that works, unless it was removed."""
        partial = path.with_name(f"{path.name}{_PARTIAL}")
        try:
            partial.touch(mode=0o600)
            yield partial
            if partial.exists():
                _sync(partial)
                partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)

    def put(self, path: Path, contents: bytes) -> str:
        """Write a file, and return its checksum."""
        with self.file(path) as partial:
            partial.write_bytes(contents)
        return hashlib.sha256(contents).hexdigest()

    def get(self, kind: Kind, part: str) -> bytes:
        """Return a part of a definition. Raises UserError unless it is what was written."""
        path = self.definition(kind.number, part)
        try:
            contents = path.read_bytes()
        except OSError:
            raise self._damaged(path) from None
        if hashlib.sha256(contents).hexdigest() != kind.parts[part]:
            raise self._damaged(path)
        return contents

    def objects(self, kind: Kind) -> Objects:
        """Return what is in a tenant of a kind. Raises UserError unless it is what was written."""
        contents = self.get(kind, OBJECTS)
        return {(kind_, name): what for kind_, name, what in (_texts(one, 3) for one in json.loads(contents))}

    def extras(self, tenant: Tenant) -> Extras:
        """Return what is at the end of a tenant's file. Raises UserError unless all of that is what was written."""
        if tenant.checksum is None:
            return Extras()
        path = self.rows(tenant.number)
        try:
            with path.open("rb") as file:
                if hashlib.file_digest(file, "sha256").hexdigest() != tenant.checksum:
                    raise self._damaged(path)
                file.seek(tenant.data)
                made = json.loads(file.read())
            extras = Extras(
                [(_is(name, str), list(_texts(columns)), _is(rows, int), _is(size, int))
                 for name, columns, rows, size in made["tables"]],
                [(_is(name, str), _is(last, int), _is(called, bool)) for name, last, called in made["sequences"]],
                list(_texts(made["views"])),
                None if made["comment"] is None else _is(made["comment"], str),
                [_is(row, list) for row in made["journal"]],
            )  # fmt: skip
            if sum(size for *_, size in extras.tables) != tenant.data:
                raise self._damaged(path)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise self._damaged(path, error) from None
        return extras

    def forget(self, manifest: Manifest, gone: Callable[[str, Tenant], bool]) -> None:
        """Take tenants out of the manifest, and then kinds without tenants, with their files."""
        for name, tenant in list(manifest.tenants.items()):
            if gone(name, tenant):
                del manifest.tenants[name]
        used = {tenant.kind for tenant in manifest.tenants.values()}
        for number in list(manifest.kinds):
            if number not in used:
                del manifest.kinds[number]
        self.write(manifest)
        numbers = {f"{tenant.number:07}" for tenant in manifest.tenants.values()}
        for file in (self.path / "rows").iterdir():
            if file.name not in numbers:
                file.unlink()
        for file in (self.path / "definitions").iterdir():
            if file.name.partition(".")[0] not in {f"{number:07}" for number in manifest.kinds}:
                file.unlink()

    def size(self) -> int:
        """Return how many bytes all files have."""
        return sum(file.stat().st_size for file in self.path.rglob("*") if file.is_file())

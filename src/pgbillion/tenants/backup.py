"""A base backup as files: what is in it, and which of its files a tenant needs. It is only read, never written.

A directory as pg_basebackup writes it, plain or as base.tar and one archive for each tablespace, or as pgBackRest and
WAL-G restore it. Names of files are relative to the data directory; those of a tablespace are below pg_tblspc/OID.

No server runs on a backup, so the catalogs are read here from their pages. Those may have been copied while they were
written, and only tell what to copy first: whether that was enough is asked of the server at the end, see restore.py.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import shutil
import struct
import tarfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from pgbillion.common.errors import UserError

MANIFEST = "backup_manifest"
LABEL = "backup_label"
CONTROL = "global/pg_control"
_MAP = "pg_filenode.map"
# what a server needs of a data directory; settings, slots and caches are not among it
_TAKEN = ("global", "base", "pg_tblspc", "pg_xact", "pg_multixact", "pg_commit_ts", "pg_twophase", "pg_wal")
_SINGLE = ("PG_VERSION", LABEL)
_LEFT = re.compile(r"(?:^|/)(?:pgsql_tmp|t\d+_\d+|pg_internal\.init)|^pg_wal/(?:archive_status|summaries)/")
# a relation's file: its number, fork and segment
_RELATION = re.compile(r"((?:.*/)?\d+)(?:_(fsm|vm|init))?(?:\.\d+)?")
_TARS = (".tar", ".tar.gz", ".tgz")
_PACKED = (".zst", ".lz4", ".bz2", ".xz")

_DATABASES, _CLASSES, _NAMESPACES, _ATTRIBUTES, _LARGE_OBJECTS = 1262, 1259, 2615, 1249, (2613, 2683)
_FIRST_OF_USERS = 16384
_OF_TOAST = re.compile(rb"pg_toast_(\d+)(?:_index)?")
_OID_TYPE = 26
_ALL_SEQUENCES = 18
_DEFAULT_TABLESPACE = "1663"
# rows of the catalogs that are read here have an OID, a name and another OID at least
_SHORTEST = 72
_FICLONE = 0x40049409


def stem(name: str) -> str | None:
    """Return the name that all files of a relation begin with, for the name of one of them; None for other files."""
    folder, _, base = name.rpartition("/")
    if not (folder == "global" or folder.startswith(("base/", "pg_tblspc/"))):
        return None
    found = _RELATION.fullmatch(base)
    return f"{folder}/{found[1]}" if found else None


def _taken(name: str) -> bool:
    first = name.partition("/")[0]
    return (first in _TAKEN or name in _SINGLE) and not _LEFT.search(name)


@dataclass(frozen=True)
class Wanted:
    """What is to be copied: relations by their stems, of one database, which is in ``folder``; None for all."""

    folder: str | None
    stems: frozenset[str] | None

    def takes(self, name: str) -> bool:
        """Tell whether a file is to be copied."""
        of = stem(name)
        return self.stems is None or of is None or of.startswith("global/") or of in self.stems


@dataclass
class Backup:
    """What a base backup has, with the bytes of each file; ``start`` is when it began, as the label says."""

    path: Path
    major: int
    files: dict[str, int]
    folders: set[str]
    label: str | None
    links: dict[str, Path] = field(default_factory=dict)
    archives: list[tuple[Path, str]] = field(default_factory=list)

    @property
    def size(self) -> int:
        """The bytes of all that a server needs."""
        return sum(self.files.values())

    @property
    def start(self) -> str | None:
        """When it began, in the words of its label."""
        return self._labeled(r"START TIME: (.+)")

    @property
    def first_segment(self) -> str | None:
        """The name of the WAL segment with which replay begins."""
        return self._labeled(r"START WAL LOCATION: \S+ \(file ([0-9A-F]{24})\)")

    def _labeled(self, pattern: str) -> str | None:
        found = re.search(rf"(?m)^{pattern}$", self.label or "")
        return found[1] if found else None

    def read(self, names: Iterable[str]) -> dict[str, bytes]:
        """Return the contents of small files."""
        wanted = set(names)
        if not self.archives:
            return {name: (self.path / name).read_bytes() for name in wanted}
        found = {}
        for name, _, contents in self._members(wanted.__contains__):
            found[name] = contents.read()
        return found

    def copy(self, wanted: Callable[[str], bool], data: Path, made: Callable[[Path], None]) -> Iterator[int]:
        """Copy files into a data directory, where they are not yet, and give the bytes of each; folders exist.

        A file has its name once it is complete. ``made`` is called for each before that.
        """

        def missing(name: str) -> bool:
            target = data / name
            return wanted(name) and not (target.exists() and target.stat().st_size == self.files[name])

        if self.archives:
            for name, size, contents in self._members(missing):
                with _new(data / name, made) as target:
                    shutil.copyfileobj(contents, target, 1 << 20)
                yield size
            return
        for name in sorted(filter(missing, self.files)):
            with (self.path / name).open("rb") as source, _new(data / name, made) as target:
                _clone(source, target)
                if target.tell() != self.files[name] and os.fstat(target.fileno()).st_size != self.files[name]:
                    raise UserError(f"{self.path / name} has changed while it was copied", "a backup stays as it is")
            yield self.files[name]

    def _members(self, wanted: Callable[[str], bool]) -> Iterator[tuple[str, int, IO[bytes]]]:
        for archive, prefix in self.archives:
            try:
                with tarfile.open(archive, "r:*") as opened:
                    for member in opened:
                        name = prefix + os.path.normpath(member.name)
                        if member.isreg() and name in self.files and wanted(name):
                            contents = opened.extractfile(member)
                            assert contents is not None
                            yield name, member.size, contents
            except (tarfile.TarError, EOFError, OSError) as error:
                if isinstance(error, OSError) and error.filename is not None:
                    raise
                raise UserError(f"{archive} is damaged: {error}", "check the backup with pg_verifybackup") from None

    # ---- catalogs ----

    def find(self, database: str, tenant: str, *, large_objects: bool | None = None) -> Wanted | None:
        """Return the files that a tenant of a database needs, as far as the catalogs tell; None if they do not.

        Large objects are among them if a column of the tenant may name one, unless it is said whether.
        """
        with contextlib.suppress(_UnreadableError, OSError, struct.error):
            return self._find(database.encode(), tenant.encode(), large_objects)
        return None

    def _find(self, database: bytes, tenant: bytes, large_objects: bool | None) -> Wanted:
        shared = _mapped(self.read([f"global/{_MAP}"])[f"global/{_MAP}"])
        oids = {oid for oid, name in self._names(f"global/{shared[_DATABASES]}") if name == database}
        folders = [
            name.removesuffix(f"/{_MAP}") for name in self.files
            if name.endswith(f"/{_MAP}") and name.rsplit("/", 2)[-2] in {str(oid) for oid in oids}
        ]  # fmt: skip
        if len(folders) != 1:
            raise _UnreadableError
        folder = folders[0]
        mapped = _mapped(self.read([f"{folder}/{_MAP}"])[f"{folder}/{_MAP}"])
        classes = list(self._classes(f"{folder}/{mapped[_CLASSES]}"))
        numbers = set(mapped.values())
        of_catalogs = {oid: number for oid, _, _, number, _, _ in classes if oid < _FIRST_OF_USERS and number}
        numbers |= {number for oid, _, _, number, _, _ in classes if oid < _FIRST_OF_USERS}
        namespaces = f"{folder}/{of_catalogs.get(_NAMESPACES, _NAMESPACES)}"
        schemas = {oid for oid, name in self._names(namespaces) if name in (tenant, b"pgbillion_journal")}
        tables = {oid for oid, _, schema, _, _, _ in classes if schema in schemas}
        if large_objects is None:
            large_objects = self._may_name(f"{folder}/{mapped[_ATTRIBUTES]}", tables)
        # the files of the catalogs of large objects by any version of their rows
        of_large = {number for oid, _, _, number, _, _ in classes if oid in _LARGE_OBJECTS}
        stems = {f"{folder}/{number}" for number in numbers if large_objects or number not in of_large}
        oid = folder.rpartition("/")[2]
        within_tablespace = re.compile(rf"pg_tblspc/(\d+)/[^/]+/{oid}")
        elsewhere = {found[1]: found[0] for within in self.folders if (found := within_tablespace.fullmatch(within))}
        elsewhere |= {"0": folder, _DEFAULT_TABLESPACE: f"base/{oid}"}
        for _, name, schema, number, tablespace, kind in classes:
            of_toast = _OF_TOAST.fullmatch(name)
            # from 18 on pg_dump reads the values of all sequences
            read = schema in schemas or (kind == b"S" and self.major >= _ALL_SEQUENCES)
            if number and (read or (of_toast and int(of_toast[1]) in tables)):
                within = elsewhere.get(str(tablespace))
                if within is not None:
                    stems.add(f"{within}/{number}")
        return Wanted(folder, frozenset(stems))

    def _rows(self, of: str) -> Iterator[bytes]:
        """Give the data of all rows, old ones too, of a catalog, for the stem of its files."""
        names = sorted((name for name in self.files if stem(name) == of and "_" not in name.rsplit("/", 1)[-1]),
                       key=lambda name: int(name.rpartition(".")[2]) if "." in name else 0)  # fmt: skip
        if not names:
            raise _UnreadableError
        for name in names:
            yield from _rows(self.read([name])[name])

    def _names(self, of: str) -> Iterator[tuple[int, bytes]]:
        for row in self._rows(of):
            yield struct.unpack_from("<I", row)[0], _name(row, 4)

    def _classes(self, of: str) -> Iterator[tuple[int, bytes, int, int, int, bytes]]:
        """Give OID, name, schema, file number, tablespace and kind of relations."""
        kind = 119 if self.major >= 18 else 115
        for row in self._rows(of):
            (oid,), (schema,) = struct.unpack_from("<I", row), struct.unpack_from("<I", row, 68)
            number, tablespace = struct.unpack_from("<II", row, 88)
            yield oid, _name(row, 4), schema, number, tablespace, row[kind : kind + 1]

    def _may_name(self, of: str, tables: set[int]) -> bool:
        """Tell whether a column of some tables is of a type that may name a large object: oid, or no built-in one."""
        for row in self._rows(of):
            table, type_ = struct.unpack_from("<I", row)[0], struct.unpack_from("<I", row, 68)[0]
            if table in tables and (type_ == _OID_TYPE or type_ >= _FIRST_OF_USERS) and row[4:6] != b"..":
                return True
        return False


class _UnreadableError(Exception):
    """The catalogs are not what they are taken for."""


def _mapped(contents: bytes) -> dict[int, int]:
    """Return the file numbers of catalogs whose own rows cannot have them, by OID."""
    magic, number = struct.unpack_from("<ii", contents)
    if magic != 0x592717 or not 0 < number <= 64:
        raise _UnreadableError
    return dict(struct.iter_unpack("<II", contents[8 : 8 + 8 * number]))


def _name(row: bytes, at: int) -> bytes:
    return row[at : at + 64].partition(b"\0")[0]


def _rows(contents: bytes) -> Iterator[bytes]:
    """Give the data of all rows on the pages of a table."""
    # the page's size, which its header has, less its version
    size = struct.unpack_from("<H", contents, 18)[0] & 0xFF00 if len(contents) >= 24 else 0
    if size == 0:
        return
    for start in range(0, len(contents) - size + 1, size):
        page = contents[start : start + size]
        lower = struct.unpack_from("<H", page, 12)[0]
        for at in range(24, min(lower, size - 3), 4):
            pointer = struct.unpack_from("<I", page, at)[0]
            offset, state, length = pointer & 0x7FFF, pointer >> 15 & 3, pointer >> 17
            if state == 1 and length > 24 and offset + length <= size:
                header = page[offset + 22]
                row = page[offset + header : offset + length]
                if len(row) >= _SHORTEST:
                    yield row


@contextlib.contextmanager
def _new(target: Path, made: Callable[[Path], None]) -> Iterator[IO[bytes]]:
    partial = target.with_name(f"{target.name}.partial")
    with partial.open("wb") as opened:
        yield opened
    made(partial)
    partial.replace(target)


def _clone(source: IO[bytes], target: IO[bytes]) -> None:
    """Copy a file; where the file system can, by sharing its blocks until one side is written to."""
    with contextlib.suppress(OSError):
        fcntl.ioctl(target.fileno(), _FICLONE, source.fileno())
        return
    size = os.fstat(source.fileno()).st_size
    while (at := target.tell()) < size:
        sent = os.sendfile(target.fileno(), source.fileno(), at, size - at)
        if sent == 0:
            return
        target.seek(at + sent)


# ---- opening one ----


def read(path: Path) -> Backup:
    """Return what a base backup has. Raises UserError if it is none, or of a kind that has to be unpacked before."""
    if not path.is_dir():
        raise UserError(f"there is no directory {path}", "--backup names the directory of a base backup")
    try:
        backup = _plain(path) if (path / "PG_VERSION").exists() else _tar(path)
    except PermissionError as error:
        raise UserError(
            f"{error.filename} cannot be read: {error.strerror}", "run this as the owner of the backup, or as root"
        ) from None
    if CONTROL not in backup.files:
        raise UserError(f"{path} has no {CONTROL}, so it is no complete base backup", "take another backup")
    if backup.label is not None and "INCREMENTAL FROM" in backup.label:
        raise UserError(f"{path} is an incremental backup", "combine it with those before by pg_combinebackup")
    _check_manifest(backup)
    return backup


def _plain(path: Path) -> Backup:
    if (path / "postmaster.pid").exists():
        raise UserError(f"{path} is the data directory of a server, and no backup", "take one with pg_basebackup")
    files: dict[str, int] = {}
    folders: set[str] = set()
    links = {}
    todo = [""]
    while todo:
        within = todo.pop()
        folders |= {within} - {""}
        with os.scandir(path / within) as entries:
            for entry in entries:
                name = f"{within}/{entry.name}" if within else entry.name
                if entry.is_dir():
                    if entry.is_symlink() and within == "pg_tblspc":
                        links[entry.name] = Path(entry.path).resolve()
                    if _taken(name):
                        todo.append(name)
                elif entry.is_symlink() and not Path(entry.path).exists():
                    raise UserError(f"{entry.path} leads nowhere", "have its tablespace where the link leads")
                elif _taken(name):
                    files[name] = entry.stat().st_size
    label = path / LABEL
    major = _major((path / "PG_VERSION").read_text(encoding="utf-8"), path)
    text = label.read_text(encoding="utf-8", errors="replace") if label.exists() else None
    return Backup(path, major, files, folders, text, links)


def _tar(path: Path) -> Backup:
    """Read the archives' lists of files; there may be a manifest beside them, but that lists no folders."""
    archives = []
    for archive in sorted(path.iterdir()):
        base = archive.name.partition(".")[0]
        if archive.name.endswith(_PACKED) and base == "base":
            raise UserError(
                f"{archive} is compressed in a way that Python cannot read", "decompress the archives first"
            )
        if archive.name.endswith(_TARS) and (base in ("base", "pg_wal") or base.isdecimal()):
            prefix = {"base": "", "pg_wal": "pg_wal/"}.get(base, f"pg_tblspc/{base}/")
            archives.append((archive, prefix))
    if "" not in [prefix for _, prefix in archives]:
        raise UserError(
            f"{path} is no base backup: it has neither PG_VERSION nor base.tar",
            "--backup names a directory that pg_basebackup has written, or pgBackRest or WAL-G has restored",
        )
    files: dict[str, int] = {}
    folders: set[str] = set()
    small: dict[str, bytes] = {}
    for archive, prefix in archives:
        folders |= {prefix.rstrip("/")} - {""}
        try:
            with tarfile.open(archive, "r:*") as opened:
                for member in opened:
                    name = prefix + os.path.normpath(member.name)
                    if member.isdir() and _taken(name):
                        folders.add(name)
                    elif member.isreg() and _taken(name):
                        files[name] = member.size
                        if name in _SINGLE:
                            contents = opened.extractfile(member)
                            assert contents is not None
                            small[name] = contents.read()
        except (tarfile.TarError, EOFError) as error:
            raise UserError(f"{archive} is damaged: {error}", "check the backup with pg_verifybackup") from None
    folders |= {parent for name in files for parent in _parents(name)}
    label = small[LABEL].decode(errors="replace") if LABEL in small else None
    major = _major(small.get("PG_VERSION", b"").decode(errors="replace"), path)
    return Backup(path, major, files, folders, label, {}, archives)


def _parents(name: str) -> Iterator[str]:
    while "/" in name:
        name = name.rpartition("/")[0]
        yield name


def _major(version: str, path: Path) -> int:
    if not version.strip().isdecimal():
        raise UserError(f"PG_VERSION in {path} names no version of PostgreSQL", "take another backup")
    return int(version)


def _check_manifest(backup: Backup) -> None:
    """Raise UserError if a file is missing, or has not the length that the backup's manifest says."""
    path = backup.path / MANIFEST
    if not path.exists():
        return
    try:
        made = json.loads(path.read_bytes())
        listed = {str(one["Path"]): int(one["Size"]) for one in made["Files"] if "Path" in one}
    except (ValueError, KeyError, TypeError):
        raise UserError(f"{path} is damaged", "check the backup with pg_verifybackup") from None
    for name, size in listed.items():
        if _taken(name) and not name.startswith("pg_wal/") and backup.files.get(name) != size:
            found = f"has {backup.files[name]:,} bytes, not {size:,}" if name in backup.files else "is missing"
            raise UserError(
                f"the backup is damaged: {name} {found}", "check it with pg_verifybackup, or take another backup"
            )

"""The write-ahead log in another folder, and back, with the server stopped.

Whenever we are killed, one rule says which copy counts:

* pg_wal is there (a folder, or a link that is followed): it is the log, and any other copy is garbage;
* pg_wal is missing: the folder pg_wal.pgbillion is the log, whole and on disk. A server cannot start meanwhile.

So a copy is complete and on disk before pg_wal leads to it, and pg_wal.pgbillion is so before pg_wal goes.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
from pathlib import Path

from pgbillion.common import invocation
from pgbillion.common.errors import UserError
from pgbillion.common.host import FileSystem
from pgbillion.durability.force import VOLATILE
from pgbillion.durability.record import Wal, sync_folder

_ASIDE = "pg_wal.pgbillion"
_LINK = "pg_wal.pgbillion.link"
_MIB = 1024 * 1024
# a few segments beside what is there: less makes no sense
_LEAST = 256 * _MIB


def plan(data: Path, folder: Path) -> tuple[Wal, int]:
    """Check that the log can go to a folder; return the move and how many megabytes the folder has room for.

    Raises UserError for a folder that is not absolute, not empty, not the server's, too small, or in the data
    directory.
    """
    if not folder.is_absolute():
        raise UserError(f"the WAL directory has to be given by its whole path: {folder}")
    wal = data / "pg_wal"
    link = str(wal.readlink()) if wal.is_symlink() else None
    if link is not None and not Path(link).is_absolute():
        raise UserError(f"{wal} is a link to a path that is not absolute: {link}", "make it one of an absolute path")
    if folder.resolve().is_relative_to(data.resolve()):
        raise UserError(f"the WAL directory {folder} is inside the data directory", "choose one elsewhere")
    made = not folder.exists()
    if not made:
        if not folder.is_dir():
            raise UserError(f"the WAL directory {folder} is not a directory")
        if any(folder.iterdir()):
            raise UserError(f"the WAL directory {folder} is not empty", "empty it, or name another")
    there = folder if not made else folder.parent
    if not there.is_dir():
        raise UserError(f"there is no directory {there} to make the WAL directory in")
    _check_owner(data, there, folder, made=made)
    system = FileSystem.of(there)
    needed = _size(wal) + _LEAST
    if system.free < needed:
        raise UserError(
            f"the WAL directory {folder} is too small:"
            f" {needed // _MIB} MB are needed, {system.free // _MIB} MB are free",
            "make room, or choose a directory on another file system",
        )
    return Wal(str(folder), link, made, system.kind in VOLATILE), system.free // _MIB


def away(data: Path, move: Wal) -> None:
    """Bring the log to its new folder. The server is stopped."""
    folder = Path(move.folder)
    wal = data / "pg_wal"
    if move.made:
        _make(folder, wal)
    _copy(wal, folder)
    if move.link is None:
        _remove(data / _ASIDE)
        wal.rename(data / _ASIDE)
        sync_folder(data)
    _point(wal, folder)


def tidy(data: Path, move: Wal) -> None:
    """Remove the copy that `away` left, once the server has started with the new one."""
    if _leads_to(data / "pg_wal", Path(move.folder)):
        if move.link is None:
            _remove(data / _ASIDE)
        else:
            _empty(Path(move.link))


def back(data: Path, move: Wal) -> None:
    """Bring the log back to where it was, on disk. The server is stopped; fine if it is there already.

    Raises UserError when the log is lost.
    """
    folder = Path(move.folder)
    wal = data / "pg_wal"
    if not os.path.lexists(wal):
        (data / _ASIDE).rename(wal)
        sync_folder(data)
    elif _leads_to(wal, folder):
        check(data, move)
        if move.link is not None:
            _empty(Path(move.link))
            _copy(folder, Path(move.link))
            _point(wal, Path(move.link))
        else:
            _remove(data / _ASIDE)
            _make(data / _ASIDE, folder)
            _copy(folder, data / _ASIDE)
            wal.unlink()
            sync_folder(data)
            (data / _ASIDE).rename(wal)
            sync_folder(data)


def leave(data: Path, move: Wal) -> None:
    """Clear the folder that the log was in, once it is back."""
    folder = Path(move.folder)
    if _leads_to(data / "pg_wal", folder):
        return
    _remove(data / _ASIDE)
    _remove(data / _LINK)
    if folder.exists():
        _empty(folder)
        if move.made:
            folder.rmdir()


def is_back(data: Path, move: Wal) -> bool:
    """Tell whether pg_wal is what it was before `away`."""
    wal = data / "pg_wal"
    if move.link is not None:
        return _leads_to(wal, Path(move.link))
    return wal.is_dir() and not wal.is_symlink()


def check(data: Path, move: Wal) -> None:
    """Raise UserError when the log is lost, as it is with the memory it was in."""
    wal = data / "pg_wal"
    if os.path.lexists(wal) and not _segments(wal):
        raise UserError(
            f"the write-ahead log is lost: there is none in {move.folder}",
            "make the server anew and load again, or restore a backup; to save what is left: "
            + invocation.command("durability", "restore", "--lost-wal")
            + "; then pg_resetwal -f, and pg_dump",
        )


def give_up(data: Path, move: Wal) -> None:
    """Put an empty pg_wal in the place of a lost log, for pg_resetwal to work with."""
    wal = data / "pg_wal"
    if move.link is not None:
        _make(Path(move.link), data)
        _point(wal, Path(move.link))
    else:
        _remove(wal)
        _remove(data / _ASIDE)
        _make(wal, data)
    major = int((data / "PG_VERSION").read_text())
    for name in ("archive_status", *(("summaries",) if major >= 17 else ())):
        _make(wal / name, data)
    sync_folder(data)


def _leads_to(wal: Path, folder: Path) -> bool:
    return wal.is_symlink() and wal.readlink() == folder


def _segments(folder: Path) -> bool:
    with contextlib.suppress(OSError):
        return any(len(entry.name) == 24 for entry in folder.iterdir())
    return False


def _point(wal: Path, folder: Path) -> None:
    """Make pg_wal a link to a folder in one step."""
    new = wal.with_name(_LINK)
    new.unlink(missing_ok=True)
    new.symlink_to(folder)
    owner = wal.parent.stat()
    os.chown(new, owner.st_uid, owner.st_gid, follow_symlinks=False)
    new.replace(wal)
    sync_folder(wal.parent)


def _make(folder: Path, like: Path) -> None:
    """Make a folder with the owner and the mode of another."""
    folder.mkdir(exist_ok=True)
    model = like.stat()
    os.chown(folder, model.st_uid, model.st_gid)
    folder.chmod(model.st_mode & 0o777)


def _copy(source: Path, target: Path) -> None:
    """Copy what is in a folder into another, owners and all, and see it to disk."""
    for entry in sorted(source.iterdir()):
        copy = target / entry.name
        if entry.is_dir():
            _make(copy, entry)
            _copy(entry, copy)
            continue
        shutil.copy2(entry, copy)
        model = entry.stat()
        os.chown(copy, model.st_uid, model.st_gid)
        with copy.open("rb") as file:
            os.fsync(file.fileno())
    sync_folder(target)


def _empty(folder: Path) -> None:
    for entry in folder.iterdir():
        _remove(entry)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _size(folder: Path) -> int:
    return sum(entry.stat().st_size for entry in folder.rglob("*") if entry.is_file())


def _check_owner(data: Path, there: Path, folder: Path, *, made: bool) -> None:
    """Raise UserError when the server's user could not write in the folder."""
    user = pwd.getpwuid(data.stat().st_uid)
    status = there.stat()
    groups = os.getgrouplist(user.pw_name, user.pw_gid)
    bits = status.st_mode >> (6 if status.st_uid == user.pw_uid else 3 if status.st_gid in groups else 0)
    # a folder that root makes is given to the server
    if bits & 0o3 == 0o3 or (made and os.geteuid() == 0 and bits & 0o1):
        return
    raise UserError(
        f"the server's user {user.pw_name} cannot write to {folder if not made else there}",
        f"give it the directory: install -d -o {user.pw_name} -m 700 {folder}",
    )


def free(data: Path) -> int | None:
    """Return the megabytes that are free for the log where it is, None when that cannot be seen."""
    try:
        return FileSystem.of(data / "pg_wal").free // _MIB
    except OSError:
        return None

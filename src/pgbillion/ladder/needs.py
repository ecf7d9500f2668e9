"""What a ladder will need, from a few tables made on a small server, and whether that is there."""

from __future__ import annotations

import math
import os
import shutil
from dataclasses import dataclass, replace
from pathlib import Path

from pgbillion.common import text
from pgbillion.common.errors import UserError
from pgbillion.common.host import FileSystem, Host
from pgbillion.common.target import Target
from pgbillion.ladder.disk import SMALLEST, Kind
from pgbillion.ladder.record import Ladder
from pgbillion.server.embedded import memory
from pgbillion.tables import create, estimate
from pgbillion.tables.estimate import Item
from pgbillion.tables.plan import Method

# Of catalogs that btrfs compresses: a tenth was measured. The rest is for pages that were written again, whose old
# copies stay until all of their extent is unused.
_COMPRESSED = 0.12
_MARGIN = 1.1
_MIB, _GIB = 1024**2, 1024**3
# initdb's files, a second database, and the file system's own
_BASE = 256 * _MIB
_LEAST_WAL, _MOST_WAL = 256 * _MIB, 4 * _GIB
# checkpoints begin early enough for max_wal_size to hold, but do not wait for it
_WAL_MARGIN = 1.5
# of the disk below, for everybody else
_KEEP_FREE = 1 * _GIB
_INODES_BASE = 100_000
# What an empty file takes: its inode and the entries of its directory. Measured with 500,000 files, on xfs with
# 2,000,000, and on btrfs in a server's directory, where pages of metadata are replaced all the time. Of unknown file
# systems the most is taken.
_FILE_ENTRY = {"btrfs": 1000, "xfs": 1000, "ext4": 290, "tmpfs": 1000}


@dataclass(frozen=True)
class Needs:
    """What was estimated: ``size`` is that of the disk, WAL included; ``inodes`` those of tables that have files."""

    bytes_per_table: float
    wal_bytes: int
    size: int
    inodes: int | None
    items: list[Item]

    def refuse(self) -> None:
        """Raise UserError when something is known to be missing."""
        missing = [item for item in self.items if item.fits is False]
        if missing:
            words = "; ".join(
                f"{item.name}: {estimate.format_amount(item.unit, item.need)} needed,"
                f" {estimate.format_amount(item.unit, item.available)} available"
                for item in missing
            )
            raise UserError(
                f"this cannot fit: {words}",
                "fewer tables (--to), a file system that compresses (--filesystem btrfs-zstd), or a larger disk"
                " (--state-dir, --directory)",
            )


def request(ladder: Ladder) -> create.Request:
    """Return what all tables of a ladder are."""
    return create.Request(
        count=ladder.to,
        workers=min(ladder.workers, ladder.to),
        method=Method.BULK,
        columns=ladder.columns,
        storage=ladder.storage,
        tablespaces=ladder.tablespaces,
    )


def estimated(ladder: Ladder, target: Target, *, compressed: bool) -> Needs:
    """Make a few tables on a server that goes again, and return what all of the ladder's need. Raises UserError."""
    with target.connect() as conn:
        # files take as much in each tablespace
        plan = create.make_plan(conn, replace(request(ladder), tablespaces=0))
        create.check_server(conn, plan)
        found = estimate.estimate(conn, plan, Host.of(conn))
    cost = found.cost
    share = _COMPRESSED if compressed else 1.0
    bytes_of_files = cost.file_bytes + cost.files * _file_entry(ladder)
    bytes_per_table = (cost.catalog_bytes * share + bytes_of_files) * _MARGIN
    data = math.ceil(bytes_per_table * ladder.to)
    wal = min(_MOST_WAL, max(_LEAST_WAL, round(min(cost.wal_bytes * ladder.to, data) / 4) // _MIB * _MIB))
    size = max(SMALLEST, math.ceil(data + wal * _WAL_MARGIN + _BASE))
    inodes = math.ceil(cost.files * ladder.to * _MARGIN) + _INODES_BASE if cost.files else None
    items = [_disk(ladder, size, data, compressed=compressed)]
    if inodes is not None and ladder.place.filesystem is None:
        there = FileSystem.of(_existing(ladder))
        items.append(Item("files (inodes)", "count", inodes, there.files_free, f"{cost.files:g} per table"))
    items.append(_memory(ladder, found))
    # of this server's; the disk is another, and locks of a worker are few
    items += [item for item in found.items if item.name in ("OIDs", "transaction ids")]
    written = round(cost.wal_bytes * ladder.to)
    note = f"{text.size(cost.wal_bytes)} per table; {text.size(wal)} of it are kept at a time (max_wal_size)"
    items.append(Item("write-ahead log", "bytes", written, None, note))
    items += [item for item in found.items if item.name == "time"]
    return Needs(bytes_per_table, wal, size, inodes, items)


def _file_entry(ladder: Ladder) -> int:
    """Return the bytes that a file takes beside its contents."""
    made = ladder.place.filesystem
    kind = str(made).partition("-")[0] if made is not None else FileSystem.of(_existing(ladder)).kind
    return _FILE_ENTRY.get(kind, max(_FILE_ENTRY.values()))


def _existing(ladder: Ladder) -> Path:
    place = ladder.place.directory if ladder.place.directory is not None else ladder.home
    return next(folder for folder in (place, *place.parents) if folder.exists())


def _disk(ladder: Ladder, size: int, data: int, *, compressed: bool) -> Item:
    there = _existing(ladder)
    free = max(0, shutil.disk_usage(there).free - _KEEP_FREE)
    what = f"{text.size(data)} for tables{', compressed,' if compressed else ''} and the rest for WAL"
    if ladder.place.size is not None:
        if ladder.place.size < size:
            return Item("disk", "bytes", size, ladder.place.size, f"{what}; available is what --size says")
        return Item("disk", "bytes", ladder.place.size, free, f"as --size says; {text.size(size)} are estimated")
    return Item("disk", "bytes", size, free, what)


def _memory(ladder: Ladder, found: estimate.Estimate) -> Item:
    """Sum up what the server and the backends of the workers take."""
    shared = max(32 * _MIB, memory() // 4)
    backend = next(item for item in found.items if item.name == "memory")
    note = f"shared buffers of {text.size(shared)}, and {text.many(ladder.workers, 'backend')}"
    return Item("memory", "bytes", shared + (backend.need or 0), memory(), note)


def room(ladder: Ladder, done: int, rung: int, each: float) -> None:
    """Raise UserError when the next rung will not fit on the ladder's disk, by what the tables so far have taken."""
    system = FileSystem.of(ladder.base)
    need = math.ceil(each * (rung - done))
    if need <= system.free:
        return
    hint = "make room there, and run it again"
    if ladder.place.filesystem is not None and ladder.place.size is not None:
        size = math.ceil((ladder.place.size + need - system.free) * _MARGIN / _GIB)
        hint = f"run it again with --size {size}G, for which there has to be room below"
    raise UserError(
        f"{text.count(rung)} tables will not fit: {text.size(need)} needed for {text.count(rung - done)} more,"
        f" {text.size(system.free)} free",
        hint,
    )


def cores() -> int:
    """Return the number of workers that are started unless the user says otherwise."""
    return os.cpu_count() or 1


def is_compressed(kind: Kind | None, directory_compresses: bool) -> bool:
    """Tell whether the ladder's file system compresses."""
    return kind is Kind.BTRFS or (kind is None and directory_compresses)

"""The machine the server runs on, seen from the same machine: file systems, memory, processes.

For a server elsewhere there is no Host, and what it would have told is unknown.
"""

from __future__ import annotations

import contextlib
import os
import platform
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psutil
import psycopg

from pgbillion.common.connection import Connection


@dataclass(frozen=True)
class FileSystem:
    """Space of a file system, in bytes and files; what is free is so for a process without root's reserve."""

    mount: str
    kind: str  # ext4, xfs, tmpfs …
    size: int
    used: int
    free: int
    files: int | None  # None: the file system makes inodes as it needs them
    files_free: int | None
    device: int
    path: Path

    @classmethod
    def of(cls, path: Path) -> FileSystem:
        """Return the file system of a path. Raises OSError when it cannot be seen."""
        values = os.statvfs(path)
        device = path.stat().st_dev
        mount, kind = _mount(path)
        fixed = values.f_files > 0
        return cls(
            mount=mount,
            kind=kind,
            size=values.f_blocks * values.f_frsize,
            used=(values.f_blocks - values.f_bfree) * values.f_frsize,
            free=values.f_bavail * values.f_frsize,
            files=values.f_files if fixed else None,
            files_free=values.f_favail if fixed else None,
            device=device,
            path=path,
        )

    def again(self) -> FileSystem | None:
        """Return the same file system as it is now."""
        try:
            values = os.statvfs(self.path)
        except OSError:
            return None
        return replace(
            self,
            used=(values.f_blocks - values.f_bfree) * values.f_frsize,
            free=values.f_bavail * values.f_frsize,
            files=values.f_files if self.files is not None else None,
            files_free=values.f_favail if self.files is not None else None,
        )


@dataclass(frozen=True)
class Host:
    """This machine, known to be the server's."""

    data_directory: Path | None  # None when we may not know it

    @classmethod
    def of(cls, conn: Connection) -> Host | None:
        """Return the server's host when it is this machine, else None.

        The connection's backend must be a process here: that is true of a server reached by any address of this
        machine, and false of one in a container with process numbers of its own.
        """
        pid = conn.info.backend_pid
        try:
            if not _is_postgres(psutil.Process(pid)):
                return None
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            return None
        directory: Path | None = None
        try:
            row = conn.execute("SELECT current_setting('data_directory')").fetchone()
            directory = Path(row[0]) if row else None
        except psycopg.errors.InsufficientPrivilege:
            with contextlib.suppress(OSError):
                directory = Path(f"/proc/{pid}/cwd").readlink()
        return cls(directory)

    def filesystem(self, path: Path | None = None) -> FileSystem | None:
        """Return the file system of the data directory, or of another path; None when it may not be seen."""
        chosen = path or self.data_directory
        if chosen is not None:
            with contextlib.suppress(OSError):
                return FileSystem.of(chosen)
        return None

    def wal_filesystem(self) -> FileSystem | None:
        """Return the file system of the write-ahead log; None when it may not be seen."""
        return self.filesystem(self.data_directory / "pg_wal") if self.data_directory else None

    @staticmethod
    def available_memory() -> int:
        """Return bytes that can be had without swapping."""
        return int(psutil.virtual_memory().available)

    @staticmethod
    def load() -> tuple[float, float, float]:
        """Return the load average of 1, 5 and 15 minutes."""
        return os.getloadavg()


def private_memory(pid: int) -> int | None:
    """Return the bytes a process has for itself alone, or None when it is gone.

    Anonymous memory: neither shared buffers nor program text. (smaps' private memory would count shared buffers that
    only this backend has touched, and needs more privileges.)
    """
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) * 1024
    return None


def cpu_seconds(pids: Iterable[int]) -> dict[int, float]:
    """Return user plus system time of the processes that still are."""
    times: dict[int, float] = {}
    for pid in pids:
        with contextlib.suppress(psutil.Error):
            used = psutil.Process(pid).cpu_times()
            times[pid] = used.user + used.system
    return times


def hardware() -> dict[str, Any]:
    """Return what a reader of figures wants to know of this machine; no host name."""
    model = ""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    return {
        "cpu": model or platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "memory_bytes": int(psutil.virtual_memory().total),
        "system": f"{platform.system()} {platform.release()}",
    }


def _is_postgres(process: psutil.Process) -> bool:
    return process.name() in ("postgres", "postmaster")


def _mount(path: Path) -> tuple[str, str]:
    """Return the mount point and type of a path's file system."""
    real = path.resolve()
    found = [one for one in psutil.disk_partitions(all=True) if real.is_relative_to(one.mountpoint)]
    # of those mounted on the same directory, the last is seen
    best = max(reversed(found), key=lambda one: len(one.mountpoint), default=None)
    return (best.mountpoint, best.fstype) if best is not None else ("/", "unknown")

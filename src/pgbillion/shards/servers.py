"""Servers for shards on this machine: made, started, stopped and removed; several at a time."""

from __future__ import annotations

import contextlib
import os
import shutil
import string
from collections.abc import Iterable, Sequence
from importlib import resources
from pathlib import Path

from pgbillion.common import text
from pgbillion.common.errors import UserError
from pgbillion.common.together import at_once, team
from pgbillion.server.postgres import Cluster
from pgbillion.shards import record

# initdb's files and the first WAL
_DISK_NEEDED = 128 * 1024 * 1024
_MIB = 1024 * 1024


def check_room(state: Path, count: int) -> None:
    """Raise UserError when there is no disk space for the servers, empty as they are at first."""
    there = next(folder for folder in (state, *state.parents) if folder.exists())
    free = shutil.disk_usage(there).free
    if free < count * _DISK_NEEDED:
        raise UserError(
            f"{count} servers need {text.size(count * _DISK_NEEDED)} of disk before the first row, {state} has"
            f" {text.size(free)} left",
            "make fewer, make room, or choose a directory on another disk with --state-dir or PGBILLION_STATE",
        )


def make(clusters: Sequence[Cluster], memory: int, partitions: int, libraries: str = "") -> None:
    """Make and start servers, which share the machine's ``memory`` with the coordinator.

    ``partitions`` are read at a time: the CPU cores are divided among them. ``libraries`` are loaded at start.
    """
    conf = conf_text(memory, len(clusters), partitions, libraries)

    # initdb keeps one CPU core busy
    with team(min(len(clusters), os.cpu_count() or 1)) as making:

        def one(cluster: Cluster) -> None:
            cluster.init(conf=conf)
            if not making.stopped.is_set():
                cluster.start()

        for future in [making.start(one, cluster) for cluster in clusters]:
            future.result()


def conf_text(memory: int, servers: int, partitions: int, libraries: str = "") -> str:
    """Return the settings' file of each of the servers."""
    mib = memory // _MIB // (servers + 1)
    workers = max(0, (os.cpu_count() or 1) // partitions - 1)
    values = {
        "shared_buffers": f"{max(16, mib // 4)}MB",
        "maintenance_work_mem": f"{max(16, min(512, mib // 16))}MB",
        "workers": str(workers),
        "libraries": libraries,
        "max_wal_size": f"{max(256, min(4096, mib))}MB",
    }
    template = resources.files("pgbillion.shards").joinpath("shard.conf").read_text(encoding="utf-8")
    return string.Template(template).substitute(values)


def start(clusters: Iterable[Cluster]) -> int:
    """Start those that do not run, and return how many they were."""
    stopped = [cluster for cluster in clusters if not cluster.running()]
    at_once(lambda cluster: cluster.start(), stopped)
    return len(stopped)


def stop(clusters: Iterable[Cluster]) -> int:
    """Stop those that run, and return how many they were."""
    running = [cluster for cluster in clusters if cluster.running()]
    at_once(lambda cluster: cluster.stop(), running)
    return len(running)


def remove(state: Path, found: record.Set) -> None:
    """Remove a set's own servers and its record, in this order."""
    at_once(lambda cluster: cluster.destroy(), found.clusters(state))
    folder = found.folder(state)
    shutil.rmtree(folder, ignore_errors=True)
    with contextlib.suppress(OSError):
        folder.parent.rmdir()


def of_embedded(state: Path) -> list[Cluster]:
    """Return the servers made for shards of the embedded server's tables."""
    return [cluster for found in record.all_sets(state) if found.embedded for cluster in found.clusters(state)]


def remove_all(state: Path) -> None:
    """Remove the servers made for shards of the embedded server's tables, and what is known of them."""
    for found in list(record.all_sets(state)):
        if found.embedded:
            remove(state, found)

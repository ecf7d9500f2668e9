"""The ladder's server: made, started, stopped and removed, with the file system under it.

It has the embedded server's settings, and a few of its own. full_page_writes stays on, which costs nothing here: bulk
creation logs whole pages anyhow. So it survives that it is killed. That the machine fails, it survives with
``durable`` alone; without, data that may have been lost is noticed, and the ladder begins anew.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from pgbillion.common import invocation, search_path
from pgbillion.common.errors import UserError
from pgbillion.common.host import FileSystem
from pgbillion.common.target import Target
from pgbillion.durability.witness import local_boot
from pgbillion.ladder.disk import Kind
from pgbillion.ladder.record import Ladder
from pgbillion.server import embedded, extension
from pgbillion.server.postgres import Cluster, Installation, make_folder, run_as_server

_REMOVE_SECONDS, _POLL_SECONDS = 10.0, 0.05
_START_SECONDS = 3600  # recovery reads all WAL since the last checkpoint
# linux/fs.h
_FS_IOC_GETFLAGS, _FS_IOC_SETFLAGS, _FS_NOCOW_FL = 0x80086601, 0x40086602, 0x00800000
# the first major version that extends files with posix_fallocate, whose space btrfs never compresses
_PREALLOCATES = 16

Say = Callable[[str], object]


def compresses(path: Path) -> bool:
    """Tell whether a path is on a btrfs that compresses."""
    there = next(folder for folder in (path, *path.parents) if folder.exists())
    system = FileSystem.of(there)
    return system.kind == Kind.BTRFS.partition("-")[0] and any(
        "compress" in one.opts for one in psutil.disk_partitions(all=True) if one.mountpoint == system.mount
    )


def settings(ladder: Ladder, *, compressed: bool) -> dict[str, str]:
    """Return what the server has other than the embedded one."""
    wal = ladder.wal_bytes // 1024**2
    found = {
        "full_page_writes": "on",
        "max_wal_size": f"{wal}MB",
        "min_wal_size": f"{max(32, wal // 4)}MB",
        # as many mebibytes as the disk may have to take in for a checkpoint
        "checkpoint_timeout": "1h",
    }
    if ladder.durable:
        found["fsync"] = "on"
    if compressed and ladder.cluster.installation.major >= _PREALLOCATES:
        found["file_extend_method"] = "write_zeros"
    return found


def check(installation: Installation, *, compressed: bool) -> None:
    """Raise UserError for a server whose files a compressing file system would not compress."""
    if not compressed or installation.major < _PREALLOCATES:
        return
    done = run_as_server([installation.program("postgres"), "--describe-config"], capture_output=True)
    if not re.search(r"^file_extend_method\t", done.stdout, re.MULTILINE):
        raise UserError(
            f"PostgreSQL {installation.version} has no setting file_extend_method, and without it btrfs compresses"
            " nothing: space for tables is allocated before it is written",
            "use a later minor version, or another --filesystem",
        )


def make(ladder: Ladder, compressed: bool) -> None:
    """Make the data directory where there is none; its file system is mounted."""
    cluster = ladder.cluster
    if cluster.half_made():
        shutil.rmtree(cluster.data)
    if (cluster.data / "PG_VERSION").exists():
        return
    make_folder(ladder.base)
    cluster.init(settings(ladder, compressed=compressed), embedded.conf_text(ladder.base))
    _overwrite(cluster.data / "pg_wal")


def start(ladder: Ladder, say: Say) -> Target:
    """Mount the file system, start the server, and return how to reach it; fine if that is done. Raises UserError."""
    if ladder.disk is not None:
        ladder.disk.attach()
    cluster = ladder.cluster
    make(ladder, compressed=compresses(ladder.base))
    if not cluster.running():
        _check_trust(ladder)
        ladder.boot = local_boot()
        ladder.save()
        cluster.start(_START_SECONDS)
    with search_path.pin(cluster.connect()) as conn:
        query = "SELECT 1 FROM pg_database WHERE datname = %s"
        if conn.execute(query, [embedded.DATABASE]).fetchone() is None:
            conn.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(embedded.DATABASE)))
    target = reach(cluster)
    with target.connect() as conn:
        for name in extension.ALL:
            extension.ensure_extension(conn, name)
    return target


def reach(cluster: Cluster) -> Target:
    """Return how to reach a server of the ladder's."""
    conninfo = make_conninfo(cluster.conninfo(embedded.DATABASE), fallback_application_name="pgbillion")
    return Target(conninfo, "the ladder's server")


def stop(ladder: Ladder) -> None:
    """Stop the server and unmount its file system; fine if that is done. Raises UserError."""
    if ladder.installation is not None and ladder.cluster.data.exists():
        ladder.cluster.stop(wait=_START_SECONDS)
    if ladder.disk is not None:
        ladder.disk.detach()


@contextlib.contextmanager
def up(ladder: Ladder, say: Say) -> Iterator[Target]:
    """Have the server run, and take it away again unless the user has started it. Raises UserError."""
    try:
        try:
            yield start(ladder, say)
        except psycopg.OperationalError as error:
            said = str(error).strip().splitlines()
            raise UserError(
                f"the ladder's server cannot be reached: {said[0] if said else 'the connection was lost'}",
                f"its log is {ladder.cluster.log}; go on with: {invocation.again()}",
                status=2,
            ) from error
    except BaseException:
        if not ladder.kept:
            try:
                stop(ladder)
            except UserError as error:
                # what went wrong before is what the user has to know
                say(f"note: {error.message}")
        raise
    if not ladder.kept:
        stop(ladder)


@contextlib.contextmanager
def scratch(ladder: Ladder) -> Iterator[Target]:
    """Give a small server in the state directory that is gone at the end, to try a few tables on."""
    cluster = _scratch(ladder)
    make_folder(cluster.data.parent)
    try:
        # what one that was killed has left
        _remove(cluster)
        cluster.init({"shared_buffers": "128MB", "max_wal_size": "256MB", "min_wal_size": "64MB"}, _conf(ladder))
        cluster.start()
        target = reach(cluster)
        with search_path.pin(cluster.connect()) as conn:
            conn.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(embedded.DATABASE)))
        with target.connect() as conn:
            for name in extension.ALL:
                extension.ensure_extension(conn, name)
        yield target
    finally:
        _remove(cluster)
        shutil.rmtree(cluster.data.parent, ignore_errors=True)


def _remove(cluster: Cluster) -> None:
    """Remove a server, and what an initdb whose command was killed goes on doing for a moment."""
    deadline = time.monotonic() + _REMOVE_SECONDS
    while True:
        try:
            if not cluster.running():
                cluster.kill()
            cluster.destroy()
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(_POLL_SECONDS)


def _scratch(ladder: Ladder) -> Cluster:
    assert ladder.installation is not None
    # its socket is where the other one's will be
    return Cluster(ladder.installation, data=ladder.home / "scratch" / "data", socket_dir=ladder.home / "run")


def destroy(ladder: Ladder) -> None:
    """Remove the server, its file system, and all that is known of the ladder. Raises UserError."""
    if ladder.installation is not None:
        _remove(_scratch(ladder))
    if ladder.disk is not None and not ladder.disk.mounted():
        # the server is in it, and goes with it
        ladder.disk.detach()
    elif ladder.installation is not None:
        _remove(ladder.cluster)
        if ladder.disk is not None:
            ladder.disk.detach()
        else:
            shutil.rmtree(ladder.tablespaces_folder, ignore_errors=True)
            with contextlib.suppress(OSError):
                ladder.base.rmdir()
    shutil.rmtree(ladder.home)


def _conf(ladder: Ladder) -> str:
    return embedded.conf_text(ladder.home)


def _check_trust(ladder: Ladder) -> None:
    """Raise UserError when the machine may have failed while the server wrote without fsync."""
    if ladder.durable or ladder.boot is None or ladder.boot == local_boot():
        return
    cluster = ladder.cluster
    done = run_as_server([cluster.installation.program("pg_controldata"), "-D", cluster.data], capture_output=True)
    state = re.search(r"^Database cluster state: +(.*)$", done.stdout, re.MULTILINE)
    if state is None or state[1] not in ("shut down", "shut down in recovery"):
        raise UserError(
            "the machine was started anew while the ladder's server ran with fsync off: its data cannot be trusted",
            f"remove it: {invocation.command('ladder', 'destroy')}; the next one survives that with --durable",
        )


def _overwrite(folder: Path) -> None:
    """Have btrfs write new files of a directory in place: WAL is written once, and compressing it would take time."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        # other file systems know nothing of it
        with contextlib.suppress(OSError):
            flags = bytearray(struct.calcsize("l"))
            fcntl.ioctl(descriptor, _FS_IOC_GETFLAGS, flags)
            (found,) = struct.unpack("l", flags)
            fcntl.ioctl(descriptor, _FS_IOC_SETFLAGS, struct.pack("l", found | _FS_NOCOW_FL))
    finally:
        os.close(descriptor)

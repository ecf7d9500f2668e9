"""What a power failure leaves: a server on a file system in a file, and a copy of that file at the wrong moment."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from psycopg import sql

from durability_support import DURABLE, Server
from harness import invariants, servers
from harness.root import need_root
from pgbillion.common.errors import UserError
from pgbillion.durability.profiles import Profile
from pgbillion.durability.record import MARK
from pgbillion.durability.relax import Restart
from pgbillion.durability.witness import Trust
from pgbillion.server.postgres import Cluster, Installation, make_folder

_SIZE = 768 * 1024 * 1024
ROWS = 20_000


@dataclass
class Disk:
    """A file system in a file. What is in the file is on disk; what the kernel still holds for it is not."""

    folder: Path

    @property
    def image(self) -> Path:
        return self.folder / "image"

    @property
    def mount(self) -> Path:
        return self.folder / "disk"

    def make(self) -> None:
        with self.image.open("wb") as image:
            image.truncate(_SIZE)
        need_root("a power failure is one of a file system of our own, and only root can mount one")
        # not in everybody's PATH
        mkfs = shutil.which("mkfs.ext4", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
        if mkfs is None:
            pytest.skip("there is no mkfs.ext4")
        done = subprocess.run([mkfs, "-q", "-F", self.image], capture_output=True, check=False)
        if done.returncode != 0 or not self._mounted():
            pytest.skip("no file system can be made in a file and mounted here")

    def _mounted(self) -> bool:
        self.mount.mkdir()
        # so that nothing reaches the file by and by, but only when somebody sees to it
        command: list[str | Path] = ["mount", "-o", "loop,commit=600", self.image, self.mount]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0

    def remove(self) -> None:
        # the last of a server's processes may be leaving it yet
        servers.until(self._unmounted, f"umount {self.mount}")

    def _unmounted(self) -> bool:
        return subprocess.run(["umount", self.mount], capture_output=True, check=False).returncode == 0

    @contextmanager
    def after_power_failure(self, cluster: Cluster) -> Iterator[Cluster]:
        """A copy of the cluster as it would be found if the power failed now; not started."""
        with servers.temporary_folder(lasting=True) as folder:
            copy = Disk(folder)
            subprocess.run(["cp", "--sparse=always", self.image, copy.image], check=True)
            assert copy._mounted()
            try:
                data = copy.mount / cluster.data.relative_to(self.mount)
                (data / "postmaster.pid").unlink(missing_ok=True)
                found = replace(cluster, data=data, socket_dir=folder / "s")
                try:
                    yield found
                finally:
                    found.stop("immediate")
            finally:
                copy.remove()


@pytest.fixture(scope="module")
def disk() -> Iterator[Disk]:
    with servers.temporary_folder(lasting=True) as folder:
        disk = Disk(folder)
        disk.make()
        try:
            yield disk
        finally:
            disk.remove()


@contextmanager
def server_on(disk: Disk, installation: Installation, **settings: str) -> Iterator[Server]:
    with servers.temporary_folder(lasting=True) as folder:
        cluster = Cluster(installation, disk.mount / "data", folder / "s")
        cluster.init({**servers.SETTINGS, **DURABLE, **settings})
        cluster.start()
        try:
            (folder / "durability").mkdir()
            server = Server(cluster, folder)
            server.execute("CREATE EXTENSION amcheck", "CREATE TABLE t (i integer PRIMARY KEY)", "CHECKPOINT")
            subprocess.run(["sync", "-f", disk.mount], check=True)
            yield server
        finally:
            cluster.destroy()


@pytest.fixture
def server(disk: Disk, installation: Installation) -> Iterator[Server]:
    with server_on(disk, installation) as server:
        yield server


def load(server: Server, first: int = 0) -> None:
    """Write rows, and a table whose rows go past the WAL with wal_level = minimal."""
    server.execute(
        f"INSERT INTO t SELECT generate_series({first}, {first + ROWS - 1})",
        f"CREATE TABLE copied_{first} AS SELECT i, repeat('x', 100) AS filler FROM t",
    )


def found(cluster: Cluster) -> int | None:
    """Return how many rows a cluster has after it recovered, all of it sound; None when it is not what it was."""
    try:
        cluster.start()
    except UserError:
        return None
    with cluster.connect() as conn:
        if servers.one(conn, "SELECT to_regclass('copied_0')") is None:
            return None
        assert invariants.index_errors(conn) == []
        assert invariants.heap_errors(conn) == []
        rows = servers.one(conn, "SELECT count(*) FROM t")
        assert rows == servers.one(conn, "SELECT count(*) FROM copied_0")
        assert isinstance(rows, int)
        return rows


@pytest.mark.parametrize("restart", [Restart.NOW, Restart.NEVER])
def test_what_restore_calls_durable_survives(disk: Disk, server: Server, restart: Restart) -> None:
    before = server.picture()
    server.relax(restart=restart)
    load(server)
    with disk.after_power_failure(server.cluster) as lost:
        # else this test could not tell the difference
        assert found(lost) != ROWS
    outcome = server.restore()
    with disk.after_power_failure(server.cluster) as kept:
        assert outcome.not_durable == []
        assert outcome.verdict.trust is Trust.YES
        assert found(kept) == ROWS
        with kept.connect() as conn:
            assert servers.one(conn, "SELECT current_setting(%s, true)", MARK) in (None, "")
            assert servers.one(conn, "SHOW fsync") == "on"
    assert server.picture() == before


def test_wal_in_memory_comes_back_to_disk(disk: Disk, server: Server) -> None:
    with servers.temporary_folder(lasting=True) as folder:
        make_folder(folder / "wal", private=True, for_server=True)
        server.relax(wal_dir=folder / "wal")
        load(server)
        server.restore()
        with disk.after_power_failure(server.cluster) as kept:
            assert found(kept) == ROWS


def test_full_makes_a_loading_server_durable(disk: Disk, installation: Installation) -> None:
    """What was written without fsync before the window is seen to disk at its beginning."""
    off = {"fsync": "off", "full_page_writes": "off", "wal_level": "minimal", "max_wal_senders": "0"}
    with server_on(disk, installation, **off) as server:
        load(server)
        with disk.after_power_failure(server.cluster) as lost:
            assert found(lost) != ROWS
        server.relax(Profile.FULL)
        with disk.after_power_failure(server.cluster) as kept:
            assert server.status().durable
            assert found(kept) == ROWS
        outcome = server.restore()
        # its own settings are what they were
        assert outcome.not_durable == ["fsync = off", "full_page_writes = off"]


def test_nothing_is_durable_before_the_last_old_command_is_over(disk: Disk, server: Server) -> None:
    """A session keeps fsync off until its command ends, and what it commits meanwhile is not on disk."""
    server.relax(restart=Restart.NEVER)
    with server.cluster.connect() as conn, server.cluster.connect() as other:
        pid = conn.info.backend_pid

        def work() -> None:
            conn.execute("DO 'BEGIN FOR n IN 1..1000000 LOOP PERFORM pg_sleep(0.01); COMMIT; END LOOP; END'")

        failure: list[BaseException] = []

        def catching() -> None:
            try:
                work()
            except BaseException as error:
                failure.append(error)

        thread = threading.Thread(target=catching)
        thread.start()
        servers.until(
            lambda: servers.one(other, "SELECT state FROM pg_stat_activity WHERE pid = %s", pid) == "active", "the work"
        )
        with pytest.raises(UserError, match=f"begun under the old settings.*{pid}"):
            server.restore(wait=0.5)
        assert not server.status().durable
        assert server.status().window == "open"
        other.execute("SELECT pg_terminate_backend(%s)", [pid])
        thread.join()
        assert len(failure) == 1
    load(server)
    outcome = server.restore()
    with disk.after_power_failure(server.cluster) as kept:
        assert outcome.not_durable == []
        assert found(kept) == ROWS


def test_power_failure_within_the_window(disk: Disk, server: Server) -> None:
    """It may start, but nobody calls it sound; its settings come back all the same."""
    server.execute("ALTER SYSTEM SET autovacuum_naptime = '59s'")
    before = server.picture()
    server.relax()
    load(server)
    subprocess.run(["sync", "-f", disk.mount], check=True)
    with disk.after_power_failure(server.cluster) as cluster, servers.temporary_folder(lasting=True) as state:
        cluster.start()
        failed = Server(cluster, state)
        as_of_another_boot(failed)
        report = failed.status()
        assert not report.durable
        assert report.trust == Trust.NO
        assert "machine was started anew" in (report.reason or "")
        outcome = failed.restore(restart=True)
        assert outcome.verdict.trust is Trust.NO
        after = failed.picture()
        assert after["auto_conf"].pop(MARK)
        assert after["auto_conf"] == before["auto_conf"]
        values = {name: value for name, (value, _) in after["settings"].items()}
        for name in ("fsync", "full_page_writes", "synchronous_commit", "wal_level", "max_wal_senders", "autovacuum"):
            assert values[name] == before["settings"][name][0]
        # and it stays so, until its owner vouches for it
        assert failed.restore().verdict.trust is Trust.NO
        with pytest.raises(UserError, match="cannot be trusted"):
            failed.relax()
        assert not failed.status().durable
        assert failed.restore(trust=True).verdict.trust is Trust.YES
        assert failed.status().durable


def as_of_another_boot(server: Server) -> None:
    """Have the record say that the window was opened before the machine was last started."""
    text: Any = server.picture()["auto_conf"][MARK]
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert boot in text
    other = text.replace(boot, "00000000-0000-4000-8000-000000000000")
    # up to 15 the session has to know the name
    with server.cluster.connect() as conn:
        name = sql.Identifier(*MARK.split("."))
        conn.execute(sql.SQL("SET {} = ''").format(name))
        conn.execute(sql.SQL("ALTER SYSTEM SET {} = {}").format(name, sql.Literal(other)))
        conn.execute("SELECT pg_reload_conf()")

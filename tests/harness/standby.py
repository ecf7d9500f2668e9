"""A physical standby beside a cluster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pgbillion.common.connection import Connection
from pgbillion.server.postgres import SUPERUSER, Cluster, make_folder, run_as_server

from . import servers
from .servers import one, until


@contextmanager
def standby(primary: Cluster) -> Iterator[Cluster]:
    """A running standby of the cluster."""
    with servers.temporary_folder() as folder:
        there = Cluster(primary.installation, folder / "data", folder / "s", 5432)
        make_folder(there.data, private=True, for_server=True)
        backup: list[str | Path] = [
            primary.installation.program("pg_basebackup"),
            "-R",
            "-X",
            "stream",
            "-c",
            "fast",
            "--no-sync",
        ]
        where: list[str | Path] = ["-h", primary.socket_dir, "-p", str(primary.port), "-U", SUPERUSER]
        run_as_server([*backup, "-D", there.data, *where], check=True, capture_output=True)
        there.start()
        try:
            yield there
        finally:
            there.destroy()


def replayed(primary: Connection, there: Connection) -> None:
    """Wait until the standby has what the primary has written."""
    primary.execute("SELECT txid_current()")  # flushes what an aborted transaction has written
    target = one(primary, "SELECT pg_current_wal_insert_lsn()::text")
    until(lambda: one(there, "SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn", target), f"replay of {target}")

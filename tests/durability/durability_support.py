"""Servers for the tests of durability windows: durable ones, and all that a window may change about them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness import servers
from pgbillion.cli import connect
from pgbillion.common.target import Target
from pgbillion.durability import relax, restore, status
from pgbillion.durability.profiles import Profile
from pgbillion.durability.record import read_auto_conf
from pgbillion.server.postgres import Cluster, Installation

DURABLE = {
    "fsync": "on",
    "full_page_writes": "on",
    "synchronous_commit": "on",
    "autovacuum": "on",
    "checkpoint_timeout": "5min",
    "max_wal_size": "200MB",
}


@dataclass
class Server:
    """A durable server of the user's own, and the state folder of the program that relaxes it."""

    cluster: Cluster
    state: Path
    said: list[str] = field(default_factory=list)

    @property
    def target(self) -> Target:
        return connect.target(dbname=self.cluster.conninfo())

    def relax(self, profile: Profile = Profile.MINIMAL, **options: Any) -> relax.Outcome:
        options = {"restart": relax.Restart.NOW, **options}
        return relax.relax(self.target, relax.Request(profile, **options), self.state, self.said.append)

    def restore(self, **options: Any) -> restore.Outcome:
        return restore.restore(self.target, restore.Request(**options), self.state, self.said.append)

    def status(self) -> status.Report:
        return status.status(self.target, self.state)

    def execute(self, *statements: str) -> None:
        with self.cluster.connect() as conn:
            for statement in statements:
                conn.execute(statement.encode())

    def one(self, query: str, *parameters: object) -> Any:
        with self.cluster.connect() as conn:
            return servers.one(conn, query, *parameters)

    def picture(self) -> dict[str, Any]:
        """Everything a window may change: all settings, the lines of postgresql.auto.conf, pg_wal, the state folder."""
        with self.cluster.connect() as conn:
            # what a server computes for itself, or tells of its place
            query = "SELECT name, setting, source FROM pg_settings WHERE name <> 'transaction_timeout'"
            settings = {name: (value, source) for name, value, source in conn.execute(query)}
        wal = self.cluster.data / "pg_wal"
        return {
            "settings": settings,
            "auto_conf": read_auto_conf(self.cluster.data),
            "pg_wal": str(wal.readlink()) if wal.is_symlink() else "a folder",
            "data": sorted(entry.name for entry in self.cluster.data.iterdir()),
            "state": sorted(path.name for path in (self.state / "durability").glob("*json*")),
        }


@contextmanager
def durable_server(installation: Installation, **settings: str) -> Iterator[Server]:
    settings = {**DURABLE, **settings}
    # nothing in memory is durable, and the commands know
    with (
        servers.temporary_folder(lasting=True) as state,
        servers.new_cluster(installation, settings, lasting=True) as cluster,
    ):
        (state / "durability").mkdir()
        yield Server(cluster, state)

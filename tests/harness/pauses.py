"""A build of pgbillion_rows whose columnar index can be stopped at named places, and how to stop it there."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from pgbillion.common.connection import Connection
from pgbillion.common.paths import extension_source
from pgbillion.server.postgres import Cluster, Installation

from . import servers
from .servers import one, until

_EXTENSION = "pgbillion_rows"


@contextmanager
def installation_with_pauses(installation: Installation) -> Iterator[Installation]:
    """A copy of an installation, with only what can pause compiled again."""
    with servers.copied_installation(installation) as (mine, root):
        build = root / "build" / _EXTENSION
        for compiled in (build / "src" / "column_index").glob("*.o"):
            compiled.unlink()
        (build / f"{_EXTENSION}.so").unlink()
        makefile = extension_source() / _EXTENSION / "Makefile"
        command = ["make", f"-j{os.cpu_count() or 1}", "-f", str(makefile), f"PG_CONFIG={installation.source}"]
        command += ["with_llvm=no", f"pkglibdir={mine.pkglibdir}", f"datadir={mine.sharedir}"]
        env = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
        env["COPT"] = "-DPGBILLION_TEST_PAUSES"
        subprocess.run([*command, "install"], cwd=build, env=env, check=True, capture_output=True)
        yield mine


@contextmanager
def cluster_with_pauses(installation: Installation, **settings: str) -> Iterator[Cluster]:
    with installation_with_pauses(installation) as mine, servers.new_cluster(mine, settings) as cluster:
        yield cluster


@contextmanager
def paused(holder: Connection, place: str) -> Iterator[None]:
    """Whoever comes to a place, in the holder's database, waits there until the end."""
    holder.execute("SELECT pg_advisory_lock(0, hashtext(%s))", [place])
    try:
        yield
    finally:
        holder.execute("SELECT pg_advisory_unlock(0, hashtext(%s))", [place])


def until_paused(monitor: Connection, place: str, number: int = 1) -> None:
    """Wait until so many sessions wait at a place."""
    until(
        lambda: (
            one(
                monitor,
                "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
                " AND objid::bigint = hashtext(%s)::bigint & 4294967295",
                place,
            )
            == number
        ),
        f"a session at {place!r}",
    )

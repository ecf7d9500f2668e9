"""Servers and people for the tests of commands that are printed: every way to name a server and a state folder."""

from __future__ import annotations

import contextlib
import re
import signal
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness import servers
from harness.amount import every
from harness.printed import User
from pgbillion.common import paths
from pgbillion.server import embedded
from pgbillion.server.postgres import Cluster, Installation
from pgbillion.tables.crew import Crew

# how somebody names a server, and how only a state folder
WAYS = ("embedded", "options", "uri", "environment", "service")
STATES = ("option", "variable")


def ways(module: str) -> tuple[str, ...]:
    """Return the ways to name a server for a module's tests: all, or at a smaller scale the first and another."""
    return WAYS if every() == 1 else (WAYS[0], _one(WAYS[1:], module))


def states(module: str) -> tuple[str, ...]:
    """Return the ways to name a state folder for a module's tests: both, or at a smaller scale one of them."""
    return STATES if every() == 1 else (_one(STATES, module),)


def _one(names: tuple[str, ...], module: str) -> str:
    return names[zlib.crc32(module.encode()) % len(names)]


@contextmanager
def state_folder() -> Iterator[Path]:
    """A state folder that has the embedded PostgreSQL with the extensions, and no server; what is there goes."""
    with servers.temporary_folder() as state:
        link_installation(state)
        try:
            yield state
        finally:
            cluster = embedded.find(state)
            if cluster is not None:
                cluster.destroy()


def link_installation(state: Path) -> None:
    """Have a state folder use what is compiled already."""
    with contextlib.suppress(FileExistsError):
        state.mkdir(exist_ok=True)
        (state / "postgresql").symlink_to(paths.state_dir() / "postgresql")


@contextmanager
def embedded_server(installation: Installation) -> Iterator[Cluster]:
    with state_folder() as state:
        yield embedded.start(state, installation.source)[0]


def connected(
    way: str, cluster: Cluster, database: str, folder: Path, *, state: Path | None = None, host: str | None = None
) -> User:
    """Somebody who works on a database of a cluster, which is embedded unless ``state`` is another folder.

    With ``host`` they look for it elsewhere.
    """
    own = str(state or cluster.data.parent)
    socket, port = host or str(cluster.socket_dir), str(cluster.port)
    services = folder / f"services-{database.encode().hex()}"
    services.write_text(f"[there]\nhost={socket}\nport={port}\nuser=postgres\ndbname={database}\n")
    quoted = "".join(char if char.isalnum() else f"%{ord(char):02x}" for char in database)
    option, variable = ("--state-dir", own), {"PGBILLION_STATE": own}
    return {
        "embedded": User(("-d", database, *option), {}),
        "options": User(("-h", socket, "-p", port, "-U", "postgres", "-d", database, *option), {}),
        "uri": User(("-d", f"postgresql://postgres@/{quoted}?host={socket}&port={port}"), variable),
        "environment": User(option, {"PGHOST": socket, "PGPORT": port, "PGUSER": "postgres", "PGDATABASE": database}),
        "service": User((), {"PGSERVICE": "there", "PGSERVICEFILE": str(services), **variable}),
    }[way]


def somebody(way: str, state: Path) -> User:
    """Somebody who has given a state folder alone."""
    return {"option": User(("--state-dir", str(state)), {}), "variable": User((), {"PGBILLION_STATE": str(state)})}[way]


def interrupt_after_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have Ctrl-C pressed when the first tables are there."""
    listen = Crew.listen

    def listened(crew: Crew, seconds: float) -> None:
        listen(crew, seconds)
        if crew.total:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(Crew, "listen", listened)


@contextmanager
def interrupting(*given: object, **more: object) -> Iterator[Callable[[int], None]]:
    """What shows progress: Ctrl-C is pressed with the first."""

    def update(done: int) -> None:
        if done:
            raise KeyboardInterrupt

    yield update


def command(text: str, before: str) -> str:
    """Return the command that is printed behind some words, up to what follows it."""
    (found,) = set(
        re.findall(
            rf"{before}(.*?)(?:\n|; or |; make |; then |;|, with |, then |\) *, then |, or name | first, |$)", text
        )
    )
    return str(found)

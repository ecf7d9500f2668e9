"""Commands that are printed about the extensions' files and objects, each run as printed, however the server was named.

The server has a copy of PostgreSQL, in which all files may be removed. Nothing is compiled: libraries are those that
are there. What cannot be written is what the program is told so.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from psycopg import errors

from harness import servers
from harness.hints import command, connected, somebody, states, ways
from harness.printed import User, runs
from pgbillion.common import paths
from pgbillion.server import deploy, embedded, extension, files, neighbours
from pgbillion.server.extension import ALL, read_pg_config
from pgbillion.server.files import Folders
from pgbillion.server.neighbours import Neighbour
from pgbillion.server.postgres import Cluster, Installation


@dataclass
class Copied:
    """A server with its own copy of PostgreSQL, and what the extensions have in there."""

    cluster: Cluster
    folders: Folders
    content: dict[Path, bytes]

    @property
    def pg_config(self) -> str:
        return str(self.cluster.installation.program("pg_config"))

    def put_back(self) -> None:
        for path, content in self.content.items():
            if not path.exists():
                # the folder of plugins goes with its last file
                path.parent.mkdir(exist_ok=True)
                path.write_bytes(content)
                path.chmod(0o755)


@pytest.fixture(scope="module")
def copied(installation: Installation) -> Iterator[Copied]:
    with servers.temporary_folder() as state:
        shutil.copytree(paths.state_dir() / "postgresql", state / "postgresql", symlinks=True)
        cluster, _ = embedded.start(state, installation.source)
        with cluster.connect() as conn:
            # while a server loads them, files are not removed
            conn.execute("ALTER SYSTEM SET session_preload_libraries = plpgsql")
            conn.execute("SELECT pg_reload_conf()")
        folders = Folders.of(read_pg_config(cluster.installation.program("pg_config")))
        present = {path: path.read_bytes() for path in files.present(folders)}
        yield Copied(cluster, folders, present)
        cluster.destroy()


@pytest.fixture(autouse=True)
def server(copied: Copied, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Copied]:
    """With all files, and without the extensions in its databases."""
    kept = {name: tmp_path / f"{name}.so" for name in ALL}
    for name, path in kept.items():
        path.write_bytes(copied.content[copied.folders.library(name)])
    monkeypatch.setattr(files, "libraries", lambda *given: kept)
    copied.put_back()
    with copied.cluster.connect("billion") as conn:
        conn.execute("DROP EXTENSION IF EXISTS pgbillion_tables, pgbillion_rows CASCADE")
    yield copied
    copied.put_back()


@pytest.fixture
def closed(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Folders that cannot be written to, without the files, until it is undone."""
    with monkeypatch.context() as changed:
        changed.setattr(files, "not_writable", lambda folders: folders.pkglibdir)
        changed.setattr(deploy, "is_there", lambda facts, folders: False)
        yield changed


@pytest.fixture(params=ways(__name__))
def user(request: pytest.FixtureRequest, copied: Copied, tmp_path: Path) -> User:
    return connected(request.param, copied.cluster, "billion", tmp_path)


@pytest.fixture(params=states(__name__))
def owner(request: pytest.FixtureRequest, copied: Copied) -> User:
    """The owner of the files, who names them and no server."""
    return somebody(request.param, copied.cluster.data.parent)


@runs(
    "cli/extension.py install: _again install",
    "cli/extension.py upgrade: _again upgrade",
    "cli/extension.py uninstall: _again uninstall *",
)
def test_files_of_others(owner: User, server: Copied, closed: pytest.MonkeyPatch) -> None:
    lines = []
    for words in (("install",), ("upgrade",), ("uninstall", "--yes", "--force")):
        done = owner.run("extension", *words, "--pg-config", server.pg_config)
        lines.append(command(done.stderr, "PostgreSQL's files: "))
    closed.undo()
    # it is the embedded server's installation, and it is known to run
    assert " --force --yes " in lines[2]
    for line, said in zip(lines, ("then, as a superuser", "then, in each database", " files removed"), strict=True):
        assert said in owner.type(line)


@runs("cli/extension.py uninstall: _again uninstall * (2)")
def test_files_that_others_use(owner: User, server: Copied, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbours, "using", lambda *given, **more: [Neighbour("a server", "it is stopped")])
    done = owner.run("extension", "uninstall", "--yes", "--pg-config", server.pg_config)
    assert " files removed" in owner.type(command(done.stderr, "remove the files all the same: "))
    assert files.present(server.folders) == []


@runs(
    "cli/extension.py install: _again install (2)",
    "cli/extension.py upgrade: _again upgrade (2)",
    "cli/extension.py uninstall: _by_owner * * * *",
)
def test_files_of_others_by_a_server(user: User, server: Copied, closed: pytest.MonkeyPatch) -> None:
    install = command(user.run("extension", "install").stderr, "PostgreSQL's files: ")
    upgrade = command(user.run("extension", "upgrade").stderr, "PostgreSQL's files: ")
    closed.undo()
    for line in (install, upgrade):
        assert "files of version" in user.type(line)
    _remove_by_owner(user, closed)
    assert files.present(server.folders) == []


@runs("cli/extension.py install: _outside * * *", "cli/extension.py uninstall: _by_owner * * * *")
def test_a_folder_outside_the_server_s_own(user: User, server: Copied, closed: pytest.MonkeyPatch) -> None:
    if server.cluster.installation.major < deploy.OUTSIDE_SINCE:
        pytest.skip("PostgreSQL finds extensions in its own directories only")
    done = user.run("extension", "install", "--preload")
    closed.undo()
    line = command(done.stderr, "or without root: ")
    assert " --preload" in line
    with servers.temporary_folder() as folder:
        assert "created" in user.type(line, put={"FOLDER": str(folder)})
        _remove_by_owner(user, closed)
        assert files.present(deploy.outside_folders(folder)) == []
    assert len(files.present(server.folders)) == len(server.content)


def _remove_by_owner(user: User, closed: pytest.MonkeyPatch) -> None:
    closed.setattr(files, "not_writable", lambda folders: folders.pkglibdir)
    done = user.run("extension", "uninstall", "--yes")
    closed.undo()
    assert " files removed" in user.type(command(done.stdout, "by their owner: "))


@runs("cli/extension.py uninstall: _again uninstall * (3)")
def test_files_that_others_use_besides(user: User, server: Copied, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbours, "using", lambda *given, **more: [Neighbour("a server", "it is stopped")])
    done = user.run("extension", "uninstall", "--yes")
    assert " files removed" in user.type(command(done.stdout, "all the same: "), answer="y\n")
    assert files.present(server.folders) == []


@runs("cli/extension.py upgrade: _step * * None", "cli/extension.py upgrade: _step * * None (2)")
def test_what_an_upgrade_leaves_to_do(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as changed:
        changed.setattr(files, "present", lambda folders: [])
        done = user.run("extension", "upgrade")
    assert "created" in user.type(command(done.stderr, "hint: "))
    with monkeypatch.context() as changed:
        changed.setattr(deploy, "to_do", lambda found: [deploy.UPGRADE])
        done = user.run("extension", "upgrade")
    user.type(command(done.stderr, "note: "))


@runs(
    "server/extension.py ensure_extension: extension install *",
    "server/extension.py ensure_extension: extension upgrade *",
    "server/extension.py ensure_extension: extension upgrade * (2)",
)
def test_an_extension_that_cannot_be_used(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*given: Any) -> None:
        raise errors.FeatureNotSupported("no")

    with monkeypatch.context() as changed:
        changed.setattr(extension, "check_creatable", refused)
        done = user.run("tables", "create", "-n", "1")
    assert "created" in user.type(command(done.stderr, "machine, run: "))
    for there in (("9.9.9", "9.9.9"), (f"{paths.version()}1", paths.version())):
        with monkeypatch.context() as changed:
            changed.setattr(extension, "versions", lambda *given, there=there: there)
            done = user.run("tables", "create", "-n", "1")
        user.type(command(done.stderr, "run: "))


@runs("cli/connect.py _put_back: extension install --pg-config *")
@pytest.mark.parametrize("way", ways(__name__)[1:])
def test_a_library_that_the_settings_name(way: str, server: Copied, tmp_path: Path) -> None:
    user = connected(way, server.cluster, "billion", tmp_path, state=tmp_path)
    library = server.folders.library("pgbillion_rows")
    with server.cluster.connect() as conn:
        conn.execute("ALTER DATABASE billion SET session_preload_libraries = 'pgbillion_rows'")
        library.unlink()
        done = user.run("tables", "list")
        user.type(command(done.stderr, "put it back: "))
        assert library.exists()
        server.cluster.connect("billion").close()
        conn.execute("ALTER DATABASE billion RESET session_preload_libraries")

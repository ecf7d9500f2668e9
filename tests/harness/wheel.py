"""The program as its users have it: a wheel in a virtual environment of its own, and nothing of this checkout's."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

from harness import servers
from pgbillion.server import files
from pgbillion.server.extension import ALL
from pgbillion.server.files import Folders
from pgbillion.server.postgres import Cluster, Installation

PROJECT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Program:
    """The installed command line, run without a compiler and without anything else in PATH."""

    wheel: Path
    path: Path

    def run(
        self, *arguments: str | Path, ordinary: bool = False, env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run it; ``ordinary``: permissions bind root as they bind everybody else."""
        bound = ["/usr/bin/setpriv", "--bounding-set", "-dac_override,-dac_read_search"]
        return subprocess.run(
            [*(bound if ordinary and os.geteuid() == 0 else []), str(self.path), *map(str, arguments)],
            env={"PATH": "/no/bin", "HOME": "/no/home", "NO_COLOR": "1", "LC_ALL": "C.UTF-8", **(env or {})},
            cwd="/",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )

    def ok(self, *arguments: str | Path) -> str:
        done = self.run(*arguments)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    def fails(self, status: int, error: str, hint: str, *arguments: str | Path, ordinary: bool = False) -> None:
        """Expect one `error:` line and one `hint:` line, and nothing else."""
        done = self.run(*arguments, ordinary=ordinary)
        lines = done.stderr.splitlines()
        assert len(lines) == 2, done.stderr
        assert re.search(f"^error: .*{error}", lines[0]), lines
        assert re.search(f"^hint: .*{hint}", lines[1]), lines
        assert (done.returncode, done.stdout) == (status, "")


@dataclass(frozen=True)
class Server:
    """A copy of an installation without our files, and a cluster of it."""

    cluster: Cluster
    folders: Folders

    @property
    def pg_config(self) -> str:
        return str(self.cluster.installation.bindir / "pg_config")

    @property
    def options(self) -> tuple[str, ...]:
        return "-h", str(self.cluster.socket_dir), "-U", "postgres", "-d", "postgres"

    def files(self) -> set[Path]:
        return {path for folder in (self.folders.pkglibdir, self.folders.sharedir) for path in folder.rglob("*")}


@contextmanager
def copied_server(installation: Installation) -> Iterator[Server]:
    with servers.copied_installation(installation, "build") as (mine, root):
        folders = Folders(mine.pkglibdir, mine.sharedir)
        files.remove(folders)
        cluster = Cluster(mine, root.parent / "data", root.parent / "s", 5432)
        cluster.init(servers.SETTINGS)
        cluster.start()
        try:
            yield Server(cluster, folders)
        finally:
            cluster.destroy()


def build(installation: Installation, folder: Path) -> Path:
    """Pack a wheel with the libraries that were compiled for an installation."""
    libraries = folder / "libraries" / str(installation.major)
    libraries.mkdir(parents=True)
    for name in ALL:
        shutil.copyfile(installation.pkglibdir / f"{name}.so", libraries / f"{name}.so")
    to = folder / "dist"
    command = ["tools/wheel.sh", str(libraries.parent), str(to)]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.strip())


def _needed(texts: Iterable[str], extras: Sequence[str] = ()) -> Iterator[str]:
    """Give the packages that requirements name, and what those need."""
    for text in texts:
        wanted = Requirement(text)
        if wanted.marker is None or any(wanted.marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            yield wanted.name
            yield from _needed(metadata.requires(wanted.name) or (), sorted(wanted.extras))


def _requirements(wheel: Path, extras: Sequence[str] = ()) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        text = archive.read(name).decode()
    return set(_needed(re.findall(r"(?m)^Requires-Dist: (.*)$", text), extras))


@contextmanager
def installed(installation: Installation, *extras: str) -> Iterator[Program]:
    """The wheel for an installation, installed with what it and these extras require and no more."""
    with servers.temporary_folder() as folder:
        wheel = build(installation, folder)
        venv = folder / "venv"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
        packages = next((venv / "lib").glob("python3*")) / "site-packages"
        # copies of what is installed here: links would let the sources of this checkout in
        for name in _requirements(wheel, extras):
            tops = {Path(file).parts[0] for file in metadata.files(name) or ()}
            home = Path(str(metadata.distribution(name).locate_file("")))
            for top in tops - {"..", "__pycache__"}:
                if (home / top).is_dir():
                    shutil.copytree(home / top, packages / top, dirs_exist_ok=True)
                else:
                    shutil.copy2(home / top, packages / top)
        pip = [sys.executable, "-m", "pip", "--python", str(venv / "bin" / "python"), "--disable-pip-version-check"]
        env = {**os.environ, "PIP_ROOT_USER_ACTION": "ignore"}
        subprocess.run([*pip, "install", "--quiet", "--no-index", "--no-deps", str(wheel)], check=True, env=env)
        yield Program(wheel, venv / "bin" / "pgbillion")

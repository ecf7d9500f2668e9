"""What other packagers get: PGXN's metadata and archive, the archive of the sources, RPM, Debian, Docker."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from pgbillion import __version__
from pgbillion.server.extension import ALL
from pgbillion.server.postgres import SUPPORTED_MAJORS, Installation

PROJECT = Path(__file__).parents[2]
PACKAGING = PROJECT / "packaging"
META = json.loads((PROJECT / "META.json").read_text(encoding="utf-8"))
# PGXN's terms and semantic versions, and the licenses that it knows by a word of ours
TERM = re.compile(r"[^\s/\\\x00-\x1f]{2,}")
VERSION = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[A-Za-z][0-9A-Za-z-]*)?")


def test_metadata_is_what_pgxn_takes() -> None:
    """Its specification 1.0.0: what must be there, of which type, and nothing that it does not know."""
    required = {"name", "abstract", "version", "maintainer", "license", "provides", "meta-spec"}
    optional = {"description", "generated_by", "no_index", "prereqs", "release_status", "resources", "tags"}
    assert required <= set(META) <= required | optional
    assert TERM.fullmatch(META["name"])
    assert VERSION.fullmatch(META["version"])
    assert META["license"] == "postgresql"
    assert META["release_status"] in ("stable", "testing", "unstable")
    assert META["meta-spec"] == {"version": "1.0.0", "url": "https://pgxn.org/meta/spec.txt"}
    assert META["maintainer"]
    assert all(isinstance(one, str) and one for one in META["maintainer"])
    assert all(isinstance(tag, str) and 0 < len(tag) < 256 for tag in META["tags"])
    for name, provided in META["provides"].items():
        assert TERM.fullmatch(name)
        assert {"file", "version"} <= set(provided) <= {"file", "version", "abstract", "docfile"}
        assert VERSION.fullmatch(provided["version"])
    for phase, relations in META["prereqs"].items():
        assert phase in ("configure", "runtime", "build", "test", "develop")
        for relation, packages in relations.items():
            assert relation in ("requires", "recommends", "suggests", "conflicts")
            assert all(version == 0 or VERSION.fullmatch(version) for version in packages.values())


def test_metadata_is_of_this_version() -> None:
    assert META["version"] == __version__
    assert set(META["provides"]) == set(ALL)
    for name, provided in META["provides"].items():
        assert provided["version"] == __version__
        assert provided["file"] == f"extensions/{name}/sql/{name}--{__version__}.sql"
        assert (PROJECT / provided["file"]).exists()
        assert (PROJECT / provided["docfile"]).exists()
    assert META["prereqs"]["runtime"]["requires"]["PostgreSQL"] == f"{SUPPORTED_MAJORS[0]}.0.0"


def test_packages_are_of_this_version_and_its_majors() -> None:
    spec = (PACKAGING / "rpm" / "pgbillion.spec").read_text()
    assert re.search(rf"(?m)^Version: +{re.escape(__version__)}$", spec)
    assert (PACKAGING / "debian" / "changelog").read_text().startswith(f"pgbillion ({__version__}) ")
    majors = (PACKAGING / "debian" / "pgversions").read_text().split()
    assert majors == [str(major) for major in SUPPORTED_MAJORS]


def test_what_the_image_copies_is_there() -> None:
    text = (PACKAGING / "docker" / "Dockerfile").read_text()
    copied = re.findall(r"(?m)^COPY (?!--from)(\S+) ", text)
    assert copied
    assert all((PROJECT / name).exists() for name in copied)
    stages = re.findall(r"(?m)^FROM (\S+)", text)
    assert set(stages) == {"postgres:${MAJOR}-bookworm"}


def _archive(folder: Path) -> Path:
    done = subprocess.run(["tools/pgxn.sh", str(folder)], cwd=PROJECT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.strip())


def test_the_archive_builds_and_installs(tmp_path: Path, installation: Installation) -> None:
    """With `make install` at its top. What it would compile is only told: the same is compiled everywhere else."""
    path = _archive(tmp_path)
    top = f"pgbillion-{__version__}"
    assert path.name == f"{top}.zip"
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        archive.extractall(tmp_path)
    assert all(name.startswith(f"{top}/") for name in names)
    home = tmp_path / top
    assert json.loads((home / "META.json").read_text())["name"] == "pgbillion"
    script = home / "tools" / "extensions.sh"
    script.chmod(0o755)
    script.write_text(script.read_text().replace("make --no-print-directory", "make --dry-run --no-print-directory"))
    done = subprocess.run(
        ["make", "install", f"PG_CONFIG={installation.source}"],
        cwd=home,
        env={name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    for name in ALL:
        assert f"{name}.so" in done.stdout
        assert f"{name}--{__version__}.sql" in done.stdout
    assert "plugins/pgbillion_rows.so" in done.stdout


@pytest.mark.parametrize(
    ("machine", "refused"),
    [
        ("", False),
        ("#define WORDS_BIGENDIAN 1", True),
        ("#undef SIZEOF_VOID_P\n#define SIZEOF_VOID_P 4", True),
    ],
)
def test_other_machines_are_refused(installation: Installation, machine: str, refused: bool) -> None:
    """What reads rows by words would give wrong answers there."""
    headers = subprocess.run(
        [installation.source, "--includedir-server"], capture_output=True, text=True, check=True
    ).stdout.strip()
    source = f'#include "postgres.h"\n{machine}\n#include "compat.h"\n'
    shared = PROJECT / "extensions" / "shared"
    compile_ = ["cc", "-fsyntax-only", "-isystem", headers, f"-I{shared}", "-x", "c", "-"]
    done = subprocess.run(compile_, input=source, capture_output=True, text=True)
    assert (done.returncode != 0) is refused, done.stderr
    assert ("64-bit, little-endian" in done.stderr) is refused


def test_the_archive_of_the_sources(tmp_path: Path) -> None:
    """Only what belongs to the project: no server's data, and nothing that was built."""
    command = [sys.executable, "-m", "hatchling", "build", "--target", "sdist", "--directory", str(tmp_path)]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (path,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"pyproject.toml", "META.json", "tools/wheel_hook.py", "src/pgbillion/__init__.py"} <= names
    tracked = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    assert names - {*tracked, "PKG-INFO", ".gitignore"} == set()

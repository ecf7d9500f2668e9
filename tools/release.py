"""What .github/workflows/release.yml checks before it publishes a version.

    tools/release.py check TAG        the tag names this version, and CHANGELOG.md says when it was released
    tools/release.py verify [DIST]    DIST (dist/) holds the wheels, the sources and PGXN's archive, and nothing else
    tools/release.py notes            print the version's part of CHANGELOG.md

Each ends with status 1 and one line for each problem.
"""

from __future__ import annotations

import re
import struct
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from email.parser import Parser
from pathlib import Path

from pgbillion.common.paths import version
from pgbillion.server.extension import ALL
from pgbillion.server.postgres import SUPPORTED_MAJORS

ROOT = Path(__file__).parents[1]
DATED = re.compile(r"\d{4}-\d\d-\d\d")
# by machine: its number in ELF files, and the major versions for which tools/wheels.sh compiles there
MACHINES = {"x86_64": (62, SUPPORTED_MAJORS), "aarch64": (183, SUPPORTED_MAJORS[:-1])}
# the C library that docs/install.md promises
GLIBC = "manylinux_2_17"


def section() -> tuple[str, str]:
    """Return the state of this version in CHANGELOG.md (a date, if it was released), and its changes."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    found = re.search(rf"(?ms)\A# Changes\n+## {re.escape(version())} \(([^)]*)\)\n(.*?)(?=^## |\Z)", text)
    return (found[1], found[2].strip()) if found else ("", "")


def check(tag: str) -> Iterator[str]:
    if tag != f"v{version()}":
        yield f"the tag is {tag}, but the control files have version {version()}"
    state, changes = section()
    if not changes:
        yield f"CHANGELOG.md does not begin with changes of {version()}"
    elif not DATED.fullmatch(state):
        yield f"CHANGELOG.md has {version()} as '{state}', not with the date of its release"
    # PGXN's archive is made of the commit, and everything else of the files
    if subprocess.run(["git", "status", "--porcelain"], cwd=ROOT, capture_output=True, text=True, check=True).stdout:
        yield "there are changes that are not committed"


def wheel_problems(path: Path, machine: str) -> Iterator[str]:
    number, majors = MACHINES[machine]
    with zipfile.ZipFile(path) as archive:
        names = set(archive.namelist())
        metadata = f"pgbillion-{version()}.dist-info/METADATA"
        if metadata not in names or Parser().parsestr(archive.read(metadata).decode())["Version"] != version():
            yield f"{path.name} has no metadata of {version()}"
        wanted = {f"pgbillion/_libraries/{major}/{name}.so" for major in majors for name in ALL}
        for name in sorted(wanted - names):
            yield f"{path.name} lacks {name}"
        for name in sorted(wanted & names):
            if struct.unpack_from("<H", archive.read(name), 18)[0] != number:
                yield f"{path.name} has {name} for another machine"


def verify(dist: Path) -> Iterator[str]:
    wheels = {f"pgbillion-{version()}-py3-none-{GLIBC}_{machine}.whl": machine for machine in MACHINES}
    sources, pgxn = f"pgbillion-{version()}.tar.gz", f"pgbillion-{version()}.zip"
    found = {path.name for path in dist.iterdir()} - {".gitignore"} if dist.is_dir() else set()
    for name in sorted({*wheels, sources, pgxn} - found):
        yield f"{dist} lacks {name}"
    for name in sorted(found - {*wheels, sources, pgxn}):
        yield f"{dist} also has {name}"
    for name in sorted(found & set(wheels)):
        yield from wheel_problems(dist / name, wheels[name])
    top = f"pgbillion-{version()}"
    if sources in found:
        with tarfile.open(dist / sources) as archive:
            if f"{top}/PKG-INFO" not in archive.getnames():
                yield f"{sources} lacks {top}/PKG-INFO"
    if pgxn in found:
        with zipfile.ZipFile(dist / pgxn) as archive:
            if f"{top}/META.json" not in archive.namelist():
                yield f"{pgxn} lacks {top}/META.json"


def main(arguments: list[str]) -> int:
    match arguments:
        case ["check", tag]:
            problems = list(check(tag))
        case ["verify", *rest] if len(rest) < 2:
            problems = list(verify(Path(*rest) if rest else ROOT / "dist"))
        case ["notes"]:
            print(section()[1])
            problems = []
        case _:
            problems = ["usage: tools/release.py check TAG | verify [DIST] | notes"]
    for problem in problems:
        print(f"error: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

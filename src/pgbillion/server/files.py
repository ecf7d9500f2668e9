"""The extensions' files: libraries, which came with the package or are compiled, control files and scripts.

They are put into the folders of an installation, and removed from there. What is there already is told from the files
alone, without loading them. Libraries that came with the package are used where they fit the server, which is asked;
everywhere else they are compiled.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pgbillion.common import paths
from pgbillion.common.errors import UserError
from pgbillion.server.extension import ALL, ROWS, PgConfig, check_tools, how_to_install

# What a library is built for, beyond what PostgreSQL itself compares when it loads one; the library compares them, too.
_BUILD_OPTIONS = ("block_size", "wal_block_size", "segment_size", "debug_assertions")
_USUAL = {"block_size": "8192", "wal_block_size": "8192", "segment_size": "131072", "debug_assertions": "off"}
_MARK = re.compile(rb"pgbillion build: (\w+) ([0-9.]+) (\d+)\0")
_VERSION_NUM = re.compile(r"(?m)^#define PG_VERSION_NUM (\d+)")
# of an ELF file's header: class and byte order, and the machine
_ELF = ((4, 6), (18, 20))


Say = Callable[[str], object]


def _silent(line: str) -> None:
    pass


@dataclass(frozen=True)
class Build:
    """What a library says of itself: its version, and the PostgreSQL it was built against, as in 180006."""

    name: str
    version: str
    server_num: int

    @property
    def server(self) -> str:
        """The version of that PostgreSQL, as in 18.6."""
        return dotted(self.server_num)


@dataclass(frozen=True)
class Folders:
    """Where an installation keeps libraries and, below ``sharedir``, the files of extensions."""

    pkglibdir: Path
    sharedir: Path

    @property
    def extension(self) -> Path:
        """The folder of control files and scripts."""
        return self.sharedir / "extension"

    @property
    def plugins(self) -> Path:
        """The folder of libraries that every role may load."""
        return self.pkglibdir / "plugins"

    def library(self, name: str) -> Path:
        """Return the path of an extension's library."""
        return self.pkglibdir / f"{name}.so"

    @classmethod
    def of(cls, facts: PgConfig) -> Folders:
        """Return those of an installation itself."""
        return cls(facts.pkglibdir, facts.sharedir)


def dotted(server_num: int) -> str:
    """Return a version of PostgreSQL as its users write it: 18.6 for 180006."""
    return f"{server_num // 10000}.{server_num % 10000}"


def build_of(library: Path) -> Build | None:
    """Return what a library says of itself; None where there is none, or one of before 0.2.0."""
    try:
        found = _MARK.search(library.read_bytes())
    except OSError:
        return None
    return Build(found[1].decode(), found[2].decode(), int(found[3])) if found else None


def version_of(folders: Folders, name: str) -> str | None:
    """Return the version that CREATE EXTENSION would make with these files; None without them."""
    try:
        control = (folders.extension / f"{name}.control").read_text(encoding="utf-8")
    except OSError:
        return None
    match = re.search(r"^default_version = '([^']+)'", control, re.MULTILINE)
    return match[1] if match else None


# ---- what came with the package ----


def prebuilt() -> dict[int, dict[str, Build]]:
    """Return what libraries came with the package, by major version and extension."""
    found: dict[int, dict[str, Build]] = {}
    for folder in sorted(paths.libraries().glob("[0-9]*")):
        builds = {name: build for name in ALL if (build := build_of(folder / f"{name}.so")) is not None}
        if len(builds) == len(ALL):
            found[int(folder.name)] = builds
    return found


def why_not_prebuilt(facts: PgConfig) -> str | None:
    """Return why the libraries that came with the package do not fit a server, None where they do."""
    builds = prebuilt().get(facts.major)
    if builds is None:
        return f"this package has no libraries for PostgreSQL {facts.major}"
    options = _options_of(facts)
    # it may run by emulation, or be a script
    machines = {_machine(facts.bindir / "postgres"), _machine(paths.libraries() / str(facts.major) / f"{ROWS}.so")}
    if len(machines - {None}) > 1:
        return "this package has libraries for another kind of machine"
    lowest = max(build.server_num for build in builds.values())
    # what runs may be newer or older than what its pg_config says
    running = int(options["server_version_num"])
    if running < lowest:
        return f"this package has libraries for PostgreSQL {dotted(lowest)} or later, and this is {dotted(running)}"
    for name in _BUILD_OPTIONS:
        if options[name] != _USUAL[name]:
            return f"this package has libraries for {name} = {_USUAL[name]}, and this server has {options[name]}"
    return None


def _machine(program: Path) -> bytes | None:
    """Return what an ELF file is for, None for anything else."""
    try:
        with program.open("rb") as file:
            header = file.read(20)
    except OSError:
        return None
    return b"".join(header[start:end] for start, end in _ELF) if header.startswith(b"\x7fELF") else None


def _options_of(facts: PgConfig) -> Mapping[str, str]:
    """Ask an installation's server program for what it was built with. Raises UserError when it does not run."""
    program = facts.bindir / "postgres"
    found: dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix="pgbillion-") as nothing:
        for name in ("server_version_num", *_BUILD_OPTIONS):
            # an empty folder in place of data: nothing is started
            command = [str(program), "-C", name, "-D", nothing, "-c", "config_file=/dev/null"]
            try:
                done = subprocess.run(command, capture_output=True, text=True, cwd="/", check=True)
            except OSError as error:
                raise UserError(
                    f"{program} does not run on this machine: {error.strerror}",
                    "name pg_config of a server that does with --pg-config",
                ) from error
            except subprocess.CalledProcessError as error:
                said = (error.stderr or "").strip().splitlines()
                raise UserError(f"{program} does not run: {said[-1] if said else 'it said nothing'}") from error
            found[name] = done.stdout.strip()
    return found


# ---- into an installation, and out of it ----


def install(facts: PgConfig, build: Path, folders: Folders, say: Say = _silent) -> None:
    """Put the extensions for an installation into folders; what must be compiled for that is kept in ``build``.

    Does nothing when the files that were put there last are there. Raises UserError for missing tools or headers and
    for a failing compiler.
    """
    source = paths.extension_source()
    stamp, fingerprint = build / "installed", _fingerprint(source, facts)
    # somebody may have removed them, as `extension uninstall` does
    if stamp.exists() and stamp.read_text() == fingerprint and complete(folders):
        return
    build.mkdir(parents=True, exist_ok=True)
    place(libraries(facts, build, say), folders)
    stamp.write_text(fingerprint)


def libraries(facts: PgConfig, build: Path, say: Say = _silent) -> dict[str, Path]:
    """Return the libraries for an installation by extension: those of the package, or compiled in ``build``.

    ``say`` is called before anything is compiled, which takes its time. Raises UserError as `install` does; for missing
    tools it also tells why those of the package do not fit.
    """
    reason = why_not_prebuilt(facts)
    if reason is None:
        folder = paths.libraries() / str(facts.major)
        return {name: folder / f"{name}.so" for name in ALL}
    try:
        check_tools(facts)
    except UserError as error:
        if not prebuilt():
            raise
        raise UserError(f"{reason}, and compiling fails: {error.message}", error.hint, error.status) from error
    _check_headers(facts)
    say(f"compiling the extensions for PostgreSQL {facts.version}, which takes about half a minute")
    return {name: _compile(name, facts, build / name) for name in ALL}


def _check_headers(facts: PgConfig) -> None:
    """Raise UserError when a library made with an installation's headers would be refused by its server."""
    path = Path(facts.values["INCLUDEDIR-SERVER"], "pg_config.h")
    try:
        found = _VERSION_NUM.search(path.read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return
    running = int(_options_of(facts)["server_version_num"])
    headers = int(found[1]) if found else running
    # those of an earlier minor version are no harm
    if headers > running or headers // 10000 != running // 10000:
        package = how_to_install([f"postgresql-{running // 10000}"])
        raise UserError(
            f"the development files are of PostgreSQL {dotted(headers)}, and the server is {dotted(running)},"
            " which would refuse to load what is compiled with them",
            f"upgrade the server to their version: {package}; or install those of {dotted(running)}",
        )


def place(libraries: Mapping[str, Path], folders: Folders) -> None:
    """Put libraries, control files and scripts into folders.

    Each file is replaced as a whole: processes that have loaded a library keep the one they have. An upgrade of the
    SQL objects needs the library first, CREATE EXTENSION the control file last.
    """
    for folder in (folders.pkglibdir, folders.extension, folders.plugins):
        _make_folder(folder)
    for name, library in libraries.items():
        _replace(library, folders.library(name), 0o755)
        source = paths.extension_source() / name
        for script in sorted((source / "sql").glob(f"{name}--*.sql")):
            _replace(script, folders.extension / script.name, 0o644)
        _replace(source / f"{name}.control", folders.extension / f"{name}.control", 0o644)
    # what every role may load changes the plans of its own session, and no right
    link = folders.plugins / f"{ROWS}.so"
    if not link.is_symlink():
        # a copy of an installation has the library itself here, of whichever version
        link.unlink(missing_ok=True)
        link.symlink_to(Path("..", link.name))


def remove(folders: Folders) -> int:
    """Remove what `place` put there, and folders that were made for it; return the number of files."""
    found = present(folders)
    for path in found:
        path.unlink()
    for folder in (folders.plugins, folders.extension, folders.sharedir, folders.pkglibdir):
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
    return len(found)


def present(folders: Folders) -> list[Path]:
    """Return the extensions' files in folders."""
    found = [path for name in ALL for path in folders.extension.glob(f"{name}--*.sql")]
    found += [folders.extension / f"{name}.control" for name in ALL]
    found += [folders.library(name) for name in ALL] + [folders.plugins / f"{ROWS}.so"]
    return [path for path in found if path.is_symlink() or path.exists()]


def complete(folders: Folders) -> bool:
    """Tell whether libraries, control files and this version's scripts are in folders."""
    version = paths.version()
    wanted = [folders.plugins / f"{ROWS}.so", *(folders.library(name) for name in ALL)]
    wanted += [folders.extension / f"{name}.control" for name in ALL]
    wanted += [folders.extension / f"{name}--{version}.sql" for name in ALL]
    return all(path.exists() for path in wanted)


def not_writable(folders: Folders) -> Path | None:
    """Return the first folder in which we may not make or replace files, None where we may in all."""
    for folder in (folders.pkglibdir, folders.extension, folders.plugins):
        there = next(path for path in (folder, *folder.parents) if path.exists())
        if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
            return there
    return None


def same(libraries: Mapping[str, Path], folders: Folders) -> bool:
    """Tell whether the files in folders are the ones that `place` would put there."""
    pairs = [(library, folders.library(name)) for name, library in libraries.items()]
    for name in libraries:
        source = paths.extension_source() / name
        files = [source / f"{name}.control", *(source / "sql").glob(f"{name}--*.sql")]
        pairs += [(file, folders.extension / file.name) for file in files]
    return all(there.is_file() and file.read_bytes() == there.read_bytes() for file, there in pairs)


def _make_folder(folder: Path) -> None:
    """Make a folder, and its parents, that everybody can read."""
    for missing in reversed([path for path in (folder, *folder.parents) if not path.exists()]):
        missing.mkdir(exist_ok=True)
        missing.chmod(0o755)


def _replace(source: Path, target: Path, mode: int) -> None:
    new = target.with_name(f".{target.name}.new")
    try:
        shutil.copyfile(source, new)
        new.chmod(mode)
        new.replace(target)
    except BaseException:
        new.unlink(missing_ok=True)
        raise


# ---- compiling ----


def _compile(name: str, facts: PgConfig, build: Path) -> Path:
    source = paths.extension_source() / name
    if any(source.glob("src/**/*.o")):
        raise UserError(
            f"there are object files in {source}, which make would take for this server's",
            f"make -C {source} clean",
        )
    build.mkdir(parents=True, exist_ok=True)
    library = build / f"{name}.so"
    # linked again even when all that happened is that a source file is gone
    library.unlink(missing_ok=True)
    log = build / "make.log"
    command = ["make", f"-j{os.cpu_count() or 1}", "-f", str(source / "Makefile"), f"PG_CONFIG={facts.pg_config}"]
    # bitcode would need the very clang the server was built with, and is for inlining into JIT code only
    command += ["with_llvm=no", "all"]
    env = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
    with log.open("w") as output:
        made = subprocess.run(command, cwd=build, env=env, stdout=output, stderr=subprocess.STDOUT)
    if made.returncode != 0:
        raise UserError(f"{name} could not be built: {_first_error(log)}", f"all that make said is in {log}")
    return library


def _fingerprint(source: Path, facts: PgConfig) -> str:
    """Change with every change of a source file, of the package's libraries, and of the server they are for."""
    digest = hashlib.sha256(json.dumps([str(source), facts.version, dict(facts.values)]).encode())
    parts = [
        path for name in ("*.mk", "*.map", "Makefile", "*.control", "*.sql", "*.[ch]") for path in source.rglob(name)
    ]
    for path in sorted(parts):
        digest.update(f"{path.relative_to(source)}\0".encode() + path.read_bytes() + b"\0")
    for path in sorted(paths.libraries().glob(f"{facts.major}/*.so")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _first_error(log: Path) -> str:
    text = log.read_text(encoding="utf-8", errors="replace")
    match = re.search(r"^.*(?:error:|Error |\*\*\* ).*$", text, re.MULTILINE)
    return match.group(0).strip() if match else "make failed"

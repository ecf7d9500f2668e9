"""pg_dump and pg_restore of PostgreSQL on this machine, of the major versions that fit two servers, run as we are."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pgbillion.common.errors import UserError
from pgbillion.server.extension import how_to_install
from pgbillion.server.postgres import embedded_pg_config

# where packages put the programs of each major version, below the root
_FOLDERS = (
    "usr/lib/postgresql/*/bin",
    "usr/pgsql-*/bin",
    "usr/local/opt/*postgresql*/bin",
    "opt/homebrew/opt/*postgresql*/bin",
)


@dataclass(frozen=True)
class Programs:
    """Both programs, of one installation."""

    dump: Path
    restore: Path
    major: int


def find(least: int, most: int | None = None, bindir: Path | None = None) -> Programs:
    """Return programs of at least one major version, and at most another: the oldest that there are.

    An older pg_dump refuses a server, and what a newer one writes an older server may refuse. ``bindir`` is the folder
    that the user has named. Raises UserError.
    """
    found = [programs for folder in _folders(bindir) if (programs := _programs(folder)) is not None]
    fitting = [programs for programs in found if least <= programs.major and (most is None or programs.major <= most)]
    if fitting:
        return min(fitting, key=lambda programs: programs.major)
    wanted = f"{least}" if most == least else f"{least} to {most}" if most is not None else f"{least} or newer"
    where = f"in {bindir}" if bindir is not None else "on this machine"
    other = f", only of {', '.join(sorted({str(one.major) for one in found}))}" if found else ""
    raise UserError(
        f"there are no pg_dump and pg_restore of PostgreSQL {wanted} {where}{other}",
        f"{how_to_install([f'postgresql-client-{least}'])}, or name their directory with --bindir",
    )


def folders() -> Iterator[Path]:
    """Give the folders in which PostgreSQL's programs may be on this machine."""
    return _folders(None)


def _folders(bindir: Path | None) -> Iterator[Path]:
    if bindir is not None:
        yield bindir
        return
    given = os.environ.get("PG_CONFIG")
    if given and (program := shutil.which(given)) is not None:
        yield Path(program).parent
    for pattern in _FOLDERS:
        yield from sorted(Path("/").glob(pattern))
    with contextlib.suppress(UserError):
        yield embedded_pg_config().parent
    # a wrapper of a distribution's may be here: so it is the last
    yield from map(Path, os.get_exec_path())


def _programs(folder: Path) -> Programs | None:
    dump, restore = folder / "pg_dump", folder / "pg_restore"
    if not (os.access(dump, os.X_OK) and os.access(restore, os.X_OK)):
        return None
    try:
        said = subprocess.run([dump, "--version"], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return None
    match = re.search(r"(\d+)", said)
    return Programs(dump, restore, int(match[1])) if match else None

"""Where things are: the state folder, and the extensions' sources."""

from __future__ import annotations

import os
import re
from pathlib import Path

import platformdirs

STATE_VARIABLE = "PGBILLION_STATE"
# folders of the state folder in which pages of measurements are kept
PAGES = ("scale", "cycle")


def state_dir(override: Path | None = None) -> Path:
    """Return the absolute path of the folder that holds the embedded server and everything made for it.

    The first that is given: ``override`` (the option --state-dir), the environment variable PGBILLION_STATE, the
    platform's folder for a user's state. Root's is /var/lib/pgbillion, because the server then runs as another user,
    who cannot reach root's home. The folder need not exist.
    """
    chosen = override or os.environ.get(STATE_VARIABLE)
    if chosen:
        return Path(chosen).expanduser().absolute()
    if os.geteuid() == 0:
        return Path("/var/lib/pgbillion")
    return platformdirs.user_state_path("pgbillion", appauthor=False)


def extension_source() -> Path:
    """Return the folder of the extensions' sources: in the checkout, or inside the installed package."""
    package = Path(__file__).parents[1]
    installed = package / "_extensions"
    return installed if installed.is_dir() else package.parents[1] / "extensions"


def libraries() -> Path:
    """Return the folder of the libraries that came with the package, by major version; it need not exist."""
    return Path(__file__).parents[1] / "_libraries"


def version() -> str:
    """Return the version of pgbillion, which stands in the extensions' control files and nowhere else."""
    control = (extension_source() / "pgbillion_tables" / "pgbillion_tables.control").read_text(encoding="utf-8")
    match = re.search(r"^default_version = '([^']+)'", control, re.MULTILINE)
    if match is None:
        raise RuntimeError("pgbillion.control has no default_version")
    return match.group(1)

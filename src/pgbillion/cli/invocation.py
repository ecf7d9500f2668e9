"""Commands to go on with, as the user would type them; passwords are never part of them."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path

from psycopg.conninfo import conninfo_to_dict, make_conninfo

from pgbillion.common.target import Target

_LEFT_OUT = ("password", "sslpassword", "oauth_client_secret", "fallback_application_name")


def program() -> str:
    """Return how this program was called."""
    name = Path(sys.argv[0])
    if name.name == "pgbillion":
        found = shutil.which("pgbillion")
        return "pgbillion" if found and Path(found).resolve() == name.resolve() else shlex.quote(str(name))
    return f"{shlex.quote(sys.executable)} -m pgbillion"


def command(*words: str, target: Target | None = None, state: Path | None = None) -> str:
    """Return a command of this program, with the options that reach the same server and state folder."""
    options: list[str] = []
    if target is not None and not target.embedded:
        shown = {name: value for name, value in conninfo_to_dict(target.conninfo).items() if name not in _LEFT_OUT}
        if shown:
            options += ["-d", make_conninfo("", **shown)]
    if state is not None:
        options += ["--state-dir", str(state)]
    return " ".join([program(), *(shlex.quote(word) for word in [*words, *options])])

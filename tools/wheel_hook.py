"""Puts the libraries that tools/wheels.sh has built into the wheel, and names the machines that it is for.

PGBILLION_LIBRARIES is their folder, PGBILLION_PLATFORM the tag. Without them the wheel has only the sources, and is
for every machine.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class WheelHook(BuildHookInterface[Any]):
    """What hatchling calls before it builds."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        folder = os.environ.get("PGBILLION_LIBRARIES")
        if folder is None or version == "editable":
            return
        libraries = sorted(Path(folder).glob("*/*.so"))
        if not libraries:
            raise RuntimeError(f"there are no libraries in {folder}")
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{os.environ['PGBILLION_PLATFORM']}"
        for library in libraries:
            build_data["force_include"][str(library)] = f"pgbillion/_libraries/{library.parent.name}/{library.name}"

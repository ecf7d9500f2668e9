"""What the tests of `pgbillion cycle` share."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

from harness import needs

PHASES = ["create", "insert", "read", "drop"]


def tool(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin")


def need(*names: str) -> None:
    """Skip what needs a program that is not installed."""
    for name in names:
        if tool(name) is None:
            needs.missing(needs.PACKAGES[name])


def by_contestant(report: dict[str, Any]) -> dict[tuple[str, str, str], dict[str, dict[str, Any]]]:
    found: dict[tuple[str, str, str], dict[str, dict[str, Any]]] = {}
    for result in report["results"]:
        phases = {phase["phase"]: phase for phase in result["phases"]}
        assert list(phases) == PHASES
        found[result["engine"], result["profile"], result["method"]] = phases
    return found


def left_behind(state: Path) -> list[str]:
    """What a cycle has left of its servers."""
    return [path.name for path in state.iterdir() if path.name.startswith(("cycle-server", "cycle-mariadb"))]

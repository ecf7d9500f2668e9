"""What the tests of `pgbillion cycle` share."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

PHASES = ["create", "insert", "read", "drop"]


def tool(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin")


def needs(*names: str) -> None:
    """Skip, and not silently, what needs a program that is not installed."""
    for name in names:
        if tool(name) is None:
            message = f"*** {name} is not installed: what needs it is NOT TESTED ***"
            print(message, file=sys.stderr)
            pytest.skip(message)


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

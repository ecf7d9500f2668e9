"""A move of a tenant in a process of its own, which is killed where it was told to be.

A place is where in our code a message to a server is waited for, with the callers of that; each has a name. With
`record`, the names of all places are printed instead, in their order.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any

import psycopg

from pgbillion.common.target import Target
from pgbillion.tenants import move_online

_OURS = str(Path(move_online.__file__).parent)


def place() -> str:
    """Name where we are."""
    frames = [frame for frame in traceback.extract_stack() if frame.filename.startswith(_OURS)]
    return " ".join(f"{Path(frame.filename).stem}:{frame.lineno}" for frame in frames)


def main() -> None:
    """Move, and look at each place."""
    given = json.loads(sys.stdin.read())
    wait = psycopg.Connection.wait
    seen: dict[str, None] = {}

    def watched(conn: psycopg.Connection[Any], *arguments: Any, **options: Any) -> Any:
        here = place()
        first = here not in seen
        seen[here] = None
        if first and given.get("before") == here:
            os.kill(os.getpid(), signal.SIGKILL)
        result = wait(conn, *arguments, **options)
        if first and given.get("after") == here:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    psycopg.Connection.wait = watched  # type: ignore[method-assign,assignment]
    request = move_online.Request(given["tenant"], drop=given["drop"])
    source, target = (Target(given[side], side) for side in ("source", "target"))
    move_online.run(source, target, request, say=lambda line: None)
    if given.get("record"):
        print(json.dumps(list(seen)))


def run(tenant: str, source: str, target: str, *, drop: bool, **where: object) -> subprocess.CompletedProcess[str]:
    """Run one, with its end by a signal or without."""
    given = {"tenant": tenant, "source": source, "target": target, "drop": drop, **where}
    return subprocess.run(
        [sys.executable, "-m", "harness.killed_move"],
        cwd=Path(__file__).parents[1],
        input=json.dumps(given),
        capture_output=True,
        text=True,
        timeout=300,
    )


if __name__ == "__main__":
    main()

"""Folders for the server's user."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from harness import servers
from pgbillion.server import postgres


def test_several_threads_make_one_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """None of them sees it before it is the server's: as root, that takes a moment."""
    chown = os.chown

    def slowly(path: Path, user: int, group: int) -> None:
        time.sleep(0.3)
        chown(path, user, group)

    monkeypatch.setattr(os, "chown", slowly)
    with servers.temporary_folder() as parent, ThreadPoolExecutor(4) as threads:
        for made in [
            threads.submit(postgres.make_folder, parent / "s", private=True, for_server=True) for _ in range(4)
        ]:
            made.result()
            time.sleep(0.1)
        assert [path.name for path in parent.iterdir()] == ["s"]
        assert (parent / "s").stat().st_mode & 0o777 == 0o700

"""Tests that only root can run: mounting file systems, being other users. Others skip them, and are told how many."""

from __future__ import annotations

import os

import pytest

# what the reasons begin with, which the run's last line counts
REASON = "needs root"


def as_root(why: str) -> pytest.MarkDecorator:
    """Mark a test that is skipped for anybody but root."""
    return pytest.mark.skipif(os.geteuid() != 0, reason=f"{REASON}: {why}")


def need_root(why: str) -> None:
    """Skip the test for anybody but root."""
    if os.geteuid() != 0:
        pytest.skip(f"{REASON}: {why}")

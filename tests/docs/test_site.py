"""The site and the man pages of `make site`: built without a warning, with every document in the navigation."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def build() -> Path:
    done = subprocess.run([PROJECT / "tools" / "site.sh"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return PROJECT / "build"


def test_every_document_is_in_the_navigation(build: Path) -> None:
    front = (build / "site" / "docs" / "index.html").read_text(encoding="utf-8")
    listed = set(re.findall(r'class="reference internal" href="([^"#]+)\.html"', front.partition("<article")[0]))
    documents = {os.path.relpath(path, PROJECT / "docs").removesuffix(".md") for path in PROJECT.glob("docs/*.md")}
    assert len(documents) > 15
    assert documents - {"index"} <= listed
    assert "../ARCHITECTURE" in listed


def test_the_root_leads_to_the_front_page(build: Path) -> None:
    redirect = (build / "site" / "index.html").read_text(encoding="utf-8")
    (target,) = re.findall(r'url=([^"]+)"', redirect)
    assert (build / "site" / target).exists()


def test_every_command_has_a_man_page(build: Path) -> None:
    pages = {path.name for path in (build / "man" / "man1").iterdir()}
    assert {"pgbillion.1", "pgbillion-tenants.1", "pgbillion-tenants-diff.1", "pgbillion-demo.1"} <= pages
    page = (build / "man" / "man1" / "pgbillion-tenants-diff.1").read_text(encoding="utf-8")
    for section in ("NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS"):
        assert f".SH {section}\n" in page
    assert "dbname" in page

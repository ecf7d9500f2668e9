"""Sphinx's settings for `make site`: the Markdown files of the project as they are, ordered by docs/index.md."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx

PROJECT = Path(__file__).parents[2]
_CONTROL = (PROJECT / "extensions" / "pgbillion_tables" / "pgbillion_tables.control").read_text(encoding="utf-8")

project = "pgbillion"
author = "pgbillion developers"
release = re.findall("default_version = '([^']+)'", _CONTROL)[0]
version = release

extensions = ["myst_parser"]
root_doc = "docs/index"
include_patterns = [
    "*.md",
    "docs/*.md",
    "extensions/README.md",
    "extensions/**/README.md",
    "src/**/README.md",
    "tests/README.md",
    "tests/**/README.md",
]
myst_heading_anchors = 4

html_theme = "furo"
html_title = f"pgbillion {release}"
html_extra_path = ["redirect"]
html_copy_source = False
html_show_sphinx = False


def _order(_app: Sphinx, docname: str, source: list[str]) -> None:
    """Make each list of links in docs/index.md a part of the navigation, under the heading above it."""
    if docname != root_doc:
        return
    parts = []
    for section in re.split(r"(?m)^(?=## )", source[0])[1:]:
        entries = re.findall(r"(?m)\[([^]]+)\]\(([^)]+)\.md\)", section)
        listed = "\n".join(
            f"{title} <{page if page.startswith('../') else f'/docs/{page}'}>" for title, page in entries
        )
        caption = section.partition("\n")[0].removeprefix("## ")
        parts.append(f"```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{listed}\n```\n")
    source[0] += "\n" + "\n".join(parts)


def setup(app: Sphinx) -> None:
    app.connect("source-read", _order)

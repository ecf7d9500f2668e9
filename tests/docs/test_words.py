"""Words that readers took for a translation stay out of documents, comments and messages."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
# and what to write instead
WORDS = {
    r"so (?:many|much)": "the number, or the name of the parameter",
    r"at hand": "available",
    r"whoever": "any role or session that",
    r"he|his|him": "it, or the role",
    r"mend(?:s|ed|ing)?": "fix",
    r"index(?:es)? of columns": "columnar index",
    r"by vectors": "vectorized",
    r"lies there|where there are such|where it can be had": "if any, if available",
}
FORBIDDEN = re.compile(rf"\b(?:{'|'.join(WORDS)})\b", re.IGNORECASE)
TEXTS = sorted(
    path
    for pattern in (
        "*.md",
        "docs/*.md",
        "extensions/**/*.md",
        "extensions/**/*.[ch]",
        "extensions/**/*.sql",
        "src/**/*.md",
        "src/**/*.py",
        "src/**/*.sql",
        "src/**/*.j2",
        "bench/*.py",
        "tools/*.sh",
        "Makefile",
    )
    for path in PROJECT.glob(pattern)
)


@pytest.mark.parametrize("text", TEXTS, ids=lambda path: str(path.relative_to(PROJECT)))
def test_words(text: Path) -> None:
    found = [
        f"{number}: {match[0]!r} in {line.strip()!r}; write {instead(match[0])}"
        for number, line in enumerate(text.read_text(encoding="utf-8").splitlines(), 1)
        for match in FORBIDDEN.finditer(line)
    ]
    assert found == []


def instead(word: str) -> str:
    """Return what to write instead of a word."""
    return next(new for old, new in WORDS.items() if re.fullmatch(old, word, re.IGNORECASE))


def test_texts_are_found_and_words_noticed() -> None:
    assert {"README.md", "tenants.md", "batch.h", "create.py", "Makefile"} <= {path.name for path in TEXTS}
    assert [match[0] for match in FORBIDDEN.finditer("Mended by Vectors, as he wished; amended")] == [
        "Mended",
        "by Vectors",
        "he",
    ]

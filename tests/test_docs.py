"""The documents: links lead somewhere, and the SQL reference names all that the extensions have."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.quick

PROJECT = Path(__file__).parents[1]
EXTENSIONS = PROJECT / "extensions"
REFERENCE = (PROJECT / "docs" / "reference-sql.md").read_text(encoding="utf-8")
# what is called by the server, not by anybody
_INTERNAL = re.compile(r"_(?:handler|validator|guard|serialize|deserialize|combine|accum|transfn)$|[.]state$")


def documents() -> list[Path]:
    """Every Markdown file of the project, committed or about to be."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [PROJECT / name for name in listed.stdout.splitlines() if (PROJECT / name).exists()]


def prose(page: str) -> str:
    """The page without code, in which brackets are no links."""
    return re.sub(r"`[^`\n]*`", "", re.sub(r"(?ms)^```.*?^```$", "", page))


def anchors(page: str) -> set[str]:
    """The fragments that a page's headings can be reached by."""
    headings = re.findall(r"(?m)^#+ (.*)$", re.sub(r"(?ms)^```.*?^```$", "", page))
    return {re.sub(r"[^\w\- ]", "", one.lower()).strip().replace(" ", "-") for one in headings}


DOCUMENTS = documents()


@pytest.mark.parametrize("document", DOCUMENTS, ids=[str(one.relative_to(PROJECT)) for one in DOCUMENTS])
def test_links_lead_somewhere(document: Path) -> None:
    page = prose(document.read_text(encoding="utf-8"))
    for target in re.findall(r"\]\(([^)\s]+)\)", page) + re.findall(r'(?:src|href)="([^"]+)"', page):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, fragment = target.partition("#")
        found = (document.parent / path).resolve() if path else document
        assert found.exists(), f"{document.name} links to {target}"
        if fragment:
            assert fragment in anchors(found.read_text(encoding="utf-8")), f"{document.name} links to {target}"


def test_there_are_documents_and_links() -> None:
    assert len(DOCUMENTS) > 15
    assert anchors("# One\n## pgbillion_rows.version, and `two`\n") == {"one", "pgbillion_rowsversion-and-two"}


def objects() -> set[str]:
    """What the extensions' scripts make that somebody can name in SQL."""
    scripts = sorted(EXTENSIONS.glob("*/sql/*.sql"))
    assert len(scripts) == 2
    kinds = "FUNCTION|PROCEDURE|AGGREGATE|VIEW|TABLE|ACCESS METHOD|FOREIGN DATA WRAPPER|EVENT TRIGGER"
    made = re.compile(rf"(?m)^CREATE (?:UNLOGGED )?(?:{kinds}) ([a-z0-9_.]+)")
    names = {name for script in scripts for name in made.findall(script.read_text(encoding="utf-8"))}
    return {name for name in names if not _INTERNAL.search(name)}


def settings() -> set[str]:
    sources = [path.read_text(encoding="utf-8") for path in EXTENSIONS.glob("*/src/**/*.c")]
    return {name for text in sources for name in re.findall(r'DefineCustom\w+Variable\(\s*"([^"]+)"', text)}


def test_the_scripts_and_sources_are_read() -> None:
    assert {"pgbillion_tables.create_tables", "pgbillion_rows.partial_avg", "lazy_heap", "pgbillion_fdw"} <= objects()
    assert "pgbillion_rows.vector_aggregate" in settings()


@pytest.mark.parametrize("name", sorted(objects() | settings()))
def test_the_reference_names_it(name: str) -> None:
    assert re.search(rf"(?<![\w.]){re.escape(name)}(?!\w)", REFERENCE), f"docs/reference-sql.md does not name {name}"


def test_the_threat_model_names_its_tests() -> None:
    """Each line of docs/security.md that promises something names tests, and these exist."""
    page = (PROJECT / "docs" / "security.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| ") and not line.startswith("| who |")]
    promises = [row for row in rows if not row.startswith("| superusers")]
    assert len(promises) >= 15
    for row in promises:
        named = re.findall(r"`(test_\w+\.py)::(test_\w+)`", row)
        assert named, row
        for file, test in named:
            assert f"def {test}(" in (PROJECT / "tests" / file).read_text(encoding="utf-8"), (file, test)


def numbers(text: str) -> list[str]:
    return re.findall(r"\d[\d,]*(?:\.\d+)?", text)


def test_figures_of_readme_are_results() -> None:
    """Each figure in its table is in results.md, perhaps with more digits."""
    results = {float(one.replace(",", "")) for one in numbers((PROJECT / "docs" / "results.md").read_text("utf-8"))}
    (table,) = re.findall(r"(?s)## Figures\n.*?\n((?:\|.*\n)+)", (PROJECT / "README.md").read_text("utf-8"))
    figures = [figure for row in table.splitlines()[2:] for cell in row.split("|")[2:] for figure in numbers(cell)]
    assert len(figures) > 25
    for figure in figures:
        digits = len(figure.partition(".")[2])
        assert float(figure.replace(",", "")) in {round(one, digits) for one in results}, figure

"""The documents: links lead somewhere, what is to be typed exists, and the SQL reference names all there is."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from pgbillion.cli import command_line

pytestmark = pytest.mark.quick

PROJECT = Path(__file__).parents[2]
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
        named = re.findall(r"`(\w+/test_\w+\.py)::(test_\w+)`", row)
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


# ---- what the documents have the reader type ----

APP = get_command(command_line())
# what a shell makes of words ends a command
_END = re.compile(r"^(?:[|;&<>]|&&|\d?>)")


def typed(page: str) -> list[str]:
    """Commands of the program: in blocks for the shell, and in the text."""
    blocks = re.findall(r"(?ms)^ *```sh\n(.*?)^ *```$", page)
    lines = [line for block in blocks for line in re.sub(r"\\\n", " ", block).splitlines()]
    spans = re.findall(r"`([^`\n]+)`", re.sub(r"(?ms)^ *```.*?^ *```$", "", page))
    found = [re.search(r"(?:^|[\s/(!])(pgbillion [a-z].*)", line) for line in lines]
    return [one[1] for one in found if one] + [span for span in spans if re.match(r"pgbillion [a-z]", span)]


def unknown(command: str) -> str | None:
    """Return the first word that the program does not know: a command, or an option."""
    try:
        words = shlex.split(command, comments=True)[1:]
    except ValueError:
        return command
    here: Any = APP
    while words and hasattr(here, "commands"):
        if words[0] in ("…", "GROUP", "COMMAND"):
            return None
        if words[0].startswith("-"):
            break
        found = here.commands.get(words.pop(0).rstrip("…,."))
        if found is None:
            return command
        here = found
    options = {name for one in here.params for name in (*one.opts, *one.secondary_opts)} | {"--help"}
    if here.context_settings.get("ignore_unknown_options"):
        return None
    for word in words:
        if _END.match(word):
            break
        if word.startswith("-") and word != "--" and word.partition("=")[0] not in options:
            return word
    return None


@pytest.mark.parametrize("document", DOCUMENTS, ids=[str(one.relative_to(PROJECT)) for one in DOCUMENTS])
def test_what_is_to_be_typed_exists(document: Path) -> None:
    page = document.read_text(encoding="utf-8")
    assert [(command, unknown(command)) for command in typed(page) if unknown(command)] == []
    code = "\n".join(re.findall(r"`([^`\n]+)`", page) + re.findall(r"(?ms)^ *```\w*\n(.*?)^ *```$", page))
    makefile = (PROJECT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"(?m)^(?:\w+=\S+ )*make ([a-z][a-z-]*)(?= |$)", code):
        assert f"\n{target}:" in makefile, f"make {target}"
    for name in re.findall(r"(?<![\w/.])((?:tools|bench|tests)/[a-z0-9_/]+\.(?:sh|py))", code):
        assert (PROJECT / name).exists(), name


@pytest.mark.parametrize("document", DOCUMENTS, ids=[str(one.relative_to(PROJECT)) for one in DOCUMENTS])
def test_what_is_to_be_called_exists(document: Path) -> None:
    if document.name == "CHANGELOG.md":
        return
    page = document.read_text(encoding="utf-8")
    code = "\n".join(re.findall(r"`([^`\n]+)`", page) + re.findall(r"(?ms)^ *```\w*\n(.*?)^ *```$", page))
    scripts = "\n".join(one.read_text(encoding="utf-8") for one in EXTENSIONS.glob("*/sql/*.sql"))
    for name in set(re.findall(r"\bpgbillion_(?:tables|rows)\.[a-z]\w*", code)) - settings():
        if not name.endswith((".so", ".control", ".sql", ".c", ".h")):
            # one that ends in _ begins several names
            assert re.search(re.escape(name) + ("" if name.endswith("_") else r"\b"), scripts), name


def test_a_mistake_in_a_command_is_found() -> None:
    page = (
        "Type `pgbillion tables lst` or:\n```sh\nsudo .venv/bin/pgbillion tables list --limt 3 \\\n  | head -n 1\n```\n"
    )
    assert [unknown(one) for one in typed(page)] == ["--limt", "pgbillion tables lst"]
    assert unknown("pgbillion tables list 'a*' -d mydb --limit 5 | head -n 3   # -x") is None
    assert unknown("pgbillion server psql -At") is None

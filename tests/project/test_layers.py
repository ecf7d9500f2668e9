"""The order of the folders: a module imports from below, never from above, and none imports itself by way of others."""

from __future__ import annotations

import ast
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

pytestmark = pytest.mark.quick

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "pgbillion"
_BASE = {"common", "server", "report"}
# what the modules of a folder may import from beside their own; "" is the package itself, which is its version
MAY_IMPORT: Mapping[str, set[str]] = {
    "": {"common"},
    "common": set(),
    "server": {"", "common"},
    "report": {"", "common"},
    "django": set(),
    "tables": _BASE,
    "tenants": _BASE | {"tables"},
    "rows": _BASE,
    "durability": _BASE,
    "cycle": _BASE | {"tables", "durability"},
    "shards": _BASE | {"rows"},
    "ladder": _BASE | {"tables", "durability"},
    "cli": {"", "tables", "tenants", "rows", "durability", "cycle", "shards", "ladder"} | _BASE,
}
EXTENSIONS = ROOT / "extensions"
_BATCH = ("vector/batch.h", "vector/huge_pages.h")
_KERNELS = "column_index/kernels.h"
# by folder of pgbillion_tables's sources: those whose headers its files may include
TABLES_MAY_INCLUDE: Mapping[str, set[str]] = {
    "ddl": set(),
    "catalog_rows": set(),
    "lazy_heap": set(),
    "stamp": {"ddl", "catalog_rows", "lazy_heap"},
    "fingerprint": {"ddl", "catalog_rows"},
    "create": {"stamp", "ddl", "lazy_heap"},
    "clone": {"stamp", "fingerprint", "ddl", "catalog_rows"},
    "drop": {"ddl", "catalog_rows", "lazy_heap"},
    "list": set(),
    "session": set(),
}
# by folder of C sources: what the paths of the headers of ours that its files include may begin with
MAY_INCLUDE = {
    "pgbillion_tables": ("pgbillion_tables/", "shared/"),
    **{
        f"pgbillion_tables/src/{folder}": (*(f"pgbillion_tables/src/{name}/" for name in (folder, *others)), "shared/")
        for folder, others in TABLES_MAY_INCLUDE.items()
    },
    **{
        f"pgbillion_rows/src/{folder}": (
            "shared/",
            *(f"pgbillion_rows/src/{below}" for below in (f"{folder}/", *others)),
        )
        for folder, others in {
            "planner": (),
            "column_index": (),
            "vector": (),
            "vector/expression": (*_BATCH, "planner/"),
            "vector/keys": (*_BATCH, "vector/expression/"),
            "vector/filter": (*_BATCH, "planner/", _KERNELS, "vector/expression/"),
            "vector/source": (
                *_BATCH,
                "column_index/column_index.h",
                "vector/expression/expression.h",
                "vector/filter/filter.h",
            ),
            "vector/aggregate": (*_BATCH, "planner/", _KERNELS, "vector/expression/", "vector/filter/"),
            "vector/spill": _BATCH,
            "vector/join": (
                *_BATCH,
                "planner/",
                *(f"vector/{below}" for below in ("expression/", "keys/", "filter/", "source/source.h", "spill/")),
            ),
            "vector/group": (
                *_BATCH,
                *(f"vector/{below}" for below in ("expression/", "keys/", "aggregate/", "spill/")),
            ),
            "vector/node": (
                *_BATCH,
                "planner/",
                "column_index/column_index.h",
                *(f"vector/{below}" for below in ("filter/", "source/source.h", "aggregate/", "join/", "group/")),
            ),
            "vector/plan": ("planner/", "column_index/column_index.h", "vector/"),
            "shard": ("planner/",),
            "eager_aggregate": ("planner/", "vector/vector.h", "vector/plan/cost_model.h", "shard/shard.h"),
            "join_estimate": ("planner/",),
            "memoize": ("planner/", "vector/aggregate/aggregate.h", "vector/plan/plan.h"),
            "nested_loop": ("planner/", "sort/sort.h", "vector/plan/cost_model.h"),
            "sort": ("planner/", *_BATCH, "vector/expression/decimal.h", "vector/node/custom_scan.h", "vector/plan/"),
            "window": ("planner/", "vector/plan/", "sort/sort.h", "sort/row_format.h"),
            "statistics": (
                "nested_loop/nested_loop.h",
                "vector/node/custom_scan.h",
                "shard/shard.h",
                "sort/sort.h",
                "window/window.h",
            ),
        }.items()
    },
}


def name(path: Path) -> str:
    return ".".join(("pgbillion", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__")


def folder(module: str) -> str:
    words = module.split(".")
    return words[1] if len(words) > 1 and (PACKAGE / words[1]).is_dir() else ""


FILES = {name(path): path for path in PACKAGE.rglob("*.py")}


def imports(module: str) -> Iterator[str]:
    """Give the modules of ours that a module imports, wherever in its text."""
    for node in ast.walk(ast.parse(FILES[module].read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}: write imports in full"
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                if found := whole if whole in FILES else node.module if node.module in FILES else None:
                    yield found
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in FILES)


GRAPH = {module: set(imports(module)) for module in FILES}


def test_every_folder_has_its_place() -> None:
    assert {folder(module) for module in FILES} == set(MAY_IMPORT)
    assert len(GRAPH["pgbillion.cli"]) > 10  # what is read here are the imports


@pytest.mark.parametrize("within", MAY_IMPORT)
def test_a_folder_imports_from_below(within: str) -> None:
    # `python -m pgbillion` is the command line
    modules = [module for module in FILES if folder(module) == within and module != "pgbillion.__main__"]
    arrows = {(module, found) for module in modules for found in GRAPH[module] if folder(found) != within}
    assert {(module, found) for module, found in arrows if folder(found) not in MAY_IMPORT[within]} == set()


def test_there_is_no_circle() -> None:
    TopologicalSorter(GRAPH).prepare()  # raises CycleError, which names the modules
    folders: dict[str, set[str]] = {name: set(below) for name, below in MAY_IMPORT.items()}
    TopologicalSorter(folders).prepare()
    TopologicalSorter(TABLES_MAY_INCLUDE).prepare()


def test_commands_are_in_one_folder() -> None:
    assert {folder(module) for module, path in FILES.items() if "import typer" in path.read_text("utf-8")} == {"cli"}


def includes(file: Path) -> Iterator[str]:
    """Give the headers of ours that a C file includes, as paths below the folder of the extensions."""
    extension = EXTENSIONS / file.relative_to(EXTENSIONS).parts[0]
    for text in re.findall(r'^\s*#\s*include\s+"([^"]+)"', file.read_text(encoding="utf-8"), re.MULTILINE):
        for start in (file.parent, extension / "src", EXTENSIONS / "shared"):
            found = Path(os.path.normpath(start / text))
            if found.is_file():
                yield str(found.relative_to(EXTENSIONS))
                break


def test_folders_of_c_include_in_one_direction() -> None:
    arrows: dict[str, set[str]] = {within: set() for within in MAY_INCLUDE}
    for file in EXTENSIONS.rglob("*.[ch]"):
        if within := rule_of(file):
            arrows[within] |= {rule_of(EXTENSIONS / header) for header in includes(file)} - {within, ""}
    TopologicalSorter(arrows).prepare()  # raises CycleError, which names the folders


def rule_of(file: Path) -> str:
    """Give the folder whose rule is for a C file: the nearest above it that has one."""
    return max((rule for rule in MAY_INCLUDE if file.is_relative_to(EXTENSIONS / rule)), key=len, default="")


@pytest.mark.parametrize("within", MAY_INCLUDE)
def test_a_folder_of_c_includes_from_where_it_may(within: str) -> None:
    files = [file for file in (EXTENSIONS / within).rglob("*.[ch]") if rule_of(file) == within]
    arrows = {(str(file.relative_to(EXTENSIONS)), header) for file in files for header in includes(file)}
    assert arrows
    assert {(file, header) for file, header in arrows if not header.startswith(MAY_INCLUDE[within])} == set()


def test_every_folder_of_c_has_a_rule() -> None:
    folders = {str(file.parent.relative_to(EXTENSIONS)) for file in EXTENSIONS.glob("pgbillion_*/src/*/**/*.[ch]")}
    assert folders - set(MAY_INCLUDE) == set()


def test_base_names_of_c_are_unique() -> None:
    """A name of a file is enough to find it; each extension has its `module.c`."""
    names = Counter(file.name for file in EXTENSIONS.glob("pgbillion_*/src/**/*.c"))
    assert {name for name, count in names.items() if count > 1} == {"module.c"}


# ---- functions in C ----

# extensions whose files call each other in one direction, with functions that fit a screen or two
IN_ORDER = ("pgbillion_tables", "pgbillion_rows")
LONGEST_FUNCTION = 99


def functions(file: Path) -> Iterator[tuple[str, bool, list[str]]]:
    """Give the functions that a file of pgindent's layout defines: name, whether others may call it, and its lines."""
    # neither comments nor strings, and no line less
    text = re.sub(
        r'/\*.*?\*/|"(?:\\.|[^"\\\n])*"',
        lambda found: re.sub(r"[^\n]", " ", found.group()),
        file.read_text(encoding="utf-8"),
        flags=re.DOTALL,
    )
    # the type of what it returns has a line of its own
    for found in re.finditer(r"^(\w[^\n;{}]*)\n(\w+)\([^;{}]*\)\n\{\n.*?^\}", text, re.MULTILINE | re.DOTALL):
        yield found.group(2), not found.group(1).startswith("static"), found.group().splitlines()


@pytest.mark.parametrize("extension", IN_ORDER)
def test_files_of_c_call_in_one_direction(extension: str) -> None:
    defined = {file: list(functions(file)) for file in (EXTENSIONS / extension / "src").rglob("*.c")}
    owner = {name: file for file, found in defined.items() for name, public, _ in found if public}
    assert len(owner) > 50  # what is read here are functions
    calls = {
        file: {
            owner[word] for _, _, lines in found for word in re.findall(r"\w+", "\n".join(lines[2:])) if word in owner
        }
        - {file}
        for file, found in defined.items()
    }
    assert sum(map(len, calls.values())) > 20
    TopologicalSorter(calls).prepare()  # raises CycleError, which names the files


@pytest.mark.parametrize("extension", IN_ORDER)
def test_functions_of_c_are_short(extension: str) -> None:
    files = (EXTENSIONS / extension / "src").rglob("*.c")
    long = {name: len(lines) for file in files for name, _, lines in functions(file) if len(lines) > LONGEST_FUNCTION}
    assert long == {}

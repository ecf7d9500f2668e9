"""Write the queries of the extension's clone/kinds.c for the command line, which clones without the extension by them.

    .venv/bin/python tools/clone_queries.py [--check]

They stay in kinds.c, where macros build them. What is written has them whole, each once for the major versions that
have it, and is never edited. --check only tells whether it is up to date.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "extensions/pgbillion_tables/src/clone/kinds.c"
WRITTEN = ROOT / "src/pgbillion/tenants/sql/clone.sql"
MAJORS = (15, 16, 17, 18, 19)

_HEADER = """\
-- What a schema has, as commands, and what cannot be cloned: the queries of the extension's clone/kinds.c, written by
-- tools/clone_queries.py, read by tenants/definition.py. Each comes after a line with its name and the first and last
-- major version that has it; $1 is the schema's OID, and $2 what clone.h says.
"""
_ARRAY = re.compile(r"const char \*const clone_(\w+?)_quer(?:y|ies)(?:\[\])? =(.*?);\n", re.DOTALL)
_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"|(,)|(\{)|(\})|(\S)', re.DOTALL)
_ESCAPES = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}


def preprocessed(major: int) -> str:
    """Return the file as the compiler of an extension for a major version has it, without what it includes."""
    text = re.sub(r"(?m)^#include .*$", "", SOURCE.read_text(encoding="utf-8"))
    done = subprocess.run(
        ["cc", "-E", "-P", "-undef", f"-DPG_VERSION_NUM={major}0000", "-x", "c", "-"],
        input=text,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def queries(major: int) -> list[tuple[str, str]]:
    """Return the queries for a major version with their names, in their order."""
    found = []
    for name, value in _ARRAY.findall(preprocessed(major)):
        parts: list[str] = []
        for string, comma, opened, closed, other in _STRING.findall(value):
            if other:
                raise SystemExit(f"{SOURCE.name}: {other} in the queries of {name} is no string")
            if (comma or closed) and parts:
                found.append((name, "".join(parts)))
                parts = []
            elif not (comma or opened or closed):
                parts.append(re.sub(r"\\.", lambda escape: _ESCAPES[escape[0]], string))
        if parts:
            found.append((name, "".join(parts)))
    for name, query in found:
        if "\n" in query:
            raise SystemExit(f"{SOURCE.name}: a query of {name} has more than a line")
    return found


def written() -> str:
    """Return the text of the file, in which the queries of each major version have their order."""
    left = {major: queries(major) for major in MAJORS}
    result = [_HEADER]
    while heads := [rest[0] for rest in left.values() if rest]:
        # one that only some versions have comes before what all have
        name, query = next(
            head for head in heads if all(rest[:1] == [head] or head not in rest for rest in left.values())
        )
        having = [major for major, rest in left.items() if rest[:1] == [(name, query)]]
        until = "" if having[-1] == MAJORS[-1] else str(having[-1])
        result.append(f"-- {name} {having[0]}-{until}\n{query}\n")
        for major in having:
            del left[major][0]
    return "".join(result)


def main() -> int:
    """Write the file, or compare it."""
    text = written()
    if "--check" not in sys.argv[1:]:
        WRITTEN.write_text(text, encoding="utf-8")
        return 0
    if WRITTEN.read_text(encoding="utf-8") == text:
        return 0
    print(f"{WRITTEN.relative_to(ROOT)} is out of date: run tools/clone_queries.py", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())

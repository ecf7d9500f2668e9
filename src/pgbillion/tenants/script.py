"""SQL of the user's to be run in many schemas: cut into statements, checked, and with the schema's name put in.

The text is read as psql reads it: quotes, comments, dollar quotes, bodies of functions after BEGIN ATOMIC. It is never
changed, but for `:schema`, `:"schema"` and `:'schema'`, which stand for the schema's name: quoted, as it is whatever
its owner has called it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pgbillion.common.errors import UserError
from pgbillion.common.statements import Statement, split, words_of

# the words that begin or end a transaction or a part of it
_TRANSACTION = {"begin", "start", "commit", "rollback", "end", "abort", "savepoint", "release"}
# what a migration can go by
_NAME = re.compile(r"[\w.-]{1,200}")


@dataclass(frozen=True)
class Script:
    """A migration: the name and checksum it goes by, and its statements."""

    name: str
    checksum: str
    statements: tuple[Statement, ...]

    def for_schema(self, schema: str) -> str:
        """Return all of it with the schema's name put in."""
        # a line of its own: a statement may end with a comment
        return "\n;\n".join(statement.for_schema(schema) for statement in self.statements)


def load(files: Sequence[Path], commands: Sequence[str]) -> list[Script]:
    """Read the files, then the commands, each a migration. Raises UserError for what cannot be run in tenants."""
    scripts = []
    for path in files:
        try:
            text = path.read_text(encoding="utf-8-sig")
        except UnicodeDecodeError:
            raise UserError(f"{path} is not text in UTF-8", "convert it, with iconv for one") from None
        if not _NAME.fullmatch(path.name):
            raise UserError(
                f'the name of the file "{path.name}" cannot be that of a migration',
                "use letters, digits, dots, hyphens and underscores",
            )
        scripts.append(_script(path.name, text, str(path)))
    for text in commands:
        scripts.append(_script(f"command-{_checksum(text)[:12]}", text, "the command"))
    names = [script.name for script in scripts]
    for name in names:
        if names.count(name) > 1:
            raise UserError(f"two migrations have the name {name}", "rename a file: names are what the journal keeps")
    return scripts


def _script(name: str, text: str, where: str) -> Script:
    statements = split(text, where)
    if not statements:
        raise UserError(f"{where} has no statement", "a migration is SQL, with semicolons in between")
    for statement in statements:
        _check(statement, where)
    return Script(name, _checksum(text), tuple(statements))


def _checksum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _check(statement: Statement, where: str) -> None:
    words = words_of(statement)
    first = words[0] if words else ""
    place = f"{where}, line {statement.line}"
    if first in _TRANSACTION or words[:2] in (["prepare", "transaction"], ["set", "transaction"]):
        raise UserError(
            f"{place}: {first.upper()} cannot be run here: each tenant has its own transaction",
            "leave out what begins and ends transactions",
        )
    if first == "copy" and {"stdin", "stdout"} & set(words):
        raise UserError(f"{place}: COPY from or to the client cannot be run here", "use INSERT")

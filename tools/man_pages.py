"""The man pages of `make site`: one for each command and group of the program, from what `--help` prints.

man_pages.py DIRECTORY      write them to DIRECTORY/man1
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import typer
from sphinx.application import Sphinx

from pgbillion import __version__, cli


def walk(command: Any, words: str) -> Iterator[tuple[str, Any]]:
    """Give the command and everything below it, each with the words that call it."""
    yield words, command
    for name, one in getattr(command, "commands", {}).items():
        yield from walk(one, f"{words} {name}")


COMMANDS = dict(walk(typer.main.get_command(cli.command_line()), "pgbillion"))


def page_name(words: str) -> str:
    return words.replace(" ", "-")


def summary(command: Any) -> str:
    """Give the first paragraph of the help without its full stop: what `man -k` lists."""
    return " ".join(command.help.partition("\n\n")[0].split()).removesuffix(".")


def page(words: str, command: Any) -> str:
    """Give a page's source, in MyST."""
    context = typer.Context(command)
    arguments = [one.make_metavar(context) for one in command.params if one.param_type_name == "argument"]
    children = [f"{words} {name}" for name in getattr(command, "commands", {})]
    usage = " ".join([words, "[OPTION]…", *arguments, *(["COMMAND"] if children else [])])
    description = command.help.split("\n\n")[1:]
    described = [one for one in command.params if getattr(one, "help", None)]
    options = [
        (", ".join(one.opts) if one.opts[0][0] == "-" else one.make_metavar(context), one.help) for one in described
    ]
    below = [(child, f"{summary(COMMANDS[child])}. See {page_name(child)}(1).") for child in children]
    parts = [f"# {page_name(words)}", "## Synopsis", f"    {usage}"]
    parts += ["## Description", *description] if description else []
    for heading, entries in (("## Commands", below), ("## Options", options)):
        parts += [heading, *(f"`{term}`\n: {meaning}" for term, meaning in entries)] if entries else []
    return "\n\n".join(parts) + "\n"


def build(target: Path) -> int:
    """Write every page to target/man1, and return the exit status: a warning is an error."""
    pages = [(page_name(words), page_name(words), summary(one), "", 1) for words, one in COMMANDS.items()]
    settings = {
        "project": "pgbillion",
        "release": __version__,
        "extensions": ["myst_parser"],
        "myst_enable_extensions": ["deflist"],
        "root_doc": "pgbillion",
        "man_pages": pages,
        # pages that no table of contents lists
        "suppress_warnings": ["toc.not_included"],
    }
    with TemporaryDirectory() as folder:
        for words, command in COMMANDS.items():
            (Path(folder) / f"{page_name(words)}.md").write_text(page(words, command), encoding="utf-8")
        trees = Path(folder) / "doctrees"
        app = Sphinx(folder, None, target / "man1", trees, "man", settings, status=None, warningiserror=True)
        app.build()
    return app.statuscode


if __name__ == "__main__":
    sys.exit(build(Path(sys.argv[1])))

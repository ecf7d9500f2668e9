"""What `--help` and docs/reference-cli.md say of each command, and that they say the same."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from pgbillion import __version__, cli

pytestmark = pytest.mark.quick

REFERENCE = Path(__file__).parents[2] / "docs" / "reference-cli.md"


def _commands(command: Any, words: str) -> Iterator[tuple[str, Any]]:
    """Give every command with its words, groups left out."""
    if hasattr(command, "commands"):
        for name, one in command.commands.items():
            yield from _commands(one, f"{words} {name}")
    else:
        yield words, command


COMMANDS = dict(_commands(typer.main.get_command(cli.command_line()), "pgbillion"))
GROUPS = sorted({words.rpartition(" ")[0] for words in COMMANDS})
SECTIONS = dict(re.findall(r"(?ms)^## (pgbillion [^\n]*)\n(.*?)(?=^## |\Z)", REFERENCE.read_text(encoding="utf-8")))


def test_the_reference_has_every_command_and_no_other() -> None:
    assert set(SECTIONS) == set(COMMANDS)


@pytest.mark.parametrize(
    ("typed", "offered"),
    [("pgbillion ", "durability"), ("pgbillion tables ru", "runs"), ("pgbillion tables list --sch", "--schema")],
)
def test_shells_complete_commands_and_options(typed: str, offered: str) -> None:
    words = {"COMP_WORDS": typed, "COMP_CWORD": str(len(typed.split(" ")) - 1)}
    env = {**os.environ, **words, "_PGBILLION_COMPLETE": "complete_bash"}
    program = Path(sys.executable).with_name("pgbillion")
    done = subprocess.run([program], env=env, capture_output=True, text=True)
    assert offered in done.stdout.split()
    assert done.stderr == ""


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "pgbillion", *words], capture_output=True, text=True)


def test_version() -> None:
    assert run("-V").stdout == run("--version").stdout == f"pgbillion {__version__}\n"


@pytest.mark.parametrize("words", GROUPS)
def test_a_group_by_itself_prints_its_help(words: str) -> None:
    done = run(*words.split()[1:])
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.rstrip() == run(*words.split()[1:], "--help").stdout.rstrip()


@pytest.mark.parametrize("words", COMMANDS)
def test_the_reference_says_what_help_says(words: str) -> None:
    section, command = SECTIONS[words], COMMANDS[words]
    *paragraphs, example = command.help.split("\n\n")
    for paragraph in paragraphs:
        # the end of a docstring's line is for the terminal to choose
        assert "\n" not in paragraph
        assert paragraph in " ".join(section.split())
    assert f"Example: `{example.removeprefix('Example: ')}`" in section
    table = section.partition("| option | meaning |\n|---|---|\n")[2].partition("\n\n")[0]
    rows = [line.removeprefix("| ").removesuffix(" |").split(" | ", 1) for line in table.splitlines()]
    options = [one for one in command.params if "--help" not in one.opts]
    names = [", ".join(sorted(one.opts, key=len)) if one.opts[0].startswith("-") else one.metavar for one in options]
    assert [name for name, _ in rows] == [f"`{name}`" for name in names]
    for one, (_, meaning) in zip(options, rows, strict=True):
        # a default may follow
        assert meaning.startswith(one.help)

"""Commands of this program to go on with, as the user would type them.

Every hint and every next step that names one of our commands has it from `command`, which adds the options of the
connection and of the state folder that the user has given. What the environment gives is there for the next command,
too. Passwords are never part of it.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

_LEFT_OUT = ("password", "sslpassword", "oauth_client_secret", "fallback_application_name")
_DATABASE, _PASSWORD, _STATE = "--dbname", "--password", "--state-dir"
# arguments follow it, and no options
_END = "--"
# these talk to the embedded server, or to servers of their own, and take the state folder alone
_WITHOUT_CONNECTION = ("server", "demo", "ladder", "tables report", "tables runs")
# what says itself which server or installation is meant
_OWN = ("-d", "--pg-config")
_given: dict[str, str | None] = {}


def remember(option: str, value: str | None) -> None:
    """Keep an option of connection or state folder that the user has given, by its long name; None for one without."""
    _given[option] = value


def forget() -> None:
    """Begin another command."""
    _given.clear()


def state() -> Path | None:
    """Return the state folder that the user has given."""
    given = _given.get(_STATE)
    return None if given is None else Path(given)


def named_server() -> bool:
    """Tell whether the user has named a server, and not just a database, by options of the connection."""
    database = _given.get(_DATABASE) or ""
    return "=" in database or "://" in database or not _given.keys() <= {_DATABASE, _STATE, _PASSWORD}


def named_database() -> bool:
    """Tell whether the user has named a database, by option."""
    return _DATABASE in _given


def program() -> str:
    """Return how this program was called."""
    name = Path(sys.argv[0])
    if name.name == "pgbillion":
        found = shutil.which("pgbillion")
        return "pgbillion" if found and Path(found).resolve() == name.resolve() else shlex.quote(str(name))
    return f"{shlex.quote(sys.executable)} -m pgbillion"


def command(*words: str, as_root: bool = False) -> str:
    """Return a command of this program that reaches the same server and state folder.

    With ``as_root`` it is for sudo, which has a path of its own.
    """
    own = not {words[0], " ".join(words[:2])}.isdisjoint(_WITHOUT_CONNECTION) or any(word in _OWN for word in words)
    options: list[str] = []
    for name, value in _given.items():
        if name == _STATE or not own:
            options.append(_SHORT.get(name, name))
            if value is not None:
                options.append(public(value) if name == _DATABASE else value)
    called = program()
    if as_root:
        found = shutil.which(called)
        called = f"sudo {called if found is None else shlex.quote(str(Path(found).absolute()))}"
    behind = list(words).index(_END) if _END in words else len(words)
    return " ".join([called, *map(_quoted, [*words[:behind], *options, *words[behind:]])])


def argument(value: str) -> tuple[str, ...]:
    """Return an argument as the words of a command, which takes one that begins with a dash for an option."""
    return (_END, value) if value.startswith("-") else (value,)


def again() -> str:
    """Return the command that runs, to be run once more."""
    words = [public(word) if "://" in word or "=" in word else word for word in sys.argv[1:]]
    return " ".join([program(), *map(_quoted, words)])


def _quoted(word: str) -> str:
    """Quote a word for a shell; what a terminal would not show as it is, by its bytes."""
    if not word or word.isprintable():
        return shlex.quote(word)
    return f'"$(printf {shlex.quote("".join(map(_octal, os.fsencode(word))))})"'


def _octal(byte: int) -> str:
    shown = chr(byte)
    return shown if shown.isascii() and shown.isalnum() else f"\\{byte:03o}"


_SHORT = {"--host": "-h", "--port": "-p", "--username": "-U", _DATABASE: "-d", _PASSWORD: "-W"}


def public(dbname: str) -> str:
    """Return a database's name as it is, and a connection string without passwords and what we have added."""
    if "=" not in dbname and "://" not in dbname:
        return dbname
    try:
        parts = conninfo_to_dict(dbname)
    except psycopg.ProgrammingError:
        # it was refused, and its password with it
        return "DBNAME"
    if not any(name in parts for name in _LEFT_OUT):
        return dbname
    return make_conninfo("", **{name: value for name, value in parts.items() if name not in _LEFT_OUT})

"""A command that runs every day, as a line for cron or as units for systemd, for somebody to read and to install."""

from __future__ import annotations

import getpass
import os
import re
import shlex
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

CRON, SYSTEMD = "cron", "systemd"
KINDS = (CRON, SYSTEMD)
# at night, and not at an hour at which all others begin
_HOUR, _MINUTE = 3, 17
_NAME = "pgbillion-columns"
# by which a database is found, and no secrets
_VARIABLES = (
    "PGHOST",
    "PGHOSTADDR",
    "PGPORT",
    "PGUSER",
    "PGDATABASE",
    "PGSERVICE",
    "PGSERVICEFILE",
    "PGPASSFILE",
    "PGSSLMODE",
    "PGSSLROOTCERT",
    "PGSSLCERT",
    "PGSSLKEY",
    "PGBILLION_STATE",
)


def environment() -> dict[str, str]:
    """Return the variables that say which server and which state directory are meant; the schedule's has none."""
    return {name: os.environ[name] for name in _VARIABLES if os.environ.get(name)}


def absolute(command: str) -> list[str]:
    """Return the words of a command, with the path of its program, which cron and systemd would not find."""
    program, *words = shlex.split(command)
    found = shutil.which(program)
    return [str(Path(found).absolute()) if found else program, *words]


def cron(command: str, database: str, undo: str) -> str:
    """Return a line for a crontab, with comments that explain it."""
    given = " ".join(f"{name}={shlex.quote(value)}" for name, value in environment().items())
    # a % is a line feed to cron
    line = " ".join(filter(None, [given, shlex.join(absolute(command))])).replace("%", r"\%")
    return "\n".join(
        [
            *_introduction(command, database, undo),
            "# to install it, add the last line with: crontab -e; to undo that, remove the line",
            f"{_MINUTE} {_HOUR} * * * {line}",
        ]
    )


def systemd(command: str, database: str, undo: str) -> str:
    """Return a service and a timer, with comments that explain them."""
    name = f"{_NAME}-{re.sub(r'[^A-Za-z0-9_]+', '-', database).strip('-') or 'database'}"
    words = " ".join(_unit_word(word) for word in absolute(command))
    return "\n".join(
        [
            *_introduction(command, database, undo),
            "# to install it, write the two files, and run:",
            f"#   systemctl daemon-reload && systemctl enable --now {name}.timer",
            "# to undo that:",
            f"#   systemctl disable --now {name}.timer && rm /etc/systemd/system/{name}.timer"
            f" /etc/systemd/system/{name}.service && systemctl daemon-reload",
            "",
            f"# /etc/systemd/system/{name}.service",
            "[Unit]",
            f"Description=Columnar indexes of {_printable(database)}".replace("%", "%%"),
            "",
            "[Service]",
            "Type=oneshot",
            f"User={getpass.getuser()}",
            *(f"Environment={_unit_word(f'{key}={value}', dollar='$')}" for key, value in environment().items()),
            f"ExecStart={words}",
            "",
            f"# /etc/systemd/system/{name}.timer",
            "[Unit]",
            f"Description=Columnar indexes of {_printable(database)}".replace("%", "%%"),
            "",
            "[Timer]",
            f"OnCalendar=*-*-* {_HOUR:02}:{_MINUTE:02}",
            "Persistent=true",
            "",
            "[Install]",
            "WantedBy=timers.target",
        ]
    )


def _introduction(command: str, database: str, undo: str) -> Sequence[str]:
    return [
        f"# every day: columnar indexes of {_printable(database)} for its queries; nothing has been installed",
        f"# to try it now: {_printable(command)}",
        f"# to see what it has created and dropped, and how to undo that: {_printable(undo)}",
    ]


def _printable(words: str) -> str:
    """Return text for a comment or a description, which must stay on its line."""
    return "".join(char if char.isprintable() else "?" for char in words)


def _unit_word(word: str, *, dollar: str = "$$") -> str:
    """Quote a word for a unit file of systemd."""
    special: Mapping[str, str] = {"\\": "\\\\", '"': '\\"', "%": "%%", "$": dollar, "\n": "\\n", "\t": "\\t"}
    escaped = "".join(special.get(char, char) for char in word)
    return f'"{escaped}"' if not re.fullmatch(r"[A-Za-z0-9_./:@,+=%-]+", escaped) else escaped

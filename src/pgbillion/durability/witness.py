"""Whether the machine or the server failed since a window was opened.

The machine: the kernel's boot identifier, read by the server, so that it is that of the server's machine wherever we
are. Where it cannot be read, a crash of the server has to be taken for one of the machine.

The server: statistics survive a restart, but recovery after a crash throws all of them away, and notes when. Two
unrelated ones are looked at, so that a user who resets one of them is not taken for a crash; one who resets all is.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from pathlib import Path

import psycopg

from pgbillion.common.connection import Connection
from pgbillion.common.host import Host
from pgbillion.durability.record import Record

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_LIVES = """
SELECT concat_ws('|', extract(epoch FROM b.stats_reset), extract(epoch FROM a.stats_reset))
  FROM pg_stat_bgwriter b, pg_stat_archiver a
"""


class Trust(enum.StrEnum):
    """Whether the data can be trusted."""

    YES = "yes"
    DOUBTFUL = "doubtful"
    NO = "no"


@dataclass(frozen=True)
class Verdict:
    """What became of the data since the window was opened; ``reason`` is there when something did."""

    trust: Trust
    reason: str | None = None


def boot(conn: Connection) -> str | None:
    """Return the boot identifier of the server's machine, None when it cannot be known."""
    try:
        row = conn.execute("SELECT trim(pg_read_file(%s), E'\\n ')", [str(_BOOT_ID)]).fetchone()
        return str(row[0]) if row and row[0] else None
    except (psycopg.errors.InsufficientPrivilege, psycopg.errors.UndefinedFile, psycopg.errors.IoError):
        return local_boot() if Host.of(conn) is not None else None


def local_boot() -> str | None:
    """Return the boot identifier of this machine."""
    try:
        return _BOOT_ID.read_text().strip() or None
    except OSError:
        return None


def lives(conn: Connection) -> str:
    """Return what changes, both halves of it, when the server recovers from a crash."""
    row = conn.execute(_LIVES.encode()).fetchone()
    return str(row[0]) if row else ""


def crashed(before: str, now: str) -> bool:
    """Tell whether the server recovered from a crash between two results of `lives`."""
    return all(old != new for old, new in zip(before.split("|"), now.split("|"), strict=False))


def verdict(record: Record, boot_now: str | None, lives_now: str | None) -> Verdict:
    """Judge the data. ``lives_now`` is None when the server is down."""
    if record.distrust is not None:
        return Verdict(Trust.DOUBTFUL if record.doubtful else Trust.NO, record.distrust)
    rebooted = record.boot is not None and boot_now is not None and record.boot != boot_now
    server = lives_now is not None and crashed(record.lives, lives_now)
    if rebooted and record.machine:
        return Verdict(Trust.NO, "the machine was started anew within the window")
    # without the machine's word, any crash may have been the machine's
    if server and record.machine and (record.boot is None or boot_now is None):
        return Verdict(Trust.NO, "the server crashed within the window, and maybe its machine")
    if server and record.crash:
        return Verdict(
            Trust.DOUBTFUL,
            "the server crashed within the window with full_page_writes off: a page being written then may be torn",
        )
    if server or rebooted:
        return Verdict(Trust.YES, "a crash within the window may have lost the last commits before it, no more")
    return Verdict(Trust.YES)

"""How durable a server is, and whether its data can be trusted."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from pgbillion.common import invocation
from pgbillion.common.errors import UserError
from pgbillion.common.target import Target
from pgbillion.durability import force, restore, wal, witness
from pgbillion.durability.profiles import PROFILES, RISKS, WAL_DIR_RISK
from pgbillion.durability.record import MARK, Record
from pgbillion.durability.session import Session, session
from pgbillion.durability.witness import Trust


@dataclass(frozen=True)
class Report:
    """What `pgbillion durability status` tells.

    ``window`` is none, open, or distrusted: ended with data that cannot be trusted. ``not_durable`` has the reasons why
    a failure of the machine could lose or damage what is committed now; none means durable. ``settings`` has, by name,
    the value now, before the window and within it, and whether it waits for a restart. What only a superuser may know,
    or only a running server, is None.
    """

    running: bool
    window: str
    durable: bool
    not_durable: list[str]
    trust: str
    reason: str | None
    settings: dict[str, dict[str, Any]]
    version: str | None = None
    profile: str | None = None
    since: str | None = None
    risks: list[str] | None = None
    wal_folder: str | None = None
    next: str | None = None


def status(target: Target, state: Path) -> Report:
    """Report on a server; on one that is down within a window, too, when we know of it."""
    with session(target, lambda _: None) as opened:
        try:
            opened.one("SELECT 1")
        except psycopg.OperationalError as error:
            found = restore.offline(target, state)
            if found is None or found[1] is None:
                raise error
            return _offline(found[0].data, found[1])
        return _online(opened)


def _online(opened: Session) -> Report:
    superuser = bool(opened.one("SELECT rolsuper FROM pg_roles WHERE rolname = current_user"))
    record = opened.record() if superuser else _seen(opened)
    names = sorted({setting.name for profile in PROFILES.values() for setting in profile} | {"max_wal_size"})
    if superuser:
        now = {name: (one.value, one.pending) for name, one in opened.settings(names).items()}
    else:
        rows = opened.conn.execute(
            "SELECT name, setting, pending_restart FROM pg_settings WHERE name = ANY (%s)", [names]
        ).fetchall()
        now = {name: (value, pending) for name, value, pending in rows}
    reasons = [f"{name} = off" for name in restore.FIRST if now[name][0] == "off"]
    if superuser:
        reasons += [f"{folder} is in memory" for folder in force.volatile_places(opened)]
    settings: dict[str, dict[str, Any]] = {
        name: {"now": value, "before": None, "within": None, "pending_restart": pending}
        for name, (value, pending) in now.items()
    }
    version = str(opened.one("SHOW server_version")).split()[0]
    if record is None:
        return Report(True, "none", not reasons, reasons, Trust.YES, None, settings, version)
    for name, value in record.wanted.items():
        settings.setdefault(name, {"now": None, "pending_restart": None})
        settings[name] |= {"before": record.values[name], "within": value}
    judged = witness.verdict(record, witness.boot(opened.conn), witness.lives(opened.conn))
    if record.machine and not record.distrust:
        reasons.append("data written within the window was not seen to disk")
    if judged.trust is not Trust.YES:
        reasons.append("the data cannot be trusted")
    return Report(
        running=True,
        window="distrusted" if record.distrust else "open",
        durable=not reasons,
        not_durable=reasons,
        trust=judged.trust,
        reason=judged.reason,
        settings=settings,
        version=version,
        **_facts(record),
    )


def _offline(data: Path, record: Record) -> Report:
    """Report on a server that is down."""
    judged = witness.verdict(record, witness.local_boot(), None)
    reasons = ["the server is down within a durability window"] if not record.distrust else []
    trust, reason = judged.trust, judged.reason
    if record.wal is not None:
        try:
            wal.check(data, record.wal)
        except UserError as error:
            trust, reason = Trust.NO, error.message
    if trust is not Trust.YES:
        reasons.append("the data cannot be trusted")
    settings: dict[str, dict[str, Any]] = {
        name: {"now": None, "before": record.values[name], "within": value, "pending_restart": None}
        for name, value in record.wanted.items()
    }
    return Report(
        running=False,
        window="distrusted" if record.distrust else "open",
        durable=False,
        not_durable=reasons,
        trust=trust,
        reason=reason,
        settings=settings,
        **_facts(record),
    )


def _facts(record: Record) -> dict[str, Any]:
    if record.distrust is not None:
        return {
            "profile": record.profile.value,
            "since": record.since,
            "next": "load the data anew or check it (pg_amcheck, …), then: "
            + invocation.command("durability", "restore", "--trust"),
        }
    volatile = record.wal is not None and record.wal.volatile
    return {
        "profile": record.profile.value,
        "since": record.since,
        "risks": [RISKS[record.profile], *([WAL_DIR_RISK] if volatile else [])],
        "wal_folder": record.wal.folder if record.wal else None,
        "next": invocation.command("durability", "restore"),
    }


def _seen(opened: Session) -> Record | None:
    """Return the record as anybody sees it, once the server has loaded it."""
    text = opened.one("SELECT current_setting(%s, true)", MARK)
    return Record.loads(text) if text else None

"""Close a window: put everything back, see all data to disk, and only then say so."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from pathlib import Path

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from pgbillion.common import invocation
from pgbillion.common.errors import UserError
from pgbillion.common.target import Target
from pgbillion.durability import checks, control, force, wal, witness
from pgbillion.durability.checks import Allow
from pgbillion.durability.profiles import PROFILES
from pgbillion.durability.record import MARK, Copy, Record, locked, read_mark, remove_copies, write_auto_conf
from pgbillion.durability.session import Current, Say, Session, session
from pgbillion.durability.witness import Trust, Verdict
from pgbillion.server import embedded
from pgbillion.server.postgres import processes

WAIT_SECONDS = 60.0
# the order in which durability comes back; all others follow
FIRST = ("fsync", "full_page_writes", "synchronous_commit")
_AT_START = {setting.name for profile in PROFILES.values() for setting in profile if setting.restart}


@dataclass(frozen=True)
class Request:
    """How to close it.

    ``restart``: whether the server may be restarted; by default the embedded one may, and one that might for `relax`.
    ``wait``: seconds to give commands that began under the old settings. ``trust``: the user vouches for data that
    cannot be trusted. ``lost_wal``: the write-ahead log is lost and is given up. ``rollback``: this undoes a relax that
    failed.
    """

    restart: bool | None = None
    allow: Collection[Allow] = ()
    wait: float = WAIT_SECONDS
    trust: bool = False
    lost_wal: bool = False
    dry: bool = False
    rollback: bool = False


@dataclass(frozen=True)
class Outcome:
    """What became of it. ``not_durable`` has the reasons why the server is not, none when it is."""

    record: Record | None
    verdict: Verdict
    not_durable: list[str]
    notes: list[str] = field(default_factory=list)
    planned: list[str] = field(default_factory=list)


def restore(target: Target, request: Request, state: Path, say: Say) -> Outcome:
    """Close the window of a server, from wherever an earlier relax or restore was interrupted.

    Raises UserError when that cannot be done, or not to the end; what was done then stays done, and the window is open
    until a later call is through.
    """
    with locked(state):
        return restore_locked(target, request, state, say)


def restore_locked(target: Target, request: Request, state: Path, say: Say) -> Outcome:
    """Do it for somebody who holds the lock."""
    with session(target, say, dry=request.dry) as opened:
        started = False
        try:
            opened.one("SELECT 1")
        except psycopg.OperationalError as error:
            _start(opened, request, state, error)
            started = True
        checks.check_server(opened)
        record = opened.record()
        if record is None:
            _forget(opened, state)
            return Outcome(None, Verdict(Trust.YES), not_durable(opened))
        if record.distrust is not None:
            return _distrusted(opened, record, request, state)
        return _restore(opened, record, request, state, started=started)


def not_durable(opened: Session) -> list[str]:
    """Return why this server's settings and file systems do not keep what is committed."""
    current = opened.settings(FIRST)
    reasons = [f"{name} = off" for name in FIRST if current[name].value == "off"]
    return reasons + [f"{folder} is in memory" for folder in force.volatile_places(opened)]


def _restore(opened: Session, record: Record, request: Request, state: Path, *, started: bool) -> Outcome:
    found = control.find(opened, state)
    _put_back(opened, record)
    moved = record.wal is not None and (found.data is None or not wal.is_back(found.data, record.wal))
    waiting = _waiting(opened, record)
    restarted = False
    may = found.control is not None and _may_restart(request, record, embedded=found.embedded)
    if (waiting or moved) and may:
        if not request.rollback:
            checks.check_sessions(opened, request.allow)
        _restart(opened, record, found)
        restarted = True
    durable_settings = opened.settings(["fsync"])["fsync"].value == "on" or opened.dry
    if durable_settings:
        if not (restarted or started) and record.machine:
            opened.wait_for_all(request.wait)
        force.force(opened)
    if (waiting or moved) and not restarted:
        what = ", ".join(waiting) if waiting else "pg_wal"
        data = "all data is on disk, but " if durable_settings else ""
        raise UserError(
            f"{data}{what} takes a restart of the server, and the window is open until then"
            + (f": {found.reason}" if found.reason else ""),
            f"{found.command}; then: {_again(request)}"
            if not moved and found.control is None
            else f"{_again(request, '--restart', 'now')}; or: {found.command}; {_again(request)}",
        )
    notes = [] if opened.dry else _verify(opened, record, request)
    if record.wal is not None and found.data is not None and not restarted:
        move, data_directory = record.wal, found.data
        opened.step(f"-- clear {move.folder}", lambda: wal.leave(data_directory, move))
    return _finish(opened, record, request, state, notes)


def _may_restart(request: Request, record: Record, *, embedded: bool) -> bool:
    return embedded or record.restart if request.restart is None else request.restart


def _put_back(opened: Session, record: Record) -> None:
    """Make the lines of postgresql.auto.conf what they were, durability's first, and have them read."""
    names = [*(name for name in FIRST if name in record.former), *(n for n in record.former if n not in FIRST)]
    changed = False
    for name in names:
        if opened.settings_in_auto_conf(name) != record.former[name]:
            opened.alter(name, record.former[name])
            changed = True
    # also when nothing is left to change: an earlier call may have been killed before this
    if changed or not opened.dry:
        opened.reload()


def _waiting(opened: Session, record: Record) -> list[str]:
    """Return the settings that only a restart brings back."""
    if opened.dry:
        return sorted(_AT_START & record.wanted.keys())
    now = opened.settings(record.former)
    return sorted(name for name, one in now.items() if _pending(one, record.values[name]))


def _pending(now: Current, before: str) -> bool:
    """Tell whether a restart would change a setting: the server says so even of one that went and came back."""
    return now.pending and now.value != before


def _restart(opened: Session, record: Record, found: control.Found) -> None:
    assert found.control is not None
    run = found.control
    opened.statement(sql.SQL("CHECKPOINT"))
    opened.close()
    opened.step(f"-- stop the server ({run.data})", run.stop)
    if record.wal is not None:
        move = record.wal
        opened.step("-- move pg_wal back", lambda: wal.back(run.data, move))
    opened.step("-- start the server", run.start)
    if record.wal is not None:
        opened.step(f"-- clear {move.folder}", lambda: wal.leave(run.data, move))


def _again(request: Request, *options: str) -> str:
    """Return the command with what the user has asked for, but for whether to restart."""
    words = [word for one in sorted(request.allow) for word in ("--allow", one.value)]
    words += ["--wait", f"{request.wait:g}"] if request.wait != WAIT_SECONDS else []
    words += ["--trust"] if request.trust else []
    words += ["--lost-wal"] if request.lost_wal else []
    words += ["--dry-run"] if request.dry else []
    return invocation.command("durability", "restore", *words, *options)


def _verify(opened: Session, record: Record, request: Request) -> list[str]:
    """Raise UserError unless all is as recorded; return what is not, but not for us to change."""
    notes = []
    for name, now in opened.settings(record.former).items():
        if now.auto_conf != record.former[name] or _pending(now, record.values[name]):
            raise UserError(f"{name} could not be put back", f"try again: {_again(request)}")
        if now.value != record.values[name]:
            notes.append(f"{name} was {record.values[name]} and is {now.value}: another file was changed meanwhile")
    return notes


def _finish(opened: Session, record: Record, request: Request, state: Path, notes: list[str]) -> Outcome:
    """Judge the data, and remove the mark; where they cannot be trusted, make it say so."""
    if opened.dry:
        opened.alter(MARK, None)
        opened.reload()
        return Outcome(record, Verdict(Trust.YES), [], notes, opened.planned)
    judged = witness.verdict(record, witness.boot(opened.conn), witness.lives(opened.conn))
    if judged.trust is Trust.YES or request.trust:
        opened.alter(MARK, None)
        opened.reload()
        _forget(opened, state)
        return Outcome(record, judged, not_durable(opened), notes)
    doubtful = judged.trust is Trust.DOUBTFUL
    kept = replace(record, distrust=judged.reason, doubtful=doubtful, former={}, wanted={}, wal=None)
    opened.alter(MARK, kept.dumps())
    opened.reload()
    _forget(opened, state)
    return Outcome(record, judged, not_durable(opened), notes)


def _distrusted(opened: Session, record: Record, request: Request, state: Path) -> Outcome:
    """Remove the mark of data that cannot be trusted, when the user vouches for them."""
    judged = witness.verdict(record, None, None)
    if request.trust:
        opened.alter(MARK, None)
        opened.reload()
        _forget(opened, state)
        judged = Verdict(Trust.YES)
    return Outcome(record, judged, not_durable(opened), planned=opened.planned)


def _forget(opened: Session, state: Path) -> None:
    if not opened.dry:
        remove_copies(state, system=str(opened.one("SELECT system_identifier FROM pg_control_system()")))


# ---- a server that is down


def offline(target: Target, state: Path) -> tuple[control.Control, Record | None, bool] | None:
    """Return a server that is down, its record, and whether it is the embedded one; None when we know of none."""
    cluster = embedded.find(state)
    if (
        cluster is not None
        and cluster.data.exists()
        and not cluster.running()
        and (target.embedded or conninfo_to_dict(target.address).get("host") == str(cluster.socket_dir))
    ):
        return cluster, read_mark(cluster.data), True
    copy = Copy.find(state, target.address)
    if copy is None or copy.start is None:
        return None
    own = control.Own.from_json(copy.start)
    if own.running():
        return None
    return own, read_mark(own.data), False


def _start(opened: Session, request: Request, state: Path, error: psycopg.OperationalError) -> None:
    """Put back what can be put back in a server that is down, and start it. Raises ``error`` when it is not ours."""
    found = offline(opened.target, state)
    if found is None or found[1] is None:
        raise error
    run, record, embedded = found
    assert record is not None
    if not _may_restart(request, record, embedded=embedded):
        raise UserError(
            "the server is down within a durability window",
            f"start it, then: {_again(request)}; or let this do it: {_again(request, '--restart', 'now')}",
            status=2,
        ) from error
    if request.dry:
        opened.planned.append(f"-- start the server ({run.data})")
        raise UserError("the server is down, so that the further steps are not known yet", "start it first")
    move = record.wal
    if move is not None:
        try:
            wal.check(run.data, move)
        except UserError:
            if not request.lost_wal:
                raise
            _give_up(opened, run, record)
        opened.step("-- move pg_wal back", lambda: wal.back(run.data, move))
    opened.step("-- put the settings back in postgresql.auto.conf", lambda: write_auto_conf(run.data, record.former))
    opened.step(f"-- start the server ({run.data})", run.start)


def _give_up(opened: Session, run: control.Control, record: Record) -> None:
    """Leave a cluster whose log is lost as far as it can be put back. Always raises UserError."""
    assert record.wal is not None
    move = record.wal
    kept = replace(record, distrust="the write-ahead log was lost", former={}, wanted={}, wal=None)
    opened.step("-- make an empty pg_wal", lambda: wal.give_up(run.data, move))
    if not processes(run.data):
        # of a server that crashed; pg_resetwal would take it for a running one
        (run.data / "postmaster.pid").unlink(missing_ok=True)
    opened.step(
        "-- put the settings back in postgresql.auto.conf",
        lambda: write_auto_conf(run.data, {**record.former, MARK: kept.dumps()}),
    )
    raise UserError(
        "the settings are put back, but the write-ahead log is lost, and the data cannot be trusted",
        f"make the server anew and load again, or restore a backup; to save what is left: pg_resetwal -f {run.data}, "
        "start it, pg_dump",
    )

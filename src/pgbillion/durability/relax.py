"""Open a window: see that nothing breaks, keep what is there, then change it."""

from __future__ import annotations

import datetime
import enum
import shlex
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import psycopg
from psycopg import sql

from pgbillion.common import invocation
from pgbillion.common.errors import UserError
from pgbillion.common.target import Target
from pgbillion.durability import checks, control, force, restore, wal, witness
from pgbillion.durability.checks import Allow
from pgbillion.durability.profiles import PROFILES, RISKS, WAL_DIR_RISK, Profile, Setting, needs_restart, settings
from pgbillion.durability.record import MARK, Copy, Record, Wal, locked, new_id
from pgbillion.durability.session import Current, Say, Session, session

_MOST_WAL_MB = 8192


class Restart(enum.StrEnum):
    """Who restarts the server where that is needed: we, the user, or nobody, and then what needs it is left out."""

    NOW = "now"
    LATER = "later"
    NEVER = "never"


@dataclass(frozen=True)
class Request:
    """What is wanted. Without ``restart`` the embedded server is restarted, and no other."""

    profile: Profile
    wal_dir: Path | None = None
    restart: Restart | None = None
    allow: Collection[Allow] = ()
    dry: bool = False


@dataclass(frozen=True)
class Outcome:
    """An open window. ``steps`` are left for the user to do; ``planned`` is what a dry run would do."""

    record: Record
    risks: list[str]
    notes: list[str]
    steps: list[str]
    planned: list[str]


@dataclass(frozen=True)
class _Plan:
    record: Record
    changes: list[Setting]
    found: control.Found
    restart: bool
    later: bool
    forced: bool  # what the server wrote so far was not seen to disk, and is to be
    notes: list[str]


def relax(target: Target, request: Request, state: Path, say: Say) -> Outcome:
    """Open a window. Raises UserError, and leaves the server as it was, when it cannot be."""
    with locked(state), session(target, say, dry=request.dry) as opened:
        plan = _plan(opened, request, state)
        risks = [RISKS[request.profile], *([WAL_DIR_RISK] if plan.record.wal and plan.record.wal.volatile else [])]
        steps = [plan.found.command] if plan.later else []
        if not request.dry:
            own = plan.found.control if isinstance(plan.found.control, control.Own) else None
            Copy(
                plan.record,
                target.address,
                str(plan.found.data) if plan.found.data else None,
                own.to_json() if own else None,
            ).save(Copy.path(state, _system(opened)))
        try:
            opened.alter(MARK, plan.record.dumps())
            opened.reload()
            record = _change(opened, plan)
        except KeyboardInterrupt:
            say(f"interrupted; to put back what was changed: {invocation.command('durability', 'restore')}")
            raise
        except Exception as error:
            say("that failed: putting everything back")
            opened.close()
            _roll_back(target, state, say, error)
            raise
        return Outcome(record, risks, plan.notes, steps, opened.planned)


def _roll_back(target: Target, state: Path, say: Say, error: Exception) -> None:
    try:
        restore.restore_locked(target, restore.Request(restart=True, rollback=True), state, say)
    except (UserError, psycopg.Error) as second:
        raise UserError(
            f"{error}; and not everything could be put back: {second}", invocation.command("durability", "restore")
        ) from error


def _plan(opened: Session, request: Request, state: Path) -> _Plan:
    """Check everything and decide what to do. Nothing is changed."""
    checks.check_server(opened)
    _check_not_open(opened)
    checks.check_files(opened)
    current = opened.settings(
        sorted(
            {setting.name for profile in PROFILES.values() for setting in profile} | {"max_wal_size", "min_wal_size"}
        )
    )
    major = opened.conn.info.server_version // 10000
    never = request.restart is Restart.NEVER
    changes = [
        setting
        for setting in settings(request.profile, major, restart=not never)
        if not setting.satisfied(current[setting.name].value)
    ]
    found = control.find(opened, state)
    move: Wal | None = None
    room: int | None = None
    if request.wal_dir is not None:
        if never:
            raise UserError("pg_wal cannot be moved without a restart", "leave out --wal-dir or --restart never")
        _check_can_restart(found, request, "--wal-dir")
        assert found.data is not None
        move, room = wal.plan(found.data, request.wal_dir)
    changes += _wal_size(request.profile, current, room, found)
    checks.check_settable(opened, changes)
    checks.check_allowed(opened, request.profile, changes, request.allow)
    starting = needs_restart(changes)
    restart = bool(starting) or move is not None
    later = restart and request.restart is Restart.LATER
    notes = [
        f"synchronous_commit stays as it is set for {who}" for who in checks.exceptions(opened, "synchronous_commit")
    ]
    if restart:
        checks.check_no_restart_pending(opened)
        names = ", ".join(f"{setting.name} = {setting.value}" for setting in starting)
        if request.dry and move is None and request.restart is None and not found.embedded:
            # shown first, decided afterwards
            later = found.control is None
            choices = "--restart later or never" if later else "--restart now, later or never"
            notes.append(f"{names} takes a restart of the server, which is yours to allow: say {choices}")
        elif not later:
            _check_can_restart(found, request, names or "--wal-dir")
            checks.check_sessions(opened, request.allow)
    wanted = {change.name: change.value for change in changes}
    base = {name: one.value for name, one in current.items()}
    after = base | wanted
    unsafe = {name for name in ("fsync", "full_page_writes") if base[name] == "off"}
    relaxed = {name for name in ("fsync", "full_page_writes") if after[name] == "off"}
    volatile = move is not None and move.volatile
    record = Record(
        id=new_id(),
        profile=request.profile,
        since=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        boot=witness.boot(opened.conn),
        lives=witness.lives(opened.conn),
        machine=bool(unsafe | relaxed) or volatile,
        crash="full_page_writes" in unsafe | relaxed,
        former={change.name: current[change.name].auto_conf for change in changes},
        values=base,
        wanted=wanted,
        wal=move,
        restart=request.restart is Restart.NOW,
    )
    forced = bool(unsafe) and not relaxed
    return _Plan(record, changes, found, restart and not later, later, forced, notes)


def _change(opened: Session, plan: _Plan) -> Record:
    """Do it. Returns the record as it is at the end."""
    record = plan.record
    for change in plan.changes:
        opened.alter(change.name, change.value)
    if plan.changes:
        opened.reload()
    if plan.restart:
        assert plan.found.control is not None
        run = plan.found.control
        # the reload may have found more in the files than we put there
        checks.check_no_restart_pending(opened, but={change.name for change in plan.changes})
        opened.statement(sql.SQL("CHECKPOINT"))
        opened.close()
        opened.step(f"-- stop the server ({run.data})", run.stop)
        if record.wal is not None:
            move = record.wal
            opened.step(f"-- move pg_wal to {move.folder}", lambda: wal.away(run.data, move))
        opened.step("-- start the server", run.start)
        if record.wal is not None:
            opened.step("-- remove the old pg_wal", lambda: wal.tidy(run.data, move))
    if not opened.dry:
        _verify(opened, plan)
    if plan.forced:
        # what was written before without fsync is to be on disk before the profile's promise holds
        if not plan.restart:
            opened.wait_for_all(restore.WAIT_SECONDS)
        force.force(opened)
        volatile = record.wal is not None and record.wal.volatile
        record = replace(
            record, machine=volatile, crash=False, lives=plan.record.lives if opened.dry else witness.lives(opened.conn)
        )
        opened.alter(MARK, record.dumps())
        opened.reload()
    return record


def _verify(opened: Session, plan: _Plan) -> None:
    marked = opened.record()
    if marked is None or marked.id != plan.record.id:
        # somebody's restore, from another machine or state folder, was in between: make it undoable again
        opened.alter(MARK, plan.record.dumps())
        raise UserError("somebody else closed the window while it was opened", "nothing stays changed; try again")
    for name, now in opened.settings(plan.record.wanted).items():
        change = next(change for change in plan.changes if change.name == name)
        if now.value != change.value and not (plan.later and change.restart):
            raise UserError(f"the server did not take {name} = {change.value}: it is {now.value}")


def _check_not_open(opened: Session) -> None:
    record = opened.record()
    if record is None:
        return
    if record.distrust is not None:
        raise UserError(
            f"the data of this server cannot be trusted: {record.distrust}",
            f"once it was loaded anew or checked: {invocation.command('durability', 'restore', '--trust')}",
        )
    raise UserError(
        f"the server is relaxed already (profile {record.profile}, since {record.since})",
        f"to see more: {invocation.command('durability', 'status')};"
        f" to end it: {invocation.command('durability', 'restore')}",
    )


def _check_can_restart(found: control.Found, request: Request, what: str) -> None:
    """Raise UserError unless the server can be stopped and started by us, and may be."""
    if found.control is None:
        raise UserError(
            f"{what} takes a restart of the server, which cannot be done from here: {found.reason}",
            _by_hand(found, request),
        )
    if request.restart is Restart.LATER and request.wal_dir is not None:
        raise UserError("pg_wal is moved while the server is stopped, so not later", "--restart now")
    if not found.embedded and request.restart is not Restart.NOW:
        raise UserError(
            f"{what} takes a restart of the server, which is yours to allow",
            f"--restart now; {_by_hand(found, request)}",
        )


def _by_hand(found: control.Found, request: Request) -> str:
    if request.wal_dir is not None:
        data = found.data or Path("DATA_DIRECTORY")
        wal_, old, there = (shlex.quote(str(path)) for path in (data / "pg_wal", data / "pg_wal.old", request.wal_dir))
        return f"by hand: stop the server; cp -a {wal_}/. {there}; mv {wal_} {old}; ln -s {there} {wal_}; start it"
    return f"--restart later, then: {found.command}; or --restart never, for what takes none"


def _wal_size(
    profile: Profile, current: Mapping[str, Current], room: int | None, found: control.Found
) -> list[Setting]:
    """Return how much log there may be between two checkpoints: much, but no more than there is room for.

    Megabytes. ``room`` is that of a folder of its own; without one it has to share with the data.
    """
    most, least = int(current["max_wal_size"].value), int(current["min_wal_size"].value)
    if room is not None:
        # the limit is a soft one
        wanted = min(max(most, _MOST_WAL_MB), room * 6 // 10)
        changes = [Setting("max_wal_size", str(wanted))] if wanted != most else []
        return changes + ([Setting("min_wal_size", str(wanted // 4))] if least > wanted // 4 else [])
    if profile is Profile.MINIMAL and found.data is not None:
        free = wal.free(found.data)
        wanted = min(_MOST_WAL_MB, free // 10) if free is not None else 0
        if wanted > most:
            return [Setting("max_wal_size", str(wanted))]
    return []


def _system(opened: Session) -> str:
    return str(opened.one("SELECT system_identifier FROM pg_control_system()"))

"""What has to be so before a server is relaxed, and what must not be broken unless its owner says so."""

from __future__ import annotations

import enum
from collections.abc import Collection

from pgbillion.common.errors import UserError
from pgbillion.durability.profiles import Profile, Setting
from pgbillion.durability.session import Session

_PLACES_OF_SETTINGS = ("default", "configuration file", "override")


class Allow(enum.StrEnum):
    """What may be broken."""

    STANDBY = "standby"
    SLOTS = "slots"
    ARCHIVING = "archiving"
    SUBSCRIPTIONS = "subscriptions"
    SESSIONS = "sessions"


def check_server(session: Session) -> None:
    """Raise UserError unless settings can be changed here at all."""
    if not session.one("SELECT rolsuper FROM pg_roles WHERE rolname = current_user"):
        raise UserError(
            f"{session.one('SELECT current_user')} is not a superuser of this server",
            "ALTER SYSTEM, CHECKPOINT and writing back file systems need one; connect as one with -U",
            status=3,
        )
    if session.one("SELECT pg_is_in_recovery()"):
        raise UserError("the server is in recovery", "relax its primary, or promote it first")
    if session.one("SELECT current_setting('allow_alter_system', true)") == "off":
        raise UserError(
            "ALTER SYSTEM is not allowed on this server (allow_alter_system = off)",
            "the user who manages its configuration can change its settings there",
            status=3,
        )


def check_files(session: Session) -> None:
    """Raise UserError when the server could not load its files, or start with them, as they are now."""
    wrong = session.conn.execute(
        "SELECT sourcefile, sourceline, name, error FROM pg_file_settings WHERE error IS NOT NULL ORDER BY seqno"
    ).fetchall()
    # to read that view marks what would wait for a restart; that is asked for elsewhere
    waiting = _pending(session, ())
    for file, line, name, error in wrong:
        if name not in waiting:
            raise UserError(
                f"the server cannot load its settings: {file} line {line}{f', {name}' if name else ''}: {error}",
                "put that right first",
            )


def check_no_restart_pending(session: Session, but: Collection[str] = ()) -> None:
    """Raise UserError when a restart would bring anything else into effect than some of our settings."""
    # what is in the files, but was not loaded yet, counts as well
    session.conn.execute("SELECT FROM pg_file_settings")
    pending = _pending(session, but)
    if pending:
        raise UserError(
            f"changed settings wait for a restart of the server: {', '.join(pending)}",
            "restart it first, to see that it starts with them; or --restart never",
        )


def _pending(session: Session, but: Collection[str]) -> list[str]:
    # the flag outlives a change that was taken back
    rows = session.conn.execute(
        "SELECT name FROM pg_settings s WHERE pending_restart AND name <> ALL (%s) AND (setting <> boot_val"
        " OR EXISTS (SELECT FROM pg_file_settings f WHERE f.name = s.name)) ORDER BY name",
        [list(but)],
    )
    return [name for (name,) in rows]


def check_settable(session: Session, changes: Collection[Setting]) -> None:
    """Raise UserError when a setting would not follow postgresql.auto.conf."""
    for name, current in session.settings([change.name for change in changes]).items():
        if current.source not in _PLACES_OF_SETTINGS:
            raise UserError(
                f"{name} is set by the server's {current.source}, which ALTER SYSTEM cannot override",
                "start the server without it",
            )


def exceptions(session: Session, name: str) -> list[str]:
    """Return for whom a setting has a value of its own, whatever the server's is."""
    rows = session.conn.execute(
        "SELECT coalesce('database ' || d.datname, 'all databases') || coalesce(', role ' || r.rolname, '')"
        " FROM pg_db_role_setting s LEFT JOIN pg_database d ON d.oid = s.setdatabase"
        " LEFT JOIN pg_roles r ON r.oid = s.setrole"
        " WHERE EXISTS (SELECT FROM unnest(setconfig) c WHERE c LIKE %s) ORDER BY 1",
        [f"{name}=%"],
    )
    return [who for (who,) in rows]


def check_allowed(session: Session, profile: Profile, changes: Collection[Setting], allow: Collection[Allow]) -> None:
    """Raise UserError when relaxing would break something that was not said to be allowed to break."""
    wanted = {change.name: change.value for change in changes}
    unsafe = profile is Profile.MINIMAL
    minimal = wanted.get("wal_level") == "minimal" or "max_wal_senders" in wanted
    slots = session.one("SELECT string_agg(slot_name, ', ') FROM pg_replication_slots WHERE NOT temporary")
    if slots and minimal:
        # not a matter of leave: with a slot and wal_level = minimal the server would not start
        raise UserError(
            f"the server has replication slots ({slots}), with which it would not start with wal_level = minimal",
            "drop them, or relax what needs no restart: --restart never --allow slots",
        )
    if slots and unsafe:
        _refuse(allow, Allow.SLOTS, f"replication slots are in use ({slots}), whose readers may get what is lost here")
    senders = session.one(
        "SELECT string_agg(coalesce(nullif(application_name, ''), '?'), ', ') FROM pg_stat_replication"
    )
    if senders and unsafe:
        _refuse(
            allow, Allow.STANDBY, f"a standby or a base backup is attached ({senders}), and would have to be made anew"
        )
    names = session.one("SELECT current_setting('synchronous_standby_names')")
    if names and wanted.get("synchronous_commit") == "off":
        _refuse(
            allow,
            Allow.STANDBY,
            f"commits wait for a standby (synchronous_standby_names = '{names}'), and no longer would",
        )
    if "archive_mode" in wanted:
        _refuse(allow, Allow.ARCHIVING, "the server archives its WAL, and the archive would have a gap")
    if unsafe and session.one("SELECT count(*) FROM pg_subscription WHERE subenabled"):
        _refuse(
            allow,
            Allow.SUBSCRIPTIONS,
            "the server subscribes to publications, which forget what it confirmed and may then lose",
        )


def check_sessions(session: Session, allow: Collection[Allow]) -> None:
    """Raise UserError when a restart would interrupt somebody's work."""
    pids = session.one(
        "SELECT string_agg(pid::text, ', ') FROM pg_stat_activity"
        " WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() AND state <> 'idle'"
    )
    if pids:
        _refuse(allow, Allow.SESSIONS, f"a restart would interrupt sessions at work (pid {pids})")


def _refuse(allow: Collection[Allow], what: Allow, message: str) -> None:
    if what not in allow:
        raise UserError(message, f"if that may be: --allow {what.value}")

"""A server of its own on a copy of a base backup, which replays WAL up to a time and is thrown away afterwards.

It uses the settings given here, none of the backup's: it listens in a directory closed to others, archives nothing,
connects to nothing, and starts no worker of an extension. WAL may create tablespaces, at the very place where the
server that wrote it has them. So the directory of their links is closed, and replay fails rather than write there.

Files that are not needed are left out of the copy. Replay skips changes to their pages, which PostgreSQL takes for a
damaged backup unless ignore_invalid_pages is on; it reports each, and one of a file that was copied is our error.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil
import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from pgbillion.common.connection import Connection
from pgbillion.common.errors import UserError
from pgbillion.common.target import Target
from pgbillion.server import client, embedded, extension, neighbours
from pgbillion.server.postgres import SUPERUSER, Cluster, Installation, run_as_server, server_user
from pgbillion.tenants.backup import CONTROL, Backup, Wanted, stem

Say = Callable[[str], None]

_FOLDERS = (
    "global", "base", "pg_tblspc", "pg_xact", "pg_multixact/members", "pg_multixact/offsets", "pg_commit_ts",
    "pg_twophase", "pg_wal/archive_status", "pg_dynshmem", "pg_logical/mappings", "pg_logical/snapshots", "pg_notify",
    "pg_replslot", "pg_serial", "pg_snapshots", "pg_stat", "pg_stat_tmp", "pg_subtrans",
)  # fmt: skip
# a file that is left out gets its length without blocks, so that replay need not write what is before a page
_WORTH_A_PLACE = 1 << 20
MAX_WAL = 1 << 30
_SEGMENT = re.compile(r"[0-9A-F]{24}")
_POLL_SECONDS = 0.05
_NOT_STARTED_SECONDS = 10.0
_SAY_SECONDS = 5.0
# in place of what is set for the database or the role
_OPTIONS = (
    "-c session_preload_libraries= -c local_preload_libraries= -c default_transaction_read_only=off"
    " -c statement_timeout=0 -c idle_in_transaction_session_timeout=0"
)
_SKIPPED = re.compile(r"WARNING:  page \d+ of relation (\S+) (?:does not exist|is uninitialized)")
_NOT_READY = re.compile(
    r"starting up|shutting down|not (?:yet )?accepting connections|No such file|refused|closed the connection"
)
_RESTORED = re.compile(r'restored log file "([0-9A-F]{24})" from archive')
_LAST = re.compile(r"last completed transaction was at log time (.+)")


class DeadEndError(UserError):
    """No further attempt can succeed with the same backup, time and tenant."""


@dataclass(frozen=True)
class Wal:
    """Where WAL comes from: a directory, or a command as restore_command; neither if the backup has all of it."""

    folder: Path | None = None
    command: str | None = None

    def check(self) -> None:
        """Raise UserError for a directory that the server cannot read."""
        if self.folder is None:
            return
        if not self.folder.is_dir():
            raise UserError(f"there is no directory {self.folder}", "--wal names the directory of the WAL archive")
        if run_as_server(["/bin/sh", "-c", 'test -r "$0" && test -x "$0"', self.folder]).returncode != 0:
            user = server_user()
            raise UserError(
                f"the WAL archive {self.folder} cannot be read by {user.pw_name if user else 'this user'}",
                "let that user read it, or give --restore-command",
            )

    def setting(self) -> str:
        """Return restore_command."""
        if self.command is not None:
            return self.command
        if self.folder is None:
            return "false"
        # PostgreSQL reads what is restored, and removes it; a link spares the copy, and the archive keeps the file
        file = f"{shlex.quote(str(self.folder.absolute())).replace('%', '%%')}/%f"
        return f"test -f {file} && ln -s -- {file} %p"

    def segments(self, first: str | None = None) -> dict[str, int]:
        """Return names and bytes of the segments in the directory, from one on, whichever its timeline."""
        if self.folder is None:
            return {}
        with os.scandir(self.folder) as entries:
            found = {entry.name: entry.stat().st_size for entry in entries if _SEGMENT.fullmatch(entry.name)}
        return {name: size for name, size in sorted(found.items()) if first is None or name[8:] >= first[8:]}


@dataclass(frozen=True)
class Control:
    """What a data directory's control file says."""

    state: str
    segment_size: int
    prepared: int
    checksums: bool
    system: str


def installation(major: int, pg_config: Path | None, state: Path, live: Connection) -> Installation:
    """Return a PostgreSQL of a major version: the named one, that of the target's server, or any. Raises UserError."""
    if pg_config is not None:
        facts = extension.read_pg_config(pg_config)
        found = _installed(facts.bindir)
        if found is None or facts.major != major:
            raise UserError(
                f"the backup is of PostgreSQL {major}, and {facts.pg_config} is of {facts.version}"
                if facts.major != major
                else f"{facts.bindir} has no server that can be run",
                f"name pg_config of PostgreSQL {major} with --pg-config",
            )
        return found
    running = neighbours.at(live.info.host, live.info.port) if live.info.host.startswith("/") else None
    folders = [running.program.parent] if running is not None and running.program is not None else []
    for folder in (*folders, *client.folders()):
        found = _installed(folder)
        if found is not None and found.major == major:
            return found
    with contextlib.suppress(UserError):
        own = Installation.prepare(state)
        if own.major == major:
            return own
    raise UserError(
        f"the backup is of PostgreSQL {major}, of which there is no server on this machine",
        f"{extension.how_to_install([f'postgresql-{major}'])}, or name its pg_config with --pg-config",
    )


def _installed(bindir: Path) -> Installation | None:
    """Return an installation that is run where it is, by its programs alone; None if the server cannot be run."""
    postgres = bindir / "postgres"
    if not all((bindir / name).exists() for name in ("postgres", "pg_ctl", "pg_controldata")):
        return None
    try:
        said = run_as_server([postgres, "--version"], capture_output=True)
    except OSError:
        return None
    match = re.search(r"(\d+)(?:\.(\d+))?", said.stdout) if said.returncode == 0 else None
    if match is None:
        return None
    number = int(match[1]) * 10000 + int(match[2] or 0)
    # nothing is put into its folders, so these are not looked for
    return Installation(bindir, bindir, bindir, match[0], number, postgres)


def control(programs: Installation, data: Path) -> Control:
    """Return what a control file says. Raises UserError for one of another version, or a damaged one."""
    done = run_as_server([programs.program("pg_controldata"), "-D", data], capture_output=True)
    values = {name: value.strip() for name, _, value in (line.partition(":") for line in done.stdout.splitlines())}
    if done.returncode != 0 or "WARNING" in done.stdout + done.stderr:
        raise UserError(f"the backup's {CONTROL} is damaged", "check the backup with pg_verifybackup")
    return Control(
        values["Database cluster state"],
        int(values["Bytes per WAL segment"]),
        int(values["max_prepared_xacts setting"]),
        values["Data page checksum version"] != "0",
        values["Database system identifier"],
    )


@dataclass(frozen=True)
class Goal:
    """Up to where WAL is replayed: a time in UTC as PostgreSQL writes it, or the backup's end."""

    time: str | None = None

    def settings(self) -> dict[str, str]:
        """Return PostgreSQL's settings."""
        return {"recovery_target": "immediate"} if self.time is None else {"recovery_target_time": self.time}


class Server:
    """The copy, and the server on it. Everything is below one directory."""

    def __init__(self, programs: Installation, folder: Path, superusers: Sequence[str]) -> None:
        self.programs = programs
        self.data = folder / "data"
        self._cluster = Cluster(programs, self.data, folder / "s")
        self._superusers = list(dict.fromkeys([*superusers, SUPERUSER]))

    @property
    def log(self) -> Path:
        """The server's log."""
        return self._cluster.log

    def running(self) -> bool:
        """Tell whether it runs."""
        return self._cluster.running()

    def stop(self) -> None:
        """Stop it at once; what it has replayed since a checkpoint it replays again."""
        deadline = time.monotonic() + _NOT_STARTED_SECONDS
        # after an interrupt it may have been told to start, and not have written yet who it is
        while not self.running() and self._starting() and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
        if self.data.exists():
            self._cluster.stop("immediate")

    def _starting(self) -> bool:
        """Tell whether a program was told to run on the data directory: pg_ctl, its shell, or the server."""
        own = os.getpid()
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                named = process.pid != own and any(str(self.data) in word for word in process.cmdline())
                if named and process.status() != psutil.STATUS_ZOMBIE:
                    return True
        return False

    def own(self, path: Path) -> None:
        """Give a file or folder to the server's user, and close it to others."""
        user = server_user()
        if user is not None:
            os.chown(path, user.pw_uid, user.pw_gid)
        path.chmod(0o700 if path.is_dir() else 0o600)

    # ---- the copy ----

    def make_folders(self, backup: Backup) -> None:
        """Create all folders that the data directory is to have."""
        for name in ("", *_FOLDERS, *sorted(backup.folders)):
            path = self.data / name
            missing = [folder for folder in (path, *path.parents) if not folder.exists()]
            for folder in reversed(missing):
                folder.mkdir()
                self.own(folder)
        self.own(self.data)

    def open_links(self) -> None:
        """Let folders be created where tablespaces are, as long as it is copied."""
        if (self.data / "pg_tblspc").exists():
            self.own(self.data / "pg_tblspc")

    def hold_places(self, backup: Backup, wanted: Wanted) -> None:
        """Create the large files that are left out, with their length and without blocks."""
        for name, size in backup.files.items():
            path = self.data / name
            if size >= _WORTH_A_PLACE and not wanted.takes(name) and not path.exists():
                with path.open("wb") as opened:
                    opened.truncate(size)
                self.own(path)

    def configure(self, goal: Goal, wal: Wal, facts: Control, *, partial: bool, preload: Sequence[str]) -> None:
        """Write all settings, and have the server replay WAL when it starts."""
        memory = embedded.memory()
        settings = {
            "allow_in_place_tablespaces": "on",  # tablespaces are folders here
            "archive_mode": "off",
            "autovacuum": "off",
            "checkpoint_timeout": "5min",
            "cluster_name": "pgbillion tenants restore",
            "fsync": "off",
            "full_page_writes": "off",
            "hot_standby": "off",
            "ignore_invalid_pages": "on" if partial else "off",
            "jit": "off",
            "lc_messages": "C",
            "listen_addresses": "",
            "log_line_prefix": "%m [%p] ",
            "log_min_messages": "warning",
            "log_timezone": "UTC",
            "logging_collector": "off",
            "max_connections": "20",
            "max_locks_per_transaction": "1024",
            "max_logical_replication_workers": "0",
            "max_prepared_transactions": str(max(100, 2 * facts.prepared)),
            "max_wal_senders": "0",
            "max_wal_size": f"{MAX_WAL >> 20}MB",
            "recovery_target_action": "promote",
            "restart_after_crash": "off",
            "restore_command": wal.setting(),
            "shared_buffers": f"{max(16, min(1024, memory // 8 >> 20))}MB",
            "shared_preload_libraries": ", ".join(preload),
            "synchronous_commit": "off",
            "timezone": "UTC",
            **goal.settings(),
        }
        if self.programs.major >= 17:
            settings |= {"event_triggers": "off", "summarize_wal": "off"}
        self._write("postgresql.conf", "".join(f"{name} = {_quoted(value)}\n" for name, value in settings.items()))
        # the socket's directory is closed to all but the server's user
        self._write("pg_hba.conf", "local all all trust\n")
        self._write("pg_ident.conf", "")
        (self.data / "pg_tblspc").chmod(0o500)

    def signal_recovery(self) -> None:
        """Have it replay from the archive when it starts: once, because it removes the file at the end."""
        self._write("recovery.signal", "")

    def _write(self, name: str, contents: str) -> None:
        path = self.data / name
        partial = path.with_name(f"{name}.partial")
        partial.write_text(contents, encoding="utf-8")
        self.own(partial)
        partial.replace(path)

    # ---- the server ----

    def reach(self, database: str, wal: Wal, say: Say) -> None:
        """Start it unless it runs, and wait until it has replayed all and takes connections. Raises UserError."""
        begin = self._log_size()
        if not self.running():
            self._start()
        started = said = time.monotonic()
        seen = ""
        while not self._ready(database):
            if not self.running() and (
                time.monotonic() - started > _NOT_STARTED_SECONDS or "FATAL" in self._since(begin)
            ):
                raise self._failure(begin, wal)
            if time.monotonic() - said > _SAY_SECONDS:
                said = time.monotonic()
                found = _RESTORED.findall(self._since(begin))
                if found and found[-1] != seen:
                    seen = found[-1]
                    say(f"replayed up to the WAL segment {seen}")
            time.sleep(_POLL_SECONDS)

    def _log_size(self) -> int:
        return self.log.stat().st_size if self.log.exists() else 0

    def _since(self, begin: int) -> str:
        with self.log.open("rb") as file:
            file.seek(begin)
            return file.read().decode("utf-8", "replace")

    def _start(self) -> None:
        self._cluster._check_socket_path()
        self._cluster._forget_the_dead()
        self._cluster.socket_dir.mkdir(exist_ok=True)
        self.own(self._cluster.socket_dir)
        options = f"-c unix_socket_directories='{self._cluster.socket_dir}' -p {self._cluster.port}"
        with self.log.open("a", encoding="utf-8") as log:
            run_as_server(
                [self.programs.program("pg_ctl"), "start", "-W", "--silent", "-D", self.data, "-o", options],
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _ready(self, database: str) -> bool:
        """Tell whether it takes connections; it does once it has replayed all, because it is no standby."""
        with contextlib.suppress(OSError):
            # each connection that it refuses is a line of its log
            status = (self.data / "postmaster.pid").read_text(encoding="utf-8").split("\n")[7:8]
            if status and status[0].strip() != "ready":
                return False
        try:
            self.connect(database).close()
        except psycopg.OperationalError as error:
            return not _NOT_READY.search(str(error))
        return True

    def target(self, database: str) -> Target:
        """Return the server as one to talk to. Raises UserError if none of its superusers' names is known."""
        for user in self._superusers:
            conninfo = make_conninfo(
                host=str(self._cluster.socket_dir), port=self._cluster.port, user=user, dbname=database,
                options=_OPTIONS, sslmode="disable", gssencmode="disable", target_session_attrs="any",
            )  # fmt: skip
            try:
                psycopg.connect(conninfo).close()
            except psycopg.OperationalError as error:
                if f'role "{user}" does not exist' not in str(error):
                    raise
            else:
                return Target(conninfo, "the restored copy")
        raise UserError(
            f"the backup has no role {' or '.join(self._superusers)}",
            "connect to the target as a role that was a superuser then, with -U",
        )

    def connect(self, database: str) -> Connection:
        """Connect, and let no trigger of the database run."""
        conn = self.target(database).connect(application_name="pgbillion tenants restore")
        conn.execute("SET session_replication_role = replica; SET client_min_messages = warning")
        return conn

    def connect_as(self, database: str, role: str) -> Connection:
        """Connect as a role, which is let in for that, and for which neither triggers nor policies count."""
        with self.connect(database) as conn:
            name = sql.Identifier(role)
            conn.execute(sql.SQL("ALTER ROLE {} LOGIN BYPASSRLS CONNECTION LIMIT -1").format(name))
            conn.execute(sql.SQL("GRANT SET ON PARAMETER session_replication_role TO {}").format(name))
            conn.execute(sql.SQL("GRANT CONNECT ON DATABASE {} TO {}").format(sql.Identifier(database), name))
        conninfo = make_conninfo(self.target(database).conninfo, user=role, options="-c local_preload_libraries=")
        session = Target(conninfo, "the restored copy").connect(application_name="pgbillion tenants restore")
        session.execute("SET session_replication_role = replica; SET client_min_messages = warning")
        return session

    # ---- what its log says ----

    def skipped(self) -> set[str]:
        """Return the relations, as their files are named, of which replay has skipped changes."""
        with self.log.open(encoding="utf-8", errors="replace") as lines:
            return {found[1].split("_vm")[0].split("_fsm")[0] for line in lines if (found := _SKIPPED.search(line))}

    def _failure(self, begin: int, wal: Wal) -> UserError:
        said = self._since(begin)
        restored = _RESTORED.findall(said)
        again = "run the same command again to go on"
        if "No space left on device" in said:
            return UserError(f"there is no room left in {self.data.parent}", f"make room, and {again}", 3)
        if "before consistent recovery point" in said and "recovery stop point" in said:
            return DeadEndError("the time is before the end of the backup", "name a backup that ended before that time")
        missing = self._missing(restored, wal)
        if "recovery ended before configured recovery target was reached" in said:
            if missing is not None:
                return UserError(
                    f"the WAL segment {missing} is missing in {wal.folder}, which has later ones",
                    f"put it there, and {again}", 3,
                )  # fmt: skip
            last = _LAST.findall(said)
            return UserError(
                f"the WAL ends before that time: its last transaction is of {last[-1]}"
                if last
                else "the WAL ends before that time, and has no transaction after the backup",
                "name an earlier time; or have the server archive more (SELECT pg_switch_wal()), after a transaction"
                f" of a later time, and {again}",
                3,
            )
        if re.search(r"WAL ends before (?:end of online backup|consistent recovery point)", said) or re.search(
            r"could not (?:locate required checkpoint record|find redo location|locate a valid checkpoint record)", said
        ):
            where = f"from {wal.folder}" if wal.folder is not None else "that the backup needs"
            lost = f": {missing}" if missing is not None else ""
            return UserError(
                f"WAL {where} is missing{lost}", f"name the archive that has it with --wal, and {again}", 3
            )
        if found := re.search(r"resource manager with ID (\d+) not registered", said):
            return UserError(
                f"an extension's library has to be loaded to replay its WAL (resource manager {found[1]})",
                "name the library with --preload",
                3,
            )
        if re.search(r'could not (?:create|remove) (?:symbolic link|directory) "pg_tblspc/', said):
            return DeadEndError(
                "a tablespace was created between the backup and that time, and replay would write where it is",
                "name a later backup",
                3,
            )
        if "references to invalid pages" in said:
            return DeadEndError(f"the backup does not fit the WAL: {_reason(said)}", "check it with pg_verifybackup", 3)
        return UserError(f"the WAL could not be replayed: {_reason(said)}", f"the log is {self.log}", 3)

    def _missing(self, restored: Sequence[str], wal: Wal) -> str | None:
        """Return the segment after the last one that was restored, if the directory lacks it and has later ones."""
        if not restored:
            return None
        last = restored[-1]
        segments = wal.segments(last)
        size = control(self.programs, self.data).segment_size
        number = (int(last[8:16], 16) * (0x100000000 // size)) + int(last[16:], 16) + 1
        following = f"{number // (0x100000000 // size):08X}{number % (0x100000000 // size):08X}"
        later = [name for name in segments if name[8:] > following]
        there = [name for name in segments if name[8:] == following]
        return f"{last[:8]}{following}" if later and not there else None


def _reason(said: str) -> str:
    """Return why a server has ended, as its log says."""
    found = [reason for reason in re.findall(r"(?:FATAL|PANIC):\s*(.*)", said) if not _NOT_READY.search(reason)]
    lines = [line for line in said.splitlines() if line.strip()]
    return found[0] if found else lines[-1] if lines else "its log is empty"


def lacking(backup: Backup, wanted: Wanted, paths: Iterable[str]) -> set[str]:
    """Return which relations, as their files are named, the backup has and the copy lacks."""
    if wanted.stems is None:
        return set()
    has = {of for name in backup.files if (of := stem(name)) is not None}
    return {path for path in paths if path in has and path not in wanted.stems and not path.startswith("global/")}


def _quoted(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def remove(folder: Path) -> None:
    """Remove a work directory, whatever its permissions."""
    links = folder / "data" / "pg_tblspc"
    if links.exists():
        links.chmod(0o700)
    shutil.rmtree(folder, ignore_errors=False)

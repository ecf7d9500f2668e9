"""MariaDB on the same machine: the same tables, phases and durability, in a server of its own made for it.

Reached through a unix socket whose folder only its user (and root) may enter; gone at the end.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from pgbillion.common import extras, sql
from pgbillion.common.errors import UserError
from pgbillion.cycle.plan import SOURCE_COLUMNS, Cycle, Measured, Method, Phase, Request
from pgbillion.cycle.syscalls import Tracer
from pgbillion.durability.profiles import Profile
from pgbillion.server import embedded, extension
from pgbillion.server.postgres import make_folder, run_as_server, server_user

_FOLDER = "cycle-mariadb"
_DATABASE = "cycle"
_START_SECONDS = 120.0
_STOP_SECONDS = 600.0
_POLL_SECONDS = 0.05

# What each profile's settings are in MariaDB:
#   fsync               innodb_flush_method (nosync: never), debug_no_sync, sync_frm; but DDL syncs the redo log always
#   full_page_writes    innodb_doublewrite
#   synchronous_commit  innodb_flush_log_at_trx_commit, sync_binlog; off: once a second
#   wal_level           log_bin: the log that a replica reads
_DURABLE = {
    "innodb_flush_method": "O_DIRECT",
    "debug_no_sync": "0",
    "sync_frm": "1",
    "innodb_doublewrite": "1",
    "log_bin": "binlog",
}
PROFILES: Mapping[Profile, Mapping[str, str]] = {
    Profile.FULL: {**_DURABLE, "innodb_flush_log_at_trx_commit": "1", "sync_binlog": "1"},
    Profile.ASYNC: {**_DURABLE, "innodb_flush_log_at_trx_commit": "0", "sync_binlog": "0"},
    Profile.MINIMAL: {
        "innodb_flush_method": "nosync",
        "debug_no_sync": "1",
        "sync_frm": "0",
        "innodb_doublewrite": "0",
        "innodb_flush_log_at_trx_commit": "0",
        "sync_binlog": "0",
        "skip_log_bin": "1",
    },
}


@dataclass
class MariaDB:
    """A data directory and the server that runs on it."""

    folder: Path
    program: str
    request: Request
    settings: Mapping[str, str]
    _process: subprocess.Popen[bytes] | None = None
    _facts: dict[str, Any] = field(default_factory=dict)

    def facts(self) -> dict[str, Any]:
        """Return its version, and the settings of each profile."""
        return {**self._facts, "profiles": {str(profile): dict(PROFILES[profile]) for profile in Profile}}

    @contextlib.contextmanager
    def under(self, profile: Profile) -> Iterator[MariaDB]:
        """Have the server work as the profile says."""
        self._start({**self.settings, **PROFILES[profile]})
        try:
            yield self
        finally:
            self.stop()

    def cycle(self, method: Method, *, traced: bool) -> Cycle:
        """Go through the cycle once, in a new session and a new database. Raises UserError."""
        client = _client()
        phases: list[Measured] = []
        try:
            with contextlib.closing(self._connect()) as conn, conn.cursor() as cursor:
                cursor.execute(f"DROP DATABASE IF EXISTS {_DATABASE}")
                cursor.execute(f"CREATE DATABASE {_DATABASE}")
                cursor.execute(f"USE {_DATABASE}")
                # made-up rows: what is not given gets its type's own default
                cursor.execute("SET sql_mode = ''")
                for phase in Phase:
                    files, log = self._files(), self._log(cursor)
                    with self._tracing(traced) as tracer:
                        start = time.perf_counter()
                        self._work(cursor, method, phase)
                        seconds = time.perf_counter() - start
                    phases.append(
                        Measured(phase, seconds, self._log(cursor) - log, self._files() - files, _calls(tracer))
                    )
                cursor.execute(f"DROP DATABASE {_DATABASE}")
        except client.MySQLError as error:
            raise UserError(f"MariaDB: {error.args[-1]}", "its dialect may not know this definition", 3) from error
        return Cycle(tuple(phases))

    def stop(self) -> None:
        """Stop the server; fine if it does not run."""
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        try:
            process.wait(_STOP_SECONDS)
        except BaseException:
            process.kill()
            process.wait()
            raise

    def initialize(self) -> None:
        """Make the data directory."""
        make_folder(self.folder, private=True, for_server=True)
        install = _program("mariadb-install-db")
        done = run_as_server(
            [install, "--no-defaults", f"--datadir={self._data}", "--auth-root-authentication-method=normal",
             "--skip-test-db", "--skip-name-resolve"],
            capture_output=True,
        )  # fmt: skip
        if done.returncode != 0:
            said = (done.stderr or done.stdout).strip().splitlines()
            raise UserError(f"mariadb-install-db failed: {said[-1] if said else 'it said nothing'}")

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    @property
    def _socket(self) -> Path:
        return self.folder / "s"

    def _start(self, settings: Mapping[str, str]) -> None:
        user = server_user()
        options: dict[str, Any] = {}
        if user is not None:
            options = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        named = [f"--{name}" if name.startswith("skip_") else f"--{name}={value}" for name, value in settings.items()]
        with self._errors.open("ab") as log:
            self._process = subprocess.Popen(
                [self.program, "--no-defaults", f"--datadir={self._data}", f"--socket={self._socket}",
                 "--skip-networking", f"--pid-file={self.folder / 'pid'}", *named],
                cwd="/", stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                # the terminal's Ctrl-C is for us, who end it
                start_new_session=True, **options,
            )  # fmt: skip
        deadline = time.monotonic() + _START_SECONDS
        while True:
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise UserError(f"MariaDB did not start: {_last_error(self._errors)}")
            # the client leaves open what it could not connect
            if not self._socket.exists():
                time.sleep(_POLL_SECONDS)
                continue
            try:
                with contextlib.closing(self._connect()) as conn, conn.cursor() as cursor:
                    cursor.execute("SELECT version()")
                    self._facts["version"] = cursor.fetchone()[0]
                return
            except _client().MySQLError:
                time.sleep(_POLL_SECONDS)

    @property
    def _errors(self) -> Path:
        return self.folder.with_name(f"{self.folder.name}.log")

    def _connect(self) -> Any:
        return _client().connect(unix_socket=str(self._socket), user="root", autocommit=True)

    @contextlib.contextmanager
    def _tracing(self, wanted: bool) -> Iterator[Tracer | None]:
        if not wanted or self._process is None:
            yield None
            return
        with Tracer(self._process.pid) as tracer:
            yield tracer

    def _work(self, cursor: Any, method: Method, phase: Phase) -> None:
        if method is Method.STATEMENTS:
            for number in range(1, self.request.count + 1):
                cursor.execute(self._statement(phase, str(number)))
                if phase is Phase.READ and cursor.fetchone() != (1,):
                    raise RuntimeError(f"table{number} has not the one row that it was given")
            return
        rows = phase in (Phase.INSERT, Phase.READ)
        parts = {
            "count": self.request.count,
            "statement": self._expression(phase),
            "begin": "START TRANSACTION;" if rows else "",
            "end": "COMMIT;" if rows else "",
            "check": "IF @found <> 1 THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'a row is not there'; END IF;"
            if phase is Phase.READ
            else "",
        }
        cursor.execute(sql.load("cycle", "mariadb").format(**parts))

    def _expression(self, phase: Phase) -> str:
        """Return the statement as an expression of the variable i."""
        words = self._statement(phase, "\0").replace("\\", "\\\\").replace("'", "''").replace("\0", "', i, '")
        if phase is Phase.READ:
            words = words.replace(" FROM ", " INTO @found FROM ")
        return f"CONCAT('{words}')"

    def _statement(self, phase: Phase, number: str) -> str:
        source = self.request.columns is None
        match phase:
            case Phase.CREATE:
                return f"CREATE TABLE table{number} ({self.request.columns or SOURCE_COLUMNS})"
            case Phase.INSERT:
                return f"INSERT INTO table{number} VALUES ({number if source else ''})"
            case Phase.READ:
                return f"SELECT count(*) FROM table{number}"
            case Phase.DROP:
                return f"DROP TABLE table{number}"

    def _files(self) -> int:
        return len(os.listdir(self._data / _DATABASE))  # noqa: PTH208

    def _log(self, cursor: Any) -> int:
        """Return how much was ever written to the redo log and the binary log."""
        cursor.execute("SHOW GLOBAL STATUS LIKE 'Innodb_lsn_current'")
        total = int(cursor.fetchone()[1])
        cursor.execute("SELECT @@log_bin")
        if cursor.fetchone()[0]:
            cursor.execute("SHOW BINARY LOGS")
            total += sum(int(row[1]) for row in cursor.fetchall())
        return total


@contextlib.contextmanager
def private(state: Path, request: Request) -> Iterator[MariaDB]:
    """Make a MariaDB below ``state`` and remove it at the end. Raises UserError when there is none to be had."""
    if request.template is not None:
        raise UserError("MariaDB does not have the template", "give the definition to both with --columns")
    _client()
    made = MariaDB(state / _FOLDER, _program("mariadbd"), request, _sizes(state))
    _remove(made)
    try:
        make_folder(state)
        made.initialize()
        yield made
    finally:
        made.stop()
        _remove(made)


def _remove(made: MariaDB) -> None:
    """Remove its folder, and before that the server that a killed program may have left on it."""
    with contextlib.suppress(OSError, ValueError, psutil.Error):
        process = psutil.Process(int((made.folder / "pid").read_text()))
        # a pid alone proves nothing; a server's working directory is its data
        if Path(process.cwd()) == made._data:
            process.kill()
            process.wait(_START_SECONDS)
    shutil.rmtree(made.folder, ignore_errors=True)
    made._errors.unlink(missing_ok=True)


def _sizes(state: Path) -> dict[str, str]:
    """Return as much memory and log as the other server has."""
    conf = dict(line.split(" = ", 1) for line in embedded.conf_text(state).splitlines() if " = " in line[:40])
    megabytes = {name: conf[name].removesuffix("MB") for name in ("shared_buffers", "max_wal_size")}
    return {
        "innodb_buffer_pool_size": f"{megabytes['shared_buffers']}M",
        "innodb_log_file_size": f"{megabytes['max_wal_size']}M",
    }


def _program(name: str) -> str:
    # where Debian has servers, and an ordinary user's PATH does not go
    found = shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
    if found is None:
        raise UserError(f"there is no {name} to compare with", extension.how_to_install(["mariadb-server"]))
    return found


def _client() -> Any:
    try:
        return importlib.import_module("pymysql")
    except ImportError as error:
        raise UserError("the Python package PyMySQL is not installed", extras.how_to_install("PyMySQL")) from error


def _calls(tracer: Tracer | None) -> Any:
    return tracer.calls if tracer else ()


def _last_error(log: Path) -> str:
    lines = [line for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if "[ERROR]" in line]
    return lines[-1].partition("[ERROR]")[2].strip() if lines else "it said nothing"

"""One worker: a process that makes one contiguous range of tables, batch by batch.

Started as ``python -m pgbillion.tables.worker``.  The first line of its stdin is the job (JSON: nothing secret is
ever an argument); more, or the end of stdin, means stop: what is being done is canceled or completed, and no batch is
begun.  So a worker ends by itself when its coordinator is killed.  Its stdout is one JSON object a line:

``{"event": "backend", "pid": 4711}``       the server process now working for it
``{"event": "progress", "done": 15000}``    tables of its share that are committed, those of earlier attempts included
``{"event": "finished"}``, ``"stopped"``, ``{"event": "failed", "message": …, "sqlstate": …, "lost": …}``   the last one
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import threading
from dataclasses import dataclass
from typing import IO, Any

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import Conninfo

from pgbillion.common import search_path
from pgbillion.common.connection import Connection
from pgbillion.common.errors import UserError
from pgbillion.tables import model
from pgbillion.tables.model import Model
from pgbillion.tables.plan import DEFAULT_COLUMNS, Batch, Method, Plan, Share

# Progress of method sql is known this often: psql is told to say so in between the statements.
_REPORT_EVERY = 250
_SAYS = "pgbillion:"
# psql with VERBOSITY=verbose: "psql:<stdin>:12: ERROR:  42P07: relation "_00000000" already exists"
_PSQL_ERROR = re.compile(r"(?:^|: )[^\s:]+:\s+(?P<sqlstate>[0-9A-Z]{5}): (?P<message>.*)")


@dataclass(frozen=True)
class Job:
    """What a worker is to do."""

    conninfo: str
    plan: Plan
    worker: int
    done: int  # tables of its share that are there already
    psql: str | None = None  # path of the program; for method sql

    def dumps(self) -> str:
        """Return the job as one line."""
        values = {"conninfo": self.conninfo, "worker": self.worker, "done": self.done, "psql": self.psql}
        return json.dumps({**values, "plan": self.plan.to_json()})

    @classmethod
    def loads(cls, line: str) -> Job:
        """Return the job in a line."""
        values = json.loads(line)
        return cls(**{**values, "plan": Plan.from_json(values["plan"])})

    @property
    def share(self) -> Share:
        """The worker's range."""
        return self.plan.shares()[self.worker]


class WorkerError(Exception):
    """The worker cannot go on. ``lost``: for want of a connection."""

    def __init__(self, message: str, sqlstate: str | None = None, lost: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.sqlstate = sqlstate
        self.lost = lost


class _Stop:
    """The wish to stop, and how to carry it out on what is being done."""

    def __init__(self) -> None:
        self.wanted = False
        self._cancel: Connection | None = None

    def watch(self, stdin: int) -> None:
        os.read(stdin, 1)
        self.wanted = True
        if self._cancel is not None:
            # a connection that has just been lost needs no cancel
            with contextlib.suppress(psycopg.Error):
                self._cancel.cancel_safe(timeout=10)

    def cancels(self, conn: Connection) -> None:
        self._cancel = conn


def _say(event: str, **values: Any) -> None:
    print(json.dumps({"event": event, **values}), flush=True)


def main() -> int:
    """Do the job on stdin; return the exit status."""
    stdin = sys.stdin.fileno()
    job = Job.loads(_read_line(stdin))
    stop = _Stop()
    # on the bare descriptor: a thread that waits inside sys.stdin would keep the interpreter from ending
    threading.Thread(target=stop.watch, args=(stdin,), daemon=True).start()
    work = _bulk if job.plan.method is Method.BULK else _sql
    try:
        work(job, stop)
    except WorkerError as error:
        if stop.wanted and error.sqlstate == psycopg.errors.QueryCanceled.sqlstate:
            _say("stopped")
            return 0
        _say("failed", message=error.message, sqlstate=error.sqlstate, lost=error.lost)
        return 1
    except BrokenPipeError:
        return 1  # the coordinator is gone, nobody listens
    _say("stopped" if stop.wanted else "finished")
    return 0


def _read_line(descriptor: int) -> str:
    line = b""
    while not line.endswith(b"\n"):
        more = os.read(descriptor, 65536)
        if not more:
            sys.exit(1)  # the coordinator is gone before it could say what to do
        line += more
    return line.decode()


class _LastWords:
    """Why the server closed a connection, where it said so between two commands: libpq takes that for a notice."""

    def __init__(self) -> None:
        self._said: tuple[str, str | None] | None = None

    def hear(self, notice: psycopg.errors.Diagnostic) -> None:
        """Keep what ends the session: a handler of notices."""
        if notice.severity_nonlocalized == "FATAL":
            self._said = notice.message_primary or "", notice.sqlstate

    def failure(self, error: psycopg.Error, conn: Connection | None) -> WorkerError:
        """Return what psycopg raised as a WorkerError."""
        lost = conn is None or conn.broken
        if lost and self._said is not None:
            return WorkerError(*self._said, lost=True)
        message = error.diag.message_primary or str(error).strip().splitlines()[0]
        return WorkerError(message, error.sqlstate, lost)


def _bulk(job: Job, stop: _Stop) -> None:
    """Make the tables with pgbillion_tables.create_tables, one call and one transaction per batch."""
    plan = job.plan
    conn: Connection | None = None
    words = _LastWords()
    try:
        conn = search_path.pin(
            psycopg.connect(
                job.conninfo,
                autocommit=True,
                client_encoding="UTF8",
                application_name=f"pgbillion worker {job.worker + 1}",
            )
        )
        conn.add_notice_handler(words.hear)
        with conn:
            _say("backend", pid=conn.info.backend_pid)
            conn.execute("SET statement_timeout = 0")
            template = plan.template or temporary_template(conn, plan)
            stop.cancels(conn)
            for batch in job.share.batches(plan.batch, job.done):
                if stop.wanted:
                    return
                create_batch(conn, plan, template, batch, plan.rotated_tablespaces(job.worker, batch.number))
                _say("progress", done=batch.first + batch.count - job.share.first)
    except psycopg.Error as error:
        raise words.failure(error, conn) from error


def temporary_template(conn: Connection, plan: Plan) -> str:
    """Make a temporary table of the plan's columns and return its name."""
    with defining(conn, plan):
        conn.execute(f"CREATE TEMPORARY TABLE pgbillion_template (\n{plan.columns}\n)".encode())
    return "pg_temp.pgbillion_template"


def _users_columns(plan: Plan) -> bool:
    """Tell whether tables are made by columns in the user's own words."""
    return plan.template is None and plan.columns != DEFAULT_COLUMNS


def defining(conn: Connection, plan: Plan) -> contextlib.AbstractContextManager[None]:
    """Give the session the names that the plan's columns are to be understood by."""
    return search_path.restored(conn) if _users_columns(plan) else contextlib.nullcontext()


def create_batch(
    conn: Connection,
    plan: Plan,
    template: str,
    batch: Batch,
    tablespaces: list[str] | None,
    name_format: str | None = None,
) -> None:
    """Create one batch with the extension, in the connection's transaction or one of its own."""
    conn.execute(
        "SELECT pgbillion_tables.create_tables(template => %s::regclass, name_format => %s, first => %s, count => %s,"
        " tablespaces => %s::name[], schema => quote_ident(%s)::regnamespace, access_method => %s,"
        " allow_unobserved => %s)",
        (
            template,
            name_format or plan.name_format,
            batch.first,
            batch.count,
            tablespaces,
            plan.schema,
            plan.storage.access_method,
            plan.allow_unobserved,
        ),
    )


def _sql(job: Job, stop: _Stop) -> None:
    """Make the tables with CREATE TABLE, one psql per batch, as the source does; each table is a transaction."""
    assert job.psql is not None
    conn: Connection | None = None
    try:
        conn = search_path.pin(psycopg.connect(job.conninfo, autocommit=True, client_encoding="UTF8"))
        with conn:
            tables = model.of_plan(conn, job.plan)
    except psycopg.Error as error:
        raise _LastWords().failure(error, conn) from error
    for batch in job.share.batches(job.plan.batch, job.done):
        if stop.wanted:
            return
        _Psql(job, batch, tables).run(stop)


class _Psql:
    """A psql that makes one batch."""

    def __init__(self, job: Job, batch: Batch, tables: Model) -> None:
        self._job = job
        self._batch = batch
        self._model = tables
        self._errors: list[str] = []

    def run(self, stop: _Stop) -> None:
        arguments, environment = psql_connection(self._job.conninfo, f"pgbillion worker {self._job.worker + 1}")
        options = ["-X", "-q", "-v", "ON_ERROR_STOP=1", "-v", "VERBOSITY=verbose"]
        with subprocess.Popen(
            [str(self._job.psql), *options, *arguments],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            errors="replace",
        ) as psql:
            assert psql.stdin is not None
            assert psql.stderr is not None
            listener = threading.Thread(target=self._listen, args=(psql.stderr,))
            listener.start()
            # psql that has failed is no longer there to read: its own words say why, below
            with contextlib.suppress(BrokenPipeError):
                self._feed(psql.stdin, stop)
            with contextlib.suppress(BrokenPipeError):
                psql.stdin.close()
            listener.join()
        if psql.returncode != 0:
            raise self._failure(psql.returncode)

    def _feed(self, stdin: IO[str], stop: _Stop) -> None:
        plan, batch = self._job.plan, self._batch
        name, before = plan.names, batch.first - self._job.share.first
        tablespace = plan.tablespace(self._job.worker, batch.number)
        if not _users_columns(plan):
            stdin.write("SELECT pg_catalog.set_config('search_path', '', false);\n")
        stdin.write("SET statement_timeout = 0; SELECT pg_catalog.pg_backend_pid() AS pid \\gset\n")
        stdin.write(f"\\warn {_SAYS} backend :pid\n")
        for start in range(0, batch.count, _REPORT_EVERY):
            if stop.wanted:
                return
            end = min(start + _REPORT_EVERY, batch.count)
            for number in range(batch.first + start, batch.first + end):
                statements = self._model.statements(plan.schema, name(number), plan.storage.access_method, tablespace)
                if len(statements) > 1:
                    # a table that is there is complete, whatever dies
                    statements = ["BEGIN", *statements, "COMMIT"]
                stdin.write(";\n".join([*statements, ""]))
            stdin.write(f"\\warn {_SAYS} done {before + end}\n")
            stdin.flush()

    def _listen(self, stderr: IO[str]) -> None:
        for line in stderr:
            if line.startswith(_SAYS):
                what, number = line.split()[1:3]
                if what == "done":
                    _say("progress", done=int(number))
                else:
                    _say("backend", pid=int(number))
            else:
                self._errors.append(line.rstrip("\n"))

    def _failure(self, status: int) -> WorkerError:
        text = [line for line in self._errors if line.strip()]
        for line in text:
            if match := _PSQL_ERROR.search(line):
                return WorkerError(match["message"], match["sqlstate"], lost=status == 2)
        if status < 0:
            return WorkerError(f"psql was killed by signal {-status}", lost=True)
        message = text[0].removeprefix("psql: error: ") if text else f"psql ended with status {status}"
        return WorkerError(message, lost=status == 2)


def psql_connection(conninfo: str, application_name: str) -> tuple[list[str], dict[str, str]]:
    """Return arguments and environment that have psql, or pg_dump, connect to ``conninfo``; secrets are no arguments.

    Raises UserError for a secret that has no environment variable.
    """
    environment = {**os.environ, "PGAPPNAME": application_name, "PGCLIENTENCODING": "UTF8"}
    values = conninfo_to_dict(conninfo)
    for option in Conninfo.get_defaults():
        keyword = option.keyword.decode()
        # '*' is libpq's mark for what must be hidden
        if option.dispchar != b"*" or keyword not in values:
            continue
        if option.envvar is None:
            raise UserError(
                f"PostgreSQL's programs cannot be given {keyword} without showing it to everybody on this machine",
                "put it into a service file (~/.pg_service.conf) and use service=NAME.",
            )
        environment[option.envvar.decode()] = str(values.pop(keyword))
    return ["-d", make_conninfo("", **values)] if values else [], environment


if __name__ == "__main__":
    try:
        sys.exit(main())
    except UserError as problem:
        _say("failed", message=problem.message, sqlstate=None, lost=False)
        sys.exit(1)

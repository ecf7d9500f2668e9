"""One session of PostgreSQL going through the cycle: its statements, and what each phase cost."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, LiteralString

import psycopg
from psycopg import sql as composed

from pgbillion.common import search_path, sql
from pgbillion.common.connection import Connection
from pgbillion.cycle.plan import SOURCE_COLUMNS, Cycle, Measured, Method, Phase, Request
from pgbillion.cycle.syscalls import Tracer
from pgbillion.tables import verify

_TEMPLATE = "pg_temp.pgbillion_template"
_SOURCE_VALUES: LiteralString = "' VALUES (' OPERATOR(pg_catalog.||) i::pg_catalog.text OPERATOR(pg_catalog.||) ')'"
Work = Callable[[], object]


@dataclass
class Session:
    """A connection whose user's path begins with the cycle's own schema (see `search_path`).

    The tables' names, and what the user says of columns and rows, are understood by that path; all else is qualified.
    ``values`` is what follows the name in INSERT, None for the source's: the table's number.
    """

    conn: Connection
    request: Request
    schema: str
    values: str | None

    @classmethod
    def begin(cls, conn: Connection, request: Request) -> Session:
        """Find out what a row of the tables is, and by that whether the server accepts their definition."""
        schema = search_path.schema(conn)
        assert schema is not None
        if request.template is None:
            with search_path.restored(conn):
                conn.execute(f"CREATE TEMPORARY TABLE pgbillion_template ({_definition(request)})".encode())
            if request.columns is None:
                return cls(conn, request, schema, None)
        model = request.template or _TEMPLATE
        return cls(conn, request, schema, verify.insertion(conn, model).removeprefix(f"INSERT INTO {model}"))

    def cycle(self, method: Method, *, traced: bool = False) -> Cycle:
        """Do all phases once. Raises psycopg.Error for what the server refuses."""
        phases: list[Measured] = []
        for phase in Phase:
            work = self.work(method, phase, self.request.count)
            files, wal = self._files(), self._wal()
            with _tracing(self.conn, traced) as tracer:
                start = time.perf_counter()
                work()
                seconds = time.perf_counter() - start
            measured = Measured(
                phase, seconds, _growth(wal, self._wal()), _growth(files, self._files()), tracer.calls if tracer else ()
            )
            phases.append(measured)
        start = time.perf_counter()
        if not checkpoint(self.conn):
            return Cycle(tuple(phases))
        seconds = time.perf_counter() - start
        # by now the files of what was dropped are gone
        phases[-1] = replace(phases[-1], files=_growth(files, self._files()))
        return Cycle(tuple(phases), seconds)

    def work(self, method: Method, phase: Phase, count: int) -> Work:
        """Return what does one phase for the first ``count`` tables."""

        def work() -> None:
            # what the extension drops is found by our own words
            ours = method is Method.BULK and phase is Phase.DROP
            with contextlib.nullcontext() if ours else search_path.restored(self.conn):
                self._work(method, phase, count)

        return work

    def _work(self, method: Method, phase: Phase, count: int) -> None:
        if method is Method.STATEMENTS:
            self._statements(phase, count)
            return
        if method is Method.BULK and phase is Phase.CREATE:
            self.conn.execute(
                "SELECT pgbillion_tables.create_tables("
                "%s::pg_catalog.regclass, 'table%%d', 1, %s, allow_unobserved => %s)",
                (self.request.template or _TEMPLATE, count, self.request.allow_unobserved),
            )
            return
        name = "drop_bulk" if method is Method.BULK and phase is Phase.DROP else str(phase)
        values = composed.SQL(_SOURCE_VALUES) if self.values is None else composed.Literal(self.values)
        statement = composed.SQL(sql.load("cycle", name)).format(
            schema=composed.Literal(self.schema),
            count=composed.Literal(count),
            definition=composed.Literal(f" ({_definition(self.request)})"),
            values=values,
            unobserved=composed.Literal(self.request.allow_unobserved),
        )
        self.conn.execute(statement)

    def _statements(self, phase: Phase, count: int) -> None:
        for number in range(1, count + 1):
            match phase:
                case Phase.CREATE:
                    self._one(f"CREATE TABLE table{number} ({_definition(self.request)})")
                case Phase.INSERT:
                    values = f" VALUES ({number})" if self.values is None else self.values
                    self._one(f"INSERT INTO table{number}{values}")
                case Phase.READ:
                    if self._one(f"SELECT pg_catalog.count(*) FROM table{number}").fetchone() != (1,):
                        raise RuntimeError(f"table{number} has not the one row that it was given")
                case Phase.DROP:
                    self._one(f"DROP TABLE table{number}")

    def _one(self, statement: str) -> psycopg.Cursor[tuple[Any, ...]]:
        return self.conn.execute(statement.encode(), prepare=False)

    def _wal(self) -> int:
        row = self.conn.execute("SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint").fetchone()
        assert row is not None
        return int(row[0])

    def _files(self) -> int | None:
        """Return how many files the database has, None for who may not know."""
        with contextlib.suppress(psycopg.errors.InsufficientPrivilege):
            row = self.conn.execute(
                "SELECT count(*) FROM pg_ls_dir(regexp_replace(pg_relation_filepath('pg_class'), '/[^/]*$', ''))"
            ).fetchone()
            return int(row[0]) if row else None
        return None


def checkpoint(conn: Connection) -> bool:
    """Make a checkpoint; tell whether that is allowed."""
    try:
        conn.execute("CHECKPOINT")
    except psycopg.errors.InsufficientPrivilege:
        return False
    return True


@contextlib.contextmanager
def _tracing(conn: Connection, wanted: bool) -> Iterator[Tracer | None]:
    if not wanted:
        yield None
        return
    with Tracer(conn.info.backend_pid) as tracer:
        yield tracer


def _growth(before: int | None, after: int | None) -> int | None:
    return after - before if before is not None and after is not None else None


def _definition(request: Request) -> str:
    return f"LIKE {request.template} INCLUDING ALL" if request.template else request.columns or SOURCE_COLUMNS

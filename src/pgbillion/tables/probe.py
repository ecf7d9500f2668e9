"""What one table of a plan costs on this server: a few are made in a transaction that is rolled back.

So every figure is measured and holds for the server's version, the template, the method and the file system.
What stays is about a megabyte of dead catalog rows, for the next vacuum.  A template or a column list that cannot
be used is refused here, before anything is written.
"""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass

from pgbillion.common import host, planner, sql
from pgbillion.common.connection import Connection
from pgbillion.tables import model, worker
from pgbillion.tables.names import NameFormat
from pgbillion.tables.plan import Batch, Method, Plan

# Enough for a rate, few enough to be quick with the slowest template and method.
SAMPLE = 200
_WARM_UP = 20


@dataclass(frozen=True)
class CatalogUse:
    """One catalog's part, a table."""

    catalog: str
    rows: float
    row_bytes: float
    entries: float
    entry_bytes: float


@dataclass(frozen=True)
class Cost:
    """What a table costs; all but ``backend_memory`` are for one table."""

    catalogs: tuple[CatalogUse, ...]
    files: float
    file_bytes: float
    wal_bytes: float
    locks: float
    memory: float | None  # bytes a backend keeps until its batch ends; None for a server elsewhere
    backend_memory: int | None  # private bytes of a backend with its caches filled
    seconds: float  # of one worker alone

    @property
    def rows(self) -> float:
        """Rows in all catalogs."""
        return sum(use.rows for use in self.catalogs)

    @property
    def entries(self) -> float:
        """Index entries in all catalogs."""
        return sum(use.entries for use in self.catalogs)

    @property
    def catalog_bytes(self) -> float:
        """Bytes of catalogs and their indexes on disk; index pages are left some 80 % full by concurrent workers."""
        return sum(use.row_bytes * 1.01 + use.entry_bytes / 0.8 for use in self.catalogs)


def measure(conn: Connection, plan: Plan, local: bool, sample: int = SAMPLE) -> Cost:
    """Make ``sample`` tables of the plan and roll them back.

    ``conn`` is in autocommit mode and not used for anything else meanwhile. Raises psycopg.Error as the server refuses.
    """
    names = NameFormat.parse(f"pgbillion_probe_{secrets.token_hex(4)}_%08x")
    known = {row[0] for row in conn.execute("SELECT spcname FROM pg_tablespace")}
    tablespaces = list(plan.tablespaces) if known.issuperset(plan.tablespaces) else []
    pid = conn.info.backend_pid
    tables = model.of_plan(conn, plan) if plan.method is Method.SQL else None
    with conn.transaction(force_rollback=True):
        conn.execute("SET LOCAL statement_timeout = 0")
        template = plan.template or ""
        if plan.method is Method.BULK and plan.template is None:
            template = worker.temporary_template(conn, plan)

        def make(first: int, count: int) -> None:
            if tables is None:
                worker.create_batch(conn, plan, template, Batch(0, first, count), tablespaces or None, names.text)
                return
            for number in range(first, first + count):
                space = tablespaces[number % len(tablespaces)] if tablespaces else None
                statements = tables.statements(plan.schema, names(number), plan.storage.access_method, space)
                with worker.defining(conn, plan):
                    conn.execute("; ".join(statements).encode())

        make(0, _WARM_UP)
        before, locks = _wal(conn), _locks(conn)
        memory = host.private_memory(pid) if local else None
        start = time.perf_counter()
        make(_WARM_UP, sample)
        seconds = time.perf_counter() - start
        after = host.private_memory(pid) if local else None
        wal = _wal(conn) - before
        locks = _locks(conn) - locks
        named = [names(number) for number in range(_WARM_UP, _WARM_UP + sample)]
        given = {"names": named, "schema": plan.schema}
        with planner.through_indexes(conn):
            found = conn.execute(sql.load("tables", "probe_family").encode(), given).fetchone()
            assert found is not None
            made = {"tables": found[0], "family": found[1]}
            rows = conn.execute(sql.load("tables", "probe_rows").encode(), made).fetchall()
        files = conn.execute(sql.load("tables", "probe_files").encode(), made).fetchone()
        assert files is not None
    return Cost(
        catalogs=tuple(CatalogUse(name, *(float(value) / sample for value in values)) for name, *values in rows),
        files=files[0] / sample,
        file_bytes=float(files[1]) / sample,
        wal_bytes=wal / sample,
        locks=locks / sample,
        memory=max(0, after - memory) / sample if after is not None and memory is not None else None,
        backend_memory=memory,
        seconds=seconds / sample,
    )


def _wal(conn: Connection) -> int:
    row = conn.execute("SELECT (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint").fetchone()
    assert row is not None
    return int(row[0])


def _locks(conn: Connection) -> int:
    row = conn.execute("SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND NOT fastpath").fetchone()
    assert row is not None
    return int(row[0])

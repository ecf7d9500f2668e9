"""Look at a database full of tables the way its makers did, and time every look.

Nothing is changed for good: a trial row is rolled back (its dead copy stays until the next vacuum), and amcheck, if it
has to be created, is gone again with its transaction.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import IO, Any, Literal

import psycopg
from psycopg import sql as composed

from pgbillion.common import search_path, sql, text
from pgbillion.common.connection import Connection
from pgbillion.common.host import Host
from pgbillion.common.quoting import quote
from pgbillion.common.target import Target
from pgbillion.tables import catalog
from pgbillion.tables.plan import Plan
from pgbillion.tables.worker import psql_connection

Result = Literal["ok", "failed", "skipped"]


# bytes of an index on which amcheck spends seconds to minutes
_LARGE_INDEX = 64 * 1024 * 1024
# between lines about a check that takes longer
_SAY_SECONDS = 5.0


class Amcheck(StrEnum):
    """How thoroughly the catalogs' indexes are checked; each includes the one before."""

    OFF = "off"
    INDEX = "index"  # bt_index_check: order and links within each index
    HEAP = "heap"  # … and that every row has its entries
    FULL = "full"  # bt_index_parent_check with rootdescend; locks out CREATE TABLE meanwhile


@dataclass(frozen=True)
class Options:
    """What to check, and how long at most where that may be for ever."""

    dt_seconds: float | None = 10.0  # None: without \\dt
    size_seconds: float = 10.0
    tables: int = 10  # random tables to insert into and select from
    amcheck: Amcheck = Amcheck.HEAP
    amcheck_seconds: float | None = None  # of all indexes together: the smallest come first then
    orphans: bool = False
    seed: int | None = None


@dataclass
class Check:
    """One look: what came out and how long it took. ``failed`` means that something is wrong with the database."""

    name: str
    result: Result = "ok"
    summary: str = ""
    seconds: float = 0.0
    details: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the check as JSON's types."""
        return asdict(self)


class _NotPossibleError(Exception):
    """A check cannot be made here."""


def verify(
    target: Target, plan: Plan | None, psql: Path | None, options: Options, say: Callable[[str], object]
) -> Iterator[Check]:
    """Make the checks one by one and yield each when it is done; ``say`` tells of what takes minutes.

    ``plan`` is that of a run: its names are counted and its tables tried; without one, tables of the whole database are
    tried. Raises psycopg.OperationalError when the connection is lost.
    """
    with target.connect() as conn:
        host = Host.of(conn)
        conn.execute("SET statement_timeout = 0")
        looks: list[tuple[str, Callable[[Check], None]]] = []
        if plan is not None:
            looks.append(("names without a gap", lambda check: _names(conn, plan, check)))
        looks += [
            ("count(*) of pg_class", lambda check: _count(conn, check)),
            ("transaction ids", lambda check: _age(conn, check)),
            ("statistics of shared catalogs", lambda check: _statistics(conn, check)),
            ("INSERT and SELECT", lambda check: _trial(conn, plan, options, check)),
            ("sizes on disk", lambda check: _sizes(conn, host, options, check)),
        ]
        limit = options.dt_seconds
        if limit is not None:
            looks.append(("\\dt", lambda check: _dt(conn, target, psql, limit, check)))
        if options.amcheck is not Amcheck.OFF:
            looks.append(
                (f"amcheck of catalogs ({options.amcheck})", lambda check: _amcheck(conn, options, check, say))
            )
        if options.orphans:
            looks.append(("orphan files", lambda check: _orphans(conn, check)))
        for name, look in looks:
            yield _run(conn, name, look, say)


@contextlib.contextmanager
def _saying(what: str, say: Callable[[str], object]) -> Iterator[None]:
    """Report now and then that something still goes on; what takes a moment is not mentioned."""
    over = threading.Event()
    start = time.perf_counter()

    def report() -> None:
        while not over.wait(_SAY_SECONDS):
            say(f"{what}: {text.duration(time.perf_counter() - start)} so far")

    thread = threading.Thread(target=report, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _run(conn: Connection, name: str, look: Callable[[Check], None], say: Callable[[str], object]) -> Check:
    check = Check(name)
    start = time.perf_counter()
    try:
        with _saying(name, say):
            look(check)
    except _NotPossibleError as reason:
        check.result, check.summary = "skipped", str(reason)
    except psycopg.errors.InsufficientPrivilege as error:
        check.result, check.summary = "skipped", error.diag.message_primary or str(error)
    except psycopg.Error as error:
        if conn.closed:
            raise
        check.result, check.summary = "failed", error.diag.message_primary or str(error)
        check.details["sqlstate"] = error.sqlstate
    check.seconds = time.perf_counter() - start
    return check


def _row(conn: Connection, query: str) -> tuple[Any, ...]:
    row = conn.execute(query.encode()).fetchone()
    assert row is not None
    return row


@contextlib.contextmanager
def _limit(conn: Connection, seconds: float) -> Iterator[None]:
    """Let statements be canceled by the server after so long."""
    conn.execute(f"SET statement_timeout = {max(1, round(seconds * 1000))}".encode())
    try:
        yield
    finally:
        if not conn.closed:
            conn.execute("SET statement_timeout = 0")


def _names(conn: Connection, plan: Plan, check: Check) -> None:
    present = catalog.count_existing(conn, plan.schema, plan.names, plan.first, plan.count)
    check.details = {"expected": plan.count, "present": present}
    first, last = plan.names(plan.first), plan.names(plan.first + plan.count - 1)
    check.summary = f"{text.count(present)} of {text.count(plan.count)} tables {first} … {last}"
    if present != plan.count:
        check.result = "failed"


def _count(conn: Connection, check: Check) -> None:
    (rows,) = _row(conn, "SELECT count(*) FROM pg_class")
    check.details = {"rows": rows}
    check.summary = f"{text.count(rows)} rows"


def _age(conn: Connection, check: Check) -> None:
    (age, oldest, own, current, freeze_max_age) = _row(
        conn,
        "SELECT max(age(datfrozenxid)), (array_agg(datname ORDER BY age(datfrozenxid) DESC))[1]::text,"
        " max(age(datfrozenxid)) FILTER (WHERE datname = current_database()),"
        " pg_snapshot_xmax(pg_current_snapshot())::text::bigint,"
        " current_setting('autovacuum_freeze_max_age')::bigint FROM pg_database",
    )
    check.details = {
        "next_transaction_id": current,
        "age_datfrozenxid": own,
        "largest_age": age,
        "largest_age_database": oldest,
        "autovacuum_freeze_max_age": freeze_max_age,
    }
    check.summary = (
        f"next {text.count(current)}; age of datfrozenxid {text.count(own)}, {own / 2**31:.2%} of the way to wraparound"
    )


def _statistics(conn: Connection, check: Check) -> None:
    rows = conn.execute(
        "SELECT relname, heap_blks_read, heap_blks_hit, idx_blks_read, idx_blks_hit FROM pg_statio_all_tables"
        " WHERE relid IN ('pg_tablespace'::regclass, 'pg_database'::regclass, 'pg_shdepend'::regclass) ORDER BY 1"
    ).fetchall()
    columns = ("heap_blks_read", "heap_blks_hit", "idx_blks_read", "idx_blks_hit")
    check.details = {name: dict(zip(columns, values, strict=True)) for name, *values in rows}
    check.summary = "; ".join(
        f"{name}: heap {text.count(heap_read)} read, {text.count(heap_hit)} hit, "
        f"index {text.count(index_read)} read, {text.count(index_hit)} hit"
        for name, heap_read, heap_hit, index_read, index_hit in rows
    )


def _trial(conn: Connection, plan: Plan | None, options: Options, check: Check) -> None:
    """Insert a row into random tables, find it again, and roll back."""
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(2**31)
    chance = random.Random(seed)
    chosen = _planned(conn, plan, options.tables, chance) if plan else _any_tables(conn, options.tables, chance)
    tables = [name for (name,) in conn.execute(sql.load("tables", "trial_tables").encode(), [chosen]).fetchall()]
    if not tables:
        raise _NotPossibleError(
            "none of the tables tried is this role's, and those of others may run their code"
            if chosen
            else "there is no table"
        )
    times: dict[str, list[float]] = {"insert": [], "select": []}
    refused: list[str] = []
    for table in tables:
        statement = insertion(conn, table)
        with conn.transaction(force_rollback=True):
            start = time.perf_counter()
            try:
                with conn.transaction():
                    conn.execute(statement.encode())
            except psycopg.errors.IntegrityError:
                refused.append(table)  # made-up values need not satisfy the template's constraints
                continue
            between = time.perf_counter()
            found = conn.execute(f"SELECT * FROM {table} LIMIT 1".encode()).fetchone()
            times["select"].append(time.perf_counter() - between)
            times["insert"].append(between - start)
            if found is None:
                check.result, check.summary = "failed", f"the row inserted into {table} was not found"
                return
    check.details = {"seed": seed, "tables": tables, "constraint_refused": refused, "seconds": times}
    if not times["insert"]:
        raise _NotPossibleError("the template's constraints refuse the rows we can make up")
    words = [f"{what.upper()} {text.duration(sum(taken) / len(taken))}" for what, taken in times.items()]
    check.summary = f"{len(times['insert'])} random tables, on average {', '.join(words)}; rolled back"


def _planned(conn: Connection, plan: Plan, count: int, chance: random.Random) -> list[int]:
    numbers = {chance.randrange(plan.first, plan.first + plan.count) for _ in range(count)}
    rows = conn.execute(
        "SELECT oid::bigint FROM pg_class WHERE relname = ANY (%s::name[])"
        " AND relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = %s)",
        [[plan.names(number) for number in sorted(numbers)], plan.schema],
    ).fetchall()
    return [oid for (oid,) in rows]


def _any_tables(conn: Connection, count: int, chance: random.Random) -> list[int]:
    """Return tables near random places of the OIDs' range: no list of all tables is needed for that."""
    (high,) = _row(conn, "SELECT coalesce(max(oid)::bigint, 0) FROM pg_class")
    tables: set[int] = set()
    for _ in range(count if high >= 16384 else 0):
        row = conn.execute(
            # the inner limit keeps the planner from sorting all of pg_class
            "SELECT oid::bigint FROM (SELECT oid, relkind, relpersistence FROM pg_class WHERE oid >= %s::oid"
            " ORDER BY oid LIMIT 100) near WHERE relkind = 'r' AND relpersistence <> 't' LIMIT 1",
            [chance.randrange(16384, high + 1)],
        ).fetchone()
        if row is not None:
            tables.add(row[0])
    return sorted(tables)


def insertion(conn: Connection, table: str) -> str:
    """Return the statement that puts a made-up row into a table."""
    columns = conn.execute(sql.load("tables", "trial_columns").encode(), {"table": table}).fetchall()
    values = {name: value for name, value in columns if value is not None}
    if not values:
        return f"INSERT INTO {table} DEFAULT VALUES"
    # values for identity and serial columns too: a sequence would keep its step when the row is rolled back
    names = ", ".join(quote(name) for name in values)
    return f"INSERT INTO {table} ({names}) OVERRIDING SYSTEM VALUE VALUES ({', '.join(values.values())})"


def _sizes(conn: Connection, host: Host | None, options: Options, check: Check) -> None:
    catalogs: dict[str, int] = dict(conn.execute(sql.load("tables", "catalog_sizes").encode()).fetchall())
    check.details = {"catalogs": catalogs, "catalogs_total": sum(catalogs.values())}
    words = [f"catalogs {text.size(sum(catalogs.values()))}"]
    try:
        with _limit(conn, options.size_seconds):
            (size,) = _row(conn, "SELECT pg_database_size(current_database())")
        words.append(f"database {text.size(size)}")
        check.details["database"] = size
        with _limit(conn, options.size_seconds):
            rows = conn.execute(
                "SELECT spcname, pg_tablespace_size(oid) FROM pg_tablespace WHERE spcname !~ '^pg_' ORDER BY 1"
            ).fetchall()
        check.details["tablespaces"] = dict(rows)
        if rows:
            words.append(f"{len(rows)} tablespaces {text.size(sum(size or 0 for _, size in rows))}")
        gone = [name for name, size in rows if size is None]
        if gone:
            check.result = "failed"
            words.append(f"without a directory: {', '.join(gone)}")
    except psycopg.errors.QueryCanceled:
        words.append(f"database: not known within {text.duration(options.size_seconds)}, it has too many files")
    with contextlib.suppress(psycopg.errors.InsufficientPrivilege):
        (wal,) = _row(conn, "SELECT sum(size)::bigint FROM pg_ls_waldir()")
        words.append(f"WAL {text.size(wal)}")
        check.details["wal"] = wal
    system = host.filesystem() if host else None
    if system is not None:
        words.append(f"{system.mount} ({system.kind}): {text.size(system.used)} used, {text.size(system.free)} free")
        check.details["filesystem"] = {**asdict(system), "path": str(system.path)}
    check.summary = ", ".join(words)


def _dt(conn: Connection, target: Target, psql: Path | None, limit: float, check: Check) -> None:
    """Run psql's own list of tables, to see whether it comes back; its operators are those of the search_path."""
    if psql is None:
        raise _NotPossibleError("there is no psql here")
    path, others = search_path.trusted_path(conn)
    if not path and others:
        raise _NotPossibleError(f"others may have operators in {', '.join(others)}, and psql would use them")
    arguments, environment = psql_connection(target.conninfo, "pgbillion verify")
    set_path = f"SET search_path = {path}" if path else "SET search_path = ''"
    start = time.perf_counter()
    with subprocess.Popen(
        [psql, "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", *arguments, "-c", set_path, "-c", "\\dt"],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        lines = [0]
        reader = threading.Thread(target=_count_lines, args=(process.stdout, lines), daemon=True)
        reader.start()
        reader.join(limit)
        in_time = not reader.is_alive()
        if not in_time:
            # what Ctrl-C does: psql asks the server to cancel
            process.send_signal(signal.SIGINT)
            reader.join(5)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        reader.join()
        said = process.stderr.read().decode(errors="replace").strip()
    seconds = time.perf_counter() - start
    check.details = {"returned": in_time, "limit_seconds": limit}
    if not in_time:
        check.summary = f"did not return within {text.duration(limit)} and was canceled"
    elif process.returncode != 0:
        check.result, check.summary = "failed", said.splitlines()[0] if said else f"psql: status {process.returncode}"
    else:
        check.details["tables"] = lines[0]
        check.summary = f"{text.count(lines[0])} tables listed in {text.duration(seconds)}"


def _count_lines(stream: IO[bytes], lines: list[int]) -> None:
    while chunk := stream.read(65536):
        lines[0] += chunk.count(b"\n")


def _amcheck(conn: Connection, options: Options, check: Check, say: Callable[[str], object]) -> None:
    """Check every B-tree of the system catalogs, or those that there is time for."""
    (available,) = _row(conn, "SELECT EXISTS (SELECT FROM pg_available_extensions WHERE name = 'amcheck')")
    if not available:
        raise _NotPossibleError("the server does not have amcheck; it comes with PostgreSQL's contrib modules")
    with conn.transaction(force_rollback=True):
        if not _row(conn, "SELECT EXISTS (SELECT FROM pg_extension WHERE extname = 'amcheck')")[0]:
            try:
                # where nobody has put other functions of the name
                conn.execute("CREATE EXTENSION amcheck SCHEMA pg_catalog")
            except psycopg.errors.InsufficientPrivilege as error:
                raise _NotPossibleError(
                    "amcheck is not in this database, and only a superuser can create it"
                ) from error
            except psycopg.errors.ReadOnlySqlTransaction as error:
                raise _NotPossibleError("amcheck is not in this database, and this server is read-only") from error
        (schema,) = _row(
            conn,
            "SELECT nspname FROM pg_extension e JOIN pg_namespace n ON n.oid = extnamespace WHERE extname = 'amcheck'",
        )
        calls = {
            Amcheck.INDEX: "bt_index_check(%s::oid::regclass)",
            Amcheck.HEAP: "bt_index_check(%s::oid::regclass, heapallindexed => true)",
            Amcheck.FULL: "bt_index_parent_check(%s::oid::regclass, heapallindexed => true, rootdescend => true)",
        }
        statement = composed.SQL("SELECT {}." + calls[options.amcheck]).format(composed.Identifier(schema))
        indexes = conn.execute(
            "SELECT i.indexrelid::bigint, c.relname, pg_relation_size(c.oid) FROM pg_index i"
            " JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am a ON a.oid = c.relam"
            " WHERE i.indexrelid < 16384::oid AND a.amname = 'btree'"
            " AND c.relpersistence = 'p' ORDER BY c.relname"
        ).fetchall()
        if options.amcheck_seconds is not None:
            indexes.sort(key=lambda index: (index[2], index[1]))
        end = time.perf_counter() + (options.amcheck_seconds or 0)
        unchecked: list[str] = []
        times: dict[str, float] = {}
        for number, (oid, name, size) in enumerate(indexes, 1):
            if size >= _LARGE_INDEX:
                say(f"amcheck: index {number} of {len(indexes)}, {name}, {text.size(size)}")
            start = time.perf_counter()
            try:
                if options.amcheck_seconds is not None:
                    left = max(1, round((end - start) * 1000))
                    conn.execute(f"SET LOCAL statement_timeout = {left}".encode())
                conn.execute(statement, [oid])
            except psycopg.errors.QueryCanceled:
                if time.perf_counter() < end:
                    raise
                unchecked = [name for _, name, _ in indexes[number - 1 :]]
                break
            except (psycopg.errors.IndexCorrupted, psycopg.errors.DataCorrupted, psycopg.errors.InternalError) as error:
                check.result, check.summary = "failed", error.diag.message_primary or str(error)
                check.details["index"] = name
                return
            times[name] = round(time.perf_counter() - start, 6)
    check.details = {"indexes": len(times), "seconds": times, "unchecked": unchecked}
    if not times:
        raise _NotPossibleError(f"{text.duration(options.amcheck_seconds or 0)} are too short to check any index")
    slowest = max(times, key=lambda name: times[name])
    check.summary = f"{len(times)} indexes are sound; the longest took {text.duration(times[slowest])}: {slowest}"
    if unchecked:
        check.summary += f"; there was no time for {len(unchecked)}: {', '.join(unchecked)}"


def _orphans(conn: Connection, check: Check) -> None:
    """Compare the files with pg_class, twice, because others may create and drop in between."""
    note = ""
    try:
        # a dropped table's first file is removed only by the checkpoint after it
        conn.execute("CHECKPOINT")
    except (psycopg.errors.InsufficientPrivilege, psycopg.errors.InternalError_):
        # the server cannot make one either when a file is missing that was to be synced
        note = "; no checkpoint could be made, so files of tables dropped lately may be among them"
    suspects = _suspects(conn)
    if suspects:
        suspects &= _suspects(conn)
    orphans = sorted(name for what, name in suspects if what == "orphan")
    missing = sorted(name for what, name in suspects if what == "missing")
    shown = 100
    check.details = {
        "orphans": len(orphans),
        "missing": len(missing),
        "orphan_files": orphans[:shown],
        "missing_files": missing[:shown],
    }
    check.summary = (
        f"{text.count(len(orphans))} files that no table claims, {text.count(len(missing))} tables without a file"
    )
    if suspects:
        check.result = "failed"
        check.summary += f": {(orphans + missing)[0]}{note}"


def _suspects(conn: Connection) -> set[tuple[str, str]]:
    return {(what, name) for what, name in conn.execute(sql.load("tables", "orphans").encode())}

"""What PostgreSQL does with all these tables: operations one after the other, each with a limit, and kept when done.

An operation that is interrupted begins anew the next time; what it has made by then is dropped first. After all of
them the tables are those that there were before, except that some lazy tables have got their first row.
"""

from __future__ import annotations

import contextlib
import os
import random
import resource
import shutil
import signal
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import psycopg

from pgbillion.common import invocation, text
from pgbillion.common.connection import Connection
from pgbillion.common.errors import UserError
from pgbillion.common.host import Host
from pgbillion.common.meter import meter
from pgbillion.common.target import Target
from pgbillion.ladder import climb, server
from pgbillion.ladder.climb import Observe
from pgbillion.ladder.record import Ladder, write
from pgbillion.ladder.server import Say
from pgbillion.server import embedded
from pgbillion.server.postgres import Cluster, make_folder, run_as_server
from pgbillion.tables import create, drop, listing, resume, selection, verify, worker
from pgbillion.tables.plan import Batch, Method, Plan
from pgbillion.tables.run import Run
from pgbillion.tables.worker import psql_connection

_SCHEMA, _CLONE = "pgbillion_ladder", "pgbillion_ladder_clone"
_CATALOGS = "pg_class, pg_attribute, pg_type, pg_depend"
_SOME, _FEW, _CLONES, _SMALL, _SESSIONS = 1_000, 100, 10, 10, 5
_MOST_DROPPED, _MOST_UNSAVED = 1_000_000, 100_000
# of what psql and pg_dump may take, so that the kernel ends neither the server nor anything else
_MEMORY_SHARE, _TEMPORARY_SHARE = 0.4, 0.5
_POLL_SECONDS = 0.05
# the shape of psql's query, and how many names it wants at most
_COMPLETION = (
    "SELECT c.relname FROM pg_catalog.pg_class c"
    " WHERE c.relkind IN ('r', 'S', 'v', 'm', 'f', 'p') AND c.relname LIKE %s"
    " AND pg_catalog.pg_table_is_visible(c.oid)"
    " AND c.relnamespace <> (SELECT oid FROM pg_catalog.pg_namespace WHERE nspname = 'pg_catalog') LIMIT %s"
)
_MOST_COMPLETIONS = 1_000
# what object-relational mappers ask of each of their tables
_INTROSPECTION = (
    "SELECT column_name, data_type, is_nullable, column_default FROM information_schema.columns"
    " WHERE table_schema = %s AND table_name = %s ORDER BY ordinal_position"
)
# what agents for monitoring ask once a minute
_STATISTICS = (
    "SELECT count(*) FROM (SELECT schemaname, relname, n_live_tup, n_dead_tup, last_autovacuum"
    " FROM pg_catalog.pg_stat_user_tables ORDER BY n_dead_tup DESC LIMIT 10) t"
)


@dataclass
class Result:
    """What came out of an operation, with ``tables`` there. ``gave up``: there was a limit of time, memory or disk."""

    name: str
    tables: int
    result: str = "ok"  # or gave up, skipped, failed
    seconds: float = 0.0
    summary: str = ""
    details: dict[str, Any] = field(default_factory=dict)


class _GaveUpError(Exception):
    """An operation has come to a limit."""


class _SkippedError(Exception):
    """An operation cannot be done here."""


@dataclass(frozen=True)
class Bench:
    """What operations work with. ``limit`` is in seconds, for each of them."""

    ladder: Ladder
    target: Target
    plan: Plan  # of all tables
    limit: float
    observe: Observe
    say: Say

    @property
    def cluster(self) -> Cluster:
        """The server."""
        return self.ladder.cluster

    @contextlib.contextmanager
    def session(self) -> Iterator[Connection]:
        """Give a session whose statements end with the limit."""
        with self.target.connect() as conn:
            conn.execute(f"SET statement_timeout = {round(self.limit * 1000)}".encode())
            yield conn

    def names(self, count: int, seed: int) -> list[str]:
        """Return names of that number of different tables, or of all if they are fewer."""
        chance = random.Random(seed)
        numbers = chance.sample(range(self.plan.count), min(count, self.plan.count))
        return [self.plan.names(number) for number in numbers]

    @property
    def last(self) -> Plan:
        """Return the plan of the last tables, at most a tenth of all: those that are dropped and made again."""
        count = max(1, min(_MOST_DROPPED, self.plan.count // 10))
        workers = min(self.ladder.workers, count)
        return replace(self.plan, first=self.plan.count - count, count=count, workers=workers)


def _first_page(bench: Bench, result: Result) -> None:
    times = []
    for _ in range(_SESSIONS):
        with bench.session() as conn:
            everything = selection.select(conn, None, bench.plan.schema)
            page = listing.write(conn, everything, lambda names: None, extension=True, limit=listing.PAGE)
            times.append(page.seconds)
    result.seconds = statistics.median(times)
    result.summary = f"{text.count(page.count)} names, median of {_SESSIONS} new sessions"


def _lookup(bench: Bench, result: Result) -> None:
    times = []
    with bench.session() as conn:
        for name in bench.names(_SOME, 1):
            start = time.perf_counter()
            row = conn.execute(
                "SELECT c.oid FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
                " WHERE c.relname = %s::name AND n.nspname = %s",
                [name, bench.plan.schema],
            ).fetchone()
            times.append(time.perf_counter() - start)
            if row is None:
                raise UserError(f"table {name} is missing among the others", "somebody dropped it")
    _each(result, times, "random names, one session")


def _first_row(bench: Bench, result: Result) -> None:
    """Insert a row, for which a lazy table gets its file, into tables that have none; each is a transaction."""
    times = []
    with bench.session() as conn:
        for name in bench.names(_SOME, random.SystemRandom().randrange(2**31)):
            row = conn.execute("SELECT format('%%I.%%I', %s::text, %s::text)", [bench.plan.schema, name]).fetchone()
            assert row is not None
            statement = verify.insertion(conn, row[0])
            start = time.perf_counter()
            conn.execute(statement.encode())
            times.append(time.perf_counter() - start)
    _each(result, times, "random tables, each the first row and a transaction")


def _each(result: Result, times: Sequence[float], what: str) -> None:
    result.seconds = statistics.median(times)
    slowest = text.duration(max(times))
    result.summary = f"median of {text.count(len(times))} {what}; the slowest took {slowest}"
    result.details = {"count": len(times), "slowest": max(times), "mean": statistics.fmean(times)}


def _create(bench: Bench, result: Result) -> None:
    times = []
    with bench.session() as conn, _schema(conn):
        for number in range(_SOME):
            start = time.perf_counter()
            conn.execute(f"CREATE TABLE {_SCHEMA}.t_{number} (i integer)".encode())
            times.append(time.perf_counter() - start)
    _each(result, times, "CREATE TABLE, each a transaction")


def _clone(bench: Bench, result: Result) -> None:
    times = []
    with bench.session() as conn, _schema(conn):
        _fill(conn)
        for number in range(_CLONES):
            start = time.perf_counter()
            conn.execute(f"SELECT pgbillion_tables.clone_schema('{_SCHEMA}', '{_CLONE}_{number}')".encode())
            times.append(time.perf_counter() - start)
    _each(result, times, f"clones of a schema of {_SMALL} tables with a primary key")


def _fill(conn: Connection) -> None:
    for number in range(_SMALL):
        conn.execute(f"CREATE TABLE {_SCHEMA}.t_{number} (id integer PRIMARY KEY, name text)".encode())


@contextlib.contextmanager
def _schema(conn: Connection) -> Iterator[None]:
    """Give a schema that is gone at the end, as are clones of it; what an interrupted operation has left goes first."""
    _drop_schemas(conn)
    conn.execute(f"CREATE SCHEMA {_SCHEMA}".encode())
    try:
        yield
    finally:
        if not conn.closed:
            _drop_schemas(conn)


def _drop_schemas(conn: Connection) -> None:
    for name in (_SCHEMA, *(f"{_CLONE}_{number}" for number in range(_CLONES))):
        conn.execute(f"DROP SCHEMA IF EXISTS {name} CASCADE".encode())


def _statement(statement: str, summary: str = "") -> Callable[[Bench, Result], None]:
    def run(bench: Bench, result: Result) -> None:
        with bench.session() as conn:
            start = time.perf_counter()
            found = conn.execute(statement.encode())
            result.seconds = time.perf_counter() - start
            row = found.fetchone() if found.description else None
            result.summary = f"{text.count(row[0])} rows" if row is not None else summary

    return run


def _completion(bench: Bench, result: Result) -> None:
    """Ask as psql does when the tabulator key is pressed behind two thirds of a name."""
    times = []
    with bench.session() as conn:
        for name in bench.names(_FEW, seed=4):
            typed = name[: len(name) * 2 // 3].replace("_", "\\_")
            start = time.perf_counter()
            conn.execute(_COMPLETION, [f"{typed}%", _MOST_COMPLETIONS]).fetchall()
            times.append(time.perf_counter() - start)
    _each(result, times, "names of which two thirds were typed")


def _introspection(bench: Bench, result: Result) -> None:
    times = []
    with bench.session() as conn:
        for name in bench.names(_FEW, seed=5):
            start = time.perf_counter()
            found = conn.execute(_INTROSPECTION, [bench.plan.schema, name]).fetchall()
            times.append(time.perf_counter() - start)
            assert found, name
    _each(result, times, "random tables")


def _walk(bench: Bench, result: Result) -> None:
    """Look at each file as backup agents and updatedb do; what the kernel knows of them by then it has in memory."""
    end = time.perf_counter() + bench.limit
    files = 0
    start = time.perf_counter()
    places = [bench.cluster.data, *([bench.ladder.tablespaces_folder] if bench.ladder.tablespaces else [])]
    for folder in places:
        for _, _, names, directory in os.fwalk(folder):
            for name in names:
                with contextlib.suppress(FileNotFoundError):
                    os.stat(name, dir_fd=directory, follow_symlinks=False)
                files += 1
            if time.perf_counter() > end:
                raise _GaveUpError(f"did not end within {text.duration(bench.limit)}, with {text.count(files)} files")
    result.seconds = time.perf_counter() - start
    result.details = {"files": files}
    result.summary = f"{text.count(files)} files looked at"


def _checkpoint(bench: Bench, result: Result) -> None:
    with bench.session() as conn:
        start = time.perf_counter()
        conn.execute("CHECKPOINT")
        result.seconds = time.perf_counter() - start
    result.summary = "with what the operations before it have changed"


def _list(bench: Bench, result: Result) -> None:
    program = bench.cluster.installation.program("psql")
    path = f"SET search_path = pg_catalog, {bench.plan.schema}"
    lines = _program(bench, result, [program, "-X", "-q", "-A", "-t", "-c", path, "-c", "\\dt"])
    result.summary = f"{text.count(lines)} tables listed; psql took {text.size(result.details['memory'])}"


def _dump(bench: Bench, result: Result) -> None:
    program = bench.cluster.installation.program("pg_dump")
    with bench.session() as conn, _schema(conn):
        _fill(conn)
        _program(bench, result, [program, "--schema-only", "--schema", _SCHEMA])
    memory = text.size(result.details["memory"])
    result.summary = f"{_SMALL} tables of a schema, --schema-only; pg_dump took {memory}"


def _program(bench: Bench, result: Result, command: Sequence[str | Path]) -> int:
    """Run one of PostgreSQL's programs within limits of time, memory and temporary files; return its lines."""
    arguments, environment = psql_connection(bench.target.conninfo, "pgbillion ladder")
    most = round(embedded.memory() * _MEMORY_SHARE)
    spare = round(shutil.disk_usage(bench.ladder.base).free * _TEMPORARY_SHARE) // 1024
    environment |= {"PGOPTIONS": f"-c temp_file_limit={min(spare, 2**31 - 1)}kB", "LC_ALL": "C"}

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (most, most))

    with tempfile.TemporaryFile() as errors:
        start = time.perf_counter()
        process = subprocess.Popen(
            [*map(str, command), *arguments],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,
            preexec_fn=limit,
        )
        assert process.stdout is not None
        try:
            lines, memory, late = _read(process, start + bench.limit)
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise
        finally:
            process.stdout.close()
        result.seconds = time.perf_counter() - start
        result.details = {"memory": memory, "memory_limit": most}
        errors.seek(0)
        said = errors.read().decode(errors="replace").strip().splitlines()
    if late:
        raise _GaveUpError(f"did not end within {text.duration(bench.limit)}, and took {text.size(memory)} by then")
    if process.returncode != 0:
        why = said[-1] if said else f"status {process.returncode}"
        raise _GaveUpError(f"{why}; it took {text.size(memory)} of {text.size(most)} that it may have")
    return lines


def _read(process: subprocess.Popen[bytes], end: float) -> tuple[int, int, bool]:
    """Count what a program prints until it ends; return lines, its largest memory, and whether it was too late."""
    assert process.stdout is not None
    os.set_blocking(process.stdout.fileno(), False)
    lines, memory, late, over = 0, 0, False, False
    while not over:
        memory = max(memory, _memory(process.pid))
        chunk = process.stdout.read(1 << 20)
        over = chunk == b""
        lines += chunk.count(b"\n") if chunk else 0
        if not late and time.perf_counter() > end:
            late = True
            # what Ctrl-C does: it asks the server to cancel
            process.send_signal(signal.SIGINT)
            end = time.perf_counter() + 10
        elif late and time.perf_counter() > end:
            os.killpg(process.pid, signal.SIGKILL)
        if not chunk:
            time.sleep(_POLL_SECONDS)
    process.wait()
    return lines, memory, late


def _memory(pid: int) -> int:
    """Return the largest memory that a process had so far."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return 0


def _autovacuum(bench: Bench, result: Result) -> None:
    """Turn autovacuum on, and wait until a worker has been in the database and has gone."""
    busy = "backend_type = 'autovacuum worker' AND datname = current_database()"
    query = f"SELECT count(*) FROM pg_stat_activity WHERE {busy}"
    with bench.session() as conn:
        begun: float | None = None
        try:
            conn.execute("ALTER SYSTEM SET autovacuum_naptime = '1s'")
            conn.execute("ALTER SYSTEM SET autovacuum = on")
            conn.execute("SELECT pg_reload_conf()")
            start = time.perf_counter()
            while True:
                row = conn.execute(query.encode()).fetchone()
                assert row is not None
                now = time.perf_counter()
                if row[0] and begun is None:
                    begun = now
                elif begun is not None and not row[0]:
                    break
                if now - start > bench.limit:
                    if begun is None:
                        raise _SkippedError(f"no worker came within {text.duration(bench.limit)}")
                    raise _GaveUpError(f"a worker was busy for more than {text.duration(now - begun)}")
                time.sleep(_POLL_SECONDS)
            result.seconds = now - begun
            result.summary = "a worker was busy with this database"
        finally:
            if not conn.closed:
                conn.execute("ALTER SYSTEM RESET autovacuum")
                conn.execute("ALTER SYSTEM RESET autovacuum_naptime")
                conn.execute("SELECT pg_reload_conf()")


def _recovery(bench: Bench, result: Result) -> None:
    """Create some tables, kill the server, and start it again."""
    count = max(1, min(_MOST_UNSAVED, bench.plan.count // 10))
    with bench.target.connect() as conn:
        _drop_unsaved(bench, conn, count)
        conn.execute("CHECKPOINT")
        template = worker.temporary_template(conn, bench.plan)
        for first in range(0, count, bench.plan.batch):
            batch = Batch(0, first, min(bench.plan.batch, count - first))
            worker.create_batch(conn, bench.plan, template, batch, None, "pgbillion_unsaved_%d")
        # what is in WAL, it has to find again; the last commit need not be, with synchronous_commit off
        conn.execute("SET synchronous_commit = on; CREATE TEMPORARY TABLE flush ()")
    bench.cluster.kill()
    start = time.perf_counter()
    server.start(bench.ladder, bench.say)
    result.seconds = time.perf_counter() - start
    with bench.target.connect() as conn:
        row = conn.execute("SELECT count(*) FROM pg_class WHERE relname ~ '^pgbillion_unsaved_'").fetchone()
        assert row is not None
        if row[0] != count:
            raise UserError(f"{text.count(row[0])} of {text.count(count)} tables were there after recovery")
        _drop_unsaved(bench, conn, count)
    result.summary = f"killed with {text.count(count)} tables since the last checkpoint, all of which are there"


def _drop_unsaved(bench: Bench, conn: Connection, count: int) -> None:
    chosen = selection.select(conn, "pgbillion_unsaved_*", bench.plan.schema)
    _dropped(bench, conn, chosen, 1)


def _dropped(bench: Bench, conn: Connection, chosen: selection.Selection, workers: int) -> drop.Outcome | None:
    request = drop.Request(chosen, Method.BULK, workers)
    found = drop.survey(conn, request)
    if not found.tables:
        return None
    return drop.execute(
        bench.target,
        request,
        found.tables,
        command=lambda *more: _again(),
        observe=lambda total: meter(total, "dropped"),
    )


def _again() -> str:
    return invocation.command("ladder", "operations")


def _drop(bench: Bench, result: Result) -> None:
    plan = bench.last
    with bench.target.connect() as conn:
        numbered = selection.Numbered(plan.names, plan.first, plan.count)
        chosen = selection.select(conn, None, plan.schema, numbered)
        # a run that was to create them again, and was interrupted, is over
        shutil.rmtree(bench.ladder.home / "again", ignore_errors=True)
        gone = _dropped(bench, conn, chosen, bench.ladder.workers)
    if gone is None:
        raise _SkippedError("the last tables are dropped already")
    result.seconds = gone.seconds
    result.details = {"dropped": gone.dropped, "rate": gone.dropped / gone.seconds}
    rate = text.count(gone.dropped / gone.seconds)
    result.summary = f"the last {text.count(gone.dropped)} tables by {text.many(gone.workers, 'worker')}: {rate}/s"


def _create_again(bench: Bench, result: Result) -> None:
    plan = bench.last
    folder = bench.ladder.home / "again"
    with bench.target.connect() as conn:
        if (folder / "plan.json").exists():
            run = Run.open(folder)
            resume.check_same_database(conn, run)
        else:
            create.check_names(conn, plan)
            run = Run.create(folder, plan, create.server(conn, bench.target, plan, Host.of(conn)))
    with run.locked():
        made = create.execute(
            bench.target,
            run,
            interval=1.0,
            psql=None,
            resume_command=_again(),
            observe=lambda: bench.observe(run.plan),
        )
    shutil.rmtree(folder)
    result.seconds = made.seconds
    result.details = {"created": made.created, "rate": made.rate}
    result.summary = (
        f"{text.count(made.created)} tables by {text.many(plan.workers, 'worker')}: {text.count(made.rate)}/s"
    )


def _upgrade(bench: Bench, result: Result) -> None:
    """Have pg_upgrade look at the database; the new server is of the same version, which it takes, too."""
    installation = bench.cluster.installation
    program = installation.program("pg_upgrade")
    bench.cluster.stop()
    folder = bench.ladder.base / "upgrade"
    new = Cluster(installation, data=folder / "data", socket_dir=bench.cluster.socket_dir)
    try:
        shutil.rmtree(folder, ignore_errors=True)
        make_folder(folder, for_server=True)
        new.init({"shared_buffers": "128MB"}, embedded.conf_text(bench.ladder.home))
        command: list[str | Path] = [
            program, "--check", "-b", installation.bindir, "-B", installation.bindir, "-d", bench.cluster.data,
            "-D", new.data, "-s", bench.cluster.socket_dir, "-U", "postgres",
        ]  # fmt: skip
        start = time.perf_counter()
        try:
            # it writes into the current directory
            moved: list[str | Path] = ["/bin/sh", "-c", 'cd "$0" && exec "$@"', folder, *command]
            done = run_as_server(moved, capture_output=True, timeout=bench.limit)
        except subprocess.TimeoutExpired:
            raise _GaveUpError(f"did not end within {text.duration(bench.limit)}") from None
        result.seconds = time.perf_counter() - start
        lines = [line.strip() for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        verdict = next((line for line in lines if "fatal" in line), lines[-1] if lines else "it said nothing")
        result.details = {"status": done.returncode, "output": lines}
        result.summary = f"ended with status {done.returncode}: {verdict}"
    finally:
        # one that was given up has left servers
        for one in (new, bench.cluster):
            if one.running():
                one.stop("immediate")
        shutil.rmtree(folder, ignore_errors=True)
        server.start(bench.ladder, bench.say)


@dataclass(frozen=True)
class Operation:
    """An operation: its name for the command line, and for people."""

    name: str
    title: str
    run: Callable[[Bench, Result], None]


OPERATIONS = (
    Operation("page", "first page of names", _first_page),
    Operation("lookup", "a table found by its name", _lookup),
    Operation("count", "count(*) of pg_class", _statement("SELECT count(*) FROM pg_class")),
    Operation("completion", "a name completed in psql", _completion),
    Operation("introspection", "columns of a table from information_schema", _introspection),
    Operation("statistics", "the ten tables with most dead rows", _statement(_STATISTICS)),
    Operation("walk", "walking all files", _walk),
    Operation("list", "psql's \\dt", _list),
    Operation("dump", "pg_dump of one schema", _dump),
    Operation("insert", "first row of a table", _first_row),
    Operation("create", "CREATE TABLE", _create),
    Operation("clone", "clone of a schema", _clone),
    Operation("drop", "dropping in bulk", _drop),
    Operation("recreate", "creating these again", _create_again),
    Operation("checkpoint", "checkpoint", _checkpoint),
    Operation("analyze", "ANALYZE of four catalogs", _statement(f"ANALYZE {_CATALOGS}", _CATALOGS)),
    Operation("vacuum", "VACUUM of four catalogs", _statement(f"VACUUM {_CATALOGS}", _CATALOGS)),
    Operation("autovacuum", "a round of autovacuum", _autovacuum),
    Operation("recovery", "start after a crash", _recovery),
    Operation("upgrade", "pg_upgrade --check", _upgrade),
)


def choose(names: Sequence[str]) -> list[Operation]:
    """Return operations by their names, or all, in their order; what is dropped is created again. Raises UserError."""
    known = {one.name: one for one in OPERATIONS}
    for name in names:
        if name not in known:
            raise UserError(f'there is no operation "{name}"', f"operations: {', '.join(known)}")
    wanted = {*names, "recreate"} if "drop" in names else set(names)
    return [one for one in OPERATIONS if not names or one.name in wanted]


def measure(
    ladder: Ladder,
    target: Target,
    chosen: Sequence[Operation],
    limit: float,
    observe: Observe,
    say: Say,
    *,
    again: bool,
) -> Iterator[Result]:
    """Do operations that were not done with this number of tables, or all of them; yield each, which is kept then."""
    plan = climb.whole(ladder)
    bench = Bench(ladder, target, plan, limit, observe, say)
    for operation in chosen:
        known = [one for one in ladder.operations() if one["name"] == operation.name and one["tables"] == plan.count]
        # tables that were dropped are created again in any case
        owed = operation.name == "recreate" and not _is_there(bench)
        if known and not again and not owed:
            continue
        say(f"{operation.title} …")
        result = Result(operation.name, plan.count)
        start = time.perf_counter()
        try:
            operation.run(bench, result)
        except _GaveUpError as reason:
            result.result, result.summary = "gave up", str(reason)
        except _SkippedError as reason:
            result.result, result.summary = "skipped", str(reason)
        except psycopg.errors.QueryCanceled:
            result.result, result.summary = "gave up", f"did not end within {text.duration(limit)}"
        except psycopg.OperationalError:
            raise
        except psycopg.Error as error:
            result.result, result.summary = "failed", error.diag.message_primary or str(error)
        result.seconds = result.seconds or time.perf_counter() - start
        if result.result != "skipped":
            _keep(ladder, result)
        yield result


def _is_there(bench: Bench) -> bool:
    with bench.target.connect() as conn:
        row = conn.execute(
            "SELECT EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
            " WHERE c.relname = %s::name AND n.nspname = %s)",
            [bench.plan.names(bench.plan.count - 1), bench.plan.schema],
        ).fetchone()
        assert row is not None
        return bool(row[0])


def _keep(ladder: Ladder, result: Result) -> None:
    kept = [one for one in ladder.operations() if (one["name"], one["tables"]) != (result.name, result.tables)]
    places = {one.name: place for place, one in enumerate(OPERATIONS)}
    kept.append(asdict(result))
    kept.sort(key=lambda one: (one["tables"], places.get(one["name"], len(places))))
    write(ladder.home / "operations.json", {"operations": kept})


def titles() -> dict[str, str]:
    """Return the names for people by those of the command line."""
    return {one.name: one.title for one in OPERATIONS}

"""All tenants of a database taken into another one, beside pg_dump and pg_restore with the same number of jobs.

A tenant is a schema of 50 tables with a primary key, an index and a foreign key each. First they are empty, and then
each table has 20 rows. All ways write to the same disk and into new databases of the same server, and each begins when
the server and the kernel have nothing left to write. No table is dropped meanwhile, as in tenants.py, and no file is
removed before the end: for some minutes, ext4 would examine the inodes of removed files for each file that it makes.
Memory is the most that a process of the client's has had. CPU time is that of the client's processes and of all of the
server's, which other programs disturb less than they do the clock. pg_restore is stopped after LIMIT=3600 seconds; how
many times as fast ours is, is then a lower bound. QUICK=1 makes fewer tenants; TENANTS=… is another number of them,
ROWS=0 leaves out the tables with rows, and PG_CONFIG=… is another PostgreSQL.

pg_dump and pg_restore lock all tables at once, so that this server has room for that; the command line needs none.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

import common
from pgbillion.common.target import Target
from pgbillion.server.postgres import Cluster
from pgbillion.tables.worker import psql_connection
from pgbillion.tenants import create

TENANTS = int(os.environ.get("TENANTS") or common.sized(2_000, 200, 5))
TABLES = common.sized(50, 50, 5)
ROWS = int(os.environ.get("ROWS") or 20)
LIMIT = float(os.environ.get("LIMIT") or 3600)  # seconds
JOBS = 2
ROUNDS = 1


def model() -> str:
    """Return the commands that make a tenant in the current schema."""
    lines = []
    for number in range(TABLES):
        lines.append(
            f"CREATE TABLE t{number} (id bigserial PRIMARY KEY, parent bigint, name text NOT NULL CHECK (name <> ''),"
            " amount numeric(12,2) DEFAULT 0, changed timestamptz DEFAULT now())"
        )
        lines.append(f"CREATE INDEX ON t{number} (parent)")
        lines.append(f"ALTER TABLE t{number} ADD FOREIGN KEY (parent) REFERENCES t{number // 2}")
    return ";\n".join(lines)


@dataclass
class Cost:
    """What a way has taken."""

    seconds: float
    memory: int  # of its largest process, in bytes
    cpu: float = 0.0  # seconds of its processes and of the server's
    ended: bool = True  # rather than stopped


def descendants(pid: int) -> Iterator[int]:
    """Give a process and those that it has started."""
    yield pid
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in task.read_text().split():
                yield from descendants(int(child))


def cpu_of_children() -> float:
    """Return the CPU time of programs that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def cpu_of_server(cluster: Cluster) -> float:
    """Return the CPU time of a server's processes, of those that have ended, too."""
    pid = int((cluster.data / "postmaster.pid").read_text().split()[0])
    used = psutil.Process(pid).cpu_times()
    total = used.children_user + used.children_system
    for process in psutil.Process(pid).children():
        with contextlib.suppress(psutil.NoSuchProcess):
            live = process.cpu_times()
            total += live.user + live.system
    return total


def peak(pid: int) -> int:
    """Return the most memory that a process has had, in bytes."""
    with contextlib.suppress(OSError):
        found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
        return int(found[1]) * 1024 if found else 0
    return 0


def run(cluster: Cluster, words: list[str], environment: dict[str, str], limit: float = math.inf) -> Cost:
    """Run a program to its end, or stop it after `limit` seconds; raise RuntimeError if it fails."""
    cpu = cpu_of_children() + cpu_of_server(cluster)
    start = time.perf_counter()
    memory = 0
    ended = True
    with tempfile.TemporaryFile() as said:
        # not from wait4(), whose figure begins with this process, of which it is a copy for a moment
        with subprocess.Popen(
            words, env=environment, stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT
        ) as process:
            while process.poll() is None:
                memory = max(memory, *map(peak, descendants(process.pid)))
                time.sleep(0.02)
                if ended and time.perf_counter() - start > limit:
                    # it cancels what its connections run, and waits for them
                    process.terminate()
                    ended = False
        seconds = time.perf_counter() - start
        if ended and process.returncode != 0:
            said.seek(0)
            raise RuntimeError(f"{words[0]}: {said.read().decode(errors='replace')[-2000:]}")
    return Cost(seconds, memory, cpu_of_children() + cpu_of_server(cluster) - cpu, ended)


def added(one: Cost, other: Cost) -> Cost:
    """Return the cost of one after the other."""
    return Cost(
        one.seconds + other.seconds, max(one.memory, other.memory), one.cpu + other.cpu, one.ended and other.ended
    )


def settle(target: Target) -> None:
    """Have the server and the kernel write what they have put off, so that nobody else pays for it."""
    with target.connect() as conn:
        conn.execute("CHECKPOINT")
    os.sync()


def by_pg_dump(cluster: Cluster, source: Target, into: Target, directory: Path) -> tuple[Cost, Cost]:
    """Take all of a database into another one by pg_dump and pg_restore."""
    programs = {name: str(cluster.installation.program(name)) for name in ("pg_dump", "pg_restore")}
    settle(source)
    arguments, environment = psql_connection(source.conninfo, "pgbillion bench")
    out = run(
        cluster,
        [programs["pg_dump"], "-Fd", f"-j{JOBS}", "-n", "tenant_*", "-f", str(directory), *arguments],
        environment,
    )
    settle(source)
    arguments, environment = psql_connection(into.conninfo, "pgbillion bench")
    back = run(
        cluster,
        [programs["pg_restore"], f"-j{JOBS}", "--exit-on-error", *arguments, str(directory)],
        environment,
        LIMIT,
    )
    return out, back


def by_ours(cluster: Cluster, source: Target, into: Target, directory: Path, *options: str) -> tuple[Cost, Cost]:
    """Take the tenants of a database into another one by the command line."""
    program = [sys.executable, "-m", "pgbillion", "tenants"]
    settle(source)
    arguments, environment = psql_connection(source.conninfo, "pgbillion bench")
    out = run(cluster, [*program, "export", "--all", str(directory), "tenant_*", f"-j{JOBS}", *arguments], environment)
    settle(source)
    arguments, environment = psql_connection(into.conninfo, "pgbillion bench")
    back = run(cluster, [*program, "import", str(directory), f"-j{JOBS}", *options, *arguments], environment)
    return out, back


def check(source: Target, into: Target, *, rows: bool) -> None:
    """Raise RuntimeError unless a database has what the other one has, as far as numbers show it."""
    tables = (
        "SELECT count(*), sum(relnatts), sum(relchecks) FROM pg_class"
        " WHERE relnamespace::regnamespace::text ~ '^tenant_'"
    )
    last = f"SELECT count(*), sum(amount), max(changed) FROM tenant_{TENANTS - 1:05}.t{TABLES - 1}"
    for query in (tables, *([last] if rows else [])):
        found = []
        for target in (source, into):
            with target.connect() as conn:
                found.append(conn.execute(query.encode()).fetchall())
        if found[0] != found[1]:
            raise RuntimeError(f"{query}: {found[0]}, and then {found[1]}")


def fill(target: Target) -> None:
    """Give each table of each tenant its rows."""
    with target.connect() as conn:
        for tenant in range(TENANTS):
            texts = [
                f"INSERT INTO tenant_{tenant:05}.t{number} (parent, name, amount)"
                f" SELECT {'g' if number else 'NULL'}, 'name ' || g, g FROM generate_series(1, {ROWS}) g"
                for number in range(TABLES)
            ]
            conn.execute("; ".join(texts).encode())


WAYS = ("pg_dump", "extension", "commands")


def measure(cluster: Cluster, source: Target, folder: Path, *, rows: bool) -> dict[str, list[tuple[Cost, Cost]]]:
    """Return what each way has taken, in each round."""
    what = "rows" if rows else "empty"
    found: dict[str, list[tuple[Cost, Cost]]] = {way: [] for way in WAYS}
    for round_ in range(ROUNDS):
        for way in WAYS:
            name = f"{way}_{what}_{round_}"
            into = common.database(cluster, name)
            if way == "extension":
                with into.connect() as conn:
                    conn.execute("CREATE EXTENSION pgbillion_tables")
            if way == "pg_dump":
                cost = by_pg_dump(cluster, source, into, folder / name)
            else:
                cost = by_ours(
                    cluster, source, into, folder / name, "--method", "bulk" if way == "extension" else "sql"
                )
            if cost[1].ended:
                check(source, into, rows=rows)
            found[way].append(cost)
            common.say(
                f"{TENANTS} tenants, {'with rows' if rows else 'empty'}, {way}: out in {cost[0].seconds:.1f} s,"
                f" {cost[0].memory / 1e6:,.0f} MB, {cost[0].cpu:.1f} s of CPU, back in {cost[1].seconds:.1f} s,"
                f" {cost[1].memory / 1e6:,.0f} MB, {cost[1].cpu:.1f} s of CPU{'' if cost[1].ended else ', stopped'}"
            )
    return found


def main() -> int:
    """Run the benchmark and return the exit status."""
    with common.own_server() as (cluster, folder):
        source = common.database(cluster, "source")
        with source.connect() as conn:
            # pg_dump locks all tables in a transaction
            room = TENANTS * TABLES * 4 // 100 + 64
            conn.execute(f"ALTER SYSTEM SET max_locks_per_transaction = {room}".encode())
        cluster.stop()
        cluster.start()
        with source.connect() as conn:
            conn.execute("CREATE EXTENSION pgbillion_tables")
            conn.execute(f"CREATE SCHEMA model; SET search_path = model; {model()}; SET search_path = ''".encode())
        request = create.Request("model", "tenant_%05d", 0, TENANTS, JOBS)
        create.execute(source, request, observe=common.quiet)
        conditions = common.conditions(cluster)
        measured = {"empty": measure(cluster, source, folder, rows=False)}
        if ROWS:
            fill(source)
            measured["rows"] = measure(cluster, source, folder, rows=True)

    best = {
        (what, way): min((added(*cost) for cost in costs), key=lambda cost: cost.seconds)
        for what, ways in measured.items()
        for way, costs in ways.items()
    }

    def ratio(what: str, way: str) -> float:
        return round(best[what, "pg_dump"].seconds / best[what, way].seconds, 2)

    ratios = {
        f"fleet_over_pg_dump{'_sql' * (way == 'commands')}{'_rows' * (what == 'rows')}": ratio(what, way)
        for what, way in best
        if way != "pg_dump"
    }
    most = "rows" if ROWS else "empty"

    common.table(
        f"{TENANTS:,} tenants of {TABLES} tables, exported and imported",
        ("", "seconds", "s of CPU", "MB", "times as fast"),
        [
            [
                f"{what}, {way}{'' if cost.ended else ', stopped'}",
                f"{cost.seconds:,.1f}",
                f"{cost.cpu:,.1f}",
                f"{cost.memory / 1e6:,.0f}",
                f"{ratio(what, way):,.1f}",
            ]
            for (what, way), cost in best.items()
        ],
    )
    common.result(
        {
            "benchmark": "fleets",
            **ratios,
            "memory_of_pg_dump": round(best[most, "pg_dump"].memory / best[most, "extension"].memory, 2),
            "cpu_of_pg_dump": {
                what: round(best[what, "pg_dump"].cpu / max(best[what, "extension"].cpu, 0.01), 2) for what in measured
            },
            "seconds": {
                f"{what}_{way}_{side}": common.spread([cost[place].seconds for cost in costs])
                for what, ways in measured.items()
                for way, costs in ways.items()
                for place, side in enumerate(("out", "back"))
            },
            "megabytes": {f"{what}_{way}": round(cost.memory / 1e6) for (what, way), cost in best.items()},
            "stopped": [f"{what}_{way}" for (what, way), cost in best.items() if not cost.ended],
            "limit_s": LIMIT,
            "tenants": TENANTS,
            "tables_per_tenant": TABLES,
            "rows_per_table": ROWS,
            "jobs": JOBS,
            "rounds": ROUNDS,
            "quick": common.QUICK,
            **conditions,
        }
    )
    return 0


if __name__ == "__main__":
    common.run(main)

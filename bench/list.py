r"""pgbillion_tables.tables and `pgbillion tables list` beside psql's \dt: the first page, and all names.

One database with lazy tables, made before and not timed. What is compared alternates. psql's list has a time limit; one
that does not come back within it counts as the limit. QUICK=1 ends within a minute; SEED=… repeats an order, TABLES=…
is another number of tables, PG_CONFIG=… another PostgreSQL.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator

import common
from pgbillion.common.host import Host
from pgbillion.common.progress import Progress
from pgbillion.common.target import Target
from pgbillion.server.postgres import Cluster
from pgbillion.tables import create, listing, selection
from pgbillion.tables.plan import Storage
from pgbillion.tables.run import Run
from pgbillion.tables.worker import psql_connection

COUNT = int(os.environ.get("TABLES") or common.sized(1_000_000, 100_000, 1_000))
ROUNDS = common.sized(5, 3, 1)
DT_LIMIT = 20.0 if common.QUICK else 300.0  # seconds


class _Quiet:
    def update(self, progress: Progress) -> None:
        """Let the run be unwatched."""


@contextlib.contextmanager
def _nobody() -> Iterator[_Quiet]:
    yield _Quiet()


def make(cluster: Cluster, target: Target) -> None:
    """Make the tables, and a small schema beside them."""
    with target.connect() as conn, common.own_folder(cluster.data.parent) as folder:
        plan = create.make_plan(conn, create.Request(COUNT, 2, storage=Storage.LAZY))
        create.check_server(conn, plan)
        run = Run.create(folder / "run", plan, create.server(conn, target, plan, Host.of(conn)))
        create.execute(target, run, interval=10, psql=None, resume_command="", observe=_nobody)
        conn.execute("CREATE SCHEMA small")
        conn.execute("SELECT pgbillion_tables.create_tables('public._00000000', 't%d', 0, 100, schema => 'small')")


def page(target: Target, pattern: str | None, schema: str | None = None) -> float:
    """Return the seconds that one page takes in a session that has been used before."""
    with target.connect() as conn:
        chosen = selection.select(conn, pattern, schema)
        pages: list[float] = []
        for _ in range(3):
            listed = listing.write(conn, chosen, lambda text: None, extension=True, limit=listing.PAGE)
            pages.append(listed.seconds)
    return pages[-1]


def everything(target: Target) -> float:
    """Return the seconds that all names take through the command line, to a pipe."""
    start = time.perf_counter()
    command = [sys.executable, "-m", "pgbillion", "tables", "list", "--all", "-d", target.conninfo]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        lines = 0
        while chunk := process.stdout.read(1 << 20):
            lines += chunk.count(b"\n")
    seconds = time.perf_counter() - start
    if process.returncode != 0 or lines < COUNT:
        raise RuntimeError(f"{lines} of {COUNT} names were listed")
    return seconds


def dt(cluster: Cluster, target: Target) -> float:
    r"""Return the seconds that psql's \dt takes, or the limit."""
    arguments, environment = psql_connection(target.conninfo, "pgbillion bench")
    environment["PGOPTIONS"] = f"-c statement_timeout={round(DT_LIMIT * 1000)}"
    start = time.perf_counter()
    command = [str(cluster.installation.program("psql")), "-X", "-A", "-t", *arguments, "-c", "\\dt"]
    done = subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        if "statement timeout" not in done.stderr:
            raise RuntimeError(done.stderr)
        return DT_LIMIT
    return time.perf_counter() - start


def main() -> int:
    """Run the benchmark and return the exit status."""
    seed, order = common.seeded()
    times: dict[str, list[float]] = defaultdict(list)
    with common.own_server() as (cluster, _):
        target = common.database(cluster, "bench")
        conditions = common.conditions(cluster)
        common.say(f"making {COUNT:,} tables")
        make(cluster, target)
        ways: dict[str, Callable[[], float]] = {
            "first page": lambda: page(target, None),
            "page of a pattern": lambda: page(target, "_0000f*"),
            "page of a small schema": lambda: page(target, None, "small"),
            "all names": lambda: everything(target),
            "psql's \\dt": lambda: dt(cluster, target),
        }
        for number in range(ROUNDS):
            contestants = list(ways)
            order.shuffle(contestants)
            for contestant in contestants:
                times[contestant].append(ways[contestant]())
                common.say(f"round {number + 1}, {contestant}: {times[contestant][-1] * 1000:,.2f} ms")
    median = {way: statistics.median(found) for way, found in times.items()}
    common.table(
        f"{COUNT:,} tables, medians",
        ("", "time", "names/s"),
        [
            [
                way,
                f"{median[way] * 1000:,.2f} ms",
                f"{COUNT / median[way]:,.0f}" if way in ("all names", "psql's \\dt") else "",
            ]
            for way in ways
        ],
    )
    limited = median["psql's \\dt"] >= DT_LIMIT
    common.result(
        {
            "benchmark": "list",
            "first_page_ms": round(median["first page"] * 1000, 3),
            "pattern_page_ms": round(median["page of a pattern"] * 1000, 3),
            "small_schema_page_ms": round(median["page of a small schema"] * 1000, 3),
            "names_per_s": round(COUNT / median["all names"]),
            "psql_dt_ms": None if limited else round(median["psql's \\dt"] * 1000, 3),
            "psql_dt_limit_s": DT_LIMIT,
            "ratio_dt_over_first_page": round(median["psql's \\dt"] / median["first page"], 1),
            "tables": COUNT,
            "rounds": ROUNDS,
            "milliseconds": {way: common.spread([seconds * 1000 for seconds in found]) for way, found in times.items()},
            "quick": common.QUICK,
            "seed": seed,
            **conditions,
        }
    )
    return 0


if __name__ == "__main__":
    common.run(main)

"""One aggregate over nodes of Citus, without vectors and with them, and over as many shards by pgbillion_fdw.

20 million rows of the source's table over four servers on this machine, twice: once distributed by Citus, once by
pgbillion_fdw. All ways answer the same, then they run in turn, in an order by chance; medians count. Needs a PostgreSQL
with Citus: PG_CONFIG=… is its pg_config. QUICK=1 is a tenth of the rows; SEED=… repeats data and order.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import common
from pgbillion.common import search_path
from pgbillion.common.connection import Connection
from pgbillion.common.errors import UserError
from pgbillion.common.target import Target
from pgbillion.rows import plans
from pgbillion.server.extension import read_pg_config
from pgbillion.server.postgres import Cluster, embedded_pg_config
from pgbillion.shards import coordinator, create, destroy
from pgbillion.shards.record import Engine

SHARDS = 4
ROWS = common.sized(5_000_000, 500_000, 2_000)
ROUNDS = common.sized(11, 3, 1)
CITUS, VECTORS, OURS = "Citus", "Citus, vectorized", "pgbillion_fdw"
TABLES = {CITUS: "t_citus", VECTORS: "t_citus", OURS: "t_fdw"}
QUERIES = {
    "count": "SELECT grp, count(data) FROM {} GROUP BY 1",
    "sum": "SELECT grp, sum(id), min(data), max(data) FROM {} WHERE data < 0.5 GROUP BY 1",
}


@contextlib.contextmanager
def nobody(total: int) -> Iterator[Callable[[int], None]]:
    """Show nothing."""
    yield lambda done: None


def need_citus() -> None:
    """Raise UserError unless the PostgreSQL of PG_CONFIG has Citus."""
    chosen = os.environ.get("PG_CONFIG")
    facts = read_pg_config(Path(chosen) if chosen else embedded_pg_config())
    if not (facts.sharedir / "extension" / "citus.control").exists():
        raise UserError(
            f"PostgreSQL {facts.version} in {facts.bindir} has no Citus",
            "name one that has: make bench-citus PG_CONFIG=/path/to/pg_config",
        )


def load_citus(cluster: Cluster) -> None:
    """Have the coordinator load Citus."""
    with cluster.conf.open("a", encoding="utf-8") as conf:
        conf.write("\nshared_preload_libraries = 'citus'\n")
    cluster.stop()
    cluster.start()


def run(conn: Connection, side: str, query: str) -> tuple[float, list[tuple[Any, ...]]]:
    """Return the seconds that a way takes, and its answer."""
    with conn.transaction():
        # Citus hands on what is SET LOCAL to its nodes; pgbillion_fdw does not, and its shards always have vectors
        conn.execute(f"SET LOCAL {plans.SETTING} = {'off' if side == CITUS else 'on'}".encode())
        start = time.perf_counter()
        rows = conn.execute(query.format(TABLES[side]).encode()).fetchall()
        return time.perf_counter() - start, sorted(rows)


def main() -> int:
    """Run the benchmark and return the exit status."""
    need_citus()
    seed, order = common.seeded()
    sides = (CITUS, VECTORS, OURS)
    times: dict[tuple[str, str], list[float]] = defaultdict(list)
    with common.own_server() as (cluster, _):
        load_citus(cluster)
        conditions = common.conditions(cluster)
        target = Target(cluster.conninfo("billion"), "the benchmark's server", embedded=True)
        state: Path = cluster.data.parent
        with contextlib.ExitStack() as stack:
            for engine, table in ((Engine.CITUS, TABLES[CITUS]), (Engine.FDW, TABLES[OURS])):
                common.say(f"{SHARDS} servers with {ROWS:,} rows each, for {engine}")
                request = create.Request(ROWS, SHARDS, table=table, engine=engine, seed=seed)
                made = create.execute(target, state, request, observe=nobody, say=common.say).made
                stack.callback(destroy.execute, target, state, made)
            with coordinator.session(target, read_only=False) as conn, search_path.restored(conn):
                conn.execute("SET citus.propagate_set_commands = 'local'")
                version = conn.execute("SELECT citus_version()").fetchone()
                for name, query in QUERIES.items():
                    expected = run(conn, CITUS, query)[1]
                    for side in (VECTORS, OURS):
                        if run(conn, side, query)[1] != expected:
                            raise RuntimeError(f"{side} answers {name} otherwise than Citus without vectors")
                check_plans(conn)
                for number in range(ROUNDS):
                    for name, query in QUERIES.items():
                        for side in order.sample(sides, len(sides)):
                            times[name, side].append(run(conn, side, query)[0])
                    common.say(f"round {number + 1} of {ROUNDS}")
    report(times, {"seed": seed, "citus": version[0] if version else None, **conditions})
    return 0


def check_plans(conn: Connection) -> None:
    """See that vectors are where they should be."""
    for side, expected in ((CITUS, False), (VECTORS, True)):
        with conn.transaction():
            conn.execute(f"SET LOCAL pgbillion_rows.vector_aggregate = {'on' if expected else 'off'}".encode())
            plan = "\n".join(
                line for (line,) in conn.execute(f"EXPLAIN {QUERIES['count'].format(TABLES[side])}".encode())
            )
            if (plans.NODE in plan) != expected:
                raise RuntimeError(f"{side}: {plan}")


def report(times: dict[tuple[str, str], list[float]], more: dict[str, Any]) -> None:
    """Print the table and the line for programs."""
    spread = {key: common.spread([seconds * 1000 for seconds in found]) for key, found in times.items()}
    for name, query in QUERIES.items():
        core = spread[name, CITUS]["median"]
        common.table(
            f"{query.format('t_demo')}: {SHARDS} x {ROWS:,} rows, medians of {ROUNDS}",
            ("way", "ms", "rows/s", "times as fast as Citus"),
            [
                [side, f"{median:,.1f}", f"{SHARDS * ROWS / median / 1000:,.1f} M", f"{core / median:.1f}"]
                for side in (CITUS, VECTORS, OURS)
                for median in [spread[name, side]["median"]]
            ],
        )
    common.result(
        {
            "benchmark": "citus",
            "milliseconds": {name: {side: spread[name, side] for side in TABLES} for name in QUERIES},
            "ratio_over_citus": {
                name: round(spread[name, CITUS]["median"] / spread[name, VECTORS]["median"], 2) for name in QUERIES
            },
            "rows": SHARDS * ROWS,
            "shards": SHARDS,
            "rounds": ROUNDS,
            "quick": common.QUICK,
            **more,
        }
    )


if __name__ == "__main__":
    common.run(main)

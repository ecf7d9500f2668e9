"""One aggregate over four shards: postgres_fdw, its best rewriting by hand and pgbillion_fdw, beside one server.

20 million rows of the source's table, once on one server, once on four servers of five million each, all on this
machine. All ways are run once to compare the answers, then in turn, in an order by chance; medians count. The
slowest way, postgres_fdw with the query as written, is run less often. Then one shard by itself, and the cost of
breadth: the same query over 1 to 64 shards of a few rows each, on warm and on new connections; they are databases of
the four servers, each with a connection and a backend of its own. From all that follows what prediction.py says of the
source's 32 servers. QUICK=1 is a tenth of the rows; SEED=…
repeats the order, ROWS=… is another number of rows, PG_CONFIG=… another PostgreSQL.
"""

from __future__ import annotations

import contextlib
import os
import random
import statistics
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
from psycopg import sql

import bandwidth
import common
import prediction
from pgbillion.common import host
from pgbillion.common.connection import Connection
from pgbillion.rows import aggregate, plans
from pgbillion.server import extension
from pgbillion.server.postgres import SUPERUSER, Cluster

SHARDS = 4
ROWS = int(os.environ.get("ROWS") or common.sized(20_000_000, 2_000_000, 8_000))
ROUNDS = common.sized(7, 3, 1)
SLOW_ROUNDS = 1 if common.QUICK else 2
BREADTH = (1, 2, 4) if common.TINY else (1, 2, 4, 8, 16, 32, 64)
BREADTH_ROUNDS = common.sized(30, 10, 1)
COLD_ROUNDS = common.sized(5, 5, 1)
COPIED_BYTES = common.sized(1 << 30, 1 << 30, 1 << 24)
COLUMNS = "id integer, grp integer, data real"
QUERY = "SELECT grp, count(data) FROM {} GROUP BY 1"
REWRITTEN = "SELECT grp, sum(n)::bigint FROM ({}) AS x GROUP BY 1".format(
    " UNION ALL ".join(f"SELECT grp, count(data) AS n FROM t_demo_{number} GROUP BY 1" for number in range(SHARDS))
)
SHARD_SETTINGS = {
    "shared_buffers": "512MB",
    "fsync": "off",
    "max_connections": "100",
    "max_wal_size": "4GB",
    "jit": "off",
}
ONE, CORE_ONE, FDW, REWRITE, OURS = (
    "one server",
    "one server, PostgreSQL",
    "postgres_fdw",
    "postgres_fdw, rewritten",
    "pgbillion_fdw",
)


@contextlib.contextmanager
def shard_servers(cluster: Cluster, folder: Path) -> Iterator[list[Cluster]]:
    """Start the shards' servers."""
    made = [
        Cluster(cluster.installation, folder / f"shard{number}", folder / f"s{number}", 5432)
        for number in range(SHARDS)
    ]
    try:
        for shard in made:
            shard.init(SHARD_SETTINGS)
            shard.start()
        yield made
    finally:
        for shard in made:
            shard.destroy()


def fill(shard: Cluster, first: int, last: int) -> None:
    """Make one shard's table."""
    with shard.connect() as conn:
        conn.execute("CREATE EXTENSION pgbillion_rows")
        conn.execute(f"CREATE TABLE t_demo ({COLUMNS})")
        conn.execute(
            "INSERT INTO t_demo SELECT i, i %% 10, random() FROM generate_series(%s::int, %s::int) i", [first, last]
        )
        conn.execute("VACUUM (FREEZE, ANALYZE) t_demo")


def make(conn: Connection, shards: Sequence[Cluster]) -> None:
    """Make t_demo and ours, by each wrapper, over the shards, and one, the same here."""
    size = ROWS // SHARDS
    with ThreadPoolExecutor(2) as pool:
        ranges = [(number * size, (number + 1) * size - 1) for number in range(SHARDS)]
        list(pool.map(lambda number: fill(shards[number], *ranges[number]), range(SHARDS)))
    conn.execute("CREATE EXTENSION pgbillion_rows; CREATE EXTENSION postgres_fdw")
    conn.execute(f"CREATE TABLE one ({COLUMNS})")
    for table, server, wrapper in (("t_demo", "shard", "postgres_fdw"), ("ours", "ours", "pgbillion_fdw")):
        conn.execute(f"CREATE TABLE {table} ({COLUMNS}) PARTITION BY RANGE (id)".encode())
        for number, shard in enumerate(shards):
            add_server(conn, f"{server}{number}", shard, wrapper=wrapper)
            conn.execute(
                f"CREATE FOREIGN TABLE {table}_{number} PARTITION OF {table} FOR VALUES FROM ({number * size}) TO"
                f" ({(number + 1) * size}) SERVER {server}{number} OPTIONS (table_name 't_demo')".encode()
            )
    conn.execute("ALTER SERVER shard0 OPTIONS (ADD fetch_size '50000')")
    conn.execute("INSERT INTO one SELECT * FROM t_demo")
    conn.execute("ALTER SERVER shard0 OPTIONS (DROP fetch_size)")
    conn.execute("VACUUM (FREEZE, ANALYZE) one")
    conn.execute("CHECKPOINT")


def add_server(
    conn: Connection, name: str, shard: Cluster, database: str = "postgres", wrapper: str = "pgbillion_fdw"
) -> None:
    """Tell the coordinator of a shard."""
    statement = sql.SQL("CREATE SERVER {} FOREIGN DATA WRAPPER {} OPTIONS (host {}, port {}, dbname {})")
    where = (str(shard.socket_dir), str(shard.port), database)
    conn.execute(statement.format(sql.Identifier(name), sql.Identifier(wrapper), *where))
    # without a name it would be that of the operating system's user, who is no role there
    mapping = sql.SQL("CREATE USER MAPPING FOR PUBLIC SERVER {} OPTIONS (user {})")
    conn.execute(mapping.format(sql.Identifier(name), SUPERUSER))


def measure(conn: Connection, side: str) -> tuple[float, list[tuple[Any, ...]]]:
    """Return the seconds that a way takes, and its answer."""
    conn.execute(f"SET enable_partitionwise_aggregate = {'on' if side == OURS else 'off'}".encode())
    with contextlib.suppress(psycopg.errors.UndefinedObject):
        plans.switch(conn, side != CORE_ONE)
    query = REWRITTEN if side == REWRITE else QUERY.format({OURS: "ours", FDW: "t_demo"}.get(side, "one"))
    start = time.perf_counter()
    rows = conn.execute(query.encode()).fetchall()
    return time.perf_counter() - start, sorted(rows)


def alone(shard: Cluster) -> dict[str, Any]:
    """Ask one shard by itself, by one process and by one for each CPU core: rows per second."""
    rows = ROWS // SHARDS
    times: dict[tuple[int, bool], list[float]] = defaultdict(list)
    with shard.connect() as conn:
        extension.versions(conn, extension.ROWS)
        conn.prepare_threshold = None
        sides = [(1, True), (os.cpu_count() or 1, True), (1, False)]
        for number in range(ROUNDS + 1):
            for side in dict.fromkeys(sides):
                aggregate.be_willing(conn, side[0])
                plans.switch(conn, side[1])
                start = time.perf_counter()
                conn.execute(QUERY.format("t_demo").encode())
                if number > 0:
                    times[side].append(time.perf_counter() - start)
        size = conn.execute("SELECT pg_relation_size('t_demo')").fetchone()
        assert size is not None
    rates = {side: round(rows / statistics.median(found)) for side, found in times.items()}
    return {
        "rows_per_second_alone": {processes: rate for (processes, vectors), rate in rates.items() if vectors},
        "rows_per_second_postgresql": rates[1, False],
        "bytes_per_row": round(size[0] / rows, 1),
        # copying reads as much as it writes
        "memory_bytes_per_second": round(2 * bandwidth.memory(COPIED_BYTES)),
    }


def breadth(cluster: Cluster, conn: Connection, shards: Sequence[Cluster], order: random.Random) -> dict[str, Any]:
    """Measure the query over more and more shards with a hundred rows each."""
    for shard in shards:
        with shard.connect() as there:
            there.execute("CREATE DATABASE small")
        with shard.connect("small") as there:
            there.execute("CREATE EXTENSION pgbillion_rows")
            there.execute(f"CREATE TABLE small ({COLUMNS})")
            there.execute("INSERT INTO small SELECT i, i % 10, i FROM generate_series(1, 100) i")
            there.execute("VACUUM (FREEZE, ANALYZE) small")
    for number in range(max(BREADTH)):
        shard = shards[number % len(shards)]
        with shard.connect() as there:
            there.execute(f"CREATE DATABASE small{number} TEMPLATE small".encode())
        add_server(conn, f"wide{number}", shard, f"small{number}")
    warm: dict[int, list[float]] = defaultdict(list)
    cold: dict[int, list[float]] = defaultdict(list)
    memory: dict[int, list[float]] = defaultdict(list)
    sent: dict[int, int] = {}
    for count in BREADTH:
        conn.execute(f"CREATE TABLE wide_{count} ({COLUMNS}) PARTITION BY LIST (id)")
        for number in range(count):
            conn.execute(
                f"CREATE FOREIGN TABLE wide_{count}_{number} PARTITION OF wide_{count} FOR VALUES IN ({number})"
                f" SERVER wide{number} OPTIONS (table_name 'small')"
            )
    for _ in range(COLD_ROUNDS):
        for count in shuffled(BREADTH, order):
            with cluster.connect() as new:
                new.execute("SET enable_partitionwise_aggregate = on; SET jit = off")
                # the library and the catalogs' caches are no shard's cost
                new.execute(f"EXPLAIN {QUERY.format(f'wide_{count}')}".encode())
                start = time.perf_counter()
                new.execute(QUERY.format(f"wide_{count}").encode())
                cold[count].append((time.perf_counter() - start) * 1000)
                memory[count].append(host.private_memory(new.info.backend_pid) or 0)
    conn.execute("SET enable_partitionwise_aggregate = on")
    for number in range(BREADTH_ROUNDS + 1):
        for count in shuffled(BREADTH, order):
            start = time.perf_counter()
            conn.execute(QUERY.format(f"wide_{count}").encode())
            if number > 0:
                warm[count].append((time.perf_counter() - start) * 1000)
    for count in BREADTH:
        row = conn.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {QUERY.format(f'wide_{count}')}".encode()).fetchone()
        assert row is not None
        sent[count] = sum(_values(row[0], "Shard Bytes"))
    found: dict[str, Any] = {}
    for name, times in (("warm", warm), ("cold", cold)):
        medians, (slope, start_at, fit) = fitted(times)
        found[name] = {
            "ms_per_shard": round(slope, 3),
            "ms_at_none": round(start_at, 3),
            "r_squared": round(fit, 4),
            "ms": dict(zip(BREADTH, [round(value, 2) for value in medians], strict=True)),
        }
    medians, (slope, _, fit) = fitted(memory)
    found["memory"] = {
        "bytes_per_shard": round(slope),
        "r_squared": round(fit, 4),
        "bytes": dict(zip(BREADTH, [round(value) for value in medians], strict=True)),
    }
    return {**found, "bytes_per_shard": sent[max(BREADTH)] / max(BREADTH)}


def fitted(values: dict[int, list[float]]) -> tuple[list[float], tuple[float, float, float]]:
    """Return the medians for each breadth, and their straight line: a shard's part, none's, and r²."""
    medians = [statistics.median(values[count]) for count in BREADTH]
    slope, start_at = np.polyfit(BREADTH, medians, 1)
    return medians, (float(slope), float(start_at), float(np.corrcoef(BREADTH, medians)[0, 1] ** 2))


def shuffled(numbers: Sequence[int], order: random.Random) -> list[int]:
    """Return numbers in an order by chance."""
    return order.sample(list(numbers), len(numbers))


def _values(node: Any, name: str) -> Iterator[int]:
    if isinstance(node, dict):
        for key, value in node.items():
            if key == name:
                yield value
            else:
                yield from _values(value, name)
    elif isinstance(node, list):
        for value in node:
            yield from _values(value, name)


def main() -> int:
    """Run the benchmark and return the exit status."""
    seed, order = common.seeded()
    times: dict[str, list[float]] = defaultdict(list)
    with (
        common.own_server() as (cluster, folder),
        shard_servers(cluster, folder) as shards,
        cluster.connect() as conn,
    ):
        conditions = common.conditions(cluster)
        # psycopg would keep the plan of a query that it has prepared, whatever the settings say since
        conn.prepare_threshold = None
        common.say(f"loading {ROWS:,} rows, twice")
        make(conn, shards)
        conn.execute("SET jit = off; SET work_mem = '256MB'")
        expected = measure(conn, CORE_ONE)[1]
        for side in (ONE, FDW, REWRITE, OURS):
            if measure(conn, side)[1] != expected:
                raise RuntimeError(f"{side} answers otherwise than one server")
        common.say("all ways answer the same")
        for number in range(ROUNDS):
            sides = [ONE, CORE_ONE, REWRITE, OURS, *([FDW] if number < SLOW_ROUNDS else [])]
            order.shuffle(sides)
            for side in sides:
                times[side].append(measure(conn, side)[0])
            common.say(f"round {number + 1} of {ROUNDS}")
        common.say("one shard by itself")
        single = alone(shards[0])
        common.say(f"the cost of breadth, to {max(BREADTH)} shards")
        wide = breadth(cluster, conn, shards, order)
    report(times, single, wide, seed, conditions)
    return 0


def report(
    times: dict[str, list[float]], single: dict[str, Any], wide: dict[str, Any], seed: int, conditions: dict[str, Any]
) -> None:
    """Print the tables and the line for programs."""
    median = {side: statistics.median(found) for side, found in times.items()}
    common.table(
        f"{ROWS:,} rows, {SHARDS} shards, medians of {ROUNDS} ({SLOW_ROUNDS} of the slowest)",
        ("way", "ms", "over pgbillion_fdw", "rows/s"),
        [
            [
                side,
                f"{median[side] * 1000:,.1f}",
                f"{median[side] / median[OURS]:.1f}",
                f"{ROWS / median[side] / 1e6:,.1f} M",
            ]
            for side in (FDW, REWRITE, OURS, CORE_ONE, ONE)
        ],
    )
    common.table(
        "shards with 100 rows each, ms",
        ("connections", *map(str, BREADTH), "ms per shard", "r²"),
        [
            [
                name,
                *(f"{value:.1f}" for value in wide[name]["ms"].values()),
                f"{wide[name]['ms_per_shard']:.3f}",
                f"{wide[name]['r_squared']:.3f}",
            ]
            for name in ("warm", "cold")
        ],
    )
    values: dict[str, Any] = {
        "benchmark": "shards",
        "ratio_over_fdw": round(median[FDW] / median[OURS], 1),
        "ratio_over_rewrite": round(median[REWRITE] / median[OURS], 2),
        "ms_over_single_server": round((median[OURS] - median[ONE]) * 1000, 1),
        "ms_per_shard": wide["warm"]["ms_per_shard"],
        "ms_per_shard_cold": wide["cold"]["ms_per_shard"],
        "bytes_per_shard": wide["bytes_per_shard"],
        "breadth": wide,
        **single,
        "slowest_over_median": round(max(times[OURS]) / median[OURS], 3),
        "milliseconds": {side: common.spread([seconds * 1000 for seconds in found]) for side, found in times.items()},
        "rows": ROWS,
        "shards": SHARDS,
        "shard_settings": SHARD_SETTINGS,
        "rounds": ROUNDS,
        "quick": common.QUICK,
        "seed": seed,
        **conditions,
    }
    found = prediction.predict(values)
    common.table(
        f"predicted: {prediction.SERVERS} servers, {prediction.CORES} cores and {prediction.ROWS:,} rows each",
        prediction.HEADER,
        prediction.rows(found),
    )
    common.result({**values, "prediction": found.to_json()})


if __name__ == "__main__":
    common.run(main)

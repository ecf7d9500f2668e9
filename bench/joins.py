"""Eager aggregation: a big table joined to one of 1,000 rows and grouped by its columns.

Five million rows in four partitions here, and the same on four shards, all on this machine. Ways are run once to
compare the answers, then in turn, in an order by chance; medians count. Where rows come from shards to be joined here,
it is run less often. QUICK=1 is a tenth of the rows; SEED=… repeats the order, ROWS=… is another number of rows,
PG_CONFIG=… another PostgreSQL.
"""

from __future__ import annotations

import os
import statistics
import time
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

import common
import shards
from pgbillion.common.connection import Connection
from pgbillion.server.postgres import Cluster

ROWS = int(os.environ.get("ROWS") or common.sized(5_000_000, 500_000, 8_000))
ROUNDS = common.sized(5, 3, 1)
SLOW_ROUNDS = 1
COLUMNS = "id bigint, k integer, x integer, y numeric(12,2)"
VALUES = (
    "SELECT i, (i / 4 * 7919) %% 1000, i %% 1000, i %% 10000 / 100.0 FROM generate_series(%s::bigint, %s::bigint, {}) i"
)
SMALL = "SELECT i AS id, 'name ' || i % 20 AS name, 'r' || i % 5 AS region FROM generate_series(0, 999) i"
QUERY = (
    "SELECT d.name, count(*), sum(t.x), avg(t.y) FROM {table} t JOIN d ON t.k = d.id {where} GROUP BY d.name ORDER BY 1"
)
WHERE = {"all": "", "a fifth": "WHERE d.region = 'r1'"}


class Way(NamedTuple):
    """Where the table is, and which features are on."""

    name: str
    table: str
    vectors: str
    eager: str


WAYS = (
    Way("here, PostgreSQL", "near", "off", "off"),
    Way("here, aggregated before the join", "near", "off", "on"),
    Way("here, aggregated before the join, vectorized", "near", "on", "on"),
    Way("shards, joined here", "far", "on", "off"),
    Way("shards, aggregated before the join", "far", "on", "on"),
)


def make(conn: Connection, servers: Sequence[Cluster]) -> None:
    """Make `near`, `far` and `d`."""
    conn.execute("CREATE EXTENSION pgbillion_rows; CREATE EXTENSION postgres_fdw")
    count = len(servers)
    for table in ("near", "far"):
        conn.execute(f"CREATE TABLE {table} ({COLUMNS}) PARTITION BY LIST (mod(id, {count}))".encode())
    for number, shard in enumerate(servers):
        with shard.connect() as there:
            there.execute("CREATE EXTENSION pgbillion_rows")
            there.execute("ALTER DATABASE postgres SET session_preload_libraries = 'pgbillion_rows'")
            there.execute(f"CREATE TABLE far ({COLUMNS})".encode())
            there.execute(f"INSERT INTO far {VALUES.format(count)}".encode(), [number, ROWS - 1])
            there.execute("VACUUM (FREEZE, ANALYZE) far")
        shards.add_server(conn, f"shard{number}", shard)
        conn.execute(
            f"CREATE FOREIGN TABLE far_{number} PARTITION OF far FOR VALUES IN ({number}) SERVER shard{number} OPTIONS"
            " (table_name 'far')".encode()
        )
        conn.execute(f"CREATE TABLE near_{number} PARTITION OF near FOR VALUES IN ({number})".encode())
    conn.execute(f"INSERT INTO near {VALUES.format(1)}".encode(), [0, ROWS - 1])
    conn.execute(f"CREATE TABLE d AS {SMALL}".encode())
    conn.execute("VACUUM (FREEZE, ANALYZE) near")
    conn.execute("ANALYZE d; ANALYZE far; CHECKPOINT")


def measure(conn: Connection, way: Way, where: str) -> tuple[float, list[tuple[Any, ...]]]:
    """Return the seconds that a way takes, and its answer."""
    conn.execute(f"SET pgbillion_rows.vector_aggregate = {way.vectors}".encode())
    conn.execute(f"SET pgbillion_rows.vector_scan = {way.vectors}".encode())
    conn.execute(f"SET pgbillion_rows.eager_aggregate = {way.eager}".encode())
    start = time.perf_counter()
    rows = conn.execute(QUERY.format(table=way.table, where=WHERE[where]).encode()).fetchall()
    return time.perf_counter() - start, rows


def main() -> int:
    """Make the tables, run all ways, and report."""
    seed, order = common.seeded()
    times: dict[tuple[str, str], list[float]] = defaultdict(list)
    with common.own_server() as (cluster, folder), shards.shard_servers(cluster, folder) as servers:
        conditions = common.conditions(cluster)
        with cluster.connect() as conn:
            common.say(f"{ROWS:,} rows in {len(servers)} partitions, and on as many shards")
            make(conn, servers)
            # a plan made for one way would be kept for another
            conn.prepare_threshold = None
            conn.execute("LOAD 'pgbillion_rows'; SET jit = off")
            for where in WHERE:
                expected = measure(conn, WAYS[0], where)[1]
                for way in WAYS:
                    if measure(conn, way, where)[1] != expected:
                        raise RuntimeError(f"{way.name} answers otherwise than PostgreSQL")
            common.say("all ways answer the same")
            for number in range(ROUNDS):
                todo = [
                    (way, where)
                    for way in WAYS
                    for where in WHERE
                    if number < SLOW_ROUNDS or (way.table, way.eager) != ("far", "off")
                ]
                order.shuffle(todo)
                for way, where in todo:
                    times[way.name, where].append(measure(conn, way, where)[0] * 1000)
                common.say(f"round {number + 1} of {ROUNDS}")
    report(times, seed, conditions)
    return 0


def report(times: dict[tuple[str, str], list[float]], seed: int, conditions: dict[str, Any]) -> None:
    """Print the table and the line for programs."""
    median = {key: statistics.median(found) for key, found in times.items()}
    common.table(
        f"{ROWS:,} rows joined to 1,000, ms",
        ("way", *WHERE),
        [[way.name, *(f"{median[way.name, where]:,.0f}" for where in WHERE)] for way in WAYS],
    )
    core, _, vectors, joined, states = (median[way.name, "all"] for way in WAYS)
    common.result(
        {
            "benchmark": "joins",
            "ratio_here": round(core / vectors, 1),
            "ratio_shards": round(joined / states, 1),
            "milliseconds": {f"{way}, {where}": common.spread(found) for (way, where), found in times.items()},
            "rows": ROWS,
            "rounds": ROUNDS,
            "quick": common.QUICK,
            "seed": seed,
            **conditions,
        }
    )


if __name__ == "__main__":
    common.run(main)

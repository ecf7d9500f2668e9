"""Vectorized aggregation of plain heap compared with PostgreSQL's own, and with DuckDB on its own columnar table.

20 million rows of the source's table, frozen and in shared buffers; the same with a million groups; TPC-H's lineitem
at scale 1. Every query is run once to compare the answers, then by all sides in turn, in an order by chance; medians
count. "Parallel" is two processes, or two threads for DuckDB. If two processes are not 1.5 times as fast as one with a
million groups, both are measured again, 15 times in turn. QUICK=1 is a tenth of the rows and ends within a minute;
SEED=… repeats data and order, ROWS=… is another number of rows, PG_CONFIG=… another PostgreSQL.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

import common
from pgbillion.common import search_path, together
from pgbillion.common.connection import Connection
from pgbillion.common.target import Target
from pgbillion.rows import aggregate, answers, load, plans
from pgbillion.rows.answers import Answer

Times = dict[tuple[str, str, int], list[float]]
"""Seconds by a query's key, side and number of processes."""

ROWS = int(os.environ.get("ROWS") or common.sized(20_000_000, 2_000_000, 20_000))
ROUNDS = common.sized(5, 2, 1)
# what two processes are asked to gain over one with a million groups, and how often that is measured again otherwise
LEAST_GAIN, AGAIN = 1.5, common.sized(15, 15, 1)
ORDERS = 1_500_000 * ROWS // 20_000_000
MANY = "t_demo_many"  # the source's table with as many groups as rows by twenty
SESSION = {"jit": "off", "max_parallel_workers_per_gather": "0"}
POSTGRESQL, OURS, DUCK = "PostgreSQL", "pgbillion", "DuckDB"

LINEITEM = """CREATE TABLE lineitem (
    l_orderkey bigint NOT NULL, l_partkey integer NOT NULL, l_suppkey integer NOT NULL, l_linenumber integer NOT NULL,
    l_quantity numeric(15,2) NOT NULL, l_extendedprice numeric(15,2) NOT NULL, l_discount numeric(15,2) NOT NULL,
    l_tax numeric(15,2) NOT NULL, l_returnflag char(1) NOT NULL, l_linestatus char(1) NOT NULL,
    l_shipdate date NOT NULL, l_commitdate date NOT NULL, l_receiptdate date NOT NULL,
    l_shipinstruct char(25) NOT NULL, l_shipmode char(10) NOT NULL, l_comment varchar(44) NOT NULL)"""


@dataclass(frozen=True)
class Query:
    """A query, and the table it reads."""

    key: str
    title: str
    table: str
    sql: str
    work_mem: str = "256MB"

    @property
    def duck(self) -> str:
        """The same for DuckDB, where / is not of integers."""
        return self.sql.replace("(id - 1) / 20", "(id - 1) // 20")


# only a row of all groups goes to the client: sending them is the same for everybody
SCATTERED = f"SELECT count(*), max(n) FROM (SELECT grp, count(data) AS n FROM {MANY} GROUP BY 1) AS x"
QUERIES = (
    Query("count", "the source's query", "t_demo", "SELECT grp, count(data) FROM t_demo GROUP BY 1"),
    Query("sum", "sum and avg", "t_demo", "SELECT grp, sum(data), avg(data) FROM t_demo GROUP BY 1"),
    Query("filter", "10 % filter", "t_demo", "SELECT grp, count(data) FROM t_demo WHERE data < 0.1 GROUP BY 1"),
    Query("million_groups", "a group for 20 rows, scattered", MANY, SCATTERED),
    Query(
        "million_groups_in_order",
        "a group for 20 rows, in order",
        "t_demo",
        "SELECT count(*), max(n) FROM (SELECT (id - 1) / 20, count(data) AS n FROM t_demo GROUP BY 1) AS x",
    ),
    Query(
        "tpch_q1",
        "TPC-H query 1",
        "lineitem",
        "SELECT l_returnflag, l_linestatus, sum(l_quantity) AS sum_qty, sum(l_extendedprice) AS sum_base_price,"
        " sum(l_extendedprice * (1 - l_discount)) AS sum_disc_price,"
        " sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)) AS sum_charge, avg(l_quantity) AS avg_qty,"
        " avg(l_extendedprice) AS avg_price, avg(l_discount) AS avg_disc, count(*) AS count_order FROM lineitem"
        " WHERE l_shipdate <= date '1998-12-01' - interval '90 days'"
        " GROUP BY l_returnflag, l_linestatus ORDER BY l_returnflag, l_linestatus",
    ),
    Query(
        "tpch_q6",
        "TPC-H query 6",
        "lineitem",
        "SELECT sum(l_extendedprice * l_discount) AS revenue FROM lineitem WHERE l_shipdate >= date '1994-01-01'"
        " AND l_shipdate < date '1994-01-01' + interval '1 year' AND l_discount BETWEEN 0.06 - 0.01 AND 0.06 + 0.01"
        " AND l_quantity < 24",
    ),
)
# not asked for, but measured so that nothing is slower than PostgreSQL unseen
OTHERS = (
    Query("plain_count", "count(*)", "t_demo", "SELECT count(*) FROM t_demo"),
    Query("text", "char and text: min, max, LIKE", "lineitem", "SELECT l_shipmode, min(l_comment), max(l_comment)"
          " FROM lineitem WHERE l_comment LIKE '%sleep%' GROUP BY 1"),
    Query("odd", "a term left out", "t_demo", "SELECT grp, count(*) FROM t_demo WHERE sqrt(data) < 0.5 GROUP BY 1"),
    Query("orders", "a group for 4 rows", "lineitem", "SELECT count(*), max(q) FROM (SELECT l_orderkey,"
          " sum(l_quantity) AS q FROM lineitem GROUP BY 1) AS x"),
    Query("little_memory", "a group for 20 rows, scattered, work_mem 4 MB", MANY, SCATTERED, work_mem="4MB"),
    Query("distinct", "DISTINCT", "t_demo", "SELECT DISTINCT grp FROM t_demo"),
    Query("median", "percentile_cont", "t_demo", "SELECT grp, percentile_cont(0.5) WITHIN GROUP (ORDER BY data)"
          " FROM t_demo GROUP BY 1"),
    Query("spread", "stddev", "t_demo", "SELECT grp, stddev(data), min(data), max(data) FROM t_demo GROUP BY 1"),
)  # fmt: skip


@contextlib.contextmanager
def unwatched(total: int) -> Iterator[Callable[[int], None]]:
    """Let a load be unwatched."""
    yield lambda done: None


def make(target: Target, seed: int) -> None:
    """Make the tables."""
    for table, groups in ((load.TABLE, 10), (MANY, ROWS // 20)):
        common.say(f"loading {ROWS:,} rows in {groups:,} groups")
        request = load.Request(ROWS, groups, table, workers=2, seed=seed)
        load.execute(target, request, observe=unwatched, say=lambda line: None)
    common.say(f"loading lineitem, {ORDERS:,} orders")
    script = Path(__file__).with_name("lineitem.sql").read_text(encoding="utf-8")
    with target.connect() as conn, search_path.restored(conn):
        conn.execute(LINEITEM.encode())

    def insert(first: int, last: int) -> None:
        with target.connect() as conn, search_path.restored(conn):
            conn.execute("SELECT setseed(%s)", [(seed + first) % 1000 / 1000])
            conn.execute(script.encode(), {"first": first, "last": last})

    half = ORDERS // 2
    together.at_once(lambda share: insert(*share), [(1, half), (half + 1, ORDERS)])
    with target.connect() as conn, search_path.restored(conn):
        # first the log to disk: pages of commits that are not there are not marked all-visible
        conn.execute("CHECKPOINT")
        conn.execute("VACUUM (FREEZE, ANALYZE) lineitem")
        conn.execute("CHECKPOINT")


def copy_to_duckdb(conn: Connection, duck: duckdb.DuckDBPyConnection, folder: Path) -> None:
    """Give DuckDB the same rows."""
    definitions = {
        "t_demo": "id integer, grp integer, data real",
        MANY: "id integer, grp integer, data real",
        "lineitem": LINEITEM[LINEITEM.index("(") + 1 : LINEITEM.rindex(")")].replace("numeric", "decimal"),
    }
    for table, columns in definitions.items():
        common.say(f"copying {table} to DuckDB")
        file = folder / f"{table}.csv"
        with file.open("wb") as output, conn.cursor().copy(f"COPY {table} TO STDOUT (FORMAT csv)".encode()) as copy:
            for data in copy:
                output.write(data)
        duck.execute(f"CREATE TABLE {table} ({columns})")
        duck.execute(f"COPY {table} FROM '{file}' (FORMAT csv, HEADER false)")
        file.unlink()
    duck.execute("CHECKPOINT")


def bandwidth() -> float:
    """Return the bytes per second one thread reads from memory, at best."""
    numbers = np.ones(common.sized(1 << 27, 1 << 27, 1 << 20), dtype=np.int64)
    best = float("inf")
    for _ in range(5):
        start = time.perf_counter()
        numbers.max()
        best = min(best, time.perf_counter() - start)
    return numbers.nbytes / best


def check(conn: Connection, duck: duckdb.DuckDBPyConnection, query: Query) -> tuple[int, bool]:
    """Compare the answers of all sides; return how many rows PostgreSQL has read, and whether ours was vectorized.

    Raises RuntimeError when they differ. It also warms everything up.
    """
    found: dict[str, Answer] = {}
    vectorized = True
    conn.execute("SET max_parallel_workers_per_gather = 0")
    conn.execute("SELECT set_config('work_mem', %s, false)", [query.work_mem])
    for side in (POSTGRESQL, OURS):
        plans.switch(conn, side == OURS)
        found[side] = answers.answer(conn.execute(query.sql.encode()))
    differs = answers.difference(found[POSTGRESQL], found[OURS])
    if differs is not None:
        raise RuntimeError(f"{query.key}: {differs}")
    vectorized = plans.vectorized(plans.explain(conn, query.sql))
    plans.switch(conn, False)
    read = plans.rows_read(plans.explain(conn, query.sql, run=True))
    theirs = sorted(tuple(str(value).strip() for value in row) for row in duck.execute(query.duck).fetchall())
    ours = sorted(tuple((value or b"").decode().strip() for value in row) for row in found[POSTGRESQL].rows)
    if len(theirs) != len(ours) or not all(_alike(*row) for row in zip(theirs, ours, strict=True)):
        raise RuntimeError(f"{query.key}: DuckDB has {theirs[:3]}, PostgreSQL {ours[:3]}")
    return read, vectorized


def _alike(one: tuple[str, ...], two: tuple[str, ...]) -> bool:
    """Equal but for the precision of floats: DuckDB sums real in double precision."""
    for left, right in zip(one, two, strict=True):
        try:
            if abs(float(left) - float(right)) > 1e-2 * abs(float(right)):
                return False
        except ValueError:
            if left != right:
                return False
    return True


def measure(conn: Connection, duck: duckdb.DuckDBPyConnection, query: Query, side: str, processes: int) -> float:
    """Return the seconds a query takes by one side."""
    if side == DUCK:
        duck.execute(f"SET threads = {processes}")
        start = time.perf_counter()
        duck.execute(query.duck).fetchall()
        return time.perf_counter() - start
    plans.switch(conn, side == OURS)
    conn.execute(f"SET max_parallel_workers_per_gather = {processes - 1}".encode())
    conn.execute("SELECT set_config('work_mem', %s, false)", [query.work_mem])
    start = time.perf_counter()
    conn.execute(query.sql.encode())
    return time.perf_counter() - start


def gain(times: Times) -> float:
    """Return how many times as fast two of our processes are as one, with a million groups."""
    one, two = (statistics.median(times["million_groups", OURS, processes]) for processes in (1, 2))
    return one / two


def measure_gain(conn: Connection, duck: duckdb.DuckDBPyConnection, times: Times) -> bool:
    """Measure it again if it is too little, and return whether it was.

    Nothing comes between: other queries leave memory in a state from which the machine takes time to recover.
    """
    if gain(times) >= LEAST_GAIN:
        return False
    query = next(query for query in QUERIES if query.key == "million_groups")
    found: Times = defaultdict(list)
    for number in range(AGAIN):
        for processes in (1, 2) if number % 2 else (2, 1):
            found[query.key, OURS, processes].append(measure(conn, duck, query, OURS, processes))
    common.say(
        f"a million groups, two processes over one: {gain(times):.2f}, {gain(found):.2f} in {AGAIN} alternations"
    )
    times.update(found)
    return True


def main() -> int:
    """Run the benchmark and return the exit status."""
    seed, order = common.seeded()
    times: Times = defaultdict(list)
    read: dict[str, int] = {}
    vectorized: dict[str, bool] = {}
    with common.own_server() as (cluster, folder):
        target = common.database(cluster, "bench")
        make(target, seed)
        duckdb_file = duckdb.connect(folder / "duck.db")
        with aggregate.session(target) as conn, search_path.restored(conn), contextlib.closing(duckdb_file) as duck:
            conditions = common.conditions(cluster)
            for name, value in SESSION.items():
                conn.execute("SELECT set_config(%s, %s, false)", [name, value])
            sizes: dict[str, int] = {}
            for table in (load.TABLE, MANY, "lineitem"):
                row = conn.execute("SELECT pg_table_size(%s::regclass)", [table]).fetchone()
                sizes[table] = row[0] if row else 0
            copy_to_duckdb(conn, duck, folder)
            for query in (*QUERIES, *OTHERS):
                read[query.key], vectorized[query.key] = check(conn, duck, query)
                common.say(f"{query.key}: the answers agree{'' if vectorized[query.key] else ', but not vectorized'}")
            for number in range(ROUNDS):
                contestants = [
                    (query, side, processes)
                    for query in (*QUERIES, *OTHERS)
                    for side in (POSTGRESQL, OURS, DUCK)
                    for processes in (1, 2)
                ]
                order.shuffle(contestants)
                for query, side, processes in contestants:
                    times[query.key, side, processes].append(measure(conn, duck, query, side, processes))
                common.say(f"round {number + 1} of {ROUNDS}")
            conditions["measured_again"] = measure_gain(conn, duck, times)
    memory = bandwidth()
    report(times, read, vectorized, sizes, memory, seed, conditions)
    return 0


def report(
    times: Times,
    read: dict[str, int],
    vectorized: dict[str, bool],
    sizes: dict[str, int],
    memory: float,
    seed: int,
    conditions: dict[str, Any],
) -> None:
    """Print the table and the line for programs."""
    median = {key: statistics.median(found) for key, found in times.items()}

    def ratio(key: str, processes: int = 1) -> float:
        return round(median[key, POSTGRESQL, processes] / median[key, OURS, processes], 2)

    lines = []
    for query in (*QUERIES, *OTHERS):
        for processes in (1, 2):
            ours = median[query.key, OURS, processes]
            cells = [f"{median[query.key, side, processes] * 1000:,.1f}" for side in (POSTGRESQL, OURS, DUCK)]
            lines.append(
                [
                    f"{query.title}, {processes}" + ("" if vectorized[query.key] else " (PostgreSQL's plan)"),
                    *cells,
                    f"{ratio(query.key, processes):.1f}",
                    f"{read[query.key] / ours / 1e6:,.0f} M",
                    f"{sizes[query.table] / ours / 1e9:.1f} GB/s",
                    f"{sizes[query.table] / ours / memory:.0%}",
                ]
            )
    common.table(
        f"{ROWS:,} rows, medians of {ROUNDS}, ms; memory reads {memory / 1e9:.1f} GB/s a thread",
        ("query, processes", POSTGRESQL, OURS, DUCK, "PostgreSQL/ours", "rows/s", "heap read", "of memory"),
        lines,
    )
    ratios = {query.key: {"serial": ratio(query.key), "parallel": ratio(query.key, 2)} for query in (*QUERIES, *OTHERS)}
    common.result(
        {
            "benchmark": "rows",
            "ratio_count_serial": ratio("count"),
            "ratio_count_parallel": ratio("count", 2),
            **{f"ratio_{query.key}": ratio(query.key) for query in QUERIES[1:]},
            "ratio_million_groups_two": round(gain(times), 2),
            "ratio_lowest": min(value for pair in ratios.values() for value in pair.values()),
            "rows_per_s_per_cpu_core": round(read["count"] / median["count", OURS, 1]),
            "rows_per_s_two_processes": round(read["count"] / median["count", OURS, 2]),
            "duckdb_over_ours_count": round(median["count", OURS, 1] / median["count", DUCK, 1], 2),
            "bytes_per_s_per_cpu_core": round(sizes[load.TABLE] / median["count", OURS, 1]),
            "memory_bytes_per_s": round(memory),
            "ratios": ratios,
            "vectorized": vectorized,
            "milliseconds": {
                f"{key}, {side}, {processes}": common.spread([seconds * 1000 for seconds in found])
                for (key, side, processes), found in times.items()
            },
            "rows": ROWS,
            "rounds": ROUNDS,
            "session": SESSION,
            "duckdb": duckdb.__version__,
            "quick": common.QUICK,
            "seed": seed,
            **conditions,
        }
    )


if __name__ == "__main__":
    common.run(main)

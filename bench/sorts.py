"""Sorts and window functions compared with PostgreSQL's own.

20 million rows of an integer by chance and two more columns are sorted, in memory and in files; 2 million of them,
which PostgreSQL reads, are grouped by the integer; and ten queries with window functions run over 2 million rows. The
sorted rows are counted by the server, so that nothing is sent. Answers are compared once; then both sides run
alternating, in an order by chance, by one process; medians count. QUICK=1 is a tenth of the rows; SEED=… repeats data
and order, ROWS=… is another number of rows, PG_CONFIG=… another PostgreSQL.
"""

from __future__ import annotations

import math
import os
import random
import statistics
import time
from collections import defaultdict
from typing import Any, NamedTuple

import common
from pgbillion.common.connection import Connection
from pgbillion.rows import plans

ROWS = int(os.environ.get("ROWS") or common.sized(20_000_000, 2_000_000, 20_000))
ROUNDS = common.sized(5, 3, 1)
POSTGRESQL, OURS = "PostgreSQL", "pgbillion"
SIDES = (POSTGRESQL, OURS)
TABLES = """
SELECT setseed({seed});
CREATE TABLE numbers AS SELECT (random() * 2e9)::integer AS k, i AS a, i % 1000 AS b FROM generate_series(1, {rows}) i;
CREATE TABLE sales AS
SELECT (random() * 100)::integer AS store, (random() * 18000)::integer AS item, 'category ' || i % 10 AS category,
    date '2020-01-01' + (random() * 1800)::integer AS day, (random() * 1000)::integer AS quantity,
    (random() * 300)::numeric(7, 2) AS price FROM generate_series(1, {rows} / 10) i;
"""


class Query(NamedTuple):
    """A query, and how much memory it may take."""

    name: str
    text: str
    memory: str = "4GB"


def counted(functions: str) -> str:
    """A query that computes window functions over all sales, and counts the results."""
    results = functions.split(";")
    columns = ", ".join(f"{text} AS r{number}" for number, text in enumerate(results))
    counts = ", ".join(f"count(r{number})" for number in range(len(results)))
    return f"SELECT {counts} FROM (SELECT {columns} FROM sales OFFSET 0) s"


# all three columns are counted, because PostgreSQL sorts none that the query above does not need
SORT = "SELECT count(k), count(a), count(b) FROM (SELECT k, a, b FROM numbers ORDER BY k) y"
SORTS = (
    Query("20 M integers and two more columns", SORT),
    Query("the same in files", SORT, "64MB"),
)
# nearly each row is a group of its own
GROUPS = Query(
    "as many groups as rows, a tenth of these",
    f"SELECT count(s) FROM (SELECT k, sum(a) AS s FROM (SELECT k, a FROM numbers WHERE a <= {ROWS // 10} OFFSET 0) n"
    " GROUP BY k OFFSET 0) g",
)
BY_DAY = "PARTITION BY item ORDER BY day"
BY_QUANTITY = "(PARTITION BY store ORDER BY quantity)"
WINDOWS = tuple(
    Query(name, text if text.startswith("SELECT") else counted(text))
    for name, text in (
        ("row_number", f"row_number() OVER ({BY_DAY})"),
        ("rank and dense_rank", f"rank() OVER {BY_QUANTITY}; dense_rank() OVER {BY_QUANTITY}"),
        ("running sum", f"sum(quantity) OVER ({BY_DAY} ROWS UNBOUNDED PRECEDING)"),
        ("sum of the partition", "sum(quantity) OVER (PARTITION BY category)"),
        ("moving average", f"avg(quantity) OVER ({BY_DAY} ROWS BETWEEN 3 PRECEDING AND 3 FOLLOWING)"),
        ("lag and lead", f"lag(quantity) OVER ({BY_DAY}); lead(quantity) OVER ({BY_DAY})"),
        ("running sum of numeric", "sum(price) OVER (PARTITION BY category ORDER BY day)"),
        ("ntile and first_value", f"ntile(10) OVER {BY_QUANTITY}; first_value(item) OVER {BY_QUANTITY}"),
        ("two orders", "rank() OVER (PARTITION BY store ORDER BY quantity); count(*) OVER (PARTITION BY item)"),
        (
            "the best three of each",
            "SELECT count(*) FROM (SELECT quantity, row_number() OVER (PARTITION BY item ORDER BY quantity DESC) AS r"
            " FROM sales) s WHERE r <= 3",
        ),
    )
)  # fmt: skip
QUERIES = (*SORTS, GROUPS, *WINDOWS)


def measure(conn: Connection, query: Query, side: str) -> tuple[float, list[tuple[Any, ...]]]:
    """Return the milliseconds that a query takes, and its answer."""
    plans.switch(conn, side == OURS)
    conn.execute("SELECT set_config('work_mem', %s, false)", [query.memory])
    start = time.perf_counter()
    rows = conn.execute(query.text.encode()).fetchall()
    return (time.perf_counter() - start) * 1000, rows


def make(conn: Connection, order: random.Random) -> None:
    """Make the tables."""
    conn.execute("CREATE EXTENSION pgbillion_rows; LOAD 'pgbillion_rows'")
    conn.execute("SET jit = off; SET max_parallel_workers_per_gather = 0")
    for statement in TABLES.format(seed=round(order.random(), 6), rows=ROWS).strip().rstrip(";").split(";\n"):
        conn.execute(statement.encode())
    conn.execute("VACUUM (FREEZE, ANALYZE) numbers, sales")
    conn.execute("CHECKPOINT")


def main() -> int:
    """Make the tables, run everything on both sides, and report."""
    seed, order = common.seeded()
    times: dict[tuple[str, str], list[float]] = defaultdict(list)
    with common.own_server() as (cluster, _):
        conditions = common.conditions(cluster)
        with cluster.connect() as conn:
            common.say(f"{ROWS:,} rows to be sorted, {ROWS // 10:,} for window functions")
            conn.prepare_threshold = None
            make(conn, order)
            for query in QUERIES:
                if measure(conn, query, POSTGRESQL)[1] != measure(conn, query, OURS)[1]:
                    raise RuntimeError(f"{query.name}: {OURS} answers otherwise than {POSTGRESQL}")
            common.say("both sides answer the same")
            for number in range(ROUNDS):
                todo = [(query, side) for query in QUERIES for side in SIDES]
                order.shuffle(todo)
                for query, side in todo:
                    times[query.name, side].append(measure(conn, query, side)[0])
                common.say(f"round {number + 1} of {ROUNDS}")
    report(times, seed, conditions)
    return 0


def report(times: dict[tuple[str, str], list[float]], seed: int, conditions: dict[str, Any]) -> None:
    """Print the table and the line for programs."""
    median = {key: statistics.median(found) for key, found in times.items()}
    ratios = {query.name: median[query.name, POSTGRESQL] / median[query.name, OURS] for query in QUERIES}
    common.table(
        f"sorts of {ROWS:,} rows and window functions over {ROWS // 10:,}, ms",
        ("query", *SIDES, "ratio"),
        [[name, *(f"{median[name, side]:,.0f}" for side in SIDES), f"{ratio:.1f}"] for name, ratio in ratios.items()],
    )
    in_memory, in_files = (query.name for query in SORTS)
    common.result(
        {
            "benchmark": "sorts",
            "sort_rows_per_s": round(ROWS / median[in_memory, OURS] * 1000),
            "sort_ratio": round(ratios[in_memory], 2),
            "sort_ratio_files": round(ratios[in_files], 2),
            "group_ratio": round(ratios[GROUPS.name], 2),
            "window_ratio": round(math.exp(statistics.fmean(math.log(ratios[query.name]) for query in WINDOWS)), 2),
            "milliseconds": {f"{name}, {side}": common.spread(found) for (name, side), found in times.items()},
            "rows": ROWS,
            "rounds": ROUNDS,
            "quick": common.QUICK,
            "seed": seed,
            **conditions,
        }
    )


if __name__ == "__main__":
    common.run(main)

"""Columnar indexes compared with PostgreSQL's plans, with vectors over the heap, and with DuckDB on its own tables.

20 million rows of the source's table, as many in a million groups, TPC-H's lineitem at scale 1, 2 million hits of 106
columns (wide.py), and as many JSON documents, of which an index has two expressions, and random values, all in shared
buffers. Every query is run once to compare the answers, then by all sides in turn, in an order by chance, by one
process; medians count. Afterwards rows of t_demo are updated at random, vacuumed and encoded again, and rows are copied
into a table with an index and without. QUICK=1 is half the rows of t_demo and a fifth of the others; SEED=… repeats
data and order, ROWS=… is another number of rows, PG_CONFIG=… another PostgreSQL.
"""

from __future__ import annotations

import contextlib
import math
import os
import random
import statistics
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb

import common
import rows
import wide
from pgbillion.common import search_path
from pgbillion.common.connection import Connection
from pgbillion.common.target import Target
from pgbillion.rows import answers, load, plans
from pgbillion.server import extension

ROWS = int(os.environ.get("ROWS") or common.sized(20_000_000, 10_000_000, 20_000))
HITS = ROWS // 50 if common.QUICK else ROWS // 10
ORDERS = max(common.sized(40_000, 40_000, 1_000), 1_500_000 * ROWS // 20_000_000 // (5 if common.QUICK else 1))
COPIED = ROWS // 4
ROUNDS = common.sized(5, 3, 1)
POSTGRESQL, HEAP, COLUMNS, DUCK = "PostgreSQL", "heap vectors", "columns", "DuckDB"
SIDES = (POSTGRESQL, HEAP, COLUMNS, DUCK)
LINEITEM_COLUMNS = (
    "l_returnflag", "l_linestatus", "l_quantity", "l_extendedprice", "l_discount", "l_tax", "l_shipdate",
)  # fmt: skip
INDEXED = {
    load.TABLE: ("grp", "data"),
    rows.MANY: ("grp", "data"),
    "lineitem": LINEITEM_COLUMNS,
    wide.TABLE: tuple(name for name, _, _ in wide.USED),
}
NARROW = {query.key: query for query in rows.QUERIES if query.key != "million_groups_in_order"}
ROLLUPS = {
    key: rows.Query(key, "grouping sets", "lineitem", sql)
    for key, sql in {
        "rollup": "SELECT l_returnflag, l_linestatus, l_shipdate, sum(l_quantity), avg(l_extendedprice), count(*)"
        " FROM lineitem GROUP BY ROLLUP (l_returnflag, l_linestatus, l_shipdate)",
        "cube": "SELECT l_returnflag, l_linestatus, l_tax, sum(l_extendedprice), count(*) FROM lineitem"
        " WHERE l_discount < 0.05 GROUP BY CUBE (l_returnflag, l_linestatus, l_tax)",
        "grouping_sets": "SELECT l_shipdate, l_discount, sum(l_extendedprice * (1 - l_discount)), max(l_quantity)"
        " FROM lineitem GROUP BY GROUPING SETS ((l_shipdate), (l_discount), ())",
    }.items()
}
WIDE = {
    f"{kind}_{number}": rows.Query(f"{kind}_{number}", kind, wide.TABLE, sql)
    for kind, found in wide.QUERIES.items()
    for number, sql in enumerate(found, 1)
}
# queries that return rows: one user's, and the first of an order
FOUND = {
    key: rows.Query(key, "rows", wide.TABLE, sql)
    for key, sql in {
        "point": "SELECT user_id FROM hits WHERE user_id = 237570000",
        "point_wide": "SELECT * FROM hits WHERE user_id = 237570000",
        "top_rows": "SELECT search_phrase FROM hits WHERE search_phrase <> '' ORDER BY event_time LIMIT 10",
        "top_rows_last": "SELECT * FROM hits WHERE search_phrase <> '' ORDER BY event_time DESC LIMIT 10",
    }.items()
}
QUERIES = {**NARROW, **ROLLUPS, **WIDE, **FOUND}
# aggregates over two expressions of JSON documents, for which there is no DuckDB: its JSON is text
DOCUMENT = """jsonb_build_object('id', g, 'kind', 'kind ' || g % 10, 'price', round((g % 100000) / 100.0, 2),
    'user', jsonb_build_object('name', 'user ' || g % 1000, 'mail', 'user' || g % 1000 || '@example.org'),
    'tags', jsonb_build_array('a', 'b', g % 7))"""
JSON_COLUMNS = "(document ->> 'kind'), ((document ->> 'price')::numeric)"
JSON = """SELECT document ->> 'kind', count(*), sum((document ->> 'price')::numeric),
    avg((document ->> 'price')::numeric) FROM documents WHERE (document ->> 'price')::numeric < 900 GROUP BY 1"""
# of values that are in no order, and all different: how one is made of a number
RANDOM = {
    "bigint": "('x' || substr(md5({0}), 1, 16))::bit(64)::bigint",
    "text": "md5({0})",
    "uuid": "md5({0})::uuid",
}


def make(target: Target, seed: int) -> None:
    """Make the tables, vacuumed."""
    for table, groups in ((load.TABLE, 10), (rows.MANY, ROWS // 20)):
        common.say(f"loading {ROWS:,} rows in {groups:,} groups")
        request = load.Request(ROWS, groups, table, workers=2, seed=seed)
        load.execute(target, request, observe=rows.unwatched, say=lambda line: None)
    script = (Path(__file__).with_name("lineitem.sql")).read_text(encoding="utf-8")
    with target.connect() as conn, search_path.restored(conn):
        conn.execute("SELECT setseed(%s)", [seed % 1000 / 1000])
        common.say(f"loading lineitem, {ORDERS:,} orders")
        conn.execute(rows.LINEITEM.encode())
        conn.execute(script.encode(), {"first": 1, "last": ORDERS})
        common.say(f"loading {HITS:,} hits")
        columns = ", ".join(f"{name} {kind}" for name, kind, _ in wide.COLUMNS)
        values = ", ".join(f"{value} AS {name}" for name, _, value in wide.COLUMNS)
        conn.execute(f"CREATE TABLE hits ({columns})".encode())
        conn.execute(f"INSERT INTO hits SELECT {values} FROM generate_series(1, {HITS}) g".encode())
        # pages of commits whose log is not on disk are not marked all-visible; ANALYZE is one that may share its fate
        conn.execute("CHECKPOINT")
        conn.execute("SET synchronous_commit = local")
        conn.execute("VACUUM (FREEZE, ANALYZE) lineitem, hits")
        conn.execute("CHECKPOINT")
        unmarked = conn.execute(
            "SELECT relname FROM pg_class WHERE relname IN ('lineitem', 'hits') AND relallvisible < relpages"
        ).fetchall()
        if unmarked:
            raise RuntimeError(f"VACUUM has not marked all pages of {unmarked}")


def copy_to_duckdb(conn: Connection, duck: duckdb.DuckDBPyConnection, folder: Path) -> None:
    """Give DuckDB the same rows."""
    definitions = {
        load.TABLE: "id integer, grp integer, data real",
        rows.MANY: "id integer, grp integer, data real",
        "lineitem": rows.LINEITEM[rows.LINEITEM.index("(") + 1 : rows.LINEITEM.rindex(")")].replace(
            "numeric", "decimal"
        ),
        wide.TABLE: ", ".join(f"{name} {kind}" for name, kind, _ in wide.COLUMNS).replace("numeric", "decimal"),
    }
    for table, columns in definitions.items():
        common.say(f"copying {table} to DuckDB")
        file = folder / f"{table}.csv"
        with file.open("wb") as output, conn.cursor().copy(f"COPY {table} TO STDOUT (FORMAT csv)".encode()) as copy:
            for data in copy:
                output.write(data)
        duck.execute(f"CREATE TABLE {table} ({columns})")
        # an empty string is quoted, and no NULL
        duck.execute(f"COPY {table} FROM '{file}' (FORMAT csv, HEADER false, ALLOW_QUOTED_NULLS false)")
        file.unlink()
    duck.execute("CHECKPOINT")


def index(conn: Connection, table: str) -> float:
    """Make the table's index, and return the seconds it took."""
    start = time.perf_counter()
    conn.execute(f"CREATE INDEX {table}_columns ON {table} USING columns ({', '.join(INDEXED[table])})".encode())
    return time.perf_counter() - start


def switch(conn: Connection, side: str) -> None:
    """Have queries be run by a side's means."""
    plans.switch(conn, side != POSTGRESQL)
    conn.execute("SELECT set_config('pgbillion_rows.columns', %s, false)", ["on" if side == COLUMNS else "off"])


def measure(conn: Connection, duck: duckdb.DuckDBPyConnection, query: rows.Query, side: str) -> float:
    """Return the seconds a query takes by one side."""
    if side == DUCK:
        start = time.perf_counter()
        duck.execute(query.duck).fetchall()
        return time.perf_counter() - start
    switch(conn, side)
    start = time.perf_counter()
    conn.execute(query.sql.encode())
    return time.perf_counter() - start


def check(conn: Connection, duck: duckdb.DuckDBPyConnection, query: rows.Query) -> bool:
    """Compare the answers of all sides; return whether the index is read. Raises RuntimeError when they differ."""
    found = {}
    for side in (POSTGRESQL, HEAP, COLUMNS):
        switch(conn, side)
        found[side] = answers.answer(conn.execute(query.sql.encode()))
    for side in (HEAP, COLUMNS):
        differs = answers.difference(found[POSTGRESQL], found[side])
        if differs is not None:
            raise RuntimeError(f"{query.key}, {side}: {differs}")
    theirs = duck.execute(query.duck).fetchall()
    if len(theirs) != len(found[POSTGRESQL].rows):
        raise RuntimeError(f"{query.key}: DuckDB has {len(theirs)} rows, PostgreSQL {len(found[POSTGRESQL].rows)}")
    return any("Columns" in node for node in plans.nodes(plans.explain(conn, query.sql)))


def geometric(values: Sequence[float]) -> float:
    """Return the geometric mean."""
    return math.exp(statistics.fmean(map(math.log, values)))


def turns(
    conn: Connection, duck: duckdb.DuckDBPyConnection, order: random.Random
) -> dict[tuple[str, str], list[float]]:
    """Measure every query by every side, in turn."""
    times: dict[tuple[str, str], list[float]] = defaultdict(list)
    for number in range(ROUNDS):
        contestants = [(query, side) for query in QUERIES.values() for side in SIDES]
        order.shuffle(contestants)
        for query, side in contestants:
            times[query.key, side].append(measure(conn, duck, query, side))
        common.say(f"round {number + 1} of {ROUNDS}")
    return times


def pair(conn: Connection, duck: duckdb.DuckDBPyConnection) -> dict[str, float]:
    """Return the median seconds of the source's query by heap vectors and by columns, in turn."""
    found: dict[str, list[float]] = {HEAP: [], COLUMNS: []}
    for side in found:
        measure(conn, duck, NARROW["count"], side)
    for _ in range(2 * ROUNDS + 1):
        for side, times in found.items():
            times.append(measure(conn, duck, NARROW["count"], side))
    return {side: statistics.median(times) for side, times in found.items()}


def updates(conn: Connection, duck: duckdb.DuckDBPyConnection) -> dict[str, float]:
    """Update rows at random, and see what is left of the speed; then vacuum and encode again."""
    before = pair(conn, duck)
    results: dict[str, float] = {}
    for key, share in (("ratio_updated", 0.001), ("ratio_updated_much", 0.009)):
        common.say(f"updating {share:.1%} of the rows")
        conn.execute(f"UPDATE t_demo SET data = data + 1 WHERE random() < {share}".encode())
        now = pair(conn, duck)
        results[key] = now[HEAP] / now[COLUMNS]
    common.say("vacuuming, and encoding again")
    conn.execute("CHECKPOINT")
    conn.execute("VACUUM t_demo")
    conn.execute("CALL pgbillion_rows.columns_refresh('t_demo')")
    results["ratio_recovered"] = before[COLUMNS] / pair(conn, duck)[COLUMNS]
    return results


def copy_cost(conn: Connection) -> float:
    """Return how many times as long COPY takes into a table with a columnar index."""
    best: dict[str, list[float]] = {"without": [], "with": []}
    conn.execute(f"CREATE TABLE source AS SELECT * FROM t_demo LIMIT {COPIED}".encode())
    with conn.cursor().copy("COPY source TO STDOUT (FORMAT binary)") as copy:
        data = b"".join(bytes(part) for part in copy)
    for _ in range(ROUNDS):
        for side, times in best.items():
            conn.execute("DROP TABLE IF EXISTS copied; CREATE TABLE copied (LIKE t_demo)")
            if side == "with":
                conn.execute("CREATE INDEX ON copied USING columns (grp, data)")
            conn.execute("CHECKPOINT")
            start = time.perf_counter()
            with conn.cursor().copy("COPY copied FROM STDIN (FORMAT binary)") as into:
                into.write(data)
            times.append(time.perf_counter() - start)
    return statistics.median(best["with"]) / statistics.median(best["without"])


def json_documents(conn: Connection) -> dict[str, float]:
    """Return how many times as long aggregates over expressions of JSON documents take without an index of these."""
    common.say(f"loading {HITS:,} JSON documents")
    conn.execute("CREATE TABLE documents (id int, document jsonb)")
    conn.execute(f"INSERT INTO documents SELECT g, {DOCUMENT} FROM generate_series(1, {HITS}) g".encode())
    conn.execute("CHECKPOINT")
    conn.execute("SET synchronous_commit = local")
    conn.execute("VACUUM (FREEZE, ANALYZE) documents")
    conn.execute(f"CREATE INDEX documents_columns ON documents USING columns ({JSON_COLUMNS})".encode())
    conn.execute("ANALYZE documents")
    times: dict[str, list[float]] = {side: [] for side in (POSTGRESQL, HEAP, COLUMNS)}
    found = {}
    for number in range(ROUNDS + 1):
        for side in times:
            switch(conn, side)
            start = time.perf_counter()
            found[side] = answers.answer(conn.execute(JSON.encode()))
            # the first time, the answers are compared
            if number > 0:
                times[side].append(time.perf_counter() - start)
    for side in (HEAP, COLUMNS):
        differs = answers.difference(found[POSTGRESQL], found[side])
        if differs is not None:
            raise RuntimeError(f"JSON documents, {side}: {differs}")
    switch(conn, COLUMNS)
    if not any("Columns" in node for node in plans.nodes(plans.explain(conn, JSON))):
        raise RuntimeError("the index of the JSON documents is not read")
    median = {side: statistics.median(found) for side, found in times.items()}
    common.table(
        f"two expressions of {HITS:,} JSON documents, one process, medians of {ROUNDS}, ms",
        tuple(times),
        [[f"{median[side] * 1000:,.1f}" for side in times]],
    )
    return {"json_ratio": median[POSTGRESQL] / median[COLUMNS], "json_heap_ratio": median[HEAP] / median[COLUMNS]}


def random_points(conn: Connection, order: random.Random) -> dict[str, float]:
    """Return how many times as long it takes to find one of many random values without an index of theirs."""
    common.say(f"loading {HITS:,} random values")
    columns = ", ".join(f"in_{kind} {kind}" for kind in RANDOM)
    values = ", ".join(value.format("g::text") for value in RANDOM.values())
    conn.execute(f"CREATE TABLE points ({columns})".encode())
    conn.execute(f"INSERT INTO points SELECT {values} FROM generate_series(1, {HITS}) g".encode())
    conn.execute("CHECKPOINT")
    conn.execute("SET synchronous_commit = local")
    conn.execute("VACUUM (FREEZE, ANALYZE) points")
    conn.execute(
        f"CREATE INDEX points_columns ON points USING columns ({', '.join(f'in_{kind}' for kind in RANDOM)})".encode()
    )
    times: dict[tuple[str, str], list[float]] = defaultdict(list)
    sides = (POSTGRESQL, HEAP, COLUMNS)
    for number in range(3 * ROUNDS + 1):
        for kind, value in RANDOM.items():
            sought = value.format(f"'{order.randint(1, HITS)}'")
            row = conn.execute(f"SELECT ({sought})::text".encode()).fetchone()
            assert row is not None
            query = f"SELECT in_{kind} FROM points WHERE in_{kind} = '{row[0]}'"
            for side in sides:
                switch(conn, side)
                start = time.perf_counter()
                found = conn.execute(query.encode()).fetchall()
                if number > 0:
                    times[kind, side].append(time.perf_counter() - start)
                if len(found) != 1:
                    raise RuntimeError(f"{side} finds {len(found)} rows: {query}")
    median = {key: statistics.median(found) for key, found in times.items()}
    common.table(
        f"one of {HITS:,} random values, one process, medians of {3 * ROUNDS}, ms",
        ("type", *sides),
        [[kind, *(f"{median[kind, side] * 1000:,.2f}" for side in sides)] for kind in RANDOM],
    )
    return {f"point_random_{kind}": median[kind, POSTGRESQL] / median[kind, COLUMNS] for kind in RANDOM}


def main() -> int:
    """Run the benchmark and return the exit status."""
    seed, order = common.seeded()
    with common.own_server() as (cluster, folder):
        target = common.database(cluster, "bench")
        make(target, seed)
        with target.connect() as conn, search_path.restored(conn):
            extension.ensure_extension(conn, extension.ROWS)
            # what is prepared keeps the plan of whichever side comes then
            conn.prepare_threshold = None
            duck = duckdb.connect(folder / "duck.db")
            with contextlib.closing(duck):
                conditions = common.conditions(cluster)
                for name, value in {**rows.SESSION, "work_mem": "256MB", "maintenance_work_mem": "256MB"}.items():
                    conn.execute("SELECT set_config(%s, %s, false)", [name, value])
                built = {table: index(conn, table) for table in INDEXED}
                share = conn.execute(
                    "SELECT pg_relation_size('t_demo_columns')::float8 / pg_relation_size('t_demo')"
                ).fetchone()
                copy_to_duckdb(conn, duck, folder)
                duck.execute("SET threads = 1")
                read = {key: check(conn, duck, query) for key, query in QUERIES.items()}
                common.say("the answers agree")
                times = turns(conn, duck, order)
                changed = updates(conn, duck)
                cost = copy_cost(conn)
                changed.update(json_documents(conn))
                changed.update(random_points(conn, order))
    report(times, read, changed, built, share[0] if share else 0.0, cost, seed, conditions)
    return 0


def report(
    times: dict[tuple[str, str], list[float]],
    read: dict[str, bool],
    changed: dict[str, float],
    built: dict[str, float],
    share: float,
    cost: float,
    seed: int,
    conditions: dict[str, Any],
) -> None:
    """Print the table and the line for programs."""
    median = {key: statistics.median(found) for key, found in times.items()}

    def ratio(key: str, side: str = POSTGRESQL) -> float:
        return median[key, side] / median[key, COLUMNS]

    lines = [
        [
            key + ("" if read[key] else " (heap)"),
            *(f"{median[key, side] * 1000:,.1f}" for side in SIDES),
            *(f"{ratio(key, side):.1f}" for side in (POSTGRESQL, HEAP, DUCK)),
        ]
        for key in QUERIES
    ]
    common.table(
        f"{ROWS:,} rows, {HITS:,} hits, one process, medians of {ROUNDS}, ms",
        ("query", *SIDES, "PostgreSQL/columns", "heap/columns", "DuckDB/columns"),
        lines,
    )
    over_core = {key: round(ratio(key), 2) for key in WIDE}
    common.result(
        {
            "benchmark": "columns",
            **{f"rows_per_s_{key}": round(ROWS / median[key, COLUMNS]) for key in ("count", "sum", "filter")},
            "ratio_duckdb_count": round(ratio("count", DUCK), 2),
            "ratio_q1": round(ratio("tpch_q1"), 2),
            "ratio_q6": round(ratio("tpch_q6"), 2),
            "million_groups_columns": round(ROWS / median["million_groups", COLUMNS]),
            "rollup_ratio": round(geometric([ratio(key) for key in ROLLUPS]), 2),
            "rollup_lowest": round(min(ratio(key) for key in ROLLUPS), 2),
            "ratio_wide": round(geometric(list(over_core.values())), 2),
            "ratio_wide_lowest": min(over_core.values()),
            "point_ms_ratio": round(ratio("point"), 2),
            "top_rows_ratio": round(ratio("top_rows"), 2),
            "found": {key: round(ratio(key), 2) for key in FOUND},
            "wide_duckdb": round(geometric([ratio(key, DUCK) for key in WIDE]), 2),
            **{key: round(value, 2) for key, value in changed.items()},
            "index_bytes_share": round(share, 3),
            "build_rows_per_s": round(ROWS / built[load.TABLE]),
            "copy_cost": round(cost, 3),
            "wide": over_core,
            "index_read": read,
            "milliseconds": {
                f"{key}, {side}": common.spread([seconds * 1000 for seconds in found])
                for (key, side), found in times.items()
            },
            "rows": ROWS,
            "hits": HITS,
            "rounds": ROUNDS,
            "session": rows.SESSION,
            "duckdb": duckdb.__version__,
            "quick": common.QUICK,
            "seed": seed,
            **conditions,
        }
    )


if __name__ == "__main__":
    common.run(main)

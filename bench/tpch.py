"""The 22 queries of TPC-H by PostgreSQL's own plans, by ours over the heap, by ours over columnar indexes, by DuckDB.

Derived from TPC-H: the results are not comparable with published results of TPC-H, as they do not comply with its
specification. Queries and data are those of DuckDB's extension for TPC-H, scale 1; primary keys, indexes on foreign
keys, and a columnar index on each table of more than a few pages, which only the side `columns` reads. One process, and
two; DuckDB with one thread, on its own copy. Answers of all sides are compared in full. QUICK=1 is scale 0.2, SCALE=…
another one; SEED=… repeats the order, ROUNDS=… is how often, CLOCK=cpu counts CPU time, QUERIES=q5,q6 are only these,
PG_CONFIG=… another PostgreSQL. CHECK=1 measures nothing: it compares the answers with vectors and their joins forced,
with much and with little memory.
"""

from __future__ import annotations

import os
import re
import statistics
from pathlib import Path

import common
import contest
import duck
from contest import POSTGRESQL, Query, Result, Side
from duck import Duck
from pgbillion.common import search_path
from pgbillion.common.connection import Connection
from pgbillion.rows import aggregate
from pgbillion.server import extension

SCALE = float(os.environ.get("SCALE") or common.sized(1, 0.2, 0.01))
SETTING = "pgbillion_rows.columns"
OURS = Side(contest.OURS.name, {**contest.OURS.settings, SETTING: "off"})
COLUMNS = Side("columns", {**contest.OURS.settings, SETTING: "on"})
SIDES = (POSTGRESQL, OURS, COLUMNS)
LEAST_PAGES = 32  # a smaller table would have no segment of a columnar index
CHECK = bool(os.environ.get("CHECK"))
BOUNDS = {"q5": 1.5}
ONLY = os.environ.get("QUERIES", "").split(",") if os.environ.get("QUERIES") else None

TABLES = {
    "region": "r_regionkey integer PRIMARY KEY, r_name char(25) NOT NULL, r_comment varchar(152) NOT NULL",
    "nation": "n_nationkey integer PRIMARY KEY, n_name char(25) NOT NULL, n_regionkey integer NOT NULL,"
    " n_comment varchar(152) NOT NULL",
    "supplier": "s_suppkey integer PRIMARY KEY, s_name char(25) NOT NULL, s_address varchar(40) NOT NULL,"
    " s_nationkey integer NOT NULL, s_phone char(15) NOT NULL, s_acctbal numeric(15,2) NOT NULL,"
    " s_comment varchar(101) NOT NULL",
    "customer": "c_custkey integer PRIMARY KEY, c_name varchar(25) NOT NULL, c_address varchar(40) NOT NULL,"
    " c_nationkey integer NOT NULL, c_phone char(15) NOT NULL, c_acctbal numeric(15,2) NOT NULL,"
    " c_mktsegment char(10) NOT NULL, c_comment varchar(117) NOT NULL",
    "part": "p_partkey integer PRIMARY KEY, p_name varchar(55) NOT NULL, p_mfgr char(25) NOT NULL,"
    " p_brand char(10) NOT NULL, p_type varchar(25) NOT NULL, p_size integer NOT NULL, p_container char(10) NOT NULL,"
    " p_retailprice numeric(15,2) NOT NULL, p_comment varchar(23) NOT NULL",
    "partsupp": "ps_partkey integer NOT NULL, ps_suppkey integer NOT NULL, ps_availqty integer NOT NULL,"
    " ps_supplycost numeric(15,2) NOT NULL, ps_comment varchar(199) NOT NULL, PRIMARY KEY (ps_partkey, ps_suppkey)",
    "orders": "o_orderkey bigint PRIMARY KEY, o_custkey integer NOT NULL, o_orderstatus char(1) NOT NULL,"
    " o_totalprice numeric(15,2) NOT NULL, o_orderdate date NOT NULL, o_orderpriority char(15) NOT NULL,"
    " o_clerk char(15) NOT NULL, o_shippriority integer NOT NULL, o_comment varchar(79) NOT NULL",
    "lineitem": "l_orderkey bigint NOT NULL, l_partkey integer NOT NULL, l_suppkey integer NOT NULL,"
    " l_linenumber integer NOT NULL, l_quantity numeric(15,2) NOT NULL, l_extendedprice numeric(15,2) NOT NULL,"
    " l_discount numeric(15,2) NOT NULL, l_tax numeric(15,2) NOT NULL, l_returnflag char(1) NOT NULL,"
    " l_linestatus char(1) NOT NULL, l_shipdate date NOT NULL, l_commitdate date NOT NULL,"
    " l_receiptdate date NOT NULL, l_shipinstruct char(25) NOT NULL, l_shipmode char(10) NOT NULL,"
    " l_comment varchar(44) NOT NULL, PRIMARY KEY (l_orderkey, l_linenumber)",
}
# the first columns of primary keys have an index
FOREIGN_KEYS = {
    "nation": ("n_regionkey",),
    "supplier": ("s_nationkey",),
    "customer": ("c_nationkey",),
    "partsupp": ("ps_suppkey",),
    "orders": ("o_custkey",),
    "lineitem": ("l_partkey, l_suppkey", "l_suppkey"),
}
# tables as CSV; tells the queries
GENERATE = """
import json, pathlib, sys, time
import duckdb, duckdb_extension_tpch
scale, folder, tables = sys.argv[1], sys.argv[2], sys.argv[3:]
(file,) = pathlib.Path(duckdb_extension_tpch.__file__).parent.rglob("tpch.duckdb_extension")
db = duckdb.connect(f"{folder}/duck.db")
db.execute("SET enable_progress_bar = false")
db.execute("SET threads = 1")
db.execute(f"LOAD '{file}'")
db.execute(f"CALL dbgen(sf={scale})")
for table in tables:
    db.execute(f"COPY {table} TO '{folder}/{table}.csv' (FORMAT csv, HEADER false)")
queries = dict(db.execute("SELECT query_nr, query FROM tpch_queries() ORDER BY 1").fetchall())
first = {"queries": queries}
"""


def load(conn: Connection, folder: Path, generated: Duck) -> None:
    """Load the tables, with their indexes, statistics and visibility map."""
    words = set(re.findall(r"\w+", " ".join(generated.first["queries"].values()).lower()))
    for table, columns in TABLES.items():
        common.say(f"loading {table}")
        conn.execute(f"CREATE TABLE {table} ({columns})".encode())
        file = folder / f"{table}.csv"
        with file.open("rb") as data, conn.cursor().copy(f"COPY {table} FROM STDIN (FORMAT csv)".encode()) as copy:
            while block := data.read(1 << 20):
                copy.write(block)
        file.unlink()
    for table, keys in FOREIGN_KEYS.items():
        for key in keys:
            conn.execute(f"CREATE INDEX ON {table} ({key})".encode())
    for table, columns in TABLES.items():
        used = [name for name in re.findall(r"\b[a-z]+_[a-z]+\b", columns) if name in words]
        pages = conn.execute("SELECT pg_relation_size(%s::regclass) / 8192", [table]).fetchone()
        assert pages is not None
        if pages[0] >= LEAST_PAGES:
            named = ", ".join(dict.fromkeys(used))
            conn.execute(f"CREATE INDEX {table}_columns ON {table} USING columns ({named})".encode())
    # first the log to disk: pages of commits that are not there are not marked all-visible
    conn.execute("CHECKPOINT")
    conn.execute(f"VACUUM (FREEZE, ANALYZE) {', '.join(TABLES)}".encode())
    # the second one encodes what the first one found all-visible
    conn.execute(f"VACUUM {', '.join(TABLES)}".encode())
    conn.execute("CHECKPOINT")


def check_forced(conn: Connection, query: Query, theirs: list[duck.Row]) -> None:
    """Compare the answers with whatever vectors can do, and tell how many plans have joins of theirs."""
    switches = ("vector_join", "vector_aggregate", "vector_scan")
    sides = [POSTGRESQL]
    for memory in ("256MB", "1MB"):
        forced = {f"pgbillion_rows.{switch}": "force" for switch in switches}
        sides.append(Side(f"forced, {memory}", {**OURS.settings, **forced, "work_mem": memory}))
    joins = 0
    for processes in (1, 2):
        result, answer = contest.check(conn, query, sides, processes)
        duck.compare(query.key, answer, theirs)
        joins += sum(" Join 1: " in plan for plan in result.plans.values())
    common.say(f"{query.key}: the answers agree; {joins} of 4 plans with vectorized joins")


def main() -> int:
    """Run the benchmark and return the exit status."""
    seed, order = common.seeded()
    results: list[Result] = []
    duckdb: dict[str, list[float]] = {}
    common.say(f"generating scale {SCALE:g}")
    with (
        common.own_server() as (cluster, folder),
        duck.start(GENERATE, f"{SCALE:g}", str(folder), *TABLES) as generated,
    ):
        target = common.database(cluster, "bench")
        with target.connect() as conn, search_path.restored(conn):
            extension.ensure_extension(conn, extension.ROWS)
            load(conn, folder, generated)
        with aggregate.session(target) as conn, search_path.restored(conn):
            conditions = common.conditions(cluster)
            contest.configure(conn, contest.SESSION)
            for number, text in generated.first["queries"].items():
                key = f"q{number}"
                if ONLY is not None and key not in ONLY:
                    continue
                query = Query(key, text.strip().rstrip(";"), BOUNDS.get(key, contest.LOWEST))
                _, rows = generated.run(int(number))
                if CHECK:
                    check_forced(conn, query, rows)
                    continue
                for processes in (1, 2) if contest.CLOCK == "wall" else (1,):
                    result, answer = contest.check(conn, query, SIDES, processes)
                    duck.compare(key, answer, rows)
                    results.append(result)
                common.say(f"{key}: the answers agree")
            if CHECK:
                return 0

            def by_duckdb(result: Result) -> None:
                if result.processes == 1:
                    key = result.query.key
                    duckdb.setdefault(key, []).append(generated.run(int(key[1:]))[0])

            again = contest.measure(conn, results, SIDES, order, by_duckdb)
    serial = [result for result in results if result.processes == 1]
    parallel = [result for result in results if result.processes == 2]
    keys = {
        "tpch_geomean": contest.geomean(serial),
        "tpch_lowest": contest.lowest(serial),
        "tpch_geomean_columns": contest.geomean(serial, COLUMNS),
        "tpch_lowest_columns": contest.lowest(serial, COLUMNS),
        # above 1 where the columnar index is faster
        "tpch_columns_duckdb": round(
            statistics.geometric_mean(
                [statistics.median(duckdb[result.query.key]) / result.median(COLUMNS) for result in serial]
            ),
            2,
        ),
    }
    for result in serial:
        if result.query.key == "q5":
            keys["tpch_q5"] = round(result.ratio(), 2)
    if parallel:
        keys |= {
            "tpch_geomean_parallel": contest.geomean(parallel),
            "tpch_lowest_parallel": contest.lowest(parallel),
            "tpch_geomean_columns_parallel": contest.geomean(parallel, COLUMNS),
            "tpch_lowest_columns_parallel": contest.lowest(parallel, COLUMNS),
        }
    contest.report(
        "tpch",
        f"derived from TPC-H, not comparable with published results; scale {SCALE:g}",
        keys,
        results,
        SIDES,
        {
            "scale": SCALE,
            "duckdb_milliseconds": {
                key: common.spread([value * 1000 for value in values]) for key, values in duckdb.items()
            },
            "measured_again": again,
            "seed": seed,
            **conditions,
        },
    )
    return 0


if __name__ == "__main__":
    common.run(main)

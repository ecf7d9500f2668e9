"""The 99 queries of TPC-DS by PostgreSQL's own plans, by ours over the heap, by ours over columnar indexes, by DuckDB.

Derived from TPC-DS: the results are not comparable with published results of TPC-DS, as they do not comply with its
specification. Queries and data are those of DuckDB's extension for TPC-DS, scale 1; DuckDB runs them on its own copy,
and PostgreSQL takes their texts as they are.
Primary keys, an index on each foreign key of the fact tables and of customer, and a columnar index on each table of
more than a few pages, which only the side `columns` reads. Answers of all sides are compared in full. A first
run that takes longer than LIMIT=30 seconds is canceled, and its query counts as unfinished by that side.

PARTITIONS=12 partitions the fact tables by date, into that many and a default partition for rows without a date. They
then have no primary key, since it does not contain the date, but an index on its columns.

QUICK=1 is scale 0.1, SCALE=… another one (DuckDB's generator never ends below 0.01); SEED=… repeats the order, ROUNDS=…
is how often, CLOCK=cpu counts CPU time, PG_CONFIG=… names another PostgreSQL. QUERIES=q5,q93 or -k chooses queries,
WORKERS=2 or --workers the processes (and threads of DuckDB), PLANS=DIRECTORY or --plans where to save the plans, as
EXPLAIN ANALYZE prints them, of queries that pgbillion loses or does not finish on the heap or with columnar indexes.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import random
import re
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

import common
import contest
import duck
from contest import POSTGRESQL, Query, Result, Side
from duck import Duck
from pgbillion.common import search_path
from pgbillion.common.connection import Connection
from pgbillion.rows import answers
from pgbillion.rows.answers import Answer
from pgbillion.server import extension

SCALE = float(os.environ.get("SCALE") or common.sized(1, 0.1, 0.01))
PARTITIONS = int(os.environ.get("PARTITIONS") or 0)
LIMIT = float(os.environ.get("LIMIT") or 30)
FEW = "q3,q5,q36,q93,q96"  # in a run whose figures tell nothing
AGAIN_SECONDS = 60  # what is measured again takes no longer, unless three alternations do
SETTING = "pgbillion_rows.columns"
HEAP = Side("heap", {contest.ENABLE: "on", "search_path": "public", SETTING: "off"})
COLUMNS = Side("columns", {contest.ENABLE: "on", "search_path": "public", SETTING: "on"})
SIDES = (POSTGRESQL, HEAP, COLUMNS)
OURS = (HEAP, COLUMNS)
DUCKDB = "DuckDB"

# of the others, the first column
PRIMARY_KEYS = {
    "catalog_returns": "cr_item_sk, cr_order_number",
    "catalog_sales": "cs_item_sk, cs_order_number",
    "inventory": "inv_date_sk, inv_item_sk, inv_warehouse_sk",
    "store_returns": "sr_item_sk, sr_ticket_number",
    "store_sales": "ss_item_sk, ss_ticket_number",
    "web_returns": "wr_item_sk, wr_order_number",
    "web_sales": "ws_item_sk, ws_order_number",
}
# what fact tables are partitioned by, and the days, numbered, that sales are of
DATES = {
    "catalog_returns": "cr_returned_date_sk",
    "catalog_sales": "cs_sold_date_sk",
    "inventory": "inv_date_sk",
    "store_returns": "sr_returned_date_sk",
    "store_sales": "ss_sold_date_sk",
    "web_returns": "wr_returned_date_sk",
    "web_sales": "ws_sold_date_sk",
}
FIRST_DAY, LAST_DAY = 2450815, 2452642
WITH_FOREIGN_KEYS = (*PRIMARY_KEYS, "customer")
LEAST_PAGES = 32  # a smaller table would have no segment of a columnar index
MOST_COLUMNS = 32
# DuckDB generates bigint where the specification has identifiers and integers
TYPES = {"BIGINT": "integer", "VARCHAR": "varchar"}

# tables as CSV; tells their columns and the queries
GENERATE = """
import json, pathlib, sys, time
import duckdb, duckdb_extension_tpcds
scale, folder, threads = sys.argv[1:]
(file,) = pathlib.Path(duckdb_extension_tpcds.__file__).parent.rglob("tpcds.duckdb_extension")
db = duckdb.connect(f"{folder}/duck.db")
db.execute("SET enable_progress_bar = false")
db.execute(f"LOAD '{file}'")
db.execute(f"CALL dsdgen(sf={scale})")
# where NULL comes in PostgreSQL
db.execute("SET default_null_order = 'nulls_last_on_asc_first_on_desc'")
db.execute(f"SET threads = {threads}")
tables = {}
for table, column, kind in db.execute(
    "SELECT table_name, column_name, data_type FROM duckdb_columns() WHERE NOT internal ORDER BY 1, column_index"
).fetchall():
    tables.setdefault(table, []).append((column, kind))
for table in tables:
    db.execute(f"COPY {table} TO '{folder}/{table}.csv' (FORMAT csv, HEADER false)")
queries = dict(db.execute("SELECT query_nr, query FROM tpcds_queries() ORDER BY 1").fetchall())
first = {"tables": tables, "queries": queries}
"""


@dataclass
class Found:
    """A query's result: beside the times of contest.Result, who did not finish, and how long plans took."""

    result: Result
    number: int
    unfinished: list[str] = field(default_factory=list)
    plan_ms: dict[str, float] = field(default_factory=dict)
    duckdb: list[float] = field(default_factory=list)

    def finished(self) -> list[Side]:
        """The sides that answer within the limit."""
        return [side for side in SIDES if side.name not in self.unfinished]

    def ratio(self, side: Side) -> float | None:
        """How many times as fast as PostgreSQL: at most that if it does not finish, None if PostgreSQL does not."""
        if POSTGRESQL.name in self.unfinished:
            return None
        if side.name in self.unfinished:
            return self.result.median(POSTGRESQL) / LIMIT
        return self.result.ratio(side)

    def loses(self) -> bool:
        """Tell whether pgbillion is slower than PostgreSQL on either side, or does not finish."""
        ratios = [self.ratio(side) for side in OURS]
        return any(ratio is not None and ratio < contest.LOWEST for ratio in ratios) or any(
            side.name in self.unfinished for side in OURS
        )


def start_duckdb(folder: Path, threads: int) -> contextlib.AbstractContextManager[Duck]:
    """Have DuckDB generate the tables, also as CSV in the folder."""
    common.say(f"generating scale {SCALE:g}")
    return duck.start(GENERATE, f"{SCALE:g}", str(folder), str(threads))


def create(conn: Connection, table: str, columns: Sequence[Sequence[str]]) -> bool:
    """Create a table; tell whether it is partitioned."""
    definitions = ", ".join(f"{name} {TYPES.get(kind, kind)}" for name, kind in columns)
    partitioned = bool(PARTITIONS) and table in DATES
    by = f" PARTITION BY RANGE ({DATES[table]})" if partitioned else ""
    conn.execute(f"CREATE TABLE {table} ({definitions}){by}".encode())
    if partitioned:
        days = [FIRST_DAY + (LAST_DAY + 1 - FIRST_DAY) * number // PARTITIONS for number in range(PARTITIONS + 1)]
        for number, (first, end) in enumerate(itertools.pairwise(days)):
            bounds = f"FOR VALUES FROM ({first}) TO ({end})"
            conn.execute(f"CREATE TABLE {table}_{number} PARTITION OF {table} {bounds}".encode())
        conn.execute(f"CREATE TABLE {table}_others PARTITION OF {table} DEFAULT".encode())
    return partitioned


def load(conn: Connection, folder: Path, generated: Duck) -> None:
    """Load the tables with their indexes, statistics and visibility map."""
    words = set(re.findall(r"\w+", " ".join(generated.first["queries"].values()).lower()))
    for table, columns in generated.first["tables"].items():
        names = [name for name, _ in columns]
        key = PRIMARY_KEYS.get(table, names[0])
        common.say(f"loading {table}")
        partitioned = create(conn, table, columns)
        file = folder / f"{table}.csv"
        with file.open("rb") as data, conn.cursor().copy(f"COPY {table} FROM STDIN (FORMAT csv)".encode()) as copy:
            while block := data.read(1 << 20):
                copy.write(block)
        file.unlink()
        indexed = f"CREATE INDEX ON {table} ({key})" if partitioned else f"ALTER TABLE {table} ADD PRIMARY KEY ({key})"
        conn.execute(indexed.encode())
        if table in WITH_FOREIGN_KEYS:
            for name in names:
                # the first column of the primary key has an index
                if name.endswith("_sk") and not key.startswith(name):
                    conn.execute(f"CREATE INDEX ON {table} ({name})".encode())
        pages = conn.execute(
            "SELECT sum(pg_relation_size(oid)) / 8192 FROM pg_class WHERE oid = %(table)s::regclass"
            " OR oid IN (SELECT inhrelid FROM pg_inherits WHERE inhparent = %(table)s::regclass)",
            {"table": table},
        ).fetchone()
        assert pages is not None
        if pages[0] >= LEAST_PAGES * (PARTITIONS + 1 if partitioned else 1):
            used = [name for name in names if name in words][:MOST_COLUMNS]
            conn.execute(f"CREATE INDEX {table}_columns ON {table} USING columns ({', '.join(used)})".encode())
    # first the log to disk: pages of commits that are not there are not marked all-visible
    conn.execute("CHECKPOINT")
    # the second one encodes what the first one found all-visible
    conn.execute(b"VACUUM (FREEZE, ANALYZE)")
    conn.execute(b"VACUUM")
    conn.execute("CHECKPOINT")


def unmatched(
    one: Sequence[duck.Row], two: Sequence[duck.Row], same: Callable[[duck.Row, duck.Row], bool]
) -> tuple[list[int], list[duck.Row]]:
    """Return the places of rows of the first that the second has no counterpart of, and such rows of the second."""
    groups: dict[tuple[str, ...], list[duck.Row]] = {}
    for row in two:
        groups.setdefault(tuple(duck.order(row)[0]), []).append(row)
    places = []
    for place, row in enumerate(one):
        group = groups.get(tuple(duck.order(row)[0]), [])
        for index, other in enumerate(group):
            if same(row, other):
                del group[index]
                break
        else:
            places.append(place)
    return places, [row for group in groups.values() for row in group]


def differs(
    one: Sequence[duck.Row],
    two: Sequence[duck.Row],
    same: Callable[[duck.Row, duck.Row], bool],
    with_ties: Callable[[int | None], Sequence[duck.Row] | None],
) -> str | None:
    """Tell what differs between two answers to a query, or None where both are right.

    Rows that tie by ORDER BY with the last one before LIMIT are any of those that tie. `with_ties` gives the rows up to
    a number of them, None for the LIMIT's own, and all that tie with the last; None where there is no LIMIT.
    """
    places, others = unmatched(one, two, same)
    if not places and not others:
        return None
    text = (
        f"{len(one)} rows and {len(two)}, {[one[place] for place in places][:1]} and {others[:1]} without counterpart"
    )
    if len(one) != len(two):
        return text
    tied = with_ties(None)
    first_to_miss = with_ties(min(places) + 1)
    if tied is None or first_to_miss is None or unmatched(two, tied, same)[0]:
        return text
    # all rows that the second does without are in the last group of those that tie
    return None if len(first_to_miss) == len(tied) else text


def run(conn: Connection, sql: str) -> Answer | None:
    """Return a query's answer; None where it takes longer than the limit."""
    try:
        with limited(conn):
            return answers.answer(conn.execute(sql.encode()))
    except psycopg.errors.QueryCanceled:
        return None


@contextlib.contextmanager
def limited(conn: Connection) -> Iterator[None]:
    """Have the server cancel what takes longer than the limit."""
    contest.configure(conn, {"statement_timeout": f"{LIMIT * 1000:.0f}ms"})
    try:
        yield
    finally:
        contest.configure(conn, {"statement_timeout": "0"})


def check(conn: Connection, query: Query, number: int, processes: int, generated: Duck) -> Found:
    """Run a query by all sides, and compare their answers; raise RuntimeError where they differ."""
    found = Found(Result(query, processes), number)
    reference: tuple[Side, Answer] | None = None

    def with_ties(rows: int | None) -> Sequence[duck.Row] | None:
        assert reference is not None
        contest.prepare(conn, reference[0], processes)
        fetch = "FETCH FIRST {} ROWS WITH TIES"
        text, count = re.subn(r"(?i)\bLIMIT\s+(\d+)$", lambda match: fetch.format(rows or match[1]), query.sql)
        answer = run(conn, text) if count else None
        return None if answer is None else duck.rows(answer)

    for side in SIDES:
        contest.prepare(conn, side, processes)
        found.result.plans[side.name] = contest.explain(conn, query)
        found.plan_ms[side.name] = planning(conn, query)
        found.result.times[side.name] = []
        if side != POSTGRESQL and found.result.same(side) and POSTGRESQL.name in found.unfinished:
            answer = None
        else:
            answer = run(conn, query.sql)
        if answer is None:
            found.unfinished.append(side.name)
        elif reference is None:
            reference = side, answer
            found.result.rows = len(answer.rows)
        elif answers.difference(reference[1], answer, contest.TOLERANCE) is not None:
            text = differs(duck.rows(reference[1]), duck.rows(answer), list.__eq__, with_ties)  # type: ignore[arg-type]
            if text is not None:
                raise RuntimeError(f"{query.key}, {side.name} and {reference[0].name}: {text}")
    _, rows = generated.run(number)
    if reference is not None:
        text = differs(duck.rows(reference[1]), rows, duck.close, with_ties)
        if text is not None:
            raise RuntimeError(f"{query.key}, DuckDB and {reference[0].name}: {text}")
    return found


def planning(conn: Connection, query: Query) -> float:
    """Return the milliseconds that planning takes, the better of two."""
    found = []
    for _ in range(2):
        rows = conn.execute(f"EXPLAIN (COSTS OFF, SUMMARY) {query.sql}".encode()).fetchall()
        (line,) = (line for (line,) in rows if line.startswith("Planning Time: "))
        found.append(float(line.split()[2]))
    return min(found)


def alternate(conn: Connection, found: Found, generated: Duck, number: int) -> None:
    """Run a query once by each side that finishes."""
    contest.alternate(conn, found.result, found.finished(), number)
    found.duckdb.append(generated.run(found.number)[0])


def measure(conn: Connection, all_found: Sequence[Found], generated: Duck, order: random.Random) -> list[str]:
    """Measure all, and again those below their bound, which are returned."""
    for number in range(contest.ROUNDS):
        turn = list(all_found)
        order.shuffle(turn)
        for found in turn:
            alternate(conn, found, generated, number)
        common.say(f"round {number + 1} of {contest.ROUNDS}")
    again = []
    for found in all_found:
        sides = [side for side in found.finished() if side in OURS]
        if any((found.ratio(side) or 1) < found.result.query.bound for side in sides):
            again.append(found.result.query.key)
            for times in found.result.times.values():
                times.clear()
            start = time.perf_counter()
            for number in range(contest.AGAIN):
                if number >= 3 and time.perf_counter() - start > AGAIN_SECONDS:
                    break
                contest.alternate(conn, found.result, found.finished(), number)
            ratios = ", ".join(f"{side.name} {found.result.ratio(side):.2f}" for side in sides)
            common.say(f"{again[-1]} in {number + 1} alternations: {ratios}")
    return again


def save_plans(conn: Connection, all_found: Sequence[Found], folder: Path) -> None:
    """Save plans of all sides for each query that pgbillion loses: estimated only where it does not finish."""
    folder.mkdir(parents=True, exist_ok=True)
    for found in all_found:
        if not found.loses():
            continue
        query = found.result.query
        for side in SIDES:
            contest.prepare(conn, side, found.result.processes)
            finishes = side.name not in found.unfinished
            options = "ANALYZE, VERBOSE" if finishes else "VERBOSE"
            rows = conn.execute(f"EXPLAIN ({options}) {query.sql}".encode()).fetchall()
            text = "\n".join(line for (line,) in rows)
            (folder / f"{query.key}-{side.name}.txt").write_text(f"{text}\n", encoding="utf-8")


def report(all_found: Sequence[Found], extra: dict[str, Any]) -> None:
    """Print the table for people and the line for programs."""

    def of(side: Side, found: Found) -> str:
        return "-" if side.name in found.unfinished else f"{found.result.median(side) * 1000:,.1f}"

    ended = [found for found in all_found if POSTGRESQL.name not in found.unfinished]
    duckdb = {id(found): statistics.median(found.duckdb) for found in all_found}
    by_side = {side.name: [found.ratio(side) or 1.0 for found in ended] for side in OURS}
    by_side[DUCKDB] = [found.result.median(POSTGRESQL) / duckdb[id(found)] for found in ended]
    shown: dict[int, dict[str, float]] = {
        id(found): {name: by_side[name][index] for name in by_side} for index, found in enumerate(ended)
    }
    common.table(
        f"derived from TPC-DS, not comparable with published results; scale {SCALE:g}, medians of {contest.ROUNDS}, ms"
        f" ({contest.CLOCK} clock); -: longer than {LIMIT:g} s; ratios are PostgreSQL's time over the side's",
        ("query", *(side.name for side in SIDES), DUCKDB, *(f"x {name}" for name in by_side), "rows", "plan ms"),
        [
            [
                found.result.query.key,
                *(of(side, found) for side in SIDES),
                f"{duckdb[id(found)] * 1000:,.1f}",
                *(f"{shown[id(found)][name]:.2f}" if id(found) in shown else "" for name in by_side),
                f"{found.result.rows:,}",
                f"{found.plan_ms[COLUMNS.name]:.1f}",
            ]
            for found in all_found
        ],
    )
    geomeans = {name: round(statistics.geometric_mean(ratios), 2) for name, ratios in by_side.items() if ratios}
    common.result(
        {
            "benchmark": "tpcds",
            "tpcds_geomean": {side.name: geomeans.get(side.name) for side in OURS},
            # rounded down, so that what is below its bound does not look as if it met it
            "tpcds_lowest": {side.name: int(min(by_side[side.name], default=0) * 1000) / 1000 for side in OURS},
            "tpcds_unfinished": {
                side.name: [found.result.query.key for found in all_found if side.name in found.unfinished]
                for side in SIDES
            },
            "tpcds_duckdb": geomeans.get(DUCKDB),
            "plan_ms": {side.name: round(sum(found.plan_ms[side.name] for found in all_found), 1) for side in SIDES},
            "plan_ratio": {
                side.name: round(
                    statistics.geometric_mean(
                        found.plan_ms[side.name] / found.plan_ms[POSTGRESQL.name] for found in all_found
                    ),
                    2,
                )
                for side in OURS
            },
            "ratios": {
                found.result.query.key: {name: round(ratio, 3) for name, ratio in shown[id(found)].items()}
                for found in ended
            },
            "milliseconds": {
                f"{found.result.query.key}, {name}": common.spread([value * 1000 for value in times])
                for found in all_found
                for name, times in {**found.result.times, DUCKDB: found.duckdb}.items()
                if times
            },
            "rows": {found.result.query.key: found.result.rows for found in all_found},
            "rounds": contest.ROUNDS,
            "clock": contest.CLOCK,
            "session": contest.SESSION,
            "limit_s": LIMIT,
            "quick": common.QUICK,
            "load_at_the_end": os.getloadavg()[0],
            **extra,
        }
    )


def arguments() -> argparse.Namespace:
    """Return what the command line asks for; variables are for make."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    queries = os.environ.get("QUERIES") or common.sized("", "", FEW)
    parser.add_argument("-k", dest="queries", default=queries, help="only these: q5,q93")
    parser.add_argument("--workers", type=int, default=int(os.environ.get("WORKERS") or 1), help="processes")
    parser.add_argument("--plans", type=Path, default=os.environ.get("PLANS"), help="save plans of losers here")
    return parser.parse_args()


def main() -> int:
    """Run the benchmark and return the exit status."""
    asked = arguments()
    only = [key for key in asked.queries.split(",") if key]
    seed, order = common.seeded()
    all_found: list[Found] = []
    with common.own_server() as (cluster, folder), start_duckdb(folder, asked.workers) as generated:
        target = common.database(cluster, "bench")
        with target.connect() as conn, search_path.restored(conn):
            extension.ensure_extension(conn, extension.ROWS)
            load(conn, folder, generated)
        with target.connect() as conn, search_path.restored(conn):
            # psycopg would prepare what is run often, and with it keep the plan of whichever side comes then
            conn.prepare_threshold = None
            conditions = common.conditions(cluster)
            contest.configure(conn, contest.SESSION)
            for number, text in generated.first["queries"].items():
                key = f"q{number}"
                if only and key not in only:
                    continue
                query = Query(key, text.strip().rstrip(";"))
                all_found.append(check(conn, query, int(number), asked.workers, generated))
                late = all_found[-1].unfinished
                common.say(f"{key}: the answers agree" + (f"; unfinished: {', '.join(late)}" if late else ""))
            again = measure(conn, all_found, generated, order)
            if asked.plans:
                save_plans(conn, all_found, Path(asked.plans))
    report(
        all_found,
        {
            "scale": SCALE,
            "partitions": PARTITIONS,
            "workers": asked.workers,
            "measured_again": again,
            "seed": seed,
            **conditions,
        },
    )
    return 0


if __name__ == "__main__":
    common.run(main)

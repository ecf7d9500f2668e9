"""Queries by chance by PostgreSQL's own plans and by ours, to find those that pgbillion makes slower.

Star and snowflake queries over TPC-DS's tables (bench/star_queries.py), at the scale and with the indexes of `make
bench-tpcds`: PostgreSQL, vectors over the heap, and columnar indexes in turn, the best of two each. Answers are
compared. A ratio below 0.9 is measured again, 7 times, before it counts; queries that PostgreSQL answers within a
millisecond are left out. What takes longer than LIMIT=10 seconds is canceled; where PostgreSQL ends and pgbillion does
not, that counts as below, too. "calibration" is of what part of the plans of a side, and of all, the time that
pgbillion_rows.explain_vector() estimates is right to a factor of 3, once multiplied by what makes it right for their
median on this machine; "calibration_of_costs" is the same of PostgreSQL's costs.

QUERIES=… is how many (1000; QUICK=1 is 100 at scale 0.1), SEED=… the number of the first one (0), by which each can be
run again, SCALE=… is another scale, PARTITIONS=12 partitions the fact tables, STATISTICS=none takes away what ANALYZE
found, CLOCK=wall counts the time that passes instead of CPU time, PG_CONFIG=… names another PostgreSQL,
PLANS=DIRECTORY is where to save the queries that count as below, with all plans. SCHEMA=films takes joins of up to
a dozen skewed tables about films instead (bench/film_queries.py), SCHEMA=small queries over tables that are small,
bloated and were never analyzed, some with as little memory as 64 kB (bench/small_queries.py).
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

# whatever else the machine does
os.environ["CLOCK"] = os.environ.get("CLOCK") or "cpu"
os.environ["LIMIT"] = os.environ.get("LIMIT") or "10"

import common
import contest
import estimates
import film_queries
import small_queries
import star_queries
import tpcds
from contest import POSTGRESQL, Query, Result, Side
from pgbillion.common import search_path
from pgbillion.common.connection import Connection
from pgbillion.common.errors import UserError
from pgbillion.rows import answers, plans
from pgbillion.server import extension

NUMBER = int(os.environ.get("QUERIES") or common.sized(1000, 100, 3))
SEED = int(os.environ.get("SEED") or 0)
STATISTICS = os.environ.get("STATISTICS") or "all"
SCHEMA = os.environ.get("SCHEMA") or "tpcds"
ROUNDS = common.sized(2, 2, 1)
AGAIN = common.sized(7, 7, 1)
BOUND = 0.9


@dataclass
class Found:
    """What was found of a query."""

    result: Result
    unfinished: list[str] = field(default_factory=list)
    costs: dict[str, float] = field(default_factory=dict)  # of plans, as PostgreSQL estimates
    milliseconds: dict[str, float] = field(default_factory=dict)  # of plans, as pgbillion estimates
    before: dict[str, float] = field(default_factory=dict)  # seconds until a plan is executed

    def ratio(self, side: Side) -> float | None:
        """How many times as fast as PostgreSQL; 0 if it does not finish, None if PostgreSQL does not."""
        if POSTGRESQL.name in self.unfinished:
            return None
        if side.name in self.unfinished:
            return 0.0
        times = self.result.times
        return 1.0 if self.result.same(side) else min(times[POSTGRESQL.name]) / min(times[side.name])

    def below(self) -> bool:
        """Tell whether pgbillion makes it slower."""
        if POSTGRESQL.name in self.unfinished or min(self.result.times[POSTGRESQL.name]) < estimates.LEAST_SECONDS:
            return False
        return any((self.ratio(side) or 0.0) < BOUND for side in tpcds.OURS)

    def finished(self) -> list[Side]:
        """The sides that answer within the limit."""
        return [side for side in tpcds.SIDES if side.name not in self.unfinished]


def check(conn: Connection, query: Query) -> Found:
    """Run a query by all sides, and compare their answers; raise RuntimeError where they differ."""
    found = Found(Result(query, 1))
    reference = None
    for side in tpcds.SIDES:
        contest.prepare(conn, side, 1)
        found.result.plans[side.name] = contest.explain(conn, query)
        found.costs[side.name] = float(plans.explain(conn, query.sql)["Total Cost"])
        found.milliseconds[side.name] = estimates.milliseconds(conn, query.sql, side)
        found.before[side.name] = estimates.before(conn, query.sql)
        found.result.times[side.name] = []
        if side != POSTGRESQL and found.result.same(side):
            if POSTGRESQL.name in found.unfinished:
                found.unfinished.append(side.name)
            continue
        answer = tpcds.run(conn, query.sql)
        if answer is None:
            found.unfinished.append(side.name)
        elif reference is None:
            reference = answer
            found.result.rows = len(answer.rows)
        elif (difference := answers.difference(reference, answer, contest.TOLERANCE)) is not None:
            raise RuntimeError(f"{query.key}, {side.name}: {difference}\n{query.sql}")
    return found


def measure(conn: Connection, found: Found, rounds: int) -> None:
    """Run a query by each side that finishes, in turn."""
    for times in found.result.times.values():
        times.clear()
    for number in range(rounds):
        contest.alternate(conn, found.result, found.finished(), number)


def look_at(conn: Connection, query: Query) -> Found:
    """Measure a query, again if it counts as below."""
    found = check(conn, query)
    if POSTGRESQL.name in found.unfinished:
        return found
    measure(conn, found, ROUNDS)
    if found.below():
        measure(conn, found, AGAIN)
    if found.below():
        ratios = ", ".join(f"{side.name} {found.ratio(side):.2f}" for side in tpcds.OURS)
        milliseconds = min(found.result.times[POSTGRESQL.name]) * 1000
        common.say(f"{query.key}, {milliseconds:,.1f} ms: {ratios}")
    return found


def save(conn: Connection, found: Found, folder: Path) -> None:
    """Save a query and its plans."""
    folder.mkdir(parents=True, exist_ok=True)
    query = found.result.query
    (folder / f"{query.key}.sql").write_text(f"{query.sql};\n", encoding="utf-8")
    for side in tpcds.SIDES:
        contest.prepare(conn, side, 1)
        options = "ANALYZE, VERBOSE" if side.name not in found.unfinished else "VERBOSE"
        rows = conn.execute(f"EXPLAIN ({options}) {query.sql}".encode()).fetchall()
        text = "\n".join(line for (line,) in rows)
        (folder / f"{query.key}-{side.name}.txt").write_text(f"{text}\n", encoding="utf-8")


def calibration(all_found: Sequence[Found], estimated: Callable[[Found], Mapping[str, float]]) -> dict[str, float]:
    """What part of estimates is right, but for a factor for all: of each side's plans, and of all together."""
    by_side: dict[str, list[float]] = {}
    for found in all_found:
        for name, times in found.result.times.items():
            seconds = min(times, default=0.0) - found.before[name]
            if seconds >= estimates.LEAST_SECONDS:
                by_side.setdefault(name, []).append(estimated(found)[name] / seconds)
    return estimates.right(by_side)


def report(all_found: Sequence[Found], extra: dict[str, Any]) -> None:
    """Print the table for people and the line for programs."""
    ended = [found for found in all_found if POSTGRESQL.name not in found.unfinished]
    below = [found for found in ended if found.below()]
    by_side = {side.name: [ratio for found in ended if (ratio := found.ratio(side))] for side in tpcds.OURS}
    common.table(
        f"{len(all_found)} queries by chance, {SCHEMA}, {contest.CLOCK} clock: those below {BOUND}",
        ("query", "PostgreSQL ms", *(f"x {side.name}" for side in tpcds.OURS)),
        [
            [
                found.result.query.key,
                f"{min(found.result.times[POSTGRESQL.name]) * 1000:,.1f}",
                *(f"{found.ratio(side):.2f}" for side in tpcds.OURS),
            ]
            for found in below
        ],
    )
    common.result(
        {
            "benchmark": "regressions",
            "queries": len(all_found),
            "below": {
                found.result.query.key: [round(found.ratio(side) or 0.0, 3) for side in tpcds.OURS] for found in below
            },
            "geomean": {
                name: round(statistics.geometric_mean(ratios), 2) for name, ratios in by_side.items() if ratios
            },
            "unfinished": {
                side.name: sum(side.name in found.unfinished for found in all_found) for side in tpcds.SIDES
            },
            "calibration": calibration(all_found, lambda found: found.milliseconds),
            "calibration_of_costs": calibration(all_found, lambda found: found.costs),
            "limit_s": tpcds.LIMIT,
            "clock": contest.CLOCK,
            "session": contest.SESSION,
            "quick": common.QUICK,
            "load_at_the_end": os.getloadavg()[0],
            **extra,
        }
    )


def generated(conn: Connection) -> Iterator[Query]:
    """The queries; what is set for each is set when it comes."""
    numbers = range(SEED, SEED + NUMBER)
    if SCHEMA == "small":
        for number in numbers:
            query, memory = small_queries.generate(number)
            contest.configure(conn, {"work_mem": memory})
            yield Query(f"b{number}", query)
        return
    tables = star_queries.Tables.of(conn) if SCHEMA == "tpcds" else None
    if STATISTICS == "none":
        conn.execute("DELETE FROM pg_statistic WHERE starelid >= 16384")
    for number in numbers:
        if tables is None:
            yield Query(f"f{number}", film_queries.generate(number))
        else:
            yield Query(f"s{number}", star_queries.generate(tables, number))


def run(conn: Connection, folder: Path | None) -> list[Found]:
    """Look at all queries in a database that has the tables."""
    contest.configure(conn, contest.SESSION)
    all_found = []
    for query in generated(conn):
        found = look_at(conn, query)
        all_found.append(found)
        if folder is not None and found.below():
            save(conn, found, folder)
        if len(all_found) % 50 == 0:
            common.say(f"{len(all_found)} of {NUMBER}")
    return all_found


def index_columns(conn: Connection) -> None:
    """Create a columnar index of all columns on each table that is large enough."""
    rows = conn.execute(
        "SELECT c.relname, string_agg(a.attname, ', ' ORDER BY a.attnum) FROM pg_class c JOIN pg_attribute a"
        " ON a.attrelid = c.oid AND a.attnum > 0 WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace"
        " AND c.relpages >= %s GROUP BY 1 ORDER BY 1",
        [tpcds.LEAST_PAGES],
    ).fetchall()
    for table, columns in rows:
        conn.execute(f"CREATE INDEX {table}_columns ON {table} USING columns ({columns})".encode())


def load(conn: Connection, folder: Path) -> None:
    """Create the extension and the tables."""
    extension.ensure_extension(conn, extension.ROWS)
    if SCHEMA == "small":
        for statement in small_queries.statements():
            conn.execute(statement.encode())
        return
    if SCHEMA == "films":
        for statement in film_queries.statements(tpcds.SCALE):
            conn.execute(statement.encode())
        index_columns(conn)
        return
    with tpcds.start_duckdb(folder, 1) as generated_tables:
        tpcds.load(conn, folder, generated_tables)


def main() -> int:
    """Run the benchmark and return the exit status."""
    if SCHEMA not in ("films", "small", "tpcds"):
        raise UserError(f"there is no SCHEMA={SCHEMA}", hint="SCHEMA=tpcds, SCHEMA=films or SCHEMA=small")
    saved = os.environ.get("PLANS")
    with common.own_server() as (cluster, folder):
        target = common.database(cluster, "bench")
        with target.connect() as conn, search_path.restored(conn):
            load(conn, folder)
        with target.connect() as conn, search_path.restored(conn):
            # psycopg would prepare what is run often, and with it keep the plan of whichever side comes then
            conn.prepare_threshold = None
            conditions = common.conditions(cluster)
            all_found = run(conn, Path(saved) if saved else None)
    report(
        all_found,
        {
            "schema": SCHEMA,
            "scale": tpcds.SCALE,
            "partitions": tpcds.PARTITIONS,
            "statistics": STATISTICS,
            "seed": SEED,
            **conditions,
        },
    )
    return 0


if __name__ == "__main__":
    common.run(main)

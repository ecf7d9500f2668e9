"""What the planner's constants should be on this machine, and whether its choices are the faster ones.

Each probe is a query that does one thing more than another: PostgreSQL's way and ours in turn, CPU time of one process,
all in cache. From their differences follow nanoseconds per row, and from these constants of vector/plan/cost_model.h in
extensions/pgbillion_rows/src, in the units that these use.
Our way by one process and by two is compared by the time that passes: what a second process takes to be of use, and
WORKER_SETUP_FACTOR, follow from tables of several sizes. Then every probe is planned as ever: where the slower plan is
chosen, that is said. At last come queries by chance over the same tables with indexes (bench/generated_plans.py), and
what explain_vector() estimates of their plans beside what they take: "calibration" is what part is right to a factor of
3, once multiplied by what makes it right for their median on this machine.

ROWS=… is another number of rows, QUICK=1 a tenth, SEED=… repeats the order and the queries, PG_CONFIG=… names another
PostgreSQL.
"""

from __future__ import annotations

import math
import os
import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

from pgbillion.common.connection import Connection

# one process, whatever else the machine does
os.environ["CLOCK"] = "cpu"

import common
import contest
import generated_plans
from contest import Query, Side
from pgbillion.common import search_path
from pgbillion.rows import aggregate, plans

ROWS = int(os.environ.get("ROWS") or common.sized(2_000_000, 200_000, 2_000))
ROUNDS = common.sized(7, 3, 1)
# a choice counts as wrong if it takes this number of times as long as the other plan
MARGIN = 1.1
WIDE = 60
OPERATOR_COST = 0.0025  # cpu_operator_cost
TUPLE_COST = 0.01  # cpu_tuple_cost
JOINED = ("k1000", "k10000", "k100000")

POSTGRESQL = contest.POSTGRESQL
_FORCED = {
    contest.ENABLE: "on",
    "pgbillion_rows.vector_aggregate": "force",
    "pgbillion_rows.vector_scan": "off",
    "pgbillion_rows.eager_aggregate": "off",
    "pgbillion_rows.vector_join": "off",
    "pgbillion_rows.vector_exchange": "on",
    "min_parallel_table_scan_size": "8MB",
    "parallel_setup_cost": "1000",
    "parallel_tuple_cost": "0.1",
}
AGGREGATE = Side("VectorAggregate", _FORCED)
SCAN = Side("VectorScan", {**_FORCED, "pgbillion_rows.vector_aggregate": "off", "pgbillion_rows.vector_scan": "force"})
BEFORE = Side("before the join", {**_FORCED, "pgbillion_rows.eager_aggregate": "force"})
JOIN = Side("VectorJoin", {**_FORCED, "pgbillion_rows.vector_join": "force"})
# tables are too small for workers, or workers cost nothing
ONE = Side("one process", {**_FORCED, "pgbillion_rows.vector_aggregate": "on", "min_parallel_table_scan_size": "4TB"})
TWO = Side(
    "two processes",
    {
        **_FORCED,
        "pgbillion_rows.vector_aggregate": "on",
        "pgbillion_rows.vector_exchange": "force",
        "min_parallel_table_scan_size": "0",
        "parallel_setup_cost": "0",
        "parallel_tuple_cost": "0",
    },
)
CHOSEN = Side(
    "as planned",
    {
        **_FORCED,
        "pgbillion_rows.vector_aggregate": "on",
        "pgbillion_rows.vector_scan": "on",
        "pgbillion_rows.eager_aggregate": "on",
        "pgbillion_rows.vector_join": "on",
    },
)
# VectorJoin aggregates what it joins, and mostly is faster than both ways
CHOSEN_BEFORE = Side(CHOSEN.name, {**CHOSEN.settings, "pgbillion_rows.vector_join": "off"})


@dataclass
class Probe:
    """A query, our way to be compared, and what was found: nanoseconds per row and estimated costs, by side.

    Sides are PostgreSQL and ours, or our plans with one process and with two.
    """

    key: str
    sql: str
    side: Side
    rows: int = 0
    pages: int = 0
    nanoseconds: dict[str, float] = field(default_factory=dict)
    costs: dict[str, float] = field(default_factory=dict)
    uses_ours: bool = False

    @property
    def other(self) -> Side:
        """What our way is compared with."""
        return ONE if self.side == TWO else POSTGRESQL

    @property
    def chosen(self) -> Side:
        """As it is planned if there is nothing but our way and the other one."""
        return CHOSEN_BEFORE if self.side == BEFORE else CHOSEN

    @property
    def processes(self) -> int:
        """How many there may be."""
        return 2 if self.side == TWO else 1

    @property
    def ratio(self) -> float:
        """How many times as fast our way is."""
        return self.nanoseconds[self.other.name] / self.nanoseconds[self.side.name]

    @property
    def wrong(self) -> bool:
        """Tell whether the planner takes the slower way."""
        return self.ratio < 1 / MARGIN if self.uses_ours else self.ratio > MARGIN


def probes() -> list[Probe]:
    """All that is measured."""
    found = [
        Probe("scan", "SELECT count(*) FROM narrow WHERE k100 < 0", AGGREGATE),
        Probe("LIKE", "SELECT count(*) FROM narrow WHERE words LIKE '%nothing of it%'", AGGREGATE),
    ]
    for share in (0, 1, 10, 30, 50, 80, 95):
        sql = f"SELECT count(*) FROM narrow WHERE k100 < {share} AND pad IS NOT NULL"
        found.append(Probe(f"returned, {share} %", sql, SCAN))
        found.append(Probe(f"returned, {share} %, wide", sql.replace("narrow", "wide"), SCAN))
    for name, call in {
        "count(*)": "count(*)",
        "sum(integer)": "sum(k1000)",
        "sum(double precision)": "sum(d)",
        "sum(numeric)": "sum(n)",
        "avg(numeric)": "avg(n)",
        "min(integer)": "min(k1000)",
        "min(text)": "min(words)",
    }.items():
        found.append(Probe(f"one group, {name}", f"SELECT {call} FROM narrow", AGGREGATE))
        found.append(Probe(f"10 groups, {name}", f"SELECT k10, {call} FROM narrow GROUP BY 1", AGGREGATE))
    for column, groups in COLUMNS.items():
        sql = f"SELECT count(*), sum(c) FROM (SELECT {column}, count(*) AS c FROM narrow GROUP BY 1) x"
        found.append(Probe(f"{groups} groups", sql, AGGREGATE))
        found.append(
            Probe(f"{groups} groups, two keys", sql.replace("GROUP BY 1", f"GROUP BY {column}, k3"), AGGREGATE)
        )
    for place in (1, WIDE // 2, WIDE):
        found.append(Probe(f"column {place} of {WIDE}", f"SELECT sum(c{place}) FROM wide", AGGREGATE))
    for column in JOINED:
        for left in (0.2, 2, 10, 50, 100):
            for calls in ("count(*)", "avg(n), sum(n), count(*)"):
                found.append(
                    Probe(
                        f"join by {column}, {left} % left, {calls}",
                        f"SELECT s.g, {calls} FROM narrow t JOIN small_{column} s ON t.{column} = s.id"
                        f" WHERE s.share < {left * 10} GROUP BY 1",
                        BEFORE,
                    )
                )
    for column, size in (("k1000", "k1000"), ("k10", "k1000000"), ("k1000000", "k1000000")):
        sql = f"SELECT count(*) FROM narrow t JOIN small_{size} s ON t.{column} = s.id"
        found.append(Probe(f"joined by {column} with {COLUMNS[size]} rows", sql, JOIN))
    for rows in (ROWS // size for size in SIZES):
        for key, sql in {
            "10 groups": "SELECT k10, count(*), sum(n) FROM {} GROUP BY 1",
            "100000 groups": "SELECT count(*), sum(c) FROM (SELECT k100000, count(*) AS c FROM {} GROUP BY 1) x",
            "1000000 groups": "SELECT count(*), sum(c) FROM (SELECT k1000000, count(*) AS c FROM {} GROUP BY 1) x",
            "100000 distinct": "SELECT count(DISTINCT k100000) FROM {}",
        }.items():
            found.append(Probe(f"{key} of {rows} rows by two", sql.format(f"first_{rows}"), TWO, rows))
    return found


# tables with an eighth to all of the rows
SIZES = (8, 4, 2, 1)
# columns by their number of different values, which come in no order
COLUMNS = {"k10": 10, "k1000": 1000, "k10000": 10_000, "k100000": 100_000, "k1000000": 1_000_000}


def make(conn: Connection) -> None:
    """Make the tables: a narrow one, a wide one, and those to join them with."""
    common.say(f"making {ROWS:,} rows")
    spread = ", ".join(
        f"(hashint8extended(i, {seed}) & 2147483647)::integer % {groups} AS {column}"
        for seed, (column, groups) in enumerate(COLUMNS.items())
    )
    conn.execute(
        f"CREATE TABLE narrow AS SELECT i::integer AS id, {spread}, (i * 7919 % 100)::integer AS k100,"
        " (i % 3)::integer AS k3, i * 0.5::double precision AS d, (i % 100000 / 100.0)::numeric(12, 2) AS n,"
        " 'some words, about fifty bytes of them, number ' || i AS words, 'x'::text AS pad"
        f" FROM generate_series(1, {ROWS}::bigint) i".encode()
    )
    columns = ", ".join(f"(i + {n})::integer AS c{n}, 'text ' || i % {n} AS t{n}" for n in range(1, WIDE + 1))
    conn.execute(
        f"CREATE TABLE wide AS SELECT {columns}, (i * 7919 % 100)::integer AS k100, 'x'::text AS pad"
        f" FROM generate_series(1, {ROWS // 4}::bigint) i".encode()
    )
    for column, groups in COLUMNS.items():
        conn.execute(
            f"CREATE TABLE small_{column} AS SELECT i AS id, i % 25 AS g, i::bigint * 7919 % 1000 AS share"
            f" FROM generate_series(0, {min(groups, 10 * ROWS) - 1}) i".encode()
        )
    for rows in (ROWS // size for size in SIZES):
        conn.execute(
            f"CREATE TABLE first_{rows} AS SELECT id, {', '.join(COLUMNS)}, n, words FROM narrow"
            f" WHERE id <= {rows}".encode()
        )
    conn.execute("CHECKPOINT")
    conn.execute("VACUUM (FREEZE, ANALYZE)")


def cost(plan: plans.Plan) -> float:
    """What a plan is estimated to cost."""
    return float(plan["Total Cost"])


def takes(plan: plans.Plan, side: Side) -> bool:
    """Tell whether a plan is of our way that the side stands for."""
    if side == BEFORE:
        return any(node.get("Partial Mode", "Simple") != "Simple" for node in plans.nodes(plan))
    if side == TWO:
        return any(node["Node Type"] == "Gather" for node in plans.nodes(plan))
    if side in (SCAN, JOIN):
        # with all of it on, the scan aggregates, too
        return any("Custom Plan Provider" in node for node in plans.nodes(plan))
    return any(node.get("Custom Plan Provider") == side.name for node in plans.nodes(plan))


def measure(conn: Connection, found: Sequence[Probe], order: random.Random) -> None:
    """Run all probes by both ways in turn; the medians count, of CPU time except where there are two processes."""
    times: dict[tuple[str, str], list[float]] = {}
    for number in range(ROUNDS + 1):
        turn = list(found)
        order.shuffle(turn)
        for probe in turn:
            rows = probe.rows or (ROWS // 4 if " wide" in probe.sql else ROWS)
            result = contest.Result(Query(probe.key, probe.sql), probe.processes)
            result.plans = {POSTGRESQL.name: "", probe.other.name: "one", probe.side.name: "other"}
            result.times = {probe.other.name: [], probe.side.name: []}
            contest.CLOCK = "cpu" if probe.processes == 1 else "wall"
            contest.alternate(conn, result, (probe.other, probe.side), number)
            for name, seconds in result.times.items():
                # the first round fills the caches
                if number > 0:
                    times.setdefault((probe.key, name), []).append(seconds[0] / rows * 1e9)
        common.say(f"round {number} of {ROUNDS}")
    for probe in found:
        if probe.side == TWO:
            size = conn.execute("SELECT relpages FROM pg_class WHERE relname = %s", [f"first_{probe.rows}"]).fetchone()
            probe.pages = size[0] if size else 0
        for side in (probe.other, probe.side, probe.chosen):
            contest.prepare(conn, side, probe.processes)
            plan = plans.explain(conn, probe.sql)
            if side == probe.chosen:
                probe.uses_ours = takes(plan, probe.side)
                probe.costs[side.name] = cost(plan)
                continue
            probe.nanoseconds[side.name] = statistics.median(times[probe.key, side.name])
            probe.costs[side.name] = cost(plan)


def second_process(found: Sequence[Probe]) -> dict[str, float]:
    """Milliseconds that pass before a second process is of use, what share of one's time two take, and the factor."""
    pairs = [
        tuple(probe.nanoseconds[side.name] * probe.rows / 1e6 for side in (ONE, TWO))
        for probe in found
        if probe.side == TWO
    ]
    slope, intercept = statistics.linear_regression([one for one, _ in pairs], [two for _, two in pairs])
    # what costs of rows are in time, by one process: those of pages are left out
    rows = [probe for probe in found if probe.side == TWO and probe.key.startswith("10 groups")]
    small, large = rows[0], rows[-1]
    costs = large.costs[ONE.name] - large.pages - small.costs[ONE.name] + small.pages
    spent = large.nanoseconds[ONE.name] * large.rows - small.nanoseconds[ONE.name] * small.rows
    setup = intercept * 1e6 * costs / spent
    return {
        "SECOND_PROCESS_MS": intercept,
        "SECOND_PROCESS_SHARE": slope,
        "WORKER_SETUP_FACTOR": setup / 1000 - 1,
    }


def constants(found: Sequence[Probe]) -> dict[str, float]:
    """What follows for the constants, in units of cpu_operator_cost, or of cpu_tuple_cost those of CACHED_COST."""
    by_key = {probe.key: probe for probe in found}

    def core(key: str) -> float:
        return by_key[key].nanoseconds[POSTGRESQL.name]

    def ours(key: str) -> float:
        return by_key[key].nanoseconds[by_key[key].side.name]

    # a unit of cost, by a scan, most of whose cost is of pages and rows
    unit = core("scan") * ROWS / by_key["scan"].costs[POSTGRESQL.name]
    operator = OPERATOR_COST * unit
    # one key, one state, as eager_cost.c counts them
    doublings = math.log2(min(COLUMNS["k100000"], ROWS) * 96 / (512 * 1024))
    joined = statistics.mean(core(f"join by {column}, 2 % left, count(*)") for column in JOINED)
    found_here = {
        "EAGER_COST_VECTOR_INTEGER": ours("10 groups, sum(integer)") - ours("10 groups, count(*)"),
        "EAGER_COST_VECTOR_OTHER": ours("10 groups, sum(numeric)") - ours("10 groups, count(*)"),
        "EAGER_COST_VECTOR_FURTHER_KEY": ours("10 groups, two keys") - ours("10 groups"),
        "EAGER_COST_VECTOR_WAITING": (ours("100000 groups") - ours("1000 groups")) / doublings,
        "EAGER_COST_CORE_ROW": core("10 groups, count(*)") - core("scan"),
        "EAGER_COST_CORE_AGGREGATE": (core("10 groups, sum(integer)") + core("10 groups, sum(numeric)")) / 2
        - core("10 groups, count(*)"),
        "EAGER_COST_CORE_WAITING": (core("100000 groups") - core("1000 groups")) / doublings,
        # its rows pass no condition
        "EAGER_COST_JOIN_PROBED": joined - core("one group, count(*)"),
        "EAGER_COST_ROW_LEFT": core("join by k1000, 100 % left, count(*)")
        - core("join by k1000, 0.2 % left, count(*)"),
        "SCAN_LIKE_COST": core("LIKE") - core("scan") - ours("LIKE") + ours("scan"),
    }
    # of PostgreSQL's hash joins: every row finds one, in a small table, in a large one of which little is used, and all
    # over that
    row = core("scan") / (1 + OPERATOR_COST / TUPLE_COST)
    small, built, large = (probe.nanoseconds[POSTGRESQL.name] for probe in found if probe.side == JOIN)
    joins = {
        "CACHED_COST_PROBE + CACHED_COST_JOINED_ROW": (small - core("one group, count(*)")) / row,
        "CACHED_COST_BUILD": (built - small) * ROWS / COLUMNS["k1000000"] / row,
        "CACHED_COST_PROBE_FAR": (large - built) / row,
    }
    return {
        "nanoseconds_of_an_operator": operator,
        **{name: ns / operator for name, ns in found_here.items()},
        **joins,
        **second_process(found),
    }


def main() -> int:
    """Run all probes, say what follows, and return the exit status."""
    seed, order = common.seeded()
    found = probes()
    with common.own_server() as (cluster, _):
        target = common.database(cluster, "bench")
        with aggregate.session(target):
            pass
        with target.connect() as conn, search_path.restored(conn):
            make(conn)
        with aggregate.session(target) as conn, search_path.restored(conn):
            conditions = common.conditions(cluster)
            contest.configure(conn, {**contest.SESSION, "work_mem": "512MB"})
            measure(conn, found, order)
        with target.connect() as conn, search_path.restored(conn):
            generated_plans.index(conn)
        with aggregate.session(target) as conn, search_path.restored(conn):
            contest.configure(conn, {**contest.SESSION, "work_mem": "512MB"})
            plans_by_chance = generated_plans.measure(conn, ROWS, seed)
    wrong = [probe for probe in found if probe.wrong]
    common.table(
        f"{ROWS:,} rows, CPU time, of two processes the time that passes, medians of {ROUNDS}",
        ("probe", "PostgreSQL ns, or one process", "ours ns, or two", "ratio", "ratio of costs", "planned", "choice"),
        [
            [
                probe.key,
                f"{probe.nanoseconds[probe.other.name]:,.1f}",
                f"{probe.nanoseconds[probe.side.name]:,.1f}",
                f"{probe.ratio:.2f}",
                f"{probe.costs[probe.other.name] / max(probe.costs[CHOSEN.name], 0.01):.2f}",
                probe.side.name if probe.uses_ours else probe.other.name,
                "WRONG" if probe.wrong else "right",
            ]
            for probe in found
        ],
    )
    numbers = {name: round(value, 3) for name, value in constants(found).items()}
    common.table("what the constants would be here", ("constant", "value"), [[k, str(v)] for k, v in numbers.items()])
    generated_plans.table(plans_by_chance)
    common.result(
        {
            "benchmark": "calibrate",
            "calibration": generated_plans.calibration(plans_by_chance),
            "choices": len(found),
            "wrong_choices": [probe.key for probe in wrong],
            "constants": numbers,
            "nanoseconds": {
                probe.key: {name: round(value, 2) for name, value in probe.nanoseconds.items()} for probe in found
            },
            "rows": ROWS,
            "rounds": ROUNDS,
            "seed": seed,
            **conditions,
        }
    )
    return 0


if __name__ == "__main__":
    common.run(main)

"""Our drop_tables() compared with stock DROP TABLE, for lazy and for heap tables, and with the rate of removing files.

Same server, same tables, both in batches, by one session; and drop_tables() by a session per CPU core, as the command
line has it by default. What is compared alternates. The tables of each
measurement are made in a database of their own; making them is not timed. A dropped heap table's files are emptied at
commit and removed by the next checkpoint, which is the same work for both: rates without it and with it are given, and
the one beside the rate of removing files is that with it. QUICK=1 ends within a minute; SEED=… repeats an order,
PG_CONFIG=… names another PostgreSQL.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import common
import files
from pgbillion.common.target import Target
from pgbillion.server.postgres import Cluster
from pgbillion.tables import create, drop, selection, worker
from pgbillion.tables.plan import Method, Storage

COUNT, ROUNDS = common.sized((100_000, 3), (10_000, 2), (100, 1))
# bulk as the command line has it by default, DROP TABLE with a statement of a bearable length
BATCH: dict[Method, int | None] = {Method.BULK: None, Method.SQL: 1_000}
FILES = "files"
DEFAULT = "default"
SESSIONS = os.cpu_count() or 1

_numbers = itertools.count(1)


@contextlib.contextmanager
def _unwatched(selected: int) -> Iterator[Callable[[int], None]]:
    yield lambda dropped: None


def measure(cluster: Cluster, storage: Storage, method: Method, sessions: int) -> tuple[float, float]:
    """Make tables, drop them, and return how many a second that were, without and with a checkpoint."""
    name = f"bench{next(_numbers)}"
    target = common.database(cluster, name)
    _make(target, storage)
    with target.connect() as conn:
        request = drop.Request(selection.select(conn, "_*", "public"), method, sessions, BATCH[method])
        selected = drop.survey(conn, request).tables
        conn.execute("CHECKPOINT")
        start = time.perf_counter()
        outcome = drop.execute(target, request, selected, command=str, observe=_unwatched)
        seconds = time.perf_counter() - start
        conn.execute("CHECKPOINT")
        with_checkpoint = time.perf_counter() - start
    if outcome.dropped != COUNT:
        raise RuntimeError(f"{outcome.dropped} of {COUNT} tables were dropped")
    common.drop_database(cluster, name)
    return COUNT / seconds, COUNT / with_checkpoint


def _make(target: Target, storage: Storage) -> None:
    with target.connect() as conn:
        plan = create.make_plan(conn, create.Request(COUNT, 1, storage=storage))
        create.check_server(conn, plan)
        template = worker.temporary_template(conn, plan)
        for batch in plan.shares()[0].batches(plan.batch):
            worker.create_batch(conn, plan, template, batch, None)


def remove_files(folder: Path) -> float:
    """Make empty files, remove them in the order they were made, and return how many a second that were."""
    with common.own_folder(folder) as inside:
        files.creation_seconds(inside, COUNT, 1)
        return COUNT / files.removal_seconds(inside)


def main() -> int:
    """Run the benchmark and return the exit status."""
    seed, order = common.seeded()
    ways: dict[str, tuple[Storage, Method, int]] = {
        f"{method}_{storage}": (storage, method, 1) for storage in Storage for method in Method
    }
    ways |= {f"{DEFAULT}_{storage}": (storage, Method.BULK, SESSIONS) for storage in Storage}
    rates: dict[str, list[float]] = defaultdict(list)
    all_rates: dict[str, list[float]] = defaultdict(list)
    with common.own_server() as (cluster, disk):
        conditions = common.conditions(cluster)
        for number in range(ROUNDS):
            contestants = [*ways, FILES]
            order.shuffle(contestants)
            for contestant in contestants:
                if contestant == FILES:
                    rate = with_checkpoint = remove_files(disk)
                else:
                    rate, with_checkpoint = measure(cluster, *ways[contestant])
                rates[contestant].append(rate)
                all_rates[contestant].append(with_checkpoint)
                common.say(f"round {number + 1}, {contestant}: {rate:,.0f}/s, with checkpoint {with_checkpoint:,.0f}/s")
    median = {contestant: statistics.median(found) for contestant, found in rates.items()}
    with_all = {contestant: statistics.median(found) for contestant, found in all_rates.items()}
    ratios = {
        f"ratio_{name}{storage}_over_sql{suffix}": round(rate[f"{way}_{storage}"] / rate[f"sql_{storage}"], 3)
        for rate, suffix in ((median, ""), (with_all, "_with_checkpoint"))
        for way, name in ((Method.BULK, ""), (DEFAULT, "default_"))
        for storage in Storage
    }
    share = with_all["bulk_heap"] / median[FILES]
    common.table(
        f"tables dropped a second, (i integer), medians; {median[FILES]:,.0f} empty files removed a second",
        ("storage", "DROP TABLE", "drop_tables", "times", f"by {SESSIONS}", "times"),
        [
            [
                f"{storage}{words}",
                f"{rate[f'sql_{storage}']:,.0f}",
                f"{rate[f'bulk_{storage}']:,.0f}",
                f"{ratios[f'ratio_{storage}_over_sql{suffix}']:.2f}",
                f"{rate[f'{DEFAULT}_{storage}']:,.0f}",
                f"{ratios[f'ratio_{DEFAULT}_{storage}_over_sql{suffix}']:.2f}",
            ]
            for storage in Storage
            for rate, suffix, words in ((median, "", ""), (with_all, "_with_checkpoint", ", with checkpoint"))
        ],
    )
    common.result(
        {
            "benchmark": "drop",
            **ratios,
            "share_of_file_removal_rate": round(share, 3),
            "count": COUNT,
            "batch": {method.value: batch or "auto" for method, batch in BATCH.items()},
            "rounds": ROUNDS,
            "default_sessions": SESSIONS,
            "tables_per_second": {way: common.spread(rates[way]) for way in ways},
            "tables_per_second_with_checkpoint": {way: common.spread(all_rates[way]) for way in ways},
            "files_removed_per_second": common.spread(rates[FILES]),
            "quick": common.QUICK,
            "seed": seed,
            **conditions,
        }
    )
    return 0


if __name__ == "__main__":
    common.run(main)

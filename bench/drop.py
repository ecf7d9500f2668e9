"""billion.drop_tables beside stock DROP TABLE, for lazy and for heap tables, and beside the rate of removing files.

Same server, same tables, both in batches and by one session. What is compared alternates. The tables of each
measurement are made in a database of their own; making them is not timed. For heap tables the time ends when the files
are gone as well: after the checkpoint that removes them, for both. QUICK=1 ends within a minute; SEED=… repeats an
order, PG_CONFIG=… names another PostgreSQL.
"""

from __future__ import annotations

import contextlib
import itertools
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import common
import files

from pgbillion.connect import Target
from pgbillion.postgres import Cluster
from pgbillion.tables import create, drop, selection, worker
from pgbillion.tables.plan import Method, Storage

COUNT, ROUNDS = (10_000, 2) if common.QUICK else (100_000, 5)
# bulk as the command line has it by default, DROP TABLE with a statement of a bearable length
BATCH: dict[Method, int | None] = {Method.BULK: None, Method.SQL: 1_000}
FILES = "files"

_numbers = itertools.count(1)


@contextlib.contextmanager
def _unwatched(selected: int) -> Iterator[Callable[[int], None]]:
    yield lambda dropped: None


def measure(cluster: Cluster, storage: Storage, method: Method) -> float:
    """Make tables, drop them, and return how many a second that were."""
    name = f"bench{next(_numbers)}"
    target = common.database(cluster, name)
    _make(target, storage)
    with target.connect() as conn:
        request = drop.Request(selection.select(conn, r"\_%", "public"), method, batch=BATCH[method])
        selected = drop.survey(conn, request).tables
        conn.execute("CHECKPOINT")
        start = time.perf_counter()
        outcome = drop.execute(target, request, selected, command="", observe=_unwatched)
        if storage is Storage.HEAP:
            conn.execute("CHECKPOINT")
        seconds = time.perf_counter() - start
    if outcome.dropped != COUNT:
        raise RuntimeError(f"{outcome.dropped} of {COUNT} tables were dropped")
    common.drop_database(cluster, name)
    return COUNT / seconds


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
    ways: dict[str, tuple[Storage, Method]] = {
        f"{method}_{storage}": (storage, method) for storage in Storage for method in Method
    }
    rates: dict[str, list[float]] = defaultdict(list)
    with common.own_server() as (cluster, disk):
        conditions = common.conditions(cluster)
        for number in range(ROUNDS):
            contestants = [*ways, FILES]
            order.shuffle(contestants)
            for contestant in contestants:
                rate = remove_files(disk) if contestant == FILES else measure(cluster, *ways[contestant])
                rates[contestant].append(rate)
                common.say(f"round {number + 1}, {contestant}: {rate:,.0f}/s")
    median = {contestant: statistics.median(found) for contestant, found in rates.items()}
    lazy = median["bulk_lazy"] / median["sql_lazy"]
    heap = median["bulk_heap"] / median["sql_heap"]
    share = median["bulk_heap"] / median[FILES]
    common.table(
        "tables dropped a second, (i integer), medians",
        ("storage", "DROP TABLE", "drop_tables", "times", "empty files removed/s", "share of it"),
        [
            ["lazy", f"{median['sql_lazy']:,.0f}", f"{median['bulk_lazy']:,.0f}", f"{lazy:.2f}", "", ""],
            [
                "heap",
                f"{median['sql_heap']:,.0f}",
                f"{median['bulk_heap']:,.0f}",
                f"{heap:.2f}",
                f"{median[FILES]:,.0f}",
                f"{share:.2f}",
            ],
        ],
    )
    common.result(
        {
            "benchmark": "drop",
            "ratio_lazy_over_sql": round(lazy, 3),
            "ratio_heap_over_sql": round(heap, 3),
            "share_of_file_removal_rate": round(share, 3),
            "count": COUNT,
            "batch": {method.value: batch or "auto" for method, batch in BATCH.items()},
            "rounds": ROUNDS,
            "tables_per_second": {way: common.spread(rates[way]) for way in ways},
            "files_removed_per_second": common.spread(rates[FILES]),
            "quick": common.QUICK,
            "seed": seed,
            **conditions,
        }
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())

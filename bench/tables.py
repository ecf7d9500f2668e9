"""Method bulk beside method sql and beside the rate at which the file system makes empty files.

Same server, same count, two workers; on disk and on tmpfs; three models of tables. What is compared alternates. A
database is new for each measurement. On disk it stays until all is measured (see files.py), on tmpfs it is dropped at
once; neither is timed. QUICK=1 ends within a minute; SEED=… repeats an order, TMPFS=… names a tmpfs, PG_CONFIG=…
another PostgreSQL.
"""

from __future__ import annotations

import contextlib
import itertools
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import common
import files

from pgbillion.postgres import Cluster
from pgbillion.tables import create, describe, probe
from pgbillion.tables.host import Host
from pgbillion.tables.plan import Method
from pgbillion.tables.progress import Progress
from pgbillion.tables.run import Run

WORKERS = 2


@dataclass(frozen=True)
class Model:
    """A model of tables and how much of it to measure."""

    columns: str
    count: int
    rounds: int


MODELS = (
    [
        Model("i integer", 20_000, 2),
        Model("id serial primary key, t text", 1_000, 1),
        Model("id bigint primary key, name text, data jsonb", 1_000, 1),
    ]
    if common.QUICK
    else [
        Model("i integer", 100_000, 5),
        Model("id serial primary key, t text", 20_000, 3),
        Model("id bigint primary key, name text, data jsonb", 20_000, 3),
    ]
)
# Of one measurement with its database, on tmpfs, where only one is there at a time.
TMPFS_BYTES = 256 * 10**6 if common.QUICK else 1500 * 10**6

_numbers = itertools.count(1)


class _Quiet:
    def update(self, progress: Progress) -> None:
        """Let the run be unwatched."""


@contextlib.contextmanager
def _nobody() -> Iterator[_Quiet]:
    yield _Quiet()


@dataclass
class Place:
    """Where tables and files are made."""

    name: str
    tablespace: str
    folder: Path
    keep: bool


@dataclass
class Measured:
    """Measurements of one model in one place, in the order they were made: tables a second, files a second."""

    rates: dict[str, list[float]]
    files_a_table: float
    peak_memory: int

    @property
    def ratio(self) -> float:
        """Bulk over sql."""
        return statistics.median(self.rates["bulk"]) / statistics.median(self.rates["sql"])

    @property
    def share(self) -> float:
        """Files a second of bulk over those of the bare file system."""
        return statistics.median(self.rates["bulk"]) * self.files_a_table / statistics.median(self.rates["files"])

    def to_json(self) -> dict[str, Any]:
        """Return the measurements as JSON's types."""
        return {
            "tables_per_second_sql": common.spread(self.rates["sql"]),
            "tables_per_second_bulk": common.spread(self.rates["bulk"]),
            "empty_files_per_second": common.spread(self.rates["files"]),
            "files_per_table": self.files_a_table,
            "ratio_bulk_over_sql": round(self.ratio, 3),
            "share_of_file_creation_rate": round(self.share, 3),
            "peak_backend_memory_bytes": self.peak_memory,
        }


def measure(cluster: Cluster, place: Place, model: Model, order: Any) -> Measured:
    """Measure all contestants as many times as the model says, in a new order each round."""
    rates: dict[str, list[float]] = defaultdict(list)
    files_a_table, peak = 1.0, 0
    for round_number in range(model.rounds):
        contestants = ["sql", "bulk", "files"]
        order.shuffle(contestants)
        for contestant in contestants:
            if contestant == "files":
                # as many as a run makes, but no more than tell the rate
                number = min(round(model.count * files_a_table), 100_000)
                rate = number / files.creation_seconds(place.folder, number, WORKERS)
            else:
                rate, files_a_table, memory = _tables(cluster, place, model, Method(contestant))
                peak = max(peak, memory)
            rates[contestant].append(rate)
            common.say(f"{place.name}, ({model.columns}), round {round_number + 1}, {contestant}: {rate:,.0f}/s")
    return Measured(rates, files_a_table, peak)


def _tables(cluster: Cluster, place: Place, model: Model, method: Method) -> tuple[float, float, int]:
    """Make the model's tables; return tables a second, files a table, and the largest backend's private memory."""
    name = f"bench{next(_numbers)}"
    target = common.database(cluster, name, place.tablespace)
    with target.connect() as conn:
        host = Host.of(conn)
        plan = create.make_plan(conn, create.Request(model.count, WORKERS, method, columns=model.columns))
        create.check_server(conn, plan)
        cost = probe.measure(conn, plan, local=host is not None, sample=20)
        run = Run.create(place.folder / name, plan, describe.server(conn, target, plan, host))
        conn.execute("CHECKPOINT")
    psql = cluster.installation.program("psql")
    outcome = create.execute(target, run, interval=10, psql=psql, resume_command="", observe=_nobody)
    if not place.keep:
        common.drop_database(cluster, name)
    return outcome.rate, cost.files, outcome.peak_backend_memory or 0


def main() -> int:
    """Run the benchmark and return the exit status."""
    seed, order = common.seeded()
    with (
        common.own_server() as (cluster, disk),
        common.tmpfs(TMPFS_BYTES) as memory,
    ):
        places = [Place("disk", "pg_default", disk, keep=True)]
        if memory is not None:
            common.make_tablespace(cluster, "bench_tmpfs", memory)
            places.append(Place("tmpfs", "bench_tmpfs", memory, keep=False))
        conditions = common.conditions(cluster)
        measured = {
            (place.name, model.columns): measure(cluster, place, model, order) for model in MODELS for place in places
        }
    rows = [
        [
            f"({columns})",
            place,
            f"{statistics.median(one.rates['sql']):,.0f}",
            f"{statistics.median(one.rates['bulk']):,.0f}",
            f"{one.ratio:.2f}",
            f"{statistics.median(one.rates['files']):,.0f}",
            f"{one.share:.2f}",
            f"{one.peak_memory / 1e6:.1f} MB",
        ]
        for (place, columns), one in measured.items()
    ]
    common.table(
        f"tables a second, {WORKERS} workers, medians",
        ("model", "on", "sql", "bulk", "bulk/sql", "empty files/s", "share of it", "backend"),
        rows,
    )
    first = MODELS[0].columns
    on_tmpfs = measured.get(("tmpfs", first))
    common.result(
        {
            "benchmark": "tables",
            "ratio_bulk_over_sql": round(measured["disk", first].ratio, 3),
            "ratio_bulk_over_sql_tmpfs": round(on_tmpfs.ratio, 3) if on_tmpfs else None,
            "share_of_file_creation_rate": round(measured["disk", first].share, 3),
            "peak_backend_memory_bytes": max(one.peak_memory for one in measured.values()),
            "results": [
                {"on": place, "columns": columns, "count": model.count, "rounds": model.rounds, **one.to_json()}
                for (place, columns), one in measured.items()
                for model in MODELS
                if model.columns == columns
            ],
            "workers": WORKERS,
            "quick": common.QUICK,
            "seed": seed,
            **conditions,
        }
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Method bulk beside method sql and beside the rate at which the file system makes empty files.

Same server, same count, two workers; on disk and on tmpfs; three models of tables. On disk also with lazy storage,
which makes no file and so is the yardstick that no file system moves. What is compared alternates. A database is new
for each measurement. On disk it stays until all is measured (see files.py), on tmpfs it is dropped at once; neither
is timed. QUICK=1 ends within a minute; SEED=… repeats an order, TMPFS=… names a tmpfs, PG_CONFIG=… another PostgreSQL.
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
from pgbillion.tables.plan import Method, Storage
from pgbillion.tables.progress import Progress
from pgbillion.tables.run import Run

WORKERS = 2


@dataclass(frozen=True)
class Way:
    """A way of making tables."""

    method: Method
    storage: Storage = Storage.HEAP


WAYS = {
    "sql": Way(Method.SQL),
    "bulk": Way(Method.BULK),
    "sql_lazy": Way(Method.SQL, Storage.LAZY),
    "bulk_lazy": Way(Method.BULK, Storage.LAZY),
}
FILES = "files"


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
    contestants: tuple[str, ...]


@dataclass
class Measured:
    """Measurements of one model in one place, in the order they were made: tables a second, files a second."""

    rates: dict[str, list[float]]
    files_a_table: float
    peak_memory: int

    def median(self, contestant: str) -> float | None:
        """The median rate, None for who did not take part."""
        return statistics.median(self.rates[contestant]) if contestant in self.rates else None

    def ratio(self, contestant: str, over: str) -> float | None:
        """The medians' ratio."""
        above, below = self.median(contestant), self.median(over)
        return round(above / below, 3) if above is not None and below is not None else None

    @property
    def share(self) -> float:
        """Files a second of bulk over those of the bare file system."""
        return statistics.median(self.rates["bulk"]) * self.files_a_table / statistics.median(self.rates[FILES])

    def ratios(self) -> dict[str, float | None]:
        """Return who is how many times as fast as whom."""
        return {
            "ratio_bulk_over_sql": self.ratio("bulk", "sql"),
            "ratio_ordinary_over_sql_lazy": self.ratio("bulk_lazy", "sql_lazy"),
            "ratio_bulk_lazy_over_sql": self.ratio("bulk_lazy", "sql"),
        }

    def to_json(self) -> dict[str, Any]:
        """Return the measurements as JSON's types."""
        return {
            **{f"tables_per_second_{way}": common.spread(self.rates[way]) for way in WAYS if way in self.rates},
            "empty_files_per_second": common.spread(self.rates[FILES]),
            "files_per_table": self.files_a_table,
            **{name: ratio for name, ratio in self.ratios().items() if ratio is not None},
            "share_of_file_creation_rate": round(self.share, 3),
            "peak_backend_memory_bytes": self.peak_memory,
        }


def measure(cluster: Cluster, place: Place, model: Model, order: Any) -> Measured:
    """Measure all contestants as many times as the model says, in a new order each round."""
    rates: dict[str, list[float]] = defaultdict(list)
    files_a_table, peak = 1.0, 0
    for round_number in range(model.rounds):
        contestants = [*place.contestants, FILES]
        order.shuffle(contestants)
        for contestant in contestants:
            if contestant == FILES:
                # as many as a run makes, but no more than tell the rate
                number = min(round(model.count * files_a_table), 100_000)
                rate = number / files.creation_seconds(place.folder, number, WORKERS)
            else:
                rate, made, memory = _tables(cluster, place, model, WAYS[contestant])
                files_a_table, peak = max(files_a_table, made), max(peak, memory)
            rates[contestant].append(rate)
            common.say(f"{place.name}, ({model.columns}), round {round_number + 1}, {contestant}: {rate:,.0f}/s")
    return Measured(rates, files_a_table, peak)


def _tables(cluster: Cluster, place: Place, model: Model, way: Way) -> tuple[float, float, int]:
    """Make the model's tables; return tables a second, files a table, and the largest backend's private memory."""
    name = f"bench{next(_numbers)}"
    target = common.database(cluster, name, place.tablespace)
    with target.connect() as conn:
        host = Host.of(conn)
        request = create.Request(model.count, WORKERS, way.method, columns=model.columns, storage=way.storage)
        plan = create.make_plan(conn, request)
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
        places = [Place("disk", "pg_default", disk, True, tuple(WAYS))]
        if memory is not None:
            common.make_tablespace(cluster, "bench_tmpfs", memory)
            places.append(Place("tmpfs", "bench_tmpfs", memory, False, ("sql", "bulk")))
        conditions = common.conditions(cluster)
        measured = {
            (place.name, model.columns): measure(cluster, place, model, order) for model in MODELS for place in places
        }
    rows = [
        [
            f"({columns})",
            place,
            *(f"{rate:,.0f}" if (rate := one.median(way)) else "" for way in WAYS),
            f"{statistics.median(one.rates[FILES]):,.0f}",
            f"{one.share:.2f}",
            f"{one.peak_memory / 1e6:.1f} MB",
        ]
        for (place, columns), one in measured.items()
    ]
    common.table(
        f"tables a second, {WORKERS} workers, medians",
        (
            "model",
            "on",
            "sql",
            "bulk",
            "sql, lazy",
            "bulk, lazy",
            "empty files/s",
            "share",
            "backend",
        ),
        rows,
    )
    common.table(
        "how many times as fast, on disk",
        (
            "model",
            *(name.removeprefix("ratio_").replace("_", " ") for name in measured["disk", MODELS[0].columns].ratios()),
        ),
        [
            [f"({columns})", *(f"{ratio:.2f}" if ratio else "" for ratio in one.ratios().values())]
            for (place, columns), one in measured.items()
            if place == "disk"
        ],
    )
    first = MODELS[0].columns
    on_tmpfs = measured.get(("tmpfs", first))
    common.result(
        {
            "benchmark": "tables",
            **measured["disk", first].ratios(),
            "ratio_bulk_over_sql_tmpfs": on_tmpfs.ratio("bulk", "sql") if on_tmpfs else None,
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

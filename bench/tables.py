"""Method bulk beside method sql and beside the rate at which the file system makes empty files.

Same server, same count, two workers; on disk and on tmpfs; three models of tables. On disk also with lazy storage,
which makes no file and so is the yardstick that no file system moves, and by one worker. What is compared alternates. A
database is new for each measurement. On disk it stays until all is measured (see files.py), on tmpfs it is dropped at
once; neither is timed. What a table leaves in catalogs, files and WAL, times the rate, is set beside what the disk
takes (sequential, fsynced) and what memory copies (one thread) in the same run.

QUICK=1 ends within a minute; SEED=… repeats an order, TMPFS=… names a tmpfs, PG_CONFIG=… another PostgreSQL.
"""

from __future__ import annotations

import contextlib
import itertools
import statistics
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

import bandwidth
import common
import files
from pgbillion.common.host import Host
from pgbillion.common.progress import Progress
from pgbillion.server.postgres import Cluster
from pgbillion.tables import create, probe
from pgbillion.tables.plan import Method, Storage
from pgbillion.tables.run import Run

WORKERS = 2


@dataclass(frozen=True)
class Way:
    """A way of making tables."""

    method: Method
    storage: Storage = Storage.HEAP
    workers: int = WORKERS


WAYS = {
    "sql": Way(Method.SQL),
    "bulk": Way(Method.BULK),
    "sql_lazy": Way(Method.SQL, Storage.LAZY),
    "bulk_lazy": Way(Method.BULK, Storage.LAZY),
    "bulk_lazy_1": Way(Method.BULK, Storage.LAZY, workers=1),
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
    if common.QUICK and not common.TINY
    else [Model("i integer", 100, 1), Model("id serial primary key, t text", 20, 1)]
    if common.TINY
    else [
        Model("i integer", 100_000, 5),
        Model("id serial primary key, t text", 20_000, 2),
        Model("id bigint primary key, name text, data jsonb", 20_000, 2),
    ]
)
# Of one measurement with its database, on tmpfs, where only one is there at a time.
TMPFS_BYTES = common.sized(1500 * 10**6, 256 * 10**6, 64 * 10**6)
DISK_BYTES, MEMORY_BYTES = common.sized((2 * 10**9, 512 * 10**6), (256 * 10**6, 128 * 10**6), (32 * 10**6, 16 * 10**6))

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
    """Measurements of one model in one place, in the order they were made: tables per second, files per second."""

    rates: dict[str, list[float]]
    bytes_a_table: dict[str, list[float]]
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
        """Files per second of bulk over those of the bare file system."""
        return statistics.median(self.rates["bulk"]) * self.files_a_table / statistics.median(self.rates[FILES])

    def ratios(self) -> dict[str, float | None]:
        """Return who is how many times as fast as whom."""
        return {
            "ratio_bulk_over_sql": self.ratio("bulk", "sql"),
            "ratio_ordinary_over_sql_lazy": self.ratio("bulk_lazy", "sql_lazy"),
            "ratio_bulk_lazy_over_sql": self.ratio("bulk_lazy", "sql"),
            "ratio_two_workers_over_one": self.ratio("bulk_lazy", "bulk_lazy_1"),
        }

    def bytes_per_second(self, contestant: str) -> float | None:
        """What it writes, catalogs, files and WAL: the medians' product."""
        rate = self.median(contestant)
        return rate * statistics.median(self.bytes_a_table[contestant]) if rate is not None else None

    def to_json(self) -> dict[str, Any]:
        """Return the measurements as JSON's types."""
        return {
            "bytes_per_table": {way: round(statistics.median(found)) for way, found in self.bytes_a_table.items()},
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
    bytes_a_table: dict[str, list[float]] = defaultdict(list)
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
                rate, made, memory, written = _tables(cluster, place, model, WAYS[contestant])
                bytes_a_table[contestant].append(written)
                files_a_table, peak = max(files_a_table, made), max(peak, memory)
            rates[contestant].append(rate)
            common.say(f"{place.name}, ({model.columns}), round {round_number + 1}, {contestant}: {rate:,.0f}/s")
    return Measured(rates, bytes_a_table, files_a_table, peak)


def _tables(cluster: Cluster, place: Place, model: Model, way: Way) -> tuple[float, float, int, float]:
    """Make the model's tables; return tables per second, files per table, and bytes of the largest backend."""
    name = f"bench{next(_numbers)}"
    target = common.database(cluster, name, place.tablespace)
    with target.connect() as conn:
        host = Host.of(conn)
        request = create.Request(model.count, way.workers, way.method, columns=model.columns, storage=way.storage)
        plan = create.make_plan(conn, request)
        create.check_server(conn, plan)
        cost = probe.measure(conn, plan, local=host is not None, sample=20)
        run = Run.create(place.folder / name, plan, create.server(conn, target, plan, host))
        conn.execute("CHECKPOINT")
        before = _written(conn)
    psql = cluster.installation.program("psql")
    outcome = create.execute(target, run, interval=10, psql=psql, resume_command="", observe=_nobody)
    with target.connect() as conn:
        written = (_written(conn) - before) / model.count
    if not place.keep:
        common.drop_database(cluster, name)
    return outcome.rate, cost.files, outcome.peak_backend_memory or 0, written


def _written(conn: psycopg.Connection[Any]) -> int:
    """Return the bytes of the database, and of WAL up to now, together."""
    row = conn.execute(
        "SELECT pg_database_size(current_database()) + (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint"
    ).fetchone()
    assert row is not None
    return int(row[0])


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
        measured: dict[tuple[str, str], Measured] = {}
        bandwidths: dict[str, list[float]] = defaultdict(list)
        for model in MODELS:
            bandwidths["disk"].append(bandwidth.disk(disk, DISK_BYTES))
            bandwidths["memory"].append(bandwidth.memory(MEMORY_BYTES))
            for place in places:
                measured[place.name, model.columns] = measure(cluster, place, model, order)
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
        f"tables per second, {WORKERS} workers, medians",
        (
            "model",
            "on",
            "sql",
            "bulk",
            "sql, lazy",
            "bulk, lazy",
            "by one",
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
    on_disk = measured["disk", first]
    limit = {name: statistics.median(found) for name, found in bandwidths.items()}
    written = {way: found for way in WAYS if (found := on_disk.bytes_per_second(way)) is not None}
    common.table(
        f"catalogs, files and WAL of ({first}) on disk, beside what the disk takes ({limit['disk'] / 1e6:,.0f} MB/s)"
        f" and memory copies ({limit['memory'] / 1e6:,.0f} MB/s)",
        ("way", "bytes per table", "MB/s", "of the disk", "of memory"),
        [
            [
                way.replace("_1", ", one worker").replace("_", ", "),
                f"{statistics.median(on_disk.bytes_a_table[way]):,.0f}",
                f"{found / 1e6:,.0f}",
                f"{found / limit['disk']:.2f}",
                f"{found / limit['memory']:.3f}",
            ]
            for way, found in written.items()
        ],
    )
    ordinary = on_disk.ratios()
    on_tmpfs = measured.get(("tmpfs", first))
    common.result(
        {
            "benchmark": "tables",
            **ordinary,
            # there is no mode that keeps others out of the catalogs: none was faster
            "exclusive_is_ordinary": True,
            "ratio_exclusive_over_sql_lazy": ordinary["ratio_ordinary_over_sql_lazy"],
            "ratio_exclusive_over_sql": ordinary["ratio_bulk_lazy_over_sql"],
            "disk_bytes_per_second": round(limit["disk"]),
            "memory_copy_bytes_per_second": round(limit["memory"]),
            "bytes_per_second": {way: round(found) for way, found in written.items()},
            "share_of_disk_bandwidth": round(written["bulk_lazy"] / limit["disk"], 3),
            "share_of_memory_bandwidth": round(written["bulk_lazy"] / limit["memory"], 4),
            "ratio_bulk_over_sql_tmpfs": on_tmpfs.ratio("bulk", "sql") if on_tmpfs else None,
            "share_of_file_creation_rate": round(on_disk.share, 3),
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
    common.run(main)

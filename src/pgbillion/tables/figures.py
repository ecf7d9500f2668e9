"""The figures of a run, from its samples: plain numbers, for the page and for --json."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from pgbillion.report.charts import Series
from pgbillion.tables.run import Run


@dataclass(frozen=True)
class Figures:
    """All that the page shows of one run; bytes, seconds, tables per second."""

    count: int
    total: int
    created: int
    seconds: float
    attempts: int
    outcome: str
    rate: float | None
    peak_rate: float | None
    median_rate: float | None
    catalog_growth: int | None
    catalog_bytes_per_table: float | None
    disk_growth: int | None
    file_growth: int | None
    wal_written: int | None
    peak_backend_memory: int | None
    mean_load: float | None
    mean_backend_cpu: float | None  # of one core: 1.0 is a backend that never waits
    sampling_share: float | None  # time spent on samples by time of the run
    resumed_at: list[float]
    rates: Series
    tables: Series
    worker_rates: list[Series] = field(default_factory=list)
    disk: list[Series] = field(default_factory=list)
    memory: list[Series] = field(default_factory=list)
    load: list[Series] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Return the figures as JSON's types."""
        return asdict(self)


def figures(run: Run) -> Figures:
    """Work out the figures of a run."""
    samples = run.samples()
    x, resumed_at = _time(samples)
    pairs, ends = _pairs(samples)
    rated, rated_ends = _pairs(without_moments(samples))
    beginning = x[:1]
    rates = [_rate(one["total"], two["total"], one, two) for one, two in rated]
    known_rates = [rate for rate in rates if rate is not None]
    journal = run.journal
    seconds = journal.seconds or (x[-1] if x else 0.0)
    created = journal.created or _sum_growth(pairs, lambda sample: sample["total"]) or 0
    memories = [attempt.peak_backend_memory for attempt in journal.attempts if attempt.peak_backend_memory is not None]
    memories += [sample["memory"]["largest"] for sample in samples if sample["memory"]["largest"] is not None]
    catalogs = _sum_growth(pairs, lambda sample: sample["disk"]["base"])
    cpu = [_cpu(one, two) for one, two in pairs]
    known_cpu = [value for value in cpu if value is not None]
    loads = [sample["load"][0] for sample in samples if sample["load"]]
    workers = len(samples[0]["workers"]) if samples else 0
    return Figures(
        count=run.plan.count,
        total=journal.attempts[-1].total if journal.attempts else 0,
        created=created,
        seconds=seconds,
        attempts=len(journal.attempts),
        outcome=journal.outcome,
        rate=created / seconds if seconds else None,
        peak_rate=max(known_rates, default=None),
        median_rate=statistics.median(known_rates) if known_rates else None,
        catalog_growth=catalogs,
        catalog_bytes_per_table=catalogs / created if catalogs is not None and created else None,
        disk_growth=_sum_growth(pairs, _used),
        file_growth=_sum_growth(pairs, _files),
        wal_written=_sum_growth(pairs, lambda sample: sample["disk"]["wal_position"]),
        peak_backend_memory=max(memories, default=None),
        mean_load=statistics.fmean(loads) if loads else None,
        mean_backend_cpu=statistics.fmean(known_cpu) / workers if known_cpu and workers else None,
        sampling_share=sum(sample["cost"] for sample in samples) / seconds if seconds else None,
        resumed_at=resumed_at,
        rates=_steps("between two samples", beginning + rated_ends, rates),
        tables=Series("tables", x, [sample["total"] for sample in samples]),
        worker_rates=[
            _steps(
                f"worker {worker + 1}",
                beginning + rated_ends,
                [
                    _rate(one["workers"][worker]["tables"], two["workers"][worker]["tables"], one, two)
                    for one, two in rated
                ],
            )
            for worker in range(workers)
        ],
        disk=[
            series
            for series in (
                _grown("catalogs", x, samples, lambda sample: sample["disk"]["base"]),
                _grown("tablespaces", x, samples, _tablespaces),
                _grown("file systems, by everybody", x, samples, _used),
                Series("write-ahead log kept", x, [sample["disk"]["wal"] for sample in samples]),
            )
            if series.known and any(series.y)
        ],
        memory=[
            series
            for series in (
                Series("largest backend", x, [sample["memory"]["largest"] for sample in samples]),
                Series("all workers' backends", x, [sample["memory"]["backends"] for sample in samples]),
            )
            if series.known
        ],
        load=[
            series
            for series in (
                Series(
                    "load average, 1 minute", x, [sample["load"][0] if sample["load"] else None for sample in samples]
                ),
                _steps("CPU cores used by the backends", beginning + ends, cpu),
            )
            if series.known
        ],
    )


def _pairs(
    samples: Sequence[dict[str, Any]],
) -> tuple[list[tuple[dict[str, Any], dict[str, Any]]], list[float]]:
    """Return neighbors of the same attempt, and the second's places on the axis of working time."""
    x, _ = _time(samples)
    near = [index for index in range(len(samples) - 1) if _same_attempt(samples[index], samples[index + 1])]
    return [(samples[index], samples[index + 1]) for index in near], [x[index + 1] for index in near]


def without_moments(samples: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Leave out the last sample but one of an attempt where the last, which does not wait, came soon after it.

    The rates of so short a time are those of a batch or two, and their peaks nobody's.
    """
    kept: list[dict[str, Any]] = []
    for sample in samples:
        if len(kept) > 1 and {one["attempt"] for one in kept[-2:]} == {sample["attempt"]}:
            before, last = kept[-2]["elapsed"], kept[-1]["elapsed"]
            if sample["elapsed"] - last < (last - before) / 2:
                kept.pop()
        kept.append(sample)
    return kept


def _same_attempt(one: dict[str, Any], two: dict[str, Any]) -> bool:
    # the last two records of an attempt may be a moment apart: no rate can be had from that
    return bool(one["attempt"] == two["attempt"] and two["elapsed"] - one["elapsed"] > 0.05)


def _time(samples: Sequence[dict[str, Any]]) -> tuple[list[float], list[float]]:
    """Return each sample's place on the axis of working time, and where attempts after the first begin."""
    x: list[float] = []
    resumed: list[float] = []
    offset = 0.0
    for index, sample in enumerate(samples):
        if index and sample["attempt"] != samples[index - 1]["attempt"]:
            offset = x[-1]
            resumed.append(offset)
        x.append(offset + sample["elapsed"])
    return x, resumed


def _rate(before: int, after: int, one: dict[str, Any], two: dict[str, Any]) -> float | None:
    seconds: float = two["elapsed"] - one["elapsed"]
    return max(0, after - before) / seconds


def _sum_growth(pairs: Sequence[tuple[dict[str, Any], dict[str, Any]]], value: Any) -> int | None:
    """Sum what a value grew by within attempts; None when it was never known."""
    known = [(value(one), value(two)) for one, two in pairs]
    grown = [after - before for before, after in known if before is not None and after is not None]
    return sum(grown) if grown else None


def _steps(name: str, x: list[float], y: list[float | None]) -> Series:
    """Return a line of steps; its first point only says where the first step begins."""
    return Series(name, x, [*y[:1], *y], steps=True)


def _used(sample: dict[str, Any]) -> int | None:
    systems = sample["disk"]["filesystems"].values()
    return sum(system["used"] for system in systems) if systems else None


def _files(sample: dict[str, Any]) -> int | None:
    files = [system["files"] for system in sample["disk"]["filesystems"].values() if system["files"] is not None]
    return sum(files) if files else None


def _tablespaces(sample: dict[str, Any]) -> int | None:
    sizes = sample["disk"]["tablespaces"]
    return sum(sizes.values()) if sizes else None


def _grown(name: str, x: list[float], samples: Sequence[dict[str, Any]], value: Any) -> Series:
    values = [value(sample) for sample in samples]
    start = next((known for known in values if known is not None), 0)
    return Series(name, x, [None if known is None else known - start for known in values])


def _cpu(one: dict[str, Any], two: dict[str, Any]) -> float | None:
    """Return the cores that the workers' backends used between two samples; those that changed are left out."""
    used: list[float] = [
        after["cpu"] - before["cpu"]
        for before, after in zip(one["workers"], two["workers"], strict=True)
        if before["backend"] == after["backend"] and before["cpu"] is not None and after["cpu"] is not None
    ]
    seconds: float = two["elapsed"] - one["elapsed"]
    return sum(used) / seconds if used else None

"""The source's 32 servers of 16 cores with 100 million rows each, by arithmetic from what `make bench-shards` measured.

`python bench/prediction.py FILE` takes the benchmark's line of JSON and prints docs/prediction.md. Nothing here is
measured but what the line says; what is assumed stands with each case.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2

SERVERS, CORES, ROWS = 32, 16, 100_000_000
SOURCE_SECONDS = 2.91
# assumed, not measured: servers in one room
ROUND_TRIP_MS = 0.5
# the request and its answer; a connection takes more (start, authentication, settings)
TRIPS, TRIPS_TO_CONNECT = 1, 5


@dataclass(frozen=True)
class Case:
    """What is assumed of a server, and what follows, in milliseconds."""

    name: str
    shard: float
    coordinator: float
    connecting: float

    @property
    def warm(self) -> float:
        """The query over connections that are there."""
        return self.shard + self.coordinator

    @property
    def cold(self) -> float:
        """The first query of a session."""
        return self.warm + self.connecting


@dataclass(frozen=True)
class Prediction:
    """The cases, and the same arithmetic for what was measured, in milliseconds."""

    cases: tuple[Case, ...]
    here_predicted: float
    here_measured: float

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON's types."""
        cases = {
            case.name: {
                "shard_ms": round(case.shard, 1),
                "coordinator_ms": round(case.coordinator, 1),
                "warm_ms": round(case.warm, 1),
                "cold_ms": round(case.cold, 1),
                "rows_per_second": round(SERVERS * ROWS / case.warm * 1000),
            }
            for case in self.cases
        }
        return {"cases": cases, "here_ms": round(self.here_predicted, 1), "measured_ms": round(self.here_measured, 1)}


def predict(measured: dict[str, Any]) -> Prediction:
    """Return what follows from the benchmark's figures."""
    alone = {int(processes): rate for processes, rate in measured["rows_per_second_alone"].items()}
    warm, cold = measured["breadth"]["warm"], measured["breadth"]["cold"]
    slowest = measured["slowest_over_median"]
    coordinator = warm["ms_at_none"] + SERVERS * warm["ms_per_shard"] + TRIPS * ROUND_TRIP_MS
    # connections are made at the same time: what each costs the coordinator adds up, its round trips do not
    connecting = SERVERS * (cold["ms_per_shard"] - warm["ms_per_shard"]) + TRIPS_TO_CONNECT * ROUND_TRIP_MS
    memory = ROWS * measured["bytes_per_row"] / measured["memory_bytes_per_second"] * 1000
    straight = ROWS / (CORES * alone[1]) * 1000
    here = max(alone.values())
    cases = tuple(
        Case(name, milliseconds * slowest, coordinator, connecting)
        for name, milliseconds in (
            (f"{CORES} CPU cores are {CORES} times as fast as one", max(straight, memory)),
            (f"{CORES} CPU cores are as fast as {max(alone)} here", ROWS / here * 1000),
            ("as the first line, not vectorized", ROWS / (CORES * measured["rows_per_second_postgresql"]) * 1000),
        )
    )
    query = measured["rows"] / here * 1000 + warm["ms_at_none"] + measured["shards"] * warm["ms_per_shard"]
    return Prediction(cases, query, measured["milliseconds"]["pgbillion_fdw"]["median"])


def rows(found: Prediction) -> list[list[str]]:
    """Return a table's rows: case, shard, coordinator, warm, cold, rows per second, over the source."""
    return [
        [
            case.name,
            f"{case.shard:,.0f}",
            f"{case.coordinator:.1f}",
            f"{case.warm:,.0f}",
            f"{case.cold:,.0f}",
            f"{SERVERS * ROWS / case.warm / 1e6:,.1f} G",
            f"{SOURCE_SECONDS * 1000 / case.warm:.1f}",
        ]
        for case in found.cases
    ]


HEADER = (
    "assumption",
    "slowest shard, ms",
    "coordinator, ms",
    "query, ms",
    "first query, ms",
    "rows/s",
    "times as fast as Cybertec",
)


def page(measured: dict[str, Any]) -> str:
    """Return docs/prediction.md."""
    found = predict(measured)
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.get_template("prediction.md.j2").render(
        m=measured,
        found=found,
        header=HEADER,
        rows=rows(found),
        alone=sorted((int(processes), rate) for processes, rate in measured["rows_per_second_alone"].items()),
        round_trip=ROUND_TRIP_MS,
        trips=TRIPS,
        connect=TRIPS_TO_CONNECT,
    )


def main() -> int:
    """Print the page for the JSON line in a file."""
    if len(sys.argv) != 2:
        print("usage: prediction.py FILE, with the line of JSON that make bench-shards printed", file=sys.stderr)
        return 1
    lines = Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()
    print(page(json.loads(next(line for line in reversed(lines) if line.startswith("{")))), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())

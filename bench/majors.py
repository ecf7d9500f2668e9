"""The other benchmarks on two PostgreSQLs, alternating: what is faster on the later one, with pgbillion and without.

Each benchmark runs on the one, then on the other, and its line for programs is kept in the state directory, so that a
run that was cut off goes on; FRESH=1 measures again. BENCHMARKS=rows,tpch,… are only these; the table at the end shows
all that are kept. FIRST=… and SECOND=… are the pg_config of the two. Without them, these are 18 and 19 as Debian builds
them for sid and experimental, since the same compiler, flags and libraries make the two comparable. QUICK=1 is for all.
Before a benchmark that makes many files it waits SETTLE=240 seconds for what the one before has removed.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import common
from pgbillion.common import paths
from pgbillion.server.postgres import make_folder

PROJECT = Path(__file__).parents[1]
ALL = ("rows", "tpch", "hits", "columns", "tenants", "tables", "drop")
CHOSEN = os.environ["BENCHMARKS"].split(",") if os.environ.get("BENCHMARKS") else ALL
FRESH = bool(os.environ.get("FRESH"))
POSTGRESQL = "PostgreSQL"
SIDES = (POSTGRESQL, "pgbillion", "heap vectors", "columns", "with columns", "DuckDB")
# of a benchmark that counts tables or schemas: the figures to show, where its line has them
FIGURES = {
    "tenants": ("ratio_bulk_over_sql", "ratio_bulk_over_sql_heap", "ms_single", "ratio_migrate", "diff_tables_per_s"),
    "tables": (
        "ratio_bulk_over_sql",
        "ratio_bulk_over_sql_tmpfs",
        "ratio_ordinary_over_sql_lazy",
        "ratio_bulk_lazy_over_sql",
    ),
    "drop": ("ratio_heap_over_sql", "ratio_lazy_over_sql"),
}
LEAST = 0.95
# file systems are busy with removed files for minutes, and make new ones ten times as slowly meanwhile
OF_FILES = ("tenants", "tables", "drop")
SETTLE_SECONDS = int(os.environ.get("SETTLE") or common.sized(240, 240, 0))

Line = Mapping[str, Any]
Milliseconds = dict[tuple[str, str], dict[str, float]]
"""Medians by side and number of processes ("" where a benchmark has one only), then by query."""


def configs() -> list[Path]:
    """Return the two pg_config."""
    return [Path(os.environ.get(name) or fetched(major)) for name, major in (("FIRST", "18"), ("SECOND", "19"))]


def fetched(major: str) -> str:
    """Return pg_config of a major as Debian's newest suites have it."""
    command = [str(PROJECT / "tools" / "postgres.sh"), "sid", major]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def version(config: Path) -> str:
    """Return what pg_config calls itself: its major, and what a release candidate adds."""
    output = subprocess.run([config, "--version"], check=True, stdout=subprocess.PIPE, text=True).stdout
    return output.split()[1]


def kept(folder: Path, benchmark: str, place: int) -> Path:
    """Return the file with the line of a benchmark on the first or second PostgreSQL."""
    return folder / f"{benchmark}-{place}{'-quick' if common.QUICK else ''}.json"


def measure(benchmark: str, config: Path, file: Path) -> None:
    """Run a benchmark and keep its line."""
    done = subprocess.run(
        [sys.executable, Path(__file__).with_name(f"{benchmark}.py")],
        env={**os.environ, "PG_CONFIG": str(config)},
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    unfinished = file.with_suffix(".new")
    unfinished.write_text(done.stdout.splitlines()[-1], encoding="utf-8")
    unfinished.rename(file)


def milliseconds(line: Line) -> Milliseconds:
    """Return the medians of a benchmark of queries; where a side has PostgreSQL's plan, it has PostgreSQL's time."""
    found: Milliseconds = defaultdict(dict)
    for key, spread in line.get("milliseconds", {}).items():
        parts = key.split(", ")
        side = next((part for part in parts[1:] if part in SIDES), None)
        if side is not None:
            processes = next((part for part in parts[1:] if part.isdigit()), "")
            found[side, processes][parts[0]] = spread["median"]
    for (_, processes), queries in found.items():
        for query, median in found.get((POSTGRESQL, processes), {}).items():
            queries.setdefault(query, median)
    return found


def compare(benchmark: str, first: Line, second: Line) -> Iterator[tuple[str, ...]]:
    """Yield rows of the table: who, how many times as fast the second is as the first, and ratios to core on both."""
    before, after = milliseconds(first), milliseconds(second)
    for side, processes in sorted(before, key=lambda key: (key[1], SIDES.index(key[0]))):
        queries = sorted(before[side, processes])
        ratios = [
            [found[POSTGRESQL, processes][query] / found[side, processes][query] for query in queries]
            for found in (before, after)
        ]
        speed = statistics.geometric_mean(
            [before[side, processes][query] / after[side, processes][query] for query in queries]
        )
        who = f"{benchmark}, {side}" + (f", {processes}" if processes else "")
        shown = (
            [""] * 4 if side == POSTGRESQL else [f"{value:.2f}" for found in ratios for value in _center_lowest(found)]
        )
        yield (f"{who} ({len(queries)} queries)", f"{speed:.2f}", *shown)
    for key in FIGURES.get(benchmark, ()):
        if first.get(key) is not None and second.get(key) is not None:
            yield (f"{benchmark}, {key}", "", f"{first[key]:,}", "", f"{second[key]:,}", "")


def _center_lowest(ratios: list[float]) -> tuple[float, float]:
    return statistics.geometric_mean(ratios), min(ratios)


def losers(benchmark: str, line: Line) -> Iterator[str]:
    """Yield the queries of which ours is slower than PostgreSQL's own plan on the second."""
    found = milliseconds(line)
    for (side, processes), queries in found.items():
        if side in (POSTGRESQL, "DuckDB"):
            continue
        for query, median in queries.items():
            ratio = found[POSTGRESQL, processes][query] / median
            if ratio < LEAST:
                yield f"{benchmark}, {query}, {side}{', ' + processes if processes else ''}: {ratio:.2f}"


def main() -> int:
    """Run the benchmarks and return the exit status."""
    chosen = configs()
    versions = [version(config) for config in chosen]
    folder = paths.state_dir() / "bench-majors"
    make_folder(folder)
    for benchmark in CHOSEN:
        for place, config in enumerate(chosen, 1):
            file = kept(folder, benchmark, place)
            if FRESH or not file.exists():
                if benchmark in OF_FILES:
                    common.say(f"waiting {SETTLE_SECONDS} s until the file system has done with removed files")
                    os.sync()
                    time.sleep(SETTLE_SECONDS)
                common.say(f"{benchmark} on {versions[place - 1]}")
                measure(benchmark, config, file)
    rows: list[tuple[str, ...]] = []
    slower: list[str] = []
    hardware = None
    for benchmark in ALL:
        files = [kept(folder, benchmark, place) for place in (1, 2)]
        if all(file.exists() for file in files):
            first, second = (json.loads(file.read_text(encoding="utf-8")) for file in files)
            rows += compare(benchmark, first, second)
            slower += losers(benchmark, second)
            hardware = second["hardware"]
    common.table(
        f"{versions[1]} beside {versions[0]}",
        ("", "speed", f"ratio {versions[0]}", "lowest", f"ratio {versions[1]}", "lowest"),
        rows,
    )
    for one in slower:
        common.say(f"slower than PostgreSQL {versions[1]} by itself: {one}")
    common.result(
        {
            "benchmark": "majors",
            "versions": versions,
            "rows": rows,
            "slower": slower,
            "quick": common.QUICK,
            "hardware": hardware,
        }
    )
    return 0


if __name__ == "__main__":
    common.run(main)

"""Draw for the documentation what was measured: plot.py WHAT FILE.svg.

WHAT is the folder of a run, the state directory of a ladder, or what bench/hits.py has printed.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

import common
from pgbillion.common import text
from pgbillion.ladder import climb, page, record
from pgbillion.ladder.climb import Rung
from pgbillion.report.charts import Series
from pgbillion.tables.figures import figures
from pgbillion.tables.run import Run

UNITS = {"count": "", "bytes": "B"}


def run(folder: Path, output: Path) -> dict[str, Any]:
    """Draw a run's course over time, and return its figures."""
    found = figures(Run.open(folder))
    title = f"{text.count(found.created)} tables in {text.duration(found.seconds)}"
    panels = [
        ("tables per second", "", [found.rates]),
        ("disk", "B", found.disk),
        ("private memory", "B", found.memory),
    ]
    _draw(panels, title, "seconds", output)
    return {name: value for name, value in found.to_json().items() if not isinstance(value, list | dict)}


def ladder(state: Path, output: Path) -> dict[str, Any]:
    """Draw what was measured of a ladder over its number of tables, and return the figures of its top."""
    found = record.existing(state)
    rungs = [Rung(**values) for values in found.results()]
    title = f"{text.count(rungs[-1].tables)} tables in {text.duration(sum(rung.seconds for rung in rungs))}"
    panels = [(one.title, UNITS[one.unit], one.lines) for one in page.panels(rungs, climb.runs(found))]
    _draw(panels, title, "tables", output, marker="o")
    return dataclasses.asdict(rungs[-1])


def hits(printed: Path, output: Path) -> dict[str, Any]:
    """Draw how many times as fast as PostgreSQL each query is, and return the figures of all together."""
    found: dict[str, Any] = json.loads(printed.read_text(encoding="utf-8").splitlines()[-1])
    milliseconds = {name: values["median"] for name, values in found["milliseconds"].items()}
    queries = [name.partition(",")[0] for name in found["ratios"]]
    theirs = {query: found["duckdb_milliseconds"][f"{query}, 1"]["median"] for query in queries}
    sides = {
        "vectorized over the heap": [found["ratios"][f"{query}, 1"]["pgbillion"] for query in queries],
        "columnar indexes": [found["ratios"][f"{query}, 1"]["with columns"] for query in queries],
        "DuckDB, one thread": [milliseconds[f"{query}, PostgreSQL, 1"] / theirs[query] for query in queries],
    }
    mpl.rcParams |= {"svg.fonttype": "none", "svg.hashsalt": "hits"}
    figure = Figure(figsize=(8, 11), layout="constrained")
    axes = figure.subplots()
    rows = range(len(queries))
    for (name, ratios), marker in zip(sides.items(), "so|", strict=True):
        axes.scatter(ratios, rows, label=name, marker=marker, s=60 if marker == "|" else 18, zorder=2)
    axes.hlines(rows, 1, [max(ratios) for ratios in zip(*sides.values(), strict=True)], color="0.85", zorder=1)
    axes.axvline(1, color="black", linestyle="dashed", linewidth=1)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(EngFormatter())
    axes.set_yticks(rows, [query.replace("_", " ") for query in queries], fontsize=8)
    axes.set_ylim(len(queries), -1)
    axes.set_xlabel("times as fast as PostgreSQL (dashed)")
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.legend(frameon=False, fontsize=9, loc="lower right")
    figure.savefig(output, metadata={"Date": None, "Creator": None})
    return {name: value for name, value in found.items() if name.startswith("hits_")}


def _draw(
    panels: Sequence[tuple[str, str, list[Series]]], title: str, over: str, output: Path, marker: str | None = None
) -> None:
    """Write plots one below the other; a panel has a label, a unit and lines."""
    mpl.rcParams |= {"svg.fonttype": "none", "svg.hashsalt": "run"}
    figure = Figure(figsize=(8, 7), layout="constrained")
    figure.suptitle(title, fontsize=11)
    for axes, (label, unit, lines) in zip(figure.subplots(len(panels), sharex=True), panels, strict=True):
        for line in lines:
            y = [float("nan") if value is None else value for value in line.y]
            drawn = "steps-pre" if line.steps else "default"
            axes.plot(line.x, y, label=line.name, drawstyle=drawn, linewidth=1.5, marker=marker, markersize=3)
        axes.set_ylabel(label)
        axes.yaxis.set_major_formatter(EngFormatter(unit))
        axes.set_ylim(0, 1.05 * axes.get_ylim()[1])
        axes.grid(axis="y", alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
        if len(lines) > 1:
            axes.legend(frameon=False, fontsize=8)
    axes.set_xlim(left=0)
    axes.xaxis.set_major_formatter(EngFormatter())
    axes.set_xlabel(over)
    figure.savefig(output, metadata={"Date": None, "Creator": None})


def main(what: Path, output: Path) -> int:
    """Draw it, and print the figures."""
    draw = hits if what.is_file() else run if (what / "plan.json").exists() else ladder
    common.result(draw(what, output))
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))

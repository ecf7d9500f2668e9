"""Draw each query's ratio for the documentation: ratios.py FILE CHART.svg.

FILE is the line of JSON that make bench-tpch or make bench-hits printed last; its ratios are drawn as bars, on a
logarithmic scale, from PostgreSQL's own time.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter

_COLORS = ("#336791", "#8fb4d9", "#d9a441")
_TICKS = (0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500)


def bars(ratios: dict[str, dict[str, float]]) -> tuple[list[str], dict[str, list[float]]]:
    """Give the queries, and for each kind of run (side, processes) a ratio for each query, in the same order."""
    queries: list[str] = []
    kinds: dict[str, dict[str, float]] = {}
    several = len({key.rpartition(", ")[2] for key in ratios}) > 1
    for key, sides in ratios.items():
        query, _, processes = key.rpartition(", ")
        if query not in queries:
            queries.append(query)
        for side, ratio in sides.items():
            of = f"{processes} process{'es' if processes != '1' else ''}"
            kinds.setdefault(f"{side}, {of}" if several or len(sides) == 1 else side, {})[query] = ratio
    return queries, {kind: [found.get(query, float("nan")) for query in queries] for kind, found in kinds.items()}


def draw(figures: dict[str, dict[str, dict[str, float]]], file: Path) -> None:
    """Write the chart: a group of bars for each query, a dashed line where PostgreSQL is."""
    queries, kinds = bars(figures["ratios"])
    mpl.rcParams |= {"svg.fonttype": "none", "svg.hashsalt": "ratios"}
    thick = 0.8 / len(kinds)
    figure = Figure(figsize=(8, 0.8 + 0.22 * len(queries) * max(1.0, len(kinds) * 0.7)), layout="constrained")
    axes = figure.subplots()
    for number, (kind, found) in enumerate(kinds.items()):
        places = [place + (number - (len(kinds) - 1) / 2) * thick for place in range(len(queries))]
        axes.barh(places, [ratio - 1 for ratio in found], height=thick, left=1, color=_COLORS[number], label=kind)
    axes.axvline(1, color="#555555", linestyle="--", linewidth=1)
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(FixedLocator(_TICKS))
    axes.xaxis.set_minor_locator(FixedLocator([]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.set_yticks(range(len(queries)), [query.replace("_", " ") for query in queries], fontsize=8)
    axes.set_ylim(len(queries) - 0.4, -0.6)
    axes.set_xlabel("times as fast as PostgreSQL (dashed)")
    axes.grid(axis="x", alpha=0.3)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    if len(kinds) > 1:
        axes.legend(frameon=False, fontsize=8, loc="lower right")
    figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(
            "usage: ratios.py FILE CHART.svg, with the line of JSON that make bench-tpch or make bench-hits printed"
        )
    draw(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()[-1]), Path(sys.argv[2]))

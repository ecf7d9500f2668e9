"""docs/billion-rows.md and its chart, from what `make bench-billion` measured.

`python bench/billion_page.py FILE CHART.svg` takes the benchmark's line of JSON, draws the chart and prints the page.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import jinja2
import matplotlib as mpl
from matplotlib.figure import Figure

import prediction
from pgbillion.common import text

SOURCE_ROWS = prediction.SERVERS * prediction.ROWS
SOURCE_CORES = prediction.SERVERS * prediction.CORES
SOURCE_RATE = SOURCE_ROWS / prediction.SOURCE_SECONDS


def bars(measured: dict[str, Any]) -> list[tuple[str, float]]:
    """Return the chart's bars: names, and billions of rows per second."""
    cores = measured["hardware"]["cores"]
    ours = measured["rows_per_s"]
    return [
        (f"Cybertec, {prediction.SERVERS} servers,\n{SOURCE_CORES} CPU cores", SOURCE_RATE / 1e9),
        (f"PostgreSQL {measured['versions']['postgresql']},\n2 processes, once", rate(measured, "postgresql_s") / 1e9),
        ("columns, 1 process", ours["1"] / 1e9),
        (f"columns, 2 processes,\n{cores} CPU cores", ours["2"] / 1e9),
    ]


def rate(measured: dict[str, Any], key: str) -> float:
    """Return the rows per second of a query over all rows."""
    return float(measured["rows"] / measured[key])


def draw(measured: dict[str, Any], file: Path) -> None:
    """Draw the bars."""
    found = bars(measured)
    mpl.rcParams |= {"svg.fonttype": "none", "svg.hashsalt": "billion"}
    figure = Figure(figsize=(8, 3), layout="constrained")
    axes = figure.subplots()
    drawn = axes.barh([name for name, _ in found], [value for _, value in found], color="#336791")
    axes.bar_label(drawn, labels=[f"{value:.2g}" if value < 1 else f"{value:.2f}" for _, value in found], padding=3)
    axes.invert_yaxis()
    axes.set_xlabel("billion rows per second")
    axes.set_xlim(right=1.1 * max(value for _, value in found))
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})


def page(measured: dict[str, Any], chart: str) -> str:
    """Return docs/billion-rows.md."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    steps = [
        (name, measured[name]["seconds"], measured[name]["rows"] / measured[name]["seconds"])
        for name in ("loading", "analyzing", "indexing")
        if measured.get(name)
    ]
    return environment.get_template("billion-rows.md.j2").render(
        m=measured,
        chart=chart,
        steps=steps,
        count=text.count,
        duration=text.duration,
        size=text.size,
        source={"rows": SOURCE_ROWS, "rate": SOURCE_RATE, "cores": SOURCE_CORES, "seconds": prediction.SOURCE_SECONDS},
    )


def main() -> int:
    """Draw the chart of the JSON line in a file, and print the page."""
    if len(sys.argv) != 3:
        usage = "usage: billion_page.py FILE CHART.svg, with the line of JSON that make bench-billion printed"
        print(usage, file=sys.stderr)
        return 1
    lines = Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()
    measured = json.loads(next(line for line in reversed(lines) if line.startswith("{")))
    chart = Path(sys.argv[2])
    draw(measured, chart)
    print(page(measured, chart.name), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())

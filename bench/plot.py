"""Draw a run's course for the documentation: plot.py RUN-FOLDER FILE.svg; the same figures as its report."""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

import common
from pgbillion.common import text
from pgbillion.report.charts import Series
from pgbillion.tables.figures import figures
from pgbillion.tables.run import Run


def main(folder: Path, output: Path) -> int:
    """Write three plots over time, one below the other, and print the figures."""
    found = figures(Run.open(folder))
    panels: list[tuple[str, str, list[Series]]] = [
        ("tables per second", "", [found.rates]),
        ("disk", "B", found.disk),
        ("private memory", "B", found.memory),
    ]
    mpl.rcParams |= {"svg.fonttype": "none", "svg.hashsalt": "run"}
    figure = Figure(figsize=(8, 7), layout="constrained")
    figure.suptitle(f"{text.count(found.created)} tables in {text.duration(found.seconds)}", fontsize=11)
    for axes, (label, unit, lines) in zip(figure.subplots(len(panels), sharex=True), panels, strict=True):
        for line in lines:
            y = [float("nan") if value is None else value for value in line.y]
            axes.plot(line.x, y, label=line.name, drawstyle="steps-pre" if line.steps else "default", linewidth=1.5)
        axes.set_ylabel(label)
        axes.yaxis.set_major_formatter(EngFormatter(unit))
        axes.set_ylim(bottom=0)
        axes.grid(axis="y", alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
        if len(lines) > 1:
            axes.legend(frameon=False, fontsize=8)
    axes.set_xlim(left=0)
    axes.set_xlabel("seconds")
    figure.savefig(output, metadata={"Date": None, "Creator": None})
    common.result({name: value for name, value in found.to_json().items() if not isinstance(value, list | dict)})
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))

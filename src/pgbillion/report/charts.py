"""Charts as SVG to put into a page: their colors are the page's own, so that they follow its light or dark theme."""

from __future__ import annotations

import io
import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from pgbillion.common import extras

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Colors that stand for the page's CSS variables until the SVG is finished.
_INK, _GRID, _MUTED = "#010101", "#020202", "#030303"
_SERIES = [f"#0400{index:02x}" for index in range(1, 9)]
MAX_LINES = len(_SERIES)
_VARIABLES = {_INK: "ink", _GRID: "grid", _MUTED: "muted"} | {
    color: f"series-{index}" for index, color in enumerate(_SERIES, start=1)
}


class Shape(Enum):
    """Inches of a chart: text keeps its size if the page shows it about as wide as that."""

    WIDE = (10.8, 3.0)
    HALF = (5.2, 2.6)
    NARROW = (3.5, 2.5)  # a telephone


@dataclass(frozen=True)
class Series:
    """One line of a chart: ``None`` where nothing is known."""

    name: str
    x: list[float]  # seconds of work since the run began, time between attempts left out
    y: list[float | None]
    steps: bool = False  # a value holds for the time since the point before, rather than at the point

    @property
    def known(self) -> bool:
        """Tell whether there is anything to draw."""
        return any(value is not None for value in self.y)


@contextmanager
def _matplotlib() -> Iterator[Any]:
    """Give matplotlib with a folder of its own for its caches: it would write into the user's home.

    Raises UserError when it is not installed.
    """
    extras.need(extras.MATPLOTLIB)
    if "MPLCONFIGDIR" in os.environ:
        import matplotlib.figure

        yield matplotlib
        return
    with tempfile.TemporaryDirectory(prefix="pgbillion-") as folder:
        os.environ["MPLCONFIGDIR"] = folder
        try:
            import matplotlib.figure

            yield matplotlib
        finally:
            del os.environ["MPLCONFIGDIR"]


def line_chart(
    lines: Sequence[Series],
    label: str,
    *,
    name: str,
    unit: str = "count",
    area: bool = False,
    mean: float | None = None,
    shape: Shape = Shape.HALF,
    marks: Sequence[float] = (),
    over: str | None = None,
) -> str:
    """Return one chart of lines over time as SVG, or over what ``over`` names, with a dot for each value.

    ``label`` is what a screen reader says; ``name`` keeps its ids apart from other charts'; ``unit`` is count, bytes or
    plain; ``marks`` are times to mark, in seconds.
    """
    dots = "o" if over is not None else None
    longest = max((line.x[-1] for line in lines if line.x), default=0.0)
    scale, word = (1.0, "seconds") if longest < 180 else (60.0, "minutes") if longest < 3 * 3600 else (3600.0, "hours")
    if over is not None:
        scale, word = 1.0, over
    with _matplotlib() as matplotlib, matplotlib.rc_context(_settings(name)):
        figure = matplotlib.figure.Figure(figsize=shape.value, layout="constrained")
        axes = figure.add_subplot()
        shown = lines if len(lines) <= MAX_LINES else []
        for color, line in zip(_SERIES, shown, strict=False):
            x = [at / scale for at in line.x]
            y = [float("nan") if value is None else value for value in line.y]
            drawn = "steps-pre" if line.steps else "default"
            axes.plot(x, y, color=color, linewidth=1.8, label=line.name, drawstyle=drawn, marker=dots)
            if area:
                axes.fill_between(x, y, color=color, alpha=0.14, linewidth=0, step="pre" if line.steps else None)
        if not shown:
            _band(axes, lines, scale)
        if mean is not None:
            label_of_mean = f"average, {_short(mean, unit)}"
            axes.axhline(mean, color=_MUTED, linewidth=1.2, linestyle=(0, (4, 3)), label=label_of_mean)
        for mark in marks:
            axes.axvline(mark / scale, color=_MUTED, linewidth=1, linestyle=":")
        axes.set_ylim(bottom=0)
        axes.set_xlim(0, max(longest / scale * (1 if over is None else 1.05), 1e-9))
        if over is not None:
            axes.xaxis.set_major_locator(_locator("count"))
            axes.xaxis.set_major_formatter(lambda value, _: _short(value, "count"))
            # room for the highest dot
            highest = max((value for line in lines for value in line.y if value is not None), default=0)
            axes.set_ylim(top=1.08 * highest if highest else 1)
        axes.set_xlabel(word)
        axes.yaxis.set_major_locator(_locator(unit))
        axes.yaxis.set_major_formatter(lambda value, _: _short(value, unit))
        axes.grid(axis="y", color=_GRID, linewidth=0.8)
        axes.set_axisbelow(True)
        axes.spines[["top", "right", "left"]].set_visible(False)
        axes.tick_params(length=0)
        if len(lines) > 1 or mean is not None:
            _legend(figure, 1 if shape is Shape.NARROW else 4)
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    return _for_page(buffer.getvalue(), label, name)


def _settings(name: str) -> dict[str, Any]:
    return {
        "svg.fonttype": "none",
        "svg.hashsalt": name,
        "font.size": 9,
        "font.family": "sans-serif",
        "axes.edgecolor": _GRID,
        "axes.labelcolor": _MUTED,
        "xtick.color": _MUTED,
        "ytick.color": _MUTED,
        "text.color": _INK,
    }


def _legend(figure: Any, columns: int) -> None:
    figure.legend(
        loc="outside upper left",
        ncols=columns,
        frameon=False,
        handlelength=1.4,
        fontsize=9,
        borderpad=0.2,
        columnspacing=1.6,
    )


def _band(axes: Axes, lines: Sequence[Series], scale: float) -> None:
    """Draw many lines as the range they fill and their middle."""
    rows = [
        sorted(value for value in values if value is not None)
        for values in zip(*(line.y for line in lines), strict=True)
    ]
    x = [at / scale for at in lines[0].x]
    low, middle, high = (
        [row[int((len(row) - 1) * part)] if row else float("nan") for row in rows] for part in (0, 0.5, 1)
    )
    axes.fill_between(x, low, high, color=_SERIES[0], alpha=0.18, linewidth=0, label="slowest to fastest worker")
    axes.plot(x, middle, color=_SERIES[0], linewidth=1.8, label="median worker")


def _locator(unit: str) -> Any:
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(nbins=5, integer=unit == "count", steps=[1, 2, 2.5, 5, 10])


def _short(value: float, unit: str) -> str:
    """Return a number short enough for an axis."""
    if unit == "plain":
        return f"{value:g}"
    suffixes = ["", "k", "M", "bn"] if unit == "count" else ["B", "kB", "MB", "GB", "TB"]
    step = 0
    while abs(value) >= 1000 and step < len(suffixes) - 1:
        value, step = value / 1000, step + 1
    space = " " if len(suffixes[step]) == 2 or unit == "bytes" else ""
    return f"{value:.3g}{space}{suffixes[step]}".strip()


def _for_page(svg: str, label: str, name: str) -> str:
    """Make a file's SVG a part of a page: no prologue, its own ids, the page's colors and fonts."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'id="([^"]+)"', rf'id="{name}-\1"', svg)
    svg = re.sub(r'(href="#|url\(#)', rf"\1{name}-", svg)
    svg = re.sub(r"font: ([0-9.]+)px [^;\"]*", r"font-size: \1px", svg)
    for color, variable in _VARIABLES.items():
        svg = svg.replace(color, f"var(--{variable})")
    return re.sub(
        r'<svg ([^>]*?)width="[^"]*"([^>]*?)height="[^"]*"', rf'<svg role="img" aria-label="{label}" \1\2', svg, count=1
    )

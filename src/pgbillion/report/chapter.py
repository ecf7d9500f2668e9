"""A chapter of a page: what was measured, as text, figures, bars, a table and details to unfold; it draws nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pgbillion.common import text

# one line more is no trend
_FEW_POINTS = 4


@dataclass(frozen=True)
class Figure:
    """What PostgreSQL and pgbillion took, in seconds for one ``unit``; shown as seconds if there is no unit."""

    what: str
    postgresql: float
    pgbillion: float
    unit: str = ""

    def shown(self, seconds: float) -> str:
        """Return what one of them took as people read it."""
        return f"{text.brief(1 / seconds)}/s" if self.unit else text.duration(seconds)

    @property
    def times(self) -> float:
        """How many times as fast as PostgreSQL pgbillion is."""
        return self.postgresql / self.pgbillion

    @property
    def ratio(self) -> str:
        """The same as people read it."""
        return text.ratio(self.times)


@dataclass(frozen=True)
class Bar:
    """One bar. Bars of a name have a color; None: this was not measured."""

    name: str
    value: float | None
    shown: str


@dataclass(frozen=True)
class Group:
    """Bars that are compared with each other."""

    name: str
    bars: list[Bar]


@dataclass(frozen=True)
class Bars:
    """Groups of bars on one scale, called ``label``."""

    label: str
    groups: list[Group]

    @property
    def names(self) -> list[str]:
        """The names of bars, in the order of their colors."""
        return list(dict.fromkeys(bar.name for group in self.groups for bar in group.bars))

    def width(self, bar: Bar) -> float:
        """Return the percentage of the scale that a bar fills."""
        longest = max((bar.value or 0 for group in self.groups for bar in group.bars), default=0)
        return 100 * (bar.value or 0) / longest if longest else 0


@dataclass(frozen=True)
class Line:
    """One line of a chart."""

    name: str
    x: list[float]
    y: list[float | None]


@dataclass(frozen=True)
class Lines:
    """A chart called ``label`` over what ``over`` names, such as processes."""

    label: str
    over: str
    lines: list[Line]

    @property
    def few(self) -> bool:
        """Whether bars say more: a line through two points shows a trend that nobody has measured."""
        return max((len(line.x) for line in self.lines), default=0) <= _FEW_POINTS

    def bars(self) -> Bars:
        """Return the same as bars, a group for each point."""
        points = sorted({x for line in self.lines for x in line.x})
        noun = self.over.removesuffix("es") if self.over.endswith("sses") else self.over.removesuffix("s")
        return Bars(
            self.label,
            [
                Group(
                    text.many(round(point), noun),
                    [
                        Bar(line.name, value, "not measured" if value is None else f"{text.brief(value)}/s")
                        for line in self.lines
                        for value in [dict(zip(line.x, line.y, strict=True)).get(point)]
                    ],
                )
                for point in points
            ],
        )


@dataclass(frozen=True)
class Drawing:
    """A chart that is drawn already, as HTML."""

    title: str
    note: str
    html: str
    wide: bool = False


@dataclass(frozen=True)
class Details:
    """What is folded away below its title: text in the type of a program's output, a table, charts."""

    title: str
    output: str = ""
    columns: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    drawings: Sequence[Drawing] = ()


@dataclass(frozen=True)
class Chapter:
    """Cells are shown as they are; those of all columns but the first stand as numbers do.

    ``name`` is how a page's contents refer to it.
    """

    title: str
    text: str
    figures: list[Figure] = field(default_factory=list)
    chart: Bars | Lines | None = None
    columns: list[str] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)
    remark: str = ""
    details: list[Details] = field(default_factory=list)
    name: str = ""

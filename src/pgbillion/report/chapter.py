"""A chapter of a run's page: what else was done with the server, as text, a table and a chart; it draws nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Line:
    """One line of a chapter's chart."""

    name: str
    x: list[float]
    y: list[float | None]


@dataclass(frozen=True)
class Chapter:
    """Cells are shown as they are; those of all columns but the first stand as numbers do.

    ``lines`` make a chart called ``label`` over what ``over`` names; without them there is none. ``notes`` are shown
    below in the type of a program's output, such as a plan.
    """

    title: str
    text: str
    columns: list[str] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)
    label: str = ""
    over: str = ""
    lines: list[Line] = field(default_factory=list)
    notes: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON's types."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Chapter:
        """Return what to_json was called on."""
        return cls(**{**values, "lines": [Line(**line) for line in values["lines"]]})

"""The page of a demo: figures beside PostgreSQL's first, then a chapter for each feature, then what to do next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pgbillion.report import page
from pgbillion.report.chapter import Chapter, Figure


@dataclass(frozen=True)
class Demo:
    """What was measured in ``seconds``; ``durable`` are figures of a second server, with full durability.

    ``server`` is as describe.machine returns it; ``commands`` are what each is for, and what to type. ``load`` is the
    machine's load average before the demo began.
    """

    seconds: float
    chapters: Sequence[Chapter]
    durable: Sequence[Figure]
    server: dict[str, Any]
    commands: Sequence[tuple[str, str]]
    load: float

    @property
    def busy(self) -> bool:
        """Whether other programs kept a good part of the machine busy."""
        hardware = self.server["hardware"]
        return hardware is not None and self.load > hardware["cores"] / 2


def write(demo: Demo, path: Path) -> None:
    """Write the page. Raises UserError when it cannot be written."""
    made = page.template("pgbillion.report", "demo.html.j2").render(
        demo=demo,
        server=demo.server,
        entries=[page.entry(chapter, chapter.name) for chapter in demo.chapters],
    )
    page.write(path, made)

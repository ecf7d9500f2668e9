"""The page of a cycle."""

from __future__ import annotations

from pathlib import Path

from pgbillion.cycle.plan import Outcome, Phase
from pgbillion.durability.profiles import PROFILES
from pgbillion.report import page


def write(outcome: Outcome, path: Path) -> None:
    """Write the page of a cycle. Raises UserError when it cannot be written."""
    made = page.template("pgbillion.cycle", "cycle.html.j2").render(
        outcome=outcome,
        phases=list(Phase),
        profiles={str(profile): PROFILES[profile] for profile in outcome.request.profiles},
        charts=[outcome.bars([phase]) for phase in Phase],
        server=outcome.server,
    )
    page.write(path, made)

"""The page of a cycle."""

from __future__ import annotations

from pathlib import Path

from pgbillion.cycle.plan import Outcome, Phase
from pgbillion.durability.profiles import PROFILES
from pgbillion.report import charts, page


def write(outcome: Outcome, path: Path) -> None:
    """Write the page of a cycle. Raises UserError when it cannot be written."""
    profiles = list(outcome.request.profiles)
    labels = list(dict.fromkeys(result.contestant.label for result in outcome.results))
    seconds = {
        (result.contestant.label, result.contestant.profile, phase): result.seconds(phase)
        for result in outcome.results
        for phase in Phase
    }
    drawn = [
        {
            "phase": phase,
            "svg": charts.bar_chart(
                {label: [seconds.get((label, profile, phase)) for profile in profiles] for label in labels},
                [str(profile) for profile in profiles],
                f"Seconds to {phase}, by profile",
                name=f"cycle-{phase}",
            ),
        }
        for phase in Phase
    ]
    made = page.template("pgbillion.cycle", "cycle.html.j2").render(
        outcome=outcome,
        phases=list(Phase),
        profiles={str(profile): PROFILES[profile] for profile in profiles},
        charts=drawn,
        server=outcome.server,
    )
    page.write(path, made)

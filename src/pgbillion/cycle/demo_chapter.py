"""The demo's chapter on the cycle: fewer tables, two profiles, on a server of its own that is gone afterwards."""

from __future__ import annotations

from pathlib import Path

from pgbillion.common import text
from pgbillion.cycle import servers
from pgbillion.cycle.measure import measure
from pgbillion.cycle.plan import Method, Outcome, Phase, Request
from pgbillion.durability.profiles import Profile
from pgbillion.report.chapter import Chapter

NAME = "tables-cycle"
_PROFILES = (Profile.FULL, Profile.MINIMAL)
_MOST = 2_000


def make(state: Path, pg_config: Path, tables: int) -> Chapter:
    """Go through the cycle, print a line for each contestant, and return the chapter."""
    request = Request(count=min(_MOST, tables), profiles=_PROFILES)
    with servers.alone(state), servers.private(state, pg_config, {}) as server:
        outcome = measure(server, request, print)
    return outcome.chapter("Created, filled, read, dropped", _words(outcome))


def _words(outcome: Outcome) -> str:
    ratios = [
        f"{phase} {ratio:.1f} times"
        for phase in (Phase.CREATE, Phase.DROP)
        if (ratio := outcome.ratio(Profile.FULL, phase)) is not None
    ]
    return (
        f"{text.count(outcome.request.count)} tables {outcome.request.definition} on a server of their own, with full"
        f" durability and with as little as there is. Method {Method.SQL} is a DO block for each phase, {Method.BULK}"
        f" the extension: with full durability {' and '.join(ratios)} as fast."
    )

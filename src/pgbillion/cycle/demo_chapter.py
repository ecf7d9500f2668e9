"""The demo's chapter on durability: few tables, two profiles, on a server of its own that is gone afterwards."""

from __future__ import annotations

from pgbillion.common import text
from pgbillion.cycle.measure import measure
from pgbillion.cycle.plan import Method, Outcome, Phase, Request
from pgbillion.cycle.servers import Server
from pgbillion.durability.profiles import PROFILES, Profile
from pgbillion.report.chapter import Chapter, Figure

_PROFILES = (Profile.FULL, Profile.MINIMAL)
_MOST = 2_000
_NAMES = {Method.SQL: "PostgreSQL", Method.BULK: "pgbillion"}
_WHAT = {Phase.CREATE: "create tables", Phase.DROP: "drop tables"}


def make(server: Server, tables: int) -> Chapter:
    """Go through the cycle and return the chapter; its figures are those with full durability."""
    request = Request(count=min(_MOST, tables), profiles=_PROFILES)
    outcome = measure(server, request, lambda line: None)
    settings = ", ".join(f"{setting.name} {setting.value}" for setting in PROFILES[Profile.FULL])
    return Chapter(
        "What durability costs",
        f"{text.count(request.count)} tables {request.definition} are created, filled with a row each, read and "
        f"dropped on a server of their own, once with full durability ({settings}) and once with minimal "
        "durability, as in all of the above. PostgreSQL runs a DO block for each phase; pgbillion creates and drops "
        "in bulk.",
        figures=[
            Figure(what, each[Method.SQL], each[Method.BULK], "tables")
            for phase, what in _WHAT.items()
            for each in [_each(outcome, phase)]
        ],
        chart=outcome.bars(list(_WHAT), _NAMES),
        columns=["", *(str(phase) for phase in Phase)],
        rows=[
            [
                f"{result.contestant.profile}, {_NAMES[result.contestant.method]}",
                *(text.duration(result.seconds(phase)) for phase in Phase),
            ]
            for result in outcome.results
        ],
        name="durability",
    )


def _each(outcome: Outcome, phase: Phase) -> dict[Method, float]:
    """Return the seconds for each table with full durability."""
    return {
        result.contestant.method: result.seconds(phase) / outcome.request.count
        for result in outcome.results
        if result.contestant.profile is Profile.FULL
    }

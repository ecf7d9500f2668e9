"""What a cycle does and what it found: the request, the phases, the measurements. Nothing here talks to a server."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any

from pgbillion.common import text
from pgbillion.common.errors import UserError
from pgbillion.durability.profiles import Profile
from pgbillion.report.chapter import Bar, Bars, Group

# The source's table.
SOURCE_COLUMNS = "id INT, PRIMARY KEY (id)"
DEFAULT_COUNT = 30_000


class Phase(StrEnum):
    """The phases, in their order."""

    CREATE = "create"
    INSERT = "insert"
    READ = "read"
    DROP = "drop"


class Method(StrEnum):
    """How the phases are done."""

    SQL = "sql"  # the source's: a DO block per phase, and so a transaction per phase
    STATEMENTS = "statements"  # a statement and a transaction per table
    BULK = "bulk"  # created and dropped by the extension; inserted and read as sql does it


class Engine(StrEnum):
    """Whose server it is."""

    POSTGRESQL = "postgresql"
    MARIADB = "mariadb"


@dataclass(frozen=True)
class Request:
    """What the user asks for. ``template`` is a table of the server's, else there are ``columns``."""

    count: int = DEFAULT_COUNT
    profiles: tuple[Profile, ...] = tuple(Profile)
    methods: tuple[Method, ...] = (Method.SQL, Method.BULK)
    rounds: int = 1
    warm_up: int = 0
    columns: str | None = None
    template: str | None = None
    syscalls: bool = False
    allow_unobserved: bool = False

    def check(self) -> None:
        """Raise UserError for arguments that no server could make right."""
        if self.count < 1:
            raise UserError(f"the number of tables must be at least 1, not {self.count:,}")
        if self.template is not None and self.columns is not None:
            raise UserError("give either --template or --columns, not both")

    def like(self, template: str) -> Request:
        """Return the same for a template by its qualified name."""
        return replace(self, template=template)

    @property
    def definition(self) -> str:
        """The model of the tables, for people."""
        return f"LIKE {self.template}" if self.template else f"({self.columns or SOURCE_COLUMNS})"


@dataclass(frozen=True)
class SystemCall:
    """One line of strace -c: seconds are of the system's processor time."""

    name: str
    calls: int
    errors: int
    seconds: float


@dataclass(frozen=True)
class Measured:
    """One phase, once. ``files`` came or, below zero, went."""

    phase: Phase
    seconds: float
    wal_bytes: int | None = None
    files: int | None = None
    syscalls: tuple[SystemCall, ...] = ()


@dataclass(frozen=True)
class Cycle:
    """All phases, once; ``checkpoint_seconds`` is what a checkpoint took after them: files are removed by then."""

    phases: tuple[Measured, ...]
    checkpoint_seconds: float | None = None


@dataclass(frozen=True)
class Contestant:
    """Who is measured."""

    engine: Engine
    profile: Profile
    method: Method

    @property
    def label(self) -> str:
        """Its name beside others of the same profile."""
        return f"MariaDB, {self.method}" if self.engine is Engine.MARIADB else str(self.method)

    def __str__(self) -> str:
        return f"{self.profile}, {self.label}"


@dataclass(frozen=True)
class Result:
    """The rounds of one contestant, and a traced one that no time is taken from."""

    contestant: Contestant
    cycles: tuple[Cycle, ...]
    traced: Cycle | None = None

    def measured(self, phase: Phase) -> list[Measured]:
        """Return a phase of all rounds."""
        return [one for cycle in self.cycles for one in cycle.phases if one.phase is phase]

    def seconds(self, phase: Phase) -> float:
        """The median of a phase."""
        return statistics.median(one.seconds for one in self.measured(phase))

    def syscalls(self, phase: Phase) -> tuple[SystemCall, ...]:
        """What was traced of a phase, the longest first."""
        traced = self.traced.phases if self.traced else ()
        return next((one.syscalls for one in traced if one.phase is phase), ())

    def to_json(self, count: int) -> dict[str, Any]:
        """Return it as JSON's types."""
        checkpoints = [cycle.checkpoint_seconds for cycle in self.cycles if cycle.checkpoint_seconds is not None]
        return {
            "engine": self.contestant.engine.value,
            "profile": self.contestant.profile.value,
            "method": self.contestant.method.value,
            "checkpoint_seconds": round(statistics.median(checkpoints), 6) if checkpoints else None,
            "phases": [self._phase(phase, count) for phase in Phase],
        }

    def _phase(self, phase: Phase, count: int) -> dict[str, Any]:
        rounds = self.measured(phase)
        seconds = self.seconds(phase)
        return {
            "phase": phase.value,
            "seconds": round(seconds, 6),
            "seconds_of_rounds": [round(one.seconds, 6) for one in rounds],
            "tables_per_second": round(count / seconds, 1),
            "wal_bytes": middle(one.wal_bytes for one in rounds),
            "files": middle(one.files for one in rounds),
            "syscalls": [asdict(call) for call in self.syscalls(phase)],
        }


def middle(values: Any) -> int | None:
    """Return the median of what is known."""
    known = [value for value in values if value is not None]
    return int(statistics.median_low(known)) if known else None


@dataclass(frozen=True)
class Outcome:
    """Everything that was measured, and on what (see describe.server)."""

    request: Request
    results: tuple[Result, ...]
    server: dict[str, Any]
    mariadb: dict[str, Any] | None = None
    locks: dict[str, Any] = field(default_factory=dict)

    def result(self, profile: Profile, method: Method, engine: Engine = Engine.POSTGRESQL) -> Result | None:
        """Return one contestant's."""
        wanted = Contestant(engine, profile, method)
        return next((result for result in self.results if result.contestant == wanted), None)

    def ratio(self, profile: Profile, phase: Phase) -> float | None:
        """How many times as fast bulk is as sql."""
        bulk, plain = self.result(profile, Method.BULK), self.result(profile, Method.SQL)
        return plain.seconds(phase) / bulk.seconds(phase) if bulk and plain else None

    def to_json(self) -> dict[str, Any]:
        """Return the measurements as JSON's types."""
        return {
            "tables": self.request.count,
            "definition": self.request.definition,
            "rounds": self.request.rounds,
            "warm_up": self.request.warm_up,
            "results": [result.to_json(self.request.count) for result in self.results],
            "locks": self.locks,
            "server": self.server,
            "mariadb": self.mariadb,
        }

    def rows(self, *, calls: int = 3) -> list[list[str]]:
        """Return a line for each contestant and phase, as people read it; see COLUMNS."""
        return [
            [
                str(result.contestant.profile),
                result.contestant.label,
                str(phase),
                text.duration(result.seconds(phase)),
                text.count(self.request.count / result.seconds(phase)),
                _known(middle(one.wal_bytes for one in result.measured(phase)), text.size),
                _known(middle(one.files for one in result.measured(phase)), text.count),
                *([calls_text(result.syscalls(phase), calls)] if self.request.syscalls else []),
            ]
            for result in self.results
            for phase in Phase
        ]

    @property
    def columns(self) -> list[str]:
        """The heads of rows()."""
        heads = ["profile", "method", "phase", "time", "tables/s", "WAL", "files"]
        return [*heads, *(["system calls"] if self.request.syscalls else [])]

    def bars(self, phases: Sequence[Phase], names: Mapping[Method, str] | None = None) -> Bars:
        """Return tables per second as bars: a group for each phase and profile. ``names`` replace methods' own."""
        groups = [
            Group(
                f"{phase}, {profile}" if len(phases) > 1 else str(profile),
                [
                    Bar(
                        (names or {}).get(result.contestant.method, result.contestant.label),
                        rate,
                        f"{text.brief(rate)}/s",
                    )
                    for result in self.results
                    if result.contestant.profile is profile
                    for rate in [self.request.count / result.seconds(phase)]
                ],
            )
            for phase in phases
            for profile in self.request.profiles
        ]
        label = "Tables per second" if len(phases) > 1 else str(phases[0])
        return Bars(label, groups)


def _known(value: int | None, show: Any) -> str:
    return "" if value is None else str(show(value))


def calls_text(calls: Sequence[SystemCall], most: int) -> str:
    """Return the longest system calls as one line."""
    return ", ".join(
        f"{call.name} {text.count(call.calls)} ({text.duration(call.seconds)})" for call in calls[:most]
    ) or ("none" if calls else "")

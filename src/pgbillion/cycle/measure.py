"""Measure the cycle: each profile, each method, several rounds; in one run, so that the figures can be compared."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

from pgbillion.common import text
from pgbillion.common.connection import Connection
from pgbillion.common.errors import UserError
from pgbillion.common.host import Host
from pgbillion.common.target import Target
from pgbillion.cycle import locks, syscalls
from pgbillion.cycle.locks import Locks
from pgbillion.cycle.mariadb import MariaDB
from pgbillion.cycle.plan import Contestant, Cycle, Engine, Method, Outcome, Request, Result
from pgbillion.cycle.servers import Server, workplace
from pgbillion.cycle.session import Session
from pgbillion.durability.profiles import PROFILES, Profile
from pgbillion.server import describe, extension
from pgbillion.tables import create

Say = Callable[[str], None]
# those that a profile changes are the profile's
_SETTINGS = [
    name
    for name in describe.SETTINGS
    if all(name != setting.name for profile in PROFILES.values() for setting in profile)
]


def measure(server: Server, request: Request, say: Say, mariadb: MariaDB | None = None) -> Outcome:
    """Go through the cycle with all methods under all profiles, methods in turn.

    ``say`` hears of each round. Raises UserError for what can be seen not to work before it begins, psycopg.Error for
    what the server refuses.
    """
    server.check(request.profiles)
    results: list[Result] = []
    for profile in request.profiles:
        with server.under(profile) as target:
            needs, facts = _check(server, target, request)
            results += _rounds(request, Engine.POSTGRESQL, profile, request.methods, _Runs(target, request), say)
        if mariadb is not None:
            results += measure_mariadb(mariadb, request, profile, say)
    return Outcome(request, tuple(results), facts, mariadb.facts() if mariadb else None, needs.to_json())


def measure_mariadb(mariadb: MariaDB, request: Request, profile: Profile, say: Say) -> list[Result]:
    """Go through the cycle with the methods that MariaDB has under one profile. Raises UserError."""
    methods = tuple(method for method in request.methods if method is not Method.BULK) or (Method.SQL,)
    with mariadb.under(profile) as runs:
        return _rounds(request, Engine.MARIADB, profile, methods, runs, say)


class _Runs:
    """Cycles on a PostgreSQL, each in a new session and a new database."""

    def __init__(self, target: Target, request: Request) -> None:
        self._target = target
        self._request = request

    def cycle(self, method: Method, *, traced: bool) -> Cycle:
        """Go through the cycle once."""
        with workplace(self._target, self._request.template) as conn:
            return _session(conn, self._request, [method]).cycle(method, traced=traced)


def _rounds(
    request: Request, engine: Engine, profile: Profile, methods: tuple[Method, ...], runs: Any, say: Say
) -> list[Result]:
    cycles: dict[Method, list[Cycle]] = defaultdict(list)
    traced: dict[Method, Cycle] = {}
    for number in range(-request.warm_up, request.rounds + request.syscalls):
        name = "warm-up" if number < 0 else f"round {number + 1}" if number < request.rounds else "traced"
        # back and forth, so that what changes with time does not favor either end
        for method in methods if number % 2 == 0 else reversed(methods):
            contestant = Contestant(engine, profile, method)
            found = runs.cycle(method, traced=number == request.rounds)
            if number == request.rounds:
                traced[method] = found
            elif number >= 0:
                cycles[method].append(found)
            times = ", ".join(f"{one.phase} {text.duration(one.seconds)}" for one in found.phases)
            say(f"{contestant}, {name}: {times}")
    return [
        Result(Contestant(engine, profile, method), tuple(cycles[method]), traced.get(method)) for method in methods
    ]


def _check(server: Server, target: Target, request: Request) -> tuple[Locks, dict[str, Any]]:
    """Try everything with a few tables, and see that there is room for the locks, which depends on the profile."""
    with target.connect() as outside:
        create.check_writable(outside)
        host = Host.of(outside)
        if request.syscalls:
            if host is None:
                raise UserError("system calls can only be counted on the server's own machine", "leave out --syscalls")
            syscalls.check(outside.info.backend_pid)
    with workplace(target, request.template) as conn:
        needs = locks.measure(_session(conn, request, request.methods), request.methods)
        facts = describe.machine(conn, target, host, _SETTINGS, extension_used=Method.BULK in request.methods)
    if not needs.enough and not server.provide_locks(needs.wanted):
        locks.refuse(needs, request.count)
    return needs, facts


def _session(conn: Connection, request: Request, methods: Iterable[Method]) -> Session:
    if Method.BULK in methods:
        extension.ensure_extension(conn, extension.TABLES, instead="--method sql")
    return Session.begin(conn, request)

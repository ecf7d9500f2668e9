"""`pgbillion cycle`: options in, a table and a page out."""

from __future__ import annotations

import contextlib
import enum
import json
from typing import Annotated, TypeVar

import typer
from rich.table import Table

from pgbillion.cli import connect
from pgbillion.cli.connect import Where
from pgbillion.cli.options import AllowUnobserved, Json, Page, PgConfig, Rounds
from pgbillion.cli.terminal import console, ending_in_order, new_page, say
from pgbillion.common import text
from pgbillion.common.errors import UserError
from pgbillion.cycle import mariadb, servers
from pgbillion.cycle.measure import measure
from pgbillion.cycle.plan import DEFAULT_COUNT, SOURCE_COLUMNS, Method, Outcome, Phase, Request
from pgbillion.cycle.syscalls import strace
from pgbillion.durability.profiles import Profile
from pgbillion.tables import create, model
from pgbillion.tables.plan import parse_count

_E = TypeVar("_E", bound=enum.StrEnum)


class Against(enum.StrEnum):
    """Whom to compare with."""

    MARIADB = "mariadb"


@connect.options
def cycle(
    where: Where,
    count: Annotated[str, typer.Option("--count", "-n", metavar="N", help="Number of tables: 30000, 30k.")] = str(
        DEFAULT_COUNT
    ),
    profiles: Annotated[
        str, typer.Option("--profiles", metavar="NAME,…", help="Durability profiles: full, async, minimal.")
    ] = ",".join(Profile),
    method: Annotated[
        str,
        typer.Option(
            "--method",
            metavar="NAME,…",
            help="sql: a DO block per phase; statements: a transaction per table; bulk: the extension.",
        ),
    ] = f"{Method.SQL},{Method.BULK}",
    rounds: Rounds = 1,
    warm_up: Annotated[
        int, typer.Option("--warm-up", metavar="N", min=0, help="Number of rounds beforehand that do not count.")
    ] = 0,
    columns: Annotated[
        str | None,
        typer.Option("--columns", metavar="SQL", help=f"Columns, as in CREATE TABLE. Default: {SOURCE_COLUMNS}."),
    ] = None,
    template: Annotated[
        str | None, typer.Option("--template", metavar="TABLE", help="Create tables like this one on your server.")
    ] = None,
    syscalls: Annotated[
        bool,
        typer.Option("--syscalls", help="Count and time system calls (strace -c) in an additional round."),
    ] = False,
    against: Annotated[
        Against | None,
        typer.Option(
            "--against", help="Also measure another database system, on a temporary server on this machine: mariadb."
        ),
    ] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option("--setting", metavar="NAME=VALUE", help="Setting of the temporary server; can be repeated."),
    ] = None,
    pg_config: PgConfig = None,
    allow_unobserved: AllowUnobserved = False,
    output: Page = None,
    as_json: Json = False,
) -> None:
    """Time creating, filling, reading and dropping many tables under different durability profiles.

    Runs on a temporary server, which is removed afterwards. With connection options or --template, it runs on your
    server instead, under the profiles that need no restart: in a temporary database, or with --template in a temporary
    schema.

    Example: pgbillion cycle --count 30k --profiles full,minimal --method sql,bulk --against mariadb
    """
    request = Request(
        count=parse_count(count),
        profiles=_choices(profiles, Profile, "--profiles"),
        methods=_choices(method, Method, "--method"),
        rounds=rounds,
        warm_up=warm_up,
        columns=columns,
        template=template,
        syscalls=syscalls,
        allow_unobserved=allow_unobserved,
    )
    request.check()
    if request.syscalls:
        strace()
    chosen = _settings(setting or [])
    state = where.state
    with ending_in_order(), servers.alone(state), contextlib.ExitStack() as stack:
        rival = stack.enter_context(mariadb.private(state, request)) if against is Against.MARIADB else None
        server: servers.Server
        if template is not None or connect.given_server(**where.server):
            if chosen:
                raise UserError("--setting is for the cycle's own server", "leave out the connection options")
            target = where.target()
            if template is not None:
                with target.connect() as conn:
                    request = request.like(create.template_name(conn, template))
                    model.of_template(conn, request.template or "")
            server = servers.Own(target, state, say)
        else:
            server = stack.enter_context(servers.private(state, pg_config, chosen))
        outcome = measure(server, request, say, rival)
    path = output or new_page(state, "cycle")

    # matplotlib takes long to load
    from pgbillion.cycle import page

    page.write(outcome, path)
    if as_json:
        print(json.dumps({**outcome.to_json(), "report": str(path)}))
        return
    show(outcome)
    print(f"report: {path}")


def _choices(given: str, kind: type[_E], option: str) -> tuple[_E, ...]:
    chosen: list[_E] = []
    for word in given.split(","):
        try:
            one = kind(word.strip())
        except ValueError:
            raise UserError(
                f'{option} does not know "{word.strip()}"', f"it takes one or more of {','.join(kind)}"
            ) from None
        if one not in chosen:
            chosen.append(one)
    return tuple(chosen)


def _settings(given: list[str]) -> dict[str, str]:
    pairs = [one.partition("=") for one in given]
    for name, equals, _ in pairs:
        if not equals or not name.strip().replace("_", "").replace(".", "").isalnum():
            raise UserError(f'--setting takes NAME=VALUE, not "{name}{equals}"', "as in --setting shared_buffers=1GB")
    return {name.strip(): value.strip() for name, _, value in pairs}


def show(outcome: Outcome) -> None:
    """Print what was measured."""
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    for index, column in enumerate(outcome.columns):
        table.add_column(column, justify="right" if 3 <= index <= 6 else "left")
    for row in outcome.rows():
        table.add_row(*row)
    console().print(table)
    for profile in outcome.request.profiles:
        ratios = {phase: outcome.ratio(profile, phase) for phase in (Phase.CREATE, Phase.DROP)}
        words = [f"{phase} {ratio:.1f}" for phase, ratio in ratios.items() if ratio is not None]
        if words:
            print(f"bulk compared with sql, {profile}: {', '.join(words)} times as fast")
    print(f"{text.count(outcome.request.count)} tables {outcome.request.definition}; they are gone")

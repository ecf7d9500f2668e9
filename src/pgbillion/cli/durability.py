"""`pgbillion durability …`: a safe window for loading with less durability."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from pgbillion.cli import connect
from pgbillion.cli.connect import Where
from pgbillion.cli.options import Json
from pgbillion.cli.terminal import say
from pgbillion.common import invocation
from pgbillion.common.errors import UserError
from pgbillion.durability import relax as durability_relax
from pgbillion.durability import restore as durability_restore
from pgbillion.durability import status as durability_status
from pgbillion.durability.checks import Allow
from pgbillion.durability.profiles import Profile
from pgbillion.durability.witness import Trust

app = typer.Typer(help="Turn durability off for a load, and safely on again afterwards.")

# what settings are shown of, and their units
_COLUMNS = ("now", "before", "within")
_UNITS = {"checkpoint_timeout": " s", "max_wal_size": " MB", "min_wal_size": " MB"}
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only print the statements and steps.")]
Allowed = Annotated[
    list[Allow] | None,
    typer.Option(
        "--allow", metavar="WHAT", help=f"Continue even though this breaks: {', '.join(Allow)}; can be repeated."
    ),
]


@app.command()
@connect.options
def status(
    where: Where,
    as_json: Json = False,
) -> None:
    """Show whether a server is durable, whether a durability window is open, and whether the data can be trusted.

    The exit status is 1 if the data cannot be trusted.

    Example: pgbillion durability status --json
    """
    target = where.target(or_down=True)
    report = durability_status.status(target, where.state)
    if as_json:
        print(json.dumps(asdict(report)))
    else:
        _print(report)
    if report.trust != Trust.YES:
        raise typer.Exit(1)


@app.command()
@connect.options
def relax(
    where: Where,
    profile: Annotated[
        Profile,
        typer.Option(
            "--profile",
            help="full: change nothing; async: synchronous_commit off; minimal: fsync, full_page_writes, WAL "
            "for standbys "
            "and autovacuum off, few checkpoints.",
        ),
    ] = Profile.MINIMAL,
    wal_dir: Annotated[
        Path | None,
        typer.Option(
            "--wal-dir",
            metavar="DIRECTORY",
            help="Keep pg_wal in this empty directory meanwhile, for example on a tmpfs.",
        ),
    ] = None,
    restart: Annotated[
        durability_relax.Restart | None,
        typer.Option(
            "--restart",
            help="For settings that need a restart. now: pgbillion restarts the server; later: you do; never: "
            "leave them alone. Default: now for the embedded server; for others it must be given, except "
            "with --dry-run.",
        ),
    ] = None,
    allow: Allowed = None,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Open a durability window: make a server faster and less durable, for a load that can be repeated.

    The previous settings are stored in the server itself. Every command warns until the window is closed.

    Example: pgbillion durability relax --profile minimal --dry-run
    """
    target = where.target()
    request = durability_relax.Request(profile, wal_dir, restart, frozenset(allow or ()), dry_run)
    outcome = durability_relax.relax(target, request, where.state, say)
    if as_json:
        print(
            json.dumps(
                {
                    "dry_run": dry_run,
                    "profile": profile,
                    "risks": outcome.risks,
                    "notes": outcome.notes,
                    "steps": outcome.steps,
                    "planned": outcome.planned,
                    "settings": outcome.record.wanted,
                }
            )
        )
        return
    for line in outcome.planned:
        print(line)
    for note in outcome.notes:
        print(f"note: {note}")
    if dry_run:
        return
    print(f"relaxed: profile {profile}")
    for risk in outcome.risks:
        print(f"at risk: {risk}")
    for step in outcome.steps:
        print(f"to do: {step}")
    print(f"afterwards: {invocation.command('durability', 'restore')}")


@app.command()
@connect.options
def restore(
    where: Where,
    restart: Annotated[
        durability_relax.Restart | None,
        typer.Option(
            "--restart", help="now: pgbillion restarts the server; later: you do. Default: as when it was relaxed."
        ),
    ] = None,
    wait: Annotated[
        float,
        typer.Option(
            "--wait",
            metavar="SECONDS",
            min=0,
            help="Maximum time to wait for commands that began under the relaxed settings.",
        ),
    ] = durability_restore.WAIT_SECONDS,
    allow: Allowed = None,
    trust: Annotated[
        bool, typer.Option("--trust", help="Confirm that data which could not be trusted was reloaded or checked.")
    ] = False,
    lost_wal: Annotated[
        bool, typer.Option("--lost-wal", help="Restore what can be restored although the write-ahead log is lost.")
    ] = False,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Close the durability window: restore settings and pg_wal, write all data to disk, and check the result.

    Continues from wherever an earlier relax or restore was interrupted. The exit status is 1 if the data cannot be
    trusted.

    Example: pgbillion durability restore
    """
    may = None if restart is None else restart is durability_relax.Restart.NOW
    target = where.target(or_down=True)
    request = durability_restore.Request(may, frozenset(allow or ()), wait, trust, lost_wal, dry_run)
    outcome = durability_restore.restore(target, request, where.state, say)
    if as_json:
        print(
            json.dumps(
                {
                    "dry_run": dry_run,
                    "window": outcome.record.profile if outcome.record else None,
                    "durable": not outcome.not_durable and outcome.verdict.trust is Trust.YES,
                    "not_durable": outcome.not_durable,
                    "trust": outcome.verdict.trust,
                    "reason": outcome.verdict.reason,
                    "notes": outcome.notes,
                    "planned": outcome.planned,
                }
            )
        )
    else:
        _print_restored(outcome, dry_run=dry_run)
    if outcome.verdict.trust is not Trust.YES and not trust:
        raise UserError(
            f"the data cannot be trusted: {outcome.verdict.reason}",
            "load them anew or check them (pg_amcheck, …), then: "
            + invocation.command("durability", "restore", "--trust"),
        )


def _print_restored(outcome: durability_restore.Outcome, *, dry_run: bool) -> None:
    for line in outcome.planned:
        print(line)
    for note in outcome.notes:
        print(f"note: {note}")
    if dry_run:
        return
    if outcome.record is None:
        print("no window is open")
    else:
        print("the settings are as they were before the window")
    if outcome.verdict.trust is not Trust.YES:
        return
    if outcome.verdict.reason:
        print(f"note: {outcome.verdict.reason}")
    if outcome.not_durable:
        print(f"not durable, by the server's own settings: {', '.join(outcome.not_durable)}")
    elif outcome.record is not None:
        print("durable: all data is on disk")
    else:
        print("durable, by its settings")


def _print(report: durability_status.Report) -> None:
    version = f"PostgreSQL {report.version}, " if report.version else ""
    lines = {"server": f"{version}{'running' if report.running else 'down'}"}
    if report.window == "none":
        lines["window"] = "none"
    elif report.window == "open":
        lines["window"] = f"open since {report.since}, profile {report.profile}"
    else:
        lines["window"] = "ended, with data that cannot be trusted"
    lines["durable"] = "yes" if report.durable else f"no: {'; '.join(report.not_durable)}"
    words = {Trust.YES: "yes", Trust.DOUBTFUL: "doubtful", Trust.NO: "no"}
    lines["data trusted"] = words[Trust(report.trust)] + (f": {report.reason}" if report.reason else "")
    for number, risk in enumerate(report.risks or []):
        lines["at risk" if number == 0 else "and"] = risk
    if report.wal_folder:
        lines["pg_wal"] = report.wal_folder
    if report.next:
        lines["next"] = report.next
    for name, value in lines.items():
        print(f"{name:<14}{value}")
    print()
    print(f"{'setting':<22}{'now':<12}{'before':<12}{'in the window':<12}".rstrip())
    for name, one in sorted(report.settings.items()):
        now, before, within = (f"{one[key]}{_UNITS.get(name, '')}" if one[key] else "" for key in _COLUMNS)
        pending = " (waits for a restart)" if one["pending_restart"] else ""
        print(f"{name:<22}{now or '?':<12}{before:<12}{within}{pending}".rstrip())

"""`pgbillion rows columns`: options in, work elsewhere, results out."""

from __future__ import annotations

import contextlib
import json
import os
import re
from pathlib import Path
from typing import Annotated, Any

import psycopg
import typer
from psycopg.conninfo import conninfo_to_dict
from rich.table import Table

from pgbillion.cli import connect
from pgbillion.cli.connect import Where
from pgbillion.cli.options import Json
from pgbillion.cli.terminal import console, ending_in_order, say, show
from pgbillion.common import invocation, text
from pgbillion.common.connection import Connection
from pgbillion.common.errors import UserError
from pgbillion.common.quoting import quoted
from pgbillion.rows import advice, columns, upkeep, workload
from pgbillion.rows import journal as journals
from pgbillion.rows import schedule as schedules
from pgbillion.rows.advice import Advice, Advised
from pgbillion.rows.columns import Made, Status
from pgbillion.rows.journal import COUNTED, Journal
from pgbillion.rows.upkeep import Done, Failed
from pgbillion.rows.workload import Query

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kMGT]?)B?")
_UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


def parse_size(given: str) -> int:
    """Return bytes: 500MB, 10GB, 1.5TB. Raises UserError."""
    found = _SIZE.fullmatch(given.strip())
    if found is None:
        raise UserError(f'"{given}" is not a number of bytes', "examples: --budget 500MB, --budget 10GB")
    return round(float(found[1]) * _UNITS[found[2]])


@connect.options
def rows_columns(
    where: Where,
    query: Annotated[
        str | None, typer.Argument(metavar="QUERY", help="Query, or several separated by semicolons.")
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--file", "-f", metavar="FILE", help="File of queries separated by semicolons.")
    ] = None,
    statements: Annotated[
        bool,
        typer.Option("--statements", help="Use the queries in pg_stat_statements, weighted by their numbers of calls."),
    ] = False,
    all_roles: Annotated[
        bool,
        typer.Option(
            "--all-roles",
            help="With --statements, also use queries that are left out otherwise; planning may run functions of "
            "others with your privileges.",
        ),
    ] = False,
    budget: Annotated[
        str | None,
        typer.Option(
            "--budget", "-b", metavar="SIZE", help="Disk space for all indexes: 500MB, 10GB. Default: no limit."
        ),
    ] = None,
    create: Annotated[bool, typer.Option("--create", help="Create the advised indexes.")] = False,
    concurrently: Annotated[
        bool, typer.Option("--concurrently", help="With --create, do not block writes meanwhile.")
    ] = False,
    drop_unread: Annotated[
        float | None,
        typer.Option(
            "--drop-unread",
            metavar="DAYS",
            help="Drop indexes that this command has created and that no query has read for this number of days.",
        ),
    ] = None,
    of_others: Annotated[
        bool,
        typer.Option(
            "--of-others", help="With --drop-unread, also drop columnar indexes that this command has not created."
        ),
    ] = False,
    apply: Annotated[
        bool,
        typer.Option(
            "--apply",
            help="With --statements, create the advised indexes concurrently, and drop those that it has created and "
            "that no query has read for 30 days. --budget then is for all that it has created.",
        ),
    ] = False,
    schedule: Annotated[
        str | None,
        typer.Option(
            "--schedule",
            metavar="cron|systemd",
            help="Print a daily job that does what --apply does, and how to undo it. Nothing is installed.",
        ),
    ] = None,
    journal: Annotated[
        bool,
        typer.Option("--journal", help="Show what was created and dropped in the database, and how to undo it."),
    ] = False,
    refresh: Annotated[
        bool,
        typer.Option(
            "--refresh",
            help="VACUUM the tables that have a columnar index, and encode the segments that can be encoded.",
        ),
    ] = False,
    status: Annotated[
        bool, typer.Option("--status", help="Show how much each index covers, and what to do if that is little.")
    ] = False,
    table: Annotated[
        list[str] | None,
        typer.Option(
            "--table", "-t", metavar="NAME", help="With --refresh and --status, only this table; can be repeated."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Advise which columns to put into columnar indexes; create, refresh, drop and show such indexes.

    Queries are only planned, in a read-only transaction, and not run. Planning may call functions that a query uses.
    Those of other roles are planned with the privileges of these roles.

    Example: pgbillion rows columns --file queries.sql --budget 10GB
    """
    given = sum((query is not None, file is not None, statements))
    _check(given, create=create, concurrently=concurrently, all_roles=all_roles, statements=statements)
    _check_upkeep(
        create=create or concurrently,
        statements=statements,
        days=drop_unread,
        of_others=of_others,
        apply=apply or schedule is not None,
    )
    if not any((given, refresh, status, journal, drop_unread is not None)):
        raise UserError(
            "there is nothing to advise on",
            'give a query, as in pgbillion rows columns "SELECT …"; or --file, --statements, --status, --refresh',
        )
    limit = None if budget is None else parse_size(budget)
    if schedule is not None:
        if refresh or status or journal or table:
            raise UserError(
                "--schedule prints a job for --apply, and nothing else",
                "leave out --refresh, --status, --journal and --table",
            )
        _print_schedule(where, schedule, budget, drop_unread, all_roles=all_roles, as_json=as_json)
        return
    queries = _read(query, file)
    result: dict[str, Any] = {}
    failures: list[Failed] = []
    with ending_in_order(), columns.session(where.target()) as conn, contextlib.ExitStack() as stack:
        tables = columns.tables_named(conn, table or ())
        book = journals.of(conn, where.state, say)
        if create or apply or drop_unread is not None:
            upkeep.check(conn)
            book.check()
            stack.enter_context(upkeep.alone(conn))
        if apply or drop_unread is not None:
            days = upkeep.USUAL_DAYS if drop_unread is None else drop_unread
            upkeep.wait_not_for_ever(conn)
            dropped = _drop_unread(conn, book, days, failures, of_others=of_others)
            result["dropped"] = [one.to_json() for one in dropped]
            if not as_json:
                _print_done(dropped)
        if apply:
            result.update(_apply(conn, book, limit, failures, all_roles=all_roles, quiet=as_json))
        elif given:
            found = _advise(conn, queries, limit, strict=query is not None, all_roles=all_roles)
            result["advice"] = found.to_json()
            if not as_json:
                _print_advice(found)
            if create:
                result["created"] = [made.index for made in _create(conn, found, book, concurrently=concurrently)]
                # what else is asked for is of these
                tables = tables or [one.oid for one in found.indexes]
        if refresh:
            refreshed = columns.refresh(conn, tables, say=say)
            result["refreshed"] = [made.name for made in refreshed]
            if not as_json:
                _print_made(refreshed, "vacuumed and refreshed")
        if status:
            seen = columns.status(conn, tables)
            result["status"] = [one.to_json() for one in seen]
            if not as_json:
                _print_status(seen)
        if journal:
            entries = upkeep.history(book)
            result["journal"] = entries
            if not as_json:
                _print_journal(entries, book)
    if failures:
        result["failed"] = [vars(one) for one in failures]
    if as_json:
        print(json.dumps(result))
    if failures:
        reasons = "; ".join(f"{one.what}: {one.reason}" for one in failures)
        raise UserError(f"not done: {reasons}", "all else was; the next run tries these again", status=3)


def _check(given: int, *, create: bool, concurrently: bool, all_roles: bool, statements: bool) -> None:
    """Refuse options that do not go together. Raises UserError."""
    if given > 1:
        raise UserError("a query, --file and --statements exclude each other", "give one of them")
    if create and not given:
        raise UserError("--create creates what is advised", "give a query, --file or --statements")
    if concurrently and not create:
        raise UserError("--concurrently is for --create", "add --create")
    if all_roles and not statements:
        raise UserError("--all-roles is for --statements", "add --statements")


def _check_upkeep(*, create: bool, statements: bool, days: float | None, of_others: bool, apply: bool) -> None:
    """Refuse options of creating and dropping that do not go together. Raises UserError."""
    if days is not None and not days > 0:
        raise UserError(f"--drop-unread {days:g} would drop what is read now", "give a number of days, such as 30")
    if of_others and days is None:
        raise UserError("--of-others is for --drop-unread", "add --drop-unread DAYS")
    if apply and not statements:
        raise UserError("--apply and --schedule are for the queries in pg_stat_statements", "add --statements")
    if apply and create:
        raise UserError("--apply creates, concurrently, and drops", "leave out --create and --concurrently")
    if apply and of_others:
        raise UserError(
            "nothing drops the indexes of others unseen", "give --drop-unread DAYS --of-others without --apply"
        )


def _read(query: str | None, file: Path | None) -> list[Query]:
    if query is not None:
        return workload.of_text(query, "the query")
    return workload.of_file(file) if file is not None else []


def _advise(conn: Connection, queries: list[Query], budget: int | None, *, strict: bool, all_roles: bool) -> Advice:
    counted = None
    if not queries:
        counted = workload.of_statistics(conn, all_roles=all_roles)
    return advice.advise(conn, counted.queries if counted else queries, budget, strict=strict, counted=counted)


def _create(conn: Connection, found: Advice, book: Journal, *, concurrently: bool) -> list[Done]:
    made: list[Done] = []
    for one in found.indexes:
        for done in upkeep.create(conn, one, book, concurrently=concurrently, say=say):
            made.append(done)
            say(f"created {done.index} in {text.duration(done.seconds)}; to undo: {done.undo}")
        for command in one.afterwards:
            say(f"{one.replaces[0]} is no longer needed: {command}")
    return made


# ---- without anybody looking ----


def _drop_unread(
    conn: Connection, book: Journal, days: float, failures: list[Failed], *, of_others: bool
) -> list[Done]:
    found = upkeep.unread(conn, days, of_others=of_others)
    if not found:
        return []
    # what was called until now is no reason to create them again
    with contextlib.suppress(UserError):
        counted = workload.of_statistics(conn, all_roles=True)
        book.add(COUNTED, calls=dict(counted.calls))
    done, failed = upkeep.drop_unread(conn, found, book, say)
    failures.extend(failed)
    return done


def _apply(
    conn: Connection, book: Journal, budget: int | None, failures: list[Failed], *, all_roles: bool, quiet: bool
) -> dict[str, Any]:
    """Create the advised indexes, drop earlier ones that they replace, and print or return what was done."""
    keeping, spent = upkeep.keeping(conn, book)
    counted = workload.of_statistics(conn, all_roles=all_roles, unattended=True)
    queries, idle = upkeep.called_since(counted.queries, book)
    left = None if budget is None else max(budget - spent, 0)
    found = advice.advise(conn, queries, left, strict=False, counted=counted, keeping=keeping)
    created: list[Done] = []
    replaced: list[Done] = []
    for one in found.indexes:
        # what removes a build that has failed has a time of its own
        upkeep.wait_not_for_ever(conn)
        try:
            created.extend(upkeep.create(conn, one, book, concurrently=True, say=say))
        except psycopg.Error as error:
            if conn.closed:
                raise
            failures.append(Failed(one.create, error.diag.message_primary or str(error)))
            continue
        done, failed = upkeep.drop_superseded(conn, one.superseded, created[-1].index if created else "", book, say)
        replaced += done
        failures.extend(failed)
    if not quiet:
        _print_done([*created, *replaced])
        for reason in found.kept_out:
            show(f"not created: {reason}")
        _print_left_out(found)
        several = "1 query" if len(queries) == 1 else f"{text.count(len(queries))} queries"
        print(
            f"{several} looked at, {text.count(idle)} not called since an index was dropped;"
            f" created: {text.count(len(created))}, replaced: {text.count(len(replaced))}"
        )
    return {
        "advice": found.to_json(),
        "created": [one.to_json() for one in created],
        "replaced": [one.to_json() for one in replaced],
        "idle": idle,
    }


def _print_schedule(
    where: Where, kind: str, budget: str | None, days: float | None, *, all_roles: bool, as_json: bool
) -> None:
    if kind not in schedules.KINDS:
        raise UserError(f'there is no schedule "{kind}"', "give cron or systemd")
    if where.password:
        raise UserError(
            "nobody is there to type a password when a schedule runs", "leave out -W, and keep it in a password file"
        )
    words = ["--budget", budget] if budget is not None else []
    words += ["--drop-unread", f"{days:g}"] if days is not None else []
    words += ["--all-roles"] if all_roles else []
    command = invocation.command("rows", "columns", "--statements", "--apply", *words)
    undo = invocation.command("rows", "columns", "--journal")
    if "$(" in command:
        raise UserError(
            "a name or a path has characters that no schedule could have", "use names that a terminal can show"
        )
    write = schedules.cron if kind == schedules.CRON else schedules.systemd
    shown = write(command, _database(where), undo)
    if as_json:
        print(json.dumps({"command": command, "schedule": shown}))
    else:
        print(shown)


def _database(where: Where) -> str:
    """Return the name of the database as far as it was given."""
    given = where.dbname or os.environ.get("PGDATABASE", "")
    if "=" in given or "://" in given:
        with contextlib.suppress(psycopg.ProgrammingError):
            return str(conninfo_to_dict(given).get("dbname") or "")
        return ""
    return given


# ---- what people see ----


def _print_advice(found: Advice) -> None:
    if found.indexes:
        shown = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
        for name in ("Table", "Columns"):
            shown.add_column(name, overflow="fold")
        for name in ("Size", "Of the table", "Queries", "Calls", "Heap not read"):
            shown.add_column(name, justify="right", no_wrap=True)
        for one in found.indexes:
            shown.add_row(
                quoted(one.schema, one.table),
                ", ".join(one.columns),
                text.size(one.bytes),
                f"{one.share:.1%}",
                text.count(one.queries),
                text.count(one.calls),
                text.size(one.saved_bytes),
            )
        console().print(shown)
        for one in found.indexes:
            _print_commands(one)
    of_budget = "" if found.budget is None else f" of {text.size(found.budget)}"
    total = "1 index" if len(found.indexes) == 1 else f"{text.count(len(found.indexes))} indexes"
    print(f"{total} advised, {text.size(found.bytes)}{of_budget}")
    _print_left_out(found)
    unserved = [(query, outcome) for query, outcome in found.queries if outcome != advice.ADVISED]
    for query, outcome in unserved:
        words = " ".join(query.text.split())
        place = f"{query.where}: " if query.where.startswith("line") else ""
        show(f"{place}{_short(words)}: {outcome}")


def _short(words: str) -> str:
    return words if len(words) <= 60 else words[:59] + "…"


def _print_left_out(found: Advice) -> None:
    if found.others_left_out:
        print(
            f"{text.count(found.others_left_out)} of other roles left out: connect as one of them, or add --all-roles"
        )
    if found.superusers_left_out:
        print(
            f"{text.count(found.superusers_left_out)} of superusers left out, because planning would run functions of"
            " others as a superuser: connect as a role that owns the tables, or add --all-roles"
        )
    if found.hidden:
        print(
            f"{text.count(found.hidden)} of other roles cannot be read: GRANT pg_read_all_stats to the role that"
            " runs this"
        )


def _print_done(done: list[Done]) -> None:
    for one in done:
        show(f"{one.action} {one.index} on {one.table} ({', '.join(one.columns)}), {text.size(one.bytes)}: {one.why}")
        show(f"  to undo: {one.undo}")


def _print_journal(entries: list[dict[str, Any]], book: Journal) -> None:
    if not entries:
        print(f"nothing was created or dropped, as far as {book.path} has it")
    for one in entries:
        listed = ", ".join(one["columns"])
        show(
            f"{one['at']} {one['action']} {one['index']} on {one['table']} ({listed}),"
            f" {text.size(one['bytes'])}: {one['why']}"
        )
        show(f"  to undo: {one['undo']}")


def _print_commands(one: Advised) -> None:
    print()
    if one.first is not None:
        print(f"{one.first};  -- first: {one.visible_share:.0%} of its blocks are all-visible")
    print(f"{one.create};")
    for command in one.afterwards:
        print(f"{command};  -- the new index has its columns")
    show(
        f"-- estimated: to create it reads {text.size(one.table_bytes)} of the table, and writes about"
        f" {text.size(one.written_bytes)} for index and WAL"
    )
    for reason in one.reasons:
        calls = text.many(reason["calls"], "call")
        show(f"-- for {_short(' '.join(reason['query'].split()))} ({calls})")
    for note in one.notes:
        print(f"-- {note}")


def _print_made(made: list[Made], what: str) -> None:
    for one in made:
        print(f"{one.name} {what} in {text.duration(one.seconds)}")


def _print_status(found: list[Status]) -> None:
    shown = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    chapter = columns.status_table(found)
    for name in chapter.columns:
        words = name in ("Index", "Table", "Columns")
        shown.add_column(name, justify="left" if words else "right", no_wrap=not words, overflow="fold")
    for row in chapter.rows:
        shown.add_row(*row)
    console().print(shown)
    for one in found:
        if one.advice:
            print(f"{one.index}: {one.advice}")

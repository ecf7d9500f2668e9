"""`pgbillion tables list`: options in, names out."""

from __future__ import annotations

import io
import json
import sys
from dataclasses import asdict
from enum import StrEnum
from typing import Annotated

import typer

from pgbillion.cli import connect
from pgbillion.cli.connect import Where
from pgbillion.cli.options import Json, Pattern, at_least_one
from pgbillion.cli.terminal import show
from pgbillion.common import invocation, text
from pgbillion.common.errors import UserError
from pgbillion.common.target import take_any_name
from pgbillion.tables import listing
from pgbillion.tables import selection as tables_selection


class Counting(StrEnum):
    """How to count."""

    ESTIMATE = "estimate"
    EXACT = "exact"


@connect.options
def list_tables(
    where: Where,
    pattern: Pattern = None,
    schema: Annotated[
        str | None,
        typer.Option(
            "--schema", metavar="NAME", help="Schema of the tables, by its exact name. Default: all but the system's."
        ),
    ] = None,
    after: Annotated[
        str | None,
        typer.Option("--after", metavar="NAME", help="Start after this name, the last one of the previous page."),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option("--limit", metavar="N", parser=at_least_one, help=f"Tables per page. Default: {listing.PAGE:,}."),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="List all tables instead of a page.")] = False,
    counting: Annotated[
        Counting | None, typer.Option("--count", help="Print the number of tables instead, estimated or exact.")
    ] = None,
    as_json: Json = False,
) -> None:
    r"""List tables by name, a page at a time or all; the first page appears at once, however many there are.

    Prints one qualified and quoted name per line, in byte order.

    Example: pgbillion tables list 'tenant_0*' --all
    """
    if counting is not None and (everything or after is not None or limit is not None):
        raise UserError("--count counts all that match", "leave out --all, --after and --limit")
    if everything and limit is not None:
        raise UserError("give either --all or --limit, not both")
    target = where.target()
    # bytes that are no text go out as they came; in JSON, which is text, as escapes
    _output_any_name("backslashreplace" if as_json else "surrogateescape")
    with target.connect() as conn:
        take_any_name(conn)
        selection = tables_selection.select(conn, pattern, schema)
        extension = tables_selection.has_function(conn, "tables")
        for note in listing.notes(conn, selection, extension=extension):
            print(f"note: {note}", file=sys.stderr, flush=True)
        if counting is not None:
            count = listing.count_exactly if counting is Counting.EXACT else listing.estimate_count
            found = count(conn, selection, extension=extension)
            print(json.dumps(asdict(found)) if as_json else found.count)
            if not as_json:
                how = "counted" if found.exact else "estimated"
                print(f"{how} in {text.duration(found.seconds)}", file=sys.stderr)
            return
        listed = listing.write(
            conn,
            selection,
            lambda page: show(page, end=""),
            extension=extension,
            limit=None if everything else limit or listing.PAGE,
            after=after,
            as_json=as_json,
        )
        sys.stdout.flush()
    if as_json:
        return
    said = f"{text.many(listed.count, 'table')} in {text.duration(listed.seconds)}"
    if everything and listed.seconds > 0:
        said += f", {text.count(listed.count / listed.seconds)}/s"
    if listed.last is not None:
        words = ["tables", "list"]
        words += ["--schema", schema] if schema is not None else []
        words += ["--limit", str(limit)] if limit is not None else []
        words += ["--after", listed.last]
        words += invocation.argument(pattern) if pattern is not None else []
        said += f"; next page: {invocation.command(*words)}"
    print(text.harmless(said), file=sys.stderr)


def _output_any_name(errors: str) -> None:
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors=errors)

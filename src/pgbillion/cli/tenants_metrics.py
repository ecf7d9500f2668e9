"""`pgbillion tenants metrics`: what monitoring keeps of schemas."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from pgbillion.cli import connect
from pgbillion.cli.connect import Where
from pgbillion.cli.options import at_least_one
from pgbillion.cli.tenants import Tenants
from pgbillion.cli.terminal import show
from pgbillion.tenants import metrics as tenants_metrics
from pgbillion.tenants import schemas


@connect.options
def metrics(
    where: Where,
    pattern: Tenants = "*",
    limit: Annotated[
        int,
        typer.Option("--limit", metavar="N", parser=at_least_one, help="Number of schemas with metrics of their own."),
    ] = 100,
) -> None:
    r"""Print metrics of schemas for Prometheus, in the text format of OpenMetrics.

    The largest schemas have metrics of their own, and all others together those with the label schema="pg_others".
    Sizes and rows are estimates from the catalogs and from PostgreSQL's statistics. No extension is needed.

    Example: pgbillion tenants metrics 'tenant_*' --limit 50
    """
    target = where.target()
    with target.connect() as conn:
        names = schemas.select(conn, pattern)
    found = tenants_metrics.collect(target, names, limit)
    # the format is UTF-8 with line feeds, wherever it is printed
    if not sys.stdout.isatty():
        sys.stdout.reconfigure(encoding="utf-8", newline="\n")  # type: ignore[union-attr]
    for line in tenants_metrics.lines(found):
        show(line)

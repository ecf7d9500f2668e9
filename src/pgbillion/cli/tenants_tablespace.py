"""`pgbillion tenants tablespace`: schemas into a tablespace."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from pgbillion.cli import connect
from pgbillion.cli.connect import Where
from pgbillion.cli.options import Json
from pgbillion.cli.tenants import LockTimeout, Retries, Tenants, Workers, check_time, number_of_workers, observe
from pgbillion.cli.terminal import say
from pgbillion.common import text
from pgbillion.tenants import schemas
from pgbillion.tenants import tablespace as tenants_tablespace


@connect.options
def tablespace(
    where: Where,
    pattern: Tenants,
    name: Annotated[str, typer.Argument(metavar="TABLESPACE", help="Target tablespace; pg_default is one, too.")],
    workers: Workers = None,
    lock_timeout: LockTimeout = "5s",
    retries: Retries = 3,
    as_json: Json = False,
) -> None:
    r"""Move tables, indexes and materialized views of schemas into a tablespace, each in its own transaction.

    What is already there is skipped, so run it again to continue after an interrupt, or to retry what failed. A table
    is locked while its own file is copied. Sequences stay where they are, because PostgreSQL does not move them. No
    extension is needed.

    Example: pgbillion tenants tablespace 'tenant_0*' fast
    """
    request = tenants_tablespace.Request(name, number_of_workers(workers), lock_timeout, retries)
    request.check()
    target = where.target()
    with target.connect() as conn:
        names = schemas.select(conn, pattern)
        check_time(conn, lock_timeout)
    outcome = tenants_tablespace.move(target, request, names, observe=observe("moved"))
    if as_json:
        print(json.dumps(outcome.to_json()))
    else:
        for failure in outcome.failures:
            say(text.harmless(f"failed: {failure.tenant}.{failure.relation}: {failure.error}"))
        words = [f"{text.many(outcome.moved, 'relation')} of {text.many(outcome.tenants, 'tenant')} moved"]
        words += [f"{text.count(outcome.before)} were there"] if outcome.before else []
        words += [f"{text.count(len(outcome.failures))} failed"] if outcome.failures else []
        print(f"{', '.join(words)}, in {text.duration(outcome.seconds)}")
    if outcome.failures:
        raise typer.Exit(1)

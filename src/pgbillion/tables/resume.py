"""Going on with a run that was interrupted: is this its database, where does it go on, is it whole in the end."""

from __future__ import annotations

from pgbillion.common import text
from pgbillion.common.connection import Connection
from pgbillion.common.errors import UserError
from pgbillion.common.target import Target
from pgbillion.server import describe
from pgbillion.tables import catalog
from pgbillion.tables.plan import Plan, Share
from pgbillion.tables.run import Run


def check_same_database(conn: Connection, run: Run) -> None:
    """Raise UserError when a run was begun in another database than this."""
    here = describe.identity(conn)
    if any(run.server.get(key) != value for key, value in here.items()):
        raise UserError(
            f"the run in {run.folder} belongs to another server or database: {run.server['display']}",
            "name that server with -h, -p, -U, -d",
        )


def done(conn: Connection, plan: Plan, share: Share) -> int:
    """Return how many tables of a worker's share exist.

    A worker makes its tables in the order of their numbers and commits in that order, so those that exist are the first
    ones, whatever died and when: a binary search finds the first that is missing in a few dozen look-ups, even among a
    billion.
    """
    names = plan.names
    low, high = 0, share.count
    while low < high:
        middle = (low + high) // 2
        if _exists(conn, plan.schema, names(share.first + middle)):
            low = middle + 1
        else:
            high = middle
    return low


def _exists(conn: Connection, schema: str, name: str) -> bool:
    row = conn.execute(
        "SELECT EXISTS (SELECT FROM pg_class WHERE relname = %s::name"
        " AND relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = %s))",
        (name, schema),
    ).fetchone()
    assert row is not None
    return bool(row[0])


def prove(target: Target, plan: Plan) -> None:
    """Raise UserError unless every name of the plan is there: what a resumed run owes."""
    with target.connect() as conn:
        present = catalog.count_existing(conn, plan.schema, plan.names, plan.first, plan.count)
    if present != plan.count:
        raise UserError(
            f"{text.count(plan.count - present)} of the {text.count(plan.count)} tables are missing among the others",
            "somebody dropped some, or the server lost committed work in a crash; create them with --first and --count",
        )

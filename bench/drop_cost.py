"""What DROP TABLE costs a table, by shared_buffers and by tables per transaction; and drop_tables().

On servers of its own without fsync (profile minimal), so that it is the server's work that is seen. Tables of the
source, (id INT, PRIMARY KEY (id)), each with a row. QUICK=1 is smaller; PG_CONFIG=… names another PostgreSQL.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from psycopg import sql

import common
from pgbillion.common import host, paths, search_path
from pgbillion.common.connection import Connection
from pgbillion.cycle import servers
from pgbillion.cycle.plan import Method, Phase, Request
from pgbillion.cycle.session import Session
from pgbillion.durability.profiles import Profile
from pgbillion.server import extension
from pgbillion.server.postgres import make_folder

BUFFERS: tuple[str, ...] = common.sized(("128MB", "1GB", "8GB"), ("128MB", "1GB"), ("16MB",))
PER_TRANSACTION: tuple[int, ...] = common.sized((1, 10, 100, 1_000, 10_000), (1, 10, 100, 1_000), (1, 10))
LEAST = common.sized(1_000, 500, 20)

DROP = """
DO $do$
BEGIN
    FOR i IN {first}..{last} LOOP
        EXECUTE 'DROP TABLE table' || i;
    END LOOP;
END
$do$
"""
DROP_BULK = (
    "SELECT pgbillion_tables.drop_tables("
    "ARRAY (SELECT ('table' || i)::regclass FROM generate_series({first}, {last}) i))"
)


def drop(conn: Connection, method: Method, per_transaction: int) -> float:
    """Make tables, drop them, a number in each transaction, and return the microseconds per table."""
    count = max(LEAST, per_transaction)
    session = Session.begin(conn, Request(count=count))
    session.work(Method.BULK, Phase.CREATE, count)()
    session.work(Method.SQL, Phase.INSERT, count)()
    statement = sql.SQL(DROP if method is Method.SQL else DROP_BULK)
    with search_path.restored(conn):
        start = time.perf_counter()
        for first in range(1, count + 1, per_transaction):
            last = sql.Literal(first + per_transaction - 1)
            conn.execute(statement.format(first=sql.Literal(first), last=last))
        return (time.perf_counter() - start) / count * 1e6


def main() -> int:
    """Run the benchmark and return the exit status."""
    state = paths.state_dir()
    make_folder(state)
    chosen = os.environ.get("PG_CONFIG")
    found: dict[tuple[str, int, Method], float] = {}
    version = ""
    for buffers in BUFFERS:
        settings = {"shared_buffers": buffers, "max_locks_per_transaction": "1000"}
        with (
            servers.private(state, Path(chosen) if chosen else None, settings) as server,
            server.under(Profile.MINIMAL) as target,
        ):
            version = server.cluster.installation.version
            for per_transaction in PER_TRANSACTION:
                for method in (Method.SQL, Method.BULK):
                    with servers.workplace(target, None) as conn:
                        extension.ensure_extension(conn, extension.TABLES)
                        cost = drop(conn, method, per_transaction)
                    found[buffers, per_transaction, method] = cost
                    common.say(f"shared_buffers {buffers}, {per_transaction:,} a transaction, {method}: {cost:,.0f} µs")
    common.table(
        f"microseconds per table dropped, PostgreSQL {version}",
        (
            "tables per transaction",
            *(f"{method}, {buffers}" for method in (Method.SQL, Method.BULK) for buffers in BUFFERS),
        ),
        [
            [
                f"{per_transaction:,}",
                *(
                    f"{found[buffers, per_transaction, method]:,.0f}"
                    for method in (Method.SQL, Method.BULK)
                    for buffers in BUFFERS
                ),
            ]
            for per_transaction in PER_TRANSACTION
        ],
    )
    common.result(
        {
            "benchmark": "drop_cost",
            "microseconds": [
                {
                    "shared_buffers": buffers,
                    "tables_per_transaction": number,
                    "method": method.value,
                    "us": round(us, 1),
                }
                for (buffers, number, method), us in found.items()
            ],
            "postgresql": version,
            "hardware": host.hardware(),
            "quick": common.QUICK,
        }
    )
    return 0


if __name__ == "__main__":
    common.run(main)

"""How long a move of a tenant blocks the clients that write to it (pgbillion tenants move --online).

Part of bench/tenants.py. The tenant is a schema with pgbench's tables, to which pgbench's clients write as fast as they
can while it moves to and fro between two databases of a server. After each move the tenant must have what pgbench says
that it has committed: its rows of pgbench_history, and the sums of all balances, which are those of that table.
"""

from __future__ import annotations

import re
import statistics
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from psycopg.conninfo import conninfo_to_dict

import common
from pgbillion.common.target import Target
from pgbillion.server.postgres import Cluster
from pgbillion.tenants import move_online

MOVES = common.sized(20, 6, 2)
CLIENTS = 8
SCALE = common.sized(8, 2, 1)
# of work before each move
WARM_SECONDS = common.sized(2.0, 1.0, 0.2)
# what replication needs, and all durability
_SETTINGS = {
    "wal_level": "logical",
    "max_wal_senders": "10",
    "max_replication_slots": "10",
    "fsync": "on",
    "full_page_writes": "on",
    "synchronous_commit": "on",
}
_DONE = re.compile(r"number of transactions actually processed: (\d+)")
_SUMS = (
    "SELECT (SELECT count(*) FROM tenant.pgbench_history), (SELECT sum(delta) FROM tenant.pgbench_history),"
    " (SELECT sum(abalance) FROM tenant.pgbench_accounts), (SELECT sum(tbalance) FROM tenant.pgbench_tellers),"
    " (SELECT sum(bbalance) FROM tenant.pgbench_branches)"
)


def _command(cluster: Cluster, target: Target, *options: str) -> tuple[list[str], dict[str, str]]:
    parts = conninfo_to_dict(target.conninfo)
    names = {"host": "PGHOST", "port": "PGPORT", "user": "PGUSER", "dbname": "PGDATABASE"}
    environment = {variable: str(parts[name]) for name, variable in names.items()}
    environment["PGOPTIONS"] = "-c search_path=tenant"
    return [str(cluster.installation.program("pgbench")), *options], environment


@contextmanager
def _load(cluster: Cluster, target: Target) -> Iterator[list[int]]:
    """Have clients write until the tenant is gone; the list then has how many transactions were committed."""
    command, environment = _command(cluster, target, "-n", "-c", str(CLIENTS), "-j", "2", "-T", "3600")
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    committed: list[int] = []
    try:
        time.sleep(WARM_SECONDS)
        yield committed
        said, _ = process.communicate(timeout=120)
    finally:
        process.kill()
        process.wait()
    found = _DONE.search(said)
    if found is None:
        raise RuntimeError(f"pgbench has not said how much it did: {said}")
    committed.append(int(found[1]))


def _rows(target: Target) -> int:
    """Return the number of transactions that a tenant has. Raises RuntimeError where its sums differ."""
    with target.connect() as conn:
        rows, *sums = conn.execute(_SUMS).fetchall()[0]
    if len({total or 0 for total in sums}) != 1:
        raise RuntimeError(f"the sums of the balances differ: {sums}")
    return int(rows)


def measure(cluster: Cluster) -> dict[str, Any]:
    """Return the milliseconds for which moves blocked writes, and their seconds."""
    with cluster.connect() as conn:
        for setting, value in _SETTINGS.items():
            conn.execute(f"ALTER SYSTEM SET {setting} = {value}".encode())
    cluster.stop()
    cluster.start()
    targets = [common.database(cluster, name) for name in ("moves_a", "moves_b")]
    with targets[0].connect() as conn:
        conn.execute("CREATE SCHEMA tenant")
    command, environment = _command(cluster, targets[0], "-i", "-q", "-s", str(SCALE))
    subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    blocked, seconds, rate = [], [], []
    for number in range(MOVES):
        here, there = targets[number % 2], targets[1 - number % 2]
        before, start = _rows(here), time.perf_counter()
        with _load(cluster, here) as committed:
            done = move_online.run(here, there, move_online.Request("tenant", drop=True), say=lambda line: None)
        elapsed = time.perf_counter() - start
        if _rows(there) - before != committed[0]:
            raise RuntimeError(f"{committed[0]} transactions were committed, and {_rows(there) - before} have moved")
        blocked.append(done.blocked_ms)
        seconds.append(done.seconds)
        rate.append(committed[0] / elapsed)
        common.say(
            f"moved in {done.seconds:.1f} s, writes blocked for {done.blocked_ms:.0f} ms,"
            f" {rate[-1]:,.0f} transactions/s"
        )
    return {
        "move_blocked_ms": round(statistics.median(blocked), 1),
        "move_blocked_ms_most": max(blocked),
        "move_seconds": round(statistics.median(seconds), 2),
        "move_transactions_per_s": round(statistics.median(rate)),
        "moves": MOVES,
    }

"""What a session's catalog caches cost, and what a limit for them costs (pgbillion_tables.metadata_memory).

Part of bench/tenants.py. Small tables with a primary key are read by key in random order, a statement and a round trip
for each, as a pool of sessions does: without a limit, with one of half of what the caches would hold, and with one that
is never reached. The sides take turns, each in a session of its own. The first visits are those of a session that comes
by each table once; in the visits after them a session without a limit has everything in its caches, which is the worst
that a limit can be compared with. Times are CPU time of the server's process.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil
import psycopg

import common
from pgbillion.common.target import Target

TABLES = common.sized(20_000, 3_000, 300)
# visited once each by a session whose memory is looked at
MANY = common.sized(50_000, 6_000, 600)
AGAIN = 2
ROUNDS = common.sized(3, 1, 1)
# MB for MANY
LIMIT = common.sized(64, 8, 1)
# for TABLES: none, half of what they take, more than they take
LIMITS = {
    "none": "0",
    "half": f"{TABLES * 7 // 2}kB",
    "more": "8GB",
}


def make_tables(target: Target, number: int) -> None:
    """Make small tables with a primary key: visited.t1 and so on."""
    with target.connect() as conn:
        conn.execute("CREATE SCHEMA visited; CREATE TABLE visited.t (id integer PRIMARY KEY, a text, b numeric)")
        conn.execute(
            "SELECT pgbillion_tables.create_tables('visited.t', 't%%d', 1, %s, schema => 'visited')",
            [number],
        )


def _session(target: Target, limit: str) -> psycopg.Connection[Any]:
    conn = psycopg.connect(target.conninfo, autocommit=True)
    conn.execute("LOAD 'pgbillion_tables'")
    conn.execute(f"SET pgbillion_tables.metadata_memory = '{limit}'".encode())
    return conn


def _visit(conn: psycopg.Connection[Any], tables: Sequence[int]) -> None:
    for table in tables:
        found = conn.pgconn.exec_(b"SELECT a FROM visited.t%d WHERE id = 1" % table)
        if found.status != psycopg.pq.ExecStatus.TUPLES_OK:
            raise RuntimeError(found.error_message)


def own_mb(pid: int) -> float:
    """Return a process's memory without files and what it shares with others."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    (kilobytes,) = (int(line.split()[1]) for line in lines if line.startswith("RssAnon:"))
    return kilobytes / 1024


def _seconds(target: Target, limit: str, chance: random.Random) -> tuple[float, float]:
    """Return the server's CPU time for the first visits, and for AGAIN more of each table."""
    tables = list(range(1, TABLES + 1))
    with _session(target, limit) as conn:
        process = psutil.Process(conn.info.backend_pid)

        def visit(order: Sequence[int]) -> float:
            before = process.cpu_times()
            _visit(conn, order)
            after = process.cpu_times()
            return after.user + after.system - before.user - before.system

        return (
            visit(chance.sample(tables, TABLES)),
            visit([table for _ in range(AGAIN) for table in chance.sample(tables, TABLES)]),
        )


def measure(target: Target) -> dict[str, Any]:
    """Return the figures: memory after MANY tables with and without a limit, and what limits cost."""
    make_tables(target, max(TABLES, MANY))
    memory: dict[str, float] = {}
    for name, limit in (("without", "0"), ("limit", f"{LIMIT}MB")):
        with _session(target, limit) as conn:
            _visit(conn, range(1, MANY + 1))
            memory[name] = round(own_mb(conn.info.backend_pid), 1)
        common.say(f"{MANY:,} tables visited, {name}: {memory[name]} MB")
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in LIMITS}
    for number in range(ROUNDS):
        for name, limit in LIMITS.items():
            found[name].append(_seconds(target, limit, random.Random(number)))
            first, again = found[name][-1]
            common.say(f"{TABLES:,} tables visited, limit {name}: {first:.2f} s, {AGAIN} times more: {again:.2f} s")

    def over_none(name: str, part: int) -> float:
        pairs = zip(found[name], found["none"], strict=True)
        return round(statistics.median(seconds[part] / max(none[part], 0.01) for seconds, none in pairs), 3)

    return {
        "metadata_mb": memory["limit"],
        "metadata_mb_without": memory["without"],
        "metadata_tables": MANY,
        "metadata_limit_mb": LIMIT,
        "metadata_cost": over_none("half", 0),
        "metadata_cost_again": over_none("half", 1),
        "metadata_cost_within": over_none("more", 1),
    }

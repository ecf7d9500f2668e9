"""Memory of pooled sessions that visit all tenants, with and without pgbillion_tables.metadata_memory.

As many clients as there are sessions read small tables by key, through pgbouncer in transaction mode, which gives each
statement to the next free session: each client visits all tables once in a random order of its own, and then again in
another one. What is measured is the memory of the server's sessions together, without files and what they share with
others, over the number of statements. `CHART=FILE.svg` draws it. QUICK=1 visits fewer tables.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib as mpl
import psycopg
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

import common
import metadata
from pgbillion.common.errors import UserError
from pgbillion.common.target import Target
from pgbillion.server.postgres import Cluster, server_user

TABLES = common.sized(20_000, 3_000, 100)
SESSIONS = common.sized(4, 4, 2)
ROUNDS = 2
LIMIT = common.sized(64, 16, 1)  # MB
POINTS = 100
SIDES = {"without": "0", "limit": f"{LIMIT}MB"}
PORT = 6432
_ROLE = "pooled"


@contextlib.contextmanager
def pooler(cluster: Cluster, database: str, folder: Path) -> Iterator[str]:
    """Start pgbouncer in front of a database; give how to reach it. Raises UserError without the program."""
    program = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None:
        raise UserError("pgbouncer is not installed", "install Debian's package pgbouncer")
    mine = folder / "pgbouncer"
    mine.mkdir()
    (mine / "users").write_text(f'"{_ROLE}" ""\n')
    (mine / "ini").write_text(
        f"[databases]\n{database} = host={cluster.socket_dir} port={cluster.port}\n"
        f"[pgbouncer]\npool_mode = transaction\ndefault_pool_size = {SESSIONS}\nserver_round_robin = 1\n"
        "server_lifetime = 86400\nserver_idle_timeout = 0\nauth_type = trust\n"
        f"auth_file = {mine}/users\nlisten_addr =\nlisten_port = {PORT}\nunix_socket_dir = {mine}\n"
    )
    user = server_user()
    owned: dict[str, Any] = {}
    if user is not None:
        os.chown(mine, user.pw_uid, user.pw_gid)
        owned = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    with (mine / "log").open("w") as log:
        process = subprocess.Popen([program, str(mine / "ini")], cwd="/", stdout=log, stderr=log, **owned)
        try:
            while not _listens(mine / f".s.PGSQL.{PORT}"):
                if process.poll() is not None:
                    raise UserError(f"pgbouncer has ended: {(mine / 'log').read_text()[-1000:]}")
                time.sleep(0.05)
            yield f"host={mine} port={PORT} dbname={database} user={_ROLE}"
        finally:
            process.terminate()
            process.wait()
            shutil.rmtree(mine)


def _listens(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        return client.connect_ex(str(path)) == 0


def visited(target: Target, where: str) -> list[tuple[int, float]]:
    """Have clients visit all tables; return numbers of statements, and the sessions' memory in MB after them."""
    total = SESSIONS * ROUNDS * TABLES
    done = [0] * SESSIONS
    failed: list[Exception] = []

    def client(number: int) -> None:
        try:
            chance = random.Random(number)
            with psycopg.connect(where, autocommit=True, prepare_threshold=None) as conn:
                for _ in range(ROUNDS):
                    for table in chance.sample(range(1, TABLES + 1), TABLES):
                        found = conn.pgconn.exec_(b"SELECT a FROM visited.t%d WHERE id = 1" % table)
                        if found.status != psycopg.pq.ExecStatus.TUPLES_OK:
                            raise RuntimeError(found.error_message)
                        done[number] += 1
        except (psycopg.Error, RuntimeError) as error:
            failed.append(error)

    threads = [threading.Thread(target=client, args=[number], daemon=True) for number in range(SESSIONS)]
    points: list[tuple[int, float]] = []
    with target.connect() as conn:
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            if sum(done) >= (points[-1][0] if points else 0) + total // POINTS:
                points.append((sum(done), _memory(conn)))
            time.sleep(0.02)
        if failed:
            raise failed[0]
        points.append((sum(done), _memory(conn)))
    return points


def _memory(conn: psycopg.Connection[Any]) -> float:
    """Return the memory of the pool's sessions in MB."""
    found = conn.execute("SELECT pid FROM pg_stat_activity WHERE usename = %s", [_ROLE]).fetchall()
    return sum(metadata.own_mb(pid) for (pid,) in found)


def draw(measured: dict[str, list[tuple[int, float]]], file: Path) -> None:
    """Draw the sessions' memory over the number of statements."""
    mpl.rcParams |= {"svg.fonttype": "none", "svg.hashsalt": "pooled"}
    figure = Figure(figsize=(8, 3.5), layout="constrained")
    axes = figure.subplots()
    names = {"without": "without a limit", "limit": f"metadata_memory = {LIMIT} MB"}
    for (side, points), color in zip(measured.items(), ("#b5651d", "#336791"), strict=True):
        axes.plot(*zip(*points, strict=True), label=names[side], color=color, linewidth=1.5)
    axes.set_title(f"{SESSIONS} pooled sessions, {TABLES:,} tables", fontsize=11)
    axes.set_ylabel("memory of all sessions, MB")
    axes.set_xlabel("statements")
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.grid(axis="y", alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=9)
    figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})


def main() -> int:
    """Run the benchmark and return the exit status."""
    measured: dict[str, list[tuple[int, float]]] = {}
    with common.own_server() as (cluster, folder):
        target = common.database(cluster, "tenants")
        with target.connect() as conn:
            conn.execute("CREATE EXTENSION pgbillion_tables")
            conn.execute(f"CREATE ROLE {_ROLE} LOGIN".encode())
            conn.execute("ALTER DATABASE tenants SET session_preload_libraries = 'pgbillion_tables'")
        metadata.make_tables(target, TABLES)
        with target.connect() as conn:
            conn.execute(f"GRANT USAGE ON SCHEMA visited TO {_ROLE}".encode())
            conn.execute(f"GRANT pg_read_all_data TO {_ROLE}".encode())
        conditions = common.conditions(cluster)
        for side, limit in SIDES.items():
            with target.connect() as conn:
                conn.execute(f"ALTER DATABASE tenants SET pgbillion_tables.metadata_memory = '{limit}'".encode())
            with pooler(cluster, "tenants", folder) as where:
                measured[side] = visited(target, where)
            common.say(f"{side}: {measured[side][-1][1]:,.0f} MB after {measured[side][-1][0]:,} statements")
    if chart := os.environ.get("CHART"):
        draw(measured, Path(chart))
    most = {side: round(max(memory for _, memory in points), 1) for side, points in measured.items()}
    common.table(
        f"{SESSIONS} pooled sessions, {TABLES:,} tables",
        ("metadata_memory", "MB at most", "MB at the end"),
        [[SIDES[side], f"{most[side]:,.0f}", f"{points[-1][1]:,.0f}"] for side, points in measured.items()],
    )
    common.result(
        {
            "benchmark": "pooled",
            "pooled_mb": most,
            "pooled_mb_at_end": {side: round(points[-1][1], 1) for side, points in measured.items()},
            "points": measured,
            "sessions": SESSIONS,
            "tables": TABLES,
            "statements": ROUNDS * SESSIONS * TABLES,
            "limit_mb": LIMIT,
            "quick": common.QUICK,
            **conditions,
        }
    )
    return 0


if __name__ == "__main__":
    common.run(main)

"""One tenant brought back from a base backup and WAL (pgbillion tenants restore), beside restoring the whole backup.

The database has tenants of ten tables each, which all change after the backup. Restoring the whole is what one does by
hand: copy the backup and WAL with cp, replay up to the time, and take the schema from there by pg_dump and pg_restore.
That server gets the same settings as ours, among them no durability. Both ways alternate. A backup of QUICK=1, which
has fewer and smaller tenants, is in the kernel's cache; copying that takes little, so that it says nothing of a large
one. TENANTS=… is another number of tenants, and PG_CONFIG=… another PostgreSQL.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import psycopg
from psycopg import sql

import common
from pgbillion.common.target import Target
from pgbillion.server.postgres import SUPERUSER, Cluster, make_folder, run_as_server
from pgbillion.tables.worker import psql_connection
from pgbillion.tenants import replay
from pgbillion.tenants.replay import Goal, Wal

TENANTS = int(os.environ.get("TENANTS") or common.sized(200, 40, 3))
TABLES = 10
# a row takes a kilobyte
ROWS = common.sized(5_000, 1_000, 10)
ROUNDS = common.sized(3, 3, 1)
CHANGED_PERCENT = 5
ONE = "tenant_1"


def fill(target: Target) -> None:
    """Make the tenants with their rows."""
    with target.connect() as conn:
        for tenant in range(TENANTS):
            conn.execute(f"CREATE SCHEMA tenant_{tenant}".encode())
            for table in range(TABLES):
                name = f"tenant_{tenant}.t{table}"
                conn.execute(
                    f"CREATE TABLE {name} (id bigint PRIMARY KEY, changed integer, t text);"
                    f"INSERT INTO {name} SELECT g, 0, repeat(md5(g::text), 30)"
                    f" FROM generate_series(1, {ROWS}) g".encode()
                )
        conn.execute("CHECKPOINT")


def change(target: Target) -> None:
    """Change some rows of each table."""
    with target.connect() as conn:
        for tenant in range(TENANTS):
            for table in range(TABLES):
                conn.execute(
                    f"UPDATE tenant_{tenant}.t{table} SET changed = changed + 1"
                    f" WHERE id % 100 < {CHANGED_PERCENT}".encode()
                )


def back_up(cluster: Cluster, folder: Path) -> Path:
    """Take a base backup."""
    path = folder / "base"
    make_folder(path, private=True, for_server=True)
    where = ["-h", str(cluster.socket_dir), "-p", str(cluster.port), "-U", SUPERUSER]
    run_as_server(
        [cluster.installation.program("pg_basebackup"), "-D", path, "-c", "fast", "-X", "none", *where],
        check=True,
        capture_output=True,
    )
    return path


def start_archiving(cluster: Cluster, wal: Path) -> None:
    """Have WAL archived from here on."""
    with cluster.connect() as conn:
        conn.execute(f"ALTER SYSTEM SET archive_command = 'cp %p {wal}/.%f && mv {wal}/.%f {wal}/%f'".encode())
        conn.execute("SELECT pg_reload_conf()")
        # the archiver reads the command before each segment, and this one may be too early
        while not any(wal.iterdir()):
            conn.execute("SELECT txid_current()")
            conn.execute("SELECT pg_switch_wal()")
            time.sleep(0.5)


def archive_all(cluster: Cluster, wal: Path) -> None:
    """Wait until the archive has what was written."""
    with cluster.connect() as conn:
        conn.execute("SELECT txid_current()")
        ((segment,),) = conn.execute("SELECT pg_walfile_name(pg_switch_wal())").fetchall()
    while not (wal / str(segment)).exists():
        time.sleep(0.05)


def by_ours(target: Target, backup: Path, wal: Path, to: str, state: Path) -> float:
    """Return the seconds of the command."""
    arguments, environment = psql_connection(target.conninfo, "pgbillion bench")
    words = [sys.executable, "-m", "pgbillion", "tenants", "restore", ONE, "--backup", str(backup), "--wal", str(wal)]
    start = time.perf_counter()
    subprocess.run(
        [*words, "--to", to, "--as", "restored", "--state-dir", str(state), *arguments],
        env=environment, check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    return time.perf_counter() - start


def by_hand(cluster: Cluster, target: Target, backup: Path, wal: Path, to: str, folder: Path) -> float:
    """Return the seconds of restoring all of the backup, and taking the schema from there."""
    start = time.perf_counter()
    work = folder / "whole"
    make_folder(work)
    server = replay.Server(cluster.installation, work, [SUPERUSER])
    subprocess.run(["cp", "-a", str(backup), str(work / "data")], check=True)
    facts = replay.control(cluster.installation, work / "data")
    archive = Wal(command=f"cp {wal}/%f %p")
    server.configure(Goal(to), archive, facts, partial=False, preload=())
    server.signal_recovery()
    database = str(psycopg.conninfo.conninfo_to_dict(target.conninfo)["dbname"])
    server.reach(database, archive, lambda line: None)
    with server.connect(database) as conn:
        conn.execute(sql.SQL("ALTER SCHEMA {} RENAME TO restored").format(sql.Identifier(ONE)))
    programs = [str(cluster.installation.program(name)) for name in ("pg_dump", "pg_restore")]
    source, _ = psql_connection(server.target(database).conninfo, "pgbillion bench")
    into, environment = psql_connection(target.conninfo, "pgbillion bench")
    with subprocess.Popen(
        [programs[0], "-Fc", "-Z0", "-n", "restored", *source], env=environment, stdout=subprocess.PIPE
    ) as dump:
        subprocess.run([programs[1], "-1", "--exit-on-error", *into], env=environment, stdin=dump.stdout, check=True)
    server.stop()
    replay.remove(work)
    return time.perf_counter() - start


def check(target: Target, wanted: tuple[object, ...]) -> None:
    """Raise RuntimeError unless the schema is as it was, and drop it."""
    with target.connect() as conn:
        found = facts_of(conn, "restored")
        conn.execute("SET client_min_messages = warning; DROP SCHEMA restored CASCADE")
        conn.execute("CHECKPOINT")
    if found != wanted:
        raise RuntimeError(f"{ONE} had {wanted}, and has {found}")


def facts_of(conn: psycopg.Connection[tuple[object, ...]], schema: str) -> tuple[object, ...]:
    """Return numbers that show what rows a schema has."""
    query = f"SELECT count(*), sum(changed), md5(string_agg(md5(t), '' ORDER BY id)) FROM {schema}.t{TABLES - 1}"
    return conn.execute(query.encode()).fetchall()[0]


def main() -> int:
    """Run the benchmark and return the exit status."""
    seconds: dict[str, list[float]] = {"one": [], "whole": []}
    with common.own_server() as (cluster, folder):
        wal = folder / "wal"
        make_folder(wal, private=True, for_server=True)
        with cluster.connect() as conn:
            for setting in (
                "archive_mode = on",
                "wal_level = replica",
                "max_wal_senders = 4",
                "full_page_writes = on",
                # nobody needs what is older than the backup
                "archive_command = 'true'",
            ):
                conn.execute(f"ALTER SYSTEM SET {setting}".encode())
        cluster.stop()
        cluster.start()
        target = common.database(cluster, "app")
        fill(target)
        start_archiving(cluster, wal)
        backup = back_up(cluster, folder)
        change(target)
        with target.connect() as conn:
            wanted = facts_of(conn, ONE)
            ((to,),) = conn.execute("SELECT clock_timestamp()::text FROM pg_sleep(0.01)").fetchall()
        change(target)
        archive_all(cluster, wal)
        size = sum(path.stat().st_size for path in backup.rglob("*") if path.is_file())
        replayed = sum(path.stat().st_size for path in wal.iterdir())
        conditions = common.conditions(cluster)
        for _ in range(ROUNDS):
            seconds["one"].append(by_ours(target, backup, wal, str(to), folder / "state"))
            check(target, wanted)
            seconds["whole"].append(by_hand(cluster, target, backup, wal, str(to), folder))
            check(target, wanted)
        shutil.rmtree(backup)
    best = {way: min(values) for way, values in seconds.items()}
    common.table(
        f"one of {TENANTS:,} tenants, from a backup of {size / 1e6:,.0f} MB and {replayed / 1e6:,.0f} MB of WAL",
        ("", "seconds"),
        [[way, f"{value:,.1f}"] for way, value in best.items()],
    )
    common.result(
        {
            "benchmark": "restores",
            "restore_one_s": round(best["one"] / best["whole"], 3),
            "seconds": {way: common.spread(values) for way, values in seconds.items()},
            "backup_bytes": size,
            "wal_bytes": replayed,
            "tenants": TENANTS,
            "rows_per_table": ROWS,
            "tables_per_tenant": TABLES,
            "rounds": ROUNDS,
            "quick": common.QUICK,
            **conditions,
        }
    )
    return 0


if __name__ == "__main__":
    common.run(main)

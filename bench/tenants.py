"""Tenants: cloned beside PostgreSQL's own commands fed to psql, migrated beside a loop of psql, compared.

The model is a schema of 50 tables in the manner of an application: 120 indexes, 60 foreign keys, 20 triggers, 10 views,
10 functions, policies. What is compared takes turns. QUICK=1 makes fewer tenants; PG_CONFIG=… is another PostgreSQL.
"""

from __future__ import annotations

import contextlib
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator

import common
import psycopg

from pgbillion.common.target import Target
from pgbillion.server.postgres import Cluster
from pgbillion.tables.worker import psql_connection
from pgbillion.tenants import create, diff, migrate, script

TENANTS = 20 if common.QUICK else 200  # cloned in a round
SINGLES = 3 if common.QUICK else 30
MIGRATED = 30 if common.QUICK else 2_000
ROUNDS = 1 if common.QUICK else 3
TABLES = 50


def model() -> str:
    """Return the commands that make the model in the current schema."""
    lines = ["CREATE TYPE state AS ENUM ('new', 'open', 'done')"]
    lines += [
        f"CREATE FUNCTION f{number}() RETURNS trigger LANGUAGE plpgsql AS"
        " 'BEGIN NEW.changed := clock_timestamp(); RETURN NEW; END'"
        for number in range(10)
    ]
    for number in range(TABLES):
        lines.append(
            f"CREATE TABLE t{number} (id bigserial PRIMARY KEY, name text NOT NULL CHECK (name <> ''), state state"
            " DEFAULT 'new', amount numeric(12,2) DEFAULT 0, parent bigint, other bigint, data jsonb,"
            " changed timestamptz DEFAULT now())"
        )
        lines.append(f"CREATE INDEX ON t{number} (parent)")
        if number < 20:
            lines.append(f"CREATE UNIQUE INDEX ON t{number} (lower(name)) WHERE state <> 'done'")
            lines.append(
                f"CREATE TRIGGER changed BEFORE UPDATE ON t{number} FOR EACH ROW EXECUTE FUNCTION f{number % 10}()"
            )
        if number:
            lines.append(f"ALTER TABLE t{number} ADD FOREIGN KEY (parent) REFERENCES t{number // 2} ON DELETE CASCADE")
        if number > TABLES - 12:
            lines.append(f"ALTER TABLE t{number} ADD FOREIGN KEY (other) REFERENCES t0")
    for number in range(10):
        lines.append(
            f"CREATE VIEW v{number} AS SELECT c.id, c.name, p.name AS parent_name, sum(c.amount) OVER () AS total"
            f" FROM t{number + 1} c LEFT JOIN t{number} p ON p.id = c.parent WHERE c.state <> 'done'"
        )
        lines.append(f"CREATE POLICY own ON t{number} USING (name = current_user)")
        lines.append(f"ALTER TABLE t{number} ENABLE ROW LEVEL SECURITY")
    return ";\n".join(lines)


@contextlib.contextmanager
def _quiet(total: int) -> Iterator[Callable[[int], None]]:
    yield lambda done: None


def timed(work: Callable[[], object]) -> float:
    """Return the seconds that something takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def dropped(target: Target, pattern: str) -> None:
    """Drop schemas, a transaction each, and checkpoint."""
    with target.connect() as conn:
        found = conn.execute(
            "SELECT quote_ident(nspname) FROM pg_namespace WHERE nspname LIKE %s", [pattern]
        ).fetchall()
        conn.execute("SET client_min_messages = warning")
        for (name,) in found:
            conn.execute(f"DROP SCHEMA {name} CASCADE".encode())
        conn.execute("CHECKPOINT")


class Psql:
    """psql, a process per file, as scripts of administrators run it."""

    def __init__(self, cluster: Cluster, target: Target) -> None:
        self._arguments, self._environment = psql_connection(target.conninfo, "pgbillion bench")
        self._program = str(cluster.installation.program("psql"))

    def run(self, text: str) -> None:
        """Run a text in one transaction."""
        with tempfile.TemporaryFile("w+") as file:
            file.write(text)
            file.seek(0)
            command = [self._program, "-X", "-q", "-1", "-v", "ON_ERROR_STOP=1", *self._arguments]
            done = subprocess.run(
                command, env=self._environment, stdin=file, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
            )
        if done.returncode != 0:
            raise RuntimeError(done.stderr)


def dump(cluster: Cluster, target: Target) -> str:
    """Return what pg_dump makes of the model."""
    command = [str(cluster.installation.program("pg_dump")), "-s", "-n", "model", "-d", target.conninfo]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout


def cloning(cluster: Cluster, target: Target) -> dict[str, list[float]]:
    """Return the seconds of TENANTS by each way."""
    text, psql = dump(cluster, target), Psql(cluster, target)
    found: dict[str, list[float]] = {"heap": [], "lazy": [], "sql": []}

    def bulk(prefix: str, method: str | None) -> Callable[[], object]:
        request = create.Request("model", f"{prefix}_%04d", 0, TENANTS, 2, 5, method)
        return lambda: create.execute(target, request, observe=_quiet)

    def by_psql() -> None:
        for number in range(TENANTS):
            psql.run(re.sub(r"\bmodel\b", f"sql_{number:04}", text))

    for _ in range(ROUNDS):
        for way, work in {"heap": bulk("heap", "heap"), "lazy": bulk("lazy", "lazy_heap"), "sql": by_psql}.items():
            found[way].append(timed(work))
            common.say(f"{TENANTS} tenants, {way}: {found[way][-1]:.2f} s")
            dropped(target, rf"{way}\_%")
    return found


def single(target: Target, number: int) -> None:
    """Sign up: connect, clone a prepared template, commit."""
    with psycopg.connect(target.conninfo) as conn:
        conn.execute("SELECT pgbillion_tables.clone_schema('model', %s, 'lazy_heap')", [f"single_{number:04}"])


def migrating(cluster: Cluster, target: Target) -> dict[str, list[float]]:
    """Return the seconds that a migration of MIGRATED tenants takes by each way."""
    with target.connect() as conn:
        for number in range(MIGRATED):
            conn.execute(
                f"CREATE SCHEMA mig_{number:05}; CREATE TABLE mig_{number:05}.t (id bigint PRIMARY KEY)".encode()
            )
        conn.execute("CHECKPOINT")
    psql = Psql(cluster, target)
    names = [f"mig_{number:05}" for number in range(MIGRATED)]
    found: dict[str, list[float]] = {"migrate": [], "psql": []}

    def text(column: str) -> str:
        return f"ALTER TABLE t ADD COLUMN {column} integer; CREATE INDEX ON t ({column})"

    def by_psql(column: str) -> None:
        for name in names:
            psql.run(f"SET search_path = {name}; {text(column)}")

    for number in range(ROUNDS):
        request = migrate.Request(script.load([], [text(f"a{number}")]), 2)
        found["migrate"].append(timed(lambda: migrate.run(target, request, names, observe=_quiet)))  # noqa: B023
        found["psql"].append(timed(lambda: by_psql(f"b{number}")))  # noqa: B023
        common.say(f"{MIGRATED} tenants migrated: {found['migrate'][-1]:.2f} s, by psql {found['psql'][-1]:.2f} s")
    dropped(target, r"mig\_%")
    return found


def main() -> int:
    """Run the benchmark and return the exit status."""
    with common.own_server() as (cluster, _):
        target = common.database(cluster, "bench")
        conditions = common.conditions(cluster)
        with target.connect() as conn:
            conn.execute("CREATE EXTENSION pgbillion_tables")
            conn.execute(f"CREATE SCHEMA model; SET search_path = model; {model()}; SET search_path = ''".encode())
        cloned = cloning(cluster, target)
        with target.connect() as conn:
            conn.execute("SELECT pgbillion_tables.prepare_clone('model', 'lazy_heap')")
        singles = [timed(lambda: single(target, number)) for number in range(SINGLES)]  # noqa: B023
        names = [f"single_{number:04}" for number in range(SINGLES)]
        compared = diff.compare(target, "model", names, 2, observe=_quiet)
        if compared.groups:
            raise RuntimeError(f"a clone differs: {compared.groups[0]}")
        dropped(target, r"single\_%")
        migrated = migrating(cluster, target)
    median = {way: statistics.median(found) for way, found in {**cloned, **migrated}.items()}
    common.table(
        "tenants, medians",
        ("", "tenants/s"),
        [
            *([f"cloned, {way}", f"{TENANTS / median[way]:,.1f}"] for way in cloned),
            *([f"migrated, {way}", f"{MIGRATED / median[way]:,.1f}"] for way in migrated),
        ],
    )
    common.result(
        {
            "benchmark": "tenants",
            "ratio_bulk_over_sql": round(median["sql"] / median["lazy"], 2),
            "ratio_bulk_over_sql_heap": round(median["sql"] / median["heap"], 2),
            "ms_single": round(statistics.median(singles) * 1000, 1),
            "ratio_migrate": round(median["psql"] / median["migrate"], 2),
            "diff_tables_per_s": round(compared.tables / compared.seconds),
            "seconds": {way: common.spread(found) for way, found in {**cloned, **migrated}.items()},
            "tenants": TENANTS,
            "tables_per_tenant": TABLES,
            "migrated": MIGRATED,
            "rounds": ROUNDS,
            "quick": common.QUICK,
            **conditions,
        }
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())

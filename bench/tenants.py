"""Tenants: cloned beside PostgreSQL's own commands fed to psql, migrated beside a loop of psql, compared.

Last come what a session that visits them all keeps of catalogs, see metadata.py, and how long an online move blocks the
clients that write to a tenant, see moves.py.

The model is a schema of 50 tables in the manner of an application: 120 indexes, 60 foreign keys, 20 triggers, 10 views,
10 functions, policies. What is compared takes turns, and so do as many bare files as the tenants have, made by as many
processes in the same folder: the database's. Each begins when the server and the kernel have nothing left to write.
`create --method sql` runs PostgreSQL's commands too, and takes its turn with psql.
Each time includes what is learned from the first clones. psql is tried in two ways, a process per tenant and one per
worker, and the one that is faster in the first round counts. Nothing is dropped meanwhile, which takes about 12 GB:
ext4 without a journal passes over the inodes of removed files for minutes. QUICK=1 makes fewer tenants; PG_CONFIG=… is
another PostgreSQL. PG_CLONE_SCHEMA=… is the file clone_schema.sql of the project pg-clone-schema, whose function is
timed as it is, in a database with nothing else.
"""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import psycopg

import common
import files
import metadata
import moves
from pgbillion.common import together
from pgbillion.common.target import Target
from pgbillion.server.postgres import Cluster
from pgbillion.tables.plan import Method
from pgbillion.tables.worker import psql_connection
from pgbillion.tenants import create, diff, migrate, script

TENANTS = common.sized(200, 60, 4)  # cloned in a round
OTHERS = () if common.QUICK else (60, 1_000)  # cloned once, to see what the number matters
WORKERS = 2
SINGLES = common.sized(30, 5, 1)
MIGRATED = common.sized(2_000, 100, 4)
THEIRS = common.sized(5, 1, 1)  # by pg-clone-schema
ROUNDS = common.sized(3, 1, 1)
TABLES = common.sized(50, 50, 12)


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


def timed(work: Callable[[], object]) -> float:
    """Return the seconds that something takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


class Psql:
    """psql, a process per file, as scripts of administrators run it."""

    def __init__(self, cluster: Cluster, target: Target) -> None:
        self._arguments, self._environment = psql_connection(target.conninfo, "pgbillion bench")
        self._program = str(cluster.installation.program("psql"))

    def run(self, text: str, transaction: str = "-1") -> None:
        """Run a text, in one transaction unless it has its own."""
        with tempfile.TemporaryFile("w+") as file:
            file.write(text)
            file.seek(0)
            command = [
                self._program,
                "-X",
                "-q",
                "-v",
                "ON_ERROR_STOP=1",
                *filter(None, [transaction]),
                *self._arguments,
            ]
            done = subprocess.run(
                command, env=self._environment, stdin=file, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
            )
        if done.returncode != 0:
            raise RuntimeError(done.stderr)


def dump(cluster: Cluster, target: Target) -> str:
    """Return what pg_dump makes of the model."""
    command = [str(cluster.installation.program("pg_dump")), "-s", "-n", "model", "-d", target.conninfo]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout


def folder_of(cluster: Cluster, target: Target) -> Path:
    """Return the database's folder."""
    with target.connect() as conn:
        (row,) = conn.execute("SELECT oid::text FROM pg_database WHERE datname = current_database()").fetchall()
    return cluster.data / "base" / str(row[0])


def files_in(folder: Path) -> int:
    """Return how many files a folder has."""
    return sum(1 for _ in folder.iterdir())


def settle(target: Target) -> None:
    """Have the server and the kernel write what they have put off, so that nobody else pays for it."""
    with target.connect() as conn:
        conn.execute("CHECKPOINT")
    os.sync()


def by_psql(psql: Psql, text: str, prefix: str, *, together_: bool) -> None:
    """Clone by what pg_dump has written, a transaction each; with a process per worker, or one per tenant."""

    def some(numbers: range) -> None:
        texts = [re.sub(r"\bmodel\b", f"{prefix}_{number:04}", text) for number in numbers]
        if together_:
            psql.run("".join(f"BEGIN;\n{one}\nCOMMIT;\n" for one in texts), "")
        else:
            for one in texts:
                psql.run(one)

    together.at_once(some, [range(first, TENANTS, WORKERS) for first in range(WORKERS)])


def in_bulk(target: Target, prefix: str, method: str, count: int) -> float:
    """Return the seconds of a number of clones, what is learned for them included."""
    with target.connect() as conn:
        conn.execute("DELETE FROM pgbillion_tables.prepared_clones")
    settle(target)
    request = create.Request("model", f"{prefix}_%04d", 0, count, WORKERS, None, method)
    return timed(lambda: create.execute(target, request, observe=common.quiet))


def by_commands(target: Target, prefix: str) -> float:
    """Return the seconds of TENANTS by PostgreSQL's commands, which the command line reads, runs and compares."""
    settle(target)
    request = create.Request("model", f"{prefix}_%04d", 0, TENANTS, WORKERS, method=Method.SQL)
    return timed(lambda: create.execute(target, request, observe=common.quiet))


def cloning(cluster: Cluster, target: Target) -> tuple[dict[str, list[float]], diff.Outcome]:
    """Return the seconds of TENANTS by each way, and of their bare files; and how the last ones compare."""
    text, psql, folder = dump(cluster, target), Psql(cluster, target), folder_of(cluster, target)
    found: dict[str, list[float]] = {
        way: [] for way in ("heap", "lazy", "sql", "sql_one_process", "commands", "files_heap", "files_lazy")
    }
    for round_ in range(ROUNDS):
        for way, one_process in (("sql", False), ("sql_one_process", True)):
            slower = max(("sql", "sql_one_process"), key=lambda way: sum(found[way][:1]))
            if round_ > 0 and way == slower:
                continue
            settle(target)
            prefix = f"{way}_{round_}"
            found[way].append(timed(lambda: by_psql(psql, text, prefix, together_=one_process)))  # noqa: B023
            common.say(f"{TENANTS} tenants, {way}: {found[way][-1]:.2f} s")
        found["commands"].append(by_commands(target, f"commands_{round_}"))
        common.say(f"{TENANTS} tenants, commands: {found['commands'][-1]:.2f} s")
        for way, method in (("heap", "heap"), ("lazy", "lazy_heap")):
            before = files_in(folder)
            found[way].append(in_bulk(target, f"{way}_{round_}", method, TENANTS))
            common.say(f"{TENANTS} tenants, {way}: {found[way][-1]:.2f} s")
            made = files_in(folder) - before
            settle(target)
            found[f"files_{way}"].append(files.creation_seconds_in(folder, made, WORKERS))
            common.say(f"{made:,} bare files: {found[f'files_{way}'][-1]:.2f} s")
        names = [f"lazy_{round_}_{number:04}" for number in range(TENANTS)]
        compared = diff.compare(target, "model", names, WORKERS, observe=common.quiet)
        if compared.groups:
            raise RuntimeError(f"a clone differs: {compared.groups[0]}")
        common.say(f"{compared.tables:,} tables compared: {compared.seconds:.2f} s")
    return found, compared


def by_definitions(cluster: Cluster) -> float:
    """Return the tables a second that are compared where the extension is not."""
    target = common.database(cluster, "without")
    names = [f"tenant_{number}" for number in range(10)]
    with target.connect() as conn:
        for name in ("model", *names):
            conn.execute(f"CREATE SCHEMA {name}; SET search_path = {name}; {model()}; RESET search_path".encode())
    compared = diff.compare(target, "model", names, WORKERS, observe=common.quiet)
    if compared.groups:
        raise RuntimeError(f"a schema by the same commands differs: {compared.groups[0]}")
    return compared.tables / compared.seconds


def by_their_function(cluster: Cluster) -> float | None:
    """Return the seconds of a clone by pg-clone-schema; None, said loudly, if it is not named."""
    path = os.environ.get("PG_CLONE_SCHEMA")
    if not path:
        common.say("*** LEFT OUT: pg-clone-schema; name its clone_schema.sql with PG_CLONE_SCHEMA=… ***")
        return None
    target = common.database(cluster, "theirs")
    Psql(cluster, target).run(Path(path).read_text(encoding="utf-8"))
    with target.connect() as conn:
        conn.execute(f"CREATE SCHEMA model; SET search_path = model; {model()}; RESET search_path".encode())
        conn.execute("SET client_min_messages = error")
        call = "SELECT public.clone_schema('model', %s, 'NODATA')"
        seconds = [timed(lambda: conn.execute(call, [f"theirs_{number}"])) for number in range(THEIRS)]  # noqa: B023
    common.say(f"pg-clone-schema: {statistics.median(seconds):.2f} s a clone")
    return statistics.median(seconds)


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
        found["migrate"].append(timed(lambda: migrate.run(target, request, names, observe=common.quiet)))  # noqa: B023
        found["psql"].append(timed(lambda: by_psql(f"b{number}")))  # noqa: B023
        common.say(f"{MIGRATED} tenants migrated: {found['migrate'][-1]:.2f} s, by psql {found['psql'][-1]:.2f} s")
    return found


def main() -> int:
    """Run the benchmark and return the exit status."""
    with common.own_server() as (cluster, _):
        target = common.database(cluster, "bench")
        conditions = common.conditions(cluster)
        with target.connect() as conn:
            conn.execute("CREATE EXTENSION pgbillion_tables")
            conn.execute(f"CREATE SCHEMA model; SET search_path = model; {model()}; SET search_path = ''".encode())
        cloned, compared = cloning(cluster, target)
        by_number = {count: count / in_bulk(target, f"lazy_{count}", "lazy_heap", count) for count in OTHERS}
        with target.connect() as conn:
            conn.execute("SELECT pgbillion_tables.prepare_clone('model', 'lazy_heap')")
        settle(target)
        singles = [timed(lambda: single(target, number)) for number in range(SINGLES)]  # noqa: B023
        migrated = migrating(cluster, target)
        definitions = by_definitions(cluster)
        theirs = by_their_function(cluster)
        memory = metadata.measure(target)
        moved = moves.measure(cluster)
    median = {way: statistics.median(found) for way, found in {**cloned, **migrated}.items()}

    by_number[TENANTS] = TENANTS / median["lazy"]
    sql = min(median["sql"], median["sql_one_process"])

    def excess(way: str) -> float:
        """Milliseconds a tenant beyond 1.5 times what its bare files take, in the median round."""
        rounds = zip(cloned[way], cloned[f"files_{way}"], strict=True)
        return round(statistics.median(seconds - 1.5 * bare for seconds, bare in rounds) / TENANTS * 1000, 2)

    common.table(
        "tenants, medians",
        ("", "tenants/s"),
        [
            *([f"cloned, {way}", f"{TENANTS / median[way]:,.1f}"] for way in cloned),
            *([f"migrated, {way}", f"{MIGRATED / median[way]:,.1f}"] for way in migrated),
            *([f"cloned, lazy, {number} tenants", f"{rate:,.1f}"] for number, rate in sorted(by_number.items())),
            *([["cloned, pg-clone-schema", f"{1 / theirs:,.1f}"]] if theirs is not None else []),
        ],
    )
    common.result(
        {
            "benchmark": "tenants",
            "ratio_bulk_over_sql": round(sql / median["lazy"], 2),
            "ratio_bulk_over_sql_heap": round(sql / median["heap"], 2),
            "ratio_bulk_over_sql_by_tenants": {
                number: round(rate * sql / TENANTS, 2) for number, rate in sorted(by_number.items())
            },
            "excess_ms_per_tenant": excess("lazy"),
            "excess_ms_per_tenant_heap": excess("heap"),
            "ms_single": round(statistics.median(singles) * 1000, 1),
            "sql_clone_over_psql": round(sql / median["commands"], 2),
            "ratio_over_pg_clone_schema": None if theirs is None else round(theirs * TENANTS / median["lazy"], 1),
            "ratio_migrate": round(median["psql"] / median["migrate"], 2),
            "diff_tables_per_s": round(compared.tables / compared.seconds),
            "diff_tables_per_s_by_definitions": round(definitions),
            **memory,
            **moved,
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
    common.run(main)

"""Every benchmark of bench/ runs to its end at the smallest sizes, and prints its line for programs.

Figures of such a run tell nothing. `make bench-billion` has tests of its own, in test_bench_billion.py.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness import needs, servers
from harness.amount import some
from pgbillion.common.connection import Connection
from pgbillion.common.paths import state_dir
from pgbillion.server import embedded
from pgbillion.server.postgres import Cluster

PROJECT = Path(__file__).parents[2]
BENCH = PROJECT / "bench"
DUCKDB = "bench-duckdb"
CONDITIONS = {"hardware", "settings", "versions"}
# a benchmark's file, and what its line has beside its own name
KEYS: dict[str, set[str]] = {
    "calibrate": {"calibration", "choices", "constants", "nanoseconds", "wrong_choices", *CONDITIONS},
    "columns": {
        "copy_cost",
        "json_ratio",
        "million_groups_columns",
        "point_ms_ratio",
        "point_random_bigint",
        "point_random_text",
        "point_random_uuid",
        "ratio_q1",
        "ratio_recovered",
        "ratio_wide",
        "rollup_ratio",
        "rows_per_s_count",
        "top_rows_ratio",
        *CONDITIONS,
    },
    "cycle": {"file_seconds", "ratio_create", "ratio_drop_minimal", "results", "share_drop", *CONDITIONS},
    "drop": {"ratio_heap_over_sql", "ratio_default_lazy_over_sql_with_checkpoint", *CONDITIONS},
    "drop_cost": {"microseconds", "postgresql", "hardware"},
    "fleets": {"fleet_over_pg_dump", "fleet_over_pg_dump_rows", "memory_of_pg_dump", *CONDITIONS},
    "hits": {
        "hits_duckdb",
        "hits_geomean",
        "hits_geomean_columns",
        "hits_worst_duckdb",
        "milliseconds",
        "ratios",
        *CONDITIONS,
    },
    "joins": {"milliseconds", "ratio_here", "ratio_shards", *CONDITIONS},
    "kernels": {"hardware", "rates"},
    "list": {"first_page_ms", "names_per_s", "ratio_dt_over_first_page", *CONDITIONS},
    "pooled": {"pooled_mb", "pooled_mb_at_end", "points", *CONDITIONS},
    "regressions": {"below", "calibration", "geomean", "queries", "unfinished", *CONDITIONS},
    "restores": {"backup_bytes", "restore_one_s", "seconds", "wal_bytes", *CONDITIONS},
    "rows": {"ratio_count_serial", "ratio_tpch_q1", "vectorized", *CONDITIONS},
    "shards": {"breadth", "ms_per_shard", "prediction", "ratio_over_fdw", "rows_per_second_alone", *CONDITIONS},
    "sorts": {"milliseconds", "sort_ratio", "sort_ratio_files", "sort_rows_per_s", "window_ratio", *CONDITIONS},
    "tables": {"peak_backend_memory_bytes", "ratio_bulk_over_sql", "results", *CONDITIONS},
    "tenants": {
        "diff_tables_per_s",
        "metadata_cost",
        "metadata_mb",
        "move_blocked_ms",
        "ratio_bulk_over_sql",
        "ratio_migrate",
        "sql_clone_over_psql",
        *CONDITIONS,
    },
    "tpcds": {
        "plan_ms",
        "plan_ratio",
        "ratios",
        "tpcds_geomean",
        "tpcds_lowest",
        "tpcds_unfinished",
        "tpcds_duckdb",
        *CONDITIONS,
    },
    "tpch": {
        "milliseconds",
        "ratios",
        "tpch_geomean",
        "tpch_geomean_parallel",
        "tpch_geomean_columns",
        "tpch_columns_duckdb",
        *CONDITIONS,
    },
}
# of which nothing is measured here, or a test of its own
ELSEWHERE = {"billion", "citus", "majors"}


@pytest.fixture
def state() -> Iterator[Path]:
    """A state folder that the server's user can reach, with the extensions compiled as they are for all tests."""
    servers.installation()
    with servers.temporary_folder() as folder:
        (folder / "postgresql").symlink_to(state_dir() / "postgresql")
        # what bench-tpch, bench-tpcds and bench-regressions install is kept for the next run
        kept, here = state_dir() / DUCKDB, folder / DUCKDB
        if (kept / "packages").exists():
            here.symlink_to(kept)
        yield folder
        embedded.destroy(folder, everything=True)
        if (here / "packages").exists() and not here.is_symlink():
            shutil.rmtree(kept, ignore_errors=True)
            shutil.move(here, kept)


def bench(name: str, state: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PG") or name == "PG_CONFIG"}
    for size in (
        "CHECK",
        "CLOCK",
        "LIMIT",
        "PARTITIONS",
        "PLANS",
        "QUERIES",
        "ROUNDS",
        "ROWS",
        "SCALE",
        "SCHEMA",
        "SEED",
        "STATISTICS",
        "TABLES",
        "WORKERS",
    ):
        clean.pop(size, None)
    # DISK: without a file system of its own, which takes 24 GB and root
    given = {"PGBILLION_STATE": str(state), "TINY": "1", "DISK": "1", **environment}
    return subprocess.run(
        [sys.executable, BENCH / f"{name}.py"],
        env={**clean, **given},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )


@pytest.mark.parametrize("name", some(sorted(KEYS)))
def test_it_runs_to_its_end(name: str, state: Path) -> None:
    done = bench(name, state)
    if name == "pooled" and "pgbouncer is not installed" in done.stderr:
        needs.missing(needs.PACKAGES["pgbouncer"])
    if name in ("regressions", "tpcds", "tpch") and "'pip', 'install'" in done.stderr:
        needs.missing("DuckDB's extensions tpcds and tpch, which pip installs")
    assert done.returncode == 0, done.stderr
    values: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert values["benchmark"] == name
    assert set(values) >= KEYS[name], sorted(values)
    assert [path.name for path in state.iterdir() if path.name not in ("postgresql", DUCKDB)] == []


def test_a_slow_pg_restore_is_stopped(state: Path) -> None:
    done = bench("fleets", state, LIMIT="0.01")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["stopped"] == ["empty_pg_dump", "rows_pg_dump"]


def test_fact_tables_can_be_partitioned_and_without_statistics(state: Path) -> None:
    done = bench("regressions", state, PARTITIONS="3", STATISTICS="none")
    if "'pip', 'install'" in done.stderr:
        needs.missing("DuckDB's extensions tpcds and tpch, which pip installs")
    assert done.returncode == 0, done.stderr
    values = json.loads(done.stdout.splitlines()[-1])
    assert (values["partitions"], values["statistics"]) == (3, "none")


@pytest.mark.parametrize("schema", ["films", "small"])
def test_queries_over_other_tables(state: Path, schema: str) -> None:
    done = bench("regressions", state, SCHEMA=schema)
    assert done.returncode == 0, done.stderr
    values = json.loads(done.stdout.splitlines()[-1])
    assert (values["schema"], values["queries"]) == (schema, 3)


def test_tables_that_there_are_not(state: Path) -> None:
    done = bench("regressions", state, SCHEMA="large")
    assert (done.returncode, done.stderr) == (
        1,
        "error: there is no SCHEMA=large\nhint: SCHEMA=tpcds, SCHEMA=films or SCHEMA=small\n",
    )


def test_two_postgresqls_are_compared(state: Path) -> None:
    config = str(servers.installation().source)
    done = bench("majors", state, FIRST=config, SECOND=config, BENCHMARKS="columns,drop")
    assert done.returncode == 0, done.stderr
    values = json.loads(done.stdout.splitlines()[-1])
    first = {name: (state / "bench-majors" / f"{name}-1-quick.json").read_bytes() for name in ("columns", "drop")}
    # two servers of one installation have ratios of their own, and each side of the first is 1 as fast as itself
    assert values["versions"][0] == values["versions"][1]
    shown = {row[0]: row[1:] for row in values["rows"]}
    line = json.loads(first["drop"])
    assert shown["drop, ratio_heap_over_sql"][1] == f"{line['ratio_heap_over_sql']:,}"
    core, columns = (
        next(row for name, row in shown.items() if name.startswith(f"columns, {side} ("))
        for side in ("PostgreSQL", "columns")
    )
    assert float(core[0]) > 0
    assert core[1:] == ["", "", "", ""]
    assert all(float(value) > 0 for value in columns)
    # what is kept is not measured again, and what is not, is
    (state / "bench-majors" / "drop-2-quick.json").unlink()
    done = bench("majors", state, FIRST=config, SECOND=config, BENCHMARKS="columns,drop")
    assert done.returncode == 0, done.stderr
    assert "columns on" not in done.stderr
    assert done.stderr.count("drop on") == 1
    assert (state / "bench-majors" / "drop-1-quick.json").read_bytes() == first["drop"]


def test_shards_are_reached_by_whoever_runs_the_benchmark(cluster: Cluster, conn: Connection) -> None:
    """Without a name, libpq takes the server's user: postgres where root runs it, and no role where others do."""
    conn.execute("CREATE EXTENSION IF NOT EXISTS postgres_fdw; CREATE EXTENSION IF NOT EXISTS pgbillion_rows")
    script = f"""
import sys
sys.path.insert(0, {str(BENCH)!r})
import psycopg, shards
from pathlib import Path
from types import SimpleNamespace
with psycopg.connect({cluster.conninfo(conn.info.dbname)!r}, autocommit=True) as conn:
    shards.add_server(conn, "benchmark", SimpleNamespace(socket_dir=Path("/nowhere"), port=1))
"""
    subprocess.run([sys.executable, "-c", script], check=True)
    try:
        found = conn.execute("SELECT umoptions FROM pg_user_mappings WHERE srvname = 'benchmark'").fetchall()
        assert found == [(["user=postgres"],)]
    finally:
        conn.execute("DROP SERVER benchmark CASCADE")


def test_all_targets_are_here() -> None:
    makefile = (PROJECT / "Makefile").read_text(encoding="utf-8")
    files = set(re.findall(r"(?m)^bench-[a-z]+: .*\n\t@\$\(BIN\)/python bench/(\w+)\.py$", makefile))
    targets = set(re.findall(r"(?m)^bench-([a-z]+):", makefile))
    assert files == targets
    assert targets | {"drop_cost"} == set(KEYS) | ELSEWHERE
    # whatever else calls itself one
    scripts = {path.stem for path in BENCH.glob("*.py") if '"benchmark": "' in path.read_text(encoding="utf-8")}
    assert scripts - set(KEYS) - ELSEWHERE - {"contest"} == set()


def test_a_postgresql_without_citus_is_refused_at_once(state: Path) -> None:
    done = bench("citus", state)
    assert done.returncode == 1
    lines = done.stderr.splitlines()
    assert len(lines) == 2, done.stderr
    assert re.fullmatch(r"error: PostgreSQL \d.* in /\S+ has no Citus", lines[0])
    assert re.fullmatch(r"hint: name one that has: make bench-citus PG_CONFIG=\S+", lines[1])


def test_citus(state: Path) -> None:
    chosen = os.environ.get("CITUS_PG_CONFIG")
    if chosen is None:
        pytest.skip("no PostgreSQL with Citus (CITUS_PG_CONFIG=…/pg_config)")
    done = bench("citus", state, PG_CONFIG=chosen)
    assert done.returncode == 0, done.stderr
    assert {"ratio_over_citus", *CONDITIONS} <= set(json.loads(done.stdout.splitlines()[-1]))

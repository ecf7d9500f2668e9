"""`make bench-billion`, with few rows: what is kept, what is found again, what it refuses; and its page."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness import servers
from pgbillion.common.paths import state_dir
from pgbillion.server import embedded

BENCH = Path(__file__).parents[2] / "bench"
ROWS, PARTITIONS = 600_000, 4


@pytest.fixture
def state() -> Iterator[Path]:
    """A state folder that the server's user can reach, with the extensions compiled as they are for all tests."""
    servers.installation()
    with tempfile.TemporaryDirectory(prefix="pgb") as folder:
        Path(folder).chmod(0o755)
        kept = Path(folder, embedded.KEPT, f"billion-{ROWS}-{PARTITIONS}")
        kept.mkdir(parents=True)
        (kept / "postgresql").symlink_to(state_dir() / "postgresql")
        yield Path(folder)
        embedded.destroy(Path(folder), everything=True)


def bench(state: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PG") or name == "PG_CONFIG"}
    given = {
        "PGBILLION_STATE": str(state),
        "QUICK": "1",
        "ROWS": str(ROWS),
        "PARTITIONS": str(PARTITIONS),
        **environment,
    }
    return subprocess.run(
        [sys.executable, BENCH / "billion.py"],
        env={**clean, **given},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def result(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.returncode == 0, done.stderr
    values: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return values


def test_what_is_kept_is_found_again(state: Path) -> None:
    first = result(bench(state, KEEP="1", SEED="3"))
    assert (first["rows"], first["partitions"], first["seed"]) == (ROWS, 4, 3)
    assert first["billion_s"] > 0
    assert first["loading"]["rows"] == first["indexing"]["rows"] == ROWS
    assert first["settings"]["fsync"] == "on"
    assert first["settings"]["wal_level"] == "minimal"
    # the pages without rows that COPY has added are no matter
    assert first["heap_blocks"] - first["readable_blocks"] < 4 * 64
    kept = state / embedded.KEPT / f"billion-{ROWS}-{PARTITIONS}"
    cluster = embedded.find(kept)
    assert cluster is not None
    assert not cluster.running()
    # a partition and all indexes are lost on the way
    cluster.start()
    with cluster.connect(embedded.DATABASE) as conn:
        conn.execute("DROP INDEX t_demo_columns; DROP TABLE t_demo_3")
    # the server was left running, as by a kill
    again = result(bench(state, KEEP="1"))
    assert again["loading"]["rows"] == ROWS + ROWS // 4
    assert again["indexing"]["rows"] == 2 * ROWS
    assert (again["seed"], again["postgresql_s"]) == (3, first["postgresql_s"])
    # another seed is another load
    other = bench(state, KEEP="1", SEED="4")
    assert other.returncode == 1
    assert "error: the table" in other.stderr
    assert not cluster.running()
    # a quick run keeps nothing
    assert result(bench(state))["indexing"] == again["indexing"]
    assert not kept.exists()


def test_too_little_disk(state: Path) -> None:
    done = bench(state, ROWS="1_000_000_000_000")
    assert done.returncode == 1, done.stderr
    (error,) = (line for line in done.stderr.splitlines() if line.startswith("error: "))
    assert "1,000,000,000,000 rows need 56.1 TB of disk" in error
    assert "Traceback" not in done.stderr


MEASURED: dict[str, Any] = {
    "benchmark": "billion",
    "rows": 10**9,
    "partitions": 20,
    "rounds": 15,
    "milliseconds": {"1": {"median": 800, "all": [790, 800, 850]}, "2": {"median": 400, "all": [390, 400, 450]}},
    "rows_per_s": {"1": 1_250_000_000, "2": 2_500_000_000},
    "postgresql_s": 200.0,
    "first_s": 12.0,
    "first_read_blocks": 125_000,
    "loading": {"rows": 10**9, "seconds": 500.0},
    "indexing": {"rows": 10**9, "seconds": 125.0},
    "analyzing": None,
    "heap_bytes": 44_300_000_000,
    "index_bytes": 5_200_000_000,
    "heap_blocks": 5_405_500,
    "readable_blocks": 5_405_406,
    "hardware": {"cpu": "a processor", "cores": 2, "memory_bytes": 25_000_000_000, "system": "Linux"},
    "versions": {"postgresql": "18.6"},
    "settings": {"shared_buffers": "6675MB"},
    "filesystem": "ext4",
    "load": 1.25,
}


def page(tmp_path: Path, measured: dict[str, Any]) -> tuple[list[str], str]:
    """The page's lines, and the chart."""
    file, chart = tmp_path / "billion.txt", tmp_path / "chart.svg"
    file.write_text(f"loading\n{json.dumps(measured)}\n")
    done = subprocess.run(
        [sys.executable, BENCH / "billion_page.py", file, chart], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines(), chart.read_text()


def test_the_page_says_what_was_measured(tmp_path: Path) -> None:
    lines, chart = page(tmp_path, MEASURED)
    assert lines[0] == "# A billion rows"
    for line in (
        "| Cybertec, 3,200,000,000 rows on 32 servers with 16 CPU cores each | 2.9 s | 1,100 M |",
        "| here, PostgreSQL 18.6 by itself, 2 processes, once | 3 min 20 s | 5 M |",
        "| here, columnar indexes, 1 process, median of 15 | 800 ms | 1,250 M |",
        "| here, columnar indexes, 2 processes, median of 15 | 400 ms | 2,500 M |",
        "| loading | 8 min 20 s | 2.00 M |",
        "| indexing | 2 min 5 s | 8.00 M |",
        "The first query with the indexes took 12.0 s and read 1.0 GB into the shared buffers.",
    ):
        assert line in lines
    for shown in ("Cybertec, 32 servers,", "1.10", "0.005", "1.25", "2.50"):
        assert f">{shown}<" in chart
    assert page(tmp_path, MEASURED)[1] == chart
    assert page(tmp_path, {**MEASURED, "rows": 2 * 10**8})[0][0] == "# 200,000,000 rows"

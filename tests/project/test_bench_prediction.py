"""docs/prediction.md, from round figures whose consequences can be worked out by hand."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

SCRIPT = Path(__file__).parents[2] / "bench" / "prediction.py"
MEASURED: dict[str, Any] = {
    "hardware": {"cores": 2, "cpu": "a processor"},
    "versions": {"postgresql": "18.6"},
    "quick": False,
    "rows": 10_000_000,
    "shards": 4,
    "rows_per_second_alone": {"1": 200e6, "2": 250e6},
    "rows_per_second_postgresql": 10e6,
    "bytes_per_row": 40,
    "memory_bytes_per_second": 32e9,
    "bytes_per_shard": 120,
    "slowest_over_median": 1.2,
    "milliseconds": {"pgbillion_fdw": {"median": 55}},
    "breadth": {
        "warm": {"ms_at_none": 0.5, "ms_per_shard": 0.1, "r_squared": 0.99},
        "cold": {"ms_at_none": 4, "ms_per_shard": 2.1, "r_squared": 0.98},
        "memory": {"bytes_per_shard": 51_000},
    },
}
# a hundred million rows of 40 bytes at 32 GB/s are 125 ms, at 16 * 200 M rows/s 31 ms: memory decides
MEMORY = "| 16 CPU cores are 16 times as fast as one | 150 | 4.2 | 154 | 221 | 20.8 G | 18.9 |"
# … at 250 M rows/s 400 ms
NO_FASTER = "| 16 CPU cores are as fast as 2 here | 480 | 4.2 | 484 | 551 | 6.6 G | 6.0 |"
# … at 16 * 10 M rows/s 625 ms
WITHOUT_VECTORS = "| as the first line, not vectorized | 750 | 4.2 | 754 | 821 | 4.2 G | 3.9 |"


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, SCRIPT, *map(str, arguments)], capture_output=True, text=True, check=False)


def page(tmp_path: Path, measured: dict[str, Any]) -> list[str]:
    """What it prints for the last line of JSON that a benchmark has left in a file."""
    file = tmp_path / "shards.txt"
    file.write_text(f"making servers\n{json.dumps({'of': 'another run'})}\nrows/s\n{json.dumps(measured)}\ndone\n")
    done = run(file)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout.splitlines()


def test_the_arithmetic(tmp_path: Path) -> None:
    lines = page(tmp_path, MEASURED)
    assert lines[0] == "# 32 servers with 100 million rows each"
    table = lines.index(MEMORY)
    assert lines[table : table + 3] == [MEMORY, NO_FASTER, WITHOUT_VECTORS]
    # every cell has a column
    assert [line.count("|") for line in lines[table - 2 : table + 3]] == [8] * 5
    # 10 M rows at 250 M rows/s, and four shards at the coordinator
    (here,) = (line for line in lines if line.startswith("The same calculation for the benchmark itself"))
    assert here.endswith("where 4 shards share the CPU cores of one machine, says 41 ms.")
    assert "The benchmark measured 55 ms." in lines


def test_cores_decide_where_memory_is_fast(tmp_path: Path) -> None:
    lines = page(tmp_path, {**MEASURED, "memory_bytes_per_second": 320e9, "slowest_over_median": 1})
    (first,) = (line for line in lines if line.startswith("| 16 CPU cores are 16 times as fast as one"))
    # 31.25 ms of the shard, and 32 of them at the coordinator
    assert first.split(" | ")[1:5] == ["31", "4.2", "35", "102"]


def test_what_was_measured_is_told(tmp_path: Path) -> None:
    lines = page(tmp_path, {**MEASURED, "quick": True})
    assert "a processor, 2 CPU cores, PostgreSQL 18.6, QUICK=1, 10,000,000 rows over 4 servers:" in lines
    for line in (
        "| one shard alone, 1 process | 200 M rows/s |",
        "| one shard alone, 2 processes | 250 M rows/s |",
        "| one shard alone, 1 process not vectorized | 10 M rows/s |",
        "| memory read and written by one thread that copies | 32 GB/s |",
        "| time of the coordinator, connections kept | 0.5 ms and 0.100 ms per shard (r² 0.990) |",
        "| time of the coordinator, new connections | 4.0 ms and 2.100 ms per shard (r² 0.980) |",
        "| memory of the coordinator's session | 51.0 kB per shard |",
    ):
        assert line in lines


def test_it_wants_one_file() -> None:
    done = run()
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith("usage: prediction.py FILE")


def test_the_page_is_of_this_script(tmp_path: Path) -> None:
    """What is in docs says what the script says, figures aside."""
    ours = page(tmp_path, MEASURED)
    theirs = (SCRIPT.parents[1] / "docs" / "prediction.md").read_text(encoding="utf-8").splitlines()
    assert [line for line in theirs if line.startswith("#")] == [line for line in ours if line.startswith("#")]
    assumed = slice(ours.index("## What is assumed"), None)
    assert [line for line in ours[assumed] if line.startswith("-")] == [
        line for line in theirs[theirs.index("## What is assumed") :] if line.startswith("-")
    ]

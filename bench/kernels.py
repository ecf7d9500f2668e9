"""Kernels over columns as they will be encoded: rows per second of one CPU core, per set of instructions.

The gate of a columnar index: it can answer from a billion rows per second only if its kernels count that fast. Pages
are made up in memory. ROWS=… is another number of rows, GROUPS=… of groups; QUICK=1 is a tenth of the rows. Times are
the process's CPU time, so that others on the machine count less.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import tempfile
from collections import defaultdict
from pathlib import Path

import common
from pgbillion.common import host
from pgbillion.server.postgres import embedded_pg_config

ROWS = int(os.environ.get("ROWS") or common.sized(20_000_000, 2_000_000, 20_000))
GROUPS = int(os.environ.get("GROUPS") or 10)
ROUNDS = common.sized(15, 5, 1)
HERE = Path(__file__).parent
SOURCE = HERE.parent / "extensions" / "pgbillion_rows" / "src"


def build(pg_config: Path, program: Path) -> None:
    """Compile the kernels with the flags that the extension is compiled with."""

    def ask(what: str) -> str:
        return subprocess.run([pg_config, what], check=True, capture_output=True, text=True).stdout.strip()

    # the embedded server was built by a newer compiler than many users have
    flags = [flag for flag in ask("--cflags").split() if flag != "-Wmissing-variable-declarations"]
    headers = [f"-I{ask('--includedir-server')}", f"-I{SOURCE}"]
    files = [HERE / "kernels" / "kernels.c", SOURCE / "column_index" / "kernels.c"]
    subprocess.run(["cc", *flags, *headers, "-o", program, *files], check=True)


def measure(program: Path, rows: int, groups: int, rounds: int) -> dict[str, dict[str, list[float]]]:
    """Return every round's rows per second by kernel and set; raise where an answer is wrong."""
    command = [str(program), str(rows), str(groups), str(rounds)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    rates: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for line in done.stdout.splitlines():
        instructions, kernel, rate = line.split()
        rates[kernel][instructions].append(float(rate))
    return rates


def main() -> int:
    """Run the benchmark and return the exit status."""
    chosen = os.environ.get("PG_CONFIG")
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "kernels"
        build(Path(chosen) if chosen else embedded_pg_config(), program)
        common.say(f"== {ROWS:,} rows, {GROUPS} groups, {ROUNDS} rounds")
        rates = measure(program, ROWS, GROUPS, ROUNDS)
    medians = {
        kernel: {name: statistics.median(all_of) for name, all_of in sets.items()} for kernel, sets in rates.items()
    }
    spreads = {kernel: {name: common.spread(all_of) for name, all_of in sets.items()} for kernel, sets in rates.items()}
    sets = list(next(iter(medians.values())))
    rows = [(kernel, *(f"{found[name] / 1e6:,.0f}" for name in sets)) for kernel, found in medians.items()]
    common.table("million rows per second of CPU time", ("kernel", *sets), rows)
    common.result(
        {
            "benchmark": "kernels",
            "rows": ROWS,
            "groups": GROUPS,
            "hardware": host.hardware(),
            **{f"rows_per_s_{kernel}": round(found[sets[-1]]) for kernel, found in medians.items()},
            "rates": spreads,
        }
    )
    return 0


if __name__ == "__main__":
    common.run(main)

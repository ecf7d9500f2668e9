"""Run the generators of tests with one new seed after the other, for as many minutes as one has.

MINUTES=… (60) is the time, ONLY=… names some of the campaigns, PG_CONFIG=… another PostgreSQL, such as one that was
built with assertions or sanitizers. A journal in the state folder has each seed that was run: the next run begins with
those that failed, goes on with seeds that nobody has seen, and ends with the sum of all runs. Each run of a test makes
a query or schema that fails as small as it can; that one becomes a test of its own when the bug is mended.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from pgbillion.common.errors import UserError
from pgbillion.common.paths import state_dir

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Campaign:
    """A generator of tests: what pytest is to run, and how much of it with one seed."""

    tests: str
    amounts: Mapping[str, str]


CAMPAIGNS: Mapping[str, Campaign] = {
    "aggregates": Campaign("tests/test_vector_differential.py", {"PGBILLION_TEST_QUERIES": "3000"}),
    "filters": Campaign("tests/test_vector_scan.py::test_generated_filters", {"PGBILLION_TEST_QUERIES": "3000"}),
    "disturbed": Campaign("tests/test_vector_disturbed.py", {"PGBILLION_TEST_DISTURBED": "1000"}),
    "joins": Campaign("tests/test_join_aggregate.py::test_generated_queries", {"PGBILLION_TEST_JOINS": "1000"}),
    "chains": Campaign("tests/test_vector_join.py::test_generated_queries", {"PGBILLION_TEST_VECTOR_JOINS": "3000"}),
    "mixed-joins": Campaign("tests/test_vector_mixed_joins.py", {"PGBILLION_TEST_MIXED_JOINS": "2500"}),
    "shards": Campaign("tests/test_shard_differential.py", {"PGBILLION_TEST_SHARD_QUERIES": "1000"}),
    "states": Campaign("tests/test_shard_states.py", {"STATE_FUZZ_RUNS": "2000000"}),
    "schemas": Campaign("tests/test_catalog_equality.py::test_generated_templates", {"PGBILLION_TEST_EXAMPLES": "500"}),
    "serializable": Campaign("tests/test_lazy_serializable.py", {}),
    "crashes": Campaign("tests/test_crash.py", {}),
    "columns": Campaign("tests/test_columns_beside.py", {"PGBILLION_TEST_QUERIES": "2500"}),
    "column-damage": Campaign("tests/test_columns_damage.py", {"PGBILLION_TEST_DAMAGES": "1000"}),
    "column-crashes": Campaign("tests/test_columns_crash.py", {"PGBILLION_TEST_COLUMN_CRASHES": "40"}),
}


@dataclass(frozen=True)
class Outcome:
    """One campaign run with one seed on one PostgreSQL."""

    campaign: str
    seed: int
    pg_config: str
    seconds: float
    passed: bool

    @property
    def name(self) -> tuple[str, int, str]:
        """What a later run with the same seed repeats."""
        return self.campaign, self.seed, self.pg_config


def run(folder: Path, name: str, seed: int, pg_config: str) -> Outcome:
    """Run one campaign with one seed, and keep what it printed where it failed."""
    campaign = CAMPAIGNS[name]
    numbers = {**campaign.amounts, "PGBILLION_TEST_SEED": str(seed), "STATE_FUZZ_SEED": str(seed)}
    shrinking = {"PGBILLION_TEST_SHRINK": "1"}
    server = {"PG_CONFIG": pg_config} if pg_config else {}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", campaign.tests]
    start = time.monotonic()
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **numbers, **shrinking, **server}, capture_output=True, text=True
    )
    outcome = Outcome(name, seed, pg_config, round(time.monotonic() - start, 1), done.returncode == 0)
    print(f"{name}, seed {seed}: {'passed' if outcome.passed else 'FAILED'} in {outcome.seconds:.0f} s", flush=True)
    if not outcome.passed:
        log = folder / f"{name}-{seed}.log"
        log.write_text(done.stdout + done.stderr, encoding="utf-8")
        again = " ".join(f"{key}={value}" for key, value in {**numbers, **server}.items())
        print(f"  what it printed: {log}\n  once more: {again} .venv/bin/pytest {campaign.tests}", flush=True)
    with (folder / "journal.jsonl").open("a", encoding="utf-8") as journal:
        journal.write(json.dumps(asdict(outcome)) + "\n")
    return outcome


def read_journal(folder: Path) -> list[Outcome]:
    """Return what earlier runs have seen, the oldest first."""
    journal = folder / "journal.jsonl"
    if not journal.exists():
        return []
    lines = journal.read_text(encoding="utf-8").splitlines()
    return [Outcome(**json.loads(line)) for line in lines]


def still_failing(outcomes: list[Outcome]) -> list[Outcome]:
    """Return the runs that have not passed since."""
    return [one for one in {one.name: one for one in outcomes}.values() if not one.passed]


def new_runs(outcomes: list[Outcome], names: list[str]) -> Iterator[tuple[str, int]]:
    """Give campaigns in turn, each with the seed after its last one."""
    last = {name: max([one.seed for one in outcomes if one.campaign == name], default=0) for name in names}
    for number in itertools.count(1):
        for name in names:
            yield name, last[name] + number


def report(outcomes: list[Outcome]) -> None:
    """Print the sum of all runs."""
    for name in CAMPAIGNS:
        runs = [one for one in outcomes if one.campaign == name]
        if runs:
            minutes = sum(one.seconds for one in runs) / 60
            failed = [str(one.seed) for one in still_failing(runs)]
            print(f"{name}: {len(runs)} seeds, {minutes:.0f} minutes, failing: {', '.join(failed) or 'none'}")


def main() -> int:
    """Run until the time is over and return the exit status."""
    try:
        seconds = float(os.environ.get("MINUTES") or 60) * 60
    except ValueError:
        raise UserError("MINUTES is not a number", "MINUTES=60 make fuzz") from None
    names = (os.environ.get("ONLY") or ",".join(CAMPAIGNS)).replace(",", " ").split()
    unknown = [name for name in names if name not in CAMPAIGNS]
    if unknown:
        raise UserError(f"there is no campaign {unknown[0]}", f"ONLY is of {', '.join(CAMPAIGNS)}")
    folder = state_dir() / "fuzz"
    folder.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + seconds
    outcomes = read_journal(folder)
    known = [(one.campaign, one.seed, one.pg_config) for one in still_failing(outcomes) if one.campaign in names]
    pg_config = os.environ.get("PG_CONFIG", "")
    fresh = ((name, seed, pg_config) for name, seed in new_runs(outcomes, names))
    try:
        for name, seed, where in itertools.chain(known, fresh):
            if time.monotonic() >= end:
                break
            outcomes.append(run(folder, name, seed, where))
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    report(outcomes)
    return 1 if still_failing(outcomes) else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except UserError as error:
        print(f"error: {error.message}\nhint: {error.hint}", file=sys.stderr)
        sys.exit(error.status)

"""Run the generators of tests with one new seed after the other, for as many minutes as one has.

MINUTES=… (60) is the time, CAMPAIGNS=… names some of the campaigns, SEED=… the least of the new seeds (1), PG_CONFIG=…
another PostgreSQL, such as one that was built with assertions or sanitizers. A journal in the state folder has each
seed that was run, on which code, and what its tests have counted. The next run begins with the seeds that failed, and
goes on with seeds that nobody has seen, of whichever campaign has had the least time on this code. It ends with a
table of all runs, which tells those of this code from earlier ones. Each run of a test makes a query or schema that
fails as small as it can; that one becomes a test of its own when the bug is mended.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from pgbillion.common.errors import UserError
from pgbillion.common.paths import state_dir
from pgbillion.server.postgres import embedded_pg_config

ROOT = Path(__file__).parents[1]
# begins the name of a test's property that is a number to be added up (tests/harness/amount.py)
COUNTED = "count "
# what pg_config says of a server that was built to find bugs
SPECIAL = {"--enable-cassert": "assertions", "-fsanitize": "sanitizers", "-DUSE_VALGRIND": "valgrind"}
# folders of the extensions; that a shard's code calls nothing of vectors is a rule of tests/project/test_layers.py
TABLES = ("pgbillion_tables",)
ROWS = ("pgbillion_rows",)
BOTH = (*TABLES, *ROWS)
SHARD = ("pgbillion_rows/src/shard", "pgbillion_rows/src/planner")
# what is code in C: not the layout, and no comments
WORDS = re.compile(r"""/\*.*?\*/|("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|\w+|\S)""", re.DOTALL)


@dataclass(frozen=True)
class Campaign:
    """A generator of tests: what pytest is to run, how much of it with one seed, and the code that is tested by it."""

    tests: tuple[str, ...]
    amounts: Mapping[str, str]
    code: tuple[str, ...]


_JOIN = "tests/vector/test_join_aggregate.py::test_generated_queries"
_SCHEMAS = "tests/tables/test_catalog_equality.py"
CAMPAIGNS: Mapping[str, Campaign] = {
    "aggregates": Campaign(("tests/vector/test_vector_differential.py",), {"PGBILLION_TEST_QUERIES": "3000"}, ROWS),
    "filters": Campaign(
        ("tests/vector/test_vector_scan.py::test_generated_filters",), {"PGBILLION_TEST_QUERIES": "3000"}, ROWS
    ),
    "percentiles": Campaign(
        ("tests/vector/test_vector_ordered_sets.py::test_generated",), {"PGBILLION_TEST_ORDERED_SETS": "3000"}, ROWS
    ),
    "windows": Campaign(("tests/vector/test_windows.py::test_generated",), {"PGBILLION_TEST_WINDOWS": "10000"}, ROWS),
    "sorts": Campaign(("tests/vector/test_sorts.py::test_generated",), {"PGBILLION_TEST_SORTS": "4000"}, ROWS),
    "subqueries": Campaign(
        ("tests/vector/test_memoize_subqueries.py::test_generated_queries",),
        {"PGBILLION_TEST_SUBQUERIES": "10000"},
        ROWS,
    ),
    "conditions": Campaign(
        ("tests/vector/test_vector_subqueries.py::test_generated_queries",),
        {"PGBILLION_TEST_SUBQUERIES": "10000"},
        ROWS,
    ),
    "grouping-sets": Campaign(
        ("tests/vector/test_vector_grouping_sets.py::test_generated",), {"PGBILLION_TEST_GROUPING_SETS": "15000"}, ROWS
    ),
    "branches": Campaign(
        ("tests/vector/test_vector_branches.py::test_by_chance",), {"PGBILLION_TEST_BRANCHES": "10000"}, ROWS
    ),
    "guarded": Campaign(("tests/vector/test_vector_guarded.py",), {"PGBILLION_TEST_GUARDED": "5000"}, ROWS),
    "outgrown": Campaign(("tests/vector/test_vector_outgrown.py",), {"PGBILLION_TEST_OUTGROWN": "4000"}, ROWS),
    "loops": Campaign(("tests/vector/test_nested_loops.py::test_generated",), {"PGBILLION_TEST_LOOPS": "6000"}, ROWS),
    "statistics": Campaign(("tests/vector/test_statistics_missing.py",), {"PGBILLION_TEST_STATISTICS": "2000"}, ROWS),
    "disturbed": Campaign(("tests/vector/test_vector_disturbed.py",), {"PGBILLION_TEST_DISTURBED": "500"}, ROWS),
    "joins": Campaign((_JOIN, f"{_JOIN}_on_shards"), {"PGBILLION_TEST_JOINS": "1000"}, ROWS),
    "mixed-joins": Campaign(
        ("tests/vector/test_vector_mixed_joins.py",), {"PGBILLION_TEST_MIXED_JOINS": "10000"}, ROWS
    ),
    "shards": Campaign(("tests/shards/test_shard_differential.py",), {"PGBILLION_TEST_SHARD_QUERIES": "1000"}, ROWS),
    "states": Campaign(("tests/shards/test_shard_states.py",), {"STATE_FUZZ_RUNS": "2000000"}, SHARD),
    "options": Campaign(("tests/shards/test_shard_options.py",), {"PGBILLION_TEST_OPTIONS": "2000"}, SHARD),
    "schemas": Campaign((f"{_SCHEMAS}::test_generated_templates",), {"PGBILLION_TEST_EXAMPLES": "500"}, TABLES),
    "clones": Campaign(("tests/tenants/test_clone_generated.py",), {"PGBILLION_TEST_SCHEMAS": "40"}, TABLES),
    "serializable": Campaign(("tests/lazy_heap/test_lazy_serializable.py",), {}, BOTH),
    "crashes": Campaign(("tests/tables/test_crash.py",), {"PGBILLION_TEST_CRASHES": "90"}, TABLES),
    "clone-crashes": Campaign(("tests/tenants/test_clone_crash.py",), {"PGBILLION_TEST_CLONE_CRASHES": "40"}, TABLES),
    "functions": Campaign(("tests/tables/test_sql_functions.py",), {"PGBILLION_TEST_CALLS": "10000"}, BOTH),
    "faults": Campaign(("tests/tables/test_faults.py",), {"PGBILLION_TEST_FAULTS_STRIDE": "40"}, BOTH),
    "columns": Campaign(("tests/columns/test_columns_beside.py",), {"PGBILLION_TEST_QUERIES": "2500"}, ROWS),
    "column-rows": Campaign(("tests/columns/test_columns_rows.py",), {"PGBILLION_TEST_QUERIES": "5000"}, ROWS),
    "column-joins": Campaign(("tests/columns/test_columns_late.py",), {"PGBILLION_TEST_LATE": "3000"}, ROWS),
    "column-strings": Campaign(("tests/columns/test_columns_strings.py",), {"PGBILLION_TEST_STRINGS": "5000"}, ROWS),
    "column-groups": Campaign(("tests/columns/test_columns_groups.py",), {"PGBILLION_TEST_GROUPS": "10000"}, ROWS),
    "column-shapes": Campaign(("tests/columns/test_columns_shapes.py",), {"PGBILLION_TEST_SHAPES": "60"}, ROWS),
    "column-tokens": Campaign(("tests/columns/test_column_tokens.py",), {"PGBILLION_TEST_TOKENS": "5000"}, ROWS),
    "column-damage": Campaign(("tests/columns/test_columns_damage.py",), {"PGBILLION_TEST_DAMAGES": "1000"}, ROWS),
    "column-crashes": Campaign(("tests/columns/test_columns_crash.py",), {"PGBILLION_TEST_COLUMN_CRASHES": "40"}, ROWS),
}


@dataclass(frozen=True)
class Outcome:
    """One campaign run with one seed on one PostgreSQL."""

    campaign: str
    seed: int
    pg_config: str
    seconds: float
    passed: bool
    server: str = ""
    counts: Mapping[str, int] = field(default_factory=dict)
    # what the campaign's code was, and the commit for those who want to read it
    code: str = ""
    commit: str = ""

    @property
    def name(self) -> tuple[str, int, str]:
        """What a later run with the same seed repeats."""
        return self.campaign, self.seed, self.pg_config


def digest(folders: Sequence[str]) -> str:
    """Tell one state of that code from another: the same if only comments or the layout of the C have changed."""
    extensions = ROOT / "extensions"
    found = hashlib.sha256()
    for folder in ("shared", *folders):
        for path in sorted((extensions / folder).rglob("*")):
            if path.suffix not in {".c", ".h", ".sql"} or "test" in path.relative_to(extensions).parts:
                continue
            text = path.read_text(encoding="utf-8")
            words = text if path.suffix == ".sql" else _words(text)
            found.update(" ".join(filter(None, (str(path.relative_to(extensions)), words))).encode() + b"\0")
    return found.hexdigest()[:16]


# campaigns share most of their code
@functools.cache
def _words(text: str) -> str:
    return " ".join(filter(None, WORDS.findall(text)))


def commit() -> str:
    """Name the commit that is checked out; none where this is no clone."""
    command = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout.strip()


def run(folder: Path, name: str, seed: int, pg_config: str) -> Outcome:
    """Run one campaign with one seed, and keep what it printed where it failed."""
    campaign = CAMPAIGNS[name]
    numbers = {**campaign.amounts, "PGBILLION_TEST_SEED": str(seed), "STATE_FUZZ_SEED": str(seed)}
    shrinking = {"PGBILLION_TEST_SHRINK": "1"}
    server = {"PG_CONFIG": pg_config} if pg_config else {}
    results = folder / f"{name}-{seed}.xml"
    # of the formats of results, only the older one has properties of tests
    options = ["-q", "-p", "no:cacheprovider", f"--junitxml={results}", "-o", "junit_family=xunit1"]
    command = [sys.executable, "-m", "pytest", *options, *campaign.tests]
    code, described = digest(campaign.code), commit()
    start = time.monotonic()
    passed, printed = pytest(command, {**os.environ, **numbers, **shrinking, **server})
    seconds = round(time.monotonic() - start, 1)
    counts = read_counts(results)
    outcome = Outcome(name, seed, pg_config, seconds, passed, describe(pg_config), counts, code, described)
    results.unlink(missing_ok=True)
    print(f"{name}, seed {seed}: {'passed' if outcome.passed else 'FAILED'} in {outcome.seconds:.0f} s", flush=True)
    if not outcome.passed:
        log = folder / f"{name}-{seed}.log"
        log.write_text(printed, encoding="utf-8")
        again = " ".join(f"{key}={value}" for key, value in {**numbers, **server}.items())
        print(f"  what it printed: {log}\n  once more: {again} .venv/bin/pytest {' '.join(campaign.tests)}", flush=True)
    with (folder / "journal.jsonl").open("a", encoding="utf-8") as journal:
        journal.write(json.dumps(asdict(outcome)) + "\n")
    return outcome


def pytest(command: Sequence[str], environment: Mapping[str, str]) -> tuple[bool, str]:
    """Run tests: did they pass, and what was printed? Who is interrupted has them stop their servers first."""
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        # so that Ctrl-C does not come twice
        start_new_session=True,
    ) as process:
        try:
            printed, _ = process.communicate()
        except KeyboardInterrupt:
            process.send_signal(signal.SIGINT)
            process.communicate()
            raise
    return process.returncode == 0, printed


def read_counts(results: Path) -> dict[str, int]:
    """Add up the numbers that tests have given, by what they are numbers of."""
    if not results.exists():
        return {}
    counts: Counter[str] = Counter()
    for one in ET.parse(results).iter("property"):
        name, number = one.get("name", ""), one.get("value", "")
        if name.startswith(COUNTED):
            counts[name.removeprefix(COUNTED)] += int(number)
    return dict(counts)


def describe(pg_config: str) -> str:
    """Say which PostgreSQL it is, as in '18.6 with assertions'."""
    command = [pg_config or embedded_pg_config(), "--version", "--configure", "--cflags"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    version = re.search(r"\d+(\.\d+|[a-z]+\d*)", text)
    special = [what for mark, what in SPECIAL.items() if mark in text]
    return (version[0] if version else "") + (f" with {' and '.join(special)}" if special else "")


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


def current(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Return the runs of the code that is here now."""
    codes = {name: digest(CAMPAIGNS[name].code) for name in {one.campaign for one in outcomes}}
    return [one for one in outcomes if one.code == codes[one.campaign]]


def next_run(outcomes: list[Outcome], names: list[str], pg_config: str, first: int = 1) -> tuple[str, int]:
    """Choose the campaign that has had the least time on this code and PostgreSQL, and the seed after its last one."""
    counting = [one for one in current(outcomes) if one.pg_config == pg_config]
    name = min(names, key=lambda name: sum(one.seconds for one in counting if one.campaign == name))
    return name, max(first, *(one.seed + 1 for one in outcomes if one.campaign == name), 1)


def report(outcomes: list[Outcome]) -> None:
    """Print the sum of all runs as a table in Markdown: what was run on this code, and for how long on earlier code."""
    if not outcomes:
        return
    print("\n| campaign | PostgreSQL | seeds | minutes | counted | minutes before | failing seeds |")
    print("|---|---|---|---|---|---|---|")
    failing, counting = still_failing(outcomes), current(outcomes)
    for name in CAMPAIGNS:
        for server in dict.fromkeys(one.server for one in outcomes if one.campaign == name):
            runs = [one for one in outcomes if (one.campaign, one.server) == (name, server)]
            here = [one for one in runs if one in counting]
            counts: Counter[str] = Counter()
            # a seed that was repeated has the same queries
            for one in {one.name: one for one in here}.values():
                counts.update(one.counts)
            minutes = [sum(one.seconds for one in some) / 60 for some in (here, runs)]
            cells = [
                f"`{name}`",
                server,
                f"{len({one.seed for one in here}):,}",
                f"{minutes[0]:.0f}",
                ", ".join(f"{number:,} {what}" for what, number in counts.items()),
                f"{minutes[1] - minutes[0]:.0f}",
                ", ".join(str(one.seed) for one in failing if one in runs) or "none",
            ]
            print(f"| {' | '.join(cells)} |")


def main() -> int:
    """Run until the time is over and return the exit status."""
    try:
        seconds = float(os.environ.get("MINUTES") or 60) * 60
    except ValueError:
        raise UserError("MINUTES is not a number", "make fuzz MINUTES=60") from None
    try:
        first = int(os.environ.get("SEED") or 1)
    except ValueError:
        raise UserError("SEED is not a whole number", "make fuzz SEED=1000") from None
    names = (os.environ.get("CAMPAIGNS") or ",".join(CAMPAIGNS)).replace(",", " ").split()
    unknown = [name for name in names if name not in CAMPAIGNS]
    if unknown:
        raise UserError(f"there is no campaign {unknown[0]}", f"CAMPAIGNS is of {', '.join(CAMPAIGNS)}")
    folder = state_dir() / "fuzz"
    folder.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + seconds
    outcomes = read_journal(folder)
    known = [one.name for one in still_failing(outcomes) if one.campaign in names]
    pg_config = os.environ.get("PG_CONFIG", "")
    for number in (signal.SIGINT, signal.SIGTERM):
        # a shell has what it runs in the background ignore Ctrl-C
        signal.signal(number, signal.default_int_handler)
    try:
        while time.monotonic() < end:
            chosen = known.pop(0) if known else (*next_run(outcomes, names, pg_config, first), pg_config)
            outcomes.append(run(folder, *chosen))
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

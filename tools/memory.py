"""Run tests on a server under which every wrong access of memory is an error: valgrind's memcheck, or the sanitizers.

KIND=valgrind or KIND=sanitizers (of the compiler: addresses and undefined behavior), SOURCE=… the source of PostgreSQL,
TESTS=… some tests instead of those below. The server is built once, into the state folder. What generates examples
makes fewer of them (SCALE=0.02), as everything takes about thirty times as long under valgrind.
What was found is printed, each place once, and is an error of the command; so is a test that failed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pgbillion.common.errors import UserError
from pgbillion.common.paths import state_dir

ROOT = Path(__file__).parents[1]
CONTRIB = ("amcheck", "auto_explain", "bloom", "btree_gist", "citext", "pageinspect", "postgres_fdw")
# what reads memory in ways of its own: rows in vectors, joins, what processes share, columns, clones, states of shards
TESTS = (
    "tests/vector/test_vector_answers.py",
    "tests/vector/test_vector_differential.py",
    "tests/vector/test_vector_scan.py",
    "tests/vector/test_vector_top.py",
    "tests/vector/test_vector_distinct.py",
    "tests/vector/test_vector_exchange.py",
    "tests/vector/test_vector_join.py",
    "tests/vector/test_vector_join_shared.py",
    "tests/vector/test_vector_mixed_joins.py",
    "tests/vector/test_join_aggregate.py",
    "tests/columns/test_columns_answers.py",
    "tests/columns/test_columns_changes.py",
    "tests/columns/test_columns_values.py",
    "tests/tenants/test_clone_schema.py",
    "tests/tenants/test_clone_stamps.py",
    "tests/tenants/test_clone_rows.py",
    "tests/tenants/test_tenants_diff.py",
    "tests/tables/test_catalog_equality.py",
    "tests/tables/test_catalog_refusals.py",
    "tests/tables/test_tables_drop.py",
    "tests/lazy_heap/test_lazy_behaviour.py",
    "tests/shards/test_shard_states.py",
    "tests/shards/test_shard_answers.py",
    "tests/shards/test_shard_differential.py",
    "tests/shards/test_shard_trust.py",
)
# these arguments have a program that ends at once
WRAPPER = """#!/bin/sh
# the server under valgrind
here=$(dirname "$(readlink -f "$0")")
case "$1" in
--boot | --check | --single | --describe-config | -V | --version | -C) exec "$here/postgres.real" "$@" ;;
esac
exec valgrind {options} "$here/postgres.real" "$@"
"""


@dataclass(frozen=True)
class Kind:
    """How the server is built, and what tests are run with."""

    configure: Sequence[str]
    environment: Mapping[str, str]
    # how a report begins in a log, and how frames of its stack look
    begins: re.Pattern[str]
    frame: re.Pattern[str]


_SANITIZERS = "print_stacktrace=1:detect_leaks=0:abort_on_error=1:log_path={logs}/log"
KINDS = {
    "valgrind": Kind(
        ("CFLAGS=-O1 -g -fno-omit-frame-pointer", "CPPFLAGS=-DUSE_VALGRIND"),
        {},
        re.compile(r"==\d+== (?!Warning)(?=\S)"),
        re.compile(r"==\d+==    (?:at|by) 0x[0-9A-F]+: (\S+)"),
    ),
    "sanitizers": Kind(
        ("CFLAGS=-O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined",),
        {"ASAN_OPTIONS": _SANITIZERS, "UBSAN_OPTIONS": _SANITIZERS},
        re.compile(r"\S+: runtime error: |==\d+==ERROR: "),
        re.compile(r"\s+#\d+ 0x[0-9a-f]+ in (\S+)"),
    ),
}


def build(source: Path, name: str, home: Path) -> Path:
    """Build a server of that kind unless it is there; return its pg_config."""
    prefix = home / "server"
    if not (home / "built").exists():
        if not (source / "configure").exists():
            raise UserError(
                f"there is no source of PostgreSQL in {source}",
                "unpack one and name it: make test-memory KIND=valgrind SOURCE=/path/to/postgresql-18.6",
            )
        tree = home / "build"
        for old in (tree, prefix):
            shutil.rmtree(old, ignore_errors=True)
        tree.mkdir(parents=True)
        print(f"building a server for {name} in {home}", flush=True)
        options = [f"--prefix={prefix}", "--enable-cassert", "--enable-debug", "--without-icu", "--without-readline"]
        make = ["make", "--silent", f"--jobs={os.cpu_count() or 1}"]
        commands = [[str(source / "configure"), *options, *KINDS[name].configure], make, [*make, "install"]]
        commands += [[*make, "-C", f"contrib/{one}", "install"] for one in CONTRIB]
        with (home / "build.log").open("w", encoding="utf-8") as log:
            for command in commands:
                # no part of a make above; and the compiled programs that a build itself runs free nothing
                outer = ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")
                environment = {name: value for name, value in os.environ.items() if name not in outer}
                environment["ASAN_OPTIONS"] = "detect_leaks=0"
                if subprocess.run(command, cwd=tree, env=environment, stdout=log, stderr=log).returncode != 0:
                    raise UserError(f"{' '.join(command)} failed", f"what it printed is in {home / 'build.log'}")
        shutil.rmtree(tree)
        (home / "built").touch()
    return prefix / "bin" / "pg_config"


def wrap(bindir: Path, source: Path, logs: Path) -> None:
    """Put a script in the place of the server that runs it under valgrind."""
    options = ["--quiet", "--leak-check=no", "--num-callers=25", "--error-limit=no", f"--log-file={logs}/%p.log"]
    options.append(f"--suppressions={source / 'src' / 'tools' / 'valgrind.supp'}")
    if os.environ.get("ORIGINS"):
        options.append("--track-origins=yes")
    server, real = bindir / "postgres", bindir / "postgres.real"
    if not real.exists():
        server.rename(real)
    server.write_text(WRAPPER.format(options=" ".join(options)), encoding="utf-8")
    server.chmod(0o755)


def reports(kind: Kind, lines: Iterable[str]) -> Iterator[list[str]]:
    """Split a log into what was found, each with its stack."""
    found: list[str] = []
    for line in lines:
        if kind.begins.match(line):
            if found:
                yield found
            found = [line]
        elif found:
            found.append(line)
    if found:
        yield found


def place(kind: Kind, report: list[str]) -> str:
    """Name what a report is about: the same from one process to the next."""
    frames = [match[1] for line in report if (match := kind.frame.match(line))]
    what = re.sub(r"==\d+==|0x[0-9a-f]+|\d+", "", report[0]).strip()
    return f"{what}: {' < '.join(frames[:4])}"


def main() -> int:
    """Run the tests and return the exit status."""
    name = os.environ.get("KIND") or "valgrind"
    if name not in KINDS:
        raise UserError(f"there is no kind {name}", f"KIND is one of {', '.join(KINDS)}")
    if name == "valgrind" and shutil.which("valgrind") is None:
        raise UserError("there is no program valgrind", "apt-get install valgrind")
    kind, home = KINDS[name], state_dir() / "memory" / name
    source = Path(os.environ.get("SOURCE") or ".").resolve()
    pg_config, logs = build(source, name, home), home / "logs"
    shutil.rmtree(logs, ignore_errors=True)
    logs.mkdir()
    # the server's user writes here
    logs.chmod(0o777)
    if name == "valgrind":
        wrap(pg_config.parent, source, logs)
    tests = os.environ.get("TESTS", "").split() or TESTS
    environment = {
        # these do not follow the scale
        "STATE_FUZZ_RUNS": "2000",
        "PGBILLION_TEST_QUERIES": "100",
        **os.environ,
        **{variable: value.format(logs=logs) for variable, value in kind.environment.items()},
        "PG_CONFIG": str(pg_config),
        "PGBILLION_TEST_UNCHECKED": "1",
        "PGBILLION_TEST_SCALE": os.environ.get("SCALE") or "0.02",
    }
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-o", "timeout=7200", *tests]
    status = subprocess.run(command, cwd=ROOT, env=environment).returncode
    places: Counter[str] = Counter()
    for log in sorted(logs.iterdir()):
        for report in reports(kind, log.read_text(encoding="utf-8", errors="replace").splitlines()):
            key = place(kind, report)
            if not places[key]:
                print("\n".join(["", *report[:40]]))
            places[key] += 1
    for key, number in places.most_common():
        print(f"{number:6} {key}")
    print(f"{name}: {places.total()} reports of {len(places)} places; the logs are in {logs}")
    return 1 if status or places else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except UserError as error:
        print(f"error: {error.message}\nhint: {error.hint}", file=sys.stderr)
        sys.exit(error.status)

"""PostgreSQL's own regression suite with lazy_heap as the default access method.

It runs twice on the same server, with heap and with lazy_heap, and what psql shows is compared: so neither this
system's locale nor a minor release that is not quite the source's matters. tests/regress_lazy/MAJOR/TEST.diff holds
the differences that are accepted, and tests/regress_lazy/README.md the reason for each. To see new ones:
PGBILLION_ACCEPT=1 writes them there.
"""

from __future__ import annotations

import difflib
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness import lazy, servers
from harness.servers import one
from pgbillion.postgres import SUPERUSER, Cluster, Installation, make_folder, run_as_server

ROOT = Path(__file__).parents[1]
ACCEPTED = Path(__file__).with_name("regress_lazy")
# the suite leaves about as many tables behind
FEWEST_TABLES = 500
# nothing of this kind may be in a server's log, whatever psql shows
ALARMING = re.compile(r"PANIC|TRAP|terminated by signal|could not open file \"(base|pg_tblspc)/[^\"]*/1\"|invalid page")


@dataclass(frozen=True)
class Outcome:
    """What one run of the suite has shown and left."""

    results: dict[str, list[str]]
    tests: int
    alarms: list[str]
    lazy_tables: int
    heap_tables: int
    unsound: list[str]


def _source(major: int) -> Path:
    if major == 16:
        pytest.skip("no Debian release has the source of 16")
    tool = ROOT / "tools" / "regress_source.sh"
    done = subprocess.run([tool, str(major)], stdout=subprocess.PIPE, text=True, check=True)
    return Path(done.stdout.strip())


def _library(installation: Installation, source: Path, folder: Path) -> None:
    """The functions in C that the suite uses."""
    pg_config: list[str | Path] = [installation.source, "--includedir-server"]
    headers = subprocess.run(pg_config, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    command: list[str | Path] = [
        "cc",
        "-shared",
        "-fPIC",
        "-w",
        "-D_GNU_SOURCE",
        "-I",
        headers,
        "-o",
        folder / "regress.so",
    ]
    subprocess.run([*command, source / "regress.c"], check=True)
    for name in ("refint.so", "autoinc.so"):
        if (installation.pkglibdir / name).exists():
            shutil.copy(installation.pkglibdir / name, folder)


def _run(cluster: Cluster, source: Path, folder: Path) -> Outcome:
    pgxs: list[str | Path] = [cluster.installation.source, "--pgxs"]
    makefile = Path(subprocess.run(pgxs, stdout=subprocess.PIPE, text=True, check=True).stdout.strip())
    output = folder / "output"
    make_folder(output, for_server=True)
    # the exit status tells of differences from what its authors' machines show, which are not of interest here
    done = run_as_server(
        [
            makefile.parents[1] / "test" / "regress" / "pg_regress",
            f"--inputdir={source}",
            f"--outputdir={output}",
            f"--bindir={cluster.installation.bindir}",
            f"--dlpath={folder}",
            f"--schedule={source / 'parallel_schedule'}",
            f"--host={cluster.socket_dir}",
            f"--port={cluster.port}",
            f"--user={SUPERUSER}",
            "--max-concurrent-tests=20",
            "--load-extension=pgbillion",
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    tests = len(re.findall(r"^(?:not )?ok |\.\.\. (?:ok|FAILED)", done.stdout, re.MULTILINE))
    assert tests > 150, done.stdout
    results = {
        path.stem: path.read_text(encoding="utf-8", errors="replace").splitlines()
        for path in (output / "results").glob("*.out")
    }
    alarms = [
        line for line in cluster.log.read_text(encoding="utf-8", errors="replace").splitlines() if ALARMING.search(line)
    ]
    with cluster.connect("regression") as conn:
        conn.execute("SET client_min_messages = error; CREATE EXTENSION amcheck WITH SCHEMA public")
        count = (
            "SELECT count(*) FROM pg_class c JOIN pg_am a ON a.oid = relam"
            " WHERE c.oid >= 16384 AND relkind IN ('r', 'm') AND amname = %s"
        )
        return Outcome(
            results, tests, alarms, one(conn, count, "lazy_heap"), one(conn, count, "heap"), lazy.unsound(conn)
        )


def _difference(heap: list[str], lazy_heap: list[str]) -> str:
    """As diff shows it, without line numbers, so that it outlives changes elsewhere in the test."""
    lines = list(difflib.unified_diff(heap, lazy_heap, lineterm="", n=1))[2:]
    return "".join(f"{'@@' if line.startswith('@@') else line.rstrip()}\n" for line in lines)


def test_servers_own_regression_suite(installation: Installation) -> None:
    source = _source(installation.major)
    outcomes = {}
    for method in ("heap", "lazy_heap"):
        with servers.temporary_folder() as folder:
            shutil.copytree(source, folder / "source")
            _library(installation, source, folder)
            settings = {**servers.SETTINGS, "default_table_access_method": method, "max_locks_per_transaction": "64"}
            cluster = Cluster(installation, folder / "data", folder / "s", 5432)
            cluster.init(settings)
            cluster.start()
            try:
                outcomes[method] = _run(cluster, folder / "source", folder)
            finally:
                cluster.destroy()
    heap, lazy_heap = outcomes["heap"], outcomes["lazy_heap"]
    tables = (
        f"{lazy_heap.lazy_tables} lazy tables, {lazy_heap.heap_tables} that have become heap, {lazy_heap.tests} tests"
    )
    print(tables)

    accepted = ACCEPTED / str(installation.major)
    differences = {
        test: found
        for test in sorted(heap.results.keys() | lazy_heap.results.keys())
        if (found := _difference(heap.results.get(test, []), lazy_heap.results.get(test, [])))
    }
    if os.environ.get("PGBILLION_ACCEPT"):
        shutil.rmtree(accepted, ignore_errors=True)
        accepted.mkdir(parents=True)
        for test, text in differences.items():
            (accepted / f"{test}.diff").write_text(text, encoding="utf-8")
    known = {path.stem: path.read_text(encoding="utf-8") for path in accepted.glob("*.diff")}
    wrong = [
        f"{test}: {'not accepted' if test in differences else 'no longer differs'}\n{differences.get(test, '')}"
        for test in sorted(differences.keys() | known.keys())
        if differences.get(test) != known.get(test)
    ]
    assert wrong == [], "\n".join(wrong)
    assert lazy_heap.alarms == heap.alarms == []
    assert lazy_heap.tests == heap.tests
    assert lazy_heap.lazy_tables + lazy_heap.heap_tables >= FEWEST_TABLES, tables
    assert lazy_heap.lazy_tables >= 50, tables
    assert set(lazy_heap.unsound) <= set(heap.unsound)

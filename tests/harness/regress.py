"""PostgreSQL's own regression suite: run with some settings, and what psql shows compared with a run without them.

So neither this system's locale nor a minor release that is not quite the source's matters. Accepted differences are in
files, MAJOR/TEST.diff, with their reasons in a README.md beside; PGBILLION_ACCEPT=1 writes what is found.
"""

from __future__ import annotations

import difflib
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import psycopg

from pgbillion.server.postgres import SUPERUSER, Cluster, Installation, make_folder, run_as_server

from . import lazy, servers

ROOT = Path(__file__).parents[2]
# the source of 16 is in no Debian release; with a server compared with itself another major's suite serves as well
_SUITES = {16: 17}
Connection = psycopg.Connection[tuple[Any, ...]]
# nothing of this kind may be in a server's log, whatever psql shows
ALARMING = re.compile(
    r"PANIC|\bTRAP:|terminated by signal|could not open file \"(base|pg_tblspc)/[^\"]*/1\"|invalid page"
)


@dataclass(frozen=True)
class Outcome:
    """What one run of the suite has shown and left: tables by access method, what amcheck finds, matches in the log."""

    results: dict[str, list[str]]
    tests: int
    alarms: list[str]
    tables: dict[str, int]
    unsound: list[str]
    matches: int


@cache
def outcome(installation: Installation, settings: tuple[tuple[str, str], ...] = (), match: str = "") -> Outcome:
    """Run the suite on a server of its own with these settings; once for all tests. ``match`` is counted in its log."""
    source = _source(installation.major)
    with servers.temporary_folder() as folder:
        shutil.copytree(source, folder / "source")
        _library(installation, source, folder)
        cluster = Cluster(installation, folder / "data", folder / "s", 5432)
        cluster.init({**servers.SETTINGS, "max_locks_per_transaction": "64", **dict(settings)})
        cluster.start()
        try:
            return _run(cluster, folder / "source", folder, match)
        finally:
            cluster.destroy()


def differences(one: Outcome, two: Outcome, show: Callable[[list[str]], list[str]] = list) -> dict[str, str]:
    """What psql has shown otherwise, by test; ``show`` prepares a test's lines."""
    return {
        test: found
        for test in sorted(one.results.keys() | two.results.keys())
        if (found := _difference(show(one.results.get(test, [])), show(two.results.get(test, []))))
    }


def not_accepted(found: Mapping[str, str], accepted: Path) -> list[str]:
    """Differences that are in no file of the folder, and files whose difference is gone or another one."""
    if os.environ.get("PGBILLION_ACCEPT"):
        shutil.rmtree(accepted, ignore_errors=True)
        accepted.mkdir(parents=True)
        for test, text in found.items():
            (accepted / f"{test}.diff").write_text(text, encoding="utf-8")
    known = {path.stem: path.read_text(encoding="utf-8") for path in accepted.glob("*.diff")}
    return [
        f"{test}: {'not accepted' if test in found else 'no longer differs'}\n{found.get(test, '')}"
        for test in sorted(found.keys() | known.keys())
        if found.get(test) != known.get(test)
    ]


def _source(major: int) -> Path:
    tool = ROOT / "tools" / "source.sh"
    done = subprocess.run([tool, str(_SUITES.get(major, major))], stdout=subprocess.PIPE, text=True, check=True)
    return Path(done.stdout.strip()) / "src/test/regress"


def _library(installation: Installation, source: Path, folder: Path) -> None:
    """The functions in C that the suite uses."""
    pg_config: list[str | Path] = [installation.source, "--includedir-server"]
    headers = subprocess.run(pg_config, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    command: list[str | Path] = ["cc", "-shared", "-fPIC", "-w", "-D_GNU_SOURCE", "-I", headers]
    subprocess.run([*command, "-o", folder / "regress.so", source / "regress.c"], check=True)
    for name in ("refint.so", "autoinc.so"):
        if (installation.pkglibdir / name).exists():
            shutil.copy(installation.pkglibdir / name, folder)


def _run(cluster: Cluster, source: Path, folder: Path, match: str) -> Outcome:
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
            "--load-extension=pgbillion_tables",
            "--load-extension=pgbillion_rows",
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
    log = cluster.log.read_text(encoding="utf-8", errors="replace")
    with cluster.connect("regression") as conn:
        conn.execute("SET client_min_messages = error; CREATE EXTENSION amcheck WITH SCHEMA public")
        tables = conn.execute(
            "SELECT amname, count(*) FROM pg_class c JOIN pg_am a ON a.oid = relam"
            " WHERE c.oid >= 16384 AND relkind IN ('r', 'm') GROUP BY 1"
        ).fetchall()
        return Outcome(
            results,
            tests,
            [line for line in log.splitlines() if ALARMING.search(line)],
            dict(tables),
            lazy.unsound(conn),
            len(re.findall(match, log)) if match else 0,
        )


def _difference(one: list[str], two: list[str]) -> str:
    """As diff shows it, without line numbers, so that it outlives changes elsewhere in the test."""
    lines = list(difflib.unified_diff(one, two, lineterm="", n=1))[2:]
    return "".join(f"{'@@' if line.startswith('@@') else line.rstrip()}\n" for line in lines)

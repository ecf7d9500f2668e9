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
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from pgbillion.common.connection import Connection
from pgbillion.server.postgres import SUPERUSER, Cluster, Installation, make_folder, run_as_server

from . import columns_everywhere, lazy, needs, servers

ROOT = Path(__file__).parents[2]
# nothing of this kind may be in a server's log, whatever psql shows
ALARMING = re.compile(
    r"PANIC|\bTRAP:|terminated by signal|could not open file \"(base|pg_tblspc)/[^\"]*/1\"|invalid page"
)


# 15's test of rules shows them on 16, where a table is no longer made a view
NUMBERS = re.compile(r" +\d+ \| r +\| +\d+$")
# an OID and a position in the WAL that 18's tests show on 19
OID_OR_LSN = re.compile(r"^( stats_import \| test +\|) +\d+( \|)|(\| t +\|) [0-9A-F]+/[0-9A-F]+$")
# what tells in the log which plans there were, for count_plans()
LOG_PLANS = (("auto_explain.log_min_duration", "0"), ("auto_explain.log_nested_statements", "on"))
# every plan that can be of vectors is
FORCED = (
    ("session_preload_libraries", "pgbillion_rows,auto_explain"),
    ("pgbillion_rows.vector_aggregate", "force"),
    ("pgbillion_rows.vector_scan", "force"),
    # which process returns a group, and when, is chance
    ("pgbillion_rows.vector_exchange", "off"),
    ("pgbillion_rows.vector_join", "force"),
    ("pgbillion_rows.vector_sort", "force"),
    ("pgbillion_rows.vector_window", "force"),
    ("pgbillion_rows.eager_aggregate", "force"),
    *LOG_PLANS,
)
FORCED_ON_LAZY = (*FORCED, ("default_table_access_method", "lazy_heap"))


@dataclass(frozen=True)
class Outcome:
    """What one run of a suite has shown and left: tables by access method, what amcheck finds, plans by kind.

    ``columns`` is what columns_everywhere.count() finds.
    """

    results: dict[str, list[str]]
    tests: int
    alarms: list[str]
    tables: dict[str, int]
    unsound: list[str]
    plans: Counter[str]
    columns: tuple[int, int]


@cache
def outcome(
    installation: Installation,
    settings: tuple[tuple[str, str], ...] = (),
    only: tuple[str, ...] = (),
    before: str = "",
) -> Outcome:
    """Run the regression suite, or only some of it, on a server of its own with these settings; once for all tests.

    ``before`` is SQL for the suite's database.
    """
    with servers.temporary_folder() as folder:
        suite = prepare(installation, folder)
        with running(installation, folder, {"max_locks_per_transaction": "64", **dict(settings)}) as cluster:
            return _run(cluster, suite, folder, only, before)


def prepare(installation: Installation, folder: Path) -> Path:
    """Put the regression suite, which is returned, and its libraries into a folder."""
    suite = folder / "source"
    shutil.copytree(source(installation.major) / "src/test/regress", suite)
    schedule = suite / "parallel_schedule"
    # what 15's says about failures, 16 does not understand
    schedule.write_text(re.sub("^ignore:.*\n", "", schedule.read_text(encoding="utf-8"), flags=re.MULTILINE))
    if installation.major == 19:
        _analyze_for_19(suite)
    compile_library(installation, folder, "src/test/regress/regress.c")
    for name in ("refint", "autoinc"):
        if (installation.pkglibdir / f"{name}.so").exists():
            shutil.copy(installation.pkglibdir / f"{name}.so", folder)
        else:
            compile_library(installation, folder, f"contrib/spi/{name}.c")
    return suite


def _analyze_for_19(suite: Path) -> None:
    """Give tables statistics without which 19 plans a hash join of 18's suite as a nested loop that takes hours."""
    path = suite / "sql/join_hash.sql"
    made = "alter table join_bar set (parallel_workers = 2);\n"
    script = path.read_text(encoding="utf-8")
    assert made in script
    path.write_text(script.replace(made, f"{made}analyze join_foo, join_bar;\n"), encoding="utf-8")


@contextmanager
def running(installation: Installation, folder: Path, settings: Mapping[str, str]) -> Iterator[Cluster]:
    """A running server in the folder; it has auto_explain, also where the installation is without contrib."""
    if not (installation.pkglibdir / "auto_explain.so").exists():
        compile_library(installation, folder, "contrib/auto_explain/auto_explain.c")
    cluster = Cluster(installation, folder / "data", folder / "s", 5432)
    cluster.init({**servers.SETTINGS, "dynamic_library_path": f"$libdir:{folder}", **settings})
    cluster.start()
    try:
        yield cluster
    finally:
        cluster.destroy()


def differences(
    one: Mapping[str, list[str]], two: Mapping[str, list[str]], show: Callable[[list[str]], list[str]] = list
) -> dict[str, str]:
    """What psql has shown otherwise, by test; ``show`` prepares a test's lines."""
    return {
        test: found
        for test in sorted(one.keys() | two.keys())
        if (found := _difference(show(one.get(test, [])), show(two.get(test, []))))
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


@cache
def source(major: int) -> Path:
    """The folder of what this major needs of PostgreSQL's source; 16 and 19 have that of the major before them."""
    command = ["tools/source.sh", str(major)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
    if done.returncode != 0:
        print(done.stderr.decode(errors="replace"))
        needs.missing(f"PostgreSQL's source ({' '.join(command)})")
    return Path(done.stdout.decode().strip())


def pg_config(installation: Installation, option: str) -> str:
    done = subprocess.run([installation.source, option], stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.strip()


def compile_library(installation: Installation, folder: Path, path: str) -> None:
    """Compile a file of PostgreSQL's source into a library in the folder."""
    headers = pg_config(installation, "--includedir-server")
    # 15's tests, compiled for 16, include too little
    included = ["-include", "postgres.h", "-include", "utils/array.h"]
    command: list[str | Path] = ["cc", "-shared", "-fPIC", "-w", "-D_GNU_SOURCE", "-I", headers, *included]
    library = folder / Path(path).with_suffix(".so").name
    subprocess.run([*command, "-o", library, source(installation.major) / path], check=True)


def run_suite(
    cluster: Cluster, name: str, suite: Path, output: Path, *options: str | Path, **environment: str
) -> dict[str, bool]:
    """Run pg_regress or pg_isolation_regress on a server, and tell of each test whether it showed what is expected."""
    make_folder(output, for_server=True)
    installation = cluster.installation
    libraries = Path(pg_config(installation, "--libdir"))
    # isolationtester is linked with libpq, which it need not find by itself; beside a C library there is all it needs
    path = () if (libraries / "libc.so.6").exists() else (f"LD_LIBRARY_PATH={libraries}",)
    done = run_as_server(
        [
            "/usr/bin/env",
            *path,
            *(f"{variable}={value}" for variable, value in environment.items()),
            Path(pg_config(installation, "--pgxs")).parents[1] / "test" / name,
            f"--inputdir={suite}",
            f"--outputdir={output}",
            f"--bindir={installation.bindir}",
            f"--host={cluster.socket_dir}",
            f"--port={cluster.port}",
            f"--user={SUPERUSER}",
            *options,
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    found = re.findall(
        r"^(?:(ok|not ok) +\d+ +[-+] (\S+)|(?:test|    ) (\S+) +\.\.\. (ok|FAILED))", done.stdout, re.MULTILINE
    )
    assert found, done.stdout
    return {name or older: "ok" in (now, then) for now, name, older, then in found}


def results(output: Path) -> dict[str, list[str]]:
    """What each test has shown."""
    return {
        path.stem: [
            "(a relation's numbers)" if NUMBERS.match(line) else OID_OR_LSN.sub(r"\1\3 (a number)\2", line)
            for line in path.read_text(encoding="utf-8", errors="replace").splitlines()
        ]
        for path in (output / "results").glob("*.out")
    }


def log_lines(cluster: Cluster) -> list[str]:
    return cluster.log.read_text(encoding="utf-8", errors="replace").splitlines()


def alarms(log: Iterable[str]) -> list[str]:
    """Lines of a server's log that must not be there, whatever the tests show."""
    return [line for line in log if ALARMING.search(line)]


def count_plans(log: Iterable[str]) -> Counter[str]:
    """Count the plans that auto_explain has logged: those with vectors, and those that aggregate before a join."""
    found: Counter[str] = Counter()
    kinds: set[str] = set()
    above: list[tuple[int, str]] = []
    for line in log:
        if not line.startswith("\t"):
            found.update(kinds)
            kinds, above = set(), []
            continue
        node = re.match(r"\t( *(?:->  )?)((?:Parallel )?[A-Z].*?)  \(cost=", line)
        if not node:
            continue
        depth, name = len(node[1]), node[2]
        above = [(at, kind) for at, kind in above if at < depth]
        partial = "Partial " in name or "VectorAggregate" in name
        if "VectorAggregate" in name:
            kinds.add("vector")
        if partial and re.search("f[^fa]*j[^fa]*$", "".join(kind for _, kind in above)):
            kinds.add("eager")
        kind = "f" if name.startswith("Finalize ") else "a" if "Aggregate" in name else ""
        kind = kind or ("j" if re.search(r"\bJoin\b|^Nested Loop", name) else "-")
        above.append((depth, kind))
    found.update(kinds)
    return found


def _make_database(cluster: Cluster, before: str) -> None:
    """Make the suite's database, as pg_regress does."""
    with cluster.connect() as conn:
        conn.execute("CREATE DATABASE regression TEMPLATE template0")
        for name in ("lc_messages", "lc_monetary", "lc_numeric", "lc_time"):
            conn.execute(f"ALTER DATABASE regression SET {name} = 'C'")
        conn.execute("ALTER DATABASE regression SET bytea_output = 'hex'")
        conn.execute("ALTER DATABASE regression SET timezone_abbreviations = 'Default'")
    with cluster.connect("regression") as conn:
        conn.execute(f"CREATE EXTENSION pgbillion_tables; CREATE EXTENSION pgbillion_rows; {before}".encode())


def _run(cluster: Cluster, suite: Path, folder: Path, only: tuple[str, ...], before: str) -> Outcome:
    output = folder / "output"
    if before:
        _make_database(cluster, before)
        made = ["--use-existing", "--dbname=regression"]
    else:
        made = ["--load-extension=pgbillion_tables", "--load-extension=pgbillion_rows"]
    # which tests show what their authors expect does not matter here
    shown = run_suite(
        cluster,
        "regress/pg_regress",
        suite,
        output,
        *(only or [f"--schedule={suite / 'parallel_schedule'}"]),
        f"--dlpath={folder}",
        "--max-concurrent-tests=20",
        *made,
    )
    assert len(shown) == len(only) if only else len(shown) > 150
    log = log_lines(cluster)
    with cluster.connect("regression") as conn:
        tables = conn.execute(
            "SELECT amname, count(*) FROM pg_class c JOIN pg_am a ON a.oid = relam"
            " WHERE c.oid >= 16384 AND relkind IN ('r', 'm') GROUP BY 1"
        ).fetchall()
        return Outcome(
            results(output),
            len(shown),
            alarms(log),
            dict(tables),
            unsound(conn),
            count_plans(log),
            columns_everywhere.count(log),
        )


def unsound(conn: Connection) -> list[str]:
    """What amcheck finds; nothing where the installation is without contrib."""
    if not servers.one(conn, "SELECT count(*) FROM pg_available_extensions WHERE name = 'amcheck'"):
        return []
    conn.execute("SET client_min_messages = error; CREATE EXTENSION amcheck WITH SCHEMA public")
    return lazy.unsound(conn)


def _difference(one: list[str], two: list[str]) -> str:
    """As diff shows it, without line numbers, so that it outlives changes elsewhere in the test."""
    lines = list(difflib.unified_diff(one, two, lineterm="", n=1))[2:]
    return "".join(f"{'@@' if line.startswith('@@') else line.rstrip()}\n" for line in lines)


def without_plans(lines: list[str]) -> list[str]:
    """Leave out what EXPLAIN, or explain_…() of the suite, shows: from its heading to the count of its rows."""
    kept: list[str] = []
    inside = False
    for line in lines:
        if re.fullmatch(r"QUERY PLAN|explain_\w+", line.strip()):
            inside = True
        if not inside:
            kept.append(line)
        if inside and re.fullmatch(r"\(\d+ rows?\)", line):
            inside = False
    return kept

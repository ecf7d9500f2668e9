"""`pgbillion demo`, and the commands' default server, which it starts.

By the program as a wheel installs it, from another folder, with nothing in PATH; the libraries are those in the wheel.
"""

from __future__ import annotations

import html
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from harness import servers, wheel
from harness.amount import share
from harness.hints import state_folder
from harness.servers import one
from pgbillion.server import embedded
from pgbillion.server.postgres import Cluster, Installation

Run = Callable[[list[str], dict[str, str]], "subprocess.CompletedProcess[str]"]

FIGURES = [
    "clone schemas",
    "clone schemas, lazy",
    "compare schemas with the model",
    "migrate schemas",
    "create tables",
    "create tables, lazy",
    "drop tables",
    "drop tables, lazy",
    "list 2,000 tables (\\dt)",
    "list the first 1,000 (\\dt)",
    *(
        f"GROUP BY, {processes}, {side}"
        for processes in ("1 process", f"{os.cpu_count()} processes")[: os.cpu_count()]
        for side in ("vectorized", "columnar index")
    ),
    "GROUP BY over 4 servers",
]
# contents, in their order
CHAPTERS = {
    "glance": "At a glance",
    "tenants": "A schema for each tenant",
    "tables": "Tables by the million",
    "rows": "Analytics on ordinary tables",
    "shards": "A table over four servers",
    "durability": "What durability costs",
    "setup": "Machine and settings",
    "next": "What next",
}


def check_page(report: str) -> None:
    """Figures beside PostgreSQL's, durability, contents, plans folded away, what next; and nothing from elsewhere."""
    assert re.findall(r'<a href="#(\w+)">([^<]+)</a>', report.partition("<nav")[2].partition("</nav>")[0]) == list(
        CHAPTERS.items()
    )
    places = [report.index(f'id="{name}"') for name in CHAPTERS]
    assert places == sorted(places)
    glance = report[places[0] : places[1]]
    rows = re.findall(
        r"<tr><td>(.+?)</td><td[^>]*>(.+?)</td><td[^>]*>(.+?)</td><td[^>]*><strong>(.+?)</strong>", glance
    )
    assert [html.unescape(row[0]) for row in rows] == FIGURES
    before = report[: places[0]]
    assert "Durability was off on both sides" in before
    assert re.search(r"With durability on.*clone schemas [\d.,]+/s and [\d.,]+/s, ", before, re.S)
    for chapter, bars in {
        "tenants": ("PostgreSQL", "pgbillion", "pgbillion, lazy"),
        "tables": ("PostgreSQL", "pgbillion", "pgbillion, lazy"),
        "rows": ("PostgreSQL", "vectorized", "columnar index"),
        "shards": ("postgres_fdw", "pgbillion_fdw"),
        "durability": ("PostgreSQL", "pgbillion"),
    }.items():
        section = report[report.index(f'<section id="{chapter}"') :].partition("</section>")[0]
        assert set(re.findall(r'<div class="bar s\d"><span>([^<]+)</span>', section)) == set(bars), chapter
    # plans, checks and what went on second by second are folded away
    folded = re.findall(r"<details>.*?</details>", report, re.S)
    assert len(folded) == 4
    outside = re.sub(r"<details>.*?</details>", "", report, flags=re.S)
    assert "<pre" not in outside
    assert "Async Foreign Scan" in report
    assert "20 clones equal the model" in report
    assert "names without a gap" in report
    for setting in ("fsync", "shared_buffers", "work_mem"):
        assert f'<th scope="row">{setting}</th>' in report
    # self-contained, and no program
    assert not re.findall(r'(?:src|href)="(?!#)', report)
    assert "<script" not in report
    assert "url(" not in report.replace("url(#", "")


@pytest.fixture
def run(cluster: Cluster, installation: Installation) -> Iterator[Run]:
    with cluster.connect() as conn:
        assertions = one(conn, "SHOW debug_assertions") == "on"
    if assertions:
        env = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
        yield lambda arguments, more: subprocess.run(
            [sys.executable, "-m", "pgbillion", *arguments], env=env | more, capture_output=True, text=True, timeout=300
        )
        return
    with wheel.installed(installation, "demo") as program:
        yield lambda arguments, more: program.run(*arguments, env=more)


def test_demo_twice_then_the_default_server(run: Run) -> None:
    with servers.temporary_folder() as state:
        env = {name: value for name, value in os.environ.items() if name == "PG_CONFIG"}
        env["PGBILLION_STATE"] = str(state / "s")

        def pgbillion(*arguments: str) -> subprocess.CompletedProcess[str]:
            return run(list(arguments), env)

        try:
            for _ in range(2):
                done = pgbillion("demo", "--count", "2000")
                assert done.returncode == 0, done.stderr
                assert done.stderr.index("Durability is off in it") < done.stderr.index("== starting PostgreSQL")
                figures = re.findall(
                    r"(?m)^(\S.*?) +([\d.,]+)(/s| ms| s) +([\d.,]+)(/s| ms| s) +([\d.,]+)$", done.stdout
                )
                assert [name for name, *_ in figures] == [*FIGURES, "clone schemas", "create tables", "drop tables"]
                for name, theirs, unit, ours, other, times in figures:
                    assert unit == other or " ms" in (unit, other), name
                    rates = [float(one.replace(",", "")) for one in (theirs, ours, times)]
                    if unit == "/s":
                        # all three are rounded
                        assert rates[1] / rates[0] == pytest.approx(rates[2], rel=0.06), name
                assert "server psql -d demo" in done.stdout
                report = (state / "s" / "runs" / "demo" / "demo.html").read_text()
                check_page(report)
            assert not (state / "s" / "cycle-server").exists()
            assert not (state / "s" / "shards").exists()
            assert "removing the tables of the last demo" in done.stderr
            listed = pgbillion(
                "server",
                "psql",
                "-d",
                "demo",
                "-X",
                "-A",
                "-t",
                "-c",
                "SELECT count(*) FROM pg_class WHERE relname ~ '^_0'",
            )
            assert listed.stdout.strip() == "2000"
            databases = pgbillion(
                "server", "psql", "-X", "-A", "-t", "-c", "SELECT datname FROM pg_database ORDER BY 1"
            )
            assert databases.stdout.split() == ["billion", "demo", "postgres", "template0", "template1"]

            # with nothing said, commands take the embedded server, and its tablespaces go below the state folder
            made = pgbillion("tables", "create", "--count", "40", "--jobs", "2", "--tablespaces", "2")
            assert made.returncode == 0, made.stderr
            assert (state / "s" / "tablespaces" / "_001").is_dir()
            folder = made.stdout.split("run: ")[1].splitlines()[0]
            assert pgbillion("server", "stop").returncode == 0
            stopped = pgbillion("tables", "create", "--resume", folder)
            assert stopped.returncode == 2
            assert "server start" in stopped.stderr
        finally:
            destroyed = pgbillion("server", "destroy", "--yes", "--everything")
        assert destroyed.returncode == 0, destroyed.stderr


# what is going on when Ctrl-C is pressed
PHASES = (
    "starting PostgreSQL",
    "creating some tables in each way",
    "cloning a schema for each tenant",
    "creating 2,000 tables",
    "checking all of them",
    "loading rows",
    "aggregating rows of four servers",
    "creating, filling, reading and dropping",
)


def test_interrupted_anywhere_it_ends_with_one_line_and_can_be_started_anew(installation: Installation) -> None:
    with state_folder() as state:
        env = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
        env["PGBILLION_STATE"] = str(state)
        command = [sys.executable, "-m", "pgbillion", "demo", "-n", "2000", "--pg-config", str(installation.source)]
        for phase in share(PHASES):
            with subprocess.Popen(
                command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True
            ) as process:
                assert process.stderr is not None
                for line in process.stderr:
                    if line.startswith(f"== {phase}"):
                        # as a terminal does: all of its processes get it
                        os.killpg(process.pid, signal.SIGINT)
                        break
                said = process.stderr.read()
            assert process.returncode == 130, (phase, said)
            lines = [line for line in said.splitlines() if not line.startswith(("==", "compiling"))]
            *others, error, hint = lines
            assert error.startswith("error: interrupted; nothing outside"), (phase, said)
            assert hint.startswith("hint: to start anew: "), (phase, said)
            assert not [line for line in others if "Traceback" in line or "rror" in line], (phase, said)
            assert not (state / "cycle-server").exists(), phase
            assert not (state / "shards").exists(), phase
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        cluster = embedded.find(state)
        assert cluster is not None
        with cluster.connect() as conn:
            names = conn.execute("SELECT datname FROM pg_database WHERE NOT datistemplate ORDER BY 1").fetchall()
        assert [name for (name,) in names] == ["billion", "demo", "postgres"]

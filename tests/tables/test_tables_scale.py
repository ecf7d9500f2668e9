"""`pgbillion tables scale`: it measures each combination, shows it, and leaves nothing behind."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import servers
from harness.command_line import CommandLine, command_line, failed
from pgbillion.server.postgres import Cluster
from pgbillion.tables import scale

SCALE = ("tables", "scale")


@pytest.fixture
def cli(cluster: Cluster) -> Iterator[CommandLine]:
    with command_line(cluster, "postgres") as cli:
        before = shared(cli)
        yield cli
        assert shared(cli) == before


def shared(cli: CommandLine) -> set[str]:
    with cli.connect() as conn:
        rows = conn.execute("SELECT datname FROM pg_database UNION ALL SELECT spcname FROM pg_tablespace")
        return {name for (name,) in rows}


@pytest.mark.parametrize("method", ["bulk", "sql"])
def test_combinations_are_measured(cli: CommandLine, tmp_path: Path, method: str) -> None:
    with servers.temporary_folder() as folder:
        options = ("--jobs", "1,2", "--tablespaces", "0,2", "--tablespace-dir", str(folder), "--count", "60")
        page = tmp_path / "page.html"
        report = cli.json(*SCALE, *options, "--method", method, "--rounds", "2", "--output", str(page))
    measured = {(point["workers"], point["tablespaces"]): point for point in report["points"]}
    assert set(measured) == {(1, 0), (2, 0), (1, 2), (2, 2)}
    assert all(len(point["rates"]) == 2 and point["tables_per_second"] > 0 for point in measured.values())
    best = measured[report["best"]["workers"], report["best"]["tablespaces"]]
    assert best["tables_per_second"] == max(point["tables_per_second"] for point in measured.values())
    html = page.read_text()
    assert re.findall(r"<h4>(.*?)</h4>", html) == ["1 worker", "2 workers"]
    assert "2 tablespaces" in html
    assert "http://" not in html.replace("http://www.w3.org/", "")


def test_table_for_people(cli: CommandLine) -> None:
    done = cli.run(*SCALE, "--jobs", "1,2", "--count", "40", "--storage", "lazy", check=True)
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["workers", "no", "tablespaces"]
    assert [line.split()[0] for line in lines[1:3]] == ["1", "2"]
    assert sum(line.rstrip().endswith("*") for line in lines[1:3]) == 1
    assert "storage lazy" in lines[3]
    assert Path(lines[4].removeprefix("report: ")).exists()
    assert "1 worker, no tablespaces" in done.stderr


def test_a_worker_needs_a_tablespace_of_its_own() -> None:
    assert scale.combinations([1, 2, 4], [0, 2]) == [(1, 0), (2, 0), (4, 0), (1, 2), (2, 2)]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("--jobs", "1,x"), "--jobs takes numbers"),
        (("--jobs", "0"), "--jobs must be 1 or more"),
        (("--tablespaces", "-1"), "--tablespaces must be 0 or more"),
        (("--jobs", "4", "--tablespaces", "2"), "each number of tablespaces is smaller"),
        (("--jobs", "1,50", "--count", "10"), "50 workers for 10 tables"),
        (("--count", "0"), "at least 1"),
        (("--rounds", "0"), "--rounds"),
        (("--jobs", "1", "--tablespaces", "1", "--count", "10"), "do not exist"),
    ],
)
def test_arguments(cli: CommandLine, arguments: tuple[str, ...], error: str) -> None:
    done = cli.run(*SCALE, *arguments)
    assert done.returncode == 1, done.stderr
    assert done.stderr.startswith("error: ")
    assert error in done.stderr.splitlines()[0]


def test_columns_that_are_no_columns(cli: CommandLine) -> None:
    done = cli.run(*SCALE, "--jobs", "1", "--count", "10", "--columns", "i integre")
    assert done.returncode == 3, done.stderr
    assert 'type "integre" does not exist' in done.stderr


def test_no_privilege(cli: CommandLine) -> None:
    with cli.connect() as conn:
        conn.execute("CREATE ROLE may_not LOGIN")
        try:
            done = cli.run(*SCALE, "--jobs", "1", "--count", "10", "-U", "may_not")
            failed(done, 3, "no privilege to create databases", "CREATEDB")
        finally:
            conn.execute("DROP ROLE may_not")


def test_a_page_that_could_not_be_written_is_refused_before(cli: CommandLine) -> None:
    for page in (cli.state / "nowhere" / "page.html", cli.state):
        done = cli.run("tables", "scale", "--count", "10", "--jobs", "1", "--output", str(page))
        failed(done, 1, f"the page cannot be written to {page}", "--output")
        assert "tables/s" not in done.stderr

"""`pgbillion tables estimate`, `verify` and `report`."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

import pytest
from psycopg.sql import SQL, Composed, Identifier

from harness import servers
from harness.command_line import MODELS, CommandLine, command_line, count, failed, names
from pgbillion.common import sql
from pgbillion.common.host import Host
from pgbillion.report import charts, demo, page
from pgbillion.report.chapter import Bar, Bars, Chapter, Details, Figure, Group, Line, Lines
from pgbillion.report.charts import Series
from pgbillion.server.postgres import Cluster
from pgbillion.tables import create, estimate, figures, verify
from pgbillion.tables.run import find


@pytest.fixture
def cli(cluster: Cluster) -> Iterator[CommandLine]:
    with servers.new_database(cluster, "reports") as database, command_line(cluster, database) as cli:
        yield cli


def items(report: dict[str, list[dict[str, object]]]) -> dict[str, dict[str, object]]:
    return {str(item["name"]): item for item in report["items"]}


@pytest.mark.parametrize("method", ["bulk", "sql"])
def test_estimate_is_what_it_takes_and_leaves_nothing(cli: CommandLine, method: str) -> None:
    for columns, files in zip(MODELS, (1, 5, 4), strict=True):
        options = ("--count", "1000", "--jobs", "2", "--method", method, "--columns", columns)
        report = cli.json("tables", "estimate", *options)
        assert report["fits"]
        assert report["local"]
        assert report["per_table"]["files"] == files
        assert items(report)["files (inodes)"]["need"] == 1000 * files
        assert items(report)["transaction ids"]["need"] == (2 if method == "bulk" else 1000)
        assert items(report)["write-ahead log"]["need"] > 1000 * 1000  # type: ignore[operator]
        assert set(items(report)) == {
            "disk", "files (inodes)", "OIDs", "transaction ids", "locks", "memory", "write-ahead log", "time",
        }  # fmt: skip
        with cli.connect() as conn:
            assert names(conn) == []


def test_estimate_of_disk_comes_true(cli: CommandLine) -> None:
    plan = ("--count", "4000", "--jobs", "2")
    per_table = cli.json("tables", "estimate", *plan)["per_table"]
    assert (per_table["catalog_rows"], per_table["index_entries"]) == (13, 27)
    with cli.connect() as conn:
        before = sum(size for _, size in conn.execute(sql.load("tables", "catalog_sizes").encode()))
    cli.run("tables", "create", *plan, check=True)
    with cli.connect() as conn:
        after = sum(size for _, size in conn.execute(sql.load("tables", "catalog_sizes").encode()))
    # free space in the catalogues' last pages may go either way
    assert 0.8 < (after - before) / (per_table["catalog_bytes"] * 4000) < 1.25


def test_limits(cli: CommandLine) -> None:
    report = cli.json(
        "tables", "estimate", "--type", "BTP", "--jobs", "16", "--tablespaces", "1000", "--tablespace-dir", "/"
    )
    limits = {limit["tables"]: limit["reason"] for limit in report["limits"]}
    assert "the OID counter goes round" in limits[1_431_650_304]
    assert "pg_type has 2 rows per table" in limits[2_147_475_456]
    people = cli.run("tables", "estimate", "--count", "10", check=True).stdout
    assert "1,431,650,304: the OID counter" in people


def test_what_cannot_fit_is_refused_and_forced(cli: CommandLine) -> None:
    with cli.connect() as conn:
        conn.execute("CREATE TABLE wide AS SELECT 1")
    report = cli.json("tables", "estimate", "--count", "2000000000", "--jobs", "2")
    assert not report["fits"]
    assert items(report)["disk"]["fits"] is False
    failed(cli.run("tables", "create", "--count", "2000000000", "--jobs", "2"), 1, "this cannot fit: disk", "--force")
    with cli.connect() as conn:
        assert names(conn) == ["wide"]


def test_estimate_for_a_server_elsewhere_says_what_is_unknown(cli: CommandLine) -> None:
    with cli.connect() as conn:
        assert Host.of(conn) is not None
        plan = create.make_plan(conn, create.Request(1000, 2))
        report = estimate.estimate(conn, plan, None).to_json()
    assert report["fits"]
    for name in ("disk", "files (inodes)", "memory"):
        assert items(report)[name]["fits"] is None
        assert "not on this machine" in str(items(report)[name]["note"])


def test_verify_finds_all_in_order_and_leaves_it_as_found(cli: CommandLine) -> None:
    run = cli.json("tables", "create", "--count", "300", "--jobs", "2", "--columns", MODELS[1])["run"]
    with cli.connect() as conn:
        conn.execute("DROP EXTENSION amcheck")
    report = cli.json("tables", "verify", run, "--orphans", "--amcheck", "full", "--seed", "7")
    assert report["ok"]
    checks = {check["name"]: check for check in report["checks"]}
    assert [check["result"] for check in report["checks"]] == ["ok"] * 9
    assert all(check["seconds"] >= 0 for check in report["checks"])
    assert checks["names without a gap"]["details"] == {"expected": 300, "present": 300}
    assert checks["count(*) of pg_class"]["details"]["rows"] > 300
    assert checks["\\dt"]["details"]["tables"] == 300
    assert len(checks["INSERT and SELECT"]["details"]["tables"]) == 10
    assert set(checks["statistics of shared catalogs"]["details"]) == {"pg_tablespace", "pg_database", "pg_shdepend"}
    with cli.connect() as conn:
        assert servers.one(conn, "SELECT count(*) FROM pg_extension WHERE extname = 'amcheck'") == 0
        for table in checks["INSERT and SELECT"]["details"]["tables"]:
            assert servers.one(conn, f"SELECT count(*) FROM {table}") == 0
            sequence = servers.one(conn, "SELECT pg_get_serial_sequence(%s, 'id')", table)
            assert servers.one(conn, f"SELECT is_called FROM {sequence}") is False
        conn.execute("CREATE EXTENSION amcheck")
    # once more by whoever wants the same tables
    again = cli.json("tables", "verify", run, "--seed", "7", "--amcheck", "off")
    assert [check["details"]["tables"] for check in again["checks"] if check["name"] == "INSERT and SELECT"] == [
        checks["INSERT and SELECT"]["details"]["tables"]
    ]


def test_verify_finds_gaps_and_orphans(cli: CommandLine) -> None:
    run = cli.json("tables", "create", "--count", "50", "--jobs", "2")["run"]
    with cli.connect() as conn:
        conn.execute("DROP TABLE _00000011")
        folder = (
            cli.cluster.data
            / "base"
            / str(servers.one(conn, "SELECT oid FROM pg_database WHERE datname = current_database()"))
        )
        lost = cli.cluster.data / str(servers.one(conn, "SELECT pg_relation_filepath('_00000012')"))
    # the gap comes first; tables of the gap cannot be tried
    done = cli.run("tables", "verify", run)
    assert done.returncode == 1
    assert re.search(r"failed .* names without a gap: .*49 of 50 tables", done.stdout)
    (folder / "999999999").touch()
    with cli.connect() as conn:
        # rows that were tried in this table are not to be written to its file any more
        conn.execute("CHECKPOINT")
    lost.unlink()
    done = cli.run("tables", "verify", "--orphans", "--amcheck", "off", "--tables", "1", "--json")
    assert done.returncode == 1
    (found,) = [check["details"] for check in json.loads(done.stdout)["checks"] if check["name"] == "orphan files"]
    assert (found["orphans"], found["missing"]) == (1, 1), found
    assert found["orphan_files"][0].endswith("/999999999")
    assert found["missing_files"][0].startswith("public._00000012 ")
    (folder / "999999999").unlink()
    with cli.connect() as conn:
        conn.execute("DROP TABLE _00000012")


def test_a_check_that_takes_long_shows_that_it_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify, "_SAY_SECONDS", 0.01)
    said: list[str] = []
    with verify._saying("a check", said.append):
        servers.until(lambda: len(said) > 1, "two lines")
    assert re.fullmatch(r"a check: [\d.]+ m?s so far", said[0])


def test_verify_finds_a_tablespace_without_a_folder(cli: CommandLine) -> None:
    with cli.connect() as conn:
        conn.execute("SET allow_in_place_tablespaces = on")
        conn.execute("CREATE TABLESPACE vanished LOCATION ''")
        oid = servers.one(conn, "SELECT oid FROM pg_tablespace WHERE spcname = 'vanished'")
    shutil.rmtree(cli.cluster.data / "pg_tblspc" / str(oid))
    try:
        done = cli.run("tables", "verify", "--amcheck", "off", "--tables", "1", "--json")
    finally:
        with cli.connect() as conn:
            conn.execute("DROP TABLESPACE vanished")
    assert done.returncode == 1, done.stderr
    (sizes,) = [check for check in json.loads(done.stdout)["checks"] if check["name"] == "sizes on disk"]
    assert sizes["result"] == "failed"
    assert "without a directory: vanished" in sizes["summary"]


def test_list_of_tables_that_takes_too_long(cli: CommandLine) -> None:
    cli.run("tables", "create", "--count", "2000", "--jobs", "2", check=True)
    report = cli.json("tables", "verify", "--dt-limit", "0", "--amcheck", "off", "--tables", "3")
    (listed,) = [check for check in report["checks"] if check["name"] == "\\dt"]
    assert listed["result"] == "ok"
    assert listed["details"]["returned"] is False
    assert "was canceled" in listed["summary"]


def test_report_stands_alone(cli: CommandLine) -> None:
    run = cli.json("tables", "create", "--count", "3000", "--jobs", "2", "--method", "sql", "--sample-interval", "0.2")[
        "run"
    ]
    cli.run("tables", "verify", run, "--amcheck", "off", check=True)
    path = Path(cli.run("tables", "report", server=False, check=True).stdout.strip())
    assert path == Path(run) / "report.html"
    written = path.read_text()
    # each is drawn for broad and for narrow screens
    assert written.count("<svg ") == 12
    assert written.count("<figure") == 6
    assert "<h1>3,000 tables</h1>" in written
    assert "prefers-color-scheme: dark" in written
    assert "names without a gap" in written
    # nothing is fetched from anywhere
    assert not re.findall(r'(?:src|href)="(?!#)', written)
    assert "@import" not in written
    assert not [
        color
        for color in re.findall(r"#[0-9a-f]{6}\b", written)
        if color.startswith(("#0101", "#0202", "#0303", "#0400"))
    ]
    ids = re.findall(r'id="([^"]+)"', written)
    assert len(ids) == len(set(ids))
    found = cli.json("tables", "report", run, server=False)["figures"]
    assert found["created"] == 3000
    assert found["rate"] > 0
    assert found["outcome"] == "done"
    assert len(found["worker_rates"]) == 2
    assert found["peak_backend_memory"] < 256 * 1024 * 1024
    other = cli.state / "elsewhere.html"
    cli.run("tables", "report", run, "--output", str(other), server=False, check=True)
    assert other.stat().st_size > 10_000


def test_names_are_text_in_a_report(cli: CommandLine) -> None:
    """Whoever may name a schema or a table must not reach the browser of whoever reads the report."""
    evil = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>"
    with cli.connect() as conn:
        conn.execute(Composed([SQL("CREATE SCHEMA "), Identifier(evil)]))
    run = cli.json(
        "tables", "create", "--count", "20", "--jobs", "1", "--schema", evil, "--name-format", "<marquee>%d"
    )["run"]
    cli.run("tables", "verify", run, "--amcheck", "off", check=True)
    cli.run("tables", "report", run, server=False, check=True)
    page = (Path(run) / "report.html").read_text()
    assert "&lt;script&gt;alert(1)" in page
    assert not re.search(r"<script|<img|<marquee", page)


def test_report_of_many_workers_and_two_attempts(cli: CommandLine) -> None:
    folder = cli.state / "run"
    cli.run("tables", "create", "--count", "400", "--jobs", "10", "--run-dir", str(folder), check=True)
    cli.run("tables", "create", "--resume", str(folder), check=True)
    cli.run("tables", "report", str(folder), server=False, check=True)
    page = (folder / "report.html").read_text()
    assert "slowest to fastest worker" in page
    assert "Attempts" in page
    assert len(json.loads((folder / "journal.json").read_text())["attempts"]) == 2
    with cli.connect() as conn:
        assert count(conn) == 400


def test_a_page_of_a_demo(tmp_path: Path) -> None:
    plain = Chapter("Second", "Only <text>.", name="second")
    full = Chapter(
        "First",
        "With all.",
        figures=[Figure("count", 0.2, 0.1), Figure("make", 0.01, 0.002, "tables")],
        chart=Bars("Rates", [Group("", [Bar("core", 10.0, "10/s"), Bar("ours", 5.0, "5/s")])]),
        columns=["what", "rate"],
        rows=[["core", "11 M/s"]],
        remark="A remark.",
        details=[Details("The plan", output="Seq Scan <here>"), Details("Found", columns=["a"], rows=[["ok"]])],
        name="first",
    )
    server: dict[str, object] = {
        "version": "18",
        "hardware": None,
        "version_text": "PostgreSQL 18",
        "versions": {},
        "settings": {},
    }
    path = tmp_path / "demo.html"
    demo.write(demo.Demo(61.0, [full, plain], [], server, [("look", "pgbillion <look>")], 0.7), path)
    written = path.read_text()
    assert "1 min 1 s" in written
    assert written.index("<h2>First</h2>") < written.index("<h2>Second</h2>") < written.index("<h2>What next</h2>")
    assert '<td class="number">200 ms</td><td class="number">100 ms</td>' in written
    assert (
        '<td class="number">100/s</td><td class="number">500/s</td><td class="number"><strong>5.0</strong>' in written
    )
    assert re.findall(r"width:([\d.]+)%", written) == ["100.00", "50.00"]
    assert '<td class="number">11 M/s</td>' in written
    assert "Only &lt;text&gt;." in written
    assert re.search(r"<details><summary>The plan</summary>\s*<div[^>]*><pre>Seq Scan &lt;here&gt;</pre>", written)
    assert '<td class="ok">ok</td>' in written
    assert "<code>pgbillion &lt;look&gt;</code>" in written
    assert "With durability on" not in written
    assert "busy" not in written
    server["hardware"] = {"cores": 1, "cpu": "x", "memory_bytes": 1, "system": "y"}
    server["filesystem"] = None
    demo.write(demo.Demo(61.0, [], [], server, [], 0.7), path)
    assert "kept this machine busy</strong> (load average 0.7" in path.read_text()


def test_the_latest_run_is_the_one_begun_last(tmp_path: Path) -> None:
    for begun, name in ((2, "a run of its own name"), (3, "20261121-184230-f734"), (1, "demo")):
        plan = tmp_path / "runs" / name / "plan.json"
        plan.parent.mkdir(parents=True)
        plan.touch()
        os.utime(plan, (begun, begun))
    assert find(tmp_path, None).name == "20261121-184230-f734"


def test_no_rate_is_of_a_moment() -> None:
    """The last record of an attempt does not wait for its turn."""
    at = [(1, 0.0), (1, 1.0), (1, 2.0), (1, 2.2), (2, 0.0), (2, 0.3), (3, 0.0), (3, 1.0), (3, 1.9)]
    samples = [{"attempt": attempt, "elapsed": elapsed} for attempt, elapsed in at]
    kept = [(sample["attempt"], sample["elapsed"]) for sample in figures.without_moments(samples)]
    assert kept == [(1, 0.0), (1, 1.0), (1, 2.2), (2, 0.0), (2, 0.3), (3, 0.0), (3, 1.0), (3, 1.9)]


def test_a_chart_of_nothing_but_zeros() -> None:
    assert "<svg" in charts.line_chart([Series("core", [1, 2], [0, 0])], "Rows", name="zeros", over="processes")


def _luminance(color: str) -> float:
    parts = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_colors_can_be_told_from_their_background() -> None:
    """WCAG's contrast: 3 for what is drawn, 4.5 for what is read, in the light and in the dark."""
    style = resources.files("pgbillion.report").joinpath("style.css").read_text(encoding="utf-8")
    themes = [
        dict(re.findall(r"--([\w-]+): (#\w{6});", rules)) for rules in re.findall(r":root \{(.*?)\}", style, re.S)
    ]
    assert len(themes) == 2
    for theme in themes:
        drawn = [name for name in theme if name.startswith("series-")]
        assert len(drawn) == charts.MAX_LINES
        read = ("ink", "muted", "good", "bad", "warn")
        for name, least in {**dict.fromkeys(drawn, 3.0), **dict.fromkeys(read, 4.5)}.items():
            for background in ("paper", "card"):
                light, dark = sorted((_luminance(theme[name]), _luminance(theme[background])), reverse=True)
                assert (light + 0.05) / (dark + 0.05) >= least, f"{name} {theme[name]} on {background}"


def test_few_points_are_bars_and_more_have_a_chart_for_narrow_screens() -> None:
    """A line through two points shows a trend that nobody has measured; a telephone scales text down with the chart."""

    def chart(points: int) -> str:
        x = [float(number) for number in range(1, points + 1)]
        rates: list[float | None] = [5e6, *(9.5e9 for _ in x[1:])]
        return page.chart(Lines("Rows per second", "processes", [Line("core", x, rates)]), "rows")

    bars = chart(2)
    assert "<svg" not in bars
    assert re.findall(r"<h4>(.*?)</h4>", bars) == ["1 process", "2 processes"]
    assert re.findall(r"<b>(.*?)</b>", bars) == ["5 M/s", "9.5 bn/s"]
    svg = chart(5)
    assert len(re.findall(r'<div class="(?:broad|narrow)"><svg', svg)) == 2
    assert "10 bn" in svg
    ids = re.findall(r' id="([^"]+)"', svg)
    assert len(set(ids)) == len(ids)


def test_no_chart_is_wider_than_its_page() -> None:
    style = resources.files("pgbillion.report").joinpath("style.css").read_text(encoding="utf-8")
    # a minimal width is what cuts it
    assert re.findall(r"min-width: ([^;}]+)", style) == ["0", "2px"]

"""`pgbillion ladder`: tables are created in steps on a file system of their own, whatever interrupts it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from harness import servers
from harness.amount import some
from harness.command_line import expected, failed
from harness.disk import fill
from harness.ladders import Climber, climber, need_filesystem
from harness.root import as_root
from pgbillion.common.errors import UserError
from pgbillion.ladder import climb, disk, needs, record, server
from pgbillion.ladder.disk import Disk, Kind
from pgbillion.ladder.record import Ladder, Place
from pgbillion.server.postgres import Installation
from pgbillion.tables.plan import Storage

PLOT = Path(__file__).parents[2] / "bench" / "plot.py"
KINDS = list(Kind)
# what make test installs the programs for
MARKED = [pytest.param(kind, marks=pytest.mark.machine) if kind is not Kind.EXT4 else kind for kind in KINDS]


@pytest.fixture
def one(installation: Installation) -> Iterator[Climber]:
    with climber(installation) as found:
        yield found


def options(kind: Kind | None, one: Climber) -> tuple[str, ...]:
    if kind is not None:
        need_filesystem(kind)
        return ("--filesystem", kind.value)
    folder = one.state / "prepared"
    folder.mkdir()
    folder.chmod(0o755)
    return ("--directory", str(folder))


# ---- up, and down again ----


def test_files_in_tablespaces(one: Climber) -> None:
    """Each has its share of the tables' files, and all of them go with the ladder."""
    where = ("--storage", "heap", "--tablespaces", "3", *options(None, one))
    found = one.json("run", "--to", "300", "--jobs", "2", *where)
    results = {check["name"]: check["result"] for check in found["checks"]}
    assert results["names without a gap"] == results["orphan files"] == "ok"
    one.run("start")
    with one.connect() as conn:
        query = (
            "SELECT t.spcname, count(*) FROM pg_class c JOIN pg_tablespace t ON t.oid = c.reltablespace"
            " WHERE c.relname ~ '^_[0-9a-f]{8}$' GROUP BY 1 ORDER BY 1"
        )
        shares: dict[str, int] = dict(conn.execute(query).fetchall())
    assert sorted(shares) == ["_000", "_001", "_002"]
    assert sum(shares.values()) == 300
    assert min(shares.values()) > 90
    files = one.json("operations", "walk")["operations"]
    assert [result["result"] for result in files if result["details"]["files"] > 300] == ["ok"]
    assert "was begun without this --tablespaces" in one.run("run", "--tablespaces", "4", status=1).stderr
    one.run("destroy", "--yes")
    assert list((one.state / "prepared").iterdir()) == []


@pytest.mark.majors
@pytest.mark.parametrize("kind", some([*MARKED, None]), ids=str)
def test_rungs_are_created_measured_and_verified(one: Climber, kind: Kind | None, tmp_path: Path) -> None:
    where = options(kind, one)
    found = one.json("run", "--to", "2k", *where, "--jobs", "2", "--sample-interval", "0.5")
    assert [rung["tables"] for rung in found["rungs"]] == [20, 50, 100, 200, 500, 1000, 2000]
    assert sum(rung["made"] for rung in found["rungs"]) == 2000
    for rung in found["rungs"]:
        assert rung["rate"] > 0
        assert rung["first_page_seconds"] > 0
        assert rung["lookup_seconds"] > 0
        assert rung["catalogs"] > 2000 * rung["made"] * 0.5
        # a backend that makes a few tables may be gone before it is looked at
        assert rung["peak_backend_memory"] is None or rung["peak_backend_memory"] > 10**6
    results = {check["name"]: check["result"] for check in found["checks"]}
    assert set(results.values()) <= {"ok", "skipped"}
    assert results["names without a gap"] == results["orphan files"] == "ok"
    one.nothing_left()

    status = one.json("status")
    assert (status["running"], status["mounted"], len(status["rungs"])) == (False, False, 7)
    html = Path(found["report"]).read_text()
    assert "<h1>2,000 tables</h1>" in html
    assert html.count('<td class="number">') > 40
    assert "Tables per second" in html
    assert "http://" not in html.replace("http://www.w3.org/", "")

    # looked at, and taken away
    started = one.run("start").stdout
    assert one.names() == expected(0, 2000)
    assert one.json("status")["conninfo"] in started
    if kind is not None:
        assert one.json("status")["mounted"]
    # it is the user's: another run does not stop it
    one.run("run")
    assert one.ladder.cluster.running()
    one.run("stop")
    one.nothing_left()

    page = tmp_path / "page.html"
    one.run("report", "--output", str(page))
    assert "<h1>2,000 tables</h1>" in page.read_text()
    for folder, title in ((one.state, "2,000 tables in "), (one.ladder.folder(2000), "1,000 tables in ")):
        drawing = tmp_path / "drawing.svg"
        subprocess.run([sys.executable, PLOT, folder, drawing], check=True)
        assert title in drawing.read_text()
    done = one.run("destroy", "--yes").stdout
    assert not (one.state / "ladder").exists()
    kept = Path(re.findall(r"report: (.*)", done)[0])
    assert kept.read_bytes() == page.read_bytes() or "<h1>2,000 tables</h1>" in kept.read_text()
    if kind is None:
        assert list((one.state / "prepared").iterdir()) == []


@pytest.mark.machine
def test_catalogs_are_compressed(one: Climber) -> None:
    """Where PostgreSQL allocated their space beforehand, btrfs would keep them as they are."""
    found = one.json("run", "--to", "30k", *options(Kind.BTRFS, one))
    top = found["rungs"][-1]
    assert top["catalogs"] / top["tables"] > 2000
    assert top["used"] < 0.3 * top["catalogs"]


def test_more_rungs_are_added_at_the_top(one: Climber) -> None:
    where = options(None, one)
    one.run("run", "--to", "100", *where)
    first = [path.stat().st_mtime_ns for path in sorted((one.state / "ladder" / "rungs").glob("*/rung.json"))]
    found = one.json("run", "--to", "500", "--jobs", "1")
    assert [rung["tables"] for rung in found["rungs"]] == [1, 2, 5, 10, 20, 50, 100, 200, 500]
    again = [path.stat().st_mtime_ns for path in sorted((one.state / "ladder" / "rungs").glob("*/rung.json"))]
    assert again[: len(first)] == first
    one.run("start")
    assert one.names() == expected(0, 500)


def test_heap_tables_with_other_columns(one: Climber) -> None:
    where = options(None, one)
    columns = "id bigint primary key, data jsonb"
    found = one.json("run", "--type", "L", *where, "--storage", "heap", "--columns", columns, "--durable")
    assert [rung["tables"] for rung in found["rungs"]] == [1, 2, 20, 80, 200]
    one.run("start")
    with one.connect() as conn:
        assert servers.one(conn, "SELECT count(*) FROM pg_index WHERE indrelid = '_00000063'::regclass") == 1
        assert servers.one(conn, "SHOW fsync") == "on"
        assert servers.one(conn, "SHOW full_page_writes") == "on"


# ---- interrupted ----

MANY = "120k"
COUNT = 120_000


def complete(one: Climber) -> None:
    """Go on, and look at every name."""
    found = one.json("run")
    assert {check["result"] for check in found["checks"]} <= {"ok", "skipped"}
    one.nothing_left()
    one.run("start")
    assert one.names() == expected(0, COUNT)


@pytest.mark.parametrize(
    ("kind", "number"),
    some([(Kind.EXT4, signal.SIGINT), (Kind.EXT4, signal.SIGTERM), (None, signal.SIGINT), (None, signal.SIGHUP)]),
    ids=str,
)
def test_interrupted(one: Climber, kind: Kind | None, number: signal.Signals) -> None:
    where = options(kind, one)
    with one.started("run", "--to", MANY, *where, "--jobs", "2") as process:
        one.wait_for_tables()
        process.send_signal(number)
        _, said = process.communicate(timeout=120)
    failed(subprocess.CompletedProcess([], process.returncode, "", said), 130, "interrupted", "ladder run")
    one.nothing_left()
    complete(one)


@pytest.mark.parametrize("kind", [Kind.EXT4, None], ids=str)
def test_killed(one: Climber, kind: Kind | None) -> None:
    """The server goes on and the file system stays mounted; the next command takes both as they are."""
    where = options(kind, one)
    with one.started("run", "--to", MANY, *where, "--jobs", "2") as process:
        one.wait_for_tables()
        process.kill()
    assert one.ladder.cluster.running()
    assert (one.mounts() == []) == (kind is None)
    one.run("stop")
    one.nothing_left()
    complete(one)


@pytest.mark.machine
def test_killed_and_continued_or_destroyed_at_once(one: Climber) -> None:
    where = options(Kind.BTRFS, one)
    for end in (complete, lambda one: None):
        with one.started("run", "--to", MANY, *where, "--jobs", "2") as process:
            one.wait_for_tables()
            process.kill()
        end(one)
        one.run("destroy", "--yes")
        one.nothing_left()


def test_killed_while_the_estimate_is_made(one: Climber) -> None:
    """What was asked for then is forgotten, and what was made is removed."""
    where = options(None, one)
    scratch = one.state / "ladder" / "scratch" / "data" / "postmaster.pid"
    with one.started("run", "--to", "100", *where) as process:
        servers.until(scratch.exists, "the small server")
        process.kill()
    found = one.json("run", "--to", "50", *where)
    assert found["rungs"][-1]["tables"] == 50
    assert not scratch.parents[1].exists()


def test_server_killed(one: Climber) -> None:
    where = options(None, one)
    with one.started("run", "--to", MANY, *where, "--jobs", "2") as process:
        one.wait_for_tables()
        one.ladder.cluster.kill()
        _, said = process.communicate(timeout=120)
    failed(subprocess.CompletedProcess([], process.returncode, "", said), 2, "", "ladder run")
    one.nothing_left()
    complete(one)


def machine_fails(one: Climber) -> None:
    """Have the server end as it does with the machine, which is another one afterwards."""
    one.run("start")
    one.ladder.cluster.kill()
    path = one.state / "ladder" / "ladder.json"
    values = json.loads(path.read_text())
    values["boot"] = "before"
    path.write_text(json.dumps(values))


def test_the_machine_fails(one: Climber) -> None:
    where = options(None, one)
    one.run("run", "--to", "100", *where)
    # stopped in good order, nothing is lost
    path = one.state / "ladder" / "ladder.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "boot": "before"}))
    one.run("run")
    machine_fails(one)
    for command in ("run", "start", "operations"):
        failed(one.run(command, status=1), 1, "cannot be trusted", "ladder destroy")
    one.run("destroy", "--yes")


def test_the_machine_fails_and_the_server_is_durable(one: Climber) -> None:
    where = options(None, one)
    one.run("run", "--to", "100", *where, "--durable")
    machine_fails(one)
    one.run("run")


def test_two_at_once(one: Climber) -> None:
    where = options(None, one)
    with one.started("run", "--to", MANY, *where) as process:
        one.wait_for_tables()
        for command in (("run",), ("operations",), ("start",), ("stop",), ("destroy", "--yes")):
            failed(one.run(*command, status=1), 1, "another command is at work on the ladder")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=120)


# ---- the file system ----


def test_something_else_is_mounted_in_its_place(one: Climber) -> None:
    where = options(Kind.EXT4, one)
    one.run("run", "--to", "20", *where)
    place = one.state / "ladder" / "disk"
    place.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", place], check=True)
    try:
        for command in (("run",), ("start",), ("stop",), ("destroy", "--yes")):
            failed(one.run(*command, status=1), 1, "is mounted on", f"umount {place}")
        assert one.mounts() == [str(place)]
    finally:
        subprocess.run(["umount", place], check=True)
    one.run("run")


def test_somebody_uses_the_file_system(one: Climber, monkeypatch: pytest.MonkeyPatch) -> None:
    where = options(Kind.EXT4, one)
    one.run("run", "--to", "20", *where)
    one.run("start")
    with (one.state / "ladder" / "disk" / "used").open("w"):
        monkeypatch.setattr(disk, "_BUSY_SECONDS", 0.1)
        with pytest.raises(UserError, match="cannot be unmounted") as raised:
            server.stop(one.ladder)
        assert "fuser" in str(raised.value.hint)
    one.run("stop")
    one.nothing_left()


@pytest.mark.parametrize("kind", some(MARKED))
def test_a_disk_that_is_full_can_be_made_larger(one: Climber, kind: Kind) -> None:
    where = options(kind, one)
    one.run("run", "--to", "1000", *where, "--size", "1G")
    one.run("start")
    filler = fill(one.state / "ladder" / "disk")
    refused = one.run("run", "--to", "100k", status=1)
    failed(refused, 1, "will not fit", "--size")
    one.run("stop")
    size = re.findall(r"--size (\d+G)", refused.stderr)[0]
    before = (one.state / "ladder" / "disk.img").stat().st_size
    found = one.json("run", "--size", size)
    assert found["rungs"][-1]["tables"] == 100_000
    assert (one.state / "ladder" / "disk.img").stat().st_size > before
    assert (one.state / "ladder" / "disk.img").stat().st_blocks * 512 > 0.99 * (one.ladder.place.size or 2**60)
    one.run("start")
    assert filler.exists()


def test_the_disk_fills_up_on_the_way(one: Climber) -> None:
    where = options(Kind.EXT4, one)
    one.run("run", "--to", "100", *where, "--size", "1G", "--storage", "heap")
    one.run("start")
    folder = one.state / "ladder" / "disk"
    with one.started("run", "--to", "300k", "--jobs", "2") as process:
        servers.until(lambda: len(one.names()) > 1000, "tables")
        filler = fill(folder)
        _, said = process.communicate(timeout=120)
    failed(subprocess.CompletedProcess([], process.returncode, "", said), process.returncode, "", "")
    assert process.returncode in (1, 2, 3), said
    filler.unlink()
    one.run("stop")
    one.nothing_left()
    # it goes on as far as there is room
    one.run("start")
    assert len(one.names()) >= 1000


def plain(kind: Kind, folder: Path) -> Disk:
    return Disk(kind, folder / "disk.img", folder / "disk")


def test_only_root_can_mount(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    for kind in KINDS:
        with pytest.raises(UserError, match="only root") as raised:
            plain(kind, tmp_path).make(disk.SMALLEST, None)
        assert "--directory" in str(raised.value.hint)
    assert list(tmp_path.iterdir()) == []


def test_a_program_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(disk, "_find", lambda program: None if program.startswith("mkfs") else "/bin/true")
    for kind, package in ((Kind.BTRFS, "btrfs-progs"), (Kind.XFS, "xfsprogs"), (Kind.EXT4, "e2fsprogs")):
        with pytest.raises(UserError, match=f"no program mkfs.{kind.partition('-')[0]}") as raised:
            plain(kind, tmp_path).make(disk.SMALLEST, None)
        assert package in str(raised.value.hint)
    assert list(tmp_path.iterdir()) == []


@as_root("a file system is made")
def test_a_file_system_that_cannot_be_made_or_mounted_leaves_nothing(
    one: Climber, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    need_filesystem(Kind.EXT4)
    made = plain(Kind.EXT4, tmp_path)
    with pytest.raises(UserError, match="mkfs\\.ext4 failed"):
        made.make(8192, None)
    with pytest.raises(UserError, match="cannot be reserved"):
        made.make(2**50, None)
    assert list(tmp_path.iterdir()) == []
    made.make(64 * 1024**2, None)
    monkeypatch.setattr(Kind, "options", property(lambda kind: "no_such_option"))
    with pytest.raises(UserError, match="cannot be mounted") as raised:
        made.attach()
    assert "--directory" in str(raised.value.hint)
    assert made._devices() == []
    assert not made.mounted()


def test_what_cannot_fit_is_refused_before_anything_is_made(one: Climber) -> None:
    where = options(None, one)
    done = one.run("run", "--to", "2B", *where, status=1)
    failed(done, 1, "this cannot fit: disk", "--to")
    assert "4,294," in done.stderr
    assert not (one.state / "ladder").exists()
    assert list((one.state / "prepared").iterdir()) == []
    shown = one.run("run", "--to", "1M", *where, "--dry-run").stdout
    assert "1,000,000 tables (i integer), storage lazy" in shown
    assert not (one.state / "ladder").exists()


@pytest.mark.machine
def test_a_size_that_is_too_small(one: Climber) -> None:
    where = options(Kind.BTRFS, one)
    failed(one.run("run", "--to", "100M", *where, "--size", "2G", status=1), 1, "this cannot fit: disk")
    assert not (one.state / "ladder").exists()


# ---- arguments ----


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("--to", "0"), "--to must be at least 1"),
        (("--to", "many"), "is not a number of tables"),
        (("--type", "XXL"), 'there is no database type "XXL"'),
        (("--to", "10", "--type", "S"), "--to and --type"),
        (("--filesystem", "ext4", "--directory", "/tmp"), "--filesystem and --directory"),
        (("--size", "10G"), "--size is that of a file system"),
        (("--size", "10X", "--filesystem", "ext4"), "is no size"),
        (("--size", "10M", "--filesystem", "ext4"), "--size must be"),
        (("--directory", "/nonexistent"), "there is no directory /nonexistent"),
        (("--jobs", "0"), "--jobs"),
    ],
)
def test_arguments(one: Climber, arguments: tuple[str, ...], error: str) -> None:
    done = subprocess.run(one.argv("run", *arguments), env=one.env(), capture_output=True, text=True)
    failed(done, 1, error)
    assert not (one.state / "ladder").exists()


def test_columns_that_are_no_columns(one: Climber) -> None:
    done = one.run("run", "--to", "10", *options(None, one), "--columns", "i integre", status=3)
    assert 'error: type "integre" does not exist' in done.stderr
    assert not (one.state / "ladder").exists()


def test_what_was_begun_is_not_changed(one: Climber) -> None:
    where = options(None, one)
    one.run("run", "--to", "20", *where)
    for given in (
        ("--columns", "x text"), ("--storage", "heap"), ("--durable",), ("--type", "S"), ("--directory", "/tmp"),
        ("--filesystem", "ext4"),
    ):  # fmt: skip
        failed(one.run("run", *given, status=1), 1, f"without this {given[0]}", "ladder destroy")
    failed(one.run("run", "--to", "10", status=1), 1, "goes to 20 tables already")
    # what it has is no change
    one.run("run", "--to", "20", *where, "--columns", "i integer", "--storage", "lazy")


def test_there_is_no_ladder(one: Climber) -> None:
    for command in (("status",), ("start",), ("stop",), ("operations",), ("report",), ("destroy", "--yes")):
        failed(one.run(*command, status=1), 1, "there is no ladder", "ladder run")
    assert not (one.state / "ladder").exists()
    where = options(None, one)
    one.run("run", "--to", "20", *where)
    failed(one.run("destroy", status=1), 1, "without being told to", "--yes")


@pytest.mark.machine
def test_room_for_inodes(one: Climber) -> None:
    """Empty files take no blocks, and still fill a file system."""

    def wanted(kind: Kind, storage: str) -> float:
        arguments = ("--to", "5M", *options(kind, one), "--storage", storage, "--dry-run")
        found = re.search(r"disk: ([0-9.]+) GB", one.run("run", *arguments).stdout)
        assert found is not None
        return float(found[1])

    for kind, bytes_of_a_file in ((Kind.XFS, 400), (Kind.BTRFS, 800)):
        assert wanted(kind, "heap") - wanted(kind, "lazy") > 5e6 * bytes_of_a_file / 1e9


# ---- by itself ----


def test_series() -> None:
    assert climb.series(100_000_000) == [10**6, 2 * 10**6, 5 * 10**6, 10**7, 2 * 10**7, 5 * 10**7, 10**8]
    assert climb.series(1) == [1]
    assert climb.series(7) == [1, 2, 5, 7]
    assert climb.series(300) == [5, 10, 20, 50, 100, 200, 300]
    assert climb.types("mmt")[-1] == 1_000_000


def test_flatness() -> None:
    """The last tenth of ten takes twice the time of the first."""
    steady: list[tuple[float, float]] = [(0.0, 0.0), (1.0, 1.0), (9.0, 9.0), (11.0, 10.0)]
    assert climb.flatness(steady) == pytest.approx(0.5)
    # time in which nothing was made does not count between the tenths
    assert climb.flatness([(0.0, 0.0), (5.0, 5.0), (9.0, 5.0), (14.0, 10.0)]) == pytest.approx(1.0)
    assert climb.flatness([(0.0, 0.0)]) is None


@pytest.fixture
def made(tmp_path: Path) -> Ladder:
    return Ladder(tmp_path, Place(Kind.XFS, size=2 * 1024**3), [10, 100], storage=Storage.HEAP, workers=3)


def test_a_record_is_read_as_it_was_written(made: Ladder, installation: Installation) -> None:
    state = made.home
    made = replace(made, home=record.home(state), installation=installation, begun=True, boot="x")
    made.home.mkdir()
    made.save()
    assert record.find(state) == made
    (made.home / "ladder.json").write_text("{")
    with pytest.raises(UserError, match="cannot be read"):
        record.find(state)


def test_room_for_the_next_rung(made: Ladder, monkeypatch: pytest.MonkeyPatch) -> None:
    made.home.joinpath("disk").mkdir()
    needs.room(made, 10, 100, 1.0)
    with pytest.raises(UserError, match="100 tables will not fit") as raised:
        needs.room(made, 10, 100, 1e15)
    assert "--size" in str(raised.value.hint)


@pytest.mark.parametrize(("major", "known", "refused"), [(15, False, False), (16, False, True), (18, True, False)])
def test_a_server_that_allocates_space_beforehand(
    installation: Installation,
    monkeypatch: pytest.MonkeyPatch,
    major: int,
    known: bool,
    refused: bool,
) -> None:
    said = "file_extend_method\tsighup\n" if known else "fsync\tsighup\n"
    answer: Callable[..., subprocess.CompletedProcess[str]] = lambda *given, **more: subprocess.CompletedProcess(  # noqa: E731
        [], 0, said, ""
    )
    monkeypatch.setattr(server, "run_as_server", answer)
    one = replace(installation, version_num=major * 10000 + 5, version=f"{major}.5")
    server.check(one, compressed=False)
    if refused:
        with pytest.raises(UserError, match="file_extend_method"):
            server.check(one, compressed=True)
    else:
        server.check(one, compressed=True)

"""`pgbillion ladder operations`: each is measured or given up, and the tables are what they were."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator

import pytest

from harness import servers
from harness.command_line import expected, failed
from harness.ladders import Climber, climber
from pgbillion.ladder import climb, operations, server
from pgbillion.server import embedded
from pgbillion.server.postgres import Installation
from pgbillion.tables import display

pytestmark = pytest.mark.majors

TABLES = 3000


@pytest.fixture(scope="module")
def one(installation: Installation) -> Iterator[Climber]:
    with climber(installation) as found:
        folder = found.state / "prepared"
        folder.mkdir()
        found.run("run", "--to", str(TABLES), "--directory", str(folder))
        yield found


@contextlib.contextmanager
def at_work(one: Climber) -> Iterator[operations.Bench]:
    """What operations work with, on a server that runs meanwhile."""
    ladder = one.ladder
    with server.up(ladder, print) as target:
        yield operations.Bench(ladder, target, climb.whole(ladder), 60, lambda plan: display.display(plan, 10), print)


def measured(one: Climber, *words: str) -> dict[str, dict[str, object]]:
    return {result["name"]: result for result in one.json("operations", *words)["operations"]}


def unchanged(one: Climber) -> None:
    one.nothing_left()
    one.run("start")
    try:
        assert one.names() == expected(0, TABLES)
        with one.connect() as conn:
            assert servers.one(conn, "SELECT count(*) FROM pg_namespace WHERE nspname ~ '^pgbillion_ladder'") == 0
            assert servers.one(conn, "SELECT count(*) FROM pg_class WHERE relname ~ '^pgbillion_unsaved'") == 0
            assert servers.one(conn, "SHOW autovacuum") == "off"
    finally:
        one.run("stop")


def test_all_of_them(one: Climber) -> None:
    found = measured(one)
    assert set(found) == {operation.name for operation in operations.OPERATIONS}
    assert {(name, result["result"]) for name, result in found.items() if result["result"] != "ok"} == set()
    assert all(float(str(result["seconds"])) > 0 for result in found.values())
    assert found["count"]["summary"] != ""
    assert str(found["list"]["summary"]).startswith(f"{TABLES:,} tables listed")
    assert int(found["walk"]["details"]["files"]) > 500  # type: ignore[index]
    assert f"the last {TABLES // 10} tables" in str(found["drop"]["summary"])
    assert f"killed with {TABLES // 10} tables" in str(found["recovery"]["summary"])
    # lazy tables are refused
    assert found["upgrade"]["details"]["status"] == 1  # type: ignore[index]
    unchanged(one)
    html = (one.state / "ladder" / "report.html").read_text()
    assert "With all these tables" in html
    assert "pg_upgrade --check" in html
    # nothing is left to do
    again = one.run("operations")
    assert again.stdout.startswith("report: ")


def test_a_limit(one: Climber) -> None:
    """What takes longer is given up, and that is known then."""
    found = measured(one, "vacuum", "list", "--again", "--limit", "0.1")
    assert {found["vacuum"]["result"], found["list"]["result"]} <= {"ok", "gave up"}
    path = one.state / "ladder" / "operations.json"
    before = path.read_text()
    path.write_text(json.dumps({"operations": []}))
    done = one.run("operations", "count", "--limit", "0.1")
    assert "count(*) of pg_class" in done.stdout
    path.write_text(before)


def test_memory_and_time_of_a_program(one: Climber, monkeypatch: pytest.MonkeyPatch) -> None:
    """A psql that wants more memory than there is for it, or more time, ends alone."""
    with at_work(one) as bench:
        result = operations.Result("list", TABLES)
        psql = bench.cluster.installation.program("psql")
        large = "SELECT repeat('x', 1000) FROM generate_series(1, 200000)"
        monkeypatch.setattr(operations, "_MEMORY_SHARE", 100e6 / embedded.memory())
        with pytest.raises(operations._GaveUpError, match=r"memory.*of 100\.0 MB that it may have"):
            operations._program(bench, result, [psql, "-X", "-c", large])
        monkeypatch.undo()
        slow = operations.Bench(bench.ladder, bench.target, bench.plan, 0.3, bench.observe, bench.say)
        with pytest.raises(operations._GaveUpError, match="did not end within"):
            operations._program(slow, result, [psql, "-X", "-c", "SELECT pg_sleep(600)"])
        with bench.target.connect() as conn:
            query = "SELECT count(*) FROM pg_stat_activity WHERE query ~ 'pg_sleep' AND pid <> pg_backend_pid()"
            servers.until(lambda: servers.one(conn, query) == 0, "the statement to end")


def test_an_interrupted_drop_is_made_good(one: Climber) -> None:
    """Half of the last tables are dropped already, and the others created half: the next call completes both."""
    one.run("start")
    try:
        with one.connect() as conn:
            for number in range(TABLES - TABLES // 10, TABLES, 2):
                conn.execute(f"DROP TABLE _{number:08x}".encode())
    finally:
        one.run("stop")
    found = measured(one, "drop", "--again")
    assert found["drop"]["details"]["dropped"] == TABLES // 20  # type: ignore[index]
    assert found["recreate"]["details"]["created"] == TABLES // 10  # type: ignore[index]
    unchanged(one)


def test_arguments(one: Climber) -> None:
    failed(one.run("operations", "dance", status=1), 1, 'there is no operation "dance"', "operations: page, lookup")

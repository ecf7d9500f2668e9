"""`pgbillion rows load` into partitions: frozen rows, interruptions, what is refused."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from functools import partial

import psycopg
import pytest

from harness import servers
from harness.command_line import CommandLine, command_line, failed
from harness.servers import one, until
from pgbillion.common.errors import UserError
from pgbillion.common.host import Host
from pgbillion.rows import beside as rows_beside
from pgbillion.rows import partitions
from pgbillion.server.postgres import Cluster

pytestmark = pytest.mark.majors

ROWS = 320_000
PARTS = 3
LOAD = ("rows", "load", "--count", str(ROWS), "--groups", "7", "--partitions", str(PARTS), "--seed", "5")
LONG = ("rows", "load", "--count", "4M", "--partitions", "20", "--jobs", "2")
ATTACHED = "SELECT count(*) FROM pg_inherits WHERE inhparent = to_regclass('t_demo')"
SESSIONS = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'pgbillion' AND datname = current_database()"
PARTITIONS = "pg_class WHERE oid IN (SELECT inhrelid FROM pg_inherits WHERE inhparent = 't_demo'::regclass)"


@pytest.fixture
def cli(cluster: Cluster) -> Iterator[CommandLine]:
    with servers.new_database(cluster, "partitions") as database, command_line(cluster, database) as cli:
        yield cli


def test_the_partitions_have_the_rows_of_one_table(cli: CommandLine) -> None:
    values = cli.json(*LOAD, "--jobs", "2")
    assert (values["rows"], values["copied"], values["groups"], values["partitions"]) == (ROWS, ROWS, 7, PARTS)
    cli.run(*LOAD[:6], "--seed", "5", "--table", "plain", check=True)
    with cli.connect() as conn:
        assert one(conn, "SELECT count(*) FROM t_demo") == ROWS
        for pair in (("t_demo", "plain"), ("plain", "t_demo")):
            assert one(conn, "SELECT count(*) FROM (TABLE {} EXCEPT TABLE {}) x".format(*pair)) == 0
        assert conn.execute(
            "SELECT relname, pg_get_expr(relpartbound, oid) FROM pg_class WHERE relname ~ '^t_demo_\\d' ORDER BY 1"
        ).fetchall() == [
            ("t_demo_1", "FOR VALUES FROM (1) TO (100001)"),
            ("t_demo_2", "FOR VALUES FROM (100001) TO (200001)"),
            ("t_demo_3", "FOR VALUES FROM (200001) TO (MAXVALUE)"),
        ]
        assert one(conn, "SELECT count(*) FROM pg_constraint WHERE conname = 'part'") == 0
        assert one(conn, "SELECT count(DISTINCT starelid) FROM pg_statistic WHERE starelid > 16384") == PARTS + 2
        assert one(conn, "INSERT INTO t_demo DEFAULT VALUES RETURNING id") == ROWS + 1


def test_rows_are_frozen_and_can_be_encoded_at_once(cli: CommandLine) -> None:
    cli.run(*LOAD, check=True)
    with cli.connect() as conn:
        # all pages with rows; the sessions may have added some that they did not use
        used = one(conn, "SELECT count(DISTINCT (tableoid, (ctid::text::point)[0])) FROM t_demo")
        assert one(conn, f"SELECT sum(relallvisible) FROM {PARTITIONS}") == used
        # committed and frozen
        items = "generate_series(0, 9) AS p, heap_page_items(get_raw_page('t_demo_2', p))"
        assert one(conn, f"SELECT count(*) FROM {items} WHERE t_infomask & 768 <> 768") == 0
        assert one(conn, f"SELECT count(*) FROM {items}") == 10 * 185
        conn.execute("CREATE INDEX ON t_demo USING columns (grp, data)")
        encoded, readable = conn.execute(
            "SELECT sum(rows), sum(readable_blocks)"
            " FROM pg_partition_tree('t_demo'), pgbillion_rows.columns_status(relid) WHERE isleaf"
        ).fetchall()[0]
        assert (encoded, readable) == (ROWS, used)


def test_a_load_that_was_killed_goes_on(cli: CommandLine) -> None:
    with cli.connect() as conn:
        with cli.started(*LONG) as process:
            until(lambda: one(conn, ATTACHED) >= 3, "some partitions")
            process.send_signal(signal.SIGKILL)
        until(lambda: one(conn, SESSIONS) == 0, "the sessions to be gone")
        before: dict[int, int] = dict(conn.execute(f"SELECT oid, relfilenode FROM {PARTITIONS}").fetchall())
        assert 3 <= len(before) < 20
        seed = one(conn, "SELECT obj_description('t_demo'::regclass)")
        # what was not complete is not there at all
        assert one(conn, "SELECT count(*) FROM pg_class WHERE relname ~ '^t_demo_\\d'") == len(before)
        failed(cli.run(*LONG, "--groups", "11"), 1, "a load of 4,000,000 rows in 10 groups", "--replace")
        values = cli.json(*LONG)
        assert values["copied"] == 4_000_000 - 200_000 * len(before)
        after: dict[int, int] = dict(conn.execute(f"SELECT oid, relfilenode FROM {PARTITIONS}").fetchall())
        assert len(after) == 20
        assert before.items() <= after.items()
        assert one(conn, "SELECT obj_description('t_demo'::regclass)") == seed
        assert conn.execute("SELECT count(*), count(DISTINCT id), min(id), max(id) FROM t_demo").fetchall() == [
            (4_000_000, 4_000_000, 1, 4_000_000)
        ]
        # … and finds nothing left to do
        assert cli.json(*LONG)["copied"] == 0
        assert dict(conn.execute(f"SELECT oid, relfilenode FROM {PARTITIONS}").fetchall()) == after


def test_ctrl_c_says_how_to_go_on(cli: CommandLine) -> None:
    with cli.connect() as conn, cli.started(*LONG) as process:
        until(lambda: one(conn, ATTACHED) >= 1, "a partition")
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=60)
        assert process.returncode == 130, stderr
        assert "of t_demo left to load: run the same command to go on" in stderr
        until(lambda: one(conn, SESSIONS) == 0, "the sessions to be gone")
        there = one(conn, ATTACHED)
        assert one(conn, "SELECT count(*) FROM t_demo") == there * 200_000
        assert one(conn, "SELECT count(*) FROM pg_class WHERE relname ~ '^t_demo_\\d'") == there


def test_a_replacement_of_partitions_goes_on_beside_the_old_table(cli: CommandLine) -> None:
    """It is interrupted and killed, and goes on; the old table, of partitions itself, is there until it is complete."""
    old = ("rows", "load", "--count", "1M", "--partitions", "20", "--groups", "3")
    tables = "SELECT relname FROM pg_class WHERE relname ~ '^t_demo' AND relkind IN ('r', 'p', 'S') ORDER BY 1"
    beside = (
        "SELECT count(*) FROM pg_inherits JOIN pg_class ON oid = inhparent"
        " WHERE relname LIKE 't\\_demo\\_loading%' AND relkind = 'p'"
    )
    with cli.connect() as conn:
        cli.run(*old, check=True)
        before = conn.execute(tables).fetchall()
        with rows_beside.alone(conn, "public", "t_demo"):
            failed(cli.run(*LONG, "--replace"), 3, 'another load of the table "t_demo" is running', "wait for it")

        def further(ended: int) -> bool:
            return bool(one(conn, beside) > ended)

        ended = 0
        for number in (signal.SIGINT, signal.SIGKILL):
            with cli.started(*LONG, "--replace") as process:
                until(partial(further, ended), "a partition")
                process.send_signal(number)
                _, stderr = process.communicate(timeout=60)
            if number == signal.SIGINT:
                assert "run the same command to go on; the old table stays until then" in stderr
            until(lambda: one(conn, SESSIONS) == 0, "the sessions to be gone")
            ended = one(conn, beside)
            assert one(conn, "SELECT count(DISTINCT grp) || ' ' || count(*) FROM t_demo") == "3 1000000"
        values = cli.json(*LONG, "--replace")
        assert values["copied"] == 4_000_000 - 200_000 * ended
        assert one(conn, "SELECT count(DISTINCT grp) || ' ' || count(*) FROM t_demo") == "10 4000000"
        assert conn.execute(tables).fetchall() == before
        assert one(conn, "SELECT nextval('t_demo_id_seq')") == 4_000_001
        # as any other load of partitions
        assert cli.json(*LONG)["copied"] == 0
        # one that is given up is gone with the next of another kind
        with cli.started(*LONG, "--replace") as process:
            until(partial(further, 0), "a partition")
            process.send_signal(signal.SIGKILL)
        until(lambda: one(conn, SESSIONS) == 0, "the sessions to be gone")
        cli.run(*old, "--replace", check=True)
        assert conn.execute(tables).fetchall() == before


def test_two_loads_of_a_table_share_its_partitions(cli: CommandLine) -> None:
    load = ("rows", "load", "--count", "1M", "--partitions", "10", "--jobs", "2")
    with cli.connect() as conn, cli.started(*load) as first:
        until(lambda: one(conn, "SELECT to_regclass('t_demo')"), "the table")
        second = cli.run(*load)
        _, stderr = first.communicate(timeout=60)
        assert (first.returncode, second.returncode) == (0, 0), stderr + second.stderr
        assert conn.execute("SELECT count(*), count(DISTINCT id) FROM t_demo").fetchall() == [(1_000_000, 1_000_000)]
        assert one(conn, ATTACHED) == 10


def test_another_table_is_left_alone(cli: CommandLine, cluster: Cluster) -> None:
    with cli.connect() as conn:
        conn.execute("CREATE TABLE t_demo AS SELECT 1 AS mine")
        failed(cli.run(*LOAD), 1, 'a table "t_demo" exists already', "--replace")
        assert one(conn, "SELECT mine FROM t_demo") == 1
        # a partition's name is taken: the others are complete, or not there
        conn.execute("DROP TABLE t_demo; CREATE TABLE t_demo_2 AS SELECT 1 AS mine")
        failed(cli.run(*LOAD), 1, 'a table "t_demo_2" exists already', "or drop it")
        assert one(conn, "SELECT mine FROM t_demo_2") == 1
        conn.execute("DROP TABLE t_demo_2")
        assert cli.json(*LOAD)["rows"] == ROWS
        # one that somebody else has prepared
        comment = one(conn, "SELECT obj_description('t_demo'::regclass)")
        conn.execute(f"DROP TABLE t_demo; CREATE ROLE other_{conn.info.backend_pid}")
        conn.execute("CREATE TABLE t_demo (id int, grp int, data real) PARTITION BY RANGE (id)")
        conn.execute(psycopg.sql.SQL("COMMENT ON TABLE t_demo IS {}").format(comment))
        assert cli.json(*LOAD)["rows"] == ROWS
        conn.execute("DROP TABLE t_demo")
        conn.execute("CREATE TABLE t_demo (id int, grp int, data real) PARTITION BY RANGE (id)")
        conn.execute(psycopg.sql.SQL("COMMENT ON TABLE t_demo IS {}").format(comment))
        conn.execute(f"ALTER TABLE t_demo OWNER TO other_{conn.info.backend_pid}")
        failed(cli.run(*LOAD), 1, 'a table "t_demo" exists already', "--replace")
        values = cli.json(*LOAD, "--replace")
        assert values["copied"] == ROWS
        conn.execute(f"DROP ROLE other_{conn.info.backend_pid}")


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("--count", "1M", "--partitions", "0"), "--partitions"),
        (("--count", "1M", "--partitions", "10001"), "1 to 10,000 partitions, not 10,001"),
        (("--count", "3B"), "1 to 2,147,483,647 rows, not 3,000,000,000"),
        (("--count", "1e9"), '"1e9" is not a number of rows'),
        (("--count", "1M", "--partitions", "2", "--table", "t" * 62), "names of more than 63 bytes"),
    ],
)
def test_what_cannot_be_is_one_line(cli: CommandLine, arguments: tuple[str, ...], error: str) -> None:
    done: subprocess.CompletedProcess[str] = cli.run("rows", "load", *arguments)
    assert done.returncode == 1, done.stderr
    assert error in done.stderr.splitlines()[0]
    with cli.connect() as conn:
        assert one(conn, "SELECT count(*) FROM pg_class WHERE relname ~ '^(t_demo|tttt)'") == 0


def test_too_little_disk(cli: CommandLine) -> None:
    with cli.connect() as conn:
        with pytest.raises(UserError, match=r"1,000,000,000,000 rows need 49\.5 TB of disk"):
            partitions.check_room(conn, 10**12)
        host = Host.of(conn)
        assert host is not None
        disk = host.filesystem()
        assert disk is not None
        if disk.free > 100e9:
            pytest.skip("this disk has room for two billion rows")
        failed(cli.run("rows", "load", "--count", "2B"), 1, "2,000,000,000 rows need", "load fewer")
        assert one(conn, "SELECT count(*) FROM pg_class WHERE relname = 't_demo'") == 0


@pytest.mark.parametrize(("rows", "expected"), [(499_999_999, None), (500_000_000, 10), (10**9, 20), (2**31 - 1, 43)])
def test_many_rows_go_into_partitions(rows: int, expected: int | None) -> None:
    assert partitions.usual(rows) == expected


@pytest.mark.parametrize(
    "comment", [None, "", "made by pgbillion rows load: {", partitions.Plan(1, 1, 1, 1).comment[:-1] + ', "x": 1}']
)
def test_other_comments_are_no_plans(comment: str | None) -> None:
    assert partitions.Plan.of_comment(comment) is None
    plan = partitions.Plan(10**9, 10, 20, 7)
    assert partitions.Plan.of_comment(plan.comment) == plan

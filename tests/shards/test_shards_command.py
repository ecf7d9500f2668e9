"""`pgbillion shards …` on servers it makes itself: created, looked at, asked, stopped, started, destroyed."""

from __future__ import annotations

import itertools
import json
import os
import re
import stat
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from harness.command_line import CommandLine, command_line, failed
from harness.servers import one
from pgbillion.common import paths
from pgbillion.common.errors import UserError
from pgbillion.common.target import Target
from pgbillion.rows import generate, load
from pgbillion.server import embedded
from pgbillion.server.postgres import Cluster
from pgbillion.shards import record, scale
from pgbillion.shards.record import Layout
from pgbillion.shards.servers import check_room, conf_text

ROWS, GROUPS = 60_000, 7


@dataclass
class Made:
    """Two shards and a partition on the coordinator, made once for the tests that change nothing."""

    cli: CommandLine
    outcome: dict[str, Any]

    @property
    def set(self) -> record.Set:
        (found,) = record.all_sets(self.cli.state)
        return found


@pytest.fixture(scope="module")
def made(cluster: Cluster, database: str) -> Iterator[Made]:
    with command_line(cluster, database) as cli:
        # built once for all tests
        (cli.state / "postgresql").symlink_to(paths.state_dir() / "postgresql")
        arguments = ["shards", "create", "-n", "2", "-r", str(ROWS), "-g", str(GROUPS), "--local", "--seed", "11"]
        outcome = cli.json(*arguments)
        yield Made(cli, outcome)
        destroyed = cli.run("shards", "destroy", "--yes", check=True)
        assert destroyed.stdout == "removed: t_demo and its 2 shards, 2 servers with them\n"
        with cli.connect() as conn:
            assert leftovers(conn) == (0, 0, 0)
        assert sorted(path.name for path in cli.state.iterdir()) == ["postgresql"]


def leftovers(conn: Any) -> tuple[int, ...]:
    """Tables (of whatever kind), foreign servers and user mappings."""
    kinds = "SELECT count(*) FROM pg_class WHERE relname LIKE 't\\_demo%'"
    return tuple(
        one(conn, query)
        for query in (kinds, "SELECT count(*) FROM pg_foreign_server", "SELECT count(*) FROM pg_user_mapping")
    )


def test_every_shard_has_as_many_rows_of_all_groups(made: Made) -> None:
    assert (made.outcome["rows"], made.outcome["rows_per_shard"], made.outcome["local"]) == (3 * ROWS, ROWS, True)
    assert [shard["own"] for shard in made.outcome["shards"]] == [True, True]
    block = made.set.layout.block
    assert ROWS % block == 0
    with made.cli.connect() as conn:
        # asked of each partition by itself: the planner prunes by what the partitions' bounds say
        for number, name in enumerate(["t_demo_1", "t_demo_2", "t_demo_local"]):
            query = sql.SQL(
                "SELECT count(*), count(*) FILTER (WHERE (id - 1) / %s %% 3 <> %s), count(DISTINCT grp),"
                " count(*) FILTER (WHERE grp <> id %% %s) FROM {}"
            ).format(sql.Identifier(name))
            assert conn.execute(query, [block, number, GROUPS]).fetchone() == (ROWS, 0, GROUPS, 0), name
        assert one(conn, "SELECT count(DISTINCT id) FROM t_demo") == 3 * ROWS
        assert one(conn, "SELECT max(id) FROM t_demo") == 3 * ROWS


def test_the_source_table_on_all_servers(made: Made) -> None:
    columns = [("id", "integer", True), ("grp", "integer", False), ("data", "real", False)]
    query = (
        "SELECT attname, format_type(atttypid, atttypmod), attnotnull FROM pg_attribute"
        " WHERE attrelid = 't_demo'::regclass AND attnum > 0 ORDER BY attnum"
    )
    for member in made.set.members:
        with psycopg.connect(member.target.conninfo) as there:
            assert there.execute(query).fetchall() == columns
            assert one(there, "SELECT count(*) FROM pg_indexes WHERE tablename = 't_demo'") == 1
            pages = "SELECT relpages = relallvisible FROM pg_class WHERE oid = 't_demo'::regclass"
            assert one(there, pages)
            assert one(there, "SHOW session_preload_libraries") == "pgbillion_rows"
    with made.cli.connect() as conn:
        assert conn.execute(query).fetchall() == columns
        # known to the planner: as many rows as there are, and their groups
        estimated = one(conn, "SELECT sum(reltuples)::int FROM pg_class WHERE relname ~ '^t_demo_(1|2|local)$'")
        assert abs(estimated - 3 * ROWS) < 0.2 * 3 * ROWS
        groups = "SELECT n_distinct FROM pg_stats WHERE tablename = 't_demo' AND attname = 'grp' AND inherited"
        assert one(conn, groups) == GROUPS


def test_new_rows_go_round(made: Made) -> None:
    block = made.set.layout.block
    with made.cli.connect() as conn:
        conn.execute("BEGIN")
        for expected in ("t_demo_1", "t_demo_2", "t_demo_local", "t_demo_1"):
            query = "INSERT INTO t_demo (grp, data) VALUES (1, 1) RETURNING id, tableoid::regclass::text"
            row = conn.execute(query).fetchone()
            assert row is not None
            assert row[0] > 3 * ROWS
            assert row[1] == expected
            conn.execute("SELECT setval('t_demo_id_seq', %s)", [row[0] + block - 1])
        conn.execute("ROLLBACK")
        conn.execute("SELECT setval('t_demo_id_seq', %s)", [3 * ROWS])


def test_its_servers_are_private(made: Made) -> None:
    clusters = made.set.clusters(made.cli.state)
    assert len(clusters) == 2
    for cluster in clusters:
        assert stat.S_IMODE(cluster.socket_dir.stat().st_mode) == 0o700
        assert stat.S_IMODE(cluster.data.stat().st_mode) == 0o700
        with cluster.connect() as conn:
            assert one(conn, "SHOW listen_addresses") == ""
            shared = one(conn, "SELECT setting::bigint * 8192 FROM pg_settings WHERE name = 'shared_buffers'")
            assert shared <= embedded.memory() / 4 / 3


@pytest.mark.quick
def test_status(made: Made) -> None:
    report = made.cli.json("shards", "status")
    assert (report["table"], report["engine"]) == ("t_demo", "fdw")
    with made.cli.connect() as conn:
        version = one(conn, "SHOW server_version")
    for number, shard in enumerate(report["shards"], 1):
        assert shard["name"] == f"t_demo_{number}"
        assert (shard["own"], shard["reachable"], shard["error"]) == (True, True, None)
        assert (shard["version"], shard["extension"], shard["rows"]) == (version, paths.version(), ROWS)
        assert shard["size"] > ROWS * 40
        assert shard["connections"] == 0
    shown = made.cli.run("shards", "status", check=True).stdout
    assert "t_demo_2   ok" in shown
    assert "60,000" in shown


@pytest.mark.quick
def test_the_sources_query(made: Made) -> None:
    result = made.cli.json("shards", "query", "--rounds", "2")
    assert result["query"] == "SELECT grp, count(data) FROM t_demo GROUP BY 1"
    expected = Counter(number % GROUPS for number in range(1, 3 * ROWS + 1))
    assert {int(group): int(number) for group, number in result["answer"]} == expected
    assert (result["checked"], result["rows"], result["partitions"]) == (True, 3 * ROWS, 3)
    assert len(result["seconds"]) == 2
    assert result["rows_per_second"] == round(3 * ROWS / result["median"])
    assert result["plan"].count("Async Foreign Scan") == 2
    assert "Remote SQL: SELECT grp, count(data) FROM public.t_demo GROUP BY 1" in result["plan"]
    assert "Seq Scan on public.t_demo_local" in result["plan"] or "VectorAggregate" in result["plan"]


def test_any_query_and_its_plan(made: Made) -> None:
    query = "SELECT count(*), sum(id::bigint), avg(id) FROM t_demo WHERE (id - 1) / 30000 % 3 = 1;"
    done = made.cli.run("shards", "query", query, "--plan", "--rounds", "1", check=True)
    ids = [number for number in range(1, 3 * ROWS + 1) if (number - 1) // 30000 % 3 == 1]
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["count", "sum", "avg"]
    count, total, average = lines[1].split()
    assert (int(count), int(total), float(average)) == (ROWS, sum(ids), sum(ids) / len(ids))
    assert "from 1 partition;" in lines[2]
    assert "sum of the shards" not in lines[2]
    assert "Foreign Scan" in done.stdout
    refused = made.cli.run("shards", "query", "INSERT INTO t_demo (grp) VALUES (1)")
    assert refused.returncode == 3
    assert "read-only transaction" in refused.stderr


def test_an_answer_that_is_not_the_sum_is_no_answer(made: Made) -> None:
    (member, _) = made.set.members
    with psycopg.connect(member.target.conninfo, autocommit=True) as there, made.cli.connect() as conn:
        there.execute("CREATE TABLE fewer AS SELECT * FROM t_demo WHERE grp <> 3 OR id > 10")
        conn.execute("ALTER FOREIGN TABLE t_demo_1 OPTIONS (SET table_name 'fewer')")
        try:
            done = made.cli.run("shards", "query", "--rounds", "1")
        finally:
            conn.execute("ALTER FOREIGN TABLE t_demo_1 OPTIONS (SET table_name 't_demo')")
            there.execute("DROP TABLE fewer")
    failed(done, 1, "the answer is not the sum of the shards' own in 1 of 7 groups: group 3 has", "report it")
    assert done.stdout == ""


def test_scale_repeats_the_sources_experiment(made: Made) -> None:
    result = made.cli.json("shards", "scale", "--rounds", "2", "--seed", "5")
    assert [(point["shards"], point["rows"]) for point in result["points"]] == [(1, ROWS), (2, 2 * ROWS)]
    for point in result["points"]:
        assert len(point["seconds"]) == 2
        assert point["rows_per_second"] == round(point["rows"] / point["median"])
    assert (result["rows_per_shard"], result["here"], result["seed"]) == (ROWS, 2, 5)
    assert result["plan"].count("Async Foreign Scan") == 2
    page = Path(result["report"]).read_text()
    Path(result["report"]).unlink()
    Path(result["report"]).parent.rmdir()
    assert "Rows per second by shards" in page
    assert re.findall(r"<h4>(.*?)</h4>", page) == ["1 shard", "2 shards"]
    assert "All shards are on one machine and share its" in page
    assert "Async Foreign Scan" in page
    with made.cli.connect() as conn:
        assert one(conn, "SELECT count(*) FROM pg_class WHERE relname LIKE 't_demo_over%'") == 0
    failed(made.cli.run("shards", "scale", "--shards", "1,3"), 1, "there are 2 shards, not 3", "create more")


def test_numbers_of_shards_go_up_by_two(made: Made) -> None:
    for members, expected in ((1, [1]), (2, [1, 2]), (6, [1, 2, 4, 6]), (8, [1, 2, 4, 8])):
        found = replace(made.set, members=made.set.members[:1] * members)
        assert scale.numbers(found) == expected


@pytest.mark.quick
def test_stopped_and_started(made: Made) -> None:
    assert made.cli.run("shards", "stop", check=True).stdout == "2 stopped\n"
    made.set.clusters(made.cli.state)[0].start()
    done = made.cli.run("shards", "status", "--json")
    failed(done, 2, "1 of 2 shards cannot answer: t_demo_2", "pgbillion shards start")
    first, second = json.loads(done.stdout)["shards"]
    assert (first["reachable"], second["reachable"], second["rows"]) == (True, False, None)
    lost = made.cli.run("shards", "query")
    assert lost.returncode == 2
    assert 'could not connect to server "t_demo_2"' in lost.stderr
    assert made.cli.run("shards", "start", check=True).stdout == "1 started\n"
    assert made.cli.json("shards", "query", "--rounds", "1")["checked"]


def test_what_is_there_is_not_made_again(made: Made) -> None:
    failed(made.cli.run("shards", "create"), 1, 'there are shards of "t_demo" already', "pgbillion shards destroy")
    failed(made.cli.run("shards", "status", "--table", "other"), 1, 'no shards of a table "other"', "shards create")
    failed(made.cli.run("shards", "destroy"), 1, "not removing shards without being told to", "--yes")


@pytest.mark.parametrize("rows", [1, 999, 50_000, 50_001, 120_000, 1_234_567])
@pytest.mark.parametrize("partitions", [1, 3, 64])
def test_the_layout_gives_each_id_to_one_partition(rows: int, partitions: int) -> None:
    layout = Layout(rows, partitions)
    assert layout.block <= generate.BLOCK
    ends: list[tuple[int, int]] = []
    for partition in range(partitions):
        runs = layout.ids(partition)
        assert sum(count for _, count in runs) == rows
        for first, count in runs:
            assert 0 < count <= layout.block
            for number in (first, first + count - 1):
                assert (number - 1) // layout.block % partitions == partition
            ends.append((first, first + count - 1))
    ends.sort()
    assert all(end < following for (_, end), (following, _) in itertools.pairwise(ends))
    assert ends[0][0] == 1
    assert ends[-1][1] <= layout.last_id
    assert layout.wide == (layout.last_id > load.INT_MAX)


def test_ids_beyond_an_integer(conn: Any, cluster: Cluster, database: str) -> None:
    """As for the source's 32 servers with 100 million rows each."""
    assert Layout(100_000_000, 32).wide
    conn.execute("CREATE SCHEMA wide; CREATE TABLE wide.t (id bigint NOT NULL, grp int, data real)")
    table = sql.Identifier("wide", "t")
    first = 3_200_000_000
    target = Target(cluster.conninfo(database), database)
    load.copy([load.Share(target, table, [(first, 10), (first + 100, 5)], wide=True)], 7, 1, lambda done: None)
    expected = [(number, number % 7) for number in [*range(first, first + 10), *range(first + 100, first + 105)]]
    assert conn.execute("SELECT id, grp FROM wide.t ORDER BY id").fetchall() == expected


def test_settings_are_a_share_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    text = conf_text(128 * 1024**3, servers=7, partitions=8)
    assert "shared_buffers = 4096MB" in text
    assert "max_parallel_workers_per_gather = 7\n" in text
    assert "$" not in text
    assert "max_parallel_workers_per_gather = 0\n" in conf_text(1024**3, servers=64, partitions=64)
    assert "max_parallel_workers_per_gather = 0\n" in conf_text(1024**3, servers=128, partitions=128)


def test_no_room_for_servers(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="1000000000 servers need") as raised:
        check_room(tmp_path, 10**9)
    assert raised.value.hint is not None
    assert "--state-dir" in raised.value.hint

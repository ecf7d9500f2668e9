"""`pgbillion shards … --engine citus`: Citus distributes, and vectors work under its workers unchanged.

Needs a PostgreSQL with Citus, named by CITUS_PG_CONFIG=…/pg_config; without one, only what is said then is tested.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import servers
from harness.command_line import CommandLine, command_line, failed
from harness.servers import one
from pgbillion.common import paths
from pgbillion.server.postgres import Cluster, Installation
from pgbillion.shards import record

ROWS, GROUPS = 60_000, 7
PG_CONFIG = os.environ.get("CITUS_PG_CONFIG")


@pytest.fixture(scope="module")
def citus() -> Installation:
    if not PG_CONFIG:
        message = "*** no PostgreSQL with Citus (CITUS_PG_CONFIG=…/pg_config): shards under Citus are NOT TESTED ***"
        print(message, file=sys.stderr)
        pytest.skip(message)
    return Installation.prepare(paths.state_dir(), Path(PG_CONFIG))


@pytest.fixture(scope="module")
def coordinator(citus: Installation) -> Iterator[Cluster]:
    with servers.temporary_folder() as folder:
        cluster = Cluster(citus, folder / "data", folder / "s", 5432)
        # Citus needs a connection more for each shard than a session's own
        cluster.init({**servers.SETTINGS, "shared_preload_libraries": "citus", "max_connections": "60"})
        cluster.start()
        try:
            yield cluster
        finally:
            cluster.destroy()


@pytest.fixture
def cli(coordinator: Cluster) -> Iterator[CommandLine]:
    with servers.new_database(coordinator, "distributed") as database, command_line(coordinator, database) as cli:
        (cli.state / "postgresql").symlink_to(paths.state_dir() / "postgresql")
        yield cli
        for left in record.all_sets(cli.state):
            for cluster in left.clusters(cli.state):
                cluster.destroy()


def test_from_create_to_destroy(cli: CommandLine) -> None:
    arguments = ["shards", "create", "--engine", "citus", "-n", "2", "-r", str(ROWS), "-g", str(GROUPS)]
    made = cli.json(*arguments, "--pg-config", str(PG_CONFIG))
    assert (made["engine"], made["rows"], len(made["shards"])) == ("citus", 2 * ROWS, 2)
    assert made["table_bytes"] > 2 * ROWS * 40

    report = cli.json("shards", "status")
    assert sum(shard["rows"] for shard in report["shards"]) == 2 * ROWS
    assert all(shard["rows"] > 0 for shard in report["shards"])

    result = cli.json("shards", "query", "--rounds", "1")
    expected = Counter(number % GROUPS for number in range(1, 2 * ROWS + 1))
    assert {int(group): int(number) for group, number in result["answer"]} == expected
    assert (result["checked"], result["rows"]) == (True, 2 * ROWS)
    assert "Custom Scan (Citus Adaptive)" in result["plan"]
    assert "Custom Scan (VectorAggregate)" in result["plan"]
    # what Citus computes of its nodes' answers, with vectors and without
    query = "SELECT grp, count(*), sum(id), min(data), max(data) FROM t_demo WHERE data < 0.5 GROUP BY 1 ORDER BY 1"
    with cli.connect() as conn:
        vectorized = conn.execute(query).fetchall()
        assert len(vectorized) == GROUPS
        conn.execute("SET citus.propagate_set_commands = local")
        conn.execute("BEGIN")
        conn.execute("SET LOCAL pgbillion_rows.vector_aggregate = off")
        assert conn.execute(query).fetchall() == vectorized
        plan = "\n".join(line for (line,) in conn.execute(f"EXPLAIN {query}"))
        assert "Citus Adaptive" in plan
        assert "VectorAggregate" not in plan
        conn.execute("ROLLBACK")
    failed(cli.run("shards", "scale"), 1, "Citus has its rows on all nodes at once", "--engine fdw")

    assert cli.run("shards", "stop", check=True).stdout == "2 stopped\n"
    assert cli.run("shards", "status").returncode == 2
    assert cli.run("shards", "start", check=True).stdout == "2 started\n"
    cli.json("shards", "destroy", "--yes")
    with cli.connect() as conn:
        assert one(conn, "SELECT count(*) FROM pg_dist_node") == 0
        assert one(conn, "SELECT to_regclass('t_demo')") is None
    assert list(record.all_sets(cli.state)) == []


def test_a_query_that_citus_has_changed_is_told_of(coordinator: Cluster) -> None:
    """Citus plans a table of its own by itself, and leaves its privileges behind in the query."""
    with servers.new_database(coordinator, "changed") as database, coordinator.connect(database) as conn:
        conn.execute("CREATE EXTENSION citus; CREATE EXTENSION pgbillion_rows")
        here = str(coordinator.socket_dir)
        conn.execute("SET citus.shard_replication_factor = 1")
        conn.execute("SELECT citus_set_coordinator_host(%s, %s)", [here, coordinator.port])
        conn.execute("SELECT citus_set_node_property(%s, %s, 'shouldhaveshards', true)", [here, coordinator.port])
        conn.execute("LOAD 'pgbillion_rows'; SET pgbillion_rows.vector_aggregate = force")
        conn.execute("CREATE TABLE local AS SELECT i AS id FROM generate_series(50, 150) i")
        conn.execute("CREATE TABLE many AS SELECT i AS id, i AS v FROM generate_series(1, 100) i")
        conn.execute("SELECT create_distributed_table('many', 'id', shard_count => 2)")
        conn.execute("SET client_min_messages = debug1")
        query = "SELECT count(*) FROM many m JOIN local l USING (id) WHERE m.id = 55 AND m.v IN (TABLE one)"
        assert one(conn, query.replace("TABLE one", "SELECT v FROM many WHERE id = 55")) == 1


def test_what_citus_cannot_do(cli: CommandLine, coordinator: Cluster) -> None:
    create = ("shards", "create", "--engine", "citus", "--rows", "10")
    failed(
        cli.run(*create, "--local", "--pg-config", str(PG_CONFIG)), 1, "--local is for --engine fdw", "Citus decides"
    )
    with servers.new_database(coordinator, "other"):
        done = cli.run(*create, "--shard", coordinator.conninfo("other"))
        failed(done, 1, "Citus reaches shard t_demo_1 by host, port and the coordinator's database", "passfile")
    with cli.connect() as conn:
        assert one(conn, "SELECT count(*) FROM pg_dist_node") == 0
    assert list(record.all_sets(cli.state)) == []


def test_without_citus_it_is_told_how_to_go_on(cluster: Cluster, database: str) -> None:
    with cluster.connect(database) as conn:
        assert one(conn, "SHOW shared_preload_libraries") == ""
    with command_line(cluster, database) as cli:
        done = cli.run("shards", "create", "--engine", "citus", "-n", "2", "--rows", "10")
        assert list(record.all_sets(cli.state)) == []
    if "does not load" in done.stderr:
        failed(done, 1, "the coordinator does not load Citus", "shared_preload_libraries")
    else:
        failed(done, 1, "the coordinator does not have the extension Citus", "--engine fdw")

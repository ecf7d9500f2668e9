"""A shard of another major version, whose states may mean something else here: an error, never a wrong answer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import psycopg
import pytest

from harness import needs, servers
from harness.shards import make_coordinator, plan, shard_table, shards
from pgbillion.common.connection import Connection
from pgbillion.common.paths import state_dir
from pgbillion.server.postgres import Cluster, Installation

pytestmark = pytest.mark.machine

# the states are values of types that are the same everywhere
TRAVEL = ("count(*)", "sum(i)", "min(i)", "max(f)", "sum(f)", "avg(i)", "stddev(f)")
# the states are in a form of PostgreSQL's own, which majors change
STAY = ("sum(i::bigint)", "avg(i::bigint)", "stddev(i)", "sum(n)", "avg(n)")
REGRESSION = ("corr(f, i)", "regr_slope(f, i)", "covar_pop(f, i)")


@pytest.fixture(scope="module", params=["oldest", "newest"])
def other(request: pytest.FixtureRequest, installation: Installation) -> Installation:
    majors = {major: path for major, path in servers.pg_configs().items() if major != installation.major}
    if not majors:
        needs.missing(needs.OTHER_MAJORS)
    if request.param == "newest" and len(majors) == 1:
        pytest.skip("there is one other major version")
    return Installation.prepare(state_dir(), majors[min(majors) if request.param == "oldest" else max(majors)])


@pytest.fixture(scope="module")
def coordinator(other: Installation, cluster: Cluster, database: str) -> Iterator[Connection]:
    with ExitStack() as stack:
        away = stack.enter_context(servers.new_cluster(other, {"shared_buffers": "16MB"}))
        members = stack.enter_context(shards([away], f"of_{other.major}"))
        conn = stack.enter_context(cluster.connect(database, autocommit=True))
        conn.execute(
            "DROP SCHEMA IF EXISTS public CASCADE; CREATE SCHEMA public; DROP EXTENSION IF EXISTS postgres_fdw"
        )
        make_coordinator(conn, members)
        shard_table(conn, members, "t", "i integer, g integer, f float8, n numeric", local=1)
        conn.execute("INSERT INTO t SELECT i, i % 3, i / 7.0, i * 1.5 FROM generate_series(1, 1000) i")
        yield conn
        conn.execute("DROP TABLE t; DROP SERVER s1 CASCADE")


def answer(conn: Connection, query: str, push: str) -> list[float]:
    conn.execute(f"SET pgbillion_rows.push_down_aggregates = {push}")
    return [float(value) for row in conn.execute(query.encode()) for value in row]


@pytest.mark.parametrize("aggregate", TRAVEL)
def test_values_travel(coordinator: Connection, aggregate: str) -> None:
    for query in (f"SELECT {aggregate} FROM t", f"SELECT g, {aggregate} FROM t GROUP BY g ORDER BY g"):
        assert answer(coordinator, query, "on") == pytest.approx(answer(coordinator, query, "off"))


@pytest.mark.parametrize("aggregate", [*STAY, *REGRESSION])
def test_states_are_refused(coordinator: Connection, other: Installation, aggregate: str) -> None:
    mine = coordinator.info.server_version // 10000
    query = f"SELECT g, {aggregate} FROM t GROUP BY g ORDER BY g"
    right = answer(coordinator, query, "off")
    assert len(right) == 6
    coordinator.execute("SET pgbillion_rows.push_down_aggregates = on")
    assert "partial_" in plan(coordinator, query)
    if aggregate in REGRESSION and (mine >= 19) == (other.major >= 19):
        assert answer(coordinator, query, "on") == pytest.approx(right)
        return
    with pytest.raises(psycopg.errors.FeatureNotSupported, match=f"runs PostgreSQL {other.major}, this one is {mine}"):
        coordinator.execute(query.encode())
    assert answer(coordinator, query, "off") == right

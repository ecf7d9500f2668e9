"""Values on their way between a shard and here: encodings, types that differ, operators and names of other schemas."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from psycopg import sql

from harness import servers
from harness.shards import Shard, make_coordinator, plan, shard_table, shards
from pgbillion.common.connection import Connection
from pgbillion.server.postgres import Cluster

pytestmark = pytest.mark.majors


@pytest.fixture(scope="module")
def members(cluster: Cluster, database: str) -> Iterator[list[Shard]]:
    with shards([cluster] * 2, database) as made:
        yield made


@pytest.fixture(scope="module")
def coordinator(cluster: Cluster, database: str, members: list[Shard]) -> Iterator[Connection]:
    """Tables `one` (on this server) and `many` (on two shards and here) with the same rows."""
    columns = "i integer, t text, v varchar(10), c char(4), j jsonb, a aclitem"
    with cluster.connect(database) as conn:
        conn.prepare_threshold = None
        make_coordinator(conn, members)
        shard_table(conn, members, "many", columns, local=1)
        conn.execute(f"CREATE TABLE one ({columns})")
        conn.execute(
            """INSERT INTO one SELECT i, 'é' || i % 3, 'ö', 'ü', '{"ä": 1}', 'postgres=r/postgres'
            FROM generate_series(1, 60) i"""
        )
        conn.execute("INSERT INTO many SELECT * FROM one")
        yield conn


def answers(conn: Connection, query: str) -> list[list[tuple[object, ...]]]:
    """The answers of the table on this server and of the one on the shards, where the shards must have aggregated."""
    assert "Aggregate on" in plan(conn, query.format("many"))
    return [sorted(conn.execute(query.format(name)).fetchall(), key=repr) for name in ("one", "many")]


def has_array_agg(conn: Connection) -> bool:
    """Partial string_agg and array_agg came with 16."""
    return conn.info.server_version >= 160000


@pytest.mark.parametrize("encoding", ["UTF8", "LATIN1"])
def test_text_is_the_same_whatever_the_clients_encoding(
    cluster: Cluster, database: str, coordinator: Connection, encoding: str
) -> None:
    """Values come in this database's encoding, not in that of our own client."""
    with cluster.connect(database, client_encoding=encoding) as conn:
        conn.execute("SET enable_partitionwise_aggregate = on")
        for query in (
            "SELECT t, v, c, j::text, count(*) FROM {} GROUP BY t, v, c, j",
            "SELECT i % 2, max(t), min(v), max(c) FROM {} GROUP BY 1",
            "SELECT count(*) FROM {} WHERE t IN ('é0', 'é1') AND c < 'ÿ'",
        ):
            one, many = answers(conn, query)
            assert one == many
            assert "Ã" not in str(many)
        if has_array_agg(conn):
            one, many = answers(conn, "SELECT t, string_agg(v, 'ß') FROM {} GROUP BY t")
            assert one == many
            query = "SELECT i % 2, array_agg(t), array_agg(c) FROM {} GROUP BY 1"
            # core reads the elements of such states as if they came from the client
            assert ("Aggregate on" in plan(conn, query.format("many"))) == (encoding == "UTF8")
            for _, t, c in conn.execute(query.format("many")).fetchall():
                assert set(t) == {"é0", "é1", "é2"}
                assert set(c) == {"ü   "}


def test_rows_are_read_as_they_were_sent_when_the_encoding_changes(coordinator: Connection) -> None:
    with coordinator.transaction():
        coordinator.execute("DECLARE k CURSOR FOR SELECT i, max(t) FROM many_0 GROUP BY i")
        seen = coordinator.execute("FETCH 1 FROM k").fetchall()
        coordinator.execute("SET LOCAL client_encoding = 'LATIN1'")
        seen += coordinator.execute("FETCH ALL FROM k").fetchall()
    assert len(seen) > 5
    assert {text for _, text in seen} == {"é0", "é1", "é2"}


def test_a_plan_with_states_of_another_client_encoding_is_refused(coordinator: Connection) -> None:
    if not has_array_agg(coordinator):
        return
    coordinator.execute("PREPARE p AS SELECT array_agg(t) FROM many; SET plan_cache_mode = force_generic_plan")
    assert len(servers.one(coordinator, "EXECUTE p")) == 60
    coordinator.execute("SET client_encoding = 'LATIN1'")
    try:
        with pytest.raises(psycopg.errors.FeatureNotSupported, match="client_encoding has changed"):
            coordinator.execute("EXECUTE p")
    finally:
        coordinator.execute("SET client_encoding = 'UTF8'; RESET plan_cache_mode")
    assert len(servers.one(coordinator, "EXECUTE p")) == 60
    coordinator.execute("DEALLOCATE p")


def test_a_shard_of_another_encoding(cluster: Cluster, database: str, coordinator: Connection) -> None:
    name = f"{database}_latin"
    coordinator.execute(f"CREATE DATABASE {name} ENCODING latin1 LOCALE 'C' TEMPLATE template0")
    try:
        with cluster.connect(name) as conn:
            conn.execute("CREATE EXTENSION pgbillion_rows; CREATE TABLE far (t text, n bigint)")
            conn.execute("INSERT INTO far VALUES ('é', 1), ('ü', 2), ('é', 3)")
        coordinator.execute(
            sql.SQL(
                "CREATE SERVER latin FOREIGN DATA WRAPPER pgbillion_fdw OPTIONS (host {}, port {}, dbname {})"
            ).format(sql.Literal(str(cluster.socket_dir)), sql.Literal(str(cluster.port)), sql.Literal(name))
        )
        coordinator.execute(
            "CREATE USER MAPPING FOR PUBLIC SERVER latin OPTIONS (user 'postgres', password_required 'false');"
            " CREATE TABLE mixed (t text, n bigint) PARTITION BY RANGE (n);"
            " CREATE FOREIGN TABLE mixed_1 PARTITION OF mixed FOR VALUES FROM (0) TO (9) SERVER latin"
            " OPTIONS (table_name 'far');"
            " CREATE TABLE mixed_2 PARTITION OF mixed FOR VALUES FROM (9) TO (99); INSERT INTO mixed VALUES ('é', 9)"
        )
        query = "SELECT t, count(*), sum(n), avg(n) FROM mixed WHERE t <> 'ä' GROUP BY t ORDER BY n DESC".replace(
            "n DESC", "2"
        )
        assert "Aggregate on" in plan(coordinator, query)
        assert [row[:3] for row in coordinator.execute(query).fetchall()] == [("ü", 1, 2), ("é", 3, 13)]
        if has_array_agg(coordinator):
            assert sorted(servers.one(coordinator, "SELECT array_agg(t) FROM mixed")) == ["é", "é", "é", "ü"]
            with pytest.raises(
                psycopg.errors.FeatureNotSupported, match='the database of server "latin" has encoding LATIN1'
            ):
                coordinator.execute("SELECT string_agg(t, ',') FROM mixed")
    finally:
        coordinator.execute("DROP TABLE IF EXISTS mixed; DROP SERVER IF EXISTS latin CASCADE")
        coordinator.execute(f"DROP DATABASE {name} WITH (FORCE)")


def test_a_column_of_another_type_on_the_shard(coordinator: Connection, members: list[Shard]) -> None:
    """A state does not tell what it was made from: arguments are cast to the types declared here."""
    columns = "i integer, b bigint, n numeric, t text"
    shard_table(coordinator, members, "other", columns)
    coordinator.execute(
        f"CREATE TABLE same ({columns}); INSERT INTO same SELECT i, i, i, i FROM generate_series(1, 20) i"
    )
    coordinator.execute("INSERT INTO other SELECT * FROM same")
    calls = ["sum(b)", "avg(b)", "avg(b + 1)", "variance(i)", "variance(b)", "sum(n)", "avg(n)", "sum(coalesce(n, 1))"]
    if has_array_agg(coordinator):
        calls += ["(SELECT array_agg(u ORDER BY u) FROM unnest(array_agg(i)) u)", "cardinality(array_agg(t))"]
    for types in ("bigint numeric bigint varchar(10)", "smallint integer integer text", "numeric smallint float8 text"):
        for number, shard in enumerate(members):
            with shard.connect() as conn:
                for column, name in zip("ibnt", types.split(), strict=True):
                    conn.execute(f"ALTER TABLE other_{number} ALTER {column} TYPE {name} USING {column}::{name}")
        for call in calls:
            query = f"SELECT {call} FROM {{}} WHERE t <> '3'"
            assert "Aggregate on" in plan(coordinator, query.format("other"))
            assert coordinator.execute(query.format("other")).fetchall() == (
                coordinator.execute(query.format("same")).fetchall()
            ), (types, call)
    with members[0].connect() as conn:
        conn.execute("ALTER TABLE other_0 ALTER b TYPE text USING b || ' pieces'")
    with pytest.raises(psycopg.errors.InvalidTextRepresentation, match='server "s1": invalid input syntax'):
        coordinator.execute("SELECT sum(b) FROM other")
    coordinator.execute("DROP TABLE other, same")


def test_types_without_a_binary_form(coordinator: Connection) -> None:
    one, many = answers(coordinator, "SELECT a, count(*) FROM {} GROUP BY a")
    assert one == many == [("postgres=r/postgres", 60)]


def test_operators_that_sql_does_not_name(coordinator: Connection, members: list[Shard]) -> None:
    """IS DISTINCT FROM and NULLIF would be text's on the shard, whose search path has core's schema only."""
    if not servers.has_extension(coordinator, "citext"):
        pytest.skip("this PostgreSQL is without contrib")
    for shard in members:
        coordinator.execute(f"ALTER SERVER {shard.name} OPTIONS (ADD extensions 'citext')")
    shard_table(coordinator, members, "names", "i integer, c citext")
    coordinator.execute(
        "INSERT INTO names SELECT i, (ARRAY['abc', 'ABC', 'x'])[1 + i % 3] FROM generate_series(1, 30) i"
    )
    assert "Aggregate on" in plan(coordinator, "SELECT count(*) FILTER (WHERE c = 'Abc'::citext) FROM names")
    for call, expected in {
        "count(*) FILTER (WHERE c = 'Abc'::citext)": 20,
        "count(*) FILTER (WHERE c IN ('Abc', 'y'))": 20,
        "count(*) FILTER (WHERE c IS DISTINCT FROM 'Abc'::citext)": 10,
        "count(nullif(c, 'Abc'::citext))": 10,
        "count(DISTINCT c)": 2,
        "max(c)": "x",
    }.items():
        assert servers.one(coordinator, f"SELECT {call} FROM names") == expected, call
    assert {str(key).lower(): n for key, n in coordinator.execute("SELECT c, count(*) FROM names GROUP BY c")} == {
        "abc": 20, "x": 10
    }  # fmt: skip
    coordinator.execute("DROP TABLE names")


def test_names_of_objects_stay_here(coordinator: Connection) -> None:
    """A parameter that is an OID by name would be another one there."""
    coordinator.execute("PREPARE q (regclass) AS SELECT count(*) FILTER (WHERE i::oid = $1::oid), count(*) FROM many")
    coordinator.execute("SET plan_cache_mode = force_generic_plan")
    try:
        assert "Aggregate on" not in plan(coordinator, "EXECUTE q ('many')")
        assert coordinator.execute("EXECUTE q ('many')").fetchall() == [(0, 60)]
    finally:
        coordinator.execute("RESET plan_cache_mode; DEALLOCATE q")

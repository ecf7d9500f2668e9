"""Which connection reads a shard, and with which snapshot; privileges and passwords; trees of servers."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Iterator

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from harness import servers
from harness.shards import Shard, make_coordinator, plan, shard_table, shards
from pgbillion.common.connection import Connection
from pgbillion.server.postgres import Cluster, Installation

QUERY = "SELECT g, count(*), sum(i::bigint) FROM many GROUP BY g ORDER BY g"
OURS = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'pgbillion_fdw' AND datname = current_database()"


@pytest.fixture(scope="module")
def members(cluster: Cluster, database: str) -> Iterator[list[Shard]]:
    with shards([cluster] * 2, database) as made:
        yield made


@pytest.fixture
def coordinator(cluster: Cluster, database: str, members: list[Shard]) -> Iterator[Connection]:
    with cluster.connect(database) as conn:
        make_coordinator(conn, members)
        shard_table(conn, members, "many", "i integer, g integer")
        conn.execute("INSERT INTO many SELECT i, i % 3 FROM generate_series(1, 999) i")
        # what was written is forgotten with the session
        with cluster.connect(database) as fresh:
            # psycopg would forget all prepared statements with a ROLLBACK
            fresh.prepare_threshold = None
            fresh.execute("SET enable_partitionwise_aggregate = on")
            yield fresh
        conn.execute("DROP TABLE many; DROP SERVER s1 CASCADE; DROP SERVER s2 CASCADE")
        for number, shard in enumerate(members):
            with shard.connect() as there:
                there.execute(f"DROP TABLE many_{number}")


def ours(members: list[Shard]) -> int:
    """How many connections of our own are open to the shards."""
    total = 0
    for shard in members:
        with shard.connect() as conn:
            total += servers.one(conn, OURS)
    return total


def rows(conn: Connection) -> int:
    return int(sum(count for _, count, _ in conn.execute(QUERY).fetchall()))


def test_a_transaction_sees_what_it_wrote(coordinator: Connection, members: list[Shard]) -> None:
    assert rows(coordinator) == 999
    with coordinator.transaction(force_rollback=True):
        coordinator.execute("INSERT INTO many SELECT i, 1 FROM generate_series(1000, 1099) i")
        assert "Partial Aggregate on" in plan(coordinator, QUERY)
        assert rows(coordinator) == 1099
        with coordinator.transaction(force_rollback=True):
            coordinator.execute("DELETE FROM many WHERE g = 0")
            assert rows(coordinator) == 1099 - 333
        assert rows(coordinator) == 1099
        coordinator.execute("UPDATE many SET g = 2 WHERE g = 1 AND i < 1000")
        assert {g: n for g, n, _ in coordinator.execute(QUERY).fetchall()} == {0: 333, 1: 100, 2: 666}
        coordinator.execute("TRUNCATE many_0")
        assert 0 < rows(coordinator) < 1099
    assert rows(coordinator) == 999


def test_so_does_one_with_a_cached_plan(coordinator: Connection) -> None:
    """The plan was made when nothing had been written, and is executed when something has."""
    coordinator.execute("PREPARE q AS " + QUERY)
    for _ in range(7):
        assert sum(n for _, n, _ in coordinator.execute("EXECUTE q").fetchall()) == 999
    with coordinator.transaction(force_rollback=True):
        coordinator.execute("DELETE FROM many WHERE g = 0")
        assert sum(n for _, n, _ in coordinator.execute("EXECUTE q").fetchall()) == 666
    assert sum(n for _, n, _ in coordinator.execute("EXECUTE q").fetchall()) == 999
    # up to 17 all statements of such a function are planned before the first is executed
    coordinator.execute(
        "CREATE FUNCTION write_and_read() RETURNS bigint LANGUAGE sql AS "
        "'INSERT INTO many VALUES (1000, 1), (1001, 1), (1002, 1); SELECT count(*) FROM many'"
    )
    with coordinator.transaction(force_rollback=True):
        assert servers.one(coordinator, "SELECT write_and_read()") == 1002
    coordinator.execute("DROP FUNCTION write_and_read")


def test_a_statement_does_not_see_its_own_writes(coordinator: Connection) -> None:
    with coordinator.transaction(force_rollback=True):
        counted = coordinator.execute(
            "WITH gone AS (DELETE FROM many WHERE g = 0 RETURNING 1) SELECT (SELECT count(*) FROM gone), n FROM"
            " (SELECT count(*) n FROM many) s"
        ).fetchone()
        assert counted is not None
        assert counted[0] == 333


def test_read_committed_sees_what_others_committed(coordinator: Connection, members: list[Shard]) -> None:
    with coordinator.transaction():
        assert rows(coordinator) == 999
        with members[0].connect() as conn:
            conn.execute("INSERT INTO many_0 VALUES (5000, 1)")
        assert rows(coordinator) == 1000
    with members[0].connect() as conn:
        conn.execute("DELETE FROM many_0 WHERE i = 5000")


@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
def test_higher_levels_keep_their_snapshot(coordinator: Connection, members: list[Shard], level: str) -> None:
    before = ours(members)
    with coordinator.transaction():
        coordinator.execute(f"SET TRANSACTION ISOLATION LEVEL {level}")
        assert "Partial Aggregate on" in plan(coordinator, QUERY)
        assert rows(coordinator) == 999
        with members[0].connect() as conn:
            conn.execute("INSERT INTO many_0 VALUES (5000, 1)")
        assert rows(coordinator) == 999
        assert sum(1 for _ in coordinator.execute("SELECT * FROM many")) == 999
        assert ours(members) == before
    with members[0].connect() as conn:
        conn.execute("DELETE FROM many_0 WHERE i = 5000")


def test_scans_of_one_shard_in_one_statement_share_a_snapshot(coordinator: Connection, members: list[Shard]) -> None:
    """Between two scans of one statement another session moves a row: neither or both see it."""
    shard, name = members[0], "many_0"
    with shard.connect() as other, other.cursor() as cursor:
        cursor.execute(
            f"CREATE TABLE hurdle (); CREATE VIEW slow AS SELECT i, g FROM {name} WHERE (SELECT count(*) FROM"
            " hurdle) = 0"
        )
        coordinator.execute("CREATE FOREIGN TABLE slow (i integer, g integer) SERVER s1")
        # the second scan is made to wait on the shard until the other session has committed
        query = (
            "SELECT a.n, b.n, c.n FROM (SELECT count(*) n FROM many_0) a, (SELECT count(*) n FROM slow) b, (SELECT"
            " count(*) n FROM many_0 WHERE g >= 0) c"
        )
        assert plan(coordinator, query).count("Aggregate on") == 3
        with shard.connect() as blocker:
            blocker.autocommit = False
            blocker.execute("LOCK TABLE hurdle; INSERT INTO many_0 VALUES (5000, 1)")
            result: list[tuple[object, ...] | None] = []
            thread = threading.Thread(target=lambda: result.append(coordinator.execute(query).fetchone()))
            thread.start()
            servers.until(
                lambda: (
                    servers.one(
                        other, "SELECT count(*) FROM pg_locks WHERE relation = 'hurdle'::regclass AND NOT granted"
                    )
                    > 0
                ),
                "the scan to wait",
            )
            blocker.commit()
            thread.join(60)
            assert not thread.is_alive()
        assert result[0] is not None
        assert len(set(result[0])) == 1, result
        coordinator.execute("DROP FOREIGN TABLE slow")
        other.execute("DROP VIEW slow; DROP TABLE hurdle; DELETE FROM many_0 WHERE i = 5000")


def test_a_statement_that_also_reads_rows_uses_one_connection(coordinator: Connection, members: list[Shard]) -> None:
    """Whichever part of the plan begins first: rows and aggregates of a shard have one snapshot."""
    before = ours(members)
    for query in (
        "SELECT (SELECT count(*) FROM many), count(*) FROM (SELECT * FROM many OFFSET 0) s",
        "SELECT n, m FROM (SELECT count(*) n FROM many) a, (SELECT count(*) m FROM (SELECT * FROM many OFFSET 0) s) b",
        "SELECT m, (SELECT count(*) FROM many) FROM (SELECT count(*) m FROM (SELECT * FROM many OFFSET 0) s) b",
    ):
        assert plan(coordinator, query).count("Partial Aggregate on") == 2
        assert coordinator.execute(query).fetchone() == (999, 999)
    assert ours(members) == before


def test_names_that_need_quotes(coordinator: Connection, members: list[Shard]) -> None:
    with members[0].connect() as conn:
        conn.execute('CREATE SCHEMA "Odd ""one"; CREATE TABLE "Odd ""one"."select" ("the ""Key" integer, "order" text)')
        conn.execute("""INSERT INTO "Odd ""one"."select" VALUES (1, 'it''s \\ 1'), (1, 'b'), (2, NULL)""")
    coordinator.execute(
        """CREATE FOREIGN TABLE odd (k integer OPTIONS (column_name 'the "Key'), "order" text) SERVER s1
        OPTIONS (schema_name 'Odd "one', table_name 'select')"""
    )
    query = """SELECT k, count("order"), max("order") FILTER (WHERE "order" <> 'b') FROM odd GROUP BY k ORDER BY k"""
    assert "Aggregate on" in plan(coordinator, query)
    assert coordinator.execute(query).fetchall() == [(1, 2, "it's \\ 1"), (2, 0, None)]
    for literal in ("'it''s \\ 1'", "E'it\\'s \\\\ 1'"):
        assert servers.one(coordinator, f'SELECT count(*) FROM odd WHERE "order" = {literal}') == 1
    with members[0].connect() as conn:
        # 19 has no strings of the old kind any more
        if conn.info.server_version < 190000:
            conn.execute(f"ALTER DATABASE {conn.info.dbname} SET standard_conforming_strings = off")
    coordinator.execute("ALTER SERVER s1 OPTIONS (ADD application_name 'again')")
    assert servers.one(coordinator, """SELECT count(*) FROM odd WHERE "order" = 'it''s \\ 1'""") == 1
    coordinator.execute("DROP FOREIGN TABLE odd")
    with members[0].connect() as conn:
        conn.execute(f"ALTER DATABASE {conn.info.dbname} RESET standard_conforming_strings")
        conn.execute('DROP SCHEMA "Odd ""one" CASCADE')


def test_more_scans_of_a_shard_than_connections(coordinator: Connection, members: list[Shard]) -> None:
    shard = members[0]
    with shard.connect() as conn:
        conn.execute("CREATE TABLE parts (p integer, v integer)")
        conn.execute("INSERT INTO parts SELECT i % 20, i FROM generate_series(1, 20000) i")
        for number in range(20):
            conn.execute(f"CREATE VIEW part{number} AS SELECT * FROM parts WHERE p = {number}")
    coordinator.execute("CREATE TABLE parts (p integer, v integer) PARTITION BY LIST (p)")
    for number in range(20):
        coordinator.execute(f"CREATE FOREIGN TABLE part{number} PARTITION OF parts FOR VALUES IN ({number}) SERVER s1")
    query = "SELECT v % 7, count(*), sum(v::bigint) FROM parts GROUP BY 1 ORDER BY 1"
    join = f"SELECT * FROM ({query}) a (k, n, s) JOIN ({query}) b (k, n, s) USING (k)"
    with shard.connect() as conn:
        expected, joined = conn.execute(query).fetchall(), conn.execute(join).fetchall()
    assert plan(coordinator, query).count("Async Foreign Scan") == 20
    for limit in (1, 3, 100):
        coordinator.execute(f"SET pgbillion_rows.shard_connections = {limit}")
        with psycopg.connect(coordinator.info.dsn, autocommit=True) as conn:
            conn.execute(f"SET enable_partitionwise_aggregate = on; SET pgbillion_rows.shard_connections = {limit}")
            before = ours(members)
            assert conn.execute(query).fetchall() == expected
            assert ours(members) - before <= limit
            assert sorted(conn.execute(join).fetchall()) == sorted(joined)
            conn.execute("SET enable_hashjoin = off; SET enable_hashagg = off")
            assert sorted(conn.execute(join).fetchall()) == sorted(joined)
    coordinator.execute("DROP TABLE parts")
    with shard.connect() as conn:
        conn.execute("DROP TABLE parts CASCADE")


def test_cursors_and_savepoints(coordinator: Connection, members: list[Shard]) -> None:
    with coordinator.transaction():
        coordinator.execute("DECLARE c CURSOR FOR " + QUERY)
        assert len(coordinator.execute("FETCH 1 FROM c").fetchall()) == 1
        with pytest.raises(psycopg.errors.DivisionByZero), coordinator.transaction():
            coordinator.execute("SELECT 1 / (count(*) - 999) FROM many")
        assert len(coordinator.execute("FETCH ALL FROM c").fetchall()) == 2
        coordinator.execute("DECLARE d CURSOR WITH HOLD FOR " + QUERY)
    assert len(coordinator.execute("FETCH ALL FROM d").fetchall()) == 3
    coordinator.execute("CLOSE d")


def test_options_are_postgres_fdws(coordinator: Connection) -> None:
    with pytest.raises(psycopg.errors.lookup("HV00D"), match="nonesuch"):
        coordinator.execute("ALTER SERVER s1 OPTIONS (ADD nonesuch '1')")
    coordinator.execute("ALTER SERVER s1 OPTIONS (ADD async_capable 'false')")
    text = plan(coordinator, QUERY)
    assert text.count("Partial Aggregate on") == 2
    assert text.count("Async Foreign Scan") == 1
    assert rows(coordinator) == 999
    coordinator.execute("ALTER FOREIGN TABLE many_1 OPTIONS (ADD table_name 'nonesuch')")
    with pytest.raises(psycopg.errors.UndefinedTable, match=r'server "s2": relation "public\.nonesuch" does not exist'):
        rows(coordinator)
    coordinator.execute("ALTER FOREIGN TABLE many_1 OPTIONS (DROP table_name)")
    assert rows(coordinator) == 999


def test_a_changed_option_closes_the_connection(coordinator: Connection, members: list[Shard]) -> None:
    assert rows(coordinator) == 999
    coordinator.execute("ALTER SERVER s1 OPTIONS (ADD application_name 'renamed')")
    assert rows(coordinator) == 999
    with members[0].connect() as conn:
        assert servers.one(conn, "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'renamed'") == 1
    coordinator.execute("ALTER SERVER s2 OPTIONS (ADD keep_connections 'false', application_name 'brief')")
    assert rows(coordinator) == 999
    with members[1].connect() as conn:
        servers.until(
            lambda: servers.one(conn, "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'brief'") == 0,
            "the end",
        )


def test_explain_connects_to_nothing(coordinator: Connection, members: list[Shard]) -> None:
    before = ours(members)
    coordinator.execute("ALTER SERVER s1 OPTIONS (SET host '/nonesuch')")
    assert plan(coordinator, QUERY).count("Partial Aggregate on") == 2
    with pytest.raises(psycopg.errors.SqlclientUnableToEstablishSqlconnection, match='server "s1"'):
        rows(coordinator)
    assert ours(members) <= before + 1


def test_a_prepared_query_follows_servers_mappings_and_tables(coordinator: Connection, members: list[Shard]) -> None:
    coordinator.execute("SET plan_cache_mode = force_generic_plan; PREPARE q AS SELECT count(*) FROM many")
    socket = members[0].cluster.socket_dir
    changes: list[tuple[str, type[psycopg.Error], str]] = [
        (
            "ALTER SERVER s1 OPTIONS (SET host '/nonesuch')",
            psycopg.errors.SqlclientUnableToEstablishSqlconnection,
            f"ALTER SERVER s1 OPTIONS (SET host '{socket}')",
        ),
        (
            "ALTER USER MAPPING FOR PUBLIC SERVER s1 OPTIONS (SET user 'nobody_at_all')",
            psycopg.errors.SqlclientUnableToEstablishSqlconnection,
            "ALTER USER MAPPING FOR PUBLIC SERVER s1 OPTIONS (SET user 'postgres')",
        ),
        (
            "DROP USER MAPPING FOR PUBLIC SERVER s1",
            psycopg.errors.UndefinedObject,
            "CREATE USER MAPPING FOR PUBLIC SERVER s1 OPTIONS (user 'postgres', password_required 'false')",
        ),
        (
            "ALTER FOREIGN TABLE many_0 OPTIONS (ADD table_name 'nonesuch')",
            psycopg.errors.UndefinedTable,
            "ALTER FOREIGN TABLE many_0 OPTIONS (DROP table_name)",
        ),
    ]
    for change, error, back in changes:
        assert servers.one(coordinator, "EXECUTE q") == 999
        coordinator.execute(change)
        with pytest.raises(error):
            coordinator.execute("EXECUTE q")
        coordinator.execute(back)
        assert servers.one(coordinator, "EXECUTE q") == 999
    # also while a cursor reads from the connection whose options change
    with coordinator.transaction():
        coordinator.execute("DECLARE c CURSOR FOR SELECT i, count(*) FROM many GROUP BY i % 1, i")
        assert len(coordinator.execute("FETCH 3 FROM c").fetchall()) == 3
        coordinator.execute("ALTER SERVER s1 OPTIONS (ADD application_name 'renamed')")
        assert servers.one(coordinator, "EXECUTE q") == 999
        assert len(coordinator.execute("FETCH ALL FROM c").fetchall()) == 996
    assert servers.one(coordinator, "EXECUTE q") == 999


@pytest.mark.parametrize(
    "query",
    [
        "UPDATE here SET w = w + n FROM (SELECT g, count(*) n FROM many GROUP BY g) s WHERE s.g = here.g",
        "UPDATE here SET w = w + (SELECT count(*) FROM many WHERE many.g = here.g)",
        "UPDATE here SET w = w + (SELECT count(*) FROM many_0 m WHERE m.g = here.g)"
        " + (SELECT count(*) FROM many_1 m WHERE m.g = here.g) WHERE (SELECT count(*) FROM many) > w",
    ],
)
def test_a_row_that_another_session_has_changed_is_checked_again(
    cluster: Cluster, coordinator: Connection, query: str
) -> None:
    coordinator.execute("CREATE TABLE here (g integer, w bigint); INSERT INTO here VALUES (0, 0), (1, 0), (2, 0)")
    database = coordinator.info.dbname
    try:
        with cluster.connect(database) as other, cluster.connect(database, autocommit=False) as first:
            other.execute("SET enable_partitionwise_aggregate = on")
            assert "Aggregate on" in plan(other, query)
            first.execute("UPDATE here SET w = w + 1000000 WHERE g = 1; UPDATE here SET w = 7 WHERE g = 2")
            thread = threading.Thread(target=lambda: other.execute(query))
            thread.start()
            waits = "SELECT count(*) FROM pg_stat_activity WHERE pid = %s AND wait_event_type = 'Lock'"
            servers.until(lambda: servers.one(coordinator, waits, other.info.backend_pid) > 0, "the update to wait")
            first.commit()
            thread.join(60)
            assert not thread.is_alive()
        seen: dict[int, int] = dict(coordinator.execute("SELECT g, w FROM here").fetchall())
        # 333 rows each; the last query leaves out the row that has become too large
        assert seen == {0: 333, 1: 1000000 + (0 if "> w" in query else 333), 2: 340}
    finally:
        coordinator.execute("DROP TABLE here")


def test_an_error_that_is_caught_ends_the_work_of_the_shards(coordinator: Connection, members: list[Shard]) -> None:
    def busy() -> int:
        total = 0
        for shard in members:
            with shard.connect() as conn:
                total += servers.one(conn, OURS + " AND state <> 'idle'")
        return total

    caught = """DO $$ BEGIN FOR k IN 1..10 LOOP
        BEGIN PERFORM 1 / (n - 1) FROM (SELECT i, count(*) n FROM many GROUP BY i % 1, i) s;
        EXCEPTION WHEN division_by_zero THEN NULL; END;
        BEGIN PERFORM sum(1 / (i - 5)) FROM many; EXCEPTION WHEN division_by_zero THEN NULL; END;
        END LOOP; END $$"""
    with coordinator.transaction():
        coordinator.execute(caught)
        # in the middle of the transaction
        servers.until(lambda: busy() == 0, "the shards to be idle")
        assert rows(coordinator) == 999
    assert ours(members) <= 4


def test_a_schema_that_differs_is_an_error(coordinator: Connection, members: list[Shard]) -> None:
    with members[1].connect() as conn:
        conn.execute("ALTER TABLE many_1 ALTER COLUMN g TYPE bigint")
        with pytest.raises(
            psycopg.errors.lookup("HV004"), match='server "s2" returned type bigint for column 1 instead of integer'
        ):
            rows(coordinator)
        conn.execute("ALTER TABLE many_1 RENAME COLUMN g TO h")
        with pytest.raises(psycopg.errors.UndefinedColumn, match='server "s2": column "g" does not exist'):
            rows(coordinator)
        conn.execute("ALTER TABLE many_1 RENAME COLUMN h TO g; ALTER TABLE many_1 ALTER COLUMN g TYPE integer")
    assert rows(coordinator) == 999
    with members[0].connect() as conn:
        conn.execute("DROP EXTENSION pgbillion_rows")
        with pytest.raises(
            psycopg.errors.FdwError, match='server "s1": extension pgbillion_rows is not installed'
        ) as caught:
            rows(coordinator)
        assert "create the extension pgbillion_rows" in (caught.value.diag.message_hint or "")
        conn.execute("CREATE EXTENSION pgbillion_rows")
    assert rows(coordinator) == 999


def test_explain_analyze_tells_of_each_shard(coordinator: Connection) -> None:
    text = plan(coordinator, QUERY, "ANALYZE, VERBOSE")
    assert text.count("Remote SQL: SELECT g, count(*), pgbillion_rows.partial_sum((i)::bigint) FROM public.many_") == 2
    assert text.count("Shard: s1  Time: ") == text.count("Shard: s2  Time: ") == 1
    assert text.count("  Rows: 3  Bytes: ") == 2
    assert "Time:" not in plan(coordinator, QUERY, "ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF")
    row = coordinator.execute("EXPLAIN (ANALYZE, FORMAT JSON) " + QUERY).fetchone()
    assert row is not None
    assert '"Shard Rows": 3' in json.dumps(row[0])


def test_a_tree_of_servers(cluster: Cluster, database: str, members: list[Shard]) -> None:
    """The root's shards are coordinators; states are combined on both levels."""
    with (
        shards([cluster] * 2, f"{database}_m") as middle,
        cluster.connect(database) as root,
        cluster.connect(database) as here,
    ):
        columns = "i integer, g integer, b bigint, n numeric, f float8, t text"
        for shard, leaf in zip(middle, members, strict=True):
            with shard.connect() as conn:
                # on 'f': rows of either half
                make_coordinator(conn, members)
                conn.execute(f"CREATE TABLE tree_{shard.name} ({columns}) PARTITION BY LIST (g)")
                for number, each in enumerate(members):
                    name = f"leaf_{shard.name}_{number}"
                    with each.connect() as there:
                        there.execute(f"CREATE TABLE {name} ({columns})")
                    groups = ", ".join(str(g) for g in range(10) if g % 2 == number)
                    conn.execute(
                        f"CREATE FOREIGN TABLE {name} PARTITION OF tree_{shard.name} FOR VALUES IN ({groups}) SERVER"
                        f" {each.name}"
                    )
                assert leaf in members
        make_coordinator(root, middle)
        root.execute(f"CREATE TABLE tree ({columns}) PARTITION BY HASH (i); CREATE TABLE flat ({columns})")
        for number, shard in enumerate(middle):
            root.execute(
                f"CREATE FOREIGN TABLE tree_{number} PARTITION OF tree FOR VALUES WITH (MODULUS 2, REMAINDER"
                f" {number}) SERVER {shard.name} OPTIONS (table_name 'tree_{shard.name}')"
            )
        root.execute(
            "INSERT INTO flat SELECT i, i % 10, i * 1000, i / 7.0, i, 'x' || i % 5 FROM generate_series(1, 2000) i;"
            " INSERT INTO tree SELECT * FROM flat"
        )
        query = (
            "SELECT t, count(*), sum(b), avg(n), avg(i), stddev(n), max(f), regr_slope(f, f) FROM {} GROUP BY t ORDER"
            " BY t"
        )
        here.execute("SET enable_partitionwise_aggregate = on")
        assert plan(here, query.format("tree")).count("Partial Aggregate on") == 2
        with middle[0].connect() as conn:
            conn.execute("SET enable_partitionwise_aggregate = on")
            remote = (
                "SELECT t, count(*), pgbillion_rows.partial_sum(b), pgbillion_rows.partial_avg(n),"
                " pgbillion_rows.partial_stddev(n) FROM"
                " tree_s1 GROUP BY t"
            )
            text = plan(conn, remote)
            assert text.count("Partial Aggregate on") == 2
            assert "pgbillion_rows.partial_avg((n)::numeric)" in text
        assert here.execute(query.format("tree")).fetchall() == here.execute(query.format("flat")).fetchall()
        root.execute("DROP TABLE tree, flat; DROP SERVER s1 CASCADE; DROP SERVER s2 CASCADE")


def test_passwords(installation: Installation) -> None:
    """Rules of postgres_fdw: who is no superuser must give a password, and the shard must ask for it."""
    with servers.new_cluster(installation) as cluster:
        hba = cluster.data / "pg_hba.conf"
        hba.write_text("local trusting all trust\nlocal all asked scram-sha-256\nlocal all all trust\n")
        with cluster.connect() as conn:
            conn.execute("CREATE EXTENSION pgbillion_rows; SELECT pg_reload_conf()")
            conn.execute("CREATE ROLE asked LOGIN PASSWORD 'right'")
            conn.execute("CREATE ROLE plain LOGIN")
            conn.execute(
                "CREATE TABLE far (i integer); INSERT INTO far SELECT generate_series(1, 5); GRANT SELECT ON far TO"
                " asked"
            )
            conn.execute(
                sql.SQL(
                    "CREATE SERVER s1 FOREIGN DATA WRAPPER pgbillion_fdw OPTIONS (host {}, port '5432', dbname"
                    " 'postgres')"
                ).format(sql.Literal(str(cluster.socket_dir)))
            )
            conn.execute(
                "CREATE FOREIGN TABLE near (i integer) SERVER s1 OPTIONS (table_name 'far'); GRANT SELECT ON near TO"
                " plain"
            )
            conn.execute("CREATE USER MAPPING FOR plain SERVER s1 OPTIONS (user 'asked', password 'wrong')")
        query = "SELECT count(*) FROM near"

        def ask() -> object:
            with psycopg.connect(make_conninfo(cluster.conninfo(), user="plain"), autocommit=True) as plain:
                assert "Aggregate on" in plan(plain, query)
                return servers.one(plain, query)

        servers.until(lambda: refused(cluster, "asked"), "the server to ask for passwords")
        with cluster.connect() as conn:
            with pytest.raises(
                psycopg.errors.SqlclientUnableToEstablishSqlconnection, match='could not connect to server "s1"'
            ) as caught:
                ask()
            assert "password authentication failed" in (caught.value.diag.message_detail or "")
            conn.execute("ALTER USER MAPPING FOR plain SERVER s1 OPTIONS (SET password 'right')")
            assert ask() == 5
            conn.execute("ALTER USER MAPPING FOR plain SERVER s1 OPTIONS (DROP password)")
            with pytest.raises(psycopg.errors.lookup("2F003"), match="password"):
                ask()
            # a shard that lets everybody in: the password was not what opened it
            conn.execute("ALTER USER MAPPING FOR plain SERVER s1 OPTIONS (ADD password 'right', SET user 'postgres')")
            with pytest.raises(psycopg.errors.lookup("2F003"), match="password"):
                ask()
            conn.execute("ALTER USER MAPPING FOR plain SERVER s1 OPTIONS (ADD password_required 'false')")
            assert ask() == 5


def refused(cluster: Cluster, user: str) -> bool:
    """Whether this user is asked for a password: the server reads pg_hba.conf some time after it is told to."""
    try:
        psycopg.connect(make_conninfo(cluster.conninfo(), user=user)).close()
    except psycopg.OperationalError:
        return True
    return False


@pytest.mark.parametrize("option", ["password_required 'false'", "sslkey 'k'", "sslcert 'c'"])
def test_only_superusers_let_others_do_without_a_password(coordinator: Connection, option: str) -> None:
    """Else who owns a server would reach what the coordinator's own account reaches."""
    database = coordinator.info.dbname
    coordinator.execute("CREATE ROLE stranger; GRANT USAGE ON FOREIGN DATA WRAPPER pgbillion_fdw TO stranger")
    try:
        coordinator.execute("SET ROLE stranger")
        options = f"host '{coordinator.info.host}', port '{coordinator.info.port}', dbname '{database}'"
        coordinator.execute(f"CREATE SERVER theirs FOREIGN DATA WRAPPER pgbillion_fdw OPTIONS ({options})".encode())
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="superuser-only"):
            coordinator.execute(f"CREATE USER MAPPING FOR stranger SERVER theirs OPTIONS ({option})".encode())
        coordinator.execute("CREATE USER MAPPING FOR stranger SERVER theirs OPTIONS (user 'postgres')")
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="superuser-only"):
            coordinator.execute(f"ALTER USER MAPPING FOR stranger SERVER theirs OPTIONS (ADD {option})".encode())
        coordinator.execute("CREATE FOREIGN TABLE pg_temp.near (i integer) SERVER theirs OPTIONS (table_name 'many')")
        with pytest.raises(psycopg.errors.lookup("2F003"), match="password"):
            coordinator.execute("SELECT count(*) FROM pg_temp.near")
    finally:
        coordinator.execute("RESET ROLE; DROP OWNED BY stranger; DROP ROLE stranger")


def test_a_password_from_a_file(installation: Installation) -> None:
    """Which server refuses is told, the secret is not: neither to the client nor to the log."""
    with servers.new_cluster(installation) as cluster:
        hba = cluster.data / "pg_hba.conf"
        hba.write_text("local all asked scram-sha-256\nlocal all all trust\n")
        passfile = cluster.data / "passfile"

        def give(secret: str) -> None:
            passfile.write_text(f"*:*:*:asked:{secret}\n")
            passfile.chmod(0o600)
            shutil.chown(passfile, hba.owner(), hba.group())

        with cluster.connect() as conn:
            conn.execute("SELECT pg_reload_conf(); CREATE EXTENSION pgbillion_rows; CREATE ROLE asked LOGIN")
            conn.execute("ALTER ROLE asked PASSWORD 'open-sesame'; SET log_min_messages = debug1")
            conn.execute("CREATE TABLE far (i integer); INSERT INTO far SELECT generate_series(1, 5)")
            conn.execute("GRANT SELECT ON far TO asked")
            options = f"host '{cluster.socket_dir}', port '5432', dbname 'postgres', passfile '{passfile}'"
            conn.execute(f"CREATE SERVER s1 FOREIGN DATA WRAPPER pgbillion_fdw OPTIONS ({options})")
            conn.execute("CREATE USER MAPPING FOR PUBLIC SERVER s1 OPTIONS (user 'asked')")
            conn.execute("CREATE FOREIGN TABLE near (i integer) SERVER s1 OPTIONS (table_name 'far')")
            servers.until(lambda: refused(cluster, "asked"), "the server to ask for passwords")
            query = "SELECT count(*) FROM near"
            assert "Aggregate on" in plan(conn, query)
            for secret in ("open-barley", "never-told"):
                give(secret)
                with pytest.raises(
                    psycopg.errors.SqlclientUnableToEstablishSqlconnection, match='could not connect to server "s1"'
                ) as caught:
                    conn.execute(query)
                said = caught.value.diag
                assert 'password authentication failed for user "asked"' in (said.message_detail or "")
                everything = f"{caught.value} {said.message_hint} {said.context} {cluster.log.read_text()}"
                assert secret not in everything
            give("open-sesame")
            assert servers.one(conn, query) == 5
            assert "open-sesame" not in cluster.log.read_text()


def test_a_view_reads_with_its_owners_mapping(coordinator: Connection) -> None:
    coordinator.execute(
        "CREATE ROLE viewer; CREATE VIEW counted AS SELECT g, count(*) FROM many GROUP BY g; GRANT SELECT ON counted"
        " TO viewer"
    )
    try:
        expected = coordinator.execute("SELECT * FROM counted ORDER BY 1").fetchall()
        coordinator.execute("CREATE USER MAPPING FOR viewer SERVER s1 OPTIONS (user 'nobody_at_all')")
        coordinator.execute("SET ROLE viewer")
        assert "Partial Aggregate on" in plan(coordinator, "SELECT * FROM counted")
        assert coordinator.execute("SELECT * FROM counted ORDER BY 1").fetchall() == expected
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            coordinator.execute(QUERY)
    finally:
        coordinator.execute("RESET ROLE; DROP VIEW counted; DROP USER MAPPING FOR viewer SERVER s1; DROP ROLE viewer")

"""`pgbillion shards convert`: the script that makes foreign servers anew with the other wrapper."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from harness import servers
from harness.command_line import command_line
from harness.shards import Shard, make_coordinator, plan, shard_table, shards
from pgbillion.common.connection import Connection
from pgbillion.common.errors import UserError
from pgbillion.server.postgres import Cluster
from pgbillion.shards.convert import Wrapper, script

QUERY = "SELECT g, count(*), sum(i::bigint) FROM many GROUP BY g ORDER BY g"
ROLES = ("conv_owner", "conv_reader")
# everything about the servers except their wrapper and OIDs
DEFINITIONS = """
SELECT 'server', srvname, srvtype, srvversion, srvoptions::text, srvowner::regrole::text, srvacl::text,
       obj_description(oid, 'pg_foreign_server')
  FROM pg_foreign_server
UNION ALL
SELECT 'mapping', srvname, usename, umoptions::text, NULL, NULL, NULL, NULL FROM pg_user_mappings
UNION ALL
SELECT 'table', c.oid::regclass::text, srvname, ftoptions::text, relowner::regrole::text, relacl::text,
       pg_get_expr(relpartbound, c.oid), obj_description(c.oid, 'pg_class')
  FROM pg_foreign_table JOIN pg_class c ON c.oid = ftrelid JOIN pg_foreign_server s ON s.oid = ftserver
UNION ALL
SELECT 'column', attrelid::regclass::text, attnum::text, attname, format_type(atttypid, atttypmod),
       concat_ws('|', attnotnull, attcollation, attislocal, attinhcount, attgenerated, attfdwoptions),
       pg_get_expr(adbin, adrelid), col_description(attrelid, attnum)
  FROM pg_attribute LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
 WHERE attrelid IN (SELECT ftrelid FROM pg_foreign_table) AND attnum > 0
UNION ALL
SELECT 'constraint', conrelid::regclass::text, conname, pg_get_constraintdef(oid), conislocal::text,
       coninhcount::text, convalidated::text, NULL
  FROM pg_constraint WHERE conrelid IN (SELECT ftrelid FROM pg_foreign_table)
 ORDER BY 1, 2, 3
"""


@pytest.fixture(scope="module")
def members(cluster: Cluster, database: str) -> Iterator[list[Shard]]:
    with shards([cluster] * 2, database) as made:
        yield made


@pytest.fixture
def coordinator(cluster: Cluster, database: str, members: list[Shard]) -> Iterator[Connection]:
    with cluster.connect(database) as conn:
        for role in ROLES:
            conn.execute(f"CREATE ROLE {role}".encode())
        make_coordinator(conn, members, "postgres_fdw")
        shard_table(conn, members, "many", "i integer, g integer")
        conn.execute("INSERT INTO many SELECT i, i % 3 FROM generate_series(1, 999) i")
        try:
            # what was written is forgotten with the session
            with cluster.connect(database) as fresh:
                fresh.execute("SET enable_partitionwise_aggregate = on")
                yield fresh
        finally:
            conn.execute("DROP TABLE many CASCADE; DROP SERVER s1 CASCADE; DROP SERVER s2 CASCADE")
            for member in members:
                with member.connect() as there:
                    there.execute("DROP TABLE IF EXISTS many_0, many_1")
            for role in ROLES:
                conn.execute(f"DROP OWNED BY {role}; DROP ROLE {role}".encode())


def run(conn: Connection, wrapper: Wrapper, *names: str) -> None:
    """Print the script, and run it as psql does."""
    conn.execute(script(conn, names, wrapper).encode())


def test_there_and_back_leaves_every_definition(coordinator: Connection) -> None:
    coordinator.execute(
        """
        ALTER SERVER s1 OPTIONS (ADD fetch_size '500');
        COMMENT ON SERVER s1 IS 'the first''s; of "two"';
        GRANT USAGE ON FOREIGN SERVER s1 TO conv_reader WITH GRANT OPTION;
        GRANT USAGE ON FOREIGN SERVER s2 TO PUBLIC;
        GRANT USAGE ON FOREIGN DATA WRAPPER postgres_fdw, pgbillion_fdw TO conv_owner;
        CREATE USER MAPPING FOR conv_reader SERVER s1 OPTIONS (user 'x', password 'it''s');
        CREATE SERVER "S 3" TYPE 'odd' VERSION '1.2' FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host 'nowhere');
        CREATE DOMAIN public.small AS integer CHECK (VALUE < 100);
        CREATE SCHEMA "Odd";
        CREATE FOREIGN TABLE "Odd"."T" (
            gone integer, a public.small OPTIONS (column_name 'A''') NOT NULL, "B" numeric(10, 2) DEFAULT 1.5,
            c text COLLATE "C" DEFAULT 'x;y', d text[], e integer GENERATED ALWAYS AS ("a" * 2) STORED,
            CONSTRAINT "positive a" CHECK (a > 0) NO INHERIT
        ) SERVER "S 3" OPTIONS (table_name 'there', fetch_size '7');
        ALTER FOREIGN TABLE "Odd"."T" DROP COLUMN gone;
        COMMENT ON FOREIGN TABLE "Odd"."T" IS 'odd';
        COMMENT ON COLUMN "Odd"."T".c IS 'a column''s';
        COMMENT ON FOREIGN TABLE many_0 IS 'partition';
        GRANT SELECT, INSERT ON "Odd"."T" TO conv_reader;
        GRANT SELECT ON many_1 TO PUBLIC;
        ALTER FOREIGN TABLE many_1 OPTIONS (ADD table_name 'many_1');
        ALTER TABLE many ADD CONSTRAINT nearby CHECK (g < 10);
        ALTER SERVER s2 OWNER TO conv_owner;
        """
    )
    # a column that is gone stays behind in the first table's numbers alone
    run(coordinator, Wrapper.OURS)
    assert _wrappers(coordinator) == {"pgbillion_fdw"}
    ours = coordinator.execute(DEFINITIONS).fetchall()
    assert len(ours) > 15
    run(coordinator, Wrapper.POSTGRES)
    assert _wrappers(coordinator) == {"postgres_fdw"}
    assert coordinator.execute(DEFINITIONS).fetchall() == ours
    coordinator.execute('DROP SCHEMA "Odd" CASCADE; DROP SERVER "S 3"; DROP DOMAIN public.small')


def test_the_definitions_are_those_that_there_were(coordinator: Connection) -> None:
    coordinator.execute("COMMENT ON FOREIGN TABLE many_0 IS 'x'; GRANT SELECT ON many_0 TO conv_reader")
    before = coordinator.execute(DEFINITIONS).fetchall()
    run(coordinator, Wrapper.OURS)
    assert coordinator.execute(DEFINITIONS).fetchall() == before


def test_open_sessions_see_it_with_their_next_statement(cluster: Cluster, coordinator: Connection) -> None:
    with cluster.connect(coordinator.info.dbname) as other:
        other.execute("SET enable_partitionwise_aggregate = on; PREPARE q AS " + QUERY)
        expected = other.execute("EXECUTE q").fetchall()
        assert "Partial Aggregate on" not in plan(other, "EXECUTE q")
        run(coordinator, Wrapper.OURS, "s1")
        assert plan(other, QUERY).count("Partial Aggregate on") == 1
        run(coordinator, Wrapper.OURS)
        assert plan(other, "EXECUTE q").count("Partial Aggregate on") == 2
        assert other.execute("EXECUTE q").fetchall() == expected
        run(coordinator, Wrapper.POSTGRES)
        assert "Partial Aggregate on" not in plan(other, "EXECUTE q")
        assert other.execute("EXECUTE q").fetchall() == expected


def test_what_depends_on_a_table_is_not_lost(coordinator: Connection) -> None:
    coordinator.execute("CREATE VIEW seen AS SELECT * FROM many_0")
    with pytest.raises(psycopg.errors.DependentObjectsStillExist, match="many_0"):
        run(coordinator, Wrapper.OURS)
    coordinator.execute("ROLLBACK")
    assert _wrappers(coordinator) == {"postgres_fdw"}
    assert servers.one(coordinator, "SELECT count(*) FROM seen") > 0
    coordinator.execute("DROP VIEW seen")


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (
            "CREATE TRIGGER t BEFORE INSERT ON many_0 EXECUTE FUNCTION suppress_redundant_updates_trigger()",
            "trigger t",
        ),
        ("CREATE STATISTICS st ON i, g FROM many_0", "statistics object st"),
        ("GRANT SELECT (g) ON many_0 TO conv_reader", "privileges on column g"),
        ("ALTER FOREIGN TABLE many_0 ALTER g SET (n_distinct = 3)", "options of column g"),
        ("CREATE TABLE parent (i integer); CREATE FOREIGN TABLE child () INHERITS (parent) SERVER s1", "parent parent"),
    ],
)
def test_what_the_script_would_lack_is_refused(coordinator: Connection, change: str, what: str) -> None:
    coordinator.execute(change.encode())
    try:
        with pytest.raises(UserError, match=f"has {what.replace('parent parent', 'parent .*parent')}, which"):
            script(coordinator, ["s1"], Wrapper.OURS)
        assert "CREATE SERVER s2" in script(coordinator, ["s2"], Wrapper.OURS)
    finally:
        coordinator.execute("DROP TABLE IF EXISTS parent CASCADE")


def test_servers_that_are_not_there(coordinator: Connection) -> None:
    with pytest.raises(UserError, match='no foreign server "nonesuch" of postgres_fdw'):
        script(coordinator, ["s1", "nonesuch"], Wrapper.OURS)
    with pytest.raises(UserError, match='no foreign server "s1" of pgbillion_fdw'):
        script(coordinator, ["s1"], Wrapper.POSTGRES)
    with pytest.raises(UserError, match="owns no foreign server of pgbillion_fdw"):
        script(coordinator, [], Wrapper.POSTGRES)


def test_mappings_that_cannot_be_seen_are_refused(coordinator: Connection) -> None:
    coordinator.execute(
        "GRANT USAGE ON FOREIGN DATA WRAPPER postgres_fdw TO conv_owner; ALTER SERVER s1 OWNER TO conv_owner;"
        " CREATE USER MAPPING FOR conv_reader SERVER s1 OPTIONS (user 'x', password 'secret'); SET ROLE conv_owner"
    )
    with pytest.raises(UserError, match="may not see the user mapping of conv_reader"):
        script(coordinator, [], Wrapper.OURS)
    coordinator.execute("RESET ROLE")


def test_the_command_prints_it(cluster: Cluster, coordinator: Connection) -> None:
    with command_line(cluster, coordinator.info.dbname) as cli:
        printed = cli.run("shards", "convert", "s1", check=True).stdout
        assert [line for line in printed.splitlines() if line.startswith("CREATE")] == [
            line for line in script(coordinator, ["s1"], Wrapper.OURS).splitlines() if line.startswith("CREATE")
        ]
        assert printed.startswith("-- Servers of postgres_fdw made anew as servers of pgbillion_fdw")
        done = cli.run("shards", "convert", "--to", "postgres_fdw")
    assert done.returncode == 1
    assert "owns no foreign server of pgbillion_fdw" in done.stderr


def _wrappers(conn: Connection) -> set[str]:
    query = "SELECT fdwname FROM pg_foreign_server s JOIN pg_foreign_data_wrapper w ON w.oid = s.srvfdw"
    return {name for (name,) in conn.execute(query.encode())}

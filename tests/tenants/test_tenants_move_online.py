"""`pgbillion tenants move --online`: a tenant that clients write to, into another database."""

from __future__ import annotations

import contextlib
import json
import signal
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from harness import killed_move, schemas, servers, tenant_clients
from harness.amount import amount
from harness.command_line import CommandLine, command_line, failed
from harness.servers import one
from harness.unknown_to_pg_dump import REFUSED, UNKNOWN_TO_PG_DUMP
from pgbillion.common.connection import Connection
from pgbillion.common.errors import UserError
from pgbillion.common.target import Target
from pgbillion.server.postgres import Cluster, Installation
from pgbillion.tenants import journal, move_online
from test_tenants_move import EVALUATED, GRAB, ODD, TRAP, named

OTHER = "elsewhere"
CLIENTS = 8
SETTINGS = {"wal_level": "logical", "max_connections": "60", "wal_retrieve_retry_interval": "500ms"}
TENANT = """
    CREATE TABLE a (i serial PRIMARY KEY, t text);
    CREATE TABLE b (a integer REFERENCES a, code char(2) REFERENCES outside.country);
    CREATE VIEW v AS TABLE a;
    CREATE MATERIALIZED VIEW m AS SELECT count(*) FROM a;
    CREATE FUNCTION f() RETURNS integer LANGUAGE sql AS 'SELECT 1';
    INSERT INTO a (t) SELECT repeat('x', g) FROM generate_series(1, 200) g;
    INSERT INTO b SELECT i FROM a;
"""


@pytest.fixture(scope="module")
def logical(installation: Installation) -> Iterator[Cluster]:
    """A server that can replicate."""
    with servers.new_cluster(installation, SETTINGS) as cluster:
        with cluster.connect() as conn:
            servers.make_shared_objects(conn)
        yield cluster


@pytest.fixture
def cli(logical: Cluster) -> Iterator[CommandLine]:
    """Two databases with what is outside of tenants, one of which has a tenant; nothing is left of replication."""
    with (
        servers.new_database(logical, "tenants") as database,
        servers.new_database(logical, OTHER),
        command_line(logical, database) as made,
    ):
        with made.connect() as conn:
            schemas.make_outside(conn)
            schemas.make_schema(conn, "tenant", TENANT)
        with logical.connect(OTHER) as conn:
            schemas.make_outside(conn)
        yield made
        assert left(made) == []


def left(cli: CommandLine) -> list[str]:
    """What there is of replication in both databases."""
    query = (
        "SELECT 'publication ' || pubname FROM pg_publication UNION ALL SELECT 'slot ' || slot_name FROM"
        " pg_replication_slots UNION ALL SELECT 'subscription ' || subname FROM pg_subscription"
        " UNION ALL SELECT 'origin ' || roname FROM pg_replication_origin"
        " UNION ALL SELECT 'replica identity of ' || oid::regclass FROM pg_class WHERE relreplident = 'f'"
        " AND relnamespace = to_regnamespace('tenant')"
    )
    found = []
    for database in (cli.database, OTHER):
        with cli.cluster.connect(database) as conn:
            found += [what for (what,) in conn.execute(query)]
    return found


def target(cli: CommandLine, database: str | None = None) -> Target:
    return Target(cli.cluster.conninfo(database or cli.database), "the test's")


def has(conn: Connection, schema: str = "tenant") -> bool:
    return bool(one(conn, "SELECT to_regnamespace(quote_ident(%s)) IS NOT NULL", schema))


def run(
    cli: CommandLine, schema: str = "tenant", *, say: Callable[[str], None] = lambda line: None, **options: Any
) -> move_online.Outcome:
    return move_online.run(target(cli), target(cli, OTHER), move_online.Request(schema, **options), say=say)


def test_a_moved_tenant_goes_on_where_it_was(cli: CommandLine) -> None:
    cli.run("tenants", "migrate", "tenant", "-c", "ALTER TABLE a ADD COLUMN c integer", check=True)
    done = cli.json("tenants", "move", "tenant", "--to", OTHER, "--online")
    assert (done["tables"], done["rows"], done["dropped"], done["kept"]) == (2, 400, False, "tenant_moved")
    with cli.connect() as conn, cli.cluster.connect(OTHER) as other:
        assert (has(conn), has(conn, "tenant_moved"), has(other)) == (False, True, True)
        assert one(other, "SELECT sum(length(t)) FROM tenant.v") == 200 * 201 / 2
        assert one(other, "INSERT INTO tenant.a (t) VALUES ('y') RETURNING i") == 201
        assert one(other, "SELECT count FROM tenant.m") == 200
        assert one(conn, "SELECT tenant FROM pgbillion_journal.migration") == "tenant_moved"
        assert one(other, "SELECT tenant FROM pgbillion_journal.migration") == "tenant"


# what replication leaves out, and what has to be done before
REFUSED_ONLINE = {**REFUSED, "storage": "the table fast is unlogged"}


@pytest.mark.majors
@pytest.mark.parametrize("kind", [*schemas.KINDS, "worded"])
def test_every_kind_of_object_can_be_moved(cli: CommandLine, kind: str) -> None:
    name = f'Odd "{kind}.*'
    with cli.connect() as conn:
        schemas.make_schema(conn, name, schemas.KINDS.get(kind, schemas.WORDED))
        if kind in UNKNOWN_TO_PG_DUMP:
            conn.execute(sql.SQL("SET search_path = {}").format(sql.Identifier(name)))
            conn.execute(UNKNOWN_TO_PG_DUMP[kind].encode())
        before = identities(conn, name)
    if kind in REFUSED_ONLINE:
        with pytest.raises(UserError, match=REFUSED_ONLINE[kind]):
            run(cli, name)
        with cli.connect() as conn, cli.cluster.connect(OTHER) as other:
            assert (has(conn, name), has(other, name), identities(conn, name)) == (True, False, before)
        if kind != "storage":
            return
        with cli.connect() as conn:
            conn.execute(sql.SQL("SET search_path = {}").format(sql.Identifier(name)))
            conn.execute("ALTER TABLE fast SET LOGGED; ALTER TABLE unlogged SET LOGGED; ALTER TABLE logged SET LOGGED")
            before = identities(conn, name)
    run(cli, name)
    with cli.connect() as conn, cli.cluster.connect(OTHER) as other:
        assert (has(conn, name), has(other, name)) == (False, True)
        assert identities(conn, f"{name}_moved") == before
        assert identities(other, name) == before
        assert triggers(other, name) == triggers(conn, f"{name}_moved")


def identities(conn: Connection, schema: str) -> list[Any]:
    """The replica identities of tables."""
    query = "SELECT relname, relreplident FROM pg_class WHERE relnamespace = quote_ident(%s)::regnamespace ORDER BY 1"
    return conn.execute(query, [schema]).fetchall()


def triggers(conn: Connection, schema: str) -> list[Any]:
    """Which triggers are enabled, and how."""
    query = (
        "SELECT relname, tgname, tgenabled FROM pg_trigger t JOIN pg_class c ON c.oid = tgrelid"
        " WHERE relnamespace = quote_ident(%s)::regnamespace AND NOT tgisinternal ORDER BY 1, 2"
    )
    return conn.execute(query, [schema]).fetchall()


def test_no_row_is_lost_or_twice_under_load(cli: CommandLine, tell: Callable[[str], None]) -> None:
    """Clients write all the time, and go where the tenant is; it moves to and fro."""
    with cli.connect() as conn:
        conn.execute("DROP SCHEMA tenant CASCADE")
        schemas.make_schema(conn, "tenant", tenant_clients.TABLES.format(last=CLIENTS - 1, rows=20_000))
    databases = [cli.database, OTHER]
    blocked = []
    with tenant_clients.writing(
        CLIENTS, "tenant", [make_conninfo(cli.cluster.conninfo(one)) for one in databases]
    ) as clients:
        for number in range(amount("PGBILLION_MOVES", 4)):
            here, there = databases[number % 2], databases[1 - number % 2]
            request = move_online.Request("tenant", drop=number % 2 == 0)
            done = move_online.run(target(cli, here), target(cli, there), request, say=lambda line: None)
            blocked.append(done.blocked_ms)
            with cli.cluster.connect(here) as conn:
                conn.execute("DROP SCHEMA IF EXISTS tenant_moved CASCADE")
            before = [client.done for client in clients]
            servers.until(
                lambda: all(client.done > done for client, done in zip(clients, before, strict=True)),  # noqa: B023
                "all clients to go on",
            )
    with cli.cluster.connect(there) as conn:
        assert tenant_clients.differences(conn, "tenant", clients) == []
    tell(
        f"blocked for {', '.join(f'{one:.0f}' for one in blocked)} ms; {sum(client.done for client in clients)}"
        f" transactions, the longest pause of a client {max(client.paused for client in clients) * 1000:.0f} ms"
    )


def test_a_killed_move_is_taken_back_or_finished(cli: CommandLine, tell: Callable[[str], None]) -> None:
    """Wherever it is killed, the next command leaves the tenant in one place, with all rows, and nothing else."""
    with cli.connect() as conn:
        conn.execute("DROP SCHEMA tenant CASCADE")
        schemas.make_schema(conn, "tenant", tenant_clients.TABLES.format(last=1, rows=100))
        conn.execute("CREATE MATERIALIZED VIEW tenant.m AS SELECT count(*) FROM tenant.item")
        journal.make(conn)
    databases = [cli.database, OTHER]
    conninfos = [make_conninfo(cli.cluster.conninfo(one)) for one in databases]
    at = 0
    with tenant_clients.writing(2, "tenant", conninfos) as clients:
        recorded = killed_move.run("tenant", *conninfos, drop=True, record=True)
        assert recorded.returncode == 0, recorded.stderr
        places = json.loads(recorded.stdout)
        at = 1
        steps = [(when, place) for place in places for when in ("before", "after")]
        kills = amount("PGBILLION_MOVE_KILLS", 50, 5)
        moved = 0
        for number in range(kills):
            when, place = steps[number * len(steps) // kills]
            here, there = conninfos[at], conninfos[1 - at]
            drop = number % 3 > 0
            killed = killed_move.run("tenant", here, there, drop=drop, **{when: place})
            assert killed.returncode in (-signal.SIGKILL, 0), killed.stderr
            source, goal = Target(here, "here"), Target(there, "there")
            if number % 2:
                move_online.clear(source, goal, "tenant", say=lambda line: None)
            else:
                with contextlib.suppress(UserError):
                    # where it was before, or it has gone already
                    move_online.run(source, goal, move_online.Request("tenant", drop=drop), say=lambda line: None)
            assert left(cli) == [], (when, place)
            with psycopg.connect(here) as conn, psycopg.connect(there) as other:
                assert has(conn) != has(other), (when, place)
                if has(other):
                    at, moved = 1 - at, moved + 1
                conn.execute("DROP SCHEMA IF EXISTS tenant_moved CASCADE")
            done = [client.done for client in clients]
            servers.until(
                lambda: all(client.done > before for client, before in zip(clients, done, strict=True)),  # noqa: B023
                "the clients to go on",
            )
    with psycopg.connect(conninfos[at]) as conn:
        assert tenant_clients.differences(conn, "tenant", clients) == []
    tell(f"{kills} kills at {len(steps)} places, {moved} moves happened")


ONLINE = ("--to", OTHER, "--online")
IS_SUPER = "SELECT rolsuper FROM pg_roles WHERE rolname = 'eve'"


@contextlib.contextmanager
def eves_tenant(
    cli: CommandLine, schema: str, *commands: sql.SQL | sql.Composed
) -> Iterator[tuple[Connection, Connection]]:
    """A tenant of a role that would like to be superuser; and sessions in both databases."""
    with cli.connect() as conn, cli.cluster.connect(OTHER) as other:
        conn.execute("CREATE ROLE eve LOGIN")
        try:
            conn.execute(sql.SQL("CREATE SCHEMA {} AUTHORIZATION eve").format(sql.Identifier(schema)))
            # not by SET ROLE, which its code could take back here
            with psycopg.connect(make_conninfo(cli.conninfo, user="eve"), autocommit=True) as eve:
                path = sql.SQL("SET search_path = {}; SET check_function_bodies = off")
                eve.execute(path.format(sql.Identifier(schema)))
                for command in commands:
                    eve.execute(command)
            assert not one(conn, IS_SUPER)
            yield conn, other
        finally:
            for session in (conn, other):
                session.execute("RESET ROLE; DROP OWNED BY eve CASCADE")
            conn.execute("DROP ROLE eve")


@pytest.mark.majors
@pytest.mark.parametrize("schema", ["tenant_1", *ODD])
def test_a_hostile_tenant_can_be_moved(cli: CommandLine, schema: str) -> None:
    """Nothing of it runs as the superuser who moves it, here or there, and no name is more than a name."""
    mark = cli.state / "touched"
    schema, names = schema.replace("{mark}", str(mark)[:20]), [one.replace("{mark}", str(mark)[:20]) for one in ODD]
    commands: list[sql.SQL | sql.Composed] = [sql.SQL(TRAP + ALWAYS).format(schema=sql.Identifier(schema))]
    commands += [named(name, schema) for name in names if schema == "tenant_1"]
    with eves_tenant(cli, schema, *commands) as (conn, other):
        done = cli.run("tenants", "move", schema, *ONLINE)
        if cli.cluster.installation.version_num < 160000:
            failed(done, 3, "would run in the target with the privileges of postgres", "PostgreSQL 16 or later")
            assert (has(conn, schema), has(other, schema)) == (True, False)
        else:
            assert done.returncode == 0, done.stderr
            assert (has(conn, schema), has(other, schema)) == (False, True)
            path = sql.SQL("SELECT count(*) FROM {}")
            assert other.execute(path.format(sql.Identifier(schema, "seen"))).fetchone() == (1,)
        assert not one(conn, IS_SUPER)
        assert not mark.exists()


# would be run for rows that are replicated
ALWAYS = """
    CREATE TABLE seen (i integer PRIMARY KEY);
    CREATE FUNCTION seen() RETURNS trigger LANGUAGE plpgsql AS
        $trap$ BEGIN INSERT INTO {schema}.seen VALUES (NEW.i + 1000);
        PERFORM {schema}.grab('always'); RETURN NEW; END $trap$;
    CREATE TRIGGER always BEFORE INSERT ON seen FOR EACH ROW WHEN (NEW.i < 1000) EXECUTE FUNCTION seen();
    INSERT INTO seen VALUES (1);
    DELETE FROM seen WHERE i > 1000;
    ALTER TABLE seen ENABLE ALWAYS TRIGGER always;
    CREATE TRIGGER replica BEFORE INSERT ON seen FOR EACH ROW WHEN (NEW.i < 1000) EXECUTE FUNCTION seen();
    ALTER TABLE seen ENABLE REPLICA TRIGGER replica;
"""


@pytest.mark.majors
@pytest.mark.parametrize("kind", EVALUATED)
def test_code_for_rows_runs_as_the_owner_of_the_table(cli: CommandLine, kind: str) -> None:
    """Or not at all, before 16 and if the table is another role's, unless that is asked for."""
    made = sql.SQL(GRAB + EVALUATED[kind] + "; INSERT INTO t VALUES ('x')").format(schema=sql.SQL("tenant_1"))
    with eves_tenant(cli, "tenant_1", made) as (conn, other):
        if cli.cluster.installation.version_num < 160000:
            hint = "PostgreSQL 16 or later"
        else:
            cli.run("tenants", "move", "tenant_1", *ONLINE, check=True)
            assert (has(conn, "tenant_1"), has(other, "tenant_1")) == (False, True)
            assert not one(conn, IS_SUPER)
            conn.execute("ALTER SCHEMA tenant_1_moved RENAME TO tenant_1; DROP SCHEMA IF EXISTS tenant_1_moved CASCADE")
            other.execute("DROP SCHEMA tenant_1 CASCADE")
            for (table,) in conn.execute(
                "SELECT oid::regclass::text FROM pg_class WHERE relname IN ('t', 'u')"
            ).fetchall():
                conn.execute(f"ALTER TABLE {table} OWNER TO postgres")
            hint = "have all tables belong to eve"
        failed(cli.run("tenants", "move", "tenant_1", *ONLINE), 3, "which would run in the target", hint)
        assert not has(other, "tenant_1")
        assert not one(conn, IS_SUPER)
        cli.run("tenants", "move", "tenant_1", *ONLINE, "--trust-owner", check=True)
        assert one(conn, IS_SUPER)

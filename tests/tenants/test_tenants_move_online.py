"""`pgbillion tenants move --online`: a tenant that clients write to, into another database."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from harness import killed_move, needs, schemas, servers, sessions, tenant_clients
from harness.amount import amount, some
from harness.command_line import CommandLine, command_line, failed
from harness.hostile_tenant import GRAB, ODD, TRAP, named
from harness.servers import one
from harness.unknown_to_pg_dump import REFUSED, UNKNOWN_TO_PG_DUMP
from pgbillion.common.connection import Connection
from pgbillion.common.errors import UserError
from pgbillion.common.paths import state_dir
from pgbillion.common.target import Target
from pgbillion.server.postgres import SUPPORTED_MAJORS, Cluster, Installation
from pgbillion.tenants import journal, move_online, online_checks, replication
from test_tenants_move import EVALUATED

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


def test_refusals(cli: CommandLine) -> None:
    move = ("tenants", "move", "tenant", "--to", OTHER)
    failed(cli.run(*move, "--abort"), 1, "are for moves with --online")
    failed(cli.run(*move, "--online", "--source-conninfo", "db1"), 1, "takes a URI or connection string")
    failed(cli.run("tenants", "move", "nobody", "--to", OTHER, "--online"), 1, 'no schema "nobody"')
    failed(
        cli.run(*move, "--online", "--source-conninfo", "port=1"),
        3,
        "could not connect to the publisher",
        "passfile",
    )
    done = cli.run(*move, "--online", "--source-conninfo", "dbname=postgres")
    failed(done, 3, "is another database than the source", "--source-conninfo")
    with cli.connect() as conn, cli.cluster.connect(OTHER) as other:
        conn.execute("CREATE SCHEMA tenant_moved")
        failed(cli.run(*move, "--online"), 3, 'gets the name "tenant_moved"', "tenants drop tenant_moved")
        conn.execute("DROP SCHEMA tenant_moved; CREATE VIEW public.over AS TABLE tenant.a")
        failed(cli.run(*move, "--online"), 3, "depends on", "drop that first")
        conn.execute("DROP VIEW public.over; CREATE UNLOGGED TABLE tenant.u (i integer)")
        failed(cli.run(*move, "--online"), 3, "the table u is unlogged", "ALTER TABLE tenant.u SET LOGGED")
        conn.execute("DROP TABLE tenant.u; CREATE TABLE tenant.j (i integer, j json)")
        failed(cli.run(*move, "--online"), 3, "the table j has no primary key", "add a primary key")
        conn.execute("DROP TABLE tenant.j")
        with conn.transaction():
            conn.execute("LOCK TABLE tenant.b IN ROW EXCLUSIVE MODE")
            done = cli.run(*move, "--online", "--lock-timeout", "50ms")
        failed(done, 3, "tenant could not be locked: others have been at work in it for 50ms", "--lock-timeout")
        assert (has(conn), has(other)) == (True, False)


@pytest.mark.parametrize(
    ("setting", "value", "error"),
    [
        ("wal_level", "replica", "the source's wal_level is replica"),
        ("max_replication_slots", "1", "the source's max_replication_slots is 1"),
        ("max_wal_senders", "1", "the source's max_wal_senders is 1"),
        ("max_logical_replication_workers", "1", "the target's max_logical_replication_workers is 1"),
        ("max_sync_workers_per_subscription", "0", "the target's max_sync_workers_per_subscription is 0"),
    ],
)
def test_servers_that_cannot_replicate_are_refused(
    installation: Installation, setting: str, value: str, error: str
) -> None:
    with servers.new_cluster(installation, {**SETTINGS, setting: value}) as cluster:
        with cluster.connect() as conn:
            servers.make_shared_objects(conn)
        with servers.new_database(cluster, "tenants") as database, servers.new_database(cluster, OTHER):
            for name in (database, OTHER):
                with cluster.connect(name) as conn:
                    schemas.make_outside(conn)
            with cluster.connect(database) as conn:
                schemas.make_schema(conn, "tenant", TENANT)
            with command_line(cluster, database) as cli:
                done = cli.run("tenants", "move", "tenant", *ONLINE)
                if setting == "wal_level" and installation.version_num >= 190000:
                    assert done.returncode == 0, done.stderr
                else:
                    failed(done, 3, error, "ALTER SYSTEM SET")


@pytest.mark.parametrize(
    "change",
    [
        "CREATE TABLE tenant.new (i integer)",
        "ALTER TABLE tenant.a ADD COLUMN x integer",
        "ALTER TABLE tenant.a ALTER COLUMN t SET DEFAULT 'x'",
        "CREATE OR REPLACE FUNCTION tenant.f() RETURNS integer LANGUAGE sql AS 'SELECT 2'",
        "CREATE TYPE tenant.new AS ENUM ()",
        "DROP FUNCTION tenant.f()",
        "CREATE INDEX more ON tenant.a (t)",
        "GRANT SELECT ON tenant.a TO reader",
    ],
)
@pytest.mark.parametrize("moment", ["copying 2 tables", "switching"])
def test_what_is_changed_meanwhile_is_not_lost(cli: CommandLine, change: str, moment: str) -> None:
    def say(line: str) -> None:
        if line == moment:
            with cli.connect() as conn:
                conn.execute(change.encode())

    with pytest.raises(UserError, match="somebody has changed tenant meanwhile"):
        run(cli, say=say)
    with cli.connect() as conn, cli.cluster.connect(OTHER) as other:
        assert (has(conn), has(other)) == (True, False)
        assert one(conn, "INSERT INTO tenant.a (t) VALUES ('x') RETURNING i") == 201


@pytest.mark.parametrize(
    "change",
    [
        "CREATE OR REPLACE FUNCTION tenant.f() RETURNS integer LANGUAGE sql AS 'SELECT 2'",
        "CREATE TYPE tenant.new AS ENUM ()",
        "ALTER TYPE tenant.mood ADD VALUE 'happy'",
        "CREATE OPERATOR tenant.!! (RIGHTARG = integer, FUNCTION = int4um)",
        "COMMENT ON FUNCTION tenant.f() IS 'changed'",
    ],
)
@pytest.mark.parametrize("moment", ["before", "after"])
def test_what_is_changed_while_writes_are_blocked_is_not_lost(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch, change: str, moment: str
) -> None:
    """As only what is no table can be, before it is compared or after that."""
    with cli.connect() as conn:
        conn.execute("CREATE TYPE tenant.mood AS ENUM ('sad')")
    sequences, position = online_checks.sequences, replication.position

    def changed() -> None:
        with cli.connect() as conn, contextlib.suppress(psycopg.errors.DuplicateObject):
            conn.execute(change.encode())

    def before(here: Connection) -> str:
        with cli.connect() as conn:
            locked = "SELECT count(*) FROM pg_locks WHERE relation = 'tenant.a_i_seq'::regclass AND mode ~ 'Exclusive'"
            if one(conn, locked):
                changed()
        return position(here)

    def after(here: Connection, schema: int) -> dict[str, tuple[Any, ...]]:
        changed()
        return sequences(here, schema)

    if moment == "before":
        monkeypatch.setattr(replication, "position", before)
    else:
        monkeypatch.setattr(online_checks, "sequences", after)
    with pytest.raises(UserError, match="somebody has changed tenant meanwhile"):
        run(cli)
    with cli.connect() as conn, cli.cluster.connect(OTHER) as other:
        assert (has(conn), has(other)) == (True, False)


def test_rows_and_sequences_that_change_meanwhile_are_carried_over(cli: CommandLine) -> None:
    def say(line: str) -> None:
        with cli.connect() as conn:
            conn.execute("INSERT INTO tenant.a (t) VALUES (%s)", [line])
            conn.execute("SELECT nextval('tenant.a_i_seq')")
            if line == "comparing":
                conn.execute("TRUNCATE tenant.b")
                conn.execute("INSERT INTO tenant.b VALUES (1), (1), (NULL); DELETE FROM tenant.b WHERE ctid = '(0,1)'")
                conn.execute("UPDATE tenant.b SET code = 'zz' WHERE a = 1 AND false")

    run(cli, say=say)
    with cli.connect() as conn, cli.cluster.connect(OTHER) as other:
        for table in ("a", "b"):
            rows = f"SELECT t FROM tenant{{}}.{table} AS t ORDER BY t::text"
            assert conn.execute(rows.format("_moved")).fetchall() == other.execute(rows.format("")).fetchall()
        assert one(other, "SELECT count(*) FROM tenant.b") == 2
        assert one(other, "INSERT INTO tenant.a (t) VALUES ('y') RETURNING i") == 209


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("DELETE FROM tenant.b WHERE a = 3", r"rows of b: 200 there, 199 here"),
        ("UPDATE tenant.a SET t = 'y' WHERE i = 3", r"contents of a"),
    ],
)
def test_a_copy_that_differs_is_dropped(cli: CommandLine, change: str, told: str) -> None:
    def say(line: str) -> None:
        if line == "comparing":
            with cli.cluster.connect(OTHER) as conn:
                # the guard would not let anybody
                conn.execute("SET session_replication_role = replica")
                conn.execute(change.encode())

    with pytest.raises(UserError, match=f"the copy is not the same: {told}"):
        run(cli, say=say)
    with cli.connect() as conn, cli.cluster.connect(OTHER) as other:
        assert (has(conn), has(other)) == (True, False)


def test_nobody_writes_to_the_target_before(cli: CommandLine) -> None:
    said = []

    def say(line: str) -> None:
        if line in ("comparing", "switching"):
            said.append(line)
            with cli.cluster.connect(OTHER) as conn:
                for statement in ("INSERT INTO tenant.a (t) VALUES ('x')", "DELETE FROM tenant.b", "TRUNCATE tenant.b"):
                    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="still being moved here"):
                        conn.execute(statement.encode())

    run(cli, say=say)
    assert said == ["comparing", "switching"]
    with cli.cluster.connect(OTHER) as conn:
        assert one(conn, "INSERT INTO tenant.a (t) VALUES ('x') RETURNING i") == 201
        assert one(conn, "SELECT count(*) FROM pg_proc WHERE proname = 'pgbillion_moving'") == 0


def test_rows_that_refer_to_none_in_the_target_are_refused(cli: CommandLine) -> None:
    with cli.connect() as conn:
        conn.execute("INSERT INTO outside.country VALUES ('xx'); UPDATE tenant.b SET code = 'xx' WHERE a = 7")
        done = cli.run("tenants", "move", "tenant", *ONLINE)
        failed(done, 3, "rows violate the foreign key b_code_fkey on b in the target", "have to be there first")
        conn.execute("UPDATE tenant.b SET code = NULL")

    def say(line: str) -> None:
        if line == "switching":
            with cli.connect() as conn:
                conn.execute("UPDATE tenant.b SET code = 'xx' WHERE a = 8")

    with pytest.raises(UserError, match="rows violate the foreign key b_code_fkey"):
        run(cli, say=say)
    with cli.connect() as conn, cli.cluster.connect(OTHER) as other:
        assert (has(conn), has(other)) == (True, False)


@pytest.mark.parametrize(
    "moment", ["waiting for transactions in progress", "copying 2 tables", "comparing", "switching"]
)
def test_an_interrupt_leaves_nothing_half_done(cli: CommandLine, moment: str) -> None:
    cli.run("tenants", "migrate", "tenant", "-c", "SELECT 1", check=True)

    def say(line: str) -> None:
        if line == moment:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(cli, say=say)
    with cli.connect() as conn, cli.cluster.connect(OTHER) as other:
        assert (has(conn), has(other)) == (True, False)
        assert one(other, "SELECT count(*) FROM pgbillion_journal.migration") == 0
        assert left(cli) == []
        conn.execute("UPDATE tenant.a SET t = 'y'; ALTER TABLE tenant.a ADD COLUMN x integer")


def test_a_reader_holds_up_nobody(cli: CommandLine) -> None:
    """It goes on reading what it has begun to read, and the source is dropped only when it has ended."""
    with cli.connect() as reader, cli.connect() as conn:
        reader.execute("BEGIN; DECLARE c CURSOR FOR TABLE tenant.a; FETCH 1 FROM c")
        said: list[str] = []
        done = run(cli, say=said.append, drop=True)
        assert (done.dropped, done.kept) == (False, "tenant_moved")
        assert said[-1] == "what was moved is still in the source, as tenant_moved: others are still at work in it"
        assert len(reader.execute("FETCH ALL FROM c").fetchall()) == 199
        reader.execute("COMMIT")
        assert one(conn, "SELECT count(*) FROM tenant_moved.a") == 200


def test_passwords_are_not_logged(cli: CommandLine) -> None:
    with cli.connect() as conn:
        conn.execute("ALTER SYSTEM SET log_statement = 'all'")
        conn.execute("ALTER SYSTEM SET log_min_duration_statement = 0")
        conn.execute("SELECT pg_reload_conf()")
        try:
            secret = "password=kZx81secret connect_timeout=5"
            cli.environment["PGBILLION_SOURCE_CONNINFO"] = f"{secret} application_name=x"
            done = cli.run("tenants", "move", "tenant", *ONLINE, check=True)
            cli.environment["PGBILLION_SOURCE_CONNINFO"] = f"{secret} port=1"
            again = cli.run("tenants", "move", "tenant_moved", *ONLINE)
            failed(again, 3, "could not connect to the publisher")
            cli.environment["PGBILLION_SOURCE_CONNINFO"] = f"{secret} nonsense=1"
            third = cli.run("tenants", "move", "tenant_moved", *ONLINE)
            failed(third, 1, "not one libpq understands")
        finally:
            conn.execute("ALTER SYSTEM RESET log_statement")
            conn.execute("ALTER SYSTEM RESET log_min_duration_statement")
            conn.execute("SELECT pg_reload_conf()")
    for text in (
        done.stdout,
        done.stderr,
        again.stderr,
        third.stderr,
        cli.cluster.log.read_text(encoding="utf-8", errors="replace"),
    ):
        assert "kZx81secret" not in text


@contextlib.contextmanager
def two_servers(source: Installation, goal: Installation) -> Iterator[tuple[Cluster, Cluster]]:
    """Servers with what is outside of tenants in their database postgres, the first one with a tenant."""
    with (
        servers.new_cluster(source, SETTINGS) as here,
        servers.new_cluster(goal, {**SETTINGS, "wal_level": "replica"}) as there,
    ):
        for cluster in (here, there):
            with cluster.connect() as conn:
                servers.make_shared_objects(conn)
                schemas.make_outside(conn)
        yield here, there


@pytest.mark.machine
@pytest.mark.parametrize("oldest", [True, False])
def test_a_newer_server_takes_it(installation: Installation, oldest: bool) -> None:
    mine = installation.version_num // 10000
    others = [path for major, path in servers.pg_configs().items() if major < mine]
    if not others and mine > min(SUPPORTED_MAJORS):
        needs.missing(needs.OLDER)
    if not others:
        pytest.skip("the oldest major version has no older one")
    older = Installation.prepare(state_dir(), others[0] if oldest else others[-1])
    with two_servers(older, installation) as (here, there):
        with here.connect() as conn:
            schemas.make_schema(conn, "old", schemas.APPLICATION)
            conn.execute("INSERT INTO old.customer (name) VALUES ('a'), ('b'); INSERT INTO old.log VALUES (now(), 'x')")
            schemas.make_schema(conn, "tenant", tenant_clients.TABLES.format(last=CLIENTS - 1, rows=5_000))
        source, goal = Target(here.conninfo(), "here"), Target(there.conninfo(), "there")
        done = move_online.run(source, goal, move_online.Request("old", drop=True), say=lambda line: None)
        assert (done.dropped, done.rows) == (True, 3)
        with there.connect() as conn:
            assert one(conn, "INSERT INTO old.customer (name) VALUES ('c') RETURNING id") == 120
        with tenant_clients.writing(CLIENTS, "tenant", [here.conninfo(), there.conninfo()]) as clients:
            move_online.run(source, goal, move_online.Request("tenant", drop=True), say=lambda line: None)
            before = [client.done for client in clients]
            servers.until(
                lambda: all(client.done > done for client, done in zip(clients, before, strict=True)),
                "all clients to go on",
            )
        with here.connect() as conn, there.connect() as other:
            assert tenant_clients.differences(other, "tenant", clients) == []
            assert (has(conn), has(other)) == (False, True)
            for one_side in (conn, other):
                assert one(one_side, "SELECT count(*) FROM pg_replication_slots") == 0
                assert one(one_side, "SELECT count(*) FROM pg_publication") == 0
                assert one(one_side, "SELECT count(*) FROM pg_subscription") == 0


STEPS = ("waiting for transactions in progress", "copying 2 tables", "comparing", "switching", "switched")


@pytest.mark.parametrize("killed", ["source", "target"])
@pytest.mark.parametrize("step", some(STEPS))
def test_a_crash_of_a_server_loses_nothing(
    installation: Installation, killed: str, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server recovers, and the tenant is in one place with all rows."""
    finished = move_online._finish

    with two_servers(installation, installation) as (here, there):
        source, goal = Target(here.conninfo(), "here"), Target(there.conninfo(), "there")
        victim = here if killed == "source" else there
        with here.connect() as conn:
            schemas.make_schema(conn, "tenant", TENANT)

        def crash(line: str) -> None:
            with here.connect() as conn:
                conn.execute("INSERT INTO tenant.a (t) VALUES ('late'), ('later')")
                said.append(line)
            if line == step:
                kill_a_session(victim)

        said: list[str] = []

        def finish(*given: Any, **named: Any) -> bool:
            kill_a_session(victim)
            return finished(*given, **named)

        if step == "switched":
            monkeypatch.setattr(move_online, "_finish", finish)
        with contextlib.suppress(UserError, psycopg.Error):
            move_online.run(source, goal, move_online.Request("tenant"), say=crash)
        monkeypatch.undo()
        for cluster in (here, there):
            servers.until(lambda: answers(cluster), "the server to recover")  # noqa: B023
        move_online.clear(source, goal, "tenant", say=lambda line: None)
        with here.connect() as conn, there.connect() as other:
            assert (has(conn), has(other)) == (step != "switched", step == "switched")
            rows = "SELECT count(*) FROM tenant{}.a"
            # a server that is back at once may be seen at the next step
            assert said[: STEPS.index(step) + 1] == list(STEPS[:4])[: STEPS.index(step) + 1]
            assert one(conn, rows.format("_moved" if step == "switched" else "")) == 200 + 2 * len(said)
            if step == "switched":
                assert one(other, rows.format("")) == 208
                assert one(other, "INSERT INTO tenant.a (t) VALUES ('y') RETURNING i") == 209
            else:
                assert one(conn, "SELECT relreplident FROM pg_class WHERE oid = 'tenant.b'::regclass") == "d"
            for session in (conn, other):
                assert one(session, "SELECT count(*) FROM pg_replication_slots") == 0
                assert one(session, "SELECT count(*) FROM pg_publication") == 0
                assert one(session, "SELECT count(*) FROM pg_subscription") == 0


def kill_a_session(cluster: Cluster) -> None:
    """Have a server end all sessions and recover."""
    with contextlib.suppress(psycopg.Error), cluster.connect() as conn:
        os.kill(sessions.pid(conn), signal.SIGKILL)
        conn.execute("SELECT pg_sleep(10)")


def answers(cluster: Cluster) -> bool:
    """Tell whether a server accepts connections."""
    try:
        with cluster.connect():
            return True
    except psycopg.OperationalError:
        return False


def test_a_target_that_is_lost_for_good(installation: Installation, monkeypatch: pytest.MonkeyPatch) -> None:
    """The source is cleared, and so is the target if it comes back all the same."""
    monkeypatch.setattr(move_online, "_RECONNECT_SECONDS", 1)
    said: list[str] = []

    def stop(line: str) -> None:
        said.append(line)
        if line == "switching":
            there.stop("immediate")

    with (
        two_servers(installation, installation) as (here, there),
        command_line(here, "postgres") as cli,
        here.connect() as conn,
    ):
        schemas.make_schema(conn, "tenant", TENANT)
        source, goal = Target(here.conninfo(), "here"), Target(there.conninfo(), "there")
        with pytest.raises(psycopg.OperationalError):
            move_online.run(source, goal, move_online.Request("tenant"), say=stop)
        assert "--abort removes it" in said[-1]
        for table in ("pg_replication_slots", "pg_publication"):
            assert one(conn, f"SELECT count(*) FROM {table}") == 0
        there.start()
        with there.connect() as other:
            assert has(other)
            abort = ("tenants", "move", "tenant", "--to", there.conninfo(), "--online", "--abort")
            assert cli.run(*abort, check=True).stdout == "an interrupted move of tenant was taken back\n"
            assert not has(other)
            assert one(other, "SELECT count(*) FROM pg_subscription") == 0
            assert cli.run(*abort, check=True).stdout == "there is no interrupted move of tenant\n"
        assert one(conn, "SELECT count(*) FROM tenant.a") == 200


@pytest.mark.majors
def test_roles_that_are_no_superusers(installation: Installation) -> None:
    """What each needs is named until it has it; the target's role has to name a password in the connection string."""
    with two_servers(installation, installation) as (here, there), command_line(here, "postgres") as cli:
        hba = here.data / "pg_hba.conf"
        hba.write_text(f"local all mover scram-sha-256\n{hba.read_text(encoding='utf-8')}", encoding="utf-8")
        with here.connect() as conn, there.connect() as other:
            conn.execute("SELECT pg_reload_conf()")
            for session in (conn, other):
                session.execute("CREATE ROLE owner LOGIN; CREATE ROLE mover LOGIN PASSWORD 'secret'")
                session.execute("GRANT USAGE ON SCHEMA outside TO owner")
            conn.execute("CREATE SCHEMA tenant AUTHORIZATION owner")
            with psycopg.connect(make_conninfo(here.conninfo(), user="owner"), autocommit=True) as owner:
                owner.execute("SET search_path = tenant")
                owner.execute(TENANT)
            conn.execute("GRANT owner TO mover")
            cli.environment["PGPASSWORD"] = "secret"
            goal = make_conninfo(there.conninfo(), user="mover")
            command = ("tenants", "move", "tenant", "--to", goal, "--online", "-U", "mover")
            missing = [
                ("no privilege to create a schema in", "GRANT CREATE ON DATABASE postgres TO mover", other),
                ("may not replicate from the source", "ALTER ROLE mover REPLICATION", conn),
                ("no privilege to create a publication", "GRANT CREATE ON DATABASE postgres TO mover", conn),
            ]
            if installation.version_num >= 160000:
                missing += [
                    ("may not subscribe", "GRANT pg_create_subscription TO mover", other),
                    ("cannot write as owner", "GRANT owner TO mover", other),
                ]
            for error, grant, session in missing:
                failed(cli.run(*command), 3, error, grant)
                session.execute(grant.encode())
            if installation.version_num < 160000:
                failed(cli.run(*command), 3, "only a superuser can subscribe", "name a superuser of the target")
                other.execute("GRANT owner TO mover; ALTER ROLE mover SUPERUSER")
            # PostgreSQL sends no other password than one of the string
            failed(cli.run(*command), 3, "the target's server cannot replicate from the source", "--source-conninfo")
            cli.environment["PGBILLION_SOURCE_CONNINFO"] = "password=secret"
            done = cli.run(*command, check=True)
            assert done.stdout.startswith("tenant moved: 2 tables, 400 rows compared")
            assert (has(conn), has(other)) == (False, True)
            assert (
                one(other, "SELECT pg_get_userbyid(relowner) FROM pg_class WHERE oid = 'tenant.a'::regclass") == "owner"
            )
            for session in (conn, other):
                assert one(session, "SELECT count(*) FROM pg_subscription") == 0
                assert one(session, "SELECT count(*) FROM pg_replication_slots") == 0
                assert "secret" not in str(session.execute("SELECT query FROM pg_stat_activity").fetchall())

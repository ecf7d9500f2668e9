"""pgbillion_tables.tenant_schemas: a transaction that has not named a tenant gets an error, and nobody's rows."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import errors

from harness import needs, servers
from pgbillion.server.postgres import Cluster, Installation, server_user

pytestmark = pytest.mark.majors

Connection = psycopg.Connection[tuple[Any, ...]]

SETTING = "pgbillion_tables.tenant_schemas"
REFUSED = "in a tenant's schema that this transaction has not set search_path to"
LEFT = "search_path names a tenant's schema, but was set by an earlier transaction"
TENANT = """
    CREATE SCHEMA {0};
    SET search_path = {0};
    CREATE TABLE orders (id integer PRIMARY KEY, t text);
    CREATE TABLE lines (id integer REFERENCES orders DEFERRABLE INITIALLY DEFERRED);
    INSERT INTO orders VALUES (1, '{0}');
    CREATE VIEW v AS SELECT t FROM orders;
    CREATE MATERIALIZED VIEW m AS SELECT t FROM orders;
    CREATE FUNCTION inlined() RETURNS SETOF text LANGUAGE sql STABLE AS 'SELECT t FROM orders';
    CREATE FUNCTION with_path() RETURNS text LANGUAGE sql SET search_path = {0} AS 'SELECT t FROM orders';
    CREATE FUNCTION by_plan() RETURNS text LANGUAGE plpgsql AS 'BEGIN RETURN (SELECT t FROM orders); END';
    CREATE FUNCTION as_definer() RETURNS text LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog
        AS 'SELECT t FROM {0}.orders';
    GRANT ALL ON SCHEMA {0} TO app;
    GRANT ALL ON ALL TABLES IN SCHEMA {0} TO app;
    ALTER MATERIALIZED VIEW m OWNER TO app;
"""
SHARED = """
    CREATE SCHEMA shared;
    CREATE TABLE shared.country (id integer);
    CREATE VIEW shared.of_two AS SELECT t FROM tenant_2.orders;
    CREATE TABLE shared.parent (id integer, t text);
    ALTER TABLE tenant_2.orders INHERIT shared.parent;
    CREATE PROCEDURE shared.commits() LANGUAGE plpgsql
        AS 'BEGIN PERFORM t FROM orders; COMMIT; PERFORM t FROM orders; END';
    GRANT ALL ON SCHEMA shared TO app;
    GRANT ALL ON ALL TABLES IN SCHEMA shared TO app;
    GRANT CREATE ON DATABASE pooled TO app;
"""


@pytest.fixture(scope="module")
def pooled(installation: Installation) -> Iterator[Cluster]:
    """A server with the library, and a database with tenants and a role that is guarded."""
    with servers.new_cluster(installation, {"shared_preload_libraries": "pgbillion_tables"}) as cluster:
        with cluster.connect() as conn:
            conn.execute("CREATE DATABASE pooled; ")
            conn.execute("CREATE ROLE app LOGIN; CREATE ROLE careless LOGIN IN ROLE app; CREATE ROLE tenant_1 LOGIN")
            conn.execute(f"ALTER ROLE app SET {SETTING} = 'tenant\\_%'".encode())
            conn.execute(f"ALTER ROLE tenant_1 SET {SETTING} = 'tenant\\_%'".encode())
            conn.execute("GRANT app TO tenant_1")
        with cluster.connect("pooled") as conn:
            for name in ("tenant_1", "tenant_2"):
                conn.execute(TENANT.format(name).encode())
            conn.execute(SHARED)
        yield cluster


def connect(cluster: Cluster, user: str = "app", **more: Any) -> Connection:
    conn = psycopg.connect(cluster.conninfo("pooled"), user=user, autocommit=True, **more)
    conn.prepare_threshold = None
    return conn


@pytest.fixture
def app(pooled: Cluster) -> Iterator[Connection]:
    with connect(pooled) as conn:
        yield conn


def rows(conn: Connection, query: str) -> list[str]:
    return [row[0] for row in conn.execute(query.encode())]


def refused(conn: Connection, query: str, message: str = REFUSED) -> psycopg.Error:
    with pytest.raises(errors.ObjectNotInPrerequisiteState, match=message) as caught:
        conn.execute(query.encode())
    return caught.value


def listens(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        return client.connect_ex(str(path)) == 0


@contextmanager
def pooler(cluster: Cluster) -> Iterator[str]:
    """pgbouncer in transaction mode, with one session for all clients."""
    program = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None:
        needs.missing(needs.PACKAGES["pgbouncer"])
    user = server_user()
    with servers.temporary_folder() as folder:
        (folder / "users").write_text('"app" ""\n"careless" ""\n')
        (folder / "ini").write_text(
            f"[databases]\npooled = host={cluster.socket_dir} port={cluster.port}\n"
            f"[pgbouncer]\npool_mode = transaction\ndefault_pool_size = 1\nauth_type = trust\n"
            f"auth_file = {folder}/users\nlisten_addr =\nlisten_port = 6432\nunix_socket_dir = {folder}\n"
        )
        owned: dict[str, Any] = {}
        if user is not None:
            os.chown(folder, user.pw_uid, user.pw_gid)
            owned = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        log = (folder / "log").open("w")
        with log, subprocess.Popen([program, str(folder / "ini")], cwd="/", stdout=log, stderr=log, **owned) as process:
            try:
                servers.until(lambda: listens(folder / ".s.PGSQL.6432"), "pgbouncer to listen")
                yield f"host={folder} port=6432 dbname=pooled"
            finally:
                process.terminate()


@pytest.mark.machine
def test_a_pooler_returns_rows_of_another_tenant_and_the_guard_does_not(pooled: Cluster) -> None:
    with pooler(pooled) as where:
        for user in ("careless", "app"):
            with (
                psycopg.connect(where, user=user, autocommit=True, prepare_threshold=None) as first,
                psycopg.connect(where, user=user, autocommit=True, prepare_threshold=None) as second,
            ):
                first.execute("SET search_path = tenant_1")
                second.execute("SET search_path = tenant_2")
                if user == "careless":
                    # this is what the guard is for
                    assert rows(first, "SELECT t FROM orders") == ["tenant_2"]
                    continue
                error = refused(first, "SELECT t FROM orders")
                assert error.diag.message_detail is not None
                assert error.diag.message_detail.startswith("search_path was set by an earlier transaction")
                assert "tenant_2" not in str(error), "what other clients there are"
                refused(first, "TRUNCATE orders", LEFT)
                for client, tenant in ((first, "tenant_1"), (second, "tenant_2"), (first, "tenant_1")):
                    with client.transaction():
                        client.execute(f"SET LOCAL search_path = {tenant}".encode())
                        assert rows(client, "SELECT t FROM orders") == [tenant]
                    refused(client, "SELECT t FROM orders")


def test_the_transaction_names_the_tenant(app: Connection) -> None:
    with pytest.raises(errors.UndefinedTable):
        app.execute("SELECT t FROM orders")
    app.execute("SET search_path = tenant_1")
    refused(app, "SELECT t FROM orders")
    # one message is one transaction
    app.execute("SET search_path = tenant_2; SELECT t FROM orders")
    for how in ("SET search_path = tenant_1", "SET LOCAL search_path = shared, tenant_1",
                "SELECT set_config('search_path', 'tenant_1', true)"):  # fmt: skip
        with app.transaction():
            app.execute(how.encode())
            assert rows(app, "SELECT t FROM orders") == ["tenant_1"]
            with pytest.raises(errors.ObjectNotInPrerequisiteState), app.transaction():
                app.execute("SELECT t FROM tenant_2.orders")
        refused(app, "SELECT t FROM orders")
    # where no tenant is touched, none need be named
    app.execute("SET search_path = shared")
    assert rows(app, "SELECT id FROM country") == []
    refused(app, "SELECT t FROM tenant_1.orders")


def test_subtransactions(app: Connection) -> None:
    app.execute("SET search_path = tenant_2")
    with app.transaction():
        with app.transaction(force_rollback=True):
            app.execute("SET LOCAL search_path = tenant_1")
            assert rows(app, "SELECT t FROM orders") == ["tenant_1"]
        with pytest.raises(errors.ObjectNotInPrerequisiteState), app.transaction():
            app.execute("SELECT t FROM orders")
        with app.transaction():
            app.execute("SET LOCAL search_path = tenant_1")
        assert rows(app, "SELECT t FROM orders") == ["tenant_1"]


def test_a_role_s_own_path_names_its_tenant(pooled: Cluster) -> None:
    with pooled.connect() as conn:
        conn.execute('ALTER ROLE tenant_1 SET search_path = "$user", shared')
    with connect(pooled, "tenant_1") as conn:
        assert rows(conn, "SELECT t FROM orders") == ["tenant_1"]
        refused(conn, "SELECT t FROM tenant_2.orders")
        conn.execute("SET search_path = tenant_1")
        refused(conn, "SELECT t FROM orders")
        conn.execute("RESET search_path")
        assert rows(conn, "SELECT t FROM orders") == ["tenant_1"]
        conn.execute("DISCARD ALL")
        assert rows(conn, "SELECT t FROM orders") == ["tenant_1"]


STATEMENTS = [
    "SELECT 1 FROM orders WHERE false", "SELECT t FROM v", "SELECT t FROM m", "SELECT inlined()", "SELECT by_plan()",
    "SELECT with_path()", "SELECT as_definer()", "COPY orders TO STDOUT", "COPY (SELECT t FROM orders) TO STDOUT",
    "INSERT INTO orders VALUES (7)", "UPDATE orders SET t = t", "DELETE FROM orders", "SELECT FROM orders FOR UPDATE",
    "MERGE INTO orders o USING (VALUES (1)) x (i) ON o.id = x.i WHEN MATCHED THEN DELETE",
    "DECLARE c CURSOR FOR SELECT t FROM orders", "DO 'BEGIN PERFORM t FROM orders; END'",
    "EXPLAIN SELECT t FROM orders",
    "WITH x AS (DELETE FROM orders RETURNING t) TABLE x",
    "EXECUTE kept", "SELECT (SELECT t FROM orders LIMIT 1) FROM shared.country RIGHT JOIN (SELECT) s ON true",
]  # fmt: skip


def run(conn: Connection, statement: str) -> None:
    if statement.startswith("COPY"):
        with conn.cursor() as cursor, cursor.copy(statement.encode()) as copy:
            list(copy)
    else:
        conn.execute(statement.encode())


@pytest.mark.parametrize("mode", ["force_generic_plan", "force_custom_plan"])
def test_every_way_to_a_relation(app: Connection, mode: str) -> None:
    """All of these work in the tenant's own transaction, and none in a path that was left behind."""
    app.execute(f"SET plan_cache_mode = {mode}".encode())
    with app.transaction():
        app.execute("SET LOCAL search_path = tenant_1; PREPARE kept AS SELECT t FROM orders")
        for _ in range(7):
            # saved plans are generic by now
            assert rows(app, "EXECUTE kept") == rows(app, "SELECT by_plan()") == ["tenant_1"]
    for statement in STATEMENTS:
        with app.transaction(force_rollback=True):
            app.execute("SET LOCAL search_path = tenant_1")
            run(app, statement)
    # plans of another path are made again
    with app.transaction():
        app.execute("SET LOCAL search_path = tenant_2")
        assert rows(app, "EXECUTE kept") == ["tenant_2"]
    app.execute("SET search_path = tenant_1")
    for statement in STATEMENTS:
        with (
            pytest.raises(errors.ObjectNotInPrerequisiteState, match=REFUSED),
            app.transaction(),
        ):
            run(app, statement)


@pytest.mark.parametrize(
    "statement",
    ["SELECT t FROM shared.of_two", "SELECT t FROM shared.parent", "SELECT tenant_2.with_path()",
     "SELECT tenant_2.as_definer()"],
)  # fmt: skip
def test_another_tenant_by_way_of_something_else(app: Connection, statement: str) -> None:
    with app.transaction(force_rollback=True):
        app.execute("SET LOCAL search_path = tenant_2")
        assert rows(app, statement) == ["tenant_2"]
    refused(app, f"SET LOCAL search_path = tenant_1; {statement}")


def test_what_runs_with_a_path_of_its_own_is_the_caller_s(app: Connection) -> None:
    """REFRESH and functions with a SET clause run with a path that does not name the tenant."""
    with app.transaction():
        app.execute("SET LOCAL search_path = tenant_1")
        app.execute("REFRESH MATERIALIZED VIEW m")
        assert rows(app, "SELECT as_definer()") == ["tenant_1"]
    with pytest.raises(errors.ForeignKeyViolation), app.transaction():
        # checked at commit, still in the transaction
        app.execute("SET LOCAL search_path = tenant_1; INSERT INTO lines VALUES (8)")
    with app.transaction():
        app.execute("SET LOCAL search_path = tenant_1; INSERT INTO lines VALUES (1); DELETE FROM lines")


def test_parallel_workers(app: Connection) -> None:
    name = "force_parallel_mode" if app.info.server_version < 160000 else "debug_parallel_query"
    app.execute(f"SET {name} = on".encode())
    with app.transaction():
        app.execute("SET LOCAL search_path = tenant_1")
        plan = rows(app, "EXPLAIN (ANALYZE, COSTS OFF) SELECT count(*) FROM orders")
        assert any("Workers Launched: 1" in line for line in plan), plan
    refused(app, "SELECT count(*) FROM tenant_1.orders")


def test_procedures_that_commit(app: Connection) -> None:
    """A new transaction names its tenant anew."""
    app.execute("SET search_path = tenant_1")
    refused(app, "CALL shared.commits()")


@pytest.mark.parametrize(
    "command",
    ["TRUNCATE orders", "DROP TABLE orders", "CREATE TABLE t ()", "CREATE TEMP TABLE t AS SELECT 1",
     "LOCK TABLE orders",
     "ALTER TABLE orders ADD c int", "REFRESH MATERIALIZED VIEW m", "DO 'BEGIN TRUNCATE orders; END'",
     "CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'"],
)  # fmt: skip
def test_commands_under_a_path_that_was_left_behind(app: Connection, command: str) -> None:
    app.execute("SET search_path = tenant_1")
    refused(app, command, LEFT)
    # and what ends that works
    for harmless in ("BEGIN", "SHOW search_path", "ROLLBACK", "SET search_path = shared", "DISCARD ALL", "LISTEN x"):
        app.execute(harmless.encode())


def test_only_superusers_change_it(pooled: Cluster, app: Connection) -> None:
    for attempt in (f"SET {SETTING} = ''", f"SELECT set_config('{SETTING}', '', false)",
                    f"ALTER ROLE app SET {SETTING} = ''", f"RESET {SETTING}"):  # fmt: skip
        with pytest.raises(errors.InsufficientPrivilege):
            app.execute(attempt.encode())
    app.execute("RESET ALL")
    assert rows(app, f"SHOW {SETTING}") == ["tenant\\_%"]
    with pytest.raises(psycopg.OperationalError, match="permission denied"):
        connect(pooled, options=f"-c {SETTING}=")
    with connect(pooled, "postgres") as conn, pytest.raises(errors.InvalidParameterValue, match="invalid value"):
        conn.execute(f"SET {SETTING} = 'x\\'".encode())


def test_without_the_postmaster_it_is_an_error(cluster: Cluster) -> None:
    """A role could set it in advance there by the options of its connection."""
    with cluster.connect() as conn:
        conn.execute("CREATE ROLE guarded LOGIN")
        try:
            conn.execute(f"ALTER ROLE guarded SET {SETTING} = 'tenant%'".encode())
            conn.execute("ALTER ROLE guarded SET session_preload_libraries = 'pgbillion_tables'")
            with pytest.raises(psycopg.OperationalError, match="needs pgbillion_tables in"):
                psycopg.connect(cluster.conninfo(), user="guarded")
        finally:
            conn.execute("DROP ROLE guarded")
        conn.execute("LOAD 'pgbillion_tables'")
        with pytest.raises(errors.InvalidParameterValue, match="invalid value"):
            conn.execute(f"SET {SETTING} = 'tenant%'".encode())

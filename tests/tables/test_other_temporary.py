"""Temporary tables of another session: its pages are in its own memory, so nobody else can read or write them."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from psycopg import errors

from harness.servers import one
from pgbillion.common.connection import Connection
from pgbillion.server.postgres import Cluster

THEIRS = "cannot access temporary tables of other sessions|of another session|cannot create temporary tables in bulk"
RESERVED = "schema of the system|unacceptable schema name"

# what is called with a temporary table (or schema) of another session, and how that ends; None: it does no harm
CALLS: dict[str, tuple[str, str | None]] = {
    "pgbillion_tables.to_heap(regclass[])": ("to_heap(ARRAY[{lazy}]::oid[]::regclass[])", THEIRS),
    "pgbillion_tables.create_tables(regclass,text,bigint,bigint,name[],regnamespace,name,boolean)": (
        "create_tables({lazy}::oid::regclass, 'x%d', 1, 3)",
        THEIRS,
    ),
    "pgbillion_tables.tables(text,regnamespace,name,bigint)": ("tables(NULL, {schema}::oid::regnamespace)", None),
    "pgbillion_tables.clone_schema(regnamespace,text,name,regclass[],boolean,boolean,boolean)": (
        "clone_schema({schema}::oid::regnamespace, 'clone')",
        RESERVED,
    ),
    "pgbillion_tables.clone_schemas(regnamespace,text,bigint,bigint,name,regclass[],boolean,boolean,boolean)": (
        "clone_schemas({schema}::oid::regnamespace, 'x%d', 1, 3)",
        RESERVED,
    ),
    "pgbillion_tables.prepare_clone(regnamespace,name,boolean)": (
        "prepare_clone({schema}::oid::regnamespace)",
        RESERVED,
    ),
    "pgbillion_tables.schema_fingerprints(oid[])": ("schema_fingerprints(ARRAY[{schema}]::oid[])", None),
    "pgbillion_rows.columns_refresh(regclass)": ("columns_refresh({table}::oid::regclass)", THEIRS),
    "pgbillion_rows.columns_status(regclass)": ("columns_status({table}::oid::regclass)", THEIRS),
    "pgbillion_rows.columns_check(regclass)": ("columns_check({table}::oid::regclass)", THEIRS),
    # as DROP TABLE, which is how what a crash has left is dropped
    "pgbillion_tables.drop_tables(regclass[],boolean,boolean)": (
        "drop_tables(ARRAY[{victim}]::oid[]::regclass[])",
        None,
    ),
}
FUNCTIONS = (
    "SELECT p.oid::regprocedure::text FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace"
    " WHERE n.nspname ~ '^pgbillion_' AND p.prokind <> 'a' AND p.proargtypes::oid[] &&"
    " '{regclass,regclass[],regnamespace,regnamespace[],oid[]}'::regtype[]::oid[]"
)
# besides these: the schema that tables are created in, the rows that are copied
MORE = {
    "create_tables('public.mine', 'x%d', 1, 3, schema => {schema}::oid::regnamespace)": THEIRS,
    "clone_schema('model', 'clone', rows => ARRAY[{table}]::oid[]::regclass[])": "is no table|is not a table",
}


@pytest.fixture
def theirs(cluster: Cluster, database: str, conn: Connection) -> Any:
    conn.execute(
        "DROP TABLE IF EXISTS mine; CREATE TABLE mine (i integer);"
        " DROP SCHEMA IF EXISTS model CASCADE; CREATE SCHEMA model"
    )
    with cluster.connect(database) as other:
        other.execute(
            "CREATE TEMP TABLE lazy (a integer PRIMARY KEY, t text) USING lazy_heap;"
            "CREATE TEMP TABLE victim (a integer);"
            "CREATE TEMP TABLE plain (a integer, b integer);"
            "INSERT INTO plain SELECT i, i FROM generate_series(1, 1000) i;"
            "CREATE INDEX ON plain USING columns (a, b)"
        )
        names = {
            "lazy": one(other, "SELECT 'lazy'::regclass::oid::bigint"),
            "table": one(other, "SELECT 'plain'::regclass::oid::bigint"),
            "victim": one(other, "SELECT 'victim'::regclass::oid::bigint"),
            "schema": one(other, "SELECT pg_my_temp_schema()::bigint"),
            "name": one(other, "SELECT nspname::text FROM pg_namespace WHERE oid = pg_my_temp_schema()"),
        }
        yield other, names
        # whatever was tried, they are as they were
        other.execute("INSERT INTO lazy VALUES (1, repeat('x', 100000)); SELECT * FROM lazy")
        other.execute("VACUUM plain")
        assert one(other, "SELECT count(*) FROM lazy WHERE a = 1") == 1
        assert one(other, "SELECT sum(a + b) FROM plain") == 1001000


def test_the_list_has_every_function(conn: Connection) -> None:
    assert {name for (name,) in conn.execute(FUNCTIONS)} == set(CALLS)


@pytest.mark.parametrize("function", CALLS)
def test_a_function_does_not_touch_them(conn: Connection, theirs: Any, function: str) -> None:
    call, refused = CALLS[function]
    _tried(conn, f"{function.split('.')[0]}.{call.format(**theirs[1])}", refused)


@pytest.mark.parametrize("call", MORE)
def test_an_argument_does_not_name_them(conn: Connection, theirs: Any, call: str) -> None:
    _tried(conn, f"pgbillion_tables.{call.format(**theirs[1])}", MORE[call])


def test_statements_and_maintenance_do_not_touch_them(conn: Connection, theirs: Any) -> None:
    name = theirs[1]["name"]
    with pytest.raises(errors.FeatureNotSupported, match=THEIRS):
        conn.execute(f"INSERT INTO {name}.lazy VALUES (2, 'x')".encode())
    with pytest.raises(errors.FeatureNotSupported, match=THEIRS):
        conn.execute(f"COPY {name}.lazy FROM PROGRAM 'echo 1,x' (FORMAT csv)".encode())
    for setting in ("off", "force"):
        conn.execute(f"SET pgbillion_rows.vector_join = {setting}; LOAD 'pgbillion_rows'".encode())
        with pytest.raises(errors.FeatureNotSupported, match=THEIRS):
            conn.execute(f"SELECT sum(a), count(*) FROM {name}.plain".encode())
    conn.execute("CREATE TABLE also_lazy (i integer) USING lazy_heap")
    conn.execute("CALL pgbillion_tables.all_to_heap()")
    methods = "SELECT c.relname::text, a.amname::text FROM pg_class c JOIN pg_am a ON a.oid = c.relam"
    methods += " WHERE c.relname ~ 'lazy$'"
    assert dict(conn.execute(methods.encode()).fetchall()) == {"lazy": "lazy_heap", "also_lazy": "heap"}


def _tried(conn: Connection, call: str, refused: str | None) -> None:
    command = f"CALL {call}" if "columns_refresh" in call else f"SELECT * FROM {call}"
    if refused is None:
        conn.execute(command.encode())
        return
    with pytest.raises(psycopg.Error, match=refused):
        conn.execute(command.encode())

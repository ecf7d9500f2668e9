"""Catalogs of 100,000 relations that are nobody's business: what is done to a few others costs hardly more than alone.

What is counted are blocks of shared buffers, not time; with statistics on the catalogs, and without, as autovacuum may
not have come yet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from harness import schemas, servers
from harness.servers import one
from pgbillion.common import planner
from pgbillion.common.connection import Connection
from pgbillion.common.sql import load
from pgbillion.server.postgres import Cluster

TABLES = 20_000  # of which each has a TOAST table, two indexes and a sequence
TREES, PARTITIONS = 30, 100

CALLS = {
    "clone": "SELECT pgbillion_tables.clone_schema('{}', 'copy')",
    "clone with rows": "SELECT pgbillion_tables.clone_schema('{}', 'copy', all_rows => true)",
    "clone and join": "SELECT pgbillion_tables.clone_schema('{}', 'copy', join_publications => true)",
    "clones": "SELECT pgbillion_tables.clone_schemas('{}', 'copy%%d', 1, 4)",
    "prepare": "SELECT pgbillion_tables.prepare_clone('{}')",
    "fingerprints": "SELECT * FROM pgbillion_tables.schema_fingerprints(ARRAY['{}']::regnamespace[]::oid[])",
    "list": "SELECT * FROM pgbillion_tables.tables(schema => '{}')",
    "drop": "SELECT pgbillion_tables.drop_tables(ARRAY(SELECT objid FROM pg_depend WHERE refobjid = '{}'::regnamespace"
    " AND refclassid = 'pg_namespace'::regclass AND classid = 'pg_class'::regclass"
    " AND objid::regclass::text ~ '[.](log|free)$')::oid[]::regclass[], true)",
}
# with the parameters that each has, of schema model and its table invoice
QUERIES: dict[tuple[str, str], Callable[[int, int], Any]] = {
    ("tenants", "objects"): lambda schema, table: [[schema]],
    ("tenants", "needs"): lambda schema, table: [schema],
    ("tenants", "needed_roles"): lambda schema, table: [schema] * 2,
    ("tenants", "outside"): lambda schema, table: ["model"],
    ("tenants", "state"): lambda schema, table: [schema],
    ("tables", "count_names"): lambda schema, table: {"low": "a", "high": "b", "pattern": "x", "schema": "model"},
    ("tables", "first_name"): lambda schema, table: {"low": "a", "high": "b", "pattern": "x", "schema": "model"},
    ("tables", "probe_family"): lambda schema, table: {"names": ["invoice"], "schema": "model"},
    ("tables", "probe_rows"): lambda schema, table: {"tables": [table], "family": [table]},
    ("tables", "template_facts"): lambda schema, table: {"template": "model.invoice"},
    ("tables", "template_refused"): lambda schema, table: {"template": "model.invoice"},
    ("tables", "template_sequences"): lambda schema, table: {"template": "model.invoice"},
    ("tables", "trial_columns"): lambda schema, table: {"table": table},
    ("rows", "tables"): lambda schema, table: {"tables": [table]},
    ("rows", "table_columns"): lambda schema, table: {"table": table},
    ("rows", "part_names"): lambda schema, table: {"table": "model.invoice"},
    ("server", "extension_state"): lambda schema, table: {"name": "pgbillion_tables"},
    ("common", "trusted_schemas"): lambda schema, table: [["pgbillion_tables"]],
}
# these run within planner.through_indexes(), or settings to the same effect
BY_INDEXES = {("tenants", "objects"), ("tenants", "needs"), ("tenants", "needed_roles"), ("tables", "probe_family")}
BY_INDEXES |= {("tables", "probe_rows"), ("rows", "tables")}


@pytest.fixture(scope="module")
def made(cluster: Cluster) -> Iterator[tuple[Connection, Connection]]:
    """One database with schemas to look at, and one with a crowd beside them."""
    with (
        servers.new_database(cluster, "alone") as alone,
        servers.new_database(cluster, "crowded") as crowded,
        cluster.connect(alone) as small,
        cluster.connect(crowded) as large,
    ):
        for conn in (small, large):
            conn.execute("SET client_min_messages = warning")
            schemas.make_outside(conn)
            schemas.make_schema(conn, "model", schemas.APPLICATION)
            schemas.make_schema(conn, "parts", schemas.KINDS["partitions"])
        crowd(large)
        yield small, large


# in this order; as created, a database has the statistics of an empty one
@pytest.fixture(scope="module", params=["as created", "without statistics", "analyzed"])
def databases(made: tuple[Connection, Connection], request: pytest.FixtureRequest) -> tuple[Connection, Connection]:
    for conn in made:
        if request.param == "without statistics":
            conn.execute(
                "SET allow_system_table_mods = on; DELETE FROM pg_statistic; UPDATE pg_class SET reltuples = -1,"
                " relpages = 0 WHERE oid < 16384 AND relkind IN ('r', 'i', 't')"
            )
        elif request.param == "analyzed":
            conn.execute("ANALYZE")
    return made


def crowd(conn: Connection) -> None:
    schemas.make_schema(
        conn,
        "crowd",
        "CREATE TABLE plain (id serial, t text DEFAULT 'x'); CREATE INDEX ON plain (id); CREATE INDEX ON plain (t);"
        "CREATE TABLE tree (a integer, b integer) PARTITION BY LIST (a)",
    )
    for number in range(PARTITIONS):
        conn.execute(f"CREATE TABLE crowd.tree_{number} PARTITION OF crowd.tree FOR VALUES IN ({number})".encode())
    for template, count in (("plain", TABLES), ("tree", TREES)):
        conn.execute(
            "SELECT pgbillion_tables.create_tables(format('crowd.%%I', %s::text)::regclass, %s, 1, %s,"
            " access_method => 'lazy_heap')",
            [template, f"{template}_%d_", count],
        )
    assert one(conn, "SELECT count(*) FROM pg_class") > 100_000
    assert one(conn, "SELECT count(*) FROM pg_inherits") > TREES * PARTITIONS


def blocks(conn: Connection, query: str, parameters: Any = None) -> int:
    """Count the blocks that a query takes, when it is not the first of its kind in the session."""
    for _ in range(2):
        with conn.transaction(force_rollback=True):
            row = conn.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {query}".encode(), parameters).fetchone()
    assert row is not None
    return int(row[0][0]["Plan"]["Shared Hit Blocks"] + row[0][0]["Plan"]["Shared Read Blocks"])


@pytest.mark.parametrize("template", ["model", "parts"])
@pytest.mark.parametrize("what", CALLS)
def test_a_call_costs_what_it_costs_alone(
    databases: tuple[Connection, Connection], tell: Callable[[str], None], what: str, template: str
) -> None:
    alone, crowded = (blocks(conn, CALLS[what].replace("{}", template).replace("%%", "%")) for conn in databases)
    # PostgreSQL reads all foreign keys for each partition that it attaches, as no index finds those that refer to it
    constraints = one(databases[1], "SELECT pg_relation_size('pg_constraint') / 8192")
    attached = one(databases[0], "SELECT count(*) FROM pg_inherits") if template == "parts" else 0
    tell(f"{what} of {template}: {alone} blocks alone, {crowded} in a crowd")
    assert crowded <= 2 * alone + 500 + 3 * attached * constraints


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: "/".join(query))
def test_a_query_costs_what_it_costs_alone(
    databases: tuple[Connection, Connection], tell: Callable[[str], None], query: tuple[str, str]
) -> None:
    found = []
    for conn in databases:
        schema = one(conn, "SELECT 'model'::regnamespace::oid::int8")
        table = one(conn, "SELECT 'model.invoice'::regclass::oid::int8")
        text = load(*query).replace("{members}", load("tenants", "members")).rstrip().rstrip(";")
        if query in BY_INDEXES:
            with planner.through_indexes(conn):
                found.append(blocks(conn, text, QUERIES[query](schema, table)))
        else:
            found.append(blocks(conn, text, QUERIES[query](schema, table)))
    alone, crowded = found
    tell(f"{'/'.join(query)}: {alone} blocks alone, {crowded} in a crowd")
    assert crowded <= 2 * alone + 500

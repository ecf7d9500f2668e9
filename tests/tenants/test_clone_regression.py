"""The schemas that PostgreSQL's own regression suite leaves, cloned: what cannot be carried is dropped, by its name."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable

import psycopg
import pytest
from psycopg import sql

from harness import regress, schema_rows, servers
from harness.catalogs import Catalogs
from harness.clones import reasons, same
from harness.servers import one
from pgbillion.common.connection import Connection
from pgbillion.common.errors import UserError
from pgbillion.server.postgres import Installation
from pgbillion.tenants import commands

# as many there were on each major, without what is dropped here
FEWEST_RELATIONS = 500
_HAS = re.compile(r'template "public" has (.*), which cannot be cloned$')
_MADE = re.compile(r"The template has: (?:CREATE (?:UNLOGGED )?|ALTER )(TABLE)(?: ONLY)? (\w+)")
_BY_DESCRIPTION = """
    WITH RECURSIVE m (classid, objid) AS (
        SELECT classid, objid FROM pg_depend
        WHERE refclassid = 'pg_namespace'::regclass AND refobjid = 'public'::regnamespace
        UNION
        SELECT d.classid, d.objid FROM m JOIN pg_depend d ON d.refclassid = m.classid AND d.refobjid = m.objid
    )
    SELECT format('DROP %%s %%s CASCADE', i.type, i.identity)
    FROM m, pg_identify_object(classid, objid, 0) i WHERE pg_describe_object(classid, objid, 0) = %s
"""
_BY_KIND = {"aggregate": "ROUTINE", "base type": "TYPE", "range type": "TYPE", "typed table": "TABLE"}
_BY_KIND |= {"foreign table": "FOREIGN TABLE", "partition": "TABLE", "index": "INDEX"}


def _drop(conn: Connection, refused: psycopg.errors.FeatureNotSupported) -> str:
    """Drop what the error names; return its kind."""
    message = refused.diag.message_primary or ""
    if found := _HAS.match(message):
        what = re.sub(r", (whose|which) .*", "", found[1])
        if row := conn.execute(_BY_DESCRIPTION, [what]).fetchone():
            conn.execute(str(row[0]).encode())
            return what.split(" ")[0]
        kind = next(kind for kind in _BY_KIND if what.startswith(f"{kind} "))
        name = what.removeprefix(f"{kind} ").split(" of ")[0]
        conn.execute(f"DROP {_BY_KIND[kind]} {name} CASCADE".encode())
        return kind
    made = _MADE.match(refused.diag.message_detail or "")
    assert made, f"{message}\n{refused.diag.message_detail}"
    conn.execute(sql.SQL("DROP TABLE {} CASCADE").format(sql.Identifier(made[2])))
    return "table with columns in another order than its parent's"


def test_the_schema_of_the_regression_suite(installation: Installation, tell: Callable[[str], None]) -> None:
    with servers.temporary_folder() as folder:
        suite = regress.prepare(installation, folder)
        with regress.running(installation, folder, {"max_locks_per_transaction": "4000"}) as cluster:
            options = [f"--schedule={suite / 'parallel_schedule'}", f"--dlpath={folder}", "--max-concurrent-tests=20"]
            tests = regress.run_suite(cluster, "regress/pg_regress", suite, folder / "output", *options)
            with cluster.connect("regression") as conn:
                conn.execute("SET client_min_messages = error; CREATE EXTENSION pgbillion_tables")
                told = reasons(conn)
                dropped: Counter[str] = Counter()
                while True:
                    try:
                        conn.execute("SELECT pgbillion_tables.clone_schemas('public', 'regression_clone_%03d', 1, 4)")
                        break
                    except psycopg.errors.FeatureNotSupported as refused:
                        dropped[_drop(conn, refused)] += 1
                relations = one(conn, "SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace")
                tell(f"{len(tests)} tests, {relations} relations cloned; dropped: {dict(dropped)}")
                assert told == []
                assert relations >= FEWEST_RELATIONS
                catalogs = Catalogs.load(conn)
                made = schema_rows.rows(conn, catalogs, "regression_clone_001")
                same(schema_rows.rows(conn, catalogs, "regression_clone_004"), made)
                _make(conn, "public")
                same(schema_rows.rows(conn, catalogs, "made_public"), made)
                _compare_others(conn, catalogs, tell)


def _make(conn: Connection, schema: str) -> None:
    """As `tenants create --method sql` does."""
    with conn.transaction():
        template = one(conn, "SELECT quote_ident(%s)::regnamespace::oid::int8", schema)
        commands.Maker(conn, commands.Wish(schema)).make(template, [f"made_{schema}"])


def _compare_others(conn: Connection, catalogs: Catalogs, tell: Callable[[str], None]) -> None:
    """Clone the suite's other schemas in both ways."""
    others = [
        name
        for (name,) in conn.execute(
            "SELECT nspname FROM pg_namespace WHERE nspname !~ '^(pg_|pgbillion_|made_|regression_clone_)'"
            " AND nspname NOT IN ('public', 'information_schema')"
        )
    ]
    refused = []
    for name in others:
        reason = _refusal(conn, name)
        if reason is None:
            _make(conn, name)
            same(schema_rows.rows(conn, catalogs, f"made_{name}"), schema_rows.rows(conn, catalogs, "clone"))
            conn.execute("DROP SCHEMA clone CASCADE")
        else:
            refused.append(reason)
            with pytest.raises(UserError, match=f"^{re.escape(reason)}$"):
                _make(conn, name)
    tell(f"{len(others)} other schemas; refused: {refused}")
    assert len(others) > 2 * len(refused)


def _refusal(conn: Connection, schema: str) -> str | None:
    """Clone a schema; return what the error says if it cannot be cloned."""
    try:
        conn.execute("SELECT pgbillion_tables.clone_schema(quote_ident(%s)::regnamespace, 'clone')", [schema])
    except psycopg.errors.FeatureNotSupported as refused:
        return str(refused.diag.message_primary)
    return None

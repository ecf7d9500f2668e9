"""Sorts and window functions of ours give PostgreSQL's answers, and its errors."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from harness import window_queries
from harness.amount import Count, amount
from harness.window_queries import Generator, WindowQuery
from pgbillion.common.connection import Connection
from pgbillion.rows import plans

pytestmark = pytest.mark.majors

QUERIES = amount("PGBILLION_TEST_WINDOWS", 600, 150)
SEED = int(os.environ.get("PGBILLION_TEST_SEED") or random.SystemRandom().randrange(2**31))
NODES = ("VectorSort", "VectorWindow")
FORCED = (
    "SET pgbillion_rows.vector_sort = force; SET pgbillion_rows.vector_window = force; SET timezone = 'UTC';"
    " SET max_parallel_workers_per_gather = 0; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0;"
    " SET min_parallel_table_scan_size = 0; SET extra_float_digits = 1"
)


def session(conn: Connection) -> None:
    conn.prepare_threshold = None
    conn.execute("SET search_path = o, public; LOAD 'pgbillion_rows'")
    conn.execute(FORCED.encode())


def other_collation(conn: Connection) -> str:
    """Return a collation other than the database's, of ICU if the server has it."""
    candidates = conn.execute(
        "SELECT quote_ident(collname) FROM pg_collation"
        " WHERE collprovider IN ('c', 'b', 'i') AND collencoding IN (-1, 6)"
        " ORDER BY collname = 'en-x-icu' DESC, collname IN ('C', 'POSIX', 'default'), collname DESC"
    ).fetchall()
    for (name,) in candidates:
        try:
            conn.execute(f"SELECT 'a' < 'B' COLLATE {name}".encode())
        except psycopg.errors.FeatureNotSupported:
            continue
        return str(name)
    raise AssertionError("no collation works")


@pytest.fixture
def windows(conn: Connection) -> Connection:
    """A session with our nodes forced, and a table."""
    conn.execute("CREATE SCHEMA o")
    session(conn)
    conn.execute(window_queries.make(other_collation(conn)).encode())
    return conn


def providers(plan: plans.Plan) -> list[str]:
    """The nodes of ours in a plan, from the top."""
    found = (node.get("Custom Plan Provider") for node in plans.nodes(plan))
    return [name for name in found if name in NODES]


def used(conn: Connection, query: str) -> list[str]:
    return providers(plans.explain(conn, query, verbose=True))


Answer = tuple[str, Any]


def answer(conn: Connection, query: str, ours: bool) -> Answer:
    """The rows, or the error."""
    plans.switch(conn, ours)
    try:
        return "rows", repr(conn.execute(query.encode()).fetchall())
    except psycopg.Error as error:
        return "error", (error.sqlstate, str(error))
    finally:
        plans.switch(conn, True)


def check(conn: Connection, query: str) -> Answer:
    ours, core = (answer(conn, query, side) for side in (True, False))
    assert ours == core, query
    return ours


def test_generated(windows: Connection, tell: Callable[[str], None], counted: Count) -> None:
    chance = random.Random(SEED)
    generator = Generator(chance)
    errors = nodes = 0
    for number in range(QUERIES):
        query: WindowQuery = generator.query()
        parallel = number % 5 == 0
        windows.execute(f"SET max_parallel_workers_per_gather = {2 if parallel else 0}".encode())
        windows.execute(f"SET work_mem = '{'64kB' if number % 3 == 0 else '16MB'}'".encode())
        try:
            result = check(windows, query.text)
        except AssertionError as error:
            raise AssertionError(f"seed {SEED}, query {number}: {error}") from None
        errors += result[0] == "error"
        found = used(windows, query.text) if result[0] == "rows" else []
        nodes += len(found)
        # workers may have sorted the rows
        if query.certain and result[0] == "rows" and not parallel:
            assert found, f"seed {SEED}, query {number} has no node of ours: {query.text}"
    tell(f"seed {SEED}: {QUERIES} queries, {nodes} nodes of ours, {errors} errors")
    counted({"queries": QUERIES, "nodes": nodes, "errors": errors})
    assert nodes > QUERIES / 2

"""Vectors switched off and on in a session, and what plans tell of them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from pgbillion.common.connection import Connection

Plan = Mapping[str, Any]

# off: plans are PostgreSQL's own
SETTING = "pgbillion_rows.enable"
# off: the heap is read, force: a columnar index wherever there is one that can be
COLUMNS = "pgbillion_rows.columns"
NODE = "VectorAggregate"
JOIN = "VectorJoin"
# what such a node tells with VERBOSE: the columns that it reads of its table
COLUMNS_OF_TABLE = "Table Columns"


def switch(conn: Connection, on: bool, *, columns: str | None = None) -> None:
    """Switch the extension's part in planning for the session, and whether columnar indexes are read."""
    for name, value in ((SETTING, "on" if on else "off"), (COLUMNS, columns)):
        if value is not None:
            conn.execute("SELECT pg_catalog.set_config(%s, %s, false)", [name, value])


def explain(conn: Connection, query: str, *, run: bool = False, verbose: bool = False) -> Plan:
    """Return a query's plan, with what happened when ``run``."""
    options = ("ANALYZE, TIMING OFF, BUFFERS OFF, " if run else "") + ("VERBOSE, " if verbose else "")
    row = conn.execute(f"EXPLAIN ({options}FORMAT JSON) {query}".encode()).fetchone()
    assert row is not None
    found: list[dict[str, Any]] = row[0] if isinstance(row[0], list) else json.loads(row[0])
    plan: Plan = found[0]["Plan"]
    return plan


def nodes(plan: Plan) -> Iterator[Plan]:
    """Return the plan's nodes from the top."""
    yield plan
    for child in plan.get("Plans", ()):
        yield from nodes(child)


def vectorized(plan: Plan) -> bool:
    """Tell whether any of it is."""
    return any(node.get("Custom Plan Provider") == NODE for node in nodes(plan))


def indexes_of_columns(plan: Plan) -> list[str]:
    """Return the names of the columnar indexes that are read."""
    return [node["Columns"] for node in nodes(plan) if node.get("Custom Plan Provider") == NODE and "Columns" in node]


def parallel(plan: Plan) -> bool:
    """Tell whether more than one process may be at work."""
    return any(node.get("Workers Planned", 0) > 0 for node in nodes(plan))


def processes(plan: Plan) -> int:
    """Return how many processes were at work, the leader among them, in a plan that was run."""
    return 1 + int(sum(node.get("Workers Launched", 0) for node in nodes(plan)))


def rows_read(plan: Plan) -> int:
    """Return how many rows PostgreSQL's scans of tables have read, in a plan that was run."""
    read = 0.0
    for node in nodes(plan):
        if "Relation Name" in node:
            removed = node.get("Rows Removed by Filter", 0) + node.get("Rows Removed by Index Recheck", 0)
            read += (node["Actual Rows"] + removed) * node["Actual Loops"]
    return round(read)


def text(conn: Connection, query: str) -> str:
    """Return the plan as EXPLAIN (ANALYZE) shows it to people; the query is run."""
    rows = conn.execute(f"EXPLAIN (ANALYZE, VERBOSE, TIMING OFF, COSTS OFF, BUFFERS OFF) {query}".encode()).fetchall()
    return "\n".join(line for (line,) in rows)


def reason(conn: Connection, query: str) -> str:
    """Return what the extension says about a query: vectorized, or why it is not."""
    row = conn.execute("SELECT pg_catalog.to_regprocedure('pgbillion_rows.explain_vector(text)')").fetchone()
    if row is None or row[0] is None:
        return "the extension in this database is of before vectorized aggregation"
    row = conn.execute("SELECT pgbillion_rows.explain_vector(%s)", [query]).fetchone()
    return str(row[0]) if row else ""

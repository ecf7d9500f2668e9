"""Queries as users have them, and what each reads: which columns of which tables a columnar index has to have.

Nothing here is run. A query is planned by the server, in a transaction that is read-only and rolled back, and the
extension's own node says in the plan which columns it reads of its table: views, aliases, joins, partitions and quoted
names are then the server's matter. Planning may call functions of the query's that are immutable or help to estimate,
so a query of another role is planned with the privileges of that role (explain_as() of the extension).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

from pgbillion.common import search_path
from pgbillion.common.connection import Connection
from pgbillion.common.errors import UserError
from pgbillion.common.sql import load
from pgbillion.common.statements import Statement, split, without_comment, words_of
from pgbillion.rows import plans
from pgbillion.rows.plans import Plan

# what begins a query; all else is not planned
_QUERIES = {"select", "with", "values", "table"}
# of the statements that took longest
_MOST_STATEMENTS = 1000
_PREPARED = "pgbillion_advised"
# planning takes milliseconds; code of others could take for ever, and so could a table that is locked
_PLAN_SECONDS = 30
# what pg_stat_statements shows to a role that may not read the text
_HIDDEN = "<insufficient privilege>"
_FIELD = r"(?:year|month|day|hour|minute|second)"
_TYPED = re.compile(
    r"\b(?P<type>(?:date|time|timetz|timestamp|timestamptz|interval|numeric|bool|boolean|uuid|inet|jsonb?)"
    r"(?:\s*\(\d+\))?(?:\s+with(?:out)?\s+time\s+zone)?)\s+(?P<value>\$\d+)\b"
    rf"(?P<fields>(?:\s+{_FIELD}\b(?:\s+to\s+{_FIELD}\b)?)?)",
    re.IGNORECASE,
)
# What reading columns costs of what reading the heap vectorized does: of rows the planner's own factor, and of pages
# about what an index of some columns has.
_OF_ROWS, _OF_PAGES = 0.3, 0.1
_INDEX_SCANS = ("enable_indexscan", "enable_indexonlyscan", "enable_bitmapscan")
_SETTINGS = {
    "pgbillion_rows.enable": "on",
    "pgbillion_rows.vector_aggregate": "on",
    "pgbillion_rows.vector_scan": "off",
    # a node with joins does not tell its table's columns
    "pgbillion_rows.vector_join": "off",
    "pgbillion_rows.columns": "off",
}


STATEMENTS = "pg_stat_statements"


@dataclass(frozen=True)
class Query:
    """A query, how often it is run, and where it is from.

    With a ``role`` (its OID) the query is planned with that role's privileges, and under its search path.
    """

    text: str
    calls: int = 1
    where: str = ""
    role: int | None = None
    path: str = ""

    @property
    def to_plan(self) -> str:
        """The text as it can be planned."""
        return _with_casts(self.text) if self.where == STATEMENTS else self.text

    @property
    def digest(self) -> str:
        """What it is known by in the journal."""
        return _digest(self.text)


@dataclass(frozen=True)
class Counted:
    """What pg_stat_statements has of a database: queries that may be planned, and how many of others there are.

    ``others`` are queries of roles that this one may not SET, ``superusers`` those that are not planned
    unattended, and ``hidden`` statements whose text it may not read. ``calls`` are those of all queries, by digest.
    """

    queries: tuple[Query, ...]
    others: int
    superusers: int
    hidden: int
    calls: Mapping[str, int]


@dataclass(frozen=True)
class Read:
    """A table of a query's plan, and those of its columns that are read."""

    schema: str
    table: str
    columns: frozenset[str]


@dataclass(frozen=True)
class Planned:
    """What the vectorized scans of a query read from tables; why nothing, if there are none."""

    query: Query
    reads: tuple[Read, ...]
    reason: str = ""


def of_text(text: str, where: str) -> list[Query]:
    """Return the queries of a text, cut as psql cuts it. Raises UserError for anything else that is in it."""
    found = []
    for statement in split(text, where):
        words = words_of(statement)
        query, line = without_comment(statement)
        if not words or words[0] not in _QUERIES:
            raise UserError(
                f"{where}, line {line}: {_begin(query)} is not a query",
                "leave out what does not begin with SELECT, WITH, VALUES or TABLE: nothing here is run",
            )
        found.append(Query(query, where=f"line {line}"))
    if not found:
        raise UserError(f"{where} has no query", "give SELECT statements, with semicolons in between")
    return found


def of_file(path: Path) -> list[Query]:
    """Return the queries of a file. Raises UserError for what cannot be read as such."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise UserError(f"{path} is not text in UTF-8", "convert it, with iconv for one") from None
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}", "name a file with --file") from error
    return of_text(text, str(path))


def of_statistics(conn: Connection, *, all_roles: bool, unattended: bool = False) -> Counted:
    """Return the queries that pg_stat_statements has seen in this database.

    To plan a query can run functions of it. Those of this role and of superusers are planned as this role, and those
    of a role that it may SET as that role; ``unattended``, nothing is planned as a superuser. With
    ``all_roles`` the others are planned as this role, too. Raises UserError where the view cannot be read.
    """
    row = conn.execute(load("rows", "statements_view").encode()).fetchone()
    if row is None:
        raise UserError(
            f"database {conn.info.dbname} does not have the extension pg_stat_statements",
            "name it in shared_preload_libraries, restart the server, run CREATE EXTENSION pg_stat_statements; or give"
            " a query, or a file with --file",
        )
    view = sql.Identifier(*row)
    try:
        may_set = "SET" if conn.info.server_version >= 160000 else "MEMBER"
        counted = load("rows", "statements").replace("{may_set}", may_set)
        rows = conn.execute(sql.SQL(counted).format(view=view)).fetchall()
    except psycopg.errors.ObjectNotInPrerequisiteState:
        raise UserError(
            "pg_stat_statements has counted nothing, because its library is not loaded",
            "name it in shared_preload_libraries, and restart the server",
            status=3,
        ) from None
    except psycopg.errors.InsufficientPrivilege:
        raise UserError(
            f"role {conn.info.user} may not read {view.as_string(None)}",
            "GRANT USAGE on its schema, SELECT on the view and pg_read_all_stats to the role; or connect as another",
            status=3,
        ) from None
    found: list[Query] = []
    others = superusers = hidden = 0
    calls: dict[str, int] = {}
    careful = unattended and _is_superuser(conn)
    for text, number, statements_of_it, trusted, role, path in rows:
        if text == _HIDDEN:
            hidden += int(statements_of_it)
            continue
        statements = _statements(text)
        if statements is None or len(statements) != 1:
            continue
        words = words_of(statements[0])
        if not words or words[0] not in _QUERIES:
            continue
        calls[_digest(text)] = int(number)
        if trusted and not careful:
            query = Query(text, int(number), STATEMENTS)
        elif role is not None:
            known = path if path is not None else search_path.of_session(conn)
            query = Query(text, int(number), STATEMENTS, role, known)
        elif all_roles:
            query = Query(text, int(number), STATEMENTS)
        else:
            others, superusers = others + (not trusted), superusers + trusted
            continue
        if len(found) < _MOST_STATEMENTS:
            found.append(query)
    return Counted(tuple(found), others, superusers, hidden, calls)


def _with_casts(text: str) -> str:
    """Return a normalized query with the constants of types that are named before them as casts.

    pg_stat_statements makes `date $1` of `date '2026-01-01'`, which is a syntax error.
    """
    return _TYPED.sub(r"CAST(\g<value> AS \g<type>\g<fields>)", text)


def _is_superuser(conn: Connection) -> bool:
    row = conn.execute("SELECT rolsuper FROM pg_roles WHERE rolname = current_user").fetchone()
    return row is None or bool(row[0])


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:16]


def plan(conn: Connection, queries: Sequence[Query], *, strict: bool) -> list[Planned]:
    """Plan the queries, each for itself, in a transaction of the caller's that is rolled back afterwards.

    What the server refuses is an error when ``strict``, and else a reason.
    """
    for name, value in _SETTINGS.items():
        _set(conn, name, value)
    found = []
    for query in queries:
        try:
            # whatever it sets is undone
            with conn.transaction(force_rollback=True):
                if not strict:
                    _set(conn, "statement_timeout", f"{_PLAN_SECONDS}s")
                if query.role is not None:
                    found.append(_plan(conn, query))
                else:
                    with search_path.restored(conn):
                        found.append(_plan(conn, query))
        except psycopg.Error as error:
            if strict or error.diag.message_primary is None:
                raise
            found.append(Planned(query, (), f"the server refuses to plan it: {error.diag.message_primary}"))
        # an error leaves it, and so does a rollback
        conn.execute("DEALLOCATE ALL")
    return found


def _plan(conn: Connection, query: Query) -> Planned:
    """Plan a query under the user's path. What is sent beside it is qualified."""
    tree, parameters = _explain(conn, query)
    reads = [read for _, read in _reads(tree)]
    known = {(read.schema, read.table) for read in reads}
    # what an index of another kind serves now can still be slower than columns would be
    with conn.transaction(force_rollback=True):
        for name in _INDEX_SCANS:
            _set(conn, name, "off")
        other, _ = _explain(conn, query)
    for node, read in _reads(other):
        if (read.schema, read.table) not in known:
            cost, pages = float(node["Total Cost"]), _cost_of_pages(conn, read)
            saved = (1 - _OF_PAGES) * min(pages, cost) + (1 - _OF_ROWS) * max(cost - pages, 0)
            if other["Total Cost"] - saved < tree["Total Cost"]:
                reads.append(read)
    return Planned(query, tuple(reads), "" if reads else _why_not(conn, query, parameters))


def _explain(conn: Connection, query: Query) -> tuple[Plan, int]:
    """Return the plan of a query, and how many parameters it has, of which no value is known.

    In one message of the extended protocol there can be one statement only, and PREPARE takes nothing that is not a
    query or a change of rows, which EXPLAIN without ANALYZE does not carry out.
    """
    if query.role is not None:
        plan: Plan = _explain_as(conn, query, query.role, query.path)["Plan"]
        return plan, 0
    conn.execute(f"PREPARE {_PREPARED} AS {query.to_plan}".encode(), binary=True)
    row = conn.execute(
        "SELECT pg_catalog.cardinality(parameter_types) FROM pg_catalog.pg_prepared_statements"
        " WHERE name OPERATOR(pg_catalog.=) %s::pg_catalog.text",
        [_PREPARED],
    ).fetchone()
    assert row is not None
    given = f"({', '.join(['NULL'] * row[0])})" if row[0] else ""
    if row[0]:
        # partitions are not to be left out because a parameter is NULL here
        _set(conn, "enable_partition_pruning", "off")
    _set(conn, "plan_cache_mode", "force_generic_plan")
    tree = plans.explain(conn, f"EXECUTE {_PREPARED}{given}", verbose=True)
    # it keeps its plan, whatever is set
    conn.execute(f"DEALLOCATE {_PREPARED}".encode())
    return tree, int(row[0])


def _explain_as(conn: Connection, query: Query, role: int, path: str) -> Mapping[str, Any]:
    """Return the plan that a role gets, without values of parameters, and the reasons for it."""
    row = conn.execute(
        "SELECT pgbillion_rows.explain_as(%s::pg_catalog.text, %s::pg_catalog.oid::pg_catalog.regrole,"
        " %s::pg_catalog.text)",
        [query.to_plan, role, path],
    ).fetchone()
    assert row is not None
    found: Mapping[str, Any] = row[0]
    return found


def _reads(tree: Plan) -> Iterator[tuple[Plan, Read]]:
    """Return what vectorized scans read, with their nodes."""
    for node in plans.nodes(tree):
        if node.get("Custom Plan Provider") == plans.NODE and plans.COLUMNS_OF_TABLE in node:
            columns = frozenset(node[plans.COLUMNS_OF_TABLE])
            yield node, Read(node["Schema"], node["Relation Name"], columns)


def _cost_of_pages(conn: Connection, read: Read) -> float:
    """Return what the planner says that reading a table's pages costs."""
    row = conn.execute(
        "SELECT pg_catalog.float8mul(c.relpages::pg_catalog.float8,"
        " pg_catalog.current_setting('seq_page_cost')::pg_catalog.float8)"
        " FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace"
        " WHERE n.nspname OPERATOR(pg_catalog.=) %s::pg_catalog.name"
        " AND c.relname OPERATOR(pg_catalog.=) %s::pg_catalog.name",
        [read.schema, read.table],
    ).fetchone()
    return float(row[0]) if row else 0.0


# of explain_vector()'s lines: why rows are not returned by a vectorized scan, and how long the plan takes
_NO_REASONS = ("no vectorized scan", "estimated to take")


def _why_not(conn: Connection, query: Query, parameters: int) -> str:
    if parameters or query.role is not None:
        role, path = (_own_role(conn), search_path.of_session(conn)) if query.role is None else (query.role, query.path)
        reasons = str(_explain_as(conn, query, role, path)["Reasons"]).splitlines()
        # without values, nearly every estimate is one
        told = [line for line in reasons if " is a guess: " not in line and not line.startswith(_NO_REASONS)]
        return "; ".join(dict.fromkeys(told)) or "not vectorized: there is nothing to aggregate"
    # the last line says what came of it, which is nothing; scans without aggregation read no columnar index anyhow
    lines = plans.reason(conn, query.to_plan).splitlines()
    return "; ".join([line for line in lines[:-1] if not line.startswith(_NO_REASONS)] or lines)


def _own_role(conn: Connection) -> int:
    row = conn.execute(
        "SELECT oid::pg_catalog.int8 FROM pg_catalog.pg_roles WHERE rolname OPERATOR(pg_catalog.=) current_user"
    ).fetchone()
    assert row is not None
    return int(row[0])


def _set(conn: Connection, name: str, value: str) -> None:
    conn.execute("SELECT pg_catalog.set_config(%s, %s, false)", [name, value])


def _begin(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= 40 else words[:39] + "…"


def _statements(text: str) -> list[Statement] | None:
    """Return the statements of a text that is not the user's own, None for what psql would not take."""
    try:
        return split(text)
    except UserError:
        return None

"""Joins whose sides have a hundred times the rows that the planner expects, most of them with 64 kB of memory.

PGBILLION_TEST_OUTGROWN is how many queries are generated (default 300), PGBILLION_TEST_SEED repeats a run.
"""

from __future__ import annotations

import os
import random
import re
from collections.abc import Callable, Iterator

import pytest

from harness import servers
from harness.amount import Count, amount
from harness.outcomes import AGAIN, WAYS, both, explained_each, leaving_nothing
from pgbillion.common.connection import Connection
from pgbillion.rows import plans
from pgbillion.server.postgres import Cluster

pytestmark = pytest.mark.majors

QUERIES = amount("PGBILLION_TEST_OUTGROWN", 300, 60)
SEED = int(os.environ.get("PGBILLION_TEST_SEED") or random.SystemRandom().randrange(2**31))
# where a is 1, so are the next three, which the planner does not know
TABLES = """
CREATE TABLE wide AS SELECT i AS id, i % 4 AS a, i % 4 AS b, i % 4 AS c, i % 4 AS d, nullif(i % 700, 7) AS k,
    CASE WHEN i % 9 <> 4 THEN 's' || i % 400 END AS s, repeat('x', 60) || i % 3000 AS w, i % 9 AS v
    FROM generate_series(1, {rows}) i;
CREATE TABLE facts AS SELECT i AS id, nullif(i % 701, 5)::bigint AS k, 's' || i % 399 AS s,
    repeat('x', 60) || i % 2500 AS w, nullif(i % 13, 3) AS v FROM generate_series(1, {rows}) i;
CREATE TABLE partly (LIKE facts);
INSERT INTO partly SELECT * FROM facts WHERE id % 19 = 0;
CREATE FUNCTION many(above integer) RETURNS TABLE (id integer, k bigint, s text, w text, v integer) ROWS 1
    STABLE PARALLEL SAFE LANGUAGE plpgsql
    AS 'BEGIN RETURN QUERY SELECT f.id, f.k, f.s, f.w, f.v FROM facts f WHERE f.v > above; END';
CREATE INDEX ON facts USING columns (id, k, s, v);
CREATE INDEX ON wide USING columns (a, b, c, d, k, s, w, v, id);
VACUUM ANALYZE wide, facts, partly
"""
COLUMNS = "id, k, s, w, v"
SOURCES = (
    f"(SELECT {COLUMNS} FROM wide WHERE a = 1 AND b = 1 AND c = 1 AND d = 1)",
    f"(SELECT {COLUMNS} FROM wide WHERE a = 2 AND b = 2 AND c = 2 AND d = 2 AND v < 8)",
    f"(SELECT DISTINCT ON (k, s) {COLUMNS} FROM wide WHERE a = 3 AND b = 3 AND c = 3 ORDER BY k, s, id)",
    f"(SELECT {COLUMNS} FROM wide WHERE a = 1 AND b = 1 AND c = 1 UNION ALL SELECT {COLUMNS} FROM partly)",
    f"(SELECT {COLUMNS} FROM facts WHERE v = 5)",
    "many(4)", "many(9)", "listed", "facts", "facts", "partly",
)  # fmt: skip
EQUALITIES = (
    "{a}.k = {b}.k", "{a}.k = {b}.k", "{a}.s = {b}.s AND {a}.k = {b}.k", "{a}.id = {b}.id", "{a}.w = {b}.w",
    "{a}.k = {b}.id", "{a}.s = {b}.s AND {a}.v = {b}.v",
)  # fmt: skip
OTHERS = ("{a}.v <> {b}.v", "{a}.w < {b}.w", "{a}.id > {b}.id", "({a}.v > 3 OR {b}.v < 5)")
ABOVE = (
    "SELECT count(*), sum({last}.v), max({last}.w), sum(a.id) {text}",
    "SELECT a.v, count(*), sum({last}.v), min({last}.w) {text} GROUP BY 1",
    "SELECT a.k, {last}.v, count(*), count(DISTINCT {last}.s) {text} GROUP BY 1, 2",
    "SELECT a.v, {last}.v, count(*), max(a.w) {text} GROUP BY ROLLUP (1, 2)",
    "SELECT a.id, {last}.id, a.w, {last}.w {text}",
    "SELECT DISTINCT a.s, {last}.v {text}",
    "SELECT {every} {text} ORDER BY {every} LIMIT 40",
    "SELECT count(*) FROM (SELECT a.w, {last}.w {text} LIMIT 300) l",
    "SELECT g, l.* FROM generate_series(1, 3) g, LATERAL (SELECT count(*), sum({last}.v) {text} AND a.v > g * 2) l",
)
CHANGING = re.compile(r"\bFROM (wide|facts|partly) WHERE ")


@pytest.fixture(scope="module")
def tables(cluster: Cluster) -> Iterator[str]:
    with servers.new_database(cluster, "outgrown") as name:
        with cluster.connect(name) as conn:
            for path, rows in (("public", 4000), ("small", 1200)):
                conn.execute(f"CREATE SCHEMA IF NOT EXISTS {path}; SET search_path = {path}".encode())
                for statement in TABLES.format(rows=rows).split(";\n"):
                    conn.execute(statement.encode())
        yield name


def generated(chance: random.Random) -> str:
    """A join of two to four sources."""
    conditions = ["true"]

    def matches(one: str, other: str) -> str:
        terms = [chance.choice(EQUALITIES), *chance.sample(OTHERS, chance.choice((0, 0, 1)))]
        return " AND ".join(terms).format(a=one, b=other)

    names = ["a"]
    text = f"FROM {chance.choice(SOURCES)} a"
    for name in "bcd"[: chance.choice((0, 1, 1, 1, 2))]:
        kind = chance.choice(("JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN"))
        text += f" {kind} {chance.choice(SOURCES)} {name} ON {matches(chance.choice(names), name)}"
        names.append(name)
    if len(names) == 1 or chance.random() < 0.3:
        negated = chance.choice(("", "NOT "))
        conditions.append(f"{negated}EXISTS (SELECT FROM {chance.choice(SOURCES)} x WHERE {matches('a', 'x')})")
    if chance.random() < 0.2:
        conditions.append(f"a.id {chance.choice(('', 'NOT '))}IN (SELECT x.id FROM {chance.choice(SOURCES)} x)")
    every = ", ".join(f"{name}.{column}" for name in names for column in ("id", "k", "w"))
    text += f" WHERE {' AND '.join(conditions)}"
    listed = f"WITH listed AS MATERIALIZED (SELECT {COLUMNS} FROM wide WHERE a = 0 AND b = 0 AND c = 0)"
    return f"{listed} {chance.choice(ABOVE).format(text=text, last=names[-1], every=every)}"


def settings_by_chance(chance: random.Random) -> str:
    memory = chance.choice(("64kB", "64kB", "64kB", "4MB"))
    return (
        f"SET work_mem = '{memory}'; SET hash_mem_multiplier = {chance.choice((1, 1, 2))};"
        f" SET enable_nestloop = {chance.choice(('off', 'off', 'off', 'off', 'on'))};"
        f" SET enable_mergejoin = {chance.choice(('off', 'off', 'on'))};"
        f" SET max_parallel_workers_per_gather = {chance.choice((0, 0, 0, 0, 0, 2))};"
        f" SET search_path = {chance.choice(('public', *['small, public'] * 4))};"
        f" SET pgbillion_rows.vector_join = {chance.choice(('on', 'force', 'force'))};"
        f" SET pgbillion_rows.vector_aggregate = {chance.choice(('on', 'force'))};"
        f" SET pgbillion_rows.columns = {chance.choice(('off', 'on', 'force'))};"
    )


def outgrown(conn: Connection, query: str, settings: str) -> tuple[bool, bool]:
    """Whether a query runs our joins, and whether one of their tables went to files."""
    conn.execute(f"SAVEPOINT explained; {settings}".encode())
    text = plans.text(conn, query)
    conn.execute("ROLLBACK TO explained")
    tables = re.findall(r"^ *Hash Table \d+: .*$", text, re.MULTILINE)
    return bool(tables), any("partitions=" in table for table in tables)


def test_generated(cluster: Cluster, tables: str, tell: Callable[[str], None], counted: Count) -> None:
    chance = random.Random(SEED)
    numbers = {"queries": 0, "explained": 0, "with our joins": 0, "with partitions": 0}
    with leaving_nothing(cluster, tables), cluster.connect(tables) as conn:
        conn.prepare_threshold = None
        conn.execute(
            "LOAD 'pgbillion_rows'; SET min_parallel_table_scan_size = 0; SET parallel_setup_cost = 0;"
            " SET parallel_tuple_cost = 0; SET statement_timeout = '300s'; BEGIN"
        )
        for number in range(QUERIES):
            query, settings, way = generated(chance), settings_by_chance(chance), chance.choice(WAYS)
            text = query
            if way == AGAIN and chance.random() < 0.7:
                # other rows each time
                text = CHANGING.sub(r"FROM \1 WHERE \1.id % 3 <> again.n - 1 AND ", query)
                text = text.replace("many(4)", "many(again.n + 2)")
            off = f"{settings} SET pgbillion_rows.enable = off;"
            core = both(conn, text, off, settings, way, f"seed {SEED}, number {number}")
            assert not isinstance(core, str), f"{core}: {query}"
            numbers["queries"] += 1
            if number % explained_each(QUERIES) == 0:
                joined, partitioned = outgrown(conn, query, settings)
                numbers["explained"] += 1
                numbers["with our joins"] += joined
                numbers["with partitions"] += partitioned
        conn.execute("ROLLBACK")
    tell(f"seed {SEED}: {numbers}")
    counted(numbers)
    assert numbers["with our joins"] > numbers["explained"] * 0.3
    assert numbers["with partitions"] > numbers["explained"] * 0.1

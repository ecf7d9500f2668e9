"""Joins, subqueries and groups are planned, whichever statistics the tables have, and answers are the same.

Tables that have just been made have none, and autovacuum analyzes one after another. PGBILLION_TEST_STATISTICS is how
often some of them are taken away (default 100), PGBILLION_TEST_SEED repeats a run.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from harness import servers
from harness.amount import Count, amount
from pgbillion.common.connection import Connection
from pgbillion.server.postgres import Cluster

pytestmark = pytest.mark.majors

TIMES = amount("PGBILLION_TEST_STATISTICS", 100, 40)
SEED = int(os.environ.get("PGBILLION_TEST_SEED") or random.SystemRandom().randrange(2**31))
# planned with each choice of statistics, and of these run
PLANNED, RUN = 30, 3

TABLES = """
CREATE TABLE facts AS SELECT i AS id, i * 7 % 211 AS shop, i * 11 % 1300 AS day, i % 17 AS kind,
    i % 1000 / 10.0 AS price, 'fact ' || i % 50 AS note FROM generate_series(1, 20000) i;
CREATE INDEX ON facts (shop);
CREATE INDEX ON facts (day, kind);
CREATE TABLE returned AS SELECT id, shop, day, price FROM facts WHERE id % 9 = 0;
CREATE UNIQUE INDEX ON returned (id);
CREATE INDEX ON returned (shop);
CREATE TABLE shops AS SELECT i AS id, 'shop ' || i AS name, i % 7 AS region FROM generate_series(1, 150) i;
ALTER TABLE shops ADD PRIMARY KEY (id);
CREATE TABLE few AS SELECT i AS id, 'few ' || i AS name, i % 3 AS region FROM generate_series(1, 10) i;
ALTER TABLE few ADD PRIMARY KEY (id);
CREATE TABLE days AS SELECT i AS id, 'day ' || i AS name, i / 30 AS region FROM generate_series(0, 4000) i;
ALTER TABLE days ADD PRIMARY KEY (id);
CREATE TABLE kinds AS SELECT i AS id, i % 4 AS region, 'kind ' || i AS name, i / 2 AS shop
    FROM generate_series(0, 30) i;
CREATE UNIQUE INDEX ON kinds (id, shop);
CREATE TABLE parts (LIKE facts) PARTITION BY RANGE (day);
CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (400);
CREATE TABLE parts_2 PARTITION OF parts DEFAULT;
INSERT INTO parts SELECT * FROM facts;
CREATE VIEW both_of_them AS SELECT shop, day, id, price, 1 AS kind FROM facts
    UNION ALL SELECT shop, day, id, price, 2 FROM returned;
CREATE INDEX facts_columns ON facts USING columns (id, shop, day, kind, price);
VACUUM ANALYZE;
"""
LARGE = ("facts", "facts", "parts", "both_of_them", "returned")
DIMENSIONS = {"shops": "shop", "few": "shop", "days": "day", "kinds": "kind"}
SETTINGS = ("vector_join", "vector_scan", "vector_aggregate", "eager_aggregate")


@pytest.fixture(scope="module")
def database(cluster: Cluster) -> Iterator[str]:
    with servers.new_database(cluster, "statistics_missing") as name:
        with cluster.connect(name) as conn:
            conn.execute("CREATE EXTENSION IF NOT EXISTS pgbillion_rows")
            for statement in TABLES.split(";"):
                conn.execute(statement.encode())
        yield name


def condition(chance: random.Random, alias: str, dimension: str) -> str:
    most = {"shops": 150, "few": 10, "days": 4000, "kinds": 30}[dimension]
    word = dimension.removesuffix("s") if dimension != "few" else "few"
    return chance.choice(
        (
            f"{alias}.name = '{word} {chance.randrange(most)}'",
            f"{alias}.region = {chance.randrange(8)}",
            f"{alias}.region BETWEEN {chance.randrange(4)} AND {chance.randrange(9)}",
            f"{alias}.id < {chance.randrange(most)}",
            f"{alias}.name LIKE '%{chance.randrange(10)}'",
            f"{alias}.name IS NULL",
            "true",
        )
    )


def query(chance: random.Random) -> str:
    """A star around one of the large tables, with dimensions joined, or asked whether they have a row."""
    large = chance.choice(LARGE)
    joins: list[str] = []
    where = [chance.choice(("true", "f.price > 50", f"f.shop = {chance.randrange(211)}", "f.price IS NOT NULL"))]
    shown = []
    for number, dimension in enumerate(chance.sample(list(DIMENSIONS), chance.randrange(1, 4))):
        alias = f"d{number}"
        column = DIMENSIONS[dimension] if large != "returned" or dimension != "kinds" else "day"
        on = f"{alias}.id = f.{column}"
        form = chance.choice(("JOIN", "JOIN", "JOIN", "LEFT JOIN", "EXISTS", "NOT EXISTS", "IN"))
        if form.endswith("JOIN"):
            joins.append(f"{form} {dimension} {alias} ON {on}")
            where.append(condition(chance, alias, dimension))
            shown.append(f"{alias}.region")
        elif form == "IN":
            where.append(
                f"f.{column} IN (SELECT id FROM {dimension} {alias} WHERE {condition(chance, alias, dimension)})"
            )
        else:
            where.append(
                f"{form} (SELECT 1 FROM {dimension} {alias} WHERE {on} AND {condition(chance, alias, dimension)})"
            )
    if chance.random() < 0.2:
        where.append("f.price > (SELECT avg(r.price) FROM returned r WHERE r.shop = f.shop)")
    group = chance.choice(shown) if shown and chance.random() < 0.7 else "f.shop % 5"
    return (
        f"SELECT {group}, count(*), min(f.price), max(f.id) FROM {large} f {' '.join(joins)}"
        f" WHERE {' AND '.join(where)} GROUP BY 1 ORDER BY 1"
    )


def take_statistics(conn: Connection, chance: random.Random) -> str:
    """Take some statistics away, until the transaction ends, and tell which."""
    ours = "(SELECT oid FROM pg_class WHERE relnamespace = 'public'::regnamespace)"
    share = chance.choice((0.2, 0.5, 0.9))
    conn.execute("SELECT setseed(%s)", [chance.random()])
    kind = chance.choice(("of columns", "of tables", "of kinds", "of tables and their sizes"))
    if kind == "of columns":
        conn.execute(f"DELETE FROM pg_statistic WHERE starelid IN {ours} AND random() < {share}".encode())
    elif kind == "of kinds":
        conn.execute(f"UPDATE pg_statistic SET stakind1 = 0 WHERE starelid IN {ours} AND random() < {share}".encode())
        conn.execute(f"UPDATE pg_statistic SET stakind2 = 0 WHERE starelid IN {ours} AND random() < {share}".encode())
    else:
        conn.execute(
            f"CREATE TEMP TABLE chosen ON COMMIT DROP AS SELECT * FROM {ours} t WHERE random() < {share}".encode()
        )
        conn.execute("DELETE FROM pg_statistic WHERE starelid IN (SELECT oid FROM chosen)")
        if kind != "of tables":
            conn.execute(
                "UPDATE pg_class SET reltuples = -1, relpages = 0, relallvisible = 0"
                " WHERE oid IN (SELECT oid FROM chosen)"
            )
    return f"{kind}, {share}"


def test_generated(cluster: Cluster, database: str, counted: Count, tell: Callable[[str], None]) -> None:
    chance = random.Random(SEED)
    tally: Counter[str] = Counter()
    with cluster.connect(database) as conn:
        conn.prepare_threshold = None
        conn.execute("LOAD 'pgbillion_rows'; SET jit = off")
        for _ in range(TIMES):
            asked = [query(chance) for _ in range(PLANNED)]
            with conn.transaction(force_rollback=True):
                taken = take_statistics(conn, chance)
                settings = {name: chance.choice(("on", "on", "force")) for name in SETTINGS}
                for name, value in settings.items():
                    conn.execute(f"SET LOCAL pgbillion_rows.{name} = {value}".encode())
                conn.execute(f"SET LOCAL pgbillion_rows.columns = {chance.choice(('on', 'off'))}".encode())
                conn.execute(f"SET LOCAL max_parallel_workers_per_gather = {chance.choice((0, 2))}".encode())
                for number, one in enumerate(asked):
                    conn.execute("SET LOCAL pgbillion_rows.enable = on")
                    plan = "\n".join(row[0] for row in conn.execute(f"EXPLAIN {one}".encode()))
                    tally["planned"] += 1
                    tally["with vectors"] += "Custom Scan" in plan
                    if number >= RUN:
                        continue
                    found = conn.execute(one.encode()).fetchall()
                    conn.execute("SET LOCAL pgbillion_rows.enable = off")
                    expected = conn.execute(one.encode()).fetchall()
                    tally["run"] += 1
                    tally["with rows"] += bool(found)
                    assert found == expected, f"seed {SEED}, without statistics {taken}, {settings}:\n{one}\n{plan}"
    counted(tally)
    tell(f"seed {SEED}: {dict(tally)}")
    assert tally["with vectors"] > 0.3 * tally["planned"]
    assert tally["with rows"] > 0.3 * tally["run"]

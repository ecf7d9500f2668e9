"""Queries by chance over tables of an application that has never run ANALYZE, and whose tables are bloated.

PostgreSQL's plans of them rest on guesses: how many rows a table has by its pages, of which updates have left most
empty, and how many values a column has. Queries join tables and views that are two tables as one (UNION ALL), ask
whether there are other rows, and return groups or the first rows of an order, with little memory.
"""

from __future__ import annotations

import random

# autovacuum would end what these queries are about
SCHEMA = """
CREATE TABLE shop AS SELECT i AS id, i % 7 AS region, 'shop ' || i AS name FROM generate_series(1, 300) i;
CREATE TABLE day AS SELECT i AS id, date '2020-01-01' + i AS day, i / 30 AS month FROM generate_series(0, 1500) i;
CREATE TABLE kind WITH (autovacuum_enabled = off) AS
    SELECT i AS id, 'kind ' || i AS name, i % 3 AS kind_of FROM generate_series(0, 20) i;
ALTER TABLE shop ADD PRIMARY KEY (id);
ALTER TABLE day ADD PRIMARY KEY (id);
VACUUM ANALYZE shop, day;
CREATE TABLE sale (id int, shop int, percent smallint, day date, quantity int, price numeric(9, 2), note text)
    WITH (autovacuum_enabled = off);
CREATE TABLE refund (id int, shop int, reason int, day date, price numeric(9, 2)) WITH (autovacuum_enabled = off);
CREATE TABLE move (id int, shop int, day date, quantity int) WITH (autovacuum_enabled = off);
INSERT INTO sale SELECT i, i * 7 % 300, i % 100, date '2020-01-01' + i * 13 % 1500, i % 17, i % 1000 / 10.0,
    'note ' || i % 50 FROM generate_series(1, 20000) i;
INSERT INTO refund SELECT i, i * 11 % 300, i % 9, date '2020-01-01' + i * 3 % 1500, i % 300 / 10.0
    FROM generate_series(1, 4000) i;
INSERT INTO move SELECT i, i * 5 % 300, date '2020-01-01' + i * 17 % 1500, i % 30 FROM generate_series(1, 8000) i;
CREATE INDEX ON sale (shop);
CREATE INDEX ON sale (day);
CREATE INDEX ON refund (shop);
CREATE UNIQUE INDEX ON refund (id);
CREATE INDEX ON move (day);
CREATE VIEW moves AS SELECT id, shop, day, quantity FROM move UNION ALL SELECT id, shop, day, 1 FROM refund;
CREATE VIEW trades AS SELECT id, shop, day FROM sale UNION ALL SELECT id, shop, day FROM refund;
CREATE INDEX sale_columns ON sale USING columns (id, shop, percent, day, quantity, price);
"""
# how often all rows of a table are updated
UPDATES = {"refund": 30, "sale": 2}
COLUMNS = {
    "sale": ("id", "shop", "percent", "quantity"),
    "refund": ("id", "shop", "reason"),
    "move": ("id", "shop", "quantity"),
    "moves": ("id", "shop", "quantity"),
    "trades": ("id", "shop"),
    "shop": ("id", "region"),
    "day": ("id", "month"),
    "kind": ("id", "kind_of"),
}
WITH_DAY = ("sale", "refund", "move", "moves", "trades", "day")
MEMORY = ("64kB", "64kB", "4MB", "64MB")


def statements() -> list[str]:
    """What makes the tables, one statement each."""
    updates = [f"UPDATE {table} SET price = price" for table, times in UPDATES.items() for _ in range(times)]
    return [*filter(None, map(str.strip, SCHEMA.split(";"))), *updates, "VACUUM sale", "VACUUM refund"]


def generate(seed: int) -> tuple[str, str]:
    """A query, and the work_mem to run it with; the same for the same seed."""
    chance = random.Random(seed)
    tables = [chance.choice(list(COLUMNS)) for _ in range(chance.choice((2, 2, 3, 3, 4)))]
    source = f"{tables[0]} r0"
    for number, table in enumerate(tables[1:], 1):
        other = chance.randrange(number)
        join = chance.choice(("JOIN", "JOIN", "LEFT JOIN"))
        source += f" {join} {table} r{number} ON {_equality(chance, f'r{other}', tables[other], f'r{number}', table)}"
    conditions = [_condition(chance, f"r{number}", table) for number, table in enumerate(tables)]
    for _ in range(chance.choice((0, 1, 1, 2))):
        number = chance.randrange(len(tables))
        conditions.append(_exists(chance, f"r{number}", tables[number]))
    numbers = sorted(chance.sample(range(len(tables)), 2))
    outputs = ", ".join(f"r{number}.{chance.choice(COLUMNS[tables[number]])}" for number in numbers)
    source += f" WHERE {' AND '.join(filter(None, conditions)) or 'true'}"
    if chance.random() < 0.5:
        query = f"SELECT {outputs}, count(*) FROM {source} GROUP BY 1, 2 ORDER BY 1, 2 LIMIT 50"
    else:
        query = f"SELECT {outputs} FROM {source} ORDER BY 1, 2 LIMIT {chance.choice((1, 10, 100))}"
    return query, chance.choice(MEMORY)


def _equality(chance: random.Random, one: str, table: str, two: str, other: str) -> str:
    if table in WITH_DAY and other in WITH_DAY and chance.random() < 0.4:
        return f"{one}.day = {two}.day"
    return f"{one}.{chance.choice(COLUMNS[table])} = {two}.{chance.choice(COLUMNS[other])}"


def _condition(chance: random.Random, alias: str, table: str) -> str:
    form = chance.random()
    column = f"{alias}.{chance.choice(COLUMNS[table])}"
    if form < 0.3:
        return f"{column} = {chance.randrange(100)}"
    if form < 0.5:
        return f"{column} % 2 = 0"
    if form < 0.7:
        return f"{column} < {chance.randrange(300)}"
    if form < 0.8 and table in WITH_DAY:
        return f"{alias}.day > date '2020-01-01' + {chance.randrange(1500)}"
    return ""


def _exists(chance: random.Random, alias: str, table: str) -> str:
    other = chance.choice(list(COLUMNS))
    way = chance.choice(("EXISTS", "EXISTS", "NOT EXISTS"))
    conditions = filter(None, (_equality(chance, alias, table, "s", other), _condition(chance, "s", other)))
    return f"{way} (SELECT FROM {other} s WHERE {' AND '.join(conditions)})"

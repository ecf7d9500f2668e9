"""Queries over joins along a big table, mostly aggregates, by chance: hash joins of every kind that vectors may do.

The big table has NULLs and duplicates in all that it is joined by; the others have duplicates, NULLs, no row at all,
other types for the same values, and rows that join with nothing.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

TABLES = """
CREATE TABLE fact (id integer, a smallint, b integer, c bigint, s text, v varchar(9), p char(4), n numeric, d date,
    ts timestamp, f double precision, r real, x integer, big text);
INSERT INTO fact SELECT i, nullif(i % 17, 5), nullif(i % 41, 7), nullif(i % 13, 2) - 3, nullif(chr(97 + i % 7), 'e'),
    nullif('w' || i % 11, 'w3'), chr(97 + i % 5), round(nullif(i % 9, 4) / 2.0, 1),
    date '2024-01-01' + nullif(i % 31, 11), timestamp '2024-01-01' + make_interval(hours => i % 50), nullif(i / 8.0, 3),
    i / 16.0, nullif(i % 1000, 17) - 500, repeat(chr(97 + i % 3), 10 + i % 40) FROM generate_series(1, 1700) i;
-- pages of many versions, and rows that are gone
UPDATE fact SET x = x + 1 WHERE id % 19 = 0;
DELETE FROM fact WHERE id % 23 = 0;
CREATE TABLE ints (k integer, k2 bigint, name text, w integer);
INSERT INTO ints SELECT nullif(i % 45, 8), i % 6 - 3, 'Name ' || i % 9, nullif(i, 20) FROM generate_series(1, 70) i;
CREATE TABLE longs (k bigint NOT NULL, label text, g smallint);
INSERT INTO longs SELECT i - 4, CASE WHEN i % 4 > 0 THEN 'l' || i % 4 END, i % 3 FROM generate_series(1, 14) i;
CREATE UNIQUE INDEX ON longs (k);
CREATE TABLE shorts (k smallint, z numeric, q real);
INSERT INTO shorts SELECT nullif(i % 12, 3), i / 2.0, i FROM generate_series(1, 24) i;
CREATE TABLE words (code text, grade integer, pad char(4), weight double precision);
INSERT INTO words VALUES ('a', 1, 'a', 1.5), ('b', 2, 'b', NULL), ('b', 1, 'c', 2), ('c', NULL, 'c', 0),
    (NULL, 3, NULL, 9), ('w1', 4, 'x', 2), ('w5', 5, 'd', -1), ('w5', 6, 'a', 7);
CREATE TABLE days (day date, season text, at timestamp);
INSERT INTO days SELECT date '2023-12-25' + i, 's' || i % 4, timestamp '2024-01-01' + make_interval(hours => i)
    FROM generate_series(1, 40) i;
CREATE TABLE nobody (k integer, name text);
CREATE TABLE many (k integer, y integer);
INSERT INTO many SELECT i % 9, i FROM generate_series(1, 300) i;
CREATE TABLE parts (k integer, h text) PARTITION BY LIST (k);
CREATE TABLE parts_1 PARTITION OF parts FOR VALUES IN (1, 2, 3, NULL);
CREATE TABLE parts_2 PARTITION OF parts DEFAULT;
INSERT INTO parts SELECT nullif(i, 4), 'h' || i % 5 FROM generate_series(1, 30) i;
-- for nested loops that look for rows, and merge joins
CREATE INDEX ON ints (k);
CREATE INDEX ON shorts (k);
CREATE INDEX ON words (code);
CREATE INDEX ON many (k, y);
CREATE INDEX ON days (day);
ANALYZE;
"""
# all columns except r
COLUMNS = """
CREATE INDEX fact_columns ON fact USING columns (id, a, b, c, s, v, p, n, d, ts, f, x, big) WITH (segment_blocks = 8)
"""


@dataclass(frozen=True)
class Side:
    """What the big table is joined with: its relation, conditions by which, and columns to group by or to add."""

    relation: str
    equal: tuple[str, ...]
    further: tuple[str, ...]
    keys: tuple[str, ...]
    values: tuple[str, ...]
    where: tuple[str, ...] = ()


# {0} is the alias
SIDES = (
    Side(
        "ints {0}",
        ("f.b = {0}.k", "f.a = {0}.k", "f.c = {0}.k", "f.b = {0}.k AND f.c = {0}.k2", "f.b + 1 = {0}.k", "{0}.k2 = f.a",
         "f.b = {0}.k + 2", "f.n = {0}.k"),
        ("{0}.w > f.x", "{0}.w + f.b > 30", "{0}.name <> 'Name ' || f.a", "f.s < {0}.name", "{0}.w > 10", "f.x > 0",
         "({0}.w IS NULL OR f.c > 1)"),
        ("{0}.name", "{0}.w % 4", "{0}.k", "f.b + {0}.w", "coalesce({0}.name, f.s)"),
        ("{0}.w", "{0}.k2", "{0}.w + f.x", "{0}.k * f.n", "f.x - {0}.w"),
        ("{0}.name LIKE '%3'", "{0}.w < 40", "{0}.k2 > f.c"),
    ),
    Side(
        "longs {0}",
        ("f.c = {0}.k", "f.a = {0}.k", "f.b = {0}.k", "{0}.k = f.c - 1"),
        ("{0}.g < f.a", "{0}.k > 2", "f.x % 3 = {0}.g"),
        ("{0}.label", "{0}.g", "{0}.label || f.s"),
        ("{0}.k", "{0}.g", "{0}.k + f.x"),
        ("{0}.label <> 'l1'", "{0}.g > 0"),
    ),
    Side(
        "shorts {0}",
        ("f.a = {0}.k", "f.b = {0}.k", "f.n = {0}.z", "f.c = {0}.k AND f.n > 1", "f.r = {0}.q"),
        ("{0}.z < f.n", "{0}.q > f.r"),
        ("{0}.k", "{0}.z"),
        ("{0}.z", "{0}.q", "{0}.z * f.n", "f.f"),
        ("{0}.z > 3",),
    ),
    Side(
        "words {0}",
        ("f.s = {0}.code", "f.v = {0}.code", "f.p = {0}.pad", "f.s = {0}.code AND f.p = {0}.pad",
         "f.s = {0}.code AND f.a = {0}.grade", "lower(f.s) = {0}.code", "f.x / 100.0::float8 = {0}.weight"),
        ("{0}.grade > f.a", "{0}.weight * f.x > 0", "{0}.pad < f.v"),
        ("{0}.code", "{0}.grade", "{0}.pad"),
        ("{0}.grade", "{0}.weight", "{0}.weight * f.f", "length({0}.code)"),
        ("{0}.grade IS NOT NULL", "{0}.code > 'a'"),
    ),
    Side(
        "days {0}",
        ("f.d = {0}.day", "f.ts = {0}.at", "f.d = {0}.day AND f.ts >= {0}.at", "f.d = {0}.at::date"),
        ("{0}.at > f.ts", "{0}.season <> f.s"),
        ("{0}.season", "{0}.day"),
        ("extract(day FROM {0}.day)", "{0}.day - f.d"),
        ("{0}.season <> 's2'", "{0}.day > date '2024-01-10'"),
    ),
    Side("nobody {0}", ("f.b = {0}.k",), ("{0}.name > f.s",), ("{0}.name",), ("{0}.k",), ("{0}.k > 0",)),
    Side("many {0}", ("f.a = {0}.k", "f.c = {0}.k"), ("{0}.y > f.x", "{0}.y % 7 = f.a"), ("{0}.y % 5",), ("{0}.y",),
         ("{0}.y < 50",)),
    Side("parts {0}", ("f.b = {0}.k", "f.a = {0}.k"), ("{0}.h > f.s",), ("{0}.h",), ("{0}.k",), ("{0}.h <> 'h1'",)),
    Side("(SELECT k, count(*) AS n, min(name) AS m FROM ints GROUP BY k) {0}", ("f.b = {0}.k", "f.a = {0}.n"),
         ("{0}.n > f.c",), ("{0}.m",), ("{0}.n",)),
    Side("(SELECT l.k, i.name, i.w FROM longs l JOIN ints i ON l.k = i.k) {0}", ("f.c = {0}.k", "f.b = {0}.k"),
         ("{0}.w > f.a",), ("{0}.name",), ("{0}.w", "{0}.w + f.b"), ("{0}.w > 15",)),
    Side("(VALUES (1, 'one'), (2, 'two'), (2, 'deux'), (NULL, 'none')) {0} (k, name)", ("f.b = {0}.k", "f.c = {0}.k"),
         ("{0}.name > f.s",), ("{0}.name",), ("{0}.k",)),
    Side("fact {0}", ("f.id = {0}.id", "f.b = {0}.id"), ("f.x < {0}.x",), ("{0}.s", "{0}.a"),
         ("{0}.x", "{0}.n", "{0}.f"), ("{0}.id < 300", "{0}.id % 10 = 3")),
)  # fmt: skip
_KEYS = ("f.s", "f.a", "f.b % 4", "f.v", "f.p", "f.d", "f.n", "upper(f.s)")
_VALUES = ("f.x", "f.c", "f.n", "f.f", "f.r", "f.id", "f.a", "f.x * f.c")
_WHERE = ("f.x > 10", "f.id BETWEEN 50 AND 1200", "f.s <> 'b'", "f.b IN (1, 2, 3, 7, 19)", "f.x > 5000",
          "f.big LIKE 'b%'", "f.d > date '2024-01-05'", "f.c IS NULL", "f.n * 2 > f.a")  # fmt: skip
_FUNCTIONS = ("sum({0})", "sum({0})", "count({0})", "avg({0})", "min({0})", "max({0})", "stddev({0})",
              "sum({0}) FILTER (WHERE {1})")  # fmt: skip
SETTINGS = (
    "",
    "",
    "",
    "pgbillion_rows.columns = force",
    "pgbillion_rows.columns = force",
    "pgbillion_rows.columns = force; SET max_parallel_workers_per_gather = 2",
    "pgbillion_rows.columns = force; SET work_mem = '64kB'; SET hash_mem_multiplier = 1",
    "enable_nestloop = on; SET enable_mergejoin = on",
    "work_mem = '64kB'; SET hash_mem_multiplier = 1",
    "work_mem = '64kB'",
    "max_parallel_workers_per_gather = 2",
    "max_parallel_workers_per_gather = 2; SET parallel_leader_participation = off",
    "join_collapse_limit = 1",
    "enable_hashagg = off",
    "enable_memoize = off; SET enable_material = off",
    "enable_nestloop = on; SET random_page_cost = 0; SET cpu_index_tuple_cost = 0",
    "enable_nestloop = on; SET random_page_cost = 0; SET enable_memoize = off",
    "enable_mergejoin = on; SET cpu_operator_cost = 0",
)
SHAPES = (
    "plain",
    "plain",
    "plain",
    "plain",
    "having",
    "subquery",
    "prepared",
    "correlated",
    "distinct",
    "union",
    "top",
    "rows",
    "rows",
    "ordered rows",
)


@dataclass(frozen=True)
class VectorJoinQuery:
    """What to run before the query, and the query."""

    setup: str
    text: str


class VectorJoinGenerator:
    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def query(self) -> VectorJoinQuery:
        chance = self._random
        self._keys = list(_KEYS)
        self._values = list(_VALUES)
        self._where: list[str] = []
        source = "fact f"
        for number in range(chance.choice((1, 1, 1, 2, 2, 3, 4))):
            source += self._join(f"j{number}")
        self._where += [condition for condition in _WHERE if chance.random() < 0.08]
        keys = chance.sample(self._keys, chance.choice((0, 1, 1, 2, 3)))
        aggregates = ["count(*)"] * (chance.random() < 0.8)
        aggregates += [self._aggregate() for _ in range(chance.randint(not aggregates, 3))]
        setup = f"SET max_parallel_workers_per_gather = 0; SET {chance.choice(SETTINGS) or 'work_mem = 4096'}"
        return self._in_shape(setup, source, keys, aggregates)

    def _join(self, alias: str) -> str:
        """One more join, and what it offers."""
        chance = self._random
        side = chance.choice(SIDES)
        kind = chance.choices(("inner", "left", "semi", "anti", "in", "not in", "right"), (6, 5, 2, 2, 1, 1, 0.3))[0]
        conditions = [chance.choice(side.equal)]
        if chance.random() < 0.35:
            conditions.append(chance.choice(side.further))
        on = " AND ".join(conditions).format(alias)
        relation = side.relation.format(alias)
        match kind:
            case "semi" | "anti":
                negated = "NOT " if kind == "anti" else ""
                inner = [on, *(condition.format(alias) for condition in side.where if chance.random() < 0.2)]
                self._where.append(f"{negated}EXISTS (SELECT FROM {relation} WHERE {' AND '.join(inner)})")
                return ""
            case "in":
                self._where.append(f"f.b IN (SELECT {side.values[0].format(alias)} FROM {relation})")
                return ""
            case "not in":
                # which matches nothing where NULLs are; most of them are no joins
                self._where.append(f"f.b NOT IN (SELECT {side.values[0].format(alias)} FROM {relation})")
                return ""
            case _:
                pass
        self._keys += [key.format(alias) for key in side.keys] * 2
        self._values += [value.format(alias) for value in side.values] * 2
        self._where += [condition.format(alias) for condition in side.where if chance.random() < 0.15]
        if kind == "left" and chance.random() < 0.15:
            # rows without a match only, or with any
            self._where.append(f"{side.values[0].format(alias)} IS {chance.choice(('', 'NOT '))}NULL")
        return f" {kind.upper()} JOIN {relation} ON {on}"

    def _aggregate(self) -> str:
        chance = self._random
        value = chance.choice(self._values)
        return chance.choice(_FUNCTIONS).format(value, chance.choice((f"{value} > 3", "f.a > 4", f"{value} IS NULL")))

    def _in_shape(self, setup: str, source: str, keys: list[str], aggregates: list[str]) -> VectorJoinQuery:
        chance = self._random
        shape = chance.choice(SHAPES)
        where = self._where
        if shape == "prepared":
            where.append(chance.choice(("f.id > $1", "f.b + $1 < f.id")))
        elif shape in ("rows", "ordered rows"):
            # floats that are not added are the same
            keys, aggregates = chance.sample(self._keys, 1), chance.sample(self._values, chance.randint(1, 3))
        elif shape == "correlated":
            where.append("f.id > o.k * 100")
            keys = []
            # shown as text, where floats cannot be compared as such
            aggregates = ["count(*)", chance.choice(("sum(f.x)", "max(f.n)", "count(f.s)"))]
        group = "" if "rows" in shape else ", ".join(map(str, range(1, len(keys) + 1)))
        text = f"SELECT {', '.join([*keys, *aggregates])} FROM {source}"
        text += f" WHERE {' AND '.join(where)}" if where else ""
        text += f" GROUP BY {group}" if keys and group else ""
        match shape:
            case "having":
                text += f" HAVING {chance.choice(('count(*) > 3', 'sum(f.x) > 0', 'max(f.id) > 100'))}"
            case "subquery":
                text = f"SELECT count(q), count(*) FROM ({text}) AS q"
            case "prepared":
                setup += f"; SET plan_cache_mode = force_generic_plan; PREPARE q (integer) AS {text}"
                text = f"EXECUTE q ({chance.randint(0, 700)})"
            case "correlated":
                text = f"SELECT o.k, (SELECT row(r)::text FROM ({text}) AS r) FROM longs o"
            case "distinct" if keys:
                text = f"SELECT DISTINCT {', '.join(keys)} FROM {source}"
                text += f" WHERE {' AND '.join(where)}" if where else ""
            case "union":
                text = f"({text}) UNION ALL ({text})"
            case "ordered rows":
                # equal rows may look different
                place = "row_number() OVER (ORDER BY whole, whole::text) AS place"
                text = f"SELECT whole.*, {place} FROM ({text}) AS whole ORDER BY place LIMIT 40"
            case "top" if keys:
                text += f" ORDER BY {group}"
            case _:
                pass
        return VectorJoinQuery(setup, text)

"""Aggregate queries over joins by chance: what can be aggregated before the join, and some of what must not be.

One big table (rows with null keys, and keys that no other table has), and small ones with duplicate and null keys. What
no table has as counterpart holds values next to the limits of their types: to add or multiply them is an error.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

BIG = (
    "id integer, k integer, k2 bigint, s text, n numeric, x integer, v numeric(30, 12), f double precision, b boolean,"
    " r real, l bigint, m money, i interval, h numeric, ts date"
)
FILL_BIG = (
    "INSERT INTO {} SELECT i, nullif(i % 23, 7), nullif(i % 11, 3), nullif(chr(97 + i % 6), 'e'),"
    " CASE WHEN i % 2 = 0 THEN 1.0 ELSE 1.00 END, i % 1000 - 500, nullif(i / 7.0, 1), i / 8.0 - 100, i % 3 = 0,"
    " i / 16.0 - 40, i * 1000, i * 7, make_interval(days => i), i / 3.0, date '2020-01-01' + i % 400"
    " FROM generate_series(1, 1500) i"
    " UNION ALL SELECT i, 500, 500, '!', 2, 2147483647, 999999999999999999, 1.7e308, true, 3.4e38,"
    " 9223372036854775807, 9223372036854775807::numeric / 100, interval '178956970 years', 9e131071,"
    " date '2020-01-01' FROM generate_series(1, 12) i"
)
SMALL = """
CREATE TABLE d1 (id integer, name text, region text, w integer);
CREATE TABLE d2 (id bigint, label text);
CREATE TABLE d3 (code text, grade integer);
INSERT INTO d1 SELECT nullif(i % 20, 4), 'Name ' || i % 7, 'r' || i % 3, i FROM generate_series(1, 35) i;
INSERT INTO d2 SELECT nullif(i, 5), 'l' || i % 4 FROM generate_series(1, 9) i;
INSERT INTO d3 VALUES ('a', 1), ('b', 2), ('b', 1), ('c', NULL), (NULL, 3), ('z', 4), ('e', 5);
CREATE INDEX ON d1 (id);
ANALYZE d1, d2, d3;
"""

_JOINS = {
    "d1": ("t.k = d1.id", "t.k = d1.id", "t.k = d1.id AND d1.w > t.k2", "t.k = d1.id AND (t.k2 > 5 OR d1.w < 20)"),
    "d2": ("t.k2 = d2.id", "t.k2 = d2.id", "t.k2 = d2.id AND d2.id > 2"),
    "d3": ("t.s = d3.code", "t.s = d3.code", "t.s >= d3.code AND t.k = d3.grade"),
}
_KEYS = {
    "t": ("t.k", "t.s", "t.k2 % 3", "t.ts"),
    "d1": ("d1.name", "lower(d1.name)", "d1.w % 3", "d1.region", "d1.w + t.k"),
    "d2": ("d2.label", "d2.id"),
    "d3": ("d3.grade", "d3.code"),
}
_AGGREGATES = (
    "count(*)", "count(*)", "count(t.v)", "sum(t.x)", "sum(t.v)", "sum(t.id::bigint)", "avg(t.x)", "avg(t.v)",
    "avg(t.r)", "min(t.s)", "max(t.ts)", "min(t.v)", "bool_or(t.b)", "every(t.x > 0)", "stddev(t.v)", "var_pop(t.x)",
    "variance(t.r)", "corr(t.r, t.id)", "regr_slope(t.r, t.id)", "sum(t.v * 2 + t.v)", "bit_xor(t.id)", "max(t.k)",
    "sum(CASE WHEN t.b THEN t.x ELSE 0 END)", "sum(t.x::float8)", "avg(coalesce(t.x, 0))", "sum(t.l)", "avg(t.l)",
    "variance(t.l)", "avg(t.h)", "stddev(t.h)", "max(t.m)", "max(t.i)", "max(t.f)", "min(t.h)", "max(t.r)",
    "regr_count(t.f, t.r)", "sum(t.v * t.x)", "sum(CASE WHEN t.b THEN t.v ELSE 1 END * t.v)",
)  # fmt: skip
# what fails for rows that no join leaves
_FAILING = (
    "sum(t.m)", "sum(t.i)", "avg(t.i)", "sum(t.r)", "sum(t.f)", "avg(t.f)", "stddev(t.f)", "corr(t.f, t.f)",
    "sum(t.f * 2)", "max(t.f + t.f)", "sum(t.h * t.h)", "max(t.h + t.h)", "sum(t.x + 1)", "max(t.l * 2)",
    "sum(t.m * 2)", "max(t.i + t.i)", "max(t.r * t.r)", "sum(t.r::real + t.r)", "count(*) FILTER (WHERE t.f * t.f > 1)",
)  # fmt: skip
_FILTERS = ("t.x > 0", "t.s = 'a'", "t.v IS NULL", "t.b AND t.id < 900", "t.k = 500")
_WHERE = {
    "t": ("t.x > 10", "t.id BETWEEN 50 AND 1200", "t.b", "t.s <> 'b'", "t.k IN (1, 2, 3, 7, 19)", "t.x > 5000"),
    "d1": ("d1.region = 'r1'", "d1.w < 30", "d1.name LIKE 'Name%'", "d1.region = 'none'"),
    "d2": ("d2.label <> 'l0'",),
    "d3": ("d3.grade IS NOT NULL",),
}
# each makes a query that must be left alone, unless core can make an inner join of it
_BREAKERS = (
    "outer join", "semijoin", "distinct", "numeric key", "other table", "two tables", "list", "may fail", "sets",
)  # fmt: skip
SETTINGS = (
    "",
    "",
    "enable_hashjoin = off",
    "enable_mergejoin = off; enable_nestloop = off",
    "enable_hashjoin = off; enable_mergejoin = off",
    "enable_hashjoin = off; enable_nestloop = off",
    "work_mem = '64kB'",
    "max_parallel_workers_per_gather = 2",
    "join_collapse_limit = 1",
    "geqo_threshold = 2",
    "pgbillion_rows.vector_aggregate = force",
    "pgbillion_rows.vector_aggregate = off",
)
SHAPES = ("plain", "plain", "plain", "subquery", "prepared", "correlated", "union", "cte")


@dataclass(frozen=True)
class JoinQuery:
    """What to run before the query, the query, and whether it surely is one to aggregate before the join."""

    setup: str
    text: str
    eligible: bool


class JoinGenerator:
    def __init__(self, seed: int, table: str, broken: float = 0.2) -> None:
        self._random = random.Random(seed)
        self._table = table
        self._broken = broken

    def query(self) -> JoinQuery:
        chance = self._random
        small = chance.sample(sorted(_JOINS), chance.randint(1, 3))
        breaker = chance.choice(_BREAKERS) if chance.random() < self._broken else None
        keys = self._keys(small)
        aggregates = [self._aggregate() for _ in range(chance.randint(1, 3))]
        source = f"{self._table} t"
        for number, name in enumerate(small):
            kind = "LEFT JOIN" if breaker == "outer join" and number == 0 else "JOIN"
            source += f" {kind} {name} ON {chance.choice(_JOINS[name])}"
        where = [chance.choice(_WHERE[name]) for name in ("t", *small) if chance.random() < 0.3]
        having = f" HAVING {chance.choice(('count(*) > 3', 'sum(t.x) > 0', 'max(t.id) > 100'))}" * (
            chance.random() < 0.2
        )
        match breaker:
            case "outer join":
                # it leaves them to core, too
                where.append("t.k2 IS DISTINCT FROM 500")
            case "semijoin":
                where.append("t.k2 IN (SELECT id FROM d2)")
            case "distinct":
                aggregates.append("count(DISTINCT t.x)")
            case "numeric key":
                keys.append("t.n::text")
            case "other table":
                aggregates.append(f"max({small[0]}.{'grade' if small[0] == 'd3' else 'id'} + t.id)")
            case "two tables":
                aggregates += ["sum(t.x)", f"max({small[0]}.{'grade' if small[0] == 'd3' else 'id'})"]
            case "list":
                aggregates.append("cardinality(array_agg(t.x))")
            case "may fail":
                aggregates.append(chance.choice(_FAILING))
            case _:
                pass
        return self._in_shape(source, where, keys, aggregates, having, breaker)

    def _keys(self, small: list[str]) -> list[str]:
        chance = self._random
        choices = [key for name in ("t", *small) for key in _KEYS[name] if "d1" not in key or "d1" in small]
        return chance.sample(choices, chance.choice((0, 1, 1, 1, 2)))

    def _aggregate(self) -> str:
        chance = self._random
        condition = f" FILTER (WHERE {chance.choice(_FILTERS)})" if chance.random() < 0.2 else ""
        return chance.choice(_AGGREGATES) + condition

    def _in_shape(
        self, source: str, where: list[str], keys: list[str], aggregates: list[str], having: str, breaker: str | None
    ) -> JoinQuery:
        chance = self._random
        shape = chance.choice(SHAPES)
        if shape == "prepared":
            where.append("t.id > $1")
        elif shape == "correlated":
            where.append("t.id > o.w * 40")
            # shown as text, where floats cannot be compared as such
            keys, aggregates = [], ["count(*)", chance.choice(("sum(t.x)", "max(t.v)", "avg(t.x)"))]
            breaker = breaker if breaker in ("outer join", "semijoin") else None
        outputs = ", ".join([*keys, *aggregates])
        group = ", ".join(map(str, range(1, len(keys) + 1)))
        if breaker == "sets" and keys:
            group = f"ROLLUP ({group})"
        text = f"SELECT {outputs} FROM {source}"
        text += f" WHERE {' AND '.join(where)}" if where else ""
        text += (f" GROUP BY {group}" if keys else "") + having
        eligible = breaker is None or (breaker == "sets" and not keys)
        setup = f"SET max_parallel_workers_per_gather = 0; SET {chance.choice(SETTINGS) or 'work_mem = 4096'}"
        setup = setup.replace("; enable", "; SET enable")
        match shape:
            case "subquery":
                text = f"SELECT count(q), count(*) FROM ({text}) AS q"
            case "prepared":
                setup += f"; SET plan_cache_mode = force_generic_plan; PREPARE q (integer) AS {text}"
                text = f"EXECUTE q ({chance.randint(0, 700)})"
            case "correlated":
                text = f"SELECT o.w, (SELECT row(r)::text FROM ({text}) AS r) FROM d1 o WHERE o.w < 15"
            case "union":
                text = f"({text}) UNION ALL ({text})"
            case "cte":
                text = f"WITH q AS MATERIALIZED ({text}) SELECT * FROM q"
            case _:
                pass
        return JoinQuery(setup, text, eligible)

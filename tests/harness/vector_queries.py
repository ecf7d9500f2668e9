"""Aggregate queries by chance: what vectors are for, and some of what they are not for.

A query is kept in its parts, so that one that fails can be made smaller. Constants are marked in the parts' SQL, so
that the same query can be run with parameters in their place.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

from . import repeats
from .vector_tables import COLUMNS, STATIC

INTEGERS = ("i2", "i4", "i8")
FLOATS = ("f4", "f8")
NUMERICS = ("n", "n2")
NUMBERS = (*INTEGERS, *FLOATS, *NUMERICS)
TIMES = ("d", "ts", "tz")
TEXTS = ("t", "v")
SUPPORTED = (*NUMBERS, *TIMES, "b", *TEXTS)
UNSUPPORTED = ("c", "iv", "u", "j", "tm", "a")

_ARITHMETIC = ("sum", "avg", "variance", "var_pop", "var_samp", "stddev", "stddev_pop", "stddev_samp")
# what each aggregate is to be seen with
MATRIX: dict[str, tuple[str, ...]] = {
    "count": SUPPORTED,
    **dict.fromkeys(_ARITHMETIC, NUMBERS),
    **dict.fromkeys(("min", "max"), (*NUMBERS, *TIMES, *TEXTS)),
    **dict.fromkeys(("bool_and", "bool_or", "every"), ("b",)),
}

_CONSTANTS: dict[str, tuple[str, ...]] = {
    "i2": ("0", "1", "-7", "50", "99", "-100"),
    "i4": ("0", "3", "-5", "19", "1000", "-500000"),
    "i8": ("0", "3", "-5", "19", "1000000", "500000000000000", "-20"),
    "f4": ("0", "1.5", "5", "-100.25", "1000"),
    "f8": ("0", "2", "-1e5", "0.1", "1e6", "3"),
    "n": ("0", "5", "3.0", "-1000000.5", "1e15", "2"),
    "n2": ("0", "0.05", "50000", "-1.10", "99999.99"),
    "d": ("2020-01-01", "2021-06-15", "2023-12-31", "infinity"),
    "ts": ("2020-01-01 00:00:00", "2021-06-15 12:30:00.5", "-infinity", "2023-01-01"),
    "tz": ("2020-01-01 00:00:00+00", "2021-06-15 12:30:00.5+05:45", "infinity", "2023-01-01 00:00:00-08"),
    "b": ("true", "false"),
    "t": ("alpha", "", "a", "gamma_delta", "m", "Ünïcode", "missing"),
    "v": ("", "a", "c4ca", "7f", "e"),
}
# types that a column may be compared with besides its own
_CROSS: dict[str, tuple[str, ...]] = {
    "i2": ("i4", "i8"),
    "i4": ("i2", "i8"),
    "i8": ("i2", "i4"),
    "f4": ("f8",),
    "f8": ("f4",),
    "n": (),
    "n2": (),
    "d": ("ts", "tz"),
    "ts": ("d", "tz"),
    "tz": ("ts", "d"),
    "b": (),
    "t": (),
    "v": (),
}
# what DISTINCT is for within an aggregate: of other types, equal values may look different
_DISTINCT: dict[str, tuple[str, ...]] = {
    "count": (*SUPPORTED, "c", "u", "j", "tm", "a"),
    **dict.fromkeys(_ARITHMETIC, (*INTEGERS, "n2")),
    **dict.fromkeys(("min", "max"), (*INTEGERS, "n2", *TIMES, *TEXTS)),
    **dict.fromkeys(("bool_and", "bool_or", "every"), ("b",)),
}
_UNITS = ("minute", "hour", "day", "week", "month", "quarter", "year", "dow", "isodow", "doy")
_CUTS = ("second", "minute", "hour", "day", "week", "month", "quarter", "year")
_COMPARISONS = ("=", "<>", "<", "<=", ">", ">=")
_PATTERNS = ("a%", "%a", "%ph%", "a_p%", "_", "%", "", "alpha", "a\\%b", "%ï%", "x%x", "%\\_%", "%_n%c_d%", "%_ %")
# core raises an error for some strings
_RISKY_PATTERNS = ("alpha\\", "%h%\\", "\\")
# immutable expressions of one string column, which ours evaluates once for each of its values; {0} is the column
_TEXTS_OF_TEXT = (
    "lower({0})",
    "upper({0})",
    "initcap({0})",
    "regexp_replace({0}, '[aeiou]+', '*', 'g')",
    "replace({0}, 'a', 'bb')",
    "reverse(left({0}, 5))",
    "split_part({0}, '_', 1)",
    "coalesce(substring({0} FROM '[a-c]+'), 'none')",
    "nullif(upper({0}), '')",
    "{0} || '-'",
)
_NUMBERS_OF_TEXT = (
    "length(regexp_replace({0}, 'a', '', 'g'))",
    "strpos({0}, 'a')",
    "length(lower({0})) + i2",
    "({0} ~ 'a')::integer",
    "CASE WHEN {0} ~ '^[0-9a-f]+$' THEN 1 ELSE length(lower({0})) END",
    "CASE WHEN {0} ILIKE 'A%' THEN i4 ELSE 0 END",
    "CASE WHEN {0} ~ '^[0-9]+$' THEN left({0}, 4)::integer ELSE -1 END",
    "CASE lower({0}) WHEN 'alpha' THEN 1 WHEN '' THEN 2 END",
    "coalesce(nullif(ascii({0}), 97), i2)",
)
# … for some values of which core raises an error
_RISKS_OF_TEXT = (
    "100 / (ascii({0}) - 97)",
    "left({0}, 1)::integer",
    "CASE WHEN i4 > 0 THEN left({0}, 1)::integer ELSE 0 END",
)
_MARK = re.compile(r"\x01([^\x02]*)\x02([^\x03]*)\x03")


@dataclass(frozen=True)
class Part:
    """A piece of SQL. ``odd``: vectors are not for it; ``risky``: how many of its pieces may raise errors."""

    sql: str
    odd: bool = False
    risky: int = 0
    # of an aggregate: its place in the matrix
    cell: tuple[str, str] | None = None
    # of a key: equal values may look different (1.0 and 1.00, 0 and -0), so that which is shown depends on the order
    ambiguous: bool = False


class Shape(Enum):
    """How a query is put to the server."""

    PLAIN = "plain"
    PREPARED = "prepared"
    CURSOR = "cursor"
    LATERAL = "lateral"
    SCALAR = "scalar"
    DERIVED = "derived"
    CTE = "cte"
    UNION = "union"


@dataclass(frozen=True)
class Query:
    """A query and the settings it is run with."""

    number: int
    table: str
    aggregates: tuple[Part, ...]
    keys: tuple[Part, ...] = ()
    where: tuple[Part, ...] = ()
    having: tuple[Part, ...] = ()
    order: str = ""  # behind each key in ORDER BY; none when empty
    limit: int | None = None
    shape: Shape = Shape.PLAIN
    generic: bool = False
    settings: tuple[tuple[str, str], ...] = ()

    @property
    def little_memory(self) -> bool:
        return "work_mem" in dict(self.settings)

    @property
    def parallel(self) -> bool:
        return any(name == "max_parallel_workers_per_gather" and value != "0" for name, value in self.settings)

    @property
    def ordered_sums(self) -> bool:
        """Whether an answer depends on the order in which rows are added up."""
        return _ordered(self.aggregates)

    @property
    def combined(self) -> bool:
        """Whether floats may be added up in another order than core's, though by one process."""
        return self.ordered_sums and self.little_memory

    @property
    def distinct(self) -> bool:
        """Whether an aggregate has DISTINCT, for which core sorts the rows."""
        return any("(DISTINCT " in part.sql for part in self.aggregates)

    @property
    def within_grammar(self) -> bool:
        """Whether vectors are for all of it."""
        return not any(part.odd for part in (*self.aggregates, *self.keys))

    @property
    def risks(self) -> int:
        """How many errors may be raised; where values are extreme, any part may in two ways."""
        parts = (*self.aggregates, *self.keys, *self.where, *self.having)
        return sum(part.risky + 2 * (self.table == "extreme") for part in parts)

    @property
    def sorted(self) -> bool:
        """Whether the order of the rows is part of the answer."""
        plain = self.shape in (Shape.PLAIN, Shape.PREPARED, Shape.CURSOR)
        return plain and bool(self.order) and not any(key.ambiguous for key in self.keys)

    def body(self, more: str = "") -> str:
        """The SELECT, constants still marked; ``more`` is another condition."""
        items = [key.sql for key in self.keys] + [part.sql for part in self.aggregates]
        text = f"SELECT {', '.join(f'{item} AS c{number}' for number, item in enumerate(items, 1))} FROM {self.table}"
        conditions = [part.sql for part in self.where] + ([more] if more else [])
        if conditions:
            text += " WHERE " + " AND ".join(f"({condition})" for condition in conditions)
        if self.keys:
            text += " GROUP BY " + ", ".join(str(number + 1) for number in range(len(self.keys)))
        if self.having:
            text += " HAVING " + " AND ".join(part.sql for part in self.having)
        if self.order and self.keys:
            text += " ORDER BY " + ", ".join(f"{number + 1}{self.order}" for number in range(len(self.keys)))
        if self.limit is not None:
            text += f" LIMIT {self.limit}"
        return text

    def statements(self) -> tuple[list[str], str]:
        """All statements to run in a transaction, and the one to EXPLAIN (after the first ones, when prepared)."""
        plain = literal(self.body())
        match self.shape:
            case Shape.PREPARED:
                text, types, values = parameters(self.body())
                mode = "force_generic_plan" if self.generic else "force_custom_plan"
                call = f"EXECUTE q({', '.join(values)})" if values else "EXECUTE q"
                head = f"PREPARE q{f'({chr(44).join(types)})' if types else ''} AS {text}"
                return ["DEALLOCATE ALL", f"SET LOCAL plan_cache_mode = {mode}", head, call, call], call
            case Shape.CURSOR:
                kind = ("", "SCROLL ", "NO SCROLL ")[self.number % 3]
                declare = f"DECLARE k {kind}CURSOR FOR {plain}"
                back = ["FETCH BACKWARD 1 FROM k"] if self.number % 3 == 1 else []
                return [declare, "FETCH 2 FROM k", *back, "FETCH ALL FROM k", "CLOSE k"], declare
            case Shape.LATERAL:
                inner = literal(self.body("id > o.k"))
                text = f"SELECT o.k, s.* FROM (VALUES (0), (700), (-1), (700), (99999)) o(k), LATERAL ({inner}) s"
            case Shape.SCALAR:
                one = replace(self, aggregates=self.aggregates[:1], keys=(), order="", limit=None)
                text = f"SELECT o.k, ({literal(one.body('id < o.k'))}) FROM (VALUES (0), (900), (400)) o(k)"
            case Shape.DERIVED:
                text = f"SELECT * FROM ({plain}) x WHERE c1 IS NOT NULL OR c1 IS NULL"
            case Shape.CTE:
                text = f"WITH x AS MATERIALIZED ({plain}) SELECT * FROM x UNION ALL SELECT * FROM x"
            case Shape.UNION:
                text = f"({plain}) UNION ALL ({literal(replace(self, where=()).body())})"
            case _:
                text = plain
        return [text], text

    def __str__(self) -> str:
        settings = "".join(f"SET {name} = {value}; " for name, value in self.settings)
        return settings + "; ".join(self.statements()[0])


def _ordered(aggregates: Sequence[Part]) -> bool:
    return any(part.cell and part.cell[0] in _ARITHMETIC and part.cell[1] in FLOATS for part in aggregates)


def constant(value: str, type_: str) -> str:
    return f"\x01{value}\x02{type_}\x03"


def literal(text: str) -> str:
    """Constants as literals."""
    return _MARK.sub(lambda mark: _literal(mark[1], mark[2]), text)


def parameters(text: str) -> tuple[str, list[str], list[str]]:
    """Constants as parameters: the text, the parameters' types, and their values as literals."""
    types: list[str] = []
    values: list[str] = []

    def one(mark: re.Match[str]) -> str:
        types.append(mark[2])
        values.append(_literal(mark[1], mark[2]))
        return f"${len(types)}"

    return _MARK.sub(one, text), types, values


def _literal(value: str, type_: str) -> str:
    quoted = value.replace("'", "''")
    return f"'{quoted}'::{type_}"


class Generator:
    """Queries that follow from a seed."""

    def __init__(self, seed: int, tables: Sequence[str] = STATIC) -> None:
        self._chance = random.Random(seed)
        self._tables = tables

    def query(self, number: int) -> Query:
        """The next query."""
        chance = self._chance
        odd = chance.random() < 0.06
        table = chance.choice(self._tables)
        sizes = [chance.choice(choices) for choices in ((1, 1, 2, 3, 5), (0, 0, 1, 1, 1, 2, 3), (0, 0, 1, 1, 2))]
        aggregates = tuple(self._aggregate(odd and chance.random() < 0.6) for _ in range(sizes[0]))
        keys = tuple(self._key(odd and chance.random() < 0.4) for _ in range(sizes[1]))
        plain = [key.sql for key in keys if key.sql in SUPPORTED and not key.ambiguous]
        if plain and chance.random() < 0.3:
            follows = self._key_of(chance.choice(plain))
            keys = (*keys, follows) if chance.random() < 0.5 else (follows, *keys)
        where = tuple(self._condition(2) for _ in range(sizes[2]))
        if where and chance.random() < 0.3:
            term = chance.choice(where)
            if chance.random() < 0.6:
                keys += (replace(term, sql=repeats.value(chance, [term.sql])),)
            else:
                aggregates += (replace(term, sql=repeats.aggregate(chance, [term.sql])),)
        having = (self._having(),) if chance.random() < 0.1 else ()
        order, limit = "", None
        # core may sort all rows to group them, and a sort has no order among equals
        open_order = any(key.ambiguous for key in keys) or _ordered(aggregates)
        if keys and chance.random() < 0.4 and not open_order:
            order = chance.choice((" ", " DESC", " NULLS FIRST", " DESC NULLS LAST"))
            if chance.random() < 0.4:
                limit = chance.choice((0, 1, 5, 100))
        shape = Shape.PLAIN
        if chance.random() < 0.45:
            shape = chance.choice([other for other in Shape if other is not Shape.PLAIN])
        query = Query(
            number,
            table,
            aggregates,
            keys,
            where,
            having,
            order,
            limit,
            shape,
            generic=chance.random() < 0.5,
            settings=self._settings(table, open_order),
        )
        # core may group sorted rows one group after the other, and end before it comes to a row that raises an error
        return replace(query, limit=None) if query.risks else query

    def _settings(self, table: str, open_order: bool) -> tuple[tuple[str, str], ...]:
        chance = self._chance
        found: list[tuple[str, str]] = []
        if chance.random() < 0.27:
            found.append(("max_parallel_workers_per_gather", "2"))
            if chance.random() < 0.3:
                found.append(("parallel_leader_participation", "off"))
            if chance.random() < 0.3:
                found.append(("pgbillion_rows.vector_exchange", "off"))
        else:
            found.append(("max_parallel_workers_per_gather", "0"))
            if open_order or chance.random() < 0.3:
                found += [("enable_sort", "off"), ("enable_indexscan", "off")]
        if chance.random() < 0.15:
            found.append(("work_mem", "64"))
            found.append(("hash_mem_multiplier", "1"))
        if chance.random() < 0.2:
            found.append(("timezone", chance.choice(("'America/New_York'", "'Asia/Kathmandu'"))))
        if table in ("parts", "heirs") and chance.random() < 0.5:
            found.append(("enable_partitionwise_aggregate", "on"))
        return tuple(found)

    # aggregates

    def _aggregate(self, odd: bool) -> Part:
        chance = self._chance
        part = self._odd_aggregate() if odd else self._ordinary_aggregate()
        if chance.random() < 0.15 and not any(word in part.sql for word in ("OVER", "GROUPING", "FILTER")):
            condition = self._condition(1)
            part = replace(part, sql=f"{part.sql} FILTER (WHERE {condition.sql})", risky=part.risky + condition.risky)
        return part

    def _ordinary_aggregate(self) -> Part:
        chance = self._chance
        if chance.random() < 0.08:
            return Part("count(*)")
        if chance.random() < 0.2:
            return self._distinct_aggregate()
        if chance.random() < 0.15:
            value = self._linear() if chance.random() < 0.4 else self._value_expression()
            return replace(value, sql=f"{'count' if chance.random() < 0.3 else 'sum'}({value.sql})")
        name = chance.choice(list(MATRIX))
        column = chance.choice(MATRIX[name])
        cell = (name, column)
        if column in NUMBERS and chance.random() < 0.3:
            argument, risky = self._arithmetic(column)
            return Part(f"{name}({argument})", risky=risky, cell=cell)
        return Part(f"{name}({column})", cell=cell)

    def _distinct_aggregate(self) -> Part:
        chance = self._chance
        if chance.random() < 0.2:
            name = chance.choice(("count", "count", "sum", "avg", "max"))
            argument = self._value_expression()
            return replace(argument, sql=f"{name}(DISTINCT {argument.sql})")
        name = chance.choice(list(_DISTINCT))
        column = chance.choice(_DISTINCT[name])
        return Part(f"{name}(DISTINCT {column})")

    def _value_expression(self) -> Part:
        """An expression that is an integer, and no arithmetic."""
        chance = self._chance
        text, one, two = chance.choice(TEXTS), chance.choice(INTEGERS), chance.choice(INTEGERS)
        form = chance.randrange(8)
        if form > 5:
            return self._number_of_text()
        if form == 0:
            return Part(f"{chance.choice(('length', 'char_length', 'octet_length'))}({text})")
        if form == 1:
            condition = self._condition(1)
            other = chance.choice((two, "0", "NULL", "length(v)"))
            return Part(f"CASE WHEN {condition.sql} THEN {one} ELSE {other} END", risky=condition.risky)
        if form == 2:
            first, second = self._condition(1), self._condition(0)
            return Part(
                f"CASE WHEN {first.sql} THEN {one} WHEN {second.sql} THEN 3 END", risky=first.risky + second.risky
            )
        if form == 3:
            return Part(f"CASE {chance.choice(INTEGERS)} WHEN 0 THEN {one} WHEN 1 THEN 5 ELSE {two} END")
        if form == 4:
            return Part(f"coalesce({one}, {two}, {chance.choice(('-1', 'id', 'NULL'))})")
        # core comes to no row that would raise an error
        return Part(f"CASE WHEN i2 <> 0 THEN {one} / i2 ELSE 0 END")

    def _number_of_text(self) -> Part:
        chance = self._chance
        risky = chance.random() < 0.1
        form = chance.choice(_RISKS_OF_TEXT if risky else _NUMBERS_OF_TEXT)
        return Part(form.format(chance.choice(TEXTS)), risky=risky)

    def _linear(self) -> Part:
        """An expression whose sum follows from that of a column."""
        chance = self._chance
        column = chance.choice(("i2", "i4", "i4", "i8"))
        one, two = (chance.choice((1, 2, -3, 10, 1000, 2147483000)) for _ in range(2))
        form = chance.choice(("{0} + {1}", "{0} - {1}", "{1} - {0}", "{0} * {1} + {2}", "({0} + 1)::bigint * {1}"))
        risky = 1 + ("::" in form or "*" in form)
        return Part(form.format(column, *(f"{constant(str(number), 'integer')}" for number in (one, two))), risky=risky)

    def _computed_key(self) -> Part:
        chance = self._chance
        text = chance.choice(TEXTS)
        form = chance.randrange(11)
        if form > 8:
            return Part(chance.choice(_TEXTS_OF_TEXT).format(text))
        if form == 0:
            return Part(f"extract({chance.choice(_UNITS)} FROM ts)")
        if form == 1:
            return Part(f"extract({chance.choice(_UNITS[2:])} FROM d)")
        if form == 2:
            return Part(f"date_part('{chance.choice(_UNITS)}', ts)")
        if form == 3:
            return Part(f"date_trunc('{chance.choice(_CUTS)}', {chance.choice(('ts', 'd::timestamp', 'tz'))})")
        if form == 4:
            return Part(chance.choice(("ts::date", "d::timestamp", "b IS NULL")))
        if form == 5:
            return Part(self._part_of_text())
        if form == 6:
            condition = self._condition(1)
            return Part(f"({condition.sql})", risky=condition.risky)
        if form == 7:
            condition = self._condition(1)
            return Part(f"CASE WHEN {condition.sql} THEN {text} ELSE 'other' END", risky=condition.risky)
        return self._value_expression()

    def _part_of_text(self) -> str:
        chance = self._chance
        cut = chance.choice(
            ("left({}, 1)", "left({}, 0)", "substring({}, 2)", "substring({}, 2, 3)", "substr({}, 1, 2)", "{}::text")
        )
        return cut.format(chance.choice((*TEXTS, "c")))

    def _arithmetic(self, column: str, depth: int = 2) -> tuple[str, int]:
        """An expression over a column: the SQL, and how many errors it may raise where values are ordinary."""
        chance = self._chance
        kind = INTEGERS if column in INTEGERS else FLOATS if column in FLOATS else NUMERICS
        form = chance.randrange(7)
        value = constant(chance.choice([value for value in _CONSTANTS[column] if value != "0"]), COLUMNS[column])
        if form == 0:
            return f"- {column}", False
        if form == 1:
            return f"{column} {chance.choice('+-')} {value}", False
        if form == 2:
            other = chance.choice(kind)
            return f"{column} {chance.choice('+-')} {other}", False
        if form == 3:
            return f"{column} * {value}", kind is INTEGERS
        if form == 4:
            operator = chance.choice("/%") if kind is not FLOATS else "/"
            return f"{column} {operator} {value}", False
        if form == 5:
            other = chance.choice(kind)
            return f"{column} {chance.choice('*/')} {other}", True
        inner, risky = self._arithmetic(chance.choice(kind), depth - 1) if depth else (chance.choice(kind), False)
        return f"{column} * ({constant('1', COLUMNS[column])} - ({inner}))", risky + (kind is INTEGERS)

    def _odd_aggregate(self) -> Part:
        text = self._chance.choice(
            (
                "sum(DISTINCT f8)",
                "max(DISTINCT f4)",
                "sum(DISTINCT n)",
                "count(DISTINCT i2 ORDER BY i2)",
                "count(DISTINCT iv)",
                "sum(i2 ORDER BY id)",
                "string_agg(t, ',' ORDER BY id)",
                "array_agg(i4 ORDER BY id)",
                "bit_and(i4)",
                "bit_or(i8)",
                "min(iv)",
                "max(tm)",
                "sum(iv)",
                "min(c)",
                "count(c)",
                "count(u)",
                "count(j)",
                "count(a)",
                "max(a)",
                "percentile_cont(0.5) WITHIN GROUP (ORDER BY f8)",
                "corr(f8, f4)",
                "regr_count(f8, f4)",
                "sum(length(t))",
                "max(upper(t))",
                "sum(CASE WHEN b THEN i4 ELSE 0 END)",
                "count(coalesce(i2, 0))",
                "avg(abs(i4))",
                "sum(i4::numeric)",
                "min(i4::text)",
                "bool_or(i4 > 3)",
                "count(ROW(i2, i4))",
                "sum(d - date '2020-01-01')",
                "max(ts - interval '1 day')",
                "count(ctid)",
                "min(tableoid::integer % 1)",
                "sum(random() * 0)",
                "avg(extract(year FROM ts))",
                "max(ARRAY[i2])",
                "json_agg(b ORDER BY id)",
                "count(nullif(t, 'a'))",
                "sum(width_bucket(f8, 0, 10, 5)) FILTER (WHERE f8 < 1e9)",
            )
        )
        return Part(text, odd=True)

    # keys

    def _key_of(self, column: str) -> Part:
        """A key that follows from another one."""
        forms = ["{}::text", "{} IS NULL", "coalesce({0}::text, 'none')"]
        if column in INTEGERS:
            forms += ["{} % 3", "{} / 5", "{} & 6"]
        if column in TEXTS:
            forms += ["length({})", "upper({})", "{} || 'x'"]
        return Part(self._chance.choice(forms).format(column))

    def _key(self, odd: bool) -> Part:
        chance = self._chance
        if odd:
            return Part(
                chance.choice(
                    ("c", "u", "lower(t)", "left(v, 1)", "coalesce(i2, 0)", "j", "tm", "i4 % 5 = 0", "b IS NULL",
                     "CASE WHEN i4 > 0 THEN 'p' END", "a[1]", "t || v", "iv > interval '9 days'", "ts::date")
                ),
                odd=True,
            )  # fmt: skip
        form = chance.randrange(6)
        if form > 3:
            return self._computed_key()
        if form < 2:
            column = chance.choice(SUPPORTED)
            return Part(column, ambiguous=column in ("n", "f4", "f8"))
        ten = constant("10", "integer")
        return Part(
            chance.choice(
                (
                    f"id / {constant('20', 'integer')}",
                    f"i4 % {ten}",
                    f"i8 % {constant('7', 'bigint')}",
                    f"i2 % {constant('3', 'smallint')}",
                    f"id % {ten}",
                    f"id + {ten}",
                    "date_trunc('month', ts)",
                    "date_trunc('year', tz)",
                    "date_trunc('day', ts)",
                    "date_trunc('hour', tz)",
                    "date_trunc('quarter', ts)",
                    "date_trunc('week', tz)",
                    "extract(year FROM d)",
                    "extract(month FROM ts)",
                    "extract(dow FROM ts)",
                    "extract(hour FROM tz)",
                    "extract(day FROM d)",
                    "extract(quarter FROM tz)",
                )
            )
        )

    # conditions

    def _condition(self, depth: int) -> Part:
        chance = self._chance
        if depth and chance.random() < 0.25:
            one, two = self._condition(depth - 1), self._condition(depth - 1)
            text = chance.choice(("({}) AND ({})", "({}) OR ({})", "NOT (({}) OR ({}))", "({}) AND NOT ({})"))
            return Part(text.format(one.sql, two.sql), risky=one.risky + two.risky)
        forms = (
            (10, self._comparison),
            (3, self._between),
            (3, self._in),
            (2, self._null),
            (2, self._boolean),
            (2, self._like),
            (2, self._computed),
            (3, self._odd_condition),
        )
        chosen = chance.choices([form for _, form in forms], [weight for weight, _ in forms])[0]
        return chosen()

    def _value(self, column: str) -> str:
        type_ = self._chance.choice((column, column, *_CROSS[column]))
        value = self._chance.choice(_CONSTANTS[type_])
        return constant(value, "text" if type_ in TEXTS else COLUMNS[type_].split("(")[0])

    def _comparison(self) -> Part:
        chance = self._chance
        column, operator = chance.choice(SUPPORTED), chance.choice(_COMPARISONS)
        if chance.random() < 0.2:
            other = chance.choice((column, *_CROSS[column]))
            return Part(f"{column} {operator} {other}")
        if chance.random() < 0.15:
            return Part(f"{self._value(column)} {operator} {column}")
        if chance.random() < 0.1:
            return Part(f"{column} IS {chance.choice(('', 'NOT '))}DISTINCT FROM {self._value(column)}")
        return Part(f"{column} {operator} {self._value(column)}")

    def _between(self) -> Part:
        column = self._chance.choice([column for column in SUPPORTED if column != "b"])
        kind = self._chance.choice(("BETWEEN", "BETWEEN", "NOT BETWEEN", "BETWEEN SYMMETRIC"))
        return Part(f"{column} {kind} {self._value(column)} AND {self._value(column)}")

    def _in(self) -> Part:
        chance = self._chance
        column = chance.choice([column for column in SUPPORTED if column != "b"])
        own = [constant(value, "text" if column in TEXTS else COLUMNS[column]) for value in _CONSTANTS[column]]
        values = chance.choices(own, k=chance.choice((1, 2, 4, 12)))
        if chance.random() < 0.15:
            values.append("NULL")
        return Part(f"{column} {chance.choice(('IN', 'IN', 'NOT IN'))} ({', '.join(values)})")

    def _null(self) -> Part:
        chance = self._chance
        column = chance.choice((*SUPPORTED, *UNSUPPORTED))
        return Part(f"{column} IS {chance.choice(('', 'NOT '))}NULL")

    def _boolean(self) -> Part:
        return Part(
            self._chance.choice(
                ("b", "NOT b", "b IS TRUE", "b IS NOT TRUE", "b IS FALSE", "b IS NOT FALSE", "b IS UNKNOWN",
                 "b = (i2 > 0)", "true", "NULL::boolean", "id > 0")
            )
        )  # fmt: skip

    def _like(self) -> Part:
        chance = self._chance
        operator = chance.choice(("LIKE", "LIKE", "NOT LIKE", "ILIKE"))
        risky = chance.random() < 0.05
        pattern = constant(chance.choice(_RISKY_PATTERNS if risky else _PATTERNS), "text")
        return Part(f"{chance.choice((*TEXTS, 'c'))} {operator} {pattern}", risky=risky)

    def _computed(self) -> Part:
        chance = self._chance
        if chance.random() < 0.15:
            values = ", ".join(constant(value, "text") for value in chance.choices(("a", "al", "", "b", "x"), k=3))
            condition = chance.choice((f"IN ({values})", f"NOT IN ({values})", "= 'al'", "<> ''", "LIKE '%a'"))
            return Part(f"{self._part_of_text()} {condition}")
        if chance.random() < 0.1:
            return Part(f"length({self._part_of_text()}) {chance.choice(_COMPARISONS)} 2")
        if chance.random() < 0.5:
            column = chance.choice(NUMBERS)
            text, risky = self._arithmetic(column)
            return Part(f"{text} {chance.choice(_COMPARISONS)} {self._value(column)}", risky=risky)
        return Part(
            chance.choice(
                (
                    f"id % {constant('3', 'integer')} = {constant('1', 'integer')}",
                    f"id / {constant('100', 'integer')} < {constant('7', 'integer')}",
                    "date_trunc('month', ts) = timestamp '2021-03-01'",
                    "extract(year FROM d) = 2021",
                    "extract(dow FROM tz) IN (0, 6)",
                    "d > date '2020-06-01' + 30",
                    "ts < timestamp '2021-01-01' + interval '90 days'",
                    "tz >= now() - interval '20 years'",
                )
            )
        )

    def _odd_condition(self) -> Part:
        chance = self._chance
        text = chance.choice(
            (
                "length(t) > 3",
                "upper(t) = 'ALPHA'",
                "abs(i4) > 10",
                "t ~ '^a.*a$'",
                "t ~* 'A' AND lower(v) <> 'c4ca'",
                "v !~ '[0-3]'",
                "regexp_replace(t, 'a', 'b') = 'blpha'",
                "c = 'c4ca'",
                "c > '8'",
                "iv < interval '10 days'",
                "u > '80000000-0000-0000-0000-000000000000'",
                "j ->> 'k' = '3'",
                "tm BETWEEN '06:00' AND '18:00'",
                "a[1] = 2",
                "2 = ANY (a)",
                "coalesce(i2, 0) = 0",
                "CASE WHEN b THEN i4 > 0 ELSE i2 > 0 END",
                "t || v < 'b'",
                "i4::text LIKE '1%'",
                "(i2, i4) > (0, 0)",
                "nullif(t, 'a') IS NULL",
                "greatest(i4, i2) > 5",
                "t COLLATE \"C\" < 'b'",
                "starts_with(t, 'al')",
                "f8 IS NOT DISTINCT FROM f4",
                "mixed_function(i4)",
                "i4 IN (SELECT i2 FROM narrow WHERE i2 < 10)",
                "id = (SELECT min(id) + 5 FROM strict)",
                "EXISTS (SELECT FROM narrow WHERE id = 3)",
                "octet_length(v) % 2 = 0",
                "ts::date = date '2020-02-29'",
                "n2 = n2::integer",
                "to_char(d, 'YYYY') = '2022'",
            )
        )
        risky = chance.random() < 0.08
        if risky:
            text = chance.choice(
                (
                    "sqrt(f8) > 10",
                    "100 / i2 > 3",
                    "i4::smallint > 3",
                    "ln(n) > 1",
                    "t::integer > 0",
                    "10 / (ascii(v) - 97) > 0",
                )
            )
        return Part(text.replace("mixed_function", "v.is_odd"), risky=risky)

    def _having(self) -> Part:
        return Part(
            self._chance.choice(
                (
                    "count(*) > 2",
                    "sum(i2) > 0",
                    "min(id) < 500",
                    "max(t) > 'b'",
                    "bool_or(b)",
                    "count(i4) BETWEEN 1 AND 50",
                )
            )
        )

"""Joins of two to five tables by chance, over tables by chance, whether vectors can do them or not; and aggregates over
joins that can be aggregated before the join, or must not be.

A seed makes tables whose keys are of other types in each, with NULLs, duplicates, values that are equal and look
different, and often no row at all; and queries over them: trees of joins of every kind, subqueries that refer to the
rows outside, conditions on either side and on both, with groups, rows or the first rows above. Payloads are such that
their sums are exact, in whatever order they are added: so answers are equal to the last bit, as multisets. The few
queries that add floats which are rounded say so (`inexact`).
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from . import repeats

# Types of one family are compared across types by operators that hash. {0} is a number from 0 on.
FAMILIES = {
    "integer": {"smallint": "({0} - 3)", "integer": "({0} - 3)", "bigint": "({0} - 3)"},
    "large": {"bigint": "({0} - 9) * 1000000007::bigint", "integer": "({0} - 9)", "smallint": "({0} - 9)"},
    "text": {
        "text": "CASE WHEN {0} % 3 = 0 THEN repeat('long ', 40) ELSE '' END || {0}",
        "varchar": "CASE WHEN {0} % 3 = 0 THEN repeat('long ', 40) ELSE '' END || {0}",
    },
    "name": {"text": "'n' || {0}", "name": "'n' || {0}"},
    "bpchar": {"char(4)": "chr(97 + {0} % 26)", "char(9)": "chr(97 + {0} % 26)"},
    "numeric": {"numeric": "({0} / 2) || CASE WHEN {0} % 2 = 0 THEN '.0' ELSE '.000' END"},
    "float": {
        "float8": "CASE {0} % 9 WHEN 0 THEN 'NaN' WHEN 1 THEN '-0' WHEN 2 THEN '0' ELSE ({0} / 4.0)::text END",
        "float4": "CASE {0} % 9 WHEN 0 THEN 'NaN' WHEN 1 THEN '0' WHEN 2 THEN '-0' ELSE ({0} / 4.0)::text END",
    },
    "date": {"date": "date '2024-01-01' + {0}"},
    "timestamp": {"timestamp": "timestamp '2024-01-01' + make_interval(hours => {0})"},
    "instant": {"timestamptz": "timestamptz '2024-01-01 00:00+00' + make_interval(hours => {0})"},
    "interval": {"interval": "CASE WHEN {0} % 2 = 0 THEN make_interval(days => {0} / 2)"
                             " ELSE make_interval(hours => {0} / 2 * 24) END"},
    "uuid": {"uuid": "md5(({0})::text)"},
    "bytes": {"bytea": "decode(md5(({0})::text), 'hex')"},
    "time": {"time": "time '00:00' + make_interval(mins => {0})"},
    "oid": {"oid": "({0}::bigint * 150000001 % 4294967296)"},
    "array": {"integer[]": "ARRAY[{0} % 5, {0}]"},
    "boolean": {"boolean": "{0} % 2 = 0"},
}  # fmt: skip
# equal values may look different: they are not shown where one of several is taken
AMBIGUOUS = ("numeric", "float", "interval", "bpchar", "instant")
# how often what is read from several tables is in place of the largest one
SEVERAL = 0.35
KEYS = ("k", "m", "s", "x", "y")
PAYLOADS = ("v", "n", "f", "w", "o")


@dataclass(frozen=True)
class Table:
    name: str
    rows: int
    types: tuple[str, ...]  # of the keys


@dataclass(frozen=True)
class Schema:
    """Tables, and of which family their keys are."""

    families: tuple[str, ...]
    tables: tuple[Table, ...]
    several: tuple[str, ...]  # what has the columns of the first one, and is read from several tables
    statements: tuple[str, ...]


def schema(seed: int) -> Schema:
    """Make tables t0 to t6; the first is the largest, and the last one is partitioned. Of the first there are copies
    that are partitioned, have children, and are put together by UNION ALL."""
    chance = random.Random(seed)
    # two integers at least, and strings
    families = ("integer", chance.choice(("integer", "integer", "large")), "text", *chance.sample(list(FAMILIES), 2))
    domain = chance.choice((12, 45, 45, 300))
    tables: list[Table] = []
    statements: list[str] = []
    for number in range(6):
        rows = chance.choice((900, 1700, 2600)) if number == 0 else chance.choice((0, 1, 9, 30, domain, 2 * domain))
        table = Table(f"t{number}", rows, tuple(chance.choice(list(FAMILIES[one])) for one in families))
        tables.append(table)
        statements += _definition(chance, table, families, domain, number)
    like, parts = tables[4], "t6"
    shown = ", ".join([*KEYS, *PAYLOADS])
    statements += [
        f"CREATE TABLE {parts} (LIKE {like.name}) PARTITION BY LIST (k)",
        f"CREATE TABLE {parts}_some PARTITION OF {parts} FOR VALUES IN (1, 2, 3, NULL)",
        f"CREATE TABLE {parts}_others PARTITION OF {parts} DEFAULT",
        f"INSERT INTO {parts} ({shown}) SELECT {shown} FROM {like.name}",
        f"ANALYZE {parts}",
    ]
    tables.append(Table(parts, like.rows, like.types))
    several, more = _several(chance, shown)
    return Schema(families, tuple(tables), several, (*statements, *more))


def _several(chance: random.Random, shown: str) -> tuple[tuple[str, ...], list[str]]:
    """Return the names of what has the columns of t0, read from several tables, and the statements that make it."""
    columns = shown.split(", ")
    computed = {"v": "v + 0", "f": "-f", "w": "w || '!'", "o": chance.choice(("true", "NOT o", "o IS NULL"))}
    changed = chance.sample(list(computed), chance.randrange(3))
    selected = ", ".join(computed[name] if name in changed else name for name in columns)
    # in another order than in the partitioned table
    shuffled = ", ".join(chance.sample(columns, len(columns)))
    statements = []
    for name in ("parts", "kids"):
        partition = " PARTITION BY RANGE (v)" if name == "parts" else ""
        statements += [
            f"CREATE TABLE t0_{name} (LIKE t0){partition}",
            f"ALTER TABLE t0_{name} DROP COLUMN IF EXISTS late",
        ]
    statements += [
        f"CREATE TABLE t0_parts_1 AS SELECT {shuffled} FROM t0 WHERE false",
        "ALTER TABLE t0_parts ATTACH PARTITION t0_parts_1 FOR VALUES FROM (200) TO (600)",
        "CREATE TABLE t0_parts_2 PARTITION OF t0_parts FOR VALUES FROM (600) TO (610) PARTITION BY LIST (o)",
        "CREATE TABLE t0_parts_2_o PARTITION OF t0_parts_2 DEFAULT",
        "CREATE TABLE t0_parts_3 PARTITION OF t0_parts DEFAULT",
        "CREATE TABLE t0_kids_1 (extra integer, more text) INHERITS (t0_kids)",
        f"INSERT INTO t0_parts ({shown}) SELECT {shown} FROM t0",
        f"INSERT INTO t0_kids ({shown}) SELECT {shown} FROM t0 WHERE v % 3 = 0",
        f"INSERT INTO t0_kids_1 ({shown}) SELECT {shown} FROM t0 WHERE v % 3 <> 0",
        f"CREATE VIEW t0_all AS SELECT {shown} FROM t0_parts_1 UNION ALL SELECT {selected} FROM t0_kids",
    ]
    for name in ("t0_parts_1", "t0_parts_3", "t0_kids_1"):
        if chance.random() < 0.4:
            statements.append(f"CREATE INDEX ON {name} USING columns ({shown}) WITH (segment_blocks = 8)")
    statements += ["VACUUM ANALYZE t0_parts, t0_kids, t0_kids_1", "VACUUM t0_parts_1"]
    return ("t0_parts", "t0_kids", "t0_all"), statements


def _definition(
    chance: random.Random, table: Table, families: Sequence[str], domain: int, number: int
) -> Iterator[str]:
    """Give the statements that make a table."""
    salt = chance.randrange(1000)
    hashed = f"abs(hashint4(i * 7 + {salt} + {{0}}))"
    columns = []
    for place, (name, family, type_) in enumerate(zip(KEYS, families, table.types, strict=True)):
        value = FAMILIES[family][type_].format(f"({hashed.format(place * 1000)} % {domain})")
        nulls = chance.choice((0, 7, 7, 3, 1 if chance.random() < 0.1 else 9))
        null = f"CASE WHEN {hashed.format(place * 1000 + 500)} % {nulls} <> 0 THEN" if nulls else "CASE WHEN true THEN"
        columns.append(f"({null} {value} END)::{type_} AS {name}")
    columns += [
        "i AS v",
        f"(CASE WHEN i % 13 <> {number} THEN i / 4.0 END)::numeric(12,2) AS n",
        f"(CASE WHEN i % 11 <> {number} THEN i / 8.0 END)::{chance.choice(('float4', 'float8'))} AS f",
        f"CASE WHEN i % 7 <> {number} THEN repeat(chr(97 + i % 5), i % 60) || i % 9 END AS w",
        "i % 3 = 1 AS o",
    ]
    chance.shuffle(columns)
    selected = ", ".join(columns)
    yield f"CREATE TABLE {table.name} AS SELECT {selected} FROM generate_series(1, {table.rows}) i"
    if chance.random() < 0.3:
        yield f"DELETE FROM {table.name} WHERE v % 17 = 3"
        yield f"UPDATE {table.name} SET o = NOT o WHERE v % 5 = 0"
    if chance.random() < 0.3:
        # rows that are too short, and a column that is gone
        yield f"ALTER TABLE {table.name} ADD COLUMN gone integer DEFAULT 5, ADD COLUMN late text DEFAULT 'late'"
        yield f"INSERT INTO {table.name} SELECT * FROM {table.name} WHERE v % 29 = 1"
        yield f"ALTER TABLE {table.name} DROP COLUMN gone"
    for name in KEYS:
        if chance.random() < 0.25 and families[KEYS.index(name)] != "array":
            yield f"CREATE INDEX ON {table.name} ({name})"
    if chance.random() < 0.85:
        yield f"VACUUM ANALYZE {table.name}"
    if chance.random() < 0.4:
        # columns may be missing, most of them or one
        payloads = chance.sample(PAYLOADS, chance.choice((1, 2, len(PAYLOADS) - 1, len(PAYLOADS))))
        shown = ", ".join([*KEYS, *payloads])
        yield f"CREATE INDEX {table.name}_columns ON {table.name} USING columns ({shown}) WITH (segment_blocks = 8)"
        if chance.random() < 0.5:
            yield f"UPDATE {table.name} SET o = NOT o WHERE v BETWEEN 20 AND 40"


@dataclass(frozen=True)
class Join:
    """One more relation of FROM, or two in parentheses, and how it is joined."""

    kind: str
    relation: str
    aliases: tuple[str, ...]
    on: tuple[str, ...]


@dataclass(frozen=True)
class JoinQuery:
    """A query in parts, so that it can be made smaller."""

    settings: tuple[str, ...]
    first: str
    joins: tuple[Join, ...]
    where: tuple[str, ...]
    keys: tuple[str, ...]
    shown: tuple[bool, ...]  # of the keys: is one value of a group like the other?
    aggregates: tuple[str, ...]  # or columns, if there are no groups
    grouped: bool
    grouping: str  # of the keys: what follows GROUP BY, or nothing for all of them
    order: str  # before all columns
    having: str
    shape: str
    number: int  # of rows, or a parameter
    outer: str = "(SELECT v FROM t1 ORDER BY v LIMIT 4)"  # what a correlated query is run for
    eligible: bool = False  # for aggregation before the join, surely

    def plain(self) -> str:
        """Return the query without what its shape puts around it."""
        source = self.first + "".join(
            f" {join.kind} {join.relation}" + (f" ON {' AND '.join(join.on)}" if join.on else "") for join in self.joins
        )
        where = f" WHERE {' AND '.join(self.where)}" if self.where else ""
        shown = [key for key, is_shown in zip(self.keys, self.shown, strict=True) if is_shown]
        target = ", ".join([*shown, *self.aggregates]) or "1"
        group = f" GROUP BY {self.grouping or ', '.join(self.keys)}" if self.grouped and self.keys else ""
        having = f" HAVING {self.having}" if self.grouped and self.having else ""
        return f"SELECT {target} FROM {source}{where}{group}{having}"

    def statements(self) -> tuple[list[str], str]:
        """Return what comes before, and the query."""
        text = self.plain()
        places = ", ".join(str(place + 1) for place in range(sum(self.shown) + len(self.aggregates)))
        match self.shape:
            case "top":
                return [], f"{text} ORDER BY {self.order}{places or '1'} LIMIT {self.number}"
            case "count":
                return [], f"SELECT count(*), count(q) FROM ({text}) AS q"
            case "prepared":
                return [f"PREPARE q (integer) AS {text}"], f"EXECUTE q ({self.number})"
            case "each":
                inner = f"SELECT count(*) AS c, min(r::text) AS r FROM ({text}) AS r"
                return [], f"SELECT o.v, q.* FROM {self.outer} o, LATERAL ({inner}) q"
            case "union":
                return [], f"({text}) UNION ALL ({text})"
            case "distinct":
                return [], text.replace("SELECT", "SELECT DISTINCT", 1)
            case "ordered":
                return [], f"{text} ORDER BY {self.order}{places or '1'}"
            case "ranked":
                place = "row_number() OVER (ORDER BY whole, whole::text) AS place"
                return [], f"SELECT whole.*, {place} FROM ({text}) AS whole ORDER BY place LIMIT 40"
            case "correlated":
                inner = f"SELECT row(count(*), min(r::text))::text FROM ({text}) AS r"
                return [], f"SELECT o.v, ({inner}) FROM {self.outer} o"
            case "cte":
                return [], f"WITH q AS MATERIALIZED ({text}) SELECT * FROM q"
            case _:
                return [], text

    @property
    def inexact(self) -> bool:
        """Whether sums depend on the order in which rows are added."""
        return any(_INEXACT.match(text) for text in self.aggregates)

    def __str__(self) -> str:
        before, text = self.statements()
        return "\n    ".join([*(f"SET {setting}" for setting in self.settings), *before, text])


# aggregates of reals and doubles, whose sums are rounded
_INEXACT = re.compile(r"(sum|avg|stddev)\(a\d+\.f\)")
_SETTINGS = (
    ("enable_nestloop = off", "enable_mergejoin = off"),
    ("enable_nestloop = off", "enable_mergejoin = off"),
    ("enable_nestloop = off",),
    ("enable_mergejoin = off",),
    (),
)
_FURTHER = (
    "work_mem = '64kB'",
    "work_mem = '64kB'; SET LOCAL hash_mem_multiplier = 1",
    "join_collapse_limit = 1",
    "from_collapse_limit = 1",
    "enable_hashagg = off",
    "enable_sort = off",
    "enable_memoize = off",
    "enable_material = off",
    "enable_indexscan = off",
    "random_page_cost = 0",
    "random_page_cost = 0; SET LOCAL cpu_index_tuple_cost = 0",
    "cpu_operator_cost = 0",
    *["pgbillion_rows.columns = force"] * 4,
    "pgbillion_rows.vector_scan = force",
    "pgbillion_rows.eager_aggregate = force",
    "pgbillion_rows.vector_exchange = off",
    "plan_cache_mode = force_generic_plan",
)
_PARALLEL = ("max_parallel_workers_per_gather = 2", "parallel_leader_participation = off", "enable_parallel_hash = off")
_SHAPES = (
    *("plain", "plain", "plain", "plain", "top", "count", "prepared", "each", "correlated", "union", "distinct"),
    *("ordered", "ranked", "cte"),
)


class MixedGenerator:
    """Makes queries over the tables of a schema."""

    def __init__(self, seed: int, of: Schema, *, exact: bool = False) -> None:
        """Where they are to be exact, answers never depend on the order in which floats are added."""
        self._chance = random.Random(seed)
        self._schema = of
        self._exact = exact
        self._aliases = 0

    def query(self) -> JoinQuery:
        """Return the next one."""
        chance = self._chance
        self._aliases = 0
        first, aliases = self._table(largest=chance.random() < 0.8)
        joins = []
        for _ in range(chance.choice((1, 1, 2, 2, 3, 4))):
            join = self._join(aliases)
            joins.append(join)
            aliases = [*aliases, *join.aliases]
        where = [self._condition(aliases) for _ in range(chance.choice((0, 0, 1, 2)))]
        for _ in range(chance.choice((0, 0, 0, 1, 1, 2))):
            where.append(self._subquery(aliases))
        shape = chance.choice(_SHAPES)
        number = chance.choice((0, 3, 20, 400))
        if shape == "prepared":
            where.append(chance.choice((f"{aliases[0]}.v > $1", f"coalesce({aliases[-1]}.v, 1) + $1 > 5")))
        elif shape in ("each", "correlated"):
            where.append(chance.choice((f"{aliases[0]}.v > o.v", f"{aliases[-1]}.v + o.v > 30")))
        grouped = shape != "distinct" and chance.random() < 0.85
        keys = self._keys(aliases) if grouped or shape == "distinct" else []
        outputs = list(self._outputs(aliases, grouped, shape))
        terms = repeats.terms([*where, *(condition for join in joins for condition in join.on)])
        order = ""
        if terms and chance.random() < 0.4:
            if grouped or shape == "distinct":
                keys = list(dict([*keys, (repeats.value(chance, terms), True)]).items())
            if grouped:
                outputs.append(repeats.aggregate(chance, terms))
            elif shape != "distinct":
                outputs.append(repeats.value(chance, terms))
                order = f"({chance.choice(terms)}), "
        return JoinQuery(
            settings=self._settings(),
            first=first,
            joins=tuple(joins),
            where=tuple(where),
            keys=tuple(key for key, _ in keys),
            shown=tuple(is_shown for _, is_shown in keys),
            aggregates=tuple(outputs),
            grouped=grouped,
            grouping=repeats.grouping(chance, [key for key, _ in keys]) if grouped and keys else "",
            order=order,
            having=chance.choice(("", "", "", "count(*) > 2", f"max({aliases[-1]}.v) > 5")),
            shape=shape,
            number=number,
        )

    def _settings(self) -> tuple[str, ...]:
        chance = self._chance
        chosen = [*chance.choice(_SETTINGS), *chance.sample(_FURTHER, chance.choice((0, 1, 1, 2)))]
        if chance.random() < 0.3:
            chosen += [_PARALLEL[0], *(one for one in _PARALLEL[1:] if chance.random() < 0.3)]
        return tuple(chosen)

    def _table(self, *, largest: bool = False) -> tuple[str, list[str]]:
        """One table under a new name; no other than the first may be the largest one."""
        alias = f"a{self._aliases}"
        self._aliases += 1
        if largest and self._chance.random() < SEVERAL:
            return f"{self._chance.choice(self._schema.several)} {alias}", [alias]
        table = self._schema.tables[0 if largest else self._chance.randrange(1, len(self._schema.tables))]
        return f"{table.name} {alias}", [alias]

    def _column(self, alias: str, family: str) -> str | None:
        names = [name for name, of in zip(KEYS, self._schema.families, strict=True) if of == family]
        return f"{alias}.{self._chance.choice(names)}" if names else None

    def _equal(self, left: Sequence[str], right: Sequence[str]) -> str:
        """Give a condition that hashes."""
        chance = self._chance
        family = chance.choice(self._schema.families)
        one, two = self._column(chance.choice(left), family), self._column(chance.choice(right), family)
        if family == "integer" and chance.random() < 0.2:
            alias = chance.choice(left)
            payloads = [f"{alias}.{payload}" for payload in ("v % 9", "v", "n", "f")]
            one = chance.choice((f"{one} + 1", f"{one} - 1", f"abs({one})", *payloads))
        elif family == "text" and chance.random() < 0.15:
            one = f"lower({one})"
        elif family == "timestamp" and chance.random() < 0.15:
            one, two = f"{one}::date", f"{two}::date"
        return f"{one} = {two}" if chance.random() < 0.5 else f"{two} = {one}"

    def _join(self, aliases: Sequence[str]) -> Join:
        chance = self._chance
        relation, own = self._table(largest=chance.random() < 0.05)
        if chance.random() < 0.12:
            other, others = self._table()
            kind = chance.choice(("JOIN", "LEFT JOIN"))
            relation = f"({relation} {kind} {other} ON {self._equal(own, others)})"
            own += others
        elif chance.random() < 0.12:
            relation, own = self._derived()
        kind = chance.choices(("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"), (9, 6, 1, 0.5))[0]
        on = [self._equal(aliases, own)]
        if chance.random() < 0.25:
            on.append(self._equal(aliases, own))
        if kind != "FULL JOIN" and chance.random() < 0.35:
            on.append(self._condition([*aliases, *own]))
        return Join(kind, relation, tuple(own), tuple(on))

    def _derived(self) -> tuple[str, list[str]]:
        """A subquery with all columns, whose rows are limited, made unique, or those of a function."""
        table, (alias,) = self._table()
        columns = ", ".join([*KEYS, *PAYLOADS])
        other, (second,) = self._table()
        outer = ", ".join(f"{alias}.{name}" for name in (*KEYS, *PAYLOADS))
        sums = "sum(v) AS v, max(n) AS n, min(f) AS f, max(w) AS w, bool_or(o) AS o"
        text = self._chance.choice(
            (
                f"SELECT {', '.join(KEYS)}, {sums} FROM {table} GROUP BY {', '.join(KEYS)}",
                f"SELECT {outer} FROM {table} JOIN {other} ON {alias}.k = {second}.k",
                f"SELECT {columns} FROM {table} JOIN (VALUES (1), (2), (2), (NULL)) AS listed (one) ON k = one",
                f"SELECT {columns} FROM {table} OFFSET 0",
                f"SELECT DISTINCT ON (k) {columns} FROM {table} ORDER BY k, v",
                f"SELECT {columns} FROM {table} WHERE v % 2 = 1 UNION ALL SELECT {columns} FROM {table}",
                f"SELECT {columns} FROM {table} ORDER BY v DESC LIMIT 12",
            )
        )
        return f"({text}) {alias}", [alias]

    def _condition(self, aliases: Sequence[str]) -> str:
        """Give a condition that raises no error."""
        chance = self._chance
        one, two = chance.choice(aliases), chance.choice(aliases)
        family = self._schema.families[chance.randrange(len(KEYS))]
        key, other = self._column(one, family), self._column(two, family)
        return chance.choice(
            (
                f"{one}.v > {chance.choice((2, 5, 15, 800))}",
                f"{one}.v + {two}.v > 20",
                f"{one}.v BETWEEN 3 AND 700",
                f"{one}.w LIKE 'b%'",
                f"{one}.n * 2 > {two}.v",
                f"{one}.v - {two}.v < 30",
                f"{one}.w LIKE '%{chance.choice('abc')}%'",
                f"{one}.w <> {two}.w",
                f"{one}.n > {two}.f",
                f"{one}.o",
                f"({one}.o OR {two}.v < 10)",
                f"{one}.k IN (1, 2, 5, NULL)",
                f"{key} IS {chance.choice(('', 'NOT '))}NULL",
                f"{key} {chance.choice(('<>', '=', 'IS DISTINCT FROM'))} {other}",
                f"coalesce({one}.v, 3) < {chance.choice((4, 50, 1000))}",
                f"CASE WHEN {one}.o THEN {two}.v > 4 ELSE {one}.k < 9 END",
            )
        )

    def _subquery(self, aliases: Sequence[str]) -> str:
        """Give a condition with a subquery that refers to the rows outside."""
        chance = self._chance
        relation, own = self._table()
        source = relation
        if chance.random() < 0.2:
            other, others = self._table()
            source = f"{relation} JOIN {other} ON {self._equal(own, others)}"
            own += others
        inner = [self._equal(aliases, own)]
        if chance.random() < 0.4:
            inner.append(self._condition([*aliases, *own]))
        where = " AND ".join(inner)
        negated = chance.choice(("", "NOT "))
        family = self._schema.families[chance.randrange(len(KEYS))]
        left, right = self._column(chance.choice(aliases), family), self._column(own[0], family)
        return chance.choice(
            (
                f"{negated}EXISTS (SELECT FROM {source} WHERE {where})",
                f"{negated}EXISTS (SELECT FROM {source} WHERE {where})",
                f"{left} IN (SELECT {right} FROM {source})",
                f"{left} IN (SELECT {right} FROM {source} WHERE {where})",
                f"{left} NOT IN (SELECT {right} FROM {source} WHERE {right} IS NOT NULL)",
                f"{left} NOT IN (SELECT {right} FROM {source})",
                f"{chance.choice(aliases)}.v > (SELECT coalesce(min({own[0]}.v), 0) FROM {source} WHERE {where})",
                f"(SELECT count(*) FROM {source} WHERE {where}) < 3",
            )
        )

    def _keys(self, aliases: Sequence[str]) -> list[tuple[str, bool]]:
        chance = self._chance
        found = []
        for _ in range(chance.choice((0, 1, 1, 1, 2, 3))):
            alias = chance.choice(aliases)
            if chance.random() < 0.3:
                other = chance.choice(aliases)
                computed = (
                    *(f"{alias}.o", f"{alias}.v % 5", f"left({alias}.w, 2)", f"upper(left({alias}.w, 3))"),
                    *(f"({alias}.v + {other}.v) % 7", f"coalesce({alias}.w, {other}.w)"),
                    f"left({alias}.w, 1) || left({other}.w, 1)",
                )
                found.append((chance.choice(computed), True))
            else:
                place = chance.randrange(len(KEYS))
                found.append((f"{alias}.{KEYS[place]}", self._schema.families[place] not in AMBIGUOUS))
        return list(dict(found).items())

    def _outputs(self, aliases: Sequence[str], grouped: bool, shape: str) -> Iterator[str]:
        chance = self._chance

        def one() -> str:
            return chance.choice(aliases)

        if shape == "distinct":
            return
        if not grouped:
            for _ in range(chance.randint(1, 4)):
                yield f"{one()}.{chance.choice(PAYLOADS)}"
            return
        yield "count(*)"
        for _ in range(chance.randint(0, 3)):
            function = chance.choice(
                ("sum({0}.v)", "sum({0}.n)", "sum({0}.f::float8)", "count({0}.w)", "min({0}.w)", "max({0}.v)",
                 "min({0}.n)",
                 "avg({0}.v)", "stddev({0}.v)", "avg({0}.n)", "min({0}.f)", "max({0}.f)",
                 "sum({0}.v + {1}.v)", "sum({0}.n * {1}.v)", "sum({0}.n * {1}.f)", "bool_or({0}.o)",
                 "count(DISTINCT {0}.v)",
                 "sum(DISTINCT {0}.v)", "count(DISTINCT {0}.w)", "count({0}.k)", "max(length({0}.w))",
                 "sum(CASE WHEN {0}.o THEN {1}.v ELSE 1 END)", "count(DISTINCT {0}.s)")
            )  # fmt: skip
            if shape in ("plain", "prepared", "union") and not self._exact and chance.random() < 0.15:
                # compared as numbers, and not ordered by
                function = chance.choice(("sum({0}.f)", "avg({0}.f)", "stddev({0}.f)"))
            text = function.format(one(), one())
            if chance.random() < 0.15:
                text += f" FILTER (WHERE {self._condition([one()])})"
            yield text


# ---- aggregation before the join ----

_EAGER_JOINS = {
    "d1": ("t.k = d1.id", "t.k = d1.id", "t.k = d1.id AND d1.w > t.k2", "t.k = d1.id AND (t.k2 > 5 OR d1.w < 20)"),
    "d2": ("t.k2 = d2.id", "t.k2 = d2.id", "t.k2 = d2.id AND d2.id > 2"),
    "d3": ("t.s = d3.code", "t.s = d3.code", "t.s >= d3.code AND t.k = d3.grade"),
}
_EAGER_KEYS = {
    "t": ("t.k", "t.s", "t.k2 % 3", "t.ts"),
    "d1": ("d1.name", "lower(d1.name)", "d1.w % 3", "d1.region", "d1.w + t.k"),
    "d2": ("d2.label", "d2.id"),
    "d3": ("d3.grade", "d3.code"),
}
_EAGER_AGGREGATES = (
    "count(*)", "count(*)", "count(t.v)", "sum(t.x)", "sum(t.v)", "sum(t.id::bigint)", "avg(t.x)", "avg(t.v)",
    "avg(t.r)", "min(t.s)", "max(t.ts)", "min(t.v)", "bool_or(t.b)", "every(t.x > 0)", "stddev(t.v)", "var_pop(t.x)",
    "variance(t.r)", "corr(t.r, t.id)", "regr_slope(t.r, t.id)", "sum(t.v * 2 + t.v)", "bit_xor(t.id)", "max(t.k)",
    "sum(CASE WHEN t.b THEN t.x ELSE 0 END)", "sum(t.x::float8)", "avg(coalesce(t.x, 0))", "sum(t.l)", "avg(t.l)",
    "variance(t.l)", "avg(t.h)", "stddev(t.h)", "max(t.m)", "max(t.i)", "max(t.f)", "min(t.h)", "max(t.r)",
    "regr_count(t.f, t.r)", "sum(t.v * t.x)", "sum(CASE WHEN t.b THEN t.v ELSE 1 END * t.v)",
)  # fmt: skip
# what fails for rows that no join leaves
_EAGER_FAILING = (
    "sum(t.m)", "sum(t.i)", "avg(t.i)", "sum(t.r)", "sum(t.f)", "avg(t.f)", "stddev(t.f)", "corr(t.f, t.f)",
    "sum(t.f * 2)", "max(t.f + t.f)", "sum(t.h * t.h)", "max(t.h + t.h)", "sum(t.x + 1)", "max(t.l * 2)",
    "sum(t.m * 2)", "max(t.i + t.i)", "max(t.r * t.r)", "sum(t.r::real + t.r)", "count(*) FILTER (WHERE t.f * t.f > 1)",
)  # fmt: skip
_EAGER_FILTERS = ("t.x > 0", "t.s = 'a'", "t.v IS NULL", "t.b AND t.id < 900", "t.k = 500")
_EAGER_WHERE = {
    "t": ("t.x > 10", "t.id BETWEEN 50 AND 1200", "t.b", "t.s <> 'b'", "t.k IN (1, 2, 3, 7, 19)", "t.x > 5000"),
    "d1": ("d1.region = 'r1'", "d1.w < 30", "d1.name LIKE 'Name%'", "d1.region = 'none'"),
    "d2": ("d2.label <> 'l0'",),
    "d3": ("d3.grade IS NOT NULL",),
}
# each makes a query that must be left alone, unless core can make an inner join of it
_EAGER_BREAKERS = (
    "outer join", "semijoin", "distinct", "numeric key", "other table", "two tables", "list", "may fail", "sets",
)  # fmt: skip
_EAGER_SETTINGS: tuple[tuple[str, ...], ...] = (
    (),
    (),
    ("enable_hashjoin = off",),
    ("enable_mergejoin = off", "enable_nestloop = off"),
    ("enable_hashjoin = off", "enable_mergejoin = off"),
    ("enable_hashjoin = off", "enable_nestloop = off"),
    ("work_mem = '64kB'",),
    ("max_parallel_workers_per_gather = 2",),
    ("join_collapse_limit = 1",),
    ("geqo_threshold = 2",),
    ("pgbillion_rows.vector_aggregate = force",),
    ("pgbillion_rows.vector_aggregate = off",),
)
_EAGER_SHAPES = ("plain", "plain", "plain", "count", "prepared", "correlated", "union", "cte")


class EagerGenerator:
    """Makes queries over a big table `t` and small ones (`join_tables.py`), and knows which are for aggregation before
    the join."""

    def __init__(self, seed: int, table: str, broken: float = 0.2) -> None:
        self._chance = random.Random(seed)
        self._table = table
        self._broken = broken

    def query(self) -> JoinQuery:
        """Return the next one."""
        chance = self._chance
        small = chance.sample(sorted(_EAGER_JOINS), chance.randint(1, 3))
        breaker = chance.choice(_EAGER_BREAKERS) if chance.random() < self._broken else None
        choices = [key for name in ("t", *small) for key in _EAGER_KEYS[name] if "d1" not in key or "d1" in small]
        keys = chance.sample(choices, chance.choice((0, 1, 1, 1, 2)))
        aggregates = [self._aggregate() for _ in range(chance.randint(1, 3))]
        joins = [
            Join(
                "LEFT JOIN" if breaker == "outer join" and number == 0 else "JOIN",
                name,
                (name,),
                (chance.choice(_EAGER_JOINS[name]),),
            )
            for number, name in enumerate(small)
        ]
        where = [chance.choice(_EAGER_WHERE[name]) for name in ("t", *small) if chance.random() < 0.3]
        terms = repeats.terms([*where, *(condition for join in joins for condition in join.on)])
        if chance.random() < 0.3:
            keys.append(repeats.value(chance, terms))
        having = chance.choice(("count(*) > 3", "sum(t.x) > 0", "max(t.id) > 100")) if chance.random() < 0.2 else ""
        shape = chance.choice(_EAGER_SHAPES)
        if shape == "correlated":
            # shown as text, where floats cannot be compared as such
            keys, aggregates = [], ["count(*)", chance.choice(("sum(t.x)", "max(t.v)", "avg(t.x)"))]
            breaker = breaker if breaker in ("outer join", "semijoin") else None
            where.append("t.id > o.v * 40")
        elif shape == "prepared":
            where.append("t.id > $1")
        self._break(breaker, small[0], where, keys, aggregates)
        return JoinQuery(
            settings=("max_parallel_workers_per_gather = 0", *chance.choice(_EAGER_SETTINGS))
            + (("plan_cache_mode = force_generic_plan",) if shape == "prepared" else ()),
            first=f"{self._table} t",
            joins=tuple(joins),
            where=tuple(where),
            keys=tuple(keys),
            shown=(True,) * len(keys),
            aggregates=tuple(aggregates),
            grouped=True,
            grouping=f"ROLLUP ({', '.join(keys)})" if breaker == "sets" and keys else "",
            order="",
            having=having,
            shape=shape,
            number=chance.randint(0, 700),
            outer="(SELECT w AS v FROM d1 WHERE w < 15)",
            eligible=breaker is None or (breaker == "sets" and not keys),
        )

    def _aggregate(self) -> str:
        chance = self._chance
        condition = f" FILTER (WHERE {chance.choice(_EAGER_FILTERS)})" if chance.random() < 0.2 else ""
        return chance.choice(_EAGER_AGGREGATES) + condition

    def _break(self, breaker: str | None, small: str, where: list[str], keys: list[str], aggregates: list[str]) -> None:
        """Add what must not be aggregated before the join."""
        other = f"{small}.{'grade' if small == 'd3' else 'id'}"
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
                aggregates.append(f"max({other} + t.id)")
            case "two tables":
                aggregates += ["sum(t.x)", f"max({other})"]
            case "list":
                aggregates.append("cardinality(array_agg(t.x))")
            case "may fail":
                aggregates.append(self._chance.choice(_EAGER_FAILING))
            case _:
                pass


def smaller(query: JoinQuery) -> Iterator[JoinQuery]:
    """Give queries that lack one part of this one; some make no sense."""
    if query.shape != "plain":
        yield replace(query, shape="plain")
    for name in ("settings", "where", "aggregates"):
        parts: tuple[str, ...] = getattr(query, name)
        for index in range(len(parts)):
            yield replace(query, **{name: (*parts[:index], *parts[index + 1 :])})  # type: ignore[arg-type]
    if query.having:
        yield replace(query, having="")
    if query.grouping:
        yield replace(query, grouping="")
    for index in range(len(query.keys)):
        yield replace(
            query,
            keys=(*query.keys[:index], *query.keys[index + 1 :]),
            shown=(*query.shown[:index], *query.shown[index + 1 :]),
        )
    for index, join in enumerate(query.joins):
        before, after = query.joins[:index], query.joins[index + 1 :]
        yield replace(query, joins=(*before, *after))
        for place in range(len(join.on)):
            on = (*join.on[:place], *join.on[place + 1 :])
            if on:
                yield replace(query, joins=(*before, replace(join, on=on), *after))

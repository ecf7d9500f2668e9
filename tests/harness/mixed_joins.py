"""Joins of two to five tables by chance, over tables by chance, whether vectors can do them or not.

A seed makes tables whose keys are of other types in each, with NULLs, duplicates, values that are equal and look
different, and often no row at all; and queries over them: trees of joins of every kind, subqueries that refer to the
rows outside, conditions on either side and on both, with groups, rows or the first rows above. Payloads are such that
their sums are exact, in whatever order they are added: so answers are equal to the last bit, as multisets.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

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
    statements: tuple[str, ...]


def schema(seed: int) -> Schema:
    """Make tables t0 to t5; the first is the largest."""
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
    return Schema(families, tuple(tables), tuple(statements))


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
        shown = ", ".join([*KEYS, *PAYLOADS])
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
class MixedQuery:
    """A query in parts, so that it can be made smaller."""

    settings: tuple[str, ...]
    first: str
    joins: tuple[Join, ...]
    where: tuple[str, ...]
    keys: tuple[str, ...]
    shown: tuple[bool, ...]  # of the keys: is one value of a group like the other?
    aggregates: tuple[str, ...]  # or columns, if there are no groups
    grouped: bool
    having: str
    shape: str
    number: int  # of rows, or a parameter

    def plain(self) -> str:
        """Return the query without what its shape puts around it."""
        source = self.first + "".join(
            f" {join.kind} {join.relation}" + (f" ON {' AND '.join(join.on)}" if join.on else "") for join in self.joins
        )
        where = f" WHERE {' AND '.join(self.where)}" if self.where else ""
        shown = [key for key, is_shown in zip(self.keys, self.shown, strict=True) if is_shown]
        target = ", ".join([*shown, *self.aggregates]) or "1"
        group = f" GROUP BY {', '.join(self.keys)}" if self.grouped and self.keys else ""
        having = f" HAVING {self.having}" if self.grouped and self.having else ""
        return f"SELECT {target} FROM {source}{where}{group}{having}"

    def statements(self) -> tuple[list[str], str]:
        """Return what comes before, and the query."""
        text = self.plain()
        places = ", ".join(str(place + 1) for place in range(sum(self.shown) + len(self.aggregates)))
        match self.shape:
            case "top":
                return [], f"{text} ORDER BY {places or '1'} LIMIT {self.number}"
            case "count":
                return [], f"SELECT count(*), count(q) FROM ({text}) AS q"
            case "prepared":
                return [f"PREPARE q (integer) AS {text}"], f"EXECUTE q ({self.number})"
            case "each":
                inner = f"SELECT count(*) AS c, min(r::text) AS r FROM ({text}) AS r"
                return [], f"SELECT o.v, q.* FROM (SELECT v FROM t1 ORDER BY v LIMIT 4) o, LATERAL ({inner}) q"
            case "union":
                return [], f"({text}) UNION ALL ({text})"
            case "distinct":
                return [], text.replace("SELECT", "SELECT DISTINCT", 1)
            case _:
                return [], text

    def __str__(self) -> str:
        before, text = self.statements()
        return "\n    ".join([*(f"SET {setting}" for setting in self.settings), *before, text])


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
    "pgbillion_rows.columns = force",
    "pgbillion_rows.columns = force",
    "pgbillion_rows.vector_scan = force",
    "pgbillion_rows.aggregate_before_join = force",
    "pgbillion_rows.vector_exchange = off",
    "plan_cache_mode = force_generic_plan",
)
_PARALLEL = ("max_parallel_workers_per_gather = 2", "parallel_leader_participation = off", "enable_parallel_hash = off")
_SHAPES = ("plain", "plain", "plain", "plain", "top", "count", "prepared", "each", "union", "distinct")


class MixedGenerator:
    """Makes queries over the tables of a schema."""

    def __init__(self, seed: int, of: Schema) -> None:
        self._chance = random.Random(seed)
        self._schema = of
        self._aliases = 0

    def query(self) -> MixedQuery:
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
        elif shape == "each":
            where.append(chance.choice((f"{aliases[0]}.v > o.v", f"{aliases[-1]}.v + o.v > 30")))
        grouped = shape != "distinct" and chance.random() < 0.85
        keys = self._keys(aliases) if grouped or shape == "distinct" else []
        return MixedQuery(
            settings=self._settings(),
            first=first,
            joins=tuple(joins),
            where=tuple(where),
            keys=tuple(key for key, _ in keys),
            shown=tuple(is_shown for _, is_shown in keys),
            aggregates=tuple(self._outputs(aliases, grouped, shape)),
            grouped=grouped,
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
        if family == "integer" and chance.random() < 0.15:
            one = chance.choice((f"{one} + 1", f"{chance.choice(left)}.v % 9", f"abs({one})"))
        return f"{one} = {two}" if chance.random() < 0.5 else f"{two} = {one}"

    def _join(self, aliases: Sequence[str]) -> Join:
        chance = self._chance
        relation, own = self._table(largest=chance.random() < 0.03)
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
        text = self._chance.choice(
            (
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
                found.append((chance.choice((f"{alias}.o", f"{alias}.v % 5", f"left({alias}.w, 2)")), True))
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
                 "avg({0}.v)", "sum({0}.v + {1}.v)", "sum({0}.n * {1}.v)", "bool_or({0}.o)", "count(DISTINCT {0}.v)",
                 "sum(DISTINCT {0}.v)", "count(DISTINCT {0}.w)", "count({0}.k)", "max(length({0}.w))",
                 "sum(CASE WHEN {0}.o THEN {1}.v ELSE 1 END)", "count(DISTINCT {0}.s)")
            )  # fmt: skip
            text = function.format(one(), one())
            if chance.random() < 0.15:
                text += f" FILTER (WHERE {self._condition([one()])})"
            yield text


def smaller(query: MixedQuery) -> Iterator[MixedQuery]:
    """Give queries that lack one part of this one; some make no sense."""
    if query.shape != "plain":
        yield replace(query, shape="plain")
    for name in ("settings", "where", "aggregates"):
        parts: tuple[str, ...] = getattr(query, name)
        for index in range(len(parts)):
            yield replace(query, **{name: (*parts[:index], *parts[index + 1 :])})  # type: ignore[arg-type]
    if query.having:
        yield replace(query, having="")
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

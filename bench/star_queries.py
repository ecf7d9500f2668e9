"""Queries by chance over TPC-DS's tables: stars and snowflakes, with what else a query may have.

A query takes a fact table, joins some of the tables that its foreign keys name, perhaps what these name in turn, and
perhaps another fact table by a key of two columns. Conditions compare columns with values that the statistics know. It
returns groups, different rows, or the first rows of an order by all that is returned, so that there is one answer.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from psycopg import sql

from pgbillion.common.connection import Connection

FACTS = ("store_sales", "catalog_sales", "web_sales", "inventory", "store_returns", "catalog_returns", "web_returns")
# what a column's name ends with names the key that it refers to
KEYS = {
    "call_center_sk": ("call_center", "cc_call_center_sk"),
    "catalog_page_sk": ("catalog_page", "cp_catalog_page_sk"),
    "web_page_sk": ("web_page", "wp_web_page_sk"),
    "web_site_sk": ("web_site", "web_site_sk"),
    "ship_mode_sk": ("ship_mode", "sm_ship_mode_sk"),
    "date_sk": ("date_dim", "d_date_sk"),
    "time_sk": ("time_dim", "t_time_sk"),
    "item_sk": ("item", "i_item_sk"),
    "customer_sk": ("customer", "c_customer_sk"),
    "cdemo_sk": ("customer_demographics", "cd_demo_sk"),
    "hdemo_sk": ("household_demographics", "hd_demo_sk"),
    "addr_sk": ("customer_address", "ca_address_sk"),
    "store_sk": ("store", "s_store_sk"),
    "promo_sk": ("promotion", "p_promo_sk"),
    "warehouse_sk": ("warehouse", "w_warehouse_sk"),
    "reason_sk": ("reason", "r_reason_sk"),
}
# of sales and returns: the two columns that a return has of its sale
PARTNERS = {
    "store_sales": ("store_returns", (("ss_item_sk", "sr_item_sk"), ("ss_ticket_number", "sr_ticket_number"))),
    "catalog_sales": ("catalog_returns", (("cs_item_sk", "cr_item_sk"), ("cs_order_number", "cr_order_number"))),
    "web_sales": ("web_returns", (("ws_item_sk", "wr_item_sk"), ("ws_order_number", "wr_order_number"))),
}
CUSTOMERS = {
    "store_sales": "ss_customer_sk",
    "catalog_sales": "cs_bill_customer_sk",
    "web_sales": "ws_bill_customer_sk",
    "store_returns": "sr_customer_sk",
}


@dataclass(frozen=True)
class Column:
    """A column, with values that its statistics know."""

    name: str
    type: str
    values: tuple[str, ...]


@dataclass
class Tables:
    """The columns of all tables."""

    columns: dict[str, list[Column]]

    @classmethod
    def of(cls, conn: Connection) -> Tables:
        """Read what there is, after ANALYZE."""
        rows = conn.execute(
            "SELECT c.relname, a.attname, format_type(a.atttypid, NULL), s.most_common_vals::text::text[],"
            " s.histogram_bounds::text::text[] FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid"
            " JOIN pg_stats s ON s.schemaname = 'public' AND s.tablename = c.relname AND s.attname = a.attname"
            " WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relnamespace = 'public'::regnamespace"
            " AND a.attnum > 0 ORDER BY c.relname, a.attnum"
        ).fetchall()
        found: dict[str, list[Column]] = {}
        for table, name, kind, common, bounds in rows:
            found.setdefault(table, []).append(Column(name, kind, (*(common or ())[:40], *(bounds or ()))))
        return cls(found)

    def references(self, table: str) -> list[tuple[str, str, str]]:
        """Of each foreign key of a table: its column, the other table, and that one's key."""
        found = []
        for column in self.columns[table]:
            for ending, (other, key) in KEYS.items():
                if column.name.endswith(ending) and other != table:
                    found.append((column.name, other, key))
                    break
        return found

    def some(self, table: str, chance: random.Random, *types: str) -> Column | None:
        """A column by chance, of these types if there are any, of which there are values."""
        fitting = [
            column
            for column in self.columns[table]
            if len(column.values) > 1 and not column.name.endswith("_sk") and (not types or column.type in types)
        ]
        return chance.choice(fitting) if fitting else None


@dataclass
class Query:
    """What a query is made of so far."""

    tables: Tables
    chance: random.Random
    sources: list[str] = field(default_factory=list)
    conditions: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)  # columns to group by or to return

    def likely(self, probability: float) -> bool:
        """Decide by chance."""
        return self.chance.random() < probability

    def condition(self, alias: str, table: str) -> str | None:
        """A condition of a column by chance."""
        column = self.tables.some(table, self.chance)
        if column is None:
            return None
        name = f"{alias}.{column.name}"
        if self.likely(0.08):
            return f"{name} IS {'NOT ' if self.likely(0.5) else ''}NULL"
        one, two, *more = self.chance.choices(column.values, k=5)
        if column.type not in ("character varying", "character", "text"):
            if self.likely(0.4):
                return f"{name} = {_literal(one)}"
            if self.likely(0.5):
                # as the column's type has them in order
                return f"{name} BETWEEN least({_cast(one, column)}, {_cast(two, column)}) AND {_cast(two, column)}"
            return f"{name} {self.chance.choice(('<', '>', '<=', '>=', '<>'))} {_literal(one)}"
        if self.likely(0.4):
            return f"{name} = {_literal(one)}"
        if self.likely(0.5):
            return f"{name} IN ({', '.join(map(_literal, (one, two, *more)))})"
        if self.likely(0.5) and one.isalnum():
            return f"{name} LIKE {_literal(one[: self.chance.randint(1, 4)] + '%')}"
        return f"{name} {self.chance.choice(('<', '>', '<>'))} {_literal(one)}"

    def conditions_of(self, alias: str, table: str, probability: float) -> list[str]:
        """No, one or two conditions."""
        number = (1 + self.likely(0.3)) if self.likely(probability) else 0
        return [found for _ in range(number) if (found := self.condition(alias, table)) is not None]

    def join_dimensions(self, alias: str, table: str, most: int, depth: int = 0) -> None:
        """Join some of the tables that this one refers to."""
        references = self.tables.references(table)
        for number, (column, other, key) in enumerate(
            self.chance.sample(references, min(len(references), self.chance.randint(depth == 0, most)))
        ):
            name = f"{alias}{number}"
            outer = self.likely(0.1)
            on = [f"{alias}.{column} = {name}.{key}", *(self.conditions_of(name, other, 0.2) if outer else ())]
            self.sources.append(f"{'LEFT ' if outer else ''}JOIN {other} {name} ON {' AND '.join(on)}")
            self.conditions += self.conditions_of(name, other, 0.1 if outer else 0.6)
            output = self.tables.some(other, self.chance)
            if output is not None and self.likely(0.5):
                self.outputs.append(f"{name}.{output.name}")
            if other == "customer" and depth == 0 and self.likely(0.5):
                self.join_dimensions(name, other, 2, depth=1)

    def join_partner(self, alias: str, table: str) -> None:
        """Join another fact table by two columns, or ask whether it has a row."""
        if table not in PARTNERS:
            return
        other, columns = PARTNERS[table]
        on = " AND ".join(f"{alias}.{one} = p.{two}" for one, two in columns)
        way = self.chance.choice(("JOIN", "LEFT JOIN", "EXISTS", "NOT EXISTS", "anti"))
        if way in ("EXISTS", "NOT EXISTS"):
            where = " AND ".join([on, *self.conditions_of("p", other, 0.3)])
            self.conditions.append(f"{way} (SELECT FROM {other} p WHERE {where})")
            return
        self.sources.append(f"{'LEFT JOIN' if way == 'anti' else way} {other} p ON {on}")
        if way == "anti":
            self.conditions.append(f"p.{columns[0][1]} IS NULL")
        elif way == "JOIN":
            self.conditions += self.conditions_of("p", other, 0.3)
            self.join_dimensions("p", other, 1, depth=1)

    def ask_others(self, alias: str, table: str) -> None:
        """Conditions that are subqueries."""
        if table in CUSTOMERS and self.likely(0.15):
            other = self.chance.choice([name for name in CUSTOMERS if name != table])
            date = next(column for column, name, _ in self.tables.references(other) if name == "date_dim")
            where = [
                f"e.{CUSTOMERS[other]} = {alias}.{CUSTOMERS[table]}",
                f"e.{date} = d.d_date_sk",
                *self.conditions_of("d", "date_dim", 0.9),
            ]
            negation = "NOT " if self.likely(0.3) else ""
            self.conditions.append(f"{negation}EXISTS (SELECT FROM {other} e, date_dim d WHERE {' AND '.join(where)})")
        measure = self.tables.some(table, self.chance, "numeric")
        items = [column for column, name, _ in self.tables.references(table) if name == "item"]
        if measure is not None and items and self.likely(0.1):
            self.conditions.append(
                f"{alias}.{measure.name} > (SELECT 1.3 * avg(s.{measure.name}) FROM {table} s"
                f" WHERE s.{items[0]} = {alias}.{items[0]})"
            )


def _literal(value: str) -> str:
    return sql.Literal(value).as_string(None)


def _cast(value: str, column: Column) -> str:
    return f"{_literal(value)}::{column.type}"


def _measures(query: Query, alias: str, table: str) -> list[str]:
    found = ["count(*)"]
    for function in query.chance.sample(("sum", "avg", "min", "max", "count"), query.chance.randint(0, 3)):
        column = query.tables.some(table, query.chance, "numeric", "integer")
        if column is not None:
            found.append(f"{function}({alias}.{column.name})")
    if query.likely(0.1):
        column = query.tables.some(table, query.chance)
        if column is not None:
            found.append(f"count(DISTINCT {alias}.{column.name})")
    return found


def _union(query: Query) -> tuple[str, str]:
    """Two fact tables as one: the source, and the table whose columns it has."""
    one, two = query.chance.sample(("store_sales", "catalog_sales", "web_sales"), 2)
    prefixes = {"store_sales": "ss", "catalog_sales": "cs", "web_sales": "ws"}
    columns = ("sold_date_sk", "item_sk", "promo_sk", "quantity", "sales_price", "net_profit")
    wanted = ", ".join(f"{prefixes[one]}_{name}" for name in columns)
    parts = [f"SELECT {wanted} FROM {one}", f"SELECT {', '.join(f'{prefixes[two]}_{n}' for n in columns)} FROM {two}"]
    return f"({' UNION ALL '.join(parts)}) f", one


def generate(tables: Tables, seed: int) -> str:
    """A query; the same for the same seed and tables."""
    chance = random.Random(seed)
    table = chance.choice(FACTS)
    query = Query(tables, chance)
    if query.likely(0.1):
        source, table = _union(query)
        prefix = {"store_sales": "ss", "catalog_sales": "cs", "web_sales": "ws"}[table]
        names = {
            f"{prefix}_{n}" for n in ("sold_date_sk", "item_sk", "promo_sk", "quantity", "sales_price", "net_profit")
        }
        query.tables = Tables({**tables.columns, table: [c for c in tables.columns[table] if c.name in names]})
        query.sources.append(source)
    else:
        query.sources.append(f"{table} f")
        if query.likely(0.25):
            query.join_partner("f", table)
        query.ask_others("f", table)
    query.join_dimensions("f", table, 4)
    query.conditions += query.conditions_of("f", table, 0.4)
    where = f" WHERE {' AND '.join(query.conditions)}" if query.conditions else ""
    source = f"FROM {' '.join(query.sources)}{where}"
    return _select(query, "f", table, source)


def _select(query: Query, alias: str, table: str, source: str) -> str:
    chance = query.chance
    keys = chance.sample(query.outputs, min(len(query.outputs), 3))
    own = query.tables.some(table, chance)
    if own is not None and query.likely(0.3):
        keys.append(f"{alias}.{own.name}")
    form = chance.random()
    numbers: Sequence[int]
    if form < 0.15 and keys:
        numbers = range(1, len(keys) + 1)
        return f"SELECT DISTINCT {', '.join(keys)} {source} ORDER BY {_listed(numbers)} LIMIT 100"
    if form < 0.3:
        more = [f"{alias}.{column.name}" for column in query.tables.columns[table][:6]]
        shown = list(dict.fromkeys([*keys, *more]))
        numbers = range(1, len(shown) + 1)
        return f"SELECT {', '.join(shown)} {source} ORDER BY {_listed(numbers)} LIMIT {chance.choice((10, 100, 1000))}"
    measures = _measures(query, alias, table)
    if not keys:
        return f"SELECT {', '.join(measures)} {source}"
    numbers = range(1, len(keys) + 1)
    grouped = f"ROLLUP ({_listed(numbers)})" if query.likely(0.1) else _listed(numbers)
    having = f" HAVING count(*) > {chance.randint(1, 20)}" if query.likely(0.15) else ""
    numbers = range(1, len(keys) + len(measures) + 1)
    order = f" ORDER BY {_listed(numbers)}" + (" LIMIT 100" if query.likely(0.5) else "")
    return f"SELECT {', '.join([*keys, *measures])} {source} GROUP BY {grouped}{having}{order}"


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))

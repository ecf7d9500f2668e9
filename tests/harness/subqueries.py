"""Generated queries with correlated subqueries of every form, over tables with NULLs, duplicates and empty groups."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

from . import outcomes

# o: outer rows, of which several have the same values; i: inner ones; e: none
TABLES = """
CREATE TABLE o (id integer, k integer, n numeric, s text, a integer[], f double precision);
INSERT INTO o SELECT i, nullif(i % 13, 7), (i % 5)::numeric(6, 2), nullif('s' || i % 6, 's4'), ARRAY[i % 3, NULL],
    CASE i % 4 WHEN 0 THEN 'NaN' WHEN 1 THEN -0.0 WHEN 2 THEN 0.0 END FROM generate_series(1, 300) i;
INSERT INTO o SELECT id, k, (n::text || '00')::numeric, s, a, f FROM o WHERE id % 3 = 0;
CREATE TABLE i (id integer, k integer, n numeric, s text, v bigint);
INSERT INTO i SELECT i, nullif(i % 11, 3), i % 7, nullif('s' || i % 8, 's5'), nullif(i % 17, 5)
    FROM generate_series(1, 400) i;
CREATE TABLE e (k integer, v bigint);
CREATE INDEX ON i (k);
ANALYZE o, i, e;
"""
# the same with fewer rows, so that more queries are compared in a minute; some fit into a page
SMALL = (
    "CREATE SCHEMA small; SET search_path = small; "
    + TABLES.replace("(1, 300)", "(1, 60)").replace("(1, 400)", "(1, 70)")
    + "SET search_path = public;"
)
_FROM = (
    "i",
    "i",
    "(SELECT k, n, s, v FROM i WHERE v > 2) i",
    "(SELECT k, n, s, v FROM i UNION ALL SELECT k, k, NULL, v FROM e) i",
)
_TERMS = (
    "i.k = {o}.k", "i.k = {o}.k", "i.n = {o}.n", "i.s = {o}.s", "i.k > {o}.k", "i.n <= {o}.n AND i.k = {o}.k",
    "i.k IS NOT DISTINCT FROM {o}.k", "i.k = {o}.k % 5", "i.s <> {o}.s AND i.v = {o}.k", "i.k = ANY ({o}.a)",
    "i.v = length({o}.n::text)", "i.v > {o}.f", "(i.k = {o}.k OR i.s = {o}.s)",
    "i.v < (SELECT max(x.v) FROM i x WHERE x.k = {o}.k)", "EXISTS (SELECT FROM i x WHERE x.k = i.k AND x.s = {o}.s)",
    "100 / ({o}.k - 20) < i.v",
)  # fmt: skip
_PLAIN = ("i.v > 3", "i.v < 2", "i.k = 4", "true", "false", "i.s > 's3'", "100 / (i.k - 20) < i.v")
_STATES = (
    "count(*)", "count(i.v)", "sum(i.v)", "max(i.s)", "avg(i.n)", "min(i.k)", "count(DISTINCT i.s)",
    "string_agg(i.s, ',' ORDER BY i.s)", "max(i.v + {o}.k)", "sum(i.n * {o}.n)", "bool_or(i.v > {o}.k)",
)  # fmt: skip


def settings_by_chance(chance: random.Random) -> str:
    """SETs: little memory, workers for some, which take long to start where the machine is busy, and small tables.

    Subqueries have no workers of their own, which would be started for each row.
    """
    memory = chance.choice(("64kB", "4MB"))
    workers = chance.choice((0, 0, 0, 0, 0, 0, 1, 2))
    path = chance.choice(("public", *["small, public"] * 7))
    return (
        f"SET work_mem = '{memory}'; SET max_parallel_workers_per_gather = {workers}; SET parallel_setup_cost = 20;"
        f" SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0; SET search_path = {path};"
    )


_TABLE = re.compile(r"\b(FROM|JOIN) ([oi])\b(?!\.)(?: ([px])\b)?")


def way_by_chance(chance: random.Random, query: str) -> tuple[str, str]:
    """How a query is read, and the query; of one that is run again, some tables have other rows each time."""
    way = chance.choice(outcomes.WAYS)
    if way == outcomes.AGAIN and chance.random() < 0.7:
        changing = chance.choice(("o", "i"))
        query = _TABLE.sub(lambda found: found[0] if found[2] != changing else _of_again(found), query)
    return way, query


def _of_again(found: re.Match[str]) -> str:
    return f"{found[1]} (SELECT * FROM {found[2]} z WHERE z.id % 3 <> again.n - 1) {found[3] or found[2]}"


class SubqueryGenerator:
    """Queries that give the same rows each time."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)

    def _where(self, outer: str) -> str:
        terms = self.chance.sample(_TERMS, self.chance.choice((1, 1, 2)))
        return " AND ".join(terms).format(o=outer)

    def _source(self) -> str:
        return self.chance.choice(_FROM)

    def scalar(self, outer: str) -> str:
        """A subquery of one value: an aggregate, the first of an order, or (an error where it is not) the only one."""
        where, source = self._where(outer), self._source()
        state = self.chance.choice(_STATES).format(o=outer)
        forms: tuple[Callable[[], str], ...] = (
            lambda: f"(SELECT {state} FROM {source} WHERE {where})",
            lambda: f"(SELECT {state} FROM {source} WHERE {where} HAVING count(*) > 3)",
            lambda: f"(SELECT i.v FROM {source} WHERE {where} ORDER BY i.v, i.k LIMIT 1)",
            lambda: f"(SELECT i.v FROM {source} WHERE {where} ORDER BY i.v DESC NULLS LAST, i.k OFFSET 2 LIMIT 1)",
            lambda: f"(SELECT DISTINCT i.k FROM {source} WHERE {where} AND i.k = {outer}.k)",
            lambda: f"(SELECT i.v FROM {source} WHERE {where} AND i.k = {outer}.k)",
            lambda: f"(SELECT (ARRAY(SELECT i.v FROM {source} WHERE {where} ORDER BY 1))[2])",
            lambda: (
                f"(SELECT r FROM (SELECT sum(i.v) OVER (ORDER BY i.v, i.k) r FROM {source} WHERE {where}) w"
                " ORDER BY r LIMIT 1)"
            ),
        )
        return self.chance.choice(forms)()

    def truth(self, outer: str) -> str:
        """A condition with a subquery."""
        where, source = self._where(outer), self._source()
        column, value = self.chance.choice((("i.k", f"{outer}.k"), ("i.v", f"{outer}.k"), ("i.n", f"{outer}.n")))
        compared = self.chance.choice(("=", "<>", "<", ">="))
        # the same for all rows: hashed
        plain = self.chance.choice(_PLAIN)
        forms = (
            f"{value} NOT IN (SELECT {column} FROM {source} WHERE {plain})",
            f"{value} NOT IN (SELECT {column} FROM {source} WHERE {column} IS NOT NULL AND {plain})",
            f"({outer}.k, {outer}.s) IN (SELECT i.k, i.s FROM {source} WHERE {plain}) IS NOT TRUE",
            f"coalesce({value} IN (SELECT {column} FROM {source} WHERE {plain}), {outer}.s > 's2')",
            f"EXISTS (SELECT FROM {source} WHERE {where} OFFSET 0)",
            f"NOT EXISTS (SELECT 1 FROM {source} WHERE {where} LIMIT 3)",
            # PostgreSQL makes two plans of such
            f"(EXISTS (SELECT FROM {source} WHERE {where}) OR {outer}.n > 3)",
            f"(EXISTS (SELECT FROM {source} WHERE {where}) OR NOT EXISTS (SELECT FROM i WHERE i.k = {outer}.k"
            f" AND {plain}))",
            f"EXISTS (SELECT FROM {source} WHERE {column} = {value} AND {plain}) IS NOT TRUE",
            f"{value} IN (SELECT {column} FROM {source} WHERE {where})",
            f"{value} NOT IN (SELECT {column} FROM {source} WHERE {where})",
            f"{value} {compared} ALL (SELECT {column} FROM {source} WHERE {where})",
            f"{value} {compared} ANY (SELECT {column} FROM {source} WHERE {where} ORDER BY 1 LIMIT 4)",
            f"({outer}.k, {outer}.n) = (SELECT i.k, i.n FROM {source} WHERE {where} ORDER BY i.v, i.k, i.n LIMIT 1)",
            f"({outer}.k, {outer}.n) IN (SELECT i.k, i.n FROM {source} WHERE {where})",
            f"{self.scalar(outer)}::text IS NOT NULL",
        )
        return self.chance.choice(forms)

    def query(self) -> str:
        """A whole query."""
        forms: tuple[Callable[[], str], ...] = (
            lambda: f"SELECT o.id, {self.scalar('o')} x FROM o",
            lambda: f"SELECT o.id, {self.truth('o')} x, {self.scalar('o')} y FROM o WHERE o.id < 150",
            lambda: f"SELECT o.id, o.n FROM o WHERE {self.truth('o')}",
            lambda: f"SELECT o.id FROM o WHERE {self.truth('o')} OR ({self.scalar('o')})::text > '3'",
            lambda: "SELECT o.k, count(*) FROM o GROUP BY o.k HAVING (SELECT count(*) FROM i WHERE i.k = o.k) > 30",
            lambda: f"SELECT CASE WHEN o.k > 4 THEN ({self.scalar('o')})::text END x, count(*) FROM o GROUP BY 1",
            lambda: f"SELECT o.id, p.id FROM o JOIN o p ON o.k = p.k AND {self.truth('p')} WHERE o.id < 40",
            lambda: f"SELECT o.id, p.v FROM o LEFT JOIN i p ON o.k = p.k AND {self.truth('o')} WHERE o.id < 60",
            lambda: (
                f"SELECT o.id, (SELECT count(*) FROM o p WHERE p.k = o.k AND {self.truth('p')}) x FROM o"
                " WHERE o.id < 40"
            ),
            lambda: (
                f"SELECT o.id, l.x FROM o, LATERAL (SELECT max(({self.scalar('p')})::text) x FROM o p"
                " WHERE p.k = o.k AND p.id < 60) l WHERE o.id < 80"
            ),
            lambda: (
                "WITH c AS MATERIALIZED (SELECT k, count(*) n FROM i GROUP BY k)"
                f" SELECT o.id, (SELECT c.n FROM c WHERE c.k = o.k) x FROM o WHERE {self.truth('o')}"
            ),
            lambda: f"SELECT x, count(*) FROM (SELECT ({self.scalar('o')})::text x FROM o OFFSET 0) t GROUP BY x",
        )
        return self.chance.choice(forms)()

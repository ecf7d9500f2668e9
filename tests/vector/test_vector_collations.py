"""Vectors and eager aggregation beside core where collations are ICU's: equal strings of different bytes.

Debian's PostgreSQL 15 has ICU; others here are without it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import psycopg
import pytest

from harness.servers import one
from pgbillion.common.connection import Connection
from pgbillion.rows import answers, plans

pytestmark = pytest.mark.majors

Found = answers.Answer | tuple[str, str]
COLLATIONS = {
    "nocase": ("und-u-ks-level2", False),
    "noaccent": ("und-u-ks-level1", False),
    # spaces and signs count for nothing
    "nosigns": ("und-u-ka-shifted", False),
    "numbers": ("und-u-kn-true", False),
    "exact": ("de-u-co-phonebk", True),
}
# in small strings, in ones longer than a word, and in ones that are compressed or stored out of line
WORDS = (
    "a", "A", "á", "a\u0301", "Á", "à", "ä", "Ä", "ae", "b", "B", "ß", "ss", "SS", "Z", "z", "é", "e\u0301", "", " ",
    "-", "co-op", "coop", "CO OP", "Résumé of the year", "resume of the year", "RESUME OF THE YEAR", "10", "9", "09",
    "2", "x" * 3000, "X" * 3000, "x" * 2999 + "y",
)  # fmt: skip
COLUMNS = (*COLLATIONS, "c")
CONDITIONS = (
    "{0} = 'A'", "{0} <> 'A'", "{0} < 'b'", "{0} >= 'B' AND {0} <= 'Z'", "{0} BETWEEN 'a' AND 'co-op'",
    "{0} IN ('A', 'ss', 'COOP')", "{0} NOT IN ('A', 'Z')", "{0} = ANY ('{{a,B,coop}}')", "{0} IS DISTINCT FROM 'a'",
    "coalesce({0}, 'A') = 'a'", "CASE WHEN {0} = 'A' THEN id ELSE 0 END > 5", "{0} LIKE 'a%'", "{0} NOT LIKE '%S%'",
    "{0} ILIKE 'A%'", "{0} LIKE '_'", "{0} LIKE 'coop'", "starts_with({0}, 'a')", "{0} > other", "{0} || 'x' = 'AX'",
)  # fmt: skip
# what is grouped by in a nondeterministic collation shows one of equal strings, and which one is open: it is not shown
QUERIES = (
    "SELECT id % 5, min({0}), max({0}), count({0}), count(DISTINCT {0}) FROM words GROUP BY 1",
    "SELECT count(*), sum(id), min(id) FROM words GROUP BY {0}",
    "SELECT count(*) FROM (SELECT DISTINCT {0} FROM words) s",
    "SELECT count(*), min(id) FROM words GROUP BY {0}, {1}",
    "SELECT sum(id) FROM words GROUP BY {0} COLLATE {1}",
    "SELECT min({0} COLLATE {1}), max({0} COLLATE {1}) FROM words",
    "SELECT count(*), max(id) FROM words GROUP BY {0} HAVING min({1}) > 'a' COLLATE {1}",
    "SELECT count(*), sum(w.id) FROM words w JOIN others o ON w.{0} = o.{0}",
    "SELECT o.n, count(*), sum(w.id) FROM words w JOIN others o ON w.{0} = o.{0} COLLATE {1} GROUP BY o.n",
    "SELECT o.n, count(*), min(w.{1} COLLATE c), max(w.id) FROM words w JOIN others o ON w.{0} < o.{0} GROUP BY o.n",
    "SELECT count(*), sum(w.id) FROM words w JOIN others o ON w.id % 7 = o.n GROUP BY w.{0}",
    "SELECT count(*) FROM words WHERE {0} IN (SELECT {0} FROM others)",
)


@pytest.fixture
def words(conn: Connection) -> Connection:
    if not one(conn, "SELECT count(*) FROM pg_collation WHERE collname = 'und-x-icu'"):
        pytest.skip("this installation is without ICU")
    conn.execute("LOAD 'pgbillion_rows'; CREATE SCHEMA v; SET search_path = v, public")
    conn.execute("SET max_parallel_workers_per_gather = 0")
    for name, (locale, deterministic) in COLLATIONS.items():
        conn.execute(
            f"CREATE COLLATION {name} (provider = icu, locale = '{locale}', deterministic = {deterministic})".encode()
        )
    conn.execute('CREATE COLLATION c FROM "C"')
    columns = ", ".join(f"{name} text COLLATE {name}" for name in COLUMNS)
    for table, key in (("words", "id"), ("others", "n")):
        conn.execute(f"CREATE TABLE {table} ({key} integer, {columns}, other text COLLATE c)".encode())
    values = [*WORDS, None]
    rows = [(number, *[word] * len(COLUMNS), values[number * 7 % len(values)])
            for number, word in enumerate(itertools.islice(itertools.cycle(values), 400))]  # fmt: skip
    with conn.cursor() as cursor:
        places = ", ".join(["%s"] * len(rows[0]))
        cursor.executemany(f"INSERT INTO words VALUES ({places})".encode(), rows)
        cursor.executemany(f"INSERT INTO others VALUES ({places})".encode(), rows[: len(values) : 2])
    conn.execute("ANALYZE words, others")
    return conn


def test_conditions(words: Connection) -> None:
    _compare(words, (f"SELECT count(*), sum(id) FROM words WHERE {condition}" for condition in CONDITIONS), 80)


def test_groups_and_joins(words: Connection) -> None:
    _compare(words, QUERIES, 90)


def _compare(conn: Connection, queries: Iterable[str], fewest: int) -> None:
    """Run each query for each pair of columns; so many, at least, must have vectors."""
    vectorized = 0
    wrong = []
    texts = {query.format(*pair) for query in queries for pair in itertools.product(COLUMNS, repeat=2)}
    for query in sorted(texts):
        core, ours = _answer(conn, query, "off"), _answer(conn, query, "force")
        if not isinstance(ours, tuple):
            vectorized += plans.vectorized(plans.explain(conn, query))
        if _differ(core, ours):
            wrong.append(f"{query}: {core if isinstance(core, tuple) else _differ(core, ours)}")
    assert wrong == [], f"{len(wrong)} of {len(texts)}:\n" + "\n".join(wrong[:20])
    assert vectorized >= fewest, f"{vectorized} of {len(texts)}"


def _answer(conn: Connection, query: str, on: str) -> Found:
    for setting in ("vector_aggregate", "eager_aggregate"):
        conn.execute(f"SET pgbillion_rows.{setting} = {on}".encode())
    try:
        return answers.answer(conn.execute(query.encode()))
    except psycopg.Error as error:
        return (error.sqlstate or "", error.diag.message_primary or "")


def _differ(core: Found, ours: Found) -> str | None:
    if isinstance(core, tuple) or isinstance(ours, tuple):
        return None if core == ours else f"{core} and {ours}"
    return answers.difference(core, ours)

"""Groups and aggregates over columnar indexes of columns of every kind: generated queries give core's answers.

Extremes, DISTINCT, CASE, and the first groups of an order; with little memory, NULLs, filters, and again and again in
one plan. PGBILLION_TEST_GROUPS is how many queries there are (default 500), PGBILLION_TEST_SEED repeats a run.
"""

from __future__ import annotations

import os
import random
import re
import threading
from collections import Counter
from collections.abc import Callable, Sequence

import psycopg
import pytest

from harness.amount import Count, amount
from harness.sessions import beside
from pgbillion.common.connection import Connection
from pgbillion.rows import answers, plans
from pgbillion.server.postgres import Cluster

pytestmark = pytest.mark.majors

QUERIES = amount("PGBILLION_TEST_GROUPS", 500, 80)
SEED = int(os.environ.get("PGBILLION_TEST_SEED") or random.SystemRandom().randrange(2**31))
ROWS = 12_000
# arrays of every width, dictionaries of both widths, constants, values one after the other; h is a random number
INTEGERS = {
    "tiny": "smallint: h % 200 - 100",
    "small": "smallint: h % 60000 - 30000",
    "middle": "integer: h % 60000",
    "wide": "integer: h - 1000000000",
    "large": "bigint: h::bigint * 4000000007 - 5",
    "edge": "bigint: CASE h % 5 WHEN 0 THEN -9223372036854775808 WHEN 1 THEN 9223372036854775807 ELSE h END",
    "few": "integer: h % 7 * 100000",
    "same": "integer: -3",
    "gap": "integer: CASE WHEN h % 3 > 0 THEN h % 300 END",
    "blank": "integer: CASE WHEN g % 3000 > 2500 THEN g END",
}
TIMES = {
    "day": "date: date '2020-02-20' + h % 90",
    "at": "timestamp: timestamp '2020-01-01' + make_interval(secs => g)",
    "seen": "timestamptz: CASE WHEN h % 9 > 0 THEN timestamptz '2020-01-01 00:00+00' + make_interval(secs => h) END",
}
ODD = "WHEN 0 THEN 'infinity' WHEN 1 THEN '0044-03-15 12:34 BC' WHEN 2 THEN NULL ELSE '1990-01-31'::timestamp"
TIMES["odd"] = f"timestamp: CASE h % 300 {ODD} + make_interval(secs => h / 2) END"
FLAGS = {"flag": "boolean: h % 2 = 0", "mark": "boolean: CASE WHEN h % 4 > 0 THEN h % 50 > 1 END"}
NUMBERS = {
    "price": "numeric(9,2): h % 5000 / 100.0",
    "any_number": "numeric: CASE h % 9 WHEN 0 THEN 'NaN' WHEN 1 THEN NULL ELSE (h % 9000 / 100.0)::numeric(9,2) END",
    "score": "double precision: CASE h % 9 WHEN 0 THEN 'NaN' WHEN 1 THEN '-0' WHEN 2 THEN '0' ELSE h % 999 / 8.0 END",
    "rate": "real: h % 77 / 16.0",
}
STRINGS = {
    "word": "text: CASE h % 8 WHEN 0 THEN NULL WHEN 1 THEN '' ELSE 'word ' || h % 90 END",
    "phrase": "text: 'phrase of some length ' || h % 2500",
    "title": "text: CASE WHEN h % 6 > 0 THEN md5(h::text) END",
    "code": "char(3): chr(65 + h % 5) || chr(65 + h % 3)",
    "tag": "varchar(20): repeat('x', h % 4) || h % 300",
}
COLUMNS = {**INTEGERS, **TIMES, **FLAGS, **NUMBERS, **STRINGS}
CONDITIONS = (
    "flag",
    "NOT mark",
    "tiny > 0",
    "middle < 30000",
    "word <> ''",
    "code = 'AB'",
    "day BETWEEN '2020-03-01' AND '2020-03-20'",
    "gap IS NULL",
    "few IN (0, 300000) OR rate > 2",
    "phrase LIKE '%7%'",
    "title > '8'",
    "wide + 5 > 0",
    "score > 3 AND tag <> 'x'",
    "extract(hour FROM at) < 2",
)
# what CASE gives: of one type each
RESULTS = {
    "integer": ("1", "0", "middle", "wide / 2", "gap", "NULL::integer", "-5"),
    "bigint": ("large / 4", "7::bigint", "middle::bigint", "NULL::bigint"),
    "double precision": ("score", "0::double precision", "NULL::double precision", "2.5::double precision"),
    "numeric": ("price", "0.00::numeric", "price + 2.50", "NULL::numeric", "any_number"),
    "text": ("word", "'none'::text", "phrase", "NULL::text"),
    "boolean": ("flag", "true", "mark", "NULL::boolean"),
}


def make(conn: Connection) -> None:
    """Make a table with stale blocks, and an index of all of it."""
    columns = {name: text.split(": ", 1) for name, text in COLUMNS.items()}
    conn.execute("SET timezone = 'UTC'; DROP TABLE IF EXISTS s")
    declared = ", ".join(f"{name} {kind}" for name, (kind, _) in columns.items())
    conn.execute(f"CREATE TABLE s (id int, {declared}) WITH (autovacuum_enabled = off)".encode())
    # random numbers of a column's own
    values = ", ".join(
        "(" + re.sub(r"\bh\b", f"abs(hashint8extended(g, {n}) % 2000000000)::int", text) + f")::{kind}"
        for n, (kind, text) in enumerate(columns.values())
    )
    conn.execute(f"INSERT INTO s SELECT g, {values} FROM generate_series(1, {ROWS}) g".encode())
    conn.execute("VACUUM ANALYZE s")
    conn.execute(f"CREATE INDEX s_columns ON s USING columns (id, {', '.join(COLUMNS)}) WITH (segment_blocks = 64)")
    conn.execute("UPDATE s SET tiny = 101, at = '1999-12-31', phrase = 'new' WHERE id % 1000 = 7")
    conn.execute("DELETE FROM s WHERE id % 1000 = 8 OR middle = 3")
    conn.execute("VACUUM (INDEX_CLEANUP ON) s")
    # these blocks stay stale
    conn.execute("UPDATE s SET wide = -2000000000, word = 'last' WHERE id IN (100, 11000)")


def choice(chance: random.Random) -> tuple[str, str]:
    """A CASE, and its type."""
    kind = chance.choice(list(RESULTS))
    parts = [f"WHEN {chance.choice(CONDITIONS)} THEN {chance.choice(RESULTS[kind])}" for _ in range(3)]
    whens = " ".join(parts[: chance.choice((1, 1, 2, 3))])
    otherwise = f" ELSE {chance.choice(RESULTS[kind])}" if chance.random() < 0.8 else ""
    return f"CASE {whens}{otherwise} END", kind


def aggregate(chance: random.Random) -> str:
    """An aggregate of any of the kinds that are looked at."""
    match chance.randrange(8):
        case 0 | 1:
            name = chance.choice([*INTEGERS, *TIMES, *NUMBERS, *STRINGS])
            found = f"{chance.choice(('min', 'max'))}({name})"
        case 2:
            found = f"{chance.choice(('bool_and', 'bool_or'))}({chance.choice(list(FLAGS))})"
        case 3:
            found = f"count(DISTINCT {chance.choice(list(COLUMNS))})"
        case 4:
            name = chance.choice(
                ("tiny", "middle", "word", "phrase", "tag", "day", "few", "upper(word)", "length(phrase)", "gap / 7")
            )
            found = f"{chance.choice(('min', 'max', 'count'))}(DISTINCT {name})"
        case 5:
            found = f"{chance.choice(('sum', 'avg'))}({chance.choice(('tiny', 'middle', 'large', 'price', 'score'))})"
        case 6:
            text, kind = choice(chance)
            names = {"boolean": ("bool_or", "count"), "text": ("min", "max", "count")}.get(kind, ("sum", "avg", "min"))
            found = f"{chance.choice(names)}({text})"
        case _:
            found = "count(*)"
    if chance.random() < 0.15:
        found += f" FILTER (WHERE {chance.choice(CONDITIONS)})"
    return found


def key(chance: random.Random) -> str:
    """What to group by: a column, or an expression of one."""
    match chance.randrange(8):
        case 0:
            # of equal values that look different, any may be shown
            return next(text for text, kind in iter(lambda: choice(chance), None) if kind != "double precision")
        case 1:
            field = chance.choice(("hour", "minute", "second", "dow", "month", "year", "week"))
            return f"extract({field} FROM {chance.choice(('at', 'seen', 'odd', 'odd', 'day'))})"
        case 2:
            return chance.choice(("middle % 100", "length(phrase)", "date_trunc('minute', at)", "upper(word)"))
        case _:
            return chance.choice([name for name in COLUMNS if name != "score"])


def key_of(chance: random.Random, other: str) -> str:
    """A key that follows from another one; more often from a column."""
    forms = ["({})::text", "({}) IS NULL", "coalesce(({})::text, 'none')"]
    if other in INTEGERS:
        forms += ["{} % 100", "{} - 1", "-{}"]
    if other in STRINGS:
        forms += ["length({})", "upper({})", "{} || 'x'"]
    return chance.choice(forms).format(other)


def generated(chance: random.Random) -> tuple[str, bool]:
    """A query, and whether its rows have an order."""
    where = f" WHERE {chance.choice(CONDITIONS)}" if chance.random() < 0.4 else ""
    if chance.random() < 0.1:
        where += f" {'AND' if where else 'WHERE'} id > {chance.choice((0, 6000, ROWS))}"
    aggregates = [aggregate(chance) for _ in range(chance.randint(1, 4))]
    keys = [key(chance) for _ in range(chance.choice((0, 1, 1, 2, 3)))]
    if not keys:
        return f"SELECT {', '.join(aggregates)} FROM s{where}", False
    if chance.random() < 0.3:
        keys.insert(chance.randrange(len(keys) + 1), key_of(chance, chance.choice(keys)))
    groups = ", ".join(str(n + 1) for n in range(len(keys)))
    text = f"SELECT {', '.join([*keys, *aggregates])} FROM s{where} GROUP BY {groups}"
    if chance.random() < 0.1:
        text += " HAVING count(*) > 1"
    if chance.random() < 0.4:
        return text, False
    order = [chance.randrange(len(keys) + len(aggregates)) + 1]
    order += [n for n in range(1, len(keys) + 1) if n not in order]
    # equal values that look different have no order among them
    how = [chance.choice(("", " DESC", " DESC NULLS LAST", " NULLS FIRST")) for _ in order]
    text += " ORDER BY " + ", ".join(f"{n}{direction}" for n, direction in zip(order, how, strict=True))
    n = chance.choice((0, 1, 5, 10, 100, 3000))
    match chance.randrange(4):
        case 0:
            text += f" LIMIT {n} OFFSET {chance.choice((0, 3, 50))}"
        case 1:
            text += f" FETCH FIRST {n} ROWS WITH TIES"
        case _:
            text += f" LIMIT {n}"
    return text, True


def outcome(conn: Connection, sql: str, ordered: bool, moved: bool) -> Sequence[object]:
    """The rows, or the error. If rows have moved within their blocks since they were encoded, -0 is 0: which of them is
    an extreme depends on the order.
    """
    try:
        with conn.transaction():
            rows = answers.answer(conn.execute(sql.encode())).rows
    except (psycopg.DataError, psycopg.NotSupportedError) as error:
        return [str(error)]
    if moved:
        rows = [tuple(b"0" if value == b"-0" else value for value in row) for row in rows]
    return rows if ordered else sorted(rows, key=repr)


def failed(found: Sequence[object]) -> bool:
    """Is an outcome an error?"""
    return len(found) == 1 and isinstance(found[0], str)


def ask(conn: Connection, chance: random.Random, seen: Counter[str], moved: bool = False) -> str | None:
    """What a generated query shows that PostgreSQL's plan does not, or None."""
    sql, ordered = generated(chance)
    conn.execute(f"SET work_mem = '{chance.choice(('64kB', '4MB', '64MB'))}'".encode())
    if chance.random() < 0.15:
        outer = "FROM s WHERE id > o.x"
        sql = re.sub(r"FROM s WHERE", f"{outer} AND", sql) if "FROM s WHERE" in sql else re.sub(r"FROM s\b", outer, sql)
        sql = f"SELECT o.x, s.* FROM (VALUES (0), (9000), (0), (99999)) o(x), LATERAL ({sql}) s"
        ordered = False
    conn.execute("SET pgbillion_rows.enable = off; SET max_parallel_workers_per_gather = 0")
    right = outcome(conn, sql, ordered, moved)
    conn.execute("SET pgbillion_rows.enable = on; SET pgbillion_rows.vector_aggregate = force")
    conn.execute(f"SET pgbillion_rows.columns = {chance.choice(('force', 'force', 'force', 'off'))}".encode())
    # floats are added in another order
    workers = 0 if re.search("score|double|FETCH", sql) else chance.choice((0, 0, 0, 2))
    conn.execute(f"SET max_parallel_workers_per_gather = {workers}".encode())
    found = outcome(conn, sql, ordered, moved)
    seen["queries"] += 1
    seen["errors"] += failed(right)
    run = seen["queries"] % 10 == 0 and not failed(right)
    nodes = list(plans.nodes(plans.explain(conn, sql, run=run)))
    seen["from the index"] += any(node.get("Column Blocks Read", 0) > 0 for node in nodes)
    seen["that fetch columns"] += any(node.get("Fetched Columns") for node in nodes)
    seen["rows fetched"] += sum(node.get("Rows Fetched", 0) for node in nodes)
    ours = [node for node in nodes if str(node.get("Custom Plan Provider")).startswith("Vector")]
    seen["by vectors"] += bool(ours)
    seen["parallel"] += any("Gather" in str(node.get("Node Type")) for node in nodes)
    seen["first groups"] += any("Top Rows" in node for node in ours)
    return None if found == right else f"{sql}\n    workers {workers}: {str(found)[:500]}\n    not {str(right)[:500]}"


def begin(conn: Connection) -> None:
    conn.execute(
        "SET extra_float_digits = 1; SET hash_mem_multiplier = 1;"
        " SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0;"
        " SET pgbillion_rows.vector_exchange = force"
    )


def test_generated_queries(conn: Connection, tell: Callable[[str], None], counted: Count) -> None:
    make(conn)
    assert conn.execute("SELECT * FROM pgbillion_rows.columns_check('s')").fetchall() == []
    chance = random.Random(SEED)
    begin(conn)
    seen: Counter[str] = Counter()
    for number in range(QUERIES):
        wrong = ask(conn, chance, seen)
        assert wrong is None, f"seed {SEED}: {number} {wrong}"
    tell(f"seed {SEED}: {dict(seen)}")
    counted({"queries": QUERIES, "by vectors": seen["by vectors"]})
    assert seen["by vectors"] > QUERIES / 2
    assert seen["first groups"] > QUERIES / 20
    assert seen["from the index"] > QUERIES / 80


def lacking_index(conn: Connection, chance: random.Random) -> None:
    """Make an index of some of the columns, in place of that of all."""
    columns = chance.sample(list(COLUMNS), chance.randint(12, len(COLUMNS) - 6))
    conn.execute(
        "DROP INDEX IF EXISTS s_columns;"
        f" CREATE INDEX s_columns ON s USING columns (id, {', '.join(columns)}) WITH (segment_blocks = 16)".encode()
    )


def test_columns_that_the_index_lacks(conn: Connection, tell: Callable[[str], None], counted: Count) -> None:
    """They are fetched for the rows that are left."""
    make(conn)
    chance = random.Random(SEED)
    begin(conn)
    # these change no column of the index, mostly: rows move within their blocks
    conn.execute("ALTER TABLE s ADD COLUMN n int NOT NULL DEFAULT 0")
    seen: Counter[str] = Counter()
    for number in range(QUERIES):
        if number % 50 == 0:
            lacking_index(conn, chance)
            conn.execute(f"UPDATE s SET n = n + 1 WHERE id % 90 = {chance.randrange(90)}".encode())
            if chance.random() < 0.7:
                conn.execute("VACUUM (INDEX_CLEANUP ON) s")
        wrong = ask(conn, chance, seen, moved=True)
        assert wrong is None, f"seed {SEED}: {number} {wrong}"
    tell(f"seed {SEED}: {dict(seen)}")
    counted({"queries": QUERIES, "that fetch columns": seen["that fetch columns"]})
    assert seen["that fetch columns"] > QUERIES / 20


def test_columns_fetched_beside_writers(
    cluster: Cluster, conn: Connection, tell: Callable[[str], None], counted: Count
) -> None:
    """The rows of one snapshot, while others change them, VACUUM and encode."""
    make(conn)
    conn.execute("ALTER TABLE s ADD COLUMN n int NOT NULL DEFAULT 0")
    lacking_index(conn, random.Random(SEED))
    begin(conn)
    done: Counter[str] = Counter()

    def write(stop: threading.Event) -> None:
        chance = random.Random(f"{SEED} writes")
        with cluster.connect(conn.info.dbname) as own:
            while not stop.is_set():
                low = chance.randrange(ROWS)
                some = f"id BETWEEN {low} AND {low + chance.choice((0, 20, 200))}"
                own.execute("BEGIN")
                own.execute(
                    chance.choice(
                        (
                            f"UPDATE s SET n = n + 1 WHERE {some}",
                            f"UPDATE s SET n = n + 1 WHERE {some}",
                            f"UPDATE s SET tiny = -tiny, title = 'changed' WHERE {some}",
                            f"WITH gone AS (DELETE FROM s WHERE {some} RETURNING *) INSERT INTO s SELECT * FROM gone",
                        )
                    ).encode()
                )
                own.execute("ROLLBACK" if chance.random() < 0.2 else "COMMIT")
                done["written"] += 1
                stop.wait(0.01)

    def look_after(stop: threading.Event) -> None:
        with cluster.connect(conn.info.dbname) as own:
            while not stop.is_set():
                own.execute("VACUUM (INDEX_CLEANUP ON) s")
                own.execute("CALL pgbillion_rows.columns_refresh('s')")
                done["looked after"] += 1
                stop.wait(0.05)

    chance = random.Random(SEED)
    seen: Counter[str] = Counter()
    wrong: list[str] = []
    with beside(write, look_after):
        while seen["queries"] < max(QUERIES // 4, 20) and not wrong:
            conn.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
            for _ in range(chance.choice((1, 2, 8))):
                conn.execute("SAVEPOINT one")
                wrong += filter(None, [ask(conn, chance, seen, moved=True)])
                conn.execute("ROLLBACK TO one")
            conn.execute("ROLLBACK")
    tell(f"seed {SEED}: {dict(seen)}; meanwhile {dict(done)}")
    counted({"queries": seen["queries"], "that fetch columns": seen["that fetch columns"]})
    assert wrong == [], f"seed {SEED}: " + "\n".join(wrong)
    assert seen["that fetch columns"] > 0
    assert done["written"] > 0
    assert conn.execute("SELECT * FROM pgbillion_rows.columns_check('s')").fetchall() == []

"""Tables read from columnar indexes give the rows, or the error, that their heaps give, to the last bit.

PGBILLION_TEST_QUERIES is how many generated queries there are (default 2,000), PGBILLION_TEST_SEED repeats a run. Both
sides aggregate by vectors in one snapshot; only where rows are read differs.
"""

from __future__ import annotations

import os
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from harness import servers, vector_compare, vector_tables
from harness.amount import amount
from harness.servers import one
from harness.sessions import Running, beside, until_blocked
from harness.vector_compare import Outcome
from harness.vector_queries import Generator, Query
from harness.vector_tables import COLUMNS
from pgbillion.common.connection import Connection
from pgbillion.rows import plans
from pgbillion.server.postgres import Cluster

QUERIES = amount("PGBILLION_TEST_QUERIES", 2000, 200)
SEED = int(os.environ.get("PGBILLION_TEST_SEED") or random.SystemRandom().randrange(2**31))
TRANSACTION = 25
FAILURES_SHOWN = 10
# partitions and children have theirs by their parent's, or one of their own
INDEXED = ("plain", "strict", "scarce", "mixed", "evolved", "toasted", "extreme", "parts", "narrow", "scratch", "heirs",
           "heirs_1", "lazy", "lazy_empty", "nothing", "busy")  # fmt: skip


@pytest.fixture(scope="module")
def database(cluster: Cluster) -> Iterator[str]:
    with servers.new_database(cluster, "columns") as name:
        with cluster.connect(name) as conn:
            vector_tables.make(conn, random.Random(SEED).uniform(-1, 1))
            conn.execute("SET search_path = v, public")
            for table in INDEXED:
                # a column that stored values move out of line, or into another width, is another kind of column
                conn.execute(f"VACUUM {table}")
                conn.execute(
                    f"CREATE INDEX {table}_columns ON {table} USING columns ({', '.join(COLUMNS)})"
                    + (" WITH (segment_blocks = 16)" if table != "plain" else "")
                )
                conn.execute(f"VACUUM ANALYZE {table}")
                if table != "parts":
                    conn.execute(f"CALL pgbillion_rows.columns_refresh('{table}')")
            spoil(conn)
        yield name


def spoil(conn: Connection) -> None:
    """Make some blocks of what is encoded stale, some of them all-visible again, and some never encoded."""
    conn.execute("UPDATE v.plain SET i4 = i4 + 1 WHERE id % 500 = 0 AND id < 2000")
    conn.execute("DELETE FROM v.plain WHERE id % 700 = 0")
    conn.execute("UPDATE v.strict SET t = 'new' WHERE id BETWEEN 1000 AND 1100")
    conn.execute("INSERT INTO v.scarce SELECT * FROM v.plain WHERE id % 9 = 0")
    conn.execute("UPDATE v.narrow SET i2 = i2 + 1 WHERE id % 1000 = 0")
    conn.execute("DELETE FROM v.evolved WHERE id BETWEEN 300 AND 350")
    conn.execute("VACUUM (INDEX_CLEANUP on) v.strict")


def session(cluster: Cluster, database: str) -> Connection:
    conn = cluster.connect(database)
    # a plan that is kept would be of the setting it was made with
    conn.prepare_threshold = None
    conn.execute("LOAD 'pgbillion_rows'")
    conn.execute(
        "SET search_path = v, public; SET min_parallel_table_scan_size = 0; SET parallel_setup_cost = 0;"
        " SET parallel_tuple_cost = 0; SET synchronize_seqscans = off; SET extra_float_digits = 1;"
        " SET timezone = 'UTC'; SET statement_timeout = '60s'"
    )
    return conn


def blocks(plan: plans.Plan) -> Counter[str]:
    """Count what a plan that was run has read, and where."""
    return Counter(
        {
            name: sum(node.get(name, 0) for node in plans.nodes(plan))
            for name in ("Column Segments Read", "Column Segments Skipped", "Column Blocks Read",
                         "Column Blocks Skipped", "Heap Blocks Read", "Heap Blocks Not All-Visible",
                         "Heap Blocks Stale", "Heap Blocks Not Encoded")
        }
    )  # fmt: skip


def outcomes(conn: Connection, query: Query) -> dict[str, Outcome]:
    """Run a query both ways, in either order."""
    found = {}
    for mode in ("off", "force") if query.number % 2 else ("force", "off"):
        conn.execute(f"SET LOCAL pgbillion_rows.columns = {mode}")
        found[mode] = vector_compare.execute(conn, query, "force")
    return found


def skips(conn: Connection, query: Query) -> bool:
    """Tell whether the query leaves out what the index says to have no row that it wants."""
    conn.execute("SET LOCAL pgbillion_rows.columns = force")
    plan = vector_compare.planned(conn, query, run=True)
    return plan is not None and blocks(plan)["Column Blocks Skipped"] > 0


def differs(conn: Connection, query: Query) -> str | None:
    found = outcomes(conn, query)
    # where no row can satisfy one condition, an error of another one is not met
    if found["off"].error is not None and found["force"].error is None and skips(conn, query):
        return None
    # of a table that is written, some blocks are read from the index, and then the others
    differs = vector_compare.difference(query, found["off"], found["force"], reordered=query.table == "busy")
    # what reading a table costs decides by which side a join goes, and so in which order rows come
    if differs is not None and vector_compare.joins(query):
        return vector_compare.difference(query, found["off"], found["force"], reordered=True)
    return differs


def compare(conn: Connection, generator: Generator, count: int, seen: Counter[str]) -> list[str]:
    failures: list[str] = []
    for first in range(0, count, TRANSACTION):
        conn.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        for number in range(first, min(count, first + TRANSACTION)):
            query = generator.query(number)
            if (found := differs(conn, query)) is not None:
                failures.append(f"{found}\n    number {number}: {query} {query.settings}")
            elif number % 5 == 0:
                conn.execute("SET LOCAL pgbillion_rows.columns = force")
                plan = vector_compare.planned(conn, query, run=True)
                if plan is not None:
                    seen.update(blocks(plan))
                    seen["parallel"] += plans.parallel(plan)
        conn.execute("ROLLBACK")
        seen["queries"] += TRANSACTION
        if len(failures) >= FAILURES_SHOWN:
            break
    return failures


def test_generated_queries(cluster: Cluster, database: str, tell: Callable[[str], None]) -> None:
    seen: Counter[str] = Counter()
    with session(cluster, database) as conn, vector_tables.unfinished(cluster, database):
        failures = compare(conn, Generator(SEED), QUERIES, seen)
    tell(f"seed {SEED}: {dict(seen)}")
    assert failures == [], f"seed {SEED}: " + "\n".join(failures)
    assert seen["Column Blocks Read"] > 0
    assert seen["Heap Blocks Not All-Visible"] > 0


@contextmanager
def writers(cluster: Cluster, database: str) -> Iterator[list[int]]:
    """Write to the busy table, VACUUM it and refresh its index all the time."""
    done = [0, 0]

    def write(stop: threading.Event) -> None:
        with cluster.connect(database) as conn:
            while not stop.is_set():
                vector_tables.write(conn, done[0])
                done[0] += 1
                stop.wait(0.003)

    def refresh(stop: threading.Event) -> None:
        with cluster.connect(database) as conn:
            while not stop.is_set():
                conn.execute("VACUUM v.busy")
                conn.execute("CALL pgbillion_rows.columns_refresh('v.busy')")
                done[1] += 1
                stop.wait(0.01)

    with beside(write, refresh):
        yield done


def test_beside_writers_and_refresh(cluster: Cluster, database: str, tell: Callable[[str], None]) -> None:
    seen: Counter[str] = Counter()
    with session(cluster, database) as conn, writers(cluster, database) as done:
        # so that much of the table stays as it is
        conn.execute(f"INSERT INTO busy {vector_tables.select(0.1, 1500, 100_000)}".encode())
        generator = Generator(SEED + 1, ["busy"])
        failures = compare(conn, generator, max(100, QUERIES // 5), seen)
        while not failures and (min(done) <= 20 or not seen["Column Blocks Read"]):
            failures = compare(conn, generator, 50, seen)
    tell(f"seed {SEED}: {dict(seen)}; {done[0]} transactions, {done[1]} refreshes")
    assert failures == [], f"seed {SEED}: " + "\n".join(failures)
    with cluster.connect(database) as conn:
        assert conn.execute("SELECT * FROM pgbillion_rows.columns_check('v.busy')").fetchall() == []


@pytest.fixture
def conn(cluster: Cluster, database: str) -> Iterator[Connection]:
    """A session and a table of its own, encoded: 100 groups, NULLs, strings, decimals."""
    with session(cluster, database) as conn:
        conn.execute("SET pgbillion_rows.vector_aggregate = force; SET max_parallel_workers_per_gather = 0")
        conn.execute(
            "DROP TABLE IF EXISTS own; CREATE TABLE own (id int, g int, s text, f real, n numeric(10,2), m int)"
            " WITH (autovacuum_enabled = off); INSERT INTO own SELECT i, i % 100, 'name ' || i % 7, i / 3.0, i * 0.25,"
            " nullif(i % 5, 0) FROM generate_series(1, 20000) i"
        )
        conn.execute("VACUUM ANALYZE own")
        conn.execute("CREATE INDEX own_columns ON own USING columns (id, g, s, f, n, m) WITH (segment_blocks = 16)")
        yield conn


QUESTIONS = (
    "SELECT count(*), count(m), sum(id), sum(n), sum(f), avg(f), min(s), max(n) FROM own",
    "SELECT g, count(*), count(m), sum(id), sum(m), sum(n), avg(n), sum(f), avg(f), stddev(f), min(s) FROM own"
    " GROUP BY g ORDER BY g",
    "SELECT s, m, count(*), sum(f), sum(n) FROM own GROUP BY s, m ORDER BY s, m",
    "SELECT s, g, count(*), sum(n) FILTER (WHERE m > 2), sum(f) FILTER (WHERE s LIKE '%3') FROM own GROUP BY s, g"
    " ORDER BY s, g",
    "SELECT n, count(*) FROM own WHERE n < 100 GROUP BY n ORDER BY n",
    "SELECT count(*), sum(f) FROM own WHERE s LIKE 'name _' AND s <> 'name 3' AND id BETWEEN 5000 AND 9000",
    "SELECT count(*), sum(f) FROM own WHERE f >= 3000 AND n IN (1250.25, 2500, 4999.75) OR m IS NULL AND g = 5",
    "SELECT count(*) FROM own WHERE m IS NULL",
    "SELECT m, count(*) FROM own WHERE f < 100.5 AND n > 3.125 GROUP BY m ORDER BY m NULLS FIRST",
    "SELECT DISTINCT s FROM own ORDER BY s",
    "SELECT count(DISTINCT id), count(DISTINCT s), count(DISTINCT m), sum(DISTINCT n) FROM own",
    "SELECT s, count(DISTINCT g), count(DISTINCT id), count(DISTINCT m), count(*) FROM own GROUP BY s ORDER BY s",
)


def both(conn: Connection, question: str) -> list[tuple[Any, ...]]:
    """Ask both ways, and compare."""
    answers = []
    for mode in ("off", "force"):
        conn.execute(f"SET pgbillion_rows.columns = {mode}")
        answers.append(conn.execute(question.encode()).fetchall())
    assert answers[0] == answers[1], question
    return answers[1]


def read(conn: Connection, question: str) -> Counter[str]:
    conn.execute("SET pgbillion_rows.columns = force")
    return blocks(plans.explain(conn, question, run=True))


def ask_all(conn: Connection) -> None:
    for question in QUESTIONS:
        both(conn, question)


def test_all_is_read_from_the_index(conn: Connection) -> None:
    ask_all(conn)
    for question in QUESTIONS:
        found = read(conn, question)
        assert found["Heap Blocks Read"] == 0, question
        assert found["Column Blocks Read"] > 0, question


# scattered groups, a group after the other, more than a batch's numbers say, one group
GROUPINGS = ("id % 10", "id / 3000", "id % 700", "1")


@pytest.mark.parametrize("values", ["1e30", "'-0'", "1e-40", "'inf'", "'-inf'", "'nan'", "3e38"])
def test_sums_and_averages_of_reals_bit_for_bit(conn: Connection, values: str) -> None:
    groupings = ", ".join(f"({each})::int AS g{number}" for number, each in enumerate(GROUPINGS))
    conn.execute(
        f"DROP TABLE IF EXISTS reals; CREATE TABLE reals AS SELECT id, {groupings}, f, -f AS other FROM (SELECT id,"
        f" CASE WHEN id % 77 = 5 THEN {values} ELSE (id % 1000) / 7.0 - 70 END::real AS f"
        " FROM generate_series(1, 20000) id) x"
    )
    conn.execute("VACUUM ANALYZE reals")
    conn.execute("CREATE INDEX ON reals USING columns (id, g0, g1, g2, g3, f, other) WITH (segment_blocks = 32)")
    for group in ("g0", "g1", "g2", "g3", "'all'"):
        for outputs in (
            "sum(f), avg(f)",
            "avg(f), count(*), sum(f)",
            "sum(f), avg(other), sum(other)",
            "sum(f) FILTER (WHERE id % 3 = 0), avg(f)",
            "sum(DISTINCT f), avg(f), sum(f)",
            "avg(f), stddev(f), sum(f)",
        ):
            question = f"SELECT {group}, {outputs} FROM reals WHERE id > 9 GROUP BY 1 ORDER BY 1"
            found = []
            for mode in ("off", "force"):
                conn.execute(f"SET pgbillion_rows.columns = {mode}; SET pgbillion_rows.enable = {mode == 'force'}")
                try:
                    found.append(repr(conn.execute(question.encode()).fetchall()))
                except psycopg.errors.NumericValueOutOfRange as error:
                    found.append(str(error))
            assert found[0] == found[1], question


def test_workers_share_segments(conn: Connection) -> None:
    conn.execute("SET max_parallel_workers_per_gather = 2")
    conn.execute("UPDATE own SET m = 9 WHERE id % 4000 = 0")
    whole = one(conn, "SELECT pg_relation_size('own') / 8192")
    for leads in ("on", "off"):
        conn.execute(f"SET parallel_leader_participation = {leads}")
        question = "SELECT g, count(*), sum(id), sum(n), min(s) FROM own GROUP BY g ORDER BY g"
        both(conn, question)
        conn.execute("SET pgbillion_rows.columns = force")
        plan = plans.explain(conn, question, run=True)
        assert plans.parallel(plan)
        found = blocks(plan)
        assert found["Column Blocks Read"] > 0
        assert found["Heap Blocks Read"] > 0
        assert found["Column Blocks Read"] + found["Heap Blocks Read"] == whole


@pytest.mark.parametrize("leads", ["on", "off"])
def test_groups_of_segments_are_exchanged(conn: Connection, leads: str) -> None:
    """Tables of groups find no memory, so that they are exchanged more than once; some blocks are the heap's."""
    conn.execute("SET max_parallel_workers_per_gather = 2; SET work_mem = '64kB'; SET hash_mem_multiplier = 1")
    conn.execute(f"SET parallel_leader_participation = {leads}")
    conn.execute("UPDATE own SET m = 9 WHERE id % 4000 = 0")
    for question in (
        "SELECT id, count(*), sum(m), max(f) FROM own GROUP BY id",
        "SELECT id % 5000, s, count(m), sum(id) FILTER (WHERE g > 50), bool_or(m > 2) FROM own GROUP BY 1, 2",
        "SELECT count(*), sum(id), max(x) FROM (SELECT id, max(g) AS x FROM own WHERE f > 5 GROUP BY id) y",
        "SELECT DISTINCT id, g FROM own",
    ):
        answers = []
        for vectors, columns in (("off", "off"), ("force", "off"), ("force", "force")):
            conn.execute(f"SET pgbillion_rows.vector_aggregate = {vectors}; SET pgbillion_rows.columns = {columns}")
            answers.append(sorted(map(str, conn.execute(question.encode()).fetchall())))
        assert answers[0] == answers[1] == answers[2], question
        plan = plans.explain(conn, question, run=True)
        assert any("Exchange" in node and "Columns" in node for node in plans.nodes(plan)), question
        assert sum(node.get("Exchanged Groups", 0) for node in plans.nodes(plan)) >= 19_000
        assert blocks(plan)["Column Blocks Read"] > blocks(plan)["Heap Blocks Read"] > 0


def test_rescans_begin_anew(conn: Connection) -> None:
    both(
        conn,
        "SELECT k, x.* FROM generate_series(1, 3) k, LATERAL (SELECT count(*), sum(f) FROM own WHERE g = k) x"
        " ORDER BY k",
    )
    conn.execute("SET max_parallel_workers_per_gather = 2")
    both(conn, "SELECT k, (SELECT sum(id) FROM own WHERE id > k) FROM generate_series(1, 3) k ORDER BY k")


def test_bounds_skip_segments(conn: Connection) -> None:
    for condition in ("id < 100", "id > 19900", "id = 5", "f < 10", "n BETWEEN 1 AND 2", "f > 6600 AND id > 0"):
        question = f"SELECT count(*), sum(f) FROM own WHERE {condition}"
        assert both(conn, question)[0][0] > 0
        found = read(conn, question)
        assert found["Column Segments Skipped"] > found["Column Segments Read"] > 0, condition
    assert both(conn, "SELECT count(*) FROM own WHERE id > 20000 OR id < 0") == [(0,)]
    # what is not from the index is looked at, whatever the bounds say
    conn.execute("UPDATE own SET id = 7000000 WHERE id = 12345")
    assert both(conn, "SELECT count(*) FROM own WHERE id > 20000") == [(1,)]
    conn.execute("VACUUM own")
    assert both(conn, "SELECT count(*) FROM own WHERE id > 20000") == [(1,)]


def test_nulls_skip_segments(conn: Connection) -> None:
    """Of which one column is NULL in the first half of the table, and another one in a few rows at its end."""
    conn.execute(
        "CREATE TABLE gaps AS SELECT i AS id, CASE WHEN i > 10000 THEN i END AS late, CASE WHEN i <= 19900 OR i % 3 > 0"
        " THEN (i / 100.0)::numeric(9, 2) END AS price, CASE WHEN i > 10000 THEN 'word ' || i % 9 END AS word"
        " FROM generate_series(1, 20000) i"
    )
    conn.execute("VACUUM ANALYZE gaps")
    conn.execute("CREATE INDEX ON gaps USING columns (id, late, price, word) WITH (segment_blocks = 32)")
    for condition, skipped in (
        ("late IS NULL", True), ("late IS NOT NULL", True), ("word IS NULL", True), ("price IS NULL", True),
        ("price IS NOT NULL", False), ("id IS NOT NULL", False), ("late <> 1 AND late < 100000", True),
        ("late + 0 IS NOT NULL", False), ("late IS NULL AND id > 50", True), ("NOT late IS NULL", True),
        ("late IS NULL OR price IS NULL", False), ("word IS NULL AND late IS NULL AND price > 7", True),
    ):  # fmt: skip
        for outputs in ("count(*), sum(id)", "count(late), sum(price), max(word)", "count(price), min(late)"):
            question = f"SELECT {outputs} FROM gaps WHERE {condition}"
            both(conn, question)
            found = read(conn, question)
            assert (found["Column Segments Skipped"] > 0) == skipped, condition
            assert found["Column Segments Read"] > 0, condition
    assert both(conn, "SELECT count(*) FROM gaps WHERE id IS NULL") == [(0,)]
    assert read(conn, "SELECT count(*) FROM gaps WHERE id IS NULL")["Column Segments Read"] == 0
    # what is not from the index is looked at
    conn.execute("UPDATE gaps SET id = NULL WHERE id = 5; UPDATE gaps SET late = 7 WHERE id = 9")
    assert both(conn, "SELECT count(*) FROM gaps WHERE id IS NULL") == [(1,)]
    assert both(conn, "SELECT count(*) FROM gaps WHERE late = 7") == [(1,)]


def test_values_are_not_read_for_their_nulls(conn: Connection) -> None:
    conn.execute(
        "CREATE TABLE sparse AS SELECT CASE WHEN i % 50 > 0 THEN i * 1000003::bigint END AS x, i AS id"
        " FROM generate_series(1, 40000) i"
    )
    conn.execute("VACUUM ANALYZE sparse")
    conn.execute("CREATE INDEX ON sparse USING columns (x, id)")

    def pages(condition: str) -> int:
        question = f"SELECT count(*) FROM sparse WHERE {condition}"
        both(conn, question)
        plan = one(conn, f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {question}")[0]["Plan"]
        assert blocks(plan)["Heap Blocks Read"] == 0
        return int(plan["Shared Hit Blocks"]) + int(plan["Shared Read Blocks"])

    # each batch reads a part of the bitmap, and each page of values is read once
    assert pages("x IS NULL") < pages("x > 5") * 0.7
    assert pages("x IS NOT NULL") < pages("x > 5") * 0.7


def test_own_changes_are_seen(conn: Connection) -> None:
    conn.execute("BEGIN")
    conn.execute("DECLARE before CURSOR FOR SELECT count(*) FROM own")
    conn.execute("DELETE FROM own WHERE id % 1000 = 1")
    conn.execute("UPDATE own SET s = 'changed', f = -1 WHERE id % 1000 = 2")
    conn.execute("SAVEPOINT one")
    conn.execute("INSERT INTO own SELECT i, 5, 'mine', 1, 1, NULL FROM generate_series(30000, 31000) i")
    assert both(conn, "SELECT count(*) FROM own") == [(20000 - 20 + 1001,)]
    ask_all(conn)
    conn.execute("ROLLBACK TO one")
    assert both(conn, "SELECT count(*), min(f) FROM own") == [(20000 - 20, -1)]
    ask_all(conn)
    assert one(conn, "FETCH before") == 20000
    conn.execute("ROLLBACK")
    assert both(conn, "SELECT count(*) FROM own") == [(20000,)]


def test_what_an_older_snapshot_sees_stays(conn: Connection, cluster: Cluster, database: str) -> None:
    conn.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    before = [both(conn, question) for question in QUESTIONS]
    with cluster.connect(database) as other:
        other.execute("SET search_path = v, public")
        other.execute("DELETE FROM own WHERE id % 3 = 0")
        other.execute("UPDATE own SET n = n + 1 WHERE id % 50 = 1")
        other.execute("VACUUM own")
        other.execute("CALL pgbillion_rows.columns_refresh('own')")
    assert [both(conn, question) for question in QUESTIONS] == before
    conn.execute("COMMIT")
    ask_all(conn)


def test_half_stale_then_refreshed(conn: Connection) -> None:
    conn.execute("UPDATE own SET f = f + 1 WHERE id < 8000")
    ask_all(conn)
    conn.execute("VACUUM (INDEX_CLEANUP on) own")
    ask_all(conn)
    conn.execute("CALL pgbillion_rows.columns_refresh('own')")
    ask_all(conn)
    assert read(conn, QUESTIONS[0])["Column Blocks Read"] > 0
    conn.execute("TRUNCATE own")
    assert both(conn, "SELECT count(*) FROM own") == [(0,)]


def test_few_groups_find_no_memory(conn: Connection) -> None:
    conn.execute("SET work_mem = '64kB'; SET hash_mem_multiplier = 1")
    for key in ("id", "s, id", "g, s, m", "n"):
        both(conn, f"SELECT {key}, count(*), count(m), sum(n), sum(f) FROM own GROUP BY {key} ORDER BY {key}")
        both(conn, f"SELECT count(*), sum(c) FROM (SELECT {key}, count(s) c FROM own GROUP BY {key}) y")


def test_equal_values_that_look_different_are_one_group(conn: Connection) -> None:
    conn.execute(
        "CREATE TEMP TABLE twins AS SELECT (ARRAY[1.0, 1.00, 2, 2.000])[1 + i % 4] AS n, (ARRAY['0', '-0', 'NaN'])"
        "[1 + i % 3]::float4 AS f, (ARRAY['a', 'a  ', 'b'])[1 + i % 3]::char(5) AS c, i FROM generate_series(1, 9000) i"
    )
    conn.execute("VACUUM twins")
    conn.execute("CREATE INDEX ON twins USING columns (n, f, c, i) WITH (segment_blocks = 16)")
    for key in ("n", "f", "c", "n, c", "f, n"):
        question = f"SELECT {key}, count(*), sum(i), sum(n), sum(f) FROM twins GROUP BY {key}"
        conn.execute("SET pgbillion_rows.columns = off")
        off = sorted(map(str, conn.execute(question.encode()).fetchall()))
        conn.execute("SET pgbillion_rows.columns = force")
        assert sorted(map(str, conn.execute(question.encode()).fetchall())) == off
        assert read(conn, question)["Column Blocks Read"] > 0


def test_overflow_is_reported_as_by_the_heap(conn: Connection) -> None:
    conn.execute("CREATE TEMP TABLE big AS SELECT 3e38::real AS f, i % 3 AS g FROM generate_series(1, 3000) i")
    conn.execute("VACUUM big")
    conn.execute("CREATE INDEX ON big USING columns (f, g) WITH (segment_blocks = 16)")
    for mode in ("off", "force"):
        conn.execute(f"SET pgbillion_rows.columns = {mode}")
        for question in ("SELECT sum(f) FROM big", "SELECT g, sum(f) FROM big GROUP BY g"):
            with pytest.raises(psycopg.errors.NumericValueOutOfRange, match="value out of range: overflow"):
                conn.execute(question.encode())
    assert both(conn, "SELECT avg(f) FROM big")[0][0] > 2e38


def test_infinities_and_nans(conn: Connection) -> None:
    conn.execute(
        "CREATE TEMP TABLE odd AS SELECT CASE i % 1000 WHEN 0 THEN 'Infinity' WHEN 1 THEN '-0' WHEN 2 THEN 'NaN' ELSE"
        " (i * 0.1)::text END::real AS f, i % 4 AS g, i FROM generate_series(1, 9000) i"
    )
    conn.execute("VACUUM odd")
    conn.execute("CREATE INDEX ON odd USING columns (f, g, i) WITH (segment_blocks = 16)")
    for condition in ("true", "f > 800", "f >= 'NaN'", "f < 'Infinity'", "f <= 3.3", "f = 0", "f > '-Infinity'",
                      "f < 0.1", "f >= 899.9", "f = 'NaN'", "f = 5.5::real", "i < 500"):  # fmt: skip
        question = f"SELECT g, count(*), sum(f), avg(f), min(f), max(f), sum(i) FROM odd WHERE {condition} GROUP BY g"
        answers = []
        for mode in ("off", "force"):
            conn.execute(f"SET pgbillion_rows.columns = {mode}")
            answers.append(sorted(map(str, conn.execute(question.encode()).fetchall())))
        assert answers[0] == answers[1], condition


def test_a_column_compared_as_another_type_of_the_same_bits(conn: Connection) -> None:
    conn.execute(
        "CREATE TEMP TABLE bits AS SELECT (i - 4000)::int4 AS i, (i * 500000::bigint)::oid AS o"
        " FROM generate_series(1, 8000) i"
    )
    conn.execute("VACUUM bits")
    conn.execute("CREATE INDEX ON bits USING columns (i, o) WITH (segment_blocks = 16)")
    for condition in ("i::oid > 3000000000::oid", "i::oid < 10::oid", "o > 3000000000::oid", "o::int4 < 0",
                      "o BETWEEN 10::oid AND 2000000::oid", "i < -3990"):  # fmt: skip
        assert both(conn, f"SELECT count(*), sum(i) FROM bits WHERE {condition}")[0][0] > 0


def test_it_is_not_read_where_that_is_not_sound(conn: Connection) -> None:
    conn.execute("SET pgbillion_rows.columns = force; SET pgbillion_rows.vector_scan = force")
    conn.execute("BEGIN ISOLATION LEVEL SERIALIZABLE")
    for query in (QUESTIONS[1], "SELECT * FROM own WHERE id < 5", "SELECT id FROM own WHERE id < 5"):
        plan = plans.explain(conn, query, run=True)
        assert blocks(plan)["Column Blocks Read"] == 0
        assert any(node.get("Columns Not Read") == "the transaction is serializable" for node in plans.nodes(plan))
    conn.execute("COMMIT")


@pytest.mark.parametrize("rows", ["count(*)", "*", "id"])
def test_serializable_transactions_still_conflict(conn: Connection, cluster: Cluster, database: str, rows: str) -> None:
    with session(cluster, database) as other:
        for each in (conn, other):
            each.execute("SET pgbillion_rows.vector_aggregate = force; SET pgbillion_rows.columns = force")
            each.execute("SET pgbillion_rows.vector_scan = force; SET enable_indexscan = off")
            each.execute("BEGIN ISOLATION LEVEL SERIALIZABLE")
            found = each.execute(f"SELECT {rows} FROM own WHERE g = 7").fetchall()
            assert found == [(200,)] if rows == "count(*)" else len(found) == 200
        conn.execute("INSERT INTO own (id, g) VALUES (-1, 7)")
        conn.execute("COMMIT")
        with pytest.raises(psycopg.errors.SerializationFailure):
            other.execute("INSERT INTO own (id, g) VALUES (-1, 7)")
        other.execute("ROLLBACK")
    assert one(conn, "SELECT count(*) FROM own WHERE g = 7") == 201


def test_a_prepared_transaction_is_open(conn: Connection, cluster: Cluster, database: str) -> None:
    with session(cluster, database) as other:
        other.execute("BEGIN")
        other.execute("DELETE FROM own WHERE id % 500 = 1")
        other.execute("UPDATE own SET s = 'prepared' WHERE id % 500 = 2")
        other.execute("INSERT INTO own (id, g) SELECT -i, 5 FROM generate_series(1, 100) i")
        other.execute("PREPARE TRANSACTION 'columns'")
    for _ in range(2):
        assert both(conn, "SELECT count(*) FROM own") == [(20000,)]
        ask_all(conn)
        conn.execute("VACUUM (INDEX_CLEANUP on) own")
        conn.execute("CALL pgbillion_rows.columns_refresh('own')")
    conn.execute("COMMIT PREPARED 'columns'")
    for _ in range(2):
        assert both(conn, "SELECT count(*) FROM own") == [(20000 - 40 + 100,)]
        ask_all(conn)
        conn.execute("VACUUM (INDEX_CLEANUP on) own")
        conn.execute("CALL pgbillion_rows.columns_refresh('own')")


def test_a_plan_meets_an_index_that_is_being_dropped(conn: Connection, cluster: Cluster, database: str) -> None:
    """DROP INDEX CONCURRENTLY waits for who has used it, and has no row told to it any more."""
    conn.execute("SET pgbillion_rows.columns = force; SET plan_cache_mode = force_generic_plan")
    conn.execute("PREPARE q AS SELECT count(*), sum(g) FROM own WHERE id < $1")
    conn.execute("BEGIN")
    assert conn.execute("EXECUTE q(30000)").fetchall() == [(20000, 990000)]
    with session(cluster, database) as dropper, session(cluster, database) as other:
        dropping = Running(lambda: dropper.execute("DROP INDEX CONCURRENTLY own_columns"))
        until_blocked(other, dropper, dropping)
        other.execute("DELETE FROM own WHERE id = 100")
        other.execute("INSERT INTO own (id, g) VALUES (-1, 5), (-2, 5)")
        assert conn.execute("EXECUTE q(30000)").fetchall() == [(20001, 990010)]
        assert both(conn, "SELECT count(*) FROM own") == [(20001,)]
        conn.execute("COMMIT")
        dropping.result()
    assert conn.execute("EXECUTE q(30000)").fetchall() == [(20001, 990010)]


def test_a_plan_outlives_its_index(conn: Connection) -> None:
    conn.execute("SET pgbillion_rows.columns = force; SET plan_cache_mode = force_generic_plan")
    conn.execute("PREPARE q AS SELECT g, count(*) FROM own WHERE id < $1 GROUP BY g ORDER BY g")
    before = conn.execute("EXECUTE q(5000)").fetchall()
    conn.execute("DROP INDEX own_columns")
    assert conn.execute("EXECUTE q(5000)").fetchall() == before


def test_the_setting_and_the_cost(conn: Connection) -> None:
    question = "SELECT g, count(*) FROM own GROUP BY g"

    def index() -> list[str]:
        return [node["Columns"] for node in plans.nodes(plans.explain(conn, question)) if "Columns" in node]

    for mode, found in (("off", []), ("on", ["own_columns"]), ("force", ["own_columns"])):
        conn.execute(f"SET pgbillion_rows.columns = {mode}")
        assert index() == found
    # of two that hold all columns, the smaller; of none, none
    conn.execute("CREATE INDEX own_small ON own USING columns (g)")
    assert index() == ["own_small"]
    conn.execute("DROP INDEX own_columns")
    question = "SELECT g, sum(f) FROM own GROUP BY g"
    assert index() == []

"""percentile_cont, percentile_disc and mode WITHIN GROUP: generated queries, errors, little memory, what is refused.

PGBILLION_TEST_ORDERED_SETS is the number of generated queries, and PGBILLION_TEST_SEED repeats them.
"""

from __future__ import annotations

import os
import random
from collections import Counter

import psycopg
import pytest

from harness import servers
from harness.amount import Count, amount
from harness.servers import one
from pgbillion.common.connection import Connection
from pgbillion.rows import answers, plans
from pgbillion.server.postgres import Cluster
from test_vector_answers import both, explained, in_parallel, vectors
from test_vector_finalize import files, has_node, little_memory, loops, spilled

__all__ = ["vectors"]

QUERIES = amount("PGBILLION_TEST_ORDERED_SETS", 600, 60)
SEED = int(os.environ.get("PGBILLION_TEST_SEED") or random.SystemRandom().randrange(2**31))

# columns of values: few and many different ones, NULLs, the least and the greatest of a type, infinities and NaN
MAKE = """
CREATE TABLE data AS SELECT g AS id, g % 5 AS few, g % {many} AS many,
    CASE WHEN g % 97 = 3 THEN NULL ELSE g % 11 END AS k,
    CASE WHEN h % 13 = 1 THEN NULL ELSE (h % 50 - 25)::smallint END AS i2,
    CASE WHEN h % 17 = 1 THEN NULL WHEN h % 501 = 2 THEN -2147483648 WHEN h % 501 = 3 THEN 2147483647
        ELSE (h % 2000)::integer END AS i4,
    CASE WHEN h % 19 = 1 THEN NULL WHEN h % 501 = 2 THEN -9223372036854775808 WHEN h % 501 = 3 THEN 9223372036854775807
        ELSE h * 1000003 END AS i8,
    CASE WHEN h % 23 = 1 THEN NULL WHEN h % 501 = 2 THEN 'NaN' WHEN h % 501 = 3 THEN '-Infinity' WHEN h % 501 = 4
        THEN 'Infinity' ELSE (h % 777) / 7.0::float8 - 50 END::real AS f4,
    CASE WHEN h % 29 = 1 THEN NULL WHEN h % 501 = 2 THEN 'NaN' WHEN h % 501 = 3 THEN '-Infinity' WHEN h % 501 = 4
        THEN 'Infinity' WHEN h % 501 = 5 THEN 1e300 WHEN h % 501 = 6 THEN -1e-300
        ELSE (h % 100000) / 3.0::float8 - 15000 END::float8 AS f8,
    CASE WHEN h % 31 = 1 THEN NULL ELSE h % 9000 / 7.0 END::numeric(9,2) AS n,
    CASE WHEN h % 31 = 1 THEN NULL WHEN h % 601 = 5 THEN 'NaN' WHEN h % 601 = 6 THEN 99999999999999.9
        WHEN h % 601 = 7 THEN -99999999999999.9 ELSE h % 3000 / 7.0 END::numeric(15,1) AS wide,
    CASE WHEN h % 37 = 1 THEN NULL WHEN h % 501 = 2 THEN 'infinity' WHEN h % 501 = 3 THEN '-infinity'
        ELSE date '2020-01-01' + (h % 900)::integer END AS d,
    CASE WHEN h % 41 = 1 THEN NULL ELSE timestamp '2020-01-01' + h % 5000 * interval '7 minutes' END AS ts,
    CASE WHEN h % 41 = 1 THEN NULL ELSE timestamptz '2020-01-01 UTC' + h % 700 * interval '1 hour' END AS tz,
    CASE WHEN h % 43 = 1 THEN NULL ELSE time '00:00' + h % 700 * interval '2 minutes' END AS tm,
    (ARRAY['-0', '0', 'NaN', '-NaN', '1', '-1', '-0', '0'])[1 + h % 8]::float8 AS twins,
    'text ' || h % 20 AS t
FROM (SELECT g, (hashint4(g)::bigint + 2147483648) AS h FROM generate_series(1, {rows}) g) s
"""
INTEGERS = ("i2", "i4", "i8")
FLOATS = ("f4", "f8")
COLUMNS = (*INTEGERS, *FLOATS, "n", "wide", "d", "tm", "ts", "tz")
# cast to double precision by the parser, or to be cast
CONTINUOUS = (*INTEGERS, *FLOATS, "n", "wide::float8", "i4 + 1", "f8 * 2")
FRACTIONS = ("0", "0.5", "1", "0.25", "0.999", "1e-9", "0.1", "NULL", "1.0 / 3", "few / 4.0", "k / 10.0")
ARRAYS = (
    "ARRAY[0.5]",
    "ARRAY[0.9, 0.1, 0.5, 0.5]",
    "ARRAY[0, 1, NULL, 0.33]",
    "ARRAY[[0.1, 0.2], [0.3, 0.9]]",
    "'{}'",
    "NULL",
    "'[5:6]={0.5,0.6}'",
    "ARRAY[0.2, 0.2000001, 0.20001, 0.21, 0.3, 0.7, 0.71, 0.72, 0.999, 1, 0]",
)
FILTERS = ("", "", "", " FILTER (WHERE i4 < 500)", " FILTER (WHERE id % 7 = 1)", " FILTER (WHERE id < 0)")
BESIDE = ("count(*)", "sum(i4)", "avg(n)", "max(t)", "count(DISTINCT i4)", "min(f8)", "string_agg(t, ',') IS NULL")


def make(conn: Connection, rows: int = 3000, many: int = 700) -> None:
    conn.execute(MAKE.format(rows=rows, many=many).encode())


class Generator:
    """Queries by chance."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance

    def _set(self, keys: list[str]) -> str:
        chance = self._chance
        descending = chance.choice(("", "", " DESC", " NULLS FIRST", " DESC NULLS LAST"))
        fractions = [text for text in FRACTIONS if not text.startswith(("few", "k")) or text.split()[0] in keys]
        kind = chance.randrange(5)
        if kind == 0:
            head, column = "mode()", chance.choice(COLUMNS)
        elif kind == 1:
            head, column = f"percentile_disc(({chance.choice(fractions)})::float8)", chance.choice(COLUMNS)
        elif kind == 2:
            head, column = f"percentile_disc({chance.choice(ARRAYS)}::float8[])", chance.choice(COLUMNS)
        elif kind == 3:
            head, column = f"percentile_cont({chance.choice(fractions)})", chance.choice(CONTINUOUS)
        else:
            head, column = f"percentile_cont({chance.choice(ARRAYS)}::float8[])", chance.choice(CONTINUOUS)
        return f"{head} WITHIN GROUP (ORDER BY {column}{descending}){chance.choice(FILTERS)}"

    def query(self) -> str:
        chance = self._chance
        keys = chance.choice(([], ["few"], ["many"], ["k"], ["few", "k"], ["id"], ["t"]))
        sets = [self._set(keys) for _ in range(chance.randint(1, 4))]
        more = [chance.choice(BESIDE)] if chance.random() < 0.4 else []
        outputs = [*keys, *sets, *more]
        chance.shuffle(outputs)
        text = f"SELECT {', '.join(outputs)} FROM data"
        if chance.random() < 0.3:
            text += chance.choice((" WHERE i4 > 100", " WHERE id % 3 = 0", " WHERE id < 0", " WHERE few = 2"))
        if keys:
            text += f" GROUP BY {', '.join(keys)}"
        if chance.random() < 0.2:
            text += f" HAVING {self._set(keys)} IS NOT NULL"
        return text


def outcome(conn: Connection, query: str) -> answers.Answer | tuple[str | None, str | None]:
    """The answer, or the error."""
    try:
        return answers.answer(conn.execute(query.encode()))
    except psycopg.Error as error:
        return error.sqlstate, error.diag.message_primary


def differs(conn: Connection, query: str) -> str | None:
    """Tell what differs with the feature off, or None."""
    ours = outcome(conn, query)
    plans.switch(conn, False)
    core = outcome(conn, query)
    plans.switch(conn, True)
    if isinstance(ours, answers.Answer) and isinstance(core, answers.Answer):
        return answers.difference(core, ours)
    return None if ours == core else f"{core}, and {ours}"


def indexed(conn: Connection) -> None:
    """Give the table a columnar index, and have it read."""
    conn.execute("VACUUM data")
    conn.execute("CREATE INDEX ON data USING columns (id, few, many, k, i2, i4, i8, f4, f8, n, d, ts, tz, t)")
    conn.execute("VACUUM ANALYZE data")
    conn.execute("CALL pgbillion_rows.columns_refresh('data')")
    conn.execute("SET pgbillion_rows.columns = force")


@pytest.mark.majors
def test_generated(vectors: Connection, counted: Count) -> None:
    """Over the heap and a columnar index, with memory and with little."""
    chance = random.Random(SEED)
    generator = Generator(chance)
    seen: Counter[str] = Counter()
    failures: list[str] = []
    make(vectors)
    for number in range(QUERIES):
        if number == QUERIES // 2:
            indexed(vectors)
        if chance.random() < 0.3:
            little_memory(vectors)
        query = generator.query()
        found = differs(vectors, query)
        if found is not None:
            failures.append(f"{found}\n    {query}")
        plan = plans.explain(vectors, query)
        seen["queries"] += 1
        seen["vectorized"] += has_node(plan)
        seen["indexed"] += any("Columns" in node for node in plans.nodes(plan))
        vectors.execute("RESET work_mem; RESET hash_mem_multiplier")
    assert not failures, f"seed {SEED}: " + "\n".join(failures[:10])
    # string_agg() beside them is PostgreSQL's
    assert seen["vectorized"] > 0.85 * seen["queries"], (SEED, seen)
    assert seen["indexed"] > 0.2 * seen["queries"], (SEED, seen)
    assert files(vectors) == 0
    counted(seen)


def test_the_plan(vectors: Connection) -> None:
    make(vectors)
    query = (
        "SELECT few, percentile_cont(0.5) WITHIN GROUP (ORDER BY i4), percentile_cont(0.9) WITHIN GROUP (ORDER BY i4),"
        " mode() WITHIN GROUP (ORDER BY d), count(*) FROM data GROUP BY 1"
    )
    both(vectors, query)
    done = loops(vectors, query)
    assert (done["Aggregate"], done[plans.NODE]) == (0, 1)
    text = "\n".join(line for (line,) in vectors.execute(f"EXPLAIN (VERBOSE, COSTS OFF) {query}".encode()))
    assert "percentile_cont('0.5'::double precision) WITHIN GROUP (ORDER BY ((data.i4)::double precision))" in text
    assert "Ordered Set: percentile_cont(" in text
    assert "Vectorized: 4 of 4 aggregates" in text
    assert "vectors are possible" in explained(vectors, query)
    # PostgreSQL's node above carries results on
    query = "SELECT few FROM data GROUP BY 1 HAVING mode() WITHIN GROUP (ORDER BY i4) > 3"
    text = "\n".join(line for (line,) in vectors.execute(f"EXPLAIN (VERBOSE, COSTS OFF) {query}".encode()))
    assert "Filter: (min(mode() WITHIN GROUP (ORDER BY data.i4)) > 3)" in text
    # conditions of groups, and what is computed of results
    for query in (
        "SELECT many FROM data GROUP BY 1 HAVING percentile_disc(0.5) WITHIN GROUP (ORDER BY i4) > 900",
        "SELECT few, percentile_disc(0.5) WITHIN GROUP (ORDER BY i4) + max(i2) FROM data GROUP BY 1 ORDER BY 2 LIMIT 2",
        "SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY i4) FROM data HAVING count(*) > 100000",
        "SELECT k, percentile_disc(k / 20.0) WITHIN GROUP (ORDER BY n) FROM data WHERE k IS NOT NULL GROUP BY k",
        "SELECT m, max(p) FROM (SELECT few AS m, k, mode() WITHIN GROUP (ORDER BY i2) AS p FROM data GROUP BY 1, 2) s"
        " GROUP BY 1",
    ):
        both(vectors, query)


def test_results_by_hand(vectors: Connection) -> None:
    vectors.execute("CREATE TABLE data AS SELECT x FROM unnest(ARRAY[4, 1, 3, 3, NULL, 2, 2]) x")
    assert both(
        vectors,
        "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY x), percentile_cont(0.3) WITHIN GROUP (ORDER BY x),"
        " percentile_disc(0.5) WITHIN GROUP (ORDER BY x), percentile_disc(0.5) WITHIN GROUP (ORDER BY x DESC),"
        " mode() WITHIN GROUP (ORDER BY x), mode() WITHIN GROUP (ORDER BY x DESC),"
        " percentile_disc('{0,1,NULL}'::float8[]) WITHIN GROUP (ORDER BY x) FROM data",
    ) == [(b"2.5", b"2", b"2", b"3", b"2", b"3", b"{1,4,NULL}")]
    for rows in ("0", "1"):
        both(
            vectors,
            "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY x), mode() WITHIN GROUP (ORDER BY x),"
            f" percentile_disc('{{0.5}}'::float8[]) WITHIN GROUP (ORDER BY x) FROM data WHERE x < 1 + {rows}",
        )


ERRORS = (
    "SELECT percentile_cont(1.5) WITHIN GROUP (ORDER BY i4) FROM data",
    "SELECT percentile_cont(-0.1) WITHIN GROUP (ORDER BY i4) FROM data WHERE id < 0",
    "SELECT few, percentile_disc('NaN') WITHIN GROUP (ORDER BY i4) FROM data GROUP BY 1",
    "SELECT few, percentile_disc('NaN') WITHIN GROUP (ORDER BY i4) FROM data WHERE id < 0 GROUP BY 1",
    "SELECT percentile_disc(ARRAY[0.5, 2]) WITHIN GROUP (ORDER BY i4) FROM data",
    "SELECT percentile_disc(ARRAY[0.5, 2]) WITHIN GROUP (ORDER BY i4) FROM data WHERE id < 0",
    "SELECT percentile_cont(ARRAY[NULL, 0.5, 'Infinity']) WITHIN GROUP (ORDER BY i4) FROM data",
    "SELECT few, percentile_cont(1.0 / few) WITHIN GROUP (ORDER BY i4) FROM data WHERE few < 1 GROUP BY few",
    "SELECT k, percentile_cont(1.0 / (k - 1)) WITHIN GROUP (ORDER BY i4) FROM data WHERE k > 0 AND k < 2 GROUP BY k",
    "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY 1 / (id - 300)) FROM data",
    "SELECT mode() WITHIN GROUP (ORDER BY i4 * 2) FROM data WHERE i4 = 2147483647",
)


@pytest.mark.parametrize("query", ERRORS)
def test_errors_are_raised(vectors: Connection, query: str) -> None:
    make(vectors, 500)
    assert has_node(plans.explain(vectors, query))
    assert differs(vectors, query) is None


@pytest.mark.parametrize("work_mem", ["1GB", "64kB"])
def test_equal_values_that_look_different(vectors: Connection, work_mem: str) -> None:
    """-0 and 0, and kinds of NaN: those that PostgreSQL's sort puts there."""
    make(vectors, 4000)
    vectors.execute(f"SET work_mem = '{work_mem}'; SET hash_mem_multiplier = 1".encode())
    queries = [
        f"SELECT float8send({what} WITHIN GROUP (ORDER BY twins{order})) FROM data WHERE twins <= {below}"
        for what in (
            "percentile_disc(0.4)",
            "percentile_disc(0.6)",
            "percentile_cont(0.45)",
            "percentile_disc(1)",
            "mode()",
        )
        for order in ("", " DESC")
        for below in ("0", "'NaN'")
    ]
    for query in queries:
        # more than that is sorted in files, in ascending order, and then another of them may come first
        if work_mem == "1GB":
            both(vectors, query)
        else:
            vectors.execute(query.encode())
    for order in ("", " DESC"):
        query = (
            f"SELECT few, percentile_disc(ARRAY[0.1, 0.5, 0.7, 1]) WITHIN GROUP (ORDER BY twins{order}),"
            f" mode() WITHIN GROUP (ORDER BY twins{order}) FROM data GROUP BY 1"
        )
        ours = answers.answer(vectors.execute(query.encode()))
        plans.switch(vectors, False)
        core = answers.answer(vectors.execute(query.encode()))
        plans.switch(vectors, True)
        # in groups it depends on how PostgreSQL has sorted the rows by the key
        texts = [
            sorted(tuple((value or b"").replace(b"-0", b"0") for value in row) for row in found.rows)
            for found in (core, ours)
        ]
        assert texts[0] == texts[1]


def test_groups_with_and_without_equal_values(vectors: Connection) -> None:
    """Only groups with values that look different are sorted, once for each order."""
    vectors.execute(
        "CREATE TABLE data AS SELECT g % 40 AS k, CASE g % 40"
        " WHEN 1 THEN (ARRAY['-0', '0', 'NaN', '-NaN'])[1 + g / 40 % 4]"
        " WHEN 2 THEN (ARRAY['-0', '0', '1'])[1 + g / 40 % 3]"
        " WHEN 3 THEN '-0' WHEN 4 THEN '0' WHEN 5 THEN '-NaN'"
        " ELSE (g % 77)::text END::float8 AS f FROM generate_series(1, 4000) g"
    )
    vectors.execute("SET work_mem = '64MB'")
    sets = ", ".join(
        f"{what} WITHIN GROUP (ORDER BY f{order}){where}"
        for what in ("percentile_disc(0.4)", "percentile_cont(ARRAY[0.3, 0.9])", "mode()")
        for order in ("", " DESC", " NULLS FIRST")
        for where in ("", " FILTER (WHERE f < 'NaN')")
    )
    for k in range(8):
        both(vectors, f"SELECT {sets} FROM data WHERE k = {k}")
    both(vectors, f"SELECT k, {sets} FROM data WHERE k > 2 AND k <> 5 GROUP BY 1")


def test_little_memory(vectors: Connection) -> None:
    """Values that do not fit are sorted into files, next to groups and DISTINCT values that do not fit."""
    make(vectors, 60_000, 9000)
    little_memory(vectors)
    sets = (
        "percentile_cont(ARRAY[0.1, 0.5]) WITHIN GROUP (ORDER BY i4), mode() WITHIN GROUP (ORDER BY i4),"
        " mode() WITHIN GROUP (ORDER BY i4 DESC), percentile_disc(0.9) WITHIN GROUP (ORDER BY n DESC),"
        " percentile_disc(0.5) WITHIN GROUP (ORDER BY wide), mode() WITHIN GROUP (ORDER BY wide)"
    )
    for query in (
        f"SELECT {sets} FROM data",
        f"SELECT few, {sets}, count(DISTINCT i8) FROM data GROUP BY 1",
        f"SELECT many, {sets}, sum(i4) FROM data GROUP BY 1",
        f"SELECT many, t, {sets} FROM data GROUP BY 1, 2",
        "SELECT few, percentile_disc(few / 5.0) WITHIN GROUP (ORDER BY f8) FROM data GROUP BY 1",
    ):
        both(vectors, query)
        assert spilled(vectors, query)[0] > 0, query
    assert files(vectors) == 0
    # many runs, which are merged before they are read
    for query in (
        "SELECT percentile_disc(ARRAY[0.1, 0.7]) WITHIN GROUP (ORDER BY i8) FROM data",
        "SELECT few, percentile_disc(ARRAY[0.1, 0.7]) WITHIN GROUP (ORDER BY i8) FROM data GROUP BY 1",
    ):
        both(vectors, query)
        assert spilled(vectors, query)[0] > 8
    assert files(vectors) == 0


def test_runs_are_merged_by_size(vectors: Connection) -> None:
    """With memory for four runs at a time, each value is written a few times only."""
    vectors.execute("CREATE TABLE data AS SELECT hashint4(g) AS x FROM generate_series(1, 300000) g")
    little_memory(vectors)
    query = "SELECT percentile_disc(ARRAY[0.1, 0.7]) WITHIN GROUP (ORDER BY x) FROM data"
    both(vectors, query)
    runs, kilobytes = spilled(vectors, query)
    assert runs > 60
    assert kilobytes < 8 * 300_000 * 8 / 1024
    assert files(vectors) == 0


def test_memory_is_bounded(vectors: Connection) -> None:
    vectors.execute("CREATE TABLE data AS SELECT g AS id FROM generate_series(1, 300000) g")
    vectors.execute("SET work_mem = '1MB'; SET hash_mem_multiplier = 1")
    vectors.execute("BEGIN")
    vectors.execute(
        "DECLARE k CURSOR FOR SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY id), id % 100 FROM data GROUP BY 2"
    )
    vectors.execute("FETCH 1 FROM k")
    total = one(vectors, "SELECT sum(total_bytes) FROM pg_backend_memory_contexts WHERE name LIKE 'pgbillion%'")
    assert total < 2**20 * 1.5
    vectors.execute("COMMIT")


def test_memory_of_direct_arguments(vectors: Connection) -> None:
    """Each group has a longer array than those before: what was for a shorter one is freed."""
    vectors.execute(
        "CREATE TABLE data AS SELECT (SELECT array_agg(x / 3000.0::float8) FROM generate_series(0, g) x) AS fractions,"
        " g AS id FROM generate_series(1, 500) g"
    )
    query = "SELECT cardinality(percentile_disc(fractions) WITHIN GROUP (ORDER BY id)) FROM data GROUP BY fractions"
    both(vectors, query)
    vectors.execute("BEGIN")
    vectors.execute(f"DECLARE k CURSOR FOR {query}".encode())
    assert len(vectors.execute("FETCH 499 FROM k").fetchall()) == 499
    assert one(vectors, "SELECT max(total_bytes) < 1e6 FROM pg_backend_memory_contexts WHERE name = 'ExecutorState'")
    vectors.execute("COMMIT")


def test_constant_keys(vectors: Connection) -> None:
    """A key that is made of no column, and the same expression as a direct argument: 15 groups by it."""
    make(vectors, 300)
    for query in (
        "SELECT few, 0.5::float8, percentile_disc(0.5::float8) WITHIN GROUP (ORDER BY i4) FROM data GROUP BY 1, 2",
        "SELECT few, 0.5::float8, percentile_disc(few / 5.0 + 0.5::float8 - 0.5::float8) WITHIN GROUP (ORDER BY i4)"
        " FROM data GROUP BY 1, 2",
    ):
        both(vectors, query)
    vectors.execute(
        "PREPARE q(float8) AS SELECT few, $1, percentile_disc($1) WITHIN GROUP (ORDER BY i4) FROM data GROUP BY few, $1"
    )
    vectors.execute("SET plan_cache_mode = force_generic_plan")
    for fraction in ("0.5", "NULL", "2"):
        assert differs(vectors, f"EXECUTE q({fraction})") is None


def test_rescans(vectors: Connection) -> None:
    """Groups begun anew, and returned again, with parameters in direct arguments."""
    make(vectors)
    for memory in ("4MB", "64kB"):
        vectors.execute(f"SET work_mem = '{memory}'; SET hash_mem_multiplier = 1".encode())
        for query in (
            "SELECT o.k, s.* FROM (VALUES (1), (2700), (1), (90000)) o(k), LATERAL (SELECT few,"
            " percentile_disc(o.k / 100000.0) WITHIN GROUP (ORDER BY i4), mode() WITHIN GROUP (ORDER BY d)"
            " FROM data WHERE id > o.k GROUP BY few) s",
            "SELECT o.k, s.* FROM (VALUES (1), (2700), (1), (90000)) o(k), LATERAL (SELECT"
            " percentile_cont(o.k / 100000.0) WITHIN GROUP (ORDER BY f8), mode() WITHIN GROUP (ORDER BY n)"
            " FROM data WHERE id > o.k) s",
            "SELECT o.k, s.* FROM (VALUES (1), (2), (3)) o(k), LATERAL (SELECT few,"
            " percentile_disc(o.k / 3.0) WITHIN GROUP (ORDER BY i4) FROM data GROUP BY few) s",
            "SELECT id, (SELECT percentile_disc(d.id / 100.0) WITHIN GROUP (ORDER BY i4) FROM data) FROM data d"
            " WHERE id < 5",
        ):
            both(vectors, query)


def test_prepared_and_cursors(vectors: Connection) -> None:
    make(vectors)
    vectors.execute(
        "PREPARE q(float8, float8[]) AS SELECT few, percentile_cont($1) WITHIN GROUP (ORDER BY i4),"
        " percentile_disc($2) WITHIN GROUP (ORDER BY n) FROM data GROUP BY 1"
    )
    for mode in ("force_generic_plan", "force_custom_plan"):
        vectors.execute(f"SET plan_cache_mode = {mode}".encode())
        for arguments in ("0.5, '{0.1,0.2}'", "NULL, NULL", "0, '{}'", "2, NULL", "0.5, '{0.5,-1}'"):
            assert differs(vectors, f"EXECUTE q({arguments})") is None
    used = []
    for _ in range(3):
        for _ in range(20):
            vectors.execute("EXECUTE q(0.5, '{0.1,0.2}')")
        used.append(one(vectors, "SELECT sum(total_bytes) FROM pg_backend_memory_contexts"))
    assert float(used[2]) <= float(used[1]) * 1.01
    vectors.execute("BEGIN")
    vectors.execute("DECLARE c CURSOR FOR SELECT many, mode() WITHIN GROUP (ORDER BY i4) FROM data GROUP BY 1")
    assert len(vectors.execute("FETCH 5 FROM c").fetchall()) == 5
    vectors.execute("COMMIT")


def test_joins_and_what_is_above(vectors: Connection) -> None:
    make(vectors)
    vectors.execute("CREATE TABLE keys AS SELECT g AS k, 'name ' || g AS name FROM generate_series(0, 3) g")
    vectors.execute("ANALYZE data, keys; SET pgbillion_rows.vector_join = force")
    for query in (
        "SELECT name, percentile_cont(0.5) WITHIN GROUP (ORDER BY i4), mode() WITHIN GROUP (ORDER BY n)"
        " FROM data JOIN keys ON few = keys.k GROUP BY 1",
        "SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY d) FROM data JOIN keys ON few = keys.k"
        " WHERE name > 'name 1'",
        "SELECT name, percentile_disc(keys.k / 4.0) WITHIN GROUP (ORDER BY i8) FROM data LEFT JOIN keys ON few = keys.k"
        " GROUP BY 1, keys.k",
    ):
        both(vectors, query)
        assert has_node(plans.explain(vectors, query)), query
    in_parallel(vectors)
    both(vectors, "SELECT few, mode() WITHIN GROUP (ORDER BY i4), (SELECT count(*) FROM keys) FROM data GROUP BY 1")


def test_what_is_refused(vectors: Connection) -> None:
    make(vectors, 300)
    vectors.execute(
        "CREATE DOMAIN whole AS integer; CREATE TABLE odd AS SELECT g::whole AS w, g::numeric AS n,"
        " g * interval '1 day' AS iv, g AS id FROM generate_series(1, 100) g;"
        " CREATE TABLE parts (id integer) PARTITION BY RANGE (id);"
        " CREATE TABLE part PARTITION OF parts FOR VALUES FROM (0) TO (100)"
    )
    order = "which wants its rows in an order"
    types = "an ordered-set aggregate of another type than integers, floats, dates, times, timestamps and numerics"
    for query, reason in {
        "SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY t) FROM data": types,
        "SELECT mode() WITHIN GROUP (ORDER BY w) FROM odd": types,
        "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY iv) FROM odd": order,
        "SELECT mode() WITHIN GROUP (ORDER BY n) FROM odd": "a numeric that is no column of up to 15 digits",
        "SELECT mode() WITHIN GROUP (ORDER BY n::numeric(9,2)) FROM odd": "a numeric that is no column",
        "SELECT rank(3) WITHIN GROUP (ORDER BY id) FROM odd": order,
        "SELECT percentile_disc(random()) WITHIN GROUP (ORDER BY id) FROM odd": "a volatile function",
        "SELECT percentile_disc((SELECT 0.5)) WITHIN GROUP (ORDER BY id), array_agg(id) FROM odd": "array_agg",
        "SELECT mode() WITHIN GROUP (ORDER BY id) FROM parts": order,
        "SELECT id, mode() WITHIN GROUP (ORDER BY id) FROM odd GROUP BY ROLLUP (id)": order,
    }.items():
        assert reason in explained(vectors, query), (query, explained(vectors, query))
        if "random" not in query:
            both(vectors, query, node=False)
    vectors.execute("SET enable_hashagg = off")
    assert "enable_hashagg off" in explained(vectors, "SELECT mode() WITHIN GROUP (ORDER BY id) FROM odd")


def test_a_value_of_another_scale(vectors: Connection) -> None:
    """PostgreSQL does not check values of rows that it takes apart; here they would sort wrongly."""
    vectors.execute("CREATE TABLE unchecked AS SELECT * FROM unnest(ARRAY[ROW(1.5), ROW(2.25)]) AS r (n numeric(9, 2))")
    query = "SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY n) FROM unchecked"
    with pytest.raises(psycopg.errors.DataException, match="does not have the precision and scale of its column"):
        vectors.execute(query)
    vectors.execute("ALTER TABLE unchecked ALTER COLUMN n TYPE numeric(8, 2)")
    assert str(one(vectors, query)) == "1.50"


def test_privileges(vectors: Connection) -> None:
    """Who may not call an aggregate gets PostgreSQL's error, and who may not call min() gets the answer."""
    make(vectors, 300)
    role = "within_reader"
    vectors.execute(f"CREATE ROLE {role}; GRANT USAGE ON SCHEMA v TO {role}; GRANT SELECT ON data TO {role}".encode())
    query = "SELECT few, percentile_cont(0.5) WITHIN GROUP (ORDER BY i4) FROM data GROUP BY 1"
    function = "pg_catalog.percentile_cont(float8, float8)"
    try:
        vectors.execute(f"SET ROLE {role}".encode())
        both(vectors, query)
        vectors.execute("RESET ROLE")
        vectors.execute(f"REVOKE EXECUTE ON FUNCTION {function} FROM PUBLIC; SET ROLE {role}".encode())
        assert outcome(vectors, query) == ("42501", "permission denied for aggregate percentile_cont")
        assert differs(vectors, query) is None
        vectors.execute("RESET ROLE")
        vectors.execute(f"GRANT EXECUTE ON FUNCTION {function} TO PUBLIC".encode())
        vectors.execute("REVOKE EXECUTE ON FUNCTION pg_catalog.min(float8) FROM PUBLIC")
        vectors.execute(f"SET ROLE {role}".encode())
        both(vectors, query, node=False)
        vectors.execute("RESET ROLE")
        assert "where not everybody may execute min()" in explained(vectors, query)
    finally:
        vectors.execute("RESET ROLE")
        vectors.execute(f"GRANT EXECUTE ON FUNCTION {function}, pg_catalog.min(float8) TO PUBLIC".encode())
        vectors.execute(f"DROP OWNED BY {role}; DROP ROLE {role}".encode())


def test_cancelled(vectors: Connection) -> None:
    """Interrupted while values are collected or sorted in files; nothing is left, and the session goes on."""
    make(vectors, 30_000)
    query = (
        "SELECT many, mode() WITHIN GROUP (ORDER BY i8), percentile_disc(0.5) WITHIN GROUP (ORDER BY f8)"
        " FROM data, generate_series(1, 1000) GROUP BY 1"
    )
    for memory in ("256MB", "64kB"):
        vectors.execute(f"SET work_mem = '{memory}'; SET statement_timeout = '200ms'".encode())
        with pytest.raises(psycopg.errors.QueryCanceled):
            vectors.execute(query.encode())
        vectors.execute("RESET statement_timeout; RESET work_mem")
        assert files(vectors) == 0
        both(vectors, "SELECT mode() WITHIN GROUP (ORDER BY i8) FROM data")


def test_many_values(vectors: Connection) -> None:
    """Enough of a group for counting by ranges, and for sorting by radix; few and many different ones."""
    vectors.execute(
        "CREATE TABLE data AS SELECT g % 3 AS k, hashint8(g)::bigint * 4000000007 AS wide, hashint4(g) % 30 AS few,"
        " abs(hashint4(g)) / 1e9::float8 AS f, CASE WHEN g % 10 = 0 THEN hashint4(g) ELSE 7 END AS skewed,"
        " g / 40000.0::float8 AS ascending FROM generate_series(1, 120000) g"
    )
    many = "percentile_disc((SELECT array_agg(g / 500.0::float8) FROM generate_series(0, 500) g))"
    few = "percentile_disc(ARRAY[0, 0.1, 0.1001, 0.5, 0.51, 0.9, 0.95, 0.99, 1])"
    for column in ("wide", "few", "f", "skewed", "ascending"):
        order = f"WITHIN GROUP (ORDER BY {column}"
        for sets in (
            f"{few} {order}), percentile_cont(0.37) {order} DESC), mode() {order}), mode() {order} DESC)",
            f"{many} {order} DESC)",
        ):
            both(vectors, f"SELECT {sets} FROM data")
            both(vectors, f"SELECT k, {sets} FROM data GROUP BY k")


def test_cost(cluster: Cluster) -> None:
    """Chosen with memory and without, and not where an index gives the rows for little."""
    with servers.new_database(cluster, "costs") as name, cluster.connect(name) as conn:
        conn.execute(
            "LOAD 'pgbillion_rows'; SET max_parallel_workers_per_gather = 0;"
            " CREATE TABLE data AS SELECT g AS id, g % 1000 AS x, repeat('wide', 20) AS filler"
            " FROM generate_series(1, 200000) g;"
            " CREATE INDEX ON data (id)"
        )
        conn.execute("VACUUM ANALYZE data")
        for memory in ("64kB", "4MB", "1GB"):
            conn.execute(f"SET work_mem = '{memory}'".encode())
            for what in ("percentile_cont(0.5)", "percentile_disc('{0.1,0.9}'::float8[])", "mode()"):
                for keys in ("", " GROUP BY x", " GROUP BY filler"):
                    query = f"SELECT {what} WITHIN GROUP (ORDER BY id) FROM data{keys}"
                    assert has_node(plans.explain(conn, query)), (memory, query)
                query = f"SELECT {what} WITHIN GROUP (ORDER BY x) FROM data WHERE id < 100"
                assert not has_node(plans.explain(conn, query)), (memory, query)

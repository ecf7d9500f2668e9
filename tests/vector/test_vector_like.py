"""LIKE of vectorized aggregation beside core's: patterns and strings of few characters, so that much matches.

PGBILLION_TEST_SEED repeats a run.
"""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Callable, Iterator, Sequence

import psycopg
import pytest

from harness import servers
from pgbillion.common.connection import Connection
from pgbillion.rows import answers, plans
from pgbillion.server.postgres import Cluster

SEED = int(os.environ.get("PGBILLION_TEST_SEED") or random.SystemRandom().randrange(2**31))
STRINGS = 250
PATTERNS = 400
# letters beside those of ASCII; in EUC_JP the bytes of ぅ are in the middle of those of いア
LETTERS = {"UTF8": "é日本𝄞", "SQL_ASCII": "é日", "LATIN1": "éÿ", "EUC_JP": "いアぅ"}
MATCHED_BY_CORE = ("EUC_JP",)


def prepare(conn: Connection) -> None:
    conn.prepare_threshold = None
    conn.execute("SET client_encoding = 'UTF8'; SET max_parallel_workers_per_gather = 0")
    conn.execute("CREATE SCHEMA v; LOAD 'pgbillion_rows'; SET search_path = v, public")


@pytest.fixture
def vectors(conn: Connection) -> Connection:
    """A session in a schema of its own, `v`, with strings that are NULL, empty, short, long, compressed and toasted."""
    prepare(conn)
    conn.execute("CREATE TABLE s (id integer, t text, b boolean, v varchar(20), c char(8))")
    conn.execute("ALTER TABLE s ALTER v SET STORAGE external")
    values = ("", "a", "ab", "abc", "aXc", "a%c", "a_c", "a\\c", "\\", "%", "é", "aéc", "cabcabcab", " ", "ab ")
    for number, value in enumerate(values):
        conn.execute("INSERT INTO s VALUES (%s, %s, true, %s, %s)", [number, value, value, value[:8]])
    conn.execute(
        "INSERT INTO s VALUES (100, NULL, true), (101, NULL, NULL), (102, 'abc', NULL),"
        " (103, repeat('abc', 60), false), (104, repeat('abc', 90000), true), (105, repeat('x', 3000) || 'abc', true),"
        " (106, (SELECT string_agg(md5(g::text), 'abc') FROM generate_series(1, 300) g), false)"
    )
    conn.execute("ANALYZE s")
    return conn


def run(conn: Connection, query: str, on: str) -> answers.Answer | tuple[str | None, str | None]:
    """Answer or error of a query with the feature off or forced."""
    conn.execute(f"SET pgbillion_rows.vector_aggregate = {on}".encode())
    try:
        return answers.answer(conn.execute(query.encode()))
    except psycopg.Error as error:
        return error.sqlstate, error.diag.message_primary


def terms(conn: Connection, query: str) -> str:
    """What the forced plan tells of its filter: `1 of 1 filter terms` are kernels."""
    conn.execute("SET pgbillion_rows.vector_aggregate = force")
    found = [node["Vectorized"] for node in plans.nodes(plans.explain(conn, query)) if "Vectorized" in node]
    assert len(found) == 1, query
    return next(part for part in str(found[0]).split(", ") if part.endswith("filter terms"))


def both(conn: Connection, query: str, kernels: str) -> answers.Answer:
    """The answer of a query, in which so many terms are kernels; it is core's."""
    assert terms(conn, query) == f"{kernels} filter terms", query
    core, ours = run(conn, query, "off"), run(conn, query, "force")
    assert isinstance(core, answers.Answer), (query, core)
    assert isinstance(ours, answers.Answer), (query, ours)
    assert answers.difference(core, ours) is None, f"seed {SEED}: {query}"
    return ours


def literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def ends_in_escape(pattern: str) -> bool:
    return (len(pattern) - len(pattern.rstrip("\\"))) % 2 == 1


# patterns


def strings(chance: random.Random, letters: str, count: int) -> Iterator[str]:
    """Strings of few letters, mostly short; some begin as another one ends."""
    for _ in range(count):
        alphabet = chance.choice(("ab", "ab" + letters, "abc%_\\" + letters, letters))
        length = chance.choice((0, 1, 2, 3, 5, 8, 13, 17, 30, 60, 200))
        yield "".join(chance.choices(alphabet, k=length))


def patterns(chance: random.Random, letters: str, count: int) -> Iterator[str]:
    """Patterns by chance, and pieces of strings with wildcards in the place of some characters."""
    for _ in range(count):
        if chance.random() < 0.5:
            alphabet = chance.choice(("ab%", "ab%_", "ab%_\\" + letters, "%_" + letters))
            pattern = "".join(chance.choices(alphabet, k=chance.randrange(9)))
        else:
            (text,) = strings(chance, letters, 1)
            start = chance.randrange(len(text) + 1)
            wild = chance.random() / 2
            pattern = "".join(
                chance.choice(("%", "_", "", "\\" + letter)) if chance.random() < wild else letter
                for letter in text[start : start + chance.randrange(1, 20)]
            )
            pattern = chance.choice(("", "%", "%", "_%")) + pattern + chance.choice(("", "%", "%", "%_"))
        yield pattern + "\\" if ends_in_escape(pattern) else pattern


def fill(conn: Connection, texts: Sequence[str], wanted: Sequence[str]) -> None:
    conn.execute("CREATE TABLE s (id integer, t text, v varchar(800), c char(40)); CREATE TABLE p (p text)")
    with conn.cursor().copy("COPY s FROM STDIN") as copy:
        for number, text in enumerate(texts):
            copy.write_row((number, text, text, text[:10]))
        copy.write_row((-1, None, None, None))
    with conn.cursor().copy("COPY p FROM STDIN") as copy:
        for pattern in dict.fromkeys(wanted):
            copy.write_row((pattern,))
    conn.execute("ANALYZE s, p")


def each_pattern(condition: str) -> str:
    """A query that tells for each pattern of `p` which rows of `s` meet a condition."""
    return f"SELECT p, x.* FROM p, LATERAL (SELECT id, count(*) FROM s WHERE {condition} GROUP BY id) x"


@pytest.mark.parametrize("encoding", LETTERS)
def test_patterns_by_chance(cluster: Cluster, encoding: str, tell: Callable[[str], None]) -> None:
    chance = random.Random(f"{SEED} {encoding}")
    letters = LETTERS[encoding]
    kernels = "0 of 1" if encoding in MATCHED_BY_CORE else "1 of 1"
    with servers.new_database(cluster, "likes", encoding) as name, cluster.connect(name) as conn:
        prepare(conn)
        wanted = list(patterns(chance, letters, PATTERNS))
        fill(conn, list(strings(chance, letters, STRINGS)), wanted)
        matches = 0
        for column in ("t", "v", "c"):
            for operator in ("LIKE", "NOT LIKE"):
                found = both(conn, each_pattern(f"{column} {operator} p"), kernels)
                matches += len(found.rows) if operator == "LIKE" else 0
        for pattern in wanted[:60]:
            both(conn, f"SELECT id, count(*) FROM s WHERE t LIKE {literal(pattern)} GROUP BY id", kernels)
            both(conn, f"SELECT count(*), sum(id) FROM s WHERE c NOT LIKE {literal(pattern)}", kernels)
        assert matches > PATTERNS
    tell(f"seed {SEED}: {matches} matches of {PATTERNS} patterns with {STRINGS} strings")


def test_all_short_patterns(conn: Connection) -> None:
    """Every pattern of up to four characters, with every string of up to four letters."""
    prepare(conn)
    wanted = ["".join(one) for length in range(5) for one in itertools.product("ab%_\\", repeat=length)]
    texts = ["".join(one) for length in range(5) for one in itertools.product("abé", repeat=length)]
    fill(conn, texts, [pattern for pattern in wanted if not ends_in_escape(pattern)])
    assert len(both(conn, each_pattern("t LIKE p"), "1 of 1").rows) > 1000
    both(conn, each_pattern("t NOT LIKE p"), "1 of 1")


def test_places_of_a_match(conn: Connection) -> None:
    """A string is searched eight places at a time: each length of it, each place, each length of what is sought."""
    prepare(conn)
    sought = ["abcdefghijklmnopqrst"[:length] for length in (1, 2, 3, 7, 8, 9, 16, 20)]
    # what begins and ends as it should, and is something else
    false = [text[0] + "-" * (len(text) - 2) + text[-1] for text in sought if len(text) > 2]
    texts = [
        "." * before + text + "." * behind for text in (*sought, *false) for before in range(18) for behind in range(18)
    ]
    fill(conn, texts, [pattern for text in sought for pattern in (f"%{text}%", f"%{text}", f"{text}%", f"%.{text}.%")])
    found = both(conn, each_pattern("t LIKE p"), "1 of 1")
    assert len(found.rows) > 18 * 18 * len(sought)


# what is not matched


def test_long_and_missing_strings(vectors: Connection) -> None:
    for pattern in (
        "%abc",
        "abc%",
        "%xabc",
        "%cab%cab%",
        "%",
        "",
        "%_",
        "a_c",
        "a\\%c",
        "a\\_c",
        "%\\\\%",
        "_é_",
        "ab ",
    ):
        for column in ("t", "v", "c"):
            both(vectors, f"SELECT id, count(*) FROM s WHERE {column} LIKE {literal(pattern)} GROUP BY id", "1 of 1")
            both(vectors, f"SELECT count(*), sum(id) FROM s WHERE {column} NOT LIKE {literal(pattern)}", "1 of 1")
            both(vectors, f"SELECT count(*) FROM s WHERE lower({column}) LIKE {literal(pattern)}", "1 of 1")
    assert both(vectors, "SELECT count(*) FROM s WHERE c LIKE 'ab'", "1 of 1").rows == [(b"0",)]
    assert both(vectors, "SELECT count(*) FROM s WHERE c LIKE 'ab      '", "1 of 1").rows == [(b"2",)]


def test_three_valued_logic(vectors: Connection) -> None:
    for condition, kernels in (
        ("t LIKE 'a%' OR b", "1 of 1"),
        ("t LIKE 'a%' AND b", "2 of 2"),
        ("NOT (t LIKE 'a%' AND b)", "1 of 1"),
        ("NOT (t NOT LIKE '%c' OR b)", "2 of 2"),
        ("(t LIKE 'a%' OR b) AND (t NOT LIKE '%c%' OR id > 100)", "2 of 2"),
        ("t IS NULL OR t LIKE '' OR v LIKE '_'", "1 of 1"),
        ("b IS NULL OR (NOT (b AND t LIKE '%b%') AND v NOT LIKE 'a%')", "1 of 1"),
    ):
        both(vectors, f"SELECT id, count(*) FROM s WHERE {condition} GROUP BY id", kernels)
        counts = f"count(*) FILTER (WHERE {condition}), count(*)"
        both(vectors, f"SELECT id % 7, {counts} FROM s WHERE t LIKE '%' OR b IS NULL GROUP BY 1", "1 of 1")


def test_strings_are_fetched_only_where_they_decide(vectors: Connection) -> None:
    """In an OR or AND, for rows of which the truth is not known without them, as core does."""
    vectors.execute("CREATE TABLE big (id integer, t text); ALTER TABLE big ALTER t SET STORAGE external")
    vectors.execute("INSERT INTO big SELECT g, repeat('a', 20000) || g FROM generate_series(1, 200) g")
    vectors.execute("VACUUM (ANALYZE) big")

    def pages(condition: str) -> int:
        query = f"SELECT count(*), max(id) FROM big WHERE {condition}"
        both(vectors, query, "1 of 1")
        vectors.execute("SET pgbillion_rows.vector_aggregate = force")
        plan = servers.one(vectors, f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {query}")[0]["Plan"]
        return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])

    assert pages("id < 0 OR t LIKE '%a7'") > 1000
    for condition in ("id < 199 OR t LIKE '%a7'", "NOT (id >= 199 AND t = 'x')",
                      "id > 0 OR (t LIKE '%7' AND t LIKE '%a%')"):  # fmt: skip
        assert pages(condition) < 100


def test_left_to_core(vectors: Connection) -> None:
    """Patterns of each row, other operators, collations that are ambiguous, strings that may raise errors in an OR."""
    for condition in (
        "t LIKE translate(v, '\\', '')",
        "'abc' LIKE translate(t, '\\', '')",
        "t LIKE 'a' || id",
        "t LIKE NULLIF(id::text, '') || '%'",
        "id::text LIKE '1%' OR b",
        "t ILIKE 'A%'",
        "t SIMILAR TO 'a(b|X)c'",
        "t ~ '^a'",
        "t::name LIKE 'a%'",
        "t::bytea LIKE 'a%' AND id < 5",
    ):
        kernels = "1 of 2" if "AND" in condition else "0 of 1"
        both(vectors, f"SELECT count(*), sum(id) FROM s WHERE {condition}", kernels)
    vectors.execute("CREATE TABLE two AS SELECT 'x'::text COLLATE \"C\" AS c, 'y'::text COLLATE \"POSIX\" AS p")
    query = "SELECT count(*) FROM two WHERE c || p LIKE 'x%'"
    assert terms(vectors, query) == "0 of 1 filter terms"
    assert run(vectors, query, "off") == run(vectors, query, "force")


def test_nondeterministic_collations(vectors: Connection) -> None:
    try:
        vectors.execute("CREATE COLLATION lax (provider = icu, locale = 'und-u-ks-level2', deterministic = false)")
    except psycopg.errors.FeatureNotSupported:
        pytest.skip("needs a PostgreSQL with ICU")
    vectors.execute("CREATE TABLE l AS SELECT t COLLATE lax AS t FROM (VALUES ('abc'), ('ABC'), ('x')) x(t)")
    for condition in ("t LIKE 'a%'", "t NOT LIKE '%B%'", "t LIKE 'abc' OR t LIKE 'x'"):
        query = f'SELECT count(*), min(t COLLATE "C") FROM l WHERE {condition}'
        assert terms(vectors, query) == "0 of 1 filter terms"
        assert run(vectors, query, "off") == run(vectors, query, "force")
    both(vectors, "SELECT count(*) FROM l WHERE t COLLATE \"C\" LIKE 'a%'", "1 of 1")


# patterns that end in an escape, and parameters


def test_patterns_that_end_in_an_escape(vectors: Connection) -> None:
    """Core raises an error if it comes to the escape, with a string for which it does."""
    seen = set()
    for pattern in ("\\", "a\\", "%\\", "abc\\", "zz\\", "%b%\\", "a\\\\\\", "zz%\\", "_\\"):
        for condition in ("t LIKE {}", "c NOT LIKE {}", "id < 100 OR t LIKE {}", "id > 100 AND t LIKE {}"):
            query = f"SELECT count(*), sum(id) FROM s WHERE {condition.format(literal(pattern))}"
            # statistics are looked at with the operator, which may raise the error when the query is planned
            vectors.execute("DELETE FROM pg_statistic WHERE starelid = 's'::regclass")
            assert terms(vectors, query) == ("1 of 2" if "AND" in condition else "0 of 1") + " filter terms"
            core, ours = run(vectors, query, "off"), run(vectors, query, "force")
            assert core == ours, query
            seen.add(core[0] if isinstance(core, tuple) else "answer")
    assert seen == {"22025", "answer"}


@pytest.mark.parametrize(
    "condition",
    ["t LIKE $1", "t NOT LIKE $1 AND id >= 0", "id < 100 OR t LIKE $1", "NOT (b AND v LIKE $1)", "c LIKE $1 AND b"],
)
def test_parameters(vectors: Connection, condition: str) -> None:
    """One plan for patterns of every kind, of which some raise errors for some rows."""
    vectors.execute("SET plan_cache_mode = force_generic_plan")
    seen = set()
    call = "EXECUTE q({})"
    for pattern in ("'a%'", "NULL", "'%\\'", "'a%'", "'abc\\'", "'zz\\'", "'_b_'", "'\\'", "''", "repeat('%c', 2000)"):
        found = []
        for on in ("force", "off"):
            vectors.execute("DEALLOCATE ALL")
            vectors.execute(f"SET pgbillion_rows.vector_aggregate = {on}".encode())
            vectors.execute(f"PREPARE q(text) AS SELECT count(*), sum(id) FROM s WHERE {condition}".encode())
            if on == "force":
                kernels = "2 of 2" if "AND" in condition and "NOT (" not in condition else "1 of 1"
                assert terms(vectors, call.format(pattern)) == f"{kernels} filter terms"
            # twice: the second time another pattern was there before
            run(vectors, call.format("'%b%'"), on)
            found.append(run(vectors, call.format(pattern), on))
        assert found[0] == found[1], pattern
        seen.add(found[1][0] if isinstance(found[1], tuple) else "answer")
    assert seen == {"22025", "answer"}


def test_patterns_of_subqueries(vectors: Connection) -> None:
    both(
        vectors,
        "SELECT count(*), sum(id) FROM s WHERE t LIKE (SELECT min(x) || '%' FROM (VALUES ('b'), ('a')) x(x))",
        "1 of 1",
    )
    # core asks the second subquery only if a row passes the first condition
    query = "SELECT count(*) FROM s WHERE id > 1000 AND t LIKE (SELECT (1 / (count(*) - count(*)))::text FROM s)"
    core, ours = run(vectors, query, "off"), run(vectors, query, "force")
    assert isinstance(core, answers.Answer)
    assert core == ours
    # in an OR it is for core
    query = "SELECT count(*) FROM s WHERE id >= 0 OR t LIKE (SELECT (1 / (count(*) - count(*)))::text FROM s)"
    assert isinstance(run(vectors, query, "off"), answers.Answer)
    assert run(vectors, query, "off") == run(vectors, query, "force")


@pytest.mark.parametrize("pattern", ["'%' || repeat('b', 70000000)", "repeat('%a', 35000000)"])
def test_a_pattern_of_70_mb(vectors: Connection, pattern: str) -> None:
    """Memory for its parts is taken by their number, and where that is beyond 1 GB, PostgreSQL matches it."""
    for negated in ("", "NOT "):
        query = f"SELECT count(*) FROM s WHERE t {negated}LIKE {pattern}"
        assert run(vectors, query, "force") == run(vectors, query, "off")

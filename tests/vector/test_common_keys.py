"""Joins of several tables by one key are estimated by how the rows of each are distributed over its values."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness import servers
from harness.servers import one
from pgbillion.common.connection import Connection
from pgbillion.rows import plans
from pgbillion.server.postgres import Cluster

pytestmark = pytest.mark.majors

# Of films, the first ones are the best known: a hundredth of all rows is about a ten-thousandth of the films. Two lists
# have a fifteenth of the films each. The rows of `rated` and `voted` are about 50 films, of which one has a third.
TABLES = """
CREATE TABLE films AS SELECT i AS id, i % 100 AS year, i::bigint AS big, date '2000-01-01' + i AS day,
    timestamp '2000-01-01' + i * interval '1 s' AS at, 'film ' || i AS name FROM generate_series(1, 20000) i;
ALTER TABLE films ADD PRIMARY KEY (id);
CREATE UNIQUE INDEX ON films (big);
CREATE UNIQUE INDEX ON films (day);
CREATE UNIQUE INDEX ON films (at);
CREATE TABLE people AS SELECT f AS film, f::bigint AS big, date '2000-01-01' + f AS day,
    timestamp '2000-01-01' + f * interval '1 s' AS at, i % 50 AS role
    FROM (SELECT i, 1 + floor((i / 60000.0) ^ 2 * 20000)::int AS f FROM generate_series(0, 59999) i) q;
CREATE TABLE words AS SELECT film, big, day, at, role % 7 AS kind FROM people WHERE role % 2 = 0;
CREATE TABLE firms AS SELECT film, big, day, at, role % 5 AS kind FROM people WHERE role % 3 = 0;
CREATE TABLE listed AS SELECT id AS film FROM films WHERE id * 7919 % 10007 % 15 = 3;
CREATE TABLE linked AS SELECT id AS film FROM films WHERE id * 104729 % 10009 % 15 = 5;
CREATE TABLE rated AS SELECT CASE WHEN i % 3 = 0 THEN 7 ELSE i % 50 END AS film FROM generate_series(1, 3000) i;
CREATE TABLE voted AS TABLE rated;
CREATE TABLE paid AS TABLE rated;
CREATE INDEX ON people (film);
ANALYZE films, people, words, firms, listed, linked, rated, voted, paid;
CREATE TABLE unknown (film int);
INSERT INTO unknown SELECT film FROM words;
"""
THREE = "SELECT count(*) FROM people JOIN words USING ({0}) JOIN firms USING ({0})"


@pytest.fixture(scope="module")
def database(cluster: Cluster) -> Iterator[str]:
    with servers.new_database(cluster, "common_keys") as name:
        with cluster.connect(name) as conn:
            conn.execute("SET default_statistics_target = 1000; SELECT setseed(0.5)")
            conn.execute(TABLES.encode())
            conn.execute("ALTER TABLE unknown SET (autovacuum_enabled = off)")
            conn.execute("CREATE EXTENSION IF NOT EXISTS pgbillion_rows")
        yield name


@pytest.fixture
def conn(cluster: Cluster, database: str) -> Iterator[Connection]:
    with cluster.connect(database) as conn:
        conn.execute("LOAD 'pgbillion_rows'; SET max_parallel_workers_per_gather = 0; SET jit = off")
        # what is joined is to be seen
        conn.execute("SET pgbillion_rows.vector_aggregate = off; SET pgbillion_rows.vector_join = off")
        conn.execute("SET pgbillion_rows.eager_aggregate = off")
        yield conn


def joined(conn: Connection, query: str, estimate: bool = True, depth: int = 0) -> float:
    """How many rows the plan's topmost join is estimated to return, or one below it."""
    conn.execute(f"SET pgbillion_rows.estimate_joins = {estimate}".encode())
    found = [
        node
        for node in plans.nodes(plans.explain(conn, query))
        if node["Node Type"] in ("Nested Loop", "Hash Join", "Merge Join")
    ]
    return float(found[depth]["Plan Rows"])


@pytest.mark.quick
@pytest.mark.parametrize("column", ["film", "big", "day", "at"])
@pytest.mark.parametrize("films", [False, True])
def test_known_films_have_many_rows_in_all_tables(conn: Connection, column: str, films: bool) -> None:
    query = THREE.format(column)
    if films:
        query += f" JOIN films ON films.{'id' if column == 'film' else column} = people.{column} WHERE year < 90"
    actual = one(conn, query)
    assert joined(conn, query, estimate=False) < actual / 5
    assert actual / 4 < joined(conn, query) < actual * 2
    assert one(conn, query) == actual


def test_most_common_values(conn: Connection) -> None:
    query = "SELECT count(*) FROM rated JOIN voted USING (film) JOIN paid USING (film)"
    actual = float(one(conn, "SELECT sum(n ^ 3) FROM (SELECT count(*) AS n FROM rated GROUP BY film) q"))
    assert joined(conn, query, estimate=False) < actual / 2
    assert actual / 1.2 < joined(conn, query) < actual * 1.2


def test_each_order_of_joins_expects_as_many_rows(conn: Connection) -> None:
    conn.execute("SET join_collapse_limit = 1")
    found = []
    for one_table, two, three, four in (
        ("people", "words", "firms", "films"),
        ("films", "firms", "people", "words"),
        ("firms", "films", "words", "people"),
    ):
        names = [(table, "id" if table == "films" else "film") for table in (one_table, two, three, four)]
        source = names[0][0]
        for table, column in names[1:]:
            source += f" JOIN {table} ON {table}.{column} = {names[0][0]}.{names[0][1]}"
        found.append(joined(conn, f"SELECT count(*) FROM {source}"))
    assert max(found) < 1.5 * min(found)


@pytest.mark.quick
def test_two_lists_are_of_few_films_each(conn: Connection) -> None:
    """Of two lists alone PostgreSQL expects all films of one on the other, whatever it expects together with films."""
    conn.execute("SET join_collapse_limit = 1")
    query = "SELECT count(*) FROM listed JOIN linked USING (film) JOIN films ON id = listed.film"
    actual = one(conn, "SELECT count(*) FROM listed JOIN linked USING (film)")
    assert 40 < actual < 180
    assert joined(conn, query, estimate=False, depth=1) > 1200
    assert actual / 2 < joined(conn, query, depth=1) < 2 * actual
    alone = "SELECT count(*) FROM listed JOIN linked USING (film)"
    assert joined(conn, alone) == joined(conn, alone, estimate=False), "nothing tells how many films there are"


@pytest.mark.parametrize(
    "query",
    [
        # rows of one side, each of them once
        "SELECT count(*) FROM films WHERE EXISTS (SELECT FROM people WHERE film = id)"
        " AND EXISTS (SELECT FROM words WHERE film = id) AND EXISTS (SELECT FROM firms WHERE film = id)",
        "SELECT count(*) FROM films WHERE NOT EXISTS (SELECT FROM people JOIN words USING (film) WHERE film = id)",
        # a computed key has no statistics, and neither has a table that was never analyzed
        "SELECT count(*) FROM people p JOIN words w ON p.film + 0 = w.film JOIN firms f ON f.film = p.film + 0",
        "SELECT count(*) FROM unknown a JOIN unknown b USING (film)",
        # joined by different keys
        "SELECT count(*) FROM people p JOIN words w ON p.film = w.film JOIN firms f ON f.kind = w.kind",
    ],
)
def test_others_are_estimated_as_they_were(conn: Connection, query: str) -> None:
    assert joined(conn, query) == joined(conn, query, estimate=False)


def test_outer_joins_have_the_rows_of_their_side(conn: Connection) -> None:
    query = (
        "SELECT count(*) FROM people JOIN words USING (film) LEFT JOIN (SELECT DISTINCT film FROM firms) f USING (film)"
    )
    conn.execute("SET join_collapse_limit = 1")
    assert joined(conn, query) < 2 * joined(conn, "SELECT count(*) FROM people JOIN words USING (film)")


def test_a_genetic_search_is_left_alone(conn: Connection) -> None:
    query = THREE.format("film")
    actual = one(conn, query)
    conn.execute("SET geqo_threshold = 2")
    assert joined(conn, query) == joined(conn, query, estimate=False)
    assert one(conn, query) == actual


def test_statistics_that_a_role_may_not_see(cluster: Cluster, conn: Connection) -> None:
    """A policy hides rows: PostgreSQL does not use most common values and histograms then where that could show."""
    query = THREE.format("film")
    with conn.transaction(force_rollback=True):
        conn.execute(
            "CREATE ROLE viewer; GRANT SELECT ON people, words, firms TO viewer; ALTER TABLE words ENABLE ROW LEVEL"
            " SECURITY; CREATE POLICY few ON words TO viewer USING (kind < 3); SET LOCAL ROLE viewer"
        )
        allowed = joined(conn, query)
        assert allowed == joined(conn, query, estimate=False)
    assert joined(conn, query) > 5 * joined(conn, query, estimate=False)


def test_the_planner_tells_of_it(conn: Connection) -> None:
    text = str(one(conn, "SELECT pgbillion_rows.explain_vector(%s)", THREE.format("film")))
    assert "joins by keys of which some values are common in several tables are estimated to return" in text


def test_first_rows_do_not_count_on_many(conn: Connection) -> None:
    """A plan that LIMIT stops early is charged as if PostgreSQL's own estimate were right."""
    query = "SELECT role FROM people JOIN words USING (film) JOIN firms USING (film) ORDER BY people.film LIMIT 10"

    def cost(estimate: str) -> float:
        conn.execute(f"SET pgbillion_rows.estimate_joins = {estimate}".encode())
        return float(plans.explain(conn, query)["Total Cost"])

    assert cost("on") > 0.5 * cost("off")


def test_many_tables_and_values(conn: Connection) -> None:
    """More common values than are looked at, and a key of twelve tables."""
    with conn.transaction(force_rollback=True):
        conn.execute(
            "CREATE TABLE thousand AS SELECT 1 + (i % 1000) * (i % 3) AS film FROM generate_series(1, 100000) i;"
            " SET LOCAL default_statistics_target = 2000; ANALYZE thousand"
        )
        several = " JOIN ".join(["films", *(f"thousand t{n}" for n in range(2))])
        query = several.replace("t0", "t0 ON t0.film = id").replace("t1", "t1 ON t1.film = id")
        actual = float(one(conn, "SELECT sum(n ^ 2) FROM (SELECT count(*) AS n FROM thousand GROUP BY film) q"))
        assert actual / 10 < joined(conn, f"SELECT count(*) FROM {query}") < 3 * actual
        conn.execute("SET LOCAL join_collapse_limit = 4; SET LOCAL geqo = off")
        twelve = "films" + "".join(f" JOIN people p{n} ON p{n}.film = id" for n in range(11))
        plans.explain(conn, f"SELECT count(*) FROM {twelve}")


def test_dates_and_timestamps_are_not_mixed(conn: Connection) -> None:
    query = "SELECT count(*) FROM people p JOIN words w ON p.day = w.at JOIN firms f ON f.at = w.at"
    one(conn, query)
    assert joined(conn, query) < 20 * joined(conn, query, estimate=False)

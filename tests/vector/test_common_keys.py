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
CREATE TABLE big AS SELECT i AS n, i % 100 AS m FROM generate_series(1, 200000) i;
CREATE TABLE small AS SELECT i AS n FROM generate_series(1, 50) i;
CREATE TABLE people AS SELECT f AS film, i % 1000 AS x, f::bigint AS big, date '2000-01-01' + f AS day,
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
ANALYZE films, big, small, people, words, firms, listed, linked, rated, voted, paid;
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


KNOWN = "(people p JOIN words USING (film) JOIN firms USING (film))"


def test_outer_joins_have_the_rows_of_their_sides(conn: Connection) -> None:
    assert joined(conn, f"SELECT count(*) FROM big LEFT JOIN {KNOWN} ON big.n = p.x AND p.role = 0") >= 200000
    many = joined(conn, f"SELECT count(*) FROM {KNOWN}")
    for join in ("LEFT JOIN big", "FULL JOIN big", "RIGHT JOIN big"):
        assert joined(conn, f"SELECT count(*) FROM {KNOWN} {join} ON big.n = p.x") >= 0.9 * many, join
    # what is joined with them later is estimated, too
    query = f"SELECT count(*) FROM {KNOWN} LEFT JOIN small ON small.n = p.x JOIN films ON id = p.film"
    assert joined(conn, query) >= 0.9 * many


def test_semijoins_above_keep_what_is_known(conn: Connection) -> None:
    """Also where PostgreSQL joins with the different rows of a semijoin."""
    conn.execute("SET join_collapse_limit = 3; SET from_collapse_limit = 1")
    query = f"SELECT count(*) FROM {KNOWN}, small s WHERE EXISTS (SELECT FROM big WHERE n = p.x AND m = s.n)"
    assert joined(conn, query) > 5 * joined(conn, query, estimate=False)


def test_joins_of_partitions(conn: Connection) -> None:
    with conn.transaction(force_rollback=True):
        for table in ("people", "words", "firms"):
            conn.execute(f"CREATE TABLE part_{table} (LIKE {table}) PARTITION BY RANGE (film)".encode())
            for number in range(4):
                conn.execute(
                    f"CREATE TABLE part_{table}_{number} PARTITION OF part_{table} FOR VALUES"
                    f" FROM ({number * 6000}) TO ({(number + 1) * 6000})".encode()
                )
            conn.execute(f"INSERT INTO part_{table} SELECT * FROM {table}; ANALYZE part_{table}".encode())
        query = THREE.format("film")
        for table in ("people", "words", "firms"):
            query = query.replace(table, f"part_{table}")
        actual = one(conn, query)
        for wise in ("off", "on"):
            conn.execute(f"SET LOCAL enable_partitionwise_join = {wise}".encode())
            conn.execute("SET pgbillion_rows.estimate_joins = on")
            found = [
                float(node["Plan Rows"])
                for node in plans.nodes(plans.explain(conn, query))
                if node["Node Type"] in ("Append", "Hash Join", "Merge Join", "Nested Loop")
            ]
            assert actual / 4 < found[0] < actual * 2, wise


def test_made_up_statistics(conn: Connection) -> None:
    """The owner of a table can write its statistics, from 18 on."""
    if conn.info.server_version < 180000:
        pytest.skip("statistics cannot be written before 18")
    query = THREE.format("film") + " JOIN rated USING (film)"
    with conn.transaction(force_rollback=True):
        conn.execute(
            "SET LOCAL parallel_setup_cost = 0; SET LOCAL parallel_tuple_cost = 0; SET LOCAL"
            " min_parallel_table_scan_size = 0; SET LOCAL max_parallel_workers_per_gather = 2"
        )
        for share in ("Infinity", "-Infinity", "NaN", "1e38", "-1e38"):
            for nulls in (0, share):
                conn.execute(
                    "SELECT pg_restore_attribute_stats('schemaname', 'public', 'relname', t, 'attname', 'film',"
                    " 'inherited', false, 'null_frac', %s::real, 'avg_width', 4, 'n_distinct', 5000::real,"
                    " 'most_common_vals', '{7}', 'most_common_freqs', array[%s]::real[], 'histogram_bounds',"
                    " '{1, 10, 20, 20000}') FROM unnest('{people, words, firms, rated}'::text[]) t",
                    [nulls, share],
                )
                core = joined(conn, query, estimate=False)
                assert joined(conn, query) < max(1e30, 2 * core), (share, nulls, core)


def test_rows_that_statistics_do_not_know(conn: Connection) -> None:
    """Two tables met at their ends when they were analyzed: chance is the least that is expected of them."""
    with conn.transaction(force_rollback=True):
        conn.execute(
            "CREATE TABLE first_half AS SELECT 1 + i / 10 AS film FROM generate_series(1, 100000) i;"
            " CREATE TABLE second_half AS SELECT 9990 + i / 10 AS film FROM generate_series(1, 100000) i;"
            " ANALYZE first_half, second_half"
        )
        query = "SELECT count(*) FROM first_half JOIN second_half USING (film) JOIN films ON id = first_half.film"
        conn.execute("SET LOCAL join_collapse_limit = 1")
        assert joined(conn, query, depth=1) > 0.4 * 100000**2 / 20000


def test_a_sample_has_fewer_rows_than_values(conn: Connection) -> None:
    with conn.transaction(force_rollback=True):
        conn.execute(
            "CREATE TABLE sampled AS SELECT CASE WHEN i % 1000 < 3 THEN 5 ELSE i * 7 % 20000 END AS film"
            " FROM generate_series(1, 400000) i; ANALYZE sampled"
        )
        sample = "sampled {} TABLESAMPLE bernoulli (1)"
        query = f"SELECT count(*) FROM {sample.format('a')} JOIN {sample.format('b')} USING (film)"
        query += f" JOIN {sample.format('c')} USING (film)"
        # 12 rows of each are of one film
        assert 12**3 / 2 < joined(conn, query) < 12**3 * 2


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

"""How long plans are estimated to take: what PostgreSQL's own plans do beyond what its costs say."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness import servers
from harness.plan_reports import milliseconds
from pgbillion.common.connection import Connection
from pgbillion.rows import plans
from pgbillion.server.postgres import Cluster


@pytest.fixture(scope="module")
def database(cluster: Cluster) -> Iterator[str]:
    with servers.new_database(cluster, "estimates") as name:
        with cluster.connect(name) as conn:
            conn.execute(
                "CREATE TABLE sales AS SELECT i AS id, i % 2000 AS item, i % 100 AS color, i % 50 AS shop,"
                " i % 977 AS price, repeat('z', 300) AS note FROM generate_series(1, 40000) i;"
                " CREATE INDEX ON sales (item); CREATE INDEX ON sales (shop); CREATE INDEX pair ON sales (id, price);"
                " CREATE TABLE shops AS SELECT i AS shop, i % 10 AS town FROM generate_series(0, 49) i"
            )
            # rows in the order of their days, with a columnar index, and a calendar of many more days
            conn.execute(
                "CREATE TABLE dated AS SELECT 20000 + i / 500 AS day, i % 7 AS a FROM generate_series(1, 1000000) i;"
                " CREATE INDEX dated_columns ON dated USING columns (day, a);"
                " CREATE TABLE calendar AS SELECT i AS day, i / 60 AS month, (i * 7919) % 666 AS mixed"
                " FROM generate_series(0, 39999) i; ALTER TABLE calendar ADD PRIMARY KEY (day)"
            )
            conn.execute("VACUUM ANALYZE sales, shops, dated, calendar")
        yield name


@pytest.fixture
def conn(cluster: Cluster, database: str) -> Iterator[Connection]:
    with cluster.connect(database) as conn:
        conn.execute("LOAD 'pgbillion_rows'; SET max_parallel_workers_per_gather = 0; SET jit = off; BEGIN")
        if conn.info.server_version >= 190000:
            conn.execute("SET enable_eager_aggregate = off")
        yield conn
        conn.execute("ROLLBACK")


def kinds(conn: Connection, query: str) -> set[str]:
    """The nodes of a plan, PostgreSQL's by their type and ours by their name."""
    return {
        str(node.get("Custom Plan Provider", node["Node Type"])) for node in plans.nodes(plans.explain(conn, query))
    }


DEARER = "price > (SELECT 1.5 * avg(s.price) FROM sales s WHERE s.item = f.item)"


def of_items(conn: Connection, where: str) -> float:
    """The estimate for sales dearer than their item's others."""
    return milliseconds(conn, f"SELECT * FROM sales f WHERE {where} AND {DEARER}")


def test_an_index_whose_later_column_is_looked_for_is_read_as_a_whole(conn: Connection) -> None:
    conn.execute("SET enable_seqscan = off; SET enable_bitmapscan = off")
    whole = milliseconds(conn, "SELECT id FROM sales WHERE price = 5")
    assert whole > 100 * milliseconds(conn, "SELECT id FROM sales WHERE id = 5")
    # twice the part of it takes half as long
    conn.execute("SET enable_seqscan = on")
    half = milliseconds(conn, "SELECT id FROM sales WHERE price = 5 AND id > 20000")
    assert whole / 4 < half < whole / 1.3


def test_settings_of_zero_leave_numbers(conn: Connection) -> None:
    conn.execute("SET random_page_cost = 0; SET cpu_index_tuple_cost = 0; SET enable_seqscan = off")
    for query in ("SELECT id FROM sales ORDER BY id", "SELECT id FROM sales WHERE price = 5"):
        assert 0 < milliseconds(conn, query) < 1000


def test_a_scan_of_an_index_that_takes_less_is_not_displaced(conn: Connection) -> None:
    """By PostgreSQL's costs ours is the cheaper one: the table has fewer pages than the index is taken to have."""
    texts = ", ".join(f"'t' || i % {number} AS t{number}" for number in range(2, 14))
    conn.execute(
        f"CREATE TABLE late AS SELECT {texts}, i AS id, i % 977 AS price FROM generate_series(1, 40000) i;"
        " CREATE INDEX ON late (id, price)"
    )
    conn.execute("ANALYZE late")
    query = "SELECT t13 FROM late WHERE price = 5"
    conn.execute("SET pgbillion_rows.vector_scan = off")
    assert kinds(conn, query) & {"Index Scan", "Bitmap Heap Scan"}
    conn.execute("RESET pgbillion_rows.vector_scan")
    assert "VectorScan" not in kinds(conn, query)
    # PostgreSQL's costs are all that counts where not all is in memory
    conn.execute("SET effective_cache_size = '1MB'")
    assert "VectorScan" in kinds(conn, query)


def test_calls_of_a_subquery_are_counted_by_the_rows_that_are_looked_up(conn: Connection) -> None:
    """Of few rows each passes a value of its own, of all one in twenty does."""
    few = of_items(conn, "id <= 100")
    assert few * 5 < of_items(conn, "id > 0") < few * 50


def test_what_comes_before_a_subquery_spares_it_rows_of_an_inner_side(conn: Connection) -> None:
    joined = f"SELECT * FROM shops JOIN sales f USING (shop) WHERE town = 3 AND {{}} AND {DEARER}"
    conn.execute("SET pgbillion_rows.vector_join = off; SET pgbillion_rows.vector_scan = off")
    conn.execute("SET enable_hashjoin = off; SET enable_mergejoin = off; SET pgbillion_rows.replace_nested_loops = off")
    assert "Nested Loop" in kinds(conn, joined.format("color = 3"))
    assert milliseconds(conn, joined.format("color = 3")) < milliseconds(conn, joined.format("color >= 0")) / 4


def test_what_joins_remove_is_spared_a_subquery_and_no_more(conn: Connection) -> None:
    """A join by vectors evaluates it for a tenth of the rows, most of which pass values that no other has passed."""
    conn.execute("SET pgbillion_rows.vector_join = force")
    joined = f"SELECT * FROM sales f JOIN shops USING (shop) WHERE {{}} AND {DEARER}"
    assert "VectorJoin" in kinds(conn, joined.format("town = 3"))
    all_rows = milliseconds(conn, joined.format("town >= 0"))
    assert all_rows / 8 < milliseconds(conn, joined.format("town = 3")) <= all_rows


def test_results_that_are_not_remembered_are_computed_again(conn: Connection) -> None:
    remembered = of_items(conn, "id > 0")
    conn.execute("SET pgbillion_rows.memoize_subqueries = off")
    assert of_items(conn, "id > 0") > 8 * remembered
    conn.execute("RESET pgbillion_rows.memoize_subqueries")
    # each call may give another result
    varying = DEARER.replace("s.item = f.item", "s.item = f.item AND random() < 2")
    assert milliseconds(conn, f"SELECT * FROM sales f WHERE id > 0 AND {varying}") > 8 * remembered


def test_a_columnar_index_makes_no_subquery_cheaper(conn: Connection) -> None:
    heap = of_items(conn, "color < 30")
    conn.execute("CREATE INDEX sales_columns ON sales USING columns (id, item, color, price)")
    assert of_items(conn, "color < 30") > heap / 2


def test_values_of_groups_are_sorted(conn: Connection) -> None:
    conn.execute(
        "SET pgbillion_rows.vector_aggregate = off; SET pgbillion_rows.vector_sort = off; SET enable_hashagg = off"
    )
    grouped = "SELECT item, color, count({}price) FROM sales GROUP BY GROUPING SETS ((item, color), (color, item))"
    plain = milliseconds(conn, grouped.format(""))
    distinct = milliseconds(conn, grouped.format("DISTINCT "))
    assert distinct > 1.5 * plain
    # our sort is estimated with what is below it
    conn.execute("SET pgbillion_rows.vector_sort = force")
    ordered = f"{grouped.format('DISTINCT ')} ORDER BY 3, 1, 2"
    assert "VectorSort" in kinds(conn, ordered)
    assert milliseconds(conn, ordered) > distinct / 2


def test_each_grouping_set_finds_its_groups(conn: Connection) -> None:
    conn.execute(
        "SET pgbillion_rows.vector_aggregate = off; SET pgbillion_rows.vector_sort = off; SET enable_sort = off"
    )
    one = milliseconds(conn, "SELECT id, count(*) FROM sales GROUP BY id")
    scan = milliseconds(conn, "SELECT id FROM sales")
    three = milliseconds(
        conn, "SELECT id, price, count(*) FROM sales GROUP BY GROUPING SETS ((id, price), (id), (price))"
    )
    assert three - scan > 1.5 * (one - scan)


def test_rows_in_nearly_the_order_of_an_index_are_on_pages_of_their_own(conn: Connection) -> None:
    """Those of a day lie among those of its neighbours, or all together."""
    conn.execute(
        "CREATE TABLE shipped AS SELECT i / 200 AS sold, i / 200 + (hashint4(i) & 63) AS sent, repeat('z', 100) AS note"
        " FROM generate_series(1, 200000) i; CREATE INDEX ON shipped (sold); CREATE INDEX ON shipped (sent);"
        " CREATE TABLE days AS SELECT i AS day FROM generate_series(0, 29) i; ANALYZE shipped, days;"
        " SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_bitmapscan = off; SET enable_seqscan = off;"
        " SET pgbillion_rows.vector_join = off; SET pgbillion_rows.replace_nested_loops = off"
    )
    query = "SELECT note FROM days JOIN shipped ON {} = day + 300"
    assert kinds(conn, query.format("sent")) >= {"Nested Loop", "Index Scan"}
    assert milliseconds(conn, query.format("sent")) > 1.5 * milliseconds(conn, query.format("sold"))


def test_segments_without_keys_cost_nothing(conn: Connection) -> None:
    conn.execute("SET enable_nestloop = off; SET pgbillion_rows.eager_aggregate = off")
    query = "SELECT count(*) FROM dated JOIN calendar USING (day) WHERE {} = 350"
    together, apart = (query.format(column) for column in ("month", "mixed"))
    for text in (together, apart):
        assert "VectorAggregate" in kinds(conn, text)
    assert milliseconds(conn, together) < milliseconds(conn, apart) / 1.5
    conn.execute("SET pgbillion_rows.columns = off")
    assert milliseconds(conn, together) > milliseconds(conn, apart) / 1.5


def test_look_ups_that_find_nothing_are_not_kept_away(conn: Connection) -> None:
    """PostgreSQL looks at them after our join of the same tables, which costs as much, and starts sooner."""
    conn.execute(
        "CREATE TABLE sold AS SELECT i % 2 AS shop, i AS price, repeat('z', 60) AS note"
        " FROM generate_series(1, 200000) i;"
        " CREATE INDEX ON sold (shop); CREATE TABLE three AS SELECT i AS shop, 'shop ' || i AS name"
        " FROM generate_series(0, 2) i; ALTER TABLE three ADD PRIMARY KEY (shop)"
    )
    conn.execute("ANALYZE sold, three; SET random_page_cost = 4; SET seq_page_cost = 4")
    query = "SELECT * FROM sold JOIN three USING (shop) WHERE name = 'shop {}' AND price > 100000"
    for enable in ("off", "on"):
        conn.execute(f"SET pgbillion_rows.enable = {enable}")
        assert "Nested Loop" in kinds(conn, query.format(2)), enable
    assert "VectorJoin" in kinds(conn, query.format(1))

"""Joins along what stands for several tables: partitions, children, UNION ALL. Each is joined on its own."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from harness import servers
from harness.servers import one
from pgbillion.common.connection import Connection
from pgbillion.rows import answers, plans
from pgbillion.server.postgres import Cluster

pytestmark = pytest.mark.majors

NODES = (plans.NODE, plans.JOIN)
TABLES = """
CREATE TABLE sales (gone integer, day integer, shop integer, item bigint, price numeric(9, 2), note text, weight float8)
    PARTITION BY RANGE (day);
ALTER TABLE sales DROP COLUMN gone;
CREATE TABLE sales_1 PARTITION OF sales FOR VALUES FROM (0) TO (100);
-- other places of columns, and further levels
CREATE TABLE sales_2 (weight float8, note text, price numeric(9, 2), item bigint, shop integer, day integer);
ALTER TABLE sales ATTACH PARTITION sales_2 FOR VALUES FROM (100) TO (200);
CREATE TABLE sales_3 PARTITION OF sales FOR VALUES FROM (200) TO (300) PARTITION BY LIST (shop);
CREATE TABLE sales_3_a PARTITION OF sales_3 FOR VALUES IN (1, 2, 3, NULL);
CREATE TABLE sales_3_b PARTITION OF sales_3 DEFAULT;
CREATE TABLE sales_4 PARTITION OF sales FOR VALUES FROM (300) TO (400);
INSERT INTO sales SELECT i % 300, nullif(i % 23, 9), i % 57, i % 1000 / 4.0, 'note ' || i % 5, i / 8.0
    FROM generate_series(1, 3000) i;
CREATE TABLE back (shop integer, item bigint, loss numeric(9, 2), day integer);
INSERT INTO back SELECT i % 20, i % 50, i % 90 / 2.0, i % 310 FROM generate_series(1, 500) i;
CREATE TABLE animals (name integer, kind integer);
CREATE TABLE birds (wings integer) INHERITS (animals);
CREATE TABLE fish (fins text) INHERITS (animals);
INSERT INTO animals SELECT i, i % 9 FROM generate_series(1, 300) i;
INSERT INTO birds SELECT i, i % 9, i % 3 FROM generate_series(301, 900) i;
INSERT INTO fish SELECT i, i % 11, 'f' || i FROM generate_series(901, 1500) i;
CREATE TABLE shops (id integer, name text, region integer);
INSERT INTO shops SELECT i, 'Shop ' || i, i % 4 FROM generate_series(0, 21) i;
CREATE TABLE items (id bigint, kind integer);
INSERT INTO items SELECT i, i % 6 FROM generate_series(0, 59) i;
CREATE TABLE days (id integer, month integer);
INSERT INTO days SELECT i, i / 30 FROM generate_series(0, 320) i;
VACUUM ANALYZE;
"""
STAR = (
    "SELECT s.name, i.kind, count(*), sum(f.price), max(f.note) FROM sales f JOIN shops s ON f.shop = s.id"
    " JOIN items i ON f.item = i.id"
)
UNION = (
    "(SELECT 'sold' AS channel, shop, item, price, day FROM sales_1 UNION ALL"
    " SELECT 'back', shop + 0, item, -loss, day"
    " FROM back UNION ALL SELECT 'none', shop, NULL::bigint, 0::numeric, 5 FROM sales)"
)


@pytest.fixture(scope="module")
def tables(cluster: Cluster) -> Iterator[str]:
    with servers.new_database(cluster, "vector_join_parts") as name:
        with cluster.connect(name) as conn:
            for statement in TABLES.split(";\n"):
                if statement.strip():
                    conn.execute(statement.encode())
            conn.execute("CREATE INDEX ON sales_2 USING columns (day, shop, item, price)")
            conn.execute("VACUUM sales_2")
        yield name


@pytest.fixture
def joins(cluster: Cluster, tables: str) -> Iterator[Connection]:
    """A session with joins by us forced, in a transaction that leaves nothing."""
    with cluster.connect(tables) as conn:
        conn.prepare_threshold = None
        conn.execute(
            "LOAD 'pgbillion_rows'; SET pgbillion_rows.vector_join = force; SET pgbillion_rows.eager_aggregate = off;"
            " SET enable_nestloop = off; SET enable_mergejoin = off; SET max_parallel_workers_per_gather = 0;"
            " SET min_parallel_table_scan_size = 0; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0;"
            " SET pgbillion_rows.columns = off"
        )
        conn.execute("BEGIN")
        yield conn
        conn.execute("ROLLBACK")


def joined(conn: Connection, query: str) -> list[str]:
    """The tables along which we join."""
    found = plans.nodes(plans.explain(conn, query))
    return [node["Relation Name"] for node in found if node.get("Custom Plan Provider") in NODES and has_joins(node)]


def has_joins(node: plans.Plan) -> bool:
    return any(key.split()[1:2] == ["Join"] for key in node)


def both(conn: Connection, query: str, expected: list[str]) -> list[tuple[object, ...]]:
    """The rows, which are the same with the feature off; we join along these tables."""
    assert sorted(joined(conn, query)) == sorted(expected), plans.text(conn, query)
    ours = answers.answer(conn.execute(query.encode()))
    conn.execute("SET LOCAL pgbillion_rows.enable = off")
    core = answers.answer(conn.execute(query.encode()))
    conn.execute("SET LOCAL pgbillion_rows.enable = on")
    assert answers.difference(core, ours) is None, query
    return conn.execute(query.encode()).fetchall()


SALES = ["sales_1", "sales_2", "sales_3_a", "sales_3_b", "sales_4"]


def test_partitions(joins: Connection) -> None:
    """Whatever their columns' places, and however many levels; also from a columnar index of one of them."""
    query = f"{STAR} GROUP BY 1, 2"
    assert len(both(joins, query, SALES)) > 100
    joins.execute("SET LOCAL pgbillion_rows.columns = force")
    both(joins, query.replace(", max(f.note)", ""), SALES)
    assert "Columns: sales_2_" in plans.text(joins, query.replace(", max(f.note)", ""))
    # the planner leaves partitions out
    both(joins, f"{STAR} WHERE f.day < 150 GROUP BY 1, 2", SALES[:2])
    both(joins, f"{STAR} WHERE f.day = 7 GROUP BY 1, 2", SALES[:1])


def test_in_parallel(joins: Connection) -> None:
    joins.execute("INSERT INTO sales SELECT f.* FROM sales f, generate_series(1, 20); ANALYZE sales")
    joins.execute("SET LOCAL max_parallel_workers_per_gather = 2; SET LOCAL parallel_leader_participation = off")
    query = f"{STAR} GROUP BY 1, 2"
    assert "Gather" in plans.text(joins, query)
    both(joins, query, SALES)
    rows = "SELECT f.price, s.name FROM sales f JOIN shops s ON f.shop = s.id"
    assert "Gather" in plans.text(joins, rows)
    both(joins, rows, SALES)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT f.price, f.note, s.name FROM sales f JOIN shops s ON f.shop = s.id WHERE f.price > 100",
        "SELECT f.day, s.name FROM sales f LEFT JOIN shops s ON f.shop = s.id AND s.region = 2 AND f.day < s.id * 20",
        "SELECT f.day, f.weight FROM sales f WHERE EXISTS (SELECT FROM shops s WHERE s.id = f.shop AND s.id < f.day)",
        "SELECT count(*), sum(f.price) FROM sales f WHERE NOT EXISTS (SELECT FROM items i WHERE i.id = f.item)",
        "SELECT rank() OVER (ORDER BY f.price, f.day, f.shop, s.name), f.price FROM sales f JOIN shops s"
        " ON f.shop = s.id",
        "SELECT f.price, s.name FROM sales f JOIN shops s ON f.shop = s.id ORDER BY 1 DESC, 2, f.day LIMIT 40",
        "SELECT DISTINCT s.region, f.note FROM sales f JOIN shops s ON f.shop = s.id",
        "SELECT s.region, f.note, count(*) FROM sales f JOIN shops s ON f.shop = s.id GROUP BY ROLLUP (1, 2)",
        "SELECT s.region, count(DISTINCT f.note) FROM sales f JOIN shops s ON f.shop = s.id GROUP BY 1",
        # PostgreSQL adds floats in the order of rows
        "SELECT s.region, sum(f.weight) FROM sales f JOIN shops s ON f.shop = s.id GROUP BY 1",
        "SELECT s.region, sum(f.price) FROM sales f JOIN shops s ON f.shop + 0 = s.id AND f.day <> s.region GROUP BY 1",
    ],
)
def test_what_is_above_and_below(joins: Connection, query: str) -> None:
    both(joins, query, SALES)


def test_children(joins: Connection) -> None:
    query = "SELECT a.name, s.name FROM animals a JOIN shops s ON a.kind = s.id"
    assert len(both(joins, query, ["animals", "birds", "fish"])) == 1500
    both(joins, query.replace("animals", "ONLY animals"), ["animals"])
    both(
        joins,
        "SELECT s.name, count(*) FROM animals a JOIN shops s ON a.kind = s.id GROUP BY 1",
        ["animals", "birds", "fish"],
    )


def test_union_all(joins: Connection) -> None:
    """Columns may be constants and expressions, also where they are joined, grouped and returned by."""
    along = ["sales_1", "back", *SALES]
    both(
        joins,
        f"SELECT u.channel, s.name, sum(u.price), count(u.item) FROM {UNION} u JOIN shops s"
        f" ON u.shop = s.id GROUP BY 1, 2",
        along,
    )
    both(joins, f"SELECT u.channel, u.price, u.shop, s.name FROM {UNION} u JOIN shops s ON u.shop = s.id", along)
    both(joins, f"SELECT u.*, d.month FROM {UNION} u JOIN days d ON u.day = d.id", along)
    both(
        joins,
        f"SELECT u.shop, count(*) FROM {UNION} u JOIN days d ON u.day = d.id AND u.shop <> d.month GROUP BY 1",
        along,
    )
    both(
        joins,
        f"SELECT u.channel, count(s.name) FROM {UNION} u LEFT JOIN shops s"
        f" ON u.shop = s.id AND u.channel <> 'back' GROUP BY 1",
        along,
    )
    both(
        joins,
        f"SELECT u.price FROM {UNION} u WHERE channel = 'back' AND shop IN (SELECT id FROM shops WHERE region > 1)",
        ["back"],
    )


def test_union_all_without_joins(joins: Connection) -> None:
    joins.execute("SET LOCAL pgbillion_rows.vector_aggregate = force")
    query = f"SELECT u.channel, u.shop, sum(u.price), count(*), count(u.item) FROM {UNION} u GROUP BY 1, 2"
    found = [
        node for node in plans.nodes(plans.explain(joins, query)) if node.get("Custom Plan Provider") == plans.NODE
    ]
    assert len(found) == 7
    both(joins, query, [])
    # a subquery among them is PostgreSQL's
    both(
        joins,
        "SELECT shop, count(*) FROM (SELECT shop FROM sales UNION ALL SELECT max(shop) FROM back) u GROUP BY 1",
        [],
    )


def test_inner_sides_that_must_be_read_once(joins: Connection) -> None:
    """Each of the tables is joined with the same rows."""
    sampled = (
        "SELECT count(*), count(DISTINCT s.id) FROM sales f"
        " JOIN (SELECT * FROM shops WHERE random() < 0.5) s ON f.shop = s.id"
    )
    assert joined(joins, sampled) == []
    for source in (
        "generate_series(1, 20) s (id)",
        "shops s TABLESAMPLE bernoulli (50)",
        "(SELECT id FROM shops LIMIT 9) s",
    ):
        assert joined(joins, f"SELECT count(*) FROM sales f JOIN {source} ON f.shop = s.id") == [], source
    # a subquery that is evaluated once for all, and one that is a condition
    both(
        joins,
        "SELECT count(*) FROM sales f JOIN shops s ON f.shop = s.id WHERE s.region < (SELECT max(region) FROM shops)",
        SALES,
    )
    # what a subquery computes for each row may be another value the next time
    condition = "SELECT count(*) FROM sales f JOIN shops s ON f.shop = s.id WHERE s.id NOT IN (SELECT kind FROM items)"
    assert set(joined(joins, condition)).isdisjoint(SALES)
    both(
        joins,
        "WITH c AS MATERIALIZED (SELECT * FROM shops WHERE id < 9) SELECT count(*) FROM sales f JOIN c"
        " ON f.shop = c.id",
        SALES,
    )
    # joins of other tables
    both(joins, "SELECT count(*) FROM sales f JOIN (shops s JOIN items i ON s.region = i.kind) ON f.shop = s.id", SALES)


VOLATILE = """
CREATE TABLE halves (p integer, k integer) PARTITION BY LIST (p);
CREATE TABLE halves_1 PARTITION OF halves FOR VALUES IN (1);
CREATE TABLE halves_2 PARTITION OF halves FOR VALUES IN (2);
INSERT INTO halves SELECT 1 + i % 2, i / 2 % 500 FROM generate_series(1, 20000) i;
CREATE TABLE looked AS SELECT i AS id, i % 500 AS g FROM generate_series(1, 200000) i;
CREATE INDEX ON looked (id);
CREATE TABLE keys AS SELECT i AS id, i % 10 AS g FROM generate_series(0, 499) i;
CREATE TABLE single AS SELECT 1 AS x;
ANALYZE halves, looked, keys, single
"""


@pytest.mark.parametrize(
    "source",
    [
        "halves f JOIN keys d ON d.id = f.k WHERE (SELECT random() + d.id * 0 FROM single) < 0.5",
        "halves f JOIN keys d ON d.id = f.k WHERE d.id NOT IN (SELECT id FROM keys WHERE random() < 0.5)",
        "halves f LEFT JOIN (keys d JOIN looked l ON l.id = d.id * 7 AND l.g * 0 + random() < d.g * 0 + 0.5)"
        " ON d.id = f.k WHERE d.id IS NOT NULL",
    ],
)
def test_rows_that_volatile_conditions_leave(joins: Connection, source: str) -> None:
    """Each key is in both partitions, and both are joined with it, or none."""
    joins.execute(VOLATILE.encode())
    joins.execute("SET LOCAL enable_nestloop = on; SET LOCAL enable_hashjoin = on")
    keys = f"SELECT d.id FROM {source} GROUP BY 1 HAVING count(DISTINCT f.p) = 1"
    for rows in (
        keys,
        f"SELECT id FROM (SELECT d.id, f.p FROM {source} OFFSET 0) q GROUP BY 1 HAVING count(DISTINCT p) = 1",
    ):
        assert one(joins, f"SELECT count(*) FROM ({rows}) q") == 0
    assert one(joins, f"SELECT count(DISTINCT d.id) FROM {source}") > 0


def test_partitions_left_out_at_run_time(joins: Connection) -> None:
    """By a function that is not immutable, or by the rows of another table."""
    joins.execute("CREATE TABLE events (at timestamptz, shop integer) PARTITION BY RANGE (at)")
    for number in range(6):
        joins.execute(
            f"CREATE TABLE events_{number} PARTITION OF events FOR VALUES FROM ('2026-01-0{number + 1} 00:00+0')"
            f" TO ('2026-01-0{number + 2} 00:00+0')".encode()
        )
    joins.execute(
        "INSERT INTO events SELECT timestamptz '2026-01-01 00:00+0' + i * interval '1 minute', i % 20"
        " FROM generate_series(0, 8000) i; CREATE INDEX ON events (at); ANALYZE events"
    )
    query = "SELECT s.name, count(*) FROM events e LEFT JOIN shops s ON e.shop = s.id WHERE {} GROUP BY 1"
    assert len(joined(joins, query.format("e.at >= '2026-01-02 00:00+0'"))) == 5
    # now() has a value when the query runs
    assert joined(joins, query.format("e.at >= now() - interval '2 days'")) == []
    joins.execute("SET LOCAL pgbillion_rows.vector_join = on; SET LOCAL enable_nestloop = on")
    joins.execute("CREATE TABLE wanted AS SELECT at FROM events LIMIT 3; ANALYZE wanted")
    assert joined(joins, "SELECT e.shop FROM wanted w JOIN events e USING (at)") == []


def test_hash_tables_of_all_tables_count(joins: Connection) -> None:
    """Each keeps its own until the plan ends."""
    joins.execute(
        "CREATE TABLE large AS SELECT i AS id, 'row ' || i AS t FROM generate_series(1, 20000) i; ANALYZE large"
    )
    joins.execute(
        "SET LOCAL work_mem = '4MB'; SET LOCAL hash_mem_multiplier = 1; SET LOCAL pgbillion_rows.vector_join = on"
    )
    joins.execute("INSERT INTO sales SELECT f.* FROM sales f, generate_series(1, 60); ANALYZE sales")
    query = "SELECT f.note, count(l.t) FROM {} f LEFT JOIN large l ON f.item * 300 = l.id GROUP BY 1"
    assert joined(joins, query.format("sales")) == []
    assert joined(joins, query.format("sales_1")) == ["sales_1"]
    joins.execute("SET LOCAL work_mem = '64MB'")
    assert sorted(joined(joins, query.format("sales"))) == sorted(SALES)


def test_inner_sides_of_many_nodes(joins: Connection) -> None:
    joins.execute("CREATE TABLE crowd (k integer, v integer) PARTITION BY HASH (k)")
    for number in range(40):
        joins.execute(
            f"CREATE TABLE crowd_{number} PARTITION OF crowd FOR VALUES WITH (MODULUS 40, REMAINDER {number})".encode()
        )
    joins.execute("INSERT INTO crowd SELECT i, i FROM generate_series(1, 400) i; ANALYZE crowd")
    query = "SELECT count(c.v) FROM {} f LEFT JOIN crowd c ON f.{} = c.k"
    assert len(joined(joins, query.format("sales", "item"))) == 5
    # 40 times 41
    assert joined(joins, query.format("crowd", "v")) == []


def test_what_is_left_alone(joins: Connection) -> None:
    query = "SELECT s.name, count(*) FROM sales f JOIN shops s ON f.shop = s.id WHERE f.day < $1 GROUP BY 1"
    joins.execute("SET LOCAL plan_cache_mode = force_generic_plan")
    joins.execute(f"PREPARE q AS {query}".encode())
    # partitions are left out when it runs; they are the inner side
    assert joined(joins, "EXECUTE q (150)") == ["shops"]
    # row security
    joins.execute("CREATE POLICY few ON sales USING (shop = 5); ALTER TABLE sales ENABLE ROW LEVEL SECURITY")
    joins.execute("CREATE ROLE pgbillion_parts_reader; GRANT SELECT ON sales, shops TO pgbillion_parts_reader")
    joins.execute("SET LOCAL ROLE pgbillion_parts_reader")
    both(joins, STAR.replace(" JOIN items i ON f.item = i.id", "").replace("i.kind, ", "") + " GROUP BY 1", [])
    joins.execute("RESET ROLE; ALTER TABLE sales DISABLE ROW LEVEL SECURITY; SET LOCAL ROLE pgbillion_parts_reader")
    # rights on the partitioned table are enough
    both(joins, STAR.replace(" JOIN items i ON f.item = i.id", "").replace("i.kind, ", "") + " GROUP BY 1", SALES)


def test_many_partitions(joins: Connection) -> None:
    joins.execute("CREATE TABLE crowd (k integer, v integer) PARTITION BY LIST (k)")
    for number in range(65):
        joins.execute(f"CREATE TABLE crowd_{number} PARTITION OF crowd FOR VALUES IN ({number})".encode())
    joins.execute("INSERT INTO crowd SELECT i % 65, i FROM generate_series(1, 1000) i; ANALYZE crowd")
    query = "SELECT s.name, sum(v) FROM crowd c LEFT JOIN shops s ON c.k = s.id GROUP BY 1"
    assert joined(joins, query) == []
    joins.execute("ALTER TABLE crowd DETACH PARTITION crowd_64")
    assert len(joined(joins, query)) == 64


def test_run_again_and_with_little_memory(joins: Connection) -> None:
    lateral = (
        "SELECT o.id, q.* FROM shops o, LATERAL (SELECT count(*), sum(f.price) FROM sales f JOIN items i"
        " ON f.item = i.id"
        " WHERE f.price < o.id * 9 AND i.kind < o.region + 3) q"
    )
    both(joins, lateral, SALES)
    joins.execute("SET LOCAL work_mem = '64kB'; SET LOCAL hash_mem_multiplier = 1")
    joins.execute(
        "CREATE TABLE large AS SELECT i AS id, repeat('x', 200) || i AS t"
        " FROM generate_series(1, 4000) i; ANALYZE large"
    )
    query = "SELECT f.day, l.t FROM sales f LEFT JOIN large l ON f.item * 40 = l.id"
    both(joins, query, SALES)
    assert "partitions=" in "\n".join(line for (line,) in joins.execute(f"EXPLAIN ANALYZE {query}".encode()))


def test_only_the_first_rows_are_wanted(joins: Connection) -> None:
    """The error of a row that nobody asks for is not raised."""
    query = "SELECT f.day FROM sales f JOIN shops s ON f.shop = s.id AND 1 / (f.day - 299) < s.id LIMIT 1"
    assert joined(joins, query) == []
    # the same where a column is a constant
    branches = "(SELECT 0 AS x, shop, day FROM sales_1 UNION ALL SELECT 1, shop, day FROM sales_2)"
    constant = (
        f"SELECT u.day FROM {branches} u JOIN shops s ON u.shop = s.id AND (u.day < 500 OR 9 / u.x > s.id) LIMIT 1"
    )
    assert joined(joins, constant) == []
    joins.execute(constant.encode())
    with pytest.raises(psycopg.errors.DivisionByZero):
        joins.execute(query.replace("LIMIT 1", "").encode())


def test_cursors_and_changes(joins: Connection) -> None:
    """Of a table that is changed, PostgreSQL's plan reads the rows."""
    update = "UPDATE sales f SET note = s.name FROM shops s WHERE f.shop = s.id"
    assert joined(joins, update) == []
    locked = "SELECT f.price FROM sales f JOIN shops s ON f.shop = s.id FOR UPDATE OF f"
    assert joined(joins, locked) == []
    joins.execute("DECLARE c CURSOR FOR SELECT f.price, s.name FROM sales f JOIN shops s ON f.shop = s.id")
    assert len(joins.execute("FETCH 1700 FROM c").fetchall()) == 1700
    joins.execute("DELETE FROM sales; DELETE FROM shops")
    rest = len(joins.execute("FETCH ALL FROM c").fetchall())
    # of 3,000 rows, 130 have no shop, and 131 one that there is not
    assert 1700 + rest == 3000 - 130 - 131

"""Branches of a UNION ALL that are subqueries, with conditions or joins: our scans read and join them further.

PGBILLION_TEST_BRANCHES is how many queries are generated (default 720), PGBILLION_TEST_SEED repeats a run.
"""

from __future__ import annotations

import os
import random
import re
from collections.abc import Callable, Iterator

import psycopg
import pytest

from harness import servers
from harness.amount import Count, amount
from harness.outcomes import AGAIN, WAYS, explained_each, leaving_nothing
from harness.outcomes import both as compared
from pgbillion.common.connection import Connection
from pgbillion.rows import answers, plans
from pgbillion.server.postgres import Cluster

pytestmark = pytest.mark.majors

QUERIES = amount("PGBILLION_TEST_BRANCHES", 720, 60)
SEED = int(os.environ.get("PGBILLION_TEST_SEED") or random.SystemRandom().randrange(2**31))
NODES = (plans.NODE, plans.JOIN)
TABLES = """
CREATE TABLE store (day integer, item bigint, shop integer, price numeric(9, 2), note text, kind char(4));
INSERT INTO store SELECT i % 300, nullif(i % 57, 9), i % 23, i % 1000 / 4.0, 'note ' || i % 5, i % 7
    FROM generate_series(1, 3000) i;
CREATE TABLE web (kind varchar, price numeric(9, 2), site smallint, item integer, day integer, gone text, note text);
ALTER TABLE web DROP COLUMN gone;
INSERT INTO web SELECT i % 9, nullif(i % 90, 7) / 2.0, i % 20, i % 50, nullif(i % 310, 5), 'web ' || i % 3
    FROM generate_series(1, 1500) i;
CREATE TABLE back (day integer, item bigint, loss numeric(9, 2), reason integer);
INSERT INTO back SELECT i % 310, i % 60, i % 90 / 2.0, i % 4 FROM generate_series(1, 700) i;
CREATE TABLE parted (gone integer, day integer, item bigint, shop integer, price numeric(9, 2), note text)
    PARTITION BY RANGE (day);
ALTER TABLE parted DROP COLUMN gone;
CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM (0) TO (100);
CREATE TABLE parted_2 (note text, price numeric(9, 2), item bigint, shop integer, day integer);
ALTER TABLE parted ATTACH PARTITION parted_2 FOR VALUES FROM (100) TO (200);
CREATE TABLE parted_3 PARTITION OF parted DEFAULT;
INSERT INTO parted (day, item, shop, price, note) SELECT day, item, shop, price, note FROM store;
CREATE TABLE days (id integer, month integer, name text);
INSERT INTO days SELECT i, i / 30, 'Day ' || i % 7 FROM generate_series(0, 320) i;
CREATE TABLE items (id bigint, kind integer, name text);
INSERT INTO items SELECT i, nullif(i % 6, 2), 'Item ' || i % 10 FROM generate_series(0, 59) i;
CREATE TABLE shops (id integer, name text, region integer);
INSERT INTO shops SELECT i, 'Shop ' || i, i % 4 FROM generate_series(0, 21) i;
CREATE VIEW sold AS SELECT 'store' AS channel, s.item, s.price, d.month, s.note FROM store s, days d
    WHERE s.day = d.id AND d.month > 1 UNION ALL
    SELECT 'web', w.item::bigint, w.price + 1, d.month, w.note FROM web w, days d
    WHERE w.day = d.id AND w.site <> 3 UNION ALL
    SELECT 'back', b.item, -b.loss, b.reason, NULL FROM back b WHERE b.day > 20;
VACUUM ANALYZE
"""
# the same with fewer rows, so that more queries are compared in a minute
SMALL = re.sub(r"\(1, (\d+)00\)", r"(1, \g<1>0)", TABLES)


@pytest.fixture(scope="module")
def tables(cluster: Cluster) -> Iterator[str]:
    with servers.new_database(cluster, "vector_branches") as name:
        with cluster.connect(name) as conn:
            conn.execute("CREATE SCHEMA small")
            for path, tables in (("small", SMALL), ("public", TABLES)):
                conn.execute(f"SET search_path = {path}".encode())
                for statement in tables.split(";\n"):
                    conn.execute(statement.encode())
                conn.execute("CREATE INDEX ON web USING columns (day, item, site, price, note)")
                # without the note, which is only returned
                conn.execute("CREATE INDEX ON store USING columns (day, item, price, shop)")
                conn.execute("VACUUM web, store")
        yield name


@pytest.fixture
def branches(cluster: Cluster, tables: str) -> Iterator[Connection]:
    """A session with our scans and joins forced, in a transaction that leaves nothing."""
    with cluster.connect(tables) as conn:
        conn.prepare_threshold = None
        conn.execute(
            "LOAD 'pgbillion_rows'; SET pgbillion_rows.vector_join = force;"
            " SET pgbillion_rows.vector_aggregate = force; SET pgbillion_rows.eager_aggregate = off;"
            " SET enable_nestloop = off; SET enable_mergejoin = off;"
            " SET max_parallel_workers_per_gather = 0; SET min_parallel_table_scan_size = 0;"
            " SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET pgbillion_rows.columns = off"
        )
        conn.execute("BEGIN")
        yield conn
        conn.execute("ROLLBACK")


def scanned(conn: Connection, query: str) -> list[str]:
    """The tables of our scans below an Append."""
    found: list[str] = []

    def look(node: plans.Plan, below: bool) -> None:
        if below and node.get("Custom Plan Provider") in NODES:
            found.append(node["Relation Name"])
            return
        for child in node.get("Plans", []):
            look(child, node["Node Type"] == "Append")

    look(plans.explain(conn, query), False)
    return sorted(found)


def both(conn: Connection, query: str, expected: list[str]) -> list[tuple[object, ...]]:
    """The rows, which are the same with the feature off; these tables are read by our scans below an Append."""
    assert scanned(conn, query) == sorted(expected), plans.text(conn, query)
    ours = answers.answer(conn.execute(query.encode()))
    conn.execute("SET LOCAL pgbillion_rows.enable = off")
    core = answers.answer(conn.execute(query.encode()))
    conn.execute("SET LOCAL pgbillion_rows.enable = on")
    assert answers.difference(core, ours) is None, query
    return conn.execute(query.encode()).fetchall()


ALL = ["store", "web", "back"]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT channel, count(*), sum(price), min(note), count(item) FROM sold GROUP BY 1",
        "SELECT month, channel, avg(price), max(item) FROM sold GROUP BY 1, 2 HAVING count(*) > 3",
        "SELECT count(*) FROM sold",
        "SELECT sum(price * month) FILTER (WHERE channel <> 'web'), max(note || channel) FROM sold",
        "SELECT channel, month, count(*) FROM sold GROUP BY ROLLUP (1, 2)",
        "SELECT DISTINCT channel, month FROM sold",
        "SELECT u.c, sum(u.n) FROM (SELECT channel AS c, count(*) AS n FROM sold GROUP BY channel) u GROUP BY 1",
    ],
)
def test_aggregated(branches: Connection, query: str) -> None:
    both(branches, query, ALL)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT u.channel, i.name, count(*), sum(u.price), max(u.note) FROM sold u JOIN items i ON u.item = i.id"
        " GROUP BY 1, 2",
        "SELECT u.channel, u.price, u.note, i.name FROM sold u JOIN items i ON u.item = i.id WHERE i.kind = 3",
        "SELECT u.*, i.kind, s.region FROM sold u JOIN items i ON u.item = i.id JOIN shops s ON s.id = u.month",
        "SELECT u.channel, count(i.id), count(*) FROM sold u LEFT JOIN items i ON u.item = i.id AND u.month <> i.kind"
        " GROUP BY 1",
        "SELECT u.channel, count(*) FROM sold u"
        " WHERE EXISTS (SELECT FROM items i WHERE i.id = u.item AND i.kind < u.month) GROUP BY 1",
        "SELECT u.channel, count(*) FROM sold u"
        " WHERE NOT EXISTS (SELECT FROM items i WHERE i.id = u.item AND i.kind = 1) GROUP BY 1",
        # by what a branch computes, and by a constant
        "SELECT s.name, count(*) FROM sold u JOIN shops s ON u.price = s.region GROUP BY 1",
        "SELECT s.n, u.month, count(*) FROM sold u JOIN (VALUES ('web', 1), ('back', 2)) s (c, n) ON u.channel = s.c"
        " GROUP BY 1, 2",
        "SELECT i.name, sum(u.price) FROM sold u JOIN (items i JOIN shops s ON i.kind = s.region) ON u.item = i.id"
        " WHERE s.id > 3 GROUP BY 1",
        "SELECT rank() OVER (ORDER BY u.price, u.channel, u.item, i.name), u.price FROM sold u JOIN items i"
        " ON u.item = i.id",
        "SELECT u.channel, i.name FROM sold u JOIN items i ON u.item = i.id ORDER BY 1, 2, u.price LIMIT 50",
        # what the query around has evaluated once
        "SELECT u.channel, count(*) FROM sold u JOIN items i ON u.item = i.id"
        " WHERE i.kind < (SELECT max(region) FROM shops) GROUP BY 1",
        "WITH c AS MATERIALIZED (SELECT * FROM items WHERE kind > 1) SELECT u.channel, count(*), min(c.name)"
        " FROM sold u JOIN c ON u.item = c.id GROUP BY 1",
    ],
)
def test_joined(branches: Connection, query: str) -> None:
    found = scanned(branches, query)
    both(branches, query, ALL if "VALUES" not in query else found)


def test_columnar_index(branches: Connection) -> None:
    branches.execute("SET LOCAL pgbillion_rows.columns = force")
    query = "SELECT u.channel, i.name, sum(u.price) FROM sold u JOIN items i ON u.item = i.id GROUP BY 1, 2"
    both(branches, query, ALL)
    assert "Columns: web_" in plans.text(branches, query)
    both(branches, "SELECT channel, count(*), sum(price) FROM sold GROUP BY 1", ALL)
    # columns that an index lacks are fetched only for the rows of joins
    union = "SELECT item, note FROM store WHERE day > 3 UNION ALL SELECT item::bigint, note FROM web"
    both(branches, f"SELECT min(note), count(item) FROM ({union}) u", ["store", "web"])
    both(branches, f"SELECT u.note, i.name FROM ({union}) u JOIN items i ON u.item = i.id", ["store", "web"])


def test_in_parallel(branches: Connection) -> None:
    branches.execute("SET LOCAL max_parallel_workers_per_gather = 2; SET LOCAL parallel_leader_participation = off")
    for query in (
        "SELECT channel, month, count(*), sum(price) FROM sold GROUP BY 1, 2",
        "SELECT u.channel, i.name, count(*), sum(u.price) FROM sold u JOIN items i ON u.item = i.id GROUP BY 1, 2",
        "SELECT u.price, u.channel, i.name FROM sold u JOIN items i ON u.item = i.id",
    ):
        assert "Gather" in plans.text(branches, query)
        both(branches, query, ALL)
    # a function that workers may not call
    branches.execute(
        "CREATE FUNCTION pg_temp.unsafe(integer) RETURNS integer LANGUAGE plpgsql IMMUTABLE"
        " PARALLEL UNSAFE AS 'BEGIN RETURN $1 + 1; END'"
    )
    query = "SELECT m, count(*) FROM ({}) u GROUP BY 1".format(
        "SELECT pg_temp.unsafe(day) AS m FROM store WHERE day > 3 UNION ALL SELECT reason FROM back WHERE day > 1"
    )
    assert "Gather" not in plans.text(branches, query)
    both(branches, query, ["store", "back"])


def test_where_branches_are(branches: Connection) -> None:
    """In a view, a CTE, another subquery, beside whole tables; with a single branch that is left."""
    union = (
        "SELECT 1 AS k, item, price FROM store WHERE day < 50 UNION ALL"
        " (SELECT 2, item::bigint, price FROM web WHERE day > 10 UNION ALL SELECT 3, item, loss FROM back)"
    )
    group = "SELECT k, count(*), sum(price) FROM u GROUP BY 1"
    both(branches, f"WITH u AS ({union}) {group}", ALL)
    both(branches, f"WITH u AS ({union}) SELECT i.name, count(*) FROM u JOIN items i ON u.item = i.id GROUP BY 1", ALL)
    both(branches, f"SELECT count(*) FROM (SELECT * FROM ({union}) v WHERE price > 3) u", ALL)
    both(branches, f"SELECT k, count(*) FROM ({union}) u WHERE k <> 2 GROUP BY 1", ["store", "back"])
    twice = f"WITH u AS ({union}) SELECT (SELECT count(*) FROM u), (SELECT sum(price) FROM u WHERE k = 1)"
    both(branches, twice, [])
    both(branches, f"SELECT sum(price) FROM ({union}) u WHERE k = 4", [])


PARTED = ["parted_1", "parted_2", "parted_3"]


@pytest.mark.parametrize("workers", [0, 2])
def test_partitions(branches: Connection, workers: int) -> None:
    """A branch may read a partitioned table: each partition is scanned and joined on its own."""
    branches.execute(f"SET LOCAL max_parallel_workers_per_gather = {workers}".encode())
    union = (
        "(SELECT 1 AS k, p.item, p.price, p.note FROM parted p WHERE shop > 3 UNION ALL"
        " SELECT d.month, p.item, p.price * 2, d.name FROM parted p JOIN days d ON d.id = p.day UNION ALL"
        " SELECT reason, item, loss, NULL FROM back WHERE day > 5) u"
    )
    joins = f"{union} JOIN items i ON u.item = i.id JOIN shops s ON s.id = u.k"
    for query in (
        f"SELECT k, count(*), sum(price), min(note) FROM {union} GROUP BY 1",
        f"SELECT k, i.name, s.region, count(*), sum(price) FROM {joins} GROUP BY 1, 2, 3",
        f"SELECT u.note, i.name, s.name FROM {joins}",
        f"SELECT u.k, u.item, i.name FROM {union} LEFT JOIN items i ON u.item = i.id AND i.kind > u.k",
    ):
        # with workers, other plans may be as good
        both(branches, query, scanned(branches, query) if workers else ["back", *PARTED, *PARTED])
    # a single one of the partitions
    query = f"SELECT count(*) FROM {union.replace('shop > 3', 'day BETWEEN 100 AND 199')}"
    both(branches, query, ["back", "parted_2", *PARTED])


def test_explained(branches: Connection) -> None:
    """EXPLAIN names the columns of inner sides that belong to the query around."""
    query = (
        "SELECT u.channel, i.name, count(*) FROM sold u JOIN items i ON u.item = i.id AND u.month <> i.kind"
        " GROUP BY 1, 2"
    )
    found = plans.text(branches, query)
    assert "Subquery Scan" not in found
    verbose = "\n".join(line for (line,) in branches.execute(f"EXPLAIN (VERBOSE, COSTS OFF) {query}".encode()))
    assert "i.name" in verbose or "items" in verbose


@pytest.mark.parametrize(
    "union",
    [
        "SELECT item, (random() < 2)::integer::numeric AS price FROM store WHERE day > 3",
        "(SELECT item, price FROM store WHERE day > 3 LIMIT 5000)",
        "SELECT item, max(price) FROM store GROUP BY 1",
        "SELECT DISTINCT item, price FROM store",
        "SELECT item, rank() OVER (ORDER BY price)::numeric FROM store",
        "SELECT item, generate_series(1, 2)::numeric FROM store WHERE day > 3",
        "SELECT item, (SELECT max(region) FROM shops s WHERE s.id = shop)::numeric FROM store WHERE day > 3",
        "SELECT item, i::numeric FROM store, generate_series(1, 2) i",
        "SELECT i::bigint, i::numeric FROM generate_series(1, 200) i",
        "SELECT item, price FROM store TABLESAMPLE bernoulli (100) WHERE day > 3",
        "SELECT item, price FROM store WHERE day > 3 AND random() >= 0",
        "SELECT item, price FROM barrier",
        "SELECT item, price FROM guarded WHERE day > 3",
        "SELECT item, price FROM parted WHERE day > extract(month FROM now()) - 20",
    ],
)
def test_left_to_postgresql(branches: Connection, union: str) -> None:
    """Branches that are none for us: PostgreSQL aggregates them next to the others, and joins them all itself."""
    branches.execute(
        "CREATE VIEW barrier WITH (security_barrier) AS SELECT * FROM store WHERE day > 3;"
        " CREATE TABLE guarded AS TABLE store; ANALYZE guarded; ALTER TABLE guarded ENABLE ROW LEVEL SECURITY;"
        " CREATE POLICY p ON guarded USING (day < 100); ALTER TABLE guarded FORCE ROW LEVEL SECURITY;"
        " CREATE ROLE branches_reader; GRANT SELECT ON ALL TABLES IN SCHEMA public TO branches_reader;"
        " SET LOCAL ROLE branches_reader"
    )
    source = f"({union} UNION ALL SELECT item, loss FROM back WHERE day > 5) u (item, price)"
    query = f"SELECT item, count(*), sum(price) FROM {source}"
    both(branches, f"{query} GROUP BY 1", ["back"])
    both(branches, query.replace("item,", "", 1), ["back"])
    both(branches, f"SELECT DISTINCT item, price FROM {source}", ["back"])
    joined = f"{query} JOIN items i ON i.id = u.item GROUP BY 1".replace("item,", "u.item,", 1)
    both(branches, joined, [])


def test_no_branch_for_us(branches: Connection) -> None:
    query = "SELECT count(*) FROM (SELECT DISTINCT item FROM store UNION ALL (SELECT item FROM back LIMIT 5)) u"
    assert "not vectorized: a subquery with ORDER BY or LIMIT" in plans.reason(branches, query)


def test_rows_that_are_locked(branches: Connection) -> None:
    query = (
        "SELECT count(*) FROM ((SELECT item FROM store WHERE day > 3 {0})"
        " UNION ALL SELECT item FROM back WHERE day > 5) u"
    )
    assert scanned(branches, query.format("")) == ["back", "store"]
    with pytest.raises(psycopg.errors.FeatureNotSupported):
        branches.execute(query.format("FOR UPDATE").encode())


def test_correlated(branches: Connection) -> None:
    """A branch that refers to a row outside runs again for each."""
    both(
        branches,
        "SELECT s.id, (SELECT count(*) FROM (SELECT item FROM store WHERE shop = s.id UNION ALL"
        " SELECT item::bigint FROM web WHERE site = s.id) u JOIN items i ON i.id = u.item) FROM shops s",
        ["store", "web"],
    )
    rows = (
        "SELECT s.id, l.n FROM shops s, LATERAL (SELECT count(*) AS n FROM (SELECT item FROM store WHERE shop = s.id"
        " UNION ALL SELECT item FROM back WHERE reason = s.id) u) l"
    )
    branches.execute("SET LOCAL enable_nestloop = on")
    both(branches, rows, ["store", "back"])


def test_prepared(branches: Connection) -> None:
    """Parameters of a statement reach the branches."""
    branches.execute(
        "SET LOCAL plan_cache_mode = force_generic_plan; PREPARE p (integer, text) AS SELECT u.channel, count(*)"
        " FROM sold u JOIN items i ON u.item = i.id AND i.kind <> $1 WHERE u.note > $2 GROUP BY 1"
    )
    ours = branches.execute("EXECUTE p (3, 'note 2')").fetchall()
    assert sorted(ours) == sorted(
        branches.execute(
            "SELECT u.channel, count(*) FROM sold u JOIN items i ON u.item = i.id AND i.kind <> 3"
            " WHERE u.note > 'note 2' GROUP BY 1"
        ).fetchall()
    )
    plan = "\n".join(line for (line,) in branches.execute("EXPLAIN (COSTS OFF) EXECUTE p (3, 'note 2')"))
    # the note of the third branch is NULL
    assert plan.count("VectorAggregate") == 2, plan


# ---- by chance ----

# of each branch: what it reads, its columns by name, and conditions
SOURCES = {
    "store f": (
        ("f.day", "f.shop"), ("f.item",), ("f.price", "f.price * 2"), ("f.note", "f.note || '!'", "NULL::text"),
    ),
    "store f JOIN days d ON f.day = d.id": (("d.month", "f.shop"), ("f.item",), ("f.price",), ("d.name", "f.note")),
    "store f LEFT JOIN days d ON f.day = d.id AND d.month > 2": (
        ("d.month", "f.shop"), ("f.item",), ("f.price",), ("d.name", "coalesce(d.name, f.note)"),
    ),
    "web f": (("f.day", "f.site::integer"), ("f.item::bigint", "NULL::bigint"), ("f.price", "-f.price"), ("f.note",)),
    "web f JOIN days d ON f.day = d.id": (
        ("d.month", "7"), ("f.item::bigint",), ("f.price",), ("d.name", "'web'::text"),
    ),
    "web f JOIN days d ON f.day = d.id JOIN items j ON j.id = f.item": (
        ("d.month", "j.kind"), ("j.id", "f.item::bigint"), ("f.price",), ("j.name", "d.name"),
    ),
    "back f": (
        ("f.day", "f.reason"), ("f.item", "f.item + 1"), ("f.loss", "0::numeric", "NULL::numeric"), ("'back'::text",),
    ),
    "parted f": (("f.day", "f.shop"), ("f.item",), ("f.price", "-f.price"), ("f.note", "'parts'::text")),
    "parted f JOIN days d ON f.day = d.id": (
        ("d.month", "f.shop"), ("f.item", "f.item + 1"), ("f.price",), ("d.name", "f.note || d.name"),
    ),
    "back f WHERE EXISTS (SELECT FROM items j WHERE j.id = f.item AND j.kind > 1)": (
        ("f.day",), ("f.item",), ("f.loss",), ("'some'::text",),
    ),
}  # fmt: skip
CONDITIONS = (
    "f.day > 40",
    "f.day BETWEEN 10 AND 200",
    "f.item <> 7",
    "f.day IS NOT NULL",
    "f.day % 3 = 1",
    "f.item = 5",
)
ABOVE = (
    "SELECT {g}, count(*), sum(u.p), count(u.k), min(u.t) FROM {u} GROUP BY {g}",
    "SELECT {g}, i.name, count(*), sum(u.p) FROM {u} JOIN items i ON u.k = i.id GROUP BY {g}, i.name",
    "SELECT {g}, count(i.kind), max(i.name) FROM {u} LEFT JOIN items i ON u.k = i.id AND i.kind <> u.g GROUP BY {g}",
    "SELECT u.*, i.name FROM {u} JOIN items i ON u.k = i.id",
    "SELECT u.g, u.t FROM {u} WHERE EXISTS (SELECT FROM items i WHERE i.id = u.k AND i.kind > u.g)",
    "SELECT u.g, u.p FROM {u} WHERE NOT EXISTS (SELECT FROM shops s WHERE s.id = u.g)",
    "SELECT {g}, s.region, count(*), sum(u.p) FROM {u} JOIN items i ON u.k = i.id JOIN shops s ON s.id = u.g"
    " GROUP BY {g}, s.region",
    "SELECT DISTINCT {g} FROM {u}",
    "SELECT {g}, count(*) FROM {u} WHERE u.t > 'Day 3' AND u.g < 90 GROUP BY {g}",
    "SELECT count(*) FROM {u}",
    "SELECT {g}, count(*) FROM {u} JOIN (items i JOIN shops s ON s.id = i.kind) ON u.k = i.id GROUP BY {g}",
    "SELECT u.t, i.name FROM {u} JOIN items i ON u.k = i.id ORDER BY 1, 2 LIMIT 30",
)  # fmt: skip


def generated(chance: random.Random) -> str:
    """A query over a UNION ALL of some branches."""
    parts = []
    for _ in range(chance.choice((2, 2, 3, 4))):
        source = chance.choice(list(SOURCES))
        columns = ", ".join(
            f"{chance.choice(column)} AS {name}" for column, name in zip(SOURCES[source], "gkpt", strict=True)
        )
        where = " AND " if "WHERE" in source else " WHERE "
        condition = where + chance.choice(CONDITIONS) if chance.random() < 0.7 else ""
        parts.append(f"SELECT {columns} FROM {source}{condition}")
    union = " UNION ALL ".join(parts)
    if chance.random() < 0.2:
        union = f"SELECT * FROM ({union}) n WHERE n.g > 2 UNION ALL {parts[0]}"
    keys = chance.choice(("u.g", "u.t", "u.g, u.t", "u.t, u.k"))
    return chance.choice(ABOVE).format(u=f"({union}) u", g=keys)


def test_by_chance(cluster: Cluster, tables: str, tell: Callable[[str], None], counted: Count) -> None:
    chance = random.Random(SEED)
    numbers = {"queries": 0, "explained": 0, "with our scans": 0, "in parallel plans": 0, "with 64 kB": 0}
    with leaving_nothing(cluster, tables), cluster.connect(tables) as conn:
        conn.prepare_threshold = None
        conn.execute(
            "LOAD 'pgbillion_rows'; SET min_parallel_table_scan_size = 0; SET parallel_setup_cost = 0;"
            " SET parallel_tuple_cost = 0; BEGIN"
        )
        for number in range(QUERIES):
            query = generated(chance)
            forced = chance.choice(("force", "force", "on"))
            little = chance.random() < 0.2
            settings = {
                "pgbillion_rows.vector_join": forced,
                "pgbillion_rows.vector_aggregate": forced,
                "pgbillion_rows.columns": chance.choice(("off", "force")),
                "pgbillion_rows.vector_exchange": chance.choice(("on", "force")),
                "work_mem": "'64kB'" if little else "'4MB'",
                "max_parallel_workers_per_gather": chance.choice((0, 0, 0, 0, 0, 2)),
                "search_path": chance.choice(("public", *["small, public"] * 5)),
            }
            before = " ".join(f"SET {name} = {value};" for name, value in settings.items())
            way, text = chance.choice(WAYS), query
            if way == AGAIN and chance.random() < 0.7:
                # other rows each time
                changing = r"\b(FROM|JOIN) (store|web|back|parted) f"
                text = re.sub(changing, r"\1 (SELECT * FROM \2 z WHERE z.day % 3 < again.n) f", query)
            off = f"{before} SET pgbillion_rows.enable = off;"
            core = compared(conn, text, off, before, way, f"seed {SEED}, number {number}")
            assert not isinstance(core, str), f"{core}: {query}"
            numbers["queries"] += 1
            if number % explained_each(QUERIES):
                continue
            conn.execute(f"SAVEPOINT explained; {before}".encode())
            used = bool(scanned(conn, query))
            numbers["explained"] += 1
            numbers["with our scans"] += used
            parallel = used and settings["max_parallel_workers_per_gather"] == 2
            numbers["in parallel plans"] += parallel and any(
                node["Node Type"].startswith("Gather") for node in plans.nodes(plans.explain(conn, query))
            )
            numbers["with 64 kB"] += used and little
            conn.execute("ROLLBACK TO explained")
        conn.execute("ROLLBACK")
    tell(f"seed {SEED}: {numbers}")
    counted(numbers)
    assert numbers["with our scans"] > numbers["explained"] / 3, f"seed {SEED}: {numbers}"

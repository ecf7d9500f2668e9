"""REPACK of PostgreSQL 19, and what rewrites tables before it: columnar indexes, lazy tables and clones."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from harness import catalogs as catalog
from harness import lazy, schema_rows, schemas, servers
from harness.catalogs import Catalogs
from harness.clones import by_commands, dump, prepare, same, some
from harness.lazy import run
from harness.servers import one
from harness.sessions import Running, until_blocked
from pgbillion.common.connection import Connection
from pgbillion.server.postgres import Cluster

pytestmark = pytest.mark.majors

HAS_REPACK = servers.installation().major >= 19
REWRITES = (
    ["REPACK {t}", "REPACK {t} USING INDEX {t}_pkey", "REPACK (CONCURRENTLY) {t}"]
    if HAS_REPACK
    else ["VACUUM FULL {t}", "CLUSTER {t} USING {t}_pkey"]
)
EVERYTHING = ("REPACK", "REPACK USING INDEX") if HAS_REPACK else ("VACUUM FULL", "CLUSTER")
ROWS = "SELECT i % 7, count(*), sum(i), min(word) FROM t GROUP BY 1 ORDER BY 1"

WRITES = (
    "INSERT INTO {t} SELECT i, 'new' FROM generate_series(20001, 21000) i; UPDATE {t} SET word = 'x' WHERE i % 100 = 1"
    "; DELETE FROM {t} WHERE i % 100 = 2; BEGIN; DELETE FROM {t}; ROLLBACK; BEGIN; UPDATE {t} SET i = -i WHERE i < 50"
    "; UPDATE {t} SET word = 'y' WHERE i < 0; COMMIT; INSERT INTO {t} VALUES (-1000000, NULL)"
)


@pytest.fixture
def t(conn: Connection) -> str:
    """A table with rows and dead ones, all of it in a columnar index but for what was deleted."""
    conn.execute("DROP TABLE IF EXISTS t, twin; CREATE TABLE t (i int PRIMARY KEY, word text)")
    conn.execute("INSERT INTO t SELECT i, 'word ' || i % 100 FROM generate_series(1, 20000) i")
    conn.execute("VACUUM t")
    conn.execute("CREATE INDEX t_columns ON t USING columns (i, word) WITH (segment_blocks = 32, refresh_share = 1)")
    conn.execute("DELETE FROM t WHERE i % 3 = 0")
    conn.execute("CREATE TABLE twin AS TABLE t")
    return "t"


def _check(conn: Connection) -> None:
    """The index is right, and after VACUUM it has all of the table again."""
    problems = "SELECT * FROM pgbillion_rows.columns_check('t')"
    readable = "SELECT valid AND readable_blocks = table_blocks FROM pgbillion_rows.columns_status('t')"
    assert conn.execute("TABLE t EXCEPT TABLE twin UNION ALL (TABLE twin EXCEPT TABLE t)").fetchall() == []
    assert conn.execute(problems).fetchall() == []
    conn.execute("VACUUM t")
    conn.execute("CALL pgbillion_rows.columns_refresh('t')")
    assert one(conn, readable)
    assert conn.execute(problems).fetchall() == []
    conn.execute("LOAD 'pgbillion_rows'; SET pgbillion_rows.columns = off; SET pgbillion_rows.vector_aggregate = off")
    wanted = conn.execute(ROWS).fetchall()
    conn.execute("SET pgbillion_rows.columns = force; SET pgbillion_rows.vector_aggregate = force")
    assert "t_columns" in str(conn.execute(f"EXPLAIN {ROWS}").fetchall())
    assert conn.execute(ROWS).fetchall() == wanted


@pytest.mark.parametrize("rewrite", REWRITES)
def test_columnar_index(conn: Connection, t: str, rewrite: str) -> None:
    told: list[str] = []
    conn.add_notice_handler(lambda notice: told.append(notice.message_primary or ""))
    conn.execute(rewrite.format(t="t").encode())
    (notice,) = told
    blocks = one(conn, "SELECT pg_relation_size('t') / 8192")
    # the table's own name, not that of the copy
    assert notice == (
        f'a columnar index of table "t" holds 0 of its {blocks} blocks'
        if "CONCURRENTLY" in rewrite
        else f'index "t_columns" holds 0 of the {blocks} blocks of table "t"'
    )
    _check(conn)


@pytest.fixture
def writer(cluster: Cluster, database: str) -> Iterator[Connection]:
    with cluster.connect(database) as conn:
        yield conn


@pytest.mark.skipif(not HAS_REPACK, reason="no command before PostgreSQL 19 rewrites a table that others write to")
@pytest.mark.parametrize("place", ["before", "after"])
def test_rows_written_during_the_rewrite(
    conn: Connection, t: str, writer: Connection, cluster: Cluster, database: str, place: str
) -> None:
    """The rewrite is stopped as it builds another index, before or after the columnar one."""
    conn.execute(
        "CREATE OR REPLACE FUNCTION public.stop(integer) RETURNS integer IMMUTABLE LANGUAGE plpgsql AS"
        " $$BEGIN IF current_setting('test.stop', true) = 'here' THEN PERFORM pg_advisory_lock_shared(1); END IF;"
        " RETURN $1; END$$"
    )
    # indexes are built in the order of their OIDs
    conn.execute("CREATE INDEX stops ON t (public.stop(i))")
    if place == "before":
        conn.execute("REINDEX INDEX t_columns")
        conn.execute("DROP INDEX t_columns; CREATE INDEX t_columns ON t USING columns (i, word)")
    with cluster.connect(database) as repacking:
        repacking.execute("SET test.stop = 'here'")
        conn.execute("SELECT pg_advisory_lock(1)")
        running = Running(lambda: repacking.execute("REPACK (CONCURRENTLY) t"))
        until_blocked(conn, repacking, running)
        for table in ("t", "twin"):
            run(writer, WRITES.replace("{t}", table))
        conn.execute("SELECT pg_advisory_unlock(1)")
        running.result()
    conn.execute("DROP INDEX stops")
    _check(conn)
    conn.execute("INSERT INTO t VALUES (-2000000, 'last'); INSERT INTO twin VALUES (-2000000, 'last')")
    _check(conn)


@pytest.mark.parametrize("rewrite", REWRITES)
def test_lazy_tables(conn: Connection, catalogs: Catalogs, rewrite: str) -> None:
    """Without rows they stay as they are; with rows they are heap tables like any other."""
    for schema, method in (("as_heap", "heap"), ("as_lazy", "lazy_heap")):
        run(conn, f"CREATE SCHEMA {schema}; SET search_path = {schema}; SET default_table_access_method = {method}")
        conn.execute("CREATE TABLE empty (i int PRIMARY KEY, b text); CREATE TABLE filled (LIKE empty INCLUDING ALL)")
        conn.execute("INSERT INTO filled SELECT i, repeat('x', 100000) FROM generate_series(1, 3) i")
        conn.execute("DELETE FROM filled WHERE i = 2")
        conn.execute(rewrite.format(t="filled").encode())
        assert conn.execute("SELECT i, length(b) FROM filled ORDER BY i").fetchall() == [(1, 100000), (3, 100000)]
    if "CONCURRENTLY" in rewrite:
        with pytest.raises(psycopg.errors.FeatureNotSupported, match="empty"):
            conn.execute("REPACK (CONCURRENTLY) empty")
    else:
        conn.execute(rewrite.format(t="empty").encode())
    assert lazy.state(conn, "empty") == "lazy"
    conn.execute("INSERT INTO empty VALUES (1, 'first')")
    assert lazy.state(conn, "empty") == lazy.state(conn, "filled") == "heap"
    conn.execute(rewrite.format(t="empty").encode())
    assert conn.execute("SELECT * FROM empty").fetchall() == [(1, "first")]
    run(conn, "SET search_path = as_heap; INSERT INTO empty VALUES (1, 'first')")
    conn.execute(rewrite.format(t="empty").encode())
    for table in ("empty", "filled"):
        heap, was_lazy = (catalog.family(conn, catalogs, f"{schema}.{table}") for schema in ("as_heap", "as_lazy"))
        assert catalog.difference(heap, was_lazy) == []


@pytest.mark.parametrize("command", EVERYTHING)
def test_all_tables_of_a_database(conn: Connection, command: str) -> None:
    conn.execute("CREATE TABLE empty (i int PRIMARY KEY) USING lazy_heap; CREATE TABLE heap (i int PRIMARY KEY)")
    conn.execute("ALTER TABLE empty CLUSTER ON empty_pkey; ALTER TABLE heap CLUSTER ON heap_pkey")
    conn.execute("INSERT INTO heap VALUES (2), (1)")
    conn.execute(command.encode())
    assert lazy.state(conn, "empty") == "lazy"
    run(conn, "INSERT INTO empty VALUES (1); DROP TABLE empty, heap")


@pytest.mark.parametrize("rewrite", REWRITES)
def test_templates_with_a_kept_stamp(
    cluster: Cluster, database: str, conn: Connection, catalogs: Catalogs, rewrite: str
) -> None:
    """A rewritten template's stamp is made anew, and clones are the same as before; rewritten ones are, too."""
    schemas.make_outside(conn)
    schemas.make_schema(conn, "model", schemas.APPLICATION + "; CREATE TABLE small (i int PRIMARY KEY, b text)")
    conn.execute("INSERT INTO model.small VALUES (1, 'in the template')")
    some(conn, "model", "tenant%d", 1, 3)
    assert prepare(conn, "model")
    assert not by_commands(conn, "model", "stamped")
    conn.execute("SET search_path = model")
    conn.execute(rewrite.format(t="small").encode())
    conn.execute("RESET search_path")
    assert by_commands(conn, "model", "later")
    assert prepare(conn, "model")
    assert not by_commands(conn, "model", "stamped_later")
    conn.execute("INSERT INTO stamped.small VALUES (1, 'in the clone')")
    conn.execute("SET search_path = stamped")
    conn.execute(rewrite.format(t="small").encode())
    conn.execute("RESET search_path")
    assert one(conn, "SELECT b FROM stamped.small") == "in the clone"
    same(schema_rows.rows(conn, catalogs, "stamped_later"), schema_rows.rows(conn, catalogs, "later"))
    for name in ("stamped", "later", "stamped_later"):
        assert dump(cluster, database, name) == dump(cluster, database, "model")

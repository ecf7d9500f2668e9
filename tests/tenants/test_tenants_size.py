"""`pgbillion tenants size` and `tablespace`: what schemas take, and where they lie."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from harness import schemas, servers
from harness.command_line import CommandLine, command_line, failed
from harness.servers import one
from pgbillion.common.connection import Connection
from pgbillion.server.postgres import Cluster

TENANT = """
    CREATE TABLE a (i serial PRIMARY KEY, t text);
    CREATE TABLE b (a integer REFERENCES a, t text) PARTITION BY RANGE (a);
    CREATE TABLE b1 PARTITION OF b FOR VALUES FROM (0) TO (1000);
    CREATE INDEX ON b (t);
    CREATE MATERIALIZED VIEW m AS SELECT g FROM generate_series(1, 1000) g;
    CREATE INDEX ON m (g);
    CREATE UNLOGGED TABLE u (i integer);
    CREATE VIEW v AS TABLE a;
"""


@pytest.fixture
def cli(cluster: Cluster) -> Iterator[CommandLine]:
    with servers.new_database(cluster, "tenants") as database, command_line(cluster, database) as made:
        with made.connect() as conn:
            for name in ("tenant_1", "tenant_2", "tenant_3"):
                schemas.make_schema(conn, name, TENANT)
            conn.execute("INSERT INTO tenant_2.a SELECT g, repeat(md5(g::text), 100) FROM generate_series(1, 3000) g")
            conn.execute("ALTER TABLE tenant_2.a ALTER t SET STORAGE EXTERNAL")
            conn.execute("INSERT INTO tenant_2.a SELECT g, repeat('x', 3000) FROM generate_series(3001, 3100) g")
            conn.execute("VACUUM ANALYZE tenant_2.a")
            conn.execute("CREATE TABLE tenant_3.lazy (i integer, t text) USING lazy_heap")
        yield made


def lies(conn: Connection, schema: str) -> dict[str, str]:
    """Where relations are."""
    rows = conn.execute(
        "SELECT c.relname, coalesce(t.spcname, 'default') FROM pg_class c LEFT JOIN pg_tablespace t"
        " ON t.oid = c.reltablespace WHERE c.relnamespace = %s::regnamespace AND c.relkind NOT IN ('v', 'S', 'c')",
        [schema],
    )
    return dict(rows.fetchall())


@pytest.mark.majors
def test_size_is_what_postgresql_says(cli: CommandLine) -> None:
    found = cli.json("tenants", "size", "tenant_*", "-j", "2")
    assert [tenant["name"] for tenant in found["tenants"]] == ["tenant_2", "tenant_3", "tenant_1"]
    with cli.connect() as conn:
        conn.execute("SET search_path = tenant_2")
        largest = found["tenants"][0]
        assert largest["total"] == one(
            conn,
            "SELECT sum(pg_total_relation_size(oid))::int8 FROM pg_class"
            " WHERE relnamespace = 'tenant_2'::regnamespace AND relkind IN ('r', 'm', 'S')",
        )
        assert largest["indexes"] == one(
            conn,
            "SELECT sum(pg_indexes_size(oid))::int8 FROM pg_class"
            " WHERE relnamespace = 'tenant_2'::regnamespace AND relkind IN ('r', 'm')",
        )
        assert largest["toast"] == one(
            conn, "SELECT sum(pg_total_relation_size(reltoastrelid))::int8 FROM pg_class"
            " WHERE relnamespace = 'tenant_2'::regnamespace AND reltoastrelid <> 0",
        )  # fmt: skip
        assert largest["sequences"] == 8192
        assert (largest["tables"], largest["lazy"], largest["rows"]) == (4, 0, 4100)
        # a role that may not look at files is told the same, except how many files there are
        conn.execute("CREATE ROLE clerk LOGIN")
    try:
        less = cli.json("tenants", "size", "tenant_*", "-U", "clerk")
    finally:
        with cli.connect() as conn:
            conn.execute("DROP ROLE clerk")
    for tenant in [*found["tenants"], found["total"]]:
        tenant["files"] = None
    assert less == found
    assert found["total"]["tenants"] == 3


def test_size_counts_files_and_lazy_tables(cli: CommandLine) -> None:
    first, second, third = sorted(cli.json("tenants", "size", "tenant_*")["tenants"], key=lambda one: one["name"])
    # the index of the lazy table's TOAST table is a file
    assert (third["lazy"], third["tables"], third["files"]) == (1, 5, first["files"] + 1)
    with cli.connect() as conn:
        files = """
            SELECT count(*)
              FROM pg_class c
              JOIN pg_ls_dir('base/' || (SELECT oid FROM pg_database WHERE datname = current_database())) f
                ON split_part(split_part(f, '_', 1), '.', 1) = c.relfilenode::text
              LEFT JOIN pg_index x ON x.indexrelid = c.oid
             WHERE c.relfilenode > 1
               AND n.oid IN (SELECT r.relnamespace FROM pg_class r
                              WHERE r.oid = c.oid OR r.reltoastrelid IN (c.oid, x.indrelid))
        """
        counted = conn.execute(f"SELECT ({files}) FROM pg_namespace n WHERE nspname LIKE 'tenant%' ORDER BY nspname")
        assert [number for (number,) in counted] == [first["files"], second["files"], third["files"]]
    assert second["files"] > first["files"], "free space and visibility"
    lines = cli.run("tenants", "size", "tenant*", "--sort", "name", "--limit", "2", check=True)
    assert [line.split()[0] for line in lines.stdout.splitlines()] == ["tenant", "tenant_1", "tenant_2", "total"]
    assert "2 of 3 tenants shown" in lines.stderr
    failed(cli.run("tenants", "size", "nobody"), 1, 'no schema matches "nobody"')
    failed(cli.run("tenants", "size", "tenant*", "--sort", "age"), 1, "'age' is not one of")


def test_size_counts_all_segments(cli: CommandLine) -> None:
    with cli.connect() as conn:
        path = cli.cluster.data / one(conn, "SELECT pg_relation_filepath('tenant_1.b1')")
    further = path.with_name(f"{path.name}.1")
    before = cli.json("tenants", "size", "tenant_1")["total"]
    assert path.stat().st_size == 0
    try:
        os.truncate(path, 1 << 30)
        further.write_bytes(bytes(8192))
        after = cli.json("tenants", "size", "tenant_1")["total"]
    finally:
        further.unlink()
        os.truncate(path, 0)
    assert (after["heap"], after["files"]) == (before["heap"] + (1 << 30) + 8192, before["files"] + 1)


def test_size_without_relations(cli: CommandLine) -> None:
    with cli.connect() as conn:
        conn.execute("CREATE SCHEMA bare")
    assert cli.json("tenants", "size", "bare")["total"] == {
        "tenants": 1, "tables": 0, "lazy": 0, "rows": 0, "heap": 0, "indexes": 0, "toast": 0, "sequences": 0,
        "files": 0, "total": 0,
    }  # fmt: skip


@pytest.mark.majors
def test_tablespace_moves_all_and_leaves_what_is_there(cli: CommandLine) -> None:
    done = cli.json("tenants", "tablespace", "tenant_?", "space1", "-j", "2")
    assert (done["tenants"], done["before"], done["failures"]) == (3, 0, [])
    with cli.connect() as conn:
        for name in ("tenant_1", "tenant_2", "tenant_3"):
            assert set(lies(conn, name).values()) == {"space1"}
        assert one(conn, "SELECT count(*) FROM tenant_2.a") == 3100
        conn.execute("INSERT INTO tenant_3.lazy VALUES (1, 'x')")
        assert lies(conn, "tenant_3")["lazy"] == "space1"
        files = "SELECT array_agg(pg_relation_filenode(oid) ORDER BY oid) FROM pg_class WHERE relname ~ '^[abmu]'"
        before = one(conn, files)
        conn.execute("ALTER TABLE tenant_1.a SET TABLESPACE pg_default")
        again = cli.json("tenants", "tablespace", "tenant_*", "space1")
        assert (again["moved"], again["before"]) == (1, done["moved"] - 1)
        assert one(conn, files) != before
        cli.run("tenants", "tablespace", "tenant*", "pg_default", check=True)
        assert set(lies(conn, "tenant_2").values()) == {"default"}
    assert cli.run("tenants", "tablespace", "tenant*", "pg_default", check=True).stdout.startswith(
        "0 relations of 3 tenants moved, "
    )


def test_tablespace_reports_what_it_cannot_move(cli: CommandLine) -> None:
    failed(cli.run("tenants", "tablespace", "tenant*", "nowhere"), 1, 'no tablespace "nowhere"')
    failed(cli.run("tenants", "tablespace", "tenant*", "pg_global"), 1, "for what databases share")
    failed(cli.run("tenants", "tablespace", "tenant*", "space1", "--lock-timeout", "soon"), 1, "is no time")
    with cli.connect() as conn:
        conn.execute("CREATE ROLE clerk LOGIN")
        try:
            failed(cli.run("tenants", "tablespace", "tenant*", "space1", "-U", "clerk"), 3, "no privilege to create in")
        finally:
            conn.execute("DROP ROLE clerk")
        with conn.transaction():
            conn.execute("LOCK TABLE tenant_2.a IN ACCESS SHARE MODE")
            done = cli.run("tenants", "tablespace", "tenant*", "space2", "--lock-timeout", "20ms", "--retries", "1")
        assert done.returncode == 1
        assert done.stderr.splitlines() == ["failed: tenant_2.a: canceling statement due to lock timeout"]
        assert lies(conn, "tenant_2")["a"] == "default"
        assert {where for name, where in lies(conn, "tenant_2").items() if name != "a"} == {"space2"}
    assert cli.run("tenants", "tablespace", "tenant*", "space2", check=True).stdout.startswith("1 relation of")


def test_tablespace_can_be_interrupted(cli: CommandLine) -> None:
    with cli.connect() as conn:
        conn.autocommit = False
        conn.execute("LOCK TABLE tenant_2.a IN ACCESS SHARE MODE")
        with cli.started("tenants", "tablespace", "tenant*", "space1", "--lock-timeout", "1h") as process:
            waits = (
                "SELECT EXISTS (SELECT FROM pg_stat_activity"
                " WHERE application_name = 'pgbillion tenants tablespace' AND wait_event_type = 'Lock')"
            )
            with cli.connect() as watcher:
                servers.until(lambda: one(watcher, waits), "tablespace to wait")
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 130
        conn.rollback()
    assert cli.json("tenants", "tablespace", "tenant*", "space1")["failures"] == []

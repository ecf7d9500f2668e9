"""Tenants are dropped whatever they have in them, on a server with little room for locks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psycopg
import pytest

from harness import servers
from harness.servers import one
from pgbillion.common.connection import Connection
from pgbillion.common.errors import UserError
from pgbillion.common.target import Target
from pgbillion.server.postgres import Cluster, Installation
from pgbillion.tenants import journal, lock_table, manage

SETTINGS = {
    "max_locks_per_transaction": "10",
    "max_connections": "20",
    "max_prepared_transactions": "0",
    "max_worker_processes": "2",
    "max_wal_senders": "0",
    "autovacuum_max_workers": "1",
}


@contextmanager
def unseen(total: int) -> Iterator[Callable[[int], None]]:
    yield lambda done: None


@pytest.fixture(scope="module")
def small(installation: Installation) -> Iterator[Cluster]:
    with servers.new_cluster(installation, SETTINGS) as cluster:
        yield cluster


def made(conn: Connection, name: str, tables: int) -> None:
    """A schema of tables that refer to each other, in transactions that have few locks each."""
    conn.execute(f"CREATE SCHEMA {name}".encode())
    for number in range(tables):
        refers = f", r integer REFERENCES {name}.t{number - 1}" if number else ""
        conn.execute(f"CREATE TABLE {name}.t{number} (i serial PRIMARY KEY, t text UNIQUE{refers})".encode())
        conn.execute(f"CREATE FUNCTION {name}.f{number}() RETURNS integer LANGUAGE sql AS 'SELECT 1'".encode())
    conn.execute(f"CREATE VIEW {name}.v AS SELECT * FROM {name}.t0".encode())
    conn.execute(f"CREATE DOMAIN {name}.d AS text; CREATE TYPE {name}.r AS RANGE (SUBTYPE = text)".encode())
    conn.execute(f"CREATE AGGREGATE {name}.a(integer) (SFUNC = int4pl, STYPE = integer)".encode())
    conn.execute(f"CREATE TABLE {name}.p (k integer GENERATED ALWAYS AS IDENTITY) PARTITION BY LIST (k)".encode())
    conn.execute(f"CREATE TABLE {name}.p1 PARTITION OF {name}.p FOR VALUES IN (1)".encode())


def test_tenants_that_do_not_fit_together_or_at_all(small: Cluster) -> None:
    target = Target(small.conninfo("postgres"), "test")
    with target.connect() as conn:
        journal.make(conn)
        names = [f"tenant_{number}" for number in range(6)]
        for number, name in enumerate(names):
            # two of the ordinary ones are too many at the same time, the last one is too large
            made(conn, name, 60 if number == 5 else 7)
            conn.execute("INSERT INTO pgbillion_journal.migration VALUES (%s, 'm', 0, '', true, now())", [name])
        room = lock_table.LockTable(conn)
        with conn.transaction():
            wanted = {name: lock_table.needed(conn, name) for name in names}
        assert room.room / 2 < wanted["tenant_0"] <= room.room < wanted["tenant_5"]
        with pytest.raises(psycopg.errors.OutOfMemory):
            conn.execute("DROP SCHEMA tenant_5 CASCADE")

        # as a whole or in parts, what others have is not dropped with it
        conn.execute("CREATE VIEW public.outside AS SELECT * FROM tenant_5.t3")
        with pytest.raises(UserError, match=r"view public.outside depends on column i of table tenant_5.t3"):
            manage.drop(target, ["tenant_5"], 1, cascade=False, observe=unseen)
        assert one(conn, "SELECT count(*) FROM pg_class WHERE relnamespace = 'tenant_5'::regnamespace") > 100
        conn.execute("DROP VIEW public.outside")

        assert manage.drop(target, names, 3, cascade=False, observe=unseen) == 6
        assert one(conn, "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'tenant%%'") == 0
        assert one(conn, "SELECT count(*) FROM pgbillion_journal.migration") == 0


def test_others_have_taken_the_lock_table(small: Cluster) -> None:
    target = Target(small.conninfo("postgres"), "test")
    with target.connect() as conn, target.connect() as other:
        made(conn, "beside", 20)
        made(conn, "tenant", 7)
        taken = 0
        other.execute("BEGIN")
        while taken < 1000000:
            other.execute("SAVEPOINT s")
            try:
                other.execute("SELECT count(pg_advisory_xact_lock(i + %s)) FROM generate_series(1, 20) AS i", [taken])
            except psycopg.errors.OutOfMemory:
                other.execute("ROLLBACK TO s")
                break
            taken += 20
        # so that fewer are left than the tenant has objects
        other.execute("ROLLBACK; BEGIN")
        other.execute("SELECT count(pg_advisory_xact_lock(i)) FROM generate_series(1, %s) AS i", [taken - 60])
        assert manage.drop(target, ["tenant"], 1, cascade=False, observe=unseen) == 1
        other.execute("ROLLBACK")
        assert one(conn, "SELECT to_regnamespace('tenant')") is None

"""Clones of schemas on another server: a physical standby has them."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from psycopg import errors

from clone_support import dump, same, some
from harness import invariants, schema_rows, schemas, servers
from harness import standby as physical
from harness.catalogs import Catalogs
from harness.servers import one
from pgbillion.server.postgres import Installation

Connection = psycopg.Connection[tuple[Any, ...]]

TEMPLATES = ("application", "partitions", "constraints", "storage", "rules", "privileges")
METHODS = ("heap", "lazy_heap")
CLONES = 4  # of which two are by commands, unless a stamp is kept
SIGN_UP = "INSERT INTO customer (name) VALUES ('x'); INSERT INTO invoice (customer, net) SELECT id, 7 FROM customer"


@pytest.mark.parametrize("level", ["replica", "logical"])
def test_a_standby_has_the_clones(installation: Installation, level: str) -> None:
    with servers.new_cluster(installation, {"wal_level": level}) as primary, physical.standby(primary) as standby:
        with primary.connect() as conn:
            servers.make_shared_objects(conn)
            conn.execute("CREATE DATABASE work")
        with primary.connect("work") as conn:
            schemas.make_outside(conn)
            for name in TEMPLATES:
                schemas.make_schema(conn, name, schemas.KINDS[name])
            with standby.connect() as first:
                physical.replayed(conn, first)
            with standby.connect("work") as there:
                clones = _clone(conn)
                physical.replayed(conn, there)
                catalogs = Catalogs.load(there)
                for template, name in clones:
                    same(_rows(there, catalogs, name), _rows(conn, catalogs, name))
                    if name.endswith(("_2", "_3")):
                        same(_rows(there, catalogs, name), _rows(there, catalogs, f"{template}_heap_1"))
                assert invariants.index_errors(there, parents=False) == []
                assert invariants.reference_errors(there) == []
                # with and without a file
                for method in METHODS:
                    assert one(there, f"SELECT count(*) FROM application_{method}_3.customer") == 1
                    assert one(there, f"SELECT count(*) FROM application_{method}_4.invoice") == 0
                    assert one(there, f"SELECT sum(total) FROM application_{method}_3.unpaid") is not None
                assert dump(standby, "work", "application_lazy_heap_4") == dump(
                    primary, "work", "application_lazy_heap_4"
                )
                with pytest.raises(errors.ReadOnlySqlTransaction):
                    some(there, "application", "x%d", 1, 3)
                assert one(there, "SELECT pg_promote()")
                primary.stop()
                for template, name in clones:
                    if template == "application" and name[-1] != "3":
                        there.execute(f"SET search_path = {name}; {SIGN_UP}")
                        assert one(there, "SELECT count(*) FROM log") == 1
                there.execute("RESET search_path")
                some(there, "application", "later_%d", 1, 3)
                same(_rows(there, catalogs, "later_3"), _rows(there, catalogs, "application_heap_1"))


def _clone(conn: Connection) -> list[tuple[str, str]]:
    clones = []
    for template in TEMPLATES:
        for method in METHODS:
            called = "SELECT pgbillion_tables.clone_schemas(%s::regnamespace, %s, 1, %s, %s)"
            for end in ("ROLLBACK", "COMMIT"):
                conn.execute("BEGIN")
                one(conn, called, template, f"{template}_{method}_%d", CLONES, method)
                conn.execute(end)
            clones += [(template, f"{template}_{method}_{n}") for n in range(1, CLONES + 1)]
    for method in METHODS:
        conn.execute(f"SET search_path = application_{method}_3; {SIGN_UP}; RESET search_path")
    return clones


def _rows(conn: Connection, catalogs: Catalogs, schema: str) -> list[str]:
    # whether a table is lazy is a difference between clones of both methods, and a first row's
    return [
        row
        for row in schema_rows.rows(conn, catalogs, schema, trees=False)
        if not row.startswith(("pg_class", "pg_depend", "pg_shdepend"))
    ]

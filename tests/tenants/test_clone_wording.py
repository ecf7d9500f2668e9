"""Clones of definitions that PostgreSQL shows in another wording once they have been made from their text."""

from __future__ import annotations

import psycopg
import pytest

from harness import schemas
from harness.clones import clone, dump, prepare, some
from pgbillion.common.connection import Connection
from pgbillion.server.postgres import Cluster

# what makes the catalog rows of a clone others, so that commands are compared
DROPPED = """
ALTER TABLE t ADD gone integer;
ALTER TABLE t DROP gone;
ALTER TABLE t ADD late varchar(3) CHECK (late IN ('a', 'b'));
"""


@pytest.mark.parametrize("more", ["", DROPPED])
def test_a_clone_is_worded_as_after_a_restore(cluster: Cluster, database: str, conn: Connection, more: str) -> None:
    schemas.make_schema(conn, "model", schemas.WORDED + more)
    clone(conn, "model", "tenant")
    clone(conn, "tenant", "again")
    # a few take two steps
    clone(conn, "again", "at_last")
    assert dump(cluster, database, "again") == dump(cluster, database, "at_last")
    assert prepare(conn, "model")
    some(conn, "model", "many%d", 1, 4)
    assert dump(cluster, database, "many4") == dump(cluster, database, "tenant")
    conn.execute("INSERT INTO tenant.t (id, kind, x, y) VALUES (1, 'a', 1, 11)")
    with pytest.raises(psycopg.errors.CheckViolation):
        conn.execute("INSERT INTO tenant.t (id, kind) VALUES (2, 'c')")


@pytest.mark.parametrize(
    ("made", "changed"),
    [
        ("kind IN ('a', 'b')", "kind IN ('a', 'c')"),
        ("kind IN ('a', 'b')", "kind NOT IN ('a', 'b')"),
        ("x BETWEEN 1 AND 2 AND y > 1", "x BETWEEN 1 AND 2 OR y > 1"),
        ("(x = 1 OR y = 1) AND x > 0", "x = 1 OR (y = 1 AND x > 0)"),
        ("x > -1::integer", "x > 1"),
        ("kind = 'a'", "kind = 'a '"),
    ],
)
def test_other_definitions_are_other_ones_in_any_wording(conn: Connection, made: str, changed: str) -> None:
    """As far as fingerprints tell."""
    for name, condition in (("one", made), ("two", changed), ("three", made)):
        schemas.make_schema(
            conn, name, f"CREATE TABLE t (x int, y int, kind varchar(5), CONSTRAINT c CHECK ({condition}))"
        )
    clone(conn, "one", "four")
    found: dict[str, str] = dict(
        conn.execute(
            "SELECT schema::regnamespace::text, fingerprint FROM pgbillion_tables.schema_fingerprints"
            "(ARRAY['one', 'two', 'three', 'four']::regnamespace[]::oid[])"
        ).fetchall()
    )
    assert found["one"] == found["three"] == found["four"] != found["two"]

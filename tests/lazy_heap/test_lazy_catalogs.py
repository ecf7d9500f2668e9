"""What the catalogues say of a table that was lazy: after its first row exactly what they say of a heap table."""

from __future__ import annotations

import pytest
from psycopg import errors

from harness import catalogs as catalog
from harness import invariants, lazy
from harness.catalogs import Catalogs
from harness.lazy import run
from harness.servers import one
from pgbillion.common.connection import Connection

pytestmark = pytest.mark.majors

METHODS = {"as_heap": "heap", "as_lazy": "lazy_heap"}

# whose the table is and who may use it, before it has a row
OWNERS = {
    "plain": "",
    "grants": "GRANT SELECT ON t TO reader; GRANT UPDATE (b), SELECT (i) ON t TO reader; ALTER TABLE t OWNER TO maker",
    "granted_on": "GRANT SELECT ON t TO maker WITH GRANT OPTION; SET ROLE maker; GRANT SELECT ON t TO reader;"
    " RESET ROLE",
}
# what happens to it before its first row, and after
EVENTS = {
    "none": "",
    "to_heap": "SELECT pgbillion_tables.to_heap('{t}')",
    "rolled_back": "BEGIN; INSERT INTO t VALUES (7, 'x'); ROLLBACK; BEGIN; SAVEPOINT s; INSERT INTO t VALUES (7, 'x');"
    " ROLLBACK TO s; COMMIT",
    "moved": "ALTER TABLE t SET TABLESPACE space2",
    "moved_to_default": "ALTER TABLE t SET TABLESPACE pg_default",
    "moved_twice": "ALTER TABLE t SET TABLESPACE pg_default; ALTER TABLE t SET TABLESPACE space2",
    "truncated": "TRUNCATE t",
    "vacuum_full": "VACUUM FULL t",
    "cluster": "CREATE INDEX x ON t (i); CLUSTER t USING x",
    "rewritten": "ALTER TABLE t ALTER i TYPE bigint",
    "rewritten_by_default": "ALTER TABLE t ADD v float DEFAULT random()",
    "moved_and_rewritten": "ALTER TABLE t SET TABLESPACE space2, ALTER i TYPE bigint",
    "moved_to_default_and_rewritten": "ALTER TABLE t SET TABLESPACE pg_default, ALTER i TYPE bigint",
    "unlogged": "ALTER TABLE t SET UNLOGGED; ALTER TABLE t SET LOGGED",
    "set_heap": "ALTER TABLE t SET ACCESS METHOD heap",
    "toast": "ALTER TABLE t ADD more text",
    "given_away": "ALTER TABLE t OWNER TO maker; GRANT SELECT ON t TO reader; ALTER TABLE t OWNER TO reader",
    "vacuum": "VACUUM FREEZE t; ANALYZE t",
}


def _make(conn: Connection, schema: str, space: str, owner: str) -> None:
    run(conn, f"CREATE SCHEMA {schema}; GRANT ALL ON SCHEMA {schema} TO maker, reader; SET search_path = {schema}")
    conn.execute("SELECT set_config('default_table_access_method', %s, false)", [METHODS[schema]])
    if owner == "default_privileges":
        conn.execute(f"ALTER DEFAULT PRIVILEGES IN SCHEMA {schema} GRANT SELECT, INSERT ON TABLES TO reader")
    conn.execute(f"CREATE TABLE t (i int, b text) {f'TABLESPACE {space}' if space else ''}")
    run(conn, OWNERS.get(owner, ""))


def _compare(conn: Connection, catalogs: Catalogs) -> list[str]:
    heap, was_lazy = (catalog.family(conn, catalogs, f"{schema}.t") for schema in METHODS)
    return [
        *catalog.difference(heap, was_lazy),
        *invariants.reference_errors(conn),
    ]


@pytest.mark.parametrize("space", ["", "space1"], ids=["default", "space1"])
@pytest.mark.parametrize(
    ("event", "owner"),
    [(event, "grants") for event in EVENTS]
    + [(event, owner) for event in ("none", "to_heap", "moved") for owner in (*OWNERS, "default_privileges")],
)
def test_as_a_heap_table_after_the_first_row(
    conn: Connection, catalogs: Catalogs, event: str, owner: str, space: str
) -> None:
    """Before it, too, nothing of owners and grants is missing; nor when the same happens to the heap."""
    for schema in METHODS:
        _make(conn, schema, space, owner)
        run(conn, EVENTS[event])
        assert invariants.reference_errors(conn) == []
        run(conn, "INSERT INTO t (i, b) VALUES (1, repeat('x', 100000))")
        assert lazy.state(conn, "t") == "heap"
    assert _compare(conn, catalogs) == []
    for schema in METHODS:
        run(conn, f"SET search_path = {schema}; {EVENTS[event].replace('INDEX x', 'INDEX x2').replace('INDEX v ', '')}"
            if event not in ("rewritten_by_default", "toast") else f"SET search_path = {schema}")  # fmt: skip
    assert _compare(conn, catalogs) == []


@pytest.mark.parametrize("space", ["", "space1"], ids=["default", "space1"])
def test_materialized_view_and_partitions(conn: Connection, catalogs: Catalogs, space: str) -> None:
    tablespace = f"TABLESPACE {space}" if space else ""
    for kind in ("view", "partition"):
        for schema, method in METHODS.items():
            run(conn, f"DROP SCHEMA IF EXISTS {schema} CASCADE; CREATE SCHEMA {schema}; SET search_path = {schema}")
            run(conn, f"SET default_table_access_method = {method}")
            if kind == "view":
                conn.execute(f"CREATE MATERIALIZED VIEW t {tablespace} AS SELECT 1 AS i, ''::text AS b WITH NO DATA")
                run(conn, "GRANT SELECT ON t TO reader; ALTER MATERIALIZED VIEW t OWNER TO maker")
                run(conn, f"GRANT ALL ON SCHEMA {schema} TO maker; REFRESH MATERIALIZED VIEW t")
            else:
                run(conn, "CREATE TABLE p (i int, b text) PARTITION BY RANGE (i)")
                run(conn, f"CREATE TABLE t PARTITION OF p DEFAULT {tablespace}; GRANT SELECT ON t TO reader")
                run(conn, "ALTER TABLE t OWNER TO maker; INSERT INTO p VALUES (1, repeat('x', 100000))")
            if method == "lazy_heap":
                assert lazy.state(conn, "t") == "heap"
        assert _compare(conn, catalogs) == [] if kind == "view" else invariants.reference_errors(conn) == []
    run(conn, "; ".join(f"DROP SCHEMA {schema} CASCADE" for schema in METHODS))


def test_name_of_a_rewrite_takes_no_partitioned_table_its_tablespace(conn: Connection) -> None:
    run(conn, "CREATE SCHEMA s; SET search_path = s; CREATE TABLE p (i int) PARTITION BY RANGE (i) TABLESPACE space1")
    recorded = (
        "SELECT count(*) FROM pg_shdepend WHERE deptype = 't' AND classid = 'pg_class'::regclass"
        " AND objid = 'p'::regclass"
    )
    assert one(conn, recorded) == 1
    oid = one(conn, "SELECT 'p'::regclass::oid")
    run(conn, f"CREATE TABLE pg_temp_{oid} (i int) USING lazy_heap; INSERT INTO pg_temp_{oid} VALUES (1)")
    assert one(conn, recorded) == 1


def test_owner_of_a_table_in_a_tablespace_cannot_be_dropped(conn: Connection) -> None:
    run(conn, "CREATE SCHEMA s; SET search_path = s; CREATE ROLE brief; CREATE ROLE heir; CREATE ROLE friend")
    for name in ("a", "b"):
        run(
            conn,
            f"CREATE TABLE {name} (i int, b text) USING lazy_heap TABLESPACE space1; GRANT ALL ON {name} TO friend",
        )
        run(conn, f"ALTER TABLE {name} OWNER TO brief; INSERT INTO {name} VALUES (1)")
    for role in ("brief", "friend"):
        with pytest.raises(errors.DependentObjectsStillExist):
            conn.execute(f"DROP ROLE {role}")
    run(conn, "REASSIGN OWNED BY brief TO heir; DROP OWNED BY friend; DROP ROLE brief; DROP ROLE friend")
    assert one(conn, "SELECT relowner::regrole::text FROM pg_class WHERE oid = 'a'::regclass") == "heir"
    run(conn, "DROP OWNED BY heir; DROP ROLE heir")
    assert one(conn, "SELECT to_regclass('s.a')") is None


def test_created_in_bulk(conn: Connection) -> None:
    run(
        conn, "CREATE SCHEMA s; SET search_path = s; GRANT ALL ON SCHEMA s TO maker; CREATE TABLE model (i int, b text)"
    )
    run(conn, "GRANT SELECT, INSERT ON model TO maker")
    run(conn, "ALTER DEFAULT PRIVILEGES IN SCHEMA s GRANT SELECT ON TABLES TO reader, maker")
    made = one(
        conn,
        "SELECT pgbillion_tables.create_tables('model', 't%d', 0, 9, ARRAY['space1', 'space2', 'pg_default'],"
        " access_method => 'lazy_heap')",
    )
    assert made == 9
    for number in range(9):
        if number % 2:
            conn.execute(f"INSERT INTO t{number} VALUES (1)")
        else:
            conn.execute(f"SELECT pgbillion_tables.to_heap('{{t{number}}}')")
    assert invariants.reference_errors(conn) == []


# ---- repair


def _hurt(conn: Connection) -> None:
    """As earlier builds left a table: pg_shdepend knows nothing of it."""
    conn.execute("SET allow_system_table_mods = on")
    conn.execute("DELETE FROM pg_shdepend WHERE classid = 'pg_class'::regclass AND objid = 'hurt'::regclass")
    conn.execute("SET allow_system_table_mods = off")


REPAIR = (
    'SELECT "table"::text, "column"::text, role::regrole::text, missing, outcome'
    " FROM pgbillion_tables.repair_dependencies()"
)


def test_repair(conn: Connection) -> None:
    run(conn, "CREATE SCHEMA s; SET search_path = s; CREATE TABLE hurt (i int, b text); CREATE TABLE sound (i int)")
    run(conn, "ALTER TABLE hurt OWNER TO maker; GRANT SELECT ON hurt TO reader; GRANT UPDATE (b) ON hurt TO reader")
    run(conn, "GRANT SELECT ON sound TO reader; CREATE VIEW v AS SELECT 1; ALTER VIEW v OWNER TO maker")
    assert conn.execute(REPAIR).fetchall() == []
    _hurt(conn)
    assert len(invariants.reference_errors(conn)) == 3
    assert conn.execute(REPAIR).fetchall() == [
        ("hurt", None, "maker", "owner", "recorded"),
        ("hurt", None, "reader", "privileges", "recorded"),
        ("hurt", "b", "reader", "privileges", "recorded"),
    ]
    assert invariants.reference_errors(conn) == []
    assert conn.execute(REPAIR).fetchall() == []


def test_repair_where_roles_do_not_exist_any_more(conn: Connection) -> None:
    run(
        conn, "CREATE SCHEMA s; SET search_path = s; CREATE ROLE gone_owner; CREATE ROLE gone_friend; CREATE ROLE third"
    )
    run(conn, "CREATE TABLE hurt (i int, b text); GRANT SELECT ON hurt TO gone_friend WITH GRANT OPTION")
    run(conn, "GRANT USAGE ON SCHEMA s TO gone_friend; SET ROLE gone_friend; GRANT SELECT ON hurt TO third; RESET ROLE")
    run(conn, "GRANT UPDATE (b) ON hurt TO gone_friend; REVOKE USAGE ON SCHEMA s FROM gone_friend")
    run(conn, "ALTER TABLE hurt OWNER TO gone_owner")
    _hurt(conn)
    run(conn, "DROP ROLE gone_owner; DROP ROLE gone_friend")
    found = conn.execute(REPAIR).fetchall()
    no_owner = "the role does not exist: give it an owner with ALTER TABLE ... OWNER TO"
    removed = "the role does not exist: its privileges are removed"
    assert [(row[0], row[1], row[3], row[4]) for row in found] == [
        ("hurt", None, "owner", no_owner),
        ("hurt", None, "privileges", removed),
        ("hurt", None, "privileges", "recorded"),
    ]
    conn.execute("ALTER TABLE hurt OWNER TO maker")
    conn.execute(REPAIR)
    assert conn.execute(REPAIR).fetchall() == []
    assert invariants.reference_errors(conn) == []
    assert "gone" not in str(one(conn, "SELECT relacl::text FROM pg_class WHERE oid = 'hurt'::regclass"))
    run(conn, "DROP TABLE hurt; DROP ROLE third")


def test_repair_is_for_superusers(conn: Connection) -> None:
    run(conn, "GRANT EXECUTE ON FUNCTION pgbillion_tables.repair_dependencies() TO maker; SET ROLE maker")
    try:
        with pytest.raises(errors.InsufficientPrivilege, match="must be superuser"):
            conn.execute("SELECT * FROM pgbillion_tables.repair_dependencies()")
    finally:
        run(conn, "RESET ROLE; REVOKE EXECUTE ON FUNCTION pgbillion_tables.repair_dependencies() FROM maker")

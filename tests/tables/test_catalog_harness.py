"""The comparison itself: it holds for what core makes twice, and fails for any row that is not as core writes it."""

from __future__ import annotations

import pytest

from harness import catalogs as catalog
from harness import compare, invariants, oracle, storage, templates
from harness.catalogs import Catalogs
from harness.servers import has_extension, one
from pgbillion.common.connection import Connection
from pgbillion.server.postgres import Installation

TEMPLATE = """
    CREATE TABLE t.template (
        id serial PRIMARY KEY, i int GENERATED ALWAYS AS IDENTITY, t text NOT NULL DEFAULT 'x' CHECK (t <> ''),
        p point, UNIQUE (t, i), EXCLUDE USING gist (p WITH ~=)) WITH (fillfactor = 70);
    CREATE INDEX ON t.template (lower(t)) WHERE i > 3;
    CREATE STATISTICS t.s ON t, i, (i + 1) FROM t.template;
    COMMENT ON TABLE t.template IS 'table';
    COMMENT ON COLUMN t.template.t IS 'column'
"""


@pytest.fixture
def pair(conn: Connection, catalogs: Catalogs) -> tuple[str, str]:
    """Two tables that core made alike, in schemas a and b."""
    conn.execute(templates.WORLD)
    conn.execute(TEMPLATE)
    for schema in "ab":
        conn.execute(f"CREATE SCHEMA {schema}")
        oracle.make(conn, templates.TEMPLATE, schema, "x")
    return "a.x", "b.x"


def _differences(conn: Connection, catalogs: Catalogs) -> list[str]:
    return catalog.difference(catalog.family(conn, catalogs, "a.x"), catalog.family(conn, catalogs, "b.x"))


def test_core_equals_core(conn: Connection, catalogs: Catalogs, installation: Installation) -> None:
    """Two tables of one name after one template, for every feature there is: no false alarm."""
    for name in templates.CASES:
        template = templates.make(conn, installation.version_num, name)
        if template is None:
            continue
        for schema in "ab":
            conn.execute(f"CREATE SCHEMA {schema}")
            oracle.make(conn, template, schema, "x")
        assert compare.compare(conn, catalogs, ("a", "x"), ("b", "x")) == [], name
        conn.execute("DROP SCHEMA a CASCADE; DROP SCHEMA b CASCADE; DROP SCHEMA t CASCADE; DISCARD TEMP")


# Each breaks one thing about table b.x the way a faulty stamp might; the message must name the catalogue.
BREAKS = {
    "pg_class": [
        "UPDATE pg_class SET relhasindex = false WHERE oid = 'b.x'::regclass",
        "UPDATE pg_class SET relnatts = relnatts + 1 WHERE oid = 'b.x'::regclass",
        "UPDATE pg_class SET reltuples = 0 WHERE oid = 'b.x'::regclass",
        "UPDATE pg_class SET reloptions = NULL WHERE oid = 'b.x'::regclass",
        "UPDATE pg_class SET relname = 'x_pkey1' WHERE oid = 'b.x_pkey'::regclass",
        "UPDATE pg_class SET relpages = 0 WHERE oid = 'b.x_pkey'::regclass",
        "UPDATE pg_class SET reltoastrelid = 0 WHERE oid = 'b.x'::regclass",
        "UPDATE pg_class SET relname = 'pg_toast_1' WHERE oid ="
        " (SELECT reltoastrelid FROM pg_class WHERE oid = 'b.x'::regclass)",
        "UPDATE pg_class SET relowner = (SELECT oid FROM pg_authid WHERE rolname = 'maker') WHERE"
        " oid = 'b.x'::regclass",
        "UPDATE pg_class SET relnamespace = 'a'::regnamespace, relname = 'y' WHERE oid = 'b.x_t_i_key'::regclass",
    ],
    "pg_attribute": [
        "UPDATE pg_attribute SET attcollation = 0 WHERE attrelid = 'b.x'::regclass AND attname = 't'",
        "UPDATE pg_attribute SET attname = 'u' WHERE attrelid = 'b.x'::regclass AND attname = 't'",
        "DELETE FROM pg_attribute WHERE attrelid = 'b.x'::regclass AND attname = 'xmin'",
        "UPDATE pg_attribute SET attidentity = '' WHERE attrelid = 'b.x'::regclass AND attname = 'i'",
        "UPDATE pg_attribute SET attoptions = '{n_distinct=3}' WHERE attrelid = 'b.x'::regclass AND attname = 'i'",
    ],
    "pg_type": [
        "UPDATE pg_type SET typname = '__x' WHERE oid = 'b.x[]'::regtype",
        "UPDATE pg_type SET typarray = 0 WHERE oid = 'b.x'::regtype",
        "UPDATE pg_type SET typrelid = 'a.x'::regclass WHERE oid = 'b.x'::regtype",
        "UPDATE pg_type SET typacl = '{=U/postgres}' WHERE oid = 'b.x'::regtype",
    ],
    "pg_attrdef": [
        "UPDATE pg_attrdef SET adbin = (SELECT adbin FROM pg_attrdef WHERE adrelid = 'a.x'::regclass AND adnum = 1)"
        " WHERE adrelid = 'b.x'::regclass AND adnum = 1",
        "DELETE FROM pg_attrdef WHERE adrelid = 'b.x'::regclass AND adnum = 3",
    ],
    "pg_constraint": [
        "UPDATE pg_constraint SET conkey = '{2}' WHERE conrelid = 'b.x'::regclass AND contype = 'p'",
        "UPDATE pg_constraint SET conindid = 'a.x_pkey'::regclass WHERE conrelid = 'b.x'::regclass AND contype = 'p'",
        "UPDATE pg_constraint SET conname = 'other' WHERE conrelid = 'b.x'::regclass AND contype = 'c'",
        "DELETE FROM pg_constraint WHERE conrelid = 'b.x'::regclass AND contype = 'x'",
    ],
    "pg_index": [
        "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'b.x_lower_idx'::regclass",
        "UPDATE pg_index SET indrelid = 'a.x'::regclass WHERE indexrelid = 'b.x_lower_idx'::regclass",
        "UPDATE pg_index SET indpred = NULL WHERE indexrelid = 'b.x_lower_idx'::regclass",
        "UPDATE pg_index SET indcheckxmin = true WHERE indexrelid = 'b.x_pkey'::regclass",
    ],
    "pg_depend": [
        "DELETE FROM pg_depend WHERE objid = 'b.x_id_seq'::regclass AND deptype = 'a'",
        "DELETE FROM pg_depend WHERE objid = 'b.x'::regclass AND deptype = 'n'",
        "UPDATE pg_depend SET refobjsubid = 3 WHERE objid = 'b.x_i_seq'::regclass AND deptype = 'i'",
        "INSERT INTO pg_depend SELECT * FROM pg_depend WHERE objid = 'b.x'::regclass AND deptype = 'n' LIMIT 1",
        "INSERT INTO pg_depend VALUES ('pg_namespace'::regclass, 'a'::regnamespace, 0, 'pg_class'::regclass,"
        " 'b.x'::regclass, 0, 'n')",
        "UPDATE pg_depend SET refobjid = 'a.x'::regclass WHERE objid = 'b.x_t_i_key'::regclass",
    ],
    "pg_shdepend": [
        "INSERT INTO pg_shdepend SELECT d.oid, 'pg_class'::regclass, 'b.x'::regclass, 0,"
        " 'pg_authid'::regclass, r.oid, 'o'"
        " FROM pg_database d, pg_authid r WHERE datname = current_database() AND rolname = 'maker'",
    ],
    "pg_description": [
        "DELETE FROM pg_description WHERE objoid = 'b.x'::regclass AND objsubid = 0",
        "UPDATE pg_description SET objsubid = 2 WHERE objoid = 'b.x'::regclass AND objsubid > 0",
    ],
    "pg_sequence": [
        "UPDATE pg_sequence SET seqcycle = true WHERE seqrelid = 'b.x_id_seq'::regclass",
        "DELETE FROM pg_sequence WHERE seqrelid = 'b.x_i_seq'::regclass",
    ],
    "pg_statistic_ext": [
        "UPDATE pg_statistic_ext SET stxexprs = NULL WHERE stxrelid = 'b.x'::regclass",
        "UPDATE pg_statistic_ext SET stxnamespace = 'a'::regnamespace, stxname = 'y' WHERE stxrelid = 'b.x'::regclass",
    ],
    "pg_init_privs": [
        "INSERT INTO pg_init_privs VALUES ('b.x'::regclass, 'pg_class'::regclass, 0, 'e', '{=r/postgres}')",
    ],
    "pg_seclabel": ["INSERT INTO pg_seclabel VALUES ('b.x'::regclass, 'pg_class'::regclass, 0, 'p', 'secret')"],
    "pg_trigger": [
        "INSERT INTO pg_trigger SELECT 99999, 'b.x'::regclass, 0, 'tr', p.oid, 5, 'O', false, 0, 0, 0, false, false, 0,"
        " '', '', NULL, NULL, NULL FROM pg_proc p WHERE proname = 'suppress_redundant_updates_trigger'",
    ],
}


@pytest.mark.parametrize("name", BREAKS)
def test_a_broken_row_is_found(conn: Connection, catalogs: Catalogs, pair: tuple[str, str], name: str) -> None:
    assert _differences(conn, catalogs) == []
    for statement in BREAKS[name]:
        with conn.transaction(force_rollback=True):
            conn.execute("SET LOCAL allow_system_table_mods = on")
            assert conn.execute(statement).rowcount > 0, statement
            lines = _differences(conn, catalogs)
            assert any(line.startswith(name) for line in lines), (statement, lines)
    assert _differences(conn, catalogs) == []


@pytest.mark.parametrize(
    ("assignment", "relation"),
    [
        ("relfilenode = 0", "b.x"),
        ("relfilenode = (SELECT relfilenode FROM pg_class WHERE oid = 'a.x'::regclass)", "b.x"),
        ("relfrozenxid = '0'", "b.x"),
        ("relfrozenxid = '2'", "b.x"),
        ("relfrozenxid = (txid_current() + 1)::text::xid", "b.x"),
        ("relminmxid = '0'", "b.x"),
        ("relminmxid = '4000000'", "b.x"),
        ("relfrozenxid = '900'", "b.x_pkey"),
    ],
)
def test_an_insane_value_is_found(
    conn: Connection, catalogs: Catalogs, pair: tuple[str, str], assignment: str, relation: str
) -> None:
    assert storage.insane(conn, catalog.family(conn, catalogs, pair[1])) == []
    with conn.transaction(force_rollback=True):
        # Sessions' relation caches must not hear of it, so the family is taken before.
        family = catalog.family(conn, catalogs, pair[1])
        conn.execute("SET LOCAL allow_system_table_mods = on")
        conn.execute(f"UPDATE pg_class c SET {assignment} WHERE oid = '{relation}'::regclass")
        assert storage.insane(conn, family) != []


def test_other_contents_are_found(conn: Connection, catalogs: Catalogs, pair: tuple[str, str]) -> None:
    if not has_extension(conn, "pageinspect"):
        pytest.skip("needs the extension pageinspect")
    conn.execute("SELECT setval('b.x_id_seq', 1, true)")
    conn.execute("INSERT INTO b.x (t) VALUES ('one'); DELETE FROM b.x")
    lines = compare.compare(conn, catalogs, ("a", "x"), ("b", "x"))
    assert any("x_id_seq> row" in line for line in lines), lines
    assert any("<table> main" in line for line in lines), lines
    assert any("x_pkey> main" in line for line in lines), lines


def test_an_index_that_lacks_a_row_is_found(conn: Connection, pair: tuple[str, str]) -> None:
    """A row written to a catalogue but to none of its indexes."""
    if not has_extension(conn, "amcheck"):
        pytest.skip("needs the extension amcheck")
    index = "'pg_description_o_c_o_index'::regclass"
    with conn.transaction(force_rollback=True):
        conn.execute("SET LOCAL allow_system_table_mods = on")
        conn.execute(f"UPDATE pg_index SET indisready = false WHERE indexrelid = {index}")
        conn.execute("COMMENT ON COLUMN b.x.p IS 'unseen'")
        conn.execute(f"UPDATE pg_index SET indisready = true WHERE indexrelid = {index}")
        assert any("pg_description_o_c_o_index" in line for line in invariants.index_errors(conn))
    assert invariants.index_errors(conn) == []


def test_a_dangling_reference_is_found(conn: Connection, pair: tuple[str, str]) -> None:
    for statement in (
        "DELETE FROM pg_index WHERE indexrelid = 'b.x_pkey'::regclass",
        "UPDATE pg_class SET reltype = 99999 WHERE oid = 'b.x'::regclass",
        "DELETE FROM pg_attrdef WHERE adrelid = 'b.x'::regclass",
        "UPDATE pg_depend SET refobjid = 99999 WHERE objid = 'b.x_pkey'::regclass",
        "DELETE FROM pg_type WHERE oid = 'b.x[]'::regtype",
        "UPDATE pg_constraint SET conkey = '{77}' WHERE conrelid = 'b.x'::regclass AND contype = 'c'",
    ):
        with conn.transaction(force_rollback=True):
            conn.execute("SET LOCAL allow_system_table_mods = on")
            conn.execute(statement)
            assert invariants.reference_errors(conn) != [], statement
    assert invariants.reference_errors(conn) == []


def test_names_are_chosen_as_core_does(conn: Connection) -> None:
    """The oracle's own naming, which serial columns need, against core's."""
    conn.execute("CREATE SCHEMA s")
    for number, (table, column) in enumerate(
        [
            ("t", "c"),
            ("x" * 63, "id"),
            ("x", "y" * 63),
            ("é" * 31, "漢" * 21),
            ("a" * 40, "b" * 40),
            ("é" * 15, "k" * 45),
        ]
    ):
        for taken in (0, 1, 2):
            chosen = oracle.chosen_name(conn, "s", table, column, "seq")
            with conn.transaction(force_rollback=True):
                conn.execute(f'CREATE TABLE s."{table}" ("{column}" serial)')
                assert one(conn, "SELECT relname FROM pg_class WHERE relkind = 'S' AND relname = %s", chosen) == chosen
            conn.execute(f'CREATE VIEW s."{chosen}" AS SELECT {number + taken} AS one')

"""A stamped table is the one CREATE TABLE would have made: every row of every catalogue, every page of its files."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterator

import hypothesis
import psycopg
import pytest
from hypothesis import strategies as st

from harness import catalogs as catalog
from harness import compare, oracle, subject, templates
from harness.amount import Count, amount
from harness.catalogs import Catalogs
from harness.compare import Batch, CoreRefusesError
from harness.servers import has_extension, one
from pgbillion.common.connection import Connection
from pgbillion.server.postgres import Cluster, Installation

pytestmark = pytest.mark.majors


EXAMPLES = amount("PGBILLION_TEST_EXAMPLES", 60, 12)
SEED = int(os.environ.get("PGBILLION_TEST_SEED") or 1)
# Making a failing example small takes minutes.
SHRINK = bool(os.environ.get("PGBILLION_TEST_SHRINK"))


@pytest.mark.parametrize("name", templates.CASES)
def test_template(conn: Connection, catalogs: Catalogs, installation: Installation, name: str) -> None:
    template = templates.make(conn, installation.version_num, name)
    if template is None:
        pytest.skip("not of this server")
    assert compare.differences(conn, catalogs, template, Batch()) == []


# Names, and what is in their way.
NAMES: dict[str, Batch] = {
    "one": Batch("only%d", 7, 1),
    "zero": Batch("t%d", 0, 2),
    "octal": Batch("o%03o", 6, 4),
    "hexadecimal": Batch("x%X%%", 14, 3),
    "large_number": Batch(None, 2**40, 2),
    "padded_with_spaces": Batch("s%6d", 9, 2),
    "quotes": Batch("T'\"%d \\ x", 1, 3),
    "keyword_and_case": Batch("Select%d", 1, 2),
    "number_first": Batch("%d", 1, 3),
    "63_bytes": Batch("n" * 62 + "%d", 1, 5),
    "63_bytes_number_first": Batch("%d" + "n" * 62, 1, 5),
    "63_bytes_underscores": Batch("_" * 62 + "%d", 1, 5),
    "62_bytes": Batch("n" * 61 + "%d", 1, 5),
    "55_bytes": Batch("n" * 47 + "%08x", 1, 5),
    "multibyte": Batch("é%d漢", 1, 3),
    "63_bytes_multibyte": Batch("é" * 31 + "%d", 1, 5),
    "63_bytes_multibyte_of_three": Batch("漢" * 20 + "ab%d", 1, 5),
    "63_bytes_multibyte_of_four": Batch("😀" * 15 + "ab%d", 1, 5),
    "62_bytes_multibyte_odd": Batch("aé" * 20 + "%02d", 1, 5),
    # A table named as an earlier one's array type: core renames the array type.
    "array_type_of_each_other": Batch("_" * 3 + "%d", 1, 3, prepare=('CREATE TABLE {schema}."__2" ()',)),
    "array_types_moved": Batch("_%d", 1, 3, prepare=('CREATE TABLE {schema}."2" ()', 'CREATE TABLE {schema}."3" ()')),
    "array_types_taken": Batch(
        "%d",
        1,
        4,
        prepare=(
            'CREATE TABLE {schema}."_2" ()',
            'CREATE TYPE {schema}."__2" AS ENUM ()',
            'CREATE DOMAIN {schema}."_4" AS int',
        ),
    ),
    "every_derived_name_taken": Batch("t%d", 1, 3, taken=frozenset(range(40))),
    "derived_names_taken_63_bytes": Batch("n" * 62 + "%d", 1, 3, taken=frozenset(range(40))),
    "relation_names_taken_twice": Batch(
        "t%d",
        1,
        3,
        prepare=(
            "CREATE SEQUENCE {schema}.t2_pkey",
            "CREATE SEQUENCE {schema}.t2_pkey1",
            "CREATE VIEW {schema}.t3_b_idx AS SELECT 1 AS one",
            "CREATE SEQUENCE {schema}.t2_id_seq",
            "CREATE TABLE {schema}.bearer (i int CONSTRAINT t3_pkey CHECK (i > 0))",
        ),
    ),
    # One table's derived name is what the other would derive.
    "suffix_names": Batch("t_pke%xy", 1, 3, prepare=("CREATE TABLE {schema}.t (i int PRIMARY KEY)",)),
}


@pytest.mark.parametrize("name", NAMES)
def test_names(conn: Connection, catalogs: Catalogs, name: str) -> None:
    conn.execute(templates.WORLD)
    conn.execute(
        "CREATE TABLE t.template (id serial PRIMARY KEY, b text UNIQUE CHECK (b <> ''), g int"
        " GENERATED ALWAYS AS IDENTITY NOT NULL);"
        "CREATE INDEX ON t.template (b); CREATE INDEX ON t.template (b); CREATE INDEX ON t.template (lower(b));"
        "CREATE STATISTICS t.one ON id, b FROM t.template; CREATE STATISTICS t.two ON (id + 1),"
        " (id + 2) FROM t.template"
    )
    batch = NAMES[name]
    try:
        assert compare.differences(conn, catalogs, templates.TEMPLATE, batch) == []
    except CoreRefusesError:
        assert name in CORE_REFUSES
        _check_refused(conn, catalogs, batch)


# Core 15 runs out of names that consist of more underscores, later ones trip over their own array type.
CORE_REFUSES = ("63_bytes_underscores",)


GRANTS = {
    "maker": (),
    "tables_to_reader": ("ALTER DEFAULT PRIVILEGES FOR ROLE maker GRANT SELECT ON TABLES TO reader",),
    "all_kinds": (
        "ALTER DEFAULT PRIVILEGES FOR ROLE maker GRANT ALL ON TABLES TO reader, PUBLIC",
        "ALTER DEFAULT PRIVILEGES FOR ROLE maker GRANT USAGE ON SEQUENCES TO reader WITH GRANT OPTION",
        "ALTER DEFAULT PRIVILEGES FOR ROLE maker REVOKE USAGE ON TYPES FROM PUBLIC",
        "ALTER DEFAULT PRIVILEGES FOR ROLE maker GRANT USAGE ON TYPES TO reader",
    ),
    "owner_revoked": ("ALTER DEFAULT PRIVILEGES FOR ROLE maker REVOKE ALL ON TABLES FROM maker",),
}


@pytest.fixture
def maker(conn: Connection) -> Iterator[str]:
    """A role without any attribute that may call the function on what is in schema t."""
    conn.execute(templates.WORLD)
    conn.execute("GRANT USAGE ON SCHEMA t TO maker; GRANT ALL ON ALL FUNCTIONS IN SCHEMA pgbillion_tables TO maker")
    yield "maker"
    conn.execute("DROP OWNED BY maker CASCADE")
    conn.execute("GRANT CREATE ON TABLESPACE space1, space2 TO maker")


@pytest.mark.parametrize("name", GRANTS)
def test_owner_and_default_privileges(conn: Connection, catalogs: Catalogs, maker: str, name: str) -> None:
    conn.execute("CREATE TABLE t.template (id serial PRIMARY KEY, b text, g int GENERATED ALWAYS AS IDENTITY)")
    conn.execute("GRANT SELECT ON t.template TO maker; GRANT INSERT ON t.template TO PUBLIC")
    for statement in GRANTS[name]:
        conn.execute(statement)
    batch = Batch(
        role=maker,
        prepare=("ALTER DEFAULT PRIVILEGES FOR ROLE maker IN SCHEMA {schema} GRANT TRUNCATE ON TABLES TO reader",),
    )
    assert compare.differences(conn, catalogs, templates.TEMPLATE, batch) == []
    assert compare.differences(conn, catalogs, templates.TEMPLATE, dataclasses.replace(batch, prepare=())) == []


def test_template_owned_by_the_caller(conn: Connection, catalogs: Catalogs, maker: str) -> None:
    conn.execute(
        "CREATE TABLE t.template (id serial PRIMARY KEY, b t.mood DEFAULT 'ok'); ALTER TABLE t.template OWNER TO maker"
    )
    assert compare.differences(conn, catalogs, templates.TEMPLATE, Batch(role=maker)) == []


PLACES: dict[str, Batch] = {
    "one_tablespace": Batch(tablespaces=("space1",)),
    "round_robin": Batch(count=7, tablespaces=("space1", "pg_default", "space2")),
    "round_robin_from_the_middle": Batch(first=5, count=4, tablespaces=("space1", "space2", "space3")),
    "the_same_twice": Batch(count=4, tablespaces=("space1", "space1", "space2")),
    "the_database_s_own": Batch(tablespaces=("pg_default",)),
    "default_tablespace": Batch(settings=(("default_tablespace", "space2"),)),
    "default_tablespace_and_named": Batch(
        tablespaces=("space1", "pg_default"), settings=(("default_tablespace", "space2"),)
    ),
}


@pytest.mark.parametrize("name", PLACES)
@pytest.mark.parametrize("home", ["pg_default", "space1"])
def test_tablespaces(cluster: Cluster, conn: Connection, installation: Installation, name: str, home: str) -> None:
    """In a database of the default tablespace, and in one that is in a tablespace itself."""
    if home == "pg_default":
        _check_places(conn, name)
        return
    conn.execute("DROP DATABASE IF EXISTS elsewhere")
    conn.execute("CREATE DATABASE elsewhere TABLESPACE space1")
    try:
        with cluster.connect("elsewhere") as there:
            _check_places(there, name)
    finally:
        conn.execute("DROP DATABASE elsewhere")


def _check_places(conn: Connection, name: str) -> None:
    conn.execute(templates.WORLD)
    conn.execute(
        "CREATE TABLE t.template (id serial PRIMARY KEY, b text UNIQUE USING INDEX TABLESPACE"
        " space3, c int GENERATED ALWAYS AS IDENTITY);"
        "CREATE INDEX ON t.template (c) TABLESPACE space2"
    )
    assert compare.differences(conn, Catalogs.load(conn), templates.TEMPLATE, PLACES[name]) == []


@pytest.mark.parametrize(
    "settings",
    [
        (("default_toast_compression", "pglz"),),
        (("search_path", "nowhere"),),
        (("search_path", "t, public"),),
        (("standard_conforming_strings", "off"),),
        (("default_transaction_isolation", "serializable"),),
        (("default_transaction_isolation", "repeatable read"),),
        (("client_encoding", "LATIN1"),),
        (("DateStyle", "german, dmy"), ("IntervalStyle", "sql_standard")),
        (("wal_compression", "on"),),
        (("quote_all_identifiers", "on"),),
        (("client_min_messages", "debug1"),),
        (("max_stack_depth", "200kB"),),
        (("event_triggers", "off"),),
        (("enable_indexscan", "off"), ("enable_bitmapscan", "off")),
        (("work_mem", "64kB"), ("maintenance_work_mem", "1MB")),
    ],
    ids=lambda settings: settings[0][0],
)
def test_settings(conn: Connection, catalogs: Catalogs, settings: tuple[tuple[str, str], ...]) -> None:
    """Settings of the session that must make no difference."""
    version = conn.info.server_version
    if (settings[0][0] == "event_triggers" and version < 170000) or (
        settings[0][0] == "standard_conforming_strings" and version >= 190000
    ):
        pytest.skip("not of this server")
    conn.execute(templates.WORLD)
    conn.execute(
        "CREATE TABLE t.template (id serial PRIMARY KEY, a date DEFAULT '2020-01-02', b interval"
        " DEFAULT '1 day 2 hours',"
        " c text DEFAULT E'it''s \\\\', d int CHECK (t.twice(d) > 1), \"é\" text);"
        "COMMENT ON TABLE t.template IS E'it''s \\\\'; COMMENT ON COLUMN t.template.c IS E'\\\\'"
    )
    assert compare.differences(conn, catalogs, templates.TEMPLATE, Batch(settings=settings)) == []


def test_unlogged(conn: Connection, catalogs: Catalogs) -> None:
    """Unlogged tables after an unlogged template, init forks and all."""
    conn.execute(templates.WORLD)
    conn.execute(
        "CREATE UNLOGGED TABLE t.template (id serial PRIMARY KEY, b text, c jsonb); CREATE INDEX"
        " ON t.template USING gin (c)"
    )
    assert compare.differences(conn, catalogs, templates.TEMPLATE, Batch()) == []


def test_template_of_the_same_transaction(conn: Connection, catalogs: Catalogs) -> None:
    """Template, schema and batch in one transaction, with subtransactions; two batches in it."""
    with conn.transaction():
        conn.execute(templates.WORLD)
        conn.execute("CREATE TABLE t.template (id serial PRIMARY KEY, b text UNIQUE)")
        with conn.transaction():
            assert compare.differences(conn, catalogs, templates.TEMPLATE, Batch(count=5)) == []
        conn.execute("CREATE SCHEMA more")
        subject.create_tables(conn, templates.TEMPLATE, "a%d", 1, 3, schema="more")
        with conn.transaction():
            subject.create_tables(conn, templates.TEMPLATE, "a%d", 4, 3, schema="more")
            conn.execute("ALTER TABLE more.a5 ADD c int; INSERT INTO more.a4 DEFAULT VALUES; DROP TABLE more.a2")
    assert one(conn, "SELECT count(*) FROM pg_tables WHERE schemaname = 'more'") == 5
    assert one(conn, "SELECT id FROM more.a4") == 1


def test_a_stamped_table_as_template(conn: Connection, catalogs: Catalogs) -> None:
    conn.execute(templates.WORLD)
    conn.execute(
        "CREATE TABLE t.template (id serial PRIMARY KEY, b text UNIQUE CHECK (b <> ''), g int"
        " GENERATED ALWAYS AS IDENTITY)"
    )
    conn.execute("CREATE SCHEMA child")
    subject.create_tables(conn, templates.TEMPLATE, "c%d", 1, 3, schema="child")
    assert compare.differences(conn, catalogs, "child.c3", Batch()) == []


def test_many_tables(conn: Connection, catalogs: Catalogs) -> None:
    """More tables than any buffer of the extension is likely to hold; first, last and some between."""
    conn.execute(templates.WORLD)
    conn.execute("CREATE TABLE t.template (id serial PRIMARY KEY, b text, c int); CREATE INDEX ON t.template (b)")
    conn.execute("CREATE SCHEMA a; CREATE SCHEMA b")
    count = 2500
    assert subject.create_tables(conn, templates.TEMPLATE, None, 0, count, schema="b") == count
    assert one(conn, "SELECT count(*) FROM pg_class WHERE relnamespace = 'b'::regnamespace AND relkind = 'r'") == count
    for number in (0, 1, 2, 9, 10, 24, 25, 99, 100, 499, 500, 999, 1000, 1023, 1024, count - 1):
        oracle.make(conn, templates.TEMPLATE, "a", f"_{number:08x}")
        assert compare.compare(conn, catalogs, ("a", f"_{number:08x}"), ("b", f"_{number:08x}")) == []


def test_every_table_of_a_batch_is_used(conn: Connection) -> None:
    """Rows through every access path, VACUUM, ANALYZE, rewrites, TRUNCATE and DROP of stamped tables."""
    conn.execute(templates.WORLD)
    conn.execute(
        "CREATE TABLE t.template (id serial PRIMARY KEY, b text, c int[], d point, e int GENERATED ALWAYS AS IDENTITY);"
        "CREATE INDEX ON t.template USING gin (c); CREATE INDEX ON t.template USING gist (d);"
        "CREATE INDEX ON t.template USING hash (b); CREATE INDEX ON t.template USING brin (id);"
        "CREATE INDEX ON t.template USING spgist (b); CREATE STATISTICS t.one ON id, b FROM t.template"
    )
    conn.execute("CREATE SCHEMA b; SET search_path = b")
    subject.create_tables(conn, "t.template", "u%d", 1, 6, schema="b")
    for name in subject.names("u%d", 1, 6):
        conn.execute(
            f"INSERT INTO {name} (b, c, d) SELECT repeat(md5(n::text), 100), ARRAY[n], point(n, n)"
            f" FROM generate_series(1, 50) n;"
            f"UPDATE {name} SET b = b || 'x' WHERE id > 40; DELETE FROM {name} WHERE id < 5"
        )
        conn.execute(f"VACUUM (ANALYZE) {name}")
        conn.execute("SET enable_seqscan = off")
        assert one(conn, f"SELECT id FROM {name} WHERE c @> '{{7}}'") == 7
        assert one(conn, f"SELECT id FROM {name} WHERE b = repeat(md5('9'), 100)") == 9
        assert one(conn, f"SELECT id FROM {name} WHERE d <@ box '((10,10),(10,10))'") == 10
        assert one(conn, f"SELECT count(*) FROM {name} WHERE id BETWEEN 5 AND 50") == 46
        conn.execute("RESET enable_seqscan")
        if has_extension(conn, "amcheck"):
            _check_relations(conn, name)
    conn.execute(
        "VACUUM FULL u1; CLUSTER u2 USING u2_pkey; REINDEX TABLE u3; TRUNCATE u4 RESTART"
        " IDENTITY; DROP TABLE u5".replace("VACUUM FULL u1; ", "")
    )
    conn.execute("VACUUM FULL u1")
    conn.execute(
        "ALTER TABLE u6 ALTER id TYPE bigint, ADD f text DEFAULT 'x' NOT NULL, DROP c; ALTER TABLE u6 RENAME TO v6"
    )
    assert one(conn, "INSERT INTO u4 (b) VALUES ('x') RETURNING id") == 1
    assert one(conn, "INSERT INTO v6 (b) VALUES ('x') RETURNING id") == 51
    assert (
        one(conn, "SELECT count(*) FROM u1")
        == one(conn, "SELECT count(*) FROM u2")
        == one(conn, "SELECT count(*) FROM u3")
        == 46
    )
    conn.execute("DROP SCHEMA t CASCADE; SET client_min_messages = warning; DROP SCHEMA b CASCADE")


def _check_relations(conn: Connection, name: str) -> None:
    """The table's btree indexes and its heap, with amcheck."""
    for (index,) in conn.execute(
        "SELECT indexrelid::regclass::text FROM pg_index JOIN pg_class c ON c.oid = indexrelid"
        " JOIN pg_am a ON a.oid = relam WHERE indrelid = %s::regclass AND amname = 'btree'",
        [name],
    ).fetchall():
        conn.execute("SELECT public.bt_index_parent_check(%s::regclass, true)", [index])
    assert conn.execute(f"SELECT * FROM public.verify_heapam('{name}')").fetchall() == []


@st.composite
def _batches(draw: st.DrawFn) -> Batch:
    return Batch(
        name_format=draw(st.sampled_from(templates.FORMATS)),
        first=draw(st.integers(0, 4)),
        count=draw(st.integers(1, 5)),
        tablespaces=draw(st.sampled_from((None, None, ("space1",), ("space2", "pg_default", "space1")))),
        role=draw(st.sampled_from((None, "maker"))),
        taken=draw(st.frozensets(st.integers(0, 30), max_size=4)),
    )


@pytest.fixture
def world(conn: Connection, catalogs: Catalogs, installation: Installation, maker: str) -> dict[str, int]:
    """Counts what came of the examples: made, core refused, not a valid template."""
    return {"made": 0, "refused": 0, "invalid": 0}


def test_generated_templates(
    conn: Connection,
    catalogs: Catalogs,
    installation: Installation,
    world: dict[str, int],
    tell: Callable[[str], None],
    counted: Count,
) -> None:
    @hypothesis.settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        phases=[hypothesis.Phase.generate, *([hypothesis.Phase.shrink] if SHRINK else [])],
        report_multiple_bugs=False,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.seed(SEED)
    @hypothesis.given(templates.scripts(installation.version_num // 10000), _batches())
    def check(script: str, batch: Batch) -> None:
        conn.execute("DROP TABLE IF EXISTS t.template CASCADE")
        try:
            with conn.transaction():
                conn.execute(script.encode())
                conn.execute("GRANT SELECT ON t.template TO maker")
        except psycopg.Error:
            world["invalid"] += 1
            hypothesis.reject()
        try:
            told = dataclasses.replace(batch, parts=oracle.parts(conn, templates.TEMPLATE))
            lines = compare.differences(conn, catalogs, templates.TEMPLATE, told)
        except CoreRefusesError as refusal:
            world["refused"] += 1
            if not _trips_over_an_array(refusal):
                _check_refused(conn, catalogs, batch)
            return
        assert lines == []
        world["made"] += 1

    check()
    tell(f"seed {SEED}: generated templates: {world}")
    counted({"templates": world["made"], "that PostgreSQL refuses to copy": world["refused"]})
    assert world["made"] >= EXAMPLES // 2


def _trips_over_an_array(refusal: CoreRefusesError) -> bool:
    """Of long names of underscores, core may choose the table's own name for its array type; the extension need not."""
    cause = refusal.__cause__
    constraint = cause.diag.constraint_name if isinstance(cause, psycopg.errors.UniqueViolation) else None
    return constraint == "pg_type_typname_nsp_index"


def _check_refused(conn: Connection, catalogs: Catalogs, batch: Batch) -> None:
    """What core does not make is not stamped either, with an error that is no internal one, and nothing is left."""
    conn.execute("DROP SCHEMA IF EXISTS refused CASCADE; CREATE SCHEMA refused; GRANT ALL ON SCHEMA refused TO maker")
    before = catalog.counts(conn, catalogs)
    with pytest.raises(psycopg.Error) as raised:
        subject.create_tables(
            conn,
            templates.TEMPLATE,
            batch.name_format,
            batch.first,
            batch.count,
            tablespaces=batch.tablespaces,
            schema="refused",
        )
    assert raised.value.sqlstate != "XX000", raised.value
    assert catalog.counts(conn, catalogs) == before
    conn.execute("DROP SCHEMA refused")

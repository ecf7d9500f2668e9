"""WAL says it all: a physical standby has the same catalogues and files, and logical decoding knows the tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest
from psycopg import errors

from harness import catalogs as catalog
from harness import compare, invariants, oracle, servers, storage, subject
from harness import standby as physical
from harness.catalogs import Catalogs
from harness.servers import one, until
from pgbillion.common.connection import Connection
from pgbillion.server.postgres import Cluster, Installation

SCRIPT = """
    CREATE SCHEMA t; CREATE SCHEMA s; CREATE SCHEMA core;
    CREATE TABLE t.model (id serial PRIMARY KEY, t text);
    CREATE TABLE t.rich (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, a int[] CHECK (a <> '{}'),
        t text DEFAULT 'x',
        p point, EXCLUDE USING gist (p WITH ~=), UNIQUE (t) DEFERRABLE);
    CREATE INDEX ON t.rich USING gin (a); CREATE INDEX ON t.rich USING hash (t); CREATE INDEX ON t.rich USING brin (id);
    CREATE INDEX ON t.rich USING spgist (p); CREATE INDEX ON t.rich (lower(t)) WHERE id > 0;
    CREATE STATISTICS t.st ON id, t FROM t.rich;
    COMMENT ON TABLE t.rich IS 'rich'; COMMENT ON COLUMN t.rich.a IS 'some';
    CREATE UNLOGGED TABLE t.unlogged (id serial PRIMARY KEY, t text);
"""


@pytest.mark.parametrize("level", ["replica", "logical"])
def test_standby(installation: Installation, level: str) -> None:
    with servers.new_cluster(installation, {"wal_level": level}) as primary, physical.standby(primary) as standby:
        with primary.connect() as conn:
            servers.make_shared_objects(conn)
            conn.execute("CREATE DATABASE work")
        with primary.connect("work") as conn:
            conn.execute(SCRIPT)
            with standby.connect() as first:
                physical.replayed(conn, first)
            with standby.connect("work") as there:
                _work(conn, there)
                physical.replayed(conn, there)
                _check_replica(primary, standby, conn, there)
                with pytest.raises(errors.ReadOnlySqlTransaction):
                    subject.create_tables(there, "t.model", "x%d", 1, 5, schema="s")
                promoted = one(there, "SELECT pg_promote()")
                assert promoted
                primary.stop()
                _check_promoted(standby, there)


def _work(conn: Connection, there: Connection) -> None:
    """Batches on the primary, committed and not, while a session of the standby looks for their tables."""
    for kind in ("model", "rich", "unlogged"):
        for name in (f"s.{kind}1", f"s.{kind}2", f"s.{kind}60"):
            assert one(there, "SELECT to_regclass(%s)", name) is None
            with pytest.raises(errors.UndefinedTable):
                there.execute(f"SELECT * FROM {name}")
        subject.create_tables(conn, f"t.{kind}", f"{kind}%d", 1, 60, schema="s")
        if kind != "unlogged":
            subject.create_tables(
                conn, f"t.{kind}", f"{kind}_space%d", 0, 7, tablespaces=["space1", "space2"], schema="s"
            )
        conn.execute("BEGIN")
        subject.create_tables(conn, f"t.{kind}", f"{kind}_gone%d", 1, 60, schema="s")
        conn.execute("ROLLBACK; BEGIN; SAVEPOINT a")
        subject.create_tables(conn, f"t.{kind}", f"{kind}_again%d", 1, 20, schema="s")
        conn.execute("ROLLBACK TO a")
        subject.create_tables(conn, f"t.{kind}", f"{kind}_again%d", 1, 5, schema="s")
        conn.execute(f"INSERT INTO s.{kind}_again2 (t) VALUES ('same transaction'); COMMIT")
    subject.create_tables(conn, "t.model", "many%d", 1, 1500, schema="s")
    dropping = (
        "SELECT pgbillion_tables.drop_tables(array_agg(oid::regclass)) FROM pg_class"
        " WHERE relkind = 'r' AND relname ~ %s"
    )
    assert one(conn, dropping, "^many[0-9]*[3-9]$") == 1050
    conn.execute("BEGIN")
    assert one(conn, dropping, "^many[0-9]*[0-2]$") == 450
    conn.execute("ROLLBACK")
    conn.execute(
        "INSERT INTO s.model3 (t) VALUES ('x'); INSERT INTO s.rich3 (a, t) SELECT ARRAY[n], n"
        " FROM generate_series(1, 500) n"
    )
    conn.execute("DROP TABLE s.model4, s.rich4; TRUNCATE s.rich5; ALTER TABLE s.rich6 ADD more int")
    conn.execute("BEGIN")
    subject.create_tables(conn, "t.model", "prepared%d", 1, 5, schema="s")
    conn.execute("PREPARE TRANSACTION 'p'")
    conn.execute("COMMIT PREPARED 'p'")


COMPARED = ("model1", "model2", "model60", "model_space3", "rich1", "rich2", "rich60", "rich_space3", "rich_again5",
            "many1", "many2", "many1500", "prepared5", "unlogged1", "unlogged2", "unlogged60")  # fmt: skip


def _check_replica(primary: Cluster, standby: Cluster, conn: Connection, there: Connection) -> None:
    catalogs = Catalogs.load(conn)
    assert catalog.counts(conn, catalogs) == catalog.counts(there, catalogs)
    assert invariants.index_errors(there, parents=False) == []
    assert invariants.reference_errors(there) == []
    for name in COMPARED:
        ours, copy = catalog.family(conn, catalogs, f"s.{name}"), catalog.family(there, catalogs, f"s.{name}")
        for rows in ours.rows:
            assert Counter(map(str, ours.rows[rows])) == Counter(map(str, copy.rows[rows])), (name, rows)
        if not name.startswith("unlogged"):
            assert storage.difference(storage.contents(conn, ours), storage.contents(there, copy)) == []
            assert one(there, f"SELECT count(*) FROM s.{name}") == 0
    assert one(there, "SELECT t FROM s.model3") == "x"
    assert one(there, "SELECT t FROM s.model_again2") == "same transaction"
    there.execute("SET enable_seqscan = off")
    assert one(there, "SELECT id FROM s.rich3 WHERE a @> '{77}'") == 77
    assert one(there, "SELECT id FROM s.rich3 WHERE t = '78'") == 78
    for name in ("model_gone1", "rich_gone60", "model_again6", "model4", "many3", "many1499"):
        assert one(there, "SELECT to_regclass(%s)", "s." + name) is None
    conn.execute("CHECKPOINT")
    physical.replayed(conn, there)
    there.execute("CHECKPOINT")  # a restartpoint: only then are dropped files unlinked
    assert invariants.missing(primary.data, conn) == set()
    unlogged = set(there.execute("SELECT relfilenode::bigint FROM pg_class WHERE relpersistence = 'u'").fetchall())
    assert {(number,) for _, number in invariants.missing(standby.data, there)} <= unlogged
    assert invariants.orphans(standby.data, there) == set()


def _check_promoted(standby: Cluster, there: Connection) -> None:
    until(lambda: not one(there, "SELECT pg_is_in_recovery()"), "the promotion")
    assert invariants.missing(standby.data, there) == set()
    catalogs = Catalogs.load(there)
    for name in COMPARED:
        template = "t." + name.rstrip("0123456789").split("_")[0].replace("many", "model").replace("prepared", "model")
        space = {"space3": "space2"}.get(name.rpartition("_")[2])
        oracle.make(there, template, "core", name, space)
        assert compare.compare(there, catalogs, ("core", name), ("s", name)) == [], name
    for (name,) in there.execute(
        "SELECT relname FROM pg_class WHERE relnamespace = 's'::regnamespace AND relkind = 'r'"
    ).fetchall():
        there.execute(f"INSERT INTO s.{name} (t) VALUES ('after promotion')")
    subject.create_tables(there, "t.rich", "new%d", 1, 50, schema="s")
    there.execute("INSERT INTO s.new2 (t) VALUES ('x')")
    assert invariants.index_errors(there) == []
    assert invariants.reference_errors(there) == []


# ---- logical decoding


@pytest.fixture(scope="module")
def publisher(installation: Installation) -> Iterator[Cluster]:
    with servers.new_cluster(installation, {"wal_level": "logical", "logical_decoding_work_mem": "64kB"}) as cluster:
        yield cluster


# What is done to tables 1 to 5 in each of the two schemas; MAKE stands for making the tables after t.template.
HISTORIES = {
    "after_commit": [
        "MAKE",
        "INSERT INTO {s}.x2 (b) VALUES ('one'), ('two'); UPDATE {s}.x2 SET b = 'three' WHERE id ="
        " 1; DELETE FROM {s}.x2",
    ],
    "same_transaction": [
        "BEGIN",
        "MAKE",
        "INSERT INTO {s}.x1 (b) VALUES ('one'); INSERT INTO {s}.x3 (b) VALUES ('two')",
        "COMMIT",
    ],
    "altered_in_the_transaction": [
        "BEGIN",
        "MAKE",
        "INSERT INTO {s}.x2 (b) VALUES ('one')",
        "ALTER TABLE {s}.x2 ADD c int DEFAULT 7",
        "INSERT INTO {s}.x2 (b) VALUES ('two')",
        "ALTER TABLE {s}.x2 RENAME b TO d",
        "INSERT INTO {s}.x2 (d) VALUES ('three')",
        "ALTER TABLE {s}.x2 ALTER c TYPE text",
        "UPDATE {s}.x2 SET c = 'x'",
        "COMMIT",
        "INSERT INTO {s}.x2 (d) VALUES ('four')",
    ],
    "subtransactions": [
        "BEGIN",
        "SAVEPOINT a",
        "MAKE",
        "INSERT INTO {s}.x2 (b) VALUES ('lost')",
        "ROLLBACK TO a",
        "MAKE",
        "SAVEPOINT b",
        "INSERT INTO {s}.x3 (b) VALUES ('one')",
        "RELEASE b",
        "SAVEPOINT c",
        "DROP TABLE {s}.x4",
        "ROLLBACK TO c",
        "INSERT INTO {s}.x4 (b) VALUES ('two')",
        "COMMIT",
    ],
    "truncated": [
        "BEGIN",
        "MAKE",
        "INSERT INTO {s}.x2 (b) VALUES ('one'); TRUNCATE {s}.x2; INSERT INTO {s}.x2 (b) VALUES ('two')",
        "COMMIT",
        "TRUNCATE {s}.x2, {s}.x3",
    ],
    "many_rows": [
        "BEGIN",
        "MAKE",
        "INSERT INTO {s}.x5 (b) SELECT repeat('x', n) FROM generate_series(1, 2000) n",
        "COMMIT",
    ],
    "long_values": [
        "MAKE",
        "INSERT INTO {s}.x2 (b) SELECT string_agg(md5(n::text), '') FROM generate_series(1, 1000) n",
        "UPDATE {s}.x2 SET id = 9",
    ],
    "prepared": [
        "BEGIN",
        "MAKE",
        "INSERT INTO {s}.x2 (b) VALUES ('one')",
        "PREPARE TRANSACTION 'p'",
        "COMMIT PREPARED 'p'",
        "INSERT INTO {s}.x2 (b) VALUES ('two')",
    ],
    "with_other_transactions": [
        "BEGIN",
        "MAKE",
        "OTHER CREATE TABLE {s}.y (i int)",
        "INSERT INTO {s}.x1 (b) VALUES ('one')",
        "OTHER INSERT INTO {s}.y VALUES (1)",
        "OTHER ALTER TABLE {s}.y ADD j int",
        "INSERT INTO {s}.x5 (b) VALUES ('two')",
        "OTHER INSERT INTO {s}.y VALUES (2, 3)",
        "COMMIT",
        "OTHER INSERT INTO {s}.x5 (b) VALUES ('three')",
    ],
}


@pytest.mark.parametrize("name", HISTORIES)
@pytest.mark.parametrize("count", [5, 800])
def test_decoded_changes(publisher: Cluster, name: str, count: int) -> None:
    """What test_decoding says of stamped tables is what it says of core's."""
    with (
        servers.new_database(publisher, "decoded") as database,
        publisher.connect(database) as conn,
        publisher.connect(database) as other,
    ):
        conn.execute(
            "CREATE SCHEMA t; CREATE SCHEMA ours; CREATE SCHEMA core;"
            "CREATE TABLE t.template (id serial PRIMARY KEY, b text, g int GENERATED ALWAYS AS"
            " IDENTITY, e int[] DEFAULT '{1}')"
        )
        conn.execute("SELECT pg_create_logical_replication_slot('decoded', 'test_decoding')")
        try:
            decoded = [_decoded(conn, other, schema, HISTORIES[name], count) for schema in ("core", "ours")]
        finally:
            conn.execute("SELECT pg_drop_replication_slot('decoded')")
        assert decoded[0] == decoded[1]
        assert len(decoded[0]) > 2


def _decoded(conn: Connection, other: Connection, schema: str, history: list[str], count: int) -> list[str]:
    for step in history:
        if step == "MAKE" and schema == "core":
            for number in range(1, 6):
                oracle.make(conn, "t.template", "core", f"x{number}")
        elif step == "MAKE":
            subject.create_tables(conn, "t.template", "x%d", 1, count, schema="ours")
        elif step.startswith("OTHER "):
            other.execute(step.removeprefix("OTHER ").format(s=schema).encode())
        else:
            conn.execute(step.format(s=schema).encode())
    changes = [
        text.replace(schema + ".", "")
        for (text,) in conn.execute(
            "SELECT data FROM pg_logical_slot_get_changes('decoded', NULL, NULL, 'include-xids', '0',"
            " 'skip-empty-xacts', '1')"
        )
    ]
    conn.execute("SET client_min_messages = warning")
    return changes


def test_subscription(publisher: Cluster) -> None:
    """pgoutput, apply worker and all, from stamped tables to stamped tables."""
    with (
        servers.new_database(publisher, "source") as source,
        servers.new_database(publisher, "sink") as sink,
        publisher.connect(source) as conn,
        publisher.connect(sink) as there,
    ):
        for each in (conn, there):
            each.execute("CREATE SCHEMA t; CREATE SCHEMA s; CREATE TABLE t.template (id serial PRIMARY KEY, b text)")
        conn.execute("CREATE PUBLICATION everything FOR ALL TABLES")
        conn.execute("SELECT pg_create_logical_replication_slot('sub', 'pgoutput')")
        subject.create_tables(conn, "t.template", "x%d", 1, 30, schema="s")
        subject.create_tables(there, "t.template", "x%d", 1, 30, schema="s")
        there.execute(
            f"CREATE SUBSCRIPTION sub CONNECTION '{publisher.conninfo(source)}' PUBLICATION everything"
            " WITH (create_slot = false, slot_name = 'sub', copy_data = false)"
        )
        try:
            for number in (1, 2, 30):
                conn.execute(
                    f"INSERT INTO s.x{number} (b) VALUES ('x'), ('y'); UPDATE s.x{number} SET b = 'z' WHERE id = 2"
                )
            conn.execute("INSERT INTO s.x1 (b) VALUES ('last')")
            until(lambda: one(there, "SELECT count(*) FROM s.x1") == 3, "the rows at the subscriber")
            for number in (2, 30):
                assert there.execute(f"SELECT * FROM s.x{number} ORDER BY id").fetchall() == [(1, "x"), (2, "z")]
        finally:
            there.execute("ALTER SUBSCRIPTION sub DISABLE")
            there.execute("DROP SUBSCRIPTION sub")

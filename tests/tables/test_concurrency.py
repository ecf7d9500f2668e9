"""Stamping beside other sessions: what they see and when, who waits for whom, and what a call that fails leaves."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from psycopg import errors

from harness import catalogs as catalog
from harness import compare, invariants, oracle, servers, subject
from harness.catalogs import Catalogs
from harness.servers import one, until
from harness.sessions import Running, anonymous_memory, pid, until_blocked
from pgbillion.common.connection import Connection
from pgbillion.server.postgres import Cluster

TEMPLATE = "t.template"


@pytest.fixture
def template(conn: Connection) -> None:
    conn.execute(
        "CREATE SCHEMA t; CREATE SCHEMA s;"
        "CREATE TABLE t.template (id serial PRIMARY KEY, b text CHECK (b <> '')); CREATE INDEX ON t.template (b)"
    )


@pytest.fixture
def other(cluster: Cluster, database: str, template: None) -> Iterator[Connection]:
    with cluster.connect(database) as conn:
        yield conn


@pytest.fixture
def third(cluster: Cluster, database: str, template: None) -> Iterator[Connection]:
    with cluster.connect(database) as conn:
        yield conn


# ---- invalidation


def _names(count: int) -> list[str]:
    numbers = sorted({1, 2, count // 2 + 1, count})
    return [f"s._{number:08x}" for number in numbers]


def _fails(conn: Connection, name: str) -> None:
    """Look for the table in every way that leaves an entry in a cache."""
    with pytest.raises(errors.UndefinedTable):
        conn.execute(f"SELECT * FROM {name}")
    with pytest.raises(errors.UndefinedTable):
        conn.execute(f"PREPARE p AS SELECT * FROM {name}")
    assert one(conn, "SELECT to_regclass(%s)", name) is None
    assert one(conn, "SELECT to_regclass(%s)", name + "_pkey") is None
    assert one(conn, "SELECT to_regtype(%s)", name) is None
    assert one(conn, "SELECT to_regtype(%s)", name + "[]") is None
    with pytest.raises(errors.UndefinedObject):
        conn.execute(f"SELECT NULL::{name}")
    with pytest.raises(errors.UndefinedTable):
        conn.execute(f"DO $$ BEGIN INSERT INTO {name} DEFAULT VALUES; END $$")
    with pytest.raises(errors.UndefinedTable):
        conn.execute(f"SELECT nextval('{name}_id_seq')")


def _works(conn: Connection, name: str) -> None:
    assert one(conn, "SELECT to_regclass(%s)::text", name) == name
    assert one(conn, "SELECT to_regclass(%s)::text", name + "_pkey") == name + "_pkey"
    assert one(conn, "SELECT to_regtype(%s)::text", name) == name
    assert one(conn, "SELECT to_regtype(%s)::text", name + "[]") == name + "[]"
    conn.execute(f"SELECT NULL::{name}")
    conn.execute(f"DO $$ BEGIN INSERT INTO {name} (b) VALUES ('x'); END $$")
    assert one(conn, f"SELECT nextval('{name}_id_seq')") >= 2
    conn.execute(f"PREPARE p AS SELECT b FROM {name} WHERE id = 1")
    assert one(conn, "EXECUTE p") == "x"
    conn.execute("DEALLOCATE p")
    conn.execute(f"DELETE FROM {name}")


# Few tables invalidate cache entries one by one, many invalidate whole catalogues.
@pytest.mark.parametrize("count", [3, 60, 1500])
def test_a_session_that_failed_to_find_a_table_finds_it(conn: Connection, other: Connection, count: int) -> None:
    for name in _names(count):
        _fails(other, name)
    subject.create_tables(conn, TEMPLATE, None, 1, count, schema="s")
    for name in _names(count):
        _works(other, name)


@pytest.mark.parametrize("count", [3, 60, 1500])
def test_by_oid_while_uncommitted(conn: Connection, other: Connection, count: int) -> None:
    """A monitor that resolves the OIDs of tables not yet committed remembers that they have no name."""
    by_oid = (
        ("pg_class", "regclass"),
        ("pg_type", "regtype"),
    )
    with conn.transaction():
        subject.create_tables(conn, TEMPLATE, None, 1, count, schema="s")
        found: list[tuple[str, int, str]] = [
            (cast, oid, name)
            for catalog_name, cast in by_oid
            for oid, name in conn.execute(
                f"SELECT oid::bigint, oid::{cast}::text FROM {catalog_name}"
                f" WHERE {'relnamespace' if cast == 'regclass' else 'typnamespace'} = 's'::regnamespace"
                f" ORDER BY random() LIMIT 40"
            ).fetchall()
        ]
        for cast, oid, _ in found:
            assert one(other, f"SELECT %s::oid::{cast}::text", oid) == str(oid)
            assert one(
                other,
                f"SELECT {'format_type(%s::oid, NULL)' if cast == 'regtype' else 'pg_get_indexdef(%s::oid)'}",
                oid,
            ) in (None, "???")
            assert one(other, "SELECT has_table_privilege(%s::oid, 'SELECT')", oid) is None
        for name in _names(count):
            _fails(other, name)
    for cast, oid, name in found:
        assert one(other, f"SELECT %s::oid::{cast}::text", oid) == name
        if cast == "regtype":
            assert one(other, "SELECT format_type(%s::oid, NULL)", oid) == name
    for name in _names(count):
        _works(other, name)


@pytest.mark.parametrize("count", [3, 1500])
def test_own_session_and_transaction(conn: Connection, template: None, count: int) -> None:
    for name in _names(count):
        _fails(conn, name)
    with conn.transaction():
        assert one(conn, "SELECT to_regclass(%s)", _names(count)[1]) is None
        subject.create_tables(conn, TEMPLATE, None, 1, count, schema="s")
        for name in _names(count):
            assert one(conn, "SELECT to_regclass(%s)::text", name) == name
            conn.execute(f"INSERT INTO {name} (b) VALUES ('x'); TRUNCATE {name} RESTART IDENTITY")
        with conn.transaction(force_rollback=True):
            subject.create_tables(conn, TEMPLATE, "more%d", 1, count, schema="s")
            assert one(conn, "SELECT to_regclass('s.more2')::text") == "s.more2"
            conn.execute("INSERT INTO s.more2 (b) VALUES ('x')")
        assert one(conn, "SELECT to_regclass('s.more2')") is None
    for name in _names(count):
        _works(conn, name)


@pytest.mark.parametrize("count", [3, 1500])
def test_plans_go_on_and_follow(conn: Connection, other: Connection, count: int) -> None:
    """Prepared statements and functions of other sessions survive invalidations, and see a table that replaced one."""
    other.execute("CREATE TABLE s.kept (i int); INSERT INTO s.kept VALUES (1)")
    other.execute("PREPARE kept AS SELECT i FROM s.kept; EXECUTE kept")
    other.execute(
        "CREATE FUNCTION s.peek() RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN RETURN (SELECT"
        " count(*) FROM s._00000002); END $$"
    )
    with pytest.raises(errors.UndefinedTable):
        other.execute("SELECT s.peek()")
    subject.create_tables(conn, TEMPLATE, None, 1, count, schema="s")
    assert one(other, "EXECUTE kept") == 1
    assert one(other, "SELECT s.peek()") == 0
    conn.execute("INSERT INTO s._00000002 (b) VALUES ('x')")
    assert one(other, "SELECT s.peek()") == 1
    with conn.transaction():
        conn.execute("DROP TABLE s._00000002")
        subject.create_tables(conn, TEMPLATE, None, 2, 1, schema="s")
    assert one(other, "SELECT s.peek()") == 0


def test_an_old_snapshot_finds_new_tables_as_with_core(conn: Connection, other: Connection) -> None:
    with other.transaction():
        other.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        other.execute("SELECT 1 FROM pg_class LIMIT 1")
        subject.create_tables(conn, TEMPLATE, None, 1, 3, schema="s")
        oracle.make(conn, TEMPLATE, "s", "by_core")
        for name in ("by_core", "_00000001", "_00000002", "_00000003"):
            assert one(other, f"SELECT count(*) FROM s.{name}") == 0
        assert one(other, "SELECT count(*) FROM pg_class WHERE relnamespace = 's'::regnamespace") == 0


def test_statistics_and_views_of_another_session(conn: Connection, other: Connection) -> None:
    subject.create_tables(conn, TEMPLATE, None, 1, 3, schema="s")
    other.execute("CREATE VIEW s.v AS SELECT * FROM s._00000002; CREATE TABLE s.child () INHERITS (s._00000003)")
    other.execute("CREATE TABLE s.fk (i int REFERENCES s._00000001)")
    with pytest.raises(errors.DependentObjectsStillExist):
        conn.execute("DROP TABLE s._00000002")
    other.execute("SET client_min_messages = warning; DROP SCHEMA s CASCADE; CREATE SCHEMA s")


# ---- several callers


def test_disjoint_ranges(cluster: Cluster, database: str, conn: Connection, catalogs: Catalogs, template: None) -> None:
    """Four callers, several transactions each, some rolled back."""
    workers, rounds, count = 4, 8, 40

    def work(number: int) -> int:
        made = 0
        with cluster.connect(database) as mine:
            for turn in range(rounds):
                with mine.transaction(force_rollback=turn % 3 == 2):
                    first = (number * rounds + turn) * count
                    spaces = ["space1", "space2"] if turn % 2 else None
                    made_now = subject.create_tables(mine, TEMPLATE, None, first, count, tablespaces=spaces, schema="s")
                made += 0 if turn % 3 == 2 else made_now
        return made

    running = [Running(lambda number=number: work(number)) for number in range(workers)]  # type: ignore[misc]
    expected = sum(one.result() for one in running)
    names = {
        name
        for (name,) in conn.execute(
            "SELECT relname FROM pg_class WHERE relnamespace = 's'::regnamespace AND relkind = 'r'"
        )
    }
    assert len(names) == expected == workers * (rounds - 2) * count
    for number in (0, count - 1, count, workers * rounds * count - 1):
        name = f"_{number:08x}"
        if name in names:
            conn.execute("CREATE SCHEMA IF NOT EXISTS a")
            oracle.make(conn, TEMPLATE, "a", name)
            tablespace = one(
                conn, "SELECT reltablespace FROM pg_class WHERE relname = %s AND relnamespace = 's'::regnamespace", name
            )
            if tablespace == 0:
                assert compare.compare(conn, catalogs, ("a", name), ("s", name)) == []
    assert (
        one(
            conn,
            "SELECT count(*) FROM (SELECT 1 FROM pg_class WHERE relfilenode <> 0"
            " GROUP BY reltablespace, relfilenode HAVING count(*) > 1) twice",
        )
        == 0
    )


@pytest.mark.parametrize("outcome", ["commit", "rollback"])
@pytest.mark.parametrize("ranges", [((1, 20), (1, 20)), ((1, 20), (20, 5)), ((10, 20), (1, 10)), ((1, 1), (1, 1))])
def test_same_names(
    conn: Connection,
    other: Connection,
    third: Connection,
    outcome: str,
    ranges: tuple[tuple[int, int], tuple[int, int]],
) -> None:
    """The second waits for the first's transaction, and then finds the name taken or free."""
    (first, count), (second, second_count) = ranges
    conn.execute("BEGIN")
    subject.create_tables(conn, TEMPLATE, None, first, count, schema="s")
    running = Running(lambda: subject.create_tables(other, TEMPLATE, None, second, second_count, schema="s"))
    until_blocked(third, other, running)
    conn.execute(outcome)
    if outcome == "rollback":
        assert running.result() == second_count
        assert one(conn, "SELECT count(*) FROM pg_tables WHERE schemaname = 's'") == second_count
    else:
        with pytest.raises(errors.DuplicateTable):
            running.result()
        assert one(conn, "SELECT count(*) FROM pg_tables WHERE schemaname = 's'") == count
    _works(conn, f"s._{(first if outcome == 'commit' else second):08x}")


@pytest.mark.parametrize("ours_first", [True, False])
def test_same_name_as_a_concurrent_create_table(
    conn: Connection, other: Connection, third: Connection, ours_first: bool
) -> None:
    def by_core(session: Connection) -> None:
        session.execute("CREATE TABLE s._00000005 (i int)")

    def ours(session: Connection) -> None:
        subject.create_tables(session, TEMPLATE, None, 1, 10, schema="s")

    steps: list[Callable[[Connection], None]] = [ours, by_core] if ours_first else [by_core, ours]
    conn.execute("BEGIN")
    steps[0](conn)
    running = Running(lambda: steps[1](other))
    until_blocked(third, other, running)
    conn.execute("COMMIT")
    # core itself says unique_violation where it had to wait
    with pytest.raises(errors.UniqueViolation if ours_first else errors.DuplicateTable):
        running.result()
    assert one(conn, "SELECT count(*) FROM pg_tables WHERE schemaname = 's'") == (10 if ours_first else 1)


def test_crossing_ranges_end(conn: Connection, other: Connection, template: None) -> None:
    """Two transactions that each want what the other has: a deadlock is found, one of them wins."""
    for session in (conn, other):
        session.execute("SET deadlock_timeout = '50ms'; BEGIN")
    subject.create_tables(conn, TEMPLATE, None, 1, 5, schema="s")
    subject.create_tables(other, TEMPLATE, None, 101, 5, schema="s")
    first = Running(lambda: subject.create_tables(conn, TEMPLATE, None, 101, 5, schema="s"))
    second = Running(lambda: subject.create_tables(other, TEMPLATE, None, 1, 5, schema="s"))
    # the loser's locks go with its error, and the winner goes on
    until(lambda: first.done and second.done, "the deadlock to be found")
    won = []
    for session, running in ((conn, first), (other, second)):
        try:
            won.append(running.result())
        except errors.DeadlockDetected:
            session.execute("ROLLBACK")
        else:
            session.execute("COMMIT")
    assert won == [5]
    assert one(conn, "SELECT count(*) FROM pg_tables WHERE schemaname = 's'") == 10


# ---- DDL beside


BLOCKED = {
    "drop_schema": ("DROP SCHEMA s", errors.DependentObjectsStillExist),
    "drop_template": ("DROP TABLE t.template", None),
    "alter_template": ("ALTER TABLE t.template ADD c int", None),
    "rename_template": ("ALTER TABLE t.template RENAME TO u", None),
    "create_trigger": (
        "CREATE TRIGGER tr BEFORE UPDATE ON t.template FOR EACH ROW EXECUTE FUNCTION"
        " suppress_redundant_updates_trigger()",
        None,
    ),
    "drop_owner": ("DROP ROLE maker", errors.DependentObjectsStillExist),
}


@pytest.mark.parametrize("name", BLOCKED)
def test_ddl_waits_for_the_transaction(conn: Connection, other: Connection, third: Connection, name: str) -> None:
    """As it does for one that did CREATE TABLE (LIKE)."""
    statement, error = BLOCKED[name]
    conn.execute("GRANT ALL ON SCHEMA s, t TO maker; GRANT SELECT ON t.template TO maker")
    conn.execute("GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA pgbillion_tables TO maker")
    blocked_by_core = _is_blocked_by_core(conn, other, third, statement)
    conn.execute("BEGIN; SET LOCAL ROLE maker")
    subject.create_tables(conn, TEMPLATE, None, 1, 50, schema="s")
    running = Running(lambda: other.execute(statement))
    if blocked_by_core:
        until_blocked(third, other, running)
    conn.execute("COMMIT")
    if error is None:
        running.result()
    else:
        with pytest.raises(error):
            running.result()
    assert one(conn, "SELECT count(*) FROM pg_tables WHERE schemaname = 's'") == 50
    conn.execute("DROP OWNED BY maker; GRANT CREATE ON TABLESPACE space1, space2 TO maker")


def _is_blocked_by_core(conn: Connection, other: Connection, third: Connection, statement: str) -> bool:
    other.execute("SET lock_timeout = '100ms'")
    conn.execute("BEGIN; SET LOCAL ROLE maker; CREATE TABLE s.probe (LIKE t.template INCLUDING ALL)")
    try:
        with other.transaction(force_rollback=True):
            other.execute(statement)
        return False
    except errors.LockNotAvailable:
        return True
    finally:
        conn.execute("ROLLBACK")
        other.execute("RESET lock_timeout")


@pytest.mark.parametrize(
    "statement",
    ["DROP TABLE t.template", "ALTER TABLE t.template ADD c int", "DROP SCHEMA s CASCADE", "TRUNCATE t.template"],
)
def test_waits_for_ddl(conn: Connection, other: Connection, third: Connection, statement: str) -> None:
    """A call waits for the DDL before it, and then sees what is."""
    conn.execute("BEGIN")
    conn.execute(statement)
    running = Running(lambda: subject.create_tables(other, TEMPLATE, None, 1, 5, schema="s"))
    until_blocked(third, other, running)
    conn.execute("COMMIT")
    if "DROP" in statement:
        with pytest.raises((errors.UndefinedTable, errors.InvalidSchemaName)):
            running.result()
    else:
        assert running.result() == 5
        assert one(
            conn,
            "SELECT count(*) FROM pg_attribute WHERE attname = 'c' AND attrelid IN (SELECT oid FROM"
            " pg_class WHERE relnamespace = 's'::regnamespace)",
        ) == (5 if "ADD c" in statement else 0)


def test_a_storm_of_ddl(cluster: Cluster, database: str, conn: Connection, catalogs: Catalogs, template: None) -> None:
    """Core's DDL, stamping, VACUUM and REINDEX of the catalogues at once; seeded; the fixture checks what is left."""
    seed = random.Random(20110521)
    seeds = [seed.random() for _ in range(5)]

    def core(chance: random.Random) -> None:
        with cluster.connect(database) as mine:
            for turn in range(60):
                name = f"s.core{chance.randrange(20)}"
                try:
                    mine.execute(f"CREATE TABLE {name} (LIKE t.template INCLUDING ALL)")
                    if chance.random() < 0.5:
                        mine.execute(f"ALTER TABLE {name} ADD c{turn} int; DROP TABLE {name}")
                except (errors.DuplicateTable, errors.DuplicateObject, errors.UniqueViolation, errors.UndefinedTable):
                    pass  # the other one was faster

    def ours(chance: random.Random, number: int) -> None:
        with cluster.connect(database) as mine:
            for turn in range(15):
                with mine.transaction(force_rollback=chance.random() < 0.3):
                    count = chance.randrange(1, 60)
                    subject.create_tables(mine, TEMPLATE, f"w{number}_{turn}_%d", 1, count, schema="s")
                    if chance.random() < 0.3:
                        mine.execute(f"DROP TABLE s.w{number}_{turn}_1")

    def maintenance(chance: random.Random) -> None:
        with cluster.connect(database) as mine:
            for _ in range(12):
                table = chance.choice(["pg_class", "pg_attribute", "pg_depend", "pg_type", "pg_index", "pg_attrdef"])
                mine.execute(
                    chance.choice(
                        [f"VACUUM {table}", f"ANALYZE {table}", f"REINDEX TABLE {table}", f"VACUUM (FREEZE) {table}"]
                    )
                )
                mine.execute("CHECKPOINT")

    running = [
        Running(lambda: core(random.Random(seeds[0]))),
        Running(lambda: core(random.Random(seeds[1]))),
        Running(lambda: ours(random.Random(seeds[2]), 1)),
        Running(lambda: ours(random.Random(seeds[3]), 2)),
        Running(lambda: maintenance(random.Random(seeds[4]))),
    ]
    until(lambda: all(each.done for each in running), "all to end", 300)
    deadlocks = 0
    for each in running:
        try:
            each.result()
        except errors.DeadlockDetected:
            deadlocks += 1  # REINDEX of a catalogue beside DDL may do that, with core's DDL alone too
    assert deadlocks <= 2
    names = conn.execute(
        "SELECT relname FROM pg_class WHERE relnamespace = 's'::regnamespace AND relkind = 'r' ORDER BY 1"
    ).fetchall()
    conn.execute("CREATE SCHEMA a")
    made = [name for (name,) in names if name.startswith("w")]
    for name in made[:: max(1, len(made) // 5)]:
        oracle.make(conn, TEMPLATE, "a", name)
        family = catalog.family(conn, catalogs, f"s.{name}")
        assert catalog.difference(catalog.family(conn, catalogs, f"a.{name}"), family) == []
    for (name,) in names:
        conn.execute(f"INSERT INTO s.{name} (id, b) VALUES (1, 'x')")


# ---- what ends a call


def _stop_in_the_middle(conn: Connection, other: Connection, stop: Callable[[], object]) -> Running[int]:
    """Start a long call in `other`, and do `stop` when it has made some tables and is not through."""
    running = Running(lambda: subject.create_tables(other, TEMPLATE, None, 1, 200_000, schema="s"))

    def some() -> bool:
        assert not running.done, "ended before it could be stopped"
        done = one(conn, "SELECT tables_done FROM pgbillion_tables.create_progress WHERE pid = %s", pid(other))
        return (done or 0) > 0

    until(some, "some tables")
    stop()
    return running


def _nothing_left(
    cluster: Cluster, conn: Connection, before: tuple[dict[str, int], set[invariants.File]], catalogs: Catalogs
) -> None:
    assert catalog.counts(conn, catalogs) == before[0]
    conn.execute("CHECKPOINT")
    assert invariants.orphans(cluster.data, conn) - before[1] == set()


@pytest.mark.parametrize("how", ["cancel", "terminate", "statement_timeout"])
def test_stopped_in_the_middle(
    cluster: Cluster, conn: Connection, other: Connection, catalogs: Catalogs, how: str
) -> None:
    conn.execute("CHECKPOINT")
    before = catalog.counts(conn, catalogs), invariants.orphans(cluster.data, conn)
    if how == "statement_timeout":
        other.execute("SET statement_timeout = '300ms'")
        with pytest.raises(errors.QueryCanceled):
            subject.create_tables(other, TEMPLATE, None, 1, 200_000, schema="s")
        other.execute("RESET statement_timeout")
    elif how == "cancel":
        running = _stop_in_the_middle(conn, other, lambda: conn.execute("SELECT pg_cancel_backend(%s)", [pid(other)]))
        with pytest.raises(errors.QueryCanceled):
            running.result(20)
    else:
        running = _stop_in_the_middle(
            conn, other, lambda: conn.execute("SELECT pg_terminate_backend(%s)", [pid(other)])
        )
        with pytest.raises(psycopg.OperationalError):
            running.result(20)
        gone = pid(other)
        until(
            lambda: not one(conn, "SELECT count(*) FROM pg_stat_activity WHERE pid = %s", gone),
            "the backend to be gone",
        )
    _nothing_left(cluster, conn, before, catalogs)
    assert conn.execute("SELECT * FROM pgbillion_tables.create_progress").fetchall() == []
    if how != "terminate":
        assert subject.create_tables(other, TEMPLATE, None, 1, 3, schema="s") == 3
        _works(other, "s._00000002")


def test_lock_timeout(conn: Connection, other: Connection) -> None:
    conn.execute("BEGIN; LOCK TABLE t.template IN ACCESS EXCLUSIVE MODE")
    other.execute("SET lock_timeout = '50ms'")
    with pytest.raises(errors.LockNotAvailable):
        subject.create_tables(other, TEMPLATE, None, 1, 3, schema="s")
    conn.execute("ROLLBACK")
    assert subject.create_tables(other, TEMPLATE, None, 1, 3, schema="s") == 3


def test_cancelled_while_it_waits_for_a_name(conn: Connection, other: Connection, third: Connection) -> None:
    conn.execute("BEGIN")
    subject.create_tables(conn, TEMPLATE, None, 7, 1, schema="s")
    running = Running(lambda: subject.create_tables(other, TEMPLATE, None, 1, 20, schema="s"))
    until_blocked(third, other, running)
    third.execute("SELECT pg_cancel_backend(%s)", [pid(other)])
    with pytest.raises(errors.QueryCanceled):
        running.result(20)
    conn.execute("COMMIT")
    assert one(conn, "SELECT count(*) FROM pg_tables WHERE schemaname = 's'") == 1


def test_progress_is_seen_by_others(conn: Connection, other: Connection, third: Connection) -> None:
    other.execute("SET application_name = 'the maker'")
    third.execute("SET ROLE reader")
    seen: list[tuple[Any, ...]] = []
    strangers: set[tuple[Any, ...]] = set()

    def watch() -> bool:
        # that there is a call is no secret, what it makes is
        query = "SELECT template, tables_total, tables_done FROM pgbillion_tables.create_progress WHERE pid = %s"
        strangers.update(third.execute(query, [pid(other)]).fetchall())
        row = conn.execute(
            "SELECT datname = current_database(), template::regclass::text, tables_total, tables_done"
            " FROM pgbillion_tables.create_progress WHERE pid = %s",
            [pid(other)],
        ).fetchone()
        if row:
            seen.append(row)
        return running.done

    assert conn.execute("SELECT * FROM pgbillion_tables.create_progress").fetchall() == []
    running = Running(lambda: subject.create_tables(other, TEMPLATE, None, 1, 5000, schema="s"))
    until(watch, "the call to end", 120)
    assert running.result() == 5000
    assert {row[:3] for row in seen} == {(True, "t.template", 5000)}
    done = [row[3] for row in seen]
    assert done == sorted(done)
    assert len(set(done)) > 3, "progress is not reported often enough"
    assert all(0 <= number <= 5000 for number in done)
    assert conn.execute("SELECT * FROM pgbillion_tables.create_progress").fetchall() == []
    assert strangers == {(None, None, None)}
    assert third.execute("SELECT * FROM pgbillion_tables.create_progress").fetchall() == []


@pytest.mark.parametrize("count", [5, 700])
@pytest.mark.parametrize("how", ["rollback", "savepoint", "prepared", "error"])
def test_rollback_leaves_nothing(
    cluster: Cluster, conn: Connection, template: None, catalogs: Catalogs, how: str, count: int
) -> None:
    conn.execute("CHECKPOINT")
    before = catalog.counts(conn, catalogs), invariants.orphans(cluster.data, conn)
    conn.execute("BEGIN")
    if how == "savepoint":
        conn.execute("SAVEPOINT a")
    assert (
        subject.create_tables(conn, TEMPLATE, None, 1, count, tablespaces=["pg_default", "space1"], schema="s") == count
    )
    conn.execute(
        "INSERT INTO s._00000001 (b) VALUES ('x'); INSERT INTO s._00000005 (b) VALUES ('x'); DROP TABLE s._00000003"
    )
    if how == "rollback":
        conn.execute("ROLLBACK")
    elif how == "savepoint":
        conn.execute("ROLLBACK TO a")
        assert one(conn, "SELECT to_regclass('s._00000002')") is None
        conn.execute("COMMIT")
    elif how == "prepared":
        conn.execute("PREPARE TRANSACTION 'p'")
        conn.execute("ROLLBACK PREPARED 'p'")
    else:
        with pytest.raises(errors.DivisionByZero):
            conn.execute("SELECT 1 / 0")
        conn.execute("COMMIT")
    _nothing_left(cluster, conn, before, catalogs)


def test_savepoint_rolled_back_and_again(conn: Connection, template: None, catalogs: Catalogs) -> None:
    conn.execute("BEGIN; SAVEPOINT a")
    subject.create_tables(conn, TEMPLATE, None, 1, 30, schema="s")
    conn.execute("ROLLBACK TO a")
    subject.create_tables(conn, TEMPLATE, None, 1, 10, schema="s")
    conn.execute("SAVEPOINT b")
    subject.create_tables(conn, TEMPLATE, None, 11, 10, schema="s")
    conn.execute("RELEASE b; INSERT INTO s._00000002 (b) VALUES ('x'); COMMIT")
    assert one(conn, "SELECT count(*) FROM pg_tables WHERE schemaname = 's'") == 20
    conn.execute("CREATE SCHEMA a")
    oracle.make(conn, TEMPLATE, "a", "_00000014")
    assert compare.compare(conn, catalogs, ("a", "_00000014"), ("s", "_00000014")) == []


def test_two_phase_commit(cluster: Cluster, conn: Connection, other: Connection, catalogs: Catalogs) -> None:
    with pytest.raises(errors.UndefinedTable):
        other.execute("SELECT * FROM s._00000002")
    conn.execute("BEGIN")
    subject.create_tables(conn, TEMPLATE, None, 1, 300, schema="s")
    conn.execute("PREPARE TRANSACTION 'p'")
    with pytest.raises(errors.UndefinedTable):
        other.execute("SELECT * FROM s._00000002")
    conn.execute("COMMIT PREPARED 'p'")
    _works(other, "s._00000002")
    conn.execute("CREATE SCHEMA a; DROP TABLE s._00000002")
    for name in ("_00000001", "_00000003", "_0000012c"):
        oracle.make(conn, TEMPLATE, "a", name)
        assert compare.compare(conn, catalogs, ("a", name), ("s", name)) == []


# ---- memory


def test_private_memory_is_bounded(cluster: Cluster) -> None:
    """In one call of 100,000 tables, and in many calls of a session."""
    with servers.new_database(cluster, "memory") as name, cluster.connect(name) as conn:
        conn.execute("CREATE SCHEMA s; CREATE TABLE template (i integer)")
        subject.create_tables(conn, "template", "warm%d", 1, 100, schema="s")
        before = anonymous_memory(conn)
        for turn in range(200):
            subject.create_tables(conn, "template", f"turn{turn}_%d", 1, 50, schema="s")
        many = anonymous_memory(conn)
        assert many - before < 16 << 20
        peak = [many]

        def call() -> int:
            return subject.create_tables(conn, "template", None, 1, 100_000, schema="s")

        running = Running(call)

        def ended() -> bool:
            peak.append(anonymous_memory(conn))
            return running.done

        until(ended, "100,000 tables", 300)
        assert running.result() == 100_000
        assert max(peak) - many < 256 << 20
        assert (
            one(conn, "SELECT count(*) FROM pg_class WHERE relnamespace = 's'::regnamespace")
            == 100_000 + 200 * 50 + 100
        )
        assert invariants.index_errors(conn, parents=False) == []
        # dropping so many with the database needs no lock for each

"""Columnar indexes that the command line creates, records and drops by itself, for the queries that were counted."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from harness import servers, standby
from harness.command_line import CommandLine, command_line, failed
from harness.servers import one, until
from pgbillion.rows import advice, columns, schedule, sizes, upkeep, workload
from pgbillion.rows.columns import Index
from pgbillion.rows.upkeep import Reads
from pgbillion.rows.workload import Query
from pgbillion.server.postgres import Cluster, Installation

APPLY = ("rows", "columns", "--statements", "--apply")
TABLES = """
CREATE ROLE app LOGIN;
CREATE SCHEMA app AUTHORIZATION app;
SET SESSION AUTHORIZATION app;
CREATE TABLE app.sales AS
SELECT i AS id, 'k' || i % 10 AS kind, i % 1000 / 100.0::float8 AS price, i % 7 AS few, repeat('x', 60) AS note
  FROM generate_series(1, 40000) i;
CREATE TABLE app.part (d int, k text, v int, w text) PARTITION BY RANGE (d);
CREATE TABLE app.part1 PARTITION OF app.part FOR VALUES FROM (0) TO (100);
CREATE TABLE app.part2 PARTITION OF app.part FOR VALUES FROM (100) TO (200);
INSERT INTO app.part SELECT i % 200, 'k' || i % 10, i, repeat('x', 30) FROM generate_series(1, 60000) i;
RESET SESSION AUTHORIZATION;
"""
FROM_SALES = "FROM app.sales"
SUMS = "SELECT kind, sum(price) FROM sales GROUP BY 1"


@pytest.fixture(scope="module")
def counting(installation: Installation) -> Iterator[Cluster]:
    """A server that counts statements."""
    if not (installation.sharedir / "extension" / "pg_stat_statements.control").exists():
        pytest.skip("this PostgreSQL has no contrib")
    with servers.new_cluster(installation, {"shared_preload_libraries": "pg_stat_statements"}) as cluster:
        yield cluster


@pytest.fixture
def cli(counting: Cluster) -> Iterator[CommandLine]:
    """A database of an application that is no superuser."""
    with servers.new_database(counting, "kept") as database, command_line(counting, database) as cli:
        with cli.connect() as conn:
            conn.execute(TABLES)
            conn.execute("VACUUM ANALYZE")
            conn.execute("CREATE EXTENSION IF NOT EXISTS pgbillion_rows; CREATE EXTENSION pg_stat_statements")
            conn.execute("SELECT pg_stat_statements_reset()")
        try:
            yield cli
        finally:
            with cli.connect() as conn:
                conn.execute("DROP OWNED BY app CASCADE; DROP ROLE app")


def _as_app(cli: CommandLine, *queries: str) -> None:
    """Run queries as the application does, which finds its tables by its name."""
    with cli.connect() as conn:
        conn.execute("SET SESSION AUTHORIZATION app")
        for query in queries:
            conn.execute(query.encode())


def _there(cli: CommandLine) -> list[str]:
    with cli.connect() as conn:
        return [f"{index.identifier} ({', '.join(index.columns)})" for index in columns.indexes(conn)]


def _do(cli: CommandLine, command: str) -> None:
    with cli.connect() as conn:
        conn.execute(command.encode())


# ---- creating ----


@pytest.mark.majors
def test_an_index_is_created_recorded_and_not_created_again(cli: CommandLine) -> None:
    _as_app(cli, SUMS, SUMS)
    done = cli.json(*APPLY)
    (created,) = done["created"]
    assert (created["index"], created["table"], created["columns"]) == (
        "app.sales_columns",
        "app.sales",
        ["kind", "price"],
    )
    assert created["why"] == "1 query with 2 calls"
    assert created["undo"] == "DROP INDEX CONCURRENTLY app.sales_columns"
    with cli.connect() as conn:
        comment = one(conn, "SELECT obj_description('app.sales_columns'::regclass)")
        assert re.fullmatch(r"made by pgbillion rows columns on \S+ as \d+/\d+: 1 query with 2 calls", comment)
        # of the application, which has the table
        assert one(conn, "SELECT relowner::regrole::text FROM pg_class WHERE relname = 'sales_columns'") == "app"
        conn.execute("SELECT pgbillion_rows.version()")
        plan = "\n".join(row[0] for row in conn.execute("EXPLAIN SELECT kind, sum(price) FROM app.sales GROUP BY 1"))
        assert "Columns: sales_columns" in plan
    shown = cli.run("rows", "columns", "--journal", check=True).stdout
    assert "created app.sales_columns on app.sales (kind, price)" in shown
    assert "to undo: DROP INDEX CONCURRENTLY app.sales_columns" in shown
    again = cli.run(*APPLY, check=True).stdout
    assert "created: 0, replaced: 0" in again
    assert _there(cli) == ["app.sales_columns (kind, price)"]
    # who drops it, has decided
    _do(cli, created["undo"])
    assert cli.json(*APPLY)["created"] == []
    outcomes = [one["outcome"] for one in cli.json(*APPLY)["advice"]["queries"]]
    assert any("was dropped by hand" in outcome for outcome in outcomes)
    # until somebody asks for it
    assert cli.json("rows", "columns", "--statements", "--create")["created"] == ["app.sales_columns"]


def test_an_index_goes_with_its_table(cli: CommandLine) -> None:
    """Then it was not dropped by hand, and others like it are created."""
    _as_app(cli, "SELECT k, sum(v) FROM part GROUP BY 1")
    assert [made["index"] for made in cli.json(*APPLY)["created"]] == ["app.part1_columns", "app.part2_columns"]
    _do(cli, "DROP TABLE app.part1; CREATE TABLE app.part3 PARTITION OF app.part FOR VALUES FROM (0) TO (100)")
    _do(cli, "INSERT INTO app.part SELECT i % 100, 'k', i, repeat('x', 30) FROM generate_series(1, 30000) i")
    _do(cli, "VACUUM ANALYZE app.part")
    _as_app(cli, "SELECT k, sum(v) FROM part GROUP BY 1")
    assert [made["index"] for made in cli.json(*APPLY)["created"]] == ["app.part3_columns"]
    assert _there(cli) == ["app.part2_columns (k, v)", "app.part3_columns (k, v)"]


def test_a_wider_index_replaces_ours_and_no_other(cli: CommandLine) -> None:
    _as_app(cli, SUMS)
    cli.run(*APPLY, check=True)
    _do(cli, "CREATE INDEX by_hand ON app.sales USING columns (few)")
    _as_app(cli, "SELECT kind, few, sum(price) FROM sales GROUP BY 1, 2")
    done = cli.json(*APPLY)
    assert [made["columns"] for made in done["created"]] == [["kind", "price", "few"]]
    assert [gone["index"] for gone in done["replaced"]] == ["app.sales_columns"]
    assert _there(cli) == ["app.by_hand (few)", "app.sales_columns2 (kind, price, few)"]


def test_the_budget_is_for_all_that_was_created(cli: CommandLine) -> None:
    _as_app(cli, SUMS)
    (created,) = cli.json(*APPLY, "--budget", "10MB")["created"]
    _as_app(cli, "SELECT k, sum(v) FROM part GROUP BY 1")
    done = cli.json(*APPLY, "--budget", f"{created['bytes'] // 1000 + 10}kB")
    assert done["created"] == []
    assert any("the budget does not suffice" in one["outcome"] for one in done["advice"]["queries"])
    assert len(cli.json(*APPLY, "--budget", "10MB")["created"]) == 2


def test_what_is_not_created_unseen(cli: CommandLine) -> None:
    with cli.connect() as conn, cli.connect() as other:
        # from 19 on, queries mark pages all-visible, too, but not while somebody may not see their rows
        other.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1")
        conn.execute("CREATE TABLE public.foreign_to_app AS SELECT i, i % 5 AS g FROM generate_series(1, 50000) i")
        conn.execute("GRANT SELECT ON public.foreign_to_app TO app; GRANT USAGE ON SCHEMA pgbillion_rows TO app")
        conn.execute("VACUUM ANALYZE public.foreign_to_app")
        conn.execute("CREATE INDEX broken ON app.sales USING columns (few)")
        conn.execute("UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'app.broken'::regclass")
        fresh, foreign = (f"SELECT g, sum(i) FROM {table} GROUP BY 1" for table in ("fresh", "public.foreign_to_app"))
        create = "CREATE TABLE app.fresh AS SELECT i, i % 5 AS g FROM generate_series(1, 50000) i"
        _as_app(cli, create, "ANALYZE app.fresh", SUMS, fresh, foreign)
        done = cli.json(*APPLY, "-U", "app")
    assert done["created"] == []
    outcomes = {query["query"]: query["outcome"] for query in done["advice"]["queries"]}
    assert "app.broken is not valid" in outcomes[SUMS]
    assert "only the owner of public.foreign_to_app" in outcomes[foreign]
    assert "VACUUM app.fresh first: 0% of its blocks are all-visible" in outcomes[fresh]
    # people see it, too
    shown = cli.run(*APPLY, "-U", "app", check=True).stdout
    assert "not created: app.broken is not valid, as an interrupted build leaves it: DROP INDEX" in shown
    (cli.state / "columns.jsonl").unlink()
    # of a server that does not tell everybody who it is
    _do(cli, "REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC")
    assert "not created: app.broken is not valid" in cli.run(*APPLY, "-U", "app", check=True).stdout


@pytest.mark.parametrize(
    "meanwhile",
    [
        "DROP TABLE app.sales",
        "ALTER TABLE app.sales RENAME TO old",
        "ALTER TABLE app.sales RENAME COLUMN price TO cost",
        "DROP TABLE app.part2",
        "DROP TABLE app.part",
    ],
)
def test_what_is_dropped_or_renamed_meanwhile(
    cli: CommandLine, meanwhile: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between any two statements: after the queries were planned, and before rows are looked at."""
    queries = [
        Query(f"SELECT kind, sum(price) {FROM_SALES} GROUP BY 1"),
        Query("SELECT k, sum(v) FROM app.part GROUP BY 1"),
    ]
    for place in ("plan", "columns_of"):
        with cli.connect() as conn, cli.connect() as other:
            conn.execute("SELECT pgbillion_rows.version()")
            module: Any = workload if place == "plan" else sizes
            function = getattr(module, place)
            did: list[int] = []

            def disturbed(
                *given: Any, function: Any = function, did: list[int] = did, other: Any = other, **more: Any
            ) -> Any:
                found = function(*given, **more)
                if not did:
                    did.append(1)
                    # by now nothing is locked
                    other.execute(f"SET lock_timeout = '5s'; {meanwhile}".encode())
                return found

            monkeypatch.setattr(module, place, disturbed)
            found = advice.advise(conn, queries, None, strict=False)
            monkeypatch.undo()
            assert did
            assert len(found.queries) == 2
            assert all(outcome for _, outcome in found.queries)
        _do(cli, "DROP SCHEMA app CASCADE; DROP ROLE IF EXISTS app")
        _do(cli, TABLES)
        with cli.connect() as conn:
            conn.execute("VACUUM ANALYZE")


def test_one_that_is_created_meanwhile(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The planner sees it, and the transaction does not."""
    plan = workload.plan
    with cli.connect() as conn, cli.connect() as other:
        conn.execute("SELECT pgbillion_rows.version()")

        def disturbed(*given: Any, **more: Any) -> Any:
            conn.execute("SELECT 1")
            other.execute("CREATE TABLE app.young AS SELECT i, i % 7 AS g FROM generate_series(1, 60000) i")
            other.execute("ANALYZE app.young")
            return plan(*given, **more)

        monkeypatch.setattr(workload, "plan", disturbed)
        query = "SELECT g, sum(i) FROM app.young GROUP BY 1"
        ((_, outcome),) = advice.advise(conn, [Query(query)], None, strict=False).queries
        assert outcome == "a table that it reads was created or dropped meanwhile"
        other.execute("DROP TABLE app.young")


def test_one_that_fails_leaves_the_others(cli: CommandLine) -> None:
    with cli.connect() as conn:
        conn.execute(
            "CREATE FUNCTION public.no() RETURNS event_trigger LANGUAGE plpgsql AS"
            " $$BEGIN IF current_query() LIKE '%sales%' THEN RAISE 'not today'; END IF; END$$;"
            "CREATE EVENT TRIGGER no ON ddl_command_start WHEN TAG IN ('CREATE INDEX') EXECUTE FUNCTION public.no()"
        )
    _as_app(cli, SUMS, "SELECT k, sum(v) FROM part GROUP BY 1")
    done = cli.run(*APPLY)
    failed(done, 3, "not today", "the next run tries these again")
    assert _there(cli) == ["app.part1_columns (k, v)", "app.part2_columns (k, v)"]
    _do(cli, "DROP EVENT TRIGGER no")
    assert [made["index"] for made in cli.json(*APPLY)["created"]] == ["app.sales_columns"]


def test_two_runs_do_not_meet(cli: CommandLine) -> None:
    _as_app(cli, SUMS)
    with cli.connect() as conn, upkeep.alone(conn):
        failed(cli.run(*APPLY), 3, "another run creates or drops", "wait for it")
    assert _there(cli) == []


def test_nothing_is_done_that_cannot_be_recorded(cli: CommandLine) -> None:
    _as_app(cli, SUMS)
    (cli.state / "columns.jsonl").mkdir()
    failed(cli.run(*APPLY), 1, "columns.jsonl cannot be written", "--state-dir")
    assert _there(cli) == []


def test_a_journal_that_was_cut(cli: CommandLine) -> None:
    _as_app(cli, SUMS)
    cli.run(*APPLY, check=True)
    book = cli.state / "columns.jsonl"
    assert book.stat().st_mode & 0o077 == 0
    with book.open("a") as file:
        file.write('{"at": "2026')
    _as_app(cli, "SELECT k, sum(v) FROM part GROUP BY 1")
    done = cli.run(*APPLY, check=True)
    assert "line 2 cannot be read" in done.stderr
    assert len(cli.json("rows", "columns", "--journal")["journal"]) == 3


# ---- whose queries ----

# what an immutable function does that is evaluated while a query is planned
TRAP = """
CREATE FUNCTION trap.f() RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$
DECLARE
    attempt text;
BEGIN
    FOREACH attempt IN ARRAY ARRAY['RESET ROLE', 'SET ROLE postgres', 'SET SESSION AUTHORIZATION postgres',
        'RESET SESSION AUTHORIZATION', 'SET search_path = trap', 'SET work_mem = ''77MB''',
        'CREATE TEMP TABLE pg_class ()', 'INSERT INTO trap.seen VALUES (1)', 'SET transaction_read_only = off']
    LOOP
        BEGIN
            EXECUTE attempt;
        EXCEPTION WHEN OTHERS THEN
            RAISE LOG 'REFUSED: %', attempt;
        END;
        RAISE LOG 'HOSTILE: as % after %', current_user, attempt;
    END LOOP;
    RETURN 3;
END$$
"""


@pytest.mark.majors
def test_queries_are_planned_as_the_roles_that_ran_them(cli: CommandLine) -> None:
    with cli.connect() as conn:
        conn.execute("CREATE ROLE mallory LOGIN; CREATE SCHEMA trap AUTHORIZATION mallory")
        conn.execute("GRANT USAGE ON SCHEMA app TO mallory; GRANT SELECT ON app.sales TO mallory")
    try:
        with cli.connect() as conn:
            conn.execute("SET SESSION AUTHORIZATION mallory; CREATE TABLE trap.seen (i int)")
            conn.execute("CREATE FUNCTION trap.f() RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT 3'")
            conn.execute("SELECT sum(price) FROM app.sales WHERE few = trap.f()")
            conn.execute(TRAP.replace("CREATE FUNCTION", "CREATE OR REPLACE FUNCTION").encode())
        log = cli.cluster.log
        for arguments in (("rows", "columns", "--statements"), APPLY):
            before = log.stat().st_size
            done = cli.json(*arguments)
            with log.open("rb") as file:
                file.seek(before)
                said = file.read().decode()
            # it was evaluated, as the role whose it is
            assert "HOSTILE: as mallory after RESET ROLE" in said
            assert set(re.findall(r"HOSTILE: as (\w+)", said)) == {"mallory"}
            for attempt in ("RESET ROLE", "SET SESSION AUTHORIZATION postgres", "CREATE TEMP TABLE", "INSERT INTO"):
                assert f"REFUSED: {attempt}" in said
            (query,) = [query for query in done["advice"]["queries"] if "trap.f()" in query["query"]]
            assert query["outcome"] == "advised"
        assert _there(cli) == ["app.sales_columns (price, few)"]
        with cli.connect() as conn:
            assert one(conn, "SELECT count(*) FROM trap.seen") == 0
            # settings of the function's end with it
            conn.execute("SET search_path = ''; SET work_mem = '5MB'; BEGIN READ ONLY")
            conn.execute("SELECT pgbillion_rows.explain_as('SELECT trap.f()', 'mallory', 'trap')")
            now = "SELECT current_user, current_setting('search_path'), current_setting('work_mem')"
            assert conn.execute(now).fetchone() == ("postgres", '""', "5MB")
            conn.execute("ROLLBACK")
    finally:
        with cli.connect() as conn:
            conn.execute("DROP OWNED BY mallory; DROP ROLE mallory")


@pytest.mark.majors
def test_why_a_query_is_not_served(cli: CommandLine) -> None:
    """Also one of another role, or of which no values are known."""
    _do(cli, "GRANT USAGE ON SCHEMA pgbillion_rows TO app; GRANT pg_read_all_stats TO app")
    _as_app(cli, "SELECT array_agg(id ORDER BY id) FROM sales WHERE few = 3", "SELECT id FROM sales WHERE id = 4")
    for arguments in ((), ("-U", "app")):
        done = cli.json("rows", "columns", "--statements", *arguments)["advice"]
        outcomes = {query["query"]: query["outcome"] for query in done["queries"]}
        assert outcomes["SELECT id FROM sales WHERE id = $1"] == "not vectorized: there is nothing to aggregate"
        ordered = outcomes["SELECT array_agg(id ORDER BY id) FROM sales WHERE few = $1"]
        assert ordered.startswith("not vectorized: ")
        assert "nothing to aggregate" not in ordered
        assert "is a guess" not in ordered


@pytest.mark.majors
def test_explain_as_refuses(cli: CommandLine) -> None:
    refused = [
        ("SELECT 1", "postgres", "must be able to SET ROLE|must be member of role"),
        ("SELECT 1; SELECT 2", "app", "one SELECT statement is expected"),
        ("DELETE FROM sales", "app", "one SELECT statement is expected"),
        ("SELECT 1 INTO trap", "app", "this is not a query that can be planned"),
        ("SELECT $1", "app", "could not determine data type|text"),
        ("SELECT count(*) FROM hidden", "app", "permission denied for table hidden"),
    ]
    with cli.connect() as conn:
        conn.execute("CREATE TABLE public.hidden (i int); GRANT USAGE ON SCHEMA pgbillion_rows TO app")
        explain = "SELECT pgbillion_rows.explain_as(%s, %s::regrole, 'app, public')"
        assert one(conn, explain, "SELECT sum(few) FROM sales WHERE few < $1", "app")["Plan"]
        conn.execute("SET SESSION AUTHORIZATION app")
        for query, role, error in refused[:4] + refused[5:]:
            with pytest.raises(psycopg.Error, match=error):
                conn.execute(explain, [query, role])
        assert one(conn, explain, "SELECT sum(few) FROM sales WHERE few < $1", "app")["Plan"]
        conn.execute("RESET SESSION AUTHORIZATION")
        with pytest.raises(psycopg.errors.UndefinedObject, match="role with OID 1 does not exist"):
            conn.execute("SELECT pgbillion_rows.explain_as('SELECT 1', 1::oid::regrole, '')")
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="hidden"):
            conn.execute(explain, ["SELECT count(*) FROM hidden", "app"])


def test_a_superuser_s_queries_are_not_planned_unseen(cli: CommandLine) -> None:
    with cli.connect() as conn:
        conn.execute("SELECT kind, sum(price) FROM app.sales GROUP BY 1")
    done = cli.run(*APPLY, check=True)
    assert re.search(r"^\d+ of superusers left out", done.stdout)
    assert _there(cli) == []
    assert cli.json("rows", "columns", "--statements")["advice"]["superusers_left_out"] == 0
    # as another role they are
    _do(cli, "GRANT USAGE ON SCHEMA pgbillion_rows TO app; GRANT pg_read_all_stats TO app")
    assert len(cli.json(*APPLY, "-U", "app")["created"]) == 1
    _do(cli, "DROP INDEX app.sales_columns")
    assert len(cli.json("rows", "columns", "--statements", "--create", "-U", "app")["created"]) == 1


# ---- dropping ----

# of a day: less than the time since anything was created or read
MOMENT = "0.0000001"


@pytest.mark.majors
def test_what_nobody_reads_is_dropped(cli: CommandLine) -> None:
    _as_app(cli, SUMS)
    _do(cli, "CREATE INDEX by_hand ON app.sales USING columns (few)")
    (created,) = cli.json(*APPLY)["created"]
    # not yet
    assert cli.json(*APPLY)["dropped"] == []
    (gone,) = cli.json("rows", "columns", "--drop-unread", MOMENT)["dropped"]
    assert (gone["index"], gone["why"][:21]) == (created["index"], "no query has read it ")
    assert gone["undo"] == "CREATE INDEX CONCURRENTLY sales_columns ON app.sales USING columns (kind, price)"
    assert _there(cli) == ["app.by_hand (few)"]
    # that the query was called before is no reason to create it again, but that it is called again
    assert (cli.json(*APPLY)["created"], cli.json(*APPLY)["idle"]) == ([], 1)
    _as_app(cli, SUMS)
    assert [made["index"] for made in cli.json(*APPLY)["created"]] == [created["index"]]
    # created again by that command, the index counts as one that somebody made by hand
    cli.run("rows", "columns", "--drop-unread", MOMENT, check=True)
    _do(cli, gone["undo"])
    assert cli.json("rows", "columns", "--drop-unread", MOMENT)["dropped"] == []
    both = cli.json("rows", "columns", "--drop-unread", MOMENT, "--of-others")["dropped"]
    assert [one["index"] for one in both] == ["app.by_hand", "app.sales_columns"]
    journal = cli.json("rows", "columns", "--journal")["journal"]
    assert [entry["action"] for entry in journal] == ["created", "dropped", "created", "dropped", "dropped", "dropped"]


@pytest.mark.majors
def test_reads_are_counted(cli: CommandLine) -> None:
    _as_app(cli, SUMS)
    cli.run(*APPLY, check=True)
    assert [one["reads"] for one in cli.json("rows", "columns", "--status")["status"]] == [0]
    with cli.connect() as conn:
        conn.execute("SELECT pgbillion_rows.version(); SET pgbillion_rows.columns = force")
        conn.execute("SELECT kind, sum(price) FROM app.sales GROUP BY 1")
        counted = "SELECT idx_scan > 0 FROM pg_stat_all_indexes WHERE indexrelname = 'sales_columns'"
        until(lambda: one(conn, counted), "the statistics")
        (read,) = upkeep.reads(conn, columns.indexes(conn))
        assert (read.last is not None) == (conn.info.server_version >= 160000)
        assert read.number > 0
        # where the time of the last read is not known, what was ever read stays
        found = upkeep.unread(conn, float(MOMENT), of_others=False)
        assert bool(found) == (conn.info.server_version >= 160000)
        if found:
            assert re.fullmatch(r"no query has read it since \d{4}-\d\d-\d\d", found[0].why)
        assert upkeep.unread(conn, 1, of_others=False) == []
    assert "Reads" in cli.run("rows", "columns", "--status", check=True).stdout


def _read(number: int, made: float | None, last: float | None = None, *, oid: int = 1, **more: Any) -> Reads:
    facts: dict[str, Any] = {"table": 2, "root": 2, "valid": True, "partitioned": False, "part": False, **more}
    index = Index(oid=oid, schema="s", name="i", table_schema="s", table_name="t", columns=["c"], bytes=1, **facts)
    return Reads(index, number, last, made, made is not None, True, "")


DAY = 86400.0
NOW = 100 * DAY


@pytest.mark.parametrize(
    ("group", "counted", "expected"),
    [
        pytest.param([_read(0, 60 * DAY)], 1.0, True, id="never read"),
        pytest.param([_read(0, 80 * DAY)], 1.0, False, id="young"),
        pytest.param([_read(0, 60 * DAY)], 80 * DAY, False, id="counted anew, by a reset or a crash"),
        pytest.param([_read(5, 10 * DAY, 60 * DAY)], 1.0, True, id="read long ago"),
        pytest.param([_read(5, 10 * DAY, 80 * DAY)], 1.0, False, id="read"),
        pytest.param([_read(5, 10 * DAY)], 1.0, False, id="read, as 15 counts it"),
        pytest.param([_read(0, None)], 1.0, False, id="of others"),
        pytest.param([_read(0, 60 * DAY, valid=False)], 1.0, False, id="being built"),
        pytest.param([_read(0, 60 * DAY), _read(1, 60 * DAY, 90 * DAY, oid=3)], 1.0, False, id="one partition read"),
        pytest.param([_read(0, 60 * DAY), _read(0, None, oid=3)], 1.0, False, id="one partition of others"),
        pytest.param(
            [_read(0, 60 * DAY, partitioned=True), _read(0, None, oid=3, part=True)], 1.0, True, id="partitioned"
        ),
        pytest.param(
            [_read(0, 60 * DAY, partitioned=True), _read(9, None, 90 * DAY, oid=3, part=True)], 1.0, False,
            id="partitioned, and read",
        ),
    ],
)  # fmt: skip
def test_what_counts_as_unread(group: list[Reads], counted: float, expected: bool) -> None:
    found = list(upkeep._unread(group, upkeep._Since(1, NOW, counted), 30, of_others=False))
    assert bool(found) is expected
    if found:
        assert all(not member.index.part for member in found[0][0])


def test_partitions_go_together(cli: CommandLine) -> None:
    _as_app(cli, "SELECT k, sum(v) FROM part GROUP BY 1")
    cli.run(*APPLY, check=True)
    with cli.connect() as conn:
        conn.execute("SELECT pgbillion_rows.version(); SET pgbillion_rows.columns = force")
        conn.execute("SELECT k, sum(v) FROM app.part1 GROUP BY 1")
        until(
            lambda: one(conn, "SELECT idx_scan > 0 FROM pg_stat_all_indexes WHERE indexrelname = 'part1_columns'"), "it"
        )
    if one_server_knows_last(cli):
        assert len(cli.json("rows", "columns", "--drop-unread", MOMENT)["dropped"]) == 2
    else:
        assert cli.json("rows", "columns", "--drop-unread", MOMENT)["dropped"] == []
    # of the partitioned table itself
    _do(cli, "DROP INDEX IF EXISTS app.part1_columns, app.part2_columns")
    cli.run("rows", "columns", "SELECT k, sum(v) FROM app.part GROUP BY 1", "--create", check=True)
    (gone,) = cli.json("rows", "columns", "--drop-unread", MOMENT)["dropped"]
    assert gone["command"] == "DROP INDEX app.part_columns"
    assert gone["undo"] == "CREATE INDEX part_columns ON ONLY app.part USING columns (k, v)"


def one_server_knows_last(cli: CommandLine) -> bool:
    with cli.connect() as conn:
        return conn.info.server_version >= 160000


def test_a_copy_of_a_database_has_no_index_of_ours(cli: CommandLine) -> None:
    """Its indexes have our comments, and nothing is known of their reads."""
    _as_app(cli, SUMS)
    cli.run(*APPLY, check=True)
    copy = f"{cli.database}_copy"
    with cli.cluster.connect() as conn:
        conn.execute(f"CREATE DATABASE {copy} TEMPLATE {cli.database}".encode())
    try:
        with command_line(cli.cluster, copy) as other:
            assert other.json("rows", "columns", "--drop-unread", MOMENT)["dropped"] == []
            assert _there(other) == ["app.sales_columns (kind, price)"]
    finally:
        with cli.cluster.connect() as conn:
            conn.execute(f"DROP DATABASE {copy}".encode())
    # nor has one that was built again under another OID
    _do(cli, "REINDEX INDEX CONCURRENTLY app.sales_columns")
    assert cli.json("rows", "columns", "--drop-unread", MOMENT)["dropped"] == []


def test_what_cannot_be_dropped_is_named(cli: CommandLine) -> None:
    _as_app(cli, SUMS)
    cli.run(*APPLY, check=True)
    with cli.connect() as conn:
        conn.execute("CREATE ROLE clerk LOGIN; GRANT USAGE ON SCHEMA pgbillion_rows TO clerk")
    try:
        done = cli.run("rows", "columns", "--drop-unread", MOMENT, "-U", "clerk")
        failed(done, 3, "app.sales_columns: only its owner can drop it", "next run")
    finally:
        with cli.connect() as conn:
            conn.execute("DROP OWNED BY clerk; DROP ROLE clerk")
    _do(cli, "ALTER SYSTEM SET track_counts = off")
    _do(cli, "SELECT pg_reload_conf()")
    try:
        off = "SELECT current_setting('track_counts') = 'off'"
        with cli.connect() as conn:
            until(lambda: one(conn, off), "the setting")
        failed(cli.run("rows", "columns", "--drop-unread", "30"), 1, "track_counts is off", "turn it on")
    finally:
        _do(cli, "ALTER SYSTEM RESET track_counts")
        _do(cli, "SELECT pg_reload_conf()")
    assert _there(cli) == ["app.sales_columns (kind, price)"]


def test_a_drop_that_fails_is_not_in_the_journal(cli: CommandLine) -> None:
    _as_app(cli, SUMS)
    cli.run(*APPLY, check=True)
    _do(cli, "CREATE FUNCTION public.no() RETURNS event_trigger LANGUAGE plpgsql AS $$BEGIN RAISE 'not today'; END$$")
    _do(cli, "CREATE EVENT TRIGGER no ON ddl_command_start WHEN TAG IN ('DROP INDEX') EXECUTE FUNCTION public.no()")
    failed(cli.run("rows", "columns", "--drop-unread", MOMENT), 3, "app.sales_columns: not today", "next run")
    _do(cli, "DROP EVENT TRIGGER no")
    assert [entry["action"] for entry in cli.json("rows", "columns", "--journal")["journal"]] == ["created"]
    # then somebody drops it by hand, which counts as such
    _do(cli, "DROP INDEX app.sales_columns")
    _as_app(cli, SUMS)
    assert any("by hand" in reason for reason in cli.json(*APPLY)["advice"]["kept_out"])


def test_a_crash_resets_what_is_known_of_reads(cli: CommandLine) -> None:
    with cli.connect() as conn:
        before = upkeep._facts(conn)
    cli.cluster.kill()
    cli.cluster.start()
    with cli.connect() as conn:
        after = upkeep._facts(conn)
    assert after[2] > before[1]


def test_a_standby_gives_advice_only(cli: CommandLine) -> None:
    with standby.standby(cli.cluster) as there, command_line(there, cli.database) as other:
        with there.connect(cli.database) as conn:
            conn.execute("SET SESSION AUTHORIZATION app")
            conn.execute(SUMS.encode())
        (advised,) = other.json("rows", "columns", "--statements")["advice"]["indexes"]
        assert advised["columns"] == ["kind", "price"]
        for arguments in (APPLY, ("rows", "columns", "--drop-unread", "30"), ("rows", "columns", SUMS, "--create")):
            failed(other.run(*arguments), 3, "this server is a standby", "connect to its primary")


# ---- the schedule ----


def test_a_line_for_cron_does_it(cli: CommandLine, tmp_path: Path) -> None:
    _as_app(cli, SUMS)
    done = cli.run("rows", "columns", "--statements", "--schedule", "cron", "--budget", "1GB", "--drop-unread", "60")
    assert done.returncode == 0, done.stderr
    assert "nothing has been installed" in done.stdout
    assert all(line.startswith("#") for line in done.stdout.splitlines()[:-1])
    line = done.stdout.splitlines()[-1]
    found = re.fullmatch(r"17 3 \* \* \* (.*)", line)
    assert found
    assert "--apply --budget 1GB --drop-unread 60" in found[1]
    # cron has hardly any environment
    command = found[1].replace(r"\%", "%")
    ran = subprocess.run(
        ["/bin/sh", "-c", command], env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
    assert "created app.sales_columns on app.sales (kind, price)" in ran.stdout
    assert _there(cli) == ["app.sales_columns (kind, price)"]
    shown = cli.json("rows", "columns", "--statements", "--schedule", "systemd")
    assert "--apply" in shown["command"]
    assert "ExecStart=" in shown["schedule"]


def test_units_for_systemd_can_be_read_by_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGHOST", '/so "c%k')
    text = schedule.systemd("/bin/sh -c 'echo $HOME 100%' -d 'host=/x dbname=a b'", "a b%\n", "look")
    assert 'ExecStart=/bin/sh -c "echo $$HOME 100%%" -d "host=/x dbname=a b"' in text
    assert 'Environment="PGHOST=/so \\"c%%k"' in text
    for name in ("service", "timer"):
        found = re.search(
            rf"^# /etc/systemd/system/(pgbillion-columns-a-b\.{name})\n(.*?)(?=^# /etc|\Z)", text, re.M | re.S
        )
        assert found
        (tmp_path / found[1]).write_text(found[2])
    program = shutil.which("systemd-analyze")
    if program is not None:
        done = subprocess.run(
            [program, "verify", str(tmp_path / "pgbillion-columns-a-b.timer")], capture_output=True, text=True
        )
        assert (done.returncode, str(tmp_path) in done.stderr) == (0, False), done.stderr


@pytest.mark.parametrize(
    ("arguments", "error", "hint"),
    [
        (("--apply",), "are for the queries in pg_stat_statements", "add --statements"),
        (("--statements", "--apply", "--create"), "--apply creates", "leave out --create"),
        (("--statements", "--apply", "--drop-unread", "9", "--of-others"), "nothing drops the indexes of", "give"),
        (("--drop-unread", "0"), "would drop what is read now", "30"),
        (("--drop-unread", "nan"), "would drop what is read now", "30"),
        (("--of-others",), "--of-others is for --drop-unread", "add --drop-unread"),
        (("--statements", "--schedule", "at"), 'there is no schedule "at"', "cron"),
        (("--statements", "--schedule", "cron", "--status"), "--schedule prints a job", "leave out --refresh"),
        (("--schedule", "cron"), "are for the queries in pg_stat_statements", "add --statements"),
    ],
)  # fmt: skip
def test_bad_input(cli: CommandLine, arguments: tuple[str, ...], error: str, hint: str) -> None:
    failed(cli.run("rows", "columns", *arguments), 1, error, hint)


def test_nothing_was_done(cli: CommandLine) -> None:
    assert "nothing was created or dropped" in cli.run("rows", "columns", "--journal", check=True).stdout
    assert json.loads(cli.run("rows", "columns", "--journal", "--json", check=True).stdout) == {"journal": []}


@pytest.mark.majors
def test_constants_after_their_types_can_be_planned(cli: CommandLine) -> None:
    """pg_stat_statements makes a syntax error of them."""
    day = "date '2026-01-01' + few"
    _as_app(
        cli,
        f"SELECT sum(price) FROM sales WHERE {day} >= timestamp '2026-01-03' - interval '1' day",
        f"SELECT few, sum(id) FROM sales WHERE {day} > timestamp(3) with time zone '2026-01-03' GROUP BY 1",
        f"SELECT max(kind) FROM sales WHERE {day} - interval '1 day' < now() AND id IN (1, 2, 3)",
    )
    outcomes = {
        query["query"]: query["outcome"]
        for query in cli.json("rows", "columns", "--statements")["advice"]["queries"]
        if "FROM sales" in query["query"]
    }
    assert len(outcomes) == 3
    assert all("date $" in query for query in outcomes)
    assert set(outcomes.values()) == {"advised"}


def test_no_role_is_planned_as_that_cannot_be_set(cli: CommandLine) -> None:
    """To inherit privileges is less: as the role one could change its password."""
    with cli.connect() as conn:
        newer = conn.info.server_version >= 160000
        conn.execute("CREATE ROLE clerk LOGIN; GRANT USAGE ON SCHEMA pgbillion_rows TO clerk")
        conn.execute("GRANT app TO clerk WITH SET FALSE" if newer else "SELECT 1")
    try:
        with cli.connect() as conn:
            conn.execute("SET SESSION AUTHORIZATION clerk")
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                conn.execute("SELECT pgbillion_rows.explain_as('SELECT 1', 'app', '')")
            conn.execute("RESET SESSION AUTHORIZATION; GRANT app TO clerk")
            conn.execute("GRANT app TO clerk WITH SET TRUE, INHERIT FALSE" if newer else "ALTER ROLE clerk NOINHERIT")
            conn.execute("SET SESSION AUTHORIZATION clerk")
            assert one(conn, "SELECT pgbillion_rows.explain_as('SELECT 1', 'app', '')")["Plan"]
    finally:
        with cli.connect() as conn:
            conn.execute("DROP OWNED BY clerk; DROP ROLE clerk")

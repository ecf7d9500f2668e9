"""`pgbillion tenants`: schemas created, migrated, compared, listed, renamed and dropped by the command line."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from psycopg import sql

from harness import schemas, servers
from harness.command_line import CommandLine, command_line, failed
from harness.servers import one
from pgbillion.common import quoting
from pgbillion.common.connection import Connection
from pgbillion.common.target import Target
from pgbillion.server.postgres import Cluster
from pgbillion.tenants import create, diff, migrate, script

MODEL = (
    "CREATE TABLE a (i serial PRIMARY KEY, t text); CREATE TABLE b (a integer REFERENCES a); CREATE VIEW v AS TABLE a"
)


@pytest.fixture
def cli(cluster: Cluster) -> Iterator[CommandLine]:
    """A database with a schema `model`, and four tenants like it, made by SQL alone."""
    with servers.new_database(cluster, "tenants") as database, command_line(cluster, database) as made:
        with made.connect() as conn:
            for name in ("model", "tenant_1", "tenant_2", "tenant_3", "tenant_4"):
                schemas.make_schema(conn, name, MODEL)
        yield made


def written(folder: Path, name: str, text: str) -> str:
    (folder / name).write_text(text, encoding="utf-8")
    return str(folder / name)


@contextmanager
def unseen(total: int) -> Iterator[Callable[[int], None]]:
    yield lambda done: None


def having(conn: Connection, column: str) -> list[str]:
    """The schemas whose table a has a column."""
    rows = conn.execute(
        "SELECT table_schema::text FROM information_schema.columns"
        " WHERE table_name = 'a' AND column_name = %s ORDER BY 1",
        [column],
    )
    return [name for (name,) in rows]


def tenants(*numbers: int) -> list[str]:
    return [f"tenant_{number}" for number in numbers]


def test_create_has_tenants_name_themselves_and_join_publications(cli: CommandLine) -> None:
    with cli.connect() as conn:
        conn.execute(
            "CREATE FUNCTION model.rows() RETURNS bigint LANGUAGE sql AS 'SELECT count(*) FROM model.a';"
            "CREATE PUBLICATION published FOR TABLE model.a"
        )
    create = ("tenants", "create", "--template", "model", "--name-format", "new_%d", "-n", "6", "-j", "1")
    cli.run(*create, "--rewrite-bodies", "--join-publications", check=True)
    with cli.connect() as conn:
        conn.execute("INSERT INTO new_6.a DEFAULT VALUES")
        assert conn.execute("SELECT new_6.rows(), new_5.rows(), new_1.rows()").fetchall() == [(1, 0, 0)]
        assert one(conn, "SELECT count(*) FROM pg_publication_tables WHERE schemaname ~ '^new_'") == 6
    # these are told apart from it by nothing
    assert cli.json("tenants", "diff", "model", "new*")["same"] == 6


@pytest.mark.quick
def test_create_clones_what_is_missing(cli: CommandLine) -> None:
    cli.run("tenants", "migrate", "model", "-c", "ALTER TABLE a ADD COLUMN c integer", check=True)
    create = (
        "tenants",
        "create",
        "--template",
        "model",
        "--name-format",
        "tenant_%d",
        "-n",
        "7",
        "-j",
        "2",
        "--batch",
        "2",
    )
    assert cli.json(*create) | {"seconds": 0, "tenants_per_second": 0} == {
        "created": 3,
        "before": 4,
        "seconds": 0,
        "tenants_per_second": 0,
    }
    with cli.connect() as conn:
        conn.execute("INSERT INTO tenant_7.a DEFAULT VALUES; INSERT INTO tenant_7.b VALUES (1)")
        assert one(conn, "SELECT i FROM tenant_7.v") == 1
    assert "0 tenants created" in cli.run(*create, check=True).stdout
    # those that were cloned from a template that had it need it no more
    done = cli.run("tenants", "migrate", "tenant_*", "-c", "ALTER TABLE a ADD COLUMN c integer", check=True)
    assert done.stdout.startswith("4 tenants migrated, 3 before")
    failed(cli.run("tenants", "create", "--template", "none", "-n", "1"), 1, 'no schema "none"')
    failed(cli.run("tenants", "create", "--template", "model", "-n", "x"), 1, '"x" is not a number of tenants')
    with cli.connect() as conn:
        conn.execute("CREATE ROLE poor LOGIN")
    failed(cli.run("tenants", "create", "--template", "model", "-n", "1", "-U", "poor"), 3, "no privilege to clone")
    with cli.connect() as conn:
        conn.execute("DROP ROLE poor")
    failed(cli.run("tenants", "create", "--template", "model", "-n", "2", "--name-format", "x"), 1, "no number in it")
    assert (
        "number of tenants must be at least 1" in cli.run("tenants", "create", "--template", "model", "-n", "0").stderr
    )


def test_create_and_drop_can_be_interrupted(cli: CommandLine) -> None:
    """Whole tenants are there or not, and the same command goes on."""
    create = ("tenants", "create", "--template", "model", "--name-format", "new_%d", "-n", "40", "-j", "2")
    count = "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'new%'"
    waits = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock')"
    with cli.connect() as conn:
        # without something to wait for they might all be there before the signal comes
        with cli.connect() as holder, holder.transaction(force_rollback=True):
            holder.execute("CREATE SCHEMA new_20")
            with cli.started(*create) as process:
                servers.until(lambda: one(conn, waits) and one(conn, count) > 1, "create to wait")
                process.send_signal(signal.SIGINT)
                _, stderr = process.communicate(timeout=60)
                assert process.returncode == 130
        cli.run("tenants", "diff", "model", "new_*", check=True)
        before = one(conn, count)
        assert 1 < before < 40
        assert f"error: interrupted with {before} of 40 tenants created\n" in stderr
        (again,) = re.findall("hint: go on with: (.*)\n", stderr)
        done = subprocess.run(again, shell=True, capture_output=True, text=True, env=cli._env())
        assert done.stdout.startswith(f"{40 - before} tenants created"), done.stderr
        with cli.connect() as holder, holder.transaction():
            holder.execute("LOCK TABLE new_20.a IN ACCESS SHARE MODE")
            with cli.started("tenants", "drop", "new_*", "--yes", "-j", "1") as process:
                servers.until(lambda: one(conn, waits), "drop to wait")
                process.send_signal(signal.SIGINT)
                assert process.wait(60) == 130
        assert 0 < one(conn, count) < 40
        cli.run("tenants", "diff", "model", "new_*", check=True)
        cli.run("tenants", "drop", "new_*", "--yes", check=True)
        assert one(conn, count) == 0


def test_migrate_lists_failures_and_goes_on_with_them(cli: CommandLine, tmp_path: Path) -> None:
    add = written(
        tmp_path,
        "add.sql",
        "ALTER TABLE a ADD COLUMN c integer; CREATE INDEX ON :\"schema\".a (c); SET work_mem = '1MB'",
    )
    with cli.connect() as conn:
        conn.execute("ALTER TABLE tenant_2.a ADD COLUMN c text; DROP VIEW tenant_3.v; DROP TABLE tenant_3.a CASCADE")
    migrate = ("tenants", "migrate", add, "tenant_*", "-j", "2")
    done = cli.run(*migrate)
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        'failed: tenant_2: add.sql: column "c" of relation "a" already exists',
        'failed: tenant_3: add.sql: relation "a" does not exist',
    ]
    assert done.stdout.startswith("2 tenants migrated, 2 failed")
    with cli.connect() as conn:
        assert having(conn, "c") == tenants(1, 2, 4)
        journal = "SELECT tenant, done, error FROM pgbillion_journal.migration ORDER BY 1"
        assert conn.execute(journal.encode()).fetchall() == [
            ("tenant_1", True, None),
            ("tenant_2", False, 'column "c" of relation "a" already exists'),
            ("tenant_3", False, 'relation "a" does not exist'),
            ("tenant_4", True, None),
        ]
        conn.execute("ALTER TABLE tenant_2.a DROP COLUMN c; CREATE TABLE tenant_3.a (i integer)")
    assert cli.run(*migrate, check=True).stdout.startswith("2 tenants migrated, 2 before")
    assert cli.run(*migrate, check=True).stdout.startswith("0 tenants migrated, 4 before")
    with cli.connect() as conn:
        assert having(conn, "c") == tenants(1, 2, 3, 4)
    written(tmp_path, "add.sql", "ALTER TABLE a ADD COLUMN d integer")
    failed(cli.run(*migrate), 1, "add.sql has been run in tenant_", "a file of another name")


def test_what_a_tenant_s_statements_set_does_not_reach_the_next(cli: CommandLine) -> None:
    spoil = (
        "SET search_path = tenant_4; SET default_transaction_read_only = on;"
        " SET ROLE reader; CREATE TEMPORARY TABLE a (j integer)"
    )
    with cli.connect() as conn:
        # later versions have no other
        if conn.info.server_version < 190000:
            spoil += "; SET standard_conforming_strings = off"
    cli.run(
        "tenants", "migrate", "tenant_*", "-j", "1", "-c", spoil, "-c", "ALTER TABLE a ADD COLUMN c text", check=True
    )
    with cli.connect() as conn:
        assert having(conn, "c") == tenants(1, 2, 3, 4)


@pytest.mark.parametrize("how", [(), ("--no-transaction",), ("--dry-run",)])
@pytest.mark.parametrize(
    "name", ["v_1;alter role eve superuser;--", "v_1;commit;alter role eve superuser;commit;begin;--", 'V_1 \\\';"x"\n']
)
def test_a_schema_s_name_runs_nothing(cli: CommandLine, name: str, how: tuple[str, ...]) -> None:
    """Who may create schemas names them, and a migration is run by somebody who may more."""
    with cli.connect() as conn:
        conn.execute("CREATE ROLE eve")
        try:
            for made in ("v_1", name):
                schemas.make_schema(conn, made, "CREATE TABLE old (); CREATE TABLE settings (tenant text)")
            done = cli.run(
                "tenants",
                "migrate",
                "?_1*",
                *how,
                "-c",
                "DROP TABLE :schema.old; SET search_path = :schema, public;"
                "INSERT INTO settings VALUES (:'schema') -- so\n;"
                'ALTER TABLE :"schema".settings ADD COLUMN done boolean',
                check=True,
            )
            assert done.stdout.startswith(f"2 tenants {'could be ' if '--dry-run' in how else ''}migrated")
            assert not one(conn, "SELECT rolsuper FROM pg_roles WHERE rolname = 'eve'")
            for made in ("v_1", name):
                rows = conn.execute(sql.SQL("SELECT tenant FROM {}.settings").format(sql.Identifier(made))).fetchall()
                assert rows == ([] if "--dry-run" in how else [(made,)])
                assert one(conn, f"SELECT to_regclass({quoting.literal(quoting.quoted(made, 'old'))}) IS NULL") == (
                    "--dry-run" not in how
                )
        finally:
            conn.execute("DROP ROLE eve")


def test_hints_of_sql_hold_names_as_names(cli: CommandLine) -> None:
    """A superuser runs what they say, and somebody else has chosen the role's name."""
    role = "eve; ALTER ROLE eve SUPERUSER"
    with cli.connect() as conn:
        conn.execute(sql.SQL("CREATE ROLE {} LOGIN").format(sql.Identifier(role)))
        try:
            refused = cli.run("tenants", "migrate", "model", "-c", "SELECT 1", "-U", role)
            failed(refused, 3, "no privilege to create the schema pgbillion_journal")
            assert refused.stderr.strip().endswith(f'TO "{role}"')
            refused = cli.run("tenants", "create", "--template", "model", "-n", "1", "-U", role)
            failed(refused, 3, "no privilege to clone")
            assert refused.stderr.strip().endswith(f'TO "{role}"')
        finally:
            conn.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(role)))


# how an owner of a tenant, whose trigger on UPDATE the migration fires, might get the role that migrates
ESCAPES = {
    "role": "EXECUTE 'RESET ROLE; ALTER ROLE eve SUPERUSER'",
    "user": "EXECUTE 'RESET SESSION AUTHORIZATION; ALTER ROLE eve SUPERUSER'",
    "setting": "PERFORM set_config('role', 'none', false); EXECUTE 'ALTER ROLE eve SUPERUSER'",
    "deferred": "INSERT INTO later VALUES (1)",
    "deferred again": "INSERT INTO later VALUES (2)",
    "cursor": "EXECUTE 'DECLARE c CURSOR WITH HOLD FOR SELECT grab()'",
    "prepared": "EXECUTE 'DEALLOCATE ALL'; FOR i IN 0..20 LOOP"
    " EXECUTE format('PREPARE %I AS SELECT grab()', '_pg3_' || i); END LOOP",
    "temporary": "CREATE TEMP TABLE pg_namespace (nspname text, nspowner oid);"
    " EXECUTE 'CREATE FUNCTION pg_temp.pgbillion_run() RETURNS void LANGUAGE sql AS $f$SELECT grab()$f$'",
    "path": "SET search_path = tenant_1",
}
OWNED = """
    CREATE FUNCTION grab() RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN
        EXECUTE 'RESET ROLE'; EXECUTE 'ALTER ROLE eve SUPERUSER'; RETURN true;
    EXCEPTION WHEN OTHERS THEN RETURN false; END $$;
    CREATE FUNCTION same(text, varchar) RETURNS boolean LANGUAGE sql AS 'SELECT tenant_1.grab()';
    CREATE OPERATOR = (LEFTARG = text, RIGHTARG = varchar, FUNCTION = same);
    CREATE TABLE later (i integer);
    CREATE FUNCTION grab_later() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        PERFORM tenant_1.grab();
        IF NEW.i > 1 THEN
            SET CONSTRAINTS ALL DEFERRED; INSERT INTO tenant_1.later VALUES (1);
        END IF;
        RETURN NULL;
    END $$;
    CREATE CONSTRAINT TRIGGER later AFTER INSERT ON later DEFERRABLE INITIALLY DEFERRED
        FOR EACH ROW EXECUTE FUNCTION grab_later();
    CREATE TABLE mine (i integer, name text); INSERT INTO mine VALUES (1, 'z');
"""


@pytest.mark.majors
@pytest.mark.parametrize("escape", ESCAPES)
def test_as_owner_a_tenant_s_code_gets_no_other_role(cli: CommandLine, escape: str) -> None:
    with cli.connect() as conn:
        conn.execute("CREATE ROLE eve")
        try:
            conn.execute("ALTER SCHEMA tenant_1 OWNER TO eve; SET search_path = tenant_1; SET ROLE eve")
            conn.execute(OWNED)
            conn.execute(
                "CREATE FUNCTION escape() RETURNS trigger LANGUAGE plpgsql AS"
                f" $$ BEGIN {ESCAPES[escape]}; RETURN NEW;"
                " EXCEPTION WHEN insufficient_privilege THEN RETURN NEW; END $$;"
                " CREATE TRIGGER escape BEFORE UPDATE ON mine FOR EACH ROW EXECUTE FUNCTION escape()".encode()
            )
            conn.execute("RESET ROLE; SET search_path = ''")
            migration = ("-c", "UPDATE mine SET i = 2 WHERE name = 'z'::varchar OR true; CREATE TABLE made (i integer)")
            again = [word for number in range(8) for word in ("-c", f"UPDATE mine SET i = {number}")]
            migrate = ("tenants", "migrate", "tenant_1", "--as-owner", *migration, *again)
            done = cli.run(*migrate)
            assert not one(conn, "SELECT rolsuper FROM pg_roles WHERE rolname = 'eve'")
            # before 18 a trigger that may still wait is an error
            if escape.startswith("deferred") and conn.info.server_version < 180000:
                assert "can be deferred, and would then not run as the owner of tenant_1" in done.stderr
            else:
                assert done.returncode == 0, done.stderr
                assert one(conn, "SELECT relowner::regrole::text FROM pg_class WHERE relname = 'made'") == "eve"
                assert one(conn, "SELECT count(*) FROM pgbillion_journal.migration WHERE done") == 9
            # what is not run as the owner is the tenant's
            if escape == "role":
                cli.run("tenants", "migrate", "tenant_1", "-c", "UPDATE mine SET i = 99", check=True)
                assert one(conn, "SELECT rolsuper FROM pg_roles WHERE rolname = 'eve'")
        finally:
            conn.execute("DROP OWNED BY eve CASCADE; DROP ROLE eve")


def test_as_owner_a_migration_cannot_leave_that_role(cli: CommandLine) -> None:
    with cli.connect() as conn:
        conn.execute("CREATE ROLE eve; ALTER SCHEMA tenant_1 OWNER TO eve")
        try:
            migrate = ("tenants", "migrate", "tenant_1", "--as-owner")
            for statement in ("RESET ROLE", "SET LOCAL ROLE postgres", "SET SESSION AUTHORIZATION postgres"):
                refused = cli.run(*migrate, "-c", f"{statement}; CREATE ROLE adam")
                assert refused.returncode == 1
                assert "within security-definer function" in refused.stderr
            failed(cli.run(*migrate, "--no-transaction", "-c", "SELECT 1"), 1, "--as-owner runs each migration in a")
            # whatever is a statement elsewhere is one here
            cli.run(*migrate, "-c", "SELECT 1 AS i INTO made -- so", "-c", "DO $$BEGIN END$$; SELECT 1", check=True)
            done = cli.run(*migrate, "--dry-run", "-c", "DROP TABLE made", check=True)
            assert done.stdout.startswith("1 tenant could be migrated")
            assert one(conn, "SELECT relowner::regrole::text FROM pg_class WHERE relname = 'made'") == "eve"
        finally:
            conn.execute("DROP OWNED BY eve CASCADE; DROP ROLE eve")


@pytest.mark.quick
def test_dry_run_and_canary(cli: CommandLine) -> None:
    add = ("-c", "ALTER TABLE a ADD COLUMN c integer")
    done = cli.run("tenants", "migrate", "tenant_*", *add, "--dry-run", check=True)
    assert done.stdout.startswith("4 tenants could be migrated")
    with cli.connect() as conn:
        assert having(conn, "c") == []
        assert one(conn, "SELECT to_regnamespace('pgbillion_journal')") is None
        conn.execute("DROP TABLE tenant_2.a CASCADE")
    late = (
        "ALTER TABLE b ADD CONSTRAINT k UNIQUE (a) DEFERRABLE INITIALLY DEFERRED;"
        " INSERT INTO a VALUES (1); INSERT INTO b VALUES (1), (1)"
    )
    assert "violates unique constraint" in cli.run("tenants", "migrate", "tenant_1", "-c", late, "--dry-run").stderr
    done = cli.run("tenants", "migrate", "tenant_*", *add, "--canary", "2", "--json")
    assert done.returncode == 1
    with cli.connect() as conn:
        assert having(conn, "c") == tenants(1)
    assert '"left": 2' in done.stdout
    assert cli.run("tenants", "migrate", "tenant_?", *add, "--canary", "2").returncode == 1
    with cli.connect() as conn:
        assert having(conn, "c") == tenants(1, 3)
        conn.execute("CREATE TABLE tenant_2.a (i integer)")
    assert cli.run("tenants", "migrate", "tenant_*", *add, "--canary", "2", check=True).stdout.startswith(
        "2 tenants migrated"
    )


def test_without_a_transaction_each_statement_is_noted(cli: CommandLine) -> None:
    concurrently = "CREATE INDEX CONCURRENTLY one ON a (t); CREATE INDEX CONCURRENTLY two ON b (a)"
    done = cli.run("tenants", "migrate", "tenant_*", "-c", concurrently)
    assert done.returncode == 1
    assert "hint: --no-transaction" in done.stderr
    with cli.connect() as conn:
        conn.execute("CREATE TABLE tenant_2.two (i integer)")
    migrate = ("tenants", "migrate", "tenant_*", "-c", concurrently, "--no-transaction")
    done = cli.run(*migrate)
    assert done.returncode == 1
    assert done.stderr.count("failed: ") == 1
    with cli.connect() as conn:
        assert one(conn, "SELECT count(*) FROM pg_class WHERE relname = 'one'") == 4
        assert one(conn, "SELECT count(*) FROM pg_class WHERE relname = 'two' AND relkind = 'i'") == 3
        conn.execute("DROP TABLE tenant_2.two")
    # the first is not run again: it would fail
    assert cli.run(*migrate, check=True).stdout.startswith("1 tenant migrated, 3 before")
    failed(cli.run(*migrate, "--dry-run"), 1, "nothing to roll back")


def test_a_lock_that_others_have_is_waited_for(cli: CommandLine) -> None:
    migrate = ("tenants", "migrate", "tenant_*", "-c", "ALTER TABLE a ADD COLUMN c integer", "--lock-timeout")
    with cli.connect() as conn:
        with conn.transaction():
            conn.execute("LOCK TABLE tenant_3.a IN ACCESS SHARE MODE")
            done = cli.run(*migrate, "10ms", "--retries", "1")
        assert "failed: tenant_3: " in done.stderr
        assert "lock timeout" in done.stderr
        assert having(conn, "c") == tenants(1, 2, 4)
        conn.autocommit = False
        conn.execute("LOCK TABLE tenant_3.a IN ACCESS SHARE MODE")
        with cli.started(*migrate, "100ms", "--retries", "30") as process, cli.connect() as watcher:
            waits = (
                "SELECT EXISTS (SELECT FROM pg_stat_activity"
                " WHERE application_name = 'pgbillion tenants migrate' AND wait_event_type = 'Lock')"
            )
            servers.until(lambda: one(watcher, waits), "migrate to wait")
            conn.rollback()
            assert process.wait(60) == 0
        assert having(conn, "c") == tenants(1, 2, 3, 4)
    failed(cli.run(*migrate, "soon"), 1, '"soon" is no time')


def test_a_tenant_that_is_gone_is_a_failure(cli: CommandLine) -> None:
    with cli.connect() as conn:
        conn.execute("CREATE TABLE public.a (i integer)")
    add = migrate.Request(script.load([], ["ALTER TABLE a ADD COLUMN c integer"]), path=["public"])
    outcome = migrate.run(Target(cli.conninfo, "the test's"), add, ["tenant_1", "gone"], observe=unseen)
    assert [(failure.tenant, failure.error) for failure in outcome.failures] == [
        ("gone", 'schema "gone" does not exist')
    ]
    with cli.connect() as conn:
        assert having(conn, "c") == tenants(1)


def test_two_runs_at_the_same_time_do_everything_once(cli: CommandLine) -> None:
    migrate = ("tenants", "migrate", "tenant_*", "-c", "INSERT INTO a DEFAULT VALUES", "-j", "3")
    with cli.started(*migrate) as first, cli.started(*migrate) as second:
        told = [process.communicate(timeout=60)[0] for process in (first, second)]
        assert (first.returncode, second.returncode) == (0, 0)
    with cli.connect() as conn:
        assert [one(conn, f"SELECT count(*) FROM {name}.a") for name in tenants(1, 2, 3, 4)] == [1, 1, 1, 1]
    # each says what it has done itself
    assert sum(int(text.split()[0]) for text in told) == 4, told


def test_a_journal_of_somebody_else_is_not_believed(cli: CommandLine) -> None:
    with cli.connect() as conn:
        conn.execute("CREATE SCHEMA pgbillion_journal AUTHORIZATION maker; CREATE TABLE pgbillion_journal.migration ()")
    failed(cli.run("tenants", "migrate", "tenant_*", "-c", "SELECT 1"), 3, "pgbillion_journal is not this role's")


def test_diff_groups_tenants_and_tells_how_to_mend_them(cli: CommandLine) -> None:
    same = cli.run("tenants", "diff", "model", "tenant_*", check=True)
    assert same.stdout.startswith("4 of 4 tenants match model; 8 tables compared")
    drift = """
        ALTER TABLE a ADD COLUMN extra integer, ALTER COLUMN t SET DEFAULT 'x', ALTER COLUMN t SET NOT NULL;
        ALTER TABLE b ALTER COLUMN a TYPE bigint, DROP CONSTRAINT b_a_fkey;
        CREATE INDEX many ON a (lower(t));
        CREATE OR REPLACE VIEW v AS SELECT i, t FROM a WHERE i > 0;
        CREATE FUNCTION f() RETURNS text LANGUAGE sql AS $$SELECT 'x' -- a comment $$;
    """
    with cli.connect() as conn:
        for name in tenants(2, 3):
            with conn.transaction():
                conn.execute(f"SET LOCAL search_path = {name}".encode())
                conn.execute(drift.encode())
        conn.execute("ALTER TABLE tenant_4.a DROP COLUMN t CASCADE; ALTER TABLE tenant_4.a ADD COLUMN t text")
        conn.execute("CREATE VIEW tenant_4.v AS TABLE tenant_4.a; DROP TABLE tenant_4.b")
    done = cli.run("tenants", "diff", "model", "tenant_*")
    assert done.returncode == 1
    # before 18 the columns of a single table are qualified
    shown = [
        re.sub(r"\ba\.([it])\b", r"\1", line) if "VIEW" in line or line.startswith(" ") else line
        for line in done.stdout.splitlines()
    ]
    assert shown[2:] == [
        "-- 2 tenants differ: tenant_2, tenant_3",
        "--   function f() is too many",
        "DROP ROUTINE f();",
        "--   column a.extra is too many",
        "ALTER TABLE a DROP COLUMN extra;",
        "--   column a.t is text DEFAULT 'x'::text NOT NULL, should be text",
        "ALTER TABLE a ALTER COLUMN t DROP DEFAULT;",
        "ALTER TABLE a ALTER COLUMN t DROP NOT NULL;",
        "--   column b.a is bigint, should be integer",
        "ALTER TABLE b ALTER COLUMN a TYPE integer;",
        "--   constraint b_a_fkey on b is missing",
        "ALTER TABLE b ADD CONSTRAINT b_a_fkey FOREIGN KEY (a) REFERENCES a(i);",
        "--   index many is too many",
        "DROP INDEX many;",
        "--   view v is CREATE OR REPLACE VIEW v AS  SELECT i,\\n    t\\n   FROM a\\n  WHERE (i > 0),"
        " should be CREATE OR REPLACE VIEW v AS  SELECT i,\\n    t\\n   FROM a",
        "CREATE OR REPLACE VIEW v AS  SELECT i,",
        "    t",
        "   FROM a;",
        "",
        "-- 1 tenant differs: tenant_4",
        "--   table b is missing",
    ]
    groups = cli.run("tenants", "diff", "model", "tenant_2", "--json").stdout
    with cli.connect() as conn:
        conn.execute("CREATE TABLE seen (groups json)")
        conn.execute("INSERT INTO seen VALUES (%s)", [groups])
        statements = [
            text
            for (text,) in conn.execute(
                "SELECT json_array_elements_text(d->'statements') FROM seen,"
                " json_array_elements(groups->'groups'->0->'differences') d"
            )
        ]
    # what it tells mends them
    mend = [word for statement in statements for word in ("-c", statement)]
    cli.run("tenants", "migrate", "tenant_2", *mend, check=True)
    cli.run("tenants", "diff", "model", "tenant_2", check=True)
    failed(cli.run("tenants", "diff", "none", "tenant_*"), 1, 'no schema "none"')


def test_diff_shows_statements_as_they_are_and_the_rest_as_comments(cli: CommandLine) -> None:
    """Also in a pipe: a name must be no command to psql, and a line feed in one is part of it."""
    names = ["a\nb", 'x\n\\! echo hello\n"', "it's \x1b[2J"]
    with cli.connect() as conn:
        for name in names:
            conn.execute(sql.SQL("CREATE TABLE tenant_1.{} ()").format(sql.Identifier(name)))
    lines = cli.run("tenants", "diff", "model", "tenant_1").stdout
    drops = [f"DROP TABLE {quoting.quote(name)};\n" for name in names]
    assert all(lines.count(drop) == 1 for drop in drops)
    for drop in drops:
        lines = lines.replace(drop, "")
    rest = [line for line in lines.splitlines()[1:] if line]
    assert len(rest) == 4
    assert all(line.startswith("-- ") and line.isprintable() for line in rest)
    found = json.loads(cli.run("tenants", "diff", "model", "tenant_1", "--json").stdout)
    statements = [one for difference in found["groups"][0]["differences"] for one in difference["statements"]]
    cli.run("tenants", "migrate", "tenant_1", *[word for one in statements for word in ("-c", one)], check=True)
    cli.run("tenants", "diff", "model", "tenant_1", check=True)


@pytest.mark.quick
def test_a_clone_is_the_same_to_diff(cli: CommandLine) -> None:
    target = Target(cli.conninfo, "the test's")
    with cli.connect() as conn:
        schemas.make_outside(conn)
        for number, commands in enumerate(schemas.KINDS.values()):
            schemas.make_schema(conn, f"kind_{number}", commands)
            conn.execute(f"SELECT pgbillion_tables.clone_schema('kind_{number}', 'clone_{number}')".encode())
        for number in range(len(schemas.KINDS)):
            if number == 0:
                # a lazy table is heap as soon as it has a row
                conn.execute("DROP SCHEMA clone_0 CASCADE")
                conn.execute("SELECT pgbillion_tables.clone_schema('kind_0', 'clone_0', 'lazy_heap')")
            outcome = diff.compare(target, f"kind_{number}", [f"clone_{number}"], 1, observe=unseen)
            assert outcome.groups == []


def test_what_a_run_did_not_do_itself_was_there_before(cli: CommandLine) -> None:
    """Also what another run, that began at the same moment, has done first."""
    target = Target(cli.conninfo, "the test's")
    request = migrate.Request(script.load([], ["ALTER TABLE a ADD COLUMN c integer"]))
    outcomes = []

    @contextmanager
    def another(total: int) -> Iterator[Callable[[int], None]]:
        outcomes.append(migrate.run(target, request, tenants(1, 2, 3), observe=unseen))
        yield lambda done: None

    outcomes.append(migrate.run(target, request, tenants(1, 2, 3, 4), observe=another))
    assert [(outcome.done, outcome.before) for outcome in outcomes] == [(3, 0), (1, 3)]

    @contextmanager
    def creates(total: int) -> Iterator[Callable[[int], None]]:
        made.append(create.execute(target, create.Request("model", "new_%d", 3, 5), observe=unseen))
        yield lambda done: None

    made: list[create.Outcome] = []
    made.append(create.execute(target, create.Request("model", "new_%d", 1, 10), observe=creates))
    assert [(outcome.created, outcome.before) for outcome in made] == [(5, 0), (5, 5)]


def test_failures_that_are_alike_are_one_line(cli: CommandLine) -> None:
    with cli.connect() as conn:
        conn.execute("".join(f"CREATE SCHEMA many_{number};" for number in range(100)).encode())
    done = cli.run("tenants", "migrate", "many_*", "-c", 'ALTER TABLE :"schema".a ADD COLUMN c integer', "-j", "2")
    assert done.returncode == 1
    shown = "failed: many_0, many_1, many_10, many_11, many_12 and 95 more: command-"
    assert [line.startswith(shown) for line in done.stderr.splitlines() if line.startswith("failed")] == [True]
    assert 'relation "many_0.a" does not exist' in done.stderr
    assert done.stdout.startswith("0 tenants migrated, 100 failed")


def test_wildcards_mean_neither_public_nor_what_is_an_extension_s(cli: CommandLine) -> None:
    with cli.connect() as conn:
        conn.execute("CREATE TABLE public.kept (i integer); CREATE SCHEMA extended")
        conn.execute("ALTER EXTENSION pgbillion_tables ADD SCHEMA extended")
        for pattern in ("*", "p*", "?ublic", "publi?", "e*"):
            selected = cli.run("tenants", "drop", pattern, "--dry-run")
            assert not re.search(r"public|extended|information_schema|pg_|pgbillion", selected.stdout), pattern
        assert "public" not in [tenant["name"] for tenant in json.loads(cli.run("tenants", "list", "--json").stdout)]
        assert "1 schema (public) would be dropped" in cli.run("tenants", "drop", "public", "--dry-run").stdout
        failed(cli.run("tenants", "rename", "publ*", "x*"), 1, "no schema matches")
        cli.run("tenants", "migrate", "public", "-c", "ALTER TABLE kept ADD COLUMN j integer", check=True)
        cli.run("tenants", "rename", "public", "renamed", check=True)
        assert one(conn, "SELECT to_regclass('renamed.kept') IS NOT NULL")


def test_functions_follow_a_renamed_tenant(cli: CommandLine) -> None:
    with cli.connect() as conn:
        conn.execute(
            'CREATE SCHEMA "o""ld"; CREATE TABLE "o""ld".t (i integer);'
            ' CREATE FUNCTION "o""ld".a() RETURNS bigint LANGUAGE sql SECURITY DEFINER'
            ' SET search_path = "$user", "o""ld", pg_temp SET work_mem = \'1MB\' AS \'SELECT count(*) FROM t\';'
            " CREATE FUNCTION \"o\"\"ld\".b() RETURNS text LANGUAGE sql AS 'SELECT ''my o\"ld one''';"
            ' CREATE FUNCTION "o""ld".c() RETURNS text LANGUAGE sql SET search_path = public AS \'SELECT 1\''
        )
        done = cli.run("tenants", "rename", '"o""ld"', "it's new", check=True)
        assert done.stderr == 'warning: these functions still name o"ld: "it\'s new".b()\n'
        assert conn.execute('SELECT "it\'s new".a()').fetchall() == [(0,)]
        assert conn.execute(
            "SELECT proconfig FROM pg_proc WHERE pronamespace = '\"it''s new\"'::regnamespace ORDER BY proname"
        ).fetchall() == [
            (['search_path="$user", "it\'s new", pg_temp', "work_mem=1MB"],),
            (None,),
            (["search_path=public"],),
        ]


@pytest.mark.quick
def test_list_rename_drop(cli: CommandLine) -> None:
    listed = cli.run("tenants", "list", "tenant_*", "--size", check=True).stdout.splitlines()
    assert [line.split()[:3] for line in listed] == [[name, "2", "tables"] for name in tenants(1, 2, 3, 4)]
    cli.run("tenants", "migrate", "tenant_*", "-c", "SELECT 1", check=True)
    assert cli.run("tenants", "rename", "tenant_*", "customer_*_x", check=True).stdout == "4 tenants renamed\n"
    assert cli.run("tenants", "rename", "customer_4_x", "model_2", check=True).stdout == "1 tenant renamed\n"
    assert cli.run("tenants", "migrate", "customer*", "-c", "SELECT 1", check=True).stdout.startswith(
        "0 tenants migrated, 3"
    )
    failed(cli.run("tenants", "rename", "a*", "b"), 1, "the wildcard * once")
    failed(cli.run("tenants", "rename", "customer_*", "x" * 63 + "*"), 1, "more than 63 bytes")
    failed(cli.run("tenants", "rename", "customer_1_x", ""), 1, "the new name of customer_1_x is empty")
    failed(cli.run("tenants", "list", "nobody*"), 1, 'no schema matches "nobody*"')
    failed(cli.run("tenants", "drop", "customer*"), 1, "no terminal to ask at", "--yes")
    assert "3 schemas (customer_1_x, customer_2_x, customer_3_x) would be dropped" in cli.run(
        "tenants", "drop", "customer*", "--dry-run", check=True
    ).stdout  # fmt: skip
    with cli.connect() as conn:
        conn.execute("CREATE VIEW public.over AS TABLE customer_2_x.a")
        failed(cli.run("tenants", "drop", "customer*", "--yes", "-j", "1"), 3, "depends on", "--cascade")
        assert one(conn, "SELECT to_regnamespace('customer_1_x') IS NULL AND to_regclass('over') IS NOT NULL")
        assert cli.run("tenants", "drop", "customer*", "--yes", "--cascade", check=True).stdout == "2 tenants dropped\n"
        assert one(conn, "SELECT array_agg(DISTINCT tenant) FROM pgbillion_journal.migration") == ["model_2"]

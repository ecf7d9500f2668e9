"""`pgbillion tenants move` and `export`: a schema with its rows into another database, or into an archive."""

from __future__ import annotations

import signal
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from harness import needs, schemas, servers
from harness.command_line import CommandLine, command_line, failed
from harness.hostile_tenant import GRAB, ODD, TRAP, named
from harness.servers import one
from harness.unknown_to_pg_dump import REFUSED, UNKNOWN_TO_PG_DUMP
from pgbillion.common.connection import Connection
from pgbillion.common.errors import UserError
from pgbillion.common.paths import state_dir
from pgbillion.common.target import Target
from pgbillion.server import client
from pgbillion.server.postgres import SUPPORTED_MAJORS, Cluster, Installation
from pgbillion.tenants import dump, move
from pgbillion.tenants import needs as tenant_needs

OTHER = "elsewhere"
TENANT = """
    CREATE TABLE a (i serial PRIMARY KEY, t text);
    CREATE TABLE b (a integer REFERENCES a, code char(2) REFERENCES outside.country);
    CREATE VIEW v AS TABLE a;
    CREATE FUNCTION f() RETURNS integer LANGUAGE sql AS 'SELECT 1';
    INSERT INTO a (t) SELECT repeat('x', g) FROM generate_series(1, 200) g;
    INSERT INTO b SELECT i FROM a;
"""


@pytest.fixture
def cli(cluster: Cluster) -> Iterator[CommandLine]:
    """Two databases with what is outside of tenants, one of which has a tenant."""
    with (
        servers.new_database(cluster, "tenants") as database,
        servers.new_database(cluster, OTHER),
        command_line(cluster, database) as made,
    ):
        with made.connect() as conn:
            schemas.make_outside(conn)
            schemas.make_schema(conn, "tenant", TENANT)
        with cluster.connect(OTHER) as conn:
            schemas.make_outside(conn)
        yield made


def target(cli: CommandLine, database: str | None = None) -> Target:
    return Target(cli.cluster.conninfo(database or cli.database), "the test's")


def has(conn: Connection, schema: str = "tenant") -> bool:
    return bool(one(conn, "SELECT to_regnamespace(quote_ident(%s)) IS NOT NULL", schema))


def sessions(conn: Connection) -> int:
    count = one(conn, "SELECT count(*) FROM pg_stat_activity WHERE application_name ~ '^(pg_|pgbillion tenants)'")
    assert isinstance(count, int)
    return count


@pytest.mark.majors
@pytest.mark.parametrize("kind", [*schemas.KINDS, "worded"])
def test_every_kind_of_object_can_be_moved(cli: CommandLine, kind: str) -> None:
    name = f'Odd "{kind}.*'
    with cli.connect() as conn:
        schemas.make_schema(conn, name, schemas.KINDS.get(kind, schemas.WORDED))
        if kind in UNKNOWN_TO_PG_DUMP:
            conn.execute(sql.SQL("SET search_path = {}").format(sql.Identifier(name)))
            conn.execute(UNKNOWN_TO_PG_DUMP[kind].encode())
        # another schema that a pattern would match, too
        schemas.make_schema(conn, f"odd {kind}.x", "CREATE TABLE t ()")
    request = move.Request(name, drop=True)
    if kind in REFUSED:
        with pytest.raises(UserError, match=REFUSED[kind]):
            move.move(target(cli), target(cli, OTHER), request, say=lambda line: None)
        with cli.connect() as conn, cli.cluster.connect(OTHER) as other:
            assert (has(conn, name), has(other, name)) == (True, False)
        return
    outcome = move.move(target(cli), target(cli, OTHER), request, say=lambda line: None)
    assert outcome.dropped
    with cli.connect() as conn, cli.cluster.connect(OTHER) as other:
        assert (has(conn, name), has(other, name), has(other, f"odd {kind}.x")) == (False, True, False)


def test_a_moved_tenant_goes_on_where_it_was(cli: CommandLine) -> None:
    cli.run("tenants", "migrate", "tenant", "-c", "ALTER TABLE a ADD COLUMN c integer", check=True)
    copied = cli.json("tenants", "move", "tenant", "--to", OTHER)
    assert (copied["tables"], copied["rows"], copied["dropped"]) == (2, 400, False)
    with cli.connect() as conn, cli.cluster.connect(OTHER) as other:
        assert has(conn)
        assert one(other, "SELECT sum(length(t)) FROM tenant.v") == 200 * 201 / 2
        failed(cli.run("tenants", "move", "tenant", "--to", OTHER), 3, 'has a schema "tenant" already')
        other.execute("DROP SCHEMA tenant CASCADE")
        done = cli.run("tenants", "move", "tenant", "--to", cli.cluster.conninfo(OTHER), "--drop-source", check=True)
        assert done.stdout.startswith("tenant moved: 2 tables, 400 rows, verified")
        assert not has(conn)
        assert one(other, "INSERT INTO tenant.a (t) VALUES ('y') RETURNING i") == 201
        assert one(conn, "SELECT count(*) FROM pgbillion_journal.migration") == 0
    again = cli.run(
        "tenants", "migrate", "tenant", "-c", "ALTER TABLE a ADD COLUMN c integer", "-d", cli.cluster.conninfo(OTHER),
        server=False,
    )  # fmt: skip
    assert again.stdout.startswith("0 tenants migrated, 1 before")


def test_what_the_target_lacks_is_named_at_once(cli: CommandLine) -> None:
    with cli.connect() as conn, cli.cluster.connect(OTHER) as other:
        other.execute("DROP SCHEMA outside CASCADE; CREATE SCHEMA outside; DROP EXTENSION pgbillion_tables")
        other.execute("DROP EXTENSION citext")
        conn.execute("CREATE TABLE tenant.lazy (i integer) USING lazy_heap")
        conn.execute("CREATE TABLE tenant.c (s outside.size, t citext DEFAULT outside.twice(1)::text)")
        done = cli.run("tenants", "move", "tenant", "--to", OTHER, "--drop-source")
        failed(done, 3, "the target lacks what tenant needs: extension citext, extension pgbillion_tables,"
               " function outside.twice(integer), table outside.country, type outside.size")  # fmt: skip
        assert (has(conn), has(other)) == (True, False)


def test_of_much_that_is_lacking_the_first_is_named() -> None:
    absent = [tenant_needs.Need("role", f"r{number:02}") for number in range(25)]
    assert tenant_needs.listed(absent[:2]) == "role r00, role r01"
    assert tenant_needs.listed(absent).endswith(", role r18, role r19 and 5 more")


def test_what_initdb_makes_is_not_told(cli: CommandLine, tmp_path: Path) -> None:
    with cli.connect() as conn:
        conn.execute(
            "CREATE INDEX ON tenant.a USING gin (to_tsvector('english', t));"
            "CREATE VIEW tenant.seen AS SELECT pid FROM pg_stat_activity, information_schema.tables;"
            "CREATE VIEW tenant.below AS TABLE outside.country"
        )
    exported = cli.json("tenants", "export", "tenant", "--output", str(tmp_path / "archive"))
    assert exported["needs"] == ["role postgres", "table outside.country"]
    collation = tenant_needs.Need(
        "collation", 'pg_catalog."sv-x-icu"', (("pg_catalog", "sv-x-icu"), ()), None, "pg_catalog"
    )
    assert tenant_needs.shown([collation]) == ['collation pg_catalog."sv-x-icu"']


def test_memberships_in_publications_stay_behind(cli: CommandLine, tmp_path: Path) -> None:
    """No publication is asked for in the target, by move or by export, and the source's goes on without the tenant."""
    with cli.connect() as conn:
        conn.execute(
            "CREATE PUBLICATION part FOR TABLE tenant.a (i) WHERE (i > 0), tenant.b, outside.country;"
            "CREATE PUBLICATION whole FOR TABLES IN SCHEMA tenant"
        )
        exported = cli.json("tenants", "export", "tenant", "--output", str(tmp_path / "archive"))
        assert not [need for need in exported["needs"] if "publication" in need]
        cli.run("tenants", "move", "tenant", "--to", OTHER, "--drop-source", check=True)
        assert conn.execute("SELECT pubname::text, tablename::text FROM pg_publication_tables").fetchall() == [
            ("part", "country")
        ]
        assert one(conn, "SELECT count(*) FROM pg_publication") == 2


@pytest.mark.parametrize(("schema", "drop"), [("tenant_1", False), ("tenant_1", True), *((one, True) for one in ODD)])
def test_a_hostile_tenant_can_be_moved(cli: CommandLine, schema: str, drop: bool) -> None:
    """Nothing of it runs as the superuser who moves it, here or there, and no name is more than a name."""
    mark = cli.state / "touched"
    schema, names = schema.replace("{mark}", str(mark)[:20]), [one.replace("{mark}", str(mark)[:20]) for one in ODD]
    made = sql.Identifier(schema)
    with cli.connect() as conn, cli.cluster.connect(OTHER) as other:
        conn.execute("CREATE ROLE eve LOGIN")
        try:
            conn.execute(sql.SQL("CREATE SCHEMA {} AUTHORIZATION eve").format(made))
            # not by SET ROLE, which its code could take back here
            with psycopg.connect(make_conninfo(cli.conninfo, user="eve"), autocommit=True) as eve:
                eve.execute(sql.SQL("SET search_path = {}; SET check_function_bodies = off").format(made))
                eve.execute(sql.SQL(TRAP).format(schema=made))
                for name in names if schema == "tenant_1" else ():
                    eve.execute(named(name, schema))
            assert not one(conn, "SELECT rolsuper FROM pg_roles WHERE rolname = 'eve'")
            arguments = ("tenants", "move", schema, "--to", OTHER, *(["--drop-source"] if drop else []))
            cli.run(*arguments, check=True)
            assert not one(conn, "SELECT rolsuper FROM pg_roles WHERE rolname = 'eve'")
            assert not mark.exists()
            assert (has(conn, schema), has(other, schema)) == (not drop, True)
            assert (
                one(other, "SELECT pg_get_userbyid(nspowner)::text FROM pg_namespace WHERE nspname = %s", schema)
                == "eve"
            )
        finally:
            for session in (conn, other):
                session.execute("RESET ROLE; DROP OWNED BY eve CASCADE")
            conn.execute("DROP ROLE eve")


# code that is called for each row that is copied
EVALUATED = {
    "constraint": "CREATE TABLE t (a text CHECK ({schema}.grab(a)))",
    "operator": "CREATE FUNCTION equal(text, text) RETURNS boolean LANGUAGE sql AS"
    " $trap$SELECT {schema}.grab($1)$trap$; CREATE OPERATOR === (LEFTARG = text, RIGHTARG = text, FUNCTION = equal);"
    " CREATE TABLE t (a text CHECK (a OPERATOR({schema}.===) a))",
    "domain": "CREATE DOMAIN d AS text CHECK ({schema}.grab(VALUE)); CREATE TABLE t (a d)",
    "generated": "CREATE TABLE t (a text, b boolean GENERATED ALWAYS AS ({schema}.grab(a)) STORED)",
    "partition": "CREATE TABLE t (a text) PARTITION BY LIST ({schema}.grab(a));"
    " CREATE TABLE u PARTITION OF t FOR VALUES IN (true)",
}


@pytest.mark.parametrize("kind", EVALUATED)
def test_code_of_others_is_not_run_for_rows_that_are_copied(cli: CommandLine, kind: str) -> None:
    """Unless that is asked for; as its owner it can be moved."""
    move = ("tenants", "move", "tenant_1", "--to")
    is_super = "SELECT rolsuper FROM pg_roles WHERE rolname = 'eve'"
    with cli.connect() as conn, cli.cluster.connect(OTHER) as other:
        conn.execute("CREATE ROLE eve LOGIN; CREATE SCHEMA tenant_1 AUTHORIZATION eve")
        try:
            with psycopg.connect(make_conninfo(cli.conninfo, user="eve"), autocommit=True) as eve:
                eve.execute("SET search_path = tenant_1")
                eve.execute(sql.SQL(GRAB + EVALUATED[kind]).format(schema=sql.SQL("tenant_1")))
                eve.execute("INSERT INTO t VALUES ('x')")
            failed(cli.run(*move, OTHER), 3, "would run in the target with the privileges of postgres", "--trust-owner")
            assert not has(other, "tenant_1")
            conn.execute(sql.SQL("GRANT CREATE ON DATABASE {} TO eve").format(sql.Identifier(OTHER)))
            cli.run(*move, make_conninfo(cli.cluster.conninfo(OTHER), user="eve"), check=True)
            assert has(other, "tenant_1")
            assert not one(conn, is_super)
            other.execute("DROP SCHEMA tenant_1 CASCADE")
            cli.run(*move, OTHER, "--trust-owner", check=True)
            assert one(conn, is_super)
        finally:
            for session in (conn, other):
                session.execute("DROP OWNED BY eve CASCADE")
            conn.execute("DROP ROLE eve")


def test_refusals(cli: CommandLine) -> None:
    to = ("--to", OTHER)
    failed(cli.run("tenants", "move", "nobody", *to), 1, 'no schema "nobody"')
    failed(cli.run("tenants", "move", "tenant", "--to", cli.database), 1, "the target is the source's database")
    failed(cli.run("tenants", "move", "pg_catalog", *to), 1, "pg_catalog is the system's")
    failed(cli.run("tenants", "move", "tenant", "--to", "host=/nowhere nonsense"), 1, "not one libpq understands")
    failed(cli.run("tenants", "move", "tenant", *to, "--bindir", str(cli.state)), 1, "no pg_dump and pg_restore of")
    failed(cli.run("tenants", "move", "tenant", *to, "--lock-timeout", "x"), 1, "is no time")
    with cli.connect() as conn:
        conn.execute("CREATE VIEW public.over AS TABLE tenant.a")
        failed(
            cli.run("tenants", "move", "tenant", *to, "--drop-source"),
            3,
            "of table tenant.a (and 1 more)",
            "without --drop-source",
        )
        conn.execute("DROP VIEW over; CREATE ROLE clerk LOGIN; GRANT USAGE ON SCHEMA tenant TO clerk")
        try:
            failed(cli.run("tenants", "move", "tenant", *to, "-U", "clerk"), 3, "no privilege to create a schema in")
            failed(cli.run("tenants", "export", "tenant", "-U", "clerk", "-o", str(cli.state / "x")), 3, "permission")
        finally:
            conn.execute("DROP OWNED BY clerk; DROP ROLE clerk")
        with conn.transaction():
            conn.execute("LOCK TABLE tenant.b IN ROW EXCLUSIVE MODE")
            done = cli.run("tenants", "move", "tenant", *to, "--drop-source", "--lock-timeout", "50ms")
        failed(done, 3, "tenant could not be locked within 50ms", "--lock-timeout")
        conn.execute("DROP EXTENSION citext; CREATE EXTENSION citext SCHEMA tenant")
        failed(cli.run("tenants", "move", "tenant", *to), 3, "the extension citext lives in the schema")
    with cli.cluster.connect(OTHER) as other:
        assert not has(other)


def test_nothing_can_be_written_while_the_source_is_to_be_dropped(cli: CommandLine) -> None:
    seen = []

    def say(line: str) -> None:
        with cli.connect() as conn:
            conn.execute("SET lock_timeout = '50ms'")
            for statement in (
                "INSERT INTO tenant.a VALUES (1000)",
                "UPDATE tenant.b SET code = NULL",
                "SELECT nextval('tenant.a_i_seq')",
                "ALTER TABLE tenant.a ADD COLUMN d integer",
                "TRUNCATE tenant.b",
            ):
                with pytest.raises(psycopg.errors.LockNotAvailable):
                    conn.execute(statement.encode())
            assert one(conn, "SELECT count(*) FROM tenant.v") == 200
        seen.append(line)

    move.move(target(cli), target(cli, OTHER), move.Request("tenant", drop=True), say=say)
    assert len(seen) == 2


def test_a_copy_is_of_one_moment(cli: CommandLine) -> None:
    def say(line: str) -> None:
        with cli.connect() as conn:
            conn.execute("INSERT INTO tenant.a (t) VALUES ('later')")

    outcome = move.move(target(cli), target(cli, OTHER), move.Request("tenant"), say=say)
    assert outcome.rows == 400


@pytest.mark.parametrize(
    "change",
    [
        "CREATE TABLE tenant.new (i integer)",
        "CREATE OR REPLACE FUNCTION tenant.f() RETURNS integer LANGUAGE sql AS 'SELECT 2'",
        "CREATE TYPE tenant.new AS ENUM ()",
        "DROP FUNCTION tenant.f()",
    ],
)
def test_what_is_changed_meanwhile_is_not_lost(cli: CommandLine, change: str) -> None:
    def say(line: str) -> None:
        if line == "comparing":
            with cli.connect() as conn:
                conn.execute(change.encode())

    with pytest.raises(UserError, match="somebody has changed tenant meanwhile"):
        move.move(target(cli), target(cli, OTHER), move.Request("tenant", drop=True), say=say)
    with cli.connect() as conn, cli.cluster.connect(OTHER) as other:
        assert (has(conn), has(other)) == (True, False)
        assert one(conn, "INSERT INTO tenant.a (t) VALUES ('x') RETURNING i") == 201


def test_what_begins_to_depend_on_it_meanwhile_is_not_dropped(cli: CommandLine) -> None:
    def say(line: str) -> None:
        if line == "comparing":
            with cli.connect() as conn:
                conn.execute("CREATE VIEW public.over AS TABLE tenant.a")

    with pytest.raises(UserError, match=r"view public\.over depends on"):
        move.move(target(cli), target(cli, OTHER), move.Request("tenant", drop=True), say=say)
    with cli.connect() as conn, cli.cluster.connect(OTHER) as other:
        assert (has(conn), has(other)) == (True, False)
        assert one(conn, "SELECT count(*) FROM over") == 200


@pytest.mark.machine
def test_a_newer_server_takes_it_and_an_older_one_does_not(cli: CommandLine) -> None:
    mine = cli.cluster.installation.version_num // 10000
    others = [path for major, path in servers.pg_configs().items() if major < mine]
    if not others and mine > min(SUPPORTED_MAJORS):
        needs.missing(needs.OLDER)
    if not others:
        pytest.skip("the oldest major version has no older one")
    with servers.new_cluster(Installation.prepare(state_dir(), others[0])) as older:
        there = Target(older.conninfo(), "the older one's")
        with older.connect() as conn:
            servers.make_shared_objects(conn)
            schemas.make_outside(conn)
        with pytest.raises(UserError, match=r"the target is PostgreSQL 1[5-7], and the source"):
            move.move(target(cli), there, move.Request("tenant"), say=lambda line: None)
        with older.connect() as conn:
            schemas.make_schema(conn, "old", schemas.APPLICATION)
            conn.execute("INSERT INTO old.customer (name) VALUES ('a'), ('b')")
        outcome = move.move(there, target(cli, OTHER), move.Request("old", drop=True), say=lambda line: None)
        assert outcome.rows >= 2
        with older.connect() as conn:
            assert not has(conn, "old")
    with cli.cluster.connect(OTHER) as conn:
        assert one(conn, "INSERT INTO old.customer (name) VALUES ('c') RETURNING id") == 120


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("DELETE FROM tenant.b WHERE a = 3", r"rows of tenant\.b: 200 there, 199 here"),
        ("SELECT nextval('tenant.a_i_seq')", r"value of tenant\.a_i_seq"),
        ("CREATE INDEX more ON tenant.a (t)", "index more"),
        ("ALTER TABLE tenant.a ALTER t SET DEFAULT 'x'", r"column a\.t"),
        ("GRANT SELECT ON tenant.a TO reader", "owner and grants of a"),
    ],
)
def test_a_copy_that_differs_is_dropped(cli: CommandLine, change: str, told: str) -> None:
    def say(line: str) -> None:
        if line == "comparing":
            with cli.cluster.connect(OTHER) as conn:
                conn.execute(change.encode())

    with pytest.raises(UserError, match=f"the copy is not the same: {told}"):
        move.move(target(cli), target(cli, OTHER), move.Request("tenant", drop=True), say=say)
    with cli.connect() as conn, cli.cluster.connect(OTHER) as other:
        assert (has(conn), has(other)) == (True, False)


def test_rows_that_refer_to_none_in_the_target_are_refused(cli: CommandLine) -> None:
    with cli.connect() as conn:
        conn.execute("INSERT INTO outside.country VALUES ('xx'); UPDATE tenant.b SET code = 'xx' WHERE a = 7")
    done = cli.run("tenants", "move", "tenant", "--to", OTHER)
    failed(done, 3, 'violates foreign key constraint "b_code_fkey" (Key (code)=(xx) is not present')
    with cli.cluster.connect(OTHER) as other:
        assert not has(other)


@pytest.mark.parametrize("drop", [False, True])
def test_an_interrupt_leaves_nothing_half_done(cli: CommandLine, drop: bool) -> None:
    with cli.connect() as conn, cli.cluster.connect(OTHER) as other:
        conn.execute("INSERT INTO tenant.a VALUES (1000)")
        other.autocommit = False
        # where its foreign key is made
        other.execute("LOCK TABLE outside.country IN SHARE ROW EXCLUSIVE MODE")
        with cli.started("tenants", "move", "tenant", "--to", OTHER, *(["--drop-source"] if drop else [])) as process:
            waits = (
                "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
                " AND datname = 'elsewhere' AND application_name ~ 'pgbillion tenants move|pg_restore')"
            )
            servers.until(lambda: one(conn, waits), "pg_restore to wait")
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 130
        other.rollback()
        other.autocommit = True
        servers.until(lambda: sessions(conn) == 0, "all sessions to end")
        assert (has(conn), has(other)) == (True, False)
        conn.execute("UPDATE tenant.a SET t = 'y'; ALTER TABLE tenant.a ADD COLUMN x integer")


def test_an_interrupt_after_the_copy_takes_it_back(cli: CommandLine) -> None:
    cli.run("tenants", "migrate", "tenant", "-c", "SELECT 1", check=True)

    def say(line: str) -> None:
        if line == "comparing":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        move.move(target(cli), target(cli, OTHER), move.Request("tenant", drop=True), say=say)
    with cli.connect() as conn, cli.cluster.connect(OTHER) as other:
        assert (has(conn), has(other)) == (True, False)
        assert one(other, "SELECT count(*) FROM pgbillion_journal.migration") == 0


def test_a_failure_after_the_commit_keeps_the_target(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    dropped = move._drop

    def interrupted(*given: Any, **named: Any) -> None:
        dropped(*given, **named)
        raise KeyboardInterrupt

    monkeypatch.setattr(move, "_drop", interrupted)
    said: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        move.move(target(cli), target(cli, OTHER), move.Request("tenant", drop=True), say=said.append)
    assert said[-1] == "tenant has been moved all the same"
    with cli.connect() as conn, cli.cluster.connect(OTHER) as other:
        assert (has(conn), has(other)) == (False, True)


def test_passwords_are_no_arguments(cli: CommandLine) -> None:
    bindir = cli.state / "bin"
    bindir.mkdir()
    with cli.connect() as conn:
        major = conn.info.server_version // 10000
    for name in ("pg_dump", "pg_restore"):
        script = bindir / name
        script.write_text(
            f'#!/bin/sh\n[ "$1" = --version ] && echo "{name} (PostgreSQL) {major}.1" && exit\n'
            f'echo "$@" > {cli.state}/{name}.arguments; echo "$PGPASSWORD" > {cli.state}/{name}.password\n'
            f'echo "{name}: error: no such luck" >&2; exit 1\n'
        )
        script.chmod(script.stat().st_mode | stat.S_IXUSR)
    source = make_conninfo(cli.conninfo, password="one secret")
    other = make_conninfo(cli.cluster.conninfo(OTHER), password="another secret")
    done = cli.run("tenants", "move", "tenant", "-d", source, "--to", other, "--bindir", str(bindir), server=False)
    failed(done, 3, "could not ")
    for name, secret in (("pg_dump", "one secret"), ("pg_restore", "another secret")):
        assert "secret" not in (cli.state / f"{name}.arguments").read_text()
        assert (cli.state / f"{name}.password").read_text() == f"{secret}\n"
    assert "secret" not in done.stderr


NOTED = "ALTER TABLE ONLY s.t ALTER COLUMN i SET (n_distinct=5, pg_attver=18270144);"
FUNCTION = "CREATE FUNCTION s.f() RETURNS text LANGUAGE sql RETURN 'ALTER COLUMN i SET (pg_attver=1)';"


def test_what_older_pg_dumps_copy_of_newer_servers_is_explained(cli: CommandLine) -> None:
    """In place of a server that notes when row types have changed, and of one that refuses that option."""
    programs = client.Programs(cli.state / "pg_dump", cli.state / "pg_restore", 15)

    def say(restored: str, error: str = "") -> None:
        programs.dump.write_text("#!/bin/sh\n[ $1 = --version ] && echo 'pg_dump (PostgreSQL) 99.1'; exit 0\n")
        programs.restore.write_text(
            "#!/bin/sh\n[ $1 = --version ] && echo 'pg_restore (PostgreSQL) 99.1' && exit\n"
            f"cat <<'END'\n{restored}\nEND\n{f'echo {error} >&2; exit 1' * bool(error)}\n"
        )
        for program in (programs.dump, programs.restore):
            program.chmod(0o755)

    say(FUNCTION)
    assert FUNCTION in dump.section(programs, cli.state, "pre-data").decode()
    say(f"{FUNCTION}\n{NOTED}")
    with pytest.raises(UserError, match="copies pg_attver") as raised:
        dump.section(programs, cli.state, "pre-data")
    assert "the pg_dump that came with the source" in (raised.value.hint or "")
    say("", "pg_restore: error: could not execute query: ERROR: unrecognized parameter pg_attver")
    with pytest.raises(UserError, match=r"could not restore tenant: .*pg_attver") as raised:
        dump.copy(
            programs, target(cli), target(cli, OTHER), "tenant", "x", meanwhile=lambda: None, arrived=lambda: None
        )
    assert "the pg_dump that came with the source" in (raised.value.hint or "")


def test_programs_of_a_version_that_fits_are_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for major in (15, 16, 18):
        folder = tmp_path / str(major)
        folder.mkdir()
        for name in ("pg_dump", "pg_restore"):
            (folder / name).write_text(f"#!/bin/sh\necho '{name} (PostgreSQL) {major}.3'\n")
            (folder / name).chmod(0o755)
    monkeypatch.setattr(client, "_folders", lambda bindir: [tmp_path / str(major) for major in (18, 15, 16, 99)])
    assert [client.find(*wanted).major for wanted in ((15, None), (15, 18), (16, 18), (17, None), (18, 18))] == [
        15, 15, 16, 18, 18,
    ]  # fmt: skip
    with pytest.raises(UserError, match=r"of PostgreSQL 17 on this machine, only of 15, 16, 18"):
        client.find(17, 17)


@pytest.mark.majors
def test_an_export_can_be_restored(cli: CommandLine) -> None:
    path = cli.state / "tenant.dump"
    done = cli.run("tenants", "export", "tenant", "--output", str(path), check=True)
    size, needs, restore = done.stdout.splitlines()
    assert size.startswith(f"{path}: ")
    assert needs == "it needs: role postgres, table outside.country"
    command = restore.removeprefix("restore it with: ").split()
    assert command[1:] == ["-1", "-d", "DBNAME", str(path)]
    command[3] = cli.cluster.conninfo(OTHER)
    subprocess.run(command, check=True)
    with cli.cluster.connect(OTHER) as other:
        assert one(other, "SELECT count(*) FROM tenant.a") == 200
    failed(cli.run("tenants", "export", "tenant", "--output", str(path)), 1, "exists already", "--output")
    folder = cli.state / "folder"
    values = cli.json("tenants", "export", "tenant", "-o", str(folder), "--format", "directory", "-j", "2")
    assert (folder / "toc.dat").exists()
    assert values["size"] == sum(file.stat().st_size for file in folder.iterdir())
    failed(
        cli.run("tenants", "export", "tenant", "-o", str(cli.state / "x"), "-j", "2"),
        1,
        "by several",
        "--format directory",
    )
    failed(cli.run("tenants", "export", "nobody", "-o", str(cli.state / "x")), 1, 'no schema "nobody"')
    failed(cli.run("tenants", "export", "tenant", "-o", str(cli.state / "no" / "x")), 1, "nothing can be written to")
    small = cli.json("tenants", "export", "tenant", "-o", str(cli.state / "small"), "--schema-only")
    assert small["size"] < path.stat().st_size
    assert sorted(file.name for file in cli.state.iterdir()) == ["folder", "small", "tenant.dump"]


def test_an_export_that_is_interrupted_leaves_no_file(cli: CommandLine) -> None:
    with cli.connect() as conn, cli.connect() as watcher:
        conn.autocommit = False
        conn.execute("LOCK TABLE tenant.a IN ACCESS EXCLUSIVE MODE")
        waits = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock')"
        for form in ("custom", "directory"):
            with cli.started("tenants", "export", "tenant", "-o", str(cli.state / "x"), "--format", form) as process:
                servers.until(lambda: one(watcher, waits), "pg_dump to wait")
                process.send_signal(signal.SIGINT)
                assert process.wait(60) == 130
            servers.until(lambda: not one(watcher, waits), "pg_dump to end")
            assert list(cli.state.iterdir()) == []

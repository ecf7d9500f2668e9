"""`pgbillion tenants restore`: a schema as it was at an earlier time, from a base backup and WAL."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from harness import needs, schemas, servers
from harness.amount import share
from harness.command_line import CommandLine, command_line, failed
from harness.hostile_tenant import ODD, TRAP, named
from harness.servers import one
from pgbillion.common.connection import Connection
from pgbillion.common.errors import UserError
from pgbillion.common.paths import state_dir
from pgbillion.common.target import Target
from pgbillion.server.postgres import (
    SUPERUSER,
    SUPPORTED_MAJORS,
    Cluster,
    Installation,
    make_folder,
    run_as_server,
    server_user,
)
from pgbillion.tenants import restore
from pgbillion.tenants.replay import Wal

TENANT = """
    CREATE TABLE a (i serial PRIMARY KEY, t text);
    CREATE TABLE b (a integer REFERENCES a, code char(2) REFERENCES outside.country);
    CREATE INDEX ON a (lower(t));
    CREATE VIEW v AS TABLE a;
    CREATE FUNCTION f() RETURNS integer LANGUAGE sql AS 'SELECT 1';
    INSERT INTO a (t) SELECT repeat('x', g) FROM generate_series(1, 200) g;
    INSERT INTO b SELECT i FROM a;
    CREATE TABLE toasted (t text);
    ALTER TABLE toasted ALTER t SET STORAGE EXTERNAL;
    INSERT INTO toasted SELECT repeat(g::text, 5000) FROM generate_series(1, 20) g;
"""


@dataclass
class Archived:
    """A cluster that archives WAL, and what it has been copied to."""

    cluster: Cluster
    folder: Path

    @property
    def wal(self) -> Path:
        return self.folder / "wal"

    @property
    def space(self) -> Path:
        return self.folder / "space"

    def backup(self, name: str, *options: str) -> Path:
        """Take a base backup."""
        path = self.folder / name
        make_folder(path, private=True, for_server=True)
        if "t" not in options:
            space = self.folder / f"{name}.space"
            make_folder(space, private=True, for_server=True)
            options = (*options, "-T", f"{self.space}={space}")
        program = self.cluster.installation.program("pg_basebackup")
        where = ["-h", str(self.cluster.socket_dir), "-p", str(self.cluster.port), "-U", SUPERUSER]
        run_as_server(
            [program, "-D", path, "-c", "fast", "--no-sync", *where, *options], check=True, capture_output=True
        )
        return path

    def remove(self, backup: Path) -> None:
        """Remove a base backup."""
        shutil.rmtree(backup)
        shutil.rmtree(self.folder / f"{backup.name}.space", ignore_errors=True)

    def archive(self) -> None:
        """Have all that was written so far in the archive."""
        with self.cluster.connect() as conn:
            # a time is reached by a transaction after it
            conn.execute("SELECT pg_sleep(0.01); SELECT txid_current()")
            segment = one(conn, "SELECT pg_walfile_name(pg_switch_wal())")
            servers.until((self.wal / str(segment)).exists, f"{segment} to be archived")


@contextmanager
def archived(cluster_of: Cluster) -> Iterator[Archived]:
    with servers.temporary_folder() as folder:
        wal = folder / "wal"
        for path in (wal, folder / "space"):
            make_folder(path, private=True, for_server=True)
        settings = {"archive_mode": "on", "archive_command": f"cp %p {wal}/%f.new && mv {wal}/%f.new {wal}/%f"}
        with servers.new_cluster(cluster_of.installation, settings) as cluster:
            with cluster.connect() as conn:
                servers.make_shared_objects(conn)
                conn.execute(f"CREATE TABLESPACE elsewhere LOCATION '{folder}/space'")
            yield Archived(cluster, folder)


@pytest.fixture(scope="module")
def source(cluster: Cluster) -> Iterator[Archived]:
    with archived(cluster) as made:
        yield made


@pytest.fixture
def cli(source: Archived) -> Iterator[CommandLine]:
    """A database with two tenants."""
    with servers.new_database(source.cluster, "tenants") as database, command_line(source.cluster, database) as made:
        with made.connect() as conn:
            schemas.make_outside(conn)
            for name in ("tenant", "other"):
                schemas.make_schema(conn, name, TENANT)
        yield made


def now(conn: Connection) -> str:
    """A time between what was committed and what comes."""
    return str(one(conn, "SELECT clock_timestamp()::text FROM pg_sleep(0.002)"))


def checksum(conn: Connection, schema: str) -> str:
    return str(one(conn, f"SELECT md5(string_agg(a::text, ',' ORDER BY i)) FROM {schema}.a"))


def dumped(cli: CommandLine, schema: str) -> list[str]:
    """What pg_dump says of a schema and its rows, in whatever order, but for values of sequences."""
    program = cli.cluster.installation.program("pg_dump")
    done = subprocess.run([program, "--schema", schema, "-d", cli.conninfo], capture_output=True, text=True, check=True)
    return sorted(
        line for line in done.stdout.splitlines() if not line.startswith(("\\", "--", "SELECT pg_catalog.setval"))
    )


def nothing_left(cli: CommandLine) -> None:
    """No folder, no server, no schema."""
    assert not (cli.state / "restores").exists()
    with cli.connect() as conn:
        assert one(conn, "SELECT count(*) FROM pg_namespace WHERE nspname ~ 'pgbillion_restore'") == 0


def lost(conn: Connection, schema: str = "tenant") -> None:
    """What somebody regrets."""
    conn.execute(f"TRUNCATE {schema}.a CASCADE; DROP VIEW {schema}.v")


@pytest.mark.majors
def test_a_tenant_comes_back_as_it_was_between_two_commits(source: Archived, cli: CommandLine) -> None:
    with cli.connect() as conn:
        conn.execute("COMMENT ON SCHEMA tenant IS 'the first'; GRANT USAGE ON SCHEMA tenant TO reader")
        backup = source.backup("between")
        conn.execute("INSERT INTO tenant.a (t) VALUES ('kept')")
        conn.execute("CREATE TABLE tenant.later AS SELECT 7 AS seven; GRANT SELECT ON tenant.later TO reader")
        wanted = dumped(cli, "tenant")
        time = now(conn)
        conn.execute("INSERT INTO tenant.a (t) VALUES ('lost')")
        conn.execute("DROP SCHEMA tenant CASCADE")
        conn.execute("INSERT INTO other.a (t) VALUES ('of the other')")
        other = checksum(conn, "other")
        source.archive()
        kept = {path: path.read_bytes() for path in source.wal.iterdir()}
        arguments = ("tenants", "restore", "tenant", "--backup", str(backup), "--wal", str(source.wal), "--to", time)
        done = cli.run(*arguments, check=True)
        assert done.stdout.startswith("tenant of ")
        assert "restored: 4 tables, 422 rows, verified" in done.stdout
        assert dumped(cli, "tenant") == wanted
        # of which WAL has up to 32 values more, as after a crash
        assert 202 <= one(conn, "INSERT INTO tenant.a (t) VALUES ('new') RETURNING i") <= 234
        assert one(conn, "SELECT obj_description('tenant'::regnamespace)") == "the first"
        assert checksum(conn, "other") == other
        failed(cli.run(*arguments), 3, 'has a schema "tenant" already', "--as")
    nothing_left(cli)
    source.remove(backup)
    # replay reads the archive's own files
    assert all(path.read_bytes() == before for path, before in kept.items())


def test_it_comes_back_beside_the_one_that_is_there_or_in_its_place(source: Archived, cli: CommandLine) -> None:
    with cli.connect() as conn:
        conn.execute("CREATE FUNCTION tenant.g() RETURNS bigint LANGUAGE sql SET search_path = tenant AS 'SELECT 1'")
        cli.run("tenants", "migrate", "tenant", "-c", "ALTER TABLE a ADD COLUMN c integer", check=True)
        conn.execute("CREATE VIEW public.over AS TABLE tenant.b")
        schemas.make_schema(conn, "gone", "CREATE TABLE x ()")
        before, wanted = checksum(conn, "tenant"), dumped(cli, "tenant")
        backup = source.backup("beside")
        time = now(conn)
        conn.execute("DROP SCHEMA gone CASCADE")
        lost(conn)
        other = checksum(conn, "other")
        source.archive()
        arguments = ("tenants", "restore", "tenant", "--backup", str(backup), "--wal", str(source.wal), "--to", time)
        made = cli.json(*arguments, "--as", "tenant_old")
        assert (made["tables"], made["rows"], made["name"]) == (3, 420, "tenant_old")
        assert 0 < made["copied_size"] < made["backup_size"]
        assert (checksum(conn, "tenant_old"), one(conn, "SELECT count(*) FROM tenant.a")) == (before, 0)
        path = one(conn, "SELECT proconfig[1] FROM pg_proc WHERE oid = 'tenant_old.g'::regproc")
        assert path == "search_path=tenant_old"
        migrated = "SELECT string_agg(tenant, ' ' ORDER BY tenant) FROM pgbillion_journal.migration"
        assert one(conn, migrated) == "tenant tenant_old"
        failed(cli.run(*arguments, "--replace"), 3, "view public.over depends on", "--as")
        conn.execute("DROP VIEW over")
        assert cli.json(*arguments, "--replace")["replaced"]
        assert dumped(cli, "tenant") == wanted
        assert checksum(conn, "other") == other
        conn.execute("DROP SCHEMA tenant_old CASCADE")
        # a schema of the new name, at that time and not now
        cli.run(*arguments, "--as", "gone", check=True)
        conn.execute("DROP SCHEMA gone CASCADE")
        failed(cli.run(*arguments, "--replace", "--as", "x"), 1, "exclude each other")
        conn.execute("DROP SCHEMA tenant CASCADE")
        failed(cli.run(*arguments, "--replace"), 1, 'no schema "tenant" to replace', "leave out")
    nothing_left(cli)
    source.remove(backup)


@pytest.mark.majors
@pytest.mark.parametrize("form", ["plain", "tar", "compressed"])
def test_forms_of_backups_with_tablespaces(source: Archived, cli: CommandLine, form: str) -> None:
    options = {"plain": (), "tar": ("-F", "t"), "compressed": ("-F", "t", "-z")}[form]
    with cli.connect() as conn:
        conn.execute("CREATE TABLE tenant.moved TABLESPACE elsewhere AS SELECT i, 'x' FROM generate_series(1, 1000) i")
        conn.execute("CREATE TABLE other.moved TABLESPACE elsewhere AS TABLE tenant.moved")
        before = checksum(conn, "tenant")
        backup = source.backup(form, *options)
        lost(conn)
        # without --to it is the end of the backup, for which that has the WAL
        made = cli.json("tenants", "restore", "tenant", "--backup", str(backup), "--as", "old")
        assert made["copied_size"] < made["backup_size"]
        assert checksum(conn, "old") == before
        assert one(conn, "SELECT sum(i) FROM old.moved") == 500500
        assert one(conn, "SELECT spcname FROM pg_class c JOIN pg_tablespace t ON t.oid = reltablespace"
                   " WHERE c.oid = 'old.moved'::regclass") == "elsewhere"  # fmt: skip
    nothing_left(cli)
    source.remove(backup)


def test_nothing_is_written_where_tablespaces_are(source: Archived, cli: CommandLine, tmp_path: Path) -> None:
    """Neither by replay of CREATE TABLESPACE, nor because a link of the backup leads there."""
    new = source.folder / "new"
    make_folder(new, private=True, for_server=True)
    with cli.connect() as conn:
        backup = source.backup("spaces")
        conn.execute(f"CREATE TABLESPACE created LOCATION '{new}'")
        conn.execute("CREATE TABLE other.placed TABLESPACE created AS SELECT 1 AS i")
        conn.execute("CHECKPOINT")
        files = sorted((path, path.stat().st_mtime_ns) for path in new.rglob("*"))
        time = now(conn)
        source.archive()
        failed(
            cli.run(*restoring(backup, "--wal", str(source.wal), "--to", time)),
            3,
            "a tablespace was created between the backup and that time",
            "a later backup",
        )
        assert sorted((path, path.stat().st_mtime_ns) for path in new.rglob("*")) == files
        nothing_left(cli)
        conn.execute("DROP TABLE other.placed; CHECKPOINT")
        conn.execute("DROP TABLESPACE created")
        (link,) = [path for path in (backup / "pg_tblspc").iterdir() if path.is_symlink()]
        link.unlink()
        link.symlink_to(source.space)
        failed(cli.run(*restoring(backup)), 1, "is a link to a tablespace of the server itself", "of the backup")
        link.unlink()
        link.symlink_to(tmp_path / "nowhere")
        failed(cli.run(*restoring(backup)), 1, "leads nowhere", "its tablespace")
    source.remove(backup)


def test_tables_that_the_tenant_had_not_yet_when_the_backup_was_taken(source: Archived, cli: CommandLine) -> None:
    with cli.connect() as conn:
        conn.execute("CREATE TABLE other.moved AS SELECT i, repeat('x', 3000) AS t FROM generate_series(1, 300) i")
        backup = source.backup("moved")
        for statement in (
            "ALTER TABLE other.moved SET SCHEMA tenant",
            "UPDATE tenant.moved SET i = -i WHERE i < 10",
            "CREATE TABLE tenant.new AS SELECT * FROM tenant.moved",
            "VACUUM FULL tenant.a",
            "VACUUM FULL pg_class",
            "TRUNCATE tenant.b",
            "INSERT INTO tenant.b VALUES (1)",
            "REINDEX TABLE pg_attribute",
        ):
            conn.execute(statement.encode())
        wanted = dumped(cli, "tenant")
        time = now(conn)
        conn.execute("DROP SCHEMA tenant CASCADE")
        source.archive()
        arguments = ("--backup", str(backup), "--wal", str(source.wal), "--to", time)
        done = cli.run("tenants", "restore", "tenant", *arguments, check=True)
        assert "beginning again with" in done.stderr
        assert dumped(cli, "tenant") == wanted
        assert one(conn, "SELECT sum(i) FROM tenant.new") == 300 * 301 / 2 - 90
    nothing_left(cli)
    source.remove(backup)


def restoring(backup: Path, *more: str, tenant: str = "tenant") -> tuple[str, ...]:
    return ("tenants", "restore", tenant, "--backup", str(backup), "--as", "old", *more)


def test_refusals(source: Archived, cli: CommandLine, tmp_path: Path) -> None:
    backup = source.backup("refused")

    def refused(status: int, error: str, hint: str, *more: str, tenant: str = "tenant") -> None:
        failed(cli.run(*restoring(backup, *more, tenant=tenant)), status, error, hint)
        assert not (cli.state / "restores").exists()

    with cli.connect() as conn:
        early = now(conn)
    wal = ("--wal", str(source.wal))
    source.archive()
    refused(1, "there is no directory", "--backup names", "--backup", str(tmp_path / "nowhere"))
    refused(1, "is no base backup: it has neither", "pg_basebackup", "--backup", str(tmp_path))
    refused(1, "is the data directory of a server", "pg_basebackup", "--backup", str(source.cluster.data))
    refused(1, "there is no directory", "--wal names", "--wal", str(tmp_path / "nowhere"))
    refused(1, '"soon" is no time', "as in --to", "--to", "soon")
    refused(1, "is in the future", "that has been", "--to", "2999-01-01")
    refused(1, "infinity is in the future", "that has been", "--to", "infinity")
    refused(3, "the backup was begun at", "an earlier backup", *wal, "--to", "2020-01-01 12:00+00")
    refused(1, "exclude each other", "leave one out", *wal, "--restore-command", "false")
    refused(1, "cannot be the name of a tenant", "--as", "--as", "pg_x")
    refused(1, "there is no program", "name it with --pg-config", "--pg-config", "/nowhere")
    refused(1, 'had no schema "tenant2" at', "had", *wal, "--to", early, tenant="tenant2")
    refused(
        1, 'there was no database "nowhere" at', "--from-database", "--from-database", "nowhere", *wal, "--to", early
    )
    (backup / "global/pg_control").rename(tmp_path / "pg_control")
    refused(1, "no complete base backup", "another backup")
    shutil.move(tmp_path / "pg_control", backup / "global/pg_control")
    with (backup / "global/pg_control").open("r+b") as control:
        control.truncate(100)
    refused(1, "the backup is damaged: global/pg_control has 100 bytes, not 8,192", "pg_verifybackup")
    source.remove(backup)


def put(source: Path, target: Path) -> None:
    """Copy a file that the server's user can read then, too."""
    shutil.copy2(source, target)
    user = server_user()
    if user is not None:
        shutil.chown(target, user.pw_uid, user.pw_gid)


def test_wal_that_ends_too_early_or_has_a_gap(source: Archived, cli: CommandLine) -> None:
    """Both are told, and the same command goes on once the WAL is there."""
    backup = source.backup("gap", "-X", "none")
    wal = source.folder / "some"
    make_folder(wal, private=True, for_server=True)
    with cli.connect() as conn:
        for _ in range(3):
            conn.execute("INSERT INTO tenant.a (t) VALUES ('x')")
            source.archive()
        before, time = checksum(conn, "tenant"), now(conn)
        arguments = restoring(backup, "--wal", str(wal), "--to", time)
        failed(cli.run(*arguments), 3, f"WAL from {wal} is missing", "--wal")
        for segment in sorted(source.wal.iterdir()):
            put(segment, wal / segment.name)
        failed(cli.run(*arguments), 3, "the WAL ends before that time: its last transaction is of 20", "pg_switch_wal")
        source.archive()
        source.archive()
        *_, missing, last = sorted(source.wal.iterdir())
        put(last, wal / last.name)
        failed(cli.run(*arguments), 3, f"the WAL segment {missing.name} is missing in {wal}, which has later ones")
        put(missing, wal / missing.name)
        cli.run(*arguments, check=True)
        assert checksum(conn, "old") == before
    nothing_left(cli)
    source.remove(backup)
    shutil.rmtree(wal)


def test_an_interrupt_while_it_begins_again(
    source: Archived, cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is left of a copy that was replayed is not taken for one."""
    with cli.connect() as conn:
        conn.execute("CREATE TABLE other.moved AS TABLE other.a")
        backup = source.backup("again")
        conn.execute("ALTER TABLE other.moved SET SCHEMA tenant")
        conn.execute("UPDATE tenant.moved SET t = upper(t); UPDATE tenant.a SET t = upper(t)")
        before, time = checksum(conn, "tenant"), now(conn)
        source.archive()
        remove = shutil.rmtree

        def some(path: Path, **options: bool) -> None:
            remove(path / "global")
            (path / "postmaster.opts").unlink()
            raise KeyboardInterrupt

        monkeypatch.setattr(shutil, "rmtree", some)
        request = restore.Request("tenant", backup, Wal(source.wal), to=time, name="old")
        said: list[str] = []
        with pytest.raises(KeyboardInterrupt):
            restore.restore(Target(cli.conninfo, "the test's"), request, cli.state, say=said.append)
        monkeypatch.undo()
        assert "beginning again with" in said[-2]
        assert "what was done is kept in" in said[-1]
        cli.run(*restoring(backup, "--wal", str(source.wal), "--to", time), check=True)
        assert checksum(conn, "old") == before
        assert one(conn, "SELECT md5(string_agg(t, '' ORDER BY i)) FROM old.moved") == one(
            conn, "SELECT md5(string_agg(t, '' ORDER BY i)) FROM tenant.moved"
        )
    nothing_left(cli)
    source.remove(backup)


LARGE = """
    CREATE DOMAIN outside.lo AS oid;
    CREATE TABLE {0}.picture (i integer PRIMARY KEY, large outside.lo, other oid, changed integer DEFAULT 0);
    INSERT INTO {0}.picture SELECT i, lo_from_bytea(0, convert_to(repeat('{0}' || i, 100000), 'UTF8')), 16
        FROM generate_series(1, 3) i;
    UPDATE {0}.picture SET other = large WHERE i = 3;
    CREATE FUNCTION {0}.changes() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.changed = 1; RETURN NEW; END';
    CREATE TRIGGER changes BEFORE UPDATE ON {0}.picture FOR EACH ROW EXECUTE FUNCTION {0}.changes();
    ALTER TABLE {0}.picture ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
    GRANT SELECT ON LARGE OBJECT {1} TO reader WITH GRANT OPTION; COMMENT ON LARGE OBJECT {1} IS 'seen';
"""


@pytest.mark.majors
def test_large_objects_that_columns_name_come_back(source: Archived, cli: CommandLine) -> None:
    contents = (
        "SELECT string_agg(md5(lo_get(large)) || (other = large)::text || changed, ' ' ORDER BY i) FROM {0}.picture"
    )
    facts = (
        "SELECT lomowner::regrole::text || lomacl::text || coalesce(obj_description(oid, 'pg_largeobject'), '')"
        " FROM pg_largeobject_metadata WHERE oid = %s"
    )
    count = "SELECT count(*) FROM pg_largeobject_metadata"
    with cli.connect() as conn:
        conn.execute("SET ROLE maker; SELECT lo_create(4711)")
        conn.execute("RESET ROLE")
        conn.execute(LARGE.replace("{0}", "tenant").replace("{1}", "4711").encode())
        conn.execute(
            "UPDATE tenant.picture SET large = 4711, changed = 0 WHERE i = 1; ALTER TABLE tenant.picture OWNER TO maker"
        )
        conn.execute("GRANT USAGE ON SCHEMA tenant TO maker")
        conn.execute("SELECT lo_put(4711, 9000000, 'x')")
        before, of_one = one(conn, contents.format("tenant")), one(conn, facts, 4711)
        backup = source.backup("large")
        time = now(conn)
        conn.execute("SELECT lo_unlink(large) FROM tenant.picture WHERE i = 2; SELECT lo_put(4711, 0, 'changed since')")
        conn.execute("GRANT UPDATE ON LARGE OBJECT 4711 TO PUBLIC")
        other, number = one(conn, "SELECT md5(lo_get(4711))"), one(conn, count)
        source.archive()
        made = cli.json(*restoring(backup, "--wal", str(source.wal), "--to", time))
        assert made["large_objects"] == 3
        assert one(conn, contents.format("old")) == before
        # one that is gone, and one that differs, which keeps what it is; the third is as it was
        assert one(conn, count) == number + 2
        assert one(conn, "SELECT md5(lo_get(4711))") == other
        new = one(conn, "SELECT large FROM old.picture WHERE i = 1")
        assert new != 4711
        assert one(conn, facts, new) == of_one
        conn.execute("DROP SCHEMA old CASCADE; SELECT lo_unlink(oid) FROM pg_largeobject_metadata")
        conn.execute("DROP TRIGGER changes ON tenant.picture; DROP TABLE tenant.picture")
        # nothing is there: all have the OIDs that they had
        assert cli.json(*restoring(backup, "--wal", str(source.wal), "--to", time))["large_objects"] == 3
        assert one(conn, contents.format("old")) == before
        assert one(conn, "SELECT large FROM old.picture WHERE i = 1") == 4711
        conn.execute("DROP SCHEMA old CASCADE; SELECT lo_unlink(oid) FROM pg_largeobject_metadata")
    nothing_left(cli)
    source.remove(backup)


@pytest.mark.majors
def test_publications_that_it_was_in(source: Archived, cli: CommandLine) -> None:
    with cli.connect() as conn:
        conn.execute(
            "CREATE PUBLICATION part FOR TABLE tenant.a (i) WHERE (i > 3 AND t <> '%s'), tenant.b, outside.country;"
            "CREATE PUBLICATION whole FOR TABLES IN SCHEMA tenant, other;"
            "CREATE PUBLICATION every FOR ALL TABLES; CREATE PUBLICATION gone FOR TABLE tenant.b"
        )
        published = "SELECT string_agg(p::text, ' ' ORDER BY p::text) FROM pg_publication_tables p"
        before = one(conn, published)
        backup = source.backup("published")
        time = now(conn)
        conn.execute("DROP SCHEMA tenant CASCADE")
        source.archive()
        arguments = ("tenants", "restore", "tenant", "--backup", str(backup), "--wal", str(source.wal), "--to", time)
        made = cli.json(*arguments)
        assert (made["publications"], made["left_publications"]) == (["gone", "part", "whole"], [])
        assert one(conn, published) == before
        conn.execute("DROP SCHEMA tenant CASCADE; DROP PUBLICATION gone")
        done = cli.run(*arguments, check=True)
        assert "it is no longer in these publications: gone" in done.stderr
        # beside the present one it is in none but those of all tables
        assert cli.json(*arguments, "--as", "old")["publications"] == []
        assert (
            one(conn, "SELECT count(*) FROM pg_publication_tables WHERE schemaname = 'old' AND pubname <> 'every'") == 0
        )
    nothing_left(cli)
    source.remove(backup)


# a process that kills itself at the N-th call of one of pgbillion's functions; those that it calls repeatedly while
# it waits do not count
KILLED = """
import os, signal, sys, threading
left, many = int(sys.argv.pop(1)), 0
waiting = {"_ready", "running", "_since", "_log_size", "target", "connect"}
# of each file
small = {"stem", "_taken", "takes", "_rows", "_name", "_names", "_classes", "missing", "_new", "_clone", "read"}
def count(frame, event, argument):
    global left, many
    code = frame.f_code
    if event == "call" and "/pgbillion/tenants/" in code.co_filename and code.co_name not in waiting | small:
        many += code.co_name == "own"
        if code.co_name == "own" and many % 40:
            return
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
from pgbillion import cli
from pgbillion.tenants import restore
start = restore.restore
def counted(*given, **named):
    sys.setprofile(count)
    try:
        return start(*given, **named)
    finally:
        sys.setprofile(None)
        print("left", left, file=sys.stderr)
restore.restore = counted
sys.exit(cli.main())
"""
KILLS = 50
IS_SUPER = "SELECT rolsuper FROM pg_roles WHERE rolname = 'eve'"


def killed_at(cli: CommandLine, call: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", KILLED, str(call), *arguments, "-d", cli.conninfo],
        env=cli._env(), capture_output=True, text=True, timeout=300,
    )  # fmt: skip


def no_server(cli: CommandLine) -> None:
    """No server runs on a copy, and what one has started ends soon."""
    mine = str(cli.state)
    servers.until(
        lambda: not any(mine in word for process in psutil.process_iter() for word in words(process)),
        "the server to be gone",
        30,
    )


def words(process: psutil.Process) -> list[str]:
    with suppress(psutil.Error):
        return process.cmdline()
    return []


def test_kills_at_any_step(source: Archived, cli: CommandLine) -> None:
    """The same command goes on, nothing is lost, and nothing is left."""
    with cli.connect() as conn:
        conn.execute(
            "CREATE TABLE tenant.picture AS SELECT lo_from_bytea(i::oid, 'x') AS large FROM generate_series(1, 2) i"
        )
        cli.run("tenants", "migrate", "tenant", "-c", "COMMENT ON SCHEMA tenant IS 'mine'", check=True)
        backup = source.backup("killed")
        time, wanted = now(conn), dumped(cli, "tenant")
        conn.execute("SELECT lo_put(1, 0, 'y'); COMMENT ON SCHEMA tenant IS NULL")
        state = checksum(conn, "tenant") + checksum(conn, "other")
        source.archive()
        number = "SELECT count(*) FROM pg_largeobject_metadata"
        before = one(conn, number)
        arguments = ("tenants", "restore", "tenant", "--backup", str(backup), "--wal", str(source.wal), "--to", time)
        replaced = (*arguments, "--replace")
        beside = (*arguments, "--as", "old")
        done = killed_at(cli, 10**6, *beside)
        assert done.returncode == 0, done.stderr
        calls = 10**6 - int(done.stderr.rpartition("left ")[2])
        assert calls > KILLS
        clean = "DROP SCHEMA old CASCADE; SELECT lo_unlink(oid) FROM pg_largeobject_metadata WHERE oid > 2"
        conn.execute(clean.encode())
        steps = [1 + calls * kill // KILLS for kill in range(KILLS)]
        for step in share(steps):
            which = replaced if step == steps[-1] else beside
            killed = killed_at(cli, step, *which)
            assert killed.returncode == -signal.SIGKILL, f"{step} of {calls}: {killed.stderr}"
            failed_or_done = cli.run(*which)
            assert failed_or_done.returncode == 0, f"{step} of {calls}: {failed_or_done.stderr}"
            name = "tenant" if which is replaced else "old"
            assert one(conn, f"SELECT count(*) || obj_description('{name}'::regnamespace) FROM {name}.b") == "200mine"
            assert one(conn, f"SELECT string_agg(lo_get(large)::text, ' ') FROM {name}.picture") == r"\x78 \x78"
            nothing_left(cli)
            no_server(cli)
            if which is beside:
                assert checksum(conn, "tenant") + checksum(conn, "other") == state
                conn.execute(
                    "DROP SCHEMA old CASCADE; SELECT lo_unlink(oid) FROM pg_largeobject_metadata WHERE oid > 2"
                )
                assert one(conn, number) == before
        assert [line for line in dumped(cli, "tenant") if "picture" not in line][:5] == wanted[:5]
        conn.execute("SELECT lo_unlink(oid) FROM pg_largeobject_metadata")
    source.remove(backup)


def test_ctrl_c_and_discard(source: Archived, cli: CommandLine) -> None:
    backup = source.backup("interrupted")
    with cli.connect() as conn:
        time = now(conn)
        source.archive()
        arguments = restoring(backup, "--wal", str(source.wal), "--to", time)
        slow = (*restoring(backup, "--to", time), "--restore-command", f"sleep 1; cp {source.wal}/%f %p")
        with cli.started(*slow) as process:
            servers.until(lambda: any(cli.state.glob("restores/*/data/postmaster.pid")), "the server to start")
            process.send_signal(signal.SIGINT)
            status = process.wait(60)
            assert status == 130, process.communicate()
        no_server(cli)
        assert list((cli.state / "restores").iterdir()) != []
        # where the WAL comes from may be another place now
        assert cli.run(*arguments, check=True).stderr.startswith("bringing")
        nothing_left(cli)
        conn.execute("DROP SCHEMA old CASCADE")
        # in the database, too
        conn.autocommit = False
        conn.execute("LOCK TABLE outside.country IN SHARE ROW EXCLUSIVE MODE")
        with cli.started(*arguments) as process:
            assert process.stderr is not None
            servers.until(lambda: "bringing" in (process.stderr.readline() if process.stderr else ""), "pg_restore")
            process.send_signal(signal.SIGKILL)
            process.wait(60)
        conn.rollback()
        conn.autocommit = True
        assert cli.run(*arguments, "--discard", check=True).stdout == "what was left has been removed\n"
        servers.until(lambda: one(conn, "SELECT to_regnamespace('old') IS NULL"), "the schema to be gone")
        nothing_left(cli)
        no_server(cli)
        assert cli.run(*arguments, "--discard", check=True).stdout == "nothing was left\n"
        assert not cli.json(*arguments, "--discard")["discarded"]
        # a directory of somebody's own
        mine = source.folder / "mine"
        mine.mkdir()
        (mine / "diary").touch()
        failed(cli.run(*arguments, "--work-dir", str(mine)), 1, "is not empty, and of no restore", "--work-dir")
        (mine / "diary").unlink()
        cli.run(*arguments, "--work-dir", str(mine), check=True)
        assert not mine.exists()
    source.remove(backup)


def test_ctrl_c_as_the_server_starts(source: Archived, cli: CommandLine) -> None:
    """It may not have written yet who it is."""
    backup = source.backup("early")
    with cli.connect() as conn:
        time = now(conn)
    source.archive()
    slow = (*restoring(backup, "--to", time), "--restore-command", f"sleep 1; cp {source.wal}/%f %p")

    def told_to_start() -> bool:
        found = (words(process) for process in psutil.process_iter())
        return any(f"{cli.state}/restores" in " ".join(said) and "-D" in said for said in found)

    for _ in range(4):
        with cli.started(*slow) as process:
            servers.until(told_to_start, "the server to be started")
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 130, process.communicate()
        no_server(cli)
    cli.run(*slow, "--discard", check=True)
    source.remove(backup)


def test_lazy_tables_and_other_kinds(source: Archived, cli: CommandLine) -> None:
    """Tables without files, files that WAL makes, unlogged tables, which are empty then, and views."""
    with cli.connect() as conn:
        schemas.make_schema(conn, "lazy", schemas.APPLICATION)
        conn.execute(
            "CREATE TABLE lazy.never (i integer) USING lazy_heap;"
            "CREATE TABLE lazy.soon (i integer, t text) USING lazy_heap;"
            "CREATE TABLE lazy.already (i serial) USING lazy_heap; INSERT INTO lazy.already DEFAULT VALUES;"
            "CREATE UNLOGGED TABLE lazy.unlogged AS SELECT 1 AS i;"
            "INSERT INTO lazy.customer (name) VALUES ('a'); REFRESH MATERIALIZED VIEW lazy.totals"
        )
        # what is set for the database does not count in the copy
        for setting in ("session_preload_libraries = nowhere", "default_transaction_read_only = on"):
            conn.execute(f"ALTER DATABASE tenants SET {setting}".encode())
        backup = source.backup("lazy")
        conn.execute("ALTER DATABASE tenants RESET ALL")
        conn.execute("INSERT INTO lazy.soon VALUES (1, repeat('x', 100000)); INSERT INTO lazy.already DEFAULT VALUES")
        wanted = dumped(cli, "lazy")
        time = now(conn)
        conn.execute("DROP SCHEMA lazy CASCADE")
        source.archive()
        arguments = ("--backup", str(backup), "--wal", str(source.wal), "--to", time)
        cli.run("tenants", "restore", "lazy", *arguments, check=True)
        conn.execute("INSERT INTO lazy.unlogged VALUES (1)")
        assert dumped(cli, "lazy") == wanted
        assert one(conn, "SELECT customers FROM lazy.totals") == 1
        assert one(conn, "SELECT relam::regclass IS NOT NULL AND pg_relation_size('lazy.never') = 0 FROM pg_class"
                   " WHERE oid = 'lazy.never'::regclass")  # fmt: skip
    nothing_left(cli)
    source.remove(backup)


@pytest.mark.parametrize("whole", [False, True])
def test_a_database_that_the_backup_has_not_yet(source: Archived, cli: CommandLine, whole: bool) -> None:
    backup = source.backup("database")
    with servers.new_database(source.cluster, "created"), source.cluster.connect("created") as conn:
        schemas.make_schema(conn, "tenant", "CREATE TABLE a AS SELECT i, i::text AS t FROM generate_series(1, 1000) i")
        before, time = checksum(conn, "tenant"), now(conn)
        conn.execute("DROP SCHEMA tenant CASCADE")
        source.archive()
        arguments = ("tenants", "restore", "tenant", "--backup", str(backup), "--wal", str(source.wal), "--to", time)
        done = cli.run(
            *arguments,
            *(["--whole"] if whole else []),
            "-d",
            source.cluster.conninfo("created"),
            server=False,
            check=True,
        )
        assert ("all of it is copied" in done.stderr) is not whole
        assert checksum(conn, "tenant") == before
    nothing_left(cli)
    source.remove(backup)


def test_large_files_that_are_left_out(source: Archived, cli: CommandLine) -> None:
    """What WAL writes to them is skipped, or written without what is before it."""
    with cli.connect() as conn:
        conn.execute(
            "CREATE TABLE other.large AS SELECT i, repeat('x', 1000) AS t FROM generate_series(1, 30000) i;"
            "CREATE INDEX ON other.large (i)"
        )
        conn.execute("VACUUM other.large")
        conn.execute("CHECKPOINT")
        backup = source.backup("left")
        conn.execute("UPDATE other.large SET t = 'y' WHERE i > 29000; DELETE FROM other.large WHERE i % 1000 = 0")
        conn.execute("VACUUM (FREEZE) other.large")
        conn.execute("INSERT INTO tenant.a (t) SELECT 'z' FROM generate_series(1, 1000)")
        before, time = checksum(conn, "tenant"), now(conn)
        source.archive()
        arguments = restoring(backup, "--wal", str(source.wal), "--to", time)
        made = cli.json(*arguments)
        assert made["copied_size"] < made["backup_size"] - 30_000_000
        assert checksum(conn, "old") == before
        conn.execute("DROP SCHEMA old CASCADE")
        assert cli.json(*arguments, "--whole")["copied_size"] == made["backup_size"]
        assert checksum(conn, "old") == before
    source.remove(backup)


@pytest.mark.majors
def test_a_backup_that_does_not_fit_the_wal(source: Archived, cli: CommandLine) -> None:
    """Changes to pages that are missing are skipped for others' files, and never for the tenant's."""
    with cli.connect() as conn:
        backup = source.backup("damaged")
        (backup / "backup_manifest").unlink()
        paths = [backup / str(one(conn, f"SELECT pg_relation_filepath('{name}.a')")) for name in ("tenant", "other")]
        for path in paths:
            path.write_bytes(b"")
        # WAL has no images of pages then, which would be taken for them
        conn.execute("ALTER SYSTEM SET full_page_writes = off")
        conn.execute("SELECT pg_reload_conf(); CHECKPOINT")
        servers.until(lambda: one(conn, "SHOW full_page_writes") == "off", "the setting to be read")
        try:
            conn.execute("UPDATE tenant.b SET code = NULL; UPDATE other.a SET t = upper(t)")
            time = now(conn)
            conn.execute("SELECT txid_current()")
            conn.execute("UPDATE tenant.a SET t = upper(t)")
            later = now(conn)
        finally:
            conn.execute("ALTER SYSTEM RESET full_page_writes")
            conn.execute("SELECT pg_reload_conf(); CHECKPOINT")
        source.archive()
        arguments = restoring(backup, "--wal", str(source.wal), "--to")
        failed(cli.run(*arguments, later), 3, "the backup does not fit the WAL: pages of base/", "pg_verifybackup")
        failed(cli.run(*arguments, later, "--whole"), 3, "the backup does not fit the WAL", "pg_verifybackup")
        # before that only pages of the other tenant are missed, which nobody needs
        failed(cli.run(*arguments, time), 3, "pg_restore could not restore old", "nothing was left")
        cli.run(*arguments, time, "--discard", check=True)
    nothing_left(cli)
    source.remove(backup)


def test_pages_with_wrong_checksums(source: Archived, cli: CommandLine) -> None:
    with cli.connect() as conn:
        conn.execute("CHECKPOINT")
        backup = source.backup("checksums")
        with (backup / str(one(conn, "SELECT pg_relation_filepath('tenant.a')"))).open("r+b") as file:
            file.seek(8192 - 100)
            file.write(b"damaged")
        done = cli.run(*restoring(backup))
        if one(conn, "SHOW data_checksums") == "on":
            failed(done, 3, "the restored copy is damaged: invalid page in block 0", "pg_verifybackup")
            assert one(conn, "SELECT to_regnamespace('old') IS NULL")
            nothing_left(cli)
    source.remove(backup)


def test_a_hostile_tenant_can_be_restored(source: Archived, cli: CommandLine) -> None:
    """Nothing of it runs as the superuser who restores it, on either server, and no name is more than a name."""
    with cli.connect() as conn:
        conn.execute("CREATE ROLE eve LOGIN; CREATE SCHEMA tenant_1 AUTHORIZATION eve")
        try:
            with psycopg.connect(make_conninfo(cli.conninfo, user="eve"), autocommit=True) as eve:
                eve.execute("SET search_path = tenant_1; SET check_function_bodies = off")
                eve.execute(sql.SQL(TRAP).format(schema=sql.SQL("tenant_1")))
                for name in ODD:
                    eve.execute(named(name.replace("{mark}", "x"), "tenant_1"))
                # what is called where rows are changed because of large objects
                eve.execute(
                    "CREATE TABLE large (o oid CHECK (tenant_1.grab(o::text)));"
                    "CREATE TRIGGER grab BEFORE UPDATE ON large FOR EACH ROW EXECUTE FUNCTION grab();"
                    "ALTER TABLE large ENABLE ALWAYS TRIGGER grab; INSERT INTO large SELECT lo_from_bytea(0, 'x')"
                )
            assert not one(conn, IS_SUPER)
            backup = source.backup("hostile")
            time = now(conn)
            conn.execute("SELECT lo_put(o, 0, 'y') FROM tenant_1.large")
            source.archive()
            arguments = restoring(backup, "--wal", str(source.wal), "--to", time, tenant="tenant_1")
            failed(cli.run(*arguments), 3, "would run in the target with the privileges of postgres", "--trust-owner")
            assert cli.run(*arguments, "--discard", check=True)
            conn.execute("ALTER TABLE tenant_1.large DROP CONSTRAINT large_o_check")
            source.remove(backup)
            backup = source.backup("hostile")
            time = now(conn)
            conn.execute("SELECT lo_put(o, 0, 'z') FROM tenant_1.large")
            source.archive()
            arguments = restoring(backup, "--wal", str(source.wal), "--to", time, tenant="tenant_1")
            cli.run(*arguments, check=True)
            assert not one(conn, IS_SUPER)
            assert one(conn, "SELECT nspowner::regrole::text FROM pg_namespace WHERE nspname = 'old'") == "eve"
            assert one(conn, "SELECT lo_get(o) FROM old.large") == b"y"
        finally:
            conn.execute("RESET ROLE; SELECT lo_unlink(oid) FROM pg_largeobject_metadata; DROP OWNED BY eve CASCADE")
            conn.execute("DROP ROLE eve")
    source.remove(backup)


def test_no_room(source: Archived, cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    backup = source.backup("room")
    there = Target(cli.conninfo, "the test's")
    request = restore.Request("tenant", backup, Wal(), name="old")
    usage = shutil.disk_usage(cli.state)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=1000))
    with pytest.raises(UserError, match=r"copying .* of the backup's .* needs .* which has 1\.0 kB left"):
        restore.restore(there, request, cli.state, say=lambda line: None)
    assert not (cli.state / "restores").exists()
    source.remove(backup)


@pytest.mark.machine
def test_an_older_server_s_backup_comes_into_a_newer_one(source: Archived, cli: CommandLine) -> None:
    mine = cli.cluster.installation.version_num // 10000
    others = [path for major, path in servers.pg_configs().items() if major < mine]
    if not others and mine > min(SUPPORTED_MAJORS):
        needs.missing(needs.OLDER)
    if not others:
        pytest.skip("the oldest major version has no older one")
    with servers.new_cluster(Installation.prepare(state_dir(), others[0])) as older, older.connect() as conn:
        servers.make_shared_objects(conn)
        schemas.make_outside(conn)
        schemas.make_schema(conn, "tenant", TENANT)
        backup = Archived(older, older.data.parent).backup("backup")
        arguments = restoring(backup, "--from-database", "postgres", "--pg-config")
        failed(
            cli.run(*arguments, str(cli.cluster.installation.source)), 1, "the backup is of PostgreSQL", "pg_config of"
        )
        cli.run(*arguments, str(older.installation.bindir / "pg_config"), check=True)
        with cli.connect() as live:
            assert one(live, "SELECT count(*) FROM old.b") == 200
        # and back
        there = ("-d", older.conninfo())
        again = source.backup("newer")
        failed(cli.run(*restoring(again), *there, server=False), 1, "the target is PostgreSQL", "the same version")
        source.remove(again)
    nothing_left(cli)


@pytest.mark.machine
def test_backups_of_pgbackrest() -> None:
    """Restored by it, whole or with one database alone, and WAL fetched by it. Debian's knows majors up to 15."""
    if shutil.which("pgbackrest") is None:
        needs.missing(needs.PACKAGES["pgbackrest"])
    if 15 not in servers.pg_configs():
        needs.missing(needs.OTHER_MAJORS)
    with servers.temporary_folder() as folder:
        conf = folder / "pgbackrest.conf"
        for name in ("repo", "log", "spool", "lock", "whole", "some"):
            make_folder(folder / name, private=True, for_server=True)
        program = f"pgbackrest --config={conf} --stanza=demo"
        settings = {"archive_mode": "on", "archive_command": f"{program} archive-push %p"}
        installed = Installation.prepare(state_dir(), servers.pg_configs()[15])
        with (
            servers.new_cluster(installed, settings) as cluster,
            servers.new_database(cluster, "mydb"),
            servers.new_database(cluster, "another"),
            command_line(cluster, "mydb") as cli,
        ):
            conf.write_text(
                f"[global]\nrepo1-path={folder}/repo\nlog-path={folder}/log\nspool-path={folder}/spool\n"
                f"lock-path={folder}/lock\nstart-fast=y\nrepo1-retention-full=1\n"
                f"[demo]\npg1-path={cluster.data}\npg1-port={cluster.port}\npg1-socket-path={cluster.socket_dir}\n"
                f"pg1-user={SUPERUSER}\n",
                encoding="utf-8",
            )

            def pgbackrest(*arguments: str) -> None:
                done = run_as_server([*program.split(), *arguments], capture_output=True)
                assert done.returncode == 0, done.stdout + done.stderr

            pgbackrest("stanza-create")
            with cluster.connect("another") as conn:
                conn.execute("CREATE TABLE large AS SELECT repeat('x', 1000) FROM generate_series(1, 5000)")
            with cli.connect() as conn:
                schemas.make_outside(conn)
                schemas.make_schema(conn, "tenant", TENANT)
                pgbackrest("backup")
                conn.execute("INSERT INTO tenant.a (t) VALUES ('kept')")
                before, time = checksum(conn, "tenant"), now(conn)
                conn.execute("DROP SCHEMA tenant CASCADE")
                conn.execute("SELECT pg_switch_wal()")
                get = ("--restore-command", f'{program} --pg1-path="$PWD" archive-get %f "%p"', "--to", time)
                for name, more in (("whole", ()), ("some", ("--db-include=mydb",))):
                    pgbackrest("restore", f"--pg1-path={folder}/{name}", "--type=none", *more)
                    cli.run(*restoring(folder / name, *get), check=True)
                    assert checksum(conn, "old") == before
                    conn.execute("DROP SCHEMA old CASCADE")
            nothing_left(cli)

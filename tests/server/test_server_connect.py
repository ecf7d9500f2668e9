"""Which server a command talks to, and how the program ends when that goes wrong."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from harness import servers
from pgbillion import __version__, cli
from pgbillion.cli import connect
from pgbillion.common import invocation, paths
from pgbillion.common.errors import UserError
from pgbillion.server import embedded, extension
from pgbillion.server.postgres import Cluster, Installation

VARIABLES = ("PGHOST", "PGHOSTADDR", "PGPORT", "PGUSER", "PGDATABASE", "PGSERVICE", "PGPASSWORD", "PGBILLION_STATE")


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="module")
def state(installation: Installation) -> Iterator[Path]:
    """A state folder with a running server."""
    with servers.temporary_folder() as folder, pytest.MonkeyPatch.context() as patch:
        (folder / "postgresql").symlink_to(paths.state_dir() / "postgresql")
        patch.setenv("PGBILLION_STATE", "")
        cluster, _ = embedded.start(folder, installation.source)
        yield folder
        cluster.destroy()


def running(state: Path) -> Cluster:
    cluster = embedded.find(state)
    assert cluster is not None
    return cluster


def test_nothing_given_means_the_embedded_server(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGBILLION_STATE", str(state))
    target = connect.target()
    assert target.embedded
    assert connect.target(state_dir=state) == target
    with target.connect() as conn:
        assert conn.autocommit
        assert conn.info.dbname == embedded.DATABASE
        assert servers.one(conn, "SHOW application_name") == "pgbillion"


@pytest.mark.parametrize("variable", VARIABLES[:6])
def test_a_variable_means_another_server(state: Path, variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, "x")
    target = connect.target(state_dir=state)
    assert not target.embedded
    # left to libpq
    assert conninfo_to_dict(target.conninfo) == {"fallback_application_name": "pgbillion"}


def test_only_what_is_given_is_said(state: Path) -> None:
    assert conninfo_to_dict(connect.target(dbname="d", state_dir=state).conninfo).keys() == {
        "dbname",
        "fallback_application_name",
    }
    parts = conninfo_to_dict(connect.target("h", "1", "u", "postgresql://v@i:2/e?sslmode=disable").conninfo)
    assert (parts["host"], parts["port"], parts["user"], parts["dbname"]) == ("h", "1", "u", "e")
    assert parts["sslmode"] == "disable"


def test_a_name_alone_may_be_the_embedded_servers(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The default server's, if there is one; else the embedded server's, if it has such a database."""
    monkeypatch.setattr(connect, "_answers", lambda conninfo: False)
    found = connect.target(dbname="postgres", state_dir=state)
    assert found.embedded
    with found.connect() as conn:
        assert conn.info.dbname == "postgres"
        assert conn.info.host == str(running(state).socket_dir)
    assert not connect.target(dbname="nope", state_dir=state).embedded
    assert not connect.target(dbname="postgres", username="postgres", state_dir=state).embedded
    monkeypatch.setattr(connect, "_answers", lambda conninfo: True)
    assert not connect.target(dbname="postgres", state_dir=state).embedded


def test_a_password_is_asked_for_on_demand(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("getpass.getpass", lambda prompt: "s3cret")
    target = connect.Where(host="h", password=True).target()
    assert conninfo_to_dict(target.conninfo)["password"] == "s3cret"
    assert "s3cret" not in target.display
    assert "password" not in conninfo_to_dict(connect.Where(host="h").target().conninfo)
    assert "password" not in conninfo_to_dict(
        connect.Where(host="h", no_password=True, password=True).target().conninfo
    )
    # it names no server
    assert connect.Where(password=True, state_dir=state).target().embedded


def test_nobody_to_ask_for_a_password() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pgbillion", "tables", "list", "-W", "-h", "/nonexistent"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        start_new_session=True,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: there is no terminal to ask for a password at\nhint: ")


def test_whether_a_server_answers(state: Path) -> None:
    cluster = running(state)
    assert connect._answers(cluster.conninfo())
    assert connect._answers(cluster.conninfo("no such database"))
    assert not connect._answers(f"host={state / 'elsewhere'}")


def test_what_to_do_about_a_connection_that_failed(
    state: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No hint asks whether a server runs that has just answered, and each leads to a database that there is."""
    cluster = running(state)
    # as by options, which are not parsed here
    monkeypatch.setattr(invocation, "named_server", lambda: True)

    def ended(**where: str | None) -> str:
        with pytest.raises(psycopg.OperationalError) as raised:
            connect.target(**where).connect()  # type: ignore[arg-type]
        status, said = ending(capsys, monkeypatch, raised.value)
        assert status == 2
        assert said.count("\n") == 2
        return said

    refused = ended(dbname=cluster.conninfo("nope"))
    assert "does not exist" in refused
    assert "is running" not in refused
    assert f"psql -h {cluster.socket_dir} -p {cluster.port} -U postgres -l" in refused
    monkeypatch.setenv("PGBILLION_STATE", str(state))
    refused = ended(dbname=cluster.conninfo("no pe"))
    assert "pgbillion server psql -l" in refused
    assert """pgbillion server psql -c 'CREATE DATABASE "no pe"'""" in refused
    assert "is running" not in refused
    refused = ended(host=str(state / "elsewhere"), dbname="nope")
    assert "has no database nope: see its databases with: " in refused
    assert "-m pgbillion server psql -l;" in refused
    refused = ended(host=str(state / "elsewhere"), dbname="postgres")
    assert (
        f"a database of the embedded server: -h {cluster.socket_dir} -p {cluster.port} -U postgres -d NAME, or"
        in refused
    )


@pytest.mark.parametrize("answers", [True, False])
def test_a_database_that_psqls_default_server_refuses(
    tmp_path: Path, answers: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is that server's, if it answers; else the embedded server's, which can be started."""
    monkeypatch.setattr(connect, "_answers", lambda conninfo: answers)
    monkeypatch.setattr(invocation, "_given", {"--dbname": "app", "--state-dir": str(tmp_path)})
    message, hint = connect.refused(psycopg.OperationalError("connection is bad: no such database"))
    assert (message == "no such database") == answers
    assert message.startswith("there is no server in") != answers
    assert ("server start" in hint) != answers


def test_a_socket_folder_is_a_host(state: Path) -> None:
    cluster = running(state)
    target = connect.target(str(cluster.socket_dir), str(cluster.port), "postgres", "postgres")
    with target.connect(autocommit=False) as conn:
        assert servers.one(conn, "SELECT current_database()") == "postgres"
        assert conn.info.transaction_status == psycopg.pq.TransactionStatus.INTRANS


@pytest.mark.parametrize(
    "dbname",
    [
        "postgresql://me:s3cret@host/db?sslpassword=s3cret",
        "host=host user=me password=s3cret sslpassword=s3cret",
    ],
)
def test_a_password_is_never_shown(dbname: str) -> None:
    target = connect.target(dbname=dbname)
    assert conninfo_to_dict(target.conninfo)["password"] == "s3cret"
    assert "s3cret" not in target.display + repr(target) + str(target)
    assert "user=me" in target.display


@pytest.mark.parametrize("dbname", ["host=x password='s3cret", "postgresql://me:s3cret@[::1/db", "password=s3cret no"])
def test_a_bad_connection_string_is_not_quoted(dbname: str) -> None:
    with pytest.raises(UserError) as raised:
        connect.target(dbname=dbname)
    assert "s3cret" not in f"{raised.value.message} {raised.value.hint}"
    assert raised.value.__suppress_context__


Captured = pytest.CaptureFixture[str]


def ending(capsys: Captured, monkeypatch: pytest.MonkeyPatch, error: BaseException) -> tuple[int, str]:
    """Return how the program ends when a command ends with this error."""

    def fails(standalone_mode: bool) -> None:
        raise error

    monkeypatch.setattr(cli, "command_line", lambda _: fails)
    return cli.main(), capsys.readouterr().err


def failure(conn: psycopg.Connection[tuple[object, ...]], statement: str) -> psycopg.Error:
    with pytest.raises(psycopg.Error) as raised:
        conn.execute(statement.encode())
    return raised.value


def test_refused_statement(state: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    with running(state).connect() as conn:
        error = failure(conn, "SELECT cout(*) FROM pg_class")
    status, output = ending(capsys, monkeypatch, error)
    assert status == 3
    # with PostgreSQL's hint, or its detail, which it has from 19 on
    hint, detail = r"\nhint: No function matches.*", r" \(There is no function of that name\.\)"
    assert re.fullmatch(rf"error: function cout\(\) does not exist({hint}|{detail})\n", output)


def test_lost_connection(state: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    with running(state).connect() as conn:
        error = failure(conn, "SELECT pg_terminate_backend(pg_backend_pid())")
    assert ending(capsys, monkeypatch, error)[0] == 2
    with running(state).connect() as conn:
        conn.close()
        error = failure(conn, "SELECT")
    assert ending(capsys, monkeypatch, error)[0] == 2


def test_no_connection(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(psycopg.OperationalError) as raised:
        connect.target("/no/such/folder").connect()
    status, output = ending(capsys, monkeypatch, raised.value)
    assert status == 2
    assert output.startswith("error: ")
    assert "hint: " in output
    assert output.count("\n") == 2


def test_other_endings(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ending(capsys, monkeypatch, UserError("so\nand so", "do this", 3)) == (
        3,
        "error: so and so\nhint: do this\n",
    )
    assert ending(capsys, monkeypatch, KeyboardInterrupt()) == (130, "error: interrupted\n")
    missing = FileNotFoundError(2, "No such file or directory", "there")
    assert ending(capsys, monkeypatch, missing) == (1, "error: No such file or directory: there\n")


def test_extension_is_created_and_checked(state: Path) -> None:
    cluster = running(state)
    with servers.new_database(cluster, "fresh"), cluster.connect("fresh") as conn:
        assert extension.versions(conn, extension.TABLES) == (None, None)
        extension.ensure_extension(conn, extension.TABLES)
        assert extension.versions(conn, extension.TABLES) == (__version__, __version__)
        extension.ensure_extension(conn, extension.TABLES)
        # looking is possible where nothing can be created
        conn.execute("SET default_transaction_read_only = on")
        extension.ensure_extension(conn, extension.TABLES)


def test_the_first_version_is_refused(state: Path) -> None:
    cluster = running(state)
    with servers.new_database(cluster, "first"), cluster.connect("first") as conn:
        conn.execute("UPDATE pg_extension SET extname = 'pgbillion' WHERE extname = 'plpgsql'")
        for name in extension.ALL:
            with pytest.raises(UserError, match=r"version 0\.1, from which there is no upgrade") as raised:
                extension.ensure_extension(conn, name)
            assert "DROP EXTENSION pgbillion" in (raised.value.hint or "")
        assert extension.versions(conn, extension.TABLES) == (None, None)


def test_extension_without_the_privilege(state: Path) -> None:
    cluster = running(state)
    with servers.new_database(cluster, "guarded"), cluster.connect("guarded") as conn:
        conn.execute("CREATE ROLE somebody")
        conn.execute("SET ROLE somebody")
        with pytest.raises(UserError, match="no privilege") as raised:
            extension.ensure_extension(conn, extension.TABLES)
        assert raised.value.status == 3
        hint = raised.value.hint or ""
        assert "CREATE EXTENSION" in hint
        conn.execute("RESET ROLE")
        conn.execute("CREATE EXTENSION pgbillion_tables")
        conn.execute("RESET ROLE")
        grants = hint.split("; ", 1)[1].replace("TO postgres", "TO somebody")
        conn.execute(grants.encode())
        conn.execute("SET ROLE somebody")
        extension.ensure_extension(conn, extension.TABLES)
        conn.execute("RESET ROLE")
        conn.execute("DROP OWNED BY somebody")
        conn.execute("DROP ROLE somebody")


def test_server_without_the_extension(state: Path) -> None:
    cluster = running(state)
    control = cluster.installation.sharedir / "extension" / "pgbillion_tables.control"
    library = cluster.installation.pkglibdir / "pgbillion_tables.so"
    with servers.new_database(cluster, "bare"):
        for file, expected in ((control, "does not have the extension"), (library, "cannot load the library")):
            aside = file.rename(file.with_suffix(".aside"))
            try:
                with cluster.connect("bare") as conn, pytest.raises(UserError, match=expected) as raised:
                    extension.ensure_extension(conn, extension.TABLES)
            finally:
                aside.rename(file)
            assert raised.value.status == 3
            assert "pgbillion extension install" in (raised.value.hint or "")


def test_names_are_text_in_a_database_of_sql_ascii(state: Path) -> None:
    cluster = running(state)
    with cluster.connect() as conn:
        conn.execute("CREATE DATABASE ascii ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0")
    target = connect.target(dbname=cluster.conninfo("ascii"))
    for autocommit in (True, False):
        with target.connect(autocommit=autocommit) as conn:
            conn.rollback()
            assert servers.one(conn, "SELECT relname FROM pg_class WHERE oid = 'pg_class'::regclass") == "pg_class"

"""Odd arguments, names and settings: they work, or one line says why not; never a traceback."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest
from hypothesis import strategies as st

from harness import servers
from harness.command_line import CommandLine, command_line, failed, names
from pgbillion import cli as root
from pgbillion.common.errors import UserError
from pgbillion.server.postgres import Cluster
from pgbillion.tables import model
from pgbillion.tables.names import NameFormat
from pgbillion.tables.plan import parse_count

CREATE = ("tables", "create", "--count", "3")
FRAMEWORKS = Path(__file__).parents[2] / "docs" / "frameworks.md"


@pytest.fixture
def cli(cluster: Cluster) -> Iterator[CommandLine]:
    with servers.new_database(cluster, "odd") as database, command_line(cluster, database) as cli:
        yield cli


@pytest.mark.parametrize("method", ["bulk", "sql"])
@pytest.mark.parametrize("command", ["create", "estimate"])
def test_all_identifiers_quoted(cli: CommandLine, command: str, method: str) -> None:
    cli.environment["PGOPTIONS"] = "-c quote_all_identifiers=on"
    with cli.connect() as conn:
        conn.execute("CREATE TABLE model (id serial)")
    for model_of in (("--template", "model"), ("--columns", "i int")):
        first = "0" if model_of[0] == "--template" else "100"
        cli.run("tables", command, "--count", "3", "--method", method, "--first", first, *model_of, check=True)


def test_name_that_the_encoding_has_not(cluster: Cluster) -> None:
    with servers.new_database(cluster, "latin", "LATIN1") as database, command_line(cluster, database) as cli:
        for method in ("bulk", "sql"):
            for command in ("create", "estimate"):
                done = cli.run("tables", command, "--count", "3", "--method", method, "--name-format", "表_%d")
                assert "Traceback" not in done.stderr
                assert done.returncode == 3 or command == "estimate", done.stderr
                assert done.returncode == 0 or 'no equivalent in encoding "LATIN1"' in done.stderr
            # and one that it has, with other bytes than in UTF-8
            cli.run(
                "tables", "create", "--count", "2", "--method", method, "--name-format", f"é{method}%d", "--columns",
                "größe int", check=True,
            )  # fmt: skip
        with cli.connect() as conn:
            found = conn.execute(
                "SELECT count(*) FROM pg_attribute WHERE attname = U&'gr\\00F6\\00DFe' AND attrelid = ANY"
                " ('{ébulk0,ébulk1,ésql0,ésql1}'::regclass[])".encode("latin-1")
            ).fetchone()
            assert found == (4,)


@pytest.mark.parametrize("method", [None, "sql"])
def test_names_that_are_no_text(cluster: Cluster, method: str | None) -> None:
    """A database of SQL_ASCII takes any bytes for a name."""
    with servers.new_database(cluster, "ascii", "SQL_ASCII") as database, command_line(cluster, database) as cli:
        with cli.connect() as conn:
            conn.execute("CREATE EXTENSION pgbillion_tables" if method is None else "SELECT 1")
            conn.pgconn.exec_(b"SET client_encoding TO SQL_ASCII")
            for name in (b"caf\xe9", "café".encode(), b"plain"):
                assert conn.pgconn.exec_(b'CREATE TABLE "' + name + b'" (i int)').status == 1
        listed = subprocess.run(
            cli._argv(("tables", "list", "--all", "--schema", "public"), True), env=cli._env(), capture_output=True
        )
        assert listed.returncode == 0, listed.stderr
        assert sorted(listed.stdout.splitlines()) == sorted(
            [b'public."caf\xe9"', 'public."café"'.encode(), b"public.plain"]
        )
        said = json.loads(cli.run("tables", "list", "--json", "--schema", "public", check=True).stdout)
        found = sorted(ascii(table["name"]) for table in said["tables"])
        assert found == [r"'caf\udce9'", r"'caf\xe9'", "'plain'"]
        options = ("--method", method) if method is not None else ()
        shown = cli.run("tables", "drop", os.fsdecode(b"caf\xe9"), "--dry-run", *options, check=True)
        assert "caf\\udce9" in shown.stdout
        cli.run("tables", "drop", os.fsdecode(b"caf\xe9"), "--yes", *options, check=True)
        done = cli.run("tables", "list", "--all", "--schema", "public", check=True)
        assert len(done.stdout.splitlines()) == 2
        cli.run("tables", "drop", "--schema", "public", "--yes", *options, check=True)
        assert cli.run("tables", "list", "--all", "--schema", "public", check=True).stdout == ""


@pytest.mark.parametrize(
    "columns",
    [
        "i int); DROP TABLE precious; --",
        "i int); DROP TABLE precious; CREATE TABLE other (j int",
        "i int); COMMIT; DROP TABLE precious; CREATE TABLE other (j int",
        "i int) INHERITS (precious",
        "i int) PARTITION BY LIST (i",
        "i int) WITH (fillfactor = 50",
        "i int) WITH (fillfactor = 50) --",
        "i int /*",
        "i int,",
        "i int \\! touch /tmp/pgbillion-was-here",
        "i int $$",
        "i int 'x",
    ],
)
def test_columns_and_nothing_else(cli: CommandLine, columns: str) -> None:
    with cli.connect() as conn:
        conn.execute("CREATE TABLE precious (p int)")
        with pytest.raises(UserError, match="not a list of columns"):
            model.check_columns(conn, columns)
        assert names(conn) == ["precious"]


def test_columns_of_several_statements_by_the_command(cli: CommandLine) -> None:
    with cli.connect() as conn:
        conn.execute("CREATE TABLE precious (p int)")
    for method in ("bulk", "sql"):
        for command in ("create", "estimate"):
            done = cli.run(
                "tables", command, "--count", "3", "--method", method, "--columns",
                "i int); COMMIT; DROP TABLE precious; --",
            )  # fmt: skip
            failed(done, 3, "--columns is not a list of columns", "CREATE TABLE")
    with cli.connect() as conn:
        assert names(conn) == ["precious"]


def test_columns_of_all_kinds(cli: CommandLine) -> None:
    columns = 'i int, -- the key\nt text DEFAULT \')\', "a)" int CHECK ("a)" > 0), PRIMARY KEY (i) -- so'
    for number, method in enumerate(("bulk", "sql")):
        for given in (columns, "", "LIKE model INCLUDING ALL"):
            with cli.connect() as conn:
                conn.execute("CREATE TABLE IF NOT EXISTS model (j int)")
            cli.run(*CREATE, "--columns", given, "--method", method, "--first", str(10 * number), check=True)
            cli.run("tables", "drop", "--count", "3", "--first", str(10 * number), "--yes", check=True)


def test_a_run_s_name(cli: CommandLine) -> None:
    made = cli.json(*CREATE, "--jobs", "1")["run"]
    name = Path(made).name
    assert Path(made).parent == cli.state / "runs"
    again = cli.json("tables", "create", "--resume", name)
    assert (again["created"], again["total"]) == (0, 3)
    failed(cli.run("tables", "create", "--resume", "nothing"), 1, f"nor in {cli.state / 'runs'}", name)
    failed(cli.run("tables", "report", "nothing", server=False), 1, 'no run "nothing"', name)


def test_hints_name_options_that_there_are(cluster: Cluster) -> None:
    """Without the extension: what a command's hint suggests is an option of that command."""
    if cluster.installation.major < 18:
        pytest.skip("hides the extension by a setting of 18")
    with servers.new_database(cluster, "bare", "UTF8") as database, command_line(cluster, database) as cli:
        with cli.connect() as conn:
            conn.execute("CREATE TABLE t_demo (grp int, data real)")
            conn.execute(f"ALTER DATABASE {database} SET extension_control_path = '/nonexistent'")
        for command in (
            ("rows", "aggregate"),
            ("rows", "scale"),
            ("tables", "create", "--count", "3"),
            ("tables", "create", "--count", "3", "--storage", "lazy"),
            ("tables", "create", "--count", "3", "--storage", "lazy", "--method", "sql"),
            ("tables", "estimate", "--count", "3"),
            ("tables", "drop", "t*", "--method", "bulk", "--yes"),
            ("cycle", "--count", "3", "--profiles", "full", "--template", "t_demo"),
        ):
            done = cli.run(*command)
            failed(done, 3, "extension")
            known = cli.run(*command[: 1 if command[0] == "cycle" else 2], "--help", server=False).stdout
            for option in re.findall(r"--[a-z][a-z-]*", done.stderr):
                assert option in known, f"{' '.join(command)}: {done.stderr}"


def test_counts_in_either_case() -> None:
    assert [parse_count(given) for given in ("20k", "20K", "3m", "3M", "1b", "1B", "1g", "1G")] == [
        20_000, 20_000, 3_000_000, 3_000_000, 10**9, 10**9, 10**9, 10**9,
    ]  # fmt: skip
    for huge in ("9" * 5000, "9223372036854775808", "10000000000b"):
        with pytest.raises(UserError, match="more than 64 bits"):
            parse_count(huge)


def test_a_demo_s_count(cli: CommandLine) -> None:
    """Read before anything is started."""
    for given, error in (("0k", "at least 1, not 0"), ("-1", "at least 1, not -1"), ("x", '"x" is not a number')):
        done = cli.run("demo", "-n", given, server=False)
        assert (done.returncode, error in done.stderr) == (1, True), done.stderr
    assert not list(cli.state.iterdir())


@pytest.mark.parametrize("text", ["%d%", "%d% ", "a%d_%", "%d%\n"])
def test_a_percent_sign_that_begins_nothing(text: str) -> None:
    with pytest.raises(UserError, match="percent sign that begins no number") as raised:
        NameFormat.parse(text)
    assert "%%" in (raised.value.hint or "")


@hypothesis.settings(max_examples=300)
@hypothesis.given(st.text(max_size=80), st.integers(), st.integers(min_value=-5))
def test_name_formats(text: str, first: int, count: int) -> None:
    """Whatever it is, it is refused with a UserError, or gives names."""
    try:
        names = NameFormat.parse(text)
        names.check_range(first, count)
    except UserError:
        return
    assert 0 < len(names(first).encode()) <= 63


@hypothesis.settings(max_examples=200)
@hypothesis.given(st.text(max_size=60))
def test_counts(text: str) -> None:
    with contextlib.suppress(UserError):
        assert -(10**30) < parse_count(text) < 2**63


ODD = ["", "\n", "a\nb", "q\"u'o\\te", "é" * 40, "x" * 64, "\udce9", "表", "%", "-1", "9" * 30, ";", "--", "$$"]


@pytest.mark.parametrize("option", ["--schema", "--template", "--columns", "--name-format", "--type", "--resume"])
def test_odd_values(
    cli: CommandLine, option: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In this process, as that is quicker: the end of the program is one of those it should have."""
    monkeypatch.setenv("PGBILLION_STATE", str(cli.state))
    count_ = () if option in ("--type", "--resume") else ("--count", "2")
    for value in [*ODD, "a\0b"]:
        for command in ("estimate", "create") if option != "--resume" else ("create",):
            arguments = ["pgbillion", "tables", command, *count_, option, value, "-d", cli.conninfo]
            monkeypatch.setattr("sys.argv", arguments)
            status = root.main()
            said = capsys.readouterr().err.encode(errors="backslashreplace").decode()
            assert status in (0, 1, 3), said
            assert "error: unexpected" not in said
            assert status == 0 or said.splitlines()[-2 if "\nhint: " in said else -1].startswith("error: "), said


@pytest.mark.parametrize("command", ["list", "drop"])
def test_odd_patterns(
    cli: CommandLine, command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PGBILLION_STATE", str(cli.state))
    for value in [*ODD, "a\0b", "\\"]:
        for words in ([value], ["--schema", value], ["--after", value] if command == "list" else [value, "--dry-run"]):
            if words[0].startswith("-") and len(words) == 1:
                continue
            monkeypatch.setattr("sys.argv", ["pgbillion", "tables", command, *words, "-d", cli.conninfo])
            status = root.main()
            said = capsys.readouterr().err.encode(errors="backslashreplace").decode()
            assert status in (0, 1, 3), said
            assert "error: unexpected" not in said


def test_a_schema_for_each_tenant_by_create_tables(cluster: Cluster) -> None:
    """The lines as they are written, run by a shell."""
    section = FRAMEWORKS.read_text(encoding="utf-8").partition("## If a tenant is many copies of one table\n")[2]
    script = section.partition("```sh\n")[2].partition("```")[0]
    assert "mydb" in script
    with servers.new_database(cluster, "mydb") as database, command_line(cluster, database) as cli:
        where = {"PGHOST": str(cluster.socket_dir), "PGPORT": str(cluster.port), "PGUSER": "postgres"}
        done = subprocess.run(["bash", "-euc", script], env={**cli._env(), **where}, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        with cli.connect() as conn:
            assert names(conn, "tenant_100") == sorted(f"orders_{number}" for number in range(1, 13))
            assert servers.one(conn, "SELECT count(*) FROM pg_tables WHERE schemaname ~ '^tenant_'") == 1200
            # a tenant or none: nothing stays of one whose tables cannot be made
            conn.execute(
                "DROP SCHEMA tenant_7 CASCADE; DROP TABLE templates.orders; CREATE VIEW templates.orders AS SELECT 1"
            )
        loop = script[script.index("for t in") :]
        again = subprocess.run(
            ["bash", "-uc", loop.replace("seq 1 100", "seq 7 8")], env={**cli._env(), **where}, capture_output=True
        )
        assert again.returncode != 0 or b"not a table" in again.stderr
        with cli.connect() as conn:
            assert servers.one(conn, "SELECT count(*) FROM pg_namespace WHERE nspname = 'tenant_7'") == 0

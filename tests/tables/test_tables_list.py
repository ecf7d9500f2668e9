"""`pgbillion tables list`: pages, all names, counts; with the extension and without."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from psycopg.sql import SQL, Composed, Identifier

from harness import servers
from harness.command_line import CommandLine, command_line, expected, failed, read_terminal
from pgbillion.server.postgres import Cluster
from pgbillion.tables import listing, selection

LIST = ("tables", "list")
ODD = ("Ä", "a b", 'q"q', "tab\tname", "select", "%", "_", "back\\slash")


@pytest.fixture(scope="module")
def listed(cluster: Cluster) -> Iterator[CommandLine]:
    """A database with 3,000 tables in one schema, some odd ones in another, and things that are no tables."""
    with servers.new_database(cluster, "lists") as database, command_line(cluster, database) as cli:
        with cli.connect() as conn:
            conn.execute("CREATE TEMPORARY TABLE template (i integer)")
            conn.execute(
                "SELECT pgbillion_tables.create_tables('template', '_%08x', 0, 3000, access_method => 'lazy_heap')"
            )
            conn.execute("CREATE SCHEMA odd")
            for name in ODD:
                quoted = '"' + name.replace('"', '""') + '"'
                conn.execute(f"CREATE TABLE odd.{quoted} (i integer)".encode())
            conn.execute("CREATE TABLE odd._00000007 (i int) PARTITION BY RANGE (i)")
            conn.execute("CREATE VIEW odd.view AS SELECT 1; CREATE SEQUENCE odd.seq; CREATE INDEX ON odd.select (i)")
        yield cli


@pytest.fixture(params=[True, False], ids=["extension", "plain"])
def cli(request: pytest.FixtureRequest, listed: CommandLine) -> Iterator[CommandLine]:
    """The same database, as a role that may use the extension, and as one that may not."""
    with listed.connect() as conn:
        conn.execute("CREATE ROLE lister LOGIN")
        if not request.param:
            conn.execute("REVOKE USAGE ON SCHEMA pgbillion_tables FROM PUBLIC")
        conn.execute("GRANT USAGE ON SCHEMA odd TO lister")
        try:
            yield CommandLine(listed.cluster, listed.database, listed.state, {"PGUSER": "lister"})
        finally:
            conn.execute("REVOKE USAGE ON SCHEMA odd FROM lister; GRANT USAGE ON SCHEMA pgbillion_tables TO PUBLIC")
            conn.execute("DROP ROLE lister")


def lines(cli: CommandLine, *arguments: str) -> list[str]:
    return cli.run(*LIST, *arguments, "-U", "lister", check=True).stdout.splitlines()


def truth(cli: CommandLine, condition: str = "true") -> list[str]:
    """What the catalogue says, in the same form and order."""
    with cli.connect() as conn:
        rows = conn.execute(
            "SELECT quote_ident(nspname) || '.' || quote_ident(relname) FROM pg_class c JOIN pg_namespace n"
            " ON n.oid = relnamespace WHERE relkind IN ('r', 'p') AND c.oid >= 16384 AND nspname !~ '^pg_'"
            f" AND {condition} ORDER BY relname, nspname".encode()
        )
        return [name for (name,) in rows]


def test_first_page(cli: CommandLine) -> None:
    done = cli.run(*LIST, "--schema", "public", "-U", "lister", check=True)
    assert done.stdout.splitlines() == [f"public.{name}" for name in expected(0, 1000)]
    assert "1,000 tables in" in done.stderr
    assert "tables list --schema public --after _000003e7" in done.stderr


def test_pages_make_up_everything(cli: CommandLine) -> None:
    pages: list[str] = []
    after: tuple[str, ...] = ()
    while True:
        page = json.loads("\n".join(lines(cli, "--limit", "700", "--json", *after)))
        pages += [f"{table['schema']}.{table['name']}" for table in page["tables"]]
        assert page["count"] == len(page["tables"])
        if page["last"] is None:
            break
        after = ("--after", page["last"])
    with cli.connect() as conn:
        rows = conn.execute(
            "SELECT relnamespace::regnamespace || '.' || relname FROM pg_class WHERE relkind IN ('r', 'p')"
            " AND oid >= 16384 AND relnamespace::regnamespace::text !~ '^pg_'"
        )
        assert sorted(pages) == sorted(name for (name,) in rows)


def test_all(cli: CommandLine) -> None:
    assert sorted(lines(cli, "--all")) == sorted(truth(cli))
    assert sorted(lines(cli, "--all", "--schema", "odd")) == sorted(truth(cli, "nspname = 'odd'"))


@pytest.mark.parametrize(
    ("pattern", "regex"),
    [
        ("_0000000?", "^_0000000.$"),
        ("*ff", "ff$"),
        ("*", ""),
        ("?", "^.$"),
        ('"?"', "^[?]$"),
        ('"back\\"*', "^back[\\\\]"),
        ("Ä", "^Ä$"),
        ("nothing*", "^nothing"),
        ("", "^$"),
        ("_00000B*", "^_00000b"),
        ("s?lect", "^select$"),
        ("a b|select", "^(a b|select)$"),
        ("_0000000[0-5]", "^_0000000[0-5]$"),
        (r"\w", r"^\w$"),
    ],
)
def test_patterns(cli: CommandLine, pattern: str, regex: str) -> None:
    matches = f"relname ~ '{regex}' COLLATE pg_catalog.default"
    found = lines(cli, pattern, "--all")
    assert sorted(found) == sorted(truth(cli, matches))
    assert lines(cli, pattern, "--count", "exact") == [str(len(found))]
    inside = lines(cli, f"odd.{pattern}", "--all")
    assert sorted(inside) == sorted(truth(cli, f"{matches} AND nspname = 'odd'"))


def test_schema_and_name(cli: CommandLine) -> None:
    inside = ["odd._00000007"]
    for pattern in (
        ("_0*", "--schema", "odd"),
        ("odd._0*",),
        (f"{cli.database}.odd._0*",),
        ("O*d._0*",),
        ('"odd"._0?????07',),
    ):
        assert lines(cli, *pattern, "--all") == inside, pattern
    assert sorted(lines(cli, "*._00000007")) == ["odd._00000007", "public._00000007"]
    assert lines(cli, "odd?.*") == []


def test_schemas_by_pattern_are_paged(cli: CommandLine) -> None:
    """Pages hold the tables of these schemas alone."""
    pages = json.loads("\n".join(lines(cli, "odd|public.*", "--limit", "700", "--json")))
    assert (pages["count"], len(pages["tables"])) == (700, 700)
    pages = json.loads("\n".join(lines(cli, "o?d.*", "--limit", "5", "--json")))
    assert (pages["count"], len(pages["tables"])) == (5, 5)
    assert lines(cli, "o?d.*", "--count", "estimate") == [str(len(ODD) + 1)]


def test_json_tells_everything(cli: CommandLine) -> None:
    page = json.loads("\n".join(lines(cli, "_00000007", "--json")))
    with cli.connect() as conn:
        oids: dict[str, int] = dict(
            conn.execute(
                "SELECT relnamespace::regnamespace::text, oid FROM pg_class WHERE relname = '_00000007'"
            ).fetchall()
        )
    common: dict[str, Any] = {"name": "_00000007", "owner": "postgres", "tablespace": None}
    odd, public = sorted(page["tables"], key=lambda table: str(table["schema"]))
    # a partitioned table has an access method from 17 on
    assert odd == {**common, "schema": "odd", "oid": oids["odd"], "access_method": None}
    assert public == {**common, "schema": "public", "oid": oids["public"], "access_method": "lazy_heap"}


def test_counts(cli: CommandLine) -> None:
    exact = json.loads(lines(cli, "--schema", "public", "--count", "exact", "--json")[0])
    assert (exact["count"], exact["exact"]) == (3000, True)
    # few enough to be counted
    assert lines(cli, "--schema", "public", "--count", "estimate") == ["3000"]
    about = json.loads(lines(cli, "*0", "--count", "estimate", "--json")[0])
    assert 0 < about["count"] < 1000


def test_an_estimate_is_not_far_off(listed: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "_COUNTED", 100)
    monkeypatch.setattr(listing, "_SAMPLED_BLOCKS", 40)
    with listed.connect() as conn:
        chosen = selection.select(conn, "_0*", "public")
        counts = [listing.estimate_count(conn, chosen, extension=True) for _ in range(20)]
    assert not any(count.exact for count in counts)
    assert 2000 < sum(count.count for count in counts) / 20 < 4000


def test_temporary_tables_of_others_are_left_out(cli: CommandLine) -> None:
    with cli.connect() as other:
        other.execute("CREATE TEMPORARY TABLE _0000temp (i int)")
        assert lines(cli, "_0000t*") == []
        assert lines(cli, "_0000t*", "--count", "exact") == ["0"]


def test_what_it_costs_is_said(cli: CommandLine) -> None:
    done = cli.run(*LIST, "*ff", "-U", "lister", check=True)
    assert "note: the pattern begins with a wildcard, so all of some" in done.stderr
    done = cli.run(*LIST, "_0000%", "-U", "lister", check=True)
    assert """note: "%" in a pattern stands for itself; * stands for any characters""" in done.stderr
    done = cli.run(*LIST, "_00000007", "-U", "lister", check=True)
    assert "pattern" not in done.stderr


def test_without_the_extension_that_is_said(cli: CommandLine, request: pytest.FixtureRequest) -> None:
    done = cli.run(*LIST, "-U", "lister", check=True)
    assert ("note: without the extension" in done.stderr) == ("plain" in request.node.callspec.id)


def test_a_reader_that_has_enough(listed: CommandLine) -> None:
    command = [sys.executable, "-m", "pgbillion", *LIST, "--all", "-d", listed.conninfo]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        said = process.stderr.read()
    assert "Traceback" not in said
    assert "error" not in said


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("--all", "--limit", "5"), "either --all or --limit"),
        (("--count", "exact", "--all"), "--count counts all that match"),
        (("--count", "exact", "--after", "a"), "--count counts all that match"),
        (("--count", "roughly"), "'roughly' is not one of"),
        (("--limit", "0"), "--limit"),
        (('a"b',), "unterminated quoted string in pattern"),
        (("a.b.c.d",), "too many dotted names"),
        (("other.odd.select",), "cross-database references are not implemented"),
        (("odd.select", "--schema", "odd"), "the schema is given twice"),
    ],
)
def test_arguments(listed: CommandLine, arguments: tuple[str, ...], error: str) -> None:
    done = listed.run(*LIST, *arguments)
    assert done.returncode == 1, done.stderr
    assert done.stderr.startswith("error: ")
    assert error in done.stderr.splitlines()[0]


def test_schema_that_does_not_exist(listed: CommandLine) -> None:
    failed(listed.run(*LIST, "--schema", "nothing"), 3, 'schema "nothing" does not exist')


@pytest.mark.parametrize("pattern", ["a(", "odd.a(", "a(.b"])
def test_no_regular_expression(listed: CommandLine, pattern: str) -> None:
    failed(listed.run(*LIST, pattern), 3, "invalid regular expression", "double quotes make every character literal")


def test_names_are_no_commands_to_a_terminal(listed: CommandLine) -> None:
    """Whoever may name a schema or a table must not set the title, or fill the clipboard, of whoever lists them."""
    evil = "x\x1b]0;title\x07\x9b31m"
    shown = r"x\x1b]0;title\x07\x9b31m"
    with listed.connect() as conn:
        conn.execute(Composed([SQL("CREATE SCHEMA "), Identifier(evil)]))
        conn.execute(Composed([SQL("CREATE TABLE "), Identifier(evil, evil), SQL("()")]))
        tenants = ("tenants", "diff", evil, "public")
        for arguments in (("tables", "list", "x*"), ("tenants", "list", "x*"), tenants, ("tenants", "size", "x*")):
            leader, follower = pty.openpty()
            command = listed._argv(arguments, True)
            with subprocess.Popen(command, env=listed._env(), stdout=follower, stderr=follower):
                os.close(follower)
                seen = read_terminal(leader)
            os.close(leader)
            assert shown in seen, arguments
            assert not re.search("\x1b]|\x07|\x9b", seen), arguments
        # a pipe gets the name itself
        assert evil in listed.run("tables", "list", "x*", check=True).stdout
        said = listed.run("tables", "list", "--schema", f"{evil}y").stderr
        assert rf"{shown}y" in said
        assert "\x1b" not in said
        conn.execute(Composed([SQL("DROP SCHEMA "), Identifier(evil), SQL(" CASCADE")]))

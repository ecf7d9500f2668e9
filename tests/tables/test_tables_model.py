"""Method sql: tables after a template are those that the extension makes, or the template is refused as it refuses."""

from __future__ import annotations

import re

import pytest

from harness import compare, servers, subject, templates
from harness.catalogs import Catalogs
from harness.command_line import command_line, failed
from pgbillion.common import quoting
from pgbillion.common.connection import Connection
from pgbillion.common.errors import UserError
from pgbillion.server.postgres import Cluster, Installation
from pgbillion.tables import create, model
from test_catalog_refusals import TEMPLATES

BULK, SQL = "made in bulk", 'made by "SQL"'
# A serial's own sequence, one with options that two defaults share, and one that is nobody's.
SERIALS = (
    "CREATE SEQUENCE t.odd AS int2 INCREMENT -3 MINVALUE -9 MAXVALUE 900 START 500 CACHE 7 CYCLE;"
    "CREATE TABLE t.template (id serial PRIMARY KEY, b text CHECK (b <> ''), g int GENERATED ALWAYS AS IDENTITY NOT"
    " NULL, odd int2 DEFAULT nextval('t.odd') * 2, too text DEFAULT 'it''s \\ ' || nextval('t.odd') ||"
    " '''t.odd''::regclass', shared bigint DEFAULT nextval('t.shared'), big bigserial);"
    "ALTER SEQUENCE t.odd OWNED BY t.template.odd"
)


def differences(conn: Connection, catalogs: Catalogs, template: str, name_format: str = "t%d") -> list[str]:
    """Make three tables each way, and compare all of it."""
    for schema in (BULK, SQL):
        conn.execute(f"CREATE SCHEMA {quoting.quote(schema)}".encode())
    subject.create_tables(conn, template, name_format, 1, 3, schema=BULK)
    table = model.of_template(conn, create.template_name(conn, template))
    names = subject.names(name_format, 1, 3)
    for name in names:
        with conn.transaction():
            for statement in table.statements(SQL, name, "heap", None):
                conn.execute(statement.encode())
    return [line for name in names for line in compare.compare(conn, catalogs, (BULK, name), (SQL, name))]


@pytest.mark.parametrize("name", templates.CASES)
def test_template(conn: Connection, catalogs: Catalogs, installation: Installation, name: str) -> None:
    template = templates.make(conn, installation.version_num, name)
    if template is None:
        pytest.skip("not of this server")
    assert differences(conn, catalogs, template) == []


@pytest.mark.parametrize("settings", ["", "SET quote_all_identifiers = on", "SET standard_conforming_strings = off"])
@pytest.mark.parametrize(
    "name_format", ["t%d", "T'\"%d \\ x :y", "n" * 62 + "%d", "é" * 31 + "%d", "😀" * 15 + "ab%d", "t_i%xd"]
)
def test_serials(conn: Connection, catalogs: Catalogs, name_format: str, settings: str) -> None:
    if "standard_conforming_strings" in settings and conn.info.server_version >= 190000:
        pytest.skip("not of this server")
    conn.execute(templates.WORLD)
    conn.execute(SERIALS)
    conn.execute(settings.encode())
    try:
        assert differences(conn, catalogs, templates.TEMPLATE, name_format) == []
    finally:
        conn.execute("RESET ALL")


@pytest.mark.parametrize("name", TEMPLATES)
def test_refused(conn: Connection, installation: Installation, name: str) -> None:
    """What the extension refuses is refused, beforehand or, where that is core, by core."""
    case = TEMPLATES[name]
    if installation.version_num < case.since * 10000:
        pytest.skip("not of this server")
    conn.execute(templates.WORLD)
    conn.execute(case.script.encode())
    if name in BY_CORE:
        table = model.of_template(conn, create.template_name(conn, case.template))
        with pytest.raises(case.error):
            conn.execute(table.statements("t", "new", "heap", None)[0].encode())
        return
    with pytest.raises(UserError) as raised:
        model.of_template(conn, create.template_name(conn, case.template))
    said = f"{case.says}|not an ordinary table|has (foreign key|partitions|row security)"
    assert re.search(said, raised.value.message, re.IGNORECASE)
    assert raised.value.hint
    assert raised.value.status == 3


BY_CORE = ("whole_row_check", "whole_row_function")


@pytest.mark.parametrize("command", ["create", "estimate"])
def test_refused_by_the_command(cluster: Cluster, command: str) -> None:
    with servers.new_database(cluster, "refused") as database, command_line(cluster, database) as cli:
        with cli.connect() as conn:
            conn.execute("CREATE TABLE guarded (i int); ALTER TABLE guarded ENABLE ROW LEVEL SECURITY")
        done = cli.run("tables", command, "--method", "sql", "--count", "3", "--template", "guarded")
        failed(done, 3, 'template "guarded" has row security', "--method bulk")


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE t.template ADD FOREIGN KEY (i) REFERENCES t.other",
        "CREATE TRIGGER g BEFORE UPDATE ON t.template EXECUTE FUNCTION suppress_redundant_updates_trigger()",
        "CREATE POLICY p ON t.template USING (i > 0)",
        "ALTER TABLE t.template ALTER i SET NOT NULL, INHERIT t.other",
        "CREATE RULE r AS ON DELETE TO t.template DO INSTEAD NOTHING",
        "ALTER TABLE t.template FORCE ROW LEVEL SECURITY",
    ],
)
def test_what_only_the_extension_makes(conn: Connection, statement: str) -> None:
    conn.execute("CREATE SCHEMA t; CREATE TABLE t.other (i int PRIMARY KEY); CREATE TABLE t.template (i int)")
    conn.execute(statement.encode())
    with pytest.raises(UserError) as raised:
        model.of_template(conn, "t.template")
    assert raised.value.hint == "Use --method bulk, whose tables have it."
    assert subject.create_tables(conn, templates.TEMPLATE, count=3, schema="t") == 3


def test_template_with_children(conn: Connection, catalogs: Catalogs) -> None:
    """They stay its own, as with LIKE."""
    conn.execute("CREATE SCHEMA t; CREATE TABLE t.template (i int); CREATE TABLE t.child () INHERITS (t.template)")
    assert differences(conn, catalogs, "t.template") == []


def test_made_by_the_command(cluster: Cluster) -> None:
    with servers.new_database(cluster, "alike") as database, command_line(cluster, database) as cli:
        with cli.connect() as conn:
            catalogs = Catalogs.load(conn)
            conn.execute(templates.WORLD)
            conn.execute(SERIALS)
            conn.execute(
                "COMMENT ON TABLE t.template IS 'it''s \\ :a \"model\"; so';"
                "ALTER TABLE t.template SET (fillfactor = 70, toast.autovacuum_enabled = off);"
                "ALTER TABLE t.template SET UNLOGGED"
            )
        for method in ("bulk", "sql"):
            with cli.connect() as conn:
                conn.execute(f"CREATE SCHEMA {method}".encode())
            cli.run(
                "tables", "create", "--template", "t.template", "--count", "9", "--jobs", "2", "--schema", method,
                "--method", method, check=True,
            )  # fmt: skip
        with cli.connect() as conn:
            for number in range(9):
                name = f"_{number:08x}"
                assert compare.compare(conn, catalogs, ("bulk", name), ("sql", name)) == []

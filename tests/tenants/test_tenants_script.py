"""Migrations as text: what is a statement, what stands for the schema's name, what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from pgbillion.common import statements
from pgbillion.common.errors import UserError
from pgbillion.tenants import script

# a text, and its statements
SPLIT = {
    "": [],
    " ; ;; -- nothing\n /* a /* b; */ ; */ ;": [],
    "SELECT 1": ["SELECT 1"],
    "SELECT 1; SELECT 2;": ["SELECT 1", "SELECT 2"],
    "SELECT ';', ';;' \";\" ; -- ; \nSELECT /* ; /* ; */ ; */ 2": [
        "SELECT ';', ';;' \";\"",
        "-- ; \nSELECT /* ; /* ; */ ; */ 2",
    ],
    "SELECT 'it''s;', E'\\';', e'\\\\'; SELECT 2": ["SELECT 'it''s;', E'\\';', e'\\\\'", "SELECT 2"],
    "SELECT 'no \\'; SELECT 2": ["SELECT 'no \\'", "SELECT 2"],
    "DO $$ BEGIN; END $$; SELECT $a$ ; $$ ; $a$; SELECT a$b$c; SELECT 1": [
        "DO $$ BEGIN; END $$",
        "SELECT $a$ ; $$ ; $a$",
        "SELECT a$b$c",
        "SELECT 1",
    ],
    "CREATE RULE r AS ON INSERT TO t DO ALSO (SELECT 1; SELECT 2); SELECT 3": [
        "CREATE RULE r AS ON INSERT TO t DO ALSO (SELECT 1; SELECT 2)",
        "SELECT 3",
    ],
    "CREATE OR REPLACE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT CASE WHEN a THEN 1 END; END; SELECT 3": [
        "CREATE OR REPLACE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT CASE WHEN a THEN 1 END; END",
        "SELECT 3",
    ],
    # comments end with either character, identifiers have any letter, and a string keeps its kind in the next line
    "SELECT 1 -- one\rFROM a; SELECT 2 -- two": ["SELECT 1 -- one\rFROM a", "SELECT 2 -- two"],
    "SELECT €$a$; SELECT €E'\\'; SELECT 3": ["SELECT €$a$", "SELECT €E'\\'", "SELECT 3"],
    "SELECT E'a' -- '\n  '\\';', 2; SELECT 'a'\n'\\'; SELECT 1": [
        "SELECT E'a' -- '\n  '\\';', 2",
        "SELECT 'a'\n'\\'",
        "SELECT 1",
    ],
    "create procedure p() begin atomic select 1; end; create function f() return 1; select 1": [
        "create procedure p() begin atomic select 1; end",
        "create function f() return 1",
        "select 1",
    ],
}


@pytest.mark.parametrize("text", SPLIT)
def test_statements_end_where_psql_ends_them(text: str) -> None:
    assert [statement.text for statement in statements.split(text)] == SPLIT[text]


# names that any role with CREATE on the database can choose
HOSTILE = (
    "v_1;alter role eve superuser;--",
    "x_1;commit;alter role eve superuser;commit;begin;--",
    "o'd\"d",
    '";commit;--',
    "';commit;--",
    "\\';commit;--",
    "$$;commit;--",
    "/*",
    "a\n;commit",
    ":'schema'",
    "default",
    "Commit",
)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_schema_s_name_is_never_more_than_a_name(name: str) -> None:
    """What is sent has the statements that were checked, and each name in it is one token."""
    text = (
        "DROP TABLE IF EXISTS :schema.old; SET search_path = :schema, public -- :schema\n; SELECT :'schema',"
        ":\"schema\".a; :schema; SELECT E'a'\n:'schema' -- so\n; DO $$ :schema $$"
    )
    (migration,) = script.load([], [text])
    sent = statements.split(migration.for_schema(name))
    usual = statements.split(migration.for_schema("tenant"))
    assert len(sent) == len(usual) == len(migration.statements)
    assert [statements.words_of(statement) for statement in sent] == [
        statements.words_of(statement) for statement in migration.statements
    ]


@pytest.mark.parametrize("text", ['"a":schema', ':"schema""a"', 'U&:"schema"', "'a':'schema'", "E:'schema'"])
def test_a_name_never_becomes_one_word_with_what_is_beside_it(text: str) -> None:
    (statement,) = statements.split(f"SELECT {text}")
    assert statement.for_schema("name") == f"SELECT {text}"


def test_the_schema_s_name_is_put_in_quoted() -> None:
    text = """SELECT :schema.f(:'schema', :"schema", 1::schema, ':schema', ":schema", $$:schema$$) -- :schema
        , x[1:schema], :schemas"""
    (statement,) = statements.split("  " + text)
    assert statement.for_schema("o'd\"d") == (
        """SELECT "o'd""d".f('o''d"d', "o'd""d", 1::schema, ':schema', ":schema", $$:schema$$) -- :schema
        , x[1:schema], :schemas"""
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT 1;\nBEGIN; SELECT 1", "the command, line 2: BEGIN cannot be run here"),
        ("/* x */ commit", "the command, line 1: COMMIT cannot be run here"),
        ("ROLLBACK TO a", "the command, line 1: ROLLBACK cannot be run here"),
        ("START TRANSACTION", "the command, line 1: START cannot be run here"),
        ("end", "the command, line 1: END cannot be run here"),
        ("ABORT", "the command, line 1: ABORT cannot be run here"),
        ("SAVEPOINT a", "the command, line 1: SAVEPOINT cannot be run here"),
        ("RELEASE a", "the command, line 1: RELEASE cannot be run here"),
        ("PREPARE /**/ TRANSACTION 'a'", "the command, line 1: PREPARE cannot be run here"),
        ("SET TRANSACTION READ ONLY", "the command, line 1: SET cannot be run here"),
        ("\\i other.sql", "the command, line 1: psql's commands cannot be run here"),
        ("SELECT 1 \\gexec", "the command, line 1: psql's commands cannot be run here"),
        ("COPY t FROM STDIN;\n1\n\\.", "the command, line 3: psql's commands cannot be run here"),
        ("COPY t (a) FROM stdin", "the command, line 1: COPY from or to the client cannot be run here"),
        ("SELECT '", "the command, line 1: the quote is not closed"),
        ("SELECT \"a", "the command, line 1: the quote is not closed"),
        ("\nSELECT $a$ $$", "the command, line 2: $a$ is not closed"),
        ("SELECT 1 /* /* */", "the command, line 1: the comment is not closed"),
        ("-- nothing", "the command has no statement"),
    ],
)  # fmt: skip
def test_what_cannot_be_run_in_tenants_is_refused(text: str, message: str) -> None:
    with pytest.raises(UserError) as refused:
        script.load([], [text])
    assert refused.value.message.startswith(message)


def test_what_looks_like_it_is_not_refused() -> None:
    script.load(
        [], ["COPY t FROM '/stdin'", "DO 'BEGIN COMMIT; END'", "SELECT begin.a, 'COMMIT' FROM begin", "SET a.b = 1"]
    )


def test_files_go_by_their_names(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    for place in (tmp_path / "001_add.sql", tmp_path / "a" / "001_add.sql"):
        place.write_text("\ufeffSELECT 1", encoding="utf-8")
    (one,) = script.load([tmp_path / "001_add.sql"], [])
    assert (one.name, one.statements[0].text) == ("001_add.sql", "SELECT 1")
    with pytest.raises(UserError, match="two migrations have the name"):
        script.load([tmp_path / "001_add.sql", tmp_path / "a" / "001_add.sql"], [])
    (tmp_path / "latin.sql").write_bytes(b"SELECT '\xe4'")
    with pytest.raises(UserError, match="is not text in UTF-8"):
        script.load([tmp_path / "latin.sql"], [])

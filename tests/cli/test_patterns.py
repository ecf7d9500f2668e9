"""Patterns for names: what psql's \\dn and \\dt find by one, the program finds, too."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator

import psycopg
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from harness import servers
from pgbillion.common import patterns
from pgbillion.common.errors import UserError
from pgbillion.server.postgres import Cluster
from pgbillion.tables import selection
from pgbillion.tenants import schemas

NAMES = (
    "a", "ab", "abc", "aab", "A", "Ab", "a.b", "a$b", 'a"b', "a*b", "a?b", "a b", "a_b", "a%b", "b", "b[]", "b|a",
    "a\\b", "ä", "Ä", "a(b)", "a^b", "b+", "b{2}", "a1", "1",
)  # fmt: skip
SCHEMAS = ("s", "S", "s.t", "st", "s1")


class Both:
    """A database in which both look."""

    def __init__(self, cluster: Cluster, conn: psycopg.Connection[tuple[object, ...]]) -> None:
        self.cluster = cluster
        self.conn = conn
        self.psql = cluster.installation.program("psql")

    def psqls(self, command: str, pattern: str) -> list[list[str]] | None:
        """Return the rows of a command of psql, None if it refuses the pattern."""
        words = [
            str(self.psql),
            "-XAtqd",
            self.cluster.conninfo(self.conn.info.dbname),
            "-F",
            "\x1f",
            "-v",
            f"p={pattern}",
        ]
        done = subprocess.run(words, input=f"{command} :p\n", capture_output=True, text=True)
        refused = "error" in done.stderr.lower() or "not implemented" in done.stderr or "improper" in done.stderr
        assert refused or not done.stderr, done.stderr
        return None if refused else [line.split("\x1f") for line in done.stdout.splitlines()]


@pytest.fixture(scope="module")
def both(cluster: Cluster) -> Iterator[Both]:
    with servers.new_database(cluster, "patterns") as name, cluster.connect(name) as conn:
        for one in NAMES:
            conn.execute(psycopg.sql.SQL("CREATE SCHEMA {}").format(psycopg.sql.Identifier(one)))
        for schema in SCHEMAS:
            conn.execute(psycopg.sql.SQL("CREATE SCHEMA {}").format(psycopg.sql.Identifier(schema)))
            for one in NAMES:
                made = psycopg.sql.SQL("CREATE TABLE {} ()").format(psycopg.sql.Identifier(schema, one))
                conn.execute(made)
        yield Both(cluster, conn)


def test_names_of_all_kinds_are_found(both: Both) -> None:
    assert set(NAMES) <= set(schemas.select(both.conn, "*"))


WORDS = (
    "a",
    "b",
    "A",
    "s",
    "S",
    "t",
    "1",
    "Ä",
    "ä",
    "$",
    "%",
    "_",
    " ",
    "*",
    "?",
    '"',
    '""',
    "[]",
    "|",
    "+",
    "[ab]",
    "(",
    ")",
)
PATTERNS = st.lists(st.sampled_from((*WORDS, "\\", "^", "{2}", "\\w", "[[:alpha:]]", "b[]")), max_size=6).map("".join)


@given(pattern=PATTERNS)
@example(pattern="AB*")
@example(pattern='"A"b')
@example(pattern="a$b")
@example(pattern="b[]")
@example(pattern='"a.b"')
@example(pattern="a.b")
@example(pattern="[[:alpha:]]")
@example(pattern="a|b")
def test_schemas(both: Both, pattern: str) -> None:
    theirs = both.psqls("\\dn", pattern) if pattern else []
    ours: list[str] | None
    try:
        ours = schemas.select(both.conn, pattern)
    except UserError as error:
        ours = [] if "no schema matches" in error.message else None
    if pattern.count('"') % 2:
        # psql takes the end of a variable's value for the closing quote
        assert ours is None
    elif theirs is None:
        assert ours is None
    else:
        assert ours is not None
        assert set(ours) & set(NAMES) == {name for name, _ in theirs} & set(NAMES)


@given(schema=PATTERNS, pattern=PATTERNS)
@example(schema="S", pattern="A*")
@example(schema='"s.t"', pattern='"a.b"')
@example(schema="*", pattern="a?b")
@example(schema="s?", pattern="*")
@example(schema="s|st", pattern="a|b")
def test_tables(both: Both, schema: str, pattern: str) -> None:
    wanted = f"{schema}.{pattern}"
    # without a schema, psql lists only what search_path finds
    assume("." in re.sub(r'"[^"]*"', "", wanted))
    # in ( or [, a dot ends the name as anywhere else
    theirs = both.psqls("\\dt", wanted)
    try:
        chosen = selection.select(both.conn, wanted)
    except UserError as error:
        if "does not exist" in error.message:
            # one that has no wildcard is looked for
            assert not theirs
        else:
            assert theirs is None or wanted.count('"') % 2
        return
    assert theirs is not None
    page = selection.pages(
        both.conn, chosen, 10_000, psycopg.sql.SQL("array_agg(ARRAY[nspname, t.name]::text[])"), extension=False
    )
    ours = {(one, name) for one, name in next(page).value or [] if one in SCHEMAS}
    assert ours == {(one, name) for one, name, *_ in theirs if one in SCHEMAS}


@pytest.mark.parametrize("name", [*NAMES, "-a", ""])
def test_a_name_as_a_pattern(name: str) -> None:
    (found,) = patterns.parse(patterns.exactly(name))
    assert found.literal == name


@pytest.mark.parametrize(
    ("pattern", "literal", "prefix"),
    [
        ("abc", "abc", "abc"),
        ("Abc", "abc", "abc"),
        ("a*", None, "a"),
        ("a_b?c", None, "a_b"),
        ('"*x"*', None, "*x"),
        ("*", None, ""),
        ("ab+", None, "a"),
        ("ab|c", None, ""),
        ('"a|b"', "a|b", "a|b"),
        ("b[]", "b[]", "b[]"),
    ],
)
def test_what_is_known_of_a_pattern(pattern: str, literal: str | None, prefix: str) -> None:
    (name,) = patterns.parse(pattern)
    assert (name.literal, name.prefix) == (literal, prefix)

"""Strings of all shapes in columnar indexes: queries over generated columns give core's answers.

Each table has columns of its own making: which characters, how long, how many different ones, how many NULLs, of which
type. Its index is made, checked, written to and refreshed. PGBILLION_TEST_SHAPES is how many tables there are (default
8), PGBILLION_TEST_SEED repeats a run.
"""

from __future__ import annotations

import os
import random
import struct
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

import psycopg
import pytest

from harness import servers
from harness.amount import Count, amount
from harness.servers import one
from pgbillion.common.connection import Connection
from pgbillion.rows import answers, plans
from pgbillion.server.postgres import Cluster
from test_columns_damage import BLOCK, COLUMN, DATA, HEAD, PAGE_HEAD, START

pytestmark = pytest.mark.majors

TABLES = amount("PGBILLION_TEST_SHAPES", 8, 2)
SEED = int(os.environ.get("PGBILLION_TEST_SEED") or random.SystemRandom().randrange(2**31))
QUERIES = 60
# store.h: of a column in a segment
TOKENS = 2
KINDS = ("absent", "all NULL", "constant", "codes", "integers", "decimals", "float4", "float8", "datums")
ALPHABETS = (
    "ab",
    "0123456789",
    "abcdefghijklmnopqrstuvwxyz -/.",
    "aäßéñ",
    "日本語文字",
    "😀a€\u0301",
    "%_\\'\"",
    "a\x01\x7f",
)
TYPES = ("text", "text", "text", "varchar", 'text COLLATE "C"', "bpchar(30)", "bytea", "name", "jsonb", "insensitive")
# how long strings are, and what part of them
LENGTHS: tuple[tuple[tuple[int, ...], float], ...] = (
    ((0, 1, 2, 3), 1),
    ((5, 9, 14, 20), 1),
    ((15, 16, 17, 31, 32, 33), 1),
    ((40, 80, 125, 126, 127, 128), 1),
    ((10, 20, 900), 0.98),
    ((1500,), 1),
)


@dataclass
class Shape:
    """A column: its type, and values that it mostly has."""

    name: str
    type: str
    values: Sequence[bytes | None]

    @property
    def exact(self) -> bool:
        """Are values that are equal the same?"""
        return self.type not in ("insensitive", "jsonb")

    def literal(self, value: bytes) -> str:
        """A value, in characters of ASCII whatever the encoding."""
        cast = self.type.split(" ")[0]
        cast = {"insensitive": "text", "bpchar(30)": "bpchar"}.get(cast, cast)
        if cast == "bytea":
            return f"'\\x{value.hex()}'::bytea"
        escaped = "".join(chr(b) if 32 <= b < 127 and b not in b"\\'" else f"\\x{b:02x}" for b in value)
        return f"E'{escaped}'::{cast}"


def some_text(chance: random.Random, words: Sequence[str], alphabet: str, length: int, form: int, number: int) -> str:
    match form:
        case 0:
            text = " ".join(chance.choices(words, k=1 + length // 4))
        case 1:
            text = "".join(chance.choices(alphabet, k=length))
        case 2:
            text = f"https://{words[0]}.example/{chance.choice(words)}?n={number}&{chance.choice(words)}"
        case 3:
            text = chance.choice(words) * (1 + length // 3)
        case _:
            text = f"{words[0] * 3}{number:08}"
    return text[:length] if form < 4 else text


def shape(chance: random.Random, number: int, rows: int, encoding: str, types: Sequence[str]) -> Shape:
    """A column of some rows."""
    kind = chance.choice(types)
    alphabet = chance.choice(ALPHABETS)
    words = [
        "".join(chance.choices(alphabet, k=chance.randrange(1, 18))) for _ in range(chance.choice((1, 5, 40, 400)))
    ]
    lengths, share = chance.choice(LENGTHS)
    form = chance.randrange(5)
    different = chance.choice((1, 2, 255, 256, 257, rows // 2, rows, rows))
    nulls = chance.choice((0, 0, 0, 0.1, 0.95))
    empty = chance.choice((0, 0, 0.2))
    limit = {"name": 15, "bpchar(30)": 30}.get(kind, 100_000)

    def value(number: int) -> bytes:
        if chance.random() < empty:
            return b"{}" if kind == "jsonb" else b""
        length = chance.choice(lengths) if chance.random() < share else chance.choice((2, 130, 5000))
        text = some_text(chance, words, alphabet, min(length, limit), form, number)[:limit]
        if kind == "jsonb":
            escaped = text.encode("unicode_escape").decode("latin-1").replace("\\", "-").replace('"', "-")
            return f'{{"{escaped[:40]}": {number % 7}, "list": ["{escaped}", null, true]}}'.encode()
        made = text.encode()
        if kind == "bytea" or (encoding == "SQL_ASCII" and chance.random() < 0.3):
            least = 0 if kind == "bytea" else 1
            made = bytes(chance.randrange(least, 256) if chance.random() < 0.1 else b for b in made)
        # in SQL_ASCII a byte is a character
        return made[:30] if kind == "bpchar(30)" and encoding == "SQL_ASCII" else made

    pool = [value(number) for number in range(different)]
    if chance.random() < 0.2 and different >= rows // 2 and kind in ("text", "varchar", "bytea"):
        # compressed in its row
        pool[0] = words[0].encode() * (90_000 // len(words[0].encode()))
    values = [None if chance.random() < nulls else pool[row % different] for row in range(rows)]
    return Shape(f"c{number}", kind, values)


def types_of(conn: Connection) -> tuple[str, ...]:
    """The types of columns; `insensitive` is one where there are collations that are not deterministic."""
    try:
        conn.execute(
            "CREATE COLLATION loose (PROVIDER = icu, LOCALE = 'und-u-ks-level2', DETERMINISTIC = false);"
            "CREATE DOMAIN insensitive AS text COLLATE loose"
        )
    except (psycopg.errors.FeatureNotSupported, psycopg.errors.UndefinedObject, psycopg.errors.InvalidObjectDefinition):
        return tuple(kind for kind in TYPES if kind != "insensitive")
    return TYPES


def make(conn: Connection, chance: random.Random, encoding: str, types: Sequence[str], table: str) -> list[Shape]:
    """Make a table with an index; some blocks are changed afterwards, and encoded again or not."""
    rows = chance.choice((1200, 3000, 5000))
    shapes = [shape(chance, number, rows, encoding, types) for number in range(5)]
    # of these it is known that they are encoded by tokens: one after the other, and in a dictionary
    phrase = "a phrase that repeats, and repeats again, "
    shapes.append(Shape("phrase", "text", [f"{phrase}{row}".encode() for row in range(rows)]))
    shapes.append(Shape("refrain", "text", [f"{phrase}{phrase}{row % 60}".encode() for row in range(rows)]))
    columns = ", ".join(f"{column.name} {column.type}" for column in shapes)
    conn.execute(f"CREATE TABLE {table} (id int, part int, {columns}) WITH (autovacuum_enabled = off)".encode())
    if chance.random() < 0.2 and shapes[0].type != "name":
        storage = chance.choice(("PLAIN", "MAIN"))
        conn.execute(f"ALTER TABLE {table} ALTER {shapes[0].name} SET STORAGE {storage}".encode())
    for first in range(0, rows, 400):
        lines = (
            f"({row}, {row % 50}, "
            + ", ".join("NULL" if (v := column.values[row]) is None else column.literal(v) for column in shapes)
            + ")"
            for row in range(first, min(first + 400, rows))
        )
        # a value that may not be out of line may have no room in its row
        with suppress(psycopg.errors.ProgramLimitExceeded):
            conn.execute(f"INSERT INTO {table} VALUES {', '.join(lines)}".encode())
    conn.execute(f"VACUUM ANALYZE {table}".encode())
    blocks = chance.choice((32, 64, 128, 1024))
    names = ", ".join(column.name for column in shapes)
    conn.execute(
        f"CREATE INDEX {table}_columns ON {table} USING columns (id, part, {names})"
        f" WITH (segment_blocks = {blocks})".encode()
    )
    for _ in range(chance.randrange(3)):
        changed, other = chance.choice(shapes), chance.choice(shapes)
        some = chance.choice((f"id % 331 = {chance.randrange(331)}", f"id BETWEEN {chance.randrange(rows)} AND {rows}"))
        to = "NULL" if changed is other or changed.type != other.type else other.name
        with suppress(psycopg.errors.ProgramLimitExceeded):
            conn.execute(f"UPDATE {table} SET {changed.name} = {to} WHERE {some}".encode())
        conn.execute(f"DELETE FROM {table} WHERE id % 700 = {chance.randrange(700)}".encode())
        conn.execute(f"VACUUM {table}".encode())
        if chance.random() < 0.6:
            conn.execute(f"CALL pgbillion_rows.columns_refresh('{table}')".encode())
    return shapes


def forms(conn: Connection, table: str, columns: int) -> Iterator[str]:
    """In which form each segment has each column."""
    conn.execute("CHECKPOINT")
    file = one(conn, f"SELECT pg_read_binary_file(pg_relation_filepath('{table}_columns'))")
    (blocks,) = struct.unpack_from("I", file, START + 8)
    for block in range(len(file) // BLOCK):
        magic, _, _, number = struct.unpack_from("4I", file, block * BLOCK + START)
        if magic != DATA or number != 0:
            continue
        for column in range(2, 2 + columns):
            at = block * BLOCK + START + PAGE_HEAD + HEAD + 2 * blocks + COLUMN * column
            kind, _, flags, _ = file[at : at + 4]
            yield KINDS[kind] + (" by tokens" if flags & TOKENS else "")


def pattern(chance: random.Random, value: bytes, encoding: str) -> bytes:
    """A piece of a value, in whole characters, with wildcards in it and around it."""
    start = chance.randrange(len(value) + 1)
    piece = value[start : start + chance.choice((1, 2, 5, 16, 17, 40))]
    wild = chance.choice((0, 0, 0.2))
    made = b"".join(
        chance.choice((b"%", b"_", b"\\" + bytes((b,)))) if chance.random() < wild and b < 128 else bytes((b,))
        for b in piece
    )
    if encoding != "SQL_ASCII":
        made = made.decode(errors="ignore").encode()
    # an error of PostgreSQL, if it comes to it
    if (len(made) - len(made.rstrip(b"\\"))) % 2:
        made += b"\\"
    return chance.choice((b"", b"%", b"%", b"_%", b"%_")) + made + chance.choice((b"", b"%", b"%", b"%_"))


def condition(chance: random.Random, column: Shape, encoding: str) -> str:
    name, literal = column.name, column.literal
    present = [value for value in column.values[:500] if value is not None] or [b"a"]
    value = chance.choice(present)
    cut = value[: chance.randrange(1, 40)]
    if encoding != "SQL_ASCII" and column.type != "bytea":
        cut = cut.decode(errors="ignore").encode()
    if column.type == "jsonb":
        return chance.choice(
            (f"{name} = {literal(value)}", f"{name}::text LIKE '%{chance.randrange(7)}%'", f"{name} IS NULL")
        )
    match chance.randrange(9):
        case 0:
            return f"{name} = {literal(value)}"
        case 1:
            return f"{name} <> {literal(value)}"
        case 2:
            return f"{name} {chance.choice(('<', '<=', '>', '>='))} {literal(cut)}"
        case 3:
            return f"{name} IN ({', '.join(literal(v) for v in chance.choices(present, k=3))})"
        case 4:
            return chance.choice((f"{name} IS NULL", f"{name} IS NOT NULL"))
        case 5 if column.type != "name":
            return f"length({name}) {chance.choice(('<', '>', '='))} {len(value)}"
    if column.type == "bytea":
        return f"{name} {chance.choice(('LIKE', 'NOT LIKE'))} {literal(pattern(chance, value, 'SQL_ASCII'))}"
    if column.type == "insensitive":
        return f"{name} = {literal(value)}"
    operator = chance.choice(("LIKE", "LIKE", "NOT LIKE", "ILIKE"))
    return f"{name} {operator} {Shape(name, 'text', ()).literal(pattern(chance, value, encoding))}"


def query(chance: random.Random, table: str, shapes: Sequence[Shape], encoding: str) -> str:
    column, other = chance.choice(shapes), chance.choice(shapes)
    conditions = [condition(chance, chance.choice(shapes), encoding) for _ in range(chance.choice((0, 1, 1, 2)))]
    if chance.random() < 0.4:
        conditions.append(chance.choice(("part = 7", "id % 97 = 5", "id BETWEEN 300 AND 420", "part < 20")))
    where = f" FROM {table}" + (f" WHERE {chance.choice((' AND ', ' OR ')).join(conditions)}" if conditions else "")
    name = column.name
    ordered = column.type not in ("jsonb", "insensitive")
    match chance.randrange(8):
        case 0 if column.exact:
            return f"SELECT {name}, count(*), min(id){where} GROUP BY 1"
        case 1 if column.exact:
            return f"SELECT DISTINCT {name}{where}"
        case 2 if ordered and column.type not in ("bytea", "name"):
            return f"SELECT count(*), count({name}), min({name}), max({name}), sum(length({name})){where}"
        case 3:
            return f"SELECT count(DISTINCT {name}), count(*){where}"
        case 4:
            return f"SELECT *{where}"
        case 5 if column.exact and other.exact:
            return f"SELECT {name}, {other.name}, count(*), sum(id){where} GROUP BY 1, 2"
        case 6:
            return f"SELECT id, {name}, {other.name}{where} ORDER BY part, id LIMIT 30"
    return f"SELECT md5(string_agg(coalesce({name}::text, 'none'), '|' ORDER BY id)){where}"


def ask(conn: Connection, sql: str) -> object:
    try:
        return sorted(answers.answer(conn.execute(sql.encode())).rows, key=repr)
    except psycopg.Error as error:
        return error.sqlstate


def compare(
    conn: Connection, table: str, shapes: Sequence[Shape], encoding: str, chance: random.Random
) -> Counter[str]:
    seen: Counter[str] = Counter()
    for number in range(QUERIES):
        sql = query(chance, table, shapes, encoding)
        conn.execute("SET pgbillion_rows.enable = off")
        right = ask(conn, sql)
        conn.execute("SET pgbillion_rows.enable = on")
        assert ask(conn, sql) == right, f"seed {SEED}: {table} {sql}"
        seen["queries"] += 1
        seen["errors"] += isinstance(right, str)
        # a plan with bytes that are no UTF-8 is no JSON
        if number % 3 == 0 and isinstance(right, list) and (encoding == "UTF8" or "\\x" not in sql):
            nodes = list(plans.nodes(plans.explain(conn, sql, run=True)))
            seen["from the index"] += any(
                node.get("Column Blocks Read", 0) + node.get("Column Blocks Skipped", 0) > 0 for node in nodes
            )
            seen["looked at"] += 1
    return seen


@pytest.mark.parametrize("encoding", ["UTF8", "SQL_ASCII"])
def test_generated_strings(cluster: Cluster, encoding: str, tell: Callable[[str], None], counted: Count) -> None:
    seen: Counter[str] = Counter()
    with servers.new_database(cluster, "shapes", encoding) as database, cluster.connect(database) as conn:
        conn.prepare_threshold = None
        conn.execute(f"SET client_encoding = '{encoding}'; CREATE EXTENSION pgbillion_rows CASCADE")
        types = types_of(conn)
        conn.execute(
            "SET pgbillion_rows.columns = force; SET pgbillion_rows.vector_aggregate = force;"
            " SET pgbillion_rows.vector_scan = force; SET max_parallel_workers_per_gather = 0"
        )
        for number in range(TABLES):
            # a seed of its own, so that one table can be made again
            chance = random.Random(f"{SEED} {encoding} {number}")
            table = f"t{number}"
            shapes = make(conn, chance, encoding, types, table)
            found = conn.execute(f"SELECT * FROM pgbillion_rows.columns_check('{table}')".encode()).fetchall()
            assert found == [], f"seed {SEED}: {table}"
            seen.update(forms(conn, table, len(shapes)))
            seen += compare(conn, table, shapes, encoding, chance)
            conn.execute(f"DROP TABLE {table}".encode())
    tell(f"seed {SEED}: {dict(seen)}")
    counted(
        {"tables": TABLES, "queries": seen["queries"], "that read an index, of those explained": seen["from the index"]}
    )
    assert seen["datums by tokens"] > 0
    assert seen["codes by tokens"] > 0
    assert seen["from the index"] > seen["looked at"] / 10
    assert seen["errors"] < seen["queries"] / 4


@pytest.mark.parametrize(("different", "form"), [(65536, "codes by tokens"), (65537, "datums by tokens")])
def test_as_many_values_as_codes_can_name(conn: Connection, different: int, form: str) -> None:
    """Of the largest segment: each of the first values is three rows in succession, and of the others two."""
    rows = 3 * 3000 + 2 * (different - 3000)
    value = "CASE WHEN i < 9000 THEN i / 3 ELSE 3000 + (i - 9000) / 2 END"
    series = f"generate_series(0, {rows - 1}) i"
    conn.execute("CREATE SCHEMA largest; SET search_path = largest, public")
    conn.execute(f"CREATE TABLE s AS SELECT i AS id, i AS part, 'the ' || {value} AS v FROM {series}".encode())
    conn.execute("VACUUM s")
    conn.execute("CREATE INDEX s_columns ON s USING columns (id, part, v) WITH (segment_blocks = 1024)")
    assert one(conn, "SELECT pg_relation_size('s') / 8192 <= 1024")
    assert list(forms(conn, "s", 1)) == [form]
    assert conn.execute("SELECT * FROM pgbillion_rows.columns_check('s')").fetchall() == []
    asked = "SELECT count(*), count(DISTINCT v), sum(length(v)), min(v), max(v) FROM s"
    conn.execute("SET pgbillion_rows.enable = off")
    right = ask(conn, asked)
    conn.execute("SET pgbillion_rows.enable = on; SET pgbillion_rows.columns = force")
    assert ask(conn, asked) == right

"""Damaged files of columnar indexes: an error that says where, and never a wrong row where the file can tell.

Copies of one index are damaged by chance while the server is down, then read, checked, written to and encoded again.
What lies in the directory's marks and in values has no checksum of its own: columns_check() has to notice it there.
PGBILLION_TEST_DAMAGES is how many copies are damaged (default 100), PGBILLION_TEST_SEED repeats them.
"""

from __future__ import annotations

import os
import random
import struct
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from harness import servers
from harness.amount import Count, amount
from harness.regress import alarms, log_lines
from harness.servers import one
from pgbillion.common.connection import Connection
from pgbillion.rows import answers, plans
from pgbillion.server.postgres import Cluster, Installation, run_as_server

pytestmark = pytest.mark.majors

DAMAGES = amount("PGBILLION_TEST_DAMAGES", 100, 50)
SEED = int(os.environ.get("PGBILLION_TEST_SEED") or random.SystemRandom().randrange(2**31))
COPIES = 50
DATABASE, TEMPLATE = "damaged", "whole"
BLOCK, START = 8192, 24
META, MAP, DIRECTORY, DATA = (0x50674D31 + kind for kind in range(4))
# store.h: what precedes a segment's bytes in a page, its head, what the head says of a column, and of a segment's entry
PAGE_HEAD, HEAD, COLUMN, ENTRY = 16, 20, 56, 16
SEGMENT_BLOCKS = 32
# a value of each form
VALUES = {
    "id": ("int", "i"),
    "big": ("bigint", "i * 5000000000"),
    "same": ("int", "7"),
    "few": ("smallint", "i % 5"),
    "wide": ("int", "i % 3 * 100000"),
    "word": ("text", "'word ' || i % 40"),
    "long": ("text", "md5(i::text)"),
    "price": ("numeric(10,2)", "i * 0.25"),
    "mixed": ("numeric", "CASE i % 3 WHEN 0 THEN 1.0 WHEN 1 THEN 1.00 ELSE i / 7.0 END"),
    "ratio": ("real", "i / 7.0"),
    "twice": ("float8", "CASE i % 50 WHEN 0 THEN 'NaN' ELSE i / 7.0 END"),
    "empty": ("int", "NULL"),
    "gaps": ("int", "CASE WHEN i % 5 > 0 THEN i END"),
    "flag": ("bool", "i % 3 = 0"),
    "moment": ("timestamp", "'2020-01-01'::timestamp + i * interval '1 second'"),
    # by tokens: one after the other, and in a dictionary; with headers of one byte, and of one or four
    "line": ("text", "'the quick brown fox ' || i || ' jumps over the lazy dog'"),
    "verse": ("text", "'the quick brown fox ' || i % 300"),
    "mixture": ("text", "repeat('the quick brown fox ' || i, CASE WHEN i % 10 = 0 THEN 7 ELSE 1 END)"),
}
QUESTIONS = (
    "SELECT count(*), count(empty), count(gaps), sum(id), sum(big), sum(same), sum(few), sum(price), sum(ratio),"
    " min(long), max(word), sum(mixed) FROM {}",
    "SELECT word, count(*), sum(wide), sum(gaps), sum(price), max(moment) FROM {} GROUP BY word ORDER BY word",
    "SELECT few, flag, wide, count(*), sum(twice), min(id) FROM {} GROUP BY 1, 2, 3 ORDER BY 1, 2, 3",
    "SELECT count(*), sum(id) FROM {} WHERE id < 700 AND price < 150 AND ratio < 90 AND moment < '2020-01-01 00:10'",
    "SELECT price, mixed, count(*) FROM {} WHERE word LIKE '%3' GROUP BY 1, 2 ORDER BY 1, 2",
    "SELECT count(DISTINCT id), count(DISTINCT word), count(DISTINCT mixed) FROM {}",
    "SELECT verse, count(*), min(line), max(mixture) FROM {} WHERE line LIKE '%7 jumps%' GROUP BY 1 ORDER BY 1",
    "SELECT *, ctid FROM {} WHERE few = 3 AND word LIKE '%8' ORDER BY id",
)
# a damaged page or file, a format of another version, or what the damaged number would need
TELLING = {"XX001", "XX002", "0A000"}


@pytest.fixture(scope="module")
def cluster(installation: Installation) -> Iterator[Cluster]:
    settings = {"log_min_messages": "warning", "shared_buffers": "128MB"}
    with servers.new_cluster(installation, settings) as cluster:
        if installation.major >= 18:
            cluster.stop()
            command: list[str | Path] = [installation.program("pg_checksums"), "--disable", "-D", cluster.data]
            run_as_server(command, check=True, capture_output=True)
            cluster.start()
        with servers.new_database(cluster, TEMPLATE):
            with cluster.connect(TEMPLATE) as conn:
                make(conn)
            yield cluster


def make(conn: Connection) -> None:
    """Make tables that are the same: of two segments, some of whose blocks are stale."""
    conn.execute("SET client_min_messages = error")
    for number in range(COPIES):
        table = f"t{number}"
        conn.execute(f"CREATE TABLE {table} ({', '.join(f'{name} {kind}' for name, (kind, _) in VALUES.items())})")
        rows = ", ".join(value for _, value in VALUES.values())
        conn.execute(f"INSERT INTO {table} SELECT {rows} FROM generate_series(1, 3000) i".encode())
        conn.execute(f"VACUUM {table}")
        options = f"segment_blocks = {SEGMENT_BLOCKS}, refresh_share = 1"
        conn.execute(f"CREATE INDEX {table}_columns ON {table} USING columns ({', '.join(VALUES)}) WITH ({options})")
        conn.execute(f"UPDATE {table} SET id = -id, word = 'changed', ratio = 0 WHERE id % 200 = 7")
        conn.execute(f"VACUUM (INDEX_CLEANUP ON) {table}")
    assert one(conn, "SELECT stale_blocks FROM pgbillion_rows.columns_status('t0')") > 4
    assert one(conn, "SELECT readable_blocks FROM pgbillion_rows.columns_status('t0')") > 20


@dataclass
class Damage:
    """What was done to a file: to a page of which kind, and whether reading can tell."""

    kind: str
    what: str
    told: bool


def kinds(file: bytes) -> dict[str, list[int]]:
    """The blocks of a file by kind of page."""
    found: dict[str, list[int]] = {"meta": [], "map": [], "directory": [], "head": [], "data": []}
    for block in range(len(file) // BLOCK):
        magic, _, _, number = struct.unpack_from("4I", file, block * BLOCK + START)
        kind = {META: "meta", MAP: "map", DIRECTORY: "directory", DATA: "data" if number else "head"}[magic]
        found[kind].append(block)
    return found


def place(kind: str, chance: random.Random) -> int:
    """Where a page is damaged: mostly where something is."""
    if chance.random() < 0.15:
        return chance.randrange(BLOCK)
    head = PAGE_HEAD + HEAD + 2 * SEGMENT_BLOCKS + COLUMN * len(VALUES)
    size = {"meta": 20, "map": 12, "directory": 12 + 2 * (ENTRY + 4), "head": head, "data": BLOCK - START}[kind]
    return chance.randrange(START, START + size) if chance.random() < 0.9 else chance.randrange(START)


def is_told(kind: str, at: int) -> bool:
    """Can reading tell that the byte at this place of a page has changed?"""
    at -= START
    if kind == "directory":
        entry = (at - 8 - SEGMENT_BLOCKS // 8) % (ENTRY + SEGMENT_BLOCKS // 8)
        return at < 8 or entry < ENTRY
    if kind == "head":
        return at < PAGE_HEAD + HEAD + 2 * SEGMENT_BLOCKS + COLUMN * len(VALUES)
    return kind != "data" or at < PAGE_HEAD


def damage(path: Path, chance: random.Random) -> Damage:
    """Damage a file."""
    file = bytearray(path.read_bytes())
    pages = kinds(bytes(file))
    kind = chance.choices(list(pages), (1, 1, 2, 3, 2))[0]
    block = chance.choice(pages[kind])
    at = place(kind, chance)
    how = chance.choice(("bit", "bit", "bit", "bit", "byte", "word", "zeros", "swap", "cut"))
    told = is_told(kind, at)
    where = block * BLOCK + at
    match how:
        case "bit":
            file[where] ^= 1 << chance.randrange(8)
        case "byte":
            file[where] = chance.randrange(256)
        case "word":
            at = min(at // 4 * 4, BLOCK - 4)
            told = is_told(kind, at)
            struct.pack_into("I", file, block * BLOCK + at, chance.choice((0, 1, 2, 0x7FFFFFFF, 0xFFFFFFFF, 64, 8192)))
        case "zeros":
            file[block * BLOCK : (block + 1) * BLOCK] = bytes(BLOCK)
            told = True
        case "swap":
            other = chance.randrange(len(file) // BLOCK)
            one_, two = (slice(b * BLOCK, (b + 1) * BLOCK) for b in (block, other))
            file[one_], file[two] = file[two], file[one_]
            told = True
        case "cut":
            del file[block * BLOCK :]
            told = True
    path.write_bytes(file)
    return Damage(kind, f"{how} at {at} of block {block}", told)


Answer = list[answers.Row] | psycopg.Error


def ask(conn: Connection, question: str) -> Answer:
    """As the server sends it: damaged text need not be of any encoding."""
    try:
        return answers.answer(conn.execute(question.encode())).rows
    except psycopg.Error as error:
        if conn.broken:
            raise
        return error


def says_where(error: psycopg.Error, table: str) -> bool:
    """Is it an error of the kind that PostgreSQL has for damage, which names the index, or its file, and the block?"""
    if error.sqlstate not in TELLING:
        return False
    text = str(error.diag.message_primary)
    return f'"{table}_columns"' in text if error.sqlstate != "XX001" else "block" in text


def look(conn: Connection, table: str, right: list[Answer], seen: Counter[str]) -> list[str]:
    """Read a table by its damaged index; tell what is wrong with the answers, or with the errors."""
    wrong: list[str] = []
    conn.execute("SET pgbillion_rows.columns = force")
    for question, expected in zip(QUESTIONS, right, strict=True):
        answer = ask(conn, question.format(table))
        if isinstance(answer, psycopg.Error):
            seen["errors"] += 1
            if not says_where(answer, table):
                wrong.append(f"error {answer.sqlstate} {answer}")
        else:
            seen["answers"] += 1
            if answer != expected:
                wrong.append(f"{question}: {str(answer)[:200]} for {str(expected)[:200]}")
    return wrong


def use(conn: Connection, table: str, seen: Counter[str]) -> None:
    """Write, VACUUM and encode: that may fail, and does no harm."""
    for command in (
        f"INSERT INTO {table} SELECT * FROM {table} LIMIT 5",
        f"DELETE FROM {table} WHERE id % 50 = 3",
        f"VACUUM (INDEX_CLEANUP ON) {table}",
        f"CALL pgbillion_rows.columns_refresh('{table}')",
        f"SELECT * FROM pgbillion_rows.columns_status('{table}')",
    ):
        seen["failed commands"] += isinstance(ask_command(conn, command), psycopg.Error)


def ask_command(conn: Connection, command: str) -> psycopg.Error | None:
    try:
        conn.execute(command.encode())
    except psycopg.Error as error:
        if conn.broken:
            raise
        return error
    return None


def session(cluster: Cluster) -> Connection:
    conn = cluster.connect(DATABASE)
    conn.prepare_threshold = None
    conn.execute("LOAD 'pgbillion_rows'; SET pgbillion_rows.vector_aggregate = force; SET client_min_messages = error")
    conn.execute("SET pgbillion_rows.vector_scan = force")
    conn.execute("SET max_parallel_workers_per_gather = 0; SET extra_float_digits = 1; SET statement_timeout = '60s'")
    return conn


def damage_all(cluster: Cluster, chance: random.Random, tables: int) -> list[Damage]:
    """Make a database of undamaged tables, and damage the indexes of some."""
    with cluster.connect() as conn:
        conn.execute(f"DROP DATABASE IF EXISTS {DATABASE}")
        conn.execute(f"CREATE DATABASE {DATABASE} TEMPLATE {TEMPLATE} STRATEGY file_copy")
    with cluster.connect(DATABASE) as conn:
        paths = [one(conn, f"SELECT pg_relation_filepath('t{number}_columns')") for number in range(tables)]
    cluster.stop()
    damages = [damage(cluster.data / path, chance) for path in paths]
    cluster.start()
    return damages


def test_damaged_files(cluster: Cluster, tell: Callable[[str], None], counted: Count) -> None:
    chance = random.Random(SEED)
    seen: Counter[str] = Counter()
    wrong: list[str] = []
    for first in range(0, DAMAGES, COPIES):
        damages = damage_all(cluster, chance, min(COPIES, DAMAGES - first))
        with session(cluster) as conn:
            conn.execute("SET pgbillion_rows.columns = off")
            right = [ask(conn, question.format("t0")) for question in QUESTIONS]
        for number, each in enumerate(damages):
            table = f"t{number}"
            seen[each.kind] += 1
            try:
                with session(cluster) as conn:
                    answered = look(conn, table, right, seen)
                    found = ask(conn, f"SELECT * FROM pgbillion_rows.columns_check('{table}')")
                    seen["noticed by the check"] += bool(answered) and bool(found)
                    if answered and (each.told or not found):
                        wrong.append(f"{first + number}: {each}, the check says {found}: {answered[0]}")
                    use(conn, table, seen)
                    conn.execute(f"REINDEX INDEX {table}_columns")
                    assert conn.execute(f"SELECT * FROM pgbillion_rows.columns_check('{table}')").fetchall() == []
            except psycopg.OperationalError as error:
                wrong.append(f"{first + number}: {each}: {error}")
                servers.until(lambda: _accepts(cluster), "the server")
    tell(f"seed {SEED}: {dict(seen)}")
    counted({"damaged files": DAMAGES})
    assert wrong == [], f"seed {SEED}: " + "\n".join(wrong)
    log = [line for line in log_lines(cluster) if "invalid page" not in line]
    assert alarms(log) == []
    # what a server with assertions finds out of its memory
    assert [line for line in log if "detected write past chunk" in line or "problem in alloc set" in line] == []


def _accepts(cluster: Cluster) -> bool:
    try:
        cluster.connect().close()
    except psycopg.OperationalError:
        return False
    return True


def test_another_version_of_the_format(cluster: Cluster) -> None:
    with cluster.connect() as conn:
        conn.execute(f"DROP DATABASE IF EXISTS {DATABASE}")
        conn.execute(f"CREATE DATABASE {DATABASE} TEMPLATE {TEMPLATE} STRATEGY file_copy")
    with cluster.connect(DATABASE) as conn:
        path = cluster.data / one(conn, "SELECT pg_relation_filepath('t0_columns')")
    cluster.stop()
    file = bytearray(path.read_bytes())
    struct.pack_into("I", file, START + 4, 99)
    path.write_bytes(file)
    cluster.start()
    with session(cluster) as conn:
        conn.execute("SET pgbillion_rows.columns = force")
        for command in (
            QUESTIONS[0].format("t0"),
            "INSERT INTO t0 SELECT * FROM t0 LIMIT 1",
            "VACUUM t0",
            "SELECT * FROM pgbillion_rows.columns_check('t0')",
        ):
            with pytest.raises(psycopg.errors.FeatureNotSupported, match='"t0_columns" is of version 99') as error:
                conn.execute(command.encode())
            assert "REINDEX" in str(error.value.diag.message_hint)
        conn.execute("REINDEX INDEX t0_columns")
        assert conn.execute("SELECT * FROM pgbillion_rows.columns_check('t0')").fetchall() == []


def columns_of(file: bytes, table_segment: int = 0) -> tuple[list[int], int]:
    """The pages of a segment in a file, in their order, and where in its bytes what is said of its columns begins."""
    found: dict[int, int] = {}
    for block in range(len(file) // BLOCK):
        magic, segment, _, number = struct.unpack_from("4I", file, block * BLOCK + START)
        if magic == DATA and segment == table_segment:
            found[number] = block
    return [found[number] for number in sorted(found)], HEAD + 2 * SEGMENT_BLOCKS


def place_in_file(pages: list[int], at: int) -> int:
    """Where a byte of a segment is in the file."""
    bytes_of_page = BLOCK - START - PAGE_HEAD
    return pages[at // bytes_of_page] * BLOCK + START + PAGE_HEAD + at % bytes_of_page


def stored_column(file: bytes, pages: list[int], columns: int, number: int) -> tuple[int, ...]:
    """What a segment says of a column, as store.h has it."""
    return struct.unpack_from("<4Bi6I3q", file, place_in_file(pages, columns + COLUMN * number))


def where_tokens_are(file: bytes, rows: int | None) -> dict[str, int]:
    """The places of what a column encoded by tokens begins with, in a file of which it is the only column."""
    pages, columns = columns_of(file)
    _, _, flags, _, _, size, _, dictionary, dictionary_bytes, values, values_bytes, *_ = stored_column(
        file, pages, columns, 0
    )
    assert flags & 2
    ntokens, _, _, token_bytes, _ = struct.unpack_from("<IHHII", file, place_in_file(pages, dictionary))
    table = 16 + ntokens + token_bytes
    lengths = dictionary + (table + 7) // 8 * 8
    end = dictionary + dictionary_bytes
    if rows is not None:
        lengths, end = values + (4 * (SEGMENT_BLOCKS + 1) + 7) // 8 * 8, values + values_bytes
    codes = lengths + ((size if rows is None else rows) + 7) // 8 * 8
    return {
        name: place_in_file(pages, at)
        for name, at in {
            "ntokens": dictionary,
            "width": dictionary + 4,
            "all_short": dictionary + 6,
            "token_bytes": dictionary + 8,
            "value_bytes": dictionary + 12,
            "token_length": dictionary + 16 + 5,
            "length": lengths + 3,
            "lengths": lengths + 4,
            "code": codes + 2,
            "last_code": end - 1,
            "place": values + 4,
        }.items()
    }


# of tokens: what is written where, and whether reading has to notice it
TOKEN_DAMAGES: tuple[tuple[str, bytes, bool], ...] = (
    ("ntokens", struct.pack("<I", 4097), True),
    ("ntokens", struct.pack("<I", 0xFFFFFFFF), True),
    ("ntokens", struct.pack("<I", 0), True),
    ("width", b"\0\0", True),
    ("width", b"\3\0", True),
    ("width", b"\4\0", True),
    ("all_short", b"\0\0", True),
    ("all_short", b"\2\0", True),
    ("token_bytes", struct.pack("<I", 0xFFFFFFF0), True),
    ("token_bytes", struct.pack("<I", 3), True),
    ("value_bytes", struct.pack("<I", 0xFFFFFFFF), False),
    ("token_length", b"\x11", True),
    ("token_length", b"\xff", True),
    ("length", b"\0", True),
    ("length", b"\x80", True),
    ("length", b"\xff", True),
    ("lengths", b"", True),
    ("code", b"\xff\xff", True),
    ("last_code", b"\xff", False),
    ("place", struct.pack("<I", 0xFFFFFFFF), True),
    # no place is needed between blocks that are decoded at once
    ("place", struct.pack("<I", 1), False),
)


@pytest.mark.parametrize("kind", ["rows", "dictionary"])
def test_damaged_tokens(cluster: Cluster, kind: str) -> None:
    """Each number of a table of tokens, of lengths and of places is checked before it is used."""
    damages = [damage for damage in TOKEN_DAMAGES if kind == "rows" or damage[0] != "place"]
    value = "'the quick brown fox ' || i || ' jumps over'" if kind == "rows" else "'the quick brown fox ' || i % 300"
    with cluster.connect() as conn:
        conn.execute(f"DROP DATABASE IF EXISTS {DATABASE}")
        conn.execute(f"CREATE DATABASE {DATABASE} TEMPLATE {TEMPLATE} STRATEGY file_copy")
    paths = []
    with cluster.connect(DATABASE) as conn:
        for number in range(len(damages)):
            conn.execute(f"CREATE TABLE d{number} AS SELECT {value} AS v FROM generate_series(1, 1500) i".encode())
            conn.execute(f"VACUUM d{number}")
            conn.execute(f"CREATE INDEX d{number}_columns ON d{number} USING columns (v) WITH (segment_blocks = 32)")
            paths.append(cluster.data / one(conn, f"SELECT pg_relation_filepath('d{number}_columns')"))
    cluster.stop()
    for path, (name, written, _) in zip(paths, damages, strict=True):
        file = bytearray(path.read_bytes())
        at = where_tokens_are(bytes(file), 1500 if kind == "rows" else None)[name]
        if name == "lengths":
            # together as before, so that nothing but the lengths themselves tells
            written = bytes((0, file[at] + file[at + 1]))
        assert file[at : at + len(written)] != written
        file[at : at + len(written)] = written
        path.write_bytes(file)
    cluster.start()
    unnoticed = []
    for number, (name, written, told) in enumerate(damages):
        with session(cluster) as conn:
            conn.execute("SET pgbillion_rows.columns = force")
            for question in ("SELECT count(*), min(v), max(v), sum(length(v)) FROM {}", "SELECT * FROM {} ORDER BY v"):
                answer = ask(conn, question.format(f"d{number}"))
                if isinstance(answer, psycopg.Error):
                    assert says_where(answer, f"d{number}"), (name, written, answer)
                elif told:
                    unnoticed.append((name, written, answer[:1]))
            found = ask(conn, f"SELECT * FROM pgbillion_rows.columns_check('d{number}')")
            assert found or not told, (name, written)
    assert unnoticed == []


def crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def forge_bucket(file: bytearray, value: int) -> None:
    """Have a table of hashes say that a value is in another block, in a bucket whose check is right."""
    at = where_hashes_are(bytes(file), value)
    # a small table is within a page
    first, last = struct.unpack_from("<2I", file, at["places"])
    entries = slice(at["check"] + 2, at["check"] + 2 * (last - first))
    assert entries.start // BLOCK == entries.stop // BLOCK
    file[at["entry"]] ^= 1
    crc = crc32c(struct.pack("<I", at["bucket"]) + file[entries])
    struct.pack_into("<H", file, at["check"], (crc ^ crc >> 16) & 0xFFFF)


def where_hashes_are(file: bytes, value: int) -> dict[str, int]:
    """The places of what is read of a table of hashes to find a bigint, in a file of which it is the only column."""
    pages, columns = columns_of(file)
    _, nrows, *_ = struct.unpack_from("<2I", file, place_in_file(pages, 0))
    _, _, flags, _, table, *_ = stored_column(file, pages, columns, 0)
    assert flags & 4
    mask = 2**64 - 1
    number = value & mask
    number = (number ^ number >> 32) * 0x9E3779B97F4A7C15 & mask
    number = (number ^ number >> 29) * 0xBF58476D1CE4E5B9 & mask
    number ^= number >> 32
    buckets = nrows // 16 + 1
    bucket = (number >> 32) * buckets >> 32
    places = table + 4 * bucket
    first, last = struct.unpack_from("<2I", file, place_in_file(pages, places))
    words = table + 4 * (buckets + 1)
    entries = [
        place_in_file(pages, words + 2 * word)
        for word in range(first + 1, last)
        if struct.unpack_from("<H", file, place_in_file(pages, words + 2 * word))[0] >> 6 == number & 1023
    ]
    assert entries
    return {
        "places": place_in_file(pages, places),
        "place": place_in_file(pages, places),
        "next place": place_in_file(pages, places + 4),
        "check": place_in_file(pages, words + 2 * first),
        "entry": entries[0],
        "hash": entries[0] + 1,
        "first places": place_in_file(pages, table),
        "bucket": bucket,
    }


# of a table of hashes: what is written where
HASH_DAMAGES: tuple[tuple[str, bytes], ...] = (
    ("place", struct.pack("<I", 0xFFFFFFFF)),
    ("place", struct.pack("<I", 0)),
    ("next place", struct.pack("<I", 0xFFFFFFFF)),
    ("next place", struct.pack("<I", 0)),
    ("next place", struct.pack("<I", 1023)),
    ("check", b"\0\0"),
    ("entry", b"\xff"),
    ("hash", b"\xff"),
    # those of the first bucket, which is a sound one
    ("places", b""),
)


def test_damaged_hashes(cluster: Cluster) -> None:
    """No row is left out because a bucket is damaged."""
    with cluster.connect() as conn:
        conn.execute(f"DROP DATABASE IF EXISTS {DATABASE}")
        conn.execute(f"CREATE DATABASE {DATABASE} TEMPLATE {TEMPLATE} STRATEGY file_copy")
    paths = []
    value = "('x' || substr(md5({}::text), 1, 16))::bit(64)::bigint"
    with cluster.connect(DATABASE) as conn:
        sought = one(conn, f"SELECT {value.format(777)}")
        for number in range(len(HASH_DAMAGES) + 1):
            conn.execute(
                f"CREATE TABLE d{number} AS SELECT {value.format('i')} AS v FROM generate_series(1, 5000) i".encode()
            )
            conn.execute(f"VACUUM d{number}")
            conn.execute(f"CREATE INDEX d{number}_columns ON d{number} USING columns (v) WITH (segment_blocks = 32)")
            paths.append(cluster.data / one(conn, f"SELECT pg_relation_filepath('d{number}_columns')"))
    cluster.stop()
    for path, (name, written) in zip(paths, HASH_DAMAGES, strict=False):
        file = bytearray(path.read_bytes())
        at = where_hashes_are(bytes(file), sought)[name]
        if name == "places":
            first = where_hashes_are(bytes(file), sought)["first places"]
            written = bytes(file[first : first + 8])
        assert file[at : at + len(written)] != written
        file[at : at + len(written)] = written
        path.write_bytes(file)
    file = bytearray(paths[-1].read_bytes())
    forge_bucket(file, sought)
    paths[-1].write_bytes(file)
    cluster.start()
    for number, damage in enumerate(HASH_DAMAGES):
        with session(cluster) as conn:
            conn.execute("SET pgbillion_rows.columns = force")
            answer = ask(conn, f"SELECT count(*) FROM d{number} WHERE v = {sought}")
            assert isinstance(answer, psycopg.Error), (damage, answer)
            assert says_where(answer, f"d{number}"), (damage, answer)
            # what is not looked up is read
            assert one(conn, f"SELECT count(*) FROM d{number} WHERE v <> {sought}") == 4999
            assert ask(conn, f"SELECT * FROM pgbillion_rows.columns_check('d{number}')"), damage
    with session(cluster) as conn:
        found = conn.execute(f"SELECT * FROM pgbillion_rows.columns_check('d{len(HASH_DAMAGES)}')").fetchall()
        assert len(found) == 1
        assert "not found by its hash" in str(found[0])


@pytest.mark.parametrize("version", [2, 3, 4])
def test_versions_before(cluster: Cluster, version: int) -> None:
    """They are read, and what is encoded again stays of them: without line pointers, tokens, and tables of hashes."""
    with cluster.connect() as conn:
        conn.execute(f"DROP DATABASE IF EXISTS {DATABASE}")
        conn.execute(f"CREATE DATABASE {DATABASE} TEMPLATE {TEMPLATE} STRATEGY file_copy")
    with cluster.connect(DATABASE) as conn:
        conn.execute("CREATE TABLE old (LIKE t0)")
        conn.execute(f"CREATE INDEX old_columns ON old USING columns ({', '.join(VALUES)})")
        path = cluster.data / one(conn, "SELECT pg_relation_filepath('old_columns')")
    cluster.stop()
    file = bytearray(path.read_bytes())
    assert struct.unpack_from("I", file, START + 4) == (5,)
    struct.pack_into("I", file, START + 4, version)
    path.write_bytes(file)
    cluster.start()
    rows, groups, lines = (question.format("old") for question in (QUESTIONS[-1], QUESTIONS[1], QUESTIONS[-2]))
    equal = "SELECT count(*) FROM old WHERE long = md5('7')"
    sizes = []
    with session(cluster) as conn:
        conn.execute("INSERT INTO old SELECT * FROM t0; ALTER TABLE old SET (autovacuum_enabled = off)")
        conn.execute("VACUUM old")
        for number in range(3):
            conn.execute("SET pgbillion_rows.columns = off")
            right = [ask(conn, question) for question in (rows, groups, lines)]
            conn.execute("SET pgbillion_rows.columns = force")
            assert [ask(conn, question) for question in (rows, groups, lines)] == right
            (scan,) = (node for node in plans.nodes(plans.explain(conn, rows, run=True)) if "Columns" in node)
            assert ("earlier version" in scan.get("Columns Not Read", "")) == (version == 2 and number < 2)
            assert (scan.get("Rows Fetched", 0) > 0) == (version >= 3 or number == 2)
            for question in (groups, lines, equal):
                plan = plans.explain(conn, question, run=True)
                assert sum(node.get("Column Blocks Read", 0) for node in plans.nodes(plan)) > 0
            skipped = sum(node.get("Column Blocks Skipped", 0) for node in plans.nodes(plan))
            assert one(conn, equal) == 1
            assert (skipped > 0) == (number == 2)
            assert conn.execute("SELECT * FROM pgbillion_rows.columns_check('old')").fetchall() == []
            sizes.append(one(conn, "SELECT pg_relation_size('old_columns')"))
            if number == 0:
                conn.execute("UPDATE old SET id = id WHERE id % 50 = 7")
                conn.execute("VACUUM old")
                conn.execute("CALL pgbillion_rows.columns_refresh('old')")
            else:
                conn.execute("REINDEX INDEX old_columns")
    assert (sizes[2] > sizes[0]) == (version == 4)

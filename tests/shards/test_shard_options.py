"""Odd options of servers, user mappings, foreign tables and columns: the answer that postgres_fdw gives, or an error.

PGBILLION_TEST_OPTIONS is how often some are chosen by chance (default 100), PGBILLION_TEST_SEED repeats a run.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from psycopg import sql

from harness.amount import Count, amount
from harness.shards import make_coordinator, plan, shard_table, shards
from pgbillion.common.connection import Connection
from pgbillion.server.postgres import Cluster

ROUNDS = amount("PGBILLION_TEST_OPTIONS", 100, 30)
SEED = int(os.environ.get("PGBILLION_TEST_SEED") or random.SystemRandom().randrange(2**31))
QUERY = "SELECT g, count(*), sum(i::bigint), avg(n), max(t) FROM many GROUP BY g ORDER BY g"
NUMBERS = ("0", "-1", "1", "3", "2147483647", "2147483648", "99999999999999", "1.5", "x", "")
COSTS = ("0", "-1", "1e300", "nan", "inf", "-inf", "x", "")
SWITCHES = ("true", "off", "1", "maybe", "")
NAMES = (
    "",
    "nonesuch",
    "x" * 63,
    "x" * 2000,
    'a"b',
    "a'b",
    "a\\b",
    "é" * 40,
    "%u%d%a%C%c%p%%%",
    "g",
    "i",
    "; --",
    "a b",
)
Value = tuple[str, ...]
SERVER: dict[str, Value] = {
    **dict.fromkeys(("fetch_size", "batch_size", "connect_timeout", "keepalives_idle"), NUMBERS),
    **dict.fromkeys(("fdw_startup_cost", "fdw_tuple_cost"), COSTS),
    **dict.fromkeys(("use_remote_estimate", "async_capable", "keep_connections", "updatable", "truncatable"), SWITCHES),
    "parallel_commit": SWITCHES,
    "extensions": ("", "nonesuch", "pgbillion_rows", "pgbillion_rows,postgres_fdw", "a,,b", '"', ","),
    "application_name": NAMES,
    "dbname": (*NAMES, "host=/nonesuch", "postgresql://nonesuch/"),
    "host": ("", ",", "/nonesuch", "/" + "x" * 3000),
    "port": NUMBERS,
    "options": ("-c statement_timeout=1ms", "-c nonesuch=1", "-c DateStyle=German", "-c extra_float_digits=-15", "\\"),
    "target_session_attrs": ("any", "read-only", "x"),
}
MAPPING: dict[str, Value] = {"user": NAMES, "password": NAMES, "password_required": SWITCHES}
TABLE: dict[str, Value] = {
    "schema_name": (*NAMES, "pg_catalog"),
    "table_name": (*NAMES, "other", "fewer", "pg_class"),
    "use_remote_estimate": SWITCHES,
    "fetch_size": NUMBERS,
}
COLUMN: dict[str, Value] = {"column_name": (*NAMES, "n", "t", "ctid", "tableoid")}
# what is altered, with the options that it has
PLACES: dict[str, dict[str, Value]] = {
    "SERVER s1": SERVER,
    "USER MAPPING FOR PUBLIC SERVER s1": MAPPING,
    "FOREIGN TABLE many_0": TABLE,
    **{f"FOREIGN TABLE many_0 ALTER COLUMN {column}": COLUMN for column in ("i", "g", "n", "t")},
}


@pytest.fixture(scope="module")
def coordinator(cluster: Cluster, database: str) -> Iterator[Connection]:
    with shards([cluster], "odd") as members, cluster.connect(database) as conn:
        make_coordinator(conn, members)
        shard_table(conn, members, "many", "i integer, g integer, n numeric, t text")
        conn.execute("INSERT INTO many SELECT i, i % 5, i / 7.0, 'row ' || i FROM generate_series(1, 300) i")
        with members[0].connect() as there:
            there.execute("CREATE VIEW fewer AS SELECT * FROM many_0 WHERE g < 3")
            there.execute("CREATE TABLE other (g text, t integer)")
        conn.prepare_threshold = None
        conn.execute("SET statement_timeout = '60s'")
        yield conn
        conn.execute("DROP TABLE many; DROP SERVER s1 CASCADE")


def altered(conn: Connection, place: str, name: str, value: str) -> bool:
    """Set an option in this transaction, if PostgreSQL takes it."""
    for verb in ("ADD", "SET"):
        command = sql.SQL(f"ALTER {place} OPTIONS ({verb} {{}} {{}})").format(sql.Identifier(name), sql.Literal(value))
        try:
            with conn.transaction():
                conn.execute(command)
        except psycopg.errors.DuplicateObject:
            continue
        except psycopg.Error as error:
            if error.sqlstate == "XX000":
                raise
            return False
        return True
    return False


def ask(conn: Connection, push_down: bool) -> list[tuple[Any, ...]] | psycopg.Error:
    conn.execute(f"SET LOCAL pgbillion_rows.push_down_aggregates = {'on' if push_down else 'off'}")
    try:
        with conn.transaction():
            return conn.execute(QUERY).fetchall()
    except psycopg.Error as error:
        return error


def test_odd_options(coordinator: Connection, tell: Callable[[str], None], counted: Count) -> None:
    chance = random.Random(SEED)
    outcomes: Counter[str] = Counter()
    conn = coordinator
    assert "partial_avg" in plan(conn, QUERY) or "avg(n)" in plan(conn, QUERY)
    expected = conn.execute(QUERY).fetchall()
    places = list(PLACES)
    for number in range(ROUNDS):
        chosen = []
        with conn.transaction(force_rollback=True):
            for _ in range(chance.choice((1, 1, 2, 3))):
                place = chance.choice(places[:3] + places)
                name = chance.choice(list(PLACES[place]))
                value = chance.choice(PLACES[place][name])
                taken = altered(conn, place, name, value)
                chosen.append((place, name, value[:40], taken))
                outcomes["options that were taken" if taken else "options that were refused"] += 1
            ours = ask(conn, True)
            where = f"seed {SEED}, round {number}: {chosen}: {ours!r}"
            assert not conn.broken, where
            if isinstance(ours, psycopg.Error):
                assert ours.sqlstate not in ("XX000", None), where
                # a shard's own timeout is one of the options
                assert ours.sqlstate != "57014" or 'server "s1"' in str(ours), where
                outcomes["queries that failed"] += 1
            else:
                # other columns, another table: what postgres_fdw makes of it
                theirs = ask(conn, False)
                # … of rows; a cast of ours is made on the shard, from the type that the column has there, as by its own
                # aggregates
                renamed = any(name == "column_name" and taken for _, name, _, taken in chosen)
                unread = renamed and isinstance(theirs, psycopg.errors.InvalidTextRepresentation)
                assert unread or theirs == ours, f"{where}: {theirs!r}"
                outcomes["queries that were answered"] += 1
        # the connection of options that are gone is not used any more
        assert conn.execute(QUERY).fetchall() == expected, where
    tell(f"seed {SEED}: {dict(outcomes)}")
    counted(outcomes)
    assert outcomes["queries that were answered"] > 0
    assert outcomes["queries that failed"] > 0

"""What a shard may be called, and what is believed of what it says: nothing."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psycopg
import pytest

from harness import fake_shard, servers
from harness.fake_shard import Answer, FakeShard, rows
from harness.shards import Shard, make_coordinator, plan, shards
from pgbillion.common.connection import Connection
from pgbillion.server.postgres import Cluster

BYTEA, INT8, INT8_ARRAY = 17, 20, 1016


# ----------------------------------------------------------------
#     Whose functions are called
# ----------------------------------------------------------------


@pytest.fixture
def pair(cluster: Cluster, database: str) -> Iterator[tuple[Connection, Shard]]:
    """A coordinator with one table on one shard, whose database has no extension."""
    with ExitStack() as stack:
        (shard,) = stack.enter_context(shards([cluster], "trust"))
        conn = stack.enter_context(cluster.connect(database))
        with shard.connect() as there:
            there.execute("DROP EXTENSION pgbillion_rows")
            there.execute("CREATE TABLE far AS SELECT i, i::numeric AS n, i::bigint AS b FROM generate_series(1, 9) i")
        make_coordinator(conn, [shard])
        conn.execute("CREATE FOREIGN TABLE far (i integer, n numeric, b bigint) SERVER s1")
        conn.execute("CREATE TABLE parts (i integer, n numeric, b bigint) PARTITION BY LIST (i)")
        conn.execute("ALTER TABLE parts ATTACH PARTITION far DEFAULT")
        conn.execute("CREATE TABLE parts_0 PARTITION OF parts FOR VALUES IN (0)")
        try:
            yield conn, shard
        finally:
            conn.rollback()
            conn.execute("DROP SERVER s1 CASCADE; DROP TABLE parts")


PARTIAL = "SELECT avg(n), sum(b), count(*) FROM parts"


def refusal(conn: Connection, isolation: str) -> psycopg.Error:
    """The error of the query at that isolation level."""
    conn.execute(f"BEGIN ISOLATION LEVEL {isolation}")
    try:
        with pytest.raises(psycopg.Error) as caught:
            conn.execute(PARTIAL)
    finally:
        conn.execute("ROLLBACK")
    return caught.value


def make_trap(conn: Connection, folder: Path) -> Path:
    """Functions of an ordinary user under the names of ours; the file is there once one of them has run."""
    mark = folder / "mark"
    conn.execute("DROP ROLE IF EXISTS mallory")
    conn.execute("CREATE ROLE mallory")
    conn.execute(f"GRANT CREATE ON DATABASE {conn.info.dbname} TO mallory")
    conn.execute("SET ROLE mallory")
    conn.execute("CREATE SCHEMA pgbillion_rows")
    conn.execute("GRANT USAGE ON SCHEMA pgbillion_rows TO PUBLIC")
    empty = "''"
    run = f"BEGIN EXECUTE 'COPY (SELECT 1) TO PROGRAM ''cat > {mark}'''; RETURN %s; END"
    conn.execute(f"CREATE FUNCTION pgbillion_rows.version() RETURNS text LANGUAGE plpgsql AS $${run % empty}$$")
    for kind in ("numeric", "bigint"):
        conn.execute(
            f"CREATE FUNCTION pgbillion_rows.trap(bytea, {kind}) RETURNS bytea LANGUAGE plpgsql AS $${run % '$1'}$$"
        )
        for name in ("partial_avg", "partial_sum"):
            conn.execute(f"CREATE AGGREGATE pgbillion_rows.{name}({kind}) (SFUNC = pgbillion_rows.trap, STYPE = bytea)")
    conn.execute("RESET ROLE")
    return mark


@contextmanager
def trap(shard: Shard) -> Iterator[Path]:
    with servers.temporary_folder() as folder:
        folder.chmod(0o777)
        with shard.connect() as there:
            mark = make_trap(there, folder)
            # it works
            with there.transaction(force_rollback=True):
                there.execute("SELECT pgbillion_rows.version()")
            assert mark.exists()
            mark.unlink()
        try:
            yield mark
        finally:
            with shard.connect() as there:
                there.execute("DROP OWNED BY mallory CASCADE; DROP ROLE mallory")


@pytest.mark.parametrize("isolation", ["READ COMMITTED", "REPEATABLE READ"])
def test_functions_of_others_under_our_names_are_never_called(pair: tuple[Connection, Shard], isolation: str) -> None:
    """Neither on our connections nor on postgres_fdw's, where aggregates run at other isolation levels."""
    conn, shard = pair
    with trap(shard) as mark:
        assert "pgbillion_rows.partial_avg" in plan(conn, PARTIAL)
        error = refusal(conn, isolation)
        assert 'server "s1": extension pgbillion_rows is not installed' in str(error)
        assert "superuser" in (error.diag.message_hint or "")
        # the connection is prepared, and aggregates of core are run
        assert conn.execute("SELECT count(*) FROM far").fetchall() == [(9,)]
        assert not mark.exists()


def refused(conn: Connection, problem: str) -> None:
    for isolation in ("READ COMMITTED", "REPEATABLE READ"):
        assert re.search(f'server "s1": {problem}', str(refusal(conn, isolation)))


def test_what_is_verified(pair: tuple[Connection, Shard]) -> None:
    conn, shard = pair
    right = [(5, 45, 9)]

    def asked() -> list[tuple[object, ...]]:
        answers = []
        for isolation in ("READ COMMITTED", "REPEATABLE READ"):
            with conn.transaction():
                conn.execute(f"SET TRANSACTION ISOLATION LEVEL {isolation}")
                answers.append(conn.execute(PARTIAL).fetchall())
        assert answers[0] == answers[1]
        return answers[0]

    with shard.connect() as there:
        refused(conn, "extension pgbillion_rows is not installed")
        there.execute("CREATE EXTENSION pgbillion_rows")
        assert asked() == right

        there.execute("DROP ROLE IF EXISTS mallory; CREATE ROLE mallory")
        there.execute("GRANT CREATE ON SCHEMA pgbillion_rows TO mallory")
        refused(conn, "others than superusers may create objects in schema pgbillion_rows")
        there.execute(
            "REVOKE CREATE ON SCHEMA pgbillion_rows FROM mallory; GRANT CREATE ON SCHEMA pgbillion_rows TO PUBLIC"
        )
        refused(conn, "others than superusers may create objects in schema pgbillion_rows")
        there.execute("REVOKE CREATE ON SCHEMA pgbillion_rows FROM PUBLIC")
        assert asked() == right

        there.execute("ALTER SCHEMA pgbillion_rows OWNER TO mallory")
        refused(conn, "schema pgbillion_rows belongs to no superuser")
        there.execute("ALTER SCHEMA pgbillion_rows OWNER TO postgres")
        assert asked() == right

        # no member, whoever made it, and however it would be chosen
        there.execute("CREATE AGGREGATE pgbillion_rows.partial_avg(text) (SFUNC = textcat, STYPE = text)")
        refused(conn, r"function pgbillion_rows\.partial_avg\(text\) is not that of the extension")
        there.execute("DROP AGGREGATE pgbillion_rows.partial_avg(text)")
        # a member, but not in C
        there.execute("CREATE FUNCTION pgbillion_rows.add(text, text) RETURNS text LANGUAGE sql AS 'SELECT $1'")
        there.execute("CREATE AGGREGATE pgbillion_rows.partial_avg(text) (SFUNC = pgbillion_rows.add, STYPE = text)")
        there.execute("ALTER EXTENSION pgbillion_rows ADD AGGREGATE pgbillion_rows.partial_avg(text)")
        there.execute("ALTER EXTENSION pgbillion_rows ADD FUNCTION pgbillion_rows.add(text, text)")
        refused(conn, r"function pgbillion_rows\.partial_avg\(text\) is not that of the extension")
        there.execute("ALTER EXTENSION pgbillion_rows DROP AGGREGATE pgbillion_rows.partial_avg(text)")
        there.execute("DROP AGGREGATE pgbillion_rows.partial_avg(text)")
        # not a superuser's
        there.execute("ALTER AGGREGATE pgbillion_rows.partial_sum(bigint) OWNER TO mallory")
        refused(conn, r"function pgbillion_rows\.partial_sum\(bigint\) is not that of the extension")
        there.execute("ALTER AGGREGATE pgbillion_rows.partial_sum(bigint) OWNER TO postgres")
        assert asked() == right

        # a function that an aggregate names: not a superuser's, or no member
        transition = "FUNCTION pgbillion_rows.int8_avg_accum(internal, bigint)"
        there.execute(f"ALTER {transition} OWNER TO mallory")
        refused(conn, r"function pgbillion_rows\.partial_(sum|avg)\(bigint\) is not that of the extension")
        there.execute(f"ALTER {transition} OWNER TO postgres")
        assert asked() == right
        there.execute(f"ALTER EXTENSION pgbillion_rows DROP {transition}")
        refused(conn, r"function pgbillion_rows\.partial_(sum|avg)\(bigint\) is not that of the extension")
        there.execute(f"ALTER EXTENSION pgbillion_rows ADD {transition}")
        assert asked() == right

        there.execute("ALTER EXTENSION pgbillion_rows DROP AGGREGATE pgbillion_rows.partial_sum(bigint)")
        refused(conn, r"function pgbillion_rows\.partial_sum\(bigint\) is not that of the extension")
        there.execute("ALTER EXTENSION pgbillion_rows ADD AGGREGATE pgbillion_rows.partial_sum(bigint)")
        assert asked() == right

        overloads = there.execute(
            "SELECT oid::regprocedure::text FROM pg_proc WHERE pronamespace = 'pgbillion_rows'::regnamespace"
            " AND proname = 'partial_avg'"
        ).fetchall()
        for (function,) in overloads:
            there.execute(f"ALTER AGGREGATE {function} RENAME TO partial_other")
        refused(conn, r"function pgbillion_rows\.partial_avg is missing")
        for (function,) in overloads:
            there.execute(f"ALTER AGGREGATE {function.replace('partial_avg', 'partial_other')} RENAME TO partial_avg")
        assert asked() == right
        there.execute("DROP ROLE mallory")


def test_what_has_come_after_the_snapshot_is_not_called(pair: tuple[Connection, Shard]) -> None:
    """The snapshot of a transaction here has the extension; the parser of the shard finds what is there now."""
    conn, shard = pair
    with shard.connect() as there:
        there.execute("CREATE EXTENSION pgbillion_rows")
    with servers.temporary_folder() as folder:
        folder.chmod(0o777)
        conn.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        assert conn.execute("SELECT n FROM far LIMIT 1").fetchall() == [(1,)]
        with shard.connect() as there:
            there.execute("DROP EXTENSION pgbillion_rows")
            mark = make_trap(there, folder)
        with pytest.raises(psycopg.Error, match='server "s1": schema pgbillion_rows is missing'):
            conn.execute(PARTIAL)
        conn.execute("ROLLBACK")
        assert not mark.exists()
        with shard.connect() as there:
            there.execute("DROP OWNED BY mallory CASCADE; DROP ROLE mallory")


def test_the_library_is_loaded_on_the_shard(pair: tuple[Connection, Shard]) -> None:
    conn, shard = pair
    with shard.connect() as there:
        there.execute("CREATE EXTENSION pgbillion_rows")
        there.execute(
            "CREATE VIEW loaded AS SELECT 1 AS i, count(*) AS b FROM pg_settings WHERE name LIKE 'pgbillion_rows.%'"
        )
    conn.execute("CREATE FOREIGN TABLE loaded (i integer, b bigint) SERVER s1")
    assert servers.one(conn, "SELECT max(b) FROM loaded") > 0


def test_partial_aggregates_of_others_than_the_extension_stay_here(pair: tuple[Connection, Shard]) -> None:
    conn, _ = pair
    conn.execute("CREATE SCHEMA own")
    try:
        conn.execute(
            "CREATE AGGREGATE own.partial_top(integer) (SFUNC = int4larger, STYPE = integer, COMBINEFUNC = int4larger)"
        )
        assert "partial_top(i)" not in plan(conn, "SELECT own.partial_top(i) FROM far").split("Remote SQL:")[1]
    finally:
        conn.execute("DROP SCHEMA own CASCADE")


# ----------------------------------------------------------------
#     What is believed
# ----------------------------------------------------------------


@contextmanager
def liar(conn: Connection, answers: dict[str, Answer]) -> Iterator[FakeShard]:
    """A coordinator's table `lies` on a shard that answers a query with the first part that is in it like that."""

    def answer(query: str) -> Answer | None:
        return next((answer for part, answer in answers.items() if part in query), None)

    with fake_shard.fake_shard(conn.info.server_version // 10000, answer) as shard:
        conn.execute(
            f"CREATE SERVER liar FOREIGN DATA WRAPPER pgbillion_fdw OPTIONS (host '127.0.0.1', port '{shard.port}')"
        )
        conn.execute("CREATE USER MAPPING FOR PUBLIC SERVER liar OPTIONS (user 'x', password_required 'false')")
        conn.execute("CREATE TABLE lying (i integer, n numeric, t text, a integer[]) PARTITION BY LIST (i)")
        conn.execute("CREATE FOREIGN TABLE lies PARTITION OF lying DEFAULT SERVER liar")
        conn.execute("CREATE TABLE lying_1 PARTITION OF lying FOR VALUES IN (1)")
        conn.execute("CREATE TABLE lying_2 PARTITION OF lying FOR VALUES IN (2)")
        conn.execute("INSERT INTO lying VALUES (1, 1, 'x', '{1}')")
        conn.execute("SET enable_partitionwise_aggregate = on")
        try:
            yield shard
        finally:
            conn.execute("DROP SERVER liar CASCADE; DROP TABLE lying")


@pytest.fixture
def coordinator(cluster: Cluster, database: str) -> Iterator[Connection]:
    with cluster.connect(database) as conn:
        conn.execute("CREATE EXTENSION IF NOT EXISTS postgres_fdw")
        yield conn


def sum_of(ndigits: int, weight: int, sign: int, dscale: int, digits: bytes) -> bytes:
    return struct.pack("!iiii", ndigits, weight, sign, dscale) + digits


def numeric_state(number: bytes) -> bytes:
    return struct.pack("!q", 1) + number + struct.pack("!iqqqq", 0, 1, 0, 0, 0)


def header_of(conn: Connection, signature: str) -> bytes:
    """What comes before a state of this aggregate of core's."""
    kind = servers.one(conn, "SELECT aggserialfn::oid FROM pg_aggregate WHERE aggfnoid = %s::regprocedure", signature)
    return b"PGB\x01" + struct.pack("!hh", conn.info.server_version // 10000, kind)


SIGNATURES = {
    "avg(n)": "avg(numeric)",
    "stddev(i)": "stddev(integer)",
    "string_agg(t, ',')": "string_agg(text, text)",
    "array_agg(t)": "array_agg(anynonarray)",
    "array_agg(i)": "array_agg(anynonarray)",
    "array_agg(a)": "array_agg(anyarray)",
}
FORGED = {
    "avg(n)": [
        b"",
        numeric_state(sum_of(1, 2_000_000_000, 0, 0, b"\0\1")),
        numeric_state(sum_of(2_000_000_000, 0, 0, 0, b"\0\1")),
        numeric_state(sum_of(-1, 0, 0, 0, b"")),
        numeric_state(sum_of(1, 0, 0, 0, b"\x7f\xff")),
        numeric_state(sum_of(1, 0, 0, 2_000_000_000, b"\0\1")),
        numeric_state(sum_of(1, 0, 0, 0, b"\0\1")) + b"x",
    ],
    "stddev(i)": [struct.pack("!q", 1) + sum_of(10, 9, 0, 0, b"\x27\x0f" * 10) * 2],
    "string_agg(t, ',')": [
        struct.pack("!i", -200_000) + b",x",
        struct.pack("!i", -1_000_000_000) + b",x",
        struct.pack("!i", 1_000_000_000) + b",x",
        struct.pack("!i", 1) + b",\xff",
        struct.pack("!i", 1) + b",\0",
        b"\0",
    ],
    # elements by value that would be taken for pointers, and the reverse
    "array_agg(t)": [
        struct.pack("!iqh", 25, 1, -1) + b"\1i\0" + b"A" * 8,
        struct.pack("!iqh", 20, 1, 8) + b"\1d\0" + b"A" * 8,
    ],
    "array_agg(i)": [
        struct.pack("!iqh", 23, 1 << 40, 4) + b"\1i\0" + b"A" * 8,
        struct.pack("!iqh", 23, 9, 4) + b"\1i\0" + b"A" * 8,
    ],
    "array_agg(a)": [
        struct.pack("!iii", 23, 1007, 4)
        + b"AAAA"
        + struct.pack("!iiii", 1 << 30, 0, 1, 2)
        + struct.pack("=12i", *[1] * 12),
        struct.pack("!iii", 25, 1009, 4)
        + b"AAAA"
        + struct.pack("!iiii", 1024, 0, 1, 2)
        + struct.pack("=12i", *[1] * 12),
    ],
}


@pytest.mark.parametrize("aggregate", FORGED)
def test_forged_states(coordinator: Connection, aggregate: str) -> None:
    if "_agg" in aggregate and coordinator.info.server_version < 160000:
        pytest.skip("has no partial form before 16")
    pid = coordinator.info.backend_pid
    header = header_of(coordinator, SIGNATURES[aggregate])
    for state in FORGED[aggregate]:
        with liar(coordinator, {"FROM public.lies": rows([BYTEA], [header + state])}) as shard:
            with pytest.raises(psycopg.errors.InvalidBinaryRepresentation, match='server "liar" returned a state'):
                coordinator.execute(f"SELECT {aggregate} FROM lying")
            assert any("pgbillion_rows.partial_" in query for query in shard.asked)
    assert servers.one(coordinator, "SELECT pg_backend_pid()") == pid


def test_forged_states_by_postgres_fdw(coordinator: Connection) -> None:
    """Its executor takes text, and asks nobody whether it is a state; its connection is verified too."""
    pid = coordinator.info.backend_pid
    header = header_of(coordinator, "avg(numeric)")
    for state in FORGED["avg(n)"]:
        answer = rows([BYTEA], [b"\\x" + (header + state).hex().encode()], binary=False)
        with liar(coordinator, {"FETCH SELECT pgbillion_rows.partial_avg": answer}) as shard:
            coordinator.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
            with pytest.raises(psycopg.errors.InvalidBinaryRepresentation, match='server "liar" returned a state'):
                coordinator.execute("SELECT avg(n) FROM lying")
            coordinator.execute("ROLLBACK")
            assert any(query.startswith("FETCH SELECT CASE WHEN e.oid IS NULL") for query in shard.asked)
    assert servers.one(coordinator, "SELECT pg_backend_pid()") == pid


def test_a_transition_array_of_another_form(coordinator: Connection) -> None:
    """Of the same length as two counts in one dimension."""
    array = struct.pack("!iiiiiiiiq", 2, 0, INT8, 1, 1, 1, 1, 8, 7)
    with (
        liar(coordinator, {"FROM public.lies": rows([INT8_ARRAY], [array])}),
        pytest.raises(psycopg.errors.InvalidBinaryRepresentation, match="an array of another form"),
    ):
        coordinator.execute("SELECT avg(i) FROM lying")


def test_forged_states_for_a_server_in_between(coordinator: Connection) -> None:
    """In a tree it is asked for partial aggregates, whose functions are ours, and asks for them in turn."""
    array = struct.pack("!iiiiiiiiq", 2, 0, INT8, 1, 1, 1, 1, 8, 7)
    for call, answer in {
        "partial_avg(i)": rows([INT8_ARRAY], [array]),
        "partial_avg(n)": rows([BYTEA], [header_of(coordinator, "avg(numeric)") + FORGED["avg(n)"][1]]),
    }.items():
        with liar(coordinator, {"FROM public.lies": answer}) as shard:
            with pytest.raises(psycopg.errors.InvalidBinaryRepresentation, match='server "liar" returned a state'):
                coordinator.execute(f"SELECT pgbillion_rows.{call} FROM lying")
            assert any("pgbillion_rows.partial_avg" in query for query in shard.asked)


def test_states_that_no_function_here_reads_are_not_asked_for(coordinator: Connection) -> None:
    """Those of partial aggregates that are for another major version."""
    call = "string_agg(t, ',')" if coordinator.info.server_version < 160000 else "avg_array(x)"
    with liar(coordinator, {}):
        coordinator.execute("ALTER TABLE lying ADD x interval")
        assert (
            "billion"
            not in plan(coordinator, f"SELECT pgbillion_rows.partial_{call} FROM lying").split("Remote SQL:")[1]
        )


def count_of(answer: Answer) -> dict[str, Answer]:
    return {"FROM public.lies": answer}


LIES: dict[str, tuple[dict[str, Answer], str]] = {
    "a short SQLSTATE": (count_of(fake_shard.error(S=b"ERROR", C=b"X", M=b"no")), 'server "liar": no'),
    "an empty SQLSTATE": (count_of(fake_shard.error(S=b"ERROR", C=b"", M=b"no")), 'server "liar": no'),
    "a message in no encoding": (
        count_of(fake_shard.error(S=b"ERROR", C=b"22000", M=b"n\xffo")),
        r'server "liar": n\?o',
    ),
    "a message without end": (count_of(fake_shard.error(S=b"ERROR", C=b"22000", M=b"x" * 1_000_000)), "xxx"),
    "an error without fields": (count_of(fake_shard.error()), 'server "liar"'),
    "too many columns": (count_of(rows([INT8, INT8], [b"\0" * 8] * 2)), "returned 2 columns instead of 1"),
    "no columns": (count_of(rows([], [])), "returned 0 columns instead of 1"),
    "another result with fewer columns": (
        count_of(rows([INT8], [b"\0" * 8])[:-14] + rows([], [])),
        "returned 0 columns instead of 1|unexpected",
    ),
    "another type": (count_of(rows([25], [b"x" * 8])), "returned type text"),
    "a type that is none": (count_of(rows([9999], [b"x" * 8])), "."),
    "a value too long": (count_of(rows([INT8], [b"\0" * 9])), "unexpected length"),
    "a value too short": (count_of(rows([INT8], [b"\0"])), "insufficient data"),
    "COPY in place of a version": (
        {"pgbillion_rows.version": fake_shard.message(b"H", b"\0\0\0")},
        "unexpected|COPY|copy",
    ),
    "COPY in place of rows": (count_of(fake_shard.message(b"H", b"\0\0\0")), "unexpected|COPY|copy"),
    "rows in place of a command": ({"BEGIN": fake_shard.message(b"I")}, "unexpected"),
}


@pytest.mark.parametrize("lie", LIES)
def test_lies(coordinator: Connection, lie: str) -> None:
    answers, expected = LIES[lie]
    pid = coordinator.info.backend_pid
    coordinator.execute("SET statement_timeout = '30s'")
    with liar(coordinator, answers):
        with pytest.raises(psycopg.Error, match=expected) as caught:
            coordinator.execute("SELECT count(*) FROM lying")
        assert not isinstance(caught.value, psycopg.errors.QueryCanceled)
        assert len(str(caught.value)) < 20_000
    assert servers.one(coordinator, "SELECT pg_backend_pid()") == pid


def test_a_snapshot_without_a_name(coordinator: Connection) -> None:
    pid = coordinator.info.backend_pid
    for answer in (rows([], []), rows([25, 25], [b"x", b"x"])):
        with liar(coordinator, {"pg_export_snapshot": answer}):
            coordinator.execute("CREATE FOREIGN TABLE more PARTITION OF lying FOR VALUES IN (3) SERVER liar")
            with pytest.raises(psycopg.Error, match="unexpected result"):
                coordinator.execute("SELECT count(*) FROM lying")
    assert servers.one(coordinator, "SELECT pg_backend_pid()") == pid


def test_text_in_no_encoding(coordinator: Connection) -> None:
    """In columns that travel as text because one of them has a type of its own, too."""
    for types, values, query in (
        ([25], [b"\xff"], "SELECT max(t) FROM lying"),
        ([25, 3904], [b"\xff", b"empty"], "SELECT t, range_intersect_agg(int4range(i, i)) FROM lies GROUP BY t"),
    ):
        with (
            liar(coordinator, count_of(rows(types, values))),
            pytest.raises(psycopg.errors.CharacterNotInRepertoire),
        ):
            coordinator.execute(query)

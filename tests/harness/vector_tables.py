"""Tables to aggregate: every type, and every state that rows and pages of a heap can be in.

All have the same columns, so that a query can be asked of any of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pgbillion.common.connection import Connection
from pgbillion.server.postgres import Cluster

# name -> type; vectors are for those up to v, core for the others
COLUMNS: Mapping[str, str] = {
    "id": "integer",
    "i2": "smallint",
    "i4": "integer",
    "i8": "bigint",
    "f4": "real",
    "f8": "double precision",
    "n": "numeric",
    "n2": "numeric(15,2)",
    "d": "date",
    "ts": "timestamp",
    "tz": "timestamptz",
    "b": "boolean",
    "t": "text",
    "v": "varchar(20)",
    "c": "char(6)",
    "iv": "interval",
    "u": "uuid",
    "j": "jsonb",
    "tm": "time",
    "a": "integer[]",
}

# Values of a row number g: none of them NULL.
_ORDINARY: Mapping[str, str] = {
    "id": "g",
    "i2": "(random() * 200 - 100)::smallint",
    "i4": "CASE WHEN random() < 0.5 THEN random() * 40 - 20 ELSE random() * 2e6 - 1e6 END::integer",
    "i8": "CASE WHEN random() < 0.5 THEN random() * 40 - 20 ELSE random() * 2e15 - 1e15 END::bigint",
    "f4": "CASE WHEN random() < 0.3 THEN round(random() * 10) ELSE random() * 2000 - 500 END::real",
    "f8": "CASE WHEN random() < 0.3 THEN round(random() * 10) ELSE random() * 2e6 - 5e5 END",
    "n": "CASE WHEN random() < 0.3 THEN round(random() * 10)::numeric ELSE round((random() * 1e9 - 2e8)::numeric,"
    " (random() * 8)::integer) * CASE WHEN random() < 0.1 THEN 1e20 ELSE 1 END END",
    "n2": "(random() * 100000 - 10000)::numeric(15,2)",
    "d": "date '2019-11-20' + (random() * 1500)::integer",
    "ts": "timestamp '2019-06-30 23:50' + random() * interval '1500 days'",
    "tz": "timestamptz '2019-06-30 23:50+00' + random() * interval '1500 days'",
    "b": "random() < 0.4",
    "t": "(ARRAY['alpha', 'beta', '', 'a%b', 'gamma_delta', 'Ünïcode', 'a', 'alphabet', repeat('x', 150)])"
    "[1 + (random() * 8)::integer]",
    "v": "left(md5((random() * 30)::integer::text), (random() * 20)::integer)",
    "c": "left(md5((random() * 9)::integer::text), 4)",
    "iv": "random() * interval '30 days'",
    "u": "md5((random() * 20)::integer::text)::uuid",
    "j": "jsonb_build_object('k', (random() * 5)::integer)",
    "tm": "time '00:00' + random() * interval '1 day'",
    "a": "ARRAY[(random() * 3)::integer, g]",
}

# Where arithmetic ends, and what only floats and numerics have.
_EXTREME: Mapping[str, str] = {
    "i2": "{-32768,-32767,-1,0,1,32766,32767}",
    "i4": "{-2147483648,-2147483647,-65536,-1,0,1,46341,2147483646,2147483647}",
    "i8": "{-9223372036854775808,-9223372036854775807,-4294967296,-1,0,1,3037000500,9223372036854775807}",
    "f4": "{NaN,Infinity,-Infinity,-0,0,1,3.4028235e38,-3.4028235e38,1e-45,1.1754944e-38,0.1}",
    "f8": "{NaN,Infinity,-Infinity,-0,0,1,1.7976931348623157e308,-1.7976931348623157e308,5e-324,0.1}",
    "n": "{NaN,Infinity,-Infinity,0,0.000,1,1.0,1.00,-1,1e130,-1e130,1e-130,123456789012345678901234567890.123,0.1}",
    "n2": "{NaN,0,9999999999999.99,-9999999999999.99,0.01,-0.01}",
    "d": "{infinity,-infinity,4713-01-01 BC,5874897-12-31,2000-01-01,1999-12-31}",
    "ts": "{infinity,-infinity,4713-01-01 00:00:00 BC,294276-12-31 23:59:59.999999,2000-01-01 00:00:00.000001}",
    "tz": "{infinity,-infinity,4713-01-01 00:00:00+00 BC,294276-12-31 23:59:59.999999+00,2000-01-01 00:00:00+00}",
}

ROWS = 3000
# what a generated query may be asked of; `busy` is written to meanwhile
STATIC = (
    "plain",
    "strict",
    "scarce",
    "mixed",
    "evolved",
    "toasted",
    "extreme",
    "parts",
    "lazy",
    "lazy_empty",
    "nothing",
    "narrow",
    "scratch",
    "heirs",
)
TABLES = (*STATIC, "busy")


def select(nulls: float, rows: int = ROWS, first: int = 1, overrides: Mapping[str, str] | None = None) -> str:
    """A query that makes up rows; ``nulls`` is the share of NULLs in every column but id."""
    chosen = {**_ORDINARY, **(overrides or {})}
    values = [
        expression if nulls == 0 or name == "id" else f"CASE WHEN random() >= {nulls} THEN {expression} END"
        for name, expression in chosen.items()
    ]
    columns = ", ".join(f"{value} AS {name}" for name, value in zip(chosen, values, strict=True))
    return f"SELECT {columns} FROM generate_series({first}, {first + rows - 1}) g"


def definition(constraint: str = "", leave: tuple[str, ...] = ()) -> str:
    return ", ".join(f"{name} {type_} {constraint}" for name, type_ in COLUMNS.items() if name not in leave)


def make(conn: Connection, seed: float) -> None:
    """Make the tables, in the schema `v`; the same for the same seed."""
    run = conn.execute
    run(b"CREATE SCHEMA v; SET search_path = v, public")
    run(f"SELECT setseed({seed})".encode())
    columns = definition()
    run("CREATE FUNCTION is_odd(integer) RETURNS boolean STABLE LANGUAGE plpgsql AS 'BEGIN RETURN $1 % 2 = 1; END'")

    run(f"CREATE TABLE plain ({columns})".encode())
    run(f"INSERT INTO plain {select(0.1)}".encode())
    run(f"CREATE TABLE strict ({definition('NOT NULL')})".encode())
    run(f"INSERT INTO strict {select(0)}".encode())
    run(f"CREATE TABLE scarce ({columns})".encode())
    run(f"INSERT INTO scarce {select(0.9)}".encode())

    # a table's life: frozen pages, updates (HOT and not), deletes, aborted work, rows locked by one and by several
    run(f"CREATE TABLE mixed ({columns}); CREATE INDEX ON mixed (i2)".encode())
    run(f"INSERT INTO mixed {select(0.1)}".encode())
    run(b"VACUUM (FREEZE) mixed")
    run(b"UPDATE mixed SET i4 = i4 + 1, t = 'updated' WHERE id % 13 = 0 AND id > 1000")
    run(b"UPDATE mixed SET i2 = -i2 WHERE id % 17 = 0 AND id > 1500")
    run(b"DELETE FROM mixed WHERE id % 11 = 0 AND id > 1200")
    run(f"BEGIN; INSERT INTO mixed {select(0.1, 200, 10_000)}; ROLLBACK".encode())
    run(b"BEGIN; UPDATE mixed SET i8 = 0 WHERE id % 19 = 0; ROLLBACK")
    run(b"BEGIN; DELETE FROM mixed WHERE id % 23 = 0; ROLLBACK")
    run(
        f"BEGIN; INSERT INTO mixed {select(0.1, 100, 20_000)}; SAVEPOINT s; DELETE FROM mixed WHERE id < 50;"
        " ROLLBACK TO s; UPDATE mixed SET b = NOT b WHERE id % 29 = 0; RELEASE s; COMMIT".encode()
    )
    run(b"BEGIN; SELECT count(*) FROM (SELECT FROM mixed WHERE id % 31 = 0 FOR UPDATE) x; COMMIT")

    # columns that rows on disk do not have, with and without a value for them, and columns that are gone
    leave = ("i4", "n2", "t", "b", "ts", "f4", "v")
    run(f"CREATE TABLE evolved (gone1 text, {definition(leave=leave)}, gone2 integer NOT NULL)".encode())
    kept = [name for name in COLUMNS if name not in leave]
    source = f"SELECT repeat('g', id % 40), {', '.join(kept)}, id FROM ({select(0.1, 1500)}) x"
    run(f"INSERT INTO evolved (gone1, {', '.join(kept)}, gone2) {source}".encode())
    run(
        b"ALTER TABLE evolved DROP gone1, DROP gone2, ADD i4 integer DEFAULT 42, ADD t text DEFAULT 'missing',"
        b" ADD n2 numeric(15,2) DEFAULT 17.25, ADD b boolean DEFAULT true, ADD ts timestamp"
    )
    run(b"INSERT INTO evolved (id, i4, t) SELECT g, g, NULL FROM generate_series(1501, 1700) g")
    run(b"ALTER TABLE evolved ADD f4 real DEFAULT 0.5, ADD v varchar(20) DEFAULT ''")
    run(f"INSERT INTO evolved ({', '.join(COLUMNS)}) {select(0.1, 1000, 2000)}".encode())

    # inline compressed, out of line, out of line and compressed, and short ones
    run(f"CREATE TABLE toasted ({columns}); ALTER TABLE toasted ALTER v TYPE varchar".encode())
    hashes = "(SELECT string_agg(md5((g % 11 * k)::text), '') FROM generate_series(1, 200) k)"
    long = f"CASE g % 5 WHEN 0 THEN repeat('long ', 900) || g % 7 WHEN 1 THEN {hashes} ELSE 'short' || g % 3 END"
    wide = "CASE g % 40 WHEN 0 THEN repeat('7', 9000)::numeric + g % 9 WHEN 1 THEN 1 / (3 + g % 5)::numeric ^ 40"
    wide += " ELSE g END"
    run(f"INSERT INTO toasted {select(0.1, 600, overrides={'t': long, 'n': wide, 'v': long})}".encode())

    picks = {
        name: f"(%s::{'numeric' if name == 'n2' else COLUMNS[name]}[])[1 + (random() * %d)::integer]"
        % (f"'{values}'", values.count(","))
        for name, values in _EXTREME.items()
    }
    run(f"CREATE TABLE extreme ({columns})".encode())
    run(f"INSERT INTO extreme {select(0.1, 500, overrides=picks)}".encode())

    # partitions of partitions, with other orders of columns and dropped ones, one of them lazy, one empty
    run(f"CREATE TABLE parts ({columns}) PARTITION BY RANGE (id)".encode())
    run(b"CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (MINVALUE) TO (800)")
    other = ", ".join(f"{name} {COLUMNS[name]}" for name in reversed(list(COLUMNS)))
    run(f"CREATE TABLE parts_2 (gone text, {other}); ALTER TABLE parts_2 DROP gone".encode())
    run(b"ALTER TABLE parts ATTACH PARTITION parts_2 FOR VALUES FROM (800) TO (1600)")
    run(b"CREATE TABLE parts_3 PARTITION OF parts FOR VALUES FROM (1600) TO (9000) PARTITION BY LIST (b)")
    run(b"CREATE TABLE parts_3t PARTITION OF parts_3 FOR VALUES IN (true) USING lazy_heap")
    run(b"CREATE TABLE parts_3f PARTITION OF parts_3 DEFAULT")
    run(b"CREATE TABLE parts_4 PARTITION OF parts DEFAULT USING lazy_heap")
    run(f"INSERT INTO parts {select(0.1)}".encode())

    run(f"CREATE TABLE lazy ({columns}) USING lazy_heap; CREATE TABLE lazy_empty (LIKE lazy) USING lazy_heap".encode())
    run(f"INSERT INTO lazy {select(0.1, 800)}".encode())
    run(f"CREATE TABLE nothing ({columns})".encode())
    # few bytes a row, many rows a page
    run(f"CREATE TABLE narrow ({columns})".encode())
    run(b"INSERT INTO narrow (id, i2) SELECT g, g % 100 FROM generate_series(1, 5000) g")
    run(f"CREATE UNLOGGED TABLE scratch ({columns})".encode())
    run(f"INSERT INTO scratch {select(0.1, 400)}".encode())
    run(f"CREATE TABLE heirs ({columns}); CREATE TABLE heirs_1 () INHERITS (heirs)".encode())
    run(f"INSERT INTO heirs {select(0.1, 300)}; INSERT INTO heirs_1 {select(0.1, 300, 300)}".encode())
    run(f"CREATE TABLE busy ({columns}) WITH (fillfactor = 70); CREATE INDEX ON busy (id)".encode())
    run(f"INSERT INTO busy {select(0.1, 1500)}".encode())

    run(b"VACUUM (FREEZE, ANALYZE) plain, strict, scarce, toasted, parts, narrow, scratch")
    run(b"ANALYZE mixed, evolved, extreme, lazy, lazy_empty, nothing, heirs, busy")


@contextmanager
def unfinished(cluster: Cluster, database: str) -> Iterator[None]:
    """Have transactions in progress that insert, update, delete and lock rows of `mixed`, some rows by several."""
    with cluster.connect(database) as one, cluster.connect(database) as two:
        for conn in (one, two):
            conn.execute("SET search_path = v, public")
            conn.execute("BEGIN")
        one.execute(f"INSERT INTO mixed {select(0.1, 150, 30_000)}".encode())
        one.execute("UPDATE mixed SET i4 = 0, t = 'unfinished' WHERE id % 37 = 0")
        one.execute("DELETE FROM mixed WHERE id % 41 = 1")
        for conn in (one, two):
            conn.execute(
                "SELECT count(*) FROM (SELECT FROM mixed WHERE id % 43 = 2 AND id % 37 > 0 AND id % 41 <> 1"
                " FOR SHARE) x"
            )
        yield
        for conn in (one, two):
            conn.execute("ROLLBACK")


def write(conn: Connection, number: int) -> None:
    """One of a busy table's transactions."""
    match number % 7:
        case 0:
            conn.execute(f"INSERT INTO v.busy {select(0.1, 20, 5000 + number * 20)}".encode())
        case 1:
            values = "i4 = i4 %% 1000 + 1, n2 = n2 %% 1000 + 0.01"
            conn.execute(f"UPDATE v.busy SET {values} WHERE id %% 97 = %s".encode(), [number % 97])
        case 2:
            conn.execute("DELETE FROM v.busy WHERE id > 5000 AND id %% 3 = %s", [number % 3])
        case 3:
            conn.execute("BEGIN")
            conn.execute("UPDATE v.busy SET b = NOT b, t = 'aborted' WHERE id %% 53 = %s", [number % 53])
            conn.execute("ROLLBACK")
        case 4:
            conn.execute("VACUUM v.busy")
        case 5:
            conn.execute("BEGIN")
            locked = "SELECT FROM v.busy WHERE id %% 59 = %s FOR NO KEY UPDATE"
            conn.execute(f"SELECT count(*) FROM ({locked}) x".encode(), [number % 59])
            conn.execute("SAVEPOINT s")
            conn.execute("UPDATE v.busy SET ts = ts + interval '1 s' WHERE id %% 61 = %s", [number % 61])
            conn.execute("COMMIT")
        case 6:
            conn.execute("UPDATE v.busy SET i2 = i2 WHERE id %% 67 = %s", [number % 67])

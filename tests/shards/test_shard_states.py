"""States of every format, as a hostile shard might send them: what the validator accepts, core can take.

A long run: STATE_FUZZ_RUNS=10000000 [STATE_FUZZ_SEED=7] [PG_CONFIG=…] pytest tests/shards/test_shard_states.py. With a
server that was built with -fsanitize=address,undefined, the extension and the module are too.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness import servers
from harness.amount import Count
from pgbillion.common.connection import Connection
from pgbillion.server.postgres import Cluster, Installation

pytestmark = pytest.mark.majors

RUNS = int(os.environ.get("STATE_FUZZ_RUNS", "60000"))
SEED = int(os.environ.get("STATE_FUZZ_SEED", "1"))
MODULE = Path(__file__).with_name("state_fuzz")

NUMERIC = [
    "NULL", "0", "1", "-1.5", "0.000000000000000000000001", "1e30", "-1e-40", "'NaN'", "'Infinity'", "'-Infinity'",
    "123456789012345678901234567890.123456789", "1e300", "1e-300",
]  # fmt: skip
FLOATS = ["NULL", "0", "-1.5", "1e30", "'NaN'", "'Infinity'"]
INTEGERS = ["NULL", "0", "-1", "32767"]
TEXT = ["'a'", "''", "'Zoë €'", "repeat('x', 300)"]
# its arguments, with the first to be filled in, and values for that
AGGREGATES: dict[str, tuple[str, list[str]]] = {
    "sum(numeric)": ("{}::numeric", NUMERIC),
    "avg(numeric)": ("{}::numeric", NUMERIC),
    "stddev(numeric)": ("{}::numeric", NUMERIC),
    "var_pop(bigint)": ("{}::bigint", [*INTEGERS, "9223372036854775807"]),
    "sum(bigint)": ("{}::bigint", [*INTEGERS, "9223372036854775807", "'-9223372036854775808'"]),
    "avg(bigint)": ("{}::bigint", [*INTEGERS, "9223372036854775807", "10000"]),
    "stddev(integer)": ("{}::integer", [*INTEGERS, "2147483647"]),
    "var_samp(smallint)": ("{}::smallint", INTEGERS),
    "sum(interval)": ("{}::interval", ["NULL", "'1 mon -2 days 3:4:5.6'", "'0'", "'100000 years'"]),
    "avg(interval)": ("{}::interval", ["NULL", "'1 mon -2 days 3:4:5.6'", "'0'", "'100000 years'"]),
    "avg(integer)": ("{}::integer", INTEGERS),
    "avg(double precision)": ("{}::float8", FLOATS),
    "stddev(real)": ("{}::real", ["1", "-2.5", "'NaN'"]),
    "regr_r2(double precision, double precision)": ("{}::float8, 2::float8", FLOATS),
    "corr(double precision, double precision)": ("{}::float8, random()", FLOATS),
    "string_agg(text, text)": ("{}::text, ', €'", TEXT),
    "string_agg(bytea, bytea)": ("{}::bytea, '\\xff00'", ["'\\x'", "'\\x00ff'", "'\\x01020304'"]),
}
ELEMENTS = {
    "boolean": ["true", "false"],
    "smallint": INTEGERS,
    "integer": INTEGERS,
    "bigint": INTEGERS,
    "numeric": NUMERIC,
    "double precision": FLOATS,
    "date": ["'2001-02-03'", "'infinity'", "NULL", "'4713-01-01 BC'"],
    "time": ["'24:00'", "'1:2:3.4'"],
    "timestamp": ["'2001-02-03 4:5'", "'-infinity'", "NULL"],
    "timestamptz": ["'2001-02-03 4:5+06'", "NULL"],
    "money": ["1.5"],
    "uuid": ["'00112233-4455-6677-8899-aabbccddeeff'", "NULL"],
    "text": [*TEXT, "NULL"],
    "varchar": TEXT,
    "bpchar": TEXT,
    "json": ["'{\"a\": 1}'"],
    "bytea": ["'\\x'", "'\\x0001020304'", "NULL"],
}
# left to their types' receive functions
RECEIVED = {
    "interval": ["'1 mon'"],
    "jsonb": ['\'{"a": [1, null, "x"]}\''],
    "inet": ["'1.2.3.4/8'", "'::1'"],
    "int4range": ["'[1,2)'", "'empty'"],
    "int4multirange": ["'{[1,2),[5,6)}'"],
    "varbit": ["'101'", "''"],
    "point": ["'1,2'"],
    "path": ["'[(0,0),(1,1),(2,0)]'"],
    "box": ["'(0,0),(1,1)'"],
    "line": ["'{1,2,3}'"],
    "circle": ["'<(0,0),1>'"],
    "lseg": ["'(0,0),(1,1)'"],
    "macaddr": ["'08:00:2b:01:02:03'"],
    "macaddr8": ["'08:00:2b:01:02:03:04:05'"],
    "cidr": ["'10/8'"],
    "bit": ["'1'"],
    "tid": ["'(1,2)'"],
    "timetz": ["'1:2:3.4+05'"],
    "tstzrange": ["'[2001-02-03,)'", "'empty'"],
    "nummultirange": ["'{[1,2),[5,6.5)}'"],
    "polygon": ["'((0,0),(1,1),(2,0))'"],
    "name": ["'x'"],
}
for _type, _values in {**ELEMENTS, **RECEIVED}.items():
    AGGREGATES[f"array_agg({_type})"] = (f"{{}}::{_type}", _values)
for _type in ELEMENTS:
    AGGREGATES[f"array_agg({_type}[])"] = (f"ARRAY[{{0}}, {{0}}, NULL]::{_type}[]", ELEMENTS[_type])


@pytest.fixture(scope="module")
def fuzz(installation: Installation, cluster: Cluster, database: str) -> Iterator[Connection]:
    """The function state_fuzz(), and an aggregate raw.… for the states of core's aggregates as bytea."""
    with servers.temporary_folder() as folder:
        # a server may want bitcode, and so a compiler that is not here
        options = [f"PG_CONFIG={installation.source}", "with_llvm=no"]
        subprocess.run(["make", "-s", "-f", str(MODULE / "Makefile"), *options], cwd=folder, check=True)
        with cluster.connect(database) as conn:
            conn.execute(
                "CREATE FUNCTION state_fuzz(regprocedure, regtype, regtype, bytea[], bigint, bigint) RETURNS bigint[]"
                f" LANGUAGE c AS '{folder / 'state_fuzz.so'}'"
            )
            yield conn


def core_signature(name: str) -> str:
    if not name.startswith("array_agg"):
        return name
    return "array_agg(anyarray)" if "[]" in name else "array_agg(anynonarray)"


def make_raw(conn: Connection, signature: str) -> str | None:
    """Create the aggregate whose result is the state of this one; its result as bytea, None where it has no states."""
    row = conn.execute(
        "SELECT a.aggtransfn::regproc::text, a.aggtranstype::regtype::text, a.aggserialfn::regproc::text,"
        " a.aggdeserialfn::regproc::text, a.aggcombinefn::regproc::text, a.agginitval,"
        " pg_get_function_identity_arguments(a.aggfnoid) FROM pg_aggregate a WHERE a.aggfnoid = %s::regprocedure"
        " AND a.aggcombinefn <> 0",
        [signature],
    ).fetchone()
    if row is None:
        return None
    transition, kind, serial, _deserial, _combine, initial, arguments = row
    serialized = kind == "internal"
    if serial == "-" and (serialized or not kind.endswith("[]")):
        return None
    final = f", FINALFUNC = {serial}" if serialized else ""
    start = f", INITCOND = '{initial}'" if initial is not None else ""
    # polymorphic ones would else compete with others
    conn.execute("DROP SCHEMA IF EXISTS raw CASCADE; CREATE SCHEMA raw")
    conn.execute(f"CREATE AGGREGATE raw.state({arguments}) (SFUNC = {transition}, STYPE = {kind}{final}{start})")
    return "raw.state({})" if serialized else "array_send(raw.state({}))"


@pytest.mark.parametrize("name", AGGREGATES)
def test_states(fuzz: Connection, name: str, tell: Callable[[str], None], counted: Count) -> None:
    expression, values = AGGREGATES[name]
    raw = make_raw(fuzz, core_signature(name))
    if raw is None:
        pytest.skip("this major version has no such state")
    calls = [raw.format(expression.format(value)) for value in values]
    sources = [f"SELECT {call}" for call in calls]
    sources += [f"SELECT {calls[0]} FROM generate_series(1, 40)"]
    # all of the values in one state
    kind = name[name.index("(") + 1 :].split(",")[0].rstrip(")")
    listed = ", ".join(f"({value}::{kind.removesuffix('[]')})" for value in values)
    sources += [f"SELECT {raw.format(expression.format('v.x'))} FROM (VALUES {listed}) v (x)"]
    states = [state for source in sources if (state := servers.one(fuzz, source)) is not None]
    result = (kind if "[]" in name else f"{kind}[]") if name.startswith("array_agg") else None
    if result is None:
        result = servers.one(fuzz, "SELECT prorettype::regtype::text FROM pg_proc WHERE oid = %s::regprocedure", name)
    counts = servers.one(
        fuzz,
        "SELECT state_fuzz(%s::regprocedure, %s::regtype, %s::regtype, %s::bytea[], %s::bigint, %s::bigint)",
        core_signature(name), kind, result, states, SEED, RUNS // len(AGGREGATES) + 1,
    )  # fmt: skip
    refused, raised, finished = counts
    tell(f"{refused} refused, {raised} raised an error, {finished} finished")
    counted({"states": sum(counts), "refused": refused, "that PostgreSQL took to the end": finished})
    assert refused > 0
    assert finished > 0

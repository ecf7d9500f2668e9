"""`pgbillion rows columns`: what queries read, what is advised, and what is created, refreshed and shown."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from harness import servers
from harness.command_line import CommandLine, command_line, failed
from harness.servers import one, until
from pgbillion.common import quoting
from pgbillion.common.errors import UserError
from pgbillion.rows import columns, sizes, workload
from pgbillion.rows.workload import Query, Read
from pgbillion.server.postgres import Cluster, Installation

# a table with all kinds of columns, names that must be quoted, and one that was dropped
TABLE = """
CREATE SCHEMA "Shop";
CREATE DOMAIN "Shop".cents AS numeric(10,2);
CREATE TYPE "Shop".mood AS ENUM ('sad', 'glad');
CREATE TABLE "Shop"."Sales" (
    id bigint, gone int, day date, at timestamptz, kind text, city varchar(40), price "Shop".cents, weight float8,
    "Odd ""x.y" int, doc jsonb, body text, flag bool, key uuid, few int, loose numeric, mood "Shop".mood, "select" int);
ALTER TABLE "Shop"."Sales" DROP COLUMN gone;
INSERT INTO "Shop"."Sales"
SELECT i, date '2026-01-01' + i / 1000, timestamptz '2026-01-01' + i * interval '1 s', 'k' || i % 10,
       'city number ' || i % 3000, i % 100000 / 100.0, sqrt(i), i % 70000, jsonb_build_object('a', i, 'b', 'c'),
       (SELECT string_agg(md5((i * 1000 + n)::text), '')
          FROM generate_series(1, CASE WHEN i % 1000 = 0 THEN 200 END) n),
       i % 2 = 0, md5(i::text)::uuid, CASE WHEN i % 3 = 0 THEN i % 7 END, (i / 7.0)::numeric, 'glad', i
  FROM generate_series(1, {rows}) i;
CREATE INDEX ON "Shop"."Sales" (id);
CREATE INDEX ON "Shop"."Sales" (few);
CREATE VIEW "Shop".v AS SELECT day AS d, kind AS k, price * 2 AS twice, "Odd ""x.y" AS odd FROM "Shop"."Sales";
CREATE TABLE part (d int, k text, v int, w text) PARTITION BY RANGE (d);
CREATE TABLE part1 PARTITION OF part FOR VALUES FROM (0) TO (100);
CREATE TABLE part2 (w text, v int, k text, d int);
ALTER TABLE part ATTACH PARTITION part2 FOR VALUES FROM (100) TO (200);
INSERT INTO part SELECT i % 200, 'k' || i % 10, i, repeat('x', 30) FROM generate_series(1, 60000) i;
CREATE TABLE small AS SELECT i FROM generate_series(1, 9000) i;
"""
ROWS = 40_000
SALES = 'FROM "Shop"."Sales"'


def _fill(cli: CommandLine, rows: int = ROWS) -> None:
    with cli.connect() as conn:
        conn.execute(TABLE.format(rows=rows).encode())
        conn.execute("VACUUM ANALYZE")


@pytest.fixture(scope="module")
def shop(cluster: Cluster) -> Iterator[CommandLine]:
    """A database that the tests read only."""
    with servers.new_database(cluster, "shop") as database, command_line(cluster, database) as cli:
        _fill(cli)
        with cli.connect() as conn:
            conn.execute("CREATE EXTENSION IF NOT EXISTS pgbillion_rows")
        yield cli


@pytest.fixture
def cli(cluster: Cluster) -> Iterator[CommandLine]:
    with servers.new_database(cluster, "columns") as database, command_line(cluster, database) as cli:
        yield cli


def _advise(cli: CommandLine, *arguments: str) -> dict[str, Any]:
    values: dict[str, Any] = cli.json("rows", "columns", *arguments)["advice"]
    return values


READS: dict[str, list[tuple[str, set[str]]]] = {
    f"SELECT count(*) {SALES}": [("Sales", set())],
    f"SELECT s.kind, sum(s.price) AS weight {SALES} AS s (a, b) WHERE s.at > now() - interval '9 years' GROUP BY 1": [
        ("Sales", {"kind", "price", "at"})
    ],
    f'SELECT max("Odd ""x.y"), min("select") {SALES}': [("Sales", {'Odd "x.y', "select"})],
    f"SELECT max(weight) FROM (SELECT * {SALES}) AS all_of_it": [("Sales", {"weight"})],
    f"WITH w AS (SELECT *, few + 1 AS more {SALES}) SELECT sum(more) FILTER (WHERE flag) FROM w": [
        ("Sales", {"few", "flag"})
    ],
    "SELECT k, sum(twice) FROM \"Shop\".v WHERE d > '2026-01-09' GROUP BY k": [("Sales", {"kind", "price", "day"})],
    f"SELECT (SELECT max(weight) {SALES} WHERE kind = 'Sales.weight') , 'a.id'": [("Sales", {"weight", "kind"})],
    "SELECT k, sum(v) FROM part GROUP BY k": [("part1", {"k", "v"}), ("part2", {"k", "v"})],
    "SELECT sum(v) FROM part WHERE d < 50": [("part1", {"v", "d"})],
    # of which partitions rows come, nobody knows without the parameter
    "SELECT sum(v) FROM part WHERE d < $1": [("part1", {"v", "d"}), ("part2", {"v", "d"})],
    f"SELECT few, sum(weight) {SALES} GROUP BY ROLLUP (few)": [("Sales", {"few", "weight"})],
    f"SELECT sum(weight) {SALES} UNION ALL SELECT sum(v) FROM part WHERE d > 150": [
        ("Sales", {"weight"}),
        ("part2", {"v", "d"}),
    ],
    f"SELECT id {SALES} WHERE few = 3": [],
    # other indexes serve these: columns would be faster for the last only
    f"SELECT sum(weight) {SALES} WHERE id = 5": [],
    f"SELECT max(id) {SALES}": [],
    f"SELECT few, count(*) {SALES} GROUP BY 1": [("Sales", {"few"})],
    f"SELECT few, sum(weight) {SALES} WHERE kind = $1 AND few < $2 GROUP BY 1": [("Sales", {"few", "weight", "kind"})],
}


@pytest.mark.majors
@pytest.mark.parametrize("query", READS)
def test_what_a_query_reads_is_found(shop: CommandLine, query: str) -> None:
    with shop.connect() as conn:
        conn.execute("SELECT pgbillion_rows.version()")
        conn.execute("BEGIN READ ONLY")
        (planned,) = workload.plan(conn, [Query(query)], strict=True)
        conn.execute("ROLLBACK")
    assert sorted(planned.reads, key=lambda read: read.table) == [
        Read("Shop" if name == "Sales" else "public", name, frozenset(names)) for name, names in READS[query]
    ]
    assert (planned.reason == "") == bool(READS[query])


@pytest.mark.majors
def test_advice_for_several_queries(shop: CommandLine, tmp_path: Path) -> None:
    file = tmp_path / "queries.sql"
    file.write_text(
        f"-- two of one table; one index for both\nSELECT kind, sum(price) {SALES} GROUP BY 1;\n"
        f"SELECT kind, sum(weight) {SALES} WHERE city LIKE '%7;' GROUP BY 1;\n"
        f"SELECT count(body) {SALES}; SELECT sum(i) FROM small;\nSELECT id {SALES} WHERE id = 5;\n"
        "SELECT k, count(*) FROM part GROUP BY 1"
    )
    values = _advise(shop, "--file", str(file))
    sales, part = sorted(values["indexes"], key=lambda one: str(one["schema"]))
    assert (sales["schema"], sales["table"], sales["columns"]) == ("Shop", "Sales", ["kind", "city", "price", "weight"])
    assert (part["table"], part["columns"]) == ("part", ["k"])
    assert sales["create"] == 'CREATE INDEX ON "Shop"."Sales" USING columns (kind, city, price, weight)'
    assert sales["first"] is None
    assert sales["queries"] == sales["calls"] == 2
    assert 0 < sales["share"] < 0.5
    assert sales["sampled"] is True
    outcomes = [(one["where"], one["outcome"]) for one in values["queries"]]
    assert [outcome for _, outcome in outcomes[:2]] == ["advised"] * 2
    assert [place for place, _ in outcomes] == ["line 2", "line 3", "line 4", "line 4", "line 5", "line 6"]
    assert "values of body" in outcomes[2][1]
    assert outcomes[3][1] == "the table is small"
    assert "nothing to aggregate" in outcomes[4][1]
    # all that costs something is within a budget, the best first
    less = _advise(shop, "--file", str(file), "--budget", f"{sales['bytes'] // 1000}kB")
    assert 0 < less["bytes"] <= sales["bytes"] // 1000 * 1000
    assert any("the budget does not suffice" in one["outcome"] for one in less["queries"])
    # and people see the same
    told = shop.run("rows", "columns", "--file", str(file), check=True).stdout
    assert sales["create"] + ";" in told
    assert "2 indexes advised" in told
    # nothing was made
    with shop.connect() as conn:
        assert columns.indexes(conn) == []


def test_a_query_of_too_many_columns(cli: CommandLine) -> None:
    names = [f"c{number}" for number in range(33)]
    with cli.connect() as conn:
        conn.execute(f"CREATE TABLE wide AS SELECT {', '.join(f'i AS {name}' for name in names)}"
                     ", repeat('x', 500) AS more FROM generate_series(1, 5000) i".encode())  # fmt: skip
        conn.execute("VACUUM ANALYZE wide")
    most = f"SELECT {', '.join(f'sum({name})' for name in names[:32])} FROM wide"
    values = _advise(cli, f"SELECT {', '.join(f'sum({name})' for name in names)} FROM wide; {most}")
    assert [len(one["columns"]) for one in values["indexes"]] == [32]
    assert [one["outcome"] for one in values["queries"]] == [
        "it needs 33 columns of public.wide, and an index has at most 32",
        "advised",
    ]
    # what goes with it into one index would be too many: a second index
    values = _advise(cli, f"{most}; SELECT sum(c32) FROM wide")
    assert sorted(len(one["columns"]) for one in values["indexes"]) == [1, 32]


def test_indexes_that_are_there(cli: CommandLine) -> None:
    _fill(cli, 20_000)
    queries = f"SELECT kind, sum(price) {SALES} GROUP BY 1; SELECT kind, sum(weight) {SALES} GROUP BY 1"
    first = cli.json("rows", "columns", queries.split(";")[0], "--create")
    assert first["created"] == ['"Shop"."Sales_columns"']
    values = _advise(cli, queries)
    assert values["queries"][0]["outcome"] == '"Shop"."Sales_columns" has its columns'
    (wider,) = values["indexes"]
    assert wider["columns"] == ["kind", "price", "weight"]
    assert wider["replaces"] == ['"Shop"."Sales_columns"']
    assert wider["afterwards"] == ['DROP INDEX CONCURRENTLY "Shop"."Sales_columns"']
    # what is there takes no room
    with cli.connect() as conn:
        there = one(conn, 'SELECT pg_relation_size(\'"Shop"."Sales_columns"\')')
    assert _advise(cli, queries, "--budget", str(wider["bytes"] - there))["indexes"] == [wider]
    done = cli.run("rows", "columns", queries, "--create", "--concurrently", "--status", check=True)
    assert '"Shop"."Sales_columns" is no longer needed: DROP INDEX CONCURRENTLY' in done.stderr
    assert '"Shop"."Sales_columns2"' in done.stdout
    assert _advise(cli, queries)["indexes"] == []
    with cli.connect() as conn:
        readable = (
            'SELECT readable_blocks = table_blocks FROM pgbillion_rows.columns_status(\'"Shop"."Sales_columns2"\')'
        )
        assert one(conn, readable)


def test_an_index_with_expressions_stays(cli: CommandLine) -> None:
    """No index without them is proposed in its place, although that would have its columns."""
    _fill(cli, 20_000)
    with cli.connect() as conn:
        conn.execute("CREATE EXTENSION IF NOT EXISTS pgbillion_rows")
        conn.execute('CREATE INDEX expressions ON "Shop"."Sales" USING columns (kind, (doc ->> \'a\'))')
        conn.execute('CREATE INDEX only_one ON "Shop"."Sales" USING columns (("few" + 1))')
    (made,) = _advise(cli, f"SELECT kind, sum(price) {SALES} GROUP BY 1")["indexes"]
    assert made["columns"] == ["kind", "price"]
    assert made["replaces"] == []
    assert made["afterwards"] == []
    shown = [status["columns"] for status in cli.json("rows", "columns", "--status")["status"]]
    assert shown == [["kind", "(doc ->> 'a'::text)"], ["(few + 1)"]]


@pytest.mark.majors
def test_partitions_are_indexed_together(cli: CommandLine) -> None:
    _fill(cli, 1000)
    query = "SELECT k, sum(v) FROM part WHERE d < 50 GROUP BY 1"
    (advised,) = _advise(cli, query)["indexes"]
    assert advised["create"] == "CREATE INDEX ON public.part USING columns (d, k, v)"
    made = cli.json("rows", "columns", query, "--create", "--concurrently")["created"]
    assert made == ["public.part1_columns", "public.part2_columns"]
    again = _advise(cli, query)
    assert (again["indexes"], again["queries"][0]["outcome"]) == (
        [],
        "indexes of the partitions of public.part have its columns",
    )
    with cli.connect() as conn:
        conn.execute("DROP INDEX part1_columns, part2_columns")
    values = cli.json("rows", "columns", query, "--create", "--status")
    assert values["created"] == ["public.part_columns"]
    assert [(status["table"], status["readable_share"]) for status in values["status"]] == [
        ("public.part1", 1.0),
        ("public.part2", 1.0),
    ]
    assert "public.part_columns has its columns" in _advise(cli, query)["queries"][0]["outcome"]


def test_what_changes_all_the_time_is_not_advised(cli: CommandLine) -> None:
    _fill(cli, 20_000)
    query = f"SELECT kind, sum(price) {SALES} GROUP BY 1"
    with cli.connect() as conn:
        conn.execute('UPDATE "Shop"."Sales" SET price = price + 1')
        changed = "SELECT n_tup_upd >= 20000 FROM pg_stat_user_tables WHERE relname = 'Sales'"
        until(lambda: one(conn, changed), "the statistics")
    values = _advise(cli, query)
    assert values["indexes"] == []
    assert '"Shop"."Sales" changes too much: 20,000 updates' in values["queries"][0]["outcome"]


def test_a_table_without_vacuum_says_so_first(cli: CommandLine) -> None:
    _fill(cli, 20_000)
    with cli.connect() as conn:
        conn.execute(
            "CREATE TABLE \"Fresh\" AS SELECT i, i % 5 AS g, repeat('x', 90) AS x FROM generate_series(1, 20000) i"
        )
        conn.execute('ANALYZE "Fresh"')
        scans_do = conn.info.server_version >= 190000
    query = 'SELECT g, sum(i) FROM "Fresh" GROUP BY 1'
    done = cli.run("rows", "columns", query, "--create", "--status", check=True)
    assert 'VACUUM public."Fresh";  -- first: 0% of its blocks are all-visible' in done.stdout
    # the advice has run the query, by which 19 sets pages all-visible
    assert ("holds 0 of the" in done.stderr) is not scans_do
    assert "CALL pgbillion_rows.columns_refresh('public.\"Fresh\"')" in done.stdout
    done = cli.run("rows", "columns", "--refresh", "--table", '"Fresh"', check=True)
    assert 'VACUUM public."Fresh"' in done.stderr
    (status,) = cli.json("rows", "columns", "--status", "-t", '"Fresh"')["status"]
    assert (status["readable_share"], status["advice"]) == (1.0, "")
    assert 0 < status["bytes_share"] < 0.3


@pytest.mark.majors
def test_estimates_are_near_the_sizes(cli: CommandLine) -> None:
    _fill(cli, 60_000)
    with cli.connect() as conn:
        oid = one(conn, 'SELECT \'"Shop"."Sales"\'::regclass::oid::int8')
        blocks, rows = conn.execute(
            "SELECT pg_relation_size(oid) / 8192, reltuples FROM pg_class WHERE relname = 'Sales'"
        ).fetchall()[0]
        known = sizes.columns_of(conn, oid)
        assert "gone" not in [column.name for column in known]
        piece = sizes.Piece(oid, "Shop", "Sales", blocks, rows / blocks)
        with conn.transaction():
            estimate = sizes.estimate(conn, [piece], known)
        assert estimate.absent == {"body"}
        assert estimate.sampled
        conn.execute("CREATE EXTENSION IF NOT EXISTS pgbillion_rows")
        for column in known:
            if column.name == "body":
                continue
            made = columns.create(conn, "Shop", "Sales", [column.name], concurrently=False, say=lambda line: None)
            real = one(conn, f"SELECT pg_relation_size('{made.name}')")
            guess = estimate.bytes_of([column.name])
            assert guess >= 0.8 * real - 8 * 8192, (column, guess, real)
            # by tokens these take less, which the estimate leaves out
            if column.name not in ("city", "doc", "loose"):
                assert guess <= 1.2 * real + 8 * 8192, (column, guess, real)


def test_a_segment_s_head_is_as_long_as_the_library_s() -> None:
    header = (Path(__file__).parents[2] / "extensions/pgbillion_rows/src/column_index/store.h").read_text()
    bytes_of = {"uint8": 1, "uint32": 4, "int32": 4, "int64": 8, "pg_crc32c": 4, "ColumnKind": 1, "ColumnOrder": 1}
    for struct, length in (("SegmentHead", sizes._HEAD), ("StoredColumn", sizes._STORED_COLUMN)):
        found = re.search(r"typedef struct " + struct + r"\n\{(.*?)\n\} " + struct, header, re.DOTALL)
        assert found
        # of a union, the first of its fields
        fields = re.findall(r"^\t(?:union\n\t\{\n\t\t)?(\w+)\s+\w+;", found[1], re.MULTILINE)
        assert sum(bytes_of[field] for field in fields) == length


def test_without_looking_at_rows_types_must_do(cli: CommandLine) -> None:
    _fill(cli, 20_000)
    with cli.connect() as conn:
        conn.execute("CREATE EXTENSION IF NOT EXISTS pgbillion_rows")
        conn.execute(
            'CREATE ROLE clerk LOGIN; GRANT USAGE ON SCHEMA "Shop", pgbillion_rows TO clerk;'
            'GRANT SELECT ON "Shop".v TO clerk'
        )
    try:
        values = _advise(cli, "-U", "clerk", 'SELECT k, sum(twice) FROM "Shop".v GROUP BY 1')
        (advised,) = values["indexes"]
        assert (advised["columns"], advised["sampled"]) == (["kind", "price"], False)
        assert "estimated from types" in advised["notes"][0]
    finally:
        with cli.connect() as conn:
            conn.execute("DROP OWNED BY clerk; DROP ROLE clerk")


def test_nothing_of_a_file_is_run(cli: CommandLine, tmp_path: Path) -> None:
    _fill(cli, 1000)
    file = tmp_path / "bad.sql"
    file.write_text("SELECT 1;\nDELETE FROM small")
    failed(cli.run("rows", "columns", "--file", str(file)), 1, "line 2: DELETE FROM small is not a query", "SELECT")
    for text, line in (
        ("EXPLAIN ANALYZE SELECT count(*) FROM small", 1),
        ("/* x\n */ -- y\nSET ROLE nobody", 3),
        ("SELECT 1;\n\n\\gexec", 3),
    ):
        with pytest.raises(UserError, match=f"line {line}: "):
            workload.of_text(text, "the text")
    # one message, one statement: what splitting would have missed cannot come along
    with cli.connect() as conn:
        conn.execute("CREATE EXTENSION IF NOT EXISTS pgbillion_rows")
        conn.execute("BEGIN READ ONLY")
        (planned,) = workload.plan(conn, [Query("SELECT 1; COMMIT; DELETE FROM small")], strict=False)
        conn.execute("COMMIT")
        assert "multiple commands" in planned.reason
        assert one(conn, "SELECT count(*) FROM small") == 9000
    file.write_text("WITH gone AS (DELETE FROM small RETURNING i) SELECT count(*) FROM gone")
    cli.run("rows", "columns", "--file", str(file), check=True)
    with cli.connect() as conn:
        assert one(conn, "SELECT count(*) FROM small") == 9000


@pytest.mark.parametrize(
    ("arguments", "error", "hint"),
    [
        ((), "there is nothing to advise on", "give a query"),
        (("SELECT 1", "--statements"), "exclude each other", "give one"),
        (("--create",), "--create creates what is advised", "give a query"),
        (("SELECT 1", "--concurrently"), "--concurrently is for --create", "add --create"),
        (("SELECT 1", "--all-roles"), "--all-roles is for --statements", "add --statements"),
        (("SELECT 1", "--budget", "much"), '"much" is not a number of bytes', "10GB"),
        (("--status",), "there is no columnar index", "CREATE INDEX"),
        (("--refresh", "--table", "nowhere"), 'there is no table "nowhere"', "--table"),
        (("--file", "/nonexistent/file"), "/nonexistent/file cannot be read", "--file"),
        (("--statements",), "does not have the extension pg_stat_statements", "shared_preload_libraries"),
        (("   -- nothing",), "the query has no query", "SELECT"),
    ],
)
def test_bad_input(shop: CommandLine, arguments: tuple[str, ...], error: str, hint: str) -> None:
    failed(shop.run("rows", "columns", *arguments), 1, error, hint)


def test_a_query_that_the_server_refuses(shop: CommandLine, tmp_path: Path) -> None:
    done = shop.run("rows", "columns", "SELECT nothing FROM nowhere")
    assert done.returncode == 3
    assert 'error: relation "nowhere" does not exist' in done.stderr
    file = tmp_path / "queries.sql"
    file.write_text(f"SELECT x FROM nowhere; SELECT sum(weight) {SALES}")
    values = _advise(shop, "--file", str(file))
    assert [one["outcome"] for one in values["queries"]] == [
        'the server refuses to plan it: relation "nowhere" does not exist',
        "advised",
    ]


def test_statements_that_nothing_counts(shop: CommandLine) -> None:
    with shop.connect() as conn:
        try:
            conn.execute("CREATE EXTENSION pg_stat_statements")
        except psycopg.errors.FeatureNotSupported:
            pytest.skip("this PostgreSQL has no contrib")
        failed(shop.run("rows", "columns", "--statements"), 3, "its library is not loaded", "restart the server")
        conn.execute("DROP EXTENSION pg_stat_statements")


@pytest.fixture(scope="module")
def counted(installation: Installation) -> Iterator[CommandLine]:
    """A server that counts statements."""
    if not (installation.sharedir / "extension" / "pg_stat_statements.control").exists():
        pytest.skip("this PostgreSQL has no contrib")
    settings = {"shared_preload_libraries": "pg_stat_statements"}
    with (
        servers.new_cluster(installation, settings) as cluster,
        servers.new_database(cluster, "counted") as database,
        command_line(cluster, database) as cli,
    ):
        _fill(cli, 20_000)
        yield cli


@pytest.mark.majors
def test_queries_that_were_counted(counted: CommandLine) -> None:
    with counted.connect() as conn:
        # wherever it is
        conn.execute('CREATE SCHEMA "St"; CREATE EXTENSION pg_stat_statements SCHEMA "St"; CREATE ROLE clerk LOGIN')
        conn.execute(
            'CREATE SCHEMA trap; GRANT ALL ON SCHEMA trap, "Shop" TO clerk; GRANT SELECT ON "Shop"."Sales" TO clerk'
        )
        for price in (5, 7):
            conn.execute(f"SELECT kind, sum(price) {SALES} WHERE price < {price} GROUP BY 1".encode())
        conn.execute(f"SELECT id {SALES} WHERE id = 5".encode())
        conn.execute("INSERT INTO small VALUES (1)")
        # planning this one runs what another role has made
        conn.execute("SET SESSION AUTHORIZATION clerk")
        conn.execute(
            "CREATE FUNCTION trap.f() RETURNS int IMMUTABLE LANGUAGE plpgsql AS"
            " $$BEGIN RAISE 'planned by %', current_user; END$$"
        )
        with pytest.raises(psycopg.errors.RaiseException, match="planned by clerk"):
            conn.execute(f"SELECT sum(weight) {SALES} WHERE few = trap.f()".encode())
        conn.execute(f"SELECT sum(weight) {SALES} WHERE few = 3".encode())
        conn.execute("RESET SESSION AUTHORIZATION")
        conn.execute(
            "CREATE ROLE reader LOGIN; GRANT pg_read_all_stats TO reader;"
            'GRANT USAGE ON SCHEMA "St", "Shop", pgbillion_rows TO reader; GRANT SELECT ON "Shop"."Sales" TO reader'
        )
    # those of the clerk are planned as the clerk
    done = counted.json("rows", "columns", "--statements")["advice"]
    (advised,) = done["indexes"]
    assert (advised["columns"], advised["calls"]) == (["kind", "price", "weight", "few"], 3)
    assert (done["others_left_out"], done["superusers_left_out"], done["hidden"]) == (0, 0, 0)
    outcomes = {one["query"]: one for one in done["queries"]}
    sums = f"SELECT kind, sum(price) {SALES} WHERE price < $1 GROUP BY 1"
    assert (outcomes[sums]["calls"], outcomes[sums]["outcome"]) == (2, "advised")
    assert not any("INSERT" in query for query in outcomes)
    assert advised["reasons"][0] == {"query": sums, "calls": 2}
    # and by nobody else
    reader = ("--statements", "-U", "reader")
    done = _advise(counted, *reader)
    (advised,) = done["indexes"]
    assert (advised["columns"], advised["calls"], done["others_left_out"]) == (["kind", "price"], 2, 1)
    assert advised["may_create"] is False
    assert not any("sum(weight)" in one["query"] for one in done["queries"])
    shown = counted.run("rows", "columns", *reader, check=True).stdout
    assert "1 of other roles left out" in shown
    assert "-- for SELECT kind, sum(price)" in shown
    assert "-- estimated: to create it reads" in shown
    assert 'only the owner of "Shop"."Sales"' in shown
    (advised,) = _advise(counted, *reader, "--all-roles")["indexes"]
    assert advised["columns"] == ["kind", "price", "weight", "few"]
    with counted.connect() as conn:
        conn.execute("REVOKE pg_read_all_stats FROM reader")
    assert _advise(counted, *reader)["hidden"] > 0
    assert "GRANT pg_read_all_stats" in counted.run("rows", "columns", *reader, check=True).stdout
    with counted.connect() as conn:
        conn.execute('REVOKE USAGE ON SCHEMA "St" FROM reader')
    failed(counted.run("rows", "columns", *reader), 3, "role reader may not read", "pg_read_all_stats")
    with counted.connect() as conn:
        conn.execute("DROP OWNED BY clerk; DROP ROLE clerk; DROP OWNED BY reader; DROP ROLE reader")


def test_ctrl_c_leaves_no_index(cli: CommandLine) -> None:
    _fill(cli, 20_000)
    query = f"SELECT kind, sum(price) {SALES} GROUP BY 1"
    cli.run("rows", "columns", query, check=True)
    with cli.connect() as conn, cli.connect() as other:
        # what a concurrent build waits for, but not what removes an index
        other.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1")
        with cli.started("rows", "columns", query, "--create", "--concurrently") as process:
            there = "SELECT count(*) = 1 FROM pg_index WHERE NOT indisvalid"
            waits = (
                "SELECT count(*) = 1 FROM pg_stat_activity WHERE query LIKE 'CREATE I%' AND wait_event_type = 'Lock'"
            )
            until(lambda: one(conn, there) and one(conn, waits), "the build to wait")
            process.send_signal(signal.SIGINT)
            _, stderr = process.communicate(timeout=60)
        assert process.returncode == 130, stderr
        assert one(conn, "SELECT count(*) = 0 FROM pg_index WHERE NOT indisvalid"), stderr
        assert columns.indexes(conn) == []
        assert "remove it with" not in stderr


def test_an_index_that_cannot_be_removed_is_named(cli: CommandLine) -> None:
    _fill(cli, 20_000)
    query = f"SELECT kind, sum(price) {SALES} GROUP BY 1"
    cli.run("rows", "columns", query, check=True)
    with cli.connect() as conn, cli.connect() as other:
        with cli.started("rows", "columns", query, "--create", "--concurrently") as process:
            # holds up the build, and what would remove its index
            other.execute('BEGIN; LOCK TABLE "Shop"."Sales" IN ROW EXCLUSIVE MODE')
            there = "SELECT count(*) = 1 FROM pg_index WHERE NOT indisvalid"
            until(lambda: process.poll() is not None or one(conn, there), "the build to wait")
            process.send_signal(signal.SIGINT)
            _, stderr = process.communicate(timeout=60)
        other.execute("ROLLBACK")
        assert process.returncode == 130, stderr
        drop = 'DROP INDEX CONCURRENTLY "Shop"."Sales_columns"'
        assert f"remove it with: {drop}" in stderr
        told = cli.run("rows", "columns", "--status", check=True).stdout
        assert f"not valid, as an interrupted build leaves it: {drop}" in told
        conn.execute(drop.encode())
        assert columns.indexes(conn) == []


@pytest.mark.majors
def test_names_are_quoted_as_the_server_does(shop: CommandLine) -> None:
    with shop.connect() as conn:
        words = {word for (word,) in conn.execute("SELECT word FROM pg_get_keywords() WHERE catcode <> 'U'").fetchall()}
        assert words <= quoting.KEYWORDS
        for name in ("plain", "with_1", "Upper", "1st", "_x", "a b", 'q"q', "ünï", "table", "x.y", "", "$1", "a$"):
            (theirs,) = conn.execute("SELECT quote_ident(%s)", [name]).fetchone() or ("",)
            assert quoting.quoted(name) == theirs, name


def test_long_names_stay_in_their_bounds(cli: CommandLine) -> None:
    name = "ü" * 30 + "abc"
    with cli.connect() as conn:
        conn.execute("CREATE EXTENSION IF NOT EXISTS pgbillion_rows")
        conn.execute(f'CREATE TABLE "{name}" AS SELECT i FROM generate_series(1, 10) i'.encode())
        made = [columns.create(conn, "public", name, ["i"], concurrently=False, say=print).name for _ in range(3)]
        assert made == [
            f'public."{"ü" * 27}_columns"',
            f'public."{"ü" * 27}_columns2"',
            f'public."{"ü" * 27}_columns3"',
        ]
        assert [index.name for index in columns.indexes(conn)] == [f"{'ü' * 27}_columns{end}" for end in ("", "2", "3")]


def test_sizes_are_read() -> None:
    from pgbillion.cli.rows_columns import parse_size

    assert [parse_size(given) for given in ("0", "1kB", "1.5 MB", "10GB", "2T")] == [
        0, 1000, 1_500_000, 10 * 10**9, 2 * 10**12,
    ]  # fmt: skip

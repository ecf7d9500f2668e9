"""`pgbillion rows load`, `aggregate` and `scale`, and what they compare answers with."""

from __future__ import annotations

import json
import re
import signal
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import servers
from harness.command_line import CommandLine, command_line, failed
from harness.servers import one, until
from pgbillion.common.host import Host
from pgbillion.rows import generate, load
from pgbillion.rows.answers import FLOAT4, FLOAT8, PARALLEL, Answer, Row, difference
from pgbillion.server.postgres import Cluster

ROWS = 120_000
LOAD = ("rows", "load", "--count", str(ROWS), "--groups", "7")


@pytest.fixture
def cli(cluster: Cluster) -> Iterator[CommandLine]:
    with servers.new_database(cluster, "rows") as database, command_line(cluster, database) as cli:
        yield cli


@pytest.mark.quick
def test_load_makes_the_sources_table(cli: CommandLine) -> None:
    with cli.connect() as conn:
        # as on the embedded server
        conn.execute("ALTER DATABASE rows SET synchronous_commit = off")
    values = cli.json(*LOAD, "--jobs", "3", "--seed", "5")
    assert (values["rows"], values["groups"], values["seed"]) == (ROWS, 7, 5)
    assert values["rows_per_second"] > 0
    with cli.connect() as conn:
        described = conn.execute(
            "SELECT attname, format_type(atttypid, atttypmod), attnotnull, pg_get_expr(adbin, adrelid)"
            " FROM pg_attribute LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum"
            " WHERE attrelid = 't_demo'::regclass AND attnum > 0 ORDER BY attnum"
        ).fetchall()
        assert described == [
            ("id", "integer", True, "nextval('t_demo_id_seq'::regclass)"),
            ("grp", "integer", False, None),
            ("data", "real", False, None),
        ]
        indexes = conn.execute("SELECT indexdef FROM pg_indexes WHERE tablename = 't_demo'").fetchall()
        assert indexes == [("CREATE INDEX idx_id ON public.t_demo USING btree (id)",)]
        assert one(conn, "SELECT count(DISTINCT id) FROM t_demo WHERE id BETWEEN 1 AND %s", ROWS) == ROWS
        assert one(conn, "SELECT count(*) FROM t_demo WHERE grp <> id % 7") == 0
        assert one(conn, "SELECT count(*) FROM t_demo WHERE data >= 0 AND data < 1") == ROWS
        # uniform, whichever block it is
        assert one(
            conn, "SELECT max(abs(a - 0.5)) < 0.02 FROM (SELECT avg(data) a FROM t_demo GROUP BY (id - 1) / 20000) x"
        )
        assert one(conn, "INSERT INTO t_demo DEFAULT VALUES RETURNING id") == ROWS + 1
        # all pages with rows; the sessions may have added some that they did not use
        used = one(conn, "SELECT count(DISTINCT (ctid::text::point)[0]) FROM t_demo WHERE grp IS NOT NULL")
        assert one(conn, "SELECT relallvisible FROM pg_class WHERE oid = 't_demo'::regclass") == used
        first = one(conn, "SELECT md5(string_agg(t::text, ',' ORDER BY id)) FROM t_demo t WHERE grp IS NOT NULL")
    # the same data by another number of workers
    cli.run(*LOAD, "--jobs", "1", "--seed", "5", "--replace", check=True)
    with cli.connect() as conn:
        assert one(conn, "SELECT md5(string_agg(t::text, ',' ORDER BY id)) FROM t_demo t") == first
        assert one(conn, "SELECT count(DISTINCT grp) FROM t_demo") == 7


def test_another_table_and_more_workers_than_blocks(cli: CommandLine) -> None:
    done = cli.run("rows", "load", "--count", "3", "--table", 'odd "one', "--jobs", "9", check=True)
    assert 'copied into odd "one' in done.stdout
    with cli.connect() as conn:
        assert conn.execute('SELECT id, grp FROM "odd ""one" ORDER BY id').fetchall() == [(1, 1), (2, 2), (3, 3)]
        assert one(conn, "SELECT count(*) FROM pg_indexes WHERE tablename = 'odd \"one'") == 1
    values = cli.json("rows", "aggregate", "--table", 'odd "one', "--rounds", "1")
    assert values["rows"] == 3


@pytest.mark.parametrize(
    ("arguments", "error", "hint"),
    [
        (("--count", "x"), '"x" is not a number of rows', "examples"),
        (("--count", "3G"), "1 to 2,147,483,647 rows", None),
        (("--count", "0"), "1 to 2,147,483,647 rows", None),
        (("--count", "10", "--groups", "0"), "1 to 2,147,483,647 groups", None),
        (("--count", "10", "--jobs", "0"), "--jobs", None),
    ],
)
def test_arguments_of_load(cli: CommandLine, arguments: tuple[str, ...], error: str, hint: str | None) -> None:
    done = cli.run("rows", "load", *arguments)
    assert done.returncode == 1, done.stderr
    assert error in done.stderr.splitlines()[0]
    assert hint is None or hint in done.stderr
    with cli.connect() as conn:
        assert one(conn, "SELECT count(*) FROM pg_class WHERE relname = 't_demo'") == 0


def test_what_is_there_is_not_overwritten(cli: CommandLine) -> None:
    with cli.connect() as conn:
        conn.execute("CREATE TABLE t_demo AS SELECT 1 AS mine")
        failed(cli.run(*LOAD), 1, 'a table "t_demo" exists already', "--replace")
        assert one(conn, "SELECT mine FROM t_demo") == 1


def test_a_load_that_fails_leaves_nothing(cli: CommandLine) -> None:
    with cli.connect() as conn:
        # a session's share fails when it is nearly through, on any of them
        conn.execute(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN IF new.id = 110000 THEN"
            " RAISE 'no more of this'; END IF; RETURN new; END$$;"
            "CREATE FUNCTION attach() RETURNS event_trigger LANGUAGE plpgsql AS $$DECLARE made text; BEGIN"
            " FOR made IN SELECT object_identity FROM pg_event_trigger_ddl_commands() WHERE object_type = 'table' LOOP"
            " EXECUTE format('CREATE TRIGGER refuse BEFORE INSERT ON %s FOR EACH ROW EXECUTE FUNCTION public.refuse()',"
            " made); END LOOP; END$$;"
            "CREATE EVENT TRIGGER attach ON ddl_command_end WHEN TAG IN ('CREATE TABLE') EXECUTE FUNCTION attach()"
        )
        done = cli.run(*LOAD, "--jobs", "2")
        assert done.returncode == 3, done.stderr
        assert "error: no more of this" in done.stderr
        assert one(conn, "SELECT count(*) FROM pg_class WHERE relname LIKE 't_demo%' OR relname = 'idx_id'") == 0


def test_ctrl_c_leaves_nothing(cli: CommandLine) -> None:
    with cli.connect() as conn, cli.started("rows", "load", "--count", "50M", "--jobs", "2") as process:
        copying = "SELECT count(*) = 2 FROM pg_stat_progress_copy WHERE tuples_processed > 0"
        until(lambda: one(conn, copying), "both sessions to copy")
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=60)
        assert process.returncode == 130, stderr
        assert "error: interrupted" in stderr
        assert one(conn, "SELECT count(*) FROM pg_class WHERE relname = 't_demo'") == 0
        until(lambda: one(conn, "SELECT count(*) = 0 FROM pg_stat_progress_copy"), "the sessions to be gone")


OLD = (
    "CREATE TABLE t_demo (mine int PRIMARY KEY, grp int);"
    "INSERT INTO t_demo SELECT i, i % 3 FROM generate_series(1, 900) i;"
    "COMMENT ON TABLE t_demo IS 'ours'; GRANT SELECT ON t_demo TO pg_monitor;"
    "CREATE EXTENSION IF NOT EXISTS pgbillion_rows; CREATE INDEX the_columns ON t_demo USING columns (grp)"
)
RELATIONS = (
    "SELECT relname, relkind, obj_description(oid, 'pg_class'), relacl::text FROM pg_class"
    " WHERE relnamespace = 'public'::regnamespace ORDER BY 1"
)
REPLACE = ("rows", "load", "--count", "50M", "--jobs", "2", "--replace")
COPYING = "SELECT count(*) = 2 FROM pg_stat_progress_copy WHERE tuples_processed > 0"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_replacement_that_is_ended_leaves_the_old_table(cli: CommandLine, number: signal.Signals) -> None:
    with cli.connect() as conn:
        conn.execute(OLD)
        before = conn.execute(RELATIONS).fetchall()
        with cli.started(*REPLACE) as process:
            until(lambda: one(conn, COPYING), "both sessions to copy")
            # nobody waits for it
            assert one(conn, "SELECT sum(mine) FROM t_demo") == 405450
            failed(cli.run(*LOAD, "--replace"), 3, 'another load of the table "t_demo" is running', "wait for it")
            process.send_signal(number)
            process.communicate(timeout=60)
        until(lambda: one(conn, "SELECT count(*) = 0 FROM pg_stat_progress_copy"), "the sessions to be gone")
        assert one(conn, "SELECT sum(mine) FROM t_demo") == 405450
        after = conn.execute(RELATIONS).fetchall()
        if number == signal.SIGINT:
            assert after == before
        assert [found for found in after if "_loading_" not in found[0]] == before
        # what was left is removed by the next one
        cli.run(*LOAD, "--replace", check=True)
        assert conn.execute(RELATIONS).fetchall() == [
            ("idx_id", "i", None, None),
            ("t_demo", "r", None, None),
            ("t_demo_id_seq", "S", None, None),
        ]
        assert one(conn, "SELECT count(*) FROM t_demo") == ROWS
        assert one(conn, "SELECT nextval(pg_get_serial_sequence('t_demo', 'id'))") == ROWS + 1
        assert one(conn, "SELECT count(*) FROM pg_type WHERE typname IN ('t_demo', '_t_demo')") == 2
        constraints = [] if conn.info.server_version < 180000 else [("t_demo_id_not_null",)]
        assert conn.execute("SELECT conname FROM pg_constraint WHERE conrelid = 't_demo'::regclass").fetchall() == (
            constraints
        )


def test_a_replacement_that_cannot_be_is_refused_before_rows_are_copied(cli: CommandLine) -> None:
    with cli.connect() as conn:
        conn.execute(OLD)
        conn.execute("CREATE VIEW needs_it AS SELECT mine FROM t_demo")
        before = conn.execute(RELATIONS).fetchall()
        done = cli.run("rows", "load", "--count", "2M", "--replace")
        failed(done, 3, "cannot be replaced: view public.needs_it depends on table public.t_demo", "drop what depends")
        assert "indexing" not in done.stderr
        assert conn.execute(RELATIONS).fetchall() == before
        conn.execute("DROP VIEW needs_it; CREATE TABLE idx_id (i int)")
        before = conn.execute(RELATIONS).fetchall()
        failed(cli.run(*LOAD, "--replace"), 1, 'a relation "idx_id" exists already', "rename that relation")
        assert conn.execute(RELATIONS).fetchall() == before


def test_what_comes_to_depend_on_the_old_table_keeps_it(cli: CommandLine) -> None:
    with cli.connect() as conn:
        conn.execute(OLD)
        with cli.started("rows", "load", "--count", "3M", "--jobs", "2", "--replace") as process:
            until(lambda: one(conn, COPYING), "both sessions to copy")
            conn.execute("CREATE VIEW needs_it AS SELECT mine FROM t_demo")
            before = conn.execute(RELATIONS).fetchall()
            _, stderr = process.communicate(timeout=120)
        assert process.returncode == 3, stderr
        assert "view public.needs_it depends on table public.t_demo" in stderr
        assert [found for found in before if "_loading_" not in found[0]] == conn.execute(RELATIONS).fetchall()
        assert one(conn, "SELECT sum(mine) FROM t_demo") == 405450


def test_names_beside_which_others_are(cli: CommandLine) -> None:
    """Where a name that PostgreSQL would choose is taken it chooses another, for what is replaced as well."""
    table = "ü" * 31
    with cli.connect() as conn:
        for _ in range(2):
            cli.run("rows", "load", "--count", "10", "--table", table, "--replace", check=True)
            names = [name for (name, *_) in conn.execute(RELATIONS).fetchall()]
            assert len(names) == 3
            assert table in names
            assert not any("_loading_" in name for name in names)
        conn.execute("CREATE SEQUENCE odd_id_seq")
        cli.run("rows", "load", "--count", "10", "--table", "odd", "--replace", check=True)
        assert one(conn, "SELECT pg_get_serial_sequence('odd', 'id')") == "public.odd_id_seq1"


def test_no_room_on_disk(cli: CommandLine) -> None:
    """Nothing is made when the rows cannot fit; two billion take more than the disks of most machines."""
    with cli.connect() as conn:
        rows = 2_000_000_000
        disk = Host.of(conn)
        assert disk is not None
        found = disk.filesystem()
        assert found is not None
        if found.free > 400e9:
            pytest.skip("this disk has room for two billion rows")
        failed(cli.run("rows", "load", "--count", str(rows)), 1, "2,000,000,000 rows need", "load fewer")
        assert one(conn, "SELECT count(*) FROM pg_class WHERE relname = 't_demo'") == 0


@pytest.mark.quick
def test_aggregate_compares_and_measures(cli: CommandLine) -> None:
    cli.run(*LOAD, check=True)
    values = cli.json("rows", "aggregate", "--rounds", "2")
    assert values["query"] == "SELECT grp, count(data) FROM t_demo GROUP BY 1"
    assert (values["rows"], values["answer_rows"], values["exact"], values["agree"]) == (ROWS, 7, True, True)
    assert len(values["postgresql"]["seconds"]) == len(values["pgbillion"]["seconds"]) == 2
    assert values["ratio"] > 0

    done = cli.run("rows", "aggregate", "SELECT sum(data), avg(data) FROM t_demo WHERE grp < 3;", "--rounds", "1")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines[:3]] == ["median", "PostgreSQL", "pgbillion"]
    # rows that a filter removes are read, too
    assert "1 row of answer from 120,000" in lines[3]
    assert "Seq Scan" in done.stdout or "VectorAggregate" in done.stdout


@pytest.mark.quick
def test_an_index_of_columns_is_a_third_side(cli: CommandLine) -> None:
    cli.run(*LOAD, check=True)
    without = cli.json("rows", "aggregate", "--rounds", "1")
    assert without["columns"] is without["columns_ratio"] is None
    assert "pgbillion rows columns 'SELECT grp" in without["columns_note"]
    with cli.connect() as conn:
        conn.execute("CREATE INDEX the_columns ON t_demo USING columns (grp, data)")
    values = cli.json("rows", "aggregate", "--rounds", "2")
    assert len(values["columns"]["seconds"]) == 2
    assert (values["rows"], values["exact"], values["columns_ratio"] > 0) == (ROWS, True, True)
    assert values["columns_note"] == "the_columns read"
    # the plan shown is of the last side
    assert "Columns: the_columns" in values["plan"]
    assert "Table Columns: grp, data" in values["plan"]
    lines = cli.run("rows", "aggregate", "--rounds", "1", check=True).stdout.splitlines()
    assert [line.split()[0] for line in lines[:4]] == ["median", "PostgreSQL", "pgbillion", "columns"]
    assert " and " in lines[4].split(" times as fast")[0]
    # a column that it does not have
    assert cli.json("rows", "aggregate", "SELECT sum(id) FROM t_demo", "--rounds", "1")["columns"] is None

    path = cli.state / "columns.html"
    values = cli.json("rows", "scale", "--jobs", "2", "--rounds", "1", "--output", str(path))
    assert [point["columns"]["processes"] for point in values["points"]] == [1, 2]
    page = path.read_text()
    assert "from a columnar index" in page
    assert "columns, times as fast" in page
    assert page.count(">columns<") >= 2


def test_aggregate_with_so_many_processes(cli: CommandLine) -> None:
    cli.run(*LOAD, check=True)
    for processes in (1, 3):
        values = cli.json("rows", "aggregate", "--rounds", "1", "--jobs", str(processes))
        assert values["postgresql"]["processes"] == processes
        assert values["pgbillion"]["processes"] == processes


def test_aggregate_of_what_cannot_be_vectorized_says_why(cli: CommandLine) -> None:
    cli.run(*LOAD, check=True)
    values = cli.json("rows", "aggregate", "SELECT string_agg(grp::text, '' ORDER BY id) FROM t_demo", "--rounds", "1")
    assert values["vectorized"] is False
    assert values["reason"]


def test_aggregate_writes_nothing(cli: CommandLine) -> None:
    cli.run(*LOAD, check=True)
    done = cli.run("rows", "aggregate", "DELETE FROM t_demo")
    assert done.returncode == 3, done.stderr
    assert "read-only transaction" in done.stderr
    failed_query = cli.run("rows", "aggregate", "--table", "nowhere")
    assert failed_query.returncode == 3
    assert 'relation "nowhere" does not exist' in failed_query.stderr


def test_answers_that_differ_are_told(cli: CommandLine) -> None:
    done = cli.run("rows", "aggregate", "SELECT clock_timestamp()", "--rounds", "1")
    failed(done, 1, "the answers differ", "bug")


def test_scale_draws_the_sources_chart(cli: CommandLine) -> None:
    cli.run(*LOAD, check=True)
    path = cli.state / "rows.html"
    values = cli.json("rows", "scale", "--jobs", "2", "--rounds", "1", "--output", str(path))
    assert [point["asked_processes"] for point in values["points"]] == [1, 2]
    assert [point["postgresql"]["processes"] for point in values["points"]] == [1, 2]
    assert values["server"]["settings"]["jit"] == "off"
    page = path.read_text()
    assert "<h3>Rows per second by processes</h3>" in page
    assert re.findall(r"<h4>(.*?)</h4>", page) == ["1 process", "2 processes"]
    assert "pgbillion" in page
    assert "Seq Scan" in page or "VectorAggregate" in page
    assert "http://" not in page.replace("http://www.w3.org/", "")
    people = cli.run("rows", "scale", "--jobs", "1", "--rounds", "1", check=True).stdout.splitlines()
    assert people[0].split() == [
        "Processes",
        "PostgreSQL",
        "pgbillion",
        "Times",
        "as",
        "fast",
        "Processes",
        "at",
        "work",
    ]
    assert Path(people[-1].removeprefix("report: ")).exists()
    json.dumps(values)


def test_a_block_of_rows_is_copys_format() -> None:
    ((size, data),) = generate.blocks(7, 2, 5, seed=1)
    assert size == 2
    first = struct.unpack(">hiiiiif", data[:26])
    assert first[:6] == (3, 4, 7, 4, 2, 4)
    assert 0 <= first[6] < 1
    assert len(data) == 52


@pytest.mark.parametrize(("count", "workers"), [(1, 1), (1, 5), (50_000, 2), (50_001, 2), (1_234_567, 7)])
def test_shares_are_all_rows_once(count: int, workers: int) -> None:
    pieces = load.shares(count, workers)
    assert len(pieces) <= workers
    covered = [row for first, number in pieces for row in (first, first + number - 1)]
    assert covered == sorted(covered)
    assert sum(number for _, number in pieces) == count
    assert all((first - 1) % generate.BLOCK == 0 for first, _ in pieces)


def _answer(*rows: Row, types: tuple[int, ...] = (23, FLOAT8)) -> Answer:
    return Answer(tuple("ab"), types, list(rows))


def test_differences_between_answers() -> None:
    assert difference(_answer((b"1", b"2"), (b"2", None)), _answer((b"2", None), (b"1", b"2"))) is None
    # as often as it is there
    assert difference(_answer((b"1", b"2"), (b"1", b"2")), _answer((b"1", b"2"))) is not None
    close = _answer((b"1", b"0.1")), _answer((b"1", b"0.10000000000000002"))
    assert difference(*close) == "1 of 1 rows and 1 of 1 have no counterpart: (1, 0.1) and (1, 0.10000000000000002)"
    assert difference(*close, PARALLEL) is None
    assert difference(_answer((b"1", b"0.1")), _answer((b"1", b"0.1001")), PARALLEL) == "(1, 0.1) and (1, 0.1001)"
    single = (23, FLOAT4)
    assert difference(_answer((b"1", b"0.1"), types=single), _answer((b"1", b"0.11"), types=single), PARALLEL)
    assert not difference(_answer((b"1", b"0.1"), types=single), _answer((b"1", b"0.10001"), types=single), PARALLEL)
    # only floats may be apart, and NULL, NaN and infinities are near nothing
    assert difference(_answer((b"1", b"0.1")), _answer((b"2", b"0.1")), PARALLEL)
    for odd in (None, b"NaN", b"Infinity"):
        assert difference(_answer((b"1", odd)), _answer((b"1", b"0.1")), PARALLEL)
        assert difference(_answer((b"1", odd)), _answer((b"1", odd)), PARALLEL) is None
    assert difference(_answer((b"1", b"1")), _answer((b"1", b"1"), types=single)) is not None

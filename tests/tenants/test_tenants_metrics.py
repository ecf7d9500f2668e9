"""`pgbillion tenants metrics`: what Prometheus reads, the dashboard over it, and the same for postgres_exporter."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from psycopg import sql

from harness import schemas, servers
from harness.command_line import CommandLine, command_line, failed
from harness.servers import one
from pgbillion.common.sql import load
from pgbillion.server.postgres import Cluster

Connection = psycopg.Connection[tuple[Any, ...]]
PROJECT = Path(__file__).parents[2]
TENANT = """
    CREATE TABLE a (i serial PRIMARY KEY, t text);
    CREATE TABLE b (a integer REFERENCES a, t text) PARTITION BY RANGE (a);
    CREATE TABLE b1 PARTITION OF b FOR VALUES FROM (0) TO (1000);
    CREATE INDEX ON b (t);
    CREATE MATERIALIZED VIEW m AS SELECT g FROM generate_series(1, 1000) g;
    CREATE INDEX ON m (g);
    CREATE VIEW v AS TABLE a;
"""
# each wants to be more than a label's value, or another's line
HOSTILE = [
    'x"} 1',
    'x",schema="y',
    "x\npgbillion_tenants 7",
    "x\\",
    "x\\n",
    "x\r\x85\u2028#\x1b[2J EOF",
    "pgx_others",
    "{{schema}} é 表",
]  # fmt: skip
METRICS = {
    "size_bytes", "tables", "live_rows", "dead_rows", "vacuum_age_seconds", "autovacuum_age_seconds",
}  # fmt: skip


@pytest.fixture
def cli(cluster: Cluster) -> Iterator[CommandLine]:
    with servers.new_database(cluster, "metrics") as database, command_line(cluster, database) as made:
        with made.connect() as conn:
            for number in (1, 2, 3):
                schemas.make_schema(conn, f"tenant_{number}", TENANT)
            conn.execute("INSERT INTO tenant_2.a SELECT g, repeat(md5(g::text), 100) FROM generate_series(1, 3000) g")
            conn.execute("ALTER TABLE tenant_2.a ALTER t SET STORAGE EXTERNAL")
            conn.execute("INSERT INTO tenant_2.a SELECT g, repeat('x', 3000) FROM generate_series(3001, 3100) g")
        yield made


parse: Callable[[str], Iterator[Any]] = text_string_to_metric_families


def read(text: str) -> dict[str, dict[str, float]]:
    """By metric, behind the prefix, and schema: what the exposition has. What is no OpenMetrics raises an error."""
    found: dict[str, dict[str, float]] = {}
    for family in parse(text):
        assert family.type == "gauge"
        assert family.documentation
        assert family.unit == (family.name.rpartition("_")[2] if family.name.endswith(("_bytes", "_seconds")) else "")
        values = found.setdefault(family.name.removeprefix("pgbillion_tenant_"), {})
        for sample in family.samples:
            assert set(sample.labels) <= {"database", "schema"}
            schema = sample.labels.get("schema", "")
            assert schema not in values
            values[schema] = sample.value
    assert text.endswith("\n# EOF\n")
    return found


def raw(cli: CommandLine, *arguments: str) -> str:
    """What is printed, byte for byte: carriage returns are no ends of lines."""
    with cli.started("tenants", "metrics", *arguments) as process:
        assert process.stdout is not None
        printed: bytes = process.stdout.buffer.read()  # type: ignore[attr-defined]
        assert process.wait(60) == 0
    return printed.decode("utf-8")


def metrics(cli: CommandLine, *arguments: str) -> dict[str, dict[str, float]]:
    return read(cli.run("tenants", "metrics", *arguments, check=True).stdout)


def vacuum(cli: CommandLine) -> None:
    with cli.connect() as conn:
        # VACUUM leaves the size of an index of TOAST as it was, if nothing was removed there
        conn.execute("REINDEX TABLE tenant_2.a")
        for number in (1, 2, 3):
            conn.execute(f"VACUUM ANALYZE tenant_{number}.a, tenant_{number}.b, tenant_{number}.m".encode())
        conn.execute("SELECT pg_stat_force_next_flush()")


@pytest.mark.majors
@pytest.mark.quick
def test_metrics_are_what_postgresql_knows(cli: CommandLine) -> None:
    with cli.connect() as conn:
        conn.execute("DELETE FROM tenant_2.a WHERE i <= 100")
        conn.execute("SELECT pg_stat_force_next_flush()")
    before = metrics(cli, "tenant_*")
    assert set(before) == {*METRICS, "pgbillion_tenants"}
    assert before["pgbillion_tenants"] == {"": 3}
    assert before["tables"] == {"tenant_1": 3, "tenant_2": 3, "tenant_3": 3}
    assert before["live_rows"] == {"tenant_1": 1000, "tenant_2": 4000, "tenant_3": 1000}
    assert before["dead_rows"] == {"tenant_1": 0, "tenant_2": 100, "tenant_3": 0}
    # nothing was vacuumed yet, and autovacuum is off in the tests' servers
    assert before["vacuum_age_seconds"] == before["autovacuum_age_seconds"] == {}

    vacuum(cli)
    after = metrics(cli, "tenant_*")
    with cli.connect() as conn:
        for number in (1, 2, 3):
            # what VACUUM has seen are all pages, without the maps that have files of their own
            assert after["size_bytes"][f"tenant_{number}"] == one(
                conn,
                "SELECT sum(pg_relation_size(r))::int8 FROM pg_class c,"
                " LATERAL (SELECT oid FROM pg_class WHERE oid IN (c.oid, c.reltoastrelid) UNION ALL"
                "  SELECT indexrelid FROM pg_index WHERE indrelid = c.reltoastrelid) AS s (r)"
                " WHERE c.relnamespace = %s::regnamespace AND c.relkind IN ('r', 'm', 'S', 'i')",
                f"tenant_{number}",
            )
    assert after["size_bytes"]["tenant_2"] > 5 * after["size_bytes"]["tenant_1"]
    assert after["dead_rows"] == {"tenant_1": 0, "tenant_2": 0, "tenant_3": 0}
    assert after["live_rows"] == before["live_rows"]
    assert set(after["vacuum_age_seconds"]) == {"tenant_1", "tenant_2", "tenant_3"}
    assert all(0 <= age < 3600 for age in after["vacuum_age_seconds"].values())
    assert after["autovacuum_age_seconds"] == {}


def test_rows_are_known_without_statistics_of_activity(cli: CommandLine) -> None:
    """As after a crash, and on a standby."""
    vacuum(cli)
    with cli.connect() as conn:
        conn.execute("SELECT pg_stat_reset()")
    found = metrics(cli, "tenant_*")
    assert found["live_rows"] == {"tenant_1": 1000, "tenant_2": 4100, "tenant_3": 1000}
    assert found["vacuum_age_seconds"] == {}


def test_the_largest_have_names_and_the_others_are_one(cli: CommandLine) -> None:
    with cli.connect() as conn:
        conn.execute("CREATE SCHEMA bare")
    vacuum(cli)
    whole = metrics(cli)
    assert list(whole["size_bytes"]) == ["tenant_2", "tenant_1", "tenant_3", "bare"]
    assert {name: values.get("bare") for name, values in whole.items()} == {
        "size_bytes": 0, "tables": 0, "live_rows": 0, "dead_rows": 0, "vacuum_age_seconds": None,
        "autovacuum_age_seconds": None, "pgbillion_tenants": None,
    }  # fmt: skip
    some = metrics(cli, "--limit", "1")
    for name in ("size_bytes", "tables", "live_rows", "dead_rows"):
        assert some[name] == {
            "tenant_2": whole[name]["tenant_2"],
            "pg_others": sum(value for schema, value in whole[name].items() if schema != "tenant_2"),
        }
    assert set(some["vacuum_age_seconds"]) == {"tenant_2", "pg_others"}
    assert some["pgbillion_tenants"] == {"": 4}
    assert "pg_others" not in metrics(cli, "--limit", "4")["tables"]
    failed(cli.run("tenants", "metrics", "--limit", "0"), 1, "it must be at least 1")
    failed(cli.run("tenants", "metrics", "nobody"), 1, 'no schema matches "nobody"')


def test_names_stay_in_their_label(cli: CommandLine) -> None:
    with cli.connect() as conn:
        for name in HOSTILE:
            conn.execute(sql.SQL("CREATE SCHEMA {0}; CREATE TABLE {0}.t ()").format(sql.Identifier(name)))
    # prometheus_client splits at line feeds only, as Prometheus does
    printed = raw(cli)
    assert read(printed)["tables"] == {**dict.fromkeys(HOSTILE, 1), **{f"tenant_{n}": 3 for n in (1, 2, 3)}}
    assert read(printed)["pgbillion_tenants"][""] == len(HOSTILE) + 3


def test_it_is_utf8_whatever_the_locale(cli: CommandLine) -> None:
    with cli.connect() as conn:
        conn.execute('CREATE SCHEMA "é表"')
    cli.environment.update({"PYTHONIOENCODING": "latin-1", "LC_ALL": "C", "PYTHONUTF8": "0"})
    assert set(read(raw(cli, "--limit", "9"))["tables"]) == {"é表", "tenant_1", "tenant_2", "tenant_3"}


def test_the_dashboard_shows_what_is_printed(cli: CommandLine) -> None:
    dashboard = json.loads((PROJECT / "packaging" / "grafana" / "tenants.json").read_text(encoding="utf-8"))
    assert dashboard["schemaVersion"] >= 36
    assert dashboard["id"] is None, "an import would look for a dashboard of that number"
    variables = {variable["name"]: variable for variable in dashboard["templating"]["list"]}
    assert (variables["datasource"]["type"], variables["datasource"]["query"]) == ("datasource", "prometheus")
    expressions = [variables["database"]["query"]["query"]]
    numbers = []
    for panel in dashboard["panels"]:
        numbers.append(panel["id"])
        for part in [panel, *panel["targets"]]:
            assert part["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        expressions += [target["expr"] for target in panel["targets"]]
    assert len(numbers) == len(set(numbers))
    used = {name for expression in expressions for name in re.findall(r"\bpgbillion_\w+", expression)}
    printed = {family.name for family in parse(cli.run("tenants", "metrics").stdout)}
    assert used == printed
    known = {f"${name}" for name in variables}
    assert {name for expression in expressions for name in re.findall(r"\$\w+", expression)} <= known
    # the labels as well
    assert {name for text in expressions for name in re.findall(r"(\w+)(?:=|!=|=~)\"", text)} == {"database", "schema"}


def for_exporter() -> tuple[str, set[str]]:
    """The query of the guide for postgres_exporter, and the columns that are metrics there."""
    page = (PROJECT / "docs" / "monitoring.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"(?ms)^```yaml\n(pgbillion_tenant:\n.*?)^```$", page)
    (query,) = re.findall(r"(?m)^  query: \|\n((?:    .*\n)+?)(?=  metrics:)", block)
    return re.sub(r"(?m)^    ", "", query), set(re.findall(r'(?m)^    - (\w+): \{ usage: "GAUGE"', block))


def test_postgres_exporter_gets_the_same(cli: CommandLine) -> None:
    vacuum(cli)
    query, gauges = for_exporter()
    ours = re.sub(r"(?m)^ *--.*\n", "", load("tenants", "metrics"))
    assert query == ours.replace("nspname = ANY (%s::name[])", "nspname LIKE 'tenant\\_%'").replace("%s", "100")
    assert gauges == METRICS | {"schemas"}
    with cli.connect() as conn:
        conn.execute("SET search_path = ''")
        cursor = conn.execute(query.encode())
        columns = [column.name for column in cursor.description or ()]
        rows = {row[1]: dict(zip(columns, row, strict=True)) for row in cursor}
    printed = metrics(cli, "tenant_*")
    for name in METRICS - {"vacuum_age_seconds"}:
        found = {schema: row[name] for schema, row in rows.items() if row[name] is not None}
        assert found == printed[name], name

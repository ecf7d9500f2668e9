"""PostgreSQL's own isolation suite: sessions whose steps interleave, run with some settings by pg_isolation_regress.

What its authors expect is in the suite, in several variants where plans or a machine's pace decide. So one run is
enough; whatever else a test shows is compared with a run of that test without the settings.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from pgbillion.server.postgres import Cluster, Installation

from . import columns_everywhere, regress, servers

# In these tests two sessions write the first row of the same table, and the second is not expected to wait, as it does
# where the table is lazy. In the first two the session that it waits for goes on only after it; in the third, which of
# two sessions that wait for the same lock has it first is open. Their tables are heap.
HEAP = frozenset({"fk-deadlock", "insert-conflict-specconflict", "propagate-lock-delete"})
# a step that waits longer (twice as long, since 16) is cancelled
STEP_SECONDS = "60"
DATABASE = "isolation_regression"
# Tests drop their tables. So the log is told of tables when one has been made, and again before one is dropped.
WATCH = """
CREATE SCHEMA watch;
CREATE FUNCTION watch.tables() RETURNS event_trigger LANGUAGE plpgsql AS $$
DECLARE
    found text[] := array(SELECT format('%s=%s', c.oid, amname) FROM pg_catalog.pg_class c
                          JOIN pg_catalog.pg_am a ON a.oid = relam WHERE relkind IN ('r', 'm') AND c.oid >= 16384);
BEGIN
    RAISE LOG 'tables: %', found;
END $$;
CREATE EVENT TRIGGER watch_make ON ddl_command_end
    WHEN TAG IN ('CREATE TABLE', 'CREATE TABLE AS', 'SELECT INTO', 'CREATE MATERIALIZED VIEW')
    EXECUTE FUNCTION watch.tables();
CREATE EVENT TRIGGER watch_drop ON ddl_command_start
    WHEN TAG IN ('DROP TABLE', 'DROP SCHEMA', 'DROP MATERIALIZED VIEW')
    EXECUTE FUNCTION watch.tables();
"""


@dataclass(frozen=True)
class Outcome(regress.Outcome):
    """``unexpected`` tests showed what their authors do not expect; ``grown`` tables were lazy and became heap."""

    unexpected: list[str]
    grown: int


def outcome(
    installation: Installation,
    settings: tuple[tuple[str, str], ...] = (),
    only: Collection[str] = (),
    before: str = "SELECT",
) -> Outcome:
    """Run the suite, or only some of its tests, on a server of its own with these settings, and after this SQL."""
    with servers.temporary_folder() as folder:
        shutil.copytree(regress.source(installation.major) / "src/test/isolation", folder / "source")
        with regress.running(installation, folder, dict(settings)) as cluster:
            with cluster.connect() as conn:
                conn.execute(f"CREATE DATABASE {DATABASE}")
            with cluster.connect(DATABASE) as conn:
                conn.execute("CREATE EXTENSION pgbillion_tables; CREATE EXTENSION pgbillion_rows")
                conn.execute(WATCH)
                conn.execute(before.encode())
            return _run(cluster, folder / "source", folder, only)


def _run(cluster: Cluster, suite: Path, folder: Path, only: Collection[str]) -> Outcome:
    output = folder / "output"
    schedule = re.findall(r"^test: (\S+)$", (suite / "isolation_schedule").read_text(encoding="utf-8"), re.MULTILINE)
    tests = [test for test in schedule if test in (only or schedule)]
    assert len(tests) == len(only) if only else len(tests) > 100
    as_heap = [test for test in tests if test in HEAP]
    shown = _some(cluster, suite, output, [test for test in tests if test not in HEAP])
    shown |= _some(cluster, suite, output, as_heap, PGOPTIONS="-c default_table_access_method=heap")
    assert list(shown) == [test for test in tests if test not in HEAP] + as_heap
    log = regress.log_lines(cluster)
    states: dict[str, set[str]] = {"heap": set(), "lazy_heap": set()}
    for line in log:
        for table, method in re.findall(r"(\d+)=(\w+)", line) if "LOG:  tables: {" in line else ():
            states.setdefault(method, set()).add(table)
    with cluster.connect(DATABASE) as conn:
        return Outcome(
            results=regress.results(output),
            tests=len(shown),
            alarms=regress.alarms(log),
            tables={method: len(tables) for method, tables in states.items()},
            unsound=regress.unsound(conn),
            plans=regress.count_plans(log),
            columns=columns_everywhere.count(log),
            unexpected=[test for test, good in shown.items() if not good],
            grown=len(states["heap"] & states["lazy_heap"]),
        )


def _some(cluster: Cluster, suite: Path, output: Path, tests: list[str], **environment: str) -> dict[str, bool]:
    if not tests:
        return {}
    environment |= {"PGISOLATIONTIMEOUT": STEP_SECONDS, "PG_TEST_TIMEOUT_DEFAULT": STEP_SECONDS}
    options = ("--use-existing", f"--dbname={DATABASE}", *tests)
    return regress.run_suite(cluster, "isolation/pg_isolation_regress", suite, output, *options, **environment)

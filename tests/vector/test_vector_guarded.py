"""Row security, security barriers and volatile functions: generated queries show no row that PostgreSQL hides.

PGBILLION_TEST_GUARDED is how many are generated (default 300), PGBILLION_TEST_SEED repeats a run.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator

import pytest

from harness import servers
from harness.amount import Count, amount
from harness.guarded_queries import ROLES, TABLES, GuardedGenerator
from harness.outcomes import CURSOR, WAYS, WHOLE, Outcome, agreed, both, explained_each, leaving_nothing, outcome
from pgbillion.common.connection import Connection
from pgbillion.rows import plans
from pgbillion.server.postgres import Cluster

pytestmark = pytest.mark.majors

QUERIES = amount("PGBILLION_TEST_GUARDED", 300, 60)
SEED = int(os.environ.get("PGBILLION_TEST_SEED") or random.SystemRandom().randrange(2**31))
OFF = "SET pgbillion_rows.enable = off;"


@pytest.fixture(scope="module")
def tables(cluster: Cluster) -> Iterator[str]:
    with cluster.connect() as conn:
        conn.execute("CREATE ROLE sees_1; CREATE ROLE sees_2")
    with servers.new_database(cluster, "guarded") as name:
        with cluster.connect(name) as conn:
            conn.execute(TABLES.encode())
            conn.execute("VACUUM ANALYZE")
        yield name
    with cluster.connect() as conn:
        conn.execute("DROP ROLE sees_1, sees_2")


@pytest.fixture
def guarded(cluster: Cluster, tables: str) -> Iterator[Connection]:
    """A session in a transaction that leaves nothing."""
    with cluster.connect(tables) as conn:
        conn.prepare_threshold = None
        conn.execute(
            "LOAD 'pgbillion_rows'; SET statement_timeout = '300s'; SET min_parallel_table_scan_size = 0;"
            " SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; BEGIN"
        )
        yield conn
        conn.execute("ROLLBACK")


def ours(conn: Connection, query: str, settings: str) -> bool:
    """Whether one of our nodes is in a query's plan."""
    conn.execute(f"SAVEPOINT explained; {settings}".encode())
    found = any("Custom Plan Provider" in node for node in plans.nodes(plans.explain(conn, query)))
    conn.execute("ROLLBACK TO explained")
    return found


def test_hidden_rows(
    guarded: Connection, cluster: Cluster, tables: str, tell: Callable[[str], None], counted: Count
) -> None:
    generator = GuardedGenerator(SEED)
    chance = generator.chance
    notices: list[str] = []
    guarded.add_notice_handler(lambda notice: notices.append(notice.message_primary or ""))
    used = explained = errors = noted = 0
    with leaving_nothing(cluster, tables):
        for number in range(QUERIES):
            query, role = generator.query(calls=False), chance.choice(ROLES)
            settings = generator.settings(role)
            way = chance.choice(WAYS)
            text, roles = query, {role}
            if chance.random() < 0.1:
                # planned for one role, executed by another one, too
                way, roles = WHOLE, {*ROLES}
                text = f"DEALLOCATE ALL; PREPARE p AS {query}; EXECUTE p; SET ROLE sees_{3 - role}; EXECUTE p"
            notices.clear()
            where = f"seed {SEED}, number {number}"
            core = both(guarded, text, f"{OFF} {settings}", settings, way, where)
            errors += isinstance(core, str)
            hidden = [notice for notice in notices if int(notice) % 3 not in roles]
            assert hidden == [], f"{where}, {way}: {hidden[:5]}: {settings} {text}"
            noted += bool(notices)
            if number % explained_each(QUERIES) == 0:
                used += ours(guarded, query, settings)
                explained += 1
    tell(f"seed {SEED}: {QUERIES} queries, {used} of {explained} by our nodes, {noted} with notices, {errors} errors")
    counted({"queries of guarded tables": QUERIES})
    assert used > explained * 0.3
    assert noted > QUERIES * 0.3
    assert errors < QUERIES * 0.3


def test_calls(guarded: Connection, cluster: Cluster, tables: str, tell: Callable[[str], None], counted: Count) -> None:
    """Volatile functions are called as often as in PostgreSQL's plan."""
    generator = GuardedGenerator(SEED)
    chance = generator.chance

    def calls() -> int:
        return int(servers.one(guarded, "SELECT last_value FROM calls"))

    used = explained = errors = called = 0
    last = calls()
    with leaving_nothing(cluster, tables):
        for number in range(QUERIES):
            query, settings = generator.query(calls=True), generator.settings(chance.choice(ROLES))
            # how much is read for the first rows of a join, or for the first groups, depends on the plan
            by_cursor = "JOIN" not in query and "GROUP BY" not in query
            way = chance.choice((WHOLE, CURSOR)) if by_cursor else WHOLE
            where = f"seed {SEED}, number {number}, {way}: {settings} {query}"
            found: list[tuple[Outcome, int]] = []
            for before in (f"{OFF} {settings}", settings):
                answer, before_this, last = outcome(guarded, query, before, way), last, calls()
                found.append((answer, last - before_this))
            (core, expected), (answer, number_of_calls) = found
            agreed(core, answer, where)
            assert number_of_calls == expected, f"{number_of_calls} calls and not {expected}: {where}"
            errors += isinstance(core, str)
            called += expected
            if number % explained_each(QUERIES) == 0:
                used += ours(guarded, query, settings)
                explained += 1
    tell(f"seed {SEED}: {QUERIES} queries, {used} of {explained} by our nodes, {called} calls, {errors} errors")
    counted({"queries with volatile functions": QUERIES})
    assert errors == 0
    assert called > QUERIES * 5

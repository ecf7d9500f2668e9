"""Rows that another transaction has changed meanwhile are locked and checked again: with vectors in the plan, as core.

PostgreSQL then runs parts of the plan a second time, aggregates in subqueries among them (EvalPlanQual).
"""

from __future__ import annotations

from typing import Any

import pytest

from harness.servers import new_database
from harness.sessions import Running, until_blocked
from pgbillion.common.connection import Connection
from pgbillion.rows import plans
from pgbillion.server.postgres import Cluster

pytestmark = pytest.mark.majors

SETUP = """
CREATE TABLE account (id integer PRIMARY KEY, balance bigint, note text);
CREATE TABLE entry (account integer, amount integer, kind text);
CREATE TABLE kind (name text PRIMARY KEY, factor integer);
INSERT INTO account SELECT g, g * 10, 'old' FROM generate_series(1, 5) g;
INSERT INTO entry SELECT g % 6, g, 'k' || g % 3 FROM generate_series(1, 600) g;
INSERT INTO kind SELECT 'k' || g, g FROM generate_series(0, 2) g;
ANALYZE account, entry, kind;
"""
SUMS = "(SELECT account, sum(amount) AS total, count(*) AS n, max(amount) AS most FROM entry GROUP BY account) s"
WAITING = {
    "an uncorrelated subquery": "UPDATE account SET note = 'new' WHERE balance < (SELECT avg(amount) FROM entry)",
    "a correlated subquery": "UPDATE account a SET balance = balance"
    " + (SELECT sum(amount) FROM entry e WHERE e.account = a.id AND e.amount > a.balance)",
    "a subquery on the old row": "UPDATE account a SET note = (SELECT max(kind) FROM entry WHERE amount = a.balance)",
    "joined with groups": f"UPDATE account a SET balance = total FROM {SUMS} WHERE s.account = a.id AND balance < most",
    "deleted by groups": f"DELETE FROM account a USING {SUMS} WHERE s.account = a.id AND a.balance < s.most",
    "locked, joined with groups": f"SELECT a, s FROM account a JOIN {SUMS} ON s.account = a.id FOR UPDATE OF a",
    "locked, lateral": "SELECT a, s.n FROM account a, LATERAL (SELECT count(*) AS n FROM entry"
    " WHERE account = a.id AND amount > a.balance) s WHERE s.n > 0 FOR UPDATE OF a",
    "locked, IN": "SELECT a FROM account a WHERE balance IN (SELECT amount FROM entry GROUP BY amount) FOR UPDATE",
    "locked, NOT IN": "SELECT a FROM account a WHERE balance NOT IN (SELECT amount FROM entry"
    " WHERE amount > 100 GROUP BY 1) FOR UPDATE",
    "a common table expression": f"WITH s AS MATERIALIZED (SELECT * FROM {SUMS})"
    " UPDATE account a SET balance = (SELECT total FROM s WHERE s.account = a.id)",
    "merged": f"MERGE INTO account a USING {SUMS} ON s.account = a.id WHEN MATCHED AND balance < most"
    " THEN UPDATE SET balance = total WHEN NOT MATCHED THEN INSERT VALUES (s.account, s.total, 'made')",
    "the table itself": "UPDATE account a SET balance = (SELECT max(balance) + count(*) FROM account b"
    " WHERE b.id <= a.id)",
    "before a join": "UPDATE account a SET balance = (SELECT sum(e.amount) FROM entry e JOIN kind k ON k.name = e.kind"
    " WHERE k.factor < a.id AND e.account = 1)",
}
CHANGES = {
    "more": "UPDATE account SET balance = balance + 100 WHERE id < 3",
    "much more": "UPDATE account SET balance = 5000 WHERE id = 2",
    "of another key": "UPDATE account SET id = id + 100 WHERE id = 2",
    "gone": "DELETE FROM account WHERE id = 2",
}


@pytest.mark.parametrize("waiting", WAITING)
def test_rechecks(cluster: Cluster, waiting: str) -> None:
    with new_database(cluster, "rechecks") as name, cluster.connect(name) as one, cluster.connect(name) as two:
        one.execute(SETUP.encode())
        two.prepare_threshold = None
        two.execute("LOAD 'pgbillion_rows'; SET max_parallel_workers_per_gather = 0")
        answers = {}
        for change in CHANGES.values():
            for mode in ("off", "force"):
                for setting in ("vector_aggregate", "vector_scan", "eager_aggregate"):
                    two.execute(f"SET pgbillion_rows.{setting} = {mode}".encode())

                assert plans.vectorized(plans.explain(two, WAITING[waiting])) is (mode == "force")
                answers[mode] = _answer(cluster, one, two, change, WAITING[waiting])
            assert answers["off"] == answers["force"], change


def _answer(cluster: Cluster, one: Connection, two: Connection, change: str, waiting: str) -> list[tuple[Any, ...]]:
    """What the second session's statement returns, and leaves, where it waited for the first session's change."""
    with cluster.connect() as monitor:
        one.execute(f"BEGIN; {change}; INSERT INTO entry SELECT g, 9999, 'k1' FROM generate_series(0, 5) g".encode())
        two.execute("BEGIN")
        running = Running(lambda: two.execute(waiting.encode()))
        until_blocked(monitor, two, running)
        one.execute("COMMIT")
        cursor = running.result()
        found = cursor.fetchall() if cursor.description else []
        found += two.execute("SELECT 'left', a FROM account a ORDER BY id").fetchall()
        two.execute("ROLLBACK")
        one.execute("TRUNCATE account; DELETE FROM entry WHERE amount = 9999")
        one.execute("INSERT INTO account SELECT g, g * 10, 'old' FROM generate_series(1, 5) g")
    return sorted(found, key=repr)

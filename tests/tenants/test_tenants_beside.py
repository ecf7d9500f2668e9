"""Tenants that are created, migrated, renamed and dropped by several sessions at once, in every order of their steps.

Whatever the order, the journal says of each tenant what the tenant has, so that the next run of `migrate` gives it what
it lacks, and nothing twice.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import pytest

from harness import stepped
from harness.amount import share
from harness.servers import one
from harness.stepped import Act
from pgbillion.common.connection import Connection
from pgbillion.common.errors import UserError
from pgbillion.common.target import Target
from pgbillion.server.postgres import Cluster
from pgbillion.tenants import create, journal, manage, migrate, script

_numbers = itertools.count(1)

# what waits for nobody who reads the template, what waits, and what a clone reads first and last
MIGRATIONS = {
    "column": "ALTER TABLE a ADD COLUMN changed integer",
    "function": "CREATE FUNCTION changed() RETURNS integer LANGUAGE sql AS 'SELECT 1'",
    "comment": "COMMENT ON TABLE a IS 'changed'",
}
HAS = (
    "SELECT EXISTS (SELECT FROM pg_attribute WHERE attrelid = to_regclass(%s || '.a') AND attname = 'changed')"
    " OR to_regproc(%s || '.changed') IS NOT NULL"
    " OR coalesce(obj_description(to_regclass(%s || '.a')) = 'changed', false)"
)


@contextmanager
def unseen(total: int) -> Iterator[Callable[[int], None]]:
    yield lambda done: None


class World:
    """A template, a tenant, and who does what with them; of other names each time."""

    def __init__(self, conn: Connection, target: Target, migration: str, prepared: bool) -> None:
        number = next(_numbers)
        self.conn, self.target = conn, target
        self.seen: list[str] | None = None
        self.model, self.tenant, self.other, self.new = (f"{word}{number}" for word in ("m", "t", "o", "n"))
        self.script = script.load([], [f"{MIGRATIONS[migration]} /* {number} */"])
        for name in (self.model, self.tenant):
            conn.execute(f"CREATE SCHEMA {name}; CREATE TABLE {name}.a (i integer)".encode())
        if prepared:
            assert one(conn, "SELECT pgbillion_tables.prepare_clone(%s::regnamespace)", self.model)

    def create(self, template: str | None = None) -> Act:
        request = create.Request(template or self.model, f"{self.new}_%d", 1, 1)

        def work(target: Target) -> None:
            create.execute(target, request, observe=unseen)

        return Act("create", work, ["^SELECT coalesce", "clone_schemas", "^WITH had"], "^WITH had")

    def migrate(self, *tenants: str) -> Act:
        def work(target: Target) -> None:
            outcome = migrate.run(target, migrate.Request(self.script), tenants, observe=unseen)
            # of a tenant that is gone, or has another name now
            assert {failure.sqlstate for failure in outcome.failures} <= {"3F000"}, outcome.failures

        return Act("migrate", work, ["pg_get_object_address", "changed", "^COMMIT$"])

    def alter(self) -> Act:
        def work(target: Target) -> None:
            with target.connect() as conn:
                conn.execute("BEGIN")
                conn.execute(f"ALTER TABLE {self.model}.a ADD COLUMN other integer".encode())
                # who has altered the template goes through all that he sees
                names = conn.execute("SELECT nspname FROM pg_namespace WHERE nspname LIKE %s", [f"{self.new}%"])
                self.seen = [name for (name,) in names]
                conn.execute("COMMIT")

        return Act("alter", work, ["^ALTER", "^COMMIT$"])

    def rename(self, name: str) -> Act:
        def work(target: Target) -> None:
            with target.connect() as conn:
                manage.rename(conn, name, self.other, say=print)

        return Act("rename", work, ["LOCK TABLE", "ALTER SCHEMA"], "UPDATE pgbillion_journal")

    def drop(self, name: str) -> Act:
        def work(target: Target) -> None:
            manage.drop(target, [name], 1, cascade=False, observe=unseen)

        return Act("drop", work, ["DROP SCHEMA"], "DELETE FROM pgbillion_journal")

    def check(self, order: Sequence[int]) -> None:
        name, conn = self.script[0].name, self.conn
        late = one(conn, "SELECT to_regclass(%s) IS NOT NULL", f"{self.new}_1.a") and not one(
            conn,
            "SELECT EXISTS (SELECT FROM pg_attribute WHERE attrelid = to_regclass(%s) AND attname = 'other')",
            f"{self.new}_1.a",
        )
        assert self.seen is None or not late or f"{self.new}_1" in self.seen, f"{order}: altered behind a clone's back"
        mine = [f"{self.new}_1", self.model, self.tenant, self.other]
        there = [
            found
            for (found,) in conn.execute("SELECT nspname::text FROM pg_namespace WHERE nspname = ANY (%s)", [mine])
        ]
        noted = {
            tenant
            for (tenant,) in conn.execute(
                "SELECT tenant FROM pgbillion_journal.migration WHERE migration = %s AND statement = 0 AND done", [name]
            )
        }
        has = {tenant for tenant in there if one(conn, HAS, tenant, tenant, tenant)}
        assert noted == has, f"{order}: the journal has {noted}, and {has} have it, of {there}"
        outcome = migrate.run(self.target, migrate.Request(self.script), there, observe=unseen)
        assert (outcome.failures, outcome.done) == ([], len(there) - len(has)), (order, outcome)
        conn.execute("".join(f"DROP SCHEMA {tenant} CASCADE;" for tenant in there).encode())


@pytest.fixture(scope="module")
def target(cluster: Cluster, database: str) -> Target:
    made = Target(cluster.conninfo(database), "test")
    with made.connect() as conn:
        journal.make(conn)
    return made


Make = Callable[[World], Sequence[Act]]
# and how many steps each of them has
TOGETHER: dict[str, tuple[Make, Sequence[int]]] = {
    "create, migrate": (lambda w: (w.create(), w.migrate(w.model)), (4, 3)),
    "create, rename": (lambda w: (w.create(), w.rename(w.model)), (4, 3)),
    "create, drop": (lambda w: (w.create(), w.drop(w.model)), (4, 2)),
    "create, create": (lambda w: (w.create(), w.create()), (4, 4)),
    "create, alter": (lambda w: (w.create(), w.alter()), (4, 2)),
    "migrate, rename": (lambda w: (w.migrate(w.tenant), w.rename(w.tenant)), (3, 3)),
    "migrate, drop": (lambda w: (w.migrate(w.tenant), w.drop(w.tenant)), (3, 2)),
    "migrate, migrate": (lambda w: (w.migrate(w.tenant), w.migrate(w.tenant)), (3, 3)),
    "create, migrate, rename": (lambda w: (w.create(), w.migrate(w.model), w.rename(w.model)), (4, 3, 3)),
    "create, migrate, drop": (lambda w: (w.create(), w.migrate(w.model), w.drop(w.model)), (4, 3, 2)),
}
# number of orders that are chosen where there are more
MOST = 40


@pytest.mark.parametrize("prepared", [True, False], ids=["stamp", "commands"])
@pytest.mark.parametrize("together", share(list(TOGETHER)))
def test_every_order(conn: Connection, target: Target, together: str, prepared: bool) -> None:
    if not prepared and "create" not in together:
        return
    make, lengths = TOGETHER[together]
    orders = list(stepped.orders(lengths))
    if len(orders) > MOST:
        orders = random.Random(together).sample(orders, MOST)
    migrations = itertools.cycle(MIGRATIONS)
    with target.connect() as monitor:
        for order in orders:
            world = World(conn, target, next(migrations), prepared)
            for error in stepped.run(target, monitor, make(world), order):
                # a template that is gone is the only thing that may end a command
                assert error is None or (isinstance(error, UserError) and "no schema" in str(error)), (order, error)
            world.check(order)

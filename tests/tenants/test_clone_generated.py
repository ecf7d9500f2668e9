"""Clones of generated schemas: by commands they are the template, stamped they are those by commands.

So are those that the command line makes without the extension.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from harness import generated_schemas, schema_rows, schemas
from harness.amount import Count, amount
from harness.catalogs import Catalogs
from harness.clones import dump, reasons, same
from harness.servers import one
from pgbillion.common.connection import Connection
from pgbillion.common.errors import UserError
from pgbillion.common.target import Target
from pgbillion.server.postgres import Cluster, Installation
from pgbillion.tenants import commands as tenants_by_commands
from pgbillion.tenants import diff, wording

pytestmark = pytest.mark.majors


EXAMPLES = amount("PGBILLION_TEST_SCHEMAS", 8, 2)
SEED = os.environ.get("PGBILLION_TEST_SEED", "1")
SHRINK = bool(os.environ.get("PGBILLION_TEST_SHRINK"))
# of the kinds that are refused by name: what is generated can be so
REFUSED = (
    "PostgreSQL's commands make something else of it",
    "whose columns are in another order than its parent's",
    "objects of the template need each other in a circle",
)
# what the model has conditions in, as PostgreSQL itself tells it, as commands that make it once more, and what fills
# its views; domains are made before casts, in clones, too
DEFINITIONS = """
    SELECT d.definition FROM pg_class c, LATERAL (
        SELECT 'EXPLAIN ' || pg_get_viewdef(c.oid) WHERE relkind IN ('v', 'm')
        UNION ALL SELECT format('REFRESH MATERIALIZED VIEW %s', c.oid::regclass) WHERE relkind = 'm'
        UNION ALL SELECT format('ALTER TABLE %s ADD %s', c.oid::regclass, pg_get_constraintdef(oid))
        FROM pg_constraint WHERE conrelid = c.oid AND contype = 'c'
        UNION ALL SELECT pg_get_indexdef(indexrelid) FROM pg_index WHERE indrelid = c.oid
        UNION ALL SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE tgrelid = c.oid AND NOT tgisinternal
        UNION ALL SELECT pg_get_ruledef(oid) FROM pg_rewrite WHERE ev_class = c.oid AND rulename <> '_RETURN'
        UNION ALL SELECT format('CREATE POLICY again ON %s USING (%s) WITH CHECK (%s)', c.oid::regclass,
            coalesce(pg_get_expr(polqual, polrelid), 'true'), coalesce(pg_get_expr(polwithcheck, polrelid), 'true'))
        FROM pg_policy WHERE polrelid = c.oid) d (definition)
    WHERE relnamespace = 'model'::regnamespace
"""
BOUND = "nothing explains how pg_class.relpartbound differs between clones"
MISUNDERSTOOD = "definitions that PostgreSQL no longer understands, or that their owner may no longer read"
CLONES = [f"clone_{number}" for number in (97, 98, 99, 100, 101)]


@pytest.fixture(scope="module", autouse=True)
def outside(cluster: Cluster, database: str) -> Iterator[None]:
    with cluster.connect(database) as conn:
        schemas.make_outside(conn)
    yield
    with cluster.connect(database) as conn:
        conn.execute("DROP SCHEMA outside CASCADE")


@contextmanager
def _unseen(total: int) -> Iterator[Callable[[int], None]]:
    yield lambda done: None


class _Trial:
    """One schema after the other, cloned and compared."""

    def __init__(self, cluster: Cluster, database: str, conn: Connection, catalogs: Catalogs) -> None:
        self._cluster = cluster
        self._database = database
        self._conn = conn
        self._catalogs = catalogs
        self._reasons = reasons(conn)
        self.outcomes: Counter[str] = Counter()

    def make(self, commands: Sequence[str]) -> list[str]:
        """Make the model, and return those of the commands that PostgreSQL has taken."""
        conn = self._conn
        taken = []
        conn.execute("CREATE SCHEMA model")
        for command in commands:
            try:
                with conn.transaction():
                    conn.execute("SET LOCAL search_path = model")
                    conn.execute(command.encode())
                taken.append(command)
            except psycopg.Error:
                self.outcomes["commands refused"] += 1
        self.outcomes["commands"] += len(taken)
        return taken

    def clear(self) -> None:
        self._conn.execute(f"SET client_min_messages = error; DROP SCHEMA IF EXISTS model, {', '.join(CLONES)} CASCADE")

    def check(self) -> None:
        """Raise AssertionError for what a clone has that it should not have, or lacks."""
        self._reasons.clear()
        self._conn.execute("SET client_min_messages = debug1")
        try:
            called = "SELECT pgbillion_tables.clone_schemas('model', 'clone_%d', 98, 4, rewrite_bodies => true)"
            self._conn.execute(called.encode())
        except psycopg.errors.FeatureNotSupported as refused:
            reason = next((one for one in REFUSED if one in (refused.diag.message_primary or "")), None)
            if reason is None:
                raise
            self.outcomes[f"refused: {reason}"] += 1
            with pytest.raises(UserError, match=r'template "model" has|objects of the template|something else of it'):
                self._make_by_commands()
            return
        except (
            psycopg.errors.AmbiguousFunction,
            psycopg.errors.UndefinedFunction,
            psycopg.errors.InsufficientPrivilege,
        ) as error:
            if not self._misunderstood(error):
                raise
            self.outcomes[MISUNDERSTOOD] += 1
            with pytest.raises(type(error)):
                self._make_by_commands()
            return
        if self._conn.info.server_version < 160000 and any(BOUND in reason for reason in self._reasons):
            self.outcomes["composite bounds of partitions, which have bytes of no meaning"] += 1
            return
        assert self._reasons == []
        made = schema_rows.rows(self._conn, self._catalogs, "clone_98")
        same(schema_rows.rows(self._conn, self._catalogs, "clone_101"), made)
        assert self._contents("clone_101") == self._contents("clone_98")
        self._make_by_commands()
        same(schema_rows.rows(self._conn, self._catalogs, "clone_97"), made)
        # a column of a function's body that has no name gets one
        wanted, found = (
            list(map(wording.of, dump(self._cluster, self._database, name).splitlines()))
            for name in ("model", "clone_101")
        )
        same(found, wanted)
        self._compare()
        self.outcomes["templates cloned"] += 1

    def _make_by_commands(self) -> None:
        """As `tenants create --method sql` does."""
        wish = tenants_by_commands.Wish("model", rewrite_bodies=True)
        with self._conn.transaction():
            model = one(self._conn, "SELECT 'model'::regnamespace::oid::int8")
            tenants_by_commands.Maker(self._conn, wish).make(model, ["clone_97"])

    def _misunderstood(self, error: psycopg.Error) -> bool:
        """Is it PostgreSQL's own error for what a later cast or operator made ambiguous, or a later owner hides?"""
        with self._conn.transaction():
            self._conn.execute("SET LOCAL search_path = model")
            definitions = [command for (command,) in self._conn.execute(DEFINITIONS.encode())]
        return any(self._fails_alike(command, error) for command in definitions)

    def _fails_alike(self, command: str, error: psycopg.Error) -> bool:
        try:
            with self._conn.transaction(force_rollback=True):
                self._conn.execute("SET LOCAL search_path = model")
                self._conn.execute(command.encode())
        except psycopg.Error as own:
            return (own.sqlstate, own.diag.message_primary) == (error.sqlstate, error.diag.message_primary)
        return False

    def _contents(self, schema: str) -> list[tuple[Any, ...]]:
        """Sizes of all relations, and the state of sequences."""
        sizes = self._conn.execute(
            "SELECT relkind, regexp_replace(relname, '[0-9]{4,}', 'N'), pg_relation_size(c.oid),"
            " pg_relation_size(c.oid, 'init'), pg_sequence_last_value(CASE WHEN relkind = 'S' THEN c.oid END)"
            " FROM pg_class c WHERE relnamespace = %s::regnamespace ORDER BY 1, 2, 3",
            [schema],
        )
        return sizes.fetchall()

    def _compare(self) -> None:
        """Both ways of `tenants diff` find no difference."""
        target = Target(self._cluster.conninfo(self._database), "the test's")
        found = diff.compare(target, "model", ["clone_98", "clone_101"], 1, observe=_unseen)
        assert [group.differences for group in found.groups] == []
        # without fingerprints, too
        rows = self._conn.execute(
            "SELECT oid::int8, nspname FROM pg_namespace WHERE nspname IN ('model', 'clone_98', 'clone_101')"
        ).fetchall()
        objects = {name: diff.objects(self._conn, oid, name, "model") for oid, name in rows}
        wanted = objects.pop("model")
        for there in objects.values():
            assert [key for key in wanted.keys() | there.keys() if not diff.same(key, wanted, there)] == []


def test_generated_schemas(
    cluster: Cluster,
    database: str,
    conn: Connection,
    catalogs: Catalogs,
    installation: Installation,
    tell: Callable[[str], None],
    counted: Count,
) -> None:
    trial = _Trial(cluster, database, conn, catalogs)
    for number in range(EXAMPLES):
        commands = generated_schemas.script(f"{SEED} {number}", installation.version_num // 10000)
        taken = trial.make(commands)
        try:
            trial.check()
        except (AssertionError, psycopg.Error) as error:
            if SHRINK:
                taken = _smaller(trial, taken, error)
            error.add_note(f"seed {SEED}, schema {number}:\n" + ";\n".join(taken))
            raise
        trial.clear()
    tell(f"seed {SEED}: {dict(trial.outcomes)}")
    counted({"templates": trial.outcomes["templates cloned"], "commands": trial.outcomes["commands"]})
    # of a few, most may be of a kind that is refused
    assert trial.outcomes["templates cloned"] >= (EXAMPLES - 3) * 0.75


AMBIGUOUS = {
    "check": ("ALTER TABLE t ADD CHECK ('a' = ANY (m))",),
    "index": ("CREATE INDEX ON t (i) WHERE 'a' = ANY (m)",),
    "view": ("CREATE VIEW v AS SELECT i FROM t WHERE 'a' = ANY (m)",),
    "materialized view": ("CREATE MATERIALIZED VIEW v AS SELECT i FROM t WHERE 'a' = ANY (m)",),
    "rule": ("CREATE RULE r AS ON DELETE TO t WHERE 'a' = ANY (OLD.m) DO INSTEAD NOTHING",),
    "policy": ("CREATE POLICY p ON t USING ('a' = ANY (m))",),
    "trigger": (
        "CREATE FUNCTION fired() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'",
        "CREATE TRIGGER g BEFORE INSERT ON t FOR EACH ROW WHEN ('a' = ANY (NEW.m)) EXECUTE FUNCTION fired()",
    ),
}


@pytest.mark.parametrize("kind", AMBIGUOUS)
def test_what_has_become_ambiguous(
    cluster: Cluster, database: str, conn: Connection, catalogs: Catalogs, kind: str
) -> None:
    """A clone of what PostgreSQL could not restore either ends with PostgreSQL's error, and leaves nothing."""
    trial = _Trial(cluster, database, conn, catalogs)
    made = ("CREATE TYPE mood AS ENUM ('a', 'b')", "CREATE TABLE t (i integer, m mood[])", *AMBIGUOUS[kind])
    trial.make(made)
    trial.check()
    assert trial.outcomes["templates cloned"] == 1
    trial.clear()
    trial.make([*made, "CREATE CAST (mood AS smallint) WITH INOUT AS IMPLICIT"])
    assert trial.outcomes["commands refused"] == 0
    trial.check()
    assert trial.outcomes[MISUNDERSTOOD] == 1
    assert conn.execute("SELECT nspname FROM pg_namespace WHERE nspname ~ '^clone_'").fetchall() == []
    trial.clear()


def _smaller(trial: _Trial, commands: list[str], error: Exception) -> list[str]:
    """Fewer commands that fail in the same way."""

    def fails(some_commands: list[str]) -> bool:
        trial.clear()
        trial.make(some_commands)
        try:
            trial.check()
        except (AssertionError, psycopg.Error) as again:
            return _kind(again) == _kind(error)
        return False

    size = len(commands) // 2
    while size > 0:
        at = 0
        while at < len(commands):
            fewer = commands[:at] + commands[at + size :]
            if fails(fewer):
                commands = fewer
            else:
                at += size
        size //= 2
    return commands


def _kind(error: Exception) -> str:
    """What an error is about, without the names in it."""
    first = str(error).split("\n", 1)[0]
    shortened = re.sub(r"[0-9]+|\"[^\"]*\"", "", first)[:60]
    return f"{type(error).__name__} {shortened}"

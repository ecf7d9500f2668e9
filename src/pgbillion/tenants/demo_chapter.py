"""The chapter of the demo about tenants: a shop's schema, cloned, compared and migrated, beside the commands for it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import AbstractContextManager

from psycopg import sql

from pgbillion.common import search_path, text
from pgbillion.common.meter import meter
from pgbillion.common.sql import load
from pgbillion.common.target import Target
from pgbillion.report.chapter import Chapter
from pgbillion.tenants import create, diff, migrate, schemas, script

# chapters are in the order of their names: this one comes last
NAME = "tenants"
_MODEL, _PATTERN = "shop", r"tenant\_%"
_MOST, _BY_COMMANDS = 300, 10
# a small demo, as in a test, is small in all its parts
_TABLES_PER_TENANT = 100
_MIGRATION = "ALTER TABLE orders ADD COLUMN note text; CREATE INDEX ON orders (changed)"


def make(target: Target, tables: int) -> Chapter:
    """Make the model and its clones, compare and migrate them, print what was seen, and return the chapter."""
    count = max(_BY_COMMANDS, min(_MOST, tables // _TABLES_PER_TENANT))
    workers = os.cpu_count() or 1
    commands = load("tenants", "demo_model")
    with target.connect() as conn, search_path.users(conn):
        seconds = []
        for schema in (_MODEL, *(f"by_commands_{number}" for number in range(_BY_COMMANDS))):
            start = time.perf_counter()
            with conn.transaction():
                conn.execute(sql.SQL("CREATE SCHEMA {0}; SET LOCAL search_path = {0}").format(sql.Identifier(schema)))
                conn.execute(commands.encode())
            seconds.append(time.perf_counter() - start)
        # the first of a session reads what all need
        alone = sum(seconds[1:]) / _BY_COMMANDS
        relations = _relations(conn.execute(load("tenants", "demo_relations").encode(), [_MODEL]).fetchall())
    steps = [("by the model's commands", _BY_COMMANDS, alone * _BY_COMMANDS, "one session")]
    made = create.execute(
        target, create.Request(_MODEL, create.DEFAULT_FORMAT, 0, count, workers), observe=_observe("cloned")
    )
    steps.append(("cloned", made.created, made.seconds, text.many(workers, "session")))
    with target.connect() as conn:
        names = schemas.select(conn, _PATTERN)
    compared = diff.compare(target, _MODEL, names, workers, observe=_observe("compared"))
    like = f"{text.count(compared.same)} like the model"
    steps.append(("compared", compared.tenants, compared.seconds, like))
    request = migrate.Request(script.load([], [_MIGRATION]), workers)
    migrated = migrate.run(target, request, names, observe=_observe("migrated"))
    steps.append(("migrated", migrated.done, migrated.seconds, f"{text.count(len(migrated.failures))} failed"))
    for name, number, took, more in steps:
        print(f"{name}: {text.many(number, 'tenant')}, {text.duration(took / number)} each, {more}")
    return Chapter(
        "A schema for each tenant",
        f"A shop's schema of {relations}. Its commands in a transaction for each tenant take "
        f"{text.duration(alone)}; a clone takes {text.duration(made.seconds / made.created)}, by "
        f"{text.many(workers, 'session')}. Then all were compared with the model, and migrated, each in a transaction "
        f"that also notes it: {_MIGRATION}.",
        ["", "tenants", "in all", "each", ""],
        [
            [name, text.count(number), text.duration(took), text.duration(took / number), more]
            for name, number, took, more in steps
        ],
    )


def _relations(rows: list[tuple[int, ...]]) -> str:
    nouns = ("tables", "indexes", "views", "sequences", "foreign keys")
    return text.listed([f"{number} {noun}" for number, noun in zip(rows[0], nouns, strict=True)])


def _observe(word: str) -> Callable[[int], AbstractContextManager[Callable[[int], None]]]:
    return lambda total: meter(total, word, noun="tenants")

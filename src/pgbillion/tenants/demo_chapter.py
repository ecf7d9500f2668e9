"""The demo's chapter on tenants: a shop's schema, cloned, compared and migrated, beside PostgreSQL's programs."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from psycopg import sql

from pgbillion.common import search_path, text
from pgbillion.common.meter import meter
from pgbillion.common.sql import load
from pgbillion.common.target import Target
from pgbillion.report.chapter import Bar, Bars, Chapter, Figure, Group
from pgbillion.server import extension
from pgbillion.tables import programs
from pgbillion.tenants import create, diff, migrate, schemas, script

MODEL = "shop"
MOST = 200
# schemas that each psql makes
_BY_PSQL = 8
# a small demo, as in a test, is small in all its parts
_TABLES_PER_TENANT = 100
_MIGRATION = "ALTER TABLE orders ADD COLUMN note text; CREATE INDEX ON orders (changed)"


def make(target: Target, bindir: Path, tables: int) -> Chapter:
    """Make the model and its clones, compare and migrate them, and return the chapter."""
    workers = max(1, os.cpu_count() or 1)
    # each half is a worker's at least
    count = max(2 * workers, min(MOST, tables // _TABLES_PER_TENANT))
    relations = _make_model(target)
    by_psql = _clone_by_psql(target, bindir / "psql", workers)
    heap = _clone(target, count, workers)
    with target.connect() as conn:
        names = schemas.select(conn, "tenant_*")
    compared = diff.compare(target, MODEL, names, workers, observe=_observe("compared"))
    dumped = programs.run(
        bindir / "pg_dump", target, [(["--schema-only", "--schema", name], "") for name in names[:workers]]
    )
    half = names[: len(names) // 2], names[len(names) // 2 :]
    fed = programs.feed(bindir / "psql", target, [_migrations(half[0][index::workers]) for index in range(workers)])
    request = migrate.Request(script.load([], [_MIGRATION]), workers)
    migrated = migrate.run(target, request, half[1], observe=_observe("migrated"))
    lazy = _clone(target, count, workers, "lazy_%05d", "lazy_heap")
    clones = [("", by_psql, heap), (", lazy", by_psql, lazy)]
    figures = [
        *(Figure(f"clone schemas{more}", theirs, ours, "schemas") for more, theirs, ours in clones),
        Figure("compare schemas with the model", dumped / workers, compared.seconds / len(names), "schemas"),
        Figure("migrate schemas", fed / len(half[0]), migrated.seconds / len(half[1]), "schemas"),
    ]
    wrong = len(names) - compared.same + len(migrated.failures)
    agreed = (
        f"All {text.count(len(names))} clones equal the model"
        if not wrong
        else f"{text.count(compared.same)} of {text.count(len(names))} clones equal the model, and "
        f"{text.count(len(migrated.failures))} migrations failed"
    )
    return Chapter(
        "A schema for each tenant",
        f"The model is the schema of a shop: {relations}. psql creates it from a script, one transaction for each "
        f"tenant; pgbillion clones it. Both use {text.many(workers, 'session')}.",
        figures=figures,
        chart=Bars(
            "Schemas cloned per second",
            [Group("", [_bar("PostgreSQL", by_psql), _bar("pgbillion", heap), _bar("pgbillion, lazy", lazy)])],
        ),
        remark=f"{agreed}. Compare: PostgreSQL is pg_dump --schema-only of one tenant, without the comparison itself. "
        f"Migrate: {_MIGRATION}. psql runs it as written; pgbillion also records each tenant in the same transaction, "
        "so that an interrupted run never applies it twice. Lazy tables have no file until their first row.",
        name="tenants",
    )


def durable(target: Target, psql: Path, tables: int) -> Figure:
    """Make the model and a few clones on another server, and return what a clone takes there."""
    workers = max(1, os.cpu_count() or 1)
    _make_model(target)
    by_psql = _clone_by_psql(target, psql, workers)
    count = max(workers, min(MOST // 2, tables // _TABLES_PER_TENANT))
    return Figure("clone schemas", by_psql, _clone(target, count, workers), "schemas")


def _bar(name: str, seconds: float) -> Bar:
    return Bar(name, 1 / seconds, f"{text.brief(1 / seconds)}/s")


def _make_model(target: Target) -> str:
    """Make the model; return what is in it."""
    with target.connect() as conn, search_path.restored(conn):
        extension.ensure_extension(conn, extension.TABLES)
        with conn.transaction():
            conn.execute(sql.SQL("CREATE SCHEMA {0}; SET LOCAL search_path = {0}").format(sql.Identifier(MODEL)))
            conn.execute(load("tenants", "demo_model").encode())
        rows = conn.execute(load("tenants", "demo_relations").encode(), [MODEL]).fetchall()
    nouns = ("tables", "indexes", "views", "sequences", "foreign keys")
    return text.listed([f"{number} {noun}" for number, noun in zip(rows[0], nouns, strict=True)])


def _clone_by_psql(target: Target, psql: Path, workers: int) -> float:
    """Return the seconds for each schema."""
    commands = load("tenants", "demo_model")
    scripts = [
        "".join(
            f"BEGIN; CREATE SCHEMA {name}; SET LOCAL search_path = {name};\n{commands}\nCOMMIT;\n"
            for name in (f"by_psql_{worker}_{number}" for number in range(_BY_PSQL))
        )
        for worker in range(workers)
    ]
    return programs.feed(psql, target, scripts) / (workers * _BY_PSQL)


def _clone(
    target: Target, count: int, workers: int, names: str = create.DEFAULT_FORMAT, method: str | None = None
) -> float:
    """Return the seconds for each schema."""
    request = create.Request(MODEL, names, 0, count, workers, access_method=method)
    made = create.execute(target, request, observe=_observe("cloned"))
    return made.seconds / made.created


def _migrations(names: list[str]) -> str:
    return "".join(f"BEGIN; SET LOCAL search_path = {name};\n{_MIGRATION};\nCOMMIT;\n" for name in names)


def _observe(word: str) -> Callable[[int], AbstractContextManager[Callable[[int], None]]]:
    return lambda total: meter(total, word, noun="tenants")

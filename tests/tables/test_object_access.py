"""A module that is told of each object: what it would not see is refused, or done by commands."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from harness import neighbour, subject
from harness.clones import by_commands, prepare, reasons
from harness.servers import one
from pgbillion.common.connection import Connection
from pgbillion.server.postgres import Cluster, Installation

UNSEEN = "an audit or security module would not see each table"


@pytest.fixture(scope="module")
def library(installation: Installation) -> Iterator[Path]:
    with neighbour.library(installation) as made:
        yield made


@pytest.fixture
def watched(cluster: Cluster, database: str, library: Path, conn: Connection) -> Iterator[Connection]:
    """A session in which such a module is."""
    conn.execute("CREATE SCHEMA model; CREATE TABLE model.template (i int PRIMARY KEY); CREATE SCHEMA target")
    with cluster.connect(database) as watched:
        watched.execute(f"LOAD '{library}'".encode())
        watched.execute(
            f"CREATE FUNCTION pg_temp.seen() RETURNS bigint LANGUAGE c AS '{library}', 'neighbour_creations'".encode()
        )
        watched.execute("SET neighbour.watches = on")
        yield watched


def test_tables(watched: Connection) -> None:
    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match=UNSEEN):
        subject.create_tables(watched, "model.template", schema="target", count=2)
    assert one(watched, "SELECT count(*) FROM pg_class WHERE relnamespace = 'target'::regnamespace") == 0
    assert subject.create_tables(watched, "model.template", schema="target", count=2, allow_unobserved=True) == 2

    tables = (
        "(SELECT array_agg(oid::regclass) FROM pg_class WHERE relnamespace = 'target'::regnamespace AND relkind = 'r')"
    )
    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match=UNSEEN):
        watched.execute(f"SELECT pgbillion_tables.drop_tables({tables})".encode())
    assert one(watched, f"SELECT pgbillion_tables.drop_tables({tables}, allow_unobserved => true)") == 2

    watched.execute("SET neighbour.watches = off")
    assert subject.create_tables(watched, "model.template", schema="target", count=2) == 2
    assert one(watched, f"SELECT pgbillion_tables.drop_tables({tables})") == 2


def test_clones(watched: Connection, conn: Connection) -> None:
    """Nothing that was prepared, or learned, takes the place of commands."""
    assert prepare(conn, "model")
    assert not by_commands(conn, "model", "stamped")
    before = one(watched, "SELECT pg_temp.seen()")
    assert by_commands(watched, "model", "tenant")
    # the schema, the table with its two types, the index and its constraint, at least
    assert one(watched, "SELECT pg_temp.seen()") >= before + 4
    told = reasons(watched)
    assert not prepare(watched, "model")
    assert one(watched, "SELECT pgbillion_tables.clone_schemas('model'::regnamespace, 'many%d', 1, 4)") == 4
    assert told == ['all clones of template "model" are made by commands: others rely on seeing the commands'] * 2

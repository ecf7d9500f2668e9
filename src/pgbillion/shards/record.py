"""What `pgbillion shards create` made: kept in the state folder, and marked in every database.

A set is a table on a coordinator and its parts on the members. All objects carry the set's mark as a comment, and only
what carries it is ever dropped.
"""

from __future__ import annotations

import contextlib
import enum
import json
import secrets
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from psycopg import sql
from psycopg.conninfo import make_conninfo

from pgbillion.common import invocation
from pgbillion.common.connection import Connection
from pgbillion.common.errors import UserError
from pgbillion.common.target import Target
from pgbillion.rows import generate, load
from pgbillion.server import describe
from pgbillion.server.postgres import SUPERUSER, Cluster, Installation, make_folder

FOLDER = "shards"
_FILE, _SOCKETS = "set.json", "s"
_FIRST_PORT = 5433


class Engine(enum.StrEnum):
    """What distributes the table."""

    FDW = "fdw"
    CITUS = "citus"


@dataclass(frozen=True)
class Member:
    """A shard's server.

    ``name`` is that of the foreign server and of the partition, ``schema`` where the table is on the shard. ``options``
    are libpq's, without secrets; ``user`` is the role on the shard. ``own`` says that the server is our own, on
    this machine; ``joined`` that it became a node of Citus for this set.
    """

    name: str
    options: dict[str, str]
    user: str
    schema: str = "public"
    own: bool = False
    joined: bool = False

    @property
    def target(self) -> Target:
        """How to reach it."""
        parts: dict[str, Any] = {"connect_timeout": "10", **self.options, "user": self.user}
        return Target(make_conninfo(fallback_application_name="pgbillion", **parts), self.display)

    @property
    def display(self) -> str:
        """Where it is, for people."""
        return make_conninfo(**{**self.options, "user": self.user})


@dataclass(frozen=True)
class Layout:
    """Which rows are where: the ids of partition p are those with ((id - 1) / block) % partitions = p.

    Rows go round the partitions a block at a time, so that each has as many of them, of all groups.
    """

    rows: int  # a partition
    partitions: int

    @property
    def runs(self) -> int:
        """How many blocks a partition has."""
        return -(-self.rows // generate.BLOCK)

    @property
    def block(self) -> int:
        """Ids of a block."""
        return -(-self.rows // self.runs)

    @property
    def last_id(self) -> int:
        """The last id of the last round, to go on after."""
        return self.runs * self.partitions * self.block

    @property
    def wide(self) -> bool:
        """Tell whether ids need a bigint."""
        return self.last_id > load.INT_MAX

    def ids(self, partition: int) -> list[tuple[int, int]]:
        """Return the runs of ids that a partition has: the first, and how many. The last round may leave gaps."""
        firsts = [(number * self.partitions + partition) * self.block + 1 for number in range(self.runs)]
        return [(first, min(self.block, self.rows - number * self.block)) for number, first in enumerate(firsts)]

    def key(self) -> sql.Composed:
        """Return the partition key."""
        return sql.SQL("((id - 1) / {} % {})").format(self.block, self.partitions)


@dataclass(frozen=True)
class Set:
    """All of it.

    ``coordinator`` is its database's identity (see describe.identity), ``embedded`` whether that is the embedded
    server's, ``complete`` is false while the set is made. With ``local``, the coordinator has the last partition.
    """

    id: str
    table: str
    schema: str
    engine: Engine
    coordinator: dict[str, Any]
    embedded: bool
    members: tuple[Member, ...]
    layout: Layout
    groups: int
    seed: int
    local: bool = False
    installation: dict[str, Any] | None = None  # of our own servers
    complete: bool = False

    @property
    def mark(self) -> str:
        """The comment that says whose an object is."""
        return f"made by pgbillion shards, set {self.id}"

    @property
    def local_name(self) -> str:
        """The coordinator's own partition."""
        return f"{self.table}_local"

    @property
    def relation(self) -> sql.Identifier:
        """The table on the coordinator."""
        return sql.Identifier(self.schema, self.table)

    @property
    def rows(self) -> int:
        """How many rows were loaded."""
        return self.layout.rows * self.layout.partitions

    def folder(self, state: Path) -> Path:
        """Where its record and its own servers are."""
        return state / FOLDER / self.id

    def clusters(self, state: Path) -> list[Cluster]:
        """Return the servers that are ours."""
        if self.installation is None:
            return []
        installation, folder = Installation.from_json(self.installation), self.folder(state)
        return [
            Cluster(installation, folder / str(number), folder / _SOCKETS, _FIRST_PORT + number)
            for number, member in enumerate(self.members)
            if member.own
        ]

    def save(self, state: Path) -> None:
        """Write the record, at once or not at all."""
        folder = self.folder(state)
        make_folder(folder)
        unfinished = folder / f"{_FILE}.new"
        unfinished.write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")
        unfinished.replace(folder / _FILE)

    def completed(self, state: Path) -> Set:
        """Return it as complete, and keep that."""
        done = replace(self, complete=True)
        done.save(state)
        return done


def new_id() -> str:
    """Return an id for a set."""
    return secrets.token_hex(4)


def own_members(table: str, state: Path, id_: str, count: int, database: str) -> tuple[Member, ...]:
    """Return members that are our own servers, yet to be made (see Set.clusters)."""
    sockets = state / FOLDER / id_ / _SOCKETS
    return tuple(
        Member(
            name=member_name(table, number),
            options={"host": str(sockets), "port": str(_FIRST_PORT + number), "dbname": database},
            user=SUPERUSER,
            own=True,
        )
        for number in range(count)
    )


def member_name(table: str, number: int) -> str:
    """Return the name of a shard, numbered from 0."""
    return f"{table}_{number + 1}"


def all_sets(state: Path) -> Iterator[Set]:
    """Return every set that the state folder knows of."""
    for path in sorted((state / FOLDER).glob(f"*/{_FILE}")):
        with contextlib.suppress(FileNotFoundError):
            values = json.loads(path.read_text(encoding="utf-8"))
            values["engine"] = Engine(values["engine"])
            values["members"] = tuple(Member(**member) for member in values["members"])
            values["layout"] = Layout(**values["layout"])
            yield Set(**values)


def find(conn: Connection, state: Path, table: str, *, unfinished: bool = False) -> Set:
    """Return the set of a table on this coordinator. Raises UserError when there is none, or one half made."""
    here = describe.identity(conn)
    for found in all_sets(state):
        if found.table == table and same(found.coordinator, here):
            if not found.complete and not unfinished:
                raise UserError(
                    f'the shards of "{table}" were not completed: creating them is under way, or was killed',
                    "wait for it, or remove what there is: "
                    + invocation.command("shards", "destroy", "--table", table),
                )
            return found
    others = "".join(f"; set {found.id} is of {found.table}" for found in all_sets(state))
    raise UserError(
        f'there are no shards of a table "{table}" in database {here["database"]}, made with state directory {state}',
        f"make some: {invocation.command('shards', 'create', '--table', table)}; or name the table with --table,"
        f" the directory with --state-dir{others}",
    )


def same(one: dict[str, Any], two: dict[str, Any]) -> bool:
    """Tell whether two identities are of one database."""
    return all(one[name] == two[name] for name in ("system_identifier", "database_oid"))

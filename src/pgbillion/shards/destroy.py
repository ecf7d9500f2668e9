"""Remove a set: what carries its mark, and its own servers; nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from pgbillion.common.errors import UserError
from pgbillion.common.target import Target
from pgbillion.common.together import at_once
from pgbillion.server import describe
from pgbillion.shards import citus, coordinator, members, record, servers
from pgbillion.shards.record import Engine, Member, Set


@dataclass(frozen=True)
class Outcome:
    """What was removed; ``abandoned`` is where it could not be, and stays."""

    table: str
    shards: int
    own_servers: int
    abandoned: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON's types."""
        return {
            "table": self.table,
            "shards": self.shards,
            "own_servers": self.own_servers,
            "abandoned": list(self.abandoned),
        }


def execute(target: Target, state: Path, found: Set, *, abandon: bool = False) -> Outcome:
    """Remove it: first what is on the coordinator, then on the shards, then our own servers and the record.

    Interrupted or failed, it can be called again. With ``abandon`` what is on members that cannot be reached, or on a
    coordinator that is not there, is left as it is.
    """
    gone = not _drop_on_coordinator(target, found, abandon)
    # Citus has dropped its nodes' tables with its own
    left = [] if found.engine is Engine.CITUS else [one for one in found.members if not one.own]
    lost = at_once(lambda member: _drop(found, member, abandon), left)
    servers.remove(state, found)
    return Outcome(
        table=found.table,
        shards=len(found.members),
        own_servers=sum(member.own for member in found.members),
        abandoned=(*(["the coordinator"] if gone else []), *(name for name in lost if name is not None)),
    )


def _drop_on_coordinator(target: Target, found: Set, abandon: bool) -> bool:
    """Drop what is on the coordinator; tell whether that was done."""
    try:
        with target.connect() as conn:
            if not record.same(found.coordinator, describe.identity(conn)):
                if abandon:
                    return False
                raise UserError(
                    f"set {found.id} is of another coordinator, in a database {found.coordinator['database']}",
                    "connect to that; or --abandon what is there",
                )
            if found.engine is Engine.CITUS:
                citus.drop(conn, found)
            else:
                coordinator.drop(conn, found)
    except psycopg.OperationalError:
        if not abandon:
            raise
        return False
    return True


def _drop(found: Set, member: Member, abandon: bool) -> str | None:
    try:
        members.drop(found, member)
    except psycopg.OperationalError as error:
        if not abandon:
            raise UserError(
                f"shard {member.name} ({member.display}) cannot be reached: {members.first_line(error)}",
                "start it and do this again; or --abandon its table there",
                2,
            ) from error
        return member.name
    return None


def find(target: Target, state: Path, table: str, id_: str | None = None) -> Set:
    """Return the set to remove, complete or not: that of a table on this coordinator, or the one with this id."""
    if id_ is not None:
        for found in record.all_sets(state):
            if found.id == id_:
                return found
        known = ", ".join(f"{found.id} ({found.table})" for found in record.all_sets(state)) or "none"
        raise UserError(f"there is no set {id_} in {state}", f"there are: {known}")
    with target.connect() as conn:
        return record.find(conn, state, table, unfinished=True)

"""Make a set: servers, the table on all of them, and rows, loaded into all at the same time; all of it or nothing."""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from psycopg import sql

from pgbillion.common import extras, invocation, search_path, text, together
from pgbillion.common.connection import Connection
from pgbillion.common.errors import UserError
from pgbillion.common.target import Target
from pgbillion.rows import load
from pgbillion.server import describe, embedded
from pgbillion.server.postgres import Installation
from pgbillion.shards import citus, coordinator, destroy, members, record, servers, status
from pgbillion.shards.record import Engine, Layout, Member, Set

MOST = 1000
DEFAULT_COUNT = 4
# that copy into one partition
MOST_SESSIONS = 4


@dataclass(frozen=True)
class Request:
    """What to make. ``given`` are connection strings of the user's servers; without them ``count`` are made.

    ``rows`` are each partition's. ``pg_config`` is of the PostgreSQL for our own servers.
    """

    rows: int
    count: int = DEFAULT_COUNT
    given: tuple[str, ...] = ()
    table: str = load.TABLE
    groups: int = 10
    local: bool = False
    seed: int | None = None
    engine: Engine = Engine.FDW
    pg_config: Path | None = None

    def check(self) -> None:
        """Raise UserError for numbers that cannot be."""
        if not 1 <= len(self.given or range(self.count)) <= MOST:
            raise UserError(f"there can be 1 to {text.count(MOST)} shards, not {text.count(self.count)}")
        if not 1 <= self.rows <= load.INT_MAX:
            raise UserError(f"a shard can have 1 to {text.count(load.INT_MAX)} rows, not {text.count(self.rows)}")
        if not 1 <= self.groups <= load.INT_MAX:
            raise UserError(f"there can be 1 to {text.count(load.INT_MAX)} groups, not {text.count(self.groups)}")


@dataclass(frozen=True)
class Outcome:
    """What was made, in seconds and bytes."""

    made: Set
    servers_seconds: float
    copy_seconds: float
    index_seconds: float
    vacuum_seconds: float
    table_bytes: int
    analyzed: bool

    @property
    def rate(self) -> float:
        """Rows per second while they were copied."""
        return self.made.rows / self.copy_seconds

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON's types."""
        made = self.made
        return {
            "set": made.id,
            "table": made.table,
            "engine": made.engine,
            "shards": [{"name": member.name, "address": member.display, "own": member.own} for member in made.members],
            "local": made.local,
            "rows": made.rows,
            "rows_per_shard": made.layout.rows,
            "groups": made.groups,
            "seed": made.seed,
            "servers_seconds": self.servers_seconds,
            "copy_seconds": self.copy_seconds,
            "index_seconds": self.index_seconds,
            "vacuum_seconds": self.vacuum_seconds,
            "rows_per_second": round(self.rate),
            "table_bytes": self.table_bytes,
            "analyzed": self.analyzed,
        }


def execute(
    target: Target,
    state: Path,
    request: Request,
    *,
    observe: Callable[[int], contextlib.AbstractContextManager[Callable[[int], None]]],
    say: Callable[[str], None],
) -> Outcome:
    """Make all of it. ``observe`` is as load.execute has it.

    When anything fails, or is interrupted, it is removed again; what could not be, `destroy` removes later.
    """
    request.check()
    extras.need(extras.NUMPY)
    with target.connect() as conn:
        coordinator.check(conn, request.table, request.engine)
        if request.engine is Engine.CITUS:
            citus.check(conn)
        made = _plan(conn, target, state, request)
        made.save(state)
        try:
            return _make(conn, target, state, made, observe, say)
        except BaseException:
            say("removing what was made")
            try:
                destroy.execute(target, state, made)
            except Exception as error:
                again = invocation.command("shards", "destroy", "--table", made.table)
                say(f"not all of it could be removed ({error}); to do so: {again}")
            raise


def _plan(conn: Connection, target: Target, state: Path, request: Request) -> Set:
    """Check all that can be checked before anything is made."""
    here = describe.identity(conn)
    for other in record.all_sets(state):
        if other.table == request.table and record.same(other.coordinator, here):
            gone = invocation.command("shards", "destroy", "--table", request.table)
            raise UserError(
                f'there are shards of "{request.table}" already'
                + ("" if other.complete else ", not completed: creating them is under way, or was killed"),
                f"remove them: {gone}; or give another name with --table",
            )
    schema = search_path.schema(conn)
    # `coordinator.check` has seen it
    assert schema is not None
    if search_path.qualified(conn, request.table) is not None:
        raise UserError(f'a table "{request.table}" exists already', "give another name with --table")
    id_ = record.new_id()
    installation: Installation | None = None
    chosen: tuple[Member, ...]
    if request.given:
        chosen = members.resolve(request.given, request.table)
        _check_apart(chosen, here)
    else:
        servers.check_room(state, request.count)
        installation = _installation(conn, target, state, request.pg_config)
        # Citus has one name for the database on all servers
        database = here["database"] if request.engine is Engine.CITUS else "postgres"
        chosen = record.own_members(request.table, state, id_, request.count, database)
    if request.engine is Engine.CITUS:
        chosen = citus.plan(conn, chosen, here["database"], local=request.local)
    layout = Layout(request.rows, len(chosen) + request.local)
    if not request.given:
        load.check_room(conn, request.rows * layout.partitions)
    return Set(
        id=id_,
        table=request.table,
        schema=schema,
        engine=request.engine,
        coordinator=here,
        embedded=target.embedded,
        members=chosen,
        layout=layout,
        groups=request.groups,
        seed=secrets.randbits(32) if request.seed is None else request.seed,
        local=request.local,
        installation=installation.to_json() if installation is not None else None,
    )


def _check_apart(chosen: tuple[Member, ...], here: dict[str, Any]) -> None:
    for member in chosen:
        with member.target.connect() as there:
            if describe.identity(there) == here:
                raise UserError(
                    f"shard {member.name} ({member.display}) is the coordinator's own database",
                    "have rows there, too, with --local",
                )


def _installation(conn: Connection, target: Target, state: Path, pg_config: Path | None) -> Installation:
    """Return the PostgreSQL for our own servers: the embedded server's for its shards, else the one asked for."""
    own = embedded.find(state) if target.embedded else None
    if own is not None and pg_config is None:
        pg_config = own.installation.source
    installation = Installation.prepare(state, pg_config)
    major = conn.info.server_version // 10000
    if installation.major != major:
        raise UserError(
            f"the coordinator is PostgreSQL {major}, and shards would be {installation.version}: states of aggregates"
            " only travel between servers of one major version",
            f"name pg_config of PostgreSQL {major} with --pg-config",
        )
    return installation


def _make(
    conn: Connection,
    target: Target,
    state: Path,
    made: Set,
    observe: Callable[[int], contextlib.AbstractContextManager[Callable[[int], None]]],
    say: Callable[[str], None],
) -> Outcome:
    begin = time.perf_counter()
    clusters = made.clusters(state)
    if clusters:
        say(f"making {len(clusters)} servers")
        libraries = citus.LIBRARY if made.engine is Engine.CITUS else ""
        servers.make(clusters, embedded.memory(), made.layout.partitions, libraries)
    if made.engine is Engine.CITUS:
        citus.prepare(made)
        citus.make(conn, made)
        work = citus.shares(target, made)
    else:
        members.make(made)
        coordinator.make(conn, made)
        work = _shares(target, made)
    start = time.perf_counter()
    with observe(made.rows) as update:
        load.copy(work, made.groups, made.seed, update)
        update(made.rows)
    copied = time.perf_counter()
    say("indexing")
    places = list({share.table.as_string(None) + share.target.conninfo: share for share in work}.values())
    _everywhere(places, "CREATE INDEX ON {} (id)")
    conn.execute(
        "SELECT setval(pg_get_serial_sequence(%s, 'id'), %s)", [made.relation.as_string(conn), made.layout.last_id]
    )
    indexed = time.perf_counter()
    say("vacuuming")
    _everywhere(places, "VACUUM (FREEZE, ANALYZE) {}")
    analyzed = coordinator.gather_statistics(conn, made)
    vacuumed = time.perf_counter()
    sizes = [one.size or 0 for one in status.ask(made)]
    if made.local:
        sizes.append(_size(places[-1]))
    return Outcome(
        made=made.completed(state),
        servers_seconds=start - begin,
        copy_seconds=copied - start,
        index_seconds=indexed - copied,
        vacuum_seconds=vacuumed - indexed,
        table_bytes=sum(sizes),
        analyzed=analyzed,
    )


def _shares(target: Target, made: Set) -> list[load.Share]:
    """Divide the rows: at least a session for each partition, and as many as there are cores."""
    sessions = min(MOST_SESSIONS, -(-(os.cpu_count() or 1) // made.layout.partitions))
    places: list[tuple[Target, sql.Identifier]] = [
        (member.target, sql.Identifier(member.schema, made.table)) for member in made.members
    ]
    if made.local:
        places.append((target, coordinator.local_table(made)))
    shares: list[load.Share] = []
    for partition, (where, table) in enumerate(places):
        ids = made.layout.ids(partition)
        pieces = [ids[number::sessions] for number in range(sessions)]
        shares += [load.Share(where, table, piece, made.layout.wide) for piece in pieces if piece]
    return shares


def _everywhere(places: Sequence[load.Share], statement: Any) -> None:
    with together.team(len(places)) as team:
        for future in [team.start(_run, team, share, statement) for share in places]:
            future.result()


def _run(team: together.Team, share: load.Share, statement: Any) -> None:
    with share.target.connect() as conn:
        team.session(conn)
        # a page is not marked all-visible until the commit of its rows is in the log on disk
        conn.execute("SET synchronous_commit = local")
        conn.execute(sql.SQL(statement).format(share.table))


def _size(share: load.Share) -> int:
    with share.target.connect() as conn:
        row = conn.execute("SELECT pg_total_relation_size(%s::regclass)", [share.table.as_string(conn)]).fetchone()
        assert row is not None
        return int(row[0])

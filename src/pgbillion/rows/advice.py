"""Which columns of which tables to index with the access method `columns`, for some queries and a budget of disk."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import psycopg

from pgbillion.common import planner, text
from pgbillion.common.connection import Connection
from pgbillion.common.quoting import quoted
from pgbillion.common.sql import load
from pgbillion.rows import columns, sizes, workload
from pgbillion.rows.columns import MOST_COLUMNS, Index
from pgbillion.rows.sizes import Column, Estimate, Piece
from pgbillion.rows.workload import Counted, Planned, Query

BLOCK = 8192
# an index begins with a segment of this number of blocks: reading a smaller table takes next to nothing
_LEAST_BLOCKS = 128
# of a table that has not been vacuumed, VACUUM comes first
_VISIBLE = 0.9
# with more of the blocks changed between two runs of VACUUM an index is hardly read
_TOO_STALE = 0.5
# columns that take more of the table's bytes than this are as well read from it
_LEAST_SAVED = 0.25
_DOCUMENTS = ("json", "jsonb")


@dataclass(frozen=True)
class Table:
    """A table that queries read, or a partitioned one with its partitions, and what is known of it.

    ``changed_blocks`` are the changes of blocks from one VACUUM to the next: a HOT update changes one, any other the
    old row's and the new one's. Without an ``estimate`` there is a ``refusal``.
    """

    oid: int
    schema: str
    name: str
    partitioned: bool
    pieces: tuple[Piece, ...]
    visible_blocks: int
    updates: int
    hot_updates: int
    changed_blocks: float
    columns: tuple[Column, ...]
    estimate: Estimate | None
    refusal: str
    may_create: bool = True

    @property
    def identifier(self) -> str:
        """The name, qualified and quoted."""
        return quoted(self.schema, self.name)

    @property
    def blocks(self) -> int:
        """The blocks of all pieces."""
        return sum(piece.blocks for piece in self.pieces)

    @property
    def bytes(self) -> int:
        """The bytes of all pieces."""
        return self.blocks * BLOCK

    @property
    def visible_share(self) -> float:
        """The share of blocks that VACUUM has marked all-visible."""
        return min(1.0, self.visible_blocks / self.blocks) if self.blocks else 1.0

    @property
    def first(self) -> str | None:
        """The command to run before an index is made, None where there is nothing to do."""
        return f"VACUUM {self.identifier}" if self.visible_share < _VISIBLE else None

    @property
    def stale_share(self) -> float:
        """The share of blocks that change from one VACUUM to the next, if changes are spread over the table."""
        # those that are hit at least once
        return 1 - math.exp(-self.changed_blocks / self.blocks) if self.blocks else 0.0

    def documents(self, names: Iterable[str]) -> list[str]:
        """Return those of some columns that hold JSON documents, of which queries rarely want all."""
        chosen = set(names)
        return [one.name for one in self.columns if one.name in chosen and one.builtin and one.type in _DOCUMENTS]

    def in_order(self, names: Iterable[str]) -> list[str]:
        """Return names of columns in the table's order."""
        chosen = set(names)
        return [column.name for column in self.columns if column.name in chosen]


@dataclass
class _Need:
    """Columns of a table that queries need together, and what they read of the table for them."""

    table: Table
    columns: frozenset[str]
    queries: set[int] = field(default_factory=set)
    calls: int = 0
    bytes_read: float = 0.0  # of the heap, in all calls
    state: str = ""  # what has become of it

    @property
    def saved(self) -> float:
        """Bytes of heap that are not read with an index, in all calls."""
        return self.bytes_read * self.saved_share

    @property
    def saved_share(self) -> float:
        """The share of the heap's bytes that is not read with an index."""
        assert self.table.estimate is not None
        share = self.table.estimate.read_bytes(self.columns) / self.table.bytes
        return max(0.0, 1 - share) * (1 - self.table.stale_share)


@dataclass
class _Proposal:
    """An index to be made, in place of another if there is one."""

    table: Table
    columns: frozenset[str]
    replaces: Index | None

    @property
    def bytes(self) -> int:
        """Its size; columns that were not looked at are in the index that it replaces."""
        estimate = self.table.estimate
        assert estimate is not None
        known = self.columns & estimate.columns.keys()
        return estimate.bytes_of(known) + (0 if known == self.columns or not self.replaces else self.replaces.bytes)

    @property
    def more_bytes(self) -> int:
        """Bytes of disk that it takes in addition to what is there."""
        return self.bytes - (self.replaces.bytes if self.replaces else 0)


@dataclass(frozen=True)
class Keeping:
    """What to know where indexes are created without anybody looking.

    ``mine`` are the OIDs of indexes that may be replaced. ``removed`` has for tables, by OID, the columns of indexes
    that were created so and then dropped by hand, with the days on which they were created.
    """

    mine: frozenset[int]
    removed: Mapping[int, Sequence[tuple[frozenset[str], str]]]


@dataclass(frozen=True)
class Advised:
    """An index to be made. ``oid`` and ``pieces`` are the table's.

    ``saved_bytes`` are bytes of heap that the queries then do not read, in all their calls; ``written_bytes`` those of
    the index and of its WAL, to create it.
    """

    oid: int
    schema: str
    table: str
    columns: tuple[str, ...]
    bytes: int
    table_bytes: int
    sampled: bool
    written_bytes: int
    queries: int
    calls: int
    reasons: tuple[dict[str, Any], ...]
    saved_bytes: int
    visible_share: float
    first: str | None
    stale_share: float
    updates: int
    hot_updates: int
    replaces: tuple[str, ...]
    afterwards: tuple[str, ...]
    superseded: tuple[int, ...]
    create: str
    may_create: bool
    notes: tuple[str, ...]
    partitioned: bool
    pieces: tuple[tuple[str, str], ...]

    @property
    def share(self) -> float:
        """The index's bytes per byte of the table."""
        return self.bytes / self.table_bytes if self.table_bytes else 0.0

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON's types."""
        return {
            **{name: list(value) if isinstance(value, tuple) else value for name, value in vars(self).items()},
            "share": round(self.share, 4),
        }


@dataclass(frozen=True)
class Advice:
    """Indexes to be made, in the order of what they save per byte, and what becomes of each query."""

    budget: int | None
    indexes: tuple[Advised, ...]
    queries: tuple[tuple[Query, str], ...]
    others_left_out: int = 0
    superusers_left_out: int = 0
    hidden: int = 0
    kept_out: tuple[str, ...] = ()

    @property
    def bytes(self) -> int:
        """Bytes of all indexes."""
        return sum(one.bytes for one in self.indexes)

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON's types."""
        return {
            "budget": self.budget,
            "bytes": self.bytes,
            "indexes": [one.to_json() for one in self.indexes],
            "queries": [
                {"query": query.text, "calls": query.calls, "where": query.where, "outcome": outcome}
                for query, outcome in self.queries
            ],
            "others_left_out": self.others_left_out,
            "superusers_left_out": self.superusers_left_out,
            "hidden": self.hidden,
            "kept_out": list(self.kept_out),
        }


def advise(
    conn: Connection,
    queries: Sequence[Query],
    budget: int | None,
    *,
    strict: bool,
    counted: Counted | None = None,
    keeping: Keeping | None = None,
) -> Advice:
    """Find the indexes that save most bytes of heap per byte of disk, as long as the budget lasts.

    Nothing is run except EXPLAIN and queries of our own, in a read-only transaction that is rolled back. With
    ``keeping``, what nobody would want to be created unseen is not advised.
    """
    conn.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    try:
        planned = workload.plan(conn, queries, strict=strict)
        needs = _needs(conn, planned)
        there = columns.indexes(conn, sorted({need.table.oid for need in needs}))
    finally:
        if conn.info.transaction_status != psycopg.pq.TransactionStatus.IDLE and not conn.closed:
            conn.execute("ROLLBACK")
    for need in needs:
        need.state = _refusal(need) or _covered(need, there)
    kept_out = []
    for need in needs:
        if keeping is not None and not need.state:
            need.state = _kept_out(need, there, keeping)
            kept_out += [need.state] if need.state else []
    replaceable = [index for index in there if keeping is None or index.oid in keeping.mine]
    proposals = _choose(needs, replaceable, budget)
    return Advice(
        budget,
        tuple(_advised(proposal, needs, there, planned) for proposal in proposals),
        tuple((one.query, _outcome(number, one, needs)) for number, one in enumerate(planned)),
        *((counted.others, counted.superusers, counted.hidden) if counted else (0, 0, 0)),
        tuple(dict.fromkeys(kept_out)),
    )


# ---- what queries need ----


def _needs(conn: Connection, planned: Sequence[Planned]) -> list[_Need]:
    """Return what the queries need, each set of columns of a table once."""
    names = {(read.schema, read.table) for one in planned for read in one.reads}
    oids = {name: oid for name in names if (oid := _oid(conn, *name)) is not None}
    with planner.through_indexes(conn):
        rows = conn.execute(load("rows", "tables").encode(), {"tables": sorted(set(oids.values()))}).fetchall()
    roots = {row[4]: row[0] for row in rows}
    # what was created or dropped since the transaction began is left for the next time
    known = {name: oid for name, oid in oids.items() if oid in roots}
    wanted: dict[int, list[frozenset[str]]] = {}
    for one in planned:
        for read in one.reads:
            if (read.schema, read.table) in known:
                wanted.setdefault(roots[known[read.schema, read.table]], []).append(read.columns)
    tables = {root: _table(conn, [row for row in rows if row[0] == root], sets) for root, sets in wanted.items()}
    blocks = {piece.oid: piece.blocks for table in tables.values() for piece in table.pieces}
    needs: dict[tuple[int, frozenset[str]], _Need] = {}
    for number, one in enumerate(planned):
        for read in one.reads:
            if (read.schema, read.table) not in known:
                continue
            oid = known[read.schema, read.table]
            table = tables[roots[oid]]
            need = needs.setdefault((table.oid, read.columns), _Need(table, read.columns))
            if number not in need.queries:
                need.queries.add(number)
                need.calls += one.query.calls
            need.bytes_read += one.query.calls * BLOCK * blocks.get(oid, 0)
    return list(needs.values())


def _oid(conn: Connection, schema: str, name: str) -> int | None:
    """Return the OID of a table of a plan, None if the transaction does not see it (any more, or yet)."""
    row = conn.execute(
        "SELECT c.oid::int8 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
        " WHERE n.nspname = %s AND c.relname = %s",
        [schema, name],
    ).fetchone()
    return None if row is None else int(row[0])


def _table(conn: Connection, rows: Sequence[tuple[Any, ...]], wanted: Sequence[frozenset[str]]) -> Table:
    """Return a table from the rows of sql/tables.sql that are its, with the sizes of columns that are wanted."""
    root, schema, name, partitioned = rows[0][:4]
    indexable = [row for row in rows if row[7] and row[8] > 0]
    pieces = tuple(Piece(row[4], row[5], row[6], row[8], max(row[11], 0) / max(row[9], 1)) for row in indexable)
    known = sizes.columns_of(conn, root)
    # a query that only counts rows reads an index of whichever column
    chosen = {name for names in wanted for name in names} | {_narrowest(known) for names in wanted if not names}
    refusal = ""
    if not any(row[7] for row in rows):
        refusal = "columnar indexes are for heap tables"
    elif sum(piece.blocks for piece in pieces) < _LEAST_BLOCKS:
        refusal = "the table is small"
    return Table(
        oid=root,
        schema=schema,
        name=name,
        partitioned=partitioned,
        pieces=pieces,
        visible_blocks=sum(row[10] for row in indexable),
        updates=sum(row[12] for row in indexable),
        hot_updates=sum(row[13] for row in indexable),
        changed_blocks=sum((row[13] + 2 * (row[12] - row[13]) + row[14]) / (row[15] + 1) for row in indexable),
        columns=tuple(known),
        estimate=None if refusal else sizes.estimate(conn, pieces, [one for one in known if one.name in chosen]),
        refusal=refusal,
        may_create=all(row[16] for row in rows),
    )


def _narrowest(known: Sequence[Column]) -> str:
    return min(known, key=lambda column: (column.length if column.length > 0 else math.inf, column.number)).name


def _refusal(need: _Need) -> str:
    """Return why no index serves a need, empty when one can."""
    table = need.table
    if table.estimate is None:
        return table.refusal
    if len(need.columns) > MOST_COLUMNS:
        return f"it needs {len(need.columns)} columns of {table.identifier}, and an index has at most {MOST_COLUMNS}"
    absent = table.in_order(need.columns & table.estimate.absent)
    if absent:
        return f"values of {', '.join(absent)} of {table.identifier} are too long: no index has them"
    if table.stale_share > _TOO_STALE:
        return (
            f"{table.identifier} changes too much: {text.count(table.updates)} updates, and about"
            f" {table.stale_share:.0%} of its blocks from one VACUUM to the next"
        )
    if need.saved_share < _LEAST_SAVED:
        return f"its columns are nearly all of {table.identifier}"
    return ""


def _covered(need: _Need, there: Sequence[Index]) -> str:
    """Return which index that is there serves a need, empty without one."""
    for index in _usable(there, need.table):
        if need.columns <= set(index.columns):
            return f"{index.identifier} has its columns"
    held = {index.table for index in there if index.valid and need.columns <= set(index.columns)}
    if need.table.partitioned and all(piece.oid in held for piece in need.table.pieces):
        return f"indexes of the partitions of {need.table.identifier} have its columns"
    return ""


def _kept_out(need: _Need, there: Sequence[Index], keeping: Keeping) -> str:
    """Return why nobody would want an index for a need to be created unseen, empty when it may be."""
    table = need.table
    if not table.may_create:
        return f"only the owner of {table.identifier}, with CREATE on its schema, can create an index on it"
    if table.first is not None:
        return f"{table.first} first: {table.visible_share:.0%} of its blocks are all-visible"
    documents = table.documents(need.columns)
    if documents:
        return (
            f"{', '.join(documents)} of {table.identifier} would be copied as a whole: create an index of the"
            " expressions that queries use"
        )
    for index in there:
        if not index.valid and index.root == table.oid:
            return f"{index.identifier} is not valid, as an interrupted build leaves it: {index.drop}"
    for names, day in keeping.removed.get(table.oid, ()):
        if need.columns <= names:
            return f"an index of these columns of {table.identifier} that was created on {day} was dropped by hand"
    return ""


def _usable(there: Sequence[Index], table: Table) -> list[Index]:
    """Return the indexes that hold for a whole table."""
    return [index for index in there if index.valid and index.table == table.oid]


# ---- the choice ----


def _choose(needs: Sequence[_Need], there: Sequence[Index], budget: int | None) -> list[_Proposal]:
    """Return the indexes to be made, best first: each time the one that saves most bytes of heap per byte of disk.

    A step makes an index, or widens one, that is there or was chosen before.
    """
    chosen: list[_Proposal] = []
    while True:
        open_needs = [need for need in needs if not need.state]
        steps = [step for need in open_needs if (step := _step(need, open_needs, chosen, there)) is not None]
        spent = sum(proposal.more_bytes for proposal in chosen)
        affordable = [step for step in steps if budget is None or spent + step.cost <= budget]
        if not affordable:
            break
        best = max(affordable, key=lambda step: (step.saved / max(step.cost, BLOCK), step.saved))
        if best.widened is not None:
            chosen[chosen.index(best.widened)] = best.proposal
        else:
            chosen.append(best.proposal)
        for need in open_needs:
            if need.table is best.proposal.table and need.columns <= best.proposal.columns:
                need.state = ADVISED
    for need in needs:
        if not need.state:
            need.state = f"the budget does not suffice for its columns of {need.table.identifier}"
    return chosen


ADVISED = "advised"


@dataclass(frozen=True)
class _Step:
    """A proposal, in place of one chosen before if there is one; bytes of disk, and bytes of heap saved."""

    proposal: _Proposal
    widened: _Proposal | None
    cost: int
    saved: float


def _step(
    need: _Need, open_needs: Sequence[_Need], chosen: Sequence[_Proposal], there: Sequence[Index]
) -> _Step | None:
    """Return the cheapest way to serve a need."""
    table = need.table
    assert table.estimate is not None
    ways: list[tuple[_Proposal, _Proposal | None]] = []
    for proposal in chosen:
        if proposal.table is table:
            ways.append((_Proposal(table, proposal.columns | need.columns, proposal.replaces), proposal))
    taken = [proposal.replaces for proposal in chosen]
    for index in _usable(there, table):
        # of columns whose size was not asked for, the index itself tells; expressions nobody but its owner knows
        if index not in taken and set(index.columns) <= {column.name for column in table.columns}:
            ways.append((_Proposal(table, need.columns | set(index.columns), index), None))
    ways.append((_Proposal(table, need.columns or frozenset({_narrowest(table.columns)}), None), None))
    possible = [
        (proposal.more_bytes - (widened.more_bytes if widened else 0), proposal, widened)
        for proposal, widened in ways
        if len(proposal.columns) <= MOST_COLUMNS
    ]
    if not possible:
        return None
    cost, proposal, widened = min(possible, key=lambda way: way[0])
    saved = sum(one.saved for one in open_needs if one.table is table and one.columns <= proposal.columns)
    return _Step(proposal, widened, cost, saved)


# ---- what is told ----


# queries that are shown as the reason for an index: those with most calls
_REASONS = 3


def _advised(
    proposal: _Proposal, needs: Sequence[_Need], there: Sequence[Index], planned: Sequence[Planned]
) -> Advised:
    table = proposal.table
    assert table.estimate is not None
    served = [
        need for need in needs if need.state == ADVISED and need.table is table and need.columns <= proposal.columns
    ]
    superfluous = [index for index in _usable(there, table) if set(index.columns) <= proposal.columns]
    names = tuple(table.in_order(proposal.columns))
    queries = sorted(set().union(*(need.queries for need in served)), key=lambda number: -planned[number].query.calls)
    notes = []
    if not table.estimate.sampled:
        notes.append("the size is estimated from types and statistics, as its rows could not be looked at")
    if table.documents(names):
        first = table.documents(names)[0]
        notes.append(
            f"{first} has documents, which are copied as a whole: an index of the expressions that queries use, such as"
            f" ({quoted(first)} ->> 'key'), is smaller"
        )
    if not table.may_create:
        notes.append(f"only the owner of {table.identifier}, with CREATE on its schema, can create it")
    if table.stale_share >= 0.1:
        notes.append(f"about {table.stale_share:.0%} of its blocks change from one VACUUM to the next")
    return Advised(
        oid=table.oid,
        schema=table.schema,
        table=table.name,
        columns=names,
        bytes=proposal.bytes,
        table_bytes=table.bytes,
        sampled=table.estimate.sampled,
        # its pages, and their images in WAL
        written_bytes=2 * proposal.bytes,
        queries=len(queries),
        reasons=tuple(
            {"query": planned[number].query.text, "calls": planned[number].query.calls} for number in queries[:_REASONS]
        ),
        calls=sum(need.calls for need in served),
        saved_bytes=round(sum(need.saved for need in served)),
        visible_share=round(table.visible_share, 4),
        first=table.first,
        stale_share=round(table.stale_share, 4),
        updates=table.updates,
        hot_updates=table.hot_updates,
        replaces=tuple(index.identifier for index in superfluous),
        afterwards=tuple(index.drop for index in superfluous),
        superseded=tuple(index.oid for index in superfluous),
        may_create=table.may_create,
        create=columns.create_command(table.schema, table.name, names),
        notes=tuple(notes),
        partitioned=table.partitioned,
        pieces=tuple((piece.schema, piece.name) for piece in table.pieces),
    )


def _outcome(number: int, planned: Planned, needs: Sequence[_Need]) -> str:
    """Say in a line what becomes of a query."""
    states = [need.state for need in needs if number in need.queries]
    if states:
        return "; ".join(dict.fromkeys(states))
    return planned.reason or "a table that it reads was created or dropped meanwhile"

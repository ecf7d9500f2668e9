"""What a plan will need of a server, and whether the server has it, before anything is written."""

from __future__ import annotations

import math
import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from pgbillion.common import text
from pgbillion.common.connection import Connection
from pgbillion.common.errors import UserError
from pgbillion.common.host import FileSystem, Host
from pgbillion.tables import probe
from pgbillion.tables.plan import Method, Plan
from pgbillion.tables.probe import Cost

FIRST_NORMAL_OID = 16384
OIDS = 2**32 - FIRST_NORMAL_OID
MAX_RELATION_BYTES = 2**32 * 8192  # block numbers have 32 bits
# From here to the wraparound point a server assigns no transaction ids (xidStopLimit in varsup.c).
XID_RESERVE = 3_000_000
XIDS = 2**31
_DIRECTORY_ENTRY = 32  # bytes of a file's name in its folder, with the free space that folders keep
_MARGIN = 1.05  # of disk space, for what others need meanwhile

Unit = Literal["bytes", "count", "seconds"]


@dataclass(frozen=True)
class Item:
    """One thing needed. ``None``: cannot be known here. ``grows`` tells what makes it larger."""

    name: str
    unit: Unit
    need: int | None
    available: int | None
    note: str
    grows: Literal["count", "batch", ""] = ""

    @property
    def fits(self) -> bool | None:
        """Tell whether there is enough; None when one of the two is not known, or nothing limits it."""
        if self.need is None or self.available is None:
            return None
        return self.need <= self.available


@dataclass(frozen=True)
class Limit:
    """How many tables of this model one database can hold for one reason."""

    tables: int
    reason: str


@dataclass(frozen=True)
class Estimate:
    """The estimate of one plan on one server."""

    plan: Plan
    cost: Cost
    server: str
    local: bool
    items: list[Item]
    limits: list[Limit] = field(default_factory=list)

    @property
    def fits(self) -> bool:
        """Tell whether nothing is known to be missing."""
        return all(item.fits is not False for item in self.items)

    def to_json(self) -> dict[str, Any]:
        """Return the estimate as JSON's types."""
        cost = self.cost
        return {
            "plan": self.plan.to_json(),
            "server": self.server,
            "local": self.local,
            "per_table": {
                "catalog_rows": cost.rows,
                "index_entries": cost.entries,
                "catalog_bytes": round(cost.catalog_bytes),
                "files": cost.files,
                "file_bytes": round(cost.file_bytes),
                "wal_bytes": round(cost.wal_bytes),
                "locks": cost.locks,
                "seconds": cost.seconds,
                "catalogs": [asdict(use) for use in cost.catalogs],
            },
            "items": [{**asdict(item), "fits": item.fits} for item in self.items],
            "limits": [asdict(limit) for limit in self.limits],
            "fits": self.fits,
        }


def estimate(
    conn: Connection, plan: Plan, host: Host | None, folders: Sequence[Path] = (), remaining: int | None = None
) -> Estimate:
    """Estimate a plan.

    ``folders`` are where tablespaces that do not exist yet would be made; ``remaining`` is less than the plan's count
    when a run is resumed. Raises psycopg.Error when the server refuses to make a table of the plan.
    """
    cost = probe.measure(conn, plan, host is not None)
    count = plan.count if remaining is None else remaining
    facts = _facts(conn)
    items = [
        *_disk(conn, plan, cost, count, host, folders, facts),
        *_oids(conn, cost, count),
        _transactions(plan, count, facts),
        _locks(plan, cost, facts),
        _memory(plan, cost, host),
        _wal(cost, count, facts),
        _time(plan, cost, count, host),
    ]
    row = conn.execute("SELECT version()").fetchone()
    assert row is not None
    return Estimate(plan, cost, row[0], host is not None, items, _limits(cost))


def refuse_unfit(result: Estimate) -> None:
    """Raise UserError, saying what would fit, when something is known to be missing."""
    missing = [item for item in result.items if item.fits is False]
    if not missing:
        return
    words = "; ".join(
        f"{item.name}: {_amount(item, item.need)} needed, {_amount(item, item.available)} available" for item in missing
    )
    advice: list[str] = []
    for quantity, option in (("count", "--count"), ("batch", "--batch")):
        shares = [
            item.available / item.need for item in missing if item.grows == quantity and item.need and item.available
        ]
        of = result.plan.count if quantity == "count" else result.plan.batch
        # two digits are all that an estimate is good for
        if shares and (most := math.floor(of * min(shares))) > 0:
            digits = 10 ** max(0, len(str(most)) - 2)
            advice.append(f"{option} {most // digits * digits} would fit")
    advice.append("--force goes ahead all the same")
    raise UserError(f"this cannot fit: {words}", "; ".join(advice))


def room(result: Estimate) -> str:
    """Return a line about the disk that tables take."""
    disks = []
    for item in result.items:
        if item.name == "disk" and item.need is not None:
            free = f", {text.size(item.available)} free" if item.available is not None else ""
            disks.append(f"{text.size(item.need)} of disk ({item.note}{free})")
    return f"{text.many(result.plan.count, 'table')} will take about {text.listed(disks)}"


def _amount(item: Item, value: int | None) -> str:
    return format_amount(item.unit, value)


def format_amount(unit: Unit, value: int | None) -> str:
    """Return a value of an item for people."""
    if value is None:
        return "unknown"
    return {"bytes": text.size, "count": text.count, "seconds": text.duration}[unit](value)


def _facts(conn: Connection) -> dict[str, int]:
    """Ask for the settings and states that the items need; privileges of an ordinary role suffice."""
    row = conn.execute(
        """
        SELECT current_setting('max_locks_per_transaction')::bigint
                   * (current_setting('max_connections')::bigint
                      + current_setting('max_prepared_transactions')::bigint),
               pg_size_bytes(current_setting('max_wal_size')),
               current_setting('autovacuum_freeze_max_age')::bigint,
               (SELECT max(age(datfrozenxid)) FROM pg_database),
               (SELECT count(*) FROM pg_replication_slots),
               (SELECT count(*) FROM pg_stat_replication),
               (current_setting('archive_mode') <> 'off')::int
        """
    ).fetchone()
    assert row is not None
    names = ("locks", "max_wal_size", "freeze_max_age", "age", "slots", "standbys", "archiving")
    return dict(zip(names, map(int, row), strict=True))


def _disk(
    conn: Connection,
    plan: Plan,
    cost: Cost,
    count: int,
    host: Host | None,
    folders: Sequence[Path],
    facts: Mapping[str, int],
) -> list[Item]:
    """Sum up bytes and files by the file system they go to."""
    file_bytes = round((cost.file_bytes + cost.files * _DIRECTORY_ENTRY) * count)
    catalog_bytes = round(cost.catalog_bytes * count)
    wal = round(cost.wal_bytes * count)
    # WAL is recycled once it is checkpointed, unless somebody still has to get it
    if not facts["slots"] and not facts["archiving"]:
        wal = min(wal, facts["max_wal_size"])
    files = round(cost.files * count)
    none = [Item("files (inodes)", "count", 0, None, "lazy tables get their files with their first rows")]
    if host is None:
        note = "the server is not on this machine: what its file systems have cannot be seen from here"
        return [
            Item("disk", "bytes", file_bytes + catalog_bytes + wal, None, note, "count"),
            *([Item("files (inodes)", "count", files, None, note, "count")] if files else none),
        ]
    systems: dict[int, FileSystem] = {}
    bytes_needed: dict[int, float] = defaultdict(float)
    files_needed: dict[int, float] = defaultdict(float)
    parts: dict[int, set[str]] = defaultdict(set)

    def charge(system: FileSystem | None, part: str, size: float, number: float) -> None:
        key = system.device if system else -1
        if system:
            systems[key] = system
        bytes_needed[key] += size
        files_needed[key] += number
        parts[key].add(part)

    charge(host.filesystem(), "catalogs", catalog_bytes, 0)
    charge(host.wal_filesystem(), "write-ahead log", wal, 0)
    homes = _homes(conn, plan, host, folders) if files else []
    for home in homes:
        charge(home, "files of tables", file_bytes / len(homes), files / len(homes))

    items: list[Item] = []
    for key, size in bytes_needed.items():
        system, what = systems.get(key), ", ".join(sorted(parts[key]))
        where = f"{what} on {system.mount} ({system.kind})" if system else f"{what}: their directory may not be seen"
        free = system.free if system else None
        items.append(Item("disk", "bytes", math.ceil(size * _MARGIN), free, where, "count"))
        if files_needed[key]:
            note = f"{cost.files:g} per table: {where}"
            if system and system.files is None:
                note += ", which makes inodes as it needs them"
            free_files = system.files_free if system else None
            items.append(Item("files (inodes)", "count", math.ceil(files_needed[key]), free_files, note, "count"))
    return items if files else [*items, *none]


def _homes(conn: Connection, plan: Plan, host: Host, folders: Sequence[Path]) -> list[FileSystem | None]:
    """Return the file system of each tablespace, or of the database's own."""
    if not plan.tablespaces:
        row = conn.execute(
            "SELECT pg_tablespace_location(dattablespace) FROM pg_database WHERE datname = current_database()"
        ).fetchone()
        return [host.filesystem(Path(row[0]) if row and row[0] else None)]
    known: dict[str, str] = dict(
        conn.execute(
            "SELECT spcname, pg_tablespace_location(oid) FROM pg_tablespace WHERE spcname = ANY (%s)",
            [list(plan.tablespaces)],
        ).fetchall()
    )
    homes: list[FileSystem | None] = []
    for index, name in enumerate(plan.tablespaces):
        if name in known:
            folder = Path(known[name])
            if not folder.is_absolute() and host.data_directory:  # made in place, below the data directory
                folder = host.data_directory / folder
        elif folders:
            folder = folders[index % len(folders)]
        else:
            homes.append(None)
            continue
        while not folder.exists() and folder != folder.parent:
            folder = folder.parent
        homes.append(host.filesystem(folder))
    return homes


_WITH_OIDS = ("pg_class", "pg_type", "pg_constraint", "pg_attrdef", "pg_statistic_ext")


def _oids(conn: Connection, cost: Cost, count: int) -> list[Item]:
    """Take the catalog that needs most: OIDs are unique within each."""
    users = [use for use in cost.catalogs if use.catalog in _WITH_OIDS]
    most = max(users, key=lambda use: use.rows)
    row = conn.execute("SELECT pg_relation_size(%s::regclass)", [most.catalog]).fetchone()
    assert row is not None
    present = round(row[0] / (most.row_bytes / most.rows))
    spent = round(sum(use.rows for use in users) * count)
    note = f"{most.rows:g} per table in {most.catalog}, the catalog that needs most of them; {text.count(spent)} in all"
    if spent > OIDS:
        note += ": the counter goes round, and then looks for free ones"
    return [Item("OIDs", "count", math.ceil(most.rows * count), OIDS - present, note, "count")]


def _transactions(plan: Plan, count: int, facts: Mapping[str, int]) -> Item:
    if plan.method is Method.SQL:
        need, note = count, "one per table"
    else:
        need = sum(math.ceil(share.count / plan.batch) for share in plan.shares())
        note = f"one per batch of {text.count(plan.batch)} tables"
    if facts["age"] + need > facts["freeze_max_age"]:
        note += (
            f"; beyond autovacuum_freeze_max_age ({text.count(facts['freeze_max_age'])}) vacuums against wraparound"
            " start, even with autovacuum off"
        )
    return Item("transaction ids", "count", need, XIDS - XID_RESERVE - facts["age"], note, "count")


def _locks(plan: Plan, cost: Cost, facts: Mapping[str, int]) -> Item:
    per_transaction = cost.locks * (1 if plan.method is Method.SQL else plan.batch)
    need = math.ceil(per_transaction * plan.workers) + 100
    note = "held at once by all workers; the table of locks has max_locks_per_transaction × max_connections"
    return Item("locks", "count", need, facts["locks"], note, "batch" if plan.method is Method.BULK else "")


def _memory(plan: Plan, cost: Cost, host: Host | None) -> Item:
    if host is None or cost.memory is None or cost.backend_memory is None:
        note = "the server is not on this machine: the memory of its backends cannot be seen from here"
        return Item("memory", "bytes", None, None, note)
    # with method sql each table is a transaction, at whose end the backend forgets it
    together = 1 if plan.method is Method.SQL else min(plan.batch, math.ceil(plan.count / plan.workers))
    each = cost.backend_memory + cost.memory * together
    note = f"private memory of {plan.workers} backends, {text.size(each)} each"
    grows: Literal["batch", ""] = "batch" if plan.method is Method.BULK else ""
    return Item("memory", "bytes", math.ceil(each * plan.workers), host.available_memory(), note, grows)


def _wal(cost: Cost, count: int, facts: Mapping[str, int]) -> Item:
    need = round(cost.wal_bytes * count)
    rounds = need / facts["max_wal_size"]
    note = f"{text.size(cost.wal_bytes)} per table; {rounds:.1f} × max_wal_size, so about as many checkpoints."
    files = f" and make {text.count(cost.files * count)} files in one process" if cost.files else ""
    if facts["standbys"]:
        note += f" {facts['standbys']} standby server(s) will receive all of it{files},"
        note += " which may take longer than it takes here"
    else:
        note += f" A standby would receive all of it{files}"
    if facts["slots"]:
        note += f"; {facts['slots']} replication slot(s) keep it on disk until it was received"
    return Item("write-ahead log", "bytes", need, None, note, "count")


def _time(plan: Plan, cost: Cost, count: int, host: Host | None) -> Item:
    alone = cost.seconds * count
    cores = (os.cpu_count() or 1) if host else plan.workers
    together = alone / min(plan.workers, cores)
    note = f"if {text.many(plan.workers, 'worker')} never wait for one another"
    if plan.workers > 1:
        note += f"; {text.duration(alone)} if they always do"
    if cost.files:
        note += ". File systems slow down as files become many"
    return Item("time", "seconds", math.ceil(together), None, note, "count")


def _limits(cost: Cost) -> list[Limit]:
    users = {use.catalog: use.rows for use in cost.catalogs if use.catalog in _WITH_OIDS}
    catalog, most = max(users.items(), key=lambda user: user[1])
    largest = max(cost.catalogs, key=lambda use: use.row_bytes)
    reasons = {
        "the OID counter goes round for the first time: from then on it has to look for free OIDs, which is slower"
        f" but works (a table takes {sum(users.values()):g} OIDs)": OIDS / sum(users.values()),
        f"OIDs are unique within a catalog, and {catalog} has {most:g} rows per table: no more than this, ever": OIDS
        / most,
        f"{largest.catalog} reaches 32 TB, the limit of one relation": MAX_RELATION_BYTES / largest.row_bytes,
    }
    return sorted((Limit(math.floor(tables), reason) for reason, tables in reasons.items()), key=lambda at: at.tables)

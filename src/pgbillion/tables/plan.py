"""What a run will make: how many tables, named how, in which batches, by which worker, in which tablespace.

Nothing here talks to a server: a plan is arithmetic, so that the same plan gives the same work after a crash.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from pgbillion.common.errors import UserError
from pgbillion.tables.names import NameFormat

# The source's ladder of databases by number of tables.
LADDER = {
    "SLST": 1,  # Schema-Less-Like, Single-Table
    "EDNECRM": 2,  # Extremely De-Normalized Enterprise CRM
    "S": 20,
    "M": 80,
    "L": 200,
    "XL": 1_000,
    "ORMGW": 5_000,  # ORMs Gone Wild
    "MT": 50_000,  # Multi-Tenancy
    "MMT": 1_000_000,  # Massive Multi-Tenancy
    "BTP": 1_000_000_000,  # Billion Tables Project
}

DEFAULT_FORMAT = "_%08x"
DEFAULT_COLUMNS = "i integer"
MAX_WORKERS = 1024


class Method(StrEnum):
    """How tables are made."""

    BULK = "bulk"  # pgbillion_tables.create_tables of the extension: catalog rows written in bulk
    SQL = "sql"  # CREATE TABLE statements streamed to psql: the source's way, and for servers without the extension


class Storage(StrEnum):
    """How tables are stored."""

    HEAP = "heap"
    LAZY = "lazy"  # lazy_heap of the extension: heap whose files appear with the first row

    @property
    def access_method(self) -> str:
        """The server's name for it."""
        return "lazy_heap" if self is Storage.LAZY else "heap"


# A bulk batch is a transaction: large enough that its fixed cost does not matter, small enough that an interrupt loses
# little and that progress is seen.  An sql batch is a psql process and the turn of one tablespace.
DEFAULT_BATCH = {Method.BULK: 1_000, Method.SQL: 10_000}


@dataclass(frozen=True)
class Batch:
    """Tables first … first+count-1; ``number`` counts from 0 within the worker's share."""

    number: int
    first: int
    count: int


@dataclass(frozen=True)
class Share:
    """The contiguous range of one worker; ``worker`` counts from 0."""

    worker: int
    first: int
    count: int

    def batches(self, size: int, done: int = 0) -> Iterator[Batch]:
        """Yield what is left after the first ``done`` tables.

        Batches begin at multiples of ``size`` from the start of the share; one that was begun is completed first, under
        its own number, so that tablespaces fall as they would have without the interruption.
        """
        while done < self.count:
            number = done // size
            end = min((number + 1) * size, self.count)
            yield Batch(number, self.first + done, end - done)
            done = end


@dataclass(frozen=True)
class Wish:
    """What a request and the plan made of it have in common."""

    count: int
    workers: int
    method: Method = Method.BULK
    first: int = 0
    name_format: str = DEFAULT_FORMAT
    template: str | None = None  # of a plan: schema-qualified and quoted; None when columns are given
    columns: str | None = None  # what stands between the parentheses of CREATE TABLE
    allow_unobserved: bool = False
    storage: Storage = Storage.HEAP


@dataclass(frozen=True, kw_only=True)
class Plan(Wish):
    """A run, complete: written to the run's folder before the first table and never changed."""

    batch: int
    schema: str
    tablespaces: Sequence[str] = ()

    @property
    def names(self) -> NameFormat:
        return NameFormat.parse(self.name_format)

    @property
    def definition(self) -> str:
        """The model of the tables, for people."""
        return f"LIKE {self.template}" if self.template else f"({self.columns})"

    def shares(self) -> list[Share]:
        """Return one contiguous range a worker, together exactly the plan's numbers; sizes differ by one at most."""
        each, rest = divmod(self.count, self.workers)
        shares: list[Share] = []
        first = self.first
        for worker in range(self.workers):
            count = each + (worker < rest)
            shares.append(Share(worker, first, count))
            first += count
        return shares

    def tablespace(self, worker: int, batch: int) -> str | None:
        """Return the tablespace of one psql's tables, as in the source: no two workers meet if there are enough."""
        return self.tablespaces[(batch + worker) % len(self.tablespaces)] if self.tablespaces else None

    def rotated_tablespaces(self, worker: int, batch: int) -> list[str] | None:
        """Return the tablespaces for one call of create_tables(), which takes them in turn table by table."""
        if not self.tablespaces:
            return None
        turn = (batch + worker) % len(self.tablespaces)
        return [*self.tablespaces[turn:], *self.tablespaces[:turn]]

    def check(self) -> None:
        """Raise UserError for what the source's btp-main.sh refused, and what it should have."""
        self.names.check_range(self.first, self.count)
        if not 1 <= self.workers <= MAX_WORKERS:
            raise UserError(f"the number of jobs must be between 1 and {MAX_WORKERS:,}, not {self.workers:,}")
        if self.batch < 1:
            raise UserError(f"the number of tables per batch must be at least 1, not {self.batch:,}")
        if self.workers > self.count:
            raise UserError(
                f"{self.workers:,} workers for {self.count:,} tables: some would have nothing to do",
                f"use --jobs {self.count} or fewer.",
            )
        if self.tablespaces and len(self.tablespaces) < self.workers:
            raise UserError(
                f"the number of tablespaces ({len(self.tablespaces):,}) should be equal to or greater than"
                f" the number of workers ({self.workers:,})",
                f"use --tablespaces {self.workers} or more, or --jobs {len(self.tablespaces)} or fewer.",
            )
        if (self.template is None) == (self.columns is None):
            raise UserError("give either --template or --columns, not both")

    def to_json(self) -> dict[str, Any]:
        """Return the plan as JSON's types."""
        kinds = {"method": self.method.value, "storage": self.storage.value}
        return {**asdict(self), **kinds, "tablespaces": list(self.tablespaces)}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Plan:
        """Return the plan that to_json gave."""
        # a run begun before there was a choice has heap tables
        kinds = {"method": Method(values["method"]), "storage": Storage(values.get("storage", Storage.HEAP))}
        return cls(**{**values, **kinds, "tablespaces": tuple(values["tablespaces"])})


def count_from(count: int | None, ladder: str | None) -> int:
    """Return the number of tables asked for by --count or --type. Raises UserError unless exactly one is given."""
    if (count is None) == (ladder is None):
        raise UserError("give either --count or --type", "as in --count 500k")
    if ladder is not None:
        try:
            return LADDER[ladder.upper()]
        except KeyError:
            raise UserError(f'there is no database type "{ladder}"', f"types: {ladder_text()}.") from None
    assert count is not None
    return count


def ladder_text() -> str:
    """Return the ladder as one line."""
    return ", ".join(f"{name} {count:,}" for name, count in LADDER.items())


def tablespace_names(count: int) -> tuple[str, ...]:
    """Return _000, _001, … as in the source. Raises UserError when negative."""
    if count < 0:
        raise UserError(f"the number of tablespaces must not be negative: {count}")
    return tuple(f"_{number:03x}" for number in range(count))


_COUNT = re.compile(r"([0-9]+(?:[_,][0-9]{3})*)([kKmMgGbB]?)")


def parse_count(text: str, what: str = "tables") -> int:
    """Return a number that people write as 1000000, 1_000_000, 1,000,000, 500k, 10M, 1G or 1B."""
    match = _COUNT.fullmatch(text.strip())
    if match is None:
        if re.fullmatch(r"-[0-9]{1,30}", text.strip()):
            return int(text)
        raise UserError(f'"{text}" is not a number of {what}', "examples: 50000, 1_000_000, 500k, 10M.")
    scale = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "b": 10**9}[match[2].lower()]
    digits = match[1].replace("_", "").replace(",", "")
    # PostgreSQL numbers nothing beyond 64 bits, and Python reads no number of thousands of digits
    if len(digits) > 30 or int(digits) * scale >= 2**63:
        raise UserError(f"{text[:40]} {what} are more than 64 bits can count", "examples: 50000, 500k, 10M, 1B.")
    return int(digits) * scale

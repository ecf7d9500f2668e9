"""SERIALIZABLE around the first row: interleavings of two and three transactions end as on heap.

Of two transactions every one is tried. Of three PGBILLION_TEST_INTERLEAVINGS are, a program (default 40; all takes
every one, some minutes), and PGBILLION_TEST_SEED repeats the choice.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import random
from collections.abc import Callable, Iterator, Sequence

import pytest

from harness import interleaved, servers
from harness.amount import Count, amount, share
from harness.interleaved import Outcome, Reader
from harness.lazy import run
from pgbillion.common.connection import Connection
from pgbillion.server.postgres import Cluster

EVERY_ONE = os.environ.get("PGBILLION_TEST_INTERLEAVINGS") == "all"
LIMIT = None if EVERY_ONE else amount("PGBILLION_TEST_INTERLEAVINGS", 40, 5)
SEED = int(os.environ.get("PGBILLION_TEST_SEED") or random.SystemRandom().randrange(2**31))
_numbers = itertools.count(1)

INDEX = "SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_indexonlyscan = off"
INDEX_ONLY = "SET enable_seqscan = off; SET enable_bitmapscan = off"
BITMAP = "SET enable_seqscan = off; SET enable_indexscan = off; SET enable_indexonlyscan = off"
PARALLEL = (
    "SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0;"
    " SET min_parallel_index_scan_size = 0; SET max_parallel_workers_per_gather = 2;"
    " SET parallel_leader_participation ="
)
OFF = "SET pgbillion_rows.vector_aggregate = off"
ALL = "SELECT count(*) FROM t"

READERS = {
    "seq": Reader(OFF, ALL, "Seq Scan"),
    "vector": Reader("LOAD 'pgbillion_rows'; SET pgbillion_rows.vector_aggregate = force", ALL, "Custom Scan"),
    "index": Reader(f"{OFF}; {INDEX}", f"{ALL} WHERE i >= 0 AND b <> ''", "Index Scan using t_i_idx"),
    "index_one": Reader(
        f"{OFF}; {INDEX}", f"{ALL} WHERE i = {{other}} AND b <> ''", "Index Scan using t_i_idx", one_row=True
    ),
    "index_only": Reader(f"{OFF}; {INDEX_ONLY}", f"{ALL} WHERE i >= 0", "Index Only Scan using t_i_idx"),
    "bitmap": Reader(f"{OFF}; {BITMAP}", f"{ALL} WHERE i >= 0", "Bitmap Heap Scan", coarse=True),
    "bitmap_one": Reader(
        f"{OFF}; {BITMAP}", f"{ALL} WHERE i = {{other}}", "Bitmap Heap Scan", one_row=True, coarse=True
    ),
    "brin": Reader(f"{OFF}; {BITMAP}", f"{ALL} WHERE k >= 0", "Bitmap Index Scan on t_k_idx", coarse=True),
    "hash": Reader(f"{OFF}; {INDEX}", f"{ALL} WHERE b = 'x'", "Index Scan using t_b_idx"),
    "sample": Reader(OFF, f"{ALL} TABLESAMPLE BERNOULLI (100)", "Sample Scan"),
    "tid": Reader(OFF, f"{ALL} WHERE ctid = '(0,1)'", "Tid Scan", coarse=True, serializable=False),
    "tid_range": Reader(OFF, f"{ALL} WHERE ctid < '(9,9)'", "Tid Range Scan", serializable=False),
    "exists": Reader(OFF, "SELECT EXISTS (SELECT FROM t)::int", "Seq Scan", serializable=False),
    "not_exists": Reader(
        OFF, "SELECT 1 - (NOT EXISTS (SELECT FROM t WHERE i = {other}))::int", "Seq Scan", one_row=True
    ),
    "generic": Reader(f"{OFF}; SET plan_cache_mode = force_generic_plan; PREPARE q AS {ALL}", "EXECUTE q", "Seq Scan"),
    "for_update": Reader(OFF, "SELECT count(*) FROM (SELECT FROM t FOR UPDATE) x", "LockRows"),
}
# these start processes
PARALLEL_READERS = {
    "seq_parallel": Reader(f"{OFF}; {PARALLEL} on", ALL, "Parallel Seq Scan"),
    "seq_by_workers": Reader(f"{OFF}; {PARALLEL} off", ALL, "Parallel Seq Scan"),
    "vector_by_workers": Reader(
        f"LOAD 'pgbillion_rows'; SET pgbillion_rows.vector_aggregate = force; {PARALLEL} off",
        ALL,
        "Parallel Custom Scan",
    ),
    "index_parallel": Reader(
        f"{OFF}; {PARALLEL} on; {INDEX}", f"{ALL} WHERE i >= 0 AND b <> ''", "Parallel Index Scan using t_i_idx"
    ),
    "bitmap_by_workers": Reader(
        f"{OFF}; {PARALLEL} off; {BITMAP}", f"{ALL} WHERE i >= 0 AND b <> ''", "Parallel Bitmap Heap Scan", coarse=True
    ),
}
PAIRS = [("ric", "ric"), ("ric", "rc"), ("lric", "lric"), ("birc", "birc")]
# for what does not depend on how a table is read
MORE_PAIRS = [
    ("ric", "bic"), ("lric", "bsc"), ("rsc", "busc"), ("ruc", "ric"), ("Ric", "Rsc"), ("roc", "roc"), ("ric", "ria"),
]  # fmt: skip
TRIPLES = [("ric", "ric", "ric"), ("ric", "bic", "rc")]
# for a reader that may wait, which the first step must not
WAITING_TRIPLES = [("bric", "bic", "brc")]


@pytest.fixture
def connect(cluster: Cluster) -> Iterator[Callable[[], Connection]]:
    with servers.new_database(cluster, f"serializable{next(_numbers)}") as database, contextlib.ExitStack() as stack:
        yield lambda: stack.enter_context(cluster.connect(database))


class Trial:
    """A table made again for each interleaving, and the sessions that take part."""

    def __init__(self, connect: Callable[[], Connection], reader: Reader, count: int) -> None:
        self._reader = reader
        self._monitor = connect()
        self._sessions = [connect() for _ in range(count)]
        self._make("heap")
        for conn in self._sessions:
            conn.execute("SELECT pgbillion_tables.version()")
            run(conn, reader.settings)
        plan = "\n".join(str(row) for row in self._sessions[0].execute(f"EXPLAIN {reader.query.format(k=0, other=1)}"))
        assert reader.node in plan, plan

    def _make(self, method: str) -> None:
        statements = [f"DROP TABLE IF EXISTS t; CREATE TABLE t (i int, b text, k int DEFAULT 1) USING {method}"]
        # as few as the reader needs: predicate locks on others would hide what it misses
        for column, kind in (("i", "btree"), ("b", "hash"), ("k", "brin")):
            if f"t_{column}_idx" in self._reader.node or (column == "i" and "Bitmap Heap" in self._reader.node):
                statements.append(f"CREATE INDEX ON t USING {kind} ({column})")
        self._monitor.execute("; ".join(statements).encode())

    def _perform(self, method: str, programs: tuple[str, ...], order: Sequence[int]) -> Outcome:
        self._make(method)
        return interleaved.perform(self._sessions, self._monitor, programs, order, self._reader)

    def run(self, programs: tuple[str, ...], limit: int | None = None) -> tuple[int, int]:
        """Try interleavings; return how many, and in how many lazy_heap failed somebody whom heap did not."""
        count = stricter = 0
        orders = list(interleaved.orders(programs))
        if limit is not None and limit < len(orders):
            orders = random.Random(SEED).sample(orders, limit)
        for order in orders:
            lazy = self._perform("lazy_heap", programs, order)
            heap = self._perform("heap", programs, lazy.order)
            told = f"{programs} in order {order}: {lazy}, heap {heap}"
            count += 1
            if self._reader.serializable:
                assert interleaved.not_serializable(programs, lazy, self._reader) is None, told
                assert interleaved.not_serializable(programs, heap, self._reader) is None, told
            if heap.visible() != lazy.visible():
                assert self._reader.coarse, told
                # of one that read the table while somebody else was about to fill it; who would have failed
                # because of that one may live
                assert lazy.failed() - heap.failed(), told
                stricter += 1
        return count, stricter


@pytest.mark.parametrize("name", share([*READERS, *PARALLEL_READERS]))
def test_two_transactions(
    connect: Callable[[], Connection], tell: Callable[[str], None], counted: Count, name: str
) -> None:
    trial = Trial(connect, (READERS | PARALLEL_READERS)[name], 2)
    # without an index to conflict on ON CONFLICT is an INSERT
    found = [trial.run(programs) for programs in (PAIRS + MORE_PAIRS if name in ("seq", "index") else PAIRS)]
    tell(f"{sum(count for count, _ in found)} interleavings, stricter than heap in {sum(more for _, more in found)}")
    counted({"interleavings": sum(count for count, _ in found)})


@pytest.mark.parametrize(
    ("name", "programs"),
    [
        pytest.param(name, programs, id=f"{name}-{' '.join(programs)}")
        for name in READERS
        for programs in (WAITING_TRIPLES if name == "for_update" else TRIPLES)
    ],
)
def test_three_transactions(
    connect: Callable[[], Connection],
    tell: Callable[[str], None],
    counted: Count,
    name: str,
    programs: tuple[str, ...],
) -> None:
    count, stricter = Trial(connect, READERS[name], 3).run(programs, LIMIT)
    tell(f"{count} interleavings, stricter than heap in {stricter}; seed {SEED}")
    counted({"interleavings": count})

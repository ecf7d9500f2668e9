"""kill -9 at random moments of builds, encodings, VACUUM, COPY and updates: a columnar index is right afterwards.

PGBILLION_TEST_COLUMN_CRASHES is how often a server is killed (default 6), and a standby promoted a quarter as often;
PGBILLION_TEST_SEED gives another load.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

import psycopg
import pytest
from psycopg import errors

from harness import columns_load, servers, standby
from harness.amount import Count, amount
from harness.servers import one, until
from harness.sessions import Running
from pgbillion.server.postgres import Cluster, Installation

KILLS = amount("PGBILLION_TEST_COLUMN_CRASHES", 6, 2)
SEED = int(os.environ.get("PGBILLION_TEST_SEED") or random.SystemRandom().randrange(2**31))
DATABASE = "crashes"
WORK = ("write", "copy", "vacuum", "build")
LEVELS = {
    "replica": {"wal_consistency_checking": "generic"},
    # without WAL for what is written to files of the same transaction
    "minimal": {"wal_level": "minimal", "max_wal_senders": "0", "wal_skip_threshold": "0"},
}


@contextmanager
def loaded(installation: Installation, level: str) -> Iterator[Cluster]:
    settings = {"log_min_messages": "warning", **LEVELS[level]}
    with servers.new_cluster(installation, settings) as cluster, servers.new_database(cluster, DATABASE):
        with cluster.connect(DATABASE) as conn:
            columns_load.make(conn)
        yield cluster


@pytest.fixture
def primary(installation: Installation) -> Iterator[Cluster]:
    with loaded(installation, "replica") as cluster:
        yield cluster


def refilled(cluster: Cluster, chance: random.Random) -> None:
    """Have as many rows as in the beginning, where a crash or a deletion has taken too many."""
    with cluster.connect(DATABASE) as conn:
        for table in columns_load.TABLES:
            rows = one(conn, f"SELECT count(*) FROM {table}")
            if not columns_load.ROWS // 2 < rows < columns_load.ROWS * 3:
                conn.execute(f"TRUNCATE {table}")
                columns_load.fill(conn, table)
                if chance.random() < 0.5:
                    conn.execute(f"VACUUM {table}")


@pytest.mark.parametrize("level", LEVELS)
def test_killed_at_random_moments(
    installation: Installation, level: str, tell: Callable[[str], None], counted: Count
) -> None:
    chance = random.Random(SEED)
    done: Counter[str] = Counter()
    seen: Counter[str] = Counter()
    kills = (KILLS + 1) // 2
    with loaded(installation, level) as primary:
        for number in range(kills):
            with columns_load.load(primary, DATABASE, SEED + number) as counts:
                time.sleep(chance.uniform(0.1, 1.5))
                if number == 0:
                    until(lambda counts=counts: all(counts[name] for name in WORK), "work of each kind")  # type: ignore[misc]
                primary.kill()
            done += counts
            primary.start()
            with columns_load.session(primary, DATABASE) as conn:
                wrong = columns_load.settled(conn, chance, seen)
            assert wrong == [], f"seed {SEED}, kill {number}"
            refilled(primary, chance)
    tell(f"seed {SEED}: killed {kills} times; {dict(done)}; {dict(seen)}")
    counted({"times killed": kills})
    assert seen["Column Blocks Read"] > 0


# what replay does to a query that is in its way
CONFLICTS = (errors.SerializationFailure, errors.QueryCanceled, errors.UndefinedTable, errors.WrongObjectType)


def read_all_the_time(there: Cluster, seed: int, end: float, seen: Counter[str]) -> list[str]:
    """Ask a standby until a moment, and until it has read some; what replay cancels is asked again."""
    chance = random.Random(seed)
    wrong: list[str] = []

    def go_on() -> bool:
        return (time.monotonic() < end or not seen["Column Blocks Read"]) and not wrong

    while go_on():
        try:
            with columns_load.session(there, DATABASE) as conn:
                while go_on():
                    table = chance.choice(("eager", "kept", "copied"))
                    wrong += columns_load.differences(conn, chance, (table,), seen)
                    wrong += [str(each) for each in columns_load.problems(conn, (table,))]
        except (psycopg.OperationalError, *CONFLICTS):
            seen["conflicts"] += 1
    return wrong


def test_a_standby_is_read_and_promoted(primary: Cluster, tell: Callable[[str], None], counted: Count) -> None:
    """While the primary writes and encodes: pages are replaced under readers by replay."""
    chance = random.Random(SEED)
    seen: Counter[str] = Counter()
    settled: Counter[str] = Counter()
    for number in range(max(1, KILLS // 4)):
        with standby.standby(primary) as there, ExitStack() as stack:
            with there.connect(DATABASE) as conn:
                conn.execute(f"ALTER SYSTEM SET max_standby_streaming_delay = '{chance.choice((50, 1000, 30000))}ms'")
                conn.execute(f"ALTER SYSTEM SET hot_standby_feedback = {chance.choice(('on', 'off'))}")
                conn.execute("SELECT pg_reload_conf()")
            moment = time.monotonic() + chance.uniform(1, 5)
            stack.enter_context(columns_load.load(primary, DATABASE, SEED + number))
            reading = [Running(partial(read_all_the_time, there, seed, moment, seen)) for seed in (number, -number - 1)]
            for each in reading:
                assert each.result() == [], f"seed {SEED}, standby {number}"
            # in the middle of whatever it does
            primary.kill()
            stack.close()
            with there.connect() as conn:
                conn.execute("SELECT pg_promote()")
                until(lambda conn=conn: not one(conn, "SELECT pg_is_in_recovery()"), "promotion")  # type: ignore[misc]
            with columns_load.session(there, DATABASE) as conn:
                assert columns_load.settled(conn, chance, settled) == [], f"seed {SEED}, standby {number}"
            with columns_load.load(there, DATABASE, SEED - number):
                time.sleep(0.5)
            with columns_load.session(there, DATABASE) as conn:
                assert columns_load.settled(conn, chance, settled) == [], f"seed {SEED}, standby {number}"
        primary.start()
        with columns_load.session(primary, DATABASE) as conn:
            assert columns_load.settled(conn, chance, settled) == [], f"seed {SEED}, standby {number}"
        refilled(primary, chance)
    tell(f"seed {SEED}: on the standby {dict(seen)}; promoted {dict(settled)}")
    counted({"standbys read and promoted": max(1, KILLS // 4)})
    assert seen["Column Blocks Read"] > 0

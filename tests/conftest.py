"""Fixtures: one server for all ordinary tests, a database of its own for each, checked when the test is over."""

from __future__ import annotations

import itertools
import os
import signal
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import hypothesis.configuration
import pytest
from psycopg import sql

from harness import invariants, needs, root, servers
from harness.amount import COUNTED, Count
from harness.catalogs import Catalogs
from pgbillion.common.connection import Connection
from pgbillion.server.postgres import Cluster, Installation

_numbers = itertools.count(1)
_TOLD = "told"
# under valgrind, looking at all catalogs takes much longer than most tests
CHECKED = not os.environ.get("PGBILLION_TEST_UNCHECKED")
_SKIPPED = pytest.StashKey[Counter[str]]()
# those of minutes, the longest first: what begins last must not be what takes long
_LONG = (
    "test_durability_kill",
    "test_crash",
    "test_tables_demo",
    "test_benchmarks",
    "test_lazy_pg_regress",
    "test_vector_pg_regress",
    "test_pg_isolation",
    "test_clone_regression",
    "test_bench_billion",
)
# folders of the extension that writes no rows of catalogs itself: they are looked at once, at the module's end
_QUERIES = ("columns", "shards", "vector")


# a shell that runs tests in the background has them ignore Ctrl-C, and so all that they start, in vain interrupted
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if turn := os.environ.get("PGBILLION_TEST_TURN"):
        # of what a test is repeated for, one half; the next run may have the other
        left_out = [item for item in items if "[" in item.name and zlib.crc32(item.name.encode()) % 2 == int(turn) % 2]
        config.hook.pytest_deselected(items=left_out)
        gone = set(left_out)
        items[:] = [item for item in items if item not in gone]
    places = {name: place for place, name in enumerate(_LONG)}
    # files of tests that compute, beside files of those that mostly wait for servers; the small ones last
    files: dict[bool, list[Path]] = {True: [], False: []}
    for path in dict.fromkeys(item.path for item in items):
        files[path.parent.name in _QUERIES].append(path)
    for some in files.values():
        some.sort(key=lambda path: path.stat().st_size, reverse=True)
    order = {path: number / len(some) for some in files.values() for number, path in enumerate(some)}
    items.sort(key=lambda item: (places.get(item.path.stem, len(places)), order[item.path]))


@pytest.fixture
def tell(record_property: Callable[[str, object], None]) -> Callable[[str], None]:
    """Show what a test has counted, also when it passes."""
    return lambda text: record_property(_TOLD, text)


@pytest.fixture
def counted(record_property: Callable[[str, object], None]) -> Count:
    """Add to what `make fuzz` has in its table: numbers by what they are numbers of."""

    def record(numbers: Mapping[str, int]) -> None:
        for what, number in numbers.items():
            record_property(f"{COUNTED}{what}", number)

    return record


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    terminalreporter.section("what tests have counted")
    for report in terminalreporter.getreports("passed") + terminalreporter.getreports("failed"):
        for name, text in report.user_properties:
            if name == _TOLD:
                terminalreporter.write_line(f"{report.nodeid}\n{text}\n")
    reasons = Counter(
        report.longrepr[2].removeprefix("Skipped: ")
        for report in terminalreporter.getreports("skipped")
        if isinstance(report.longrepr, tuple)
    )
    if reasons:
        terminalreporter.section(f"{reasons.total()} tests were skipped")
    for reason, number in sorted(reasons.items(), key=lambda item: (-item[1], item[0])):
        terminalreporter.write_line(f"{number:5} {reason}")
    terminalreporter.config.stash[_SKIPPED] = reasons


def pytest_unconfigure(config: pytest.Config) -> None:
    # after all that pytest itself has to say
    reasons = config.stash.get(_SKIPPED, Counter())
    for_root = sum(number for reason, number in reasons.items() if reason.startswith(f"{root.REASON}: "))
    wanted = {reason: number for reason, number in sorted(reasons.items()) if reason.startswith(needs.REASON)}
    if for_root:
        print(f"{for_root} tests were skipped for want of root (-rs tells why); as root, make test runs them")
    for reason, number in wanted.items():
        print(f"{number} tests were skipped {reason}")
    if wanted:
        print("As root on Debian, make test installs these packages")


@pytest.fixture(scope="session")
def installation() -> Installation:
    return servers.installation()


@pytest.fixture(scope="session")
def cluster(installation: Installation) -> Iterator[Cluster]:
    """One cluster for all tests that neither crash nor reconfigure it."""
    with servers.temporary_folder() as folder:
        hypothesis.configuration.set_hypothesis_home_dir(folder / "hypothesis")
        with servers.new_cluster(installation) as cluster:
            with cluster.connect() as conn:
                servers.make_shared_objects(conn)
            yield cluster


@pytest.fixture(scope="session")
def cycle_state() -> Iterator[Path]:
    """A state folder for all tests of `pgbillion cycle`, which builds the extension in it once."""
    with servers.temporary_folder() as folder:
        state = folder / "s"
        state.mkdir()
        yield state


@pytest.fixture(scope="module")
def database(cluster: Cluster) -> Iterator[str]:
    """A database for the tests of one module."""
    with servers.new_database(cluster, f"test{next(_numbers)}") as name:
        yield name
        with cluster.connect(name) as conn:
            assert invariants.index_errors(conn) == []
            assert invariants.heap_errors(conn) == []
            assert invariants.reference_errors(conn) == []


@pytest.fixture
def conn(cluster: Cluster, database: str, request: pytest.FixtureRequest) -> Iterator[Connection]:
    """A superuser's session in autocommit mode.

    What the test leaves must be sound; then every schema it made is dropped.
    """
    with cluster.connect(database) as conn:
        before = _schemas(conn)
        yield conn
    with cluster.connect(database) as conn:
        conn.execute("SET lock_timeout = '30s'")
        for (prepared,) in conn.execute("SELECT gid FROM pg_prepared_xacts").fetchall():
            conn.execute(sql.SQL("ROLLBACK PREPARED {}").format(sql.Literal(prepared)))
        if CHECKED and request.path.parent.name not in _QUERIES:
            assert invariants.index_errors(conn, parents=False) == []
            # PostgreSQL's own objects are looked at when the module is over
            assert invariants.reference_errors(conn, own=False) == []
        for schema in _schemas(conn) - before:
            conn.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(schema)))


@pytest.fixture
def catalogs(conn: Connection) -> Catalogs:
    return Catalogs.load(conn)


def _schemas(conn: Connection) -> set[str]:
    return {name for (name,) in conn.execute("SELECT nspname FROM pg_namespace WHERE nspname !~ '^pg_'")}

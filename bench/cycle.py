"""The cycle of 30,000 tables: method bulk beside sql under all durability profiles, and MariaDB beside both.

One run of `pgbillion cycle` on a server of its own, methods in turn; and what the file system makes of the same number
and kind of files, created and truncated as the server does within the phases. (It syncs none of them then: what makes
the phases durable is the log. Files are synced and removed by the checkpoint after them, whose time is told as well.)
As root, all of that on a fresh ext4 in one file, because how fast a file system makes files depends on what was removed
from it minutes before (see files.py); DISK=1 keeps to the disk as it is. QUICK=1 ends within two minutes; ROUNDS=…
says how many, PG_CONFIG=… names another PostgreSQL.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import statistics
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import common
from pgbillion import __version__
from pgbillion.common import host
from pgbillion.common.errors import UserError
from pgbillion.common.paths import state_dir
from pgbillion.cycle import mariadb, servers
from pgbillion.cycle.measure import measure, measure_mariadb
from pgbillion.cycle.plan import Method, Outcome, Phase, Request, Result
from pgbillion.durability.profiles import Profile
from pgbillion.server.postgres import make_folder

COUNT = common.sized(30_000, 3_000, 20)
ROUNDS = int(os.environ.get("ROUNDS") or common.sized(3, 2, 1))
# each of its tables is a transaction, and some synced files
MARIADB_COUNT = common.sized(1_000, 300, 10)
PAGE = bytes(8192)
# pages of a table with a row and of its primary key
PAGES = (1, 2)
_IMAGE_BYTES = 24 * 2**30


@contextlib.contextmanager
def fresh_disk(state: Path) -> Iterator[Path]:
    """Give a folder on an ext4 that nobody has used before, or, said loudly, on the disk as it is."""
    image, inside = state / "bench.img", state / "bench-disk"
    tools = all(shutil.which(tool) for tool in ("mkfs.ext4", "mount", "umount"))
    if os.geteuid() != 0 or not tools or os.environ.get("DISK") or shutil.disk_usage(state).free < _IMAGE_BYTES:
        common.say("*** the disk as it is: files removed from it a while ago may slow all methods down ***")
        yield inside
        shutil.rmtree(inside, ignore_errors=True)
        return
    make_folder(inside)
    with image.open("wb") as file:
        file.truncate(_IMAGE_BYTES)
    try:
        subprocess.run(["mkfs.ext4", "-q", "-F", str(image)], check=True)
        subprocess.run(["mount", "-o", "loop", str(image), str(inside)], check=True)
        try:
            inside.chmod(0o755)
            yield inside
        finally:
            subprocess.run(["umount", str(inside)], check=True)
    finally:
        image.unlink()
        inside.rmdir()


def file_seconds(folder: Path) -> dict[Phase, float]:
    """Do with bare files what creating and dropping the tables does, and return how long it took.

    Made: an empty file for the table, one with a page for its index. Filled in between, untimed, as by inserting.
    Dropped: each truncated, and looked for what else a relation might have.
    """
    with common.own_folder(folder) as inside:
        servers.spread_folders(inside)
        there = inside / "files"
        there.mkdir()
        directory = os.open(there, os.O_RDONLY | os.O_DIRECTORY)
        start = time.perf_counter()
        for number in range(COUNT):
            for kind in range(len(PAGES)):
                file = os.open(f"{number}_{kind}", os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=directory)
                if kind:
                    os.pwrite(file, PAGE, 0)
                os.close(file)
        created = time.perf_counter() - start
        for number in range(COUNT):
            for kind, pages in enumerate(PAGES):
                file = os.open(f"{number}_{kind}", os.O_RDWR, dir_fd=directory)
                os.pwrite(file, PAGE * pages, 0)
                os.close(file)
        # not os.truncate(), which would spend as long again on an exception for each file that is not there
        truncate = ctypes.CDLL(None).truncate
        paths = [os.fsencode(there / f"{number}_{kind}") for number in range(COUNT) for kind in range(len(PAGES))]
        start = time.perf_counter()
        for path in paths:
            # the file, its second segment and the other forks, which are not there: what mdunlink() tries
            for suffix in (b"", b".1", b"_fsm", b"_vm", b"_init"):
                truncate(path + suffix, ctypes.c_long(0))
        dropped = time.perf_counter() - start
        os.close(directory)
    return {Phase.CREATE: created, Phase.DROP: dropped}


def run(state: Path) -> tuple[Outcome, list[Result], list[dict[Phase, float]]]:
    """Measure everything: the server, MariaDB, and files before and after."""
    common.share_builds(state)
    request = Request(count=COUNT, rounds=ROUNDS)
    chosen = os.environ.get("PG_CONFIG")
    bare = [file_seconds(state)]
    with servers.private(state, Path(chosen) if chosen else None, {}) as server:
        outcome = measure(server, request, common.say)
    bare += [file_seconds(state) for _ in range(ROUNDS - 1)]
    fewer = replace(request, count=MARIADB_COUNT, rounds=1, methods=(Method.SQL,))
    theirs: list[Result] = []
    try:
        with mariadb.private(state, fewer) as rival:
            for profile in request.profiles:
                theirs += measure_mariadb(rival, fewer, profile, common.say)
    except UserError as error:
        common.say(f"*** MariaDB is SKIPPED: {error.message} ({error.hint}) ***")
    return outcome, theirs, bare


def main() -> int:
    """Run the benchmark and return the exit status."""
    state = state_dir()
    make_folder(state)
    with fresh_disk(state) as disk:
        make_folder(disk)
        disk_kind = host.FileSystem.of(disk).kind
        fresh = disk.is_mount()
        outcome, theirs, bare = run(disk / "state")
    files = {phase: statistics.median(one[phase] for one in bare) for phase in (Phase.CREATE, Phase.DROP)}
    bulk = outcome.result(Profile.FULL, Method.BULK)
    assert bulk is not None
    common.table(
        f"{COUNT:,} tables, medians of {ROUNDS} rounds; MariaDB {MARIADB_COUNT:,} tables, one round",
        ("profile", "method", *(f"{phase}/s" for phase in Phase), *Phase, "checkpoint after"),
        [
            [
                str(result.contestant.profile),
                result.contestant.label,
                *(f"{count / result.seconds(phase):,.0f}" for phase in Phase),
                *(f"{result.seconds(phase):.2f} s" for phase in Phase),
                _checkpoint(result.to_json(count)),
            ]
            for results, count in ((outcome.results, COUNT), (theirs, MARIADB_COUNT))
            for result in results
        ],
    )
    ratios: dict[str, Any] = {}
    for phase in (Phase.CREATE, Phase.DROP):
        ratios[f"ratio_{phase}"] = _round(outcome.ratio(Profile.FULL, phase))
        ratios[f"share_{phase}"] = _round(files[phase] / bulk.seconds(phase))
        for profile in (Profile.ASYNC, Profile.MINIMAL):
            ratios[f"ratio_{phase}_{profile}"] = _round(outcome.ratio(profile, phase))
        for result in theirs:
            if result.contestant.profile is Profile.FULL:
                per_table = result.seconds(phase) / MARIADB_COUNT
                ratios[f"ratio_{phase}_over_mariadb"] = _round(per_table / (bulk.seconds(phase) / COUNT))
    for name, value in ratios.items():
        common.say(f"{name:<28}{value}")
    common.result(
        {
            "benchmark": "cycle",
            **ratios,
            "file_seconds": {str(phase): round(value, 3) for phase, value in files.items()},
            "tables": COUNT,
            "mariadb_tables": MARIADB_COUNT,
            "mariadb_results": [result.to_json(MARIADB_COUNT) for result in theirs],
            **{name: value for name, value in outcome.to_json().items() if name not in ("tables", "server", "mariadb")},
            "quick": common.QUICK,
            "versions": {"pgbillion": __version__, "postgresql": outcome.server["version"]},
            "settings": outcome.server["settings"],
            "hardware": host.hardware(),
            "filesystem": disk_kind + (", fresh, in a file" if fresh else ""),
            "load": os.getloadavg()[0],
        }
    )
    return 0


def _round(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def _checkpoint(result: dict[str, Any]) -> str:
    seconds = result["checkpoint_seconds"]
    return "" if seconds is None else f"{seconds:.2f} s"


if __name__ == "__main__":
    common.run(main)

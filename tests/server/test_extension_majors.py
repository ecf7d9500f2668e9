"""The SQL objects of the extensions are the same on every major version, so that pg_upgrade can restore them."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness import needs, servers
from harness.extension_objects import dumped
from pgbillion.common.paths import state_dir
from pgbillion.server.postgres import Cluster, Installation


def other_installations(mine: Installation) -> list[Installation]:
    """Those of other major versions on this machine."""
    return [
        Installation.prepare(state_dir(), path) for major, path in servers.pg_configs().items() if major != mine.major
    ]


def created(cluster: Cluster, pg_dump: Path) -> list[str]:
    """What pg_upgrade would restore of both extensions."""
    with cluster.connect("template1") as conn:
        conn.execute("CREATE DATABASE dumped TEMPLATE template0")
    with cluster.connect("dumped") as conn:
        conn.execute("CREATE EXTENSION pgbillion_tables; CREATE EXTENSION pgbillion_rows")
    return dumped(cluster, "dumped", pg_dump)


@pytest.mark.machine
def test_the_objects_are_the_same_on_all_major_versions(installation: Installation) -> None:
    others = other_installations(installation)
    if not others:
        needs.missing(needs.OTHER_MAJORS)
    newest = max([installation, *others], key=lambda each: each.version_num)
    dumps = {}
    for each in (installation, *others):
        with servers.temporary_folder() as folder:
            cluster = Cluster(each, folder / "data", folder / "s", 5432)
            cluster.init(servers.SETTINGS)
            cluster.start()
            try:
                dumps[each.major] = created(cluster, newest.program("pg_dump"))
            finally:
                cluster.destroy()
    mine = dumps[installation.major]
    assert sum("CREATE AGGREGATE pgbillion_rows.partial_" in line for line in mine) == 62
    assert not [line for line in mine if "SFUNC = " in line and "pgbillion_rows." not in line]
    for major, dump in dumps.items():
        assert dump == mine, major

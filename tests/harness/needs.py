"""What tests need of the machine that `make test` may have been unable to install: they are skipped by its name."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest

# what the reasons begin with, which the run's last lines repeat
REASON = "for want of "
# Debian's packages, and what takes no package
OTHER_MAJORS = "another PostgreSQL (postgresql-15 and postgresql-server-dev-15, or tools/postgres.sh config 17)"
OLDER = "an older PostgreSQL (postgresql-15 and postgresql-server-dev-15, or tools/postgres.sh config 17)"
PACKAGES = {
    "mariadbd": "mariadb-server",
    "mkfs.btrfs": "btrfs-progs",
    "mkfs.ext4": "e2fsprogs",
    "mkfs.xfs": "xfsprogs",
    "mvn": "maven",
    "pg_catcheck": "postgresql-15-pg-catcheck",
    "pgbackrest": "pgbackrest",
    "pgbouncer": "pgbouncer",
    "rails": "ruby-railties and ruby-pg",
    "strace": "strace",
}
# CI sets this, so that a step of installation that is lost fails there instead of skipping its tests ever after
COMPLETE = bool(os.environ.get("PGBILLION_TEST_COMPLETE"))


def missing(what: str) -> NoReturn:
    """Skip the test for want of a package or of something else, or fail it where everything has to be here."""
    if COMPLETE:
        pytest.fail(f"{REASON}{what}")
    pytest.skip(f"{REASON}{what}")

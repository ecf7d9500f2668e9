"""The extensions' own suites, pg_regress, against a server of its own."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from harness import servers
from pgbillion.common.paths import extension_source
from pgbillion.server import extension
from pgbillion.server.postgres import SUPERUSER, Installation

pytestmark = [pytest.mark.quick, pytest.mark.majors]


@pytest.mark.parametrize("name", extension.ALL)
def test_pg_regress(name: str, installation: Installation, tmp_path: Path) -> None:
    with servers.new_cluster(installation) as cluster:
        where = {"PGHOST": str(cluster.socket_dir), "PGPORT": str(cluster.port), "PGUSER": SUPERUSER}
        env = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
        makefile = extension_source() / name / "Makefile"
        done = subprocess.run(
            ["make", "-f", makefile, f"PG_CONFIG={installation.source}", "with_llvm=no", "installcheck"],
            cwd=tmp_path,
            env=env | where,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        differences = tmp_path / "regression.diffs"
        assert done.returncode == 0, done.stdout + (differences.read_text() if differences.exists() else "")

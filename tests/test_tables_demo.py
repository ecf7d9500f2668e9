"""`pgbillion demo`, and the commands' default server, which it starts.

By the program as a wheel installs it, from another folder, with nothing in PATH; the libraries are those in the wheel.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from harness import servers, wheel
from harness.servers import one
from pgbillion.server.postgres import Cluster, Installation

Run = Callable[[list[str], dict[str, str]], "subprocess.CompletedProcess[str]"]


@pytest.fixture
def run(cluster: Cluster, installation: Installation) -> Iterator[Run]:
    with cluster.connect() as conn:
        assertions = one(conn, "SHOW debug_assertions") == "on"
    if assertions:
        env = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
        yield lambda arguments, more: subprocess.run(
            [sys.executable, "-m", "pgbillion", *arguments], env=env | more, capture_output=True, text=True, timeout=300
        )
        return
    with wheel.installed(installation, "demo") as program:
        yield lambda arguments, more: program.run(*arguments, env=more)


def test_demo_twice_then_the_default_server(run: Run) -> None:
    with servers.temporary_folder() as state:
        env = {name: value for name, value in os.environ.items() if name == "PG_CONFIG"}
        env["PGBILLION_STATE"] = str(state / "s")

        def pgbillion(*arguments: str) -> subprocess.CompletedProcess[str]:
            return run(list(arguments), env)

        try:
            for _ in range(2):
                done = pgbillion("demo", "--count", "2000")
                assert done.returncode == 0, done.stderr
                assert "2,000 tables created" in done.stdout
                assert "2,000 of 2,000 tables _00000000 … _000007cf" in done.stdout
                assert "first page of 1,000 names" in done.stdout
                assert "200 tables dropped" in done.stdout
                assert "server psql -d demo" in done.stdout
                report = (state / "s" / "runs" / "demo" / "report.html").read_text()
                assert "Listed and dropped" in report
                assert "200 tables dropped" in report
                assert "200,000 rows copied" in done.stdout
                assert "same answer" in done.stdout
                assert 'aria-label="Rows per second by processes"' in report
                assert "times as fast as PostgreSQL, same answer" in done.stdout
                assert "Columns beside the heap" in report
                assert 'aria-label="Rows per second by processes, from heap and columns"' in report
                assert "public.t_demo_columns" in report
                assert "8,000 rows copied into them" in done.stdout
                assert "4 shards: " in done.stdout
                assert 'aria-label="Rows per second by shards"' in report
                assert "Async Foreign Scan" in report
                assert "minimal, bulk, round 1: create" in done.stdout
                assert "Created, filled, read, dropped" in report
                assert "full, sql" in report
                assert "cloned: 20 tenants, " in done.stdout
                assert ", 20 like the model" in done.stdout
                assert "migrated: 20 tenants, " in done.stdout
                assert "A schema for each tenant" in report
            assert not (state / "s" / "cycle-server").exists()
            assert not (state / "s" / "shards").exists()
            assert "removing the tables of the last demo" in done.stderr
            listed = pgbillion(
                "server",
                "psql",
                "-d",
                "demo",
                "-X",
                "-A",
                "-t",
                "-c",
                "SELECT count(*) FROM pg_class WHERE relname ~ '^_0'",
            )
            assert listed.stdout.strip() == "2000"
            databases = pgbillion(
                "server", "psql", "-X", "-A", "-t", "-c", "SELECT datname FROM pg_database ORDER BY 1"
            )
            assert databases.stdout.split() == ["billion", "demo", "postgres", "template0", "template1"]

            # with nothing said, commands take the embedded server, and its tablespaces go below the state folder
            made = pgbillion("tables", "create", "--count", "40", "--workers", "2", "--tablespaces", "2")
            assert made.returncode == 0, made.stderr
            assert (state / "s" / "tablespaces" / "_001").is_dir()
            folder = made.stdout.split("run: ")[1].splitlines()[0]
            assert pgbillion("server", "stop").returncode == 0
            stopped = pgbillion("tables", "create", "--resume", folder)
            assert stopped.returncode == 2
            assert "server start" in stopped.stderr
        finally:
            destroyed = pgbillion("server", "destroy", "--yes", "--everything")
        assert destroyed.returncode == 0, destroyed.stderr

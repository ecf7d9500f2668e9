"""Commands that are printed about shards, each run as printed, however the coordinator was named."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import pytest

from harness.hints import command, connected, embedded_server, somebody, states, ways
from harness.printed import User, runs
from pgbillion.server.postgres import Cluster, Installation
from pgbillion.shards import create, destroy, record, status


@pytest.fixture(scope="module")
def cluster(installation: Installation) -> Iterator[Cluster]:
    with embedded_server(installation) as cluster:
        with cluster.connect() as conn:
            conn.execute("CREATE DATABASE app")
        yield cluster


@pytest.fixture(params=ways(__name__))
def user(request: pytest.FixtureRequest, cluster: Cluster, tmp_path: Path) -> User:
    return connected(request.param, cluster, "app", tmp_path)


@pytest.fixture
def sizes(cluster: Cluster) -> tuple[str, ...]:
    return ("-n", "1", "-r", "1000", "--pg-config", str(cluster.installation.source))


def failed(*given: object) -> NoReturn:
    raise OSError("no")


@runs(
    "shards/create.py execute: shards destroy --table *",
    "shards/create.py _plan: shards destroy --table *",
    "shards/record.py find: shards destroy --table *",
)
def test_shards_that_are_half_made(
    user: User, cluster: Cluster, sizes: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as changed:
        changed.setattr(create, "_make", failed)
        changed.setattr(destroy, "execute", failed)
        done = user.run("shards", "create", "--table", "T", *sizes)
    (line,) = {
        command(done.stderr, "; to do so: "),
        command(user.run("shards", "create", "--table", "T", *sizes).stderr, "remove them: "),
        command(user.run("shards", "status", "--table", "T").stderr, "remove what there is: "),
    }
    assert "removed: T and its 1 shards" in user.type(line, answer="y\n")
    assert list(record.all_sets(cluster.data.parent)) == []


@runs(
    "shards/record.py find: shards create --table *",
    "cli/shards.py status: shards start --table *",
    "cli/shards.py status: shards destroy --table *",
)
def test_shards(user: User, cluster: Cluster, sizes: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    done = user.run("shards", "status", "--table", "T")
    assert "T: 1 shards, 1,000 rows each" in user.type(command(done.stderr, "make some: "), *sizes)
    (made,) = record.all_sets(cluster.data.parent)
    (shard,) = made.clusters(cluster.data.parent)
    shard.stop()
    done = user.run("shards", "status", "--table", "T")
    assert user.type(command(done.stderr, "start the shards made here: ")) == "1 started\n"
    with monkeypatch.context() as changed:
        ask = status.ask
        changed.setattr(status, "ask", lambda found: [replace(one, own=False, error="no") for one in ask(found)])
        done = user.run("shards", "status", "--table", "T")
    assert "removed: T" in user.type(command(done.stderr, "make all anew: "), answer="y\n")
    assert not shard.data.exists()


@runs("cli/server.py stop: server stop --shards")
@pytest.mark.parametrize("way", states(__name__))
def test_servers_of_shards_that_go_on(way: str, cluster: Cluster, sizes: tuple[str, ...]) -> None:
    user = somebody(way, cluster.data.parent)
    done = user.run("shards", "create", *sizes)
    assert done.returncode == 0, done.stderr
    done = user.run("server", "stop")
    assert user.type(command(done.stderr, "; to stop: ")) == "not running\n1 server of shards stopped\n"
    cluster.start()
    assert user.run("shards", "destroy", "--yes").returncode == 0

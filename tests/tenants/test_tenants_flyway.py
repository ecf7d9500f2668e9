"""Tenants of Flyway: the commands of docs/frameworks.md, run with Maven's plugin.

Where Maven cannot fetch the plugin the test is skipped.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from harness import needs, servers
from harness.frameworks import blocks, same, tables
from pgbillion.server.postgres import Cluster

pytestmark = pytest.mark.machine

PROJECT = """
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>example</groupId>
  <artifactId>application</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <properties>
    <flyway.url>jdbc:postgresql://127.0.0.1:{port}/mydb</flyway.url>
    <flyway.user>postgres</flyway.user>
    <flyway.locations>filesystem:${{project.basedir}}</flyway.locations>
  </properties>
  <build><plugins><plugin>
    <groupId>org.flywaydb</groupId>
    <artifactId>flyway-maven-plugin</artifactId>
    <version>13.12.0</version>
    <dependencies>
      <dependency>
        <groupId>org.flywaydb</groupId>
        <artifactId>flyway-database-postgresql</artifactId>
        <version>13.12.0</version>
      </dependency>
      <dependency>
        <groupId>org.postgresql</groupId>
        <artifactId>postgresql</artifactId>
        <version>42.7.14</version>
      </dependency>
    </dependencies>
  </plugin></plugins></build>
</project>
"""
FIRST = """
CREATE TABLE customer (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text NOT NULL UNIQUE);
CREATE FUNCTION shout(text) RETURNS text LANGUAGE sql IMMUTABLE AS $$ SELECT upper($1) || '; --' $$;
"""
SECOND = """
ALTER TABLE customer ADD email text CHECK (email LIKE '%@%');
CREATE INDEX ON customer (shout(name));
"""


@contextmanager
def tcp(path: Path) -> Iterator[int]:
    """A port of this machine that leads to a socket: Java's driver knows no other way."""

    def passing(source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)

    def accept() -> None:
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                server = socket.socket(socket.AF_UNIX)
                opened.extend((client, server))
                server.connect(str(path))
                for pair in ((client, server), (server, client)):
                    threads.append(threading.Thread(target=passing, args=pair))
                    threads[-1].start()

    opened: list[socket.socket] = []
    threads: list[threading.Thread] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        acceptor = threading.Thread(target=accept)
        acceptor.start()
        try:
            yield listener.getsockname()[1]
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            acceptor.join()
            for one in opened:
                with suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)
            for thread in threads:
                thread.join()
            for one in opened:
                one.close()


def test_flyway(cluster: Cluster, tmp_path: Path) -> None:
    if shutil.which("mvn") is None:
        needs.missing(needs.PACKAGES["mvn"])
    programs = [Path(cluster.installation.bindir), Path(__file__).parents[2] / ".venv" / "bin"]
    variables = {
        **os.environ,
        "PATH": ":".join([*map(str, programs), os.environ["PATH"]]),
        "PGHOST": str(cluster.socket_dir),
        "PGPORT": "5432",
        "PGUSER": "postgres",
    }

    def run(commands: str) -> subprocess.CompletedProcess[str]:
        quiet = commands.replace("mvn ", "mvn --batch-mode --quiet ")
        return subprocess.run(
            ["bash", "-e", "-c", quiet], cwd=tmp_path, env=variables, capture_output=True, text=True, check=False
        )

    def done(commands: str) -> None:
        made = run(commands)
        assert made.returncode == 0, made.stdout + made.stderr

    with servers.new_database(cluster, "mydb") as database, tcp(cluster.socket_dir / ".s.PGSQL.5432") as port:
        assert database == "mydb"
        (tmp_path / "pom.xml").write_text(PROJECT.format(port=port))
        fetched = run("mvn flyway:info")
        if "could not be resolved" in fetched.stdout or "PluginResolutionException" in fetched.stdout:
            pytest.skip(f"Maven cannot fetch Flyway: {fetched.stdout[:300]}")
        sign_up, migrate = blocks("sh", "mvn flyway")
        (tmp_path / "V1__first.sql").write_text(FIRST)
        done(sign_up)
        done("mvn flyway:validate -Dflyway.schemas=tenant_00001; mvn flyway:migrate -Dflyway.schemas=own")
        same(cluster, database, "own", "tenant_00001", "model")
        (tmp_path / "V2__email.sql").write_text(SECOND)
        assert "validate" in run("mvn flyway:validate -Dflyway.schemas=tenant_00001").stdout.lower()
        done(migrate)
        done("mvn flyway:validate -Dflyway.schemas=tenant_00001; mvn flyway:migrate -Dflyway.schemas=own")
        same(cluster, database, "own", "tenant_00001", "model")
        with cluster.connect(database) as conn:
            model = tables(conn, "model")
            assert tables(conn, "tenant_00001") == model
            assert [row["version"] for (row,) in model["flyway_schema_history"]][-2:] == ["1", "2"]

"""Tables sharded over databases, each with a foreign server of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from psycopg import sql

from pgbillion.common.connection import Connection
from pgbillion.server.postgres import Cluster

WRAPPERS = ("pgbillion_fdw", "postgres_fdw")


@dataclass(frozen=True)
class Shard:
    """One database as the coordinator knows it: the name of its foreign server, and where it is."""

    name: str
    cluster: Cluster
    database: str

    def connect(self) -> Connection:
        return self.cluster.connect(self.database)


@contextmanager
def shards(clusters: Sequence[Cluster], prefix: str) -> Iterator[list[Shard]]:
    """A database on each of the clusters (one may be there several times); gone afterwards."""
    made = [Shard(f"s{number}", cluster, f"{prefix}_s{number}") for number, cluster in enumerate(clusters, 1)]
    for shard in made:
        with shard.cluster.connect() as conn:
            conn.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(shard.database)))
    try:
        yield made
    finally:
        for shard in made:
            if shard.cluster.running():
                with shard.cluster.connect() as conn:
                    conn.execute(
                        sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(shard.database))
                    )


def make_coordinator(conn: Connection, members: Sequence[Shard], wrapper: str = "pgbillion_fdw") -> None:
    """Make this database a coordinator: a foreign server and a user mapping for each shard."""
    assert wrapper in WRAPPERS
    conn.execute("CREATE EXTENSION IF NOT EXISTS postgres_fdw")
    for shard in members:
        conn.execute(
            sql.SQL("CREATE SERVER {} FOREIGN DATA WRAPPER {} OPTIONS (host {}, port {}, dbname {})").format(
                sql.Identifier(shard.name),
                sql.Identifier(wrapper),
                sql.Literal(str(shard.cluster.socket_dir)),
                sql.Literal(str(shard.cluster.port)),
                sql.Literal(shard.database),
            )
        )
        conn.execute(
            sql.SQL(
                "CREATE USER MAPPING FOR PUBLIC SERVER {} OPTIONS (user 'postgres', password_required 'false')"
            ).format(sql.Identifier(shard.name))
        )
    conn.execute("SET enable_partitionwise_aggregate = on")


def shard_table(conn: Connection, members: Sequence[Shard], name: str, columns: str, local: int = 0) -> None:
    """A table of these columns, hash-partitioned by its first column over the shards and ``local`` local partitions."""
    key = sql.Identifier(columns.split()[0])
    table = sql.Identifier(name)
    conn.execute(sql.SQL(f"CREATE TABLE {{}} ({columns}) PARTITION BY HASH ({{}})").format(table, key))
    count = len(members) + local
    for number, shard in enumerate(members):
        with shard.connect() as there:
            there.execute(sql.SQL(f"CREATE TABLE {{}} ({columns})").format(sql.Identifier(f"{name}_{number}")))
        conn.execute(
            sql.SQL(
                "CREATE FOREIGN TABLE {} PARTITION OF {} FOR VALUES WITH (MODULUS {}, REMAINDER {}) SERVER {}"
            ).format(sql.Identifier(f"{name}_{number}"), table, count, number, sql.Identifier(shard.name))
        )
    for number in range(len(members), count):
        conn.execute(
            sql.SQL("CREATE TABLE {} PARTITION OF {} FOR VALUES WITH (MODULUS {}, REMAINDER {})").format(
                sql.Identifier(f"{name}_{number}"), table, count, number
            )
        )


def plan(conn: Connection, query: str, options: str = "VERBOSE, COSTS OFF") -> str:
    return "\n".join(line for (line,) in conn.execute(f"EXPLAIN ({options}) {query}"))

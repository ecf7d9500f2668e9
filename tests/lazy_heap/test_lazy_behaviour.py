"""lazy_heap behaves as heap before the first row and after: the scripts beside run on both, outputs compared."""

from __future__ import annotations

import difflib
from pathlib import Path

import pytest

from harness import lazy, servers
from pgbillion.server.postgres import Cluster

pytestmark = pytest.mark.quick

INCLUDED = {"reads.sql"}


@pytest.mark.parametrize(
    "script",
    sorted(path for path in lazy.SCRIPTS.glob("*.sql") if path.name not in INCLUDED),
    ids=lambda path: path.stem,
)
def test_as_heap(cluster: Cluster, script: Path) -> None:
    outputs: list[list[str]] = []
    for method in ("heap", "lazy_heap"):
        with servers.new_database(cluster, f"{script.stem}_{method}") as name:
            with cluster.connect(name) as conn:
                conn.execute(lazy.HELPERS)
            outputs.append(lazy.psql(cluster, name, script, default_table_access_method=method))
            with cluster.connect(name) as conn:
                assert lazy.unsound(conn) == []
                conn.execute("CHECKPOINT")
                assert lazy.lost(cluster, conn) == set()
    heap, lazy_heap = outputs
    differences = list(difflib.unified_diff(heap, lazy_heap, "heap", "lazy_heap", lineterm="", n=6))
    assert differences == [], "\n".join(differences)
    assert "as expected" in "\n".join(lazy_heap)

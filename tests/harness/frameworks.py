"""Applications of docs/frameworks.md: the document's own programs, run in an environment that has the frameworks.

Where pip cannot install them the tests are skipped.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from harness.servers import one
from pgbillion.common.connection import Connection
from pgbillion.common.paths import state_dir
from pgbillion.common.target import Target
from pgbillion.server.postgres import Cluster
from pgbillion.tenants import diff
from test_tenants import unseen

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "frameworks.md"
# platformdirs is what pgbillion.django needs of pgbillion's own
PACKAGES = (
    "django==5.2.*",
    "django-tenants==4.0.*",
    "sqlalchemy==2.*",
    "alembic==1.*",
    "psycopg[binary]==3.*",
    "platformdirs>=4.0",
)


def blocks(language: str, containing: str) -> list[str]:
    """Programs of the document."""
    found = re.findall(rf"(?ms)^```{language}\n(.*?)^```", DOCUMENT.read_text(encoding="utf-8"))
    return [text for text in found if containing in text]


def block(language: str, containing: str) -> str:
    """A program of the document."""
    (found,) = blocks(language, containing)
    return found


def python() -> Path:
    """A Python that has the frameworks; made once for each state folder."""
    folder = state_dir() / "frameworks"
    done = folder / "done"
    program = folder / "bin" / "python"
    if not done.exists() or done.read_text() != str(PACKAGES):
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        installed = subprocess.run(
            [program, "-m", "pip", "install", "--quiet", *PACKAGES], capture_output=True, text=True
        )
        if installed.returncode != 0:
            pytest.skip(f"pip cannot install django-tenants, SQLAlchemy and Alembic: {installed.stderr[-200:]}")
        done.write_text(str(PACKAGES))
    return program


def environment(cluster: Cluster, database: str) -> dict[str, str]:
    return {
        "PATH": "/usr/bin:/bin",
        "HOST": str(cluster.socket_dir),
        "NAME": database,
        "PYTHONPATH": str(ROOT / "src"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONWARNINGS": "error::SyntaxWarning",
    }


def run(command: Sequence[str | Path], folder: Path, variables: Mapping[str, str]) -> str:
    """What a command prints, which must succeed."""
    done = subprocess.run(list(command), env=dict(variables), cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def same(cluster: Cluster, database: str, model: str, *others: str) -> None:
    found = diff.compare(Target(cluster.conninfo(database), "the test's"), model, others, 1, observe=unseen)
    differences = [(group.tenants, one.what) for group in found.groups for one in group.differences]
    assert differences == [], differences
    assert (found.tenants, found.same) == (len(others), len(others))


def tables(conn: Connection, schema: str) -> dict[str, list[Any]]:
    """The rows of all tables, times left out."""
    names = conn.execute(
        "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = %s::regnamespace", [schema]
    )
    return {
        name: conn.execute(
            f"SELECT to_jsonb(t) - 'applied' - 'at' FROM {schema}.\"{name}\" t ORDER BY t::text".encode()
        ).fetchall()
        for (name,) in names
    }


def prepared(conn: Connection, schema: str) -> bool:
    """Whether the next clone needs no commands."""
    return bool(
        one(conn, "SELECT count(*) FROM pgbillion_tables.prepared_clones WHERE template = %s::regnamespace", schema)
    )

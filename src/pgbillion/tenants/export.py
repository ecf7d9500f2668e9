"""A tenant's archive, made by pg_dump: a file or folder that is there as a whole or not at all."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pgbillion.common.errors import UserError
from pgbillion.common.target import Target
from pgbillion.server import client
from pgbillion.tenants import arrival, dump, needs

MAX_JOBS = 100


@dataclass(frozen=True)
class Request:
    """What to write, and where; ``form`` is one of pg_dump's that pg_restore reads."""

    schema: str
    path: Path
    form: str = "custom"
    jobs: int = 1
    rows: bool = True
    bindir: Path | None = None

    def check(self) -> None:
        """Raise UserError for arguments that no server could make right."""
        if not 1 <= self.jobs <= MAX_JOBS:
            raise UserError(f"the number of jobs must be between 1 and {MAX_JOBS}, not {self.jobs:,}")
        if self.jobs > 1 and self.form != "directory":
            raise UserError("only the format directory is written by several jobs", "add --format directory")
        if self.path.exists() or self.path.is_symlink():
            raise UserError(f"{self.path} exists already", "choose another name with --output")
        if not os.access(self.path.absolute().parent, os.W_OK):
            raise UserError(f"nothing can be written to {self.path.absolute().parent}", "choose another with --output")


@dataclass
class Outcome:
    """What was written, and what a database must have before it is restored."""

    tenant: str
    path: str
    size: int
    needs: list[str]
    restore: str
    seconds: float

    def to_json(self) -> dict[str, Any]:
        """Return the outcome as JSON's types."""
        return asdict(self)


def export(source: Target, request: Request) -> Outcome:
    """Write the archive. Raises UserError, and leaves nothing behind then."""
    start = time.monotonic()
    with source.connect() as conn:
        schema = arrival.oid_of(conn, request.schema)
        wanted = needs.of(conn, schema)
        programs = client.find(arrival.major(conn), None, request.bindir)
    path = request.path.absolute()
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        dump.to_file(programs, source, request.schema, partial, form=request.form, jobs=request.jobs, rows=request.rows)
        partial.rename(path)
    finally:
        if partial.is_dir():
            shutil.rmtree(partial)
        with contextlib.suppress(FileNotFoundError):
            partial.unlink()
    size = sum(file.stat().st_size for file in path.iterdir()) if path.is_dir() else path.stat().st_size
    return Outcome(
        request.schema, str(request.path), size, needs.shown(wanted), str(programs.restore), time.monotonic() - start
    )

"""Another extension, in C, beside ours in a server: tests/vector/neighbour/neighbour.c."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pgbillion.server.postgres import Installation

from . import servers

SOURCE = Path(__file__).parents[1] / "vector/neighbour" / "neighbour.c"


@contextmanager
def library(where: Installation) -> Iterator[Path]:
    """Its library, compiled for an installation, for LOAD by its path."""
    with servers.temporary_folder() as folder:
        made = folder / "neighbour.so"
        headers = subprocess.run(
            [where.source, "--includedir-server"], check=True, capture_output=True, text=True
        ).stdout.strip()
        options = ("-O1", "-shared", "-fPIC", "-Wall", "-Werror", f"-I{headers}")
        subprocess.run(["cc", *options, "-o", made, SOURCE], check=True)
        yield made

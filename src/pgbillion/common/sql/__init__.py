"""The SQL of the command line, one statement or script per file, in the folder ``sql`` of the package that uses it."""

from functools import cache
from importlib.resources import files


@cache
def load(package: str, name: str) -> str:
    """Return the text of ``sql/<name>.sql`` in one of our packages, such as ``tables``."""
    return files("pgbillion").joinpath(package, "sql", f"{name}.sql").read_text(encoding="utf-8")

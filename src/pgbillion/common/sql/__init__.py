"""The SQL of the command line, one statement or script a file."""

from functools import cache
from importlib.resources import files


@cache
def load(name: str) -> str:
    """The text of ``sql/<name>.sql``."""
    return files(__name__).joinpath(f"{name}.sql").read_text(encoding="utf-8")

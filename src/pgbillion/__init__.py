"""PostgreSQL at a billion: tables created by the million, watched while they appear, and proved afterwards."""

from pgbillion.common.paths import version as _version

__version__ = _version()

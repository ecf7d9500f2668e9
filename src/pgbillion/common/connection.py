"""The type of the connections that all modules share."""

from __future__ import annotations

from typing import Any

import psycopg

Connection = psycopg.Connection[tuple[Any, ...]]
"""A connection whose rows are tuples of any values."""

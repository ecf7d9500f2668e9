"""What pgbillion_rows.explain_vector() says of a plan."""

from __future__ import annotations

import math
import re

from harness.servers import one
from pgbillion.common.connection import Connection


def milliseconds(conn: Connection, query: str) -> float:
    """How long it says that the plan takes; NaN if it does not."""
    found = re.findall(
        r"^estimated to take (\d+\.\d{3}) ms with all tables in memory$",
        str(one(conn, "SELECT pgbillion_rows.explain_vector(%s)", query)),
        re.MULTILINE,
    )
    assert len(found) <= 1
    return float(found[0]) if found else math.nan

"""All objects of an extension as text: what pg_dump would have pg_upgrade restore, and what depends on what."""

from __future__ import annotations

import subprocess
from pathlib import Path

from pgbillion.server.postgres import Cluster, run_as_server

from . import catalogs


def dumped(cluster: Cluster, dbname: str, pg_dump: Path) -> list[str]:
    """What pg_upgrade would restore, except for numbers: those it keeps, and those that some servers give columns."""
    done = run_as_server(
        [pg_dump, "--schema-only", "--binary-upgrade", "--dbname", cluster.conninfo(dbname)], stdout=subprocess.PIPE
    )
    assert done.returncode == 0
    lines = [line for line in done.stdout.splitlines() if line and not line.startswith(("--", "\\"))]
    return [
        line
        for line in lines
        if "binary_upgrade_set_" not in line
        and "binary_upgrade_create_empty" not in line
        and not line.startswith("SET ")
        and "relfrozenxid" not in line
        # of a TOAST table
        and not line.startswith("WHERE oid = ")
        # of large objects, which PostgreSQL 19's pg_dump copies as rows of catalogs: other ones for other servers
        and not line.startswith("COPY pg_catalog.")
        and not catalogs.ATTRIBUTE_VERSION.search(line)
    ]


def described(cluster: Cluster, dbname: str, name: str) -> list[str]:
    """What pg_dump takes for granted: the members of an extension, and each dependency of theirs or on them."""
    with cluster.connect(dbname) as conn:
        rows = conn.execute(
            "WITH members AS (SELECT d.classid, d.objid FROM pg_depend d JOIN pg_extension e ON d.refobjid = e.oid"
            " WHERE d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e' AND e.extname = %s)"
            # TOAST tables have the number of their table in their names
            " SELECT regexp_replace(pg_describe_object(d.classid, d.objid, d.objsubid) || ' ' || d.deptype::text"
            " || ' ' || pg_describe_object(d.refclassid, d.refobjid, d.refobjsubid), 'pg_toast_[0-9]+', 'pg_toast')"
            " FROM pg_depend d WHERE (d.classid, d.objid) IN (TABLE members) OR (d.refclassid, d.refobjid) IN"
            " (TABLE members)"
            " UNION ALL SELECT 'initial ' || pg_describe_object(classoid, objoid, objsubid) || ' ' || initprivs::text"
            " FROM pg_init_privs WHERE (classoid, objoid) IN (TABLE members)"
            " UNION ALL SELECT format('extension %%s %%s %%s %%s', extname, extnamespace::regnamespace, extrelocatable,"
            " extversion) FROM pg_extension WHERE extname = %s ORDER BY 1",
            [name, name],
        ).fetchall()
    return [text for (text,) in rows]

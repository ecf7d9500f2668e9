"""The SQL in the guides works as written, page by page, in a database `mydb` that has both extensions."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import servers
from pgbillion.common.sql import load
from pgbillion.server.postgres import Cluster

pytestmark = pytest.mark.quick

PROJECT = Path(__file__).parents[2]
T_DEMO = (
    "CREATE TABLE t_demo (id integer, grp integer, data real);"
    " INSERT INTO t_demo SELECT i, i % 10, i FROM generate_series(1, 10000) i;"
)
MODEL = (
    "CREATE SCHEMA model; CREATE TABLE model.country (id integer PRIMARY KEY); INSERT INTO model.country VALUES (1);"
)
JOURNAL = load("tenants", "journal")
# the pages, and what they take for granted
PAGES = {
    "docs/analytics.md": T_DEMO
    + "CREATE TABLE sales (region text, price numeric, discount numeric); CREATE TABLE events (document jsonb);",
    "docs/columns.md": T_DEMO,
    "docs/lazy-heap.md": "",
    "docs/monitoring.md": "LOAD 'pgbillion_rows';",
    "docs/tenants.md": f"{MODEL} CREATE TABLE model.currency (id integer); CREATE TABLE model.orders ();"
    f" CREATE ROLE app; {JOURNAL};",
    "docs/vector-aggregate.md": T_DEMO
    + "CREATE TABLE lineitem (l_orderkey bigint, l_quantity numeric(15,2), l_shipdate date, l_comment varchar(44));"
    " CREATE TABLE orders (o_orderkey bigint, o_orderdate date, o_orderpriority char(15));",
    "extensions/pgbillion_rows/README.md": "",
    "extensions/pgbillion_tables/README.md": MODEL,
}
# those that say that the library is in shared_preload_libraries
PRELOADED = {"docs/tenants.md": "pgbillion_tables"}
# those whose SQL is not whole: fragments, other servers, or the output of a larger example
ELSEWHERE = {"docs/reference-sql.md", "docs/shards.md"}


def blocks(page: str) -> list[str]:
    return re.findall(r"(?ms)^```sql\n(.*?)^```$", (PROJECT / page).read_text(encoding="utf-8"))


def test_every_page_with_sql_is_run() -> None:
    pages = [*PROJECT.glob("docs/*.md"), *PROJECT.glob("extensions/*/README.md")]
    names = {str(path.relative_to(PROJECT)) for path in pages}
    assert {name for name in names if blocks(name)} <= set(PAGES) | ELSEWHERE
    assert all(blocks(name) for name in PAGES)


@pytest.fixture
def server(request: pytest.FixtureRequest, page: str) -> Iterator[Cluster]:
    """A server with the libraries that a page takes for granted."""
    if page not in PRELOADED:
        yield request.getfixturevalue("cluster")
        return
    with servers.new_cluster(servers.installation(), {"shared_preload_libraries": PRELOADED[page]}) as own:
        yield own


@pytest.mark.parametrize("page", PAGES)
def test_the_sql_of_a_page_works(server: Cluster, page: str) -> None:
    extensions = "".join(f"CREATE EXTENSION IF NOT EXISTS pgbillion_{one};" for one in ("tables", "rows"))
    script = "\n".join([extensions, PAGES[page], *blocks(page)])
    with servers.new_database(server, "mydb") as database:
        done = subprocess.run(
            [server.installation.program("psql"), "-X", "-q", "-v", "ON_ERROR_STOP=1", server.conninfo(database)],
            input=script,
            capture_output=True,
            text=True,
            check=False,
        )
        with server.connect(database) as conn:
            if conn.execute("SELECT FROM pg_roles WHERE rolname = 'app'").fetchone() is not None:
                conn.execute("DROP OWNED BY app; DROP ROLE app")
    if page == "docs/monitoring.md" and server.installation.major < 17:
        # which the page says
        assert 'pgbillion_rows is not in "shared_preload_libraries"' in done.stderr
        return
    assert done.returncode == 0, done.stderr
    assert "ERROR" not in done.stderr

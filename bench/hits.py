"""Queries of web analytics over one wide table, by PostgreSQL's own plans, by ours, and by DuckDB.

The table, hits.sql, and the queries are of our own making: page views of many sites, 2 million rows of 104 columns and
more than 600 bytes at scale 1. One process; answers of all sides are compared in full. A copy of the table with two
columnar indexes is a third side, and DuckDB with one thread and with two, on its own copy, the fourth. QUICK=1 is scale
0.2, SCALE=… another one; SEED=… repeats the order, ROUNDS=… is how often, CLOCK=cpu counts CPU time (DuckDB's stays
elapsed time), QUERIES=top_url,… are only these, PG_CONFIG=… another PostgreSQL.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import common
import contest
import duck
from contest import OURS, POSTGRESQL, Query, Result, Side
from pgbillion.common import search_path
from pgbillion.common.connection import Connection
from pgbillion.rows import aggregate

SCALE = float(os.environ.get("SCALE") or common.sized(1, 0.2, 0.001))
ROWS = round(2_000_000 * SCALE)
COPY = "with_columns"  # the schema of the copy with the index
# an index has room for 32 columns: those of which most queries have all they read, and those of the other queries
INDEXED = (
    "visitor_id, url, phrase, site_id, load_ms, hit_date, hit_time, is_robot, screen_width, price, title, hit_id,"
    " is_mobile, country, browser, is_new, items, score, stay_ms, page_id, currency, language, referrer, ip, region_id,"
    " phone, version, os, country_id, source, campaign, request"
)
FURTHER = (
    "site_id, is_robot, os, browser, load_ms, ready_ms, screen_width, screen_height, flag_1, flag_5, flag_9, counter_7,"
    " label_2, label_4"
)
COLUMNS = Side("with columns", {contest.ENABLE: "on", "search_path": f"{COPY}, public"})
ONLY = os.environ.get("QUERIES", "").split(",") if os.environ.get("QUERIES") else None
LEAST_COLUMNS = 100
LEAST_BYTES = 600

_FLAGS = [f"flag_{n}" for n in range(1, 19)]
_COUNTERS = [f"counter_{n}" for n in range(1, 19)]
_CODES = [f"code_{n}" for n in range(1, 13)]
_LABELS = [f"label_{n}" for n in range(1, 7)]
TABLE = ", ".join(
    (
        "hit_id bigint NOT NULL, hit_time timestamp NOT NULL, hit_date date NOT NULL, left_at timestamp NOT NULL,"
        " site_id integer NOT NULL, visitor_id bigint NOT NULL, visit_id bigint NOT NULL, page_id integer NOT NULL,"
        " ip integer NOT NULL, country_id smallint NOT NULL, city_id integer NOT NULL, region_id smallint NOT NULL,"
        " url text NOT NULL, title text NOT NULL, path text NOT NULL, referrer text NOT NULL, phrase text NOT NULL,"
        " agent text NOT NULL, country char(2) NOT NULL, language text NOT NULL, phone text NOT NULL,"
        " source text NOT NULL, campaign text NOT NULL, fingerprint text NOT NULL, request varchar(40) NOT NULL,"
        " is_mobile boolean NOT NULL, is_robot boolean NOT NULL, is_new boolean NOT NULL, is_secure boolean NOT NULL,"
        " is_returning boolean NOT NULL, os smallint NOT NULL, browser smallint NOT NULL, version smallint NOT NULL,"
        " screen_width smallint NOT NULL, screen_height smallint NOT NULL, depth smallint NOT NULL,"
        " zone smallint NOT NULL, dns_ms integer NOT NULL, connect_ms integer NOT NULL, first_ms integer NOT NULL,"
        " load_ms integer NOT NULL, ready_ms integer NOT NULL, stay_ms integer NOT NULL,"
        " scrolled double precision NOT NULL, weight real NOT NULL, score double precision NOT NULL,"
        " price numeric(12,2) NOT NULL, items smallint NOT NULL, delivery date, currency text NOT NULL",
        *(f"{name} smallint NOT NULL" for name in _FLAGS),
        *(f"{name} integer NOT NULL" for name in _COUNTERS),
        *(f"{name} bigint NOT NULL" for name in _CODES),
        *(f"{name} text NOT NULL" for name in _LABELS),
    )
)
EXPRESSIONS = {
    "flags": ", ".join(f"(h >> {n}) & {(1 << (1 + n % 3)) - 1}" for n in range(len(_FLAGS))),
    "counters": ", ".join(f"(f.ms * {n + 1} + f.page) % {17 + 83 * n}" for n in range(len(_COUNTERS))),
    "codes": ", ".join(f"h >> {n}" for n in range(4, 4 + len(_CODES))),
    "labels": ", ".join(f"'{word} ' || (f.page + {n}) % {3 + 5 * n}" for n, word in enumerate(
        ("alpha", "beta", "gamma", "delta", "epsilon", "zeta"))),
}  # fmt: skip

# DuckDB's own copy; numbers of queries below zero are numbers of threads
DUCKDB = """
import json, os, sys, time
import duckdb
folder, columns, texts = sys.argv[1:]
db = duckdb.connect(f"{folder}/duck.db")
db.execute("SET enable_progress_bar = false")
db.execute(f"CREATE TABLE hits ({columns})")
# an empty string is quoted, and no NULL
db.execute(f"COPY hits FROM '{folder}/hits.csv' (FORMAT csv, HEADER false, ALLOW_QUOTED_NULLS false)")
db.execute("CHECKPOINT")
queries = dict(enumerate(json.loads(texts))) | {-n: f"SET threads = {n}" for n in (1, 2)}
first = duckdb.__version__
"""
THREADS = (1, 2)
Times = defaultdict[tuple[str, int], list[float]]  # seconds, of queries and numbers of threads
TOLERANCES = {"wide_rows": 1e-6}  # has a real, of which DuckDB's interface makes a double

DISTINCT = "distinct"  # what the keys of queries with count(DISTINCT) begin with
QUERIES = tuple(
    Query(key, text)
    for key, text in {
        # counts and sums of all
        "count": "SELECT count(*) FROM hits",
        "count_filter": "SELECT count(*) FROM hits WHERE is_robot AND load_ms > 100",
        "sums": "SELECT sum(load_ms), avg(screen_width), count(*), avg(visitor_id) FROM hits",
        "many_sums": "SELECT " + ", ".join(f"sum(screen_width + {n})" for n in range(30)) + " FROM hits",
        "money": "SELECT count(*), sum(price), sum(price * items), avg(price) FROM hits WHERE items > 0",
        "extremes": "SELECT min(hit_date), max(hit_date), min(hit_time), max(hit_time) FROM hits",
        "text_extremes": "SELECT min(url), max(title), min(phrase) FROM hits WHERE phrase <> ''",
        "cases": "SELECT sum(CASE WHEN is_mobile THEN 1 ELSE 0 END), sum(CASE WHEN load_ms > 1000 THEN load_ms ELSE 0"
        " END), sum(CASE WHEN country = 'AB' THEN score ELSE 0 END) FROM hits",
        # DISTINCT
        "distinct_visitors": "SELECT count(DISTINCT visitor_id) FROM hits",
        "distinct_phrases": "SELECT count(DISTINCT phrase) FROM hits",
        "distinct_by_region": "SELECT region_id, count(DISTINCT visitor_id) AS n FROM hits GROUP BY region_id"
        " ORDER BY n DESC, region_id LIMIT 10",
        "distinct_among_others": "SELECT site_id, sum(load_ms), count(*), avg(screen_width), count(DISTINCT visitor_id)"
        " FROM hits GROUP BY site_id ORDER BY count(*) DESC, site_id LIMIT 10",
        "distinct_by_phone": "SELECT phone, count(DISTINCT visitor_id) AS n FROM hits WHERE phone <> ''"
        " GROUP BY phone ORDER BY n DESC, phone LIMIT 10",
        "distinct_by_browser": "SELECT browser, version, count(DISTINCT visitor_id) AS n FROM hits WHERE is_mobile"
        " GROUP BY browser, version ORDER BY n DESC, browser, version LIMIT 10",
        "distinct_by_phrase": "SELECT phrase, count(DISTINCT visitor_id) AS n FROM hits WHERE phrase <> ''"
        " GROUP BY phrase ORDER BY n DESC, phrase LIMIT 10",
        "distinct_by_day": "SELECT hit_date, count(DISTINCT visit_id), count(DISTINCT site_id) FROM hits"
        " GROUP BY hit_date ORDER BY hit_date",
        "distinct_urls": "SELECT country, count(DISTINCT url), count(*) FROM hits WHERE NOT is_robot GROUP BY country"
        " ORDER BY country",
        # top groups by numbers
        "top_site": "SELECT site_id, count(*) FROM hits GROUP BY site_id ORDER BY 2 DESC, 1 LIMIT 10",
        "top_visitor": "SELECT visitor_id, count(*) FROM hits GROUP BY visitor_id ORDER BY 2 DESC, 1 LIMIT 10",
        "top_pages_of_day": "SELECT page_id, count(*), sum(stay_ms) FROM hits WHERE hit_date = date '2026-03-09'"
        " GROUP BY page_id ORDER BY 2 DESC, 1 LIMIT 20",
        "browsers": "SELECT os, browser, count(*), avg(load_ms), max(ready_ms) FROM hits GROUP BY os, browser"
        " ORDER BY 3 DESC, 1, 2 LIMIT 20",
        "screens": "SELECT screen_width, screen_height, count(*) FROM hits WHERE site_id = 3 AND NOT is_robot"
        " GROUP BY 1, 2 ORDER BY 3 DESC, 1, 2 LIMIT 10",
        "sales": "SELECT currency, items, sum(price), count(*) FROM hits WHERE price > 0 GROUP BY 1, 2 ORDER BY 1, 2",
        "spread": "SELECT country_id, avg(score), stddev(load_ms), count(*) FROM hits GROUP BY 1 HAVING count(*) > 500"
        " ORDER BY 1",
        "flags": "SELECT flag_1, flag_5, flag_9, count(*), sum(counter_7) FROM hits GROUP BY 1, 2, 3 ORDER BY 1, 2, 3",
        # top groups by strings
        "top_url": "SELECT url, count(*) FROM hits GROUP BY url ORDER BY 2 DESC, 1 LIMIT 10",
        "top_phrase": "SELECT phrase, count(*) FROM hits WHERE phrase <> '' GROUP BY phrase ORDER BY 2 DESC, 1"
        " LIMIT 10",
        "top_engine_phrase": "SELECT browser, phrase, count(*) FROM hits WHERE phrase <> '' GROUP BY 1, 2"
        " ORDER BY 3 DESC, 1, 2 LIMIT 10",
        "top_title_of_site": "SELECT title, count(*) AS n FROM hits WHERE site_id = 5 AND title <> '' AND NOT is_new"
        " GROUP BY title ORDER BY n DESC, title LIMIT 10",
        "languages": "SELECT language, currency, count(*), avg(stay_ms) FROM hits GROUP BY 1, 2 ORDER BY 1, 2",
        "labels": "SELECT label_2, label_4, count(*) FROM hits GROUP BY 1, 2 ORDER BY 3 DESC, 1, 2 LIMIT 25",
        "campaigns": "SELECT source, campaign, count(*), sum(price) FROM hits WHERE campaign <> '' GROUP BY 1, 2"
        " ORDER BY 4 DESC, 1, 2 LIMIT 20",
        # LIKE, substring, regular expressions, lengths
        "like_count": "SELECT count(*) FROM hits WHERE url LIKE '%ginger%'",
        "like_top": "SELECT phrase, min(url), count(*) FROM hits WHERE url LIKE '%maple%' AND phrase <> ''"
        " GROUP BY phrase ORDER BY 3 DESC, 1 LIMIT 10",
        "like_title": "SELECT site_id, count(*), min(title) FROM hits WHERE title LIKE '%Oak%'"
        " AND url NOT LIKE '%.example/fern%' GROUP BY site_id ORDER BY 2 DESC, 1 LIMIT 10",
        "length": "SELECT site_id, avg(length(url)), count(*) FROM hits WHERE url <> '' GROUP BY site_id"
        " HAVING count(*) > 2000 ORDER BY 2 DESC, 1 LIMIT 25",
        "host": "SELECT substring(url FROM 13 FOR 12) AS host, count(*), avg(length(referrer)) FROM hits"
        " WHERE referrer <> '' GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 20",
        "regexp": "SELECT regexp_replace(referrer, '^https?://(www\\.)?([^/]+)/.*$', '\\2') AS host, count(*),"
        " avg(length(referrer)) FROM hits WHERE referrer <> '' AND is_new GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 20",
        "lists": "SELECT language, count(*) FROM hits WHERE country IN ('AA', 'AB', 'AC', 'BD', 'CE') AND site_id IN"
        " (1, 2, 3, 5, 8, 13) GROUP BY 1 ORDER BY 1",
        # dates
        "by_day": "SELECT hit_date, count(*), sum(price) FROM hits GROUP BY 1 ORDER BY 1",
        "by_hour": "SELECT extract(hour FROM hit_time) AS hour, count(*) FROM hits GROUP BY 1 ORDER BY 1",
        "by_minute": "SELECT date_trunc('minute', hit_time) AS minute, count(*) FROM hits WHERE hit_date BETWEEN"
        " date '2026-03-14' AND date '2026-03-15' AND NOT is_robot GROUP BY 1 ORDER BY 1 LIMIT 10 OFFSET 500",
        "visitor_minutes": "SELECT visitor_id, extract(minute FROM hit_time) AS minute, phrase, count(*) FROM hits"
        " GROUP BY 1, 2, 3 ORDER BY 4 DESC, 1, 2, 3 LIMIT 10",
        "week": "SELECT page_id, count(*) FROM hits WHERE site_id = 2 AND hit_date >= date '2026-03-08' AND hit_date <"
        " date '2026-03-15' AND NOT is_robot GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 10",
        # rows
        "one_visitor": "SELECT visitor_id FROM hits WHERE visitor_id = -1",
        "first_phrases": "SELECT phrase, hit_id FROM hits WHERE phrase <> '' ORDER BY hit_time, hit_id LIMIT 10",
        "phrases_in_order": "SELECT phrase FROM hits WHERE phrase <> '' ORDER BY phrase LIMIT 10",
        "wide_rows": "SELECT * FROM hits WHERE url LIKE '%ginger/zinnia%' ORDER BY hit_time, hit_id LIMIT 10",
        "dear": "SELECT hit_id, price, url FROM hits WHERE price > 100 ORDER BY price DESC, hit_id LIMIT 20",
        "slow": "SELECT hit_id, load_ms, title FROM hits WHERE load_ms > 2500 AND is_mobile ORDER BY load_ms DESC,"
        " hit_id LIMIT 20",
        # almost as many groups as rows
        "visits": "SELECT visitor_id, ip, count(*), sum(is_new::integer), avg(screen_width) FROM hits"
        " GROUP BY 1, 2 ORDER BY 3 DESC, 1, 2 LIMIT 10",
        "requests": "SELECT request, sum(load_ms) FROM hits GROUP BY request ORDER BY 2 DESC, 1 LIMIT 10",
        "phrases_of_visitors": "SELECT visitor_id, phrase, count(*) FROM hits GROUP BY 1, 2 ORDER BY 3 DESC, 1, 2"
        " LIMIT 10",
        "ips": "SELECT ip, ip - 1, ip - 2, ip - 3, count(*) FROM hits GROUP BY 1, 2, 3, 4 ORDER BY 5 DESC, 1 LIMIT 10",
    }.items()
)


def make(conn: Connection) -> None:
    """Make the table, with statistics and visibility map."""
    common.say(f"making {ROWS:,} rows")
    script = Path(__file__).with_name("hits.sql").read_text(encoding="utf-8")
    values = {"rows": str(ROWS), "visitors": str(max(ROWS // 20, 1000)), **EXPRESSIONS}
    for name, value in values.items():
        script = script.replace(f"{{{name}}}", value)
    conn.execute(f"CREATE TABLE hits ({TABLE})".encode())
    # without parameters, many statements go at once
    conn.execute(script.encode())
    # first the log to disk: pages of commits that are not there are not marked all-visible
    conn.execute("CHECKPOINT")
    conn.execute("VACUUM (FREEZE, ANALYZE) hits")
    row = conn.execute(
        "SELECT (SELECT count(*) FROM pg_attribute WHERE attrelid = c.oid AND attnum > 0), pg_table_size(c.oid)"
        " FROM pg_class AS c WHERE c.oid = 'hits'::regclass"
    ).fetchone()
    assert row is not None
    common.say(f"{row[0]} columns, {row[1] / ROWS:.0f} bytes per row")
    if row[0] < LEAST_COLUMNS or row[1] < LEAST_BYTES * ROWS:
        raise RuntimeError("the table is not as wide as it is meant to be")


def make_copy(conn: Connection) -> bool:
    """Make the copy with columnar indexes; return whether there is that access method."""
    if conn.execute("SELECT 1 FROM pg_am WHERE amname = 'columns'").fetchone() is None:
        return False
    common.say("making the copy with two columnar indexes")
    conn.execute(f"CREATE SCHEMA {COPY}; CREATE TABLE {COPY}.hits (LIKE hits)".encode())
    conn.execute(f"INSERT INTO {COPY}.hits SELECT * FROM hits".encode())
    for columns in (INDEXED, FURTHER):
        conn.execute(f"CREATE INDEX ON {COPY}.hits USING columns ({columns})".encode())
    conn.execute("CHECKPOINT")
    # encodes what is all-visible
    conn.execute(f"VACUUM (FREEZE, ANALYZE) {COPY}.hits".encode())
    conn.execute(f"VACUUM {COPY}.hits".encode())
    return True


def index_bytes_share(conn: Connection) -> float:
    """Return the bytes of the columnar index per byte of a table of its columns alone."""
    conn.execute(f"CREATE TABLE {COPY}.alone AS SELECT {INDEXED} FROM hits".encode())
    conn.execute(f"CREATE INDEX alone_columns ON {COPY}.alone USING columns ({INDEXED})".encode())
    conn.execute("CHECKPOINT")
    for _ in range(2):
        conn.execute(f"VACUUM (FREEZE) {COPY}.alone".encode())
    row = conn.execute(
        f"SELECT index_bytes::float8 / table_bytes FROM pgbillion_rows.columns_status('{COPY}.alone')"
        " WHERE readable_blocks = table_blocks".encode()
    ).fetchone()
    if row is None:
        raise RuntimeError("not all of the table is in its columnar index")
    conn.execute(f"DROP TABLE {COPY}.alone".encode())
    return float(row[0])


def give_to_duckdb(conn: Connection, folder: Path) -> None:
    """Write the rows to where DuckDB reads them."""
    common.say("copying the table to DuckDB")
    file = folder / "hits.csv"
    with file.open("wb") as output, conn.cursor().copy("COPY hits TO STDOUT (FORMAT csv)") as copy:
        for data in copy:
            output.write(data)


def keys(results: Sequence[Result], sides: Sequence[Side], share: float | None, duckdb: Times) -> dict[str, float]:
    """The figures to look at."""
    distinct = [result for result in results if result.query.key.startswith(DISTINCT)]
    found = {"hits_geomean": contest.geomean(results), "hits_lowest": contest.lowest(results)}
    if distinct:
        found["hits_distinct"] = contest.geomean(distinct)
    if COLUMNS in sides:
        found["hits_geomean_columns"] = contest.geomean(results, COLUMNS)
        found["hits_lowest_columns"] = contest.lowest(results, COLUMNS)
        # above 1 where the columnar index is faster
        for threads, name in zip(THREADS, ("", "_two_threads"), strict=True):
            ratios = [
                statistics.median(duckdb[result.query.key, threads]) / result.median(COLUMNS) for result in results
            ]
            found[f"hits_duckdb{name}"] = round(statistics.geometric_mean(ratios), 3)
            found[f"hits_worst_duckdb{name}"] = round(min(ratios), 3)
    if share is not None:
        found["hits_index_bytes_share"] = share
    return found


def main() -> int:
    """Run the benchmark and return the exit status."""
    seed, order = common.seeded()
    results: list[Result] = []
    duckdb: Times = defaultdict(list)
    queries = [query for query in QUERIES if ONLY is None or query.key in ONLY]
    with common.own_server() as (cluster, folder):
        target = common.database(cluster, "bench")
        # the session has the extension from here on
        with aggregate.session(target):
            pass
        with target.connect() as conn, search_path.restored(conn):
            make(conn)
            sides: tuple[Side, ...] = (POSTGRESQL, OURS)
            share = None
            if make_copy(conn):
                sides, share = (*sides, COLUMNS), index_bytes_share(conn)
            give_to_duckdb(conn, folder)
            conn.execute("CHECKPOINT")
        with (
            duck.start(
                DUCKDB,
                str(folder),
                TABLE.replace("numeric", "decimal"),
                json.dumps([query.sql for query in queries]),
                interpreter=Path(sys.executable),
            ) as theirs,
            aggregate.session(target) as conn,
            search_path.restored(conn),
        ):
            (folder / "hits.csv").unlink()
            conditions = common.conditions(cluster)
            contest.configure(conn, contest.SESSION)
            numbers = {query.key: number for number, query in enumerate(queries)}
            for query in queries:
                result, answer = contest.check(conn, query, sides, 1)
                results.append(result)
                duck.compare(
                    query.key, answer, theirs.run(numbers[query.key])[1], TOLERANCES.get(query.key, duck.TOLERANCE)
                )
                common.say(f"{query.key}: the answers agree")

            def by_duckdb(result: Result) -> None:
                for threads in THREADS:
                    theirs.run(-threads)
                    duckdb[result.query.key, threads].append(theirs.run(numbers[result.query.key])[0])

            again = contest.measure(conn, results, sides, order, by_duckdb)
    contest.report(
        "hits",
        f"{ROWS:,} rows of web analytics",
        keys(results, sides, share, duckdb),
        results,
        sides,
        {
            "rows": ROWS,
            "duckdb": theirs.first,
            "duckdb_milliseconds": {
                f"{key}, {threads}": common.spread([value * 1000 for value in values])
                for (key, threads), values in duckdb.items()
            },
            "measured_again": again,
            "seed": seed,
            **conditions,
        },
    )
    return 0


if __name__ == "__main__":
    common.run(main)

"""A wide table of hits on web pages, and the queries that are asked of it: fixed before columnar indexes were."""

from __future__ import annotations

# the columns that queries use: name, type, and what a row number g makes of them
USED: tuple[tuple[str, str, str], ...] = (
    ("hit_id", "bigint NOT NULL", "g"),
    ("event_time", "timestamp NOT NULL", "timestamp '2025-01-01' + g * interval '1 second' * 3"),
    ("event_date", "date NOT NULL", "date '2025-01-01' + (g * 3 / 86400)::int"),
    ("counter_id", "integer NOT NULL", "(power(random(), 3) * 6000)::int"),
    ("user_id", "bigint NOT NULL", "(power(random(), 2) * 300000)::bigint * 7919"),
    ("region_id", "integer NOT NULL", "(power(random(), 2) * 900)::int"),
    ("client_ip", "integer NOT NULL", "(random() * 2000000000)::int"),
    ("os", "smallint NOT NULL", "(random() * 40)::smallint"),
    ("user_agent", "smallint NOT NULL", "(power(random(), 2) * 80)::smallint"),
    ("browser", "text NOT NULL", "(ARRAY['Firefox','Chrome','Safari','Edge','Opera',''])[1 + (random() * 5)::int]"),
    ("resolution_width", "smallint NOT NULL", "(ARRAY[0,1024,1280,1366,1440,1600,1920,2560])[1 + (random() * 7)::int]"),
    ("resolution_height", "smallint NOT NULL", "(ARRAY[0,600,720,768,900,1080,1440])[1 + (random() * 6)::int]"),
    ("is_mobile", "boolean NOT NULL", "random() < 0.4"),
    ("is_refresh", "smallint NOT NULL", "(random() < 0.1)::int::smallint"),
    ("is_link", "smallint NOT NULL", "(random() < 0.05)::int::smallint"),
    ("is_download", "smallint NOT NULL", "(random() < 0.02)::int::smallint"),
    ("dont_count", "smallint NOT NULL", "(random() < 0.03)::int::smallint"),
    ("traffic_source", "smallint NOT NULL", "(random() * 10 - 1)::smallint"),
    ("search_engine", "smallint NOT NULL", "(power(random(), 4) * 60)::smallint"),
    ("search_phrase", "text NOT NULL", "CASE WHEN random() < 0.85 THEN '' ELSE 'how to ' || md5((power(random(), 3)"
     " * 20000)::int::text) END"),
    ("url", "text NOT NULL", "'https://example' || (power(random(), 2) * 50)::int || '.org/' || (ARRAY['shop','news',"
     "'forum','maps'])[1 + (random() * 3)::int] || '/' || (power(random(), 3) * 4000)::int"),
    ("referer", "text NOT NULL", "CASE WHEN random() < 0.3 THEN '' ELSE 'https://search' || (random() * 9)::int ||"
     " '.com/?q=' || (power(random(), 3) * 3000)::int END"),
    ("title", "text NOT NULL", "'Page ' || (power(random(), 3) * 4000)::int || (ARRAY[' of the shop',' today',''])[1"
     " + (random() * 2)::int]"),
    ("url_hash", "bigint NOT NULL", "(power(random(), 3) * 100000)::bigint * 1000003"),
    ("window_width", "smallint NOT NULL", "(random() * 2500)::smallint"),
    ("window_height", "smallint NOT NULL", "(random() * 1500)::smallint"),
    ("send_timing", "integer NOT NULL", "(power(random(), 6) * 60000)::int"),
    ("price", "numeric(12,2) NOT NULL", "round((power(random(), 4) * 1000)::numeric, 2)"),
    ("country", "text NOT NULL", "(ARRAY['DE','FR','ES','IT','PL','NL','SE','US','JP','BR'])[1 + (random() * 9)::int]"),
    ("score", "real NOT NULL", "random()"),
)  # fmt: skip
# what nobody asks for
NUMBERS, STRINGS = 50, 26
COLUMNS = (
    *USED,
    *((f"number_{i}", "integer NOT NULL", f"(random() * {10 ** (i % 8 + 1)})::int") for i in range(NUMBERS)),
    *((f"string_{i}", "text NOT NULL", f"left(md5((g * {i + 3})::text), {8 + i % 5 * 4})") for i in range(STRINGS)),
)
TABLE = "hits"
# kind of query: the queries, four or more of each
QUERIES: dict[str, tuple[str, ...]] = {
    "count": (
        "SELECT count(*) FROM hits",
        "SELECT count(*), count(search_phrase), sum(resolution_width) FROM hits",
        "SELECT avg(user_id), sum(send_timing), sum(price) FROM hits",
        "SELECT min(event_date), max(event_date), min(event_time), max(event_time) FROM hits",
        "SELECT sum(window_width), sum(window_height), avg(score) FROM hits",
    ),
    "filter": (
        "SELECT count(*) FROM hits WHERE search_engine <> 0",
        "SELECT count(*), sum(price) FROM hits WHERE counter_id = 62 AND dont_count = 0",
        "SELECT count(*) FROM hits WHERE user_id = 7919 * 435",
        "SELECT count(*), avg(score) FROM hits WHERE is_mobile AND region_id BETWEEN 10 AND 20",
        "SELECT sum(price) FROM hits WHERE price BETWEEN 5.00 AND 9.99 AND os < 10 AND traffic_source IN (1, 3, 5)",
    ),
    "top_numbers": (
        "SELECT region_id, count(*) AS n FROM hits GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 10",
        "SELECT os, user_agent, count(*), avg(send_timing) FROM hits GROUP BY 1, 2 ORDER BY 3 DESC, 1, 2 LIMIT 10",
        "SELECT search_engine, count(*), sum(price) FROM hits WHERE search_engine <> 0 GROUP BY 1 ORDER BY 2 DESC, 1"
        " LIMIT 10",
        "SELECT resolution_width, resolution_height, count(*) FROM hits WHERE dont_count = 0 GROUP BY 1, 2"
        " ORDER BY 3 DESC, 1, 2 LIMIT 10",
        "SELECT counter_id, count(*), sum(is_refresh), avg(resolution_width) FROM hits GROUP BY 1 ORDER BY 2 DESC, 1"
        " LIMIT 10",
    ),
    "top_strings": (
        "SELECT browser, count(*) FROM hits WHERE browser <> '' GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 10",
        "SELECT country, browser, count(*), sum(price) FROM hits GROUP BY 1, 2 ORDER BY 3 DESC, 1, 2 LIMIT 10",
        "SELECT search_phrase, count(*) FROM hits WHERE search_phrase <> '' GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 10",
        "SELECT title, count(*) FROM hits WHERE is_mobile GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 10",
        "SELECT url, count(*) FROM hits GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 10",
    ),
    "like": (
        "SELECT count(*) FROM hits WHERE url LIKE '%shop%'",
        "SELECT count(*), sum(price) FROM hits WHERE title LIKE '%today' AND url NOT LIKE '%/news/%'",
        "SELECT country, count(*) FROM hits WHERE referer LIKE '%search3%' GROUP BY 1 ORDER BY 2 DESC, 1",
        "SELECT count(*) FROM hits WHERE search_phrase LIKE 'how to a%'",
    ),
    "dates": (
        "SELECT event_date, count(*) FROM hits GROUP BY 1 ORDER BY 1",
        "SELECT count(*), sum(price) FROM hits WHERE event_date = '2025-01-07'",
        "SELECT counter_id, count(*) FROM hits WHERE event_date BETWEEN '2025-01-03' AND '2025-01-10'"
        " AND is_refresh = 0 GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 10",
        "SELECT browser, avg(score) FROM hits WHERE event_time >= '2025-01-05' AND event_time < '2025-01-05 12:00'"
        " GROUP BY 1 ORDER BY 1",
    ),
    "many_groups": (
        "SELECT user_id, count(*) FROM hits GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 10",
        "SELECT client_ip, count(*), sum(is_refresh) FROM hits GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 10",
        "SELECT counter_id, region_id, count(*), avg(window_width) FROM hits GROUP BY 1, 2 ORDER BY 3 DESC, 1, 2"
        " LIMIT 10",
        "SELECT url_hash, event_date, count(*) FROM hits WHERE is_link = 0 GROUP BY 1, 2 ORDER BY 3 DESC, 1, 2"
        " LIMIT 10",
    ),
    "distinct": (
        "SELECT count(*) FROM (SELECT DISTINCT user_id FROM hits) AS x",
        "SELECT count(*) FROM (SELECT DISTINCT search_phrase FROM hits) AS x",
        "SELECT DISTINCT country, browser FROM hits ORDER BY 1, 2",
        "SELECT count(*) FROM (SELECT DISTINCT region_id, os FROM hits WHERE is_mobile) AS x",
    ),
}

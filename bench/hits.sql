-- The table of `make bench-hits`: page views of many sites, one row each, 104 columns, of our own making.
-- All of row i follows from hashes of i: the same rows everywhere. u(k) is even between 0 and 1, and z(n, k) is between
-- 0 and n - 1, small numbers being the frequent ones. What is in braces is filled in by hits.py.
CREATE FUNCTION pg_temp.u(i bigint, k bigint) RETURNS double precision LANGUAGE sql IMMUTABLE AS
    $$SELECT ((hashint8extended(i, k) >> 11) & 9007199254740991) / 9007199254740992.0::double precision$$;
CREATE FUNCTION pg_temp.z(i bigint, n integer, k bigint) RETURNS integer LANGUAGE sql IMMUTABLE AS
    $$SELECT floor(power(n::double precision, pg_temp.u(i, k)))::integer - 1$$;
CREATE FUNCTION pg_temp.words(i bigint, n integer, k bigint) RETURNS text LANGUAGE sql IMMUTABLE AS
    $$SELECT string_agg(('{alder,birch,cedar,daisy,elm,fern,grape,hazel,iris,jasmine,kale,laurel,maple,nettle,oak,pine,'
        'quince,rose,sage,thyme,umbel,violet,willow,yarrow,zinnia,apple,basil,clover,dill,ebony,fig,ginger}'::text[])
        [1 + (hashint8extended(i, k + w) & 31)], '-') FROM generate_series(1, n) AS w$$;

-- hash joins keep the order of rows
SET work_mem = '256MB'; SET enable_mergejoin = off; SET max_parallel_workers_per_gather = 0;

-- what many rows have in common is made once
CREATE TEMPORARY TABLE page AS
SELECT p, 'https://www.' || pg_temp.words(p % 997, 1, 1) || p % 997 || '.example/' || pg_temp.words(p, 2, 10) || '/'
       || pg_temp.words(p, 1 + (p % 4)::integer, 20) || CASE WHEN p % 3 = 0 THEN '?item=' || p ELSE '/' || p || '.html' END
       AS url,
       initcap(replace(pg_temp.words(p, 4 + (p % 3)::integer, 30), '-', ' ')) || ' | Ümlaut & Söhne ' || p % 997 AS title,
       '/' || pg_temp.words(p, 2, 10) AS path
FROM generate_series(0, 49999) AS p;
CREATE UNIQUE INDEX ON page (p);
CREATE TEMPORARY TABLE phrase AS
SELECT p, replace(pg_temp.words(p, 1 + (p % 5)::integer, 50), '-', ' ') || CASE WHEN p % 7 = 0 THEN ' ' || p ELSE '' END
       AS phrase FROM generate_series(0, 19999) AS p;
CREATE UNIQUE INDEX ON phrase (p);
CREATE TEMPORARY TABLE agent AS
SELECT p, 'Mozilla/5.0 (' || ('{X11; Linux x86_64,Windows NT 10.0; Win64,Macintosh; Intel Mac OS X,Linux; Android 14}'
       ::text[])[1 + p % 4] || ') AppleWebKit/' || 500 + p % 40 || '.36 (KHTML, like Gecko) Version/' || p % 90 AS agent
FROM generate_series(0, 1999) AS p;
CREATE UNIQUE INDEX ON agent (p);
ANALYZE page, phrase, agent;

CREATE TEMPORARY TABLE facts AS
SELECT i AS hit_id,
       timestamp '2026-03-01' + make_interval(secs => i * 2592000.0 / {rows}) AS hit_time,
       pg_temp.z(i, 600, 100) AS site_id,
       hashint8extended(pg_temp.z(i, {visitors}, 101) + (i * 7 % 13) * 1000003, 5) AS visitor_id,
       pg_temp.z(i, 50000, 102) AS page, pg_temp.z(i, 50000, 103) AS referrer,
       CASE WHEN pg_temp.u(i, 104) < 0.12 THEN pg_temp.z(i, 20000, 105) END AS phrase,
       pg_temp.z(i, 2000, 106) AS agent, pg_temp.z(i, 230, 107) AS country, pg_temp.z(i, 5000, 108) AS city,
       pg_temp.u(i, 109) < 0.3 AS is_mobile, pg_temp.u(i, 110) AS chance, pg_temp.u(i, 111) AS chance2,
       pg_temp.z(i, 3000, 112) AS ms, hashint8extended(i, 113) AS h
FROM generate_series(0, {rows} - 1::bigint) AS i;

ANALYZE facts;

INSERT INTO hits
SELECT f.hit_id, f.hit_time, f.hit_time::date, f.hit_time + make_interval(secs => f.chance * 7200),
       f.site_id, f.visitor_id, hashint8extended(f.visitor_id, f.hit_id / 20000), f.page,
       (h & 2147483647)::integer, f.country, f.city, f.country * 7 % 12,
       p.url, p.title, p.path, CASE WHEN f.chance2 < 0.55 THEN r.url ELSE '' END, COALESCE(s.phrase, ''),
       a.agent, chr(65 + f.country / 10) || chr(65 + f.country % 10),
       ('{en,de,fr,es,pt,ja,zh,ru,it,pl}'::text[])[1 + f.country % 10],
       CASE WHEN f.is_mobile THEN 'Phone ' || f.agent % 150 ELSE '' END,
       CASE WHEN f.chance < 0.07 THEN 'newsletter' WHEN f.chance < 0.1 THEN 'social' ELSE '' END,
       CASE WHEN f.chance < 0.1 THEN 'campaign-' || f.page % 80 ELSE '' END,
       md5(f.visitor_id::text), to_char(f.hit_id, 'FM000000000000') || '-' || f.site_id,
       f.is_mobile, f.chance2 < 0.02, f.chance2 > 0.97, (h & 64) <> 0, f.chance < 0.5,
       f.agent % 9, f.agent % 23, f.agent % 90, (CASE WHEN f.is_mobile THEN 360 + f.agent % 8 * 10 ELSE
           1024 + f.agent % 10 * 128 END), (CASE WHEN f.is_mobile THEN 640 + f.agent % 8 * 20 ELSE
           768 + f.agent % 10 * 64 END), 24 + 8 * (f.agent % 2), (f.country * 15 - 720) % 720,
       f.ms % 40, f.ms % 170, f.ms % 350, f.ms, f.ms + f.ms % 1000, 3 * f.ms + 11,
       f.chance * 100, (f.chance2 * 1000)::real, f.chance * f.ms,
       CASE WHEN f.chance2 < 0.04 THEN round((pg_temp.z(f.hit_id, 90000, 200) + 99) / 100.0, 2) ELSE 0 END,
       CASE WHEN f.chance2 < 0.04 THEN 1 + (h & 7) ELSE 0 END,
       CASE WHEN f.chance2 < 0.04 THEN f.hit_time::date + (h & 15)::integer END,
       ('{EUR,USD,GBP,JPY}'::text[])[1 + f.country % 4],
       {flags}, {counters}, {codes}, {labels}
FROM facts AS f JOIN page AS p ON p.p = f.page JOIN page AS r ON r.p = f.referrer JOIN agent AS a ON a.p = f.agent
     LEFT JOIN phrase AS s ON s.p = f.phrase;
DROP TABLE facts, page, phrase, agent;

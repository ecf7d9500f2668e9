"""Tables for tests of joins along a big one.

`fact` has NULLs and duplicates in all that it is joined by; the others have duplicates, NULLs, no row at all,
other types for the same values, and rows that join with nothing.
"""

TABLES = """
CREATE TABLE fact (id integer, a smallint, b integer, c bigint, s text, v varchar(9), p char(4), n numeric, d date,
    ts timestamp, f double precision, r real, x integer, big text);
INSERT INTO fact SELECT i, nullif(i % 17, 5), nullif(i % 41, 7), nullif(i % 13, 2) - 3, nullif(chr(97 + i % 7), 'e'),
    nullif('w' || i % 11, 'w3'), chr(97 + i % 5), round(nullif(i % 9, 4) / 2.0, 1),
    date '2024-01-01' + nullif(i % 31, 11), timestamp '2024-01-01' + make_interval(hours => i % 50), nullif(i / 8.0, 3),
    i / 16.0, nullif(i % 1000, 17) - 500, repeat(chr(97 + i % 3), 10 + i % 40) FROM generate_series(1, 1700) i;
-- pages of many versions, and rows that are gone
UPDATE fact SET x = x + 1 WHERE id % 19 = 0;
DELETE FROM fact WHERE id % 23 = 0;
CREATE TABLE ints (k integer, k2 bigint, name text, w integer);
INSERT INTO ints SELECT nullif(i % 45, 8), i % 6 - 3, 'Name ' || i % 9, nullif(i, 20) FROM generate_series(1, 70) i;
CREATE TABLE longs (k bigint NOT NULL, label text, g smallint);
INSERT INTO longs SELECT i - 4, CASE WHEN i % 4 > 0 THEN 'l' || i % 4 END, i % 3 FROM generate_series(1, 14) i;
CREATE UNIQUE INDEX ON longs (k);
CREATE TABLE shorts (k smallint, z numeric, q real);
INSERT INTO shorts SELECT nullif(i % 12, 3), i / 2.0, i FROM generate_series(1, 24) i;
CREATE TABLE words (code text, grade integer, pad char(4), weight double precision);
INSERT INTO words VALUES ('a', 1, 'a', 1.5), ('b', 2, 'b', NULL), ('b', 1, 'c', 2), ('c', NULL, 'c', 0),
    (NULL, 3, NULL, 9), ('w1', 4, 'x', 2), ('w5', 5, 'd', -1), ('w5', 6, 'a', 7);
CREATE TABLE days (day date, season text, at timestamp);
INSERT INTO days SELECT date '2023-12-25' + i, 's' || i % 4, timestamp '2024-01-01' + make_interval(hours => i)
    FROM generate_series(1, 40) i;
CREATE TABLE nobody (k integer, name text);
CREATE TABLE many (k integer, y integer);
INSERT INTO many SELECT i % 9, i FROM generate_series(1, 300) i;
CREATE TABLE parts (k integer, h text) PARTITION BY LIST (k);
CREATE TABLE parts_1 PARTITION OF parts FOR VALUES IN (1, 2, 3, NULL);
CREATE TABLE parts_2 PARTITION OF parts DEFAULT;
INSERT INTO parts SELECT nullif(i, 4), 'h' || i % 5 FROM generate_series(1, 30) i;
-- for nested loops that look for rows, and merge joins
CREATE INDEX ON ints (k);
CREATE INDEX ON shorts (k);
CREATE INDEX ON words (code);
CREATE INDEX ON many (k, y);
CREATE INDEX ON days (day);
ANALYZE;
"""
# all columns except r
COLUMNS = """
CREATE INDEX fact_columns ON fact USING columns (id, a, b, c, s, v, p, n, d, ts, f, x, big) WITH (segment_blocks = 8)
"""

# of aggregation before the join: a big table of which rows have null keys, or keys that no other table has, and small
# ones with duplicate and null keys; what has no counterpart holds values next to the limits of their types, so that to
# add or multiply them is an error
BIG = (
    "id integer, k integer, k2 bigint, s text, n numeric, x integer, v numeric(30, 12), f double precision, b boolean,"
    " r real, l bigint, m money, i interval, h numeric, ts date"
)
FILL_BIG = (
    "INSERT INTO {} SELECT i, nullif(i % 23, 7), nullif(i % 11, 3), nullif(chr(97 + i % 6), 'e'),"
    " CASE WHEN i % 2 = 0 THEN 1.0 ELSE 1.00 END, i % 1000 - 500, nullif(i / 7.0, 1), i / 8.0 - 100, i % 3 = 0,"
    " i / 16.0 - 40, i * 1000, i * 7, make_interval(days => i), i / 3.0, date '2020-01-01' + i % 400"
    " FROM generate_series(1, 1500) i"
    " UNION ALL SELECT i, 500, 500, '!', 2, 2147483647, 999999999999999999, 1.7e308, true, 3.4e38,"
    " 9223372036854775807, 9223372036854775807::numeric / 100, interval '178956970 years', 9e131071,"
    " date '2020-01-01' FROM generate_series(1, 12) i"
)
SMALL = """
CREATE TABLE d1 (id integer, name text, region text, w integer);
CREATE TABLE d2 (id bigint, label text);
CREATE TABLE d3 (code text, grade integer);
INSERT INTO d1 SELECT nullif(i % 20, 4), 'Name ' || i % 7, 'r' || i % 3, i FROM generate_series(1, 35) i;
INSERT INTO d2 SELECT nullif(i, 5), 'l' || i % 4 FROM generate_series(1, 9) i;
INSERT INTO d3 VALUES ('a', 1), ('b', 2), ('b', 1), ('c', NULL), (NULL, 3), ('z', 4), ('e', 5);
CREATE INDEX ON d1 (id);
ANALYZE d1, d2, d3;
"""

-- Bytes and number of the files of a relation, which is not opened; what is gone meanwhile, or of a lazy table, is none.
-- A file that is a whole segment is followed by another.
SELECT sum(f.size + coalesce(f.more[1], 0))::int8, (count(f.size) + coalesce(sum(f.more[2]), 0))::int8
  FROM (SELECT f.size, CASE WHEN f.size >= pg_size_bytes(current_setting('segment_size')) THEN
                  (WITH RECURSIVE segment (number, size) AS (
                       SELECT 1, (pg_stat_file(p.path || f.fork || '.1', true)).size
                        UNION ALL
                       SELECT number + 1, (pg_stat_file(p.path || f.fork || '.' || number + 1, true)).size
                         FROM segment
                        WHERE size >= pg_size_bytes(current_setting('segment_size'))
                   ) SELECT ARRAY[sum(size)::int8, count(size)] FROM segment)
               END AS more
          FROM pg_relation_filepath(s.oid) AS p (path),
               LATERAL (VALUES ('', (pg_stat_file(p.path, true)).size),
                               ('_fsm', CASE WHEN s.kind <> 'S' THEN (pg_stat_file(p.path || '_fsm', true)).size END),
                               ('_vm', CASE WHEN s.kind IN ('r', 'm', 't') THEN (pg_stat_file(p.path || '_vm', true)).size END),
                               ('_init', CASE WHEN s.persistence = 'u' THEN (pg_stat_file(p.path || '_init', true)).size END)
                       ) AS f (fork, size)) AS f

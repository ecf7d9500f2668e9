-- Metrics of schemas, in one scan of the catalogs that opens no relation: the largest by name, and the others as one.
-- Parameters: schemas, number of the largest. docs/monitoring.md has this query for postgres_exporter.
WITH n AS MATERIALIZED (
    SELECT oid, nspname FROM pg_namespace WHERE nspname = ANY (%s::name[])
), c AS MATERIALIZED (
    SELECT oid, relnamespace, relkind, relpages, reltuples, reltoastrelid
      FROM pg_class
     WHERE relnamespace IN (SELECT oid FROM n) AND relkind IN ('r', 'p', 'm', 'S', 'i')
), stored (schema, pages) AS (
    SELECT relnamespace, relpages FROM c WHERE relkind <> 'p'
     UNION ALL
    SELECT c.relnamespace, t.relpages FROM c JOIN pg_class t ON t.oid = c.reltoastrelid
     UNION ALL
    SELECT c.relnamespace, i.relpages
      FROM c
      JOIN pg_index x ON x.indrelid = c.reltoastrelid
      JOIN pg_class i ON i.oid = x.indexrelid
     WHERE c.reltoastrelid <> 0
), size (schema, bytes) AS (
    SELECT schema, sum(pages) * current_setting('block_size')::int8 FROM stored GROUP BY schema
), activity (schema, tables, live, dead, vacuumed, autovacuumed) AS (
    SELECT c.relnamespace, count(*) FILTER (WHERE c.relkind <> 'm'),
           -- tables of which the statistics know nothing, as on a standby or after a reset
           sum(CASE WHEN s.live = 0 AND s.dead = 0 AND c.relkind <> 'p' THEN greatest(c.reltuples, 0) ELSE s.live END),
           sum(s.dead), max(s.vacuumed), max(s.autovacuumed)
      FROM c,
           LATERAL (SELECT pg_stat_get_live_tuples(c.oid), pg_stat_get_dead_tuples(c.oid),
                           pg_stat_get_last_vacuum_time(c.oid), pg_stat_get_last_autovacuum_time(c.oid)
                    ) AS s (live, dead, vacuumed, autovacuumed)
     WHERE c.relkind IN ('r', 'p', 'm')
     GROUP BY c.relnamespace
), ranked AS (
    SELECT n.nspname, size.bytes, activity.tables, activity.live, activity.dead, activity.vacuumed, activity.autovacuumed,
           row_number() OVER (ORDER BY size.bytes DESC NULLS LAST, n.nspname) AS place
      FROM n
      LEFT JOIN size ON size.schema = n.oid
      LEFT JOIN activity ON activity.schema = n.oid
), named AS (
    -- no schema that a user creates begins with pg_
    SELECT CASE WHEN place <= %s THEN nspname::text ELSE 'pg_others' END AS schema, ranked.* FROM ranked
)
SELECT current_database()::text AS database, schema, count(*) AS schemas,
       coalesce(sum(bytes), 0)::int8 AS size_bytes,
       coalesce(sum(tables), 0)::int8 AS tables,
       coalesce(sum(live), 0)::int8 AS live_rows,
       coalesce(sum(dead), 0)::int8 AS dead_rows,
       extract(epoch FROM greatest(now(), max(vacuumed)) - max(vacuumed))::int8 AS vacuum_age_seconds,
       extract(epoch FROM greatest(now(), max(autovacuumed)) - max(autovacuumed))::int8 AS autovacuum_age_seconds
  FROM named
 GROUP BY schema
 ORDER BY min(place)

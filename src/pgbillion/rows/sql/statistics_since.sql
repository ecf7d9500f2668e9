-- this database, the time, since when indexes' reads are counted, and whether they are counted at all;
-- a crash resets what pg_stat_bgwriter shows, too
SELECT d.oid::int8, extract(epoch FROM clock_timestamp())::float8,
       extract(epoch FROM greatest(pg_stat_get_db_stat_reset_time(d.oid), b.stats_reset))::float8,
       current_setting('track_counts')::bool, pg_is_in_recovery()
  FROM pg_database d, pg_stat_bgwriter b
 WHERE d.datname = current_database()

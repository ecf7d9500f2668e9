-- Every folder that holds data: the cluster's own, its write-ahead log's, and the tablespaces', as the server sees them.
SELECT current_setting('data_directory') AS folder
UNION ALL
SELECT current_setting('data_directory') || '/pg_wal'
UNION ALL
SELECT CASE WHEN location LIKE '/%' THEN location ELSE current_setting('data_directory') || '/' || location END
  FROM pg_tablespace, pg_tablespace_location(oid) AS location
 WHERE location <> ''

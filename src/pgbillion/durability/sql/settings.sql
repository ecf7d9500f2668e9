-- Settings as the server works with them, and as they stand in its files.
-- Parameter: names. own: the session's own value hides the server's (ALTER DATABASE or ROLE … SET, PGOPTIONS).
SELECT s.name,
       s.setting,
       s.source,
       s.pending_restart,
       s.source IN ('client', 'user', 'database', 'database user', 'session', 'global') AS own,
       s.boot_val,
       (SELECT f.setting
          FROM pg_file_settings f
         WHERE f.name = s.name
           AND f.error IS NULL
         ORDER BY f.seqno DESC
         LIMIT 1) AS in_files,
       (SELECT f.setting
          FROM pg_file_settings f
         WHERE f.name = s.name
           AND f.sourcefile = current_setting('data_directory') || '/postgresql.auto.conf'
         ORDER BY f.seqno DESC
         LIMIT 1) AS in_auto_conf
  FROM pg_settings s
 WHERE s.name = ANY (%s)

-- Who may still work with the settings from before a reload: a session reads them between two commands, an autovacuum
-- worker between two tables, others between two transactions.
-- Parameter: a time after the reload reached all of them.
SELECT pid
  FROM pg_stat_activity
 WHERE pid <> pg_backend_pid()
   AND CASE backend_type
         WHEN 'client backend' THEN
              CASE state
                WHEN 'active' THEN query_start < %(since)s
                WHEN 'fastpath function call' THEN query_start < %(since)s
                -- nothing is known of it with track_activities off
                WHEN 'disabled' THEN backend_start < %(since)s
                ELSE false
              END
         WHEN 'autovacuum worker' THEN backend_start < %(since)s
         ELSE xact_start < %(since)s
       END
 ORDER BY pid

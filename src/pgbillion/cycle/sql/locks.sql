-- Locks that this session holds, and how many the server's table of them has room for.
-- MaxBackends: the last are for the launcher of autovacuum and, since 17, the synchronization of slots.
SELECT (SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid()),
       current_setting('max_locks_per_transaction')::bigint,
       current_setting('max_prepared_transactions')::bigint
           + current_setting('max_connections')::bigint
           + current_setting('max_worker_processes')::bigint
           + current_setting('max_wal_senders')::bigint
           + coalesce(
                 current_setting('autovacuum_worker_slots', true), current_setting('autovacuum_max_workers')
             )::bigint
           + CASE WHEN current_setting('server_version_num')::int >= 170000 THEN 2 ELSE 1 END

-- A trigger that may wait for the end of this transaction and then runs code that is not PostgreSQL's, on a table that the
-- transaction has written.
SELECT pg_describe_object('pg_trigger'::regclass, t.oid, 0)
  FROM pg_locks l
  JOIN pg_trigger t ON t.tgrelid = l.relation
  JOIN pg_proc p ON p.oid = t.tgfoid
  LEFT JOIN pg_constraint c ON c.oid = t.tgconstraint
 WHERE l.pid = pg_backend_pid() AND l.locktype = 'relation' AND l.mode IN ('RowExclusiveLock', 'ShareRowExclusiveLock',
                                                                         'ExclusiveLock', 'AccessExclusiveLock')
   AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
   AND t.tgdeferrable
   -- foreign keys, and unique keys, which have no expressions
   AND NOT (t.tgisinternal AND p.pronamespace = 'pg_catalog'::regnamespace AND c.contype IN ('f', 'p', 'u'))
 LIMIT 1

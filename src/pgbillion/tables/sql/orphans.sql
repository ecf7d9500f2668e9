-- Files of this database that no pg_class row claims ('orphan'), and claims without a file ('missing').
-- Reads the folders with pg_ls_dir: for superusers, and for roles that were given EXECUTE on it.
WITH here AS (
    SELECT oid, dattablespace FROM pg_database WHERE datname = current_database()
), folders AS (
    SELECT t.oid AS space,
           CASE WHEN t.spcname = 'pg_default' THEN 'base/' || here.oid
                ELSE format('pg_tblspc/%s/PG_%s_%s/%s', t.oid, current_setting('server_version_num')::int / 10000,
                            (SELECT catalog_version_no FROM pg_control_system()), here.oid)
           END AS folder
    FROM pg_tablespace t, here
    WHERE t.spcname <> 'pg_global'
), files AS MATERIALIZED (
    SELECT space, folder, file,
           -- a temporary relation's name begins with its session's number
           substring(file FROM '^(?:t\d+_)?(\d+)(?:_(?:fsm|vm|init))?(?:\.\d+)?$')::oid AS number,
           file ~ '^(?:t\d+_)?\d+$' AS main
    FROM folders, pg_ls_dir(folder, true, false) AS file
    WHERE file ~ '^(?:t\d+_)?\d+(?:_(?:fsm|vm|init))?(?:\.\d+)?$'
), claims AS MATERIALIZED (
    SELECT c.oid, c.relpersistence,
           CASE WHEN c.reltablespace = 0 THEN here.dattablespace ELSE c.reltablespace END AS space,
           -- mapped catalogs have their number elsewhere
           CASE WHEN c.relfilenode = 0 THEN pg_relation_filenode(c.oid) ELSE c.relfilenode END AS number
    FROM pg_class c, here
    -- 1 is the file number of lazy relations that have no file yet
    WHERE c.relkind IN ('r', 'i', 'S', 't', 'm') AND NOT c.relisshared AND c.relfilenode <> 1
)
SELECT 'orphan' AS what, folder || '/' || file AS name
FROM files
WHERE NOT EXISTS (SELECT FROM claims WHERE claims.space = files.space AND claims.number = files.number)
UNION ALL
SELECT 'missing', format('%s (%s)', oid::regclass, number)
FROM claims
-- after a crash the server removes the files of temporary tables, whose rows autovacuum removes some time later
WHERE relpersistence <> 't'
  AND NOT EXISTS (SELECT FROM files WHERE files.space = claims.space AND files.number = claims.number AND files.main)

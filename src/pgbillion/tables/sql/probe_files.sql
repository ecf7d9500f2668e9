-- Files of relations and their bytes.
-- Parameters: family (oid[]), as probe_family.sql gives it.
--
-- 1 is the file number of lazy relations that have no file yet
SELECT count(*) FILTER (WHERE pg_relation_filenode(oid) <> 1)
         + count(*) FILTER (WHERE pg_relation_size(oid, 'init') > 0) AS files,
       coalesce(sum(pg_relation_size(oid) + pg_relation_size(oid, 'init')), 0) AS bytes
FROM unnest(%(family)s::oid[]) AS f (oid);

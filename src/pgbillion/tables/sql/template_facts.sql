-- What LIKE does not copy of a template: whether it is unlogged, its storage parameters, those of its TOAST table, and
-- its comment.
SELECT c.relpersistence = 'u', c.reloptions, t.reloptions, pg_catalog.obj_description(c.oid, 'pg_class')
FROM pg_catalog.pg_class c
LEFT JOIN pg_catalog.pg_class t ON t.oid = c.reltoastrelid
WHERE c.oid = pg_catalog.to_regclass(%(template)s)

-- of columnar indexes: how often they were read, and when last (from PostgreSQL 16 on), their comment, whether this
-- role may drop them, and the command that creates them, with its tablespace if that is not the database's
SELECT x.oid::int8, pg_stat_get_numscans(x.oid), {last_read}, obj_description(x.oid, 'pg_class'),
       pg_has_role(x.relowner, 'USAGE'),
       pg_get_indexdef(x.oid) || coalesce(' TABLESPACE ' || quote_ident(s.spcname), '')
  FROM unnest(%(indexes)s::oid[]) AS i(oid)
  JOIN pg_class x ON x.oid = i.oid
  LEFT JOIN pg_tablespace s ON s.oid = x.reltablespace

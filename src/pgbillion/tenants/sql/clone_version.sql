-- A hash that changes with whatever a schema's commands are read from: which rows of catalogs there are about it, what is
-- in it and what that refers to, who has written them, and where they are; the names of roles and tablespaces; and what
-- the current role gives others by default. Also the schema's name. Parameter: the schema's OID.
WITH RECURSIVE m (classid, objid) AS (
    SELECT 'pg_namespace'::regclass::oid, {schema}::oid
     UNION
    SELECT d.classid, d.objid
      FROM m
      JOIN pg_depend d ON d.refclassid = m.classid AND d.refobjid = m.objid
     -- casts and transforms are of no schema
     WHERE m.classid = 'pg_namespace'::regclass OR d.deptype IN ('a', 'i', 'P', 'S')
        OR d.classid IN ('pg_cast'::regclass, 'pg_transform'::regclass)
), d AS MATERIALIZED (
    SELECT d.xmin, d.ctid, d.refclassid, d.refobjid FROM m JOIN pg_depend d ON d.classid = m.classid AND d.objid = m.objid
), referred (classid, objid) AS MATERIALIZED (
    SELECT DISTINCT refclassid, refobjid FROM d
), o AS MATERIALIZED (
    SELECT classid, objid FROM m
     UNION SELECT classid, objid FROM referred
     UNION SELECT 'pg_namespace'::regclass, c.relnamespace FROM referred JOIN pg_class c ON c.oid = objid WHERE classid = 'pg_class'::regclass
     UNION SELECT 'pg_namespace'::regclass, p.pronamespace FROM referred JOIN pg_proc p ON p.oid = objid WHERE classid = 'pg_proc'::regclass
     UNION SELECT 'pg_namespace'::regclass, t.typnamespace FROM referred JOIN pg_type t ON t.oid = objid WHERE classid = 'pg_type'::regclass
), r (what, xmin, ctid) AS (
    SELECT 1, xmin, ctid FROM d
     UNION ALL SELECT 2, x.xmin, x.ctid FROM o JOIN pg_namespace x ON x.oid = objid WHERE classid = 'pg_namespace'::regclass
     UNION ALL SELECT 3, x.xmin, x.ctid FROM o JOIN pg_class x ON x.oid = objid WHERE classid = 'pg_class'::regclass
     UNION ALL SELECT 4, x.xmin, x.ctid FROM o JOIN pg_attribute x ON x.attrelid = objid WHERE classid = 'pg_class'::regclass
     UNION ALL SELECT 5, x.xmin, x.ctid FROM m JOIN pg_index x ON x.indexrelid = objid WHERE classid = 'pg_class'::regclass
     UNION ALL SELECT 6, x.xmin, x.ctid FROM m JOIN pg_sequence x ON x.seqrelid = objid WHERE classid = 'pg_class'::regclass
     UNION ALL SELECT 7, x.xmin, x.ctid FROM m JOIN pg_inherits x ON x.inhrelid = objid WHERE classid = 'pg_class'::regclass
     UNION ALL SELECT 8, x.xmin, x.ctid FROM m JOIN pg_partitioned_table x ON x.partrelid = objid WHERE classid = 'pg_class'::regclass
     UNION ALL SELECT 9, x.xmin, x.ctid FROM o JOIN pg_type x ON x.oid = objid WHERE classid = 'pg_type'::regclass
     UNION ALL SELECT 10, x.xmin, x.ctid FROM m JOIN pg_enum x ON x.enumtypid = objid WHERE classid = 'pg_type'::regclass
     UNION ALL SELECT 11, x.xmin, x.ctid FROM m JOIN pg_range x ON x.rngtypid = objid WHERE classid = 'pg_type'::regclass
     UNION ALL SELECT 12, x.xmin, x.ctid FROM o JOIN pg_proc x ON x.oid = objid WHERE classid = 'pg_proc'::regclass
     UNION ALL SELECT 13, x.xmin, x.ctid FROM m JOIN pg_aggregate x ON x.aggfnoid = objid WHERE classid = 'pg_proc'::regclass
     UNION ALL SELECT 14, x.xmin, x.ctid FROM o JOIN pg_operator x ON x.oid = objid WHERE classid = 'pg_operator'::regclass
     UNION ALL SELECT 15, x.xmin, x.ctid FROM o JOIN pg_opclass x ON x.oid = objid WHERE classid = 'pg_opclass'::regclass
     UNION ALL SELECT 16, x.xmin, x.ctid FROM o JOIN pg_collation x ON x.oid = objid WHERE classid = 'pg_collation'::regclass
     UNION ALL SELECT 17, x.xmin, x.ctid FROM o JOIN pg_ts_dict x ON x.oid = objid WHERE classid = 'pg_ts_dict'::regclass
     UNION ALL SELECT 18, x.xmin, x.ctid FROM o JOIN pg_ts_config x ON x.oid = objid WHERE classid = 'pg_ts_config'::regclass
     UNION ALL SELECT 19, x.xmin, x.ctid FROM m JOIN pg_ts_config_map x ON x.mapcfg = objid WHERE classid = 'pg_ts_config'::regclass
     UNION ALL SELECT 20, x.xmin, x.ctid FROM o JOIN pg_ts_template x ON x.oid = objid WHERE classid = 'pg_ts_template'::regclass
     UNION ALL SELECT 21, x.xmin, x.ctid FROM o JOIN pg_ts_parser x ON x.oid = objid WHERE classid = 'pg_ts_parser'::regclass
     UNION ALL SELECT 22, x.xmin, x.ctid FROM o JOIN pg_constraint x ON x.oid = objid WHERE classid = 'pg_constraint'::regclass
     UNION ALL SELECT 23, x.xmin, x.ctid FROM m JOIN pg_attrdef x ON x.oid = objid WHERE classid = 'pg_attrdef'::regclass
     UNION ALL SELECT 24, x.xmin, x.ctid FROM m JOIN pg_trigger x ON x.oid = objid WHERE classid = 'pg_trigger'::regclass
     UNION ALL SELECT 25, x.xmin, x.ctid FROM m JOIN pg_rewrite x ON x.oid = objid WHERE classid = 'pg_rewrite'::regclass
     UNION ALL SELECT 26, x.xmin, x.ctid FROM m JOIN pg_policy x ON x.oid = objid WHERE classid = 'pg_policy'::regclass
     UNION ALL SELECT 27, x.xmin, x.ctid FROM m JOIN pg_statistic_ext x ON x.oid = objid WHERE classid = 'pg_statistic_ext'::regclass
     UNION ALL SELECT 28, x.xmin, x.ctid FROM m JOIN pg_cast x ON x.oid = objid WHERE classid = 'pg_cast'::regclass
     UNION ALL SELECT 29, x.xmin, x.ctid FROM m JOIN pg_default_acl x ON x.oid = objid WHERE classid = 'pg_default_acl'::regclass
     UNION ALL SELECT 30, x.xmin, x.ctid FROM m JOIN pg_publication_rel x ON x.oid = objid WHERE classid = 'pg_publication_rel'::regclass
     UNION ALL SELECT 31, x.xmin, x.ctid FROM m JOIN pg_publication_namespace x ON x.oid = objid WHERE classid = 'pg_publication_namespace'::regclass
     UNION ALL SELECT 32, x.xmin, x.ctid FROM o JOIN pg_publication x ON x.oid = objid WHERE classid = 'pg_publication'::regclass
     UNION ALL SELECT 33, x.xmin, x.ctid FROM m JOIN pg_description x ON x.objoid = objid AND x.classoid = classid
     UNION ALL SELECT 34, x.xmin, x.ctid FROM m JOIN pg_seclabel x ON x.objoid = objid AND x.classoid = classid
     UNION ALL SELECT 35, x.xmin, x.ctid FROM pg_tablespace x
     UNION ALL SELECT 36, x.xmin, x.ctid FROM pg_default_acl x
     WHERE x.defaclrole = current_user::regrole AND x.defaclnamespace = 0
), s (oid, rolname) AS (
    -- by each object: those of all owners in the database may be millions
    SELECT DISTINCT x.oid, x.rolname
      FROM m,
           LATERAL (SELECT h.refobjid FROM pg_shdepend h
                     WHERE h.dbid = (SELECT b.oid FROM pg_database b WHERE b.datname = current_database())
                       AND h.classid = m.classid AND h.objid = m.objid AND (h.refclassid = 'pg_authid'::regclass) IS TRUE
                    OFFSET 0) h
      JOIN pg_roles x ON x.oid = h.refobjid
)
SELECT concat_ws(' ', (SELECT sum(hash_record_extended(r, 0)) FROM r), (SELECT sum(hash_record_extended(s, 0)) FROM s)),
       (SELECT nspname::text FROM pg_namespace WHERE oid = {schema})

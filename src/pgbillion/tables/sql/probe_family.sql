-- A set of tables, and all relations that were made with them: TOAST tables, indexes and sequences.
-- Parameters: names (text[]), schema (text).
WITH made AS MATERIALIZED (
    SELECT c.oid
    FROM pg_class c
    WHERE c.relname = ANY (%(names)s::name[])
      AND c.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = %(schema)s)
), stored AS MATERIALIZED (
    SELECT oid FROM made
    UNION
    SELECT c.reltoastrelid FROM pg_class c JOIN made USING (oid) WHERE c.reltoastrelid <> 0
), family AS MATERIALIZED (
    SELECT oid FROM stored
    UNION
    SELECT i.indexrelid FROM pg_index i JOIN stored ON i.indrelid = stored.oid
    UNION
    -- sequences of serial and identity columns
    SELECT d.objid
    FROM pg_depend d JOIN made ON d.refobjid = made.oid
    WHERE d.classid = 'pg_class'::regclass AND d.refclassid = 'pg_class'::regclass AND d.deptype IN ('a', 'i')
)
SELECT ARRAY(SELECT oid FROM made), ARRAY(SELECT oid FROM family);

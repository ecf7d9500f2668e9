-- All that an ordinary user can make to be called by somebody else's unqualified names. Whatever of it runs says so in
-- the server's log. Run as that user, with search_path = pg_catalog. Part: the schema, which is the user's.

CREATE FUNCTION {schema}.spy(what text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    RAISE LOG 'HOSTILE: % as %', what, current_user;
    RETURN true;
END
$$;

-- one for each operator name and each pair of types: what fits exactly is taken before what has to be cast
DO $$
DECLARE
    types text[] := '{{text,name,varchar,bpchar,"char",bool,int2,int4,int8,oid,regclass,regnamespace,xid,float8,numeric,pg_lsn,timestamptz,interval,text[],name[],oid[],unknown}}';
    operator text;
    one text;
    two text;
    result text;
    tries integer := 0;
BEGIN
    FOREACH operator IN ARRAY '{{=,<>,<,>,<=,>=,||,~,!~,~~,!~~,+,-,*,/,%}}'::text[] LOOP
        FOREACH one IN ARRAY types LOOP
            FOREACH two IN ARRAY types LOOP
                result := CASE WHEN operator = '||' THEN 'text'
                               WHEN operator IN ('+', '-', '*', '/', '%') THEN one
                               ELSE 'bool' END;
                BEGIN
                    EXECUTE format(
                        'CREATE OR REPLACE FUNCTION {schema}.%I(%s, %s) RETURNS %s LANGUAGE plpgsql AS %L',
                        'op_' || result, one, two, result,
                        format('BEGIN PERFORM {schema}.spy(%L); RETURN NULL; END',
                               format('operator of %s and %s', one, two)));
                    EXECUTE format('CREATE OPERATOR {schema}.%s (LEFTARG = %s, RIGHTARG = %s, FUNCTION = {schema}.%I)',
                                   operator, one, two, 'op_' || result);
                    tries := tries + 1;
                EXCEPTION WHEN OTHERS THEN
                    NULL; -- pseudo-types have none
                END;
            END LOOP;
        END LOOP;
    END LOOP;
    ASSERT tries > 5000, tries;
END
$$;

-- the functions our own statements call: as they are, and for exact types, and with any number of arguments
DO $$
DECLARE
    types text[] := '{{text,name,varchar,"char",bool,int2,int4,int8,oid,regclass,float8,numeric,pg_lsn,text[],name[],oid[],regclass[],json}}';
    called name;
    known record;
    one text;
    two text;
    made integer := 0;
BEGIN
    FOR called IN
        SELECT DISTINCT proname FROM pg_proc
         WHERE pronamespace = 'pg_catalog'::regnamespace AND proname = ANY ({called}::name[])
    LOOP
        FOR known IN
            SELECT pg_get_function_identity_arguments(oid) AS arguments, format_type(prorettype, NULL) AS result,
                   proretset, prokind, proargtypes
              FROM pg_proc WHERE pronamespace = 'pg_catalog'::regnamespace AND proname = called
        LOOP
            BEGIN
                IF known.prokind = 'a' THEN
                    RAISE EXCEPTION 'below';
                END IF;
                EXECUTE format('CREATE FUNCTION {schema}.%I(%s) RETURNS %s%s LANGUAGE plpgsql AS %L',
                               called, known.arguments, CASE WHEN known.proretset THEN 'SETOF ' ELSE '' END,
                               known.result, format('BEGIN PERFORM {schema}.spy(%L); RETURN%s; END', called || ', as it is',
                                                    CASE WHEN known.proretset THEN '' ELSE ' NULL' END));
                made := made + 1;
            EXCEPTION WHEN OTHERS THEN
                NULL;
            END;
        END LOOP;
        FOREACH one IN ARRAY types LOOP
            BEGIN
                IF EXISTS (SELECT FROM pg_proc WHERE pronamespace = 'pg_catalog'::regnamespace AND proname = called
                                                 AND prokind = 'a') THEN
                    EXECUTE format('CREATE OR REPLACE FUNCTION {schema}.%I(bigint, %s) RETURNS bigint LANGUAGE plpgsql AS %L',
                                   'step_' || called, one,
                                   format('BEGIN PERFORM {schema}.spy(%L); RETURN 1; END', called || ' of ' || one));
                    EXECUTE format('CREATE AGGREGATE {schema}.%I(%s) (SFUNC = {schema}.%I, STYPE = bigint, INITCOND = ''0'')',
                                   called, one, 'step_' || called);
                ELSE
                    EXECUTE format('CREATE FUNCTION {schema}.%I(%s) RETURNS text LANGUAGE plpgsql AS %L',
                                   called, one, format('BEGIN PERFORM {schema}.spy(%L); RETURN NULL; END', called || ' of ' || one));
                END IF;
                made := made + 1;
            EXCEPTION WHEN OTHERS THEN
                NULL;
            END;
            FOREACH two IN ARRAY types LOOP
                BEGIN
                    EXECUTE format('CREATE FUNCTION {schema}.%I(%s, VARIADIC %s[]) RETURNS text LANGUAGE plpgsql AS %L',
                                   called, one, two,
                                   format('BEGIN PERFORM {schema}.spy(%L); RETURN NULL; END', called || ', variadic'));
                    made := made + 1;
                EXCEPTION WHEN OTHERS THEN
                    NULL;
                END;
            END LOOP;
        END LOOP;
    END LOOP;
    CREATE FUNCTION {schema}.step_star(bigint) RETURNS bigint LANGUAGE plpgsql AS
        'BEGIN PERFORM {schema}.spy(''count(*)''); RETURN $1; END';
    CREATE AGGREGATE {schema}.count(*) (SFUNC = {schema}.step_star, STYPE = bigint, INITCOND = '0');
    ASSERT made > 1000, made;
END
$$;

-- types that check what they are given, with casts of their own, and tables by the names of the catalogues
DO $$
DECLARE
    known name;
    made integer := 0;
BEGIN
    FOREACH known IN ARRAY '{{text,name,oid,regclass,regnamespace,uuid,json,jsonb,bytea,pg_lsn,int2,int4,int8,float8,bool}}'::name[] LOOP
        EXECUTE format('CREATE DOMAIN {schema}.%I AS pg_catalog.%I CHECK ({schema}.spy(%L))', known, known, 'type ' || known);
        made := made + 1;
    END LOOP;
    CREATE TYPE {schema}.own AS ENUM ('one');
    FOREACH known IN ARRAY '{{int4,int8,text,name,oid}}'::name[] LOOP
        EXECUTE format('CREATE FUNCTION {schema}.own(%s) RETURNS {schema}.own LANGUAGE plpgsql AS %L',
                       'pg_catalog.' || known, 'BEGIN PERFORM {schema}.spy(''cast''); RETURN ''one''; END');
        EXECUTE format('CREATE CAST (pg_catalog.%I AS {schema}.own) WITH FUNCTION {schema}.own(%s) AS IMPLICIT', known, 'pg_catalog.' || known);
    END LOOP;
    FOR known IN SELECT relname FROM pg_class WHERE relnamespace = 'pg_catalog'::regnamespace AND relkind IN ('r', 'v') LOOP
        BEGIN
            EXECUTE format('CREATE VIEW {schema}.%I AS SELECT * FROM pg_catalog.%I WHERE {schema}.spy(%L)', known, known, 'view ' || known);
            made := made + 1;
        EXCEPTION WHEN OTHERS THEN
            NULL;
        END;
    END LOOP;
    ASSERT made > 100, made;
END
$$;

-- tables that run code when a row is put into them or read from them
DO $$
BEGIN
    CREATE FUNCTION {schema}.on_row() RETURNS trigger LANGUAGE plpgsql AS
        'BEGIN PERFORM {schema}.spy(''trigger''); RETURN NEW; END';
    FOR number IN 1..20 LOOP
        EXECUTE format('CREATE TABLE {schema}.%I (i integer)', 'trap_' || number);
        IF number % 2 = 0 THEN
            EXECUTE format('CREATE TRIGGER spy BEFORE INSERT ON {schema}.%I FOR EACH ROW EXECUTE FUNCTION {schema}.on_row()',
                           'trap_' || number);
        ELSE
            EXECUTE format('ALTER TABLE {schema}.%I ADD CHECK ({schema}.spy(%L)), ADD d integer DEFAULT {schema}.spy(%L)::int',
                           'trap_' || number, 'constraint', 'default');
        END IF;
    END LOOP;
END
$$;

/*-------------------------------------------------------------------------
 *
 * kinds.c
 *	  What a schema can have: for each kind of object the query that returns
 *	  the commands for it.
 *
 * Where several objects could be made next, the one whose query stands first
 * is. A query can also add commands to an object of a query before it.
 *
 * To carry another kind of object, add its query, its owners, grants and
 * comments below, and take it out of what is refused.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "clone/clone.h"

/*
 * Is that the catalog of what depends? As no condition for an index: of the two
 * that pg_depend has, the one on what it depends on must be used, and without
 * statistics the planner may find the other one as good.
 */
#define OF_CLASS(classid, catalog) "(" classid " = '" catalog "'::regclass) IS TRUE"

/* The schema's objects in a catalog; an index on pg_depend finds them, however many others there are. */
#define MEMBERS(catalog) \
	"(SELECT x.* FROM pg_depend s JOIN " catalog " x ON x.oid = s.objid" \
	" WHERE s.refclassid = 'pg_namespace'::regclass AND s.refobjid = $1" \
	" AND " OF_CLASS("s.classid", catalog) ")"

#define RELATIONS MEMBERS("pg_class")
/* without those that come with a range type */
#define ROUTINES \
	"(SELECT x.* FROM pg_depend s JOIN pg_proc x ON x.oid = s.objid" \
	" WHERE s.refclassid = 'pg_namespace'::regclass AND s.refobjid = $1 AND " OF_CLASS("s.classid", "pg_proc") \
	" AND NOT EXISTS (SELECT FROM pg_depend i WHERE i.classid = s.classid AND i.objid = s.objid AND i.deptype = 'i'))"
#define TABLES RELATIONS " c JOIN (VALUES ('r'), ('p')) k (kind) ON k.kind = c.relkind::text"

/* The schema's types, those of its tables' rows, and arrays of them. */
#define TYPES \
	"(SELECT unnest(ARRAY[t.oid, t.typarray]) AS oid FROM " MEMBERS("pg_type") " t" \
	" UNION SELECT unnest(ARRAY[t.oid, t.typarray]) FROM " RELATIONS " c JOIN pg_type t ON t.oid = c.reltype)"

/* Objects in no schema that are about these types, except what comes with a range type. */
#define OF_TYPES(catalog) \
	"(SELECT DISTINCT x.* FROM " TYPES " y JOIN pg_depend d ON d.refclassid = 'pg_type'::regclass AND d.refobjid = y.oid" \
	" AND " OF_CLASS("d.classid", catalog) " AND d.deptype = 'n' JOIN " catalog " x ON x.oid = d.objid)"
#define CASTS OF_TYPES("pg_cast")

/*
 * Options as in WITH (…), with a prefix to the names. Minor releases since
 * November 2026 note among a column's options when its row type last changed.
 */
#define OPTIONS(array, prefix) \
	"(SELECT string_agg(" prefix " || quote_ident(split_part(o, '=', 1)) || ' = ' ||" \
	" quote_literal(substr(o, strpos(o, '=') + 1)), ', ') FROM unnest(" array ") o WHERE o !~ '^pg_attver=')"

#define COLLATION(column, natural) \
	"CASE WHEN " column " <> 0 AND " column " <> " natural " THEN ' COLLATE ' || " column "::regcollation ELSE '' END"

#define SEQUENCE(q) \
	"format('INCREMENT BY %s MINVALUE %s MAXVALUE %s START WITH %s CACHE %s %sCYCLE'," \
	" " q ".seqincrement, " q ".seqmin, " q ".seqmax, " q ".seqstart, " q ".seqcache," \
	" CASE WHEN " q ".seqcycle THEN '' ELSE 'NO ' END)"

#define TABLESPACE(c) \
	"coalesce((SELECT format(' TABLESPACE %I', spcname) FROM pg_tablespace WHERE oid = " c ".reltablespace), '')"

/* $2 takes the place of the project's access methods only, and of heap */
#define ACCESS_METHOD(c) \
	"coalesce((SELECT format(' USING %I', CASE WHEN amname IN ('heap', 'lazy_heap') THEN coalesce($2, amname::text)" \
	" ELSE amname END) FROM pg_am WHERE oid = " c ".relam), '')"

/* Its TOAST table x, if it has options and any of its columns uses it: that of a column that was dropped stays. */
#define TOAST(c, x) \
	"pg_class " x " ON " x ".oid = " c ".reltoastrelid AND " x ".reloptions IS NOT NULL AND EXISTS (SELECT FROM pg_attribute" \
	" WHERE attrelid = " c ".oid AND attnum > 0 AND NOT attisdropped AND attlen = -1 AND attgenerated <> 'v')"

#define UNLOGGED(c) "CASE " c ".relpersistence WHEN 'u' THEN 'UNLOGGED ' ELSE '' END"

/* Names of functions and operators, as far as their arguments do not tell which are meant. */
#define FUNCTION_NAME(function) \
	"(SELECT CASE WHEN fp.pronamespace = $1 THEN quote_ident(fp.proname) ELSE format('%I.%I', fn.nspname, fp.proname) END" \
	" FROM pg_proc fp JOIN pg_namespace fn ON fn.oid = fp.pronamespace WHERE fp.oid = " function ")"
#define OPERATOR_NAME(operator) \
	"(SELECT CASE WHEN op.oprnamespace = $1 THEN op.oprname::text ELSE format('OPERATOR(%I.%s)', fn.nspname, op.oprname) END" \
	" FROM pg_operator op JOIN pg_namespace fn ON fn.oid = op.oprnamespace WHERE op.oid = " operator ")"

/* Columns with the schema's name and parts, which SET a.b = 1 sets. */
#define COLUMNS_AS_SCHEMA \
	RELATIONS " c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = (SELECT nspname FROM pg_namespace WHERE oid = $1)" \
	" JOIN pg_type u ON u.oid = a.atttypid AND u.typtype IN ('c', 'd')"

/*
 * Can the name of schema n before a dot mean only the schema, in the text of
 * function p? Columns of which parts are set, as in SET a.b = 1, are no
 * schemas; arguments and the function itself are none, nor are a
 * trigger's rows, and strings must be read as always.
 */
#define REWRITABLE \
	"(p.prosqlbody IS NULL AND p.prolang IN (SELECT oid FROM pg_language WHERE lanname IN ('sql', 'plpgsql'))" \
	" AND n.nspname NOT IN ('new', 'old', 'excluded', p.proname) AND n.nspname::text <> ALL (coalesce(p.proargnames, '{}'))" \
	" AND NOT EXISTS (SELECT FROM " COLUMNS_AS_SCHEMA ")" \
	" AND coalesce(array_to_string(p.proconfig, ' '), '') !~ 'standard_conforming_strings=')"
/* Its setting of search_path. */
#define FUNCTION_PATH \
	"(SELECT substr(setting, length('search_path=') + 1) FROM unnest(p.proconfig) setting WHERE setting ~ '^search_path=')"

#define FINAL_MODIFY(modify) \
	"CASE " modify " WHEN 'r' THEN 'READ_ONLY' WHEN 's' THEN 'SHAREABLE' ELSE 'READ_WRITE' END"

/* How columns of relations of these kinds are stored and counted. */
#define COLUMN_SETTINGS(kinds) \
	"SELECT 'pg_class'::regclass::oid, c.oid, format('ALTER TABLE ONLY %I ALTER COLUMN %I %s', c.relname, a.attname, v.setting)" \
	" FROM " RELATIONS " c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped" \
	" JOIN pg_type u ON u.oid = a.atttypid," \
	" LATERAL (VALUES" \
	" (CASE WHEN a.attstorage <> u.typstorage THEN 'SET STORAGE ' || CASE a.attstorage WHEN 'p' THEN 'PLAIN'" \
	"  WHEN 'e' THEN 'EXTERNAL' WHEN 'm' THEN 'MAIN' ELSE 'EXTENDED' END END)," \
	" (CASE a.attcompression WHEN 'p' THEN 'SET COMPRESSION pglz' WHEN 'l' THEN 'SET COMPRESSION lz4' END)," \
	" (CASE WHEN a.attstattarget >= 0 THEN 'SET STATISTICS ' || a.attstattarget END)," \
	" ('SET (' || " OPTIONS("a.attoptions", "''") " || ')')) v (setting)" \
	" WHERE c.relkind IN " kinds " AND v.setting IS NOT NULL"

/* Before 16 a child's generated column has its parents' expression, and CREATE TABLE must not repeat it. */
#if PG_VERSION_NUM >= 160000
#define OWN_EXPRESSION "true"
#else
#define OWN_EXPRESSION \
	"(c.relispartition OR NOT EXISTS (SELECT FROM pg_inherits h JOIN pg_attribute p ON p.attrelid = h.inhparent" \
	" AND p.attname = a.attname AND p.attgenerated <> '' WHERE h.inhrelid = c.oid))"
#endif

/* What CREATE COLLATION takes, of collation o, besides what all majors have. */
#if PG_VERSION_NUM >= 170000
#define COLLATION_LOCALE "'LOCALE = ' || quote_literal(o.colllocale), 'RULES = ' || quote_literal(o.collicurules)"
#elif PG_VERSION_NUM >= 160000
#define COLLATION_LOCALE "'LOCALE = ' || quote_literal(o.colliculocale), 'RULES = ' || quote_literal(o.collicurules)"
#else
#define COLLATION_LOCALE "'LOCALE = ' || quote_literal(o.colliculocale)"
#endif

/* The constraints o that table c has only from its parents, and theirs, p. */
#define INHERITED_CONSTRAINTS \
	"pg_inherits h ON h.inhrelid = c.oid AND NOT c.relispartition" \
	" JOIN pg_constraint o ON o.conrelid = c.oid AND NOT o.conislocal AND o.contype IN ('c', 'n')" \
	" JOIN pg_constraint p ON p.conrelid = h.inhparent AND p.contype = o.contype AND p.conname = o.conname"

/*
 * Is foreign key o, of a partition, another one than its table's makes there:
 * of another name, or validated? That of the table then takes o in, as ATTACH
 * PARTITION does. What refers to partitions has keys for each of these, too,
 * which are named by PostgreSQL.
 */
#define OWN_FOREIGN_KEY(o) \
	"EXISTS (SELECT FROM pg_constraint w WHERE w.oid = " o ".conparentid AND w.conrelid <> " o ".conrelid" \
	" AND (w.conname <> " o ".conname OR w.convalidated <> " o ".convalidated))"

/* 17 has constraints for NOT NULL of domains, and 18 for that of columns. */
#if PG_VERSION_NUM >= 170000
#define DOMAIN_NOT_NULL "''"
#else
#define DOMAIN_NOT_NULL "CASE WHEN t.typnotnull THEN ' NOT NULL' ELSE '' END"
#endif
#if PG_VERSION_NUM >= 180000
#define COLUMN_NOT_NULL "''"
#define TABLE_NOT_NULL \
	"ARRAY(SELECT format('CONSTRAINT %I %s', n.conname, pg_get_constraintdef(n.oid)) FROM pg_constraint n" \
	" WHERE n.conrelid = c.oid AND n.contype = 'n' AND n.convalidated AND (n.conislocal OR c.relispartition)" \
	" ORDER BY n.conkey[1])"
#else
#define COLUMN_NOT_NULL "CASE WHEN a.attnotnull THEN ' NOT NULL' ELSE '' END"
#define TABLE_NOT_NULL "'{}'::text[]"
#endif

const char *const clone_object_queries[] = {
	/* collations */
	"SELECT 'pg_collation'::regclass::oid, o.oid, format('CREATE COLLATION %I (%s)', o.collname, concat_ws(', ',"
	" 'PROVIDER = ' || CASE o.collprovider WHEN 'i' THEN 'icu' WHEN 'b' THEN 'builtin' ELSE 'libc' END,"
	" 'LC_COLLATE = ' || quote_literal(o.collcollate), 'LC_CTYPE = ' || quote_literal(o.collctype), " COLLATION_LOCALE ","
	" CASE WHEN NOT o.collisdeterministic THEN 'DETERMINISTIC = false' END))"
	" FROM " MEMBERS("pg_collation") " o",

	/* dictionaries and configurations of text search */
	"SELECT 'pg_ts_dict'::regclass::oid, d.oid, format('CREATE TEXT SEARCH DICTIONARY %I (TEMPLATE = %I.%I%s)', d.dictname,"
	" n.nspname, t.tmplname, coalesce(', ' || d.dictinitoption, ''))"
	" FROM " MEMBERS("pg_ts_dict") " d JOIN pg_ts_template t ON t.oid = d.dicttemplate"
	" JOIN pg_namespace n ON n.oid = t.tmplnamespace",
	"SELECT 'pg_ts_config'::regclass::oid, g.oid, format('CREATE TEXT SEARCH CONFIGURATION %I (PARSER = %I.%I)', g.cfgname,"
	" n.nspname, p.prsname)"
	" FROM " MEMBERS("pg_ts_config") " g JOIN pg_ts_parser p ON p.oid = g.cfgparser JOIN pg_namespace n ON n.oid = p.prsnamespace",
	"SELECT 'pg_ts_config'::regclass::oid, g.oid, format('ALTER TEXT SEARCH CONFIGURATION %I ADD MAPPING FOR %I WITH %s', g.cfgname,"
	" t.alias, (SELECT string_agg(CASE WHEN d.dictnamespace = $1 THEN quote_ident(d.dictname) ELSE format('%I.%I', n.nspname, d.dictname) END,"
	"  ', ' ORDER BY m.mapseqno) FROM pg_ts_config_map m JOIN pg_ts_dict d ON d.oid = m.mapdict"
	"  JOIN pg_namespace n ON n.oid = d.dictnamespace WHERE m.mapcfg = g.oid AND m.maptokentype = t.tokid))"
	" FROM " MEMBERS("pg_ts_config") " g, LATERAL ts_token_type(g.cfgparser) t"
	" WHERE EXISTS (SELECT FROM pg_ts_config_map m WHERE m.mapcfg = g.oid AND m.maptokentype = t.tokid)",

	/* enums */
	"SELECT 'pg_type'::regclass::oid, t.oid, format('CREATE TYPE %I AS ENUM (%s)', t.typname,"
	" (SELECT string_agg(quote_literal(enumlabel), ', ' ORDER BY enumsortorder) FROM pg_enum WHERE enumtypid = t.oid))"
	" FROM " MEMBERS("pg_type") " t WHERE t.typtype = 'e'",

	/* composite types */
	"SELECT 'pg_type'::regclass::oid, t.oid, format('CREATE TYPE %I AS (%s)', t.typname,"
	" (SELECT string_agg(format('%I %s%s', a.attname, format_type(a.atttypid, a.atttypmod),"
	COLLATION("a.attcollation", "u.typcollation") "), ', ' ORDER BY a.attnum)"
	" FROM pg_attribute a JOIN pg_type u ON u.oid = a.atttypid"
	" WHERE a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped))"
	" FROM " MEMBERS("pg_type") " t JOIN pg_class c ON c.oid = t.typrelid AND c.relkind = 'c'",

	/* domains */
	"SELECT 'pg_type'::regclass::oid, t.oid, format('CREATE DOMAIN %I AS %s%s%s%s', t.typname,"
	" format_type(t.typbasetype, t.typtypmod),"
	COLLATION("t.typcollation", "b.typcollation") ","
	" coalesce(' DEFAULT ' || pg_get_expr(t.typdefaultbin, 'pg_type'::regclass), ''), " DOMAIN_NOT_NULL ")"
	" FROM " MEMBERS("pg_type") " t JOIN pg_type b ON b.oid = t.typbasetype WHERE t.typtype = 'd'",

	/* range types */
	"SELECT 'pg_type'::regclass::oid, t.oid, format('CREATE TYPE %I AS RANGE (subtype = %s, subtype_opclass = %I.%I%s%s,"
	" multirange_type_name = %I)', t.typname, format_type(r.rngsubtype, NULL), n.nspname, o.opcname,"
	" CASE WHEN r.rngcollation <> 0 THEN ', collation = ' || r.rngcollation::regcollation ELSE '' END,"
	" coalesce(', subtype_diff = ' || " FUNCTION_NAME("r.rngsubdiff") ", ''), m.typname)"
	" FROM " MEMBERS("pg_type") " t JOIN pg_range r ON r.rngtypid = t.oid JOIN pg_type m ON m.oid = r.rngmultitypid"
	" JOIN pg_opclass o ON o.oid = r.rngsubopc JOIN pg_namespace n ON n.oid = o.opcnamespace",

	/* constraints of domains */
	"SELECT 'pg_constraint'::regclass::oid, o.oid, format('ALTER DOMAIN %I ADD CONSTRAINT %I %s', t.typname, o.conname,"
	" pg_get_constraintdef(o.oid))"
	" FROM " MEMBERS("pg_type") " t JOIN pg_constraint o ON o.contypid = t.oid WHERE t.typtype = 'd'",

	/* casts, of which views say nothing where they are not explicit */
	"SELECT 'pg_cast'::regclass::oid, k.oid, format('CREATE CAST (%s AS %s) %s%s', format_type(k.castsource, NULL),"
	" format_type(k.casttarget, NULL), CASE k.castmethod WHEN 'f' THEN 'WITH FUNCTION ' || k.castfunc::regprocedure"
	"  WHEN 'i' THEN 'WITH INOUT' ELSE 'WITHOUT FUNCTION' END,"
	" CASE k.castcontext WHEN 'a' THEN ' AS ASSIGNMENT' WHEN 'i' THEN ' AS IMPLICIT' ELSE '' END)"
	" FROM " CASTS " k",

	/*
	 * functions and procedures, whose definition begins with a qualified
	 * name; a text that may name the schema comes by itself
	 */
	"SELECT 'pg_proc'::regclass::oid, p.oid, 'CREATE ' || k.word || substr(CASE WHEN b.body IS NULL THEN f.definition"
	" ELSE left(f.definition, length(f.definition) - length(b.body) - 2 * length(f.tail) + 1) END,"
	" length('CREATE OR REPLACE ' || k.word || quote_ident(n.nspname) || '.') + 1), b.body, " REWRITABLE ", " FUNCTION_PATH
	" FROM " ROUTINES " p JOIN pg_namespace n ON n.oid = p.pronamespace,"
	" LATERAL (SELECT CASE p.prokind WHEN 'p' THEN 'PROCEDURE ' ELSE 'FUNCTION ' END) k (word),"
	" LATERAL (SELECT CASE WHEN p.prosqlbody IS NULL THEN p.prosrc END) b (body),"
	" LATERAL (SELECT d, substring(d FROM '\\$(?:function|procedure)x*\\$\\n$') FROM pg_get_functiondef(p.oid) d) f (definition, tail)"
	" WHERE p.prokind <> 'a'",

	/*
	 * aggregates; what has nothing to say is null, and concat_ws() leaves
	 * that out
	 */
	"SELECT 'pg_proc'::regclass::oid, p.oid, format('CREATE AGGREGATE %I(%s) (%s)', p.proname,"
	" coalesce(nullif(pg_get_function_arguments(p.oid), ''), '*'),"
	" concat_ws(', ', 'SFUNC = ' || " FUNCTION_NAME("a.aggtransfn") ", 'STYPE = ' || format_type(a.aggtranstype, NULL),"
	" 'SSPACE = ' || nullif(a.aggtransspace, 0), 'FINALFUNC = ' || " FUNCTION_NAME("a.aggfinalfn") ","
	" CASE WHEN a.aggfinalextra THEN 'FINALFUNC_EXTRA' END, 'FINALFUNC_MODIFY = ' || " FINAL_MODIFY("a.aggfinalmodify") ","
	" 'COMBINEFUNC = ' || " FUNCTION_NAME("a.aggcombinefn") ", 'SERIALFUNC = ' || " FUNCTION_NAME("a.aggserialfn") ","
	" 'DESERIALFUNC = ' || " FUNCTION_NAME("a.aggdeserialfn") ", 'INITCOND = ' || quote_literal(a.agginitval),"
	" 'MSFUNC = ' || " FUNCTION_NAME("a.aggmtransfn") ", 'MINVFUNC = ' || " FUNCTION_NAME("a.aggminvtransfn") ","
	" 'MSTYPE = ' || format_type(nullif(a.aggmtranstype, 0), NULL), 'MSSPACE = ' || nullif(a.aggmtransspace, 0),"
	" 'MFINALFUNC = ' || " FUNCTION_NAME("a.aggmfinalfn") ", CASE WHEN a.aggmfinalextra THEN 'MFINALFUNC_EXTRA' END,"
	" 'MFINALFUNC_MODIFY = ' || " FINAL_MODIFY("a.aggmfinalmodify") ", 'MINITCOND = ' || quote_literal(a.aggminitval),"
	" 'SORTOP = ' || " OPERATOR_NAME("a.aggsortop") ", CASE a.aggkind WHEN 'h' THEN 'HYPOTHETICAL' END,"
	" 'PARALLEL = ' || CASE p.proparallel WHEN 's' THEN 'SAFE' WHEN 'r' THEN 'RESTRICTED' ELSE 'UNSAFE' END))"
	" FROM " ROUTINES " p JOIN pg_aggregate a ON a.aggfnoid = p.oid",

	/*
	 * operators; one that is only another's commutator or negator so far
	 * comes with that
	 */
	"SELECT 'pg_operator'::regclass::oid, o.oid, format('CREATE OPERATOR %s (%s)', o.oprname, concat_ws(', ',"
	" 'FUNCTION = ' || " FUNCTION_NAME("o.oprcode") ", 'LEFTARG = ' || format_type(nullif(o.oprleft, 0), NULL),"
	" 'RIGHTARG = ' || format_type(o.oprright, NULL), 'COMMUTATOR = ' || " OPERATOR_NAME("o.oprcom") ","
	" 'NEGATOR = ' || " OPERATOR_NAME("o.oprnegate") ", 'RESTRICT = ' || " FUNCTION_NAME("o.oprrest") ","
	" 'JOIN = ' || " FUNCTION_NAME("o.oprjoin") ", CASE WHEN o.oprcanhash THEN 'HASHES' END,"
	" CASE WHEN o.oprcanmerge THEN 'MERGES' END))"
	" FROM " MEMBERS("pg_operator") " o WHERE o.oprcode::oid <> 0",

	/* sequences; their tables come before them, because they depend on those */
	"SELECT 'pg_class'::regclass::oid, c.oid, v.command"
	" FROM " RELATIONS " c JOIN pg_sequence q ON q.seqrelid = c.oid"
	" LEFT JOIN pg_depend d ON d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.refclassid = 'pg_class'::regclass"
	" AND d.refobjsubid > 0 AND d.deptype IN ('a', 'i')"
	" LEFT JOIN pg_class t ON t.oid = d.refobjid"
	" LEFT JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum = d.refobjsubid,"
	" LATERAL (VALUES (format('CREATE %sSEQUENCE %I AS %s %s', " UNLOGGED("c") ", c.relname,"
	" format_type(q.seqtypid, NULL), " SEQUENCE("q") ")),"
	" (CASE d.deptype WHEN 'a' THEN format('ALTER SEQUENCE %I OWNED BY %I.%I', c.relname, t.relname, a.attname) END)) v (command)"
	" WHERE d.deptype IS DISTINCT FROM 'i' AND v.command IS NOT NULL",

	/*
	 * tables; partitions are attached when they have all that their parents
	 * have
	 */
	"SELECT 'pg_class'::regclass::oid, c.oid, format('CREATE %sTABLE %I (%s)%s%s%s%s%s', " UNLOGGED("c") ", c.relname,"
	" array_to_string(ARRAY(SELECT format('%I %s%s%s%s', a.attname, format_type(a.atttypid, a.atttypmod),"
	COLLATION("a.attcollation", "u.typcollation") ","
	" CASE WHEN a.attgenerated <> '' AND " OWN_EXPRESSION " THEN"
	"  format(' GENERATED ALWAYS AS (%s)%s', pg_get_expr(e.adbin, e.adrelid),"
	"   CASE a.attgenerated WHEN 's' THEN ' STORED' ELSE '' END)"
	" WHEN q.seqrelid IS NOT NULL THEN"
	"  format(' GENERATED %s AS IDENTITY (SEQUENCE NAME %s %s)', CASE a.attidentity WHEN 'a' THEN 'ALWAYS' ELSE 'BY DEFAULT' END,"
	"   q.seqrelid::regclass, CASE WHEN q.seqtypid = a.atttypid THEN " SEQUENCE("q") " END)"
	" ELSE '' END, " COLUMN_NOT_NULL ")"
	" FROM pg_attribute a JOIN pg_type u ON u.oid = a.atttypid"
	" LEFT JOIN pg_attrdef e ON e.adrelid = a.attrelid AND e.adnum = a.attnum"
	" LEFT JOIN (pg_depend d JOIN pg_sequence q ON q.seqrelid = d.objid) ON a.attidentity <> ''"
	" AND " OF_CLASS("d.classid", "pg_class") " AND d.refclassid = 'pg_class'::regclass AND d.refobjid = a.attrelid"
	" AND d.refobjsubid = a.attnum AND d.deptype = 'i'"
	" WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND (a.attislocal OR c.relispartition)"
	" ORDER BY a.attnum) || " TABLE_NOT_NULL ", ', '),"
	" CASE WHEN c.relispartition THEN '' ELSE coalesce((SELECT format(' INHERITS (%s)',"
	"  string_agg(inhparent::regclass::text, ', ' ORDER BY inhseqno))"
	"  FROM pg_inherits WHERE inhrelid = c.oid HAVING count(*) > 0), '') END,"
	" CASE c.relkind WHEN 'p' THEN ' PARTITION BY ' || pg_get_partkeydef(c.oid) ELSE '' END,"
	ACCESS_METHOD("c") ","
	" coalesce(' WITH (' || nullif(concat_ws(', ', " OPTIONS("c.reloptions", "''") ", " OPTIONS("x.reloptions", "'toast.'") "), '') || ')', ''),"
	TABLESPACE("c") ")"
	" FROM " TABLES " LEFT JOIN " TOAST("c", "x"),

	/* the types that tables are of */
	"SELECT 'pg_class'::regclass::oid, c.oid, format('ALTER TABLE ONLY %I OF %s', c.relname, c.reloftype::regtype)"
	" FROM " TABLES " WHERE c.reloftype <> 0",

	/* sequences of identity columns that LIKE has made: of another type */
	"SELECT 'pg_class'::regclass::oid, c.oid, format('ALTER SEQUENCE %I AS %s %s RESTART', s.relname, format_type(q.seqtypid, NULL),"
	" " SEQUENCE("q") ")"
	" FROM " TABLES " JOIN pg_depend d ON " OF_CLASS("d.classid", "pg_class") " AND d.refclassid = 'pg_class'::regclass"
	" AND d.refobjid = c.oid AND d.refobjsubid > 0 AND d.deptype = 'i'"
	" JOIN pg_class s ON s.oid = d.objid JOIN pg_sequence q ON q.seqrelid = s.oid"
	" JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = d.refobjsubid WHERE q.seqtypid <> a.atttypid",

	/*
	 * sequences of identity columns that are logged where their tables are
	 * not, or the other way round
	 */
	"SELECT 'pg_class'::regclass::oid, c.oid, format('ALTER SEQUENCE %I SET %s', s.relname,"
	" CASE s.relpersistence WHEN 'u' THEN 'UNLOGGED' ELSE 'LOGGED' END)"
	" FROM " TABLES " JOIN pg_depend d ON " OF_CLASS("d.classid", "pg_class") " AND d.refclassid = 'pg_class'::regclass"
	" AND d.refobjid = c.oid AND d.refobjsubid > 0 AND d.deptype = 'i'"
	" JOIN pg_class s ON s.oid = d.objid AND s.relkind = 'S' WHERE s.relpersistence <> c.relpersistence",

	COLUMN_SETTINGS("('r', 'p')"),

#if PG_VERSION_NUM >= 180000
	/* those that are not validated cannot be made with the table */
	"SELECT 'pg_class'::regclass::oid, c.oid, format('ALTER TABLE ONLY %I ADD CONSTRAINT %I %s', c.relname, n.conname,"
	" pg_get_constraintdef(n.oid))"
	" FROM " TABLES " JOIN pg_constraint n ON n.conrelid = c.oid"
	" WHERE n.contype = 'n' AND NOT n.convalidated AND (n.conislocal OR c.relispartition)",
#endif

	/* row security and replica identity */
	"SELECT 'pg_class'::regclass::oid, c.oid, format('ALTER TABLE ONLY %I %s', c.relname, v.setting)"
	" FROM " TABLES ","
	" LATERAL (VALUES (c.relrowsecurity, 'ENABLE ROW LEVEL SECURITY'), (c.relforcerowsecurity, 'FORCE ROW LEVEL SECURITY'),"
	" (c.relreplident = 'f', 'REPLICA IDENTITY FULL'), (c.relreplident = 'n', 'REPLICA IDENTITY NOTHING')) v (given, setting)"
	" WHERE v.given",

	/* defaults */
	"SELECT 'pg_attrdef'::regclass::oid, e.oid, format('ALTER TABLE ONLY %I ALTER COLUMN %I SET DEFAULT %s', c.relname, a.attname,"
	" pg_get_expr(e.adbin, e.adrelid))"
	" FROM " RELATIONS " c JOIN pg_attrdef e ON e.adrelid = c.oid"
	" JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = e.adnum"
	" WHERE c.relkind IN ('r', 'p', 'v') AND a.attgenerated = ''",

	/* check constraints; children get those that they only inherit */
	"SELECT 'pg_constraint'::regclass::oid, o.oid, format('ALTER TABLE %s%I ADD CONSTRAINT %I %s',"
	" CASE WHEN c.relkind = 'p' THEN 'ONLY ' ELSE '' END, c.relname, o.conname, pg_get_constraintdef(o.oid))"
	" FROM " TABLES " JOIN pg_constraint o ON o.conrelid = c.oid"
	" WHERE o.contype = 'c' AND (o.conislocal OR c.relispartition)",

	/*
	 * those that are valid in a child and not in its parent, to which the
	 * child came later
	 */
	"SELECT DISTINCT 'pg_constraint'::regclass::oid, o.oid, format('ALTER TABLE %I VALIDATE CONSTRAINT %I', c.relname, o.conname)"
	" FROM " TABLES " JOIN " INHERITED_CONSTRAINTS " WHERE o.convalidated AND NOT p.convalidated",

	/* partitions into their tables */
	"SELECT 'pg_inherits'::regclass::oid, c.oid, format('ALTER TABLE ONLY %s ATTACH PARTITION %I %s', i.inhparent::regclass, c.relname,"
	" pg_get_expr(c.relpartbound, c.oid))"
	" FROM " TABLES " JOIN pg_inherits i ON i.inhrelid = c.oid WHERE c.relispartition",

	/*
	 * primary keys, unique and exclusion constraints; options of an index,
	 * which only exclusion constraints' definitions have, stand before
	 * DEFERRABLE
	 */
	"SELECT 'pg_constraint'::regclass::oid, o.oid, v.command"
	" FROM " TABLES " JOIN pg_constraint o ON o.conrelid = c.oid JOIN pg_class i ON i.oid = o.conindid,"
	" LATERAL (SELECT pg_get_constraintdef(o.oid), CASE WHEN o.contype <> 'x' THEN " OPTIONS("i.reloptions", "''") " END,"
	"  concat(CASE WHEN o.condeferrable THEN ' DEFERRABLE' END, CASE WHEN o.condeferred THEN ' INITIALLY DEFERRED' END))"
	"  d (definition, options, late),"
	" LATERAL (VALUES (format('ALTER TABLE ONLY %I ADD CONSTRAINT %I %s%s', c.relname, o.conname, left(d.definition,"
	"  length(d.definition) - length(d.late)), coalesce(' WITH (' || d.options || ')', '') || d.late)),"
	" (format('ALTER INDEX %I SET%s', i.relname, nullif(" TABLESPACE("i") ", '')))) v (command)"
	" WHERE o.contype IN ('p', 'u', 'x') AND v.command NOT LIKE '% SET'",

	/* other indexes */
	"SELECT 'pg_class'::regclass::oid, i.oid, v.command"
	" FROM " RELATIONS " c JOIN pg_index x ON x.indrelid = c.oid JOIN pg_class i ON i.oid = x.indexrelid,"
	" LATERAL (VALUES (pg_get_indexdef(i.oid, 0, true)),"
	" (format('ALTER INDEX %I SET%s', i.relname, nullif(" TABLESPACE("i") ", '')))) v (command)"
	" WHERE c.relkind IN ('r', 'p', 'm') AND v.command NOT LIKE '% SET'"
	" AND NOT EXISTS (SELECT FROM pg_constraint o WHERE o.conrelid = c.oid AND o.conindid = i.oid AND o.contype IN ('p', 'u', 'x'))",

	/* indexes of partitions into those of their tables */
	"SELECT 'pg_inherits'::regclass::oid, i.inhrelid, format('ALTER INDEX %s ATTACH PARTITION %s', i.inhparent::regclass,"
	" i.inhrelid::regclass)"
	" FROM " TABLES " JOIN pg_index x ON x.indrelid = c.oid JOIN pg_inherits i ON i.inhrelid = x.indexrelid",

	/* what is said of an index afterwards, with its constraint if it has one */
	"SELECT coalesce('pg_constraint'::regclass::oid, 0), o.oid, v.command"
	" FROM " RELATIONS " c JOIN pg_index x ON x.indrelid = c.oid JOIN pg_class i ON i.oid = x.indexrelid"
	" JOIN pg_constraint o ON o.conrelid = c.oid AND o.conindid = i.oid AND o.contype IN ('p', 'u', 'x'),"
	" LATERAL (VALUES (x.indisclustered, format('ALTER TABLE %I CLUSTER ON %I', c.relname, i.relname)),"
	" (x.indisreplident, format('ALTER TABLE ONLY %I REPLICA IDENTITY USING INDEX %I', c.relname, i.relname))) v (given, command)"
	" WHERE v.given",
	"SELECT 'pg_class'::regclass::oid, i.oid, v.command"
	" FROM " RELATIONS " c JOIN pg_index x ON x.indrelid = c.oid JOIN pg_class i ON i.oid = x.indexrelid,"
	" LATERAL (SELECT format('ALTER TABLE %I CLUSTER ON %I', c.relname, i.relname) WHERE x.indisclustered"
	" UNION ALL SELECT format('ALTER TABLE ONLY %I REPLICA IDENTITY USING INDEX %I', c.relname, i.relname) WHERE x.indisreplident"
	" UNION ALL SELECT format('ALTER INDEX %I ALTER COLUMN %s SET STATISTICS %s', i.relname, a.attnum, a.attstattarget)"
	" FROM pg_attribute a WHERE a.attrelid = i.oid AND a.attstattarget >= 0) v (command)"
	" WHERE NOT EXISTS (SELECT FROM pg_constraint o WHERE o.conrelid = c.oid AND o.conindid = i.oid AND o.contype IN ('p', 'u', 'x'))",

	/* extended statistics, whose definition begins with a qualified name */
	"SELECT 'pg_statistic_ext'::regclass::oid, t.oid, v.command"
	" FROM " MEMBERS("pg_statistic_ext") " t JOIN pg_namespace n ON n.oid = t.stxnamespace,"
	" LATERAL (VALUES ('CREATE STATISTICS ' || substr(pg_get_statisticsobjdef(t.oid),"
	" length('CREATE STATISTICS ' || quote_ident(n.nspname) || '.') + 1)),"
	" (CASE WHEN t.stxstattarget >= 0 THEN format('ALTER STATISTICS %I SET STATISTICS %s', t.stxname, t.stxstattarget) END)) v (command)"
	" WHERE v.command IS NOT NULL",

	/* foreign keys; most of partitions are made with their tables' */
	"SELECT 'pg_constraint'::regclass::oid, o.oid, format('ALTER TABLE %I ADD CONSTRAINT %I %s', c.relname, o.conname,"
	" pg_get_constraintdef(o.oid))"
	" FROM " TABLES " JOIN pg_constraint o ON o.conrelid = c.oid WHERE o.contype = 'f'"
	" AND (o.conparentid = 0 OR " OWN_FOREIGN_KEY("o") ")",

	/* views */
	"SELECT 'pg_class'::regclass::oid, c.oid, format('CREATE VIEW %I%s AS %s', c.relname,"
	" coalesce(' WITH (' || " OPTIONS("c.reloptions", "''") " || ')', ''), pg_get_viewdef(c.oid))"
	" FROM " RELATIONS " c WHERE c.relkind = 'v'",

	/* materialized views */
	"SELECT 'pg_class'::regclass::oid, c.oid, format('CREATE MATERIALIZED VIEW %I%s%s%s AS %s WITH NO DATA', c.relname,"
	ACCESS_METHOD("c") ","
	" coalesce(' WITH (' || nullif(concat_ws(', ', " OPTIONS("c.reloptions", "''") ", " OPTIONS("x.reloptions", "'toast.'") "), '') || ')', ''),"
	TABLESPACE("c") ", rtrim(pg_get_viewdef(c.oid), ';'))"
	" FROM " RELATIONS " c LEFT JOIN " TOAST("c", "x") " WHERE c.relkind = 'm'",
	COLUMN_SETTINGS("('m')"),

	/* rules */
	"SELECT 'pg_rewrite'::regclass::oid, r.oid, v.command"
	" FROM " RELATIONS " c JOIN pg_rewrite r ON r.ev_class = c.oid,"
	" LATERAL (VALUES (pg_get_ruledef(r.oid, true)), (format('ALTER TABLE %I %s RULE %I', c.relname, CASE r.ev_enabled"
	"  WHEN 'D' THEN 'DISABLE' WHEN 'R' THEN 'ENABLE REPLICA' WHEN 'A' THEN 'ENABLE ALWAYS' END, r.rulename))) v (command)"
	" WHERE r.rulename <> '_RETURN' AND (r.ev_enabled <> 'O' OR v.command LIKE 'CREATE%')",

	/*
	 * triggers; partitions have those of their tables, and each is switched
	 * by itself
	 */
	"SELECT 'pg_trigger'::regclass::oid, t.oid, v.command"
	" FROM " RELATIONS " c JOIN pg_trigger t ON t.tgrelid = c.oid LEFT JOIN pg_trigger p ON p.oid = t.tgparentid,"
	" LATERAL (VALUES (pg_get_triggerdef(t.oid, true)), (format('ALTER TABLE ONLY %I %s TRIGGER %I', c.relname, CASE t.tgenabled"
	"  WHEN 'D' THEN 'DISABLE' WHEN 'R' THEN 'ENABLE REPLICA' ELSE 'ENABLE ALWAYS' END, t.tgname))) v (command)"
	" WHERE NOT t.tgisinternal AND CASE WHEN v.command LIKE 'CREATE%' THEN p.oid IS NULL"
	" ELSE t.tgenabled <> 'O' END",

	/* policies */
	"SELECT 'pg_policy'::regclass::oid, p.oid, format('CREATE POLICY %I ON %I AS %s FOR %s TO %s%s%s', p.polname, c.relname,"
	" CASE WHEN p.polpermissive THEN 'PERMISSIVE' ELSE 'RESTRICTIVE' END,"
	" CASE p.polcmd WHEN 'r' THEN 'SELECT' WHEN 'a' THEN 'INSERT' WHEN 'w' THEN 'UPDATE' WHEN 'd' THEN 'DELETE' ELSE 'ALL' END,"
	" (SELECT string_agg(CASE WHEN role = 0 THEN 'PUBLIC' ELSE role::regrole::text END, ', ') FROM unnest(p.polroles) role),"
	" coalesce(' USING (' || pg_get_expr(p.polqual, p.polrelid) || ')', ''),"
	" coalesce(' WITH CHECK (' || pg_get_expr(p.polwithcheck, p.polrelid) || ')', ''))"
	" FROM " TABLES " JOIN pg_policy p ON p.polrelid = c.oid",
};
const int	clone_object_nqueries = lengthof(clone_object_queries);

/* All that goes with the schema $1, in whatever catalog: what is in it, and the parts of that. */
#define CLOSURE(name, schema) \
	name " (classid, objid) AS (" \
	" SELECT classid, objid FROM pg_depend WHERE refclassid = 'pg_namespace'::regclass AND refobjid = " schema \
	" UNION SELECT d.classid, d.objid FROM " name " m JOIN pg_depend d ON d.refclassid = m.classid AND d.refobjid = m.objid" \
	" WHERE d.deptype IN ('i', 'a', 'P', 'S'))"

/* what rules and ON CONFLICT call rows stands nowhere without a dot */
const char *const clone_ambiguous_query =
"SELECT FROM pg_namespace WHERE oid = $1 AND nspname IN ('new', 'old', 'excluded')"
" UNION ALL SELECT FROM " COLUMNS_AS_SCHEMA;

/*
 * deptype tells whether the first is a part of the second, which stands for
 * it if it has no commands of its own. A partition is attached when it has
 * what its table has, and before indexes and keys.
 */
const char *const clone_order_query =
"WITH RECURSIVE " CLOSURE("m", "$1") ", inherited AS ("
" SELECT c.oid AS child, i.inhparent AS parent FROM " RELATIONS " c JOIN pg_inherits i ON i.inhrelid = c.oid"
" WHERE c.relispartition), own AS ("
" SELECT o.oid, o.conparentid FROM inherited JOIN pg_constraint o ON o.conrelid = child"
" WHERE o.contype = 'f' AND " OWN_FOREIGN_KEY("o") "), own_parts (classid, objid) AS ("
" SELECT 'pg_constraint'::regclass::oid, oid FROM own"
" UNION ALL SELECT 'pg_trigger'::regclass::oid, t.oid FROM own JOIN pg_trigger t ON t.tgconstraint = own.oid), one_way AS ("
" SELECT y.oid, x.oid AS first FROM " MEMBERS("pg_operator") " x JOIN pg_operator y ON y.oid IN (x.oprcom, x.oprnegate)"
" WHERE (y.oid = x.oprcom AND y.oprcom <> x.oid) OR (y.oid = x.oprnegate AND y.oprnegate <> x.oid))"
" SELECT d.classid, d.objid, d.refclassid, d.refobjid, d.deptype::text FROM m"
" JOIN pg_depend d ON d.classid = m.classid AND d.objid = m.objid"
/* a hashed subplan, as below */
" WHERE (d.deptype = 'P' AND (d.classid, d.objid) IN (SELECT classid, objid FROM own_parts)) IS NOT TRUE"
" UNION ALL SELECT 'pg_constraint'::regclass, conparentid, 'pg_constraint'::regclass, oid, 'n' FROM own"
/* an operator that does not refer to the one whose commutator or negator it is would, if it were made first */
" UNION ALL SELECT 'pg_operator'::regclass, oid, 'pg_operator'::regclass, first, 'n' FROM one_way"
" UNION ALL SELECT d.classid, d.objid, d.refclassid, d.refobjid, 'n'"
"  FROM " CASTS " k JOIN pg_depend d ON d.classid = 'pg_cast'::regclass AND d.objid = k.oid"
" UNION ALL SELECT 'pg_inherits'::regclass, child, 'pg_class'::regclass, v.oid, 'n'"
"  FROM inherited, LATERAL (VALUES (child), (parent)) v (oid)"
" UNION ALL SELECT 'pg_inherits'::regclass, child, 'pg_constraint'::regclass, o.oid, 'n'"
"  FROM inherited JOIN pg_constraint o ON o.conrelid IN (child, parent) AND o.contype = 'c'"
" UNION ALL SELECT 'pg_constraint'::regclass, o.oid, 'pg_inherits'::regclass, child, 'n'"
"  FROM inherited JOIN pg_constraint o ON o.conrelid IN (child, parent) AND o.contype IN ('p', 'u', 'x', 'f')"
/* no index finds foreign keys by the table that they refer to */
" UNION ALL SELECT 'pg_constraint'::regclass, o.oid, 'pg_inherits'::regclass, child, 'n'"
"  FROM inherited, LATERAL (VALUES (child), (parent)) v (oid)"
"  JOIN pg_depend d ON d.refclassid = 'pg_class'::regclass AND d.refobjid = v.oid AND " OF_CLASS("d.classid", "pg_constraint")
"  JOIN pg_constraint o ON o.oid = d.objid AND o.confrelid = v.oid AND o.contype = 'f'"
" UNION ALL SELECT 'pg_class'::regclass, x.indexrelid, 'pg_inherits'::regclass, child, 'n'"
"  FROM inherited JOIN pg_index x ON x.indrelid IN (child, parent)"
" UNION ALL SELECT 'pg_trigger'::regclass, t.oid, 'pg_inherits'::regclass, child, 'n'"
"  FROM inherited JOIN pg_trigger t ON t.tgrelid IN (child, parent)"
" UNION ALL SELECT 'pg_constraint'::regclass, o.oid, 'pg_constraint'::regclass, p.oid, 'n'"
"  FROM " TABLES " JOIN " INHERITED_CONSTRAINTS " WHERE o.convalidated AND NOT p.convalidated"
" UNION ALL SELECT 'pg_inherits'::regclass, i.inhrelid, 'pg_class'::regclass, v.oid, 'n'"
"  FROM " TABLES " JOIN pg_index x ON x.indrelid = c.oid JOIN pg_inherits i ON i.inhrelid = x.indexrelid,"
"  LATERAL (VALUES (i.inhrelid), (i.inhparent)) v (oid)";

/* ---- what comes last: comments, owners, grants, contents ---- */

/* Types that come with something else: of tables' rows, and of several ranges. */
#define DERIVED_TYPES \
	"(SELECT t.* FROM " RELATIONS " c JOIN pg_type t ON t.oid = c.reltype" \
	" UNION ALL SELECT m.* FROM " MEMBERS("pg_type") " t JOIN pg_range r ON r.rngtypid = t.oid" \
	" JOIN pg_type m ON m.oid = r.rngmultitypid)"

/* All objects with an owner: as commands name them, and in what catalog. */
#define OWNED \
	"(SELECT CASE c.relkind WHEN 'v' THEN 'VIEW' WHEN 'm' THEN 'MATERIALIZED VIEW' WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END AS word," \
	" CASE c.relkind WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END AS grant_word," \
	" CASE c.relkind WHEN 'S' THEN 's' ELSE 'r' END AS kind, quote_ident(c.relname) AS name, c.relowner AS owner, c.relacl AS acl," \
	" 'pg_class'::regclass::oid AS classid, c.oid AS objid," \
	/* the sequence of a column has its table's owner */ \
	" NOT (c.relkind = 'S' AND EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid" \
	"  AND d.refclassid = 'pg_class'::regclass AND d.deptype IN ('a', 'i'))) AS alone" \
	" FROM " RELATIONS " c WHERE c.relkind IN ('r', 'p', 'v', 'm', 'S')" \
	" UNION ALL SELECT CASE t.typtype WHEN 'd' THEN 'DOMAIN' ELSE 'TYPE' END, 'TYPE', 'T', quote_ident(t.typname), t.typowner, t.typacl," \
	" 'pg_type'::regclass::oid, t.oid, true FROM " MEMBERS("pg_type") " t WHERE t.typtype IN ('e', 'c', 'd', 'r')" \
	/* these have their table's owner, or their range's */ \
	" UNION ALL SELECT 'TYPE', 'TYPE', 'T', quote_ident(t.typname), t.typowner, t.typacl, 'pg_type'::regclass::oid, t.oid, false" \
	" FROM " DERIVED_TYPES " t WHERE t.typacl IS NOT NULL" \
	" UNION ALL SELECT 'ROUTINE', 'ROUTINE', 'f', p.oid::regprocedure::text, p.proowner, p.proacl," \
	" 'pg_proc'::regclass::oid, p.oid, true FROM " ROUTINES " p" \
	" UNION ALL SELECT 'STATISTICS', NULL, NULL, quote_ident(t.stxname), t.stxowner, NULL," \
	" 'pg_statistic_ext'::regclass::oid, t.oid, true FROM " MEMBERS("pg_statistic_ext") " t" \
	" UNION ALL SELECT 'OPERATOR', NULL, NULL, t.oid::regoperator::text, t.oprowner, NULL," \
	" 'pg_operator'::regclass::oid, t.oid, true FROM " MEMBERS("pg_operator") " t WHERE t.oprcode::oid <> 0" \
	" OR EXISTS (SELECT FROM pg_operator o WHERE o.oid IN (t.oprcom, t.oprnegate) AND o.oprnamespace = $1)" \
	" UNION ALL SELECT 'COLLATION', NULL, NULL, quote_ident(t.collname), t.collowner, NULL," \
	" 'pg_collation'::regclass::oid, t.oid, true FROM " MEMBERS("pg_collation") " t" \
	" UNION ALL SELECT 'TEXT SEARCH DICTIONARY', NULL, NULL, quote_ident(t.dictname), t.dictowner, NULL," \
	" 'pg_ts_dict'::regclass::oid, t.oid, true FROM " MEMBERS("pg_ts_dict") " t" \
	" UNION ALL SELECT 'TEXT SEARCH CONFIGURATION', NULL, NULL, quote_ident(t.cfgname), t.cfgowner, NULL," \
	" 'pg_ts_config'::regclass::oid, t.oid, true FROM " MEMBERS("pg_ts_config") " t" \
	" UNION ALL SELECT 'SCHEMA', 'SCHEMA', 'n', quote_ident($2), n.nspowner, n.nspacl," \
	" 'pg_namespace'::regclass::oid, n.oid, true FROM pg_namespace n WHERE n.oid = $1)"

/* The parts of tables and domains, and casts, which can have comments. */
#define PARTS \
	"(SELECT 'pg_constraint'::regclass::oid AS classid, o.oid AS objid," \
	" format('CONSTRAINT %I ON %I', o.conname, c.relname) AS name" \
	" FROM " RELATIONS " c JOIN pg_constraint o ON o.conrelid = c.oid" \
	" UNION ALL SELECT 'pg_constraint'::regclass::oid, o.oid, format('CONSTRAINT %I ON DOMAIN %I', o.conname, t.typname)" \
	" FROM " MEMBERS("pg_type") " t JOIN pg_constraint o ON o.contypid = t.oid" \
	" UNION ALL SELECT 'pg_trigger'::regclass::oid, g.oid, format('TRIGGER %I ON %I', g.tgname, c.relname)" \
	" FROM " RELATIONS " c JOIN pg_trigger g ON g.tgrelid = c.oid" \
	" UNION ALL SELECT 'pg_rewrite'::regclass::oid, r.oid, format('RULE %I ON %I', r.rulename, c.relname)" \
	" FROM " RELATIONS " c JOIN pg_rewrite r ON r.ev_class = c.oid" \
	" UNION ALL SELECT 'pg_policy'::regclass::oid, p.oid, format('POLICY %I ON %I', p.polname, c.relname)" \
	" FROM " RELATIONS " c JOIN pg_policy p ON p.polrelid = c.oid" \
	" UNION ALL SELECT 'pg_class'::regclass::oid, i.oid, format('INDEX %I', i.relname)" \
	" FROM " RELATIONS " c JOIN pg_index x ON x.indrelid = c.oid JOIN pg_class i ON i.oid = x.indexrelid" \
	" UNION ALL SELECT 'pg_type'::regclass::oid, t.oid, format('TYPE %I', t.typname) FROM " DERIVED_TYPES " t" \
	" UNION ALL SELECT 'pg_cast'::regclass::oid, k.oid, format('CAST (%s AS %s)', format_type(k.castsource, NULL)," \
	"  format_type(k.casttarget, NULL)) FROM " CASTS " k)"

/* Whom a new object's default privileges give something, besides its owner. */
#define DEFAULT_GRANTEES \
	"(SELECT DISTINCT e.grantee FROM pg_default_acl d, aclexplode(d.defaclacl) e" \
	" WHERE d.defaclrole = current_user::regrole AND d.defaclnamespace = 0)"

#define ROLE(oid) "CASE WHEN " oid " = 0 THEN 'PUBLIC' ELSE " oid "::regrole::text END"

const char *const clone_last_queries[] = {
	/* comments */
	"SELECT format('COMMENT ON %s %s IS %L', o.word, o.name, d.description) FROM " OWNED " o"
	" JOIN pg_description d ON d.classoid = o.classid AND d.objoid = o.objid AND d.objsubid = 0",
	"SELECT format('COMMENT ON %s IS %L', p.name, d.description) FROM " PARTS " p"
	" JOIN pg_description d ON d.classoid = p.classid AND d.objoid = p.objid AND d.objsubid = 0",
	"SELECT format('COMMENT ON COLUMN %I.%I IS %L', c.relname, a.attname, d.description)"
	" FROM (SELECT oid, relname FROM " RELATIONS " r WHERE r.relkind IN ('r', 'p', 'v', 'm')"
	" UNION ALL SELECT typrelid, typname FROM " MEMBERS("pg_type") " t WHERE t.typtype = 'c') c"
	" JOIN pg_attribute a ON a.attrelid = c.oid AND NOT a.attisdropped"
	" JOIN pg_description d ON d.classoid = 'pg_class'::regclass AND d.objoid = c.oid AND d.objsubid = a.attnum",

	/*
	 * grants on the schema, which owners of what is in it may need; then
	 * owners
	 */
	"SELECT format('ALTER SCHEMA %I OWNER TO %s', $2, n.nspowner::regrole) FROM pg_namespace n"
	" WHERE n.oid = $1 AND n.nspowner <> current_user::regrole",
	"SELECT format('REVOKE ALL ON SCHEMA %I FROM PUBLIC, %s', $2, n.nspowner::regrole) FROM pg_namespace n"
	" WHERE n.oid = $1 AND n.nspacl IS NOT NULL",
	"SELECT format('GRANT %s ON SCHEMA %I TO %s%s', string_agg(e.privilege_type, ', ' ORDER BY e.privilege_type), $2, " ROLE("e.grantee") ","
	" CASE WHEN e.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END)"
	" FROM pg_namespace n, aclexplode(n.nspacl) WITH ORDINALITY e WHERE n.oid = $1"
	" GROUP BY e.grantee, e.is_grantable ORDER BY min(e.ordinality)",
	"SELECT format('ALTER %s %s OWNER TO %s', o.word, o.name, o.owner::regrole) FROM " OWNED " o"
	" WHERE o.alone AND o.owner <> current_user::regrole AND o.word <> 'SCHEMA'",

	/*
	 * grants on objects: first none, whatever default privileges have given;
	 * then the template's
	 */
	"SELECT format('REVOKE ALL ON %s %s FROM %s', o.grant_word, o.name, (SELECT string_agg(" ROLE("g.role") ", ', ' ORDER BY g.role)"
	" FROM (SELECT 0::oid AS role UNION SELECT o.owner UNION SELECT grantee FROM " DEFAULT_GRANTEES " d) g))"
	" FROM " OWNED " o WHERE o.grant_word <> 'SCHEMA'"
	" AND (o.acl IS NOT NULL OR EXISTS (SELECT FROM " DEFAULT_GRANTEES " d))",
	"SELECT format('GRANT %s ON %s %s TO %s%s', string_agg(e.privilege_type, ', ' ORDER BY e.privilege_type), o.grant_word, o.name,"
	" " ROLE("e.grantee") ", CASE WHEN e.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END)"
	" FROM " OWNED " o, aclexplode(coalesce(o.acl, acldefault(o.kind::\"char\", o.owner))) WITH ORDINALITY e"
	" WHERE o.grant_word <> 'SCHEMA' AND (o.acl IS NOT NULL OR EXISTS (SELECT FROM " DEFAULT_GRANTEES " d))"
	" GROUP BY o.grant_word, o.name, e.grantee, e.is_grantable ORDER BY o.name, min(e.ordinality)",
	"SELECT format('GRANT %s ON TABLE %I TO %s%s', string_agg(format('%s (%I)', e.privilege_type, a.attname), ', '"
	" ORDER BY a.attnum, e.privilege_type), c.relname, " ROLE("e.grantee") ","
	" CASE WHEN e.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END)"
	" FROM " RELATIONS " c JOIN pg_attribute a ON a.attrelid = c.oid AND NOT a.attisdropped, aclexplode(a.attacl) e"
	" GROUP BY c.relname, e.grantee, e.is_grantable",

	/* default privileges, now that nothing more is made */
	"SELECT format('ALTER DEFAULT PRIVILEGES FOR ROLE %s IN SCHEMA %I GRANT %s ON %s TO %s%s', d.defaclrole::regrole, $2,"
	" string_agg(e.privilege_type, ', ' ORDER BY e.privilege_type), CASE d.defaclobjtype WHEN 'r' THEN 'TABLES' WHEN 'S' THEN 'SEQUENCES'"
	" WHEN 'f' THEN 'ROUTINES' WHEN 'T' THEN 'TYPES' END, " ROLE("e.grantee") ","
	" CASE WHEN e.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END)"
	" FROM " MEMBERS("pg_default_acl") " d, aclexplode(d.defaclacl) e"
	" GROUP BY d.defaclrole, d.defaclobjtype, e.grantee, e.is_grantable",
};
const int	clone_last_nqueries = lengthof(clone_last_queries);

/*
 * A view that can be read in the template can be read in the clone. Those that
 * others read come first: each has fewer below it than who reads it. What rules
 * of other events read does not matter, and may be the view itself.
 */
const char *const clone_fill_query =
"WITH RECURSIVE m (below, oid) AS (SELECT c.oid, c.oid FROM " RELATIONS " c WHERE c.relkind = 'm'"
" UNION SELECT m.below, c.oid FROM m JOIN pg_depend d ON d.refclassid = 'pg_class'::regclass AND d.refobjid = m.oid"
" AND " OF_CLASS("d.classid", "pg_rewrite") " AND d.deptype = 'n' JOIN pg_rewrite r ON r.oid = d.objid AND r.ev_type = '1'"
" JOIN pg_class c ON c.oid = r.ev_class WHERE c.relkind IN ('m', 'v') AND c.relnamespace = $1)"
" SELECT format('REFRESH MATERIALIZED VIEW %I', c.relname) FROM m JOIN pg_class c ON c.oid = m.oid"
" WHERE c.relkind = 'm' AND c.relispopulated GROUP BY c.relname ORDER BY count(*), c.relname";

/* ---- what cannot be carried ---- */

/*
 * What relations and other objects in a schema there are commands for. All
 * others are refused, and so is what a later major version adds.
 */
#define KNOWN_RELATIONS "('r', 'p', 'v', 'm', 'S', 'c')"
#define KNOWN_CATALOGS \
	"ARRAY['pg_class', 'pg_type', 'pg_proc', 'pg_operator', 'pg_collation', 'pg_ts_dict', 'pg_ts_config', 'pg_constraint'," \
	" 'pg_statistic_ext', 'pg_default_acl']::regclass[]"

#define ELSEWHERE "Move it to a schema that is not a template, or drop it."

const char *const clone_refused_queries[] = {
	/* names under which another object would be found, and perhaps changed */
	"SELECT pg_describe_object('pg_class'::regclass, c.oid, 0) || ', whose name is also one of pg_catalog''s', 'Rename it.'"
	" FROM " RELATIONS " c WHERE NOT pg_table_is_visible(c.oid)"
	" UNION ALL SELECT pg_describe_object('pg_class'::regclass, i.oid, 0) || ', whose name is also one of pg_catalog''s', 'Rename it.'"
	" FROM " RELATIONS " c JOIN pg_index x ON x.indrelid = c.oid JOIN pg_class i ON i.oid = x.indexrelid WHERE NOT pg_table_is_visible(i.oid)"
	" UNION ALL SELECT pg_describe_object('pg_type'::regclass, t.oid, 0) || ', whose name is also one of pg_catalog''s', 'Rename it.'"
	" FROM " MEMBERS("pg_type") " t WHERE NOT pg_type_is_visible(t.oid)"
	" UNION ALL SELECT pg_describe_object('pg_type'::regclass, t.oid, 0) || ', whose name is also one of pg_catalog''s', 'Rename it.'"
	" FROM " RELATIONS " c JOIN pg_type t ON t.oid = c.reltype WHERE NOT pg_type_is_visible(t.oid)"
	" UNION ALL SELECT pg_describe_object('pg_proc'::regclass, p.oid, 0) || ', whose name is also one of pg_catalog''s', 'Rename it.'"
	" FROM " ROUTINES " p WHERE NOT pg_function_is_visible(p.oid)"
	" UNION ALL SELECT pg_describe_object('pg_operator'::regclass, o.oid, 0) || ', whose name is also one of pg_catalog''s', 'Rename it.'"
	" FROM " MEMBERS("pg_operator") " o WHERE NOT pg_operator_is_visible(o.oid)"
	" UNION ALL SELECT pg_describe_object('pg_collation'::regclass, o.oid, 0) || ', whose name is also one of pg_catalog''s', 'Rename it.'"
	" FROM " MEMBERS("pg_collation") " o WHERE NOT pg_collation_is_visible(o.oid)"
	" UNION ALL SELECT pg_describe_object('pg_ts_dict'::regclass, o.oid, 0) || ', whose name is also one of pg_catalog''s', 'Rename it.'"
	" FROM " MEMBERS("pg_ts_dict") " o WHERE NOT pg_ts_dict_is_visible(o.oid)"
	" UNION ALL SELECT pg_describe_object('pg_ts_config'::regclass, o.oid, 0) || ', whose name is also one of pg_catalog''s', 'Rename it.'"
	" FROM " MEMBERS("pg_ts_config") " o WHERE NOT pg_ts_config_is_visible(o.oid)",

	/* also expressions with a regnamespace depend on it, but are in no schema */
	"SELECT pg_describe_object(d.classid, d.objid, 0), '" ELSEWHERE "' FROM pg_depend d"
	" WHERE d.refclassid = 'pg_namespace'::regclass AND d.refobjid = $1"
	" AND CASE WHEN d.classid <> ALL (" KNOWN_CATALOGS ") THEN (pg_identify_object(d.classid, d.objid, 0)).schema IS NOT NULL END"
	" ORDER BY 1",
	"SELECT pg_describe_object('pg_class'::regclass, c.oid, 0), '" ELSEWHERE "'"
	" FROM " RELATIONS " c WHERE c.relkind NOT IN " KNOWN_RELATIONS " ORDER BY 1",

	"SELECT CASE WHEN t.typtype = 'r' THEN format('range type %I, which has a canonical function', t.typname)"
	" ELSE 'base type ' || t.oid::regtype END, '" ELSEWHERE "'"
	" FROM " MEMBERS("pg_type") " t LEFT JOIN pg_range r ON r.rngtypid = t.oid"
	" WHERE t.typtype IN ('b', 'p') OR r.rngcanonical::oid <> 0 ORDER BY 1",

	/*
	 * commands make a child's inherited columns first, in the order of its
	 * parents
	 */
	"SELECT format('table %s, whose columns are in another order than its parent''s', c.oid::regclass),"
	" 'Give the parent all of its columns before the child is created.'"
	" FROM " RELATIONS " c, LATERAL (SELECT array_agg(a.attnum ORDER BY a.attnum),"
	"  array_agg(a.attnum ORDER BY p.inhseqno NULLS LAST, p.attnum, a.attnum)"
	"  FROM pg_attribute a LEFT JOIN LATERAL (SELECT h.inhseqno, q.attnum FROM pg_inherits h JOIN pg_attribute q"
	"   ON q.attrelid = h.inhparent AND q.attname = a.attname WHERE h.inhrelid = c.oid ORDER BY 1 LIMIT 1) p ON a.attinhcount > 0"
	"  WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped) o (found, made)"
	" WHERE c.relkind = 'r' AND NOT c.relispartition AND EXISTS (SELECT FROM pg_inherits WHERE inhrelid = c.oid) AND o.found <> o.made",
	"SELECT format('partition %s of %s, which is in another schema', c.oid::regclass, p.oid::regclass), 'Move both into one schema.'"

	/*
	 * two joins: by a condition of both columns all partitions of the
	 * database would be compared
	 */
	" FROM (SELECT h.* FROM " RELATIONS " m JOIN pg_inherits h ON h.inhrelid = m.oid"
	" UNION SELECT h.* FROM " RELATIONS " m JOIN pg_inherits h ON h.inhparent = m.oid) i"
	" JOIN pg_class c ON c.oid = i.inhrelid JOIN pg_class p ON p.oid = i.inhparent"
	" WHERE c.relispartition AND c.relnamespace <> p.relnamespace ORDER BY 1",
	"SELECT format('%s, which belongs to extension %I', pg_describe_object(m.classid, m.objid, 0), e.extname),"
	" 'Create the extension in another schema.'"
	" FROM pg_depend m JOIN pg_depend d ON d.classid = m.classid AND d.objid = m.objid AND d.deptype IN ('e', 'x')"
	" JOIN pg_extension e ON d.refclassid = 'pg_extension'::regclass AND e.oid = d.refobjid"
	" WHERE m.refclassid = 'pg_namespace'::regclass AND m.refobjid = $1 ORDER BY 1",
	"SELECT pg_describe_object('pg_transform'::regclass, x.oid, 0), 'Drop the transform, or move the type to another schema.'"
	" FROM " OF_TYPES("pg_transform") " x ORDER BY 1",
	"SELECT format('index %s, which is not valid', x.indexrelid::regclass), 'Rebuild it by REINDEX, or drop it.'"
	" FROM " RELATIONS " c JOIN pg_index x ON x.indrelid = c.oid WHERE NOT x.indisvalid AND c.relkind <> 'p' ORDER BY 1",
	"SELECT format('%s, which is switched off', pg_describe_object('pg_constraint'::regclass, t.tgconstraint, 0)),"
	" 'Enable the triggers of the table.'"
	" FROM " RELATIONS " c JOIN pg_trigger t ON t.tgrelid = c.oid WHERE t.tgisinternal AND t.tgenabled <> 'O' ORDER BY 1",
	"SELECT 'a security label of ' || pg_describe_object(l.classoid, l.objoid, l.objsubid), 'Remove the label.'"
	" FROM pg_depend m JOIN pg_seclabel l ON l.classoid = m.classid AND l.objoid = m.objid"
	" WHERE m.refclassid = 'pg_namespace'::regclass AND m.refobjid = $1"
	" UNION ALL SELECT 'a security label of ' || pg_describe_object(l.classoid, l.objoid, l.objsubid), 'Remove the label.'"
	" FROM pg_seclabel l WHERE l.classoid = 'pg_namespace'::regclass AND l.objoid = $1",
	"SELECT format('grants on %s %s that %s has made', lower(o.word), o.name, e.grantor::regrole), 'Grant them as the owner.'"
	" FROM " OWNED " o, aclexplode(o.acl) e WHERE e.grantor <> o.owner ORDER BY 1",
	"SELECT format('grants on column %I of table %s that %s has made', a.attname, c.oid::regclass, e.grantor::regrole), 'Grant them as the owner.'"
	" FROM " RELATIONS " c JOIN pg_attribute a ON a.attrelid = c.oid, aclexplode(a.attacl) e WHERE e.grantor <> c.relowner ORDER BY 1",
};
const int	clone_refused_nqueries = lengthof(clone_refused_queries);

const char *const clone_strays_query =
"WITH RECURSIVE " CLOSURE("m", "$1") ", " CLOSURE("t", "(SELECT oid FROM pg_namespace WHERE nspname = $2)")
" SELECT pg_describe_object(d.classid, d.objid, d.objsubid), pg_describe_object(d.refclassid, d.refobjid, d.refobjsubid)"
" FROM m JOIN pg_depend d ON d.classid = m.classid AND d.objid = m.objid"
/* a hashed subplan: joins are nested loops here */
" WHERE ((d.refclassid, d.refobjid) IN (SELECT classid, objid FROM t)) IS TRUE ORDER BY 1";

/* As a word: the name of a schema may be part of many others. */
const char *const clone_functions_query =
"SELECT f.name, f.body, f.rewritable, f.path, f.others FROM (SELECT p.oid::regprocedure::text, n.nspname, p.prosrc, " REWRITABLE ", " FUNCTION_PATH ","
" array_to_string(ARRAY(SELECT setting FROM unnest(p.proconfig) setting WHERE setting !~ '^search_path='), ' ')"
" FROM " ROUTINES " p JOIN pg_namespace n ON n.oid = p.pronamespace) f (name, schema, body, rewritable, path, others)"
" WHERE concat_ws(' ', f.body, f.path, f.others) ~ format('(^|[^[:alnum:]_$])%s($|[^[:alnum:]_$])',"
" regexp_replace(f.schema, '([^[:alnum:]_])', '\\\\\\1', 'g')) ORDER BY 1";

/* ---- publications ---- */

/* In the clone, the tables' names and "current schema" are its own. */
const char *const clone_publications_query =
"SELECT format('ALTER PUBLICATION %I ADD TABLE ONLY %I%s%s', b.pubname, c.relname,"
" coalesce((SELECT format(' (%s)', string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum)) FROM pg_attribute a"
"  WHERE a.attrelid = c.oid AND a.attnum = ANY (r.prattrs) HAVING count(*) > 0), ''),"
" coalesce(' WHERE (' || pg_get_expr(r.prqual, r.prrelid) || ')', ''))"
" FROM " RELATIONS " c JOIN pg_publication_rel r ON r.prrelid = c.oid JOIN pg_publication b ON b.oid = r.prpubid"
" UNION ALL SELECT format('ALTER PUBLICATION %I ADD TABLES IN SCHEMA CURRENT_SCHEMA', b.pubname)"
" FROM pg_publication_namespace x JOIN pg_publication b ON b.oid = x.pnpubid WHERE x.pnnspid = $1 ORDER BY 1";

/* ---- rows ---- */

/* Tables with rows; a partitioned one stands for its partitions. */
#define COPIED_TABLES \
	"(SELECT c.oid, c.relname FROM " RELATIONS " c WHERE c.relkind = 'r' AND ($2 IS NULL OR EXISTS" \
	" (SELECT FROM unnest($2::oid[]) o WHERE o = c.oid OR o IN (SELECT relid FROM pg_partition_ancestors(c.oid)))))"

const char *const clone_no_table_query =
"SELECT coalesce(o::regclass::text, 'null') FROM unnest($2::oid[]) o"
" WHERE NOT EXISTS (SELECT FROM " TABLES " WHERE c.oid = o)";

const char *const clone_not_copied_query =
"WITH copied AS MATERIALIZED " COPIED_TABLES
" SELECT m.oid::regclass::text, format('rule %I takes the place of INSERT', r.rulename), 'Drop the rule, or copy the rows yourself.'"
" FROM copied m JOIN pg_rewrite r ON r.ev_class = m.oid WHERE r.ev_type = '3'"
" UNION ALL SELECT m.oid::regclass::text, format('by %I they refer to those of %s, which are not copied', o.conname, p.oid::regclass),"
" 'Copy those, too.'"
" FROM copied m JOIN pg_constraint o ON o.conrelid = m.oid AND o.contype = 'f'"
" JOIN " RELATIONS " p ON p.oid = o.confrelid"
" WHERE $2 IS NOT NULL AND NOT EXISTS (SELECT FROM copied x WHERE x.oid = p.oid)"
" AND NOT EXISTS (SELECT FROM unnest($2::oid[]) x WHERE x = p.oid OR x IN (SELECT relid FROM pg_partition_ancestors(p.oid)))"
" ORDER BY 1, 2";

const char *const clone_copied_tables_query = "SELECT c.relname FROM " COPIED_TABLES " c ORDER BY c.oid";

const char *const clone_copied_sequences_query =
"SELECT c.relname FROM " RELATIONS " c WHERE c.relkind = 'S' AND ($2 IS NULL OR EXISTS (SELECT FROM pg_depend d"
" WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.refclassid = 'pg_class'::regclass AND d.deptype IN ('a', 'i')"
" AND (d.refobjid = ANY ($2::oid[]) OR d.refobjid IN (SELECT t.oid FROM " COPIED_TABLES " t)))) ORDER BY c.oid";

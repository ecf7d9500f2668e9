/*-------------------------------------------------------------------------
 *
 * verify_functions.c
 *	  Whether what we call on a shard is ours.
 *
 * A function's name says nothing about who wrote it: where the extension is
 * missing, any role that may create a schema can make a pgbillion_rows.partial_sum() that
 * runs as the user of the mapping. READ ONLY is no barrier: COPY … TO PROGRAM
 * runs in it. So each of our functions is looked up before it is called, in
 * the same transaction, and must be a member of the extension, a superuser's,
 * and in C from our library or PostgreSQL's; of an aggregate, also each function that
 * it names; every overload as well. Only superusers may create others
 * in that schema.
 *
 * The call comes later than the look-up and may see a newer catalog. Names
 * are therefore resolved as the parser will do it (to_regprocedure()), and must
 * lead to what the look-up has seen; who then could still change what they
 * lead to is a superuser.
 *
 * All else that is called on a shard is of pg_catalog, or of an extension that
 * the server's option "extensions" names: the rule is postgres_fdw's.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/dependency.h"
#include "catalog/pg_proc.h"
#include "commands/extension.h"
#include "lib/stringinfo.h"
#include "mb/pg_wchar.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

#include "compat.h"
#include "shard/verify_functions.h"

#define EXTENSION "pgbillion_rows"
#define SCHEMA "pgbillion_rows"

/* The error by which a shard ends a pipeline has the problem between these. */
#define PROBLEM_BEGIN "pgbillion: "
#define PROBLEM_END ";"

/*
 * Planning it takes most of its time, so that superusers and members are looked
 * up once: a subquery for each use would take twice as long. OFFSET keeps
 * the planner from putting these in the place of each use.
 */
#define TRUSTED \
	"(SELECT ARRAY(SELECT r.oid FROM pg_roles r WHERE r.rolsuper), " \
	"ARRAY(SELECT d.objid FROM pg_depend d WHERE d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid " \
	"AND d.classid = 'pg_proc'::regclass AND d.deptype = 'e') OFFSET 0) t (superusers, members)"

#define IS_SUPERUSER(role) role " = ANY (t.superusers)"

/* 16384 is FirstNormalObjectId, 12 INTERNALlanguageId, 13 ClanguageId */
#define IS_C(function) \
	"(" IS_SUPERUSER(function ".proowner") " AND (" \
	"(" function ".oid < 16384 AND " function ".prolang = 12 AND " function ".pronamespace = 'pg_catalog'::regnamespace) OR " \
	"(" function ".prolang = 13 AND " function ".probin IS NOT DISTINCT FROM '$libdir/" EXTENSION "' AND " \
	function ".oid = ANY (t.members))))"

#define IS_FOUND(function) \
	"coalesce(to_regprocedure(format('" SCHEMA ".%%I(%%s)', " function ".proname, oidvectortypes(" function ".proargtypes))) = " \
	function ".oid, false)"

/* with the names as a literal in two places; the last value of CASE is NULL when all is well */
#define VERIFICATION \
	"SELECT CASE WHEN e.oid IS NULL THEN 'extension " EXTENSION " is not installed' " \
	"WHEN NOT " IS_SUPERUSER("e.extowner") " THEN 'extension " EXTENSION " belongs to no superuser' " \
	"WHEN n.oid IS NULL OR to_regnamespace('" SCHEMA "') IS DISTINCT FROM n.oid THEN 'schema " SCHEMA " is missing' " \
	"WHEN NOT " IS_SUPERUSER("n.nspowner") " THEN 'schema " SCHEMA " belongs to no superuser' " \
	"WHEN EXISTS (SELECT FROM aclexplode(n.nspacl) a WHERE a.privilege_type = 'CREATE' AND NOT " \
	IS_SUPERUSER("a.grantee") ") THEN 'others than superusers may create objects in schema " SCHEMA "' " \
	"ELSE coalesce(" \
	"(SELECT 'function " SCHEMA ".' || f.name || ' is missing' FROM unnest(%s::name[]) f (name) WHERE NOT EXISTS " \
	"(SELECT FROM pg_proc p WHERE p.pronamespace = n.oid AND p.proname = f.name) LIMIT 1), " \
	"(SELECT 'function ' || p.oid::regprocedure || ' is not that of the extension' " \
	"FROM pg_proc p LEFT JOIN pg_aggregate a ON a.aggfnoid = p.oid " \
	"WHERE p.pronamespace = n.oid AND p.proname = ANY (%s::name[]) AND NOT (" IS_FOUND("p") " AND " \
	IS_SUPERUSER("p.proowner") " AND p.oid = ANY (t.members) AND NOT EXISTS " \
	"(SELECT FROM pg_proc f WHERE f.oid = ANY (CASE WHEN p.prokind = 'a' THEN ARRAY[a.aggtransfn, a.aggfinalfn, " \
	"a.aggcombinefn, a.aggserialfn, a.aggdeserialfn, a.aggmtransfn, a.aggminvtransfn, a.aggmfinalfn]::oid[] " \
	"ELSE ARRAY[p.oid] END) AND NOT " IS_C("f") ")) LIMIT 1)) END " \
	"FROM (VALUES (1)) AS one (row) LEFT JOIN pg_extension e ON e.extname = '" EXTENSION "' " \
	"LEFT JOIN pg_namespace n ON n.nspname = '" SCHEMA "' CROSS JOIN LATERAL " TRUSTED

/* Is this function a member of the extension here, in the schema where shards have it? */
bool
shard_is_ours(Oid function)
{
	Oid			extension;
	char	   *schema;

	if (function < FirstNormalObjectId)
		return false;
	extension = get_extension_oid(EXTENSION, true);
	if (!OidIsValid(extension) || getExtensionOfObject(ProcedureRelationId, function) != extension)
		return false;
	schema = get_namespace_name(get_func_namespace(function));
	return schema != NULL && strcmp(schema, SCHEMA) == 0;
}

/*
 * SQL that tells what forbids to call functions of these names (List of
 * char *), all in our schema: it returns one row with one text, NULL if there
 * is nothing. To be run with pg_catalog as search path.
 */
char *
shard_verification(List *names)
{
	StringInfoData array;
	char	   *literal;
	ListCell   *lc;

	Assert(names != NIL);
	initStringInfo(&array);
	foreach(lc, names)
		appendStringInfo(&array, "%c\"%s\"", lc == list_head(names) ? '{' : ',', (char *) lfirst(lc));
	appendStringInfoChar(&array, '}');
	literal = quote_literal_cstr(array.data);
	return psprintf(VERIFICATION, literal, literal);
}

/* The same as a command that fails if anything forbids it, so that the remainder of a pipeline is not run. */
char *
shard_verification_command(const char *verification)
{
	return psprintf("SELECT ('" PROBLEM_BEGIN "' || s.problem || '" PROBLEM_END "')::int4 FROM (%s) s (problem)", verification);
}

/* The problem in the message of the error of that command; NULL if it failed for another reason. */
char *
shard_verification_problem(const char *message)
{
	const char *begin = strstr(message, PROBLEM_BEGIN);
	const char *end;

	if (begin == NULL)
		return NULL;
	begin += strlen(PROBLEM_BEGIN);
	end = strrchr(begin, PROBLEM_END[0]);
	return end == NULL ? NULL : pnstrdup(begin, end - begin);
}

/*
 * Refuse to call our functions on this server, for what the shard says is the
 * problem.
 */
void
shard_report_problem(const char *server, const char *problem)
{
	ereport(ERROR,
			(errcode(ERRCODE_FDW_ERROR),
			 errmsg("server \"%s\": %s", server, problem),
			 errdetail("Functions of schema %s are called on a shard only where they are those of the extension, and only superusers could have put others there.", SCHEMA),
			 errhint("Have a superuser create the extension %s in the shard's database, in a schema of its own, or set pgbillion_rows.push_down_aggregates to off.", EXTENSION)));
}

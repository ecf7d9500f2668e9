/*-------------------------------------------------------------------------
 *
 * tenant_guard.c
 *	  A guard against another tenant's rows in pooled sessions.
 *
 * A pool that gives a session to one transaction at a time loses what a
 * client has SET: its next transaction runs with the search_path that some
 * other client left behind. The server cannot tell clients apart, but it can
 * tell whether a transaction has set search_path itself. Where
 * pgbillion_tables.tenant_schemas names schemas, their relations may only be
 * used in a transaction whose search_path names their schema, and only if
 * either this transaction has set it, or it is the session's default, as of
 * the role or the database.
 *
 * Whether a transaction has set a variable is seen from the values that it is
 * going to restore if it fails: PostgreSQL keeps them on a stack, which is
 * empty between transactions. What a function's SET clause, or a command such
 * as REFRESH, sets for a time is on it as well, but is of no account here: it
 * is the caller who names the tenant.
 *
 * Relations are checked with their privileges, that is whenever a plan starts
 * and for COPY, so that no plan that was made before escapes. Leaders have
 * checked for parallel workers, to which the stack is not copied. Commands
 * that look up names by themselves are refused where a search_path is left
 * behind that names a tenant.
 *
 * Only the postmaster loads the library early enough: a role that chooses the
 * options of its connection could otherwise set a value in advance that is in
 * the way of the administrator's.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/parallel.h"
#include "catalog/namespace.h"
#include "catalog/pg_collation.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "tcop/utility.h"
#include "utils/builtins.h"
#include "utils/guc_tables.h"
#include "utils/lsyscache.h"
#include "utils/varlena.h"

#include "session/session.h"

/* 16 keeps privileges apart from the range table, and has a function that finds a setting. */
#if PG_VERSION_NUM >= 160000
#define check_relations_params(rtable, report) List *rtable, List *perminfos, bool report
#define check_relations_args(rtable, report) rtable, perminfos, report
#define find_setting(name) find_option(name, false, false, ERROR)
#else
#define check_relations_params(rtable, report) List *rtable, bool report
#define check_relations_args(rtable, report) rtable, report

static struct config_generic *
find_setting(const char *name)
{
	struct config_generic **settings = get_guc_variables();

	for (int i = 0; i < GetNumConfigOptions(); i++)
		if (strcmp(settings[i]->name, name) == 0)
			return settings[i];
	elog(ERROR, "unrecognized configuration parameter \"%s\"", name);
}
#endif

static char *tenant_schemas = NULL; /* pattern for LIKE, or empty: no guard */
static bool is_preloaded = false;

static ExecutorCheckPerms_hook_type previous_check_hook;
static ProcessUtility_hook_type previous_utility_hook;

static bool check_pattern(char **newval, void **extra, GucSource source);
static bool check_relations(check_relations_params(rtable, ereport_on_violation));
static void process_utility(PlannedStmt *pstmt, const char *queryString, bool readOnlyTree,
							ProcessUtilityContext context, ParamListInfo params, QueryEnvironment *queryEnv,
							DestReceiver *dest, QueryCompletion *qc);
static void check_command(Node *command);
static void refuse_relation(Oid relid);
static bool is_on(void);
static bool is_tenant(const char *schema);
static bool own_path(const char **path);
static List *schemas_of(const char *path);

void
tenant_guard_init(void)
{
	const char *before = GetConfigOption("pgbillion_tables.tenant_schemas", true, false);

	is_preloaded = process_shared_preload_libraries_in_progress;
	if (!is_preloaded && before != NULL && before[0] != '\0')
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("\"%s\" needs pgbillion_tables in \"shared_preload_libraries\"",
						"pgbillion_tables.tenant_schemas")));
	DefineCustomStringVariable("pgbillion_tables.tenant_schemas",
							   "Sets the schemas that only transactions that have set search_path to them may use.",
							   "A pattern for LIKE. Empty is without such schemas.",
							   &tenant_schemas, "", PGC_SUSET, 0,
							   check_pattern, NULL, NULL);
	previous_check_hook = ExecutorCheckPerms_hook;
	ExecutorCheckPerms_hook = check_relations;
	previous_utility_hook = ProcessUtility_hook;
	ProcessUtility_hook = process_utility;
}

/* A pattern that LIKE would refuse is none, and neither is one that would guard less than it seems to. */
static bool
check_pattern(char **newval, void **extra, GucSource source)
{
	int			backslashes = 0;

	if ((*newval)[0] == '\0')
		return true;
	if (!is_preloaded)
	{
		GUC_check_errdetail("pgbillion_tables must be in \"shared_preload_libraries\".");
		return false;
	}
	for (const char *c = *newval + strlen(*newval); c > *newval && c[-1] == '\\'; c--)
		backslashes++;
	if (backslashes % 2 == 1)
	{
		GUC_check_errdetail("A pattern for LIKE must not end with an escape character.");
		return false;
	}
	return true;
}

/* Relations of all kinds, also those that a view or a parent stands for. */
static bool
check_relations(check_relations_params(rtable, ereport_on_violation))
{
	const char *path = NULL;
	bool		is_own = false;
	ListCell   *lc;

	if (previous_check_hook && !previous_check_hook(check_relations_args(rtable, ereport_on_violation)))
		return false;
	if (!is_on() || IsParallelWorker())
		return true;

	foreach(lc, rtable)
	{
		RangeTblEntry *rte = lfirst_node(RangeTblEntry, lc);
		const char *schema;

		if (!OidIsValid(rte->relid) ||
			(schema = get_namespace_name(get_rel_namespace(rte->relid))) == NULL || !is_tenant(schema))
			continue;
		if (path == NULL)
			is_own = own_path(&path);
		if (!is_own || !list_member(schemas_of(path), makeString(pstrdup(schema))))
		{
			if (ereport_on_violation)
				refuse_relation(rte->relid);
			return false;
		}
	}
	return true;
}

/* Clients read the message: it does not name the schema, which may be another tenant's. */
static void
refuse_relation(Oid relid)
{
	const char *path;
	bool		is_own = own_path(&path);

	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("relation \"%s\" is in a tenant's schema that this transaction has not set search_path to",
					get_rel_name(relid)),
			 is_own ? 0 : errdetail("search_path was set by an earlier transaction, perhaps of another client."),
			 errdetail_log("The schema is \"%s\", and search_path is \"%s\".",
						   get_namespace_name(get_rel_namespace(relid)), path),
			 errhint("Begin the transaction with SET LOCAL search_path.")));
}

static void
process_utility(PlannedStmt *pstmt, const char *queryString, bool readOnlyTree,
				ProcessUtilityContext context, ParamListInfo params, QueryEnvironment *queryEnv,
				DestReceiver *dest, QueryCompletion *qc)
{
	if (is_on())
		check_command(pstmt->utilityStmt);
	if (previous_utility_hook)
		previous_utility_hook(pstmt, queryString, readOnlyTree, context, params, queryEnv, dest, qc);
	else
		standard_ProcessUtility(pstmt, queryString, readOnlyTree, context, params, queryEnv, dest, qc);
}

/* Raise an error for a command that changes something by names under a search_path that others left behind. */
static void
check_command(Node *command)
{
	const char *path;
	ListCell   *lc;

	/* plans that these run are checked as plans */
	if (IsA(command, CopyStmt) || IsA(command, ExecuteStmt) || IsA(command, ExplainStmt) ||
		IsA(command, PrepareStmt))
		return;
	if (!IsA(command, LockStmt) && GetCommandLogLevel(command) == LOGSTMT_ALL)
		return;
	if (own_path(&path))
		return;
	foreach(lc, schemas_of(path))
	{
		if (is_tenant(strVal(lfirst(lc))))
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("search_path names a tenant's schema, but was set by an earlier transaction"),
					 errdetail_log("search_path is \"%s\".", path),
					 errhint("Begin the transaction with SET LOCAL search_path.")));
	}
}

static bool
is_on(void)
{
	return tenant_schemas != NULL && tenant_schemas[0] != '\0';
}

static bool
is_tenant(const char *schema)
{
	return DatumGetBool(DirectFunctionCall2Coll(textlike, C_COLLATION_OID,
												CStringGetTextDatum(schema),
												CStringGetTextDatum(tenant_schemas)));
}

/*
 * Get the search_path without what functions and commands have set for a
 * time, and return whether it is the transaction's own or the session's
 * default, not what an earlier transaction has set.
 */
static bool
own_path(const char **path)
{
	static struct config_generic *setting = NULL;
	GucSource	source;

	if (setting == NULL)
		setting = find_setting("search_path");
	*path = namespace_search_path;
	source = setting->source;
	for (GucStack *entry = setting->stack; entry != NULL; entry = entry->prev)
	{
		if (entry->state != GUC_SAVE)
			return true;
		*path = entry->prior.val.stringval;
		source = entry->source;
	}
	return source != PGC_S_SESSION;
}

/* The names in a search_path, as String nodes. */
static List *
schemas_of(const char *path)
{
	List	   *names;
	List	   *result = NIL;
	ListCell   *lc;

	/* the check hook of search_path has seen that it can be split */
	if (!SplitIdentifierString(pstrdup(path), ',', &names))
		elog(ERROR, "invalid list syntax in search_path");
	foreach(lc, names)
	{
		char	   *name = lfirst(lc);

		if (strcmp(name, "$user") == 0)
			name = GetUserNameFromId(GetOuterUserId(), true);
		if (name != NULL)
			result = lappend(result, makeString(name));
	}
	return result;
}

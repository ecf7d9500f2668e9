/*-------------------------------------------------------------------------
 *
 * explain_as.c
 *	  pgbillion_rows.explain_as(): the plan of a query of another role.
 *
 * To plan a query runs code of the query's: immutable functions are evaluated,
 * and others may estimate. The text of a query that somebody else has run must
 * therefore be planned with the privileges of that role, from which its code
 * cannot return to those of the caller. SET ROLE does not suffice, because RESET
 * ROLE takes it back. This is what PostgreSQL does itself for the expressions of
 * an index.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "commands/explain.h"
#if PG_VERSION_NUM >= 180000
#include "commands/explain_format.h"
#include "commands/explain_state.h"
#endif
#include "executor/executor.h"
#include "fmgr.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "nodes/params.h"
#include "tcop/dest.h"
#include "tcop/tcopprot.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "compat.h"
#include "planner/planner.h"

/* Give a setting a value until the nest level ends. */
static void
set_until_the_end(const char *name, const char *value)
{
	(void) set_config_option(name, value, PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
}

/* Return parameters that are all NULL: the start of the execution may ask for them. */
static ParamListInfo
null_parameters(const Oid *types, int count)
{
	ParamListInfo params;

	if (count == 0)
		return NULL;
	params = makeParamList(count);
	for (int i = 0; i < count; i++)
	{
		params->params[i].value = (Datum) 0;
		params->params[i].isnull = true;
		params->params[i].pflags = 0;
		params->params[i].ptype = types[i];
	}
	return params;
}

/* Plan a query, and collect why it is planned as it is. */
static PlannedStmt *
plan_with_reasons(Query *query, const char *text, StringInfo reasons)
{
	StringInfo	before = plan_report_collect(reasons);
	PlannedStmt *plan = NULL;

	PG_TRY();
	{
		plan = pg_plan_query(query, text, CURSOR_OPT_PARALLEL_OK, NULL, NULL);
	}
	PG_FINALLY();
	{
		(void) plan_report_collect(before);
	}
	PG_END_TRY();
	return plan;
}

/*
 * Return the plan of one SELECT as EXPLAIN (VERBOSE, FORMAT JSON) shows it, and
 * the reasons, as an object. There are no values of parameters.
 */
static char *
plan_as_json(const char *query)
{
	List	   *raw = pg_parse_query(query);
	Oid		   *types = NULL;
	int			ntypes = 0;
	List	   *rewritten;
	PlannedStmt *plan;
	QueryDesc  *desc;
	StringInfoData reasons;
	ExplainState *es = NewExplainState();

	if (list_length(raw) != 1 || !IsA(linitial_node(RawStmt, raw)->stmt, SelectStmt))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("one SELECT statement is expected")));
	rewritten = pg_analyze_and_rewrite_varparams(linitial_node(RawStmt, raw), query, &types, &ntypes, NULL);
	if (list_length(rewritten) != 1 || linitial_node(Query, rewritten)->commandType == CMD_UTILITY)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("this is not a query that can be planned")));
	/* partitions are not to be left out because a parameter is NULL here */
	if (ntypes > 0)
		set_until_the_end("enable_partition_pruning", "off");
	initStringInfo(&reasons);
	plan = plan_with_reasons(linitial_node(Query, rewritten), query, &reasons);

	desc = CreateQueryDesc(plan, query, GetActiveSnapshot(), InvalidSnapshot, None_Receiver,
						   null_parameters(types, ntypes), NULL, 0);
	/* raises an error for what the role may not access */
	ExecutorStart(desc, EXEC_FLAG_EXPLAIN_ONLY);
	es->verbose = true;
	es->costs = true;
	es->format = EXPLAIN_FORMAT_JSON;
	ExplainBeginOutput(es);
	ExplainPrintPlan(es, desc);
	ExplainPropertyText("Reasons", reasons.data, es);
	ExplainEndOutput(es);
	ExecutorEnd(desc);
	FreeQueryDesc(desc);

	/* as in auto_explain, an object in place of the array */
	while (es->str->len > 0 && es->str->data[es->str->len - 1] == '\n')
		es->str->data[--es->str->len] = '\0';
	Assert(es->str->len > 1);
	es->str->data[0] = '{';
	es->str->data[es->str->len - 1] = '}';
	return es->str->data;
}

PG_FUNCTION_INFO_V1(pgbillion_explain_as);

/*
 * pgbillion_rows.explain_as(query text, role regrole, search_path text) returns json
 *		Plan a query, without running it, with the privileges and the names of a
 *		role that the caller may SET. What is evaluated on the way can
 *		neither return to the caller's privileges nor leave settings behind. On
 *		an error the end of the subtransaction puts both back.
 */
Datum
pgbillion_explain_as(PG_FUNCTION_ARGS)
{
	char	   *query = text_to_cstring(PG_GETARG_TEXT_PP(0));
	Oid			role = PG_GETARG_OID(1);
	char	   *path = text_to_cstring(PG_GETARG_TEXT_PP(2));
	Oid			caller;
	int			context;
	int			level;
	char	   *plan;

	if (!SearchSysCacheExists1(AUTHOID, ObjectIdGetDatum(role)))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("role with OID %u does not exist", role)));
	/* to inherit its privileges is less: as the role, code sets its password */
#if PG_VERSION_NUM >= 160000
	check_can_set_role(GetUserId(), role);
#else
	check_is_member_of_role(GetUserId(), role);
#endif

	GetUserIdAndSecContext(&caller, &context);
	SetUserIdAndSecContext(role, context | SECURITY_RESTRICTED_OPERATION);
	level = NewGUCNestLevel();
	set_until_the_end("search_path", path);
	plan = plan_as_json(query);
	AtEOXact_GUC(false, level);
	SetUserIdAndSecContext(caller, context);

	PG_RETURN_TEXT_P(cstring_to_text(plan));
}

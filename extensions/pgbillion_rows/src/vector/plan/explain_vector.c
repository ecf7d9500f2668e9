/*-------------------------------------------------------------------------
 *
 * explain_vector.c
 *	  pgbillion_rows.explain_vector(): why a query is vectorized, or not.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "executor/executor.h"
#include "fmgr.h"
#include "lib/stringinfo.h"
#include "nodes/plannodes.h"
#include "tcop/dest.h"
#include "tcop/pquery.h"
#include "tcop/tcopprot.h"
#include "utils/builtins.h"
#include "utils/snapmgr.h"

#include "compat.h"
#include "planner/planner.h"
#include "vector/node/custom_scan.h"
#include "vector/plan/plan.h"
#include "vector/vector.h"

/*
 * Has a call of a function loaded the library, rather than a setting or LOAD?
 * Then other sessions that run the same query have not loaded it.
 */
static bool loaded_by_call = false;

/* Is the statement LOAD? Within a function or DO it is not seen. */
static bool
statement_is_load(void)
{
	Node	   *statement;

	if (ActivePortal == NULL || list_length(ActivePortal->stmts) != 1)
		return false;
	statement = linitial_node(PlannedStmt, ActivePortal->stmts)->utilityStmt;
	return statement != NULL && IsA(statement, LoadStmt);
}

/* Note what is loading the library. Settings do before there is a snapshot. */
void
explain_vector_init(void)
{
	loaded_by_call = ActiveSnapshotSet() && !statement_is_load();
}

/* Is there a scan of these methods in a plan? */
static bool
plan_has(Plan *plan, const CustomScanMethods *methods)
{
	ListCell   *lc;
	List	   *children = NIL;

	if (plan == NULL)
		return false;
	if (IsA(plan, CustomScan) && ((CustomScan *) plan)->methods == methods)
		return true;
	if (IsA(plan, Append))
		children = ((Append *) plan)->appendplans;
	else if (IsA(plan, MergeAppend))
		children = ((MergeAppend *) plan)->mergeplans;
	else if (IsA(plan, SubqueryScan))
		children = list_make1(((SubqueryScan *) plan)->subplan);
	else if (IsA(plan, CustomScan))
		children = ((CustomScan *) plan)->custom_plans;
	foreach(lc, children)
	{
		if (plan_has(lfirst(lc), methods))
			return true;
	}
	return plan_has(plan->lefttree, methods) || plan_has(plan->righttree, methods);
}

/* The same for a statement with its subplans. */
static bool
statement_has(PlannedStmt *stmt, const CustomScanMethods *methods)
{
	ListCell   *lc;

	foreach(lc, stmt->subplans)
	{
		if (plan_has(lfirst(lc), methods))
			return true;
	}
	return plan_has(stmt->planTree, methods);
}

static void
conclude_used(StringInfo found, const char *what)
{
	appendStringInfo(found, "\n%s", what);
	if (loaded_by_call)
		appendStringInfoString(found, " in this session only, where a call of a function has loaded the library:"
							   " name pgbillion_rows in session_preload_libraries");
}

/* Add what is switched off to what was found, and what came of it in the end. */
static void
conclude(StringInfo found, PlannedStmt *plan)
{
	double		ms = vector_take_query_ms();

	if (vector_aggregate == PLAN_OFF)
		appendStringInfo(found, "%snot vectorized: pgbillion_rows.vector_aggregate is off", found->len > 0 ? "\n" : "");
	else if (found->len == 0)
		appendStringInfoString(found, "not vectorized: there is nothing to aggregate");
	if (vector_scan == PLAN_OFF)
		appendStringInfoString(found, "\nno vectorized scan: pgbillion_rows.vector_scan is off");
	if (ms >= 0)
		appendStringInfo(found, "\nestimated to take %.3f ms with all tables in memory", ms);
	if (statement_has(plan, &vector_scan_methods))
		conclude_used(found, "vectorized");
	else if (statement_has(plan, &vector_join_methods))
		conclude_used(found, "vectorized join");
	else if (statement_has(plan, &vector_filter_scan_methods))
		conclude_used(found, "vectorized filter");
	else if (vector_aggregate != PLAN_OFF || vector_scan != PLAN_OFF)
		appendStringInfoString(found, "\nnot chosen");
}

/*
 * Check what EXPLAIN checks before it shows a plan, by the same means: the
 * start of its execution raises an error for tables and columns that the user
 * may not access, and for functions that may not be called.
 */
static void
check_privileges(PlannedStmt *plan, const char *query)
{
	QueryDesc  *desc = CreateQueryDesc(plan, query, GetActiveSnapshot(), InvalidSnapshot,
									   None_Receiver, NULL, NULL, 0);

	ExecutorStart(desc, EXEC_FLAG_EXPLAIN_ONLY);
	ExecutorEnd(desc);
	FreeQueryDesc(desc);
}

PG_FUNCTION_INFO_V1(pgbillion_explain_vector);

/*
 * pgbillion_rows.explain_vector(query text) returns text
 *		Plan a query, without running it, and tell for each of its aggregations
 *		and each of its tables with a filter whether vectors are possible, what
 *		was estimated, and why not; and in the last line what the plan has.
 *		Raises the errors that EXPLAIN would, those of privileges among them.
 */
Datum
pgbillion_explain_vector(PG_FUNCTION_ARGS)
{
	char	   *query = text_to_cstring(PG_GETARG_TEXT_PP(0));
	List	   *raw = pg_parse_query(query);
	List	   *rewritten;
	StringInfoData found;
	StringInfo	before;
	PlannedStmt *plan = NULL;

	if (list_length(raw) != 1)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("one query is expected, not %d", list_length(raw))));
	rewritten = pg_analyze_and_rewrite_fixedparams(linitial_node(RawStmt, raw), query, NULL, 0, NULL);
	if (list_length(rewritten) != 1 || linitial_node(Query, rewritten)->commandType == CMD_UTILITY)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("this is not a query that can be planned")));

	initStringInfo(&found);
	before = plan_report_collect(&found);
	/* another extension may plan the query without any path that we see */
	(void) vector_take_query_ms();
	PG_TRY();
	{
		plan = pg_plan_query(linitial_node(Query, rewritten), query, CURSOR_OPT_PARALLEL_OK, NULL, NULL);
	}
	PG_FINALLY();
	{
		(void) plan_report_collect(before);
	}
	PG_END_TRY();
	check_privileges(plan, query);

	if (!planner_enabled)
		PG_RETURN_TEXT_P(cstring_to_text("not vectorized: pgbillion_rows.enable is off"));
	conclude(&found, plan);

	PG_RETURN_TEXT_P(cstring_to_text(found.data));
}

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

#include "planner/planner.h"
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

/* Is there a scan of ours in a plan? */
static bool
plan_is_vectorized(Plan *plan)
{
	ListCell   *lc;
	List	   *children = NIL;

	if (plan == NULL)
		return false;
	if (IsA(plan, CustomScan) && ((CustomScan *) plan)->methods == &vector_scan_methods)
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
		if (plan_is_vectorized(lfirst(lc)))
			return true;
	}
	return plan_is_vectorized(plan->lefttree) || plan_is_vectorized(plan->righttree);
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
 *		whether it is vectorized, and why not. Raises the errors that EXPLAIN
 *		would, those of privileges among them.
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
	bool		chosen;
	ListCell   *lc;

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
	PG_TRY();
	{
		plan = pg_plan_query(linitial_node(Query, rewritten), query, CURSOR_OPT_PARALLEL_OK, NULL);
	}
	PG_FINALLY();
	{
		(void) plan_report_collect(before);
	}
	PG_END_TRY();
	check_privileges(plan, query);

	chosen = plan_is_vectorized(plan->planTree);
	foreach(lc, plan->subplans)
		chosen |= plan_is_vectorized(lfirst(lc));
	if (vector_aggregate == PLAN_OFF)
		PG_RETURN_TEXT_P(cstring_to_text("not vectorized: pgbillion_rows.vector_aggregate is off"));
	if (found.len == 0)
		PG_RETURN_TEXT_P(cstring_to_text("not vectorized: there is nothing to aggregate"));
	appendStringInfo(&found, "\n%s", chosen ? "vectorized" : "not chosen");
	if (chosen && loaded_by_call)
		appendStringInfoString(&found, " in this session only, where a call of a function has loaded the library:"
							   " name pgbillion_rows in session_preload_libraries");

	PG_RETURN_TEXT_P(cstring_to_text(found.data));
}

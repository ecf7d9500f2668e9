/*-------------------------------------------------------------------------
 *
 * explain.c
 *	  Why a query is vectorised, or not: at DEBUG1, and by
 *	  billion.explain_vector().
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "executor/executor.h"
#include "fmgr.h"
#include "lib/stringinfo.h"
#include "nodes/plannodes.h"
#include "tcop/tcopprot.h"
#include "utils/builtins.h"
#include "utils/snapmgr.h"

#include "compat.h"
#include "vector/vector.h"

/* billion.explain_vector() collects here what is found out while it plans. */
static StringInfo findings = NULL;

/* Tell whoever asks. */
void
VectorReport(const char *format,...)
{
	StringInfoData buf;
	int			needed;

	initStringInfo(&buf);
	for (;;)
	{
		va_list		args;

		va_start(args, format);
		needed = appendStringInfoVA(&buf, format, args);
		va_end(args);
		if (needed == 0)
			break;
		enlargeStringInfo(&buf, needed);
	}
	ereport(DEBUG1, (errmsg_internal("pgbillion: %s", buf.data)));
	if (findings != NULL)
	{
		if (findings->len > 0)
			appendStringInfoChar(findings, '\n');
		appendStringInfoString(findings, buf.data);
	}
	pfree(buf.data);
}

/* Is there a scan of ours in a plan? */
static bool
plan_is_vectorised(Plan *plan)
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
		if (plan_is_vectorised(lfirst(lc)))
			return true;
	}
	return plan_is_vectorised(plan->lefttree) || plan_is_vectorised(plan->righttree);
}

PG_FUNCTION_INFO_V1(pgbillion_explain_vector);

/*
 * billion.explain_vector(query text) returns text
 *		Plan a query, without running it, and tell for each of its aggregations
 *		whether it is vectorised, and why not. The caller needs the privileges
 *		to run it.
 */
Datum
pgbillion_explain_vector(PG_FUNCTION_ARGS)
{
	char	   *query = text_to_cstring(PG_GETARG_TEXT_PP(0));
	List	   *raw = pg_parse_query(query);
	List	   *rewritten;
	StringInfoData found;
	StringInfo	before = findings;
	bool		chosen = false;

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
	findings = &found;
	PG_TRY();
	{
		PlannedStmt *plan = pg_plan_query(linitial_node(Query, rewritten), query,
										  CURSOR_OPT_PARALLEL_OK, NULL);
		ListCell   *lc;

		/* as EXPLAIN: what is told has been estimated from the tables' statistics */
		check_plan_permissions(plan);
		chosen = plan_is_vectorised(plan->planTree);
		foreach(lc, plan->subplans)
			chosen |= plan_is_vectorised(lfirst(lc));
	}
	PG_FINALLY();
	{
		findings = before;
	}
	PG_END_TRY();

	if (vector_aggregate == VECTOR_OFF)
		PG_RETURN_TEXT_P(cstring_to_text("not vectorised: billion.vector_aggregate is off"));
	if (found.len == 0)
		PG_RETURN_TEXT_P(cstring_to_text("not vectorised: there is nothing to aggregate"));
	appendStringInfo(&found, "\n%s", chosen ? "vectorised" : "not chosen");

	PG_RETURN_TEXT_P(cstring_to_text(found.data));
}

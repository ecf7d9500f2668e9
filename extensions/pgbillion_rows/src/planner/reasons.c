/*-------------------------------------------------------------------------
 *
 * reasons.c
 *	  Why a query is planned as it is.
 *
 * The reasons go to the log at DEBUG1 if the user may read what the query
 * reads, and to a caller that collects them: pgbillion_rows.explain_vector().
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "executor/executor.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "nodes/pathnodes.h"

#include "compat.h"
#include "planner/planner.h"

/* What is found out is collected here, or NULL. */
static StringInfo findings = NULL;

/* Is there a table in a query, or in a query within it, that the user may not read? */
static bool
reads_forbidden(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, Query))
	{
		Query	   *query = (Query *) node;

		return !may_access_tables(query) || query_tree_walker(query, reads_forbidden, context, 0);
	}
	return expression_tree_walker(node, reads_forbidden, context);
}

/*
 * May the user know what the planner finds out? PostgreSQL checks privileges when a
 * plan is about to run, and estimates tell of the values in a table. All that
 * an estimate can be made from is in the query that is being planned, in those
 * around it, and in the subqueries that have been planned apart from it. A
 * function that runs as its owner does not show its caller what it reads.
 */
static bool
may_be_told(PlannerInfo *root)
{
	ListCell   *lc;

	if (InLocalUserIdChange())
		return false;
	foreach(lc, root->glob->subroots)
	{
		if (reads_forbidden((Node *) lfirst_node(PlannerInfo, lc)->parse, NULL))
			return false;
	}
	for (PlannerInfo *query = root; query != NULL; query = query->parent_root)
	{
		if (reads_forbidden((Node *) query->parse, NULL))
			return false;
	}
	return true;
}

/*
 * Collect the reasons in `buf`, one line each; NULL: no longer. Returns the
 * buffer before. The caller must check privileges before it shows any of them,
 * and restore the buffer on errors, too.
 */
StringInfo
plan_report_collect(StringInfo buf)
{
	StringInfo	before = findings;

	findings = buf;
	return before;
}

/* Does anybody ask? What is found out for the sake of telling it need not be otherwise. */
bool
plan_is_reported(void)
{
	return findings != NULL || message_level_is_interesting(DEBUG1);
}

/*
 * Why something cannot be done, formatted if anybody asks: else the format, as
 * most of what is refused is refused while nobody does.
 */
const char *
plan_reason(const char *format,...)
{
	va_list		args;
	char	   *reason;
	Size		size = 128;

	if (!plan_is_reported())
		return format;
	for (;;)
	{
		Size		needed;

		reason = palloc(size);
		va_start(args, format);
		needed = pvsnprintf(reason, size, format, args);
		va_end(args);
		if (needed < size)
			return reason;
		pfree(reason);
		size = needed;
	}
}

/* Report what was found out about a query that is being planned, to explain_vector() and the log. */
void
plan_report(PlannerInfo *root, const char *format,...)
{
	StringInfoData buf;
	int			needed;

	if (!plan_is_reported())
		return;
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
	if (message_level_is_interesting(DEBUG1) && may_be_told(root))
		ereport(DEBUG1, (errmsg_internal("pgbillion: %s", buf.data)));
	if (findings != NULL)
	{
		if (findings->len > 0)
			appendStringInfoChar(findings, '\n');
		appendStringInfoString(findings, buf.data);
	}
	pfree(buf.data);
}

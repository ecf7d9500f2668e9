/*-------------------------------------------------------------------------
 *
 * repeatable.c
 *	  Does a subquery of a statement give the same result for the same
 *	  parameters, whenever and however often it is executed? Are values that
 *	  are equal the same?
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/nbtree.h"
#include "catalog/pg_aggregate.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "nodes/nodeFuncs.h"
#include "nodes/pathnodes.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
#include "utils/typcache.h"

#include "planner/planner.h"

static bool unrepeatable(Node *node, void *context);

/* Does what a function returns depend on how its argument is stored? */
bool
planner_function_shows_storage(Oid function)
{
	switch (function)
	{
		case F_PG_COLUMN_SIZE:
		case F_PG_COLUMN_COMPRESSION:
#ifdef F_PG_COLUMN_TOAST_CHUNK_ID
		case F_PG_COLUMN_TOAST_CHUNK_ID:
#endif
			return true;
		default:
			return false;
	}
}

/* May a function give something else for the same arguments within one statement? */
static bool
unrepeatable_function(Oid function, void *context)
{
	return planner_function_shows_storage(function) || func_volatile(function) == PROVOLATILE_VOLATILE;
}

/* Is one of the functions of an aggregate volatile? The aggregate itself is always marked immutable. */
static bool
unrepeatable_aggregate(Oid aggregate)
{
	HeapTuple	tuple;
	Form_pg_aggregate form;
	bool		result = false;

	/* PostgreSQL's own are not */
	if (aggregate < FirstNormalObjectId)
		return false;
	tuple = SearchSysCache1(AGGFNOID, ObjectIdGetDatum(aggregate));
	if (!HeapTupleIsValid(tuple))
		return false;			/* a window function */
	form = (Form_pg_aggregate) GETSTRUCT(tuple);
	{
		const Oid	functions[] = {form->aggtransfn, form->aggfinalfn, form->aggmtransfn, form->aggminvtransfn,
		form->aggmfinalfn};

		for (int i = 0; i < (int) lengthof(functions); i++)
			result |= OidIsValid(functions[i]) && unrepeatable_function(functions[i], NULL);
	}
	ReleaseSysCache(tuple);
	return result;
}

/* The same for a query that has been planned, with what it computes once before it begins. */
static bool
varies(PlannerInfo *root)
{
	return unrepeatable((Node *) root->parse, root->glob) || unrepeatable((Node *) root->init_plans, root->glob);
}

/*
 * Is there something in an expression or query that need not give the same
 * result when it is executed again? Subqueries that have been planned are
 * looked up in the PlannerGlobal that is the context.
 */
static bool
unrepeatable(Node *node, void *context)
{
	PlannerGlobal *glob = context;

	if (node == NULL)
		return false;
	if (check_functions_in_node(node, unrepeatable_function, NULL) || IsA(node, NextValueExpr))
		return true;
	if (IsA(node, Aggref) && unrepeatable_aggregate(((Aggref *) node)->aggfnoid))
		return true;
	if (IsA(node, WindowFunc) && unrepeatable_aggregate(((WindowFunc *) node)->winfnoid))
		return true;
	if (IsA(node, RangeTblEntry))
		return ((RangeTblEntry *) node)->tablesample != NULL;
	if (IsA(node, Query))
	{
		Query	   *query = (Query *) node;

		return query->rowMarks != NIL || query->commandType != CMD_SELECT ||
			query_tree_walker(query, unrepeatable, context, QTW_EXAMINE_RTES_BEFORE);
	}
	if (IsA(node, SubPlan) &&
		varies(list_nth_node(PlannerInfo, glob->subroots, ((SubPlan *) node)->plan_id - 1)))
		return true;
	return expression_tree_walker(node, unrepeatable, context);
}

/* Might a subquery that has been planned give another result for the same parameters? */
bool
planner_subquery_varies(PlannerGlobal *glob, SubPlan *subplan)
{
	return varies(list_nth_node(PlannerInfo, glob->subroots, subplan->plan_id - 1));
}

static bool (*is_remembered) (PlannerInfo *root, SubPlan *subplan) = NULL;

/* Have it asked whether a subquery's results are remembered. Called once, when the library is loaded. */
void
planner_set_remembered(bool (*remembered) (PlannerInfo *root, SubPlan *subplan))
{
	Assert(is_remembered == NULL);
	is_remembered = remembered;
}

/* Are the results of a correlated subquery that has been planned remembered, so that no value is computed twice? */
bool
planner_is_remembered(PlannerInfo *root, SubPlan *subplan)
{
	return is_remembered != NULL && is_remembered(root, subplan);
}

/*
 * Are values of a type that are equal the same, bit by bit? Then one stands for
 * all that are equal to it, whatever function is applied to it. The operator
 * class tells, as it does for deduplication in B-tree indexes.
 */
bool
planner_equal_is_same(Oid type, int32 typmod, Oid collation)
{
	TypeCacheEntry *entry = lookup_type_cache(type, TYPECACHE_BTREE_OPFAMILY);
	Oid			function = InvalidOid;

	/* which one it is must be known */
	if (type_is_collatable(type) && !OidIsValid(collation))
		return false;
	/* without a length, blanks at the end are kept, and not compared */
	if (getBaseType(type) == BPCHAROID && typmod < 0)
		return false;
	if (OidIsValid(entry->btree_opf))
		function = get_opfamily_proc(entry->btree_opf, entry->btree_opintype, entry->btree_opintype, BTEQUALIMAGE_PROC);

	return OidIsValid(function) &&
		DatumGetBool(OidFunctionCall1Coll(function, collation, ObjectIdGetDatum(entry->btree_opintype)));
}

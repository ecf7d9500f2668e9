/*-------------------------------------------------------------------------
 *
 * finalize_path.c
 *	  When groups can be finished where they are (node/finalize.c), the path
 *	  of that, and its plan.
 *
 * The results are PostgreSQL's, because combining a state with what a group
 * begins with gives that state. finalizable() admits only aggregates of which
 * that is known.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_aggregate.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "nodes/plannodes.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/tlist.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
#include "utils/typcache.h"

#include "planner/aggregates.h"
#include "vector/aggregate/ordered_set.h"
#include "vector/node/custom_scan.h"
#include "vector/node/top_groups.h"
#include "vector/plan/cost_model.h"
#include "vector/plan/plan.h"

static Plan *plan_finalize(PlannerInfo *root, RelOptInfo *rel, CustomPath *best_path, List *tlist,
						   List *clauses, List *custom_plans);

const		CustomPathMethods vector_finalize_path_methods = {
	.CustomName = "VectorFinalize",
	.PlanCustomPath = plan_finalize,
};

/* The ordered-set aggregate of that number, or NULL. */
static Aggref *
ordered_set_numbered(AggInfo *info)
{
#if PG_VERSION_NUM >= 160000
	Aggref	   *aggref = linitial_node(Aggref, info->aggrefs);
#else
	Aggref	   *aggref = info->representative_aggref;
#endif

	return AGGKIND_IS_ORDERED_SET(aggref->aggkind) ? aggref : NULL;
}

/*
 * The number of the transition that carries an ordered-set aggregate. PostgreSQL has one transition for several of
 * the same values: the first keeps its number, and the others have further ones.
 */
static int
carrier_transno(PlannerInfo *root, Aggref *aggref)
{
	int			next = list_length(root->aggtransinfos);
	Bitmapset  *met = NULL;
	ListCell   *lc;

	foreach(lc, root->agginfos)
	{
		AggInfo    *info = lfirst(lc);
		int			transno = info->transno;

		if (ordered_set_numbered(info) == NULL)
			continue;
		if (bms_is_member(transno, met))
			transno = next++;
		else
			met = bms_add_member(met, transno);
		if (foreach_current_index(lc) == aggref->aggno)
			return transno;
	}
	elog(ERROR, "unknown aggregate %d", aggref->aggno);
}

/*
 * Aggregates that states can be combined of: without their DISTINCT, and the
 * carriers of ordered-set aggregates. They are told apart from others all the
 * same, by the numbers that they have. The context is the PlannerInfo.
 */
Node *
vector_combinable_aggregates(Node *node, void *context)
{
	if (node == NULL)
		return NULL;
	if (IsA(node, Aggref) && ordered_set_is_known((Aggref *) node))
		return (Node *) ordered_set_carrier((Aggref *) node, carrier_transno(context, (Aggref *) node));
	if (IsA(node, Aggref))
	{
		Aggref	   *aggref = makeNode(Aggref);

		memcpy(aggref, node, sizeof(Aggref));
		aggref->aggdistinct = NIL;
#if PG_VERSION_NUM >= 160000
		aggref->aggpresorted = false;
#endif
		return (Node *) aggref;
	}
	return expression_tree_mutator(node, vector_combinable_aggregates, context);
}

/*
 * Has this aggregate a partial form, and is combining a state of it with what
 * a group begins with that state again? Where a group begins with nothing, PostgreSQL's combine functions
 * take the first state as it is, or are strict; where it begins with a value,
 * that is so for PostgreSQL's own aggregates: zeros are added to the state.
 */
static bool
finalizable(Aggref *aggref)
{
	HeapTuple	tuple;
	Oid			combine;
	bool		nothing;
	bool		result;

	/* its carrier is */
	if (ordered_set_is_known(aggref))
		return true;
	tuple = SearchSysCache1(AGGFNOID, ObjectIdGetDatum(aggref->aggfnoid));
	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for aggregate %u", aggref->aggfnoid);
	(void) SysCacheGetAttr(AGGFNOID, tuple, Anum_pg_aggregate_agginitval, &nothing);
	combine = ((Form_pg_aggregate) GETSTRUCT(tuple))->aggcombinefn;
	if (OidIsValid(combine))
		combine = aggregate_core_function(combine);
	result = OidIsValid(combine) && combine < FirstNormalObjectId &&
		(nothing || aggref->aggfnoid < FirstNormalObjectId) &&
		(aggref->aggtranstype != INTERNALOID ||
		 (OidIsValid(((Form_pg_aggregate) GETSTRUCT(tuple))->aggserialfn) &&
		  OidIsValid(((Form_pg_aggregate) GETSTRUCT(tuple))->aggdeserialfn)));
	ReleaseSysCache(tuple);

	return result;
}

/*
 * Would two volatile expressions of an output become one? setrefs.c looks for
 * each in custom_scan_tlist, where it finds the first that is equal.
 */
static bool
repeats_volatile(PathTarget *output)
{
	List	   *seen = NIL;
	ListCell   *lc;

	foreach(lc, output->exprs)
	{
		Node	   *expr = lfirst(lc);

		if (!contain_volatile_functions(expr))
			continue;
		if (list_member(seen, expr))
			return true;
		seen = lappend(seen, expr);
	}
	return false;
}

/*
 * Is an expression equal in all rows of a group, although it is none of the keys that PostgreSQL groups by? It is where
 * GROUP BY names it, and PostgreSQL has left it out: it is constant, equal to another key, or depends on a primary key.
 */
static bool
is_left_out_key(PlannerInfo *root, Expr *expr)
{
	ListCell   *lc;

	foreach(lc, root->parse->groupClause)
	{
		SortGroupClause *clause = lfirst_node(SortGroupClause, lc);

		/*
		 * the scan tells apart what is no key of PostgreSQL's by the operator
		 * of its type
		 */
		if (equal(get_sortgroupclause_expr(clause, root->processed_tlist), expr))
			return clause->eqop == lookup_type_cache(exprType((Node *) expr), TYPECACHE_EQ_OPR)->eq_opr;
	}
	return false;
}

/*
 * Can groups of which a scan has these keys and partial states be finished
 * here, and give this output? Not if the scan may tell more groups apart
 * than GROUP BY does, because columns are wanted above that are no keys.
 */
bool
vector_finalizable(PlannerInfo *root, PathTarget *target, PathTarget *output, List *clause)
{
	ListCell   *lc;

	foreach(lc, target->exprs)
	{
		if (IsA(lfirst(lc), Aggref) ? !finalizable(lfirst_node(Aggref, lc)) :
			get_sortgroupref_clause_noerr(get_pathtarget_sortgroupref(target, foreach_current_index(lc)), clause) == NULL &&
			!is_left_out_key(root, lfirst(lc)))
			return false;
	}
	return !repeats_volatile(output);
}

/*
 * The path above Finalize Aggregate over one of our scans, hashed or of one
 * group. It costs what the scan, spilling, new groups and the final functions
 * do.
 */
Path *
vector_finalize_path(PlannerInfo *root, AggPath *agg, const AggClauseCosts *costs, Cost spilling)
{
	CustomPath *path = makeNode(CustomPath);
	QualCost	having;

	path->path.pathtype = T_CustomScan;
	path->path.parent = agg->path.parent;
	path->path.pathtarget = agg->path.pathtarget;
	path->path.parallel_safe = agg->path.parallel_safe;
	path->path.parallel_workers = agg->path.parallel_workers;
	path->path.rows = agg->path.rows;
	cost_qual_eval(&having, agg->qual, root);
	path->path.startup_cost = agg->subpath->startup_cost + spilling + costs->finalCost.startup + having.startup +
		agg->path.pathtarget->cost.startup;
	path->path.total_cost = path->path.startup_cost + agg->numGroups * (FINALIZE_GROUP_COST +
																		costs->finalCost.per_tuple +
																		having.per_tuple) +
		agg->path.rows * agg->path.pathtarget->cost.per_tuple;
#if PG_VERSION_NUM >= 180000
	path->path.disabled_nodes = agg->path.disabled_nodes;
#endif
	path->custom_paths = list_make1(agg);
	path->methods = &vector_finalize_path_methods;

	return &path->path;
}

/* The path above one that PostgreSQL executes, and that costs the same. */
static Path *
path_above(Path *core)
{
	CustomPath *path = makeNode(CustomPath);

	path->path = *core;
	path->path.type = T_CustomPath;
	path->path.pathtype = T_CustomScan;
	path->custom_paths = list_make1(core);
	path->methods = &vector_finalize_path_methods;

	return &path->path;
}

/* The path above Finalize Aggregate over a Gather: it only takes the DISTINCT off. */
Path *
vector_finalize_gathered_path(AggPath *agg)
{
	return path_above(&agg->path);
}

/*
 * The path above grouping sets of partial states: PostgreSQL's planner knows
 * only those of rows, and we have the plan combine states.
 */
Path *
vector_finalize_sets_path(GroupingSetsPath *sets)
{
	return path_above(&sets->path);
}

/* ---- the first groups of an order ---- */

/* Maximum numbers of groups that are wanted, and of keys that they are chosen by, and maximum share of work_mem for these. */
#define MAX_TOP_GROUPS 100000
#define MAX_TOP_KEYS 4
#define TOP_MEMORY_FACTOR 0.25

/* What LIMIT or OFFSET says, if it is a constant; -1 if that is not known. */
static int64
constant_limit(Node *limit, int64 none)
{
	if (limit == NULL)
		return none;
	if (!IsA(limit, Const) || ((Const *) limit)->constisnull)
		return -1;
	return DatumGetInt64(((Const *) limit)->constvalue);
}

/* How many of the query's groups are wanted in its order, or 0 if that is not known, or all may be. */
static int64
wanted_groups(PlannerInfo *root)
{
	const Query *parse = root->parse;
	int64		count = constant_limit(parse->limitCount, -1);
	int64		offset = constant_limit(parse->limitOffset, 0);

	if (parse->commandType != CMD_SELECT || parse->sortClause == NIL || parse->groupClause == NIL ||
		parse->groupingSets != NIL || parse->distinctClause != NIL || parse->hasWindowFuncs ||
		parse->hasTargetSRFs || parse->setOperations != NULL || parse->rowMarks != NIL)
		return 0;
	if (count < 0 || offset < 0 || count > MAX_TOP_GROUPS || offset > MAX_TOP_GROUPS || count + offset > MAX_TOP_GROUPS)
		return 0;
	return count + offset;
}

/* The place of a key, or of the state of an aggregate, among what the scan returns of a group; -1: it is none of it. */
static int
column_of_scan(List *columns, Expr *expr)
{
	ListCell   *lc;

	foreach(lc, columns)
	{
		Expr	   *column = lfirst_node(TargetEntry, lc)->expr;

		if (IsA(expr, Aggref) ? IsA(column, Aggref) && ((Aggref *) column)->aggtransno == ((Aggref *) expr)->aggtransno :
			equal(column, expr))
			return foreach_current_index(lc);
	}
	return -1;
}

/* The final function of an aggregate, or InvalidOid: the result is the state. */
static Oid
final_function(Aggref *aggref)
{
	HeapTuple	tuple = SearchSysCache1(AGGFNOID, ObjectIdGetDatum(aggref->aggfnoid));
	Oid			result;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for aggregate %u", aggref->aggfnoid);
	result = ((Form_pg_aggregate) GETSTRUCT(tuple))->aggfinalfn;
	ReleaseSysCache(tuple);

	return result;
}

/* Can an output be left out without an error being lost? It is there already, or the scan has it, or a state of it. */
static bool
can_leave_out(List *columns, Expr *expr)
{
	if (IsA(expr, Const) || IsA(expr, Param))
		return true;
	if (column_of_scan(columns, expr) < 0)
		return false;
	if (!IsA(expr, Aggref))
		return true;
	switch (final_function((Aggref *) expr))
	{
		case InvalidOid:
		case F_INT8_AVG:
		case F_NUMERIC_POLY_AVG:
		case F_NUMERIC_POLY_SUM:
		case F_FLOAT8_AVG:
			return true;
		default:
			return false;
	}
}

static bool
can_leave_out_all(List *columns, List *outputs)
{
	ListCell   *lc;

	foreach(lc, outputs)
	{
		if (!can_leave_out(columns, lfirst_node(TargetEntry, lc)->expr))
			return false;
	}
	return true;
}

/* A key of the query's order; false if the scan has no value of it that is passed by value. */
static bool
find_top_key(PlannerInfo *root, Agg *agg, SortGroupClause *clause, TopGroupsKey *key)
{
	Expr	   *expr = (Expr *) get_sortgroupclause_expr(clause, root->processed_tlist);
	TargetEntry *entry = tlist_member(expr, agg->plan.targetlist);

	if (entry == NULL || (IsA(expr, Aggref) && OidIsValid(final_function((Aggref *) expr))))
		return false;
	key->attno = entry->resno;
	key->output = column_of_scan(outerPlan(agg)->targetlist, expr);
	key->operator = clause->sortop;
	key->collation = exprCollation((Node *) expr);
	key->nulls_first = clause->nulls_first;
	return key->output >= 0 && get_typbyval(exprType((Node *) expr));
}

/*
 * The order of which only the first groups are wanted, as top_groups_list();
 * NIL if all are, or if finishing those that are left out could raise an error.
 */
static List *
find_top_groups(PlannerInfo *root, Agg *agg, List *outputs)
{
	List	   *columns = outerPlan(agg)->targetlist;
	TopGroupsKey keys[MAX_TOP_KEYS];
	TopGroupsOrder order = {.n = wanted_groups(root),.keys = keys};

	if (order.n == 0 || agg->aggstrategy != AGG_HASHED || agg->plan.qual != NIL ||
		!can_leave_out_all(columns, agg->plan.targetlist) || !can_leave_out_all(columns, outputs) ||
		!can_leave_out_all(columns, root->processed_tlist))
		return NIL;
	while (order.nkeys < Min(MAX_TOP_KEYS, list_length(root->parse->sortClause)) &&
		   find_top_key(root, agg, list_nth_node(SortGroupClause, root->parse->sortClause, order.nkeys), &keys[order.nkeys]))
		order.nkeys++;
	if (order.nkeys == 0 ||
		order.n * order.nkeys * (sizeof(Datum) + sizeof(bool)) > work_mem * 1024.0 * TOP_MEMORY_FACTOR)
		return NIL;
	return top_groups_list(&order);
}

/* Have an Agg node for grouping sets, and those of its further rollups, combine states. */
static void
combine_sets(Agg *agg)
{
	ListCell   *lc;

	agg->aggsplit = AGGSPLIT_FINAL_DESERIAL;
	foreach(lc, agg->chain)
		lfirst_node(Agg, lc)->aggsplit = AGGSPLIT_FINAL_DESERIAL;
}

static Plan *
plan_finalize(PlannerInfo *root, RelOptInfo *rel, CustomPath *best_path, List *tlist,
			  List *clauses, List *custom_plans)
{
	CustomScan *cscan = makeNode(CustomScan);
	Agg		   *agg = linitial_node(Agg, custom_plans);

	if (agg->groupingSets != NIL)
		combine_sets(agg);
	else if (IsA(outerPlan(agg), Gather))
		outerPlan(agg)->targetlist = (List *) vector_combinable_aggregates((Node *) outerPlan(agg)->targetlist, root);
	else
	{
		/* it is not executed: no memory for its hash table */
		agg->numGroups = 1;
		cscan->custom_private = find_top_groups(root, agg, tlist);
	}
	cscan->scan.plan.targetlist = tlist;
	cscan->custom_scan_tlist = copyObject(agg->plan.targetlist);

	/*
	 * what combines states has no DISTINCT, and carriers of ordered-set
	 * aggregates: the scan below sees to them, and says so in the same words
	 */
	agg->plan.targetlist = (List *) vector_combinable_aggregates((Node *) agg->plan.targetlist, root);
	agg->plan.qual = (List *) vector_combinable_aggregates((Node *) agg->plan.qual, root);
	cscan->custom_plans = custom_plans;
	cscan->methods = &vector_finalize_methods;

	return &cscan->scan.plan;
}

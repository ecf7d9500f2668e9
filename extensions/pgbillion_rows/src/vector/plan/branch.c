/*-------------------------------------------------------------------------
 *
 * branch.c
 *	  Branches of a UNION ALL that are subqueries, read by our scans.
 *
 * PostgreSQL pulls up a branch that reads a whole table. One with a condition or
 * with joins stays a subquery, which has a range table of its own, and is planned
 * before the query around it. If it only reads, filters and joins, one of our scans
 * takes its place: it aggregates its rows, or joins them further, without
 * handing them up one by one.
 *
 * Such a scan belongs to the subquery. What the query around wants of it is said
 * in the subquery's columns, and its path is that of a subquery for PostgreSQL,
 * which removes the node that does nothing but pass on columns.
 *
 * An inner side of the query around is there planned by a copy of its
 * PlannerInfo, once for each branch. In the range table of the branch, a subquery
 * stands for it, so that PostgreSQL gives its plan relations of its own in the
 * final range table.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "nodes/plannodes.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/planmain.h"
#include "optimizer/tlist.h"
#include "parser/parsetree.h"
#include "rewrite/rewriteManip.h"

#include "vector/plan/branch.h"
#include "vector/plan/plan.h"

/* ---- what speaks against it ---- */

/* Why a query does more than to read tables, to filter and to join, or NULL. */
static const char *
query_refusal(const PlannerInfo *subroot)
{
	const Query *parse = subroot->parse;

	if (parse->commandType != CMD_SELECT || parse->rowMarks != NIL || subroot->rowMarks != NIL)
		return "rows are changed or locked";
	if (parse->hasAggs || parse->groupClause != NIL || parse->groupingSets != NIL || parse->havingQual != NULL ||
		parse->hasWindowFuncs || parse->distinctClause != NIL || parse->setOperations != NULL)
		return "a subquery with groups, windows or DISTINCT";
	if (parse->sortClause != NIL || parse->limitCount != NULL || parse->limitOffset != NULL)
		return "a subquery with ORDER BY or LIMIT";
	if (parse->hasTargetSRFs)
		return "a set-returning function";
	if (subroot->hasRecursion)
		return "a recursive query";

	/*
	 * what is computed above must not be evaluated for rows that may not be
	 * seen
	 */
	if (subroot->qual_security_level > 0)
		return "row security";
	return NULL;
}

/* Why the columns of a subquery cannot be computed by us, or NULL. */
static const char *
outputs_refusal(const PlannerInfo *subroot)
{
	ListCell   *lc;

	foreach(lc, subroot->processed_tlist)
	{
		TargetEntry *entry = lfirst_node(TargetEntry, lc);
		const char *reason = vector_expression_refusal(entry->expr);

		if (reason != NULL)
			return reason;
		if (entry->resjunk || entry->resno != foreach_current_index(lc) + 1)
			return "a subquery with further columns";
	}
	return NULL;
}

/*
 * Are the columns of a branch that are needed those of its subquery as they are,
 * and of the UNION ALL's type and collation?
 */
static bool
has_same_columns(const RelOptInfo *table, const RelOptInfo *branch)
{
	List	   *outputs = branch->subroot->processed_tlist;
	ListCell   *own;
	ListCell   *whole;

	if (list_length(table->reltarget->exprs) != list_length(branch->reltarget->exprs))
		return false;
	forboth(own, branch->reltarget->exprs, whole, table->reltarget->exprs)
	{
		Var		   *var = lfirst(own);
		Node	   *expr;

		if (!IsA(var, Var) || var->varno != branch->relid || var->varlevelsup > 0 || var->varattno <= 0 ||
			var->varattno > list_length(outputs))
			return false;
		expr = (Node *) list_nth_node(TargetEntry, outputs, var->varattno - 1)->expr;
		if (exprType(expr) != exprType(lfirst(whole)) || exprType(expr) != var->vartype ||
			exprCollation(expr) != exprCollation(lfirst(whole)))
			return false;
	}
	return true;
}

/* Why a branch of the UNION ALL that a table stands for cannot be read by one of our scans, or NULL. */
const char *
branch_refusal(PlannerInfo *root, RelOptInfo *table, RelOptInfo *branch)
{
	const char *reason;

	if (branch->rtekind != RTE_SUBQUERY || branch->subroot == NULL)
		return "what is no table";
	if (branch->baserestrictinfo != NIL || planner_rt_fetch(branch->relid, root)->security_barrier)
		return "a condition that PostgreSQL evaluates above a subquery";
	if (!bms_is_empty(branch->lateral_relids))
		return "a lateral reference";
	reason = query_refusal(branch->subroot);
	if (reason == NULL)
		reason = outputs_refusal(branch->subroot);
	if (reason == NULL && !has_same_columns(table, branch))
		reason = "a column of another type or collation than that of the UNION ALL";
	return reason;
}

/* What the subquery of a branch reads: a table, or a join; or NULL. */
RelOptInfo *
branch_input(RelOptInfo *branch)
{
	PlannerInfo *subroot = branch->subroot;
	int			table;
	Relids		all;
	ListCell   *lc;

	if (bms_get_singleton_member(subroot->all_baserels, &table))
		return subroot->simple_rel_array[table];
#if PG_VERSION_NUM >= 160000
	all = subroot->all_query_rels;
#else
	all = subroot->all_baserels;
#endif
	foreach(lc, subroot->join_rel_list)
	{
		RelOptInfo *rel = lfirst(lc);

		if (bms_equal(rel->relids, all))
			return rel;
	}
	return NULL;
}

/*
 * Are the results of the subqueries that the query around evaluates once known in
 * the branch? Those are that had been found before the branch was planned.
 */
bool
branch_knows_params(PlannerInfo *root, RelOptInfo *branch)
{
	ListCell   *lc;

	foreach(lc, root->init_plans)
	{
		ListCell   *param;

		foreach(param, lfirst_node(SubPlan, lc)->setParam)
		{
			if (!bms_is_member(lfirst_int(param), branch->subroot->outer_params))
				return false;
		}
	}
	return true;
}

/* ---- planning by a copy ---- */

/* Have a copy plan paths of these columns as the query does, which it is a copy of. */
static void
set_copy(PlannerInfo *copy, PlannerInfo *root, PathTarget *target, Bitmapset *outer_params)
{
	*copy = *root;
	/* names of columns are taken from here */
	copy->processed_tlist = make_tlist_from_pathtarget(target);
	copy->outer_params = outer_params;
	copy->plan_params = NIL;
	copy->curOuterRels = NULL;
	copy->curOuterParams = NIL;
#if PG_VERSION_NUM >= 180000
	copy->partPruneInfos = NIL;
#endif
}

/* ---- inner sides of the query around ---- */

/* An array with one more element, which is nothing yet. Copies of the PlannerInfo keep the shorter one. */
static void *
longer_array(void *array, int size)
{
	void	  **result = palloc0(sizeof(void *) * (size + 1));

	memcpy(result, array, sizeof(void *) * size);
	return result;
}

/* The name of a column of a relation. */
static char *
column_name(PlannerInfo *root, Node *expr)
{
	Var		   *var = (Var *) expr;

	return pstrdup(IsA(var, Var) && var->varattno > 0 ? get_rte_attribute_name(planner_rt_fetch(var->varno, root), var->varattno) :
				   "column");
}

/* A subquery for the range table, with the columns of a path. Nobody looks into it. */
static RangeTblEntry *
make_subquery(PlannerInfo *root, Path *path)
{
	RangeTblEntry *rte = makeNode(RangeTblEntry);
	int			table = bms_next_member(path->parent->relids, -1);
	RangeTblEntry *first = planner_rt_fetch(table, root);
	List	   *names = NIL;
	ListCell   *lc;

	foreach(lc, path->pathtarget->exprs)
		names = lappend(names, makeString(column_name(root, lfirst(lc))));
	rte->rtekind = RTE_SUBQUERY;
	rte->subquery = makeNode(Query);
	rte->subquery->commandType = CMD_SELECT;
	rte->eref = makeAlias(bms_membership(path->parent->relids) == BMS_SINGLETON ? first->eref->aliasname : "joined", names);
	rte->inFromCl = true;

	return rte;
}

/*
 * Add to the range table of a branch what stands for an inner side of the query
 * around it. It stays there also if the scan is not chosen, which does no harm.
 */
OuterInner *
branch_add_inner(PlannerInfo *root, PlannerInfo *subroot, Path *inner)
{
	int			size = subroot->simple_rel_array_size;
	OuterInner *result = palloc(sizeof(OuterInner));
	RelOptInfo *rel = makeNode(RelOptInfo);
	RangeTblEntry *rte = make_subquery(root, inner);

	Assert(size == list_length(subroot->parse->rtable) + 1);
	result->around = root;
	result->root = makeNode(PlannerInfo);
	result->path = inner;
	result->relid = size;
	result->instead = 0;
	set_copy(result->root, root, inner->pathtarget, subroot->outer_params);

	rel->reloptkind = RELOPT_BASEREL;
	rel->rtekind = RTE_SUBQUERY;
	rel->relid = size;
	rel->relids = bms_make_singleton(size);
	rel->reltarget = create_empty_pathtarget();
	rel->rows = inner->rows;
	rel->subroot = result->root;

	subroot->parse->rtable = lappend(subroot->parse->rtable, rte);
	subroot->simple_rel_array = longer_array(subroot->simple_rel_array, size);
	subroot->simple_rte_array = longer_array(subroot->simple_rte_array, size);
	if (subroot->append_rel_array != NULL)
		subroot->append_rel_array = longer_array(subroot->append_rel_array, size);
	subroot->simple_rel_array[size] = rel;
	subroot->simple_rte_array[size] = rte;
	subroot->simple_rel_array_size = size + 1;

	return result;
}

/* The same inner side once more, for one of the tables that the branch's stands for: each has a plan of its own. */
OuterInner *
branch_add_inner_again(PlannerInfo *subroot, const OuterInner *inner)
{
	OuterInner *result = branch_add_inner(inner->around, subroot, inner->path);

	result->instead = inner->relid;
	return result;
}

/* ---- expressions ---- */

/* In whose columns something is to be said. */
typedef struct Place
{
	RelOptInfo *branch;
	List	   *inners;			/* OuterInner */
} Place;

/* The column of the branch that stands for one of an inner side. */
static Node *
inner_column(const Var *var, List *inners)
{
	ListCell   *lc;

	foreach(lc, inners)
	{
		OuterInner *inner = lfirst(lc);
		ListCell   *column;

		foreach(column, inner->path->pathtarget->exprs)
		{
			const Var  *own = lfirst(column);

			/* which joins may have made it NULL does not matter */
			if (IsA(own, Var) && own->varno == var->varno && own->varattno == var->varattno)
				return (Node *) makeVar(inner->relid, foreach_current_index(column) + 1, var->vartype, var->vartypmod,
										var->varcollid, 0);
		}
	}
	elog(ERROR, "column %d of relation %d is not returned by any path of a join", var->varattno, (int) var->varno);
	return NULL;
}

static Node *
place_columns(Node *node, Place *place)
{
	Var		   *var = (Var *) node;

	if (node == NULL)
		return NULL;
	if (!IsA(node, Var))
		return expression_tree_mutator(node, place_columns, place);
	if ((Index) var->varno != place->branch->relid)
		return inner_column(var, place->inners);
	return (Node *) copyObject(list_nth_node(TargetEntry, place->branch->subroot->processed_tlist, var->varattno - 1)->expr);
}

/* Expressions over a branch and inner sides of the query around, said in columns of the branch's subquery. */
List *
branch_exprs(RelOptInfo *branch, List *inners, List *exprs)
{
	Place		place = {branch, inners};

	return (List *) place_columns((Node *) exprs, &place);
}

/* Expressions over a branch and these inner sides, with what stands for them in one of the branch's tables. */
List *
branch_exprs_again(List *inners, List *exprs)
{
	ListCell   *lc;

	exprs = copyObject(exprs);
	foreach(lc, inners)
	{
		OuterInner *inner = lfirst(lc);

		if (inner->instead != 0)
			ChangeVarNodes((Node *) exprs, inner->instead, inner->relid, 0);
	}
	return exprs;
}

/* The same of a target. */
PathTarget *
branch_target(RelOptInfo *branch, List *inners, PathTarget *target)
{
	PathTarget *result = copy_pathtarget(target);

	result->exprs = branch_exprs(branch, inners, target->exprs);
	return result;
}

/* ---- paths and plans ---- */

/* The columns that a path of a branch returns, as those of a subquery. */
static PathTarget *
columns_of_subquery(RelOptInfo *branch, PathTarget *target)
{
	PathTarget *result = copy_pathtarget(target);
	ListCell   *lc;

	foreach(lc, result->exprs)
	{
		Node	   *expr = lfirst(lc);

		lfirst(lc) = makeVar(branch->relid, foreach_current_index(lc) + 1, exprType(expr), exprTypmod(expr),
							 exprCollation(expr), 0);
	}
	return result;
}

/*
 * The path of a branch for the query around, over one of our paths. That returns
 * other columns than the subquery, and so a copy of the subquery's PlannerInfo
 * makes a plan of it.
 */
Path *
branch_path(RelOptInfo *branch, Path *path)
{
	SubqueryScanPath *result = makeNode(SubqueryScanPath);
	RelOptInfo *rel = makeNode(RelOptInfo);
	PlannerInfo *copy = makeNode(PlannerInfo);

	set_copy(copy, branch->subroot, path->pathtarget, branch->subroot->outer_params);
	memcpy(rel, branch, sizeof(RelOptInfo));
	rel->subroot = copy;
	rel->pathlist = rel->partial_pathlist = NIL;
	rel->cheapest_total_path = rel->cheapest_startup_path = NULL;

	result->path.pathtype = T_SubqueryScan;
	result->path.parent = rel;
	result->path.pathtarget = columns_of_subquery(branch, path->pathtarget);
	result->path.parallel_safe = path->parallel_safe;
	result->path.parallel_workers = path->parallel_workers;
	result->path.rows = path->rows;
	result->path.startup_cost = path->startup_cost;
	result->path.total_cost = path->total_cost;
#if PG_VERSION_NUM >= 180000
	result->path.disabled_nodes = path->disabled_nodes;
#endif
	result->subpath = path;

	return &result->path;
}

/* Mark one of our paths as that of a branch, or of one of the tables that the branch's stands for. */
void
branch_mark_path(RelOptInfo *branch, Path *path)
{
	((JoinsPath *) path)->subroot = branch->subroot;
}

/* Copies of AppendRelInfos, in which PostgreSQL changes the relations of a plan that it has made. */
static List *
copy_append_rels(const List *infos)
{
	List	   *result = NIL;
	ListCell   *lc;

	foreach(lc, infos)
	{
		AppendRelInfo *info = makeNode(AppendRelInfo);

		*info = *lfirst_node(AppendRelInfo, lc);
		result = lappend(result, info);
	}
	return result;
}

/* Make the plan of an inner side of the query around. */
static Plan *
plan_inner(OuterInner *inner)
{
	SubqueryScan *scan = makeNode(SubqueryScan);
	Plan	   *plan;
	ListCell   *lc;

	set_copy(inner->root, inner->around, inner->path->pathtarget, inner->root->outer_params);
	inner->root->append_rel_list = copy_append_rels(inner->around->append_rel_list);
	plan = create_plan(inner->root, inner->path);
	/* the query around has them itself */
	plan->initPlan = NIL;
	foreach(lc, plan->targetlist)
	{
		TargetEntry *entry = lfirst_node(TargetEntry, lc);
		Node	   *expr = (Node *) entry->expr;
		Var		   *var = makeVar(inner->relid, entry->resno, exprType(expr), exprTypmod(expr), exprCollation(expr), 0);

		scan->scan.plan.targetlist = lappend(scan->scan.plan.targetlist,
											 makeTargetEntry((Expr *) var, entry->resno, entry->resname, entry->resjunk));
	}
	scan->scan.plan.startup_cost = plan->startup_cost;
	scan->scan.plan.total_cost = plan->total_cost;
	scan->scan.plan.plan_rows = plan->plan_rows;
	scan->scan.plan.plan_width = plan->plan_width;
	scan->scan.plan.parallel_safe = plan->parallel_safe;
	scan->scan.scanrelid = inner->relid;
	scan->subplan = plan;

	return &scan->scan.plan;
}

/* Make the plans of these inner sides (List of OuterInner). */
List *
branch_plans(List *inners)
{
	List	   *plans = NIL;
	ListCell   *lc;

	foreach(lc, inners)
		plans = lappend(plans, plan_inner(lfirst(lc)));
	return plans;
}

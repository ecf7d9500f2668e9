/*-------------------------------------------------------------------------
 *
 * equivalence.c
 *	  Whether a table of a join can be aggregated before the join.
 *
 * Rows of one group must be the same to all that is above: each column that
 * is needed there is one to group by, and its equality must be that of its
 * bytes. Then it does not matter what the join's conditions are. And what is
 * computed for rows that the join leaves out must not fail.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/nbtree.h"
#include "access/transam.h"
#include "catalog/pg_aggregate.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "optimizer/tlist.h"
#include "parser/parse_oper.h"
#include "parser/parsetree.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/selfuncs.h"
#include "utils/typcache.h"

#include "compat.h"
#include "planner/before_join.h"

/* ---- aggregates ---- */

/*
 * A function that fails for no value, or only far beyond what is ever stored;
 * as the sum of a float's column may, without any function.
 */
static bool
function_may_fail(Oid function, void *context)
{
	switch (function)
	{
		case F_NUMERIC_ADD:
		case F_NUMERIC_SUB:
		case F_NUMERIC_MUL:
		case F_NUMERIC_UMINUS:
		case F_NUMERIC_INT2:
		case F_NUMERIC_INT4:
		case F_NUMERIC_INT8:
		case F_FLOAT8PL:
		case F_FLOAT8MI:
		case F_FLOAT8MUL:
		case F_FLOAT8UM:
			return false;
		default:
			return !get_func_leakproof(function);
	}
}

/* May an expression fail, depending on the row? Sure only of what is listed. */
static bool
may_fail(Node *node, void *context)
{
	if (node == NULL)
		return false;
	switch (nodeTag(node))
	{
		case T_List:
		case T_TargetEntry:
		case T_Var:
		case T_Const:
		case T_Param:
		case T_RelabelType:
		case T_BoolExpr:
		case T_NullTest:
		case T_BooleanTest:
		case T_CaseExpr:
		case T_CaseWhen:
		case T_CaseTestExpr:
		case T_CoalesceExpr:
			break;
		case T_FuncExpr:
		case T_OpExpr:
		case T_DistinctExpr:
		case T_NullIfExpr:
		case T_ScalarArrayOpExpr:
			if (check_functions_in_node(node, function_may_fail, context))
				return true;
			break;
		default:
			return true;
	}
	return expression_tree_walker(node, may_fail, context);
}

/* Why the states of an aggregate should not be made before the join, or NULL. */
static const char *
aggregate_refusal(Aggref *aggref)
{
	/* Core's partial form excludes all that needs its rows in an order, or once each. */
	Assert(aggref->aggkind == AGGKIND_NORMAL);
	Assert(aggref->aggorder == NIL && aggref->aggdistinct == NIL && aggref->aggdirectargs == NIL);

	/* functions of one's own may fail */
	if (aggref->aggfnoid >= FirstGenbkiObjectId)
		return "an aggregate that is not built in";
	/* those of different lengths are an error */
	if (aggref->aggtype == BITOID || aggref->aggtype == VARBITOID)
		return "an aggregate of bit strings";
#if PG_VERSION_NUM >= 160000
	/* a state as long as the group's rows would be copied for each row of the join */
	switch (aggref->aggfnoid)
	{
		case F_STRING_AGG_TEXT_TEXT:
		case F_STRING_AGG_BYTEA_BYTEA:
		case F_ARRAY_AGG_ANYNONARRAY:
		case F_ARRAY_AGG_ANYARRAY:
			return "an aggregate that keeps all of its values";
	}
#endif
	if (may_fail((Node *) aggref->args, NULL) || may_fail((Node *) aggref->aggfilter, NULL))
		return "an argument or FILTER that might fail for rows that the join leaves out";

	return NULL;
}

/* The table whose columns the aggregates use; the biggest if they use none. */
static const char *
find_table(PlannerInfo *root, RelOptInfo *input_rel, PathTarget *partial, RelOptInfo **table)
{
	Relids		used = NULL;
	bool		aggregates = false;
	int			relid = -1;
	ListCell   *lc;

	foreach(lc, partial->exprs)
	{
		const char *reason;

		if (IsA(lfirst(lc), GroupingFunc))
			return "GROUPING()";
		if (!IsA(lfirst(lc), Aggref))
			continue;
		reason = aggregate_refusal(lfirst_node(Aggref, lc));
		if (reason != NULL)
			return reason;
		aggregates = true;
		used = bms_add_members(used, pull_varnos(root, lfirst(lc)));
	}
	if (!aggregates)
		return "there is no aggregate";
	if (bms_membership(used) == BMS_MULTIPLE)
		return "aggregates of columns of several tables";

	*table = NULL;
	while ((relid = bms_next_member(bms_is_empty(used) ? input_rel->relids : used, relid)) >= 0)
	{
		RelOptInfo *rel = find_base_rel(root, relid);

		if (rel->rtekind == RTE_RELATION && (*table == NULL || rel->tuples > (*table)->tuples))
			*table = rel;
	}
	if (*table == NULL)
		return "what is aggregated is no table";
	if (planner_rt_fetch((*table)->relid, root)->tablesample != NULL)
		return "TABLESAMPLE";

	return NULL;
}

/* ---- group columns ---- */

/*
 * Make the SortGroupClause for a column. Its equality must be that of the
 * bytes: a value stands for all that are equal to it, whatever function is
 * applied above. The operator class tells, as it does for deduplication in
 * B-tree indexes.
 */
static const char *
group_column(Var *var, Index ref, SortGroupClause **clause)
{
	TypeCacheEntry *type = lookup_type_cache(var->vartype, TYPECACHE_BTREE_OPFAMILY);
	Oid			equal_image = InvalidOid;
	Oid			sort_operator;
	Oid			equality;
	bool		hashable;

	if (var->varattno <= 0)
		return "a system column or whole row is needed above";
	if (OidIsValid(type->btree_opf))
		equal_image = get_opfamily_proc(type->btree_opf, type->btree_opintype, type->btree_opintype,
										BTEQUALIMAGE_PROC);
	if (!OidIsValid(equal_image) ||
		!DatumGetBool(OidFunctionCall1Coll(equal_image, var->varcollid, ObjectIdGetDatum(type->btree_opintype))) ||
		/* without a length, blanks at the end are kept, and not compared */
		(getBaseType(var->vartype) == BPCHAROID && var->vartypmod < 0))
		return "a column to group by has equal values that can be told apart";

	get_sort_group_operators(var->vartype, false, true, false, &sort_operator, &equality, NULL, &hashable);
	if (!OidIsValid(sort_operator) || !hashable)
		return "a column to group by cannot be hashed";

	*clause = makeNode(SortGroupClause);
	(*clause)->tleSortGroupRef = ref;
	(*clause)->eqop = equality;
	(*clause)->sortop = sort_operator;
	(*clause)->nulls_first = false;
	(*clause)->hashable = true;

	return NULL;
}

/* Does a join condition need this column? attr_needed has 0 for the query's output. */
static bool
needed_by_join(RelOptInfo *table, Var *var)
{
	return bms_next_member(table->attr_needed[var->varattno - table->min_attr], 0) >= 0;
}

/* Work out what is read, grouped by and handed up. */
static const char *
make_targets(PlannerInfo *root, PathTarget *partial, EarlyAggregate *early)
{
	List	   *aggregates = NIL;
	List	   *others = NIL;
	ListCell   *lc;

	foreach(lc, partial->exprs)
	{
		if (IsA(lfirst(lc), Aggref))
			aggregates = lappend(aggregates, lfirst(lc));
		else
			others = lappend(others, lfirst(lc));
	}
	if (contain_subplans((Node *) others))
		return "a subquery among the columns";
	others = pull_var_clause((Node *) others, PVC_INCLUDE_PLACEHOLDERS);

	/* all that core's paths of the table give, in its order, so that they need no projection */
	early->input = create_empty_pathtarget();
	early->target = create_empty_pathtarget();
	foreach(lc, early->table->reltarget->exprs)
	{
		Var		   *var = lfirst(lc);
		Index		ref = list_length(early->group_clause) + 1;
		SortGroupClause *clause;
		const char *reason;

		if (!IsA(var, Var))
			return "a column that is an expression";
		if (!needed_by_join(early->table, var) && !list_member(others, var))
		{
			add_column_to_pathtarget(early->input, (Expr *) var, 0);
			continue;
		}
		reason = group_column(var, ref, &clause);
		if (reason != NULL)
			return reason;
		early->group_clause = lappend(early->group_clause, clause);
		add_column_to_pathtarget(early->input, (Expr *) var, ref);
		add_column_to_pathtarget(early->target, (Expr *) var, 0);
	}
	if (early->group_clause == NIL)
		return "the join does not depend on the table";
	add_new_columns_to_pathtarget(early->target, aggregates);
	early->groups = estimate_num_groups(root, get_sortgrouplist_exprs(early->group_clause,
																	  make_tlist_from_pathtarget(early->input)),
										early->table->rows, NULL, NULL);
	early->input = set_pathtarget_cost_width(root, early->input);
	early->target = set_pathtarget_cost_width(root, early->target);

	return NULL;
}

/*
 * Say why no table of the join can be aggregated before it, or fill in *early
 * and return NULL. partial is what Finalize Aggregate above will read.
 */
const char *
before_join_refusal(PlannerInfo *root, RelOptInfo *input_rel, PathTarget *partial, EarlyAggregate *early)
{
	const char *reason;
	int			relid = -1;

	/* Rows that an outer join makes have no state; a semijoin takes a row once. */
	if (root->join_info_list != NIL)
		return "a join that is not an inner join";
	if (root->placeholder_list != NIL)
		return "an expression from below an outer join";
	/* the arguments would be computed before conditions that hide rows */
	if (root->qual_security_level > 0)
		return "row security or a security barrier";
	/* how often one is called must not depend on the plan any more than it does anyway */
	if (contain_volatile_functions((Node *) root->parse))
		return "a volatile function";
	if (root->parse->hasTargetSRFs)
		return "a set-returning function";
	if (root->hasPseudoConstantQuals)
		return "a condition that refers to no column";
	/* what is in a subquery is not seen from here */
	if (contain_subplans((Node *) root->parse->jointree))
		return "a subquery in a condition";
	while ((relid = bms_next_member(input_rel->relids, relid)) >= 0)
	{
		if (!bms_is_empty(find_base_rel(root, relid)->lateral_relids))
			return "a lateral reference";
	}

	MemSet(early, 0, sizeof(EarlyAggregate));
	reason = find_table(root, input_rel, partial, &early->table);
	if (reason == NULL)
		reason = make_targets(root, partial, early);
	if (reason == NULL)
		early->parallel_safe = early->table->consider_parallel && is_parallel_safe(root, (Node *) early->target->exprs);

	return reason;
}

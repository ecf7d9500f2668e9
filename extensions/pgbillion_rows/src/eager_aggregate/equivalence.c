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

#include "access/htup_details.h"
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
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/numeric.h"
#include "utils/regproc.h"
#include "utils/selfuncs.h"
#include "utils/syscache.h"

#include "compat.h"
#include "eager_aggregate/eager_aggregate.h"
#include "planner/group_estimate.h"
#include "planner/planner.h"

/* ---- what may fail ---- */

/* A function that fails for no value. */
static bool
function_may_fail(Oid function, void *context)
{
	switch (function)
	{
		case F_NUMERIC_UMINUS:
		case F_NUMERIC_INT2:
		case F_NUMERIC_INT4:
		case F_NUMERIC_INT8:
		case F_FLOAT8UM:
			return false;
		default:
			return !get_func_leakproof(function);
	}
}

/* Digits before the point for which numeric has room: 131,072, and some to spare. */
#define MOST_DIGITS 100000

/* How many digits before the point a numeric expression may have; more than MOST_DIGITS if that is not known. */
static int
digits_of(Node *node)
{
	int32		typmod;
	int			digits = 0;
	int			scale;
	List	   *args = NIL;
	Oid			function = InvalidOid;
	ListCell   *lc;

	switch (nodeTag(node))
	{
		case T_RelabelType:
			return digits_of((Node *) ((RelabelType *) node)->arg);
		case T_Const:
			if (((Const *) node)->constisnull)
				return 0;
			return strcspn(DatumGetCString(DirectFunctionCall1(numeric_out, ((Const *) node)->constvalue)), ".");
		case T_Var:
			/* what a column holds has been made to fit */
			typmod = ((Var *) node)->vartypmod;
			if (getBaseTypeAndTypmod(((Var *) node)->vartype, &typmod) != NUMERICOID || typmod < (int32) VARHDRSZ)
				return MOST_DIGITS + 1;
			/* numeric_typmod_precision() and numeric_typmod_scale() */
			typmod -= VARHDRSZ;
			scale = ((typmod & 0x7ff) ^ 1024) - 1024;
			return Max(((typmod >> 16) & 0xffff) - scale, 0);
		case T_CaseExpr:
			foreach(lc, ((CaseExpr *) node)->args)
				args = lappend(args, lfirst_node(CaseWhen, lc)->result);
			args = lappend(args, ((CaseExpr *) node)->defresult);
			break;
		case T_CoalesceExpr:
			args = ((CoalesceExpr *) node)->args;
			break;
		case T_FuncExpr:
			function = ((FuncExpr *) node)->funcid;
			args = ((FuncExpr *) node)->args;
			break;
		case T_OpExpr:
			function = ((OpExpr *) node)->opfuncid;
			args = ((OpExpr *) node)->args;
			break;
		default:
			return MOST_DIGITS + 1;
	}
	switch (function)
	{
		case F_NUMERIC_INT2:
		case F_NUMERIC_INT4:
		case F_NUMERIC_INT8:
			return 19;
		case F_NUMERIC_MUL:
			digits = digits_of(linitial(args)) + digits_of(lsecond(args));
			return Min(digits, MOST_DIGITS + 1);
		case InvalidOid:
		case F_NUMERIC_UMINUS:
		case F_NUMERIC_ADD:
		case F_NUMERIC_SUB:
			break;
		default:
			return MOST_DIGITS + 1;
	}
	foreach(lc, args)
	{
		int			own = digits_of(lfirst(lc));

		digits = Max(digits, own);
	}
	return Min(digits + (function == F_NUMERIC_ADD || function == F_NUMERIC_SUB), MOST_DIGITS + 1);
}

/* Is it arithmetic of numerics that are too small to leave numeric's range? */
static bool
is_small_arithmetic(Node *node)
{
	switch (((OpExpr *) node)->opfuncid)
	{
		case F_NUMERIC_ADD:
		case F_NUMERIC_SUB:
		case F_NUMERIC_MUL:
			return digits_of(node) <= MOST_DIGITS;
		default:
			return false;
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
		case T_OpExpr:
			if (is_small_arithmetic(node))
				break;
			/* FALLTHROUGH */
		case T_FuncExpr:
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

/* ---- aggregates ---- */

/* The largest integer is 2^63; the sum of as many of them, and of their squares, is far below the largest float. */
static bool
is_integer_cast(Node *node)
{
	if (!IsA(node, FuncExpr))
		return false;
	switch (((FuncExpr *) node)->funcid)
	{
		case F_FLOAT4_INT2:
		case F_FLOAT4_INT4:
		case F_FLOAT4_INT8:
		case F_FLOAT8_INT2:
		case F_FLOAT8_INT4:
		case F_FLOAT8_INT8:
			return true;
		default:
			return false;
	}
}

/* Are all arguments floats that cannot add up to more than a float holds? */
static bool
are_small_floats(List *args)
{
	ListCell   *lc;

	foreach(lc, args)
	{
		Node	   *arg = (Node *) lfirst_node(TargetEntry, lc)->expr;

		/*
		 * a real in double precision: neither 2^63 values of 2^128 nor their
		 * squares overflow
		 */
		if (!is_integer_cast(arg) && !(IsA(arg, FuncExpr) && ((FuncExpr *) arg)->funcid == F_FLOAT8_FLOAT4))
			return false;
	}
	return true;
}

/*
 * May the partial state of an aggregate fail, depending on the values? Sure
 * only of the transition functions that are listed. Those of integers and
 * numerics have room for all there can be: what is too large is found when the
 * state is finished, which is above the join.
 */
static bool
transition_may_fail(Aggref *aggref)
{
	HeapTuple	tuple = SearchSysCache1(AGGFNOID, ObjectIdGetDatum(aggref->aggfnoid));
	Oid			transition;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for aggregate %u", aggref->aggfnoid);
	transition = ((Form_pg_aggregate) GETSTRUCT(tuple))->aggtransfn;
	ReleaseSysCache(tuple);

	switch (transition)
	{
		case F_INT8INC:
		case F_INT8INC_ANY:
		case F_INT8INC_FLOAT8_FLOAT8:
		case F_INT2_SUM:
		case F_INT4_SUM:
		case F_INT2_AVG_ACCUM:
		case F_INT4_AVG_ACCUM:
		case F_INT8_AVG_ACCUM:
		case F_INT2_ACCUM:
		case F_INT4_ACCUM:
		case F_INT8_ACCUM:
		case F_NUMERIC_AVG_ACCUM:
		case F_NUMERIC_ACCUM:
			/* reals are added in double precision */
		case F_FLOAT4_ACCUM:
		case F_BOOLAND_STATEFUNC:
		case F_BOOLOR_STATEFUNC:
		case F_INT2AND:
		case F_INT2OR:
		case F_INT2XOR:
		case F_INT4AND:
		case F_INT4OR:
		case F_INT4XOR:
		case F_INT8AND:
		case F_INT8OR:
		case F_INT8XOR:
		case F_INT2LARGER:
		case F_INT2SMALLER:
		case F_INT4LARGER:
		case F_INT4SMALLER:
		case F_INT8LARGER:
		case F_INT8SMALLER:
		case F_OIDLARGER:
		case F_OIDSMALLER:
		case F_FLOAT4LARGER:
		case F_FLOAT4SMALLER:
		case F_FLOAT8LARGER:
		case F_FLOAT8SMALLER:
		case F_NUMERIC_LARGER:
		case F_NUMERIC_SMALLER:
		case F_CASHLARGER:
		case F_CASHSMALLER:
		case F_DATE_LARGER:
		case F_DATE_SMALLER:
		case F_TIME_LARGER:
		case F_TIME_SMALLER:
		case F_TIMETZ_LARGER:
		case F_TIMETZ_SMALLER:
		case F_TIMESTAMP_LARGER:
		case F_TIMESTAMP_SMALLER:
		case F_TIMESTAMPTZ_LARGER:
		case F_TIMESTAMPTZ_SMALLER:
		case F_INTERVAL_LARGER:
		case F_INTERVAL_SMALLER:
		case F_TEXT_LARGER:
		case F_TEXT_SMALLER:
		case F_BPCHAR_LARGER:
		case F_BPCHAR_SMALLER:
		case F_TIDLARGER:
		case F_TIDSMALLER:
		case F_ENUM_LARGER:
		case F_ENUM_SMALLER:
		case F_NETWORK_LARGER:
		case F_NETWORK_SMALLER:
		case F_PG_LSN_LARGER:
		case F_PG_LSN_SMALLER:
#if PG_VERSION_NUM >= 160000
		case F_ANY_VALUE_TRANSFN:
#endif
#if PG_VERSION_NUM >= 180000
		case F_BYTEA_LARGER:
		case F_BYTEA_SMALLER:
#endif
			return false;
		case F_FLOAT4PL:
			return !is_integer_cast((Node *) linitial_node(TargetEntry, aggref->args)->expr);
		case F_FLOAT8PL:
		case F_FLOAT8_ACCUM:
		case F_FLOAT8_REGR_ACCUM:
			return !are_small_floats(aggref->args);
		default:
			return true;
	}
}

/* Why the states of an aggregate should not be made before the join, or NULL. */
static const char *
aggregate_refusal(Aggref *aggref)
{
	/*
	 * PostgreSQL's partial form excludes all that needs its rows in an order,
	 * or once each.
	 */
	Assert(aggref->aggkind == AGGKIND_NORMAL);
	Assert(aggref->aggorder == NIL && aggref->aggdistinct == NIL && aggref->aggdirectargs == NIL);

	/* functions of one's own may fail */
	if (aggref->aggfnoid >= FirstGenbkiObjectId)
		return "an aggregate that is not built in";
#if PG_VERSION_NUM >= 160000

	/*
	 * a state as long as the group's rows would be copied for each row of the
	 * join
	 */
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
	if (transition_may_fail(aggref))
		return plan_reason("aggregate %s, which might fail for rows that the join leaves out",
						   format_procedure(aggref->aggfnoid));

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
 * bytes: a value stands for all that are equal to it.
 */
static const char *
group_column(Var *var, Index ref, SortGroupClause **clause)
{
	Oid			sort_operator;
	Oid			equality;
	bool		hashable;

	if (var->varattno <= 0)
		return "a system column or whole row is needed above";
	if (!planner_equal_is_same(var->vartype, var->vartypmod, var->varcollid))
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

/*
 * Estimate how many groups there are, and whether that is more than a guess:
 * where PostgreSQL's estimate is its limit, there are as many groups as the
 * columns' values combined.
 */
static void
estimate_eager_groups(PlannerInfo *root, EagerAggregate *eager)
{
	List	   *columns = get_sortgrouplist_exprs(eager->group_clause, make_tlist_from_pathtarget(eager->input));
	EstimationInfo info = {0};
	double		beyond = group_estimate_beyond_limit(root, eager->table, columns);

	eager->groups = Max(estimate_num_groups(root, columns, eager->table->rows, NULL, &info), beyond);
	eager->known = (info.flags & SELFLAG_USED_DEFAULT) == 0;
}

/* Work out what is read, grouped by and returned. */
static const char *
make_targets(PlannerInfo *root, PathTarget *partial, EagerAggregate *eager)
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

	/*
	 * all that PostgreSQL's paths of the table give, in its order, so that
	 * they need no projection
	 */
	eager->input = create_empty_pathtarget();
	eager->target = create_empty_pathtarget();
	foreach(lc, eager->table->reltarget->exprs)
	{
		Var		   *var = lfirst(lc);
		Index		ref = list_length(eager->group_clause) + 1;
		SortGroupClause *clause;
		const char *reason;

		if (!IsA(var, Var))
			return "a column that is an expression";
		if (!needed_by_join(eager->table, var) && !list_member(others, var))
		{
			add_column_to_pathtarget(eager->input, (Expr *) var, 0);
			continue;
		}
		reason = group_column(var, ref, &clause);
		if (reason != NULL)
			return reason;
		eager->group_clause = lappend(eager->group_clause, clause);
		add_column_to_pathtarget(eager->input, (Expr *) var, ref);
		add_column_to_pathtarget(eager->target, (Expr *) var, 0);
	}
	if (eager->group_clause == NIL)
		return "the join does not depend on the table";
	add_new_columns_to_pathtarget(eager->target, aggregates);
	estimate_eager_groups(root, eager);
	eager->input = set_pathtarget_cost_width(root, eager->input);
	eager->target = set_pathtarget_cost_width(root, eager->target);

	return NULL;
}

/*
 * Say why no table of the join can be aggregated before it, or fill in *eager
 * and return NULL. partial is what Finalize Aggregate above will read.
 */
const char *
eager_aggregate_refusal(PlannerInfo *root, RelOptInfo *input_rel, PathTarget *partial, EagerAggregate *eager)
{
	const char *reason;
	int			relid = -1;

	/*
	 * Rows that an outer join makes have no state; a semijoin takes a row
	 * once.
	 */
	if (root->join_info_list != NIL)
		return "a join that is not an inner join";
	if (root->placeholder_list != NIL)
		return "an expression from below an outer join";
	/* the arguments would be computed before conditions that hide rows */
	if (root->qual_security_level > 0)
		return "row security or a security barrier";

	/*
	 * how often one is called must not depend on the plan any more than it
	 * does anyway
	 */
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

	MemSet(eager, 0, sizeof(EagerAggregate));
	reason = find_table(root, input_rel, partial, &eager->table);
	if (reason == NULL)
		reason = make_targets(root, partial, eager);
	if (reason == NULL)
		eager->parallel_safe = eager->table->consider_parallel && is_parallel_safe(root, (Node *) eager->target->exprs);

	return reason;
}

/*-------------------------------------------------------------------------
 *
 * ordered_set.c
 *	  Ordered-set aggregates: percentile_cont(), percentile_disc() and mode().
 *
 * The values of each group are kept as unsigned integers in the order of the
 * values, in chunks that belong to the group's state. Aggregates of the same
 * values share them: a collector has the state, and each aggregate looks for
 * its ranks there when its group is returned (order_statistics.c). Nothing is sorted for
 * a percentile.
 *
 * Such an aggregate has no partial form, and PostgreSQL's Agg node above our
 * scan knows none. The scan returns results, as the states of an aggregate
 * whose state is its result: min() of the type, which has one value for each group. That is its carrier;
 * the ordered-set aggregate is what the carrier has for an argument.
 *
 * Memory: each collector has an equal share of hash_mem, as the tables of
 * groups and of DISTINCT values have. Once it is used up, the values are
 * written to a run, by group and in order (ordered_runs.c), and the results of
 * all groups are computed when the source has ended.
 *
 * Values that are equal need not be identical: there are -0 and 0, and several
 * kinds of NaN. PostgreSQL returns the one that its sort puts at the rank. If
 * there are such values, each group that is in memory is sorted by that sort,
 * in the order in which the rows came.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/objectaccess.h"
#include "catalog/pg_aggregate.h"
#include "catalog/pg_proc.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "utils/acl.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/typcache.h"

#include "compat.h"
#include "vector/aggregate/ordered_values.h"
#include "vector/expression/decimal.h"

/* Bytes that a collector may use whatever its limit is. */
#define LEAST_LIMIT (64 * 1024)

/* ---- for the planner ---- */

/* Is it one of the aggregates here, whatever its arguments are? */
bool
ordered_set_is_known(const Aggref *aggref)
{
	switch (aggref->aggfnoid)
	{
		case F_PERCENTILE_CONT_FLOAT8_FLOAT8:
		case F_PERCENTILE_CONT__FLOAT8_FLOAT8:
		case F_PERCENTILE_DISC_FLOAT8_ANYELEMENT:
		case F_PERCENTILE_DISC__FLOAT8_ANYELEMENT:
		case F_MODE:
			return true;
		default:
			return false;
	}
}

static bool
is_multiple(const Aggref *aggref)
{
	return aggref->aggfnoid == F_PERCENTILE_CONT__FLOAT8_FLOAT8 || aggref->aggfnoid == F_PERCENTILE_DISC__FLOAT8_ANYELEMENT;
}

static Expr *
ordered_expr(const Aggref *aggref)
{
	return linitial_node(TargetEntry, aggref->args)->expr;
}

/*
 * The scale of a column of numerics that are all 64-bit integers in units of
 * it, or NaN; -1: of none.
 */
static int
scale_of(Expr *expr)
{
	int32		typmod;
	int			precision;
	int			scale;

	if (!IsA(expr, Var) || ((Var *) expr)->varattno <= 0)
		return -1;
	typmod = ((Var *) expr)->vartypmod;
	if (typmod < (int32) VARHDRSZ)
		return -1;

	/*
	 * numeric_typmod_precision() and numeric_typmod_scale(), whose sign is
	 * extended
	 */
	precision = ((typmod - VARHDRSZ) >> 16) & 0xFFFF;
	scale = (((typmod - VARHDRSZ) & 0x7FF) ^ 1024) - 1024;

	/*
	 * decimal_decode() takes digits of base 10000 together, also those after
	 * the point
	 */
	return scale >= 0 && scale <= precision && precision - scale + TYPEALIGN(4, scale) <= DECIMAL_MAX_DIGITS ? scale : -1;
}

/* The aggregate that returns the least of values of a type, or InvalidOid if there is none for us. */
static Oid
min_of_type(Oid type)
{
	switch (type)
	{
		case INT2OID:
			return F_MIN_INT2;
		case INT4OID:
			return F_MIN_INT4;
		case INT8OID:
			return F_MIN_INT8;
		case FLOAT4OID:
			return F_MIN_FLOAT4;
		case FLOAT8OID:
			return F_MIN_FLOAT8;
		case NUMERICOID:
			return F_MIN_NUMERIC;
		case DATEOID:
			return F_MIN_DATE;
		case TIMEOID:
			return F_MIN_TIME;
		case TIMESTAMPOID:
			return F_MIN_TIMESTAMP;
		case TIMESTAMPTZOID:
			return F_MIN_TIMESTAMPTZ;
		default:
			return InvalidOid;
	}
}

/* Has somebody taken an aggregate of PostgreSQL's from the public? PostgreSQL would check that for the carrier. */
static bool
is_restricted(Oid function)
{
	return proc_aclcheck(function, ACL_ID_PUBLIC, ACL_EXECUTE) != ACLCHECK_OK;
}

/* Why an ordered-set aggregate is not for us, or NULL. */
const char *
ordered_set_refusal(Aggref *aggref)
{
	SortGroupClause *clause;
	TypeCacheEntry *entry;
	Expr	   *expr;
	Oid			type;

	Assert(ordered_set_is_known(aggref));
	if (list_length(aggref->args) != 1 || list_length(aggref->aggorder) != 1)
		return "an ordered-set aggregate of several columns";
	expr = ordered_expr(aggref);
	type = exprType((Node *) expr);
	clause = linitial_node(SortGroupClause, aggref->aggorder);
	if (!OidIsValid(min_of_type(type)))
		return "an ordered-set aggregate of another type than integers, floats, dates, times, timestamps and numerics";
	if (type == NUMERICOID && scale_of(expr) < 0)
		return "an ordered-set aggregate of a numeric that is no column of up to 15 digits with a scale";
	entry = lookup_type_cache(type, TYPECACHE_LT_OPR | TYPECACHE_GT_OPR);
	if (clause->sortop != entry->lt_opr && clause->sortop != entry->gt_opr)
		return "an ordered-set aggregate by another operator than its type's own";
	if (is_restricted(is_multiple(aggref) ? F_MIN_ANYARRAY : min_of_type(type)))
		return "an ordered-set aggregate where not everybody may execute min()";
	return NULL;
}

/*
 * The aggregate that PostgreSQL's nodes see in the place of an ordered-set
 * aggregate: its state is its result. `transno` is the number of a transition
 * that no other aggregate of the plan has.
 */
Aggref *
ordered_set_carrier(Aggref *aggref, int transno)
{
	Aggref	   *carrier = makeNode(Aggref);
	Aggref	   *carried = makeNode(Aggref);
	Oid			element = exprType((Node *) ordered_expr(aggref));
	Oid			type = is_multiple(aggref) ? get_array_type(element) : element;

	/* of a partial aggregate as of another one */
	memcpy(carried, aggref, sizeof(Aggref));
	carried->aggsplit = AGGSPLIT_SIMPLE;
	carried->aggtype = type;

	carrier->aggfnoid = is_multiple(aggref) ? F_MIN_ANYARRAY : min_of_type(type);
	carrier->aggtype = carrier->aggtranstype = type;
	carrier->aggargtypes = list_make1_oid(type);
	carrier->args = list_make1(makeTargetEntry((Expr *) carried, 1, NULL, false));
	carrier->aggkind = AGGKIND_NORMAL;
	carrier->aggsplit = aggref->aggsplit;
	carrier->aggno = aggref->aggno;
	carrier->aggtransno = transno;
	carrier->location = -1;

	return carrier;
}

/* The ordered-set aggregate of a carrier; NULL: it is none. */
Aggref *
ordered_set_of_carrier(const Aggref *carrier)
{
	Aggref	   *carried;

	if (list_length(carrier->args) != 1)
		return NULL;
	carried = (Aggref *) ordered_expr(carrier);
	return IsA(carried, Aggref) ? carried : NULL;
}

/* ---- compilation ---- */

static const AggKind values_kind = {
	.state_size = sizeof(ValuesState),
	.advance = ordered_values_collect,
	.output = ordered_set_output,
};

static const AggKind decimals_kind = {
	.state_size = sizeof(ValuesState),
	.advance_batch = ordered_values_collect_decimals,
	.output = ordered_set_output,
};

/* Have the values of an aggregate collected, and of others that ordered_values_are_of() is true for. */
VectorAgg *
ordered_values_compile(Aggref *aggref, Batch *batch, Aggregates *aggregates)
{
	VectorAgg  *agg = palloc0(sizeof(VectorAgg));
	OrderedValues *values = palloc0(sizeof(OrderedValues));
	Expr	   *expr = ordered_expr(aggref);

	values->aggregates = aggregates;
	values->agg = agg;
	values->args = aggref->args;
	values->filter = aggref->aggfilter;
	values->type = exprType((Node *) expr);
	get_typlenbyvalalign(values->type, &values->typlen, &values->typbyval, &values->typalign);
	values->scale = scale_of(expr);
	values->econtext = CreateExprContext(batch->parent->state);
	values->limit = LEAST_LIMIT;
	values->context = AllocSetContextCreate(CurrentMemoryContext, "pgbillion ordered values", ALLOCSET_DEFAULT_SIZES);
	values->runs_context = AllocSetContextCreate(CurrentMemoryContext, "pgbillion ordered values' runs", ALLOCSET_DEFAULT_SIZES);
	values->result_context = AllocSetContextCreate(CurrentMemoryContext, "pgbillion ordered results", ALLOCSET_DEFAULT_SIZES);

	agg->kind = values->type == NUMERICOID ? &decimals_kind : &values_kind;
	agg->own = values;
	agg->others = -1;
	agg->argument = vector_expr_compile(expr, batch);
	if (aggref->aggfilter != NULL)
		agg->filter = vector_filter_compile_rows(aggref->aggfilter, batch);

	return agg;
}

/* Are the values those that an aggregate is of? */
bool
ordered_values_are_of(const VectorAgg *collector, const Aggref *aggref)
{
	const OrderedValues *values = collector->own;

	return equal(linitial_node(TargetEntry, values->args)->expr, ordered_expr(aggref)) &&
		equal(values->filter, aggref->aggfilter);
}

/* Group keys of which a direct argument is made. */
typedef struct KeyColumns
{
	List	   *keys;
} KeyColumns;

/* Have keys as columns of the row of a group's keys. What is made of no column is as it is: there may be no such row. */
static Node *
refer_to_keys(Node *node, void *context)
{
	List	   *keys = ((KeyColumns *) context)->keys;
	ListCell   *lc;

	if (!contain_var_clause(node))
		return node;
	foreach(lc, keys)
	{
		if (equal(lfirst(lc), node))
			return (Node *) makeVar(OUTER_VAR, foreach_current_index(lc) + 1, exprType(node), exprTypmod(node),
									exprCollation(node), 0);
	}
	if (IsA(node, Var))
		elog(ERROR, "a direct argument is made of no group key");
	return expression_tree_mutator(node, refer_to_keys, context);
}

/* Check what PostgreSQL's executor checks before it calls an aggregate. */
static void
check_privileges(const Aggref *aggref)
{
	AclResult	result = proc_aclcheck(aggref->aggfnoid, GetUserId(), ACL_EXECUTE);

	if (result != ACLCHECK_OK)
		aclcheck_error(result, OBJECT_AGGREGATE, get_func_name(aggref->aggfnoid));
	InvokeFunctionExecuteHook(aggref->aggfnoid);
}

/* An aggregate of the values of a collector; its direct argument may be made of the group keys. */
VectorAgg *
ordered_set_compile(Aggref *aggref, VectorAgg *collector, List *keys, Batch *batch)
{
	VectorAgg  *agg = palloc0(sizeof(VectorAgg));
	OrderedSet *set = palloc0(sizeof(OrderedSet));
	OrderedValues *values = collector->own;
	SortGroupClause *clause = linitial_node(SortGroupClause, aggref->aggorder);
	KeyColumns	columns = {keys};

	check_privileges(aggref);
	set->values = values;
	set->number = list_length(values->sets);
	set->multiple = is_multiple(aggref);
	set->kind = aggref->aggfnoid == F_MODE ? ORDERED_MODE :
		aggref->aggfnoid == F_PERCENTILE_CONT_FLOAT8_FLOAT8 || aggref->aggfnoid == F_PERCENTILE_CONT__FLOAT8_FLOAT8 ?
		ORDERED_CONTINUOUS : ORDERED_DISCRETE;
	set->operator = clause->sortop;
	set->nulls_first = clause->nulls_first;
	set->descending = clause->sortop != lookup_type_cache(values->type, TYPECACHE_LT_OPR)->lt_opr;
	if (set->kind != ORDERED_MODE)
		set->fraction = ExecInitExpr((Expr *) refer_to_keys(linitial(aggref->aggdirectargs), &columns), batch->parent);
	values->sets = lappend(values->sets, set);
	if (values->results != NULL)
		pfree(values->results);
	values->results = palloc(sizeof(OrderedResult) * list_length(values->sets));

	agg->kind = collector->kind;
	agg->own = set;
	agg->others = -1;
	agg->argument = collector->argument;

	return agg;
}

/* Where an aggregate has its values from; NULL: it is no ordered-set aggregate. */
VectorAgg *
ordered_set_collector(const VectorAgg *agg)
{
	bool		is_set = agg->kind == &values_kind || agg->kind == &decimals_kind;

	return is_set ? ((OrderedSet *) agg->own)->values->agg : NULL;
}

/* Let the values take `limit` bytes of memory. */
void
ordered_values_set_limit(VectorAgg *collector, Size limit)
{
	((OrderedValues *) collector->own)->limit = Max(limit, LEAST_LIMIT);
}

/*-------------------------------------------------------------------------
 *
 * cost_model.c
 *	  What vectorized aggregation costs, and how much memory it takes.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "access/table.h"
#include "executor/nodeHash.h"
#include "nodes/nodeFuncs.h"
#include "nodes/pathnodes.h"
#include "optimizer/clauses.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "parser/parsetree.h"
#include "utils/array.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/spccache.h"

#include "planner/group_estimate.h"
#include "planner/planner_memo.h"
#include "vector/aggregate/ordered_set.h"
#include "vector/batch.h"
#include "vector/filter/filter.h"
#include "vector/group/group_table.h"
#include "vector/group/regroup.h"
#include "vector/group/value_set.h"
#include "vector/keys/group_key.h"
#include "vector/plan/cost_model.h"
#include "vector/plan/plan.h"

/* Are all tables of the statement in memory, as far as can be known? */
bool
vector_tables_in_memory(PlannerInfo *root)
{
	return root->total_table_pages <= effective_cache_size;
}

/* Bytes of memory that a number of groups takes. */
double
vector_groups_memory(PathTarget *target, double groups)
{
	int			nkeys = 0;
	ListCell   *lc;

	foreach(lc, target->exprs)
		nkeys += !IsA(lfirst(lc), Aggref);
	return groups * group_table_entry_bytes(nkeys, 16 * list_length(target->exprs));
}

/* The one of a subquery's plans that is cheapest if it is executed this number of times: fix_alternative_subplan(). */
static SubPlan *
cheapest_plan(List *subplans, double times)
{
	SubPlan    *best = NULL;
	Cost		best_cost = 0;
	ListCell   *lc;

	foreach(lc, subplans)
	{
		SubPlan    *subplan = lfirst_node(SubPlan, lc);
		Cost		cost = subplan->startup_cost + times * subplan->per_call_cost;

		if (best == NULL || cost <= best_cost)
		{
			best = subplan;
			best_cost = cost;
		}
	}
	return best;
}

/* Leave each subquery in an expression one plan. Which ones are used, setrefs.c notes where it finds the choice. */
static Node *
choose_plans(Node *node, void *context)
{
	const double *times = context;

	if (node == NULL)
		return NULL;
	if (IsA(node, AlternativeSubPlan))
	{
		AlternativeSubPlan *result = makeNode(AlternativeSubPlan);
		SubPlan    *best = cheapest_plan(((AlternativeSubPlan *) node)->subplans, *times);

		result->subplans = list_make1(expression_tree_mutator((Node *) best, choose_plans, context));
		return (Node *) result;
	}
	return expression_tree_mutator(node, choose_plans, context);
}

/*
 * Terms in the order in which PostgreSQL applies them: order_qual_clauses(). Of
 * subqueries with several plans that one is chosen which it would take in a scan
 * or join that returns this number of rows: NUM_EXEC_QUAL(). Our scan may return
 * groups, far fewer.
 */
List *
vector_ordered_terms(PlannerInfo *root, List *restrictinfos, double rows)
{
	List	   *result = NIL;
	List	   *costs = NIL;
	ListCell   *lc;

	foreach(lc, restrictinfos)
	{
		RestrictInfo *rinfo = lfirst_node(RestrictInfo, lc);
		QualCost	cost;
		Cost	   *own = palloc(sizeof(Cost));
		int			position = list_length(costs);

		cost_qual_eval_node(&cost, (Node *) rinfo, root);
		*own = cost.per_tuple;
		/* stable: behind all that cost as much */
		while (position > 0 && *(Cost *) list_nth(costs, position - 1) > *own)
			position--;
		costs = list_insert_nth(costs, position, own);
		result = list_insert_nth(result, position, rinfo->clause);
	}
	if (root->hasAlternativeSubPlans)
	{
		double		times = rows * 2;

		result = (List *) choose_plans((Node *) result, &times);
	}

	return result;
}

/* How many rows the first n terms leave. */
double
vector_rows_left(PlannerInfo *root, RelOptInfo *rel, List *terms, int n)
{
	if (n == list_length(terms))
		return rel->rows;
	return rel->tuples * clauselist_selectivity(root, list_copy_head(terms, n), 0, JOIN_INNER, NULL);
}

/* Does a term need what a batch does not have: a system column, a row as a whole, or what outer joins may make NULL? */
static bool
needs_more_than_columns(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, PlaceHolderVar) || (IsA(node, Var) && ((Var *) node)->varattno <= 0))
		return true;
	return expression_tree_walker(node, needs_more_than_columns, context);
}

/*
 * Count how many of the terms, from the first on, are kernels' as a whole, and
 * how many can raise no error.
 */
static void
count_terms(PlannerInfo *root, RelOptInfo *rel, List *terms, int *kernels, int *certain)
{
	MemoryContext work = AllocSetContextCreate(CurrentMemoryContext, "pgbillion filter", ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(work);

	/* the planner holds a lock */
	Relation	table = table_open(planner_rt_fetch(rel->relid, root)->relid, NoLock);
	bool		all_kernels = true;
	bool		all_certain = true;
	ListCell   *lc;

	*kernels = 0;
	*certain = 0;
	foreach(lc, terms)
	{
		bool		is_certain = false;
		bool		is_kernel = !needs_more_than_columns(lfirst(lc), NULL) &&
			vector_filter_is_certain_kernel(lfirst(lc), RelationGetDescr(table), &is_certain);

		all_kernels &= is_kernel;
		all_certain &= is_certain;
		*kernels += all_kernels;
		*certain += all_certain;
		if (!all_kernels && !all_certain)
			break;
	}
	table_close(table, NoLock);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(work);
}

/* How far from the processor memory of this size is: 0 is near, 1 is far. */
double
vector_distance(double bytes)
{
	return Max(Min(log2(bytes / JOIN_NEAR_BYTES) / log2(JOIN_FAR_BYTES / JOIN_NEAR_BYTES), 1), 0);
}

/* Cost of reading a row. */
Cost
vector_read_cost(void)
{
	return cpu_tuple_cost * KERNEL_COST_FACTOR;
}

/*
 * What pages cost of which rows are fetched, as in PostgreSQL's bitmap scans, from this share of a table's blocks.
 */
Cost
vector_fetch_pages_cost(RelOptInfo *rel, double share, double rows)
{
	double		pages = Max(rel->pages * share, 1);
	double		fetched = Min(2 * pages * rows / (2 * pages + rows), pages);
	double		random_cost;
	double		page_cost;

	get_tablespace_page_costs(rel->reltablespace, &random_cost, &page_cost);
	return fetched * (random_cost - (random_cost - page_cost) * sqrt(fetched / pages));
}

/*
 * What a row of the heap that is in memory takes beyond that: wide ones are
 * fetched from far memory in several pieces.
 */
Cost
vector_wait_cost(PlannerInfo *root, RelOptInfo *rel)
{
	double		bytes = (double) rel->pages * BLCKSZ;

	if (!vector_tables_in_memory(root))
		return 0;
	return vector_distance(bytes) * LINE_COST * Min(bytes / CACHE_LINE / Max(rel->tuples, 1), MOST_LINES);
}

/* What is known of a table's filter. */
typedef struct FilterMemo
{
	bool		by_row;			/* PostgreSQL evaluates a term of it */
	Cost		cost;			/* of a row, with reading it, as far as
								 * kernels go */
	Cost		others;			/* of a row, of the terms that PostgreSQL
								 * evaluates */
	Cost		core;			/* of a row in a scan of PostgreSQL's, without */
	Cost		startup;		/* of subqueries that are hashed */
	bool		has_subqueries;
	List	   *terms;			/* in order */
	int			nkernels;		/* how many kernels evaluate */
	int			ncertain;		/* how many, from the first on, raise no error */
	double	   *left;			/* rows that the first n of them leave; -1:
								 * not known yet */
} FilterMemo;

/* From this number of elements on PostgreSQL looks values up in a hash table (its MIN_ARRAY_SIZE_FOR_HASHED_SAOP). */
#define HASHED_ELEMENTS 9

/* The elements of a constant array that are compared one by one; 0 if they are not, or not known. */
static int
elements_compared(Node *array)
{
	ArrayType  *value;
	int			n;

	if (!IsA(array, Const) || ((Const *) array)->constisnull)
		return 0;
	value = DatumGetArrayTypeP(((Const *) array)->constvalue);
	n = ArrayGetNItems(ARR_NDIM(value), ARR_DIMS(value));

	return n < HASHED_ELEMENTS ? n : 0;
}

/* Add what comparisons take in PostgreSQL beyond what they cost it. */
static bool
add_comparisons(Node *node, void *context)
{
	Cost	   *cost = context;
	List	   *args = NIL;
	int			elements = 0;

	if (node == NULL)
		return false;
	if (IsA(node, OpExpr))
		args = ((OpExpr *) node)->args;
	else if (IsA(node, ScalarArrayOpExpr))
	{
		args = ((ScalarArrayOpExpr *) node)->args;
		elements = elements_compared(lsecond(args));
	}
	*cost += ELEMENT_COST * elements;
	/* these are unpacked each time */
	if (args != NIL && get_typlen(exprType(linitial(args))) == -1)
		*cost += VARIABLE_LENGTH_COST + VARIABLE_ELEMENT_COST * elements;
	return expression_tree_walker(node, add_comparisons, context);
}

/* Cost of a term for each of `rows` rows for which it is evaluated, and, added to *startup, once. */
static Cost
term_cost(PlannerInfo *root, Node *term, double rows, Cost *startup)
{
	SubqueryCosts subqueries = {0};
	QualCost	cost;
	Cost		comparisons = 0;

	cost_qual_eval_node(&cost, term, root);
	(void) add_comparisons(term, &comparisons);
	if (contain_subplans(term))
		subqueries = vector_subquery_costs(root, term, rows);
	*startup += cost.startup - subqueries.planned_startup + subqueries.taken_startup;
	return cost.per_tuple + comparisons - subqueries.planned + subqueries.taken;
}

/* How many rows the first n terms of a table's filter leave, in whichever plans of subqueries the others have. */
static double
rows_left_by(PlannerInfo *root, RelOptInfo *rel, FilterMemo *known, int n)
{
	if (known->left[n] < 0)
		known->left[n] = vector_rows_left(root, rel, known->terms, n);
	return known->left[n];
}

/*
 * Cost for a row of the terms of a table's filter from the n-th on, as
 * PostgreSQL evaluates them for a number of its rows: `among`, of which the
 * filter keeps all that it keeps, and it comes to this share of them.
 * PostgreSQL takes all terms to be evaluated for each row. That is about right,
 * except where one is a subquery, which comes behind what costs less. What
 * subqueries take once is added to *startup.
 */
static Cost
by_row_cost(PlannerInfo *root, RelOptInfo *rel, FilterMemo *known, List *terms, int n, double among, double share,
			Cost *startup)
{
	Cost		cost = 0;
	double		left = n == 0 ? 1 : rows_left_by(root, rel, known, n) / Max(among, 1);
	bool		found = false;
	ListCell   *lc;

	for_each_from(lc, terms, n)
	{
		if (!found && contain_subplans(lfirst(lc)))
		{
			left = Min(rows_left_by(root, rel, known, foreach_current_index(lc)) / Max(among, 1), 1);
			found = true;
		}
		cost += term_cost(root, lfirst(lc), Min(left * among * share, rel->tuples), startup) * left;
	}
	return cost;
}

/* Kernels are cheaper; from the first term on that has none, PostgreSQL's costs hold. */
static FilterMemo *
memo_of_filter(PlannerInfo *root, RelOptInfo *rel)
{
	FilterMemo *known = planner_memo_find(root, MEMO_FILTER, rel);
	MemoryContext old;
	List	   *terms;
	int			n;
	QualCost	ours;
	Cost		startup = 0;

	if (known != NULL)
		return known;
	known = planner_memo_make(root, MEMO_FILTER, rel, sizeof(FilterMemo));
	old = MemoryContextSwitchTo(root->planner_cxt);
	terms = vector_ordered_terms(root, rel->baserestrictinfo, rel->rows);
	count_terms(root, rel, terms, &known->nkernels, &known->ncertain);
	n = known->nkernels;
	known->terms = terms;
	known->by_row = n < list_length(terms);
	known->has_subqueries = contain_subplans((Node *) terms);
	known->left = palloc(sizeof(double) * (list_length(terms) + 1));
	for (int i = 0; i <= list_length(terms); i++)
		known->left[i] = -1;
	cost_qual_eval(&ours, list_copy_head(terms, n), root);
	known->cost = vector_read_cost() + ours.per_tuple * TERM_COST_FACTOR;
	known->others = by_row_cost(root, rel, known, terms, n, rel->tuples, 1, &known->startup);
	known->core = by_row_cost(root, rel, known, terms, 0, rel->tuples, 1, &startup);
	MemoryContextSwitchTo(old);

	return known;
}

/*
 * Cost of filtering a row of a table in a scan of PostgreSQL's that each of
 * `times` times fetches a number of rows. If it returns few, PostgreSQL takes
 * other plans of subqueries. What it looks for by rows of others has nothing to
 * do with the filter.
 */
Cost
vector_core_filter_cost(PlannerInfo *root, Path *path, double fetched, double times)
{
	RelOptInfo *rel = path->parent;
	double		among = path->param_info != NULL ? rel->tuples : fetched;
	FilterMemo *known;
	Cost		startup = 0;

	if (rel->baserestrictinfo == NIL)
		return 0;
	known = memo_of_filter(root, rel);
	if (fetched >= rel->tuples || !known->has_subqueries)
		return known->core;
	return by_row_cost(root, rel, known, vector_ordered_terms(root, rel->baserestrictinfo, path->rows), 0, among,
					   fetched * times / Max(among, 1), &startup);
}

/* What a table's filter takes before the first row, in a scan of all rows: subqueries that are hashed. */
Cost
vector_filter_startup_cost(PlannerInfo *root, RelOptInfo *rel)
{
	return rel->baserestrictinfo == NIL ? 0 : memo_of_filter(root, rel)->startup;
}

/* Cost of reading a row of a table, and of filtering it by kernels. */
Cost
vector_filter_cost(PlannerInfo *root, RelOptInfo *rel)
{
	return rel->baserestrictinfo == NIL ? vector_read_cost() : memo_of_filter(root, rel)->cost;
}

/*
 * Cost for a row of a table of what of its filter PostgreSQL evaluates for those
 * that kernels leave, if joins leave this share of rows before that. The fewer
 * they are, the more of the values that they pass to subqueries are new.
 */
Cost
vector_others_cost(PlannerInfo *root, RelOptInfo *rel, double share)
{
	FilterMemo *known;
	Cost		startup = 0;

	if (rel->baserestrictinfo == NIL)
		return 0;
	known = memo_of_filter(root, rel);
	if (share >= 1 || !known->has_subqueries)
		return known->others;
	return by_row_cost(root, rel, known, known->terms, known->nkernels, rel->tuples, share, &startup);
}

/*
 * How many of vector_ordered_terms() of a table's filter, from the first on, have
 * kernels that can raise no error?
 */
int
vector_certain_terms(PlannerInfo *root, RelOptInfo *rel)
{
	return rel->baserestrictinfo == NIL ? 0 : memo_of_filter(root, rel)->ncertain;
}

/* Does PostgreSQL evaluate a term of a table's filter, row by row? */
bool
vector_filters_by_row(PlannerInfo *root, RelOptInfo *rel)
{
	return rel->baserestrictinfo != NIL && memo_of_filter(root, rel)->by_row;
}

/* What a condition of a join costs. */
const PairCost *
vector_pair_cost(PlannerInfo *root, RestrictInfo *condition)
{
	PairCost   *known = planner_memo_find(root, MEMO_PAIR, condition);

	if (known == NULL)
	{
		known = planner_memo_make(root, MEMO_PAIR, condition, sizeof(PairCost));
		known->cost = term_cost(root, (Node *) condition->clause, 0, &known->startup);
		known->has_subquery = contain_subplans((Node *) condition->clause);
	}
	return known;
}

/* Cost of aggregating a row that the filter keeps. */
Cost
vector_row_cost(PlannerInfo *root, PathTarget *target)
{
	Cost		cost = 0;
	ListCell   *lc;

	foreach(lc, target->exprs)
	{
		QualCost	qual;

		/* a transition, or finding the group */
		cost += cpu_operator_cost * KERNEL_COST_FACTOR * 2;
		if (!IsA(lfirst(lc), Aggref) && !IsA(lfirst(lc), Var))
		{
			cost_qual_eval_node(&qual, lfirst(lc), root);
			cost += qual.per_tuple;
		}
	}

	return cost;
}

/* What it takes to advance the state of an aggregate beyond that, in cpu_operator_cost. */
static double
advance_time(const Aggref *aggref)
{
	switch (aggref->aggfnoid)
	{
		case F_COUNT_:
		case F_COUNT_ANY:
			return 0;
		case F_SUM_NUMERIC:
		case F_AVG_NUMERIC:
		case F_MIN_NUMERIC:
		case F_MAX_NUMERIC:
			return AGGREGATE_TIME_NUMERIC;
		default:
			if (aggref->args == NIL || get_typbyval(exprType((Node *) linitial_node(TargetEntry, aggref->args)->expr)))
				return AGGREGATE_TIME_VALUE;
			return AGGREGATE_TIME_OTHER;
	}
}

/*
 * What aggregating a row that the filter keeps takes, where vector_row_cost()
 * says what it costs: PostgreSQL's costs, with which that is compared, leave out
 * as much.
 */
Cost
vector_row_time(PathTarget *target)
{
	double		operators = 0;
	int			keys = 0;
	ListCell   *lc;

	foreach(lc, target->exprs)
	{
		Node	   *expr = lfirst(lc);

		if (IsA(expr, Aggref))
			operators += advance_time((Aggref *) expr);
		else if (!get_typbyval(exprType(expr)))
			operators += AGGREGATE_TIME_OTHER_KEY;
		else
			operators += keys == 0 ? AGGREGATE_TIME_KEY : AGGREGATE_TIME_FURTHER_KEY;
		keys += !IsA(expr, Aggref);
	}
	return operators * cpu_operator_cost;
}

/* Have a path cost this share of what it does, because a setting forces it: FORCED_COST_FACTOR, PREFERRED_COST_FACTOR. */
void
vector_force_path(Path *path, Cost factor)
{
	path->startup_cost *= factor;
	path->total_cost *= factor;
}

/* As get_parallel_divisor() has it; 1 without workers. */
double
vector_parallel_divisor(int workers)
{
	if (workers == 0)
		return 1;
	return workers + (parallel_leader_participation && workers < 4 ? 1.0 - 0.3 * workers : 0);
}

/* What it costs to write rows of groups for which there is no memory, and to read them again; measured. */
Cost
vector_spill_cost(RelOptInfo *rel, PathTarget *target, double groups)
{
	double		memory = vector_groups_memory(target, groups);
	double		limit = get_hash_memory_limit();
	double		rows;

	if (memory <= limit)
		return 0;
	rows = rel->rows * (1 - limit / memory);
	return 2 * seq_page_cost * rows * rel->reltarget->width / BLCKSZ + SPILL_ROW_COST * rows;
}

/* What waiting for memory costs a row, by the bytes of the hash table; measured. */
static Cost
waiting_cost(double bytes)
{
	return bytes <= GROUP_CACHE_BYTES ? 0 : GROUP_WAITING_COST * Min(log2(bytes / GROUP_CACHE_BYTES) / 3, 1);
}

/*
 * What it costs to look for the values of aggregates with DISTINCT in a table
 * for each of them, and to spill those for which there is no memory.
 */
Cost
vector_distinct_cost(PlannerInfo *root, RelOptInfo *rel, PathTarget *target)
{
	List	   *keys = NIL;
	Cost		cost = 0;
	ListCell   *lc;

	foreach(lc, target->exprs)
	{
		if (!IsA(lfirst(lc), Aggref))
			keys = lappend(keys, lfirst(lc));
	}
	foreach(lc, target->exprs)
	{
		Aggref	   *aggref = lfirst(lc);
		Node	   *argument;
		double		bytes;
		double		limit = get_hash_memory_limit();

		if (!IsA(aggref, Aggref) || aggref->aggdistinct == NIL)
			continue;
		argument = (Node *) linitial_node(TargetEntry, aggref->args)->expr;
		bytes = group_estimate(root, lappend(list_copy(keys), argument), rel->rows);
		if (group_key_is_bits(exprType(argument)))
			bytes *= VALUE_SET_BYTES;
		else
			bytes *= group_table_entry_bytes(keys == NIL ? 1 : 2, 0) + get_typavgwidth(exprType(argument), -1);
		cost += rel->rows * (cpu_operator_cost + waiting_cost(Min(bytes, limit)));
		if (bytes > limit)
			cost += rel->rows * (1 - limit / bytes) * (SPILL_ROW_COST + 2 * seq_page_cost * SPILLED_VALUE_BYTES / BLCKSZ);
	}
	return cost;
}

/* The ordered-set aggregates of a target, one for each list of values that is kept. */
static List *
ordered_lists(PathTarget *target)
{
	List	   *lists = NIL;
	ListCell   *lc;
	ListCell   *known;

	foreach(lc, target->exprs)
	{
		Aggref	   *aggref = lfirst(lc);
		bool		found = false;

		if (!IsA(aggref, Aggref) || !ordered_set_is_known(aggref))
			continue;
		foreach(known, lists)
			found |= equal(lfirst_node(Aggref, known)->args, aggref->args) &&
			equal(lfirst_node(Aggref, known)->aggfilter, aggref->aggfilter);
		if (!found)
			lists = lappend(lists, aggref);
	}
	return lists;
}

/* Bytes of memory that the values of an ordered-set aggregate take; those of the largest group are copied. */
static double
ordered_memory(double rows, double groups)
{
	double		in_group = rows / Max(groups, 1);

	/* half of the last chunk of a group is used */
	return ORDERED_VALUE_BYTES * (rows + in_group + groups * Min(in_group, ORDERED_CHUNK_VALUES) / 2) +
		ORDERED_GROUP_BYTES * groups;
}

/*
 * What it costs to keep the values of ordered-set aggregates, in files if they
 * are more than what their share of the memory is for, and to look for their
 * results.
 */
Cost
vector_ordered_cost(PathTarget *target, double rows, double groups)
{
	List	   *lists = ordered_lists(target);
	double		shares = list_length(lists);
	double		bytes = ordered_memory(rows, groups);
	Cost		cost;
	ListCell   *lc;

	if (lists == NIL)
		return 0;
	foreach(lc, target->exprs)
	{
		if (!IsA(lfirst(lc), Aggref))
		{
			shares += 1;
			break;
		}
	}
	cost = rows * (ORDERED_VALUE_COST + waiting_cost(groups * ORDERED_GROUP_BYTES));
	if (bytes * shares > get_hash_memory_limit())
		cost += rows * (ORDERED_SPILLED_COST + 2 * seq_page_cost * ORDERED_VALUE_BYTES / BLCKSZ);
	cost *= list_length(lists);
	foreach(lc, target->exprs)
	{
		Aggref	   *aggref = lfirst(lc);

		if (IsA(aggref, Aggref) && aggref->aggfnoid == F_MODE)
			cost += rows * ORDERED_MODE_COST;
	}
	return cost;
}

/*
 * What it costs a process to put a number of groups into temporary files, and
 * to take and merge as many: an estimate, of the order of handling a tuple twice.
 */
Cost
vector_exchange_cost(double groups)
{
	return STARTUP_COST + cpu_tuple_cost * groups;
}

/* How many pairs of a group and a value there are where one argument is to be DISTINCT. */
double
vector_distinct_pairs(PlannerInfo *root, RelOptInfo *rel, PathTarget *target)
{
	List	   *keys = NIL;
	ListCell   *lc;

	foreach(lc, target->exprs)
	{
		if (!IsA(lfirst(lc), Aggref))
			keys = lappend(keys, lfirst(lc));
	}
	keys = lappend(keys, regroup_argument(target->exprs));

	return group_estimate(root, keys, rel->rows);
}

/*
 * What it costs a process to group its rows by pairs of key and value, exchange the pairs, and group these by the keys:
 * for each row what a table of groups costs, and for each pair what a second one does.
 */
Cost
vector_shared_distinct_cost(RelOptInfo *rel, PathTarget *target, double pairs, int workers)
{
	double		divisor = vector_parallel_divisor(workers);
	double		rows = rel->rows / divisor;
	double		own = Min(pairs, rows);
	double		bytes = Min(vector_groups_memory(target, own), get_hash_memory_limit());

	return vector_exchange_cost(own) + rows * (cpu_operator_cost + waiting_cost(bytes)) + pairs / divisor * cpu_tuple_cost;
}

/*
 * Add what waiting for memory costs in a table of groups that outgrows the
 * caches. PostgreSQL does not count that in its own table, where it is longer:
 * it must not make our path more expensive than the `others`.
 */
void
vector_add_waiting_cost(Path *path, PathTarget *target, List *others, double rows, double groups)
{
	double		bytes = Min(vector_groups_memory(target, groups), get_hash_memory_limit());
	Cost		waiting;
	ListCell   *lc;

	if (bytes <= GROUP_CACHE_BYTES)
		return;
	waiting = rows * waiting_cost(bytes);
	foreach(lc, others)
	{
		Path	   *other = lfirst(lc);

		if (IsA(other, AggPath) && ((AggPath *) other)->aggstrategy == AGG_HASHED &&
			((AggPath *) other)->aggsplit == AGGSPLIT_SIMPLE)
			waiting = Min(waiting, Max(0.9 * other->total_cost - path->total_cost, 0));
	}
	path->startup_cost += waiting;
	path->total_cost += waiting;
}

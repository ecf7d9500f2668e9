/*-------------------------------------------------------------------------
 *
 * join_chain.c
 *	  A chain of joins along a table: its steps, and what they cost.
 *
 * The table may stand for several tables: those of a partitioned one, of one
 * with children, or of a UNION ALL. Then each of these is joined on its own, and
 * an Append of PostgreSQL's is above. So each is read from its own pages or
 * columnar index, and keys of the joins remove rows in every scan. Inner sides
 * are read once for each of the tables: they must give the same rows every time.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "access/htup_details.h"
#include "optimizer/appendinfo.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/tlist.h"
#include "utils/spccache.h"

#include "column_index/column_index.h"
#include "compat.h"
#include "planner/planner.h"
#include "vector/batch.h"
#include "vector/plan/branch.h"
#include "vector/plan/cost_model.h"
#include "vector/plan/join_chain.h"
#include "vector/plan/plan.h"

/* More columns than that cannot be described. */
#define MAX_ATTRIBUTES MaxHeapAttributeNumber

/* ---- the table ---- */

/* Divide the columns that are needed of a table into those that other joins than the last one may look at, and others. */
static void
divide_columns(RelOptInfo *table, List *columns, List **looked_at, List **outputs)
{
	ListCell   *lc;

	*looked_at = *outputs = NIL;
	foreach(lc, columns)
	{
		Relids		needed = table->attr_needed[lfirst_node(Var, lc)->varattno - table->min_attr];

		/* 0 is what is returned */
		if (bms_is_member(0, needed) && bms_membership(needed) == BMS_SINGLETON)
			*outputs = lappend(*outputs, lfirst(lc));
		else
			*looked_at = lappend(*looked_at, lfirst(lc));
	}
}

/*
 * Estimate what the table costs in a columnar index that has all columns that
 * are needed of it, or those that joins look at.
 */
static void
appraise_column_index(PlannerInfo *root, JoinChain *chain)
{
	Cost		row = chain->row + chain->terms + chain->wait;
	List	   *looked_at;
	List	   *outputs;
	List	   *late;
	List	   *columns;
	ListCell   *lc;
	Oid			index;

	chain->column_pages = chain->pages;
	chain->column_share = chain->others_factor = 1;
	if (!chain->has_column_index || row <= 0)
		return;

	/*
	 * if it is all that a subquery reads, PostgreSQL has the subquery's
	 * columns here by now
	 */
	columns = pull_var_clause((Node *) chain->table->reltarget->exprs, PVC_INCLUDE_PLACEHOLDERS);
	chain->ncolumns = list_length(columns);
	foreach(lc, columns)
	{
		if (!IsA(lfirst(lc), Var) || lfirst_node(Var, lc)->varattno <= 0)
			return;
	}
	index = vector_choose_column_index(root, chain->table, columns, chain->wait, &chain->column_pages, &row);
	if (!OidIsValid(index))
	{
		/* what else needs columns of a part is with the table that it is of */
		if (chain->table->reloptkind != RELOPT_BASEREL)
			return;
		divide_columns(chain->table, columns, &looked_at, &outputs);
		index = vector_choose_late_index(root, chain->table, looked_at, outputs, 0, chain->wait, &chain->column_pages,
										 &row, &late);
		chain->late = OidIsValid(index);
	}
	chain->others_factor = vector_index_others_factor(chain->table, index);
	chain->others *= chain->others_factor;
	chain->column_share = row / (chain->row + chain->terms + chain->wait);
	/* that where rows are is a column, too */
	chain->natts += chain->late;
}

/* Begin a chain with a table that is read itself. It is in the current context. */
JoinChain *
join_chain_begin(PlannerInfo *root, RelOptInfo *table)
{
	JoinChain  *chain = palloc0(sizeof(JoinChain));
	double		page_cost;

	chain->root = root;
	chain->table = chain->joined = table;
	get_tablespace_page_costs(table->reltablespace, NULL, &page_cost);
	chain->tuples = table->tuples;
	chain->npages = table->pages;
	chain->pages = cached_sequential_page_cost(root, page_cost) * table->pages;
	chain->row = vector_read_cost();
	chain->terms = vector_filter_cost(root, table) - chain->row;
	chain->others = vector_others_cost(root, table, 1);
	chain->wait = vector_wait_cost(root, table) + vector_reach_cost(root, table, true);
	chain->own = vector_filter_startup_cost(root, table);
	chain->share = chain->place = 1;
	chain->natts = table->max_attr;
	chain->has_column_index = vector_has_column_index(table);
	appraise_column_index(root, chain);

	return chain;
}

/* The chain of the rows of a subquery as that of a branch of a UNION ALL; is that safe for workers? */
JoinChain *
join_chain_of_branch(const JoinChain *chain, RelOptInfo *branch, bool safe)
{
	JoinChain  *result = palloc(sizeof(JoinChain));

	Assert(!chain->has_branches);
	*result = *chain;
	result->branch = branch;
	result->serial = !safe;

	return result;
}

/*
 * Begin a chain with a table that stands for several, which are these chains:
 * what it costs is what all of them do. Those of branches may have joins already.
 */
JoinChain *
join_chain_begin_parts(PlannerInfo *root, RelOptInfo *table, List *parts)
{
	JoinChain  *chain = palloc0(sizeof(JoinChain));
	Cost		terms = 0;
	Cost		others = 0;
	Cost		wait = 0;
	Cost		rows = 0;
	Cost		column_rows = 0;
	ListCell   *lc;

	chain->root = root;
	chain->table = chain->joined = table;
	chain->parts = parts;
	chain->row = vector_read_cost();
	chain->share = chain->place = 1;
	foreach(lc, parts)
	{
		const JoinChain *part = lfirst(lc);
		Cost		part_terms = part->terms * part->share + JOIN_KEY_TEST_COST * part->tests;

		chain->ntables += Max(part->ntables, 1);
		chain->has_branches |= part->branch != NULL;
		chain->serial |= part->serial;
		chain->own += part->own + STARTUP_COST * part->nsteps;
		chain->shared += part->shared;
		chain->tuples += part->tuples;
		chain->npages += part->npages;
		chain->pages += part->pages;
		chain->column_pages += part->column_pages;
		chain->has_column_index |= part->has_column_index;
		chain->natts = Max(chain->natts, part->natts);
		chain->ncolumns = Max(chain->ncolumns, part->ncolumns);
		terms += part_terms * part->tuples;
		others += part->others * part->share * part->tuples;
		wait += part->wait * part->tuples;
		rows += (part->row + part_terms + part->wait) * part->tuples;
		column_rows += (part->row + part_terms + part->wait) * part->tuples * part->column_share;
	}
	chain->terms = terms / Max(chain->tuples, 1);
	chain->others = others / Max(chain->tuples, 1);
	chain->wait = wait / Max(chain->tuples, 1);
	chain->column_share = rows > 0 ? column_rows / rows : 1;

	return chain;
}

/* ---- steps ---- */

/* Add what a further step costs. Keys that go down save the steps before theirs the rows that they remove. */
static void
add_step(JoinChain *chain, const JoinStep *step)
{
	chain->nsteps++;
	chain->natts += list_length(step->inner->pathtarget->exprs);
	chain->own += join_step_own_cost(step, 1) * Max(chain->ntables, 1) + JOIN_NODE_COST * step->nodes * chain->ntables;
	chain->shared = (chain->shared + step->probe) * step->left + step->pairs;
	chain->share *= step->left;
	chain->place = Min(chain->place, step->place);
	if (chain->others > 0 && step->left < 1 && chain->ntables == 0)
		chain->others = vector_others_cost(chain->root, chain->table, chain->share) * chain->others_factor;
	chain->tests += step->left < 1;
}

/* Estimate in *longer what a chain would be with a further step; false if it cannot have it. */
bool
join_chain_try_longer(const JoinChain *chain, const JoinStep *step, JoinChain *longer)
{
	*longer = *chain;
	longer->indexed_for = NULL;
	add_step(longer, step);
	return longer->natts <= MAX_ATTRIBUTES;
}

/* Prolong a chain by a step, which it can have. The result is in the current context, and refers to both. */
JoinChain *
join_chain_make_longer(JoinChain *chain, RelOptInfo *joined, JoinStep *step)
{
	JoinChain  *longer = palloc(sizeof(JoinChain));
	bool		possible PG_USED_FOR_ASSERTS_ONLY = join_chain_try_longer(chain, step, longer);

	Assert(possible);
	longer->previous = chain;
	longer->step = step;
	longer->joined = joined;
	longer->parts = NIL;

	return longer;
}

/* The steps of a chain, from the table on. */
List *
join_chain_steps(const JoinChain *chain)
{
	List	   *steps = NIL;

	for (; chain->previous != NULL; chain = chain->previous)
		steps = lcons(chain->step, steps);
	return steps;
}

/* ---- several tables ---- */

/* The inner sides of a part that are those of the query around it. */
static List *
inners_around(const JoinChain *part)
{
	List	   *inners = NIL;
	ListCell   *lc;

	foreach(lc, join_chain_steps(part))
	{
		const JoinStep *step = lfirst(lc);

		if (step->around != NULL)
			inners = lappend(inners, step->around);
	}
	return inners;
}

/* What a part is to the query around. */
static RelOptInfo *
rel_of_part(const JoinChain *part)
{
	return part->branch != NULL ? part->branch : part->table;
}

/* Expressions over the table that a chain begins with, said in columns of one of those that it stands for. */
static List *
exprs_of_part(PlannerInfo *root, List *exprs, const JoinChain *part, List *inners, RelOptInfo *table)
{
	exprs = (List *) adjust_appendrel_attrs_to_child(root, (Node *) exprs, rel_of_part(part), table);
	return part->branch != NULL ? branch_exprs(part->branch, inners, exprs) :
		inners != NIL ? branch_exprs_again(inners, exprs) : exprs;
}

/* The same of a target. */
PathTarget *
join_chain_part_target(PlannerInfo *root, const JoinChain *part, RelOptInfo *table, PathTarget *target)
{
	List	   *inners = inners_around(part);

	target = planner_leaf_target(root, target, rel_of_part(part), table);
	if (part->branch != NULL)
		return branch_target(part->branch, inners, target);
	if (inners != NIL)
	{
		target = copy_pathtarget(target);
		target->exprs = branch_exprs_again(inners, target->exprs);
	}
	return target;
}

/* A step in terms of one of the tables that the chain's stands for, which has that share of the rows. */
static JoinStep *
step_of_part(PlannerInfo *root, const JoinStep *step, const JoinChain *part, RelOptInfo *table, double share)
{
	JoinStep   *result = palloc(sizeof(JoinStep));
	List	   *inners = NIL;

	*result = *step;
	if (part->branch != NULL)
		result->around = branch_add_inner(root, part->branch->subroot, step->inner);
	else if (step->around != NULL)
		result->around = branch_add_inner_again(root, step->around);
	if (result->around != NULL)
		inners = lappend(inners_around(part), result->around);

	/*
	 * not all processes come to each of the tables, as they would have to in
	 * order to run an inner side together
	 */
	result->partial = NULL;
	result->clauses = exprs_of_part(root, step->clauses, part, inners, table);
	result->quals = exprs_of_part(root, step->quals, part, inners, table);
	result->others = exprs_of_part(root, step->others, part, inners, table);
	result->inner_cost += JOIN_NODE_COST * step->nodes;
	result->probe *= share;
	result->pairs *= share;

	return result;
}

/* The relations of a part's chain, which is prolonged by a step. */
static Relids
relids_of_part(RelOptInfo *joined, const JoinChain *part, const JoinStep *step, RelOptInfo *table)
{
	if (step->around != NULL)
		return bms_add_member(bms_copy(part->joined->relids), step->around->relid);
	return bms_add_members(bms_difference(joined->relids, table->relids), part->table->relids);
}

/*
 * What a chain gives of one of the tables that its own stands for, as a relation
 * that has no paths; of the part, prolonged by a step.
 */
static RelOptInfo *
joined_of_part(PlannerInfo *root, RelOptInfo *joined, const JoinChain *part, const JoinChain *longer, RelOptInfo *table,
			   double share)
{
	RelOptInfo *result = makeNode(RelOptInfo);

	memcpy(result, joined, sizeof(RelOptInfo));
	result->relids = relids_of_part(joined, part, longer->step, table);
	result->rows = clamp_row_est(joined->rows * share);
	result->reltarget = join_chain_part_target(root, longer, table, joined->reltarget);
	result->pathlist = result->partial_pathlist = NIL;
	result->cheapest_total_path = result->cheapest_startup_path = NULL;

	return result;
}

/*
 * The chains of the tables that a chain's table stands for, in PostgreSQL's
 * order; NIL if that is read itself. They are made once.
 */
List *
join_chain_parts(PlannerInfo *root, JoinChain *chain)
{
	double		rows = 0;
	List	   *shorter;
	ListCell   *lc;

	if (chain->ntables == 0 || chain->parts != NIL)
		return chain->parts;
	shorter = join_chain_parts(root, chain->previous);
	foreach(lc, shorter)
		rows += rel_of_part(lfirst(lc))->rows;
	foreach(lc, shorter)
	{
		JoinChain  *part = lfirst(lc);
		double		share = rel_of_part(part)->rows / Max(rows, 1);
		JoinStep   *step = step_of_part(root, chain->step, part, chain->table, share);
		JoinChain  *longer = join_chain_make_longer(part, NULL, step);

		longer->joined = joined_of_part(root, chain->joined, part, longer, chain->table, share);
		chain->parts = lappend(chain->parts, longer);
	}
	return chain->parts;
}

/* ---- what a chain costs ---- */

/* What reading the table costs: its pages, and each row, of which keys that go down remove some first. */
void
join_chain_scan_cost(const JoinChain *chain, Cost *pages, Cost *row)
{
	*pages = chain->pages;
	*row = chain->row + chain->wait + JOIN_KEY_TEST_COST * chain->tests + chain->terms * chain->share;
}

/*
 * What the tests of keys that go down cost in a columnar index beyond their part
 * of what a row does, and loading the columns of the rows that they leave.
 */
Cost
join_chain_tests_cost(const JoinChain *chain)
{
	double		left;

	if (chain->tests == 0 || chain->column_share >= 1)
		return 0;
	left = 1 - pow(1 - Min(chain->share, 1), BATCH_ROWS);
	return chain->tuples * (1 - chain->column_share) *
		(JOIN_KEY_TEST_COST + JOIN_LOAD_COST * chain->ncolumns * left);
}

/* The share of a columnar index that is read: segments where no key of a join is are skipped. */
double
join_chain_segments_read(const JoinChain *chain)
{
	return Min(chain->place + COLUMNS_MAX_BLOCKS / Max(chain->npages, 1), 1);
}

/* What is done with rows that have been read, by whichever process reads them: conditions of PostgreSQL's, and joins. */
static Cost
shared_cost(const JoinChain *chain)
{
	return chain->others * chain->share * chain->tuples + chain->shared;
}

/* How many rows of a table are likely among those of a join, each of them once. */
double
join_chain_rows_fetched(PlannerInfo *root, RelOptInfo *table, RelOptInfo *joined)
{
	return Min(joined->rows * cached_rows_factor(root, joined), table->rows * cached_rows_factor(root, table));
}

/*
 * Cost of all that happens before the rows of the joins are used, in one process.
 * Of these rows, those of `joined`, late columns are fetched; NULL: of those of
 * further joins.
 */
Cost
join_chain_cost(PlannerInfo *root, const JoinChain *chain, RelOptInfo *joined)
{
	Cost		pages;
	Cost		row;
	Cost		reading;

	join_chain_scan_cost(chain, &pages, &row);
	reading = chain->column_pages + row * chain->column_share * chain->tuples + join_chain_tests_cost(chain);
	if (chain->column_share < 1)
		reading *= join_chain_segments_read(chain);
	if (chain->late && joined != NULL)
		reading = Min(reading + cached_fetch_cost(root, chain->table,
												  LATE_ROWS_FACTOR * join_chain_rows_fetched(root, chain->table, joined)),
					  pages + row * chain->tuples);
	return reading + chain->own + shared_cost(chain);
}

/* The same in each of `divisor` processes, of a chain of several tables. */
Cost
join_chain_shared_cost(PlannerInfo *root, const JoinChain *chain, double divisor)
{
	Cost		pages;
	Cost		row;
	Cost		rows;

	Assert(chain->ntables > 0);
	join_chain_scan_cost(chain, &pages, &row);
	pages = chain->column_pages;
	/* to PostgreSQL, reading takes as long however many read */
	if (vector_tables_in_memory(root))
		pages /= divisor;
	rows = row * chain->column_share * chain->tuples + join_chain_tests_cost(chain);
	if (chain->column_share < 1)
	{
		pages *= join_chain_segments_read(chain);
		rows *= join_chain_segments_read(chain);
	}
	return pages + chain->own + (rows + shared_cost(chain)) / divisor;
}

/* What the joins of a chain cost each of `divisor` processes, which puts all rows of the inner sides into tables. */
Cost
join_chain_joins_cost(const JoinChain *chain, double divisor)
{
	Cost		own = chain->own;

	Assert(chain->ntables == 0);
	if (divisor > 1)
	{
		own = 0;
		for (const JoinChain *one = chain; one->previous != NULL; one = one->previous)
			own += join_step_own_cost(one->step, divisor);
	}
	return own + shared_cost(chain) / divisor;
}

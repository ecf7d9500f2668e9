/*-------------------------------------------------------------------------
 *
 * filter.c
 *	  Which rows of a batch are kept: the table of kernels, and the terms.
 *
 * The terms of a filter are applied one after the other, in PostgreSQL's
 * order, each to the rows that survived those before it. A list of these is
 * kept until the batch is worth compacting. A term for which there is no
 * kernel is evaluated by PostgreSQL's expression code.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "nodes/bitmapset.h"
#include "optimizer/optimizer.h"

#include "planner/arithmetic.h"
#include "vector/filter/filter.h"
#include "vector/filter/predicate.h"

static const PredicateKernel *const kernels[] = {
	&compare_kernel,
	&like_kernel,
	&in_kernel,
	&in_text_kernel,
	&null_kernel,
	&boolean_kernel,
	&logic_kernel,
};

typedef struct Term
{
	Predicate  *predicate;		/* or NULL */
	ByRow		by_row;			/* for terms without, and for batches that are
								 * not for it */
} Term;

struct VectorFilter
{
	int			nterms;
	Term	   *terms;
	int			seen;			/* rows of late */
	int			passed;			/* of these, rows that passed the first term */
	bool		selective;		/* few did: load only what it needs */
	int			nclauses;		/* before some were merged */
	int			nkernels;		/* of these */
};

/* ---- compilation ---- */

/* Compile a condition, or return NULL if PostgreSQL has to evaluate it. */
static Predicate *
compile(Expr *expr, const PredicateContext *context)
{
	expr = strip_relabel(expr);
	for (int i = 0; i < lengthof(kernels); i++)
	{
		Predicate  *result = kernels[i]->compile(expr, context);

		if (result != NULL)
			return result;
	}
	return NULL;
}

/* Make two terms next to each other one, if that can be. */
static bool
merge(Predicate *first, Predicate *second)
{
	return first != NULL && first->kernel == second->kernel && first->kernel->merge != NULL &&
		first->kernel->merge(first, second);
}

/*
 * Compile a filter from its terms, in the order in which they are to be
 * applied. Memory belongs to the current context.
 */
VectorFilter *
vector_filter_compile(List *clauses, Batch *batch)
{
	VectorFilter *filter = palloc0(sizeof(VectorFilter));
	PredicateContext context = {.batch = batch,.top = true,.compile = compile};
	ListCell   *lc;

	filter->nclauses = list_length(clauses);
	filter->terms = palloc0(sizeof(Term) * Max(filter->nclauses, 1));
	foreach(lc, clauses)
	{
		Term	   *term = &filter->terms[filter->nterms];

		by_row_prepare(&term->by_row, lfirst(lc), batch);
		term->predicate = compile(lfirst(lc), &context);
		filter->nkernels += term->predicate != NULL;
		if (term->predicate != NULL && filter->nterms > 0 && merge(term[-1].predicate, term->predicate))
			continue;
		filter->nterms++;
	}

	return filter;
}

/* A filter for vector_filter_rows(), of one clause. */
VectorFilter *
vector_filter_compile_rows(Expr *clause, Batch *batch)
{
	return vector_filter_compile(list_make1(clause), batch);
}

/*
 * Is there a kernel for a condition on a row of this kind, and can it raise no
 * error whatever the row holds? For the planner: what is allocated in the
 * current context is the caller's to free.
 */
bool
vector_filter_is_certain(Expr *clause, TupleDesc tupdesc)
{
	Batch	   *batch = palloc0(sizeof(Batch));
	PredicateContext context = {.batch = batch,.certain = true,.compile = compile};
	Bitmapset  *attnos = NULL;
	ListCell   *lc;

	foreach(lc, pull_var_clause((Node *) clause, 0))
		attnos = bms_add_member(attnos, lfirst_node(Var, lc)->varattno);
	batch_init_columns(batch, tupdesc, attnos, NULL);
	return compile(clause, &context) != NULL;
}

/*
 * Compile a condition for eval() by its kernel, for any rows, or return NULL.
 * Memory belongs to the current context.
 */
Predicate *
vector_condition_compile(Expr *expr, Batch *batch)
{
	PredicateContext context = {.batch = batch,.compile = compile};

	return compile(expr, &context);
}

/* How many of the terms are kernels. */
void
vector_filter_kernels(VectorFilter *filter, int *kernels, int *terms)
{
	*terms = filter->nclauses;
	*kernels = filter->nkernels;
}

/* ---- evaluation ---- */

/*
 * List those of n rows of the batch for which a term is true; return how many.
 * The list may take the place of that of the rows.
 */
static int
select_term(Term *term, Batch *batch, const uint16 *rows, int n, uint16 *selected)
{
	Predicate  *predicate = term->predicate;
	uint8		truth[BATCH_ROWS];
	int			k = 0;

	if (predicate != NULL && predicate->kernel->select != NULL)
		return predicate->kernel->select(predicate, batch, rows, n, selected);
	if (predicate == NULL || !predicate->kernel->eval(predicate, batch, rows, n, truth))
	{
		for (int i = 0; i < n; i++)
		{
			bool		isnull;
			Datum		value = by_row_eval(&term->by_row, batch, rows != NULL ? rows[i] : i, &isnull);

			truth[i] = isnull ? TRUTH_NULL : DatumGetBool(value);
		}
	}
	for (int i = 0; i < n; i++)
	{
		selected[k] = rows != NULL ? rows[i] : i;
		k += truth[i] == TRUTH_TRUE;
	}

	return k;
}

/* How many rows are seen before it is decided again how to fetch columns. */
#define DECISION_ROWS 4096

/* Remove the rows from the batch that the filter does not keep; return how many. */
int
vector_filter_batch(VectorFilter *filter, Batch *batch)
{
	uint16		selected[BATCH_ROWS];
	const uint16 *rows = NULL;
	int			before = batch->n;
	int			n = batch->n;

	if (filter->selective)
		batch->source->methods->load_only(batch->source, batch, filter->terms[0].by_row.needed, filter->terms[0].by_row.nneeded);
	for (int t = 0; t < filter->nterms && n > 0; t++)
	{
		Term	   *term = &filter->terms[t];
		int			kept;

		/* do not fetch values of rows that are gone */
		if (rows != NULL && n < batch->n / 4 * 3)
		{
			bool		at_hand = true;

			for (int i = 0; i < term->by_row.nneeded; i++)
				at_hand &= batch_at_hand(batch, term->by_row.needed[i]);
			if (!at_hand)
			{
				batch_keep(batch, rows, n, false);
				rows = NULL;
			}
		}
		kept = select_term(term, batch, rows, n, selected);
		if (kept < n)
			rows = selected;
		n = kept;
		if (t == 0)
			filter->passed += kept;
	}
	filter->seen += before;
	if (filter->seen > DECISION_ROWS)
	{
		filter->selective = filter->nterms > 0 && filter->passed < filter->seen / 2;
		filter->seen = filter->passed = 0;
	}
	if (rows != NULL)
		batch_keep(batch, rows, n, true);

	return before - batch->n;
}

/* List the rows of the batch that the filter keeps; return how many. */
int
vector_filter_rows(VectorFilter *filter, Batch *batch, uint16 *rows)
{
	Assert(filter->nterms == 1);
	return select_term(&filter->terms[0], batch, NULL, batch->n, rows);
}

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

#include "executor/instrument.h"
#include "nodes/bitmapset.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
#include "utils/memutils.h"

#include "planner/arithmetic.h"
#include "vector/filter/filter.h"
#include "vector/filter/predicate.h"

static const PredicateKernel *const kernels[] = {
	&compare_kernel,
	&like_kernel,
	&in_kernel,
	&in_text_kernel,
	&in_uuid_kernel,
	&null_kernel,
	&boolean_kernel,
	&logic_kernel,
};

typedef struct Term
{
	Predicate  *predicate;		/* or NULL */
	bool		certain;		/* it raises no error, whatever a row holds */
	ByRow		by_row;			/* for batches that are not for it */
	VectorExpr *value;			/* of a term without, or NULL: by row */

	/*
	 * Of one column, and unable to raise an error: evaluated once for every
	 * value of a dictionary.
	 */
	bool		by_value;
	uint64		serial;			/* of the dictionary whose truth is known */
	uint8	   *truth;			/* of each code */
	int			room;			/* number of those that have room */
} Term;

struct VectorFilter
{
	int			nterms;
	Term	   *terms;
	int			seen;			/* rows of late */
	int			passed;			/* of these, rows that passed the first term */
	bool		selective;		/* few did: load only what it needs */
	bool		arranged;		/* terms are in the order in which they are
								 * applied */
	int			nclauses;		/* before some were merged */
	int			nkernels;		/* of these */
};

/* ---- compilation ---- */

/*
 * Does PostgreSQL have to evaluate a condition as a whole, row by row? The result
 * of a subquery is forgotten with the next row, and its hash table belongs to
 * the one expression that it has been compiled in.
 */
static bool
is_by_row(Expr *expr)
{
	return contain_subplans((Node *) expr);
}

/* Compile a condition, or return NULL if PostgreSQL has to evaluate it. */
static Predicate *
compile(Expr *expr, const PredicateContext *context)
{
	if (is_by_row(expr))
		return NULL;
	expr = planner_strip_relabel(expr);
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
	PredicateContext certain = {.batch = batch,.certain = true,.compile = compile};
	ListCell   *lc;

	filter->nclauses = list_length(clauses);
	filter->terms = palloc0(sizeof(Term) * Max(filter->nclauses, 1));
	foreach(lc, clauses)
	{
		Term	   *term = &filter->terms[filter->nterms];

		expr_by_row_prepare(&term->by_row, lfirst(lc), batch);
		term->predicate = compile(lfirst(lc), &context);
		if (term->predicate == NULL && !is_by_row(lfirst(lc)))
			term->value = vector_expr_compile(lfirst(lc), batch);
		filter->nkernels += term->predicate != NULL;
		term->certain = term->predicate != NULL && (filter->nclauses > 1 || batch->source->methods->codes != NULL) &&
			compile(lfirst(lc), &certain) != NULL;
		if (term->predicate != NULL && filter->nterms > 0 && merge(term[-1].predicate, term->predicate))
		{
			term[-1].certain &= term->certain;
			*term = (Term)
			{
				NULL
			};
			continue;
		}
		term->by_value = term->certain && term->by_row.nneeded == 1 && batch->source->methods->codes != NULL &&
			!term->predicate->of_nulls;
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

/* A batch of rows of this kind as far as a condition needs it: of which nothing is to be evaluated. */
static Batch *
batch_for_planner(Expr *clause, TupleDesc tupdesc)
{
	Batch	   *batch = palloc0(sizeof(Batch));

	batch_init_columns(batch, tupdesc, batch_attnos(list_make1(clause)), NULL);
	return batch;
}

/*
 * Is there a kernel for a condition on a row of this kind, and can it raise no
 * error whatever the row holds? For the planner: what is allocated in the
 * current context is the caller's to free.
 */
bool
vector_filter_is_certain(Expr *clause, TupleDesc tupdesc)
{
	PredicateContext context = {.batch = batch_for_planner(clause, tupdesc),.certain = true,.compile = compile};

	return compile(clause, &context) != NULL;
}

/*
 * Are there kernels for all of a condition on a row of this kind, as a term of
 * a filter? For the planner, as above.
 */
bool
vector_filter_is_kernel(Expr *clause, TupleDesc tupdesc)
{
	PredicateContext context = {.batch = batch_for_planner(clause, tupdesc),.top = true,.compile = compile};

	return compile(clause, &context) != NULL && context.batch->nby_row == 0;
}

/*
 * Both of these, which takes less time: vector_filter_is_kernel() is returned.
 */
bool
vector_filter_is_certain_kernel(Expr *clause, TupleDesc tupdesc, bool *certain)
{
	PredicateContext context = {.batch = batch_for_planner(clause, tupdesc),.certain = true,.compile = compile};

	*certain = compile(clause, &context) != NULL;
	if (!*certain)
		return vector_filter_is_kernel(clause, tupdesc);
	/* what raises no error has the same kernels elsewhere */
	Assert((context.batch->nby_row == 0) == vector_filter_is_kernel(clause, tupdesc));
	return context.batch->nby_row == 0;
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

/* Can a condition raise no error, whatever the batch's rows hold? */
bool
vector_condition_is_certain(Expr *expr, Batch *batch)
{
	PredicateContext context = {.batch = batch,.certain = true,.compile = compile};

	return compile(expr, &context) != NULL;
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
select_each(Term *term, Batch *batch, const uint16 *rows, int n, uint16 *selected)
{
	Predicate  *predicate = term->predicate;
	uint8		truth[BATCH_ROWS];
	int			k = 0;

	if (predicate != NULL && predicate->kernel->select != NULL)
		return predicate->kernel->select(predicate, batch, rows, n, selected);
	if (term->value != NULL)
	{
		Values		values;

		vector_expr_eval(term->value, batch, rows, n, &values);
		for (int i = 0; i < n; i++)
			truth[i] = DatumGetBool(values.values[i]) && !values.nulls[i];
	}
	else if (predicate == NULL || !predicate->kernel->eval(predicate, batch, rows, n, truth))
	{
		for (int i = 0; i < n; i++)
		{
			bool		isnull;
			Datum		value = expr_by_row_eval(&term->by_row, batch, rows != NULL ? rows[i] : i, &isnull);

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

/* ---- once for every value of a dictionary ---- */

/* List for which of at most BATCH_ROWS values of a dictionary, from one on, a term is true. */
static int
select_values(Term *term, Batch *batch, const Codes *codes, int from, uint16 *selected)
{
	Batch		values;
	int			found;

	dictionary_batch_begin(&values, batch, term->by_row.needed[0], codes, from);
	found = select_each(term, &values, NULL, values.n, selected);
	dictionary_batch_end(&values, batch, term->by_row.needed[0]);

	return found;
}

/* Find the truth of a term for all values of a dictionary. */
static void
find_truth(Term *term, Batch *batch, const Codes *codes)
{
	uint16		selected[BATCH_ROWS];

	if (codes->n > term->room)
	{
		MemoryContext context = GetMemoryChunkContext(batch->columns);

		if (term->truth != NULL)
			pfree(term->truth);
		term->room = Max(codes->n, SHORT_CODES);
		term->truth = MemoryContextAlloc(context, term->room);
	}
	memset(term->truth, TRUTH_FALSE, codes->n);
	for (int from = 0; from < codes->n; from += BATCH_ROWS)
	{
		int			found = select_values(term, batch, codes, from, selected);

		for (int i = 0; i < found; i++)
			term->truth[from + selected[i]] = TRUTH_TRUE;
	}
	term->serial = codes->serial;
}

static int
select_by_value(Term *term, Batch *batch, const Codes *codes, const uint16 *rows, int n, uint16 *selected)
{
	const uint8 *truth;
	int			k = 0;

	if (codes->serial != term->serial)
		find_truth(term, batch, codes);
	truth = term->truth;

#define SELECT_CODES(array) \
	do { \
		for (int i = 0; i < n; i++) \
		{ \
			int			row = rows != NULL ? rows[i] : i; \
			selected[k] = row; \
			k += truth[array[row]]; \
		} \
	} while (0)

	if (codes->codes != NULL)
		SELECT_CODES(codes->codes);
	else
		SELECT_CODES(codes->long_codes);

	return k;
}

/*
 * List those of n rows of the batch for which a term is true; return how many.
 * The list may take the place of that of the rows.
 */
static int
select_term(Term *term, Batch *batch, const uint16 *rows, int n, uint16 *selected)
{
	Predicate  *predicate = term->predicate;
	Codes		codes;

	if (!term->by_value)
		return select_each(term, batch, rows, n, selected);
	if (predicate->kernel->select_packed != NULL)
	{
		int			found = predicate->kernel->select_packed(predicate, batch, rows, n, selected);

		if (found >= 0)
			return found;
	}
	if (batch_codes(batch, term->by_row.needed[0], &codes) &&
		(codes.serial == term->serial || codes.n <= n * BATCHES_OF_DICTIONARY))
		return select_by_value(term, batch, &codes, rows, n, selected);
	return select_each(term, batch, rows, n, selected);
}

/* Are the columns of a term loaded, or cheap to load, or is what it asks of them known without? */
static bool
is_at_hand(const Term *term, Batch *batch)
{
	if (term->predicate != NULL && term->predicate->of_nulls && batch->source->methods->find_nulls != NULL)
		return true;
	for (int i = 0; i < term->by_row.nneeded; i++)
	{
		if (!batch_at_hand(batch, term->by_row.needed[i]))
			return false;
	}
	return true;
}

/* Prepare what a term needs; false: the batch is void. */
static bool
prepare_term(const Term *term, Batch *batch)
{
	if (term->predicate != NULL && term->predicate->of_nulls)
		return batch_prepare_nulls(batch, term->by_row.needed[0]);
	return batch_prepare(batch, term->by_row.needed, term->by_row.nneeded);
}

/* Is a term one of numbers that every row has loaded? */
static bool
is_light(const Term *term, Batch *batch)
{
	return is_at_hand(term, batch) && !term->predicate->costly;
}

/*
 * Of neighbors that raise no errors, apply those first for which rows need not
 * be walked through.
 */
static void
arrange(VectorFilter *filter, Batch *batch)
{
	Term	   *terms = filter->terms;

	for (int t = 1; t < filter->nterms; t++)
	{
		for (int k = t; k > 0 && terms[k].certain && terms[k - 1].certain &&
			 is_light(&terms[k], batch) && !is_light(&terms[k - 1], batch); k--)
		{
			Term		other = terms[k];

			terms[k] = terms[k - 1];
			terms[k - 1] = other;
		}
	}
	filter->arranged = true;
}

/* How many rows are seen before it is decided again how to fetch columns. */
#define DECISION_ROWS 4096

/*
 * Remove the rows from the batch that the filter does not keep; return how
 * many. A batch that is void is left without any.
 */
int
vector_filter_batch(VectorFilter *filter, Batch *batch)
{
	uint16		selected[BATCH_ROWS];
	const uint16 *rows = NULL;
	int			before = batch->n;
	int			n = batch->n;

	if (!filter->arranged)
		arrange(filter, batch);
	if (filter->selective && !is_at_hand(&filter->terms[0], batch))
		batch->source->methods->load_only(batch->source, batch, filter->terms[0].by_row.needed, filter->terms[0].by_row.nneeded);
	for (int t = 0; t < filter->nterms && n > 0; t++)
	{
		Term	   *term = &filter->terms[t];
		int			kept;

		/* do not fetch values of rows that are gone */
		if (rows != NULL && n < batch->n / 4 * 3 && !is_at_hand(term, batch))
		{
			batch_keep(batch, rows, n, false);
			rows = NULL;
		}
		if (!prepare_term(term, batch))
		{
			batch->n = 0;
			return 0;
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

/*
 * The same, after which it is final what rows are left: prepare the columns that
 * are needed of them. A batch that is void, because these cannot be loaded, is
 * left without any.
 */
int
vector_filter_finally(VectorFilter *filter, Batch *batch)
{
	int			removed = vector_filter_batch(filter, batch);

	if (batch->n > 0 && !batch_prepare(batch, batch->later, batch->nlater))
		removed = batch->n = 0;
	return removed;
}

/*
 * Have the batch's source give its next rows, of which the filter, if there is
 * one, keeps some, possibly none. False at the source's end. Called in the
 * batch's memory, which has just been reset. Rows that are removed are counted
 * as those of the plan node: the first count is of the qualification, which
 * PostgreSQL evaluates, so that it is the second.
 */
bool
vector_filter_next(VectorFilter *filter, Batch *batch)
{
	Source	   *source = batch->source;
	int			removed = 0;

	if (!source->methods->next(source, batch))
		return false;
	batch->serial++;
	if (filter != NULL && batch->n > 0)
		removed = vector_filter_batch(filter, batch);
	InstrCountFiltered2(batch->parent, removed);

	return true;
}

/* List the rows of the batch that the filter keeps; return how many. */
int
vector_filter_rows(VectorFilter *filter, Batch *batch, uint16 *rows)
{
	Assert(filter->nterms == 1);
	return select_term(&filter->terms[0], batch, NULL, batch->n, rows);
}

/* Does it keep no row of the next batches, as far as their source knows? */
bool
vector_filter_excludes(void *arg, Batch *batch)
{
	VectorFilter *filter = arg;

	for (int t = 0; t < filter->nterms; t++)
	{
		Predicate  *predicate = filter->terms[t].predicate;

		if (predicate != NULL && predicate->kernel->excludes != NULL &&
			predicate->kernel->excludes(predicate, batch))
			return true;
	}
	return false;
}

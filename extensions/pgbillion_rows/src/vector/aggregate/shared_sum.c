/*-------------------------------------------------------------------------
 *
 * shared_sum.c
 *	  Sums of linear expressions of one column, by the sum of the column.
 *
 * sum(x), avg(x), sum(x + 1) and sum(2 * x - 3) need only one state among
 * them, of the sum and the number of values of x: sum(a * x + b) is a * sum(x)
 * + b * count(x). That state is the base. The others are derived from it when
 * groups are returned.
 *
 * What PostgreSQL would raise an error for is found before rows are added: if a
 * value of the column may be outside the range for which all expressions are
 * known to raise none, they are evaluated row by row as if there were no base.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "vector/aggregate/aggregate.h"

/* Are they sums of the same column, however it is referred to? */
static bool
is_of_column(const Linear *linear, int column)
{
	return linear != NULL && linear->column == column;
}

/* The expression whose sum an aggregate is, if it is for us; NULL if not. */
static Linear *
find_linear(const VectorAgg *agg, Aggref *aggref, Batch *batch)
{
	Linear	   *linear;

	if (!agg->kind->sums_integers || agg->filter != NULL || agg->distinct)
		return NULL;
	linear = palloc(sizeof(Linear));
	if (linear_of(linitial_node(TargetEntry, aggref->args)->expr, batch, linear))
		return linear;
	pfree(linear);
	return NULL;
}

/* The aggregate from which those of the n that sum a column are derived. */
static VectorAgg *
make_base(VectorAgg **aggs, Linear **linears, int n, int column, Batch *batch)
{
	VectorAgg  *base = palloc0(sizeof(VectorAgg));
	SharedSum  *shared = palloc0(sizeof(SharedSum));
	bool		wide = false;
	Linear	   *first = NULL;

	shared->column = column;
	shared->low = PG_INT64_MIN;
	shared->high = PG_INT64_MAX;
	shared->derived = palloc(sizeof(VectorAgg *) * n);
	for (int i = 0; i < n; i++)
	{
		if (!is_of_column(linears[i], column))
			continue;
		first = first == NULL ? linears[i] : first;
		wide |= aggs[i]->kind->wide;
		shared->low = Max(shared->low, linears[i]->low);
		shared->high = Min(shared->high, linears[i]->high);
		shared->derived[shared->n++] = aggs[i];
		aggs[i]->base = base;
		aggs[i]->linear = linears[i];
	}
	base->kind = integer_sum_kind(batch->columns[column].type, wide);
	base->argument = vector_expr_compile((Expr *) first->var, batch);
	base->others = -1;
	base->shared = shared;

	return base;
}

/*
 * Derive aggregates among these n from sums of columns, which are added to the
 * bases, where that saves something: several of one column, or one that is not
 * the column's sum itself.
 */
void
aggregates_share_sums(VectorAgg **aggs, Aggref **aggrefs, int n, Batch *batch, List **bases)
{
	Linear	  **linears = palloc0(sizeof(Linear *) * Max(n, 1));

	for (int i = 0; i < n; i++)
		linears[i] = find_linear(aggs[i], aggrefs[i], batch);
	for (int i = 0; i < n; i++)
	{
		int			found = 0;

		if (linears[i] == NULL || aggs[i]->base != NULL)
			continue;
		for (int k = i; k < n; k++)
			found += is_of_column(linears[k], linears[i]->column);
		if (found > 1 || !vector_expr_is_column(aggs[i]->argument))
			*bases = lappend(*bases, make_base(aggs, linears, n, linears[i]->column, batch));
	}
	pfree(linears);
}

/* Raise the error that one of the expressions raises for a row of the batch, if any. */
void
shared_sum_check(const SharedSum *shared, Batch *batch)
{
	if (linear_is_within(shared->low, shared->high, batch, shared->column))
		return;
	for (int i = 0; i < shared->n; i++)
	{
		const VectorAgg *agg = shared->derived[i];
		Values		values;

		if (!linear_is_within(agg->linear->low, agg->linear->high, batch, shared->column))
			vector_expr_eval(agg->argument, batch, NULL, batch->n, &values);
	}
}

/*-------------------------------------------------------------------------
 *
 * range.c
 *	  Comparisons of a column with constants, merged into a range.
 *
 * Those that stand next to each other in a filter and cannot raise errors are
 * merged: then their order does not matter.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "vector/filter/predicate.h"

/* What the bounds are now; false if one is NULL. */
static bool
get_scalars(Range *range, Batch *batch, Datum *scalars)
{
	for (int b = 0; b < range->nbounds; b++)
	{
		bool		isnull;

		scalars[b] = vector_expr_scalar(range->bounds[b].scalar, batch, &isnull);
		if (isnull)
			return false;
	}
	return true;
}

/*
 * Is the column compared as what it is? As another type of the same bits, its
 * numbers may be others.
 */
static bool
is_own_type(const Range *range, const Batch *batch)
{
	return range->type == batch->columns[range->column].type;
}

/* Of an array of numbers that the source has of the column; -1: it has none, or none for this comparison. */
static int
select_in_array(Range *range, const Datum *scalars, Batch *batch, const uint16 *rows, int n, uint16 *selected)
{
	Packed		packed;
	int			found;

	if (range->kind->select_packed == NULL || !is_own_type(range, batch) ||
		!batch_packed_nulls(batch, range->column, &packed))
		return -1;
	found = range->kind->select_packed(range, scalars, &packed, rows, n, selected);
	return found < 0 || packed.nulls == NULL ? found : filter_leave_out_nulls(packed.nulls, selected, found);
}

static int
select_packed(Predicate *predicate, Batch *batch, const uint16 *rows, int n, uint16 *selected)
{
	Range	   *range = (Range *) predicate;
	Datum		scalars[MAX_BOUNDS];

	return get_scalars(range, batch, scalars) ? select_in_array(range, scalars, batch, rows, n, selected) : 0;
}

static int
select_range(Predicate *predicate, Batch *batch, const uint16 *rows, int n, uint16 *selected)
{
	Range	   *range = (Range *) predicate;
	Datum		scalars[MAX_BOUNDS];
	int			found;

	if (!get_scalars(range, batch, scalars))
		return 0;
	found = select_in_array(range, scalars, batch, rows, n, selected);
	return found >= 0 ? found :
		range->kind->select(range, scalars, batch_column(batch, range->column), rows, n, selected);
}

static bool
excludes(Predicate *predicate, Batch *batch)
{
	Range	   *range = (Range *) predicate;
	const SourceMethods *methods = batch->source->methods;
	Datum		scalars[MAX_BOUNDS];
	Bounds		bounds;
	int64		only;
	Datum		value;

	/* no comparison with NULL is true */
	if (range->harmless && methods->has_only_nulls != NULL &&
		methods->has_only_nulls(batch->source, batch, range->column))
		return true;
	if (range->kind->excludes == NULL || !range->harmless || methods->bounds == NULL ||
		!is_own_type(range, batch) ||
		!methods->bounds(batch->source, batch, range->column, &bounds))
		return false;
	if (!get_scalars(range, batch, scalars) || range->kind->excludes(range, scalars, &bounds))
		return true;
	if (range->kind->find_only == NULL || !range->kind->find_only(range, scalars, &only))
		return false;
	value = Int64GetDatum(only);
	return predicate_seek(batch, range->column, INT8OID, &value, 1);
}

/* Are both ranges of the same column, and can they be one? */
static bool
merge(Predicate *first, Predicate *second)
{
	Range	   *a = (Range *) first;
	Range	   *b = (Range *) second;

	if (a->column != b->column || !a->harmless || !b->harmless ||
		a->kind->select != b->kind->select || a->kind->one_bound ||
		a->nbounds + b->nbounds > MAX_BOUNDS)
		return false;
	Assert(a->scale == -1);
	memcpy(&a->bounds[a->nbounds], b->bounds, sizeof(Bound) * b->nbounds);
	a->nbounds += b->nbounds;
	return true;
}

/* Made of comparisons, not compiled. */
static const PredicateKernel range_kernel = {
	.select = select_range,
	.merge = merge,
	.excludes = excludes,
	.select_packed = select_packed,
};

/* The range that a comparison of a column with a constant or a parameter is, or NULL. */
Predicate *
predicate_range_of(const Comparison *comparison)
{
	const CompareKind *kind = comparison->kind;
	VectorExpr *column = comparison->left;
	VectorExpr *scalar = comparison->right;
	bool		exchanged = vector_expr_is_scalar(column);
	Range	   *range;
	Bound	   *bound;

	if (exchanged)
	{
		column = comparison->right;
		scalar = comparison->left;
		kind = kind->commuted != NULL ? kind->commuted : kind;
	}
	if (!vector_expr_is_column(column) || !vector_expr_is_scalar(scalar) ||
		kind->select == NULL || comparison->op == OP_NE)
		return NULL;
	range = predicate_create(sizeof(Range), &range_kernel);
	range->kind = kind;
	range->column = vector_expr_column(column);
	range->type = exchanged ? comparison->right_type : comparison->left_type;
	range->harmless = comparison->harmless;
	range->scale = -1;
	range->nbounds = 1;
	bound = &range->bounds[0];
	bound->op = exchanged ? commuted_op(comparison->op) : comparison->op;
	bound->type = exchanged ? comparison->left_type : comparison->right_type;
	bound->scalar = scalar;

	return &range->predicate;
}

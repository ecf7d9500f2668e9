/*-------------------------------------------------------------------------
 *
 * top_rows.c
 *	  Rows that cannot be among the first of an order are removed.
 *
 * For ORDER BY … LIMIT n above a scan, the first key's n best values so far
 * are kept in a heap, whose root is the worst of them. A row whose value comes
 * after that is never among the first n, whatever the other keys are, and is
 * not returned. All others are: so PostgreSQL's nodes above sort them, decide
 * between ties, and count.
 *
 * Values by reference are copied, detoasted. If they turn out to need more than
 * work_mem, all rows are returned from then on.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "nodes/value.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/numeric.h"
#include "utils/sortsupport.h"
#include "utils/typcache.h"

#include "vector/node/top_rows.h"

typedef struct TopValue
{
	Datum		value;
	bool		isnull;
} TopValue;

struct TopRows
{
	int64		n;				/* number of rows that are wanted */
	int			column;
	int16		len;
	bool		byval;
	Oid			type;
	bool		ordered;		/* by the type's own order, in which columnar
								 * indexes have bounds: */
	bool		integers;		/* compared as such: */
	bool		descending;
	SortSupportData sort;
	MemoryContext context;		/* values by reference */
	TopValue   *heap;			/* none comes after its parent; room for n */
	int64		count;
	int64		seen;			/* rows that came, and that went on */
	int64		kept;
	bool		off;			/* it removes too little, or takes too much */
};

/*
 * After MIN_SEEN rows, and MIN_TURNS times those wanted, stop comparing if that
 * has removed less than a tenth of the rows.
 */
#define MIN_SEEN 8192
#define MIN_TURNS 16

/* ---- in a plan ---- */

/* What the list holds. */
typedef enum TopOrderPrivate
{
	TOP_ORDER_OIDS,				/* the operator, and its collation */
	TOP_ORDER_COLUMN,			/* attribute, and whether NULLs come first */
	TOP_ORDER_N					/* an integer: how many rows are wanted */
} TopOrderPrivate;

List *
top_order_list(const TopOrder *order)
{
	return list_make3(list_make2_oid(order->operator, order->collation),
					  list_make2_int(order->attno, order->nulls_first),
					  makeInteger((int) order->n));
}

TopOrder
top_order_of_list(List *list)
{
	TopOrder	order;
	List	   *oids = list_nth(list, TOP_ORDER_OIDS);
	List	   *ints = list_nth(list, TOP_ORDER_COLUMN);

	order.operator = linitial_oid(oids);
	order.collation = lsecond_oid(oids);
	order.attno = linitial_int(ints);
	order.nulls_first = lsecond_int(ints) != 0;
	order.n = intVal(list_nth(list, TOP_ORDER_N));
	return order;
}

/* ---- compilation ---- */

/* Is a type one whose values are integers, in their order? */
static bool
is_integer(Oid type)
{
	switch (type)
	{
		case INT2OID:
		case INT4OID:
		case INT8OID:
		case DATEOID:
		case TIMESTAMPOID:
		case TIMESTAMPTZOID:
			return true;
		default:
			return false;
	}
}

/* Is it the order of numbers, up or down? */
static bool
is_order_of_numbers(Oid type, Oid operator, bool *descending)
{
	TypeCacheEntry *cache;

	if (!is_integer(type) && type != FLOAT4OID && type != FLOAT8OID && type != NUMERICOID)
		return false;
	cache = lookup_type_cache(type, TYPECACHE_LT_OPR | TYPECACHE_GT_OPR);
	*descending = operator == cache->gt_opr;

	return *descending || operator == cache->lt_opr;
}

/* For a batch that has the order's column for later. Memory belongs to the current context. */
TopRows *
top_rows_create(const TopOrder *order, Batch *batch)
{
	TopRows    *top = palloc0(sizeof(TopRows));
	const Column *column;

	Assert(order->n > 0);
	top->n = order->n;
	top->column = batch_index(batch, order->attno);
	column = &batch->columns[top->column];
	Assert(column->later);
	top->len = column->len;
	top->byval = column->byval;
	top->type = column->type;
	top->ordered = is_order_of_numbers(column->type, order->operator, &top->descending);
	top->integers = top->ordered && is_integer(column->type);
	top->sort.ssup_cxt = CurrentMemoryContext;
	top->sort.ssup_collation = order->collation;
	top->sort.ssup_nulls_first = order->nulls_first;
	PrepareSortSupportFromOrderingOp(order->operator, &top->sort);
	top->heap = MemoryContextAllocHuge(CurrentMemoryContext, sizeof(TopValue) * top->n);
	top->context = AllocSetContextCreate(CurrentMemoryContext, "pgbillion top rows", ALLOCSET_DEFAULT_SIZES);

	return top;
}

/* Forget all rows. */
void
top_rows_reset(TopRows *top)
{
	MemoryContextReset(top->context);
	top->count = top->seen = top->kept = 0;
	top->off = false;
}

/* ---- the heap ---- */

/* Below 0: the left comes first. */
static inline int
compare(TopRows *top, const TopValue *left, const TopValue *right)
{
	return ApplySortComparator(left->value, left->isnull, right->value, right->isnull, &top->sort);
}

/* A value that stays. */
static TopValue
copy_value(TopRows *top, const TopValue *value)
{
	TopValue	copy = *value;

	if (!value->isnull && !top->byval)
	{
		MemoryContext old = MemoryContextSwitchTo(top->context);

		if (top->len == -1)
			copy.value = PointerGetDatum(PG_DETOAST_DATUM_COPY(value->value));
		else
			copy.value = datumCopy(value->value, false, top->len);
		MemoryContextSwitchTo(old);
	}
	return copy;
}

/* Add a value while there is room. */
static void
add_value(TopRows *top, const TopValue *value)
{
	TopValue	copy = copy_value(top, value);
	int64		place = top->count++;

	Assert(place < top->n);
	while (place > 0)
	{
		int64		parent = (place - 1) / 2;

		if (compare(top, &copy, &top->heap[parent]) <= 0)
			break;
		top->heap[place] = top->heap[parent];
		place = parent;
	}
	top->heap[place] = copy;
}

/* Let a value take the place of the last in order, which it comes before. */
static void
replace_last(TopRows *top, const TopValue *value)
{
	TopValue	copy = copy_value(top, value);
	int64		place = 0;

	if (!top->byval && !top->heap[0].isnull)
		pfree(DatumGetPointer(top->heap[0].value));
	for (;;)
	{
		int64		child = 2 * place + 1;

		if (child >= top->count)
			break;
		if (child + 1 < top->count && compare(top, &top->heap[child + 1], &top->heap[child]) > 0)
			child++;
		if (compare(top, &copy, &top->heap[child]) >= 0)
			break;
		top->heap[place] = top->heap[child];
		place = child;
	}
	top->heap[place] = copy;
}

/* ---- batches ---- */

/* A number that is the smaller, the earlier an integer comes. */
static inline int64
rank_of(const TopRows *top, Datum value)
{
	int64		integer;

	switch (top->len)
	{
		case 2:
			integer = DatumGetInt16(value);
			break;
		case 4:
			integer = DatumGetInt32(value);
			break;
		default:
			integer = DatumGetInt64(value);
			break;
	}
	return top->descending ? ~integer : integer;
}

/* List the rows of a batch which do not come after the last of the values; others may be among them. */
static int
list_candidates(TopRows *top, const Column *column, int n, uint16 *rows)
{
	int			k = 0;
	int64		last;

	if (!top->integers || column->has_nulls || top->count < top->n || top->heap[0].isnull)
	{
		for (int i = 0; i < n; i++)
			rows[i] = i;
		return n;
	}
	last = rank_of(top, top->heap[0].value);
	for (int i = 0; i < n; i++)
	{
		rows[k] = i;
		k += rank_of(top, column->values[i]) <= last;
	}
	return k;
}

/* Remove nothing any more, and give the memory back. */
static void
give_up(TopRows *top)
{
	top->off = true;
	top->count = 0;
	MemoryContextReset(top->context);
}

/* Take a row's value, unless it comes after n others. */
static void
take(TopRows *top, const TopValue *value)
{
	if (top->count < top->n)
		add_value(top, value);
	else if (compare(top, value, &top->heap[0]) < 0)
		replace_last(top, value);
	if (MemoryContextMemAllocated(top->context, false) > work_mem * (Size) 1024)
		give_up(top);
}

static inline TopValue
value_of(const Column *column, int row)
{
	TopValue	value;

	value.isnull = column->has_nulls && column->nulls[row];
	value.value = value.isnull ? (Datum) 0 : column->values[row];
	return value;
}

/*
 * Remove rows that come after n others, which are then among those returned
 * before, or left in this batch. Called in the batch's memory.
 */
void
top_rows_remove(TopRows *top, Batch *batch)
{
	const Column *column;
	uint16		rows[BATCH_ROWS];
	int			n = batch->n;
	int			candidates;
	int			k = 0;

	if (top->off || n == 0)
		return;
	column = batch_column(batch, top->column);
	candidates = list_candidates(top, column, n, rows);
	/* where values improve from row to row, only the last of a batch are left */
	for (int i = 0; i < candidates && !top->off; i++)
	{
		TopValue	value = value_of(column, rows[i]);

		take(top, &value);
	}
	for (int i = 0; i < candidates; i++)
	{
		TopValue	value = value_of(column, rows[i]);

		if (top->count < top->n || compare(top, &value, &top->heap[0]) <= 0)
			rows[k++] = rows[i];
	}
	if (k < n)
		batch_keep(batch, rows, k, true);
	top->seen += n;
	top->kept += k;
	if (top->seen >= Max(MIN_SEEN, MIN_TURNS * top->n) && top->kept > top->seen - top->seen / 10)
		give_up(top);
}

/* ---- bounds ---- */

/* The value of a column's bounds that comes first in the order; numerics are allocated. */
static Datum
first_of_bounds(const TopRows *top, const Bounds *bounds)
{
	int64		integer = top->descending ? bounds->max : bounds->min;
	float8		number = top->descending ? bounds->float_max : bounds->float_min;

	if (top->type == NUMERICOID)
		return NumericGetDatum(int64_div_fast_to_numeric(integer, bounds->scale));
	if (top->type == FLOAT4OID)
		return Float4GetDatum((float4) number);
	if (top->type == FLOAT8OID)
		return Float8GetDatum(number);
	switch (top->len)
	{
		case 2:
			return Int16GetDatum((int16) integer);
		case 4:
			return Int32GetDatum((int32) integer);
		default:
			return Int64GetDatum(integer);
	}
}

/*
 * Does every row of the next batches come after n others, as far as their
 * source knows? Called in the batch's memory.
 */
bool
top_rows_exclude(TopRows *top, Batch *batch)
{
	const SourceMethods *methods = batch->source->methods;
	Bounds		bounds;
	TopValue	first = {0};

	if (top->off || !top->ordered || top->count < top->n || methods->bounds == NULL ||
		!methods->bounds(batch->source, batch, top->column, &bounds))
		return false;
	/* of NULLs bounds say nothing */
	if (top->sort.ssup_nulls_first && !methods->has_no_nulls(batch->source, batch, top->column))
		return false;
	if (top->type == NUMERICOID && bounds.scale < 0)
		return false;
	first.value = first_of_bounds(top, &bounds);

	return compare(top, &first, &top->heap[0]) > 0;
}

/* The column of the order, and whether the source should give the largest values first, or the smallest. */
int
top_rows_column(const TopRows *top, bool *descending)
{
	*descending = top->descending;
	return top->ordered ? top->column : -1;
}

/*-------------------------------------------------------------------------
 *
 * frame.c
 *	  Partitions, peers and frames of a window.
 *
 * The rows of a partition are next to each other, and so are peers. A frame's
 * ends only ever go forward while the current row does, except that either may
 * stay beyond the partition's end.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "common/int.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "utils/lsyscache.h"
#include "utils/typcache.h"

#include "window/window_state.h"

/* ---- equality ---- */

/* Are values of a type equal if and only if their bits are? */
static bool
is_equal_by_bits(Oid type, Oid operator)
{
	switch (type)
	{
		case BOOLOID:
		case CHAROID:
		case INT2OID:
		case INT4OID:
		case INT8OID:
		case OIDOID:
		case DATEOID:
		case TIMEOID:
		case TIMESTAMPOID:
		case TIMESTAMPTZOID:
			return lookup_type_cache(type, TYPECACHE_EQ_OPR)->eq_opr == operator;
		default:
			return false;
	}
}

/* Columns by which rows are equal, in the current context. */
EqualColumn *
window_equal_columns(TupleDesc tupdesc, int n, const AttrNumber *columns, const Oid *operators, const Oid *collations)
{
	EqualColumn *result = palloc0(sizeof(EqualColumn) * Max(n, 1));

	for (int i = 0; i < n; i++)
	{
		result[i].column = columns[i] - 1;
		result[i].by_bits = is_equal_by_bits(getBaseType(TupleDescAttr(tupdesc, columns[i] - 1)->atttypid), operators[i]);
		result[i].collation = collations[i];
		fmgr_info(get_opcode(operators[i]), &result[i].equal);
	}
	return result;
}

/* Are two rows equal, NULL to NULL, too? */
bool
window_rows_equal(const RowFormat *format, EqualColumn *columns, int n, const char *left, const char *right)
{
	/* the last columns differ most often, as in PostgreSQL's execTuplesMatch */
	for (int i = n - 1; i >= 0; i--)
	{
		EqualColumn *column = &columns[i];
		bool		left_null = row_is_null(format, left, column->column);
		bool		right_null = row_is_null(format, right, column->column);
		Datum		a;
		Datum		b;

		if (left_null != right_null)
			return false;
		if (left_null)
			continue;
		a = row_value(format, left, column->column);
		b = row_value(format, right, column->column);
		if (column->by_bits ? a != b : !DatumGetBool(FunctionCall2Coll(&column->equal, column->collation, a, b)))
			return false;
	}
	return true;
}

/* Where the rows end that are equal to the one before, from a row on that is. */
static int64
find_end(const WindowRows *rows, EqualColumn *columns, int n, int64 row, int64 limit)
{
	MemoryContext old;

	if (n == 0)
		return limit;
	old = MemoryContextSwitchTo(rows->argument->ecxt_per_tuple_memory);
	while (++row < limit)
	{
		if (row + 8 < limit)
			__builtin_prefetch(rows->rows[row + 8]);
		if (!window_rows_equal(rows->format, columns, n, rows->rows[row - 1], rows->rows[row]))
			break;
		/* what functions leave behind */
		if (row % 1024 == 0)
		{
			CHECK_FOR_INTERRUPTS();
			ResetExprContext(rows->argument);
		}
	}
	MemoryContextSwitchTo(old);
	ResetExprContext(rows->argument);
	return row;
}

/* ---- partitions and peers ---- */

/* A row begins a partition. */
void
window_begin_partition(Window *window, int64 begin)
{
	window->begin = begin;
	window->end = find_end(window->rows, window->partition, window->npartition, begin, window->rows->n);
	window->passing = false;
	window->current = begin;
	window->peers_begin = window->peers_end = begin;
	window->group = -1;
	window->head_valid = window->tail_valid = false;
	window->head = window->tail = begin;
	window->head_group = window->tail_group = 0;
	for (int i = 0; i < window->nfunctions; i++)
	{
		window->functions[i].buckets = 0;
		window->functions[i].begun = false;
	}
}

/* A later row of the partition becomes the current one. */
void
window_go_to(Window *window, int64 row)
{
	Assert(row >= window->current && row < window->end);
	window->current = row;
	window->head_valid = window->tail_valid = false;
}

/* Find the peers of the current row, and the number of their group. */
void
window_find_peers(Window *window)
{
	while (window->current >= window->peers_end)
	{
		window->peers_begin = window->peers_end;
		window->peers_end = find_end(window->rows, window->order, window->norder, window->peers_begin, window->end);
		window->group++;
	}
}

/* ---- frames ---- */

static inline const char *
row_at(const Window *window, int64 row)
{
	return window->rows->rows[row];
}

/* Is a row a peer of the one after it? */
static inline bool
is_peer_of_next(Window *window, int64 row)
{
	return window_rows_equal(window->rows->format, window->order, window->norder, row_at(window, row),
							 row_at(window, row + 1));
}

/*
 * Is a row where a RANGE frame begins or ends, or beyond, if the current row and
 * an offset say so? `is_tail`: where it ends.
 */
static bool
is_in_range(Window *window, int64 row, bool is_tail)
{
	const RowFormat *format = window->rows->format;
	WindowAgg  *plan = window->plan;
	int			column = plan->ordColIdx[0] - 1;
	bool		sub = (window->options & (is_tail ? FRAMEOPTION_END_OFFSET_PRECEDING : FRAMEOPTION_START_OFFSET_PRECEDING)) != 0;
	bool		less = is_tail;
	bool		row_null;
	bool		current_null;
	Datum		row_value = row_get(format, row_at(window, row), column, &row_null);
	Datum		current_value = row_get(format, row_at(window, window->current), column, &current_null);
	bool		result;

	if (row_null || current_null)
	{
		/* the order says what is beyond */
		if (!is_tail)
			return plan->inRangeNullsFirst ? !row_null || current_null : row_null || !current_null;
		return plan->inRangeNullsFirst ? !row_null : !current_null;
	}
	if (!plan->inRangeAsc)
	{
		sub = !sub;
		less = !less;
	}
	result = DatumGetBool(FunctionCall5Coll(is_tail ? &window->end_in_range : &window->start_in_range,
											plan->inRangeColl, row_value, current_value,
											is_tail ? window->end_value : window->start_value,
											BoolGetDatum(sub), BoolGetDatum(less)));
	return is_tail ? !result : result;
}

/* A position that many rows from the current one; beyond what there are numbers for, it is the last. */
static int64
position_from(int64 row, int64 offset)
{
	int64		result;

	return pg_add_s64_overflow(row, offset, &result) ? PG_INT64_MAX : result;
}

/* Number of a group that many groups from the current row's. */
static int64
group_from(Window *window, Datum offset, bool preceding)
{
	int64		result;

	window_find_peers(window);
	if (preceding)
		return window->group - DatumGetInt64(offset);
	return pg_add_s64_overflow(window->group, DatumGetInt64(offset), &result) ? PG_INT64_MAX : result;
}

static void
find_head(Window *window)
{
	const int	options = window->options;

	if (options & FRAMEOPTION_START_UNBOUNDED_PRECEDING)
		window->head = window->begin;
	else if (options & FRAMEOPTION_START_CURRENT_ROW)
	{
		if (options & FRAMEOPTION_ROWS)
			window->head = window->current;
		else
		{
			window_find_peers(window);
			window->head = window->peers_begin;
		}
	}
	else if (options & FRAMEOPTION_ROWS)
	{
		int64		offset = DatumGetInt64(window->start_value);

		if (options & FRAMEOPTION_START_OFFSET_PRECEDING)
			offset = -offset;
		window->head = Min(Max(position_from(window->current, offset), window->begin), window->end);
	}
	else if (options & FRAMEOPTION_RANGE)
	{
		while (window->head < window->end && !is_in_range(window, window->head, false))
			window->head++;
	}
	else
	{
		int64		least = group_from(window, window->start_value, options & FRAMEOPTION_START_OFFSET_PRECEDING);

		while (window->head < window->end && window->head_group < least)
		{
			if (window->head + 1 < window->end && !is_peer_of_next(window, window->head))
				window->head_group++;
			window->head++;
		}
	}
	window->head_valid = true;
}

static void
find_tail(Window *window)
{
	const int	options = window->options;

	if (options & FRAMEOPTION_END_UNBOUNDED_FOLLOWING)
		window->tail = window->end;
	else if (options & FRAMEOPTION_END_CURRENT_ROW)
	{
		if (options & FRAMEOPTION_ROWS)
			window->tail = window->current + 1;
		else
		{
			window_find_peers(window);
			window->tail = window->peers_end;
		}
	}
	else if (options & FRAMEOPTION_ROWS)
	{
		int64		offset = DatumGetInt64(window->end_value);

		if (options & FRAMEOPTION_END_OFFSET_PRECEDING)
			offset = -offset;
		window->tail = position_from(position_from(window->current, offset), 1);
		window->tail = Min(Max(window->tail, window->begin), window->end);
	}
	else if (options & FRAMEOPTION_RANGE)
	{
		while (window->tail < window->end && !is_in_range(window, window->tail, true))
			window->tail++;
	}
	else
	{
		int64		most = group_from(window, window->end_value, options & FRAMEOPTION_END_OFFSET_PRECEDING);

		while (window->tail < window->end && window->tail_group <= most)
		{
			if (window->tail + 1 < window->end && !is_peer_of_next(window, window->tail))
				window->tail_group++;
			window->tail++;
		}
	}
	window->tail_valid = true;
}

/* The first row of the current row's frame. */
int64
window_head(Window *window)
{
	if (!window->head_valid)
		find_head(window);
	return window->head;
}

/* Where the current row's frame ends. */
int64
window_tail(Window *window)
{
	if (!window->tail_valid)
		find_tail(window);
	return window->tail;
}

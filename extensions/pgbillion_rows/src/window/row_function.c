/*-------------------------------------------------------------------------
 *
 * row_function.c
 *	  Window functions that are no aggregates: row_number() to nth_value().
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/fmgroids.h"

#include "window/window_state.h"

/* ---- places ---- */

static void
row_number_result(Window *window, WindowFunction *function, Datum *value, bool *isnull)
{
	*value = Int64GetDatum(window->current - window->begin + 1);
	*isnull = false;
}

static int64
rank_of(Window *window)
{
	window_find_peers(window);
	return window->peers_begin - window->begin + 1;
}

static void
rank_result(Window *window, WindowFunction *function, Datum *value, bool *isnull)
{
	*value = Int64GetDatum(rank_of(window));
	*isnull = false;
}

static void
dense_rank_result(Window *window, WindowFunction *function, Datum *value, bool *isnull)
{
	window_find_peers(window);
	*value = Int64GetDatum(window->group + 1);
	*isnull = false;
}

static void
percent_rank_result(Window *window, WindowFunction *function, Datum *value, bool *isnull)
{
	int64		rows = window->end - window->begin;

	*value = Float8GetDatum(rows <= 1 ? 0 : (float8) (rank_of(window) - 1) / (float8) (rows - 1));
	*isnull = false;
}

static void
cume_dist_result(Window *window, WindowFunction *function, Datum *value, bool *isnull)
{
	window_find_peers(window);
	*value = Float8GetDatum((float8) (window->peers_end - window->begin) / (float8) (window->end - window->begin));
	*isnull = false;
}

/*
 * The first buckets have a row more, if rows do not divide evenly. The number of
 * buckets is what the argument is of the first row for which it is not NULL.
 */
static void
ntile_result(Window *window, WindowFunction *function, Datum *value, bool *isnull)
{
	int64		rows = window->end - window->begin;
	int64		place = window->current - window->begin;
	int64		size;
	int64		larger;

	if (function->buckets == 0)
	{
		Datum		buckets = window_argument(window->rows, &function->args[0], window->current, window->rows->output,
											  isnull);

		*value = (Datum) 0;
		if (*isnull)
			return;
		if (DatumGetInt32(buckets) <= 0)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_ARGUMENT_FOR_NTILE),
					 errmsg("argument of ntile must be greater than zero")));
		function->buckets = DatumGetInt32(buckets);
		function->first = place;
	}
	/* PostgreSQL's counts from that row on */
	place -= function->first;
	size = rows / function->buckets;
	larger = rows % function->buckets;
	*isnull = false;
	if (size == 0)
		*value = Int32GetDatum((int32) (place + 1));
	else if (place < larger * (size + 1))
		*value = Int32GetDatum((int32) (place / (size + 1) + 1));
	else
		*value = Int32GetDatum((int32) (larger + (place - larger * (size + 1)) / size + 1));
}

/* ---- values of other rows ---- */

/* The value of the row that is so far from the current one, if it is in the partition. */
static void
value_at_distance(Window *window, WindowFunction *function, bool forward, Datum *value, bool *isnull)
{
	WindowRows *rows = window->rows;
	int32		offset = 1;
	int64		row;

	*value = (Datum) 0;
	if (function->nargs >= 2)
	{
		offset = DatumGetInt32(window_argument(rows, &function->args[1], window->current, rows->output, isnull));
		if (*isnull)
			return;
	}
	row = window->current + (forward ? offset : (int32) (0 - (uint32) offset));
	if (row >= window->begin && row < window->end)
		*value = window_argument(rows, &function->args[0], row, rows->output, isnull);
	else if (function->nargs >= 3)
		*value = window_argument(rows, &function->args[2], window->current, rows->output, isnull);
	else
		*isnull = true;
}

static void
lag_result(Window *window, WindowFunction *function, Datum *value, bool *isnull)
{
	value_at_distance(window, function, false, value, isnull);
}

static void
lead_result(Window *window, WindowFunction *function, Datum *value, bool *isnull)
{
	value_at_distance(window, function, true, value, isnull);
}

/* The value of a row, if it is in the frame. */
static void
value_in_frame(Window *window, WindowFunction *function, int64 row, Datum *value, bool *isnull)
{
	*value = (Datum) 0;
	*isnull = true;
	if (row >= window_head(window) && row < window_tail(window))
		*value = window_argument(window->rows, &function->args[0], row, window->rows->output, isnull);
}

static void
first_value_result(Window *window, WindowFunction *function, Datum *value, bool *isnull)
{
	value_in_frame(window, function, window_head(window), value, isnull);
}

static void
last_value_result(Window *window, WindowFunction *function, Datum *value, bool *isnull)
{
	value_in_frame(window, function, window_tail(window) - 1, value, isnull);
}

static void
nth_value_result(Window *window, WindowFunction *function, Datum *value, bool *isnull)
{
	int32		n = DatumGetInt32(window_argument(window->rows, &function->args[1], window->current,
												  window->rows->output, isnull));

	*value = (Datum) 0;
	if (*isnull)
		return;
	if (n <= 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_ARGUMENT_FOR_NTH_VALUE),
				 errmsg("argument of nth_value must be greater than zero")));
	value_in_frame(window, function, window_head(window) + n - 1, value, isnull);
}

/* ---- by function ---- */

typedef struct RowFunction
{
	Oid			function;
	void		(*result) (Window *window, WindowFunction *function, Datum *value, bool *isnull);
} RowFunction;

static const RowFunction row_functions[] = {
	{F_ROW_NUMBER, row_number_result},
	{F_RANK_, rank_result},
	{F_DENSE_RANK_, dense_rank_result},
	{F_PERCENT_RANK_, percent_rank_result},
	{F_CUME_DIST_, cume_dist_result},
	{F_NTILE, ntile_result},
	{F_LAG_ANYELEMENT, lag_result},
	{F_LAG_ANYELEMENT_INT4, lag_result},
	{F_LAG_ANYCOMPATIBLE_INT4_ANYCOMPATIBLE, lag_result},
	{F_LEAD_ANYELEMENT, lead_result},
	{F_LEAD_ANYELEMENT_INT4, lead_result},
	{F_LEAD_ANYCOMPATIBLE_INT4_ANYCOMPATIBLE, lead_result},
	{F_FIRST_VALUE, first_value_result},
	{F_LAST_VALUE, last_value_result},
	{F_NTH_VALUE, nth_value_result},
};

static const RowFunction *
find_function(Oid function)
{
	for (int i = 0; i < (int) lengthof(row_functions); i++)
	{
		if (row_functions[i].function == function)
			return &row_functions[i];
	}
	return NULL;
}

/* Is it one of these? */
bool
window_is_row_function(Oid function)
{
	return find_function(function) != NULL;
}

/* Have its results computed here. */
void
window_init_row_function(WindowFunction *function)
{
	function->result = find_function(function->function)->result;
}

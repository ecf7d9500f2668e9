/*-------------------------------------------------------------------------
 *
 * window_state.h
 *	  What is known of windows while they are computed.
 *
 * Positions are those of rows in the array of all that are in memory.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGBILLION_WINDOW_STATE_H
#define PGBILLION_WINDOW_STATE_H

#include "fmgr.h"

#include "sort/sort.h"
#include "window/window.h"

/* The rows that are in memory, in order. */
typedef struct WindowRows
{
	const RowFormat *format;
	char	  **rows;			/* their addresses */
	int64		n;

	/* for expressions over a row: */
	TupleTableSlot *slot;
	int64		in_slot;		/* the row, or -1 */
	ExprContext *argument;		/* arguments of aggregates; reset after each
								 * row */
	ExprContext *output;		/* results, until the next row is returned */
} WindowRows;

/* A column by which rows are equal. */
typedef struct EqualColumn
{
	int			column;
	bool		by_bits;		/* equal values have equal bits */
	Oid			collation;
	FmgrInfo	equal;
} EqualColumn;

/* An argument of a function. */
typedef struct WindowArgument
{
	int			column;			/* of the row, or -1: */
	ExprState  *expr;
} WindowArgument;

typedef struct Window Window;
typedef struct WindowFunction WindowFunction;
typedef struct AggregateState AggregateState;

struct WindowFunction
{
	Oid			function;
	int			nargs;
	WindowArgument *args;
	ExprState  *filter;			/* or NULL */
	int			buckets;		/* ntile: of the partition, 0: not yet known */
	int64		first;			/* ntile: place in it that has the first one */
	AggregateState *aggregate;	/* or NULL */
	bool		begun;			/* has it a result of this partition? */
	void		(*result) (Window *window, WindowFunction *function, Datum *value, bool *isnull);
};

struct Window
{
	WindowRows *rows;
	WindowAgg  *plan;
	WindowAggState *core;		/* PostgreSQL's node, which is the context of
								 * aggregates' functions */
	int			options;		/* of the frame */
	int			npartition;
	EqualColumn *partition;
	int			norder;
	EqualColumn *order;
	int			nfunctions;
	WindowFunction *functions;
	ExprState  *run_condition;	/* or NULL */
	bool		moves_with_errors;	/* computing the frame may raise an error */

	/* the scan's: */
	Datum		start_value;	/* of the frame's offsets */
	Datum		end_value;
	FmgrInfo	start_in_range;
	FmgrInfo	end_in_range;

	/* the partition's: */
	int64		begin;
	int64		end;			/* behind its last row */
	bool		passing;		/* the run condition no longer holds */

	/* the current row's: */
	int64		current;
	int64		peers_begin;	/* of the last row that it was asked for */
	int64		peers_end;
	int64		group;			/* number of it */
	bool		head_valid;
	bool		tail_valid;
	int64		head;
	int64		tail;			/* behind the last row of the frame */
	int64		head_group;
	int64		tail_group;
};

/* ---- frame.c ---- */

extern EqualColumn *window_equal_columns(TupleDesc tupdesc, int n, const AttrNumber *columns, const Oid *operators,
										 const Oid *collations);
extern bool window_rows_equal(const RowFormat *format, EqualColumn *columns, int n, const char *left, const char *right);
extern void window_begin_partition(Window *window, int64 begin);
extern void window_go_to(Window *window, int64 row);
extern void window_find_peers(Window *window);
extern int64 window_head(Window *window);
extern int64 window_tail(Window *window);

/* ---- row_function.c ---- */

extern bool window_is_row_function(Oid function);
extern void window_init_row_function(WindowFunction *function);

/* ---- window_aggregate.c ---- */

extern void window_init_aggregate(Window *window, WindowFunction *function, WindowFunc *expr, MemoryContext parent);

/* ---- window_rows.c ---- */

extern Datum window_argument(WindowRows *rows, WindowArgument *argument, int64 row, ExprContext *econtext, bool *isnull);
extern bool window_filter(WindowRows *rows, ExprState *filter, int64 row, ExprContext *econtext);

#endif							/* PGBILLION_WINDOW_STATE_H */

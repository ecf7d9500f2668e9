/*-------------------------------------------------------------------------
 *
 * window.h
 *	  Window functions over rows in memory: the map of the parts.
 *
 * PostgreSQL's WindowAgg copies each row into a tuplestore, and reads it from
 * there once for each use. Here the rows of a sort (sort/) stay where they are,
 * a partition is a range of them, and a frame is two positions. Several windows
 * whose rows have one order are computed by one node.
 *
 *	window_rows.c	values of rows
 *	frame.c			partitions, peers and frames
 *	row_function.c	row_number() to nth_value()
 *	window_aggregate.c	aggregates over frames
 *	window_scan.c	the node VectorWindow, in place of WindowAgg and Sort
 *	window_path.c	when it is offered, and what it costs
 *
 * The rules, and the moments of errors, are those of PostgreSQL's
 * nodeWindowAgg.c and windowfuncs.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGBILLION_WINDOW_H
#define PGBILLION_WINDOW_H

#include "nodes/execnodes.h"
#include "nodes/extensible.h"
#include "nodes/plannodes.h"

/* What the plan hands to the executor in custom_private. */
typedef enum WindowPrivate
{
	WINDOW_FUNCTIONS,			/* for each window, the lowest first, a list
								 * of WindowFuncs */
	WINDOW_INPUT_COLUMNS,		/* an integer: columns of the input, behind
								 * which are the functions' */
	WINDOW_IS_SORTED			/* an integer: is there a Sort below them? */
} WindowPrivate;

/* What custom_exprs holds for each window, the lowest first. */
typedef enum WindowExprs
{
	WINDOW_RUN_CONDITION,		/* a list: terms */
	WINDOW_ARGUMENTS,			/* for each function a list */
	WINDOW_FILTERS				/* for each function an expression, or NULL */
} WindowExprs;

/* ---- window_scan.c ---- */

extern const CustomScanMethods vector_window_methods;

/* ---- window_path.c ---- */

extern void window_init(void);

#endif							/* PGBILLION_WINDOW_H */

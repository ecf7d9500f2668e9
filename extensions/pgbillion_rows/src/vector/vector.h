/*-------------------------------------------------------------------------
 *
 * vector.h
 *	  Vectorised aggregation of plain heap tables: the map of the parts.
 *
 * A custom scan reads a heap a page at a time, filters and groups the rows of
 * a page together, and hands one row a group up, with *partial* aggregate
 * states as core's own partial aggregation would hand them up. Gather and
 * Finalize Aggregate above it are core's.
 *
 *	plan.c			when it applies, what it costs, the paths and the plan
 *	execute.c		the executor node that drives the others, EXPLAIN, parallelism
 *	explain.c		pgbillion_rows.explain_vector()
 *
 *	source/
 *	  scan.c		the pages of a heap, and which of their rows are visible
 *	  pages.c		pages read one after the other, mostly without looking them up
 *	  columns.c		values of attributes, a column at a time
 *	  lazy.c		tables of pgbillion_tables that have no row yet
 *	filter/
 *	  filter.c		which rows of a batch are kept
 *	  compare.c		comparisons over a batch
 *	  range.c		comparisons of a column with constants, merged
 *	  like.c		strings matched with a pattern
 *	expression/
 *	  expression.c	group keys and arguments over a batch
 *	  decimal_expression.c	those that are numeric, in integers
 *	  decimal.c		numeric as scaled integers, and back to core's formats
 *	sink/
 *	  group.c		the hash table of groups
 *	  aggregate.c	transition states: advance and return
 *	  spill.c		rows of groups for which there is no memory
 *	  finish.c		the node above Finalize Aggregate that makes it superfluous
 *
 * A batch is what is visible of one page. The buffer stays pinned as long as
 * the batch is worked on, since values by reference point into it. A filter
 * removes rows from the batch, so that all later work is on dense arrays.
 *
 * Kernels never raise errors: one that meets something it cannot do exactly
 * (an overflow, a NaN, a compressed value) says so, and the batch is given to
 * core's expression code, which raises what there is to raise.
 *
 * Memory: everything lives in the executor state's per-query context, but for
 * groups (a context of their own, bounded by hash_mem) and what a batch
 * computes (the expression context's per-tuple memory, reset for each page).
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGBILLION_VECTOR_H
#define PGBILLION_VECTOR_H

#include "nodes/extensible.h"
#include "nodes/pathnodes.h"

/* ---- plan.c ---- */

/*
 * What the plan hands to the executor: custom_scan_tlist holds the output
 * columns (group keys and partial Aggrefs) and after them, as junk, the terms
 * of the filter; custom_private is a list of one integer, the number of
 * outputs. Params are repeated in custom_exprs, where the planner looks.
 */
extern int	vector_aggregate;	/* pgbillion_rows.vector_aggregate: a PlanMode */

extern void vector_init(void);


/* ---- execute.c ---- */

extern const CustomScanMethods vector_scan_methods;

extern void vector_run(CustomScanState *css);
extern bool vector_next_group(CustomScanState *css, Datum *values, bool *isnull);
extern void vector_rewind(CustomScanState *css);

/* ---- finish.c ---- */

extern const CustomScanMethods vector_finish_methods;

extern bool vector_finishable(PathTarget *target, List *clause);
extern Path *vector_finish_path(PlannerInfo *root, AggPath *agg, const AggClauseCosts *costs, Cost spilling);

#endif							/* PGBILLION_VECTOR_H */

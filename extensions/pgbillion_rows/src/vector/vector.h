/*-------------------------------------------------------------------------
 *
 * vector.h
 *	  Vectorized aggregation of tables: the map of the parts.
 *
 * A custom scan reads a table a batch at a time, filters and groups the rows
 * of a batch together, and returns one row per group, with *partial* aggregate
 * states as PostgreSQL's own partial aggregation would return them. Gather and
 * Finalize Aggregate above it are PostgreSQL's.
 *
 *	plan/			when it applies, what it costs, and the plan: plan/plan.h
 *	node.c			what our executor nodes have in common
 *	execute.c		those which aggregate, or return the rows of joins: it drives
 *					the steps below; EXPLAIN
 *	filter_scan.c	that which returns the rows that a filter keeps
 *	top_rows.c		rows that cannot be among the first of an order
 *	explain_vector.c	pgbillion_rows.explain_vector()
 *	finish.c		the node above Finalize Aggregate that makes it superfluous
 *
 *	batch.h			what goes down: rows, columns, and the interface of sources
 *	huge_pages.h	memory that is accessed at random
 *
 *	source/			where rows are from
 *	  heap.c		pages of a heap
 *	  segments.c	segments of an index of columns, and heap pages elsewhere
 *	  segment_values.c	what batches of the former hold
 *	  scan.c		which rows of a page are visible
 *	  pages.c		pages one after the other, mostly without looking them up
 *	  columns.c		values of attributes, a column at a time
 *	  lazy.c		tables of pgbillion_tables that have no row yet
 *	  plan_rows.c	rows of a plan of PostgreSQL's
 *	filter/			which of them are kept: predicate.h
 *	join/			hash joins with plans of PostgreSQL's: join.h
 *	expression/		values over a batch: expression.h, kernel.h
 *	  decimal.c		numeric as scaled integers, and PostgreSQL's formats
 *	aggregate/		transition states, advanced and returned: aggregate.h
 *	sink/			where rows end, and what is returned: sink.h
 *
 * Memory: everything lives in the executor state's per-query context, except
 * groups (a context of their own, bounded by hash_mem) and what a batch
 * computes (the expression context's per-tuple memory, reset for each batch).
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGBILLION_VECTOR_H
#define PGBILLION_VECTOR_H

#include "nodes/extensible.h"
#include "nodes/pathnodes.h"

/* ---- plan/plan.c ---- */

/*
 * What the plan says to the executor: custom_scan_tlist holds the output
 * columns (group keys and partial Aggrefs, or columns of joined rows) and
 * after them, as junk, the terms
 * of the filter, and, for each join, its hashable clauses (the build side on
 * the right), what else a pair must satisfy, what a row of the join must
 * satisfy, and the columns of the build side's plan, which is one of
 * custom_plans. custom_private tells how many there are. What the outputs have
 * for aggdistinct the Aggrefs there do not tell: those above have to find them
 * equal to theirs. Params are repeated in custom_exprs, where the planner looks.
 */
typedef enum VectorPrivate
{
	VECTOR_PRIVATE_OUTPUTS,		/* an integer */
	VECTOR_PRIVATE_COLUMNS,		/* a list of one OID: the index of columns to
								 * be read, if any */
	VECTOR_PRIVATE_DISTINCT,	/* a list of aggdistinct, one per output */
	VECTOR_PRIVATE_TERMS,		/* an integer */
	VECTOR_PRIVATE_EXCHANGE,	/* an integer: about so many groups are
								 * exchanged by processes, or none */
	VECTOR_PRIVATE_PATIENCE,	/* an integer: so many groups are made of rows
								 * in which few groups are found again; -1:
								 * any number */
	VECTOR_PRIVATE_JOINS		/* from there on a list of integers per join:
								 * its JoinType, four numbers, and whether
								 * processes run its plan together */
} VectorPrivate;

extern int	vector_aggregate;	/* pgbillion_rows.vector_aggregate: a PlanMode */
extern int	vector_columns;		/* pgbillion_rows.columns: a PlanMode */
extern int	vector_scan;		/* pgbillion_rows.vector_scan: a PlanMode */
extern int	vector_join;		/* pgbillion_rows.vector_join: a PlanMode */
extern int	vector_exchange;	/* pgbillion_rows.vector_exchange: a PlanMode */

extern void vector_init(void);

/* ---- explain_vector.c ---- */

extern void explain_vector_init(void);

/* ---- execute.c ---- */

extern const CustomScanMethods vector_scan_methods;
extern const CustomScanMethods vector_join_methods;

extern Oid	vector_scan_index(CustomScan *cscan);
extern void vector_run(CustomScanState *css);
extern bool vector_next_group(CustomScanState *css, Datum *values, bool *isnull);
extern void vector_rewind(CustomScanState *css);

/* ---- filter_scan.c ---- */

extern const CustomScanMethods vector_filter_scan_methods;

/* ---- finish.c ---- */

extern const CustomScanMethods vector_finish_methods;

extern Node *vector_without_distinct(Node *node, void *context);
extern bool vector_finishable(PathTarget *target, List *clause);
extern Path *vector_finish_gathered_path(AggPath *agg);
extern Path *vector_finish_path(PlannerInfo *root, AggPath *agg, const AggClauseCosts *costs, Cost spilling);

#endif							/* PGBILLION_VECTOR_H */

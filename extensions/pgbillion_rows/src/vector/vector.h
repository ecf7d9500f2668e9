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
 *	batch.h			what goes down: rows, columns, and the interface of sources
 *	huge_pages.h	memory that is accessed at random
 *
 *	keys/			what groups and joined rows are told apart by: key.h
 *	expression/		values over a batch: expression.h, kernel.h
 *	  decimal.c		numeric as scaled integers, and PostgreSQL's formats
 *	filter/			which rows are kept: predicate.h
 *	source/			where rows are from
 *	  heap.c		pages of a heap
 *	  segments.c	segments of a columnar index, and heap pages elsewhere
 *	  segment_values.c	what batches of the former hold
 *	  visible_rows.c	which rows of a page are visible
 *	  pages.c		pages one after the other, mostly without looking them up
 *	  deform.c		values of attributes, a column at a time
 *	  lazy_table.c	tables of pgbillion_tables that have no row yet
 *	  plan_rows.c	rows of a plan of PostgreSQL's
 *	aggregate/		transition states, advanced and returned: aggregate.h
 *	spill/			rows in files, by partitions
 *	join/			hash joins with plans of PostgreSQL's: join.h
 *	group/			where rows end, and what is returned: sink.h
 *	node/			the executor nodes: custom_scan.h
 *	  node.c		what they have in common
 *	  execute.c		those which aggregate, or return the rows of joins: it
 *					drives the steps above; EXPLAIN
 *	  filter_scan.c	that which returns the rows that a filter keeps
 *	  top_rows.c	rows that cannot be among the first of an order
 *	  join_rows.c	what the plan says of joins, in terms of their rows
 *	  top_groups.c	the same of groups
 *	  finalize.c	that above Finalize Aggregate, which it makes superfluous
 *	plan/			when it applies, what it costs, and the plan: plan/plan.h
 *	  explain_vector.c	pgbillion_rows.explain_vector()
 *
 * Memory: everything lives in the executor state's per-query context, except
 * groups (a context of their own, bounded by hash_mem) and what a batch
 * computes (the expression context's per-tuple memory, reset for each batch).
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGBILLION_VECTOR_H
#define PGBILLION_VECTOR_H

#include "nodes/pathnodes.h"

/* ---- plan/upper_paths.c ---- */
extern void vector_init(void);
extern Path *vector_states_path(PlannerInfo *root, RelOptInfo *parent, RelOptInfo *rel, double groups,
								int parallel_workers);

/* ---- plan/explain_vector.c ---- */
extern void explain_vector_init(void);

/* ---- plan/report.c ---- */
extern void vector_report_init(void);

#endif							/* PGBILLION_VECTOR_H */

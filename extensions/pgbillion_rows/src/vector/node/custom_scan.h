/*-------------------------------------------------------------------------
 *
 * custom_scan.h
 *	  Our executor nodes: their methods, and what the plan says to them.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGBILLION_VECTOR_CUSTOM_SCAN_H
#define PGBILLION_VECTOR_CUSTOM_SCAN_H

#include "nodes/extensible.h"

/*
 * What the plan says to the executor: custom_scan_tlist holds the output
 * columns (group keys and partial Aggrefs, or columns of joined rows), and
 * after them one junk entry, a RowExpr of what is evaluated within the scan
 * (aggregate_path.c says why it is one): the terms of the filter and, for each join, its
 * hashable clauses (the build side on the right), what else a pair must
 * satisfy, what a row of the join must satisfy, and the columns of the build
 * side's plan, which is one of custom_plans. custom_private tells how many
 * there are of each. What the outputs have
 * for aggdistinct the Aggrefs there do not tell: those above have to find them
 * equal to theirs. Params are repeated in custom_exprs, where the planner looks.
 */
typedef enum VectorPrivate
{
	VECTOR_PRIVATE_OUTPUTS,		/* an integer */
	VECTOR_PRIVATE_COLUMNS,		/* a list of one OID: the columnar index to be
								 * read, if any */
	VECTOR_PRIVATE_DISTINCT,	/* a list of aggdistinct, one per output */
	VECTOR_PRIVATE_TERMS,		/* an integer */
	VECTOR_PRIVATE_EXCHANGE,	/* an integer: number of groups that are
								 * exchanged by processes, or none */
	VECTOR_PRIVATE_PASSTHROUGH_AFTER,	/* an integer: number of groups after
										 * which rows that find few groups
										 * again pass ungrouped; -1: never */
	VECTOR_PRIVATE_LATE,		/* a list of integers: attributes of the table
								 * that are fetched for the rows that filter
								 * and joins leave, as the columnar index
								 * lacks them */
	VECTOR_PRIVATE_JOINS		/* from there on a list of integers per join:
								 * VectorJoinPrivate */
} VectorPrivate;

/* What the list of a join holds. */
typedef enum VectorJoinPrivate
{
	VECTOR_JOIN_TYPE,			/* a JoinType */
	VECTOR_JOIN_CLAUSES,		/* how many hashable clauses, */
	VECTOR_JOIN_QUALS,			/* conditions of a pair, */
	VECTOR_JOIN_OTHERS,			/* conditions of a row of the join, */
	VECTOR_JOIN_COLUMNS,		/* and columns of its plan there are */
	VECTOR_JOIN_SHARED,			/* do processes run its plan together? */
	VECTOR_JOIN_REVERSED,		/* are its rows the plan's? */
	VECTOR_JOIN_COST,			/* what its table takes */
	VECTOR_JOIN_DEAR,			/* is that more than to read the big table? */
	VECTOR_JOIN_ROWS,			/* how many it likely has */
	VECTOR_JOIN_INDEX,			/* of the big table, that begins with the
								 * key's column: an OID, or 0 */
	VECTOR_JOIN_KEY_ROWS		/* how many rows a key has there */
} VectorJoinPrivate;

/* What custom_private of a scan that returns rows holds; its expressions are the filter. */
typedef enum VectorRowsPrivate
{
	VECTOR_ROWS_ORDER,			/* NIL, or the order whose first rows are
								 * wanted: top_order_list() */
	VECTOR_ROWS_COLUMNS,		/* a list of one OID: the columnar index to be
								 * read, if any */
	VECTOR_ROWS_VALUES			/* an integer: are rows returned as values of
								 * the columns that are needed? */
} VectorRowsPrivate;

/*
 * custom_private of the node above Finalize Aggregate is NIL, or
 * top_groups_list() if only the first groups of an order are wanted.
 */

struct GroupChoice;

/* ---- execute.c ---- */

extern const CustomScanMethods vector_scan_methods;
extern const CustomScanMethods vector_join_methods;

extern Oid	vector_scan_index(CustomScan *cscan);
extern void vector_run(CustomScanState *css);
extern bool vector_next_group(CustomScanState *css, Datum *values, bool *isnull);
extern void vector_rewind(CustomScanState *css);
extern void vector_choose_groups(CustomScanState *css, struct GroupChoice *choice);

/* ---- filter_scan.c ---- */

extern const CustomScanMethods vector_filter_scan_methods;

extern Oid	vector_rows_index(CustomScan *cscan);

struct Column;

/* In place of rows, of a scan whose result has only columns and constants: */
extern struct Column **vector_rows_columns(PlanState *ps);
extern int	vector_rows_next_batch(PlanState *ps);

/* ---- finalize.c ---- */
extern const CustomScanMethods vector_finalize_methods;

#endif							/* PGBILLION_VECTOR_CUSTOM_SCAN_H */

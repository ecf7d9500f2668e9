/*-------------------------------------------------------------------------
 *
 * source.h
 *	  The sources that there are for a table, and for the rows of a plan.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGBILLION_VECTOR_SOURCE_H
#define PGBILLION_VECTOR_SOURCE_H

#include "nodes/bitmapset.h"
#include "utils/rel.h"

#include "vector/batch.h"
#include "vector/filter/filter.h"

/* ---- heap.c ---- */

extern Source *heap_source_create(Relation rel, TupleDesc tupdesc, Batch *batch);
extern void heap_source_list(Source *source, const BlockNumber *blocks, int n);
extern bool heap_source_is_unread(Source *source);
extern void heap_source_read_only(Source *source, const BlockNumber *blocks, int n);

/* ---- heap_expressions.c ---- */

typedef struct HeapExpressions HeapExpressions;

extern HeapExpressions *heap_expressions_create(Relation rel, TupleDesc tupdesc, List *expressions, AttrNumber place,
												Batch *batch);
extern Source *heap_expressions_source(HeapExpressions *rows);

/* ---- segments.c ---- */

extern Source *segment_source_create(Relation rel, Oid index, Batch *batch, Source *heap,
									 HeapExpressions *expressions, bool returns_rows, AttrNumber place);
extern void segment_source_order(Source *source, int column, bool descending);
extern void segment_source_list(Source *source, const Datum *places, int n);
extern void segment_source_fetch(Source *source, int row, TupleTableSlot *slot);

/* ---- late_columns.c ---- */

extern Source *late_columns_create(Source *table, Relation rel, Batch *input, VectorFilter *filter, AttrNumber place,
								   const Bitmapset *late, Batch *output);

/* ---- plan_rows.c ---- */

/* Maximum number of rows that it returns at a time, by which its callers bound their memory. */
#define PLAN_BATCH_ROWS 256

extern Source *plan_rows_create(PlanState *plan);

/* ---- lazy_table.c ---- */

extern bool source_is_lazy(Relation rel);

#endif							/* PGBILLION_VECTOR_SOURCE_H */

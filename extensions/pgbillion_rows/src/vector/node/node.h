/*-------------------------------------------------------------------------
 *
 * node.h
 *	  What our scans of a table have in common: a source of batches, a filter,
 *	  parallel workers, and what EXPLAIN tells of these.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGBILLION_VECTOR_NODE_H
#define PGBILLION_VECTOR_NODE_H

#include "vector/batch.h"
#include "vector/filter/filter.h"
#include "vector/join/join.h"

struct ExplainState;

/* Each scan's own state begins with it. */
typedef struct VectorNode
{
	CustomScanState css;
	Batch		batch;
	Source	   *table;			/* of the table's rows, */
	Batch	   *read;			/* in this batch */
	Source	   *joins;			/* the last of the joins, or NULL */
	Source	   *source;			/* of the rows that leave the scan: the
								 * table's, those of the joins, or these with
								 * late columns */
	VectorFilter *filter;		/* of the table's rows */
	bool		returns_rows;	/* in the table's own form */
	Oid			index;			/* columnar index that is read, or InvalidOid */
	List	   *expressions;	/* of the index, which count as columns after
								 * those of the table; NIL: of no use */
	Bitmapset  *late;			/* columns of the table that are fetched for
								 * the rows that filter and joins leave */
	AttrNumber	place;			/* then the attribute, after all others of the
								 * table, that says where a row is; else 0 */
} VectorNode;

extern void vector_node_use_index(VectorNode *node, Oid index, List *exprs);
extern void vector_node_fetch_late(VectorNode *node, List *attnos);
extern List *vector_node_exprs(VectorNode *node, List *exprs);
extern TupleDesc vector_node_describe(VectorNode *node);
extern void vector_node_begin(VectorNode *node, List *clauses, List *outputs);
extern void vector_node_begin_rows(VectorNode *node, List *clauses, List *outputs);
extern void vector_node_end(VectorNode *node);
extern void vector_node_begin_joins(VectorNode *node, List *clauses, List *outputs, JoinRows *joins);
extern bool vector_node_next(VectorNode *node);
extern void vector_node_explain_list(const char *label, List *exprs, List *context, bool prefix,
									 struct ExplainState *es);
extern void vector_node_explain_filter(VectorNode *node, const char *label, List *clauses, List *context,
									   bool prefix, struct ExplainState *es);

/* ---- join_rows.c ---- */
extern JoinRows *join_rows_create(VectorNode *node, List *exprs);
extern List *join_rows_exprs(JoinRows *rows, List *exprs);

/* ---- callbacks ---- */

extern Size vector_node_estimate_dsm(CustomScanState *css, ParallelContext *pcxt);
extern void vector_node_initialize_dsm(CustomScanState *css, ParallelContext *pcxt, void *coordinate);
extern void vector_node_reinitialize_dsm(CustomScanState *css, ParallelContext *pcxt, void *coordinate);
extern void vector_node_initialize_worker(CustomScanState *css, shm_toc *toc, void *coordinate);
extern void vector_node_shutdown(CustomScanState *css);

/* They, for a node's methods. */
#define VECTOR_NODE_PARALLEL \
	.EstimateDSMCustomScan = vector_node_estimate_dsm, \
	.InitializeDSMCustomScan = vector_node_initialize_dsm, \
	.ReInitializeDSMCustomScan = vector_node_reinitialize_dsm, \
	.InitializeWorkerCustomScan = vector_node_initialize_worker, \
	.ShutdownCustomScan = vector_node_shutdown

#endif							/* PGBILLION_VECTOR_NODE_H */

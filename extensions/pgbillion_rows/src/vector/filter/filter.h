/*-------------------------------------------------------------------------
 *
 * filter.h
 *	  Which rows of a batch are kept.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGBILLION_VECTOR_FILTER_H
#define PGBILLION_VECTOR_FILTER_H

#include "vector/batch.h"

typedef struct VectorFilter VectorFilter;

extern VectorFilter *vector_filter_compile(List *clauses, Batch *batch);
extern bool vector_filter_is_certain(Expr *clause, TupleDesc tupdesc);
extern bool vector_filter_is_kernel(Expr *clause, TupleDesc tupdesc);
extern bool vector_filter_is_certain_kernel(Expr *clause, TupleDesc tupdesc, bool *certain);
extern void vector_filter_kernels(VectorFilter *filter, int *kernels, int *terms);
extern bool vector_filter_excludes(void *filter, Batch *batch);
extern bool vector_filter_next(VectorFilter *filter, Batch *batch);
extern int	vector_filter_batch(VectorFilter *filter, Batch *batch);
extern int	vector_filter_finally(VectorFilter *filter, Batch *batch);
extern VectorFilter *vector_filter_compile_rows(Expr *clause, Batch *batch);
extern int	vector_filter_rows(VectorFilter *filter, Batch *batch, uint16 *rows);

#endif							/* PGBILLION_VECTOR_FILTER_H */

/*-------------------------------------------------------------------------
 *
 * share.h
 *	  Rows of a plan that the processes of a parallel plan read together.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGBILLION_VECTOR_SHARE_H
#define PGBILLION_VECTOR_SHARE_H

#include "access/parallel.h"

#include "vector/batch.h"

extern Source *shared_rows_create(Source *plan);
extern bool shared_rows_applies(const Source *source);

/* ---- of all that there are in a node, as a list; memory as in exchange.h ---- */
extern Size shared_rows_size(List *sources);
extern void shared_rows_share(List *sources, ParallelContext *pcxt, void *memory);
extern void shared_rows_share_again(List *sources, ParallelContext *pcxt, void *memory);
extern void shared_rows_attach(List *sources, void *memory);
extern void shared_rows_detach(List *sources);

#endif							/* PGBILLION_VECTOR_SHARE_H */

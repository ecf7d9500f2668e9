/*-------------------------------------------------------------------------
 *
 * ordered_runs.h
 *	  Values of groups in order, in temporary files.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGBILLION_VECTOR_ORDERED_RUNS_H
#define PGBILLION_VECTOR_ORDERED_RUNS_H

#include "postgres.h"

typedef struct OrderedRuns OrderedRuns;

extern OrderedRuns *ordered_runs_create(Size limit);
extern void ordered_runs_begin(OrderedRuns *runs);
extern void ordered_runs_write(OrderedRuns *runs, const char *entry, const uint64 *keys, int64 n);
extern int	ordered_runs_count(const OrderedRuns *runs);
extern uint64 ordered_runs_bytes(const OrderedRuns *runs);
extern void ordered_runs_rewind(OrderedRuns *runs);
extern bool ordered_runs_next(OrderedRuns *runs, char **entry, uint64 *key);
extern void ordered_runs_close(OrderedRuns *runs);

#endif							/* PGBILLION_VECTOR_ORDERED_RUNS_H */

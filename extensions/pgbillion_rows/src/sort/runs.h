/*-------------------------------------------------------------------------
 *
 * runs.h
 *	  Sorted runs of rows in files.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGBILLION_SORT_RUNS_H
#define PGBILLION_SORT_RUNS_H

#include "sort/sort_key.h"

typedef struct Runs Runs;

extern Runs *runs_create(const SortKeys *keys, Size limit);
extern void runs_add(Runs *runs, char *const *rows, int64 n);
extern void runs_begin(Runs *runs);
extern char *runs_next(Runs *runs);
extern void runs_end(Runs *runs);
extern int64 runs_written(const Runs *runs, int *count);

#endif							/* PGBILLION_SORT_RUNS_H */

/*-------------------------------------------------------------------------
 *
 * spill.h
 *	  Rows kept in temporary files, a partition of them being a source.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGBILLION_VECTOR_SPILL_H
#define PGBILLION_VECTOR_SPILL_H

#include "storage/fileset.h"

#include "vector/batch.h"

typedef struct Spill Spill;
typedef struct SpillPartition SpillPartition;

extern Spill *spill_begin(Batch *batch, int level, double groups, int64 resident, Size limit);
extern Spill *spill_begin_partitions(Batch *batch, int level, int npartitions);
extern int	spill_partitions(Spill *spill);
extern void spill_rows(Spill *spill, const uint16 *rows, int n, const uint64 *tags);
extern List *spill_end(Spill *spill, uint64 *bytes);
extern int	spill_level(SpillPartition *partition);
extern int	spill_number(SpillPartition *partition);
extern int64 spill_count(SpillPartition *partition);
extern Source *spill_source(SpillPartition *partition);

/* ---- rows for other processes: one partition, in a file with a name ---- */
extern Spill *spill_begin_shared(Batch *batch, FileSet *files, const char *name);
extern void spill_end_shared(Spill *spill);
extern Source *spill_open_shared(FileSet *files, const char *name);

extern void spill_close(SpillPartition *partition);

#endif							/* PGBILLION_VECTOR_SPILL_H */

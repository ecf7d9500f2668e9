/*-------------------------------------------------------------------------
 *
 * statistics.h
 *	  How many queries ran by what this extension adds, and how long.
 *
 *	count_queries.c	looks at each query that begins and ends
 *	memory.c	the counters of each database, in shared memory
 *	view.c		what shows and resets them
 *
 * Nothing of the executor's nodes calls this: what a query ran is read off the
 * tree of its nodes.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGBILLION_STATISTICS_H
#define PGBILLION_STATISTICS_H

#include "datatype/timestamp.h"

/* What a query may run. The view has a name for each, and a row. */
typedef enum QueryKind
{
	/* vectorized aggregation */
	QUERY_AGGREGATE,
	/* the same, planned to read columns from an index of them */
	QUERY_COLUMNS,
	/* a vectorized scan that returns rows */
	QUERY_SCAN,
	/* a vectorized sort for ORDER BY */
	QUERY_SORT,
	/* vectorized window functions */
	QUERY_WINDOW,
	/* aggregation before a join */
	QUERY_EAGER_AGGREGATE,
	/* a hash join in the place of a nested loop that rests on a guess */
	QUERY_REPLACED_LOOP,
	/* aggregation on shards */
	QUERY_SHARDS
} QueryKind;

#define QUERY_KINDS (QUERY_SHARDS + 1)

/* The counters of a database. Of different moments, as those of pg_stat views. */
typedef struct QueryCounts
{
	/* InvalidOid: all databases for which there was no room */
	Oid			database;
	/* since when they count */
	TimestampTz since;
	uint64		queries[QUERY_KINDS];
	uint64		microseconds[QUERY_KINDS];
} QueryCounts;

/* ---- count_queries.c ---- */

extern void statistics_count_init(void);

/* ---- memory.c ---- */

extern void statistics_memory_init(void);
extern void statistics_prepare(void);
extern void statistics_add(uint32 kinds, uint64 microseconds);
extern int	statistics_read(QueryCounts **counts);
extern void statistics_reset(void);

#endif							/* PGBILLION_STATISTICS_H */

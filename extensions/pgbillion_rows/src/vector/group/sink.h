/*-------------------------------------------------------------------------
 *
 * sink.h
 *	  Where batches end: what the steps above them leave is consumed, and rows
 *	  are returned.
 *
 *	one_group.c		one row of partial states, without GROUP BY
 *	group_sink.c	one row per group, with its partial states
 *	row_sink.c		the rows themselves
 *	regroup.c		groups with DISTINCT, whose values processes share out
 *
 *	group_table.c	the hash table of groups
 *	group_record.c	its groups on their way to another process
 *	by_code.c		groups by the codes of their keys
 *	distinct.c		values within a group, each once
 *	value_set.c		pairs of a value and a group
 *	exchange.c		groups that processes finish together
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGBILLION_VECTOR_SINK_H
#define PGBILLION_VECTOR_SINK_H

#include "vector/batch.h"

typedef struct Sink Sink;

/*
 * Which of the final groups are wanted: those that come first by some outputs,
 * whose values are passed by value. Before groups are returned, all are offered
 * by compare() and take(); then compare() says which are wanted. A sink may
 * return others, too.
 */
typedef struct GroupChoice GroupChoice;

struct GroupChoice
{
	int			nkeys;
	int		   *outputs;		/* keys, the first of which matters most */

	/*
	 * Below 0: a group comes before the last of those taken; above: it is not
	 * wanted; 0: that depends on the next key. Such are wanted, too, but not
	 * to be taken.
	 */
	int			(*compare) (GroupChoice *choice, int key, Datum value, bool isnull);

	/*
	 * List those of n groups which do not come after the last by the first
	 * key, whose values these are, and return how many.
	 */
	int			(*sift) (GroupChoice *choice, const Datum *values, const bool *nulls, int n, uint16 *rows);

	/* The values of all keys of a group that comes before the last. */
	void		(*take) (GroupChoice *choice, const Datum *values, const bool *nulls);
};

typedef struct SinkMethods
{
	/*
	 * Take the rows of a batch, of which there is at least one. It may remove
	 * some. Called in the batch's memory. Returns true if rows are to be
	 * returned before the next batch.
	 */
	bool		(*consume) (Sink *sink, Batch *batch);

	/* The source has ended. */
	void		(*finish) (Sink *sink);

	/*
	 * The next row to be returned, in the order of the output columns and
	 * allocated in the current context; values by reference may be the
	 * sink's, valid until the next call. False if there is none until more
	 * batches have been consumed. Called until it says so, after a batch
	 * where consume() wants it and after the end.
	 */
	bool		(*next) (Sink *sink, Datum *values, bool *isnull);

	/*
	 * After the last row: a source of rows that the sink has kept, which have
	 * passed the steps above it. They are consumed after the rows returned
	 * have been forgotten. NULL if there is none, or the member is.
	 */
	Source	   *(*spilled_source) (Sink *sink);

	/* Forget everything; the next batch is the first. */
	void		(*reset) (Sink *sink);

	/* Close what is not memory. */
	void		(*end) (Sink *sink);

	/*
	 * For callers that want final groups, see vector_run(); others leave
	 * these out.
	 */

	/*
	 * Before the first batch: each group is to be returned once; rows of
	 * groups for which there is no memory become the spilled source. About so
	 * many groups are expected.
	 */
	void		(*keep_final) (Sink *sink, double groups);

	/* After the end: return all rows once more. False if some are forgotten. */
	bool		(*rewind) (Sink *sink);

	/* How many rows there are to return, or to be exchanged. */
	int64		(*count) (Sink *sink);
} SinkMethods;

struct Sink
{
	const SinkMethods *methods;

	/*
	 * of groups that the processes of a parallel plan finish together, or
	 * NULL: a caller that wants final groups begins, waits, and then asks for
	 * rows
	 */
	struct Exchange *exchange;

	/*
	 * Where the node above merges groups anyway, and few rows are of a group
	 * that the table has already, rows are passed through ungrouped, but only
	 * once the table has this number of groups; never if it is -1.
	 * PostgreSQL's functions have to see rows in their order unless they come
	 * in any.
	 */
	int64		passthrough_after;
	bool		any_order;

	/* for callers that want only some of the final groups; NULL: all */
	GroupChoice *choice;

	struct Aggregates *states;	/* of groups, or NULL */

	/* what EXPLAIN tells of it: how many outputs, and of these by kernels */
	int			aggregates;
	int			kernel_aggregates;
	int			keys;
	int			kernel_keys;
	uint64		spilled_partitions;
	uint64		spilled_bytes;
	uint64		passthrough_rows;	/* rows returned one by one for want of
									 * groups */
};

/* The outputs are expressions: aggregates, and group keys. With `apart`, each aggregate has a state of its own. */
extern Sink *one_group_create(List *outputs, Batch *batch, bool apart);
extern Sink *group_sink_create(List *outputs, Batch *batch, bool exchanged, bool apart);

/* They are columns of the batch. */
extern Sink *row_sink_create(List *outputs, Batch *batch);

#endif							/* PGBILLION_VECTOR_SINK_H */

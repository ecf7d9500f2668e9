/*-------------------------------------------------------------------------
 *
 * probe.h
 *	  One join as a source, which the files of joins share: join.h.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGBILLION_VECTOR_JOIN_PROBE_H
#define PGBILLION_VECTOR_JOIN_PROBE_H

#include "vector/join/join.h"

/* What is written of both sides; NULL: there are no rows. */
typedef struct PartitionPair
{
	SpillPartition *build;
	SpillPartition *probe;
} PartitionPair;

/* What pairs are made of. */
typedef enum PairPhase
{
	PAIRS_NONE,					/* of the input batch there is nothing left */
	PAIRS_MATCHES,
	PAIRS_UNMATCHED,			/* rows that no match has satisfied */
	PAIRS_UNMARKED				/* the table's, after the input's end */
} PairPhase;

/* A column of the output as an array of numbers. */
typedef struct PackedPairs
{
	uint64		serial;			/* of the rows of the output whose it is; 0:
								 * none */
	Packed		packed;
	uint64	   *elements;		/* room for them, or NULL */
	bool	   *nulls;
} PackedPairs;

struct VectorJoin
{
	Source		source;
	JoinType	type;
	bool		reversed;
	double		cost;			/* of the table, over how likely it is empty */
	bool		dear;			/* it takes longer than to read the big table */
	Source	   *below;			/* of the rows of the input */
	Batch	   *input;
	VectorFilter *filter;		/* of what is below, or NULL */
	JoinKeyFilter *key_filter;	/* what is below is the table, of which it
								 * removes rows first; or NULL */
	JoinLookUps *look_ups;		/* what finds its pages by an index; or NULL */
	JoinKeyFilter *marked_keys; /* of a reversed join that one match decides:
								 * what leaves out rows of keys that have had
								 * one; or NULL */
	Batch	   *output;			/* what we fill */
	int		   *origins;		/* of its columns: in the input, or in the
								 * build side's batch, after that: -1, -2, … */
	VectorFilter *quals;		/* of pairs, or NULL */
	VectorFilter *others;		/* of the rows of the join, or NULL */
	VectorExpr *keys[JOIN_MAX_KEYS];
	JoinKeys   *join_keys;
	JoinBuild  *build;

	/* how far we are */
	bool		read;			/* the plan has been, and is to be rescanned */
	bool		built;			/* its rows are in the table, or divided */
	bool		divided;		/* they are, or were, in partitions */
	bool		begun;			/* rows are being read */
	bool		exhausted;		/* the input's source has ended */
	bool		ended;
	bool		is_small;		/* what is below is a table of a few pages */
	bool		ahead;			/* the input has rows that have been read
								 * before the tables were built */
	MemoryContext spill_context;
	Spill	   *spill;			/* the input's rows are being written, or NULL */
	List	   *pairs;			/* of partitions, waiting to be joined */

	/* the batch of the input */
	PairPhase	phase;
	int			row;			/* from which on there are pairs */
	Values		values[JOIN_MAX_KEYS];	/* of the keys, unless direct */
	JoinEntry  *next[BATCH_ROWS];	/* each row's next match */
	bool		matched[BATCH_ROWS];	/* one has satisfied it */
	uint64		slot;			/* how far the table has been walked through */
	JoinEntry  *entry;

	/* the batch of the output */
	uint16		rows[BATCH_ROWS];	/* of the input */
	JoinEntry  *entries[BATCH_ROWS];	/* NULL: none */
	bool		without_rows;	/* of the input there are none */
	PackedPairs *packed;		/* of each column */
};

/* Are rows without a match of no use? */
static inline bool
join_drops_unmatched(const VectorJoin *join)
{
	return join->type == JOIN_INNER || join->type == JOIN_SEMI || join->reversed;
}

/* Does it return rows of the table that nothing has matched? */
static inline bool
join_returns_unmarked(const VectorJoin *join)
{
	return join->reversed && join->type == JOIN_ANTI;
}

/* ---- probe.c ---- */
extern const SourceMethods join_methods;

/* ---- partition.c ---- */
extern void join_find_tags(VectorJoin *join, uint64 *tags, bool *known);
extern void join_spill_input(VectorJoin *join);
extern void join_fill_table(VectorJoin *join, Source *source, int level);
extern bool join_next_partition(VectorJoin *join);
extern void join_forget_partitions(VectorJoin *join);

#endif							/* PGBILLION_VECTOR_JOIN_PROBE_H */

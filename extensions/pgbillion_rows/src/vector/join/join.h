/*-------------------------------------------------------------------------
 *
 * join.h
 *	  Hash joins along the big table: a source whose rows are those of another
 *	  one, each together with the rows of a plan of PostgreSQL's that match it.
 *
 *	  source of the table ─▶ filter ─▶ join 1 ─▶ join 2 ─▶ … ─▶ sink
 *	                                     ▲          ▲
 *	                                   plan       plan, read into hash tables
 *
 * Each join reads a batch of its own, its input, and fills that of the next
 * step. The rows of all of these are described alike: first the attributes of
 * the table, then the columns that each of the plans returns. A value is
 * copied from step to step when it is asked for, and not before.
 *
 *	table.c		the hash table
 *	share.c		rows of a plan that processes run together: share.h
 *	build.c		fills it; what does not fit into memory goes to files
 *	key_filter.c	removes rows of the table that cannot match
 *	probe.c		the source: which rows match
 *	partition.c	the same partition by partition, if memory does not suffice
 *	look_up.c	finds the pages that few keys are on, by an index
 *	create.c	makes the joins of a scan
 *
 * Memory: each hash table is bounded by hash_mem. Beyond it both sides are
 * written to partitions by a hash of their keys, again if a partition does not
 * fit, up to MAX_PARTITION_LEVEL times. Only rows that share a hash cannot be
 * told apart then, and exceed the bound, as they do in PostgreSQL's hash join.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGBILLION_VECTOR_JOIN_H
#define PGBILLION_VECTOR_JOIN_H

#include "vector/batch.h"
#include "vector/expression/expression.h"
#include "vector/filter/filter.h"
#include "vector/keys/join_key.h"
#include "vector/spill/spill.h"

/* One join. Expressions are over the rows described above, except inner_keys. */
typedef struct JoinSpec
{
	JoinType	type;			/* inner, left, semi or anti; the table is on
								 * the left, unless */
	bool		reversed;		/* a semijoin's or antijoin's rows are the
								 * plan's, which those of the table may match */
	List	   *clauses;		/* hashable, the plan on the right, as in the
								 * plan: for operators and EXPLAIN */
	List	   *outer_keys;
	List	   *inner_keys;		/* over the rows of the plan */
	List	   *quals;			/* what a pair of rows must satisfy, too */
	List	   *others;			/* what the rows of the join must satisfy */
	List	   *plain_quals;	/* both, as in the plan: for EXPLAIN */
	List	   *plain_others;
	PlanState  *plan;			/* of the build side */
	bool		shared;			/* processes run it together */
	int			cost;			/* what its table takes, as the planner knows
								 * better than the plan tells */
	bool		dear;			/* that is more than to read the big table */
	int			rows;			/* how many it likely has, by what is known */
	Oid			index;			/* of the table's, that begins with the key's
								 * column, or InvalidOid */
	int			key_rows;		/* of each key, as it is estimated */
	AttrNumber	first;			/* attribute before that of its first column */
	int			ncolumns;
} JoinSpec;

typedef struct JoinRows
{
	List	   *specs;			/* in the order in which rows are joined */
	TupleDesc	tupdesc;		/* of their rows */
	Index		table;
	List	   *columns;		/* of all plans */
	AttrNumber	first;			/* attribute before that of the first of them */
} JoinRows;

/* ---- table.c ---- */

/*
 * A row of the build side: its columns' values, and its keys' unless the tag
 * tells. In a table of a reversed join it may be marked as matched.
 */
typedef struct JoinEntry
{
	struct JoinEntry *next;		/* of the same tag */
	Datum		values[FLEXIBLE_ARRAY_MEMBER];
} JoinEntry;

typedef struct JoinTable JoinTable;

extern JoinTable *join_table_create(JoinKeys *keys, Batch *batch, bool keeps_unknown, bool keys_only);
extern void join_table_reset(JoinTable *table);
extern bool join_table_fits(JoinTable *table, int n);
extern Size join_table_limit(JoinTable *table);
extern Size join_table_bytes(JoinTable *table);
extern int64 join_table_count(JoinTable *table);
extern bool join_table_has_twins(JoinTable *table);
extern void join_table_insert(JoinTable *table, Batch *batch, const Values *keys, const uint64 *tags,
							  const bool *known);
extern void join_table_find(JoinTable *table, const Values *keys, const uint64 *tags, const bool *known,
							int n, JoinEntry **entries);
extern JoinEntry *join_table_next(JoinTable *table, const Values *keys, int row, JoinEntry *entry);
extern bool join_table_entry_null(JoinTable *table, const JoinEntry *entry, int column);
extern bool join_table_marked(JoinTable *table, const JoinEntry *entry);
extern void join_table_mark(JoinTable *table, JoinEntry *entry);
extern void join_table_clear_marks(JoinTable *table);
extern bool join_table_dump(JoinTable *table, uint64 *slot, JoinEntry **entry, uint64 *tag);
extern bool join_table_tags(JoinTable *table, uint64 *slot, uint64 *tag);
extern Size join_table_entry_bytes(int ncolumns, int nkeys);

/* ---- build.c ---- */

#define MAX_PARTITION_LEVEL 5

typedef struct JoinBuild
{
	Batch		batch;			/* of the plan's rows */
	PlanState  *plan;
	Source	   *rows;			/* these */
	VectorExpr *keys[JOIN_MAX_KEYS];
	JoinKeys   *join_keys;
	Bitmapset  *params;			/* parameters in these keys */
	bool		keeps_unknown;	/* rows with a NULL among their keys, too */
	JoinTable  *table;

	/* of all rows that have no NULL among their keys; of integers only */
	int64		min[JOIN_MAX_KEYS];
	int64		max[JOIN_MAX_KEYS];
	bool		complete;		/* they are all in the table, or were until
								 * the next run */
	uint64		serial;			/* of the run that read them */

	Spill	   *spill;			/* the rows are being written, or NULL */
	int			npartitions;	/* to which they were written at last */
	List	   *partitions;

	/* what EXPLAIN tells */
	uint64		spilled_partitions;
	uint64		spilled_bytes;
	int64		most_rows;		/* in memory */
	Size		most_bytes;
} JoinBuild;

extern JoinBuild *join_build_create(const JoinSpec *spec, JoinKeys *keys, Bitmapset *columns, PlanState *parent);
extern bool join_build_run(JoinBuild *build, Source *source, int level, MemoryContext spill_context);

/* ---- key_filter.c ---- */

typedef struct JoinKeyFilter JoinKeyFilter;

extern JoinKeyFilter *join_key_filter_create(VectorFilter *filter);
extern void join_key_filter_add(JoinKeyFilter *filter, JoinBuild *build, int key, int column, AttrNumber attno, Oid type);
extern void join_key_filter_begin(JoinKeyFilter *filter);
extern void join_key_filter_forget(JoinKeyFilter *filter, const JoinBuild *build, const uint64 *tags,
								   JoinEntry *const *entries, int n);
extern void join_key_filter_batch(JoinKeyFilter *filter, Batch *batch);
extern bool join_key_filter_excludes(void *filter, Batch *batch);
extern uint64 join_key_filter_removed(const JoinKeyFilter *filter);

/* ---- look_up.c ---- */

typedef struct JoinLookUps JoinLookUps;

extern JoinLookUps *join_look_ups_create(Batch *table);
extern void join_look_ups_add(JoinLookUps *look_ups, JoinBuild *build, Oid index, Oid type, double rows);
extern void join_look_ups_begin(JoinLookUps *look_ups);
extern const char *join_look_ups_used(const JoinLookUps *look_ups, uint64 *keys, uint64 *pages);

/* ---- create.c ---- */

typedef struct VectorJoin VectorJoin;

extern Bitmapset *joins_needed(JoinRows *rows, List *outputs);
extern Source *joins_create(JoinRows *rows, List *outputs, Batch *table, VectorFilter *filter, Batch *output);
extern void joins_forget(Source *source, const Bitmapset *changed);
extern JoinBuild *join_build_of(Source *source, int above);
extern List *joins_shared_rows(Source *source);
extern JoinKeyFilter *join_key_filter_of(Source *source);
extern JoinLookUps *join_look_ups_of(Source *source);

#endif							/* PGBILLION_VECTOR_JOIN_H */

/*-------------------------------------------------------------------------
 *
 * batch.h
 *	  What goes down the pipeline: a batch of rows, and where its values are
 *	  from.
 *
 * A source fills a batch with rows, and loads the values of a column when they
 * are asked for. The steps below it work on the rows 0 to n - 1, or on a list
 * of them (`rows`, ascending), and write dense results. A step that removes
 * rows calls batch_keep(): what is loaded is compacted, and what is loaded
 * later is loaded for the rows that are left only.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGBILLION_VECTOR_BATCH_H
#define PGBILLION_VECTOR_BATCH_H

#include "compat.h"
#include "access/htup_details.h"
#include "executor/tuptable.h"
#include "nodes/execnodes.h"
#include "nodes/extensible.h"

#ifndef HAVE_INT128
#error "pgbillion needs a compiler with 128-bit integers"
#endif

/* A batch has at most so many rows: what one page of a heap holds. */
#define BATCH_ROWS MaxHeapTuplesPerPage

/* Bytes that a prefetch brings; a wrong guess costs a little speed. */
#define CACHE_LINE 64

typedef struct Batch Batch;
typedef struct Source Source;

/* Values of one attribute for the rows of a batch, dense. */
typedef struct Column
{
	AttrNumber	attno;
	int16		len;
	bool		byval;
	bool		filter;			/* a filter needs it */
	bool		later;			/* it is needed after filtering */
	bool		loaded;			/* for the rows that are in the batch now */
	bool		has_nulls;		/* false: nulls[] need not be looked at */
	bool		dirty;			/* nulls[] holds true somewhere, maybe beyond
								 * the batch */
	Datum	   *values;
	bool	   *nulls;			/* always valid */
} Column;

/*
 * Where batches come from. Each function is called once a batch or column at
 * most. The members after end() are for sources that a plan node reads; others
 * leave them out.
 */
typedef struct SourceMethods
{
	/*
	 * Give the batch its next rows, possibly none. Returns false at the end.
	 * Values by reference are valid until the next call. Called in the
	 * batch's memory, which has just been reset.
	 */
	bool		(*next) (Source *source, Batch *batch);

	/*
	 * Load the values of a column that is not loaded, for the rows that are
	 * in the batch now. Others that are on the way may be loaded, too.
	 */
	void		(*load) (Source *source, Batch *batch, int column);

	/*
	 * Few rows are expected to be left once these columns have been looked
	 * at: load them, and nothing that is on the way, if that is a saving.
	 * Called before any other column is loaded.
	 */
	void		(*load_only) (Source *source, Batch *batch, const int *columns, int n);

	/* Does it cost little to load a column? */
	bool		(*is_cheap) (Source *source, Batch *batch, int column);

	/* Is it known, without loading a column, that it holds no NULL? */
	bool		(*has_no_nulls) (Source *source, Batch *batch, int column);

	/* The batch is about to have only the n rows listed. NULL: no matter. */
	void		(*keep) (Source *source, Batch *batch, const uint16 *rows, int n);

	/*
	 * Store a row that is left in a slot of the table's own kind, which pins
	 * what it lies in. Rows are asked for in ascending order, after the last
	 * keep(). NULL: rows have no such form.
	 */
	void		(*store) (Source *source, int row, TupleTableSlot *slot);

	/* End reading, wherever it is; next() may begin anew. */
	void		(*end) (Source *source);

	/*
	 * Processes of a parallel plan share what next() has to give. The leader
	 * has memory of this size initialized, and again for a rescan; workers
	 * attach to it. detach() is called in the leader before it goes.
	 */
	Size		shared_size;
	void		(*share) (Source *source, void *shared);
	void		(*share_again) (Source *source, void *shared);
	void		(*attach) (Source *source, void *shared);
	void		(*detach) (Source *source);

	/* What EXPLAIN ANALYZE tells of it. */
	void		(*explain) (Source *source, struct ExplainState *es);
} SourceMethods;

struct Source
{
	const SourceMethods *methods;
};

struct Batch
{
	Source	   *source;			/* of the rows that are in it now */
	int			n;				/* rows */
	uint64		serial;			/* changes with every change of the rows */
	int			ncolumns;
	Column	   *columns;
	ExprContext *econtext;		/* its per-tuple memory lives as long as the
								 * rows */
	TupleTableSlot *slot;		/* row for PostgreSQL's expression code */
	List	   *decimals;		/* expressions of decimals:
								 * decimal_expression.c */
	PlanState  *parent;
};

extern void batch_init_columns(Batch *batch, TupleDesc tupdesc, Bitmapset *filter_attnos,
							   Bitmapset *later_attnos);
extern void batch_init(Batch *batch, TupleDesc tupdesc, Bitmapset *filter_attnos, Bitmapset *later_attnos,
					   PlanState *parent);
extern int	batch_index(Batch *batch, AttrNumber attno);
extern void batch_keep(Batch *batch, const uint16 *rows, int n, bool final);

/* The column of an index, loaded for the rows that are in the batch now. */
static inline Column *
batch_column(Batch *batch, int index)
{
	Column	   *column = &batch->columns[index];

	if (!column->loaded)
		batch->source->methods->load(batch->source, batch, index);
	Assert(column->loaded);
	return column;
}

/* Are the values of a column at hand, or cheap to get? */
static inline bool
batch_at_hand(Batch *batch, int index)
{
	return batch->columns[index].loaded ||
		batch->source->methods->is_cheap(batch->source, batch, index);
}

/* Does a column hold no NULL? It is loaded only if that cannot be told without. */
static inline bool
batch_no_nulls(Batch *batch, int index)
{
	if (!batch->columns[index].loaded &&
		batch->source->methods->has_no_nulls(batch->source, batch, index))
		return true;
	return !batch_column(batch, index)->has_nulls;
}

#endif							/* PGBILLION_VECTOR_BATCH_H */

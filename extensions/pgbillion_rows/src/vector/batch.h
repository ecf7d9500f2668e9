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

#include "access/htup_details.h"
#include "compat.h"
#include "executor/tuptable.h"
#include "nodes/execnodes.h"
#include "nodes/extensible.h"

#ifndef HAVE_INT128
#error "pgbillion needs a compiler with 128-bit integers"
#endif

/*
 * Maximum number of rows of a batch: what one page of a heap holds, or a few
 * pages with few rows, and what columns of Datums take of the processor's
 * first cache.
 */
#define BATCH_ROWS Max(1024, MaxHeapTuplesPerPage + 64)

/* Bytes that a prefetch brings; a wrong guess costs a little speed. */
#define CACHE_LINE 64

typedef struct Batch Batch;
typedef struct Source Source;

/* Values of one attribute for the rows of a batch, dense. */
typedef struct Column
{
	AttrNumber	attno;
	Oid			type;			/* below domains */
	int16		len;
	bool		byval;
	bool		filter;			/* a filter needs it */
	bool		later;			/* it is needed after filtering */
	bool		only_counted;	/* ... and then only whether it is NULL */
	bool		loaded;			/* for the rows that are in the batch now */
	bool		has_nulls;		/* false: nulls[] need not be looked at */
	bool		dirty;			/* nulls[] holds true somewhere, maybe beyond
								 * the batch */
	Datum	   *values;
	bool	   *nulls;			/* always valid */
} Column;

/*
 * A column as numbers of values in a dictionary, for the rows of a batch. NULL
 * has a number of its own. Different values may be equal, as 1.0 and 1.00, and
 * values need not occur.
 */
typedef struct Codes
{
	uint64		serial;			/* of the dictionary, among all columns: it
								 * changes with the values */
	int			n;				/* codes are below it */
	const uint8 *codes;			/* if n is at most SHORT_CODES, else NULL and: */
	const uint16 *long_codes;
	const Datum *values;		/* valid until the next batch; of NULL: none */
	int			null;			/* the code of NULL, which is the last, or -1 */
} Codes;

#define SHORT_CODES 256

/* A column as an array of numbers, for the rows of a batch. */
typedef enum PackedKind
{
	PACKED_INTEGERS,			/* distance above the base, unsigned and
								 * modulo 2^64; the sum is the value */
	PACKED_DECIMALS,			/* the same, in units of 10^-scale */
	PACKED_FLOAT4
} PackedKind;

typedef struct Packed
{
	PackedKind	kind;
	int			width;			/* 1, 2, 4 or 8 */
	const void *array;
	const bool *nulls;			/* of each row, whose element is of no use if
								 * it is NULL; NULL: none is */
	int64		base;
	int			scale;
	int64		min;			/* of integers and decimals: no value is below */
	int64		max;			/* ... nor above; both are within what base
								 * and width can say */
	bool		no_nan;			/* of floats: none is NaN */
} Packed;

/*
 * What is known of the values of a column in many batches. Nothing is said of
 * NULLs.
 */
typedef struct Bounds
{
	bool		floats;			/* float_min and float_max, and no NaN; else
								 * min and max */
	int			scale;			/* of decimals, or -1 */
	int64		min;
	int64		max;
	float8		float_min;
	float8		float_max;
} Bounds;

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
	 */
	void		(*load_only) (Source *source, Batch *batch, const int *columns, int n);

	/* Does it cost little to load a column? */
	bool		(*is_cheap) (Source *source, Batch *batch, int column);

	/* Is it known, without loading a column, that it holds no NULL? */
	bool		(*has_no_nulls) (Source *source, Batch *batch, int column);

	/*
	 * Find which of the rows that are in the batch now have NULL in a column,
	 * at little cost and without loading it. False if there is no such way,
	 * and NULL if there never is.
	 */
	bool		(*find_nulls) (Source *source, Batch *batch, int column, bool *nulls);

	/*
	 * A column in a shorter form, for the rows that are in the batch now, if
	 * it is loaded; valid until rows are removed or the next batch. An array
	 * of numbers that is not asked for with NULLs has none. NULL: there is no
	 * such form.
	 */
	bool		(*codes) (Source *source, Batch *batch, int column, Codes *result);
	bool		(*packed) (Source *source, Batch *batch, int column, bool with_nulls, Packed *result);

	/*
	 * Prepare columns, so that they can be loaded, those only_counted unless
	 * none of their rows is NULL. False if that cannot be: then the batch is
	 * void, and its rows will come again with another. NULL: they always can.
	 */
	bool		(*prepare) (Source *source, Batch *batch, const int *columns, int n);

	/*
	 * Prepare a column for find_nulls() only. False as with prepare(). NULL:
	 * find_nulls() needs no preparation, or as much as load().
	 */
	bool		(*prepare_nulls) (Source *source, Batch *batch, int column);

	/*
	 * What is known of a column in all batches until excludes() is asked
	 * again. NULL, or false: nothing.
	 */
	bool		(*bounds) (Source *source, Batch *batch, int column, Bounds *bounds);

	/*
	 * For excludes() only: of a column, just rows count that equal one of
	 * these values of a type, by its equality of the same bytes. The source
	 * leaves out of the next batches what it knows to have none; true if
	 * nothing is left. NULL: it knows nothing.
	 */
	bool		(*seek) (Source *source, Batch *batch, int column, Oid type, const Datum *values, int n);

	/*
	 * Is it known that all rows of these batches have NULL in a column? NULL:
	 * never.
	 */
	bool		(*has_only_nulls) (Source *source, Batch *batch, int column);

	/* The batch is about to have only the n rows listed. NULL: no matter. */
	void		(*keep) (Source *source, Batch *batch, const uint16 *rows, int n);

	/*
	 * Find out where the rows that are left are, so that store() can store
	 * them. False if that cannot be: then the batch is void, as with
	 * prepare(). NULL: that is known.
	 */
	bool		(*locate) (Source *source, Batch *batch);

	/*
	 * Store a row that is left in a slot of the table's own kind, which pins
	 * what it lies in. Rows are asked for in ascending order, after the last
	 * keep() and locate(). NULL: rows have no such form.
	 */
	void		(*store) (Source *source, int row, TupleTableSlot *slot);

	/* End reading, wherever it is; next() may begin anew. */
	void		(*end) (Source *source);

	/*
	 * After end(): close what is open from the source's creation on. NULL:
	 * nothing.
	 */
	void		(*close) (Source *source);

	/*
	 * Processes of a parallel plan share what next() has to give. The leader
	 * has memory of shared_size initialized, and again for a rescan; workers
	 * attach to it. detach() is called in the leader before it goes.
	 */
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
	Size		shared_size;	/* of what processes share */

	/*
	 * Can a filter keep no row, as far as bounds() and seek() show? Set by
	 * the code that filters. NULL: there is no filter.
	 */
	bool		(*excludes) (void *filter, Batch *batch);
	void	   *filter;
};

struct Batch
{
	Source	   *source;			/* of the rows that are in it now */
	int			n;				/* rows */
	uint64		serial;			/* changes with every change of the rows */
	int			ncolumns;
	Column	   *columns;
	int			nlater;			/* columns that are needed after filtering */
	int		   *later;
	ExprContext *econtext;		/* its per-tuple memory lives as long as the
								 * rows */
	TupleTableSlot *slot;		/* row for PostgreSQL's expression code */
	List	   *decimals;		/* expressions of decimals:
								 * decimal_expression.c */
	PlanState  *parent;			/* NULL: nothing is evaluated, it is for the
								 * planner */
	int			nby_row;		/* expressions without a kernel */
};

extern void batch_init_columns(Batch *batch, TupleDesc tupdesc, Bitmapset *filter_attnos,
							   Bitmapset *later_attnos);
extern void batch_init(Batch *batch, TupleDesc tupdesc, Bitmapset *filter_attnos, Bitmapset *later_attnos,
					   PlanState *parent);
extern Bitmapset *batch_attnos(List *exprs);
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

/* Are the values of a column available, or cheap to get? */
static inline bool
batch_at_hand(Batch *batch, int index)
{
	return batch->columns[index].loaded ||
		batch->source->methods->is_cheap(batch->source, batch, index);
}

/* Prepare columns; false: the batch is void. */
static inline bool
batch_prepare(Batch *batch, const int *columns, int n)
{
	const SourceMethods *methods = batch->source->methods;

	return methods->prepare == NULL || methods->prepare(batch->source, batch, columns, n);
}

/* Prepare a column of which only its NULLs are asked; false: the batch is void. */
static inline bool
batch_prepare_nulls(Batch *batch, int column)
{
	const SourceMethods *methods = batch->source->methods;

	return methods->prepare_nulls != NULL ? methods->prepare_nulls(batch->source, batch, column) :
		batch_prepare(batch, &column, 1);
}

/* Find out where the rows that are left are; false: the batch is void. */
static inline bool
batch_locate(Batch *batch)
{
	const SourceMethods *methods = batch->source->methods;

	return methods->locate == NULL || methods->locate(batch->source, batch);
}

/* A column by codes, if the source has them. */
static inline bool
batch_codes(Batch *batch, int index, Codes *result)
{
	const SourceMethods *methods = batch->source->methods;

	return methods->codes != NULL && methods->codes(batch->source, batch, index, result);
}

/* A column as an array of numbers, if the source has it, and no row is NULL. */
static inline bool
batch_packed(Batch *batch, int index, Packed *result)
{
	const SourceMethods *methods = batch->source->methods;

	return methods->packed != NULL && methods->packed(batch->source, batch, index, false, result);
}

/* The same with NULLs, which the caller leaves out. */
static inline bool
batch_packed_nulls(Batch *batch, int index, Packed *result)
{
	const SourceMethods *methods = batch->source->methods;

	return methods->packed != NULL && methods->packed(batch->source, batch, index, true, result);
}

/*
 * Find which of the rows listed, or of the batch's first n, have NULL in a column, if the source can tell that without
 * loading it; false if not, or if it is loaded.
 */
static inline bool
batch_find_nulls(Batch *batch, int index, const uint16 *rows, int n, bool *nulls)
{
	const SourceMethods *methods = batch->source->methods;
	bool		all[BATCH_ROWS];

	if (batch->columns[index].loaded || methods->find_nulls == NULL)
		return false;
	if (!methods->find_nulls(batch->source, batch, index, rows == NULL ? nulls : all))
		return false;
	if (rows != NULL)
	{
		for (int i = 0; i < n; i++)
			nulls[i] = all[rows[i]];
	}
	return true;
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

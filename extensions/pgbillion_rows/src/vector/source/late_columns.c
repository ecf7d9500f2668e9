/*-------------------------------------------------------------------------
 *
 * late_columns.c
 *	  Columns of a table that are fetched once a filter and joins have removed
 *	  rows.
 *
 * A columnar index has the columns by which a query filters and joins a table,
 * and not all that it returns or aggregates. Then a column of the batch says
 * where each row is, and goes through the joins, and through the files that they
 * write, as any other column does. Of the rows that are left, the columns that
 * the index lacks are fetched from the table here, above all joins, whether the
 * others came from the index or from the heap. Without joins it is here that the
 * filter is applied.
 *
 * Rows are fetched a batch at a time in the order of their blocks, and each one
 * once, however many rows of the batch it is in. Values by reference are copied,
 * as rows lie on more pages than can stay pinned.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "executor/executor.h"
#include "executor/instrument.h"
#include "miscadmin.h"
#include "utils/datum.h"

#include "vector/source/source.h"

typedef struct LateColumns
{
	Source		source;
	Source	   *table;			/* which fetches rows */
	Batch	   *input;			/* with the columns that are not late */
	VectorFilter *filter;		/* of the input's rows, or NULL: they have
								 * passed it */
	Batch	   *output;
	int			place;			/* column of the input that says where rows
								 * are */
	int		   *origins;		/* of the output's columns: in the input, or
								 * -1: late */
	int			nlate;
	int		   *late;			/* columns of the output */
	AttrNumber	last;			/* of their attributes */
	TupleTableSlot *slot;		/* of the table's rows */

	bool		selected;		/* rows of the input have been removed: */
	uint16		rows[BATCH_ROWS];	/* those that are left */
} LateColumns;

/* A row of the batch, and where it is. */
typedef struct Wanted
{
	Datum		place;
	uint16		row;
} Wanted;

/* The row of the input that a row of the output is. */
static inline int
row_of_input(const LateColumns *late, int row)
{
	return late->selected ? late->rows[row] : row;
}

static int
compare_places(const void *a, const void *b)
{
	int64		one = DatumGetInt64(((const Wanted *) a)->place);
	int64		other = DatumGetInt64(((const Wanted *) b)->place);

	return one < other ? -1 : one > other;
}

/* Have a row be NULL in all late columns. */
static void
set_null(LateColumns *late, int row)
{
	for (int i = 0; i < late->nlate; i++)
	{
		Column	   *column = &late->output->columns[late->late[i]];

		column->values[row] = (Datum) 0;
		column->nulls[row] = column->has_nulls = column->dirty = true;
	}
}

/* List the rows of the output in the order of their places; return how many have one. */
static int
list_wanted(LateColumns *late, Wanted *wanted)
{
	const Column *places = batch_column(late->input, late->place);
	bool		ascending = true;
	int			n = 0;

	for (int i = 0; i < late->output->n; i++)
	{
		int			row = row_of_input(late, i);

		/* a join may have made it NULL, as all columns of the table */
		if (places->has_nulls && places->nulls[row])
		{
			set_null(late, i);
			continue;
		}
		wanted[n].place = places->values[row];
		wanted[n].row = i;
		ascending &= n == 0 || compare_places(&wanted[n - 1], &wanted[n]) <= 0;
		n++;
	}
	/* rows that were written to files come in another order */
	if (!ascending)
		qsort(wanted, n, sizeof(Wanted), compare_places);

	return n;
}

/* Copy the late columns of the row in the slot to the first of some rows, and have the others share them. */
static void
store_row(LateColumns *late, const Wanted *wanted, int n)
{
	TupleTableSlot *slot = late->slot;

	slot_getsomeattrs(slot, late->last);
	for (int i = 0; i < late->nlate; i++)
	{
		Column	   *column = &late->output->columns[late->late[i]];
		Datum		value = slot->tts_values[column->attno - 1];
		bool		isnull = slot->tts_isnull[column->attno - 1];

		if (isnull)
		{
			value = (Datum) 0;
			column->has_nulls = column->dirty = true;
		}
		else if (!column->byval)
			value = datumCopy(value, false, column->len);
		for (int k = 0; k < n; k++)
		{
			column->values[wanted[k].row] = value;
			column->nulls[wanted[k].row] = isnull;
		}
	}
}

/* Fetch the late columns of the rows that are in the batch now. */
static void
fetch_columns(LateColumns *late)
{
	Batch	   *batch = late->output;
	Wanted		wanted[BATCH_ROWS];
	Datum		places[BATCH_ROWS];
	int			firsts[BATCH_ROWS + 1]; /* of those at each place */
	MemoryContext old;
	int			n;
	int			nplaces = 0;

	for (int i = 0; i < late->nlate; i++)
	{
		Column	   *column = &batch->columns[late->late[i]];

		if (column->dirty)
			memset(column->nulls, 0, sizeof(bool) * BATCH_ROWS);
		column->dirty = column->has_nulls = false;
		column->loaded = true;
	}
	n = list_wanted(late, wanted);
	for (int i = 0; i < n; i++)
	{
		if (i > 0 && wanted[i].place == wanted[i - 1].place)
			continue;
		firsts[nplaces] = i;
		places[nplaces++] = wanted[i].place;
	}
	firsts[nplaces] = n;
	old = MemoryContextSwitchTo(batch->econtext->ecxt_per_tuple_memory);
	segment_source_list(late->table, places, nplaces);
	for (int i = 0; i < nplaces; i++)
	{
		CHECK_FOR_INTERRUPTS();
		segment_source_fetch(late->table, i, late->slot);
		store_row(late, &wanted[firsts[i]], firsts[i + 1] - firsts[i]);
	}
	ExecClearTuple(late->slot);
	MemoryContextSwitchTo(old);
}

/* Give a column of the input. */
static void
copy_column(LateColumns *late, int from, Column *to)
{
	const Column *column = batch_column(late->input, from);
	int			n = late->output->n;

	if (to->dirty)
		memset(to->nulls, 0, sizeof(bool) * BATCH_ROWS);
	for (int i = 0; i < n; i++)
		to->values[i] = column->values[row_of_input(late, i)];
	if (column->has_nulls)
	{
		for (int i = 0; i < n; i++)
			to->nulls[i] = column->nulls[row_of_input(late, i)];
	}
	to->dirty = to->has_nulls = column->has_nulls;
	to->loaded = true;
}

static void
load(Source *source, Batch *batch, int c)
{
	LateColumns *late = (LateColumns *) source;

	Assert(batch == late->output);
	if (late->origins[c] < 0)
		fetch_columns(late);
	else
		copy_column(late, late->origins[c], &batch->columns[c]);
}

/* Columns are loaded one by one, anyway. */
static void
load_only(Source *source, Batch *batch, const int *columns, int n)
{
}

static bool
is_cheap(Source *source, Batch *batch, int c)
{
	LateColumns *late = (LateColumns *) source;

	return late->origins[c] >= 0 && batch_at_hand(late->input, late->origins[c]);
}

static bool
has_no_nulls(Source *source, Batch *batch, int c)
{
	LateColumns *late = (LateColumns *) source;

	return late->origins[c] >= 0 && batch_no_nulls(late->input, late->origins[c]);
}

static void
keep(Source *source, Batch *batch, const uint16 *rows, int n)
{
	LateColumns *late = (LateColumns *) source;

	for (int i = 0; i < n; i++)
		late->rows[i] = row_of_input(late, rows[i]);
	late->selected = true;
}

/* Have the next rows of the input, possibly none; false at the end. */
static bool
next_input(LateColumns *late)
{
	Batch	   *input = late->input;

	if (!input->source->methods->next(input->source, input))
		return false;
	input->serial++;
	if (late->filter != NULL && input->n > 0)
	{
		int			removed = vector_filter_finally(late->filter, input);

		InstrCountFiltered2(input->parent, removed);
	}
	return true;
}

static bool
next_batch(Source *source, Batch *batch)
{
	LateColumns *late = (LateColumns *) source;
	Batch	   *input = late->input;
	MemoryContext old;
	bool		more;

	Assert(batch == late->output);
	ResetExprContext(input->econtext);
	old = MemoryContextSwitchTo(input->econtext->ecxt_per_tuple_memory);
	more = next_input(late);
	MemoryContextSwitchTo(old);
	if (!more)
		return false;
	for (int c = 0; c < batch->ncolumns; c++)
		batch->columns[c].loaded = false;
	batch->n = input->n;
	late->selected = false;

	return true;
}

static void
end(Source *source)
{
	LateColumns *late = (LateColumns *) source;

	ExecClearTuple(late->slot);
	late->input->source->methods->end(late->input->source);
}

/* Workers share what is below, and the table's source has what EXPLAIN tells. */
static const SourceMethods late_methods = {
	.next = next_batch,
	.load = load,
	.load_only = load_only,
	.is_cheap = is_cheap,
	.has_no_nulls = has_no_nulls,
	.keep = keep,
	.end = end,
};

/*
 * The source of the rows of another batch, the input, that the filter keeps, if
 * there is one, with further columns of a table, those in `late`: for an
 * initialized batch. The input has them in no
 * column, but where the rows are in the attribute `place`, as the table's source
 * says it, which is one of segments; and memory of its own. Everything is in the
 * current context.
 */
Source *
late_columns_create(Source *table, Relation rel, Batch *input, VectorFilter *filter, AttrNumber place,
					const Bitmapset *late, Batch *output)
{
	LateColumns *result = palloc0(sizeof(LateColumns));

	result->source.methods = &late_methods;
	result->table = table;
	result->input = input;
	result->filter = filter;
	result->output = output;
	result->place = batch_index(input, place);
	Assert(result->place >= 0);
	result->origins = palloc(sizeof(int) * Max(output->ncolumns, 1));
	result->late = palloc(sizeof(int) * Max(output->ncolumns, 1));
	for (int c = 0; c < output->ncolumns; c++)
	{
		AttrNumber	attno = output->columns[c].attno;

		result->origins[c] = -1;
		if (!bms_is_member(attno, late))
		{
			result->origins[c] = batch_index(input, attno);
			Assert(result->origins[c] >= 0);
			continue;
		}
		result->late[result->nlate++] = c;
		result->last = Max(result->last, attno);
	}
	result->slot = ExecInitExtraTupleSlot(output->parent->state, RelationGetDescr(rel), &TTSOpsBufferHeapTuple);

	return &result->source;
}

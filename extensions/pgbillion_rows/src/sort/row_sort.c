/*-------------------------------------------------------------------------
 *
 * row_sort.c
 *	  Rows in, and rows out in order.
 *
 * Rows are written one behind the other into chunks of memory. Once all are
 * there, an array of their addresses in order is made. If they need more memory
 * than there is, each memoryful is sorted and written to a file before.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/memutils.h"

#include "sort/runs.h"
#include "sort/sort_key.h"
#include "vector/batch.h"

/*
 * A row takes this memory while it is sorted, beside itself, at most: its number,
 * and then that with its address.
 */
#define ENTRY_BYTES (3 * sizeof(uint64))

/* How many rows before one is returned it is fetched into the processor's caches. */
#define ROWS_AHEAD 16

struct RowSort
{
	MemoryContext context;		/* all of it */
	RowFormat  *format;
	SortKeys   *keys;
	Size		limit;
	RowChunks	rows;			/* in memory */
	char	  **sorted;			/* once they have been sorted, or those of a
								 * part */
	int64		nsorted;
	int64		next;			/* row to be returned */
	RowParts   *parts;			/* NULL: the rows are sorted as a whole */
	Runs	   *runs;			/* NULL: all is in memory */
	Datum	   *values;			/* of a row, for row_sort_put_columns() */
	bool	   *nulls;
	RowSortReport report;
};

/*
 * Sorts rows of this description by these keys, in a memory context of its own
 * within the current one. Raises PostgreSQL's error if strings have no
 * collation.
 */
RowSort *
row_sort_create(TupleDesc tupdesc, int nkeys, const AttrNumber *columns, const Oid *operators,
				const Oid *collations, const bool *nulls_first, Size limit)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "pgbillion sort", ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	RowSort    *sort = palloc0(sizeof(RowSort));

	sort->context = context;
	sort->format = row_format_create(tupdesc);
	sort->keys = sort_keys_create(tupdesc, sort->format, nkeys, columns, operators, collations, nulls_first);
	sort->limit = limit;
	row_chunks_init(&sort->rows, sort->format, limit / 4);
	MemoryContextSwitchTo(old);
	return sort;
}

const RowFormat *
row_sort_format(const RowSort *sort)
{
	return sort->format;
}

/* ---- in memory ---- */

static Size
memory_used(const RowSort *sort)
{
	return sort->rows.bytes + sort->rows.nrows * ENTRY_BYTES;
}

/* Sort the rows in memory. */
static void
sort_rows(RowSort *sort)
{
	Size		memory;

	sort->sorted = radix_sort(sort->keys, &sort->rows, sort->context, &memory, &sort->report.compared);
	sort->nsorted = sort->rows.nrows;
	sort->next = 0;
	sort->report.memory = Max(sort->report.memory, (int64) (sort->rows.bytes + memory));
}

/* Sort the next part of the rows; false if there is none. */
static bool
sort_part(RowSort *sort)
{
	Size		memory = 0;

	sort->sorted = row_parts_next(sort->parts, &sort->nsorted, &memory, &sort->report.compared);
	sort->next = 0;
	sort->report.memory = Max(sort->report.memory, (int64) (sort->rows.bytes + memory));
	if (sort->sorted == NULL)
		sort->nsorted = 0;
	return sort->sorted != NULL;
}

/* Forget the rows in memory; chunks stay. */
static void
forget_rows(RowSort *sort)
{
	if (sort->parts != NULL)
		row_parts_end(sort->parts);
	else if (sort->sorted != NULL)
		pfree(sort->sorted);
	sort->parts = NULL;
	sort->sorted = NULL;
	sort->nsorted = 0;
	row_chunks_forget(&sort->rows);
}

/* ---- runs ---- */

/* Write the rows in memory to a file. */
static void
write_run(RowSort *sort)
{
	MemoryContext old;

	if (sort->runs == NULL)
	{
		old = MemoryContextSwitchTo(sort->context);
		sort->runs = runs_create(sort->keys, sort->limit);
		MemoryContextSwitchTo(old);
	}
	sort_rows(sort);
	runs_add(sort->runs, sort->sorted, sort->rows.nrows);
	forget_rows(sort);
}

/* ---- rows ---- */

/* Add a row, which is copied. */
void
row_sort_put(RowSort *sort, const Datum *values, const bool *nulls)
{
	Size		size = row_format_size(sort->format, values, nulls);

	if (sort->rows.nrows > 0 && memory_used(sort) + size + ENTRY_BYTES > sort->limit)
		write_run(sort);
	row_format_write(sort->format, row_chunks_add(&sort->rows, size), size, values, nulls);
}

/* Add rows of a batch one by one. */
static void
put_each(RowSort *sort, struct Column *const *columns, int n)
{
	int			ncolumns = sort->format->ncolumns;

	if (sort->values == NULL)
	{
		sort->values = MemoryContextAlloc(sort->context, sizeof(Datum) * ncolumns);
		sort->nulls = MemoryContextAlloc(sort->context, sizeof(bool) * ncolumns);
	}
	for (int i = 0; i < n; i++)
	{
		for (int c = 0; c < ncolumns; c++)
		{
			sort->values[c] = columns[c]->values[i];
			sort->nulls[c] = columns[c]->has_nulls && columns[c]->nulls[i];
		}
		row_sort_put(sort, sort->values, sort->nulls);
	}
}

/* Add the n rows of a batch, of which these columns have the values; they are copied. */
void
row_sort_put_columns(RowSort *sort, struct Column *const *columns, int n)
{
	Size		size = sort->format->size + ENTRY_BYTES;

	if (sort->format->size == 0)
	{
		put_each(sort, columns, n);
		return;
	}
	for (int first = 0; first < n;)
	{
		Size		used = memory_used(sort);
		int			some = (int) Min(n - first, used < sort->limit ? (sort->limit - used) / size : 0);

		if (some == 0 && sort->rows.nrows > 0)
		{
			write_run(sort);
			continue;
		}
		some = Max(some, 1);
		row_chunks_add_columns(&sort->rows, columns, first, some);
		first += some;
	}
}

/* Bytes of memory that the rows take. */
Size
row_sort_memory(const RowSort *sort)
{
	return memory_used(sort);
}

/*
 * All rows have been added: sort them. With `once` they are returned once by
 * row_sort_next(), and not asked for otherwise.
 */
void
row_sort_perform(RowSort *sort, bool once)
{
	MemoryContext old;

	if (sort->runs == NULL)
	{
		old = MemoryContextSwitchTo(sort->context);
		if (once)
			sort->parts = row_parts_split(sort->keys, &sort->rows);
		MemoryContextSwitchTo(old);
		if (sort->parts == NULL)
			sort_rows(sort);
		return;
	}
	if (sort->rows.nrows > 0)
		write_run(sort);
	/* chunks, whose memory is for the buffers now */
	row_chunks_reset(&sort->rows);
	runs_begin(sort->runs);
	sort->report.disk = runs_written(sort->runs, &sort->report.runs);
}

/* The rows in order, if all are in memory; else NULL. */
char	  **
row_sort_rows(RowSort *sort, int64 *n)
{
	Assert(sort->parts == NULL);
	*n = sort->rows.nrows;
	return sort->runs == NULL ? sort->sorted : NULL;
}

/* The next row in order, valid until the next call, or NULL. */
char *
row_sort_next(RowSort *sort)
{
	if (sort->runs != NULL)
		return runs_next(sort->runs);
	if (unlikely(sort->next == sort->nsorted) && (sort->parts == NULL || !sort_part(sort)))
		return NULL;
	if (sort->next + ROWS_AHEAD < sort->nsorted)
		__builtin_prefetch(sort->sorted[sort->next + ROWS_AHEAD]);
	return sort->sorted[sort->next++];
}

/* Begin with the first row again. */
void
row_sort_rewind(RowSort *sort)
{
	Assert(sort->parts == NULL);
	if (sort->runs != NULL)
		runs_begin(sort->runs);
	sort->next = 0;
}

/* Forget all rows, and what was reported of them. */
void
row_sort_reset(RowSort *sort)
{
	memset(&sort->report, 0, sizeof(RowSortReport));
	sort->next = 0;
	forget_rows(sort);
	if (sort->runs == NULL && sort->rows.n <= 1)
		return;
	if (sort->runs != NULL)
	{
		runs_end(sort->runs);
		sort->runs = NULL;
	}
	row_chunks_reset(&sort->rows);
}

/* Close files, and free everything. */
void
row_sort_end(RowSort *sort)
{
	row_sort_reset(sort);
	MemoryContextDelete(sort->context);
}

RowSortReport
row_sort_report(const RowSort *sort)
{
	return sort->report;
}

/*-------------------------------------------------------------------------
 *
 * runs.c
 *	  Sorted runs of rows in files, and their merge.
 *
 * Each run is a temporary file of records. If there are as many runs of a level
 * as can be read at once, they are merged into one of the next level, so that a
 * row is written as often as there are levels. The last merge gives its rows to
 * the caller.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "commands/tablespace.h"
#include "miscadmin.h"
#include "storage/buffile.h"
#include "utils/memutils.h"

#include "compat.h"
#include "sort/runs.h"

/* Bytes of a run that are read at a time, as far as memory allows. */
#define MIN_READ_BYTES (16 * 1024)
#define MAX_READ_BYTES (64 * 1024)

/* Bytes of rows that are collected before they are written. */
#define WRITE_BYTES ((Size) 8 * 1024)

/* Runs that are read at once. */
#define MIN_FAN_IN 4
#define MAX_FAN_IN 256

typedef struct Run
{
	BufFile    *file;
	int			level;

	/* while it is read: */
	char	   *buffer;
	Size		room;			/* of the buffer */
	Size		begin;			/* of what has not been taken from it */
	Size		end;
	Size		taken;			/* bytes of the row at its begin that is out */
	uint64		number;			/* of that row: sort_keys_first_number() */
} Run;

struct Runs
{
	const SortKeys *keys;
	Size		limit;
	int			fan_in;
	MemoryContext context;		/* of runs */
	MemoryContext reading;		/* of buffers and the heap */
	int			n;
	int			room;
	Run		   *runs;
	int64		written;		/* bytes, of all levels */
	int			count;			/* runs that were added */

	/* while rows are merged: indexes of runs, the first row's at the root */
	int			nheap;
	int		   *heap;
	int			nreading;		/* runs from the last on that take part */
	bool		begun;
};

/* Runs in the current context, which may take this memory while they are read. */
Runs *
runs_create(const SortKeys *keys, Size limit)
{
	Runs	   *runs = palloc0(sizeof(Runs));

	runs->keys = keys;
	runs->limit = limit;
	runs->fan_in = (int) Min(Max(limit / MAX_READ_BYTES, MIN_FAN_IN), MAX_FAN_IN);
	runs->context = CurrentMemoryContext;
	runs->reading = AllocSetContextCreate(CurrentMemoryContext, "pgbillion runs", ALLOCSET_DEFAULT_SIZES);
	runs->room = 16;
	runs->runs = palloc0(sizeof(Run) * runs->room);
	return runs;
}

/* ---- a file that is written ---- */

/* Rows are collected, since most are much shorter than what is written at a time. */
typedef struct RunWriter
{
	Runs	   *runs;
	BufFile    *file;
	Size		used;
	char		buffer[WRITE_BYTES];
} RunWriter;

static void
flush_rows(RunWriter *writer)
{
	if (writer->used > 0)
		BufFileWrite(writer->file, writer->buffer, writer->used);
	writer->used = 0;
}

static inline void
write_row(RunWriter *writer, const char *row)
{
	Size		size = row_size(writer->runs->keys->format, row);

	writer->runs->written += size;
	if (size > WRITE_BYTES - writer->used)
		flush_rows(writer);
	if (size > WRITE_BYTES)
	{
		BufFileWrite(writer->file, unconstify(char *, row), size);
		return;
	}
	memcpy(writer->buffer + writer->used, row, size);
	writer->used += size;
}

static BufFile *
create_file(Runs *runs)
{
	MemoryContext old = MemoryContextSwitchTo(runs->context);
	BufFile    *file;

	PrepareTempTablespaces();
	file = BufFileCreateTemp(false);
	MemoryContextSwitchTo(old);
	return file;
}

/* ---- reading ---- */

static inline char *
row_of(const Run *run)
{
	return run->buffer + run->begin;
}

/* Have at least this number of bytes in the buffer; false if the file has none. */
static bool
fill(Runs *runs, Run *run, Size bytes)
{
	if (run->end - run->begin >= bytes)
		return true;
	memmove(run->buffer, row_of(run), run->end - run->begin);
	run->end -= run->begin;
	run->begin = 0;
	if (run->room < bytes)
	{
		run->buffer = repalloc_huge(run->buffer, bytes);
		run->room = bytes;
	}
	run->end += BufFileRead(run->file, run->buffer + run->end, run->room - run->end);
	if (run->end >= bytes)
		return true;
	if (run->end > 0)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not read from a temporary file of sorted rows: read only %zu of %zu bytes",
						run->end, bytes)));
	return false;
}

/* Go to a run's next row; false if there is none. */
static bool
next_row(Runs *runs, Run *run)
{
	const RowFormat *format = runs->keys->format;

	run->begin += run->taken;
	run->taken = 0;
	if (!fill(runs, run, format->size > 0 ? format->size : sizeof(uint32)))
		return false;
	run->taken = row_size(format, row_of(run));
	(void) fill(runs, run, run->taken);
	run->number = sort_keys_first_number(runs->keys, row_of(run));
	return true;
}

/* ---- the heap ---- */

/* Does a run's row come before another's? Of equal ones the earlier run's does. */
static inline bool
comes_first(const Runs *runs, int left, int right)
{
	const Run  *a = &runs->runs[left];
	const Run  *b = &runs->runs[right];
	int			result;

	if (a->number != b->number)
		return a->number < b->number;
	result = sort_keys_compare(runs->keys, row_of(a), row_of(b), 0);
	return result != 0 ? result < 0 : left < right;
}

/* Let the run at a place sink to where it belongs. */
static void
sink(Runs *runs, int place)
{
	int			run = runs->heap[place];

	for (;;)
	{
		int			child = 2 * place + 1;

		if (child >= runs->nheap)
			break;
		if (child + 1 < runs->nheap && comes_first(runs, runs->heap[child + 1], runs->heap[child]))
			child++;
		if (!comes_first(runs, runs->heap[child], run))
			break;
		runs->heap[place] = runs->heap[child];
		place = child;
	}
	runs->heap[place] = run;
}

/* Begin to merge the last n runs. */
static void
begin_merge(Runs *runs, int n)
{
	MemoryContext old;
	Size		bytes = Min(Max(runs->limit / Max(n, 1), MIN_READ_BYTES), MAX_READ_BYTES);

	MemoryContextReset(runs->reading);
	old = MemoryContextSwitchTo(runs->reading);
	runs->heap = palloc(sizeof(int) * Max(n, 1));
	runs->nheap = 0;
	runs->nreading = n;
	for (int i = runs->n - n; i < runs->n; i++)
	{
		Run		   *run = &runs->runs[i];

		if (BufFileSeek(run->file, 0, 0, SEEK_SET) != 0)
			ereport(ERROR,
					(errcode_for_file_access(),
					 errmsg("could not rewind a temporary file of sorted rows")));
		run->buffer = palloc(bytes);
		run->room = bytes;
		run->begin = run->end = run->taken = 0;
		if (next_row(runs, run))
			runs->heap[runs->nheap++] = i;
	}
	for (int i = runs->nheap / 2 - 1; i >= 0; i--)
		sink(runs, i);
	runs->begun = false;
	MemoryContextSwitchTo(old);
}

/* The next row of a merge, valid until the next call, or NULL. */
char *
runs_next(Runs *runs)
{
	if (runs->begun && runs->nheap > 0)
	{
		/* the row before has been used */
		if (!next_row(runs, &runs->runs[runs->heap[0]]))
			runs->heap[0] = runs->heap[--runs->nheap];
		if (runs->nheap > 0)
			sink(runs, 0);
	}
	runs->begun = true;
	return runs->nheap == 0 ? NULL : row_of(&runs->runs[runs->heap[0]]);
}

/* ---- writing ---- */

static void
append_run(Runs *runs, BufFile *file, int level)
{
	if (runs->n == runs->room)
	{
		runs->room *= 2;
		runs->runs = repalloc(runs->runs, sizeof(Run) * runs->room);
	}
	runs->runs[runs->n++] = (Run)
	{
		.file = file,.level = level
	};
}

/* Merge the last n runs into one. */
static void
merge_last(Runs *runs, int n, int level)
{
	RunWriter	writer = {.runs = runs,.file = create_file(runs)};
	char	   *row;

	begin_merge(runs, n);
	for (int64 i = 0; (row = runs_next(runs)) != NULL; i++)
	{
		if (i % 1024 == 0)
			CHECK_FOR_INTERRUPTS();
		write_row(&writer, row);
	}
	flush_rows(&writer);
	for (int i = 0; i < n; i++)
		BufFileClose(runs->runs[--runs->n].file);
	append_run(runs, writer.file, level);
	MemoryContextReset(runs->reading);
}

/* How many of the last runs are of the last one's level? */
static int
last_of_level(const Runs *runs)
{
	int			n = 1;

	while (n < runs->n && runs->runs[runs->n - 1 - n].level == runs->runs[runs->n - 1].level)
		n++;
	return n;
}

/* Write a run of rows in order. */
void
runs_add(Runs *runs, char *const *rows, int64 n)
{
	RunWriter	writer = {.runs = runs,.file = create_file(runs)};

	for (int64 i = 0; i < n; i++)
	{
		if (i % 1024 == 0)
			CHECK_FOR_INTERRUPTS();
		if (i + 8 < n)
			__builtin_prefetch(rows[i + 8]);
		write_row(&writer, rows[i]);
	}
	flush_rows(&writer);
	append_run(runs, writer.file, 0);
	runs->count++;
	while (last_of_level(runs) >= runs->fan_in)
		merge_last(runs, runs->fan_in, runs->runs[runs->n - 1].level + 1);
}

/* Begin to give the rows of all runs, in order, maybe once more. */
void
runs_begin(Runs *runs)
{
	/* runs are of falling levels, so that the last ones are the smallest */
	while (runs->n > runs->fan_in)
	{
		int			n = Min(runs->fan_in, runs->n - runs->fan_in + 1);

		merge_last(runs, n, runs->runs[runs->n - n].level);
	}
	begin_merge(runs, runs->n);
}

/* Close all files. */
void
runs_end(Runs *runs)
{
	while (runs->n > 0)
		BufFileClose(runs->runs[--runs->n].file);
	MemoryContextReset(runs->reading);
}

/* Bytes that were written, and how many runs were added. */
int64
runs_written(const Runs *runs, int *count)
{
	*count = runs->count;
	return runs->written;
}

/*-------------------------------------------------------------------------
 *
 * ordered_runs.c
 *	  Values of groups in order, in temporary files.
 *
 * A run is a part of a file, of words: the address of a group's entry, a number of values,
 * and as many values, again and again. Groups are in the order of their
 * addresses, and the values of each ascend. Runs are merged by a heap of their
 * next values. If there are too many of them to be read at once, as many as can
 * be are merged into each run of another file, before they are read.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/buffile.h"

#include "vector/aggregate/ordered_runs.h"

/* Words that are read at a time. */
#define RUN_WORDS 2048

/* Numbers of runs that are read at a time. */
#define LEAST_RUNS 4
#define MOST_RUNS 256

/* Values of a group that are merged into one record. */
#define MERGED_VALUES 512

/* Where a run is in its file. */
typedef struct Place
{
	int			fileno;
	off_t		offset;
	uint64		words;
} Place;

/* A run that is read. */
typedef struct Run
{
	BufFile    *file;
	Place		rest;			/* what has not been read */
	uint64	   *words;			/* read */
	int			n;
	int			next;
	int64		left;			/* values of the current group */
	char	   *entry;			/* the next value, and its group */
	uint64		key;
} Run;

struct OrderedRuns
{
	MemoryContext context;
	BufFile    *file;			/* or NULL */
	int			nruns;
	int			maxruns;
	Place	   *places;			/* of the runs in the file */
	int			most;			/* that are read at a time */
	Run		   *runs;			/* these */
	int			nheap;
	Run		  **heap;			/* those that have a value left */
	uint64		written;		/* runs, */
	uint64		bytes;			/* and what has been written to them */
};

/* Runs, of which a number are read at a time that takes about an eighth of `limit` bytes. They are in the current context. */
OrderedRuns *
ordered_runs_create(Size limit)
{
	OrderedRuns *runs = palloc0(sizeof(OrderedRuns));

	runs->context = CurrentMemoryContext;
	runs->most = (int) Max(Min(limit / 8 / (sizeof(uint64) * RUN_WORDS), MOST_RUNS), LEAST_RUNS);
	runs->runs = palloc0(sizeof(Run) * runs->most);
	runs->heap = palloc(sizeof(Run *) * runs->most);
	runs->maxruns = runs->most;
	runs->places = palloc(sizeof(Place) * runs->maxruns);

	return runs;
}

/* How many runs have been written. */
int
ordered_runs_count(const OrderedRuns *runs)
{
	return (int) runs->written;
}

/* How many bytes have been written. */
uint64
ordered_runs_bytes(const OrderedRuns *runs)
{
	return runs->bytes;
}

/* ---- writing ---- */

/* Begin a run at the end of the file, which is made if there is none. */
void
ordered_runs_begin(OrderedRuns *runs)
{
	MemoryContext old = MemoryContextSwitchTo(runs->context);
	Place	   *place;

	if (runs->file == NULL)
		runs->file = BufFileCreateTemp(false);
	if (runs->nruns == runs->maxruns)
	{
		runs->maxruns *= 2;
		runs->places = repalloc_huge(runs->places, sizeof(Place) * runs->maxruns);
	}
	place = &runs->places[runs->nruns++];
	BufFileTell(runs->file, &place->fileno, &place->offset);
	place->words = 0;
	runs->written++;
	MemoryContextSwitchTo(old);
}

/* Write values of a group, of which there is at least one, in ascending order; those of later groups have higher addresses. */
void
ordered_runs_write(OrderedRuns *runs, const char *entry, const uint64 *keys, int64 n)
{
	uint64		head[] = {(uint64) (uintptr_t) entry, (uint64) n};

	Assert(n > 0);
	BufFileWrite(runs->file, head, sizeof(head));
	BufFileWrite(runs->file, unconstify(uint64 *, keys), sizeof(uint64) * n);
	runs->places[runs->nruns - 1].words += lengthof(head) + n;
	runs->bytes += sizeof(head) + sizeof(uint64) * n;
}

/* ---- reading ---- */

/* Read the next words of a run, of which there are some. */
static void
fill(Run *run)
{
	int			n = (int) Min(run->rest.words, RUN_WORDS);

	if (BufFileSeek(run->file, run->rest.fileno, run->rest.offset, SEEK_SET) != 0)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not rewind a temporary file of values")));
	if (BufFileRead(run->file, run->words, sizeof(uint64) * n) != sizeof(uint64) * n)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("unexpected end of a temporary file of values")));
	BufFileTell(run->file, &run->rest.fileno, &run->rest.offset);
	run->rest.words -= n;
	run->n = n;
	run->next = 0;
}

/* The next word of a run, of which there is one. */
static inline uint64
next_word(Run *run)
{
	if (run->next == run->n)
		fill(run);
	return run->words[run->next++];
}

/* Have the next value of a run there; false if there is none. */
static inline bool
advance(Run *run)
{
	if (run->left == 0)
	{
		if (run->next == run->n && run->rest.words == 0)
			return false;
		run->entry = (char *) (uintptr_t) next_word(run);
		run->left = (int64) next_word(run);
	}
	run->key = next_word(run);
	run->left--;
	return true;
}

static inline bool
comes_before(const Run *a, const Run *b)
{
	return a->entry != b->entry ? a->entry < b->entry : a->key < b->key;
}

/* Have the first of the heap where it belongs. */
static void
sift_down(OrderedRuns *runs)
{
	Run		   *run = runs->heap[0];
	int			place = 0;

	for (;;)
	{
		int			child = 2 * place + 1;

		if (child >= runs->nheap)
			break;
		if (child + 1 < runs->nheap && comes_before(runs->heap[child + 1], runs->heap[child]))
			child++;
		if (!comes_before(runs->heap[child], run))
			break;
		runs->heap[place] = runs->heap[child];
		place = child;
	}
	runs->heap[place] = run;
}

static int
compare_runs(const void *a, const void *b)
{
	const Run  *x = *(Run *const *) a;
	const Run  *y = *(Run *const *) b;

	return comes_before(x, y) ? -1 : comes_before(y, x);
}

/* Begin to read runs of a file together, no more than can be. */
static void
read_runs(OrderedRuns *runs, BufFile *file, const Place *places, int n)
{
	MemoryContext old = MemoryContextSwitchTo(runs->context);

	Assert(n <= runs->most);
	runs->nheap = 0;
	for (int i = 0; i < n; i++)
	{
		Run		   *run = &runs->runs[i];

		if (run->words == NULL)
			run->words = palloc(sizeof(uint64) * RUN_WORDS);
		run->file = file;
		run->rest = places[i];
		run->n = run->next = 0;
		run->left = 0;
		if (advance(run))
			runs->heap[runs->nheap++] = run;
	}
	/* what is in order is a heap */
	if (runs->nheap > 1)
		qsort(runs->heap, runs->nheap, sizeof(Run *), compare_runs);
	MemoryContextSwitchTo(old);
}

/* The next value, and its group; false if there is none. */
bool
ordered_runs_next(OrderedRuns *runs, char **entry, uint64 *key)
{
	Run		   *run;

	if (runs->nheap == 0)
		return false;
	run = runs->heap[0];
	*entry = run->entry;
	*key = run->key;
	if (!advance(run))
		runs->heap[0] = runs->heap[--runs->nheap];
	if (runs->nheap > 1)
		sift_down(runs);
	return true;
}

/* Write what is being read as one run. */
static void
write_merged(OrderedRuns *runs)
{
	uint64		keys[MERGED_VALUES];
	char	   *current = NULL;
	int			nkeys = 0;
	char	   *entry;
	uint64		key;

	ordered_runs_begin(runs);
	while (ordered_runs_next(runs, &entry, &key))
	{
		if (nkeys > 0 && (entry != current || nkeys == MERGED_VALUES))
		{
			CHECK_FOR_INTERRUPTS();
			ordered_runs_write(runs, current, keys, nkeys);
			nkeys = 0;
		}
		current = entry;
		keys[nkeys++] = key;
	}
	if (nkeys > 0)
		ordered_runs_write(runs, current, keys, nkeys);
}

/* Have fewer runs, in another file. */
static void
merge(OrderedRuns *runs)
{
	BufFile    *file = runs->file;
	Place	   *places = runs->places;
	int			n = runs->nruns;

	runs->file = NULL;
	runs->nruns = 0;
	runs->places = MemoryContextAllocHuge(runs->context, sizeof(Place) * runs->maxruns);
	for (int i = 0; i < n; i += runs->most)
	{
		read_runs(runs, file, places + i, Min(runs->most, n - i));
		write_merged(runs);
	}
	pfree(places);
	BufFileClose(file);
}

/* Begin to read all runs together. None can be written any more. */
void
ordered_runs_rewind(OrderedRuns *runs)
{
	while (runs->nruns > runs->most)
		merge(runs);
	read_runs(runs, runs->file, runs->places, runs->nruns);
}

/* Close the file. */
void
ordered_runs_close(OrderedRuns *runs)
{
	if (runs->file != NULL)
		BufFileClose(runs->file);
	runs->file = NULL;
	runs->nruns = runs->nheap = 0;
}

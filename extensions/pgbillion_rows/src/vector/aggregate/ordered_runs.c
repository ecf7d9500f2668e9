/*-------------------------------------------------------------------------
 *
 * ordered_runs.c
 *	  Values of groups in order, in temporary files.
 *
 * A run is a file of words: the address of a group's entry, a number of values,
 * and as many values, again and again. Groups are in the order of their
 * addresses, and the values of each ascend. Runs are merged by a heap of their
 * next values. If there are too many of them to be read at once, they are
 * merged into one before the next is written.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/buffile.h"

#include "vector/aggregate/ordered_runs.h"

/* Words that are read at a time. */
#define RUN_WORDS 2048

/* Numbers of runs at a time. */
#define LEAST_RUNS 4
#define MOST_RUNS 256

/* Values of a group that are merged into one record. */
#define MERGED_VALUES 512

typedef struct Run
{
	BufFile    *file;
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
	int			nruns;
	int			most;
	Run		   *runs;
	int			nheap;
	Run		  **heap;			/* those that have a value left */
	uint64		written;		/* runs, */
	uint64		bytes;			/* and what has been written to them */
};

/* Runs that may use about an eighth of `limit` bytes, in the current context. */
OrderedRuns *
ordered_runs_create(Size limit)
{
	OrderedRuns *runs = palloc0(sizeof(OrderedRuns));
	Size		each = sizeof(uint64) * RUN_WORDS + BLCKSZ;

	runs->context = CurrentMemoryContext;
	runs->most = (int) Max(Min(limit / 8 / each, MOST_RUNS), LEAST_RUNS);
	runs->runs = palloc0(sizeof(Run) * (runs->most + 1));
	runs->heap = palloc(sizeof(Run *) * (runs->most + 1));

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

/* ---- reading ---- */

/* The next word of a run; false at its end. */
static inline bool
next_word(Run *run, uint64 *word)
{
	if (run->next == run->n)
	{
		Size		bytes = BufFileRead(run->file, run->words, sizeof(uint64) * RUN_WORDS);

		run->n = (int) (bytes / sizeof(uint64));
		run->next = 0;
		if (run->n == 0)
			return false;
	}
	*word = run->words[run->next++];
	return true;
}

/* The same where there must be one. */
static inline uint64
expect_word(Run *run)
{
	uint64		word;

	if (!next_word(run, &word))
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("unexpected end of a temporary file of values")));
	return word;
}

/* Have the next value of a run there; false if there is none. */
static inline bool
advance(Run *run)
{
	uint64		word;

	if (run->left == 0)
	{
		if (!next_word(run, &word))
			return false;
		run->entry = (char *) (uintptr_t) word;
		run->left = (int64) expect_word(run);
	}
	run->key = expect_word(run);
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

/* Begin to read all runs together. */
void
ordered_runs_rewind(OrderedRuns *runs)
{
	MemoryContext old = MemoryContextSwitchTo(runs->context);

	runs->nheap = 0;
	for (int i = 0; i < runs->nruns; i++)
	{
		Run		   *run = &runs->runs[i];

		if (BufFileSeek(run->file, 0, 0, SEEK_SET) != 0)
			ereport(ERROR,
					(errcode_for_file_access(),
					 errmsg("could not rewind a temporary file of values")));
		if (run->words == NULL)
			run->words = palloc(sizeof(uint64) * RUN_WORDS);
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

/* ---- writing ---- */

static void
close_run(Run *run)
{
	BufFileClose(run->file);
	if (run->words != NULL)
		pfree(run->words);
	memset(run, 0, sizeof(Run));
}

static void
write_values(OrderedRuns *runs, Run *run, const char *entry, const uint64 *keys, int64 n)
{
	uint64		head[] = {(uint64) (uintptr_t) entry, (uint64) n};

	BufFileWrite(run->file, head, sizeof(head));
	BufFileWrite(run->file, unconstify(uint64 *, keys), sizeof(uint64) * n);
	runs->bytes += sizeof(head) + sizeof(uint64) * n;
}

static Run *
add_run(OrderedRuns *runs)
{
	MemoryContext old = MemoryContextSwitchTo(runs->context);
	Run		   *run = &runs->runs[runs->nruns++];

	run->file = BufFileCreateTemp(false);
	MemoryContextSwitchTo(old);
	runs->written++;
	return run;
}

/* Merge all runs into one. */
static void
merge(OrderedRuns *runs)
{
	int			n = runs->nruns;
	Run		   *merged;
	uint64		keys[MERGED_VALUES];
	char	   *current = NULL;
	int			nkeys = 0;
	char	   *entry;
	uint64		key;

	ordered_runs_rewind(runs);
	merged = add_run(runs);
	while (ordered_runs_next(runs, &entry, &key))
	{
		if (nkeys > 0 && (entry != current || nkeys == MERGED_VALUES))
		{
			CHECK_FOR_INTERRUPTS();
			write_values(runs, merged, current, keys, nkeys);
			nkeys = 0;
		}
		current = entry;
		keys[nkeys++] = key;
	}
	if (nkeys > 0)
		write_values(runs, merged, current, keys, nkeys);
	for (int i = 0; i < n; i++)
		close_run(&runs->runs[i]);
	runs->runs[0] = *merged;
	memset(merged, 0, sizeof(Run));
	runs->nruns = 1;
}

/* Begin a run. */
void
ordered_runs_begin(OrderedRuns *runs)
{
	if (runs->nruns == runs->most)
		merge(runs);
	(void) add_run(runs);
}

/* Write values of a group, of which there is at least one, in ascending order; those of later groups have higher addresses. */
void
ordered_runs_write(OrderedRuns *runs, const char *entry, const uint64 *keys, int64 n)
{
	Assert(n > 0);
	write_values(runs, &runs->runs[runs->nruns - 1], entry, keys, n);
}

/* Close the files. */
void
ordered_runs_close(OrderedRuns *runs)
{
	for (int i = 0; i < runs->nruns; i++)
		close_run(&runs->runs[i]);
	runs->nruns = runs->nheap = 0;
}

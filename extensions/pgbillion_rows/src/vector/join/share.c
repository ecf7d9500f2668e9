/*-------------------------------------------------------------------------
 *
 * share.c
 *	  The source of a build side's rows in a parallel plan, each of which is
 *	  computed by one process only, and returned to all.
 *
 * The plan is a partial one: processes that run it together have each row
 * once. Each returns its share, and writes it to a file meanwhile; when all
 * have done so, it returns what the others have written.
 *
 * There are two phases, write and read, with a barrier between them. A process
 * attaches to it before it runs the plan, and leaves it when all that have
 * attached have written their rows. Who comes later reads all files, and runs
 * nothing. While it is attached a process returns no row of the scan, as all of
 * a build side is read at once: so nobody waits for a process that itself waits
 * until there is room in the queue of its rows. Any number of processes will
 * do, also a leader alone.
 *
 * Files belong to a SharedFileSet, and are deleted with the memory that
 * processes share, however the query ends.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "storage/barrier.h"
#include "storage/sharedfileset.h"
#include "utils/memutils.h"
#include "utils/wait_event.h"

#include "vector/join/share.h"
#include "vector/spill/spill.h"

/* The barriers' phases. */
#define PHASE_WRITE 0

/* In shared memory, for all build sides of a scan. */
typedef struct RowsShared
{
	SharedFileSet files;
	dsm_handle	segment;		/* this memory's */
	int			nprocesses;		/* at most */
	Barrier		barriers[FLEXIBLE_ARRAY_MEMBER];
} RowsShared;

typedef enum SharePhase
{
	SHARE_NONE,
	SHARE_WRITE,
	SHARE_READ
} SharePhase;

typedef struct SharedRows
{
	Source		source;
	Source	   *plan;			/* of this process's share */
	MemoryContext context;		/* of files and their buffers */
	RowsShared *shared;			/* NULL: there is no other process */
	int			number;			/* among the build sides */
	int			process;		/* number of this one */
	SharePhase	phase;
	Spill	   *spill;			/* own rows are being written */
	int			next;			/* process whose rows are next, */
	bool		without_own;	/* except this one's, which were returned */
	Source	   *file;			/* of the current one, or NULL */
} SharedRows;

/* ---- rows ---- */

static void
file_name(char *name, int number, int process)
{
	snprintf(name, MAXPGPATH, "build.%d.%d", number, process);
}

static Barrier *
barrier_of(SharedRows *rows)
{
	return &rows->shared->barriers[rows->number];
}

/* Take part in running the plan, unless it has been run. */
static void
begin(SharedRows *rows, Batch *batch)
{
	char		name[MAXPGPATH];

	rows->next = 0;
	rows->without_own = BarrierAttach(barrier_of(rows)) == PHASE_WRITE;
	if (!rows->without_own)
	{
		BarrierDetach(barrier_of(rows));
		rows->phase = SHARE_READ;
		return;
	}
	file_name(name, rows->number, rows->process);
	rows->spill = spill_begin_shared(batch, &rows->shared->files.fs, name);
	rows->phase = SHARE_WRITE;
}

/* Write the rows of the batch. */
static void
write_rows(SharedRows *rows, Batch *batch)
{
	uint16		all[BATCH_ROWS];
	uint64		tags[BATCH_ROWS];

	for (int i = 0; i < batch->n; i++)
	{
		all[i] = i;
		/* to the one partition */
		tags[i] = 0;
	}
	spill_rows(rows->spill, all, batch->n, tags);
}

/* All of this process's share has been written: wait for the others. */
static void
finish_writing(SharedRows *rows)
{
	spill_end_shared(rows->spill);
	rows->spill = NULL;
	(void) BarrierArriveAndWait(barrier_of(rows), PG_WAIT_EXTENSION);
	BarrierDetach(barrier_of(rows));
	rows->phase = SHARE_READ;
}

/* The next file, or NULL. */
static Source *
next_file(SharedRows *rows)
{
	char		name[MAXPGPATH];
	Source	   *file = NULL;

	while (file == NULL && rows->next < rows->shared->nprocesses)
	{
		int			process = rows->next++;

		if (process == rows->process && rows->without_own)
			continue;
		file_name(name, rows->number, process);
		file = spill_open_shared(&rows->shared->files.fs, name);
	}
	return file;
}

static bool
next_rows(Source *source, Batch *batch)
{
	SharedRows *rows = (SharedRows *) source;
	MemoryContext old;
	bool		more = false;

	if (rows->shared == NULL)
		return rows->plan->methods->next(rows->plan, batch);
	old = MemoryContextSwitchTo(rows->context);
	if (rows->phase == SHARE_NONE)
		begin(rows, batch);
	if (rows->phase == SHARE_WRITE)
	{
		MemoryContextSwitchTo(old);
		more = rows->plan->methods->next(rows->plan, batch);
		MemoryContextSwitchTo(rows->context);
		if (more)
			write_rows(rows, batch);
		else
			finish_writing(rows);
	}
	while (!more)
	{
		if (rows->file == NULL)
			rows->file = next_file(rows);
		if (rows->file == NULL)
			break;
		more = rows->file->methods->next(rows->file, batch);
		if (!more)
		{
			rows->file->methods->end(rows->file);
			rows->file = NULL;
		}
	}
	MemoryContextSwitchTo(old);

	return more;
}

/* Rows are asked for until there are none, except if there is an error. */
static void
end_rows(Source *source)
{
	SharedRows *rows = (SharedRows *) source;

	Assert(rows->spill == NULL && rows->file == NULL);
	rows->plan->methods->end(rows->plan);
	rows->phase = SHARE_NONE;
	MemoryContextReset(rows->context);
}

static const SourceMethods shared_methods = {
	.next = next_rows,
	.end = end_rows,
};

/* The source of the rows of a partial plan, of which the source given has this process's share. In the current context. */
Source *
shared_rows_create(Source *plan)
{
	SharedRows *rows = palloc0(sizeof(SharedRows));

	rows->source.methods = &shared_methods;
	rows->plan = plan;
	rows->context = AllocSetContextCreate(CurrentMemoryContext, "pgbillion shared rows", ALLOCSET_DEFAULT_SIZES);

	return &rows->source;
}

/* Is a source one of these? */
bool
shared_rows_applies(const Source *source)
{
	return source->methods == &shared_methods;
}

/* ---- shared memory ---- */

Size
shared_rows_size(List *sources)
{
	return sources == NIL ? 0 : offsetof(RowsShared, barriers) + sizeof(Barrier) * list_length(sources);
}

/* Have the sources use this memory. */
static void
use(List *sources, RowsShared *shared, int process)
{
	ListCell   *lc;

	foreach(lc, sources)
	{
		SharedRows *rows = lfirst(lc);

		rows->shared = shared;
		rows->number = foreach_current_index(lc);
		rows->process = process;
	}
}

static void
init_barriers(List *sources, RowsShared *shared)
{
	for (int i = 0; i < list_length(sources); i++)
		BarrierInit(&shared->barriers[i], 0);
}

/* Initialize shared memory, in the leader. */
void
shared_rows_share(List *sources, ParallelContext *pcxt, void *memory)
{
	RowsShared *shared = memory;

	/* there is no such memory, and so no worker */
	if (pcxt->seg == NULL)
		return;
	shared->nprocesses = pcxt->nworkers + 1;
	shared->segment = dsm_segment_handle(pcxt->seg);
	SharedFileSetInit(&shared->files, pcxt->seg);
	init_barriers(sources, shared);
	use(sources, shared, 0);
}

/* The same for another execution: the workers of the one before have gone. */
void
shared_rows_share_again(List *sources, ParallelContext *pcxt, void *memory)
{
	RowsShared *shared = memory;

	if (pcxt->seg == NULL)
		return;
	SharedFileSetDeleteAll(&shared->files);
	init_barriers(sources, shared);
	use(sources, shared, 0);
}

/* In a worker: find what the leader has initialized. */
void
shared_rows_attach(List *sources, void *memory)
{
	RowsShared *shared = memory;
	dsm_segment *segment = dsm_find_mapping(shared->segment);

	Assert(segment != NULL && ParallelWorkerNumber + 1 < shared->nprocesses);
	SharedFileSetAttach(&shared->files, segment);
	use(sources, shared, ParallelWorkerNumber + 1);
}

/* Shared memory is about to go. */
void
shared_rows_detach(List *sources)
{
	use(sources, NULL, 0);
}

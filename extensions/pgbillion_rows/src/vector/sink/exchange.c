/*-------------------------------------------------------------------------
 *
 * exchange.c
 *	  Groups exchanged between the processes of a parallel plan.
 *
 * Each process aggregates its share of the rows in a table of its own. Then
 * groups of the same keys come together in one process, which merges them, and
 * returns them: they are final. Where memory suffices, each process keeps those
 * of its groups whose hash is its own in its table, puts the others there for
 * their processes, and adds what these have put there for it. Otherwise all
 * groups are put into partitions by their hash: at the end, and whenever the
 * table is full. Then each process takes whole partitions.
 *
 * There are three phases, read, put and take, with one barrier. A process
 * attaches to it before it reads its first row. When all that have attached
 * have read their rows, it is known how many they are and what memory they
 * need; so it is decided which way to go. They leave the barrier when all
 * have put their groups there. A process returns no row before
 * that, and waits for nobody after it: otherwise a process that waits until
 * there is room in the queue of its rows, and another that waits at the
 * barrier, could wait for each other. Who comes when all rows have been read
 * takes partitions if there are any, and otherwise has nothing to do. Any
 * number of processes will do, also a leader alone.
 *
 * Groups go through temporary files, one of each process, as chunks. A chunk
 * holds records of one partition, or for one process, and says where the one
 * before it is; where the last one is stands in shared memory. The files are
 * deleted with it, however the query ends.
 *
 * Memory: the table is bounded by hash_mem in all phases, besides which there
 * are buffers for what is put there, together a quarter of hash_mem
 * (128 kB at least), and one chunk while it is taken. Of a partition that does not fit only
 * groups in a range of hashes are taken at a time, and it is read again for
 * the others. Groups of the same hash are taken together, whether they fit or
 * not.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "miscadmin.h"
#include "storage/barrier.h"
#include "storage/buffile.h"
#include "storage/sharedfileset.h"
#include "utils/memutils.h"
#include "utils/wait_event.h"

#include "vector/sink/exchange.h"

#define PARTITIONS EXCHANGE_PARTITIONS

/* Chunks of a partition, except if one record is longer. */
#define CHUNK_BYTES (2 * BLCKSZ)
#define MIN_CHUNK_BYTES 2048

/* A partition is cut into at most 2^this ranges of hashes. */
#define MAX_DEPTH 24

StaticAssertDecl(MAX_DEPTH < 64 - 6 && PARTITIONS <= 1 << 6, "partitions and ranges use other bits");

/* The barrier's phases; between them they put groups there. */
#define PHASE_READ 0
#define PHASE_TAKE 2

/* A place in a process's file. */
typedef struct Place
{
	int			fileno;			/* -1: none */
	off_t		offset;
} Place;

typedef struct ChunkHead
{
	Place		previous;		/* chunk of the same partition */
	int32		bytes;			/* of records, which follow */
	int32		records;
} ChunkHead;

StaticAssertDecl(sizeof(ChunkHead) == MAXALIGN(sizeof(ChunkHead)), "records are aligned");

/* What a process has put into a partition, or there for a process. */
typedef struct Bucket
{
	Place		last;			/* chunk */
	int64		records;
} Bucket;

/*
 * In shared memory. The buckets are written by the process they belong to,
 * before it arrives at the barrier, and read by others after they have left
 * it; nothing else protects them.
 */
typedef struct ExchangeShared
{
	Barrier		barrier;
	SharedFileSet files;
	dsm_handle	segment;		/* this memory's */
	int			nprocesses;		/* at most */
	pg_atomic_uint32 next;		/* partition to be taken */

	/* final when all rows have been read */
	pg_atomic_uint32 readers;	/* processes that have attached */
	pg_atomic_uint32 crowded;	/* tables that are too large to be kept */

	/* for EXPLAIN, since the beginning */
	pg_atomic_uint64 groups;	/* of all processes, before they are merged */
	pg_atomic_uint64 bytes;		/* put there */
	Bucket		buckets[FLEXIBLE_ARRAY_MEMBER]; /* PARTITIONS of each process */
} ExchangeShared;

struct Exchange
{
	GroupTable *table;
	Aggregates *aggregates;
	MemoryContext context;		/* of all below */
	ExchangeShared *shared;		/* NULL: there is no other process */
	int			process;		/* number of this one */
	bool		attached;		/* to the barrier */
	uint32		reader;			/* its number among those that read rows, */
	uint32		readers;		/* so many */

	/* putting */
	BufFile    *file;			/* NULL until a chunk is written */
	Size		chunk_bytes;	/* with its head */
	char	   *chunks;			/* of each partition or reader, or NULL */
	uint64		groups_here;
	uint64		bytes_here;

	/* taking */
	bool		taking;
	bool		in_place;		/* groups of this process are in the table; */
	bool		done;			/* there is nothing else to be taken */
	int			partition;		/* the one at hand, or -1 */
	int			depth;			/* of its 2^depth ranges */
	uint64		range;			/* the one at hand */
	BufFile   **files;			/* of all processes, as they are needed */
	char	   *buffer;
	Size		buffer_bytes;

	/* of shared memory that has gone */
	uint64		groups;
	uint64		bytes;
};

/* ---- shared memory ---- */

/* An exchange of groups of a table. Memory belongs to the current context. */
Exchange *
exchange_create(GroupTable *table, Aggregates *aggregates)
{
	Exchange   *exchange = palloc0(sizeof(Exchange));
	Size		chunk_bytes = group_table_limit(table) / 4 / PARTITIONS;

	exchange->table = table;
	exchange->aggregates = aggregates;
	exchange->chunk_bytes = MAXALIGN(Max(Min(chunk_bytes, CHUNK_BYTES), MIN_CHUNK_BYTES));
	exchange->context = AllocSetContextCreate(CurrentMemoryContext, "pgbillion exchange", ALLOCSET_DEFAULT_SIZES);

	return exchange;
}

Size
exchange_shared_size(int workers)
{
	return offsetof(ExchangeShared, buckets) + sizeof(Bucket) * PARTITIONS * (workers + 1);
}

/* Begin with the first phase. Nobody else must be looking. */
static void
clear(ExchangeShared *shared)
{
	BarrierInit(&shared->barrier, 0);
	pg_atomic_init_u32(&shared->next, 0);
	pg_atomic_init_u32(&shared->readers, 0);
	pg_atomic_init_u32(&shared->crowded, 0);
	for (int i = 0; i < PARTITIONS * shared->nprocesses; i++)
	{
		shared->buckets[i].last.fileno = -1;
		shared->buckets[i].records = 0;
	}
}

/* Initialize shared memory, in the leader. */
void
exchange_share(Exchange *exchange, ParallelContext *pcxt, void *memory)
{
	ExchangeShared *shared = memory;

	/* there is no such memory, and so no worker */
	if (pcxt->seg == NULL)
		return;
	shared->nprocesses = pcxt->nworkers + 1;
	shared->segment = dsm_segment_handle(pcxt->seg);
	SharedFileSetInit(&shared->files, pcxt->seg);
	pg_atomic_init_u64(&shared->groups, 0);
	pg_atomic_init_u64(&shared->bytes, 0);
	clear(shared);
	exchange->shared = shared;
	exchange->process = 0;
}

/* The same for another execution: the workers of the one before have gone. */
void
exchange_share_again(Exchange *exchange, ParallelContext *pcxt, void *memory)
{
	if (pcxt->seg == NULL)
		return;
	exchange_end(exchange);
	exchange->shared = memory;
	SharedFileSetDeleteAll(&exchange->shared->files);
	clear(exchange->shared);
}

/* In a worker: find what the leader has initialized. */
void
exchange_attach(Exchange *exchange, void *memory)
{
	ExchangeShared *shared = memory;
	dsm_segment *segment = dsm_find_mapping(shared->segment);

	Assert(segment != NULL && ParallelWorkerNumber + 1 < shared->nprocesses);
	SharedFileSetAttach(&shared->files, segment);
	exchange->shared = shared;
	exchange->process = ParallelWorkerNumber + 1;
}

/* Shared memory is about to go: keep what EXPLAIN will ask for. Others may still be at work. */
void
exchange_detach(Exchange *exchange)
{
	ExchangeShared *shared = exchange->shared;

	if (shared == NULL)
		return;
	exchange_end(exchange);
	if (exchange->process == 0)
	{
		exchange->groups += pg_atomic_read_u64(&shared->groups);
		exchange->bytes += pg_atomic_read_u64(&shared->bytes);
	}
	exchange->shared = NULL;
}

/* May there be others to exchange groups with? */
bool
exchange_is_shared(const Exchange *exchange)
{
	return exchange->shared != NULL;
}

/* How many groups this process had before they were merged. */
int64
exchange_groups_here(const Exchange *exchange)
{
	return exchange->groups_here;
}

/* How many groups all processes had, and what they have put there; asked of the leader. */
void
exchange_counts(const Exchange *exchange, uint64 *groups, uint64 *bytes)
{
	*groups = exchange->groups;
	*bytes = exchange->bytes;
	if (exchange->shared != NULL)
	{
		*groups += pg_atomic_read_u64(&exchange->shared->groups);
		*bytes += pg_atomic_read_u64(&exchange->shared->bytes);
	}
}

/* ---- putting groups there ---- */

static inline ChunkHead *
chunk_of(Exchange *exchange, int partition)
{
	return (ChunkHead *) (exchange->chunks + exchange->chunk_bytes * partition);
}

static void
file_name(char *name, int process)
{
	snprintf(name, MAXPGPATH, "groups.%d", process);
}

/* Write a chunk, and forget its records. */
static void
write_chunk(Exchange *exchange, int partition, ChunkHead *chunk)
{
	Bucket	   *bucket = &exchange->shared->buckets[exchange->process * PARTITIONS + partition];
	Size		bytes = sizeof(ChunkHead) + chunk->bytes;
	Place		place;

	if (exchange->file == NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(exchange->context);
		char		name[MAXPGPATH];

		file_name(name, exchange->process);
		exchange->file = BufFileCreateFileSet(&exchange->shared->files.fs, name);
		MemoryContextSwitchTo(old);
	}
	BufFileTell(exchange->file, &place.fileno, &place.offset);
	chunk->previous = bucket->last;
	BufFileWrite(exchange->file, chunk, bytes);
	bucket->last = place;
	bucket->records += chunk->records;
	exchange->bytes_here += bytes;
	chunk->bytes = chunk->records = 0;
}

/* Write a record that is longer than a chunk. */
static void
write_long(Exchange *exchange, int partition, char *entry, Size size)
{
	ChunkHead  *chunk = MemoryContextAllocHuge(exchange->context, sizeof(ChunkHead) + size);

	memset(chunk, 0, sizeof(ChunkHead));
	chunk->bytes = (int32) size;
	chunk->records = 1;
	group_record_write(exchange->table, entry, (char *) (chunk + 1), size);
	write_chunk(exchange, partition, chunk);
	pfree(chunk);
}

/* Put a group into a partition, or there for a reader. */
static void
put_group(Exchange *exchange, char *entry, int partition)
{
	Size		size = group_record_size(exchange->table, entry);
	ChunkHead  *chunk = chunk_of(exchange, partition);
	Size		room = exchange->chunk_bytes - sizeof(ChunkHead);

	if (chunk->bytes + size > room && chunk->bytes > 0)
		write_chunk(exchange, partition, chunk);
	if (size > room)
	{
		write_long(exchange, partition, entry, size);
		return;
	}
	group_record_write(exchange->table, entry, (char *) (chunk + 1) + chunk->bytes, size);
	chunk->bytes += size;
	chunk->records++;
}

/* Put groups of the table there: all, into partitions, or those that are for other readers. */
static void
put_groups(Exchange *exchange, bool to_readers)
{
	int			nbuckets = to_readers ? (int) exchange->readers : PARTITIONS;
	int			chunk = 0;
	Size		offset = 0;
	char	   *entries[GROUP_RECORDS];
	uint64		hashes[GROUP_RECORDS];
	int			n;

	if (exchange->chunks == NULL)
		exchange->chunks = MemoryContextAllocZero(exchange->context, exchange->chunk_bytes * nbuckets);
	while ((n = group_records_next(exchange->table, &chunk, &offset, entries, hashes)) > 0)
	{
		CHECK_FOR_INTERRUPTS();
		for (int i = 0; i < n; i++)
		{
			uint32		bucket = to_readers ? (hashes[i] & PG_UINT32_MAX) * exchange->readers >> 32 :
				hashes[i] % PARTITIONS;

			if (to_readers && bucket == exchange->reader)
				continue;
			put_group(exchange, entries[i], bucket);
			if (to_readers)
				group_set_gone(entries[i]);
		}
	}
}

/* Put all groups of the table there, and forget them. */
static void
put_table(Exchange *exchange)
{
	put_groups(exchange, false);
	exchange->groups_here += group_table_count(exchange->table);
	group_table_reset(exchange->table);
}

/* Put those groups there that are for other readers; the table has the others. */
static void
put_others(Exchange *exchange)
{
	Assert(exchange->chunks == NULL);
	exchange->groups_here = group_table_count(exchange->table);
	if (exchange->readers > 1)
		put_groups(exchange, true);
}

/* All have been put there. */
static void
end_putting(Exchange *exchange)
{
	ExchangeShared *shared = exchange->shared;
	int			n = exchange->in_place ? (int) exchange->readers : PARTITIONS;

	for (int i = 0; exchange->chunks != NULL && i < n; i++)
	{
		ChunkHead  *chunk = chunk_of(exchange, i);

		if (chunk->records > 0)
			write_chunk(exchange, i, chunk);
	}
	if (exchange->chunks != NULL)
		pfree(exchange->chunks);
	exchange->chunks = NULL;
	if (exchange->file != NULL)
		BufFileClose(exchange->file);
	exchange->file = NULL;
	pg_atomic_fetch_add_u64(&shared->groups, exchange->groups_here);
	pg_atomic_fetch_add_u64(&shared->bytes, exchange->bytes_here);
}

static void
begin_taking(Exchange *exchange)
{
	exchange->taking = true;
	exchange->partition = -1;
}

/* Does each process keep its groups in its table? All say the same, once all rows have been read. */
static bool
keep_in_place(ExchangeShared *shared)
{
	return pg_atomic_read_u32(&shared->crowded) == 0 && pg_atomic_read_u32(&shared->readers) <= PARTITIONS;
}

/*
 * Begin; about so many groups are expected. Returns false if this process comes too late to read rows: then
 * exchange_take() is next.
 */
bool
exchange_begin(Exchange *exchange, double groups)
{
	ExchangeShared *shared = exchange->shared;
	int			phase;

	Assert(!exchange->attached && !exchange->taking);
	exchange->groups_here = exchange->bytes_here = 0;
	exchange->in_place = exchange->done = false;
	phase = BarrierAttach(&shared->barrier);
	if (phase == PHASE_READ)
	{
		exchange->attached = true;
		exchange->reader = pg_atomic_fetch_add_u32(&shared->readers, 1);
		group_table_expect(exchange->table, groups);
		return true;
	}
	BarrierDetach(&shared->barrier);
	exchange->done = phase != PHASE_TAKE || keep_in_place(shared);
	begin_taking(exchange);
	return false;
}

/* Have room in the table for n more groups. Called before each batch. True if those that were there have gone. */
bool
exchange_reserve(Exchange *exchange, int n)
{
	Assert(exchange->attached);
	if (group_table_reserve(exchange->table, n, false))
		return false;
	put_table(exchange);
	(void) group_table_reserve(exchange->table, n, true);
	return true;
}

/*
 * Has a table room for what others put there for this process? Of N tables of the same size that is as much again, or
 * less; and slots may have to be twice as many.
 */
static bool
is_crowded(const Exchange *exchange)
{
	return exchange->chunks != NULL || group_table_bytes(exchange->table) > group_table_limit(exchange->table) / 3;
}

/*
 * All rows have been read: put groups there for all others that have read some, and wait for theirs. No row must have
 * been returned since exchange_begin(), and nothing is waited for afterwards.
 */
void
exchange_put(Exchange *exchange)
{
	ExchangeShared *shared = exchange->shared;

	Assert(exchange->attached);
	if (is_crowded(exchange))
		pg_atomic_fetch_add_u32(&shared->crowded, 1);
	(void) BarrierArriveAndWait(&shared->barrier, PG_WAIT_EXTENSION);
	exchange->readers = pg_atomic_read_u32(&shared->readers);
	exchange->in_place = keep_in_place(shared);
	if (exchange->in_place)
		put_others(exchange);
	else
		put_table(exchange);
	end_putting(exchange);
	(void) BarrierArriveAndWait(&shared->barrier, PG_WAIT_EXTENSION);
	BarrierDetach(&shared->barrier);
	exchange->attached = false;
	begin_taking(exchange);
}

/* ---- taking them ---- */

/* The file of a process, open. */
static BufFile *
file_of(Exchange *exchange, int process)
{
	if (exchange->files == NULL)
		exchange->files = MemoryContextAllocZero(exchange->context,
												 sizeof(BufFile *) * exchange->shared->nprocesses);
	if (exchange->files[process] == NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(exchange->context);
		char		name[MAXPGPATH];

		file_name(name, process);
		exchange->files[process] = BufFileOpenFileSet(&exchange->shared->files.fs, name, O_RDONLY, false);
		MemoryContextSwitchTo(old);
	}
	return exchange->files[process];
}

static void
read_bytes(BufFile *file, void *to, Size bytes)
{
	Size		found = BufFileRead(file, to, bytes);

	if (found != bytes)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not read from a temporary file of an aggregation: %zu of %zu bytes", found, bytes)));
}

/* Read the chunk that is there into the buffer. */
static void
read_chunk(Exchange *exchange, int process, Place place, ChunkHead *head)
{
	BufFile    *file = file_of(exchange, process);

	if (BufFileSeek(file, place.fileno, place.offset, SEEK_SET) != 0)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not seek in a temporary file of an aggregation")));
	read_bytes(file, head, sizeof(ChunkHead));
	if (exchange->buffer_bytes < head->bytes)
	{
		if (exchange->buffer != NULL)
			pfree(exchange->buffer);
		exchange->buffer = NULL;
		exchange->buffer_bytes = Max(head->bytes, exchange->chunk_bytes);
		exchange->buffer = MemoryContextAllocHuge(exchange->context, exchange->buffer_bytes);
	}
	read_bytes(file, exchange->buffer, head->bytes);
}

/* Merge records into the table. */
static void
merge_records(Exchange *exchange, char **records, int n)
{
	char	   *entries[GROUP_RECORDS];

	n = group_table_merge(exchange->table, records, n, entries);
	if (n > 0)
		aggregates_combine(exchange->aggregates, entries, records, n);
}

/* Merge those of the chunk in the buffer that are in the range at hand. */
static void
merge_chunk(Exchange *exchange, const ChunkHead *head)
{
	char	   *record = exchange->buffer;
	char	   *records[GROUP_RECORDS];
	int			n = 0;

	for (int i = 0; i < head->records; i++)
	{
		if (exchange->depth == 0 ||
			group_record_hash(exchange->table, record) >> (64 - exchange->depth) == exchange->range)
			records[n++] = record;
		if (n == GROUP_RECORDS)
		{
			merge_records(exchange, records, n);
			n = 0;
		}
		record = group_record_next(record);
	}
	Assert(record == exchange->buffer + head->bytes);
	if (n > 0)
		merge_records(exchange, records, n);
}

/* Merge what a process has put into a partition, or there for a reader; false if memory does not suffice. */
static bool
merge_bucket(Exchange *exchange, int process, int partition, bool whatever)
{
	const Bucket *bucket = &exchange->shared->buckets[process * PARTITIONS + partition];
	ChunkHead	head = {.previous = bucket->last};

	while (head.previous.fileno >= 0)
	{
		CHECK_FOR_INTERRUPTS();
		read_chunk(exchange, process, head.previous, &head);
		if (!group_table_reserve(exchange->table, head.records, whatever))
			return false;
		merge_chunk(exchange, &head);
	}
	return true;
}

/* Have the groups in the range at hand in the table; false if they do not fit. */
static bool
take_range(Exchange *exchange)
{
	const Bucket *buckets = exchange->shared->buckets;
	double		records = 0;

	group_table_reset(exchange->table);
	for (int i = exchange->partition; i < PARTITIONS * exchange->shared->nprocesses; i += PARTITIONS)
		records = Max(records, buckets[i].records);
	group_table_expect(exchange->table, ldexp(records, -exchange->depth));
	for (int process = 0; process < exchange->shared->nprocesses; process++)
	{
		if (!merge_bucket(exchange, process, exchange->partition, exchange->depth == MAX_DEPTH))
			return false;
	}
	return true;
}

/* Add what others have put there for this process to its groups in the table. */
static void
take_own(Exchange *exchange)
{
	exchange->depth = 0;
	for (int process = 0; process < exchange->shared->nprocesses; process++)
		(void) merge_bucket(exchange, process, exchange->reader, true);
}

/* Go on to the next range, or else to the next partition; false if there is none. */
static bool
next_range(Exchange *exchange)
{
	if (exchange->partition >= 0)
	{
		exchange->range++;

		/*
		 * halves that are done make a range that is done: the next may be as
		 * wide, as few groups of one hash can be what did not fit
		 */
		while (exchange->depth > 0 && exchange->range % 2 == 0)
		{
			exchange->range /= 2;
			exchange->depth--;
		}
		if (exchange->depth > 0)
			return true;
	}
	exchange->depth = 0;
	exchange->range = 0;
	exchange->partition = -1;
	/* it is not counted on for ever */
	if (pg_atomic_read_u32(&exchange->shared->next) < PARTITIONS)
		exchange->partition = pg_atomic_fetch_add_u32(&exchange->shared->next, 1);
	if (exchange->partition >= PARTITIONS)
		exchange->partition = -1;
	return exchange->partition >= 0;
}

/* Have the next final groups in the table, instead of those that are there; false if there are none left. */
bool
exchange_take(Exchange *exchange)
{
	Assert(exchange->taking && !exchange->attached);
	if (exchange->done)
		return false;
	if (exchange->in_place)
	{
		take_own(exchange);
		exchange->done = true;
		return true;
	}
	while (next_range(exchange))
	{
		while (!take_range(exchange))
		{
			exchange->depth++;
			exchange->range *= 2;
		}
		if (group_table_count(exchange->table) > 0)
			return true;
	}
	return false;
}

/* Close files, wherever it is. */
void
exchange_end(Exchange *exchange)
{
	if (exchange->file != NULL)
		BufFileClose(exchange->file);
	for (int i = 0; exchange->files != NULL && i < exchange->shared->nprocesses; i++)
	{
		if (exchange->files[i] != NULL)
			BufFileClose(exchange->files[i]);
	}
	exchange->file = NULL;
	exchange->files = NULL;
	exchange->chunks = exchange->buffer = NULL;
	exchange->buffer_bytes = 0;
	exchange->taking = false;
	MemoryContextReset(exchange->context);

	/*
	 * an error may have happened while it was attached, which ends all
	 * processes
	 */
	exchange->attached = false;
}

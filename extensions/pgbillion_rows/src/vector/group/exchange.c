/*-------------------------------------------------------------------------
 *
 * exchange.c
 *	  Groups exchanged between the processes of a parallel plan.
 *
 * Each process aggregates its share of the rows in a table of its own. Then
 * groups of the same keys come together in one process, which merges them, and
 * returns them: they are final. The table keeps its groups by partitions of
 * their hash, so that whole partitions can be put there for others. Where
 * memory suffices, each process keeps the partitions that are its own in its
 * table, puts the others there for their processes, and adds what these have
 * put there for it. Otherwise all partitions are put there: at the end, and
 * whenever the table is full. Then each process takes one after the other.
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
 * holds records of one partition, and says where the one before it is; where
 * the last one is stands in shared memory. The files are deleted with it,
 * however the query ends.
 *
 * Memory: the table is bounded by hash_mem in all phases, besides which there
 * is a buffer for some records, or one that is longer. Of a partition that does
 * not fit only groups in a range of hashes are taken at a time, and it is read
 * again for the others. Groups of the same hash are taken together, whether
 * they fit or not.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "miscadmin.h"
#include "port/atomics.h"
#include "storage/barrier.h"
#include "storage/buffile.h"
#include "storage/sharedfileset.h"
#include "utils/memutils.h"
#include "utils/wait_event.h"

#include "vector/group/exchange.h"

/*
 * Partitions for each process where all fit in memory: some, so that all have
 * about as much; and few, as groups that come in a row are then near each other.
 */
#define PARTITIONS_OF_PROCESS 4

/* Number of bytes that are written or read at a time, except if one record is longer. */
#define BUFFER_BYTES (2 * BLCKSZ)

/* Memory for entries of a partition is taken in blocks of at most that, and of less than that share of all. */
#define MOST_BLOCK_BYTES (2 * BLCKSZ)
#define BLOCK_SHARE 512

/* A partition is cut into at most 2^this ranges of hashes. */
#define MAX_DEPTH 24

StaticAssertDecl(MAX_DEPTH < 64 - 6 && EXCHANGE_PARTITIONS <= 1 << 6, "partitions and ranges use other bits");

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
	int64		bytes;			/* of records, which follow */
	int64		records;
} ChunkHead;

/* What a process has put into a partition. */
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
	int			npartitions;	/* of each table */
	pg_atomic_uint32 next;		/* partition to be taken */

	/* final when all rows have been read */
	pg_atomic_uint32 readers;	/* processes that have attached */
	pg_atomic_uint32 crowded;	/* tables that are too large to be kept */

	/* for EXPLAIN, since the beginning */
	pg_atomic_uint64 groups;	/* of all processes, before they are merged */
	pg_atomic_uint64 bytes;		/* put there */
	Bucket		buckets[FLEXIBLE_ARRAY_MEMBER]; /* EXCHANGE_PARTITIONS of each
												 * process */
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
	uint32		readers;		/* their number */

	/* putting */
	BufFile    *file;			/* NULL until a chunk is written */
	bool		put_all;		/* has the table been full? */
	uint64		groups_here;
	uint64		bytes_here;

	/* taking */
	bool		taking;
	bool		in_place;		/* groups of this process are in the table; */
	bool		done;			/* there is nothing else to be taken */
	int			partition;		/* the current one, or -1 */
	int			depth;			/* of its 2^depth ranges */
	uint64		range;			/* the current one */
	BufFile   **files;			/* of all processes, as they are needed */

	/* records on their way */
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

	exchange->table = table;
	exchange->aggregates = aggregates;
	exchange->context = AllocSetContextCreate(CurrentMemoryContext, "pgbillion exchange", ALLOCSET_DEFAULT_SIZES);

	return exchange;
}

Size
exchange_shared_size(int workers)
{
	return offsetof(ExchangeShared, buckets) + sizeof(Bucket) * EXCHANGE_PARTITIONS * (workers + 1);
}

/* Begin with the first phase. Nobody else must be looking. */
static void
clear(ExchangeShared *shared)
{
	BarrierInit(&shared->barrier, 0);
	pg_atomic_init_u32(&shared->next, 0);
	pg_atomic_init_u32(&shared->readers, 0);
	pg_atomic_init_u32(&shared->crowded, 0);
	for (int i = 0; i < EXCHANGE_PARTITIONS * shared->nprocesses; i++)
	{
		shared->buckets[i].last.fileno = -1;
		shared->buckets[i].records = 0;
	}
}

/*
 * How many partitions there are, a power of two; `groups` is the estimate of the number of groups. A third of a table's memory is kept
 * in place.
 */
static int
count_partitions(Exchange *exchange, int nprocesses, double groups)
{
	int			wanted = groups * 3 > group_table_room(exchange->table) ? EXCHANGE_PARTITIONS :
		Min(PARTITIONS_OF_PROCESS * nprocesses, EXCHANGE_PARTITIONS);
	int			npartitions = 1;

	while (npartitions < wanted)
		npartitions *= 2;
	return npartitions;
}

/*
 * Initialize shared memory, in the leader; `groups` is the estimate of the number of groups. It decides how many partitions all have:
 * work_mem may be another one when a worker starts.
 */
void
exchange_share(Exchange *exchange, ParallelContext *pcxt, void *memory, double groups)
{
	ExchangeShared *shared = memory;

	/* there is no such memory, and so no worker */
	if (pcxt->seg == NULL)
		return;
	shared->nprocesses = pcxt->nworkers + 1;
	shared->npartitions = count_partitions(exchange, shared->nprocesses, groups);
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

static void
file_name(char *name, int process)
{
	snprintf(name, MAXPGPATH, "groups.%d", process);
}

/* Begin a chunk of a partition with its head; `bytes` bytes of records are written next. */
static void
begin_chunk(Exchange *exchange, int partition, int64 records, Size bytes)
{
	Bucket	   *bucket = &exchange->shared->buckets[exchange->process * EXCHANGE_PARTITIONS + partition];
	ChunkHead	head;

	if (exchange->file == NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(exchange->context);
		char		name[MAXPGPATH];

		file_name(name, exchange->process);
		exchange->file = BufFileCreateFileSet(&exchange->shared->files.fs, name);
		MemoryContextSwitchTo(old);
	}
	/* what is between its members is defined, too, as it goes to a file */
	memset(&head, 0, sizeof(head));
	head.previous = bucket->last;
	head.bytes = bytes;
	head.records = records;
	BufFileTell(exchange->file, &bucket->last.fileno, &bucket->last.offset);
	BufFileWrite(exchange->file, &head, sizeof(head));
	bucket->records += records;
	exchange->bytes_here += sizeof(head) + bytes;
}

/* Make room for `bytes` bytes in the buffer. */
static void
have_buffer(Exchange *exchange, Size bytes)
{
	if (exchange->buffer_bytes >= bytes)
		return;
	if (exchange->buffer != NULL)
		pfree(exchange->buffer);
	exchange->buffer = NULL;
	exchange->buffer_bytes = 0;
	exchange->buffer = MemoryContextAllocHuge(exchange->context, Max(bytes, BUFFER_BYTES));
	exchange->buffer_bytes = Max(bytes, BUFFER_BYTES);
}

/* Put a partition there whose entries are records. */
static void
put_blocks(Exchange *exchange, int partition)
{
	Size		bytes = group_partition_bytes(exchange->table, partition);
	GroupWalk	walk = {.partition = partition};
	char	   *block;

	if (bytes == 0)
		return;
	begin_chunk(exchange, partition, bytes / group_fixed_record(exchange->table), bytes);
	while ((block = group_partition_block(exchange->table, &walk, &bytes)) != NULL)
	{
		CHECK_FOR_INTERRUPTS();
		BufFileWrite(exchange->file, block, bytes);
	}
}

/* Write the records in the buffer as a chunk. */
static void
put_buffer(Exchange *exchange, int partition, int64 records, Size bytes)
{
	if (records == 0)
		return;
	begin_chunk(exchange, partition, records, bytes);
	BufFileWrite(exchange->file, exchange->buffer, bytes);
}

/* Put a partition there, record by record. */
static void
put_records(Exchange *exchange, int partition)
{
	GroupTable *table = exchange->table;
	GroupWalk	walk = {.partition = partition};
	char	   *entries[GROUP_RECORDS];
	int64		records = 0;
	Size		bytes = 0;
	int			n;

	while ((n = group_partition_walk(table, &walk, entries, GROUP_RECORDS)) > 0)
	{
		CHECK_FOR_INTERRUPTS();
		for (int i = 0; i < n; i++)
		{
			Size		size = group_record_size(table, entries[i]);

			if (bytes + size > BUFFER_BYTES)
			{
				put_buffer(exchange, partition, records, bytes);
				records = bytes = 0;
			}

			/*
			 * what is in it already stays: then there is room for
			 * BUFFER_BYTES
			 */
			have_buffer(exchange, bytes + size);
			group_record_write(table, entries[i], exchange->buffer + bytes, size);
			bytes += size;
			records++;
		}
	}
	put_buffer(exchange, partition, records, bytes);
}

static void
put_partition(Exchange *exchange, int partition)
{
	if (group_fixed_record(exchange->table) > 0)
		put_blocks(exchange, partition);
	else
		put_records(exchange, partition);
}

/* Put all groups of the table there, and forget them. */
static void
put_table(Exchange *exchange)
{
	for (int partition = 0; partition < exchange->shared->npartitions; partition++)
		put_partition(exchange, partition);
	exchange->put_all = true;
	exchange->groups_here += group_table_count(exchange->table);
	group_table_reset(exchange->table);
}

/* Is a partition this reader's, where they keep them in place? */
static inline bool
is_own(const Exchange *exchange, int partition)
{
	return partition * exchange->readers / exchange->shared->npartitions == exchange->reader;
}

/* Put those partitions there that are other readers'; the table has the others. */
static void
put_others(Exchange *exchange)
{
	exchange->groups_here = group_table_count(exchange->table);
	for (int partition = 0; partition < exchange->shared->npartitions; partition++)
	{
		if (is_own(exchange, partition))
			continue;
		put_partition(exchange, partition);
		group_partition_forget(exchange->table, partition);
	}
}

/* All have been put there. */
static void
end_putting(Exchange *exchange)
{
	ExchangeShared *shared = exchange->shared;

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
	return pg_atomic_read_u32(&shared->crowded) == 0 && pg_atomic_read_u32(&shared->readers) <= shared->npartitions;
}

/*
 * Begin; `groups` is the estimate of the number of groups. Returns false if this process comes too late to read rows: then
 * exchange_take() is next.
 */
bool
exchange_begin(Exchange *exchange, double groups)
{
	ExchangeShared *shared = exchange->shared;
	int			phase;

	Assert(!exchange->attached && !exchange->taking);
	exchange->groups_here = exchange->bytes_here = 0;
	exchange->in_place = exchange->done = exchange->put_all = false;
	group_table_partition(exchange->table, shared->npartitions,
						  Min(group_table_limit(exchange->table) / BLOCK_SHARE, MOST_BLOCK_BYTES));
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
	return exchange->put_all || group_table_bytes(exchange->table) > group_table_limit(exchange->table) / 3;
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

/* Read the head of the chunk that is there. */
static BufFile *
read_head(Exchange *exchange, int process, Place place, ChunkHead *head)
{
	BufFile    *file = file_of(exchange, process);

	if (BufFileSeek(file, place.fileno, place.offset, SEEK_SET) != 0)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not seek in a temporary file of an aggregation")));
	read_bytes(file, head, sizeof(ChunkHead));
	return file;
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

/* Merge those of the records in the buffer, `bytes` bytes, that are in the current range. */
static void
merge_buffer(Exchange *exchange, int64 nrecords, Size bytes)
{
	char	   *record = exchange->buffer;
	char	   *records[GROUP_RECORDS];
	int			n = 0;

	for (int64 i = 0; i < nrecords; i++)
	{
		char	   *next = group_record_next(exchange->table, record);

		if (exchange->depth == 0 ||
			group_record_hash(exchange->table, record) >> (64 - exchange->depth) == exchange->range)
			records[n++] = record;
		record = next;
		if (n == GROUP_RECORDS)
		{
			merge_records(exchange, records, n);
			n = 0;
		}
	}
	Assert(record == exchange->buffer + bytes);
	if (n > 0)
		merge_records(exchange, records, n);
}

/* Merge a chunk, some records at a time where they are of one size; false if memory does not suffice. */
static bool
merge_chunk(Exchange *exchange, BufFile *file, ChunkHead *head, bool whatever)
{
	Size		fixed = group_fixed_record(exchange->table);

	while (head->records > 0)
	{
		int64		records = fixed > 0 ? Min(head->records, Max(BUFFER_BYTES / fixed, 1)) : head->records;
		Size		bytes = fixed > 0 ? records * fixed : head->bytes;

		CHECK_FOR_INTERRUPTS();
		if (!group_table_reserve(exchange->table, records, whatever))
			return false;
		have_buffer(exchange, bytes);
		read_bytes(file, exchange->buffer, bytes);
		merge_buffer(exchange, records, bytes);
		head->records -= records;
	}
	return true;
}

/* Merge what a process has put into a partition; false if memory does not suffice. */
static bool
merge_bucket(Exchange *exchange, int process, int partition, bool whatever)
{
	const Bucket *bucket = &exchange->shared->buckets[process * EXCHANGE_PARTITIONS + partition];
	ChunkHead	head = {.previous = bucket->last};

	while (head.previous.fileno >= 0)
	{
		BufFile    *file = read_head(exchange, process, head.previous, &head);

		if (!merge_chunk(exchange, file, &head, whatever))
			return false;
	}
	return true;
}

/* Collect the groups of the current range in the table; false if they do not fit. */
static bool
take_range(Exchange *exchange)
{
	const Bucket *buckets = exchange->shared->buckets;
	double		records = 0;

	group_table_reset(exchange->table);
	for (int i = exchange->partition; i < EXCHANGE_PARTITIONS * exchange->shared->nprocesses; i += EXCHANGE_PARTITIONS)
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
	{
		for (int partition = 0; partition < exchange->shared->npartitions; partition++)
		{
			if (is_own(exchange, partition))
				(void) merge_bucket(exchange, process, partition, true);
		}
	}
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
	if (pg_atomic_read_u32(&exchange->shared->next) < exchange->shared->npartitions)
		exchange->partition = pg_atomic_fetch_add_u32(&exchange->shared->next, 1);
	if (exchange->partition >= exchange->shared->npartitions)
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
	exchange->buffer = NULL;
	exchange->buffer_bytes = 0;
	exchange->taking = false;
	MemoryContextReset(exchange->context);

	/*
	 * an error may have happened while it was attached, which ends all
	 * processes
	 */
	exchange->attached = false;
}

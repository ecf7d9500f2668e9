/*-------------------------------------------------------------------------
 *
 * spill.c
 *	  Rows of groups for which there is no memory, kept in temporary files.
 *
 * As PostgreSQL's hash aggregation does: when the table of groups is full,
 * rows of other groups are written to partitions, chosen by a hash of their
 * keys, and aggregated one partition after the other when the table has been
 * returned. A group's rows are all in one partition, in the order of the
 * scan, so that floats are added in the same order as if there had been room.
 * A partition that does not fit either is partitioned again, by another hash.
 *
 * What is written are the columns that group keys and aggregates need, of
 * rows that the filter has kept. A file is a sequence of blocks, each a batch:
 * a BlockHead, and for each row
 *
 *	a bit for each column, which is 1 for NULL, if the block has them at all;
 *	values that are passed by value, in as many bytes as their types have;
 *	others as what the Datum points to, each aligned to MAXIMUM_ALIGNOF, so
 *	that they can be used where they are; and so is the next row then.
 *
 * Values out of line stay there: what is written is the TOAST pointer.
 *
 * Memory: a partition being written has two buffers of a page, ours and
 * BufFile's; one being read a block's. Files belong to the resource owner of
 * the query, which closes those that an error leaves open.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "storage/buffile.h"
#include "utils/datum.h"
#include "utils/memutils.h"

#include "vector/spill/spill.h"

/* Partitions are made for this number of groups at most, and for this many times the groups expected. */
#define MIN_PARTITIONS 8
#define MAX_PARTITIONS 256
#define PARTITION_FACTOR 1.5

typedef struct BlockHead
{
	int32		rows;
	int32		null_bytes;		/* of each row, or 0 if there is no NULL */
	Size		bytes;			/* of what follows, at most MaxAllocSize */
} BlockHead;

/* What is written of a row: columns passed by value come first. */
typedef struct Layout
{
	int			ncolumns;
	int			nbyval;
	Column	   *columns[MaxHeapAttributeNumber];
	int16		lens[MaxHeapAttributeNumber];
} Layout;

struct SpillPartition
{
	Source		source;			/* of its rows, once they are written */
	BufFile    *file;			/* NULL until a block is written */
	int			level;			/* how often its rows were written */
	int			number;			/* among those that were written together */
	int64		rows;
	BlockHead	head;
	char	   *block;			/* being filled or read */
	Size		size;			/* of its memory */
};

struct Spill
{
	MemoryContext context;		/* of the partitions */
	Batch	   *batch;
	Layout		layout;
	int			level;
	uint64		bytes;			/* written */
	int			npartitions;
	SpillPartition **partitions;
	FileSet    *files;			/* of named files, or NULL */
	const char *name;
};

static void
set_layout(Layout *layout, Batch *batch)
{
	layout->ncolumns = layout->nbyval = 0;
	for (int pass = 0; pass < 2; pass++)
	{
		for (int i = 0; i < batch->ncolumns; i++)
		{
			Column	   *column = &batch->columns[i];

			if (!column->later || column->byval != (pass == 0))
				continue;
			layout->columns[layout->ncolumns] = column;
			layout->lens[layout->ncolumns++] = column->len;
		}
		if (pass == 0)
			layout->nbyval = layout->ncolumns;
	}
}

/*
 * Begin to write rows for the level-th time, in the current context: about
 * `groups` are expected, `resident` ones found room in `limit` bytes.
 */
Spill *
spill_begin(Batch *batch, int level, double groups, int64 resident, Size limit)
{
	double		wanted = PARTITION_FACTOR * groups / Max(resident, 1);

	/* a quarter of the memory for buffers, as PostgreSQL has it */
	double		most = (double) limit / 4 / (2 * BLCKSZ);

	return spill_begin_partitions(batch, level, (int) Max(Min(Min(wanted, most), MAX_PARTITIONS), MIN_PARTITIONS));
}

/* The same with `npartitions` partitions: rows of two batches with equal tags go to partitions of the same number. */
Spill *
spill_begin_partitions(Batch *batch, int level, int npartitions)
{
	Spill	   *spill = palloc0(sizeof(Spill));

	spill->context = CurrentMemoryContext;
	spill->batch = batch;
	spill->level = level;
	set_layout(&spill->layout, batch);
	spill->npartitions = npartitions;
	spill->partitions = palloc0(sizeof(SpillPartition *) * npartitions);

	return spill;
}

/* How many partitions there are to write to. */
int
spill_partitions(Spill *spill)
{
	return spill->npartitions;
}

/* Write a partition's block. */
static void
flush(Spill *spill, SpillPartition *partition)
{
	if (partition->head.rows == 0)
		return;
	if (partition->file == NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(spill->context);

		partition->file = spill->files != NULL ? BufFileCreateFileSet(spill->files, spill->name) :
			BufFileCreateTemp(false);
		MemoryContextSwitchTo(old);
	}
	BufFileWrite(partition->file, &partition->head, sizeof(BlockHead));
	BufFileWrite(partition->file, partition->block, partition->head.bytes);
	spill->bytes += sizeof(BlockHead) + partition->head.bytes;
	partition->rows += partition->head.rows;
	partition->head.rows = partition->head.bytes = 0;
}

/* The next place in a block that is aligned; what is between is defined, as it goes to a file. */
static inline char *
align(char *block, char *p)
{
	char	   *aligned = block + MAXALIGN(p - block);

	memset(p, 0, aligned - p);
	return aligned;
}

static inline char *
put_byval(char *p, Datum value, int len)
{
	int16		two = DatumGetInt16(value);
	int32		four = DatumGetInt32(value);

	switch (len)
	{
		case 1:
			*p = DatumGetChar(value);
			break;
		case 2:
			memcpy(p, &two, sizeof(two));
			break;
		case 4:
			memcpy(p, &four, sizeof(four));
			break;
		default:
			Assert(len == sizeof(Datum));
			memcpy(p, &value, sizeof(Datum));
	}
	return p + len;
}

static inline const char *
get_byval(const char *p, Datum *value, int len)
{
	int16		two;
	int32		four;

	switch (len)
	{
		case 1:
			*value = CharGetDatum(*p);
			break;
		case 2:
			memcpy(&two, p, sizeof(two));
			*value = Int16GetDatum(two);
			break;
		case 4:
			memcpy(&four, p, sizeof(four));
			*value = Int32GetDatum(four);
			break;
		default:
			memcpy(value, p, sizeof(Datum));
	}
	return p + len;
}

/*
 * Memory for the next row of a partition, which has at most this number of
 * bytes. An error if no block can hold it: a row's values may have 1 GB each,
 * and PostgreSQL's own tuples cannot be that long either.
 */
static char *
room(Spill *spill, SpillPartition *partition, Size bytes)
{
	if (bytes > MaxAllocSize)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("a row of %zu bytes is too long", bytes),
				 errdetail("Rows that a vectorized plan writes to temporary files have at most %zu bytes.",
						   (Size) MaxAllocSize)));
	if (partition->head.rows == BATCH_ROWS ||
		(partition->head.rows > 0 && partition->head.bytes + bytes > partition->size))
		flush(spill, partition);
	if (bytes > partition->size)
	{
		if (partition->block != NULL)
			pfree(partition->block);
		partition->size = Max(bytes, BLCKSZ);
		partition->block = MemoryContextAlloc(spill->context, partition->size);
	}
	return partition->block + partition->head.bytes;
}

/* Write the rows listed, whose groups have these tags. */
void
spill_rows(Spill *spill, const uint16 *rows, int n, const uint64 *tags)
{
	const Layout *layout = &spill->layout;
	bool		any_nulls = false;

	for (int i = 0; i < spill->batch->ncolumns; i++)
	{
		if (spill->batch->columns[i].later)
			(void) batch_column(spill->batch, i);
	}
	for (int c = 0; c < layout->ncolumns; c++)
		any_nulls |= layout->columns[c]->has_nulls;

	for (int i = 0; i < n; i++)
	{
		int			row = rows[i];

		/* the level makes it another hash */
		uint64		hash = hash_bytes_extended((const unsigned char *) &tags[row], sizeof(uint64), spill->level);
		SpillPartition *partition = spill->partitions[hash % spill->npartitions];
		Size		bytes = 0;
		uint8	   *nulls = NULL;
		char	   *p;

		if (partition == NULL)
		{
			partition = MemoryContextAllocZero(spill->context, sizeof(SpillPartition));
			partition->level = spill->level;
			partition->number = hash % spill->npartitions;
			spill->partitions[partition->number] = partition;
		}
		/* from the first batch with NULLs on, all blocks have room for them */
		if (any_nulls && partition->head.null_bytes == 0)
		{
			flush(spill, partition);
			partition->head.null_bytes = (layout->ncolumns + 7) / 8;
		}

		for (int c = 0; c < layout->nbyval; c++)
			bytes += layout->lens[c];
		for (int c = layout->nbyval; c < layout->ncolumns; c++)
		{
			Column	   *column = layout->columns[c];

			if (!column->nulls[row])
				bytes += MAXALIGN(datumGetSize(column->values[row], false, layout->lens[c]));
		}
		bytes = MAXALIGN(partition->head.null_bytes + bytes);
		p = room(spill, partition, bytes + MAXIMUM_ALIGNOF);

		if (partition->head.null_bytes > 0)
		{
			nulls = (uint8 *) p;
			memset(nulls, 0, partition->head.null_bytes);
			p += partition->head.null_bytes;
		}
		for (int c = 0; c < layout->ncolumns; c++)
		{
			Column	   *column = layout->columns[c];

			if (column->nulls[row])
				nulls[c / 8] |= 1 << c % 8;
			else if (c < layout->nbyval)
				p = put_byval(p, column->values[row], layout->lens[c]);
			else
			{
				Size		size = datumGetSize(column->values[row], false, layout->lens[c]);

				p = align(partition->block, p);
				memcpy(p, DatumGetPointer(column->values[row]), size);
				p += size;
			}
		}
		if (layout->nbyval < layout->ncolumns)
			p = align(partition->block, p);
		Assert((Size) (p - partition->block) <= partition->head.bytes + bytes + MAXIMUM_ALIGNOF);
		partition->head.bytes = p - partition->block;
		partition->head.rows++;
	}
}

/*
 * The partitions written, ready to be read, as a list in the current context;
 * bytes are added to what was written.
 */
List *
spill_end(Spill *spill, uint64 *bytes)
{
	List	   *partitions = NIL;

	for (int i = 0; i < spill->npartitions; i++)
	{
		SpillPartition *partition = spill->partitions[i];

		if (partition == NULL)
			continue;
		flush(spill, partition);
		if (BufFileSeek(partition->file, 0, 0, SEEK_SET) != 0)
			ereport(ERROR,
					(errcode_for_file_access(),
					 errmsg("could not rewind temporary file of a vectorized plan")));
		/* memory for it is needed again when it is its turn */
		pfree(partition->block);
		partition->block = NULL;
		partition->size = 0;
		partitions = lappend(partitions, partition);
	}
	*bytes += spill->bytes;
	pfree(spill->partitions);
	pfree(spill);

	return partitions;
}

/* Begin to write rows for other processes, in the current context. The first block makes the file. */
Spill *
spill_begin_shared(Batch *batch, FileSet *files, const char *name)
{
	Spill	   *spill = spill_begin_partitions(batch, 0, 1);

	spill->files = files;
	spill->name = pstrdup(name);

	return spill;
}

/* All rows are in the file, which is closed. */
void
spill_end_shared(Spill *spill)
{
	SpillPartition *partition = spill->partitions[0];

	if (partition != NULL)
	{
		flush(spill, partition);
		spill_close(partition);
	}
	pfree(spill->partitions);
	pfree(spill);
}

/* A file of such rows as a source, in the current context, or NULL if there was none to write. */
Source *
spill_open_shared(FileSet *files, const char *name)
{
	BufFile    *file = BufFileOpenFileSet(files, name, O_RDONLY, true);
	SpillPartition *partition;

	if (file == NULL)
		return NULL;
	partition = palloc0(sizeof(SpillPartition));
	partition->file = file;

	return spill_source(partition);
}

/* How often they were written. */
int
spill_level(SpillPartition *partition)
{
	return partition->level;
}

/* Which one it is of those that were written together. */
int
spill_number(SpillPartition *partition)
{
	return partition->number;
}

/* How many rows it holds. */
int64
spill_count(SpillPartition *partition)
{
	return partition->rows;
}

/* Read `bytes` bytes, or return false at the end of the file, if that may come. */
static bool
read_temporary(BufFile *file, void *to, size_t bytes, bool may_end)
{
	size_t		found = BufFileRead(file, to, bytes);

	if (found == 0 && may_end)
		return false;
	if (found != bytes)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not read from a temporary file of a vectorized plan: %zu of %zu bytes", found, bytes)));
	return true;
}

/*
 * Read the next block of a partition into the batch. Values point into the
 * block, and are valid until the next call.
 */
static bool
read_block(Source *source, Batch *batch)
{
	SpillPartition *partition = (SpillPartition *) source;
	Layout		layout;
	BlockHead	head;
	const char *p;

	if (!read_temporary(partition->file, &head, sizeof(BlockHead), true))
		return false;
	Assert(head.rows > 0 && head.rows <= BATCH_ROWS);
	if (head.bytes > partition->size)
	{
		MemoryContext context = GetMemoryChunkContext(partition);

		if (partition->block != NULL)
			pfree(partition->block);
		partition->size = Max(head.bytes, BLCKSZ);
		partition->block = MemoryContextAlloc(context, partition->size);
	}
	(void) read_temporary(partition->file, partition->block, head.bytes, false);

	for (int i = 0; i < batch->ncolumns; i++)
	{
		batch->columns[i].loaded = batch->columns[i].later;
		batch->columns[i].has_nulls = false;
	}
	set_layout(&layout, batch);
	p = partition->block;
	for (int row = 0; row < head.rows; row++)
	{
		const uint8 *nulls = head.null_bytes > 0 ? (const uint8 *) p : NULL;

		p += head.null_bytes;
		for (int c = 0; c < layout.ncolumns; c++)
		{
			Column	   *column = layout.columns[c];
			bool		isnull = nulls != NULL && (nulls[c / 8] >> c % 8 & 1) != 0;

			column->nulls[row] = isnull;
			if (isnull)
			{
				column->values[row] = (Datum) 0;
				column->has_nulls = column->dirty = true;
			}
			else if (c < layout.nbyval)
				p = get_byval(p, &column->values[row], layout.lens[c]);
			else
			{
				p = partition->block + MAXALIGN(p - partition->block);
				column->values[row] = PointerGetDatum(p);
				p += datumGetSize(PointerGetDatum(p), false, layout.lens[c]);
			}
		}
		if (layout.nbyval < layout.ncolumns)
			p = partition->block + MAXALIGN(p - partition->block);
	}
	Assert(p == partition->block + head.bytes);

	batch->n = head.rows;

	return true;
}

/* Close a partition's file, and forget it. */
void
spill_close(SpillPartition *partition)
{
	if (partition->file != NULL)
		BufFileClose(partition->file);
	if (partition->block != NULL)
		pfree(partition->block);
	pfree(partition);
}

static void
end_block(Source *source)
{
	spill_close((SpillPartition *) source);
}

/* A row is read whole: there is nothing to load later. */
static const SourceMethods partition_methods = {
	.next = read_block,
	.end = end_block,
};

/* A partition as a source, which is closed when it ends. */
Source *
spill_source(SpillPartition *partition)
{
	partition->source.methods = &partition_methods;
	return &partition->source;
}

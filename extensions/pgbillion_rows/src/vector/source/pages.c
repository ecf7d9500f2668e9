/*-------------------------------------------------------------------------
 *
 * pages.c
 *	  The pages that a scan asks for, pinned one after the other.
 *
 * Looking a page up in the buffer table waits for memory three times, longer
 * than the simplest queries work on its rows. Neighboring blocks are mostly in
 * neighboring buffers, since they were loaded one after the other, or as far
 * away as a little while ago, where several sessions loaded them. So the place
 * of a block is guessed from those of the last ones, and only what is not
 * found there is read in PostgreSQL's ways: by a read stream where the server
 * has them, which looks ahead, else by ReadBuffer().
 *
 * A guess is made where PostgreSQL would leave the buffer's usage count alone,
 * so that tables which are only read by us stay in the cache as well as
 * others.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "executor/instrument.h"
#include "pgstat.h"
#include "storage/buf_internals.h"
#include "storage/bufmgr.h"
#if PG_VERSION_NUM >= 170000
#include "storage/read_stream.h"
#endif
#include "utils/rel.h"

#include "vector/source/heap.h"

/*
 * After this number of right guesses in a row, a wrong one costs a single block of the
 * stream, unless the last such had to be read from disk. Otherwise guessing
 * does not pay, or the stream is to look ahead, and it gets MIN_RUN further
 * blocks, and twice as many each time again.
 */
#define MIN_GUESSED 4
#define MIN_RUN 16
#define MAX_RUN (1 << 20)

/*
 * Distances between a block's number and its buffer's that are remembered. A
 * table inserted into by two sessions needs three or four.
 */
#define DISTANCES 4

/* How many pages before it is asked for the beginning of a page is fetched, of few rows and of many. */
#define SOON 6
#define SOON_OF_MANY 2

struct PageReader
{
	Relation	rel;
	BufferAccessStrategy strategy;
	BlockNumber (*next_block) (void *arg);
	void	   *arg;
	int64		distances[DISTANCES];	/* the latest first */
	int			ndistances;
#if PG_VERSION_NUM >= 170000
	ReadStream *stream;
	bool		streaming;
	bool		exhausted;		/* next_block() has given all */
	BlockNumber first;			/* what the stream is to begin with */
	int			left;			/* blocks that it may go on with */
	int			run;			/* how many it gets */
	int64		read;			/* blocks read from disk before it began */
	bool		cached;			/* it found all of its blocks in shared
								 * buffers */
	int			guessed;		/* pages in a row that were where they were
								 * expected */
#endif
};

#if PG_VERSION_NUM >= 170000
static BlockNumber
stream_next_block(ReadStream *stream, void *callback_private_data, void *per_buffer_data)
{
	PageReader *reader = callback_private_data;
	BlockNumber block = reader->first;

	if (BlockNumberIsValid(block))
	{
		reader->first = InvalidBlockNumber;
		return block;
	}
	if (reader->left == 0 || reader->exhausted)
		return InvalidBlockNumber;
	reader->left--;
	block = reader->next_block(reader->arg);
	reader->exhausted = !BlockNumberIsValid(block);

	return block;
}
#endif

/*
 * Read the blocks of a relation's main fork that next_block() names, until it
 * gives InvalidBlockNumber. Memory belongs to the current context.
 */
PageReader *
page_reader_begin(Relation rel, BufferAccessStrategy strategy,
				  BlockNumber (*next_block) (void *arg), void *arg)
{
	PageReader *reader = palloc0(sizeof(PageReader));

	reader->rel = rel;
	reader->strategy = strategy;
	reader->next_block = next_block;
	reader->arg = arg;
#if PG_VERSION_NUM >= 170000
	{
		int			flags = READ_STREAM_SEQUENTIAL;

#if PG_VERSION_NUM >= 180000
		/* next_block() takes no lock that is held while waiting for I/O */
		flags |= READ_STREAM_USE_BATCHING;
#endif
		reader->stream = read_stream_begin_relation(flags, strategy, rel, MAIN_FORKNUM,
													stream_next_block, reader, 0);
	}
#endif

	return reader;
}

/* Pin a buffer if it holds a block and PostgreSQL would not raise its usage count, else return false. */
static bool
pin_guess(PageReader *reader, BlockNumber block, Buffer guess)
{
	BufferDesc *buffer = GetBufferDescriptor(guess - 1);
	BufferTag	tag;
	uint64		state;

	/* without its lock: ReadRecentBuffer() looks again */
	init_buffer_tag(&tag, &reader->rel->rd_locator, MAIN_FORKNUM, block);
	state = read_buffer_state(buffer);
	if ((state & BM_VALID) == 0 || !buffer_tags_equal(&tag, &buffer->tag) ||
		BUF_STATE_GET_USAGECOUNT(state) < (reader->strategy != NULL ? 1 : BM_MAX_USAGE_COUNT))
		return false;
	if (!ReadRecentBuffer(reader->rel->rd_locator, MAIN_FORKNUM, block, guess))
		return false;
	/* what ReadBuffer() counts and this does not */
	count_buffer_hit(reader->rel, reader->strategy);

	return true;
}

/* Make a distance the first of those remembered; `place` is where it was found, or how many there are. */
static void
remember_distance(PageReader *reader, int64 distance, int place)
{
	if (place == reader->ndistances)
	{
		if (place < DISTANCES)
			reader->ndistances++;
		else
			place--;
	}
	for (; place > 0; place--)
		reader->distances[place] = reader->distances[place - 1];
	reader->distances[0] = distance;
}

/*
 * Have the processor fetch what a guess, and who collects rows, will look at of
 * a page that will be asked for soon. If the page is elsewhere that is no harm.
 */
static void
fetch_soon(int64 guess, int lines)
{
	const char *page;

	if (guess < 1 || guess > NBuffers)
		return;
	__builtin_prefetch(GetBufferDescriptor(guess - 1), 1);
	page = (const char *) BufferGetPage((Buffer) guess);
	for (int offset = 0; offset < SizeOfPageHeaderData + lines * (int) sizeof(ItemIdData); offset += CACHE_LINE)
		__builtin_prefetch(page + offset);
}

/* Pin the buffer of a block if it is where it is expected, else return InvalidBuffer. */
static Buffer
read_guessed(PageReader *reader, BlockNumber block, int lines)
{
	for (int i = 0; i < reader->ndistances; i++)
	{
		int64		distance = reader->distances[i];
		int64		guess = (int64) block + distance;

		if (guess >= 1 && guess <= NBuffers && pin_guess(reader, block, (Buffer) guess))
		{
			remember_distance(reader, distance, i);
			fetch_soon(guess + (lines > FEW_ROWS ? SOON_OF_MANY : SOON), lines);
			return (Buffer) guess;
		}
	}

	return InvalidBuffer;
}

/* Remember where a block was that PostgreSQL has found. */
static Buffer
remember(PageReader *reader, Buffer buffer)
{
	if (BufferIsValid(buffer) && !BufferIsLocal(buffer))
	{
		int64		distance = (int64) buffer - (int64) BufferGetBlockNumber(buffer);
		int			place = 0;

		while (place < reader->ndistances && reader->distances[place] != distance)
			place++;
		remember_distance(reader, distance, place);
	}

	return buffer;
}

/*
 * The next page, pinned, or InvalidBuffer at the end. Pages are expected to
 * have `lines` line pointers.
 */
Buffer
page_reader_next(PageReader *reader, int lines)
{
	BlockNumber block;
	Buffer		buffer;

#if PG_VERSION_NUM >= 170000
	if (reader->streaming)
	{
		buffer = read_stream_next_buffer(reader->stream, NULL);
		if (BufferIsValid(buffer))
			return remember(reader, buffer);
		if (reader->exhausted)
			return InvalidBuffer;
		read_stream_reset(reader->stream);
		reader->streaming = false;
		reader->cached = pgBufferUsage.shared_blks_read == reader->read;
		reader->guessed = 0;
	}
#endif
	block = reader->next_block(reader->arg);
	if (!BlockNumberIsValid(block))
	{
#if PG_VERSION_NUM >= 170000
		reader->exhausted = true;
#endif
		return InvalidBuffer;
	}
	buffer = read_guessed(reader, block, lines);
#if PG_VERSION_NUM >= 170000
	if (BufferIsValid(buffer))
	{
		reader->guessed++;
		return buffer;
	}
	reader->run = reader->cached && reader->guessed >= MIN_GUESSED ? 0 :
		Min(Max(2 * reader->run, MIN_RUN), MAX_RUN);
	reader->read = pgBufferUsage.shared_blks_read;
	reader->first = block;
	reader->left = reader->run;
	reader->streaming = true;
	buffer = read_stream_next_buffer(reader->stream, NULL);
#else
	if (BufferIsValid(buffer))
		return buffer;
	buffer = ReadBufferExtended(reader->rel, MAIN_FORKNUM, block, RBM_NORMAL, reader->strategy);
#endif

	return remember(reader, buffer);
}

/* next_block() has more to give, or another: forget what was read ahead. Can follow any call. */
void
page_reader_again(PageReader *reader)
{
#if PG_VERSION_NUM >= 170000
	read_stream_reset(reader->stream);
	reader->streaming = reader->exhausted = false;
	reader->first = InvalidBlockNumber;
	reader->left = 0;
#endif
}

void
page_reader_end(PageReader *reader)
{
#if PG_VERSION_NUM >= 170000
	read_stream_end(reader->stream);
#endif
	pfree(reader);
}

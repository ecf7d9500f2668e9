/*-------------------------------------------------------------------------
 *
 * pages.c
 *	  The pages that a scan asks for, pinned one after the other.
 *
 * Looking a page up in the buffer table waits for memory three times, longer
 * than the simplest queries work on its rows. Neighbouring blocks are mostly
 * in neighbouring buffers, since they were loaded one after the other. So the
 * place of a block is guessed from that of the last one, and only what is not
 * found there is read in core's ways: by a read stream where the server has
 * them, which looks ahead, else by ReadBuffer().
 *
 * A guess is made where core would leave the buffer's usage count alone, so
 * that tables which are only read by us stay in the cache as well as others.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "pgstat.h"
#include "storage/buf_internals.h"
#include "storage/bufmgr.h"
#if PG_VERSION_NUM >= 170000
#include "storage/read_stream.h"
#endif
#include "utils/rel.h"

#include "vector/vector.h"

/* A stream is begun for so many blocks at least, and for twice as many each time that guessing did not pay. */
#define MIN_RUN 16
#define MAX_RUN (1 << 20)

struct PageReader
{
	Relation	rel;
	BufferAccessStrategy strategy;
	BlockNumber (*next_block) (void *arg);
	void	   *arg;
	Buffer		last;			/* the last one handed out, no longer pinned perhaps */
	BlockNumber last_block;
#if PG_VERSION_NUM >= 170000
	ReadStream *stream;
	bool		streaming;
	bool		exhausted;		/* next_block() has given all */
	BlockNumber first;			/* what the stream is to begin with */
	int			left;			/* blocks that it may go on with */
	int			run;			/* how many it gets */
	int			guessed;		/* pages in a row that were where they were expected */
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
	reader->last = InvalidBuffer;
#if PG_VERSION_NUM >= 170000
	{
		int			flags = READ_STREAM_SEQUENTIAL;

#if PG_VERSION_NUM >= 180000
		/* next_block() takes no lock that is held while waiting for I/O */
		flags |= READ_STREAM_USE_BATCHING;
#endif
		reader->stream = read_stream_begin_relation(flags, strategy, rel, MAIN_FORKNUM,
													stream_next_block, reader, 0);
		reader->run = MIN_RUN;
	}
#endif

	return reader;
}

/* Pin the buffer of a block if it is where it is expected, else return InvalidBuffer. */
static Buffer
read_guessed(PageReader *reader, BlockNumber block)
{
	int64		guess = (int64) reader->last + (int64) block - (int64) reader->last_block;
	BufferDesc *buffer;
	BufferTag	tag;
	uint32		state;

	if (!BufferIsValid(reader->last) || BufferIsLocal(reader->last) || guess < 1 || guess > NBuffers)
		return InvalidBuffer;
	/* without its lock: ReadRecentBuffer() looks again */
	buffer = GetBufferDescriptor(guess - 1);
	init_buffer_tag(&tag, &reader->rel->rd_locator, MAIN_FORKNUM, block);
	state = pg_atomic_read_u32(&buffer->state);
	if ((state & BM_VALID) == 0 || !buffer_tags_equal(&tag, &buffer->tag) ||
		BUF_STATE_GET_USAGECOUNT(state) < (reader->strategy != NULL ? 1 : BM_MAX_USAGE_COUNT))
		return InvalidBuffer;
	if (!ReadRecentBuffer(reader->rel->rd_locator, MAIN_FORKNUM, block, (Buffer) guess))
		return InvalidBuffer;
	/* what ReadBuffer() counts and this does not */
	count_buffer_hit(reader->rel, reader->strategy);

	return (Buffer) guess;
}

/* The next page but for what the caller remembers of it. */
static Buffer
read_next(PageReader *reader)
{
	BlockNumber block;
	Buffer		buffer;

#if PG_VERSION_NUM >= 170000
	if (reader->streaming)
	{
		buffer = read_stream_next_buffer(reader->stream, NULL);
		if (BufferIsValid(buffer))
			return buffer;
		if (reader->exhausted)
			return InvalidBuffer;
		read_stream_reset(reader->stream);
		reader->streaming = false;
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
	buffer = read_guessed(reader, block);
#if PG_VERSION_NUM >= 170000
	if (BufferIsValid(buffer))
	{
		reader->guessed++;
		return buffer;
	}
	reader->run = reader->guessed >= reader->run ? MIN_RUN : Min(2 * reader->run, MAX_RUN);
	reader->first = block;
	reader->left = reader->run;
	reader->streaming = true;
	return read_stream_next_buffer(reader->stream, NULL);
#else
	return BufferIsValid(buffer) ? buffer :
		ReadBufferExtended(reader->rel, MAIN_FORKNUM, block, RBM_NORMAL, reader->strategy);
#endif
}

/* The next page, pinned, or InvalidBuffer at the end. */
Buffer
page_reader_next(PageReader *reader)
{
	Buffer		buffer = read_next(reader);

	if (BufferIsValid(buffer))
	{
		reader->last = buffer;
		reader->last_block = BufferGetBlockNumber(buffer);
	}

	return buffer;
}

void
page_reader_end(PageReader *reader)
{
#if PG_VERSION_NUM >= 170000
	read_stream_end(reader->stream);
#endif
	pfree(reader);
}

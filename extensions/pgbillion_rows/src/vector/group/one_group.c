/*-------------------------------------------------------------------------
 *
 * one_group.c
 *	  The sink without GROUP BY: one row of partial states, whatever was read.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "vector/aggregate/aggregate.h"
#include "vector/group/distinct.h"
#include "vector/group/sink.h"

typedef struct OneGroup
{
	Sink		sink;
	int			noutputs;
	Aggregates *aggregates;
	Distincts  *distincts;		/* or NULL */
	char	   *entry;
	StateMemory memory;
	bool		pending;		/* the row is still to be returned */
} OneGroup;

static bool
consume(Sink *sink, Batch *batch)
{
	OneGroup   *one = (OneGroup *) sink;
	RowGroups	groups;

	group_rows_init(&groups, one->entry, NULL);
	aggregates_advance(one->aggregates, batch, &groups);
	distincts_advance(one->distincts, batch, &groups);

	return false;
}

static void
finish(Sink *sink)
{
	OneGroup   *one = (OneGroup *) sink;

	distincts_finish(one->distincts, one->entry, &sink->spilled_partitions, &sink->spilled_bytes);
	aggregates_finish(one->aggregates, &sink->spilled_partitions, &sink->spilled_bytes);
	one->pending = true;
}

static bool
next(Sink *sink, Datum *values, bool *isnull)
{
	OneGroup   *one = (OneGroup *) sink;

	if (!one->pending)
		return false;
	for (int i = 0; i < one->noutputs; i++)
		values[i] = aggregates_output(one->aggregates, i, one->entry, &isnull[i]);
	one->pending = false;

	return true;
}

static void
reset(Sink *sink)
{
	OneGroup   *one = (OneGroup *) sink;

	MemoryContextReset(one->memory.context);
	memset(one->entry, 0, one->aggregates->size);
	aggregates_init(one->aggregates, one->entry);
	distincts_forget(one->distincts);
	aggregates_forget(one->aggregates);
	one->pending = false;
}

static void
end(Sink *sink)
{
}

/* There is one group, which is always final. */
static void
keep_final(Sink *sink, double expected)
{
}

static bool
rewind_to_first(Sink *sink)
{
	((OneGroup *) sink)->pending = true;
	return true;
}

static int64
count(Sink *sink)
{
	return 1;
}

static const SinkMethods one_group_methods = {
	.consume = consume,
	.finish = finish,
	.next = next,
	.reset = reset,
	.end = end,
	.keep_final = keep_final,
	.rewind = rewind_to_first,
	.count = count,
};

/* All outputs are aggregates. Memory belongs to the current context. */
Sink *
one_group_create(List *outputs, Batch *batch, bool apart)
{
	OneGroup   *one = palloc0(sizeof(OneGroup));

	one->sink.methods = &one_group_methods;
	one->noutputs = list_length(outputs);
	one->aggregates = aggregates_compile(outputs, batch, 0, &one->memory, apart);
	one->sink.states = one->aggregates;
	one->sink.aggregates = one->noutputs;
	one->sink.kernel_aggregates = aggregates_kernels(one->aggregates, one->noutputs);
	one->distincts = distincts_create(one->aggregates, outputs, batch, false);
	one->memory.context = AllocSetContextCreate(CurrentMemoryContext, "pgbillion aggregate",
												ALLOCSET_DEFAULT_SIZES);
	one->entry = palloc(Max(one->aggregates->size, 1));
	aggregates_begin(one->aggregates, one->entry);
	reset(&one->sink);

	return &one->sink;
}

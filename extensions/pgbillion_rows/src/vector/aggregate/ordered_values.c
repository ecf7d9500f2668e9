/*-------------------------------------------------------------------------
 *
 * ordered_values.c
 *	  The values of groups, kept for ordered-set aggregates.
 *
 * ordered_set.c describes them.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "executor/executor.h"
#include "miscadmin.h"
#include "utils/float.h"
#include "utils/fmgrprotos.h"
#include "utils/memutils.h"
#include "utils/numeric.h"

#include "vector/aggregate/order_statistics.h"
#include "vector/aggregate/ordered_values.h"
#include "vector/expression/decimal.h"

/* Numbers of values of a group's first chunk, and of its largest ones. */
#define FIRST_CHUNK 4
#define LARGEST_CHUNK 8192

/* Of numerics, what NaN is: no other value is as great. */
#define NAN_KEY PG_UINT64_MAX

/* Bytes of the first block of chunks, and of the largest ones. */
#define FIRST_BLOCK (8 * 1024)
#define LARGEST_BLOCK (1024 * 1024)

/* The value of a key, in the current context. */
Datum
ordered_value_of_key(const OrderedValues *values, uint64 key)
{
	int64		integer = (int64) (key ^ ORDERED_SIGN);

	switch (values->type)
	{
		case INT2OID:
			return Int16GetDatum((int16) integer);
		case INT4OID:
		case DATEOID:
			return Int32GetDatum((int32) integer);
		case FLOAT4OID:
			return Float4GetDatum((float4) float_of_key(key));
		case FLOAT8OID:
			return Float8GetDatum(float_of_key(key));
		case NUMERICOID:
			if (key == NAN_KEY)
				return DirectFunctionCall3(numeric_in, CStringGetDatum("NaN"), ObjectIdGetDatum(InvalidOid),
										   Int32GetDatum(-1));
			return NumericGetDatum(int64_div_fast_to_numeric(integer, values->scale));
		default:
			return Int64GetDatum(integer);
	}
}

/* The keys of a group that are in memory, in the order in which its rows came. */
void
ordered_values_gather(const ValuesState *state, uint64 *keys, int64 n)
{
	for (ValueChunk *chunk = state->last; chunk != NULL; chunk = chunk->before)
	{
		memcpy(keys + chunk->n, chunk->keys, sizeof(uint64) * (n - chunk->n));
		n = chunk->n;
	}
	Assert(n == 0);
}

/* The values in memory are elsewhere now, or of no use: have room for others. */
static void
forget_chunks(OrderedValues *values)
{
	MemoryContextReset(values->context);
	values->first_block = values->block = NULL;
	values->bytes = 0;
	values->longest = 0;
}

static inline void
forget_chunks_of(ValuesState *state)
{
	state->last = NULL;
	state->next = state->end = NULL;
}

static int
compare_states(const void *a, const void *b)
{
	const ValuesState *x = *(ValuesState *const *) a;
	const ValuesState *y = *(ValuesState *const *) b;

	return x < y ? -1 : x > y;
}

/* The states that have values in memory, by their addresses, allocated in the current context. */
static ValuesState **
list_states(OrderedValues *values, int64 *n)
{
	int			offset = values->agg->offset;
	int64		room = 64;
	ValuesState **states = palloc(sizeof(ValuesState *) * room);

	*n = 0;
	for (ValueBlock *block = values->first_block; block != NULL; block = block->next)
	{
		for (Size place = sizeof(ValueBlock); place < block->used;)
		{
			ValueChunk *chunk = (ValueChunk *) ((char *) block + place);
			ValuesState *state = (ValuesState *) (chunk->entry + offset);

			if (state->last == chunk)
			{
				if (*n == room)
				{
					room *= 2;
					states = repalloc_huge(states, sizeof(ValuesState *) * room);
				}
				states[(*n)++] = state;
			}
			place += size_of_chunk(chunk->room);
		}
	}
	qsort(states, *n, sizeof(ValuesState *), compare_states);
	return states;
}

/* Write the values in memory, of which there is at least one, to a run. */
void
ordered_values_write_run(OrderedValues *values)
{
	MemoryContext old = MemoryContextSwitchTo(values->runs_context);
	int64		n;
	ValuesState **states = list_states(values, &n);
	uint64	   *keys = palloc_extended(sizeof(uint64) * values->longest, MCXT_ALLOC_HUGE);

	if (values->runs == NULL)
		values->runs = ordered_runs_create(values->limit);
	ordered_runs_begin(values->runs);
	for (int64 i = 0; i < n; i++)
	{
		ValuesState *state = states[i];
		int64		count = count_in_memory(state);

		CHECK_FOR_INTERRUPTS();
		ordered_values_gather(state, keys, count);
		order_sort(keys, count);
		ordered_runs_write(values->runs, (char *) state - values->agg->offset, keys, count);
		state->written += count;
		forget_chunks_of(state);
	}
	pfree(keys);
	pfree(states);
	MemoryContextSwitchTo(old);
	forget_chunks(values);
}

/* How many bytes a block must have for a chunk; 0: there is room for it. */
static Size
new_block(const OrderedValues *values, Size chunk)
{
	Size		wanted;

	if (values->block != NULL && values->block->size - values->block->used >= chunk)
		return 0;
	wanted = values->block == NULL ? FIRST_BLOCK : Min(2 * values->block->size, LARGEST_BLOCK);
	return Max(Min(wanted, values->limit / 16), sizeof(ValueBlock) + chunk);
}

/* How many values the next chunk of a group is for. */
static int64
next_room(const ValuesState *state)
{
	return Min(Max(count_in_memory(state), FIRST_CHUNK), LARGEST_CHUNK);
}

/* Have room for further values of a group, in a chunk; if there is no memory for it, after writing a run. */
static void
add_chunk(OrderedValues *values, ValuesState *state, char *entry)
{
	int64		n = count_in_memory(state);
	int64		room = next_room(state);
	int64		longest = Max(values->longest, n + room);
	Size		wanted = new_block(values, size_of_chunk(room));
	Size		size;
	ValueChunk *chunk;

	/* values of a group are copied to be looked at */
	if (values->first_block != NULL && values->bytes + wanted + sizeof(uint64) * longest > values->limit)
	{
		ordered_values_write_run(values);
		n = 0;
		longest = room = next_room(state);
		wanted = new_block(values, size_of_chunk(room));
	}
	size = size_of_chunk(room);
	values->longest = longest;
	if (wanted > 0)
	{
		ValueBlock *block = MemoryContextAlloc(values->context, wanted);

		block->next = NULL;
		block->used = sizeof(ValueBlock);
		block->size = wanted;
		if (values->block == NULL)
			values->first_block = block;
		else
			values->block->next = block;
		values->block = block;
		values->bytes += wanted;
	}
	chunk = (ValueChunk *) ((char *) values->block + values->block->used);
	values->block->used += size;
	chunk->before = state->last;
	chunk->entry = entry;
	chunk->n = n;
	chunk->room = room;
	state->last = chunk;
	state->next = chunk->keys;
	state->end = chunk->keys + room;
}

/* Add values to their groups: KEY is that of row i. */
#define ADD_KEYS(KEY) \
	do { \
		for (int i = 0; i < n; i++) \
		{ \
			char	   *entry; \
			ValuesState *state; \
			uint64		key; \
			if (has_nulls && nulls[i]) \
				continue; \
			entry = entries == NULL ? groups->single : entries[i]; \
			state = (ValuesState *) (entry + agg->offset); \
			key = KEY; \
			if (unlikely(state->next == state->end)) \
				add_chunk(values, state, entry); \
			*state->next++ = key; \
		} \
	} while (0)

/* Take note of floats that others can be equal to. */
static inline uint64
key_of_float(OrderedValues *values, float8 value)
{
	uint64		bits = bits_of_float(value);

	values->zero |= bits == 0;
	values->minus_zero |= bits == ORDERED_SIGN;
	if (unlikely(isnan(value)))
		values->other_nan |= bits != bits_of_float(get_float8_nan());
	return key_of_bits(bits);
}

void
ordered_values_collect(VectorAgg *agg, const Values *argument, int n, RowGroups *groups)
{
	OrderedValues *values = agg->own;
	char	  **entries = groups->single != NULL ? NULL : group_entries(groups, n);
	const Datum *v = argument->values;
	const bool *nulls = argument->nulls;
	bool		has_nulls = argument->has_nulls;

	values->current = NULL;
	switch (values->type)
	{
		case INT2OID:
			ADD_KEYS(key_of_integer(DatumGetInt16(v[i])));
			break;
		case INT4OID:
		case DATEOID:
			ADD_KEYS(key_of_integer(DatumGetInt32(v[i])));
			break;
		case FLOAT4OID:
			ADD_KEYS(key_of_float(values, (float8) DatumGetFloat4(v[i])));
			break;
		case FLOAT8OID:
			ADD_KEYS(key_of_float(values, DatumGetFloat8(v[i])));
			break;
		default:
			ADD_KEYS(key_of_integer(DatumGetInt64(v[i])));
			break;
	}
}

/* The key of a numeric of the column. */
static uint64
key_of_numeric(const OrderedValues *values, Datum value)
{
	int64 decimal;
	int			scale;

	value = PointerGetDatum(PG_DETOAST_DATUM_PACKED(value));
	if (decimal_decode(value, &decimal, &scale) && scale == values->scale)
		return key_of_integer(decimal);

	/*
	 * a row from elsewhere may have been stored without its values' scale
	 * being checked
	 */
	if (!numeric_is_nan(DatumGetNumeric(value)))
		ereport(ERROR,
				(errcode(ERRCODE_DATA_EXCEPTION),
				 errmsg("a value does not have the precision and scale of its column"),
				 errhint("ALTER TABLE can rewrite the column's values with ALTER COLUMN TYPE. While pgbillion_rows.vector_aggregate is off, they are taken as they are.")));
	return NAN_KEY;
}

/* The same for numerics: advance_batch() of the kind. */
void
ordered_values_collect_decimals(VectorAgg *agg, Batch *batch, const uint16 *rows, int n, RowGroups *groups)
{
	OrderedValues *values = agg->own;
	char	  **entries = groups->single != NULL ? NULL : group_entries(groups, n);
	Decimals	decimals;

	values->current = NULL;
	if (vector_expr_decimals(agg->argument, batch, rows, n, &decimals) && decimals.scale == values->scale)
	{
		const bool *nulls = decimals.nulls;
		bool		has_nulls = decimals.has_nulls;

		ADD_KEYS(key_of_integer(decimals.values[i]));
	}
	else
	{
		Values		argument;
		const bool *nulls;
		bool		has_nulls;

		vector_expr_eval(agg->argument, batch, rows, n, &argument);
		nulls = argument.nulls;
		has_nulls = argument.has_nulls;
		ADD_KEYS(key_of_numeric(values, argument.values[i]));
	}
}

/* Forget all values; the next are those of new groups. */
void
ordered_values_forget(VectorAgg *collector)
{
	OrderedValues *values = collector->own;

	/* a source that has begun to be consumed is consumed to its end */
	Assert(values->runs == NULL);
	values->current = NULL;
	forget_chunks(values);
	MemoryContextReset(values->result_context);
	values->zero = values->minus_zero = values->other_nan = false;
}

/*-------------------------------------------------------------------------
 *
 * segment_values.c
 *	  Values of a batch that is from a columnar index.
 *
 * A column is loaded for all rows of the batch, its window, as an array in the
 * form in which the index has it. What is wanted is made of that for the rows
 * that are left: Datums, numbers, codes. Only loading can fail.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "utils/float.h"
#include "utils/numeric.h"

#include "vector/source/segments.h"

/* Zeros, as an array of any elements and codes. */
static const char zeros[BATCH_ROWS * sizeof(uint64)] __attribute__((aligned(64)));

/* Two to that power is how many numerics are remembered while a batch's are made. */
#define MADE_BITS 8

/* A value of variable length, without an alignment. */
static const char empty_string[] = {0x03};

/* ---- loading ---- */

/* Does anybody ask more of a column than whether it is NULL, or is that not known? */
bool
segment_needs_values(const SegmentSource *source, const Batch *batch, int index)
{
	const ColumnState *state = &source->segment->columns[index];

	return !batch->columns[index].only_counted || state->has_nulls || state->kind == COLUMN_ALL_NULL;
}

/* Load a column for the whole window; false if the segment was replaced. */
bool
segment_load_window(SegmentSource *source, int index)
{
	SegmentColumn *column = &source->columns[index];
	const ColumnState *state = &source->segment->columns[index];
	ColumnRun	run;

	if (state->kind == COLUMN_DATUMS)
	{
		bool		has_nulls;

		if (column->datums == NULL)
		{
			column->datums = MemoryContextAlloc(source->context, sizeof(Datum) * BATCH_ROWS);
			column->datum_nulls = MemoryContextAlloc(source->context, sizeof(bool) * BATCH_ROWS);
		}
		/* rows that are not kept now are not kept later */
		if (!column_reader_decode(source->reader, index, source->first_row, source->nrows,
								  source->selected ? source->rows : NULL, source->nleft,
								  column->datums, column->datum_nulls, &has_nulls))
			return false;
		column->nulls = has_nulls ? column->datum_nulls : NULL;
		column->array = NULL;
		return true;
	}
	if ((state->kind == COLUMN_CODES || state->kind == COLUMN_CONSTANT) && column->dictionary == NULL)
	{
		column->dictionary = column_reader_dictionary(source->reader, index);
		if (column->dictionary == NULL)
			return false;
	}
	if (!column_reader_load(source->reader, index, source->first_row, source->nrows, &run))
		return false;
	column->array = run.array;
	column->nulls = run.nulls;

	return true;
}

/* Load only which rows of the window have NULL in a column; false if the segment was replaced. */
bool
segment_load_nulls(SegmentSource *source, int index)
{
	SegmentColumn *column = &source->columns[index];

	return column_reader_nulls(source->reader, index, source->first_row, source->nrows, &column->nulls);
}

/* ---- Datums ---- */

/* The row of the window that a row of the batch is. */
static inline int
window_row(const SegmentSource *source, int row)
{
	return source->selected ? source->rows[row] : row;
}

/* Fill a column's values with what VALUE says of each row, by its number in the window. */
#define FILL(VALUE) \
	do { \
		const uint16 *rows = source->rows; \
		if (source->selected) \
			for (int i = 0; i < n; i++) { int row = rows[i]; (void) row; values[i] = (VALUE); } \
		else \
			for (int row = 0; row < n; row++) values[row] = (VALUE); \
	} while (0)

#define FILL_INTEGERS(type, get) \
	FILL(get(base + ((const type *) array)[row]))

#define FILL_WIDTHS(get) \
	do { \
		switch (state->width) \
		{ \
			case 1: FILL_INTEGERS(uint8, get); break; \
			case 2: FILL_INTEGERS(uint16, get); break; \
			case 4: FILL_INTEGERS(uint32, get); break; \
			default: FILL_INTEGERS(uint64, get); break; \
		} \
	} while (0)

#define LEN1(v) CharGetDatum((char) (v))
#define LEN2(v) Int16GetDatum((int16) (v))
#define LEN4(v) Int32GetDatum((int32) (v))
#define LEN8(v) Int64GetDatum((int64) (v))

static void
fill_integers(const SegmentSource *source, const ColumnState *state, const char *array, int len, int n,
			  Datum *values)
{
	uint64		base = (uint64) state->base;

	switch (len)
	{
		case 1:
			FILL_WIDTHS(LEN1);
			break;
		case 2:
			FILL_WIDTHS(LEN2);
			break;
		case 4:
			FILL_WIDTHS(LEN4);
			break;
		default:
			FILL_WIDTHS(LEN8);
			break;
	}
}

/* A numeric that was made for a row before; value 0: there is none. */
typedef struct MadeNumeric
{
	uint64		element;
	Datum		value;
} MadeNumeric;

/*
 * Numerics, allocated in the batch's memory; of rows that are not NULL. Most
 * columns repeat prices, rates and the like, and rows with the same element
 * share one.
 */
static void
fill_decimals(const SegmentSource *source, const SegmentColumn *column, const ColumnState *state, int n,
			  Datum *values)
{
	MadeNumeric made[1 << MADE_BITS];

	memset(made, 0, sizeof(made));
	for (int i = 0; i < n; i++)
	{
		int			row = window_row(source, i);
		uint64		element;
		MadeNumeric *slot;

		if (column->nulls != NULL && column->nulls[row])
		{
			values[i] = (Datum) 0;
			continue;
		}
		element = column_element(column->array, state->width, row);
		/* the high bits of a product by 2^64 / golden ratio */
		slot = &made[element * UINT64CONST(0x9E3779B97F4A7C15) >> (64 - MADE_BITS)];
		if (slot->value == (Datum) 0 || slot->element != element)
		{
			slot->element = element;
			slot->value = NumericGetDatum(int64_div_fast_to_numeric((int64) ((uint64) state->base + element),
																	state->scale));
		}
		values[i] = slot->value;
	}
}

/* The NULLs of the rows that are left; false if there is none. */
static bool
fill_nulls(const SegmentSource *source, const SegmentColumn *column, int n, Column *to)
{
	bool		found = false;

	if (column->nulls == NULL)
		return false;
	for (int i = 0; i < n; i++)
	{
		to->nulls[i] = column->nulls[window_row(source, i)];
		found |= to->nulls[i];
		if (to->nulls[i])
			to->values[i] = (Datum) 0;
	}
	to->dirty = true;
	return found;
}

/* Find which of the rows that are left have NULL in a column; false if it is not known. */
bool
segment_find_nulls(const SegmentSource *source, const Batch *batch, int index, bool *nulls)
{
	const SegmentColumn *column = &source->columns[index];
	const ColumnState *state = &source->segment->columns[index];

	if (state->kind == COLUMN_ALL_NULL)
		memset(nulls, true, sizeof(bool) * batch->n);
	else if (!state->has_nulls)
		memset(nulls, false, sizeof(bool) * batch->n);
	else if (!column->prepared && !column->nulls_prepared)
		return false;
	else if (column->nulls == NULL)
		memset(nulls, false, sizeof(bool) * batch->n);
	else
	{
		for (int i = 0; i < batch->n; i++)
			nulls[i] = column->nulls[window_row(source, i)];
	}
	return true;
}

/* Fill in the values of a column, for the rows that are in the batch now. */
void
segment_load(SegmentSource *source, Batch *batch, int index)
{
	SegmentColumn *column = &source->columns[index];
	const ColumnState *state = &source->segment->columns[index];
	Column	   *to = &batch->columns[index];
	Datum	   *values = to->values;
	int			n = batch->n;
	const char *array = column->array;
	const Datum *dictionary = column->dictionary;
	MemoryContext old;

	if (to->dirty)
		memset(to->nulls, 0, sizeof(bool) * BATCH_ROWS);
	to->dirty = to->has_nulls = false;
	if (!column->prepared)
	{
		/*
		 * rows are spilled with any value, of which they know only that it is
		 * none
		 */
		Assert(!segment_needs_values(source, batch, index));
		for (int i = 0; i < n; i++)
			values[i] = to->byval ? (Datum) 0 : PointerGetDatum(empty_string);
		to->loaded = true;
		return;
	}
	switch (state->kind)
	{
		case COLUMN_ABSENT:
			Assert(false);
			break;
		case COLUMN_ALL_NULL:
			memset(values, 0, sizeof(Datum) * n);
			memset(to->nulls, true, sizeof(bool) * n);
			to->dirty = to->has_nulls = true;
			break;
		case COLUMN_CONSTANT:
			FILL(dictionary[0]);
			break;
		case COLUMN_CODES:
			if (state->width == 1)
				FILL(dictionary[((const uint8 *) array)[row]]);
			else
				FILL(dictionary[((const uint16 *) array)[row]]);
			break;
		case COLUMN_INTEGERS:
			fill_integers(source, state, array, to->len, n, values);
			break;
		case COLUMN_DECIMALS:
			old = MemoryContextSwitchTo(batch->econtext->ecxt_per_tuple_memory);
			fill_decimals(source, column, state, n, values);
			MemoryContextSwitchTo(old);
			break;
		case COLUMN_FLOAT4:
			FILL(Float4GetDatum(((const float4 *) array)[row]));
			break;
		case COLUMN_FLOAT8:
			FILL(Float8GetDatum(((const float8 *) array)[row]));
			break;
		case COLUMN_DATUMS:
			FILL(column->datums[row]);
			break;
	}
	if (state->kind != COLUMN_ALL_NULL)
		to->has_nulls = fill_nulls(source, column, n, to);
	to->loaded = true;
}

/* ---- arrays ---- */

/* The elements of the rows that are left. */
static const void *
kept_elements(SegmentSource *source, SegmentColumn *column, int width, int n)
{
	if (!source->selected)
		return column->array;
	if (column->is_kept)
		return column->kept;
	if (column->kept == NULL)
		column->kept = MemoryContextAlloc(source->context, sizeof(uint64) * BATCH_ROWS);
#define KEEP(type) \
	for (int i = 0; i < n; i++) \
		((type *) column->kept)[i] = ((const type *) column->array)[source->rows[i]]

	switch (width)
	{
		case 1:
			KEEP(uint8);
			break;
		case 2:
			KEEP(uint16);
			break;
		case 4:
			KEEP(uint32);
			break;
		default:
			KEEP(uint64);
			break;
	}
	column->is_kept = true;

	return column->kept;
}

/* Which of the rows that are left are NULL; NULL: none is. */
static const bool *
kept_nulls(SegmentSource *source, SegmentColumn *column, int n)
{
	if (column->nulls == NULL || !source->selected)
		return column->nulls;
	if (column->kept_nulls == NULL)
		column->kept_nulls = MemoryContextAlloc(source->context, sizeof(bool) * BATCH_ROWS);
	if (!column->has_kept_nulls)
	{
		for (int i = 0; i < n; i++)
			column->kept_nulls[i] = column->nulls[source->rows[i]];
	}
	column->has_kept_nulls = true;

	return column->kept_nulls;
}

/* Are the integers of a type those that int_of() of the filter knows it by? */
static bool
is_ordered_integer(Oid type)
{
	switch (type)
	{
		case INT2OID:
		case INT4OID:
		case INT8OID:
		case BOOLOID:
		case DATEOID:
		case TIMEOID:
		case TIMESTAMPOID:
		case TIMESTAMPTZOID:
			return true;
		default:
			return false;
	}
}

/* Can the array hold all that lies between the bounds, above the base? */
static bool
is_within(const Packed *packed)
{
	uint64		most = packed->width == sizeof(uint64) ? PG_UINT64_MAX :
		(UINT64CONST(1) << (packed->width * BITS_PER_BYTE)) - 1;

	return packed->base <= packed->min && packed->min <= packed->max &&
		(uint64) packed->max - (uint64) packed->base <= most;
}

/* A column as an array of numbers, if it is one; the rows that are left are prepared. */
bool
segment_packed(SegmentSource *source, Batch *batch, int index, bool with_nulls, Packed *result)
{
	SegmentColumn *column = &source->columns[index];
	const ColumnState *state = &source->segment->columns[index];
	Oid			type = batch->columns[index].type;

	Assert(column->prepared);
	if (column->nulls != NULL && !with_nulls)
		return false;
	result->nulls = kept_nulls(source, column, batch->n);
	result->width = state->width;
	result->base = state->base;
	result->scale = -1;
	result->min = state->min;
	result->max = state->max;
	result->no_nan = state->order == COLUMN_ORDER_FLOAT;
	switch (state->kind)
	{
		case COLUMN_FLOAT4:
			result->kind = PACKED_FLOAT4;
			result->array = kept_elements(source, column, sizeof(float4), batch->n);
			return true;
		case COLUMN_CONSTANT:
			if (state->order != COLUMN_ORDER_INTEGER || !is_ordered_integer(type))
				return false;
			result->kind = PACKED_INTEGERS;
			result->array = zeros;
			result->width = 1;
			result->base = state->min;
			return is_within(result);
		case COLUMN_INTEGERS:
			if (!is_ordered_integer(type))
				return false;
			result->kind = PACKED_INTEGERS;
			break;
		case COLUMN_DECIMALS:
			Assert(type == NUMERICOID);
			result->kind = PACKED_DECIMALS;
			result->scale = state->scale;
			break;
		default:
			return false;
	}
	if (state->order != COLUMN_ORDER_INTEGER || !is_within(result))
		return false;
	result->array = kept_elements(source, column, state->width, batch->n);

	return true;
}

/* What is known of a column in all of the segment. */
bool
segment_bounds(SegmentSource *source, Batch *batch, int index, Bounds *result)
{
	const ColumnState *state = &source->segment->columns[index];
	Oid			type = batch->columns[index].type;

	result->floats = state->order == COLUMN_ORDER_FLOAT;
	result->scale = state->kind == COLUMN_DECIMALS ? state->scale : -1;
	result->min = state->min;
	result->max = state->max;
	result->float_min = state->float_min;
	result->float_max = state->float_max;
	switch (state->order)
	{
		case COLUMN_ORDER_FLOAT:
			return type == FLOAT4OID || type == FLOAT8OID;
		case COLUMN_ORDER_INTEGER:
			return state->kind == COLUMN_DECIMALS || is_ordered_integer(type);
		default:
			return false;
	}
}

/* ---- codes ---- */

/* Make codes of the rows that are left, with one for NULL. */
static void
make_codes(SegmentSource *source, SegmentColumn *column, const ColumnState *state, int n, const Codes *codes)
{
	const void *elements = column->array == NULL ? zeros : kept_elements(source, column, state->width, n);
	int			width = column->array == NULL ? 1 : state->width;
	const bool *nulls = state->kind == COLUMN_ALL_NULL ? NULL : kept_nulls(source, column, n);
	int			all = state->kind == COLUMN_ALL_NULL ? codes->null : 0;

	if (codes->n <= SHORT_CODES && column->codes == NULL)
		column->codes = MemoryContextAlloc(source->context, sizeof(uint8) * BATCH_ROWS);
	if (codes->n > SHORT_CODES && column->long_codes == NULL)
		column->long_codes = MemoryContextAlloc(source->context, sizeof(uint16) * BATCH_ROWS);
#define MAKE_CODES(to, from) \
	for (int i = 0; i < n; i++) \
		column->to[i] = nulls != NULL && nulls[i] ? codes->null : all + ((const from *) elements)[i]

	if (codes->n > SHORT_CODES && width == 2)
		MAKE_CODES(long_codes, uint16);
	else if (codes->n > SHORT_CODES)
		MAKE_CODES(long_codes, uint8);
	else if (width == 2)
		MAKE_CODES(codes, uint16);
	else
		MAKE_CODES(codes, uint8);
#undef MAKE_CODES
	column->has_codes = true;
}

/* What codes of a column mean; false if it has none. */
static bool
describe_codes(SegmentSource *source, int index, Codes *result)
{
	SegmentColumn *column = &source->columns[index];
	const ColumnState *state = &source->segment->columns[index];

	switch (state->kind)
	{
		case COLUMN_ALL_NULL:
			result->n = 0;
			result->values = NULL;
			break;
		case COLUMN_CONSTANT:
		case COLUMN_CODES:
			result->n = state->dictionary_size;
			result->values = column->dictionary;
			break;
		case COLUMN_INTEGERS:
		case COLUMN_DECIMALS:
			if (state->width != 1 || state->dictionary_size == 0)
				return false;
			/* it is made, not read: that cannot fail */
			if (column->dictionary == NULL)
				column->dictionary = column_reader_dictionary(source->reader, index);
			Assert(column->dictionary != NULL);
			result->n = state->dictionary_size;
			result->values = column->dictionary;
			break;
		default:
			return false;
	}
	result->null = -1;
	if (state->has_nulls || state->kind == COLUMN_ALL_NULL)
		result->null = result->n++;

	return result->n <= PG_UINT16_MAX + 1;
}

/* A column as codes of a dictionary, if it has one; the rows that are left are prepared. */
bool
segment_codes(SegmentSource *source, Batch *batch, int index, Codes *result)
{
	SegmentColumn *column = &source->columns[index];
	const ColumnState *state = &source->segment->columns[index];
	bool		is_short;

	Assert(column->prepared);
	if (!describe_codes(source, index, result))
		return false;
	result->serial = source->serial + index;
	result->codes = NULL;
	result->long_codes = NULL;
	is_short = result->n <= SHORT_CODES;

	/*
	 * as they are, if no row is NULL and the width is right; of a constant,
	 * zeros
	 */
	if (column->nulls == NULL && state->kind != COLUMN_ALL_NULL &&
		(column->array == NULL || state->width == (is_short ? 1 : 2)))
	{
		const void *array = column->array == NULL ? zeros :
			kept_elements(source, column, state->width, batch->n);

		if (is_short)
			result->codes = array;
		else
			result->long_codes = array;
		return true;
	}
	if (!column->has_codes)
		make_codes(source, column, state, batch->n, result);
	if (is_short)
		result->codes = column->codes;
	else
		result->long_codes = column->long_codes;

	return true;
}

/*-------------------------------------------------------------------------
 *
 * row_format.c
 *	  Write rows as records: row_format.h says how.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/expandeddatum.h"
#include "utils/memutils.h"
#if PG_VERSION_NUM >= 160000
#include "varatt.h"
#endif

#include "compat.h"
#include "sort/row_format.h"
#include "vector/batch.h"

/* Bytes that a column takes in the fixed part. */
static uint32
fixed_width(const RowColumn *column)
{
	return column->len > 0 ? column->len : sizeof(uint32);
}

static uint32
align_bytes(char align)
{
	switch (align)
	{
		case TYPALIGN_CHAR:
			return 1;
		case TYPALIGN_SHORT:
			return 2;
		case TYPALIGN_INT:
			return 4;
		default:
			return 8;
	}
}

/* The format of rows of this description, in the current context. */
RowFormat *
row_format_create(TupleDesc tupdesc)
{
	RowFormat  *format = palloc0(sizeof(RowFormat));
	uint32		widest = 1;
	bool		variable = false;

	for (int i = 0; i < tupdesc->natts; i++)
		variable |= TupleDescAttr(tupdesc, i)->attlen < 0;
	format->nulls_offset = variable ? sizeof(uint32) : 0;
	format->ncolumns = tupdesc->natts;
	format->columns = palloc0(sizeof(RowColumn) * Max(tupdesc->natts, 1));
	format->fixed = format->nulls_offset + (tupdesc->natts + 7) / 8;
	for (int i = 0; i < tupdesc->natts; i++)
	{
		Form_pg_attribute attribute = TupleDescAttr(tupdesc, i);
		RowColumn  *column = &format->columns[i];

		column->len = attribute->attlen;
		column->byval = attribute->attbyval;
		column->align = align_bytes(attribute->attalign);
	}
	/* the widest first, so that there are few gaps */
	for (uint32 align = 8; align > 0; align /= 2)
	{
		for (int i = 0; i < tupdesc->natts; i++)
		{
			RowColumn  *column = &format->columns[i];

			if ((column->len > 0 ? column->align : sizeof(uint32)) != align)
				continue;
			widest = Max(widest, align);
			format->fixed = TYPEALIGN(align, format->fixed);
			column->offset = format->fixed;
			format->fixed += fixed_width(column);
		}
	}
	/* rows of one size lie one behind the other, too, and none is empty */
	if (!variable)
		format->size = format->fixed = TYPEALIGN(widest, Max(format->fixed, 1));
	return format;
}

/* Is it an object in memory that has to be made flat? */
static inline bool
is_expanded(const RowColumn *column, Datum value)
{
	return column->len == -1 && VARATT_IS_EXTERNAL_EXPANDED(DatumGetPointer(value));
}

/* Bytes of a value of variable length. */
static inline Size
variable_size(const RowColumn *column, Datum value)
{
	if (column->len == -2)
		return strlen(DatumGetCString(value)) + 1;
	if (is_expanded(column, value))
		return EOH_get_flat_size(DatumGetEOHP(value));
	return VARSIZE_ANY(DatumGetPointer(value));
}

/* Where a value of variable length begins, if all before it ends here. */
static inline Size
variable_begin(const RowColumn *column, Datum value, Size end)
{
	if (column->len == -1 && VARATT_IS_1B(DatumGetPointer(value)) && !is_expanded(column, value))
		return end;
	return TYPEALIGN(column->align, end);
}

/* Bytes of a row. An error is raised beyond what PostgreSQL allocates at once. */
Size
row_format_size(const RowFormat *format, const Datum *values, const bool *nulls)
{
	Size		size = format->fixed;

	if (format->size > 0)
		return format->size;
	for (int i = 0; i < format->ncolumns; i++)
	{
		const RowColumn *column = &format->columns[i];

		if (column->len < 0 && !nulls[i])
			size = variable_begin(column, values[i], size) + variable_size(column, values[i]);
	}
	if (!AllocSizeIsValid(MAXALIGN(size)))
		elog(ERROR, "invalid memory alloc request size %zu", MAXALIGN(size));
	return MAXALIGN(size);
}

/* Write a row of that size, at a place aligned for any value. What is between values is zero, as it goes to files. */
void
row_format_write(const RowFormat *format, char *row, Size size, const Datum *values, const bool *nulls)
{
	Size		end = format->fixed;

	memset(row, 0, format->fixed);
	if (format->size == 0)
		*(uint32 *) row = (uint32) size;
	for (int i = 0; i < format->ncolumns; i++)
	{
		const RowColumn *column = &format->columns[i];
		char	   *place = row + column->offset;

		if (nulls[i])
			row[format->nulls_offset + i / 8] |= 1 << (i % 8);
		else if (column->byval)
		{
			switch (column->len)
			{
				case sizeof(char):
					*place = DatumGetChar(values[i]);
					break;
				case sizeof(int16):
					*(int16 *) place = DatumGetInt16(values[i]);
					break;
				case sizeof(int32):
					*(int32 *) place = DatumGetInt32(values[i]);
					break;
				default:
					*(Datum *) place = values[i];
					break;
			}
		}
		else if (column->len > 0)
			memcpy(place, DatumGetPointer(values[i]), column->len);
		else
		{
			Size		length = variable_size(column, values[i]);
			Size		begin = variable_begin(column, values[i], end);

			memset(row + end, 0, begin - end);
			end = begin;
			*(uint32 *) place = (uint32) end;
			if (is_expanded(column, values[i]))
				EOH_flatten_into(DatumGetEOHP(values[i]), row + end, length);
			else
				memcpy(row + end, DatumGetPointer(values[i]), length);
			end += length;
		}
	}
	Assert(end <= size);
	memset(row + end, 0, size - end);
}

/* ---- many rows of one size ---- */

/* Write the values of a column to rows, NULL as zero. */
static pg_attribute_always_inline void
write_values(char *place, Size stride, const Datum *values, const bool *nulls, int n, int16 len)
{
	for (int i = 0; i < n; i++, place += stride)
	{
		Datum		value = nulls != NULL && nulls[i] ? (Datum) 0 : values[i];

		switch (len)
		{
			case sizeof(char):
				*place = DatumGetChar(value);
				break;
			case sizeof(int16):
				*(int16 *) place = DatumGetInt16(value);
				break;
			case sizeof(int32):
				*(int32 *) place = DatumGetInt32(value);
				break;
			default:
				*(Datum *) place = value;
				break;
		}
	}
}

/* The same of values by reference of a fixed length. */
static void
copy_values(char *place, Size stride, const Datum *values, const bool *nulls, int n, int16 len)
{
	for (int i = 0; i < n; i++, place += stride)
	{
		if (nulls != NULL && nulls[i])
			memset(place, 0, len);
		else
			memcpy(place, DatumGetPointer(values[i]), len);
	}
}

/*
 * Write n rows of one size, one behind the other, of which columns of a batch
 * have the values, from row `first` on.
 */
void
row_format_write_columns(const RowFormat *format, char *rows, struct Column *const *columns, int first, int n)
{
	Size		stride = format->size;

	Assert(stride > 0);
	memset(rows, 0, stride * n);
	for (int c = 0; c < format->ncolumns; c++)
	{
		const RowColumn *column = &format->columns[c];
		const Datum *values = columns[c]->values + first;
		const bool *nulls = columns[c]->has_nulls ? columns[c]->nulls + first : NULL;
		char	   *place = rows + column->offset;

		if (!column->byval)
			copy_values(place, stride, values, nulls, n, column->len);
		else if (column->len == sizeof(int32) && nulls == NULL)
			write_values(place, stride, values, NULL, n, sizeof(int32));
		else if (column->len == sizeof(Datum) && nulls == NULL)
			write_values(place, stride, values, NULL, n, sizeof(Datum));
		else
			write_values(place, stride, values, nulls, n, column->len);
		if (nulls == NULL)
			continue;
		for (int i = 0; i < n; i++)
			rows[i * stride + format->nulls_offset + c / 8] |= nulls[i] << (c % 8);
	}
}

/*-------------------------------------------------------------------------
 *
 * row_format.h
 *	  Rows that are kept for sorting: how one lies in memory and in files.
 *
 * A row is a record without addresses:
 *
 *	  size | a bit for each NULL | values of fixed length | values of others
 *
 * Values by reference of a fixed length lie where they are; of others there is
 * a distance from the row's beginning. Where there are no others, all rows have
 * one size, which is left out. NULL takes the same room, zeroed. What has been
 * toasted stays so, as in PostgreSQL's own sorts.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGBILLION_SORT_ROW_FORMAT_H
#define PGBILLION_SORT_ROW_FORMAT_H

#include "access/tupmacs.h"
#include "access/tupdesc.h"

typedef struct RowColumn
{
	uint32		offset;			/* of the value, or of the distance */
	int16		len;
	bool		byval;
	uint8		align;			/* of a value of variable length, in bytes */
} RowColumn;

typedef struct RowFormat
{
	int			ncolumns;
	RowColumn  *columns;
	uint32		nulls_offset;	/* where the bits are */
	uint32		fixed;			/* bytes before values of variable length */
	uint32		size;			/* of each row; 0: a row begins with it, as a
								 * uint32 */
} RowFormat;

extern RowFormat *row_format_create(TupleDesc tupdesc);
extern Size row_format_size(const RowFormat *format, const Datum *values, const bool *nulls);
extern void row_format_write(const RowFormat *format, char *row, Size size, const Datum *values, const bool *nulls);

struct Column;

extern void row_format_write_columns(const RowFormat *format, char *rows, struct Column *const *columns, int first, int n);

static inline Size
row_size(const RowFormat *format, const char *row)
{
	return format->size > 0 ? format->size : *(const uint32 *) row;
}

static inline bool
row_is_null(const RowFormat *format, const char *row, int column)
{
	return (((const uint8 *) row)[format->nulls_offset + column / 8] & (1 << (column % 8))) != 0;
}

/* A value that is not NULL. By reference, it is the row's. */
static inline Datum
row_value(const RowFormat *format, const char *row, int column)
{
	const RowColumn *c = &format->columns[column];
	const char *place = row + c->offset;

	if (c->byval)
	{
		switch (c->len)
		{
			case sizeof(char):
				return CharGetDatum(*place);
			case sizeof(int16):
				return Int16GetDatum(*(const int16 *) place);
			case sizeof(int32):
				return Int32GetDatum(*(const int32 *) place);
			default:
				return *(const Datum *) place;
		}
	}
	if (c->len > 0)
		return PointerGetDatum(place);
	return PointerGetDatum(row + *(const uint32 *) place);
}

/* A value; of NULL it is 0. */
static inline Datum
row_get(const RowFormat *format, const char *row, int column, bool *isnull)
{
	*isnull = row_is_null(format, row, column);
	return *isnull ? (Datum) 0 : row_value(format, row, column);
}

#endif							/* PGBILLION_SORT_ROW_FORMAT_H */

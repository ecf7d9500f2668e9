/*-------------------------------------------------------------------------
 *
 * columns.c
 *	  Values of attributes, a column at a time.
 *
 * Attributes at a constant offset (those before the first NULL and the first
 * value of variable length) are gathered column by column, when they are
 * asked for. The others are reached by walking the rows; where the walk
 * stopped is kept for each row, so that what only the survivors of a filter
 * need is not walked to for the others.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/tupmacs.h"
#include "access/tupdesc_details.h"
#include "nodes/bitmapset.h"

#include "vector/vector.h"

typedef struct Attribute
{
	int16		len;
	char		align;
	bool		byval;
	int			column;			/* index of the column wanted, or -1 */
	int			fixed_offset;	/* in a row without NULLs, or -1 */
	bool		missing_null;	/* what rows too short to have it hold */
	Datum		missing;
} Attribute;

struct Columns
{
	int			nattributes;	/* up to the last one wanted */
	int			filter_attributes;	/* up to the last one a filter wants */
	int			nfixed;			/* leading ones at a constant offset */
	Attribute  *attributes;
	int			ncolumns;
	Column	   *columns;
	bool	   *loaded;

	/* the batch */
	int			n;
	HeapTupleHeader *tuples;	/* the caller's array, compacted with us */
	bool		simple;			/* no NULLs, no short rows, one header size */
	int			hoff;			/* of simple batches */
	int			walked;			/* attributes walked past in every row */
	uint32		offsets[BATCH_ROWS];	/* where the walk goes on */
};

/*
 * For the attributes of a set, and of its subset that a filter needs. Missing
 * values belong to tupdesc, which must outlive the columns.
 */
Columns *
columns_create(TupleDesc tupdesc, Bitmapset *attnos, Bitmapset *filter_attnos)
{
	Columns    *columns = palloc0(sizeof(Columns));
	int			attno = -1;
	int			offset = 0;

	columns->columns = palloc0(sizeof(Column) * Max(bms_num_members(attnos), 1));
	columns->loaded = palloc0(sizeof(bool) * Max(bms_num_members(attnos), 1));
	while ((attno = bms_next_member(attnos, attno)) >= 0)
	{
		Column	   *column = &columns->columns[columns->ncolumns++];

		column->attno = attno;
		column->filter = bms_is_member(attno, filter_attnos);
		column->values = palloc(sizeof(Datum) * BATCH_ROWS);
		column->nulls = palloc0(sizeof(bool) * BATCH_ROWS);
		columns->nattributes = attno;
		if (column->filter)
			columns->filter_attributes = attno;
	}

	columns->attributes = palloc0(sizeof(Attribute) * Max(columns->nattributes, 1));
	for (int i = 0; i < columns->nattributes; i++)
	{
		Form_pg_attribute form = TupleDescAttr(tupdesc, i);
		Attribute  *attribute = &columns->attributes[i];

		attribute->len = form->attlen;
		attribute->align = form->attalign;
		attribute->byval = form->attbyval;
		attribute->column = columns_index(columns, i + 1);
		attribute->fixed_offset = -1;
		attribute->missing_null = true;
		if (form->atthasmissing)
		{
			attribute->missing = tupdesc->constr->missing[i].am_value;
			attribute->missing_null = !tupdesc->constr->missing[i].am_present;
		}
		if (offset >= 0)
		{
			/* a varlena may have a short header, which is not aligned, unless it comes where alignment is moot */
			if (form->attlen < 0 && offset != att_align_nominal(offset, form->attalign))
				offset = -1;
			else
			{
				offset = att_align_nominal(offset, form->attalign);
				attribute->fixed_offset = offset;
				columns->nfixed = i + 1;
				offset = form->attlen > 0 ? offset + form->attlen : -1;
			}
		}
	}

	return columns;
}

/* The index of an attribute's column, or -1. */
int
columns_index(Columns *columns, AttrNumber attno)
{
	for (int i = 0; i < columns->ncolumns; i++)
	{
		if (columns->columns[i].attno == attno)
			return i;
	}
	return -1;
}

int
columns_count(Columns *columns)
{
	return columns->ncolumns;
}

/*
 * Start on the rows of a page. The array of tuples stays the caller's, but is
 * compacted together with the columns.
 */
void
columns_begin_batch(Columns *columns, HeapTupleHeader *tuples, int n)
{
	uint16		infomask = 0;
	bool		same = true;
	int			hoff = n > 0 ? tuples[0]->t_hoff : 0;
	int			natts = columns->nattributes;

	columns->n = n;
	columns->tuples = tuples;
	columns->walked = 0;
	memset(columns->loaded, 0, sizeof(bool) * columns->ncolumns);
	if (columns->ncolumns == 0)
		return;
	for (int i = 0; i < n; i++)
	{
		infomask |= tuples[i]->t_infomask;
		same &= HeapTupleHeaderGetNatts(tuples[i]) >= natts && tuples[i]->t_hoff == hoff;
	}
	columns->simple = same && (infomask & HEAP_HASNULL) == 0;
	columns->hoff = hoff;
}

/* Gather an attribute of constant offset from a simple batch. */
static void
gather(Columns *columns, Attribute *attribute, Column *column)
{
	int			offset = columns->hoff + attribute->fixed_offset;
	int			n = columns->n;
	HeapTupleHeader *tuples = columns->tuples;
	Datum	   *values = column->values;

#define GATHER(type, get) \
	for (int i = 0; i < n; i++) \
		values[i] = get(*(const type *) ((const char *) tuples[i] + offset))

	if (!attribute->byval)
	{
		for (int i = 0; i < n; i++)
			values[i] = PointerGetDatum((char *) tuples[i] + offset);
	}
	else
	{
		switch (attribute->len)
		{
			case 1:
				GATHER(char, CharGetDatum);
				break;
			case 2:
				GATHER(int16, Int16GetDatum);
				break;
			case 4:
				GATHER(int32, Int32GetDatum);
				break;
			case 8:
				GATHER(Datum, (Datum));
				break;
			default:
				elog(ERROR, "unsupported byval length: %d", attribute->len);
		}
	}
	if (column->dirty)
		memset(column->nulls, 0, sizeof(bool) * BATCH_ROWS);
	column->dirty = column->has_nulls = false;
}

/*
 * Walk the rows of a simple batch, an attribute at a time: the steps of
 * different rows do not depend on each other, so that the processor works on
 * many at once.
 */
static void
walk_simple(Columns *columns, int until)
{
	int			n = columns->n;
	int			hoff = columns->hoff;
	int			from = columns->walked;
	uint32	   *offsets = columns->offsets;

	/* up to the last attribute at a constant offset there is nothing to walk */
	if (from < columns->nfixed - 1 && columns->nfixed - 1 <= until)
	{
		for (int a = from; a < columns->nfixed - 1; a++)
		{
			int			c = columns->attributes[a].column;

			if (c >= 0 && !columns->loaded[c])
			{
				gather(columns, &columns->attributes[a], &columns->columns[c]);
				columns->loaded[c] = true;
			}
		}
		from = columns->nfixed - 1;
		for (int i = 0; i < n; i++)
			offsets[i] = columns->attributes[from].fixed_offset;
	}
	else if (from == 0)
		memset(offsets, 0, sizeof(uint32) * n);

	for (int a = from; a < until; a++)
	{
		const Attribute *attribute = &columns->attributes[a];
		Column	   *column = attribute->column >= 0 ? &columns->columns[attribute->column] : NULL;
		int			len = attribute->len;

		if (column != NULL)
		{
			if (column->dirty)
				memset(column->nulls, 0, sizeof(bool) * BATCH_ROWS);
			column->dirty = column->has_nulls = false;
			columns->loaded[attribute->column] = true;
		}
		if (len == -1)
		{
			for (int i = 0; i < n; i++)
			{
				const char *data = (const char *) columns->tuples[i] + hoff;
				uint32		offset = att_align_pointer(offsets[i], attribute->align, -1, data + offsets[i]);

				if (column != NULL)
					column->values[i] = PointerGetDatum(data + offset);
				offsets[i] = offset + VARSIZE_ANY(data + offset);
			}
		}
		else
		{
			for (int i = 0; i < n; i++)
			{
				const char *data = (const char *) columns->tuples[i] + hoff;
				uint32		offset = att_align_nominal(offsets[i], attribute->align);

				if (column != NULL)
					column->values[i] = fetch_att(data + offset, attribute->byval, len);
				offsets[i] = att_addlength_pointer(offset, len, data + offset);
			}
		}
	}
	columns->walked = until;
}

/*
 * Walk every row from where the last walk ended to the attribute before
 * `until`, and load what is wanted on the way.
 */
static void
walk(Columns *columns, int until)
{
	int			from = columns->walked;

	if (columns->simple)
	{
		walk_simple(columns, until);
		return;
	}
	for (int a = from; a < until; a++)
	{
		int			c = columns->attributes[a].column;

		if (c >= 0 && !columns->loaded[c])
			columns->columns[c].has_nulls = false;
	}

	for (int i = 0; i < columns->n; i++)
	{
		HeapTupleHeader tuple = columns->tuples[i];
		const char *data = (const char *) tuple + tuple->t_hoff;
		bool		hasnulls = (tuple->t_infomask & HEAP_HASNULL) != 0;
		int			natts = HeapTupleHeaderGetNatts(tuple);
		uint32		offset = from == 0 ? 0 : columns->offsets[i];

		for (int a = from; a < until; a++)
		{
			const Attribute *attribute = &columns->attributes[a];
			Column	   *column = attribute->column >= 0 ? &columns->columns[attribute->column] : NULL;

			if (unlikely(a >= natts))
			{
				if (column != NULL)
				{
					column->values[i] = attribute->missing;
					column->nulls[i] = attribute->missing_null;
					column->dirty |= attribute->missing_null;
					column->has_nulls |= attribute->missing_null;
				}
				continue;
			}
			if (hasnulls && att_isnull(a, tuple->t_bits))
			{
				if (column != NULL)
				{
					column->values[i] = (Datum) 0;
					column->nulls[i] = true;
					column->dirty = column->has_nulls = true;
				}
				continue;
			}
			if (attribute->len == -1)
				offset = att_align_pointer(offset, attribute->align, -1, data + offset);
			else
				offset = att_align_nominal(offset, attribute->align);
			if (column != NULL)
			{
				column->values[i] = fetch_att(data + offset, attribute->byval, attribute->len);
				column->nulls[i] = false;
			}
			offset = att_addlength_pointer(offset, attribute->len, data + offset);
		}
		columns->offsets[i] = offset;
	}

	for (int a = from; a < until; a++)
	{
		if (columns->attributes[a].column >= 0)
			columns->loaded[columns->attributes[a].column] = true;
	}
	columns->walked = until;
}

/* The column of an index, loaded for the rows that are in the batch now. */
Column *
columns_get(Columns *columns, int index)
{
	Column	   *column = &columns->columns[index];

	if (!columns->loaded[index])
	{
		Attribute  *attribute = &columns->attributes[column->attno - 1];

		if (columns->simple && attribute->fixed_offset >= 0)
		{
			gather(columns, attribute, column);
			columns->loaded[index] = true;
		}
		else
		{
			/* all that this stage of the work can need */
			int			until = Max(column->filter ? columns->filter_attributes : columns->nattributes,
									column->attno);

			Assert(until > columns->walked);
			walk(columns, until);
		}
	}

	return column;
}

/*
 * Keep the rows that `keep` says, in order; n of them are left.
 */
void
columns_compact(Columns *columns, const bool *keep, int n)
{
	uint16		kept[BATCH_ROWS];
	int			k = 0;

	if (columns->ncolumns == 0)
	{
		columns->n = n;
		return;
	}
	for (int i = 0; i < columns->n; i++)
	{
		kept[k] = i;
		k += keep[i];
	}
	Assert(k == n);
	for (k = 0; k < n; k++)
		columns->tuples[k] = columns->tuples[kept[k]];
	if (columns->walked > 0)
	{
		for (k = 0; k < n; k++)
			columns->offsets[k] = columns->offsets[kept[k]];
	}
	for (int c = 0; c < columns->ncolumns; c++)
	{
		Column	   *column = &columns->columns[c];

		if (!columns->loaded[c])
			continue;
		for (k = 0; k < n; k++)
			column->values[k] = column->values[kept[k]];
		if (column->has_nulls)
		{
			for (k = 0; k < n; k++)
				column->nulls[k] = column->nulls[kept[k]];
		}
	}
	columns->n = n;
}

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

#include "vector/source/heap.h"

typedef struct Attribute
{
	int16		len;
	char		align;
	bool		byval;
	int			column;			/* index of the column wanted, or -1 */
	int			fixed_offset;	/* in a row without NULLs, or -1 */
	bool		lengthy;		/* a value of the last batch had a header of
								 * four bytes */
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
	Column	   *columns;		/* the batch's */
	bool	   *first;			/* of each: columns_load_only() is to load it */

	/* the batch */
	int			n;
	HeapTupleHeader *tuples;	/* the caller's array, compacted with us */
	bool		simple;			/* no NULLs, no short rows, one header size */
	int			hoff;			/* of simple batches */
	int			walked;			/* attributes walked past in every row */
	const char *at[MaxHeapTuplesPerPage];	/* where the walk goes on */
	const char *ahead;			/* page to be fetched on the way, or NULL */
	bool		filtering;		/* the walk loads what a filter needs */
	bool		fetched;		/* such a walk has fetched the page ahead */
	bool		selective;		/* the walk loads only the columns marked in
								 * first[] */
};

/* What a tuple's header says of its layout, in one load. */
typedef union Layout
{
	uint64		word;
	struct
	{
		uint16		posid;
		uint16		infomask2;
		uint16		infomask;
		uint8		hoff;
		uint8		bits;
	}			field;
} Layout;

#define LAYOUT_OFFSET (offsetof(HeapTupleHeaderData, t_infomask2) - sizeof(uint16))

StaticAssertDecl(offsetof(HeapTupleHeaderData, t_infomask) == LAYOUT_OFFSET + offsetof(Layout, field.infomask) &&
				 offsetof(HeapTupleHeaderData, t_hoff) == LAYOUT_OFFSET + offsetof(Layout, field.hoff),
				 "layout of heap tuples");

/*
 * For the columns of a batch. Missing values belong to tupdesc, which must
 * outlive the columns. Memory belongs to the current context.
 */
Columns *
columns_create(TupleDesc tupdesc, Batch *batch)
{
	Columns    *columns = palloc0(sizeof(Columns));
	int			offset = 0;

	columns->ncolumns = batch->ncolumns;
	columns->columns = batch->columns;
	columns->first = palloc0(sizeof(bool) * Max(columns->ncolumns, 1));
	/* they are in the order of attributes */
	for (int i = 0; i < columns->ncolumns; i++)
	{
		columns->nattributes = columns->columns[i].attno;
		if (columns->columns[i].filter)
			columns->filter_attributes = columns->columns[i].attno;
	}

	columns->attributes = palloc0(sizeof(Attribute) * Max(columns->nattributes, 1));
	for (int i = 0; i < columns->nattributes; i++)
	{
		Form_pg_attribute form = TupleDescAttr(tupdesc, i);
		Attribute  *attribute = &columns->attributes[i];

		attribute->len = form->attlen;
		attribute->align = form->attalign;
		attribute->byval = form->attbyval;
		attribute->column = batch_index(batch, i + 1);
		attribute->fixed_offset = -1;
		attribute->missing_null = true;
		if (form->atthasmissing)
		{
			attribute->missing = tupdesc->constr->missing[i].am_value;
			attribute->missing_null = !tupdesc->constr->missing[i].am_present;
		}
		if (offset >= 0)
		{
			/*
			 * a varlena may have a short header, which is not aligned, unless
			 * it comes where alignment is moot
			 */
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

/*
 * Start on the rows of a page. The array of tuples stays the caller's, but is
 * compacted together with the columns. `ahead` is the next page, if it is to
 * be fetched into the processor's caches meanwhile.
 */
void
columns_begin(Columns *columns, HeapTupleHeader *tuples, int n, const char *ahead)
{
	Layout		any;
	Layout		all;

	columns->n = n;
	columns->tuples = tuples;
	columns->walked = 0;
	columns->ahead = ahead;
	columns->fetched = false;
	for (int i = 0; i < columns->ncolumns; i++)
		columns->columns[i].loaded = false;
	if (columns->ncolumns == 0)
		return;
	any.word = 0;
	all.word = ~UINT64CONST(0);

	/*
	 * walking will need more of the rows: have it fetched, in case the page
	 * has left the cache again
	 */
	if (columns->nattributes > columns->nfixed)
	{
		for (int i = 0; i < n; i++)
			__builtin_prefetch((const char *) tuples[i] + CACHE_LINE);
	}
	for (int i = 0; i < n; i++)
	{
		uint64		word;

		memcpy(&word, (const char *) tuples[i] + LAYOUT_OFFSET, sizeof(word));
		any.word |= word;
		all.word &= word;
	}
	columns->simple = any.field.hoff == all.field.hoff && (any.field.infomask & HEAP_HASNULL) == 0 &&
		((any.field.infomask2 ^ all.field.infomask2) & HEAP_NATTS_MASK) == 0 &&
		(any.field.infomask2 & HEAP_NATTS_MASK) >= columns->nattributes;
	columns->hoff = any.field.hoff;
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

/* So many values of variable length are stepped over together. */
#define MAX_STEPS 6

/*
 * Step over some values of variable length in every row of a simple batch, if
 * all of them have a header of one byte: no alignment, no branch. targets says
 * where each value goes, if wanted. Inlined with constants.
 */
static pg_attribute_always_inline bool
step_over(Columns *columns, Datum *const *targets, int steps, bool wanted)
{
	const char *next[MaxHeapTuplesPerPage];
	const char **at = columns->at;
	int			n = columns->n;
	Datum	   *into[MAX_STEPS] = {NULL};
	const char *ahead = columns->ahead;
	int			share = ahead != NULL && n > 0 ? (BLCKSZ + n - 1) / n : 0;
	uint32		odd = 1;
	uint32		below_two = 0;

	/* copies, which the stores below cannot change */
	for (int s = 0; s < steps; s++)
		into[s] = targets[s];
	for (int i = 0; i < n; i++)
	{
		const char *p = at[i];

		/* while this waits for memory, so may the next page */
		for (int offset = 0; offset < share; offset += CACHE_LINE)
			__builtin_prefetch(ahead + i * share + offset);
		for (int s = 0; s < steps; s++)
		{
			uint32		header = *(const uint8 *) p;

			/* an odd one is the length, except that of a TOAST pointer: 1 */
			odd &= header;
			below_two |= header - 2;
			if (wanted)
				into[s][i] = PointerGetDatum(p);

			/*
			 * whatever else is even: stay there, so that nothing beyond the
			 * row is read
			 */
			p += header >> 1 & -(header & 1);
		}
		next[i] = p;
	}
	columns->fetched |= columns->filtering && ahead != NULL;
	columns->ahead = NULL;
#ifdef WORDS_BIGENDIAN
	odd = 0;
#endif
	if (odd == 0 || below_two >> 31 != 0)
		return false;
	memcpy(at, next, sizeof(next[0]) * n);

	return true;
}

static bool
step_short(Columns *columns, Datum *const *targets, int steps)
{
#define STEPS(number) \
	case number: \
		return targets[0] != NULL ? step_over(columns, targets, number, true) : \
			step_over(columns, targets, number, false)

	switch (steps)
	{
			STEPS(1);
			STEPS(2);
			STEPS(3);
			STEPS(4);
			STEPS(5);
			STEPS(MAX_STEPS);
	}
	pg_unreachable();
}

/* Is an attribute to be loaded by the walk? */
static bool
is_wanted(Columns *columns, int a)
{
	int			c = columns->attributes[a].column;

	return c >= 0 && (!columns->selective || columns->first[c]);
}

/* Have the walk load an attribute, if it is wanted; return where to, or NULL. */
static Datum *
load_into(Columns *columns, int a)
{
	Column	   *column;

	if (!is_wanted(columns, a))
		return NULL;
	column = &columns->columns[columns->attributes[a].column];
	if (column->dirty)
		memset(column->nulls, 0, sizeof(bool) * BATCH_ROWS);
	column->dirty = column->has_nulls = false;
	columns->columns[columns->attributes[a].column].loaded = true;

	return column->values;
}

/* Step over any attribute in every row of a simple batch. */
static void
step(Columns *columns, int a)
{
	Attribute  *attribute = &columns->attributes[a];
	const char **at = columns->at;
	Datum	   *values = load_into(columns, a);
	int			n = columns->n;
	int			len = attribute->len;
	char		align = attribute->align;
	bool		wanted = values != NULL;

	if (len == -1)
	{
		bool		all_short = true;

		for (int i = 0; i < n; i++)
		{
			const char *p = (const char *) att_align_pointer((uintptr_t) at[i], align, -1, at[i]);

			all_short &= VARATT_IS_SHORT(p);
			if (wanted)
				values[i] = PointerGetDatum(p);
			at[i] = p + VARSIZE_ANY(p);
		}
		/* the next batch will be alike */
		attribute->lengthy = !all_short;
	}
	else if (wanted && len == sizeof(int32) && attribute->byval)
	{
		for (int i = 0; i < n; i++)
		{
			const char *p = (const char *) att_align_nominal((uintptr_t) at[i], align);

			values[i] = Int32GetDatum(*(const int32 *) p);
			at[i] = p + len;
		}
	}
	else
	{
		for (int i = 0; i < n; i++)
		{
			const char *p = (const char *) att_align_nominal((uintptr_t) at[i], align);

			if (wanted)
				values[i] = fetch_att(p, attribute->byval, len);
			at[i] = (const char *) att_addlength_pointer((uintptr_t) p, len, p);
		}
	}
}

/*
 * Walk the rows of a simple batch, an attribute at a time: the steps of
 * different rows do not depend on each other, so that the processor works on
 * many at once. A row's data begins at a multiple of MAXIMUM_ALIGNOF, so that
 * pointers can be aligned as offsets are.
 */
static void
walk_simple(Columns *columns, int until)
{
	int			n = columns->n;
	int			from = columns->walked;
	const char **at = columns->at;
	HeapTupleHeader *tuples = columns->tuples;

	/*
	 * up to the last attribute at a constant offset there is nothing to walk:
	 * gather() needs it not
	 */
	if (from == 0)
	{
		int			start = columns->hoff;

		if (columns->nfixed > 0 && columns->nfixed - 1 <= until)
		{
			from = columns->nfixed - 1;
			start += columns->attributes[from].fixed_offset;
		}
		for (int i = 0; i < n; i++)
			at[i] = (const char *) tuples[i] + start;
		Assert(n == 0 || (uintptr_t) tuples[0] % MAXIMUM_ALIGNOF == 0);
	}

	while (from < until)
	{
		Attribute  *attribute = &columns->attributes[from];
		Datum	   *targets[MAX_STEPS];
		int			steps = 0;

		while (steps < MAX_STEPS && from + steps < until &&
			   attribute[steps].len == -1 && !attribute[steps].lengthy &&
			   (steps == 0 || is_wanted(columns, from + steps) == is_wanted(columns, from)))
		{
			targets[steps] = load_into(columns, from + steps);
			steps++;
		}
		if (steps > 0 && step_short(columns, targets, steps))
			from += steps;
		else if (steps > 0)
		{
			for (int s = 0; s < steps; s++)
				step(columns, from++);
		}
		else
			step(columns, from++);
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

		if (c >= 0 && !columns->columns[c].loaded)
			columns->columns[c].has_nulls = false;
	}

	for (int i = 0; i < columns->n; i++)
	{
		HeapTupleHeader tuple = columns->tuples[i];
		const char *data = (const char *) tuple + tuple->t_hoff;
		bool		hasnulls = (tuple->t_infomask & HEAP_HASNULL) != 0;
		int			natts = HeapTupleHeaderGetNatts(tuple);
		uint32		offset = from == 0 ? 0 : columns->at[i] - data;

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
		columns->at[i] = data + offset;
	}

	for (int a = from; a < until; a++)
	{
		if (columns->attributes[a].column >= 0)
			columns->columns[columns->attributes[a].column].loaded = true;
	}
	columns->walked = until;
}

/* Load a column for the rows that are left, and perhaps others on the way. */
void
columns_load(Columns *columns, int index)
{
	Column	   *column = &columns->columns[index];
	Attribute  *attribute = &columns->attributes[column->attno - 1];
	int			until;

	if (columns->simple && attribute->fixed_offset >= 0)
	{
		gather(columns, attribute, column);
		column->loaded = true;
		return;
	}

	/* all that this stage of the work can need, and what is on the way */
	until = Max(column->filter ? columns->filter_attributes : columns->nattributes,
				column->attno);
	Assert(until > columns->walked);
	columns->filtering = column->filter;
	walk(columns, until);
}

/*
 * Has the page ahead been fetched on the way, of which columns_begin() was
 * told? Only what is loaded for a filter counts: where all rows are walked
 * through for aggregates, it is faster to have the page fetched twice.
 */
bool
columns_fetched_ahead(Columns *columns)
{
	return columns->fetched;
}

/*
 * Load the columns listed for all rows, and nothing that is on the way there:
 * worthwhile where few rows will be left, for which the walk begins anew.
 */
void
columns_load_only(Columns *columns, const int *indexes, int n)
{
	int			until = 0;

	Assert(columns->walked == 0);
	if (!columns->simple)
		return;
	for (int i = 0; i < n; i++)
	{
		Column	   *column = &columns->columns[indexes[i]];

		columns->first[indexes[i]] = columns->attributes[column->attno - 1].fixed_offset < 0;
		if (columns->first[indexes[i]])
			until = Max(until, column->attno);
	}
	if (until > 0)
	{
		columns->selective = true;
		columns->filtering = true;
		walk_simple(columns, until);
		columns->selective = false;
		columns->walked = 0;
	}
}

/* Can a column be loaded without a walk? */
bool
columns_is_cheap(Columns *columns, int index)
{
	return columns->simple && columns->attributes[columns->columns[index].attno - 1].fixed_offset >= 0;
}

/* Is it known that no column holds a NULL? */
bool
columns_has_no_nulls(Columns *columns)
{
	return columns->simple;
}

/* The n rows listed are left. */
void
columns_keep(Columns *columns, const uint16 *rows, int n)
{
	columns->n = n;
	if (columns->ncolumns == 0)
		return;
	for (int k = 0; k < n; k++)
		columns->tuples[k] = columns->tuples[rows[k]];
	if (columns->walked > 0)
	{
		for (int k = 0; k < n; k++)
			columns->at[k] = columns->at[rows[k]];
	}
}

/*-------------------------------------------------------------------------
 *
 * deform.c
 *	  Values of attributes, a column at a time.
 *
 * Attributes at a constant offset (those before the first NULL and the first
 * value of variable length) are gathered column by column, when they are
 * asked for. The others are reached by walking the rows; where the walk
 * stopped is kept for each row, so that what only the survivors of a filter
 * need is not walked to for the others.
 *
 * The walk goes an attribute at a time, and only those which are NULL in some
 * row of the batch need a look at each row's bitmap. Neighbors of fixed length
 * of which none needs more alignment than the first are one step: the others
 * are at constant distances from it. If some are NULL, neighbors of one length
 * are still one step: the number of bits before a value says where it is.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/tupmacs.h"
#include "access/tupdesc_details.h"
#include "nodes/bitmapset.h"
#include "port/pg_bitutils.h"
#ifdef WORDS_BIGENDIAN
#include "port/pg_bswap.h"
#endif

#include "vector/source/heap.h"

typedef struct Attribute
{
	int16		len;
	char		align;
	bool		byval;
	int			align_bytes;
	int			column;			/* index of the column wanted, or -1 */
	int			next_column;	/* ... of the first wanted that is not before
								 * this attribute */
	int			fixed_offset;	/* in a row without NULLs, or -1 */
	int			distance;		/* of fixed length: from the first neighbor
								 * that is, if that is fully aligned */
	int			run_end;		/* of fixed length: neighbors before it are at
								 * constant distances from this */
	int			alike_end;		/* by value, of a length that is its
								 * alignment: neighbors before it are of the
								 * same; else 0 */
	bool		lengthy;		/* a value of the last batch had a header of
								 * four bytes */
	bool		missing_null;	/* what rows too short to have it hold */
	Datum		missing;
} Attribute;

/* Attributes of which each row has a bit available. */
#define BITS_AVAILABLE 64

/* A bit per attribute. */
#define BITMAP_WORDS ((MaxTupleAttributeNumber + 63) / 64)

struct Deform
{
	int			nattributes;	/* up to the last one wanted */
	int			filter_attributes;	/* up to the last one a filter wants */
	int			nfixed;			/* leading ones at a constant offset */
	Attribute  *attributes;
	int			ncolumns;
	Column	   *columns;		/* the batch's */
	bool	   *first;			/* of each: deform_load_only() is to load it */

	/* the batch */
	int			n;
	HeapTupleHeader *tuples;	/* the caller's array, compacted with us */
	int			plain;			/* number of leading attributes that are
								 * there, and not NULL, in every row */
	int			hoff;			/* of every row, or -1 */
	uint64		nullable[BITMAP_WORDS]; /* beyond those: attributes that some
										 * row does not have, or as NULL */
	uint64		only_null[BITMAP_WORDS];	/* ... that all rows have as NULL */
	int			nbits;			/* leading attributes that every row has, and
								 * a bit of: */
	uint64		bits[BATCH_ROWS];	/* of each row: 1, it is not NULL */
	int			walked;			/* attributes walked past in every row */
	const char *at[BATCH_ROWS]; /* where the walk goes on */
	bool		selective;		/* the walk loads only the columns marked in
								 * first[] */

	/* what there is to be fetched of the next rows on the way */
	VectorFetch *fetch;
	int			begun;			/* rows of the batch when it began */
	int			reached;		/* number of bytes that were looked at of most
								 * of them */
	int			steps;			/* that have fetched something */
	int			last_steps;		/* ... in the batch before */
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

/* Set next_column, distance, run_end and alike_end of all attributes. */
static void
find_runs(Deform *columns)
{
	int			distance = 0;

	for (int a = 0, c = 0; a < columns->nattributes; a++)
	{
		Attribute  *attribute = &columns->attributes[a];

		while (columns->columns[c].attno - 1 < a)
			c++;
		attribute->next_column = c;
		if (attribute->len <= 0)
		{
			distance = 0;
			continue;
		}
		attribute->distance = att_align_nominal(distance, attribute->align);
		distance = attribute->distance + attribute->len;
		attribute->run_end = a + 1;
		while (attribute->run_end < columns->nattributes)
		{
			Attribute  *end = &columns->attributes[attribute->run_end];

			if (end->len <= 0 || end->align_bytes > attribute->align_bytes)
				break;
			attribute->run_end++;
		}
	}
	for (int a = columns->nattributes - 1; a >= 0; a--)
	{
		Attribute  *attribute = &columns->attributes[a];

		if (!attribute->byval || attribute->len != attribute->align_bytes)
			continue;
		attribute->alike_end = a + 1;
		if (a + 1 < columns->nattributes && attribute[1].len == attribute->len)
			attribute->alike_end = Max(attribute[1].alike_end, a + 1);
	}
}

/*
 * For the columns of a batch. Missing values belong to tupdesc, which must
 * outlive the columns. Memory belongs to the current context.
 */
Deform *
deform_create(TupleDesc tupdesc, Batch *batch)
{
	Deform	   *columns = palloc0(sizeof(Deform));
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
		attribute->align_bytes = att_align_nominal(1, form->attalign);
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
	find_runs(columns);

	return columns;
}

/* Is an attribute NULL, or not there, in some row of the batch? */
static inline bool
is_nullable(const Deform *columns, int a)
{
	return a >= columns->plain && (columns->nullable[a / 64] >> (a % 64) & 1) != 0;
}

/* The first attribute from `from` on for which that is so, but not beyond `until`. */
static int
next_nullable(const Deform *columns, int from, int until)
{
	int			w = from / 64;
	uint64		bits = columns->nullable[w] & (~UINT64CONST(0) << (from % 64));

	while (bits == 0 && (w + 1) * 64 < until)
		bits = columns->nullable[++w];
	return bits == 0 ? until : Min(w * 64 + pg_rightmost_one_pos64(bits), until);
}

/* Are the attributes wanted, and those before them, NULL in no row of the batch? Bitmaps as below. */
static bool
nulls_lie_beyond(const Deform *columns, int nwords)
{
	for (int w = 0; w < nwords; w++)
	{
		int			first = w * 64 - 56;	/* attribute of the word's first
											 * bit */
		int			bits = Min(columns->nattributes - first, 64);
		uint64		all = ~UINT64CONST(0);

		for (int i = 0; i < columns->n; i++)
		{
			const char *tuple = (const char *) columns->tuples[i];
			uint64		word;

			if ((columns->tuples[i]->t_infomask & HEAP_HASNULL) == 0)
				continue;
			memcpy(&word, tuple + SizeofHeapTupleHeader + 1 - sizeof(word) + sizeof(word) * w, sizeof(word));
			all &= word;
		}
		/* the first seven bytes are not of the bitmap */
		if (w == 0)
			all |= ~UINT64CONST(0) >> 8;
		all |= bits == 64 ? 0 : ~UINT64CONST(0) << bits;
		if (all != ~UINT64CONST(0))
			return false;
	}
	return true;
}

/*
 * The bits of a tuple of at least `natts` attributes: which of these are not
 * NULL. A bitmap begins with a header's last byte before a word boundary, and
 * one of more than a byte takes the word behind it, too. Without a bitmap, that
 * word is of the row's data: there is some, and tuples end at word boundaries.
 */
static inline uint64
bits_of(HeapTupleHeader tuple, int natts)
{
	uint64		bits = tuple->t_bits[0];

	StaticAssertDecl(MAXIMUM_ALIGNOF == sizeof(uint64) &&
					 offsetof(HeapTupleHeaderData, t_bits) + 1 == 3 * sizeof(uint64), "words of a tuple's bitmap");
	if (natts > BITS_PER_BYTE)
	{
		uint64		word;

		memcpy(&word, &tuple->t_bits[1], sizeof(word));
#ifdef WORDS_BIGENDIAN
		word = pg_bswap64(word);
#endif
		bits |= word << BITS_PER_BYTE;
	}
	return (tuple->t_infomask & HEAP_HASNULL) != 0 ? bits : ~UINT64CONST(0);
}

/* What find_nulls() does, where all rows have all attributes, and these have bits available. */
static void
find_bits(Deform *columns)
{
	int			natts = columns->nattributes;
	uint64		wanted = ~UINT64CONST(0) >> (BITS_AVAILABLE - natts);
	uint64		all = ~UINT64CONST(0);
	uint64		any = 0;

	for (int i = 0; i < columns->n; i++)
	{
		uint64		bits = bits_of(columns->tuples[i], natts);

		columns->bits[i] = bits;
		all &= bits;
		any |= bits;
	}
	columns->nullable[0] = ~all & wanted;
	columns->only_null[0] = ~any & wanted;
	columns->plain = next_nullable(columns, 0, natts);
	if (columns->plain < natts)
		columns->nbits = natts;
}

/*
 * Find which attributes are NULL in some row or in all rows of the batch, or
 * are not there because the row is older than they are. A tuple's bitmap is
 * its header's last byte before the first word boundary, and as many words as
 * it takes: the header ends at such a boundary.
 */
static void
find_nulls(Deform *columns)
{
	uint64		all[BITMAP_WORDS + 1];
	uint64		any[BITMAP_WORDS + 1];
	int			present = columns->nattributes;
	int			nwords;

	StaticAssertDecl(MAXIMUM_ALIGNOF == sizeof(uint64) &&
					 (SizeofHeapTupleHeader + 1) % sizeof(uint64) == 0, "words of a tuple's bitmap");
	for (int i = 0; i < columns->n; i++)
		present = Min(present, HeapTupleHeaderGetNatts(columns->tuples[i]));
	if (present == columns->nattributes && present <= BITS_AVAILABLE)
	{
		find_bits(columns);
		return;
	}
	/* the first byte of the bitmap is the last of the word before it */
	nwords = 1 + (Max(present - 8, 0) + 63) / 64;
	columns->plain = columns->nattributes;
	if (present == columns->nattributes && nulls_lie_beyond(columns, nwords))
		return;
	memset(all, 0xFF, sizeof(uint64) * nwords);
	memset(any, 0, sizeof(uint64) * nwords);
	for (int i = 0; i < columns->n; i++)
	{
		const char *bits = (const char *) columns->tuples[i] + SizeofHeapTupleHeader + 1 - sizeof(uint64);

		if ((columns->tuples[i]->t_infomask & HEAP_HASNULL) == 0)
		{
			memset(any, 0xFF, sizeof(uint64) * nwords);
			continue;
		}
		Assert((SizeofHeapTupleHeader + 1 + sizeof(uint64) * (nwords - 1)) <= columns->tuples[i]->t_hoff);
		for (int w = 0; w < nwords; w++)
		{
			uint64		word;

			memcpy(&word, bits + sizeof(word) * w, sizeof(word));
			all[w] &= word;
			any[w] |= word;
		}
	}

	memset(columns->nullable, 0, sizeof(uint64) * ((columns->nattributes + 63) / 64));
	memset(columns->only_null, 0, sizeof(uint64) * ((columns->nattributes + 63) / 64));
	for (int a = 0; a < present; a += 8)
	{
		int			byte = sizeof(uint64) - 1 + a / 8;
		int			width = Min(8, present - a);
		uint8		within = (uint8) ((1 << width) - 1);

		columns->nullable[a / 64] |= (uint64) (~((uint8 *) all)[byte] & within) << (a % 64);
		columns->only_null[a / 64] |= (uint64) (~((uint8 *) any)[byte] & within) << (a % 64);
	}
	for (int a = present; a < columns->nattributes; a++)
		columns->nullable[a / 64] |= UINT64CONST(1) << (a % 64);
	columns->plain = next_nullable(columns, 0, columns->nattributes);
}

/*
 * The batch is done with: say what is to be fetched of rows, as far as it
 * tells, and have what is left fetched.
 */
void
deform_end(Deform *columns)
{
	VectorFetch *fetch = columns->fetch;

	if (columns->begun == 0)
		return;
	while (fetch->next < fetch->n)
		__builtin_prefetch(fetch->lines[fetch->next++]);
	fetch->bytes = fetch->bytes == 0 ? columns->reached : (3 * fetch->bytes + columns->reached) / 4;
	fetch->on_way = columns->steps > 0;
	columns->last_steps = columns->steps;
	columns->begun = 0;
}

/* Number of bytes of each remaining row that are looked at. */
static inline void
reach(Deform *columns, int bytes)
{
	if (columns->n * 4 >= columns->begun)
		columns->reached = Max(columns->reached, bytes);
}

/*
 * Start on some rows. The array of tuples stays the caller's, but is compacted
 * together with the columns. `fetch` is what of the next rows is to be fetched
 * into the processor's caches meanwhile.
 */
void
deform_begin(Deform *columns, HeapTupleHeader *tuples, int n, VectorFetch *fetch)
{
	Layout		any;
	Layout		all;

	columns->n = columns->begun = n;
	columns->tuples = tuples;
	columns->walked = 0;
	columns->fetch = fetch;
	columns->steps = columns->reached = 0;
	for (int i = 0; i < columns->ncolumns; i++)
		columns->columns[i].loaded = false;
	if (columns->ncolumns == 0)
		return;
	any.word = 0;
	all.word = ~UINT64CONST(0);
	for (int i = 0; i < n; i++)
	{
		uint64		word;

		memcpy(&word, (const char *) tuples[i] + LAYOUT_OFFSET, sizeof(word));
		any.word |= word;
		all.word &= word;
	}
	columns->hoff = any.field.hoff == all.field.hoff ? any.field.hoff : -1;
	columns->plain = columns->nattributes;
	columns->nbits = 0;
	if ((any.field.infomask & HEAP_HASNULL) != 0 || ((any.field.infomask2 ^ all.field.infomask2) & HEAP_NATTS_MASK) != 0 ||
		(any.field.infomask2 & HEAP_NATTS_MASK) < columns->nattributes)
		find_nulls(columns);
}

/* Is an attribute at a constant offset in every row of the batch? */
static inline bool
is_fixed(const Deform *columns, int a)
{
	return columns->attributes[a].fixed_offset >= 0 && a < columns->plain;
}

/* The values of an attribute that is so far behind a place in each row, and nowhere NULL. */
static void
gather(const Attribute *attribute, const char *const *from, int offset, int n, Datum *values)
{
#define GATHER(type, get) \
	for (int i = 0; i < n; i++) \
		values[i] = get(*(const type *) (from[i] + offset))

	if (!attribute->byval)
	{
		for (int i = 0; i < n; i++)
			values[i] = PointerGetDatum(from[i] + offset);
		return;
	}
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

/* Begin to load a column, which holds no NULL so far. */
static void
begin_column(Column *column)
{
	if (column->dirty)
		memset(column->nulls, 0, sizeof(bool) * BATCH_ROWS);
	column->dirty = column->has_nulls = false;
	column->loaded = true;
}

/* Load an attribute at a constant offset. */
static void
gather_fixed(Deform *columns, const Attribute *attribute, Column *column)
{
	HeapTupleHeader *tuples = columns->tuples;
	const char *data[BATCH_ROWS];

	begin_column(column);
	if (columns->n > 0)
	{
		const char *first = (const char *) tuples[0] + tuples[0]->t_hoff + attribute->fixed_offset;

		reach(columns, first + (attribute->len > 0 ? attribute->len : attribute->len == -1 ? VARSIZE_ANY(first) : 0) -
			  (const char *) tuples[0]);
	}
	if (columns->hoff >= 0)
	{
		gather(attribute, (const char *const *) tuples, columns->hoff + attribute->fixed_offset, columns->n,
			   column->values);
		return;
	}
	for (int i = 0; i < columns->n; i++)
		data[i] = (const char *) tuples[i] + tuples[i]->t_hoff;
	gather(attribute, data, attribute->fixed_offset, columns->n, column->values);
}

/* Number of values of variable length that are stepped over together. */
#define MAX_STEPS 6

/* What a step is to fetch per row, by the number of rows. */
static int
share_of(Deform *columns, int n)
{
	VectorFetch *fetch = columns->fetch;
	int			left = fetch->n - fetch->next;
	int			steps = Max(columns->last_steps - columns->steps, 1);

	columns->steps++;
	if (left == 0 || n == 0)
		return 0;
	return (left + steps * n - 1) / (steps * n);
}

/*
 * Step over some values of variable length in every row, from attribute `from`
 * on, if all of them have a header of one byte: no alignment, no branch.
 * targets says where each value goes, if wanted. If some are NULL, `nullable`,
 * nulls says where that goes, and *any_null has a bit of each step that is
 * NULL in some row. Inlined with constants.
 */
static pg_attribute_always_inline bool
step_over(Deform *columns, int from, Datum *const *targets, bool *const *nulls, int steps, bool wanted, bool nullable,
		  uint64 *any_null)
{
	static const uint8 none = 1;
	const char *next[BATCH_ROWS];
	const char **at = columns->at;
	int			n = columns->n;
	Datum	   *into[MAX_STEPS] = {NULL};
	bool	   *null_into[MAX_STEPS] = {NULL};
	VectorFetch *fetch = columns->fetch;
	int			share = share_of(columns, n);
	int			line = fetch->next;
	int			last = fetch->n - 1;
	uint32		odd = 1;
	uint32		below_two = 0;
	uint64		all = ~UINT64CONST(0);

	/* copies, which the stores below cannot change */
	for (int s = 0; s < steps; s++)
	{
		into[s] = targets[s];
		null_into[s] = nullable ? nulls[s] : NULL;
	}
	for (int i = 0; i < n; i++)
	{
		const char *p = at[i];
		uint64		bits = nullable ? columns->bits[i] >> from : ~UINT64CONST(0);

		/* while this waits for memory, so may the next rows */
		for (int k = 0; k < share; k++, line++)
			__builtin_prefetch(fetch->lines[Min(line, last)], 0, 2);
		all &= bits;
		for (int s = 0; s < steps; s++)
		{
			bool		there = !nullable || (bits >> s & 1) != 0;

			/* the row may end before what is not there */
			uint32		header = *(there ? (const uint8 *) p : &none);

			/* an odd one is the length, except that of a TOAST pointer: 1 */
			odd &= header;
			below_two |= there ? header - 2 : 0;
			if (wanted)
			{
				into[s][i] = there ? PointerGetDatum(p) : (Datum) 0;
				if (nullable)
					null_into[s][i] = !there;
			}

			/*
			 * whatever else is even: stay there, so that nothing beyond the
			 * row is read
			 */
			p += there ? header >> 1 & -(header & 1) : 0;
		}
		next[i] = p;
	}
	fetch->next = Min(line, fetch->n);
	if (odd == 0 || below_two >> 31 != 0)
		return false;
	memcpy(at, next, sizeof(next[0]) * n);
	*any_null = ~all;

	return true;
}

/* The same for any number of steps; nulls is NULL if no value is. */
static bool
step_short(Deform *columns, int from, Datum *const *targets, bool *const *nulls, int steps, uint64 *any_null)
{
#define STEPS_OF(number, nullable) \
	(targets[0] != NULL ? step_over(columns, from, targets, nulls, number, true, nullable, any_null) : \
	 step_over(columns, from, targets, nulls, number, false, nullable, any_null))
#define STEPS(number) \
	case number: \
		return nulls == NULL ? STEPS_OF(number, false) : STEPS_OF(number, true)

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
is_wanted(Deform *columns, int a)
{
	int			c = columns->attributes[a].column;

	return c >= 0 && (!columns->selective || columns->first[c]);
}

/* Have the walk load an attribute, if it is wanted; return where to, or NULL. */
static Datum *
load_into(Deform *columns, int a)
{
	Column	   *column;

	if (!is_wanted(columns, a))
		return NULL;
	column = &columns->columns[columns->attributes[a].column];
	begin_column(column);

	return column->values;
}

/* Step over an attribute that is nowhere NULL and of variable length, in every row. */
static void
step(Deform *columns, int a)
{
	Attribute  *attribute = &columns->attributes[a];
	const char **at = columns->at;
	Datum	   *values = load_into(columns, a);
	int			n = columns->n;
	char		align = attribute->align;
	bool		wanted = values != NULL;
	bool		all_short = true;

	if (attribute->len != -1)
	{
		for (int i = 0; i < n; i++)
		{
			const char *p = (const char *) att_align_nominal((uintptr_t) at[i], align);

			if (wanted)
				values[i] = PointerGetDatum(p);
			at[i] = (const char *) att_addlength_pointer((uintptr_t) p, attribute->len, p);
		}
		return;
	}
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

/* Step over an attribute that is NULL or not there in some rows. */
static void
step_nullable(Deform *columns, int a)
{
	Attribute  *attribute = &columns->attributes[a];
	const char **at = columns->at;
	Datum	   *values = load_into(columns, a);
	Column	   *column = values == NULL ? NULL : &columns->columns[attribute->column];
	bool		only_null = (columns->only_null[a / 64] >> (a % 64) & 1) != 0;
	bool		all_short = true;

	if (only_null && column == NULL)
		return;
	for (int i = 0; i < columns->n; i++)
	{
		HeapTupleHeader tuple = columns->tuples[i];
		bool		missing = a >= HeapTupleHeaderGetNatts(tuple);
		Datum		value;
		bool		isnull;

		if (missing || only_null ||
			((tuple->t_infomask & HEAP_HASNULL) != 0 && att_isnull(a, tuple->t_bits)))
		{
			value = missing ? attribute->missing : (Datum) 0;
			isnull = !missing || attribute->missing_null;
		}
		else
		{
			const char *p = at[i];

			if (attribute->len == -1)
			{
				p = (const char *) att_align_pointer((uintptr_t) p, attribute->align, -1, p);
				all_short &= VARATT_IS_SHORT(p);
			}
			else
				p = (const char *) att_align_nominal((uintptr_t) p, attribute->align);
			at[i] = (const char *) att_addlength_pointer((uintptr_t) p, attribute->len, p);
			value = column == NULL ? (Datum) 0 : fetch_att(p, attribute->byval, attribute->len);
			isnull = false;
		}
		if (column != NULL)
		{
			values[i] = value;
			column->nulls[i] = isnull;
			column->has_nulls |= isnull;
		}
	}
	if (column != NULL)
		column->dirty = column->has_nulls;
	/* the next batch will be alike */
	attribute->lengthy = !all_short;
}

/* The number of bits in some bytes. */
static inline int
count_bits(uint64 bits, int nbytes)
{
	int			n = 0;

	for (int b = 0; b < nbytes; b++, bits >>= BITS_PER_BYTE)
		n += pg_number_of_ones[bits & 0xFF];
	return n;
}

/*
 * The values of an attribute, where rows have one: behind the first of its
 * neighbors lie as many values as bits are set before its own.
 */
static void
gather_alike(const Attribute *attribute, const char *const *from, const uint64 *bits, int first, int a, int n,
			 Column *column)
{
	uint64		before = (UINT64CONST(1) << (a - first)) - 1;
	int			nbytes = (a - first + BITS_PER_BYTE - 1) / BITS_PER_BYTE;
	Datum	   *values = column->values;
	bool	   *nulls = column->nulls;
	uint64		all = ~UINT64CONST(0);

#define GATHER_ALIKE(type, get) \
	for (int i = 0; i < n; i++) \
	{ \
		bool		there = (bits[i] >> a & 1) != 0; \
		static const type none = 0; \
		const type *p = there ? (const type *) from[i] + count_bits(bits[i] >> first & before, nbytes) : &none; \
		values[i] = get(*p); \
		nulls[i] = !there; \
		all &= bits[i]; \
	}

	switch (attribute->len)
	{
		case 1:
			GATHER_ALIKE(char, CharGetDatum);
			break;
		case 2:
			GATHER_ALIKE(int16, Int16GetDatum);
			break;
		case 4:
			GATHER_ALIKE(int32, Int32GetDatum);
			break;
		case 8:
			GATHER_ALIKE(Datum, (Datum));
			break;
		default:
			elog(ERROR, "unsupported byval length: %d", attribute->len);
	}
	column->has_nulls = column->dirty = (all >> a & 1) == 0;
}

/* Step over neighbors of one length, which is their alignment, of which some may be NULL. */
static void
step_alike(Deform *columns, int from, int end)
{
	const Attribute *first = &columns->attributes[from];
	const char **at = columns->at;
	int			n = columns->n;
	int			len = first->len;
	uintptr_t	align = first->align_bytes - 1;
	uint64		within = ~UINT64CONST(0) >> (BITS_AVAILABLE - (end - from));
	int			nbytes = (end - from + BITS_PER_BYTE - 1) / BITS_PER_BYTE;
	int			c = first->next_column;
	const char *begin[BATCH_ROWS];

	Assert(end > from && end <= first->alike_end && end <= columns->nbits);
	for (int i = 0; i < n; i++)
	{
		uint64		bits = columns->bits[i] >> from & within;
		const char *p = (const char *) (((uintptr_t) at[i] + align) & ~align);

		begin[i] = p;
		/* what is not there needs no alignment */
		at[i] = bits != 0 ? p + len * count_bits(bits, nbytes) : at[i];
	}
	for (; c < columns->ncolumns && columns->columns[c].attno <= end; c++)
	{
		int			a = columns->columns[c].attno - 1;

		if (load_into(columns, a) != NULL)
			gather_alike(&columns->attributes[a], begin, columns->bits, from, a, n, &columns->columns[c]);
	}
}

/* Step over the attributes of a run, none of which is NULL anywhere. */
static void
step_run(Deform *columns, int from, int end)
{
	const Attribute *first = &columns->attributes[from];
	const Attribute *last = &columns->attributes[end - 1];
	const char **at = columns->at;
	int			n = columns->n;
	uintptr_t	align = first->align_bytes - 1;
	int			length = last->distance + last->len - first->distance;
	int			c = first->next_column;

	Assert(end > from && end <= first->run_end);
	if (c >= columns->ncolumns || columns->columns[c].attno > end)
	{
		for (int i = 0; i < n; i++)
			at[i] = (const char *) (((uintptr_t) at[i] + align) & ~align) + length;
		return;
	}
	for (int i = 0; i < n; i++)
		at[i] = (const char *) (((uintptr_t) at[i] + align) & ~align);
	for (; c < columns->ncolumns && columns->columns[c].attno <= end; c++)
	{
		int			a = columns->columns[c].attno - 1;
		Datum	   *values = load_into(columns, a);

		if (values != NULL)
			gather(&columns->attributes[a], at, columns->attributes[a].distance - first->distance, n, values);
	}
	for (int i = 0; i < n; i++)
		at[i] += length;
}

/* Step over attributes the first of which is NULL, or not there, in some rows; return how many. */
static int
step_nullables(Deform *columns, int from, int until)
{
	Datum	   *targets[MAX_STEPS];
	bool	   *nulls[MAX_STEPS];
	uint64		any_null;
	int			steps = 0;

	until = Min(until, columns->nbits);
	while (steps < MAX_STEPS && from + steps < until)
	{
		Attribute  *attribute = &columns->attributes[from + steps];

		if (attribute->len != -1 || attribute->lengthy || is_wanted(columns, from + steps) != is_wanted(columns, from))
			break;
		targets[steps] = load_into(columns, from + steps);
		nulls[steps] = targets[steps] == NULL ? NULL : columns->columns[attribute->column].nulls;
		steps++;
	}
	if (steps == 0 || !step_short(columns, from, targets, nulls, steps, &any_null))
	{
		/* it finds out whether the next batch is alike */
		step_nullable(columns, from);
		return 1;
	}
	for (int s = 0; s < steps && targets[0] != NULL; s++)
	{
		Column	   *column = &columns->columns[columns->attributes[from + s].column];

		column->has_nulls = column->dirty = (any_null >> s & 1) != 0;
	}
	return steps;
}

/* Begin a walk; return from which attribute on it goes. */
static int
begin_walk(Deform *columns, int until)
{
	const char **at = columns->at;
	HeapTupleHeader *tuples = columns->tuples;
	int			n = columns->n;

	/*
	 * up to the last attribute at a constant offset there is nothing to walk:
	 * gather_fixed() needs it not
	 */
	int			from = Min(columns->nfixed - 1, Min(columns->plain, until));
	int			start = 0;

	Assert(n == 0 || (uintptr_t) tuples[0] % MAXIMUM_ALIGNOF == 0);
	if (from > 0)
		start = columns->attributes[from - 1].fixed_offset + columns->attributes[from - 1].len;
	if (columns->hoff >= 0)
	{
		start += columns->hoff;
		for (int i = 0; i < n; i++)
			at[i] = (const char *) tuples[i] + start;
	}
	else
	{
		for (int i = 0; i < n; i++)
			at[i] = (const char *) tuples[i] + tuples[i]->t_hoff + start;
	}
	return from;
}

/*
 * Walk the rows from where the last walk ended to the attribute before
 * `until`, and load what is wanted on the way. It goes an attribute at a time:
 * the steps of different rows do not depend on each other, so that the
 * processor works on many at once. A row's data begins at a multiple of
 * MAXIMUM_ALIGNOF, so that pointers can be aligned as offsets are.
 */
static void
walk(Deform *columns, int until)
{
	int			from = columns->walked == 0 ? begin_walk(columns, until) : columns->walked;
	int			limit = Min(columns->plain, until); /* before it, no attribute
													 * is NULL anywhere */

	while (from < until)
	{
		Attribute  *attribute = &columns->attributes[from];
		Datum	   *targets[MAX_STEPS];
		uint64		any_null;
		int			steps = 0;

		if (from < columns->nbits && attribute->alike_end > 0)
		{
			int			end = Min(attribute->alike_end, until);

			if (next_nullable(columns, from, end) < end)
			{
				step_alike(columns, from, end);
				from = end;
				continue;
			}
		}
		if (is_nullable(columns, from))
		{
			from += step_nullables(columns, from, until);
			continue;
		}
		if (limit <= from)
			limit = next_nullable(columns, from, until);
		if (attribute->len > 0)
		{
			int			end = Min(attribute->run_end, limit);

			step_run(columns, from, end);
			from = end;
			continue;
		}
		while (steps < MAX_STEPS && from + steps < limit &&
			   attribute[steps].len == -1 && !attribute[steps].lengthy &&
			   (steps == 0 || is_wanted(columns, from + steps) == is_wanted(columns, from)))
		{
			targets[steps] = load_into(columns, from + steps);
			steps++;
		}
		if (steps > 0 && step_short(columns, from, targets, NULL, steps, &any_null))
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
	if (columns->n > 0 && columns->n * 4 >= columns->begun)
	{
		int64		bytes = 0;

		for (int i = 0; i < columns->n; i++)
			bytes += columns->at[i] - (const char *) columns->tuples[i];
		reach(columns, bytes / columns->n);
	}
}

/* Load a column for the rows that are left, and perhaps others on the way. */
void
deform_load(Deform *columns, int index)
{
	Column	   *column = &columns->columns[index];
	Attribute  *attribute = &columns->attributes[column->attno - 1];
	int			until;

	if (is_fixed(columns, column->attno - 1))
	{
		gather_fixed(columns, attribute, column);
		return;
	}

	/* all that this stage of the work can need, and what is on the way */
	until = Max(column->filter ? columns->filter_attributes : columns->nattributes,
				column->attno);
	Assert(until > columns->walked);
	walk(columns, until);
}

/*
 * Load the columns listed for all rows, and nothing that is on the way there:
 * worthwhile where few rows will be left, for which the walk begins anew.
 */
void
deform_load_only(Deform *columns, const int *indexes, int n)
{
	int			until = 0;

	/* after a walk it is too late */
	if (columns->walked > 0)
		return;
	for (int i = 0; i < n; i++)
	{
		Column	   *column = &columns->columns[indexes[i]];

		columns->first[indexes[i]] = !is_fixed(columns, column->attno - 1);
		if (columns->first[indexes[i]])
			until = Max(until, column->attno);
	}
	if (until > 0)
	{
		columns->selective = true;
		walk(columns, until);
		columns->selective = false;
		columns->walked = 0;
	}
}

/* Can a column be loaded without a walk? */
bool
deform_is_cheap(Deform *columns, int index)
{
	return is_fixed(columns, columns->columns[index].attno - 1);
}

/* Is it known that a column holds no NULL? */
bool
deform_has_no_nulls(Deform *columns, int index)
{
	return !is_nullable(columns, columns->columns[index].attno - 1);
}

/* Find which rows have NULL in a column, whether or not it is loaded. */
void
deform_find_nulls(Deform *columns, int index, bool *nulls)
{
	int			a = columns->columns[index].attno - 1;

	if (!is_nullable(columns, a))
		memset(nulls, 0, sizeof(bool) * columns->n);
	else if (a < columns->nbits)
	{
		for (int i = 0; i < columns->n; i++)
			nulls[i] = (columns->bits[i] >> a & 1) == 0;
	}
	else
	{
		for (int i = 0; i < columns->n; i++)
		{
			HeapTupleHeader tuple = columns->tuples[i];

			if (a >= HeapTupleHeaderGetNatts(tuple))
				nulls[i] = columns->attributes[a].missing_null;
			else
				nulls[i] = (tuple->t_infomask & HEAP_HASNULL) != 0 && att_isnull(a, tuple->t_bits);
		}
	}
}

/* The n rows listed are left. */
void
deform_keep(Deform *columns, const uint16 *rows, int n)
{
	columns->n = n;
	if (columns->ncolumns == 0)
		return;
	for (int k = 0; k < n; k++)
		columns->tuples[k] = columns->tuples[rows[k]];
	if (columns->nbits > 0)
	{
		for (int k = 0; k < n; k++)
			columns->bits[k] = columns->bits[rows[k]];
	}
	if (columns->walked > 0)
	{
		for (int k = 0; k < n; k++)
			columns->at[k] = columns->at[rows[k]];
	}
}

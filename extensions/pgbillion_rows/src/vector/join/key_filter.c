/*-------------------------------------------------------------------------
 *
 * key_filter.c
 *	  The keys of build sides, by which rows of the table that cannot join are
 *	  removed before anything else is computed of them.
 *
 * When the table is first read, the build sides of all joins have been. Of
 * each inner join and semijoin whose key is an integer column of the table, the
 * least and the greatest key are known, and which values between them occur: a
 * bitmap where they are dense, a Bloom filter where not, or only the bounds
 * where either would take too much memory. Values are compared as the join
 * itself compares them: within one family of operators on integers or dates,
 * which are leakproof, and have no collation.
 *
 * Rows of the table are on the preserved side of the other joins, whether they
 * come before or after: a row that an inner join or a semijoin is to remove is
 * of no use to them.
 *
 * A semijoin's or antijoin's rows may be those of the build side, which the table
 * marks. One match does, if there is no further condition: then the key is
 * forgotten, and further rows that have it are removed, too.
 *
 * A build side that went to partitions is not asked. Keys that remove few rows
 * are left out for a while, and those that remove most come first.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/float.h"
#include "utils/memutils.h"

#include "vector/filter/predicate.h"
#include "vector/huge_pages.h"
#include "vector/join/join.h"

/* Keys of one build side. */
typedef struct KeySet
{
	JoinBuild  *build;
	int			key;			/* which of its keys */
	int			column;			/* of the table's batch */
	AttrNumber	attno;			/* of the table */
	Oid			type;			/* of that */

	bool		usable;			/* there is something to be known */
	uint64		serial;			/* of the build side of which it is known */
	int64		min;
	int64		max;
	uint64	   *bits;			/* NULL: the bounds are all that is known */
	bool		bitmap;			/* a bit for each value, else a Bloom filter */
	bool		dense;			/* about as many keys as values between the
								 * bounds */
	int			shift;			/* of a Bloom filter: 64 - log2(its words) */
	bool		forgot;			/* some keys are not in the bits any more */

	/* what it is good for */
	int			seen;			/* rows of late */
	int			passed;
	int			rest;			/* rows of the table for which it is left out */
	/* of all that it has been asked for */
	double		rows;
	double		removed;
	double		looked_up;		/* those within the bounds */
	double		batches;		/* nearly full ones, */
	double		emptied;		/* and those of which no row was left */
	bool		by_pages;		/* its column is loaded from pages */
} KeySet;

struct JoinKeyFilter
{
	int			nsets;
	KeySet	   *sets;
	MemoryContext context;		/* bits */
	VectorFilter *filter;		/* of the table, for what is excluded */
	uint64		removed;		/* rows */
};

/* How many rows are seen before it is decided whether to go on, and which set comes first. */
#define DECISION_ROWS 4096
#define FIRST_DECISION_ROWS 256

/* About what a row takes, in nanoseconds: cost_of_first(). Estimates that order keys as was measured to be fastest. */
#define PACKED_ROW_COST 0.3
#define PAGE_ROW_COST 1.0
#define PASSED_COLUMN_COST 0.75
#define LOOK_UP_COST 4.0
#define NEXT_ROW_COST 5.0
#define NEXT_BATCH_COST 0.5

/* For how many a set that removes fewer than half of them is left out. */
#define REST_ROWS (32 * DECISION_ROWS)

/* Bits per key: of a bitmap at most, and of a Bloom filter at least. */
#define BITMAP_BITS 64
#define BLOOM_BITS 16

/* A filter for the rows of a table, without keys yet. In the current context. */
JoinKeyFilter *
join_key_filter_create(VectorFilter *filter)
{
	JoinKeyFilter *result = palloc0(sizeof(JoinKeyFilter));

	result->filter = filter;
	result->context = AllocSetContextCreate(CurrentMemoryContext, "pgbillion keys of joins",
											ALLOCSET_DEFAULT_SIZES);
	return result;
}

/* Add a key of an inner join or a semijoin, to which a column of the table's batch, of this attribute, is compared. */
void
join_key_filter_add(JoinKeyFilter *filter, JoinBuild *build, int key, int column, AttrNumber attno, Oid type)
{
	MemoryContext old = MemoryContextSwitchTo(GetMemoryChunkContext(filter));
	KeySet	   *set;

	filter->sets = filter->sets == NULL ? palloc(sizeof(KeySet)) :
		repalloc(filter->sets, sizeof(KeySet) * (filter->nsets + 1));
	set = &filter->sets[filter->nsets++];
	memset(set, 0, sizeof(KeySet));
	set->build = build;
	set->key = key;
	set->column = column;
	set->attno = attno;
	set->type = type;
	MemoryContextSwitchTo(old);
}

/* ---- what is known ---- */

static inline uint64
hash_of(int64 value)
{
	uint64		word = (uint64) value;

	return (word ^ (word >> 32)) * UINT64CONST(0x9E3779B97F4A7C15);
}

/* Two bits of a word of a Bloom filter. */
static inline uint64
bloom_mask(uint64 hash)
{
	return (UINT64CONST(1) << (hash & 63)) | (UINT64CONST(1) << ((hash >> 6) & 63));
}

/* Set the bits of the keys that occur. They are the tags. */
static void
set_bits(KeySet *set)
{
	uint64		slot = 0;
	uint64		tag;

	while (join_table_tags(set->build->table, &slot, &tag))
	{
		uint64		hash = hash_of((int64) tag);

		if (set->bitmap)
			set->bits[(tag - (uint64) set->min) / 64] |= UINT64CONST(1) << ((tag - (uint64) set->min) & 63);
		else
			set->bits[hash >> set->shift] |= bloom_mask(hash);
	}
	set->forgot = false;
}

/* Note which keys occur, unless that would take too much memory. */
static void
note_values(JoinKeyFilter *filter, KeySet *set)
{
	JoinTable  *table = set->build->table;
	uint64		count = join_table_count(table);
	uint64		range = (uint64) set->max - (uint64) set->min;
	uint64		words = 64;

	set->bitmap = range / BITMAP_BITS < Max(count, 1024);
	set->shift = 64 - 6;
	if (set->bitmap)
		words = range / 64 + 1;
	else
		while (words * 64 < count * BLOOM_BITS)
		{
			words *= 2;
			set->shift--;
		}
	if (words * sizeof(uint64) > join_table_limit(table) / 8)
		return;
	/* that can be more than 1 GB */
	set->bits = alloc_zero_for_random_access(filter->context, sizeof(uint64) * words);
	set_bits(set);
}

/*
 * The table is about to be read, and all build sides have been. What is known
 * of one that has not been read again stays, with the keys that were forgotten.
 */
void
join_key_filter_begin(JoinKeyFilter *filter)
{
	bool		same = true;

	for (int i = 0; i < filter->nsets; i++)
		same &= filter->sets[i].serial == filter->sets[i].build->serial;
	for (int i = 0; i < filter->nsets; i++)
	{
		KeySet	   *set = &filter->sets[i];

		set->seen = set->passed = set->rest = 0;
		if (same && set->forgot)
			set_bits(set);
	}
	if (same)
		return;
	MemoryContextReset(filter->context);
	for (int i = 0; i < filter->nsets; i++)
	{
		KeySet	   *set = &filter->sets[i];
		JoinBuild  *build = set->build;

		set->serial = build->serial;

		/*
		 * rows with a NULL among their keys, which an antijoin keeps, have no
		 * bounds
		 */
		set->usable = build->complete && build->min[set->key] <= build->max[set->key];
		set->bits = NULL;
		set->forgot = false;
		if (!set->usable)
			continue;
		set->min = build->min[set->key];
		set->max = build->max[set->key];
		Assert(join_table_count(build->table) > 0);
		if (join_keys_direct(build->join_keys))
			note_values(filter, set);
		set->dense = (double) set->max - (double) set->min < 2.0 * join_table_count(build->table);
	}
}

/*
 * Of n rows with these tags, those that have an entry need not be followed by
 * others of the same key. In a Bloom filter, keys share their bits.
 */
void
join_key_filter_forget(JoinKeyFilter *filter, const JoinBuild *build, const uint64 *tags, JoinEntry *const *entries,
					   int n)
{
	for (int i = 0; i < filter->nsets; i++)
	{
		KeySet	   *set = &filter->sets[i];

		if (set->build != build || !set->usable || set->bits == NULL || !set->bitmap)
			continue;
		/* the bits are of one key, which is the tag */
		Assert(join_keys_direct(build->join_keys));
		for (int row = 0; row < n; row++)
		{
			uint64		place = tags[row] - (uint64) set->min;

			if (entries[row] == NULL)
				continue;
			Assert(place <= (uint64) set->max - (uint64) set->min);
			set->bits[place / 64] &= ~(UINT64CONST(1) << (place & 63));
		}
		set->forgot = true;
	}
}

/* ---- what it removes ---- */

/*
 * List the rows whose value may occur, of a column that the source has as an
 * array of integers; return how many. What is within the bounds is looked up
 * without a branch for each row, whose outcome could not be foreseen.
 */
static int
select_packed(KeySet *set, const Packed *packed, int n, uint16 *rows)
{
	const uint64 *bits = set->bits;
	uint64		base = (uint64) packed->base;
	uint64		above = base - (uint64) set->min;
	int			within = n;
	int			k = 0;

	if (set->min <= packed->min && packed->max <= set->max)
	{
		for (int i = 0; i < n; i++)
			rows[i] = i;
	}
	else
		within = filter_select_packed_integers(packed, set->min, set->max, NULL, n, rows);
	/* an element that stands for NULL may be out of bounds */
	if (packed->nulls != NULL)
		within = filter_leave_out_nulls(packed->nulls, rows, within);
	if (bits == NULL)
		return within;
	set->looked_up += within;

#define SELECT_PACKED(type) \
	do { \
		const type *elements = packed->array; \
		if (set->bitmap) \
			for (int i = 0; i < within; i++) \
			{ \
				uint64		place = elements[rows[i]] + above; \
				Assert(place <= (uint64) set->max - (uint64) set->min); \
				rows[k] = rows[i]; \
				k += (bits[place / 64] >> (place & 63)) & 1; \
			} \
		else \
			for (int i = 0; i < within; i++) \
			{ \
				uint64		hash = hash_of((int64) (base + elements[rows[i]])); \
				uint64		mask = bloom_mask(hash); \
				rows[k] = rows[i]; \
				k += (bits[hash >> set->shift] & mask) == mask; \
			} \
	} while (0)

	switch (packed->width)
	{
		case 1:
			SELECT_PACKED(uint8);
			break;
		case 2:
			SELECT_PACKED(uint16);
			break;
		case 4:
			SELECT_PACKED(uint32);
			break;
		default:
			SELECT_PACKED(uint64);
			break;
	}
#undef SELECT_PACKED

	return k;
}

/* List the rows of the batch whose value may occur; return how many. */
static int
select_rows(KeySet *set, const Column *column, int n, uint16 *rows)
{
	const Datum *values = column->values;
	const uint64 *bits = set->bits;
	uint64		base = (uint64) set->min;
	uint64		range = (uint64) set->max - base;
	int			k = 0;

#define SELECT(GET, TEST) \
	for (int i = 0; i < n; i++) \
	{ \
		uint64		v = (uint64) (int64) (GET); \
		uint64		above = v - base; \
		bool		within = above <= range; \
		rows[k] = i; \
		k += within && (TEST); \
	}
#define SELECT_BY(GET) \
	do { \
		if (bits == NULL) \
			SELECT(GET, true) \
		else if (set->bitmap) \
			SELECT(GET, (bits[above / 64] >> (above & 63)) & 1) \
		else \
			SELECT(GET, (bits[hash_of((int64) v) >> set->shift] & bloom_mask(hash_of((int64) v))) == \
				   bloom_mask(hash_of((int64) v))) \
	} while (0)

	switch (set->type)
	{
		case INT4OID:
		case DATEOID:
			SELECT_BY(DatumGetInt32(values[i]));
			break;
		case INT8OID:
			SELECT_BY(DatumGetInt64(values[i]));
			break;
		default:
			SELECT_BY(int_of(values[i], set->type));
	}

	/*
	 * where nearly all values within the bounds occur, about those that are
	 * left
	 */
	if (bits != NULL)
		set->looked_up += set->dense ? k : n;
	return column->has_nulls ? filter_leave_out_nulls(column->nulls, rows, k) : k;
}

/* Is the column compared as what it is? As another type of the same bits, its numbers may be others. */
static inline bool
is_own_type(const KeySet *set, const Batch *batch)
{
	return set->type == batch->columns[set->column].type;
}

/* Is a set worth a look at a batch that had n rows? Sets that are not have a rest. */
static bool
is_worthwhile(KeySet *set, int n)
{
	if (!set->usable)
		return false;
	if (set->rest > 0)
	{
		set->rest -= n;
		return false;
	}
	return true;
}

/* Count rows that a set has been asked for; true if it has been decided what it is good for. */
static bool
count_passed(KeySet *set, int seen, int passed)
{
	bool		first = set->rows < FIRST_DECISION_ROWS;

	set->seen += seen;
	set->passed += passed;
	set->rows += seen;
	set->removed += seen - passed;
	if (seen > BATCH_ROWS / 2)
	{
		set->batches++;
		set->emptied += passed == 0;
	}
	if (set->seen < DECISION_ROWS)
		return first && set->rows >= FIRST_DECISION_ROWS;
	set->rest = set->passed > set->seen / 2 ? REST_ROWS : 0;
	set->seen = set->passed = 0;
	return true;
}

/*
 * What it takes to have a set come first, for each row, in nanoseconds: to load
 * its column, which of pages is done on the way past others; to compare a value
 * with the bounds, and to look it up; and what the next set takes for rows that
 * are left. Rows that are next to each other may have the same key: what counts
 * is not what was removed of late, but of all.
 */
static double
cost_of_first(const KeySet *set)
{
	double		load = set->by_pages ? PAGE_ROW_COST + PASSED_COLUMN_COST * set->attno : PACKED_ROW_COST;
	double		next = set->by_pages ? 0 : NEXT_BATCH_COST * (1 - set->emptied / Max(set->batches, 1));

	if (set->rows == 0)
		return get_float8_infinity();
	return load + LOOK_UP_COST * set->looked_up / set->rows + NEXT_ROW_COST * (1 - set->removed / set->rows) + next;
}

/* Have those come first that save most. There are few. */
static void
sort_sets(JoinKeyFilter *filter)
{
	for (int i = 1; i < filter->nsets; i++)
	{
		KeySet		moved = filter->sets[i];
		int			place = i;

		while (place > 0 && cost_of_first(&filter->sets[place - 1]) > cost_of_first(&moved))
		{
			filter->sets[place] = filter->sets[place - 1];
			place--;
		}
		filter->sets[place] = moved;
	}
}

/*
 * Remove rows from a batch of the table that cannot join. It is full of what
 * the source has given; a batch that is void is left without any row.
 */
void
join_key_filter_batch(JoinKeyFilter *filter, Batch *batch)
{
	uint16		rows[BATCH_ROWS];
	int			all = batch->n;
	bool		decided = false;

	for (int i = 0; i < filter->nsets && batch->n > 0; i++)
	{
		KeySet	   *set = &filter->sets[i];
		int			before = batch->n;
		Packed		packed;
		int			n;

		if (!is_worthwhile(set, all))
			continue;
		if (!batch_prepare(batch, &set->column, 1))
		{
			batch->n = 0;
			return;
		}
		if (!batch->columns[set->column].loaded && is_own_type(set, batch) &&
			batch_packed_nulls(batch, set->column, &packed) && packed.kind == PACKED_INTEGERS)
			n = select_packed(set, &packed, before, rows);
		else
		{
			if (!batch->columns[set->column].loaded)
				batch->source->methods->load_only(batch->source, batch, &set->column, 1);
			n = select_rows(set, batch_column(batch, set->column), before, rows);
			set->by_pages = batch->source->methods->bounds == NULL;
		}
		decided |= count_passed(set, before, n);
		filter->removed += before - n;
		if (n < before)
			batch_keep(batch, rows, n, false);
	}
	if (decided)
		sort_sets(filter);
}

/* Is no row of the next batches of any use, as far as their source knows? */
bool
join_key_filter_excludes(void *arg, Batch *batch)
{
	JoinKeyFilter *filter = arg;

	if (vector_filter_excludes(filter->filter, batch))
		return true;
	for (int i = 0; i < filter->nsets; i++)
	{
		KeySet	   *set = &filter->sets[i];
		Bounds		bounds;

		if (set->usable && is_own_type(set, batch) && batch->source->methods->bounds != NULL &&
			batch->source->methods->bounds(batch->source, batch, set->column, &bounds) &&
			!bounds.floats && bounds.scale < 0 && (bounds.min > set->max || bounds.max < set->min))
			return true;
	}
	return false;
}

/* How many rows have been removed. */
uint64
join_key_filter_removed(const JoinKeyFilter *filter)
{
	return filter->removed;
}

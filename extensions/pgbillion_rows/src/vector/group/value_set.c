/*-------------------------------------------------------------------------
 *
 * value_set.c
 *	  Pairs of a value and a group, each once.
 *
 * Values are of types that are equal if and only if their bits are. A slot of
 * the table, with open addressing, is the pair and nothing else: two words,
 * where a table of groups (group_table.c) has an entry in addition. A group is the
 * address of its entry; without groups it is any that is not NULL.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "vector/group/value_set.h"
#include "vector/keys/slots.h"

/* Number of pairs that have room whatever the limit is, so that a caller that spills others makes progress. */
#define MIN_VALUES 256

/* What all rows without groups are of. */
#define NO_GROUP ((void *) 1)

/* Slots beyond that are not all in the processor's first cache. */
#define FETCHED_SLOTS 1024

struct ValueSet
{
	int16		len;			/* of the type */
	Size		limit;
	MemoryContext context;		/* the slots */
	KeySlots	slots;			/* of a value, and its group */
	uint64		n;				/* pairs */
	bool		full;
	uint64		tags[BATCH_ROWS];	/* of the pairs looked for last */
	uint64		words[BATCH_ROWS];	/* their values */
};

static void
start(ValueSet *set)
{
	key_slots_start(&set->slots, set->context);
	set->n = 0;
	set->full = false;
}

/*
 * A set of values of a type that is passed by value and has `len` bytes, which
 * may take `limit` bytes of memory. It belongs to the current context.
 */
ValueSet *
value_set_create(int16 len, Size limit)
{
	ValueSet   *set = palloc0(sizeof(ValueSet));

	set->len = len;
	set->limit = limit;
	set->context = AllocSetContextCreate(CurrentMemoryContext, "pgbillion distinct values",
										 ALLOCSET_DEFAULT_SIZES);
	start(set);

	return set;
}

/* Forget all pairs. */
void
value_set_reset(ValueSet *set)
{
	MemoryContextReset(set->context);
	start(set);
}

/* How many pairs there are. */
int64
value_set_count(const ValueSet *set)
{
	return set->n;
}

/* Hashes of the pairs that value_set_add() was given last. */
const uint64 *
value_set_tags(const ValueSet *set)
{
	return set->tags;
}

/* A hash whose high bits depend on all bits of both. */
static inline uint64
hash_pair(uint64 value, uint64 group)
{
	/* 2^64 / golden ratio, and the multiplier of Knuth's MMIX generator */
	uint64		hash = value * UINT64CONST(0x9E3779B97F4A7C15) ^ group * UINT64CONST(6364136223846793005);

	hash ^= hash >> 32;
	return hash * UINT64CONST(0x9E3779B97F4A7C15);
}

static inline uint64
hash_slot(const KeySlot *slot)
{
	return hash_pair(slot->tag, (uintptr_t) slot->entry);
}

/* Have room for n more pairs, or for none that is new. */
static void
make_room(ValueSet *set, int n)
{
	while (!set->full && key_slots_lack(&set->slots, set->n + n))
	{
		/* the old slots are there until the new ones are filled */
		if (3 * set->slots.nslots * sizeof(KeySlot) > set->limit && set->n >= MIN_VALUES)
			set->full = true;
		else
			key_slots_grow_by(&set->slots, 0, hash_slot);
	}
}

/* The bits of the values that count, and hashes of the pairs. */
static void
hash_pairs(ValueSet *set, const Datum *values, const Datum *groups, int n)
{
	uint64		mask = ~UINT64CONST(0) >> (64 - 8 * set->len);

	Assert(set->len > 0 && set->len <= sizeof(Datum));
	for (int i = 0; i < n; i++)
		set->words[i] = (uint64) values[i] & mask;
	if (groups == NULL)
		for (int i = 0; i < n; i++)
			set->tags[i] = hash_pair(set->words[i], (uintptr_t) NO_GROUP);
	else
		for (int i = 0; i < n; i++)
			set->tags[i] = hash_pair(set->words[i], (uint64) groups[i]);
}

/* Have the slot of a pair on its way. */
static inline void
fetch_slot(const ValueSet *set, int pair)
{
	__builtin_prefetch(&set->slots.slot[set->tags[pair] >> set->slots.shift], 1);
}

/*
 * Add pairs, of which there are no more than a batch has. Lists those that are
 * new, and those that are not there and found no room; returns how many are
 * new.
 */
int
value_set_add(ValueSet *set, const Datum *values, const Datum *groups, int n,
			  uint16 *added, uint16 *missing, int *nmissing)
{
	int			nadded = 0;
	uint64		mask;
	bool		far;

	Assert(n <= BATCH_ROWS);
	make_room(set, n);
	hash_pairs(set, values, groups, n);
	mask = set->slots.nslots - 1;
	*nmissing = 0;
	far = set->slots.nslots > FETCHED_SLOTS;
	for (int i = 0; far && i < Min(KEY_SLOTS_AHEAD, n); i++)
		fetch_slot(set, i);
	for (int i = 0; i < n; i++)
	{
		uint64		value = set->words[i];
		void	   *group = groups == NULL ? NO_GROUP : DatumGetPointer(groups[i]);
		uint64		s = set->tags[i] >> set->slots.shift;

		if (far)
			fetch_slot(set, Min(i + KEY_SLOTS_AHEAD, n - 1));
		while (set->slots.slot[s].entry != NULL && (set->slots.slot[s].tag != value || set->slots.slot[s].entry != group))
			s = (s + 1) & mask;
		if (set->slots.slot[s].entry != NULL)
			continue;
		if (set->full)
		{
			missing[(*nmissing)++] = i;
			continue;
		}
		set->slots.slot[s].tag = value;
		set->slots.slot[s].entry = group;
		set->n++;
		added[nadded++] = i;
	}
	return nadded;
}

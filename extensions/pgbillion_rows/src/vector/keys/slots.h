/*-------------------------------------------------------------------------
 *
 * slots.h
 *	  The slots of hash tables over tags, with open addressing.
 *
 * Between a third and two thirds of them are taken. The tables themselves know
 * what an entry is, and look for it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGBILLION_VECTOR_KEY_SLOTS_H
#define PGBILLION_VECTOR_KEY_SLOTS_H

#include "utils/palloc.h"

#include "vector/huge_pages.h"

#define KEY_SLOTS_MIN 256

typedef struct KeySlot
{
	uint64		tag;
	void	   *entry;			/* NULL: free */
} KeySlot;

typedef struct KeySlots
{
	MemoryContext context;		/* where they are */
	KeySlot    *slot;
	uint64		nslots;			/* a power of two */
	int			shift;			/* 64 - log2(nslots) */
} KeySlots;

/*
 * Slots of a table beyond the caches are prefetched for this number of rows
 * ahead of the one that is looked for. Some processors drop prefetches of which
 * there are too many at a time.
 */
#define KEY_SLOTS_AHEAD 16

/* Up to this number of slots, they are near enough as it is. */
#define KEY_SLOTS_NEAR 4096

/* The fewest slots, in a context that has been reset, or is new. */
static inline void
key_slots_start(KeySlots *slots, MemoryContext context)
{
	slots->context = context;
	slots->nslots = KEY_SLOTS_MIN;
	slots->shift = 64 - 8;
	slots->slot = MemoryContextAllocZero(context, sizeof(KeySlot) * slots->nslots);
}

/* A hash of a tag whose high bits choose the slot. */
static inline uint64
key_tag_hash(uint64 tag)
{
	/*
	 * Fibonacci hashing: the high bits of a product by 2^64 / golden ratio,
	 * after folding
	 */
	return (tag ^ (tag >> 32)) * UINT64CONST(0x9E3779B97F4A7C15);
}

/* The slot from which on a tag is looked for. */
static inline uint64
key_slot_of(const KeySlots *slots, uint64 tag)
{
	return key_tag_hash(tag) >> slots->shift;
}

/* Have the slot of a tag on its way. */
static inline void
key_slots_fetch(const KeySlots *slots, uint64 tag)
{
	__builtin_prefetch(&slots->slot[key_slot_of(slots, tag)]);
}

/*
 * The slot at which a walk over all of them comes as the i-th. Entries in the
 * order of the slots would all begin at the same end of a table that begins
 * small, so that each is put behind a long row of others: the time to insert
 * them would grow with the square of their number. So the walk leaps.
 */
static inline uint64
key_slots_walk(const KeySlots *slots, uint64 i)
{
	return (i * (UINT64CONST(0x9E3779B97F4A7C15) >> slots->shift | 1)) & (slots->nslots - 1);
}

/* Are there too few for n entries? */
static inline bool
key_slots_lack(const KeySlots *slots, uint64 n)
{
	return n * 3 > slots->nslots * 2;
}

/* The bytes that twice as many take. */
static inline Size
key_slots_next_bytes(const KeySlots *slots)
{
	return 2 * slots->nslots * sizeof(KeySlot);
}

/*
 * Make at least twice as many, and enough for n entries. The hash of a slot is
 * that by which its entry is looked for.
 */
static pg_attribute_always_inline void
key_slots_grow_by(KeySlots *slots, uint64 n, uint64 (*hash) (const KeySlot *slot))
{
	KeySlot    *old = slots->slot;
	uint64		nold = slots->nslots;

	do
	{
		slots->nslots *= 2;
		slots->shift--;
	} while (key_slots_lack(slots, n));
	slots->slot = alloc_zero_for_random_access(slots->context, sizeof(KeySlot) * slots->nslots);
	for (uint64 i = 0; i < nold; i++)
	{
		uint64		s;

		if (old[i].entry == NULL)
			continue;
		s = hash(&old[i]) >> slots->shift;
		while (slots->slot[s].entry != NULL)
			s = (s + 1) & (slots->nslots - 1);
		slots->slot[s] = old[i];
	}
	pfree(old);
}

static inline uint64
key_slot_tag_hash(const KeySlot *slot)
{
	return key_tag_hash(slot->tag);
}

/* The same where entries are looked for by their tags. */
static inline void
key_slots_grow(KeySlots *slots, uint64 n)
{
	key_slots_grow_by(slots, n, key_slot_tag_hash);
}

#endif							/* PGBILLION_VECTOR_KEY_SLOTS_H */

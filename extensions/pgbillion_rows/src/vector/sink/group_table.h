/*-------------------------------------------------------------------------
 *
 * group_table.h
 *	  The inside of the hash table of groups, for group.c and group_record.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGBILLION_VECTOR_GROUP_TABLE_H
#define PGBILLION_VECTOR_GROUP_TABLE_H

#include "fmgr.h"

#include "vector/sink/group.h"

typedef enum
{
	KEY_BITS,					/* equal if and only if the same bits */
	KEY_FLOAT4,
	KEY_FLOAT8,
	KEY_TEXT,
	KEY_BPCHAR,
	KEY_NUMERIC,
	KEY_OTHER					/* by the type's own functions */
} KeyKind;

typedef struct Key
{
	KeyKind		kind;
	int16		len;
	bool		byval;
	Oid			collation;
	FmgrInfo	hash;
	FmgrInfo	equal;
} Key;

typedef struct Slot
{
	uint64		tag;
	char	   *entry;			/* NULL: free */
} Slot;

typedef struct EntryHead
{
	uint32		nulls;			/* a bit per key */
	uint32		id;				/* its number in the order of groups */
} EntryHead;

StaticAssertDecl(GROUP_MAX_KEYS <= 32, "a bit a key");

/* The first byte of the word of a string or numeric that does not fit into it. */
#define WORD_IS_HASH 0xFF

struct GroupTable
{
	int			nkeys;
	Key		   *keys;
	bool		direct;			/* the tag is the key */
	Size		entry_size;
	char	  **dense;			/* direct: entries of keys from dense_base on,
								 * or NULL */
	int64		dense_base;
	int			dense_misses;
	char	   *by_id[SMALL_GROUPS];	/* the first groups */
	void		(*init) (void *arg, char *entry);
	void	   *arg;
	int			npointers;		/* in the states of an entry: to a varlena of
								 * its own, or NULL */
	struct varlena **(*pointer) (void *arg, char *entry, int i);

	MemoryContext context;		/* slots, entries, keys, what states point to */
	Size		limit;
	Slot	   *slots;
	uint64		nslots;			/* a power of two */
	int			shift;			/* 64 - log2(nslots) */
	uint64		nentries;
	uint64		expected;		/* so many at least, or 0 */
	char	   *null_entry;		/* direct: the group of NULL */
	char	   *chunk;			/* where the next entry goes */
	Size		chunk_left;
	List	   *chunks;
	bool		full;
	uint64		tags[BATCH_ROWS];	/* of the rows looked for last */
	uint64	   *words;			/* of their keys, BATCH_ROWS of each; direct:
								 * NULL */

	/* rows that found no room, one entry each, in the caller's order */
	char	   *overflow;		/* BATCH_ROWS entries */
	MemoryContext overflow_context;
	int			noverflow;
	bool		spills;			/* there is no side table, only the count */
};

#define ENTRY_HEAD(entry) ((EntryHead *) (entry))
#define ENTRY_KEYS(entry) ((Datum *) ((entry) + sizeof(EntryHead)))
#define ENTRY_WORDS(entry, nkeys) ((uint64 *) ((entry) + sizeof(EntryHead)) + (nkeys))

static inline uint64
slot_of(GroupTable *table, uint64 tag)
{
	/*
	 * Fibonacci hashing: the high bits of a product by 2^64 / golden ratio,
	 * after folding
	 */
	return ((tag ^ (tag >> 32)) * UINT64CONST(0x9E3779B97F4A7C15)) >> table->shift;
}

static inline bool
word_is_hash(Key *key, uint64 word)
{
	return key->kind == KEY_OTHER || (key->kind >= KEY_TEXT && word >> 56 == WORD_IS_HASH);
}

/* The tag of keys and one more, of which this is the word. */
static inline uint64
mix(uint64 tag, uint64 word)
{
	/* the multiplier of Knuth's MMIX generator */
	tag = (tag ^ word) * UINT64CONST(6364136223846793005);
	return tag ^ tag >> 29;
}

extern bool group_equal_keys(Key *key, Datum left, Datum right);
extern char *group_resident_entry(GroupTable *table);

#endif							/* PGBILLION_VECTOR_GROUP_TABLE_H */

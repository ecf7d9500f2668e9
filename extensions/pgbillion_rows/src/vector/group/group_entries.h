/*-------------------------------------------------------------------------
 *
 * group_entries.h
 *	  The inside of the hash table of groups, for group_table.c and group_record.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGBILLION_VECTOR_GROUP_ENTRIES_H
#define PGBILLION_VECTOR_GROUP_ENTRIES_H

#include "vector/group/group_table.h"
#include "vector/keys/group_key.h"
#include "vector/keys/slots.h"

typedef struct EntryHead
{
	uint32		nulls;			/* a bit per key */
	uint32		id;				/* its number in the order of groups */
} EntryHead;

StaticAssertDecl(GROUP_MAX_KEYS <= 32, "a bit a key");

/* Memory for entries, which follow. */
typedef struct EntryBlock
{
	struct EntryBlock *next;
	Size		bytes;			/* of its entries */
	Size		room;			/* number of those that have room */
} EntryBlock;

StaticAssertDecl(sizeof(EntryBlock) == MAXALIGN(sizeof(EntryBlock)), "entries are aligned");

#define BLOCK_ENTRIES(block) ((char *) ((block) + 1))

/* The entries of a partition, in the order in which they were made. */
typedef struct EntryList
{
	EntryBlock *first;			/* or NULL */
	EntryBlock *last;
} EntryList;

struct GroupTable
{
	int			nkeys;
	int			ncompared;		/* the first of them, from which the others
								 * follow */
	Key		   *keys;
	bool		direct;			/* the tag is the one key that is compared */
	uint64	   *masks;			/* of keys that are compared, if these bits of
								 * their values are all that tells them apart;
								 * else NULL, and entries have their words */
	bool		self_contained; /* no key points to its value */
	int			states_offset;	/* in an entry */
	Size		entry_size;
	char	  **dense;			/* direct: entries of keys from dense_base on,
								 * or NULL */
	int64		dense_base;
	int			dense_misses;
	char	   *wide;			/* direct, of one partition: where the entries
								 * of wide_keys keys from wide_base on are
								 * made that the slots do not have; or NULL */
	int			wide_shift;		/* direct: bits of a Datum that are not the
								 * key's */
	Size		wide_stride;	/* from one of these to the next */
	bool		wide_states;	/* they are states only, of which the others
								 * are told by where they are */
	uint64	   *wide_made;		/* a bit for each of these: there is one */
	uint64		wide_entries;	/* how many there are */
	uint64		wide_base;
	uint64		wide_keys;
	uint64		wide_groups;	/* from this number of groups on, see whether
								 * there can be one */
	char	   *by_id[SMALL_GROUPS];	/* the first groups */
	void		(*init) (void *arg, char *entry);
	void	   *arg;
	int			npointers;		/* in the states of an entry: to a varlena of
								 * its own, or NULL */
	struct varlena **(*pointer) (void *arg, char *entry, int i);

	MemoryContext context;		/* slots, entries, keys, what states point to */
	Size		limit;
	KeySlots	slots;
	uint64		nentries;
	uint64		expected;		/* at least this number, or 0 */
	int			nadded;			/* resident entries made for the rows looked
								 * for last */
	uint16		added[BATCH_ROWS];	/* these rows, in their order */
	char	   *null_entry;		/* direct: the group of NULL */
	char	   *chunk;			/* where the next block goes */
	Size		chunk_left;
	Size		chunk_bytes;	/* 0: there is none yet */
	char	   *values;			/* where the next value that a key points to
								 * goes */
	Size		values_left;
	Size		values_bytes;	/* of all, since the last reset */
	int			npartitions;	/* a power of two */
	Size		most_block_bytes;	/* of one of several partitions */
	EntryList  *lists;			/* of each partition */
	bool		full;
	uint64		tags[BATCH_ROWS];	/* of the rows looked for last */
	uint64	   *words;			/* of their keys that are compared, BATCH_ROWS
								 * of each; direct: NULL */

	/* rows that found no room, one entry each, in the caller's order */
	char	   *overflow;		/* BATCH_ROWS entries */
	MemoryContext overflow_context;
	int			noverflow;
	bool		spills;			/* there is no side table, only the count */
};

#define ENTRY_HEAD(entry) ((EntryHead *) (entry))
#define ENTRY_KEYS(entry) ((Datum *) ((entry) + sizeof(EntryHead)))
#define ENTRY_WORDS(entry, nkeys) ((uint64 *) ((entry) + sizeof(EntryHead)) + (nkeys))

/*
 * A hash of what tags are made of: equal keys have the same in all processes.
 * It has nothing to do with the slot.
 */
static inline uint64
hash_of_tag(uint64 tag)
{
	/* the finalizer of MurmurHash3 */
	tag ^= tag >> 33;
	tag *= UINT64CONST(0xFF51AFD7ED558CCD);
	tag ^= tag >> 33;
	tag *= UINT64CONST(0xC4CEB9FE1A85EC53);
	return tag ^ tag >> 33;
}

/* Is there nothing that entries point to? */
static inline bool
entries_are_self_contained(const GroupTable *table)
{
	return table->self_contained && table->npointers == 0;
}

extern EntryBlock *group_next_block(GroupTable *table, GroupWalk *walk);
extern char *group_resident_entry(GroupTable *table, uint64 tag);
extern Datum group_copy_value(GroupTable *table, int key, Datum value);

#endif							/* PGBILLION_VECTOR_GROUP_ENTRIES_H */

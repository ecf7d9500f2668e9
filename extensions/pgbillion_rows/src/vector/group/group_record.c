/*-------------------------------------------------------------------------
 *
 * group_record.c
 *	  Groups that go from one process to another.
 *
 * A record is an entry as it is, and behind it what its keys and its states
 * point to, each aligned. The pointers are offsets from the record's beginning
 * then, and the number is the record's size. Where no entry of a table points
 * to anything, blocks of entries are records as they are.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/datum.h"
#include "utils/memutils.h"

#include "vector/group/group_entries.h"

/* Does a key of an entry or a record point to something? */
static inline bool
key_is_apart(GroupTable *table, const char *entry, int key)
{
	return !table->keys[key].byval && (ENTRY_HEAD(entry)->nulls >> key & 1) == 0;
}

/* The place of a pointer in an entry's or a record's states, as exchange.c's caller has it. */
static inline struct varlena **
pointer_of(GroupTable *table, char *entry, int i)
{
	return table->pointer(table->arg, entry, i);
}

/* About how many groups a table can have whose keys and states point to nothing. */
double
group_table_room(GroupTable *table)
{
	return (double) table->limit / (table->entry_size + 2 * sizeof(KeySlot));
}

/* Keep entries by partitions, of a power of two, in blocks that are not larger than that; there are none yet. */
void
group_table_partition(GroupTable *table, int npartitions, Size most_block_bytes)
{
	Assert(table->nentries == 0 && (npartitions & (npartitions - 1)) == 0);
	table->npartitions = npartitions;
	table->wide_groups = PG_UINT64_MAX;
	table->most_block_bytes = most_block_bytes;
	table->lists = repalloc(table->lists, sizeof(EntryList) * npartitions);
	memset(table->lists, 0, sizeof(EntryList) * npartitions);
}

/* The bytes of a partition's entries. */
Size
group_partition_bytes(GroupTable *table, int partition)
{
	Size		bytes = 0;

	for (EntryBlock *block = table->lists[partition].first; block != NULL; block = block->next)
		bytes += block->bytes;
	return bytes;
}

/* The entries of the next block of the walk's partition, and their size in bytes; NULL at its end. */
char *
group_partition_block(GroupTable *table, GroupWalk *walk, Size *bytes)
{
	EntryBlock *block = group_next_block(table, walk);

	if (block == NULL)
		return NULL;
	*bytes = block->bytes;
	return BLOCK_ENTRIES(block);
}

/* Another process has the groups of a partition now. Their slots stay: nobody looks for these keys here again. */
void
group_partition_forget(GroupTable *table, int partition)
{
	table->lists[partition].first = table->lists[partition].last = NULL;
}

/* The size of every record of a table, if its entries are records; else 0. */
Size
group_fixed_record(GroupTable *table)
{
	return entries_are_self_contained(table) ? table->entry_size : 0;
}

/* How many bytes the record of an entry takes. */
Size
group_record_size(GroupTable *table, char *entry)
{
	Size		size = table->entry_size;

	for (int k = 0; k < table->nkeys; k++)
	{
		if (key_is_apart(table, entry, k))
			size += MAXALIGN(datumGetSize(ENTRY_KEYS(entry)[k], false, table->keys[k].len));
	}
	for (int i = 0; i < table->npointers; i++)
	{
		struct varlena *value = *pointer_of(table, entry, i);

		if (value != NULL)
			size += MAXALIGN(VARSIZE(value));
	}
	if (size > MaxAllocSize)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("a group of %zu bytes is too long", size)));
	return size;
}

/* Write a value at the end of a record, and return the new one. What is between values is defined, as it goes to a file. */
static inline Size
write_value(char *record, Size end, const void *value, Size length)
{
	memcpy(record + end, value, length);
	memset(record + end + length, 0, MAXALIGN(length) - length);

	return end + MAXALIGN(length);
}

/* Write the record of an entry, which has that size. */
void
group_record_write(GroupTable *table, char *entry, char *record, Size size)
{
	Size		end = table->entry_size;

	memcpy(record, entry, table->entry_size);
	ENTRY_HEAD(record)->id = (uint32) size;
	for (int k = 0; k < table->nkeys; k++)
	{
		Datum		value = ENTRY_KEYS(entry)[k];

		if (!key_is_apart(table, entry, k))
			continue;
		ENTRY_KEYS(record)[k] = (Datum) end;
		end = write_value(record, end, DatumGetPointer(value), datumGetSize(value, false, table->keys[k].len));
	}
	for (int i = 0; i < table->npointers; i++)
	{
		struct varlena *value = *pointer_of(table, entry, i);

		if (value == NULL)
			continue;
		*pointer_of(table, record, i) = (struct varlena *) end;
		end = write_value(record, end, value, VARSIZE(value));
	}
	Assert(end == size);
}

/* The record after this one. */
char *
group_record_next(GroupTable *table, char *record)
{
	return record + (entries_are_self_contained(table) ? table->entry_size : ENTRY_HEAD(record)->id);
}

/* The word of a key that is compared, of an entry or a record; 0 of NULL. */
static inline uint64
word_of(GroupTable *table, const char *entry, int key)
{
	return table->masks != NULL ? (uint64) ENTRY_KEYS(entry)[key] & table->masks[key] :
		ENTRY_WORDS(entry, table->nkeys)[key];
}

/* The tag of a resident entry, or of a record. */
static inline uint64
tag_of(GroupTable *table, const char *entry)
{
	uint64		tag = 0;

	if (table->direct)
		return (uint64) ENTRY_KEYS(entry)[0] & table->masks[0];
	for (int k = 0; k < table->ncompared; k++)
		tag = key_mix(tag, word_of(table, entry, k));
	return tag;
}

/* A hash of a record's keys: equal ones have the same in all processes. */
uint64
group_record_hash(GroupTable *table, const char *record)
{
	return hash_of_tag(tag_of(table, record));
}

/* Have the states of a record point to what is in it. */
static inline void
set_pointers(GroupTable *table, char *record)
{
	for (int i = 0; i < table->npointers; i++)
	{
		struct varlena **value = pointer_of(table, record, i);

		if (*value != NULL)
			*value = (struct varlena *) (record + (Size) *value);
	}
}

/* Have the states of a new entry point to copies of what those of its record point to. */
static void
copy_pointed(GroupTable *table, char *entry)
{
	for (int i = 0; i < table->npointers; i++)
	{
		struct varlena **value = pointer_of(table, entry, i);
		struct varlena *copy;

		if (*value == NULL)
			continue;
		copy = MemoryContextAllocHuge(table->context, VARSIZE(*value));
		memcpy(copy, *value, VARSIZE(*value));
		*value = copy;
	}
}

/* Add the group of a record of that tag. */
static char *
add_record(GroupTable *table, char *record, uint64 tag)
{
	char	   *entry = group_resident_entry(table, tag);
	uint32		id = ENTRY_HEAD(entry)->id;

	memcpy(entry, record, table->entry_size);
	ENTRY_HEAD(entry)->id = id;
	for (int k = 0; k < table->nkeys; k++)
	{
		Datum		key = PointerGetDatum(record + (Size) ENTRY_KEYS(record)[k]);

		if (key_is_apart(table, record, k))
			ENTRY_KEYS(entry)[k] = group_copy_value(table, k, key);
	}
	copy_pointed(table, entry);

	return entry;
}

/* Has an entry of the same tag the keys of a record? */
static inline bool
same_as_record(GroupTable *table, char *entry, char *record)
{
	bool		same = ENTRY_HEAD(entry)->nulls == ENTRY_HEAD(record)->nulls;

	for (int k = 0; same && k < table->ncompared; k++)
	{
		uint64		word = word_of(table, record, k);
		Datum		value = ENTRY_KEYS(record)[k];

		if (key_is_apart(table, record, k))
			value = PointerGetDatum(record + (Size) value);
		same = word_of(table, entry, k) == word &&
			(!key_word_is_hash(&table->keys[k], word) || (ENTRY_HEAD(record)->nulls >> k & 1) != 0 ||
			 key_equal(&table->keys[k], ENTRY_KEYS(entry)[k], value));
	}
	return same;
}

/* The entry of a record's group, or NULL if it has just been added. */
static inline char *
merge_record(GroupTable *table, char *record, uint64 tag)
{
	uint64		s = key_slot_of(&table->slots, tag);
	char	   *entry;

	if (table->direct && (ENTRY_HEAD(record)->nulls & 1) != 0)
	{
		entry = table->null_entry;
		if (entry == NULL)
			table->null_entry = add_record(table, record, tag);
		return entry;
	}
	for (; (entry = table->slots.slot[s].entry) != NULL; s = (s + 1) & (table->slots.nslots - 1))
	{
		if (table->slots.slot[s].tag == tag && (table->direct || same_as_record(table, entry, record)))
			return entry;
	}
	table->slots.slot[s].tag = tag;
	table->slots.slot[s].entry = add_record(table, record, tag);
	return NULL;
}

/*
 * Add the groups of n records that are not there yet, with the records'
 * states; there must be room. Returns how many were there, whose records come
 * first then, with their entries: their states are to be combined.
 */
int
group_table_merge(GroupTable *table, char **records, int n, char **entries)
{
	uint64		tags[GROUP_RECORDS];
	int			found = 0;

	Assert(n <= GROUP_RECORDS && table->wide == NULL && !key_slots_lack(&table->slots, table->nentries + n));
	for (int i = 0; i < n; i++)
	{
		tags[i] = tag_of(table, records[i]);
		set_pointers(table, records[i]);
	}
	for (int i = 0; i < Min(KEY_SLOTS_AHEAD, n); i++)
		key_slots_fetch(&table->slots, tags[i]);
	for (int i = 0; i < n; i++)
	{
		char	   *entry;

		key_slots_fetch(&table->slots, tags[Min(i + KEY_SLOTS_AHEAD, n - 1)]);
		entry = merge_record(table, records[i], tags[i]);

		if (entry != NULL)
		{
			/* its state is going to be changed */
			__builtin_prefetch(entry + table->states_offset, 1);
			records[found] = records[i];
			entries[found++] = entry;
		}
	}
	return found;
}

/*-------------------------------------------------------------------------
 *
 * group_table.c
 *	  The hash table of groups.
 *
 * Open addressing over slots of a tag and an entry. With one key that is
 * compared bit by bit the tag is the key; otherwise it is a hash of a word for
 * each key, and the entry is looked at. A word is mostly all there is to know
 * of a key's value: short strings fit. An entry is a head (which keys are
 * NULL, and the number of the group), the keys, their words unless these are the
 * keys' own bits, and the states.
 * Keys that follow from others, as x + 1 from x, are kept without being compared.
 *
 * Entries are kept by partitions of a hash of their keys where groups are to be
 * exchanged (exchange.c), and else in the order in which they were made.
 *
 * Groups of one integer key that are close to each other, as are codes and
 * small numbers, are found in an array by the key itself. Once there are many,
 * further entries are made where their keys say, if these are close enough,
 * and have no slot: then a row waits for memory once, and not for a slot and
 * for an entry. If that key is the only one, they are states only, so that
 * more of them stay in the processor's caches.
 *
 * Memory is bounded by hash_mem. Once it is reached no group is added: a row
 * of another group gets an entry of its own in a side table, which is returned
 * after its page and then forgotten, or none, if the caller spills it. So what
 * the resident groups add up is added in the order of rows, and so is what
 * PostgreSQL's Finalize Aggregate combines of the others.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "executor/executor.h"
#include "executor/nodeHash.h"
#include "miscadmin.h"
#include "port/pg_bitutils.h"
#include "utils/datum.h"
#include "utils/memutils.h"

#include "vector/group/group_entries.h"
#include "vector/huge_pages.h"

/* Keys found by their value: a power of two. */
#define DENSE_KEYS 2048

/* Batches with keys beyond that, after which it is given up. */
#define DENSE_MISSES 16

/*
 * From this number of groups on, entries are made where their keys say if there
 * are no more than this number of keys to a group; if there are, that is seen
 * again with a multiple of the groups. If many groups are expected, the first
 * ones decide: those that have slots by then keep these.
 */
#define WIDE_LEAST_GROUPS 16384
#define WIDE_LEAST_IF_EXPECTED 1024
#define WIDE_KEYS_PER_GROUP 3
#define WIDE_AGAIN 4

/* Up to this number, groups are few in any batch. */
#define MIN_SMALL_GROUPS 32

/* Minimum size, in bytes, of an allocation of entries; a quarter of what exists or is expected if that is more. */
#define CHUNK_BYTES (256 * 1024)

/* The first allocation of what keys point to, in bytes. */
#define FIRST_VALUES 1024

/* Up to this number of groups, it is open whether as many come as are expected. */
#define MANY_ENTRIES 8192

/* Where the states begin in an entry. */
int
group_table_states_offset(int nkeys, int ncompared, const Oid *types)
{
	bool		bits = true;

	for (int k = 0; k < ncompared; k++)
		bits &= group_key_is_bits(types[k]);
	return sizeof(EntryHead) + sizeof(Datum) * nkeys + (bits ? 0 : sizeof(uint64) * ncompared);
}

static void
start(GroupTable *table)
{
	key_slots_start(&table->slots, table->context);
	table->nentries = 0;
	table->expected = 0;
	table->null_entry = NULL;
	table->chunk_left = table->chunk_bytes = 0;
	table->values_left = table->values_bytes = 0;
	memset(table->lists, 0, sizeof(EntryList) * table->npartitions);
	table->full = false;
	table->dense = NULL;
	table->dense_misses = table->direct ? 0 : DENSE_MISSES;
	table->wide = NULL;
	table->wide_groups = table->direct && table->npartitions == 1 ? WIDE_LEAST_GROUPS : PG_UINT64_MAX;
	table->wide_entries = 0;
	table->nadded = 0;
}

/*
 * A table for groups of these keys, of which the first ncompared tell groups
 * apart, and the others follow from these. init() is called on every new entry,
 * which is zeroed except for its keys. The table lives in the current context.
 */
GroupTable *
group_table_create(int nkeys, int ncompared, Oid *types, Oid *collations, int state_size,
				   void (*init) (void *arg, char *entry), void *arg)
{
	GroupTable *table = palloc0(sizeof(GroupTable));
	bool		bits = true;

	Assert(ncompared > 0 && ncompared <= nkeys && nkeys <= GROUP_MAX_KEYS);
	table->nkeys = nkeys;
	table->ncompared = ncompared;
	table->keys = palloc0(sizeof(Key) * nkeys);
	for (int i = 0; i < nkeys; i++)
		group_key_prepare(&table->keys[i], types[i], collations[i]);
	for (int k = 0; k < ncompared; k++)
		bits &= table->keys[k].kind == KEY_BITS;
	if (bits)
	{
		table->masks = palloc(sizeof(uint64) * ncompared);
		for (int k = 0; k < ncompared; k++)
			table->masks[k] = group_key_mask(&table->keys[k]);
	}
	table->direct = ncompared == 1 && bits;
	if (table->direct)
		table->wide_shift = 64 - 8 * table->keys[0].len;
	table->self_contained = true;
	for (int i = 0; i < nkeys; i++)
		table->self_contained &= table->keys[i].byval;
	table->npartitions = 1;
	table->lists = palloc(sizeof(EntryList));
	table->states_offset = group_table_states_offset(nkeys, ncompared, types);
	table->entry_size = MAXALIGN(table->states_offset + state_size);
	table->init = init;
	table->arg = arg;
	table->limit = get_hash_memory_limit();
	table->overflow = palloc(table->entry_size * BATCH_ROWS);
	if (!table->direct)
		table->words = palloc(sizeof(uint64) * ncompared * BATCH_ROWS);
	table->context = AllocSetContextCreate(CurrentMemoryContext, "pgbillion groups",
										   ALLOCSET_DEFAULT_SIZES);
	table->overflow_context = AllocSetContextCreate(CurrentMemoryContext, "pgbillion overflowing groups",
													ALLOCSET_DEFAULT_SIZES);
	start(table);

	return table;
}

/* Forget all groups. */
void
group_table_reset(GroupTable *table)
{
	MemoryContextReset(table->context);
	MemoryContextReset(table->overflow_context);
	table->noverflow = 0;
	start(table);
}

/*
 * Where what states point to is to be allocated. What entries of the side
 * table point to is forgotten after each batch.
 */
void
group_table_memory(GroupTable *table, StateMemory *memory)
{
	memory->context = table->context;
	memory->overflow = table->overflow;
	memory->overflow_end = table->overflow + table->entry_size * BATCH_ROWS;
	memory->overflow_context = table->overflow_context;
}

/* Where in an entry's states the n pointers are that records are to take along. */
void
group_table_pointers(GroupTable *table, int n, struct varlena **(*pointer) (void *arg, char *entry, int i))
{
	table->npointers = n;
	table->pointer = pointer;
}

/* From now on, rows that find no room are spilled by the caller. */
void
group_table_spill(GroupTable *table)
{
	table->spills = true;
}

/* Tags of the rows that group_table_find() has found no room for: the same for equal keys. */
const uint64 *
group_table_tags(GroupTable *table)
{
	return table->tags;
}

/* The bytes that the table may take. */
Size
group_table_limit(GroupTable *table)
{
	return table->limit;
}

/* Let it have `limit` bytes instead of all of hash_mem. */
void
group_table_set_limit(GroupTable *table, Size limit)
{
	table->limit = limit;
}

/* Memory that a group takes, without what its keys and states point to. */
Size
group_table_entry_bytes(int nkeys, Size state_size)
{
	/*
	 * slots are between a third and two thirds full; a single key is mostly
	 * its own tag
	 */
	return sizeof(EntryHead) + sizeof(Datum) * nkeys + (nkeys > 1 ? sizeof(uint64) * nkeys : 0) +
		state_size + 2 * sizeof(KeySlot);
}

/* Have room for a value of that size that keys point to. */
static void
add_values(GroupTable *table, Size size)
{
	/* as with entries, never much of what there may be */
	Size		wanted = Min(Max(CHUNK_BYTES, table->values_bytes / 4), table->limit / 16);

	if (table->values_bytes == 0)
		wanted = FIRST_VALUES;
	table->values_left = MAXALIGN(Max(size, wanted));
	table->values = MemoryContextAllocHuge(table->context, table->values_left);
	ask_for_huge_pages(table->values, table->values_left);
	table->values_bytes += table->values_left;
}

/* A copy of a key's value, which is passed by reference and detoasted, in the table's memory. */
Datum
group_copy_value(GroupTable *table, int key, Datum value)
{
	const char *from = DatumGetPointer(value);
	int16		len = table->keys[key].len;
	Size		size = len == -1 ? VARSIZE_ANY(from) : datumGetSize(value, false, len);
	Size		padding = 0;
	char	   *to;

	/* strings with a short header need no alignment */
	if (len != -1 || !VARATT_IS_1B(from))
		padding = (char *) MAXALIGN(table->values) - table->values;
	if (table->values_left < size + padding)
	{
		add_values(table, size);
		padding = 0;
	}
	to = table->values + padding;
	memcpy(to, from, size);
	table->values = to + size;
	table->values_left -= size + padding;

	return PointerGetDatum(to);
}

/*
 * Put a row's keys into a zeroed entry, copied to the table's memory or not.
 */
static void
set_keys(GroupTable *table, char *entry, const Values *keys, int row, bool copy)
{
	for (int k = 0; k < table->nkeys; k++)
	{
		if (keys[k].nulls[row])
			ENTRY_HEAD(entry)->nulls |= (uint32) 1 << k;
		else if (!copy || table->keys[k].byval)
			ENTRY_KEYS(entry)[k] = keys[k].values[row];
		else
			ENTRY_KEYS(entry)[k] = group_copy_value(table, k, keys[k].values[row]);
	}
	table->init(table->arg, entry);
}

/* Have a new block at the end of a partition's. */
static EntryBlock *
add_block(GroupTable *table, EntryList *list)
{
	uint64		groups = table->nentries < MANY_ENTRIES ? table->nentries : Max(table->nentries, table->expected);
	Size		least = sizeof(EntryBlock) + table->entry_size;
	Size		bytes;
	EntryBlock *block;

	/*
	 * several partitions share a chunk: blocks are small as long as there are
	 * few groups
	 */
	bytes = table->npartitions == 1 ? 0 :
		MAXALIGN(Min(least + table->nentries * table->entry_size / table->npartitions, table->most_block_bytes));
	bytes = Max(bytes, least);
	if (table->chunk_left < bytes)
	{
		/*
		 * small at first, as most queries have few groups, and never much of
		 * what there may be
		 */
		Size		wanted = Max(CHUNK_BYTES, groups * table->entry_size / 4);

		wanted = table->chunk_bytes == 0 ? 8192 : Min(wanted, Max(table->limit / 16, 8192));
		table->chunk_left = table->chunk_bytes = MAXALIGN(Max(bytes, wanted));
		table->chunk = MemoryContextAllocHuge(table->context, table->chunk_bytes);
		ask_for_huge_pages(table->chunk, table->chunk_bytes);
	}
	if (table->npartitions == 1)
		bytes = table->chunk_left;
	block = (EntryBlock *) table->chunk;
	table->chunk += bytes;
	table->chunk_left -= bytes;
	block->next = NULL;
	block->bytes = 0;
	block->room = bytes - sizeof(EntryBlock);
	if (list->first == NULL)
		list->first = block;
	else
		list->last->next = block;
	list->last = block;

	return block;
}

/* Give a new resident entry its number, and zero the rest of it. */
static void
begin_entry(GroupTable *table, char *entry)
{
	memset(entry, 0, table->entry_size);
	ENTRY_HEAD(entry)->id = (uint32) Min(table->nentries, PG_UINT32_MAX);
	if (table->nentries < SMALL_GROUPS)
		table->by_id[table->nentries] = entry;
	table->nentries++;
}

/* Memory for a new resident entry of that tag, zeroed except for its number. */
char *
group_resident_entry(GroupTable *table, uint64 tag)
{
	int			partition = table->npartitions == 1 ? 0 : hash_of_tag(tag) & (table->npartitions - 1);
	EntryList  *list = &table->lists[partition];
	EntryBlock *block = list->last;
	char	   *entry;

	if (list->first == NULL || block->room - block->bytes < table->entry_size)
		block = add_block(table, list);
	entry = BLOCK_ENTRIES(block) + block->bytes;
	block->bytes += table->entry_size;
	begin_entry(table, entry);

	return entry;
}

/* The number that the bits of a key are: functions differ in how they fill the rest of a Datum. */
static inline int64
wide_number(const GroupTable *table, Datum key)
{
	return (int64) ((uint64) key << table->wide_shift) >> table->wide_shift;
}

/* The place of a row's key among the entries that are where their keys say; wide_keys: it has none. */
static pg_attribute_always_inline uint64
wide_place(const GroupTable *table, const Values *keys, int row, bool has_nulls)
{
	if (has_nulls && keys[0].nulls[row])
		return table->wide_keys;
	return Min((uint64) wide_number(table, keys[0].values[row]) - table->wide_base, table->wide_keys);
}

/* Is there an entry at that place, which may be wide_keys? */
static inline bool
wide_is_made(const GroupTable *table, uint64 place)
{
	return (table->wide_made[place / 64] >> (place % 64) & 1) != 0;
}

/* Is an entry where its key says? */
static inline bool
is_wide(const GroupTable *table, const char *entry)
{
	return table->wide != NULL && (Size) (entry - table->wide) < table->wide_stride * table->wide_keys;
}

/* The new resident entry of a row's key where that says, or NULL if it has no place there. */
static char *
wide_entry(GroupTable *table, const Values *keys, int row)
{
	uint64		place;
	char	   *entry;

	if (table->wide == NULL)
		return NULL;
	place = wide_place(table, keys, row, true);
	if (place == table->wide_keys)
		return NULL;
	Assert(!wide_is_made(table, place));
	table->wide_made[place / 64] |= UINT64CONST(1) << (place % 64);
	table->wide_entries++;
	entry = table->wide + place * table->wide_stride;
	if (table->wide_states)
	{
		memset(entry + table->states_offset, 0, table->entry_size - table->states_offset);
		table->nentries++;
		table->init(table->arg, entry);
	}
	else
	{
		begin_entry(table, entry);
		set_keys(table, entry, keys, row, true);
	}
	return entry;
}

/* A new entry for a row: a resident one, or, if there is no room, one of its own. */
static char *
add_entry(GroupTable *table, const Values *keys, int row, uint64 tag)
{
	char	   *entry;

	if (table->full && table->spills)
	{
		table->noverflow++;
		return NULL;
	}
	if (table->full)
	{
		entry = table->overflow + table->entry_size * table->noverflow++;
		memset(entry, 0, table->entry_size);
		ENTRY_HEAD(entry)->id = PG_UINT32_MAX;
		set_keys(table, entry, keys, row, false);
		return entry;
	}
	table->added[table->nadded++] = row;
	entry = wide_entry(table, keys, row);
	if (entry == NULL)
	{
		entry = group_resident_entry(table, tag);
		set_keys(table, entry, keys, row, true);
	}
	return entry;
}

/*
 * The entries of n rows, if their keys are all known and close to each other.
 */
static bool
find_dense(GroupTable *table, const Values *keys, int n, char **entries)
{
	const Datum *values = keys[0].values;
	uint64		beyond = 0;
	bool		missing = false;
	uint64		base;

	if (table->dense == NULL)
	{
		int64		lowest = PG_INT64_MAX;

		for (int i = 0; i < n; i++)
			lowest = Min(lowest, (int64) values[i]);
		table->dense = MemoryContextAllocZero(table->context, sizeof(char *) * DENSE_KEYS);
		/* room on both sides */
		table->dense_base = lowest < PG_INT64_MIN + DENSE_KEYS ? lowest : lowest - DENSE_KEYS / 4;
		return false;
	}
	base = (uint64) table->dense_base;
	for (int i = 0; i < n; i++)
	{
		uint64		place = (uint64) values[i] - base;

		beyond |= place;
		entries[i] = table->dense[place % DENSE_KEYS];
		missing |= entries[i] == NULL;
	}
	/* of a power of two: none of them is beyond if all bits together are not */
	if (beyond >= DENSE_KEYS)
		table->dense_misses++;

	return beyond < DENSE_KEYS && !missing;
}

/*
 * Have room for entries by their keys, if these are close to each other, and
 * memory suffices; else false. `last` is a key of a row that is being looked for.
 */
static bool
try_wide(GroupTable *table, Datum last)
{
	int64		least = PG_INT64_MAX;
	int64		greatest = PG_INT64_MIN;
	char	   *entries[GROUP_RECORDS];
	GroupWalk	walk = {0};
	uint64		span;
	uint64		keys;
	uint64		below;
	Size		stride;
	Size		bytes;
	int			n;

	StaticAssertStmt(WIDE_LEAST_IF_EXPECTED > SMALL_GROUPS, "by_id has none of them");
	table->wide_groups = table->nentries * WIDE_AGAIN;
	while ((n = group_table_walk(table, &walk, entries, GROUP_RECORDS)) > 0)
	{
		for (int i = 0; i < n; i++)
		{
			int64		key = wide_number(table, ENTRY_KEYS(entries[i])[0]);

			if (ENTRY_HEAD(entries[i])->nulls != 0)
				continue;
			least = Min(least, key);
			greatest = Max(greatest, key);
		}
	}
	span = (uint64) greatest - (uint64) least;
	if (least > greatest || span >= Max(table->nentries, table->expected) * WIDE_KEYS_PER_GROUP)
		return false;

	/*
	 * A little more on both sides. If more groups are expected than there are
	 * keys between these, keys come in an order, and go on where the last is.
	 */
	keys = Max(span, table->expected) / 8 * 9 + 8;
	below = (keys - span) / 8;
	if ((uint64) wide_number(table, last) - (uint64) least < span / 2)
		below = keys - span - below;
	/* each has a place of its own, if there is no state, too */
	stride = table->nkeys > 1 ? table->entry_size : Max(table->entry_size - table->states_offset, MAXIMUM_ALIGNOF);
	bytes = keys * stride + table->states_offset;
	if (bytes > table->limit / 4 || MemoryContextMemAllocated(table->context, true) + bytes > table->limit / 2)
		return false;
	table->wide = MemoryContextAllocHuge(table->context, bytes);
	ask_for_huge_pages(table->wide, bytes);
	table->wide_stride = stride;
	table->wide_states = table->nkeys == 1;
	table->wide_base = (uint64) least - below;
	table->wide_keys = keys;
	/* one more, which is never made */
	table->wide_made = MemoryContextAllocZero(table->context, sizeof(uint64) * (keys / 64 + 1));
	/* it has fewer keys, and would ask for entries' heads */
	table->dense_misses = DENSE_MISSES;

	return true;
}

/* How many entries slots are needed for, if n are added; the group of NULL may be one of them. */
static inline uint64
in_slots(const GroupTable *table, uint64 n)
{
	return table->nentries - table->wide_entries + n;
}

/* Have room for all rows of a batch, or for none that is new. */
static void
make_room(GroupTable *table, int n)
{
	bool		grows = key_slots_lack(&table->slots, in_slots(table, n));
	Size		used = MemoryContextMemAllocated(table->context, true);

	if (used + (grows ? key_slots_next_bytes(&table->slots) : 0) > table->limit &&
		table->nentries >= KEY_SLOTS_MIN)
		table->full = true;
	else if (grows)
		key_slots_grow(&table->slots, in_slots(table, n));
}

/* Have room for n more groups; false if memory does not suffice, unless it does not matter. */
bool
group_table_reserve(GroupTable *table, int n, bool whatever)
{
	make_room(table, n);
	if (table->full && whatever)
	{
		table->full = false;
		if (key_slots_lack(&table->slots, in_slots(table, n)))
			key_slots_grow(&table->slots, in_slots(table, n));
	}
	return !table->full;
}

/* Make slots for at least n entries. */
static void
expect_slots(GroupTable *table, uint64 n)
{
	if (key_slots_lack(&table->slots, n))
		key_slots_grow(&table->slots, n);
}

/*
 * Make the slots for an estimated number of groups at once, unless entries may
 * be made where their keys say instead, and allocate entries in pieces of a
 * fitting size, as far as that takes no more than an eighth of the table's
 * memory. If there are fewer groups, it has cost a little memory, and the time
 * to clear it.
 */
void
group_table_expect(GroupTable *table, double groups)
{
	double		most = table->limit / 8 / (2 * sizeof(KeySlot));

	Assert(table->nentries == 0);
	table->expected = (uint64) Min(groups, most);
	if (table->wide_groups == WIDE_LEAST_GROUPS && table->expected >= WIDE_LEAST_GROUPS)
		table->wide_groups = WIDE_LEAST_IF_EXPECTED;
	expect_slots(table, Min(table->expected, table->wide_groups));
}

/* What the rows of a batch are looked for by. */
typedef struct Sought
{
	const Values *keys;
	uint64	   *tags;
	uint64	   *words;			/* BATCH_ROWS of each key that is compared,
								 * unless direct */
	uint32		nulls[BATCH_ROWS];	/* a bit per key, unless direct */
} Sought;

/* Compute words and tags of keys that are not their own. */
static void
hash_keys(GroupTable *table, Sought *sought, int n)
{
	const Values *keys = sought->keys;
	uint64	   *tags = sought->tags;

	sought->words = table->words;
	memset(tags, 0, sizeof(uint64) * n);
	memset(sought->nulls, 0, sizeof(uint32) * n);
	for (int k = 0; k < table->ncompared; k++)
	{
		uint64	   *own = sought->words + k * BATCH_ROWS;

		group_key_words(&table->keys[k], &keys[k], n, own);
		for (int i = 0; i < n; i++)
			tags[i] = key_mix(tags[i], own[i]);
	}
	for (int k = 0; k < table->nkeys; k++)
	{
		if (keys[k].has_nulls)
			for (int i = 0; i < n; i++)
				sought->nulls[i] |= (uint32) keys[k].nulls[i] << k;
	}
}

/* Has an entry of the same tag the keys of a row? */
static pg_attribute_always_inline bool
same_keys(GroupTable *table, const Sought *sought, int row, char *entry, bool bits)
{
	int			nkeys = table->nkeys;
	uint32		nulls = sought->nulls[row];
	bool		same = ENTRY_HEAD(entry)->nulls == nulls;

	if (bits)
	{
		for (int k = 0; k < table->ncompared; k++)
			same &= ((uint64) ENTRY_KEYS(entry)[k] & table->masks[k]) == sought->words[k * BATCH_ROWS + row];
		return same;
	}

	for (int k = 0; same && k < table->ncompared; k++)
	{
		uint64		word = sought->words[k * BATCH_ROWS + row];

		same = ENTRY_WORDS(entry, nkeys)[k] == word &&
			(!key_word_is_hash(&table->keys[k], word) || (nulls >> k & 1) != 0 ||
			 key_equal(&table->keys[k], ENTRY_KEYS(entry)[k], sought->keys[k].values[row]));
	}
	return same;
}

/* The slot of a row is on its way: have what it leads to fetched. */
static inline void
fetch_entry(GroupTable *table, const Sought *sought, int row)
{
	KeySlot    *slot = &table->slots.slot[key_slot_of(&table->slots, sought->tags[row])];

	if (slot->tag == sought->tags[row])
		__builtin_prefetch(slot->entry);
}

/* So is its entry: have the strings fetched that have to be compared. */
static inline void
fetch_strings(GroupTable *table, const Sought *sought, int row)
{
	KeySlot    *slot = &table->slots.slot[key_slot_of(&table->slots, sought->tags[row])];

	if (slot->entry == NULL || slot->tag != sought->tags[row])
		return;
	for (int k = 0; k < table->ncompared; k++)
	{
		if (!table->keys[k].byval && key_word_is_hash(&table->keys[k], sought->words[k * BATCH_ROWS + row]))
			__builtin_prefetch(DatumGetPointer(ENTRY_KEYS((char *) slot->entry)[k]));
	}
}

/* Find or make the one group of NULL, which is let in whatever there is. */
static char *
find_null(GroupTable *table, const Values *keys, int row)
{
	if (table->null_entry == NULL)
	{
		bool		full = table->full;

		table->full = false;
		table->null_entry = add_entry(table, keys, row, 0);
		table->full = full;
	}
	return table->null_entry;
}

/* Find or make the entry of a row; NULL as add_entry() returns it. Inlined with constants. */
static pg_attribute_always_inline char *
find_row(GroupTable *table, const Sought *sought, int row, bool direct, bool bits)
{
	uint64		tag = sought->tags[row];
	uint64		s = key_slot_of(&table->slots, tag);
	char	   *entry;

	for (; (entry = table->slots.slot[s].entry) != NULL; s = (s + 1) & (table->slots.nslots - 1))
	{
		if (table->slots.slot[s].tag == tag && (direct || same_keys(table, sought, row, entry, bits)))
			return entry;
	}
	entry = add_entry(table, sought->keys, row, tag);
	if (!table->full && !(direct && is_wide(table, entry)))
	{
		table->slots.slot[s].tag = tag;
		table->slots.slot[s].entry = entry;
		if (!bits)
			for (int k = 0; k < table->ncompared; k++)
				ENTRY_WORDS(entry, table->nkeys)[k] = sought->words[k * BATCH_ROWS + row];
	}
	return entry;
}

/*
 * Find or make the entries of n rows, while what is needed for those that
 * follow is fetched. Inlined with constants.
 */
static pg_attribute_always_inline void
find_rows(GroupTable *table, const Sought *sought, int n, char **entries, bool direct, bool bits)
{
	const int	ahead = KEY_SLOTS_AHEAD;
	int			states = table->states_offset;

	if (table->slots.nslots <= KEY_SLOTS_NEAR)
	{
		for (int i = 0; i < n; i++)
			entries[i] = find_row(table, sought, i, direct, bits);
		return;
	}
	for (int i = 0; i < Min(ahead * (direct ? 1 : 3), n); i++)
		key_slots_fetch(&table->slots, sought->tags[i]);
	for (int i = 0; i < n; i++)
	{
		if (direct)
			key_slots_fetch(&table->slots, sought->tags[Min(i + ahead, n - 1)]);
		else
		{
			key_slots_fetch(&table->slots, sought->tags[Min(i + 3 * ahead, n - 1)]);
			fetch_entry(table, sought, Min(i + 2 * ahead, n - 1));
			if (!bits)
				fetch_strings(table, sought, Min(i + ahead, n - 1));
		}
		entries[i] = find_row(table, sought, i, direct, bits);
		/* aggregates change them next */
		__builtin_prefetch(entries[i] + states, 1);
	}
}

/* Remember the entries of keys that are close to each other. */
static void
remember_dense(GroupTable *table, const Values *keys, int n, char **entries)
{
	for (int i = 0; i < n; i++)
	{
		uint64		place = (uint64) keys[0].values[i] - (uint64) table->dense_base;

		if (place < DENSE_KEYS && entries[i] != NULL && ENTRY_HEAD(entries[i])->id != PG_UINT32_MAX)
			table->dense[place] = entries[i];
	}
}

/*
 * The entries of n rows that are where their keys say; lists the other rows,
 * and returns how many these are. Inlined with constants.
 */
static pg_attribute_always_inline int
find_wide(GroupTable *table, const Values *keys, int n, char **entries, uint16 *others, bool has_nulls)
{
	const Datum *values = keys[0].values;
	const uint64 *made = table->wide_made;
	uint64		base = table->wide_base;
	uint64		most = table->wide_keys;
	int			shift = table->wide_shift;
	char	   *wide = table->wide;
	Size		stride = table->wide_stride;
	int			states = table->states_offset;
	int			nothers = 0;

	for (int i = 0; i < n; i++)
	{
		/* as wide_place(), without loading the table's fields for each row */
		uint64		place = Min((uint64) ((int64) ((uint64) values[i] << shift) >> shift) - base, most);

		if (has_nulls && keys[0].nulls[i])
			place = most;
		Assert(place == wide_place(table, keys, i, has_nulls));
		others[nothers] = i;
		nothers += (made[place / 64] >> (place % 64) & 1) == 0;
		entries[i] = wide + place * stride;
		/* aggregates change them next */
		__builtin_prefetch(entries[i] + states, 1);
	}
	return nothers;
}

/* Find or make the entries of some of the rows, by their slots or where their keys say. */
static void
find_others(GroupTable *table, const Sought *sought, const uint16 *others, int nothers, char **entries)
{
	const int	ahead = KEY_SLOTS_AHEAD;

	for (int k = 0; k < Min(ahead, nothers); k++)
		key_slots_fetch(&table->slots, sought->tags[others[k]]);
	for (int k = 0; k < nothers; k++)
	{
		int			row = others[k];

		key_slots_fetch(&table->slots, sought->tags[others[Min(k + ahead, nothers - 1)]]);
		/* a row before may have made it */
		if (wide_is_made(table, wide_place(table, sought->keys, row, true)))
			continue;
		entries[row] = sought->keys[0].nulls[row] ? find_null(table, sought->keys, row) :
			find_row(table, sought, row, true, true);
	}
}

/*
 * Find or make the entries of n rows. Keys of variable length must be
 * detoasted. Rows that find no room get entries in the side table, or NULL
 * after group_table_spill(); how many is returned.
 */
int
group_table_find(GroupTable *table, const Values *keys, int n, char **entries)
{
	Sought		sought;
	bool		dense = table->dense_misses < DENSE_MISSES && !keys[0].has_nulls;
	bool		wide;
	uint16		others[BATCH_ROWS];
	int			nothers = 0;

	Assert(table->noverflow == 0);
	table->nadded = 0;
	if (dense && find_dense(table, keys, n, entries))
		return 0;
	if (table->nentries >= table->wide_groups && table->wide == NULL)
	{
		if (try_wide(table, keys[0].values[n - 1]))
			dense = false;
		else if (!table->full)
			expect_slots(table, table->expected);
	}
	wide = table->wide != NULL;
	if (wide)
	{
		/* the others may have slots */
		nothers = keys[0].has_nulls ? find_wide(table, keys, n, entries, others, true) :
			find_wide(table, keys, n, entries, others, false);
		if (nothers == 0)
			return 0;
	}
	if (!table->full)
		make_room(table, wide ? nothers : n);
	sought.keys = keys;
	sought.tags = table->tags;
	sought.words = NULL;
	if (table->direct)
		group_key_words(&table->keys[0], &keys[0], n, sought.tags);
	else
		hash_keys(table, &sought, n);

	if (wide)
		find_others(table, &sought, others, nothers, entries);
	else if (table->masks == NULL)
		find_rows(table, &sought, n, entries, false, false);
	else if (!table->direct)
		find_rows(table, &sought, n, entries, false, true);
	else if (!keys[0].has_nulls)
		find_rows(table, &sought, n, entries, true, true);
	else
	{
		for (int i = 0; i < n; i++)
			entries[i] = keys[0].nulls[i] ? find_null(table, keys, i) : find_row(table, &sought, i, true, true);
	}
	if (dense)
		remember_dense(table, keys, n, entries);

	return table->noverflow;
}

/* Make entries in the side table for n rows, whatever groups there are. */
void
group_table_set_apart(GroupTable *table, const Values *keys, int n, char **entries)
{
	bool		full = table->full;

	Assert(table->noverflow == 0 && !table->spills);
	table->full = true;
	for (int i = 0; i < n; i++)
		entries[i] = add_entry(table, keys, i, 0);
	table->full = full;
}

/*
 * The number of each row's group, below that returned, and the entries by
 * these numbers; 0 if there are too many groups for that.
 */
int
group_table_ids(GroupTable *table, char **entries, int n, uint8 *ids, char ***by_id)
{
	/* many groups and few rows: going through the groups would take longer */
	if (table->nentries > SMALL_GROUPS || table->nentries > Max(MIN_SMALL_GROUPS, n / 2) || table->noverflow > 0)
		return 0;
	for (int i = 0; i < n; i++)
		ids[i] = (uint8) ENTRY_HEAD(entries[i])->id;
	*by_id = table->by_id;
	return (int) table->nentries;
}

/* List those of the rows looked for last that are the first of a resident group; return how many. */
int
group_table_added(GroupTable *table, uint16 *rows)
{
	memcpy(rows, table->added, sizeof(uint16) * table->nadded);

	return table->nadded;
}

/* Entry i of the side table. */
char *
group_table_overflow(GroupTable *table, int i)
{
	Assert(i < table->noverflow);
	return table->overflow + table->entry_size * i;
}

void
group_table_clear_overflow(GroupTable *table)
{
	MemoryContextReset(table->overflow_context);
	table->noverflow = 0;
}

/* How many resident entries there are. */
int64
group_table_count(GroupTable *table)
{
	return table->nentries;
}

/* What groups, slots, and what they point to take. */
Size
group_table_bytes(GroupTable *table)
{
	return MemoryContextMemAllocated(table->context, true);
}

/* The next block of the walk's partition, or NULL, which leaves it at its end. */
EntryBlock *
group_next_block(GroupTable *table, GroupWalk *walk)
{
	EntryBlock *block = walk->block == NULL ? table->lists[walk->partition].first : walk->block->next;

	if (block != NULL)
	{
		Assert(block->bytes > 0);
		walk->block = block;
		walk->offset = 0;
	}
	return block;
}

/* The next n resident entries of the walk's partition, or fewer; returns how many, and 0 at its end. */
int
group_partition_walk(GroupTable *table, GroupWalk *walk, char **entries, int n)
{
	int			found = 0;

	while (found < n)
	{
		EntryBlock *block = walk->block;

		if (block == NULL || walk->offset == block->bytes)
		{
			if (group_next_block(table, walk) == NULL)
				break;
			continue;
		}
		for (; found < n && walk->offset < block->bytes; walk->offset += table->entry_size)
			entries[found++] = BLOCK_ENTRIES(block) + walk->offset;
	}
	return found;
}

/* The next n of the entries that are where their keys say, or fewer; walk->offset counts keys. */
static int
walk_wide(GroupTable *table, GroupWalk *walk, char **entries, int n)
{
	int			found = 0;

	while (found < n && walk->offset < table->wide_keys)
	{
		uint64		made = table->wide_made[walk->offset / 64] >> (walk->offset % 64);

		if (made == 0)
		{
			walk->offset += 64 - walk->offset % 64;
			continue;
		}
		walk->offset += pg_rightmost_one_pos64(made);
		entries[found++] = table->wide + walk->offset++ * table->wide_stride;
	}
	return found;
}

/*
 * The next n resident entries, partition by partition, and then those that are
 * where their keys say, or fewer; returns how many, and 0 after the last one.
 */
int
group_table_walk(GroupTable *table, GroupWalk *walk, char **entries, int n)
{
	int			found;

	if (walk->partition == table->npartitions)
		return walk_wide(table, walk, entries, n);
	found = group_partition_walk(table, walk, entries, n);

	while (found == 0 && walk->partition < table->npartitions - 1)
	{
		walk->partition++;
		walk->block = NULL;
		found = group_partition_walk(table, walk, entries, n);
	}
	if (found == 0 && table->wide != NULL)
	{
		walk->partition = table->npartitions;
		walk->offset = 0;
		found = walk_wide(table, walk, entries, n);
	}
	return found;
}

/* The only key of an entry that is states only. */
static inline Datum
wide_key(const GroupTable *table, const char *entry)
{
	return (Datum) (table->wide_base + (Size) (entry - table->wide) / table->wide_stride);
}

Datum
group_table_key(GroupTable *table, char *entry, int key, bool *isnull)
{
	if (table->wide_states && is_wide(table, entry))
	{
		*isnull = false;
		return wide_key(table, entry);
	}
	*isnull = (ENTRY_HEAD(entry)->nulls >> key & 1) != 0;
	return ENTRY_KEYS(entry)[key];
}

/* A key of n groups. */
void
group_table_keys(GroupTable *table, char *const *entries, int n, int key, Datum *values, bool *nulls)
{
	for (int i = 0; i < n; i++)
		values[i] = group_table_key(table, entries[i], key, &nulls[i]);
}

/*-------------------------------------------------------------------------
 *
 * table.c
 *	  The hash table of a join: rows of the build side by their tags.
 *
 * Open addressing over slots of a tag and the first entry of a list: all rows
 * of that tag, which have the same keys where the tag is the key. An entry has
 * the values of its columns, so that they are gathered without looking at
 * rows, and of its keys unless the tag tells; then a byte for each column,
 * which says whether it is NULL, and one that says whether the entry is marked.
 * What values point to is in the same memory.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "executor/nodeHash.h"
#include "utils/datum.h"
#include "utils/memutils.h"

#include "vector/join/join.h"
#include "vector/keys/slots.h"

#define CHUNK_BYTES (256 * 1024)

struct JoinTable
{
	JoinKeys   *keys;
	int			nkeys;			/* stored in an entry: none if direct */
	bool		direct;
	int			ncolumns;
	int16	   *lens;
	bool	   *byval;
	bool		keeps_unknown;
	bool		once;			/* of rows with the same keys, one is enough */
	Size		entry_size;

	MemoryContext context;		/* slots, entries, and what they point to */
	Size		limit;
	KeySlots	slots;			/* an entry is the first of its tag */
	uint64		ntags;
	int64		nentries;
	Size		taken;			/* by entries and what they point to */
	bool		twins;			/* some entries have the same tag */
	JoinEntry  *unknown;		/* rows with a NULL among their keys */
	char	   *chunk;			/* where the next bytes are taken from */
	Size		chunk_left;
	Size		chunk_bytes;	/* of the next one */
};

#define ENTRY_KEYS(table, entry) ((entry)->values + (table)->ncolumns)
#define ENTRY_NULLS(table, entry) ((bool *) ((entry)->values + (table)->ncolumns + (table)->nkeys))
#define ENTRY_MARK(table, entry) (ENTRY_NULLS(table, entry)[(table)->ncolumns])

static void
start(JoinTable *table)
{
	key_slots_start(&table->slots, table->context);
	table->ntags = 0;
	table->nentries = 0;
	table->taken = 0;
	table->twins = false;
	table->unknown = NULL;
	table->chunk_left = 0;
	table->chunk_bytes = 8192;
}

/*
 * A table of rows as they are in a batch; with keeps_unknown, also of those that
 * match nothing, as a key of theirs is NULL. With keys_only nobody asks for more
 * than whether there is a row with the keys: where the tag tells these, further
 * rows are left out. It lives in the current context.
 */
JoinTable *
join_table_create(JoinKeys *keys, Batch *batch, bool keeps_unknown, bool keys_only)
{
	JoinTable  *table = palloc0(sizeof(JoinTable));

	table->keys = keys;
	table->direct = join_keys_direct(keys);
	table->nkeys = table->direct ? 0 : join_keys_count(keys);
	table->ncolumns = batch->ncolumns;
	table->lens = palloc(sizeof(int16) * Max(table->ncolumns, 1));
	table->byval = palloc(sizeof(bool) * Max(table->ncolumns, 1));
	for (int i = 0; i < table->ncolumns; i++)
	{
		table->lens[i] = batch->columns[i].len;
		table->byval[i] = batch->columns[i].byval;
	}
	table->keeps_unknown = keeps_unknown;
	table->once = keys_only && table->direct;
	table->entry_size = MAXALIGN(offsetof(JoinEntry, values) + sizeof(Datum) * (table->ncolumns + table->nkeys) +
								 sizeof(bool) * (table->ncolumns + 1));
	table->limit = get_hash_memory_limit();
	table->context = AllocSetContextCreate(CurrentMemoryContext, "pgbillion join", ALLOCSET_DEFAULT_SIZES);
	start(table);

	return table;
}

/* Forget all rows. */
void
join_table_reset(JoinTable *table)
{
	MemoryContextReset(table->context);
	start(table);
}

/* Memory that a row takes, without what its values point to. */
Size
join_table_entry_bytes(int ncolumns, int nkeys)
{
	/* slots are between a third and two thirds full */
	return MAXALIGN(offsetof(JoinEntry, values) + (sizeof(Datum) + sizeof(bool)) * ncolumns + sizeof(Datum) * nkeys +
					sizeof(bool)) +
		2 * sizeof(KeySlot);
}

/* The bytes that the table may take. */
Size
join_table_limit(JoinTable *table)
{
	return table->limit;
}

/* Those that it takes. */
Size
join_table_bytes(JoinTable *table)
{
	return MemoryContextMemAllocated(table->context, true);
}

/* Is there room for n more rows that are like those which there are? */
bool
join_table_fits(JoinTable *table, int n)
{
	bool		grows = key_slots_lack(&table->slots, table->ntags + n);
	Size		more = table->nentries > 0 ? table->taken / table->nentries * n : 0;

	return join_table_bytes(table) + more + (grows ? key_slots_next_bytes(&table->slots) : 0) <= table->limit;
}

int64
join_table_count(JoinTable *table)
{
	return table->nentries;
}

/* May a row match more than one entry? */
bool
join_table_has_twins(JoinTable *table)
{
	return table->twins;
}

/* Aligned memory for entries and what they point to. */
static char *
take(void *arg, Size size)
{
	JoinTable  *table = arg;
	char	   *result;

	size = MAXALIGN(size);
	table->taken += size;
	if (size > table->chunk_left)
	{
		/* large values have memory of their own */
		if (size > table->chunk_bytes / 4)
			return MemoryContextAllocHuge(table->context, size);
		table->chunk = MemoryContextAlloc(table->context, table->chunk_bytes);
		table->chunk_left = table->chunk_bytes;
		table->chunk_bytes = Min(2 * table->chunk_bytes, Max(Min(CHUNK_BYTES, table->limit / 16), 8192));
	}
	result = table->chunk;
	table->chunk += size;
	table->chunk_left -= size;
	return result;
}

/* Make an entry of a row; without keys, one that matches nothing. */
static JoinEntry *
make_entry(JoinTable *table, Batch *batch, const Values *keys, int row)
{
	JoinEntry  *entry = (JoinEntry *) take(table, table->entry_size);

	for (int c = 0; c < table->ncolumns; c++)
	{
		Column	   *column = &batch->columns[c];
		Datum		value = column->values[row];
		bool		isnull = column->nulls[row];

		if (isnull)
			value = (Datum) 0;
		else if (!table->byval[c])
		{
			Size		size = datumGetSize(value, false, table->lens[c]);
			char	   *copy = take(table, size);

			memcpy(copy, DatumGetPointer(value), size);
			value = PointerGetDatum(copy);
		}
		entry->values[c] = value;
		ENTRY_NULLS(table, entry)[c] = isnull;
	}
	ENTRY_MARK(table, entry) = false;
	for (int k = 0; keys != NULL && k < table->nkeys; k++)
		ENTRY_KEYS(table, entry)[k] = join_keys_copy(table->keys, k, keys[k].values[row], take, table);

	return entry;
}

/* Keep a row that matches nothing. */
static void
insert_unknown(JoinTable *table, Batch *batch, int row)
{
	JoinEntry  *entry = make_entry(table, batch, NULL, row);

	entry->next = table->unknown;
	table->unknown = entry;
	table->nentries++;
}

/*
 * Insert the rows of a batch, all columns of which are loaded. Rows with a
 * NULL among their keys are left out, unless they are to be kept.
 */
void
join_table_insert(JoinTable *table, Batch *batch, const Values *keys, const uint64 *tags, const bool *known)
{
	if (key_slots_lack(&table->slots, table->ntags + batch->n))
		key_slots_grow(&table->slots, table->ntags + batch->n);
	for (int i = 0; i < Min(KEY_SLOTS_AHEAD, batch->n); i++)
		key_slots_fetch(&table->slots, tags[i]);
	for (int i = 0; i < batch->n; i++)
	{
		uint64		s = key_slot_of(&table->slots, tags[i]);
		JoinEntry  *entry;

		key_slots_fetch(&table->slots, tags[Min(i + KEY_SLOTS_AHEAD, batch->n - 1)]);

		if (!known[i])
		{
			if (table->keeps_unknown)
				insert_unknown(table, batch, i);
			continue;
		}
		while (table->slots.slot[s].entry != NULL && table->slots.slot[s].tag != tags[i])
			s = (s + 1) & (table->slots.nslots - 1);
		if (table->once && table->slots.slot[s].entry != NULL)
			continue;
		entry = make_entry(table, batch, keys, i);
		entry->next = table->slots.slot[s].entry;
		if (entry->next == NULL)
		{
			table->slots.slot[s].tag = tags[i];
			table->ntags++;
		}
		else
			table->twins = true;
		table->slots.slot[s].entry = entry;
		table->nentries++;
	}
}

/* The first of an entry and those after it that matches a row, or NULL. */
static inline JoinEntry *
first_match(JoinTable *table, const Values *keys, int row, JoinEntry *entry)
{
	if (!table->direct)
		while (entry != NULL && !join_keys_equal(table->keys, keys, row, ENTRY_KEYS(table, entry)))
			entry = entry->next;
	return entry;
}

/* The first entry that matches each of n rows, or NULL. What is compared leaves memory in the current context. */
void
join_table_find(JoinTable *table, const Values *keys, const uint64 *tags, const bool *known, int n,
				JoinEntry **entries)
{
	const KeySlot *slots = table->slots.slot;
	uint64		mask = table->slots.nslots - 1;
	bool		far = table->slots.nslots > KEY_SLOTS_NEAR;

	for (int i = 0; far && i < Min(KEY_SLOTS_AHEAD, n); i++)
		key_slots_fetch(&table->slots, tags[i]);
	for (int i = 0; i < n; i++)
	{
		uint64		s = key_slot_of(&table->slots, tags[i]);

		if (far)
			key_slots_fetch(&table->slots, tags[Min(i + KEY_SLOTS_AHEAD, n - 1)]);
		while (slots[s].entry != NULL && slots[s].tag != tags[i])
			s = (s + 1) & mask;
		entries[i] = known[i] ? slots[s].entry : NULL;
		if (far)
			__builtin_prefetch(entries[i]);
	}
	if (!table->direct)
	{
		for (int i = 0; i < n; i++)
			entries[i] = first_match(table, keys, i, entries[i]);
	}
}

/* The next entry that matches a row, after one that did, or NULL. */
JoinEntry *
join_table_next(JoinTable *table, const Values *keys, int row, JoinEntry *entry)
{
	return first_match(table, keys, row, entry->next);
}

/* Is a column of an entry NULL? */
bool
join_table_entry_null(JoinTable *table, const JoinEntry *entry, int column)
{
	return ENTRY_NULLS(table, entry)[column];
}

/* Has an entry been marked? */
bool
join_table_marked(JoinTable *table, const JoinEntry *entry)
{
	return ENTRY_MARK(table, entry);
}

void
join_table_mark(JoinTable *table, JoinEntry *entry)
{
	ENTRY_MARK(table, entry) = true;
}

/* Have no entry marked. */
void
join_table_clear_marks(JoinTable *table)
{
	uint64		slot = 0;
	JoinEntry  *entry = NULL;
	uint64		tag;

	while (join_table_dump(table, &slot, &entry, &tag))
		ENTRY_MARK(table, entry) = false;
}

/* All tags one after the other, each once; a walk starts with zero. False after the last. */
bool
join_table_tags(JoinTable *table, uint64 *slot, uint64 *tag)
{
	while (*slot < table->slots.nslots)
	{
		const KeySlot *found = &table->slots.slot[(*slot)++];

		if (found->entry != NULL)
		{
			*tag = found->tag;
			return true;
		}
	}
	return false;
}

/*
 * All entries one after the other, with their tags, in an order in which they
 * can be inserted, and then those that match nothing; a walk starts with zeroes.
 * False after the last.
 */
bool
join_table_dump(JoinTable *table, uint64 *slot, JoinEntry **entry, uint64 *tag)
{
	if (*entry != NULL && (*entry)->next != NULL)
	{
		*entry = (*entry)->next;
		return true;
	}
	while (*slot < table->slots.nslots)
	{
		const KeySlot *found = &table->slots.slot[key_slots_walk(&table->slots, (*slot)++)];

		if (found->entry != NULL)
		{
			*entry = found->entry;
			*tag = found->tag;
			return true;
		}
	}
	if (*slot == table->slots.nslots && table->unknown != NULL)
	{
		(*slot)++;
		*entry = table->unknown;
		*tag = 0;
		return true;
	}
	return false;
}

/*-------------------------------------------------------------------------
 *
 * group.c
 *	  The hash table of groups.
 *
 * Open addressing over slots of a tag and an entry. With one key that is
 * compared bit by bit the tag is the key; otherwise it is a hash of all keys,
 * and the entry is looked at. An entry is a mask of NULL keys, the keys, and
 * the states.
 *
 * Memory is bounded by hash_mem. Once it is reached no group is added: a row
 * of another group gets an entry of its own in a side table, which is handed
 * up after its page and then forgotten. So what the resident groups add up is
 * added in the order of rows, and so is what core's Finalize Aggregate
 * combines of the others.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "common/hashfn.h"
#include "executor/executor.h"
#include "executor/nodeHash.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/float.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/typcache.h"

#include "vector/vector.h"

typedef enum
{
	KEY_BITS,					/* equal if and only if the same bits */
	KEY_FLOAT4,
	KEY_FLOAT8,
	KEY_TEXT,
	KEY_BPCHAR,
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

/* Entries are allocated this many bytes at a time. */
#define CHUNK_BYTES (256 * 1024)
#define MIN_SLOTS 256

struct GroupTable
{
	int			nkeys;
	Key		   *keys;
	bool		direct;			/* the tag is the key */
	Size		entry_size;
	void		(*init) (void *arg, char *entry);
	void	   *arg;

	MemoryContext context;		/* slots, entries, keys, what states point to */
	Size		limit;
	Slot	   *slots;
	uint64		nslots;			/* a power of two */
	int			shift;			/* 64 - log2(nslots) */
	uint64		nentries;
	char	   *null_entry;		/* direct: the group of NULL */
	char	   *chunk;			/* where the next entry goes */
	Size		chunk_left;
	List	   *chunks;
	bool		full;

	/* rows that found no room, one entry each, in the caller's order */
	char	   *overflow;		/* BATCH_ROWS entries */
	MemoryContext overflow_context;
	int			noverflow;
};

#define NULL_MASK(entry) (*(uint64 *) (entry))
#define ENTRY_KEYS(entry) ((Datum *) ((entry) + sizeof(uint64)))

/* Where the states begin in an entry. */
int
group_table_states_offset(int nkeys)
{
	return sizeof(uint64) + sizeof(Datum) * nkeys;
}

/* Why an expression cannot be a group key, or NULL. */
const char *
group_key_refusal(Expr *expr)
{
	Oid			type = getBaseType(exprType((Node *) expr));
	Oid			collation = exprCollation((Node *) expr);
	TypeCacheEntry *cache = lookup_type_cache(type, TYPECACHE_HASH_PROC | TYPECACHE_EQ_OPR);

	if (!OidIsValid(cache->hash_proc) || !OidIsValid(cache->eq_opr))
		return psprintf("a group key of type %s", format_type_be(type));
	if (OidIsValid(collation) && !get_collation_isdeterministic(collation))
		return "a group key of a nondeterministic collation";
	return NULL;
}

static void
key_prepare(Key *key, Oid type, Oid collation)
{
	type = getBaseType(type);
	get_typlenbyval(type, &key->len, &key->byval);
	key->collation = collation;
	switch (type)
	{
		case BOOLOID:
		case INT2OID:
		case INT4OID:
		case INT8OID:
		case OIDOID:
		case CHAROID:
		case DATEOID:
		case TIMEOID:
		case TIMESTAMPOID:
		case TIMESTAMPTZOID:
			key->kind = KEY_BITS;
			break;
		case FLOAT4OID:
			key->kind = KEY_FLOAT4;
			break;
		case FLOAT8OID:
			key->kind = KEY_FLOAT8;
			break;
		case TEXTOID:
		case VARCHAROID:
			key->kind = KEY_TEXT;
			break;
		case BPCHAROID:
			key->kind = KEY_BPCHAR;
			break;
		default:
			{
				TypeCacheEntry *cache = lookup_type_cache(type, TYPECACHE_HASH_PROC | TYPECACHE_EQ_OPR);

				key->kind = KEY_OTHER;
				fmgr_info(cache->hash_proc, &key->hash);
				fmgr_info(get_opcode(cache->eq_opr), &key->equal);
			}
	}
}

static void
start(GroupTable *table)
{
	table->nslots = MIN_SLOTS;
	table->shift = 64 - 8;
	table->slots = MemoryContextAllocZero(table->context, sizeof(Slot) * table->nslots);
	table->nentries = 0;
	table->null_entry = NULL;
	table->chunk_left = 0;
	table->chunks = NIL;
	table->full = false;
}

/*
 * A table for groups of these keys. init() is called on every new entry,
 * which is zeroed but for its keys. The table lives in the current context.
 */
GroupTable *
group_table_create(int nkeys, Oid *types, Oid *collations, int state_size,
				   void (*init) (void *arg, char *entry), void *arg)
{
	GroupTable *table = palloc0(sizeof(GroupTable));

	Assert(nkeys > 0 && nkeys <= GROUP_MAX_KEYS);
	table->nkeys = nkeys;
	table->keys = palloc0(sizeof(Key) * nkeys);
	for (int i = 0; i < nkeys; i++)
		key_prepare(&table->keys[i], types[i], collations[i]);
	table->direct = nkeys == 1 && table->keys[0].kind == KEY_BITS;
	table->entry_size = MAXALIGN(group_table_states_offset(nkeys) + state_size);
	table->init = init;
	table->arg = arg;
	table->limit = get_hash_memory_limit();
	table->overflow = palloc(table->entry_size * BATCH_ROWS);
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

/* Where what states point to is to be allocated. */
MemoryContext
group_table_context(GroupTable *table)
{
	return table->context;
}

/* The same for entries of the side table, which are forgotten after each page. */
MemoryContext
group_table_overflow_context(GroupTable *table)
{
	return table->overflow_context;
}

/* Is an entry one of the side table? */
bool
group_table_is_overflow(GroupTable *table, const char *entry)
{
	return table->noverflow > 0 && entry >= table->overflow &&
		entry < table->overflow + table->entry_size * BATCH_ROWS;
}

/* Memory that a group takes, without what its keys and states point to. */
Size
group_table_entry_bytes(int nkeys, Size state_size)
{
	/* slots are between a third and two thirds full */
	return group_table_states_offset(nkeys) + state_size + 2 * sizeof(Slot);
}

static inline uint64
slot_of(GroupTable *table, uint64 tag)
{
	/* Fibonacci hashing: the high bits of a product by 2^64 / golden ratio, after folding */
	return ((tag ^ (tag >> 32)) * UINT64CONST(0x9E3779B97F4A7C15)) >> table->shift;
}

static void
grow(GroupTable *table)
{
	Slot	   *old = table->slots;
	uint64		nold = table->nslots;

	table->nslots *= 2;
	table->shift--;
	table->slots = MemoryContextAllocExtended(table->context, sizeof(Slot) * table->nslots,
											  MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	for (uint64 i = 0; i < nold; i++)
	{
		if (old[i].entry != NULL)
		{
			uint64		s = slot_of(table, old[i].tag);

			while (table->slots[s].entry != NULL)
				s = (s + 1) & (table->nslots - 1);
			table->slots[s] = old[i];
		}
	}
	pfree(old);
}

/* Hash of a key's value; equal values have equal hashes. */
static inline uint64
hash_key(Key *key, Datum value)
{
	uint64		hash;

	switch (key->kind)
	{
		case KEY_BITS:
			hash = value;
			break;
		case KEY_FLOAT4:
			{
				float4		f = DatumGetFloat4(value);

				/* -0 equals 0, and all NaNs are equal */
				hash = isnan(f) ? 1 : f == 0 ? 0 : value;
				break;
			}
		case KEY_FLOAT8:
			{
				float8		f = DatumGetFloat8(value);

				hash = isnan(f) ? 1 : f == 0 ? 0 : value;
				break;
			}
		case KEY_TEXT:
		case KEY_BPCHAR:
			{
				char	   *data = VARDATA_ANY(DatumGetPointer(value));
				int			len = VARSIZE_ANY_EXHDR(DatumGetPointer(value));

				if (key->kind == KEY_BPCHAR)
					len = bpchartruelen(data, len);
				if (len < 8)
				{
					hash = (uint64) len << 56;
					for (int i = 0; i < len; i++)
						hash |= (uint64) (unsigned char) data[i] << (8 * i);
				}
				else
					hash = hash_bytes_extended((unsigned char *) data, len, 0);
				break;
			}
		default:
			hash = DatumGetUInt32(FunctionCall1Coll(&key->hash, key->collation, value));
			break;
	}

	return hash;
}

static inline bool
equal_keys(Key *key, Datum left, Datum right)
{
	switch (key->kind)
	{
		case KEY_BITS:
			return left == right;
		case KEY_FLOAT4:
			return float4_eq(DatumGetFloat4(left), DatumGetFloat4(right));
		case KEY_FLOAT8:
			return float8_eq(DatumGetFloat8(left), DatumGetFloat8(right));
		case KEY_TEXT:
		case KEY_BPCHAR:
			{
				char	   *a = VARDATA_ANY(DatumGetPointer(left));
				char	   *b = VARDATA_ANY(DatumGetPointer(right));
				int			a_len = VARSIZE_ANY_EXHDR(DatumGetPointer(left));
				int			b_len = VARSIZE_ANY_EXHDR(DatumGetPointer(right));

				if (key->kind == KEY_BPCHAR)
				{
					a_len = bpchartruelen(a, a_len);
					b_len = bpchartruelen(b, b_len);
				}
				return a_len == b_len && memcmp(a, b, a_len) == 0;
			}
		default:
			return DatumGetBool(FunctionCall2Coll(&key->equal, key->collation, left, right));
	}
}

/* Put a row's keys into a zeroed entry, copied to the table's memory or not. */
static void
set_keys(GroupTable *table, char *entry, const Values *keys, int row, bool copy)
{
	for (int k = 0; k < table->nkeys; k++)
	{
		if (keys[k].nulls[row])
			NULL_MASK(entry) |= UINT64CONST(1) << k;
		else if (!copy || table->keys[k].byval)
			ENTRY_KEYS(entry)[k] = keys[k].values[row];
		else
		{
			MemoryContext old = MemoryContextSwitchTo(table->context);

			ENTRY_KEYS(entry)[k] = datumCopy(keys[k].values[row], false, table->keys[k].len);
			MemoryContextSwitchTo(old);
		}
	}
	table->init(table->arg, entry);
}

/* A new entry for a row: a resident one, or, if there is no room, one of its own. */
static char *
add_entry(GroupTable *table, const Values *keys, int row)
{
	char	   *entry;

	if (table->full)
	{
		entry = table->overflow + table->entry_size * table->noverflow++;
		memset(entry, 0, table->entry_size);
		set_keys(table, entry, keys, row, false);
		return entry;
	}
	if (table->chunk_left < table->entry_size)
	{
		MemoryContext old = MemoryContextSwitchTo(table->context);
		/* small at first: most queries have few groups */
		Size		bytes = table->chunks == NIL ? Max(table->entry_size, 8192) : Max(table->entry_size, CHUNK_BYTES);

		bytes -= bytes % table->entry_size;
		table->chunk = palloc(bytes);
		table->chunk_left = bytes;
		table->chunks = lappend(table->chunks, table->chunk);
		table->chunks = lappend(table->chunks, table->chunk + bytes);
		MemoryContextSwitchTo(old);
	}
	entry = table->chunk;
	table->chunk += table->entry_size;
	table->chunk_left -= table->entry_size;
	memset(entry, 0, table->entry_size);
	set_keys(table, entry, keys, row, true);
	table->nentries++;

	return entry;
}

/*
 * Find or make the entries of n rows. Keys of variable length must be
 * detoasted. Rows that find no room get entries in the side table; how many
 * is returned.
 */
int
group_table_find(GroupTable *table, const Values *keys, int n, char **entries)
{
	uint64		tags[BATCH_ROWS];

	Assert(table->noverflow == 0);

	/* room for all rows of the batch, or for none that is new */
	if (!table->full)
	{
		bool		grows = (table->nentries + n) * 3 > table->nslots * 2;
		Size		used = MemoryContextMemAllocated(table->context, true);

		if (used + (grows ? 2 * table->nslots * sizeof(Slot) : 0) > table->limit &&
			table->nentries >= MIN_SLOTS)
			table->full = true;
		else
			while ((table->nentries + n) * 3 > table->nslots * 2)
				grow(table);
	}

	if (table->direct)
	{
		switch (table->keys[0].len)
		{
			case 4:
				for (int i = 0; i < n; i++)
					tags[i] = (uint32) keys[0].values[i];
				break;
			case 8:
				for (int i = 0; i < n; i++)
					tags[i] = (uint64) keys[0].values[i];
				break;
			case 2:
				for (int i = 0; i < n; i++)
					tags[i] = (uint16) keys[0].values[i];
				break;
			default:
				for (int i = 0; i < n; i++)
					tags[i] = (uint8) keys[0].values[i];
				break;
		}
	}
	else
	{
		memset(tags, 0, sizeof(uint64) * n);
		for (int k = 0; k < table->nkeys; k++)
		{
			for (int i = 0; i < n; i++)
			{
				uint64		hash = keys[k].nulls[i] ? UINT64CONST(0x5851F42D4C957F2D) :
					hash_key(&table->keys[k], keys[k].values[i]);

				/* the multiplier of Knuth's MMIX generator */
				tags[i] = (tags[i] ^ hash) * UINT64CONST(6364136223846793005);
				tags[i] ^= tags[i] >> 29;
			}
		}
	}

	/* a table beyond the caches: have all slots of the batch fetched at once */
	if (table->nslots > 4096)
	{
		for (int i = 0; i < n; i++)
			__builtin_prefetch(&table->slots[slot_of(table, tags[i])]);
	}

	for (int i = 0; i < n; i++)
	{
		uint64		s;
		char	   *entry;

		if (table->direct && keys[0].has_nulls && keys[0].nulls[i])
		{
			if (table->null_entry == NULL)
			{
				bool		full = table->full;

				/* the one group of NULL is let in whatever there is */
				table->full = false;
				table->null_entry = add_entry(table, keys, i);
				table->full = full;
			}
			entries[i] = table->null_entry;
			continue;
		}
		for (s = slot_of(table, tags[i]); (entry = table->slots[s].entry) != NULL;
			 s = (s + 1) & (table->nslots - 1))
		{
			bool		same = table->slots[s].tag == tags[i];

			for (int k = 0; same && !table->direct && k < table->nkeys; k++)
			{
				bool		isnull = (NULL_MASK(entry) >> k & 1) != 0;

				same = isnull == keys[k].nulls[i] &&
					(isnull || equal_keys(&table->keys[k], ENTRY_KEYS(entry)[k], keys[k].values[i]));
			}
			if (same)
				break;
		}
		if (entry == NULL)
		{
			entry = add_entry(table, keys, i);
			if (!table->full)
			{
				table->slots[s].tag = tags[i];
				table->slots[s].entry = entry;
			}
		}
		entries[i] = entry;
	}

	if (table->nslots > 4096)
	{
		for (int i = 0; i < n; i++)
			__builtin_prefetch(entries[i] + sizeof(uint64), 1);
	}

	return table->noverflow;
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

/*
 * The resident entries one after the other, in the order in which they were
 * made; NULL after the last. A walk starts with both positions at zero.
 */
char *
group_table_next(GroupTable *table, int *chunk, Size *offset)
{
	while (*chunk < list_length(table->chunks))
	{
		char	   *begin = list_nth(table->chunks, *chunk);
		char	   *end = *chunk + 2 == list_length(table->chunks) ? table->chunk :
			(char *) list_nth(table->chunks, *chunk + 1);

		if (begin + *offset < end)
		{
			char	   *entry = begin + *offset;

			*offset += table->entry_size;
			return entry;
		}
		*chunk += 2;
		*offset = 0;
	}
	return NULL;
}

Datum
group_key(GroupTable *table, char *entry, int key, bool *isnull)
{
	*isnull = (NULL_MASK(entry) >> key & 1) != 0;
	return ENTRY_KEYS(entry)[key];
}

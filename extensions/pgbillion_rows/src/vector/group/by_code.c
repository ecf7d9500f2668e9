/*-------------------------------------------------------------------------
 *
 * by_code.c
 *	  Groups by the codes of their keys.
 *
 * Where the source has all group keys as codes of dictionaries, rows are not
 * looked for in the hash table, only the combinations of codes that occur,
 * each once per set of dictionaries. Up to SHORT_CODES combinations are the
 * numbers of the groups, so that aggregates can add up per number, unless two
 * of them mean the same group, as the codes of 1.0 and 1.00 do. Otherwise each
 * row gets its entry from an array.
 *
 * Groups are made in the order of their first rows, as they are the ordinary
 * way: of equal values the first is shown.
 *
 * A key may be an expression of one column: the column's codes stand for it,
 * and it is evaluated once for each combination, as are keys that follow from others. So are expressions that have
 * codes of their own, from any source: the hours of timestamps.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "vector/group/by_code.h"

/* Up to this number of combinations, an array of them pays. */
#define MAX_COMBINATIONS 16384

struct GroupByCode
{
	int			nkeys;
	int			ncompared;		/* the first of them: combinations are of
								 * their codes */
	VectorExpr **keys;
	const bool *is_varlena;		/* is each a varlena? */
	int		   *columns;		/* from whose values each follows */
	MemoryContext context;		/* of the arrays, once they are needed */

	/* the dictionaries that what follows is of */
	bool		known;
	bool		twins;			/* different combinations are the same group */
	uint64	   *serials;
	int			ncodes;			/* combinations */
	char	  **entries;		/* of each; NULL: none of its rows was met */

	/* what keys are looked for by */
	Datum	   *values;			/* BATCH_ROWS of each */
	bool	   *nulls;
};

/* A combination whose entry is being looked for. */
static char sought_entry;

#define SOUGHT (&sought_entry)

/*
 * For these keys, of which some may be varlenas, and all follow from the first
 * ncompared; NULL if there can be no codes of one of these. Memory belongs to the current context, and both arrays must live as
 * long.
 */
GroupByCode *
group_by_code_create(VectorExpr **keys, const bool *is_varlena, int nkeys, int ncompared)
{
	GroupByCode *by_code = palloc0(sizeof(GroupByCode));

	by_code->nkeys = nkeys;
	by_code->ncompared = ncompared;
	by_code->columns = palloc(sizeof(int) * ncompared);
	by_code->serials = palloc0(sizeof(uint64) * ncompared);
	for (int k = 0; k < ncompared; k++)
	{
		by_code->columns[k] = vector_expr_determinant(keys[k]);
		if (by_code->columns[k] < 0)
			return NULL;
	}
	by_code->keys = keys;
	by_code->is_varlena = is_varlena;
	by_code->context = CurrentMemoryContext;

	return by_code;
}

/* The entries are gone. */
void
group_by_code_reset(GroupByCode *by_code)
{
	by_code->known = false;
}

/* Most sources have no codes: then there is no need for room. */
static void
make_arrays(GroupByCode *by_code)
{
	by_code->entries = MemoryContextAlloc(by_code->context, sizeof(char *) * MAX_COMBINATIONS);
	by_code->values = MemoryContextAlloc(by_code->context, sizeof(Datum) * BATCH_ROWS * by_code->nkeys);
	by_code->nulls = MemoryContextAlloc(by_code->context, sizeof(bool) * BATCH_ROWS * by_code->nkeys);
}

/* The codes of all keys, if there are any, and combinations are few enough. */
static bool
get_codes(GroupByCode *by_code, Batch *batch, Codes *codes)
{
	int			ncodes = 1;
	bool		same = by_code->known;
	bool		by_column[GROUP_MAX_KEYS];

	/* those that have to be computed come last */
	for (int k = 0; k < by_code->ncompared; k++)
	{
		int			n;

		by_column[k] = batch_codes(batch, by_code->columns[k], &codes[k]);
		n = by_column[k] ? codes[k].n : vector_expr_ncodes(by_code->keys[k]);
		if (n == 0 || n > MAX_COMBINATIONS / ncodes)
			return false;
		ncodes *= n;
	}
	for (int k = 0; k < by_code->ncompared; k++)
	{
		if (!by_column[k] && !vector_expr_codes(by_code->keys[k], batch, &codes[k]))
			return false;
		Assert(codes[k].n > 0 && codes[k].null < codes[k].n);
		Assert((codes[k].codes != NULL) == (codes[k].n <= SHORT_CODES));
		same &= codes[k].serial == by_code->serials[k];
	}
	if (same)
	{
		Assert(by_code->ncodes == ncodes);
		return true;
	}
	if (by_code->entries == NULL)
		make_arrays(by_code);
	by_code->known = true;
	by_code->twins = false;
	by_code->ncodes = ncodes;
	for (int k = 0; k < by_code->ncompared; k++)
		by_code->serials[k] = codes[k].serial;
	memset(by_code->entries, 0, sizeof(by_code->entries[0]) * ncodes);

	return true;
}

static inline int
code_of(const Codes *codes, int row)
{
	return codes->codes != NULL ? codes->codes[row] : codes->long_codes[row];
}

/* The values of a key that is an expression for the rows listed, detoasted into `values`. */
static void
eval_key(VectorExpr *key, bool is_varlena, Batch *batch, const uint16 *rows, int n, Datum *values, Values *result)
{
	vector_expr_eval(key, batch, rows, n, result);
	if (!is_varlena)
		return;
	for (int i = 0; i < n; i++)
		values[i] = result->nulls[i] ? (Datum) 0 : PointerGetDatum(PG_DETOAST_DATUM_PACKED(result->values[i]));
	result->values = values;
}

/*
 * Find or make the entries of the combinations that the rows listed are the
 * first of, in order. False if there is no room for one of them.
 */
static bool
find_entries(GroupByCode *by_code, GroupTable *table, Batch *batch, const Codes *codes, const uint16 *rows,
			 int n, char **entries)
{
	Values		keys[GROUP_MAX_KEYS];

	for (int k = 0; k < by_code->nkeys; k++)
	{
		Datum	   *values = by_code->values + k * BATCH_ROWS;
		bool	   *nulls = by_code->nulls + k * BATCH_ROWS;

		if (k >= by_code->ncompared || !vector_expr_is_column(by_code->keys[k]))
		{
			eval_key(by_code->keys[k], by_code->is_varlena[k], batch, rows, n, values, &keys[k]);
			continue;
		}
		keys[k].values = values;
		keys[k].nulls = nulls;
		keys[k].has_nulls = false;
		for (int i = 0; i < n; i++)
		{
			int			code = code_of(&codes[k], rows[i]);

			nulls[i] = code == codes[k].null;
			values[i] = nulls[i] ? (Datum) 0 : codes[k].values[code];
			keys[k].has_nulls |= nulls[i];
		}
	}
	if (group_table_find(table, keys, n, entries) == 0)
		return true;
	group_table_clear_overflow(table);

	return false;
}

/* ---- short codes: numbers of groups ---- */

/* The number of each row's combination: of one key, its codes. */
static const uint8 *
combine_short(GroupByCode *by_code, const Codes *codes, int n, uint8 *ids)
{
	int			factor = codes[0].n;

	if (by_code->ncompared == 1)
		return codes[0].codes;
	memcpy(ids, codes[0].codes, n);
	for (int k = 1; k < by_code->ncompared; k++)
	{
		const uint8 *own = codes[k].codes;

		for (int i = 0; i < n; i++)
			ids[i] += own[i] * factor;
		factor *= codes[k].n;
	}
	return ids;
}

/* Do two combinations have the same entry? */
static bool
have_twins(GroupByCode *by_code)
{
	const char *slots[2 * SHORT_CODES] = {NULL};

	for (int code = 0; code < by_code->ncodes; code++)
	{
		const char *entry = by_code->entries[code];
		unsigned	slot;

		if (entry == NULL)
			continue;
		/* as key_slot_of() of the table */
		slot = (uint64) (uintptr_t) entry * UINT64CONST(0x9E3779B97F4A7C15) >> 32;
		while (slots[slot % lengthof(slots)] != NULL)
		{
			if (slots[slot % lengthof(slots)] == entry)
				return true;
			slot++;
		}
		slots[slot % lengthof(slots)] = entry;
	}
	return false;
}

/* Have an entry for every number that occurs. False if there is no room for one of them. */
static bool
find_new_numbers(GroupByCode *by_code, GroupTable *table, Batch *batch, const Codes *codes, const uint8 *ids, int n)
{
	bool		seen[SHORT_CODES] = {false};
	uint16		rows[SHORT_CODES];
	char	   *entries[SHORT_CODES];
	int			found = 0;

	for (int i = 0; i < n; i++)
	{
		if (by_code->entries[ids[i]] == NULL && !seen[ids[i]])
		{
			seen[ids[i]] = true;
			rows[found++] = i;
		}
	}
	if (found == 0)
		return true;
	if (!find_entries(by_code, table, batch, codes, rows, found, entries))
		return false;
	for (int i = 0; i < found; i++)
		by_code->entries[ids[rows[i]]] = entries[i];
	by_code->twins = have_twins(by_code);

	return true;
}

/* Is there a number among the rows without an entry? */
static bool
have_new_numbers(GroupByCode *by_code, const uint64 *counts)
{
	bool		new = false;

	for (int code = 0; code < by_code->ncodes; code++)
		new |= counts[code] > 0 && by_code->entries[code] == NULL;
	return new;
}

static bool
by_short_codes(GroupByCode *by_code, GroupTable *table, Batch *batch, const Codes *codes, uint8 *ids,
			   RowGroups *groups)
{
	int			n = batch->n;

	groups->ids = combine_short(by_code, codes, n, ids);
	groups->nids = by_code->ncodes;
	groups->by_id = by_code->entries;
	if (have_new_numbers(by_code, group_counts(groups, n)) &&
		!find_new_numbers(by_code, table, batch, codes, groups->ids, n))
		return false;
	if (by_code->twins)
	{
		(void) group_entries(groups, n);
		groups->nids = 0;
	}
	return true;
}

/* ---- others: entries ---- */

StaticAssertDecl(MAX_COMBINATIONS - 1 <= PG_UINT16_MAX, "a combination's number fits in 16 bits");

/* The combination of each row. */
static void
combine(GroupByCode *by_code, const Codes *codes, int n, uint16 *numbers)
{
	int			factor = 1;

	memset(numbers, 0, sizeof(numbers[0]) * n);
	for (int k = 0; k < by_code->ncompared; k++)
	{
		const uint8 *short_codes = codes[k].codes;
		const uint16 *long_codes = codes[k].long_codes;

		if (short_codes != NULL)
			for (int i = 0; i < n; i++)
				numbers[i] += (uint16) (short_codes[i] * factor);
		else
			for (int i = 0; i < n; i++)
				numbers[i] += (uint16) (long_codes[i] * factor);
		factor *= codes[k].n;
	}
}

static bool
by_long_codes(GroupByCode *by_code, GroupTable *table, Batch *batch, const Codes *codes, RowGroups *groups)
{
	int			n = batch->n;
	uint16		numbers[BATCH_ROWS];
	uint16		rows[BATCH_ROWS];
	char	   *found[BATCH_ROWS];
	int			nrows = 0;
	bool		room = true;
	char	  **entries = groups->entries;

	combine(by_code, codes, n, numbers);
	for (int i = 0; i < n; i++)
	{
		char	  **entry = &by_code->entries[numbers[i]];

		if (*entry == NULL)
		{
			*entry = SOUGHT;
			rows[nrows++] = i;
		}
		entries[i] = *entry;
	}
	if (nrows > 0)
	{
		room = find_entries(by_code, table, batch, codes, rows, nrows, found);
		for (int i = 0; i < nrows; i++)
			by_code->entries[numbers[rows[i]]] = room ? found[i] : NULL;
		for (int i = 0; i < n; i++)
			entries[i] = by_code->entries[numbers[i]];
	}
	groups->filled = room;

	return room;
}

/*
 * The groups of the rows of a batch, if all keys are codes; there is room for
 * numbers in `ids`. False: nothing is set, and the rows are to be looked for
 * in the table.
 */
bool
group_by_code(GroupByCode *by_code, GroupTable *table, Batch *batch, uint8 *ids, RowGroups *groups)
{
	Codes		codes[GROUP_MAX_KEYS];
	char	  **entries = groups->entries;

	if (!get_codes(by_code, batch, codes))
		return false;
	if (by_code->ncodes <= SHORT_CODES ?
		by_short_codes(by_code, table, batch, codes, ids, groups) :
		by_long_codes(by_code, table, batch, codes, groups))
		return true;
	group_rows_init(groups, NULL, entries);

	return false;
}

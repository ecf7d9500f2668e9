/*-------------------------------------------------------------------------
 *
 * ordered_results.c
 *	  The results of ordered-set aggregates: what orderedsetaggs.c computes, of
 *	  values that are not sorted, or are in runs.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "executor/executor.h"
#include "miscadmin.h"
#include "utils/datum.h"
#include "utils/float.h"
#include "utils/memutils.h"
#include "utils/tuplesort.h"

#include "vector/aggregate/order_statistics.h"
#include "vector/aggregate/ordered_values.h"

/* Values of a group that are merged without looking for interrupts. */
#define MERGED_VALUES 4096

/* ---- what is looked for ---- */

static void
check_fraction(double fraction)
{
	if (fraction < 0 || fraction > 1 || isnan(fraction))
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("percentile value %g is not between 0 and 1", fraction)));
}

/* The ranks of a fraction, with the same arithmetic as PostgreSQL's. */
static void
set_pick(Pick *pick, OrderedKind kind, double fraction, int64 n)
{
	pick->isnull = false;
	if (kind == ORDERED_CONTINUOUS)
	{
		pick->first = floor(fraction * (n - 1));
		pick->second = ceil(fraction * (n - 1));
		pick->proportion = (fraction * (n - 1)) - pick->first;
		return;
	}
	pick->first = Max((int64) ceil(fraction * n), 1) - 1;
	pick->second = pick->first;
}

/* Have room for a number of picks. */
static void
reserve_picks(OrderedSet *set, int n)
{
	if (n <= set->maxpicks)
		return;
	if (set->picks != NULL)
		pfree(set->picks);
	set->picks = MemoryContextAlloc(GetMemoryChunkContext(set), sizeof(Pick) * n);
	set->maxpicks = n;
}

/* Find out what an aggregate wants of the current group, which has n values. */
static void
set_picks(OrderedSet *set, int64 n)
{
	Datum		fraction;
	Datum	   *fractions;
	bool	   *nulls;

	set->npicks = 0;
	set->fractions = NULL;
	set->isnull = n == 0;
	if (set->kind == ORDERED_MODE)
		return;
	fraction = ExecEvalExpr(set->fraction, set->values->econtext, &set->isnull);
	if (!set->multiple)
	{
		if (set->isnull)
			return;
		check_fraction(DatumGetFloat8(fraction));
		set->isnull = n == 0;
		if (set->isnull)
			return;
		reserve_picks(set, 1);
		set_pick(&set->picks[set->npicks++], set->kind, DatumGetFloat8(fraction), n);
		return;
	}
	set->isnull |= n == 0;
	if (set->isnull)
		return;
	set->fractions = DatumGetArrayTypeP(fraction);
	deconstruct_array(set->fractions, FLOAT8OID, sizeof(float8), FLOAT8PASSBYVAL, TYPALIGN_DOUBLE,
					  &fractions, &nulls, &set->npicks);
	reserve_picks(set, set->npicks);
	for (int i = 0; i < set->npicks; i++)
	{
		set->picks[i].isnull = nulls[i];
		if (nulls[i])
			continue;
		check_fraction(DatumGetFloat8(fractions[i]));
		set_pick(&set->picks[i], set->kind, DatumGetFloat8(fractions[i]), n);
	}
}

/* The rank of a value in ascending order, of which that in the order of the aggregate is given. */
static int64
rank_in_order(const OrderedSet *set, int64 rank, int64 n, bool ascending)
{
	return ascending && set->descending ? n - 1 - rank : rank;
}

static int
compare_ranks(const void *a, const void *b)
{
	int64		x = *(const int64 *) a;
	int64		y = *(const int64 *) b;

	return x < y ? -1 : x > y;
}

/* Have the ranks of some aggregates, ascending and each once. */
static void
list_ranks(OrderedValues *values, List *sets, int64 n, bool ascending)
{
	int			most = 0;
	int			k = 0;
	ListCell   *lc;

	foreach(lc, sets)
		most += 2 * ((OrderedSet *) lfirst(lc))->npicks;
	if (most > values->maxranks)
	{
		MemoryContext context = GetMemoryChunkContext(values);

		if (values->maxranks > 0)
		{
			pfree(values->ranks);
			pfree(values->scratch);
			pfree(values->found);
			pfree(values->values);
		}
		values->ranks = MemoryContextAlloc(context, sizeof(int64) * most);
		values->scratch = MemoryContextAlloc(context, sizeof(int64) * most);
		values->found = MemoryContextAlloc(context, sizeof(uint64) * most);
		values->values = MemoryContextAlloc(context, sizeof(Datum) * most);
		values->maxranks = most;
	}
	foreach(lc, sets)
	{
		OrderedSet *set = lfirst(lc);

		for (int i = 0; i < set->npicks; i++)
		{
			if (set->picks[i].isnull)
				continue;
			values->ranks[k++] = rank_in_order(set, set->picks[i].first, n, ascending);
			values->ranks[k++] = rank_in_order(set, set->picks[i].second, n, ascending);
		}
	}
	if (k > 1)
		qsort(values->ranks, k, sizeof(int64), compare_ranks);
	values->nranks = 0;
	for (int i = 0; i < k; i++)
	{
		if (i == 0 || values->ranks[i] != values->ranks[i - 1])
			values->ranks[values->nranks++] = values->ranks[i];
	}
}

/* The value of a rank, which has been found. */
static Datum
value_of_rank(const OrderedValues *values, int64 rank)
{
	int64	   *place = bsearch(&rank, values->ranks, values->nranks, sizeof(int64), compare_ranks);

	Assert(place != NULL);
	return values->values[place - values->ranks];
}

static Datum
value_of_pick(const OrderedSet *set, const Pick *pick, int64 n, bool ascending)
{
	Datum		first = value_of_rank(set->values, rank_in_order(set, pick->first, n, ascending));
	double		low;
	double		high;

	if (pick->first == pick->second)
		return first;
	low = DatumGetFloat8(first);
	high = DatumGetFloat8(value_of_rank(set->values, rank_in_order(set, pick->second, n, ascending)));
	/* float8_lerp() */
	return Float8GetDatum(low + (pick->proportion * (high - low)));
}

/* The result of an aggregate, in the current context, of what has been found. */
static void
set_result(OrderedSet *set, OrderedResult *result, int64 n, bool ascending)
{
	const OrderedValues *values = set->values;
	Datum	   *elements;
	bool	   *nulls;

	result->isnull = set->isnull;
	result->value = (Datum) 0;
	if (set->isnull)
		return;
	if (set->kind == ORDERED_MODE)
		result->value = ascending && set->descending ? values->last_mode : values->first_mode;
	else if (!set->multiple)
		result->value = value_of_pick(set, &set->picks[0], n, ascending);
	else if (set->npicks == 0)
		result->value = PointerGetDatum(construct_empty_array(values->type));
	else
	{
		elements = palloc(sizeof(Datum) * set->npicks);
		nulls = palloc(sizeof(bool) * set->npicks);
		for (int i = 0; i < set->npicks; i++)
		{
			nulls[i] = set->picks[i].isnull;
			elements[i] = nulls[i] ? (Datum) 0 : value_of_pick(set, &set->picks[i], n, ascending);
		}
		result->value = PointerGetDatum(construct_md_array(elements, nulls, ARR_NDIM(set->fractions),
														   ARR_DIMS(set->fractions), ARR_LBOUND(set->fractions),
														   values->type, values->typlen, values->typbyval,
														   values->typalign));
	}
}

static bool
want_mode(List *sets)
{
	ListCell   *lc;

	foreach(lc, sets)
	{
		if (((OrderedSet *) lfirst(lc))->kind == ORDERED_MODE)
			return true;
	}
	return false;
}

/* ---- values in order ---- */

/* What has been read of values in order, for the modes among them. */
typedef struct ModeSearch
{
	uint64		key;			/* the last one */
	int64		count;			/* of those that are equal to it */
	int64		most;			/* that any has had */
	uint64		first;			/* which these are */
	uint64		last;
} ModeSearch;

/* Are two keys of values that are equal, to PostgreSQL? */
static inline bool
keys_are_equal(const OrderedValues *values, uint64 a, uint64 b)
{
	return a == b || (has_twins(values) && float8_eq(float_of_key(a), float_of_key(b)));
}

/* Take note of the next value. */
static inline void
search_modes(const OrderedValues *values, ModeSearch *search, uint64 key)
{
	if (search->count == 0 || !keys_are_equal(values, search->key, key))
	{
		search->key = key;
		search->count = 0;
	}
	search->count++;
	if (search->count > search->most)
		search->first = search->key;
	if (search->count >= search->most)
	{
		search->last = search->key;
		search->most = search->count;
	}
}

/* What has been found. */
static void
set_modes(OrderedValues *values, uint64 first, uint64 last)
{
	values->first_mode = ordered_value_of_key(values, first);
	values->last_mode = ordered_value_of_key(values, last);
}

/* ---- the results of a group ---- */

/* Results of values that are identical if they are equal. */
static void
find_results(OrderedValues *values, uint64 *keys, int64 n)
{
	ListCell   *lc;

	list_ranks(values, values->sets, n, true);
	if (values->nranks > 0)
	{
		memcpy(values->scratch, values->ranks, sizeof(int64) * values->nranks);
		order_select(keys, n, values->scratch, values->nranks, values->found);
		for (int i = 0; i < values->nranks; i++)
			values->values[i] = ordered_value_of_key(values, values->found[i]);
	}
	if (want_mode(values->sets))
	{
		uint64		first;
		uint64		last;

		order_modes(keys, n, &first, &last);
		set_modes(values, first, last);
	}
	foreach(lc, values->sets)
		set_result(lfirst(lc), &values->results[foreach_current_index(lc)], n, true);
}

/* The key of a float. */
static uint64
key_of_value(const OrderedValues *values, Datum value)
{
	Assert(values->type == FLOAT4OID || values->type == FLOAT8OID);
	return key_of_bits(bits_of_float(values->type == FLOAT4OID ? (float8) DatumGetFloat4(value) : DatumGetFloat8(value)));
}

/* Read the next value of a sort; false if there is none. */
static bool
next_sorted(Tuplesortstate *sort, Datum *value)
{
	bool		isnull;

#if PG_VERSION_NUM >= 160000
	return tuplesort_getdatum(sort, true, true, value, &isnull, NULL);
#else
	return tuplesort_getdatum(sort, true, value, &isnull, NULL);
#endif
}

/* Are there floats among these that are equal and not identical? Or there may be: a NaN that is not the usual one. */
static bool
are_twins(const uint64 *keys, int64 n)
{
	const uint64 zero = key_of_bits(0);
	const uint64 minus_zero = key_of_bits(ORDERED_SIGN);
	const uint64 infinity = key_of_bits(bits_of_float(get_float8_infinity()));
	const uint64 nan = key_of_bits(bits_of_float(get_float8_nan()));
	bool		has_zero = false;
	bool		has_minus_zero = false;
	bool		has_other_nan = false;

	for (int64 i = 0; i < n; i++)
	{
		has_zero |= keys[i] == zero;
		has_minus_zero |= keys[i] == minus_zero;
		has_other_nan |= keys[i] > infinity && keys[i] != nan;
	}
	return has_other_nan || (has_zero && has_minus_zero);
}

/* Results of the aggregates of one order. */
static void
sort_alike(OrderedValues *values, List *alike, const uint64 *keys, int64 n)
{
	const OrderedSet *first = linitial(alike);
	bool		modes = want_mode(alike);
	ModeSearch	search = {0};
	int			found = 0;
	ListCell   *lc;
	Tuplesortstate *sort = tuplesort_begin_datum(values->type, first->operator, InvalidOid, first->nulls_first,
												 work_mem, NULL, TUPLESORT_NONE);

	for (int64 i = 0; i < n; i++)
		tuplesort_putdatum(sort, ordered_value_of_key(values, keys[i]), false);
	tuplesort_performsort(sort);
	list_ranks(values, alike, n, false);
	for (int64 rank = 0; modes || found < values->nranks; rank++)
	{
		Datum		value;

		CHECK_FOR_INTERRUPTS();
		if (!next_sorted(sort, &value))
			break;
		if (found < values->nranks && values->ranks[found] == rank)
			values->values[found++] = value;
		if (modes)
			search_modes(values, &search, key_of_value(values, value));
	}
	tuplesort_end(sort);
	if (modes)
		set_modes(values, search.first, search.last);
	foreach(lc, alike)
	{
		OrderedSet *set = lfirst(lc);

		set_result(set, &values->results[set->number], n, false);
	}
}

/* Results of floats as PostgreSQL finds them, by the same sort. */
static void
sort_results(OrderedValues *values, const uint64 *keys, int64 n)
{
	List	   *orders[2] = {NIL, NIL};
	ListCell   *lc;

	foreach(lc, values->sets)
	{
		OrderedSet *set = lfirst(lc);

		orders[set->descending] = lappend(orders[set->descending], set);
	}
	for (int i = 0; i < lengthof(orders); i++)
	{
		if (orders[i] != NIL)
			sort_alike(values, orders[i], keys, n);
	}
}

/* Have direct arguments evaluated for a group, and find out what is wanted of its n values. */
static void
begin_group(OrderedValues *values, char *entry, int64 n)
{
	ListCell   *lc;

	values->current = NULL;
	if (values->aggregates->show_keys != NULL)
		values->aggregates->show_keys(values->aggregates->show_keys_of, entry);
	values->econtext->ecxt_outertuple = values->aggregates->keys;
	foreach(lc, values->sets)
		set_picks(lfirst(lc), n);
}

/* Have the results of a group. */
static void
set_results(OrderedValues *values, const ValuesState *state)
{
	int64		n = count_of(state);
	MemoryContext old;

	MemoryContextReset(values->result_context);
	old = MemoryContextSwitchTo(values->result_context);
	begin_group(values, (char *) state - values->agg->offset, n);
	if (n == 0)
	{
		ListCell   *lc;

		foreach(lc, values->sets)
			set_result(lfirst(lc), &values->results[foreach_current_index(lc)], n, true);
	}
	else
	{
		uint64	   *keys = palloc_extended(sizeof(uint64) * n, MCXT_ALLOC_HUGE);

		ordered_values_gather(state, keys, n);
		if (has_twins(values) && are_twins(keys, n))
			sort_results(values, keys, n);
		else
			find_results(values, keys, n);
	}
	MemoryContextSwitchTo(old);
	values->current = state;
}

/* Keep the results of a group with its state. */
static void
keep_results(OrderedValues *values, ValuesState *state, int64 n)
{
	MemoryContext old = MemoryContextSwitchTo(values->context);
	ListCell   *lc;

	state->results = palloc(sizeof(OrderedResult) * list_length(values->sets));
	foreach(lc, values->sets)
	{
		OrderedSet *set = lfirst(lc);
		OrderedResult *result = &state->results[set->number];

		MemoryContextSwitchTo(values->result_context);
		set_result(set, result, n, true);
		MemoryContextSwitchTo(values->context);
		if (!result->isnull)
			result->value = datumCopy(result->value, !set->multiple && values->typbyval, set->multiple ? -1 : values->typlen);
	}
	MemoryContextSwitchTo(old);
}

/*
 * Find the values of the ranks, and the modes if they are wanted, of the n
 * values that runs give next, the first of which has been read.
 */
static void
read_merged(OrderedValues *values, uint64 key, int64 n, bool modes)
{
	ModeSearch	search = {0};
	int			found = 0;
	char	   *entry;

	for (int64 rank = 0;; rank++)
	{
		if (found < values->nranks && values->ranks[found] == rank)
			values->values[found++] = ordered_value_of_key(values, key);
		if (modes)
			search_modes(values, &search, key);
		if (rank + 1 == n)
			break;
		if (rank % MERGED_VALUES == 0)
			CHECK_FOR_INTERRUPTS();
		if (!ordered_runs_next(values->runs, &entry, &key))
			elog(ERROR, "missing row in an ordered-set aggregate");
	}
	if (modes)
		set_modes(values, search.first, search.last);
}

/*
 * The source has ended. If values are in runs, have the results of all groups;
 * what has been written to files is added to both.
 */
void
ordered_values_finish(VectorAgg *collector, uint64 *partitions, uint64 *bytes)
{
	OrderedValues *values = collector->own;
	MemoryContext old = MemoryContextSwitchTo(values->result_context);
	char	   *entry;
	uint64		key;

	if (values->runs == NULL)
	{
		MemoryContextSwitchTo(old);
		return;
	}
	if (values->first_block != NULL)
		ordered_values_write_run(values);
	ordered_runs_rewind(values->runs);
	*partitions += ordered_runs_count(values->runs);
	*bytes += ordered_runs_bytes(values->runs);
	while (ordered_runs_next(values->runs, &entry, &key))
	{
		ValuesState *state = (ValuesState *) (entry + collector->offset);

		CHECK_FOR_INTERRUPTS();
		MemoryContextReset(values->result_context);
		begin_group(values, entry, state->written);
		list_ranks(values, values->sets, state->written, true);
		read_merged(values, key, state->written, want_mode(values->sets));
		keep_results(values, state, state->written);
	}
	ordered_runs_close(values->runs);
	values->runs = NULL;
	MemoryContextSwitchTo(old);
	MemoryContextReset(values->result_context);
	MemoryContextReset(values->runs_context);
}

/* output() of the kinds: the result of an aggregate of a group. */
Datum
ordered_set_output(const VectorAgg *agg, const void *state, bool *isnull)
{
	const OrderedSet *set = agg->own;
	const ValuesState *s = state;
	const OrderedResult *results = s->results;

	if (results == NULL)
	{
		if (set->values->current != s)
			set_results(set->values, s);
		results = set->values->results;
	}
	*isnull = results[set->number].isnull;
	return results[set->number].value;
}

/*-------------------------------------------------------------------------
 *
 * top_groups.c
 *	  Groups that cannot be among the first of an order are left out.
 *
 * For ORDER BY … LIMIT n above groups, the n groups that come first by the
 * order's first keys are found before any is finished: they are kept in a heap,
 * whose root is the last of them. Groups that come after that are never among
 * the first n. All others are returned: so PostgreSQL's nodes above sort them,
 * decide between ties, and count.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "nodes/value.h"
#include "utils/memutils.h"
#include "utils/sortsupport.h"

#include "vector/node/top_groups.h"

typedef struct TopGroups
{
	GroupChoice choice;
	int64		n;				/* number of groups that are wanted */
	SortSupportData *sort;		/* of each key */
	Datum	   *values;			/* of n groups in a heap: none comes after its
								 * parent; values of a group's keys are next
								 * to each other */
	bool	   *nulls;
	int64		count;
} TopGroups;

/* ---- in a plan ---- */

List *
top_groups_list(const TopGroupsOrder *order)
{
	List	   *result = list_make1(makeInteger((int) order->n));

	for (int k = 0; k < order->nkeys; k++)
	{
		const TopGroupsKey *key = &order->keys[k];

		result = lappend(result, list_make2(list_make2_oid(key->operator, key->collation),
											list_make3_int(key->attno, key->output, key->nulls_first)));
	}
	return result;
}

TopGroupsOrder
top_groups_of_list(List *list)
{
	TopGroupsOrder order = {.n = intVal(linitial(list)),.nkeys = list_length(list) - 1};

	order.keys = palloc(sizeof(TopGroupsKey) * order.nkeys);
	for (int k = 0; k < order.nkeys; k++)
	{
		List	   *oids = linitial(list_nth(list, k + 1));
		List	   *ints = lsecond(list_nth(list, k + 1));

		order.keys[k].operator = linitial_oid(oids);
		order.keys[k].collation = lsecond_oid(oids);
		order.keys[k].attno = linitial_int(ints);
		order.keys[k].output = lsecond_int(ints);
		order.keys[k].nulls_first = lthird_int(ints) != 0;
	}
	return order;
}

/* ---- the heap ---- */

static inline Datum *
values_at(TopGroups *top, int64 place)
{
	return top->values + place * top->choice.nkeys;
}

static inline bool *
nulls_at(TopGroups *top, int64 place)
{
	return top->nulls + place * top->choice.nkeys;
}

static inline int
compare_key(TopGroups *top, int key, Datum value, bool isnull, int64 place)
{
	return ApplySortComparator(value, isnull, values_at(top, place)[key], nulls_at(top, place)[key], &top->sort[key]);
}

/* Below 0: the values come before those at a place. */
static int
compare(TopGroups *top, const Datum *values, const bool *nulls, int64 place)
{
	int			result = 0;

	for (int k = 0; k < top->choice.nkeys && result == 0; k++)
		result = compare_key(top, k, values[k], nulls[k], place);
	return result;
}

static void
put(TopGroups *top, int64 place, const Datum *values, const bool *nulls)
{
	memcpy(values_at(top, place), values, sizeof(Datum) * top->choice.nkeys);
	memcpy(nulls_at(top, place), nulls, sizeof(bool) * top->choice.nkeys);
}

static void
move(TopGroups *top, int64 to, int64 from)
{
	put(top, to, values_at(top, from), nulls_at(top, from));
}

/* Add a group while there is room. */
static void
add(TopGroups *top, const Datum *values, const bool *nulls)
{
	int64		place = top->count++;

	while (place > 0 && compare(top, values, nulls, (place - 1) / 2) > 0)
	{
		move(top, place, (place - 1) / 2);
		place = (place - 1) / 2;
	}
	put(top, place, values, nulls);
}

/* Let a group take the place of the last in order, which it comes before. */
static void
replace_last(TopGroups *top, const Datum *values, const bool *nulls)
{
	int64		place = 0;

	for (;;)
	{
		int64		child = 2 * place + 1;

		if (child >= top->count)
			break;
		if (child + 1 < top->count &&
			compare(top, values_at(top, child + 1), nulls_at(top, child + 1), child) > 0)
			child++;
		if (compare(top, values, nulls, child) >= 0)
			break;
		move(top, place, child);
		place = child;
	}
	put(top, place, values, nulls);
}

/* ---- the choice ---- */

/* Does a group come before the last of those taken by this key, or after it, or is the next key to tell? */
static int
compare_with_last(GroupChoice *choice, int key, Datum value, bool isnull)
{
	TopGroups  *top = (TopGroups *) choice;

	return top->count < top->n ? -1 : compare_key(top, key, value, isnull, 0);
}

/* List the groups that do not come after the last by the first key. */
static int
sift(GroupChoice *choice, const Datum *values, const bool *nulls, int n, uint16 *rows)
{
	TopGroups  *top = (TopGroups *) choice;
	const SortSupportData *sort = &top->sort[0];
	bool		full = top->count == top->n;
	bool		is_int8 = sort->comparator == ssup_datum_signed_cmp;
	bool		is_int4 = sort->comparator == ssup_datum_int32_cmp;
	int			k = 0;

#define SIFT(KEEP) \
	for (int i = 0; i < n; i++) \
	{ \
		rows[k] = i; \
		k += nulls[i] ? sort->ssup_nulls_first : (KEEP); \
	}
#define SIFT_INTEGERS(get) \
	do { \
		int64		last = get(values_at(top, 0)[0]); \
		if (sort->ssup_reverse) \
			SIFT(get(values[i]) >= last) \
		else \
			SIFT(get(values[i]) <= last) \
	} while (0)

	if (full && !nulls_at(top, 0)[0] && is_int8)
		SIFT_INTEGERS(DatumGetInt64);
	else if (full && !nulls_at(top, 0)[0] && is_int4)
		SIFT_INTEGERS(DatumGetInt32);
	else
	{
		for (int i = 0; i < n; i++)
		{
			rows[k] = i;
			k += !full || compare_key(top, 0, values[i], nulls[i], 0) <= 0;
		}
	}
	return k;
}

/* Take a group that comes before the last. */
static void
take(GroupChoice *choice, const Datum *values, const bool *nulls)
{
	TopGroups  *top = (TopGroups *) choice;

	if (top->count < top->n)
		add(top, values, nulls);
	else
		replace_last(top, values, nulls);
}

/* For some of the groups of a sink. Memory belongs to the current context. */
GroupChoice *
top_groups_create(const TopGroupsOrder *order)
{
	TopGroups  *top = palloc0(sizeof(TopGroups));

	Assert(order->n > 0 && order->nkeys > 0);
	top->choice.compare = compare_with_last;
	top->choice.sift = sift;
	top->choice.take = take;
	top->choice.nkeys = order->nkeys;
	top->choice.outputs = palloc(sizeof(int) * order->nkeys);
	top->n = order->n;
	top->sort = palloc0(sizeof(SortSupportData) * order->nkeys);
	for (int k = 0; k < order->nkeys; k++)
	{
		top->choice.outputs[k] = order->keys[k].output;
		top->sort[k].ssup_cxt = CurrentMemoryContext;
		top->sort[k].ssup_collation = order->keys[k].collation;
		top->sort[k].ssup_nulls_first = order->keys[k].nulls_first;
		PrepareSortSupportFromOrderingOp(order->keys[k].operator, &top->sort[k]);
	}
	top->values = MemoryContextAllocHuge(CurrentMemoryContext, sizeof(Datum) * order->n * order->nkeys);
	top->nulls = MemoryContextAllocHuge(CurrentMemoryContext, sizeof(bool) * order->n * order->nkeys);

	return &top->choice;
}

/* Forget all groups. */
void
top_groups_reset(GroupChoice *choice)
{
	((TopGroups *) choice)->count = 0;
}

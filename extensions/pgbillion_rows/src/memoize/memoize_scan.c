/*-------------------------------------------------------------------------
 *
 * memoize_scan.c
 *	  The node MemoizeSubPlan: the rows that a correlated subquery returned,
 *	  by the values it was executed for.
 *
 * Each call of the subquery is a rescan of the node, followed by requests for
 * rows. The first request computes the key and looks for its entry. What is
 * found is returned from memory. Otherwise the plan below is executed, and its
 * rows are kept as they pass; an entry counts once the plan has come to its
 * end, or the caller reads one row only. One that is abandoned earlier is
 * removed.
 *
 * Entries live in a memory context of their own for as long as the query. They
 * take hash_mem at most: the ones that were not used for the longest time make
 * room.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "commands/explain.h"
#if PG_VERSION_NUM >= 180000
#include "commands/explain_format.h"
#include "commands/explain_state.h"
#endif
#include "common/hashfn.h"
#include "executor/executor.h"
#include "executor/nodeHash.h"
#include "lib/ilist.h"
#include "miscadmin.h"
#include "nodes/plannodes.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/ruleutils.h"

#include "compat.h"
#include "memoize/memoize.h"

/* More rows for one key are not kept: they would push out many others. */
#define MOST_ROWS 1000

/* Remembering pays if at least one call in this number finds an entry. */
#define LEAST_HIT_SHARE 8

/*
 * If it does not, this many times the calls of a decision pass through before
 * the next one: twice as many each time, from the least to the most.
 */
#define LEAST_PASSTHROUGH_FACTOR 16
#define MOST_PASSTHROUGH_FACTOR 1024

/*
 * What was kept for one combination of values, or, of a MemoState, the one that
 * is looked for. Behind the values is for each of them whether it is null.
 */
typedef struct MemoEntry
{
	dlist_node	used;			/* in the list of all, the latest used first */
	uint32		hash;			/* of the values */
	uint32		nrows;
	uint32		room;			/* of the array of rows */
	bool		complete;		/* are these all rows? */
	Size		size;			/* of everything that belongs to it */
	MinimalTuple *rows;
	Datum		values[FLEXIBLE_ARRAY_MEMBER];
} MemoEntry;

typedef struct MemoSlot
{
	MemoEntry  *entry;
	char		status;			/* simplehash's own */
} MemoSlot;

typedef struct MemoKey
{
	int			paramid;
	int16		typlen;
	bool		typbyval;
} MemoKey;

typedef enum MemoPhase
{
	MEMO_BEGIN,					/* no row has been asked for since the rescan */
	MEMO_FOUND,					/* rows come from an entry */
	MEMO_FILL,					/* rows come from the plan, and are kept */
	MEMO_PASS,					/* rows come from the plan */
	MEMO_END					/* there are no more */
} MemoPhase;

struct memo_hash;

typedef struct MemoState
{
	CustomScanState css;
	PlanState  *plan;			/* the subquery's own */
	int			nkeys;
	MemoKey    *keys;
	MemoEntry  *probe;			/* the values of this call; by reference, they
								 * are the caller's */
	Bitmapset  *others;			/* parameters of the plan that are not of the
								 * key */
	bool		one_row;		/* does the caller read one row only? */

	MemoPhase	phase;
	MemoEntry  *entry;			/* in MEMO_FOUND and MEMO_FILL */
	uint32		next;			/* row of it */
	TupleTableSlot *slot;		/* for rows of entries */

	MemoryContext context;		/* of all entries and the table */
	struct memo_hash *table;
	dlist_head	used;
	Size		size;			/* of all entries */
	Size		limit;

	uint64		decision_calls; /* 0: everything is remembered */
	uint64		calls;			/* since the last decision */
	uint64		calls_found;
	uint64		to_pass;		/* calls that pass through before the next one */
	uint64		passthrough_factor; /* of the next decision against it */

	/* for EXPLAIN */
	uint64		hits;
	uint64		misses;
	uint64		evictions;
	uint64		passed;
	Size		peak;
} MemoState;

#define ENTRY_SIZE(nkeys) (offsetof(MemoEntry, values) + (nkeys) * (sizeof(Datum) + sizeof(bool)))
#define ENTRY_NULLS(entry, nkeys) ((bool *) &(entry)->values[nkeys])

static bool entries_match(const MemoState *state, const MemoEntry *a, const MemoEntry *b);

#define SH_PREFIX memo
#define SH_ELEMENT_TYPE MemoSlot
#define SH_KEY_TYPE MemoEntry *
#define SH_KEY entry
#define SH_HASH_KEY(tb, key) (key)->hash
#define SH_EQUAL(tb, a, b) entries_match((tb)->private_data, a, b)
#define SH_STORE_HASH
#define SH_GET_HASH(tb, slot) (slot)->entry->hash
#define SH_SCOPE static inline
#define SH_DECLARE
#define SH_DEFINE
#include "lib/simplehash.h"

/* ---- the key ---- */

static bool
entries_match(const MemoState *state, const MemoEntry *a, const MemoEntry *b)
{
	const bool *nulls_a = ENTRY_NULLS(a, state->nkeys);
	const bool *nulls_b = ENTRY_NULLS(b, state->nkeys);

	for (int i = 0; i < state->nkeys; i++)
	{
		if (nulls_a[i] != nulls_b[i])
			return false;
		if (!nulls_a[i] &&
			!datum_image_eq(a->values[i], b->values[i], state->keys[i].typbyval, state->keys[i].typlen))
			return false;
	}
	return true;
}

/* Take the values that the caller has set. Values that must be detoasted take memory of the current context. */
static void
read_key(MemoState *state)
{
	const ParamExecData *params = state->css.ss.ps.state->es_param_exec_vals;
	MemoEntry  *probe = state->probe;
	bool	   *nulls = ENTRY_NULLS(probe, state->nkeys);
	uint32		hash = 0;

	for (int i = 0; i < state->nkeys; i++)
	{
		const MemoKey *key = &state->keys[i];
		const ParamExecData *param = &params[key->paramid];

		/* the caller sets these itself: they are no results of an InitPlan */
		Assert(param->execPlan == NULL);
		probe->values[i] = param->value;
		nulls[i] = param->isnull;
		hash = pg_rotate_left32(hash, 1);
		if (!param->isnull)
			hash ^= datum_image_hash(param->value, key->typbyval, key->typlen);
	}
	probe->hash = murmurhash32(hash);
}

/* ---- entries ---- */

static void
forget_entry(MemoState *state, MemoEntry *entry)
{
	bool	   *nulls = ENTRY_NULLS(entry, state->nkeys);
	bool		found PG_USED_FOR_ASSERTS_ONLY = memo_delete(state->table, entry);

	Assert(found);
	Assert(state->size >= entry->size);
	dlist_delete(&entry->used);
	state->size -= entry->size;
	for (uint32 i = 0; i < entry->nrows; i++)
		pfree(entry->rows[i]);
	if (entry->rows != NULL)
		pfree(entry->rows);
	for (int i = 0; i < state->nkeys; i++)
	{
		if (!nulls[i] && !state->keys[i].typbyval)
			pfree(DatumGetPointer(entry->values[i]));
	}
	pfree(entry);
}

static void
forget_all(MemoState *state)
{
	MemoryContextReset(state->context);
	state->table = NULL;
	dlist_init(&state->used);
	state->size = 0;
	state->entry = NULL;
}

/* Count what an entry takes more, and make room: all other entries go before this one. Is there room for it? */
static bool
grow_entry(MemoState *state, MemoEntry *entry, Size more)
{
	entry->size += more;
	state->size += more;
	while (state->size > state->limit)
	{
		MemoEntry  *oldest = dlist_container(MemoEntry, used, dlist_tail_node(&state->used));

		if (oldest == entry)
			return false;
		forget_entry(state, oldest);
		state->evictions++;
	}
	state->peak = Max(state->peak, state->size);
	return true;
}

/* Make an entry without rows for the values of this call. NULL: there is no room for the values alone. */
static MemoEntry *
add_entry(MemoState *state)
{
	MemoryContext old = MemoryContextSwitchTo(state->context);
	MemoEntry  *entry = palloc0(ENTRY_SIZE(state->nkeys));
	const MemoEntry *probe = state->probe;
	Size		size = ENTRY_SIZE(state->nkeys) + sizeof(MemoSlot);
	bool		found;

	entry->hash = probe->hash;
	memcpy(ENTRY_NULLS(entry, state->nkeys), ENTRY_NULLS(probe, state->nkeys), sizeof(bool) * state->nkeys);
	for (int i = 0; i < state->nkeys; i++)
	{
		const MemoKey *key = &state->keys[i];

		if (ENTRY_NULLS(probe, state->nkeys)[i])
			continue;
		entry->values[i] = datumCopy(probe->values[i], key->typbyval, key->typlen);
		if (!key->typbyval)
			size += datumGetSize(entry->values[i], key->typbyval, key->typlen);
	}
	(void) memo_insert(state->table, entry, &found);
	Assert(!found);
	dlist_push_head(&state->used, &entry->used);
	MemoryContextSwitchTo(old);

	if (grow_entry(state, entry, size))
		return entry;
	forget_entry(state, entry);
	return NULL;
}

/* Keep a row in the entry that is being filled, which is given up where that takes too much. */
static void
keep_row(MemoState *state, TupleTableSlot *slot)
{
	MemoEntry  *entry = state->entry;
	MemoryContext old = MemoryContextSwitchTo(state->context);
	MinimalTuple row = NULL;

	if (entry->nrows < MOST_ROWS)
	{
		if (entry->nrows == entry->room)
		{
			entry->room = Max(entry->room * 2, 1);
			entry->rows = entry->rows == NULL ? palloc(sizeof(MinimalTuple)) :
				repalloc(entry->rows, sizeof(MinimalTuple) * entry->room);
		}
		row = ExecCopySlotMinimalTuple(slot);
		entry->rows[entry->nrows++] = row;
	}
	MemoryContextSwitchTo(old);
	if (row == NULL || !grow_entry(state, entry, row->t_len + sizeof(MinimalTuple)))
	{
		forget_entry(state, entry);
		state->entry = NULL;
		state->phase = MEMO_PASS;
	}
	else if (state->one_row)
		entry->complete = true;
}

/* ---- execution ---- */

/*
 * The parameter of a part of the key. Where the subquery returns the parameter
 * itself, setrefs.c has put a reference to that column in its place.
 */
static Param *
key_param(CustomScan *cscan, Expr *expr)
{
	if (IsA(expr, Var))
	{
		Assert(((Var *) expr)->varno == INDEX_VAR);
		expr = list_nth_node(TargetEntry, cscan->custom_scan_tlist, ((Var *) expr)->varattno - 1)->expr;
	}
	return castNode(Param, expr);
}

static void
begin_memoize(CustomScanState *css, EState *estate, int eflags)
{
	MemoState  *state = (MemoState *) css;
	CustomScan *cscan = (CustomScan *) css->ss.ps.plan;
	ListCell   *lc;

	/*
	 * the caller's values are read by rescans; no cursor moves within a
	 * subquery
	 */
	Assert((eflags & (EXEC_FLAG_BACKWARD | EXEC_FLAG_MARK)) == 0);
	state->plan = ExecInitNode(linitial(cscan->custom_plans), estate, eflags & ~EXEC_FLAG_REWIND);
	css->custom_ps = list_make1(state->plan);
	state->slot = ExecInitExtraTupleSlot(estate, ExecGetResultType(state->plan), &TTSOpsMinimalTuple);
	state->nkeys = list_length(cscan->custom_exprs);
	state->keys = palloc(sizeof(MemoKey) * state->nkeys);
	state->probe = palloc0(ENTRY_SIZE(state->nkeys));
	state->others = bms_copy(cscan->scan.plan.extParam);
	foreach(lc, cscan->custom_exprs)
	{
		Param	   *param = key_param(cscan, lfirst(lc));
		MemoKey    *key = &state->keys[foreach_current_index(lc)];

		Assert(param->paramkind == PARAM_EXEC);
		key->paramid = param->paramid;
		get_typlenbyval(param->paramtype, &key->typlen, &key->typbyval);
		state->others = bms_del_member(state->others, param->paramid);
	}
	state->one_row = intVal(list_nth(cscan->custom_private, MEMOIZE_ONE_ROW)) != 0;
	state->decision_calls = intVal(list_nth(cscan->custom_private, MEMOIZE_DECISION_CALLS));
	state->context = AllocSetContextCreate(estate->es_query_cxt, "MemoizeSubPlan", ALLOCSET_DEFAULT_SIZES);
	state->limit = get_hash_memory_limit();
	state->passthrough_factor = LEAST_PASSTHROUGH_FACTOR;
	dlist_init(&state->used);
}

/*
 * Decide whether the next calls look for an entry: not, for a while, where too
 * few of the last ones found one. What is kept stays, and grows by what the
 * next calls add that look for an entry.
 */
static void
decide(MemoState *state)
{
	if (state->calls_found * LEAST_HIT_SHARE < state->calls)
	{
		state->to_pass = state->calls * state->passthrough_factor;
		state->passthrough_factor = Min(state->passthrough_factor * 2, MOST_PASSTHROUGH_FACTOR);
	}
	else
		state->passthrough_factor = LEAST_PASSTHROUGH_FACTOR;
	state->calls = 0;
	state->calls_found = 0;
}

/* Look for the values of this call: what is done next. */
static MemoPhase
begin_call(MemoState *state)
{
	ExprContext *econtext = state->css.ss.ps.ps_ExprContext;
	MemoryContext old;
	MemoSlot   *found;

	if (state->to_pass > 0)
	{
		state->to_pass--;
		state->passed++;
		return MEMO_PASS;
	}
	if (state->table == NULL)
		state->table = memo_create(state->context, 64, state);
	ResetExprContext(econtext);
	old = MemoryContextSwitchTo(econtext->ecxt_per_tuple_memory);
	read_key(state);
	found = memo_lookup(state->table, state->probe);
	MemoryContextSwitchTo(old);

	state->calls++;
	if (found != NULL)
	{
		state->hits++;
		state->calls_found++;
		state->entry = found->entry;
		state->next = 0;
		Assert(state->entry->complete);
		dlist_move_head(&state->used, &state->entry->used);
	}
	else
	{
		state->misses++;
		state->entry = add_entry(state);
	}
	if (state->calls == state->decision_calls)
		decide(state);
	return found != NULL ? MEMO_FOUND : state->entry != NULL ? MEMO_FILL : MEMO_PASS;
}

static TupleTableSlot *
exec_memoize(CustomScanState *css)
{
	MemoState  *state = (MemoState *) css;
	TupleTableSlot *slot;

	if (state->phase == MEMO_BEGIN)
	{
		state->phase = begin_call(state);

		/*
		 * by which the plan begins anew: the caller has marked the key as
		 * changed
		 */
		Assert(state->plan->chgParam != NULL);
	}
	switch (state->phase)
	{
		case MEMO_FOUND:
			if (state->next == state->entry->nrows)
				break;
			return ExecStoreMinimalTuple(state->entry->rows[state->next++], state->slot, false);
		case MEMO_FILL:
			slot = ExecProcNode(state->plan);
			if (!TupIsNull(slot))
			{
				keep_row(state, slot);
				return slot;
			}
			state->entry->complete = true;
			break;
		case MEMO_PASS:
			slot = ExecProcNode(state->plan);
			if (!TupIsNull(slot))
				return slot;
			break;
		case MEMO_BEGIN:
		case MEMO_END:
			break;
	}
	state->phase = MEMO_END;
	return NULL;
}

static void
rescan_memoize(CustomScanState *css)
{
	MemoState  *state = (MemoState *) css;

	ExecClearTuple(state->slot);
	if (bms_overlap(css->ss.ps.chgParam, state->others))
		forget_all(state);
	else if (state->phase == MEMO_FILL && !state->entry->complete)
		forget_entry(state, state->entry);
	state->entry = NULL;
	state->phase = MEMO_BEGIN;

	/*
	 * What has changed is handed over rather than copied, as
	 * UpdateChangedParamSet() would, which costs as much as a cheap
	 * subquery's tenth. Calls that find an entry leave it for the next that
	 * does not. Parameters that the plan does not know do it no harm: a
	 * subquery's plan gets them from the caller itself otherwise.
	 */
	state->plan->chgParam = bms_join(state->plan->chgParam, css->ss.ps.chgParam);
	css->ss.ps.chgParam = NULL;
}

static void
end_memoize(CustomScanState *css)
{
	ExecEndNode(((MemoState *) css)->plan);
}

static void
explain_memoize(CustomScanState *css, List *ancestors, ExplainState *es)
{
	MemoState  *state = (MemoState *) css;
	CustomScan *cscan = (CustomScan *) css->ss.ps.plan;
	List	   *context = set_deparse_context_plan(es->deparse_cxt, &cscan->scan.plan, ancestors);
	List	   *names = NIL;
	ListCell   *lc;

	foreach(lc, cscan->custom_exprs)
		names = lappend(names, deparse_expression(lfirst(lc), context, list_length(es->rtable) > 1, false));
	ExplainPropertyList("Cache Key", names, es);
	if (!es->analyze)
		return;
	ExplainPropertyUInteger("Cache Hits", NULL, state->hits, es);
	ExplainPropertyUInteger("Cache Misses", NULL, state->misses, es);
	ExplainPropertyUInteger("Cache Evictions", NULL, state->evictions, es);
	ExplainPropertyUInteger("Passed Through", NULL, state->passed, es);
	ExplainPropertyUInteger("Cache Memory Usage", "kB", (state->peak + 1023) / 1024, es);
}

static const CustomExecMethods exec_methods = {
	.CustomName = "MemoizeSubPlan",
	.BeginCustomScan = begin_memoize,
	.ExecCustomScan = exec_memoize,
	.EndCustomScan = end_memoize,
	.ReScanCustomScan = rescan_memoize,
	.ExplainCustomScan = explain_memoize,
};

static Node *
create_state(CustomScan *cscan)
{
	MemoState  *state = palloc0(sizeof(MemoState));

	NodeSetTag(state, T_CustomScanState);
	state->css.methods = &exec_methods;

	return (Node *) state;
}

const CustomScanMethods memoize_scan_methods = {
	.CustomName = "MemoizeSubPlan",
	.CreateCustomScanState = create_state,
};

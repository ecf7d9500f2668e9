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
 * Where the results for all values can be computed at once (grouped.c), that is
 * done once the calls that executed the plan have taken several times as long:
 * whatever calls follow, little is lost. From then on a value without an entry
 * is one of which the subquery finds no row. All these, and NULL, which equals
 * nothing, have one entry: that of a key whose values are all NULL.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
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
#include "portability/instr_time.h"
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
 * What the calls have taken, in milliseconds, before it is asked what the
 * results for all values take: planning that takes half a millisecond.
 */
#define GROUPED_LEAST_MS 25.0

/* The first calls that execute the plan are timed, and then one of this number. */
#define TIMED_FIRST 4
#define TIMED_CALLS 16

/*
 * Calls have to take this many times as long as that is estimated to take. If
 * none follows, that part of the time was in vain; if as many follow again,
 * nothing was.
 */
#define GROUPED_FACTOR 8.0

/* Milliseconds that it takes to keep the result of a group. */
#define GROUPED_KEEP_MS 0.001

/* Memory that a group's entry takes at least, with its row and what allocating adds. */
#define GROUPED_ENTRY_BYTES 160

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

	Query	   *grouped;		/* results for all values, or NULL: no longer */
	PlannedStmt *grouped_plan;	/* of it, once it was asked for */
	MemoryContext grouped_context;	/* where it is planned and executed */
	double		grouped_ms;		/* that the calls take which execute the plan
								 * before that is looked at next */
	uint64		timed;			/* of these calls: how many, and what they
								 * have taken */
	double		timed_ms;
	double		longest_ms;		/* the one that has taken longest */
	uint64		timed_last;		/* which the last one was */
	TupleTableSlot *grouped_slot;	/* for its rows */
	bool		all_known;		/* has every value of which there are rows an
								 * entry? */

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
	uint64		groups;
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

/* A value in the one way to fill the rest of a Datum: functions differ in that, and values are compared as they are. */
static Datum
same_datum(const MemoKey *key, Datum value)
{
	if (!key->typbyval)
		return value;
	switch (key->typlen)
	{
		case sizeof(char):
			return UInt8GetDatum((uint8) value);
		case sizeof(int16):
			return Int16GetDatum((int16) value);
		case sizeof(int32):
			return Int32GetDatum((int32) value);
		default:
			return value;
	}
}

/* Look for a value of the key next. Values that must be detoasted take memory of the current context. */
static void
set_key(MemoState *state, int i, Datum value, bool isnull)
{
	MemoEntry  *probe = state->probe;
	const MemoKey *key = &state->keys[i];

	if (i == 0)
		probe->hash = 0;
	probe->values[i] = isnull ? (Datum) 0 : same_datum(key, value);
	ENTRY_NULLS(probe, state->nkeys)[i] = isnull;
	probe->hash = pg_rotate_left32(probe->hash, 1);
	if (!isnull)
		probe->hash ^= datum_image_hash(probe->values[i], key->typbyval, key->typlen);
	if (i == state->nkeys - 1)
		probe->hash = murmurhash32(probe->hash);
}

/* Take the values that the caller has set. */
static void
read_key(MemoState *state)
{
	const ParamExecData *params = state->css.ss.ps.state->es_param_exec_vals;

	for (int i = 0; i < state->nkeys; i++)
	{
		const ParamExecData *param = &params[state->keys[i].paramid];

		/* the caller sets these itself: they are no results of an InitPlan */
		Assert(param->execPlan == NULL);
		set_key(state, i, param->value, param->isnull);
	}
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
	state->all_known = false;
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
		state->all_known = false;
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

/* ---- the results for all values ---- */

/* Keep the result of a group, unless it is known; false: there is no room for more. */
static bool
keep_group(void *arg, const Datum *values, const bool *nulls)
{
	MemoState  *state = arg;
	TupleTableSlot *slot = state->grouped_slot;

	for (int i = 0; i < state->nkeys; i++)
	{
		/* NULL equals nothing */
		if (nulls[i])
			return true;
		set_key(state, i, values[i], false);
	}
	if (memo_lookup(state->table, state->probe) != NULL)
		return true;
	ExecClearTuple(slot);
	slot->tts_values[0] = values[state->nkeys];
	slot->tts_isnull[0] = nulls[state->nkeys];
	ExecStoreVirtualTuple(slot);
	/* what was kept must not make room for it */
	if (state->size + GROUPED_ENTRY_BYTES > state->limit)
		return false;
	state->all_known = true;
	state->entry = add_entry(state);
	if (state->entry != NULL)
		keep_row(state, slot);
	if (state->entry == NULL)
		return false;
	state->entry->complete = true;
	state->entry = NULL;
	state->groups++;
	return state->all_known;
}

/* May the query for all values be executed? */
static bool
may_execute_grouped(const MemoState *state)
{
	/*
	 * a subtransaction cannot begin in parallel mode, and a conflict with
	 * recovery would end the session in it; rows that were changed by others
	 * are looked at one by one; more locks of a serializable transaction fail
	 * more often; other values of the outer query may change
	 */
	return !IsInParallelMode() && !RecoveryInProgress() && !IsolationIsSerializable() &&
		state->css.ss.ps.state->es_epq_active == NULL && bms_is_empty(state->others);
}

/* The results for all values are asked for no longer. */
static void
give_up_grouped(MemoState *state)
{
	state->grouped = NULL;
	state->grouped_plan = NULL;
	if (state->grouped_context != NULL)
		MemoryContextDelete(state->grouped_context);
	state->grouped_context = NULL;
}

/* What a call takes that executes the plan, without the longest one, which may have had to wait; 0: not known yet. */
static double
call_ms(const MemoState *state)
{
	return state->timed < 2 ? 0 : (state->timed_ms - state->longest_ms) / (state->timed - 1);
}

/* Plan the query for all values. */
static void
plan_grouped(MemoState *state)
{
	EState	   *estate = state->css.ss.ps.state;
	MemoryContext old;
	Plan	   *plan;
	double		ms;

	state->grouped_context = AllocSetContextCreate(estate->es_query_cxt, "MemoizeSubPlan groups", ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(state->grouped_context);
	state->grouped_plan = memoize_plan_grouped(state->grouped, estate, &ms);
	MemoryContextSwitchTo(old);
	plan = state->grouped_plan->planTree;
	if (plan->plan_rows * GROUPED_ENTRY_BYTES > state->limit)
	{
		give_up_grouped(state);
		return;
	}
	if (state->grouped_ms <= 0)
		return;
	/* if tables are not in memory, there are only costs */
	if (ms < 0)
		ms = call_ms(state) * plan->total_cost / Max(state->plan->plan->total_cost, 1);
	state->grouped_ms = Max(state->grouped_ms, GROUPED_FACTOR * (ms + GROUPED_KEEP_MS * plan->plan_rows));
}

/* Have the calls that execute the plan taken as long as they may before it is looked at what all results take? */
static bool
is_grouped_due(const MemoState *state)
{
	return (state->misses + state->passed) * call_ms(state) >= state->grouped_ms;
}

/* The plan has been executed often: look whether the results for all values cost less, and get them if they do. */
static void
consider_grouped(MemoState *state)
{
	MemoryContext old;
	bool		complete;

	if (!may_execute_grouped(state))
	{
		give_up_grouped(state);
		return;
	}
	if (state->grouped_plan == NULL)
		plan_grouped(state);
	if (state->grouped == NULL || !is_grouped_due(state))
		return;
	old = MemoryContextSwitchTo(state->grouped_context);
	complete = memoize_execute_grouped(state->grouped_plan, state->css.ss.ps.state, keep_group, state);
	MemoryContextSwitchTo(old);
	ExecClearTuple(state->grouped_slot);
	give_up_grouped(state);
	/* an error has come as it was being kept */
	if (state->entry != NULL)
		forget_entry(state, state->entry);
	state->entry = NULL;
	state->all_known = complete;
	if (complete)
	{
		state->to_pass = 0;
		state->decision_calls = 0;
	}
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
	state->grouped = list_nth(cscan->custom_private, MEMOIZE_GROUPED);
	if (state->decision_calls > 0)
		state->grouped_ms = GROUPED_LEAST_MS;
	if (state->grouped != NULL)
		state->grouped_slot = ExecInitExtraTupleSlot(estate, ExecGetResultType(state->plan), &TTSOpsVirtual);
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

	if (state->table == NULL)
		state->table = memo_create(state->context, 64, state);
	if (state->grouped != NULL && is_grouped_due(state))
		consider_grouped(state);
	if (state->to_pass > 0)
	{
		state->to_pass--;
		state->passed++;
		return MEMO_PASS;
	}
	ResetExprContext(econtext);
	old = MemoryContextSwitchTo(econtext->ecxt_per_tuple_memory);
	read_key(state);
	found = memo_lookup(state->table, state->probe);
	if (found == NULL && state->all_known)
	{
		for (int i = 0; i < state->nkeys; i++)
			set_key(state, i, (Datum) 0, true);
		found = memo_lookup(state->table, state->probe);
	}
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

/*
 * The next row of the plan. What some of the calls take until their row is added
 * up as long as it is of use.
 */
static TupleTableSlot *
run_plan(MemoState *state)
{
	uint64		executed = state->misses + state->passed;
	instr_time	start;
	instr_time	end;
	double		ms;
	TupleTableSlot *slot;

	if (state->grouped == NULL || executed == state->timed_last ||
		(executed > TIMED_FIRST && executed % TIMED_CALLS != 0))
		return ExecProcNode(state->plan);
	state->timed_last = executed;
	INSTR_TIME_SET_CURRENT(start);
	slot = ExecProcNode(state->plan);
	INSTR_TIME_SET_CURRENT(end);
	INSTR_TIME_SUBTRACT(end, start);
	ms = INSTR_TIME_GET_MILLISEC(end);
	state->timed++;
	state->timed_ms += ms;
	state->longest_ms = Max(state->longest_ms, ms);
	return slot;
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
			slot = run_plan(state);
			if (!TupIsNull(slot))
			{
				keep_row(state, slot);
				return slot;
			}
			state->entry->complete = true;
			break;
		case MEMO_PASS:
			slot = run_plan(state);
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
	if (list_nth(cscan->custom_private, MEMOIZE_GROUPED) != NULL)
		ExplainPropertyUInteger("Groups Computed at Once", NULL, state->groups, es);
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

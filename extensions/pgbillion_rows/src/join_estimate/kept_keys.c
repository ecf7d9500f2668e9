/*-------------------------------------------------------------------------
 *
 * kept_keys.c
 *	  Reads the keys that conditions keep of a table, while a query is planned.
 *
 * A query of its own is planned and run, which may read a columnar index or any
 * other. What it finds is remembered by the session until the table changes in
 * a way that sessions are told of, as by ANALYZE: the keys are for estimates,
 * which need not see every row.
 *
 * The caller's query may never run, and not see all rows: nothing that can fail
 * or has an effect is evaluated.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_proc.h"
#include "executor/executor.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "parser/parse_relation.h"
#include "parser/parsetree.h"
#include "rewrite/rewriteManip.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/fmgroids.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/sortsupport.h"
#include "utils/syscache.h"
#include "utils/typcache.h"

#include "compat.h"
#include "join_estimate/join_estimate.h"
#include "planner/planner.h"

/* How many filters a session remembers, with how many keys in all: a few megabytes. */
#define MOST_REMEMBERED 256
#define MOST_REMEMBERED_KEYS 200000

/* ---- what is evaluated ---- */

/* Can a function fail or tell what it has seen? Comparing a date with a timestamp cannot, which PostgreSQL does not say. */
static bool
may_fail(Oid function, void *context)
{
	switch (function)
	{
		case F_DATE_LT_TIMESTAMP:
		case F_DATE_LE_TIMESTAMP:
		case F_DATE_EQ_TIMESTAMP:
		case F_DATE_GE_TIMESTAMP:
		case F_DATE_GT_TIMESTAMP:
		case F_DATE_NE_TIMESTAMP:
			return false;
		default:
			return !get_func_leakproof(function) || func_volatile(function) != PROVOLATILE_IMMUTABLE;
	}
}

/* Is it LIKE with a constant pattern that cannot fail? It does at an escape character that ends the pattern. */
static bool
is_plain_like(OpExpr *op)
{
	Const	   *pattern = list_length(op->args) == 2 ? lsecond(op->args) : NULL;
	char	   *found;
	bool		plain;

	set_opfuncid(op);
	if (op->opfuncid != F_TEXTLIKE && op->opfuncid != F_TEXTNLIKE && op->opfuncid != F_BPCHARLIKE &&
		op->opfuncid != F_BPCHARNLIKE)
		return false;
	if (!IsA(pattern, Const) || !OidIsValid(op->inputcollid) || !get_collation_isdeterministic(op->inputcollid))
		return false;
	if (pattern->constisnull)
		return true;
	found = TextDatumGetCString(pattern->constvalue);
	plain = strchr(found, '\\') == NULL;
	pfree(found);
	return plain;
}

static bool
cannot_evaluate(Node *node, void *context)
{
	if (node == NULL)
		return false;
	switch (nodeTag(node))
	{
		case T_List:
		case T_Var:
		case T_Const:
		case T_BoolExpr:
		case T_RelabelType:
		case T_NullTest:
		case T_BooleanTest:
			break;
		case T_OpExpr:
			if (is_plain_like((OpExpr *) node))
				break;
			/* FALLTHROUGH */
		case T_FuncExpr:
		case T_ScalarArrayOpExpr:
			if (check_functions_in_node(node, may_fail, context))
				return true;
			break;
		default:
			return true;
	}
	return expression_tree_walker(node, cannot_evaluate, context);
}

/* May a condition of a table be evaluated, whatever the values are, and without an effect? */
bool
kept_keys_can_evaluate(Node *condition)
{
	return !cannot_evaluate(condition, NULL);
}

/* ---- what is remembered ---- */

typedef struct Remembered
{
	Oid			relid;			/* InvalidOid: none */
	AttrNumber	column;
	uint32		statistics;		/* hash of the column's row in pg_statistic */
	bool		changed;		/* the table or its statistics have, or may
								 * have */
	uint64		used;			/* when, by `uses` */
	List	   *conditions;		/* of varno 1 */
	KeptKeys   *keys;			/* NULL: there are too many */
	MemoryContext context;		/* of the two before */
} Remembered;

StaticAssertDecl(MOST_KEYS <= MOST_REMEMBERED_KEYS, "the keys of one filter have room");

static Remembered remembered[MOST_REMEMBERED];
static uint64 uses = 0;

/* Of the table that is being read the same, as there is no entry yet. One is read at a time. */
static Remembered reading;

static void
note_change(Remembered *entry, Oid relid)
{
	entry->changed |= relid == InvalidOid || entry->relid == relid;
}

/* Tables have changed. This may be called at any time, so nothing is freed. */
static void
table_changed(Datum arg, Oid relid)
{
	note_change(&reading, relid);
	for (int i = 0; i < MOST_REMEMBERED; i++)
		note_change(&remembered[i], relid);
}

static void
note_statistics(Remembered *entry, uint32 hash)
{
	entry->changed |= hash == 0 || entry->statistics == hash;
}

/* ANALYZE has been run; a table whose size stays the same does not tell of that. */
static void
statistics_changed(Datum arg, int cacheid, uint32 hash)
{
	note_statistics(&reading, hash);
	for (int i = 0; i < MOST_REMEMBERED; i++)
		note_statistics(&remembered[i], hash);
}

static void
forget(Remembered *entry)
{
	MemoryContext context = entry->context;

	memset(entry, 0, sizeof(Remembered));
	if (context != NULL)
		MemoryContextDelete(context);
}

/* Where a filter is remembered, or NULL. */
static Remembered *
find(Oid relid, AttrNumber column, List *conditions)
{
	for (int i = 0; i < MOST_REMEMBERED; i++)
	{
		Remembered *entry = &remembered[i];

		if (entry->changed)
			forget(entry);
		if (entry->relid == relid && entry->column == column && equal(entry->conditions, conditions))
			return entry;
	}
	return NULL;
}

/* A copy of keys, in the current memory context; of NULL it is NULL. */
static KeptKeys *
copy_keys(const KeptKeys *keys, bool byval, int16 length)
{
	KeptKeys   *copy;

	if (keys == NULL)
		return NULL;
	copy = palloc(sizeof(KeptKeys));
	copy->nkeys = keys->nkeys;
	copy->keys = palloc(sizeof(Datum) * Max(keys->nkeys, 1));
	if (byval)
		memcpy(copy->keys, keys->keys, sizeof(Datum) * keys->nkeys);
	else
	{
		for (int i = 0; i < keys->nkeys; i++)
			copy->keys[i] = datumCopy(keys->keys[i], false, length);
	}
	return copy;
}

static int
count_keys(const Remembered *entry)
{
	return entry->keys != NULL ? entry->keys->nkeys : 0;
}

static int
count_all_keys(void)
{
	int			n = 0;

	for (int i = 0; i < MOST_REMEMBERED; i++)
		n += count_keys(&remembered[i]);
	return n;
}

/* The entry that was not used for longest: an empty one, unless it has to have keys. */
static Remembered *
oldest(bool with_keys)
{
	Remembered *found = NULL;

	for (int i = 0; i < MOST_REMEMBERED; i++)
	{
		Remembered *entry = &remembered[i];

		if ((!with_keys || count_keys(entry) > 0) && (found == NULL || entry->used < found->used))
			found = entry;
	}
	return found;
}

/* Remember what was read, in the place of filters that were not used for longest. */
static void
remember(List *conditions, const KeptKeys *keys, bool byval, int16 length)
{
	Remembered *entry;
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "pgbillion kept keys", ALLOCSET_SMALL_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	List	   *own = copyObject(conditions);
	KeptKeys   *copy = copy_keys(keys, byval, length);

	MemoryContextSwitchTo(old);
	while (keys != NULL && count_all_keys() + keys->nkeys > MOST_REMEMBERED_KEYS)
		forget(oldest(true));
	entry = oldest(false);
	forget(entry);
	/* from here on nothing can fail */
	MemoryContextSetParent(context, CacheMemoryContext);
	*entry = reading;
	entry->used = ++uses;
	entry->conditions = own;
	entry->keys = copy;
	entry->context = context;
}

/* Does the session see the same as its next transaction, if nothing changes? */
static bool
sees_what_all_see(void)
{
	return !IsolationUsesXactSnapshot() && !TransactionIdIsValid(GetTopTransactionIdIfAny());
}

/* ---- reading ---- */

/* Takes the keys that the query returns. */
typedef struct Receiver
{
	DestReceiver pub;
	KeptKeys   *found;
	bool		byval;
	int16		length;
	bool		full;			/* there are more than MOST_KEYS */
	MemoryContext context;		/* of the keys */
} Receiver;

static bool
receive(TupleTableSlot *slot, DestReceiver *self)
{
	Receiver   *receiver = (Receiver *) self;
	bool		isnull;
	Datum		key = slot_getattr(slot, 1, &isnull);
	MemoryContext old;

	if (isnull)
		return true;
	receiver->full = receiver->found->nkeys == MOST_KEYS;
	if (receiver->full)
		return false;
	old = MemoryContextSwitchTo(receiver->context);
	receiver->found->keys[receiver->found->nkeys++] = datumCopy(key, receiver->byval, receiver->length);
	MemoryContextSwitchTo(old);
	return true;
}

static void
receive_startup(DestReceiver *self, int operation, TupleDesc typeinfo)
{
}

static void
receive_end(DestReceiver *self)
{
}

static int
compare_keys(const void *a, const void *b, void *arg)
{
	SortSupport order = arg;

	return ApplySortComparator(*(const Datum *) a, false, *(const Datum *) b, false, order);
}

/* Put the keys of a column into its default order. */
static void
sort_keys(KeptKeys *found, Oid relid, AttrNumber column)
{
	SortSupportData order = {.ssup_cxt = CurrentMemoryContext};
	TypeCacheEntry *cache;
	Oid			type;
	int32		typmod;

	get_atttypetypmodcoll(relid, column, &type, &typmod, &order.ssup_collation);
	cache = lookup_type_cache(type, TYPECACHE_LT_OPR);
	PrepareSortSupportFromOrderingOp(cache->lt_opr, &order);
	qsort_arg(found->keys, found->nkeys, sizeof(Datum), compare_keys, &order);
}

/* The query that returns the keys of a table, with the conditions on varno 1. */
static Query *
make_query(PlannerInfo *root, RangeTblEntry *rte, AttrNumber column, List *conditions)
{
	Query	   *query = makeNode(Query);
	RangeTblEntry *own = copyObject(rte);
	RangeTblRef *ref = makeNode(RangeTblRef);
	Oid			type;
	int32		typmod;
	Oid			collation;

	/* as whom it is read stays as it is */
#if PG_VERSION_NUM >= 160000
	query->rteperminfos = list_make1(copyObject(getRTEPermissionInfo(root->parse->rteperminfos, rte)));
	linitial_node(RTEPermissionInfo, query->rteperminfos)->requiredPerms = ACL_SELECT;
	own->perminfoindex = 1;
#else
	own->requiredPerms = ACL_SELECT;
#endif
	get_atttypetypmodcoll(rte->relid, column, &type, &typmod, &collation);
	ref->rtindex = 1;
	query->commandType = CMD_SELECT;
	query->querySource = QSRC_ORIGINAL;
	query->canSetTag = true;
	query->rtable = list_make1(own);
	query->jointree = makeFromExpr(list_make1(ref), (Node *) make_ands_explicit(copyObject(conditions)));
	query->targetList = list_make1(makeTargetEntry((Expr *) makeVar(1, column, type, typmod, collation, 0), 1,
												   pstrdup("key"), false));
	return query;
}

/* Plan the query. What is found out about it tells nothing of the user's. */
static PlannedStmt *
plan_quietly(Query *query)
{
	StringInfoData unused;
	StringInfo	findings;
	PlannedStmt *volatile plan = NULL;

	initStringInfo(&unused);
	findings = plan_report_collect(&unused);
	PG_TRY();
	{
		plan = planner(query, "", 0, NULL, NULL);
	}
	PG_FINALLY();
	{
		plan_report_collect(findings);
	}
	PG_END_TRY();
	return plan;
}

/* Run the query; the executor's hooks are for what users run. */
static void
run_query(Query *query, Receiver *receiver)
{
	QueryDesc  *desc = CreateQueryDesc(plan_quietly(query), "", GetActiveSnapshot(), InvalidSnapshot, &receiver->pub,
									   NULL, NULL, 0);

	standard_ExecutorStart(desc, 0);
	standard_executor_run(desc);
	standard_ExecutorFinish(desc);
	standard_ExecutorEnd(desc);
	FreeQueryDesc(desc);
}

/* May the query's user read the table, all of it, as a query of its own? */
static bool
may_read(PlannerInfo *root, RangeTblEntry *rte)
{
	Oid			user;

#if PG_VERSION_NUM >= 160000
	if (rte->perminfoindex == 0)
		return false;
	user = getRTEPermissionInfo(root->parse->rteperminfos, rte)->checkAsUser;
#else
	user = rte->checkAsUser;
#endif
	return rte->securityQuals == NIL &&
		pg_class_aclcheck(rte->relid, OidIsValid(user) ? user : GetUserId(), ACL_SELECT) == ACLCHECK_OK;
}

static void
watch_changes(void)
{
	static bool registered = false;

	if (registered)
		return;
	CacheRegisterRelcacheCallback(table_changed, (Datum) 0);
	CacheRegisterSyscacheCallback(STATRELATTINH, statistics_changed, (Datum) 0);
	registered = true;
}

/* Read the keys with conditions on varno 1, and remember them; NULL if there are too many. */
static KeptKeys *
read_keys(PlannerInfo *root, RangeTblEntry *rte, AttrNumber column, List *conditions, bool byval, int16 length)
{
	KeptKeys   *found = palloc(sizeof(KeptKeys));
	Receiver	receiver = {
		{receive, receive_startup, receive_end, receive_end, DestNone},
		.found = found,.byval = byval,.length = length,.context = CurrentMemoryContext
	};

	found->nkeys = 0;
	found->keys = palloc(sizeof(Datum) * MOST_KEYS);
	reading = (Remembered)
	{
		.relid = rte->relid,.column = column,
			.statistics = GetSysCacheHashValue3(STATRELATTINH, ObjectIdGetDatum(rte->relid), Int16GetDatum(column),
												BoolGetDatum(false))
	};
	run_query(make_query(root, rte, column, conditions), &receiver);
	if (receiver.full)
		found = NULL;
	else
		sort_keys(found, rte->relid, column);
	if (!reading.changed && sees_what_all_see())
		remember(conditions, found, byval, length);
	return found;
}

/*
 * The keys in a column of the rows of a table that satisfy the conditions, of
 * which kept_keys_can_evaluate() is true; or NULL, if they may not be read now,
 * or if there are too many. The column's type has a fixed length and a default
 * order. The planner holds a lock on the table. The result is in the current
 * memory context.
 */
KeptKeys *
kept_keys_read(PlannerInfo *root, RelOptInfo *table, AttrNumber column, List *conditions)
{
	RangeTblEntry *rte = planner_rt_fetch(table->relid, root);
	MemoryContext work;
	MemoryContext old;
	Remembered *known;
	const KeptKeys *found = NULL;
	KeptKeys   *result;
	int16		length;
	bool		byval;

	if (!may_read(root, rte))
		return NULL;
	watch_changes();
	get_typlenbyval(get_atttype(rte->relid, column), &length, &byval);
	Assert(length > 0);
	work = AllocSetContextCreate(CurrentMemoryContext, "pgbillion keys", ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(work);
	conditions = copyObject(conditions);
	ChangeVarNodes((Node *) conditions, table->relid, 1, 0);
	known = find(rte->relid, column, conditions);
	if (known != NULL)
	{
		known->used = ++uses;
		found = known->keys;
	}

	/*
	 * what is read takes no predicate locks, which would have other
	 * transactions fail
	 */
	else if (ActiveSnapshotSet() && !IsolationIsSerializable())
		found = read_keys(root, rte, column, conditions, byval, length);
	MemoryContextSwitchTo(old);
	result = copy_keys(found, byval, length);
	MemoryContextDelete(work);

	return result;
}

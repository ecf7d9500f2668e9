/*-------------------------------------------------------------------------
 *
 * grouped.c
 *	  The results of a correlated subquery for all values at once.
 *
 * A subquery that aggregates the rows whose columns equal the values of the
 * outer query,
 *
 *	  (SELECT avg(s.x) FROM s WHERE s.k = o.k AND s.y > 3)
 *
 * has the result of each value in
 *
 *	  SELECT s.k, avg(s.x) FROM s WHERE s.y > 3 GROUP BY s.k
 *
 * When the calls of the first have taken a multiple of what the second takes,
 * MemoizeSubPlan executes that. Most queries have few calls, so it is planned
 * only then, and the plan of the subquery carries the query.
 *
 * It is made of what the planner has left of the subquery: by then references
 * to the outer query are parameters, and of each is known which value of the
 * key it is. Only what the planner can plan a second time, with the same rows,
 * is taken: tables without children, joined by inner joins.
 *
 * Why answers and errors are the same: aggregates do not depend on the order of
 * rows, except for which of equal values min() and max() show; values of the
 * key that are equal are the same bit by bit; and for a value of which there is
 * no group the subquery itself is executed. The query reads rows that no call
 * would have read; if one of them makes it fail, that ends a subtransaction,
 * and calls go on as before. Functions of users are not called, as they could
 * do more than to fail, nor are those whose result may change meanwhile.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/transam.h"
#include "access/xact.h"
#include "catalog/pg_class.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "parser/parse_oper.h"
#include "parser/parsetree.h"
#include "tcop/dest.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/resowner.h"
#include "utils/snapmgr.h"
#include "utils/typcache.h"

#include "compat.h"
#include "memoize/memoize.h"
#include "planner/planner.h"
#include "vector/aggregate/aggregate.h"
#include "vector/plan/plan.h"

/* ---- the query, when the subquery's plan is made ---- */

typedef struct Correlation
{
	SubPlan    *subplan;
	List	   *tables;			/* OIDs of those that were seen */
	List	   *conditions;		/* without those that compare the key */
	Expr	  **keys;			/* what each parameter of the subquery is
								 * compared with */
} Correlation;

/* May a function do something, or return something else later? */
static bool
is_unfit_function(Oid function, void *context)
{
	return function >= FirstNormalObjectId || func_volatile(function) != PROVOLATILE_IMMUTABLE;
}

/* Is there something in an expression for which the query may not be executed, or planned again? */
static bool
is_unfit(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, SubPlan) || IsA(node, AlternativeSubPlan) || IsA(node, SubLink) || IsA(node, PlaceHolderVar) ||
		IsA(node, CurrentOfExpr) || IsA(node, SQLValueFunction) || IsA(node, CoerceToDomain) ||
		(IsA(node, Param) && ((Param *) node)->paramkind != PARAM_EXTERN))
		return true;
	if (IsA(node, Aggref) && aggregate_may_depend_on_order((Aggref *) node))
		return true;
	return check_functions_in_node(node, is_unfit_function, NULL) || expression_tree_walker(node, is_unfit, context);
}

/* The number of the key that an expression is, or -1. The key's value may have another type of the same bytes. */
static int
key_number(const Correlation *correlation, Node *node)
{
	int			number = 0;
	ListCell   *lc;

	while (IsA(node, RelabelType))
		node = (Node *) ((RelabelType *) node)->arg;
	if (!IsA(node, Param) || ((Param *) node)->paramkind != PARAM_EXEC)
		return -1;
	foreach(lc, correlation->subplan->parParam)
	{
		if (lfirst_int(lc) == ((Param *) node)->paramid)
			return number;
		number++;
	}
	return -1;
}

/*
 * Does a condition compare a key, by the equality of GROUP BY, with something
 * of the subquery whose values have the same bytes? Then note it.
 */
static bool
note_key(Correlation *correlation, Node *condition)
{
	OpExpr	   *compared = (OpExpr *) condition;
	Oid			type;

	if (!IsA(condition, OpExpr) || list_length(compared->args) != 2)
		return false;
	set_opfuncid(compared);
	type = exprType(linitial(compared->args));
	/* blanks at the end are not compared */
	if (getBaseType(type) == BPCHAROID || is_unfit_function(compared->opfuncid, NULL) ||
		exprType(lsecond(compared->args)) != type || lookup_type_cache(type, TYPECACHE_EQ_OPR)->eq_opr != compared->opno)
		return false;
	for (int side = 0; side < 2; side++)
	{
		Node	   *expr = list_nth(compared->args, 1 - side);
		int			key = key_number(correlation, list_nth(compared->args, side));

		if (key < 0)
			continue;
		if (correlation->keys[key] != NULL || is_unfit(expr, NULL) || exprCollation(expr) != compared->inputcollid ||
			!planner_equal_is_same(type, exprTypmod(expr), compared->inputcollid))
			return false;
		correlation->keys[key] = (Expr *) expr;
		return true;
	}
	return false;
}

/* Take the conditions of a join tree, which the planner has made lists of ANDs. Is it fit? */
static bool
take_conditions(Correlation *correlation, Query *query, Node *node)
{
	List	   *conditions;
	ListCell   *lc;

	if (IsA(node, RangeTblRef))
	{
		RangeTblEntry *rte = rt_fetch(((RangeTblRef *) node)->rtindex, query->rtable);

		/*
		 * children may have been added meanwhile; a table that is joined with
		 * itself may have been removed in one place only
		 */
		if (rte->rtekind != RTE_RELATION || (rte->relkind != RELKIND_RELATION && rte->relkind != RELKIND_MATVIEW) ||
			rte->inh || rte->securityQuals != NIL || rte->tablesample != NULL ||
			list_member_oid(correlation->tables, rte->relid))
			return false;
		correlation->tables = lappend_oid(correlation->tables, rte->relid);
		return true;
	}
	if (IsA(node, JoinExpr))
	{
		JoinExpr   *join = (JoinExpr *) node;

		if (join->jointype != JOIN_INNER || !take_conditions(correlation, query, join->larg) ||
			!take_conditions(correlation, query, join->rarg))
			return false;
		conditions = (List *) join->quals;
		join->quals = NULL;
	}
	else
	{
		FromExpr   *from = castNode(FromExpr, node);

		foreach(lc, from->fromlist)
		{
			if (!take_conditions(correlation, query, lfirst(lc)))
				return false;
		}
		conditions = (List *) from->quals;
		from->quals = NULL;
	}
	Assert(conditions == NIL || IsA(conditions, List));
	foreach(lc, conditions)
	{
		if (note_key(correlation, lfirst(lc)))
			continue;
		if (is_unfit(lfirst(lc), NULL))
			return false;
		correlation->conditions = lappend(correlation->conditions, lfirst(lc));
	}
	return true;
}

/* Does a query have nothing but aggregates of the rows of tables? */
static bool
only_aggregates(const Query *query)
{
	ListCell   *lc;

	foreach(lc, query->rtable)
	{
		RangeTblEntry *rte = lfirst(lc);

		if (rte->rtekind != RTE_RELATION && rte->rtekind != RTE_JOIN)
			return false;
	}
	return query->commandType == CMD_SELECT && query->hasAggs && !query->hasWindowFuncs && !query->hasTargetSRFs &&
		query->cteList == NIL && query->groupClause == NIL && query->groupingSets == NIL && query->havingQual == NULL &&
		query->distinctClause == NIL && query->sortClause == NIL && query->limitOffset == NULL &&
		query->limitCount == NULL && query->rowMarks == NIL && query->setOperations == NULL;
}

/* Have the planner decide anew whether an aggregate's rows come sorted. */
static bool
forget_presorted(Node *node, void *context)
{
	if (node == NULL)
		return false;
#if PG_VERSION_NUM >= 160000
	if (IsA(node, Aggref))
		((Aggref *) node)->aggpresorted = false;
#endif
	return expression_tree_walker(node, forget_presorted, context);
}

/*
 * The query that returns the values of a subquery's key, in the order of its
 * parameters, and its result for each, or NULL: there is none. root is the
 * subquery's own, which has been planned.
 */
Query *
memoize_grouped_query(PlannerInfo *root, SubPlan *subplan)
{
	Correlation correlation = {.subplan = subplan};
	int			nkeys = list_length(subplan->parParam);
	Query	   *query;
	List	   *target = NIL;

	if (subplan->subLinkType != EXPR_SUBLINK || !only_aggregates(root->parse) ||
		list_length(root->parse->targetList) != 1 || is_unfit((Node *) root->parse->targetList, NULL))
		return NULL;
	query = copyObject(root->parse);
	correlation.keys = palloc0(sizeof(Expr *) * nkeys);
	if (!take_conditions(&correlation, query, (Node *) query->jointree))
		return NULL;
	for (int i = 0; i < nkeys; i++)
	{
		SortGroupClause *clause = makeNode(SortGroupClause);

		if (correlation.keys[i] == NULL)
			return NULL;
		clause->tleSortGroupRef = i + 1;
		get_sort_group_operators(exprType((Node *) correlation.keys[i]), false, true, false,
								 &clause->sortop, &clause->eqop, NULL, &clause->hashable);
		query->groupClause = lappend(query->groupClause, clause);
		target = lappend(target, makeTargetEntry(correlation.keys[i], i + 1, NULL, false));
		llast_node(TargetEntry, target)->ressortgroupref = i + 1;
	}
	linitial_node(TargetEntry, query->targetList)->resno = nkeys + 1;
	(void) forget_presorted((Node *) query->targetList, NULL);
	query->targetList = list_concat(target, query->targetList);
	query->jointree->quals = (Node *) make_ands_explicit(correlation.conditions);
	query->hasSubLinks = false;

	return query;
}

/* ---- its execution ---- */

/* More than the memory contexts that a subtransaction begins with, in bytes. */
#define SUBTRANSACTION_NEEDS (96 * 1024)

typedef struct Receiver
{
	DestReceiver pub;
	MemoizeReceive receive;
	void	   *arg;
	bool		refused;		/* has it wanted no more? */
} Receiver;

static bool
receive(TupleTableSlot *slot, DestReceiver *self)
{
	Receiver   *receiver = (Receiver *) self;

	slot_getallattrs(slot);
	if (!receiver->receive(receiver->arg, slot->tts_values, slot->tts_isnull))
		receiver->refused = true;
	return !receiver->refused;
}

static void
receive_startup(DestReceiver *self, int operation, TupleDesc type)
{
}

static void
receive_end(DestReceiver *self)
{
}

/*
 * Plan it, without workers of its own, in the current memory context. What
 * parameters of a generic plan are is not looked at: what is computed of them
 * might fail. *ms are the milliseconds that it is estimated to take, where all
 * tables are in memory; -1: not known.
 */
PlannedStmt *
memoize_plan_grouped(Query *query, EState *estate, double *ms)
{
	PlannedStmt *plan;

	PushActiveSnapshot(estate->es_snapshot);
	vector_ask_query_ms();
	plan = planner(copyObject(query), estate->es_sourceText, 0, NULL, NULL);
	*ms = vector_take_query_ms();
	PopActiveSnapshot();

	return plan;
}

static void
execute(PlannedStmt *plan, EState *estate, Receiver *receiver)
{
	QueryDesc  *desc;

	PushActiveSnapshot(estate->es_snapshot);
	desc = CreateQueryDesc(plan, estate->es_sourceText, estate->es_snapshot, InvalidSnapshot, &receiver->pub,
						   estate->es_param_list_info, estate->es_queryEnv, 0);
	/* the executor's hooks are for what users run */
	standard_ExecutorStart(desc, 0);
	standard_executor_run(desc);
	standard_ExecutorFinish(desc);
	standard_ExecutorEnd(desc);
	FreeQueryDesc(desc);
	PopActiveSnapshot();
}

/*
 * May calls go on after an error? If it is theirs, too, they will raise it. It
 * need not be: a row's that none would have read, or for want of a query's
 * memory, or because the role of a cursor has changed since its privileges were
 * checked.
 */
static bool
may_go_on(int sqlerrcode)
{
	int			category = ERRCODE_TO_CATEGORY(sqlerrcode);

	/* it is canceled, or the transaction cannot commit */
	return category != ERRCODE_OPERATOR_INTERVENTION && category != ERRCODE_TRANSACTION_ROLLBACK;
}

/*
 * Execute the plan, with the snapshot of what is being executed. Its rows are
 * given to receive() until that returns false. Returns true at the last row;
 * false if there are more, or one raised an error. Not in parallel mode, where
 * no subtransaction can begin.
 */
bool
memoize_execute_grouped(PlannedStmt *plan, EState *estate, MemoizeReceive receive_row, void *arg)
{
	Receiver	receiver = {
		{receive, receive_startup, receive_end, receive_end, DestNone},
		.receive = receive_row,.arg = arg
	};
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	volatile bool complete = false;
	void	   *reserve;

	Assert(!IsInParallelMode());
	/* a subtransaction that lacks memory to begin ends the session */
	reserve = MemoryContextAllocExtended(context, SUBTRANSACTION_NEEDS, MCXT_ALLOC_NO_OOM);
	if (reserve == NULL)
		return false;
	pfree(reserve);
	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(context);
	PG_TRY();
	{
		execute(plan, estate, &receiver);
		complete = !receiver.refused;
		ReleaseCurrentSubTransaction();
	}
	PG_CATCH();
	{
		ErrorData  *error;

		MemoryContextSwitchTo(context);
		error = CopyErrorData();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
		MemoryContextSwitchTo(context);
		CurrentResourceOwner = owner;
		if (!may_go_on(error->sqlerrcode))
			ReThrowError(error);
		FreeErrorData(error);
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);
	CurrentResourceOwner = owner;

	return complete;
}

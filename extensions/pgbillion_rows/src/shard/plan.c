/*-------------------------------------------------------------------------
 *
 * plan.c
 *	  Offers the planner aggregate scans.
 *
 * PostgreSQL asks for the stage of partial aggregation where a partitioned table is
 * grouped by something else than its partition key and
 * enable_partitionwise_aggregate is on; postgres_fdw has no answer then.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_aggregate.h"
#include "commands/defrem.h"
#include "nodes/makefuncs.h"
#include "optimizer/cost.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "optimizer/planmain.h"
#include "optimizer/tlist.h"
#include "parser/parsetree.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "compat.h"
#include "planner/group_estimate.h"
#include "planner/planner.h"
#include "shard/shard.h"

/* What the shard does with a row costs this much of what the coordinator would, which must fetch the row first. */
#define SHARD_COST_RATIO 0.1
/* the defaults of postgres_fdw's options */
#define STARTUP_COST 100.0
#define TUPLE_COST 0.2
/* rows at a time where postgres_fdw runs the scan; states are few */
#define FETCH_SIZE 1000

bool		shard_push_down = true;

/* The value of an option of the foreign table or else its server, NULL without. */
static DefElem *
table_option(Oid relid, const char *name)
{
	ForeignTable *table = GetForeignTable(relid);
	ForeignServer *server = GetForeignServer(table->serverid);
	List	   *lists[] = {table->options, server->options};

	for (int i = 0; i < lengthof(lists); i++)
	{
		ListCell   *lc;

		foreach(lc, lists[i])
		{
			DefElem    *def = lfirst(lc);

			if (strcmp(def->defname, name) == 0)
				return def;
		}
	}
	return NULL;
}

static double
table_number(Oid relid, const char *name, double otherwise)
{
	DefElem    *def = table_option(relid, name);

	return def == NULL ? otherwise : strtod(defGetString(def), NULL);
}

/* Return why this aggregate is not for the shard, or NULL and the query for it. */
static const char *
plan_query(PlannerInfo *root, UpperRelationKind stage, RelOptInfo *input_rel, RelOptInfo *output_rel,
		   GroupPathExtraData *extra, ShardQuery *query)
{
	if (!planner_enabled)
		return "pgbillion_rows.enable is off";
	if (!shard_push_down)
		return "pgbillion_rows.push_down_aggregates is off";
	if (!IS_SIMPLE_REL(input_rel) || input_rel->rtekind != RTE_RELATION || input_rel->pathlist == NIL)
		return "it is not over one foreign table";
	if (root->parse->groupingSets != NIL)
		return "it has grouping sets";
	if (!bms_is_empty(input_rel->lateral_relids))
		return "it refers to other tables laterally";
	if (stage == UPPERREL_GROUP_AGG && extra->havingQual != NULL)
		return "it has HAVING";
	return shard_deparse(root, input_rel, output_rel->reltarget, query);
}

/*
 * Are these the least and the largest of the table's values, and no groups? A
 * shard that has an index for that needs no more than it.
 */
static bool
is_minmax(List *columns)
{
	ListCell   *lc;

	foreach(lc, columns)
	{
		Aggref	   *aggref = (Aggref *) lfirst_node(TargetEntry, lc)->expr;
		HeapTuple	tuple;
		bool		sortable;

		if (!IsA(aggref, Aggref))
			return false;
		tuple = SearchSysCache1(AGGFNOID, ObjectIdGetDatum(aggref->aggfnoid));
		if (!HeapTupleIsValid(tuple))
			elog(ERROR, "cache lookup failed for aggregate %u", aggref->aggfnoid);
		sortable = OidIsValid(((Form_pg_aggregate) GETSTRUCT(tuple))->aggsortop);
		ReleaseSysCache(tuple);
		if (!sortable)
			return false;
	}
	return true;
}

/*
 * A shard aggregates in less time than its rows need to get here, so that the
 * cost is always less than that of fetching them.
 */
static void
add_aggregate_path(PlannerInfo *root, UpperRelationKind stage, RelOptInfo *input_rel, RelOptInfo *output_rel,
				   ShardQuery *query)
{
	Oid			relid = planner_rt_fetch(input_rel->relid, root)->relid;
	Path	   *input = input_rel->cheapest_total_path;
	List	   *group_exprs = NIL;
	ListCell   *lc;
	double		rows = 1;
	Cost		startup,
				total;
	char	   *relations;
	DefElem    *async = table_option(relid, "async_capable");
	List	   *private;

	foreach(lc, query->columns)
	{
		TargetEntry *column = lfirst_node(TargetEntry, lc);

		if (!IsA(column->expr, Aggref))
			group_exprs = lappend(group_exprs, column->expr);
	}
	if (group_exprs != NIL)
		rows = group_estimate(root, group_exprs, input->rows);
	startup = table_number(relid, "fdw_startup_cost", STARTUP_COST);
	total = startup + Max(input->total_cost - startup, 0) * SHARD_COST_RATIO +
		rows * table_number(relid, "fdw_tuple_cost", TUPLE_COST);
	total = Min(total, input->total_cost * 0.9);

	/*
	 * Less than the first row in order, which PostgreSQL asks for otherwise
	 * and takes to be had for the startup cost: without an index the shard
	 * sorts.
	 */
	if (is_minmax(query->columns))
		total = Min(total, startup * 0.9);

	/*
	 * postgres_fdw pushes whole aggregates down too, but runs them by a
	 * cursor
	 */
	foreach(lc, output_rel->pathlist)
		total = Min(total, ((Path *) lfirst(lc))->total_cost * 0.9);
	startup = Min(startup, total);

	/* postgres_fdw puts the table's name for the number */
	relations = psprintf("%s on (%u)", stage == UPPERREL_PARTIAL_GROUP_AGG ? "Partial Aggregate" : "Aggregate", input_rel->relid);
	private = list_make5(makeString(query->sql), query->columns, query->params, makeString(relations),
						 makeInteger(query->states));
	private = lappend(private, makeInteger((int) table_number(relid, "fetch_size", FETCH_SIZE)));

	/*
	 * unlike postgres_fdw's, our scans are asynchronous unless told
	 * otherwise: they wait only for their shard
	 */
	private = lappend(private, makeBoolean(async == NULL || defGetBoolean(async)));
	private = lappend(private, makeString(query->verification));
	add_path(output_rel, (Path *)
			 create_foreign_upper_path(root, output_rel, output_rel->reltarget, rows,
									   0, startup, total, NIL, NULL, NIL, private));
}

void
shard_get_foreign_upper_paths(PlannerInfo *root, UpperRelationKind stage,
							  RelOptInfo *input_rel, RelOptInfo *output_rel, void *extra)
{
	ShardQuery	query;
	const char *reason;

	postgres_fdw_routine()->GetForeignUpperPaths(root, stage, input_rel, output_rel, extra);

	if (stage != UPPERREL_PARTIAL_GROUP_AGG && stage != UPPERREL_GROUP_AGG)
		return;
	reason = plan_query(root, stage, input_rel, output_rel, extra, &query);
	if (reason == NULL)
		add_aggregate_path(root, stage, input_rel, output_rel, &query);
	else
		ereport(DEBUG1,
				(errmsg_internal("pgbillion_fdw: an aggregate is not pushed down: %s", reason)));
}

/*
 * A path by which a shard gives partial states of the groups of a table, or
 * the groups alone, for plans made elsewhere; NULL if there is none.
 */
Path *
shard_states_path(PlannerInfo *root, RelOptInfo *table, PathTarget *target)
{
	RelOptInfo *states;

	if (table->fdwroutine == NULL || table->fdwroutine->GetForeignUpperPaths != shard_get_foreign_upper_paths)
		return NULL;

	states = makeNode(RelOptInfo);
	states->reloptkind = RELOPT_OTHER_UPPER_REL;
	states->relids = table->relids;
	states->reltarget = target;
	states->serverid = table->serverid;
	states->userid = table->userid;
	states->useridiscurrent = table->useridiscurrent;
	states->fdwroutine = table->fdwroutine;
	copy_enabled_paths(states, table);
	shard_get_foreign_upper_paths(root, UPPERREL_PARTIAL_GROUP_AGG, table, states, NULL);

	return states->pathlist != NIL ? linitial(states->pathlist) : NULL;
}

static bool
is_aggregate_path(ForeignPath *path)
{
	return path->fdw_private != NIL && IsA(linitial(path->fdw_private), String);
}

ForeignScan *
shard_get_foreign_plan(PlannerInfo *root, RelOptInfo *rel, Oid relid, ForeignPath *path,
					   List *tlist, List *clauses, Plan *outer_plan)
{
	List	   *columns;
	List	   *attrs = NIL;
	List	   *private;

	if (!is_aggregate_path(path))
		return postgres_fdw_routine()->GetForeignPlan(root, rel, relid, path, tlist, clauses, outer_plan);

	Assert(clauses == NIL);
	columns = list_nth(path->fdw_private, ShardPathColumns);
	for (int i = 1; i <= list_length(columns); i++)
		attrs = lappend_int(attrs, i);
	private = list_make5(list_nth(path->fdw_private, ShardPathSql), attrs,
						 list_nth(path->fdw_private, ShardPathFetchSize),
						 list_nth(path->fdw_private, ShardPathRelations),
						 list_nth(path->fdw_private, ShardPathStates));
	private = lappend(private, list_nth(path->fdw_private, ShardPathVerification));
	return make_foreignscan(tlist, NIL, 0, list_nth(path->fdw_private, ShardPathParams),
							private, columns, NIL, outer_plan);
}

bool
shard_is_foreign_path_async_capable(ForeignPath *path)
{
	if (!is_aggregate_path(path))
		return postgres_fdw_routine()->IsForeignPathAsyncCapable(path);
	return boolVal(list_nth(path->fdw_private, ShardPathAsync));
}

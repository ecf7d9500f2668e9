/*-------------------------------------------------------------------------
 *
 * plan.c
 *	  When vectorised aggregation applies, what it costs, and its plan.
 *
 * Where core has built its paths for GROUP BY, one more is offered: a custom
 * scan that gives partial states of each group, under core's Finalize
 * Aggregate; in parallel with a Gather between them; over partitions with an
 * Append of one custom scan each. What speaks against it is reported.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "executor/executor.h"
#include "executor/nodeHash.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/appendinfo.h"
#include "optimizer/clauses.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "optimizer/planner.h"
#include "optimizer/prep.h"
#include "optimizer/restrictinfo.h"
#include "optimizer/tlist.h"
#include "parser/parsetree.h"
#include "utils/builtins.h"
#include "utils/float.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/selfuncs.h"
#include "utils/spccache.h"
#include "utils/typcache.h"

#include "planner/groups.h"
#include "planner/planner.h"
#include "vector/aggregate/aggregate.h"
#include "vector/sink/group.h"
#include "vector/source/source.h"
#include "vector/vector.h"

/*
 * What a row costs beside core's. Measured on tables in cache: about an
 * eighth of core's for columns and kernels.
 */
#define KERNEL_COST_FACTOR 0.12

/* Cost of setting a scan up, which keeps small tables with core. */
#define STARTUP_COST 20.0

int			vector_aggregate = PLAN_ON;

/* ---- what is asked for ---- */

/* Does an expression hold what the scan cannot evaluate? Sets *reason if so. */
static bool
unsuitable(Node *node, const char **reason)
{
	if (node == NULL)
		return false;
	switch (nodeTag(node))
	{
		case T_Var:
			if (((Var *) node)->varattno <= 0)
				*reason = ((Var *) node)->varattno == 0 ? "a whole-row reference" : "a system column";
			else if (((Var *) node)->varlevelsup != 0)
				*reason = "a reference to an outer query";
			return *reason != NULL;
		case T_PlaceHolderVar:
			*reason = "an expression from below an outer join";
			return true;
		case T_SubLink:
		case T_SubPlan:
		case T_AlternativeSubPlan:
			*reason = "a subquery in an expression";
			return true;
		case T_WindowFunc:
		case T_GroupingFunc:
		case T_CurrentOfExpr:
			*reason = "an expression that cannot be evaluated in a scan";
			return true;
		default:
			return expression_tree_walker(node, unsuitable, reason);
	}
}

/* Terms in the order in which core applies them: order_qual_clauses(). */
static List *
ordered_terms(PlannerInfo *root, List *restrictinfos)
{
	List	   *result = NIL;
	List	   *costs = NIL;
	ListCell   *lc;

	foreach(lc, restrictinfos)
	{
		RestrictInfo *rinfo = lfirst_node(RestrictInfo, lc);
		QualCost	cost;
		Cost	   *own = palloc(sizeof(Cost));
		int			position = list_length(costs);

		cost_qual_eval_node(&cost, (Node *) rinfo, root);
		*own = cost.per_tuple;
		/* stable: behind all that cost as much */
		while (position > 0 && *(Cost *) list_nth(costs, position - 1) > *own)
			position--;
		costs = list_insert_nth(costs, position, own);
		result = list_insert_nth(result, position, rinfo->clause);
	}

	return result;
}

/* Why a table cannot be scanned by us, or NULL. */
static const char *
table_refusal(PlannerInfo *root, RelOptInfo *rel)
{
	RangeTblEntry *rte = planner_rt_fetch(rel->relid, root);
	const char *reason = NULL;
	Relation	table;
	ListCell   *lc;

	if (rte->tablesample != NULL)
		return "TABLESAMPLE";
	if (rte->relkind != RELKIND_RELATION && rte->relkind != RELKIND_MATVIEW)
		return psprintf("\"%s\", which is neither a table nor a materialised view", get_rel_name(rte->relid));
	/* the planner holds a lock */
	table = table_open(rte->relid, NoLock);
	if (table->rd_rel->relam != HEAP_TABLE_AM_OID && !source_is_lazy(table))
		reason = psprintf("the access method of \"%s\"", RelationGetRelationName(table));
	table_close(table, NoLock);
	if (reason != NULL)
		return reason;
	if (!bms_is_empty(rel->lateral_relids))
		return "a lateral reference";
	foreach(lc, rel->baserestrictinfo)
	{
		RestrictInfo *rinfo = lfirst_node(RestrictInfo, lc);

		if (rinfo->security_level > 0)
			return "row security";
		if (rinfo->pseudoconstant)
			return "a condition that refers to no column";
		if (unsuitable((Node *) rinfo->clause, &reason))
			return reason;
		if (contain_volatile_functions((Node *) rinfo->clause))
			return "a volatile function";
	}

	return NULL;
}

/* Why what is asked for cannot be computed by us, or NULL. */
static const char *
target_refusal(PathTarget *target)
{
	int			nkeys = 0;
	ListCell   *lc;

	foreach(lc, target->exprs)
	{
		Expr	   *expr = lfirst(lc);
		const char *reason = NULL;

		if (unsuitable((Node *) expr, &reason))
			return reason;
		if (contain_volatile_functions((Node *) expr))
			return "a volatile function";
		if (expression_returns_set((Node *) expr))
			return "a set-returning function";
		reason = IsA(expr, Aggref) ? aggregate_refusal_of((Aggref *) expr) : group_key_refusal(expr);
		if (reason != NULL)
			return reason;
		nkeys += !IsA(expr, Aggref);
	}
	if (nkeys > GROUP_MAX_KEYS)
		return psprintf("more than %d group keys", GROUP_MAX_KEYS);

	return NULL;
}

/* Why the columns cannot be told apart as a clause of SortGroupClauses wants it, or NULL. */
static const char *
clause_refusal(PathTarget *target, List *clause)
{
	ListCell   *lc;

	foreach(lc, target->exprs)
	{
		Index		ref = get_pathtarget_sortgroupref(target, foreach_current_index(lc));
		SortGroupClause *own = ref == 0 ? NULL : get_sortgroupref_clause_noerr(ref, clause);

		/*
		 * ORDER BY … USING may have chosen another equality than the type's
		 * own
		 */
		if (own != NULL && own->eqop != lookup_type_cache(exprType(lfirst(lc)), TYPECACHE_EQ_OPR)->eq_opr)
			return "a group key that is compared by another operator than its type's own";
	}
	return NULL;
}

/* Memory that so many groups take. */
static double
memory_of_groups(PathTarget *target, double groups)
{
	int			nkeys = 0;
	ListCell   *lc;

	foreach(lc, target->exprs)
		nkeys += !IsA(lfirst(lc), Aggref);
	return groups * group_table_entry_bytes(nkeys, 16 * list_length(target->exprs));
}

/* Why so many groups are too many where they cannot be spilled, or NULL. */
static const char *
memory_refusal(PathTarget *target, double groups)
{
	if (vector_aggregate != PLAN_FORCE && memory_of_groups(target, groups) > get_hash_memory_limit())
		return psprintf("the %.0f groups estimated need more memory than work_mem and hash_mem_multiplier allow", groups);
	return NULL;
}

/* ---- paths ---- */

static Plan *plan_scan(PlannerInfo *root, RelOptInfo *rel, CustomPath *best_path, List *tlist,
					   List *clauses, List *custom_plans);

static const CustomPathMethods path_methods = {
	.CustomName = "VectorAggregate",
	.PlanCustomPath = plan_scan,
};

/* Cost of evaluating a row's worth of expressions, kernels being cheaper. */
static Cost
row_cost(PlannerInfo *root, List *terms, PathTarget *target)
{
	Cost		cost = cpu_tuple_cost * KERNEL_COST_FACTOR;
	QualCost	qual;
	ListCell   *lc;

	cost_qual_eval(&qual, terms, root);
	cost += qual.per_tuple * KERNEL_COST_FACTOR * 2;
	foreach(lc, target->exprs)
	{
		/* a transition, or finding the group */
		cost += cpu_operator_cost * KERNEL_COST_FACTOR * 2;
		if (!IsA(lfirst(lc), Aggref) && !IsA(lfirst(lc), Var))
		{
			cost_qual_eval_node(&qual, lfirst(lc), root);
			cost += qual.per_tuple;
		}
	}

	return cost;
}

/*
 * The custom scan of a table. With parallel_workers it is a partial path.
 */
static Path *
scan_path(PlannerInfo *root, RelOptInfo *parent, RelOptInfo *rel, PathTarget *target,
		  double groups, int parallel_workers, bool safe)
{
	CustomPath *path = makeNode(CustomPath);
	List	   *terms = ordered_terms(root, rel->baserestrictinfo);
	double		page_cost;
	double		divisor = 1;
	Cost		run;

	get_tablespace_page_costs(rel->reltablespace, NULL, &page_cost);
	if (parallel_workers > 0)
	{
		divisor = parallel_workers;
		/* as get_parallel_divisor() has it */
		if (parallel_leader_participation && parallel_workers < 4)
			divisor += 1.0 - 0.3 * parallel_workers;
	}
	run = page_cost * rel->pages + row_cost(root, terms, target) * rel->tuples / divisor;

	path->path.pathtype = T_CustomScan;
	path->path.parent = parent;
	path->path.pathtarget = target;
	path->path.parallel_aware = parallel_workers > 0;
	path->path.parallel_safe = safe;
	path->path.parallel_workers = parallel_workers;
	path->path.rows = clamp_row_est(Min(groups, Max(rel->rows / divisor, 1)));
	path->path.startup_cost = STARTUP_COST + run;
	path->path.total_cost = path->path.startup_cost + path->path.rows * cpu_tuple_cost;
	path->custom_private = list_make2(makeInteger(rel->relid), terms);
	path->methods = &path_methods;

	return &path->path;
}

static bool
params_walker(Node *node, List **params)
{
	if (node == NULL)
		return false;
	if (IsA(node, Param))
	{
		*params = lappend(*params, copyObject(node));
		return false;
	}
	return expression_tree_walker(node, params_walker, params);
}

/* The Params in an expression. */
static List *
collect_params(Node *node)
{
	List	   *params = NIL;

	(void) params_walker(node, &params);
	return params;
}

/* Make the plan node: vector.h tells what it hands over. */
static Plan *
plan_scan(PlannerInfo *root, RelOptInfo *rel, CustomPath *best_path, List *tlist,
		  List *clauses, List *custom_plans)
{
	CustomScan *cscan = makeNode(CustomScan);
	List	   *terms = lsecond_node(List, best_path->custom_private);
	List	   *scan_tlist = copyObject(tlist);
	ListCell   *lc;

	foreach(lc, terms)
		scan_tlist = lappend(scan_tlist,
							 makeTargetEntry(copyObject(lfirst(lc)), list_length(scan_tlist) + 1,
											 NULL, true));
	cscan->scan.scanrelid = intVal(linitial(best_path->custom_private));
	cscan->scan.plan.targetlist = tlist;
	cscan->custom_scan_tlist = scan_tlist;
	cscan->custom_exprs = collect_params((Node *) scan_tlist);
	cscan->custom_private = list_make1(makeInteger(list_length(tlist)));
	cscan->methods = &vector_scan_methods;

	return &cscan->scan.plan;
}

/*
 * A path for the partial states of a foreign table, to stand beside ours, or
 * NULL. For GROUP BY core has one, the shard's or its own, where it aggregates
 * partitions one by one.
 */
static Path *
foreign_states(PlannerInfo *root, RelOptInfo *rel, PathTarget *target, bool distinct)
{
	RelOptInfo *core;

	if (rel->fdwroutine == NULL || !enable_partitionwise_aggregate)
		return NULL;
	if (!distinct)
	{
		core = fetch_upper_rel(root, UPPERREL_PARTIAL_GROUP_AGG, rel->relids);
		if (core->cheapest_total_path == NULL)
			return NULL;
		/* it may hand up more: columns that group keys are made of */
		if (equal(core->reltarget->exprs, target->exprs))
			return core->cheapest_total_path;
	}
	return states_sources.of_foreign_table == NULL ? NULL : states_sources.of_foreign_table(root, rel, target);
}

/*
 * Sort the tables to be read into those for us and paths for the partial
 * states of the foreign ones; false if one is neither.
 */
static bool
sort_leaves(PlannerInfo *root, RelOptInfo *top, PathTarget *target, bool distinct,
			List **tables, List **foreign, const char **reason)
{
	ListCell   *lc;

	foreach(lc, leaf_tables(root, top))
	{
		RelOptInfo *leaf = lfirst(lc);
		Path	   *path = foreign_states(root, leaf, leaf_target(root, target, leaf, top), distinct);

		if (path != NULL)
		{
			*foreign = lappend(*foreign, path);
			continue;
		}
		*reason = table_refusal(root, leaf);
		if (*reason != NULL)
			return false;
		*tables = lappend(*tables, leaf);
	}
	return true;
}

/* Is there an aggregate whose result depends on the order of rows? */
static bool
adds_floats(PathTarget *target)
{
	ListCell   *lc;

	foreach(lc, target->exprs)
	{
		if (IsA(lfirst(lc), Aggref) && aggregate_adds_floats(lfirst_node(Aggref, lc)))
			return true;
	}
	return false;
}

/* What is asked for: GROUP BY, or DISTINCT, which is GROUP BY without aggregates. */
typedef struct Request
{
	RelOptInfo *rel;			/* whose paths are offered */
	PathTarget *result;
	PathTarget *target;			/* keys and partial states that it is made of */
	List	   *clause;			/* of SortGroupClauses; NIL: one group */
	List	   *having;
	AggSplit	split;			/* of core's node above */
	AggClauseCosts costs;
	double		best;			/* what the cheapest of our paths costs */
} Request;

static void
add_final(Request *request, Path *path)
{
	/* cheaper than anything of core's, and still comparable among themselves */
	if (vector_aggregate == PLAN_FORCE)
	{
		path->startup_cost *= 1e-6;
		path->total_cost *= 1e-6;
	}
	request->best = Min(request->best, path->total_cost);
	add_path(request->rel, path);
}

/* Core's Finalize Aggregate over partial states. */
static Path *
finalize_path(PlannerInfo *root, Request *request, Path *path, double groups)
{
	return (Path *) create_agg_path(root, request->rel, path, request->result,
									request->clause != NIL ? AGG_HASHED : AGG_PLAIN, request->split,
									request->clause, request->having, &request->costs, groups);
}

/*
 * What a table of groups may take without much waiting for memory: a bit more
 * than the processor's caches, as slots and entries are fetched ahead. With
 * eight times as much every row waits.
 */
#define CACHE_BYTES (64.0 * 1024 * 1024)

/* What it costs to write rows of groups for which there is no memory, and to read them again; measured. */
static Cost
spill_cost(RelOptInfo *rel, PathTarget *target, double groups)
{
	double		memory = memory_of_groups(target, groups);
	double		limit = get_hash_memory_limit();
	double		rows;

	if (memory <= limit)
		return 0;
	rows = rel->rows * (1 - limit / memory);
	return 2 * seq_page_cost * rows * rel->reltarget->width / BLCKSZ + 0.6 * cpu_tuple_cost * rows;
}

/*
 * Add what waiting for memory costs in a table of groups that outgrows the
 * caches. Core does not count that in its own table, where it is longer: it
 * must not make our path the more expensive one.
 */
static void
add_waiting(Path *path, Request *request, RelOptInfo *rel, double groups)
{
	double		bytes = Min(memory_of_groups(request->target, groups), get_hash_memory_limit());
	Cost		waiting;
	ListCell   *lc;

	if (bytes <= CACHE_BYTES)
		return;
	waiting = 2 * cpu_tuple_cost * rel->rows * Min(log2(bytes / CACHE_BYTES) / 3, 1);
	foreach(lc, request->rel->pathlist)
	{
		Path	   *core = lfirst(lc);

		if (IsA(core, AggPath) && ((AggPath *) core)->aggstrategy == AGG_HASHED &&
			((AggPath *) core)->aggsplit == AGGSPLIT_SIMPLE)
			waiting = Min(waiting, Max(0.9 * core->total_cost - path->total_cost, 0));
	}
	path->startup_cost += waiting;
	path->total_cost += waiting;
}

/* Offer our paths, or say why not. */
static const char *
offer(PlannerInfo *root, RelOptInfo *input_rel, Request *request)
{
	PathTarget *target = request->target;
	RelOptInfo *partial_rel;
	List	   *tables = NIL;
	List	   *key_exprs;
	List	   *subpaths = NIL;
	List	   *foreign = NIL;
	List	   *partial_subpaths = NIL;
	const char *reason = NULL;
	double		groups;
	double		pages = 0;
	int			workers = 0;
	bool		inherited;
	bool		safe;
	bool		fits;
	bool		finish;
	ListCell   *lc;

	if (!enable_seqscan)
		return "enable_seqscan is off";
	if (input_rel->reloptkind != RELOPT_BASEREL && input_rel->reloptkind != RELOPT_OTHER_MEMBER_REL)
		return input_rel->reloptkind == RELOPT_JOINREL || input_rel->reloptkind == RELOPT_OTHER_JOINREL ?
			"a join" : "no table is read";
	if (input_rel->rtekind != RTE_RELATION)
		return "what is aggregated is no table";
	if (IS_DUMMY_REL(input_rel))
		return "no row can satisfy the conditions";

	reason = target_refusal(target);
	if (reason == NULL)
		reason = clause_refusal(target, request->clause);
	if (reason != NULL)
		return reason;

	inherited = planner_rt_fetch(input_rel->relid, root)->inh;
	if (inherited)
	{
		if (prunes_at_run_time(root, input_rel))
			return "parameters that prune partitions when the query runs";
		if (!sort_leaves(root, input_rel, target, request->split == AGGSPLIT_SIMPLE, &tables, &foreign, &reason))
			return reason;
		if (tables == NIL && foreign == NIL)
			return "there is no partition to read";

		/*
		 * nothing for us, but shards need not group by what core would have
		 * handed up besides
		 */
		if (tables == NIL &&
			equal(fetch_upper_rel(root, UPPERREL_PARTIAL_GROUP_AGG, request->rel->relids)->reltarget->exprs,
				  target->exprs))
			return "all partitions are foreign tables";
	}
	else
	{
		reason = table_refusal(root, input_rel);
		if (reason != NULL)
			return reason;
		tables = list_make1(input_rel);
	}

	/* how many groups there are, and whether they fit */
	key_exprs = NIL;
	foreach(lc, target->exprs)
	{
		if (!IsA(lfirst(lc), Aggref))
			key_exprs = lappend(key_exprs, lfirst(lc));
	}
	groups = key_exprs == NIL ? 1 : estimate_groups(root, key_exprs, input_rel->rows);

	/*
	 * a scan alone spills what does not fit; others would hand it up row by
	 * row
	 */
	reason = memory_refusal(target, groups);
	fits = reason == NULL;
	finish = !inherited && request->clause != NIL && enable_hashagg && vector_finishable(target, request->clause);
	if (!fits && !finish)
		return reason;

	if (foreign != NIL)
		safe = tables != NIL && tables_parallel_safe(root, tables, target);
	else
		safe = request->rel->consider_parallel && input_rel->consider_parallel &&
			is_parallel_safe(root, (Node *) target->exprs);
	partial_rel = fetch_upper_rel(root, UPPERREL_PARTIAL_GROUP_AGG, request->rel->relids);
	if (foreign != NIL)
	{
		/* core's is not for workers */
		RelOptInfo *core_rel = partial_rel;

		partial_rel = makeNode(RelOptInfo);
		memcpy(partial_rel, core_rel, sizeof(RelOptInfo));
		partial_rel->consider_parallel = safe;
	}
	else if (partial_rel->reltarget->exprs == NIL)
	{
		partial_rel->reltarget = target;
		partial_rel->consider_parallel = safe;
	}

	foreach(lc, tables)
	{
		RelOptInfo *rel = lfirst(lc);
		PathTarget *own = leaf_target(root, target, rel, input_rel);

		pages += rel->pages;
		subpaths = lappend(subpaths, scan_path(root, partial_rel, rel, own, groups, 0, safe));
	}
	if (fits && safe && (foreign != NIL || input_rel->partial_pathlist != NIL))
		workers = compute_parallel_worker(linitial(tables), pages, -1, max_parallel_workers_per_gather);
	if (workers > 0)
	{
		foreach(lc, tables)
		{
			RelOptInfo *rel = lfirst(lc);
			PathTarget *own = leaf_target(root, target, rel, input_rel);

			partial_subpaths = lappend(partial_subpaths,
									   scan_path(root, partial_rel, rel, own, groups, workers, safe));
		}
	}

	if (inherited)
	{
		/*
		 * core's serial plan would add floats in the order of rows over all
		 * tables, but not where shards add
		 */
		if (foreign != NIL || list_length(tables) == 1 || !adds_floats(target))
			add_final(request, finalize_path(root, request,
											 append_path(root, partial_rel, target, list_concat_copy(foreign, subpaths)),
											 groups));
		else if (workers == 0)
			return "sums of floats over several tables in a serial plan";
		if (workers > 0)
			partial_subpaths = list_make1(partial_append_path(root, partial_rel, target, partial_subpaths, workers));
	}
	else
	{
		Path	   *path = finalize_path(root, request, linitial(subpaths), groups);

		if (finish)
		{
			path = vector_finish_path(root, (AggPath *) path, &request->costs,
									  spill_cost(input_rel, target, groups));
			add_waiting(path, request, input_rel, groups);
		}
		add_final(request, path);
	}
	if (workers > 0)
		add_final(request, finalize_path(root, request,
										 gathered_path(root, partial_rel, target, linitial(partial_subpaths), foreign),
										 groups));
	if (tables == NIL)
		return "all partitions are foreign tables";

	return NULL;
}

/* Offer our paths for GROUP BY, or say why not. */
static const char *
offer_groups(PlannerInfo *root, RelOptInfo *input_rel, Request *request, GroupPathExtraData *extra)
{
	Query	   *parse = root->parse;

	if (parse->groupingSets != NIL)
		return "grouping sets";
	if ((extra->flags & GROUPING_CAN_PARTIAL_AGG) == 0)
		return no_partial_form(root, request->rel->reltarget, extra->havingQual);
	if (parse->groupClause != NIL && group_clause_of(root) == NIL)
		return "group keys that are all constant";
	if (parse->groupClause != NIL && (extra->flags & GROUPING_CAN_USE_HASH) == 0)
		return "a group key that cannot be hashed";

	request->result = request->rel->reltarget;
	request->target = partial_target(root, request->result, extra->havingQual);
	request->clause = group_clause_of(root);
	request->having = (List *) extra->havingQual;
	request->split = AGGSPLIT_FINAL_DESERIAL;
	if (parse->hasAggs)
		get_agg_clause_costs(root, AGGSPLIT_FINAL_DESERIAL, &request->costs);

	return offer(root, input_rel, request);
}

/* The same for DISTINCT. */
static const char *
offer_distinct(PlannerInfo *root, RelOptInfo *input_rel, Request *request)
{
	if (root->parse->hasDistinctOn)
		return "DISTINCT ON";
	if (distinct_clause_of(root) == NIL)
		return "distinct columns that are all constant";
	if (!enable_hashagg || !grouping_is_hashable(distinct_clause_of(root)))
		return "a distinct column that cannot be hashed, or enable_hashagg is off";

	/* nothing is computed: the keys are the result */
	request->result = request->target = input_rel->cheapest_total_path->pathtarget;
	request->clause = distinct_clause_of(root);
	request->split = AGGSPLIT_SIMPLE;

	return offer(root, input_rel, request);
}

/*
 * A path that gives partial states of the groups of a table, for plans made
 * elsewhere, or NULL. With parallel_workers it is a partial path.
 */
static Path *
vector_states_path(PlannerInfo *root, RelOptInfo *parent, RelOptInfo *rel, double groups, int parallel_workers)
{
	const char *reason;
	Path	   *path;

	if (vector_aggregate == PLAN_OFF)
		return NULL;
	reason = enable_seqscan ? table_refusal(root, rel) : "enable_seqscan is off";
	if (reason == NULL)
		reason = target_refusal(parent->reltarget);
	if (reason == NULL)
		reason = memory_refusal(parent->reltarget, groups);
	if (reason != NULL)
	{
		plan_report(root, "not vectorised before the join: %s", reason);
		return NULL;
	}
	path = scan_path(root, parent, rel, parent->reltarget, groups, parallel_workers, parent->consider_parallel);
	if (vector_aggregate == PLAN_FORCE)
	{
		path->startup_cost *= 1e-6;
		path->total_cost *= 1e-6;
	}
	return path;
}

static void
offer_upper_paths(PlannerInfo *root, UpperRelationKind stage, RelOptInfo *input_rel,
				  RelOptInfo *rel, void *extra)
{
	const char *reason;
	Request		request = {.rel = rel,.best = get_float8_infinity()};
	double		core = 0;

	if ((stage != UPPERREL_GROUP_AGG && stage != UPPERREL_DISTINCT) || vector_aggregate == PLAN_OFF)
		return;
	/* of groups: those are what was aggregated */
	if (stage == UPPERREL_DISTINCT && IS_UPPER_REL(input_rel))
		return;

	/* what core's own paths cost is asked for in messages only, and set later */
	if (rel->pathlist != NIL)
	{
		set_cheapest(rel);
		core = rel->cheapest_total_path->total_cost;
	}
	reason = stage == UPPERREL_DISTINCT ? offer_distinct(root, input_rel, &request) :
		offer_groups(root, input_rel, &request, extra);
	if (reason != NULL)
		plan_report(root, "not vectorised: %s", reason);
	else if (request.best > core && core > 0)
		plan_report(root, "vectors are possible, but estimated to cost %.2f beside core's %.2f", request.best, core);
	else
		plan_report(root, "vectors are possible, and estimated to cost %.2f beside core's %.2f", request.best, core);
}

void
vector_init(void)
{
	DefineCustomEnumVariable("pgbillion_rows.vector_aggregate",
							 "Aggregates plain heap tables a page at a time.",
							 "\"force\" does so wherever it can be done, whatever it is estimated to cost.",
							 &vector_aggregate, PLAN_ON, plan_mode_options, PGC_USERSET, GUC_EXPLAIN,
							 NULL, NULL, NULL);
	RegisterCustomScanMethods(&vector_scan_methods);
	RegisterCustomScanMethods(&vector_finish_methods);
	states_sources.of_table = vector_states_path;
	planner_add_offer(offer_upper_paths);
}

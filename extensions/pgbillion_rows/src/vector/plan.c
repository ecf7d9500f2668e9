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

#include "shard/shard.h"
#include "planner/groups.h"
#include "vector/vector.h"

/*
 * What a row costs beside core's. Measured on tables in cache: about an
 * eighth of core's for columns and kernels.
 */
#define KERNEL_COST_FACTOR 0.12

/* Cost of setting a scan up, which keeps small tables with core. */
#define STARTUP_COST 20.0

const struct config_enum_entry VectorModeOptions[] = {
	{"off", VECTOR_OFF, false},
	{"on", VECTOR_ON, false},
	{"force", VECTOR_FORCE, false},
	{"false", VECTOR_OFF, true},
	{"true", VECTOR_ON, true},
	{"no", VECTOR_OFF, true},
	{"yes", VECTOR_ON, true},
	{"0", VECTOR_OFF, true},
	{"1", VECTOR_ON, true},
	{NULL, 0, false}
};

int			vector_aggregate = VECTOR_ON;
static create_upper_paths_hook_type previous_hook = NULL;

/* ---- what is asked for ---- */

/* Put a NULL wherever an expression holds a copy of a group key; aggregates stay as they are. */
static Node *
without_keys(Node *node, List *keys)
{
	if (node == NULL || IsA(node, Aggref))
		return node;
	if (list_member(keys, node))
		return (Node *) makeNullConst(exprType(node), exprTypmod(node), exprCollation(node));
	return expression_tree_mutator(node, without_keys, keys);
}

/*
 * The columns that partial aggregation hands up, and Finalize Aggregate
 * looks for: as core's make_partial_grouping_target() chooses them.
 */
PathTarget *
VectorPartialTarget(PlannerInfo *root, PathTarget *grouping, Node *having)
{
	PathTarget *target = create_empty_pathtarget();
	List	   *others = NIL;
	ListCell   *lc;

	foreach(lc, grouping->exprs)
	{
		Expr	   *expr = lfirst(lc);
		Index		ref = get_pathtarget_sortgroupref(grouping, foreach_current_index(lc));

		if (ref != 0 && get_sortgroupref_clause_noerr(ref, group_clause_of(root)) != NULL)
			add_column_to_pathtarget(target, expr, ref);
		else
			others = lappend(others, expr);
	}
	if (having != NULL)
		others = lappend(others, having);
	/* what is computed from a group key needs not what the key is made of */
	others = (List *) without_keys((Node *) others, target->exprs);
	add_new_columns_to_pathtarget(target, pull_var_clause((Node *) others,
														  PVC_INCLUDE_AGGREGATES |
														  PVC_RECURSE_WINDOWFUNCS |
														  PVC_INCLUDE_PLACEHOLDERS));
	foreach(lc, target->exprs)
	{
		if (IsA(lfirst(lc), Aggref))
		{
			Aggref	   *aggref = makeNode(Aggref);

			memcpy(aggref, lfirst(lc), sizeof(Aggref));
			mark_partial_aggref(aggref, AGGSPLIT_INITIAL_SERIAL);
			lfirst(lc) = aggref;
		}
	}

	return set_pathtarget_cost_width(root, target);
}

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
		reason = IsA(expr, Aggref) ? vector_agg_refusal((Aggref *) expr) : group_key_refusal(expr);
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

		/* ORDER BY … USING may have chosen another equality than the type's own */
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
	if (vector_aggregate != VECTOR_FORCE && memory_of_groups(target, groups) > get_hash_memory_limit())
		return psprintf("the %.0f groups estimated need more memory than work_mem and hash_mem_multiplier allow", groups);
	return NULL;
}

/* An aggregate's arguments as they are said, for messages; those that are no columns are left out. */
static char *
argument_names(PlannerInfo *root, Aggref *aggref)
{
	StringInfoData buf;
	ListCell   *lc;

	initStringInfo(&buf);
	foreach(lc, aggref->args)
	{
		TargetEntry *entry = lfirst_node(TargetEntry, lc);
		Var		   *var = (Var *) entry->expr;

		/* what it is ordered by */
		if (entry->resjunk)
			continue;
		if (buf.len > 0)
			appendStringInfoString(&buf, ", ");
		appendStringInfoString(&buf, IsA(var, Var) && var->varlevelsup == 0 && var->varattno > 0 ?
							   get_rte_attribute_name(planner_rt_fetch(var->varno, root), var->varattno) : "...");
	}
	return buf.data;
}

/* Say of the first aggregate without a partial form why it has none, and what does the same faster. */
const char *
VectorNoPartialForm(PlannerInfo *root, PathTarget *grouping, Node *having)
{
	List	   *exprs = list_concat(list_copy(grouping->exprs), having != NULL ? list_make1(having) : NIL);
	ListCell   *lc;

	foreach(lc, pull_var_clause((Node *) exprs, PVC_INCLUDE_AGGREGATES | PVC_RECURSE_WINDOWFUNCS |
								PVC_INCLUDE_PLACEHOLDERS))
	{
		Aggref	   *aggref = lfirst(lc);
		char	   *name;
		char	   *arguments;

		if (!IsA(aggref, Aggref) || (aggref->aggdistinct == NIL && aggref->aggorder == NIL))
			continue;
		name = get_func_name(aggref->aggfnoid);
		arguments = argument_names(root, aggref);
		if (aggref->aggdistinct == NIL)
			return psprintf("%s(%s), which wants its rows in an order and so has no partial form", name, arguments);
		return psprintf("%s(DISTINCT %s) has no partial form; faster is %s(%s) over a subquery with SELECT DISTINCT %s%s",
						name, arguments, name, arguments, arguments,
						root->parse->groupClause != NIL ? " and what is grouped by" : "");
	}
	return "an aggregate that has no partial form (no combine function)";
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
	return ShardStatesPath(root, rel, target);
}

/* What is asked of a table, said in the columns of one of its children. */
static PathTarget *
child_target(PlannerInfo *root, PathTarget *target, RelOptInfo *child, RelOptInfo *parent)
{
	PathTarget *result = copy_pathtarget(target);

	result->exprs = (List *) adjust_appendrel_attrs_to_child(root, (Node *) target->exprs, child, parent);
	return result;
}

/*
 * The live tables below a partitioned or inherited one, and paths for the
 * partial states of the foreign ones; false if one is not for us.
 */
static bool
collect_children(PlannerInfo *root, RelOptInfo *top, RelOptInfo *rel, PathTarget *target, bool distinct,
				 List **children, List **foreign, const char **reason)
{
	ListCell   *lc;

	foreach(lc, root->append_rel_list)
	{
		AppendRelInfo *info = lfirst_node(AppendRelInfo, lc);
		RelOptInfo *child;
		Path	   *path;

		if (info->parent_relid != rel->relid)
			continue;
		child = root->simple_rel_array[info->child_relid];
		if (child == NULL || IS_DUMMY_REL(child))
			continue;
		if (planner_rt_fetch(child->relid, root)->inh)
		{
			if (!collect_children(root, top, child, target, distinct, children, foreign, reason))
				return false;
			continue;
		}
		path = foreign_states(root, child, child_target(root, target, child, top), distinct);
		if (path != NULL)
		{
			*foreign = lappend(*foreign, path);
			continue;
		}
		*reason = table_refusal(root, child);
		if (*reason != NULL)
			return false;
		*children = lappend(*children, child);
	}

	return true;
}

/*
 * Can workers scan these tables? Core does not tell of those that are beside
 * foreign ones: to it all partitions are for workers, or none.
 */
bool
VectorParallelSafe(PlannerInfo *root, List *tables, PathTarget *target)
{
	ListCell   *lc;

	if (!root->glob->parallelModeOK || !is_parallel_safe(root, (Node *) target->exprs))
		return false;
	foreach(lc, tables)
	{
		RelOptInfo *rel = lfirst(lc);

		if (get_rel_persistence(planner_rt_fetch(rel->relid, root)->relid) == RELPERSISTENCE_TEMP ||
			!is_parallel_safe(root, (Node *) extract_actual_clauses(rel->baserestrictinfo, false)))
			return false;
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
		if (IsA(lfirst(lc), Aggref) && vector_agg_adds_floats(lfirst_node(Aggref, lc)))
			return true;
	}
	return false;
}

/* Is there a Param in the terms, by which partitions would be pruned at run time? */
static bool
has_params(List *restrictinfos)
{
	ListCell   *lc;

	foreach(lc, restrictinfos)
	{
		if (collect_params((Node *) lfirst_node(RestrictInfo, lc)->clause) != NIL)
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
	if (vector_aggregate == VECTOR_FORCE)
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
		if (has_params(input_rel->baserestrictinfo))
			return "parameters that prune partitions when the query runs";
		if (!collect_children(root, input_rel, input_rel, target, request->split == AGGSPLIT_SIMPLE,
							  &tables, &foreign, &reason))
			return reason;
		if (tables == NIL && foreign == NIL)
			return "there is no partition to read";
		/* nothing for us, but shards need not group by what core would have handed up besides */
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
	/* a scan alone spills what does not fit; others would hand it up row by row */
	reason = memory_refusal(target, groups);
	fits = reason == NULL;
	finish = !inherited && request->clause != NIL && enable_hashagg && vector_finishable(target, request->clause);
	if (!fits && !finish)
		return reason;

	if (foreign != NIL)
		safe = tables != NIL && VectorParallelSafe(root, tables, target);
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
		PathTarget *own = inherited ? child_target(root, target, rel, input_rel) : target;

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
			PathTarget *own = inherited ? child_target(root, target, rel, input_rel) : target;

			partial_subpaths = lappend(partial_subpaths,
									   scan_path(root, partial_rel, rel, own, groups, workers, safe));
		}
	}

	if (inherited)
	{
		AppendPath *append = create_append_path(root, partial_rel, list_concat_copy(foreign, subpaths), NIL,
												NIL, NULL, 0, false, -1);

		append->path.pathtarget = target;
		/* core's serial plan would add floats in the order of rows over all tables, but not where shards add */
		if (foreign != NIL || list_length(tables) == 1 || !adds_floats(target))
			add_final(request, finalize_path(root, request, &append->path, groups));
		else if (workers == 0)
			return "sums of floats over several tables in a serial plan";
		if (workers > 0)
		{
			append = create_append_path(root, partial_rel, NIL, partial_subpaths, NIL, NULL, workers,
										enable_parallel_append, -1);
			append->path.pathtarget = target;
			partial_subpaths = list_make1(append);
		}
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
	{
		Path	   *partial = linitial(partial_subpaths);
		double		rows = partial->rows * workers;
		Path	   *gather = (Path *) create_gather_path(root, partial_rel, partial, target, NULL, &rows);

		if (foreign != NIL)
		{
			gather = (Path *) create_append_path(root, partial_rel, list_concat_copy(foreign, list_make1(gather)), NIL,
												 NIL, NULL, 0, false, -1);
			gather->pathtarget = target;
		}
		add_final(request, finalize_path(root, request, gather, groups));
	}
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
		return VectorNoPartialForm(root, request->rel->reltarget, extra->havingQual);
	if (parse->groupClause != NIL && group_clause_of(root) == NIL)
		return "group keys that are all constant";
	if (parse->groupClause != NIL && (extra->flags & GROUPING_CAN_USE_HASH) == 0)
		return "a group key that cannot be hashed";

	request->result = request->rel->reltarget;
	request->target = VectorPartialTarget(root, request->result, extra->havingQual);
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
Path *
VectorStatesPath(PlannerInfo *root, RelOptInfo *parent, RelOptInfo *rel, double groups, int parallel_workers)
{
	const char *reason;
	Path	   *path;

	if (vector_aggregate == VECTOR_OFF)
		return NULL;
	reason = enable_seqscan ? table_refusal(root, rel) : "enable_seqscan is off";
	if (reason == NULL)
		reason = target_refusal(parent->reltarget);
	if (reason == NULL)
		reason = memory_refusal(parent->reltarget, groups);
	if (reason != NULL)
	{
		VectorReport(root, "not vectorised before the join: %s", reason);
		return NULL;
	}
	path = scan_path(root, parent, rel, parent->reltarget, groups, parallel_workers, parent->consider_parallel);
	if (vector_aggregate == VECTOR_FORCE)
	{
		path->startup_cost *= 1e-6;
		path->total_cost *= 1e-6;
	}
	return path;
}

static void
upper_paths(PlannerInfo *root, UpperRelationKind stage, RelOptInfo *input_rel,
			RelOptInfo *rel, void *extra)
{
	const char *reason;
	Request		request = {.rel = rel, .best = get_float8_infinity()};
	double		core = 0;

	if (previous_hook != NULL)
		previous_hook(root, stage, input_rel, rel, extra);
	if ((stage != UPPERREL_GROUP_AGG && stage != UPPERREL_DISTINCT) || vector_aggregate == VECTOR_OFF)
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
		VectorReport(root, "not vectorised: %s", reason);
	else if (request.best > core && core > 0)
		VectorReport(root, "vectors are possible, but estimated to cost %.2f beside core's %.2f", request.best, core);
	else
		VectorReport(root, "vectors are possible, and estimated to cost %.2f beside core's %.2f", request.best, core);
}

void
VectorInit(void)
{
	DefineCustomEnumVariable("pgbillion_rows.vector_aggregate",
							 "Aggregates plain heap tables a page at a time.",
							 "\"force\" does so wherever it can be done, whatever it is estimated to cost.",
							 &vector_aggregate, VECTOR_ON, VectorModeOptions, PGC_USERSET, GUC_EXPLAIN,
							 NULL, NULL, NULL);
	RegisterCustomScanMethods(&vector_scan_methods);
	RegisterCustomScanMethods(&vector_finish_methods);
	previous_hook = create_upper_paths_hook;
	create_upper_paths_hook = upper_paths;
}

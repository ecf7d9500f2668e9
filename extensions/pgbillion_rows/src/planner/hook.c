/*-------------------------------------------------------------------------
 *
 * hook.c
 *	  PostgreSQL's hooks, which call the features that have registered, and the
 *	  setting that turns all of them off.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "nodes/parsenodes.h"
#include "optimizer/geqo.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "optimizer/planner.h"
#include "optimizer/tlist.h"

#include "planner/planner.h"

#define MOST_OFFERS 8

const struct config_enum_entry plan_mode_options[] = {
	{"off", PLAN_OFF, false},
	{"on", PLAN_ON, false},
	{"force", PLAN_FORCE, false},
	{"false", PLAN_OFF, true},
	{"true", PLAN_ON, true},
	{"no", PLAN_OFF, true},
	{"yes", PLAN_ON, true},
	{"0", PLAN_OFF, true},
	{"1", PLAN_ON, true},
	{NULL, 0, false}
};

ForeignStatesSource planner_foreign_states = NULL;

bool		planner_enabled = true;

static create_upper_paths_hook_type previous_hook = NULL;
static UpperPathsOffer offers[MOST_OFFERS];
static int	noffers = 0;
static set_rel_pathlist_hook_type previous_scan_hook = NULL;
static ScanPathsOffer scan_offer = NULL;
static set_join_pathlist_hook_type previous_join_hook = NULL;
static JoinPathsOffer join_offers[MOST_OFFERS];
static int	njoin_offers = 0;
static join_search_hook_type previous_search_hook = NULL;
static JoinSearchOffer search_offer = NULL;
static JoinedPathsOffer joined_offer = NULL;
static PlannerInfo *searched = NULL;	/* the query whose joins we search */
static planner_hook_type previous_planner_hook = NULL;
static int	cursor_options = 0; /* of the statement that is being planned */

static void
upper_paths(PlannerInfo *root, UpperRelationKind stage, RelOptInfo *input_rel, RelOptInfo *rel, void *extra)
{
	if (previous_hook != NULL)
		previous_hook(root, stage, input_rel, rel, extra);
	for (int i = 0; planner_enabled && i < noffers; i++)
		offers[i] (root, stage, input_rel, rel, extra);
}

/* Have this one asked too, after those that are there. Called when the library is loaded. */
void
planner_add_offer(UpperPathsOffer offer)
{
	Assert(noffers < MOST_OFFERS);
	offers[noffers++] = offer;
}

static void
scan_paths(PlannerInfo *root, RelOptInfo *rel, Index rti, RangeTblEntry *rte)
{
	if (previous_scan_hook != NULL)
		previous_scan_hook(root, rel, rti, rte);
	if (planner_enabled && scan_offer != NULL)
		scan_offer(root, rel, rte);
}

/* The same for the paths of one table. */
void
planner_set_scan_offer(ScanPathsOffer offer)
{
	Assert(scan_offer == NULL);
	scan_offer = offer;
}

static void
join_paths(PlannerInfo *root, RelOptInfo *joined, RelOptInfo *outer, RelOptInfo *inner, JoinType type,
		   JoinPathExtraData *extra)
{
	if (previous_join_hook != NULL)
		previous_join_hook(root, joined, outer, inner, type, extra);
	for (int i = 0; planner_enabled && i < njoin_offers; i++)
		join_offers[i] (root, joined, outer, inner, type, extra);
}

/* The same for two relations that are joined: each looks at what those before it have left. */
void
planner_add_join_offer(JoinPathsOffer offer)
{
	Assert(njoin_offers < MOST_OFFERS);
	join_offers[njoin_offers++] = offer;
}

/* All joins of two relations that give the rows of one have been looked at: what PostgreSQL does with it then. */
static void
complete(PlannerInfo *root, RelOptInfo *joined)
{
#if PG_VERSION_NUM >= 160000
	bool		is_top = bms_equal(joined->relids, root->all_query_rels);
#else
	bool		is_top = bms_equal(joined->relids, root->all_baserels);
#endif

	generate_partitionwise_join_paths(root, joined);
	joined_offer(root, joined);
	/* those above the whole query's follow with its final target */
	if (!is_top)
		generate_useful_gather_paths(root, joined, false);
	set_cheapest(joined);
#if PG_VERSION_NUM >= 190000
	if (joined->grouped_rel != NULL && !is_top)
	{
		generate_grouped_paths(root, joined->grouped_rel, joined);
		set_cheapest(joined->grouped_rel);
	}
#endif
}

/* The search as PostgreSQL's standard_join_search() does it, with our offer for each joined relation. */
static RelOptInfo *
search(PlannerInfo *root, int nlevels, List *relations)
{
	PlannerInfo *around = searched;

	Assert(root->join_rel_level == NULL);
	searched = root;
	root->join_rel_level = palloc0((nlevels + 1) * sizeof(List *));
	root->join_rel_level[1] = relations;
	for (int level = 2; level <= nlevels; level++)
	{
		ListCell   *lc;

		join_search_one_level(root, level);
		foreach(lc, root->join_rel_level[level])
			complete(root, lfirst(lc));
	}
	relations = root->join_rel_level[nlevels];
	if (list_length(relations) != 1)
		elog(ERROR, "failed to build any %d-way joins", nlevels);
	root->join_rel_level = NULL;
	searched = around;

	return linitial(relations);
}

/*
 * Will the paths of a query's joined relations be asked for once, when all joins
 * that give them have been looked at? Not if another library searches.
 */
bool
planner_completes_joins(PlannerInfo *root)
{
	return root == searched;
}

/* Have this one asked for paths of a joined relation then. */
void
planner_set_joined_offer(JoinedPathsOffer offer)
{
	Assert(joined_offer == NULL);
	joined_offer = offer;
}

/* The search is PostgreSQL's, but for what is offered, or that of a library that was loaded before. */
static RelOptInfo *
join_search(PlannerInfo *root, int levels_needed, List *initial_rels)
{
	if (planner_enabled && search_offer != NULL)
		search_offer(root);
	if (previous_search_hook != NULL)
		return previous_search_hook(root, levels_needed, initial_rels);
	if (enable_geqo && levels_needed >= geqo_threshold)
		return geqo(root, levels_needed, initial_rels);
	if (planner_enabled && joined_offer != NULL)
		return search(root, levels_needed, initial_rels);
	return standard_join_search(root, levels_needed, initial_rels);
}

/* The same for a query with joins, whose tables have their paths, before any of them is looked at. */
void
planner_set_search_offer(JoinSearchOffer offer)
{
	Assert(search_offer == NULL);
	search_offer = offer;
}

/* Statements are planned inside others: functions are evaluated by the planner. */
#if PG_VERSION_NUM >= 190000
#define EXPLAIN_PARAMETER , ExplainState *es
#define EXPLAIN_ARGUMENT , es
#else
#define EXPLAIN_PARAMETER
#define EXPLAIN_ARGUMENT
#endif

static PlannedStmt *
plan_statement(Query *parse, const char *query, int options, ParamListInfo params EXPLAIN_PARAMETER)
{
	int			outer = cursor_options;
	PlannerInfo *around = searched;
	PlannedStmt *result;

	cursor_options = options;
	PG_TRY();
	{
		result = previous_planner_hook != NULL ? previous_planner_hook(parse, query, options, params EXPLAIN_ARGUMENT) :
			standard_planner(parse, query, options, params EXPLAIN_ARGUMENT);
	}
	PG_FINALLY();
	{
		cursor_options = outer;
		/* after an error another query may be at the same address */
		searched = around;
	}
	PG_END_TRY();
	return result;
}

/*
 * Is it for a cursor that may go backward? Without NO SCROLL it does if its plan
 * can; with SCROLL a plan that cannot is put below Materialize, where WHERE
 * CURRENT OF does not find the row. A cursor's other mark is that the first
 * rows are wanted fast.
 */
bool
planner_may_scroll(void)
{
	return (cursor_options & CURSOR_OPT_FAST_PLAN) != 0 && (cursor_options & CURSOR_OPT_NO_SCROLL) == 0;
}

/* Is it for a cursor, whose rows WHERE CURRENT OF may ask for? */
bool
planner_for_cursor(void)
{
	return (cursor_options & CURSOR_OPT_FAST_PLAN) != 0;
}

/*
 * May the plan above want only the first rows, in whatever order they come? An
 * order by columns of which the query has but one value is none, and of
 * DISTINCT by such columns PostgreSQL 16 and later read one row. To be asked
 * once the query's order is known, as it is when paths are made.
 */
bool
planner_wants_first_rows(PlannerInfo *root)
{
	Query	   *parse = root->parse;

	if (parse->groupClause != NIL || parse->groupingSets != NIL || parse->hasAggs || parse->hasWindowFuncs)
		return false;
	if (parse->distinctClause != NIL)
#if PG_VERSION_NUM >= 160000
		return root->distinct_pathkeys == NIL && grouping_is_sortable(parse->distinctClause);
#else
		return false;
#endif

	return root->tuple_fraction > 0 && root->sort_pathkeys == NIL;
}

void
planner_hook_init(void)
{
	DefineCustomBoolVariable("pgbillion_rows.enable",
							 "Lets the extension take part in planning at all.",
							 "While it is off, every statement is planned as without the extension, whatever its other settings say.",
							 &planner_enabled, true, PGC_USERSET, GUC_EXPLAIN,
							 NULL, NULL, NULL);
	previous_hook = create_upper_paths_hook;
	create_upper_paths_hook = upper_paths;
	previous_scan_hook = set_rel_pathlist_hook;
	set_rel_pathlist_hook = scan_paths;
	previous_join_hook = set_join_pathlist_hook;
	set_join_pathlist_hook = join_paths;
	previous_search_hook = join_search_hook;
	join_search_hook = join_search;
	previous_planner_hook = planner_hook;
	planner_hook = plan_statement;
}

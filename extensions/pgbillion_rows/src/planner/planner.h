/*-------------------------------------------------------------------------
 *
 * planner.h
 *	  What is offered to the planner: the map of the parts.
 *
 *	hook.c			the planner's hooks, and the features that they call; modes of settings
 *	targets.c		what partial aggregation returns
 *	append.c		partial states of the tables below a partitioned one
 *	group_estimate.c	how many groups expressions make
 *	known_rows.c	where fewer rows are known to be found; see known_rows.h
 *	guesses.c		where an estimate of PostgreSQL's is a guess; see guesses.h
 *	arithmetic.c	arithmetic known by its functions
 *	aggregates.c	which function of PostgreSQL one of our functions calls
 *	repeatable.c	whether a subquery gives the same result each time, and equal values are the same
 *	collations.c	how strings of a collation are compared
 *	planner_memo.c	what is found out and asked for again; see planner_memo.h
 *	reasons.c		why a query is planned as it is
 *	explain_as.c	pgbillion_rows.explain_as(): the plan of a query of another role
 *
 * This is the lowest layer, without any feature in it: when the library is
 * loaded, features say what they offer.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGBILLION_PLANNER_H
#define PGBILLION_PLANNER_H

#include "nodes/pathnodes.h"
#include "utils/guc.h"

/* ---- hook.c ---- */

/* What a setting of a feature of the planner says. */
typedef enum PlanMode
{
	PLAN_OFF,
	PLAN_ON,
	PLAN_FORCE					/* wherever it applies, whatever it costs */
} PlanMode;

extern const struct config_enum_entry plan_mode_options[];

/*
 * pgbillion_rows.enable: while it is off, the hooks call no feature. A feature
 * that PostgreSQL calls by itself, such as a foreign-data wrapper, looks here.
 */
extern bool planner_enabled;

/* Adds paths to `rel`, as PostgreSQL's create_upper_paths_hook. */
typedef void (*UpperPathsOffer) (PlannerInfo *root, UpperRelationKind stage, RelOptInfo *input_rel,
								 RelOptInfo *rel, void *extra);

/* Adds paths to a table, as PostgreSQL's set_rel_pathlist_hook. */
typedef void (*ScanPathsOffer) (PlannerInfo *root, RelOptInfo *rel, RangeTblEntry *rte);

/* Looks at two relations that are joined, as PostgreSQL's set_join_pathlist_hook. */
typedef void (*JoinPathsOffer) (PlannerInfo *root, RelOptInfo *joined, RelOptInfo *outer, RelOptInfo *inner,
								JoinType type, JoinPathExtraData *extra);

/* Adds paths to a joined relation, after all joins that give it have been looked at. */
typedef void (*JoinedPathsOffer) (PlannerInfo *root, RelOptInfo *joined);

/* Looks at a query before the order of its joins is searched, maybe more than once. */
typedef void (*JoinSearchOffer) (PlannerInfo *root);

/*
 * Gives the partial states of a foreign table, or NULL where it does not apply.
 * It is NULL itself where nothing is loaded that can.
 */
typedef Path *(*ForeignStatesSource) (PlannerInfo *root, RelOptInfo *rel, PathTarget *target);

extern ForeignStatesSource planner_foreign_states;

extern void planner_hook_init(void);
extern void planner_add_offer(UpperPathsOffer offer);
extern void planner_set_scan_offer(ScanPathsOffer offer);
extern void planner_add_join_offer(JoinPathsOffer offer);
extern void planner_set_search_offer(JoinSearchOffer offer);
extern void planner_set_joined_offer(JoinedPathsOffer offer);
extern bool planner_completes_joins(PlannerInfo *root);
extern bool planner_may_scroll(void);
extern bool planner_for_cursor(void);
extern bool planner_wants_first_rows(PlannerInfo *root);

/* ---- targets.c ---- */

extern PathTarget *planner_partial_target(PlannerInfo *root, PathTarget *grouping, Node *having);
extern const char *planner_no_partial_form(PlannerInfo *root, PathTarget *grouping, Node *having);

/* ---- append.c ---- */

extern PathTarget *planner_leaf_target(PlannerInfo *root, PathTarget *target, RelOptInfo *leaf, RelOptInfo *table);
extern List *planner_leaf_tables(PlannerInfo *root, RelOptInfo *table);
extern bool planner_mentions_partition_key(RelOptInfo *table, List *conditions);
extern bool planner_prunes_at_run_time(PlannerInfo *root, RelOptInfo *table);
extern bool planner_tables_parallel_safe(PlannerInfo *root, List *tables, PathTarget *target);
extern Path *planner_append_path(PlannerInfo *root, RelOptInfo *rel, PathTarget *target, List *paths);
extern Path *planner_partial_append_path(PlannerInfo *root, RelOptInfo *rel, PathTarget *target, List *paths, int workers);
extern Path *planner_gathered_path(PlannerInfo *root, RelOptInfo *rel, PathTarget *target, Path *partial, List *others);

/* ---- repeatable.c ---- */

extern bool planner_function_shows_storage(Oid function);
extern bool planner_subquery_varies(PlannerGlobal *glob, SubPlan *subplan);
extern void planner_set_remembered(bool (*remembered) (PlannerInfo *root, SubPlan *subplan));
extern bool planner_is_remembered(PlannerInfo *root, SubPlan *subplan);
extern bool planner_equal_is_same(Oid type, int32 typmod, Oid collation);

/* ---- collations.c ---- */

extern bool planner_compares_bytes(Oid collation);

/* ---- reasons.c ---- */

extern bool plan_is_reported(void);
extern const char *plan_reason(const char *format,...) pg_attribute_printf(1, 2);
extern void plan_report(PlannerInfo *root, const char *format,...) pg_attribute_printf(2, 3);
extern StringInfo plan_report_collect(StringInfo findings);

#endif							/* PGBILLION_PLANNER_H */

/*-------------------------------------------------------------------------
 *
 * plan.h
 *	  What the parts of the planner's side share: when vectors apply, what they
 *	  cost, and their paths.
 *
 *	upper_paths.c	the offers
 *	refusal.c		what speaks against them
 *	cost_model.c	memory, and what waiting and spilling cost
 *	cached_cost.c		what scans and joins take where tables are in memory
 *	cached_upper_cost.c	what is above these
 *	subquery_cost.c		what subqueries in conditions take
 *	reach_cost.c		what reaching columns costs
 *	likely_rows.c		how many rows there likely are
 *	aggregate_path.c	the path of one table's scan that aggregates, and its plan
 *	columns_path.c	which columnar index such a scan reads
 *	branch.c		branches of a UNION ALL that are subqueries
 *	join_step.c		one join along a table
 *	join_chain.c	several along a table, and what they cost
 *	join_search.c	which of them there can be
 *	join_worth.c	and of which statements they are looked at
 *	join_path.c		the same as aggregate_path.c above joins, and rows of joins
 *	join_plan.c		what a plan tells of them
 *	filter_path.c	the path of one that returns rows, and its plan
 *	finalize_path.c	the path above Finalize Aggregate, and its plan
 *	report.c		what is told of joins, and of estimates that are guesses
 *	explain_vector.c	pgbillion_rows.explain_vector()
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGBILLION_VECTOR_PLAN_H
#define PGBILLION_VECTOR_PLAN_H

#include "nodes/extensible.h"
#include "nodes/pathnodes.h"

/* settings, each a PlanMode */
extern int	vector_aggregate;	/* pgbillion_rows.vector_aggregate */
extern int	vector_columns;		/* pgbillion_rows.columns */
extern int	vector_scan;		/* pgbillion_rows.vector_scan */
extern int	vector_join;		/* pgbillion_rows.vector_join */
extern int	vector_exchange;	/* pgbillion_rows.vector_exchange */

/* refusal.c: the reason, or NULL */
extern const char *vector_expression_refusal(Expr *expr);
extern const char *vector_condition_refusal(PlannerInfo *root, RestrictInfo *condition);
extern const char *vector_table_refusal(PlannerInfo *root, RelOptInfo *rel);
extern const char *vector_target_refusal(PathTarget *target);
extern const char *vector_clause_refusal(PathTarget *target, List *clause);
extern const char *vector_memory_refusal(PathTarget *target, double groups);

/* What custom_private of the path of a scan that aggregates, or returns the rows of joins, holds. */
typedef enum VectorPathPrivate
{
	VECTOR_PATH_TABLE,			/* an integer: its relid */
	VECTOR_PATH_TERMS,			/* a list: of the filter */
	VECTOR_PATH_COLUMNS,		/* a list of one OID: the columnar index, if
								 * any */
	VECTOR_PATH_EXCHANGE,		/* an integer: about how many groups processes
								 * exchange, or 0 */
	VECTOR_PATH_LATE,			/* a list of integers: columns of the table
								 * that are fetched for the rows that filter
								 * and joins leave */
	VECTOR_PATH_JOINS,			/* a list per join: JoinPathPrivate */
	VECTOR_PATH_ROWS			/* a list: the columns of the rows of joins */
} VectorPathPrivate;

/* What the list of a join holds. */
typedef enum JoinPathPrivate
{
	JOIN_PATH_KIND,				/* a list of integers: JoinPathKind */
	JOIN_PATH_CLAUSES,			/* hashable clauses */
	JOIN_PATH_QUALS,			/* what else a pair must satisfy */
	JOIN_PATH_OTHERS			/* what a row of the join must satisfy */
} JoinPathPrivate;

typedef enum JoinPathKind
{
	JOIN_KIND_TYPE,				/* a JoinType */
	JOIN_KIND_SHARED,			/* do processes run the inner side together? */
	JOIN_KIND_REVERSED,			/* are its rows those of the inner side? */
	JOIN_KIND_COST,				/* what its table takes */
	JOIN_KIND_DEAR,				/* is that more than to read the big table? */
	JOIN_KIND_ROWS				/* how many it likely has */
} JoinPathKind;

/* aggregate_path.c */
extern CustomPath *vector_make_scan_path(RelOptInfo *parent, RelOptInfo *rel, PathTarget *target, List *terms, Oid index,
										 List *late, int parallel_workers, bool safe);
extern CustomScan *vector_plan_scan(PlannerInfo *root, CustomPath *best_path, List *outputs, List *custom_plans,
									int passthrough_after);
extern bool vector_is_looked_up_for_less(PlannerInfo *root, RelOptInfo *rel, Cost taken);
extern Path *vector_scan_path(PlannerInfo *root, RelOptInfo *parent, RelOptInfo *rel, PathTarget *target,
							  double groups, int parallel_workers, bool safe);
extern void vector_exchange_groups(Path *path, double groups, int parallel_workers);
extern void vector_share_pairs(Path *path, double pairs, Cost cost);

/* columns_path.c */
extern bool vector_has_column_index(RelOptInfo *rel);
extern double vector_index_others_factor(RelOptInfo *rel, Oid index);
extern Oid	vector_choose_column_index(PlannerInfo *root, RelOptInfo *rel, List *exprs, Cost wait, Cost *pages,
									   Cost *row);
extern Oid	vector_choose_late_index(PlannerInfo *root, RelOptInfo *rel, List *exprs, List *outputs, double rows,
									 Cost wait, Cost *pages, Cost *row, List **late);
extern bool vector_index_has_filter(PlannerInfo *root, RelOptInfo *rel, List *exprs);
extern void vector_columns_init(void);

/* What a scan that returns rows reads from a columnar index. */
typedef struct RowsIndex
{
	Oid			index;
	List	   *terms;			/* those of the filter that need its columns
								 * only */
	List	   *others;
	int			ncolumns;		/* that these terms need, counted for each */
	Bitmapset  *needed;			/* columns that are needed at all, among them
								 * expressions of the index */
	bool		all;			/* it has all columns that are needed */
	double		share;			/* of the table's blocks are read there */
	double		pages;			/* of the index, that these blocks' values are
								 * in */
	double		sought;			/* share of these blocks that is read, as
								 * values are looked up; 1: none is */
	Cost		seeking;		/* what that costs */
} RowsIndex;

extern int	vector_count_index_terms(PlannerInfo *root, RelOptInfo *rel, List *terms);
extern bool vector_choose_rows_index(PlannerInfo *root, RelOptInfo *rel, List *terms, int n, bool any,
									 const Bitmapset *needed, RowsIndex *choice);
extern bool vector_rows_index_has(RelOptInfo *rel, const RowsIndex *choice, AttrNumber attno);
extern bool vector_shows_storage(Node *node);
extern bool vector_storage_is_shown(PlannerInfo *root, RelOptInfo *rel, List *exprs);

/* upper_paths.c */
extern bool vector_may_depend_on_order(PlannerInfo *root, PathTarget *target);

/* join_path.c */
typedef struct JoinChain JoinChain;

extern JoinChain *join_chain_find(PlannerInfo *root, RelOptInfo *joined, bool safe, const char **reason);
extern bool join_chain_is_of_parts(const JoinChain *chain);
extern RelOptInfo *join_chain_table(JoinChain *chain);
extern List *join_chain_tables(PlannerInfo *root, JoinChain *chain);
extern const char *join_chain_target_refusal(PlannerInfo *root, JoinChain *chain, PathTarget *target);
extern JoinChain *join_chain_of_branches(PlannerInfo *root, RelOptInfo *table, JoinChain **safe, List **others,
										 const char **reason);
extern List *vector_join_paths(PlannerInfo *root, RelOptInfo *parent, JoinChain *chain, PathTarget *target,
							   double groups, int parallel_workers, bool safe);
extern void vector_join_add_worker_cost(PlannerInfo *root, JoinChain *chain, PathTarget *target, int workers,
										Path *path);
extern void vector_join_path_init(void);
extern const CustomPathMethods vector_join_path_methods;
extern const CustomPathMethods vector_aggregate_path_methods;
extern const CustomPathMethods vector_finalize_path_methods;

/* What was compared of the rows of a relation: a chain, what it takes, and what PostgreSQL's path takes. */
typedef struct JoinOffer
{
	const JoinChain *chain;
	Cost		taken;
	Cost		rival;
	bool		pays;
} JoinOffer;

extern const JoinOffer *join_offer_find(PlannerInfo *root, RelOptInfo *joined);

/*
 * The path of the rows of joins, or of aggregates of a table's or of joins' rows. It is never
 * parameterized: such custom paths PostgreSQL may copy, as far as it knows them.
 */
typedef struct JoinsPath
{
	CustomPath	path;
	Cost		taken;			/* cached_path_cost(), when it was made */
	Cost		planned;		/* total_cost, when it was made */
	bool		has_subqueries; /* in its conditions */
	PlannerInfo *subroot;		/* if it is of a branch of a UNION ALL: that
								 * of the branch, and */
	List	   *around;			/* inner sides of the query around: branch.h */
} JoinsPath;

/* join_plan.c */
extern List *vector_plan_joins(PlannerInfo *root, CustomScan *cscan, List *joins, List *plans);

/* finalize_path.c */
extern Node *vector_combinable_aggregates(Node *node, void *context);
extern bool vector_finalizable(PlannerInfo *root, PathTarget *target, PathTarget *output, List *clause);
extern Path *vector_finalize_gathered_path(AggPath *agg);
extern Path *vector_finalize_sets_path(GroupingSetsPath *sets);
extern Path *vector_finalize_path(PlannerInfo *root, AggPath *agg, const AggClauseCosts *costs, Cost spilling);

/* report.c */
extern void vector_report_groups_guess(PlannerInfo *root, List *keys, double rows, double most);
extern double vector_take_query_ms(void);
extern void vector_ask_query_ms(void);

/* filter_path.c */

/* The path of a scan that returns rows. It is never parameterized, as JoinsPath is not. */
typedef struct RowsPath
{
	CustomPath	path;
	bool		columns;		/* it reads a columnar index: */
	Cost		taken;			/* cached_path_cost() */
} RowsPath;

extern Path *vector_batches_path(PlannerInfo *root, Path *path);
extern void vector_filter_path_init(void);
extern const CustomPathMethods vector_filter_path_methods;

#endif							/* PGBILLION_VECTOR_PLAN_H */

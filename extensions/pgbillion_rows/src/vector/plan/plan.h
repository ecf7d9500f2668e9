/*-------------------------------------------------------------------------
 *
 * plan.h
 *	  What the parts of the planner's side share: when vectors apply, what they
 *	  cost, and their paths.
 *
 *	plan.c			the offers
 *	refusal.c		what speaks against them
 *	cost.c			memory, and what waiting and spilling cost
 *	core_cost.c		what PostgreSQL's paths take where tables are in memory
 *	path.c			the path of one table's scan that aggregates, and its plan
 *	notes.c			what is found out and asked for again: notes.h
 *	columns_path.c	which index of columns such a scan reads
 *	join_step.c		one join along a table
 *	join_chain.c	which of them there can be
 *	join_path.c		the same as path.c above joins, and rows of joins
 *	join_plan.c		what a plan tells of them
 *	filter_path.c	the path of one that returns rows, and its plan
 *	report.c		what is told of joins, and of estimates that are guesses
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGBILLION_VECTOR_PLAN_H
#define PGBILLION_VECTOR_PLAN_H

#include "nodes/extensible.h"
#include "nodes/pathnodes.h"

/* refusal.c: the reason, or NULL */
extern const char *expression_refusal(Expr *expr);
extern const char *table_refusal(PlannerInfo *root, RelOptInfo *rel);
extern const char *target_refusal(PathTarget *target);
extern const char *clause_refusal(PathTarget *target, List *clause);
extern const char *memory_refusal(PathTarget *target, double groups);

/* Cost of setting a scan up, which keeps small tables with PostgreSQL. */
#define STARTUP_COST 20.0

/*
 * What a row costs compared with PostgreSQL's. Measured on tables in cache:
 * about an eighth for columns and kernels.
 */
#define KERNEL_COST_FACTOR 0.12

/* The same of a term of a filter that has a kernel. */
#define TERM_COST_FACTOR (2 * KERNEL_COST_FACTOR)

/*
 * What PostgreSQL's costs leave out of a row that a scan returns: what joins,
 * sorts and aggregates do with it takes about three times as long as they say,
 * with tables in cache. A sequential scan and all above it are underestimated
 * alike; so without this a cheaper scan would pull the plan away from index
 * scans, which are not.
 */
#define ROW_ABOVE_COST (1.0 * cpu_tuple_cost)

/*
 * What a path costs of PostgreSQL's that it stands in for: so much less that
 * add_path() takes it for less.
 */
#define LESS_COST_FACTOR 0.98

/* Where joins are forced, rows of joins cost so much of what they do. */
#define FORCED_COST_FACTOR 1e-6

/* cost.c */
extern double parallel_divisor(int workers);
extern double memory_of_groups(PathTarget *target, double groups);
extern List *ordered_terms(PlannerInfo *root, List *restrictinfos);
extern double rows_left(PlannerInfo *root, RelOptInfo *rel, List *terms, int n);
extern Cost read_cost(void);
extern Cost filter_cost(PlannerInfo *root, RelOptInfo *rel);
extern bool filters_by_row(PlannerInfo *root, RelOptInfo *rel);
extern Cost row_cost(PlannerInfo *root, PathTarget *target);
extern Cost distinct_cost(PlannerInfo *root, RelOptInfo *rel, PathTarget *target);
extern Cost spill_cost(RelOptInfo *rel, PathTarget *target, double groups);
extern Cost exchange_cost(double groups);
extern double distinct_pairs(PlannerInfo *root, RelOptInfo *rel, PathTarget *target);
extern Cost shared_distinct_cost(RelOptInfo *rel, PathTarget *target, double pairs, int workers);
extern void add_waiting(Path *path, PathTarget *target, List *others, double rows, double groups);

/* core_cost.c */
extern bool tables_in_memory(PlannerInfo *root);
extern bool is_rows_of_joins(const Path *path);
extern bool is_filter_scan(const Path *path);
extern double rows_factor(PlannerInfo *root, RelOptInfo *rel);
extern Cost whole_page_cost(PlannerInfo *root, Cost planned);
extern Cost memory_cost(PlannerInfo *root, Path *path);

/* path.c */
extern CustomPath *make_scan_path(RelOptInfo *parent, RelOptInfo *rel, PathTarget *target, List *terms, Oid index,
								  int parallel_workers, bool safe);
extern CustomScan *plan_scan(CustomPath *best_path, List *outputs, List *custom_plans, int patience);
extern Path *scan_path(PlannerInfo *root, RelOptInfo *parent, RelOptInfo *rel, PathTarget *target,
					   double groups, int parallel_workers, bool safe);
extern void exchange_groups(Path *path, double groups, int parallel_workers);
extern void share_pairs(Path *path, double pairs, Cost cost);

/* columns_path.c */
extern bool has_columns(RelOptInfo *rel);
extern Oid	choose_columns(RelOptInfo *rel, List *exprs, Cost *pages, Cost *row);
extern void vector_columns_init(void);

/* join_path.c */
typedef struct JoinChain JoinChain;

extern JoinChain *find_join_chain(PlannerInfo *root, RelOptInfo *joined, bool safe, const char **reason);
extern RelOptInfo *join_chain_table(JoinChain *chain);
extern Path *join_path(PlannerInfo *root, RelOptInfo *parent, JoinChain *chain, PathTarget *target,
					   double groups, int parallel_workers, bool safe);
extern void vector_join_path_init(void);
extern const CustomPathMethods vector_join_path_methods;

/* What was compared of the rows of a relation: a chain, what it takes, and what PostgreSQL's path takes. */
typedef struct JoinOffer
{
	const JoinChain *chain;
	Cost		taken;
	Cost		rival;
	bool		pays;
} JoinOffer;

extern const JoinOffer *find_join_offer(PlannerInfo *root, RelOptInfo *joined);

/*
 * The path of the rows of joins. It is never parameterized: such custom paths
 * PostgreSQL may copy, as far as it knows them.
 */
typedef struct RowsPath
{
	CustomPath	path;
	Cost		taken;			/* memory_cost() */
} RowsPath;

/* join_plan.c */
extern void plan_joins(CustomScan *cscan, List *joins, List *plans);

/* report.c */
extern void report_groups_guess(PlannerInfo *root, List *keys, double rows, double most);
extern void vector_report_init(void);

/* filter_path.c */
extern void vector_filter_path_init(void);
extern const CustomPathMethods vector_filter_path_methods;

#endif							/* PGBILLION_VECTOR_PLAN_H */

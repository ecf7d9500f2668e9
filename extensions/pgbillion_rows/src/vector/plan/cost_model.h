/*-------------------------------------------------------------------------
 *
 * cost_model.h
 *	  What our paths cost: every constant, and the functions that add them up.
 *
 *	cost_model.c	what reading, filtering, grouping, spilling and waiting cost
 *	subquery_cost.c	what subqueries in conditions take
 *	reach_cost.c	what reaching columns costs
 *	likely_rows.c	how many rows there likely are
 *	cached_cost.c	what scans and joins take where tables are in memory, and
 *					how long a query takes
 *	cached_upper_cost.c	what is above scans and joins
 *
 * Except where it says otherwise, a cost is in the units of PostgreSQL's.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGBILLION_VECTOR_COST_MODEL_H
#define PGBILLION_VECTOR_COST_MODEL_H

#include "nodes/extensible.h"
#include "nodes/pathnodes.h"
#include "optimizer/cost.h"

/* ---- all paths ---- */

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
 * Our path costs this share of the PostgreSQL path that it replaces, so that
 * add_path() prefers it.
 */
#define LESS_COST_FACTOR 0.98

/*
 * A path that is forced costs this share of what it does: less than any of
 * PostgreSQL's, and still comparable with other forced ones. Of these, one that
 * is to be chosen before the others costs the second share of that.
 */
#define FORCED_COST_FACTOR 1e-6
#define PREFERRED_COST_FACTOR 1e-3

/*
 * What workers take to start, to find their way into shared memory, and to end, beyond parallel_setup_cost: that is
 * for rows which take PostgreSQL's time. An estimate: about seven milliseconds, in which we aggregate as many rows as
 * cost that much; bench/calibrate.py measures it.
 */
#define WORKER_SETUP_FACTOR 1.5

/*
 * The same for workers that join, in all: how many times parallel_setup_cost is
 * the time that they take, of which it is 3.5 milliseconds.
 */
#define JOIN_WORKER_SETUP_FACTOR 1.25

/* ---- scans that return rows ---- */

/*
 * What a row that is returned costs compared with PostgreSQL's: its columns
 * may be walked to twice. Measured.
 */
#define SCAN_RETURN_COST_FACTOR 1.1

/*
 * What LIKE takes in PostgreSQL beyond the one operator that it costs:
 * measured by bench/calibrate.py for strings of 50 bytes.
 */
#define SCAN_LIKE_COST (10 * cpu_operator_cost)

/* ---- columnar indexes ---- */

/*
 * What a row costs from an array compared with one of a heap page. Between 0.08
 * (a count) and 0.24 (sums of floats) were measured; this errs toward the heap.
 */
#define COLUMN_ROW_COST_FACTOR 0.3

/* What it costs to look a value up in a segment, with all else that is done for a segment; measured. */
#define COLUMN_SEEK_COST (140 * cpu_tuple_cost)

/*
 * For how many times the rows that PostgreSQL estimates joins to return columns
 * can be fetched before that takes longer than to read them of all rows: it must
 * pay also where there are more.
 */
#define LATE_ROWS_FACTOR 3.0

/* ---- groups ---- */

/*
 * What a table of groups may take without much waiting for memory: a bit more
 * than the processor's caches, as slots and entries are fetched ahead. With
 * eight times as much every row waits.
 */
#define GROUP_CACHE_BYTES (64.0 * 1024 * 1024)

/*
 * What a row takes that is aggregated beyond what it costs, in cpu_operator_cost:
 * the first key of its group, if it is passed by value, others of these, and
 * keys that are not; and arguments of aggregates that are passed by value, of
 * type numeric, and others. Measured on columns in memory.
 */
#define AGGREGATE_TIME_KEY 0.3
#define AGGREGATE_TIME_FURTHER_KEY 2.5
#define AGGREGATE_TIME_OTHER_KEY 3.0
#define AGGREGATE_TIME_VALUE 0.4
#define AGGREGATE_TIME_NUMERIC 0.8
#define AGGREGATE_TIME_OTHER 4.0

/*
 * What share of that, and of vector_row_cost(), it takes where keys and values
 * come from a columnar index: of a scan alone, and above joins; measured.
 */
#define AGGREGATE_TIME_COLUMNS 0.2
#define AGGREGATE_TIME_JOINED_COLUMNS 0.4

/* Taking a group to finish it. */
#define FINALIZE_GROUP_COST (2 * cpu_tuple_cost)

/* What waiting for memory costs a row at most; measured. */
#define GROUP_WAITING_COST (2 * cpu_tuple_cost)

/* Writing a row of groups for which there is no memory to a file, and reading it; measured. */
#define SPILL_ROW_COST (0.6 * cpu_tuple_cost)

/* What a value takes in a file. */
#define SPILLED_VALUE_BYTES 32

/*
 * Keeping a value of an ordered-set aggregate, and looking for percentiles
 * among those of a group; for its mode; and sorting it into a file and reading
 * it, if there is no memory for it. Measured.
 */
#define ORDERED_VALUE_COST (2 * cpu_operator_cost)
#define ORDERED_MODE_COST (7 * cpu_operator_cost)
#define ORDERED_SPILLED_COST (10 * cpu_operator_cost)

/* What a value takes in memory, and a group; and how many values of a group at most are room that is not used. */
#define ORDERED_VALUE_BYTES 8
#define ORDERED_GROUP_BYTES 64
#define ORDERED_CHUNK_VALUES 8192

/* ---- joins ---- */

/*
 * What joins cost a row: its insertion, with each value that is not passed by
 * value, a key of it that is looked up, and a pair. Measured on tables in cache.
 */
#define JOIN_BUILD_ROW_COST (0.3 * cpu_tuple_cost)
#define JOIN_BUILD_VALUE_COST (0.6 * cpu_tuple_cost)
#define JOIN_INTEGER_KEY_COST (0.1 * cpu_tuple_cost)
#define JOIN_OTHER_KEY_COST (0.6 * cpu_tuple_cost)
#define JOIN_PAIR_COST (0.1 * cpu_tuple_cost)

/*
 * Writing a row of a build side for other processes, and reading it; and, of
 * any side, making files and waiting for others.
 */
#define JOIN_SHARE_ROW_COST (0.2 * cpu_tuple_cost)
#define JOIN_SHARE_COST 10.0

/*
 * Bytes of a hash table below which it is in the processor's caches, and beyond
 * which it is not; and what waiting for memory costs then.
 */
#define JOIN_NEAR_BYTES (2.0 * 1024 * 1024)
#define JOIN_FAR_BYTES (128.0 * 1024 * 1024)
#define JOIN_FAR_KEY_COST (0.25 * cpu_tuple_cost)
#define JOIN_FAR_BUILD_COST (1.5 * cpu_tuple_cost)

/* Testing whether a row of the table has one of the keys. */
#define JOIN_KEY_TEST_COST (0.03 * cpu_tuple_cost)

/*
 * Loading a column of a row from a columnar index, after such a test: columns
 * are loaded for all rows of a batch of which any is left. Measured.
 */
#define JOIN_LOAD_COST (0.007 * cpu_tuple_cost)

/* A chain that costs this many times what PostgreSQL's plan does will not become cheaper by further joins. */
#define JOIN_HOPELESS_FACTOR 4

/*
 * What each table of a statement should cost, on average, for each of the
 * 2^tables joins that may be considered. Considering one takes a fifth of a
 * microsecond, which is then a few percent of the statement's time at most.
 */
#define JOIN_SEARCH_COST 1.0

/* What it costs to start a node of an inner side's plan once more, for a further table: some 15 microseconds. */
#define JOIN_NODE_COST (300 * cpu_tuple_cost)

/* What it costs to return a row; measured. */
#define JOIN_RETURN_ROW_COST (0.3 * cpu_tuple_cost)

/*
 * How much cheaper ours has to be than looking for rows by those of another
 * relation: what that takes is less certain. Processes that look rows up wait
 * for memory each on its own, while scans share what it delivers, so that a
 * second one gains more there: measured.
 */
#define JOIN_LOOK_UP_FACTOR 1.2
#define JOIN_LOOK_UP_PARALLEL_FACTOR 1.5

/*
 * What a subquery in a condition takes of what PostgreSQL says that it costs,
 * if nothing better is known of it.
 */
#define SUBQUERY_COST_FACTOR 0.1

/*
 * What we wait for a row of a heap page in far memory, by the cache lines that it
 * has, as far as these matter. In PostgreSQL that is part of cpu_tuple_cost.
 * Measured on tables that do not fit the processor's caches, on a machine whose
 * memory others used, too: at best, it is little more than half of that.
 */
#define LINE_COST (0.14 * cpu_tuple_cost)
#define MOST_LINES 2.5

/* Passing a column on the way to another, in cpu_tuple_cost: PostgreSQL's, and ours; measured. */
#define REACH_COST_CORE 0.07
#define REACH_COST_FIXED 0.007
#define REACH_COST_VARIABLE 0.045

/* What comparing values of variable length takes in PostgreSQL beyond the one operator that it costs; measured. */
#define VARIABLE_LENGTH_COST (2 * cpu_operator_cost)

/* And comparing a value with an element of an array, beyond half an operator, of any length and of a variable one; measured. */
#define ELEMENT_COST (0.5 * cpu_operator_cost)
#define VARIABLE_ELEMENT_COST (1.0 * cpu_operator_cost)

/* ---- PostgreSQL's paths, in memory ---- */

/* Measured on tables in cache, in cpu_tuple_cost. */
#define CACHED_COST_PAGE 5.0	/* of a table that is read as a whole */
#define CACHED_COST_DESCENT 12.0	/* in an index */
#define CACHED_COST_DESCENT_FAR 33.0	/* more than that, if it and its table
										 * are far from the processor: as of
										 * JOIN_FAR_BYTES */
#define CACHED_COST_SKIP 200.0	/* to the next value of an index's first
								 * columns, with two searches */
#define CACHED_COST_FETCH 13.0	/* of a row that an index names */
#define CACHED_COST_FETCH_NEAR 4.5	/* the same near the processor */
#define CACHED_COST_BITMAP_PAGE 45.0	/* of a table far from it that a
										 * bitmap names; rows of index scans
										 * share pages more often than not */
#define CACHED_COST_BITMAP_ENTRY 2.0	/* of an entry of an index that is put
										 * into a bitmap */
#define CACHED_COST_BITMAP_ROW 2.0	/* of a row that is taken from its page */
#define CACHED_COST_TOUCHED_BYTES 8192.0	/* in a table and an index, for a
											 * row that is looked up */
#define CACHED_COST_INDEX_ROW 2.0	/* of a row next to the one before */
#define CACHED_COST_INDEX_ONLY_ROW 1.1	/* of an index alone, beside others
										 * there */
#define CACHED_COST_INDEX_ENTRY 0.5 /* of an index that is read, and does not
									 * fit */
#define CACHED_COST_CLUSTERED 0.9	/* correlation of values and places from
									 * which on rows of an index are near each
									 * other */
#define CACHED_COST_BUILD 2.5	/* a row into a hash table */
#define CACHED_COST_PROBE 1.0	/* a row that is looked up there */
#define CACHED_COST_PROBE_FAR 3.0	/* more than that in a large one */
#define CACHED_COST_FAR_ROWS 1e5
#define CACHED_COST_MERGE_ROW 1.5	/* a row of a merge join's sides */
#define CACHED_COST_COMPARE 0.25	/* by a sort */
#define CACHED_COST_SORTED_VALUE 1.5	/* a value into a sort of a group's,
										 * and from there */
#define CACHED_COST_SORT_OF_GROUP 40.0	/* such a sort itself */
#define CACHED_COST_JOINED_ROW 0.8	/* a row that a join returns */
#define CACHED_COST_LOOPED_ROW 0.2	/* the same of a nested loop over an
									 * index, which passes it on */
#define CACHED_COST_LOOP_ROW 1.5	/* a row for which an inner side is read
									 * again */
#define CACHED_COST_REREAD_ROW 0.3	/* a row of what has been read before */
#define CACHED_COST_APPENDED_ROW 0.2	/* a row that an Append passes on */
#define CACHED_COST_MEMOIZE 3.0 /* a key that is looked up by Memoize */

/* What a node takes of what PostgreSQL says that it costs beyond those below it, where nothing better is known. */
#define CACHED_COST_OWN 1.0
#define CACHED_COST_VECTOR_WINDOW 0.4	/* of our windows, which cost
										 * PostgreSQL's planner next to what
										 * its own do */

/* Nanoseconds of cpu_tuple_cost, which is a row of a sequential scan. */
#define CACHED_ROW_NS 35.0

/* ---- eager aggregation ---- */

/*
 * These are in units of cpu_operator_cost, and were measured by
 * bench/calibrate.py: one process of an AMD EPYC, 500,000 rows in cache, where
 * a unit was 4.8 ns.
 */

/* What it takes to add a row to the states of its group, vectorized and in PostgreSQL's HashAggregate. */
#define EAGER_COST_VECTOR_INTEGER 0.5
#define EAGER_COST_VECTOR_OTHER 4.0
#define EAGER_COST_VECTOR_FURTHER_KEY 2.5
#define EAGER_COST_CORE_ROW 10.0
#define EAGER_COST_CORE_AGGREGATE 5.0

/*
 * Waiting for memory: for each doubling of the groups' table beyond what is
 * near the processor.
 */
#define EAGER_NEAR_BYTES (512.0 * 1024)
#define EAGER_COST_VECTOR_WAITING 1.5
#define EAGER_COST_CORE_WAITING 13.0

/* What it takes to return a group, and a state of it that has to be serialized. */
#define EAGER_COST_GROUP_RETURNED 12.0
#define EAGER_COST_STATE_SERIALIZED 15.0

/*
 * What the other plan takes beyond its costs: to find a row's partners, and to
 * aggregate a row that the join leaves.
 */
#define EAGER_COST_JOIN_PROBED 4.0
#define EAGER_COST_ROW_LEFT 20.0

/*
 * What reading a row costs a vectorized scan and does not take: its share of a
 * page that is in cache.
 */
#define EAGER_COST_VECTOR_READ 4.0

/* ---- cost_model.c ---- */

/* What a condition of a join costs. */
typedef struct PairCost
{
	Cost		cost;			/* for a pair of rows */
	Cost		startup;		/* once, before the first pair: the hash
								 * tables of its subqueries */
	bool		has_subquery;
} PairCost;

extern bool vector_tables_in_memory(PlannerInfo *root);
extern void vector_force_path(Path *path, Cost factor);
extern double vector_parallel_divisor(int workers);
extern double vector_groups_memory(PathTarget *target, double groups);
extern List *vector_ordered_terms(PlannerInfo *root, List *restrictinfos, double rows);
extern double vector_rows_left(PlannerInfo *root, RelOptInfo *rel, List *terms, int n);
extern double vector_distance(double bytes);
extern Cost vector_read_cost(void);
extern Cost vector_fetch_pages_cost(RelOptInfo *rel, double share, double rows);
extern Cost vector_wait_cost(PlannerInfo *root, RelOptInfo *rel);
extern Cost vector_core_filter_cost(PlannerInfo *root, Path *path, double fetched, double times);
extern Cost vector_filter_startup_cost(PlannerInfo *root, RelOptInfo *rel);
extern Cost vector_filter_cost(PlannerInfo *root, RelOptInfo *rel);
extern Cost vector_others_cost(PlannerInfo *root, RelOptInfo *rel, double share);
extern int	vector_certain_terms(PlannerInfo *root, RelOptInfo *rel);
extern bool vector_filters_by_row(PlannerInfo *root, RelOptInfo *rel);
extern const PairCost *vector_pair_cost(PlannerInfo *root, RestrictInfo *condition);
extern Cost vector_row_cost(PlannerInfo *root, PathTarget *target);
extern Cost vector_row_time(PathTarget *target);
extern Cost vector_distinct_cost(PlannerInfo *root, RelOptInfo *rel, PathTarget *target);
extern Cost vector_ordered_cost(PathTarget *target, double rows, double groups);
extern Cost vector_spill_cost(RelOptInfo *rel, PathTarget *target, double groups);
extern Cost vector_exchange_cost(double groups);
extern double vector_distinct_pairs(PlannerInfo *root, RelOptInfo *rel, PathTarget *target);
extern Cost vector_shared_distinct_cost(RelOptInfo *rel, PathTarget *target, double pairs, int workers);
extern void vector_add_waiting_cost(Path *path, PathTarget *target, List *others, double rows, double groups);

/* ---- subquery_cost.c ---- */

/* What a query takes where all tables are in memory: cached_cost.c notes it of each. */
typedef struct QueryCost
{
	Cost		whole;
	Cost		first;			/* until its first row, if that is all that is
								 * wanted */
	double		rows;
} QueryCost;

/* Of the subqueries in a condition. */
typedef struct SubqueryCosts
{
	/* what cost_qual_eval() counts, for a row and once */
	Cost		planned;
	Cost		planned_startup;
	/* what they take */
	Cost		taken;
	Cost		taken_startup;
} SubqueryCosts;

extern SubqueryCosts vector_subquery_costs(PlannerInfo *root, Node *condition, double rows);

/* ---- reach_cost.c ---- */
extern Cost vector_reach_cost(PlannerInfo *root, RelOptInfo *rel, bool ours);
extern Cost vector_walk_cost(PlannerInfo *root, int last);

/* ---- likely_rows.c ---- */
extern double vector_rows_factor(PlannerInfo *root, Relids relids);
extern double cached_rows_factor(PlannerInfo *root, RelOptInfo *rel);

/* ---- cached_cost.c ---- */
extern bool vector_is_rows_of_joins(const Path *path);
extern bool vector_is_filter_scan(const Path *path);
extern Cost cached_sequential_page_cost(PlannerInfo *root, Cost planned);
extern Cost cached_fetch_cost(PlannerInfo *root, RelOptInfo *rel, double rows);
extern Cost cached_path_cost(PlannerInfo *root, Path *path);
extern double cached_query_ms(PlannerInfo *root, List *paths);
extern Cost cached_look_ups_cost(PlannerInfo *root, Path *outer, Path *inner);
extern Cost cached_cost_beyond(PlannerInfo *root, Path *path);

/* ---- cached_upper_cost.c ---- */

/* cached_path_cost(), which calls it */
typedef Cost (*PathCost) (PlannerInfo *root, Path *path);

extern Cost cached_upper_cost(PlannerInfo *root, Path *path, PathCost cost);
extern Cost cached_aggregate_cost(PlannerInfo *root, const AggPath *agg);
extern Cost cached_once_cost(PlannerInfo *root);
extern void cached_cost_add_replacing(const CustomPathMethods * methods);

#endif							/* PGBILLION_VECTOR_COST_MODEL_H */

/*-------------------------------------------------------------------------
 *
 * vector.h
 *	  Vectorised aggregation of plain heap tables: the map of the parts.
 *
 * A custom scan reads a heap a page at a time, filters and groups the rows of
 * a page together, and hands one row a group up, with *partial* aggregate
 * states as core's own partial aggregation would hand them up. Gather and
 * Finalize Aggregate above it are core's.
 *
 *	plan.c			when it applies, what it costs, the paths and the plan
 *	execute.c		the executor node that drives the others, EXPLAIN, parallelism
 *	explain.c		pgbillion_rows.explain_vector()
 *
 *	source/
 *	  scan.c		the pages of a heap, and which of their rows are visible
 *	  pages.c		pages read one after the other, mostly without looking them up
 *	  columns.c		values of attributes, a column at a time
 *	  lazy.c		tables of pgbillion_tables that have no row yet
 *	filter/
 *	  filter.c		which rows of a batch are kept
 *	  compare.c		comparisons over a batch
 *	  range.c		comparisons of a column with constants, merged
 *	  like.c		strings matched with a pattern
 *	expression/
 *	  expression.c	group keys and arguments over a batch
 *	  decimal_expression.c	those that are numeric, in integers
 *	  decimal.c		numeric as scaled integers, and back to core's formats
 *	sink/
 *	  group.c		the hash table of groups
 *	  aggregate.c	transition states: advance and return
 *	  spill.c		rows of groups for which there is no memory
 *	  finish.c		the node above Finalize Aggregate that makes it superfluous
 *
 * A batch is what is visible of one page. The buffer stays pinned as long as
 * the batch is worked on, since values by reference point into it. A filter
 * removes rows from the batch, so that all later work is on dense arrays.
 *
 * Kernels never raise errors: one that meets something it cannot do exactly
 * (an overflow, a NaN, a compressed value) says so, and the batch is given to
 * core's expression code, which raises what there is to raise.
 *
 * Memory: everything lives in the executor state's per-query context, but for
 * groups (a context of their own, bounded by hash_mem) and what a batch
 * computes (the expression context's per-tuple memory, reset for each page).
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGBILLION_VECTOR_H
#define PGBILLION_VECTOR_H

#include "compat.h"
#include "access/htup_details.h"
#include "access/relscan.h"
#include "executor/tuptable.h"
#include "nodes/execnodes.h"
#include "nodes/extensible.h"
#include "nodes/primnodes.h"
#include "storage/bufmgr.h"
#include "storage/bufpage.h"
#include "utils/guc.h"
#include "utils/numeric.h"

#ifndef HAVE_INT128
#error "pgbillion needs a compiler with 128-bit integers"
#endif

/* A batch is at most what one page holds. */
#define BATCH_ROWS MaxHeapTuplesPerPage

/* Bytes that a prefetch brings; a wrong guess costs a little speed. */
#define CACHE_LINE 64

/* ---- pages.c ---- */

typedef struct PageReader PageReader;

extern PageReader *page_reader_begin(Relation rel, BufferAccessStrategy strategy,
									 BlockNumber (*next_block) (void *arg), void *arg);
extern Buffer page_reader_next(PageReader *reader);
extern void page_reader_end(PageReader *reader);

/* ---- lazy.c ---- */

extern bool source_is_lazy(Relation rel);
extern bool source_read_lazy(Relation rel, Snapshot snapshot);

/* ---- scan.c ---- */

typedef struct VectorScan VectorScan;

extern VectorScan *vector_scan_begin(Relation rel, Snapshot snapshot,
									 ParallelBlockTableScanDesc parallel, bool rows_read);
extern int	vector_scan_next(VectorScan *scan, HeapTupleHeader *tuples);
extern const char *vector_scan_ahead(VectorScan *scan);
extern void vector_scan_fetched_ahead(VectorScan *scan, bool fetched);
extern void vector_scan_end(VectorScan *scan);
extern void vector_scan_counts(VectorScan *scan, uint64 *all_visible, uint64 *checked);

/* ---- columns.c ---- */

/* Values of one attribute for the rows of a batch, dense. */
typedef struct Column
{
	AttrNumber	attno;
	bool		has_nulls;		/* false: nulls[] need not be looked at */
	bool		filter;			/* a filter needs it */
	bool		later;			/* it is needed after filtering */
	bool		first;			/* columns_load_only() is to load it */
	Datum	   *values;
	bool	   *nulls;			/* always valid */
	bool		dirty;			/* nulls[] holds true somewhere, maybe beyond
								 * the batch */
} Column;

typedef struct Columns Columns;

extern Columns *columns_create(TupleDesc tupdesc, Bitmapset *filter_attnos, Bitmapset *later_attnos);
extern int	columns_index(Columns *columns, AttrNumber attno);
extern int	columns_count(Columns *columns);
extern void columns_begin_batch(Columns *columns, HeapTupleHeader *tuples, int n,
								const char *ahead);
extern bool columns_fetched_ahead(Columns *columns);
extern Column *columns_get(Columns *columns, int index);
extern void columns_load_only(Columns *columns, const int *indexes, int n);
extern bool columns_no_nulls(Columns *columns, int index);
extern bool columns_at_hand(Columns *columns, int index);
extern Column *columns_described(Columns *columns, int index, int16 *len, bool *byval);
extern void columns_load_later(Columns *columns);
extern void columns_begin_values(Columns *columns, int n);
extern void columns_compact(Columns *columns, const uint16 *rows, int n, bool final);

/* ---- expression.c ---- */

/* What expressions are evaluated over. */
typedef struct Batch
{
	Columns    *columns;
	int			n;				/* rows in the batch */
	ExprContext *econtext;		/* its per-tuple memory lives as long as the
								 * batch */
	TupleTableSlot *slot;		/* row for core's expression code */
	uint64		serial;			/* changes with every change of the rows */
	List	   *decimals;		/* expressions of decimals:
								 * decimal_expression.c */
	PlanState  *parent;
} Batch;

/* Dense numerics as integers, in units of 10^-scale. */
typedef struct Decimals
{
	const int64 *values;
	const bool *nulls;			/* always valid */
	bool		has_nulls;
	int			scale;
	uint64		bits;			/* all that are set in any value's magnitude */
} Decimals;

/* Dense results of an expression. */
typedef struct Values
{
	Datum	   *values;
	bool	   *nulls;
	bool		has_nulls;
} Values;

typedef struct VectorExpr VectorExpr;

extern VectorExpr *vector_expr_compile(Expr *expr, Batch *batch);
extern bool vector_expr_is_column(VectorExpr *expr);
extern int	vector_expr_column(VectorExpr *expr);
extern bool vector_expr_is_scalar(VectorExpr *expr);
extern Datum vector_expr_scalar(VectorExpr *expr, Batch *batch, bool *isnull);
extern bool vector_expr_is_kernel(VectorExpr *expr);
extern void vector_expr_eval(VectorExpr *expr, Batch *batch, const uint16 *rows, int n, Values *result);
extern bool vector_expr_decimals(VectorExpr *expr, Batch *batch, const uint16 *rows, int n,
								 Decimals *result);

/* ---- filter.c ---- */

typedef struct VectorFilter VectorFilter;

extern VectorFilter *vector_filter_compile(List *clauses, Batch *batch);
extern void vector_filter_kernels(VectorFilter *filter, int *kernels, int *terms);
extern int	vector_filter_batch(VectorFilter *filter, Batch *batch);
extern VectorFilter *vector_filter_compile_rows(Expr *clause, Batch *batch);
extern int	vector_filter_rows(VectorFilter *filter, Batch *batch, uint16 *rows);

/* ---- decimal.c ---- */

/* Values beyond this are left to core: room for a few additions and rescales. */
#define DECIMAL_MAX INT64CONST(1000000000000000000)
#define DECIMAL_MAX_DIGITS 18

/* Sum of numerics: what core's NumericAggState holds, without squares. */
typedef struct DecimalSum
{
	int128		sum;			/* in units of 10^-scale */
	int64		count;			/* finite inputs */
	int64		nans;
	int64		pinfs;
	int64		ninfs;
	int32		scale;
	int32		max_scale;		/* largest display scale seen */
	Numeric		rest;			/* further summand, divided by a power of ten;
								 * or NULL */
} DecimalSum;

extern bool decimal_decode(Datum numeric, int64 *value, int *scale);
extern int64 decimal_unit(int digits);
extern void decimal_sum_add(DecimalSum *sum, int64 value, int64 count, int scale, MemoryContext context);
extern void decimal_sum_add_numeric(DecimalSum *sum, Datum numeric, MemoryContext context);
extern Datum decimal_serialize_sum(const DecimalSum *sum);
extern Datum decimal_serialize_int128(int64 count, int128 sum);
extern Datum decimal_serialize_int128_squares(int64 count, int128 sum, int128 squares);

/* ---- aggregate.c ---- */

typedef struct GroupTable GroupTable;

/* The groups of a batch's rows. */
typedef struct RowGroups
{
	char	   *single;			/* the entry of all rows, or NULL and: */
	char	  **entries;		/* of each row */
	int			nids;			/* 0, or each row's group has a number below
								 * it */
	const uint8 *ids;
	char	  **by_id;
} RowGroups;

typedef struct VectorAgg VectorAgg;

extern const char *vector_agg_refusal(Aggref *aggref);
extern VectorAgg *vector_agg_compile(Aggref *aggref, bool full_variance, Batch *batch, int *state_size);
extern bool vector_agg_is_kernel(VectorAgg *agg);
extern bool vector_agg_only_avg(Aggref *aggref);
extern bool vector_agg_adds_floats(Aggref *aggref);
extern void vector_agg_set_offset(VectorAgg *agg, int offset);
extern void vector_agg_set_context(VectorAgg *agg, MemoryContext context, GroupTable *groups);
extern void vector_agg_init(VectorAgg *agg, char *entry);
extern bool vector_agg_uses_ids(VectorAgg *agg);
extern void vector_agg_advance(VectorAgg *agg, Batch *batch, const RowGroups *groups);
extern Datum vector_agg_output(VectorAgg *agg, char *entry, bool *isnull);

/* ---- group.c ---- */

#define GROUP_MAX_KEYS 32

/* So many groups have numbers: what rows add to them is collected for a batch. */
#define SMALL_GROUPS 32

extern const char *group_key_refusal(Expr *key);
extern void group_table_spill(GroupTable *table);
extern const uint64 *group_table_tags(GroupTable *table);
extern Size group_table_limit(GroupTable *table);
extern Size group_table_entry_bytes(int nkeys, Size state_size);
extern int	group_table_states_offset(int nkeys, const Oid *types);
extern GroupTable *group_table_create(int nkeys, Oid *types, Oid *collations, int state_size,
									  void (*init) (void *arg, char *entry), void *arg);
extern void group_table_reset(GroupTable *table);
extern MemoryContext group_table_context(GroupTable *table);
extern MemoryContext group_table_overflow_context(GroupTable *table);
extern bool group_table_is_overflow(GroupTable *table, const char *entry);
extern int	group_table_find(GroupTable *table, const Values *keys, int n, char **entries);
extern int	group_table_ids(GroupTable *table, char **entries, int n, uint8 *ids, char ***by_id);
extern char *group_table_overflow(GroupTable *table, int i);
extern void group_table_clear_overflow(GroupTable *table);
extern int64 group_table_count(GroupTable *table);
extern char *group_table_next(GroupTable *table, int *chunk, Size *offset);
extern Datum group_key(GroupTable *table, char *entry, int key, bool *isnull);

/* ---- spill.c ---- */

typedef struct Spill Spill;
typedef struct SpillPartition SpillPartition;

extern Spill *spill_begin(Columns *columns, int level, double groups, int64 seated, Size limit);
extern void spill_rows(Spill *spill, const uint16 *rows, int n, const uint64 *tags);
extern List *spill_end(Spill *spill, uint64 *bytes);
extern int	spill_level(SpillPartition *partition);
extern int64 spill_count(SpillPartition *partition);
extern int	spill_read(SpillPartition *partition, Columns *columns);
extern void spill_close(SpillPartition *partition);

/* ---- plan.c ---- */

/*
 * What the plan hands to the executor: custom_scan_tlist holds the output
 * columns (group keys and partial Aggrefs) and after them, as junk, the terms
 * of the filter; custom_private is a list of one integer, the number of
 * outputs. Params are repeated in custom_exprs, where the planner looks.
 */
extern int	vector_aggregate;	/* pgbillion_rows.vector_aggregate: a PlanMode */

extern void vector_init(void);


/* ---- execute.c ---- */

extern const CustomScanMethods vector_scan_methods;

extern void vector_run(CustomScanState *css);
extern bool vector_next_group(CustomScanState *css, Datum *values, bool *isnull);
extern void vector_rewind(CustomScanState *css);

/* ---- finish.c ---- */

extern const CustomScanMethods vector_finish_methods;

extern bool vector_finishable(PathTarget *target, List *clause);
extern Path *vector_finish_path(PlannerInfo *root, AggPath *agg, const AggClauseCosts *costs, Cost spilling);

#endif							/* PGBILLION_VECTOR_H */

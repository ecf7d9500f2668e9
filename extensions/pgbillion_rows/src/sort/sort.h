/*-------------------------------------------------------------------------
 *
 * sort.h
 *	  Rows in order: the map of the parts.
 *
 * PostgreSQL sorts an array of the first key's values with addresses of rows,
 * each allocated on its own, by comparing two at a time. Here rows lie one
 * behind the other, and of all keys one 64-bit number is made whose order is
 * theirs, as far as it has bits. These numbers are sorted by radix together
 * with where their rows are, and only rows whose numbers are equal are
 * compared, if something of the keys is missing in the numbers.
 *
 * Beyond a limit of memory, sorted runs are written to files, and merged.
 *
 *	row_format.c	rows as records
 *	row_chunks.c	records in memory, in the order in which they come
 *	sort_key.c		keys of rows, and how they are compared
 *	key_number.c	values as numbers of the same order
 *	row_numbers.c	of all keys of a row one number
 *	radix.c			order by numbers
 *	row_parts.c		the same of many short rows, a part at a time
 *	runs.c			runs in files
 *	row_sort.c		all of it: rows in, rows out
 *	sorted_rows.c	the rows of a plan in order, for nodes
 *	sort_scan.c		the node VectorSort, in place of PostgreSQL's Sort
 *	sort_path.c		when it is offered, and what it costs
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGBILLION_SORT_H
#define PGBILLION_SORT_H

#include "nodes/extensible.h"
#include "nodes/pathnodes.h"
#include "nodes/plannodes.h"

#include "sort/row_format.h"

/* ---- sort_key.c ---- */

typedef struct SortKeys SortKeys;

extern SortKeys *sort_keys_create(TupleDesc tupdesc, const RowFormat *format, int nkeys, const AttrNumber *columns,
								  const Oid *operators, const Oid *collations, const bool *nulls_first);
extern bool sort_key_has_number(Oid type, Oid family, Oid collation);
extern bool sort_key_may_have_number(Oid type, Oid family, int *few);

/* ---- row_sort.c ---- */

typedef struct RowSort RowSort;

/* For EXPLAIN. */
typedef struct RowSortReport
{
	int64		memory;			/* in bytes, at most */
	int64		disk;			/* written to files; 0: all was in memory */
	int			runs;
	bool		compared;		/* were any rows compared? */
} RowSortReport;

extern RowSort *row_sort_create(TupleDesc tupdesc, int nkeys, const AttrNumber *columns, const Oid *operators,
								const Oid *collations, const bool *nulls_first, Size limit);
extern const RowFormat *row_sort_format(const RowSort *sort);
extern void row_sort_put(RowSort *sort, const Datum *values, const bool *nulls);
extern void row_sort_put_columns(RowSort *sort, struct Column *const *columns, int n);
extern Size row_sort_memory(const RowSort *sort);
extern void row_sort_perform(RowSort *sort, bool once);
extern char **row_sort_rows(RowSort *sort, int64 *n);
extern char *row_sort_next(RowSort *sort);
extern void row_sort_rewind(RowSort *sort);
extern void row_sort_reset(RowSort *sort);
extern void row_sort_end(RowSort *sort);
extern RowSortReport row_sort_report(const RowSort *sort);

/* ---- sorted_rows.c ---- */

struct ExplainState;

/* The rows of a plan, in the order of a Sort node above it that is not executed. */
typedef struct SortedRows
{
	PlanState  *input;
	struct Column **columns;	/* of batches of the input, or NULL if it
								 * gives rows */
	Sort	   *order;			/* NULL: in any order */
	bool		keep;			/* are they kept for rescans? */
	bool		once;			/* are they returned only by row_sort_next(),
								 * once? */
	bool		sorted;			/* have they been read? */
	bool		more;			/* without an order: the input has more rows
								 * than memory has room for */
	RowSort    *sort;
} SortedRows;

extern void sorted_rows_init(SortedRows *rows, PlanState *input, Sort *order, int eflags);
extern void sorted_rows_read(SortedRows *rows);
extern bool sorted_rows_rescan(SortedRows *rows, Bitmapset *changed);
extern void sorted_rows_end(SortedRows *rows);
extern void sorted_rows_describe(CustomScan *cscan);
extern void sorted_rows_explain(SortedRows *rows, PlanState *node, List *ancestors, struct ExplainState *es);
extern void sorted_row_store(const RowFormat *format, const char *row, TupleTableSlot *slot);

/* ---- sort_scan.c ---- */

extern const CustomScanMethods vector_sort_methods;

/* ---- sort_path.c ---- */

extern bool sort_gains(PlannerInfo *root, Path *sort);
extern bool sort_is_abbreviated(Path *sort);
extern Cost sort_cost(Path *sort, Path *input);
extern bool sort_repeats_volatile(PathTarget *output);
extern bool sort_has_record(PathTarget *output);
extern void sort_init(void);

#endif							/* PGBILLION_SORT_H */

/*-------------------------------------------------------------------------
 *
 * nested_loop.h
 *	  Nested loops that rest on a guess, and the hash joins in their place.
 *
 * A nested loop reads its inner side again for each row of the outer one. If
 * PostgreSQL expects one such row, it costs as much as a hash join of the same
 * two sides, or a little less, and PostgreSQL takes it. If there are 10,000
 * rows, it takes 10,000 times as long, where the hash join hardly takes longer
 * than expected. Rows that come out of CTEs and subqueries are often
 * estimated as 1, because there are no statistics of them.
 *
 * So if the number of rows is a guess, a nested loop is replaced with a hash
 * join that costs at most MOST_OVERHEAD times as much. The price of being wrong
 * is that much of one join, and not a query that does not end.
 *
 * Loops stay that look rows up by the outer row (parameterized inner sides), as
 * they do not read a side again, and loops over a table of a few rows.
 *
 * A loop may be there for its order, or because it returns the first rows soon.
 * Then the hash join reads the same outer side, so that it returns them nearly as
 * soon, and KeepOrder above it sees to the order.
 *
 * The hash join is PostgreSQL's own. Its plan is marked, so that EXPLAIN and the
 * statistics of queries know it, and its inner side is read first if that costs
 * less than to find the first row of the outer one.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGBILLION_NESTED_LOOP_H
#define PGBILLION_NESTED_LOOP_H

#include "nodes/extensible.h"
#include "nodes/pathnodes.h"
#include "nodes/plannodes.h"

/* ---- nested_loop.c ---- */

extern bool nested_loop_is_replaced_by(const HashJoin *join);
extern void nested_loop_init(void);

/* ---- keep_order.c ---- */

extern const CustomScanMethods keep_order_methods;

extern Path *keep_order_path(PlannerInfo *root, Path *hash, List *pathkeys);
extern void keep_order_init(void);

#endif							/* PGBILLION_NESTED_LOOP_H */

/*-------------------------------------------------------------------------
 *
 * join_estimate.h
 *	  Joins with a filtered table, estimated by the keys that its filter keeps,
 *	  and joins by several columns, by how many combinations there are.
 *
 *	join_estimate.c		which joins, and what statistics tell of keys
 *	kept_keys.c			reads the keys that a filter keeps, and remembers them
 *	several_columns.c	joins by several columns
 *	common_keys.c		joins of several tables by one key
 *	join_clauses.c		what joins two tables
 *	early_stop.c		plans that LIMIT stops do not count on what was raised
 *
 * PostgreSQL takes the rows of a table to find their partners evenly among all
 * keys of the other one. A calendar of 200 years joined with sales of five is
 * the usual exception: a year is 0.5 % of the calendar, and 20 % of the sales.
 * The join is estimated to return a fortieth of its rows, and what is joined
 * next is looked up by index, row by row, 40 times as often as was expected. A
 * customer who buys half of everything is another exception.
 *
 * Statistics of the large table's column tell how many rows a given key has.
 * All that is missing is the keys, so they are read while the query is planned:
 * the small table's filter is run once. That is done only where the estimate
 * may be wrong by LEAST_FACTOR and more, and where the join may return
 * enough rows that reading the small table once more does not matter.
 *
 * The opposite is a year without sales: PostgreSQL takes each of its days to
 * have as many as any other, and so looking them up in an index seems to cost
 * more than a vectorized scan of all sales. Its estimates are not lowered, as
 * statistics may be older than rows; but our paths are compared with look-ups
 * that are priced by what the keys have (planner/known_rows.h).
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGBILLION_JOIN_ESTIMATE_H
#define PGBILLION_JOIN_ESTIMATE_H

#include "nodes/pathnodes.h"

/* ---- join_estimate.c ---- */

extern void join_estimate_init(void);

/* ---- join_clauses.c ---- */

extern Var *join_estimate_column(PlannerInfo *root, EquivalenceMember *member);
extern RestrictInfo *join_estimate_clause(PlannerInfo *root, EquivalenceClass *ec, RelOptInfo *outer, RelOptInfo *inner);
extern Selectivity join_estimate_core_selectivity(PlannerInfo *root, RestrictInfo *clause, RelOptInfo *one,
												  RelOptInfo *other);
extern bool join_estimate_are_semijoined(PlannerInfo *root, RelOptInfo *one, RelOptInfo *other);

/* ---- several_columns.c ---- */

extern void join_estimate_by_combinations(PlannerInfo *root);

/* ---- common_keys.c ---- */

extern void join_estimate_common_keys(PlannerInfo *root);
extern void join_estimate_expect(PlannerInfo *root, RelOptInfo *joined, RelOptInfo *outer, RelOptInfo *inner, JoinType type,
								 JoinPathExtraData *extra);

/* ---- early_stop.c ---- */

extern void join_estimate_note_raised(PlannerInfo *root, double factor);
extern void join_estimate_limit_paths(PlannerInfo *root, UpperRelationKind stage, RelOptInfo *input_rel, RelOptInfo *rel,
									  void *extra);

/* ---- kept_keys.c ---- */

/* How many keys are taken of a table at most. */
#define MOST_KEYS 10000

/* The keys that conditions keep of a table's rows. */
typedef struct KeptKeys
{
	Datum	   *keys;			/* in order, none of them NULL */
	int			nkeys;
} KeptKeys;

extern bool kept_keys_can_evaluate(Node *condition);
extern KeptKeys *kept_keys_read(PlannerInfo *root, RelOptInfo *table, AttrNumber column, List *conditions);

#endif							/* PGBILLION_JOIN_ESTIMATE_H */

/*-------------------------------------------------------------------------
 *
 * known_rows.h
 *	  Where fewer rows are known to be found than PostgreSQL expects.
 *
 * PostgreSQL takes each key that is looked up in an index to have the average
 * number of rows, and joins of a table with some keys of another one to return
 * their share of all keys. A feature that knows better for the rows of a
 * statement's tables says so here before joins are searched, and prices of
 * paths follow it. PostgreSQL's own estimates stay as they are.
 *
 * Known without that, by the numbers of different values, is where more keys are
 * looked up than a column has.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGBILLION_KNOWN_ROWS_H
#define PGBILLION_KNOWN_ROWS_H

#include "nodes/pathnodes.h"

extern void known_rows_note_look_ups(PlannerInfo *root, RelOptInfo *table, AttrNumber column, RelOptInfo *keys,
									 double factor);
extern void known_rows_note_relation(PlannerInfo *root, Relids relids, double factor);
extern double known_rows_look_up_factor(PlannerInfo *root, IndexPath *path);
extern double known_rows_keys_ratio(PlannerInfo *root, IndexPath *path);
extern bool known_rows_looks_up_outer_key(PlannerInfo *root, const IndexPath *path);
extern void known_rows_note_place(PlannerInfo *root, RelOptInfo *table, AttrNumber column, RelOptInfo *keys,
								  double share);
extern double known_rows_place(PlannerInfo *root, Index table, AttrNumber column, Relids keys);
extern double known_rows_factor(PlannerInfo *root, Relids relids);

#endif							/* PGBILLION_KNOWN_ROWS_H */

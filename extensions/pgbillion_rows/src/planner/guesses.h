/*-------------------------------------------------------------------------
 *
 * guesses.h
 *	  Which of PostgreSQL's estimates are guesses, to explain why a query is
 *	  planned as it is.
 *
 * Each function returns why, or NULL where statistics tell.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGBILLION_GUESSES_H
#define PGBILLION_GUESSES_H

#include "nodes/pathnodes.h"

extern const char *planner_rows_guess(PlannerInfo *root, RelOptInfo *rel);
extern const char *planner_matches_guess(PlannerInfo *root, List *clauses);
extern const char *planner_groups_guess(PlannerInfo *root, List *keys, double rows, double most);

#endif							/* PGBILLION_GUESSES_H */

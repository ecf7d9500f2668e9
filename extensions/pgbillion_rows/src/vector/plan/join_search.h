/*-------------------------------------------------------------------------
 *
 * join_search.h
 *	  Which chains of joins there are, and what PostgreSQL has instead.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGBILLION_VECTOR_JOIN_SEARCH_H
#define PGBILLION_VECTOR_JOIN_SEARCH_H

#include "vector/plan/join_chain.h"

/* The cheapest path of PostgreSQL's for the rows of a relation, by its own costs. */
typedef struct Rival
{
	Cost		planned;		/* what it says */
	Cost		startup;		/* and what it says of its first row */
	Cost		taken;			/* cached_path_cost() */
	Cost		doubtful;		/* what of that looking for rows by those of
								 * another relation may not take */
} Rival;

extern const char *join_chain_of_path(PlannerInfo *root, RelOptInfo *joined, Path *path, bool safe,
									  JoinChain **result, int *nsteps);
extern JoinChain *join_chain_of_search(PlannerInfo *root, RelOptInfo *joined, bool safe);
extern JoinChain *join_chain_other(PlannerInfo *root, RelOptInfo *joined, bool safe);
extern void join_chain_take_other(PlannerInfo *root, RelOptInfo *joined, bool safe);
extern bool join_chain_rival(PlannerInfo *root, RelOptInfo *joined, bool partial, Rival *rival);
extern bool join_chain_note_pair(PlannerInfo *root, RelOptInfo *joined, RelOptInfo *outer, RelOptInfo *inner, JoinType type,
								 JoinPathExtraData *extra);
extern bool join_chain_look_at_pairs(PlannerInfo *root, RelOptInfo *joined, bool all);

/* ---- join_worth.c ---- */
extern const char *join_chain_refusal(PlannerInfo *root);

#endif							/* PGBILLION_VECTOR_JOIN_SEARCH_H */

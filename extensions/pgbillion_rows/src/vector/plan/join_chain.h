/*-------------------------------------------------------------------------
 *
 * join_chain.h
 *	  A table, and joins along it: what join_chain.c finds, and join_path.c
 *	  makes paths of.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGBILLION_VECTOR_JOIN_CHAIN_H
#define PGBILLION_VECTOR_JOIN_CHAIN_H

#include "nodes/pathnodes.h"

#include "vector/plan/join_step.h"

/* The cheapest path of PostgreSQL's for the rows of a relation, by its own costs. */
typedef struct Rival
{
	Cost		planned;		/* what it says */
	Cost		taken;			/* cached_path_cost() */
	bool		looks;			/* for rows, by those of another relation */
} Rival;

/*
 * A table without joins, or a shorter chain and a step. It lives as long as the
 * paths of the relation that is joined.
 */
struct JoinChain
{
	RelOptInfo *table;
	RelOptInfo *joined;
	const struct JoinChain *previous;	/* NULL: of the table alone */
	JoinStep   *step;			/* the last one */
	int			nsteps;
	int			natts;			/* of the table and all inner sides */
	bool		has_column_index;	/* is there a columnar index of the table? */

	/* what it costs: of the table */
	Cost		pages;
	Cost		row;			/* without conditions */
	Cost		terms;			/* those, of each row */
	/* with a columnar index, as far as that can be told before the joins */
	Cost		column_pages;
	double		column_share;	/* of what rows cost; 1: it is not read */
	/* of the steps */
	int			tests;			/* of keys that go down */
	double		share;			/* of the table's rows that these leave */
	Cost		own;			/* of inner sides and their tables */
	Cost		shared;			/* of rows that are joined */
};

extern const char *join_chain_of_path(PlannerInfo *root, RelOptInfo *joined, Path *path, bool safe,
									  struct JoinChain **result, int *nsteps);
extern struct JoinChain *join_chain_of_search(PlannerInfo *root, RelOptInfo *joined, bool safe);
extern List *join_chain_steps(const struct JoinChain *chain);
extern void join_chain_scan_cost(const struct JoinChain *chain, Cost *pages, Cost *row);
extern Cost join_chain_joins_cost(const struct JoinChain *chain, double divisor);
extern Cost join_chain_cost(const struct JoinChain *chain);
extern const char *join_chain_refusal(PlannerInfo *root);
extern bool join_chain_rival(PlannerInfo *root, RelOptInfo *joined, bool partial, Rival *rival);
extern bool join_chain_look_at(PlannerInfo *root, RelOptInfo *joined, RelOptInfo *outer, RelOptInfo *inner, JoinType type,
							   JoinPathExtraData *extra);

#endif							/* PGBILLION_VECTOR_JOIN_CHAIN_H */

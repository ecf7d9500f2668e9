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

/* One join of a chain. */
typedef struct JoinStep
{
	JoinType	type;
	Path	   *inner;
	Path	   *partial;		/* gives each process a part of its rows, or
								 * NULL */
	List	   *clauses;		/* hashable, the inner side on the right */
	List	   *quals;
	List	   *others;
	Cost		inner_cost;		/* of reading the inner side */
	Cost		build;			/* of filling the table, without reading rows */
	Cost		probe;			/* of looking up all rows that come to the
								 * join */
	Cost		pairs;			/* of those that it makes of them */
	double		left;			/* the share of the table's rows that its keys
								 * leave before all else, 1 if they do not */
} JoinStep;

/* The cheapest path of PostgreSQL's for the rows of a relation, by its own costs. */
typedef struct Rival
{
	Cost		planned;		/* what it says */
	Cost		taken;			/* memory_cost() */
	bool		looks;			/* for rows, by those of another relation */
} Rival;

/* It lives as long as the paths of the relation that is joined. */
struct JoinChain
{
	RelOptInfo *table;
	RelOptInfo *joined;
	List	   *steps;			/* from the table on */
};

extern const char *chain_of_path(PlannerInfo *root, RelOptInfo *joined, Path *path, bool safe, struct JoinChain *chain);
extern struct JoinChain *chain_of_search(RelOptInfo *joined, bool safe);
extern void chain_scan_cost(PlannerInfo *root, const struct JoinChain *chain, Cost *pages, Cost *row);
extern Path *step_inner(const JoinStep *step, double divisor);
extern Cost chain_joins_cost(const struct JoinChain *chain, double divisor);
extern Cost chain_cost(PlannerInfo *root, const struct JoinChain *chain);
extern bool chain_rival(PlannerInfo *root, RelOptInfo *joined, Rival *rival);
extern bool chain_look_at(PlannerInfo *root, RelOptInfo *joined, RelOptInfo *outer, RelOptInfo *inner, JoinType type,
						  JoinPathExtraData *extra);

#endif							/* PGBILLION_VECTOR_JOIN_CHAIN_H */

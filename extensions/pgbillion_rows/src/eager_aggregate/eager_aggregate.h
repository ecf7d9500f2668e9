/*-------------------------------------------------------------------------
 *
 * eager_aggregate.h
 *	  Eager aggregation.
 *
 * A query that joins a big table to others and aggregates columns of the big
 * one can aggregate it first, grouped by those of its columns that anything
 * except the aggregates needs, and join the few partial states:
 *
 *	  Finalize Aggregate	by what the query groups by
 *		Join
 *		  Partial Aggregate	of the big table, by the columns needed above
 *		  other tables
 *
 * A row of the join holds a copy of the state of its group, and there are as
 * many as there would be for each of the group's rows. So combining them gives
 * what adding the rows one by one gives, if nothing above can tell one row of
 * a group from another, and nothing happens to the rows that the join leaves
 * out. equivalence.c sees to both.
 *
 *	equivalence.c	what is aggregated and by which columns, or why it is not
 *	states.c		paths of the states: vectorized, from shards, or PostgreSQL's
 *	eager_cost.c	what these take beyond what they are estimated to cost
 *	eager_aggregate.c	joins them with the other tables, and offers that
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGBILLION_EAGER_AGGREGATE_H
#define PGBILLION_EAGER_AGGREGATE_H

#include "nodes/pathnodes.h"

/* Everything here is in the planner's memory context. */
typedef struct EagerAggregate
{
	/* the table, and what is read of it, group columns being labelled */
	RelOptInfo *table;
	PathTarget *input;

	/*
	 * partial aggregation: its group columns (SortGroupClause), its output,
	 * how many groups
	 */
	List	   *group_clause;
	PathTarget *target;
	double		groups;
	bool		known;			/* the number of groups, from statistics */
	double		left;			/* how many of the table's rows the join
								 * leaves */
	bool		forced;			/* whatever it costs */
	bool		parallel_safe;
} EagerAggregate;

/* eager_aggregate.c */
extern void eager_aggregate_init(void);

/* equivalence.c */
extern const char *eager_aggregate_refusal(PlannerInfo *root, RelOptInfo *input_rel, PathTarget *partial,
										   EagerAggregate *eager);

/* eager_cost.c */
extern void eager_cost_add(Path *path, EagerAggregate *eager, double rows, bool vectorized);

/* states.c */
extern RelOptInfo *eager_states_rel(PlannerInfo *root, EagerAggregate *eager);

#endif							/* PGBILLION_EAGER_AGGREGATE_H */

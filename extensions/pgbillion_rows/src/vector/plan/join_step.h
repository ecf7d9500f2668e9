/*-------------------------------------------------------------------------
 *
 * join_step.h
 *	  One join of a chain: what join_step.c finds out of it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGBILLION_VECTOR_JOIN_STEP_H
#define PGBILLION_VECTOR_JOIN_STEP_H

#include "nodes/pathnodes.h"

/* A join of which a step is to be made. */
typedef struct Joining
{
	JoinType	type;
	bool		reversed;		/* a semijoin's or antijoin's rows are those
								 * of `inner`, which rows of `outer` may match */
	Relids		relids;			/* of its rows */
	Relids		outer;
	Relids		inner;
	List	   *conditions;
	List	   *hashed;			/* of these, if PostgreSQL hashes */
	bool		hashes;
	bool		looks_for_rows; /* by some of them */
	bool		inner_unique;	/* does each outer row match one row at most? */
	Index		table;			/* that the chain begins with */
	int			ntables;		/* for which it stands, or 0 */
	int			inner_nodes;	/* then, of a plan of the inner side */
	double		outer_rows;
	double		pairs;			/* of rows that match, if it is reversed */
	double		rows;
} Joining;

/* What is known of a path as an inner side. */
typedef struct InnerSide
{
	Path	   *path;
	Path	   *partial;		/* gives each process a part of its rows, or
								 * NULL */
	const char *refusal;		/* why it is none, or NULL */
	double		rows;
	Cost		cost;
	Cost		partial_cost;	/* of each process */
	int			ncolumns;
	int			nvalues;		/* of these, that are not passed by value */
} InnerSide;

/* One join of a chain. */
typedef struct JoinStep
{
	JoinType	type;
	bool		reversed;
	bool		only_removes;	/* what it gives is what it is given, or less */
	Path	   *inner;
	Path	   *partial;		/* gives each process a part of its rows, or
								 * NULL */
	struct OuterInner *around;	/* if the table is one of a UNION ALL's
								 * branches, and the inner side one of the
								 * query around it */
	List	   *clauses;		/* hashable, the inner side on the right */
	List	   *quals;
	List	   *others;
	int			nodes;			/* of a plan of the inner side, if several
								 * tables are joined with it */
	Cost		inner_cost;		/* of reading the inner side */
	Cost		partial_cost;	/* of reading a part of it, in each process */
	Cost		build;			/* of filling the table, without reading rows,
								 * and hash tables of subqueries */
	Cost		probe;			/* of looking up all rows that come to the
								 * join */
	Cost		pairs;			/* of those that it makes of them */
	double		left;			/* the share of the table's rows that its keys
								 * leave before all else, 1 if they do not */
	double		place;			/* the share of its pages where these are */
} JoinStep;

extern bool join_step_is_our_type(JoinType type);
extern Path *join_step_cheapest_whole(RelOptInfo *rel, bool safe);
extern void join_step_appraise_inner(PlannerInfo *root, Path *path, bool safe, InnerSide *inner);
extern int	join_step_repeatable_nodes(const Path *path);
extern const InnerSide *join_step_inner_of_relation(PlannerInfo *root, RelOptInfo *rel, bool safe);
extern const char *join_step_try(PlannerInfo *root, const Joining *join, const InnerSide *inner, JoinStep *step);
extern JoinStep *join_step_make(PlannerInfo *root, const Joining *join, const JoinStep *tried);
extern Path *join_step_inner(const JoinStep *step, double divisor);
extern Cost join_step_own_cost(const JoinStep *step, double divisor);

#endif							/* PGBILLION_VECTOR_JOIN_STEP_H */

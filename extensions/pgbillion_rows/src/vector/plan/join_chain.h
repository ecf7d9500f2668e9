/*-------------------------------------------------------------------------
 *
 * join_chain.h
 *	  A table, and joins along it: what join_search.c finds, and join_path.c
 *	  makes paths of.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGBILLION_VECTOR_JOIN_CHAIN_H
#define PGBILLION_VECTOR_JOIN_CHAIN_H

#include "nodes/pathnodes.h"

#include "vector/plan/join_step.h"
#include "vector/plan/plan.h"

/*
 * A table without joins, or a shorter chain and a step. It lives as long as the
 * paths of the relation that is joined.
 *
 * The table may stand for several: partitions, children, or those of a UNION
 * ALL. Each of them is joined on its own, by a chain that has the same steps in
 * terms of its columns, and `joined` is what an Append of PostgreSQL's has of it.
 */
/* Which columnar index a chain reads. */
typedef struct ChainIndex
{
	Oid			index;			/* or InvalidOid */
	List	   *late;			/* columns that it lacks, which are fetched
								 * for the rows of the joins */
} ChainIndex;

struct JoinChain
{
	PlannerInfo *root;			/* of the query that the table is one of */
	RelOptInfo *table;
	RelOptInfo *branch;			/* of a UNION ALL, if the table is one of its
								 * subquery, or NULL */
	RelOptInfo *joined;
	struct JoinChain *previous; /* NULL: of the table alone */
	JoinStep   *step;			/* the last one */
	int			nsteps;
	int			ntables;		/* 0: the table itself is read */
	bool		has_branches;	/* are some of them in subqueries? */
	bool		serial;			/* these are not for workers */
	List	   *parts;			/* chains of the tables that it stands for, as
								 * far as they have been made */
	int			natts;			/* of the table and all inner sides */
	bool		has_column_index;	/* is there a columnar index of the table? */

	/* what it costs: of the table */
	double		tuples;
	double		npages;
	Cost		pages;
	Cost		row;			/* without conditions */
	Cost		terms;			/* those of kernels, of each row */
	Cost		others;			/* those that PostgreSQL evaluates */
	double		others_factor;	/* what these are of those of the heap */
	Cost		wait;			/* for a row of the heap */
	/* with a columnar index, as far as that can be told before the joins */
	Cost		column_pages;
	double		column_share;	/* of what rows cost; 1: it is not read */
	int			ncolumns;		/* of the table, that are needed */
	bool		late;			/* it lacks columns, which are fetched for the
								 * rows of the joins */
	/* of the steps */
	int			tests;			/* of keys that go down */
	double		share;			/* of the table's rows that these leave */
	double		place;			/* of its pages where those are */
	Cost		own;			/* of inner sides and their tables */
	Cost		shared;			/* of rows that are joined */

	/* which index it reads for a target, or NULL, and what it costs then */
	const PathTarget *indexed_for;
	ChainIndex	index;
	Cost		index_pages;
	Cost		index_row;
};

extern JoinChain *join_chain_begin(PlannerInfo *root, RelOptInfo *table);
extern JoinChain *join_chain_begin_parts(PlannerInfo *root, RelOptInfo *table, List *parts);
extern JoinChain *join_chain_of_branch(const JoinChain *chain, RelOptInfo *branch, bool safe);
extern bool join_chain_try_longer(const JoinChain *chain, const JoinStep *step, JoinChain *longer);
extern JoinChain *join_chain_make_longer(JoinChain *chain, RelOptInfo *joined, JoinStep *step);
extern List *join_chain_steps(const JoinChain *chain);
extern List *join_chain_parts(PlannerInfo *root, JoinChain *chain);
extern PathTarget *join_chain_part_target(PlannerInfo *root, const JoinChain *part, RelOptInfo *table, PathTarget *target);
extern void join_chain_scan_cost(const JoinChain *chain, Cost *pages, Cost *row);
extern Cost join_chain_tests_cost(const JoinChain *chain);
extern double join_chain_segments_read(const JoinChain *chain);
extern Cost join_chain_joins_cost(const JoinChain *chain, double divisor);
extern double join_chain_rows_fetched(PlannerInfo *root, RelOptInfo *table, RelOptInfo *joined);
extern Cost join_chain_cost(PlannerInfo *root, const JoinChain *chain, RelOptInfo *joined);
extern Cost join_chain_shared_cost(PlannerInfo *root, const JoinChain *chain, double divisor);

#endif							/* PGBILLION_VECTOR_JOIN_CHAIN_H */

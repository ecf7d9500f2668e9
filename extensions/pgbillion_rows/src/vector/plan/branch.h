/*-------------------------------------------------------------------------
 *
 * branch.h
 *	  Branches of a UNION ALL that are subqueries, read by our scans.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGBILLION_VECTOR_BRANCH_H
#define PGBILLION_VECTOR_BRANCH_H

#include "nodes/pathnodes.h"

/* An inner side that belongs to the query around the branch. */
typedef struct OuterInner
{
	PlannerInfo *around;		/* the query around */
	PlannerInfo *root;			/* a copy of that, by which it is planned */
	Path	   *path;
	Index		relid;			/* what stands for it in the branch: a
								 * subquery that has its columns */
	Index		instead;		/* of that of the branch, in one of the tables
								 * that the branch's stands for; or 0 */
} OuterInner;

extern const char *branch_refusal(PlannerInfo *root, RelOptInfo *table, RelOptInfo *branch);
extern RelOptInfo *branch_input(RelOptInfo *branch);
extern bool branch_knows_params(PlannerInfo *root, RelOptInfo *branch);
extern OuterInner *branch_add_inner(PlannerInfo *root, PlannerInfo *subroot, Path *inner);
extern OuterInner *branch_add_inner_again(PlannerInfo *subroot, const OuterInner *inner);
extern List *branch_exprs_again(List *inners, List *exprs);
extern List *branch_exprs(RelOptInfo *branch, List *inners, List *exprs);
extern PathTarget *branch_target(RelOptInfo *branch, List *inners, PathTarget *target);
extern Path *branch_path(RelOptInfo *branch, Path *path);
extern void branch_mark_path(RelOptInfo *branch, Path *path);
extern List *branch_plans(List *inners);

#endif							/* PGBILLION_VECTOR_BRANCH_H */

/*-------------------------------------------------------------------------
 *
 * early_stop.c
 *	  Plans that LIMIT stops early do not count on rows that this directory
 *	  has added to estimates.
 *
 * PostgreSQL charges a plan below LIMIT for the part of it that runs until there
 * are enough rows: of rows that are expected evenly, so that the more there
 * are, the earlier it stops. Estimates of joins are raised to have plans chosen
 * that do well when there are many rows. Of these, the one that stops early is
 * good only if none of the conditions that come later leaves fewer rows than
 * expected; else it runs to its end, which may take many times as long as the
 * plan that sorts. PostgreSQL would not have chosen it, and neither is it here:
 * it is charged for the rows that would be needed by PostgreSQL's own estimates.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "optimizer/pathnode.h"

#include "join_estimate/join_estimate.h"
#include "planner/planner_memo.h"

/* More rows than any table has. */
#define MOST_ROWS 1e15

/* By how much the estimates of a query's joins have been raised, together. */
typedef struct Raised
{
	double		factor;
} Raised;

/* An estimate of a join has become `factor` times what PostgreSQL's was. */
void
join_estimate_note_raised(PlannerInfo *root, double factor)
{
	Raised	   *raised = planner_memo_find(root, MEMO_RAISED, root);

	if (raised == NULL)
	{
		raised = planner_memo_make(root, MEMO_RAISED, root, sizeof(Raised));
		raised->factor = 1;
	}
	raised->factor = Min(raised->factor * Max(factor, 1), MOST_ROWS);
}

/* LIMIT above a path, charged for `factor` times the rows that it wants. */
static Path *
limit_path(PlannerInfo *root, RelOptInfo *rel, Path *path, const FinalPathExtraData *limit, double factor)
{
	Query	   *parse = root->parse;
	LimitPath  *made = create_limit_path(root, rel, path, parse->limitOffset, parse->limitCount, parse->limitOption,
										 limit->offset_est, limit->count_est);
	LimitPath  *later = create_limit_path(root, rel, path, parse->limitOffset, parse->limitCount, parse->limitOption,
										  (int64) Min(limit->offset_est * factor, MOST_ROWS),
										  (int64) Min(limit->count_est * factor, MOST_ROWS));

	made->path.startup_cost = later->path.startup_cost;
	made->path.total_cost = later->path.total_cost;
	return (Path *) made;
}

/*
 * Price the paths of LIMIT anew. Those that PostgreSQL made are thrown away with
 * those that it left out because of them, and made again of the paths below.
 */
void
join_estimate_limit_paths(PlannerInfo *root, UpperRelationKind stage, RelOptInfo *input_rel, RelOptInfo *rel, void *extra)
{
	Query	   *parse = root->parse;
	const FinalPathExtraData *limit = extra;
	const Raised *raised;
	List	   *others = NIL;
	ListCell   *lc;

	if (stage != UPPERREL_FINAL || !limit->limit_needed || parse->commandType != CMD_SELECT || parse->rowMarks != NIL)
		return;
	raised = planner_memo_find(root, MEMO_RAISED, root);

	/*
	 * without an estimate a tenth of the rows is taken for the limit, however
	 * many there are
	 */
	if (raised == NULL || limit->count_est <= 0 || limit->offset_est < 0)
		return;
	foreach(lc, rel->pathlist)
	{
		Path	   *path = lfirst(lc);

		if (!IsA(path, LimitPath) || !list_member_ptr(input_rel->pathlist, ((LimitPath *) path)->subpath))
			others = lappend(others, path);
	}
	rel->pathlist = others;
	foreach(lc, input_rel->pathlist)
		add_path(rel, limit_path(root, rel, lfirst(lc), limit, raised->factor));
}

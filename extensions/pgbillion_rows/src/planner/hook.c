/*-------------------------------------------------------------------------
 *
 * hook.c
 *	  PostgreSQL's hook, and those who answer to it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "optimizer/planner.h"

#include "planner/planner.h"

#define MOST_OFFERS 4

const struct config_enum_entry plan_mode_options[] = {
	{"off", PLAN_OFF, false},
	{"on", PLAN_ON, false},
	{"force", PLAN_FORCE, false},
	{"false", PLAN_OFF, true},
	{"true", PLAN_ON, true},
	{"no", PLAN_OFF, true},
	{"yes", PLAN_ON, true},
	{"0", PLAN_OFF, true},
	{"1", PLAN_ON, true},
	{NULL, 0, false}
};

StatesSources states_sources;

static create_upper_paths_hook_type previous_hook = NULL;
static UpperPathsOffer offers[MOST_OFFERS];
static int	noffers = 0;

static void
upper_paths(PlannerInfo *root, UpperRelationKind stage, RelOptInfo *input_rel, RelOptInfo *rel, void *extra)
{
	if (previous_hook != NULL)
		previous_hook(root, stage, input_rel, rel, extra);
	for (int i = 0; i < noffers; i++)
		offers[i] (root, stage, input_rel, rel, extra);
}

/* Have this one asked too, after those that are there. Called when the library is loaded. */
void
planner_add_offer(UpperPathsOffer offer)
{
	Assert(noffers < MOST_OFFERS);
	offers[noffers++] = offer;
}

void
planner_hook_init(void)
{
	previous_hook = create_upper_paths_hook;
	create_upper_paths_hook = upper_paths;
}

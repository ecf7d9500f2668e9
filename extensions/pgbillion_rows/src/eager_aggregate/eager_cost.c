/*-------------------------------------------------------------------------
 *
 * eager_cost.c
 *	  What eager aggregation takes, compared with the join first.
 *
 * PostgreSQL's costs are of pages and of tuples. With tables in cache, where a
 * page costs next to nothing, aggregating a row takes many times what they
 * say, and so does finding it a partner. That does not matter where two plans
 * do this for the same rows; here one plan does it for all rows of the table,
 * and the other only for those that the join leaves. So what the costs leave
 * out is added for the former and taken off for the latter.
 *
 * vector/plan/cost_model.h has the constants.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "catalog/pg_type.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"

#include "eager_aggregate/eager_aggregate.h"
#include "vector/plan/cost_model.h"

/* Memory of a group, about. */
#define GROUP_BYTES 48.0
#define KEY_BYTES 16.0
#define STATE_BYTES 32.0

/* What is counted of the states. */
typedef struct States
{
	int			keys;
	int			aggregates;
	int			serialized;
	double		advance;		/* vectorized, a row */
} States;

static States
count_states(EagerAggregate *eager)
{
	States		states = {0};
	ListCell   *lc;

	foreach(lc, eager->target->exprs)
	{
		Aggref	   *aggref = lfirst(lc);
		Oid			type = InvalidOid;

		if (!IsA(aggref, Aggref))
		{
			states.keys++;
			continue;
		}
		states.aggregates++;
		states.serialized += aggref->aggtranstype == INTERNALOID;
		if (aggref->args != NIL)
			type = exprType((Node *) linitial_node(TargetEntry, aggref->args)->expr);
		states.advance += type == InvalidOid || type == INT2OID || type == INT4OID || type == INT8OID ||
			type == FLOAT8OID || type == DATEOID ? EAGER_COST_VECTOR_INTEGER : EAGER_COST_VECTOR_OTHER;
	}
	return states;
}

/*
 * Add to a path of states of a number of the table's rows what it takes beyond
 * its costs, less what the other plan takes beyond its own, if that is more.
 * Paths of a partial plan are of a process's share of the rows.
 */
void
eager_cost_add(Path *path, EagerAggregate *eager, double rows, bool vectorized)
{
	States		states = count_states(eager);
	double		groups = Min(eager->groups, rows);
	double		bytes = groups * (GROUP_BYTES + KEY_BYTES * states.keys + STATE_BYTES * states.aggregates);
	double		doublings = bytes > EAGER_NEAR_BYTES ? log2(bytes / EAGER_NEAR_BYTES) : 0;
	double		left = eager->table->rows > 0 ? eager->left * rows / eager->table->rows : 0;
	double		units;

	if (eager->forced)
		return;
	if (vectorized)
		units = rows * (states.advance + EAGER_COST_VECTOR_FURTHER_KEY * (states.keys - 1) +
						EAGER_COST_VECTOR_WAITING * doublings - EAGER_COST_VECTOR_READ);
	else
		units = rows * (EAGER_COST_CORE_ROW + EAGER_COST_CORE_AGGREGATE * states.aggregates +
						EAGER_COST_CORE_WAITING * doublings);
	units += groups * (EAGER_COST_GROUP_RETURNED + EAGER_COST_STATE_SERIALIZED * states.serialized);
	units -= rows * EAGER_COST_JOIN_PROBED + left * EAGER_COST_ROW_LEFT;
	if (units <= 0)
		return;
	path->startup_cost += units * cpu_operator_cost;
	path->total_cost += units * cpu_operator_cost;
}

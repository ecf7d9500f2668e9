/*-------------------------------------------------------------------------
 *
 * early_cost.c
 *	  What aggregation before the join takes, compared with the join first.
 *
 * PostgreSQL's costs are of pages and of tuples. With tables in cache, where a
 * page costs next to nothing, aggregating a row takes many times what they
 * say, and so does finding it a partner. That does not matter where two plans
 * do this for the same rows; here one plan does it for all rows of the table,
 * and the other only for those that the join leaves. So what the costs leave
 * out is added for the former and taken off for the latter.
 *
 * All constants are in units of cpu_operator_cost, and were measured by
 * bench/calibrate.py: one process of an AMD EPYC, 500,000 rows in cache, where
 * a unit was 4.8 ns.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "catalog/pg_type.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"

#include "planner/before_join.h"

/* What it takes to add a row to the states of its group, by vectors and by PostgreSQL's HashAggregate. */
#define VECTOR_INTEGER 0.5
#define VECTOR_OTHER 4.0
#define VECTOR_FURTHER_KEY 2.5
#define CORE_ROW 10.0
#define CORE_AGGREGATE 5.0

/*
 * Waiting for memory: for each doubling of the groups' table beyond what is
 * near the processor.
 */
#define NEAR_BYTES (512.0 * 1024)
#define VECTOR_WAITING 1.5
#define CORE_WAITING 13.0

/* What it takes to return a group, and a state of it that has to be serialized. */
#define GROUP_RETURNED 12.0
#define STATE_SERIALIZED 15.0

/*
 * What the other plan takes beyond its costs: to find a row's partners, and to
 * aggregate a row that the join leaves.
 */
#define JOIN_PROBED 4.0
#define ROW_LEFT 20.0

/*
 * What reading a row costs a vectorized scan and does not take: its share of a
 * page that is in cache.
 */
#define VECTOR_READ 4.0

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
	double		advance;		/* by vectors, a row */
} States;

static States
count_states(EarlyAggregate *early)
{
	States		states = {0};
	ListCell   *lc;

	foreach(lc, early->target->exprs)
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
			type == FLOAT8OID || type == DATEOID ? VECTOR_INTEGER : VECTOR_OTHER;
	}
	return states;
}

/*
 * Add to a path of states of so many of the table's rows what it takes beyond
 * its costs, less what the other plan takes beyond its own, if that is more.
 * Paths of a partial plan are of a process's share of the rows.
 */
void
add_early_cost(Path *path, EarlyAggregate *early, double rows, bool vectorized)
{
	States		states = count_states(early);
	double		groups = Min(early->groups, rows);
	double		bytes = groups * (GROUP_BYTES + KEY_BYTES * states.keys + STATE_BYTES * states.aggregates);
	double		doublings = bytes > NEAR_BYTES ? log2(bytes / NEAR_BYTES) : 0;
	double		left = early->table->rows > 0 ? early->left * rows / early->table->rows : 0;
	double		units;

	if (early->forced)
		return;
	if (vectorized)
		units = rows * (states.advance + VECTOR_FURTHER_KEY * (states.keys - 1) + VECTOR_WAITING * doublings - VECTOR_READ);
	else
		units = rows * (CORE_ROW + CORE_AGGREGATE * states.aggregates + CORE_WAITING * doublings);
	units += groups * (GROUP_RETURNED + STATE_SERIALIZED * states.serialized);
	units -= rows * JOIN_PROBED + left * ROW_LEFT;
	if (units <= 0)
		return;
	path->startup_cost += units * cpu_operator_cost;
	path->total_cost += units * cpu_operator_cost;
}

/*-------------------------------------------------------------------------
 *
 * group_estimate.c
 *	  How many groups expressions make.
 *
 * PostgreSQL takes an expression for as diverse as the columns in it: id / 20
 * for as many groups as there are ids, date_trunc('day', t) for one a
 * microsecond. Then memory seems not to suffice where it does. The statistics
 * of a column tell between which values it lies, and so between which an
 * expression does.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "catalog/pg_statistic.h"
#include "catalog/pg_type.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "utils/builtins.h"
#include "utils/date.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/selfuncs.h"
#include "utils/timestamp.h"

#include "planner/arithmetic.h"
#include "planner/group_estimate.h"

typedef struct Range
{
	double		low;
	double		high;
} Range;

/*
 * How many different values an expression has in all rows, whatever conditions
 * leave of these; *guessed: nothing tells.
 */
double
group_estimate_different(PlannerInfo *root, Node *expr, bool *guessed)
{
	VariableStatData data;
	double		number;

	examine_variable(root, expr, 0, &data);
	number = get_variable_numdistinct(&data, guessed);
	ReleaseVariableStats(data);

	return number;
}

/* The same of several together, as if they had nothing to do with each other. */
double
group_estimate_values(PlannerInfo *root, List *exprs)
{
	double		number = 1;
	ListCell   *lc;

	foreach(lc, exprs)
	{
		bool		guessed;

		number *= group_estimate_different(root, lfirst(lc), &guessed);
	}
	return number;
}

/* How far a table's rows lie in the order of a column, by its statistics: 1 is the same order, or its reverse. */
double
group_estimate_order(HeapTuple statistics)
{
	AttStatsSlot slot;
	double		order;

	if (!get_attstatsslot(&slot, statistics, STATISTIC_KIND_CORRELATION, InvalidOid, ATTSTATSSLOT_NUMBERS))
		return 0;
	order = Min(fabs(slot.numbers[0]), 1);
	free_attstatsslot(&slot);

	return order;
}

/* A value as a number; times in microseconds, dates in days. */
static bool
number_of(Datum value, Oid type, double *number)
{
	switch (type)
	{
		case INT2OID:
			*number = DatumGetInt16(value);
			return true;
		case INT4OID:
			*number = DatumGetInt32(value);
			return true;
		case INT8OID:
			*number = (double) DatumGetInt64(value);
			return true;
		case DATEOID:
			*number = DatumGetDateADT(value);
			return true;
		case TIMESTAMPOID:
		case TIMESTAMPTZOID:
			*number = (double) DatumGetTimestamp(value);
			return true;
		default:
			return false;
	}
}

/* Between which values a column lies, as ANALYZE has seen it. */
static bool
column_range(PlannerInfo *root, Node *var, Range *range)
{
	static const int kinds[] = {STATISTIC_KIND_HISTOGRAM, STATISTIC_KIND_MCV};
	VariableStatData data;
	bool		found = false;

	examine_variable(root, var, 0, &data);
	for (int i = 0; HeapTupleIsValid(data.statsTuple) && i < lengthof(kinds); i++)
	{
		AttStatsSlot slot;

		if (!get_attstatsslot(&slot, data.statsTuple, kinds[i], InvalidOid, ATTSTATSSLOT_VALUES))
			continue;
		for (int k = 0; k < slot.nvalues; k++)
		{
			double		number;

			if (!number_of(slot.values[k], slot.valuetype, &number))
				continue;
			range->low = found ? Min(range->low, number) : number;
			range->high = found ? Max(range->high, number) : number;
			found = true;
		}
		free_attstatsslot(&slot);
	}
	ReleaseVariableStats(data);

	return found;
}

/* Between which values an expression of integers or times lies. */
static bool
expression_range(PlannerInfo *root, Expr *expr, Range *range)
{
	List	   *args;
	char		op;
	Range		left;
	Range		right = {0, 0};

	expr = planner_strip_relabel(expr);
	if (IsA(expr, Var))
		return column_range(root, (Node *) expr, range);
	if (IsA(expr, Const))
	{
		Const	   *constant = (Const *) expr;

		if (constant->constisnull || !number_of(constant->constvalue, constant->consttype, &range->low))
			return false;
		range->high = range->low;
		return true;
	}
	op = arithmetic_integer_operator(expr, &args);
	if (op == 0 || !expression_range(root, linitial(args), &left) ||
		(op != '=' && !expression_range(root, lsecond(args), &right)))
		return false;
	switch (op)
	{
		case '=':
			*range = left;
			return true;
		case '+':
			range->low = left.low + right.low;
			range->high = left.high + right.high;
			return true;
		case '-':
			range->low = left.low - right.high;
			range->high = left.high - right.low;
			return true;
		case '*':
			range->low = Min(Min(left.low * right.low, left.low * right.high),
							 Min(left.high * right.low, left.high * right.high));
			range->high = Max(Max(left.low * right.low, left.low * right.high),
							  Max(left.high * right.low, left.high * right.high));
			return true;
		case '/':
			if (right.low != right.high || right.low == 0)
				return false;
			range->low = trunc(Min(left.low / right.low, left.high / right.low));
			range->high = trunc(Max(left.low / right.low, left.high / right.low));
			return true;
		case '%':
			{
				double		largest = Max(fabs(right.low), fabs(right.high)) - 1;

				range->low = left.low < 0 ? -Min(largest, -left.low) : 0;
				range->high = left.high > 0 ? Min(largest, left.high) : 0;
				return true;
			}
	}
	return false;
}

/* What is cut off a time, in days; and how many values there are of a part of it, 0 if it goes on for ever. */
typedef struct Unit
{
	const char *name;
	double		days;
	int			parts;
} Unit;

static const Unit units[] = {
	{"second", 1.0 / SECS_PER_DAY, 0},
	{"minute", 1.0 / MINS_PER_HOUR / HOURS_PER_DAY, 60},
	{"hour", 1.0 / HOURS_PER_DAY, 24},
	{"day", 1, 31},
	{"dow", 0, 7},
	{"isodow", 0, 7},
	{"doy", 0, 366},
	{"week", 7, 53},
	{"month", 28, 12},
	{"quarter", 90, 4},
	{"year", 365, 0},
	{"decade", 3650, 0},
	{"century", 36500, 0},
};

/* The unit that a constant names, or NULL. */
static const Unit *
find_unit(Expr *expr)
{
	char	   *name;

	if (!IsA(expr, Const) || ((Const *) expr)->constisnull || ((Const *) expr)->consttype != TEXTOID)
		return NULL;
	name = TextDatumGetCString(((Const *) expr)->constvalue);
	for (int i = 0; i < lengthof(units); i++)
	{
		if (pg_strcasecmp(name, units[i].name) == 0)
			return &units[i];
	}
	return NULL;
}

/*
 * How many groups an expression makes at most, the one of NULL included; 0 if
 * that is not known. As good as the statistics: an estimate.
 */
static double
most_groups(PlannerInfo *root, Expr *expr)
{
	Range		range;
	const Unit *unit;
	Oid			funcid;
	Expr	   *time;
	double		days;

	expr = planner_strip_relabel(expr);
	if (IsA(expr, OpExpr))
		return expression_range(root, expr, &range) ? range.high - range.low + 2 : 0;
	if (!IsA(expr, FuncExpr))
		return 0;

	funcid = ((FuncExpr *) expr)->funcid;
	switch (funcid)
	{
		case F_DATE_TIMESTAMP:
		case F_DATE_TIMESTAMPTZ:
			time = linitial(((FuncExpr *) expr)->args);
			days = 1;
			break;
		case F_DATE_TRUNC_TEXT_TIMESTAMP:
		case F_DATE_TRUNC_TEXT_TIMESTAMPTZ:
		case F_EXTRACT_TEXT_DATE:
		case F_EXTRACT_TEXT_TIMESTAMP:
		case F_EXTRACT_TEXT_TIMESTAMPTZ:
		case F_DATE_PART_TEXT_DATE:
		case F_DATE_PART_TEXT_TIMESTAMP:
		case F_DATE_PART_TEXT_TIMESTAMPTZ:
			unit = find_unit(linitial(((FuncExpr *) expr)->args));
			if (unit == NULL)
				return 0;
			if (funcid != F_DATE_TRUNC_TEXT_TIMESTAMP && funcid != F_DATE_TRUNC_TEXT_TIMESTAMPTZ)
			{
				if (unit->parts > 0)
					return unit->parts + 1;
				/* years go on, and seconds come with fractions */
				if (unit->days < 1)
					return 0;
			}
			if (unit->days == 0)
				return 0;
			time = lsecond(((FuncExpr *) expr)->args);
			days = unit->days;
			break;
		default:
			return 0;
	}
	if (!expression_range(root, time, &range))
		return 0;
	if (exprType((Node *) time) != DATEOID)
	{
		range.low /= USECS_PER_DAY;
		range.high /= USECS_PER_DAY;
	}

	/* one more at either end, and NULL */
	return (range.high - range.low) / days + 3;
}

/* How many groups the keys make of `rows` rows. */
double
group_estimate(PlannerInfo *root, List *keys, double rows)
{
	double		total = estimate_num_groups(root, keys, rows, NULL, NULL);
	double		product = 1;
	List	   *others = NIL;
	ListCell   *lc;

	foreach(lc, keys)
	{
		double		most = most_groups(root, lfirst(lc));

		if (most > 0)
			product *= Min(most, estimate_num_groups(root, list_make1(lfirst(lc)), rows, NULL, NULL));
		else
			others = lappend(others, lfirst(lc));
	}
	if (list_length(others) == list_length(keys))
		product = total;
	else if (others != NIL)
		product *= estimate_num_groups(root, others, rows, NULL, NULL);

	return clamp_row_est(Min(total, product));
}

/* ---- where PostgreSQL's estimate is a limit ---- */

/*
 * PostgreSQL takes a tenth of the rows for the most groups that several columns of
 * a table make, as they might be correlated. Where that is what limits its
 * estimate of the groups of the table's rows that are read: as many as the
 * columns' values combined. 0 where it is not.
 */
double
group_estimate_beyond_limit(PlannerInfo *root, RelOptInfo *table, List *columns)
{
	double		rows = table->rows;
	double		product = 1;
	double		limit = 1;
	double		all;
	ListCell   *lc;

	if (list_length(columns) < 2 || table->tuples <= 0)
		return 0;
	foreach(lc, columns)
	{
		VariableStatData data;
		bool		isdefault;
		double		values;

		examine_variable(root, lfirst(lc), 0, &data);
		values = get_variable_numdistinct(&data, &isdefault);
		ReleaseVariableStats(data);
		product *= values;
		limit = Max(limit, values);
	}

	/*
	 * estimate_num_groups() without conditions; extended statistics may say
	 * what is below its limit, or above
	 */
	limit = Min(Max(limit, 0.1 * table->tuples), table->tuples);
	table->rows = table->tuples;
	all = estimate_num_groups(root, columns, table->tuples, NULL, NULL);
	table->rows = rows;
	if (product <= limit || fabs(all - limit) > 1)
		return 0;

	/* what of the groups is in the rows that are left, as it has it */
	product = Min(product, table->tuples);
	if (rows < table->tuples)
		product *= 1 - pow((table->tuples - rows) / table->tuples, table->tuples / product);
	return clamp_row_est(Min(product, rows));
}

/* Those of some Vars that are of a table, each once. */
static List *
columns_of(List *vars, Index table)
{
	List	   *result = NIL;
	ListCell   *lc;

	foreach(lc, vars)
	{
		if (IsA(lfirst(lc), Var) && lfirst_node(Var, lc)->varno == table)
			result = list_append_unique(result, lfirst(lc));
	}
	return result;
}

/*
 * How many groups keys may make of `rows` rows, of which group_estimate() says
 * `estimate`: that, or more where it is PostgreSQL's limit.
 */
double
group_estimate_most(PlannerInfo *root, List *keys, double rows, double estimate)
{
	List	   *vars = pull_var_clause((Node *) keys, PVC_RECURSE_AGGREGATES | PVC_RECURSE_WINDOWFUNCS |
									   PVC_RECURSE_PLACEHOLDERS);
	Relids		tables = NULL;
	List	   *unlimited = NIL;	/* the columns of a table, each a List */
	double		by_table = 1;
	double		by_key = 1;
	int			table = -1;
	ListCell   *lc;

	foreach(lc, vars)
	{
		int			varno = IsA(lfirst(lc), Var) ? lfirst_node(Var, lc)->varno : 0;

		if (varno > 0 && varno < root->simple_rel_array_size && root->simple_rel_array[varno] != NULL)
			tables = bms_add_member(tables, varno);
	}
	while ((table = bms_next_member(tables, table)) >= 0)
	{
		List	   *columns = columns_of(vars, table);
		double		beyond = group_estimate_beyond_limit(root, find_base_rel(root, table), columns);

		if (beyond > 0)
			by_table *= beyond;
		else
			unlimited = lappend(unlimited, columns);
	}
	if (list_length(unlimited) == bms_num_members(tables))
		return estimate;
	foreach(lc, unlimited)
	{
		Var		   *var = linitial_node(Var, lfirst(lc));

		by_table *= estimate_num_groups(root, lfirst(lc), find_base_rel(root, var->varno)->rows, NULL, NULL);
	}
	foreach(lc, keys)
		by_key *= group_estimate(root, list_make1(lfirst(lc)), rows);
	return clamp_row_est(Max(estimate, Min(Min(by_table, by_key), rows)));
}

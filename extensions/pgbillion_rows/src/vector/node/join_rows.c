/*-------------------------------------------------------------------------
 *
 * join_rows.c
 *	  What the plan says of the joins, in terms of their rows.
 *
 * In the plan, expressions are over the range table. Here a column of a build
 * side becomes an attribute after those of the table, in the order of the
 * joins and of the columns that their plans return.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "executor/executor.h"
#include "nodes/bitmapset.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "nodes/plannodes.h"

#include "compat.h"
#include "vector/node/custom_scan.h"
#include "vector/node/node.h"

/* Where columns of plans are. */
typedef struct Place
{
	Index		table;			/* whose columns stay as they are, or 0 */
	List	   *columns;		/* of the plans: as in the range table, or
								 * something that is no Var */
	AttrNumber	first;			/* attribute before that of the first of them */
} Place;

/* The place of a column among those of the plans, from 1 on. */
static int
find_column(const Var *var, List *columns)
{
	ListCell   *lc;

	foreach(lc, columns)
	{
		const Var  *column = lfirst(lc);

		/*
		 * which joins may have made it NULL does not matter: it is the same
		 * one
		 */
		if (IsA(column, Var) && column->varno == var->varno && column->varattno == var->varattno)
			return foreach_current_index(lc) + 1;
	}
	elog(ERROR, "column %d of relation %d is not returned by any plan of a join", var->varattno, (int) var->varno);
	return 0;
}

static Node *
place_columns(Node *node, Place *place)
{
	Var		   *var = (Var *) node;

	if (node == NULL)
		return NULL;
	if (!IsA(node, Var))
		return expression_tree_mutator(node, place_columns, place);
	if ((Index) var->varno == place->table)
		return copyObject(node);
	return (Node *) makeVar(1, place->first + find_column(var, place->columns), var->vartype, var->vartypmod,
							var->varcollid, 0);
}

/* Expressions of the plan over the rows of the joins. */
List *
join_rows_exprs(JoinRows *rows, List *exprs)
{
	Place		place = {rows->table, rows->columns, rows->first};

	return (List *) place_columns((Node *) exprs, &place);
}

/* Describe the rows of the joins: the table's attributes, and those of the plans. */
static TupleDesc
describe(TupleDesc table, List *specs)
{
	int			natts = table->natts;
	TupleDesc	result;
	ListCell   *lc;

	foreach(lc, specs)
		natts += ((JoinSpec *) lfirst(lc))->ncolumns;
	result = CreateTemplateTupleDesc(natts);
	for (int i = 1; i <= table->natts; i++)
		TupleDescCopyEntry(result, i, table, i);
	foreach(lc, specs)
	{
		JoinSpec   *spec = lfirst(lc);

		for (int i = 1; i <= spec->ncolumns; i++)
			TupleDescCopyEntry(result, spec->first + i, ExecGetResultType(spec->plan), i);
	}
	TupleDescFinalize(result);
	return result;
}

/* The next n of the expressions, after *position. */
static List *
take(List *exprs, int *position, int n)
{
	List	   *result = list_copy_head(list_copy_tail(exprs, *position), n);

	*position += n;
	return result;
}

/* The sides of clauses: 0 is the left one. */
static List *
sides(List *clauses, int side)
{
	List	   *result = NIL;
	ListCell   *lc;

	foreach(lc, clauses)
		result = lappend(result, list_nth(lfirst_node(OpExpr, lc)->args, side));
	return result;
}

/*
 * What a plan says of its joins: custom_scan.h tells how. `exprs` are those that
 * follow the filter's terms; the build sides are the node's plans, and it uses
 * its index already. Everything is in the current context.
 */
JoinRows *
join_rows_create(VectorNode *node, List *exprs)
{
	CustomScan *cscan = (CustomScan *) node->css.ss.ps.plan;
	TupleDesc	tupdesc = vector_node_describe(node);
	JoinRows   *rows = palloc0(sizeof(JoinRows));
	AttrNumber	last = tupdesc->natts;
	int			position = 0;
	ListCell   *lc;

	rows->table = cscan->scan.scanrelid;
	rows->first = tupdesc->natts;
	for_each_from(lc, cscan->custom_private, VECTOR_PRIVATE_JOINS)
	{
		List	   *numbers = (List *) lfirst(lc);
		JoinSpec   *spec = palloc0(sizeof(JoinSpec));
		List	   *columns;
		Place		own = {0};

		spec->type = (JoinType) list_nth_int(numbers, VECTOR_JOIN_TYPE);
		spec->clauses = take(exprs, &position, list_nth_int(numbers, VECTOR_JOIN_CLAUSES));
		spec->plain_quals = take(exprs, &position, list_nth_int(numbers, VECTOR_JOIN_QUALS));
		spec->plain_others = take(exprs, &position, list_nth_int(numbers, VECTOR_JOIN_OTHERS));
		spec->ncolumns = list_nth_int(numbers, VECTOR_JOIN_COLUMNS);
		spec->shared = list_nth_int(numbers, VECTOR_JOIN_SHARED) != 0;
		spec->reversed = list_nth_int(numbers, VECTOR_JOIN_REVERSED) != 0;
		spec->cost = list_nth_int(numbers, VECTOR_JOIN_COST);
		spec->dear = list_nth_int(numbers, VECTOR_JOIN_DEAR) != 0;
		spec->rows = list_nth_int(numbers, VECTOR_JOIN_ROWS);
		spec->index = (Oid) list_nth_int(numbers, VECTOR_JOIN_INDEX);
		spec->key_rows = list_nth_int(numbers, VECTOR_JOIN_KEY_ROWS);
		columns = take(exprs, &position, spec->ncolumns);
		spec->plan = list_nth(node->css.custom_ps, list_length(rows->specs));
		spec->first = last;
		last += spec->ncolumns;
		own.columns = columns;
		spec->inner_keys = (List *) place_columns((Node *) sides(spec->clauses, 1), &own);
		rows->columns = list_concat(rows->columns, columns);
		rows->specs = lappend(rows->specs, spec);
	}
	foreach(lc, rows->specs)
	{
		JoinSpec   *spec = lfirst(lc);

		spec->outer_keys = join_rows_exprs(rows, vector_node_exprs(node, sides(spec->clauses, 0)));
		spec->quals = join_rows_exprs(rows, vector_node_exprs(node, spec->plain_quals));
		spec->others = join_rows_exprs(rows, vector_node_exprs(node, spec->plain_others));
	}
	rows->tupdesc = describe(tupdesc, rows->specs);

	return rows;
}

/*-------------------------------------------------------------------------
 *
 * known_rows.c
 *	  Where fewer rows are known to be found than PostgreSQL expects:
 *	  known_rows.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_statistic.h"
#include "parser/parsetree.h"
#include "utils/selfuncs.h"
#include "utils/syscache.h"

#include "planner/arithmetic.h"
#include "planner/group_estimate.h"
#include "planner/known_rows.h"
#include "planner/planner_memo.h"

/* Looking up keys of a relation in an index of a table's column finds this many times the expected rows. */
typedef struct LookUps
{
	Index		table;
	AttrNumber	column;
	Index		keys;
	double		factor;
} LookUps;

/* The rows of a table's column whose keys a relation has lie in this share of the table's pages, next to each other. */
typedef struct Place
{
	Index		table;
	AttrNumber	column;
	Index		keys;
	double		share;
} Place;

/* These relations, joined, have this many times the rows that are expected of them. */
typedef struct Relation
{
	Relids		relids;
	double		factor;
} Relation;

/* All that is known of a statement. */
typedef struct KnownRows
{
	List	   *look_ups;
	List	   *places;
	List	   *relations;
} KnownRows;

static KnownRows *
find(PlannerInfo *root)
{
	return planner_memo_find(root, MEMO_KNOWN_ROWS, root);
}

static KnownRows *
find_or_make(PlannerInfo *root)
{
	KnownRows  *known = find(root);

	return known != NULL ? known : planner_memo_make(root, MEMO_KNOWN_ROWS, root, sizeof(KnownRows));
}

/*
 * Looking up the keys that a relation has in an index of a table's column finds
 * `factor` times the rows that PostgreSQL expects of the average key. What is
 * noted again takes the place of what was noted before.
 */
void
known_rows_note_look_ups(PlannerInfo *root, RelOptInfo *table, AttrNumber column, RelOptInfo *keys, double factor)
{
	KnownRows  *known = find_or_make(root);
	MemoryContext old = MemoryContextSwitchTo(root->planner_cxt);
	LookUps    *made = palloc(sizeof(LookUps));
	ListCell   *lc;

	foreach(lc, known->look_ups)
	{
		LookUps    *one = lfirst(lc);

		if (one->table == table->relid && one->column == column && one->keys == keys->relid)
			known->look_ups = foreach_delete_current(known->look_ups, lc);
	}
	*made = (LookUps)
	{
		table->relid, column, keys->relid, factor
	};
	known->look_ups = lappend(known->look_ups, made);
	MemoryContextSwitchTo(old);
}

/*
 * The rows of a table that have the keys of a relation in a column lie in this
 * share of its pages, next to each other.
 */
void
known_rows_note_place(PlannerInfo *root, RelOptInfo *table, AttrNumber column, RelOptInfo *keys, double share)
{
	KnownRows  *known = find_or_make(root);
	MemoryContext old = MemoryContextSwitchTo(root->planner_cxt);
	Place	   *made = palloc(sizeof(Place));

	*made = (Place)
	{
		table->relid, column, keys->relid, share
	};
	known->places = lappend(known->places, made);
	MemoryContextSwitchTo(old);
}

/* In which share of a table's pages rows lie that are joined with relations by a column, as far as is known; else 1. */
double
known_rows_place(PlannerInfo *root, Index table, AttrNumber column, Relids keys)
{
	const KnownRows *known = find(root);
	double		share = 1;
	ListCell   *lc;

	foreach(lc, known == NULL ? NIL : known->places)
	{
		const Place *one = lfirst(lc);

		if (one->table == table && one->column == column && bms_is_member(one->keys, keys))
			share = Min(share, one->share);
	}
	return share;
}

/*
 * Relations that are joined have `factor` times the rows that PostgreSQL
 * expects, in addition to what is known of some of them. What is noted again
 * takes the place of what was noted before.
 */
void
known_rows_note_relation(PlannerInfo *root, Relids relids, double factor)
{
	KnownRows  *known = find_or_make(root);
	MemoryContext old = MemoryContextSwitchTo(root->planner_cxt);
	Relation   *made = palloc(sizeof(Relation));
	ListCell   *lc;

	foreach(lc, known->relations)
	{
		if (bms_equal(((Relation *) lfirst(lc))->relids, relids))
			known->relations = foreach_delete_current(known->relations, lc);
	}
	*made = (Relation)
	{
		bms_copy(relids), factor
	};
	known->relations = lappend(known->relations, made);
	MemoryContextSwitchTo(old);
}

/* Is a column of a table, or of a partition or child of it, this one of that table? */
static bool
is_column_of(PlannerInfo *root, Index relid, AttrNumber attno, const LookUps *look_ups)
{
	AppendRelInfo *parent = root->append_rel_array == NULL ? NULL : root->append_rel_array[relid];
	ListCell   *lc;

	if (relid == look_ups->table)
		return attno == look_ups->column;
	/* of a UNION ALL, parent_colnos are about a subquery that is gone */
	foreach(lc, parent == NULL ? NIL : parent->translated_vars)
	{
		const Var  *var = lfirst(lc);

		if (var != NULL && IsA(var, Var) && var->varno == relid && var->varattno == attno &&
			is_column_of(root, parent->parent_relid, foreach_current_index(lc) + 1, look_ups))
			return true;
	}
	return false;
}

/* Is it these keys that an index path looks up? */
static bool
looks_up(PlannerInfo *root, IndexPath *path, const LookUps *look_ups)
{
	ListCell   *lc;

	foreach(lc, path->indexclauses)
	{
		IndexClause *clause = lfirst_node(IndexClause, lc);

		if (bms_is_member(look_ups->keys, clause->rinfo->clause_relids) &&
			is_column_of(root, path->path.parent->relid, path->indexinfo->indexkeys[clause->indexcol], look_ups))
			return true;
	}
	return false;
}

/* How many times the rows that PostgreSQL expects a look-up in an index finds. */
double
known_rows_look_up_factor(PlannerInfo *root, IndexPath *path)
{
	const KnownRows *known;
	double		factor = 1;
	ListCell   *lc;

	if (path->path.param_info == NULL || (known = find(root)) == NULL)
		return 1;
	foreach(lc, known->look_ups)
	{
		const LookUps *one = lfirst(lc);

		if (looks_up(root, path, one))
			factor = Min(factor, one->factor);
	}
	return factor;
}

/* What is known of an expression. */
typedef struct DifferentMemo
{
	double		values;			/* 0: not known */
} DifferentMemo;

/*
 * The number of different values of an expression, or 0 if it is not known. That
 * is asked of each path that looks rows up.
 */
static double
different_values(PlannerInfo *root, Node *expression)
{
	DifferentMemo *known = planner_memo_find(root, MEMO_DIFFERENT, expression);
	bool		guessed;
	double		values;

	if (known == NULL)
	{
		values = group_estimate_different(root, expression, &guessed);
		known = planner_memo_make(root, MEMO_DIFFERENT, expression, sizeof(DifferentMemo));
		known->values = guessed ? 0 : values;
	}
	return known->values;
}

/*
 * The number of different values of a column of an outer query's table, or 0 if
 * it is not known. While its subqueries are planned, that query has no
 * RelOptInfo of the table.
 */
static double
different_outer_values(PlannerInfo *outer, const Var *var)
{
	const RangeTblEntry *rte = planner_rt_fetch(var->varno, outer);
	HeapTuple	table;
	HeapTuple	column;
	double		result = 0;

	if (rte->rtekind != RTE_RELATION)
		return 0;
	table = SearchSysCache1(RELOID, ObjectIdGetDatum(rte->relid));
	if (!HeapTupleIsValid(table))
		return 0;
	column = SearchSysCache3(STATRELATTINH, ObjectIdGetDatum(rte->relid), Int16GetDatum(var->varattno),
							 BoolGetDatum(rte->inh && has_subclass(rte->relid)));
	if (HeapTupleIsValid(column))
	{
		result = ((Form_pg_statistic) GETSTRUCT(column))->stadistinct;
		/* a share of the rows */
		if (result < 0)
			result *= -((Form_pg_class) GETSTRUCT(table))->reltuples;
		ReleaseSysCache(column);
	}
	ReleaseSysCache(table);
	return Max(result, 0);
}

/*
 * What an outer query sets a parameter to, time after time, and that query; or
 * NULL, as for the result of a subquery that is evaluated once.
 */
static Node *
outer_value(PlannerInfo *root, const Param *param, PlannerInfo **query)
{
	if (param->paramkind != PARAM_EXEC)
		return NULL;
	for (PlannerInfo *outer = root->parent_root; outer != NULL; outer = outer->parent_root)
	{
		ListCell   *lc;

		foreach(lc, outer->plan_params)
		{
			const PlannerParamItem *item = lfirst_node(PlannerParamItem, lc);

			if (item->paramId == param->paramid)
			{
				*query = outer;
				return item->item;
			}
		}
	}
	return NULL;
}

/* The number of different values that a parameter has which outer queries set, or 0 if it is not known. */
static double
values_of_parameter(PlannerInfo *root, const Param *param)
{
	PlannerInfo *outer;
	Node	   *value = outer_value(root, param, &outer);

	return value != NULL && IsA(value, Var) ? different_outer_values(outer, (Var *) value) : 0;
}

/* The number of different values with which a column is compared, or 0 if it is not known. */
static double
different_keys(PlannerInfo *root, Node *key, Relids column)
{
	key = (Node *) planner_strip_relabel((Expr *) key);
	if (IsA(key, Param))
		return values_of_parameter(root, (Param *) key);
	return IsA(key, Var) && !bms_is_member(((Var *) key)->varno, column) ? different_values(root, key) : 0;
}

/*
 * How many different keys are looked up by the first column of an index, in
 * relation to those that the column has; or 0 if that is not known. They are the
 * values of a column of another table, which may be an outer query's: for use
 * while a subquery is planned.
 */
double
known_rows_keys_ratio(PlannerInfo *root, IndexPath *path)
{
	Relids		table = path->path.parent->relids;
	ListCell   *lc;

	foreach(lc, path->indexclauses)
	{
		const IndexClause *index_clause = lfirst_node(IndexClause, lc);
		const OpExpr *clause = (OpExpr *) index_clause->rinfo->clause;

		if (index_clause->indexcol != 0 || !IsA(clause, OpExpr) || list_length(clause->args) != 2)
			continue;
		for (int i = 0; i < 2; i++)
		{
			double		keys = different_keys(root, list_nth(clause->args, i), table);
			double		values = keys > 0 ? different_values(root, list_nth(clause->args, 1 - i)) : 0;

			if (values > 0)
				return keys / values;
		}
	}
	return 0;
}

/* Does a path look up rows of a key that an outer query gives, each time another one? */
bool
known_rows_looks_up_outer_key(PlannerInfo *root, const IndexPath *path)
{
	PlannerInfo *outer;
	ListCell   *lc;

	foreach(lc, path->indexclauses)
	{
		const IndexClause *index_clause = lfirst_node(IndexClause, lc);
		const OpExpr *clause = (const OpExpr *) index_clause->rinfo->clause;
		ListCell   *arg;

		if (index_clause->indexcol != 0 || !IsA(clause, OpExpr))
			continue;
		foreach(arg, clause->args)
		{
			const Param *param = (const Param *) planner_strip_relabel(lfirst(arg));

			if (IsA(param, Param) && outer_value(root, param, &outer) != NULL)
				return true;
		}
	}
	return false;
}

/* How many times the rows that PostgreSQL expects relations have, joined. */
double
known_rows_factor(PlannerInfo *root, Relids relids)
{
	const KnownRows *known = find(root);
	double		factor = 1;
	ListCell   *lc;

	if (known == NULL)
		return 1;
	foreach(lc, known->relations)
	{
		const Relation *one = lfirst(lc);

		if (bms_is_subset(one->relids, relids))
			factor *= one->factor;
	}
	return factor;
}

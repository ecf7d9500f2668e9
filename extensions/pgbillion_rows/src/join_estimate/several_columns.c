/*-------------------------------------------------------------------------
 *
 * several_columns.c
 *	  Joins of two tables by equality of several columns, estimated by how
 *	  many combinations of values there are.
 *
 * PostgreSQL multiplies the selectivities of the columns, as if a row's item
 * said nothing of its order number. But there are no more combinations than
 * rows, so that a join by both returns thousands of times as many rows as the
 * product says. How many combinations a table has is what PostgreSQL estimates
 * for GROUP BY, and with a unique index on these columns it is known. As for
 * one column, the rows of the side with fewer combinations are taken to find a
 * partner on the other one.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_statistic.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "optimizer/paths.h"
#include "parser/parsetree.h"
#include "utils/selfuncs.h"

#include "compat.h"
#include "join_estimate/join_estimate.h"
#include "planner/planner.h"

/* How many times as likely as the product a pair of rows has to be. */
#define LEAST_FACTOR 2

/* The columns of one table, or what a subquery returns, by which it is joined. */
typedef struct Side
{
	RelOptInfo *rel;
	List	   *columns;
} Side;

/* Are a side's rows told apart by its columns, or some of them? */
static bool
is_unique(const Side *side)
{
	ListCell   *lc;

	foreach(lc, side->rel->indexlist)
	{
		IndexOptInfo *index = lfirst(lc);
		int			found = 0;

		if (!index->unique || (index->indpred != NIL && !index->predOK))
			continue;
		for (int i = 0; i < index->nkeycolumns; i++)
		{
			ListCell   *column;

			foreach(column, side->columns)
			{
				Var		   *var = lfirst(column);

				if (index->indexkeys[i] > 0 && IsA(var, Var) && var->varattno == index->indexkeys[i])
				{
					found++;
					break;
				}
			}
		}
		if (found == index->nkeycolumns)
			return true;
	}
	return false;
}

/* Is nothing known of one of a side's columns? */
static bool
is_unknown(PlannerInfo *root, const Side *side)
{
	bool		result = false;
	ListCell   *lc;

	foreach(lc, side->columns)
	{
		VariableStatData data;
		bool		isdefault;

		examine_variable(root, lfirst(lc), 0, &data);
		(void) get_variable_numdistinct(&data, &isdefault);
		ReleaseVariableStats(data);
		result |= isdefault;
	}
	return result;
}

/* The share of a side's rows that are NULL in none of its columns, at most. */
static double
share_present(PlannerInfo *root, const Side *side)
{
	double		share = 1;
	ListCell   *lc;

	foreach(lc, side->columns)
	{
		VariableStatData data;

		examine_variable(root, lfirst(lc), 0, &data);
		if (HeapTupleIsValid(data.statsTuple))
			share = Min(share, 1 - ((Form_pg_statistic) GETSTRUCT(data.statsTuple))->stanullfrac);
		ReleaseVariableStats(data);
	}
	return share;
}

/* How many combinations of values a side has, whatever its conditions leave. */
static double
combinations(PlannerInfo *root, const Side *side)
{
	double		rows = Max(side->rel->tuples, 1);
	double		left = side->rel->rows;
	double		result;

	if (is_unique(side))
		return rows;
	/* of a table whose conditions leave fewer rows, it would estimate those */
	side->rel->rows = Max(left, rows);
	result = estimate_num_groups(root, side->columns, rows, NULL, NULL);
	side->rel->rows = left;

	return Max(result, 1);
}

/* How likely a row of one side and a row of the other are equal in all columns. */
static double
likelihood(PlannerInfo *root, const Side *one, const Side *other)
{
	return share_present(root, one) * share_present(root, other) /
		Max(combinations(root, one), combinations(root, other));
}

/* What a class has of a table: an expression that no outer join makes NULL; or NULL. */
static Expr *
expression_of(EquivalenceClass *ec, RelOptInfo *rel)
{
	ListCell   *lc;

	foreach(lc, ec->ec_members)
	{
		EquivalenceMember *member = lfirst_node(EquivalenceMember, lc);

		if (!member->em_is_child && bms_equal(member->em_relids, rel->relids)
#if PG_VERSION_NUM < 160000
			&& bms_is_empty(member->em_nullable_relids)
#endif
			)
			return member->em_expr;
	}
	return NULL;
}

/* The longer class first: of its members any may be joined by, so that its clauses are the ones left alone. */
static int
compare_classes(const ListCell *a, const ListCell *b)
{
	return list_length(lfirst_node(EquivalenceClass, b)->ec_members) -
		list_length(lfirst_node(EquivalenceClass, a)->ec_members);
}

/* Find what joins two tables: classes, and the columns of each side. */
static List *
find_classes(PlannerInfo *root, Side *one, Side *other)
{
	List	   *classes = NIL;
	ListCell   *lc;

	foreach(lc, root->eq_classes)
	{
		EquivalenceClass *ec = lfirst_node(EquivalenceClass, lc);
		Expr	   *of_one;
		Expr	   *of_other;

		if (ec->ec_has_volatile || ec->ec_has_const || ec->ec_broken || !bms_is_subset(one->rel->relids, ec->ec_relids) ||
			!bms_is_subset(other->rel->relids, ec->ec_relids))
			continue;
		of_one = expression_of(ec, one->rel);
		of_other = expression_of(ec, other->rel);
		if (of_one == NULL || of_other == NULL)
			continue;
		classes = lappend(classes, ec);
		one->columns = lappend(one->columns, of_one);
		other->columns = lappend(other->columns, of_other);
	}
	list_sort(classes, compare_classes);
	return classes;
}

/* Set what PostgreSQL takes for the selectivity of a class's clause between two tables, in either order. */
static void
set_selectivity(PlannerInfo *root, EquivalenceClass *ec, RelOptInfo *one, RelOptInfo *other, Selectivity selectivity)
{
	RestrictInfo *clause = join_estimate_clause(root, ec, one, other);
	RestrictInfo *turned = join_estimate_clause(root, ec, other, one);

	if (clause != NULL)
		clause->norm_selec = selectivity;
	if (turned != NULL)
		turned->norm_selec = selectivity;
}

/* Have all clauses between two tables together be as selective as that: the last ones less than they are. */
static void
spread(PlannerInfo *root, List *classes, RelOptInfo *one, RelOptInfo *other, double wanted)
{
	double		product = 1;
	ListCell   *lc;

	foreach(lc, classes)
	{
		EquivalenceClass *ec = lfirst_node(EquivalenceClass, lc);
		RestrictInfo *clause = join_estimate_clause(root, ec, one, other);
		double		own = clause == NULL ? 1 : join_estimate_core_selectivity(root, clause, one, other);

		if (product * own < wanted)
		{
			own = Min(wanted / product, 1);
			set_selectivity(root, ec, one, other, own);
		}
		product *= own;
	}
}

/* Estimate the join of two tables, if it is by several columns. */
static void
estimate_two(PlannerInfo *root, RelOptInfo *rel, RelOptInfo *other_rel)
{
	Side		one = {rel};
	Side		other = {other_rel};
	List	   *classes = find_classes(root, &one, &other);
	double		product = 1;
	double		wanted;
	ListCell   *lc;

	if (list_length(classes) < 2 || join_estimate_are_semijoined(root, rel, other_rel))
		return;
	/* one guess is no better than another */
	if (is_unknown(root, &one) && is_unknown(root, &other))
		return;
	foreach(lc, classes)
	{
		RestrictInfo *clause = join_estimate_clause(root, lfirst_node(EquivalenceClass, lc), rel, other_rel);

		if (clause != NULL)
			product *= join_estimate_core_selectivity(root, clause, rel, other_rel);
	}
	wanted = likelihood(root, &one, &other);
	if (wanted < LEAST_FACTOR * product)
		return;
	spread(root, classes, rel, other_rel, wanted);
	join_estimate_note_raised(root, wanted / product);
	plan_report(root, "joins of \"%s\" with \"%s\" are estimated by combinations of %d columns, of %.0f rows instead of %.0f",
				planner_rt_fetch(rel->relid, root)->eref->aliasname,
				planner_rt_fetch(other_rel->relid, root)->eref->aliasname, list_length(classes),
				wanted * rel->rows * other_rel->rows, product * rel->rows * other_rel->rows);
}

/* ---- anti joins ---- */

/* The column of a table that one side of an equality is, of which the other side is of another one; or NULL. */
static Node *
side_of(RestrictInfo *clause, RelOptInfo *rel, RelOptInfo *other)
{
	if (clause->mergeopfamilies == NIL || !is_opclause(clause->clause))
		return NULL;
	if (bms_equal(clause->left_relids, rel->relids) && bms_equal(clause->right_relids, other->relids))
		return get_leftop(clause->clause);
	if (bms_equal(clause->right_relids, rel->relids) && bms_equal(clause->left_relids, other->relids))
		return get_rightop(clause->clause);
	return NULL;
}

/*
 * Estimate how many of a table's rows find a partner among those that an anti
 * join takes away. PostgreSQL multiplies the shares of values that do, which
 * are near 1 where each column has about the same values on both sides. But
 * a row of the other table can be the partner of one combination only.
 */
static void
estimate_anti_join(PlannerInfo *root, SpecialJoinInfo *join, RelOptInfo *rel, RelOptInfo *inner)
{
	Side		outer_side = {rel};
	Side		inner_side = {inner};
	List	   *clauses = NIL;
	double		product = 1;
	double		wanted;
	ListCell   *lc;

	foreach(lc, inner->joininfo)
	{
		RestrictInfo *clause = lfirst_node(RestrictInfo, lc);
		Node	   *outer_column = side_of(clause, rel, inner);

		if (outer_column == NULL)
			continue;
		clauses = lappend(clauses, clause);
		outer_side.columns = lappend(outer_side.columns, outer_column);
		inner_side.columns = lappend(inner_side.columns, side_of(clause, inner, rel));
		product *= clause_selectivity(root, (Node *) clause, 0, JOIN_ANTI, join);
	}
	if (list_length(clauses) < 2 || (is_unknown(root, &outer_side) && is_unknown(root, &inner_side)))
		return;
	wanted = Min(combinations(root, &inner_side) / combinations(root, &outer_side), 1);
	if (1 - wanted < LEAST_FACTOR * (1 - product))
		return;
	foreach(lc, clauses)
		lfirst_node(RestrictInfo, lc)->outer_selec = foreach_current_index(lc) == 0 ? wanted : 1;
	join_estimate_note_raised(root, (1 - wanted) / (1 - product));
	plan_report(root, "the anti join of \"%s\" with \"%s\" is estimated by combinations of %d columns, which leaves a share of %.2f instead of %.2f",
				planner_rt_fetch(rel->relid, root)->eref->aliasname,
				planner_rt_fetch(inner->relid, root)->eref->aliasname, list_length(clauses), 1 - wanted, 1 - product);
}

/* The same of all tables that an anti join may find partners for. */
static void
estimate_anti_joins(PlannerInfo *root)
{
	ListCell   *lc;

	foreach(lc, root->join_info_list)
	{
		SpecialJoinInfo *join = lfirst_node(SpecialJoinInfo, lc);
		int			inner;
		int			outer = -1;

		if (join->jointype != JOIN_ANTI || !bms_get_singleton_member(join->syn_righthand, &inner) ||
			root->simple_rel_array[inner] == NULL)
			continue;
		while ((outer = bms_next_member(join->syn_lefthand, outer)) >= 0)
		{
			if (root->simple_rel_array[outer] != NULL && root->simple_rel_array[outer]->reloptkind == RELOPT_BASEREL)
				estimate_anti_join(root, join, root->simple_rel_array[outer], root->simple_rel_array[inner]);
		}
	}
}

/* Estimate all joins of two tables by several columns. */
void
join_estimate_by_combinations(PlannerInfo *root)
{
	estimate_anti_joins(root);
	for (int i = 1; i < root->simple_rel_array_size; i++)
	{
		RelOptInfo *one = root->simple_rel_array[i];

		if (one == NULL || one->reloptkind != RELOPT_BASEREL || bms_num_members(one->eclass_indexes) < 2)
			continue;
		for (int k = i + 1; k < root->simple_rel_array_size; k++)
		{
			RelOptInfo *other = root->simple_rel_array[k];

			if (other != NULL && other->reloptkind == RELOPT_BASEREL &&
				bms_num_members(bms_intersect(one->eclass_indexes, other->eclass_indexes)) >= 2)
				estimate_two(root, one, other);
		}
	}
}

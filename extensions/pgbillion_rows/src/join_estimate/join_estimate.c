/*-------------------------------------------------------------------------
 *
 * join_estimate.c
 *	  Estimates joins by key from the keys that a filter keeps:
 *	  join_estimate.h says why.
 *
 * PostgreSQL keeps the selectivity of a join clause in the clause once it has
 * computed it. What is found out is put there before the search for the best
 * order of joins begins, so that all that follows agrees on it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "access/stratnum.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_statistic.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/paths.h"
#include "parser/parsetree.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/selfuncs.h"
#include "utils/typcache.h"

#include "compat.h"
#include "join_estimate/join_estimate.h"
#include "planner/group_estimate.h"
#include "planner/known_rows.h"
#include "planner/planner.h"

/* How many times as many rows as PostgreSQL expects there may have to be. */
#define LEAST_FACTOR 4

/* Joins that cannot return as many rows are as fast as reading keys. */
#define LEAST_ROWS 20000

/* How many times as much as reading the keys it has to cost to read the other table. */
#define LEAST_COST_RATIO 2

/*
 * How much looking up the keys in an index has to cost, in units of
 * cpu_tuple_cost, and how many times as much as reading them.
 */
#define LEAST_LOOK_UPS_COST 1e6
#define LEAST_LOOK_UPS_RATIO 4

/* Of a table with so few rows it takes nothing to read the keys, also of most of them. */
#define FEW_KEYS 100

/* A larger table is not read for the sake of an estimate. */
#define MOST_PAGES 4096

/* How many of the rows of a table whose key is unique have a key of their own, as ANALYZE estimates it. */
#define UNIQUE_SHARE 0.9

/* The correlation from which on rows with keys next to each other are taken to lie next to each other. */
#define LEAST_ORDER 0.99

static bool estimate_joins = true;

/* ---- statistics ---- */

/* What statistics tell of the rows of each key of the large table's column. */
typedef struct KeyStatistics
{
	TypeCacheEntry *type;
	Oid			collation;
	AttStatsSlot common;		/* the most common values */
	AttStatsSlot histogram;
	double		others;			/* share of the rows whose keys are not among
								 * the most common ones */
	double		of_others;		/* share of the rows of each key in the
								 * histogram's range */
	double		average;		/* share of the rows of each key, as
								 * PostgreSQL takes it */
	double		looked_up;		/* the same where each is looked up in an
								 * index */
} KeyStatistics;

/* How two values of the key compare. */
static int
compare_values(const KeyStatistics *statistics, Datum left, Datum right)
{
	return DatumGetInt32(FunctionCall2Coll(&statistics->type->cmp_proc_finfo, statistics->collation, left, right));
}

/* How many of the keys, which are in order, are less than a value; if `equal`, also those equal to it. */
static int
count_below(const KeyStatistics *statistics, const KeptKeys *kept, Datum value, bool equal)
{
	int			low = 0;
	int			high = kept->nkeys;

	while (low < high)
	{
		int			middle = (low + high) / 2;
		int			order = compare_values(statistics, kept->keys[middle], value);

		if (order < 0 || (equal && order == 0))
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/*
 * The share of a table's rows whose keys are less than a value; if `equal`, also
 * those equal to it; -1 if that is not known. Near the ends of the table's
 * histogram PostgreSQL looks for the least and the greatest key in an index, if
 * there is one, which statistics may be too old to know.
 */
static double
share_below(PlannerInfo *root, const KeyStatistics *statistics, VariableStatData *data, Datum value, bool equal)
{
	Oid			type = statistics->type->btree_opintype;
	Oid			less = get_opfamily_member(statistics->type->btree_opf, type, type, BTLessStrategyNumber);
	FmgrInfo	function;

	if (!OidIsValid(less))
		return -1;
	fmgr_info(get_opcode(less), &function);
	return ineq_histogram_selectivity(root, data, less, &function, false, equal, statistics->collation, value,
									  type);
}

/* The share of the large table's rows whose key is not in the histogram's range. */
static double
share_out_of_range(PlannerInfo *root, const KeyStatistics *statistics, VariableStatData *large)
{
	const AttStatsSlot *histogram = &statistics->histogram;
	double		below;
	double		up_to;

	if (histogram->nvalues < 2)
		return statistics->others;
	below = share_below(root, statistics, large, histogram->values[0], false);
	up_to = share_below(root, statistics, large, histogram->values[histogram->nvalues - 1], true);
	if (below < 0 || up_to < below)
		return statistics->others;
	return statistics->others * (below + 1 - up_to);
}

/*
 * How many rows of the small table have a key in the range of the histogram of
 * the large one. Where its ends are near those of the small one's histogram, all
 * rows there are taken to be in it, and no index is asked.
 */
static double
rows_in_range(PlannerInfo *root, const KeyStatistics *statistics, VariableStatData *small)
{
	const AttStatsSlot *range = &statistics->histogram;
	Datum		least = range->values[0];
	Datum		greatest = range->values[range->nvalues - 1];
	double		below = 0;
	double		up_to = 1;
	AttStatsSlot slot;

	/* without statistics, an index may tell that the keys differ */
	if (!HeapTupleIsValid(small->statsTuple) ||
		!get_attstatsslot(&slot, small->statsTuple, STATISTIC_KIND_HISTOGRAM, InvalidOid, ATTSTATSSLOT_VALUES))
		return small->rel->tuples;
	if (slot.stacoll == statistics->collation && slot.nvalues > 2)
	{
		if (compare_values(statistics, least, slot.values[1]) > 0)
			below = share_below(root, statistics, small, least, false);
		if (compare_values(statistics, greatest, slot.values[slot.nvalues - 2]) < 0)
			up_to = share_below(root, statistics, small, greatest, true);
	}
	free_attstatsslot(&slot);

	return below >= 0 && up_to >= below ? (up_to - below) * small->rel->tuples : small->rel->tuples;
}

/* Is a column unique, or nearly? Then a row is a key. */
static bool
is_key(VariableStatData *data)
{
	bool		isdefault;

	return get_variable_numdistinct(data, &isdefault) >= UNIQUE_SHARE * data->rel->tuples && !isdefault;
}

/* Get what there is; the result is false if there are no statistics, or if they may not be used. */
static bool
get_statistics(PlannerInfo *root, VariableStatData *large, VariableStatData *small, const Var *key, List *opfamilies,
			   KeyStatistics *statistics)
{
	bool		isdefault;
	double		distinct = get_variable_numdistinct(large, &isdefault);
	double		present;
	double		others;

	memset(statistics, 0, sizeof(KeyStatistics));
	if (!HeapTupleIsValid(large->statsTuple) || isdefault || !large->acl_ok || !small->acl_ok || !is_key(small))
		return false;

	/*
	 * of a fixed length: of others the key may be in a TOAST table, whose
	 * changes nobody tells of
	 */
	statistics->type = lookup_type_cache(key->vartype, TYPECACHE_CMP_PROC_FINFO | TYPECACHE_BTREE_OPFAMILY);
	if (statistics->type->typlen <= 0 || !OidIsValid(statistics->type->cmp_proc_finfo.fn_oid) ||
		!list_member_oid(opfamilies, statistics->type->btree_opf))
		return false;
	statistics->collation = key->varcollid;
	present = 1 - ((Form_pg_statistic) GETSTRUCT(large->statsTuple))->stanullfrac;
	others = present;
	if (get_attstatsslot(&statistics->common, large->statsTuple, STATISTIC_KIND_MCV, InvalidOid,
						 ATTSTATSSLOT_VALUES | ATTSTATSSLOT_NUMBERS))
	{
		if (statistics->common.stacoll != statistics->collation)
			return false;
		for (int i = 0; i < statistics->common.nvalues; i++)
			others -= statistics->common.numbers[i];
	}
	(void) get_attstatsslot(&statistics->histogram, large->statsTuple, STATISTIC_KIND_HISTOGRAM, InvalidOid,
							ATTSTATSSLOT_VALUES);
	if (statistics->histogram.nvalues > 1)
	{
		double		keys;

		if (statistics->histogram.stacoll != statistics->collation)
			return false;
		/* the large table need not have all keys of its range */
		keys = distinct >= small->rel->tuples ? distinct : Max(distinct, rows_in_range(root, statistics, small));
		keys -= statistics->common.nvalues;
		statistics->of_others = Max(others, 0) / Max(keys, 1);
	}
	statistics->average = present / Max(Max(distinct, small->rel->tuples), 1);
	statistics->looked_up = 1 / Max(distinct, 1);
	statistics->others = Max(others, 0);

	return true;
}

static void
free_statistics(KeyStatistics *statistics)
{
	free_attstatsslot(&statistics->common);
	free_attstatsslot(&statistics->histogram);
}

/* The share of the large table's rows that a number of keys may have at most. */
static double
most_of_keys(const KeyStatistics *statistics, double keys)
{
	double		share = 0;
	int			i;

	/* the most common ones come first */
	for (i = 0; i < statistics->common.nvalues && i < keys && statistics->common.numbers[i] > statistics->of_others; i++)
		share += statistics->common.numbers[i];
	share += Max(keys - i, 0) * Max(statistics->of_others, statistics->average);
	return Min(share, 1);
}

/* ---- a join ---- */

/*
 * The conditions of a table, or NIL if not all of them can be evaluated: those
 * that cannot may be there to hide rows from the others.
 */
static List *
conditions_of(RelOptInfo *rel)
{
	List	   *result = NIL;
	ListCell   *lc;

	foreach(lc, rel->baserestrictinfo)
	{
		RestrictInfo *rinfo = lfirst_node(RestrictInfo, lc);

		if (rinfo->pseudoconstant || !kept_keys_can_evaluate((Node *) rinfo->clause))
			return NIL;
		result = lappend(result, rinfo->clause);
	}
	return result;
}

/* Does the plan look up the few rows of a table that it needs? */
static bool
is_looked_up(RelOptInfo *rel)
{
	Path	   *path = rel->cheapest_total_path;

	return IsA(path, IndexPath) || IsA(path, BitmapHeapPath) || IsA(path, TidPath);
}

/* Is a table one whose keys may be read, if it is joined with one that is large enough? */
static bool
is_small(PlannerInfo *root, RelOptInfo *rel)
{
	RangeTblEntry *rte = planner_rt_fetch(rel->relid, root);

	return !rte->inh && rte->relkind == RELKIND_RELATION && rte->tablesample == NULL &&
		rel->baserestrictinfo != NIL && (rel->rows * LEAST_FACTOR <= rel->tuples || rel->tuples <= FEW_KEYS) &&
		rel->rows <= MOST_KEYS &&
		rel->pages <= MOST_PAGES && rel->cheapest_total_path != NULL && !is_looked_up(rel) &&
		!isOtherTempNamespace(get_rel_namespace(rte->relid));
}

static bool
is_large(RelOptInfo *rel, RelOptInfo *small)
{
	return rel->tuples >= LEAST_ROWS && rel->cheapest_total_path != NULL &&
		rel->cheapest_total_path->total_cost >= LEAST_COST_RATIO * small->cheapest_total_path->total_cost;
}

/* Of a foreign key PostgreSQL does not ask the clause: have it forget the key. */
static void
forget_foreign_key(PlannerInfo *root, EquivalenceClass *ec, RelOptInfo *large, RelOptInfo *small)
{
	ListCell   *lc;

	foreach(lc, root->fkey_list)
	{
		ForeignKeyOptInfo *key = lfirst_node(ForeignKeyOptInfo, lc);

		if (key->nkeys == 1 && key->con_relid == large->relid && key->ref_relid == small->relid && key->eclass[0] == ec)
			root->fkey_list = foreach_delete_current(root->fkey_list, lc);
	}
}

/* Have as many rows expected of a table as have been found, if these are more, in what has been planned of it already. */
static void
raise_rows(RelOptInfo *rel, double rows)
{
	double		factor = rows / Max(rel->rows, 1);
	ListCell   *lc;

	if (factor <= 1)
		return;
	rel->rows = rows;
	foreach(lc, rel->pathlist)
	{
		Path	   *path = lfirst(lc);

		if (path->param_info == NULL)
			path->rows = rows;
	}
	foreach(lc, rel->partial_pathlist)
		((Path *) lfirst(lc))->rows *= factor;
}

/*
 * What PostgreSQL says that it costs to look up each key of the small table in an
 * index of the large one; 0 if there is none, or no path that does so.
 */
static Cost
look_ups_cost(RelOptInfo *large, RelOptInfo *small)
{
	Cost		least = 0;
	ListCell   *lc;

	foreach(lc, large->pathlist)
	{
		Path	   *path = lfirst(lc);

		if ((IsA(path, IndexPath) || IsA(path, BitmapHeapPath) || IsA(path, AppendPath)) &&
			bms_equal(PATH_REQ_OUTER(path), small->relids) && (least == 0 || path->total_cost < least))
			least = path->total_cost;
	}
	return least * small->rows;
}

/* Are the look-ups of the small table's keys expensive enough that it matters whether these have rows? */
static bool
may_be_in_vain(RelOptInfo *large, RelOptInfo *small)
{
	return look_ups_cost(large, small) >= Max(LEAST_LOOK_UPS_COST * cpu_tuple_cost,
											  LEAST_LOOK_UPS_RATIO * small->cheapest_total_path->total_cost);
}

/* What may be expected of the keys that a filter keeps, in shares of the large table's rows. */
typedef struct Shares
{
	double		known;			/* of keys that statistics know of */
	double		unknown;		/* of the others, if they are as any key */
	double		most_unknown;	/* of the others at most */
} Shares;

static Shares
shares_of_keys(PlannerInfo *root, KeyStatistics *statistics, VariableStatData *large, const KeptKeys *kept)
{
	const AttStatsSlot *histogram = &statistics->histogram;
	Shares		shares = {0};
	int			first = 0;		/* of the keys in the histogram's range */
	int			end = 0;
	int			others;			/* of these that are not among the most common
								 * values */
	int			unknown;		/* neither */

	if (histogram->nvalues > 1)
	{
		first = count_below(statistics, kept, histogram->values[0], false);
		end = count_below(statistics, kept, histogram->values[histogram->nvalues - 1], true);
	}
	others = end - first;
	unknown = kept->nkeys - others;
	for (int i = 0; i < statistics->common.nvalues && kept->nkeys > 0; i++)
	{
		Datum		value = statistics->common.values[i];
		int			place;
		int			n = 0;

		/* most are neither among them nor between them */
		if (compare_values(statistics, value, kept->keys[0]) < 0 ||
			compare_values(statistics, value, kept->keys[kept->nkeys - 1]) > 0)
			continue;
		place = count_below(statistics, kept, value, false);
		while (place + n < kept->nkeys && compare_values(statistics, kept->keys[place + n], value) == 0)
			n++;
		shares.known += n * statistics->common.numbers[i];
		if (place >= first && place < end)
			others -= n;
		else
			unknown -= n;
	}
	shares.known += others * statistics->of_others;
	shares.unknown = unknown * statistics->average;
	if (unknown > 0)
		shares.most_unknown = share_out_of_range(root, statistics, large);
	return shares;
}

/*
 * Note where in the large table rows with the keys lie, if its rows lie in the
 * order of the column: there are as many pages between values of the histogram
 * that are next to each other.
 */
static void
note_place(PlannerInfo *root, const KeyStatistics *statistics, VariableStatData *data, RelOptInfo *large, AttrNumber column,
		   RelOptInfo *small, const KeptKeys *kept)
{
	const AttStatsSlot *histogram = &statistics->histogram;
	double		order = group_estimate_order(data->statsTuple);
	int			within = 1;

	if (order < LEAST_ORDER || kept->nkeys == 0 || histogram->nvalues < 2)
		return;
	for (int i = 0; i < histogram->nvalues; i++)
		within += compare_values(statistics, histogram->values[i], kept->keys[0]) > 0 &&
			compare_values(statistics, histogram->values[i], kept->keys[kept->nkeys - 1]) < 0;
	known_rows_note_place(root, large, column, small,
						  Min((double) within / (histogram->nvalues - 1) + sqrt(1 - order * order), 1));
}

/*
 * Note how few rows there are, if they are far fewer than PostgreSQL expects of
 * looking each key up in an index, that share of the rows, or of the join: plans
 * that find out soon are cheaper than they seem.
 */
static void
note_fewer(PlannerInfo *root, double looked_up, RelOptInfo *large, AttrNumber column, RelOptInfo *small,
		   const KeptKeys *kept, const Shares *shares, Selectivity expected)
{
	double		keys = Max(kept->nkeys, 1);
	double		small_rows = keys * LEAST_FACTOR <= small->rows ? keys : small->rows;
	double		share = Max(shares->known + Min(shares->unknown, shares->most_unknown), 1 / Max(large->tuples, 1));
	double		of_look_ups = share / (keys * looked_up);
	double		of_join = share / (small_rows * expected);

	if (of_look_ups * LEAST_FACTOR <= 1)
		known_rows_note_look_ups(root, large, column, small, of_look_ups);
	if (small_rows < small->rows)
		known_rows_note_relation(root, small->relids, small_rows / small->rows);
	if (of_join * LEAST_FACTOR <= 1)
		known_rows_note_relation(root, bms_union(large->relids, small->relids), of_join);
	if (of_look_ups * LEAST_FACTOR <= 1 || of_join * LEAST_FACTOR <= 1)
		plan_report(root, "joins of \"%s\" with \"%s\" are priced for %.0f rows by the %d keys that the latter's filter keeps",
					planner_rt_fetch(large->relid, root)->eref->aliasname,
					planner_rt_fetch(small->relid, root)->eref->aliasname, share * large->rows, kept->nkeys);
}

/* Have as many rows expected of a join as its keys have, if these are more than PostgreSQL expects. */
static void
raise_join(PlannerInfo *root, EquivalenceClass *ec, RestrictInfo *clause, RelOptInfo *large, RelOptInfo *small,
		   const KeptKeys *kept, double share, Selectivity core)
{
	double		pairs = large->rows * small->rows;
	RestrictInfo *turned;

	raise_rows(small, kept->nkeys);
	/* statistics may be older than keys, so it is not lowered */
	clause->norm_selec = Max(Min(share / Max(small->rows, 1), 1), core);
	turned = join_estimate_clause(root, ec, small, large);
	if (turned != NULL)
		turned->norm_selec = clause->norm_selec;
	join_estimate_note_raised(root, clause->norm_selec / core);
	forget_foreign_key(root, ec, large, small);
	plan_report(root, "joins of \"%s\" with \"%s\" are estimated by the %d keys that the latter's filter keeps, of %.0f rows instead of %.0f",
				planner_rt_fetch(large->relid, root)->eref->aliasname,
				planner_rt_fetch(small->relid, root)->eref->aliasname, kept->nkeys,
				clause->norm_selec * large->rows * small->rows, core * pairs);
}

/* A table whose rows are joined: the large one, or one of a UNION ALL. */
typedef struct Part
{
	RelOptInfo *rel;
	VariableStatData data;		/* of the column */
	KeyStatistics statistics;
} Part;

/* The column of a table below a UNION ALL that stands for one of its columns, or NULL if that is computed. */
static Var *
column_below(PlannerInfo *root, Index table, const Var *column)
{
	AppendRelInfo *info = root->append_rel_array[table];
	const Var  *above = info->parent_relid == column->varno ? column : column_below(root, info->parent_relid, column);
	Var		   *var = above == NULL ? NULL : list_nth(info->translated_vars, above->varattno - 1);

	/* a LATERAL one may have another table's */
	return var != NULL && IsA(var, Var) && var->varno == table && var->varattno > 0 && var->vartype == column->vartype &&
		var->varcollid == column->varcollid ? var : NULL;
}

/* The columns that a column of the large table stands for: itself, or those of the tables of a UNION ALL; NIL: not for us. */
static List *
columns_of_parts(PlannerInfo *root, Var *column)
{
	RelOptInfo *rel = find_base_rel(root, column->varno);
	List	   *columns = NIL;
	ListCell   *lc;

	if (rel->rtekind == RTE_RELATION)
		return list_make1(column);
	foreach(lc, planner_leaf_tables(root, rel))
	{
		RelOptInfo *leaf = lfirst(lc);
		Var		   *var;

		if (IS_DUMMY_REL(leaf))
			continue;
		var = column_below(root, leaf->relid, column);
		if (var == NULL)
			return NIL;
		columns = lappend(columns, var);
	}
	return columns;
}

/* Add what may be expected of the rows of one part, of which there are this share, to what is expected of all. */
static void
add_shares(Shares *all, const Shares *part, double share)
{
	all->known += part->known * share;
	all->unknown += part->unknown * share;
	all->most_unknown += part->most_unknown * share;
}

/*
 * Have the join of two tables by equality of two columns estimated by the keys
 * that the small one's filter keeps. They are read if there may be many more
 * rows than PostgreSQL expects, or if it would look them up in an index, which
 * takes little if most have none. Of a UNION ALL PostgreSQL has no statistics;
 * those of its tables are taken together.
 */
static void
estimate(PlannerInfo *root, EquivalenceClass *ec, Var *large_var, Var *small_var)
{
	RelOptInfo *large = find_base_rel(root, large_var->varno);
	RelOptInfo *small = find_base_rel(root, small_var->varno);
	List	   *conditions = conditions_of(small);
	List	   *columns = conditions == NIL ? NIL : columns_of_parts(root, large_var);
	int			nparts = list_length(columns);
	Part	   *parts;
	VariableStatData small_data;
	RestrictInfo *clause = NULL;
	KeptKeys   *kept = NULL;
	bool		known = true;
	bool		more = false;
	Selectivity core = 1;
	double		rows = 0;
	double		most = 0;
	double		looked_up = 0;

	if (columns == NIL)
		return;
	parts = palloc0(sizeof(Part) * nparts);
	examine_variable(root, (Node *) small_var, 0, &small_data);
	for (int i = 0; i < nparts; i++)
	{
		Var		   *column = list_nth(columns, i);
		Part	   *part = &parts[i];

		part->rel = find_base_rel(root, column->varno);
		examine_variable(root, (Node *) column, 0, &part->data);
		known &= get_statistics(root, &part->data, &small_data, small_var, ec->ec_opfamilies, &part->statistics);
		rows += part->rel->rows;
		most += most_of_keys(&part->statistics, small->rows) * part->rel->rows;
		looked_up += part->statistics.looked_up * part->rel->rows;
	}
	if (known)
	{
		bool		in_vain = may_be_in_vain(large, small);

		if ((most >= LEAST_ROWS || in_vain) && (clause = join_estimate_clause(root, ec, large, small)) != NULL)
		{
			core = join_estimate_core_selectivity(root, clause, large, small);
			more = most >= LEAST_ROWS && most >= LEAST_FACTOR * core * large->rows * small->rows;
			if (more || in_vain)
				kept = kept_keys_read(root, small, small_var->varattno, conditions);
		}
	}
	if (kept != NULL)
	{
		Shares		shares = {0};

		for (int i = 0; i < nparts; i++)
		{
			Shares		own = shares_of_keys(root, &parts[i].statistics, &parts[i].data, kept);

			add_shares(&shares, &own, parts[i].rel->rows / Max(rows, 1));
		}
		if (more)
			raise_join(root, ec, clause, large, small, kept, shares.known + shares.unknown, core);
		note_fewer(root, looked_up / Max(rows, 1), large, large_var->varattno, small, kept, &shares, clause->norm_selec);
		if (large->rtekind == RTE_RELATION)
			note_place(root, &parts[0].statistics, &parts[0].data, large, large_var->varattno, small, kept);
	}
	for (int i = 0; i < nparts; i++)
	{
		free_statistics(&parts[i].statistics);
		ReleaseVariableStats(parts[i].data);
	}
	ReleaseVariableStats(small_data);
}

/* The same with each other column of the class. */
static void
estimate_all(PlannerInfo *root, EquivalenceClass *ec, Var *small)
{
	RelOptInfo *rel = find_base_rel(root, small->varno);
	ListCell   *lc;

	foreach(lc, ec->ec_members)
	{
		Var		   *large = join_estimate_column(root, lfirst_node(EquivalenceMember, lc));

		if (large != NULL && large->varno != small->varno && large->vartype == small->vartype &&
			is_large(find_base_rel(root, large->varno), rel) &&
			!join_estimate_are_semijoined(root, rel, find_base_rel(root, large->varno)))
			estimate(root, ec, large, small);
	}
}

/* Estimate all joins of a query's tables with filtered ones. */
static void
estimate_by_keys(PlannerInfo *root)
{
	ListCell   *lc;

	foreach(lc, root->eq_classes)
	{
		EquivalenceClass *ec = lfirst_node(EquivalenceClass, lc);
		ListCell   *one;

		if (ec->ec_has_volatile || ec->ec_has_const || ec->ec_broken || list_length(ec->ec_members) < 2)
			continue;
		foreach(one, ec->ec_members)
		{
			Var		   *var = join_estimate_column(root, lfirst_node(EquivalenceMember, one));

			if (var != NULL && is_small(root, find_base_rel(root, var->varno)))
				estimate_all(root, ec, var);
		}
	}
}

/* The tables of a query have their paths, and no join of them has been looked at. */
static void
estimate_before_search(PlannerInfo *root)
{
	if (!estimate_joins || planner_wants_first_rows(root))
		return;
	estimate_by_keys(root);
	join_estimate_by_combinations(root);
	join_estimate_common_keys(root);
}

void
join_estimate_init(void)
{
	DefineCustomBoolVariable("pgbillion_rows.estimate_joins",
							 "Estimates joins by the keys that filters keep, and by how keys are distributed.",
							 "Keys that a filter keeps are read while the query is planned, where PostgreSQL's estimate may be far too low.",
							 &estimate_joins, true, PGC_USERSET, GUC_EXPLAIN,
							 NULL, NULL, NULL);
	planner_set_search_offer(estimate_before_search);
	planner_add_offer(join_estimate_limit_paths);
	planner_add_join_offer(join_estimate_expect);
}

/*-------------------------------------------------------------------------
 *
 * common_keys.c
 *	  Joins of several tables by one key, of which some values have more rows
 *	  than others in more than one table.
 *
 * PostgreSQL estimates the join of each two tables alone: of tables that are
 * joined by the same key, it multiplies how likely two rows are equal. A film
 * that everybody knows has many actors, many keywords and many companies, and so
 * most rows of their join are of a few films: there are the more of them than
 * expected, the more tables are joined. Nor do such products agree with each
 * other, as each depends on which two tables' columns are compared; and a search
 * that compares many orders of joins finds those of which it expects too little.
 *
 * Statistics tell how the rows of each table are distributed: of its most common
 * values by name, of the others by the bounds of a histogram. The range of all
 * tables' values is divided into cells, in which a table's rows are taken to be
 * distributed evenly among all values that there are. How likely rows of several
 * tables are all equal is then the sum, over cells, of the product of how likely
 * each has a given value of the cell, times the number of these values. A joined
 * relation is given as many rows, when it is first looked at, if these are more
 * than PostgreSQL expects. As statistics may be older than rows, and conditions
 * may have to do with the key, estimates are not lowered, with one exception:
 * PostgreSQL takes all values of one table to be among those of the other, also
 * of films in two short lists. Together with the table of all films, it expects
 * what chance gives, and so it should of these two alone.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "catalog/pg_statistic.h"
#include "catalog/pg_type.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "port/pg_bitutils.h"
#include "utils/lsyscache.h"
#include "utils/selfuncs.h"

#include "compat.h"
#include "join_estimate/join_estimate.h"
#include "planner/planner.h"
#include "planner/planner_memo.h"

/* How many times as many rows there have to be, and how many: of few, an order of joins found by chance does well, too. */
#define LEAST_FACTOR 2
#define LEAST_ROWS 1000
#define MOST_RAISED 1e9

/* Tables that are smaller need no estimate. */
#define LEAST_TUPLES 1000

/* How many of the rows of a table whose key is unique have a key of their own, as ANALYZE estimates it. */
#define UNIQUE_SHARE 0.9

/* Tables of a key, cells of a range, values that are cells of their own, and bounds of a histogram, at most. */
#define MOST_MEMBERS 64
#define MOST_CELLS 48
#define MOST_COMMON 384
#define MOST_BOUNDS 64

/* A value that is common in a table, and the share of its rows that have it. */
typedef struct Common
{
	double		value;
	double		share;
} Common;

/* How the rows of a table are distributed over the values of its key. */
typedef struct Member
{
	Index		table;
	double		tuples;
	double		different;		/* values */
	int			nbounds;
	double	   *bounds;			/* of the histogram */
	double		others;			/* share of the rows that it is about */
	int			ncommon;
	Common	   *common;			/* by value */
	bool		is_key;			/* a unique index says that no two rows have
								 * the same value */
	double	   *density;		/* in each cell: the share of the rows that
								 * have a value of it */
} Member;

/* A key by which tables are joined. */
typedef struct CommonKey
{
	EquivalenceClass *ec;
	int			nmembers;
	Member	   *members;
	uint64		keyed;			/* tables of which it is a unique key */
	double		all_values;		/* how many the largest of these has, if these
								 * are about all; else 0 */
	int			ncells;
	double	   *values;			/* how many there are in each cell */
} CommonKey;

/* Those of a query: its memo. */
typedef struct CommonKeys
{
	int			n;
	CommonKey  *keys;
} CommonKeys;

/* What has been expected of a joined relation, by one key. */
typedef struct Expected
{
	uint64		members;		/* tables of the key that have been joined by
								 * it */
	double		likelihood;		/* that their rows are equal, to PostgreSQL */
	double		raised;			/* how many times PostgreSQL's rows there are */
} Expected;

/* By all: the relation's memo. */
typedef struct ExpectedRows
{
	double		factor;			/* by which its rows were multiplied */
	Expected	keys[FLEXIBLE_ARRAY_MEMBER];
} ExpectedRows;

/* ---- distributions ---- */

/* A type that stands for all whose values are compared by the numbers that they are stored as; InvalidOid: none. */
static Oid
kind_of(Oid type)
{
	switch (type)
	{
		case INT2OID:
		case INT4OID:
		case INT8OID:
			return INT8OID;
		case DATEOID:
		case TIMESTAMPOID:
		case TIMESTAMPTZOID:
			/* a date is the first of many timestamps */
			return type;
		default:
			return InvalidOid;
	}
}

static double
number_of(Datum value, Oid type)
{
	switch (type)
	{
		case INT2OID:
			return DatumGetInt16(value);
		case INT4OID:
		case DATEOID:
			return DatumGetInt32(value);
		default:
			return (double) DatumGetInt64(value);
	}
}

static int
compare_common(const void *one, const void *other)
{
	double		a = ((const Common *) one)->value;
	double		b = ((const Common *) other)->value;

	return (a > b) - (a < b);
}

/* A share that statistics tell, which the owner of a table may have made up. */
static double
share_told(float4 share)
{
	return share > 0 ? Min(share, 1) : 0;
}

/* The first `n` of the most common values, and what share of the rows all others together have. */
static double
take_common(Member *member, const AttStatsSlot *slot, Oid type, int n)
{
	double		rest = 0;

	member->ncommon = Min(Min(slot->nvalues, slot->nnumbers), n);
	member->common = palloc(sizeof(Common) * Max(member->ncommon, 1));
	for (int i = 0; i < Min(slot->nvalues, slot->nnumbers); i++)
	{
		double		share = share_told(slot->numbers[i]);

		member->others -= share;
		if (i >= member->ncommon)
		{
			rest += share;
			continue;
		}
		member->common[i].value = number_of(slot->values[i], type);
		member->common[i].share = share;
	}
	qsort(member->common, member->ncommon, sizeof(Common), compare_common);

	return rest;
}

/* Bounds of a histogram, with as many rows between each two. */
static void
take_bounds(Member *member, const AttStatsSlot *slot, Oid type)
{
	member->nbounds = Min(slot->nvalues, MOST_BOUNDS + 1);
	member->bounds = palloc(sizeof(double) * Max(member->nbounds, 1));
	for (int i = 0; i < member->nbounds; i++)
	{
		int			bound = member->nbounds == slot->nvalues ? i :
			(int) ((int64) i * (slot->nvalues - 1) / MOST_BOUNDS);

		member->bounds[i] = number_of(slot->values[bound], type);
	}
}

/*
 * What statistics tell of a column, by up to `most` common values; false if that
 * is too little, or if they may not be used.
 */
static bool
describe(PlannerInfo *root, Var *column, int most, Member *member)
{
	VariableStatData data;
	AttStatsSlot slot;
	bool		isdefault;
	bool		known;
	double		rest = 0;

	memset(member, 0, sizeof(Member));
	examine_variable(root, (Node *) column, 0, &data);
	known = HeapTupleIsValid(data.statsTuple) && data.acl_ok;
	if (known)
	{
		member->table = column->varno;
		member->tuples = Max(data.rel->tuples, 1);
		member->different = Max(get_variable_numdistinct(&data, &isdefault), 1);
		member->others = 1 - share_told(((Form_pg_statistic) GETSTRUCT(data.statsTuple))->stanullfrac);
		if (get_attstatsslot(&slot, data.statsTuple, STATISTIC_KIND_MCV, InvalidOid,
							 ATTSTATSSLOT_VALUES | ATTSTATSSLOT_NUMBERS))
		{
			rest = take_common(member, &slot, column->vartype, most);
			free_attstatsslot(&slot);
		}
		if (get_attstatsslot(&slot, data.statsTuple, STATISTIC_KIND_HISTOGRAM, InvalidOid, ATTSTATSSLOT_VALUES))
		{
			take_bounds(member, &slot, column->vartype);
			free_attstatsslot(&slot);
		}

		/*
		 * less common ones are taken to be where the others are, if these are
		 * anywhere
		 */
		member->others = Min(Max(member->others, 0) + rest, 1);
		known = member->nbounds > 1 || (member->ncommon > 0 && rest == 0);
	}
	ReleaseVariableStats(data);

	return known;
}

/* Is a column a unique key of a table? */
static bool
has_unique_index(RelOptInfo *rel, AttrNumber column)
{
	ListCell   *lc;

	foreach(lc, rel->indexlist)
	{
		IndexOptInfo *index = lfirst_node(IndexOptInfo, lc);

		if (index->unique && index->nkeycolumns == 1 && index->indexkeys[0] == column && index->indpred == NIL)
			return true;
	}
	return false;
}

/* Does each row of a table have a key of its own, or nearly? */
static bool
is_unique(const Member *member)
{
	return member->is_key || member->different >= UNIQUE_SHARE * member->tuples;
}

/* The share of a table's rows whose values are less than a number, of those that its histogram is about. */
static double
share_below(const Member *member, double number)
{
	int			low = 0;
	int			high = member->nbounds - 1;
	double		width;

	if (member->nbounds < 2 || number <= member->bounds[0])
		return 0;
	if (number > member->bounds[high])
		return member->others;
	/* low is below the number, and high is not */
	while (high - low > 1)
	{
		int			middle = (low + high) / 2;

		if (member->bounds[middle] < number)
			low = middle;
		else
			high = middle;
	}
	width = member->bounds[high] - member->bounds[low];
	return member->others * (low + (width > 0 ? (number - member->bounds[low]) / width : 1)) / (member->nbounds - 1);
}

/*
 * Merge m more numbers into n, both in order, in an array that has room for all
 * of them; how many these are then, in order and each once. Bounds that somebody
 * made up need not be in order: of those some are left out.
 */
static int
merge_numbers(double *numbers, int n, const double *more, int m)
{
	double	   *end = numbers + n + m;
	int			kept = 0;

	/* from the end, so that none is in the way */
	for (int to = n + m - 1, i = n - 1, j = m - 1; to >= 0; to--)
		numbers[to] = j < 0 || (i >= 0 && numbers[i] > more[j]) ? numbers[i--] : more[j--];
	for (const double *from = numbers; from < end; from++)
		if (kept == 0 || *from > numbers[kept - 1])
			numbers[kept++] = *from;
	return kept;
}

/* Where cells begin, and where the last one ends: bounds of the tables' histograms, as many between each two; how many. */
static int
divide(const CommonKey *key, double *starts)
{
	int			n = 0;
	int			found;
	double	   *bounds;

	for (int i = 0; i < key->nmembers; i++)
		n += key->members[i].nbounds;
	bounds = palloc(sizeof(double) * Max(n + key->nmembers, 1));
	n = 0;
	for (int i = 0; i < key->nmembers; i++)
	{
		const Member *member = &key->members[i];

		n = merge_numbers(bounds, n, member->bounds, member->nbounds);
		/* the greatest value is in the last cell, too */
		if (member->nbounds > 0)
		{
			double		end = member->bounds[member->nbounds - 1] + 1;

			n = merge_numbers(bounds, n, &end, 1);
		}
	}
	found = Min(n, MOST_CELLS + 1);
	for (int i = 0; i < found; i++)
		starts[i] = bounds[found == n ? i : (int) ((int64) i * (n - 1) / (found - 1))];
	pfree(bounds);

	return found;
}

/* The values that are among the most common ones of some table, in order, each once; how many. */
static int
common_values(const CommonKey *key, double *values)
{
	double		more[MOST_COMMON];
	int			n = 0;

	for (int i = 0; i < key->nmembers; i++)
	{
		const Member *member = &key->members[i];

		/* describe() took an equal part of MOST_COMMON for each */
		Assert(n + member->ncommon <= MOST_COMMON);
		for (int v = 0; v < member->ncommon; v++)
			more[v] = member->common[v].value;
		n = merge_numbers(values, n, more, member->ncommon);
	}
	return n;
}

/* The share of a table's rows that have one value, which need not be among its most common ones. */
static double
share_of(const Member *member, double value, int cell)
{
	Common		wanted = {.value = value};
	const Common *found = bsearch(&wanted, member->common, member->ncommon, sizeof(Common), compare_common);

	if (found != NULL)
		return found->share;
	return cell >= 0 ? member->density[cell] : 0;
}

/*
 * Divide the values of a key into cells. Of a cell there are as many values as
 * the table has that has most of them.
 */
static void
distribute(CommonKey *key)
{
	double		starts[MOST_CELLS + 1];
	double		common[MOST_COMMON];
	int			nranges = Max(divide(key, starts) - 1, 0);
	int			ncommon = common_values(key, common);

	key->values = palloc(sizeof(double) * (nranges + ncommon + 1));
	for (int i = 0; i < key->nmembers; i++)
		key->members[i].density = palloc(sizeof(double) * (nranges + ncommon + 1));
	for (int c = 0; c < nranges; c++)
	{
		double		width = starts[c + 1] - starts[c];
		double		most = 1;

		for (int i = 0; i < key->nmembers; i++)
		{
			Member	   *member = &key->members[i];
			double		share = share_below(member, starts[c + 1]) - share_below(member, starts[c]);

			/* rows of TABLESAMPLE may be fewer than the values of the table */
			double		values = is_unique(member) ? Max(member->tuples, member->different) * share :
				(member->different - member->ncommon) * share / Max(member->others, 1e-9);

			member->density[c] = share;
			most = Max(most, Min(values, width));
		}
		key->values[c] = most;
		for (int i = 0; i < key->nmembers; i++)
			key->members[i].density[c] /= most;
	}
	for (int v = 0; v < ncommon; v++)
	{
		int			cell = -1;

		for (int c = 0; c < nranges; c++)
			if (common[v] >= starts[c] && common[v] < starts[c + 1])
				cell = c;
		key->values[nranges + v] = 1;
		for (int i = 0; i < key->nmembers; i++)
			key->members[i].density[nranges + v] = share_of(&key->members[i], common[v], cell);
	}
	key->ncells = nranges + ncommon;
}

/* How likely rows of these tables, one of each, have the same value. */
static double
likelihood(const CommonKey *key, uint64 members)
{
	const double *densities[MOST_MEMBERS];
	int			n = 0;
	double		sum = 0;

	for (int i = 0; i < key->nmembers; i++)
		if ((members >> i) & 1)
			densities[n++] = key->members[i].density;
	if (n < 2)
		return 1;
	for (int c = 0; c < key->ncells; c++)
	{
		double		product = key->values[c];

		for (int i = 0; i < n; i++)
			product *= densities[i][c];
		sum += product;
	}
	return sum;
}

/* ---- keys ---- */

/* Is a table inside a semijoin or an antijoin, whose rows are not joined but asked for? */
static bool
is_asked_for(PlannerInfo *root, Index table)
{
	ListCell   *lc;

	foreach(lc, root->join_info_list)
	{
		SpecialJoinInfo *join = lfirst_node(SpecialJoinInfo, lc);

		if ((join->jointype == JOIN_SEMI || join->jointype == JOIN_ANTI) && bms_is_member(table, join->syn_righthand))
			return true;
	}
	return false;
}

/* The column of a table that is large enough, and joined by it; or NULL. */
static Var *
column_of(PlannerInfo *root, EquivalenceMember *member)
{
	Var		   *column = join_estimate_column(root, member);
	RelOptInfo *rel;

	if (column == NULL || !OidIsValid(kind_of(column->vartype)))
		return NULL;
	rel = find_base_rel(root, column->varno);
	return rel->rtekind == RTE_RELATION && rel->tuples >= LEAST_TUPLES && !is_asked_for(root, column->varno) ? column : NULL;
}

/*
 * How many tables a class has, if it is for us: three, and two in which values may
 * repeat; else 0. Most have one, which takes little to find out. Of two alone,
 * PostgreSQL compares the most common values itself.
 */
static int
count_members(PlannerInfo *root, EquivalenceClass *ec)
{
	int			members = 0;
	int			repeating = 0;
	ListCell   *lc;

	if (ec->ec_has_volatile || ec->ec_has_const || ec->ec_broken || list_length(ec->ec_members) < 3)
		return 0;
	foreach(lc, ec->ec_members)
	{
		Var		   *column = column_of(root, lfirst_node(EquivalenceMember, lc));

		members += column != NULL;
		repeating += column != NULL && !has_unique_index(find_base_rel(root, column->varno), column->varattno);
	}
	return members >= 3 && repeating >= 2 ? Min(members, MOST_MEMBERS) : 0;
}

/* The tables of a class, of which there are about `n`. */
static void
find_members(PlannerInfo *root, EquivalenceClass *ec, int n, CommonKey *key)
{
	Relids		seen = NULL;
	Oid			kind = InvalidOid;
	ListCell   *lc;

	key->ec = ec;
	key->members = palloc(sizeof(Member) * n);
	foreach(lc, ec->ec_members)
	{
		Var		   *column = column_of(root, lfirst_node(EquivalenceMember, lc));
		Member	   *member = &key->members[key->nmembers];

		if (column == NULL || bms_is_member(column->varno, seen) || (OidIsValid(kind) && kind_of(column->vartype) != kind) ||
			key->nmembers == n || !describe(root, column, MOST_COMMON / n, member))
			continue;
		seen = bms_add_member(seen, column->varno);
		kind = kind_of(column->vartype);
		member->is_key = has_unique_index(find_base_rel(root, column->varno), column->varattno);
		key->keyed |= (uint64) member->is_key << key->nmembers;
		if (member->is_key)
			key->all_values = Max(key->all_values, member->tuples);
		key->nmembers++;
	}
	bms_free(seen);
}

/*
 * Are some values so common in some tables that it matters to the join of all, or
 * do tables have few of the values of a table that has all?
 */
static bool
matters(CommonKey *key)
{
	double		values = 0;
	double		evenly = 1;
	bool		few = false;

	for (int c = 0; c < key->ncells; c++)
		values += key->values[c];
	if (key->all_values * LEAST_FACTOR <= values)
		key->all_values = 0;
	for (int i = 1; i < key->nmembers; i++)
		evenly /= Max(values, 1);
	for (int i = 0; i < key->nmembers; i++)
		few |= key->members[i].different * LEAST_FACTOR <= key->all_values;
	return few || likelihood(key, ~UINT64CONST(0) >> (MOST_MEMBERS - key->nmembers)) >= LEAST_FACTOR * evenly;
}

/* Look at the keys by which a query's tables are joined, before any join has been looked at. */
void
join_estimate_common_keys(PlannerInfo *root)
{
	CommonKeys *common;
	ListCell   *lc;

	if (planner_memo_find(root, MEMO_COMMON_KEYS, root) != NULL)
		return;
	common = planner_memo_make(root, MEMO_COMMON_KEYS, root, sizeof(CommonKeys));
	common->keys = palloc0(sizeof(CommonKey) * Max(list_length(root->eq_classes), 1));
	foreach(lc, root->eq_classes)
	{
		EquivalenceClass *ec = lfirst_node(EquivalenceClass, lc);
		CommonKey  *key = &common->keys[common->n];
		int			members = count_members(root, ec);

		if (members == 0)
			continue;
		memset(key, 0, sizeof(CommonKey));
		find_members(root, ec, members, key);
		if (key->nmembers < 2)
			continue;
		distribute(key);
		common->n += matters(key);
	}
}

/* ---- joined relations ---- */

/* What is expected of a relation, by a key. */
static Expected
expected_of(PlannerInfo *root, const CommonKeys *common, int k, RelOptInfo *rel)
{
	const CommonKey *key = &common->keys[k];
	Expected	result = {.likelihood = 1,.raised = 1};
	const ExpectedRows *memo;

	if (rel->reloptkind == RELOPT_BASEREL)
	{
		for (int i = 0; i < key->nmembers; i++)
			if (key->members[i].table == rel->relid)
				result.members |= UINT64CONST(1) << i;
		return result;
	}

	/*
	 * joins of partitions have a memo without keys, and are part of no join
	 * of tables
	 */
	Assert(rel->reloptkind == RELOPT_JOINREL);
	memo = planner_memo_find(root, MEMO_EXPECTED, rel);
	return memo == NULL ? result : memo->keys[k];
}

/* How likely the clauses of a join that a key has given are true of a pair, to PostgreSQL. */
static double
likelihood_of_clauses(PlannerInfo *root, const CommonKey *key, const JoinPathExtraData *extra)
{
	double		result = 1;
	ListCell   *lc;

	foreach(lc, extra->restrictlist)
	{
		RestrictInfo *clause = lfirst_node(RestrictInfo, lc);

		if (clause->left_ec == key->ec && clause->right_ec == key->ec)
			result *= clause_selectivity(root, (Node *) clause, 0, JOIN_INNER, extra->sjinfo);
	}
	return result;
}

/* Have a joined relation and the paths that it has already expect `factor` times as many rows. */
static void
set_rows(RelOptInfo *joined, double factor)
{
	ListCell   *lc;

	joined->rows = clamp_row_est(joined->rows * factor);
	foreach(lc, joined->pathlist)
	{
		Path	   *path = lfirst(lc);

		if (path->param_info == NULL)
			path->rows = joined->rows;
	}
	foreach(lc, joined->partial_pathlist)
		((Path *) lfirst(lc))->rows = clamp_row_est(((Path *) lfirst(lc))->rows * factor);
}

/* How many times PostgreSQL's rows a joined relation has by one key, if `expected` of them are its own estimate. */
static double
raise_of(const CommonKey *key, const Expected *joined, double expected)
{
	int			n = pg_popcount64(joined->members);
	double		likely;
	double		more;

	if (n < 2 || joined->likelihood <= 0)
		return 1;
	likely = likelihood(key, joined->members);
	more = likely / joined->likelihood;
	if (more >= LEAST_FACTOR)
		return expected * more >= LEAST_ROWS ? Min(more, MOST_RAISED) : 1;
	if (key->all_values == 0 || (joined->members & key->keyed) != 0)
		return 1;

	/*
	 * of rows that statistics place elsewhere, there may be new ones: not
	 * below what chance gives
	 */
	more = Max(likely, pow(key->all_values, 1 - n)) / joined->likelihood;
	return more * LEAST_FACTOR <= 1 ? more : 1;
}

/*
 * What is known of a join of two relations before its rows are estimated anew.
 * An outer join has the rows of a side, each at least once: it is not set below
 * that, and what has been found of the other side does not go on.
 */
static Expected
expected_of_join(const Expected *left, const Expected *right, JoinType type)
{
	Expected	nothing = {.likelihood = 1,.raised = 1};
	Expected	result;

	switch (type)
	{
		case JOIN_INNER:
			result = left->members != 0 ? *left : *right;
			result.members = left->members | right->members;
			result.likelihood = left->likelihood * right->likelihood;
			result.raised = left->raised * right->raised;
			return result;
		case JOIN_LEFT:
		case JOIN_SEMI:
		case JOIN_ANTI:
#if PG_VERSION_NUM < 190000
		case JOIN_UNIQUE_INNER:
#endif
			return *left;
		case JOIN_FULL:
			return nothing;
		default:
			return *right;
	}
}

/* The rows of partitions that are joined follow those of the tables: the parent's join has been looked at before. */
static void
expect_of_partitions(PlannerInfo *root, RelOptInfo *joined)
{
	RelOptInfo *parent = find_join_rel(root, joined->top_parent_relids);
	const ExpectedRows *above = parent == NULL ? NULL : planner_memo_find(root, MEMO_EXPECTED, parent);
	ExpectedRows *memo;

	if (above == NULL || above->factor == 1)
		return;
	memo = planner_memo_make(root, MEMO_EXPECTED, joined, sizeof(ExpectedRows));
	memo->factor = above->factor;
	set_rows(joined, memo->factor);
}

/* A joined relation is looked at; when that is done first, its rows are estimated. */
void
join_estimate_expect(PlannerInfo *root, RelOptInfo *joined, RelOptInfo *outer, RelOptInfo *inner, JoinType type,
					 JoinPathExtraData *extra)
{
	const CommonKeys *common = planner_memo_find(root, MEMO_COMMON_KEYS, root);
	ExpectedRows *memo;
	double		raised = 1;

	/* a genetic search makes joined relations anew, where others were */
	if (common == NULL || common->n == 0 || !planner_completes_joins(root) ||
		planner_memo_find(root, MEMO_EXPECTED, joined) != NULL)
		return;
	if (joined->reloptkind != RELOPT_JOINREL)
	{
		expect_of_partitions(root, joined);
		return;
	}
	memo = planner_memo_make(root, MEMO_EXPECTED, joined,
							 offsetof(ExpectedRows, keys) + sizeof(Expected) * common->n);
	memo->factor = 1;
	for (int k = 0; k < common->n; k++)
	{
		const CommonKey *key = &common->keys[k];
		Expected	left = expected_of(root, common, k, outer);
		Expected	right = expected_of(root, common, k, inner);
		Expected	found = expected_of_join(&left, &right, type);
		double		before = found.raised;

		if (type == JOIN_INNER && left.members != 0 && right.members != 0)
			found.likelihood *= likelihood_of_clauses(root, key, extra);

		/*
		 * other joins may have left so few rows that they are not raised any
		 * more
		 */
		if (type != JOIN_LEFT && type != JOIN_RIGHT)
			found.raised = raise_of(key, &found, joined->rows * memo->factor / before);
		memo->factor *= found.raised / before;
		raised *= Max(found.raised, 1);
		memo->keys[k] = found;
	}
	if (memo->factor != 1)
		set_rows(joined, memo->factor);
	if (raised > 1 && bms_is_subset(root->all_baserels, joined->relids))
	{
		join_estimate_note_raised(root, raised);
		plan_report(root, "joins by keys of which some values are common in several tables are estimated to return %.0f rows instead of %.0f",
					joined->rows, joined->rows / raised);
	}
}

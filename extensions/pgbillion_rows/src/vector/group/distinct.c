/*-------------------------------------------------------------------------
 *
 * distinct.c
 *	  DISTINCT within aggregates: each value advances its group's state once.
 *
 * Each such aggregate has a table of its own of the values seen, with several
 * groups of pairs of a value and the address of its group's entry. Values of
 * integers and the like are in a set of their own (value_set.c), and looked for
 * when enough of them have come together; others are keys of a table of groups.
 * Values that are new go to the aggregate's kind in a batch of their own. Without
 * groups, a value that the source has as a code is looked for once per dictionary. Kinds
 * whose result depends on the order of values, or on which of several equal values
 * they are given, are refused: PostgreSQL sorts the values and takes the first.
 *
 * Memory: each table gets an equal share of hash_mem, and so does that of the
 * groups. When a table is full, values that it does not hold are spilled in
 * partitions, with their entries; when the source has ended, these are read one
 * after the other, each with an empty table. An entry stays where it is until
 * its groups have been returned, so that its address is as good as a key.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/typcache.h"

#include "compat.h"
#include "vector/group/distinct.h"
#include "vector/group/group_table.h"
#include "vector/group/value_set.h"
#include "vector/keys/group_key.h"
#include "vector/spill/spill.h"

/* The columns of a batch of values. */
#define VALUE_ATTNO 1
#define ENTRY_ATTNO 2

/* How many times the values that find room are expected, before the first are spilled. */
#define FIRST_EXPECTATION 20

typedef struct Distinct
{
	VectorAgg  *agg;
	VectorExpr *argument;		/* over the batch that is consumed; the
								 * aggregate's own is over the next: */
	Batch		batch;			/* of values, dense and not NULL; numerics
								 * that are summed are as they were stored */
	Source		source;			/* of that, where it is filled here */
	bool		varlena;
	bool		grouped;
	ValueSet   *set;			/* of values whose bits tell, or NULL and: */
	GroupTable *seen;
	Size		limit;			/* of what either may take */

	/* codes whose values have been looked for, of a dictionary */
	int			determinant;	/* column from whose value the argument
								 * follows; -1: codes are of no use */
	bool		known;			/* is there such a dictionary? */
	uint64		serial;			/* of it */
	bool	   *met;			/* of each code, or NULL */
	int			room;			/* number of those that have room */

	MemoryContext spill_context;
	MemoryContext work_context; /* of a batch read back */
	Spill	   *spill;			/* being written, or NULL */
	List	   *partitions;		/* waiting to be read */
	int			level;			/* how often the current values were written */
	double		expected;		/* upper bound of the number of values */
} Distinct;

struct Distincts
{
	int			n;
	Distinct   *of;
};

/* ---- for the planner ---- */

/* Do values of an expression that are equal look the same in all respects? */
bool
distinct_equal_is_same(Expr *expr)
{
	switch (getBaseType(exprType((Node *) expr)))
	{
		case BOOLOID:
		case INT2OID:
		case INT4OID:
		case INT8OID:
		case DATEOID:
		case TIMESTAMPOID:
		case TIMESTAMPTZOID:
		case TEXTOID:
		case VARCHAROID:
			return true;
		case NUMERICOID:
			/* a column with a scale has nothing of another display scale */
			return IsA(expr, Var) && ((Var *) expr)->varattno > 0 && ((Var *) expr)->vartypmod >= (int32) VARHDRSZ;
		default:
			return false;
	}
}

/* Why DISTINCT within an aggregate that is otherwise for us is not, or NULL. */
const char *
distinct_refusal(Aggref *aggref)
{
	SortGroupClause *clause;
	Expr	   *argument;

	if (aggref->aggorder != NIL || list_length(aggref->aggdistinct) != 1 || list_length(aggref->args) != 1)
		return "DISTINCT together with ORDER BY in an aggregate";
	clause = linitial_node(SortGroupClause, aggref->aggdistinct);
	argument = linitial_node(TargetEntry, aggref->args)->expr;
	if (group_key_refusal(argument) != NULL)
		return "DISTINCT in an aggregate of values that cannot be hashed or are of a nondeterministic collation";
	if (clause->eqop != lookup_type_cache(exprType((Node *) argument), TYPECACHE_EQ_OPR)->eq_opr)
		return "DISTINCT in an aggregate by another equality than the type's own";
	if (aggregate_adds_floats(aggref))
		return "a sum of DISTINCT floats, which PostgreSQL adds in order";
	if (!aggregate_counts(aggref) && !distinct_equal_is_same(argument))
		return "DISTINCT in an aggregate of values that can be equal and look different";
	return NULL;
}

/* ---- compilation ---- */

static void
no_states(void *arg, char *entry)
{
}

static const SourceMethods filled_methods = {0};

/* Prepare an aggregate's batch of values and the table of those seen. */
static void
prepare(Distinct *distinct, VectorAgg *agg, Aggref *aggref, Batch *batch, bool grouped, Size limit)
{
	Expr	   *expr = linitial_node(TargetEntry, aggref->args)->expr;
	Oid			types[2] = {exprType((Node *) expr), INT8OID};
	Oid			collations[2] = {exprCollation((Node *) expr), InvalidOid};
	int32		typmod = exprTypmod((Node *) expr);
	TupleDesc	tupdesc = CreateTemplateTupleDesc(grouped ? 2 : 1);
	Bitmapset  *attnos = bms_make_singleton(VALUE_ATTNO);

	TupleDescInitEntry(tupdesc, VALUE_ATTNO, NULL, types[0], typmod, 0);
	if (grouped)
	{
		TupleDescInitEntry(tupdesc, ENTRY_ATTNO, NULL, types[1], -1, 0);
		attnos = bms_add_member(attnos, ENTRY_ATTNO);
	}
	TupleDescFinalize(tupdesc);
	batch_init(&distinct->batch, tupdesc, NULL, attnos, batch->parent);
	Assert(batch_index(&distinct->batch, VALUE_ATTNO) == 0);
	distinct->source.methods = &filled_methods;
	distinct->agg = agg;
	distinct->argument = agg->argument;
	distinct->grouped = grouped;
	distinct->determinant = grouped ? -1 : vector_expr_determinant(agg->argument);
	distinct->varlena = get_typlen(types[0]) == -1;
	agg->argument = vector_expr_compile((Expr *) makeVar(1, VALUE_ATTNO, types[0], typmod, collations[0], 0),
										&distinct->batch);
	distinct->limit = limit;
	if (group_key_is_bits(types[0]))
		distinct->set = value_set_create(get_typlen(types[0]), limit);
	else
	{
		distinct->seen = group_table_create(grouped ? 2 : 1, grouped ? 2 : 1, types, collations, 0, no_states, NULL);
		group_table_set_limit(distinct->seen, limit);
		group_table_spill(distinct->seen);
	}
	distinct->spill_context = AllocSetContextCreate(CurrentMemoryContext, "pgbillion spilled values",
													ALLOCSET_DEFAULT_SIZES);
	distinct->work_context = AllocSetContextCreate(CurrentMemoryContext, "pgbillion values",
												   ALLOCSET_DEFAULT_SIZES);
}

/*
 * Take over the aggregates with DISTINCT, which aggregates_advance() leaves
 * out; NULL if there is none. Memory belongs to the current context.
 */
Distincts *
distincts_create(Aggregates *aggregates, List *outputs, Batch *batch, bool grouped)
{
	Distincts  *result;
	int			n = 0;
	Size		limit;

	for (int i = 0; i < aggregates->n; i++)
		n += aggregates->aggs[i]->distinct;
	if (n == 0)
		return NULL;
	result = palloc0(sizeof(Distincts));
	result->of = palloc0(sizeof(Distinct) * n);
	limit = aggregates_share(aggregates, grouped);
	for (int i = 0; i < aggregates->n; i++)
	{
		VectorAgg  *agg = aggregates->aggs[i];

		if (!agg->distinct)
			continue;
		for (int output = 0; output < list_length(outputs); output++)
		{
			if (aggregates->of_output[output] == agg)
			{
				prepare(&result->of[result->n++], agg, list_nth_node(Aggref, outputs, output), batch, grouped,
						limit);
				break;
			}
		}
	}
	Assert(result->n == n);

	return result;
}

/* ---- consuming ---- */

/* How many values are resident. */
static int64
count_values(Distinct *distinct)
{
	return distinct->set != NULL ? value_set_count(distinct->set) : group_table_count(distinct->seen);
}

/* Spill values of the batch, which found no room. */
static void
spill_missing(Distinct *distinct, const uint16 *missing, int n, const uint64 *tags)
{
	if (distinct->spill == NULL)
	{
		int64		resident = count_values(distinct);
		double		expected = distinct->level > 0 ? distinct->expected : (double) resident * FIRST_EXPECTATION;
		MemoryContext old = MemoryContextSwitchTo(distinct->spill_context);

		distinct->spill = spill_begin(&distinct->batch, distinct->level + 1, expected, resident,
									  distinct->limit);
		MemoryContextSwitchTo(old);
	}
	spill_rows(distinct->spill, missing, n, tags);
}

/* The same as find_new(), of values that a table of groups has as keys. */
static int
find_new_keys(Distinct *distinct, uint16 *rows)
{
	Batch	   *batch = &distinct->batch;
	Values		keys[2];
	char	   *found[BATCH_ROWS];

	for (int c = 0; c < batch->ncolumns; c++)
	{
		keys[c].values = batch->columns[c].values;
		keys[c].nulls = batch->columns[c].nulls;
		keys[c].has_nulls = false;
	}
	if (group_table_find(distinct->seen, keys, batch->n, found) > 0)
	{
		uint16		missing[BATCH_ROWS];
		int			n = 0;

		for (int i = 0; i < batch->n; i++)
		{
			missing[n] = i;
			n += found[i] == NULL;
		}
		spill_missing(distinct, missing, n, group_table_tags(distinct->seen));
		group_table_clear_overflow(distinct->seen);
	}
	return group_table_added(distinct->seen, rows);
}

/* List the values of the batch which their groups have not seen, and return how many; spill those without room. */
static int
find_new(Distinct *distinct, uint16 *rows)
{
	Batch	   *batch = &distinct->batch;
	uint16		missing[BATCH_ROWS];
	int			nmissing;
	int			n;

	if (distinct->set == NULL)
		return find_new_keys(distinct, rows);
	n = value_set_add(distinct->set, batch->columns[0].values,
					  distinct->grouped ? batch->columns[1].values : NULL, batch->n, rows, missing, &nmissing);
	if (nmissing > 0)
		spill_missing(distinct, missing, nmissing, value_set_tags(distinct->set));
	return n;
}

/* Advance the states by the values of the batch which their groups have not seen; none is left in it. */
static void
advance_new(Distinct *distinct, char *single)
{
	Batch	   *batch = &distinct->batch;
	char	   *entries[BATCH_ROWS];
	uint16		rows[BATCH_ROWS];
	RowGroups	groups;
	int			n;

	if (batch->n == 0)
		return;
	batch->serial++;
	n = find_new(distinct, rows);
	if (n > 0)
	{
		batch_keep(batch, rows, n, true);
		if (distinct->grouped)
		{
			for (int i = 0; i < n; i++)
				entries[i] = (char *) DatumGetPointer(batch->columns[1].values[i]);
		}
		group_rows_init(&groups, single, entries);
		groups.filled = distinct->grouped;
		aggregate_advance(distinct->agg, batch, NULL, n, &groups);
	}
	batch->n = 0;
}

/* Begin with a dictionary of which no value has been looked for. */
static void
begin_codes(Distinct *distinct, const Codes *codes)
{
	if (codes->n > distinct->room)
	{
		if (distinct->met != NULL)
			pfree(distinct->met);
		distinct->room = Max(codes->n, SHORT_CODES);
		distinct->met = MemoryContextAlloc(GetMemoryChunkContext(distinct->batch.columns), distinct->room);
	}
	memset(distinct->met, 0, sizeof(bool) * codes->n);
	distinct->serial = codes->serial;
	distinct->known = true;
}

/*
 * Of the n rows listed, or of the batch's first n, list those whose codes have
 * not been met, and return how many. False if there are no codes.
 */
static bool
list_new_codes(Distinct *distinct, Batch *batch, const uint16 *rows, int n, uint16 *fresh, int *nfresh)
{
	Codes		codes;
	int			k = 0;

	if (distinct->determinant < 0 || !batch_codes(batch, distinct->determinant, &codes))
		return false;
	if (!distinct->known || distinct->serial != codes.serial)
		begin_codes(distinct, &codes);
	for (int i = 0; i < n; i++)
	{
		int			row = rows != NULL ? rows[i] : i;
		int			code = codes.codes != NULL ? codes.codes[row] : codes.long_codes[row];

		fresh[k] = row;
		k += !distinct->met[code];
		distinct->met[code] = true;
	}
	*nfresh = k;
	return true;
}

/*
 * Add the values of the n rows listed, or of the batch's first n, that are not
 * NULL to the current ones, for which there must be room.
 */
static void
take_values(Distinct *distinct, Batch *batch, const uint16 *rows, int n, RowGroups *groups)
{
	Batch	   *own = &distinct->batch;
	Datum	   *to = own->columns[0].values;
	Datum	   *entry = distinct->grouped ? own->columns[1].values : NULL;
	char	  **entries = distinct->grouped ? group_entries(groups, batch->n) : NULL;
	uint16		fresh[BATCH_ROWS];
	Values		values;
	int			k = own->n;

	Assert(k + n <= BATCH_ROWS);
	if (list_new_codes(distinct, batch, rows, n, fresh, &n))
		rows = fresh;
	if (n == 0)
		return;
	vector_expr_eval(distinct->argument, batch, rows, n, &values);
	for (int i = 0; i < n; i++)
	{
		if (values.has_nulls && values.nulls[i])
			continue;
		to[k] = distinct->varlena ? PointerGetDatum(PG_DETOAST_DATUM_PACKED(values.values[i])) : values.values[i];
		if (entry != NULL)
			entry[k] = PointerGetDatum(entries[rows != NULL ? rows[i] : i]);
		k++;
	}
	for (int c = 0; c < own->ncolumns; c++)
	{
		own->columns[c].loaded = true;
		own->columns[c].has_nulls = false;
	}
	own->source = &distinct->source;
	own->n = k;
}

/*
 * Add the rows of a batch to their groups, which must all be resident. Called
 * in the batch's memory.
 */
void
distincts_advance(Distincts *distincts, Batch *batch, RowGroups *groups)
{
	uint16		rows[BATCH_ROWS];

	for (int i = 0; distincts != NULL && i < distincts->n; i++)
	{
		Distinct   *distinct = &distincts->of[i];
		VectorFilter *filter = distinct->agg->filter;

		Assert(distinct->grouped == (groups->single == NULL));
		if (distinct->batch.n + batch->n > BATCH_ROWS)
			advance_new(distinct, groups->single);
		if (filter != NULL)
			take_values(distinct, batch, rows, vector_filter_rows(filter, batch, rows), groups);
		else
			take_values(distinct, batch, NULL, batch->n, groups);
		/* values by reference are the batch's */
		if (distinct->set == NULL)
			advance_new(distinct, groups->single);
	}
}

/* ---- what was spilled ---- */

/* Forget the values that are resident. */
static void
forget_values(Distinct *distinct)
{
	distinct->known = false;
	if (distinct->set != NULL)
		value_set_reset(distinct->set);
	else
		group_table_reset(distinct->seen);
}

/* Have what was spilled ready to be read. */
static void
end_spill(Distinct *distinct, uint64 *partitions, uint64 *bytes)
{
	MemoryContext old;
	List	   *written;

	if (distinct->spill == NULL)
		return;
	old = MemoryContextSwitchTo(distinct->spill_context);
	written = spill_end(distinct->spill, bytes);
	*partitions += list_length(written);
	/* before those of other partitions: there are never many files */
	distinct->partitions = list_concat(written, distinct->partitions);
	distinct->spill = NULL;
	MemoryContextSwitchTo(old);
}

/* Advance the states by the values of a partition, which is closed. */
static void
read_partition(Distinct *distinct, SpillPartition *partition, char *single)
{
	Source	   *source = spill_source(partition);
	MemoryContext old = MemoryContextSwitchTo(distinct->work_context);

	distinct->level = spill_level(partition);
	distinct->expected = spill_count(partition);
	distinct->batch.source = source;
	while (source->methods->next(source, &distinct->batch))
	{
		CHECK_FOR_INTERRUPTS();
		advance_new(distinct, single);
		MemoryContextReset(distinct->work_context);
	}
	MemoryContextSwitchTo(old);
	source->methods->end(source);
}

/*
 * The source has ended: finish the states, and forget the values. The files
 * written are added to partitions and bytes.
 */
void
distincts_finish(Distincts *distincts, char *single, uint64 *partitions, uint64 *bytes)
{
	for (int i = 0; distincts != NULL && i < distincts->n; i++)
	{
		Distinct   *distinct = &distincts->of[i];

		advance_new(distinct, single);
		end_spill(distinct, partitions, bytes);
		while (distinct->partitions != NIL)
		{
			SpillPartition *partition = linitial(distinct->partitions);

			distinct->partitions = list_delete_first(distinct->partitions);
			forget_values(distinct);
			read_partition(distinct, partition, single);
			end_spill(distinct, partitions, bytes);
		}
	}
	distincts_forget(distincts);
}

/* Forget all values; the next batch is the first of new groups. */
void
distincts_forget(Distincts *distincts)
{
	for (int i = 0; distincts != NULL && i < distincts->n; i++)
	{
		Distinct   *distinct = &distincts->of[i];

		/* a source that has begun to be consumed is consumed to its end */
		Assert(distinct->spill == NULL && distinct->partitions == NIL);
		forget_values(distinct);
		distinct->batch.n = 0;
		MemoryContextReset(distinct->spill_context);
		distinct->level = 0;
	}
}

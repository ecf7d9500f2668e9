/*-------------------------------------------------------------------------
 *
 * probe.c
 *	  A join as a source: the rows of another source that match.
 *
 * A batch of the input is looked up in the hash table together. Rows without a
 * match are removed from it where they are of no use. What is left gives pairs
 * of a row and an entry, up to a batch of them at a time:
 *
 *	inner, left		all matches of a row, one after the other; a left join's
 *					rows without any are paired with nothing
 *	semi, anti		with no further condition the first match decides; else
 *					each row's next match is tried, until one satisfies it
 *	reversed		a match marks the entry, which is paired until then; at the
 *					end of the input an antijoin's rows are those without mark
 *
 * The hash tables of all joins are filled when the first row is asked for, those
 * that cost least first. Once one of them leaves no rows, no other inner side is
 * read, and none if a small table has no rows that the filter keeps. Before a
 * table is filled that takes longer than to read the big table does, that one is
 * read up to the first row that the joins so far leave.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "executor/instrument.h"
#include "miscadmin.h"
#include "utils/memutils.h"

#include "vector/join/probe.h"

/* Does the first match decide, or rows without any? */
static inline bool
decides_once(const VectorJoin *join)
{
	return join->type == JOIN_SEMI || join->type == JOIN_ANTI;
}

/* ---- values of the output ---- */

static void
set_no_nulls(Column *column)
{
	if (column->dirty)
		memset(column->nulls, 0, sizeof(bool) * BATCH_ROWS);
	column->dirty = column->has_nulls = false;
}

/* Gather a column of the input. */
static void
gather_input(VectorJoin *join, int n, int from, Column *column)
{
	const Column *input;
	const uint16 *rows = join->rows;

	if (join->without_rows)
	{
		memset(column->values, 0, sizeof(Datum) * n);
		memset(column->nulls, true, sizeof(bool) * n);
		column->has_nulls = column->dirty = true;
		return;
	}
	input = batch_column(join->input, from);
	for (int i = 0; i < n; i++)
		column->values[i] = input->values[rows[i]];
	if (!input->has_nulls)
	{
		set_no_nulls(column);
		return;
	}
	for (int i = 0; i < n; i++)
		column->nulls[i] = input->nulls[rows[i]];
	column->has_nulls = column->dirty = true;
}

/* Gather a column of the build side; where there is no entry it is NULL. */
static void
gather_build(VectorJoin *join, int n, int from, Column *column)
{
	JoinEntry **entries = join->entries;
	bool		any = false;

	for (int i = 0; i < n; i++)
	{
		const JoinEntry *entry = entries[i];
		bool		isnull = entry == NULL || join_table_entry_null(join->build->table, entry, from);

		column->values[i] = isnull ? (Datum) 0 : entry->values[from];
		column->nulls[i] = isnull;
		any |= isnull;
	}
	column->has_nulls = any;
	column->dirty |= any;
}

static void
load(Source *source, Batch *batch, int c)
{
	VectorJoin *join = (VectorJoin *) source;
	Column	   *column = &batch->columns[c];

	Assert(batch == join->output);
	if (join->origins[c] >= 0)
		gather_input(join, batch->n, join->origins[c], column);
	else
		gather_build(join, batch->n, -1 - join->origins[c], column);
	column->loaded = true;
}

/* Columns are loaded one by one, anyway. */
static void
load_only(Source *source, Batch *batch, const int *columns, int n)
{
}

static bool
is_cheap(Source *source, Batch *batch, int c)
{
	VectorJoin *join = (VectorJoin *) source;

	return join->origins[c] < 0 || join->without_rows || batch_at_hand(join->input, join->origins[c]);
}

static bool
has_no_nulls(Source *source, Batch *batch, int c)
{
	VectorJoin *join = (VectorJoin *) source;
	Batch	   *input = join->input;
	int			from = join->origins[c];

	if (from < 0 || join->without_rows)
		return false;
	if (input->columns[from].loaded)
		return !input->columns[from].has_nulls;
	return input->source->methods->has_no_nulls != NULL &&
		input->source->methods->has_no_nulls(input->source, input, from);
}

/* Of columns of the build side it takes no less to look at the values. */
static bool
find_nulls(Source *source, Batch *batch, int c, bool *nulls)
{
	VectorJoin *join = (VectorJoin *) source;
	int			from = join->origins[c];
	bool		found[BATCH_ROWS];

	if (from < 0 || join->without_rows || !batch_find_nulls(join->input, from, NULL, join->input->n, found))
		return false;
	for (int i = 0; i < batch->n; i++)
		nulls[i] = found[join->rows[i]];
	return true;
}

/* Gather an array of numbers of the input, which `packed` of the output refers to until then. */
static void
gather_packed(VectorJoin *join, int n, PackedPairs *packed)
{
	const uint16 *rows = join->rows;
	const Packed input = packed->packed;

	if (packed->elements == NULL)
	{
		MemoryContext context = GetMemoryChunkContext(join);

		packed->elements = MemoryContextAlloc(context, sizeof(uint64) * BATCH_ROWS);
		packed->nulls = MemoryContextAlloc(context, sizeof(bool) * BATCH_ROWS);
	}
#define GATHER(type) \
	for (int i = 0; i < n; i++) \
		((type *) packed->elements)[i] = ((const type *) input.array)[rows[i]]

	switch (input.width)
	{
		case 1:
			GATHER(uint8);
			break;
		case 2:
			GATHER(uint16);
			break;
		case 4:
			GATHER(uint32);
			break;
		default:
			GATHER(uint64);
			break;
	}
#undef GATHER
	packed->packed.array = packed->elements;
	packed->packed.nulls = NULL;
	for (int i = 0; i < n && input.nulls != NULL; i++)
	{
		packed->nulls[i] = input.nulls[rows[i]];
		if (packed->nulls[i])
			packed->packed.nulls = packed->nulls;
	}
}

/* Of numerics, which take long to be made. Integers are gathered as Datums in the same time. */
static bool
packed_pairs(Source *source, Batch *batch, int c, bool with_nulls, Packed *result)
{
	VectorJoin *join = (VectorJoin *) source;
	PackedPairs *packed = &join->packed[c];
	int			from = join->origins[c];

	Assert(batch == join->output);
	if (batch->columns[c].type != NUMERICOID || from < 0 || join->without_rows)
		return false;
	if (packed->serial != batch->serial)
	{
		if (!batch_packed_nulls(join->input, from, &packed->packed))
			return false;
		Assert(packed->packed.kind == PACKED_DECIMALS);
		gather_packed(join, batch->n, packed);
		packed->serial = batch->serial;
	}
	*result = packed->packed;
	return with_nulls || result->nulls == NULL;
}

static void
keep(Source *source, Batch *batch, const uint16 *rows, int n)
{
	VectorJoin *join = (VectorJoin *) source;

	for (int i = 0; i < n; i++)
	{
		join->rows[i] = join->rows[rows[i]];
		join->entries[i] = join->entries[rows[i]];
	}
}

/* ---- the input ---- */

/* Keep those rows of the input that may be of use; false if there are none. */
static bool
keep_useful(VectorJoin *join)
{
	Batch	   *input = join->input;
	bool		matches = join->type != JOIN_ANTI || join->reversed;
	uint16		rows[BATCH_ROWS];
	int			n = 0;

	/* of which rows there is an answer only with the further condition */
	if (!join_drops_unmatched(join) && (join->type == JOIN_LEFT || join->quals != NULL))
		return true;
	for (int i = 0; i < input->n; i++)
	{
		rows[n] = i;
		n += (join->next[i] != NULL) == matches;
	}
	if (n == input->n)
		return n > 0;
	for (int i = 0; i < n; i++)
		join->next[i] = join->next[rows[i]];
	if (!join_keys_direct(join->join_keys))
	{
		/* arrays of our own */
		for (int k = 0; k < join_keys_count(join->join_keys); k++)
			for (int i = 0; i < n; i++)
				join->values[k].values[i] = join->values[k].values[rows[i]];
	}
	batch_keep(input, rows, n, true);

	return n > 0;
}

/* Look the rows of the input up; false if none of them is of use. */
static bool
look_up(VectorJoin *join)
{
	Batch	   *input = join->input;
	uint64		tags[BATCH_ROWS];
	bool		known[BATCH_ROWS];

	join_find_tags(join, tags, known);
	join_table_find(join->build->table, join->values, tags, known, input->n, join->next);
	if (join->marked_keys != NULL)
		join_key_filter_forget(join->marked_keys, join->build, tags, join->next, input->n);
	if (!keep_useful(join))
		return false;
	join->phase = PAIRS_MATCHES;
	join->row = 0;
	memset(join->matched, 0, sizeof(bool) * input->n);

	return true;
}

/* ---- pairs ---- */

/* Have the next rows of the input, possibly none; false at the end of its source. */
static bool
read_input(VectorJoin *join)
{
	Batch	   *input = join->input;
	Source	   *source = input->source;
	int			removed = 0;

	ResetExprContext(input->econtext);
	/* what was written, and what joins give, has been filtered */
	if (source != join->below || join->filter == NULL)
		return vector_filter_next(NULL, input);
	if (!source->methods->next(source, input))
		return false;
	input->serial++;
	if (join->key_filter != NULL)
		join_key_filter_batch(join->key_filter, input);
	if (input->n > 0)
		removed = vector_filter_finally(join->filter, input);
	InstrCountFiltered2(input->parent, removed);

	return true;
}

/* There are no more rows to match: return those of the table that none has. */
static void
begin_walk(VectorJoin *join)
{
	join->slot = 0;
	join->entry = NULL;
	join->phase = PAIRS_UNMARKED;
}

/* Have some rows of the input to be paired, or of the table to be returned; false at the end. */
static bool
next_input(VectorJoin *join)
{
	Batch	   *input = join->input;
	MemoryContext old = MemoryContextSwitchTo(input->econtext->ecxt_per_tuple_memory);

	while (join->phase == PAIRS_NONE)
	{
		CHECK_FOR_INTERRUPTS();
		if (join->exhausted)
		{
			if (!join_next_partition(join))
				break;
			join->exhausted = false;
		}
		join->exhausted = !join->ahead && !read_input(join);
		join->ahead = false;
		if (join->exhausted)
		{
			if (join_returns_unmarked(join))
				begin_walk(join);
		}
		else if (input->n == 0)
			continue;
		else if (join->spill != NULL)
			join_spill_input(join);
		else
			(void) look_up(join);
	}
	MemoryContextSwitchTo(old);

	return join->phase != PAIRS_NONE;
}

/* Pairs of rows and all of their matches; how many. */
static int
pair_all(VectorJoin *join)
{
	int			n = 0;
	int			row = join->row;
	bool		alone = join->type == JOIN_LEFT && join->quals == NULL;
	bool		twins = join_table_has_twins(join->build->table);

	while (n < BATCH_ROWS && row < join->input->n)
	{
		JoinEntry  *entry = join->next[row];

		if (entry != NULL || alone)
		{
			join->rows[n] = row;
			join->entries[n++] = entry;
		}
		if (entry != NULL && twins)
		{
			join->next[row] = join_table_next(join->build->table, join->values, row, entry);
			if (join->next[row] != NULL)
				continue;
		}
		row++;
	}
	join->row = row;
	if (row == join->input->n)
		join->phase = join->type == JOIN_LEFT && !alone ? PAIRS_UNMATCHED : PAIRS_NONE;

	return n;
}

/* Pairs of the rows that are undecided, each with its next match; how many. */
static int
pair_undecided(VectorJoin *join)
{
	int			n = 0;

	for (int row = 0; row < join->input->n; row++)
	{
		JoinEntry  *entry = join->next[row];

		if (entry == NULL || join->matched[row])
			continue;
		join->rows[n] = row;
		join->entries[n++] = entry;
		join->next[row] = join_table_next(join->build->table, join->values, row, entry);
	}
	if (n == 0)
		join->phase = join->type == JOIN_ANTI ? PAIRS_UNMATCHED : PAIRS_NONE;

	return n;
}

/*
 * The rows that semijoins and antijoins are about once matches are known; how
 * many. What a semijoin's rows match may be looked at above, in place of the
 * equal keys; antijoins' match nothing.
 */
static int
pair_decided(VectorJoin *join)
{
	for (int row = 0; row < join->input->n; row++)
	{
		join->rows[row] = row;
		join->entries[row] = join->next[row];
	}
	join->phase = PAIRS_NONE;

	return join->input->n;
}

/* Rows that no match has satisfied, paired with nothing; how many. */
static int
pair_unmatched(VectorJoin *join)
{
	int			n = 0;

	for (int row = 0; row < join->input->n; row++)
	{
		join->rows[n] = row;
		join->entries[n] = NULL;
		n += !join->matched[row];
	}
	join->phase = PAIRS_NONE;

	return n;
}

/*
 * Of a reversed join: pairs of rows and those of their matches that are not
 * marked; how many. With no further condition they are marked now, and an
 * antijoin needs no pairs.
 */
static int
pair_unmarked_matches(VectorJoin *join)
{
	JoinTable  *table = join->build->table;
	bool		decided = join->quals == NULL;
	bool		twins = join_table_has_twins(table);
	int			n = 0;
	int			row = join->row;

	while (n < BATCH_ROWS && row < join->input->n)
	{
		JoinEntry  *entry = join->next[row];

		if (entry == NULL)
		{
			row++;
			continue;
		}
		join->next[row] = twins ? join_table_next(table, join->values, row, entry) : NULL;
		if (join_table_marked(table, entry))
			continue;
		if (decided)
			join_table_mark(table, entry);
		if (!decided || join->type == JOIN_SEMI)
		{
			join->rows[n] = row;
			join->entries[n++] = entry;
		}
	}
	join->row = row;
	if (row == join->input->n)
		join->phase = PAIRS_NONE;

	return n;
}

/* Rows of the table that are not marked, paired with nothing; how many. */
static int
pair_unmarked(VectorJoin *join)
{
	JoinTable  *table = join->build->table;
	int			n = 0;
	uint64		tag;

	while (n < BATCH_ROWS)
	{
		if (!join_table_dump(table, &join->slot, &join->entry, &tag))
		{
			join->phase = PAIRS_NONE;
			break;
		}
		join->rows[n] = 0;
		join->entries[n] = join->entry;
		n += !join_table_marked(table, join->entry);
	}
	return n;
}

/* The output's rows are now these pairs. */
static void
begin_output(VectorJoin *join, int n)
{
	Batch	   *output = join->output;

	for (int c = 0; c < output->ncolumns; c++)
		output->columns[c].loaded = false;
	output->n = n;
	output->serial++;
}

/*
 * Of a reversed join, pairs that satisfy the further condition: mark their
 * entries, and keep a semijoin's pair of each entry that was not marked.
 */
static void
mark_satisfied(VectorJoin *join)
{
	Batch	   *output = join->output;
	uint16		rows[BATCH_ROWS];
	int			n = 0;

	for (int i = 0; i < output->n; i++)
	{
		if (join_table_marked(join->build->table, join->entries[i]))
			continue;
		join_table_mark(join->build->table, join->entries[i]);
		rows[n] = i;
		n += join->type == JOIN_SEMI;
	}
	if (n < output->n)
		batch_keep(output, rows, n, true);
}

/*
 * Keep the pairs that satisfy the further condition, and remember of which
 * rows they are.
 */
static void
check_pairs(VectorJoin *join)
{
	(void) vector_filter_batch(join->quals, join->output);
	if (join->reversed)
	{
		mark_satisfied(join);
		return;
	}
	for (int i = 0; i < join->output->n; i++)
		join->matched[join->rows[i]] = true;
	if (join->type == JOIN_ANTI)
		join->output->n = 0;
}

/* Fill the output with the next pairs of the input's rows, possibly none. */
static void
next_pairs(VectorJoin *join)
{
	Batch	   *output = join->output;
	bool		candidates = join->phase == PAIRS_MATCHES && join->quals != NULL;
	int			n;

	join->without_rows = join->phase == PAIRS_UNMARKED;
	if (join->phase == PAIRS_UNMARKED)
		n = pair_unmarked(join);
	else if (join->phase == PAIRS_UNMATCHED)
		n = pair_unmatched(join);
	else if (join->reversed)
		n = pair_unmarked_matches(join);
	else if (!decides_once(join))
		n = pair_all(join);
	else if (join->quals != NULL)
		n = pair_undecided(join);
	else
		n = pair_decided(join);
	begin_output(join, n);
	if (n > 0 && candidates)
		check_pairs(join);
	if (output->n > 0 && join->others != NULL)
		(void) vector_filter_batch(join->others, output);
}

/* Fill the table from the plan, unless it holds its rows. */
static void
build_table(VectorJoin *join)
{
	MemoryContext old;

	if (join->built)
		return;
	old = MemoryContextSwitchTo(join->input->parent->state->es_query_cxt);
	if (join->spill_context == NULL)
		join->spill_context = AllocSetContextCreate(GetMemoryChunkContext(join), "pgbillion spilled join",
													ALLOCSET_DEFAULT_SIZES);
	if (join->read)
		ExecReScan(join->build->plan);
	join->read = join->built = true;
	MemoryContextSwitchTo(old);
	join_fill_table(join, join->build->rows, 0);
}

/* The join whose rows a join reads, or NULL if it reads the table's. */
static VectorJoin *
join_below(const VectorJoin *join)
{
	return join->below->methods == &join_methods ? (VectorJoin *) join->below : NULL;
}

/* Is a table built that leaves no row of the input? As PostgreSQL does, do not look at rows that nothing can match. */
static bool
leaves_nothing(const VectorJoin *join)
{
	return join->built && !join->divided && join_drops_unmatched(join) && join_table_count(join->build->table) == 0;
}

/* Has a join rows if that below it has none? It is asked for joins from the last one down to one that is not included. */
static bool
has_rows_without(const VectorJoin *last, const VectorJoin *below)
{
	for (const VectorJoin *join = last; join != below; join = join_below(join))
	{
		if (join_returns_unmarked(join))
			return true;
	}
	return false;
}

/* Does a join, of which there is a table, leave no rows of the last one? */
static bool
leaves_none_of(const VectorJoin *last, const VectorJoin *join)
{
	return leaves_nothing(join) && !has_rows_without(last, join);
}

/*
 * Which table is to be built before another one: one that may leave nothing,
 * and of these one that costs less, or is expected to have fewer rows. That
 * depends on nothing but the plan, so that processes which run inner sides
 * together come to them in one order.
 */
static bool
is_before(const VectorJoin *one, const VectorJoin *other)
{
	if (join_drops_unmatched(one) != join_drops_unmatched(other))
		return join_drops_unmatched(one);
	return one->cost < other->cost;
}

/* The next table to be built of a join and those below, or NULL: all are. */
static VectorJoin *
next_to_build(VectorJoin *last)
{
	VectorJoin *next = NULL;

	for (VectorJoin *join = last; join != NULL; join = join_below(join))
	{
		if (!join->built && (next == NULL || is_before(join, next)))
			next = join;
	}
	return next;
}

/*
 * Read ahead the input of a join, up to the first rows that it has. False if
 * there are none. Tables below have been built.
 */
static bool
read_ahead(VectorJoin *join)
{
	MemoryContext old = MemoryContextSwitchTo(join->input->econtext->ecxt_per_tuple_memory);

	while (!join->ahead && read_input(join))
	{
		CHECK_FOR_INTERRUPTS();
		join->ahead = join->input->n > 0;
	}
	MemoryContextSwitchTo(old);

	return join->ahead;
}

/* The table's rows are about to be read: have keys of the joins that are built leave some of them out. */
static void
begin_table(VectorJoin *first)
{
	if (first->key_filter != NULL)
		join_key_filter_begin(first->key_filter);
	if (first->look_ups != NULL)
		join_look_ups_begin(first->look_ups);
}

/*
 * Do the joins leave any row whose tables are built, up to the first one whose
 * table is not? Rows are read once: those that come first wait for the other
 * tables, whose keys remove some of the next ones. Where rows have been written
 * to files nothing is read ahead, as all of them would have to be.
 */
static bool
leave_some(VectorJoin *last)
{
	VectorJoin *lowest = last;
	VectorJoin *first = last;

	for (VectorJoin *join = last; join != NULL; join = join_below(join))
	{
		if (!join->built)
			lowest = join;
		first = join;
	}
	for (VectorJoin *join = join_below(lowest); join != NULL; join = join_below(join))
	{
		if (join->divided)
			return true;
	}
	if (lowest == first && !first->ahead)
		begin_table(first);
	return read_ahead(lowest);
}

/*
 * Build the tables of the last join and of those below. False, as soon as one
 * of them leaves nothing of all rows, or there are no rows: then other inner
 * sides are not read.
 */
static bool
build_tables(VectorJoin *last)
{
	VectorJoin *first = last;
	bool		may_read = !has_rows_without(last, NULL);
	VectorJoin *next;

	for (VectorJoin *join = last; join != NULL; join = join_below(join))
	{
		if (leaves_none_of(last, join))
			return false;
		/* keys of the last time might remove rows of this one */
		may_read &= !join->read;
		first = join;
	}
	if (first->is_small && may_read && !read_ahead(first))
		return false;
	while ((next = next_to_build(last)) != NULL)
	{
		if (next->dear && may_read && !leave_some(last))
			return false;
		build_table(next);
		if (leaves_none_of(last, next))
			return false;
	}
	return true;
}

/* Begin to read the rows of the last join. Those below begin with it. */
static void
begin(VectorJoin *last)
{
	bool		ended = !build_tables(last);

	for (VectorJoin *join = last; join != NULL; join = join_below(join))
	{
		join->begun = true;
		join->ended = ended;
		if (join_below(join) == NULL && !ended)
			begin_table(join);
	}
}

static bool
next_rows(Source *source, Batch *batch)
{
	VectorJoin *join = (VectorJoin *) source;

	Assert(batch == join->output);
	if (!join->begun)
		begin(join);
	do
	{
		CHECK_FOR_INTERRUPTS();
		ResetExprContext(batch->econtext);
		if (join->ended)
			return false;
		if (join->phase == PAIRS_NONE && !next_input(join))
		{
			join->ended = true;
			return false;
		}
		next_pairs(join);
	} while (batch->n == 0);

	return true;
}

/*
 * End reading. The table is kept if it holds all of the plan's rows; else the
 * plan is to be read again.
 */
static void
end(Source *source)
{
	VectorJoin *join = (VectorJoin *) source;

	if (join->input->source != join->below)
		join->input->source->methods->end(join->input->source);
	join->input->source = join->below;
	join->below->methods->end(join->below);
	join_forget_partitions(join);
	if (join->divided)
		join->built = join->divided = false;
	if (join->reversed && join->built)
		join_table_clear_marks(join->build->table);
	join->begun = join->exhausted = join->ended = join->ahead = false;
	join->phase = PAIRS_NONE;
}

/* Parallel workers share what is below all joins. */
const SourceMethods join_methods = {
	.next = next_rows,
	.load = load,
	.load_only = load_only,
	.is_cheap = is_cheap,
	.has_no_nulls = has_no_nulls,
	.find_nulls = find_nulls,
	.packed = packed_pairs,
	.keep = keep,
	.end = end,
};

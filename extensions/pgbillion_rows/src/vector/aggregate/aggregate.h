/*-------------------------------------------------------------------------
 *
 * aggregate.h
 *	  Transition states of aggregates: the interface of a kind of aggregate.
 *
 * A kind is known by PostgreSQL's transition functions. A family of kinds is a
 * file with an array of AggKind; aggregate.c has the table of families. To add
 * one, write the file, and name its array here and there.
 *
 * A state lives in a group's entry. What is returned is the transition value,
 * in the serialized form that PostgreSQL's partial aggregation would give it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGBILLION_VECTOR_AGGREGATE_H
#define PGBILLION_VECTOR_AGGREGATE_H

#include "access/htup.h"
#include "nodes/primnodes.h"

#include "column_index/kernels.h"
#include "vector/aggregate/linear.h"
#include "vector/expression/expression.h"
#include "vector/filter/filter.h"

/* Maximum number of groups with numbers, for which what rows add to them is collected for a batch. */
#define SMALL_GROUPS SHORT_CODES

/*
 * The groups of some rows. Where each row has a number, entries are filled in
 * only when somebody asks: group_entries(), group_counts().
 */
typedef struct RowGroups
{
	char	   *single;			/* the entry of all rows, or NULL and: */
	char	  **entries;		/* of each row: room for them, if not filled */
	bool		filled;
	int			nids;			/* 0, or each row's group has a number below
								 * it */
	const uint8 *ids;
	char	  **by_id;			/* different numbers are different groups;
								 * NULL where no row has the number */
	bool		counted;
	uint64		counts[SMALL_GROUPS];	/* rows of each number */
} RowGroups;

/* Groups of rows whose entries, or numbers, are to be set. What is counted is left as it is: it is large. */
static inline void
group_rows_init(RowGroups *groups, char *single, char **entries)
{
	groups->single = single;
	groups->entries = entries;
	groups->filled = groups->counted = false;
	groups->nids = 0;
	groups->ids = NULL;
	groups->by_id = NULL;
}

/* The entries of the n rows; not with `single`. */
static inline char **
group_entries(RowGroups *groups, int n)
{
	Assert(groups->single == NULL);
	if (!groups->filled)
	{
		Assert(groups->nids > 0);
		for (int i = 0; i < n; i++)
			groups->entries[i] = groups->by_id[groups->ids[i]];
		groups->filled = true;
	}
	return groups->entries;
}

/* How many of the n rows each number has. */
static inline const uint64 *
group_counts(RowGroups *groups, int n)
{
	Assert(groups->nids > 0 && groups->nids <= SMALL_GROUPS);
	if (!groups->counted)
	{
		memset(groups->counts, 0, sizeof(groups->counts[0]) * groups->nids);
		column_kernels()->count_codes(groups->ids, n, groups->nids, groups->counts);
		groups->counted = true;
	}
	return groups->counts;
}

/* Where what states point to is allocated. */
typedef struct StateMemory
{
	MemoryContext context;

	/* except that of entries which lie between these two, if there are any */
	const char *overflow;
	const char *overflow_end;
	MemoryContext overflow_context;
} StateMemory;

typedef struct VectorAgg VectorAgg;
typedef struct SharedSum SharedSum;

/* The values of an argument of several aggregates. */
typedef struct SharedValues
{
	uint64		serial;			/* of the batch whose rows they are of, or 0 */
	Values		values;
} SharedValues;

typedef struct AggKind
{
	/* PostgreSQL's functions that do the same; unused places are 0 */
	Oid			transitions[8];
	int			state_size;

	/* the state begins with this, as text; NULL: with nothing */
	const char *initial;

	/* the kind to take where only avg() looks at the state; NULL: this one */
	const struct AggKind *for_average;

	bool		counts;			/* it looks at no value, only for NULLs */
	bool		is_output;		/* the state is the transition value, a Datum
								 * by value that is never NULL */
	bool		adds_floats;	/* the order of rows matters */
	bool		uses_ids;		/* it gains from knowing the numbers of groups */
	bool		by_row;			/* PostgreSQL's function is called for each
								 * row */
	bool		sums_integers;	/* the state is the count and the sum of
								 * integers: integer_derive() */
	bool		wide;			/* ... and the sum has 128 bits */

	/* Once, to make what agg->own points to. NULL: nothing. */
	void		(*prepare) (VectorAgg *agg, Aggref *aggref, HeapTuple tuple);

	/* A new group's state, which is zeroed. NULL: that is all. */
	void		(*init) (void *state);

	/*
	 * Add n rows, of which these are the groups. One of the two is there: the
	 * first is given the argument's values, dense; the second evaluates what
	 * it needs for the rows listed, or for the batch's first n. Errors are
	 * those that PostgreSQL's function raises.
	 */
	void		(*advance) (VectorAgg *agg, const Values *argument, int n, RowGroups *groups);
	void		(*advance_batch) (VectorAgg *agg, Batch *batch, const uint16 *rows, int n,
								  RowGroups *groups);

	/*
	 * Tried before advance() where the argument is a column that the source
	 * has as an array of numbers. False if it is not for this array, or if an
	 * error may have to be raised: nothing has changed. NULL: never.
	 */
	bool		(*advance_packed) (VectorAgg *agg, const Packed *packed, int n, RowGroups *groups);

	/*
	 * The same for two aggregates of one column in one pass over the array,
	 * this one and one of the kind `mate`. NULL: there is no such kind.
	 */
	const struct AggKind *mate;
	bool		(*advance_packed_both) (VectorAgg *agg, VectorAgg *mate, const Packed *packed, int n,
										RowGroups *groups);

	/*
	 * Add other states of the same groups to those in n entries, as
	 * PostgreSQL's combine function does. States can be copied bytewise then,
	 * together with what they point to. An entry may be there more than once.
	 * NULL: it cannot be done.
	 */
	void		(*combine) (VectorAgg *agg, char **entries, char **others, int n);

	/*
	 * Of kinds with combine(): the one place in the state that holds the
	 * address of an allocated varlena, or NULL there. NULL: there is none.
	 */
	struct varlena **(*apart) (void *state);

	/* The transition value in the current context; *isnull is false before. */
	Datum		(*output) (const VectorAgg *agg, const void *state, bool *isnull);
} AggKind;

struct VectorAgg
{
	const AggKind *kind;
	int			offset;			/* of the state in a group's entry */
	VectorExpr *argument;		/* NULL for count(*) */
	SharedValues *argument_values;	/* others have the same argument; or NULL */
	VectorFilter *filter;		/* FILTER (WHERE …), or NULL */
	bool		distinct;		/* it is not for aggregates_advance() */
	VectorAgg  *mate;			/* to be advanced with this one, or NULL */
	bool		is_mate;		/* it is another's */
	int			others;			/* column of the batch with the addresses of
								 * entries whose states are to be added, or -1 */
	ssize_t		others_shift;	/* distance of the places in these from those
								 * here */
	SharedSum  *shared;			/* it is the base of others, or NULL */
	const VectorAgg *base;		/* its state follows from that one's, and it
								 * has none of its own; or NULL */
	const Linear *linear;		/* ... as its argument does from the base's */
	const StateMemory *memory;
	void	   *own;			/* the kind's */
};

/* The sum of a column, from which sums of linear expressions of it follow. */
struct SharedSum
{
	int			column;
	int64		low;			/* for these values of the column none of the
								 * expressions raises an error */
	int64		high;
	int			n;
	VectorAgg **derived;
};

/* The memory of what an entry's states point to. */
static inline MemoryContext
agg_context(const VectorAgg *agg, const char *entry)
{
	const StateMemory *memory = agg->memory;

	return entry >= memory->overflow && entry < memory->overflow_end ?
		memory->overflow_context : memory->context;
}

/*
 * The loops of advance(), once for one group and once for many, once with
 * NULLs and once without: BODY sees the state as s and the value as v. With
 * one group the state is worked on in a local copy, which the compiler keeps
 * in registers.
 */
#define FOR_VALUES(type, BODY) \
	do { \
		int			offset = agg->offset; \
		char	   *single = groups->single; \
		char	  **entries = single != NULL ? NULL : group_entries(groups, n); \
		const Datum *values = argument->values; \
		const bool *nulls = argument->nulls; \
		if (single != NULL) \
		{ \
			type		local = *(type *) (single + offset); \
			type	   *s = &local; \
			if (!argument->has_nulls) \
				for (int i = 0; i < n; i++) { Datum v = values[i]; BODY; } \
			else \
				for (int i = 0; i < n; i++) { if (!nulls[i]) { Datum v = values[i]; BODY; } } \
			*(type *) (single + offset) = local; \
		} \
		else if (!argument->has_nulls) \
			for (int i = 0; i < n; i++) \
			{ type *s = (type *) (entries[i] + offset); Datum v = values[i]; BODY; } \
		else \
			for (int i = 0; i < n; i++) \
			{ \
				if (!nulls[i]) \
				{ type *s = (type *) (entries[i] + offset); Datum v = values[i]; BODY; } \
			} \
	} while (0)

/* The loop of combine(): BODY sees the state as s, and the one to be added as o. */
#define FOR_STATES(type, BODY) \
	do { \
		int			offset = agg->offset; \
		for (int i = 0; i < n; i++) \
		{ \
			type	   *s = (type *) (entries[i] + offset); \
			const type *o = (const type *) (others[i] + offset); \
			BODY; \
		} \
	} while (0)

/* ---- families: arrays that end with a kind without a function ---- */

extern const AggKind count_kinds[];
extern const AggKind integer_kinds[];
extern const AggKind float_kinds[];
extern const AggKind numeric_kinds[];
extern const AggKind extreme_kinds[];
extern const AggKind extreme_numeric_kinds[];
extern const AggKind extreme_text_kinds[];
extern const AggKind by_row_kinds[];

/* ---- aggregate.c ---- */

/* The aggregates among some outputs. Those of one transition have one state. */
typedef struct Aggregates
{
	int			n;
	VectorAgg **aggs;
	VectorAgg **of_output;		/* of each output, or NULL where it is none */
	int			size;			/* of all states together */
	bool		uses_ids;
	int			nordered;		/* those that collect values of ordered-set
								 * aggregates */
	VectorAgg **ordered;
	char	   *single;			/* the entry of the one group, or NULL and: */
	TupleTableSlot *keys;		/* of a group, for direct arguments; NULL:
								 * none needs them */
	void		(*show_keys) (void *arg, char *entry);	/* ... have them there */
	void	   *show_keys_of;
	int			ninits;			/* those with a kind that has init() */
	VectorAgg **inits;
	int			npointers;		/* those whose states point to something */
	VectorAgg **pointers;
} Aggregates;

extern const char *aggregate_refusal_of(Aggref *aggref);
extern bool aggregate_adds_floats(Aggref *aggref);
extern bool aggregate_may_depend_on_order(Aggref *aggref);
extern bool aggregate_can_combine(Aggref *aggref);
extern bool aggregate_only_counts(Aggref *aggref);
extern bool aggregate_counts(Aggref *aggref);
extern Aggregates *aggregates_compile(List *outputs, Batch *batch, int offset, const StateMemory *memory, bool apart);
extern Size aggregates_share(const Aggregates *aggregates, bool grouped);
extern void aggregates_begin(Aggregates *aggregates, char *single);
extern void aggregates_finish(Aggregates *aggregates, uint64 *partitions, uint64 *bytes);
extern void aggregates_forget(Aggregates *aggregates);
extern int	aggregates_kernels(const Aggregates *aggregates, int noutputs);
extern void aggregates_init(void *aggregates, char *entry);
extern struct varlena **aggregates_pointer(void *aggregates, char *entry, int i);
extern void aggregate_advance(VectorAgg *agg, Batch *batch, const uint16 *rows, int n, RowGroups *groups);
extern void aggregates_combine(Aggregates *aggregates, char **entries, char **others, int n);
extern void aggregates_take_states(Aggregates *aggregates, int output, const Aggregates *others, int other, int column);
extern void aggregates_advance(Aggregates *aggregates, Batch *batch, RowGroups *groups);

/* ---- shared_sum.c ---- */

extern void aggregates_share_sums(VectorAgg **aggs, Aggref **aggrefs, int n, Batch *batch, List **bases);
extern void shared_sum_check(const SharedSum *shared, Batch *batch);

/* ---- integer.c ---- */

extern const AggKind *integer_sum_kind(Oid type, bool wide);
extern Datum integer_derived_output(const VectorAgg *agg, const char *entry, bool *isnull);

/* The transition value of an output of a group, in the current context. */
static inline Datum
aggregates_output(const Aggregates *aggregates, int output, const char *entry, bool *isnull)
{
	const VectorAgg *agg = aggregates->of_output[output];

	*isnull = false;
	if (agg->base != NULL)
		return integer_derived_output(agg, entry, isnull);
	return agg->kind->output(agg, entry + agg->offset, isnull);
}

/* The same of n groups. */
static inline void
aggregates_outputs(const Aggregates *aggregates, int output, char *const *entries, int n, Datum *values, bool *nulls)
{
	const VectorAgg *agg = aggregates->of_output[output];

	if (agg->base == NULL && agg->kind->is_output)
	{
		for (int i = 0; i < n; i++)
			values[i] = *(const Datum *) (entries[i] + agg->offset);
		memset(nulls, 0, sizeof(bool) * n);
		return;
	}
	for (int i = 0; i < n; i++)
		values[i] = aggregates_output(aggregates, output, entries[i], &nulls[i]);
}

#endif							/* PGBILLION_VECTOR_AGGREGATE_H */

/*-------------------------------------------------------------------------
 *
 * predicate.h
 *	  The truth of a condition for the rows of a batch: the interface of its
 *	  kernels.
 *
 * A kernel compiles a form of conditions and evaluates it. filter.c has the
 * table of kernels. To add one, write a file, and name the kernel here and
 * there.
 *
 * Comparisons are one kernel, which has a table of its own in compare.c, with
 * a family of types per file.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGBILLION_VECTOR_PREDICATE_H
#define PGBILLION_VECTOR_PREDICATE_H

#include "catalog/pg_type.h"

#include "vector/expression/expression.h"
#include "vector/expression/kernel.h"

/* What a row is: as SQL has it. */
#define TRUTH_FALSE 0
#define TRUTH_TRUE 1
#define TRUTH_NULL 2

typedef struct Predicate Predicate;
typedef struct PredicateContext PredicateContext;

typedef struct PredicateKernel
{
	/*
	 * Compile a condition, in the current context; NULL if it is not for this
	 * kernel, or for none.
	 */
	Predicate  *(*compile) (Expr *expr, const PredicateContext *context);

	/*
	 * The truth for the n rows listed, or for the batch's first n, dense.
	 * False if PostgreSQL has to find it.
	 */
	bool		(*eval) (Predicate *predicate, Batch *batch, const uint16 *rows, int n, uint8 *truth);

	/*
	 * Instead of eval(), of predicates that are compiled only as a term of a
	 * filter: list those of these rows for which it is true, and return how
	 * many. The list may take the place of that of the rows.
	 */
	int			(*select) (Predicate *predicate, Batch *batch, const uint16 *rows, int n,
						   uint16 *selected);

	/*
	 * Make a term one with the next, which is of this kernel too, if that can
	 * be. NULL: never.
	 */
	bool		(*merge) (Predicate *first, Predicate *second);

	/*
	 * Is it true for no row of the next batches, as far as their source
	 * knows? It may have the source leave out some of them. Must not do what
	 * might raise an error. NULL: that is never known.
	 */
	bool		(*excludes) (Predicate *predicate, Batch *batch);

	/*
	 * The same as select(), if the source has an array of numbers of this
	 * batch, which takes less than to look codes of a dictionary up; else -1.
	 * NULL: always.
	 */
	int			(*select_packed) (Predicate *predicate, Batch *batch, const uint16 *rows, int n,
								  uint16 *selected);
} PredicateKernel;

/* Each kernel's own struct begins with it. */
struct Predicate
{
	const PredicateKernel *kernel;
	bool		costly;			/* strings, which may have to be fetched, or
								 * parameters: not for rows decided without */
	bool		of_nulls;		/* asks only which rows have NULL in a column */
	uint8	   *truth;			/* room for it, for predicates that combine
								 * several */
};

struct PredicateContext
{
	Batch	   *batch;

	/*
	 * It is a term of a filter: it is evaluated only for rows that survived
	 * the terms before, so that an operand may raise an error.
	 */
	bool		top;

	/*
	 * It must not raise an error whatever a row holds: rows are evaluated
	 * that PostgreSQL might never have come to.
	 */
	bool		certain;

	/* what compiles the parts of a condition; NULL if one has no kernel */
	Predicate  *(*compile) (Expr *expr, const PredicateContext *context);
};

/* ---- comparisons ---- */

/* <> is negated =. */
typedef enum CompareOp
{
	OP_LT,
	OP_LE,
	OP_EQ,
	OP_GE,
	OP_GT,
	OP_NE
} CompareOp;

/* The comparison with its sides exchanged. */
static inline CompareOp
commuted_op(CompareOp op)
{
	switch (op)
	{
		case OP_LT:
			return OP_GT;
		case OP_LE:
			return OP_GE;
		case OP_GE:
			return OP_LE;
		case OP_GT:
			return OP_LT;
		default:
			return op;
	}
}

typedef struct Comparison Comparison;
typedef struct Range Range;

/* How values of two types are compared. */
typedef struct CompareKind
{
	bool		(*applies) (Oid left, Oid right);
	bool		of_strings;		/* = and <> under a deterministic collation,
								 * and order where strings are compared by
								 * bytes */
	bool		costly;
	const struct CompareKind *commuted; /* the sides exchanged; NULL: itself */

	/* The truth for n values; rows that are NULL are overwritten later. */
	void		(*compare) (const Comparison *comparison, const Values *left, const Values *right,
							int n, uint8 *truth);

	/*
	 * Tried before, if there: evaluates what it needs, sets NULL itself, and
	 * returns false if it cannot do the batch.
	 */
	bool		(*compare_batch) (const Comparison *comparison, Batch *batch, const uint16 *rows, int n,
								  uint8 *truth);

	/*
	 * List the rows whose values are within a range; NULL: there are none of
	 * this kind. Scalars are the bounds, and not NULL.
	 */
	int			(*select) (Range *range, const Datum *scalars, const Column *column,
						   const uint16 *rows, int n, uint16 *selected);
	bool		one_bound;		/* that is all that select() can do */

	/*
	 * The same of an array of numbers. -1: it is nothing for this array.
	 * NULL: there are none of this kind.
	 */
	int			(*select_packed) (Range *range, const Datum *scalars, const Packed *packed,
								  const uint16 *rows, int n, uint16 *selected);

	/* Is no value within these bounds within the range? NULL: unknown. */
	bool		(*excludes) (Range *range, const Datum *scalars, const Bounds *bounds);

	/*
	 * The only value within the range, as a bigint; false if there are
	 * several, or if they are no integers. NULL: they are not.
	 */
	bool		(*find_only) (Range *range, const Datum *scalars, int64 *value);

	/*
	 * The type whose values are equal if bytes of them are the same, as which
	 * a source can look for one. 0: there are none, or find_only() is it.
	 */
	Oid			sought_as;
} CompareKind;

struct Comparison
{
	Predicate	predicate;
	const CompareKind *kind;
	CompareOp	op;
	Oid			left_type;
	Oid			right_type;
	VectorExpr *left;
	VectorExpr *right;
	bool		harmless;		/* its operands cannot raise errors */
};

/* One end of a range: the column on the left, something that is the same for all rows on the right. */
typedef struct Bound
{
	CompareOp	op;
	Oid			type;
	VectorExpr *scalar;

	/* numeric: what it was at last */
	int64		value;
	int			scale;
} Bound;

#define MAX_BOUNDS 8

struct Range
{
	Predicate	predicate;
	const CompareKind *kind;
	int			column;
	Oid			type;			/* of the column */
	bool		harmless;
	int			nbounds;
	Bound		bounds[MAX_BOUNDS];

	/* numeric */
	int			scale;			/* for which from and to are known, or -1 */
	int64		from;
	int64		to;
};

/* Truth of a comparison of which the order is known: -1, 0 or 1. */
static inline bool
holds(CompareOp op, int order)
{
	switch (op)
	{
		case OP_LT:
			return order < 0;
		case OP_LE:
			return order <= 0;
		case OP_EQ:
			return order == 0;
		case OP_GE:
			return order >= 0;
		case OP_GT:
			return order > 0;
		case OP_NE:
			return order != 0;
	}
	return false;
}

/* The loops of compare(), one per operator: the values are a and b. */
#define EACH_OP(type, LEFT, RIGHT, LT, LE, EQ, GE, GT, NE) \
	do { \
		switch (comparison->op) \
		{ \
			case OP_LT: EACH_PAIR(type, LEFT, RIGHT, LT); break; \
			case OP_LE: EACH_PAIR(type, LEFT, RIGHT, LE); break; \
			case OP_EQ: EACH_PAIR(type, LEFT, RIGHT, EQ); break; \
			case OP_GE: EACH_PAIR(type, LEFT, RIGHT, GE); break; \
			case OP_GT: EACH_PAIR(type, LEFT, RIGHT, GT); break; \
			case OP_NE: EACH_PAIR(type, LEFT, RIGHT, NE); break; \
		} \
	} while (0)
#define EACH_PAIR(type, LEFT, RIGHT, TEST) \
	for (int i = 0; i < n; i++) \
	{ \
		type		a = LEFT(left->values[i]); \
		type		b = RIGHT(right->values[i]); \
		truth[i] = TEST; \
	}

/* List what TEST says of the value v; without a branch, which would be guessed wrong. */
#define SELECT_ROWS(GET, TEST) \
	do { \
		const Datum *values = column->values; \
		const bool *nulls = column->nulls; \
		if (rows == NULL && !column->has_nulls) \
			for (int i = 0; i < n; i++) \
			{ \
				__typeof__(GET(values[0])) v = GET(values[i]); \
				selected[k] = i; \
				k += (TEST); \
			} \
		else \
			for (int i = 0; i < n; i++) \
			{ \
				int			row = rows != NULL ? rows[i] : i; \
				__typeof__(GET(values[0])) v = GET(values[row]); \
				selected[k] = row; \
				k += (TEST) & !nulls[row]; \
			} \
	} while (0)

/* ---- select_packed.c ---- */

extern int	filter_select_packed_integers(const Packed *packed, int64 from, int64 to, const uint16 *rows, int n,
										  uint16 *selected);
extern int	filter_leave_out_nulls(const bool *nulls, uint16 *rows, int n);
extern int	filter_list_bitmap(const uint64 *bitmap, int n, uint16 *selected);

/* ---- families of comparisons: arrays that end with a kind without functions ---- */

extern const CompareKind integer_comparisons[];
extern const CompareKind float_comparisons[];
extern const CompareKind numeric_comparisons[];
extern const CompareKind time_comparisons[];
extern const CompareKind text_comparisons[];
extern const CompareKind uuid_comparisons[];

/* compare_integer.c */
extern int	filter_select_integers(Range *range, const Datum *scalars, const Column *column,
								   const uint16 *rows, int n, uint16 *selected);
extern int	filter_select_integer_array(Range *range, const Datum *scalars, const Packed *packed,
										const uint16 *rows, int n, uint16 *selected);
extern bool filter_integers_excluded(Range *range, const Datum *scalars, const Bounds *bounds);
extern bool filter_integers_only(Range *range, const Datum *scalars, int64 *value);

/* ---- kernels ---- */

extern const PredicateKernel compare_kernel;
extern const PredicateKernel like_kernel;
extern const PredicateKernel in_kernel;
extern const PredicateKernel in_text_kernel;
extern const PredicateKernel in_uuid_kernel;
extern const PredicateKernel null_kernel;
extern const PredicateKernel boolean_kernel;
extern const PredicateKernel logic_kernel;

/* ---- filter.c ---- */

extern Predicate *vector_condition_compile(Expr *expr, Batch *batch);
extern bool vector_condition_is_certain(Expr *expr, Batch *batch);

/* ---- dictionary.c ---- */

/* Number of batches that a dictionary is expected to serve: its values are tested if they are fewer than those rows. */
#define BATCHES_OF_DICTIONARY 16

extern void dictionary_batch_begin(Batch *values, Batch *batch, int index, const Codes *codes, int from);
extern void dictionary_batch_end(Batch *values, Batch *batch, int index);

/* ---- predicate.c ---- */

extern void *predicate_create(Size size, const PredicateKernel *kernel);
extern bool predicate_is_harmless(Expr *expr);
extern bool predicate_find_op(Oid opno, Oid left, CompareOp *op);

/* Have the source leave out of the next batches what it knows to equal none of these values; true if nothing is left. */
static inline bool
predicate_seek(Batch *batch, int column, Oid type, const Datum *values, int n)
{
	const SourceMethods *methods = batch->source->methods;

	return methods->seek != NULL && methods->seek(batch->source, batch, column, type, values, n);
}

/* ---- range.c ---- */

extern Predicate *predicate_range_of(const Comparison *comparison);

#endif							/* PGBILLION_VECTOR_PREDICATE_H */

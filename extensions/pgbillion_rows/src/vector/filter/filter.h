/*-------------------------------------------------------------------------
 *
 * filter.h
 *	  What the parts of filters share: filter.c, compare.c, range.c and like.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGBILLION_VECTOR_FILTER_H
#define PGBILLION_VECTOR_FILTER_H

#include "catalog/pg_type.h"

#include "vector/vector.h"

/* What a row is: as SQL has it. */
#define TRUTH_FALSE 0
#define TRUTH_TRUE 1
#define TRUTH_NULL 2

typedef struct LikePattern LikePattern;

typedef enum
{
	COMPARE_INT,
	COMPARE_FLOAT,
	COMPARE_NUMERIC,
	COMPARE_TEXT,				/* only = and <> */
	COMPARE_BPCHAR,				/* only = and <> */
	COMPARE_DATE_TIMESTAMP,		/* a date with a timestamp */
	COMPARE_TIMESTAMP_DATE
} CompareKind;

/* <> is negated =. */
typedef enum
{
	OP_LT,
	OP_LE,
	OP_EQ,
	OP_GE,
	OP_GT,
	OP_NE
} CompareOp;

/* One end of a range: the column on the left, something that is the same for all rows on the right. */
typedef struct Bound
{
	CompareOp	op;
	CompareKind compare;
	Oid			type;
	VectorExpr *scalar;

	/* numeric: what it was at last */
	int64		value;
	int			scale;
} Bound;

#define MAX_BOUNDS 8

typedef struct Predicate
{
	enum
	{
		PREDICATE_COMPARE,
		PREDICATE_RANGE,		/* a column and constants; only as a term */
		PREDICATE_IN,			/* integers */
		PREDICATE_LIKE,
		PREDICATE_NULL,			/* IS NULL */
		PREDICATE_NOT_NULL,
		PREDICATE_BOOLEAN,		/* a boolean column */
		PREDICATE_AND,
		PREDICATE_OR,
		PREDICATE_NOT
	}			kind;
	CompareKind compare;
	CompareOp	op;
	Oid			left_type;
	Oid			right_type;
	Oid			collation;
	VectorExpr *left;
	VectorExpr *right;
	bool		harmless;		/* a comparison whose operands cannot raise
								 * errors */
	int			nbounds;		/* of a range */
	Bound	   *bounds;
	int			range_scale;	/* of numerics: for which from and to are
								 * known, or -1 */
	int64		from;
	int64		to;
	LikePattern *pattern;
	bool		negated;		/* NOT LIKE */
	int			nelements;
	bool		null_element;
	int64	   *elements;
	bool		costly;			/* strings, which may have to be fetched: not
								 * for rows decided without */
	List	   *args;			/* of Predicate */
	uint8	   *truth;			/* of an argument */
} Predicate;

static inline int64
int_of(Datum value, Oid type)
{
	switch (type)
	{
		case INT2OID:
			return DatumGetInt16(value);
		case INT4OID:
		case DATEOID:
			return DatumGetInt32(value);
		case BOOLOID:
			return DatumGetBool(value);
		case OIDOID:
			return DatumGetObjectId(value);
		default:
			return DatumGetInt64(value);
	}
}

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

/* ---- compare.c ---- */

extern int	filter_compare_numeric(Datum left, Datum right);
extern void filter_compare(Predicate *predicate, Batch *batch, const uint16 *rows, int n, uint8 *truth);

/* ---- range.c ---- */

extern void filter_make_range(Predicate *predicate);
extern bool filter_merge_ranges(Predicate *first, Predicate *second);
extern int	filter_select_range(Predicate *predicate, Batch *batch, const uint16 *rows, int n, uint16 *selected);

/* ---- like.c ---- */

extern bool like_operator(Oid funcid, Oid collation, bool *negated);
extern LikePattern *like_create(void);
extern bool like_set(LikePattern *pattern, Datum text);
extern void like_rows(const LikePattern *pattern, const Values *strings, int n, bool negated, uint8 *truth);

#endif							/* PGBILLION_VECTOR_FILTER_H */

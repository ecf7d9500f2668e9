/*-------------------------------------------------------------------------
 *
 * sort_key.h
 *	  The keys of rows that are sorted, and numbers in their order.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGBILLION_SORT_KEY_H
#define PGBILLION_SORT_KEY_H

#include "utils/sortsupport.h"

#include "sort/row_chunks.h"
#include "sort/sort.h"

/* Number of different values up to which they are put in order. */
#define FEW_VALUES 16384

/* How a value becomes a number of the same order. */
typedef enum KeyKind
{
	KEY_SIGNED,					/* an integer, whatever it means */
	KEY_UNSIGNED,
	KEY_FLOAT4,
	KEY_FLOAT8,
	KEY_BYTES,					/* its first bytes */
	KEY_NUMERIC,				/* its magnitude and first digits */
	KEY_OTHER					/* it does not */
} KeyKind;

typedef struct SortKey
{
	int			column;
	KeyKind		kind;
	bool		descending;
	bool		nulls_first;
	int16		len;
	bool		text;			/* KEY_BYTES: no byte is zero */
	bool		padded;			/* ... and blanks at the end do not count */
	bool		by_value;		/* can two values be compared as numbers? */
	bool		few;			/* are its values put in order if they are
								 * few? */
	SortSupportData support;	/* compares values as PostgreSQL does */
} SortKey;

struct SortKeys
{
	int			n;
	const RowFormat *format;
	SortKey    *keys;
	MemoryContext scratch;		/* values that have to be detoasted */
};

/* How rows are split by the first bits of their first key. */
typedef struct KeyParts
{
	int			n;				/* number of parts; rows of one come before
								 * those of the next */
	int			shift;			/* bits of the key that are left */
	uint64		min;
	uint64		max;
	int			first;			/* part of the first value */
	int			nulls;			/* part of NULL */
} KeyParts;

/* ---- sort_key.c ---- */

extern int	sort_keys_compare(const SortKeys *keys, const char *left, const char *right, int first);
extern uint64 sort_keys_first_number(const SortKeys *keys, const char *row);

/* ---- row_numbers.c ---- */

extern int	sort_keys_number(SortKeys *keys, const RowChunks *rows, uint64 *numbers, int *bits);

extern bool sort_keys_choose_parts(SortKeys *keys, const RowChunks *rows, int most, KeyParts *parts);
extern void sort_keys_find_parts(SortKeys *keys, const KeyParts *parts, const char *row, int n, uint16 *result);

/* ---- radix.c ---- */

extern char **radix_sort(SortKeys *keys, const RowChunks *rows, MemoryContext context, Size *memory, bool *compared);

/* ---- row_parts.c ---- */

typedef struct RowParts RowParts;

extern RowParts *row_parts_split(SortKeys *keys, RowChunks *rows);
extern char **row_parts_next(RowParts *parts, int64 *n, Size *memory, bool *compared);
extern void row_parts_end(RowParts *parts);

#endif							/* PGBILLION_SORT_KEY_H */

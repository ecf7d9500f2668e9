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

#include "sort/sort.h"

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

/* ---- sort_key.c ---- */

extern int	sort_keys_compare(const SortKeys *keys, const char *left, const char *right, int first);
extern uint64 sort_keys_first_number(const SortKeys *keys, const char *row);
extern int	sort_keys_number(SortKeys *keys, RowEntry *entries, int64 n, int *bits);

/* ---- radix.c ---- */

extern void radix_sort(RowEntry *entries, int64 n, int bits);
extern bool sort_ties(const SortKeys *keys, RowEntry *entries, int64 n, int first);

#endif							/* PGBILLION_SORT_KEY_H */

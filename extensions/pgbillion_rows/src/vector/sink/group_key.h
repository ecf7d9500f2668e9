/*-------------------------------------------------------------------------
 *
 * group_key.h
 *	  Keys of groups, for the table of groups.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGBILLION_VECTOR_GROUP_KEY_H
#define PGBILLION_VECTOR_GROUP_KEY_H

#include "fmgr.h"

#include "vector/batch.h"

typedef enum
{
	KEY_BITS,					/* equal if and only if the same bits */
	KEY_FLOAT4,
	KEY_FLOAT8,
	KEY_TEXT,
	KEY_BPCHAR,
	KEY_NUMERIC,
	KEY_OTHER					/* by the type's own functions */
} KeyKind;

typedef struct Key
{
	KeyKind		kind;
	int16		len;
	bool		byval;
	Oid			collation;
	FmgrInfo	hash;
	FmgrInfo	equal;
} Key;

/* The first byte of the word of a string or numeric that does not fit into it. */
#define WORD_IS_HASH 0xFF

/* May values of this word be different? */
static inline bool
word_is_hash(Key *key, uint64 word)
{
	return key->kind == KEY_OTHER || (key->kind >= KEY_TEXT && word >> 56 == WORD_IS_HASH);
}

extern void group_key_prepare(Key *key, Oid type, Oid collation);
extern void group_key_words(Key *key, const Values *values, int n, uint64 *words);
extern bool group_equal_keys(Key *key, Datum left, Datum right);

#endif							/* PGBILLION_VECTOR_GROUP_KEY_H */

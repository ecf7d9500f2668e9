/*-------------------------------------------------------------------------
 *
 * group_key.h
 *	  Keys of groups, for the table of groups.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGBILLION_VECTOR_GROUP_KEY_H
#define PGBILLION_VECTOR_GROUP_KEY_H

#include "nodes/primnodes.h"

#include "vector/expression/expression.h"
#include "vector/keys/key.h"

extern bool group_key_is_bits(Oid type);
extern const char *group_key_refusal(Expr *key);
extern void group_key_prepare(Key *key, Oid type, Oid collation);

/* The bits of a value that make its word, of keys that are equal if and only if these are. */
static inline uint64
group_key_mask(const Key *key)
{
	Assert(key->kind == KEY_BITS && key->len > 0 && key->len <= sizeof(Datum));
	return PG_UINT64_MAX >> (64 - 8 * key->len);
}

extern void group_key_words(Key *key, const Values *values, int n, uint64 *words);

#endif							/* PGBILLION_VECTOR_GROUP_KEY_H */

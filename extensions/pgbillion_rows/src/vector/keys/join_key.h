/*-------------------------------------------------------------------------
 *
 * join_key.h
 *	  What rows are matched by: the keys of a hash join.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGBILLION_VECTOR_JOIN_KEY_H
#define PGBILLION_VECTOR_JOIN_KEY_H

#include "nodes/pg_list.h"
#include "nodes/primnodes.h"

#include "vector/expression/expression.h"

#define JOIN_MAX_KEYS 8

typedef struct JoinKeys JoinKeys;

extern bool join_key_is_integer(const OpExpr *clause);
extern JoinKeys *join_keys_create(List *clauses);
extern int	join_keys_count(const JoinKeys *keys);
extern bool join_keys_direct(const JoinKeys *keys);
extern bool join_keys_integer(const JoinKeys *keys, int key);
extern Oid	join_keys_outer_type(const JoinKeys *keys, int key);
extern void join_keys_tags(JoinKeys *keys, bool inner, Values *values, int n, uint64 *tags, bool *known);
extern bool join_keys_equal(JoinKeys *keys, const Values *outer, int row, const Datum *inner);
extern Datum join_keys_copy(JoinKeys *keys, int key, Datum value, char *(*alloc) (void *arg, Size size), void *arg);

#endif							/* PGBILLION_VECTOR_JOIN_KEY_H */

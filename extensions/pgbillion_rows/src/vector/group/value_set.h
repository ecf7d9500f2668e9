/*-------------------------------------------------------------------------
 *
 * value_set.h
 *	  Pairs of a value and a group, each once.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGBILLION_VECTOR_VALUE_SET_H
#define PGBILLION_VECTOR_VALUE_SET_H

#include "vector/batch.h"

/* What a pair takes: tables are between a third and two thirds full. */
#define VALUE_SET_BYTES 32

typedef struct ValueSet ValueSet;

extern ValueSet *value_set_create(int16 len, Size limit);
extern int	value_set_add(ValueSet *set, const Datum *values, const Datum *groups, int n,
						  uint16 *added, uint16 *missing, int *nmissing);
extern const uint64 *value_set_tags(const ValueSet *set);
extern int64 value_set_count(const ValueSet *set);
extern void value_set_reset(ValueSet *set);

#endif							/* PGBILLION_VECTOR_VALUE_SET_H */

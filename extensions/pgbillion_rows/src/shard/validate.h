/*-------------------------------------------------------------------------
 *
 * validate.h
 *	  Checks states of aggregates that a shard has sent.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SHARD_VALIDATE_H
#define SHARD_VALIDATE_H

#include "nodes/primnodes.h"

typedef enum ShardStateKind
{
	STATE_VALUE,				/* a value of its type, which its input
								 * function has checked */
	STATE_ARRAY_VALUE,			/* an array of a number of elements */
	STATE_NUMERIC,				/* sum and avg of numeric */
	STATE_NUMERIC_SQUARES,		/* stddev and variance of numeric and bigint */
	STATE_INTEGER,				/* sum and avg of bigint */
	STATE_INTEGER_SQUARES,		/* stddev and variance of integer and smallint */
	STATE_INTERVAL,				/* sum and avg of interval */
	STATE_STRING,				/* string_agg */
	STATE_ARRAY,				/* array_agg of what is no array */
	STATE_ARRAYS				/* array_agg of arrays */
} ShardStateKind;

/* How the states of an aggregate look like. */
typedef struct ShardStateFormat
{
	ShardStateKind kind;
	int			nelements;		/* of STATE_ARRAY_VALUE */
	Oid			element;		/* type of the elements, or of the string */
	Oid			array;			/* that of the arrays in STATE_ARRAYS */
	int16		typlen;			/* of the elements */
	bool		typbyval;
	char		typalign;
} ShardStateFormat;

extern bool shard_find_state_format(Aggref *aggref, ShardStateFormat *format);
extern const char *shard_state_problem(const ShardStateFormat *format, Datum value);
extern const char *shard_state_bytes_problem(const ShardStateFormat *format, const char *data, size_t size);

#endif							/* SHARD_VALIDATE_H */

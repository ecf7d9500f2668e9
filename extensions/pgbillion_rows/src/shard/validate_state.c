/*-------------------------------------------------------------------------
 *
 * validate_state.c
 *	  Checks states of aggregates that a shard has sent.
 *
 * PostgreSQL's deserialization and combine functions trust their input: it comes
 * from a worker of the same server. What a shard sends is hostile until
 * checked. A state of a format that is not known here is never asked for.
 *
 * What is accepted is what PostgreSQL can take without reading beyond the state,
 * following a pointer in it, or computing with values that its types cannot
 * have. That the numbers are true is for nobody to check. Elements of
 * array_agg(anynonarray) that are not by value are left to their type's
 * receive function, which trusts nobody, where it is known to read nothing
 * beyond its bytes; all else is checked here to the last byte.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <limits.h>

#include "access/htup_details.h"
#include "catalog/pg_aggregate.h"
#include "catalog/pg_type.h"
#include "datatype/timestamp.h"
#include "mb/pg_wchar.h"
#include "port/pg_bswap.h"
#include "utils/array.h"
#include "utils/date.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

#include "compat.h"
#include "planner/aggregates.h"
#include "shard/validate.h"

/* Counts of rows beyond this would need many years to count; thousands of them do not overflow. */
#define MAX_COUNT (INT64CONST(1) << 56)

/*
 * A sum of numerics has at most 32768 groups of four digits before the point,
 * that of their squares twice as many, and some more for the number of values;
 * behind the point 4096 and 8192.
 */
#define MAX_WEIGHT 65600
#define MIN_WEIGHT (-8200)
#define MAX_SUM_DSCALE 32766
#define MAX_DSCALE 16383
#define DIGIT_BASE 10000
#define SIGN_POSITIVE 0x0000
#define SIGN_NEGATIVE 0x4000

static const char *const too_short = "it is too short";
static const char *const bad_count = "a count is out of range";
static const char *const bad_text = "it has text that is not valid in this database's encoding";
static const char *const bad_value = "it has a value that its type cannot have";

/* What is left of a state. */
typedef struct Reader
{
	const char *data;
	size_t		left;
	bool		failed;			/* more was asked for than there was */
} Reader;

static const char *
take(Reader *reader, size_t size)
{
	const char *result = reader->data;

	if (reader->failed || size > reader->left)
	{
		reader->failed = true;
		return NULL;
	}
	reader->data += size;
	reader->left -= size;
	return result;
}

/* These return 0 once the reader has failed. */
static int16
take_int16(Reader *reader)
{
	const char *data = take(reader, sizeof(uint16));
	uint16		value;

	if (data == NULL)
		return 0;
	memcpy(&value, data, sizeof(value));
	return (int16) pg_ntoh16(value);
}

static int32
take_int32(Reader *reader)
{
	const char *data = take(reader, sizeof(uint32));
	uint32		value;

	if (data == NULL)
		return 0;
	memcpy(&value, data, sizeof(value));
	return (int32) pg_ntoh32(value);
}

static int64
take_int64(Reader *reader)
{
	const char *data = take(reader, sizeof(uint64));
	uint64		value;

	if (data == NULL)
		return 0;
	memcpy(&value, data, sizeof(value));
	return (int64) pg_ntoh64(value);
}

static const char *
end_of(Reader *reader)
{
	if (reader->failed)
		return too_short;
	return reader->left > 0 ? "it is too long" : NULL;
}

/* This many counts of rows. */
static const char *
check_counts(Reader *reader, int n)
{
	for (int i = 0; i < n; i++)
	{
		int64		count = take_int64(reader);

		if (reader->failed)
			return too_short;
		if (count < 0 || count > MAX_COUNT)
			return bad_count;
	}
	return NULL;
}

/*
 * A number as PostgreSQL's numericvar_serialize() writes it; of integers, one that
 * fits into 128 bits.
 */
static const char *
check_sum(Reader *reader, bool integer)
{
	int32		ndigits = take_int32(reader);
	int32		weight = take_int32(reader);
	int32		sign = take_int32(reader);
	int32		dscale = take_int32(reader);
	const char *digits;
	int			needed = 0;

	if (reader->failed)
		return too_short;
	if (weight < MIN_WEIGHT || weight > MAX_WEIGHT || ndigits < 0 || ndigits > weight - MIN_WEIGHT + 1 ||
		(sign != SIGN_POSITIVE && sign != SIGN_NEGATIVE) || dscale < 0 || dscale > MAX_SUM_DSCALE)
		return "a sum is out of range";
	digits = reader->data;
	for (int i = 0; i < ndigits; i++)
	{
		int16		digit = take_int16(reader);

		if (reader->failed)
			return too_short;
		if (digit < 0 || digit >= DIGIT_BASE)
			return "a digit of a sum is out of range";
		if (digit > 0)
			needed = i + 1;
	}
	if (!integer || needed == 0)
		return NULL;

	/* all of it before the point, and no more of it than 128 bits hold */
	if (dscale != 0 || weight < needed - 1 || weight > 9)
		return "a sum of integers is out of range";
#ifdef HAVE_INT128
	{
		uint128		limit = ((uint128) 1 << 127) - (sign == SIGN_POSITIVE ? 1 : 0);
		uint128		value = 0;
		Reader		again = {digits, sizeof(int16) * ndigits, false};

		for (int i = 0; i <= weight; i++)
		{
			int16		digit = i < ndigits ? take_int16(&again) : 0;

			if (value > (limit - digit) / DIGIT_BASE)
				return "a sum of integers is out of range";
			value = value * DIGIT_BASE + digit;
		}
	}
#endif
	return NULL;
}

/* NumericAggState, of numeric_avg_serialize() or, with squares, numeric_serialize() */
static const char *
check_numeric_state(Reader *reader, bool squares)
{
	const char *problem = check_counts(reader, 1);
	int32		scale;

	if (problem == NULL)
		problem = check_sum(reader, false);
	if (problem == NULL && squares)
		problem = check_sum(reader, false);
	if (problem != NULL)
		return problem;
	scale = take_int32(reader);
	if (scale < 0 || scale > MAX_DSCALE)
		return "a scale is out of range";
	/* of values with that scale, NaN, infinity and -infinity */
	return check_counts(reader, 4);
}

/* A sum of integers, which 19 sends as 128 bits, any of which are one. */
static const char *
check_integer_sum(Reader *reader)
{
#if PG_VERSION_NUM >= 190000
	(void) take_int64(reader);
	(void) take_int64(reader);
	return reader->failed ? too_short : NULL;
#else
	return check_sum(reader, true);
#endif
}

/* PolyNumAggState, of int8_avg_serialize() or, with squares, numeric_poly_serialize() */
static const char *
check_integer_state(Reader *reader, bool squares)
{
	const char *problem = check_counts(reader, 1);

	if (problem == NULL)
		problem = check_integer_sum(reader);
	if (problem == NULL && squares)
		problem = check_integer_sum(reader);
	return problem;
}

/* IntervalAggState, of interval_avg_serialize() */
static const char *
check_interval_state(Reader *reader)
{
	const char *problem = check_counts(reader, 1);
	int64		microseconds = take_int64(reader);
	int32		day = take_int32(reader);
	int32		month = take_int32(reader);

	if (problem != NULL)
		return problem;
	/* infinite intervals are counted, not added */
	if ((microseconds == PG_INT64_MAX && day == PG_INT32_MAX && month == PG_INT32_MAX) ||
		(microseconds == PG_INT64_MIN && day == PG_INT32_MIN && month == PG_INT32_MIN))
		return "a sum is out of range";
	return check_counts(reader, 2);
}

static bool
is_text(const char *data, size_t size)
{
	return size <= INT_MAX && pg_verify_mbstr(GetDatabaseEncoding(), data, (int) size, true);
}

/* StringInfo, of string_agg_serialize(): its cursor is the length of the first delimiter, which is left out */
static const char *
check_string_state(Reader *reader, bool text)
{
	int32		cursor = take_int32(reader);
	const char *delimiter = take(reader, 0);
	const char *rest;
	size_t		size;

	if (reader->failed)
		return too_short;
	if (cursor < 0 || (size_t) cursor > reader->left)
		return "its first delimiter is longer than it is";
	(void) take(reader, cursor);
	size = reader->left;
	rest = take(reader, size);
	if (text && (!is_text(delimiter, cursor) || !is_text(rest, size)))
		return bad_text;
	return NULL;
}

/* Types of fixed length any of whose values can be checked. (15 has no use for this: its array_agg has no such state.) */
pg_attribute_unused() static bool
is_fixed(Oid type)
{
	switch (type)
	{
		case BOOLOID:
		case CHAROID:
		case INT2OID:
		case INT4OID:
		case INT8OID:
		case OIDOID:
		case XIDOID:
		case XID8OID:
		case CIDOID:
		case FLOAT4OID:
		case FLOAT8OID:
		case MONEYOID:
		case LSNOID:
		case DATEOID:
		case TIMEOID:
		case TIMESTAMPOID:
		case TIMESTAMPTZOID:
		case UUIDOID:
			return true;
		default:
			return false;
	}
}

/* Can the type have the value at this address, which need not be aligned? */
static bool
is_fixed_value(Oid type, const char *data)
{
	int32		small;
	int64		large;

	switch (type)
	{
		case BOOLOID:
			return *data == 0 || *data == 1;
		case DATEOID:
			memcpy(&small, data, sizeof(small));
			return DATE_NOT_FINITE(small) || IS_VALID_DATE(small);
		case TIMEOID:
			memcpy(&large, data, sizeof(large));
			return large >= 0 && large <= USECS_PER_DAY;
		case TIMESTAMPOID:
		case TIMESTAMPTZOID:
			memcpy(&large, data, sizeof(large));
			return TIMESTAMP_NOT_FINITE(large) || IS_VALID_TIMESTAMP(large);
		default:
			return true;
	}
}

/* As is_fixed_value(), for one that is a Datum. */
static bool
is_datum(const ShardStateFormat *format, const char *data)
{
	Datum		value;
	int16		two;
	int32		four;
	char		stored[sizeof(Datum)];

	memcpy(&value, data, sizeof(value));
	switch (format->typlen)
	{
		case sizeof(char):
			stored[0] = DatumGetChar(value);
			break;
		case sizeof(int16):
			two = DatumGetInt16(value);
			memcpy(stored, &two, sizeof(two));
			break;
		case sizeof(int32):
			four = DatumGetInt32(value);
			memcpy(stored, &four, sizeof(four));
			break;
		default:
			memcpy(stored, &value, sizeof(value));
			break;
	}
	return is_fixed_value(format->element, stored);
}

/* ArrayBuildState, of array_agg_serialize() */
static const char *
check_array_state(Reader *reader, const ShardStateFormat *format)
{
	Oid			element = (Oid) take_int32(reader);
	int64		n = take_int64(reader);
	int16		typlen = take_int16(reader);
	const char *flags = take(reader, 2);
	const char *nulls;

	if (reader->failed)
		return too_short;
	if (element != format->element || typlen != format->typlen || flags[0] != (format->typbyval ? 1 : 0) ||
		flags[1] != format->typalign)
		return "its elements are of another type";

	/*
	 * PostgreSQL makes room for all of them before it reads any; there is no
	 * state without one
	 */
	if (n < 1 || (uint64) n > reader->left)
		return "its number of elements is wrong";
	nulls = take(reader, n);
	for (int64 i = 0; i < n; i++)
		if (nulls[i] != 0 && nulls[i] != 1)
			return "a flag for null is neither true nor false";

	if (format->typbyval)
	{
		for (int64 i = 0; i < n; i++)
		{
			const char *datum = take(reader, sizeof(Datum));

			if (datum == NULL)
				return too_short;
			if (!nulls[i] && !is_datum(format, datum))
				return bad_value;
		}
		return NULL;
	}
	for (int64 i = 0; i < n; i++)
	{
		int32		size = nulls[i] ? 0 : take_int32(reader);

		if (size < 0 || reader->failed || (size_t) size > reader->left)
			return "the length of an element is wrong";
		(void) take(reader, size);
	}
	return NULL;
}

/* The digits of a numeric as it is in memory, behind its length. */
static bool
is_numeric(const char *data, size_t size)
{
	uint16		header;
	int			header_size;
	int			ndigits;
	int16		digit = 0;

	if (size < sizeof(header))
		return false;
	memcpy(&header, data, sizeof(header));
	/* NaN, infinity and -infinity */
	if ((header & 0xC000) == 0xC000)
		return size == sizeof(header) && (header == 0xC000 || header == 0xD000 || header == 0xF000);

	/*
	 * a short header has scale and weight in it, a long one has the weight
	 * behind it
	 */
	header_size = (header & 0x8000) ? sizeof(uint16) : 2 * sizeof(uint16);
	if (size < header_size || (size - header_size) % sizeof(digit) != 0)
		return false;
	ndigits = (size - header_size) / sizeof(digit);
	for (int i = 0; i < ndigits; i++)
	{
		memcpy(&digit, data + header_size + sizeof(digit) * i, sizeof(digit));
		/* PostgreSQL leaves out zeros at both ends */
		if (digit < 0 || digit >= DIGIT_BASE || (digit == 0 && (i == 0 || i == ndigits - 1)))
			return false;
	}
	return true;
}

/* Types of variable length whose values in memory can be checked. */
pg_attribute_unused() static bool
is_variable(Oid type)
{
	switch (type)
	{
		case TEXTOID:
		case VARCHAROID:
		case BPCHAROID:
		case JSONOID:
		case BYTEAOID:
		case NUMERICOID:
			return true;
		default:
			return false;
	}
}

/*
 * Types by reference whose receive functions read nothing beyond the bytes that
 * they are given. That of others may: pq_getmsgstring(), which tsvector's
 * calls, looks for a zero byte, of which PostgreSQL's deserialization has none.
 */
pg_attribute_unused() static bool
is_received(Oid type)
{
	switch (type)
	{
		case NAMEOID:
		case TIDOID:
		case JSONBOID:
		case INTERVALOID:
		case TIMETZOID:
		case INETOID:
		case CIDROID:
		case MACADDROID:
		case MACADDR8OID:
		case BITOID:
		case VARBITOID:
		case POINTOID:
		case LSEGOID:
		case PATHOID:
		case BOXOID:
		case POLYGONOID:
		case LINEOID:
		case CIRCLEOID:
		case INT4RANGEOID:
		case INT8RANGEOID:
		case NUMRANGEOID:
		case DATERANGEOID:
		case TSRANGEOID:
		case TSTZRANGEOID:
		case INT4MULTIRANGEOID:
		case INT8MULTIRANGEOID:
		case NUMMULTIRANGEOID:
		case DATEMULTIRANGEOID:
		case TSMULTIRANGEOID:
		case TSTZMULTIRANGEOID:
			return true;
		default:
			return is_fixed(type) || is_variable(type);
	}
}

/*
 * The length of the element of an array at this address, which need not be
 * aligned; 0 if there is none.
 */
static size_t
element_size(const ShardStateFormat *format, const char *data, size_t left)
{
	uint32		header;
	size_t		size;

	if (format->typlen > 0)
		return format->typlen <= left && is_fixed_value(format->element, data) ? format->typlen : 0;

	/*
	 * in arrays they are neither compressed nor stored elsewhere, and have
	 * the long header
	 */
	if (left < VARHDRSZ)
		return 0;
	memcpy(&header, data, sizeof(header));
	if (!VARATT_IS_4B_U(&header))
		return 0;
	size = VARSIZE_4B(&header);
	if (size < VARHDRSZ || size > left)
		return 0;
	data += VARHDRSZ;
	switch (format->element)
	{
		case BYTEAOID:
			return size;
		case NUMERICOID:
			return is_numeric(data, size - VARHDRSZ) ? size : 0;
		default:
			return is_text(data, size - VARHDRSZ) ? size : 0;
	}
}

/* ArrayBuildStateArr, of array_agg_array_serialize() */
static const char *
check_arrays_state(Reader *reader, const ShardStateFormat *format)
{
	Oid			element = (Oid) take_int32(reader);
	Oid			array = (Oid) take_int32(reader);
	int32		nbytes = take_int32(reader);
	const char *data = nbytes < 0 ? NULL : take(reader, nbytes);
	int32		abytes = take_int32(reader);
	int32		aitems = take_int32(reader);
	const uint8 *bitmap = NULL;
	int32		nitems;
	int32		ndims;
	const char *sizes;
	const char *bounds;
	int64		product = 1;
	size_t		offset = 0;

	if (data == NULL || reader->failed)
		return too_short;
	if (element != format->element || array != format->array)
		return "its elements are of another type";
	/* PostgreSQL allocates as much as the sender had */
	if (abytes < nbytes || abytes > Max(INT64CONST(1024), 2 * (int64) nbytes + 2))
		return "the space for its elements is out of range";
	if (aitems < 0 || aitems > MaxArraySize)
		return "the space for its nulls is out of range";
	if (aitems > 0)
		bitmap = (const uint8 *) take(reader, ((size_t) aitems + 7) / 8);
	nitems = take_int32(reader);
	ndims = take_int32(reader);
	sizes = take(reader, sizeof(int) * MAXDIM);
	bounds = take(reader, sizeof(int) * MAXDIM);
	if (reader->failed)
		return too_short;

	/* that of the arrays, and one more */
	if (ndims < 2 || ndims > MAXDIM)
		return "its number of dimensions is wrong";
	for (int i = 0; i < ndims; i++)
	{
		int			size;
		int			bound;

		memcpy(&size, sizes + sizeof(int) * i, sizeof(int));
		memcpy(&bound, bounds + sizeof(int) * i, sizeof(int));
		if (size < 1 || size > MaxArraySize || (int64) bound + size > PG_INT32_MAX)
			return "a dimension is out of range";
		product *= size;
		if (product > MaxArraySize)
			return "a dimension is out of range";
	}
	if (nitems != product || (bitmap != NULL && aitems < nitems))
		return "its number of elements is wrong";

	for (int i = 0; i < nitems; i++)
	{
		size_t		size;

		if (bitmap != NULL && !(bitmap[i / 8] & (1 << (i % 8))))
			continue;
		if (offset >= nbytes)
			return too_short;
		size = element_size(format, data + offset, nbytes - offset);
		if (size == 0)
			return bad_value;
		offset = att_align_nominal(offset + size, format->typalign);
	}
	return offset == nbytes ? NULL : "the length of its elements is wrong";
}

/* A transition value that is an array of one dimension, without nulls. */
static const char *
check_transition_array(ArrayType *array, const ShardStateFormat *format)
{
	if (ARR_NDIM(array) != 1 || ARR_DIMS(array)[0] != format->nelements || ARR_HASNULL(array) ||
		ARR_ELEMTYPE(array) != format->element)
		return "it is an array of another form";
	return NULL;
}

/*
 * Return what is wrong with a state, of which this is all that there is, or
 * NULL. Reads nothing beyond it, however it is aligned.
 */
const char *
shard_state_bytes_problem(const ShardStateFormat *format, const char *data, size_t size)
{
	Reader		reader = {data, size, false};
	const char *problem = NULL;

	switch (format->kind)
	{
		case STATE_VALUE:
		case STATE_ARRAY_VALUE:
			Assert(false);
			return "it has no format";
		case STATE_NUMERIC:
		case STATE_NUMERIC_SQUARES:
			problem = check_numeric_state(&reader, format->kind == STATE_NUMERIC_SQUARES);
			break;
		case STATE_INTEGER:
		case STATE_INTEGER_SQUARES:
			problem = check_integer_state(&reader, format->kind == STATE_INTEGER_SQUARES);
			break;
		case STATE_INTERVAL:
			problem = check_interval_state(&reader);
			break;
		case STATE_STRING:
			problem = check_string_state(&reader, format->element == TEXTOID);
			break;
		case STATE_ARRAY:
			problem = check_array_state(&reader, format);
			break;
		case STATE_ARRAYS:
			problem = check_arrays_state(&reader, format);
			break;
	}
	return problem != NULL ? problem : end_of(&reader);
}

/*
 * As above, for a column's value that is not null: one that its type's input
 * or receive function has made.
 */
const char *
shard_state_problem(const ShardStateFormat *format, Datum value)
{
	bytea	   *state;

	if (format->kind == STATE_VALUE)
		return NULL;
	if (format->kind == STATE_ARRAY_VALUE)
		return check_transition_array(DatumGetArrayTypeP(value), format);
	state = DatumGetByteaPP(value);
	return shard_state_bytes_problem(format, VARDATA_ANY(state), VARSIZE_ANY_EXHDR(state));
}

pg_attribute_unused() static bool
set_element(ShardStateFormat *format, ShardStateKind kind, Oid element)
{
	format->kind = kind;
	format->element = element;
	get_typlenbyvalalign(element, &format->typlen, &format->typbyval, &format->typalign);
	return true;
}

/* The format that this deserialization function reads, of an aggregate of values of this type. */
static bool
serialized_format(Oid deserialfn, Oid type, ShardStateFormat *format)
{
	switch (deserialfn)
	{
		case F_NUMERIC_AVG_DESERIALIZE:
			format->kind = STATE_NUMERIC;
			return true;
		case F_NUMERIC_DESERIALIZE:
			format->kind = STATE_NUMERIC_SQUARES;
			return true;
		case F_INT8_AVG_DESERIALIZE:
			format->kind = STATE_INTEGER;
			return true;
		case F_NUMERIC_POLY_DESERIALIZE:
			format->kind = STATE_INTEGER_SQUARES;
			return true;
#ifdef F_INTERVAL_AVG_DESERIALIZE
		case F_INTERVAL_AVG_DESERIALIZE:
			format->kind = STATE_INTERVAL;
			return true;
#endif
#ifdef F_STRING_AGG_DESERIALIZE
		case F_STRING_AGG_DESERIALIZE:
			format->kind = STATE_STRING;
			format->element = type == BYTEAOID ? BYTEAOID : TEXTOID;
			return true;
#endif
#ifdef F_ARRAY_AGG_DESERIALIZE
		case F_ARRAY_AGG_DESERIALIZE:
			return is_received(type) && set_element(format, STATE_ARRAY, type);
#endif
#ifdef F_ARRAY_AGG_ARRAY_DESERIALIZE
		case F_ARRAY_AGG_ARRAY_DESERIALIZE:
			{
				Oid			element = OidIsValid(type) ? get_element_type(type) : InvalidOid;

				format->array = type;
				return (is_fixed(element) || is_variable(element)) && set_element(format, STATE_ARRAYS, element);
			}
#endif
		default:
			return false;
	}
}

/*
 * The form of the arrays that this combine function trusts to have it, if it is
 * one that does. Returns false if there is no function.
 */
static bool
array_format(Oid combinefn, ShardStateFormat *format)
{
	switch (combinefn)
	{
		case F_INT4_AVG_COMBINE:
			format->nelements = 2;
			format->element = INT8OID;
			break;
		case F_FLOAT8_COMBINE:
			format->nelements = 3;
			format->element = FLOAT8OID;
			break;
		case F_FLOAT8_REGR_COMBINE:
			format->nelements = REGR_STATE_VALUES;
			format->element = FLOAT8OID;
			break;
#ifdef F_INTERVAL_COMBINE
		case F_INTERVAL_COMBINE:
			format->nelements = 2;
			format->element = INTERVALOID;
			break;
#endif
		default:
			return OidIsValid(combinefn);
	}
	format->kind = STATE_ARRAY_VALUE;
	return true;
}

/*
 * Find the format of this aggregate's states. Returns false if it is not
 * known: such a state is to be had from no shard.
 */
bool
shard_find_state_format(Aggref *aggref, ShardStateFormat *format)
{
	HeapTuple	tuple = SearchSysCache1(AGGFNOID, ObjectIdGetDatum(aggref->aggfnoid));
	Form_pg_aggregate agg;
	Oid			type = aggref->aggargtypes == NIL ? InvalidOid : linitial_oid(aggref->aggargtypes);
	bool		known = true;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for aggregate %u", aggref->aggfnoid);
	agg = (Form_pg_aggregate) GETSTRUCT(tuple);
	memset(format, 0, sizeof(*format));
	format->kind = STATE_VALUE;

	/*
	 * a partial aggregate of the extension, in a tree of servers, names our
	 * functions
	 */
	if (agg->aggtranstype == INTERNALOID)
		known = serialized_format(aggregate_core_function(agg->aggdeserialfn), type, format);
	else
		known = array_format(aggregate_core_function(agg->aggcombinefn), format);
	ReleaseSysCache(tuple);
	return known;
}

/*-------------------------------------------------------------------------
 *
 * decimal.c
 *	  numeric as scaled integers, and back to PostgreSQL's formats.
 *
 * A numeric value on disk is base-10000 digits with a weight and a display
 * scale (numeric.c: NumericData; the short form has its sign, scale and
 * weight in one 16-bit word). One that fits is worked on as a 64-bit integer
 * in units of 10^-scale, sums as 128-bit integers. What does not fit is added
 * up by PostgreSQL's numeric_add().
 *
 * Partial states are returned in the format of PostgreSQL's own serialization
 * functions (numericvar_serialize(), numeric_avg_serialize(),
 * int8_avg_serialize(), numeric_poly_serialize()); 19 has changed that of sums
 * of integers.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "libpq/pqformat.h"
#include "utils/datum.h"
#include "utils/fmgrprotos.h"
#include "utils/numeric.h"

#include "vector/expression/decimal.h"

static const int64 powers_of_ten[DECIMAL_MAX_DIGITS + 1] = {
	INT64CONST(1), INT64CONST(10), INT64CONST(100), INT64CONST(1000), INT64CONST(10000),
	INT64CONST(100000), INT64CONST(1000000), INT64CONST(10000000), INT64CONST(100000000),
	INT64CONST(1000000000), INT64CONST(10000000000), INT64CONST(100000000000),
	INT64CONST(1000000000000), INT64CONST(10000000000000), INT64CONST(100000000000000),
	INT64CONST(1000000000000000), INT64CONST(10000000000000000),
	INT64CONST(100000000000000000), INT64CONST(1000000000000000000)
};

static inline uint16
word_at(const char *p)
{
	uint16		word;

	memcpy(&word, p, sizeof(word)); /* short varlenas are not aligned */
	return word;
}

/*
 * Decode a numeric of at most 18 digits. Returns false for all others, and
 * for NaN, infinities, and values that would have to be fetched or unpacked.
 */
bool
decimal_decode(Datum numeric, int64 *value, int *scale)
{
	const char *p = DatumGetPointer(numeric);
	uint16		header;
	int			size;
	int			weight;
	int			ndigits;
	int			shift;
	bool		negative;
	int64		result = 0;

	if (VARATT_IS_1B(p))
	{
		if (VARATT_IS_1B_E(p))
			return false;
	}
	else if (!VARATT_IS_4B_U(p))
		return false;
	size = VARSIZE_ANY_EXHDR(p);
	p = VARDATA_ANY(p);
	header = word_at(p);
	if (HEADER_KIND(header) == HEADER_SHORT)
	{
		negative = (header & SHORT_NEGATIVE) != 0;
		*scale = SHORT_SCALE(header);
		weight = SHORT_WEIGHT(header);
		p += 2;
		ndigits = (size - 2) / 2;
	}
	else if (HEADER_KIND(header) == HEADER_SPECIAL)
		return false;
	else
	{
		negative = HEADER_KIND(header) == HEADER_NEGATIVE;
		*scale = LONG_SCALE(header);
		weight = (int16) word_at(p + 2);
		p += 4;
		ndigits = (size - 4) / 2;
	}
	if (*scale > DECIMAL_MAX_DIGITS)
		return false;
	if (ndigits == 0)
	{
		*value = 0;
		return true;
	}
	if (ndigits > 5)
		return false;
	/* five digits of base 10000 fit in 64 bits only if the first is small */
	if (ndigits == 5 && word_at(p) >= 100)
		return false;
	for (int i = 0; i < ndigits; i++)
		result = result * BASE + (int16) word_at(p + 2 * i);
	if (result > DECIMAL_MAX)
		return false;

	/* the last digit stands for units of 10000^(weight - ndigits + 1) */
	shift = 4 * (weight - ndigits + 1) + *scale;
	if (shift > 0)
	{
		if (shift > DECIMAL_MAX_DIGITS || result > DECIMAL_MAX / powers_of_ten[shift])
			return false;
		result *= powers_of_ten[shift];
	}
	else if (shift < 0)
	{
		/* the display scale ends within the last digit: what follows is zero */
		if (shift < -3 || result % powers_of_ten[-shift] != 0)
			return false;
		result /= powers_of_ten[-shift];
	}
	*value = negative ? -result : result;

	return true;
}

/* 10^digits; of more than DECIMAL_MAX_DIGITS there are none. */
int64
decimal_unit(int digits)
{
	Assert(digits >= 0 && digits <= DECIMAL_MAX_DIGITS);
	return powers_of_ten[digits];
}

/* A NumericVar's parts, most significant digit first. */
typedef struct Digits
{
	int			ndigits;
	int			weight;
	bool		negative;
	int16		digits[16];
} Digits;

/* Normalized digits of sum * 10^-scale. */
static void
split(int128 sum, int scale, Digits *result)
{
	unsigned	__int128 left = sum < 0 ? -(unsigned __int128) sum : (unsigned __int128) sum;
	int16		reversed[16];
	int			n = 0;
	int			fraction = (scale + 3) / 4;
	int			odd = scale % 4;
	int			first = 0;

	result->negative = sum < 0;
	if (odd != 0)
	{
		int			power = (int) powers_of_ten[odd];

		reversed[n++] = (int16) ((int) (left % power) * (int) powers_of_ten[4 - odd]);
		left /= power;
	}
	while (left != 0)
	{
		reversed[n++] = (int16) (left % BASE);
		left /= BASE;
	}
	result->weight = n - fraction - 1;
	/* no zeros at either end */
	while (first < n && reversed[first] == 0)
		first++;
	while (n > first && reversed[n - 1] == 0)
	{
		n--;
		result->weight--;
	}
	result->ndigits = n - first;
	for (int i = 0; i < result->ndigits; i++)
		result->digits[i] = reversed[n - 1 - i];
	if (result->ndigits == 0)
	{
		result->weight = 0;
		result->negative = false;
	}
}

static void
send_digits(StringInfo buf, const Digits *digits, int scale)
{
	pq_sendint32(buf, digits->ndigits);
	pq_sendint32(buf, digits->weight);
	pq_sendint32(buf, digits->negative ? HEADER_NEGATIVE : 0);
	pq_sendint32(buf, scale);
	for (int i = 0; i < digits->ndigits; i++)
		pq_sendint16(buf, digits->digits[i]);
}

/* The numeric that sum * 10^-scale is, in the current context. */
static Numeric
make_numeric(int128 sum, int scale)
{
	StringInfoData buf;
	Digits		digits;

	split(sum, scale, &digits);
	pq_begintypsend(&buf);
	pq_sendint16(&buf, digits.ndigits);
	pq_sendint16(&buf, digits.weight);
	pq_sendint16(&buf, digits.negative ? HEADER_NEGATIVE : 0);
	pq_sendint16(&buf, scale);
	for (int i = 0; i < digits.ndigits; i++)
		pq_sendint16(&buf, digits.digits[i]);
	buf.cursor = VARHDRSZ;

	return DatumGetNumeric(DirectFunctionCall3(numeric_recv, PointerGetDatum(&buf),
											   ObjectIdGetDatum(InvalidOid), Int32GetDatum(-1)));
}

/*
 * What is added up by numeric_add() is divided by this power of BASE. The
 * largest numerics have no room for a sum of them; PostgreSQL's state has, and finds
 * what is too large when it is finished. Digits may go on beyond the display
 * scale, which addition keeps.
 */
#define LOWERED_BY 8

/* A finite numeric that is not toasted, divided by BASE^LOWERED_BY; in the current context. */
static Numeric
lowered(const struct varlena *numeric)
{
	const char *p = VARDATA_ANY(numeric);
	int			size = VARSIZE_ANY_EXHDR(numeric);
	uint16		header = word_at(p);
	bool		is_short = HEADER_KIND(header) == HEADER_SHORT;
	int			head = is_short ? 2 : 4;
	int16		weight = is_short ? SHORT_WEIGHT(header) : (int16) word_at(p + 2);
	uint16		words[2];
	char	   *result = palloc(VARHDRSZ + sizeof(words) + size - head);

	Assert(HEADER_KIND(header) != HEADER_SPECIAL);
	if (is_short)
		words[0] = SHORT_SCALE(header) | ((header & SHORT_NEGATIVE) != 0 ? HEADER_NEGATIVE : 0);
	else
		words[0] = header;
	/* zero has no digits, and no weight either */
	words[1] = (uint16) (size > head ? weight - LOWERED_BY : 0);
	SET_VARSIZE(result, VARHDRSZ + sizeof(words) + size - head);
	memcpy(result + VARHDRSZ, words, sizeof(words));
	memcpy(result + VARHDRSZ + sizeof(words), p + head, size - head);

	return (Numeric) result;
}

/* Add a finite numeric that is not toasted to `remainder`, in the current context. */
static void
add_to_remainder(DecimalSum *sum, const struct varlena *numeric)
{
	Numeric		part = lowered(numeric);
	Numeric		before = sum->remainder;

	if (before == NULL)
	{
		sum->remainder = part;
		return;
	}
	sum->remainder = DatumGetNumeric(DirectFunctionCall2(numeric_add, NumericGetDatum(before), NumericGetDatum(part)));
	pfree(before);
	pfree(part);
}

/* Add what another state has in its `remainder`, in the current context. */
static void
add_remainder(DecimalSum *sum, Numeric other)
{
	Numeric		before = sum->remainder;

	if (before == NULL)
	{
		sum->remainder = DatumGetNumeric(datumCopy(NumericGetDatum(other), false, -1));
		return;
	}
	sum->remainder = DatumGetNumeric(DirectFunctionCall2(numeric_add, NumericGetDatum(before), NumericGetDatum(other)));
	pfree(before);
}

/* Move what has been summed up to `remainder`, which lives in `context`. */
static void
flush(DecimalSum *sum, MemoryContext context)
{
	MemoryContext old = MemoryContextSwitchTo(context);
	Numeric		part = make_numeric(sum->sum, sum->scale);

	add_to_remainder(sum, (struct varlena *) part);
	pfree(part);
	sum->sum = 0;
	MemoryContextSwitchTo(old);
}

/* The sum in units of a finer scale; what is too large for that goes to `remainder`. */
static void
rescale(DecimalSum *sum, int scale, MemoryContext context)
{
	int128		rescaled;

	if (__builtin_mul_overflow(sum->sum, (int128) powers_of_ten[scale - sum->scale], &rescaled))
	{
		flush(sum, context);
		rescaled = 0;
	}
	sum->sum = rescaled;
	sum->scale = scale;
}

/* The same at any scale. Should the sum overflow, what is there goes to a numeric in `context`. */
void
decimal_sum_add_rescaled(DecimalSum *sum, int64 value, int64 count, int scale, MemoryContext context)
{
	int128		scaled = value;
	int128		total;

	sum->count += count;
	if (unlikely(scale > sum->scale))
	{
		sum->max_scale = Max(sum->max_scale, scale);
		rescale(sum, scale, context);
	}
	else if (unlikely(scale < sum->scale))
		/* both scales are at most 18, so that this stays below 10^37 */
		scaled *= powers_of_ten[sum->scale - scale];
	if (unlikely(__builtin_add_overflow(sum->sum, scaled, &total)))
	{
		flush(sum, context);
		total = scaled;
	}
	sum->sum = total;
}

/* Add any numeric; memory of the sum is allocated in `context`. */
void
decimal_sum_add_numeric(DecimalSum *sum, Datum numeric, MemoryContext context)
{
	int64		value;
	int			scale;
	struct varlena *plain;
	uint16		header;
	MemoryContext old;

	if (decimal_decode(numeric, &value, &scale))
	{
		decimal_sum_add(sum, value, 1, scale, context);
		return;
	}

	old = MemoryContextSwitchTo(context);
	plain = PG_DETOAST_DATUM(numeric);
	header = word_at(VARDATA(plain));
	if (HEADER_KIND(header) == HEADER_SPECIAL)
	{
		if (HEADER_SIGN_AND_KIND(header) == HEADER_NAN)
			sum->nans++;
		else if (HEADER_SIGN_AND_KIND(header) == HEADER_PINF)
			sum->pinfs++;
		else
			sum->ninfs++;
	}
	else
	{
		scale = HEADER_KIND(header) == HEADER_SHORT ? SHORT_SCALE(header) : LONG_SCALE(header);
		sum->count++;
		sum->max_scale = Max(sum->max_scale, scale);
		add_to_remainder(sum, plain);
	}
	if ((Pointer) plain != DatumGetPointer(numeric))
		pfree(plain);
	MemoryContextSwitchTo(old);
}

/* Add another sum; memory is allocated in `context`. */
void
decimal_sum_combine(DecimalSum *sum, const DecimalSum *other, MemoryContext context)
{
	DecimalSum	added = *other;
	int128		total;
	MemoryContext old;

	sum->count += other->count;
	sum->nans += other->nans;
	sum->pinfs += other->pinfs;
	sum->ninfs += other->ninfs;
	sum->max_scale = Max(sum->max_scale, other->max_scale);
	added.remainder = NULL;
	if (other->scale > sum->scale)
		rescale(sum, other->scale, context);
	else if (other->scale < sum->scale)
		rescale(&added, sum->scale, context);
	if (unlikely(__builtin_add_overflow(sum->sum, added.sum, &total)))
	{
		flush(sum, context);
		total = added.sum;
	}
	sum->sum = total;
	if (likely(added.remainder == NULL && other->remainder == NULL))
		return;
	old = MemoryContextSwitchTo(context);
	if (added.remainder != NULL)
	{
		add_remainder(sum, added.remainder);
		pfree(added.remainder);
	}
	if (other->remainder != NULL)
		add_remainder(sum, other->remainder);
	MemoryContextSwitchTo(old);
}

/* The state as numeric_avg_serialize() gives it, in the current context. */
Datum
decimal_serialize_sum(const DecimalSum *sum)
{
	StringInfoData buf;

	pq_begintypsend(&buf);
	pq_sendint64(&buf, sum->count);
	if (sum->remainder == NULL)
	{
		Digits		digits;

		split(sum->sum, sum->scale, &digits);
		send_digits(&buf, &digits, sum->max_scale);
	}
	else
	{
		Numeric		part = lowered((struct varlena *) make_numeric(sum->sum, sum->scale));
		Datum		total = DirectFunctionCall2(numeric_add, NumericGetDatum(sum->remainder), NumericGetDatum(part));
		StringInfoData sent;
		bytea	   *bytes = DatumGetByteaP(DirectFunctionCall1(numeric_send, total));
		int			ndigits;

		/* the same parts, in 16 bits each; the weight as it was */
		initStringInfo(&sent);
		appendBinaryStringInfo(&sent, VARDATA_ANY(bytes), VARSIZE_ANY_EXHDR(bytes));
		ndigits = (int) pq_getmsgint(&sent, 2);
		pq_sendint32(&buf, ndigits);
		pq_sendint32(&buf, (int16) pq_getmsgint(&sent, 2) + (ndigits > 0 ? LOWERED_BY : 0));
		pq_sendint32(&buf, pq_getmsgint(&sent, 2));
		(void) pq_getmsgint(&sent, 2);
		pq_sendint32(&buf, sum->max_scale);
		for (int i = 0; i < ndigits; i++)
			pq_sendint16(&buf, pq_getmsgint(&sent, 2));
	}
	pq_sendint32(&buf, sum->max_scale);

	/*
	 * only moving aggregates, which are never partial, look at how many had
	 * it
	 */
	pq_sendint64(&buf, sum->count);
	pq_sendint64(&buf, sum->nans);
	pq_sendint64(&buf, sum->pinfs);
	pq_sendint64(&buf, sum->ninfs);

	return PointerGetDatum(pq_endtypsend(&buf));
}

/* A sum of integers, as int128_serialize() or, before 19, numericvar_serialize() writes it. */
static void
send_integer_sum(StringInfo buf, int128 sum)
{
#if PG_VERSION_NUM >= 190000
	pq_sendint64(buf, (int64) (sum >> 64));
	pq_sendint64(buf, (int64) sum);
#else
	Digits		digits;

	split(sum, 0, &digits);
	send_digits(buf, &digits, 0);
#endif
}

/* The state as int8_avg_serialize() gives it, in the current context. */
Datum
decimal_serialize_int128(int64 count, int128 sum)
{
	StringInfoData buf;

	pq_begintypsend(&buf);
	pq_sendint64(&buf, count);
	send_integer_sum(&buf, sum);

	return PointerGetDatum(pq_endtypsend(&buf));
}

/* The state as numeric_poly_serialize() gives it, in the current context. */
Datum
decimal_serialize_int128_squares(int64 count, int128 sum, int128 squares)
{
	StringInfoData buf;

	pq_begintypsend(&buf);
	pq_sendint64(&buf, count);
	send_integer_sum(&buf, sum);
	send_integer_sum(&buf, squares);

	return PointerGetDatum(pq_endtypsend(&buf));
}

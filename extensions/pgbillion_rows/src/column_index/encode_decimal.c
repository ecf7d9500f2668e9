/*-------------------------------------------------------------------------
 *
 * encode_decimal.c
 *	  Numerics as integers of a scale, and back to the same bytes.
 *
 * The layout of a numeric is private to PostgreSQL's numeric.c, and is the
 * same in all files of 9.1 and later. What is decoded here is only believed
 * if encoding it gives the bytes it came from.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#if PG_VERSION_NUM >= 160000
#include "varatt.h"
#endif

#include "column_index/store.h"

#define DIGIT_BASE 10000
#define DIGIT_DECIMALS 4
#define MAX_SCALE 18
#define MAX_VALUE INT64CONST(1000000000000000000)

#define SHORT_KIND 0x8000
#define KIND_MASK 0xC000
#define SHORT_SIGN 0x2000
#define SHORT_SCALE_SHIFT 7
#define SHORT_SCALE_MASK 0x3F
#define SHORT_WEIGHT_SIGN 0x0040
#define SHORT_WEIGHT_MASK 0x003F

static const int64 powers[] = {1, 10, 100, 1000};

/*
 * Write the numeric of value / 10^scale that shows `scale` digits, with a
 * header of one byte, and return its length, at most DECIMAL_IMAGE_BYTES.
 */
int
column_decimal_encode(int64 value, int scale, char *numeric)
{
	uint64		left = value < 0 ? -(uint64) value : (uint64) value;
	int16		digits[8];
	int			n = 0;
	int			weight;
	int			zeros = 0;
	uint16		header = SHORT_KIND | scale << SHORT_SCALE_SHIFT;
	int			fraction = (scale + DIGIT_DECIMALS - 1) / DIGIT_DECIMALS;
	int			bytes;

	Assert(scale >= 0 && scale <= MAX_SCALE && left < (uint64) MAX_VALUE);

	/* the last digit of the fraction has 1 to 4 decimals that count */
	if (scale % DIGIT_DECIMALS != 0)
	{
		int64		unit = powers[scale % DIGIT_DECIMALS];

		digits[n++] = (int16) (left % unit * powers[DIGIT_DECIMALS - scale % DIGIT_DECIMALS]);
		left /= unit;
	}
	for (; left > 0; left /= DIGIT_BASE)
		digits[n++] = (int16) (left % DIGIT_BASE);
	/* zeros are not stored at either end; digits[0] is the last one */
	while (n > 0 && digits[n - 1] == 0)
		n--;
	while (zeros < n && digits[zeros] == 0)
		zeros++;
	weight = n > 0 ? n - 1 - fraction : 0;

	if (value < 0)
		header |= SHORT_SIGN;
	header |= weight & SHORT_WEIGHT_MASK;
	if (weight < 0)
		header |= SHORT_WEIGHT_SIGN;
	bytes = VARHDRSZ_SHORT + sizeof(header) + (n - zeros) * sizeof(int16);
	SET_VARSIZE_SHORT(numeric, bytes);
	memcpy(numeric +VARHDRSZ_SHORT, &header, sizeof(header));
	for (int i = n - 1; i >= zeros; i--)
		memcpy(numeric +VARHDRSZ_SHORT + sizeof(header) + (n - 1 - i) * sizeof(int16), &digits[i], sizeof(int16));

	return bytes;
}

/* The value of some digits of base 10,000, the first of which counts 10,000^weight. */
static bool
sum_digits(const char *digits, int ndigits, int weight, int scale, int64 *value)
{
	int64		sum = 0;
	int			fraction = (scale + DIGIT_DECIMALS - 1) / DIGIT_DECIMALS;

	/* down to the place where the scale ends */
	for (int i = 0; i <= weight + fraction; i++)
	{
		int16		digit = 0;
		bool		last = i == weight + fraction;
		int			decimals = last && scale % DIGIT_DECIMALS != 0 ? scale % DIGIT_DECIMALS : DIGIT_DECIMALS;

		if (i < ndigits)
			memcpy(&digit, digits + i * sizeof(int16), sizeof(int16));
		if (sum > MAX_VALUE / DIGIT_BASE)
			return false;
		sum = sum * (decimals == DIGIT_DECIMALS ? DIGIT_BASE : powers[decimals]) +
			digit / (decimals == DIGIT_DECIMALS ? 1 : powers[DIGIT_DECIMALS - decimals]);
	}
	*value = sum;
	return sum < MAX_VALUE;
}

/*
 * Take a numeric that is neither compressed nor out of line for an integer of
 * its display scale.  Returns false if it cannot be: it is no finite number,
 * too large, or of a form that encoding would not give back.
 */
bool
column_decimal_decode(const char *numeric, int64 *value, int *scale)
{
	int			bytes = VARSIZE_ANY_EXHDR(numeric);
	const char *data = VARDATA_ANY(numeric);
	int			ndigits = (bytes - (int) sizeof(uint16)) / (int) sizeof(int16);
	int			weight;
	uint16		header;
	char		again[DECIMAL_IMAGE_BYTES];

	if (bytes < (int) sizeof(uint16))
		return false;
	memcpy(&header, data, sizeof(header));
	if ((header & KIND_MASK) != SHORT_KIND)
		return false;
	*scale = header >> SHORT_SCALE_SHIFT & SHORT_SCALE_MASK;
	weight = header & SHORT_WEIGHT_MASK;
	if ((header & SHORT_WEIGHT_SIGN) != 0)
		weight -= SHORT_WEIGHT_MASK + 1;
	if (*scale > MAX_SCALE || ndigits > 6 || weight > 5 || weight < -6)
		return false;
	if (ndigits == 0)
		*value = 0;
	else if (!sum_digits(data + sizeof(header), ndigits, weight, *scale, value))
		return false;
	if ((header & SHORT_SIGN) != 0)
		*value = -*value;

	return column_decimal_encode(*value, *scale, again) == bytes + VARHDRSZ_SHORT &&
		memcmp(again + VARHDRSZ_SHORT, data, bytes) == 0;
}

/*-------------------------------------------------------------------------
 *
 * group_key.c
 *	  Keys of groups: which can be, what tells them apart, and which are equal.
 *
 * Each value has a word. Equal values have equal words; equal words may belong
 * to different values only where key_word_is_hash() says so, and then
 * key_equal() is asked.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "nodes/nodeFuncs.h"
#include "utils/builtins.h"
#include "utils/float.h"
#include "utils/lsyscache.h"
#include "utils/typcache.h"

#include "vector/expression/decimal.h"
#include "vector/keys/group_key.h"

static KeyKind
kind_of(Oid type)
{
	switch (type)
	{
		case BOOLOID:
		case INT2OID:
		case INT4OID:
		case INT8OID:
		case OIDOID:
		case CHAROID:
		case DATEOID:
		case TIMEOID:
		case TIMESTAMPOID:
		case TIMESTAMPTZOID:
			return KEY_BITS;
		case FLOAT4OID:
			return KEY_FLOAT4;
		case FLOAT8OID:
			return KEY_FLOAT8;
		case TEXTOID:
		case VARCHAROID:
			return KEY_TEXT;
		case BPCHAROID:
			return KEY_BPCHAR;
		case NUMERICOID:
			return KEY_NUMERIC;
		default:
			return KEY_OTHER;
	}
}

/* Are values of a type equal if and only if their bits are? */
bool
group_key_is_bits(Oid type)
{
	return kind_of(getBaseType(type)) == KEY_BITS;
}

/* Why an expression cannot be a group key, or NULL. */
const char *
group_key_refusal(Expr *expr)
{
	Oid			type = getBaseType(exprType((Node *) expr));
	Oid			collation = exprCollation((Node *) expr);
	TypeCacheEntry *cache = lookup_type_cache(type, TYPECACHE_HASH_PROC | TYPECACHE_EQ_OPR);

	if (!OidIsValid(cache->hash_proc) || !OidIsValid(cache->eq_opr))
		return psprintf("a group key of type %s", format_type_be(type));
	if (OidIsValid(collation) && !get_collation_isdeterministic(collation))
		return "a group key of a nondeterministic collation";
	return NULL;
}

/* What is known of a key of that type. */
void
group_key_prepare(Key *key, Oid type, Oid collation)
{
	type = getBaseType(type);
	get_typlenbyval(type, &key->len, &key->byval);
	key->collation = collation;
	key->kind = kind_of(type);
	if (key->kind >= KEY_NUMERIC)
	{
		TypeCacheEntry *cache = lookup_type_cache(type, TYPECACHE_HASH_PROC | TYPECACHE_EQ_OPR);

		fmgr_info(cache->hash_proc, &key->hash);
		fmgr_info(get_opcode(cache->eq_opr), &key->equal);
	}
}

/* Number of digits of a numeric, of base 10000, that fit into a word with their weight and sign. */
#define WORD_DIGITS 3

/*
 * The word of a numeric. What is equal differs in the display scale only, and
 * in zeros at either end, as PostgreSQL sees it; it stores none.
 */
static uint64
numeric_word(Key *key, Datum value)
{
	const char *p = VARDATA_ANY(DatumGetPointer(value));
	int			size = VARSIZE_ANY_EXHDR(DatumGetPointer(value));
	uint16		header;
	uint16		digits[WORD_DIGITS];
	uint64		word = 0;
	bool		negative = false;
	int			weight = 0;
	int			first = 0;
	int			n;

	memcpy(&header, p, sizeof(header));
	if (HEADER_KIND(header) == HEADER_SHORT)
	{
		negative = (header & SHORT_NEGATIVE) != 0;
		weight = SHORT_WEIGHT(header);
		n = (size - 2) / 2;
		p += 2;
	}
	else if (HEADER_KIND(header) != HEADER_SPECIAL)
	{
		int16		stored;

		memcpy(&stored, p + 2, sizeof(stored));
		negative = HEADER_KIND(header) == HEADER_NEGATIVE;
		weight = stored;
		n = (size - 4) / 2;
		p += 4;
	}
	else
		n = WORD_DIGITS + 1;
	if (n <= WORD_DIGITS)
	{
		memcpy(digits, p, sizeof(uint16) * n);
		while (n > 0 && digits[n - 1] == 0)
			n--;
		while (first < n && digits[first] == 0)
			first++;
		weight -= first;
		if (first == n)
			return 0;
		if (weight >= -64 && weight < 64)
		{
			for (int i = first; i < n; i++)
				word = word << 16 | digits[i];
			return word | (uint64) (weight + 64) << 48 | (uint64) negative << 55 | (uint64) (n - first) << 56;
		}
	}
	return (uint64) WORD_IS_HASH << 56 | DatumGetUInt32(FunctionCall1Coll(&key->hash, InvalidOid, value));
}

/* The words of a key's n values; 0 of NULL. What varies in length must be detoasted. */
void
group_key_words(Key *key, const Values *values, int n, uint64 *words)
{
	const Datum *v = values->values;

	switch (key->kind)
	{
		case KEY_INTEGER:
			Assert(false);		/* of joins only */
			break;
		case KEY_BITS:
			switch (key->len)
			{
				case 1:
					for (int i = 0; i < n; i++)
						words[i] = (uint8) v[i];
					break;
				case 2:
					for (int i = 0; i < n; i++)
						words[i] = (uint16) v[i];
					break;
				case 4:
					for (int i = 0; i < n; i++)
						words[i] = (uint32) v[i];
					break;
				default:
					for (int i = 0; i < n; i++)
						words[i] = (uint64) v[i];
					break;
			}
			break;
		case KEY_FLOAT4:

			/*
			 * -0 equals 0, and all NaNs are equal; no other value has the
			 * bits of one
			 */
			for (int i = 0; i < n; i++)
			{
				float4		f = DatumGetFloat4(v[i]);

				words[i] = isnan(f) ? UINT64CONST(0x7FC00000) : f == 0 ? 0 : (uint32) v[i];
			}
			break;
		case KEY_FLOAT8:
			for (int i = 0; i < n; i++)
			{
				float8		f = DatumGetFloat8(v[i]);

				words[i] = isnan(f) ? UINT64CONST(0x7FF8000000000000) : f == 0 ? 0 : (uint64) v[i];
			}
			break;
		case KEY_TEXT:
		case KEY_BPCHAR:
			for (int i = 0; i < n; i++)
			{
				char	   *data;
				int			len;

				if (values->has_nulls && values->nulls[i])
					continue;
				data = VARDATA_ANY(DatumGetPointer(v[i]));
				len = VARSIZE_ANY_EXHDR(DatumGetPointer(v[i]));
				if (key->kind == KEY_BPCHAR)
					while (len > 0 && data[len - 1] == ' ')
						len--;
				words[i] = key_text_word(data, len);
			}
			break;
		case KEY_NUMERIC:
			for (int i = 0; i < n; i++)
			{
				if (!values->has_nulls || !values->nulls[i])
					words[i] = numeric_word(key, v[i]);
			}
			break;
		case KEY_OTHER:
			for (int i = 0; i < n; i++)
			{
				if (!values->has_nulls || !values->nulls[i])
					words[i] = DatumGetUInt32(FunctionCall1Coll(&key->hash, key->collation, v[i]));
			}
			break;
	}
	if (values->has_nulls)
	{
		for (int i = 0; i < n; i++)
		{
			if (values->nulls[i])
				words[i] = 0;
		}
	}
}

/*-------------------------------------------------------------------------
 *
 * sort_key.c
 *	  Keys of rows: which have numbers, and how rows are compared.
 *
 * Rows are compared as PostgreSQL compares them, by its own functions wherever a
 * value is not a number itself.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/typcache.h"

#include "compat.h"
#include "planner/planner.h"
#include "sort/key_number.h"

/* ---- which keys ---- */

static KeyKind
kind_of(Oid type, Oid collation)
{
	switch (type)
	{
		case INT2OID:
		case INT4OID:
		case INT8OID:
		case DATEOID:
		case TIMEOID:
		case TIMESTAMPOID:
		case TIMESTAMPTZOID:
		case CASHOID:
			return KEY_SIGNED;
		case BOOLOID:
		case CHAROID:
		case OIDOID:
		case XID8OID:
		case PG_LSNOID:
			return KEY_UNSIGNED;
		case FLOAT4OID:
			return KEY_FLOAT4;
		case FLOAT8OID:
			return KEY_FLOAT8;
		case TEXTOID:
		case VARCHAROID:
		case BPCHAROID:
		case NAMEOID:
			return planner_compares_bytes(collation) ? KEY_BYTES : KEY_OTHER;
		case BYTEAOID:
		case UUIDOID:
			return KEY_BYTES;
		case NUMERICOID:
			return KEY_NUMERIC;
		default:
			return KEY_OTHER;
	}
}

/*
 * Can values of a type be told apart by their bytes before they are compared?
 * Equal bytes must be equal values, and no comparison may raise an error.
 */
static bool
has_dictionary(Oid type)
{
	switch (type)
	{
		case TEXTOID:
		case VARCHAROID:
		case BPCHAROID:
		case NAMEOID:
		case NUMERICOID:
		case UUIDOID:
		case INTERVALOID:
		case TIMETZOID:
			return true;
		default:
			return false;
	}
}

/* Is it the order of a type's own, up or down? */
static bool
is_own_order(Oid type, Oid operator, bool *descending)
{
	TypeCacheEntry *cache = lookup_type_cache(type, TYPECACHE_LT_OPR | TYPECACHE_GT_OPR);

	*descending = operator == cache->gt_opr;
	return operator == cache->lt_opr || operator == cache->gt_opr;
}

/* Has a key of this type, in the order of an operator family, numbers however many values it has? */
bool
sort_key_has_number(Oid type, Oid family, Oid collation)
{
	type = getBaseType(type);
	return lookup_type_cache(type, TYPECACHE_BTREE_OPFAMILY)->btree_opf == family &&
		kind_of(type, collation) != KEY_OTHER;
}

/* Has it numbers if it has few different values, and how many are few? */
bool
sort_key_may_have_number(Oid type, Oid family, int *few)
{
	type = getBaseType(type);
	*few = FEW_VALUES / 2;
	return lookup_type_cache(type, TYPECACHE_BTREE_OPFAMILY)->btree_opf == family && has_dictionary(type);
}

/*
 * Keys of rows, in the current context. Raises PostgreSQL's error if strings
 * have no collation.
 */
SortKeys *
sort_keys_create(TupleDesc tupdesc, const RowFormat *format, int nkeys, const AttrNumber *columns,
				 const Oid *operators, const Oid *collations, const bool *nulls_first)
{
	SortKeys   *keys = palloc0(sizeof(SortKeys));

	keys->n = nkeys;
	keys->format = format;
	keys->keys = palloc0(sizeof(SortKey) * Max(nkeys, 1));
	keys->scratch = AllocSetContextCreate(CurrentMemoryContext, "pgbillion sort keys", ALLOCSET_DEFAULT_SIZES);
	for (int i = 0; i < nkeys; i++)
	{
		SortKey    *key = &keys->keys[i];
		Form_pg_attribute attribute = TupleDescAttr(tupdesc, columns[i] - 1);
		Oid			type = getBaseType(attribute->atttypid);

		key->column = columns[i] - 1;
		key->len = attribute->attlen;
		key->nulls_first = nulls_first[i];
		key->kind = KEY_OTHER;
		if (is_own_order(type, operators[i], &key->descending))
		{
			key->kind = kind_of(type, collations[i]);
			key->few = has_dictionary(type);
		}
		key->text = type != BYTEAOID && type != UUIDOID;
		key->padded = type == BPCHAROID;
		key->by_value = key->kind != KEY_BYTES && key->kind != KEY_NUMERIC && key->kind != KEY_OTHER;
		key->support.ssup_cxt = CurrentMemoryContext;
		key->support.ssup_collation = collations[i];
		key->support.ssup_nulls_first = nulls_first[i];
		key->support.ssup_attno = columns[i];
		PrepareSortSupportFromOrderingOp(operators[i], &key->support);
	}
	return keys;
}

/* ---- comparisons ---- */

/* Below 0: the left row comes first by the keys from `first` on. */
int
sort_keys_compare(const SortKeys *keys, const char *left, const char *right, int first)
{
	for (int i = first; i < keys->n; i++)
	{
		SortKey    *key = &keys->keys[i];
		bool		left_null = row_is_null(keys->format, left, key->column);
		bool		right_null = row_is_null(keys->format, right, key->column);
		int			result;

		if (left_null || right_null)
		{
			if (left_null && right_null)
				continue;
			return left_null == key->nulls_first ? -1 : 1;
		}
		if (key->by_value)
		{
			uint64		a = number_of(key, row_value(keys->format, left, key->column));
			uint64		b = number_of(key, row_value(keys->format, right, key->column));

			if (a == b)
				continue;
			return (a < b) != key->descending ? -1 : 1;
		}
		result = ApplySortComparator(row_value(keys->format, left, key->column), false,
									 row_value(keys->format, right, key->column), false, &key->support);
		if (result != 0)
			return result;
	}
	return 0;
}

/*
 * A number of a row in the order of the first key, as far as it goes: rows of
 * equal numbers have to be compared.
 */
uint64
sort_keys_first_number(const SortKeys *keys, const char *row)
{
	const SortKey *key = &keys->keys[0];
	uint64		number;

	if (keys->n == 0 || key->kind == KEY_OTHER)
		return 0;
	if (row_is_null(keys->format, row, key->column))
		return key->nulls_first ? 0 : PG_UINT64_MAX;
	if (!key->by_value)
	{
		MemoryContext old = MemoryContextSwitchTo(keys->scratch);
		bool		whole = true;

		number = key_content_number(key, row_value(keys->format, row, key->column), 0, &whole);
		MemoryContextSwitchTo(old);
		MemoryContextReset(keys->scratch);
	}
	else
		number = number_of(key, row_value(keys->format, row, key->column));
	/* between those of NULL */
	return ((key->descending ? ~number : number) >> 1) + 1;
}

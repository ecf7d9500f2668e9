/*-------------------------------------------------------------------------
 *
 * key.c
 *	  When two values of a key are equal.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/builtins.h"
#if PG_VERSION_NUM >= 160000
#include "varatt.h"
#endif

#include "vector/keys/key.h"

/* Are values equal whose words do not tell? What varies in length must be detoasted. */
bool
key_equal(Key *key, Datum left, Datum right)
{
	char	   *a;
	char	   *b;
	int			a_len;
	int			b_len;

	if (key->kind >= KEY_NUMERIC)
		return DatumGetBool(FunctionCall2Coll(&key->equal, key->collation, left, right));
	Assert(key->kind == KEY_TEXT || key->kind == KEY_BPCHAR);
	a = VARDATA_ANY(DatumGetPointer(left));
	b = VARDATA_ANY(DatumGetPointer(right));
	a_len = VARSIZE_ANY_EXHDR(DatumGetPointer(left));
	b_len = VARSIZE_ANY_EXHDR(DatumGetPointer(right));
	if (key->kind == KEY_BPCHAR)
	{
		a_len = bpchartruelen(a, a_len);
		b_len = bpchartruelen(b, b_len);
	}
	return a_len == b_len && memcmp(a, b, a_len) == 0;
}

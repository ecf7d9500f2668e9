/*-------------------------------------------------------------------------
 *
 * compare_uuid.c
 *	  Comparisons of UUIDs, which are ordered by their bytes.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "port/pg_bswap.h"
#include "utils/uuid.h"

#include "vector/filter/predicate.h"

static bool
are_uuids(Oid left, Oid right)
{
	return left == UUIDOID && right == UUIDOID;
}

static inline int
compare_words(uint64 a, uint64 b)
{
	return a == b ? 0 : pg_ntoh64(a) < pg_ntoh64(b) ? -1 : 1;
}

static void
compare_uuids(const Comparison *comparison, const Values *left, const Values *right, int n, uint8 *truth)
{
	StaticAssertDecl(UUID_LEN == 2 * sizeof(uint64), "words of a UUID");
	for (int i = 0; i < n; i++)
	{
		uint64		a[2];
		uint64		b[2];
		int			order;

		if (left->nulls[i] || right->nulls[i])
		{
			truth[i] = TRUTH_NULL;
			continue;
		}
		memcpy(a, DatumGetPointer(left->values[i]), sizeof(a));
		memcpy(b, DatumGetPointer(right->values[i]), sizeof(b));
		order = compare_words(a[0], b[0]);
		truth[i] = holds(comparison->op, order != 0 ? order : compare_words(a[1], b[1]));
	}
}

const CompareKind uuid_comparisons[] = {
	{
		.applies = are_uuids,
		.compare = compare_uuids,
		.sought_as = UUIDOID,
	},
	{NULL}
};

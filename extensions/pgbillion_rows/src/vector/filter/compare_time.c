/*-------------------------------------------------------------------------
 *
 * compare_time.c
 *	  Comparisons of dates with timestamps.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/date.h"
#include "utils/timestamp.h"

#include "vector/filter/predicate.h"

static bool
are_date_and_timestamp(Oid left, Oid right)
{
	return left == DATEOID && right == TIMESTAMPOID;
}

static bool
are_timestamp_and_date(Oid left, Oid right)
{
	return left == TIMESTAMPOID && right == DATEOID;
}

static void
compare_date_timestamp(const Comparison *comparison, const Values *left, const Values *right, int n, uint8 *truth)
{
	for (int i = 0; i < n; i++)
		truth[i] = !left->nulls[i] && !right->nulls[i] &&
			holds(comparison->op, date_cmp_timestamp_internal(DatumGetDateADT(left->values[i]),
															  DatumGetTimestamp(right->values[i])));
}

static void
compare_timestamp_date(const Comparison *comparison, const Values *left, const Values *right, int n, uint8 *truth)
{
	for (int i = 0; i < n; i++)
		truth[i] = !left->nulls[i] && !right->nulls[i] &&
			holds(comparison->op, -date_cmp_timestamp_internal(DatumGetDateADT(right->values[i]),
															   DatumGetTimestamp(left->values[i])));
}

const CompareKind time_comparisons[] = {
	{
		.applies = are_date_and_timestamp,
		.commuted = &time_comparisons[1],
		.compare = compare_date_timestamp,
		.select = filter_select_integers,
		.select_packed = filter_select_integer_array,
		.excludes = filter_integers_excluded,
	},
	{
		.applies = are_timestamp_and_date,
		.commuted = &time_comparisons[0],
		.compare = compare_timestamp_date,
	},
	{NULL}
};

/*-------------------------------------------------------------------------
 *
 * collations.c
 *	  How strings of a collation are compared.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/pg_locale.h"

#include "planner/planner.h"

/* Are strings of this collation compared by bytes? */
bool
planner_compares_bytes(Oid collation)
{
	if (!OidIsValid(collation))
		return false;
#if PG_VERSION_NUM >= 180000
	return pg_newlocale_from_collation(collation)->collate_is_c;
#else
	return lc_collate_is_c(collation);
#endif
}

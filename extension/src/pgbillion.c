/*-------------------------------------------------------------------------
 *
 * pgbillion.c
 *	  Module entry: magic block and version.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"
#include "utils/builtins.h"

PG_MODULE_MAGIC;

PG_FUNCTION_INFO_V1(pgbillion_version);

/*
 * billion.version() returns text
 *		Version of the loaded library, as the control file had it when the
 *		library was built.
 */
Datum
pgbillion_version(PG_FUNCTION_ARGS)
{
	PG_RETURN_TEXT_P(cstring_to_text(PGBILLION_VERSION));
}

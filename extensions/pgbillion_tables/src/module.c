/*-------------------------------------------------------------------------
 *
 * module.c
 *	  Module entry: magic block, initialization and version.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"
#include "utils/guc.h"
#include "utils/builtins.h"

#include "lazy_heap/lazy_heap.h"
#include "server_build.h"
#include "session/session.h"
#include "stamp/stamp.h"

PG_MODULE_MAGIC;
SERVER_BUILD("pgbillion_tables");

void		_PG_init(void);

void
_PG_init(void)
{
	require_server_build("pgbillion_tables");
	stamp_at_abort_init();
	lazy_heap_init();
	metadata_memory_init();
	tenant_guard_init();
	MarkGUCPrefixReserved("pgbillion_tables");
}

PG_FUNCTION_INFO_V1(pgbillion_tables_version);

/*
 * pgbillion_tables.version() returns text
 *		Version of the loaded library, as the control file had it when the
 *		library was built.
 */
Datum
pgbillion_tables_version(PG_FUNCTION_ARGS)
{
	PG_RETURN_TEXT_P(cstring_to_text(PGBILLION_VERSION));
}

/*-------------------------------------------------------------------------
 *
 * pgbillion.c
 *	  Module entry: magic block, initialisation and version.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"
#include "utils/builtins.h"

#include "catalog/create_tables.h"
#include "planner/before_join.h"
#include "shard/connection.h"
#include "shard/shard.h"
#include "storage/lazy_heap.h"
#include "vector/vector.h"

PG_MODULE_MAGIC;

void		_PG_init(void);

void
_PG_init(void)
{
	CreateTablesInit();
	LazyHeapInit();
	VectorInit();
	ShardInit();
	ShardConnectionInit();
	BeforeJoinInit();
}

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

/*-------------------------------------------------------------------------
 *
 * postgres_fdw.c
 *	  postgres_fdw's routine, and where the transaction has used it.
 *
 * A transaction that has used postgres_fdw's own connection to a server goes
 * on there with that server (see shard.h).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "utils/memutils.h"

#include "compat.h"
#include "shard/libpq.h"
#include "shard/shard.h"

/* postgres_fdw's routine, for the life of the backend */
static FdwRoutine *postgres_fdw = NULL;

/* servers that this transaction has reached through postgres_fdw's connection */
static List *used_servers = NIL;

static void
forget_used_servers(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_COMMIT:
		case XACT_EVENT_ABORT:
		case XACT_EVENT_PREPARE:
			/* the list went with TopTransactionContext, or will */
			used_servers = NIL;
			break;
		default:
			break;
	}
}

/*
 * Return postgres_fdw's routine. Raises an error when the module is not
 * installed.
 */
FdwRoutine *
postgres_fdw_routine(void)
{
	if (postgres_fdw == NULL)
	{
		PGFunction	handler = load_external_function(POSTGRES_FDW, "postgres_fdw_handler", true, NULL);
		MemoryContext oldcontext;

		LOCAL_FCINFO(fcinfo, 0);

		LibpqFind();
		InitFunctionCallInfoData(*fcinfo, NULL, 0, InvalidOid, NULL, NULL);
		oldcontext = MemoryContextSwitchTo(TopMemoryContext);
		postgres_fdw = (FdwRoutine *) DatumGetPointer(handler(fcinfo));
		MemoryContextSwitchTo(oldcontext);
	}
	return postgres_fdw;
}

/* Does this transaction have one of postgres_fdw on that server? */
bool
postgres_fdw_used(Oid serverid)
{
	return list_member_oid(used_servers, serverid);
}

/* It does from now on. */
void
postgres_fdw_note_use(Oid serverid)
{
	MemoryContext oldcontext = MemoryContextSwitchTo(TopTransactionContext);

	used_servers = list_append_unique_oid(used_servers, serverid);
	MemoryContextSwitchTo(oldcontext);
}

void
postgres_fdw_init(void)
{
	RegisterXactCallback(forget_used_servers, NULL);
}

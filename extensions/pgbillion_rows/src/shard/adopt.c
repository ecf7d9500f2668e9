/*-------------------------------------------------------------------------
 *
 * adopt.c
 *	  Turns servers of postgres_fdw into servers of pgbillion_fdw, and back.
 *
 * What changes is which wrapper a server belongs to: pg_foreign_server.srvfdw
 * and the dependency. Tables, options and user mappings stay as they are. Other
 * sessions learn of it by the invalidation of their foreign tables, whose
 * cache entries hold the wrapper's routine.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/catalog.h"
#include "catalog/dependency.h"
#include "catalog/indexing.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_foreign_data_wrapper.h"
#include "catalog/pg_foreign_server.h"
#include "catalog/pg_foreign_table.h"
#include "foreign/foreign.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/inval.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "compat.h"
#include "shard/shard.h"

PG_FUNCTION_INFO_V1(pgbillion_adopt_foreign_servers);
PG_FUNCTION_INFO_V1(pgbillion_release_foreign_servers);

/* Make every session look up the routine of the server's tables again. */
static void
invalidate_tables(Oid serverid)
{
	Relation	rel = table_open(ForeignTableRelationId, AccessShareLock);
	SysScanDesc scan = systable_beginscan(rel, InvalidOid, false, NULL, 0, NULL);
	HeapTuple	tuple;

	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_foreign_table table = (Form_pg_foreign_table) GETSTRUCT(tuple);

		if (table->ftserver == serverid)
			CacheInvalidateRelcacheByRelid(table->ftrelid);
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
}

static void
check_owner(Oid serverid, const char *name)
{
	if (!server_owner_check(serverid, GetUserId()))
		aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_FOREIGN_SERVER, name);
}

/*
 * Lock a server of the caller's by its name, against all use, and return its
 * OID. Whoever does not own it waits for nobody and stands in nobody's way;
 * what the name leads to, and the owner, may be others once there is the lock.
 */
static Oid
lock_own_server(const char *name)
{
	for (;;)
	{
		Oid			serverid = get_foreign_server_oid(name, false);

		check_owner(serverid, name);
		LockDatabaseObject(ForeignServerRelationId, serverid, 0, AccessExclusiveLock);
		if (get_foreign_server_oid(name, true) == serverid)
		{
			check_owner(serverid, name);
			return serverid;
		}
		UnlockDatabaseObject(ForeignServerRelationId, serverid, 0, AccessExclusiveLock);
	}
}

/* Put a server that is locked from one wrapper to the other. */
static void
move_server(Oid serverid, Oid from, Oid to)
{
	Relation	rel = table_open(ForeignServerRelationId, RowExclusiveLock);
	HeapTuple	tuple = SearchSysCacheCopy1(FOREIGNSERVEROID, ObjectIdGetDatum(serverid));
	Form_pg_foreign_server server;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for foreign server %u", serverid);
	server = (Form_pg_foreign_server) GETSTRUCT(tuple);
	server->srvfdw = to;
	CatalogTupleUpdate(rel, &tuple->t_self, tuple);
	if (changeDependencyFor(ForeignServerRelationId, serverid, ForeignDataWrapperRelationId, from, to) != 1)
		elog(ERROR, "foreign server %u does not depend on its foreign-data wrapper", serverid);
	InvokeObjectPostAlterHook(ForeignServerRelationId, serverid, 0);
	invalidate_tables(serverid);
	/* this transaction may have written there; nobody has noted it */
	note_postgres_fdw_use(serverid);
	table_close(rel, RowExclusiveLock);
}

/* Names of all servers of the wrapper that the user owns. */
static List *
own_servers(Oid wrapper)
{
	Relation	rel = table_open(ForeignServerRelationId, AccessShareLock);
	SysScanDesc scan = systable_beginscan(rel, InvalidOid, false, NULL, 0, NULL);
	List	   *names = NIL;
	HeapTuple	tuple;

	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_foreign_server server = (Form_pg_foreign_server) GETSTRUCT(tuple);

		if (server->srvfdw == wrapper && server_owner_check(server->oid, GetUserId()))
			names = lappend(names, pstrdup(NameStr(server->srvname)));
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return names;
}

static int64
move_servers(FunctionCallInfo fcinfo, const char *from_name, const char *to_name)
{
	ForeignDataWrapper *to = GetForeignDataWrapperByName(to_name, false);
	ForeignDataWrapper *from = GetForeignDataWrapperByName(from_name, true);
	List	   *names = NIL;
	ListCell   *lc;
	int64		moved = 0;

	PreventCommandIfReadOnly("moving foreign servers");
	if (wrapper_usage_check(to->fdwid, GetUserId()) != ACLCHECK_OK)
		aclcheck_error(ACLCHECK_NO_PRIV, OBJECT_FDW, to->fdwname);

	if (PG_ARGISNULL(0))
	{
		if (from != NULL)
			names = own_servers(from->fdwid);
	}
	else
	{
		Datum	   *elements;
		int			n;

		deconstruct_array(PG_GETARG_ARRAYTYPE_P(0), NAMEOID, NAMEDATALEN, false, TYPALIGN_CHAR, &elements, NULL, &n);
		for (int i = 0; i < n; i++)
			names = lappend(names, NameStr(*DatumGetName(elements[i])));
	}

	foreach(lc, names)
	{
		Oid			serverid = lock_own_server(lfirst(lc));
		ForeignServer *server = GetForeignServer(serverid);

		if (server->fdwid == to->fdwid)
			continue;
		if (from == NULL || server->fdwid != from->fdwid)
			ereport(ERROR,
					(errcode(ERRCODE_WRONG_OBJECT_TYPE),
					 errmsg("server \"%s\" is not one of foreign-data wrapper %s", server->servername, from_name)));
		move_server(serverid, from->fdwid, to->fdwid);
		CommandCounterIncrement();
		moved++;
	}
	return moved;
}

/*
 * pgbillion_rows.adopt_foreign_servers(servers name[]) returns bigint
 */
Datum
pgbillion_adopt_foreign_servers(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64(move_servers(fcinfo, "postgres_fdw", "pgbillion_fdw"));
}

/*
 * pgbillion_rows.release_foreign_servers(servers name[]) returns bigint
 */
Datum
pgbillion_release_foreign_servers(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64(move_servers(fcinfo, "pgbillion_fdw", "postgres_fdw"));
}

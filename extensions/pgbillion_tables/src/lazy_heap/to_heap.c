/*-------------------------------------------------------------------------
 *
 * to_heap.c
 *	  The functions that make lazy tables ordinary ones.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/table.h"
#include "access/xact.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "catalog/objectaddress.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "lazy_heap/lazy_heap.h"

/* so that the locks of one transaction, about eight a table, fit the default lock table many times */
#define TABLES_PER_TRANSACTION 100

PG_FUNCTION_INFO_V1(pgbillion_to_heap);
PG_FUNCTION_INFO_V1(pgbillion_all_to_heap);

static bool one_to_heap(Oid relid);

/*
 * pgbillion_tables.to_heap(tables regclass[]) returns bigint
 *		Make lazy tables ordinary heap tables, files included, and return how
 *		many of them were lazy. The caller must own them.
 */
Datum
pgbillion_to_heap(PG_FUNCTION_ARGS)
{
	ArrayType  *array = PG_GETARG_ARRAYTYPE_P(0);
	Datum	   *tables;
	bool	   *nulls;
	int			ntables;
	int64		changed = 0;

	PreventCommandIfReadOnly("pgbillion_tables.to_heap()");

	deconstruct_array(array, REGCLASSOID, sizeof(Oid), true, TYPALIGN_INT,
					  &tables, &nulls, &ntables);
	for (int i = 0; i < ntables; i++)
	{
		Relation	rel;
		Oid			relid;
		char		relkind;

		CHECK_FOR_INTERRUPTS();
		if (nulls[i])
			continue;
		relid = DatumGetObjectId(tables[i]);
		relkind = get_rel_relkind(relid);
		if (relkind == '\0')
			ereport(ERROR,
					(errcode(ERRCODE_UNDEFINED_TABLE),
					 errmsg("relation with OID %u does not exist", relid)));
		if (relkind != RELKIND_RELATION && relkind != RELKIND_MATVIEW)
			ereport(ERROR,
					(errcode(ERRCODE_WRONG_OBJECT_TYPE),
					 errmsg("\"%s\" is not a table", get_rel_name(relid))));
		if (!class_owner_check(relid, GetUserId()))
			aclcheck_error(ACLCHECK_NOT_OWNER, get_relkind_objtype(relkind), get_rel_name(relid));

		rel = table_open(relid, RowExclusiveLock);
		if (lazy_to_heap(rel))
			changed++;
		table_close(rel, NoLock);
	}

	PG_RETURN_INT64(changed);
}

/* Make a table that was lazy a heap, unless it is gone or somebody else's. */
static bool
one_to_heap(Oid relid)
{
	Relation	rel;
	bool		changed;

	/*
	 * before the lock: who may not change a table must not be able to hold up
	 * others
	 */
	if (get_rel_relkind(relid) == '\0' || !class_owner_check(relid, GetUserId()))
		return false;
	rel = try_table_open(relid, RowExclusiveLock);
	if (rel == NULL)
		return false;
	/* a temporary table of another session goes with that */
	changed = !RELATION_IS_OTHER_TEMP(rel) && lazy_to_heap(rel);
	table_close(rel, NoLock);

	return changed;
}

/*
 * CALL pgbillion_tables.all_to_heap()
 *		Make all lazy tables of the database that the caller owns ordinary heap
 *		tables, some a transaction, so that pg_upgrade can be run.
 */
Datum
pgbillion_all_to_heap(PG_FUNCTION_ARGS)
{
	MemoryContext context = CurrentMemoryContext;
	List	   *tables;
	ListCell   *lc;
	int64		changed = 0;
	int			nleft;
	Oid			left = InvalidOid;

	if (fcinfo->context == NULL || !IsA(fcinfo->context, CallContext) ||
		castNode(CallContext, fcinfo->context)->atomic)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TRANSACTION_TERMINATION),
				 errmsg("pgbillion_tables.all_to_heap() cannot run inside a transaction block or a function"),
				 errhint("It commits. Within a transaction, pgbillion_tables.to_heap() takes a list of tables.")));
	PreventCommandIfReadOnly("pgbillion_tables.all_to_heap()");

	SPI_connect_ext(SPI_OPT_NONATOMIC);
	MemoryContextSwitchTo(context);
	tables = lazy_tables();
	foreach(lc, tables)
	{
		CHECK_FOR_INTERRUPTS();
		PushActiveSnapshot(GetTransactionSnapshot());
		if (one_to_heap(lfirst_oid(lc)))
			changed++;
		PopActiveSnapshot();
		if ((foreach_current_index(lc) + 1) % TABLES_PER_TRANSACTION == 0)
		{
			SPI_commit();
			MemoryContextSwitchTo(context);
		}
	}
	SPI_commit();
	MemoryContextSwitchTo(context);

	/* in a transaction of its own, which holds no other lock than this */
	nleft = lazy_take_mark_off(&left);

	/*
	 * the caller's transaction may go on for long, and its lock holds up all
	 * makers of lazy tables
	 */
	SPI_commit();
	MemoryContextSwitchTo(context);
	ereport(NOTICE,
			(errmsg_plural("%lld table is an ordinary heap table now",
						   "%lld tables are ordinary heap tables now",
						   changed, (long long) changed)));
	if (nleft > 0)
		ereport(WARNING,
				(errmsg_plural("%d lazy table is left", "%d lazy tables are left", nleft, nleft),
				 errdetail("One of them is \"%s\".", get_rel_name(left) ? get_rel_name(left) : "?"),
				 errhint("They are not yours, or were created meanwhile: call this again, as a superuser.")));
	SPI_finish();

	PG_RETURN_VOID();
}

/*-------------------------------------------------------------------------
 *
 * drop_guard.c
 *	  The event trigger that keeps rows from going with the extension.
 *
 * A lazy table has no row, but what depends on it may: a heap table that
 * inherits from it, a partition, a column of its row type, a materialized
 * view. DROP … CASCADE of the extension would take them along, so that it is
 * refused while there is any lazy table. Without CASCADE PostgreSQL refuses
 * it.
 *
 * An event trigger rather than a hook, because the session need not have
 * loaded this library before. It does not see tables that are created at the
 * same moment; neither does PostgreSQL.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/dependency.h"
#include "catalog/indexing.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "catalog/pg_depend.h"
#include "catalog/pg_extension.h"
#include "catalog/pg_proc.h"
#include "commands/defrem.h"
#include "commands/event_trigger.h"
#include "commands/extension.h"
#include "fmgr.h"
#include "nodes/parsenodes.h"
#include "utils/acl.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

PG_FUNCTION_INFO_V1(pgbillion_drop_guard);

static bool drops_extension(Node *parsetree, Oid extension);
static Oid	extension_owner(Oid extension);
static Oid	any_lazy_table(Oid extension);

/*
 * pgbillion_tables.drop_guard() returns event_trigger
 *		At the start of commands that could drop the extension by cascade.
 */
Datum
pgbillion_drop_guard(PG_FUNCTION_ARGS)
{
	Oid			extension = getExtensionOfObject(ProcedureRelationId, fcinfo->flinfo->fn_oid);
	EventTriggerData *data;
	Oid			table;

	if (!CALLED_AS_EVENT_TRIGGER(fcinfo))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_EVENT_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("pgbillion_tables.drop_guard() is for event triggers")));
	data = (EventTriggerData *) fcinfo->context;

	if (!OidIsValid(extension) || !drops_extension(data->parsetree, extension))
		PG_RETURN_NULL();
	table = any_lazy_table(extension);
	if (OidIsValid(table))
		ereport(ERROR,
				(errcode(ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST),
				 errmsg("cannot drop extension %s while there are lazy tables", get_extension_name(extension)),
				 errdetail("Table \"%s\", for example, would be dropped with all that depends on it, such as tables with rows that inherit from it.",
						   get_rel_name(table)),
				 errhint("Make lazy tables ordinary with pgbillion_tables.to_heap(), or drop them, first.")));
	PG_RETURN_NULL();
}

/*
 * Might the command drop the extension and what depends on it? DROP SCHEMA
 * cannot: the schema is a member of the extension.
 */
static bool
drops_extension(Node *parsetree, Oid extension)
{
	ListCell   *lc;

	if (IsA(parsetree, DropStmt) && ((DropStmt *) parsetree)->behavior == DROP_CASCADE)
	{
		DropStmt   *stmt = (DropStmt *) parsetree;

		foreach(lc, stmt->objects)
		{
			if (stmt->removeType == OBJECT_EXTENSION &&
				get_extension_oid(strVal(lfirst(lc)), true) == extension)
				return true;
		}
	}
	else if (IsA(parsetree, DropOwnedStmt) && ((DropOwnedStmt *) parsetree)->behavior == DROP_CASCADE)
	{
		foreach(lc, ((DropOwnedStmt *) parsetree)->roles)
		{
			Oid			role = get_rolespec_oid(lfirst(lc), true);

			if (OidIsValid(role) && role == extension_owner(extension))
				return true;
		}
	}
	return false;
}

static Oid
extension_owner(Oid extension)
{
	Relation	rel = table_open(ExtensionRelationId, AccessShareLock);
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;
	Oid			owner = InvalidOid;

	ScanKeyInit(&key, Anum_pg_extension_oid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(extension));
	scan = systable_beginscan(rel, ExtensionOidIndexId, true, NULL, 1, &key);
	tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple))
		owner = ((Form_pg_extension) GETSTRUCT(tuple))->extowner;
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return owner;
}

/* A lazy table that is not the extension's own, or InvalidOid. */
static Oid
any_lazy_table(Oid extension)
{
	Oid			result = InvalidOid;
	Relation	depend = table_open(DependRelationId, AccessShareLock);
	ScanKeyData key[2];
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&key[0], Anum_pg_depend_refclassid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(AccessMethodRelationId));
	ScanKeyInit(&key[1], Anum_pg_depend_refobjid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(get_table_am_oid("lazy_heap", false)));
	scan = systable_beginscan(depend, DependReferenceIndexId, true, NULL, 2, key);
	while (!OidIsValid(result) && HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_depend form = (Form_pg_depend) GETSTRUCT(tuple);

		if (form->classid == RelationRelationId &&
			getExtensionOfObject(RelationRelationId, form->objid) != extension)
			result = form->objid;
	}
	systable_endscan(scan);
	table_close(depend, AccessShareLock);

	return result;
}

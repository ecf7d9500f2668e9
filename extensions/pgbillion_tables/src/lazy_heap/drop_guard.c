/*-------------------------------------------------------------------------
 *
 * drop_guard.c
 *	  The event trigger that keeps rows from going with the extension.
 *
 * A lazy table has no row, but what depends on it may: a heap table that
 * inherits from it, a partition, a column of its row type, a materialized
 * view. DROP … CASCADE of the extension would take them along, so that it is
 * refused while there is any lazy table. Without CASCADE core refuses it.
 *
 * An event trigger rather than a hook, because the session need not have
 * loaded this library before. It does not see tables that are created at the
 * same moment; neither does core.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/table.h"
#include "catalog/dependency.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "catalog/pg_depend.h"
#include "catalog/pg_namespace.h"
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

static bool drops_extension(Node *parsetree, Oid extension, Oid function);
static bool owns_extension(Oid role, Oid function);
static Oid	any_lazy_table(Oid extension);

/*
 * pgbillion_tables.drop_guard() returns event_trigger
 *		At the start of commands that could drop the extension by cascade.
 */
Datum
pgbillion_drop_guard(PG_FUNCTION_ARGS)
{
	Oid			function = fcinfo->flinfo->fn_oid;
	Oid			extension = getExtensionOfObject(ProcedureRelationId, function);
	EventTriggerData *data;
	Oid			table;

	if (!CALLED_AS_EVENT_TRIGGER(fcinfo))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_EVENT_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("pgbillion_tables.drop_guard() is for event triggers")));
	data = (EventTriggerData *) fcinfo->context;

	if (!OidIsValid(extension) || !drops_extension(data->parsetree, extension, function))
		PG_RETURN_NULL();
	table = any_lazy_table(extension);
	if (OidIsValid(table))
		ereport(ERROR,
				(errcode(ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST),
				 errmsg("cannot drop extension %s while there are lazy tables", get_extension_name(extension)),
				 errdetail("\"%s\" for one would be dropped, with all that depends on it: tables with rows that inherit from it, perhaps.",
						   get_rel_name(table)),
				 errhint("Make lazy tables ordinary with pgbillion_tables.to_heap(), or drop them, first.")));
	PG_RETURN_NULL();
}

/*
 * Might the command drop the extension and what depends on it? `function` is
 * one of the extension's, and in its schema.
 */
static bool
drops_extension(Node *parsetree, Oid extension, Oid function)
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
			if (stmt->removeType == OBJECT_SCHEMA &&
				get_namespace_oid(strVal(lfirst(lc)), true) == get_func_namespace(function))
				return true;
		}
	}
	else if (IsA(parsetree, DropOwnedStmt) && ((DropOwnedStmt *) parsetree)->behavior == DROP_CASCADE)
	{
		foreach(lc, ((DropOwnedStmt *) parsetree)->roles)
		{
			Oid			role = get_rolespec_oid(lfirst(lc), true);

			if (OidIsValid(role) && owns_extension(role, function))
				return true;
		}
	}
	return false;
}

/* Does the role own the extension, as it then owns its functions, or the schema? */
static bool
owns_extension(Oid role, Oid function)
{
	bool		result = false;
	HeapTuple	tuple;

	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(function));
	if (HeapTupleIsValid(tuple))
	{
		result = ((Form_pg_proc) GETSTRUCT(tuple))->proowner == role;
		ReleaseSysCache(tuple);
	}
	tuple = SearchSysCache1(NAMESPACEOID, ObjectIdGetDatum(get_func_namespace(function)));
	if (HeapTupleIsValid(tuple))
	{
		result |= ((Form_pg_namespace) GETSTRUCT(tuple))->nspowner == role;
		ReleaseSysCache(tuple);
	}
	return result;
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

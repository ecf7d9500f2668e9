/*-------------------------------------------------------------------------
 *
 * repair.c
 *	  Records of owners and grants that are missing, made again.
 *
 * pg_shdepend has the owner of each relation and the roles with privileges on it.
 * Without it, DROP ROLE leaves relations without an owner behind, which pg_dump
 * refuses, and DROP OWNED and REASSIGN OWNED pass them over. Earlier builds of
 * this extension deleted them for a lazy table in a tablespace; PostgreSQL
 * does when a partitioned table is moved to the default tablespace.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/catalog.h"
#include "catalog/dependency.h"
#include "catalog/indexing.h"
#include "catalog/pg_attribute.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_class.h"
#include "catalog/pg_shdepend.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "utils/tuplestore.h"

#include "compat.h"

PG_FUNCTION_INFO_V1(pgbillion_repair_dependencies);

/* A relation, or one of its columns, and what it says of roles. */
typedef struct Subject
{
	ObjectAddress address;
	Oid			owner;
	Acl		   *acl;			/* or NULL */
	char	   *column;			/* or NULL */
} Subject;

static bool has_owner_record(char relkind);
static void check_owner(ReturnSetInfo *result, Relation shdepend, const Subject *subject);
static void check_privileges(ReturnSetInfo *result, Relation shdepend, const Subject *subject);
static void check_columns(ReturnSetInfo *result, Relation shdepend);
static bool is_recorded(Relation shdepend, const Subject *subject, Oid role,
						SharedDependencyType deptype);
static void tell(ReturnSetInfo *result, const Subject *subject, Oid role, const char *missing,
				 const char *outcome);

/*
 * pgbillion_tables.repair_dependencies() returns rows of what was missing
 *		Record owners and grants of all relations that pg_shdepend does not
 *		know. Superusers only.
 *
 * Nobody else can change pg_shdepend meanwhile, in any database, so that no
 * relation is dropped, and no owner or privilege changed, between our looking
 * and our recording.
 */
Datum
pgbillion_repair_dependencies(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	Relation	shdepend;
	Relation	pg_class;
	SysScanDesc scan;
	HeapTuple	tuple;

	if (!superuser())
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("must be superuser to repair dependencies")));
	PreventCommandIfReadOnly("pgbillion_tables.repair_dependencies()");
	InitMaterializedSRF(fcinfo, 0);

	shdepend = table_open(SharedDependRelationId, ShareRowExclusiveLock);
	InvalidateCatalogSnapshot();
	pg_class = table_open(RelationRelationId, AccessShareLock);
	scan = systable_beginscan(pg_class, InvalidOid, false, NULL, 0, NULL);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_class form = (Form_pg_class) GETSTRUCT(tuple);
		Subject		subject = {.owner = form->relowner};
		bool		isnull;
		Datum		acl;

		CHECK_FOR_INTERRUPTS();
		ObjectAddressSet(subject.address, RelationRelationId, form->oid);
		if (IsPinnedObject(RelationRelationId, form->oid) || !has_owner_record(form->relkind))
			continue;
		acl = heap_getattr(tuple, Anum_pg_class_relacl, RelationGetDescr(pg_class), &isnull);
		if (!isnull)
			subject.acl = DatumGetAclPCopy(acl);
		check_owner(result, shdepend, &subject);
		check_privileges(result, shdepend, &subject);
	}
	systable_endscan(scan);
	table_close(pg_class, AccessShareLock);
	check_columns(result, shdepend);
	table_close(shdepend, NoLock);

	PG_RETURN_NULL();
}

/* Is it a kind of relation whose owner PostgreSQL records, and not that of its table or type? */
static bool
has_owner_record(char relkind)
{
	return relkind == RELKIND_RELATION || relkind == RELKIND_MATVIEW ||
		relkind == RELKIND_PARTITIONED_TABLE || relkind == RELKIND_VIEW ||
		relkind == RELKIND_SEQUENCE || relkind == RELKIND_FOREIGN_TABLE;
}

static void
check_owner(ReturnSetInfo *result, Relation shdepend, const Subject *subject)
{
	Oid			owner = subject->owner;
	const char *outcome = "recorded";

	if (IsPinnedObject(AuthIdRelationId, owner) ||
		is_recorded(shdepend, subject, owner, SHARED_DEPENDENCY_OWNER))
		return;
	if (SearchSysCacheExists1(AUTHOID, ObjectIdGetDatum(owner)))
		recordDependencyOnOwner(RelationRelationId, subject->address.objectId, owner);
	else
		outcome = "the role does not exist: give it an owner with ALTER TABLE ... OWNER TO";
	tell(result, subject, owner, "owner", outcome);
}

/* All who are in an ACL, as grantee or as grantor, except the owner, are recorded. */
static void
check_privileges(ReturnSetInfo *result, Relation shdepend, const Subject *subject)
{
	Oid		   *roles = NULL;
	int			nroles = subject->acl != NULL ? aclmembers(subject->acl, &roles) : 0;

	for (int i = 0; i < nroles; i++)
	{
		const char *outcome = "recorded";

		if (roles[i] == subject->owner || IsPinnedObject(AuthIdRelationId, roles[i]) ||
			is_recorded(shdepend, subject, roles[i], SHARED_DEPENDENCY_ACL))
			continue;
		if (SearchSysCacheExists1(AUTHOID, ObjectIdGetDatum(roles[i])))
		{
			Oid		   *member = palloc(sizeof(Oid));

			/* which frees it */
			member[0] = roles[i];
			updateAclDependencies(RelationRelationId, subject->address.objectId, subject->address.objectSubId,
								  subject->owner, 0, NULL, 1, member);
		}
		else
		{
			/* as DROP OWNED would have done, columns included */
			RemoveRoleFromObjectACL(roles[i], RelationRelationId, subject->address.objectId);
			outcome = "the role does not exist: its privileges are removed";
		}
		tell(result, subject, roles[i], "privileges", outcome);
	}
}

/* The same for all columns with an ACL; those of roles that do not exist may be gone by now. */
static void
check_columns(ReturnSetInfo *result, Relation shdepend)
{
	Relation	pg_attribute = table_open(AttributeRelationId, AccessShareLock);
	SysScanDesc scan;
	HeapTuple	tuple;

	scan = systable_beginscan(pg_attribute, InvalidOid, false, NULL, 0, NULL);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_attribute form = (Form_pg_attribute) GETSTRUCT(tuple);
		Subject		subject = {.column = NameStr(form->attname)};
		HeapTuple	relation;
		bool		isnull;
		Datum		acl;

		CHECK_FOR_INTERRUPTS();
		acl = heap_getattr(tuple, Anum_pg_attribute_attacl, RelationGetDescr(pg_attribute), &isnull);
		if (isnull || IsPinnedObject(RelationRelationId, form->attrelid))
			continue;
		subject.acl = DatumGetAclPCopy(acl);
		ObjectAddressSubSet(subject.address, RelationRelationId, form->attrelid, form->attnum);
		relation = SearchSysCache1(RELOID, ObjectIdGetDatum(form->attrelid));
		if (!HeapTupleIsValid(relation))
			continue;
		subject.owner = ((Form_pg_class) GETSTRUCT(relation))->relowner;
		ReleaseSysCache(relation);
		check_privileges(result, shdepend, &subject);
	}
	systable_endscan(scan);
	table_close(pg_attribute, AccessShareLock);
}

static bool
is_recorded(Relation shdepend, const Subject *subject, Oid role, SharedDependencyType deptype)
{
	bool		found = false;
	ScanKeyData key[4];
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&key[0], Anum_pg_shdepend_dbid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(MyDatabaseId));
	ScanKeyInit(&key[1], Anum_pg_shdepend_classid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(RelationRelationId));
	ScanKeyInit(&key[2], Anum_pg_shdepend_objid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(subject->address.objectId));
	ScanKeyInit(&key[3], Anum_pg_shdepend_objsubid, BTEqualStrategyNumber, F_INT4EQ,
				Int32GetDatum(subject->address.objectSubId));
	scan = systable_beginscan(shdepend, SharedDependDependerIndexId, true, NULL, 4, key);
	while (!found && HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_shdepend form = (Form_pg_shdepend) GETSTRUCT(tuple);

		found = form->deptype == deptype && form->refclassid == AuthIdRelationId &&
			form->refobjid == role;
	}
	systable_endscan(scan);

	return found;
}

static void
tell(ReturnSetInfo *result, const Subject *subject, Oid role, const char *missing,
	 const char *outcome)
{
	Datum		values[5];
	bool		nulls[5] = {false, subject->column == NULL, false, false, false};

	values[0] = ObjectIdGetDatum(subject->address.objectId);
	values[1] = subject->column != NULL ? CStringGetDatum(subject->column) : (Datum) 0;
	values[2] = ObjectIdGetDatum(role);
	values[3] = CStringGetTextDatum(missing);
	values[4] = CStringGetTextDatum(outcome);
	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
}

/*-------------------------------------------------------------------------
 *
 * template_version.c
 *	  Whether a template, or what its clones depend on, has changed.
 *
 * A version is a hash of where catalog rows are, and of who wrote them. An
 * update changes that, whatever it updates, except for those in place, which
 * only tell statistics of relations.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/catalog.h"
#include "catalog/dependency.h"
#include "catalog/objectaddress.h"
#include "catalog/pg_aggregate.h"
#include "catalog/pg_attribute.h"
#include "catalog/pg_auth_members.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_database.h"
#include "catalog/pg_default_acl.h"
#include "catalog/pg_depend.h"
#include "catalog/pg_language.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_operator.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_range.h"
#include "catalog/pg_statistic.h"
#include "catalog/pg_tablespace.h"
#include "catalog/pg_trigger.h"
#include "catalog/pg_type.h"
#include "common/hashfn.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/catcache.h"
#include "utils/fmgroids.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "catalog_rows/catalog_rows.h"
#include "clone/clone.h"

static void add_template(StringInfo buf, const MemberRows *rows);
static void add_references(StringInfo buf, const MemberRows *rows);
static void find_references(HTAB *references, const MemberRows *rows);
static void find_privileged(HTAB *references, const MemberRows *rows, Oid catalog, HeapTuple tuple);
static void find_routine(HTAB *references, const MemberRows *rows, HeapTuple tuple);
static void find_aggregate(HTAB *references, const MemberRows *rows, Form_pg_aggregate form);
static void add_reference(HTAB *references, const MemberRows *rows, Oid classid, Oid objid);
static Oid	schema_of(const Member *member);
static void add_caller(StringInfo buf);
static void add_memberships(StringInfo buf);
static void add_database(StringInfo buf);
static void add_row(StringInfo buf, Oid catalog, HeapTuple tuple);
static void add_scanned_row(HeapTuple tuple, Relation rel, const CatalogKey *key, void *arg);
static uint64 hash_of(const StringInfoData *buf);

/* Of the template alone: every catalog row about it and what is in it. */
uint64
template_version(Oid template)
{
	StringInfoData buf;

	initStringInfo(&buf);
	add_template(&buf, member_rows_collect(NamespaceRelationId, template, CATALOG_OF_SCHEMAS, NULL));
	return hash_of(&buf);
}

/*
 * Locks on tables, views and sequences leave others room for commands (CREATE
 * INDEX, GRANT), and there are none on schemas, functions and types. If some
 * of the template was read before such a command and some after it, raise 40001.
 */
void
template_check_unchanged(Oid template, uint64 version)
{
	if (template_version(template) != version)
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("template \"%s\" was changed while it was being cloned",
						get_namespace_name(template)),
				 errhint("Try again.")));
}

/*
 * Of all that a clone made by the current role depends on:
 *
 * - the template,
 * - what it refers to outside of it, types and functions of PostgreSQL's
 *	 included, the schemas of that, and the privileges on both,
 * - the role and what it is a member of, the database's and tablespaces'
 *	 privileges, and default privileges.
 *
 * The template's own goes to *of_template, unless that is NULL.
 */
uint64
template_version_of_clones(Oid template, uint64 *of_template)
{
	StringInfoData buf;
	MemberRows *rows;

	/*
	 * Roles are read from caches. And a catalog snapshot from before another
	 * transaction's commit is kept until that has sent its messages, which is
	 * after others see its rows.
	 */
	AcceptInvalidationMessages();
	InvalidateCatalogSnapshot();
	initStringInfo(&buf);
	rows = member_rows_collect(NamespaceRelationId, template, CATALOG_OF_SCHEMAS, NULL);
	add_template(&buf, rows);
	if (of_template != NULL)
		*of_template = hash_of(&buf);
	add_references(&buf, rows);
	add_caller(&buf);
	add_memberships(&buf);
	add_database(&buf);
	return hash_of(&buf);
}

/* ---- the template and what it refers to ---- */

static void
add_template(StringInfo buf, const MemberRows *rows)
{
	for (int i = 0; i < NUM_OBJECT_CATALOGS; i++)
		/* ANALYZE changes nothing that is cloned */
		for (int j = 0; j < rows->nrows[i] && catalog_map[i].catalog != StatisticRelationId; j++)
			add_row(buf, catalog_map[i].catalog, rows->rows[i][j].tuple);
}

static void
add_references(StringInfo buf, const MemberRows *rows)
{
	HASHCTL		control = {
		.keysize = sizeof(Member),
		.entrysize = sizeof(Member),
		.hcxt = CurrentMemoryContext
	};
	HTAB	   *references = hash_create("pgbillion references", 256, &control,
										 HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	HASH_SEQ_STATUS scan;
	Member	   *reference;
	CatalogKey *keys;
	long		n;
	int			nkeys = 0;

	find_references(references, rows);

	/* with their schemas, which are entered while they are looked at */
	n = hash_get_num_entries(references);
	keys = palloc(Max(1, n) * sizeof(CatalogKey));
	hash_seq_init(&scan, references);
	while ((reference = hash_seq_search(&scan)) != NULL)
	{
		keys[nkeys].classid = reference->classid;
		keys[nkeys++].objid = reference->objid;
	}
	for (int i = 0; i < n; i++)
	{
		Member		member = {keys[i].classid, keys[i].objid};
		Member		schema = {NamespaceRelationId, schema_of(&member)};
		bool		found = true;

		if (OidIsValid(schema.objid))
			(void) hash_search(references, &schema, HASH_ENTER, &found);
		if (!found)
		{
			keys = repalloc(keys, (nkeys + 1) * sizeof(CatalogKey));
			keys[nkeys].classid = schema.classid;
			keys[nkeys++].objid = schema.objid;
		}
	}
	hash_destroy(references);

	for (int i = 0; i < NUM_OBJECT_CATALOGS; i++)
		if (OidIsValid(catalog_map[i].oid_index))
			catalog_scan(&catalog_map[i], keys, nkeys, add_scanned_row, buf);
	/* columns have privileges of their own */
	catalog_scan(&catalog_map[CATALOG_ATTRIBUTE], keys, nkeys, add_scanned_row, buf);
	catalog_scan(&catalog_map[LANGUAGE], keys, nkeys, add_scanned_row, buf);
	pfree(keys);
}

/*
 * What the template depends on. pg_depend leaves out what comes with
 * PostgreSQL; of that, what commands need privileges on is found in the rows
 * themselves.
 */
static void
find_references(HTAB *references, const MemberRows *rows)
{
	for (int i = 0; i < NUM_OBJECT_CATALOGS; i++)
	{
		for (int j = 0; j < rows->nrows[i]; j++)
		{
			HeapTuple	tuple = rows->rows[i][j].tuple;

			if (catalog_map[i].catalog == DependRelationId)
			{
				Form_pg_depend form = (Form_pg_depend) GETSTRUCT(tuple);

				add_reference(references, rows, form->refclassid, form->refobjid);
			}
			else
				find_privileged(references, rows, catalog_map[i].catalog, tuple);
		}
	}
}

/* Types, functions and languages that a row names. */
static void
find_privileged(HTAB *references, const MemberRows *rows, Oid catalog, HeapTuple tuple)
{
	void	   *form = GETSTRUCT(tuple);

	switch (catalog)
	{
		case AttributeRelationId:
			add_reference(references, rows, TypeRelationId, ((Form_pg_attribute) form)->atttypid);
			break;
		case TypeRelationId:
			add_reference(references, rows, TypeRelationId, ((Form_pg_type) form)->typbasetype);
			break;
		case RangeRelationId:
			add_reference(references, rows, TypeRelationId, ((Form_pg_range) form)->rngsubtype);
			add_reference(references, rows, ProcedureRelationId, ((Form_pg_range) form)->rngsubdiff);
			break;
		case TriggerRelationId:
			add_reference(references, rows, ProcedureRelationId, ((Form_pg_trigger) form)->tgfoid);
			break;
		case ProcedureRelationId:
			find_routine(references, rows, tuple);
			break;
		case AggregateRelationId:
			find_aggregate(references, rows, form);
			break;
		case OperatorRelationId:
			add_reference(references, rows, TypeRelationId, ((Form_pg_operator) form)->oprleft);
			add_reference(references, rows, TypeRelationId, ((Form_pg_operator) form)->oprright);
			add_reference(references, rows, ProcedureRelationId, ((Form_pg_operator) form)->oprcode);
			add_reference(references, rows, ProcedureRelationId, ((Form_pg_operator) form)->oprrest);
			add_reference(references, rows, ProcedureRelationId, ((Form_pg_operator) form)->oprjoin);
			break;
		default:
			break;
	}
}

static void
find_routine(HTAB *references, const MemberRows *rows, HeapTuple tuple)
{
	Form_pg_proc form = (Form_pg_proc) GETSTRUCT(tuple);
	bool		isnull;
	Datum		value;

	add_reference(references, rows, LanguageRelationId, form->prolang);
	add_reference(references, rows, TypeRelationId, form->prorettype);
	for (int i = 0; i < form->proargtypes.dim1; i++)
		add_reference(references, rows, TypeRelationId, form->proargtypes.values[i]);

	/* those of OUT parameters, too */
	value = SysCacheGetAttr(PROCOID, tuple, Anum_pg_proc_proallargtypes, &isnull);
	if (!isnull)
	{
		ArrayType  *array = DatumGetArrayTypeP(value);
		const Oid  *types = (Oid *) ARR_DATA_PTR(array);

		for (int i = 0; i < ARR_DIMS(array)[0]; i++)
			add_reference(references, rows, TypeRelationId, types[i]);
	}
}

/* Its arguments and result are a routine's. */
static void
find_aggregate(HTAB *references, const MemberRows *rows, Form_pg_aggregate form)
{
	const Oid	functions[] = {
		form->aggtransfn, form->aggfinalfn, form->aggcombinefn, form->aggserialfn, form->aggdeserialfn,
		form->aggmtransfn, form->aggminvtransfn, form->aggmfinalfn
	};

	for (int i = 0; i < lengthof(functions); i++)
		add_reference(references, rows, ProcedureRelationId, functions[i]);
	add_reference(references, rows, TypeRelationId, form->aggtranstype);
	add_reference(references, rows, TypeRelationId, form->aggmtranstype);
}

static void
add_reference(HTAB *references, const MemberRows *rows, Oid classid, Oid objid)
{
	Member		reference = {classid, objid};

	if (OidIsValid(objid) && member_rows_find(rows, classid, objid) < 0)
		(void) hash_search(references, &reference, HASH_ENTER, NULL);
}

/* The schema an object is in, if it is in one, and there. */
static Oid
schema_of(const Member *member)
{
	ObjectAddress address;
	int			cache = get_object_catcache_oid(member->classid);

	if (cache >= 0 && !SearchSysCacheExists1(cache, ObjectIdGetDatum(member->objid)))
		return InvalidOid;
	ObjectAddressSet(address, member->classid, member->objid);
	return get_object_namespace(&address);
}

/* ---- who makes the clone, and where ---- */

static void
add_caller(StringInfo buf)
{
	static const Oid whole[] = {TableSpaceRelationId, DefaultAclRelationId};

	for (int i = 0; i < lengthof(whole); i++)
	{
		Relation	rel = table_open(whole[i], AccessShareLock);
		SysScanDesc scan = systable_beginscan(rel, InvalidOid, false, NULL, 0, NULL);
		HeapTuple	tuple;

		while (HeapTupleIsValid(tuple = systable_getnext(scan)))
			/* those of a schema are for what is created there later */
			if (whole[i] != DefaultAclRelationId ||
				!OidIsValid(((Form_pg_default_acl) GETSTRUCT(tuple))->defaclnamespace))
				add_row(buf, whole[i], tuple);
		systable_endscan(scan);
		table_close(rel, AccessShareLock);
	}
}

/* The current role, and the roles it is a member of, by whatever way. */
static void
add_memberships(StringInfo buf)
{
	List	   *roles = list_make1_oid(GetUserId());
	ListCell   *lc;

	/* the list grows meanwhile */
	foreach(lc, roles)
	{
		Oid			role = lfirst_oid(lc);
		HeapTuple	tuple = SearchSysCache1(AUTHOID, ObjectIdGetDatum(role));
		CatCList   *memberships;

		if (HeapTupleIsValid(tuple))
		{
			add_row(buf, AuthIdRelationId, tuple);
			ReleaseSysCache(tuple);
		}
		memberships = SearchSysCacheList1(AUTHMEMMEMROLE, ObjectIdGetDatum(role));
		for (int i = 0; i < memberships->n_members; i++)
		{
			tuple = &memberships->members[i]->tuple;
			add_row(buf, AuthMemRelationId, tuple);
			roles = list_append_unique_oid(roles, ((Form_pg_auth_members) GETSTRUCT(tuple))->roleid);
		}
		ReleaseSysCacheList(memberships);
	}
}

static void
add_database(StringInfo buf)
{
	HeapTuple	tuple = SearchSysCache1(DATABASEOID, ObjectIdGetDatum(MyDatabaseId));

	if (HeapTupleIsValid(tuple))
	{
		add_row(buf, DatabaseRelationId, tuple);
		ReleaseSysCache(tuple);
	}
}

/* ---- rows ---- */

static void
add_row(StringInfo buf, Oid catalog, HeapTuple tuple)
{
	TransactionId xmin = HeapTupleHeaderGetRawXmin(tuple->t_data);

	appendBinaryStringInfo(buf, (char *) &catalog, sizeof(Oid));
	appendBinaryStringInfo(buf, (char *) &tuple->t_self, sizeof(ItemPointerData));
	appendBinaryStringInfo(buf, (char *) &xmin, sizeof(TransactionId));
}

static void
add_scanned_row(HeapTuple tuple, Relation rel, const CatalogKey *key, void *arg)
{
	add_row(arg, RelationGetRelid(rel), tuple);
}

static uint64
hash_of(const StringInfoData *buf)
{
	return hash_bytes_extended((const unsigned char *) buf->data, buf->len, 0);
}

/*-------------------------------------------------------------------------
 *
 * list_tables.c
 *	  pgbillion_tables.tables(): one page of a listing, at once, whatever the
 *	  number of tables.
 *
 * psql's \dt reads all of pg_class, checks the visibility of every table in
 * the search path and sorts. Here a page is read from an index, in order,
 * from where the last one ended: the index on (relname, relnamespace), or,
 * for a schema that is small enough, the one of pg_depend that leads to a
 * schema's objects.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/catalog.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_depend.h"
#include "catalog/pg_namespace.h"
#include "fmgr.h"
#include "funcapi.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
#include "utils/tuplestore.h"

#include "compat.h"

/* A schema of up to this number of objects is read as a whole, and sorted. */
#define SMALL_SCHEMA 10000

PG_FUNCTION_INFO_V1(pgbillion_tables);

typedef struct Listing
{
	ReturnSetInfo *rsinfo;
	text	   *regex;			/* regular expression for names, or NULL */
	Oid			namespaceid;	/* or InvalidOid for all except the system's */
	bool		after_given;
	NameData	after;			/* names up to this one are left out */
	NameData	prefix;			/* what all matches begin with */
	int			prefix_length;
	bool		exact;			/* no other name than the prefix matches */
	int64		limit;
	int64		count;
	NameData	last;			/* name of the last row given out */
} Listing;

/* A table of a small schema. */
typedef struct Entry
{
	NameData	name;
	Oid			oid;
} Entry;

static void find_prefix(Listing *listing);
static bool is_wanted(Listing *listing, Form_pg_class form);
static void emit(Listing *listing, Form_pg_class form);
static bool list_small_schema(Listing *listing);
static void list_by_name(Listing *listing);
static int	compare_entries(const void *a, const void *b);

/*
 * pgbillion_tables.tables(name_regex text, schema regnamespace, after name,
 *				  max_rows bigint) returns setof record
 *		Ordinary and partitioned tables in order of their names (by byte, as
 *		the index has them). A page may be longer than max_rows by the tables
 *		of other schemas that share the last one's name, so that the next page
 *		can begin after that name.
 */
Datum
pgbillion_tables(PG_FUNCTION_ARGS)
{
	Listing		listing = {0};

	InitMaterializedSRF(fcinfo, 0);
	listing.rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;

	if (!PG_ARGISNULL(0))
	{
		listing.regex = PG_GETARG_TEXT_PP(0);
		find_prefix(&listing);
	}
	if (!PG_ARGISNULL(1))
	{
		listing.namespaceid = PG_GETARG_OID(1);
		if (get_namespace_name(listing.namespaceid) == NULL)
			ereport(ERROR,
					(errcode(ERRCODE_UNDEFINED_SCHEMA),
					 errmsg("schema with OID %u does not exist", listing.namespaceid)));
	}
	if (!PG_ARGISNULL(2))
	{
		listing.after_given = true;
		namestrcpy(&listing.after, NameStr(*PG_GETARG_NAME(2)));
	}
	listing.limit = PG_ARGISNULL(3) ? PG_INT64_MAX : PG_GETARG_INT64(3);
	if (listing.limit < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_ROW_COUNT_IN_LIMIT_CLAUSE),
				 errmsg("max_rows must not be negative")));

	if (listing.limit > 0 &&
		!(OidIsValid(listing.namespaceid) && list_small_schema(&listing)))
		list_by_name(&listing);

	return (Datum) 0;
}

/*
 * Find what all names that match the regular expression begin with. Raises an
 * error if it is none.
 */
static void
find_prefix(Listing *listing)
{
	char	   *prefix = regexp_fixed_prefix(listing->regex, false, DEFAULT_COLLATION_OID,
											 &listing->exact);

	if (prefix == NULL)
		return;
	/* no name is longer; only bytes are compared, so a cut character is fine */
	strlcpy(NameStr(listing->prefix), prefix, NAMEDATALEN);
	listing->prefix_length = strlen(NameStr(listing->prefix));
	pfree(prefix);
}

/* Does the row belong on the page, its place in the order aside? */
static bool
is_wanted(Listing *listing, Form_pg_class form)
{
	if (form->relkind != RELKIND_RELATION && form->relkind != RELKIND_PARTITIONED_TABLE)
		return false;
	if (OidIsValid(listing->namespaceid))
	{
		if (form->relnamespace != listing->namespaceid)
			return false;
	}
	else if (form->relnamespace == PG_CATALOG_NAMESPACE || form->relnamespace == PG_TOAST_NAMESPACE ||
			 form->oid < FirstNormalObjectId || isOtherTempNamespace(form->relnamespace))
		return false;

	/* as psql's \d: the collation of names knows letters of ASCII alone */
	return listing->regex == NULL ||
		DatumGetBool(DirectFunctionCall2Coll(nameregexeq, DEFAULT_COLLATION_OID,
											 NameGetDatum(&form->relname),
											 PointerGetDatum(listing->regex)));
}

static void
emit(Listing *listing, Form_pg_class form)
{
	Datum		values[6];
	bool		nulls[6] = {false};

	values[0] = ObjectIdGetDatum(form->oid);
	values[1] = ObjectIdGetDatum(form->relnamespace);
	values[2] = NameGetDatum(&form->relname);
	values[3] = ObjectIdGetDatum(form->relowner);
	values[4] = ObjectIdGetDatum(form->reltablespace);
	values[5] = ObjectIdGetDatum(form->relam);
	nulls[4] = !OidIsValid(form->reltablespace);
	nulls[5] = !OidIsValid(form->relam);
	tuplestore_putvalues(listing->rsinfo->setResult, listing->rsinfo->setDesc, values, nulls);

	listing->last = form->relname;
	listing->count++;
}

/*
 * List a schema by what depends on it. Returns false, having done nothing,
 * if that is too much.
 */
static bool
list_small_schema(Listing *listing)
{
	Relation	depend = table_open(DependRelationId, AccessShareLock);
	Entry	   *entries = palloc(SMALL_SCHEMA * sizeof(Entry));
	int			nentries = 0;
	int			nread = 0;
	ScanKeyData key[2];
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&key[0], Anum_pg_depend_refclassid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(NamespaceRelationId));
	ScanKeyInit(&key[1], Anum_pg_depend_refobjid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(listing->namespaceid));
	scan = systable_beginscan(depend, DependReferenceIndexId, true, NULL, 2, key);
	while (nread <= SMALL_SCHEMA && HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_depend form = (Form_pg_depend) GETSTRUCT(tuple);

		if (++nread <= SMALL_SCHEMA && form->classid == RelationRelationId)
			entries[nentries++].oid = form->objid;
	}
	systable_endscan(scan);
	table_close(depend, AccessShareLock);

	/* a pinned schema, such as pg_catalog, has no dependents on record */
	if (nread > SMALL_SCHEMA || IsPinnedObject(NamespaceRelationId, listing->namespaceid))
	{
		pfree(entries);
		return false;
	}

	for (int i = 0; i < nentries;)
	{
		CHECK_FOR_INTERRUPTS();
		tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(entries[i].oid));
		if (HeapTupleIsValid(tuple) && is_wanted(listing, (Form_pg_class) GETSTRUCT(tuple)))
			entries[i++].name = ((Form_pg_class) GETSTRUCT(tuple))->relname;
		else
			entries[i] = entries[--nentries];
		if (HeapTupleIsValid(tuple))
			ReleaseSysCache(tuple);
	}
	qsort(entries, nentries, sizeof(Entry), compare_entries);

	for (int i = 0; i < nentries && listing->count < listing->limit; i++)
	{
		if (listing->after_given && strcmp(NameStr(entries[i].name), NameStr(listing->after)) <= 0)
			continue;
		tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(entries[i].oid));
		if (!HeapTupleIsValid(tuple))
			continue;
		/* one renamed meanwhile has lost its place in the order */
		if (strcmp(NameStr(((Form_pg_class) GETSTRUCT(tuple))->relname),
				   NameStr(entries[i].name)) == 0)
			emit(listing, (Form_pg_class) GETSTRUCT(tuple));
		ReleaseSysCache(tuple);
	}
	pfree(entries);

	return true;
}

static int
compare_entries(const void *a, const void *b)
{
	return strcmp(NameStr(((const Entry *) a)->name), NameStr(((const Entry *) b)->name));
}

/* List from the index on names. */
static void
list_by_name(Listing *listing)
{
	Relation	rel = table_open(RelationRelationId, AccessShareLock);
	Relation	index = index_open(ClassNameNspIndexId, AccessShareLock);
	NameData	start = listing->prefix;
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;

	if (listing->after_given && strcmp(NameStr(listing->after), NameStr(start)) >= 0)
		start = listing->after;
	ScanKeyInit(&key, Anum_pg_class_relname, BTGreaterEqualStrategyNumber, F_NAMEGE,
				NameGetDatum(&start));

	scan = systable_beginscan_ordered(rel, index, NULL, 1, &key);
	while (HeapTupleIsValid(tuple = systable_getnext_ordered(scan, ForwardScanDirection)))
	{
		Form_pg_class form = (Form_pg_class) GETSTRUCT(tuple);
		const char *name = NameStr(form->relname);

		CHECK_FOR_INTERRUPTS();

		if (strncmp(name, NameStr(listing->prefix), listing->prefix_length) > 0 ||
			(listing->exact && strcmp(name, NameStr(listing->prefix)) > 0))
			break;
		if (listing->count >= listing->limit && strcmp(name, NameStr(listing->last)) != 0)
			break;
		if (listing->after_given && strcmp(name, NameStr(listing->after)) <= 0)
			continue;
		if (is_wanted(listing, form))
			emit(listing, form);
	}
	systable_endscan_ordered(scan);
	index_close(index, AccessShareLock);
	table_close(rel, AccessShareLock);
}

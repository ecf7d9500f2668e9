/*-------------------------------------------------------------------------
 *
 * rows.c
 *	  All catalog rows about a table or a schema, and what belongs to it.
 *
 * The members are the table or the schema; what depends on it, directly or
 * not, by pg_depend; in a schema the labels of enums, which pg_depend does not
 * know; and files whose numbers are not the OIDs of their relations.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#if PG_VERSION_NUM >= 160000
#include "varatt.h"
#endif

#include "access/heaptoast.h"
#include "access/htup_details.h"
#include "catalog/dependency.h"
#include "catalog/objectaddress.h"
#include "catalog/pg_attribute.h"
#include "catalog/pg_class.h"
#include "catalog/pg_depend.h"
#include "catalog/pg_description.h"
#include "catalog/pg_enum.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_shdepend.h"
#include "catalog/pg_ts_config_map.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

#include "lazy_heap/lazy_heap.h"
#include "stamp/stamp.h"

/* The state of member_rows_collect(). */
typedef struct Collection
{
	MemberRows *rows;
	HTAB	   *found;			/* of Member */
	int			size;			/* of members[] */
	int			catalog;		/* in catalog_map */
	int			row_size;		/* of rows[catalog] */
	CatalogScope scope;
	bool		all;			/* rows, or what is not known? */
	char	   *unknown;		/* the first such object, or NULL */
} Collection;

static void find_members(Collection *collection, Oid classid, Oid objid);
static void scan_members(Collection *collection, const CatalogLookup *catalog, int from, int to,
						 CatalogRowCallback callback);
static void add_member(Collection *collection, Oid classid, Oid objid);
static void add_dependent(HeapTuple tuple, Relation rel, const CatalogKey *key, void *arg);
static void add_label(HeapTuple tuple, Relation rel, const CatalogKey *key, void *arg);
static void add_file(HeapTuple tuple, Relation rel, const CatalogKey *key, void *arg);
static void collect_row(HeapTuple tuple, Relation rel, const CatalogKey *key, void *arg);
static HeapTuple copy_row(HeapTuple tuple, TupleDesc tupdesc);
static void sort_rows(MemberRows *rows, int catalog);
static int	compare_rows(const void *a, const void *b, void *arg);
static int	compare_depend(const MemberRows *rows, HeapTuple a, HeapTuple b);
static int	compare_shdepend(HeapTuple a, HeapTuple b);
static int	compare_mappings(HeapTuple a, HeapTuple b);

/*
 * The rows of a table or a schema, as a new catalog snapshot sees them. NULL,
 * and the description of an object, if that is of a catalog that does not have
 * the scope. Without `unknown` there are the rows about such an object, and not
 * its own; and a member's rows are in the order in which an index has them,
 * which changes only if they do.
 */
MemberRows *
member_rows_collect(Oid classid, Oid objid, CatalogScope scope, char **unknown)
{
	HASHCTL		control = {
		.keysize = sizeof(Member),
		.entrysize = sizeof(Member),
		.hcxt = CurrentMemoryContext
	};
	Collection	collection = {0};
	MemberRows *rows = palloc0(sizeof(MemberRows));

	collection.rows = rows;
	collection.scope = scope;
	collection.all = unknown != NULL;
	collection.found = hash_create("pgbillion members", 64, &control,
								   HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	if (classid == NamespaceRelationId)
		rows->name = get_namespace_name(objid);

	find_members(&collection, classid, objid);
	hash_destroy(collection.found);
	if (collection.unknown != NULL)
	{
		*unknown = collection.unknown;
		return NULL;
	}
	qsort(rows->members, rows->nmembers, sizeof(Member), member_cmp);

	for (int i = 0; i < NUM_OBJECT_CATALOGS; i++)
	{
		if ((catalog_map[i].scope & scope) == 0)
			continue;
		collection.catalog = i;
		collection.row_size = 0;
		scan_members(&collection, &catalog_map[i], 0, rows->nmembers, collect_row);
		if (unknown != NULL)
			sort_rows(rows, i);
	}
	return rows;
}

/* Position of a member, or -1. */
int
member_rows_find(const MemberRows *rows, Oid classid, Oid objid)
{
	Member		wanted = {classid, objid};
	Member	   *found = bsearch(&wanted, rows->members, rows->nmembers, sizeof(Member),
								member_cmp);

	return found == NULL ? -1 : (int) (found - rows->members);
}

/* The first of the rows of a catalog about a member, and their number. */
const MemberRow *
member_rows_about(const MemberRows *rows, int catalog, int member, int *nrows)
{
	int			low = 0;
	int			high = rows->nrows[catalog];
	int			end;

	while (low < high)
	{
		int			middle = (low + high) / 2;

		if (rows->rows[catalog][middle].member < member)
			low = middle + 1;
		else
			high = middle;
	}
	for (end = low; end < rows->nrows[catalog] && rows->rows[catalog][end].member == member;)
		end++;
	*nrows = end - low;
	return &rows->rows[catalog][low];
}

/* Are the members of both of the same kinds, in the same order? */
bool
member_rows_match(const MemberRows *one, const MemberRows *other)
{
	if (one->nmembers != other->nmembers)
		return false;
	for (int i = 0; i < one->nmembers; i++)
		if (one->members[i].classid != other->members[i].classid)
			return false;
	return true;
}

/*
 * The member whose OID is `oid` in one clone and `other_oid` in the other,
 * which have the same members in the same order; -1 if there is none, or more
 * than one.
 */
int
member_rows_explain(const MemberRows *one, const MemberRows *other, Oid oid, Oid other_oid)
{
	int			low = 0;
	int			high = one->nmembers;
	int			result = -1;

	/* the first whose OID is not less */
	while (low < high)
	{
		int			middle = (low + high) / 2;

		if (one->members[middle].objid < oid)
			low = middle + 1;
		else
			high = middle;
	}
	for (; low < one->nmembers && one->members[low].objid == oid; low++)
	{
		if (other->members[low].objid != other_oid)
			continue;
		if (result >= 0)
			return -1;
		result = low;
	}
	return result;
}

static void
find_members(Collection *collection, Oid classid, Oid objid)
{
	MemberRows *rows = collection->rows;
	int			from = 0;

	add_member(collection, classid, objid);
	while (from < rows->nmembers)
	{
		int			to = rows->nmembers;

		scan_members(collection, &catalog_map[DEPEND_BY_REFERENCE], from, to, add_dependent);
		from = to;
	}
	if (collection->scope == CATALOG_OF_SCHEMAS)
		scan_members(collection, &catalog_map[ENUM_BY_TYPE], 0, from, add_label);
	scan_members(collection, &catalog_map[CATALOG_CLASS], 0, from, add_file);
}

/* catalog_scan() for members from … to - 1; the key's owner is the position. */
static void
scan_members(Collection *collection, const CatalogLookup *catalog, int from, int to,
			 CatalogRowCallback callback)
{
	CatalogKey *keys = palloc(Max(1, to - from) * sizeof(CatalogKey));
	int			nkeys = 0;

	for (int i = from; i < to; i++)
	{
		const Member *member = &collection->rows->members[i];

		if (!OidIsValid(member->classid) ||
			(OidIsValid(catalog->member_class) && catalog->member_class != member->classid))
			continue;
		keys[nkeys].classid = member->classid;
		keys[nkeys].objid = member->objid;
		keys[nkeys++].owner = i;
	}
	catalog_scan(catalog, keys, nkeys, callback, collection);
	pfree(keys);
}

static void
add_member(Collection *collection, Oid classid, Oid objid)
{
	MemberRows *rows = collection->rows;
	Member		member = {classid, objid};
	bool		found;

	(void) hash_search(collection->found, &member, HASH_ENTER, &found);
	if (found)
		return;
	if (rows->nmembers == collection->size)
	{
		collection->size = Max(32, collection->size * 2);
		rows->members = rows->members == NULL ?
			palloc(collection->size * sizeof(Member)) :
			repalloc(rows->members, collection->size * sizeof(Member));
	}
	rows->members[rows->nmembers++] = member;
}

static void
add_dependent(HeapTuple tuple, Relation rel, const CatalogKey *key, void *arg)
{
	Collection *collection = arg;
	Form_pg_depend form = (Form_pg_depend) GETSTRUCT(tuple);

	if (collection->all && !catalog_has_objects(form->classid, collection->scope))
	{
		ObjectAddress address;

		ObjectAddressSet(address, form->classid, form->objid);
		if (collection->unknown == NULL)
			collection->unknown = getObjectDescription(&address, false);
		return;
	}

	/*
	 * What has a schema is found by that. Of another schema, it can depend on
	 * this one without belonging to it, and so can clones on what does.
	 */
	if (!collection->all && collection->scope == CATALOG_OF_SCHEMAS &&
		form->deptype == DEPENDENCY_NORMAL && form->refclassid != NamespaceRelationId &&
		is_objectclass_supported(form->classid) &&
		get_object_attnum_namespace(form->classid) != InvalidAttrNumber)
		return;
	add_member(collection, form->classid, form->objid);
}

static void
add_label(HeapTuple tuple, Relation rel, const CatalogKey *key, void *arg)
{
	add_member(arg, EnumRelationId, ((Form_pg_enum) GETSTRUCT(tuple))->oid);
}

static void
add_file(HeapTuple tuple, Relation rel, const CatalogKey *key, void *arg)
{
	Form_pg_class form = (Form_pg_class) GETSTRUCT(tuple);

	if (OidIsValid(form->relfilenode) && form->relfilenode != form->oid &&
		!file_number_is_lazy(form->relfilenode))
		add_member(arg, InvalidOid, form->relfilenode);
}

static void
collect_row(HeapTuple tuple, Relation rel, const CatalogKey *key, void *arg)
{
	Collection *collection = arg;
	MemberRows *rows = collection->rows;
	int			catalog = collection->catalog;
	MemberRow  *row;

	if (rows->nrows[catalog] == collection->row_size)
	{
		collection->row_size = Max(64, collection->row_size * 2);
		rows->rows[catalog] = rows->rows[catalog] == NULL ?
			palloc(collection->row_size * sizeof(MemberRow)) :
			repalloc(rows->rows[catalog], collection->row_size * sizeof(MemberRow));
	}
	row = &rows->rows[catalog][rows->nrows[catalog]++];
	row->member = key->owner;
	row->tuple = copy_row(tuple, RelationGetDescr(rel));
}

/* With everything inline, and arrays of OIDs not compressed, since clones have other OIDs there. */
static HeapTuple
copy_row(HeapTuple tuple, TupleDesc tupdesc)
{
	HeapTuple	copy = HeapTupleHasExternal(tuple) ?
		toast_flatten_tuple(tuple, tupdesc) : heap_copytuple(tuple);

	for (int attnum = 1; attnum <= tupdesc->natts; attnum++)
	{
		bool		isnull;
		Datum		value;

		if (TupleDescAttr(tupdesc, attnum - 1)->atttypid != OIDARRAYOID)
			continue;
		value = heap_getattr(copy, attnum, tupdesc, &isnull);
		if (!isnull && VARATT_IS_COMPRESSED(DatumGetPointer(value)))
		{
			value = PointerGetDatum(PG_DETOAST_DATUM(value));
			copy = heap_modify_tuple_by_cols(copy, tupdesc, 1, &attnum, &value, &isnull);
		}
	}
	return copy;
}

/* ---- order ---- */

/* By OID, and then by catalog. */
int
member_cmp(const void *a, const void *b)
{
	const Member *ma = a;
	const Member *mb = b;

	if (ma->objid != mb->objid)
		return ma->objid < mb->objid ? -1 : 1;
	return ma->classid < mb->classid ? -1 : ma->classid > mb->classid ? 1 : 0;
}

typedef struct RowOrder
{
	const MemberRows *rows;
	Oid			catalog;
} RowOrder;

/*
 * By member; rows of one member stay in the order of the index they were
 * found in, except dependencies, whose index does not tell them apart.
 */
static void
sort_rows(MemberRows *rows, int catalog)
{
	RowOrder	order = {rows, catalog_map[catalog].catalog};

	qsort_arg(rows->rows[catalog], rows->nrows[catalog], sizeof(MemberRow), compare_rows, &order);
}

static int
compare_rows(const void *a, const void *b, void *arg)
{
	const MemberRow *ra = a;
	const MemberRow *rb = b;
	const RowOrder *order = arg;

	if (ra->member != rb->member)
		return ra->member < rb->member ? -1 : 1;
	switch (order->catalog)
	{
		case DependRelationId:
			return compare_depend(order->rows, ra->tuple, rb->tuple);
		case SharedDependRelationId:
			return compare_shdepend(ra->tuple, rb->tuple);
		case AttributeRelationId:
			return ((Form_pg_attribute) GETSTRUCT(ra->tuple))->attnum -
				((Form_pg_attribute) GETSTRUCT(rb->tuple))->attnum;
		case InheritsRelationId:
			return ((Form_pg_inherits) GETSTRUCT(ra->tuple))->inhseqno -
				((Form_pg_inherits) GETSTRUCT(rb->tuple))->inhseqno;
		case DescriptionRelationId:
			return ((Form_pg_description) GETSTRUCT(ra->tuple))->objsubid -
				((Form_pg_description) GETSTRUCT(rb->tuple))->objsubid;
		case TSConfigMapRelationId:
			return compare_mappings(ra->tuple, rb->tuple);
		default:

			/*
			 * the others have one row per member, or arrive in the order of
			 * members and of their index, which qsort() leaves alone
			 */
			return 0;
	}
}

#define COMPARE(x, y) \
	do { \
		if ((x) != (y)) \
			return (x) < (y) ? -1 : 1; \
	} while (0)

/* By what the objects are, and not by their OIDs, if they are members. */
static int
compare_depend(const MemberRows *rows, HeapTuple a, HeapTuple b)
{
	Form_pg_depend fa = (Form_pg_depend) GETSTRUCT(a);
	Form_pg_depend fb = (Form_pg_depend) GETSTRUCT(b);
	int			ma = member_rows_find(rows, fa->refclassid, fa->refobjid);
	int			mb = member_rows_find(rows, fb->refclassid, fb->refobjid);

	COMPARE(fa->objsubid, fb->objsubid);
	COMPARE(fa->refclassid, fb->refclassid);
	COMPARE(ma, mb);
	if (ma < 0)
		COMPARE(fa->refobjid, fb->refobjid);
	COMPARE(fa->refobjsubid, fb->refobjsubid);
	COMPARE(fa->deptype, fb->deptype);
	return 0;
}

static int
compare_shdepend(HeapTuple a, HeapTuple b)
{
	Form_pg_shdepend fa = (Form_pg_shdepend) GETSTRUCT(a);
	Form_pg_shdepend fb = (Form_pg_shdepend) GETSTRUCT(b);

	COMPARE(fa->objsubid, fb->objsubid);
	COMPARE(fa->refclassid, fb->refclassid);
	COMPARE(fa->refobjid, fb->refobjid);
	COMPARE(fa->deptype, fb->deptype);
	return 0;
}

static int
compare_mappings(HeapTuple a, HeapTuple b)
{
	Form_pg_ts_config_map fa = (Form_pg_ts_config_map) GETSTRUCT(a);
	Form_pg_ts_config_map fb = (Form_pg_ts_config_map) GETSTRUCT(b);

	COMPARE(fa->maptokentype, fb->maptokentype);
	COMPARE(fa->mapseqno, fb->mapseqno);
	return 0;
}

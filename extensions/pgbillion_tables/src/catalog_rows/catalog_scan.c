/*-------------------------------------------------------------------------
 *
 * catalog_scan.c
 *	  Catalog rows about many objects at a time.
 *
 * Tables that are dropped together were most often created together, and so
 * have neighboring OIDs. Their rows are found by reading an index from one
 * wanted key on to the next, which takes one descent of the tree for all of
 * them, rather than one for each.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "miscadmin.h"
#include "utils/fmgroids.h"

#include "catalog_rows/catalog_rows.h"

/* Rows read in vain before the tree is descended anew. */
#define MAX_GAP 50

/*
 * The same, in OIDs between two keys. Rows that are dead do not count as read:
 * there may be any number of them.
 */
#define MAX_OID_GAP 1000

/* A search for rows, whose keys are passed over as those come by. */
typedef struct Search
{
	const CatalogLookup *lookup;
	Snapshot	snapshot;
	bool		class_first;	/* the order of the keys */
	const CatalogKey *keys;
	int			nkeys;
	int			next;			/* the first key that a row can still be about */
	int			end;			/* of the keys that are near each other */
	Relation	rel;
	Relation	index;
	CatalogRowCallback callback;
	void	   *arg;
} Search;

static SysScanDesc begin_run(Search *search);
static void read_run(Search *search);
static void report_row(const Search *search, HeapTuple tuple, Oid objid);
static int	compare_by_class(const void *a, const void *b);
static int	compare_by_object(const void *a, const void *b);
static int	end_of_run(const CatalogKey *keys, int nkeys, int from, bool class_first);
static Oid	oid_column(HeapTuple tuple, Relation rel, AttrNumber attnum);

/* Are keys sorted by class, and then by OID, to search this catalog, or by OID first? */
bool
catalog_scan_class_first(const CatalogLookup *lookup)
{
	return lookup->class_column != 0 && lookup->class_column < lookup->object_column;
}

/*
 * Call back for every row, visible to a new catalog snapshot, of the
 * catalog that is about one of the keys. The keys, without duplicates, are
 * sorted in place. Takes AccessShareLock on the catalog. The callback must
 * not change the catalog.
 */
void
catalog_scan(const CatalogLookup *lookup, CatalogKey *keys, int nkeys,
			 CatalogRowCallback callback, void *arg)
{
	catalog_scan_as_of(NULL, lookup, keys, nkeys, callback, arg);
}

/* The same for what a snapshot sees. */
void
catalog_scan_as_of(Snapshot snapshot, const CatalogLookup *lookup, CatalogKey *keys, int nkeys,
				   CatalogRowCallback callback, void *arg)
{
	Search		search = {
		.lookup = lookup,.snapshot = snapshot,.class_first = catalog_scan_class_first(lookup),
		.keys = keys,.nkeys = nkeys,.callback = callback,.arg = arg
	};

	if (nkeys == 0)
		return;
	qsort(keys, nkeys, sizeof(CatalogKey), search.class_first ? compare_by_class : compare_by_object);

	search.rel = table_open(lookup->catalog, AccessShareLock);
	search.index = index_open(lookup->index, AccessShareLock);
	while (search.next < nkeys)
	{
		if (OidIsValid(lookup->member_class) && keys[search.next].classid != lookup->member_class)
			search.next++;
		else
			read_run(&search);
	}
	index_close(search.index, AccessShareLock);
	table_close(search.rel, AccessShareLock);
}

/* Begin to read the rows from the next key to the last one near it. */
static SysScanDesc
begin_run(Search *search)
{
	const CatalogLookup *lookup = search->lookup;
	const CatalogKey *first = &search->keys[search->next];
	ScanKeyData key[4];
	int			n = 0;

	if (search->next >= search->end)
		search->end = end_of_run(search->keys, search->nkeys, search->next, search->class_first);
	if (lookup->database_column != 0)
		ScanKeyInit(&key[n++], lookup->database_column, BTEqualStrategyNumber, F_OIDEQ,
					ObjectIdGetDatum(MyDatabaseId));
	if (search->class_first)
		ScanKeyInit(&key[n++], lookup->class_column, BTEqualStrategyNumber, F_OIDEQ,
					ObjectIdGetDatum(first->classid));
	ScanKeyInit(&key[n++], lookup->object_column, BTGreaterEqualStrategyNumber, F_OIDGE,
				ObjectIdGetDatum(first->objid));
	ScanKeyInit(&key[n++], lookup->object_column, BTLessEqualStrategyNumber, F_OIDLE,
				ObjectIdGetDatum(search->keys[search->end - 1].objid));
	return systable_beginscan_ordered(search->rel, search->index, search->snapshot, n, key);
}

/* Read from the next key on, to the end of the keys near it, or to where many rows are about none of them. */
static void
read_run(Search *search)
{
	SysScanDesc scan = begin_run(search);
	int			gap = 0;

	while (gap <= MAX_GAP)
	{
		HeapTuple	tuple;
		Oid			objid;

		CHECK_FOR_INTERRUPTS();
		tuple = systable_getnext_ordered(scan, ForwardScanDirection);

		/* none is left for these keys */
		if (!HeapTupleIsValid(tuple))
		{
			search->next = search->end;
			break;
		}

		objid = oid_column(tuple, search->rel, search->lookup->object_column);
		while (search->keys[search->next].objid < objid)
			search->next++;
		Assert(search->next < search->end);
		if (search->keys[search->next].objid > objid)
			gap++;
		else
		{
			gap = 0;
			report_row(search, tuple, objid);
		}
	}
	systable_endscan_ordered(scan);
}

/* Call back for a row with the key it is about, if any: members of several classes may have the same OID. */
static void
report_row(const Search *search, HeapTuple tuple, Oid objid)
{
	const CatalogLookup *lookup = search->lookup;

	for (int i = search->next; i < search->end && search->keys[i].objid == objid; i++)
	{
		const CatalogKey *key = &search->keys[i];

		if ((OidIsValid(lookup->member_class) && key->classid != lookup->member_class) ||
			(lookup->class_column != 0 &&
			 key->classid != oid_column(tuple, search->rel, lookup->class_column)))
			continue;
		search->callback(tuple, search->rel, key, search->arg);
		break;
	}
}

/* The end of the keys from `from` on that are near each other, of one class if they are sorted by that. */
static int
end_of_run(const CatalogKey *keys, int nkeys, int from, bool class_first)
{
	int			end = from + 1;

	while (end < nkeys && keys[end].objid - keys[end - 1].objid <= MAX_OID_GAP &&
		   (!class_first || keys[end].classid == keys[from].classid))
		end++;
	return end;
}

static int
compare_by_class(const void *a, const void *b)
{
	const CatalogKey *ka = a;
	const CatalogKey *kb = b;

	if (ka->classid != kb->classid)
		return ka->classid < kb->classid ? -1 : 1;
	return ka->objid < kb->objid ? -1 : ka->objid > kb->objid ? 1 : 0;
}

static int
compare_by_object(const void *a, const void *b)
{
	const CatalogKey *ka = a;
	const CatalogKey *kb = b;

	if (ka->objid != kb->objid)
		return ka->objid < kb->objid ? -1 : 1;
	return ka->classid < kb->classid ? -1 : ka->classid > kb->classid ? 1 : 0;
}

static Oid
oid_column(HeapTuple tuple, Relation rel, AttrNumber attnum)
{
	bool		isnull;
	Datum		value = heap_getattr(tuple, attnum, RelationGetDescr(rel), &isnull);

	Assert(!isnull);
	return DatumGetObjectId(value);
}

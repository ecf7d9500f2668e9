/*-------------------------------------------------------------------------
 *
 * family.c
 *	  Catalog rows of tables and their parts, for many of them at a time.
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
#include "access/table.h"
#include "catalog/indexing.h"
#include "catalog/pg_attrdef.h"
#include "catalog/pg_attribute.h"
#include "catalog/pg_class.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_depend.h"
#include "catalog/pg_description.h"
#include "catalog/pg_index.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_init_privs.h"
#include "catalog/pg_partitioned_table.h"
#include "catalog/pg_policy.h"
#include "catalog/pg_rewrite.h"
#include "catalog/pg_seclabel.h"
#include "catalog/pg_sequence.h"
#include "catalog/pg_shdepend.h"
#include "catalog/pg_statistic.h"
#include "catalog/pg_statistic_ext.h"
#include "catalog/pg_statistic_ext_data.h"
#include "catalog/pg_trigger.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/fmgroids.h"

#include "drop/family.h"

/* Rows read in vain before the tree is descended anew. */
#define MAX_GAP 50

/*
 * The same, in OIDs between two keys. Rows that are dead do not count as read:
 * there may be any number of them.
 */
#define MAX_OID_GAP 1000

const FamilyCatalog family_catalogs[NUM_FAMILY_CATALOGS] = {
	{RelationRelationId, ClassOidIndexId,
	ClassOidIndexId, Anum_pg_class_oid, 0, 0, RelationRelationId},
	{AttributeRelationId, InvalidOid,
	AttributeRelidNumIndexId, Anum_pg_attribute_attrelid, 0, 0, RelationRelationId},
	{IndexRelationId, InvalidOid,
	IndexRelidIndexId, Anum_pg_index_indexrelid, 0, 0, RelationRelationId},
	{SequenceRelationId, InvalidOid,
	SequenceRelidIndexId, Anum_pg_sequence_seqrelid, 0, 0, RelationRelationId},
	{InheritsRelationId, InvalidOid,
	InheritsRelidSeqnoIndexId, Anum_pg_inherits_inhrelid, 0, 0, RelationRelationId},
	{PartitionedRelationId, InvalidOid,
	PartitionedRelidIndexId, Anum_pg_partitioned_table_partrelid, 0, 0, RelationRelationId},
	{StatisticRelationId, InvalidOid,
	StatisticRelidAttnumInhIndexId, Anum_pg_statistic_starelid, 0, 0, RelationRelationId},
	{TypeRelationId, TypeOidIndexId,
	TypeOidIndexId, Anum_pg_type_oid, 0, 0, TypeRelationId},
	{AttrDefaultRelationId, AttrDefaultOidIndexId,
	AttrDefaultOidIndexId, Anum_pg_attrdef_oid, 0, 0, AttrDefaultRelationId},
	{ConstraintRelationId, ConstraintOidIndexId,
	ConstraintOidIndexId, Anum_pg_constraint_oid, 0, 0, ConstraintRelationId},
	{TriggerRelationId, TriggerOidIndexId,
	TriggerOidIndexId, Anum_pg_trigger_oid, 0, 0, TriggerRelationId},
	{PolicyRelationId, PolicyOidIndexId,
	PolicyOidIndexId, Anum_pg_policy_oid, 0, 0, PolicyRelationId},
	{RewriteRelationId, RewriteOidIndexId,
	RewriteOidIndexId, Anum_pg_rewrite_oid, 0, 0, RewriteRelationId},
	{StatisticExtRelationId, StatisticExtOidIndexId,
	StatisticExtOidIndexId, Anum_pg_statistic_ext_oid, 0, 0, StatisticExtRelationId},
	{StatisticExtDataRelationId, InvalidOid,
	StatisticExtDataStxoidInhIndexId, Anum_pg_statistic_ext_data_stxoid, 0, 0, StatisticExtRelationId},
	{DependRelationId, InvalidOid,
	DependDependerIndexId, Anum_pg_depend_objid, Anum_pg_depend_classid, 0, InvalidOid},
	{SharedDependRelationId, InvalidOid,
		SharedDependDependerIndexId, Anum_pg_shdepend_objid, Anum_pg_shdepend_classid,
	Anum_pg_shdepend_dbid, InvalidOid},
	{DescriptionRelationId, InvalidOid,
	DescriptionObjIndexId, Anum_pg_description_objoid, Anum_pg_description_classoid, 0, InvalidOid},
	{InitPrivsRelationId, InvalidOid,
	InitPrivsObjIndexId, Anum_pg_init_privs_objoid, Anum_pg_init_privs_classoid, 0, InvalidOid},
	{SecLabelRelationId, InvalidOid,
	SecLabelObjectIndexId, Anum_pg_seclabel_objoid, Anum_pg_seclabel_classoid, 0, InvalidOid},
};

static int	compare_by_class(const void *a, const void *b);
static int	compare_by_object(const void *a, const void *b);
static int	end_of_run(const FamilyKey *keys, int nkeys, int from, bool class_first);
static Oid	oid_column(HeapTuple tuple, Relation rel, AttrNumber attnum);

/* Do objects of this catalog belong to families? */
bool
is_family_class(Oid classid)
{
	for (int i = 0; i < NUM_FAMILY_CATALOGS; i++)
		if (family_catalogs[i].catalog == classid)
			return OidIsValid(family_catalogs[i].oid_index);
	return false;
}

/* Are keys sorted by class, and then by OID, to search this catalog, or by OID first? */
bool
family_class_first(const FamilyCatalog *family)
{
	return family->class_column != 0 && family->class_column < family->object_column;
}

/*
 * Call back for every row, visible to a new catalog snapshot, of the
 * catalog that is about one of the keys. The keys, without duplicates, are
 * sorted in place. Takes AccessShareLock on the catalog. The callback must
 * not change the catalog.
 */
void
family_scan(const FamilyCatalog *family, FamilyKey *keys, int nkeys,
			FamilyRowCallback callback, void *arg)
{
	family_scan_as_of(NULL, family, keys, nkeys, callback, arg);
}

/* The same for what a snapshot sees. */
void
family_scan_as_of(Snapshot snapshot, const FamilyCatalog *family, FamilyKey *keys, int nkeys,
				  FamilyRowCallback callback, void *arg)
{
	bool		class_first = family_class_first(family);
	Relation	rel;
	Relation	index;
	int			i = 0;
	int			end = 0;		/* of the keys that are near each other */

	if (nkeys == 0)
		return;
	qsort(keys, nkeys, sizeof(FamilyKey), class_first ? compare_by_class : compare_by_object);

	rel = table_open(family->catalog, AccessShareLock);
	index = index_open(family->scan_index, AccessShareLock);

	while (i < nkeys)
	{
		ScanKeyData scankey[4];
		int			nscankeys = 0;
		Oid			classid = keys[i].classid;
		int			gap = 0;
		SysScanDesc scan;
		HeapTuple	tuple;

		if (OidIsValid(family->member_class) && classid != family->member_class)
		{
			i++;
			continue;
		}

		if (family->database_column != 0)
			ScanKeyInit(&scankey[nscankeys++], family->database_column, BTEqualStrategyNumber,
						F_OIDEQ, ObjectIdGetDatum(MyDatabaseId));
		if (class_first)
			ScanKeyInit(&scankey[nscankeys++], family->class_column, BTEqualStrategyNumber,
						F_OIDEQ, ObjectIdGetDatum(classid));
		ScanKeyInit(&scankey[nscankeys++], family->object_column, BTGreaterEqualStrategyNumber,
					F_OIDGE, ObjectIdGetDatum(keys[i].objid));
		if (i >= end)
			end = end_of_run(keys, nkeys, i, class_first);
		ScanKeyInit(&scankey[nscankeys++], family->object_column, BTLessEqualStrategyNumber,
					F_OIDLE, ObjectIdGetDatum(keys[end - 1].objid));

		scan = systable_beginscan_ordered(rel, index, snapshot, nscankeys, scankey);
		for (;;)
		{
			Oid			objid;
			int			match;

			CHECK_FOR_INTERRUPTS();
			tuple = systable_getnext_ordered(scan, ForwardScanDirection);

			/* none is left for these keys */
			if (!HeapTupleIsValid(tuple))
			{
				i = end;
				break;
			}

			objid = oid_column(tuple, rel, family->object_column);
			while (keys[i].objid < objid)
				i++;
			Assert(i < end);

			if (keys[i].objid > objid)
			{
				if (++gap > MAX_GAP)
					break;
				continue;
			}
			gap = 0;

			/* members of several classes may have the same OID */
			for (match = i; match < end && keys[match].objid == objid; match++)
			{
				if ((OidIsValid(family->member_class) &&
					 keys[match].classid != family->member_class) ||
					(family->class_column != 0 &&
					 keys[match].classid != oid_column(tuple, rel, family->class_column)))
					continue;
				callback(tuple, rel, &keys[match], arg);
				break;
			}
		}
		systable_endscan_ordered(scan);
	}

	index_close(index, AccessShareLock);
	table_close(rel, AccessShareLock);
}

/* The end of the keys from `from` on that are near each other, of one class if they are sorted by that. */
static int
end_of_run(const FamilyKey *keys, int nkeys, int from, bool class_first)
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
	const FamilyKey *ka = a;
	const FamilyKey *kb = b;

	if (ka->classid != kb->classid)
		return ka->classid < kb->classid ? -1 : 1;
	return ka->objid < kb->objid ? -1 : ka->objid > kb->objid ? 1 : 0;
}

static int
compare_by_object(const void *a, const void *b)
{
	const FamilyKey *ka = a;
	const FamilyKey *kb = b;

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

/*-------------------------------------------------------------------------
 *
 * stamp.c
 *	  The catalog rows of one table, with its partitions, compiled so as to be
 *	  written again for others (by stamp_batch.c).
 *
 * A stamp is made of a prototype: a table that PostgreSQL created a moment
 * before in the same transaction, so that nothing but its own parts can depend
 * on it. Its family is everything that does, found through pg_depend: row and
 * array type, TOAST table and index, indexes, constraints, defaults, owned
 * sequences, statistics, triggers, rules, policies, partitions with theirs.
 * Every catalog row about a member of the family is kept as an image, with a
 * list of patches: at this offset goes the OID of that member, the name of
 * that one, a file number, a tablespace.
 *
 * Which columns hold OIDs of which catalog is what catalog_map.c says. Any other OID column that happens to hold the OID of a
 * member is an error, not a wrong row.
 *
 * Memory: the stamp lives in the context it was compiled in.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/heaptoast.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/table.h"
#include "catalog/dependency.h"
#include "catalog/indexing.h"
#include "catalog/objectaddress.h"
#include "catalog/pg_attribute.h"
#include "catalog/pg_class.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_depend.h"
#include "catalog/pg_description.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_rewrite.h"
#include "catalog/pg_shdepend.h"
#include "catalog/pg_statistic_ext.h"
#include "catalog/pg_trigger.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "nodes/nodes.h"
#include "storage/bufmgr.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"

#include "catalog_rows/catalog_rows.h"
#include "lazy_heap/lazy_heap.h"
#include "stamp/stamp.h"

/* Columns that hold an object of the catalog named by another column. */
static const struct
{
	Oid			catalog;
	AttrNumber	object_column;
	AttrNumber	class_column;
}			addressed_columns[] = {
	{DependRelationId, Anum_pg_depend_objid, Anum_pg_depend_classid},
	{DependRelationId, Anum_pg_depend_refobjid, Anum_pg_depend_refclassid},
	{SharedDependRelationId, Anum_pg_shdepend_objid, Anum_pg_shdepend_classid},
	{DescriptionRelationId, Anum_pg_description_objoid, Anum_pg_description_classoid},
};

static void find_family(SchemaRows *family, Oid prototype);
static void check_rules(const SchemaRows *family);
static void find_tables(Stamp *stamp, StampTable *tables, int ntables);
static void keep_objects(Stamp *stamp);
static void collect_rows(Stamp *stamp, const CatalogLookup *family);
static void note_referenced(Stamp *stamp, Oid relid);
static SysScanDesc scan_rows(const CatalogLookup *family, Relation rel, const SchemaMember *member);
static void add_row(Stamp *stamp, StampCatalog *catalog, Relation rel, HeapTuple tuple);
static bool is_oid_of_member(const Stamp *stamp, Oid oid);
static Oid	column_reference(Relation rel, HeapTuple tuple, AttrNumber attnum);
static void compile_expressions(Stamp *stamp, StampRow *row, const CatalogLookup *family,
								Relation rel, int object);
static HeapTuple row_of_other(const Stamp *stamp, const CatalogLookup *family, Relation rel,
							  int object);
static char *expression_of(HeapTuple tuple, Relation rel, Form_pg_attribute att);
static void compile_expression(Stamp *stamp, StampRow *row, Form_pg_attribute att, char *text,
							   char *other);

/*
 * Compile the stamp of tables that PostgreSQL has made in this transaction: one,
 * and the partitions below it. `other` is the first of such tables, of which
 * stamp_is_of_both() holds, or InvalidOid if no expression can refer to its
 * table. Keeps the array. Raises 0A000 for a part that a stamp cannot carry,
 * 55000 where a partition is gone, XX000 where PostgreSQL did something unknown
 * here.
 */
Stamp *
stamp_compile(StampTable *tables, int ntables, Oid other)
{
	Oid			prototype = tables[0].relid;
	Stamp	   *stamp = palloc0(sizeof(Stamp));

	stamp->other = other;
	find_family(&stamp->members, prototype);
	if (OidIsValid(other))
		find_family(&stamp->other_members, other);
	keep_objects(stamp);
	find_tables(stamp, tables, ntables);
	stamp_name_members(stamp);

	for (int i = 0; i < stamp->nobjects; i++)
	{
		StampObject *object = &stamp->objects[i];
		Relation	rel;

		if (object->relkind == 0)
			continue;
		rel = relation_open(object->address.objectId, NoLock);
		object->tablespace = rel->rd_rel->reltablespace;
		/* an event trigger or a hook can have done anything to it */
		if (RELKIND_HAS_STORAGE(object->relkind) &&
			!file_number_is_lazy(rel->rd_rel->relfilenode) &&
			(rel->rd_rel->relfilenode != object->address.objectId ||
			 (RELKIND_HAS_TABLE_AM(object->relkind) && RelationGetNumberOfBlocks(rel) > 0)))
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("\"%s\" was written to while it was being created",
							RelationGetRelationName(rel))));
		if (object->follows_table && object->tablespace != get_rel_tablespace(prototype))
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("\"%s\" was moved to another tablespace while tables were being created",
							RelationGetRelationName(rel))));
		if (!RELKIND_HAS_STORAGE(object->relkind) ||
			file_number_is_lazy(rel->rd_rel->relfilenode))
			stamp->nwithout_file += object->follows_table ? 1 : 0;
		else
			object->files = file_image_capture(rel);
		relation_close(rel, NoLock);
	}

	stamp->catalogs = palloc0(NUM_OBJECT_CATALOGS * sizeof(StampCatalog));
	for (int i = 0; i < NUM_OBJECT_CATALOGS; i++)
		if ((catalog_map[i].scope & CATALOG_OF_TABLES) != 0)
			collect_rows(stamp, &catalog_map[i]);

	return stamp;
}

/* How many catalog rows a table of this stamp has. */
int
stamp_rows_per_table(const Stamp *stamp)
{
	int			nrows = 0;

	for (int i = 0; i < stamp->ncatalogs; i++)
		nrows += stamp->catalogs[i].nrows;
	return nrows;
}

/* Everything that depends on a prototype, transitively. */
static void
find_family(SchemaRows *family, Oid prototype)
{
	Relation	depend = table_open(DependRelationId, AccessShareLock);
	int			size = 16;

	family->members = palloc(size * sizeof(SchemaMember));
	family->members[0].classid = RelationRelationId;
	family->members[0].objid = prototype;
	family->nmembers = 1;

	for (int i = 0; i < family->nmembers; i++)
	{
		ScanKeyData key[2];
		SysScanDesc scan;
		HeapTuple	tuple;

		ScanKeyInit(&key[0], Anum_pg_depend_refclassid, BTEqualStrategyNumber, F_OIDEQ,
					ObjectIdGetDatum(family->members[i].classid));
		ScanKeyInit(&key[1], Anum_pg_depend_refobjid, BTEqualStrategyNumber, F_OIDEQ,
					ObjectIdGetDatum(family->members[i].objid));
		scan = systable_beginscan(depend, DependReferenceIndexId, true, NULL, 2, key);
		while (HeapTupleIsValid(tuple = systable_getnext(scan)))
		{
			Form_pg_depend form = (Form_pg_depend) GETSTRUCT(tuple);
			ObjectAddress address;
			bool		found = false;

			for (int j = 0; j < family->nmembers && !found; j++)
				found = family->members[j].objid == form->objid &&
					family->members[j].classid == form->classid;
			if (found)
				continue;
			ObjectAddressSet(address, form->classid, form->objid);
			if (!catalog_has_objects(form->classid, CATALOG_OF_TABLES))
				ereport(ERROR,
						(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						 errmsg("cannot stamp tables with %s",
								getObjectDescription(&address, false))));

			if (family->nmembers == size)
			{
				size *= 2;
				family->members = repalloc(family->members, size * sizeof(SchemaMember));
			}
			family->members[family->nmembers].classid = form->classid;
			family->members[family->nmembers++].objid = form->objid;
		}
		systable_endscan(scan);
	}
	table_close(depend, AccessShareLock);

	qsort(family->members, family->nmembers, sizeof(SchemaMember), schema_member_cmp);
	check_rules(family);
}

/* Those of others depend on a table, too: of a view, for one, which an event trigger may have made. */
static void
check_rules(const SchemaRows *family)
{
	Relation	rel = table_open(RewriteRelationId, AccessShareLock);

	for (int i = 0; i < family->nmembers; i++)
	{
		ObjectAddress address;
		ScanKeyData key;
		SysScanDesc scan;
		HeapTuple	tuple;

		ObjectAddressSet(address, family->members[i].classid, family->members[i].objid);
		if (address.classId != RewriteRelationId)
			continue;
		ScanKeyInit(&key, Anum_pg_rewrite_oid, BTEqualStrategyNumber, F_OIDEQ,
					ObjectIdGetDatum(address.objectId));
		scan = systable_beginscan(rel, RewriteOidIndexId, true, NULL, 1, &key);
		tuple = systable_getnext(scan);
		if (!HeapTupleIsValid(tuple))
			elog(ERROR, "could not find rule %u", address.objectId);
		if (schema_rows_member(family, RelationRelationId,
							   ((Form_pg_rewrite) GETSTRUCT(tuple))->ev_class) < 0)
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("cannot stamp tables with %s", getObjectDescription(&address, false))));
		systable_endscan(scan);
	}
	table_close(rel, AccessShareLock);
}

/* Were the parts of two prototypes created in the same order? */
bool
stamp_is_of_both(Oid prototype, Oid other)
{
	SchemaRows	one = {0};
	SchemaRows	two = {0};
	bool		same;

	find_family(&one, prototype);
	find_family(&two, other);
	same = one.nmembers == two.nmembers;
	for (int i = 0; i < one.nmembers && same; i++)
		same = one.members[i].classid == two.members[i].classid;
	return same;
}

static void
keep_objects(Stamp *stamp)
{
	stamp->nobjects = stamp->members.nmembers;
	stamp->objects = palloc0(stamp->nobjects * sizeof(StampObject));
	for (int i = 0; i < stamp->nobjects; i++)
		ObjectAddressSet(stamp->objects[i].address, stamp->members.members[i].classid,
						 stamp->members.members[i].objid);
}

/* The tables that the stamp is of, and their TOAST tables. */
static void
find_tables(Stamp *stamp, StampTable *tables, int ntables)
{
	stamp->ntables = ntables;
	stamp->tables = tables;
	for (int i = 0; i < ntables; i++)
	{
		Relation	rel;

		if (stamp_member(stamp, RelationRelationId, tables[i].relid) < 0)
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("partition \"%s\" was detached while tables were being created",
							tables[i].relname)));
		rel = table_open(tables[i].relid, NoLock);
		tables[i].toast = rel->rd_rel->reltoastrelid;
		table_close(rel, NoLock);
	}
}

/* ---- rows ---- */

/* Keep all rows of one catalog that are about a member of the family. */
static void
collect_rows(Stamp *stamp, const CatalogLookup *family)
{
	StampCatalog *catalog = &stamp->catalogs[stamp->ncatalogs];
	Relation	rel = table_open(family->catalog, AccessShareLock);

	catalog->catalog = family->catalog;
	catalog->oid_index = family->oid_index;

	for (int i = 0; i < stamp->nobjects; i++)
	{
		SysScanDesc scan;
		HeapTuple	tuple;

		if (OidIsValid(family->member_class) &&
			family->member_class != stamp->objects[i].address.classId)
			continue;
		scan = scan_rows(family, rel, &stamp->members.members[i]);
		while (HeapTupleIsValid(tuple = systable_getnext(scan)))
		{
			/*
			 * these depend on each table's tablespace; see
			 * add_tablespace_rows()
			 */
			if (family->catalog == SharedDependRelationId && stamp->objects[i].follows_table &&
				((Form_pg_shdepend) GETSTRUCT(tuple))->deptype == SHARED_DEPENDENCY_TABLESPACE)
				continue;
			if (family->catalog == InheritsRelationId)
				note_referenced(stamp, ((Form_pg_inherits) GETSTRUCT(tuple))->inhparent);
			else if (family->catalog == TriggerRelationId)
				note_referenced(stamp, ((Form_pg_trigger) GETSTRUCT(tuple))->tgrelid);
			add_row(stamp, catalog, rel, tuple);
			compile_expressions(stamp, &catalog->rows[catalog->nrows - 1], family, rel, i);
		}
		systable_endscan(scan);
	}

	table_close(rel, AccessShareLock);
	/* relations without a file may need one there; see add_tablespace_rows() */
	if (catalog->nrows > 0 ||
		(stamp->nwithout_file > 0 && catalog->catalog == SharedDependRelationId))
		stamp->ncatalogs++;
}

/* Others than those of the family are to be told. */
static void
note_referenced(Stamp *stamp, Oid relid)
{
	if (stamp_member(stamp, RelationRelationId, relid) < 0)
		stamp->referenced = list_append_unique_oid(stamp->referenced, relid);
}

/* Find the rows of a catalog about a member. */
static SysScanDesc
scan_rows(const CatalogLookup *family, Relation rel, const SchemaMember *member)
{
	ScanKeyData key[3];
	int			nkeys = 0;

	/* keys go in the order of the index, which is that of the columns */
	for (AttrNumber attnum = 1; attnum <= RelationGetDescr(rel)->natts; attnum++)
	{
		Oid			value;

		if (attnum == family->database_column)
			value = MyDatabaseId;
		else if (attnum == family->class_column)
			value = member->classid;
		else if (attnum == family->object_column)
			value = member->objid;
		else
			continue;
		ScanKeyInit(&key[nkeys++], attnum, BTEqualStrategyNumber, F_OIDEQ,
					ObjectIdGetDatum(value));
	}
	return systable_beginscan(rel, family->index, true, NULL, nkeys, key);
}

/* Keep one row, and find the places to patch in it. */
static void
add_row(Stamp *stamp, StampCatalog *catalog, Relation rel, HeapTuple tuple)
{
	TupleDesc	tupdesc = RelationGetDescr(rel);
	StampRow   *row;
	char	   *data;
	Size		offset = 0;
	int			name = -1;
	bool		follows_table = false;

	if (catalog->nrows == catalog->size)
	{
		catalog->size = Max(8, catalog->size * 2);
		catalog->rows = catalog->rows == NULL ?
			palloc(catalog->size * sizeof(StampRow)) :
			repalloc(catalog->rows, catalog->size * sizeof(StampRow));
	}
	row = &catalog->rows[catalog->nrows++];
	memset(row, 0, sizeof(StampRow));
	row->image = HeapTupleHasExternal(tuple) ?
		toast_flatten_tuple(tuple, tupdesc) : heap_copytuple(tuple);
	row->patches = palloc(tupdesc->natts * sizeof(StampPatch));

	/* a row of an object catalog begins with the member's OID */
	if (OidIsValid(catalog->oid_index))
	{
		bool		isnull;
		Oid			oid = DatumGetObjectId(heap_getattr(tuple, 1, tupdesc, &isnull));
		int			object = stamp_member(stamp, catalog->catalog, oid);

		Assert(object >= 0);
		name = stamp->objects[object].name;
		follows_table = stamp->objects[object].follows_table;
	}

	data = (char *) row->image->t_data + row->image->t_data->t_hoff;
	for (int i = 0; i < tupdesc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(tupdesc, i);
		StampPatch	patch = {0};
		int			object = -1;

		if (heap_attisnull(row->image, att->attnum, tupdesc))
			continue;
		offset = att_align_pointer(offset, att->attalign, att->attlen, data + offset);
		patch.offset = row->image->t_data->t_hoff + offset;

		if (att->atttypid == OIDOID || att->atttypid == REGPROCOID)
		{
			Oid			value;
			Oid			reference = column_reference(rel, row->image, att->attnum);

			memcpy(&value, data + offset, sizeof(Oid));
			object = OidIsValid(reference) ? stamp_member(stamp, reference, value) : -1;
			if (object >= 0)
			{
				patch.kind = PATCH_OID;
				patch.what = object;
				row->patches[row->npatches++] = patch;
			}
			else if (catalog->catalog == RelationRelationId &&
					 att->attnum == Anum_pg_class_reltablespace && follows_table)
			{
				patch.kind = PATCH_TABLESPACE;
				row->patches[row->npatches++] = patch;
			}
			else if (!OidIsValid(reference) && OidIsValid(value))
			{
				if (is_oid_of_member(stamp, value))
					elog(ERROR, "unexpected OID %u in column \"%s\" of \"%s\"", value,
						 NameStr(att->attname), RelationGetRelationName(rel));
			}
		}
		else if (att->atttypid == NAMEOID && name >= 0 &&
				 ((catalog->catalog == RelationRelationId && att->attnum == Anum_pg_class_relname) ||
				  (catalog->catalog == TypeRelationId && att->attnum == Anum_pg_type_typname) ||
				  (catalog->catalog == ConstraintRelationId && att->attnum == Anum_pg_constraint_conname) ||
				  (catalog->catalog == TriggerRelationId && att->attnum == Anum_pg_trigger_tgname) ||
				  (catalog->catalog == StatisticExtRelationId && att->attnum == Anum_pg_statistic_ext_stxname)))
		{
			patch.kind = PATCH_NAME;
			patch.what = name;
			row->patches[row->npatches++] = patch;
		}

		offset = att_addlength_pointer(offset, att->attlen, data + offset);
	}
}

/* In any catalog? */
static bool
is_oid_of_member(const Stamp *stamp, Oid oid)
{
	int			low = 0;
	int			high = stamp->members.nmembers;

	while (low < high)
	{
		int			middle = (low + high) / 2;

		if (stamp->members.members[middle].objid < oid)
			low = middle + 1;
		else
			high = middle;
	}
	return low < stamp->members.nmembers && stamp->members.members[low].objid == oid;
}

/*
 * The catalog whose OIDs a column holds; InvalidOid if that is none, or is
 * not known.
 */
static Oid
column_reference(Relation rel, HeapTuple tuple, AttrNumber attnum)
{
	TupleDesc	tupdesc = RelationGetDescr(rel);
	const char *attname = NameStr(TupleDescAttr(tupdesc, attnum - 1)->attname);
	bool		is_array = false;
	Oid			reference;

	if (strcmp(attname, "oid") == 0)
		return RelationGetRelid(rel);

	/* a fresh relation's file has its OID for a number */
	if (RelationGetRelid(rel) == RelationRelationId && attnum == Anum_pg_class_relfilenode)
		return RelationRelationId;

	for (int i = 0; i < lengthof(addressed_columns); i++)
	{
		if (addressed_columns[i].catalog == RelationGetRelid(rel) &&
			addressed_columns[i].object_column == attnum)
		{
			bool		isnull;

			return DatumGetObjectId(heap_getattr(tuple, addressed_columns[i].class_column,
												 tupdesc, &isnull));
		}
	}

	reference = catalog_referred_to(RelationGetRelid(rel), attname, &is_array);
	return is_array ? InvalidOid : reference;
}

/* ---- expressions ---- */

/* May an expression refer to the row type or to a relation of the family? */
static bool
refers_to_family(Node *node, void *arg)
{
	const Stamp *stamp = arg;

	if (node == NULL)
		return false;

	if (IsA(node, Const))
	{
		Const	   *con = (Const *) node;

		return con->consttype == REGCLASSOID && !con->constisnull &&
			stamp_member(stamp, RelationRelationId, DatumGetObjectId(con->constvalue)) >= 0;
	}
	if (IsA(node, Var) && ((Var *) node)->varattno == InvalidAttrNumber)
		return true;
	/* a query can in many ways; a rule's has the table in it at least */
	if (IsA(node, Query))
		return true;
	return expression_tree_walker(node, refers_to_family, arg);
}

/*
 * Expressions of the family refer to it by column numbers, which need no
 * patch; unless there are two prototypes, whose difference tells what else
 * they refer to.
 */
static void
compile_expressions(Stamp *stamp, StampRow *row, const CatalogLookup *family, Relation rel,
					int object)
{
	TupleDesc	tupdesc = RelationGetDescr(rel);
	HeapTuple	other = NULL;

	for (int i = 0; i < tupdesc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(tupdesc, i);
		bool		isnull;
		Datum		value;

		if (att->atttypid != PG_NODE_TREEOID)
			continue;
		value = heap_getattr(row->image, att->attnum, tupdesc, &isnull);
		if (isnull)
			continue;

		/*
		 * of tables with partitions there are two: their bounds are nodes of
		 * another kind
		 */
		if (!OidIsValid(stamp->other))
		{
			if (refers_to_family(stringToNode(TextDatumGetCString(value)), stamp))
				ereport(ERROR,
						(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						 errmsg("cannot stamp tables with an expression of table \"%s\" that may refer to it",
								stamp->tables[0].relname),
						 errdetail("It is in column \"%s\" of \"%s\".",
								   NameStr(att->attname), RelationGetRelationName(rel))));
			continue;
		}
		if (other == NULL)
			other = row_of_other(stamp, family, rel, object);
		compile_expression(stamp, row, att, TextDatumGetCString(value),
						   expression_of(other, rel, att));
	}
}

/* The row of the second prototype's member; palloc'd. */
static HeapTuple
row_of_other(const Stamp *stamp, const CatalogLookup *family, Relation rel, int object)
{
	SysScanDesc scan = scan_rows(family, rel, &stamp->other_members.members[object]);
	HeapTuple	tuple = systable_getnext(scan);

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "no row for object %u in \"%s\"", stamp->other_members.members[object].objid,
			 RelationGetRelationName(rel));
	tuple = heap_copytuple(tuple);
	if (HeapTupleIsValid(systable_getnext(scan)))
		elog(ERROR, "several rows with expressions for one object in \"%s\"",
			 RelationGetRelationName(rel));
	systable_endscan(scan);
	return tuple;
}

static char *
expression_of(HeapTuple tuple, Relation rel, Form_pg_attribute att)
{
	bool		isnull;
	Datum		value = heap_getattr(tuple, att->attnum, RelationGetDescr(rel), &isnull);

	return isnull ? "" : TextDatumGetCString(value);
}

/* Keep the places of OIDs in an expression whose texts differ. */
static void
compile_expression(Stamp *stamp, StampRow *row, Form_pg_attribute att, char *text, char *other)
{
	OidTemplate *compared;

	if (strcmp(text, other) == 0)
		return;
	compared = oid_template_compare(&stamp->members, &stamp->other_members, text, other, false);
	if (compared == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot stamp tables with an expression of table \"%s\" that differs from table to table",
						stamp->tables[0].relname),
				 errdetail("It is in column %s of a system catalog.", NameStr(att->attname))));

	/* grown by powers of two */
	if ((row->nexpressions & (row->nexpressions - 1)) == 0)
		row->expressions = row->expressions == NULL ? palloc(sizeof(StampExpression)) :
			repalloc(row->expressions, row->nexpressions * 2 * sizeof(StampExpression));
	row->expressions[row->nexpressions].attnum = att->attnum;
	row->expressions[row->nexpressions++].text = compared;
}

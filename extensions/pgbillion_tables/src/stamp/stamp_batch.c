/*-------------------------------------------------------------------------
 *
 * stamp_batch.c
 *	  Tables written from a stamp.
 *
 * The files of a table are made when it is added to a batch; its rows are
 * kept in memory and written by catalog when the batch is flushed.
 *
 * OIDs are given to the members of a stamped table in the order in which the
 * prototype's were created, since the order of OIDs is visible (the order in
 * which indexes are considered, for one).
 *
 * Memory: a batch has a context of its own, emptied by stamp_batch_flush().
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/dependency.h"
#include "catalog/pg_shdepend.h"
#include "catalog/pg_tablespace.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/pgstat_internal.h"
#include "utils/rel.h"

#include "catalog_rows/catalog_rows.h"
#include "stamp/stamp.h"

struct StampBatch
{
	Stamp	   *stamp;
	NameRegistry *registry;
	OidAllocator *allocator;
	CatalogWriter **writers;	/* as stamp->catalogs */
	HeapTuple **tuples;			/* as stamp->catalogs: rows to be written */
	int		   *ntuples;
	int			capacity;		/* in tables */
	int			ntables;
	Oid		   *oids;			/* of the table being added, as stamp->objects */
	NameData   *names;
	MemoryContext context;		/* holds the rows to be written */
};

static HeapTuple stamp_row(StampBatch *batch, StampCatalog *catalog, StampRow *row, Oid tablespace);
static HeapTuple fill_expressions(StampBatch *batch, StampCatalog *catalog, StampRow *row,
								  HeapTuple tuple);
static void add_tablespace_rows(StampBatch *batch, int catalog, Oid tablespace);

/* Begin to stamp tables whose names are in `registry`. */
StampBatch *
stamp_batch_begin(Stamp *stamp, NameRegistry *registry)
{
	StampBatch *batch = palloc0(sizeof(StampBatch));
	Oid			catalogs[NUM_OBJECT_CATALOGS];
	Oid			oid_indexes[NUM_OBJECT_CATALOGS];
	int			nwith_oid = 0;

	batch->stamp = stamp;
	batch->registry = registry;
	batch->writers = palloc(stamp->ncatalogs * sizeof(CatalogWriter *));
	batch->tuples = palloc0(stamp->ncatalogs * sizeof(HeapTuple *));
	batch->ntuples = palloc0(stamp->ncatalogs * sizeof(int));
	for (int i = 0; i < stamp->ncatalogs; i++)
	{
		batch->writers[i] = catalog_writer_open(stamp->catalogs[i].catalog);
		if (OidIsValid(stamp->catalogs[i].oid_index))
		{
			catalogs[nwith_oid] = stamp->catalogs[i].catalog;
			oid_indexes[nwith_oid++] = stamp->catalogs[i].oid_index;
		}
	}
	batch->allocator = oid_allocator_create(catalogs, oid_indexes, nwith_oid);
	batch->oids = palloc(stamp->nobjects * sizeof(Oid));
	batch->names = palloc(stamp->nnames * sizeof(NameData));
	batch->context = AllocSetContextCreate(CurrentMemoryContext, "pgbillion stamp batch",
										   ALLOCSET_DEFAULT_SIZES);
	return batch;
}

/* Make room for `ntables` tables until the next flush. */
void
stamp_batch_reserve(StampBatch *batch, int ntables)
{
	Stamp	   *stamp = batch->stamp;

	Assert(batch->ntables == 0);
	oid_allocator_reserve(batch->allocator, (uint32) ntables * stamp->nobjects);
	if (ntables <= batch->capacity)
		return;
	for (int i = 0; i < stamp->ncatalogs; i++)
	{
		if (batch->tuples[i] != NULL)
			pfree(batch->tuples[i]);
		batch->tuples[i] = palloc((Size) ntables * (stamp->catalogs[i].nrows + stamp->nwithout_file) *
								  sizeof(HeapTuple));
	}
	batch->capacity = ntables;
}

/*
 * Make one table's files, and its rows in memory. `tablespace` as in
 * pg_class.reltablespace.
 */
void
stamp_batch_add(StampBatch *batch, const NameData *relname, Oid tablespace)
{
	Stamp	   *stamp = batch->stamp;
	MemoryContext old = MemoryContextSwitchTo(batch->context);

	Assert(batch->ntables < batch->capacity);

	for (int i = 0; i < stamp->nobjects; i++)
	{
		StampObject *object = &stamp->objects[i];
		Oid			oid = oid_allocator_next(batch->allocator);

		if (object->relkind != 0)
		{
			Oid			spc = object->follows_table ? tablespace : object->tablespace;
			RelFileLocator locator;

			/*
			 * as GetNewRelFileNumber(): after a wraparound the file may be
			 * another's
			 */
			while (object->files != NULL)
			{
				locator = make_locator(OidIsValid(spc) ? spc : MyDatabaseTableSpace, oid);
				if (!relation_file_exists(locator, MAIN_FORKNUM))
				{
					file_image_create(object->files, locator);
					break;
				}
				oid = oid_allocator_next(batch->allocator);
			}

			/* an abort takes back what was counted for it */
			pgstat_create_transactional(PGSTAT_KIND_RELATION, MyDatabaseId, oid);
		}
		batch->oids[i] = oid;
	}

	name_registry_choose(batch->registry, stamp->names, stamp->nnames, NameStr(*relname),
						 batch->oids, batch->names);

	for (int i = 0; i < stamp->ncatalogs; i++)
	{
		StampCatalog *catalog = &stamp->catalogs[i];

		for (int j = 0; j < catalog->nrows; j++)
			batch->tuples[i][batch->ntuples[i]++] =
				stamp_row(batch, catalog, &catalog->rows[j], tablespace);
		if (catalog->catalog == SharedDependRelationId && OidIsValid(tablespace))
			add_tablespace_rows(batch, i, tablespace);
	}
	batch->ntables++;

	MemoryContextSwitchTo(old);
}

/* One row of the table being added. */
static HeapTuple
stamp_row(StampBatch *batch, StampCatalog *catalog, StampRow *row, Oid tablespace)
{
	HeapTuple	tuple = heap_copytuple(row->image);

	for (int i = 0; i < row->npatches; i++)
	{
		const StampPatch *patch = &row->patches[i];
		char	   *place = (char *) tuple->t_data + patch->offset;

		switch (patch->kind)
		{
			case PATCH_OID:
				memcpy(place, &batch->oids[patch->what], sizeof(Oid));
				break;
			case PATCH_NAME:
				memcpy(place, &batch->names[patch->what], NAMEDATALEN);
				break;
			case PATCH_TABLESPACE:
				memcpy(place, &tablespace, sizeof(Oid));
				break;
		}
	}

	return row->nexpressions == 0 ? tuple : fill_expressions(batch, catalog, row, tuple);
}

/* The row with its expressions; last, because they have other lengths. */
static HeapTuple
fill_expressions(StampBatch *batch, StampCatalog *catalog, StampRow *row, HeapTuple tuple)
{
	CatalogWriter *writer = batch->writers[catalog - batch->stamp->catalogs];
	Datum		values[MaxHeapAttributeNumber];
	bool		nulls[MaxHeapAttributeNumber] = {false};
	bool		replaces[MaxHeapAttributeNumber] = {false};

	for (int i = 0; i < row->nexpressions; i++)
	{
		StampExpression *expression = &row->expressions[i];

		values[expression->attnum - 1] = oid_template_fill(expression->text, batch->oids);
		replaces[expression->attnum - 1] = true;
	}
	return heap_modify_tuple(tuple, RelationGetDescr(catalog_writer_relation(writer)),
							 values, nulls, replaces);
}

/*
 * A relation without a file records its dependency on its tablespace, which
 * a file would otherwise protect: heap_create() for those that never have
 * one, and lazy_files.c.
 */
static void
add_tablespace_rows(StampBatch *batch, int catalog, Oid tablespace)
{
	TupleDesc	tupdesc = RelationGetDescr(catalog_writer_relation(batch->writers[catalog]));

	for (int i = 0; i < batch->stamp->nobjects; i++)
	{
		StampObject *object = &batch->stamp->objects[i];
		Datum		values[Natts_pg_shdepend];
		bool		nulls[Natts_pg_shdepend] = {false};

		if (object->relkind == 0 || object->files != NULL || !object->follows_table)
			continue;
		values[Anum_pg_shdepend_dbid - 1] = ObjectIdGetDatum(MyDatabaseId);
		values[Anum_pg_shdepend_classid - 1] = ObjectIdGetDatum(RelationRelationId);
		values[Anum_pg_shdepend_objid - 1] = ObjectIdGetDatum(batch->oids[i]);
		values[Anum_pg_shdepend_objsubid - 1] = Int32GetDatum(0);
		values[Anum_pg_shdepend_refclassid - 1] = ObjectIdGetDatum(TableSpaceRelationId);
		values[Anum_pg_shdepend_refobjid - 1] = ObjectIdGetDatum(tablespace);
		values[Anum_pg_shdepend_deptype - 1] = CharGetDatum(SHARED_DEPENDENCY_TABLESPACE);
		batch->tuples[catalog][batch->ntuples[catalog]++] = heap_form_tuple(tupdesc, values, nulls);
	}
}

/* Write the rows of all tables added since the last flush. */
void
stamp_batch_flush(StampBatch *batch, bool invalidate_each)
{
	for (int i = 0; i < batch->stamp->ncatalogs; i++)
	{
		catalog_writer_insert(batch->writers[i], batch->tuples[i], batch->ntuples[i],
							  invalidate_each);
		batch->ntuples[i] = 0;
	}
	batch->ntables = 0;
	MemoryContextReset(batch->context);

	/*
	 * PostgreSQL searches the messages of a command; see
	 * catalog_writer_insert()
	 */
	if (XLogLogicalInfoActive())
		CommandCounterIncrement();
}

/* Close the catalogs; what was flushed is visible to later commands. */
void
stamp_batch_end(StampBatch *batch)
{
	ListCell   *lc;

	Assert(batch->ntables == 0);
	for (int i = 0; i < batch->stamp->ncatalogs; i++)
		catalog_writer_close(batch->writers[i]);

	/* they have more triggers or children than before */
	foreach(lc, batch->stamp->referenced)
		CacheInvalidateRelcacheByRelid(lfirst_oid(lc));
	MemoryContextDelete(batch->context);
	CommandCounterIncrement();
}

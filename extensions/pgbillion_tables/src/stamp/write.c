/*-------------------------------------------------------------------------
 *
 * write.c
 *	  Schemas written from a stamp.
 *
 * Files are made when a schema is added; rows are kept in memory until there
 * are enough of them. Nobody can see the schema before its transaction has
 * ended, so that nothing in it is locked.
 *
 * Members get their OIDs in the order in which PostgreSQL created those of
 * the first clone, because that is visible, as in the order of triggers'
 * names that hold them.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/multixact.h"
#include "access/xact.h"
#include "catalog/catalog.h"
#include "catalog/pg_class.h"
#include "catalog/pg_enum.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_proc.h"
#include "commands/tablespace.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/pgstat_internal.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "stamp/stamp.h"

/*
 * Rows in memory before they are written, at most. A schema has thousands of
 * rows, and entries of an index on names are neighbors only if they are those
 * of several schemas; but the rows of many take memory, here some 30 MB.
 */
#define ROWS_PER_FLUSH 131072
#define ROWS_PER_FLUSH_LOGICAL 200

/* Up to here others are told of each row rather than of whole catalogs, which is cheaper for them. */
#define ROWS_INVALIDATED_EACH 1000

struct SchemaWriter
{
	const SchemaStamp *stamp;
	OidAllocator *allocator;
	CatalogWriter *writers[NUM_OBJECT_CATALOGS];	/* NULL for those without
													 * rows */
	HeapTuple  *tuples[NUM_OBJECT_CATALOGS];
	int			nschemas;		/* whose rows are in memory */
	int			capacity;
	bool		invalidate_each;
	Oid		   *oids;			/* of the schema being added, as
								 * stamp->members */
	MemoryContext context;		/* holds the rows to be written */
	MemoryContext scratch;		/* emptied after each row with expressions */
	Size		image_bytes;	/* of a schema's rows, all together */
	MultiXactId oldest_multixact;	/* when the schema being added was begun */
};

static void check_name(const char *name);
static void choose_oids(SchemaWriter *writer);
static void sort_labels(SchemaWriter *writer);
static void make_rows(SchemaWriter *writer, const char *name);
static Size row_bytes(const SchemaStampRow *row);
static void patch_row(SchemaWriter *writer, const SchemaStampRow *row, HeapTuple tuple,
					  const char *name);
static HeapTuple fill_trees(SchemaWriter *writer, int catalog, const SchemaStampRow *row,
							HeapTuple tuple, const char *name);
static void flush(SchemaWriter *writer);

/* Begin to write so many schemas; in the current memory context. */
SchemaWriter *
schema_writer_begin(const SchemaStamp *stamp, int64 count)
{
	SchemaWriter *writer = palloc0(sizeof(SchemaWriter));
	Oid			catalogs[NUM_OBJECT_CATALOGS];
	Oid			oid_indexes[NUM_OBJECT_CATALOGS];
	int			nwith_oid = 0;
	int			nrows = schema_stamp_rows(stamp);
	int64		nflushes;

	writer->stamp = stamp;
	writer->capacity = Max(1, (XLogLogicalInfoActive() ? ROWS_PER_FLUSH_LOGICAL : ROWS_PER_FLUSH) / nrows);
	/* as many each time: then their order is the last one's */
	nflushes = (count + writer->capacity - 1) / writer->capacity;
	writer->capacity = Max(1, (count + nflushes - 1) / Max(1, nflushes));
	writer->invalidate_each = count * nrows <= ROWS_INVALIDATED_EACH;
	for (int i = 0; i < NUM_OBJECT_CATALOGS; i++)
	{
		if (stamp->nrows[i] == 0)
			continue;
		writer->writers[i] = catalog_writer_open(catalog_map[i].catalog);
		writer->tuples[i] = palloc((Size) writer->capacity * stamp->nrows[i] * sizeof(HeapTuple));
		for (int j = 0; j < stamp->nrows[i]; j++)
			writer->image_bytes += row_bytes(&stamp->rows[i][j]);
		if (OidIsValid(catalog_map[i].oid_index))
		{
			catalogs[nwith_oid] = catalog_map[i].catalog;
			oid_indexes[nwith_oid++] = catalog_map[i].oid_index;
		}
	}
	writer->allocator = oid_allocator_create(catalogs, oid_indexes, nwith_oid);
	/* every other OID is no label's */
	oid_allocator_reserve(writer->allocator, writer->capacity * (stamp->nmembers + 16));
	writer->oids = palloc(stamp->nmembers * sizeof(Oid));
	writer->context = AllocSetContextCreate(CurrentMemoryContext, "pgbillion schema rows",
											ALLOCSET_DEFAULT_SIZES);
	writer->scratch = AllocSetContextCreate(CurrentMemoryContext, "pgbillion schema row",
											ALLOCSET_DEFAULT_SIZES);
	stamp_forget_at_abort();
	return writer;
}

/*
 * Make a schema's files, and its rows in memory. Raises 42P06 if there is a
 * schema of that name, 42939 for names of the system's.
 */
void
schema_writer_add(SchemaWriter *writer, const char *name)
{
	MemoryContext old = MemoryContextSwitchTo(writer->context);

	CHECK_FOR_INTERRUPTS();
	check_name(name);
	choose_oids(writer);
	make_rows(writer, name);
	MemoryContextSwitchTo(old);

	if (++writer->nschemas == writer->capacity)
		flush(writer);
}

/* Write what is left; all is visible to later commands. */
void
schema_writer_end(SchemaWriter *writer)
{
	const SchemaStamp *stamp = writer->stamp;

	flush(writer);
	for (int i = 0; i < NUM_OBJECT_CATALOGS; i++)
		if (writer->writers[i] != NULL)
			catalog_writer_close(writer->writers[i]);

	/* they have triggers, or children, more than before */
	for (int i = 0; i < stamp->noutside; i++)
		if (stamp->outside[i].lockmode > AccessShareLock)
			CacheInvalidateRelcacheByRelid(stamp->outside[i].relid);
	MemoryContextDelete(writer->context);
	MemoryContextDelete(writer->scratch);
	CommandCounterIncrement();
}

/* As CREATE SCHEMA does. */
static void
check_name(const char *name)
{
	if (!allowSystemTableMods && IsReservedName(name))
		ereport(ERROR,
				(errcode(ERRCODE_RESERVED_NAME),
				 errmsg("unacceptable schema name \"%s\"", name),
				 errdetail("The prefix \"pg_\" is reserved for system schemas.")));
	if (SearchSysCacheExists1(NAMESPACENAME, PointerGetDatum(name)))
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_SCHEMA),
				 errmsg("schema \"%s\" already exists", name)));
}

/* OIDs for all members, and the files of those that have one. */
static void
choose_oids(SchemaWriter *writer)
{
	const SchemaStamp *stamp = writer->stamp;

	for (int i = 0; i < stamp->nmembers; i++)
	{
		const SchemaStampMember *member = &stamp->members[i];
		Oid			oid = oid_allocator_next(writer->allocator);

		/* even OIDs of labels sort as the labels do: see pg_enum.c */
		while (member->classid == EnumRelationId && (oid & 1) != 0)
			oid = oid_allocator_next(writer->allocator);

		/*
		 * as GetNewRelFileNumber(): after a wraparound the file may be
		 * another's
		 */
		while (member->file >= 0)
		{
			RelFileLocator locator = member_locator(member, oid);

			if (!relation_file_exists(locator, MAIN_FORKNUM))
			{
				file_image_create(stamp->files[member->file], locator);
				break;
			}
			oid = oid_allocator_next(writer->allocator);
		}

		/* an abort takes back what was counted for it */
		if (member->classid == RelationRelationId)
			pgstat_create_transactional(PGSTAT_KIND_RELATION, MyDatabaseId, oid);
		else if (member->classid == ProcedureRelationId)
			pgstat_create_transactional(PGSTAT_KIND_FUNCTION, MyDatabaseId, oid);
		writer->oids[i] = oid;
	}
	sort_labels(writer);
}

/*
 * PostgreSQL compares labels with even OIDs by those; after a wraparound of
 * the counter they have come in another order.
 */
static void
sort_labels(SchemaWriter *writer)
{
	const SchemaStamp *stamp = writer->stamp;
	Oid		   *sorted = palloc(stamp->nmembers * sizeof(Oid));
	int			nlabels = 0;

	for (int i = 0; i < stamp->nmembers; i++)
		if (stamp->members[i].classid == EnumRelationId)
			sorted[nlabels++] = writer->oids[i];
	qsort(sorted, nlabels, sizeof(Oid), oid_cmp);
	nlabels = 0;
	for (int i = 0; i < stamp->nmembers; i++)
		if (stamp->members[i].classid == EnumRelationId)
			writer->oids[i] = sorted[nlabels++];
	pfree(sorted);
}

/* The rows of the schema whose members have writer->oids, in memory. */
static void
make_rows(SchemaWriter *writer, const char *name)
{
	const SchemaStamp *stamp = writer->stamp;
	char	   *space = MemoryContextAllocHuge(CurrentMemoryContext, writer->image_bytes);

	writer->oldest_multixact = GetOldestMultiXactId();
	for (int i = 0; i < NUM_OBJECT_CATALOGS; i++)
	{
		HeapTuple  *tuples = writer->tuples[i] + (Size) writer->nschemas * stamp->nrows[i];

		for (int j = 0; j < stamp->nrows[i]; j++)
		{
			const SchemaStampRow *row = &stamp->rows[i][j];
			HeapTuple	tuple = (HeapTuple) space;

			*tuple = *row->image;
			tuple->t_data = (HeapTupleHeader) (space + HEAPTUPLESIZE);
			memcpy(tuple->t_data, row->image->t_data, tuple->t_len);
			patch_row(writer, row, tuple, name);
			tuples[j] = row->has_trees ? fill_trees(writer, i, row, tuple, name) : tuple;
			space += row_bytes(row);
		}
	}
}

/* What a row takes in memory. */
static Size
row_bytes(const SchemaStampRow *row)
{
	return HEAPTUPLESIZE + MAXALIGN(row->image->t_len);
}

/* Write what changes from schema to schema into a row, except expressions and other long texts. */
static void
patch_row(SchemaWriter *writer, const SchemaStampRow *row, HeapTuple tuple, const char *name)
{
	for (int i = 0; i < row->npatches; i++)
	{
		const SchemaPatch *patch = &row->patches[i];
		char	   *place = (char *) tuple->t_data + patch->place;

		switch (patch->kind)
		{
			case SCHEMA_PATCH_OID:
				memcpy(place, &writer->oids[patch->what], sizeof(Oid));
				break;
			case SCHEMA_PATCH_SCHEMA_NAME:
				namestrcpy((Name) place, name);
				break;
			case SCHEMA_PATCH_NAME:
				oid_template_fill_name(writer->stamp->texts[patch->what], writer->oids, (Name) place);
				break;
			case SCHEMA_PATCH_XID:
				memcpy(place, &RecentXmin, sizeof(TransactionId));
				break;
			case SCHEMA_PATCH_MULTIXACT:
				memcpy(place, &writer->oldest_multixact, sizeof(MultiXactId));
				break;
			case SCHEMA_PATCH_TREE:
			case SCHEMA_PATCH_BODY:
			case SCHEMA_PATCH_SETTINGS:
				break;
		}
	}
}

/*
 * The row with its expressions and the like, in the current memory context;
 * last, because other columns' places change with them.
 */
static HeapTuple
fill_trees(SchemaWriter *writer, int catalog, const SchemaStampRow *row, HeapTuple tuple, const char *name)
{
	TupleDesc	tupdesc = RelationGetDescr(catalog_writer_relation(writer->writers[catalog]));
	Datum		values[MaxHeapAttributeNumber];
	bool		nulls[MaxHeapAttributeNumber] = {false};
	bool		replaces[MaxHeapAttributeNumber] = {false};
	MemoryContext old = MemoryContextSwitchTo(writer->scratch);

	for (int i = 0; i < row->npatches; i++)
	{
		const SchemaPatch *patch = &row->patches[i];
		const OidTemplate *text;

		if (patch->kind != SCHEMA_PATCH_TREE && patch->kind != SCHEMA_PATCH_BODY &&
			patch->kind != SCHEMA_PATCH_SETTINGS)
			continue;
		text = writer->stamp->texts[patch->what];
		if (patch->kind == SCHEMA_PATCH_BODY)
			values[patch->place - 1] = named_body_fill(text, name);
		else if (patch->kind == SCHEMA_PATCH_SETTINGS)
			values[patch->place - 1] = named_settings_fill(text, name);
		else
			values[patch->place - 1] = text->nitems > 0 ?
				oid_template_fill_packed(text, writer->oids) : oid_template_fill(text, writer->oids);
		replaces[patch->place - 1] = true;
	}
	MemoryContextSwitchTo(old);
	tuple = heap_modify_tuple(tuple, tupdesc, values, nulls, replaces);
	MemoryContextReset(writer->scratch);
	return tuple;
}

static void
flush(SchemaWriter *writer)
{
	const SchemaStamp *stamp = writer->stamp;

	/*
	 * pg_namespace first, so that who comes too late waits before it has
	 * written anything
	 */
	for (int i = 0; i < NUM_OBJECT_CATALOGS && writer->nschemas > 0; i++)
		if (writer->writers[i] != NULL)
			catalog_writer_insert(writer->writers[i], writer->tuples[i],
								  writer->nschemas * stamp->nrows[i], writer->invalidate_each);
	writer->nschemas = 0;
	MemoryContextReset(writer->context);

	/*
	 * PostgreSQL searches the messages of a command; see
	 * catalog_writer_insert()
	 */
	if (XLogLogicalInfoActive())
		CommandCounterIncrement();
}

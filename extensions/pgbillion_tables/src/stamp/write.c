/*-------------------------------------------------------------------------
 *
 * write.c
 *	  Tables, or schemas, written from a stamp.
 *
 * Files are made when a table or schema is added; rows are kept in memory until
 * there are enough of them. Nobody can see it before its transaction has
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
#include "catalog/dependency.h"
#include "catalog/pg_class.h"
#include "catalog/pg_enum.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_shdepend.h"
#include "catalog/pg_tablespace.h"
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
 * Rows in memory before they are written, at most. Those of tables stay in the
 * processor's cache, and are enough for runs of neighbors in every index. A
 * schema has thousands of rows, and entries of an index on names are neighbors
 * only if they are those of several schemas; but the rows of many take memory,
 * here some 30 MB.
 */
#define TABLE_ROWS_PER_FLUSH 4096
#define SCHEMA_ROWS_PER_FLUSH 131072

/*
 * With logical decoding PostgreSQL's functions write the rows, and register a
 * message for each; the search among those of one command is linear.
 */
#define ROWS_PER_FLUSH_LOGICAL 200

/* Up to here others are told of each row rather than of whole catalogs, which is cheaper for them. */
#define ROWS_INVALIDATED_EACH 1000

struct StampWriter
{
	const Stamp *stamp;
	NameRegistry *registry;		/* of tables; NULL for schemas */
	OidAllocator *allocator;
	CatalogWriter *writers[NUM_OBJECT_CATALOGS];	/* NULL for those without
													 * rows */
	HeapTuple  *tuples[NUM_OBJECT_CATALOGS];
	int			ntuples[NUM_OBJECT_CATALOGS];
	int			nadded;			/* tables or schemas whose rows are in memory */
	int			capacity;
	int64		left;			/* to be added, those among them */
	int			noids;			/* each takes, mostly */
	bool		invalidate_each;
	const char *name;			/* of the one being added */
	Oid			tablespace;		/* of it, as in pg_class.reltablespace */
	Oid		   *oids;			/* of it, as stamp->members */
	NameData   *names;			/* of it, as stamp->names */
	MemoryContext context;		/* holds the rows to be written */
	MemoryContext scratch;		/* emptied after each row with expressions */
	Size		image_bytes;	/* of a stamp's rows, all together */
	MultiXactId oldest_multixact;	/* when those in memory were begun */
};

static void open_catalogs(StampWriter *writer);
static void begin_rows(StampWriter *writer);
static void check_name(const char *name);
static void choose_oids(StampWriter *writer);
static void sort_labels(StampWriter *writer);
static void make_rows(StampWriter *writer);
static Size row_bytes(const StampRow *row);
static void patch_row(StampWriter *writer, const StampRow *row, HeapTuple tuple);
static HeapTuple fill_trees(StampWriter *writer, int catalog, const StampRow *row, HeapTuple tuple);
static bool has_no_file(const StampMember *member);
static void add_tablespace_rows(StampWriter *writer);
static void flush(StampWriter *writer);

/*
 * Begin to write a number of schemas, or of tables whose names are in
 * `registry`; in the current memory context.
 */
StampWriter *
stamp_writer_begin(const Stamp *stamp, int64 count, NameRegistry *registry)
{
	StampWriter *writer = palloc0(sizeof(StampWriter));
	int			rows_per_flush = registry != NULL ? TABLE_ROWS_PER_FLUSH : SCHEMA_ROWS_PER_FLUSH;
	int			nrows = stamp_rows(stamp);
	int64		nflushes;

	writer->stamp = stamp;
	writer->registry = registry;
	writer->left = count;
	writer->capacity = Max(1, (XLogLogicalInfoActive() ? ROWS_PER_FLUSH_LOGICAL : rows_per_flush) / nrows);
	/* as many each time: then their order is the last one's */
	nflushes = (count + writer->capacity - 1) / writer->capacity;
	writer->capacity = Max(1, (count + nflushes - 1) / Max(1, nflushes));
	writer->invalidate_each = count * nrows <= ROWS_INVALIDATED_EACH;
	open_catalogs(writer);
	writer->oids = palloc(stamp->nmembers * sizeof(Oid));
	writer->names = palloc(stamp->nnames * sizeof(NameData));
	writer->context = AllocSetContextCreate(CurrentMemoryContext, "pgbillion stamped rows",
											ALLOCSET_DEFAULT_SIZES);
	writer->scratch = AllocSetContextCreate(CurrentMemoryContext, "pgbillion stamped row",
											ALLOCSET_DEFAULT_SIZES);
	begin_rows(writer);
	stamp_forget_at_abort();
	return writer;
}

static void
open_catalogs(StampWriter *writer)
{
	const Stamp *stamp = writer->stamp;
	Oid			catalogs[NUM_OBJECT_CATALOGS];
	Oid			oid_indexes[NUM_OBJECT_CATALOGS];
	int			nwith_oid = 0;
	int			nwithout_file = 0;

	/* every other OID is no label's, which only schemas have */
	writer->noids = stamp->nmembers + (writer->registry == NULL ? 16 : 0);
	for (int i = 0; i < stamp->nmembers; i++)
		nwithout_file += has_no_file(&stamp->members[i]) ? 1 : 0;
	for (int i = 0; i < NUM_OBJECT_CATALOGS; i++)
	{
		int			nrows = stamp->nrows[i] + (i == CATALOG_SHDEPEND ? nwithout_file : 0);

		if (nrows == 0)
			continue;
		writer->writers[i] = catalog_writer_open(catalog_map[i].catalog);
		writer->tuples[i] = palloc((Size) writer->capacity * nrows * sizeof(HeapTuple));
		for (int j = 0; j < stamp->nrows[i]; j++)
			writer->image_bytes += row_bytes(&stamp->rows[i][j]);
		if (OidIsValid(catalog_map[i].oid_index))
		{
			catalogs[nwith_oid] = catalog_map[i].catalog;
			oid_indexes[nwith_oid++] = catalog_map[i].oid_index;
		}
	}
	writer->allocator = oid_allocator_create(catalogs, oid_indexes, nwith_oid);
}

/*
 * Make the files of a schema or a table, and its rows in memory; of a table
 * whose tablespace is as in pg_class.reltablespace. Returns whether all rows
 * so far have been written. Raises 42P06 or 42P07 if there is one of that
 * name, 42939 for schemas with names of the system's.
 */
bool
stamp_writer_add(StampWriter *writer, const char *name, Oid tablespace)
{
	MemoryContext old = MemoryContextSwitchTo(writer->context);

	CHECK_FOR_INTERRUPTS();
	Assert(writer->left > 0);
	writer->name = name;
	writer->tablespace = tablespace;
	if (writer->registry != NULL)
		name_registry_claim_table(writer->registry, name);
	else
		check_name(name);
	choose_oids(writer);
	if (writer->registry != NULL)
		name_registry_choose(writer->registry, writer->stamp->names, writer->stamp->nnames, name,
							 writer->names);
	make_rows(writer);
	if (OidIsValid(tablespace))
		add_tablespace_rows(writer);
	MemoryContextSwitchTo(old);

	writer->left--;
	if (++writer->nadded < writer->capacity && writer->left > 0)
		return false;
	flush(writer);
	begin_rows(writer);
	return true;
}

/* All is visible to later commands. */
void
stamp_writer_end(StampWriter *writer)
{
	const Stamp *stamp = writer->stamp;

	Assert(writer->left == 0);
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

/* Announce the OIDs up to the next flush. */
static void
begin_rows(StampWriter *writer)
{
	oid_allocator_reserve(writer->allocator, Min(writer->left, writer->capacity) * writer->noids);
	writer->oldest_multixact = GetOldestMultiXactId();
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
choose_oids(StampWriter *writer)
{
	const Stamp *stamp = writer->stamp;

	for (int i = 0; i < stamp->nmembers; i++)
	{
		const StampMember *member = &stamp->members[i];
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
			RelFileLocator locator = stamp_locator(member->follows_table ? writer->tablespace :
												   member->tablespace, oid);

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
sort_labels(StampWriter *writer)
{
	const Stamp *stamp = writer->stamp;
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

/* The rows of what has writer->oids, in memory. */
static void
make_rows(StampWriter *writer)
{
	const Stamp *stamp = writer->stamp;
	char	   *space = MemoryContextAllocHuge(CurrentMemoryContext, writer->image_bytes);

	for (int i = 0; i < NUM_OBJECT_CATALOGS; i++)
	{
		for (int j = 0; j < stamp->nrows[i]; j++)
		{
			const StampRow *row = &stamp->rows[i][j];
			HeapTuple	tuple = (HeapTuple) space;

			*tuple = *row->image;
			tuple->t_data = (HeapTupleHeader) (space + HEAPTUPLESIZE);
			memcpy(tuple->t_data, row->image->t_data, tuple->t_len);
			patch_row(writer, row, tuple);
			writer->tuples[i][writer->ntuples[i]++] = row->has_trees ? fill_trees(writer, i, row, tuple) : tuple;
			space += row_bytes(row);
		}
	}
}

/* What a row takes in memory. */
static Size
row_bytes(const StampRow *row)
{
	return HEAPTUPLESIZE + MAXALIGN(row->image->t_len);
}

/* Write what changes from one to the next into a row, except expressions and other long texts. */
static void
patch_row(StampWriter *writer, const StampRow *row, HeapTuple tuple)
{
	for (int i = 0; i < row->npatches; i++)
	{
		const StampPatch *patch = &row->patches[i];
		char	   *place = (char *) tuple->t_data + patch->place;

		switch (patch->kind)
		{
			case PATCH_OID:
				memcpy(place, &writer->oids[patch->what], sizeof(Oid));
				break;
			case PATCH_SCHEMA_NAME:
				namestrcpy((Name) place, writer->name);
				break;
			case PATCH_CHOSEN_NAME:
				memcpy(place, &writer->names[patch->what], NAMEDATALEN);
				break;
			case PATCH_TABLESPACE:
				memcpy(place, &writer->tablespace, sizeof(Oid));
				break;
			case PATCH_NAME:
				oid_template_fill_name(writer->stamp->texts[patch->what], writer->oids, (Name) place);
				break;
			case PATCH_XID:
				memcpy(place, &RecentXmin, sizeof(TransactionId));
				break;
			case PATCH_MULTIXACT:
				memcpy(place, &writer->oldest_multixact, sizeof(MultiXactId));
				break;
			case PATCH_TREE:
			case PATCH_BODY:
			case PATCH_SETTINGS:
				break;
		}
	}
}

/*
 * The row with its expressions and the like, in the current memory context;
 * last, because other columns' places change with them.
 */
static HeapTuple
fill_trees(StampWriter *writer, int catalog, const StampRow *row, HeapTuple tuple)
{
	TupleDesc	tupdesc = RelationGetDescr(catalog_writer_relation(writer->writers[catalog]));
	Datum		values[MaxHeapAttributeNumber];
	bool		nulls[MaxHeapAttributeNumber] = {false};
	bool		replaces[MaxHeapAttributeNumber] = {false};
	MemoryContext old = MemoryContextSwitchTo(writer->scratch);

	for (int i = 0; i < row->npatches; i++)
	{
		const StampPatch *patch = &row->patches[i];
		const OidTemplate *text;

		if (patch->kind != PATCH_TREE && patch->kind != PATCH_BODY &&
			patch->kind != PATCH_SETTINGS)
			continue;
		text = writer->stamp->texts[patch->what];
		if (patch->kind == PATCH_BODY)
			values[patch->place - 1] = named_body_fill(text, writer->name);
		else if (patch->kind == PATCH_SETTINGS)
			values[patch->place - 1] = named_settings_fill(text, writer->name);
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

/* Is it a relation in its table's tablespace, but not by a file? */
static bool
has_no_file(const StampMember *member)
{
	return member->follows_table && member->file < 0;
}

/*
 * A relation without a file records its dependency on its tablespace, which
 * a file would otherwise protect: heap_create() for those that never have
 * one, and lazy_files.c.
 */
static void
add_tablespace_rows(StampWriter *writer)
{
	for (int i = 0; i < writer->stamp->nmembers; i++)
	{
		Datum		values[Natts_pg_shdepend];
		bool		nulls[Natts_pg_shdepend] = {false};

		if (!has_no_file(&writer->stamp->members[i]))
			continue;
		values[Anum_pg_shdepend_dbid - 1] = ObjectIdGetDatum(MyDatabaseId);
		values[Anum_pg_shdepend_classid - 1] = ObjectIdGetDatum(RelationRelationId);
		values[Anum_pg_shdepend_objid - 1] = ObjectIdGetDatum(writer->oids[i]);
		values[Anum_pg_shdepend_objsubid - 1] = Int32GetDatum(0);
		values[Anum_pg_shdepend_refclassid - 1] = ObjectIdGetDatum(TableSpaceRelationId);
		values[Anum_pg_shdepend_refobjid - 1] = ObjectIdGetDatum(writer->tablespace);
		values[Anum_pg_shdepend_deptype - 1] = CharGetDatum(SHARED_DEPENDENCY_TABLESPACE);
		writer->tuples[CATALOG_SHDEPEND][writer->ntuples[CATALOG_SHDEPEND]++] =
			heap_form_tuple(RelationGetDescr(catalog_writer_relation(writer->writers[CATALOG_SHDEPEND])),
							values, nulls);
	}
}

static void
flush(StampWriter *writer)
{
	/*
	 * pg_namespace first, so that who comes too late waits before it has
	 * written anything
	 */
	for (int i = 0; i < NUM_OBJECT_CATALOGS; i++)
	{
		if (writer->writers[i] != NULL)
			catalog_writer_insert(writer->writers[i], writer->tuples[i], writer->ntuples[i],
								  writer->invalidate_each);
		writer->ntuples[i] = 0;
	}
	writer->nadded = 0;
	MemoryContextReset(writer->context);

	/*
	 * PostgreSQL searches the messages of a command; see
	 * catalog_writer_insert()
	 */
	if (XLogLogicalInfoActive())
		CommandCounterIncrement();
}

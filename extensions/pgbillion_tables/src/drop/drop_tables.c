/*-------------------------------------------------------------------------
 *
 * drop_tables.c
 *	  pgbillion_tables.drop_tables(): many tables gone in one call.
 *
 * DROP TABLE opens every relation it drops, looks up the rows of each of its
 * parts one index descent at a time and deletes them one by one. Here the
 * families (see catalog_rows.h) of all tables are found together, a level of
 * pg_depend at a time, and their rows are read and deleted catalog by
 * catalog. Relations are never opened: what DROP needs of them is in their
 * pg_class rows.
 *
 * That is done for tables that nothing depends on but their own parts and
 * those of other tables that go with them. All others (views, foreign keys and
 * rules of other tables, children, partitions, publications, members of
 * extensions, temporary tables, tables in use by this session …) are dropped by
 * PostgreSQL, in the same transaction: refused or cascaded as DROP TABLE does.
 *
 * Locks: AccessExclusiveLock on each table, its TOAST table, indexes and
 * sequences, and on other tables that its foreign keys refer to, as DROP TABLE
 * takes it; what depends on the tables is looked at again once it is held.
 * Types and statistics, which hardly anybody uses by themselves, are not
 * locked: a COMMENT ON TYPE at the same moment can outlive its type.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/twophase.h"
#include "access/xact.h"
#include "catalog/catalog.h"
#include "catalog/dependency.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "catalog/objectaddress.h"
#include "catalog/pg_class.h"
#include "catalog/pg_depend.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_subscription_rel.h"
#include "catalog/pg_trigger.h"
#include "catalog/pg_type.h"
#include "catalog/storage.h"
#include "commands/trigger.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
#include "tcop/cmdtag.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/pgstat_internal.h"
#include "utils/rel.h"
#include "utils/relcache.h"

#include "catalog_rows/catalog_rows.h"
#include "ddl/ddl.h"
#include "lazy_heap/lazy_heap.h"

/* Up to here others are told of each row rather than of whole catalogs. */
#define TABLES_INVALIDATED_EACH 16

/* What part of the shared lock table one call may fill. */
#define LOCK_TABLE_SHARE 0.8

PG_FUNCTION_INFO_V1(pgbillion_drop_tables);

typedef struct DropTable
{
	Oid			oid;
	bool		exists;
	bool		by_postgresql;
} DropTable;

/* A relation to go. */
typedef struct DropRelation
{
	Oid			oid;
	Oid			tablespace;
	RelFileNumber filenumber;
	int			table;			/* in tables[] */
} DropRelation;

/*
 * Two tables of which one refers to the other; or a table and another one,
 * which stays, with triggers of the first one's foreign keys.
 */
typedef struct DropLink
{
	int			table;			/* in tables[] */
	int			other;			/* the same, or -1 */
	Oid			referenced;		/* if so */
} DropLink;

/* Rows of a catalog. */
typedef struct RowList
{
	ItemPointerData *tids;
	int			ntids;
	int			size;
} RowList;

typedef struct DropContext
{
	int			ntables;
	DropTable  *tables;			/* by OID, ascending */
	HTAB	   *members;		/* of CatalogKey, by what precedes `owner` in
								 * it */
	CatalogKey *keys;			/* all members; CatalogKey.owner is in
								 * tables[] */
	CatalogKey *keys_by_class;	/* the same, kept in the other order */
	int			nkeys;
	int			keys_size;
	int			level;			/* keys[level …] have not been searched for
								 * yet */
	List	   *references;		/* of CatalogKey: what depends on a member,
								 * but not as a part of it */
	DropLink   *links;
	int			nlinks;
	int			links_size;
	RowList		class_rows;		/* of members, as lock_parts() saw them last */
	RowList		depend_rows;	/* of members, as find_families() saw them
								 * last */
	RowList		other_rows;		/* of the catalog being read */
	DropRelation *relations;	/* as class_rows */
	int			nrelations;
	int			relations_size;
	HTAB	   *locked;			/* OIDs of the parts we have locked */
} DropContext;

static DropTable *collect_tables(ArrayType *array, int *ntables);
static void check_tables(DropContext *context, bool locked);
static void check_table_row(HeapTuple tuple, Relation rel, const CatalogKey *key, void *arg);
static void lock_tables(DropContext *context);
static bool held_by_me(Oid relid);
static void check_lock_table(int64 wanted, int ntables);
static int	drop_by_postgresql(DropContext *context, DropBehavior behavior);
static void find_families(DropContext *context);
static CatalogKey *keys_for(DropContext *context, const CatalogLookup *lookup);
static void add_member(DropContext *context, Oid classid, Oid objid, int table);
static void add_dependent(HeapTuple tuple, Relation rel, const CatalogKey *key, void *arg);
static void add_link(DropContext *context, int table, int other, Oid referenced);
static void spread_by_postgresql(DropContext *context);
static bool lock_referenced(DropContext *context);
static void leave_to_core(HeapTuple tuple, Relation rel, const CatalogKey *key, void *arg);
static bool inspect_trigger(DropContext *context, Form_pg_trigger form, int table);
static void inspect_row(HeapTuple tuple, Relation rel, const CatalogKey *key, void *arg);
static void add_row(RowList *rows, HeapTuple tuple);
static void collect_relation(HeapTuple tuple, Relation rel, const CatalogKey *key, void *arg);
static void collect_row(HeapTuple tuple, Relation rel, const CatalogKey *key, void *arg);
static bool lock_parts(DropContext *context);
static void drop_families(DropContext *context, bool invalidate_each);
static int	compare_tables(const void *a, const void *b);
static int	find_table(const DropContext *context, Oid oid);

/*
 * pgbillion_tables.drop_tables(tables regclass[], cascade boolean,
 *					   allow_unobserved boolean) returns bigint
 *		Drops tables the caller owns, all or none, and returns how many there
 *		were. Ones that are not there any more are passed over.
 */
Datum
pgbillion_drop_tables(PG_FUNCTION_ARGS)
{
	DropBehavior behavior = PG_GETARG_BOOL(1) ? DROP_CASCADE : DROP_RESTRICT;
	DropContext context = {0};
	HASHCTL		ctl = {.keysize = sizeof(Oid),.entrysize = sizeof(Oid)};
	int64		dropped = 0;
	MemoryContext memory;
	MemoryContext old;

	PreventCommandIfReadOnly("pgbillion_tables.drop_tables()");
	PreventCommandIfParallelMode("pgbillion_tables.drop_tables()");
	PreventCommandDuringRecovery("pgbillion_tables.drop_tables()");
	if (!PG_GETARG_BOOL(2))
		ddl_check_observers(bms_make_singleton(CMDTAG_DROP_TABLE), true);

	memory = AllocSetContextCreate(CurrentMemoryContext, "pgbillion drop_tables",
								   ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(memory);

	ctl.hcxt = memory;
	context.locked = hash_create("pgbillion locked parts", 256, &ctl,
								 HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	context.tables = collect_tables(PG_GETARG_ARRAYTYPE_P(0), &context.ntables);
	check_tables(&context, false);
	lock_tables(&context);
	check_tables(&context, true);

	/*
	 * PostgreSQL's deletions may change other tables of the list, and waiting
	 * for a lock lets others change what it is for, so that all is looked at
	 * anew until nothing is left to PostgreSQL or to be locked.
	 */
	for (;;)
	{
		int			n;

		find_families(&context);
		n = drop_by_postgresql(&context, behavior);
		dropped += n;
		if (n > 0)
			check_tables(&context, true);
		else if (!lock_parts(&context))
			break;
	}

	for (int i = 0; i < context.ntables; i++)
		dropped += context.tables[i].exists;
	drop_families(&context, context.ntables <= TABLES_INVALIDATED_EACH);

	MemoryContextSwitchTo(old);
	MemoryContextDelete(memory);
	CommandCounterIncrement();

	PG_RETURN_INT64(dropped);
}

/* The OIDs of the array, sorted, without nulls and duplicates. */
static DropTable *
collect_tables(ArrayType *array, int *ntables)
{
	Datum	   *elems;
	bool	   *nulls;
	int			nelems;
	DropTable  *tables;
	int			n = 0;

	deconstruct_array(array, REGCLASSOID, sizeof(Oid), true, TYPALIGN_INT,
					  &elems, &nulls, &nelems);
	tables = palloc0(Max(1, nelems) * sizeof(DropTable));
	for (int i = 0; i < nelems; i++)
		if (!nulls[i])
			tables[n++].oid = DatumGetObjectId(elems[i]);
	qsort(tables, n, sizeof(DropTable), compare_tables);

	*ntables = 0;
	for (int i = 0; i < n; i++)
		if (*ntables == 0 || tables[*ntables - 1].oid != tables[i].oid)
			tables[(*ntables)++] = tables[i];

	return tables;
}

static int
compare_tables(const void *a, const void *b)
{
	Oid			oa = ((const DropTable *) a)->oid;
	Oid			ob = ((const DropTable *) b)->oid;

	return oa < ob ? -1 : oa > ob ? 1 : 0;
}

static int
find_table(const DropContext *context, Oid oid)
{
	DropTable	key = {.oid = oid};
	DropTable  *found = bsearch(&key, context->tables, context->ntables, sizeof(DropTable),
								compare_tables);

	return found == NULL ? -1 : (int) (found - context->tables);
}

/*
 * See which tables are there, and whether the caller may drop them; before
 * they are locked, lest anybody lock what is not theirs, and again after.
 */
static void
check_tables(DropContext *context, bool locked)
{
	CatalogKey *keys = palloc(Max(1, context->ntables) * sizeof(CatalogKey));
	int			n = 0;

	for (int i = 0; i < context->ntables; i++)
	{
		if (locked && !context->tables[i].exists)
			continue;
		context->tables[i].exists = false;
		keys[n].classid = RelationRelationId;
		keys[n].objid = context->tables[i].oid;
		keys[n++].owner = i;
	}
	catalog_scan(&catalog_map[CATALOG_CLASS], keys, n, check_table_row, context);
	pfree(keys);
}

static void
check_table_row(HeapTuple tuple, Relation rel, const CatalogKey *key, void *arg)
{
	DropContext *context = arg;
	Form_pg_class form = (Form_pg_class) GETSTRUCT(tuple);
	DropTable  *table = &context->tables[key->owner];

	if (IsSystemClass(key->objid, form))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied: \"%s\" is a system catalog", NameStr(form->relname))));
	if (form->relkind != RELKIND_RELATION && form->relkind != RELKIND_PARTITIONED_TABLE)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not a table", NameStr(form->relname))));
	if (!has_privs_of_role(GetUserId(), form->relowner) &&
		!namespace_owner_check(form->relnamespace, GetUserId()))
		aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_TABLE, NameStr(form->relname));

	table->exists = true;
	if (form->relkind != RELKIND_RELATION || form->relispartition || form->relhassubclass ||
		form->relpersistence == RELPERSISTENCE_TEMP || IsolationIsSerializable())
		table->by_postgresql = true;
}

/* In the order of OIDs, as everybody who drops tables this way does. */
static void
lock_tables(DropContext *context)
{
	check_lock_table(context->ntables, context->ntables);

	for (int i = 0; i < context->ntables; i++)
	{
		DropTable  *table = &context->tables[i];

		CHECK_FOR_INTERRUPTS();
		if (!table->exists)
			continue;
		/* perhaps by an open cursor: PostgreSQL checks that it is not in use */
		if (held_by_me(table->oid) || AfterTriggerPendingOnRel(table->oid))
			table->by_postgresql = true;
		LockRelationOid(table->oid, AccessExclusiveLock);
	}
}

static bool
held_by_me(Oid relid)
{
	LOCKTAG		tag;

	SET_LOCKTAG_RELATION(tag, MyDatabaseId, relid);
	for (LOCKMODE mode = AccessShareLock; mode <= AccessExclusiveLock; mode++)
		if (lock_held_by_me(&tag, mode))
			return true;
	return false;
}

/*
 * Better an answer now than 'out of shared memory' later. The lock table has
 * room for more than it is sized for, but others need that.
 */
static void
check_lock_table(int64 wanted, int ntables)
{
	int64		room = (int64) max_locks_per_xact * (MaxBackends + max_prepared_xacts);

	if (wanted > room * LOCK_TABLE_SHARE)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("dropping %d tables at once needs " INT64_FORMAT " locks", ntables, wanted),
				 errdetail("The server's lock table is sized for " INT64_FORMAT ".", room),
				 errhint("Drop at most " INT64_FORMAT " tables in a transaction, or increase max_locks_per_transaction.",
						 Max((int64) 1, (int64) (room * LOCK_TABLE_SHARE * ntables / wanted)))));
}

/* Hand the tables that are not simple to PostgreSQL. Returns how many. */
static int
drop_by_postgresql(DropContext *context, DropBehavior behavior)
{
	ObjectAddresses *objects = new_object_addresses();
	int			n = 0;

	for (int i = 0; i < context->ntables; i++)
	{
		ObjectAddress address;

		if (!context->tables[i].exists || !context->tables[i].by_postgresql)
			continue;
		ObjectAddressSet(address, RelationRelationId, context->tables[i].oid);
		add_exact_object_address(&address, objects);
		context->tables[i].exists = false;
		n++;
	}
	if (n > 0)
	{
		performMultipleDeletions(objects, behavior, 0);
		CommandCounterIncrement();
	}
	free_object_addresses(objects);

	return n;
}

/* ---- families ---- */

/*
 * Find all members, and the tables that have more to them than members of
 * tables that are dropped, which become by_postgresql.
 */
static void
find_families(DropContext *context)
{
	HASHCTL		ctl = {
		.keysize = offsetof(CatalogKey, owner),
		.entrysize = sizeof(CatalogKey),
		.hcxt = CurrentMemoryContext
	};
	ListCell   *lc;

	if (context->members != NULL)
		hash_destroy(context->members);
	context->members = hash_create("pgbillion family members", 1024, &ctl,
								   HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	context->nkeys = context->level = context->nlinks = 0;
	context->depend_rows.ntids = 0;
	context->references = NIL;

	/* PostgreSQL's too: what refers to those is PostgreSQL's */
	for (int i = 0; i < context->ntables; i++)
		if (context->tables[i].exists)
			add_member(context, RelationRelationId, context->tables[i].oid, i);

	while (context->level < context->nkeys)
	{
		int			n = context->nkeys - context->level;
		CatalogKey *keys = palloc(n * sizeof(CatalogKey));

		memcpy(keys, context->keys + context->level, n * sizeof(CatalogKey));
		context->level = context->nkeys;
		catalog_scan(&catalog_map[DEPEND_BY_REFERENCE], keys, n, add_dependent, context);
		pfree(keys);
	}

	/* whatever else refers to a member must be another member */
	foreach(lc, context->references)
	{
		CatalogKey *reference = lfirst(lc);
		CatalogKey *member = hash_search(context->members, reference, HASH_FIND, NULL);

		if (member == NULL)
			context->tables[reference->owner].by_postgresql = true;
		else if (member->owner != reference->owner)
			add_link(context, reference->owner, member->owner, InvalidOid);
	}

	/* searches sort their keys: what is in order already costs little */
	if (context->keys_by_class != NULL)
		pfree(context->keys_by_class);
	context->keys_by_class = palloc_extended(Max(1, context->nkeys) * sizeof(CatalogKey), MCXT_ALLOC_HUGE);
	memcpy(context->keys_by_class, context->keys, context->nkeys * sizeof(CatalogKey));

	catalog_scan(&catalog_map[SUBSCRIPTION_REL_BY_TABLE], context->keys, context->nkeys, leave_to_core, context);
	catalog_scan(&catalog_map[CATALOG_TRIGGER], keys_for(context, &catalog_map[CATALOG_TRIGGER]),
				 context->nkeys, inspect_row, context);
	catalog_scan(&catalog_map[CATALOG_DEPEND], keys_for(context, &catalog_map[CATALOG_DEPEND]),
				 context->nkeys, inspect_row, context);
	spread_by_postgresql(context);
}

static void
add_link(DropContext *context, int table, int other, Oid referenced)
{
	DropLink   *link;

	if (context->nlinks == context->links_size)
	{
		context->links_size = Max(64, context->links_size * 2);
		context->links = context->links == NULL ?
			palloc(context->links_size * sizeof(DropLink)) :
			repalloc_huge(context->links, context->links_size * sizeof(DropLink));
	}
	link = &context->links[context->nlinks++];
	link->table = table;
	link->other = other;
	link->referenced = referenced;
}

/* Of tables that refer to each other PostgreSQL drops all or none. */
static void
spread_by_postgresql(DropContext *context)
{
	bool		changed = true;

	while (changed)
	{
		changed = false;
		for (int i = 0; i < context->nlinks; i++)
		{
			DropLink   *link = &context->links[i];

			if (link->other < 0 ||
				context->tables[link->table].by_postgresql == context->tables[link->other].by_postgresql)
				continue;
			context->tables[link->table].by_postgresql = context->tables[link->other].by_postgresql = true;
			changed = true;
		}
	}
}

/* All members, in the order that the catalog is searched in. */
static CatalogKey *
keys_for(DropContext *context, const CatalogLookup *lookup)
{
	return catalog_scan_class_first(lookup) ? context->keys_by_class : context->keys;
}

static void
add_member(DropContext *context, Oid classid, Oid objid, int table)
{
	CatalogKey	key = {classid, objid, table};
	bool		found;
	CatalogKey *member = hash_search(context->members, &key, HASH_ENTER, &found);

	if (found)
	{
		/* a part of two tables is more than a part */
		if (member->owner != table)
			context->tables[member->owner].by_postgresql = context->tables[table].by_postgresql = true;
		return;
	}
	member->owner = table;

	if (context->nkeys == context->keys_size)
	{
		context->keys_size = Max(1024, context->keys_size * 2);
		context->keys = context->keys == NULL ?
			palloc(context->keys_size * sizeof(CatalogKey)) :
			repalloc_huge(context->keys, context->keys_size * sizeof(CatalogKey));
	}
	context->keys[context->nkeys++] = key;
}

/* A row of pg_depend that refers to a member. */
static void
add_dependent(HeapTuple tuple, Relation rel, const CatalogKey *key, void *arg)
{
	DropContext *context = arg;
	Form_pg_depend form = (Form_pg_depend) GETSTRUCT(tuple);
	int			table = key->owner;

	if (!catalog_has_objects(form->classid, CATALOG_OF_TABLES))
		context->tables[table].by_postgresql = true;
	else if (form->deptype == DEPENDENCY_AUTO || form->deptype == DEPENDENCY_INTERNAL)
		add_member(context, form->classid, form->objid, table);
	else
	{
		CatalogKey *reference = palloc(sizeof(CatalogKey));

		reference->classid = form->classid;
		reference->objid = form->objid;
		reference->owner = table;
		context->references = lappend(context->references, reference);
	}
}

static void
leave_to_core(HeapTuple tuple, Relation rel, const CatalogKey *key, void *arg)
{
	DropContext *context = arg;

	context->tables[key->owner].by_postgresql = true;
}

/* Rows of members that tell of more than the family. */
static void
inspect_row(HeapTuple tuple, Relation rel, const CatalogKey *key, void *arg)
{
	DropContext *context = arg;
	int			table = key->owner;
	bool		simple = true;

	switch (RelationGetRelid(rel))
	{
		case TriggerRelationId:
			simple = inspect_trigger(context, (Form_pg_trigger) GETSTRUCT(tuple), table);
			break;
		case DependRelationId:
			add_row(&context->depend_rows, tuple);
			switch (((Form_pg_depend) GETSTRUCT(tuple))->deptype)
			{
				case DEPENDENCY_NORMAL:
				case DEPENDENCY_AUTO:
				case DEPENDENCY_INTERNAL:
					break;
				default:		/* of an extension, of a partition */
					simple = false;
			}
			break;
	}
	if (!simple)
		context->tables[table].by_postgresql = true;
}

/* Whether it is the table's own, or on another one for a foreign key of the table. */
static bool
inspect_trigger(DropContext *context, Form_pg_trigger form, int table)
{
	int			other;

	if (form->tgrelid == context->tables[table].oid)
		return true;
	if (!form->tgisinternal)
		return false;
	other = find_table(context, form->tgrelid);
	if (other >= 0 && !context->tables[other].exists)
		other = -1;
	add_link(context, table, other, form->tgrelid);
	return true;
}

/* ---- dropping ---- */

/*
 * Lock what can be used without a lock on the table. Returns whether there was
 * anything that we had not locked before.
 */
static bool
lock_parts(DropContext *context)
{
	bool		locked = false;

	context->class_rows.ntids = context->nrelations = 0;
	catalog_scan(&catalog_map[CATALOG_CLASS], keys_for(context, &catalog_map[CATALOG_CLASS]), context->nkeys,
				 collect_relation, context);

	check_lock_table(Max(context->nrelations, context->ntables), context->ntables);
	for (int i = 0; i < context->nrelations; i++)
	{
		Oid			relid = context->relations[i].oid;
		bool		found;

		CHECK_FOR_INTERRUPTS();
		if (find_table(context, relid) >= 0)
			continue;
		(void) hash_search(context->locked, &relid, HASH_ENTER, &found);
		if (found)
			continue;
		/* as for tables: perhaps a cursor is open on it */
		if (held_by_me(relid))
			context->tables[context->relations[i].table].by_postgresql = true;
		LockRelationOid(relid, AccessExclusiveLock);
		locked = true;
	}

	return lock_referenced(context) || locked;
}

/*
 * Lock the tables that stay, and that lose triggers of foreign keys. Returns
 * whether there was any that we had not locked before.
 */
static bool
lock_referenced(DropContext *context)
{
	bool		locked = false;

	for (int i = 0; i < context->nlinks; i++)
	{
		Oid			relid = context->links[i].referenced;
		bool		found;

		if (context->links[i].other >= 0)
			continue;
		(void) hash_search(context->locked, &relid, HASH_ENTER, &found);
		if (found)
			continue;
		CHECK_FOR_INTERRUPTS();
		/* in use by this session or not: see RemoveTriggerById() */
		LockRelationOid(relid, AccessExclusiveLock);
		locked = true;
	}
	return locked;
}

static void
add_row(RowList *rows, HeapTuple tuple)
{
	if (rows->ntids == rows->size)
	{
		rows->size = Max(4096, rows->size * 2);
		rows->tids = rows->tids == NULL ?
			palloc(rows->size * sizeof(ItemPointerData)) :
			repalloc_huge(rows->tids, rows->size * sizeof(ItemPointerData));
	}
	rows->tids[rows->ntids++] = tuple->t_self;
}

/* Note a row of pg_class to delete, and what else goes with it. */
static void
collect_relation(HeapTuple tuple, Relation rel, const CatalogKey *key, void *arg)
{
	DropContext *context = arg;
	Form_pg_class form = (Form_pg_class) GETSTRUCT(tuple);
	DropRelation *relation;

	add_row(&context->class_rows, tuple);

	if (context->nrelations == context->relations_size)
	{
		context->relations_size = Max(1024, context->relations_size * 2);
		context->relations = context->relations == NULL ?
			palloc(context->relations_size * sizeof(DropRelation)) :
			repalloc_huge(context->relations, context->relations_size * sizeof(DropRelation));
	}
	relation = &context->relations[context->nrelations++];
	relation->oid = form->oid;
	relation->tablespace = OidIsValid(form->reltablespace) ? form->reltablespace : MyDatabaseTableSpace;
	relation->filenumber = form->relfilenode;
	relation->table = key->owner;
}

/* Note a row of another catalog to delete. */
static void
collect_row(HeapTuple tuple, Relation rel, const CatalogKey *key, void *arg)
{
	add_row(&((DropContext *) arg)->other_rows, tuple);
}

/* Delete all rows of all members, and what goes at commit. */
static void
drop_families(DropContext *context, bool invalidate_each)
{
	if (context->nkeys == 0)
		return;

	for (int i = 0; i < NUM_OBJECT_CATALOGS; i++)
	{
		const CatalogLookup *lookup = &catalog_map[i];
		RowList    *rows = &context->other_rows;
		Relation	rel;

		if ((lookup->scope & CATALOG_OF_TABLES) == 0)
			continue;
		/* nothing has happened since these were read */
		if (i == CATALOG_CLASS)
			rows = &context->class_rows;
		else if (i == CATALOG_DEPEND)
			rows = &context->depend_rows;
		else
		{
			rows->ntids = 0;
			catalog_scan(lookup, keys_for(context, lookup), context->nkeys, collect_row, context);
		}
		if (rows->ntids == 0)
			continue;

		rel = table_open(lookup->catalog, RowExclusiveLock);
		catalog_delete(rel, rows->tids, rows->ntids, invalidate_each);
		if (!invalidate_each)
			CacheInvalidateCatalog(lookup->catalog);
		table_close(rel, RowExclusiveLock);
	}

	for (int i = 0; i < context->nrelations; i++)
	{
		DropRelation *relation = &context->relations[i];

		if (!file_number_is_lazy(relation->filenumber))
		{
			/* all that RelationDropStorage() looks at */
			RelationData rel = {
				.rd_locator = make_locator(relation->tablespace, relation->filenumber),
				.rd_backend = INVALID_PROC_NUMBER
			};

			RelationDropStorage(&rel);
		}
		pgstat_drop_transactional(PGSTAT_KIND_RELATION, MyDatabaseId, relation->oid);
		RelationForgetRelation(relation->oid);
	}
	/* as RemoveTriggerById() does, which leaves relhastriggers to VACUUM */
	for (int i = 0; i < context->nlinks && invalidate_each; i++)
		if (context->links[i].other < 0)
			CacheInvalidateRelcacheByRelid(context->links[i].referenced);
	if (!invalidate_each)
		CacheInvalidateRelcacheAll();
}

/*-------------------------------------------------------------------------
 *
 * create_tables.c
 *	  pgbillion_tables.create_tables(): many tables like a template, in one
 *	  call.
 *
 * PostgreSQL makes the first table, by ordinary DDL, and another where
 * expressions may refer to their table; the others are stamped from their
 * catalog rows. A partitioned template has each of its partitions made
 * likewise: a table is a tree of tables here. See create.h for the parts.
 *
 * Locks, all kept until the end of the transaction: AccessShareLock on the
 * template and its partitions; those of the commands that make the first
 * table, among them ShareRowExclusiveLock on tables that foreign keys refer
 * to, and ShareUpdateExclusiveLock on parents; RowExclusiveLock on the catalogs
 * written to. The stamped tables are not locked: nobody else can see them
 * before the transaction has ended, and a lock for each would need an entry for
 * each in the shared lock table.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_tablespace.h"
#include "commands/tablespace.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

#include "create/create.h"

/*
 * Catalog rows that are in memory before they are written. Enough for runs
 * of neighbors in every index, few enough to stay in the processor's cache.
 */
#define ROWS_PER_FLUSH 4096

/*
 * With logical decoding PostgreSQL's functions write the rows, and register a
 * message for each; the search among those of one command is linear.
 */
#define TABLES_PER_FLUSH_LOGICAL 16

/* So many tables are made by commands, at most, before some are stamped. */
#define MAX_PROTOTYPES 8

/* Up to here others are told of each row rather than of whole catalogs. */
#define TABLES_INVALIDATED_EACH 32

PG_FUNCTION_INFO_V1(pgbillion_create_tables);

static void make_prototype(const TemplateTree *tree, const char *relname, Oid namespaceid,
						   Oid tablespace, const char *access_method, Oid *created);
static int	make_prototypes(const TemplateTree *tree, const NameFormat *format,
							int64 first, int64 count, Oid namespaceid, const Oid *tablespaces,
							int ntablespaces, const char *access_method, Oid **prototypes);
static Oid	resolve_namespace(Oid requested);
static Oid *resolve_tablespaces(ArrayType *names, int *ntablespaces);
static void stamp_tables(const TemplateTree *tree, Oid *const *prototypes,
						 const NameFormat *format, int64 first, int64 made, int64 count,
						 const Oid *tablespaces, int ntablespaces);
static void flush(StampBatch *batch, bool invalidate_each);
static void rethrow_name_conflict(MemoryContext context);

/*
 * pgbillion_tables.create_tables(template regclass, name_format text,
 *						 first bigint, count bigint, tablespaces name[], schema regnamespace,
 *						 access_method name, allow_unobserved boolean)
 *						 returns bigint
 *		Creates tables first … first + count - 1 like the template and returns
 *		their number. Table n goes to tablespaces[n mod length]. All or none.
 */
Datum
pgbillion_create_tables(PG_FUNCTION_ARGS)
{
	Oid			template;
	int64		first;
	int64		count;
	int64		last;
	NameFormat *format;
	Oid			namespaceid;
	Oid		   *tablespaces = NULL;
	int			ntablespaces = 0;
	TemplateTree *tree;
	Oid		   *prototypes[2];
	int			made;
	MemoryContext context;
	MemoryContext old;

	for (int i = 0; i < 4; i++)
	{
		static const char *const names[] = {"template", "name_format", "first", "count"};

		if (PG_ARGISNULL(i) && i != 1)
			ereport(ERROR,
					(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
					 errmsg("%s must not be null", names[i])));
	}
	template = PG_GETARG_OID(0);
	first = PG_GETARG_INT64(2);
	count = PG_GETARG_INT64(3);

	PreventCommandIfReadOnly("pgbillion_tables.create_tables()");
	PreventCommandIfParallelMode("pgbillion_tables.create_tables()");
	PreventCommandDuringRecovery("pgbillion_tables.create_tables()");

	name_format_check_numbers(first, count, "table");
	last = first + count - 1;

	context = AllocSetContextCreate(CurrentMemoryContext, "pgbillion create_tables",
									ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(context);

	format = name_format_parse(PG_ARGISNULL(1) ? "_%08x" : text_to_cstring(PG_GETARG_TEXT_PP(1)));
	name_format_check_lengths(format, first, last);

	namespaceid = resolve_namespace(PG_ARGISNULL(5) ? InvalidOid : PG_GETARG_OID(5));
	if (!PG_ARGISNULL(4))
		tablespaces = resolve_tablespaces(PG_GETARG_ARRAYTYPE_P(4), &ntablespaces);

	template_lock(template);
	tree = tree_read(template);
	tree_check_names(tree, format, last);
	if (PG_ARGISNULL(7) || !PG_GETARG_BOOL(7))
		ddl_check_observers(tree_tags(tree), false);

	create_progress_start(template, count);
	made = make_prototypes(tree, format, first, count, namespaceid, tablespaces, ntablespaces,
						   PG_ARGISNULL(6) ? NULL : NameStr(*PG_GETARG_NAME(6)), prototypes);
	if (count > made)
		stamp_tables(tree, prototypes, format, first, made, count, tablespaces, ntablespaces);

	create_progress_end();

	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);

	PG_RETURN_INT64(count);
}

/*
 * Make the first tables by commands, and return how many. prototypes[] are the
 * last of them, with their partitions: one, or two whose difference tells what
 * expressions refer to, else the second is NULL. Two that were made in
 * different ways are no use: one had a name, or a part of a name, that there
 * was a shell type for, or somebody has changed the template in between.
 */
static int
make_prototypes(const TemplateTree *tree, const NameFormat *format, int64 first,
				int64 count, Oid namespaceid, const Oid *tablespaces, int ntablespaces,
				const char *access_method, Oid **prototypes)
{
	Oid			template = tree->nodes[0].template;
	bool		pair = tree_needs_pair(tree);
	int			made = 0;

	prototypes[0] = prototypes[1] = NULL;
	while (made < count &&
		   (made == 0 ||
			(pair && (made == 1 || !stamp_is_of_both(prototypes[0][0], prototypes[1][0])))))
	{
		int64		number = first + made;
		NameData	relname;
		Oid		   *created = palloc(tree->nnodes * sizeof(Oid));

		if (made == MAX_PROTOTYPES)
			ereport(ERROR,
					(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
					 errmsg("template \"%s\" was changed while tables were being created",
							get_rel_name(template)),
					 errhint("Try again.")));
		name_format_apply(format, number, &relname);
		make_prototype(tree, NameStr(relname), namespaceid,
					   ntablespaces > 0 ? tablespaces[number % ntablespaces] : InvalidOid,
					   access_method, created);
		if (made > 1)
			prototypes[0] = prototypes[1];
		prototypes[made > 0 ? 1 : 0] = created;
		made++;

		/*
		 * building an index has shown its own progress meanwhile, and ended
		 * it
		 */
		create_progress_start(template, count);
		create_progress_update(made);
	}
	return made;
}

/* tree_create(), with names that are being taken reported as flush() does. */
static void
make_prototype(const TemplateTree *tree, const char *relname, Oid namespaceid, Oid tablespace,
			   const char *access_method, Oid *created)
{
	MemoryContext context = CurrentMemoryContext;

	PG_TRY();
	{
		tree_create(tree, relname, namespaceid, tablespace, access_method, created);
	}
	PG_CATCH();
	{
		rethrow_name_conflict(context);
	}
	PG_END_TRY();
}

/* The schema to create in; its privileges are checked by CREATE TABLE. */
static Oid
resolve_namespace(Oid requested)
{
	Oid			result = requested;

	if (!OidIsValid(result))
	{
		RangeVar   *any = makeRangeVar(NULL, "", -1);

		result = RangeVarGetCreationNamespace(any);
	}
	else if (get_namespace_name(result) == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_SCHEMA),
				 errmsg("schema with OID %u does not exist", result)));

	if (isAnyTempNamespace(result))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot create temporary tables in bulk"),
				 errhint("Name a permanent schema.")));
	return result;
}

/* OIDs of the tablespaces, after CREATE TABLE's checks; errors as there. */
static Oid *
resolve_tablespaces(ArrayType *names, int *ntablespaces)
{
	Datum	   *elems;
	bool	   *nulls;
	Oid		   *result;

	deconstruct_array(names, NAMEOID, NAMEDATALEN, false, TYPALIGN_CHAR,
					  &elems, &nulls, ntablespaces);
	if (*ntablespaces == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("tablespaces must not be empty"),
				 errhint("Pass NULL for the default tablespace.")));

	result = palloc(*ntablespaces * sizeof(Oid));
	for (int i = 0; i < *ntablespaces; i++)
	{
		AclResult	aclresult;

		if (nulls[i])
			ereport(ERROR,
					(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
					 errmsg("tablespaces must not contain null")));
		result[i] = get_tablespace_oid(NameStr(*DatumGetName(elems[i])), false);

		if (result[i] == GLOBALTABLESPACE_OID)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("only shared relations can be placed in pg_global tablespace")));
		if (result[i] != MyDatabaseTableSpace)
		{
			aclresult = object_aclcheck(TableSpaceRelationId, result[i], GetUserId(), ACL_CREATE);
			if (aclresult != ACLCHECK_OK)
				aclcheck_error(aclresult, OBJECT_TABLESPACE, NameStr(*DatumGetName(elems[i])));
		}
	}
	return result;
}

/*
 * Of tables first … first + count - 1 those that have not been made yet, like
 * the prototype, or two of them.
 */
static void
stamp_tables(const TemplateTree *tree, Oid *const *prototypes, const NameFormat *format, int64 first,
			 int64 made, int64 count, const Oid *tablespaces, int ntablespaces)
{
	Oid			prototype = prototypes[0][0];
	Stamp	   *stamp = stamp_compile(tree_created(tree, prototypes[0]), tree->nnodes,
									  prototypes[1] == NULL ? InvalidOid : prototypes[1][0]);
	NameRegistry *registry = name_registry_create(format, first + made, first + count - 1,
												  get_rel_namespace(prototype));
	StampBatch *batch;
	Oid			tablespace = get_rel_tablespace(prototype);
	int64		per_flush = Max(1, ROWS_PER_FLUSH / stamp_rows_per_table(stamp));
	bool		invalidate_each = count - made <= TABLES_INVALIDATED_EACH;

	if (XLogLogicalInfoActive())
		per_flush = Min(per_flush, TABLES_PER_FLUSH_LOGICAL);

	stamp_forget_at_abort();
	batch = stamp_batch_begin(stamp, registry);
	while (made < count)
	{
		int			n = (int) Min(count - made, per_flush);

		stamp_batch_reserve(batch, n);
		for (int i = 0; i < n; i++)
		{
			int64		number = first + made + i;
			NameData	relname;

			CHECK_FOR_INTERRUPTS();
			if (ntablespaces > 0)
			{
				tablespace = tablespaces[number % ntablespaces];
				if (tablespace == MyDatabaseTableSpace)
					tablespace = InvalidOid;
			}
			name_format_apply(format, number, &relname);
			name_registry_claim_table(registry, NameStr(relname));
			stamp_batch_add(batch, &relname, tablespace);
		}
		flush(batch, invalidate_each);
		made += n;
		create_progress_update(made);
	}

	stamp_batch_end(batch);
}

/* Write a batch. */
static void
flush(StampBatch *batch, bool invalidate_each)
{
	MemoryContext context = CurrentMemoryContext;

	PG_TRY();
	{
		stamp_batch_flush(batch, invalidate_each);
	}
	PG_CATCH();
	{
		rethrow_name_conflict(context);
	}
	PG_END_TRY();
}

/*
 * In PG_CATCH: report a name that was free when it was looked up, and that a
 * concurrent transaction has taken since, as CREATE TABLE's own check would;
 * throw anything else as it is.
 */
static void
rethrow_name_conflict(MemoryContext context)
{
	ErrorData  *edata;
	bool		is_table;

	if (geterrcode() != ERRCODE_UNIQUE_VIOLATION)
		PG_RE_THROW();

	MemoryContextSwitchTo(context);
	edata = CopyErrorData();
	is_table = edata->constraint_name != NULL &&
		strcmp(edata->constraint_name, "pg_class_relname_nsp_index") == 0;
	/* a row type is inserted before its table */
	if (!is_table &&
		(edata->constraint_name == NULL ||
		 strcmp(edata->constraint_name, "pg_type_typname_nsp_index") != 0))
		PG_RE_THROW();
	FlushErrorState();
	ereport(ERROR,
			(errcode(ERRCODE_DUPLICATE_TABLE),
			 errmsg("a name was taken by another transaction while its table was being created"),
			 edata->detail != NULL ? errdetail("%s", edata->detail) : 0));
}

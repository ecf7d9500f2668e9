/*-------------------------------------------------------------------------
 *
 * create_tables.c
 *	  pgbillion_tables.create_tables(): many tables like a template, in one
 *	  call.
 *
 * PostgreSQL makes the first two tables, by ordinary DDL; the others are stamped
 * from their catalog rows. A partitioned template has each of its partitions made
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

/* Maximum number of tables that are made by commands before the others are stamped. */
#define MAX_PROTOTYPES 8

/* A table that commands have made, with its partitions. */
typedef struct Prototype
{
	Oid		   *created;		/* as the nodes of the template's tree */
	MemberRows *rows;			/* NULL until they are looked at */
} Prototype;

PG_FUNCTION_INFO_V1(pgbillion_create_tables);

static void make_prototype(const TemplateTree *tree, const char *relname, Oid namespaceid,
						   Oid tablespace, const char *access_method, Oid *created);
static int	make_prototypes(const TemplateTree *tree, const NameFormat *format,
							int64 first, int64 count, Oid namespaceid, const Oid *tablespaces,
							int ntablespaces, const char *access_method, Prototype prototypes[2]);
static bool are_alike(Prototype prototypes[2]);
static Oid	resolve_namespace(Oid requested);
static Oid *resolve_tablespaces(ArrayType *names, int *ntablespaces);
static void stamp_tables(const TemplateTree *tree, const Prototype prototypes[2],
						 const NameFormat *format, int64 first, int64 made, int64 count,
						 const Oid *tablespaces, int ntablespaces);
static void write_tables(StampWriter *writer, const NameFormat *format, int64 first, int64 made, int64 count,
						 Oid tablespace, const Oid *tablespaces, int ntablespaces);
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
	Prototype	prototypes[2];
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
 * last two of them, of as many as are needed until these have been made in the
 * same way: one had a name, or a part of a name, that there was a shell type
 * for, or somebody has changed the template in between. Where an event trigger
 * or a hook may have changed one, no more are made, and there is no stamp.
 */
static int
make_prototypes(const TemplateTree *tree, const NameFormat *format, int64 first,
				int64 count, Oid namespaceid, const Oid *tablespaces, int ntablespaces,
				const char *access_method, Prototype prototypes[2])
{
	Oid			template = tree->nodes[0].template;
	int			made = 0;

	while (made < count && (made < 2 || (!are_alike(prototypes) && !ddl_is_observed())))
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
		prototypes[made > 0 ? 1 : 0] = (Prototype)
		{
			.created = created
		};
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

/* Were the parts of both created in the same order? Collects their rows. */
static bool
are_alike(Prototype prototypes[2])
{
	for (int i = 0; i < 2; i++)
		if (prototypes[i].rows == NULL)
			prototypes[i].rows = table_rows_collect(prototypes[i].created[0]);
	return member_rows_match(prototypes[0].rows, prototypes[1].rows);
}

/* tree_create(), with names that are being taken reported as write_tables() does. */
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
 * the prototypes. Raises 0A000 if these differ in what nothing explains.
 */
static void
stamp_tables(const TemplateTree *tree, const Prototype prototypes[2], const NameFormat *format,
			 int64 first, int64 made, int64 count, const Oid *tablespaces, int ntablespaces)
{
	Oid			prototype = prototypes[0].created[0];
	char	   *reason;
	Stamp	   *stamp = stamp_compile_tables(tree_created(tree, prototypes[0].created), tree->nnodes,
											 prototypes[0].rows, prototypes[1].rows, &reason);
	StampWriter *writer;
	MemoryContext context = CurrentMemoryContext;

	if (stamp == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot stamp tables like \"%s\"", get_rel_name(prototype)),
				 errdetail("Of two that commands have made, %s.", reason)));
	writer = stamp_writer_begin(stamp, count - made,
								name_registry_create(format, first + made, first + count - 1,
													 get_rel_namespace(prototype)));
	PG_TRY();
	{
		write_tables(writer, format, first, made, count, get_rel_tablespace(prototype), tablespaces, ntablespaces);
	}
	PG_CATCH();
	{
		rethrow_name_conflict(context);
	}
	PG_END_TRY();
	stamp_writer_end(writer);
}

/* `tablespace` is for all, unless there are tablespaces. */
static void
write_tables(StampWriter *writer, const NameFormat *format, int64 first, int64 made, int64 count,
			 Oid tablespace, const Oid *tablespaces, int ntablespaces)
{
	while (made < count)
	{
		int64		number = first + made;
		NameData	relname;

		if (ntablespaces > 0)
		{
			tablespace = tablespaces[number % ntablespaces];
			if (tablespace == MyDatabaseTableSpace)
				tablespace = InvalidOid;
		}
		name_format_apply(format, number, &relname);
		made++;
		if (stamp_writer_add(writer, NameStr(relname), tablespace))
			create_progress_update(made);
	}
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

/*-------------------------------------------------------------------------
 *
 * clone_schema.c
 *	  pgbillion_tables.clone_schema() and clone_schemas(): whole schemas like
 *	  a template, with or without its rows.
 *
 * See clone.h for the parts. The first clones are made by commands, run as the
 * caller, who needs the privileges for them; others are stamped, if somebody
 * has not asked to see the commands.
 *
 * Locks, all kept until the end of the transaction: AccessShareLock on the
 * template and its tables, views and sequences, so that they stay as they
 * are; those of the commands on what is created, and on what it refers to
 * outside; RowExclusiveLock on the catalogs. What is stamped is not locked:
 * nobody else can see it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/xact.h"
#include "catalog/catalog.h"
#include "catalog/namespace.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "commands/extension.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/resowner.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "clone/clone.h"
#include "clone/stamp_schema.h"
#include "tables.h"

PG_FUNCTION_INFO_V1(pgbillion_clone_schema);
PG_FUNCTION_INFO_V1(pgbillion_clone_schemas);
PG_FUNCTION_INFO_V1(pgbillion_prepare_clone);

/* So many are made by commands, and compared, before others are stamped. */
#define FIRST_CLONES 2

/* What is to be made of a template. */
typedef struct Cloning
{
	Oid			template;
	const NameFormat *format;	/* NULL if there is one clone, of this name */
	const char *name;
	int64		first;
	const char *access_method;
	bool		all_rows;		/* copied, */
	const char *tables;			/* or those of these tables, or NULL */
	CopiedRows *rows;			/* of which these are made; NULL for none */
	List	   *objects;		/* commands */
	List	   *contents;		/* commands */
	char	   *reason;			/* why all are made by commands, or NULL */
	uint64		fingerprint;	/* of the template, before it is read */
	uint64		of_clones;		/* the fingerprint of all that clones depend
								 * on, from before */
	MemoryContext each;			/* emptied after each clone: they must not add
								 * up */
} Cloning;

static void clone_many(Cloning *cloning, int64 count);
static char *oids_as_text(ArrayType *array);
static void choose_rows(Cloning *cloning, FunctionCallInfo fcinfo, int tables, int all_rows);
static const char *clone_name(const Cloning *cloning, int64 number);
static void clone_by_commands(const Cloning *cloning, int64 from, int64 to);
static void clone_by_kept_stamp(Cloning *cloning, const SchemaStamp *stamp, int64 count);
static char *prepare(Cloning *cloning, MemoryContext result_context, int *length);
static void check_unchanged(const Cloning *cloning);
static SchemaStamp *learn(Cloning *cloning);
static char *stamp_to_keep(Cloning *cloning, SchemaStamp *stamp, int *length);
static void keep(Cloning *cloning, SchemaStamp *stamp);
static bool may_prepare(void);
static void clone_by_stamp(const Cloning *cloning, const SchemaStamp *stamp, int64 from, int64 to,
						   bool verified);
static void verify_stamped(const Cloning *cloning, const SchemaStamp *stamp, int64 number);
static void copy_rows(Cloning *cloning, int64 count);
static void fill_clones(const Cloning *cloning, int64 count);
static void check_callable(const char *function);
static void check_template(Oid template);
static void lock_template(Oid template);
static void settle(void);
static void make_clone(const char *name, List *objects);
static void set_path(const char *name);
static void run_all(List *commands);
static void run(const char *command);
static char *functions_of(Oid template);
static void tell_functions(Oid template, const char *functions);

/*
 * pgbillion_tables.clone_schema(template regnamespace, name text, access_method name,
 *						 rows regclass[], all_rows boolean) returns regnamespace
 *		Creates a schema like the template, all or nothing.
 */
Datum
pgbillion_clone_schema(PG_FUNCTION_ARGS)
{
	Cloning		cloning = {0};
	char	   *name;

	if (PG_ARGISNULL(0) || PG_ARGISNULL(1))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("%s must not be null", PG_ARGISNULL(0) ? "template" : "name")));
	name = text_to_cstring(PG_GETARG_TEXT_PP(1));
	if (strlen(name) >= NAMEDATALEN)
		ereport(ERROR,
				(errcode(ERRCODE_NAME_TOO_LONG),
				 errmsg("schema name \"%s\" is too long", name),
				 errhint("A name has at most %d bytes.", NAMEDATALEN - 1)));

	cloning.template = PG_GETARG_OID(0);
	cloning.name = name;
	cloning.access_method = PG_ARGISNULL(2) ? NULL : NameStr(*PG_GETARG_NAME(2));
	choose_rows(&cloning, fcinfo, 3, 4);
	clone_many(&cloning, 1);

	PG_RETURN_OID(get_namespace_oid(name, false));
}

/*
 * pgbillion_tables.clone_schemas(template regnamespace, name_format text, first bigint,
 *						  count bigint, access_method name, rows regclass[], all_rows boolean)
 *						  returns bigint
 *		Creates schemas first … first + count - 1 like the template and returns
 *		their number. All or none.
 */
Datum
pgbillion_clone_schemas(PG_FUNCTION_ARGS)
{
	static const char *const names[] = {"template", "name_format", "first", "count"};
	Cloning		cloning = {0};
	int64		first;
	int64		count;
	NameFormat *format;

	for (int i = 0; i < lengthof(names); i++)
		if (PG_ARGISNULL(i))
			ereport(ERROR,
					(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
					 errmsg("%s must not be null", names[i])));
	first = PG_GETARG_INT64(2);
	count = PG_GETARG_INT64(3);
	check_numbers(first, count, "schema");

	format = name_format_parse(text_to_cstring(PG_GETARG_TEXT_PP(1)));
	name_format_check_lengths(format, first, first + count - 1);

	cloning.template = PG_GETARG_OID(0);
	cloning.format = format;
	cloning.first = first;
	cloning.access_method = PG_ARGISNULL(4) ? NULL : NameStr(*PG_GETARG_NAME(4));
	choose_rows(&cloning, fcinfo, 5, 6);
	clone_many(&cloning, count);

	PG_RETURN_INT64(count);
}

/* Which rows are copied, by these arguments of a function. */
static void
choose_rows(Cloning *cloning, FunctionCallInfo fcinfo, int tables, int all_rows)
{
	cloning->all_rows = !PG_ARGISNULL(all_rows) && PG_GETARG_BOOL(all_rows);
	if (PG_ARGISNULL(tables))
		return;
	if (cloning->all_rows)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("rows and all_rows exclude each other")));
	cloning->tables = oids_as_text(PG_GETARG_ARRAYTYPE_P(tables));
}

static char *
oids_as_text(ArrayType *array)
{
	StringInfoData text;
	Datum	   *oids;
	bool	   *nulls;
	int			n;

	deconstruct_array(array, REGCLASSOID, sizeof(Oid), true, TYPALIGN_INT, &oids, &nulls, &n);
	initStringInfo(&text);
	appendStringInfoChar(&text, '{');
	for (int i = 0; i < n; i++)
	{
		if (nulls[i])
			ereport(ERROR,
					(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
					 errmsg("rows must not contain null")));
		appendStringInfo(&text, "%s%u", i == 0 ? "" : ",", DatumGetObjectId(oids[i]));
	}
	appendStringInfoChar(&text, '}');
	return text.data;
}

/* Clones of the names of the format, or of one name without a format. */
static void
clone_many(Cloning *cloning, int64 count)
{
	Oid			template = cloning->template;
	const char *access_method = cloning->access_method;
	SchemaStamp *kept = NULL;
	SchemaStamp *stamp = NULL;
	char	   *functions;
	int			nestlevel;

	check_callable("pgbillion_tables.clone_schema()");
	check_template(template);
	cloning->each = AllocSetContextCreate(CurrentMemoryContext, "pgbillion clone", ALLOCSET_DEFAULT_SIZES);

	/*
	 * what is read must not be written anew meanwhile: that is not seen in
	 * snapshots
	 */
	if (cloning->all_rows || cloning->tables != NULL)
		lock_template(template);
	if (!is_observed() && !creating_extension)
		kept = kept_stamp_find(template, access_method);
	if (kept != NULL)
	{
		clone_by_kept_stamp(cloning, kept, count);
		return;
	}
	lock_template(template);

	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	nestlevel = NewGUCNestLevel();
	settle();

	if (count > FIRST_CLONES)
		cloning->of_clones = fingerprint_of_clones(template, &cloning->fingerprint);
	else
		cloning->fingerprint = fingerprint_of_template(template);
	clone_refuse(template);
	cloning->objects = definition_of_objects(template, access_method);
	cloning->contents = definition_of_contents(template);

	clone_by_commands(cloning, 0, Min(count, FIRST_CLONES));
	if (count > FIRST_CLONES)
	{
		stamp = learn(cloning);
		if (stamp != NULL)
			clone_by_stamp(cloning, stamp, FIRST_CLONES, count, false);
		else
			clone_by_commands(cloning, FIRST_CLONES, count);
	}
	if (stamp != NULL && may_prepare())
		keep(cloning, stamp);
	copy_rows(cloning, count);
	fill_clones(cloning, count);

	AtEOXact_GUC(true, nestlevel);
	nestlevel = NewGUCNestLevel();
	functions = functions_of(template);
	AtEOXact_GUC(true, nestlevel);
	tell_functions(template, functions);
	if (cloning->reason != NULL)
		ereport(DEBUG1,
				(errmsg("all clones of template \"%s\" are made by commands: %s",
						get_namespace_name(template), cloning->reason)));
	SPI_finish();
}

/* What has been verified when the stamp was prepared is not done again. */
static void
clone_by_kept_stamp(Cloning *cloning, const SchemaStamp *stamp, int64 count)
{
	int			nestlevel = NewGUCNestLevel();

	cloning->contents = stamp->contents;
	clone_by_stamp(cloning, stamp, 0, count, true);
	if (stamp->contents != NIL || cloning->all_rows || cloning->tables != NULL)
	{
		if (SPI_connect() != SPI_OK_CONNECT)
			elog(ERROR, "SPI_connect failed");
		settle();
		copy_rows(cloning, count);
		fill_clones(cloning, count);
		SPI_finish();
	}
	AtEOXact_GUC(true, nestlevel);
	tell_functions(cloning->template, stamp->functions);
}

/*
 * pgbillion_tables.prepare_clone(template regnamespace, access_method name) returns boolean
 *		Keeps a stamp, unless there is one that holds, with which clone_schema() and clone_schemas() of the
 *		caller need no commands as long as nothing changes that it depends on.
 *		False, and a NOTICE, if they need commands nevertheless.
 */
Datum
pgbillion_prepare_clone(PG_FUNCTION_ARGS)
{
	/* of numbers with different lengths, so that the clones' names have, too */
	char	   *format = psprintf("pgbillion clone of process %d, number %%d", MyProcPid);
	Cloning		cloning = {.first = 99};
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	char	   *volatile bytes = NULL;
	int			length;

	if (PG_ARGISNULL(0))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("template must not be null")));
	cloning.template = PG_GETARG_OID(0);
	cloning.access_method = PG_ARGISNULL(1) ? NULL : NameStr(*PG_GETARG_NAME(1));
	cloning.format = name_format_parse(format);
	cloning.each = AllocSetContextCreate(context, "pgbillion clone", ALLOCSET_DEFAULT_SIZES);

	check_callable("pgbillion_tables.prepare_clone()");
	check_template(cloning.template);
	if (!is_observed() && !creating_extension &&
		kept_stamp_find(cloning.template, cloning.access_method) != NULL)
		PG_RETURN_BOOL(true);
	lock_template(cloning.template);

	/* clones to learn from, and none of them stays */
	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(context);
	PG_TRY();
	{
		bytes = prepare(&cloning, context, &length);
	}
	PG_CATCH();
	{
		ErrorData  *error;

		MemoryContextSwitchTo(context);
		error = CopyErrorData();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
		MemoryContextSwitchTo(context);
		CurrentResourceOwner = owner;
		ReThrowError(error);
	}
	PG_END_TRY();
	RollbackAndReleaseCurrentSubTransaction();
	MemoryContextSwitchTo(context);
	CurrentResourceOwner = owner;

	if (bytes == NULL)
		ereport(NOTICE,
				(errmsg("all clones of template \"%s\" are made by commands: %s",
						get_namespace_name(cloning.template), cloning.reason)));
	else
		(void) kept_stamp_store(cloning.template, cloning.access_method, bytes, length, true);
	PG_RETURN_BOOL(bytes != NULL);
}

/*
 * Makes clones, and returns the bytes of their stamp, in the context given;
 * or NULL, and the reason in *cloning.
 */
static char *
prepare(Cloning *cloning, MemoryContext result_context, int *length)
{
	SchemaStamp *stamp;
	MemoryContext old;
	char	   *bytes = NULL;
	int			nestlevel;

	cloning->of_clones = fingerprint_of_clones(cloning->template, &cloning->fingerprint);
	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	nestlevel = NewGUCNestLevel();
	settle();

	clone_refuse(cloning->template);
	cloning->objects = definition_of_objects(cloning->template, cloning->access_method);
	clone_by_commands(cloning, 0, FIRST_CLONES);
	stamp = learn(cloning);
	if (stamp != NULL)
	{
		clone_by_stamp(cloning, stamp, FIRST_CLONES, FIRST_CLONES + 1, false);
		cloning->contents = definition_of_contents(cloning->template);
		bytes = stamp_to_keep(cloning, stamp, length);
	}

	/* every call of SPI has left its own context the current one */
	old = MemoryContextSwitchTo(result_context);
	if (bytes != NULL)
		bytes = memcpy(palloc(*length), bytes, *length);
	else
		cloning->reason = pstrdup(cloning->reason);
	MemoryContextSwitchTo(old);
	AtEOXact_GUC(true, nestlevel);
	SPI_finish();
	return bytes;
}

/* The bytes of a stamp that still holds; NULL, and the reason in *cloning, if it does not. */
static char *
stamp_to_keep(Cloning *cloning, SchemaStamp *stamp, int *length)
{
	stamp->contents = cloning->contents;
	stamp->functions = functions_of(cloning->template);
	if (fingerprint_of_clones(cloning->template, NULL) != cloning->of_clones)
	{
		cloning->reason = "what they depend on has changed meanwhile";
		return NULL;
	}
	return kept_stamp_bytes(cloning->template, cloning->access_method, stamp, cloning->of_clones, length);
}

/* Keeps what has been learned for later calls, if that can be done at once. */
static void
keep(Cloning *cloning, SchemaStamp *stamp)
{
	int			length;
	char	   *bytes = stamp_to_keep(cloning, stamp, &length);

	if (bytes != NULL)
		(void) kept_stamp_store(cloning->template, cloning->access_method, bytes, length, false);
	cloning->reason = NULL;
}

/* May the current role call prepare_clone()? */
static bool
may_prepare(void)
{
	Oid			types[] = {REGNAMESPACEOID, NAMEOID};
	Oid			schema = get_namespace_oid("pgbillion_tables", true);
	Oid			function = GetSysCacheOid3(PROCNAMEARGSNSP, Anum_pg_proc_oid,
										   CStringGetDatum("prepare_clone"),
										   PointerGetDatum(buildoidvector(types, lengthof(types))),
										   ObjectIdGetDatum(schema));

	return OidIsValid(function) && proc_aclcheck(function, GetUserId(), ACL_EXECUTE) == ACLCHECK_OK;
}

/* The name of a clone, of those that are counted from 0. */
static const char *
clone_name(const Cloning *cloning, int64 number)
{
	NameData	formatted;

	if (cloning->format == NULL)
		return cloning->name;
	name_format_apply(cloning->format, cloning->first + number, &formatted);
	return pstrdup(NameStr(formatted));
}

/* Clones from … to - 1; without what materialized views hold. */
static void
clone_by_commands(const Cloning *cloning, int64 from, int64 to)
{
	for (int64 number = from; number < to; number++)
	{
		MemoryContext old = MemoryContextSwitchTo(cloning->each);
		const char *name = clone_name(cloning, number);
		List	   *rest = definition_of_rest(cloning->template, name);

		check_unchanged(cloning);
		make_clone(name, cloning->objects);
		run_all(rest);
		/* the others are made by the same commands */
		if (number == 0)
			clone_verify(cloning->template, get_namespace_oid(name, false), cloning->objects, rest,
						 cloning->access_method);

		MemoryContextSwitchTo(old);
		MemoryContextReset(cloning->each);
	}
}

/*
 * Locks on tables, views and sequences leave others room for commands (CREATE
 * INDEX, GRANT), and there are none on functions and types. If some of the
 * template was read before such a command and some after it, raise 40001.
 */
static void
check_unchanged(const Cloning *cloning)
{
	if (fingerprint_of_template(cloning->template) != cloning->fingerprint)
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("template \"%s\" was changed while it was being cloned",
						get_namespace_name(cloning->template)),
				 errhint("Try again.")));
}

/* The stamp of the first two clones; NULL, and the reason, if further ones must be made by commands. */
static SchemaStamp *
learn(Cloning *cloning)
{
	if (is_observed() || creating_extension)
	{
		cloning->reason = "others rely on seeing the commands";
		return NULL;
	}
	CommandCounterIncrement();
	return schema_stamp_compile(get_namespace_oid(clone_name(cloning, 0), false),
								get_namespace_oid(clone_name(cloning, 1), false), &cloning->reason);
}

/*
 * Clones from … to - 1. The catalog rows of the first of them must be those of
 * the first clone by commands, unless that of the same stamp has been seen.
 */
static void
clone_by_stamp(const Cloning *cloning, const SchemaStamp *stamp, int64 from, int64 to, bool verified)
{
	SchemaWriter *writer = schema_writer_begin(stamp, verified ? to - from : 1);

	for (int64 number = from; number < to; number++)
	{
		MemoryContext old = MemoryContextSwitchTo(cloning->each);

		schema_writer_add(writer, clone_name(cloning, number));
		MemoryContextSwitchTo(old);
		MemoryContextReset(cloning->each);
		if (number == from && !verified)
		{
			schema_writer_end(writer);
			verify_stamped(cloning, stamp, number);
			writer = schema_writer_begin(stamp, to - from - 1);
		}
	}
	schema_writer_end(writer);
}

static void
verify_stamped(const Cloning *cloning, const SchemaStamp *stamp, int64 number)
{
	MemoryContext old = MemoryContextSwitchTo(cloning->each);
	const char *name = clone_name(cloning, number);
	char	   *reason;

	if (!schema_stamp_verify(stamp, get_namespace_oid(name, false), &reason))
		elog(ERROR, "clone \"%s\" is not what commands would make: %s", name, reason);

	MemoryContextSwitchTo(old);
	MemoryContextReset(cloning->each);
}

/* The rows that are asked for, into all clones; those of one and the same moment. */
static void
copy_rows(Cloning *cloning, int64 count)
{
	Snapshot	snapshot;
	MemoryContext old;

	if (!cloning->all_rows && cloning->tables == NULL)
		return;
	cloning->rows = copied_rows_choose(cloning->template, cloning->tables);

	/* whatever the isolation level: it must not be older than the locks */
	snapshot = RegisterSnapshot(GetLatestSnapshot());
	for (int64 number = 0; number < count; number++)
	{
		old = MemoryContextSwitchTo(cloning->each);
		copied_rows_copy(cloning->rows, cloning->template, clone_name(cloning, number), snapshot);
		MemoryContextSwitchTo(old);
		MemoryContextReset(cloning->each);
	}
	UnregisterSnapshot(snapshot);
}

/* What materialized views hold, in all clones. */
static void
fill_clones(const Cloning *cloning, int64 count)
{
	for (int64 number = 0; number < count && cloning->contents != NIL; number++)
	{
		MemoryContext old = MemoryContextSwitchTo(cloning->each);

		set_path(clone_name(cloning, number));
		run_all(cloning->contents);
		MemoryContextSwitchTo(old);
		MemoryContextReset(cloning->each);
	}
}

/* Raise an error unless there is such a schema, it is a user's, and the caller may use it. */
static void
check_template(Oid template)
{
	char	   *name = get_namespace_name(template);
	AclResult	aclresult;

	if (name == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_SCHEMA),
				 errmsg("schema with OID %u does not exist", template)));
	if (IsReservedName(name) || strcmp(name, "information_schema") == 0)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("template \"%s\" is a schema of the system", name),
				 errhint("Name a schema of your own.")));
	aclresult = namespace_aclcheck(template, GetUserId(), ACL_USAGE);
	if (aclresult != ACLCHECK_OK)
		aclcheck_error(aclresult, OBJECT_SCHEMA, name);
}

/* Keep the schema and its relations as they are. */
static void
lock_template(Oid template)
{
	static const char *const query =
		"SELECT s.objid FROM pg_catalog.pg_depend s"
		" WHERE s.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_namespace'::pg_catalog.regclass"
		" AND s.refobjid OPERATOR(pg_catalog.=) $1"
		" AND s.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_class'::pg_catalog.regclass"
		" ORDER BY s.objid USING OPERATOR(pg_catalog.<)";
	Oid			types[] = {OIDOID};
	Datum		values[] = {ObjectIdGetDatum(template)};

	LockDatabaseObject(NamespaceRelationId, template, 0, AccessShareLock);

	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	PushActiveSnapshot(GetLatestSnapshot());
	if (SPI_execute_with_args(query, 1, types, values, NULL, true, 0) != SPI_OK_SELECT)
		elog(ERROR, "could not read pg_depend");
	PopActiveSnapshot();
	for (uint64 row = 0; row < SPI_processed; row++)
	{
		bool		isnull;
		Oid			relid = DatumGetObjectId(SPI_getbinval(SPI_tuptable->vals[row],
														   SPI_tuptable->tupdesc, 1, &isnull));

		/* it may have been dropped meanwhile */
		Relation	rel = try_relation_open(relid, AccessShareLock);

		if (rel != NULL)
			relation_close(rel, NoLock);
	}
	SPI_finish();
}

/* Settings that change neither what is read nor what is made, for the caller's GUC level. */
static void
settle(void)
{
	static const char *const settings[][2] = {
		/* values as text that is read again as the same */
		{"DateStyle", "ISO"},
		{"IntervalStyle", "postgres"},
		{"extra_float_digits", "3"},
		{"standard_conforming_strings", "on"},
		{"array_nulls", "on"},
		{"transform_null_equals", "off"},
		{"quote_all_identifiers", "off"},
		{"xmloption", "content"},
		/* bodies may refer to what is made later */
		{"check_function_bodies", "off"},
		/* what is not said is the database's default */
		{"default_tablespace", ""},
		{"default_table_access_method", "heap"},
		{"default_toast_compression", "pglz"},
		{"client_min_messages", "warning"},
		/* the catalogs are large, and whole ones are never wanted */
		{"enable_hashjoin", "off"},
		{"enable_mergejoin", "off"},
		{"enable_seqscan", "off"},
		{"max_parallel_workers_per_gather", "0"},
		{"jit", "off"},
	};

	for (int i = 0; i < lengthof(settings); i++)
		(void) set_config_option(settings[i][0], settings[i][1], PGC_USERSET, PGC_S_SESSION,
								 GUC_ACTION_SAVE, true, 0, false);
}

/* Create the schema and what is in it. */
static void
make_clone(const char *name, List *objects)
{
	run(psprintf("CREATE SCHEMA %s", quote_identifier(name)));
	set_path(name);
	run_all(objects);
}

/* Names in commands are the clone's, for the caller's GUC level. */
static void
set_path(const char *name)
{
	(void) set_config_option("search_path", psprintf("%s, pg_temp", quote_identifier(name)),
							 PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
}

static void
run_all(List *commands)
{
	ListCell   *lc;

	foreach(lc, commands)
	{
		CHECK_FOR_INTERRUPTS();
		run(lfirst(lc));
	}
}

static void
run(const char *command)
{
	int			result = SPI_execute(command, false, 0);

	if (result < 0)
		elog(ERROR, "SPI_execute failed: %s", SPI_result_code_string(result));
	SPI_freetuptable(SPI_tuptable);
}

/* Functions whose text stays what it is, though it names the template; NULL if there are none. */
static char *
functions_of(Oid template)
{
	StringInfoData names;

	initStringInfo(&names);
	clone_query(clone_functions_query, template, NULL);
	for (uint64 row = 0; row < SPI_processed; row++)
		appendStringInfo(&names, "%s%s", row == 0 ? "" : ", ",
						 SPI_getvalue(SPI_tuptable->vals[row], SPI_tuptable->tupdesc, 1));
	SPI_freetuptable(SPI_tuptable);
	return names.len > 0 ? names.data : NULL;
}

static void
tell_functions(Oid template, const char *functions)
{
	if (functions != NULL)
		ereport(NOTICE,
				(errmsg("functions of template \"%s\" name it in their text, and so do the clone's: %s",
						get_namespace_name(template), functions),
				 errhint("Leave the schema's name out, and have callers set search_path.")));
}

/* Raise an error where nothing can be written. */
static void
check_callable(const char *function)
{
	PreventCommandIfReadOnly(function);
	PreventCommandIfParallelMode(function);
	PreventCommandDuringRecovery(function);
}

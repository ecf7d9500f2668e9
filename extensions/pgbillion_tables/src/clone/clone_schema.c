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

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/catalog.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_depend.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "commands/extension.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/resowner.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "clone/clone.h"
#include "ddl/ddl.h"
#include "stamp/stamp.h"

PG_FUNCTION_INFO_V1(pgbillion_clone_schema);
PG_FUNCTION_INFO_V1(pgbillion_clone_schemas);
PG_FUNCTION_INFO_V1(pgbillion_prepare_clone);

/* Number of clones that are made by commands, and compared, before others are stamped. */
#define FIRST_CLONES 2

/* What is to be made of a template. */
typedef struct Cloning
{
	Oid			template;
	const NameFormat *format;	/* NULL if there is one clone, of this name */
	const char *name;
	int64		first;
	CloneOptions options;
	bool		join_publications;
	bool		all_rows;		/* copied, */
	const char *tables;			/* or those of these tables, or NULL */
	CopiedRows *rows;			/* of which these are made; NULL for none */
	List	   *objects;		/* as definition_of_objects() returns them */
	List	   *contents;		/* commands */
	char	   *reason;			/* why all are made by commands, or NULL */
	uint64		version;		/* of the template, before it is read */
	uint64		of_clones;		/* the version of all that clones depend on,
								 * from before */
	MemoryContext each;			/* emptied after each clone: they must not add
								 * up */
} Cloning;

static void clone_many(Cloning *cloning, int64 count);
static char *oids_as_text(ArrayType *array);
static void choose_options(Cloning *cloning, FunctionCallInfo fcinfo, int first);
static void check_strings(void);
static void check_rewritten(const char *name);
static const char *clone_name(const Cloning *cloning, int64 number);
static void clone_by_commands(const Cloning *cloning, int64 from, int64 to);
static void clone_by_kept_stamp(Cloning *cloning, const Stamp *stamp, int64 count);
static char *prepare(Cloning *cloning, MemoryContext result_context, int *length);
static Stamp *learn(Cloning *cloning);
static char *stamp_to_keep(Cloning *cloning, Stamp *stamp, int *length);
static void keep(Cloning *cloning, Stamp *stamp);
static bool may_prepare(void);
static void clone_by_stamp(const Cloning *cloning, const Stamp *stamp, int64 from, int64 to,
						   bool verified);
static void verify_stamped(const Cloning *cloning, const Stamp *stamp, int64 number);
static void copy_rows(Cloning *cloning, int64 count);
static void fill_clones(const Cloning *cloning, int64 count);
static void check_callable(const char *function);
static void check_template(Oid template);
static void lock_template(Oid template);
static List *relations_of(Oid schema);
static void settle(void);
static void make_clone(const char *name, List *objects);
static void set_path(const char *name);
static void run_all(List *commands);
static void run(const char *command);
static void join_publications(const Cloning *cloning, int64 count);
static void tell_functions(const Cloning *cloning, const char *functions);

/*
 * pgbillion_tables.clone_schema(template regnamespace, name text, access_method name,
 *						 rows regclass[], all_rows boolean, rewrite_bodies boolean,
 *						 join_publications boolean) returns regnamespace
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
	choose_options(&cloning, fcinfo, 2);
	clone_many(&cloning, 1);

	PG_RETURN_OID(get_namespace_oid(name, false));
}

/*
 * pgbillion_tables.clone_schemas(template regnamespace, name_format text, first bigint,
 *						  count bigint, access_method name, rows regclass[], all_rows boolean,
 *						  rewrite_bodies boolean, join_publications boolean) returns bigint
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
	name_format_check_numbers(first, count, "schema");

	format = name_format_parse(text_to_cstring(PG_GETARG_TEXT_PP(1)));
	name_format_check_lengths(format, first, first + count - 1);

	cloning.template = PG_GETARG_OID(0);
	cloning.format = format;
	cloning.first = first;
	choose_options(&cloning, fcinfo, 4);
	clone_many(&cloning, count);

	PG_RETURN_INT64(count);
}

/* What the arguments from the access method on say. */
static void
choose_options(Cloning *cloning, FunctionCallInfo fcinfo, int first)
{
	bool		flags[3];

	cloning->options.access_method = PG_ARGISNULL(first) ? NULL : NameStr(*PG_GETARG_NAME(first));
	for (int i = 0; i < lengthof(flags); i++)
		flags[i] = !PG_ARGISNULL(first + 2 + i) && PG_GETARG_BOOL(first + 2 + i);
	cloning->all_rows = flags[0];
	cloning->options.rewrite_bodies = flags[1];
	cloning->join_publications = flags[2];
	if (flags[1])
		check_strings();
	if (PG_ARGISNULL(first + 1))
		return;
	if (cloning->all_rows)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("rows and all_rows exclude each other")));
	cloning->tables = oids_as_text(PG_GETARG_ARRAYTYPE_P(first + 1));
}

/* Functions' texts are read as they are under the usual setting. */
static void
check_strings(void)
{
	if (!strings_conform())
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("functions cannot be rewritten while standard_conforming_strings is off")));
}

static void
check_rewritten(const char *name)
{
	if (!body_can_name(name))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_NAME),
				 errmsg("the text of functions cannot have schema \"%s\" in place of the template", name),
				 errhint("Choose a name without line breaks, /* and */ that is no keyword of PL/pgSQL.")));
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
	Stamp	   *kept = NULL;
	Stamp	   *stamp = NULL;
	char	   *functions;
	int			nestlevel;

	check_callable("pgbillion_tables.clone_schema()");
	check_template(template);
	cloning->each = AllocSetContextCreate(CurrentMemoryContext, "pgbillion clone", ALLOCSET_DEFAULT_SIZES);

	/* before anything is read, kept stamps' versions included */
	lock_template(template);
	if (!ddl_is_observed() && !creating_extension)
		kept = kept_stamp_find(template, &cloning->options);
	if (kept != NULL)
	{
		clone_by_kept_stamp(cloning, kept, count);
		return;
	}

	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	nestlevel = NewGUCNestLevel();
	settle();

	if (count > FIRST_CLONES)
		cloning->of_clones = template_version_of_clones(template, &cloning->version);
	else
		cloning->version = template_version(template);
	clone_refuse(template, cloning->version);
	cloning->objects = definition_of_objects(template, &cloning->options);
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
	join_publications(cloning, count);
	functions = definition_names(template, cloning->options.rewrite_bodies);

	AtEOXact_GUC(true, nestlevel);
	tell_functions(cloning, functions);
	if (cloning->reason != NULL)
		ereport(DEBUG1,
				(errmsg("all clones of template \"%s\" are made by commands: %s",
						get_namespace_name(template), cloning->reason)));
	SPI_finish();
}

/* What has been verified when the stamp was prepared is not done again. */
static void
clone_by_kept_stamp(Cloning *cloning, const Stamp *stamp, int64 count)
{
	int			nestlevel = NewGUCNestLevel();

	/* names are quoted in the stamp's own way */
	if (cloning->options.rewrite_bodies)
		settle();
	cloning->contents = stamp->contents;
	clone_by_stamp(cloning, stamp, 0, count, true);
	if (stamp->contents != NIL || cloning->all_rows || cloning->tables != NULL || cloning->join_publications)
	{
		if (SPI_connect() != SPI_OK_CONNECT)
			elog(ERROR, "SPI_connect failed");
		settle();
		copy_rows(cloning, count);
		fill_clones(cloning, count);
		join_publications(cloning, count);
		SPI_finish();
	}
	AtEOXact_GUC(true, nestlevel);
	tell_functions(cloning, stamp->functions);
}

/*
 * pgbillion_tables.prepare_clone(template regnamespace, access_method name, rewrite_bodies boolean)
 *						  returns boolean
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
	cloning.options.access_method = PG_ARGISNULL(1) ? NULL : NameStr(*PG_GETARG_NAME(1));
	cloning.options.rewrite_bodies = !PG_ARGISNULL(2) && PG_GETARG_BOOL(2);
	cloning.format = name_format_parse(format);
	if (cloning.options.rewrite_bodies)
		check_strings();
	cloning.each = AllocSetContextCreate(context, "pgbillion clone", ALLOCSET_DEFAULT_SIZES);

	check_callable("pgbillion_tables.prepare_clone()");
	check_template(cloning.template);
	lock_template(cloning.template);
	if (!ddl_is_observed() && !creating_extension &&
		kept_stamp_find(cloning.template, &cloning.options) != NULL)
		PG_RETURN_BOOL(true);

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
		(void) kept_stamp_store(cloning.template, &cloning.options, bytes, length, true);
	PG_RETURN_BOOL(bytes != NULL);
}

/*
 * Makes clones, and returns the bytes of their stamp, in the context given;
 * or NULL, and the reason in *cloning.
 */
static char *
prepare(Cloning *cloning, MemoryContext result_context, int *length)
{
	Stamp	   *stamp;
	MemoryContext old;
	char	   *bytes = NULL;
	int			nestlevel;

	cloning->of_clones = template_version_of_clones(cloning->template, &cloning->version);
	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	nestlevel = NewGUCNestLevel();
	settle();

	clone_refuse(cloning->template, cloning->version);
	cloning->objects = definition_of_objects(cloning->template, &cloning->options);
	clone_by_commands(cloning, 0, FIRST_CLONES);
	stamp = learn(cloning);
	if (stamp != NULL)
	{
		clone_by_stamp(cloning, stamp, FIRST_CLONES, FIRST_CLONES + 1, false);
		cloning->contents = definition_of_contents(cloning->template);
		bytes = stamp_to_keep(cloning, stamp, length);
		if (bytes == NULL && cloning->reason == NULL)
			ereport(ERROR,
					(errcode(ERRCODE_OUT_OF_MEMORY),
					 errmsg("could not sign what is to be kept"),
					 errhint("Call prepare_clone() in another session.")));
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

/*
 * The bytes of a stamp; NULL if it no longer holds, with the reason in *cloning,
 * or cannot be signed in this session, without one.
 */
static char *
stamp_to_keep(Cloning *cloning, Stamp *stamp, int *length)
{
	stamp->contents = cloning->contents;
	stamp->functions = definition_names(cloning->template, cloning->options.rewrite_bodies);
	if (template_version_of_clones(cloning->template, NULL) != cloning->of_clones)
	{
		cloning->reason = "what they depend on has changed meanwhile";
		return NULL;
	}
	return kept_stamp_bytes(cloning->template, &cloning->options, stamp, cloning->of_clones, length);
}

/* Keeps what has been learned for later calls, if that can be done at once. */
static void
keep(Cloning *cloning, Stamp *stamp)
{
	int			length;
	char	   *bytes = stamp_to_keep(cloning, stamp, &length);

	if (bytes != NULL)
		(void) kept_stamp_store(cloning->template, &cloning->options, bytes, length, false);
	cloning->reason = NULL;
}

/* May the current role call prepare_clone()? */
static bool
may_prepare(void)
{
	Oid			types[] = {REGNAMESPACEOID, NAMEOID, BOOLOID};
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
	const char *name = cloning->name;
	NameData	formatted;

	if (cloning->format != NULL)
	{
		name_format_apply(cloning->format, cloning->first + number, &formatted);
		name = pstrdup(NameStr(formatted));
	}
	if (cloning->options.rewrite_bodies)
		check_rewritten(name);
	return name;
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

		template_check_unchanged(cloning->template, cloning->version);
		make_clone(name, definition_for(cloning->objects, name));
		run_all(rest);
		/* the others are made by the same commands */
		if (number == 0)
			clone_verify(cloning->template, get_namespace_oid(name, false), cloning->objects, rest,
						 &cloning->options, cloning->version);

		MemoryContextSwitchTo(old);
		MemoryContextReset(cloning->each);
	}
}

/* The stamp of the first two clones; NULL, and the reason, if further ones must be made by commands. */
static Stamp *
learn(Cloning *cloning)
{
	if (ddl_is_observed() || creating_extension)
	{
		cloning->reason = "others rely on seeing the commands";
		return NULL;
	}
	CommandCounterIncrement();
	return stamp_compile_schemas(get_namespace_oid(clone_name(cloning, 0), false),
								 get_namespace_oid(clone_name(cloning, 1), false), &cloning->reason);
}

/*
 * Clones from … to - 1. The catalog rows of the first of them must be those of
 * the first clone by commands, unless that of the same stamp has been seen.
 */
static void
clone_by_stamp(const Cloning *cloning, const Stamp *stamp, int64 from, int64 to, bool verified)
{
	StampWriter *writer = stamp_writer_begin(stamp, verified ? to - from : 1, NULL);

	for (int64 number = from; number < to; number++)
	{
		MemoryContext old = MemoryContextSwitchTo(cloning->each);

		(void) stamp_writer_add(writer, clone_name(cloning, number), InvalidOid);
		MemoryContextSwitchTo(old);
		MemoryContextReset(cloning->each);
		if (number == from && !verified)
		{
			stamp_writer_end(writer);
			verify_stamped(cloning, stamp, number);
			writer = stamp_writer_begin(stamp, to - from - 1, NULL);
		}
	}
	stamp_writer_end(writer);
}

static void
verify_stamped(const Cloning *cloning, const Stamp *stamp, int64 number)
{
	MemoryContext old = MemoryContextSwitchTo(cloning->each);
	const char *name = clone_name(cloning, number);
	char	   *reason;

	if (!stamp_verify(stamp, get_namespace_oid(name, false), &reason))
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

/* All clones into the publications that the template is in. */
static void
join_publications(const Cloning *cloning, int64 count)
{
	List	   *commands;

	if (!cloning->join_publications)
		return;
	commands = definition_of_publications(cloning->template);
	for (int64 number = 0; number < count && commands != NIL; number++)
	{
		MemoryContext old = MemoryContextSwitchTo(cloning->each);

		set_path(clone_name(cloning, number));
		run_all(commands);
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

/*
 * Keep the schema and its relations as they are: a session that wants to drop
 * or alter one of them waits for us, and we for one that has begun to. Raises
 * 3F000 if the schema is gone by then.
 */
static void
lock_template(Oid template)
{
	bool		found_more;

	LockDatabaseObject(NamespaceRelationId, template, 0, AccessShareLock);
	if (!SearchSysCacheExists1(NAMESPACEOID, ObjectIdGetDatum(template)))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_SCHEMA),
				 errmsg("schema with OID %u does not exist", template)));

	/* those that were created while this waited for others, too */
	do
	{
		List	   *relations = relations_of(template);
		ListCell   *lc;

		found_more = false;
		foreach(lc, relations)
		{
			LOCKTAG		tag;

			CHECK_FOR_INTERRUPTS();
			SET_LOCKTAG_RELATION(tag, MyDatabaseId, lfirst_oid(lc));
			if (LockAcquire(&tag, AccessShareLock, false, false) == LOCKACQUIRE_OK)
				found_more = true;
		}
		list_free(relations);
	} while (found_more);
}

/* The tables, views, sequences and composite types in a schema as they are now, by OID. */
static List *
relations_of(Oid schema)
{
	List	   *relations = NIL;
	Relation	depend;
	ScanKeyData keys[2];
	SysScanDesc scan;
	HeapTuple	tuple;

	/* LockAcquire() leaves that to its callers */
	AcceptInvalidationMessages();
	InvalidateCatalogSnapshot();
	depend = table_open(DependRelationId, AccessShareLock);
	ScanKeyInit(&keys[0], Anum_pg_depend_refclassid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(NamespaceRelationId));
	ScanKeyInit(&keys[1], Anum_pg_depend_refobjid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(schema));
	scan = systable_beginscan(depend, DependReferenceIndexId, true, NULL, lengthof(keys), keys);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_depend form = (Form_pg_depend) GETSTRUCT(tuple);

		if (form->classid == RelationRelationId)
			relations = lappend_oid(relations, form->objid);
		else if (form->classid == TypeRelationId && OidIsValid(get_typ_typrelid(form->objid)))
			relations = lappend_oid(relations, get_typ_typrelid(form->objid));
	}
	systable_endscan(scan);
	table_close(depend, AccessShareLock);
	list_sort(relations, list_oid_cmp);
	return relations;
}

/* Settings that change neither what is read nor what is made, for the caller's GUC level. */
static void
settle(void)
{
	static const char *const settings[][2] = {
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

	ddl_settle_definitions();
	for (int i = 0; i < lengthof(settings); i++)
		ddl_settle_setting(settings[i][0], settings[i][1]);
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
	ddl_settle_setting("search_path", psprintf("%s, pg_temp", quote_identifier(name)));
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

/* Functions that name the template still, if there are some. */
static void
tell_functions(const Cloning *cloning, const char *functions)
{
	if (functions != NULL)
		ereport(NOTICE,
				(errmsg("functions of template \"%s\" name it in their text, and so do the clone's: %s",
						get_namespace_name(cloning->template), functions),
				 cloning->options.rewrite_bodies ?
				 errhint("A name in a string, or one that may mean something else, is not rewritten.") :
				 errhint("Leave the schema's name out, and have callers set search_path; or pass rewrite_bodies => true.")));
}

/* Raise an error where nothing can be written. */
static void
check_callable(const char *function)
{
	PreventCommandIfReadOnly(function);
	PreventCommandIfParallelMode(function);
	PreventCommandDuringRecovery(function);
}

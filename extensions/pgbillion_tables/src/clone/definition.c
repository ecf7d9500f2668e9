/*-------------------------------------------------------------------------
 *
 * definition.c
 *	  What a schema has, as commands in an order in which they can be run.
 *
 * The order is that of pg_depend. Each object with commands is a node; what
 * has none of its own (row and array types, indexes of constraints, the rules
 * of views) is part of one that has.
 *
 * Lists and strings are allocated in the current memory context.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "lib/pairingheap.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/hsearch.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"
#include "utils/varlena.h"

#include "clone/clone.h"
#include "ddl/ddl.h"

/*
 * A command, in pieces between the places where it names the schema that it is
 * run for. A name in it is qualified where another thing of that name hides
 * it: a WITH query hides a table, for instance.
 */
typedef struct CloneCommand
{
	List	   *text;
	List	   *path;			/* what the function sets search_path to, the
								 * schema as NULL; or NIL */
	List	   *after_path;
	List	   *body;			/* pieces of the function's text, or NIL */
} CloneCommand;

/*
 * Before 17 stored expressions hold the places of their parts in the text of
 * the command. Names of one width have them be the same in all clones.
 */
#if PG_VERSION_NUM < 170000
#define NAME_WIDTH (2 * NAMEDATALEN)
#else
#define NAME_WIDTH 0
#endif

typedef struct ObjectKey
{
	Oid			classid;
	Oid			objid;
} ObjectKey;

/* An object with commands, or a part of one. */
typedef struct CloneObject
{
	ObjectKey	key;
	pairingheap_node ready;
	int			rank;			/* of its query */
	List	   *commands;		/* CloneCommand; NIL if it is a part */
	ObjectKey	whole;			/* of a part: what it is part of */
	bool		internal;		/* by an internal dependency? */
	int			nneeded;		/* objects that are not done yet */
	List	   *needed_by;		/* CloneObject */
	bool		done;
} CloneObject;

static List *read_commands(const char *query, Oid schema, const char *argument, List *result);
static HTAB *read_objects(Oid schema, const CloneOptions *options);
static CloneCommand *read_command(SPITupleTable *rows, uint64 row, const char *schema, bool qualified, bool rewrite);
static List *text_pieces(const char *text, const char *schema, bool qualified);
static void cut_path(CloneCommand *command, const char *text, char *path, const char *schema, bool qualified);
static char *path_command(const List *names, const char *schema, int width);
static void read_parts(HTAB *objects, SPITupleTable *rows, uint64 nrows);
static void read_order(HTAB *objects, SPITupleTable *rows, uint64 nrows);
static CloneObject *find_whole(HTAB *objects, ObjectKey key);
static List *in_order(HTAB *objects, const char *schema);
static int	compare_ready(const pairingheap_node *a, const pairingheap_node *b, void *arg);
static bool is_named_still(const char *schema, const char *body, bool rewritable, const char *path,
						   const char *settings);
static bool is_true(SPITupleTable *rows, uint64 row, int column);
static Oid	oid_value(SPITupleTable *rows, uint64 row, int column);

/*
 * Run a query of kinds.c; the rows are in SPI_tuptable, SPI_processed of
 * them. `argument` may be NULL. Leaves the schema in the search path, with
 * pg_catalog before it. Expects an SPI connection, and that the caller
 * restores the settings.
 *
 * Names in the query are looked up when it is planned. Nothing of the
 * schema's is in the search path then.
 *
 * What it reads is of now, whatever the isolation level, as is what functions
 * such as pg_get_viewdef() read.
 */
void
clone_query(const char *query, Oid schema, const char *argument)
{
	Oid			types[] = {OIDOID, TEXTOID};
	Datum		values[] = {ObjectIdGetDatum(schema), (Datum) 0};
	char		nulls[] = {' ', 'n'};
	char	   *name = get_namespace_name(schema);
	SPIPlanPtr	plan;
	Portal		portal;

	if (name == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_SCHEMA),
				 errmsg("schema with OID %u does not exist", schema)));
	if (argument != NULL)
	{
		values[1] = CStringGetTextDatum(argument);
		nulls[1] = ' ';
	}

	ddl_settle_setting("search_path", "pg_catalog, pg_temp");
	plan = SPI_prepare(query, lengthof(types), types);
	if (plan == NULL)
		elog(ERROR, "SPI_prepare failed: %s", SPI_result_code_string(SPI_result));
	CommandCounterIncrement();
	PushActiveSnapshot(GetLatestSnapshot());
	portal = SPI_cursor_open(NULL, plan, values, nulls, true);

	ddl_settle_setting("search_path", psprintf("%s, pg_temp", quote_identifier(name)));
	SPI_cursor_fetch(portal, true, FETCH_ALL);
	SPI_cursor_close(portal);
	PopActiveSnapshot();
	SPI_freeplan(plan);
}

static bool
is_true(SPITupleTable *rows, uint64 row, int column)
{
	bool		isnull;

	return DatumGetBool(SPI_getbinval(rows->vals[row], rows->tupdesc, column, &isnull));
}

static Oid
oid_value(SPITupleTable *rows, uint64 row, int column)
{
	bool		isnull;
	Datum		value = SPI_getbinval(rows->vals[row], rows->tupdesc, column, &isnull);

	return isnull ? InvalidOid : DatumGetObjectId(value);
}

/*
 * The commands that make what is in the schema, in order; definition_for()
 * has them as texts. Raises 0A000 if objects need each other in a circle.
 * Expects what clone_query() does.
 */
List *
definition_of_objects(Oid schema, const CloneOptions *options)
{
	HTAB	   *objects = read_objects(schema, options);
	SPITupleTable *rows;

	clone_query(clone_order_query, schema, NULL);
	rows = SPI_tuptable;
	read_parts(objects, rows, SPI_processed);
	read_order(objects, rows, SPI_processed);
	SPI_freetuptable(rows);

	return in_order(objects, get_namespace_name(schema));
}

/* Those commands for one schema. */
List *
definition_for(List *objects, const char *clone)
{
	List	   *result = NIL;
	ListCell   *lc;

	foreach(lc, objects)
	{
		const CloneCommand *command = lfirst(lc);
		const char *path = command->path == NIL ? "" : path_command(command->path, clone, NAME_WIDTH);
		const char *after_path = command->path == NIL ? "" : body_join(command->after_path, clone, NAME_WIDTH);
		const char *body = command->body == NIL ? "" : quote_literal_cstr(body_join(command->body, clone, 0));

		result = lappend(result, psprintf("%s%s%s%s", body_join(command->text, clone, NAME_WIDTH), path, after_path,
										  body));
	}
	return result;
}

/* The commands to be run when all objects are there; `clone` is the name of the schema to run them for. */
List *
definition_of_rest(Oid schema, const char *clone)
{
	List	   *result = NIL;

	for (int i = 0; i < clone_last_nqueries; i++)
		result = read_commands(clone_last_queries[i], schema, clone, result);
	return result;
}

/* The commands that give the schema's materialized views their contents, when all is there. */
List *
definition_of_contents(Oid schema)
{
	return read_commands(clone_fill_query, schema, NULL, NIL);
}

/* The commands by which a schema joins the publications of this one, when it is complete. */
List *
definition_of_publications(Oid schema)
{
	return read_commands(clone_publications_query, schema, NULL, NIL);
}

/* Functions that name the schema, in a clone whether or not texts are rewritten; NULL if there are none. */
char *
definition_names(Oid schema, bool rewritten)
{
	StringInfoData names;
	const char *name = get_namespace_name(schema);

	initStringInfo(&names);
	clone_query(clone_functions_query, schema, NULL);
	for (uint64 row = 0; row < SPI_processed; row++)
	{
		HeapTuple	tuple = SPI_tuptable->vals[row];
		TupleDesc	tupdesc = SPI_tuptable->tupdesc;

		if (is_named_still(name, SPI_getvalue(tuple, tupdesc, 2), rewritten && is_true(SPI_tuptable, row, 3),
						   SPI_getvalue(tuple, tupdesc, 4), SPI_getvalue(tuple, tupdesc, 5)))
			appendStringInfo(&names, "%s%s", names.len == 0 ? "" : ", ", SPI_getvalue(tuple, tupdesc, 1));
	}
	SPI_freetuptable(SPI_tuptable);
	return names.len > 0 ? names.data : NULL;
}

/* Does a function name the schema when its text and its search path have been rewritten? */
static bool
is_named_still(const char *schema, const char *body, bool rewritable, const char *path, const char *settings)
{
	List	   *pieces = rewritable ? body_split(body, schema) : NIL;
	List	   *of_path = path == NULL ? NIL : body_split_path(path, schema);

	return body_pieces_name(pieces == NIL ? list_make1((char *) body) : pieces, schema) ||
		(path != NULL && body_pieces_name(of_path == NIL ? list_make1((char *) path) : of_path, schema)) ||
		body_pieces_name(list_make1((char *) settings), schema);
}

/* A query's commands, added to a list. */
static List *
read_commands(const char *query, Oid schema, const char *argument, List *result)
{
	clone_query(query, schema, argument);
	for (uint64 row = 0; row < SPI_processed; row++)
		result = lappend(result, SPI_getvalue(SPI_tuptable->vals[row], SPI_tuptable->tupdesc, 1));
	SPI_freetuptable(SPI_tuptable);
	return result;
}

static HTAB *
read_objects(Oid schema, const CloneOptions *options)
{
	const char *name = get_namespace_name(schema);
	HASHCTL		control = {
		.keysize = sizeof(ObjectKey),
		.entrysize = sizeof(CloneObject),
		.hcxt = CurrentMemoryContext
	};
	HTAB	   *objects = hash_create("pgbillion clone", 256, &control,
									  HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	bool		qualified;

	clone_query(clone_ambiguous_query, schema, NULL);
	qualified = SPI_processed == 0;
	SPI_freetuptable(SPI_tuptable);
	for (int i = 0; i < clone_object_nqueries; i++)
	{
		SPITupleTable *rows;

		clone_query(clone_object_queries[i], schema, options->access_method);
		rows = SPI_tuptable;
		for (uint64 row = 0; row < SPI_processed; row++)
		{
			ObjectKey	key = {oid_value(rows, row, 1), oid_value(rows, row, 2)};
			CloneCommand *command = read_command(rows, row, name, qualified, options->rewrite_bodies);
			CloneObject *object;
			bool		found;

			if (command == NULL)
				elog(ERROR, "no command for object %u of catalog %u", key.objid, key.classid);
			object = hash_search(objects, &key, HASH_ENTER, &found);
			if (!found)
			{
				memset((char *) object + sizeof(ObjectKey), 0, sizeof(CloneObject) - sizeof(ObjectKey));
				object->rank = i;
			}
			object->commands = lappend(object->commands, command);
		}
		SPI_freetuptable(rows);
	}
	return objects;
}

/*
 * The command of a row of such a query; NULL without one. `qualified`: can a
 * name before a dot be the schema's?
 */
static CloneCommand *
read_command(SPITupleTable *rows, uint64 row, const char *schema, bool qualified, bool rewrite)
{
	CloneCommand *command = palloc0(sizeof(CloneCommand));
	char	   *text = SPI_getvalue(rows->vals[row], rows->tupdesc, 3);
	char	   *body;
	char	   *path;

	if (text == NULL)
		return NULL;
	/* where the name means something else, too, it does so in all of the text */
	qualified = qualified && body_split(text, schema) != NIL;
	command->text = text_pieces(text, schema, qualified);
	if (rows->tupdesc->natts == 3)
		return command;
	body = SPI_getvalue(rows->vals[row], rows->tupdesc, 4);
	path = SPI_getvalue(rows->vals[row], rows->tupdesc, 6);
	if (body != NULL)
	{
		command->body = rewrite && is_true(rows, row, 5) ? body_split(body, schema) : NIL;
		if (command->body == NIL)
			command->body = list_make1(body);
	}
	if (path != NULL)
		cut_path(command, text, path, schema, qualified);
	return command;
}

static List *
text_pieces(const char *text, const char *schema, bool qualified)
{
	List	   *pieces = qualified ? body_split(text, schema) : NIL;

	return pieces == NIL ? list_make1(pstrdup(text)) : pieces;
}

/*
 * Take out of a function's command that it sets search_path, if the schema is
 * in that: a function that leads to the template would read the template's
 * rows, as its owner if it is a SECURITY DEFINER function.
 */
static void
cut_path(CloneCommand *command, const char *text, char *path, const char *schema, bool qualified)
{
	List	   *names;
	ListCell   *lc;
	const char *wanted;
	const char *found;

	bool		named = false;

	/* as pg_get_functiondef() does */
	if (!SplitGUCList(path, ',', &names))
		return;
	foreach(lc, names)
	{
		if (strcmp(lfirst(lc), schema) == 0)
		{
			lfirst(lc) = NULL;
			named = true;
		}
	}
	if (!named)
		return;
	wanted = path_command(names, schema, 0);
	found = strstr(text, wanted);
	if (found == NULL)
		elog(ERROR, "a function's search_path is not \"%s\"", wanted);
	command->after_path = text_pieces(found + strlen(wanted), schema, qualified);
	command->text = text_pieces(pnstrdup(text, found - text), schema, qualified);
	command->path = names;
}

/* As pg_get_functiondef() has it, with the schema's name filled up to a width. */
static char *
path_command(const List *names, const char *schema, int width)
{
	StringInfoData text;
	ListCell   *lc;

	initStringInfo(&text);
	appendStringInfoString(&text, "\n SET search_path TO ");
	foreach(lc, names)
	{
		appendStringInfoString(&text, foreach_current_index(lc) == 0 ? "'" : ", '");
		for (const char *at = lfirst(lc) == NULL ? schema : lfirst(lc); *at != '\0'; at++)
			appendStringInfo(&text, *at == '\'' ? "''" : "%c", *at);
		appendStringInfoChar(&text, '\'');
		if (lfirst(lc) == NULL)
			appendStringInfoSpaces(&text, width - (int) strlen(quote_literal_cstr(schema)));
	}
	appendStringInfoChar(&text, '\n');
	return text.data;
}

/*
 * Enter what is part of something else. Of several, an internal dependency
 * leads to the owner, and one of a partition's part to that of its table.
 */
static void
read_parts(HTAB *objects, SPITupleTable *rows, uint64 nrows)
{
	for (uint64 row = 0; row < nrows; row++)
	{
		ObjectKey	key = {oid_value(rows, row, 1), oid_value(rows, row, 2)};
		ObjectKey	whole = {oid_value(rows, row, 3), oid_value(rows, row, 4)};
		char	   *deptype = SPI_getvalue(rows->vals[row], rows->tupdesc, 5);
		CloneObject *object;
		bool		found;

		if (deptype[0] == 'n' || memcmp(&key, &whole, sizeof(ObjectKey)) == 0)
			continue;
		object = hash_search(objects, &key, HASH_ENTER, &found);
		if (!found)
			memset((char *) object + sizeof(ObjectKey), 0, sizeof(CloneObject) - sizeof(ObjectKey));
		if (object->commands == NIL &&
			(!found || deptype[0] == 'i' || (deptype[0] == 'P' && !object->internal)))
		{
			object->whole = whole;
			object->internal = deptype[0] == 'i';
		}
	}
}

/* The object with commands that this one is, or is part of; NULL if that is not the schema's. */
static CloneObject *
find_whole(HTAB *objects, ObjectKey key)
{
	/* no chain is as long: array type, row type, view */
	for (int i = 0; i < 10; i++)
	{
		CloneObject *object = hash_search(objects, &key, HASH_FIND, NULL);

		if (object == NULL || object->commands != NIL)
			return object;
		key = object->whole;
	}
	return NULL;
}

static void
read_order(HTAB *objects, SPITupleTable *rows, uint64 nrows)
{
	for (uint64 row = 0; row < nrows; row++)
	{
		ObjectKey	key = {oid_value(rows, row, 1), oid_value(rows, row, 2)};
		ObjectKey	needed = {oid_value(rows, row, 3), oid_value(rows, row, 4)};
		CloneObject *later = find_whole(objects, key);
		CloneObject *earlier = find_whole(objects, needed);

		if (later == NULL || earlier == NULL || later == earlier)
			continue;
		earlier->needed_by = lappend(earlier->needed_by, later);
		later->nneeded++;
	}
}

/* The smaller rank first, then what was created first. A pairing heap has the greatest on top. */
static int
compare_ready(const pairingheap_node *a, const pairingheap_node *b, void *arg)
{
	const CloneObject *one = pairingheap_const_container(CloneObject, ready, a);
	const CloneObject *other = pairingheap_const_container(CloneObject, ready, b);

	if (one->rank != other->rank)
		return one->rank < other->rank ? 1 : -1;
	if (one->key.objid != other->key.objid)
		return one->key.objid < other->key.objid ? 1 : -1;
	return 0;
}

static List *
in_order(HTAB *objects, const char *schema)
{
	pairingheap *ready = pairingheap_allocate(compare_ready, NULL);
	List	   *result = NIL;
	HASH_SEQ_STATUS scan;
	CloneObject *object;

	hash_seq_init(&scan, objects);
	while ((object = hash_seq_search(&scan)) != NULL)
		if (object->commands != NIL && object->nneeded == 0)
			pairingheap_add(ready, &object->ready);

	while (!pairingheap_is_empty(ready))
	{
		ListCell   *lc;

		object = pairingheap_container(CloneObject, ready, pairingheap_remove_first(ready));
		object->done = true;
		result = list_concat(result, object->commands);
		foreach(lc, object->needed_by)
		{
			CloneObject *later = lfirst(lc);

			if (--later->nneeded == 0)
				pairingheap_add(ready, &later->ready);
		}
	}

	hash_seq_init(&scan, objects);
	while ((object = hash_seq_search(&scan)) != NULL)
		if (object->commands != NIL && !object->done)
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("objects of the template need each other in a circle"),
					 errdetail("One of the commands is: %s",
							   body_join(((CloneCommand *) linitial(object->commands))->text, schema, 0)),
					 errhint("Have a function take or return other types than those of views or tables that call it.")));

	return result;
}

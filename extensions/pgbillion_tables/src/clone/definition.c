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

#include "clone/clone.h"

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
	List	   *commands;		/* NIL if it is a part */
	ObjectKey	whole;			/* of a part: what it is part of */
	bool		internal;		/* by an internal dependency? */
	int			nneeded;		/* objects that are not done yet */
	List	   *needed_by;		/* CloneObject */
	bool		done;
} CloneObject;

static List *read_commands(const char *query, Oid schema, const char *argument, List *result);
static HTAB *read_objects(Oid schema, const char *access_method);
static void read_parts(HTAB *objects, SPITupleTable *rows, uint64 nrows);
static void read_order(HTAB *objects, SPITupleTable *rows, uint64 nrows);
static CloneObject *find_whole(HTAB *objects, ObjectKey key);
static List *in_order(HTAB *objects);
static int	compare_ready(const pairingheap_node *a, const pairingheap_node *b, void *arg);
static void set_path(const char *path);
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

	set_path("pg_catalog, pg_temp");
	plan = SPI_prepare(query, lengthof(types), types);
	if (plan == NULL)
		elog(ERROR, "SPI_prepare failed: %s", SPI_result_code_string(SPI_result));
	CommandCounterIncrement();
	PushActiveSnapshot(GetLatestSnapshot());
	portal = SPI_cursor_open(NULL, plan, values, nulls, true);

	set_path(psprintf("%s, pg_temp", quote_identifier(name)));
	SPI_cursor_fetch(portal, true, FETCH_ALL);
	SPI_cursor_close(portal);
	PopActiveSnapshot();
	SPI_freeplan(plan);
}

static void
set_path(const char *path)
{
	(void) set_config_option("search_path", path, PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE,
							 true, 0, false);
}

static Oid
oid_value(SPITupleTable *rows, uint64 row, int column)
{
	bool		isnull;
	Datum		value = SPI_getbinval(rows->vals[row], rows->tupdesc, column, &isnull);

	return isnull ? InvalidOid : DatumGetObjectId(value);
}

/*
 * The commands that make what is in the schema, in order. With an access
 * method, tables have that. Raises 0A000 if objects need each other in a
 * circle. Expects what clone_query() does.
 */
List *
definition_of_objects(Oid schema, const char *access_method)
{
	HTAB	   *objects = read_objects(schema, access_method);
	SPITupleTable *rows;

	clone_query(clone_order_query, schema, NULL);
	rows = SPI_tuptable;
	read_parts(objects, rows, SPI_processed);
	read_order(objects, rows, SPI_processed);
	SPI_freetuptable(rows);

	return in_order(objects);
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
read_objects(Oid schema, const char *access_method)
{
	HASHCTL		control = {
		.keysize = sizeof(ObjectKey),
		.entrysize = sizeof(CloneObject),
		.hcxt = CurrentMemoryContext
	};
	HTAB	   *objects = hash_create("pgbillion clone", 256, &control,
									  HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);

	for (int i = 0; i < clone_object_nqueries; i++)
	{
		SPITupleTable *rows;

		clone_query(clone_object_queries[i], schema, access_method);
		rows = SPI_tuptable;
		for (uint64 row = 0; row < SPI_processed; row++)
		{
			ObjectKey	key = {oid_value(rows, row, 1), oid_value(rows, row, 2)};
			char	   *command = SPI_getvalue(rows->vals[row], rows->tupdesc, 3);
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
in_order(HTAB *objects)
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
					 errdetail("One of the commands is: %s", (char *) linitial(object->commands)),
					 errhint("Have a function take or return other types than those of views or tables that call it.")));

	return result;
}

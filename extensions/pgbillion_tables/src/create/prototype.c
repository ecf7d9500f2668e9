/*-------------------------------------------------------------------------
 *
 * prototype.c
 *	  The first table of a batch, made by PostgreSQL.
 *
 * The definition of 'a table like the template' is a sequence of ordinary
 * commands, run as the caller: CREATE TABLE … (LIKE … INCLUDING ALL) with the
 * template's storage parameters; its comment; for serial columns, which LIKE
 * would leave on the template's sequence, a sequence of the new table's own;
 * and what parts.c has read. Privileges are checked, locks taken and default
 * privileges applied by these commands.
 *
 * What such a table would lack is refused beforehand, by name.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/catalog.h"
#include "catalog/dependency.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "catalog/pg_am.h"
#include "catalog/pg_attrdef.h"
#include "catalog/pg_class.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_sequence.h"
#include "catalog/pg_type.h"
#include "commands/comment.h"
#include "commands/defrem.h"
#include "commands/tablespace.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "tables.h"
#include "lazy_heap/lazy_heap.h"

static void append_storage_parameters(StringInfo sql, Oid relid, const char *namespace,
									  const char **separator);
static void own_serial_sequences(Oid template, Oid prototype);
static Oid	create_sequence_like(Oid sequence, Relation prototype, const char *column);
static void run(const char *sql);

/*
 * Take AccessShareLock on the template, if the caller may read it. Raises
 * 42P01 if it is not there, 42809 unless it is a table, and 0A000 if it has
 * something a stamp cannot carry.
 */
void
template_lock(Oid template)
{
	Relation	rel;
	AclResult	aclresult;

	if (get_rel_name(template) == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("template with OID %u does not exist", template)));
	aclresult = pg_class_aclcheck(template, GetUserId(), ACL_SELECT);
	if (aclresult != ACLCHECK_OK)
		aclcheck_error(aclresult, get_relkind_objtype(get_rel_relkind(template)),
					   get_rel_name(template));

	/* while we waited for the lock it may have been dropped */
	rel = try_relation_open(template, AccessShareLock);
	if (rel == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("template with OID %u does not exist", template)));

	if (rel->rd_rel->relkind == RELKIND_PARTITIONED_TABLE)
		refuse_template(rel, "partitions",
						"Use one of its partitions as template, or clone the schema by pgbillion_tables.clone_schemas().");
	if (rel->rd_rel->relkind != RELKIND_RELATION)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("template \"%s\" is not a table", RelationGetRelationName(rel)),
				 errhint("Create an ordinary table and use that as template.")));
	if (IsSystemRelation(rel))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("template \"%s\" is a system catalog", RelationGetRelationName(rel))));
	if (RELATION_IS_OTHER_TEMP(rel))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("template \"%s\" is a temporary table of another session",
						RelationGetRelationName(rel))));

	relation_close(rel, NoLock);
}

/*
 * Create a table like the template, with these parts of it, and return its
 * OID. `tablespace` is InvalidOid and `access_method` NULL for the default
 * one. Raises what CREATE TABLE and the other commands raise.
 */
Oid
prototype_create(Oid template, const List *parts, const char *relname, Oid namespaceid,
				 Oid tablespace, const char *access_method)
{
	StringInfoData sql;
	const char *separator = " WITH (";
	const char *namespace = quote_identifier(get_namespace_name(namespaceid));
	Oid			toast;
	Oid			prototype;
	char	   *comment;
	Relation	rel;

	rel = table_open(template, NoLock);
	toast = rel->rd_rel->reltoastrelid;

	initStringInfo(&sql);
	appendStringInfo(&sql, "CREATE %sTABLE %s.%s (LIKE %s.%s INCLUDING ALL)",
					 rel->rd_rel->relpersistence == RELPERSISTENCE_UNLOGGED ? "UNLOGGED " : "",
					 namespace, quote_identifier(relname),
					 quote_identifier(get_namespace_name(RelationGetNamespace(rel))),
					 quote_identifier(RelationGetRelationName(rel)));
	table_close(rel, NoLock);

	if (access_method != NULL)
		appendStringInfo(&sql, " USING %s", quote_identifier(access_method));
	append_storage_parameters(&sql, template, "", &separator);
	if (OidIsValid(toast))
		append_storage_parameters(&sql, toast, "toast.", &separator);
	if (separator[0] == ',')
		appendStringInfoChar(&sql, ')');

	if (OidIsValid(tablespace))
		appendStringInfo(&sql, " TABLESPACE %s", quote_identifier(get_tablespace_name(tablespace)));

	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");

	run(sql.data);
	prototype = get_relname_relid(relname, namespaceid);
	if (!OidIsValid(prototype))
		elog(ERROR, "table \"%s\" is not there after it was created", relname);

	comment = GetComment(template, RelationRelationId, 0);
	if (comment != NULL)
		run(psprintf("COMMENT ON TABLE %s.%s IS %s", namespace, quote_identifier(relname),
					 quote_literal_cstr(comment)));

	own_serial_sequences(template, prototype);
	template_parts_create(parts, template, prototype);

	SPI_finish();

	rel = table_open(prototype, NoLock);
	if (rel->rd_rel->relam != HEAP_TABLE_AM_OID && !relation_is_lazy_heap(rel))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot stamp tables of access method \"%s\"", get_am_name(rel->rd_rel->relam)),
				 errhint("Use access method heap or lazy_heap.")));
	table_close(rel, NoLock);

	return prototype;
}

static void
run(const char *sql)
{
	int			result = SPI_execute(sql, false, 0);

	if (result < 0)
		elog(ERROR, "SPI_execute failed: %s", SPI_result_code_string(result));
	CommandCounterIncrement();
}

/* The storage parameters of a relation, as WITH (…) has them. */
static void
append_storage_parameters(StringInfo sql, Oid relid, const char *namespace, const char **separator)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	bool		isnull;
	Datum		reloptions;
	Datum	   *options;
	int			noptions;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for relation %u", relid);
	reloptions = SysCacheGetAttr(RELOID, tuple, Anum_pg_class_reloptions, &isnull);
	if (!isnull)
	{
		deconstruct_array(DatumGetArrayTypeP(reloptions), TEXTOID, -1, false, TYPALIGN_INT,
						  &options, NULL, &noptions);
		for (int i = 0; i < noptions; i++)
		{
			char	   *name = TextDatumGetCString(options[i]);
			char	   *value = strchr(name, '=');

			Assert(value != NULL);
			*value++ = '\0';
			appendStringInfo(sql, "%s%s%s = %s", *separator, namespace, quote_identifier(name),
							 quote_literal_cstr(value));
			*separator = ", ";
		}
	}
	ReleaseSysCache(tuple);
}

/* ---- serial columns ---- */

/* Does a column own a sequence that is not an identity's? */
bool
template_has_serials(Oid template)
{
	ListCell   *lc;

	foreach(lc, getOwnedSequences(template))
	{
		Oid			tableid;
		int32		column;

		if (sequenceIsOwned(lfirst_oid(lc), DEPENDENCY_AUTO, &tableid, &column))
			return true;
	}
	return false;
}

typedef struct SequenceMap
{
	int			n;
	Oid		   *old;
	Oid		   *new;			/* InvalidOid until needed */
	const char **column;
	Relation	prototype;
	bool		replaced;
} SequenceMap;

/* Put the prototype's own sequences into an expression, making them if new. */
static bool
replace_sequences(Node *node, void *arg)
{
	SequenceMap *map = arg;

	if (node == NULL)
		return false;
	if (IsA(node, Const) && ((Const *) node)->consttype == REGCLASSOID && !((Const *) node)->constisnull)
	{
		Const	   *con = (Const *) node;

		for (int i = 0; i < map->n; i++)
		{
			if (DatumGetObjectId(con->constvalue) != map->old[i])
				continue;
			if (!OidIsValid(map->new[i]))
				map->new[i] = create_sequence_like(map->old[i], map->prototype, map->column[i]);
			con->constvalue = ObjectIdGetDatum(map->new[i]);
			map->replaced = true;
			break;
		}
	}
	return expression_tree_walker(node, replace_sequences, arg);
}

/*
 * Give the prototype sequences of its own in place of those that the
 * template's columns own and the defaults, copied by LIKE, still call.
 */
static void
own_serial_sequences(Oid template, Oid prototype)
{
	List	   *sequences = getOwnedSequences(template);
	SequenceMap map = {0};
	ListCell   *lc;
	int			natts;

	if (sequences == NIL)
		return;

	map.old = palloc(list_length(sequences) * sizeof(Oid));
	map.new = palloc0(list_length(sequences) * sizeof(Oid));
	map.column = palloc(list_length(sequences) * sizeof(char *));
	foreach(lc, sequences)
	{
		Oid			tableid;
		int32		column;

		/* those of identity columns are LIKE's affair */
		if (!sequenceIsOwned(lfirst_oid(lc), DEPENDENCY_AUTO, &tableid, &column))
			continue;
		map.old[map.n] = lfirst_oid(lc);
		map.column[map.n++] = get_attname(template, column, false);
	}

	map.prototype = table_open(prototype, NoLock);
	natts = RelationGetNumberOfAttributes(map.prototype);
	for (AttrNumber attnum = 1; attnum <= natts; attnum++)
	{
		Oid			attrdef = GetAttrDefaultOid(prototype, attnum);
		HeapTuple	tuple;
		Node	   *expression;
		bool		isnull;
		Relation	rel;
		ScanKeyData key;
		SysScanDesc scan;

		if (!OidIsValid(attrdef))
			continue;

		rel = table_open(AttrDefaultRelationId, AccessShareLock);
		ScanKeyInit(&key, Anum_pg_attrdef_oid, BTEqualStrategyNumber, F_OIDEQ,
					ObjectIdGetDatum(attrdef));
		scan = systable_beginscan(rel, AttrDefaultOidIndexId, true, NULL, 1, &key);
		tuple = systable_getnext(scan);
		if (!HeapTupleIsValid(tuple))
			elog(ERROR, "could not find default %u", attrdef);
		expression = stringToNode(TextDatumGetCString(heap_getattr(tuple, Anum_pg_attrdef_adbin,
																   RelationGetDescr(rel), &isnull)));
		systable_endscan(scan);
		table_close(rel, AccessShareLock);

		map.replaced = false;
		replace_sequences(expression, &map);
		if (map.replaced)
		{
			RemoveAttrDefault(prototype, attnum, DROP_RESTRICT, false, true);
			CommandCounterIncrement();
			StoreAttrDefault(map.prototype, attnum, expression, false);
			CommandCounterIncrement();
		}
	}
	table_close(map.prototype, NoLock);
}

/*
 * The sequence that `serial` would make for a column of the prototype, with
 * the options of the template's.
 */
static Oid
create_sequence_like(Oid sequence, Relation prototype, const char *column)
{
	Oid			namespaceid = RelationGetNamespace(prototype);
	const char *namespace = quote_identifier(get_namespace_name(namespaceid));
	char	   *name = ChooseRelationName(RelationGetRelationName(prototype), column, "seq",
										  namespaceid, false);
	HeapTuple	tuple = SearchSysCache1(SEQRELID, ObjectIdGetDatum(sequence));
	Form_pg_sequence form;
	Oid			result;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for sequence %u", sequence);
	form = (Form_pg_sequence) GETSTRUCT(tuple);

	run(psprintf("CREATE %sSEQUENCE %s.%s AS %s INCREMENT BY " INT64_FORMAT
				 " MINVALUE " INT64_FORMAT " MAXVALUE " INT64_FORMAT " START WITH " INT64_FORMAT
				 " CACHE " INT64_FORMAT " %sCYCLE OWNED BY %s.%s.%s",
				 prototype->rd_rel->relpersistence == RELPERSISTENCE_UNLOGGED ? "UNLOGGED " : "",
				 namespace, quote_identifier(name), format_type_be(form->seqtypid),
				 form->seqincrement, form->seqmin, form->seqmax, form->seqstart, form->seqcache,
				 form->seqcycle ? "" : "NO ",
				 namespace, quote_identifier(RelationGetRelationName(prototype)),
				 quote_identifier(column)));
	ReleaseSysCache(tuple);

	result = get_relname_relid(name, namespaceid);
	if (!OidIsValid(result))
		elog(ERROR, "sequence \"%s\" is not there after it was created", name);
	return result;
}

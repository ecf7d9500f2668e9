/*-------------------------------------------------------------------------
 *
 * prototype.c
 *	  The first tables of a batch, made by PostgreSQL.
 *
 * The definition of 'a table like the template' is a sequence of ordinary
 * commands, run as the caller: CREATE TABLE … (LIKE … INCLUDING ALL) with the
 * template's storage parameters, or partitioned as it is; its comment; for
 * serial columns, which LIKE would leave on the template's sequence, a sequence
 * of the new table's own; and what parts.c has read. Privileges are checked,
 * locks taken and default privileges applied by these commands. template_tree.c has the
 * order in which they are run for a template with partitions.
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
#include "nodes/parsenodes.h"
#include "tcop/tcopprot.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/fmgrprotos.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "create/create.h"
#include "lazy_heap/lazy_heap.h"

static void append_storage_parameters(StringInfo sql, Oid relid, const char *namespace,
									  const char **separator);
static const char *like_options(const TreeNode *node);
static void create_partitioned(const TreeNode *node, Relation template, const char *relname,
							   Oid namespaceid, Oid tablespace);
static Oid	create_sequence_like(Oid sequence, Oid relid, const char *column);
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

	if (rel->rd_rel->relkind != RELKIND_RELATION && rel->rd_rel->relkind != RELKIND_PARTITIONED_TABLE)
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
 * Create a table like a node's template, without its parts and sequences of
 * its own, and return its OID. `tablespace` is InvalidOid and `access_method`
 * NULL for the default one. Raises what CREATE TABLE raises.
 */
Oid
prototype_create(const TreeNode *node, const char *relname, Oid namespaceid, Oid tablespace,
				 const char *access_method)
{
	StringInfoData sql;
	const char *separator = " WITH (";
	const char *namespace = quote_identifier(get_namespace_name(namespaceid));
	Oid			prototype;
	char	   *comment;
	Relation	rel;

	template_check(node);
	rel = table_open(node->template, NoLock);
	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	if (node->is_partitioned)
		create_partitioned(node, rel, relname, namespaceid, tablespace);
	else
	{
		initStringInfo(&sql);
		appendStringInfo(&sql, "CREATE %sTABLE %s.%s (LIKE %s %s)",
						 rel->rd_rel->relpersistence == RELPERSISTENCE_UNLOGGED ? "UNLOGGED " : "",
						 namespace, quote_identifier(relname), ddl_table_name(rel), like_options(node));
		if (access_method != NULL)
			appendStringInfo(&sql, " USING %s", quote_identifier(access_method));
		append_storage_parameters(&sql, node->template, "", &separator);
		if (OidIsValid(rel->rd_rel->reltoastrelid))
			append_storage_parameters(&sql, rel->rd_rel->reltoastrelid, "toast.", &separator);
		if (separator[0] == ',')
			appendStringInfoChar(&sql, ')');
		if (OidIsValid(tablespace))
			appendStringInfo(&sql, " TABLESPACE %s",
							 quote_identifier(get_tablespace_name(tablespace)));
		run(sql.data);
	}
	table_close(rel, NoLock);
	/* was it that which LIKE has found under its name? */
	template_check(node);

	prototype = get_relname_relid(relname, namespaceid);
	if (!OidIsValid(prototype))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("table \"%s\" is not there after it was created", relname)));

	comment = GetComment(node->template, RelationRelationId, 0);
	if (comment != NULL)
		run(psprintf("COMMENT ON TABLE %s.%s IS %s", namespace, quote_identifier(relname),
					 quote_literal_cstr(comment)));
	SPI_finish();

	rel = table_open(prototype, NoLock);
	if (rel->rd_rel->relkind == RELKIND_RELATION && rel->rd_rel->relam != HEAP_TABLE_AM_OID &&
		!relation_is_lazy_heap(rel))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot stamp tables of access method \"%s\"", get_am_name(rel->rd_rel->relam)),
				 errhint("Use access method heap or lazy_heap.")));
	table_close(rel, NoLock);

	return prototype;
}

/* From 17 on a partition's identity is its parent's; none may be attached that has one of its own. */
static const char *
like_options(const TreeNode *node)
{
#if PG_VERSION_NUM >= 170000
	if (node->parent >= 0)
		return "INCLUDING ALL EXCLUDING IDENTITY";
#endif
	return "INCLUDING ALL";
}

/*
 * The statement is made about the template, and then of the new table: before
 * 17, stored expressions note where in the text they were, which has to be the
 * same place for every table.
 */
static void
create_partitioned(const TreeNode *node, Relation template, const char *relname, Oid namespaceid,
				   Oid tablespace)
{
	int			nestlevel = ddl_settle_commands();
	const char *key = TextDatumGetCString(DirectFunctionCall1(pg_get_partkeydef,
															  ObjectIdGetDatum(node->template)));
	bool		is_default = tablespace == MyDatabaseTableSpace;
	char	   *sql;
	CreateStmt *create;
	Oid			created;

	/*
	 * the database's own, said by name, is not for partitioned tables; not
	 * said, it is
	 */
	if (get_tablespace_oid(GetConfigOption("default_tablespace", false, false), true) == MyDatabaseTableSpace)
		ddl_settle_setting("default_tablespace", "");

	sql = psprintf("CREATE %sTABLE %s (LIKE %s %s) PARTITION BY %s%s%s",
				   template->rd_rel->relpersistence == RELPERSISTENCE_UNLOGGED ? "UNLOGGED " : "",
				   ddl_table_name(template), ddl_table_name(template), like_options(node), key,
				   OidIsValid(tablespace) && !is_default ? " TABLESPACE " : "",
				   OidIsValid(tablespace) && !is_default ?
				   quote_identifier(get_tablespace_name(tablespace)) : "");
	create = castNode(CreateStmt, linitial_node(RawStmt, pg_parse_query(sql))->stmt);
	create->relation->schemaname = pstrdup(get_namespace_name(namespaceid));
	create->relation->relname = pstrdup(relname);
	ddl_run_statement((Node *) create, sql);

	/*
	 * CREATE TABLE does not take the database's own, which default_tablespace
	 * may have replaced
	 */
	created = get_relname_relid(relname, namespaceid);
	if (is_default && OidIsValid(created) && OidIsValid(get_rel_tablespace(created)))
		run(psprintf("ALTER TABLE ONLY %s.%s SET TABLESPACE %s",
					 quote_identifier(get_namespace_name(namespaceid)), quote_identifier(relname),
					 quote_identifier(get_tablespace_name(tablespace))));
	AtEOXact_GUC(true, nestlevel);
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

typedef struct SequenceMap
{
	int			n;
	Oid		   *old;
	Oid		   *new;			/* InvalidOid until needed */
	Oid		   *owner;			/* the prototype whose it will be */
	const char **column;
	bool		replaced;
} SequenceMap;

static void map_sequences(SequenceMap *map, Oid template, Oid prototype);
static void *grown(void *array, Size size);
static void replace_in_defaults(SequenceMap *map, Oid prototype);

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
				map->new[i] = create_sequence_like(map->old[i], map->owner[i], map->column[i]);
			con->constvalue = ObjectIdGetDatum(map->new[i]);
			map->replaced = true;
			break;
		}
	}
	return expression_tree_walker(node, replace_sequences, arg);
}

/*
 * Give the tables made after the nodes of a tree sequences of their own in
 * place of those that the templates' columns own and the defaults, copied by
 * LIKE, still call; a partition's may call one of the partitioned table's.
 */
void
prototypes_own_sequences(const TemplateTree *tree, const Oid *created)
{
	SequenceMap map = {0};

	for (int i = 0; i < tree->nnodes; i++)
		map_sequences(&map, tree->nodes[i].template, created[i]);
	if (map.n == 0)
		return;
	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	for (int i = 0; i < tree->nnodes; i++)
	{
		(void) template_created_name(tree, i, created[i]);
		replace_in_defaults(&map, created[i]);
	}
	SPI_finish();
}

static void
map_sequences(SequenceMap *map, Oid template, Oid prototype)
{
	List	   *sequences = getOwnedSequences(template);
	int			size = map->n + list_length(sequences);
	ListCell   *lc;

	if (sequences == NIL)
		return;
	map->old = grown(map->old, size * sizeof(Oid));
	map->new = grown(map->new, size * sizeof(Oid));
	map->owner = grown(map->owner, size * sizeof(Oid));
	map->column = grown(map->column, size * sizeof(char *));
	foreach(lc, sequences)
	{
		Oid			tableid;
		int32		column;

		/* those of identity columns are LIKE's affair */
		if (!sequenceIsOwned(lfirst_oid(lc), DEPENDENCY_AUTO, &tableid, &column))
			continue;
		map->old[map->n] = lfirst_oid(lc);
		map->new[map->n] = InvalidOid;
		map->owner[map->n] = prototype;
		map->column[map->n++] = get_attname(template, column, false);
	}
}

static void *
grown(void *array, Size size)
{
	return array == NULL ? palloc(size) : repalloc(array, size);
}

static void
replace_in_defaults(SequenceMap *map, Oid relid)
{
	Relation	prototype;
	int			natts;

	prototype = table_open(relid, NoLock);
	natts = RelationGetNumberOfAttributes(prototype);
	for (AttrNumber attnum = 1; attnum <= natts; attnum++)
	{
		Oid			attrdef = GetAttrDefaultOid(relid, attnum);
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

		map->replaced = false;
		replace_sequences(expression, map);
		if (map->replaced)
		{
			RemoveAttrDefault(relid, attnum, DROP_RESTRICT, false, true);
			CommandCounterIncrement();
			StoreAttrDefault(prototype, attnum, expression, false);
			CommandCounterIncrement();
		}
	}
	table_close(prototype, NoLock);
}

/*
 * The sequence that `serial` would make for a column of the prototype, with
 * the options of the template's.
 */
static Oid
create_sequence_like(Oid sequence, Oid relid, const char *column)
{
	Relation	prototype = table_open(relid, NoLock);
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
	table_close(prototype, NoLock);

	result = get_relname_relid(name, namespaceid);
	if (!OidIsValid(result))
		elog(ERROR, "sequence \"%s\" is not there after it was created", name);
	return result;
}

/*-------------------------------------------------------------------------
 *
 * row.c
 *	  A catalog row in a form that says nothing of the schema.
 *
 * What each column of a catalog refers to is what catalog_map.c says.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_am.h"
#include "catalog/pg_attribute.h"
#include "catalog/pg_class.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_description.h"
#include "catalog/pg_index.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_seclabel.h"
#include "catalog/pg_trigger.h"
#include "catalog/pg_type.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/varlena.h"

#include "catalog_rows/catalog_rows.h"
#include "fingerprint/fingerprint.h"

/* How a column is written. */
typedef enum ColumnKind
{
	COLUMN_LEFT_OUT,
	COLUMN_PLAIN,
	COLUMN_BODY,
	COLUMN_OID,
	COLUMN_OIDS,
	COLUMN_NAME,
	COLUMN_TREE,
	COLUMN_GRANTS,
	COLUMN_OPTIONS,
	COLUMN_SETTINGS,
	COLUMN_ACCESS_METHOD
} ColumnKind;

typedef struct ShapeColumn
{
	ColumnKind	kind;
	Oid			refers_to;		/* a catalog, for OIDs */
} ShapeColumn;

typedef struct RowShape
{
	Oid			catalog;
	ShapeColumn *columns;
} RowShape;

/* No more catalogs are looked at. */
#define MAX_SHAPES 40

/*
 * What says nothing about a definition: numbers of objects and files, where
 * they are, statistics, and hints that may be out of date.
 */
static const struct
{
	Oid			catalog;
	const char *column;
}			left_out[] = {
	{NamespaceRelationId, "nspname"},
	{RelationRelationId, "reltype"},
	{RelationRelationId, "relfilenode"},
	{RelationRelationId, "reltablespace"},
	{RelationRelationId, "relpages"},
	{RelationRelationId, "reltuples"},
	{RelationRelationId, "relallvisible"},
	{RelationRelationId, "relallfrozen"},
	{RelationRelationId, "reltoastrelid"},
	{RelationRelationId, "relhasindex"},
	{RelationRelationId, "relhasrules"},
	{RelationRelationId, "relhastriggers"},
	{RelationRelationId, "relhassubclass"},
	{RelationRelationId, "relispopulated"},
	{RelationRelationId, "relrewrite"},
	{RelationRelationId, "relfrozenxid"},
	{RelationRelationId, "relminmxid"},
	{AttributeRelationId, "attcacheoff"},
	{AttributeRelationId, "atthasmissing"},
	{AttributeRelationId, "attmissingval"},
	{IndexRelationId, "indcheckxmin"},
	{TriggerRelationId, "tgparentid"},
	{TypeRelationId, "typarray"},
	/* the caller has put what these are about */
	{DescriptionRelationId, "objoid"},
	{SecLabelRelationId, "objoid"},
};

static const RowShape *shape_of(Fingerprinter *printer, Relation rel);
static ShapeColumn shape_of_column(const Fingerprinter *printer, Oid catalog, Form_pg_attribute att);
static void put_column(Fingerprinter *printer, int schema, Form_pg_attribute att, ShapeColumn column, Datum value);
static void put_grants(Fingerprinter *printer, const Acl *acl);
static void put_options(Fingerprinter *printer, ArrayType *options);
static void put_settings(Fingerprinter *printer, int schema, ArrayType *settings);

/* Adds the row to what printer->row holds. */
void
fingerprint_put_row(Fingerprinter *printer, int schema, Relation rel, HeapTuple tuple)
{
	TupleDesc	tupdesc = RelationGetDescr(rel);
	const RowShape *shape = shape_of(printer, rel);
	Datum		values[MaxHeapAttributeNumber];
	bool		nulls[MaxHeapAttributeNumber];
	MemoryContext old = MemoryContextSwitchTo(printer->row_context);

	appendBinaryStringInfo(&printer->row, (const char *) &shape->catalog, sizeof(Oid));
	heap_deform_tuple(tuple, tupdesc, values, nulls);
	for (int i = 0; i < tupdesc->natts; i++)
	{
		if (shape->columns[i].kind == COLUMN_LEFT_OUT)
			continue;
		appendStringInfoChar(&printer->row, nulls[i] ? 'n' : 'v');
		if (!nulls[i])
			put_column(printer, schema, TupleDescAttr(tupdesc, i), shape->columns[i], values[i]);
	}
	MemoryContextSwitchTo(old);
	MemoryContextReset(printer->row_context);
}

static const RowShape *
shape_of(Fingerprinter *printer, Relation rel)
{
	RowShape   *shape;

	for (int i = 0; i < printer->nshapes; i++)
		if (printer->shapes[i].catalog == RelationGetRelid(rel))
			return &printer->shapes[i];
	if (printer->nshapes == MAX_SHAPES)
		elog(ERROR, "too many catalogs");
	if (printer->shapes == NULL)
		printer->shapes = palloc(MAX_SHAPES * sizeof(RowShape));
	shape = &printer->shapes[printer->nshapes++];
	shape->catalog = RelationGetRelid(rel);
	shape->columns = palloc(RelationGetDescr(rel)->natts * sizeof(ShapeColumn));
	for (int i = 0; i < RelationGetDescr(rel)->natts; i++)
		shape->columns[i] = shape_of_column(printer, shape->catalog, TupleDescAttr(RelationGetDescr(rel), i));
	return shape;
}

static ShapeColumn
shape_of_column(const Fingerprinter *printer, Oid catalog, Form_pg_attribute att)
{
	const char *name = NameStr(att->attname);
	ShapeColumn column = {COLUMN_PLAIN, InvalidOid};
	bool		is_array = false;

	if (strcmp(name, "oid") == 0)
		column.kind = COLUMN_LEFT_OUT;
	for (int i = 0; i < lengthof(left_out); i++)
		if (left_out[i].catalog == catalog && strcmp(left_out[i].column, name) == 0)
			column.kind = COLUMN_LEFT_OUT;
	if (catalog == ProcedureRelationId && att->attnum == Anum_pg_proc_prosrc)
		column.kind = COLUMN_BODY;
	if (printer->with_tablespaces && catalog == RelationRelationId && strcmp(name, "reltablespace") == 0)
		column.kind = COLUMN_PLAIN;
	if (column.kind == COLUMN_LEFT_OUT || column.kind == COLUMN_BODY)
		return column;

	column.refers_to = catalog_referred_to(catalog, name, &is_array);
	if (OidIsValid(column.refers_to))
		column.kind = is_array ? COLUMN_OIDS : COLUMN_OID;
	if (catalog == RelationRelationId && strcmp(name, "relam") == 0)
		column.kind = COLUMN_ACCESS_METHOD;
	else if (att->atttypid == NAMEOID)
		column.kind = COLUMN_NAME;
	else if (att->atttypid == PG_NODE_TREEOID)
		column.kind = COLUMN_TREE;
	else if (att->atttypid == ACLITEMARRAYOID)
		column.kind = COLUMN_GRANTS;
	else if (catalog == AttributeRelationId && strcmp(name, "attoptions") == 0)
		column.kind = COLUMN_OPTIONS;
	else if (catalog == ProcedureRelationId && att->attnum == Anum_pg_proc_proconfig)
		column.kind = COLUMN_SETTINGS;
	return column;
}

static void
put_column(Fingerprinter *printer, int schema, Form_pg_attribute att, ShapeColumn column, Datum value)
{
	switch (column.kind)
	{
		case COLUMN_LEFT_OUT:
			break;
		case COLUMN_ACCESS_METHOD:
			/* a lazy table becomes heap with its first row */
			if (DatumGetObjectId(value) == printer->lazy_heap)
				value = ObjectIdGetDatum(HEAP_TABLE_AM_OID);
			/* FALLTHROUGH */
		case COLUMN_OID:
			fingerprint_put_oid(printer, schema, column.refers_to, DatumGetObjectId(value));
			break;
		case COLUMN_OIDS:
			{
				/* oidvector, or oid[] without nulls, has the same form */
				ArrayType  *array = DatumGetArrayTypeP(value);
				int			n = ArrayGetNItems(ARR_NDIM(array), ARR_DIMS(array));

				appendBinaryStringInfo(&printer->row, (const char *) &n, sizeof(int));
				for (int i = 0; i < n; i++)
					fingerprint_put_oid(printer, schema, column.refers_to, ((Oid *) ARR_DATA_PTR(array))[i]);
				break;
			}
		case COLUMN_NAME:
			fingerprint_put_name(printer, schema, NameStr(*DatumGetName(value)));
			break;
		case COLUMN_TREE:
			fingerprint_put_tree(printer, schema, TextDatumGetCString(value));
			break;
		case COLUMN_GRANTS:
			put_grants(printer, DatumGetAclP(value));
			break;
		case COLUMN_OPTIONS:
			put_options(printer, DatumGetArrayTypeP(value));
			break;
		case COLUMN_SETTINGS:
			put_settings(printer, schema, DatumGetArrayTypeP(value));
			break;
		case COLUMN_PLAIN:
			if (att->attbyval)
				appendBinaryStringInfo(&printer->row, (const char *) &value, sizeof(Datum));
			else if (att->attlen > 0)
				appendBinaryStringInfo(&printer->row, DatumGetPointer(value), att->attlen);
			else
			{
				struct varlena *bytes = PG_DETOAST_DATUM_PACKED(value);

				fingerprint_put_bytes(printer, schema, VARDATA_ANY(bytes), VARSIZE_ANY_EXHDR(bytes));
			}
			break;
		case COLUMN_BODY:
			{
				text	   *body = DatumGetTextPP(value);

				fingerprint_put_body(printer, schema, VARDATA_ANY(body), VARSIZE_ANY_EXHDR(body));
				break;
			}
	}
}

/* In whatever order they were granted. */
static void
put_grants(Fingerprinter *printer, const Acl *acl)
{
	Digest		sum = {0, 0};

	for (int i = 0; i < ACL_NUM(acl); i++)
	{
		const AclItem *item = &ACL_DAT(acl)[i];
		uint64		parts[3] = {item->ai_grantee, item->ai_grantor, item->ai_privs};
		Digest		digest = fingerprint_digest((const char *) parts, sizeof(parts));

		sum.low += digest.low;
		sum.high += digest.high;
	}
	appendBinaryStringInfo(&printer->row, (const char *) &sum, sizeof(Digest));
}

/* Minor releases since November 2026 note among a column's options when its row type last changed. */
static void
put_options(Fingerprinter *printer, ArrayType *options)
{
	Datum	   *elements;
	int			n;

	deconstruct_array(options, TEXTOID, -1, false, TYPALIGN_INT, &elements, NULL, &n);
	for (int i = 0; i < n; i++)
	{
		const char *option = TextDatumGetCString(elements[i]);

		if (strncmp(option, "pg_attver=", strlen("pg_attver=")) != 0)
			appendBinaryStringInfo(&printer->row, option, strlen(option) + 1);
	}
}

/* Those of a function, which can have its own schema in its search path. */
static void
put_settings(Fingerprinter *printer, int schema, ArrayType *settings)
{
	static const char path[] = "search_path=";
	Datum	   *elements;
	int			n;

	deconstruct_array(settings, TEXTOID, -1, false, TYPALIGN_INT, &elements, NULL, &n);
	appendBinaryStringInfo(&printer->row, (const char *) &n, sizeof(int));
	for (int i = 0; i < n; i++)
	{
		char	   *setting = TextDatumGetCString(elements[i]);
		List	   *names;

		if (strncmp(setting, path, strlen(path)) == 0 &&
			SplitIdentifierString(pstrdup(setting + strlen(path)), ',', &names))
			fingerprint_put_path(printer, schema, names);
		else
			fingerprint_put_bytes(printer, schema, setting, strlen(setting));
	}
}

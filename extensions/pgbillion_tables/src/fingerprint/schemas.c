/*-------------------------------------------------------------------------
 *
 * schemas.c
 *	  Fingerprints of schemas: which rows are about which schema.
 *
 * All schemas of a call are read together: what is found by a key in one
 * catalog is a key for the next, and the keys of a catalog are looked for in
 * the order of its index. Members are entered with their identities first,
 * in an order in which each can be told by those before it. Then the rows
 * are read and written without OIDs.
 *
 * All is read as the active snapshot sees it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/table.h"
#include "catalog/indexing.h"
#include "catalog/pg_aggregate.h"
#include "catalog/pg_attrdef.h"
#include "catalog/pg_attribute.h"
#include "catalog/pg_cast.h"
#include "catalog/pg_class.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_default_acl.h"
#include "catalog/pg_depend.h"
#include "catalog/pg_description.h"
#include "catalog/pg_enum.h"
#include "catalog/pg_extension.h"
#include "catalog/pg_foreign_table.h"
#include "catalog/pg_index.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_partitioned_table.h"
#include "catalog/pg_policy.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_publication_namespace.h"
#include "catalog/pg_range.h"
#include "catalog/pg_rewrite.h"
#include "catalog/pg_seclabel.h"
#include "catalog/pg_sequence.h"
#include "catalog/pg_statistic_ext.h"
#include "catalog/pg_trigger.h"
#include "catalog/pg_type.h"
#include "commands/defrem.h"
#include "commands/trigger.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/tuplestore.h"

#include "catalog_rows/catalog_rows.h"
#include "fingerprint/fingerprint.h"

PG_FUNCTION_INFO_V1(pgbillion_schema_fingerprints);

/* Keys of one kind of member. */
typedef struct Keys
{
	CatalogKey *keys;
	int			n;
	int			size;
} Keys;

typedef struct Reading
{
	Fingerprinter printer;
	Snapshot	snapshot;
	Keys		schemas;
	Keys		relations;		/* tables, views, sequences, composite types */
	Keys		with_columns;	/* of these, those with columns of interest */
	Keys		indexed;		/* tables and materialized views */
	Keys		sequences;
	Keys		toast;
	Keys		indexes;
	Keys		types;
	Keys		other_types;	/* of rows, and of several ranges, for the
								 * sake of their arrays */
	Keys		enums;
	Keys		domains;
	Keys		ranges;
	Keys		procs;
	Keys		statistics;
	Keys		default_grants;
	Keys		described;		/* whatever can have a comment */
} Reading;

static void begin(Reading *reading, const Oid *schemas, int n);
static void read_members(Reading *reading);
static void read_rows(Reading *reading);
static void check_may_read(Oid catalog);
static void scan(Reading *reading, int lookup, Keys *keys, CatalogRowCallback callback);
static void add_key(Keys *keys, Oid classid, Oid objid, int schema);
static FingerprintMember *add_member(Reading *reading, Oid classid, Oid objid, int schema, char kind);
static void begin_row(Reading *reading, char what);
static void end_row(Reading *reading, int schema);
static void add_to_schema(HeapTuple tuple, Relation rel, const CatalogKey *key, void *arg);
static void enter_schema(HeapTuple tuple, Relation rel, const CatalogKey *key, void *arg);
static void enter_type(HeapTuple tuple, Relation rel, const CatalogKey *key, void *arg);
static void enter_array(HeapTuple tuple, Relation rel, const CatalogKey *key, void *arg);
static void enter_range(HeapTuple tuple, Relation rel, const CatalogKey *key, void *arg);
static void enter_enum(HeapTuple tuple, Relation rel, const CatalogKey *key, void *arg);
static void enter_relation(HeapTuple tuple, Relation rel, const CatalogKey *key, void *arg);
static void enter_index(HeapTuple tuple, Relation rel, const CatalogKey *key, void *arg);
static void enter_constraint(HeapTuple tuple, Relation rel, const CatalogKey *key, void *arg);
static void enter_proc(HeapTuple tuple, Relation rel, const CatalogKey *key, void *arg);
static void put_any(HeapTuple tuple, Relation rel, const CatalogKey *key, void *arg);
static void put_column(HeapTuple tuple, Relation rel, const CatalogKey *key, void *arg);
static void put_casts(Reading *reading);
static int	schema_of_type(const Reading *reading, Oid type);
static void put_trigger(HeapTuple tuple, Relation rel, const CatalogKey *key, void *arg);
static void put_described(HeapTuple tuple, Relation rel, const CatalogKey *key, void *arg);
static void put_toast(HeapTuple tuple, Relation rel, const CatalogKey *key, void *arg);
static void put_owner(HeapTuple tuple, Relation rel, const CatalogKey *key, void *arg);
static void put_remark(HeapTuple tuple, Relation rel, const CatalogKey *key, void *arg);

/*
 * pgbillion_tables.schema_fingerprints(schemas oid[]) returns setof
 *				  (schema oid, fingerprint text, tables bigint)
 *		A row for each of the schemas that is there. The fingerprint is null
 *		if the schema has objects that are not looked at.
 */
Datum
pgbillion_schema_fingerprints(PG_FUNCTION_ARGS)
{
	Reading		reading = {0};
	ReturnSetInfo *rsinfo;
	Datum	   *elements;
	bool	   *nulls;
	Oid		   *schemas;
	int			n;
	int			nschemas = 0;

	InitMaterializedSRF(fcinfo, 0);
	rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	if (PG_ARGISNULL(0))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("schemas must not be null")));

	deconstruct_array(PG_GETARG_ARRAYTYPE_P(0), OIDOID, sizeof(Oid), true, TYPALIGN_INT, &elements, &nulls, &n);
	schemas = palloc(Max(1, n) * sizeof(Oid));
	for (int i = 0; i < n; i++)
		if (!nulls[i])
			schemas[nschemas++] = DatumGetObjectId(elements[i]);

	begin(&reading, schemas, nschemas);
	read_members(&reading);
	read_rows(&reading);

	for (int i = 0; i < reading.printer.nschemas; i++)
	{
		const FingerprintedSchema *schema = &reading.printer.schemas[i];
		Datum		values[3];
		bool		nulls[3] = {false};

		if (schema->name == NULL)
			continue;
		values[0] = ObjectIdGetDatum(schema->oid);
		nulls[1] = schema->unknown;
		values[1] = CStringGetTextDatum(psprintf("%016llx%016llx", (unsigned long long) schema->sum.high,
												 (unsigned long long) schema->sum.low));
		values[2] = Int64GetDatum(schema->tables);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}

/*
 * Are two schemas the same, down to the tablespaces of what is in them? False
 * if that takes more than fingerprints. The active snapshot sees both.
 */
bool
fingerprints_are_same(Oid schema, Oid other)
{
	Reading		reading = {.printer.with_tablespaces = true};
	Oid			schemas[] = {schema, other};
	const FingerprintedSchema *found;

	begin(&reading, schemas, lengthof(schemas));
	read_members(&reading);
	read_rows(&reading);

	found = reading.printer.schemas;
	return reading.printer.nschemas == 2 && found[0].name != NULL && found[1].name != NULL &&
		!found[0].unknown && !found[1].unknown &&
		found[0].sum.low == found[1].sum.low && found[0].sum.high == found[1].sum.high;
}

/* Each schema once, whether it is there or not. */
static void
begin(Reading *reading, const Oid *schemas, int n)
{
	HASHCTL		control = {
		.keysize = 2 * sizeof(Oid),
		.entrysize = sizeof(FingerprintMember),
		.hcxt = CurrentMemoryContext
	};
	Fingerprinter *printer = &reading->printer;

	reading->snapshot = GetActiveSnapshot();
	printer->members = hash_create("pgbillion fingerprints", 4096, &control,
								   HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	initStringInfo(&printer->row);
	printer->row_context = AllocSetContextCreate(CurrentMemoryContext, "pgbillion row", ALLOCSET_DEFAULT_SIZES);
	printer->lazy_heap = get_table_am_oid("lazy_heap", true);

	printer->schemas = palloc0(Max(1, n) * sizeof(FingerprintedSchema));
	for (int i = 0; i < n; i++)
	{
		Oid			key[] = {NamespaceRelationId, schemas[i]};

		if (hash_search(printer->members, key, HASH_FIND, NULL) != NULL)
			continue;
		printer->schemas[printer->nschemas].oid = key[1];
		add_key(&reading->schemas, key[0], key[1], printer->nschemas);
		(void) add_member(reading, key[0], key[1], printer->nschemas, '\0');
		printer->nschemas++;
	}
}

/* Enter all members with their identities. */
static void
read_members(Reading *reading)
{
	scan(reading, CATALOG_NAMESPACE, &reading->schemas, enter_schema);
	scan(reading, DEPEND_BY_REFERENCE, &reading->schemas, add_to_schema);
	scan(reading, CATALOG_TYPE, &reading->types, enter_type);
	scan(reading, CATALOG_RANGE, &reading->ranges, enter_range);
	scan(reading, ENUM_BY_TYPE, &reading->enums, enter_enum);
	scan(reading, CATALOG_CLASS, &reading->relations, enter_relation);
	scan(reading, CATALOG_TYPE, &reading->other_types, enter_array);
	scan(reading, INDEX_BY_TABLE, &reading->indexed, enter_index);
	scan(reading, CATALOG_CLASS, &reading->indexes, enter_relation);
	scan(reading, CONSTRAINT_BY_TABLE, &reading->with_columns, enter_constraint);
	scan(reading, CONSTRAINT_BY_DOMAIN, &reading->domains, enter_constraint);
	scan(reading, CATALOG_PROC, &reading->procs, enter_proc);
}

/* Write all rows, when all members are known. */
static void
read_rows(Reading *reading)
{
	scan(reading, CATALOG_NAMESPACE, &reading->schemas, put_any);
	scan(reading, CATALOG_TYPE, &reading->types, put_any);
	scan(reading, CATALOG_RANGE, &reading->ranges, put_any);
	scan(reading, ENUM_BY_TYPE, &reading->enums, put_any);
	scan(reading, CATALOG_CLASS, &reading->relations, put_any);
	scan(reading, CATALOG_CLASS, &reading->toast, put_toast);
	scan(reading, CATALOG_ATTRIBUTE, &reading->with_columns, put_column);
	scan(reading, ATTRDEF_BY_TABLE, &reading->with_columns, put_any);
	scan(reading, CATALOG_INHERITS, &reading->with_columns, put_any);
	scan(reading, CATALOG_PARTITIONED_TABLE, &reading->with_columns, put_any);
	scan(reading, FOREIGN_TABLE_BY_TABLE, &reading->with_columns, put_any);
	scan(reading, CATALOG_SEQUENCE, &reading->sequences, put_any);
	scan(reading, CATALOG_DEPEND, &reading->sequences, put_owner);
	scan(reading, INDEX_BY_TABLE, &reading->indexed, put_any);
	scan(reading, CATALOG_CLASS, &reading->indexes, put_any);
	scan(reading, CATALOG_INHERITS, &reading->indexes, put_any);
	scan(reading, CONSTRAINT_BY_TABLE, &reading->with_columns, put_any);
	scan(reading, CONSTRAINT_BY_DOMAIN, &reading->domains, put_any);
	scan(reading, TRIGGER_BY_TABLE, &reading->with_columns, put_trigger);
	scan(reading, RULE_BY_TABLE, &reading->with_columns, put_described);
	scan(reading, POLICY_BY_TABLE, &reading->with_columns, put_described);
	scan(reading, CATALOG_PROC, &reading->procs, put_any);
	scan(reading, CATALOG_AGGREGATE, &reading->procs, put_any);
	scan(reading, CATALOG_STATISTIC_EXT, &reading->statistics, put_described);
	scan(reading, CATALOG_DEFAULT_ACL, &reading->default_grants, put_any);
	put_casts(reading);
	scan(reading, CATALOG_DESCRIPTION, &reading->described, put_remark);
	scan(reading, CATALOG_SECLABEL, &reading->described, put_remark);
}

/* What SQL may not read is not read here. */
static void
check_may_read(Oid catalog)
{
	AclResult	aclresult = pg_class_aclcheck(catalog, GetUserId(), ACL_SELECT);

	if (aclresult != ACLCHECK_OK)
		aclcheck_error(aclresult, OBJECT_TABLE, get_rel_name(catalog));
}

static void
scan(Reading *reading, int lookup, Keys *keys, CatalogRowCallback callback)
{
	check_may_read(catalog_map[lookup].catalog);
	catalog_scan_as_of(reading->snapshot, &catalog_map[lookup], keys->keys, keys->n, callback, reading);
}

static void
add_key(Keys *keys, Oid classid, Oid objid, int schema)
{
	if (keys->n == keys->size)
	{
		bool		first = keys->size == 0;

		keys->size = Max(256, keys->size * 2);
		keys->keys = first ? palloc(keys->size * sizeof(CatalogKey)) :
			repalloc_huge(keys->keys, keys->size * sizeof(CatalogKey));
	}
	keys->keys[keys->n].classid = classid;
	keys->keys[keys->n].objid = objid;
	keys->keys[keys->n++].owner = schema;
}

/* A member whose identity is what printer->row holds. */
static FingerprintMember *
add_member(Reading *reading, Oid classid, Oid objid, int schema, char kind)
{
	Oid			key[] = {classid, objid};
	FingerprintMember *member = hash_search(reading->printer.members, key, HASH_ENTER, NULL);

	member->schema = schema;
	member->kind = kind;
	member->element = InvalidOid;
	member->identity = fingerprint_digest(reading->printer.row.data, reading->printer.row.len);
	return member;
}

static void
begin_row(Reading *reading, char what)
{
	resetStringInfo(&reading->printer.row);
	appendStringInfoChar(&reading->printer.row, what);
}

static void
end_row(Reading *reading, int schema)
{
	Digest		digest = fingerprint_digest(reading->printer.row.data, reading->printer.row.len);
	Digest	   *sum = &reading->printer.schemas[schema].sum;

	sum->low += digest.low;
	sum->high += digest.high;
}

/* ---- members ---- */

static void
enter_schema(HeapTuple tuple, Relation rel, const CatalogKey *key, void *arg)
{
	Reading    *reading = arg;
	FingerprintedSchema *schema = &reading->printer.schemas[key->owner];

	schema->name = pstrdup(NameStr(((Form_pg_namespace) GETSTRUCT(tuple))->nspname));
	schema->quoted = psprintf("%s.", quote_identifier(schema->name));
	schema->token = fingerprint_token(schema->name);
	add_key(&reading->described, key->classid, key->objid, key->owner);
}

static void
add_to_schema(HeapTuple tuple, Relation rel, const CatalogKey *key, void *arg)
{
	Reading    *reading = arg;
	Form_pg_depend form = (Form_pg_depend) GETSTRUCT(tuple);
	Keys	   *keys = NULL;

	/* it has gone meanwhile, for this snapshot */
	if (reading->printer.schemas[key->owner].name == NULL)
		return;
	switch (form->classid)
	{
		case RelationRelationId:
			keys = &reading->relations;
			break;
		case TypeRelationId:
			keys = &reading->types;
			break;
		case ProcedureRelationId:
			keys = &reading->procs;
			break;
		case StatisticExtRelationId:
			keys = &reading->statistics;
			break;
		case DefaultAclRelationId:
			keys = &reading->default_grants;
			break;
		case ExtensionRelationId:
		case PublicationNamespaceRelationId:
			/* these are not in the schema */
			return;
		default:
			reading->printer.schemas[key->owner].unknown = true;
			return;
	}
	add_key(keys, form->classid, form->objid, key->owner);
}

/* A type that is no relation's, and the array type of it. */
static void
enter_type(HeapTuple tuple, Relation rel, const CatalogKey *key, void *arg)
{
	Reading    *reading = arg;
	Form_pg_type form = (Form_pg_type) GETSTRUCT(tuple);

	begin_row(reading, 't');
	fingerprint_put_name(&reading->printer, key->owner, NameStr(form->typname));
	(void) add_member(reading, TypeRelationId, form->oid, key->owner, form->typtype);
	add_key(&reading->described, TypeRelationId, form->oid, key->owner);
	enter_array(tuple, rel, key, arg);

	if (form->typtype == TYPTYPE_ENUM)
		add_key(&reading->enums, TypeRelationId, form->oid, key->owner);
	else if (form->typtype == TYPTYPE_DOMAIN)
		add_key(&reading->domains, TypeRelationId, form->oid, key->owner);
	else if (form->typtype == TYPTYPE_RANGE)
		add_key(&reading->ranges, TypeRelationId, form->oid, key->owner);
	else if (OidIsValid(form->typrelid))
		add_key(&reading->relations, RelationRelationId, form->typrelid, key->owner);
}

/* The array type of a type that is known. */
static void
enter_array(HeapTuple tuple, Relation rel, const CatalogKey *key, void *arg)
{
	Reading    *reading = arg;
	Form_pg_type form = (Form_pg_type) GETSTRUCT(tuple);

	if (!OidIsValid(form->typarray))
		return;
	begin_row(reading, 'a');
	fingerprint_put_oid(&reading->printer, key->owner, TypeRelationId, form->oid);
	add_member(reading, TypeRelationId, form->typarray, key->owner, TYPE_ARRAY)->element = form->oid;
}

static void
enter_range(HeapTuple tuple, Relation rel, const CatalogKey *key, void *arg)
{
	Reading    *reading = arg;
	Form_pg_range form = (Form_pg_range) GETSTRUCT(tuple);

	begin_row(reading, 'm');
	fingerprint_put_oid(&reading->printer, key->owner, TypeRelationId, form->rngtypid);
	(void) add_member(reading, TypeRelationId, form->rngmultitypid, key->owner, TYPTYPE_MULTIRANGE);
	add_key(&reading->other_types, TypeRelationId, form->rngmultitypid, key->owner);
}

static void
enter_enum(HeapTuple tuple, Relation rel, const CatalogKey *key, void *arg)
{
	Reading    *reading = arg;
	Form_pg_enum form = (Form_pg_enum) GETSTRUCT(tuple);

	begin_row(reading, 'e');
	fingerprint_put_oid(&reading->printer, key->owner, TypeRelationId, form->enumtypid);
	fingerprint_put_name(&reading->printer, key->owner, NameStr(form->enumlabel));
	(void) add_member(reading, EnumRelationId, form->oid, key->owner, '\0');
}

/* Relations, and among them indexes. */
static void
enter_relation(HeapTuple tuple, Relation rel, const CatalogKey *key, void *arg)
{
	Reading    *reading = arg;
	Form_pg_class form = (Form_pg_class) GETSTRUCT(tuple);
	int			schema = key->owner;

	begin_row(reading, 'c');
	fingerprint_put_name(&reading->printer, schema, NameStr(form->relname));
	(void) add_member(reading, RelationRelationId, form->oid, schema, '\0');
	add_key(&reading->described, RelationRelationId, form->oid, schema);

	if (OidIsValid(form->reltype) && form->relkind != RELKIND_COMPOSITE_TYPE)
	{
		begin_row(reading, 'r');
		fingerprint_put_oid(&reading->printer, schema, RelationRelationId, form->oid);
		(void) add_member(reading, TypeRelationId, form->reltype, schema, TYPE_OF_ROW);
		add_key(&reading->other_types, TypeRelationId, form->reltype, schema);
	}
	if (OidIsValid(form->reltoastrelid))
	{
		begin_row(reading, 'o');
		fingerprint_put_oid(&reading->printer, schema, RelationRelationId, form->oid);
		(void) add_member(reading, RelationRelationId, form->reltoastrelid, schema, '\0');
		add_key(&reading->toast, RelationRelationId, form->reltoastrelid, schema);
	}

	switch (form->relkind)
	{
		case RELKIND_SEQUENCE:
			add_key(&reading->sequences, RelationRelationId, form->oid, schema);
			break;
		case RELKIND_INDEX:
		case RELKIND_PARTITIONED_INDEX:
			break;
		case RELKIND_RELATION:
		case RELKIND_PARTITIONED_TABLE:
			reading->printer.schemas[schema].tables++;
			/* FALLTHROUGH */
		case RELKIND_MATVIEW:
			add_key(&reading->indexed, RelationRelationId, form->oid, schema);
			/* FALLTHROUGH */
		case RELKIND_VIEW:
		case RELKIND_FOREIGN_TABLE:
		case RELKIND_COMPOSITE_TYPE:
			add_key(&reading->with_columns, RelationRelationId, form->oid, schema);
			break;
		default:
			/* a later major version's, with rows in catalogs not read here */
			reading->printer.schemas[schema].unknown = true;
	}
}

static void
enter_index(HeapTuple tuple, Relation rel, const CatalogKey *key, void *arg)
{
	Reading    *reading = arg;

	add_key(&reading->indexes, RelationRelationId, ((Form_pg_index) GETSTRUCT(tuple))->indexrelid, key->owner);
}

static void
enter_constraint(HeapTuple tuple, Relation rel, const CatalogKey *key, void *arg)
{
	Reading    *reading = arg;
	Form_pg_constraint form = (Form_pg_constraint) GETSTRUCT(tuple);

	begin_row(reading, 'k');
	fingerprint_put_oid(&reading->printer, key->owner, RelationRelationId, form->conrelid);
	fingerprint_put_oid(&reading->printer, key->owner, TypeRelationId, form->contypid);
	fingerprint_put_name(&reading->printer, key->owner, NameStr(form->conname));
	(void) add_member(reading, ConstraintRelationId, form->oid, key->owner, '\0');
	add_key(&reading->described, ConstraintRelationId, form->oid, key->owner);
}

static void
enter_proc(HeapTuple tuple, Relation rel, const CatalogKey *key, void *arg)
{
	Reading    *reading = arg;
	Form_pg_proc form = (Form_pg_proc) GETSTRUCT(tuple);

	begin_row(reading, 'p');
	fingerprint_put_name(&reading->printer, key->owner, NameStr(form->proname));
	for (int i = 0; i < form->pronargs; i++)
		fingerprint_put_oid(&reading->printer, key->owner, TypeRelationId, form->proargtypes.values[i]);
	(void) add_member(reading, ProcedureRelationId, form->oid, key->owner, '\0');
	add_key(&reading->described, ProcedureRelationId, form->oid, key->owner);
}

/* ---- rows ---- */

static void
put_any(HeapTuple tuple, Relation rel, const CatalogKey *key, void *arg)
{
	Reading    *reading = arg;

	begin_row(reading, '=');
	fingerprint_put_row(&reading->printer, key->owner, rel, tuple);
	end_row(reading, key->owner);
}

static void
put_column(HeapTuple tuple, Relation rel, const CatalogKey *key, void *arg)
{
	if (((Form_pg_attribute) GETSTRUCT(tuple))->attnum > 0)
		put_any(tuple, rel, key, arg);
}

/* Casts are in no schema, and few; a schema has those of its types. */
static void
put_casts(Reading *reading)
{
	Relation	rel;
	SysScanDesc scan;
	HeapTuple	tuple;

	check_may_read(CastRelationId);
	rel = table_open(CastRelationId, AccessShareLock);
	scan = systable_beginscan(rel, InvalidOid, false, reading->snapshot, 0, NULL);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_cast form = (Form_pg_cast) GETSTRUCT(tuple);
		int			source = schema_of_type(reading, form->castsource);
		int			target = schema_of_type(reading, form->casttarget);
		CatalogKey	key = {.owner = source};

		if (source >= 0)
			put_described(tuple, rel, &key, reading);
		key.owner = target;
		if (target >= 0 && target != source)
			put_described(tuple, rel, &key, reading);
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
}

/* The number of the schema it is in, or -1. */
static int
schema_of_type(const Reading *reading, Oid type)
{
	Oid			key[] = {TypeRelationId, type};
	const FingerprintMember *member = hash_search(reading->printer.members, key, HASH_FIND, NULL);

	return member == NULL ? -1 : member->schema;
}

/* Those of constraints have names with OIDs in them, and count only if they are switched off. */
static void
put_trigger(HeapTuple tuple, Relation rel, const CatalogKey *key, void *arg)
{
	Reading    *reading = arg;
	Form_pg_trigger form = (Form_pg_trigger) GETSTRUCT(tuple);

	if (!form->tgisinternal)
		put_described(tuple, rel, key, arg);
	else if (form->tgenabled != TRIGGER_FIRES_ON_ORIGIN)
	{
		begin_row(reading, 'i');
		fingerprint_put_oid(&reading->printer, key->owner, RelationRelationId, form->tgrelid);
		fingerprint_put_oid(&reading->printer, key->owner, ConstraintRelationId, form->tgconstraint);
		fingerprint_put_oid(&reading->printer, key->owner, ProcedureRelationId, form->tgfoid);
		appendStringInfoChar(&reading->printer.row, form->tgenabled);
		end_row(reading, key->owner);
	}
}

/* A row of an object to which none refers except comments. */
static void
put_described(HeapTuple tuple, Relation rel, const CatalogKey *key, void *arg)
{
	Reading    *reading = arg;
	bool		isnull;
	Oid			oid = DatumGetObjectId(heap_getattr(tuple, 1, RelationGetDescr(rel), &isnull));

	put_any(tuple, rel, key, arg);
	(void) add_member(reading, RelationGetRelid(rel), oid, key->owner, '\0');
	add_key(&reading->described, RelationGetRelid(rel), oid, key->owner);
}

/* Of a TOAST table only what has been said of it. */
static void
put_toast(HeapTuple tuple, Relation rel, const CatalogKey *key, void *arg)
{
	Reading    *reading = arg;
	bool		isnull;
	Datum		options = heap_getattr(tuple, Anum_pg_class_reloptions, RelationGetDescr(rel), &isnull);
	struct varlena *bytes;

	if (isnull)
		return;
	bytes = PG_DETOAST_DATUM_PACKED(options);
	begin_row(reading, 'o');
	fingerprint_put_oid(&reading->printer, key->owner, RelationRelationId, key->objid);
	fingerprint_put_bytes(&reading->printer, key->owner, VARDATA_ANY(bytes), VARSIZE_ANY_EXHDR(bytes));
	end_row(reading, key->owner);
}

/* Whose sequence it is. */
static void
put_owner(HeapTuple tuple, Relation rel, const CatalogKey *key, void *arg)
{
	Reading    *reading = arg;
	Form_pg_depend form = (Form_pg_depend) GETSTRUCT(tuple);

	if (form->refclassid != RelationRelationId ||
		(form->deptype != DEPENDENCY_AUTO && form->deptype != DEPENDENCY_INTERNAL))
		return;
	begin_row(reading, 's');
	fingerprint_put_oid(&reading->printer, key->owner, RelationRelationId, form->objid);
	fingerprint_put_oid(&reading->printer, key->owner, RelationRelationId, form->refobjid);
	appendBinaryStringInfo(&reading->printer.row, (const char *) &form->refobjsubid, sizeof(int32));
	appendStringInfoChar(&reading->printer.row, form->deptype);
	end_row(reading, key->owner);
}

/* A comment, or a security label. */
static void
put_remark(HeapTuple tuple, Relation rel, const CatalogKey *key, void *arg)
{
	Reading    *reading = arg;

	begin_row(reading, 'd');
	fingerprint_put_oid(&reading->printer, key->owner, key->classid, key->objid);
	fingerprint_put_row(&reading->printer, key->owner, rel, tuple);
	end_row(reading, key->owner);
}

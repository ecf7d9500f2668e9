/*-------------------------------------------------------------------------
 *
 * names.c
 *	  From what the names in a stamp are made: see name_registry.c, which makes them.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/table.h"
#include "catalog/dependency.h"
#include "catalog/indexing.h"
#include "catalog/pg_class.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_statistic_ext.h"
#include "catalog/pg_trigger.h"
#include "catalog/pg_type.h"
#include "nodes/nodes.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "stamp/stamp.h"

static void name_constraint(Stamp *stamp, int object, Form_pg_constraint form, HeapTuple tuple);
static void name_type(Stamp *stamp, int object, Form_pg_type form);
static void name_inherited_key(Stamp *stamp, int object, Form_pg_constraint form,
							   ArrayType *columns, int ncolumns);
static char *constraint_name(Oid constraint);
#if PG_VERSION_NUM >= 180000
static Oid	key_named_after(const Stamp *stamp, Form_pg_constraint form);
#endif
static void add_name(Stamp *stamp, int object, Oid relid, StampNameKind kind, const char *addition,
					 const char *label, const char *actual);
static int	reserve_name(Stamp *stamp, int object, Oid relid, StampNameKind kind,
						 const char *addition, const char *label);
static void check_name(const Stamp *stamp, int name, const char *actual);
static void name_relation(Stamp *stamp, int object);
static Oid	table_of_toast(const Stamp *stamp, Oid toast);
static void name_trigger(Stamp *stamp, int object);
static char *index_name_addition(Oid indexid);
static char *statistics_name_addition(Form_pg_statistic_ext form, HeapTuple tuple);
static int	find_table(const Stamp *stamp, Oid relid);

/*
 * Find out how each member got its name, and make sure of it: the rule must
 * give the name that PostgreSQL has chosen.
 */
void
stamp_name_members(Stamp *stamp)
{
	stamp->names = palloc0(stamp->nobjects * sizeof(StampName));

	for (int i = 0; i < stamp->nobjects; i++)
		stamp->objects[i].name = -1;

	for (int i = 0; i < stamp->ntables; i++)
	{
		const char *relname = stamp->tables[i].relname;
		int			object = stamp_member(stamp, RelationRelationId, stamp->tables[i].relid);

		reserve_name(stamp, object, stamp->tables[i].relid, STAMP_NAME_TABLE,
					 relname + strlen(stamp->tables[0].relname), NULL);
	}

	for (int i = 0; i < stamp->nobjects; i++)
	{
		StampObject *object = &stamp->objects[i];
		Oid			oid = object->address.objectId;
		HeapTuple	tuple;

		switch (object->address.classId)
		{
			case RelationRelationId:
				name_relation(stamp, i);
				break;

			case TypeRelationId:
				tuple = SearchSysCache1(TYPEOID, ObjectIdGetDatum(oid));
				if (!HeapTupleIsValid(tuple))
					elog(ERROR, "cache lookup failed for type %u", oid);
				name_type(stamp, i, (Form_pg_type) GETSTRUCT(tuple));
				ReleaseSysCache(tuple);
				break;

			case StatisticExtRelationId:
				tuple = SearchSysCache1(STATEXTOID, ObjectIdGetDatum(oid));
				if (!HeapTupleIsValid(tuple))
					elog(ERROR, "cache lookup failed for statistics object %u", oid);
				add_name(stamp, i, ((Form_pg_statistic_ext) GETSTRUCT(tuple))->stxrelid,
						 STAMP_NAME_STATISTICS,
						 statistics_name_addition((Form_pg_statistic_ext) GETSTRUCT(tuple), tuple),
						 "stat",
						 NameStr(((Form_pg_statistic_ext) GETSTRUCT(tuple))->stxname));
				ReleaseSysCache(tuple);
				break;

			case TriggerRelationId:
				name_trigger(stamp, i);
				break;

			default:
				break;			/* constraints follow; defaults have no name */
		}
	}

	/* Constraints share the name of their index, which has one by now. */
	for (int i = 0; i < stamp->nobjects; i++)
	{
		StampObject *object = &stamp->objects[i];
		Form_pg_constraint form;
		HeapTuple	tuple;

		if (object->address.classId != ConstraintRelationId)
			continue;
		tuple = SearchSysCache1(CONSTROID, ObjectIdGetDatum(object->address.objectId));
		if (!HeapTupleIsValid(tuple))
			elog(ERROR, "cache lookup failed for constraint %u", object->address.objectId);
		form = (Form_pg_constraint) GETSTRUCT(tuple);

		name_constraint(stamp, i, form, tuple);
		ReleaseSysCache(tuple);
	}
}

static void
name_type(Stamp *stamp, int object, Form_pg_type form)
{
	int			table = find_table(stamp, form->typrelid);
	Oid			relid = get_typ_typrelid(form->typelem);

	if (table >= 0)
		stamp->objects[object].name = table;
	else
		add_name(stamp, object, relid, STAMP_NAME_ARRAY_TYPE, NULL, NULL, NameStr(form->typname));
}

/*
 * LIKE keeps the names of CHECK and NOT NULL, and parts.c those of foreign
 * keys and of constraint triggers; PostgreSQL chooses others.
 */
static void
name_constraint(Stamp *stamp, int object, Form_pg_constraint form, HeapTuple tuple)
{
	const char *actual = NameStr(form->conname);
	int			table = find_table(stamp, form->conrelid);
	bool		isnull;
	Datum		conkey = SysCacheGetAttr(CONSTROID, tuple, Anum_pg_constraint_conkey, &isnull);
	ArrayType  *columns = isnull ? NULL : DatumGetArrayTypeP(conkey);
	int			ncolumns = columns == NULL ? 0 : ARR_DIMS(columns)[0];

	if (table < 0)
		elog(ERROR, "constraint \"%s\" is of another table", actual);
	if (form->contype == CONSTRAINT_PRIMARY || form->contype == CONSTRAINT_UNIQUE ||
		form->contype == CONSTRAINT_EXCLUSION)
		stamp->objects[object].name =
			stamp->objects[stamp_member(stamp, RelationRelationId, form->conindid)].name;
	else if (form->contype == CONSTRAINT_FOREIGN && OidIsValid(form->conparentid))
		name_inherited_key(stamp, object, form, columns, ncolumns);
	else if (!OidIsValid(get_relation_constraint_oid(stamp->tables[table].template, actual, true)))
	{
		if (ncolumns != 1)
			elog(ERROR, "cannot tell the origin of the name of constraint \"%s\"", actual);
		add_name(stamp, object, form->conrelid, STAMP_NAME_CONSTRAINT,
				 get_attname(form->conrelid, *(int16 *) ARR_DATA_PTR(columns), false),
				 "not_null", actual);
	}
}

/*
 * A foreign key that comes from another one: from the parent's, of a partition,
 * or from one to a partitioned table, for each of its partitions. See
 * CloneForeignKeyConstraints() and addFkConstraint().
 */
static void
name_inherited_key(Stamp *stamp, int object, Form_pg_constraint form, ArrayType *columns,
				   int ncolumns)
{
	const char *actual = NameStr(form->conname);
	int			parent = stamp_member(stamp, ConstraintRelationId, form->conparentid);

	/*
	 * chosen names differ, as they are in one schema; others are kept, or the
	 * parent's
	 */
	if (OidIsValid(stamp->other) &&
		strcmp(actual, constraint_name(stamp->other_members.members[object].objid)) == 0)
		return;
	if (parent < 0 || parent > object)
		elog(ERROR, "cannot tell the origin of the name of constraint \"%s\"", actual);
	if (stamp->objects[parent].name >= 0 &&
		strcmp(actual, constraint_name(form->conparentid)) == 0)
	{
		stamp->objects[object].name = stamp->objects[parent].name;
		return;
	}

	/* the parent's name is taken in this table */
#if PG_VERSION_NUM >= 180000
	{
		Oid			base = key_named_after(stamp, form);
		const char *base_name = constraint_name(base);
		int			base_object = stamp_member(stamp, ConstraintRelationId, base);
		int			name = reserve_name(stamp, object, form->conrelid, STAMP_NAME_CONSTRAINT, NULL, "");

		if (base_object < 0 || stamp->objects[base_object].name < 0)
			stamp->names[name].base = base_name;
		else
			stamp->names[name].base_name = stamp->objects[base_object].name;
		if (!stamp_name_explains(&stamp->names[name], base_name, actual))
			elog(ERROR, "cannot tell the origin of the name \"%s\"", actual);
	}
#else
	{
		StringInfoData addition;

		/* by the names of its columns */
		initStringInfo(&addition);
		for (int i = 0; i < ncolumns && addition.len < NAMEDATALEN; i++)
			appendStringInfo(&addition, "%s%s", i == 0 ? "" : "_",
							 get_attname(form->conrelid, ((int16 *) ARR_DATA_PTR(columns))[i], false));
		add_name(stamp, object, form->conrelid, STAMP_NAME_CONSTRAINT, addition.data, "fkey", actual);
	}
#endif
}

/* palloc'd; raises XX000 if there is no such constraint. */
static char *
constraint_name(Oid constraint)
{
	char	   *name = get_constraint_name(constraint);

	if (name == NULL)
		elog(ERROR, "cache lookup failed for constraint %u", constraint);
	return name;
}

#if PG_VERSION_NUM >= 180000
/*
 * The key whose name is numbered for this one: the one it comes from, or, if it
 * is to a partition of another table, the one that the command was about.
 */
static Oid
key_named_after(const Stamp *stamp, Form_pg_constraint form)
{
	Oid			named = InvalidOid;
	Oid			key = form->conparentid;

	while (OidIsValid(key))
	{
		HeapTuple	tuple = SearchSysCache1(CONSTROID, ObjectIdGetDatum(key));
		Oid			relid;
		Oid			parent;

		if (!HeapTupleIsValid(tuple))
			elog(ERROR, "cache lookup failed for constraint %u", key);
		relid = ((Form_pg_constraint) GETSTRUCT(tuple))->conrelid;
		parent = ((Form_pg_constraint) GETSTRUCT(tuple))->conparentid;
		ReleaseSysCache(tuple);
		if (!OidIsValid(named) || relid == form->conrelid)
			named = key;
		/* partitions of the tree were attached one by one */
		if (relid != form->conrelid || find_table(stamp, form->confrelid) >= 0)
			break;
		key = parent;
	}
	return named;
}
#endif

static void
add_name(Stamp *stamp, int object, Oid relid, StampNameKind kind, const char *addition,
		 const char *label, const char *actual)
{
	check_name(stamp, reserve_name(stamp, object, relid, kind, addition, label), actual);
}

/* A name of a part of table `relid` that is to be checked by check_name(), unless it follows from an OID. */
static int
reserve_name(Stamp *stamp, int object, Oid relid, StampNameKind kind, const char *addition,
			 const char *label)
{
	StampName  *name = &stamp->names[stamp->nnames];
	int			table = find_table(stamp, relid);

	if (table < 0)
		elog(ERROR, "object %u is of another table", stamp->objects[object].address.objectId);
	name->kind = kind;
	name->addition = addition;
	name->label = label;
	name->table = table;
	name->object = object;
	stamp->objects[object].name = stamp->nnames;
	return stamp->nnames++;
}

/* Raises XX000 if the rule does not give the name that PostgreSQL has chosen. */
static void
check_name(const Stamp *stamp, int name, const char *actual)
{
	const char *relname = stamp->tables[stamp->names[name].table].relname;

	if (!stamp_name_explains(&stamp->names[name], relname, actual))
		elog(ERROR, "cannot tell the origin of the name \"%s\"", actual);
}

/* Names a relation, and notes what else its pg_class row says. */
static void
name_relation(Stamp *stamp, int object)
{
	Oid			relid = stamp->objects[object].address.objectId;
	Relation	rel = relation_open(relid, NoLock);
	const char *relname = RelationGetRelationName(rel);
	char		relkind = rel->rd_rel->relkind;
	bool		is_index = relkind == RELKIND_INDEX || relkind == RELKIND_PARTITIONED_INDEX;
	Oid			indexed = is_index ? rel->rd_index->indrelid : InvalidOid;

	stamp->objects[object].relkind = relkind;

	if (find_table(stamp, relid) >= 0)
		stamp->objects[object].follows_table = true;
	else if (relkind == RELKIND_TOASTVALUE)
	{
		reserve_name(stamp, object, table_of_toast(stamp, relid), STAMP_NAME_TOAST, NULL, NULL);
		stamp->objects[object].follows_table = true;
	}
	else if (is_index && get_rel_relkind(indexed) == RELKIND_TOASTVALUE)
	{
		reserve_name(stamp, object, table_of_toast(stamp, indexed), STAMP_NAME_TOAST_INDEX, NULL, NULL);
		stamp->objects[object].follows_table = true;
	}
	else if (is_index)
	{
		Oid			constraint = get_index_constraint(relid);

		if (rel->rd_index->indisprimary)
			add_name(stamp, object, indexed, STAMP_NAME_INDEX_CONSTRAINT, NULL, "pkey", relname);
		else if (rel->rd_index->indisexclusion)
			add_name(stamp, object, indexed, STAMP_NAME_INDEX_CONSTRAINT,
					 index_name_addition(relid), "excl", relname);
		else if (OidIsValid(constraint))
			add_name(stamp, object, indexed, STAMP_NAME_INDEX_CONSTRAINT,
					 index_name_addition(relid), "key", relname);
		else
			add_name(stamp, object, indexed, STAMP_NAME_RELATION,
					 index_name_addition(relid), "idx", relname);
	}
	else if (relkind == RELKIND_SEQUENCE)
	{
		Oid			tableid;
		int32		column;

		if (!sequenceIsOwned(relid, DEPENDENCY_AUTO, &tableid, &column) &&
			!sequenceIsOwned(relid, DEPENDENCY_INTERNAL, &tableid, &column))
			elog(ERROR, "sequence \"%s\" is not owned", relname);
		add_name(stamp, object, tableid, STAMP_NAME_RELATION,
				 get_attname(tableid, column, false), "seq", relname);
	}
	else
		elog(ERROR, "unexpected relation \"%s\"", relname);

	relation_close(rel, NoLock);
}

/* The table of the family that has this TOAST table; InvalidOid if none has. */
static Oid
table_of_toast(const Stamp *stamp, Oid toast)
{
	for (int i = 0; i < stamp->ntables; i++)
		if (stamp->tables[i].toast == toast)
			return stamp->tables[i].relid;
	return InvalidOid;
}

/* CreateTriggerFiringOn() names triggers that PostgreSQL makes for a constraint; others keep their names. */
static void
name_trigger(Stamp *stamp, int object)
{
	Oid			oid = stamp->objects[object].address.objectId;
	Relation	rel = table_open(TriggerRelationId, AccessShareLock);
	char	   *name;
	Form_pg_trigger form;
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&key, Anum_pg_trigger_oid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(oid));
	scan = systable_beginscan(rel, TriggerOidIndexId, true, NULL, 1, &key);
	tuple = systable_getnext(scan);
	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "could not find trigger %u", oid);
	form = (Form_pg_trigger) GETSTRUCT(tuple);
	if (form->tgisinternal)
	{
		char	   *oid_suffix = psprintf("_%u", oid);
		int			length;

		name = pstrdup(NameStr(form->tgname));
		length = (int) strlen(name) - (int) strlen(oid_suffix);
		if (length <= 0 || strcmp(name + length, oid_suffix) != 0)
			elog(ERROR, "cannot tell the origin of the name \"%s\"", name);
		name[length] = '\0';
		/* nothing of the table's name is in it */
		reserve_name(stamp, object, stamp->tables[0].relid, STAMP_NAME_TRIGGER, NULL, name);
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
}

/* What DefineIndex() puts between table name and label: see indexcmds.c. */
static char *
index_name_addition(Oid indexid)
{
	Relation	index = index_open(indexid, NoLock);
	StringInfoData buf;

	initStringInfo(&buf);
	for (int i = 0; i < RelationGetDescr(index)->natts && buf.len < NAMEDATALEN; i++)
	{
		if (i > 0)
			appendStringInfoChar(&buf, '_');
		appendStringInfoString(&buf, NameStr(TupleDescAttr(RelationGetDescr(index), i)->attname));
	}
	index_close(index, NoLock);

	return buf.data;
}

/* The same for CREATE STATISTICS: see statscmds.c. */
static char *
statistics_name_addition(Form_pg_statistic_ext form, HeapTuple tuple)
{
	StringInfoData buf;
	bool		isnull;
	Datum		exprs;
	int			nexprs = 0;

	exprs = SysCacheGetAttr(STATEXTOID, tuple, Anum_pg_statistic_ext_stxexprs, &isnull);
	if (!isnull)
		nexprs = list_length((List *) stringToNode(TextDatumGetCString(exprs)));

	initStringInfo(&buf);
	for (int i = 0; i < form->stxkeys.dim1 + nexprs && buf.len < NAMEDATALEN; i++)
	{
		if (i > 0)
			appendStringInfoChar(&buf, '_');
		appendStringInfoString(&buf, i < form->stxkeys.dim1 ?
							   get_attname(form->stxrelid, form->stxkeys.values[i], false) : "expr");
	}

	return buf.data;
}

/* Position of a table of the family in tables[], or -1. */
static int
find_table(const Stamp *stamp, Oid relid)
{
	for (int i = 0; i < stamp->ntables; i++)
		if (stamp->tables[i].relid == relid)
			return i;
	return -1;
}

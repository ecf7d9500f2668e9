/*-------------------------------------------------------------------------
 *
 * name_origins.c
 *	  From what the names in a table's stamp are made: see name_registry.c, which
 *	  makes them.
 *
 * Only names that PostgreSQL chooses so that they are free are found here.
 * Others are kept, or hold an OID, which compile.c finds.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/dependency.h"
#include "catalog/pg_attribute.h"
#include "catalog/pg_class.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_depend.h"
#include "catalog/pg_index.h"
#include "catalog/pg_statistic_ext.h"
#include "catalog/pg_type.h"
#include "nodes/nodes.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "stamp/stamp.h"

/* The members of the first tree, whose names are looked at. */
typedef struct Naming
{
	Stamp	   *stamp;
	const StampTable *tables;
	int			ntables;
	const MemberRows *one;
	const MemberRows *other;
} Naming;

static void name_relation(const Naming *naming, int member);
static void name_index(const Naming *naming, int member, Form_pg_index form, const char *actual);
static bool is_of_constraint(const Naming *naming, Oid indexid);
static char *index_name_addition(const Naming *naming, int member);
static void name_sequence(const Naming *naming, int member, const char *actual);
static void name_type(const Naming *naming, int member);
static void name_statistics(const Naming *naming, int member);
static char *statistics_name_addition(Form_pg_statistic_ext form, HeapTuple tuple);
static void name_constraint(const Naming *naming, int member);
static void name_inherited_key(const Naming *naming, int member, Form_pg_constraint form,
							   ArrayType *columns, int ncolumns);
static char *constraint_name(Oid constraint);
#if PG_VERSION_NUM >= 180000
static Oid	key_named_after(const Naming *naming, Form_pg_constraint form);
#endif
static void add_name(const Naming *naming, int member, Oid relid, StampNameKind kind,
					 const char *addition, const char *label, const char *actual);
static int	reserve_name(const Naming *naming, int member, Oid relid, StampNameKind kind,
						 const char *addition, const char *label);
static HeapTuple row_of(const Naming *naming, int catalog, int member);
static int	find_table(const Naming *naming, Oid relid);

/*
 * Find out how each member got its name, and make sure of it: the rule must
 * give the name that PostgreSQL has chosen. Also tells which relations follow
 * the table into its tablespace. Expects that the tables are members; of the
 * second tree only names are looked at, and it may lack members.
 */
void
stamp_name_members(Stamp *stamp, const StampTable *tables, int ntables, const MemberRows *one,
				   const MemberRows *other)
{
	Naming		naming = {stamp, tables, ntables, one, other};

	stamp->names = palloc0(stamp->nmembers * sizeof(StampName));
	for (int i = 0; i < ntables; i++)
	{
		int			member = member_rows_find(one, RelationRelationId, tables[i].relid);

		reserve_name(&naming, member, tables[i].relid, STAMP_NAME_TABLE,
					 tables[i].relname + strlen(tables[0].relname), NULL);
		stamp->members[member].follows_table = true;
	}

	for (int i = 0; i < stamp->nmembers; i++)
	{
		switch (stamp->members[i].classid)
		{
			case RelationRelationId:
				name_relation(&naming, i);
				break;

			case TypeRelationId:
				name_type(&naming, i);
				break;

			case StatisticExtRelationId:
				name_statistics(&naming, i);
				break;

			default:
				break;			/* constraints follow; others' are kept */
		}
	}

	/* Constraints share the name of their index, which has one by now. */
	for (int i = 0; i < stamp->nmembers; i++)
		if (stamp->members[i].classid == ConstraintRelationId)
			name_constraint(&naming, i);
}

static void
name_relation(const Naming *naming, int member)
{
	Form_pg_class form = (Form_pg_class) GETSTRUCT(row_of(naming, CATALOG_CLASS, member));

	if (find_table(naming, form->oid) >= 0)
		return;
	switch (form->relkind)
	{
		case RELKIND_TOASTVALUE:
			naming->stamp->members[member].follows_table = true;
			break;

		case RELKIND_INDEX:
		case RELKIND_PARTITIONED_INDEX:
			name_index(naming, member, (Form_pg_index) GETSTRUCT(row_of(naming, CATALOG_INDEX, member)),
					   NameStr(form->relname));
			break;

		case RELKIND_SEQUENCE:
			name_sequence(naming, member, NameStr(form->relname));
			break;

		default:
			elog(ERROR, "unexpected relation \"%s\"", NameStr(form->relname));
	}
}

static void
name_index(const Naming *naming, int member, Form_pg_index form, const char *actual)
{
	Oid			indexed = form->indrelid;

	if (get_rel_relkind(indexed) == RELKIND_TOASTVALUE)
		naming->stamp->members[member].follows_table = true;
	else if (form->indisprimary)
		add_name(naming, member, indexed, STAMP_NAME_INDEX_CONSTRAINT, NULL, "pkey", actual);
	else if (form->indisexclusion)
		add_name(naming, member, indexed, STAMP_NAME_INDEX_CONSTRAINT,
				 index_name_addition(naming, member), "excl", actual);
	else if (is_of_constraint(naming, form->indexrelid))
		add_name(naming, member, indexed, STAMP_NAME_INDEX_CONSTRAINT,
				 index_name_addition(naming, member), "key", actual);
	else
		add_name(naming, member, indexed, STAMP_NAME_RELATION,
				 index_name_addition(naming, member), "idx", actual);
}

/* Is the index that of a constraint? Foreign keys name those that they refer to. */
static bool
is_of_constraint(const Naming *naming, Oid indexid)
{
	for (int i = 0; i < naming->one->nrows[CATALOG_CONSTRAINT]; i++)
	{
		Form_pg_constraint form = (Form_pg_constraint) GETSTRUCT(naming->one->rows[CATALOG_CONSTRAINT][i].tuple);

		if (form->conindid == indexid && form->contype != CONSTRAINT_FOREIGN)
			return true;
	}
	return false;
}

/* What DefineIndex() puts between table name and label, palloc'd: see indexcmds.c. */
static char *
index_name_addition(const Naming *naming, int member)
{
	StringInfoData buf;
	int			nrows;
	const MemberRow *rows = member_rows_about(naming->one, CATALOG_ATTRIBUTE, member, &nrows);

	initStringInfo(&buf);
	for (int i = 0; i < nrows && buf.len < NAMEDATALEN; i++)
		appendStringInfo(&buf, "%s%s", i == 0 ? "" : "_",
						 NameStr(((Form_pg_attribute) GETSTRUCT(rows[i].tuple))->attname));
	return buf.data;
}

/* By the column that owns it. */
static void
name_sequence(const Naming *naming, int member, const char *actual)
{
	int			nrows;
	const MemberRow *rows = member_rows_about(naming->one, CATALOG_DEPEND, member, &nrows);

	for (int i = 0; i < nrows; i++)
	{
		Form_pg_depend form = (Form_pg_depend) GETSTRUCT(rows[i].tuple);

		if (form->refclassid == RelationRelationId &&
			(form->deptype == DEPENDENCY_AUTO || form->deptype == DEPENDENCY_INTERNAL))
		{
			add_name(naming, member, form->refobjid, STAMP_NAME_RELATION,
					 get_attname(form->refobjid, form->refobjsubid, false), "seq", actual);
			return;
		}
	}
	elog(ERROR, "sequence \"%s\" is not owned", actual);
}

/* A table's row type, or an array of that. */
static void
name_type(const Naming *naming, int member)
{
	Form_pg_type form = (Form_pg_type) GETSTRUCT(row_of(naming, CATALOG_TYPE, member));
	int			table = find_table(naming, form->typrelid);

	if (table >= 0)
		naming->stamp->members[member].name = table;
	else
		add_name(naming, member, get_typ_typrelid(form->typelem), STAMP_NAME_ARRAY_TYPE, NULL, NULL,
				 NameStr(form->typname));
}

static void
name_statistics(const Naming *naming, int member)
{
	HeapTuple	tuple = row_of(naming, CATALOG_STATISTIC_EXT, member);
	Form_pg_statistic_ext form = (Form_pg_statistic_ext) GETSTRUCT(tuple);

	add_name(naming, member, form->stxrelid, STAMP_NAME_STATISTICS,
			 statistics_name_addition(form, tuple), "stat", NameStr(form->stxname));
}

/* What CREATE STATISTICS puts between table name and label: see statscmds.c. */
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

/*
 * LIKE keeps the names of CHECK and NOT NULL, and parts.c those of foreign
 * keys and of constraint triggers; PostgreSQL chooses others.
 */
static void
name_constraint(const Naming *naming, int member)
{
	Stamp	   *stamp = naming->stamp;
	HeapTuple	tuple = row_of(naming, CATALOG_CONSTRAINT, member);
	Form_pg_constraint form = (Form_pg_constraint) GETSTRUCT(tuple);
	const char *actual = NameStr(form->conname);
	int			table = find_table(naming, form->conrelid);
	bool		isnull;
	Datum		conkey = SysCacheGetAttr(CONSTROID, tuple, Anum_pg_constraint_conkey, &isnull);
	ArrayType  *columns = isnull ? NULL : DatumGetArrayTypeP(conkey);
	int			ncolumns = columns == NULL ? 0 : ARR_DIMS(columns)[0];

	if (table < 0)
		elog(ERROR, "constraint \"%s\" is of another table", actual);
	if (form->contype == CONSTRAINT_PRIMARY || form->contype == CONSTRAINT_UNIQUE ||
		form->contype == CONSTRAINT_EXCLUSION)
		stamp->members[member].name =
			stamp->members[member_rows_find(naming->one, RelationRelationId, form->conindid)].name;
	else if (form->contype == CONSTRAINT_FOREIGN && OidIsValid(form->conparentid))
		name_inherited_key(naming, member, form, columns, ncolumns);
	else if (!OidIsValid(get_relation_constraint_oid(naming->tables[table].template, actual, true)))
	{
		if (ncolumns != 1)
			elog(ERROR, "cannot tell the origin of the name of constraint \"%s\"", actual);
		add_name(naming, member, form->conrelid, STAMP_NAME_CONSTRAINT,
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
name_inherited_key(const Naming *naming, int member, Form_pg_constraint form, ArrayType *columns,
				   int ncolumns)
{
	const char *actual = NameStr(form->conname);
	StampMember *members = naming->stamp->members;
	int			parent = member_rows_find(naming->one, ConstraintRelationId, form->conparentid);

	/*
	 * chosen names differ, as they are in one schema; others are kept, or the
	 * parent's
	 */
	if (member_rows_match(naming->one, naming->other) &&
		strcmp(actual, constraint_name(naming->other->members[member].objid)) == 0)
		return;
	if (parent < 0 || parent > member)
		elog(ERROR, "cannot tell the origin of the name of constraint \"%s\"", actual);
	if (members[parent].name >= 0 &&
		strcmp(actual, constraint_name(form->conparentid)) == 0)
	{
		members[member].name = members[parent].name;
		return;
	}

	/* the parent's name is taken in this table */
#if PG_VERSION_NUM >= 180000
	{
		Oid			base = key_named_after(naming, form);
		const char *base_name = constraint_name(base);
		int			base_member = member_rows_find(naming->one, ConstraintRelationId, base);
		StampName  *name = &naming->stamp->names[reserve_name(naming, member, form->conrelid,
															  STAMP_NAME_CONSTRAINT, NULL, "")];

		if (base_member < 0 || members[base_member].name < 0)
			name->base = base_name;
		else
			name->base_name = members[base_member].name;
		if (!stamp_name_explains(name, base_name, actual))
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
		add_name(naming, member, form->conrelid, STAMP_NAME_CONSTRAINT, addition.data, "fkey", actual);
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
key_named_after(const Naming *naming, Form_pg_constraint form)
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
		if (relid != form->conrelid || find_table(naming, form->confrelid) >= 0)
			break;
		key = parent;
	}
	return named;
}
#endif

/* A name that the rule must explain; raises XX000 otherwise. */
static void
add_name(const Naming *naming, int member, Oid relid, StampNameKind kind, const char *addition,
		 const char *label, const char *actual)
{
	const StampName *name = &naming->stamp->names[reserve_name(naming, member, relid, kind, addition, label)];

	if (!stamp_name_explains(name, naming->tables[name->table].relname, actual))
		elog(ERROR, "cannot tell the origin of the name \"%s\"", actual);
}

/* A name of a part of table `relid`. */
static int
reserve_name(const Naming *naming, int member, Oid relid, StampNameKind kind, const char *addition,
			 const char *label)
{
	Stamp	   *stamp = naming->stamp;
	StampName  *name = &stamp->names[stamp->nnames];
	int			table = find_table(naming, relid);

	if (table < 0)
		elog(ERROR, "object %u is of another table", naming->one->members[member].objid);
	name->kind = kind;
	name->addition = addition;
	name->label = label;
	name->table = table;
	stamp->members[member].name = stamp->nnames;
	return stamp->nnames++;
}

/* The only row that a catalog of objects has about one of its own. */
static HeapTuple
row_of(const Naming *naming, int catalog, int member)
{
	int			nrows;
	const MemberRow *row = member_rows_about(naming->one, catalog, member, &nrows);

	if (nrows != 1)
		elog(ERROR, "there are %d rows about object %u", nrows, naming->one->members[member].objid);
	return row->tuple;
}

/* Position of a table of the tree in tables[], or -1. */
static int
find_table(const Naming *naming, Oid relid)
{
	for (int i = 0; i < naming->ntables; i++)
		if (naming->tables[i].relid == relid)
			return i;
	return -1;
}

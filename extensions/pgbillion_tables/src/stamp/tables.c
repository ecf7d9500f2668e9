/*-------------------------------------------------------------------------
 *
 * tables.c
 *	  What the stamp of a table with its partitions has beyond that of a schema:
 *	  names that are chosen anew for each table, and its tablespace.
 *
 * Commands have made the tables a moment before, but an event trigger, or a
 * hook, can have done anything to them.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/relation.h"
#include "catalog/dependency.h"
#include "catalog/objectaddress.h"
#include "catalog/pg_class.h"
#include "catalog/pg_rewrite.h"
#include "catalog/pg_shdepend.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"

#include "lazy_heap/lazy_heap.h"
#include "stamp/stamp.h"

static void check_rules(const MemberRows *rows);
static void check_relations(const Stamp *stamp, const MemberRows *rows, int table);
static bool was_written_to(Form_pg_class form);
static void remove_tablespaces(const Stamp *stamp, MemberRows *rows);

/* The rows about a table. Raises 0A000 for a part that a stamp cannot carry. */
MemberRows *
table_rows_collect(Oid table)
{
	char	   *unknown;
	MemberRows *rows = member_rows_collect(RelationRelationId, table, CATALOG_OF_TABLES, &unknown);

	if (rows == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot stamp tables with %s", unknown)));
	return rows;
}

/*
 * Tell which names are chosen, and which relations follow their table into its
 * tablespace; and leave out the rows of both that are about that. Errors as
 * those of stamp_compile_tables().
 */
void
stamp_prepare_tables(Stamp *stamp, const StampTable *tables, int ntables, MemberRows *one,
					 MemberRows *other)
{
	int			table = member_rows_find(one, RelationRelationId, tables[0].relid);

	check_rules(one);
	for (int i = 0; i < ntables; i++)
		if (member_rows_find(one, RelationRelationId, tables[i].relid) < 0)
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("partition \"%s\" was detached while tables were being created",
							tables[i].relname)));
	stamp_name_members(stamp, tables, ntables, one, other);

	check_relations(stamp, one, table);
	remove_tablespaces(stamp, one);
	/* there is no stamp of others */
	if (member_rows_match(one, other))
	{
		check_relations(stamp, other, table);
		remove_tablespaces(stamp, other);
	}
}

/* Those of others depend on a table, too: of a view, for one, which an event trigger may have made. */
static void
check_rules(const MemberRows *rows)
{
	for (int i = 0; i < rows->nrows[CATALOG_REWRITE]; i++)
	{
		Form_pg_rewrite form = (Form_pg_rewrite) GETSTRUCT(rows->rows[CATALOG_REWRITE][i].tuple);
		ObjectAddress address;

		if (member_rows_find(rows, RelationRelationId, form->ev_class) >= 0)
			continue;
		ObjectAddressSet(address, RewriteRelationId, form->oid);
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot stamp tables with %s", getObjectDescription(&address, false))));
	}
}

/* Raise 55000 where a relation is not as it was created. */
static void
check_relations(const Stamp *stamp, const MemberRows *rows, int table)
{
	Oid			tablespace = InvalidOid;

	for (int i = 0; i < rows->nrows[CATALOG_CLASS]; i++)
		if (rows->rows[CATALOG_CLASS][i].member == table)
			tablespace = ((Form_pg_class) GETSTRUCT(rows->rows[CATALOG_CLASS][i].tuple))->reltablespace;

	for (int i = 0; i < rows->nrows[CATALOG_CLASS]; i++)
	{
		const MemberRow *row = &rows->rows[CATALOG_CLASS][i];
		Form_pg_class form = (Form_pg_class) GETSTRUCT(row->tuple);

		if (was_written_to(form))
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("\"%s\" was written to while it was being created", NameStr(form->relname))));
		if (stamp->members[row->member].follows_table && form->reltablespace != tablespace)
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("\"%s\" was moved to another tablespace while tables were being created",
							NameStr(form->relname))));
	}
}

static bool
was_written_to(Form_pg_class form)
{
	Relation	rel;
	bool		result;

	if (!RELKIND_HAS_STORAGE(form->relkind) || file_number_is_lazy(form->relfilenode))
		return false;
	if (form->relfilenode != form->oid)
		return true;
	if (!RELKIND_HAS_TABLE_AM(form->relkind))
		return false;
	rel = relation_open(form->oid, AccessShareLock);
	result = RelationGetNumberOfBlocks(rel) > 0;
	relation_close(rel, AccessShareLock);
	return result;
}

/* Relations without a file depend on it, and so those of each table on its own: see write.c. */
static void
remove_tablespaces(const Stamp *stamp, MemberRows *rows)
{
	int			kept = 0;

	for (int i = 0; i < rows->nrows[CATALOG_SHDEPEND]; i++)
	{
		const MemberRow *row = &rows->rows[CATALOG_SHDEPEND][i];

		if (!stamp->members[row->member].follows_table ||
			((Form_pg_shdepend) GETSTRUCT(row->tuple))->deptype != SHARED_DEPENDENCY_TABLESPACE)
			rows->rows[CATALOG_SHDEPEND][kept++] = *row;
	}
	rows->nrows[CATALOG_SHDEPEND] = kept;
}

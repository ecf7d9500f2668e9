/*-------------------------------------------------------------------------
 *
 * copy_rows.c
 *	  Rows of a template, copied into its clones.
 *
 * Each table's rows are copied by INSERT … SELECT, run as the caller, without
 * the table's triggers. Rows of all tables are those of one snapshot, taken
 * when all that foreign keys refer to outside is locked, and a table's rows
 * are copied only together with those they refer to. So the keys hold, as they
 * do in the template, and need not be checked.
 *
 * A sequence goes on from the template's present value where the rows that
 * have been given numbers by it are copied.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/table.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "executor/executor.h"
#include "executor/spi.h"
#include "parser/analyze.h"
#include "tcop/dest.h"
#include "tcop/tcopprot.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "clone/clone.h"
#include "compat.h"

static List *read_names(const char *query, Oid template, const char *tables);
static void copy_table(const char *table, const char *template, const char *clone,
					   Snapshot snapshot);
static char *copying_command(const char *table, const char *template, const char *clone);
static void run_without_triggers(const char *command, Snapshot snapshot);
static void copy_sequence(const char *sequence, const char *template, const char *clone);

/*
 * What is to be copied of the template: the rows of tables, an array of
 * their OIDs as text, or of all without it. Raises 42809 for what is no table
 * of the template, 0A000 for rows that cannot be copied without others, or
 * not at all. Expects what clone_query() does. palloc'd.
 */
CopiedRows *
copied_rows_choose(Oid template, const char *tables)
{
	CopiedRows *rows = palloc0(sizeof(CopiedRows));

	if (tables != NULL)
	{
		clone_query(clone_no_table_query, template, tables);
		if (SPI_processed > 0)
			ereport(ERROR,
					(errcode(ERRCODE_WRONG_OBJECT_TYPE),
					 errmsg("%s is no table of template \"%s\"",
							SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1),
							get_namespace_name(template))));
		SPI_freetuptable(SPI_tuptable);
	}
	clone_query(clone_not_copied_query, template, tables);
	if (SPI_processed > 0)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("rows of table %s cannot be copied: %s",
						SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1),
						SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 2)),
				 errhint("%s", SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 3))));
	SPI_freetuptable(SPI_tuptable);

	rows->tables = read_names(clone_copied_tables_query, template, tables);
	rows->sequences = read_names(clone_copied_sequences_query, template, tables);
	return rows;
}

static List *
read_names(const char *query, Oid template, const char *tables)
{
	List	   *result = NIL;

	clone_query(query, template, tables);
	for (uint64 row = 0; row < SPI_processed; row++)
		result = lappend(result, SPI_getvalue(SPI_tuptable->vals[row], SPI_tuptable->tupdesc, 1));
	SPI_freetuptable(SPI_tuptable);
	return result;
}

/*
 * Copy them into a clone that nobody has changed. Raises what INSERT … SELECT
 * raises, and 42501 where row security would hide rows. Expects an SPI
 * connection.
 */
void
copied_rows_copy(const CopiedRows *rows, Oid template, const char *clone, Snapshot snapshot)
{
	char	   *name = get_namespace_name(template);
	int			nestlevel = NewGUCNestLevel();
	ListCell   *lc;

	(void) set_config_option("search_path", "pg_catalog, pg_temp", PGC_USERSET, PGC_S_SESSION,
							 GUC_ACTION_SAVE, true, 0, false);
	(void) set_config_option("row_security", "off", PGC_USERSET, PGC_S_SESSION,
							 GUC_ACTION_SAVE, true, 0, false);
	foreach(lc, rows->tables)
		copy_table(lfirst(lc), name, clone, snapshot);

	/* they do not roll back; read later, they have at least the rows' numbers */
	foreach(lc, rows->sequences)
		copy_sequence(lfirst(lc), name, clone);
	AtEOXact_GUC(true, nestlevel);
}

static void
copy_table(const char *table, const char *template, const char *clone, Snapshot snapshot)
{
	CHECK_FOR_INTERRUPTS();
	run_without_triggers(copying_command(table, template, clone), snapshot);
}

/* Values of types that the clone has its own of go by their text. */
static char *
copying_command(const char *table, const char *template, const char *clone)
{
	Oid			from = get_relname_relid(table, get_namespace_oid(template, false));
	Oid			to = get_relname_relid(table, get_namespace_oid(clone, false));
	Relation	rel = table_open(to, RowExclusiveLock);
	TupleDesc	tupdesc = RelationGetDescr(rel);
	StringInfoData columns;
	StringInfoData values;
	char	   *command;

	initStringInfo(&columns);
	initStringInfo(&values);
	for (int i = 0; i < tupdesc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(tupdesc, i);
		const char *name = quote_identifier(NameStr(att->attname));
		const char *separator = columns.len > 0 ? ", " : "";

		if (att->attisdropped || att->attgenerated != '\0')
			continue;
		appendStringInfo(&columns, "%s%s", separator, name);
		if (get_atttype(from, get_attnum(from, NameStr(att->attname))) == att->atttypid)
			appendStringInfo(&values, "%st.%s", separator, name);
		else
			appendStringInfo(&values, "%sCAST(CAST(t.%s AS pg_catalog.text) AS %s)", separator, name,
							 format_type_extended(att->atttypid, att->atttypmod,
												  FORMAT_TYPE_TYPEMOD_GIVEN | FORMAT_TYPE_FORCE_QUALIFY));
	}
	table_close(rel, NoLock);

	command = psprintf("INSERT INTO %s %s%s%s OVERRIDING SYSTEM VALUE SELECT %s FROM ONLY %s t",
					   quote_qualified_identifier(clone, table),
					   columns.len > 0 ? "(" : "", columns.data, columns.len > 0 ? ")" : "", values.data,
					   quote_qualified_identifier(template, table));
	return command;
}

/* Run one INSERT, of what the snapshot and this transaction have. */
static void
run_without_triggers(const char *command, Snapshot snapshot)
{
	RawStmt    *raw = linitial_node(RawStmt, pg_parse_query(command));
	List	   *queries;
	PlannedStmt *plan;
	QueryDesc  *desc;
	ListCell   *lc;

	PushCopiedSnapshot(snapshot);
	UpdateActiveSnapshotCommandId();
	queries = pg_analyze_and_rewrite_fixedparams(raw, command, NULL, 0, NULL);
	if (list_length(queries) != 1)
		elog(ERROR, "INSERT was rewritten: %s", command);
	plan = pg_plan_query(linitial_node(Query, queries), command, 0, NULL, NULL);
	desc = CreateQueryDesc(plan, command, GetActiveSnapshot(), InvalidSnapshot, None_Receiver,
						   NULL, NULL, 0);
	ExecutorStart(desc, 0);
	foreach(lc, desc->estate->es_opened_result_relations)
		((ResultRelInfo *) lfirst(lc))->ri_TrigDesc = NULL;
	executor_run(desc);
	ExecutorFinish(desc);
	ExecutorEnd(desc);
	FreeQueryDesc(desc);
	PopActiveSnapshot();
	CommandCounterIncrement();
}

static void
copy_sequence(const char *sequence, const char *template, const char *clone)
{
	char	   *to = quote_literal_cstr(quote_qualified_identifier(clone, sequence));
	char	   *command = psprintf("SELECT pg_catalog.setval(%s::pg_catalog.regclass, last_value, is_called) FROM %s",
								   to, quote_qualified_identifier(template, sequence));
	int			result = SPI_execute(command, false, 0);

	if (result < 0)
		elog(ERROR, "SPI_execute failed: %s", SPI_result_code_string(result));
	SPI_freetuptable(SPI_tuptable);
}

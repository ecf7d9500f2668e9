/*-------------------------------------------------------------------------
 *
 * run_statement.c
 *	  Statements run as a session's own, and names in them.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "nodes/plannodes.h"
#include "tcop/dest.h"
#include "tcop/utility.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"

#include "ddl/ddl.h"

/* Run a statement as a session's own; `command` is what it is told to be. */
void
ddl_run_statement(Node *statement, const char *command)
{
	PlannedStmt *wrapper = makeNode(PlannedStmt);

	wrapper->commandType = CMD_UTILITY;
	wrapper->utilityStmt = statement;
	wrapper->stmt_location = -1;
	PushActiveSnapshot(GetTransactionSnapshot());
	ProcessUtility(wrapper, command, false, PROCESS_UTILITY_QUERY, NULL, NULL, None_Receiver, NULL);
	PopActiveSnapshot();
	CommandCounterIncrement();
}

/* With its schema, quoted; palloc'd. */
char *
ddl_table_name(Relation rel)
{
	return quote_qualified_identifier(get_namespace_name(RelationGetNamespace(rel)),
									  RelationGetRelationName(rel));
}

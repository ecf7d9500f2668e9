/*-------------------------------------------------------------------------
 *
 * flush.c
 *	  WAL is flushed before VACUUM, which otherwise finds no new row visible.
 *
 * With synchronous_commit = off a commit is reported before it is on disk, and
 * until it is, at most three times wal_writer_delay later, nobody notes in a
 * row that its transaction has committed.  VACUUM takes no page for all-visible
 * without that note.  So a VACUUM right after a load would set no page's bit,
 * without a word, and a columnar index, which holds nothing else, would stay
 * empty.  To flush WAL takes no longer than the commits would have taken.
 *
 * This works in sessions that have loaded the library before VACUUM begins.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "access/xlog_internal.h"
#include "nodes/parsenodes.h"
#include "tcop/utility.h"

#include "column_index/store.h"

static ProcessUtility_hook_type previous_hook = NULL;

/* Flush the WAL of all commits so far, those of other sessions included. */
static void
flush_commits(void)
{
	XLogRecPtr	end;
	Size		header;

	if (RecoveryInProgress())
		return;

	/*
	 * At the beginning of a page this is behind the page's header, which does
	 * not exist yet, and cannot be waited for.
	 */
	end = GetXLogInsertRecPtr();
	header = XLogSegmentOffset(end, wal_segment_size) < XLOG_BLCKSZ ? SizeOfXLogLongPHD : SizeOfXLogShortPHD;
	if (end % XLOG_BLCKSZ == header)
		end -= header;
	XLogFlush(end);
}

static void
flush_before_vacuum(PlannedStmt *statement, const char *query, bool read_only_tree, ProcessUtilityContext context,
					ParamListInfo params, QueryEnvironment *environment, DestReceiver *receiver,
					QueryCompletion *completion)
{
	if (IsA(statement->utilityStmt, VacuumStmt) && ((VacuumStmt *) statement->utilityStmt)->is_vacuumcmd)
		flush_commits();
	if (previous_hook != NULL)
		previous_hook(statement, query, read_only_tree, context, params, environment, receiver, completion);
	else
		standard_ProcessUtility(statement, query, read_only_tree, context, params, environment, receiver, completion);
}

/* Called once, when the library is loaded. */
void
flush_init(void)
{
	previous_hook = ProcessUtility_hook;
	ProcessUtility_hook = flush_before_vacuum;
}

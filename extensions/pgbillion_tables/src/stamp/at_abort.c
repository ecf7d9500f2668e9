/*-------------------------------------------------------------------------
 *
 * at_abort.c
 *	  What a backend has to forget of stamped tables whose transaction aborts.
 *
 * Stamped tables that this backend has used before their transaction aborts
 * are in its relation cache, and its cached plans refer to them. What makes it
 * forget tables that PostgreSQL has created, a mark on the cache entry and a
 * message for each, stamped tables do not have; others need neither. So the
 * backend resets its caches on abort, and after PREPARE, when it must no
 * longer see the tables either.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "utils/inval.h"
#include "utils/resowner.h"

#include "stamp/stamp.h"

static uint64 level_bit(int level);
static void note_prepare(XactEvent event, void *arg);
static void forget_stamped_tables(ResourceReleasePhase phase, bool isCommit, bool isTopLevel,
								  void *arg);

/*
 * The nesting levels of the current transaction that tables were stamped in, a
 * bit each, the last one for all deeper levels.
 */
static uint64 stamped_levels = 0;
static bool preparing_transaction = false;

/* To be called once, as the library is loaded. */
void
stamp_at_abort_init(void)
{
	RegisterXactCallback(note_prepare, NULL);
	RegisterResourceReleaseCallback(forget_stamped_tables, NULL);
}

/* To be called before anything is stamped. */
void
stamp_forget_at_abort(void)
{
	stamped_levels |= level_bit(GetCurrentTransactionNestLevel());
}

static void
note_prepare(XactEvent event, void *arg)
{
	preparing_transaction = event == XACT_EVENT_PREPARE;
}

/*
 * Runs at the end of a (sub)transaction when no relation is open in it any
 * more, as AtEOXact_Inval() does, and does no more than that may do.
 */
static void
forget_stamped_tables(ResourceReleasePhase phase, bool isCommit, bool isTopLevel, void *arg)
{
	int			level;
	uint64		deeper;

	if (phase != RESOURCE_RELEASE_AFTER_LOCKS ||
		CurrentResourceOwner != CurTransactionResourceOwner)
		return;

	/* what this level has stamped, it hands to the one above or forgets */
	level = GetCurrentTransactionNestLevel();
	deeper = ~(level_bit(level) - 1);
	if ((stamped_levels & deeper) == 0)
		return;
	stamped_levels &= ~deeper;
	if (!isCommit || preparing_transaction)
		InvalidateSystemCaches();
	else if (level > 1)
		stamped_levels |= level_bit(level - 1);
}

static uint64
level_bit(int level)
{
	return UINT64CONST(1) << Min(level, 63);
}

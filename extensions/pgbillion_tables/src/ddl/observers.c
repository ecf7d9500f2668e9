/*-------------------------------------------------------------------------
 *
 * observers.c
 *	  Who relies on seeing commands: event triggers, and modules with a hook.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/objectaccess.h"
#include "commands/trigger.h"
#include "tcop/cmdtag.h"
#include "utils/evtcache.h"

#include "ddl/ddl.h"

static void check_event_triggers(EventTriggerEvent event, const char *name, const Bitmapset *tags);
static bool sees_creation(EventTriggerEvent event);

/*
 * Raise 55000 where somebody relies on seeing each of the commands of these
 * tags, which are DROP TABLE, or what creates tables.
 */
void
ddl_check_observers(const Bitmapset *tags, bool drop)
{
	check_event_triggers(EVT_DDLCommandStart, "ddl_command_start", tags);
	check_event_triggers(EVT_DDLCommandEnd, "ddl_command_end", tags);
	if (drop)
		check_event_triggers(EVT_SQLDrop, "sql_drop", tags);

	if (object_access_hook != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("an audit or security module would not see each table"),
				 errhint("Pass allow_unobserved => true to go on nevertheless.")));
}

/* Whether anybody relies on seeing some of the commands that create things. */
bool
ddl_is_observed(void)
{
	return object_access_hook != NULL || sees_creation(EVT_DDLCommandStart) ||
		sees_creation(EVT_DDLCommandEnd);
}

static bool
sees_creation(EventTriggerEvent event)
{
	ListCell   *lc;

	foreach(lc, EventCacheLookup(event))
	{
		EventTriggerCacheItem *item = lfirst(lc);
		int			tag = -1;

		if (item->tagset == NULL)
			return true;
		/* whatever is not a way of dropping */
		while ((tag = bms_next_member(item->tagset, tag)) >= 0)
			if (strncmp(GetCommandTagName((CommandTag) tag), "DROP ", strlen("DROP ")) != 0)
				return true;
	}
	return false;
}

static void
check_event_triggers(EventTriggerEvent event, const char *name, const Bitmapset *tags)
{
	bool		replica = SessionReplicationRole == SESSION_REPLICATION_ROLE_REPLICA;
	ListCell   *lc;

	foreach(lc, EventCacheLookup(event))
	{
		EventTriggerCacheItem *item = lfirst(lc);

		/* the cache leaves out disabled ones */
		if (item->enabled == (replica ? TRIGGER_FIRES_ON_ORIGIN : TRIGGER_FIRES_ON_REPLICA))
			continue;
		if (item->tagset == NULL || bms_overlap(item->tagset, tags))
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("event triggers on %s would not see each table", name),
					 errhint("Disable them, or pass allow_unobserved => true to go on nevertheless.")));
	}
}

/*-------------------------------------------------------------------------
 *
 * settings.c
 *	  Settings under which definitions that are shown as text are understood
 *	  as what they were.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/guc.h"

#include "ddl/ddl.h"

/* For the caller's GUC level, which AtEOXact_GUC() ends. */
void
ddl_settle_definitions(void)
{
	static const char *const settings[][2] = {
		{"DateStyle", "ISO"},
		{"IntervalStyle", "postgres"},
		{"extra_float_digits", "3"},
		{"standard_conforming_strings", "on"},
		{"array_nulls", "on"},
		{"transform_null_equals", "off"},
		{"quote_all_identifiers", "off"},
		{"xmloption", "content"},
	};

	for (int i = 0; i < lengthof(settings); i++)
		ddl_settle_setting(settings[i][0], settings[i][1]);
}

/* One more, for the same level. */
void
ddl_settle_setting(const char *name, const char *value)
{
	(void) set_config_option(name, value, PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
}

/*
 * Settings under which commands are read, shown and understood in the same
 * way, and name what is not pg_catalog's with its schema. Returns the level
 * to end by AtEOXact_GUC().
 */
int
ddl_settle_commands(void)
{
	int			nestlevel = NewGUCNestLevel();

	ddl_settle_definitions();
	ddl_settle_setting("search_path", "pg_catalog, pg_temp");
	return nestlevel;
}

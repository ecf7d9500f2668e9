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

#include "tables.h"

/* For the caller's GUC level, which AtEOXact_GUC() ends. */
void
settle_definitions(void)
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
		settle_setting(settings[i][0], settings[i][1]);
}

/* One more, for the same level. */
void
settle_setting(const char *name, const char *value)
{
	(void) set_config_option(name, value, PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
}

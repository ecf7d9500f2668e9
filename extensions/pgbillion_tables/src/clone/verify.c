/*-------------------------------------------------------------------------
 *
 * verify.c
 *	  What cannot be cloned, and whether a clone is what its template is.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "executor/spi.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"

#include "clone/clone.h"
#include "fingerprint/fingerprint.h"

static void compare(const char *template, const char *clone, List *wanted, List *found);
static int	compare_commands(const ListCell *a, const ListCell *b);

/*
 * Raise 0A000, with the name of the object, if the template has something
 * that a clone would lack. Expects what clone_query() does.
 */
void
clone_refuse(Oid template)
{
	for (int i = 0; i < clone_refused_nqueries; i++)
	{
		clone_query(clone_refused_queries[i], template, "");
		if (SPI_processed > 0)
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("template \"%s\" has %s, which cannot be cloned",
							get_namespace_name(template),
							SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1)),
					 errhint("%s", SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 2))));
		SPI_freetuptable(SPI_tuptable);
	}
}

/*
 * Raise an error unless the commands that make the clone are the template's,
 * as they were read before the clone was made, and nothing of the clone's
 * depends on anything of the template's. Expects what clone_query() does.
 *
 * Most often the catalog rows are the same but for what is each schema's own,
 * and then so is all of that; it takes a small part of the time.
 */
void
clone_verify(Oid template, Oid clone, List *objects, List *rest, const CloneOptions *options)
{
	char	   *template_name = get_namespace_name(template);
	char	   *clone_name = get_namespace_name(clone);
	bool		same;

	CommandCounterIncrement();
	PushActiveSnapshot(GetLatestSnapshot());
	same = fingerprints_are_same(template, clone);
	PopActiveSnapshot();
	if (same)
		return;

	/* what has been created meanwhile may have changed what names mean */
	clone_refuse(template);

	compare(template_name, clone_name, definition_for(objects, clone_name),
			definition_for(definition_of_objects(clone, options), clone_name));
	compare(template_name, clone_name, rest, definition_of_rest(clone, clone_name));

	clone_query(clone_strays_query, clone, template_name);
	if (SPI_processed > 0)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("template \"%s\" cannot be cloned: the clone's %s would refer to %s", template_name,
						SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1),
						SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 2)),
				 errhint("Give functions and operators of the template names that pg_catalog does not have.")));
	SPI_freetuptable(SPI_tuptable);
}

/* Whether two lists of commands are the same, in whatever order. */
static void
compare(const char *template, const char *clone, List *wanted, List *found)
{
	ListCell   *one;
	ListCell   *other;

	wanted = list_copy(wanted);
	list_sort(wanted, compare_commands);
	list_sort(found, compare_commands);
	forboth(one, wanted, other, found)
	{
		if (strcmp(lfirst(one), lfirst(other)) != 0)
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("template \"%s\" cannot be cloned: PostgreSQL's commands make something else of it", template),
					 errdetail("The template has: %s. The clone \"%s\" would have: %s.",
							   (char *) lfirst(one), clone, (char *) lfirst(other)),
					 errhint("Nobody may change the template meanwhile. A new table that is made by commands may do as template.")));
	}
	if (list_length(wanted) != list_length(found))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("template \"%s\" cannot be cloned: PostgreSQL's commands make something else of it", template),
				 errdetail("The template is made by %d commands, the clone \"%s\" by %d.",
						   list_length(wanted), clone, list_length(found))));
}

static int
compare_commands(const ListCell *a, const ListCell *b)
{
	return strcmp(lfirst(a), lfirst(b));
}

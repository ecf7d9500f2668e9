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

/* A command, and what it is compared by. */
typedef struct Command
{
	const char *text;
	const char *wording;
} Command;

static void compare(const char *template, const char *clone, List *wanted, List *found);
static List *sorted(List *texts, bool settled);
static int	first_difference(List *wanted, List *found);
static int	compare_commands(const ListCell *a, const ListCell *b);

/*
 * Raise 0A000, with the name of the object, if the template has something
 * that a clone would lack; 40001 if the template is no longer of that version,
 * because under another name of its schema everything seems hidden. Expects
 * what clone_query() does.
 */
void
clone_refuse(Oid template, uint64 version)
{
	for (int i = 0; i < clone_refused_nqueries; i++)
	{
		clone_query(clone_refused_queries[i], template, "");
		if (SPI_processed > 0)
		{
			template_check_unchanged(template, version);
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("template \"%s\" has %s, which cannot be cloned",
							get_namespace_name(template),
							SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1)),
					 errhint("%s", SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 2))));
		}
		SPI_freetuptable(SPI_tuptable);
	}
}

/*
 * Raise an error unless the commands that make the clone are the template's,
 * as they were read before the clone was made, and nothing of the clone's
 * depends on anything of the template's; errors as clone_refuse()'s, too. Expects
 * what clone_query() does.
 *
 * Most often the catalog rows are the same but for what is each schema's own,
 * and then so is all of that; it takes a small part of the time.
 */
void
clone_verify(Oid template, Oid clone, List *objects, List *rest, const CloneOptions *options,
			 uint64 version)
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
	clone_refuse(template, version);

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
				 errhint("Something in the template has the template's own name: rename one of them.")));
	SPI_freetuptable(SPI_tuptable);
}

/* Raise an error unless two lists of commands are the same, in whatever order and wording. */
static void
compare(const char *template, const char *clone, List *wanted, List *found)
{
	List	   *one = sorted(wanted, false);
	List	   *other = sorted(found, false);
	int			at = first_difference(one, other);

	/* most are the same to the letter, and the wordings take longer */
	if (at >= 0)
	{
		one = sorted(wanted, true);
		other = sorted(found, true);
		at = first_difference(one, other);
	}
	if (at < 0)
		return;
	if (at < list_length(one) && at < list_length(other))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("template \"%s\" cannot be cloned: PostgreSQL's commands make something else of it", template),
				 errdetail("The template has: %s. The clone \"%s\" would have: %s.",
						   ((Command *) list_nth(one, at))->text, clone, ((Command *) list_nth(other, at))->text),
				 errhint("Nobody may change the template meanwhile. A new table that is made by commands may do as template.")));
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("template \"%s\" cannot be cloned: PostgreSQL's commands make something else of it", template),
			 errdetail("The template is made by %d commands, the clone \"%s\" by %d.",
					   list_length(wanted), clone, list_length(found))));
}

static List *
sorted(List *texts, bool settled)
{
	List	   *commands = NIL;
	ListCell   *lc;

	foreach(lc, texts)
	{
		Command    *command = palloc(sizeof(Command));

		command->text = lfirst(lc);
		command->wording = settled ? wording_of(command->text) : command->text;
		commands = lappend(commands, command);
	}
	list_sort(commands, compare_commands);
	return commands;
}

/* The place of the first command that is not the same in both; -1 without one. */
static int
first_difference(List *wanted, List *found)
{
	int			n = Min(list_length(wanted), list_length(found));

	for (int at = 0; at < n; at++)
		if (compare_commands(list_nth_cell(wanted, at), list_nth_cell(found, at)) != 0)
			return at;
	return list_length(wanted) == list_length(found) ? -1 : n;
}

static int
compare_commands(const ListCell *a, const ListCell *b)
{
	return strcmp(((Command *) lfirst(a))->wording, ((Command *) lfirst(b))->wording);
}

/*-------------------------------------------------------------------------
 *
 * named_text.c
 *	  Texts and settings of functions of two clones that differ in the
 *	  schema's name, where clones were asked to name themselves.
 *
 * Each clone's text is read as function_text.c reads it, with the clone's own name:
 * both must have the same pieces.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "lib/stringinfo.h"
#include "utils/array.h"
#include "utils/builtins.h"

#include "stamp/stamp.h"

#define PATH "search_path="

/* What stands between settings; one that has it in itself is not looked at. */
#define SEPARATOR '\001'

static bool split_settings(const MemberRows *rows, Datum settings, List **pieces);
static OidTemplate *compare_pieces(List *pieces, List *others);

/* The pieces of both functions' texts, and the places between; NULL if they are not the same ones. */
OidTemplate *
named_body_compare(const MemberRows *one, const MemberRows *other, Datum body, Datum other_body)
{
	return compare_pieces(body_split(TextDatumGetCString(body), one->name),
						  body_split(TextDatumGetCString(other_body), other->name));
}

/* The same of settings, an array of texts. */
OidTemplate *
named_settings_compare(const MemberRows *one, const MemberRows *other, Datum settings, Datum other_settings)
{
	List	   *pieces;
	List	   *others;

	if (!split_settings(one, settings, &pieces) || !split_settings(other, other_settings, &others))
		return NULL;
	return compare_pieces(pieces, others);
}

/* The pieces of all settings, one behind the other. */
static bool
split_settings(const MemberRows *rows, Datum settings, List **pieces)
{
	StringInfoData piece;
	Datum	   *elements;
	int			n;

	*pieces = NIL;
	initStringInfo(&piece);
	deconstruct_array(DatumGetArrayTypeP(settings), TEXTOID, -1, false, TYPALIGN_INT, &elements, NULL, &n);
	for (int i = 0; i < n; i++)
	{
		const char *setting = TextDatumGetCString(elements[i]);
		List	   *path = NIL;
		ListCell   *lc;

		if (strchr(setting, SEPARATOR) != NULL)
			return false;
		if (i > 0)
			appendStringInfoChar(&piece, SEPARATOR);
		if (strncmp(setting, PATH, strlen(PATH)) == 0)
			path = body_split_path(setting + strlen(PATH), rows->name);
		if (path == NIL)
		{
			appendStringInfoString(&piece, setting);
			continue;
		}
		/* as PostgreSQL writes it */
		if (strcmp(body_join(path, rows->name, 0), setting + strlen(PATH)) != 0)
			return false;
		appendStringInfoString(&piece, PATH);
		foreach(lc, path)
		{
			if (foreach_current_index(lc) > 0)
			{
				*pieces = lappend(*pieces, pstrdup(piece.data));
				resetStringInfo(&piece);
			}
			appendStringInfoString(&piece, lfirst(lc));
		}
	}
	*pieces = lappend(*pieces, piece.data);
	return true;
}

static OidTemplate *
compare_pieces(List *pieces, List *others)
{
	OidTemplate *text;
	ListCell   *one;
	ListCell   *other;

	if (pieces == NIL || list_length(pieces) != list_length(others))
		return NULL;
	text = palloc0(sizeof(OidTemplate));
	text->nplaces = list_length(pieces) - 1;
	text->pieces = palloc(list_length(pieces) * sizeof(char *));
	/* not looked at */
	text->members = palloc0(Max(1, text->nplaces) * sizeof(int));
	text->as_bytes = palloc0(Max(1, text->nplaces) * sizeof(bool));
	forboth(one, pieces, other, others)
	{
		if (strcmp(lfirst(one), lfirst(other)) != 0)
			return NULL;
		text->pieces[foreach_current_index(one)] = lfirst(one);
	}
	return text;
}

/* The text of a function of this schema; palloc'd. */
Datum
named_body_fill(const OidTemplate *text, const char *schema)
{
	const char *quoted = quote_identifier(schema);
	StringInfoData body;

	initStringInfo(&body);
	for (int i = 0; i <= text->nplaces; i++)
		appendStringInfo(&body, "%s%s", i == 0 ? "" : quoted, text->pieces[i]);
	return CStringGetTextDatum(body.data);
}

/* Its settings. */
Datum
named_settings_fill(const OidTemplate *text, const char *schema)
{
	const char *quoted = quote_identifier(schema);
	StringInfoData setting;
	ArrayBuildState *settings = NULL;

	initStringInfo(&setting);
	for (int i = 0; i <= text->nplaces; i++)
	{
		if (i > 0)
			appendStringInfoString(&setting, quoted);
		for (const char *at = text->pieces[i]; *at != '\0'; at++)
		{
			if (*at != SEPARATOR)
			{
				appendStringInfoChar(&setting, *at);
				continue;
			}
			settings = accumArrayResult(settings, CStringGetTextDatum(setting.data), false, TEXTOID,
										CurrentMemoryContext);
			resetStringInfo(&setting);
		}
	}
	settings = accumArrayResult(settings, CStringGetTextDatum(setting.data), false, TEXTOID, CurrentMemoryContext);
	return makeArrayResult(settings, CurrentMemoryContext);
}

/*-------------------------------------------------------------------------
 *
 * extreme_text.c
 *	  min and max of text and varchar.
 *
 * PostgreSQL compares by varstr_cmp(), and so does this, except with strings
 * of the same bytes as the state, of which either will do.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/memutils.h"
#include "utils/varlena.h"

#include "vector/aggregate/aggregate.h"

typedef struct TextState
{
	char	   *value;			/* a varlena with a long header, or NULL */
	Size		room;			/* bytes that are its */
} TextState;

typedef struct Own
{
	Oid			collation;
	bool		larger;
} Own;

static void
prepare_larger(VectorAgg *agg, Aggref *aggref, HeapTuple tuple)
{
	Own		   *own = palloc(sizeof(Own));

	own->collation = aggref->inputcollid;
	own->larger = true;
	agg->own = own;
}

static void
prepare_smaller(VectorAgg *agg, Aggref *aggref, HeapTuple tuple)
{
	prepare_larger(agg, aggref, tuple);
	((Own *) agg->own)->larger = false;
}

/* Does the state stay as it is? Of strings that compare as equal the later one is kept, as PostgreSQL does. */
static inline bool
stays(const Own *own, const TextState *state, char *data, int len)
{
	char	   *own_data;
	int			own_len;
	int			order;

	if (state->value == NULL)
		return false;
	own_data = VARDATA(state->value);
	own_len = VARSIZE(state->value) - VARHDRSZ;
	/* without a collation varstr_cmp() raises an error */
	if (own_len == len && OidIsValid(own->collation) && memcmp(own_data, data, len) == 0)
		return true;
	order = varstr_cmp(own_data, own_len, data, len, own->collation);
	return own->larger ? order > 0 : order < 0;
}

static void
keep(TextState *state, MemoryContext context, const char *data, int len)
{
	Size		size = len + VARHDRSZ;

	if (size > state->room)
	{
		if (state->value != NULL)
			pfree(state->value);
		/* the next may be longer; most states are never replaced */
		state->room = state->value == NULL ? size : Min(2 * size, MaxAllocSize);
		state->value = MemoryContextAlloc(context, state->room);
	}
	SET_VARSIZE(state->value, size);
	memcpy(VARDATA(state->value), data, len);
}

static void
advance(VectorAgg *agg, const Values *argument, int n, RowGroups *groups)
{
	char	  **entries = groups->single == NULL ? group_entries(groups, n) : NULL;

	for (int i = 0; i < n; i++)
	{
		char	   *entry = entries == NULL ? groups->single : entries[i];
		TextState  *state = (TextState *) (entry + agg->offset);
		struct varlena *text;

		if (argument->has_nulls && argument->nulls[i])
			continue;
		text = PG_DETOAST_DATUM_PACKED(argument->values[i]);
		if (!stays(agg->own, state, VARDATA_ANY(text), VARSIZE_ANY_EXHDR(text)))
			keep(state, agg_context(agg, entry), VARDATA_ANY(text), VARSIZE_ANY_EXHDR(text));
		if ((Pointer) text != DatumGetPointer(argument->values[i]))
			pfree(text);
	}
}

/* Take the value of another state if it is to be. What has come from another process has only the room that it takes. */
static void
combine(VectorAgg *agg, char **entries, char **others, int n)
{
	for (int i = 0; i < n; i++)
	{
		TextState  *state = (TextState *) (entries[i] + agg->offset);
		char	   *value = ((const TextState *) (others[i] + agg->offset))->value;
		int			len;

		if (value == NULL)
			continue;
		len = VARSIZE(value) - VARHDRSZ;
		if (stays(agg->own, state, VARDATA(value), len))
			continue;
		if (state->value != NULL)
			pfree(state->value);
		state->value = NULL;
		state->room = 0;
		keep(state, agg_context(agg, entries[i]), VARDATA(value), len);
	}
}

static struct varlena **
value_of(void *state)
{
	return (struct varlena **) &((TextState *) state)->value;
}

static Datum
output(const VectorAgg *agg, const void *state, bool *isnull)
{
	const TextState *s = state;

	*isnull = s->value == NULL;
	return PointerGetDatum(s->value);
}

const AggKind extreme_text_kinds[] = {
	{
		.transitions = {F_TEXT_LARGER},
		.state_size = sizeof(TextState),
		.prepare = prepare_larger,
		.advance = advance,
		.combine = combine,
		.apart = value_of,
		.output = output,
	},
	{
		.transitions = {F_TEXT_SMALLER},
		.state_size = sizeof(TextState),
		.prepare = prepare_smaller,
		.advance = advance,
		.combine = combine,
		.apart = value_of,
		.output = output,
	},
	{{InvalidOid}}
};

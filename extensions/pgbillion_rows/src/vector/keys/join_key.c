/*-------------------------------------------------------------------------
 *
 * join_key.c
 *	  What rows are matched by: the keys of a hash join.
 *
 * Integers, dates and times are compared as 64-bit integers whatever their
 * width, and text byte by byte where its collation says no more. All other
 * types are hashed and compared by the functions of the clause's operator, as
 * PostgreSQL's hash join does. A row has a tag: the same for keys that are
 * equal. Where the only key is an integer it is the tag, so that the same tag
 * means equal keys.
 *
 * All operators are strict: a row with a NULL among its keys matches nothing.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"
#include "nodes/nodeFuncs.h"
#include "utils/datum.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"

#include "vector/expression/kernel.h"
#include "vector/keys/join_key.h"
#include "vector/keys/key.h"

typedef struct JoinKey
{
	Key			key;			/* KEY_INTEGER, KEY_TEXT or KEY_OTHER; of the
								 * inner side */
	Oid			types[2];		/* of the operator's sides: outer, inner */
	FmgrInfo	outer_hash;		/* KEY_OTHER */
} JoinKey;

struct JoinKeys
{
	int			n;
	JoinKey		keys[JOIN_MAX_KEYS];
};

/* Does a function compare values that are integers inside? */
static bool
compares_integers(Oid function)
{
	switch (function)
	{
		case F_INT2EQ:
		case F_INT24EQ:
		case F_INT28EQ:
		case F_INT42EQ:
		case F_INT4EQ:
		case F_INT48EQ:
		case F_INT82EQ:
		case F_INT84EQ:
		case F_INT8EQ:
		case F_OIDEQ:
		case F_DATE_EQ:
		case F_TIME_EQ:
		case F_TIMESTAMP_EQ:
		case F_TIMESTAMPTZ_EQ:
			return true;
		default:
			return false;
	}
}

/* Is the key of a clause compared as a 64-bit integer? */
bool
join_key_is_integer(const OpExpr *clause)
{
	return compares_integers(get_opcode(clause->opno));
}

static void
prepare(JoinKey *join_key, OpExpr *clause)
{
	Key		   *key = &join_key->key;
	Oid			function = get_opcode(clause->opno);
	Oid			hash[2];

	op_input_types(clause->opno, &join_key->types[0], &join_key->types[1]);
	key->collation = clause->inputcollid;
	get_typlenbyval(exprType(lsecond(clause->args)), &key->len, &key->byval);
	if (compares_integers(function))
		key->kind = KEY_INTEGER;
	else if (function == F_TEXTEQ && OidIsValid(key->collation) &&
			 get_collation_isdeterministic(key->collation))
		key->kind = KEY_TEXT;
	else
	{
		key->kind = KEY_OTHER;
		if (!get_op_hash_functions(clause->opno, &hash[0], &hash[1]))
			elog(ERROR, "could not find hash function for hash operator %u", clause->opno);
		fmgr_info(hash[0], &join_key->outer_hash);
		fmgr_info(hash[1], &key->hash);
		fmgr_info(function, &key->equal);
	}
}

/* The keys of these clauses (OpExpr), the build side on the right. In the current context. */
JoinKeys *
join_keys_create(List *clauses)
{
	JoinKeys   *keys = palloc0(sizeof(JoinKeys));
	ListCell   *lc;

	Assert(clauses != NIL && list_length(clauses) <= JOIN_MAX_KEYS);
	foreach(lc, clauses)
		prepare(&keys->keys[keys->n++], lfirst_node(OpExpr, lc));
	return keys;
}

int
join_keys_count(const JoinKeys *keys)
{
	return keys->n;
}

/* Is the tag the key? */
bool
join_keys_direct(const JoinKeys *keys)
{
	return keys->n == 1 && keys->keys[0].key.kind == KEY_INTEGER;
}

/* Is a key compared as a 64-bit integer? */
bool
join_keys_integer(const JoinKeys *keys, int key)
{
	return keys->keys[key].key.kind == KEY_INTEGER;
}

/* The type of a key's values on the outer side. */
Oid
join_keys_outer_type(const JoinKeys *keys, int key)
{
	return keys->keys[key].types[0];
}

/*
 * Bring values of a key into the form in which they are compared, in an array
 * of their own, and give a word for each: the same for equal values.
 */
static void
key_words(JoinKey *join_key, bool inner, Values *values, int n, const bool *known, uint64 *words)
{
	Key		   *key = &join_key->key;
	FmgrInfo   *hash = inner ? &key->hash : &join_key->outer_hash;
	const Datum *from = values->values;
	Datum	   *to = palloc(sizeof(Datum) * n);
	Oid			type = join_key->types[inner];

	for (int i = 0; i < n; i++)
	{
		words[i] = 0;
		to[i] = (Datum) 0;
		if (!known[i])
			continue;
		switch (key->kind)
		{
			case KEY_INTEGER:
				to[i] = Int64GetDatum(int_of(from[i], type));
				words[i] = (uint64) to[i];
				break;
			case KEY_TEXT:
				to[i] = PointerGetDatum(PG_DETOAST_DATUM_PACKED(from[i]));
				words[i] = key_text_word(VARDATA_ANY(DatumGetPointer(to[i])), VARSIZE_ANY_EXHDR(DatumGetPointer(to[i])));
				break;
			default:
				/* what arrays are built in is not to be copied as it is */
				to[i] = key->len == -1 && VARATT_IS_EXTERNAL_EXPANDED(DatumGetPointer(from[i])) ?
					PointerGetDatum(PG_DETOAST_DATUM(from[i])) : from[i];
				words[i] = DatumGetUInt32(FunctionCall1Coll(hash, key->collation, from[i]));
				break;
		}
	}
	values->values = to;
}

/* The same for integers, none of which is NULL. */
static void
direct_tags(JoinKey *key, bool inner, const Values *values, int n, uint64 *tags)
{
	const Datum *from = values->values;

	switch (key->types[inner])
	{
		case INT4OID:
		case DATEOID:
			for (int i = 0; i < n; i++)
				tags[i] = (uint64) (int64) DatumGetInt32(from[i]);
			break;
		case INT8OID:
			for (int i = 0; i < n; i++)
				tags[i] = (uint64) DatumGetInt64(from[i]);
			break;
		default:
			for (int i = 0; i < n; i++)
				tags[i] = (uint64) int_of(from[i], key->types[inner]);
	}
}

/*
 * The tags of n rows with these values of the keys; known[] tells which rows
 * have no NULL among them. Unless the keys are direct the values are replaced
 * by others in the current context, in the form for join_keys_equal().
 */
void
join_keys_tags(JoinKeys *keys, bool inner, Values *values, int n, uint64 *tags, bool *known)
{
	uint64	   *words;

	memset(known, true, sizeof(bool) * n);
	for (int k = 0; k < keys->n; k++)
	{
		if (values[k].has_nulls)
			for (int i = 0; i < n; i++)
				known[i] &= !values[k].nulls[i];
	}
	if (join_keys_direct(keys))
	{
		direct_tags(&keys->keys[0], inner, &values[0], n, tags);
		return;
	}
	words = palloc(sizeof(uint64) * n);
	memset(tags, 0, sizeof(uint64) * n);
	for (int k = 0; k < keys->n; k++)
	{
		key_words(&keys->keys[k], inner, &values[k], n, known, words);
		for (int i = 0; i < n; i++)
			tags[i] = key_mix(tags[i], words[i]);
	}
	pfree(words);
}

/* Are the keys of a row, as join_keys_tags() gives them, equal to others of the build side? */
bool
join_keys_equal(JoinKeys *keys, const Values *outer, int row, const Datum *inner)
{
	for (int k = 0; k < keys->n; k++)
	{
		Key		   *key = &keys->keys[k].key;
		Datum		left = outer[k].values[row];
		Datum		right = inner[k];

		if (key->kind == KEY_INTEGER ? left != right : !key_equal(key, left, right))
			return false;
	}
	return true;
}

/* A copy of a key's value of the build side, as join_keys_tags() gives it, in memory that alloc() gives. */
Datum
join_keys_copy(JoinKeys *keys, int key, Datum value, char *(*alloc) (void *arg, Size size), void *arg)
{
	Key		   *own = &keys->keys[key].key;
	Size		size;
	char	   *copy;

	if (own->kind == KEY_INTEGER || own->byval)
		return value;
	size = datumGetSize(value, false, own->len);
	copy = alloc(arg, size);
	memcpy(copy, DatumGetPointer(value), size);
	return PointerGetDatum(copy);
}

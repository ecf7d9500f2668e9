/*-------------------------------------------------------------------------
 *
 * like.c
 *	  LIKE with a pattern that is the same for all rows.
 *
 * A pattern is cut at each % into parts, which are looked for one after the
 * other: where a part is found first is as good as any later place. Characters
 * are stepped over for _ only, and as PostgreSQL does, so that strings that
 * are not valid in the encoding are matched alike.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "mb/pg_wchar.h"
#include "port/pg_bitutils.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

#include "planner/arithmetic.h"
#include "vector/filter/predicate.h"

/* What stands between two of a pattern's %. */
typedef struct Part
{
	int			skip;			/* characters that it begins with, whichever
								 * they are */
	int			len;			/* bytes behind these */
	int			run;			/* number of those before the first _ */
	const char *bytes;
	const bool *any;			/* is it _, which stands for any character? */
} Part;

typedef struct LikePattern
{
	bool		utf8;
	bool		known;			/* is what follows valid? */
	bool		supported;
	int			len;
	char	   *text;			/* what it was made from */
	int			nparts;
	Part	   *parts;			/* from the string's beginning, behind the
								 * first % ... */
} LikePattern;

typedef struct Like
{
	Predicate	predicate;
	bool		negated;		/* NOT LIKE */
	VectorExpr *string;
	VectorExpr *text;			/* of the pattern */
	LikePattern *pattern;
} Like;

/* ---- patterns ---- */

/*
 * Is it LIKE or NOT LIKE, and can there be a kernel for it? In encodings of
 * more than one byte except UTF-8 a character's last byte may be another's first.
 */
static bool
is_like(Oid funcid, Oid collation, bool *negated)
{
	*negated = funcid == F_TEXTNLIKE || funcid == F_BPCHARNLIKE;
	return (*negated || funcid == F_TEXTLIKE || funcid == F_BPCHARLIKE) &&
		(GetDatabaseEncoding() == PG_UTF8 || pg_database_encoding_max_length() == 1) &&
		OidIsValid(collation) && get_collation_isdeterministic(collation);
}

static LikePattern *
pattern_create(void)
{
	LikePattern *pattern = palloc0(sizeof(LikePattern));

	pattern->utf8 = GetDatabaseEncoding() == PG_UTF8;
	return pattern;
}

/* Cut a pattern into parts; false if PostgreSQL has to match it. */
static bool
cut(LikePattern *pattern)
{
	MemoryContext context = GetMemoryChunkContext(pattern);
	const char *p = pattern->text;
	const char *end = p + pattern->len;
	Size		most = 1;
	char	   *bytes;
	bool	   *any;
	Part	   *part;

	/* an escaped one begins no part, and is counted, too */
	for (int i = 0; i < pattern->len; i++)
		most += p[i] == '%';
	pattern->parts = NULL;
	if (most > MaxAllocSize / sizeof(Part))
		return false;
	bytes = MemoryContextAlloc(context, pattern->len + 1);
	any = MemoryContextAlloc(context, pattern->len + 1);
	pattern->parts = MemoryContextAllocZero(context, sizeof(Part) * most);
	part = pattern->parts;
	part->bytes = bytes;
	part->any = any;
	for (; p < end; p++)
	{
		bool		behind_percent = part > pattern->parts && part->len == 0;

		if (*p == '%')
		{
			if (behind_percent)
				continue;
			part++;
			part->bytes = bytes;
			part->any = any;
			continue;
		}
		if (*p == '_' && behind_percent)
		{
			part->skip++;
			continue;
		}
		*any = *p == '_';

		/*
		 * PostgreSQL raises an error for an escape at the end, if it comes to
		 * it
		 */
		if (*p == '\\' && ++p == end)
			return false;
		/* where PostgreSQL looks for it no character ends */
		if (behind_percent && pattern->utf8 && ((uint8) *p & 0xC0) == 0x80)
			return false;
		if (part->run == part->len && !*any)
			part->run++;
		part->len++;
		*bytes++ = *p;
		any++;
	}
	pattern->nparts = part - pattern->parts + 1;

	return true;
}

/* Make it that of a text; false if PostgreSQL has to match it. */
static bool
pattern_set(LikePattern *pattern, Datum text)
{
	struct varlena *value = PG_DETOAST_DATUM_PACKED(text);
	const char *data = VARDATA_ANY(value);
	int			len = VARSIZE_ANY_EXHDR(value);

	if (!pattern->known || pattern->len != len || memcmp(pattern->text, data, len) != 0)
	{
		if (pattern->known)
			pfree(pattern->text);
		if (pattern->known && pattern->parts != NULL)
		{
			pfree(unconstify(char *, pattern->parts->bytes));
			pfree(unconstify(bool *, pattern->parts->any));
			pfree(pattern->parts);
		}
		pattern->known = false;
		pattern->text = MemoryContextAlloc(GetMemoryChunkContext(pattern), len + 1);
		memcpy(pattern->text, data, len);
		pattern->len = len;
		pattern->supported = cut(pattern);
		pattern->known = true;
	}
	if ((Pointer) value != DatumGetPointer(text))
		pfree(value);

	return pattern->supported;
}

/* ---- matching ---- */

static inline uint64
load_word(const char *p)
{
	uint64		word;

	memcpy(&word, p, sizeof(word));
	return word;
}

#define EACH_BYTE(b) (UINT64CONST(0x0101010101010101) * (uint8) (b))

#ifdef __SSE2__
#define VECTOR_BYTES 16

/* Which of 16 bytes equal one that fills a vector: a bit each. */
static inline uint32
equal_bytes(const char *p, __m128i byte)
{
	return _mm_movemask_epi8(_mm_cmpeq_epi8(_mm_loadu_si128((const __m128i *) p), byte));
}

/* find() where there are 16 places at least, which are tried at once. */
static inline const char *
find_by_vectors(const char *t, const char *stop, const char *bytes, int len)
{
	__m128i		first = _mm_set1_epi8(bytes[0]);
	__m128i		last = _mm_set1_epi8(bytes[len - 1]);

	for (;;)
	{
		uint32		hits = equal_bytes(t, first) & equal_bytes(t + len - 1, last);

		for (; hits != 0; hits &= hits - 1)
		{
			const char *place = t + pg_rightmost_one_pos32(hits);

			if (memcmp(place, bytes, len) == 0)
				return place;
		}
		if (stop - t <= VECTOR_BYTES)
			return NULL;
		/* the last places, of which some may have been tried */
		t = Min(t + VECTOR_BYTES, stop - VECTOR_BYTES);
	}
}
#endif

/*
 * Where `bytes` are found first, or NULL. Eight places are tried at once, by
 * the first and the last byte.
 */
static inline const char *
find(const char *t, const char *end, const char *bytes, int len)
{
	uint64		first = EACH_BYTE(bytes[0]);
	uint64		last = EACH_BYTE(bytes[len - 1]);
	const char *stop;

	if (end - t < len)
		return NULL;
	stop = end - len + 1;
#ifdef __SSE2__
	if (stop - t >= VECTOR_BYTES)
		return find_by_vectors(t, stop, bytes, len);
#endif
	if (stop - t < sizeof(uint64))
	{
		for (; t < stop; t++)
		{
			if (*t == bytes[0] && memcmp(t, bytes, len) == 0)
				return t;
		}
		return NULL;
	}
	for (;;)
	{
		uint64		differ = (load_word(t) ^ first) | (load_word(t + len - 1) ^ last);
		uint64		hits = (differ - EACH_BYTE(0x01)) & ~differ & EACH_BYTE(0x80);

		/* the lowest hit is one, the others may not be */
		for (; hits != 0; hits &= hits - 1)
		{
			const char *place = t + pg_rightmost_one_pos64(hits) / BITS_PER_BYTE;

			if (memcmp(place, bytes, len) == 0)
				return place;
		}
		if (stop - t <= 2 * sizeof(uint64))
		{
			if (stop - t == sizeof(uint64))
				return NULL;
			/* the last places, of which some were tried */
			t = stop - sizeof(uint64);
		}
		else
			t += sizeof(uint64);
	}
}

static inline const char *
next_character(const LikePattern *pattern, const char *t, const char *end)
{
	t++;
	while (pattern->utf8 && t < end && ((uint8) *t & 0xC0) == 0x80)
		t++;
	return t;
}

/* The end of what matches a part from its byte i on, or NULL. */
static const char *
match_bytes(const LikePattern *pattern, const Part *part, int i, const char *t, const char *end)
{
	for (; i < part->len; i++)
	{
		if (t >= end)
			return NULL;
		if (part->any[i])
			t = next_character(pattern, t, end);
		else if (*t++ != part->bytes[i])
			return NULL;
	}
	return t;
}

static inline bool
matches(const LikePattern *pattern, const char *t, int len)
{
	const char *end = t + len;
	const Part *part = pattern->parts;
	const Part *last = part + pattern->nparts - 1;

	if (len < part->run || memcmp(t, part->bytes, part->run) != 0)
		return false;
	t = match_bytes(pattern, part, part->run, t + part->run, end);
	if (t == NULL)
		return false;
	if (part == last)
		return t == end;

	while (++part <= last)
	{
		for (int i = 0; i < part->skip; i++)
		{
			if (t >= end)
				return false;
			t = next_character(pattern, t, end);
		}
		if (part == last && part->run == part->len)
			return part->len == 0 ||
				(end - t >= part->len && memcmp(end - part->len, part->bytes, part->len) == 0);
		for (;;)
		{
			const char *place = find(t, end, part->bytes, part->run);
			const char *behind;

			if (place == NULL)
				return false;
			behind = match_bytes(pattern, part, part->run, place + part->run, end);
			if (behind != NULL && (part < last || behind == end))
			{
				t = behind;
				break;
			}
			t = place + 1;
		}
	}

	return true;
}

/* The truth of LIKE, or of NOT LIKE, for n strings. */
static void
match_rows(const LikePattern *pattern, const Values *strings, int n, bool negated, uint8 *truth)
{
	for (int i = 0; i < n; i++)
	{
		struct varlena *string = (struct varlena *) DatumGetPointer(strings->values[i]);

		if (strings->nulls[i])
			truth[i] = TRUTH_NULL;
		else if (likely(!VARATT_IS_COMPRESSED(string) && !VARATT_IS_EXTERNAL(string)))
			truth[i] = matches(pattern, VARDATA_ANY(string), VARSIZE_ANY_EXHDR(string)) != negated;
		else
		{
			string = pg_detoast_datum_packed(string);
			truth[i] = matches(pattern, VARDATA_ANY(string), VARSIZE_ANY_EXHDR(string)) != negated;
			/* it may be large */
			pfree(string);
		}
	}
}

/* ---- the kernel ---- */

static Predicate *
compile(Expr *expr, const PredicateContext *context)
{
	OpExpr	   *op = (OpExpr *) expr;
	Expr	   *left;
	Expr	   *right;
	Like	   *result;
	bool		negated;

	if (!IsA(expr, OpExpr) || list_length(op->args) != 2 ||
		!is_like(op->opfuncid, op->inputcollid, &negated))
		return NULL;
	left = linitial(op->args);
	right = planner_strip_relabel(lsecond(op->args));

	/*
	 * with a string that may raise an error, a pattern must not: which of
	 * them comes first is PostgreSQL's to say
	 */
	if (!predicate_is_harmless(left) && !(context->top && IsA(right, Const)))
		return NULL;
	if (!IsA(right, Const) && !(IsA(right, Param) && (context->top || predicate_is_harmless(right))))
		return NULL;
	/* a parameter may be a pattern for which strings raise errors */
	if (context->certain && !IsA(right, Const))
		return NULL;
	result = predicate_create(sizeof(Like), &like_kernel);
	result->predicate.costly = true;
	result->negated = negated;
	result->string = vector_expr_compile(left, context->batch);
	result->text = vector_expr_compile(right, context->batch);
	result->pattern = pattern_create();
	if (IsA(right, Const) &&
		(((Const *) right)->constisnull || !pattern_set(result->pattern, ((Const *) right)->constvalue)))
		return NULL;
	return &result->predicate;
}

static bool
eval(Predicate *predicate, Batch *batch, const uint16 *rows, int n, uint8 *truth)
{
	Like	   *like = (Like *) predicate;
	Values		strings;
	bool		isnull;
	Datum		text = vector_expr_scalar(like->text, batch, &isnull);

	if (!isnull && !pattern_set(like->pattern, text))
		return false;
	vector_expr_eval(like->string, batch, rows, n, &strings);
	if (isnull)
		memset(truth, TRUTH_NULL, n);
	else
		match_rows(like->pattern, &strings, n, like->negated, truth);
	return true;
}

const PredicateKernel like_kernel = {
	.compile = compile,
	.eval = eval,
};

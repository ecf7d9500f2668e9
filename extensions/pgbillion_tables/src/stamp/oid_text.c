/*-------------------------------------------------------------------------
 *
 * oid_text.c
 *	  Texts of two clones that differ in the OIDs of members: names such as
 *	  pg_toast_16384, and stored expressions.
 *
 * An expression is stored as nodeToString() writes it: fields that are OIDs
 * as decimal numbers, and the value of a Const as a list of bytes, in which
 * OIDs (of an enum's label, of reg* types, or several of them in an array or
 * a row) stand as words of four.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#if PG_VERSION_NUM >= 160000
#include "varatt.h"
#endif

#include "lib/stringinfo.h"
#include "utils/builtins.h"

#include "stamp/stamp.h"

#define CONST_VALUE ":constvalue "

typedef struct Comparison
{
	const MemberRows *one;
	const MemberRows *other;
	const char *text;			/* what is left of both */
	const char *other_text;
	bool		is_name;
	StringInfoData piece;		/* since the last OID */
	OidTemplate *result;
	int			size;			/* of its arrays */
} Comparison;

static bool compare_number(Comparison *comparison, char before);
static bool compare_value(Comparison *comparison);
static int	value_length(const char *text, int *nbytes);
static const char *read_word(const char *text, int nbytes, unsigned char *word);
static void add_place(Comparison *comparison, int member, bool as_bytes);
static void fill(StringInfo buf, const OidTemplate *text, const Oid *oids);

/*
 * What two clones' texts are made of; NULL if they differ in anything except
 * the OIDs of members. They are names, or expressions.
 */
OidTemplate *
oid_template_compare(const MemberRows *one, const MemberRows *other,
					 const char *text, const char *other_text, bool is_name)
{
	Comparison	comparison = {one, other, text, other_text, is_name};
	char		before = ' ';

	comparison.result = palloc0(sizeof(OidTemplate));
	initStringInfo(&comparison.piece);
	while (*comparison.text != '\0')
	{
		const char *start = comparison.text;
		bool		digit = isdigit((unsigned char) *start) &&
			isdigit((unsigned char) *comparison.other_text);

		if (digit && !isdigit((unsigned char) before))
		{
			if (!compare_number(&comparison, before))
				return NULL;
		}
		else if (!is_name && strncmp(start, CONST_VALUE, strlen(CONST_VALUE)) == 0 &&
				 strncmp(comparison.other_text, CONST_VALUE, strlen(CONST_VALUE)) == 0)
		{
			if (!compare_value(&comparison))
				return NULL;
		}
		else
		{
			if (*start != *comparison.other_text)
				return NULL;
			appendStringInfoChar(&comparison.piece, *start);
			comparison.text++;
			comparison.other_text++;
		}
		before = comparison.text[-1];
	}
	if (*comparison.other_text != '\0')
		return NULL;
	/* the last piece ends the text */
	add_place(&comparison, -1, false);
	comparison.result->nplaces--;
	return comparison.result;
}

/* The name in the clone whose members have these OIDs; cut if it is too long. */
void
oid_template_fill_name(const OidTemplate *text, const Oid *oids, Name name)
{
	char	   *at = NameStr(*name);
	const char *end = at + NAMEDATALEN - 1;

	for (int i = 0; i <= text->nplaces; i++)
	{
		char		characters[MAX_PLACE_LENGTH];
		int			length = strlen(text->pieces[i]);

		length = Min(length, end - at);
		memcpy(at, text->pieces[i], length);
		at += length;
		if (i == text->nplaces)
			break;
		length = oid_template_write(text, i, oids, characters);
		length = Min(length, end - at);
		memcpy(at, characters, length);
		at += length;
	}
	memset(at, 0, NameStr(*name) + NAMEDATALEN - at);
}

/* The expression, as text; palloc'd. */
Datum
oid_template_fill(const OidTemplate *text, const Oid *oids)
{
	StringInfoData buf;
	char		header[VARHDRSZ] = {0};

	initStringInfo(&buf);
	appendBinaryStringInfo(&buf, header, VARHDRSZ);
	fill(&buf, text, oids);
	SET_VARSIZE(buf.data, buf.len);
	return PointerGetDatum(buf.data);
}

static void
fill(StringInfo buf, const OidTemplate *text, const Oid *oids)
{
	char		characters[MAX_PLACE_LENGTH];

	for (int i = 0; i < text->nplaces; i++)
	{
		appendStringInfoString(buf, text->pieces[i]);
		appendBinaryStringInfo(buf, characters, oid_template_write(text, i, oids, characters));
	}
	appendStringInfoString(buf, text->pieces[text->nplaces]);
}

/* The OID of a place, MAX_PLACE_LENGTH characters at most, without a zero at the end; returns how many. */
int
oid_template_write(const OidTemplate *text, int place, const Oid *oids, char *characters)
{
	Oid			oid = oids[text->members[place]];
	const char *bytes = (const char *) &oid;
	char	   *p = characters;

	if (!text->as_bytes[place])
		return pg_ultoa_n(oid, characters);

	/* as outDatum() does, which prints char as it is */
	for (int i = 0; i < (int) sizeof(Oid); i++)
	{
		if (i > 0)
			*p++ = ' ';
		p += pg_itoa((int16) bytes[i], p);
	}
	return p - characters;
}

/* Both texts stand at the first digit of a number; `before` is what precedes it. */
static bool
compare_number(Comparison *comparison, char before)
{
	int			length = strspn(comparison->text, "0123456789");
	int			other_length = strspn(comparison->other_text, "0123456789");
	const char *end = comparison->text + length;
	int			member;

	if (length == other_length &&
		memcmp(comparison->text, comparison->other_text, length) == 0)
		appendBinaryStringInfo(&comparison->piece, comparison->text, length);
	else
	{
		/* in an expression it must be a whole field, or one of a list */
		if (!comparison->is_name &&
			((before != ' ' && before != '(') ||
			 (*end != '\0' && strchr(" )}", *end) == NULL)))
			return false;
		if (length > 10 || other_length > 10)
			return false;
		member = member_rows_explain(comparison->one, comparison->other,
									 (Oid) strtoul(comparison->text, NULL, 10),
									 (Oid) strtoul(comparison->other_text, NULL, 10));
		if (member < 0)
			return false;
		add_place(comparison, member, false);
	}
	comparison->text = end;
	comparison->other_text += other_length;
	return true;
}

/* Both texts stand at what may be the value of a Const: ":constvalue 4 [ 1 2 0 0 0 0 0 0 ]". */
static bool
compare_value(Comparison *comparison)
{
	int			nbytes;
	int			other_nbytes;
	int			head = value_length(comparison->text, &nbytes);
	int			other_head = value_length(comparison->other_text, &other_nbytes);

	if (head == 0 && other_head == 0)
	{
		/* null, or a name that only looks like it */
		appendStringInfoString(&comparison->piece, CONST_VALUE);
		comparison->text += strlen(CONST_VALUE);
		comparison->other_text += strlen(CONST_VALUE);
		return true;
	}
	if (head != other_head || nbytes != other_nbytes ||
		memcmp(comparison->text, comparison->other_text, head) != 0)
		return false;
	appendBinaryStringInfo(&comparison->piece, comparison->text, head);
	comparison->text += head;
	comparison->other_text += head;

	for (int done = 0; done < nbytes; done += sizeof(Oid))
	{
		int			n = Min(nbytes - done, (int) sizeof(Oid));
		unsigned char word[sizeof(Oid)] = {0};
		unsigned char other_word[sizeof(Oid)] = {0};
		const char *end = read_word(comparison->text, n, word);
		const char *other_end = read_word(comparison->other_text, n, other_word);

		if (memcmp(word, other_word, sizeof(word)) == 0)
			appendBinaryStringInfo(&comparison->piece, comparison->text, end - comparison->text);
		else
		{
			Oid			oid;
			Oid			other_oid;
			int			member;

			memcpy(&oid, word, sizeof(Oid));
			memcpy(&other_oid, other_word, sizeof(Oid));
			member = n < sizeof(Oid) ? -1 :
				member_rows_explain(comparison->one, comparison->other, oid, other_oid);
			if (member < 0)
				return false;
			add_place(comparison, member, true);
			/* what read_word() has read beyond the last byte is a space */
			appendStringInfoChar(&comparison->piece, ' ');
		}
		comparison->text = end;
		comparison->other_text = other_end;
	}
	return true;
}

/*
 * The length of what precedes the bytes of a Const's value, and how many
 * bytes follow; 0 if the text is not one.
 */
static int
value_length(const char *text, int *nbytes)
{
	const char *p = text + strlen(CONST_VALUE);
	int			head;
	int			n = 0;

	if (!isdigit((unsigned char) *p))
		return 0;
	p += strspn(p, "0123456789");
	if (strncmp(p, " [ ", 3) != 0)
		return 0;
	p += 3;
	head = p - text;
	while (*p != ']')
	{
		if (*p == '-')
			p++;
		if (!isdigit((unsigned char) *p))
			return 0;
		p += strspn(p, "0123456789");
		if (*p++ != ' ')
			return 0;
		n++;
	}
	*nbytes = n;
	return head;
}

/* Reads bytes, each with the space behind it; value_length() has seen them. */
static const char *
read_word(const char *text, int nbytes, unsigned char *word)
{
	for (int i = 0; i < nbytes; i++)
	{
		char	   *end;

		word[i] = (unsigned char) strtol(text, &end, 10);
		Assert(*end == ' ');
		text = end + 1;
	}
	return text;
}

static void
add_place(Comparison *comparison, int member, bool as_bytes)
{
	OidTemplate *result = comparison->result;

	if (result->nplaces == comparison->size)
	{
		bool		first = comparison->size == 0;

		comparison->size = Max(4, comparison->size * 2);
		if (first)
		{
			result->pieces = palloc(comparison->size * sizeof(char *));
			result->members = palloc(comparison->size * sizeof(int));
			result->as_bytes = palloc(comparison->size * sizeof(bool));
		}
		else
		{
			result->pieces = repalloc(result->pieces, comparison->size * sizeof(char *));
			result->members = repalloc(result->members, comparison->size * sizeof(int));
			result->as_bytes = repalloc(result->as_bytes, comparison->size * sizeof(bool));
		}
	}
	result->pieces[result->nplaces] = pstrdup(comparison->piece.data);
	result->members[result->nplaces] = member;
	result->as_bytes[result->nplaces] = as_bytes;
	result->nplaces++;
	resetStringInfo(&comparison->piece);
}

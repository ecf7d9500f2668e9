/*-------------------------------------------------------------------------
 *
 * wording.c
 *	  Definitions that mean the same, in one wording.
 *
 * What PostgreSQL shows of a stored expression is not always what it shows of
 * the expression that it makes of that text. So a clone, or what pg_restore
 * has made, can differ from its source in the wording alone:
 *
 *	(ARRAY[a, b])::text[]		becomes	ARRAY[(a)::text, (b)::text]
 *	((a AND b) AND c)			becomes	(a AND b AND c), wherever the inner one
 *								stands, and likewise with OR
 *	(- 1)						becomes	'-1'::integer
 *	NULL::integer AS int4		becomes	NULL::integer
 *
 * The first is what IN of a varchar column is made of, the second comes from
 * BETWEEN, the third from -1::integer, and the fourth from NULL in the second
 * SELECT of a UNION: a cast names its column, which had no name before.
 * PostgreSQL shows all names that can be referred to, so that none that says
 * something is lost. Here each text gets the second
 * form, and loses parentheses around what stands before "::" where they say
 * nothing, because there they depend on whether the text is a pretty one.
 *
 * The text is read as the names, strings and parentheses that PostgreSQL's
 * deparsing functions write, and nothing inside strings or the text of a
 * function is changed. The result is only good for comparisons.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "parser/scansup.h"

#include "clone/clone.h"

typedef enum PartKind
{
	PART_WORD,					/* also a parameter */
	PART_QUOTED,
	PART_STRING,
	PART_NUMBER,
	PART_OTHER,
	PART_GROUP
} PartKind;

/* A token, or what is between two parentheses or brackets. */
typedef struct Part
{
	PartKind	kind;
	bool		close;			/* without white space before it? */
	const char *text;			/* of a group: "(" or "[" */
	List	   *parts;			/* of a group */
} Part;

static List *read_parts(const char **at, char end);
static Part *read_part(const char **at);
static const char *end_of_string(const char *at, bool escapes);
static const char *end_of_body(const char *at);
static Part *make_part(PartKind kind, const char *text, int length);
static List *settle(List *parts);
static bool is_named_by(const List *parts, int at, const List *type);
static void flatten(Part *group);
static bool is_chain(const List *parts, const char *word, const char *other);
static bool is_sign(List *parts, int at);
static List *negative(List *parts, int at);
static List *push_down(List *before, List *type);
static List *cast_element(List *element, List *type);
static bool is_literal_of(List *element, List *type);
static bool is_primary(List *parts);
static int	end_of_type(List *parts, int at);
static bool is_text(const List *parts, int at, const char *text);
static bool is_group(const List *parts, int at, char open);
static bool is_name(const List *parts, int at);
static void write_parts(StringInfo text, List *parts);

/* The definition in the one wording, allocated in the current context. */
char *
wording_of(const char *definition)
{
	StringInfoData text;
	const char *at = definition;

	initStringInfo(&text);
	write_parts(&text, settle(read_parts(&at, '\0')));
	return text.data;
}

/* ---- reading ---- */

/* The parts up to a closing parenthesis or bracket, or all. */
static List *
read_parts(const char **at, char end)
{
	List	   *parts = NIL;

	check_stack_depth();
	for (;;)
	{
		const char *from = *at;
		Part	   *part;
		bool		close;

		while (scanner_isspace(**at))
			(*at)++;
		if (**at == '\0')
			return parts;
		if (**at == end)
		{
			(*at)++;
			return parts;
		}
		close = from == *at;
		part = read_part(at);
		part->close = close;
		parts = lappend(parts, part);
	}
}

static Part *
read_part(const char **at)
{
	static const char operators[] = "~!@#^&|`?+-*/%<>=";
	const char *from = *at;
	const char *end = from;
	PartKind	kind = PART_OTHER;

	if (*from == '(' || *from == '[')
	{
		Part	   *group = make_part(PART_GROUP, from, 1);

		(*at)++;
		group->parts = read_parts(at, *from == '(' ? ')' : ']');
		return group;
	}
	if (*from == '\'')
	{
		kind = PART_STRING;
		end = end_of_string(from + 1, false);
	}
	else if (*from == 'E' && from[1] == '\'')
	{
		kind = PART_STRING;
		end = end_of_string(from + 2, true);
	}
	else if (*from == '"')
	{
		kind = PART_QUOTED;
		do
		{
			end = strchr(end + 1, '"');
			end = end == NULL ? from + strlen(from) : end + 1;
		} while (*end == '"');
	}
	else if (*from == '$')
	{
		end = end_of_body(from);
		kind = end == NULL ? PART_WORD : PART_STRING;
		if (end == NULL)
			end = from + 1 + strspn(from + 1, "0123456789");
	}
	else if (*from >= '0' && *from <= '9')
	{
		kind = PART_NUMBER;
		end += strspn(from, "0123456789.");
		/* an exponent, with or without a sign */
		if (*end == 'e' || *end == 'E')
		{
			end += end[1] == '+' || end[1] == '-' ? 2 : 1;
			end += strspn(end, "0123456789");
		}
	}
	else if (from[0] == ':' && from[1] == ':')
		end += 2;
	else if (strchr(operators, *from) != NULL)
		end += strspn(from, operators);
	else
	{
		while (isalnum((unsigned char) *end) || *end == '_' || *end == '$' || IS_HIGHBIT_SET(*end))
			end++;
		if (end == from)
			end++;
		else
			kind = PART_WORD;
	}
	*at = end;
	return make_part(kind, from, end - from);
}

/* Behind its last quote. */
static const char *
end_of_string(const char *at, bool escapes)
{
	for (; *at != '\0'; at++)
	{
		if (*at == '\\' && escapes && at[1] != '\0')
			at++;
		else if (*at == '\'' && *++at != '\'')
			return at;
	}
	return at;
}

/* Behind a string in dollar quotes; NULL if none begins here. */
static const char *
end_of_body(const char *at)
{
	const char *tag = at + 1;
	char	   *delimiter;
	const char *end;

	while (isalpha((unsigned char) *tag) || *tag == '_' || IS_HIGHBIT_SET(*tag))
		tag++;
	if (*tag != '$')
		return NULL;
	delimiter = pnstrdup(at, tag + 1 - at);
	end = strstr(tag + 1, delimiter);
	return end == NULL ? at + strlen(at) : end + strlen(delimiter);
}

static Part *
make_part(PartKind kind, const char *text, int length)
{
	Part	   *part = palloc0(sizeof(Part));

	part->kind = kind;
	part->text = pnstrdup(text, length);
	return part;
}

/* ---- the one wording ---- */

static List *
settle(List *parts)
{
	List	   *result = NIL;

	check_stack_depth();
	CHECK_FOR_INTERRUPTS();
	for (int at = 0; at < list_length(parts); at++)
	{
		Part	   *part = list_nth(parts, at);
		List	   *number = NIL;
		int			end;

		if (part->kind == PART_GROUP)
		{
			number = list_length(part->parts) == 2 && part->text[0] == '(' ? negative(part->parts, 0) : NIL;
			part->parts = settle(part->parts);
			flatten(part);
		}
		else if (is_sign(parts, at) && (number = negative(parts, at)) != NIL)
			at++;
		if (number != NIL)
		{
			result = list_concat(result, number);
			if (is_named_by(parts, at + 1, list_make1(llast(number))))
				at += 2;
			continue;
		}
		if (part->kind != PART_GROUP && strcmp(part->text, "::") == 0 && (end = end_of_type(parts, at + 1)) > 0)
		{
			List	   *type = NIL;

			while (++at < end)
				type = lappend(type, list_nth(parts, at));
			at--;
			if (is_group(result, list_length(result) - 1, '('))
			{
				Part	   *group = llast(result);

				/* the arguments of a function follow its name directly */
				if (!(group->close && is_name(result, list_length(result) - 2)) && is_primary(group->parts))
					result = list_concat(list_delete_last(result), group->parts);
			}
			if (is_named_by(parts, at + 1, type))
				at += 2;
			result = push_down(result, type);
			continue;
		}
		result = lappend(result, part);
	}
	return result;
}

/* Does this say that a column has the name that it gets from its type? */
static bool
is_named_by(const List *parts, int at, const List *type)
{
	static const char *const names[][2] = {
		/* the longer one first */
		{"character varying", "varchar"}, {"character", "bpchar"},
		{"bigint", "int8"}, {"bit varying", "varbit"}, {"boolean", "bool"}, {"double precision", "float8"}, {"integer", "int4"}, {"real", "float4"},
		{"smallint", "int2"}, {"time with", "timetz"}, {"timestamp with", "timestamptz"}
	};
	const char *first = ((Part *) linitial(type))->text;
	const char *word = NULL;
	const char *name = first;

	if (!is_text(parts, at, "AS") || !is_name(parts, at + 1))
		return false;
	for (int i = 1; i < list_length(type); i++)
	{
		/* the second word, or the name behind the schema's */
		if (is_text(type, i, ".") && is_name(type, i + 1))
			name = ((Part *) list_nth(type, i + 1))->text;
		else if (word == NULL && is_name(type, i) && !is_text(type, i - 1, "."))
			word = ((Part *) list_nth(type, i))->text;
	}
	for (int i = 0; name == first && i < lengthof(names); i++)
		if (strcmp(names[i][0], first) == 0 ||
			(word != NULL && strcmp(names[i][0], psprintf("%s %s", first, word)) == 0))
			name = names[i][1];
	/* some are keywords */
	return is_text(parts, at + 1, name) || is_text(parts, at + 1, psprintf("\"%s\"", name));
}

/* ((a AND b) AND c) is (a AND b AND c), and so is (a AND (b AND c)). */
static void
flatten(Part *group)
{
	static const char *const words[] = {"AND", "OR"};
	List	   *parts = group->parts;
	int			n = list_length(parts);

	group->parts = NIL;
	for (int at = 0; at < n; at++)
	{
		List	   *inner = is_group(parts, at, '(') ? ((Part *) list_nth(parts, at))->parts : NIL;
		int			i = is_chain(inner, "AND", "OR") ? 0 : is_chain(inner, "OR", "AND") ? 1 : -1;

		if (i >= 0 && n > 1 &&
			(at == 0 || is_text(parts, at - 1, words[i])) && (at == n - 1 || is_text(parts, at + 1, words[i])))
			group->parts = list_concat(group->parts, inner);
		else
			group->parts = lappend(group->parts, list_nth(parts, at));
	}
}

/* Are these conditions that one of two words connects, and not the other? */
static bool
is_chain(const List *parts, const char *word, const char *other)
{
	bool		found = false;

	/* a query can end with such conditions */
	if (is_text(parts, 0, "SELECT") || is_text(parts, 0, "WITH"))
		return false;
	for (int at = 0; at < list_length(parts); at++)
	{
		if (is_text(parts, at, other))
			return false;
		found = found || is_text(parts, at, word);
	}
	return found;
}

/*
 * Is this a minus without parentheses, as in pretty texts, and nothing before
 * it to subtract from? Words that are no names are in upper case.
 */
static bool
is_sign(List *parts, int at)
{
	const Part *before;

	if (!is_text(parts, at, "-") || at == 0)
		return is_text(parts, at, "-");
	before = list_nth(parts, at - 1);
	return is_text(parts, at - 1, ",") ||
		(before->kind == PART_WORD && before->text[0] >= 'A' && before->text[0] <= 'Z');
}

/* The constant that minus and a number are; NIL for anything else. */
static List *
negative(List *parts, int at)
{
	const Part *number;
	const char *type;
	char	   *constant;

	if (!is_text(parts, at, "-") || at + 1 >= list_length(parts))
		return NIL;
	number = list_nth(parts, at + 1);
	if (number->kind != PART_NUMBER)
		return NIL;
	constant = psprintf("'-%s'", number->text);
	type = strpbrk(number->text, ".eE") != NULL ? "numeric" : "integer";
	return list_make3(make_part(PART_STRING, constant, strlen(constant)), make_part(PART_OTHER, "::", 2),
					  make_part(PART_WORD, type, strlen(type)));
}

/* What is cast to a type, with the cast; that of ARRAY[…] to another array goes to its elements. */
static List *
push_down(List *before, List *type)
{
	int			n = list_length(before);
	Part	   *array;
	List	   *of_elements;
	List	   *elements = NIL;
	List	   *element = NIL;

	if (!is_group(type, list_length(type) - 1, '[') || !is_group(before, n - 1, '[') ||
		!is_text(before, n - 2, "ARRAY") || ((Part *) llast(before))->parts == NIL)
		return list_concat(lappend(before, make_part(PART_OTHER, "::", 2)), type);

	array = llast(before);
	of_elements = list_delete_last(list_copy(type));
	for (int at = 0; at <= list_length(array->parts); at++)
	{
		bool		last = at == list_length(array->parts);

		if (!last && !is_text(array->parts, at, ","))
		{
			element = lappend(element, list_nth(array->parts, at));
			continue;
		}
		if (list_length(element) == 2 && is_text(element, 0, "ARRAY") && is_group(element, 1, '['))
			element = push_down(element, type);
		else
			element = cast_element(element, of_elements);
		elements = list_concat(elements, element);
		if (!last)
			elements = lappend(elements, list_nth(array->parts, at));
		element = NIL;
	}
	array->parts = elements;
	return before;
}

static List *
cast_element(List *element, List *type)
{
	if (is_literal_of(element, type))
		element = list_make1(linitial(element));
	else if (!is_primary(element))
	{
		Part	   *group = make_part(PART_GROUP, "(", 1);

		group->parts = element;
		element = list_make1(group);
	}
	return list_concat(lappend(element, make_part(PART_OTHER, "::", 2)), list_copy(type));
}

/* A constant is shown with the one type, 'a'::varchar(3), if the other has only lengths in addition. */
static bool
is_literal_of(List *element, List *type)
{
	int			at = 2;

	if (((Part *) linitial(element))->kind == PART_NUMBER)
		return list_length(element) == 1 && is_text(type, 0, "numeric") && list_length(type) > 1 &&
			strpbrk(((Part *) linitial(element))->text, ".eE") != NULL;
	if (((Part *) linitial(element))->kind != PART_STRING || !is_text(element, 1, "::") ||
		list_length(type) != list_length(element) - 1)
		return false;
	for (int i = 0; i < list_length(type); i++)
	{
		if (is_group(type, i, '('))
			continue;
		if (at >= list_length(element) || !is_text(element, at, ((Part *) list_nth(type, i))->text))
			return false;
		at++;
	}
	return at == list_length(element);
}

/* Is it something to which "::" binds as a whole? */
static bool
is_primary(List *parts)
{
	int			at = 1;
	Part	   *first;

	if (parts == NIL)
		return false;
	first = linitial(parts);
	if (first->kind == PART_OTHER || is_group(parts, 0, '['))
		return false;
	while (at < list_length(parts))
	{
		if (is_text(parts, at, ".") && at + 1 < list_length(parts))
			at += 2;
		else if (is_group(parts, at, '(') || is_group(parts, at, '['))
			at++;
		else if (is_text(parts, at, "::"))
		{
			at = end_of_type(parts, at + 1);
			if (at < 0)
				return false;
		}
		else
			return false;
	}
	return true;
}

/* Behind a type's name that begins here; -1 if it is none. */
static int
end_of_type(List *parts, int at)
{
	static const char *const pairs[][2] = {
		{"character", "varying"}, {"bit", "varying"}, {"double", "precision"}
	};
	static const char *const fields[] = {"year", "month", "day", "hour", "minute", "second", "to"};
	int			first = at;
	bool		found = true;

	if (!is_name(parts, at))
		return -1;
	at++;
	while (is_text(parts, at, ".") && is_name(parts, at + 1))
		at += 2;
	for (int i = 0; i < lengthof(pairs); i++)
		if (is_text(parts, first, pairs[i][0]) && is_text(parts, at, pairs[i][1]))
			at++;
	while (is_text(parts, first, "interval") && found)
	{
		found = false;
		for (int i = 0; i < lengthof(fields) && !found; i++)
			found = is_text(parts, at, fields[i]);
		if (found)
			at++;
	}
	if (is_group(parts, at, '('))
		at++;
	if ((is_text(parts, first, "timestamp") || is_text(parts, first, "time")) &&
		(is_text(parts, at, "with") || is_text(parts, at, "without")) &&
		is_text(parts, at + 1, "time") && is_text(parts, at + 2, "zone"))
		at += 3;
	if (is_group(parts, at, '[') && ((Part *) list_nth(parts, at))->parts == NIL)
		at++;
	return at;
}

static bool
is_text(const List *parts, int at, const char *text)
{
	const Part *part;

	if (at < 0 || at >= list_length(parts))
		return false;
	part = list_nth(parts, at);
	return part->kind != PART_GROUP && part->kind != PART_STRING && strcmp(part->text, text) == 0;
}

static bool
is_group(const List *parts, int at, char open)
{
	const Part *part;

	if (at < 0 || at >= list_length(parts))
		return false;
	part = list_nth(parts, at);
	return part->kind == PART_GROUP && part->text[0] == open;
}

static bool
is_name(const List *parts, int at)
{
	const Part *part;

	if (at < 0 || at >= list_length(parts))
		return false;
	part = list_nth(parts, at);
	return part->kind == PART_WORD || part->kind == PART_QUOTED;
}

/* ---- writing ---- */

static void
write_parts(StringInfo text, List *parts)
{
	ListCell   *lc;

	check_stack_depth();
	foreach(lc, parts)
	{
		const Part *part = lfirst(lc);

		if (text->len > 0)
			appendStringInfoChar(text, ' ');
		appendStringInfoString(text, part->text);
		if (part->kind == PART_GROUP)
		{
			write_parts(text, part->parts);
			appendStringInfoString(text, part->text[0] == '(' ? " )" : " ]");
		}
	}
}

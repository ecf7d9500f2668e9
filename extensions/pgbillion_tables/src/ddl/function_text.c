/*-------------------------------------------------------------------------
 *
 * function_text.c
 *	  Where the text of a function, in SQL or PL/pgSQL, names a schema.
 *
 * A text is read as PostgreSQL's scanner reads it. The name counts where it is
 * written as quote_identifier() writes it and directly before a dot that
 * something follows; in comments, too. In strings, those in dollar quotes
 * among them, nothing counts: nobody knows what they are used for.
 *
 * Before a dot the same name can also be that of a table, an alias, a variable
 * or a label. Each of those stands somewhere without a dot behind it. So if
 * the name is an identifier in another place, or another spelling of it is,
 * all of the text is left as it is.
 *
 * Expects that quote_all_identifiers is off.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lib/stringinfo.h"
#include "parser/scansup.h"
#include "utils/builtins.h"
#include "utils/varlena.h"

#include "ddl/ddl.h"

typedef struct Scanner
{
	const char *at;
	const char *start;			/* of the text */
	const char *piece;			/* since the last place */
	const char *schema;
	const char *quoted;			/* as an identifier */
	int			quoted_length;
	int			operator;		/* 2 behind OPERATOR (, 1 behind OPERATOR */
	bool		ambiguous;		/* is the name something else's, too? */
	List	   *pieces;
} Scanner;

static void scan_token(Scanner *scanner);
static void scan_word(Scanner *scanner);
static void scan_line_comment(Scanner *scanner);
static void scan_comment(Scanner *scanner);
static void scan_quoted(Scanner *scanner);
static void scan_string(Scanner *scanner, bool escapes);
static const char *continuation(const char *at);
static bool scan_dollar_quoted(Scanner *scanner);
static void note_identifier(Scanner *scanner, const char *from);
static char *unquoted(const char *from, int length);
static bool is_followed_by_name(const Scanner *scanner, const char *dot);
static void note_in_comment(Scanner *scanner);
static void add_place(Scanner *scanner, const char *from);
static bool begins_word(unsigned char c);
static bool continues_word(unsigned char c);

/*
 * The pieces of a function's text between the places where it names the
 * schema; NIL if there are none, or they may mean something else.
 */
List *
body_split(const char *body, const char *schema)
{
	Scanner		scanner = {.at = body,.start = body,.piece = body,.schema = schema};

	scanner.quoted = quote_identifier(schema);
	scanner.quoted_length = strlen(scanner.quoted);
	while (*scanner.at != '\0' && !scanner.ambiguous)
		scan_token(&scanner);
	if (scanner.ambiguous || scanner.pieces == NIL || !body_can_name(schema))
		return NIL;
	return lappend(scanner.pieces, pstrdup(scanner.piece));
}

/* The same of a value of search_path, as PostgreSQL keeps it. */
List *
body_split_path(const char *path, const char *schema)
{
	StringInfoData piece;
	List	   *names;
	List	   *pieces = NIL;
	ListCell   *lc;

	if (!SplitIdentifierString(pstrdup(path), ',', &names))
		return NIL;
	initStringInfo(&piece);
	foreach(lc, names)
	{
		if (foreach_current_index(lc) > 0)
			appendStringInfoString(&piece, ", ");
		if (strcmp(lfirst(lc), schema) != 0)
			appendStringInfoString(&piece, quote_identifier(lfirst(lc)));
		else
		{
			pieces = lappend(pieces, pstrdup(piece.data));
			resetStringInfo(&piece);
		}
	}
	return pieces == NIL ? NIL : lappend(pieces, piece.data);
}

/* The text of which these are the pieces, with another schema's name in the places, filled up to a width. */
char *
body_join(const List *pieces, const char *schema, int width)
{
	const char *quoted = quote_identifier(schema);
	StringInfoData text;
	ListCell   *lc;

	initStringInfo(&text);
	foreach(lc, pieces)
	{
		if (foreach_current_index(lc) > 0)
		{
			appendStringInfoString(&text, quoted);
			appendStringInfoSpaces(&text, width - (int) strlen(quoted));
		}
		appendStringInfoString(&text, lfirst(lc));
	}
	return text.data;
}

/* Do they name it between the places, as a word of whatever kind? */
bool
body_pieces_name(const List *pieces, const char *schema)
{
	int			length = strlen(schema);
	ListCell   *lc;

	foreach(lc, pieces)
	{
		const char *piece = lfirst(lc);

		for (const char *at = piece; (at = strstr(at, schema)) != NULL; at++)
			if ((at == piece || !continues_word((unsigned char) at[-1])) &&
				!continues_word((unsigned char) at[length]))
				return true;
	}
	return false;
}

/*
 * Can this name take another's place? A comment must end where it did, and
 * PL/pgSQL has keywords of which quote_identifier() does not know.
 */
bool
body_can_name(const char *schema)
{
	static const char *const keywords[] = {
		"begin", "by", "declare", "execute", "foreach", "if", "loop", "strict", "while"
	};

	for (int i = 0; i < lengthof(keywords); i++)
		if (strcmp(schema, keywords[i]) == 0)
			return false;
	return strpbrk(schema, "\r\n") == NULL && strstr(schema, "*/") == NULL && strstr(schema, "/*") == NULL;
}

static bool
begins_word(unsigned char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c >= 0x80;
}

static bool
continues_word(unsigned char c)
{
	return begins_word(c) || (c >= '0' && c <= '9') || c == '$';
}

static void
scan_token(Scanner *scanner)
{
	const char *at = scanner->at;
	int			operator = scanner->operator;

	if (scanner_isspace(*at))
	{
		scanner->at++;
		return;
	}
	if (at[0] == '-' && at[1] == '-')
	{
		scan_line_comment(scanner);
		return;
	}
	if (at[0] == '/' && at[1] == '*')
	{
		scan_comment(scanner);
		return;
	}

	if (begins_word(*at))
	{
		scan_word(scanner);
		scanner->operator = pg_strncasecmp(at, "operator", strlen("operator")) == 0 &&
			scanner->at - at == strlen("operator") ? 1 : 0;
		return;
	}
	if (*at == '"')
		scan_quoted(scanner);
	else if (*at == '\'')
		scan_string(scanner, false);
	else if (*at == '$' && !scan_dollar_quoted(scanner))
		/* a parameter */
		scanner->at += 1 + strspn(at + 1, "0123456789");
	else if (*at >= '0' && *at <= '9')
	{
		/* whatever letters it has, they are no word's */
		while (continues_word((unsigned char) *scanner->at))
			scanner->at++;
	}
	else if (*at != '$')
		scanner->at++;
	scanner->operator = *at == '(' && operator == 1 ? 2 : 0;
}

/* An identifier, a keyword, or what a string begins with. */
static void
scan_word(Scanner *scanner)
{
	const char *from = scanner->at;
	int			length;

	while (continues_word((unsigned char) *scanner->at))
		scanner->at++;
	length = scanner->at - from;
	if (length == 1 && *scanner->at == '\'')
		scan_string(scanner, *from == 'e' || *from == 'E');
	else if (length == 1 && (*from == 'u' || *from == 'U') && scanner->at[0] == '&' && scanner->at[1] == '\'')
	{
		scanner->at++;
		scan_string(scanner, false);
	}
	else if (length == 1 && (*from == 'u' || *from == 'U') && scanner->at[0] == '&' && scanner->at[1] == '"')
		/* whose name that is only its escapes tell */
		scanner->ambiguous = true;
	else
		note_identifier(scanner, from);
}

static void
scan_line_comment(Scanner *scanner)
{
	while (*scanner->at != '\0' && *scanner->at != '\n' && *scanner->at != '\r')
		note_in_comment(scanner);
}

/* They nest. */
static void
scan_comment(Scanner *scanner)
{
	int			depth = 0;

	do
	{
		if (scanner->at[0] == '/' && scanner->at[1] == '*')
		{
			depth++;
			scanner->at += 2;
		}
		else if (scanner->at[0] == '*' && scanner->at[1] == '/')
		{
			depth--;
			scanner->at += 2;
		}
		else
			note_in_comment(scanner);
	} while (depth > 0 && *scanner->at != '\0');
}

static void
scan_quoted(Scanner *scanner)
{
	const char *from = scanner->at++;

	while (*scanner->at != '\0')
	{
		if (*scanner->at++ != '"')
			continue;
		if (*scanner->at != '"')
			break;
		scanner->at++;
	}
	note_identifier(scanner, from);
}

/* What begins with a quote. */
static void
scan_string(Scanner *scanner, bool escapes)
{
	const char *next = scanner->at;

	while (next != NULL)
	{
		scanner->at = next + 1;
		while (*scanner->at != '\0')
		{
			if (*scanner->at == '\'' && scanner->at[1] != '\'')
				break;
			/* two characters that mean one */
			if (*scanner->at == '\'' || (escapes && *scanner->at == '\\' && scanner->at[1] != '\0'))
				scanner->at++;
			scanner->at++;
		}
		if (*scanner->at == '\'')
			scanner->at++;
		next = continuation(scanner->at);
	}
}

/* Behind a string: the quote on a later line by which it goes on, or NULL. */
static const char *
continuation(const char *at)
{
	bool		newline = false;

	for (;; at++)
	{
		/* a comment only if it ends */
		if (at[0] == '-' && at[1] == '-')
			at += strcspn(at, "\r\n");
		if (*at == '\n' || *at == '\r')
			newline = true;
		else if (!scanner_isspace(*at))
			return newline && *at == '\'' ? at : NULL;
	}
}

/* Whether that is what the dollar begins; up to its end then. */
static bool
scan_dollar_quoted(Scanner *scanner)
{
	const char *tag = scanner->at;
	const char *end = tag + 1;
	char	   *delimiter;

	if (begins_word((unsigned char) *end))
		while (continues_word((unsigned char) *end) && *end != '$')
			end++;
	if (*end != '$')
		return false;
	delimiter = pnstrdup(tag, end + 1 - tag);
	end = strstr(end + 1, delimiter);
	scanner->at = end == NULL ? tag + strlen(tag) : end + strlen(delimiter);
	pfree(delimiter);
	return true;
}

/* An identifier has been read, from here on. */
static void
note_identifier(Scanner *scanner, const char *from)
{
	int			length = scanner->at - from;
	char	   *name = *from == '"' ? unquoted(from, length) : downcase_identifier(from, length, false, true);
	bool		is_schema = strcmp(name, scanner->schema) == 0;

	pfree(name);
	if (!is_schema)
		return;

	if (length == scanner->quoted_length && memcmp(from, scanner->quoted, length) == 0 &&
		(from == scanner->start || from[-1] != '.') && is_followed_by_name(scanner, scanner->at))
		add_place(scanner, from);
	else
		scanner->ambiguous = true;
}

/* What PostgreSQL takes a quoted identifier for. */
static char *
unquoted(const char *from, int length)
{
	char	   *name = palloc(length);
	int			n = 0;

	for (int i = 1; i < length; i++)
	{
		/* the second one of two stays, and neither one at the end */
		if (from[i] == '"' && (i == length - 1 || from[++i] != '"'))
			break;
		name[n++] = from[i];
	}
	name[n] = '\0';
	truncate_identifier(name, n, false);
	return name;
}

/* Is this a dot, and the name of something behind it? */
static bool
is_followed_by_name(const Scanner *scanner, const char *dot)
{
	if (*dot++ != '.')
		return false;
	while (scanner_isspace(*dot))
		dot++;
	/* "*" may be an operator's name, and is a table's columns elsewhere */
	return begins_word((unsigned char) *dot) || *dot == '"' ||
		(scanner->operator == 2 && *dot != '\0' && strchr("~!@#^&|`?+-*/%<>=", *dot) != NULL);
}

/* The next character of a comment, or the schema's name. */
static void
note_in_comment(Scanner *scanner)
{
	const char *from = scanner->at;
	unsigned char before = from == scanner->start ? ' ' : (unsigned char) from[-1];

	scanner->at++;
	if (continues_word(before) || before == '"' || before == '.' ||
		strncmp(from, scanner->quoted, scanner->quoted_length) != 0 || from[scanner->quoted_length] != '.')
		return;
	scanner->at = from + scanner->quoted_length;
	add_place(scanner, from);
}

/* The schema's name stands from here up to where the scanner is. */
static void
add_place(Scanner *scanner, const char *from)
{
	scanner->pieces = lappend(scanner->pieces, pnstrdup(scanner->piece, from - scanner->piece));
	scanner->piece = scanner->at;
}

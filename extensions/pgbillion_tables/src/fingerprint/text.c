/*-------------------------------------------------------------------------
 *
 * text.c
 *	  Texts and stored expressions in a form that says nothing of the schema.
 *
 * Who compares definitions leaves out the schema's own name where it stands
 * before a dot. Here it becomes a mark there. Where it stands otherwise, and
 * definitions might show it before a dot, a mark is added: the same text is
 * another one where the schema has another name.
 *
 * An expression is stored as nodeToString() writes it. The fields that are
 * OIDs are known by their names.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_class.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_enum.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "nodes/nodes.h"
#include "nodes/value.h"

#include "ddl/ddl.h"
#include "fingerprint/fingerprint.h"

/* What stands between the pieces of a text. */
#define MARK_NAME 'n'
#define MARK_OTHER_NAME 'x'
#define MARK_OID 'o'
#define MARK_VALUE 'v'
#define MARK_PLACE 'p'
#define MARK_END '.'

/* The fields of stored expressions that are OIDs, or lists of them, by what they refer to. */
static const char *const class_fields[] = {"relid", "resorigtbl", "seqid"};
static const char *const constraint_fields[] = {"constraint", "constraintDeps"};
static const char *const proc_fields[] = {
	"aggfnoid", "elemfuncid", "endInRangeFunc", "funcid", "hashfuncid", "negfuncid", "opfuncid",
	"startInRangeFunc", "tsmhandler", "winfnoid"
};
static const char *const type_fields[] = {
	"aggargtypes", "aggtranstype", "aggtype", "array_typeid", "casetype", "coalescetype", "colTypes",
	"coltypes", "consttype", "cycle_mark_type", "element_typeid", "funccoltypes", "funcresulttype",
	"minmaxtype", "msftype", "opresulttype", "paramtype", "refcontainertype", "refelemtype",
	"refrestype", "resulttype", "row_typeid", "typeId", "typid", "vartype", "wintype"
};

static const struct
{
	Oid			classid;
	const char *const *names;
	int			n;
}			oid_fields[] = {
	{RelationRelationId, class_fields, lengthof(class_fields)},
	{ConstraintRelationId, constraint_fields, lengthof(constraint_fields)},
	{ProcedureRelationId, proc_fields, lengthof(proc_fields)},
	{TypeRelationId, type_fields, lengthof(type_fields)},
};

/*
 * Those that tell where the command's text had it, and whether it was a cast,
 * implicit or not, or a call. equal() does not look at them either.
 */
static const char *const place_fields[] = {
	"list_end", "list_start", "location", "rexpr_list_end", "rexpr_list_start", "stmt_len", "stmt_location",
	"coerceformat", "coercionformat", "convertformat", "funcformat", "relabelformat", "row_format"
};

static void put_piece(Fingerprinter *printer, const char *from, const char *to);
static bool has_name(const Fingerprinter *printer, int schema, const char *bytes, int length);
static Oid	class_of_field(const char *field, int length);
static bool is_one_of(const char *const *names, int n, const char *field, int length);
static const char *put_oids(Fingerprinter *printer, int schema, Oid classid, const char *at);
static const char *put_value(Fingerprinter *printer, int schema, Oid type, const char *at);
static int	read_bytes(const char *at, char *bytes, const char **end);
static void put_words(Fingerprinter *printer, int schema, Oid classid, const char *bytes, int from, int to);
static void mark_token(Fingerprinter *printer, int schema, const char *tree);

/* The name as outToken() of nodes/outfuncs.c writes it. */
char *
fingerprint_token(const char *name)
{
	char	   *token = nodeToString(makeString(pstrdup(name)));

	/* a node of a string has quotes */
	token[strlen(token) - 1] = '\0';
	return token + 1;
}

/* With its length, so that what is written can be read in one way only. */
static void
put_piece(Fingerprinter *printer, const char *from, const char *to)
{
	int			length = to - from;

	appendBinaryStringInfo(&printer->row, (const char *) &length, sizeof(int));
	appendBinaryStringInfo(&printer->row, from, length);
}

/* Does it have the schema's name before a dot, wherever? */
static bool
has_name(const Fingerprinter *printer, int schema, const char *bytes, int length)
{
	const char *quoted = printer->schemas[schema].quoted;
	int			quoted_length = strlen(quoted);
	const char *end = bytes + length;
	const char *at = bytes;

	while (end - at >= quoted_length &&
		   (at = memchr(at, quoted[0], end - at - quoted_length + 1)) != NULL)
	{
		if (memcmp(at, quoted, quoted_length) == 0)
			return true;
		at++;
	}
	return false;
}

/*
 * The body of a function, of which the schema's name is no part where the code
 * has it before a dot. In strings it is, and everywhere where it can be the
 * name of something else, too; a body in another language than SQL's is read as
 * if it were one of these.
 */
void
fingerprint_put_body(Fingerprinter *printer, int schema, const char *bytes, int length)
{
	List	   *pieces = NIL;
	ListCell   *lc;

	if (has_name(printer, schema, bytes, length))
		pieces = body_split(pnstrdup(bytes, length), printer->schemas[schema].name);
	if (pieces == NIL)
	{
		fingerprint_put_bytes(printer, schema, bytes, length);
		return;
	}
	foreach(lc, pieces)
	{
		const char *piece = lfirst(lc);

		if (foreach_current_index(lc) > 0)
			appendStringInfoChar(&printer->row, MARK_NAME);
		put_piece(printer, piece, piece + strlen(piece));
	}
	appendStringInfoChar(&printer->row, MARK_END);
}

/*
 * Any other bytes. They count as they are, and the schema's name before a dot
 * makes them different from those of all other schemas: definitions tell
 * whether it is a name there.
 */
void
fingerprint_put_bytes(Fingerprinter *printer, int schema, const char *bytes, int length)
{
	if (has_name(printer, schema, bytes, length))
		appendStringInfoChar(&printer->row, MARK_OTHER_NAME);
	put_piece(printer, bytes, bytes + length);
	appendStringInfoChar(&printer->row, MARK_END);
}

/* The name of an object, a column or the like. */
void
fingerprint_put_name(Fingerprinter *printer, int schema, const char *name)
{
	if (strcmp(name, printer->schemas[schema].name) == 0)
		appendStringInfoChar(&printer->row, MARK_OTHER_NAME);
	fingerprint_put_bytes(printer, schema, name, strlen(name));
}

/* Schemas of a search path, of which this one can be a part. */
void
fingerprint_put_path(Fingerprinter *printer, int schema, const List *names)
{
	ListCell   *lc;

	foreach(lc, names)
	{
		if (strcmp(lfirst(lc), printer->schemas[schema].name) == 0)
			appendStringInfoChar(&printer->row, MARK_NAME);
		else
			put_piece(printer, lfirst(lc), (char *) lfirst(lc) + strlen(lfirst(lc)));
	}
	appendStringInfoChar(&printer->row, MARK_END);
}

/* A stored expression. */
void
fingerprint_put_tree(Fingerprinter *printer, int schema, const char *tree)
{
	const char *at = tree = fingerprint_settle_tree(tree);
	const char *piece = tree;
	Oid			type = InvalidOid;	/* of the last constant */

	mark_token(printer, schema, tree);
	while (*at != '\0')
	{
		const char *field;
		int			length;
		Oid			classid;

		if (*at == '\\' && at[1] != '\0')
		{
			at += 2;
			continue;
		}
		if (at[0] != ' ' || at[1] != ':')
		{
			at++;
			continue;
		}
		field = at + 2;
		length = strcspn(field, " \\(){}");
		at = field + length;
		if (*at != ' ' || length == 0)
			continue;

		/* the place behind the field's name */
		at++;
		if (is_one_of(place_fields, lengthof(place_fields), field, length))
		{
			put_piece(printer, piece, at);
			appendStringInfoChar(&printer->row, MARK_PLACE);
			at += strspn(at, "-0123456789");
			piece = at;
			continue;
		}
		if (length == strlen("constvalue") && strncmp(field, "constvalue", length) == 0)
		{
			put_piece(printer, piece, at);
			at = piece = put_value(printer, schema, type, at);
			continue;
		}
		classid = class_of_field(field, length);
		if (!OidIsValid(classid))
			continue;
		put_piece(printer, piece, at);
		if (length == strlen("consttype") && strncmp(field, "consttype", length) == 0)
			type = (Oid) strtoul(at, NULL, 10);
		at = piece = put_oids(printer, schema, classid, at);
	}
	put_piece(printer, piece, at);
	appendStringInfoChar(&printer->row, MARK_END);
}

static Oid
class_of_field(const char *field, int length)
{
	for (int i = 0; i < lengthof(oid_fields); i++)
		if (is_one_of(oid_fields[i].names, oid_fields[i].n, field, length))
			return oid_fields[i].classid;
	return InvalidOid;
}

/* There are many fields, and few of them are in a list: most are told by a letter. */
static bool
is_one_of(const char *const *names, int n, const char *field, int length)
{
	for (int i = 0; i < n; i++)
		if (names[i][0] == field[0] && strncmp(names[i], field, length) == 0 && names[i][length] == '\0')
			return true;
	return false;
}

/* A field's value: an OID or a list of them, "(o 1 2)"; anything else is left to the caller. Returns what follows. */
static const char *
put_oids(Fingerprinter *printer, int schema, Oid classid, const char *at)
{
	bool		list = strncmp(at, "(o ", 3) == 0;

	if (list)
		at += 3;
	while (isdigit((unsigned char) *at))
	{
		char	   *end;

		appendStringInfoChar(&printer->row, MARK_OID);
		fingerprint_put_oid(printer, schema, classid, (Oid) strtoul(at, &end, 10));
		at = end;
		if (!list || *at != ' ')
			break;
		at++;
	}
	return at;
}

/*
 * The value of a constant: "4 [ 1 2 0 0 0 0 0 0 ]". OIDs are in those of
 * enums, of arrays of them, and of references to objects; and in the headers
 * of rows, ranges and arrays. Returns what follows.
 */
static const char *
put_value(Fingerprinter *printer, int schema, Oid type, const char *at)
{
	const FingerprintMember *member = fingerprint_find(printer, schema, TypeRelationId, type);
	const char *end;
	char	   *bytes;
	int			length;
	char		kind = member == NULL ? '\0' : member->kind;

	/* null, or a name that only looks like it */
	if (!isdigit((unsigned char) *at))
		return at;
	bytes = palloc(strcspn(at, "]") / 2 + 1);
	length = read_bytes(at, bytes, &end);
	if (length < 0)
		return at;

	appendStringInfoChar(&printer->row, MARK_VALUE);
	appendBinaryStringInfo(&printer->row, (const char *) &length, sizeof(int));

	if (kind == TYPTYPE_ENUM)
		put_words(printer, schema, EnumRelationId, bytes, 0, length);
	else if (type == REGCLASSOID)
		put_words(printer, schema, RelationRelationId, bytes, 0, length);
	else if (type == REGTYPEOID)
		put_words(printer, schema, TypeRelationId, bytes, 0, length);
	else if (type == REGPROCOID || type == REGPROCEDUREOID)
		put_words(printer, schema, ProcedureRelationId, bytes, 0, length);
	else
	{
		/*
		 * where the type's own OID is: see ArrayType, RangeType and
		 * HeapTupleHeader
		 */
		int			place = kind == TYPE_ARRAY ? 3 : kind == TYPE_OF_ROW || kind == TYPTYPE_COMPOSITE ? 2 :
			kind == TYPTYPE_RANGE || kind == TYPTYPE_MULTIRANGE ? 1 : -1;
		int			done = 0;

		if (place > 0 && length >= (place + 1) * (int) sizeof(Oid))
		{
			appendBinaryStringInfo(&printer->row, bytes, place * sizeof(Oid));
			done = (place + 1) * sizeof(Oid);
			put_words(printer, schema, TypeRelationId, bytes, place * sizeof(Oid), done);
		}
		if (kind == TYPE_ARRAY && length > done)
		{
			const FingerprintMember *element = fingerprint_find(printer, schema, TypeRelationId, member->element);
			int32		head[3];

			memcpy(head, bytes, sizeof(head));
			/* without nulls the elements follow the dimensions */
			if (element != NULL && element->kind == TYPTYPE_ENUM && head[2] == 0 && head[1] > 0 &&
				head[1] <= (length - done) / 8)
			{
				appendBinaryStringInfo(&printer->row, bytes + done, head[1] * 8);
				done += head[1] * 8;
				put_words(printer, schema, EnumRelationId, bytes, done, length);
				done = length;
			}
		}
		appendBinaryStringInfo(&printer->row, bytes + done, length - done);
	}
	pfree(bytes);
	return end;
}

/* The bytes of a constant's value, and what follows them; -1 if the text is not one. */
static int
read_bytes(const char *at, char *bytes, const char **end)
{
	int			n = 0;

	at += strspn(at, "0123456789");
	if (strncmp(at, " [ ", 3) != 0)
		return -1;
	at += 3;
	while (*at != ']')
	{
		char	   *next;

		bytes[n++] = (char) strtol(at, &next, 10);
		if (next == at || *next != ' ')
			return -1;
		at = next + 1;
	}
	*end = at + 1;
	return n;
}

/* Bytes from … to - 1, four at a time, as OIDs. */
static void
put_words(Fingerprinter *printer, int schema, Oid classid, const char *bytes, int from, int to)
{
	for (; from + (int) sizeof(Oid) <= to; from += sizeof(Oid))
	{
		Oid			oid;

		memcpy(&oid, bytes + from, sizeof(Oid));
		fingerprint_put_oid(printer, schema, classid, oid);
	}
	appendBinaryStringInfo(&printer->row, bytes + from, to - from);
}

/* A mark where an alias, or the like, has the schema's name. */
static void
mark_token(Fingerprinter *printer, int schema, const char *tree)
{
	const char *token = printer->schemas[schema].token;
	int			length = strlen(token);

	for (const char *at = tree; (at = strstr(at, token)) != NULL; at++)
	{
		unsigned char before = at == tree ? ' ' : (unsigned char) at[-1];
		unsigned char after = (unsigned char) at[length];

		/* another word has it in itself */
		if (isalnum(before) || before == '_' || before == '$' ||
			isalnum(after) || after == '_' || after == '$')
			continue;
		appendStringInfoChar(&printer->row, MARK_OTHER_NAME);
		return;
	}
}
